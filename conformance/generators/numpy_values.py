"""numpy values in a ``.pth`` (FORMAT.md 6.6)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from conformance.generators import expected
from conformance.generators.build_pth import Apply, Change, Name
from conformance.generators.small_values import ENCODE, accepts, refuses
from conformance.generators.vectors import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.generators.vectors import Vector


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from numpy_scalars()
    yield from numpy_dtypes()
    yield from numpy_arrays()
    yield from numpy_buffers()


DTYPE: Final = Name("numpy", "dtype")
NDARRAY: Final = Name("numpy", "ndarray")
NATIVE: Final = (None, None, None, -1, -1, 0)
CODES: Final = {
    "b1": "bool", "i1": "int8", "u1": "uint8", "i2": "int16", "u2": "uint16", "f2": "float16",
    "i4": "int32", "u4": "uint32", "f4": "float32", "i8": "int64", "u8": "uint64", "f8": "float64",
    "c8": "complex64", "c16": "complex128",
}  # fmt: skip
"""numpy's code and name of each dtype."""
TWO: Final = struct.pack("<2d", 1.0, -2.5)


def dtype_of(code: object, order: object = "<", *more: object, rest: tuple[object, ...] = NATIVE) -> Apply:
    """``numpy.dtype`` as numpy pickles it."""
    return Apply(DTYPE, (code, False, True), Change("BUILD", (3, order, *rest, *more)))


def scalar(dtype: object, data: object, package: str = "numpy.core") -> Apply:
    """A numpy scalar."""
    return Apply(Name(f"{package}.multiarray", "scalar"), (dtype, data))


def as_scalar(name: str, data: bytes) -> dict[str, Any]:
    """The expected output for a numpy scalar."""
    return {"scalar": {"dtype": name, "sha256": expected.digest(data)}}


def numpy_scalars() -> Iterator[Vector]:
    rule = Rule("6.6", "- `multiarray.scalar` (dtype, bytes)", "numpy-values")
    held = as_scalar("float64", TWO[:8])
    yield accepts(rule, "numpy-scalar", scalar(dtype_of("f8"), TWO[:8]), held)
    yield refuses(rule, "numpy-scalar-short", scalar(dtype_of("f8"), TWO[:7]))
    yield refuses(rule, "numpy-scalar-long", scalar(dtype_of("f8"), TWO))
    yield refuses(rule, "numpy-scalar-without-dtype", scalar("f8", TWO[:8]))
    made = scalar(dtype_of("f8"), TWO[:8])
    yield refuses(rule, "numpy-scalar-of-a-bytearray", scalar(dtype_of("f8"), bytearray(TWO[:8])))
    yield refuses(rule, "numpy-scalar-of-one-argument", Apply(made.func, (dtype_of("f8"),)))
    yield refuses(rule, "numpy-scalar-built", Apply(made.func, made.args, Change("BUILD", ())))
    rule = Rule("6.6", "Items of b1 are 0 or 1.", "numpy-values")
    yield accepts(rule, "numpy-bool", scalar(dtype_of("b1", "|"), b"\x01"), as_scalar("bool", b"\x01"))
    yield refuses(rule, "numpy-bool-of-two", scalar(dtype_of("b1", "|"), b"\x02"))
    rule = Rule("6.6", "with `numpy.core` or `numpy._core` as the package", "numpy-values")
    renamed = scalar(dtype_of("f8"), TWO[:8], "numpy._core")
    yield accepts(rule, "numpy-scalar-of-numpy-2", renamed, held)
    other = scalar(dtype_of("f8"), TWO[:8], "numpy.other")
    yield refuses(rule, "numpy-scalar-of-another-package", other, "unsupported")
    rule = Rule("6.6", "Bytes may be encoded by `_codecs.encode` or `builtins.bytes`.", "numpy-values")
    spelled = Apply(ENCODE, (TWO[:8].decode("latin-1"), "latin1"))
    yield accepts(rule, "numpy-scalar-of-encoded-bytes", scalar(dtype_of("f8"), spelled), held)


