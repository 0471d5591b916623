"""Real torch writes, sbformat reads: equal bit for bit, with shapes, strides and flags."""

# ruff: noqa: E402 -- importorskip stands before what needs it
from __future__ import annotations

import io
import pickletools
import random
import zipfile
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from conformance.generators.build_pth import REBUILD_PARAMETER_WITH_STATE, Apply, floats, make_zip, ordered, torch_zip
from sbformat import SbformatError, UnsupportedError, pth
from sbformat.pth.values import DTYPES, QUANTIZED
from tests.interop.torch_values import assert_same, item_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # torch's own, of its deprecations
]

LEGACY: Final = {"_use_new_zipfile_serialization": False}
WAYS: Final[dict[str, dict[str, Any]]] = {
    "zip": {},
    "legacy": LEGACY,
    **{f"protocol {number}": {"pickle_protocol": number} for number in (3, 4, 5)},
    **{f"legacy, protocol {number}": {**LEGACY, "pickle_protocol": number} for number in (3, 4, 5)},
}


def save(value: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    torch.save(value, file, **options)
    return file.getvalue()


def agree(value: Any, **options: Any) -> pth.StateDict:
    """Save a value, read it, and compare it with the value itself and with what torch reads."""
    data = save(value, **options)
    state_dict = pth.loads(data)
    assert_same(value, state_dict)
    return state_dict


def plain(name: str) -> torch.Tensor:
    """Twelve items of a dtype, of random bytes: every kind of number there is, NaN with payloads too."""
    itemsize = DTYPES[name].itemsize
    raw = random.Random(name).randbytes(12 * itemsize)  # noqa: S311
    if name == "bool":
        raw = bytes(byte & 1 for byte in raw)
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(getattr(torch, name))


STRIDED: Final = sorted(set(DTYPES) - QUANTIZED)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", STRIDED)
def test_every_dtype(name: str, way: str) -> None:
    tensor = plain(name)
    state_dict = agree({"flat": tensor, "part": tensor[3:7], "matrix": tensor.reshape(3, 4).t()}, **WAYS[way])
    assert {info.dtype for info in state_dict.tensors().values()} == {name}
    made = state_dict.to_numpy()
    assert np.shares_memory(made["flat"], made["part"]) == (name != "complex32")  # which is widened, hence copied


def test_the_table_of_dtypes_is_torchs() -> None:
    for name, row in DTYPES.items():
        dtype = getattr(torch, name)
        assert row.itemsize == dtype.itemsize
        if name not in QUANTIZED:
            assert (row.numpy[0] == "c") == dtype.is_complex


@pytest.mark.parametrize("way", WAYS)
def test_views_and_shared_storages(way: str) -> None:
    base = torch.arange(120.0).reshape(2, 3, 4, 5)
    state_dict = agree(
        {
            "base": base,
            "again": base,
            "slice": base[1],
            "step": base[:, ::2, 1:, ::3],
            "turned": base.permute(3, 1, 0, 2),
            "channels last": base.contiguous(memory_format=torch.channels_last),
            "expanded": torch.tensor([1.0, 2.0]).expand(7, 2),
            "expanded scalar": torch.tensor(3.0).expand(5, 5),
            "scalar": base[0, 1, 2, 3],
            "empty": base[:, :0],
            "flat": base.view(-1)[7:31],
            "odd strides": torch.as_strided(base, (1, 4, 1), (77, 3, 999), 5),
            "overlapping": base.view(-1).unfold(0, 5, 2),
            "diagonal": base[0, 0].diagonal(),
            "none": torch.empty(0),
            "no rows": torch.empty(0, 7, 3),
        },
        **WAYS[way],
    )
    made = state_dict.to_numpy()
    assert made["base"] is made["again"]
    for name in ("slice", "step", "turned", "scalar", "flat", "odd strides", "overlapping", "diagonal"):
        assert np.shares_memory(made["base"], made[name]), name
    assert not np.shares_memory(made["base"], made["channels last"])


@pytest.mark.parametrize("way", ["zip", "legacy"])
def test_any_geometry_that_torch_allows(way: str) -> None:
    """Four hundred random ``as_strided`` views, several a file, of several dtypes."""
    source = random.Random(20240229)  # noqa: S311
    for round_ in range(80):
        name = source.choice(STRIDED)
        storage = plain(name).repeat(source.randint(1, 9))
        views = {f"v{number}": strided(storage, source) for number in range(5)}
        if round_ % 3 == 0:
            views["all"] = storage
        agree(views, **(LEGACY if way == "legacy" else {}))


def strided(storage: torch.Tensor, source: random.Random) -> torch.Tensor:
    shape = [source.choice((0, 1, 1, 2, 3, 4, 5)) for _ in range(source.randint(0, 5))]
    strides = [source.choice((0, 1, 1, 2, 3, 5, 7, 20, 1000)) for _ in shape]
    while (last := sum((size - 1) * step for size, step in zip(shape, strides) if size)) >= len(storage):
        at = source.randrange(len(shape))
        shape[at], strides[at] = min(shape[at], 2), strides[at] // 2
        if not strides[at]:
            shape[at] = min(shape[at], 5)
    return torch.as_strided(storage, shape, strides, source.randrange(len(storage) - max(last, 0)))


@pytest.mark.parametrize("name", ["complex32", "complex64", "complex128"])
def test_conj_and_neg_views(name: str) -> None:
    tensor = plain(name)
    agree({"conj": tensor.conj(), "plain": tensor})
    agree({"matrix": tensor.reshape(3, 4).t().conj()[1:], "scalar": tensor[3].conj(), "empty": tensor[:0].conj()})
    if name != "complex32":
        negative = tensor.conj().imag
        assert negative.is_neg()
        agree({"neg": negative})
        agree({"both": torch._neg_view(tensor.conj()), "neg": torch._neg_view(tensor)})


def test_parameters_and_buffers() -> None:
    frozen = torch.nn.Parameter(torch.ones(2, 3), requires_grad=False)
    noted = torch.nn.Parameter(torch.ones(3))
    noted.note = {"role": "actor", "sizes": [1, 2]}
    grown = torch.ones(3, requires_grad=True)
    state_dict = agree(
        [torch.nn.Parameter(torch.ones(2)), frozen, noted, grown, grown.detach(), torch.nn.Buffer(grown)]
    )
    assert state_dict.tree[2].state is not None
    assert agree({"t": torch.nn.Parameter(torch.ones(2, dtype=torch.int64), requires_grad=False)})["t"].tolist() == [
        1,
        1,
    ]
    tensor = torch.ones(2)
    tensor.note = "attribute"
    assert agree(tensor).tree.state == {"note": "attribute"}


def networks() -> dict[str, torch.nn.Module]:
    torch.manual_seed(1)
    shared = torch.nn.Linear(4, 4)
    tied = torch.nn.Sequential(shared, torch.nn.ReLU(), shared)
    return {
        "batch norm": torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2)),
        "convolution": torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8)).to(
            memory_format=torch.channels_last
        ),
        "recurrent": torch.nn.LSTM(3, 5, num_layers=2),
        "attention": torch.nn.MultiheadAttention(8, 2),
        "tied": tied,
        "embedding": torch.nn.EmbeddingBag(5, 3),
        "half": torch.nn.Linear(3, 3).half(),
        "bfloat16": torch.nn.Linear(3, 3).bfloat16(),
        "double": torch.nn.Linear(3, 3).double(),
        "nothing": torch.nn.ReLU(),
    }


