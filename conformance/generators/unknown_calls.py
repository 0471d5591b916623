"""Calls, globals and arguments outside the tables of a ``.pth``, and which outcome each has (FORMAT.md 6.5, 6.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from conformance.generators import expected
from conformance.generators.build_pth import (
    EXIT,
    ORDERED_DICT,
    REBUILD_FROM_TYPE,
    REBUILD_META,
    REBUILD_PARAMETER,
    REBUILD_SPARSE,
    REBUILD_V2,
    REBUILD_V3,
    SIZE,
    UNTYPED,
    Apply,
    Change,
    Name,
    Pairs,
    Raw,
    floats,
    ordered,
    storage,
    tensor,
)
from conformance.generators.build_torch_zips import DATA, pth
from conformance.generators.constructors import parameter
from conformance.generators.numpy_values import DTYPE, array, buffer, dtype_of, scalar
from conformance.generators.other_tensors import CHANNELS, INDICES, QUANTIZED, SIZES, SPARSE, VALUES, ZEROS, layout
from conformance.generators.other_tensors import quantized as quantized_tensor
from conformance.generators.small_values import BYTEARRAY, BYTES, ENCODE, SET, accepts, refuses
from conformance.generators.vectors import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.generators.vectors import Vector

FAILURE: Final = "tensor failure"
FUTURE: Final = Name("torch._utils", "_rebuild_tensor_v4")
ONE: Final = floats((8,))
UNKNOWN: Final = {
    "of-the-future": Apply(FUTURE, ONE.args),
    "of-a-call": Apply(Apply(Name("functools", "partial"), (REBUILD_V2,)), ONE.args),
    "by-newobj": Apply(REBUILD_V2, ONE.args, how="NEWOBJ"),
    "with-a-computed-tuple": Apply(FUTURE, EXIT),
    "changed": Apply(FUTURE, ONE.args, Change("BUILD", {})),
}


def changed(name: Name) -> Raw:
    """A global with a state."""
    return Raw(b"c" + f"{name.module}\n{name.name}\n".encode() + b"}b")


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from unknown_tensors()
    yield from known_calls()
    yield from other_globals()
    yield from from_type_arguments()
    yield from hooks_and_bits()
    yield from small_arguments()
    yield from keys()
    yield from numpy_arguments()
    yield from negatives()
    yield from large_sizes()


def unknown_tensors() -> Iterator[Vector]:
    rule = Rule("6.5", "It is unsupported, whatever its arguments are and whether it is a value (6.6) or an argument")
    for name, call in UNKNOWN.items():
        yield rule.refuses(f"unknown-call-{name}", pth(call, DATA), "unsupported")
        yield rule.refuses(f"unknown-call-{name}-in-a-parameter", pth(parameter(call), DATA), "unsupported")
    unknown = UNKNOWN["of-the-future"]
    in_place = Rule("6.5", "So is an unknown call in place of a storage.")
    yield in_place.refuses("unknown-call-as-a-storage", pth(tensor(unknown, (8,)), DATA), FAILURE)
    for name, parts in {"indices": (unknown, VALUES, SIZES), "values": (INDICES, unknown, SIZES)}.items():
        made = pth(Apply(REBUILD_SPARSE, (layout(), parts)), SPARSE)
        yield rule.refuses(f"unknown-call-as-{name}", made, "unsupported", features=("sparse",))
    made = pth(quantized_tensor((CHANNELS, unknown, ZEROS, 0)), {**QUANTIZED, **DATA})
    yield rule.refuses("unknown-call-as-scales", made, "unsupported", features=("quantized",))


def known_calls() -> Iterator[Vector]:
    rule = Rule("6.5", "A changed call, and arguments that are not a tuple, are an error.")
    for name, function in {"tensor": REBUILD_V2, "size": SIZE, "ordered-dict": ORDERED_DICT, "set": SET}.items():
        yield rule.refuses(f"known-call-{name}-of-a-computed-tuple", pth(Apply(function, EXIT)), FAILURE)
    made = Apply(Name("numpy.core.multiarray", "scalar"), EXIT)
    yield rule.refuses("known-call-scalar-of-a-computed-tuple", pth(made), FAILURE, features=("numpy-values",))
    rule = Rule("6.5", "Anything else in place of an argument is an error.")
    for name, call in {
        "bytearray": Apply(BYTEARRAY, ()),
        "dtype-of-numpy": dtype_of("f8"),
        "ordered-dict": ordered(),
        "set": Apply(SET, ()),
    }.items():
        features = ("numpy-values",) if name == "dtype-of-numpy" else ()
        yield rule.refuses(f"known-call-{name}-in-a-parameter", pth(parameter(call)), FAILURE, features=features)
    yield rule.refuses("known-call-global-in-a-parameter", pth(parameter(REBUILD_V2)), FAILURE)
    rule = Rule("6.6", "A `numpy.dtype` by itself is unsupported, and in place of a tensor an error.", "numpy-values")
    for name, dtype in {"plain": Apply(DTYPE, ("f8",)), "built": dtype_of("f8"), "wrong": Apply(DTYPE, EXIT)}.items():
        yield refuses(rule, f"numpy-dtype-alone-{name}", dtype, "unsupported")


def other_globals() -> Iterator[Vector]:
    rule = Rule("6.5", "is unsupported if it is another unchanged global.")
    raw = storage(32, "0", UNTYPED)

    def typed(dtype: object) -> bytes:
        return pth(Apply(REBUILD_V3, (raw, 0, (8,), (1,), False, ordered(), dtype)), DATA)

    yield rule.accepts("other-global-none", typed(Name("torch", "float32")), expected.lone(expected.floats(*range(8))))
    for name, dtype in {"of-numpy": Name("numpy", "float32"), "unknown": Name("torch", "float4")}.items():
        yield rule.refuses(f"other-global-dtype-{name}", typed(dtype), "unsupported")
        lazy = pth(Apply(REBUILD_META, (dtype, (2,), (1,), False)))
        yield rule.refuses(f"other-global-dtype-{name}-meta", lazy, "unsupported", features=("meta",))
    scheme = pth(quantized_tensor((Name("torch", "per_block_affine"), 0.5, 3)), QUANTIZED)
    yield rule.refuses("other-global-scheme", scheme, "unsupported", features=("quantized",))
    matrix = Apply(
        Name("numpy.core.multiarray", "_reconstruct"),
        (Name("numpy", "matrix"), (0,), b"b"),
        Change("BUILD", (1, (1,), dtype_of("f8"), False, bytes(8))),
    )
    yield rule.refuses("other-global-class-of-arrays", pth(matrix), "unsupported", features=("numpy-values",))
    rule = Rule("6.5", "Anything else in place of an argument is an error.")
    yield rule.refuses("changed-global-dtype", typed(changed(Name("torch", "float32"))), FAILURE)
    scheme = pth(quantized_tensor((changed(Name("torch", "per_tensor_affine")), 0.5, 3)), QUANTIZED)
    yield rule.refuses("changed-global-scheme", scheme, FAILURE, features=("quantized",))
    ndarray = Apply(matrix.func, (changed(Name("numpy", "ndarray")), (0,), b"b"), *matrix.changes)
    yield rule.refuses("changed-global-class-of-arrays", pth(ndarray), FAILURE, features=("numpy-values",))
    rule = Rule("6.6", "A global that is changed is another global")
    for name, value in {
        "dtype": changed(Name("torch", "float32")),
        "layout": changed(Name("torch", "strided")),
        "format": changed(Name("torch", "channels_last")),
        "function": Apply(changed(SET), ([1],)),
        "constructor": Apply(changed(REBUILD_V2), ONE.args),
    }.items():
        yield rule.refuses(f"value-changed-global-{name}", pth(value, DATA), "unsupported")


def from_type_arguments() -> Iterator[Vector]:
    rule = Rule("6.5", "and so is anything in their place that is not an unchanged global.", "attributes")
    tensors = Name("torch", "Tensor")
    for name, function, cls in (
        ("function-of-text", "torch._utils._rebuild_tensor_v2", tensors),
        ("function-changed", changed(REBUILD_V2), tensors),
        ("class-of-text", REBUILD_V2, "torch.Tensor"),
        ("class-changed", REBUILD_V2, changed(tensors)),
    ):
        made = pth(Apply(REBUILD_FROM_TYPE, (function, cls, ONE.args, {})), DATA)
        yield rule.refuses(f"tensor-from-type-{name}", made, "unsupported")
    rule = Rule("6.5", "Anything else in place of an argument is an error.", "attributes")
    made = pth(Apply(REBUILD_FROM_TYPE, (REBUILD_V2, tensors, list(ONE.args), {})), DATA)
    yield rule.refuses("tensor-from-type-arguments-list", made, FAILURE)


def hooks_and_bits() -> Iterator[Vector]:
    rule = Rule("6.5", "`hooks` is an unchanged call of `collections.OrderedDict` by REDUCE without arguments.")
    for how in ("NEWOBJ", "OBJ", "INST"):
        hooks = Apply(ORDERED_DICT, (), how=how)
        made = pth(Apply(REBUILD_V2, (*ONE.args[:5], hooks)), DATA)
        yield rule.refuses(f"tensor-hooks-by-{how.lower()}", made, "unsupported")
        made = pth(Apply(REBUILD_PARAMETER, (ONE, True, hooks)), DATA)
        yield rule.refuses(f"tensor-hooks-by-{how.lower()}-in-a-parameter", made, "unsupported")
    rule = Rule("6.5", "and so is a key that occurs twice")
    twice = Pairs(("neg", True), ("neg", True))
    yield rule.refuses("tensor-bits-twice", pth(tensor(storage(8), (8,), None, 0, False, twice), DATA), "unsupported")


def small_arguments() -> Iterator[Vector]:
    rule = Rule("6.6", "of nothing, bytes (not a bytearray), or (text, `latin1` or `latin-1`)")
    yield refuses(rule, "bytearray-of-a-bytearray", Apply(BYTEARRAY, (bytearray(b"ab"),)))
    rule = Rule("6.6", "`builtins.bytes` with an argument, and the name of an unknown layout, are unsupported.")
    for name, argument in {"of-bytes": b"", "of-a-number": 3}.items():
        yield refuses(rule, f"bytes-{name}", Apply(BYTES, (argument,)), "unsupported")
    yield refuses(rule, "layout-unknown-name", layout("torch.jagged"), "unsupported")
    rule = Rule("6.6", "`torch.Size` (a tuple) -> shape: integers >= 0 and < 2^63")
    yield accepts(rule, "size-2-to-63-minus-1", Apply(SIZE, ((2**63 - 1,),)), {"size": [expected.integer(2**63 - 1)]})
    yield refuses(rule, "size-2-to-63", Apply(SIZE, ((2**63,),)))
    rule = Rule("6.6", "with that value as its metadata (`Module.state_dict` sets it)")
    none = Apply(ORDERED_DICT, (), Change("BUILD", {"_metadata": None}))
    yield accepts(rule, "metadata-none", none, {"ordered_dict": [], "_metadata": None})


def keys() -> Iterator[Vector]:
    nan = float("nan")
    rule = Rule("6.6", "no NaN, as a key or in a tuple")
    infinite = {float("inf"): 1, -float("inf"): 2}
    yield accepts(rule, "key-infinite", infinite, expected.plain(infinite))
    memoised = Raw(b"}(G" + b"\x7f\xf8" + bytes(6) + b"q\0K\1h\0K\2u")
    for name, tree in {
        "alone": {nan: 1},
        "twice": Pairs((nan, 1), (nan, 2)),
        "from-the-memo": memoised,
        "in-a-tuple": {(nan,): 1},
        "ordered": ordered({nan: 1}),
        "member": Apply(SET, ([nan],)),
        "member-of-a-frozenset": frozenset({nan}),
    }.items():
        yield refuses(rule, f"key-nan-{name}", tree)
    rule = Rule("6.6", "A key that is a node, or a tuple that contains one, is unsupported; any other is an error.")
    for name, part in {"name": EXIT, "call": Apply(EXIT, ()), "tensor": ONE}.items():
        yield rule.refuses(f"value-key-tuple-of-a-{name}", pth(Pairs(((1, part), 1)), DATA), "unsupported")
    for name, part in {"list": [], "bytearray": bytearray(b"a"), "set": {1}}.items():
        yield refuses(rule, f"key-tuple-of-a-{name}", Pairs(((1, part), 1)))
    encoded = Apply(ENCODE, ("a", "latin1"))
    yield accepts(rule, "key-tuple-of-bytes", Pairs(((1, encoded), 1)), {"dict": [[expected.plain((1, b"a")), 1]]})


def numpy_arguments() -> Iterator[Vector]:
    rule = Rule("6.6", "in `numpy.core` also `_multiarray_umath.scalar` (builds of numpy 1.16 to 1.19)", "numpy-values")
    held = {"scalar": {"dtype": "float64", "sha256": expected.digest(bytes(8))}}
    umath = "numpy.core._multiarray_umath"
    yield accepts(rule, "numpy-umath-scalar", Apply(Name(umath, "scalar"), scalar(dtype_of("f8"), bytes(8)).args), held)
    made = array((1,), bytes(8))
    made.func = Name(umath, "_reconstruct")
    yield accepts(rule, "numpy-umath-array", made, expected.array("float64", [1], bytes(8)))
    other = Apply(Name("numpy._core._multiarray_umath", "scalar"), scalar(dtype_of("f8"), bytes(8)).args)
    yield refuses(rule, "numpy-umath-of-numpy-2", other, "unsupported")
    rule = Rule("6.6", "A call of these names with arguments other than these is an error.", "numpy-values")
    for name, arguments in {"order-k": "K", "order-none": None}.items():
        yield refuses(rule, f"numpy-buffer-{name}", buffer(bytes(8), dtype_of("f8"), (1,), arguments))
    yield refuses(rule, "numpy-scalar-of-text", scalar(dtype_of("f8"), "12345678"))
    yield refuses(rule, "numpy-array-of-none", array((1,), None))
    for name, dtype in {
        "a-call": Apply(EXIT, ()),
        "a-global": EXIT,
        "by-newobj": Apply(DTYPE, ("f8",), how="NEWOBJ"),
    }.items():
        yield refuses(rule, f"numpy-dtype-as-{name}", scalar(dtype, bytes(8)))
    rule = Rule("6.6", "and their product, with 1 in place of 0, x itemsize is below 2^63.", "numpy-values")
    held = expected.array("float64", [0, expected.integer(2**59)], b"")
    yield accepts(rule, "numpy-array-empty-of-2-to-59", array((0, 2**59), b""), held)
    yield refuses(rule, "numpy-array-empty-of-2-to-63", array((0, 2**63), b"", dtype=dtype_of("i1", "|")))


def negatives() -> Iterator[Vector]:
    rule = Rule("6.4", "`neg` any dtype except bool and the float8 dtypes, which torch cannot negate.")
    raw = storage(3, "0", UNTYPED)
    for name in ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu"):
        arguments = (raw, 0, (3,), (1,), False, ordered(), Name("torch", f"float8_{name}"), {"neg": True})
        made = pth(Apply(REBUILD_V3, arguments), {"0": b"\0\x80\1"})
        yield rule.refuses(f"tensor-neg-of-float8-{name}", made, FAILURE)


def large_sizes() -> Iterator[Vector]:
    rule = Rule("6.4", "the product of the sizes, with 1 in place of 0, is below 2^59")
    size = expected.integer(2**53)
    made = pth(tensor(storage(8), (0, 2**53), (1, 1)), DATA)
    yield rule.accepts("geometry-size-2-to-53", made, expected.lone(expected.tensor("float32", [0, size], b"")))
    lazy = pth(Apply(REBUILD_META, (Name("torch", "float32"), (2**53,), (1,), False)))
    held = expected.lone({"meta": {"dtype": "float32", "shape": [size]}})
    yield rule.accepts("tensor-meta-size-2-to-53", lazy, held, features=("meta",))
    parts = (INDICES, VALUES, (2**53, 3))
    made = pth(Apply(REBUILD_SPARSE, (layout(), parts)), SPARSE)
    indices = [expected.tensor("int64", (2, 2), SPARSE["i"])]
    facts = {"layout": "sparse_coo", "size": [size, 3], "is_coalesced": None}
    held = {"sparse": {**facts, "indices": indices, "values": expected.floats(1, 2)}}
    yield rule.accepts("tensor-sparse-size-2-to-53", made, expected.lone(held), features=("sparse",))
