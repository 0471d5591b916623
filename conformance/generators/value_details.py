"""Details of the values of a ``.pth`` that no other family shows: found with mutants of a decoder (FORMAT.md 6.6, 8.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from conformance.generators import expected
from conformance.generators.build_pth import (
    DEVICE,
    ORDERED_DICT,
    Apply,
    Change,
    Pairs,
    Raw,
    dumps,
    legacy_stream,
    ordered,
)
from conformance.generators.build_torch_zips import pth
from conformance.generators.other_tensors import CHANNELS, QUANTIZED, as_quantized, quantized
from conformance.generators.small_values import BYTEARRAY, COMPLEX, FROZENSET, SET, accepts, refuses
from conformance.generators.value_keys import nested
from conformance.generators.value_limits import RAW, Counted
from conformance.generators.vectors import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.generators.vectors import Vector

PASSED: Final = "limit exceeded"


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from arguments()
    yield from ordered_dicts()
    yield from keys()
    yield from depths()
    yield from copies()


def arguments() -> Iterator[Vector]:
    rule = Rule("6.6", "A call of these names with arguments other than these is an error.")
    for name, tree in {
        "ordered-dict-of-two": Apply(ORDERED_DICT, ([], [])),
        "set-of-two": Apply(SET, ([], [])),
        "frozenset-of-two": Apply(FROZENSET, ((), ())),
        "bytearray-of-three": Apply(BYTEARRAY, (b"a", "latin-1", "strict")),
        "device-of-three": Apply(DEVICE, ("cuda", 1, 1)),
        "device-of-a-number": Apply(DEVICE, (1,)),
        "complex-of-a-float-and-an-int": Apply(COMPLEX, (1.0, 2)),
    }.items():
        yield refuses(rule, f"arguments-{name}", tree)


def ordered_dicts() -> Iterator[Vector]:
    rule = Rule("6.6", "called with `()` or, by Python 2, with a list of pairs; then SETITEMS")
    for name, pairs in {
        "a-number": [("a", 1), 5],
        "a-text": [("a", 1), "bc"],
        "a-set": [{1, 2}],
        "one-item": [("a", 1), ("b",)],
        "three-items": [("a", 1, 2)],
    }.items():
        yield refuses(rule, f"ordered-dict-of-pairs-with-{name}", Apply(ORDERED_DICT, (pairs,)))
    rule = Rule("6.6", "... then at most one BUILD with a dict of the one key `_metadata`")
    for name, state in {"a-list": [], "none": None, "a-tuple": (None, {"_metadata": 1})}.items():
        yield refuses(rule, f"metadata-of-{name}", Apply(ORDERED_DICT, (), Change("BUILD", state)))


def keys() -> Iterator[Vector]:
    rule = Rule("6.6", "no key twice, where 1, 1.0 and True are the same key")
    yield refuses(rule, "keys-twice-0-and-false", Pairs((0, 1), (False, 2)))
    for name, given in {
        "bools-and-2": (True, False, 2),
        "floats": (0.5, 1.5),
        "none-and-texts": (None, "None", ""),
        "tuples-of-texts": (("a", "b"), ("ab",), ("a,b",), ("a", "b", "")),
    }.items():
        value = dict.fromkeys(given)
        yield accepts(rule, f"keys-apart-{name}", value, expected.plain(value))
    rule = Rule("6.6", "integers from 0 to n - 1 in a dict of n keys, as optimizers have them")
    limits = ("--limit", "other_keys=0")
    yield rule.refuses("value-keys-dense-but-minus-1", pth(dict.fromkeys((0, -1))), PASSED, *limits)


def depths() -> Iterator[Vector]:
    rule = Rule("8", "| `value_depth` | 200 | 26 | open containers along a path (8.1) |")
    yield refuses(rule, "depth-20000-list", nested("list", 20_000), PASSED)
    opening, closing = b"ccollections\nOrderedDict\n)R}X\x09\0\0\0_metadata", b"sb"
    yield refuses(rule, "depth-5000-metadata", Raw(opening * 5000 + b"N" + closing * 5000), PASSED)
    count = Counted("value_depth", "A container with several places counts with all its levels in each of them.")
    shared, held = ordered({}, ordered()), expected.ordered_dict({}, expected.ordered_dict({}))
    yield from count.needs("shared-metadata", 5, [shared, [[shared]]], {"list": [held, {"list": [{"list": [held]}]}]})
    rule = Rule("8.1", "Keys of dicts, members of sets, and the arguments of calls have no depth.", "quantized")
    lists = pth(quantized((CHANNELS, [0.5, 0.25], [1, 2], 0)), QUANTIZED)
    held = as_quantized("per_channel_affine", expected.plain([0.5, 0.25]), expected.plain([1, 2]), 0)
    yield rule.accepts("value-depth-of-lists-of-channels", lists, expected.lone(held), "--limit", "value_depth=0")


def copies() -> Iterator[Vector]:
    rule = Rule("8.1", "for each call of 6.6 that is a value, once:")
    limits = ("--limit", "expanded_items=0")
    shared = Apply(BYTEARRAY, (RAW,))
    held = {"list": [{"bytearray": expected.raw_bytes(RAW)["bytes"]}] * 3}
    yield rule.accepts("copied-shared-bytearray", pth([shared] * 3), expected.lone(held), *limits)
    rule = Rule("8.1", "copied += 8 x items of the argument, if there is one")
    sets = Raw(b"]c__builtin__\nset\nq\x000(" + b"h\x00)R" * 200 + b"e")
    yield rule.accepts("copied-sets-of-nothing", pth(sets), expected.lone({"list": [{"set": []}] * 200}), *limits)
    count = Counted("expanded_items", "or the fourth one of a legacy stream, STOP included.")
    arrays = [Apply(BYTEARRAY, shared.args) for _ in range(3)]
    excess = 3 * len(RAW) - len(dumps(arrays))
    assert excess > 1
    yield from count.file_needs("copied-bytearrays-of-a-stream", excess, legacy_stream(arrays), held, "legacy")
