"""sbformat writes, real torch and real Stable-Baselines3 load: bit for bit, and the models act and learn.

Archives of others and of every release are taken from ``../shared``, where that lies beside the project.

``SBFORMAT_OLD_TORCH`` names Python interpreters, separated as in ``PATH``, that have an older torch (1.6 or later)
each: ``SBFORMAT_OLD_TORCH=old/bin/python python -m pytest -m interop tests/interop/test_writing.py -k older``. Each
must load from our files what it loads from those of the torch of this interpreter.
"""

# ruff: noqa: E402 -- importorskip stands before what needs it
from __future__ import annotations

import glob
import io
import json
import os
import random
import struct
import subprocess
import sys
import zipfile
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, Any, Final

import pytest

torch = pytest.importorskip("torch")
sb3 = pytest.importorskip("stable_baselines3")
contrib = pytest.importorskip("sb3_contrib")

import numpy as np
from stable_baselines3.common.save_util import load_from_zip_file

import sbformat
from sbformat import Archive, SbformatError, Serialized, pth
from sbformat.container.layout import is_state_dict
from sbformat.pth import StateDict, clear_optimizer
from tests.helpers.shared_files import CORPUS, DAMAGED, GENERATED, SHARED, summarize_counts
from tests.interop.test_sb3 import MODELS, Small
from tests.interop.test_torch import STRIDED, networks, plain, small_values, strided
from tests.interop.torch_pairs import assert_alike, assert_equal_values
from tests.interop.torch_values import assert_same, item_bytes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # gymnasium's and torch's own
]

HERE: Final = os.path.dirname(os.path.abspath(__file__))

COUNTED: Final[Counter[str]] = Counter()

_summary = summarize_counts(COUNTED, "test_writing.py:")


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def files(*pattern: str) -> list[Any]:
    found = sorted(glob.glob(os.path.join(*pattern)))
    return [pytest.param(path, id=os.path.relpath(path, SHARED)) for path in found if DAMAGED not in path]


