"""State dicts that were read are written again: everything that a ``.pth`` can hold, and what becomes of it."""

from __future__ import annotations

import io
import weakref
import zipfile
from collections import OrderedDict
from typing import Any, Final

import numpy as np
import pytest

from conformance.generators.build_pth import (
    DEVICE,
    GET_LAYOUT,
    REBUILD,
    REBUILD_FROM_TYPE,
    REBUILD_META,
    REBUILD_PARAMETER,
    REBUILD_PARAMETER_WITH_STATE,
    REBUILD_Q,
    REBUILD_SPARSE,
    REBUILD_V2,
    REBUILD_V3,
    SIZE,
    UNTYPED,
    Apply,
    Change,
    Name,
    Pairs,
    Run,
    floats,
    legacy_stream,
    ordered,
    storage,
    tensor,
    torch_zip,
)
from sbformat import TensorError, UnsupportedError, pkl, pth
from sbformat.limits import Budget
from sbformat.pkl import Call, Global
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pkl.tree import FrozenSet, Set
from sbformat.pth import StateDict
from sbformat.pth.compare import equal
from sbformat.pth.encode import Calls
from sbformat.pth.file_storage import FileStorage
from sbformat.pth.values import Storage, TensorInfo
from tests.helpers.many_cases import check_each

EIGHT: Final = np.arange(8, dtype="<f4").tobytes()
OTHER: Final = np.arange(10, 18, dtype="<f4").tobytes()
NONE: Final = ordered()
MAGIC: Final = Name("my.module", "function")


def again(data: bytes, **options: Any) -> StateDict:
    """Assert that a file is the same when it is written again, and that the second time the bytes are, too."""
    before = pth.loads(data, **options)
    raw = pth.dumps(before)
    after = pth.loads(raw, **options)
    assert after == before
    assert pth.dumps(after) == raw
    return after


def pickle_of(made: StateDict) -> Any:
    """The inert tree of the pickle that is written."""
    with zipfile.ZipFile(io.BytesIO(pth.dumps(made))) as opened:
        return pkl.loads(opened.read("archive/data.pkl"))


def names_in(tree: Any) -> set[str]:
    return {str(node) for node in pkl.tree.walk(tree) if isinstance(node, Global)}


# -- the zip ------------------------------------------------------------------------------------------


def test_the_records_are_those_of_the_format() -> None:
    made = StateDict.from_arrays({"a": np.ones(3, "f4"), "b": np.zeros(0), "c": np.ones(2, "u2")})
    with zipfile.ZipFile(io.BytesIO(pth.dumps(made))) as opened:
        assert opened.testzip() is None
        assert opened.namelist() == [
            "archive/data.pkl",
            "archive/byteorder",
            "archive/data/0",
            "archive/data/1",
            "archive/data/2",
            "archive/version",
        ]
        assert opened.read("archive/byteorder") == b"little"
        assert opened.read("archive/version") == b"3\n"
        assert opened.read("archive/data/0") == np.ones(3, "<f4").tobytes()


def test_storages_are_numbered_as_the_pickle_meets_them() -> None:
    """Whatever they were called, and whichever were not needed."""
    tree = {"x": floats((8,), "94"), "y": floats((8,), "a key"), "z": floats((8,), "94")}
    found = again(torch_zip(tree, {"94": EIGHT, "a key": OTHER, "unused": bytes(4)}))
    assert [store.key for store in found.storages()] == ["0", "1"]
    assert found.info("x").storage is found.info("z").storage
    assert found.array("y").tolist() == list(range(10, 18))


def test_the_size_is_known_before_a_storage_is_read() -> None:
    read: list[object] = []

    def read_storage(how: object) -> memoryview:
        read.append(how)
        return memoryview(EIGHT)

    storage = Storage("0", "float32", 8, "cpu", "little", read_storage, "0")
    made = StateDict({"w": TensorInfo("float32", (8,), (1,), 0, storage)}, Budget())
    encoded = pth.encode_pth(made)
    assert (encoded.size > 32, read) == (True, [])
    assert encoded.size == len(pth.dumps(made))
    assert len(read) == 1


