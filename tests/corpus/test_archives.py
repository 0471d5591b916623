"""Real archives of others and archives of every era, when they lie beside the project: values as torch gave them.

Reads ``../shared/corpus`` and ``../shared/generated``, and is skipped where they are not. At the end of the
run this module writes one line to the terminal: how many archives and tensors it read.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import sbformat
from sbformat import ContainerError, PickleError, SbformatError, TensorError, UnsupportedError, pth
from sbformat.pth import Device, DTypeName, Layout, MetaTensor, QuantizedTensor, SparseTensor, StateDict, TensorInfo
from tests.helpers.shared_files import CORPUS, DAMAGED, GENERATED, SHARED, summarize_counts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.exhaustive

if not os.path.isdir(SHARED):
    pytest.skip("there is no ../shared beside the project", allow_module_level=True)

READ: Final[Counter[str]] = Counter()

_summary = summarize_counts(READ, "test_corpus.py read")


def load(*parts: str) -> Any:
    with open(os.path.join(*parts), encoding="utf-8") as file:
        return json.load(file)


def named(paths: list[str], root: Path) -> list[Any]:
    return [pytest.param(path, id=os.path.relpath(path, root)) for path in sorted(paths)]


def sha256(array: np.ndarray) -> str:
    """Of the little-endian bytes in C order."""
    return hashlib.sha256(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()).hexdigest()


def parts_of(value: Any) -> list[tuple[str, Any, Any]] | None:
    """The items of a container as (step, key, part), or None for anything else."""
    if type(value) in (dict, OrderedDict):
        return [(str(key), key, part) for key, part in value.items()]
    if type(value) in (list, tuple):
        return [(str(index), index, part) for index, part in enumerate(value)]
    return None


def walk(info: Any, made: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Every value of a state dict with its path, as decoded and as an array, containers first."""
    yield path, info, made
    for step, key, part in parts_of(info) or ():
        yield from walk(part, made[key], f"{path}/{step}" if path else step)


def state_dicts(archive: sbformat.Archive) -> dict[str, StateDict]:
    """Every ``.pth`` entry by its full name."""
    found = {f"{name}.pth": state_dict for name, state_dict in archive.parameters.items()}
    for name in ("pytorch_variables.pth", "tensors.pth"):
        if name in archive.entries:
            assert archive.pytorch_variables is not None
            found[name] = archive.pytorch_variables
    return found


# -- the corpus ---------------------------------------------------------------------------------------


def corpus() -> list[Any]:
    path = os.path.join(CORPUS, "manifest.json")
    if not os.path.exists(path):
        return []
    return [pytest.param(row, id=row["file"]) for row in load(path) if row["kind"] == "sb3"]


SHORT_NAMES: Final = {"F32": "float32", "F64": "float64", "I64": "int64", "I32": "int32", "BOOL": "bool", "U8": "uint8"}

FAMILIES: Final = {
    "a2c": "A2C", "ars": "ARS", "crossq": "CrossQ", "ddpg": "DDPG", "dqn": "DQN", "maskableppo": "MaskablePPO",
    "ppo": "PPO", "ppo_lstm": "RecurrentPPO", "qrdqn": "QRDQN", "recurrentppo": "RecurrentPPO", "sac": "SAC",
    "td3": "TD3", "tqc": "TQC", "trpo": "TRPO",
}  # fmt: skip
"""What the names of files say of the algorithm."""


@pytest.mark.parametrize("row", corpus())
def test_the_corpus_reads_as_torch_reads_it(row: dict[str, Any]) -> None:
    archive = sbformat.read(os.path.join(CORPUS, row["file"]))
    assert list(archive.entries) == row["entries"]
    assert archive.stable_baselines3_version == row.get("stable_baselines3")
    expected = load(CORPUS, row["expected"])
    found = state_dicts(archive)
    assert set(found) == set(expected)
    for name, state_dict in found.items():
        leaves = {
            path: (info, made)
            for path, info, made in walk(state_dict.tree, state_dict.to_numpy(), "")
            if not parts_of(info)
        }
        assert list(leaves) == list(expected[name])
        for path, (info, made) in leaves.items():
            check_leaf(expected[name][path], info, made)
    READ["archives of the corpus"] += 1


