"""Which algorithm of Stable Baselines 2 wrote a file: every algorithm and release, and real files."""

from __future__ import annotations

import io
import json
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import sbformat
from sbformat import pkl
from sbformat.arrayfiles.reader import read_arrays
from sbformat.data import Serialized
from sbformat.formats.sb2 import SIGNATURES, Sb2Zip, infer_algorithm
from sbformat.tools.convert import convert
from sbformat.tools.diff import diff
from sbformat.tools.extract import extract
from tests.helpers.bundled import PPO, zipped
from tests.helpers.many_cases import check_each
from tests.helpers.sb2_keys import ALGORITHMS, every_data, last_data, reference
from tests.helpers.shared_files import CORPUS, GENERATED, SHARED, summarize_counts

COUNTED: Final[Counter[str]] = Counter()
_summary = summarize_counts(COUNTED, "test_sb2.py inferred")


@check_each(("algorithm", "data"), [(name, data) for name, _, data in every_data()])
def test_every_release_is_told_for_certain(algorithm: str, data: dict[str, Any]) -> None:
    found = infer_algorithm(data)
    assert found[:2] == (algorithm, True)
    assert len(found.evidence) >= 2


def test_every_algorithm_is_tested() -> None:
    assert {name for name, _ in SIGNATURES} | {"GAIL"} == set(ALGORITHMS)
    assert len(ALGORITHMS) == 12


def test_the_keys_of_one_are_no_other_s() -> None:
    for algorithm in set(ALGORITHMS) - {"HER", "GAIL"}:
        data = last_data(algorithm)
        assert [name for name, keys in SIGNATURES if all(key in data for key in keys)] == [algorithm]


def test_the_evidence_is_what_was_concluded_from() -> None:
    assert infer_algorithm(last_data("GAIL")).evidence == (
        "policy is stable_baselines.common.policies.MlpPolicy",
        "data has timesteps_per_batch, max_kl",
        "using_gail is true",
    )
    assert infer_algorithm(last_data("HER")).evidence[-1] == "model_class is stable_baselines.td3.td3.TD3"


@pytest.mark.parametrize("flag", [None, 1, "true", Serialized(None, pkl.dumps(True))])
def test_trpo_and_gail_are_not_told_apart_without_the_flag(flag: Any) -> None:
    data = {**last_data("GAIL"), "using_gail": flag}
    assert infer_algorithm(data)[:2] == ("TRPO", False)
    del data["using_gail"]
    assert infer_algorithm(data)[:2] == ("TRPO", False)


@check_each(
    ("module", "name"),
    [("deepq", "DQN"), ("ddpg", "DDPG"), ("sac", "SAC"), ("td3", "TD3"), ("common", None), ("my", None)],
)
def test_the_policy_tells_when_the_keys_do_not(module: str, name: str | None) -> None:
    policy = reference(f"stable_baselines.{module}.policies", "LnMlpPolicy")
    found = infer_algorithm({"policy": policy})
    assert found[:2] == (name, False)
    assert found.evidence[0] == f"policy is stable_baselines.{module}.policies.LnMlpPolicy"


@check_each(
    "data",
    [
        {},
        {"policy": None},
        {"policy": "MlpPolicy"},
        {"policy": Serialized(None, b"")},
        {"policy": Serialized(None, pkl.dumps([]))},
        {"policy": Serialized(None, pkl.dumps(pkl.Global("a", "b")) + b"x" * 5000)},
        {"alpha": 1, "epsilon": 1},
    ],
)
def test_nothing_tells_when_nothing_is_there(data: dict[str, Any]) -> None:
    assert infer_algorithm(data)[:2] == (None, False)


@check_each("value", [None, 1, "x", [], {}, Serialized(None, b"broken")])
def test_values_of_any_kind_are_no_hindrance(value: Any) -> None:
    for algorithm in ALGORITHMS:
        found = infer_algorithm(dict.fromkeys(last_data(algorithm), value))
        assert found.name == ("TRPO" if algorithm == "GAIL" else algorithm)