# -- tensors ------------------------------------------------------------------------------------------

SHARED: Final = tensor(storage(8), (2, 4))
STORED: Final[dict[str, Any]] = {
    "plain": floats((2, 4)),
    "transposed": tensor(storage(8), (4, 2), (1, 4)),
    "offset": tensor(storage(8), (3,), (2,), 2),
    "expanded": tensor(storage(8), (3, 8), (0, 1)),
    "zero-dimensional": tensor(storage(8), (), (), 7),
    "empty": tensor(storage(8), (0, 3)),
    "odd strides of one": tensor(storage(8), (1, 8), (77, 1)),
    "overlapping": tensor(storage(8), (3, 4), (2, 1)),
    "requires grad": tensor(storage(8), (8,), None, 0, True),
    "shared": [SHARED, SHARED, floats((8,))],
    "old": Apply(REBUILD, (storage(8), 0, (8,), (1,))),
    "v3 typed": Apply(REBUILD_V3, (storage(8), 0, (8,), (1,), False, NONE, Name("torch", "float32"))),
    "v3 untyped": Apply(REBUILD_V3, (storage(32, "0", UNTYPED), 1, (3,), (2,), False, NONE, Name("torch", "uint32"))),
    "neg": tensor(storage(8), (8,), None, 0, False, {"neg": True}),
    "parameter": Apply(REBUILD_PARAMETER, (floats((8,)), True, NONE)),
    "frozen parameter": Apply(REBUILD_PARAMETER, (floats((8,)), False, NONE)),
    "parameter of a tensor that learns": Apply(
        REBUILD_PARAMETER, (tensor(storage(8), (8,), None, 0, True), False, NONE)
    ),
    "attributes": Apply(
        REBUILD_FROM_TYPE,
        (REBUILD_V2, Name("torch", "Tensor"), (storage(8), 0, (8,), (1,), True, NONE), {"tag": [1, "a"]}),
    ),
    "no attributes": Apply(
        REBUILD_FROM_TYPE, (REBUILD_V2, Name("torch", "Tensor"), (storage(8), 0, (8,), (1,), False, NONE), {})
    ),
    "attributes of v3": Apply(
        REBUILD_FROM_TYPE,
        (
            REBUILD_V3,
            Name("torch", "Tensor"),
            (storage(32, "0", UNTYPED), 0, (4,), (1,), False, NONE, Name("torch", "uint16"), {"neg": True}),
            {"a": 1},
        ),
    ),
    "parameter by its type": Apply(
        REBUILD_FROM_TYPE,
        (REBUILD_V2, Name("torch.nn.parameter", "Parameter"), (storage(8), 0, (8,), (1,), True, NONE), {"tag": 1}),
    ),
    "parameter with attributes": Apply(REBUILD_PARAMETER_WITH_STATE, (floats((8,)), True, NONE, {"tag": (1, None)})),
    "storage": storage(8),
    "storage and tensor": [storage(8), floats((8,))],
    "untyped storage": storage(32, "0", UNTYPED),
    "on a card": tensor(storage(8, "0", "FloatStorage", "cuda:0"), (8,)),
    "meta": Apply(REBUILD_META, (Name("torch", "float16"), (2, 3), (3, 1), True)),
    "meta parameter": Apply(
        REBUILD_PARAMETER, (Apply(REBUILD_META, (Name("torch", "float32"), (2,), (1,), False)), True, NONE)
    ),
}  # fmt: skip


@check_each("kind", STORED)
def test_each_kind_of_tensor_comes_back(kind: str) -> None:
    """``loads(dumps(loads(x))) == loads(x)``, with geometry, flags, sharing and location."""
    data = torch_zip({"v": STORED[kind]}, {"0": EIGHT})
    before, after = pth.loads(data), again(data)
    for path, info in before.tensors().items():
        other = after.info(path)
        if isinstance(info, pth.TensorInfo):
            assert info._replace(storage=None, state=None) == other._replace(storage=None, state=None)
            assert info.location == other.location
            assert info.storage.nbytes == other.storage.nbytes
        else:
            assert info == other
    assert len(before.storages()) == len(after.storages())