def save(value: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    torch.save(value, file, **options)
    return file.getvalue()


def load(data: bytes, *, weights_only: bool = True) -> Any:
    return torch.load(io.BytesIO(data), weights_only=weights_only, map_location="cpu")


def load_mapped(data: bytes, folder: Path) -> Any:
    """Load from a file that is mapped, not read. The file is removed: the map keeps its bytes."""
    path = folder / "mapped.pth"
    path.write_bytes(data)
    try:
        return torch.load(str(path), weights_only=True, mmap=True, map_location="cpu")
    finally:
        path.unlink()


# -- every .pth there is, written again ---------------------------------------------------------------


def check_written_again(original: bytes, folder: Path, *, trusted: bool, unchecked_crc: bool = False) -> None:
    """Assert that torch loads from what we write what it loads from what we read, by every way it has.

    :param trusted: whether the original may be loaded without ``weights_only``, which runs what it names
    """
    written = pth.dumps(pth.loads(original, unchecked_crc=unchecked_crc))
    assert written == pth.dumps(pth.loads(written))
    try:
        expected = load(original)
        is_plain = True
    except Exception:
        is_plain = False
        if not trusted:
            raise
        expected = load(original, weights_only=False)
    COUNTED[".pth written again"] += 1
    COUNTED["tensors"] += assert_alike(expected, load(written, weights_only=False))
    if is_plain:
        COUNTED["of them with weights_only"] += 1
        assert_alike(expected, load(written))
        assert_alike(expected, load_mapped(written, folder))


ARCHIVES: Final = [
    *files(CORPUS, "sb3", "*"), *files(GENERATED, "[0-9]*", "*.zip"), *files(GENERATED, "extra", "*.zip"),
]  # fmt: skip


@pytest.mark.parametrize("path", ARCHIVES)
def test_every_entry_of_an_archive_loads_as_the_original(path: str, tmp_path: Path) -> None:
    archive = sbformat.read(path)
    for name in archive.entries:
        if is_state_dict(name):
            original = b"".join(archive.stream(name))
            check_written_again(original, tmp_path, trusted=path.startswith(str(GENERATED)))


UNLOADABLE: Final = ("1.13.1", "sparse-csr")
"""Torch 1.13 named a function that later releases lack; we write the one they have."""


@pytest.mark.parametrize("path", files(GENERATED, "torch", "*", "*.pt"))
def test_every_file_of_torch_loads_as_the_original(path: str, tmp_path: Path) -> None:
    release, name = os.path.basename(os.path.dirname(path)), os.path.basename(path).removesuffix(".pt")
    with open(path, "rb") as file:
        original = file.read()
    unchecked = name == "no-crc32"
    try:
        state_dict = pth.loads(original, unchecked_crc=unchecked)
    except SbformatError:
        COUNTED["files of torch that are not read"] += 1
        return
    if (release, name) == UNLOADABLE:
        with pytest.raises(AttributeError, match="_rebuild_sparse_csr_tensor"):
            load(original, weights_only=False)
        assert_same(load(pth.dumps(state_dict)), state_dict)
        return
    check_written_again(original, tmp_path, trusted=True, unchecked_crc=unchecked)


@pytest.mark.parametrize("path", files(GENERATED, "[0-9]*", "policy-*.pth"))
def test_files_of_policy_save_keep_their_weights(path: str) -> None:
    """They name classes of spaces, which are kept inert; torch is asked for the weights only."""
    with open(path, "rb") as file:
        state_dict = pth.loads(file.read(), on_unknown="inert")
    weights = StateDict.from_arrays(state_dict["state_dict"])
    again = pth.loads(pth.dumps(state_dict), on_unknown="inert")
    assert again == state_dict
    read = sbformat.read(path).parameters["policy"]
    assert {name: array.tobytes() for name, array in read.items()} == {
        name: array.tobytes() for name, array in state_dict["state_dict"].items()
    }
    for name, tensor in load(pth.dumps(weights)).items():
        assert item_bytes(tensor) == again["state_dict"][name].tobytes()


# -- values made here ---------------------------------------------------------------------------------


def several_values() -> dict[str, Any]:
    torch.manual_seed(5)
    base = torch.arange(120.0).reshape(2, 3, 4, 5)
    matrix = torch.tensor([[0.0, 1, 0, 2], [0, 0, 0, 3], [4, 0, 5, 6], [7, 0, 0, 8]])
    part = [1, torch.ones(2)]
    noted = torch.nn.Parameter(torch.ones(3))
    noted.note = {"role": "actor", "sizes": [1, 2]}
    adam = torch.optim.Adam([torch.nn.Parameter(torch.zeros(2))], lr=1e-3)
    adam.param_groups[0]["params"][0].grad = torch.ones(2)
    adam.step()
    return {
        **{f"values {number}": value for number, value in enumerate(small_values())},
        **{f"network {name}": network.state_dict() for name, network in networks().items()},
        "parameters of networks": {name: dict(network.named_parameters()) for name, network in networks().items()},
        "views": {
            "base": base, "again": base, "alias": base[:], "slice": base[1], "step": base[:, ::2, 1:, ::3],
            "turned": base.permute(3, 1, 0, 2), "channels": base.contiguous(memory_format=torch.channels_last),
            "expanded": torch.tensor([1.0, 2.0]).expand(7, 2), "scalar": base[0, 1, 2, 3], "empty": base[:, :0],
            "overlapping": base.view(-1).unfold(0, 5, 2), "none": torch.empty(0), "rows": torch.empty(0, 7, 3),
            "odd": torch.as_strided(base, (1, 4, 1), (77, 3, 999), 5), "nothing of it": base.view(-1)[50:50],
        },
        "parameters": [
            torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2), requires_grad=False), noted,
            torch.ones(3, requires_grad=True), torch.nn.Parameter(torch.ones(2, dtype=torch.int64), False),
            torch.nn.Parameter(base[1, 2].t()),
        ],
        "sparse": [
            matrix.to_sparse(), matrix.to_sparse_csr(), matrix.to_sparse_csc(), matrix.to_sparse_bsr((2, 2)),
            matrix.to_sparse_bsc((2, 2)), torch.sparse_coo_tensor(size=(3, 4)), torch.nn.Parameter(matrix.to_sparse()),
            torch.sparse_coo_tensor(torch.tensor([[0, 0], [1, 1]]), torch.tensor([1.0, 2.0]), (2, 3)),
        ],
        "quantized": [
            torch.quantize_per_tensor(base[0, 0], 0.0371, 3, torch.qint8),
            torch.quantize_per_tensor(base[0, 0], 0.1, 0, torch.quint8).t(),
            torch.quantize_per_channel(base[0, 0], torch.rand(4) + 0.1, torch.arange(4), 0, torch.qint32),
        ],
        "shared containers": {"a": part, "b": part, "c": {"d": part}},
        "meta": [torch.empty_strided((2, 3), (1, 2), device="meta"), torch.nn.Parameter(torch.empty(2, device="meta"))],
        "adam": adam.state_dict(),
        "many": OrderedDict((f"layer{number}", torch.randn(3, number % 5)) for number in range(2500)),
        "scalars": [None, True, 1, -1, 255, 256, 65536, 2**31, 2**70, -(2**40), 1.5, -0.0, float("nan"), "", "h\u00e9"],
        "names": OrderedDict({"a/b": torch.ones(1), "": torch.zeros(1), "\u00fc": torch.ones(2), "[0]": 1}),
        "top": torch.arange(5.0),
        "nothing": {},
        "whole list": [[], (), {}, OrderedDict(), ((),)],
    }  # fmt: skip


@pytest.mark.parametrize("way", [{}, {"_use_new_zipfile_serialization": False}], ids=["zip", "legacy"])
def test_values_of_every_kind_load_as_the_original(way: dict[str, Any], tmp_path: Path) -> None:
    for name, value in several_values().items():
        if way and name.startswith("values 3"):
            continue  # torch cannot load the legacy stream that it makes of it
        check_written_again(save(value, **way), tmp_path, trusted=True)


@pytest.mark.parametrize("name", STRIDED)
def test_every_dtype_loads_as_the_original(name: str, tmp_path: Path) -> None:
    tensor = plain(name)
    value = {"flat": tensor, "part": tensor[3:7], "matrix": tensor.reshape(3, 4).t(), "empty": tensor[:0]}
    if tensor.is_complex():
        value |= {"conj": tensor.conj(), "part of it": tensor.reshape(3, 4).t().conj()[1:]}
    check_written_again(save(value), tmp_path, trusted=True)


