"""``sbformat.pth.arrays``: the numpy arrays of every dtype, layout and byte order (FORMAT.md 6.4)."""

from __future__ import annotations

import sys
import tracemalloc
from itertools import product
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import pytest

from conformance.generators.build_pth import (
    REBUILD_V3,
    UNTYPED,
    Apply,
    Name,
    contiguous,
    floats,
    ordered,
    storage,
    tensor,
    torch_zip,
)
from sbformat import Limits, TensorError, UnsupportedError, pth
from sbformat.limits import Budget
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pth import arrays
from sbformat.pth.compare import equal
from sbformat.pth.values import DTYPES, PIECE_BYTES, QUANTIZED
from tests.helpers.many_cases import check_each
from tests.helpers.pth_checks import decode, everything, hide_extension_dtype, refusal


class Case(NamedTuple):
    """A dtype by its bytes: three items, little-endian, and the numbers they are."""

    raw: bytes
    values: list[Any]
    cls: str = ""
    """Its storage class; untyped storages hold the others."""


CASES: Final = {
    "bool": Case(b"\0\1\1", [False, True, True], "BoolStorage"),
    "uint8": Case(b"\0\x7f\xff", [0, 127, 255], "ByteStorage"),
    "int8": Case(b"\0\x7f\x80", [0, 127, -128], "CharStorage"),
    "uint16": Case(b"\1\0\0\1\xff\xff", [1, 256, 65535]),
    "int16": Case(b"\1\0\0\1\xff\xff", [1, 256, -1], "ShortStorage"),
    "uint32": Case(b"\1\0\0\0\0\0\1\0\xff\xff\xff\xff", [1, 65536, 2**32 - 1]),
    "int32": Case(b"\1\0\0\0\0\0\1\0\xff\xff\xff\xff", [1, 65536, -1], "IntStorage"),
    "uint64": Case(b"\1" + bytes(7) + bytes(4) + b"\1\0\0\0" + b"\xff" * 8, [1, 2**32, 2**64 - 1]),
    "int64": Case(b"\1" + bytes(7) + bytes(4) + b"\1\0\0\0" + b"\xff" * 8, [1, 2**32, -1], "LongStorage"),
    "float16": Case(b"\x00\x3c\x00\xc0\x01\x00", [1.0, -2.0, 2.0**-24], "HalfStorage"),
    "bfloat16": Case(b"\x80\x3f\x00\xc0\xc0\x3f", [1.0, -2.0, 1.5], "BFloat16Storage"),
    "float32": Case(b"\0\0\x80\x3f\0\0\0\xc0\1\0\0\0", [1.0, -2.0, 2.0**-149], "FloatStorage"),
    "float64": Case(b"\0\0\0\0\0\0\xf0\x3f\0\0\0\0\0\0\0\xc0\1" + bytes(7), [1.0, -2.0, 2.0**-1074], "DoubleStorage"),
    "complex32": Case(b"\x00\x3c\x00\xc0\x00\x00\x00\x3c\x01\x00\x00\x80", [1 - 2j, 1j, complex(2.0**-24, -0.0)]),
    "complex64": Case(
        b"\0\0\x80\x3f\0\0\0\xc0" + b"\0\0\0\0\0\0\x80\x3f" + b"\1\0\0\0\0\0\0\x80",
        [1 - 2j, 1j, complex(2.0**-149, -0.0)],
        "ComplexFloatStorage",
    ),
    "complex128": Case(
        b"\0\0\0\0\0\0\xf0\x3f\0\0\0\0\0\0\0\xc0" + bytes(14) + b"\xf0\x3f" + b"\1" + bytes(14) + b"\x80",
        [1 - 2j, 1j, complex(2.0**-1074, -0.0)],
        "ComplexDoubleStorage",
    ),
    "float8_e4m3fn": Case(b"\x38\xb8\x7e", [1.0, -1.0, 448.0]),
    "float8_e4m3fnuz": Case(b"\x40\xc0\x7f", [1.0, -1.0, 240.0]),
    "float8_e5m2": Case(b"\x3c\xbc\x7b", [1.0, -1.0, 57344.0]),
    "float8_e5m2fnuz": Case(b"\x40\xc0\x7f", [1.0, -1.0, 57344.0]),
    "float8_e8m0fnu": Case(b"\x7f\x80\x00", [1.0, 2.0, 2.0**-127]),
}