def test_a_parameter_is_wrapped_and_its_tensor_does_not_learn() -> None:
    made = pickle_of(pth.loads(torch_zip(STORED["parameter"], {"0": EIGHT})))
    assert made.func.pair == ("torch._utils", "_rebuild_parameter")
    assert made.args[1] is True
    assert made.args[0].func.pair == ("torch._utils", "_rebuild_tensor_v2")
    assert made.args[0].args[4] is False


DTYPES: Final = {
    "DoubleStorage": 8, "FloatStorage": 4, "HalfStorage": 2, "BFloat16Storage": 2, "LongStorage": 8, "IntStorage": 4,
    "ShortStorage": 2, "CharStorage": 1, "ByteStorage": 1, "BoolStorage": 1, "ComplexDoubleStorage": 16,
    "ComplexFloatStorage": 8, "ComplexHalfStorage": 4,
}  # fmt: skip
UNTYPED_DTYPES: Final = {
    "uint16": 2, "uint32": 4, "uint64": 8, "float8_e4m3fn": 1, "float8_e4m3fnuz": 1, "float8_e5m2": 1,
    "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1, "float32": 4, "complex64": 8,
}  # fmt: skip
BITS: Final = bytes(at % 2 for at in range(32))


@check_each("order", [b"little", b"big", None])
@check_each("name", DTYPES)
def test_every_typed_storage_of_either_byte_order(name: str, order: bytes | None) -> None:
    """Items are written little-endian, whatever they were."""
    pytest.importorskip("ml_dtypes")
    numel = 32 // DTYPES[name]
    tree = {"w": tensor(storage(numel, "0", name), (numel,)), "s": storage(numel, "0", name)}
    found = again(torch_zip(tree, {"0": BITS}, byte_order=order))
    assert {store.byte_order for store in found.storages()} == {"little"}


