"""Details of pickles that no other family shows: found with mutants of a decoder (FORMAT.md 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.generators import expected
from conformance.generators.legacy import bare
from conformance.generators.trees import PickleRule, tree, tuple_
from conformance.generators.vectors import Rule, Vector

if TYPE_CHECKING:
    from collections.abc import Iterator


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from lines()
    yield from memos()
    yield from changes()
    yield from sizes()


def lines() -> Iterator[Vector]:
    rule = PickleRule("5.1", "int, an `L` at the end is allowed")
    yield rule.fails("pickle-long-l-within", b"L1L2\n.")
    rule = PickleRule("5.1", "the first and the last byte are the same quote and not part of the text;")
    yield rule.fails("pickle-string-in-other-quotes", b"Sxabcx\n.")
    rule = PickleRule("5.1", "text, raw-unicode-escape")
    yield rule.fails("pickle-unicode-long-escape-cut", b"V\\U0001f60\n.")
    yield rule.fails("pickle-unicode-beyond-the-last", b"V\\U00110000\n.")
    yield rule.gives("pickle-unicode-last", b"V\\U0010ffff\n.", tree("\U0010ffff"))


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
