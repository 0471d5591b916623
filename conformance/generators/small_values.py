"""Containers and small values of a ``.pth`` (FORMAT.md 6.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from conformance.generators import expected
from conformance.generators.build_pth import (
    DEVICE,
    EXIT,
    GET_LAYOUT,
    ORDERED_DICT,
    SIZE,
    Apply,
    Change,
    Name,
    Pairs,
    Raw,
    ordered,
)
from conformance.generators.build_torch_zips import pth
from conformance.generators.vectors import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.generators.vectors import Vector

PLAIN: Final = "list, tuple, Dict -> list, tuple, dict"
CALLS: Final = (
    "These calls are made by REDUCE. A call by another opcode, and any other global, call or node, is unsupported."
)
SET: Final = Name("__builtin__", "set")
FROZENSET: Final = Name("__builtin__", "frozenset")
BYTEARRAY: Final = Name("__builtin__", "bytearray")
COMPLEX: Final = Name("__builtin__", "complex")
BYTES: Final = Name("__builtin__", "bytes")
ENCODE: Final = Name("_codecs", "encode")


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from plain()
    yield from ordered_dicts()
    yield from metadata()
    yield from sets()
    yield from sizes()
    yield from devices()
    yield from names()
    yield from octets()
    yield from complex_numbers()
    yield from unknown()


def accepts(rule: Rule, name: str, tree: object, held: Any, **more: Any) -> Vector:
    """A file of one value."""
    return rule.accepts(f"value-{name}", pth(tree), expected.lone(held), **more)


def refuses(rule: Rule, name: str, tree: object, outcome: str = "tensor failure", **more: Any) -> Vector:
    """A file of one value."""
    return rule.refuses(f"value-{name}", pth(tree), outcome, **more)


# -- containers ---------------------------------------------------------------------------------------


def plain() -> Iterator[Vector]:
    rule = Rule("6.6", "None, bool, int, float, text, bytes, bytearray -> itself")
    for name, value in {
        "none": None,
        "bools": [True, False],
        "whole-numbers": [0, -1, 2**53 - 1, 2**53, -(2**63), 2**70],
        "floats": [0.5, -0.0, float("inf"), 5e-324],
        "text": ["", "w", "é", "\U0001f600", "\0"],
        "lone-surrogate": "\ud800",
        "bytes": [b"", b"\0\xff"],
        "bytearray": bytearray(b"ab"),
    }.items():
        held = {"bytearray": "YWI="} if name == "bytearray" else expected.plain(value)
        yield accepts(rule, name, value, held)
    nan = Raw(b"G\x7f\xf8\0\0\0\0\0\7")
    yield accepts(rule, "nan-with-a-payload", nan, {"float": "7ff8000000000007"})

    rule = Rule("6.6", PLAIN)
    for name, value in {
        "containers": [1, (2.5, None, (), []), {"k": [], "d": {}}],
        "dict-in-its-order": {"b": 1, "a": 2, "c": {"z": 1, "y": 2}},
    }.items():
        yield accepts(rule, name, value, expected.plain(value))
    part = [1, 2]
    held = {"list": [expected.plain(part)] * 2}
    yield accepts(Rule("6.6", "Parts that are shared SHOULD remain shared."), "shared-part", [part, part], held)


def ordered_dicts() -> Iterator[Vector]:
    rule = Rule("6.6", "called with `()` or, by Python 2, with a list of pairs; then SETITEMS")
    yield accepts(rule, "ordered-dict", ordered({"b": 1, "a": 2}), expected.ordered_dict({"b": 1, "a": 2}))
    yield accepts(rule, "ordered-dict-empty", ordered(), expected.ordered_dict({}))
    pairs = Apply(ORDERED_DICT, ([["b", 1], ("a", 2)],))
    yield accepts(rule, "ordered-dict-of-pairs", pairs, expected.ordered_dict({"b": 1, "a": 2}))
    twice = Apply(ORDERED_DICT, (), Change("SETITEMS", ["b", 1]), Change("SETITEMS", ["a", 2]))
    yield accepts(rule, "ordered-dict-in-batches", twice, expected.ordered_dict({"b": 1, "a": 2}))
    for name, arguments in {
        "of-a-dict": ({"a": 1},),
        "of-a-tuple": ((("a", 1),),),
    }.items():
        yield refuses(rule, f"ordered-dict-{name}", Apply(ORDERED_DICT, arguments))
    yield refuses(rule, "ordered-dict-appended", Apply(ORDERED_DICT, (), Change("APPENDS", ["a"])))
    rule = Rule("6.6", CALLS)
    yield refuses(rule, "ordered-dict-by-newobj", Apply(ORDERED_DICT, (), how="NEWOBJ"), "unsupported")


def metadata() -> Iterator[Vector]:
    rule = Rule("6.6", "... then at most one BUILD with a dict of the one key `_metadata`")
    versions = {"": {"version": 1}}
    held = expected.ordered_dict({"a": 1}, expected.plain(versions))
    yield accepts(rule, "metadata", ordered({"a": 1}, versions), held)
    inner = ordered({"": {"version": 1}})
    held = expected.ordered_dict({}, expected.ordered_dict({"": expected.plain({"version": 1})}))
    yield accepts(rule, "metadata-ordered", ordered(None, inner), held)
    build = Change("BUILD", {"_metadata": 1})
    for name, changes in {
        "of-an-empty-dict": [Change("BUILD", {})],
        "of-another-key": [Change("BUILD", {"metadata": 1})],
        "beside-another-key": [Change("BUILD", {"_metadata": 1, "other": 2})],
        "key-twice": [Change("BUILD", Pairs(("_metadata", 1), ("_metadata", 2)))],
        "twice": [build, build],
        "before-items": [build, Change("SETITEMS", ["a", 1])],
    }.items():
        yield refuses(rule, f"metadata-{name}", Apply(ORDERED_DICT, (), *changes))
    built = Raw(b"}}X\x09\0\0\0_metadataNsb")
    yield refuses(rule, "metadata-of-a-plain-dict", built, "pickle failure")


def sets() -> Iterator[Vector]:
    rule = Rule("6.6", "`builtins.set`, `builtins.frozenset` called with `()` or one list or tuple")
    for name, tree, held in (
        ("set", {1}, {"set": [1]}),
        ("frozenset", frozenset({b"a"}), {"frozenset": [expected.plain(b"a")]}),
        ("set-called", Apply(SET, ([1, "a"],)), {"set": [1, "a"]}),
        ("set-of-a-tuple", Apply(SET, ((None,),)), {"set": [None]}),
        ("set-of-nothing", Apply(SET, ()), {"set": []}),
        ("frozenset-called", Apply(FROZENSET, (["a"],)), {"frozenset": ["a"]}),
    ):
        yield accepts(rule, name, tree, held)
    for name, tree in {
        "of-text": Apply(SET, ("ab",)),
        "of-a-number": Apply(SET, (1,)),
    }.items():
        yield refuses(rule, f"set-{name}", tree)
    rule = Rule("6.6", "A call that is changed afterwards is an error")
    yield refuses(rule, "set-changed-afterwards", Apply(SET, ([1],), Change("ADDITEMS", [2])))
    yield refuses(rule, "size-built-afterwards", Apply(SIZE, ((1,),), Change("BUILD", {})))
    yield refuses(rule, "set-built-afterwards", Apply(SET, ([1],), Change("BUILD", {})))


def sizes() -> Iterator[Vector]:
    rule = Rule("6.6", "`torch.Size` (a tuple) -> shape: integers >= 0 and < 2^63")
    yield accepts(rule, "size", Apply(SIZE, ((2, 0, 3),)), {"size": [2, 0, 3]})
    yield accepts(rule, "size-empty", Apply(SIZE, ((),)), {"size": []})
    for name, arguments in {
        "of-numbers": (2, 3),
        "negative": ((-1,),),
        "of-a-bool": ((True,),),
    }.items():
        yield refuses(rule, f"size-{name}", Apply(SIZE, arguments))


def devices() -> Iterator[Vector]:
    rule = Rule("6.6", "`torch.device` (name of ASCII letters and underscores[, index from -1 to 127]) -> device")
    for name, arguments, held in (
        ("cpu", ("cpu",), ["cpu", None]),
        ("cuda-1", ("cuda", 1), ["cuda", 1]),
        ("minus-1", ("cuda", -1), ["cuda", -1]),
        ("127", ("cuda", 127), ["cuda", 127]),
    ):
        yield accepts(rule, f"device-{name}", Apply(DEVICE, arguments), {"device": held})
    for name, arguments in {
        "128": ("cuda", 128),
        "minus-2": ("cuda", -2),
        "of-text": ("cuda", "1"),
        "of-a-bool": ("cuda", True),
    }.items():
        yield refuses(rule, f"device-{name}", Apply(DEVICE, arguments))
    rule = Rule("6.6", "A name without an index argument may end in `:` and one of 0 to 127, without leading zeros.")
    yield accepts(rule, "device-text-cuda-110", Apply(DEVICE, ("cuda:110",)), {"device": ["cuda:110", None]})
    yield accepts(rule, "device-text-cuda-127", Apply(DEVICE, ("cuda:127",)), {"device": ["cuda:127", None]})
    for name, arguments in {
        "text-empty": ("",),
        "text-empty-with-an-index": ("", 0),
        "text-two-indexes": ("cuda:0", 0),
        "text-128": ("cuda:128",),
        "text-leading-zero": ("cuda:01",),
        "text-no-index": ("cuda:",),
        "text-space": ("cpu ",),
        "text-newline": ("cpu\n",),
        "text-digit": ("cpu1",),
        "text-letter-of-another-script": ("cp\u00fc",),
    }.items():
        yield refuses(rule, f"device-{name}", Apply(DEVICE, arguments))


def names() -> Iterator[Vector]:
    rule = Rule(
        "6.6",
        "`torch.serialization._get_layout` (name, with or without `torch.`); global `torch.strided`, `torch.sparse_coo`",
    )
    called = Apply(GET_LAYOUT, ("torch.sparse_csr",))
    yield accepts(rule, "layout-called", called, {"layout": "sparse_csr"})
    yield accepts(rule, "layout-strided", Apply(GET_LAYOUT, ("torch.strided",)), {"layout": "strided"})
    yield accepts(rule, "layout-by-name", Name("torch", "strided"), {"layout": "strided"})
    yield accepts(rule, "layout-sparse-by-name", Name("torch", "sparse_coo"), {"layout": "sparse_coo"})
    yield refuses(rule, "layout-of-nothing", Apply(GET_LAYOUT, ()))
    yield refuses(rule, "layout-of-a-number", Apply(GET_LAYOUT, (3,)))
    yield refuses(rule, "layout-changed", Apply(GET_LAYOUT, ("torch.strided",), Change("BUILD", {})))

    rule = Rule("6.6", "global `torch.<dtype>` of 6.4 -> dtype")
    for dtype in ("float32", "bool", "float8_e4m3fn", "complex32", "quint8"):
        features = ("quantized",) if dtype == "quint8" else ()
        tree = Name("torch", dtype)
        yield accepts(rule, f"dtype-{dtype.replace('_', '-')}", tree, {"dtype": dtype}, features=features)
    yield refuses(rule, "dtype-unknown", Name("torch", "float31"), "unsupported")
    yield refuses(rule, "dtype-of-another-module", Name("numpy", "float32"), "unsupported")

    rule = Rule(
        "6.6",
        "global `torch.contiguous_format`, `preserve_format`, `channels_last`, `channels_last_3d` -> memory format",
    )
    formats = ["contiguous_format", "preserve_format", "channels_last", "channels_last_3d"]
    tree = [Name("torch", name) for name in formats]
    yield accepts(rule, "memory-formats", tree, {"list": [{"memory_format": name} for name in formats]})


def octets() -> Iterator[Vector]:
    rule = Rule(
        "6.6",
        "`_codecs.encode` (text, `latin1` or `latin-1`); `builtins.bytes` () -> bytes, as protocol 2 encodes them",
    )
    every = "".join(map(chr, range(256)))
    encoded = Apply(ENCODE, (every, "latin1"))
    yield accepts(rule, "bytes-encoded", encoded, expected.raw_bytes(bytes(range(256))))
    yield accepts(rule, "bytes-of-nothing", Apply(BYTES, ()), expected.raw_bytes(b""))
    for name, arguments in {
        "as-utf-8": ("x", "utf-8"),
        "beyond-latin-1": ("\u0100", "latin1"),
        "of-bytes": (b"x", "latin1"),
    }.items():
        yield refuses(rule, f"bytes-encoded-{name}", Apply(ENCODE, arguments))
    rule = Rule("6.6", "both also as keys")
    pairs = Pairs((Apply(ENCODE, ("a\xff", "latin1")), 1), (Apply(BYTES, ()), 2))
    held = {"dict": [[expected.raw_bytes(b"a\xff"), 1], [expected.raw_bytes(b""), 2]]}
    yield accepts(rule, "bytes-encoded-as-keys", pairs, held)

    rule = Rule(
        "6.6",
        "`builtins.bytearray` of nothing, bytes (not a bytearray), or (text, `latin1` or `latin-1`) -> bytearray",
    )
    for name, arguments, held in (
        ("of-nothing", (), ""),
        ("of-bytes", (b"ab",), "YWI="),
        ("of-encoded-bytes", (Apply(ENCODE, ("ab", "latin1")),), "YWI="),
        ("of-text", ("ab", "latin-1"), "YWI="),
    ):
        yield accepts(rule, f"bytearray-{name}", Apply(BYTEARRAY, arguments), {"bytearray": held})
    for name, arguments in {
        "of-a-number": (4,),
        "as-utf-8": ("é", "utf-8"),
        "beyond-latin-1": ("\u0100", "latin-1"),
    }.items():
        yield refuses(rule, f"bytearray-{name}", Apply(BYTEARRAY, arguments))


def complex_numbers() -> Iterator[Vector]:
    rule = Rule("6.6", "`builtins.complex` (float, float) -> complex")
    held = {"complex": ["3ff0000000000000", "8000000000000000"]}
    yield accepts(rule, "complex", Apply(COMPLEX, (1.0, -0.0)), held)
    for name, arguments in {
        "whole": (1, 2),
        "one-part": (1.0,),
        "text": ("1j",),
        "three-parts": (1.0, 2.0, 3.0),
    }.items():
        yield refuses(rule, f"complex-{name}", Apply(COMPLEX, arguments))


def unknown() -> Iterator[Vector]:
    rule = Rule("6.6", CALLS)
    for name, tree in {
        "call": Apply(EXIT, (3,)),
        "name": EXIT,
        "getattr": Apply(Name("__builtin__", "getattr"), (EXIT, "x")),
        "newobj": Apply(SET, ([1],), how="NEWOBJ"),
        "extension": Raw(b"\x82\1"),
        "constructor-uncalled": Name("torch._utils", "_rebuild_tensor_v2"),
        "call-of-a-call": Apply(Apply(Name("functools", "partial"), (EXIT,)), ()),
        "computed-name": Raw(b"cos\nname\nX\x01\0\0\0a\x93"),
    }.items():
        yield refuses(rule, f"unknown-{name}", tree, "unsupported")
    yield refuses(rule, "unknown-deep", {"a": [({"b": Apply(EXIT, (3,))},)]}, "unsupported")
    rule = Rule("5.4", "A `.pth` that torch wrote needs only `__builtin__` -> `builtins`.")
    data = pth(Apply(SET, ([1],)), protocol=3)
    yield rule.refuses("value-python-2-name-in-protocol-3", data, "unsupported")
    data = pth(Apply(Name("builtins", "set"), ([1],)), protocol=3)
    yield rule.accepts("value-python-3-name-in-protocol-3", data, expected.lone({"set": [1]}))