@pytest.mark.parametrize("way", WAYS)
def test_state_dicts_of_modules(way: str) -> None:
    for module in networks().values():
        state_dict = agree(module.state_dict(), **WAYS[way])
        assert state_dict.metadata[""] == {"version": 1} or state_dict.metadata
        agree(OrderedDict(module.named_parameters()), **WAYS[way])
    agree({name: module.state_dict() for name, module in networks().items()}, **WAYS[way])


def optimizers() -> list[str]:
    return sorted(
        name
        for name in dir(torch.optim)
        if isinstance(getattr(torch.optim, name), type)
        and issubclass(getattr(torch.optim, name), torch.optim.Optimizer)
        and name != "Optimizer"
    )


@pytest.mark.parametrize("name", optimizers())
def test_every_optimizer_after_a_step(name: str) -> None:
    torch.manual_seed(2)
    weights = torch.nn.Parameter(torch.randn(3, 4))
    cls = getattr(torch.optim, name)
    parameters = [weights] if name == "Muon" else [weights, torch.nn.Parameter(torch.randn(4))]
    optimizer = cls(parameters) if name not in ("SGD", "RMSprop") else cls(parameters, lr=0.1, momentum=0.9)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = sum((parameter**2).sum() for parameter in parameters)
        loss.backward()
        return loss

    if name == "SparseAdam":
        loss = torch.nn.functional.embedding(torch.tensor([1]), weights, sparse=True).sum()
        loss.backward()
        optimizer.step()
    else:
        optimizer.step(closure)
    for way in WAYS.values():
        state_dict = agree(optimizer.state_dict(), **way)
    assert list(state_dict) == ["state", "param_groups"]
    assert state_dict["param_groups"][0]["params"] == list(range(len(parameters)))
    if name not in ("SparseAdam", "LBFGS"):
        assert any(path.startswith("state/[0]/") for path in state_dict.tensors())


