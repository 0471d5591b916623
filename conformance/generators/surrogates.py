"""Surrogates in the texts of pickles (FORMAT.md 5.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from conformance.generators.build_pth import dumps
from conformance.generators.build_torch_zips import pth
from conformance.generators.trees import PickleRule, counted, tree
from conformance.generators.vectors import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.generators.vectors import Vector

HIGH: Final = b"\xed\xa0\xbd"
"""U+D83D as UTF-8 in which surrogates are allowed."""
LOW: Final = b"\xed\xb8\x80"
"""U+DE00."""


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from pairs()
    yield from lone()


def pairs() -> Iterator[Vector]:
    sentence = "a text has no high surrogate (U+D800 to U+DBFF) directly before a low one (U+DC00 to U+DFFF)"
    rule = PickleRule("5.1", sentence)
    for name, opcodes in {
        "binunicode": b"X" + counted(4, HIGH + LOW),
        "short-binunicode": b"\x8c" + counted(1, b"a" + HIGH + LOW + b"b"),
        "binunicode8": b"\x8d" + counted(8, HIGH + HIGH + LOW),
        "unicode": b"V\\ud83d\\ude00\n",
        "unicode-of-8-digits": b"V\\U0000d83d\\U0000de00\n",
        "highest-and-lowest": b"X" + counted(4, b"\xed\xaf\xbf\xed\xb0\x80"),
        "lowest-and-highest": b"X" + counted(4, b"\xed\xa0\x80\xed\xbf\xbf"),
        "in-a-key": b"}X" + counted(4, HIGH + LOW) + b"Ns",
        "popped": b"X" + counted(4, HIGH + LOW) + b"0N",
    }.items():
        yield rule.fails(f"pickle-surrogates-{name}", opcodes + b".")
    made = pth(dumps(None)[:2] + b"X" + counted(4, HIGH + LOW) + b".")
    yield Rule("5.1", sentence).refuses("value-text-with-a-pair-of-surrogates", made, "pickle failure")


def lone() -> Iterator[Vector]:
    rule = PickleRule("5.1", "Lone surrogates are preserved")
    for name, opcodes, text in (
        ("low-then-high", b"X" + counted(4, LOW + HIGH), "\ude00\ud83d"),
        ("two-high", b"X" + counted(4, HIGH + HIGH), "\ud83d\ud83d"),
        ("apart", b"\x8c" + counted(1, HIGH + b"a" + LOW), "\ud83da\ude00"),
        ("before-a-character", b"\x8c" + counted(1, HIGH + "\U0001f600".encode()), "\ud83d\U0001f600"),
        ("unicode-low-then-high", b"V\\ude00\\ud83d\n", "\ude00\ud83d"),
        ("unicode-apart", b"V\\ud83da\\ude00\n", "\ud83da\ude00"),
        ("unicode-beyond-16-bits", b"V\\U0001f600\\ud83d\n", "\U0001f600\ud83d"),
        ("unicode-low-at-1", b"Va\\ude00\n", "a\ude00"),
        ("lowest-low-then-low", b"X" + counted(4, b"\xed\xb0\x80" + LOW), "\udc00\ude00"),
        ("high-before-e000", b"X" + counted(4, HIGH + "\ue000".encode()), "\ud83d\ue000"),
        ("character", b"X" + counted(4, "\U0001f600".encode()), "\U0001f600"),
    ):
        yield rule.gives(f"pickle-surrogate-{name}", opcodes + b".", tree(text))
