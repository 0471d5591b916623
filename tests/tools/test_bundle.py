"""Bundles: an archive and its normalisation statistics in one file, and apart again."""

from __future__ import annotations

import json
import os
import struct
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
from safetensors.numpy import load, save

import sbformat
from sbformat import (
    ContainerError,
    DataError,
    LimitError,
    Limits,
    MissingEntryError,
    RunningMeanStd,
    SbformatError,
    Serialized,
    TensorError,
    UnsupportedError,
    ValidationError,
    VecNormalize,
    read_vecnormalize,
    unbundle,
)
from sbformat.cli import main
from sbformat.constants import ARRAYS_ENTRY, SETTINGS_ENTRY
from sbformat.known.spaces import (
    Box,
    DictSpace,
    Discrete,
    Graph,
    MultiBinary,
    MultiDiscrete,
    OneOf,
    Sequence,
    Text,
    TupleSpace,
)
from sbformat.pkl.numpy import ArrayInfo
from sbformat.values import encode
from tests.cli.test_commands import run, run_json
from tests.cli.test_writing import failure
from tests.helpers.build_blobs import new
from tests.helpers.build_statistics import ABSENT, SB2, pickled, returns, rms, whole, with_keys
from tests.helpers.bundled import PPO, SAC, entries, zipped
from tests.helpers.many_cases import check_each

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Capture = pytest.CaptureFixture[str]

bundle = partial(sbformat.bundle, allow_mismatch=True)
"""The statistics here are of three numbers, or of keys; the agent's observations of four."""

BUNDLE: Final = ("bundle", "--allow-mismatch")

VALUES: Final = {
    "sb3": whole(),
    "sb2": whole(SB2, num_envs=ABSENT),
    "keys": with_keys(),
    "no keys": with_keys(norm_obs_keys=[], obs_rms={}),
    "statistics alone": rms(library=SB2),
    "returns alone": returns(SB2),
    "nothing normalised": whole(
        norm_obs=False, norm_reward=False, obs_rms=ABSENT, ret_rms=ABSENT, old_obs=ABSENT, old_reward=ABSENT
    ),
    "odd numbers": whole(
        obs_rms=rms(var=(-1.0, float("nan"), -0.0)), clip_obs=float("inf"), clip_reward=-0.0, gamma=float("nan")
    ),
}


@cache
def value_of(name: str) -> VecNormalize:
    return read_vecnormalize(pickled(VALUES[name]))


def held(items: Any, code: str) -> ArrayInfo:
    array = np.asarray(items, code)
    return ArrayInfo(code, array.shape, "C", array.tobytes(), is_scalar=False)


# -- both ways ----------------------------------------------------------------------------------------


@check_each("name", VALUES)
@check_each("path", [PPO, SAC])
def test_what_goes_in_comes_out(path: Path, name: str) -> None:
    """``unbundle(bundle(a, v))`` is a and v, entry for entry and field for field."""
    archive, value = sbformat.read(path), value_of(name)
    data = sbformat.writes(bundle(archive, value))
    made = sbformat.reads(data)
    assert list(made.entries)[:-2] == list(archive.entries)
    assert list(made.extra) == [SETTINGS_ENTRY, ARRAYS_ENTRY]
    for entry in archive.entries:
        assert bytes(made.raw(entry)) == bytes(archive.raw(entry))
    again, statistics = unbundle(made)
    assert statistics == value
    assert again == archive
    assert {entry: bytes(again.raw(entry)) for entry in again.entries} == entries(path)
    assert read_vecnormalize(data) == value
    assert sbformat.writes(bundle(archive, value)) == data
    assert sbformat.writes(again) == sbformat.writes(archive)


def test_the_entries_are_plain_json_and_safetensors() -> None:
    made = bundle(sbformat.read(PPO), value_of("sb3"))
    settings = json.loads(made.extra[SETTINGS_ENTRY])
    assert {key: value for key, value in settings.items() if not key.endswith("_space")} == {
        "format_version": 1, "library": "stable_baselines3", "num_envs": 1, "training": True, "norm_obs": True,
        "norm_reward": True, "clip_obs": 5.0, "clip_reward": 10.0, "gamma": 0.99, "epsilon": 1e-8,
        "norm_obs_keys": None, "obs_rms": "array", "ret_rms": "array", "old_obs": "array", "old_reward": "array",
    }  # fmt: skip
    assert settings["action_space"] == {
        "type": "Discrete", "library": "gymnasium", "n": 2, "start": 0, "dtype": "<i8",
    }  # fmt: skip
    assert settings["observation_space"]["low"] == {"dtype": "<f4", "shape": [3], "items": [-1.0, -2.0, "-Infinity"]}
    arrays = load(made.extra[ARRAYS_ENTRY])
    assert {name: (array.dtype.name, array.shape) for name, array in arrays.items()} == {
        "obs_rms.mean": ("float64", (3,)), "obs_rms.var": ("float64", (3,)), "obs_rms.count": ("float64", ()),
        "ret_rms.mean": ("float64", ()), "ret_rms.var": ("float64", ()), "ret_rms.count": ("float64", ()),
        "old_obs": ("float32", (1, 3)), "old_reward": ("float32", (1,)),
    }  # fmt: skip


