"""Changes of the opcodes of a pickle that need nothing but the pickle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from conformance.file_mutants.opcodes import OPCODES, STOP, Span, Tokens, spans, split

if TYPE_CHECKING:
    from conformance.file_mutants.chance import Chance

_BARE: Final = [code for code, opcode in OPCODES.items() if opcode.arg is None and code != STOP]
_MEMO_INDICES: Final = (200, 256)
WRAPPERS: Final = (
    (b"", b"\x85"), (b"]", b"a"), (b"(", b"t"), (b"(", b"l"), (b"}K\x00", b"s"), (b"}", b"Ns"), (b"", b"Q"),
    (b"\x8f(", b"\x90"), (b"(", b"\x91"), (b"", b")R"), (b"", b"2\x86"), (b"", b"0"), (b"N", b"\x86"),
)  # fmt: skip
"""Opcodes before and after a value: containers, calls, persistent ids, a copy, a value that is dropped."""


def wrap(tokens: Tokens, span: Span, head: bytes, tail: bytes, times: int) -> None:
    """Put opcodes before and after a value, several times."""
    tokens[span.stop : span.stop] = split(tail)[0] * times
    tokens[span.start : span.start] = split(head)[0] * times


def drop_value(chance: Chance, tokens: Tokens) -> None:
    """Remove a value."""
    found = spans(tokens)
    if found:
        start, stop = chance.choice(found)
        del tokens[start:stop]


def share_value(chance: Chance, tokens: Tokens) -> None:
    """Put a value into the memo and get it in the place of another: a later one, or a part of itself."""
    found = spans(tokens)
    if not found:
        return
    index = bytes([chance.randrange(*_MEMO_INDICES)])
    one, other = sorted((chance.choice(found), chance.choice(found)), key=lambda span: span.stop)
    is_part = other.start < one.stop
    replaced, at = (one, other.start + 1) if is_part else (other, one.stop)
    tokens[replaced.start : replaced.stop] = [b"h" + index]
    tokens[at:at] = [b"q" + index]


def change_opcode(chance: Chance, tokens: Tokens) -> None:
    """Put an opcode without an argument in the place of another."""
    if tokens:
        tokens[chance.randrange(len(tokens))] = chance.choice(_BARE)


def drop_opcodes(chance: Chance, tokens: Tokens) -> None:
    """Remove one or several opcodes."""
    start, stop = chance.part(tokens)
    del tokens[start : start + 1 if chance.one_in(2) else stop]


def repeat_opcodes(chance: Chance, tokens: Tokens) -> None:
    """Repeat some opcodes."""
    start, stop = chance.part(tokens)
    tokens[start:stop] = tokens[start:stop] * chance.randrange(2, 40)


def change_protocol(chance: Chance, tokens: Tokens) -> None:
    """Put another PROTO at the beginning, or one anywhere."""
    at = 0 if tokens and tokens[0][:1] == b"\x80" else chance.place(len(tokens))
    tokens[at : at + 1 - bool(at)] = [b"\x80" + bytes([chance.randrange(7)])]
