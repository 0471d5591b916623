"""Pickles as whole opcodes and whole values; lengths and frames are made right when they are put together."""

from __future__ import annotations

import itertools
import pickletools
import struct
from typing import Final, NamedTuple

OPCODES: Final = {opcode.code.encode("latin-1"): opcode for opcode in pickletools.opcodes}
FRAME: Final = b"\x95"
STOP: Final = b"."
MEMOIZE: Final = b"\x94"
LENGTHS: Final = {-2: "<B", -3: "<i", -4: "<I", -5: "<Q"}
"""Layouts of lengths, by what ``pickletools`` says of them."""
INTS: Final = {"uint1": "<B", "uint2": "<H", "int4": "<i", "uint4": "<I", "uint8": "<Q"}
MOST_TOKENS: Final = 20_000
_MOST_PICKLES: Final = 6
"""A legacy stream has five."""


class Span(NamedTuple):
    """The tokens that make one value."""

    start: int
    stop: int


Tokens = list[bytes]
"""Each an opcode with its argument; what cannot be told apart is the last one."""


# -- reading and writing ------------------------------------------------------------------------------


def split(data: bytes) -> tuple[Tokens, bytes]:
    """Return the opcodes up to STOP, and what follows them."""
    found: Tokens = []
    at = 0
    while at < len(data) and len(found) < MOST_TOKENS:
        stop = _end_of(data, at)
        if stop is None:
            break
        found.append(data[at:stop])
        at = stop
        if found[-1] == STOP:
            break
    return found, data[at:]


def split_stream(data: bytes) -> tuple[list[bytes], bytes]:
    """Return the pickles that follow each other, and what follows them."""
    found: list[bytes] = []
    while len(found) < _MOST_PICKLES and is_pickle(data):
        rest = split(data)[1]
        found.append(data[: len(data) - len(rest)])
        data = rest
    return found, data


def _end_of(data: bytes, at: int) -> int | None:
    """Where an opcode with its argument ends; None when it is none, or cut short."""
    opcode = OPCODES.get(data[at : at + 1])
    if opcode is None:
        return None
    size = opcode.arg.n if opcode.arg else 0
    at += 1
    if size == pickletools.UP_TO_NEWLINE:
        for _ in range(2 if opcode.arg.name == "stringnl_noescape_pair" else 1):
            at = data.find(b"\n", at) + 1
            if not at:
                return None
        return at
    if size < 0:
        layout = LENGTHS[size]
        head = struct.calcsize(layout)
        if at + head > len(data):
            return None
        size = head + int(struct.unpack_from(layout, data, at)[0])
    return at + size if 0 <= size <= len(data) - at else None


def join(tokens: Tokens) -> bytes:
    """Put opcodes together; each frame holds all up to the next one."""
    made = b""
    for token in reversed(tokens):
        if token[:1] == FRAME and len(token) == 9:
            size = _framed(made)
            token = FRAME + struct.pack("<Q", size)  # noqa: PLW2901 -- the same opcode, made right
        made = token + made
    return made


def _framed(made: bytes) -> int:
    tokens, rest = split(made)
    size = 0
    for token in tokens:
        if token[:1] == FRAME:
            return size
        size += len(token)
    return size + len(rest) * (not tokens or tokens[-1] != STOP)


def is_pickle(data: bytes) -> bool:
    """Are the bytes opcodes from the first to a STOP?"""
    tokens, _ = split(data)
    return bool(tokens) and tokens[-1] == STOP


def spans(tokens: Tokens) -> list[Span]:
    """The values that the opcodes make, parts before wholes, as far as the stack can be followed."""
    found: list[Span] = []
    stack: list[tuple[int, bool]] = []
    for index, token in enumerate(tokens):
        opcode = OPCODES.get(token[:1])
        if opcode is None or token == STOP:
            break
        start = index
        before = list(opcode.stack_before)
        if pickletools.markobject in before:
            while stack and not stack[-1][1]:
                stack.pop()
            if not stack:
                break
            start = stack.pop()[0]
            del before[before.index(pickletools.markobject) :]
        if len(before) > len(stack):
            break
        for _ in before:
            start = stack.pop()[0]
        stack += [(start, opcode.name == "MARK")] * len(opcode.stack_after)
        if opcode.stack_after and opcode.name != "MARK":
            found.append(Span(start, index + 1))
    return found


def anchored(tokens: Tokens) -> Tokens:
    """The same with each MEMOIZE spelled as a numbered put: what is moved then keeps what it refers to."""
    count = itertools.count()
    return [b"r" + struct.pack("<I", next(count)) if token == MEMOIZE else token for token in tokens]