@check_each("order", [b"little", b"big"])
@check_each("name", UNTYPED_DTYPES)
def test_every_dtype_over_an_untyped_storage_of_either_byte_order(name: str, order: bytes) -> None:
    pytest.importorskip("ml_dtypes")
    shape = (32 // UNTYPED_DTYPES[name],)
    one = Apply(REBUILD_V3, (storage(32, "0", UNTYPED), 0, shape, (1,), False, NONE, Name("torch", name)))
    again(torch_zip({"w": one, "same": one}, {"0": BITS}, byte_order=order))


def untyped(name: str, size: int) -> Apply:
    return Apply(REBUILD_V3, (storage(32, "0", UNTYPED), 0, (size,), (1,), False, NONE, Name("torch", name)))


def test_a_big_endian_storage_of_two_item_sizes_has_no_little_endian_bytes() -> None:
    tree = {"wide": untyped("float32", 8), "narrow": untyped("uint16", 16)}
    assert again(torch_zip(tree, {"0": BITS}))
    with pytest.raises(UnsupportedError, match="two sizes"):
        pth.dumps(pth.loads(torch_zip(tree, {"0": BITS}, byte_order=b"big")))
    same = {"wide": untyped("float32", 8), "other": untyped("uint32", 8), "complex": untyped("complex64", 4)}
    assert again(torch_zip(same, {"0": BITS}, byte_order=b"big"))


def test_a_big_endian_storage_larger_than_a_chunk() -> None:
    items = np.arange(300_001, dtype=">f8")
    tree = {"w": tensor(storage(items.size, "0", "DoubleStorage"), items.shape)}
    found = again(torch_zip(tree, {"0": items.tobytes()}, byte_order=b"big"))
    assert np.array_equal(found.array("w"), items)


def test_conj_and_neg_bits_stay_bits() -> None:
    numbers = np.array([1 + 2j, -3j], "<c8")
    store = storage(2, "0", "ComplexFloatStorage")
    bits = [{"conj": True}, {"neg": True}, {"conj": True, "neg": True}, {}]
    tree = [tensor(store, (2,), None, 0, False, *([some] if some else [])) for some in bits]
    found = again(torch_zip(tree, {"0": numbers.tobytes()}))
    assert [array.tolist() for array in found.to_numpy()] == [
        np.conj(numbers).tolist(),
        (-numbers).tolist(),
        (-np.conj(numbers)).tolist(),
        numbers.tolist(),
    ]
    assert len(found.storages()) == 1


# -- sparse and quantized -----------------------------------------------------------------------------


def sparse(layout: str, *parts: Any, wrap: Any = None) -> Any:
    made = Apply(REBUILD_SPARSE, (Apply(GET_LAYOUT, (f"torch.{layout}",)), parts))
    return made if wrap is None else Apply(REBUILD_PARAMETER, (made, wrap, NONE))


def whole(key: str, *shape: int) -> Apply:
    return tensor(storage(int(np.prod(shape)), key, "LongStorage"), shape)


LONGS: Final = {
    "i": np.array([[0, 1], [1, 2]], "<i8").tobytes(),
    "c": np.array([0, 1, 2], "<i8").tobytes(),
    "p": np.array([0, 1], "<i8").tobytes(),
    "v": np.array([1.5, 2.5], "<f4").tobytes(),
}
SIZE_33: Final = Apply(SIZE, ((3, 3),))
SPARSE: Final = {
    "coo": sparse("sparse_coo", whole("i", 2, 2), floats((2,), "v"), SIZE_33),
    "coalesced": sparse("sparse_coo", whole("i", 2, 2), floats((2,), "v"), (3, 3), True),
    "uncoalesced": sparse("sparse_coo", whole("i", 2, 2), floats((2,), "v"), (3, 3), False),
    "csr": sparse("sparse_csr", whole("c", 3), whole("p", 2), floats((2,), "v"), (2, 2)),
    "csc": sparse("sparse_csc", whole("c", 3), whole("p", 2), floats((2,), "v"), (2, 2)),
    "bsr": sparse("sparse_bsr", whole("c", 3), whole("p", 2), floats((2, 1, 1), "v"), (2, 2)),
    "bsc": sparse("sparse_bsc", whole("c", 3), whole("p", 2), floats((2, 1, 1), "v"), (2, 2)),
    "learns": sparse("sparse_coo", whole("i", 2, 2), tensor(storage(2, "v"), (2,), None, 0, True), SIZE_33),
    "parameter": sparse("sparse_coo", whole("i", 2, 2), floats((2,), "v"), SIZE_33, wrap=True),
    "frozen parameter": sparse("sparse_csr", whole("c", 3), whole("p", 2), floats((2,), "v"), (2, 2), wrap=False),
}


@check_each("kind", SPARSE)
def test_sparse_tensors_of_each_layout(kind: str) -> None:
    found = again(torch_zip({"s": SPARSE[kind], "again": SPARSE[kind]}, LONGS))
    value = found["s"]
    assert value.values.ravel().tolist() == [1.5, 2.5]
    assert found.info("s").values.is_parameter == ("parameter" in kind)
    assert found.info("s").values.requires_grad == (kind in ("learns", "parameter"))


OUTSIDE: Final = {
    "a row": ("coo", {"i": np.array([[0, 3], [1, 2]], "<i8").tobytes()}),
    "a negative column": ("coalesced", {"i": np.array([[0, 1], [1, -1]], "<i8").tobytes()}),
    "a pointer": ("csr", {"c": np.array([0, 9, 2], "<i8").tobytes()}),
    "the first pointer": ("csc", {"c": np.array([1, 1, 2], "<i8").tobytes()}),
    "the last pointer": ("bsr", {"c": np.array([0, 1, 3], "<i8").tobytes()}),
    "a block": ("bsc", {"p": np.array([0, 2], "<i8").tobytes()}),
    "a row of a parameter": ("parameter", {"i": np.array([[0, 3], [1, 2]], "<i8").tobytes()}),
}
"""Sparse tensors whose indices are outside their size: torch accesses memory there."""


@check_each("what", OUTSIDE)
def test_indices_outside_a_sparse_tensor_are_neither_read_nor_written(what: str) -> None:
    kind, changed = OUTSIDE[what]
    found = pth.loads(torch_zip({"s": SPARSE[kind]}, {**LONGS, **changed}))
    for read in (found.check, found.to_numpy, lambda: found["s"]):
        with pytest.raises(TensorError, match="torch would access memory outside"):
            read()
    with pytest.raises(UnsupportedError, match="torch would access memory outside"):
        pth.dumps(found)


def quantized(cls: str, scheme: tuple[Any, ...], *, learns: bool = False) -> Apply:
    return Apply(REBUILD_Q, (storage(6, "q", cls), 0, (2, 3), (3, 1), scheme, learns, NONE))


def doubles(key: str) -> Apply:
    return tensor(storage(2, key, "DoubleStorage"), (2,))


TWO_DOUBLES: Final = np.array([0.5, 1.5], "<f8").tobytes()
QUANTIZED: Final = {
    "tensor": ("QInt8Storage", (Name("torch", "per_tensor_affine"), 0.5, 3)),
    "symmetric": ("QUInt8Storage", (Name("torch", "per_tensor_symmetric"), 0.5, 0)),
    "channel": ("QInt8Storage", (Name("torch", "per_channel_affine"), doubles("s"), whole("z", 2), 0)),
    "floats": (
        "QUInt8Storage",
        (Name("torch", "per_channel_affine_float_qparams"), floats((2,), "f"), floats((2,), "f"), 0),
    ),
    "lists": ("QInt8Storage", (Name("torch", "per_channel_affine"), [0.5, 1.5], [0, 1], 0)),
    "ints": ("QInt32Storage", (Name("torch", "per_channel_symmetric"), [0.5, 1.5], [0, 0], 0)),
}
RECORDS: Final = {"s": TWO_DOUBLES, "z": np.array([0, 1], "<i8").tobytes(), "f": EIGHT[:8]}


@check_each("wrapped", [False, True])
@check_each("order", [b"little", b"big"])
@check_each("kind", QUANTIZED)
def test_quantized_tensors_of_each_scheme(kind: str, order: bytes, wrapped: bool) -> None:  # noqa: FBT001
    cls, scheme = QUANTIZED[kind]
    value = quantized(cls, scheme)
    value = Apply(REBUILD_PARAMETER, (value, False, NONE)) if wrapped else value
    records = {**RECORDS, "q": bytes(range(24 if cls == "QInt32Storage" else 6))}
    used = {"q", *{"channel": ["s", "z"], "floats": ["f"]}.get(kind, [])}
    found = again(torch_zip({"q": value}, {key: records[key] for key in used}, byte_order=order))
    assert found.info("q").int_repr.is_parameter == wrapped


# -- legacy streams -----------------------------------------------------------------------------------


def test_a_legacy_stream_becomes_a_zip() -> None:
    tree = ordered({"w": tensor(storage(8, "k", "FloatStorage", "cpu", None), (2, 4)), "n": 1})
    data = legacy_stream(tree, [Run("k", 8, EIGHT)])
    assert pth.dumps(again(data))[:4] == b"PK\x03\x04"


def test_views_of_a_legacy_storage_become_offsets_into_it() -> None:
    """torch < 0.4 pickled views of storages; what shared memory shares it again."""

    def part(name: str, offset: int, size: int) -> Any:
        return storage(8, "k", "FloatStorage", "cpu", (name, offset, size))

    tree = {
        "whole": tensor(storage(8, "k", "FloatStorage", "cpu", None), (8,)),
        "part": tensor(part("p", 2, 4), (2, 2)),
        "inner": tensor(part("p", 2, 4), (2,), None, 1),
        "other": tensor(part("q", 5, 3), (3,)),
        "bare": part("q", 5, 3),
    }
    found = again(legacy_stream(tree, [Run("k", 8, EIGHT)]))
    assert found.info("part").storage is found.info("whole").storage
    assert (found.info("part").offset, found.info("inner").offset, found.info("other").offset) == (2, 3, 5)
    made = found.to_numpy()
    assert np.shares_memory(made["part"], made["whole"])
    assert (made["inner"].tolist(), made["bare"].tolist()) == ([3, 4], [5, 6, 7])


@pytest.mark.parametrize("offset", [0, 4, 6, 3])
def test_a_view_of_an_untyped_storage_may_start_anywhere(offset: int) -> None:
    """Where an offset in items cannot say the start, the part is a storage of its own."""
    part = storage(32, "k", UNTYPED, "cpu", ("p", offset, 16))
    one = Apply(REBUILD_V3, (part, 1, (3,), (1,), False, NONE, Name("torch", "float32")))
    found = again(legacy_stream({"w": one}, [Run("k", 32, bytes(range(32)))]))
    assert found.array("w").tobytes() == bytes(range(32))[offset + 4 : offset + 16]


# -- containers and small values ----------------------------------------------------------------------

MADE_OF: Final = {
    "size": Apply(SIZE, ((2, 3),)),
    "device": Apply(DEVICE, ("cuda", 1)),
    "cpu": Apply(DEVICE, ("cpu",)),
    "dtype": Name("torch", "bfloat16"),
    "layout": Apply(GET_LAYOUT, ("torch.sparse_csr",)),
    "layout by name": Name("torch", "strided"),
    "memory format": Name("torch", "channels_last_3d"),
    "set": Apply(Name("__builtin__", "set"), ([3, "b", 1, None, 1.5, True and "a"],)),
    "frozenset": Apply(Name("__builtin__", "frozenset"), (["z", "a"],)),
    "empty set": Apply(Name("__builtin__", "set"), ([],)),
    "bytes": Apply(Name("_codecs", "encode"), ("\xff\x00a", "latin1")),
    "no bytes": Apply(Name("__builtin__", "bytes"), ()),
    "bytearray": Apply(Name("__builtin__", "bytearray"), ("\xff", "latin-1")),
    "complex": Apply(Name("__builtin__", "complex"), (1.0, -0.0)),
    "surrogate": "\ud800",
    "numbers": [0, -1, 2**31, 2**70, -(2**2000), 1.5, -0.0, float("nan"), float("inf"), True, None],
    "key kinds": Pairs(("a", 1), (9, 2), (-5, 3), (None, 4), (1.5, 5), ((1, "a"), 6), (False, 7)),
    "bytes as keys": Pairs((Apply(Name("_codecs", "encode"), ("key", "latin1")), 1)),
    "deep": [[[[[[{}]]]]]],
    "tuples": ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)),
}