EIGHT = np.arange(8, dtype="<f4").tobytes()
TWELVE = np.arange(12, dtype="<f4").tobytes()


def needs(name: str) -> None:
    """Skip where ml_dtypes, which has no wheels for every Python, is not installed."""
    if DTYPES[name].numpy.startswith("ml_dtypes."):
        pytest.importorskip("ml_dtypes")


def one(name: str, shape: tuple[int, ...] = (3,), strides: tuple[int, ...] | None = None, offset: int = 0) -> Apply:
    """A tensor over the three items of a dtype, by typed storage where there is one."""
    case = CASES[name]
    if case.cls:
        return tensor(storage(3, "0", case.cls), shape, strides, offset)
    steps = contiguous(shape) if strides is None else strides
    store = storage(len(case.raw), "0", UNTYPED)
    return Apply(REBUILD_V3, (store, offset, shape, steps, False, ordered(), Name("torch", name)))


def reversed_groups(raw: bytes, size: int) -> bytes:
    return b"".join(raw[at : at + size][::-1] for at in range(0, len(raw), size))


def test_the_cases_are_all_dtypes() -> None:
    assert set(CASES) == set(DTYPES) - QUANTIZED
    assert all(len(case.raw) == 3 * DTYPES[name].itemsize for name, case in CASES.items())


@check_each("name", CASES)
@check_each("order", [b"little", b"big"])
def test_every_dtype_in_both_byte_orders(name: str, order: bytes) -> None:
    needs(name)
    case = CASES[name]
    raw = case.raw if order == b"little" else reversed_groups(case.raw, DTYPES[name].swap)
    state_dict = pth.loads(torch_zip({"w": one(name)}, {"0": raw}, byte_order=order))
    made = state_dict["w"]
    assert state_dict.info("w").dtype == name
    assert str(made.dtype) == ("complex64" if name == "complex32" else name)
    numbers = made.astype(np.complex128 if made.dtype.kind == "c" else made.dtype)
    assert np.array_equal(np.asarray(numbers.tolist(), dtype=object), np.asarray(case.values, dtype=object))
    if name != "complex32":
        assert made.tobytes() == (case.raw if sys.byteorder == "little" else raw)
    assert (made.shape, made.flags.writeable) == ((3,), False)


@check_each("name", CASES)
@check_each("order", ["little", "big"])
def test_every_dtype_as_a_copy(name: str, order: str) -> None:
    needs(name)
    case = CASES[name]
    raw = case.raw if order == "little" else reversed_groups(case.raw, DTYPES[name].swap)
    data = torch_zip(
        [one(name), one(name, (2, 2), (1, 1)), one(name, (), (), 1)], {"0": raw}, byte_order=order.encode()
    )
    for view, copy in zip(everything(data), everything(data, copy=True)):
        assert copy.flags.writeable
        assert copy.flags.aligned
        assert (copy.dtype, copy.shape) == (view.dtype, view.shape)
        assert copy.tobytes() == view.tobytes()
        assert not np.shares_memory(copy, np.frombuffer(data, np.uint8))
        copy[...] = copy[...]


@pytest.mark.parametrize("name", sorted(QUANTIZED))
def test_quantized_dtypes_come_as_integers(name: str) -> None:
    dtype = arrays.numpy_dtype(name)
    assert (dtype.kind, dtype.itemsize) == ("u" if name == "quint8" else "i", DTYPES[name].itemsize)


def test_without_ml_dtypes_its_dtypes_are_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    hide_extension_dtype(monkeypatch, "bfloat16")
    state_dict = decode({"w": one("bfloat16"), "v": floats((8,), "1")}, {"0": CASES["bfloat16"].raw, "1": EIGHT})
    assert state_dict.info("w").dtype == "bfloat16"
    assert state_dict["v"].tobytes() == EIGHT
    with pytest.raises(UnsupportedError, match=r"sbformat\[dtypes\]"):
        state_dict["w"]