def test_sparse_tensors() -> None:
    matrix = torch.tensor([[0.0, 1, 0, 2], [0, 0, 0, 3], [4, 0, 5, 6], [7, 0, 0, 8]])
    coo = matrix.to_sparse()
    values = {
        "coo": coo,
        "uncoalesced": torch.sparse_coo_tensor(torch.tensor([[0, 0], [1, 1]]), torch.tensor([1.0, 2.0]), (2, 3)),
        "hybrid": torch.sparse_coo_tensor(torch.tensor([[0, 2]]), torch.ones(2, 3), (4, 3)),
        "empty": torch.sparse_coo_tensor(size=(3, 4)),
        "csr": matrix.to_sparse_csr(),
        "csc": matrix.to_sparse_csc(),
        "bsr": matrix.to_sparse_bsr((2, 2)),
        "bsc": matrix.to_sparse_bsc((2, 2)),
        "int32 indices": torch.sparse_csr_tensor(
            torch.tensor([0, 1, 2], dtype=torch.int32), torch.tensor([0, 1], dtype=torch.int32), torch.ones(2), (2, 2)
        ),
        "double": matrix.double().to_sparse(),
        "parameter": torch.nn.Parameter(coo),
    }
    for way in WAYS.values():
        agree(values, **way)


def test_quantized_tensors() -> None:
    torch.manual_seed(3)
    source = torch.randn(4, 6)
    values: dict[str, torch.Tensor] = {}
    for dtype in (torch.qint8, torch.quint8, torch.qint32):
        values[str(dtype)] = torch.quantize_per_tensor(source, 0.0371, 3, dtype)
        values[f"{dtype} by channel"] = torch.quantize_per_channel(
            source, torch.rand(4).double() * 0.1 + 0.01, torch.arange(4), 0, dtype
        )
        values[f"{dtype} turned"] = torch.quantize_per_tensor(source, 0.1, 0, dtype).t()
    by_column = torch.quantize_per_channel(
        source, torch.rand(6) + 0.01, torch.zeros(6, dtype=torch.int64), 1, torch.quint8
    )
    values["by column"] = by_column
    values["float zero points"] = torch._empty_per_channel_affine_quantized(
        (4, 3), scales=torch.rand(4), zero_points=torch.rand(4), axis=0, dtype=torch.quint8
    )
    for way in WAYS.values():
        agree(values, **way)


def test_packed_quantized_tensors_are_unsupported() -> None:
    packed = torch._empty_per_channel_affine_quantized(
        (4, 4), scales=torch.rand(4), zero_points=torch.rand(4), axis=0, dtype=torch.quint4x2
    )
    with pytest.raises(UnsupportedError):
        pth.loads(save(packed))