def test_subclasses_of_the_user_s_keep_the_name_of_what_they_extend() -> None:
    data = {**last_data("PPO2"), "policy": reference("utils", "CustomMlpPolicy"), "mine": 1}
    assert infer_algorithm(data)[:2] == ("PPO2", True)


# -- real files, when they lie beside the project -----------------------------------------------------

_UNNAMED: Final = {
    "ddpg_mountain": "DDPG", "ddpg_pendulum": "DDPG", "sac_mountaincar": "SAC", "sac_mountaioncar": "SAC",
    "sac_noisynav": "SAC", "quadrotor_env": "PPO2", "cartpole_0": "PPO2",
}  # fmt: skip
"""Files whose own name does not begin with the algorithm, and what their authors' scripts train."""


def named(file: str) -> str | None:
    """The algorithm that a file's name tells: ``a2c__CartPole-v1.pkl``, ``.../ppo2_bestest.zip``, ``PPO2_Pendulum``."""
    words = [word for part in Path(file).name.split("__") for word in part.replace("-", "_").split("_")]
    found = [word.upper() for word in words if word.upper() in ALGORITHMS]
    return found[0] if found else next((name for part, name in _UNNAMED.items() if part in file), None)


def files() -> list[Path]:
    """SB2's files of the corpus, and generated ones."""
    path = CORPUS / "manifest.json"
    rows = json.loads(path.read_text("utf-8")) if path.exists() else []
    real = [CORPUS / row["file"] for row in rows if row["kind"] in ("sb2zip", "sb2pkl")]
    generated = [path for path in sorted((GENERATED / "sb2").glob("*.*")) if path.suffix in (".zip", ".pkl")]
    return real + generated


@pytest.mark.skipif(not SHARED.is_dir(), reason="there is no ../shared beside the project")
def test_real_files_are_what_their_names_say() -> None:
    for path in files():
        archive = sbformat.read(path)
        if archive.format in ("sb2-zip", "sb2-pickle"):
            assert archive.algorithm[:2] == (named(path.name) or archive.algorithm.name, True), path.name
            COUNTED[f"{archive.format} files"] += 1


ARRAYS: Final = {
    "model/pi_fc0/w:0": np.arange(6, dtype="f4").reshape(2, 3),
    "model/pi_fc0/b:0": np.zeros(3, "f4"),
    "model/scale:0": np.array(0.5, "f4"),
}
DATA: Final = {"gamma": 0.99, "n_steps": 5, "policy_kwargs": {}}