@check_each("kind", MADE_OF)
def test_each_small_value_comes_back(kind: str) -> None:
    found = again(torch_zip({"v": MADE_OF[kind], "again": [MADE_OF[kind]]}))
    before = pth.loads(torch_zip({"v": MADE_OF[kind], "again": [MADE_OF[kind]]}))
    assert type(found["v"]) is type(before["v"])
    assert pth.dumps(before) == pth.dumps(found)


def test_sets_are_written_in_an_order_that_no_hash_decides() -> None:
    one = {"b", "a", "c", 3, 1, None}
    members = pickle_of(StateDict.from_arrays(one)).args[0]
    assert members == [None, 1, 3, "a", "b", "c"]


@check_each("kind", ["dict", "ordered"])
@check_each("count", [0, 1, 2, 999, 1000, 1001, 2500])
def test_dicts_of_any_size(kind: str, count: int) -> None:
    pairs = {f"key {at}": at for at in range(count)}
    found = again(torch_zip(ordered(pairs, {"": 1}) if kind == "ordered" else pairs))
    assert found.to_numpy() == pairs
    assert type(found.tree) is (OrderedDict if kind == "ordered" else dict)
    assert found.metadata == ({"": 1} if kind == "ordered" else None)


def test_shared_containers_stay_shared() -> None:
    inner: Any = {"w": floats((8,))}
    odd = ordered({"inner": inner})
    found = again(torch_zip([inner, inner, odd, odd], {"0": EIGHT})).to_numpy()
    assert found[0] is found[1] is found[2]["inner"]
    assert found[2] is found[3]


