"""``sbformat.pkl.numpy``: numpy's arrays, scalars and dtypes against numpy's own pickles, and broken ones."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest

from conformance.generators.build_pth import Apply, Change, Name, Raw, dumps, torch_zip
from sbformat import SbformatError, TensorError, UnsupportedError, pkl
from sbformat.pkl.encode import encode_pickle
from sbformat.pkl.numpy import ITEM_SIZES, ArrayInfo, array_info, dtype_code, encoded_bytes, to_tree
from tests.helpers.many_cases import check_each
from tests.helpers.pth_checks import decode, refusal

PACKAGES = ["numpy.core", "numpy._core"]
DTYPE = Name("numpy", "dtype")
NDARRAY = Name("numpy", "ndarray")


def info_of(tree: object, protocol: int = 2) -> ArrayInfo:
    call = pkl.loads(tree if isinstance(tree, bytes) else dumps(tree, protocol))
    assert isinstance(call, pkl.Call)
    return array_info(call)


def refused(tree: object, kind: type[SbformatError] = TensorError) -> SbformatError:
    with pytest.raises(SbformatError) as raised:
        info_of(tree)
    assert type(raised.value) is kind
    return raised.value


def dtype(code: object = "f8", order: object = "<", *more: object) -> Apply:
    return Apply(DTYPE, (code, False, True), Change("BUILD", (3, order, None, None, None, -1, -1, 0, *more)))


def array(state: object, function: str = "numpy._core.multiarray") -> Apply:
    return Apply(Name(function, "_reconstruct"), (NDARRAY, (0,), b"b"), Change("BUILD", state))


def scalar(kind: object, raw: object, function: str = "numpy._core.multiarray") -> Apply:
    return Apply(Name(function, "scalar"), (kind, raw))


TWO = np.array([1.5, -2.0]).tobytes()


# -- numpy's own pickles ------------------------------------------------------------------------------


def values() -> list[Any]:
    made: list[Any] = []
    for code in sorted(ITEM_SIZES):
        numbers = np.array([0, 1, 1, 0, 1, 1]).astype(code)
        made += [numbers, numbers.reshape(2, 3), numbers.reshape(2, 3).T, numbers[:0], numbers[1], numbers[::2]]
        if ITEM_SIZES[code] > 1:
            made += [numbers.astype(np.dtype(code).newbyteorder(">")), numbers.astype(f">{code}")[2]]
    return [*made, np.array(3.5), np.zeros((2, 0, 3), "f4"), np.asfortranarray(np.arange(6.0).reshape(2, 3))]


@check_each("protocol", range(6))
def test_whatever_numpy_pickles_comes_back(protocol: int) -> None:
    for value in values():
        made = info_of(pickle.dumps(value, protocol)).to_numpy()
        assert type(made) is type(value)
        assert made.dtype == value.dtype.newbyteorder("=")
        assert made.shape == value.shape
        assert made.tobytes() == value.astype(made.dtype).tobytes()
        assert not made.flags.writeable


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_in_a_pth_too(protocol: int) -> None:
    value = {"lr": np.float64(0.1), "a": np.arange(6, dtype="i2").reshape(2, 3), "empty": np.zeros((0, 2)), "raw": b""}
    made = decode(Raw(pickle.dumps(value, protocol)[2 if protocol < 4 else 11 : -1])).to_numpy()
    assert type(made["lr"]) is np.float64
    assert made["lr"] == 0.1
    assert made["a"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert (made["empty"].shape, made["raw"]) == ((0, 2), b"")


def test_special_numbers_keep_their_bits() -> None:
    raw = bytes.fromhex("010000000000f07f 000000000000f8ff 0000000000000080 000000000000f0ff".replace(" ", ""))
    made = info_of(pickle.dumps(np.frombuffer(raw, "<f8"))).to_numpy()
    assert made.tobytes() == raw


@pytest.mark.parametrize(
    "value", [np.array(["a"]), np.array([b"a"]), np.array([object()]), np.array(["2020"], "M8[D]")]
)
def test_what_is_no_plain_number_is_unsupported(value: np.ndarray) -> None:
    with pytest.raises(UnsupportedError, match="plain number"):
        info_of(pickle.dumps(value, 4))


def test_structured_dtypes_are_refused() -> None:
    with pytest.raises(SbformatError):
        info_of(pickle.dumps(np.zeros(2, [("a", "f4"), ("b", "i4")]), 4))


# -- each spelling ------------------------------------------------------------------------------------


@pytest.mark.parametrize("package", PACKAGES)
def test_the_three_constructors_of_both_packages(package: str) -> None:
    by_state = info_of(array((1, (2,), dtype(), False, TWO), f"{package}.multiarray"))
    assert by_state == ArrayInfo("<f8", (2,), "C", TWO, False)
    by_buffer = info_of(Apply(Name(f"{package}.numeric", "_frombuffer"), (bytearray(TWO), dtype(), (2,), "C")))
    assert by_buffer == by_state
    number = info_of(scalar(dtype(), TWO[:8], f"{package}.multiarray"))
    assert number == ArrayInfo("<f8", (), "C", TWO[:8], True)
    assert type(number.to_numpy()) is np.float64


@check_each("code", sorted(ITEM_SIZES))
@check_each(("order", "said"), [("<", "<"), (">", ">"), ("|", "<"), ("=", "<"), (None, "<")])
def test_each_code_in_each_byte_order(code: str, order: str | None, said: str) -> None:
    kind = Apply(DTYPE, (code, False, True)) if order is None else dtype(code, order)
    if order == ">" and ITEM_SIZES[code] == 1:
        with pytest.raises(TensorError, match="single bytes"):
            info_of(array((1, (2,), kind, False, bytes(2))))
        return
    numbers = np.array([0, 1]).astype(np.dtype(said + code))
    found = info_of(array((1, (2,), kind, False, numbers.tobytes())))
    assert found.dtype == ("|" if ITEM_SIZES[code] == 1 else said) + code
    assert np.dtype(found.dtype).itemsize == ITEM_SIZES[code]
    assert found.to_numpy().tolist() == numbers.tolist()


@pytest.mark.parametrize("raw", [TWO, Apply(Name("_codecs", "encode"), (TWO.decode("latin-1"), "latin1"))])
def test_each_spelling_of_the_bytes(raw: object) -> None:
    assert info_of(array((1, (2,), dtype(), False, raw))).to_numpy().tolist() == [1.5, -2.0]


def test_no_bytes_as_protocol_2_spells_them() -> None:
    nothing = Apply(Name("__builtin__", "bytes"), ())
    assert info_of(array((1, (0, 3), dtype(), False, nothing))).to_numpy().shape == (0, 3)
    assert encoded_bytes(pkl.loads(dumps(nothing))) == b""


def test_fortran_order() -> None:
    for flag, order in ((True, "F"), (False, "C"), (1, "F"), (0, "C")):
        assert info_of(array((1, (1, 2), dtype(), flag, TWO))).order == order
    six = np.arange(6.0).tobytes()
    made = info_of(Apply(Name("numpy._core.numeric", "_frombuffer"), (six, dtype(), (2, 3), "F"))).to_numpy()
    assert made.tolist() == [[0, 2, 4], [1, 3, 5]]


def test_a_dtype_with_the_ninth_item() -> None:
    assert info_of(array((1, (2,), dtype("f8", "<", None), False, TWO))).dtype == "<f8"


# -- broken -------------------------------------------------------------------------------------------


@check_each("code", ["f16", "c32", "O", "O8", "U1", "S1", "V8", "M8", "m8", "<f8", "float64", "i3", "", "f8,f8"])
def test_a_code_outside_the_table_is_unsupported(code: str) -> None:
    refused(array((1, (2,), dtype(code), False, TWO)), UnsupportedError)


@check_each(
    "kind",
    [
        None,
        "f8",
        Name("numpy", "float64"),
        Apply(Name("numpy", "dtypes"), ("f8",)),
        Apply(DTYPE, ()),
        Apply(DTYPE, (Name("numpy", "float64"),)),
        Apply(DTYPE, (b"f8",)),
        Apply(DTYPE, ("f8", False, True, {})),
        Apply(DTYPE, ("f8",), Change("BUILD", None)),
        Apply(DTYPE, ("f8",), Change("BUILD", ())),
        Apply(DTYPE, ("f8",), Change("BUILD", (3, "<"))),
        Apply(DTYPE, ("f8",), Change("SETITEMS", ["a", 1])),
        dtype("f8", "?"),
        dtype("f8", ""),
        dtype("f8", b"<"),
        dtype("f8", None),
        dtype("f8", []),
        dtype("f8", {}),
        dtype("f8", ([],)),
        dtype("f8", bytearray(b"<")),
        Apply(DTYPE, ("f8",), Change("BUILD", (3, "<", ("f4", (2,)), None, None, -1, -1, 0))),
        Apply(DTYPE, ("f8",), Change("BUILD", (3, "<", None, ("a",), {"a": 1}, -1, -1, 0))),
    ],
)
def test_a_dtype_of_another_form_is_refused(kind: object) -> None:
    refused(array((1, (2,), kind, False, TWO)))
    refused(scalar(kind, TWO[:8]))


@check_each(
    "state",
    [
        None,
        (),
        (1, (2,), dtype(), False),
        (1, (2,), dtype(), False, TWO, 0),
        [1, (2,), dtype(), False, TWO],
        (1, (2,), dtype(), "C", TWO),
        (1, (2,), dtype(), None, TWO),
        (1, [2], dtype(), False, TWO),
        (1, 2, dtype(), False, TWO),
        (1, (2.0,), dtype(), False, TWO),
        (1, (True, 2), dtype(), False, TWO),
        (1, (-2,), dtype(), False, TWO),
        (1, (-1, -2), dtype(), False, TWO),
        (1, (1,), dtype(), False, TWO),
        (1, (3,), dtype(), False, TWO),
        (1, (2, 0), dtype(), False, TWO),
        (1, (2,), dtype("f4"), False, TWO),
        (1, (2,), dtype(), False, TWO[:-1]),
        (1, (2**63,), dtype(), False, TWO),
        (1, (2**62, 2**62), dtype(), False, TWO),
        (1, (1,) * 65, dtype(), False, TWO[:8]),
        (1, (2**62, 0), dtype(), False, b""),
        (1, (0, 2**40, 2**40), dtype(), False, b""),
    ],
)
def test_an_array_whose_parts_do_not_fit_is_refused(state: object) -> None:
    refused(array(state))


def test_items_that_are_a_list_are_unsupported() -> None:
    refused(array((1, (2,), dtype(), False, [1.5, -2.0])), UnsupportedError)


@pytest.mark.parametrize("items", [None, "text", 5, Apply(Name("_codecs", "encode"), ("x", "utf8"))])
def test_items_that_are_not_bytes_are_refused(items: object) -> None:
    refused(array((1, (2,), dtype(), False, items)))


def test_text_that_is_no_bytes_is_refused() -> None:
    refused(array((1, (2,), dtype(), False, Apply(Name("_codecs", "encode"), ("\u0100" * 16, "latin1")))))


@check_each(
    "tree",
    [
        Apply(Name("numpy._core.multiarray", "_reconstruct"), (NDARRAY, (0,), b"b")),
        Apply(Name("numpy._core.multiarray", "_reconstruct"), (Name("my", "ndarray"), (0,), b"b")),
        Apply(Name("numpy._core.multiarray", "_reconstruct"), (NDARRAY, (0,))),
        Apply(Name("numpy._core.multiarray", "scalar"), (dtype(),)),
        Apply(Name("numpy._core.multiarray", "scalar"), (dtype(), TWO[:8], 1)),
        Apply(Name("numpy._core.multiarray", "scalar"), (dtype(), TWO)),
        Apply(Name("numpy._core.multiarray", "scalar"), (dtype(), TWO[:8]), Change("BUILD", {})),
        Apply(Name("numpy._core.numeric", "_frombuffer"), (TWO, dtype(), (2,))),
        Apply(Name("numpy._core.numeric", "_frombuffer"), (TWO, dtype(), (2,), "A")),
        Apply(Name("numpy._core.numeric", "_frombuffer"), (TWO, dtype(), (2,), b"C")),
        Apply(Name("numpy._core.numeric", "_frombuffer"), (TWO, dtype(), (2,), [])),
        Apply(Name("numpy._core.numeric", "_frombuffer"), (TWO, dtype(), (2,), "C"), Change("BUILD", ())),
        Apply(
            Name("numpy._core.multiarray", "_reconstruct"),
            (NDARRAY, (0,), b"b"),
            *[Change("BUILD", (1, (2,), dtype(), False, TWO))] * 2,
        ),
        Apply(
            Name("numpy._core.multiarray", "_reconstruct"),
            (NDARRAY, (0,), b"b"),
            Change("SETITEMS", [0, 1]),
        ),
    ],
)
def test_a_constructor_with_other_arguments_is_refused(tree: Apply) -> None:
    refused(tree)


@check_each(
    "args",
    [("f8", Name("builtins", "getattr"), False), ("f8", False, Name("numpy", "float64")), ("f8", None, True),
     ("f8", "a", True), ("f8", 1.0, True), (Name("numpy", "float64"), False, True), ("f8", False, True, True), ()],
)  # fmt: skip
def test_a_dtype_is_given_a_code_and_flags(args: tuple[object, ...]) -> None:
    kind = Apply(DTYPE, args, Change("BUILD", (3, "<", None, None, None, -1, -1, 0)))
    refused(array((1, (2,), kind, False, TWO)))


@check_each("version", [0, 1, 2, 5, True, None, "3", 3.0])
def test_a_dtype_has_one_of_two_versions(version: object) -> None:
    kind = Apply(DTYPE, ("f8", False, True), Change("BUILD", (version, "<", None, None, None, -1, -1, 0)))
    refused(array((1, (2,), kind, False, TWO)))


@check_each(
    "args",
    [(NDARRAY, (1,), b"b"), (NDARRAY, (), b"b"), (NDARRAY, 0, b"b"), (NDARRAY, (0,), b"f"), (NDARRAY, (0,), "f"),
     (NDARRAY, (0,), None), (NDARRAY, (0,), Name("os", "system")), (NDARRAY, Name("os", "system"), b"b")],
)  # fmt: skip
def test_an_array_is_made_empty_of_bytes(args: tuple[object, ...]) -> None:
    state = (1, (2,), dtype(), False, TWO)
    refused(Apply(Name("numpy.core.multiarray", "_reconstruct"), args, Change("BUILD", state)))


@check_each("version", [0, 2, True, None, "1", 1.0])
def test_an_array_has_one_version(version: object) -> None:
    refused(array((version, (2,), dtype(), False, TWO)))


def test_dtype_code_takes_the_inert_tree() -> None:
    assert dtype_code(pkl.loads(dumps(dtype("i4", ">")))) == ">i4"


@pytest.mark.parametrize("rank", [32, 33, 64])
def test_a_rank_that_this_numpy_lacks_is_our_error(rank: int) -> None:
    found = info_of(array((1, (1,) * rank, dtype(), False, TWO[:8])))
    try:
        assert found.to_numpy().shape == (1,) * rank
    except SbformatError:
        assert rank > 32


def test_a_refusal_inside_a_pth_is_an_error_of_the_entry() -> None:
    error = refusal(torch_zip({"lr": scalar(dtype("O8"), b"")}))
    assert type(error) is UnsupportedError
    assert error.entry == "archive/data.pkl"


# -- and back -----------------------------------------------------------------------------------------

CODES = ["|b1", "|i1", "|u1", "<i2", ">u2", "<f2", ">i4", "<u4", "<f4", ">f8", "<i8", "<u8", "<c8", ">c16"]


@check_each("protocol", [2, 4, 5])
@check_each("code", CODES)
def test_numpy_itself_reads_what_to_tree_says(code: str, protocol: Any) -> None:
    """Scalars, and arrays in C and Fortran order, in either byte order; and so do we."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy.core is an old name, which both numpy 1 and 2 know
        items = np.arange(6).astype(code)
        for info in (
            ArrayInfo(code, (), "C", items[:1].tobytes(), True),
            ArrayInfo(code, (2, 3), "C", items.tobytes(), False),
            ArrayInfo(code, (2, 3), "F", items.tobytes(), False),
            ArrayInfo(code, (), "C", items[:1].tobytes(), False),
            ArrayInfo(code, (0, 4), "C", b"", False),
        ):
            raw = encode_pickle(to_tree(info), protocol=protocol)
            found = pickle.loads(raw)
            expected = info.to_numpy()
            assert isinstance(found, np.generic) == info.is_scalar
            assert np.array_equal(found, expected)
            assert found.shape == info.shape
            assert found.dtype.newbyteorder("=") == np.dtype(code).newbyteorder("=")
            assert array_info(pkl.loads(raw)) == info