def test_values_of_other_kinds() -> None:
    value = {
        "meta": torch.empty_strided((2, 3), (1, 2), dtype=torch.float16, device="meta"),
        "meta parameter": torch.nn.Parameter(torch.empty(2, device="meta")),
        "size": torch.Size((2, 3)),
        "dtypes": [getattr(torch, name) for name in DTYPES],
        "layouts": [torch.strided, torch.sparse_coo, torch.sparse_csr],
        "devices": [torch.device("cpu"), torch.device("cuda", 1), torch.device("meta")],
        "storage": torch.arange(3.0).untyped_storage(),
        "typed storage": torch.arange(3, dtype=torch.int16).storage(),
        "array": np.arange(6.0).reshape(2, 3),
        "scalar": np.float64(0.1),
        "numbers": [1, 2**70, -(2**40), 1.5, float("inf"), float("nan"), -0.0, 1 + 2j, True, None],
        "texts": ["", "h\u00e9llo", "lone \ud800", b"", b"\x00\xff", bytearray(b"xy"), bytearray()],
        "sets": [{1, 2}, set(), frozenset({"a"}), frozenset()],
        "keys": {0: "a", True: "b", 7: "c", None: "d", 1.5: "e", (0, "x"): "f"},
        "ordered": OrderedDict(b=1, a=OrderedDict()),
        "nested": [([{"a": ((),)}],)],
    }
    for way in WAYS.values():
        agree(value, **way)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_empty_bytes_and_arrays(protocol: int) -> None:
    agree({"raw": b"", "array": np.zeros((0, 3)), "keys": {b"a": 1}}, pickle_protocol=protocol)


def test_lists_that_are_shared_stay_shared() -> None:
    part = [1, torch.ones(2)]
    made = agree({"a": part, "b": part}).to_numpy()
    assert made["a"] is made["b"]


def test_many_ordered_dicts_in_the_legacy_stream() -> None:
    agree({f"d{number}": OrderedDict(w=torch.full((2,), float(number))) for number in range(50)}, **LEGACY)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        lambda: torch.nn.Linear(1, 1),
        lambda: torch.empty(4, dtype=torch.bits8),
        lambda: torch.ones(2, dtype=torch.float32).requires_grad_().register_hook,
        lambda: np.array(["a"]),
        lambda: range(3),
    ],
    ids=["nested", "module", "bits", "method", "text array", "range"],
)
def test_what_we_have_no_value_for_is_unsupported(make: Callable[[], Any]) -> None:
    for way in ("zip", "legacy"):
        try:
            data = save(make(), **WAYS[way])
        except Exception:  # noqa: BLE001, S112 -- torch has no such thing, or cannot save it that way
            continue
        with pytest.raises(UnsupportedError):
            pth.loads(data)


# -- the container ------------------------------------------------------------------------------------


def test_files_without_crcs() -> None:
    torch.serialization.set_crc32_options(False)
    try:
        data = save({"w": torch.arange(3.0)})
    finally:
        torch.serialization.set_crc32_options(True)
    with pytest.raises(SbformatError, match="unchecked_crc=True"):
        pth.loads(data)
    assert pth.loads(data, unchecked_crc=True)["w"].tolist() == [0, 1, 2]