def test_keys_have_arrays_by_name() -> None:
    made = bundle(sbformat.read(PPO), value_of("keys"))
    settings = json.loads(made.extra[SETTINGS_ENTRY])
    assert settings["obs_rms"] == settings["norm_obs_keys"] == ["vector"]
    assert settings["old_obs"] == ["image", "vector"]
    assert set(load(made.extra[ARRAYS_ENTRY])) == {
        "obs_rms/vector.mean", "obs_rms/vector.var", "obs_rms/vector.count", "ret_rms.mean", "ret_rms.var",
        "ret_rms.count", "old_obs/image", "old_obs/vector", "old_reward",
    }  # fmt: skip
    image = settings["observation_space"]["spaces"][0]
    assert image[0] == "image"
    assert image[1]["high"] == {"dtype": "|u1", "shape": [2, 2], "items": 255}


def test_odd_keys_have_names_of_their_own() -> None:
    part = RunningMeanStd(np.zeros(1), np.ones(1), 1.0)
    keys = ["", "/", "a/b", "a.mean", "a", "__metadata__", "\0", "é", "obs_rms"]
    value = VecNormalize(obs_rms=dict.fromkeys(keys, part), ret_rms=RunningMeanStd(np.zeros(()), np.ones(()), 1.0))
    assert unbundle(bundle(sbformat.read(PPO), value)).vecnormalize == value
    lone = VecNormalize(obs_rms={"\ud800": part}, norm_reward=False)
    with pytest.raises(UnsupportedError, match="not valid UTF-8"):
        bundle(sbformat.read(PPO), lone)


def boxes(code: str, low: Any, high: Any, **more: Any) -> Box:
    return Box("gym", np.shape(low), code, held(low, code), held(high, code), None, **more)


BOX: Final = boxes("<f4", [-1.0, 0.1], [1.0, np.inf], bounded_below=held([True, True], "|b1"))
SPACES: Final = [
    BOX,
    boxes("<f8", [[0.1]], [[1e300]]),
    boxes("<f2", 0.5, 1.5),
    boxes("|u1", np.zeros((2, 2)), np.full((2, 2), 255)),
    boxes("<i8", [-(2**63)], [2**63 - 1]),
    boxes("<f4", np.zeros((0, 3)), np.zeros((0, 3))),
    boxes("<f4", [-0.0, 0.0], [np.nan, 1.0]),
    Discrete("gymnasium", 3, -1, "<i8", None),
    MultiDiscrete("gymnasium", held([2, 3], "<i8"), held([0, 1], "<i8"), "<i8", None),
    MultiDiscrete("gym", held([2, 3], "<i8"), None, "<i8", None),
    MultiBinary("gym", (2, 3), "|i1", None),
    DictSpace("gymnasium", {"b": BOX, "a": Discrete("gym", 2, 0, "<i8", None)}, None, sort_keys=False),
    DictSpace("gymnasium", {}, None),
    TupleSpace("gymnasium", (BOX, BOX), None),
    OneOf("gymnasium", (BOX,), None),
    Text("gymnasium", 0, 3, "abc\ud800", None),
    Sequence("gymnasium", BOX, True, None),
    Graph("gymnasium", BOX, None, None),
    Graph("gymnasium", BOX, Discrete("gymnasium", 2, 0, "<i8", None), None),
]


@check_each("space", SPACES)
def test_every_space_comes_out(space: Any) -> None:
    value = VecNormalize(norm_obs=False, norm_reward=False, observation_space=space, action_space=space)
    assert unbundle(bundle(sbformat.read(PPO), value)).vecnormalize == value


def test_a_space_that_cannot_be_held_exactly_is_refused() -> None:
    odd_nan = ArrayInfo("<f4", (1,), "C", struct.pack("<I", 0x7FC00001), is_scalar=False)
    space = Box("gym", (1,), "<f4", odd_nan, odd_nan, None)
    with pytest.raises(UnsupportedError, match="exactly"):
        bundle(sbformat.read(PPO), VecNormalize(norm_obs=False, norm_reward=False, action_space=space))
    numbers = held([1j], "<c8")
    with pytest.raises(UnsupportedError, match="expected an array of plain numbers"):
        bundle(
            sbformat.read(PPO),
            VecNormalize(
                norm_obs=False, norm_reward=False, action_space=Box("gym", (1,), "<c8", numbers, numbers, None)
            ),
        )
    with pytest.raises(UnsupportedError, match="that safetensors supports"):
        bundle(sbformat.read(PPO), VecNormalize(norm_obs=False, norm_reward=False, old_obs=np.array([1j])))