def test_an_old_ml_dtypes_without_the_dtype_is_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    hide_extension_dtype(monkeypatch, "float8_e8m0fnu", type(sys)("ml_dtypes"))
    with pytest.raises(UnsupportedError, match="float8_e8m0fnu"):
        arrays.numpy_dtype("float8_e8m0fnu")


# -- layout -------------------------------------------------------------------------------------------


@check_each(
    ("shape", "strides", "offset"),
    [
        ((12,), (1,), 0),
        ((3, 4), (4, 1), 0),
        ((4, 3), (1, 4), 0),
        ((2, 3, 2), (6, 2, 1), 0),
        ((2, 2, 3, 1), (6, 1, 2, 2), 0),
        ((1, 2, 2, 3), (12, 1, 6, 2), 0),
        ((5,), (2,), 1),
        ((2, 2), (5, 3), 2),
        ((), (), 11),
        ((1,), (1000,), 11),
        ((1, 1), (2**62, 0), 3),
        ((1, 4, 1), (77, 1, 2**40), 5),
        ((3, 1), (1, 0), 9),
        ((2, 3), (1, 1), 4),
        ((3, 3), (1, 1), 0),
        ((4, 3), (0, 1), 9),
        ((2, 2, 2), (0, 0, 1), 10),
        ((6, 7), (1, 1), 0),
    ],
)
def test_views_are_what_as_strided_makes_of_the_storage(
    shape: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> None:
    made = decode(tensor(storage(12), shape, strides, offset), {"0": TWELVE}).to_numpy()
    expected = np.zeros(shape, "f4")
    for index in np.ndindex(*shape):
        expected[index] = offset + sum(i * step for i, step in zip(index, strides))
    assert made.shape == shape
    assert np.array_equal(made, expected)
    assert not made.flags.writeable
    copied = decode(tensor(storage(12), shape, strides, offset), {"0": TWELVE}, copy=True).to_numpy()
    assert copied.flags.writeable
    assert np.array_equal(copied, expected)


@pytest.mark.parametrize(
    ("shape", "strides", "offset"),
    [
        ((0,), (1,), 0),
        ((2, 0, 3), (3, 3, 1), 0),
        ((0,), (5,), 1000),
        ((0, 0), (0, 0), 2**62),
        ((2**50, 0), (2**60, 1), 3),
    ],
    ids=str,
)
def test_empty_tensors(shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> None:
    for numel, raw in ((0, b""), (8, EIGHT)):
        state_dict = decode({"e": tensor(storage(numel), shape, strides, offset)}, {"0": raw})
        info = state_dict.info("e")
        assert (info.shape, info.strides, info.offset, info.numel, info.nbytes) == (shape, strides, offset, 0, 0)
        assert state_dict["e"].shape == shape
        assert not state_dict["e"].flags.writeable
        assert decode(tensor(storage(numel), shape, strides, offset), {"0": raw}, copy=True).to_numpy().shape == shape


def test_a_transposed_tensor_is_a_view_in_fortran_order() -> None:
    made = decode(tensor(storage(12), (4, 3), (1, 4)), {"0": TWELVE}).to_numpy()
    assert made.flags.f_contiguous
    assert made.strides == (4, 16)


def test_channels_last_keeps_its_strides() -> None:
    made = decode(tensor(storage(12), (1, 2, 2, 3), (12, 1, 6, 2)), {"0": TWELVE}).to_numpy()
    assert made.strides[1:] == (4, 24, 8)
    assert made[0, 1].tolist() == [[1, 3, 5], [7, 9, 11]]


@pytest.mark.parametrize("items", [1, 3])
def test_an_untyped_storage_need_not_hold_whole_items(items: int) -> None:
    call = Apply(
        REBUILD_V3,
        (storage(4 * items + 3, "0", UNTYPED), 0, (items,), (1,), False, ordered(), Name("torch", "float32")),
    )
    for order in (b"little", b"big"):
        made = everything(torch_zip(call, {"0": bytes(4 * items + 3)}, byte_order=order))
        assert made.tolist() == [0.0] * items
    call.args = (*call.args[:2], (items + 1,), *call.args[3:])  # type: ignore[index]
    assert type(refusal(torch_zip(call, {"0": bytes(4 * items + 3)}))) is TensorError


# -- memory -------------------------------------------------------------------------------------------


def test_arrays_are_views_of_the_files_bytes() -> None:
    data = torch_zip([floats((8,)), floats((2, 4), "1")], {"0": EIGHT, "1": EIGHT})
    whole = np.frombuffer(data, np.uint8)
    for array in everything(data):
        assert np.shares_memory(array, whole)


def test_tensors_of_one_storage_share_its_memory() -> None:
    store = storage(8)
    tree = {"all": tensor(store, (8,)), "tail": tensor(store, (4,), None, 4), "again": tensor(storage(8), (2, 4))}
    made = decode(tree | {"other": floats((8,), "1")}, {"0": EIGHT, "1": EIGHT}).to_numpy()
    assert np.shares_memory(made["all"], made["tail"])
    assert np.shares_memory(made["all"], made["again"])
    assert not np.shares_memory(made["all"], made["other"])


def test_tensors_of_one_storage_share_the_memory_of_its_swapped_copy() -> None:
    raw = np.arange(8, dtype=">f4").tobytes()
    store = storage(8)
    made = everything(torch_zip([tensor(store, (8,)), tensor(store, (4,), None, 4)], {"0": raw}, byte_order=b"big"))
    assert np.shares_memory(made[0], made[1])
    assert made[1].tolist() == [4, 5, 6, 7]


def test_copies_share_what_the_file_shares_and_nothing_else() -> None:
    store = storage(8)
    tree = {"all": tensor(store, (8,)), "tail": tensor(store, (4,), None, 4), "other": floats((8,), "1")}
    state_dict = decode(tree, {"0": EIGHT, "1": EIGHT}, copy=True)
    made, again = state_dict.to_numpy(), state_dict.to_numpy()
    assert np.shares_memory(made["all"], made["tail"])
    assert not np.shares_memory(made["all"], made["other"])
    assert not np.shares_memory(made["all"], again["all"])
    made["all"][...] = 7
    assert made["tail"].tolist() == [7, 7, 7, 7]
    assert again["all"].tobytes() == made["other"].tobytes() == EIGHT


@pytest.mark.parametrize("copy", [False, True])
@pytest.mark.parametrize("order", ["little", "big"])
def test_one_untyped_storage_under_several_dtypes(order: str, copy: bool) -> None:  # noqa: FBT001
    store = storage(8, "0", UNTYPED)
    names = {"uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8, "int16": 2}
    tree = {
        name: Apply(REBUILD_V3, (store, 0, (8 // size,), (1,), False, ordered(), Name("torch", name)))
        for name, size in names.items()
    }
    made = everything(torch_zip(tree, {"0": bytes(range(8))}, byte_order=order.encode()), copy=copy)
    for name, size in names.items():
        expected = [int.from_bytes(bytes(range(at, at + size)), order) for at in range(0, 8, size)]  # type: ignore[arg-type]
        assert made[name].tolist() == expected, name


def test_asking_twice_gives_the_same_memory_and_is_charged_anew() -> None:
    data = torch_zip({"w": floats((8,))}, {"0": EIGHT})
    state_dict = pth.loads(data)
    assert np.shares_memory(state_dict["w"], state_dict["w"])
    copying = pth.loads(data, copy=True, limits=Limits(total_bytes=40))
    for _ in range(10):
        assert copying["w"].tobytes() == EIGHT


def test_copies_are_charged_before_they_are_made() -> None:
    data = torch_zip({"w": floats((8,)), "v": floats((8,), "1")}, {"0": EIGHT, "1": EIGHT})
    everything(data, limits=Limits(total_bytes=1))
    for limits in (Limits(member_bytes=31), Limits(total_bytes=63)):
        assert refusal(data, copy=True, limits=limits).outcome == "limit exceeded"
    everything(data, copy=True, limits=Limits(member_bytes=32, total_bytes=64))


def test_a_swap_is_charged_once_a_storage() -> None:
    store = storage(8)
    data = torch_zip([tensor(store, (8,)), tensor(store, (4,))], {"0": EIGHT}, byte_order=b"big")
    everything(data, limits=Limits(total_bytes=32))
    assert refusal(data, limits=Limits(total_bytes=31)).outcome == "limit exceeded"


def test_misaligned_storages_are_read_in_place() -> None:
    for pad in range(9):
        data = torch_zip(one("complex128"), {"0": CASES["complex128"].raw}, root="a" * (pad + 1))
        made = everything(data)
        assert made.tobytes() == CASES["complex128"].raw
        assert everything(data, copy=True).flags.aligned


# -- bits ---------------------------------------------------------------------------------------------


def with_bits(name: str, bits: dict[str, bool]) -> Apply:
    made = one(name)
    assert isinstance(made.args, tuple)
    made.args = (*made.args, bits)
    return made


@pytest.mark.parametrize("name", ["complex32", "complex64", "complex128"])
def test_conj_and_neg_bits_of_complex_numbers(name: str) -> None:
    raw = CASES[name].raw
    plain = decode(one(name), {"0": raw}).to_numpy()
    for bits, expected in (
        ({"conj": True}, np.conjugate(plain)),
        ({"neg": True}, -plain),
        ({"conj": True, "neg": True}, -np.conjugate(plain)),
        ({}, plain),
    ):
        made = decode(with_bits(name, bits), {"0": raw}).to_numpy()
        assert made.tobytes() == expected.tobytes()
        assert made.dtype == plain.dtype
        assert not made.flags.writeable
        assert decode(with_bits(name, bits), {"0": raw}, copy=True).to_numpy().flags.writeable


@check_each("name", ["float16", "bfloat16", "float32", "float64", "int8", "int64", "uint8"])
def test_the_neg_bit_of_real_numbers(name: str) -> None:
    needs(name)
    state_dict = decode(with_bits(name, {"neg": True}), {"0": CASES[name].raw})
    assert (state_dict.tree.neg, state_dict.tree.conj) == (True, False)
    assert np.array_equal(state_dict.to_numpy(), -decode(one(name), {"0": CASES[name].raw}).to_numpy())


def test_zero_dimensional_tensors_stay_arrays() -> None:
    for bits in ({}, {"conj": True}, {"neg": True}):
        call = tensor(storage(3, "0", "ComplexFloatStorage"), (), (), 1, False, bits)
        for copy in (False, True):
            made = decode(call, {"0": CASES["complex64"].raw}, copy=copy).to_numpy()
            assert isinstance(made, np.ndarray)
            assert (made.shape, made.flags.writeable) == ((), copy)


def test_the_signs_of_zeros_and_nans_flip() -> None:
    raw = np.array([0x7FC00001, 0x00000000, 0xFFC00002, 0x80000000], "<u4").tobytes()
    call = tensor(storage(2, "0", "ComplexFloatStorage"), (2,), None, 0, False, {"conj": True})
    made = decode(call, {"0": raw}).to_numpy()
    assert made.view("u4").tolist() == [0x7FC00001, 0x80000000, 0xFFC00002, 0x00000000]


def test_a_bool_is_0_or_1() -> None:
    for raw in (b"\0\1\2", b"\xff\0\0"):
        error = refusal(torch_zip(one("bool"), {"0": raw}))
        assert type(error) is TensorError
        assert "bool" in str(error)


def test_every_half_complex_number_is_exact() -> None:
    raw = np.arange(65536, dtype="<u2").tobytes()
    call = Apply(
        REBUILD_V3, (storage(len(raw), "0", UNTYPED), 0, (32768,), (1,), False, ordered(), Name("torch", "complex32"))
    )
    made = decode(call, {"0": raw}).to_numpy()
    with np.errstate(invalid="ignore"):
        expected = np.frombuffer(raw, "<f2").astype(np.float32)
    assert np.array_equal(made.view(np.float32), expected, equal_nan=True)


def test_half_complex_numbers_in_views() -> None:
    raw = CASES["complex32"].raw
    values = CASES["complex32"].values
    assert decode(one("complex32", (2, 2), (1, 1)), {"0": raw}).to_numpy().tolist() == [values[:2], values[1:]]
    assert decode(one("complex32", (), (), 2), {"0": raw}).to_numpy() == values[2]
    assert decode(one("complex32", (2,), (2,)), {"0": raw}).to_numpy().tolist() == values[::2]
    assert decode(one("complex32", (2, 0)), {"0": raw}).to_numpy().shape == (2, 0)


@pytest.mark.parametrize("name", ["complex32", "complex64"])
def test_a_tensor_of_the_highest_rank(name: str) -> None:
    state_dict = decode(one(name, (1,) * 32), {"0": CASES[name].raw})
    try:
        assert state_dict.to_numpy().shape == (1,) * 32
    except UnsupportedError:
        assert name == "complex32"  # it is widened by way of one dimension more, and numpy 1 has 32
        assert np.__version__ < "2"


def test_a_damaged_neighbour_changes_nothing() -> None:
    data = bytearray(torch_zip({"a": floats((8,)), "b": floats((8,), "1")}, {"0": EIGHT, "1": TWELVE[16:]}))
    data[data.index(TWELVE[16:])] ^= 0xFF
    assert pth.loads(bytes(data))["a"].tobytes() == EIGHT


# -- equal arrays of numpy (FORMAT.md 9) --------------------------------------------------------------


def info(array: np.ndarray, dtype: str, order: Literal["C", "F"] = "C") -> ArrayInfo:
    made = array.astype(dtype)
    return ArrayInfo(dtype, made.shape, order, made.tobytes(order), is_scalar=False)


def same(left: ArrayInfo, right: ArrayInfo) -> bool:
    return equal(left, right, Budget(), Budget())


@pytest.mark.parametrize("code", ["f4", "c16", "i2", "U3", "f8"])
def test_arrays_of_numpy_are_equal_in_any_order_of_bytes_and_items(code: str) -> None:
    rows = PIECE_BYTES // 500  # several pieces of each, which end at different items
    array = np.arange(rows * 100).reshape(rows, 100) % 999
    other = array.copy()
    other[-1, -1] += 1
    orders: tuple[Literal["C", "F"], ...] = ("C", "F")
    for dtype, order in product((f"<{code}", f">{code}"), orders):
        assert same(info(array, f"<{code}"), info(array, dtype, order))
        assert not same(info(array, f"<{code}"), info(other, dtype, order))


@pytest.mark.parametrize("code", ["<U0", "|S0", "|V0", "<f4"])
def test_empty_arrays_of_numpy_are_equal(code: str) -> None:
    shape = (2,) if code != "<f4" else (0, 2)
    assert same(ArrayInfo(code, shape, "C", b"", is_scalar=False), ArrayInfo(code, shape, "F", b"", is_scalar=False))


def test_numbers_of_numpy_arrays_are_equal_by_their_bits() -> None:
    assert same(info(np.array([np.nan]), "<f4"), info(np.array([np.nan]), ">f4"))
    assert not same(info(np.array([0.0]), "<f4"), info(np.array([-0.0]), ">f4"))


@pytest.mark.parametrize("code", ["|O8", "<M8[s]", "<f16", "<m8"])
def test_arrays_of_a_dtype_that_no_reader_returns_are_equal_by_their_bytes(code: str) -> None:
    one, again, other = (ArrayInfo(code, (1,), "C", bytes([n]) * 16, is_scalar=False) for n in (1, 1, 2))
    assert same(one, again)
    assert not same(one, other)
    assert not same(one, ArrayInfo(code, (1, 1), "C", one.read(), is_scalar=False))


def test_a_comparison_of_arrays_of_numpy_copies_pieces_only() -> None:
    count = 16 * PIECE_BYTES
    left, right = (ArrayInfo(dtype, (count // 4,), "C", bytes(count), is_scalar=False) for dtype in ("<f4", ">f4"))
    assert same(left, right)  # imports what it needs
    tracemalloc.start()
    try:
        assert same(left, right)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < count