def numpy_dtypes() -> Iterator[Vector]:
    rule = Rule("6.6", "The code is one of b1 i1 u1 i2 u2 f2 i4 u4 f4 i8 u8 f8 c8 c16 and nothing else", "numpy-values")
    raw = b"\1" + bytes(15)
    every = {code: dtype_of(code, "|" if code[1:] == "1" else "<") for code in CODES}
    held = {"list": [as_scalar(name, raw[: int(code[1:])]) for code, name in CODES.items()]}
    yield accepts(rule, "numpy-dtypes", [scalar(dtype, raw[: int(code[1:])]) for code, dtype in every.items()], held)
    for name, code, size in (
        ("object", "O8", 8),
        ("bytes", "S8", 8),
        ("text", "U2", 8),
        ("f16", "f16", 16),
        ("name", "float64", 8),
    ):
        yield refuses(rule, f"numpy-dtype-of-{name}", scalar(dtype_of(code), bytes(size)), "unsupported")

    rule = Rule("6.6", "then BUILD with 8 or 9 items: 3 or 4, then `<`, `>`, `=` (little) or `|`", "numpy-values")
    held = as_scalar("float64", TWO[:8])
    yield accepts(rule, "numpy-dtype-native", scalar(dtype_of("f8", "="), TWO[:8]), held)
    yield accepts(rule, "numpy-dtype-of-9-items", scalar(dtype_of("f8", "<", None), TWO[:8]), held)
    yield accepts(rule, "numpy-dtype-big-endian", scalar(dtype_of("f8", ">"), TWO[:8][::-1]), held)
    parts = dtype_of("c8", ">")
    numbers = struct.pack("<2f", 1.0, -2.5)
    swapped = struct.pack(">2f", 1.0, -2.5)
    yield accepts(rule, "numpy-dtype-big-endian-complex", scalar(parts, swapped), as_scalar("complex64", numbers))
    built = Apply(DTYPE, ("f8", False, True), Change("BUILD", (4, "<", *NATIVE)))
    yield accepts(rule, "numpy-dtype-state-version-4", scalar(built, TWO[:8]), held)
    for version in (2, 5):
        built = Apply(DTYPE, ("f8", False, True), Change("BUILD", (version, "<", *NATIVE)))
        yield refuses(rule, f"numpy-dtype-state-version-{version}", scalar(built, TWO[:8]))
    for name, dtype in {
        "unknown-order": dtype_of("f8", "!"),
        "order-none": dtype_of("f8", None),
        "7-items": dtype_of("f8", rest=NATIVE[:5]),
        "built-twice": Apply(DTYPE, ("f8",), *dtype_of("f8").changes * 2),
    }.items():
        yield refuses(rule, f"numpy-dtype-state-{name}", scalar(dtype, TWO[:8]))
    rule = Rule("6.6", "The byte order of a dtype of single bytes is not `>`", "numpy-values")
    yield refuses(rule, "numpy-dtype-big-endian-byte", scalar(dtype_of("u1", ">"), b"a"))
    yield accepts(rule, "numpy-dtype-little-endian-byte", scalar(dtype_of("u1", "<"), b"a"), as_scalar("uint8", b"a"))
    rule = Rule("6.6", "then None three times, then -1, -1, 0, then None if there are 9 items", "numpy-values")
    for name, rest in {
        "subdtype": ((dtype_of("f4"), (2,)), None, None, -1, -1, 0),
        "names": (None, ("a",), None, -1, -1, 0),
        "fields": (None, None, {"a": 1}, -1, -1, 0),
        "itemsize": (None, None, None, 8, -1, 0),
        "alignment": (None, None, None, -1, 8, 0),
        "flags": (None, None, None, -1, -1, 1),
        "metadata": (None, None, None, -1, -1, 0, {}),
        "10-items": (None, None, None, -1, -1, 0, None, None),
    }.items():
        yield refuses(rule, f"numpy-dtype-with-{name}", scalar(dtype_of("f8", rest=rest), TWO[:8]))
    rule = Rule("6.6", "- a dtype is `numpy.dtype` (code[, align[, copy]])", "numpy-values")
    for name, arguments in {"align": ("f8", 0), "flags": ("f8", True, False)}.items():
        yield accepts(rule, f"numpy-dtype-arguments-{name}", scalar(Apply(DTYPE, arguments), TWO[:8]), held)
    for name, arguments in {"none": (), "number": (8,), "four": ("f8", False, True, None)}.items():
        built = Apply(DTYPE, arguments, *dtype_of("f8").changes)
        yield refuses(rule, f"numpy-dtype-arguments-{name}", scalar(built, TWO[:8]))
    rule = Rule("6.6", "A dtype that was not created as a copy MUST NOT have a BUILD", "numpy-values")
    for name, arguments in {"absent": ("f8", False), "false": ("f8", False, False), "zero": ("f8", 0, 0)}.items():
        for order in "<>":
            built = Apply(DTYPE, arguments, *dtype_of("f8", order).changes)
            sign = "big" if order == ">" else "little"
            yield refuses(rule, f"numpy-dtype-copy-{name}-{sign}", scalar(built, TWO[:8]))
    built = Apply(DTYPE, ("f8", 0, 1), *dtype_of("f8").changes)
    yield accepts(rule, "numpy-dtype-copy-one", scalar(built, TWO[:8]), held)
    rule = Rule("6.6", "A dtype without BUILD is little-endian.", "numpy-values")
    yield accepts(rule, "numpy-dtype-unbuilt", scalar(Apply(DTYPE, ("f8",)), TWO[:8]), held)


def array(
    shape: object, data: object, *, order: object = False, dtype: object = None, how: tuple[object, ...] = ((0,), b"b")
) -> Apply:
    """A numpy array as numpy pickles it."""
    state = (1, shape, dtype or dtype_of("f8"), order, data)
    return Apply(Name("numpy.core.multiarray", "_reconstruct"), (NDARRAY, *how), Change("BUILD", state))