def test_any_geometry_loads_as_the_original(tmp_path: Path) -> None:
    """Four hundred random ``as_strided`` views, several a file, of several dtypes."""
    source = random.Random(20240301)  # noqa: S311
    for _ in range(80):
        storage = plain(source.choice(STRIDED)).repeat(source.randint(1, 9))
        value = {f"v{number}": strided(storage, source) for number in range(5)}
        check_written_again(save(value), tmp_path, trusted=True)


def test_the_comparison_sees_a_difference() -> None:
    """The oracle of this module is not blind."""
    base = torch.arange(6.0)
    value = {"a": base, "b": base[1:3], "n": [1.0]}
    others: list[Any] = [
        {"a": base, "b": base[1:3].clone(), "n": [1.0]},
        {"a": base, "b": base[2:4], "n": [1.0]},
        {"a": base.int(), "b": base[1:3], "n": [1.0]},
        {"a": base.reshape(1, 6), "b": base[1:3], "n": [1.0]},
        {"a": torch.nn.Parameter(base), "b": base[1:3], "n": [1.0]},
        {"a": base, "b": base[1:3], "n": [1]},
        {"b": base[1:3], "a": base, "n": [1.0]},
        OrderedDict(value),
    ]
    assert assert_alike(load(save(value)), load(save(value))) == 2
    for other in others:
        with pytest.raises(AssertionError):
            assert_alike(load(save(value)), load(save(other)))


# -- arrays, from torch and back ----------------------------------------------------------------------


def needs_small_floats(name: str) -> None:
    """Skip without the extra that gives numpy bfloat16 and float8."""
    if "bfloat" in name or "float8" in name:
        pytest.importorskip("ml_dtypes")


def there_and_back(value: Any, **options: Any) -> Any:
    """From torch to arrays, and from those to torch."""
    arrays = pth.loads(save(value, **options)).to_numpy()
    return load(pth.dumps(StateDict.from_arrays(arrays)))


ARRAYS: Final = [
    "values 0", "values 1", "views", "parameters", "shared containers", "adam", "many", "names", "top", "nothing",
    "whole list", *(f"network {name}" for name in networks()),
]  # fmt: skip


@pytest.mark.parametrize("name", ARRAYS)
def test_values_are_equal_after_a_way_through_arrays(name: str) -> None:
    needs_small_floats(name)
    value = several_values()[name]
    COUNTED["values through arrays"] += 1
    assert_equal_values(value, there_and_back(value))
    assert_equal_values(value, there_and_back(value, _use_new_zipfile_serialization=False))


@pytest.mark.parametrize("name", [name for name in STRIDED if name != "complex32"])
def test_every_dtype_is_equal_after_a_way_through_arrays(name: str) -> None:
    needs_small_floats(name)
    tensor = plain(name)
    value = {
        "flat": tensor, "matrix": tensor.reshape(3, 4).t(), "step": tensor[::3], "scalar": tensor[3],
        "empty": tensor[:0].reshape(0, 2), "expanded": tensor[:1].expand(5), "row": tensor.reshape(1, 12),
    }  # fmt: skip
    back = there_and_back(value)
    assert_equal_values(value, back)
    assert {str(tensor.dtype) for tensor in back.values()} == {f"torch.{name}"}


def test_quantized_and_sparse_tensors_are_equal_after_a_way_through_arrays() -> None:
    values = several_values()
    for name in ("quantized", "sparse"):
        for ours, theirs in zip(there_and_back(values[name]), values[name]):
            assert (ours.dtype, ours.shape, ours.layout) == (theirs.dtype, theirs.shape, theirs.layout)
            assert torch.equal(ours.to_dense() if name == "sparse" else ours.dequantize(), dense(theirs))