def check_leaf(expected: Any, info: Any, made: Any) -> None:
    if not isinstance(expected, dict) or not expected:
        assert (type(made), made) == (type(expected), expected)
        return
    assert isinstance(info, TensorInfo)
    assert info.dtype == str(made.dtype) == SHORT_NAMES[expected["dtype"]]
    assert list(info.shape) == list(made.shape) == expected["shape"]
    assert sha256(made) == expected["sha256"]
    READ["tensors"] += 1


def family_of(path: str) -> str:
    """The first word of a file's name: rl-trained-agents name the algorithm there, others the repository."""
    return os.path.basename(path).partition("__")[0]


@pytest.mark.parametrize("row", [row for row in corpus() if family_of(row.values[0]["file"]) in FAMILIES])
def test_the_algorithm_of_the_corpus_is_told(row: dict[str, Any]) -> None:
    archive = sbformat.read(os.path.join(CORPUS, row["file"]))
    assert archive.algorithm.name == FAMILIES[family_of(row["file"])], archive.algorithm.evidence


# -- archives of every release ------------------------------------------------------------------------

RELEASES: Final = named(glob.glob(os.path.join(GENERATED, "[0-9]*", "*.zip")), GENERATED)


@pytest.mark.parametrize("path", RELEASES)
def test_every_release_reads_as_torch_reads_it(path: str) -> None:
    expected = load(path.removesuffix(".zip") + ".expected.json")
    archive = sbformat.read(path)
    release = os.path.basename(os.path.dirname(path))
    assert archive.stable_baselines3_version in (None, release)
    assert (archive.system_info is None) == (tuple(map(int, release.split("."))) < (1, 3))
    found: dict[str, dict[str, Any]] = {}
    for name, state_dict in state_dicts(archive).items():
        for at, info, made in walk(state_dict.tree, state_dict.to_numpy(), name):
            found[at] = described(info, made)
    wanted = {
        at: {key: row[key] for key in row if key != "in_npz"} for at, row in expected["tensors_and_structure"].items()
    }
    assert found == wanted
    READ["archives of releases"] += 1
    READ["tensors"] += sum("sha256" in row for row in found.values())


def described(info: Any, made: Any) -> dict[str, Any]:
    """What the expected JSON says of a value."""
    if isinstance(info, TensorInfo):
        assert str(made.dtype) == info.dtype
        return {
            "dtype": f"torch.{info.dtype}",
            "shape": list(made.shape),
            "requires_grad": info.requires_grad,
            "device": info.location,
            "sha256": sha256(made),
        }
    kind = type(made).__name__
    if type(made) in (dict, OrderedDict):
        return {"container": kind, "keys": [repr(key) for key in made]}
    if type(made) in (list, tuple):
        return {"container": kind, "len": len(made)}
    return {"value": made.item() if isinstance(made, np.generic) else made, "type": kind}


@pytest.mark.parametrize("path", RELEASES)
def test_the_algorithm_of_every_release_is_told(path: str) -> None:
    family = os.path.basename(path).partition("-")[0]
    archive = sbformat.read(path)
    policy = os.path.basename(path)
    wanted = FAMILIES.get(family)
    if family == "her":  # a class of its own before SB3 1.1, a replay buffer of another algorithm since
        second = policy.removesuffix(".zip").split("-")[1]
        wanted = FAMILIES.get(second, "HER")
    assert archive.algorithm.name == wanted, archive.algorithm.evidence


@pytest.mark.parametrize("path", named(glob.glob(os.path.join(GENERATED, "[0-9]*", "policy-*.pth")), GENERATED))
def test_files_of_policy_save_have_their_weights(path: str) -> None:
    weights = sbformat.read(path).parameters["policy"]
    assert weights
    assert all(isinstance(array, np.ndarray) for array in weights.values())
    READ["files of policy.save"] += 1