def test_keys_that_stand_twice_are_refused() -> None:
    value = read_vecnormalize(pickled(with_keys(norm_obs_keys=["vector", "vector"])))
    with pytest.raises(UnsupportedError, match="exactly"):
        bundle(sbformat.read(PPO), value)


def test_parts_that_are_shared_do_not_multiply() -> None:
    """A space of shared parts, 8**19 of them by path, is refused before it is written out."""
    space: Any = Discrete("gym", 2, 0, "<i8", None)
    for _ in range(19):
        space = TupleSpace("gym", (space,) * 8, None)
    with pytest.raises(LimitError):
        bundle(sbformat.read(PPO), VecNormalize(norm_obs=False, norm_reward=False, action_space=space))


# -- what is refused ----------------------------------------------------------------------------------


def test_a_bundle_is_not_bundled_again_unasked() -> None:
    archive = bundle(sbformat.read(PPO), value_of("sb3"))
    with pytest.raises(UnsupportedError, match="already contains statistics"):
        bundle(archive, value_of("keys"))
    again = bundle(archive, value_of("keys"), overwrite=True)
    assert unbundle(again).vecnormalize == value_of("keys")
    assert unbundle(again).archive == sbformat.read(PPO)


def test_what_is_no_whole_archive_holds_no_statistics() -> None:
    lone = sbformat.read(entries(PPO)["policy.pth"])
    with pytest.raises(UnsupportedError, match="expected a whole archive"):
        bundle(lone, value_of("sb3"))


@pytest.mark.parametrize("name", [SETTINGS_ENTRY, ARRAYS_ENTRY])
def test_half_a_bundle_is_none(name: str) -> None:
    archive = bundle(sbformat.read(PPO), value_of("sb3")).without(name)
    with pytest.raises(MissingEntryError, match=name):
        unbundle(archive)
    with pytest.raises(MissingEntryError):
        unbundle(sbformat.read(PPO))
    assert unbundle(bundle(archive, value_of("sb3"), overwrite=True)).archive == sbformat.read(PPO)


@cache
def bundle_keys() -> sbformat.Archive:
    return bundle(sbformat.read(PPO), value_of("keys"))


def changed(settings: Callable[[dict[str, Any]], Any] | bytes = b"", arrays: Any = None) -> sbformat.Archive:
    """A bundle by one change: settings or arrays changed in place, or other bytes."""
    made = bundle_keys()
    extra = dict(made.extra)
    if callable(settings):
        found = json.loads(extra[SETTINGS_ENTRY])
        settings(found)
        extra[SETTINGS_ENTRY] = json.dumps(found).encode()
    elif settings:
        extra[SETTINGS_ENTRY] = settings
    if callable(arrays):
        held_arrays = {name: np.array(array) for name, array in load(extra[ARRAYS_ENTRY]).items()}
        extra[ARRAYS_ENTRY] = save(arrays(held_arrays) or held_arrays)
    elif arrays is not None:
        extra[ARRAYS_ENTRY] = arrays
    return made.replace(extra=extra)