@pytest.mark.parametrize("package", ["numpy.core", "numpy._core"])
def test_numpy_values_of_either_numpy_come_back(package: str) -> None:
    state = (3, "<", None, None, None, -1, -1, 0)
    dtype = Apply(Name("numpy", "dtype"), ("f8", False, True), Change("BUILD", state))
    raw = Apply(Name("_codecs", "encode"), (np.arange(6.0).tobytes().decode("latin-1"), "latin1"))
    one = Apply(Name("_codecs", "encode"), (np.float64(1.5).tobytes().decode("latin-1"), "latin1"))
    blank = (Name("numpy", "ndarray"), (0,), Apply(Name("_codecs", "encode"), ("b", "latin1")))
    tree = {
        "scalar": Apply(Name(f"{package}.multiarray", "scalar"), (dtype, one)),
        "array": Apply(Name(f"{package}.multiarray", "_reconstruct"), blank,
                       Change("BUILD", (1, (2, 3), dtype, False, raw))),
        "fortran": Apply(Name(f"{package}.multiarray", "_reconstruct"), blank,
                         Change("BUILD", (1, (2, 3), dtype, True, raw))),
        "buffer": Apply(Name(f"{package}.numeric", "_frombuffer"), (raw, dtype, (3, 2), "F")),
    }  # fmt: skip
    found = again(torch_zip(tree))
    assert isinstance(found.tree["array"], ArrayInfo)
    made = found.to_numpy()
    assert (type(made["scalar"]), made["scalar"]) == (np.float64, 1.5)
    assert made["array"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert made["fortran"].tolist() == [[0, 2, 4], [1, 3, 5]]
    assert {name for name in names_in(pickle_of(found)) if name.startswith("numpy.")} == {
        "numpy.core.multiarray.scalar",
        "numpy.core.multiarray._reconstruct",
        "numpy.ndarray",
        "numpy.dtype",
    }


# -- what is kept inert -------------------------------------------------------------------------------


def test_inert_nodes_keep_their_storages() -> None:
    """Storages are numbered anew: what an unknown constructor refers to must be found under the new number."""
    unknown = Apply(MAGIC, (storage(8, "7"), [floats((8,), "7")]), Change("BUILD", {"more": storage(8, "3")}))
    tree = {"first": floats((8,), "3"), "unknown": unknown, "again": unknown, "plain": Name("my.module", "Class")}
    found = again(torch_zip(tree, {"7": EIGHT, "3": OTHER}), on_unknown="inert")
    node = found.tree["unknown"]
    assert isinstance(node, Call)
    assert node is found.tree["again"]
    assert node.args[0].id.storage.bytes() == EIGHT  # type: ignore[index]
    assert node.updates[0].value[0][1].id.storage is found.info("first").storage  # type: ignore[index]
    assert len(pth.dumps(found)) == len(pth.dumps(pth.loads(pth.dumps(found), on_unknown="inert")))


def test_attributes_keep_their_storages() -> None:
    state = {"mask": tensor(storage(8, "9"), (8,)), "bits": Apply(MAGIC, (storage(8, "9"), storage(8, "5")))}
    one = Apply(REBUILD_PARAMETER_WITH_STATE, (floats((8,), "5"), True, NONE, state))
    found = again(torch_zip({"w": one}, {"5": EIGHT, "9": OTHER}))
    kept: Any = found.info("w").state
    assert kept["mask"].args[0].id.storage.bytes() == OTHER
    assert kept["bits"].args[1].id.storage is found.info("w").storage


@pytest.mark.parametrize("order", [b"little", b"big"])
def test_inert_storages_of_either_byte_order(order: bytes) -> None:
    tree = {
        "typed": Apply(MAGIC, (storage(8, "a"),)),
        "used": [Apply(MAGIC, (storage(32, "b", UNTYPED),)), untyped("float32", 8)],
    }
    again(torch_zip(tree, {"a": EIGHT, "b": EIGHT, "0": EIGHT}, byte_order=order), on_unknown="inert")


def test_inert_parts_of_legacy_storages() -> None:
    part = storage(8, "k", "FloatStorage", "cpu", ("p", 2, 4))
    tree = {"w": tensor(part, (4,)), "inert": Apply(MAGIC, (part,))}
    found = again(legacy_stream(tree, [Run("k", 8, EIGHT)]), on_unknown="inert")
    assert found.array("w").tolist() == [2, 3, 4, 5]


@pytest.mark.parametrize("how", ["REDUCE", "NEWOBJ", "OBJ", "INST"])
def test_inert_calls_of_each_kind(how: str) -> None:
    node = Apply(MAGIC, (1, "a"), Change("BUILD", {"k": [1]}), Change("SETITEMS", ["k", 2]), how=how)
    again(torch_zip([node, node, Apply(node, (), how="REDUCE")]), on_unknown="inert")


@pytest.mark.parametrize("value", [object(), range(3), (1.5).__class__, np.float32(1), np.arange(3)])
def test_a_tree_with_a_foreign_value_is_refused(value: Any) -> None:
    made = StateDict.from_arrays({})
    with pytest.raises(UnsupportedError, match="a .pth cannot contain a"):
        pth.dumps(made.with_tree({"k": value}))


def test_what_protocol_2_spells_as_calls_comes_back_as_the_same() -> None:
    """Sets and bytearrays have opcodes since protocols 4 and 5, as bytes have since 3; a shared one is spelled once."""

    def held(part: object) -> object:
        return Call(
            "REDUCE", Global("m", "f"), (Set([1, part]), FrozenSet([part]), bytearray(b"a\xff"), bytearray(), b"")
        )

    def read(tree: object, protocol: int) -> object:
        return pkl.loads(pkl.dumps(tree, protocol=protocol))

    def same(one: object, other: object) -> bool:
        return equal(one, other, Budget(), Budget())

    assert same(read(held(b"x"), 5), read(held(b"x"), 2))
    assert same(read(held(b"x"), 2), read(held(b"x"), 5))
    assert not same(read(held(b"x"), 5), read(held(b"y"), 2))
    assert not same(read(Set([1]), 5), read(FrozenSet([1]), 2))
    doubled: object = FrozenSet([1])
    for _ in range(60):
        doubled = FrozenSet([(doubled, doubled)])
    assert same(read(doubled, 5), read(doubled, 2))


def test_bytes_that_are_kept_inert_come_back_as_the_same() -> None:
    """Protocol 3 and later have bytes, where protocol 2 spells a call: as values they are equal."""

    def held(raw: bytes) -> StateDict:
        state = {"tag": Apply(MAGIC, (raw, [b"\xff"]))}
        one = Apply(REBUILD_PARAMETER_WITH_STATE, (floats((8,), "5"), True, NONE, state))
        return pth.loads(torch_zip({"w": one}, {"5": EIGHT}))

    found = held(b"abc")
    assert pth.loads(pth.dumps(found)) == found
    assert pth.loads(pth.dumps(found)) != held(b"abd")


def test_an_encoder_does_not_wait_for_the_garbage_collector() -> None:
    calls = Calls()
    calls.reduce(TensorInfo("float32", (1,), (1,), 0, Storage("0", "float32", 1, "cpu", "little", memoryview, "")))
    gone = weakref.ref(calls)
    del calls
    assert gone() is None


def test_a_storage_of_a_file_does_not_wait_for_the_garbage_collector() -> None:
    class File:
        size = 8

        def view(self, offset: int, length: int) -> memoryview:
            return memoryview(bytes(8))[offset : offset + length]

    source = File()
    storage = FileStorage(source, 0, "float32", 2)
    assert bytes(storage.bytes()) == bytes(8)
    gone = weakref.ref(source)
    del source, storage
    assert gone() is None