def test_files_saved_to_a_path_bear_its_name(tmp_path: Any) -> None:
    for name in ("model.pt", "policy.v1.pth", "without", "h\u00e9.pth"):
        torch.save({"w": torch.arange(3.0)}, tmp_path / name)
        assert pth.loads((tmp_path / name).read_bytes())["w"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("alignment", [1, 64, 4096])
def test_any_alignment_of_records(alignment: int) -> None:
    from torch.utils.serialization import config

    before = config.save.storage_alignment
    config.save.storage_alignment = alignment
    try:
        agree({str(size): torch.arange(float(size)) for size in (0, 1, 5, 1000)})
    finally:
        config.save.storage_alignment = before


def test_a_large_file() -> None:
    """More than a thousand of everything: Python's pickler writes items by the thousand."""
    weights = {f"layer{number}.weight": torch.randn(3, number % 5) for number in range(2500)}
    for way in WAYS.values():
        agree(OrderedDict(weights), **way)
        agree({"state": {number: {"w": weight} for number, weight in enumerate(weights.values())}}, **way)
        agree([list(range(2500)), list(weights.values()), set(range(2500))], **way)


@pytest.mark.parametrize(
    "name", ["float32", "int16", "complex64", "complex128", "float16", "bfloat16", "bool", "int64"]
)
def test_big_endian_files_as_torch_reads_them(name: str) -> None:
    data = save({"w": plain(name), "v": plain(name)[2:5]})
    swapped = with_byte_order(data, b"big")
    assert_same(torch.load(io.BytesIO(swapped), weights_only=True), pth.loads(swapped))


def with_byte_order(data: bytes, order: bytes) -> bytes:
    """The same records with another ``byteorder``."""
    with zipfile.ZipFile(io.BytesIO(data)) as opened:
        records = [(name, opened.read(name)) for name in opened.namelist()]
    return make_zip([(name, order if name.endswith("/byteorder") else raw) for name, raw in records])


def test_no_view_of_a_file_is_writable_and_every_copy_is() -> None:
    data = save(
        {"w": torch.arange(6.0).reshape(2, 3).t(), "e": torch.ones(1).expand(3), "c": torch.ones(2).cfloat().conj()}
    )
    for array in pth.loads(data).to_numpy().values():
        assert not array.flags.writeable
    for array in pth.loads(data, copy=True).to_numpy().values():
        assert array.flags.writeable
        assert array.flags.aligned


# -- made files, as torch reads them ------------------------------------------------------------------


EIGHT: Final = np.arange(8, dtype="<f4").tobytes()
OTHER: Final = np.arange(10, 18, dtype="<f4").tobytes()


def never_different(data: bytes) -> None:
    """Assert that we refuse a file or read what torch reads; what torch refuses we may read."""
    try:
        state_dict = pth.loads(data)
        state_dict.to_numpy()
    except SbformatError:
        return
    for weights_only in (True, False):
        try:
            real = torch.load(io.BytesIO(data), weights_only=weights_only)
        except Exception:  # noqa: BLE001, S112 -- whatever torch raises
            continue
        assert_same(real, state_dict)


def test_attributes_that_change_the_tensor() -> None:
    for name in ("data", "requires_grad", "grad", "real"):
        state = {name: floats((8,), "1") if name != "requires_grad" else False}
        call = Apply(REBUILD_PARAMETER_WITH_STATE, (floats((8,)), True, ordered(), state))
        never_different(torch_zip(call, {"0": EIGHT, "1": OTHER}))


def test_records_whose_names_differ_only_in_case() -> None:
    never_different(torch_zip({"w": floats((8,), "A")}, {"a": EIGHT, "A": OTHER}))
    never_different(torch_zip({"w": floats((8,), "a")}, {"a": EIGHT, "A": OTHER}))


def small_values() -> list[Any]:
    """What the files hold whose pickles are then changed at random."""
    torch.manual_seed(4)
    network = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    adam = torch.optim.Adam(network.parameters())
    network(torch.randn(4, 3)).sum().backward()
    adam.step()
    numbers = torch.randn(3, dtype=torch.complex64)
    noted = torch.nn.Parameter(torch.ones(2, 3))
    noted.note = 3
    return [
        network.state_dict(),
        adam.state_dict(),
        {"v": torch.arange(24.0)[3:9].view(2, 3).t(), "e": torch.ones(1).expand(5)},
        [numbers.conj(), numbers.clone().conj().imag, torch.arange(4, dtype=torch.int16).view(torch.uint16)],
        {"p": noted, "s": torch.Size((1, 2)), "d": torch.device("cpu"), "t": torch.float32, "z": torch.tensor(3)},
        torch.zeros((2, 0, 3)),
    ]


def records_of(data: bytes) -> dict[str, bytes]:
    """The records of a torch zip, without their folder."""
    with zipfile.ZipFile(io.BytesIO(data)) as opened:
        return {name.partition("/")[2]: opened.read(name) for name in opened.namelist()}


def parts_of(data: bytes) -> list[bytes]:
    """The head of a legacy stream, the pickle of its object, and what follows."""
    file = io.BytesIO(data)
    ends = [0]
    for _ in range(4):
        list(pickletools.genops(file))
        ends.append(file.tell())
    return [data[: ends[3]], data[ends[3] : ends[4]], data[ends[4] :]]


NUMBERS: Final = (0, 1, 2, 3, 4, 5, 7, 8, 255, 256, 65535)
NAMES: Final = (
    b"torch\nSize\n", b"torch\nLongStorage\n", b"torch\nHalfStorage\n", b"torch.storage\nUntypedStorage\n",
    b"torch._utils\n_rebuild_tensor\n", b"torch._utils\n_rebuild_parameter\n", b"torch._utils\n_rebuild_tensor_v3\n",
    b"collections\nOrderedDict\n", b"torch\nfloat16\n", b"torch\nint64\n",
)  # fmt: skip


def changed(pickled: bytes, source: random.Random) -> bytes:
    """A pickle with one to three opcodes changed, removed, doubled or replaced by another."""
    made = bytearray(pickled)
    for _ in range(source.choice((1, 1, 2, 3))):
        try:
            found = [(opcode.name, at) for opcode, _, at in pickletools.genops(bytes(made))]
        except ValueError:
            return bytes(made)
        index = source.randrange(len(found))
        name, at = found[index]
        end = found[index + 1][1] if index + 1 < len(found) else len(made)
        if name in ("BININT1", "BININT2", "BININT", "LONG1"):
            number = source.choice(NUMBERS)
            made[at:end] = b"K" + bytes([number]) if number < 256 else b"M" + number.to_bytes(2, "little")
        elif name == "BINGET":
            made[at + 1] = source.randrange(40)
        elif name in ("NEWTRUE", "NEWFALSE", "NONE"):
            made[at:end] = source.choice((b"\x88", b"\x89", b"N", b"K\x00", b")"))
        elif name == "GLOBAL":
            made[at:end] = b"c" + source.choice(NAMES)
        else:
            other = source.randrange(len(found))
            stop = found[other + 1][1] if other + 1 < len(found) else len(made)
            made[at:end] = source.choice((b"", bytes(made[at:end]) * 2, bytes(made[found[other][1] : stop])))
    return bytes(made)


@pytest.mark.parametrize("seed", range(6))
def test_changed_pickles_are_refused_or_read_as_torch_reads_them(seed: int) -> None:
    """A thousand files a seed; none may read otherwise than in torch."""
    source = random.Random(seed)  # noqa: S311
    templates = [records_of(save(value)) for value in small_values()]
    for _ in range(1000):
        records = dict(source.choice(templates))
        records["data.pkl"] = changed(records["data.pkl"], source)
        never_different(make_zip([(f"archive/{name}", raw) for name, raw in records.items()]))


@pytest.mark.parametrize("seed", range(3))
def test_changed_legacy_streams_are_refused_or_read_as_torch_reads_them(seed: int) -> None:
    """A thousand streams a seed, with their object or their storages changed."""
    source = random.Random(seed)  # noqa: S311
    values = [value for value in small_values() if not isinstance(value, list)]  # torch cannot load its uint16 there
    templates = [parts_of(save(value, **LEGACY)) for value in values]
    for _ in range(1000):
        head, pickled, rest = source.choice(templates)
        never_different(head + changed(pickled, source) + rest)


def test_the_comparison_sees_a_difference() -> None:
    """The oracle of this module is not blind."""
    state_dict = pth.loads(save({"w": torch.arange(3.0)}))
    for other in (torch.tensor([0.0, 1.0, 2.5]), torch.arange(3), torch.arange(3.0).reshape(1, 3), torch.arange(4.0)):
        with pytest.raises(AssertionError):
            assert_same({"w": other}, state_dict)
    with pytest.raises(AssertionError):
        assert_same({"w": torch.arange(3.0, requires_grad=True)}, state_dict)
    assert item_bytes(torch.arange(2.0)) == np.arange(2, dtype="<f4").tobytes()