def dense(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.dequantize() if tensor.is_quantized else tensor.detach().to_dense()


def test_arrays_that_share_memory_become_tensors_that_share_storage() -> None:
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    arrays = {
        "base": base, "again": base, "row": base[2], "turned": base.T, "step": base[::2, ::3], "part": base[1:3, 2:4],
        "copy": base.copy(), "integers": base.view(np.int32),
    }  # fmt: skip
    made = load(pth.dumps(StateDict.from_arrays(arrays)))
    for name, array in arrays.items():
        assert made[name].stride() == tuple(step // 4 for step in array.strides), name
        assert item_bytes(made[name]) == array.tobytes()
    shared = {name for name, tensor in made.items() if storage_of(tensor) == storage_of(made["base"])}
    assert shared == {"base", "again", "row", "turned", "step", "part"}
    made["base"][2, 0] = 77.0
    assert made["row"][0] == made["turned"][0, 2] == made["step"][1, 0] == 77.0
    assert made["copy"][2, 0] == 12.0


def storage_of(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def test_a_small_view_does_not_bring_its_large_base() -> None:
    """Two rows of a large array are written as two rows; so are arrays that lie side by side."""
    base = np.zeros((100_000, 3), np.float32)
    base[[7, 99_000]] = 1
    data = pth.dumps(StateDict.from_arrays({"a": base[7], "b": base[99_000], "c": base[8:10]}))
    assert len(data) < 5_000
    made = load(data)
    assert made["a"].tolist() == made["b"].tolist() == [1, 1, 1]
    assert not made["c"].any()


def numpy_arrays() -> dict[str, np.ndarray]:
    """What torch itself can hardly make, or numpy holds otherwise."""
    base = np.arange(24, dtype=np.float64).reshape(2, 3, 4)
    every = {f"{code} {order}": base.astype(f"{order}{code}") for code in NUMPY_CODES for order in "<>"}
    return every | {
        "backwards": base[:, ::-1], "turned back": base.T[::-1, :, ::-2], "fortran": np.asfortranarray(base),
        "broadcast": np.broadcast_to(np.float32([1, 2, 3]), (4, 3)), "zero-dim": np.array(2.5),
        "zero-dim of integers": np.array(7), "empty": np.empty((2, 0, 3), np.int16), "bool": base > 7,
        "fields apart": np.zeros(5, [("a", "<f4"), ("b", "u1")])["a"], "unaligned": unaligned(),
        "window": np.lib.stride_tricks.sliding_window_view(np.arange(9, dtype=np.int32), 4),
    }  # fmt: skip


NUMPY_CODES: Final = ["f2", "f4", "f8", "i2", "i4", "i8", "u2", "u4", "u8", "c8", "c16"]


def unaligned() -> np.ndarray:
    return np.frombuffer(bytes(range(1, 34)), np.uint8)[1:].view(np.float64)


def test_arrays_of_every_kind_load_as_what_numpy_says_they_hold() -> None:
    arrays = numpy_arrays()
    whole = load(pth.dumps(StateDict.from_arrays(arrays)))
    for name, array in arrays.items():
        for made in (whole[name], load(pth.dumps(StateDict.from_arrays({"w": array})))["w"]):
            assert tuple(made.shape) == array.shape, name
            native = np.ascontiguousarray(array, array.dtype.newbyteorder("="))
            assert str(made.dtype) == f"torch.{array.dtype.newbyteorder('=')}", name
            assert item_bytes(made) == native.tobytes(), name
    COUNTED["kinds of arrays"] += len(arrays)


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e8m0fnu"])
def test_small_floats_made_by_numpy_load_with_their_values(name: str) -> None:
    extra = pytest.importorskip("ml_dtypes")
    array = np.array([0.25, 1.0, 2.0, 8.0, 0.5, 4.0], np.float32).astype(getattr(extra, name))
    made = load(pth.dumps(StateDict.from_arrays({"w": array, "step": array[::2], "back": array[::-1], "z": array[0]})))
    assert str(made["w"].dtype) == f"torch.{name}"
    assert made["w"].float().tolist() == [0.25, 1.0, 2.0, 8.0, 0.5, 4.0]
    assert made["step"].float().tolist() == [0.25, 2.0, 0.5]
    assert made["back"].float().tolist() == [4.0, 0.5, 8.0, 2.0, 1.0, 0.25]


# -- the zip itself -----------------------------------------------------------------------------------


class Local:
    """A record as it stands in the file: what its local header, its extra field and its descriptor say."""

    def __init__(self, data: bytes, info: zipfile.ZipInfo, end: int) -> None:
        fields = struct.unpack_from("<4s5H3I2H", data, info.header_offset)
        name_length, extra_length = fields[-2:]
        self.fields = fields[:-1]
        """All but the length of the extra field, which pads."""
        at = info.header_offset + 30 + name_length
        self.extra = data[at : at + extra_length]
        self.start = at + extra_length
        self.content = data[self.start : self.start + info.file_size]
        self.rest = data[self.start + info.file_size : end]
        """The descriptor, up to the next record or the directory."""
        self.central = (info.create_version, info.create_system, info.extract_version, info.flag_bits, info.extra,
                        info.compress_type, info.internal_attr, info.external_attr, info.comment, info.CRC)  # fmt: skip


def records(data: bytes) -> dict[str, Local]:
    with zipfile.ZipFile(io.BytesIO(data)) as opened:
        infos = opened.infolist()
        ends = [info.header_offset for info in infos[1:]] + [opened.start_dir]
    return {info.filename: Local(data, info, end) for info, end in zip(infos, ends)}


@pytest.mark.parametrize("name", ["network batch norm", "network nothing", "adam", "many", "nothing", "views"])
def test_records_lie_in_the_file_as_torch_lays_them(name: str) -> None:
    theirs = save(several_values()[name])
    ours = pth.dumps(pth.loads(theirs))
    real, made = records(theirs), records(ours)
    assert list(made) == [record for record in real if record in made]
    assert set(real) - set(made) == {
        "archive/.format_version", "archive/.storage_alignment", "archive/.data/serialization_id"
    }  # fmt: skip
    for record, local in made.items():
        assert (local.start % 64, real[record].start % 64) == (0, 0)
        assert local.extra[:2] == real[record].extra[:2] == b"FB"
        assert len(local.extra) == int.from_bytes(local.extra[2:4], "little") + 4 < 68
        assert local.extra[4:].strip(b"Z") == real[record].extra[4:].strip(b"Z") == b""
        if record != "archive/data.pkl":  # which says the same in other words
            assert local.fields == real[record].fields
            assert local.rest == real[record].rest
            assert local.content == real[record].content
            assert local.central == real[record].central
        else:
            assert local.fields == real[record].fields
            assert local.central[:-1] == real[record].central[:-1]
            assert (local.rest[:4], len(local.rest)) == (real[record].rest[:4], len(real[record].rest))
    assert ours[-98:-94] == theirs[-98:-94] == b"PK\x06\x06"
    assert ours[-42:-38] == theirs[-42:-38] == b"PK\x06\x07"


@pytest.mark.parametrize("name", ["network batch norm", "adam", "many", "views", "network bfloat16"])
def test_torchs_own_zip_reader_finds_every_record(name: str) -> None:
    data = pth.dumps(pth.loads(save(several_values()[name])))
    reader = torch._C.PyTorchFileReader(io.BytesIO(data))
    made = records(data)
    assert [f"archive/{record}" for record in reader.get_all_records()] == list(made)
    for record, local in made.items():
        name = record.partition("/")[2]
        assert reader.has_record(name)
        assert reader.get_record(name) == local.content
        assert reader.get_record_offset(name) == local.start
    with zipfile.ZipFile(io.BytesIO(data)) as opened:
        assert opened.testzip() is None


@pytest.mark.parametrize("name", ["network batch norm", "adam", "many", "views", "network bfloat16", "parameters"])
def test_offsets_that_torch_may_compute_are_right(name: str, tmp_path: Path) -> None:
    """torch may compute where records lie, when a file says that it was written for that; ours must not mislead it."""
    config = pytest.importorskip("torch.utils.serialization.config")
    theirs = save(several_values()[name])
    expected = load(theirs)
    ours = pth.dumps(pth.loads(theirs))
    before = config.load.calculate_storage_offsets
    config.load.calculate_storage_offsets = True
    try:
        assert_alike(expected, load_mapped(ours, tmp_path))
        assert_alike(expected, load(ours))
    finally:
        config.load.calculate_storage_offsets = before


def test_mapped_tensors_are_aligned(tmp_path: Path) -> None:
    data = pth.dumps(pth.loads(save(several_values()["network recurrent"])))
    for tensor in load_mapped(data, tmp_path).values():
        assert tensor.data_ptr() % 64 == 0


def test_torch_saves_again_what_it_loaded_and_we_read_it() -> None:
    pytest.importorskip("ml_dtypes")
    for value in several_values().values():
        first = pth.loads(save(value))
        assert pth.loads(save(load(pth.dumps(first), weights_only=False))) == first


# -- archives of every release since SB3 2.0, written again, in the installed SB3 ---------------------


def constant(_: float) -> float:
    return 1e-3


REPLACED: Final[dict[str, Any]] = {
    "learning_rate": 1e-3, "lr_schedule": constant, "clip_range": constant, "clip_range_vf": None,
    "exploration_schedule": constant,
    "delta_std_schedule": constant,
}  # fmt: skip
"""What SB3's ``custom_objects`` gives for functions that an archive holds as code of another Python."""


def foreign_code(archive: Archive) -> set[str]:
    """Keys of ``data`` that hold code of another Python release: to run it may crash the interpreter."""
    info = archive.system_info
    assert info is not None
    if info.fields["Python"].startswith(f"{sys.version_info[0]}.{sys.version_info[1]}."):
        return set()
    return {
        key for key, value in archive.data.items() if isinstance(value, Serialized) and b"cloudpickle" in value.pickle
    }


def algorithm_of(archive: Archive) -> Any:
    name = archive.algorithm.name
    assert name is not None
    return getattr(sb3, name, None) or getattr(contrib, name)


def load_model(archive: Archive, data: bytes, foreign: set[str]) -> Any:
    """Load with the installed SB3; with an environment of the archive's spaces where hindsight needs one."""
    custom = {key: REPLACED[key] for key in foreign} or None
    env = None
    if any("HerReplayBuffer" in line for line in archive.algorithm.evidence):
        kept, _, _ = load_from_zip_file(io.BytesIO(data), device="cpu", custom_objects=custom)
        env = Small(kept["observation_space"], kept["action_space"])
    return algorithm_of(archive).load(io.BytesIO(data), env=env, device="cpu", custom_objects=custom)


def assert_same_actions(first: Any, second: Any, count: int = 5) -> None:
    space = first.observation_space
    space.seed(3)
    for _ in range(count):
        observation = space.sample()
        one, state = first.predict(observation, deterministic=True)
        two, other_state = second.predict(observation, deterministic=True)
        assert (one.dtype, one.shape, one.tobytes()) == (two.dtype, two.shape, two.tobytes())
        for mine, theirs in zip(state or (), other_state or ()):
            assert np.array_equal(mine, theirs)
    COUNTED["models that act the same"] += 1


MODERN: Final = [
    path for release in ("2.0.0", "2.3.2", "2.6.0", "2.9.2") for path in files(GENERATED, release, "*.zip")
]


@pytest.mark.parametrize("path", MODERN)
def test_an_archive_written_again_loads_in_sb3_and_acts_the_same(path: str) -> None:
    archive = sbformat.read(path)
    with open(path, "rb") as file:
        original = file.read()
    written = sbformat.writes(archive, reencode=True)
    foreign = foreign_code(archive)
    if foreign - set(REPLACED):
        COUNTED["archives skipped for code of another Python"] += 1
        pytest.skip(f"code of another Python in {', '.join(sorted(foreign - set(REPLACED)))}")
    try:
        model = load_model(archive, original, foreign)
    except Exception as refused:  # noqa: BLE001 -- whatever SB3 raises
        check_refused_alike(lambda: load_model(archive, written, foreign), refused)
        pytest.skip(f"the installed SB3 does not load the original either: {str(refused)[:60]!r}")
    ours = load_model(archive, written, foreign)
    assert_same_actions(model, ours)
    assert_alike_parameters(model, ours)
    assert model.num_timesteps == ours.num_timesteps


def check_refused_alike(load_ours: Callable[[], Any], refused: Exception) -> None:
    """Assert that SB3 says of our archive what it says of the original."""
    COUNTED["archives that the installed SB3 does not load, nor ours"] += 1
    with pytest.raises(type(refused)) as raised:
        load_ours()
    assert str(raised.value)[:60] == str(refused)[:60]


def assert_alike_parameters(first: Any, second: Any) -> None:
    assert_alike(first.get_parameters(), second.get_parameters())


@pytest.mark.parametrize("path", files(GENERATED, "2.0.0", "ppo-MlpPolicy-numpylr.zip"))
def test_numpy_numbers_in_an_optimizer_can_be_made_plain(path: str) -> None:
    """A way out for archives of SB3 < 2.3.2 that SB3 >= 2.8 refuses, for a learning rate is a numpy scalar."""
    archive = sbformat.read(path)
    plain_numbers = archive.replace(parameters={"policy.optimizer": archive.parameters["policy.optimizer"].to_numpy()})
    foreign = foreign_code(archive)
    with pytest.raises(Exception, match="[Ww]eights only load failed"):
        load_model(archive, sbformat.writes(archive, reencode=True), foreign)
    model = load_model(archive, sbformat.writes(plain_numbers), foreign)
    (group,) = model.policy.optimizer.param_groups
    assert type(group["lr"]) is float
    assert group["lr"] == archive.parameters["policy.optimizer"].to_numpy()["param_groups"][0]["lr"].item()


# -- models that are trained here ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def template(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, str]:
    """A model after a few steps, and the archive that it saved."""
    torch.manual_seed(0)
    model = MODELS[request.param][1]()
    model.learn(16)
    path = str(tmp_path_factory.mktemp("templates") / "template.zip")
    model.save(path)
    return model, path


SIX: Final = ["PPO", "A2C", "DQN", "SAC", "TD3", "TQC"]
MORE: Final = ["PPO continuous", "PPO images", "PPO dict", "CrossQ", "RecurrentPPO", "ARS"]
TEMPLATES: Final = pytest.mark.parametrize("template", SIX + MORE, indirect=True)
EVERY: Final = pytest.mark.parametrize("template", MODELS, indirect=True)


def new_weights(path: str, seed: int, dtype: Any = None) -> dict[str, np.ndarray]:
    """Random weights of the template's shapes; what shares memory there is equal here."""
    source = np.random.default_rng(seed)
    made: dict[int, np.ndarray] = {}
    weights = {}
    for name, array in sbformat.read_parameters(path)["policy"].items():
        place = array.__array_interface__["data"][0] if array.size else id(array)
        if place not in made:
            drawn = source.normal(scale=0.1, size=array.shape)
            whole = array.dtype.kind != "f"
            positive = "var" in name
            made[place] = array if whole else (np.abs(drawn) + 0.5 if positive else drawn).astype(dtype or array.dtype)
        weights[name] = made[place]
    return weights


def load_as(model: Any, path: str) -> Any:
    """Load with an environment like the model's, so that it can learn."""
    return type(model).load(path, env=Small(model.observation_space, model.action_space), device="cpu")


def assert_weights(model: Any, weights: dict[str, np.ndarray]) -> None:
    real = model.policy.state_dict()
    assert list(real) == list(weights)
    for name, tensor in real.items():
        expected = weights[name].astype(item_dtype(tensor))
        assert tuple(tensor.shape) == expected.shape
        assert item_bytes(tensor) == expected.tobytes(), name


def item_dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def assert_acts_as(model: Any, weights: dict[str, np.ndarray], make: Callable[[], Any]) -> None:
    """Assert that it acts as a model into whose policy torch itself put the weights."""
    other = make()
    other.policy.load_state_dict(
        {
            name: torch.tensor(array.astype(item_dtype(model.policy.state_dict()[name])))
            for name, array in weights.items()
        }
    )
    other.policy.set_training_mode(False)
    assert_same_actions(other, model)


def assert_learns_on(model: Any, folder: Path) -> None:
    """Assert that it goes on learning, saves, and that both we and SB3 read what it saved."""
    before = {name: tensor.clone() for name, tensor in model.policy.state_dict().items()}
    model.learn(16)
    assert model.num_timesteps >= 16
    if not isinstance(model, contrib.ARS):  # which sees no difference between the returns that it compares
        assert any(not torch.equal(tensor, before[name]) for name, tensor in model.policy.state_dict().items())
    path = str(folder / "learned.zip")
    model.save(path)
    for name, state in model.get_parameters().items():
        assert_same(state, sbformat.read(path).parameters[name])
    assert_same_actions(model, load_as(model, path), count=2)
    COUNTED["models that learned on"] += 1


@TEMPLATES
@pytest.mark.parametrize("dtype", [None, np.float64], ids=["float32", "float64"])
def test_weights_of_numpy_become_a_model_that_acts_and_learns(
    template: tuple[Any, str], dtype: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    model, path = template
    weights = new_weights(path, 11, dtype)
    made = str(tmp_path / "made.zip")
    sbformat.write(sbformat.new(sbformat.read(path), {"policy": weights}), made)
    loaded = load_as(model, made)
    assert_weights(loaded, weights)
    for optimizer in loaded._get_torch_save_params()[0]:
        if "optimizer" in optimizer:
            assert sbformat.read(made).parameters[optimizer]["state"] == {}
    assert_acts_as(loaded, weights, MODELS[request.node.callspec.params["template"]][1])
    assert_learns_on(loaded, tmp_path)


@pytest.mark.parametrize("template", SIX, indirect=True)
def test_optimizers_of_numpy_arrive_with_the_weights(template: tuple[Any, str], tmp_path: Path) -> None:
    model, path = template
    parameters = {"policy": new_weights(path, 12)}
    for name, value in sbformat.read_parameters(path).items():
        if "optimizer" in name:
            parameters[name] = halved(value)
    made = str(tmp_path / "made.zip")
    sbformat.write(sbformat.new(sbformat.read(path), parameters), made)
    loaded = load_as(model, made)
    assert_weights(loaded, parameters["policy"])
    real = loaded.get_parameters()
    before = model.get_parameters()
    for name in parameters:
        if name != "policy":
            assert_equal_values(halved_tensors(before[name]), real[name])
    assert_learns_on(loaded, tmp_path)


def halved(value: Any) -> Any:
    """An optimizer's state with its moments halved, in containers of the same kind."""
    if isinstance(value, np.ndarray):
        return value / np.float32(2) if value.ndim else value
    if isinstance(value, dict):
        return {key: halved(part) for key, part in value.items()}
    return value


def halved_tensors(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value / 2 if value.dim() else value
    if isinstance(value, dict):
        return {key: halved_tensors(part) for key, part in value.items()}
    return value


@pytest.mark.parametrize("template", SIX, indirect=True)
def test_sb3_sees_the_hyper_parameters_of_a_new_archive(template: tuple[Any, str], tmp_path: Path) -> None:
    model, path = template
    made = str(tmp_path / "made.zip")
    weights = new_weights(path, 13)
    changes = {"gamma": 0.75, "learning_rate": 1e-5, "num_timesteps": 1000}
    sbformat.write(sbformat.new(sbformat.read(path), {"policy": weights}, data=changes), made)
    loaded = load_as(model, made)
    assert_weights(loaded, weights)
    assert (loaded.gamma, loaded.learning_rate, loaded.num_timesteps) == (0.75, 1e-5, 1000)
    assert loaded.lr_schedule(1.0) == 1e-5
    assert_learns_on(loaded, tmp_path)
    rates = {group["lr"] for optimizer in optimizers(loaded) for group in optimizer.param_groups}
    assert rates == {1e-5}


def optimizers(model: Any) -> list[torch.optim.Optimizer]:
    found = []
    for name in model._get_torch_save_params()[0]:
        if "optimizer" in name:
            holder = model
            for part in name.split("."):
                holder = getattr(holder, part)
            found.append(holder)
    return found


def test_weights_that_torch_holds_are_taken_as_they_are(tmp_path: Path) -> None:
    """``model.get_parameters()`` goes in as it is: tensors have ``__array__``."""
    first, second = MODELS["PPO"][1](), MODELS["PPO"][1]()
    with torch.no_grad():
        for parameter in second.policy.parameters():
            parameter.mul_(1.5)
    path, made = str(tmp_path / "first.zip"), str(tmp_path / "made.zip")
    first.save(path)
    sbformat.write(sbformat.new(sbformat.read(path), second.get_parameters()), made)
    loaded = load_as(first, made)
    assert_alike_parameters(second, loaded)
    assert_same_actions(second, loaded)


@pytest.mark.parametrize("template", ["PPO images", "PPO dict"], indirect=True)
def test_extractors_that_share_weights_share_them_in_a_new_archive(template: tuple[Any, str], tmp_path: Path) -> None:
    _, path = template
    archive = sbformat.read(path)
    made = str(tmp_path / "made.zip")
    weights = {name: array * np.float32(2) for name, array in sbformat.read_parameters(path)["policy"].items()}
    sbformat.write(sbformat.new(archive, {"policy": weights}), made)
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(made) as opened:
        theirs, ours = load(old.read("policy.pth")), load(opened.read("policy.pth"))
    groups = {storage_of(tensor) for tensor in theirs.values()}
    assert len(groups) == len({storage_of(tensor) for tensor in ours.values()}) < len(ours)
    for name, tensor in ours.items():
        assert torch.equal(tensor, theirs[name] * 2)


# -- edits --------------------------------------------------------------------------------------------


@EVERY
def test_an_archive_without_the_moments_of_its_optimizers_acts_and_learns(
    template: tuple[Any, str], tmp_path: Path
) -> None:
    model, path = template
    archive = sbformat.read(path)
    dropped = {name: clear_optimizer(value) for name, value in archive.parameters.items() if "optimizer" in name}
    made = str(tmp_path / "made.zip")
    sbformat.write(archive.replace(parameters=dropped), made)
    loaded = load_as(model, made)
    assert_same_actions(model, loaded)
    assert_alike(model.policy.state_dict(), loaded.policy.state_dict())
    for optimizer, kept in zip(optimizers(loaded), optimizers(model)):
        assert not optimizer.state
        assert kept.state
    if dropped:
        assert os.path.getsize(made) < os.path.getsize(path)
    assert_learns_on(loaded, tmp_path)


@EVERY
def test_an_archive_written_again_is_the_model(template: tuple[Any, str], tmp_path: Path) -> None:
    model, path = template
    made = str(tmp_path / "made.zip")
    archive = sbformat.read(path)
    sbformat.write(archive, made, reencode=True)
    with open(made, "rb") as file:
        assert file.read() == sbformat.writes(archive, reencode=True)
    loaded = load_as(model, made)
    assert_alike_parameters(model, loaded)
    assert_same_actions(model, loaded)
    other = load_as(model, path)
    other.set_parameters(made, exact_match=True, device="cpu")
    assert_alike_parameters(model, other)


@pytest.mark.parametrize("template", SIX, indirect=True)
def test_sb3_sees_data_that_was_replaced(template: tuple[Any, str], tmp_path: Path) -> None:
    model, path = template
    archive = sbformat.read(path)
    data = {**archive.data, "gamma": 0.5, "learning_rate": 1e-4, "tensorboard_log": None, "_total_timesteps": 7}
    made = str(tmp_path / "made.zip")
    sbformat.write(archive.replace(data=data), made)
    loaded = load_as(model, made)
    assert (loaded.gamma, loaded.learning_rate, loaded._total_timesteps) == (0.5, 1e-4, 7)
    assert loaded.lr_schedule(0.5) == 1e-4
    assert_alike_parameters(model, loaded)
    assert_same_actions(model, loaded)
    assert_learns_on(loaded, tmp_path)


@pytest.mark.parametrize("template", ["PPO"], indirect=True)
def test_a_number_may_stand_where_sb3_saved_a_schedule(template: tuple[Any, str], tmp_path: Path) -> None:
    model, path = template
    archive = sbformat.read(path)
    assert isinstance(archive.data["clip_range"], Serialized)
    made = str(tmp_path / "made.zip")
    sbformat.write(archive.replace(data={**archive.data, "clip_range": 0.07}), made)
    loaded = load_as(model, made)
    assert loaded.clip_range(1.0) == 0.07
    assert_learns_on(loaded, tmp_path)


@pytest.mark.parametrize("template", ["PPO", "SAC"], indirect=True)
def test_sb3_loads_from_the_bytes_that_are_written(template: tuple[Any, str]) -> None:
    """An open stream; and entries that SB3 does not know do not disturb it."""
    model, path = template
    archive = sbformat.read(path).replace(extra={"notes.txt": "h\u00e9".encode(), "more/picture.bin": b"\x00" * 9})
    loaded = type(model).load(io.BytesIO(sbformat.writes(archive)), device="cpu", print_system_info=True)
    assert_same_actions(model, loaded)


@pytest.mark.parametrize("template", ["PPO", "SAC"], indirect=True)
def test_sb3_loads_an_archive_without_what_it_can_do_without(template: tuple[Any, str], tmp_path: Path) -> None:
    model, path = template
    archive = sbformat.read(path)
    spare = ["system_info.txt", "_stable_baselines3_version"]
    if not archive.pytorch_variables:
        spare.append("pytorch_variables.pth")
    made = str(tmp_path / "made.zip")
    sbformat.write(archive.without(*spare), made)
    assert_same_actions(model, load_as(model, made))


# -- older releases of torch --------------------------------------------------------------------------


OLD: Final = [path for path in os.environ.get("SBFORMAT_OLD_TORCH", "").split(os.pathsep) if path]
NEEDED: Final = ("network", "adam", "views", "many", "names", "top", "nothing", "scalars")
"""Beginnings of the names of values that every release must load."""


@pytest.mark.parametrize("interpreter", OLD, ids=range(len(OLD)))
def test_an_older_torch_loads_our_files_as_those_of_this_torch(interpreter: str, tmp_path: Path) -> None:
    values = several_values() | {f"dtype {name}": {"w": plain(name)} for name in STRIDED}
    for folder in ("theirs", "ours"):
        (tmp_path / folder).mkdir()
    for name, value in values.items():
        data = save(value)
        (tmp_path / "theirs" / f"{name}.pth").write_bytes(data)
        (tmp_path / "ours" / f"{name}.pth").write_bytes(pth.dumps(pth.loads(data)))
    theirs, ours = (told_by(interpreter, tmp_path / folder) for folder in ("theirs", "ours"))
    for name, ways in theirs["files"].items():
        assert "value" in ways["plain"] or not name.startswith(NEEDED), (name, ways["plain"])
        for way, expected in ways.items():
            if "value" in expected:
                COUNTED[f"values that torch {theirs['torch']} loads, {way}"] += 1
                assert ours["files"][name][way] == expected, (name, way)


def told_by(interpreter: str, folder: Path) -> Any:
    child = os.path.join(HERE, "old_torch_child.py")
    ran = subprocess.run(
        [interpreter, "-W", "ignore", child, str(folder)], capture_output=True, text=True, check=False, timeout=300
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])
