"""Details of pickles that no other family shows: found with mutants of a decoder (FORMAT.md 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.generators import expected
from conformance.generators.legacy import bare
from conformance.generators.trees import PickleRule, counted, tree, tuple_
from conformance.generators.vectors import Rule, Vector

if TYPE_CHECKING:
    from collections.abc import Iterator


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from lines()
    yield from utf8()
    yield from lengths()
    yield from memos()
    yield from changes()
    yield from sizes()


def lines() -> Iterator[Vector]:
    rule = PickleRule("5.1", "an `L` at the end is allowed")
    yield rule.fails("pickle-long-l-within", b"L1L2\n.")
    rule = PickleRule("5.1", "the first and the last byte are the same quote and not part of the text;")
    yield rule.fails("pickle-string-in-other-quotes", b"Sxabcx\n.")
    rule = PickleRule("5.1", "| 56 | UNICODE | line | 0 | -- text | raw-unicode-escape |")
    yield rule.fails("pickle-unicode-long-escape-cut", b"V\\U0001f60\n.")
    yield rule.fails("pickle-unicode-beyond-the-last", b"V\\U00110000\n.")
    yield rule.gives("pickle-unicode-last", b"V\\U0010ffff\n.", tree("\U0010ffff"))


def utf8() -> Iterator[Vector]:
    rule = PickleRule("5.1", "UTF-8 in which surrogates are allowed")
    text = "\ud800 \x7f\x80\x81\xbf\xff\u07ff\u0800\u0fff\u1000\uffff\U00010000\U0003ffff\U00040000\U0010ffff\udfff"
    raw = text.encode("utf-8", "surrogatepass")
    yield rule.gives("pickle-utf8-every-length-and-a-surrogate", b"\x8c" + counted(1, raw) + b".", tree(text))
    for fault, broken in {
        "cut": b"\xc3", "cut-before-ascii": b"\xe2\x82A", "two-leads": b"\xc3\xc3", "continuation-first": b"\x9f\x80",
        "continuation-alone": b"\x80",
        "lead-c0": b"\xc0\x80", "lead-c1": b"\xc1\xbf", "lead-f5": b"\xf5\x80\x80\x80", "lead-f8": b"\xf8\x90\x80\x80",
        "three-for-two": b"\xe0\x9f\xbf", "four-for-three": b"\xf0\x8f\xbf\xbf", "beyond-the-last": b"\xf4\x90\x80\x80",
        "last-byte-missing": b"\xf0\x90\x80",
    }.items():  # fmt: skip
        raw = b"\xed\xa0\x80" + broken
        yield rule.fails(f"pickle-utf8-surrogate-and-{fault}", b"\x8c" + counted(1, raw) + b".")
    rule = PickleRule("5.1", "ASCII, as in `pickle.loads`; UTF-8 in a `.pth`, as `torch.load` requests")
    yield rule.gives("pickle-short-binstring-7f", b"U\x01\x7f.", tree("\x7f"))
    yield rule.fails("pickle-short-binstring-80", b"U\x01\x80.")


def lengths() -> Iterator[Vector]:
    rule = PickleRule("5.1", "a negative LONG4 or BINSTRING length is an error, and so is an extension code <= 0")
    yield rule.gives("pickle-binstring-of-0", b"T\0\0\0\0.", tree(""))
    yield rule.gives("pickle-long4-of-0", b"\x8b\0\0\0\0.", tree(0))
    yield rule.fails("pickle-binstring-back-to-the-start", b"N0N0T" + (-9).to_bytes(4, "little", signed=True) + b".")


def memos() -> Iterator[Vector]:
    rule = PickleRule("5.1", "the index is the number of entries in the memo")
    yield rule.gives("pickle-memo-index-1-first", b"Nq\x01K\x05q\x00h\x01\x87.", tree(tuple_(None, 5, None)))
    body = b"(Nq\x01K\x05q\x00q\x01h\x00h\x01t."
    yield rule.gives("pickle-memo-index-1-again", body, tree(tuple_(None, 5, 5, 5)), "pickle_memo=2")
    body = b"Nq\x01K\x05q\x00q\x01\x94h\x02\x87."
    yield rule.gives("pickle-memoize-behind-other-indexes", body, tree(tuple_(None, 5, 5)))


def changes() -> Iterator[Vector]:
    rule = PickleRule("5.1", "APPEND(S) to a list, SETITEM(S) to a dict, ADDITEMS to a set;")
    yield rule.fails("pickle-appends-to-a-set", b"\x8f(K\x01e.")


def sizes() -> Iterator[Vector]:
    rule = Rule("8", "| `pickle_bytes` | 64 MiB | 11 KB in a `.pth` | one pickle |", "legacy")
    nothing = expected.lone(expected.plain({}))
    yield rule.accepts("limit-pickle_bytes-legacy", bare(), nothing, "--limit", "pickle_bytes=200")
    yield rule.refuses("limit-pickle_bytes-legacy-exceeded", bare(), "limit exceeded", "--limit", "pickle_bytes=14")
