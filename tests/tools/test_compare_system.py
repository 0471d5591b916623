"""The saved system beside this one: a difference is marked where it keeps SB3 from loading what is in the archive."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from typing import Any

import pytest

import sbformat
from conformance.generators.build_zips import sb3_archive
from sbformat.data import Serialized, dumps
from sbformat.errors import DataError
from sbformat.tools.compare_system import SystemRow, compare_system

SAVED = {
    "OS": "Linux-6.1.0-x86_64-with-glibc2.36 # 1 SMP",
    "Python": "3.11.2",
    "Stable-Baselines3": "2.3.2",
    "PyTorch": "2.3.0+cpu",
    "GPU Enabled": "False",
    "Numpy": "1.26.4",
    "Cloudpickle": "3.0.0",
    "Gymnasium": "0.29.1",
}
HERE = {
    "stable-baselines3": "2.3.2",
    "torch": "2.3.0",
    "numpy": "1.26.4",
    "cloudpickle": "3.0.0",
    "gymnasium": "0.29.1",
    "gym": None,
}
FUNCTION = b"cloudpickle.cloudpickle _make_function"


def rows(
    monkeypatch: pytest.MonkeyPatch,
    saved: dict[str, str | None] | None = None,
    here: dict[str, Any] | None = None,
    blobs: dict[str, bytes] | None = None,
) -> dict[str, SystemRow]:
    """Compare, on a machine that is made up."""
    installed = {**HERE, **(here or {})}

    def version(package: str) -> str:
        if installed[package] is None:
            raise metadata.PackageNotFoundError(package)
        return str(installed[package])

    monkeypatch.setattr(metadata, "version", version)
    monkeypatch.setattr(sys, "version_info", (*map(int, installed.get("python", "3.11.2").split(".")), "final", 0))
    monkeypatch.setattr(sys, "byteorder", installed.get("byteorder", "little"))
    system = {name: value for name, value in {**SAVED, **(saved or {})}.items() if value is not None}
    text = "".join(f"- {name}: {value}\n" for name, value in system.items())
    data = {key: Serialized("<class 'x'>", blob) for key, blob in (blobs or {}).items()}
    archive = sbformat.reads(sb3_archive(entries={"system_info.txt": text.encode(), "data": dumps(data)}))
    return {row.name: row for row in compare_system(archive)}


def test_the_same_system_differs_in_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = rows(monkeypatch, blobs={"lr_schedule": FUNCTION, "observation_space": b"gymnasium.spaces.box"})
    assert list(found) == [*SAVED, "OpenAI Gym"]
    assert not [row for row in found.values() if row.matters]
    assert found["Python"] == SystemRow("Python", "3.11.2", "3.11.2", matters=False, why="")
    assert found["OpenAI Gym"] == SystemRow("OpenAI Gym", None, None, matters=False, why="")


def test_the_gpu_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    row = rows(monkeypatch)["GPU Enabled"]
    assert (row.saved, row.here, row.matters) == ("False", "not checked", False)
    assert "torch would have to be imported" in row.why


LOAD = b"torch.storage _load_from_bytes"
CASES: dict[str, tuple[str, str | None, dict[str, Any], dict[str, bytes], bool, str]] = {
    # name of the case: row, saved, here, blobs, matters, a part of why
    "python-minor": ("Python", "3.10.2", {}, {"lr_schedule": FUNCTION}, True, "bytecode"),
    "python-minor-newer": ("Python", "3.13.0", {}, {"lr_schedule": FUNCTION}, True, "lr_schedule"),
    "python-patch": ("Python", "3.11.9", {}, {"lr_schedule": FUNCTION}, False, ""),
    "python-minor-no-functions": ("Python", "3.10.2", {}, {}, False, "no functions by value"),
    "python-unknown": ("Python", None, {}, {"lr_schedule": FUNCTION}, False, ""),
    "python-nonsense": ("Python", "pypy", {}, {"lr_schedule": FUNCTION}, False, ""),
    "sb3-absent": ("Stable-Baselines3", "2.3.2", {"stable-baselines3": None}, {}, True, "not installed"),
    "sb3-patch": ("Stable-Baselines3", "2.3.0", {}, {}, False, ""),
    "sb3-older": ("Stable-Baselines3", "2.0.0", {}, {}, True, "default"),
    "sb3-newer": ("Stable-Baselines3", "2.9.2", {}, {}, True, "older release lacks"),
    "sb3-shared-layers": ("Stable-Baselines3", "1.7.0", {}, {}, True, "share"),
    "torch-absent": ("PyTorch", "2.3.0", {"torch": None}, {}, True, "not installed"),
    "torch-minor": ("PyTorch", "2.1.0", {}, {}, False, ""),
    "torch-major": ("PyTorch", "1.13.1+cu117", {}, {}, True, "major"),
    "torch-new-dtypes": ("PyTorch", "2.6.0", {"torch": "2.2.0"}, {}, True, "dtypes"),
    "torch-newer-enough": ("PyTorch", "2.6.0", {}, {}, False, ""),
    "torch-zip": ("PyTorch", "1.13.1", {"torch": "1.5.0"}, {}, True, "zip"),
    "numpy-absent": ("Numpy", "1.26.4", {"numpy": None}, {}, True, "not installed"),
    "numpy-1-to-2": ("Numpy", "1.26.4", {"numpy": "2.1.0"}, {}, False, "reads the arrays"),
    "numpy-1-to-2-code": ("Numpy", "1.26.4", {"numpy": "2.1.0"}, {"f": FUNCTION + b"numpy"}, True, "removed: f"),
    "numpy-2-to-1": ("Numpy", "2.1.0", {}, {"_last_obs": b"numpy._core.numeric"}, True, "_last_obs fail"),
    "numpy-2-to-1-no-arrays": ("Numpy", "2.1.0", {}, {}, False, "no pickled arrays"),
    "numpy-minor": ("Numpy", "1.20.0", {}, {"_last_obs": b"numpy.core.numeric"}, False, ""),
    "cloudpickle-absent": ("Cloudpickle", "3.0.0", {"cloudpickle": None}, {}, True, "not installed"),
    "cloudpickle-removed": ("Cloudpickle", None, {}, {"f": b"_make_skel_func"}, True, "functions in f"),
    "cloudpickle-lacks": ("Cloudpickle", "3.0.0", {"cloudpickle": "2.0.0"}, {"f": FUNCTION}, True, "before 2.1"),
    "cloudpickle-other": ("Cloudpickle", "2.2.1", {}, {"f": FUNCTION}, False, ""),
    "gymnasium-absent": ("Gymnasium", "0.29.1", {"gymnasium": None}, {"s": b"gymnasium.spaces.box"}, True, "s use"),
    "gymnasium-absent-unused": ("Gymnasium", "0.29.1", {"gymnasium": None}, {"s": b"gym.spaces.box"}, False, ""),
    "gym-absent": ("OpenAI Gym", "0.21.0", {}, {"s": b"gym.spaces.box"}, True, "shimmy"),
    "gym-absent-unused": ("OpenAI Gym", "0.21.0", {}, {"s": b"gymnasium.spaces.box"}, False, ""),
    "gym-shape": ("OpenAI Gym", "0.19.0", {"gym": "0.21.0"}, {"s": b"gym.spaces.box"}, True, "_shape"),
    "gym-same": ("OpenAI Gym", "0.21.0", {"gym": "0.21.0"}, {"s": b"gym.spaces.box"}, False, ""),
    "gpu-tensors": ("GPU Enabled", "True", {}, {"weights": LOAD}, True, "weights"),
    "gpu-none": ("GPU Enabled", "True", {}, {}, False, "Not checked"),
    "big-endian": ("OS", "Linux-6.1-s390x-with-glibc2.36", {}, {}, True, "byte order"),
    "both-big-endian": ("OS", "Linux-6.1-s390x-with-glibc2.36", {"byteorder": "big"}, {}, False, ""),
    "little-powerpc": ("OS", "Linux-6.1-ppc64le-with-glibc2.36", {}, {}, False, ""),
    "paths": ("OS", "Windows-10-10.0.19041-SP0 10.0.19041", {}, {"log": b"pathlib WindowsPath"}, True, "log"),
    "windows": ("OS", "Windows-10-10.0.19041-SP0 10.0.19041", {}, {}, False, ""),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_difference_is_marked_where_it_matters(monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    name, saved, here, blobs, matters, why = CASES[case]
    monkeypatch.setattr("platform.uname", _Uname)
    row = rows(monkeypatch, {name: saved}, here, blobs)[name]
    assert row.saved == saved
    assert row.matters is matters
    assert why in row.why
    assert bool(row.why) == (matters or bool(why))
    assert not row.matters or row.why.endswith(".")


class _Uname:
    system, release, machine, version = "Linux", "6.1", "x86_64", "#1 SMP"


def test_gym_is_called_gym_before_sb3_2(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rows(monkeypatch, {"Gym": "0.21.0", "Gymnasium": None})["OpenAI Gym"].saved == "0.21.0"


def test_without_system_info_the_version_entry_tells_the_release_of_sb3() -> None:
    archive = sbformat.reads(sb3_archive(entries={"_stable_baselines3_version": b"1.0", "data": b"{}"}))
    archive = archive.without("system_info.txt")
    assert archive.system_info is None
    found = {row.name: row for row in compare_system(archive)}
    assert found["Stable-Baselines3"].saved == "1.0"
    assert {row.saved for name, row in found.items() if name != "Stable-Baselines3"} == {None}
    assert found["Python"].here == ".".join(map(str, sys.version_info[:3]))


def test_data_that_cannot_be_read_leaves_the_releases() -> None:
    entries = {"system_info.txt": b"- Python: 2.7.1\n", "data": b"{"}
    found = compare_system(sbformat.reads(sb3_archive(entries=entries)))
    assert found[1].saved == "2.7.1"


def test_system_info_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(DataError):
        compare_system(sbformat.reads(sb3_archive(entries={"system_info.txt": b"\xff", "data": b"{}"})))


def test_what_is_not_installed_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    archive = sbformat.reads(sb3_archive(entries={"data": b"{}"}))
    assert {row.name: row.here for row in compare_system(archive)}["Numpy"] == metadata.version("numpy")

    def refuse(_: str) -> str:
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(metadata, "version", refuse)
    assert {row.name: row.here for row in compare_system(archive)}["Numpy"] is None


def test_nothing_is_imported_or_run_to_know_what_is_here() -> None:
    code = """
import sys, sbformat
from sbformat.tools.compare_system import compare_system
started = []
sys.addaudithook(lambda event, args: started.append(event) if event in ("subprocess.Popen", "os.system") else None)
rows = compare_system(sbformat.read(sys.argv[1]))
assert len(rows) == 9 and not started, started
assert not {"torch", "numpy", "stable_baselines3", "gymnasium", "gym", "cloudpickle"} & set(sys.modules)
"""
    from tests.helpers.bundled import PPO

    subprocess.run([sys.executable, "-c", code, str(PPO)], check=True)