# -- files of every torch -----------------------------------------------------------------------------

EVERY: Final = ("1.4.0", "1.8.1", "1.13.1", "2.6.0", "2.13.0")
REFUSED: Final[dict[tuple[str, str], tuple[type[SbformatError], str]]] = {
    **{(release, "torchscript"): (UnsupportedError, "TorchScript") for release in EVERY},
    **{(release, "torch-memory-format"): (TensorError, "saving was interrupted") for release in EVERY[1:]},
    **{(release, "nested"): (UnsupportedError, "_rebuild_nested_tensor") for release in ("2.6.0", "2.13.0")},
    **{(release, "nested-jagged"): (UnsupportedError, "NestedTensor") for release in ("2.6.0", "2.13.0")},
    ("1.4.0", "torch-memory-format"): (PickleError, "cut short"),
    ("1.8.1", "dtype-complex32"): (TensorError, "saving was interrupted"),
    ("1.13.1", "dtype-complex32"): (TensorError, "saving was interrupted"),
    ("1.13.1", "nested"): (TensorError, "saving was interrupted"),
    ("2.13.0", "no-crc32"): (ContainerError, "unchecked_crc=True"),
}  # fmt: skip
"""Files that must be refused, and why.

TorchScript is a program. Nested tensors are outside what we decode. The others are saves that failed: no
torch can pickle a memory format, none before 2.1 complex32, 1.13 no nested tensor; the zip then holds a
version and no ``data.pkl``, the legacy stream of 1.4 ends within its fourth pickle. ``no-crc32`` was written
after ``set_crc32_options(False)`` and is read with ``unchecked_crc=True``.
"""

FOUR: Final = np.arange(4, dtype="f4")
ONES: Final = np.ones(3, "f4")
SMALL: Final[dict[str, Any]] = {
    "align4096": {"a": FOUR, "b": ONES},
    "no-crc32": {"a": FOUR, "b": ONES},
    "dtype-complex32": {"t": np.array([1 + 2j, complex(-0.0, -3.5)], "c8")},
    "meta": {"m": MetaTensor("float32", (2, 3), (3, 1))},
    "numpy-in-pth": {"a": np.arange(3), "s": np.float32(2.5)},
    "typed-storage": {"s": FOUR[:3]},
    "untyped-storage": {"s": FOUR[:3].view("u1")},
    "torch-device": {"dev": Device("cpu"), "dev1": Device("cuda", 1)},
    "torch-dtype": {"dtype": DTypeName("float32"), "bf": DTypeName("bfloat16")},
    "torch-layout": {"layout": Layout("strided")},
    "torch-size": {"size": (1, 2)},
    "python-scalars": {
        "none": None, "t": True, "f": 1.5, "i": 3, "big": 2**70, "neg": -(2**40), "s": "héllo", "b": b"abc",
        "tup": (1, 2, 3, 4), "e": (), "l": [1, [2]], "d": {1: "a", (0, 1): "b"}, "set": {1, 2}, "fs": frozenset({1}),
        "od": OrderedDict(a=1), "ba": bytearray(b"xy"), "cplx": 1 + 2j,
    },
}  # fmt: skip
"""What the files hold that have no arrays in ``expected.npz``."""

WIDE: Final = {"float32": ("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")}
"""``expected.npz`` holds these dtypes as float32."""


@pytest.mark.parametrize("path", named(glob.glob(os.path.join(GENERATED, "torch", "*", "*.pt")), GENERATED))
def test_every_torch(path: str) -> None:
    release, name = os.path.basename(os.path.dirname(path)), os.path.basename(path).removesuffix(".pt")
    with open(path, "rb") as file:
        data = file.read()
    refused = REFUSED.get((release, name))
    if refused is not None:
        with pytest.raises(SbformatError, match=refused[1]) as raised:
            pth.loads(data)
        assert type(raised.value) is refused[0]
        READ["files of torch refused, as is due"] += 1
        if name != "no-crc32":
            return
    state_dict = pth.loads(data, unchecked_crc=name == "no-crc32")
    if any(info.dtype in WIDE["float32"] for info in state_dict.tensors().values() if isinstance(info, TensorInfo)):
        pytest.importorskip("ml_dtypes")
    made = state_dict.to_numpy()
    expected = load(os.path.dirname(path), "expected.json")["files"].get(name, {})
    arrays = expected_arrays(os.path.dirname(path), name)
    if name in SMALL:
        assert_equal(made, SMALL[name])
    else:
        assert arrays
    for at, array in arrays.items():
        check_array(made, state_dict.tree, at, array, expected)
    READ["files of torch"] += 1