def put(*path: Any, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(found: Any) -> None:
        for part in path[:-1]:
            found = found[part]
        found[path[-1]] = to

    return change


IMAGE: Final = ("observation_space", "spaces", 0, 1)
BAD_SETTINGS: Final[list[Any]] = [
    b"", b"[]", b"{}", b"{", b'{"format_version": 1, "format_version": 1}', b"\xff",
    put("format_version", to=0), put("format_version", to=True), put("format_version", to="1"),
    put("mine", to=1), lambda found: found.pop("gamma"), lambda found: found.pop("action_space"),
    put("library", to="mine"), put("library", to=None), put("library", to=[]), put("num_envs", to=1.0),
    put("num_envs", to=True), put("training", to=1), put("norm_obs", to=None), put("clip_obs", to="5"),
    put("clip_obs", to=None), put("clip_obs", to=True), put("clip_obs", to=float("nan")), put("clip_obs", to=10**400),
    put("clip_obs", to=2**63 + 1), put("norm_obs_keys", to="vector"), put("norm_obs_keys", to=[1]),
    put("norm_obs_keys", to=["vector", "vector"]), put("obs_rms", to="dict"), put("obs_rms", to=[None]),
    put("ret_rms", to=[]), put("old_reward", to=["a"]), put("ret_rms", to=True),
    put("observation_space", to=3), put("observation_space", to={}), put("observation_space", to={"type": "Mine"}),
    put("observation_space", to={"type": ["Box"]}), put("observation_space", "mine", to=1),
    put("observation_space", "library", to="mine"), put("observation_space", "library", to=[]),
    put("observation_space", "sort_keys", to=1), put("observation_space", "spaces", to={}),
    put("observation_space", "spaces", 0, to=["image"]), put("observation_space", "spaces", 0, 0, to=1),
    put("observation_space", "spaces", 0, 0, to="vector"), put("observation_space", "spaces", 0, 1, to=None),
    put("action_space", "n", to=2.0), put("action_space", "dtype", to="O"), put("action_space", "dtype", to=["<i8"]),
    put("action_space", "start", to=None),
    put(*IMAGE, "low", to=None), put(*IMAGE, "low", to=[0]), put(*IMAGE, "low", "mine", to=1),
    put(*IMAGE, "low", "dtype", to="u1"), put(*IMAGE, "low", "dtype", to="|O8"), put(*IMAGE, "low", "dtype", to="<c8"),
    put(*IMAGE, "low", "dtype", to=["|u1"]), put(*IMAGE, "low", "shape", to=[4]),
    put(*IMAGE, "low", "shape", to=[2, -2]),
    put(*IMAGE, "low", "shape", to=[2, 2.0]), put(*IMAGE, "low", "shape", to=4),
    put(*IMAGE, "low", "shape", to=[1] * 65),
    put(*IMAGE, "low", "shape", to=[2**40, 2**40]), put(*IMAGE, "low", "items", to=256),
    put(*IMAGE, "low", "items", to=-1), put(*IMAGE, "low", "items", to=0.0), put(*IMAGE, "low", "items", to=True),
    put(*IMAGE, "low", "items", to=[0, 0, 0]), put(*IMAGE, "low", "items", to=[0, 0, 0, "0"]),
    put(*IMAGE, "low", "items", to="NaN"), put(*IMAGE, "bounded_below", "items", to=1), put(*IMAGE, "shape", to=[2]),
    put(*IMAGE, "low", "items", to=[[0, 0], [0, 0]]), put(*IMAGE, "dtype", to="<m8"),
]  # fmt: skip


@check_each("change", BAD_SETTINGS)
def test_settings_that_break_the_format_are_refused(change: Any) -> None:
    with pytest.raises(DataError) as caught:
        unbundle(changed(change) if callable(change) or change else changed().replace(extra={SETTINGS_ENTRY: b""}))
    assert caught.value.entry == SETTINGS_ENTRY


def test_what_a_float32_does_not_hold_is_no_bound() -> None:
    vector = ("observation_space", "spaces", 1, 1)
    for odd in (0.1, 1e300, 2**25 + 1):
        with pytest.raises(DataError, match="does not fit into <f4"):
            unbundle(changed(put(*vector, "low", "items", to=odd)))
    found = unbundle(changed(put(*vector, "low", "items", to=-1))).vecnormalize
    assert found == value_of("keys")  # a whole number is a float, too


def test_a_later_version_is_told() -> None:
    with pytest.raises(UnsupportedError, match="got a later one"):
        unbundle(changed(put("format_version", to=2)))


def test_a_small_file_does_not_ask_for_much_memory() -> None:
    vector = ("observation_space", "spaces", 1, 1, "low", "shape")
    with pytest.raises(LimitError):
        unbundle(changed(put(*vector, to=[2**33])))


def without(*names: str) -> Callable[[dict[str, Any]], None]:
    def change(arrays: dict[str, Any]) -> None:
        for name in names:
            del arrays[name]

    return change


BAD_ARRAYS: Final[list[tuple[Any, type[Exception]]]] = [
    (b"", ContainerError),
    (b"\xff" * 100, ContainerError),
    (without("obs_rms/vector.mean"), TensorError),
    (without("ret_rms.count"), TensorError),
    (without("old_obs/image"), TensorError),
    (put("mine", to=np.zeros(1)), TensorError),
    (put("obs_rms.mean", to=np.zeros(1)), TensorError),
    (put("obs_rms/vector.mean", to=np.zeros(3)), TensorError),
    (put("obs_rms/vector.mean", to=np.zeros((1, 2))), TensorError),
    (put("obs_rms/vector.mean", to=np.zeros(2, "f4")), TensorError),
    (put("obs_rms/vector.count", to=np.zeros(1)), TensorError),
    (put("ret_rms.mean", to=np.zeros(1)), TensorError),
    (lambda arrays: {**arrays, **{f"obs_rms/vector.{name}": np.zeros(3) for name in ("mean", "var")}}, TensorError),
]


@check_each(("change", "error"), BAD_ARRAYS)
def test_arrays_that_do_not_fit_are_refused(change: Any, error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        unbundle(changed(arrays=change))
    assert str(caught.value.entry).startswith(ARRAYS_ENTRY)  # type: ignore[attr-defined]


def test_metadata_is_refused() -> None:
    arrays = load(bundle(sbformat.read(PPO), value_of("keys")).extra[ARRAYS_ENTRY])
    with pytest.raises(TensorError, match="metadata"):
        unbundle(changed(arrays=save(arrays, metadata={"mine": "text"})))


def test_settings_and_arrays_fit_each_other() -> None:
    for change, error in (
        (put("obs_rms", to=None), TensorError),
        (put("observation_space", "spaces", to=[]), MissingEntryError),
        (put("norm_obs_keys", to=["image"]), MissingEntryError),
        (put("obs_rms", to=["image", "vector"]), TensorError),
        (put("old_obs", to=None), TensorError),
        (put("num_envs", to=0), UnsupportedError),
        (put("observation_space", to=None), None),
    ):
        if error is None:
            assert unbundle(changed(change)).vecnormalize.observation_space is None
            continue
        with pytest.raises(error):
            unbundle(changed(change))


@pytest.mark.parametrize("name", [SETTINGS_ENTRY, ARRAYS_ENTRY])
def test_every_cut_and_flip_is_refused_or_read(name: str) -> None:
    made = bundle(sbformat.read(PPO), value_of("statistics alone"))
    content = made.extra[name]
    for place in range(len(content)):
        flipped = bytearray(content)
        flipped[place] ^= 0x01 if place % 2 else 0xFF
        for odd in (content[:place], bytes(flipped)):
            try:
                unbundle(made.replace(extra={name: odd}))
            except SbformatError:
                continue


def test_limits_hold() -> None:
    data = sbformat.writes(bundle(sbformat.read(PPO), value_of("keys")))
    for limits in (Limits(json_nodes=20), Limits(json_bytes=100), Limits(blobs_bytes=3)):
        with pytest.raises(LimitError):
            unbundle(sbformat.reads(data, limits=limits))


def test_rebuild_keeps_statistics() -> None:
    archive = bundle(sbformat.read(PPO), value_of("keys"))
    made, report = sbformat.rebuild(archive)
    assert unbundle(made).vecnormalize == value_of("keys")
    assert {row.entry: row.action for row in report.rows if row.entry in archive.extra} == {
        SETTINGS_ENTRY: "kept", ARRAYS_ENTRY: "kept",
    }  # fmt: skip
    broken = archive.replace(extra={SETTINGS_ENTRY: b"{}"})
    assert SETTINGS_ENTRY not in sbformat.rebuild(broken).archive.entries


def test_a_folder_is_a_bundle_too(tmp_path: Path) -> None:
    made = bundle(sbformat.read(PPO), value_of("keys"))
    for name in made.entries:
        (tmp_path / name).write_bytes(bytes(made.raw(name)))
    assert read_vecnormalize(tmp_path) == value_of("keys")
    assert unbundle(sbformat.read(tmp_path)).archive == sbformat.read(PPO)


def test_a_zip_of_anything_else_is_no_bundle() -> None:
    with pytest.raises(SbformatError):
        read_vecnormalize(zipped({"a": b""}))


# -- the commands -------------------------------------------------------------------------------------


@pytest.fixture
def statistics(tmp_path: Path) -> Path:
    path = tmp_path / "vecnormalize.pkl"
    path.write_bytes(pickled(with_keys()))
    return path


def test_both_commands(capsys: Capture, tmp_path: Path, statistics: Path) -> None:
    made, model, out = tmp_path / "bundle.zip", tmp_path / "model.zip", tmp_path / "out.pkl"
    status, (report,) = run_json(capsys, *BUNDLE, PPO, "--vecnormalize", statistics, "-o", made)
    assert status == 0
    assert report["vecnormalize"]["statistics"] == [
        {"name": "obs_rms", "key": "vector", "shape": [2], "count": 100.0001},
        {"name": "ret_rms", "key": None, "shape": [], "count": 100.0001},
    ]
    assert [row["entry"] for row in report["entries"]] == [SETTINGS_ENTRY, ARRAYS_ENTRY]
    assert sbformat.read(made) == bundle(sbformat.read(PPO), value_of("keys"))
    status, (report,) = run_json(capsys, "unbundle", made, "-o", model, "--vecnormalize", out)
    assert (status, report["output"], report["statistics_output"]) == (0, str(model), str(out))
    assert sbformat.read(model) == sbformat.read(PPO)
    assert read_vecnormalize(out) == value_of("keys")
    status, text = run(capsys, "unbundle", made, "-o", model, "--vecnormalize", out, "--force", "--target", "2.0")
    assert status == 0
    assert "obs_rms of vector: 2 numbers, of 100 samples" in text
    assert read_vecnormalize(out) == value_of("keys")
    status, text = run(capsys, *BUNDLE, made, "--vecnormalize", made, "-o", tmp_path / "again.zip", "--force")
    assert status == 0
    assert "with the statistics" in text


def test_odd_numbers_have_a_report(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "v.pkl"
    path.write_bytes(pickled(whole(obs_rms=rms(count=float("nan")), clip_obs=float("inf"))))
    _, (report,) = run_json(capsys, *BUNDLE, PPO, "--vecnormalize", path, "-o", tmp_path / "out.zip")
    assert report["vecnormalize"]["clip_obs"] == "Infinity"
    assert report["vecnormalize"]["statistics"][0]["count"] == "NaN"
    assert run(capsys, *BUNDLE, PPO, "--vecnormalize", path, "-o", tmp_path / "out.zip", "--force")[0] == 0


def test_nothing_is_written_over_unasked(capsys: Capture, tmp_path: Path, statistics: Path) -> None:
    made, model, out = tmp_path / "bundle.zip", tmp_path / "model.zip", tmp_path / "out.pkl"
    made.write_text("mine")
    arguments = (*BUNDLE, PPO, "--vecnormalize", statistics, "-o", made)
    assert "--force overwrites it" in failure(capsys, *arguments)["message"]
    assert made.read_text() == "mine"
    assert run(capsys, *arguments, "--force")[0] == 0
    for there, other in ((model, out), (out, model)):
        there.write_text("mine")
        assert "already exists" in failure(capsys, "unbundle", made, "-o", model, "--vecnormalize", out)["message"]
        assert there.read_text() == "mine"
        assert not other.exists()
        there.unlink()
    assert failure(capsys, *BUNDLE, made, *arguments[3:-1], tmp_path / "b2.zip")["outcome"] == "unsupported"
    assert sorted(os.listdir(tmp_path)) == ["bundle.zip", "vecnormalize.pkl"]


def test_no_output_is_an_input(capsys: Capture, tmp_path: Path, statistics: Path) -> None:
    source = tmp_path / "in.zip"
    source.write_bytes(PPO.read_bytes())
    arguments = ("--vecnormalize", statistics, "--force")
    assert (
        "the output and the input are the same file"
        in failure(capsys, *BUNDLE, source, *arguments, "-o", source)["message"]
    )
    assert (
        "the output and the input are the same file"
        in failure(capsys, *BUNDLE, source, *arguments, "-o", statistics)["message"]
    )
    made = tmp_path / "bundle.zip"
    assert run(capsys, *BUNDLE, source, *arguments, "-o", made)[0] == 0
    for model, out in ((made, tmp_path / "o.pkl"), (tmp_path / "m.zip", made), (tmp_path / "x", tmp_path / "x")):
        failure(capsys, "unbundle", made, "-o", model, "--vecnormalize", out, "--force")
    assert sorted(os.listdir(tmp_path)) == ["bundle.zip", "in.zip", "vecnormalize.pkl"]


def test_what_cannot_be_leaves_nothing(capsys: Capture, tmp_path: Path, statistics: Path) -> None:
    out = tmp_path / "out.zip"
    message = failure(capsys, *BUNDLE, PPO, "--vecnormalize", PPO, "-o", out)["message"]
    assert "got an archive without them" in message
    failure(capsys, *BUNDLE, statistics, "--vecnormalize", statistics, "-o", out)
    failure(capsys, *BUNDLE, PPO, "--vecnormalize", tmp_path / "none.pkl", "-o", out)
    message = failure(capsys, "unbundle", PPO, "-o", out, "--vecnormalize", tmp_path / "v.pkl")["message"]
    assert "expected a bundle, got an archive without statistics" in message
    made = tmp_path / "bundle.zip"
    text = new("gymnasium.spaces.text", "Text", {"min_length": 0, "max_length": 3, "_char_list": ("a",)})
    statistics.write_bytes(pickled(whole(action_space=text)))
    assert run(capsys, *BUNDLE, PPO, "--vecnormalize", statistics, "-o", made)[0] == 0
    failure(capsys, "unbundle", made, "-o", out, "--vecnormalize", tmp_path / "v.pkl")
    failure(capsys, "unbundle", made, "-o", out, "--vecnormalize", tmp_path / "v.pkl", "--target", "1.5")
    assert sorted(os.listdir(tmp_path)) == ["bundle.zip", "vecnormalize.pkl"]


# -- sbformat rebuild ---------------------------------------------------------------------------------


def test_statistics_are_rebuilt_by_the_command(capsys: Capture, tmp_path: Path) -> None:
    source, out = tmp_path / "vecnormalize.pkl", tmp_path / "out.pkl"
    source.write_bytes(pickled(whole(SB2)))
    status, (report,) = run_json(capsys, "rebuild", source, "-o", out, "--target", "2.3")
    assert (status, report["algorithm"], report["target"]) == (0, "VecNormalize", "2.3.2")
    assert read_vecnormalize(out).obs_rms == read_vecnormalize(source).obs_rms
    assert sum(report["counts"].values()) == len(report["rows"])
    status, text = run(capsys, "rebuild", source, "-o", out, "--force")
    assert status == 0
    assert "VecNormalize" in text
    assert "--force overwrites it" in failure(capsys, "rebuild", source, "-o", out)["message"]
    assert (
        "the output and the input are the same file"
        in failure(capsys, "rebuild", source, "-o", source, "--force")["message"]
    )
    for option in ("--algorithm=PPO", "--keep-system-info", "--set=gamma=1", "--on-unknown=keep"):
        assert "applies to archives only" in failure(capsys, "rebuild", source, "-o", out, "--force", option)["message"]
    failure(capsys, "rebuild", source, "-o", tmp_path / "other.pkl", "--target", "1.5")
    assert sorted(os.listdir(tmp_path)) == ["out.pkl", "vecnormalize.pkl"]


def test_a_folder_of_statistics_is_rebuilt_by_the_command(capsys: Capture, tmp_path: Path) -> None:
    folder = tmp_path / "env"
    folder.mkdir()
    (folder / "obs_rms.pkl").write_bytes(pickled(rms(library=SB2)))
    (folder / "ret_rms.pkl").write_bytes(pickled(returns(SB2)))
    status, (report,) = run_json(capsys, "rebuild", folder, "-o", tmp_path / "out.pkl")
    assert status == 0
    assert {row["entry"] for row in report["rows"]} == {"obs_rms.pkl", "ret_rms.pkl"}
    assert read_vecnormalize(tmp_path / "out.pkl").ret_rms == read_vecnormalize(folder).ret_rms


def test_a_bundle_is_named_judged_and_validated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As clean as the archive it was made of; what its statistics break is said by ``validate``."""
    out = tmp_path / "bundle.zip"
    statistics = PPO.with_name("vecnormalize-pendulum.pkl")
    assert main([*BUNDLE, str(PPO), "--vecnormalize", str(statistics), "-o", str(out)]) == 0
    archive = sbformat.read(out)
    assert sbformat.scan(out).verdict == "clean"
    assert not list(sbformat.iter_problems(archive))
    assert main(["inspect", str(out)]) == 0
    assert "a bundle: it contains normalization statistics" in capsys.readouterr().out
    for name in (SETTINGS_ENTRY, ARRAYS_ENTRY):
        broken = archive.replace(extra={name: b"{}"})
        assert [(row.entry, row.kind) for row in sbformat.iter_problems(broken)] == [(name, "unreadable")]
        assert sbformat.scan(sbformat.writes(broken)).verdict == "clean" if name == SETTINGS_ENTRY else True
    assert sbformat.scan(sbformat.writes(archive.replace(extra={ARRAYS_ENTRY: b"\x00" * 99}))).verdict == "unknown"
    assert sbformat.scan(sbformat.writes(archive.replace(extra={"x.bin": b"\x00" * 99}))).verdict == "unknown"


# -- what fits the agent ------------------------------------------------------------------------------


def four(**changes: Any) -> Any:
    """Statistics of four numbers, as the agent's observations are."""
    numbers = (0.0, 1.0, 2.0, 3.0)
    return whole(observation_space=ABSENT, obs_rms=rms(numbers, numbers), old_obs=ABSENT, **changes)


def of_keys(**shapes: tuple[int, ...]) -> VecNormalize:
    parts = {key: RunningMeanStd(np.zeros(shape), np.ones(shape), 1.0) for key, shape in shapes.items()}
    return VecNormalize(obs_rms=parts, norm_reward=False, norm_obs_keys=tuple(parts))


def with_observations(space: Any) -> sbformat.Archive:
    archive = sbformat.read(PPO)
    blob = Serialized(None, encode(space))
    return archive.replace(data={**archive.data, "observation_space": blob})


def numbers(*shape: int) -> Box:
    count = int(np.prod(shape))
    held = (np.full(count, bound, "<f4").tobytes() for bound in (-1, 1))
    low, high = (ArrayInfo("<f4", shape, "C", part, is_scalar=False) for part in held)
    return Box("gymnasium", shape, "<f4", low, high, None)


def misfits(archive: sbformat.Archive, statistics: VecNormalize) -> list[tuple[str, str]]:
    with pytest.raises(ValidationError, match="allow_mismatch") as caught:
        sbformat.bundle(archive, statistics)
    sbformat.bundle(archive, statistics, allow_mismatch=True)
    return [(row.loc, row.kind) for row in caught.value.problems]


def test_statistics_of_another_shape_are_refused(tmp_path: Path, capsys: Capture) -> None:
    archive = sbformat.read(PPO)
    fitting = read_vecnormalize(pickled(four()))
    assert unbundle(sbformat.bundle(archive, fitting)).vecnormalize == fitting
    assert misfits(archive, read_vecnormalize(pickled(whole()))) == [("obs_rms", "shape")]
    assert misfits(archive, of_keys(vector=(4,))) == [("obs_rms", "shape")]
    sbformat.bundle(archive, read_vecnormalize(pickled(whole(norm_obs=False, obs_rms=ABSENT))))
    statistics = tmp_path / "vecnormalize.pkl"
    statistics.write_bytes(pickled(whole()))
    out = tmp_path / "o.zip"
    report = failure(capsys, "bundle", PPO, "--vecnormalize", statistics, "-o", out)
    assert "expected the shape (4,) of observation_space, got (3,)" in report["message"]
    assert not out.exists()


def test_statistics_by_key_are_compared_key_by_key() -> None:
    space = DictSpace("gymnasium", {"vector": numbers(4), "n": Discrete("gymnasium", 3, 0, "<i8", None)}, None)
    archive = with_observations(space)
    sbformat.bundle(archive, of_keys(vector=(4,)))
    sbformat.bundle(archive, of_keys(vector=(4,), n=()))
    assert misfits(archive, of_keys(vector=(3,))) == [("obs_rms/vector", "shape")]
    assert misfits(archive, of_keys(vector=(4,), n=(3,))) == [("obs_rms/n", "shape")]
    assert misfits(archive, of_keys(vector=(4,), other=(4,))) == [("obs_rms/other", "unexpected")]
    assert misfits(archive, read_vecnormalize(pickled(four()))) == [("obs_rms", "shape")]


def test_statistics_of_another_space_are_bundled_with_a_warning(tmp_path: Path, capsys: Capture) -> None:
    def of(space: Any, actions: Any, **changes: Any) -> VecNormalize:
        rms = RunningMeanStd(np.zeros(space.shape), np.ones(space.shape), 1.0)
        return VecNormalize(obs_rms=rms, norm_reward=False, observation_space=space, action_space=actions, **changes)

    archive = sbformat.read(PPO)
    found, actions = archive.decode("observation_space"), Discrete("gymnasium", 2, 0, "<i8", None)
    assert isinstance(found, Box)
    space, gym = (
        Box(library, found.shape, found.dtype, found.low, found.high, None) for library in ("gymnasium", "gym")
    )
    sbformat.bundle(archive, of(gym, actions))  # the same space of another library
    sbformat.bundle(with_observations(numbers(3, 8, 9)), of(numbers(8, 9, 3), actions))  # channels are moved
    with pytest.warns(UserWarning, match=r"of another space: observation_space: Box\(.* instead of Box\(.*") as caught:
        sbformat.bundle(archive, of(numbers(4), actions))
    assert len(caught) == 1
    with pytest.warns(UserWarning, match=r"another space: action_space: Box\(.* instead of Discrete\(2\)"):
        sbformat.bundle(archive, of(space, numbers(1)))
    path = tmp_path / "statistics.pkl"
    sbformat.write_vecnormalize(of(space, numbers(1)), path)
    assert main(["bundle", str(PPO), "--vecnormalize", str(path), "-o", str(tmp_path / "o.zip")]) == 0
    assert capsys.readouterr().err.startswith("sbformat: warning: the statistics are of another space: action_space: ")


def test_images_may_have_their_channels_last_in_the_statistics() -> None:
    archive = with_observations(numbers(3, 8, 9))

    def of(*shape: int) -> VecNormalize:
        return VecNormalize(obs_rms=RunningMeanStd(np.zeros(shape), np.ones(shape), 1.0), norm_reward=False)

    sbformat.bundle(archive, of(3, 8, 9))
    sbformat.bundle(archive, of(8, 9, 3))
    assert misfits(archive, of(9, 8, 3)) == [("obs_rms", "shape")]