def npz(arrays: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def sb2_zip(arrays: dict[str, Any] | None = None, **replaced: bytes | None) -> bytes:
    """An agent as SB2 writes it, some entries replaced or left out."""
    arrays = ARRAYS if arrays is None else arrays
    made: dict[str, bytes | None] = {
        "data": json.dumps(DATA, indent=4).encode(),
        "parameters": npz(arrays),
        "parameter_list": json.dumps(list(arrays), indent=4).encode(),
        **replaced,
    }
    return zipped({name: content for name, content in made.items() if content is not None})


def parameters(data: bytes) -> dict[str, np.ndarray]:
    return dict(sbformat.reads(data).parameters["parameters"].to_numpy())


def test_names_and_arrays_come_in_the_order_of_the_list() -> None:
    archive = sbformat.reads(sb2_zip())
    assert type(archive) is Sb2Zip
    assert archive.format == "sb2-zip"
    assert archive.data == DATA
    assert list(archive.parameters) == ["parameters"]
    assert archive.parameter_list == list(ARRAYS)
    found = archive.parameters["parameters"]
    assert list(found) == list(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array, strict=True)
    assert archive.extra == {}
    assert archive.pytorch_variables is None
    assert archive.stable_baselines3_version is None


def test_the_members_may_stand_in_another_order() -> None:
    members = npz(dict(reversed(ARRAYS.items())))
    assert list(parameters(sb2_zip(parameters=members))) == list(ARRAYS)


@check_each("code", ["<f4", ">f4", "<f8", ">i8", "|u1", "|b1", "<c8"])
@check_each("order", ["C", "F"])
def test_every_dtype_of_numbers_and_both_orders(code: str, order: Any) -> None:
    array = np.asarray(np.arange(24).reshape(2, 3, 4) % 2, dtype=code, order=order)
    found = parameters(sb2_zip({"a": array}))["a"]
    np.testing.assert_array_equal(found, array)
    assert found.dtype == array.dtype.newbyteorder("=")


def test_safe_open_gives_its_tensors_one_by_one(tmp_path: Any) -> None:
    path = tmp_path / "agent.zip"
    path.write_bytes(sb2_zip())
    with sbformat.safe_open(path, entry="parameters") as file, sbformat.safe_open(path) as same:
        assert file.keys() == same.keys()
        np.testing.assert_array_equal(file.get_tensor(file.keys()[0]), ARRAYS["model/pi_fc0/w:0"])
    assert list(sbformat.read_parameters(path)) == ["parameters"]


def object_array() -> bytes:
    file = io.BytesIO()
    np.save(file, np.array([{}], dtype=object), allow_pickle=True)
    return file.getvalue()


def with_member(content: bytes) -> bytes:
    """The parameters of an agent with one member replaced."""
    return zipped(
        {f"{name}.npy": _npy(array) for name, array in ARRAYS.items() if name != "model/scale:0"}
        | {"model/scale:0.npy": content}
    )


def _npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


GOOD: Final = _npy(ARRAYS["model/scale:0"])
REFUSED: Final = {
    "no npz": ({"parameters": b"x" * 100}, sbformat.ContainerError, "parameters"),
    "empty": ({"parameters": b""}, sbformat.ContainerError, "parameters"),
    "cut short": ({"parameters": npz(ARRAYS)[:-1]}, sbformat.ContainerError, "parameters"),
    "a list that is no list": ({"parameter_list": b"{}"}, sbformat.DataError, "parameter_list"),
    "a list of numbers": ({"parameter_list": b"[1, 2]"}, sbformat.DataError, "parameter_list"),
    "a list that is no JSON": ({"parameter_list": b"[" * 10}, sbformat.DataError, "parameter_list"),
    "a name twice": ({"parameter_list": b'["a", "a"]'}, sbformat.DataError, "expected unique names"),
    "a parameter without a member": (
        {"parameter_list": json.dumps([*ARRAYS, "model/q:0"]).encode()}, sbformat.TensorError, "model/q:0",
    ),
    "a member that is not listed": (
        {"parameter_list": json.dumps(list(ARRAYS)[:2]).encode()}, sbformat.TensorError, "model/scale:0",
    ),
    "a member that is no npy": ({"parameters": zipped({"a.txt": b""})}, sbformat.UnsupportedError, "a.txt"),
    "objects": ({"parameters": with_member(object_array())}, sbformat.UnsupportedError, "need a pickle"),
    "no magic": ({"parameters": with_member(b"x" * 80)}, sbformat.TensorError, r"model/scale:0\.npy"),
    "nothing in a member": ({"parameters": with_member(b"")}, sbformat.TensorError, r"model/scale:0\.npy"),
    "too few bytes": ({"parameters": with_member(GOOD[:-1])}, sbformat.TensorError, "expected 4 bytes .* got 3"),
    "too many bytes": ({"parameters": with_member(GOOD + b"x")}, sbformat.TensorError, "expected 4 bytes .* got 5"),
    "a dtype of none": (
        {"parameters": with_member(GOOD.replace(b"<f4", b"<f3"))}, sbformat.UnsupportedError, "<f3",
    ),
    "a shape that has no end": (
        {"parameters": with_member(GOOD.replace(b"()", b"(" + b"1," * 40 + b")").replace(b" " * 79, b""))},
        sbformat.SbformatError,
        r"model/scale:0\.npy",
    ),
}  # fmt: skip


@check_each("name", REFUSED)
def test_what_does_not_fit_is_one_error_of_that_entry(name: str) -> None:
    replaced, error, words = REFUSED[name]
    archive = sbformat.reads(sb2_zip(**replaced))
    assert archive.data == DATA
    for _ in range(2):
        with pytest.raises(error, match=words) as caught:
            archive.parameters["parameters"]
        assert str(caught.value.entry).startswith("parameter")


def test_a_flipped_byte_of_a_parameter_is_found() -> None:
    data = sb2_zip()
    at = data.index(ARRAYS["model/pi_fc0/w:0"].tobytes())
    flipped = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
    with pytest.raises(sbformat.ContainerError, match="CRC"):
        parameters(flipped)


def test_no_third_level_of_zips_is_opened() -> None:
    inner = sb2_zip(parameters=zipped({"a.npy": sb2_zip()}), parameter_list=b'["a"]')
    with pytest.raises(sbformat.TensorError, match="expected the signature of a .npy"):
        parameters(inner)


def test_without_data_the_parameters_are_read_all_the_same() -> None:
    archive = sbformat.reads(sb2_zip(data=None))
    assert archive.algorithm.name is None
    assert len(archive.parameters["parameters"]) == len(ARRAYS)
    with pytest.raises(sbformat.MissingEntryError):
        archive.data  # noqa: B018


def test_it_is_never_written_as_an_archive_of_sb3(tmp_path: Any) -> None:
    archive = sbformat.reads(sb2_zip())
    for act in (
        lambda: sbformat.writes(archive),
        lambda: archive.replace(data={}),
        lambda: archive.without("data"),
        lambda: convert(archive, tmp_path / "out.zip"),
        lambda: convert(archive, tmp_path / "out.safetensors"),
    ):
        with pytest.raises(sbformat.UnsupportedError, match="sb2-zip"):
            act()
    with pytest.raises(sbformat.UnsupportedError, match="expected an algorithm of Stable Baselines 2"):
        sbformat.rebuild(archive)  # which converts agents, and this one has no keys of an algorithm
    assert not list(tmp_path.iterdir())


def test_its_parameters_become_a_pth(tmp_path: Any) -> None:
    convert(sbformat.reads(sb2_zip()), tmp_path / "out.pth", entry="parameters")
    found = sbformat.read(tmp_path / "out.pth").parameters["out"]
    assert list(found) == list(ARRAYS)


def test_two_differ_in_what_differs() -> None:
    other = sb2_zip({**ARRAYS, "model/scale:0": np.array(1.5, "f4")}, data=b'{"gamma": 0.98}')
    report = diff(sbformat.reads(sb2_zip()), sbformat.reads(other))
    assert {(change.entry, change.loc) for change in report.changes} == {
        ("data", "/gamma"), ("data", "/n_steps"), ("data", "/policy_kwargs"), ("parameters", "model~1scale:0"),
    }  # fmt: skip
    assert sbformat.reads(sb2_zip()) == sbformat.reads(sb2_zip())
    assert sbformat.reads(sb2_zip()) != sbformat.read(PPO)


def test_a_deflated_one_is_the_same() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(sb2_zip())) as old, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    assert sbformat.reads(file.getvalue()) == sbformat.reads(sb2_zip())


def test_an_unzipped_one_is_the_same(tmp_path: Any) -> None:
    with zipfile.ZipFile(io.BytesIO(sb2_zip())) as file:
        file.extractall(tmp_path)
    archive = sbformat.read(tmp_path)
    assert archive.format == "sb2-zip"
    assert archive == sbformat.reads(sb2_zip())


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_what_is_extracted_has_the_names_of_the_graph(tmp_path: Any, suffix: str) -> None:
    out = tmp_path / f"weights{suffix}"
    assert extract(sbformat.reads(sb2_zip()), out).tensors == tuple(ARRAYS)
    found = read_arrays(out)
    assert set(found) == set(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array, strict=True)
    report = extract(sbformat.reads(sb2_zip()), out, tensors="model/pi_fc0/*", overwrite=True)
    assert report.tensors == tuple(ARRAYS)[:2]


def test_files_of_a_folder_have_no_colon(tmp_path: Any) -> None:
    report = extract(sbformat.reads(sb2_zip()), tmp_path / "weights")
    assert report.tensors == ("model/pi_fc0/w", "model/pi_fc0/b", "model/scale")
    np.testing.assert_array_equal(np.load(tmp_path / "weights" / "model" / "scale.npy"), ARRAYS["model/scale:0"])