def expected_arrays(folder: str, name: str) -> dict[str, np.ndarray]:
    with np.load(os.path.join(folder, "expected.npz")) as opened:
        return {key.partition("::")[2]: opened[key] for key in opened.files if key.startswith(f"{name}::")}


def check_array(made: Any, tree: Any, at: str, expected: np.ndarray, facts: dict[str, Any]) -> None:
    info, array = tree, made
    for step in at.split("/") if at.startswith("/") else [at]:
        key: Any = step
        if step == "":
            continue
        if type(info) in (list, tuple) or step not in info:
            key = int(step)
        info, array = info[key], array[key]
    if isinstance(array, SparseTensor):
        array = dense(array)
    elif isinstance(array, QuantizedTensor):
        array = array.int_repr
    else:
        assert f"torch.{info.dtype}" == facts[at]["dtype"]
        assert list(info.shape) == facts[at]["shape"]
        assert info.requires_grad == facts[at].get("requires_grad", False)
    if str(array.dtype) in WIDE.get(str(expected.dtype), ()):
        array = array.astype(expected.dtype)
    assert (array.dtype, array.shape) == (expected.dtype, expected.shape)
    assert array.tobytes() == expected.tobytes()
    READ["tensors"] += 1


def dense(sparse: SparseTensor) -> np.ndarray:
    """The array of a two-dimensional sparse tensor with scalar values."""
    made = np.zeros(sparse.shape, sparse.values.dtype)
    if sparse.layout == "sparse_coo":
        made[tuple(sparse.indices[0])] = sparse.values
        return made
    pointers, columns = sparse.indices
    for line in range(sparse.shape[0]):
        for entry in range(pointers[line], pointers[line + 1]):
            made[line, columns[entry]] = sparse.values[entry]
    return made


def assert_equal(made: Any, expected: Any) -> None:
    """Equal by type and value, arrays by dtype, shape and bytes."""
    assert isinstance(made, type(expected))
    if isinstance(expected, (np.ndarray, np.generic)):
        assert (made.dtype, made.shape, made.tobytes()) == (expected.dtype, expected.shape, expected.tobytes())
    elif type(expected) in (dict, OrderedDict, list):
        assert len(made) == len(expected)
        for (key, part), (other, wanted) in zip(pairs(made), pairs(expected)):
            assert key == other
            assert_equal(part, wanted)
    else:
        assert made == expected


def pairs(value: Any) -> list[tuple[Any, Any]]:
    return list(value.items()) if isinstance(value, dict) else list(enumerate(value))


def test_the_refused_files_are_there() -> None:
    for release, name in REFUSED:
        assert os.path.exists(os.path.join(GENERATED, "torch", release, f"{name}.pt"))


# -- archives with something particular ---------------------------------------------------------------

EXTRA: Final = named(glob.glob(os.path.join(GENERATED, "extra", "*.zip")), GENERATED)


@pytest.mark.parametrize("path", EXTRA)
def test_extra_archives(path: str) -> None:
    archive = sbformat.read(path)
    assert list(archive.data)
    if os.path.basename(path) == DAMAGED:
        with pytest.raises(ContainerError, match="CRC-32"):
            sbformat.read_parameters(path)
        return
    for state_dict in archive.parameters.values():
        state_dict.to_numpy()
        READ["tensors"] += len(state_dict.tensors())
    assert archive.algorithm.name == "PPO"
    READ["extra archives"] += 1
