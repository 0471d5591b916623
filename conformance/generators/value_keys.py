"""Keys, depth, and limits of a ``.pth`` (FORMAT.md 6.6, 8)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from conformance.generators import expected
from conformance.generators.build_pth import EXIT, ORDERED_DICT, Apply, Change, Pairs, Raw, floats, ordered
from conformance.generators.build_torch_zips import DATA, pth
from conformance.generators.small_values import ENCODE, SET, accepts, refuses
from conformance.generators.vectors import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.generators.vectors import Vector


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from nesting()
    yield from keys()
    yield from other_keys()
    yield from repeated_keys()
    yield from counts()


# -- depth --------------------------------------------------------------------------------------------

OPENED: Final = {"list": (b"]", b"a"), "tuple": (b"(", b"t"), "dict": (b"}K\x00", b"s")}
"""Opcodes that open and close a container."""


def nested(kind: str, depth: int) -> Raw:
    """Containers within containers, and None."""
    opening, closing = OPENED[kind]
    return Raw(opening * depth + b"N" + closing * depth)


def tagged_nested(kind: str, depth: int) -> Any:
    """The expected output for it."""
    held = None
    for _ in range(depth):
        held = {kind: [[0, held]] if kind == "dict" else [held]}
    return held


def nesting() -> Iterator[Vector]:
    rule = Rule("6.6", "Depth is the number of open containers along the path (8.1).")
    for kind in OPENED:
        yield refuses(rule, f"depth-201-{kind}", nested(kind, 201), "limit exceeded")
        five = pth(nested(kind, 5))
        held = expected.lone(tagged_nested(kind, 5))
        yield rule.accepts(f"value-depth-kept-{kind}", five, held, "--limit", "value_depth=5")
        yield rule.refuses(f"value-depth-passed-{kind}", five, "limit exceeded", "--limit", "value_depth=4")
    siblings = pth([nested("list", 3), nested("list", 3), nested("tuple", 3)])
    held = expected.lone({"list": [tagged_nested("list", 3), tagged_nested("list", 3), tagged_nested("tuple", 3)]})
    yield rule.accepts("value-depth-of-siblings", siblings, held, "--limit", "value_depth=4")
    yield from nesting_of_shared()
    deep_ordered = pth(ordered({"a": ordered({"b": ordered()})}))
    held = expected.ordered_dict({"a": expected.ordered_dict({"b": expected.ordered_dict({})})})
    yield rule.accepts("value-depth-ordered-kept", deep_ordered, expected.lone(held), "--limit", "value_depth=3")
    yield rule.refuses("value-depth-ordered-passed", deep_ordered, "limit exceeded", "--limit", "value_depth=2")

    rule = Rule("6.6", "A container that contains itself is an error.")
    by_items = ordered()
    by_items.changes.append(Change("SETITEMS", ["a", [by_items]]))
    by_metadata = ordered()
    by_metadata.changes.append(Change("BUILD", {"_metadata": by_metadata}))
    for name, tree in {
        "list": Raw(b"]q\x00h\x00a"),
        "dict": Raw(b"}q\x00K\x00(h\x00K\x01ts"),
        "tuple": Raw(b"]q\x00h\x00\x85a"),
        "ordered-dict": by_items,
        "metadata": by_metadata,
    }.items():
        yield refuses(rule, f"within-itself-{name}", tree)


# -- keys ---------------------------------------------------------------------------------------------


def keys() -> Iterator[Vector]:
    rule = Rule("6.6", "at most `other_keys` others: ints")
    for name, key in {
        "text": "w",
        "empty-text": "",
        "whole-number": -5,
        "none": None,
        "bool": True,
        "float": 1.5,
        "bytes": b"raw",
        "empty-tuple": (),
        "tuple-of-8": tuple(range(8)),
    }.items():
        yield accepts(rule, f"key-{name}", Pairs((key, 1)), {"dict": [[expected.plain(key), 1]]})
    changed = Apply(ENCODE, ("a", "latin1"), Change("BUILD", {}))
    rule = Rule("6.6", "A call of `_codecs.encode` that is changed")
    for name, key in {"changed": changed, "changed-in-a-tuple": (changed,)}.items():
        yield refuses(rule, f"key-encoded-{name}", Pairs((key, 1)), "unsupported")
    rule = Rule("6.6", "or whose arguments are other than those above, is such a node.")
    for name, arguments in {
        "nothing": (), "text": ("a",), "utf-8": ("a", "utf-8"), "bytes": (b"a", "latin1"), "three": ("a", "latin1", "x"),
    }.items():  # fmt: skip
        key = Apply(ENCODE, arguments)
        yield refuses(rule, f"key-encoded-of-{name}", Pairs((key, 1)), "unsupported")
        yield refuses(rule, f"key-encoded-of-{name}-in-a-tuple", Pairs(((key,), 1)), "unsupported")
    rule = Rule("6.6", "A key that is a node, or a tuple that contains one, is unsupported; any other is an error.")
    for name, key in {"name": EXIT, "call": Apply(EXIT, ()), "tensor": floats((8,))}.items():
        made = pth(Pairs((key, 1)), DATA)
        yield rule.refuses(f"value-key-{name}", made, "unsupported")
    yield refuses(rule, "member-name", Apply(SET, ([EXIT],)), "unsupported")
    for name, key in {
        "list": [],
        "dict": {},
        "tuple-of-9": tuple(range(9)),
        "tuple-of-a-tuple": ((1,),),
    }.items():
        yield refuses(rule, f"key-{name}", Pairs((key, 1)))
    yield refuses(rule, "member-list", Apply(SET, ([[1]],)))
    yield refuses(
        rule, "key-list-of-an-ordered-dict", ordered(None) and Apply(ORDERED_DICT, (), Change("SETITEMS", [[], 1]))
    )

    long = ("k" * 1025,)
    rule = Rule("6.6", "tuples of at most 8 of these values and texts (of any length)")
    yield accepts(rule, "key-tuple-of-a-long-text", Pairs((long, 1)), {"dict": [[expected.plain(long), 1]]})

    rule = Rule("6.6", "text, at most `tensor_name_bytes` of UTF-8")
    key = "é" * 4
    made = pth({key: 1})
    yield rule.accepts(
        "value-key-bytes-kept", made, expected.lone(expected.plain({key: 1})), "--limit", "tensor_name_bytes=8"
    )
    yield rule.refuses("value-key-bytes-passed", made, "limit exceeded", "--limit", "tensor_name_bytes=7")
    long = {"é" * 512: 1}
    yield accepts(rule, "key-of-1024-bytes", long, expected.plain(long))
    yield refuses(rule, "key-of-1025-bytes", {"é" * 512 + "a": 1}, "limit exceeded")


def other_keys() -> Iterator[Vector]:
    rule = Rule("6.6", "integers from 0 to n - 1 in a dict of n keys, as optimizers have them")
    none = ("--limit", "other_keys=0")
    for name, given in {"in-another-order": (2, 0, 1), "with-text": (0, 1, "a")}.items():
        value = dict.fromkeys(given)
        yield rule.accepts(f"value-keys-dense-{name}", pth(value), expected.lone(expected.plain(value)), *none)
    members = Apply(SET, ([0, 1, 2],))
    yield rule.accepts("value-keys-dense-in-a-set", pth(members), expected.lone({"set": [0, 1, 2]}), *none)
    for name, given in {"from-1": (1, 2, 3), "gap": (0, 1, 3)}.items():
        made = pth(dict.fromkeys(given))
        yield rule.refuses(f"value-keys-dense-{name}", made, "limit exceeded", *none)
    rule = Rule("6.6", "at most `other_keys` others: ints")
    for name, given in {
        "addresses": (1000, 2000),
        "tuples": ((0,), (1,)),
        "mixed": (None, b"a", "text", 0),
    }.items():
        value = dict.fromkeys(given)
        limits = ("--limit", "other_keys=2")
        yield rule.accepts(f"value-other-keys-{name}-kept", pth(value), expected.lone(expected.plain(value)), *limits)
        limits = ("--limit", "other_keys=1")
        yield rule.refuses(f"value-other-keys-{name}-passed", pth(value), "limit exceeded", *limits)
    limits = ("--limit", "other_keys=1")
    yield rule.refuses("value-other-keys-in-a-set", pth(Apply(SET, ([5, 6],))), "limit exceeded", *limits)
    yield rule.refuses("value-other-keys-ordered", pth(ordered({5: 1, 6: 2})), "limit exceeded", *limits)
    apart = {"a": {5: 1}, "b": {6: 1}}
    yield rule.accepts("value-other-keys-a-dict", pth(apart), expected.lone(expected.plain(apart)), *limits)


def repeated_keys() -> Iterator[Vector]:
    rule = Rule("6.6", "no key twice, where 1, 1.0 and True are the same key")
    for name, first, second in (
        ("text", "a", "a"),
        ("1-and-true", 1, True),
        ("1-and-1-0", 1, 1.0),
        ("0-0-and-minus-0-0", 0.0, -0.0),
        ("large-numbers", 2**53, float(2**53)),
        ("bytes", b"a", b"a"),
        ("tuples", (1, "a"), (True, "a")),
        ("bytes-spelled-apart", b"a", Apply(ENCODE, ("a", "latin1"))),
    ):
        yield refuses(rule, f"keys-twice-{name}", Pairs((first, 1), (second, 2)))
    yield refuses(rule, "members-twice", Apply(SET, ([1, 1.0],)))
    twice = Apply(ORDERED_DICT, (), Change("SETITEMS", ["a", 1]), Change("SETITEMS", ["a", 2]))
    yield refuses(rule, "keys-twice-ordered", twice)
    both = Apply(ORDERED_DICT, ([["a", 1]],), Change("SETITEMS", ["a", 2]))
    yield refuses(rule, "keys-twice-ordered-pairs", both)
    for name, first, second in (
        ("text-and-bytes", "a", b"a"),
        ("composed", "é", "e\u0301"),
        ("large-numbers", 2**53 + 1, float(2**53)),
    ):
        value = {first: 1, second: 2}
        yield accepts(rule, f"keys-apart-{name}", value, expected.plain(value))


# -- limits -------------------------------------------------------------------------------------------


def nesting_of_shared() -> Iterator[Vector]:
    """A container that occurs again at a greater depth."""
    rule = Rule("6.6", "Depth is the number of open containers along the path")
    for kind in OPENED:
        made = pth(Raw(b"(" + nested(kind, 3).opcodes + b"q\x01]]h\x01aal"))
        tagged = tagged_nested(kind, 3)
        held = expected.lone({"list": [tagged, {"list": [{"list": [tagged]}]}]})
        yield rule.accepts(f"value-depth-shared-kept-{kind}", made, held, "--limit", "value_depth=6")
        yield rule.refuses(f"value-depth-shared-passed-{kind}", made, "limit exceeded", "--limit", "value_depth=5")


def path_lengths() -> Iterator[Vector]:
    """Paths (6.7) of more than 255 characters."""
    rule = Rule("8.1", "and one more for each 256 characters of its path (6.7), rounded down.")
    for name, key, leaves in (
        ("255", "k" * 255, 2), ("256", "k" * 256, 3), ("511", "k" * 511, 3), ("512", "k" * 512, 4),
        ("characters", "\u20ac" * 255, 2), ("escaped", "~" * 128, 3), ("escaped-short", "~" * 127 + "k", 2),
        ("beyond-the-bmp", "\U0001f600" * 255, 2),
    ):  # fmt: skip
        made = pth({key: None})
        held = expected.lone(expected.plain({key: None}))
        yield rule.accepts(f"value-path-of-{name}-kept", made, held, "--limit", f"leaves={leaves}")
        yield rule.refuses(f"value-path-of-{name}-passed", made, "limit exceeded", "--limit", f"leaves={leaves - 1}")
    made = pth({"k" * 200: {"j" * 54: [None]}})
    held = expected.lone(expected.plain({"k" * 200: {"j" * 54: [None]}}))
    yield rule.accepts("value-path-joined-kept", made, held, "--limit", "leaves=5")
    yield rule.refuses("value-path-joined-passed", made, "limit exceeded", "--limit", "leaves=4")


def counts() -> Iterator[Vector]:
    yield from path_lengths()
    rule = Rule("8", "| `tensors` | 65,536 | 66 | tensors of one `.pth`, and parts of tensors (8.1) |")
    made = pth([floats((8,)), floats((8,)), floats((8,))], DATA)
    held = expected.lone({"list": [expected.floats(*range(8))] * 3})
    yield rule.accepts("value-tensors-limit-kept", made, held, "--limit", "tensors=3")
    yield rule.refuses("value-tensors-limit-passed", made, "limit exceeded", "--limit", "tensors=2")
    rule = Rule(
        "8",
        "values of one `.pth` by path, when they are listed (8.1)",
    )
    part = ["a", "b"]
    made = pth([part, part, "c"])
    held = expected.lone({"list": [expected.plain(part), expected.plain(part), "c"]})
    yield rule.accepts("value-leaves-limit-kept", made, held, "--limit", "leaves=8")
    yield rule.refuses("value-leaves-limit-passed", made, "limit exceeded", "--limit", "leaves=4")
    rule = Rule("8.1", "max(0, copied - bytes of the pickle)")
    shared = Raw(
        b"c__builtin__\nbytearray\nq\x000B"
        + struct.pack("<I", 400)
        + bytes(400)
        + b"\x85q\x010]("
        + b"h\x00h\x01R" * 3
        + b"e"
    )
    made = pth([shared], protocol=2)
    same = {"bytearray": expected.raw_bytes(bytes(400))["bytes"]}
    held = expected.lone({"list": [{"list": [same] * 3}]})
    yield rule.accepts("value-copies-limit-kept", made, held, "--limit", "expanded_items=1200")
    yield rule.refuses("value-copies-limit-passed", made, "limit exceeded", "--limit", "expanded_items=100")