def numpy_arrays() -> Iterator[Vector]:
    rule = Rule("6.6", "then one BUILD (1, shape, dtype, is_fortran: a bool, 0 or 1, bytes)", "numpy-values")
    four = struct.pack("<4d", 1, 2, 3, 4)
    turned = struct.pack("<4d", 1, 3, 2, 4)
    yield accepts(rule, "numpy-array", array((2,), TWO), expected.array("float64", [2], TWO))
    yield accepts(rule, "numpy-array-of-rows", array((2, 2), four), expected.array("float64", [2, 2], four))
    yield accepts(
        rule, "numpy-array-fortran", array((2, 2), four, order=True), expected.array("float64", [2, 2], turned)
    )
    yield accepts(
        rule, "numpy-array-fortran-1", array((2, 2), four, order=1), expected.array("float64", [2, 2], turned)
    )
    yield accepts(rule, "numpy-array-scalar", array((), TWO[:8]), expected.array("float64", [], TWO[:8]))
    yield accepts(rule, "numpy-array-empty", array((0, 3), b""), expected.array("float64", [0, 3], b""))
    spelled = Apply(ENCODE, ("b", "latin1"))
    yield accepts(
        rule, "numpy-array-of-protocol-2", array((2,), TWO, how=((0,), spelled)), expected.array("float64", [2], TWO)
    )
    good = array((2,), TWO)
    state = good.changes[0].value
    for name, tree in {
        "of-another-shape": array((2,), TWO, how=((1,), b"b")),
        "of-another-code": array((2,), TWO, how=((0,), b"f")),
        "without-state": Apply(good.func, good.args),
        "built-twice": Apply(good.func, good.args, *good.changes * 2),
        "state-of-4": Apply(good.func, good.args, Change("BUILD", state[1:])),
        "order-text": array((2,), TWO, order="F"),
        "order-2": array((2,), TWO, order=2),
        "of-a-bytearray": array((2,), bytearray(TWO)),
        "without-ndarray": Apply(good.func, good.args[1:], *good.changes),
    }.items():
        yield refuses(rule, f"numpy-array-{name}", tree)

    rule = Rule(
        "6.6",
        "The rank is at most 64, and the product of the shape x itemsize MUST equal the number of bytes",
        "numpy-values",
    )
    held = expected.array("int8", [1] * 64, b"\7")
    yield accepts(rule, "numpy-array-of-rank-64", array((1,) * 64, b"\7", dtype=dtype_of("i1", "|")), held)
    for name, shape, data in (
        ("of-rank-65", (1,) * 65, TWO[:8]),
        ("short", (3,), TWO),
        ("long", (1,), TWO),
        ("negative", (-2,), TWO),
        ("wrapping", (2**32, 2**32), b""),
    ):
        yield refuses(rule, f"numpy-array-shape-{name}", array(shape, data))
    rule = Rule(
        "6.6",
        "and their product, with 1 in place of 0, x itemsize is below 2^63.",
        "numpy-values",
    )
    largest = (2**30, 0, 2**30 - 1)
    yield accepts(rule, "numpy-array-empty-largest", array(largest, b""), expected.array("float64", largest, b""))
    for name, shape in (("size", (0, 2**60)), ("product", (2**30, 0, 2**30)), ("64-bits", (0, 2**63))):
        yield refuses(rule, f"numpy-array-empty-too-large-{name}", array(shape, b""))
    rule = Rule("6.6", "An array whose items are a list (dtype object) is unsupported.", "numpy-values")
    objects = dtype_of("O8", "|", rest=(None, None, None, -1, -1, 63))
    yield refuses(rule, "numpy-array-of-objects", array((1,), [None], dtype=objects), "unsupported")


def buffer(*arguments: object) -> Apply:
    """``_frombuffer``, which protocol 5 without out-of-band buffers uses."""
    return Apply(Name("numpy._core.numeric", "_frombuffer"), arguments)


def numpy_buffers() -> Iterator[Vector]:
    rule = Rule("6.6", "- `numeric._frombuffer` (bytes or bytearray, dtype, shape, `C` or `F`)", "numpy-values")
    four = struct.pack("<4d", 1, 2, 3, 4)
    turned = struct.pack("<4d", 1, 3, 2, 4)
    dtype = dtype_of("f8")
    for name, order, held in (("c", "C", four), ("fortran", "F", turned)):
        yield accepts(
            rule, f"numpy-buffer-{name}", buffer(four, dtype, (2, 2), order), expected.array("float64", [2, 2], held)
        )
    held = expected.array("float64", [2], TWO)
    yield accepts(rule, "numpy-buffer-of-a-bytearray", buffer(bytearray(TWO), dtype, (2,), "C"), held)
    for name, arguments in {
        "few": (four, dtype, (2, 2)),
        "short": (four, dtype, (5,), "C"),
    }.items():
        yield refuses(rule, f"numpy-buffer-{name}", buffer(*arguments))
    yield refuses(rule, "numpy-buffer-built", Apply(buffer().func, (TWO, dtype, (2,), "C"), Change("BUILD", ())))
