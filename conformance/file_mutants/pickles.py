"""Mutants of pickles: other arguments of opcodes, values of other pickles, and opcodes in other places."""

from __future__ import annotations

import pickletools
import struct
from typing import TYPE_CHECKING, Final

from conformance.file_mutants.chance import NUMBERS, ODD_TEXTS
from conformance.file_mutants.opcodes import (
    INTS,
    LENGTHS,
    MOST_TOKENS,
    OPCODES,
    STOP,
    Tokens,
    anchored,
    is_pickle,
    join,
    spans,
    split,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from conformance.file_mutants.chance import Chance

__all__ = ["change_pickle", "change_stream", "collect_values"]

_MOST_PICKLES: Final = 6
"""A legacy stream has five."""
_MOST_DONATED: Final = 40
"""Opcodes of a value that is put into another pickle."""
_BARE: Final = [code for code, opcode in OPCODES.items() if opcode.arg is None and code != STOP]
_TEXT_CODES: Final = (b"\x8c", b"X", b"\x8d", b"U", b"T", b"B", b"C", b"\x8e", b"\x96")
_WRAPPERS: Final = (
    (b"", b"\x85"), (b"]", b"a"), (b"(", b"t"), (b"(", b"l"), (b"}K\x00", b"s"), (b"}", b"Ns"), (b"", b"Q"),
    (b"\x8f(", b"\x90"), (b"(", b"\x91"), (b"", b")R"), (b"", b"2\x86"), (b"", b"0"), (b"N", b"\x86"),
)  # fmt: skip
"""Opcodes before and after a value: containers, calls, persistent ids, a copy, a value that is dropped."""
_MEMO_INDICES: Final = (200, 256)


def collect_values(pickles: Sequence[bytes]) -> list[bytes]:
    """The values of pickles, each once, as opcodes: what a mutant takes from other pickles."""
    found: dict[bytes, None] = {}
    for pickle in pickles:
        tokens, _ = split(pickle)
        for start, stop in spans(anchored(tokens)):
            if stop - start <= _MOST_DONATED:
                found[b"".join(tokens[start:stop])] = None
    return list(found)


def change_pickle(chance: Chance, data: bytes, donors: Sequence[bytes]) -> bytes:
    """Change a pickle, and keep whatever follows it, with one to three changes; now and then only its bytes.

    :param donors: values of other pickles
    """
    tokens, rest = split(data)
    if not tokens or chance.one_in(16):
        return chance.bytes_of(data)
    if chance.one_in(2):
        tokens = anchored(tokens)
    for _ in range(chance.choice((1, 1, 1, 1, 2, 3))):
        chance.choice(_CHANGES)(chance, tokens, donors)
    return join(tokens[:MOST_TOKENS]) + rest


def change_stream(chance: Chance, data: bytes, donors: Sequence[bytes]) -> bytes:
    """Change one of the pickles that follow each other, or what follows them."""
    found: list[bytes] = []
    while len(found) < _MOST_PICKLES and is_pickle(data):
        rest = split(data)[1]
        found.append(data[: len(data) - len(rest)])
        data = rest
    if not found or (data and chance.one_in(6)):
        return b"".join(found) + chance.bytes_of(data)
    index = chance.randrange(len(found))
    found[index] = change_pickle(chance, found[index], donors)
    return b"".join(found) + data


# -- changes ------------------------------------------------------------------------------------------


def _other_argument(chance: Chance, token: bytes) -> bytes:
    """The same opcode with another argument, whole and of the right length."""
    code = token[:1]
    opcode = OPCODES[code]
    kind, size = opcode.arg.name, opcode.arg.n
    if kind in INTS:
        width = struct.calcsize(INTS[kind])
        near = int.from_bytes(token[1 : 1 + width], "little")
        return code + (chance.number(near) % 256**width).to_bytes(width, "little")
    if kind == "float8":
        return code + struct.pack(">d", chance.real())
    if size == pickletools.UP_TO_NEWLINE:
        lines = token[1:].split(b"\n")[:-1]
        index = chance.randrange(len(lines))
        numbers = kind.startswith(("decimalnl", "floatnl")) and chance.one_in(2)
        changed = str(chance.number()).encode() if numbers else chance.bytes_of(lines[index])
        lines[index] = changed.replace(b"\n", b"")
        return code + b"".join(line + b"\n" for line in lines)
    layout = LENGTHS[size]
    body = token[1 + struct.calcsize(layout) :]
    if code in _TEXT_CODES and chance.one_in(3):
        body = chance.choice((*ODD_TEXTS, *map(str, NUMBERS))).encode("utf-8", "surrogatepass")
    else:
        body = chance.bytes_of(body)
    body = body[:255] if size == pickletools.TAKEN_FROM_ARGUMENT1 else body
    return code + struct.pack(layout, len(body)) + body


def _change_argument(chance: Chance, tokens: Tokens, _: Sequence[bytes]) -> None:
    places = [at for at, token in enumerate(tokens) if token[:1] in OPCODES and OPCODES[token[:1]].arg is not None]
    if places:
        at = chance.choice(places)
        tokens[at] = _other_argument(chance, tokens[at])


def _donate(chance: Chance, tokens: Tokens, donors: Sequence[bytes]) -> Tokens:
    """Opcodes that leave a value on the stack: of this pickle or of another."""
    own = spans(tokens)
    if own and (not donors or chance.one_in(4)):
        start, stop = chance.choice(own)
        return tokens[start:stop]
    return split(chance.choice(donors))[0] if donors else [b"N"]


def _replace_leaf(chance: Chance, tokens: Tokens, donors: Sequence[bytes]) -> None:
    leaves = [start for start, stop in spans(tokens) if stop - start == 1]
    if leaves:
        at = chance.choice(leaves)
        tokens[at : at + 1] = _donate(chance, tokens, donors)


def _replace_value(chance: Chance, tokens: Tokens, donors: Sequence[bytes]) -> None:
    found = spans(tokens)
    if found:
        start, stop = chance.choice(found)
        tokens[start:stop] = _donate(chance, tokens, donors)


def _exchange_values(chance: Chance, tokens: Tokens, _: Sequence[bytes]) -> None:
    found = spans(tokens)
    if len(found) < 2:
        return
    one, other = sorted(chance.sample(found, 2))
    if one.stop <= other.start:
        made = tokens[other.start : other.stop], tokens[one.stop : other.start], tokens[one.start : one.stop]
        tokens[one.start : other.stop] = [token for part in made for token in part]


def _add_value(chance: Chance, tokens: Tokens, donors: Sequence[bytes]) -> None:
    found = spans(tokens)
    at = chance.choice(found).stop if found else 0
    tokens[at:at] = _donate(chance, tokens, donors)


def _drop_value(chance: Chance, tokens: Tokens, _: Sequence[bytes]) -> None:
    found = spans(tokens)
    if found:
        start, stop = chance.choice(found)
        del tokens[start:stop]


def _wrap_value(chance: Chance, tokens: Tokens, _: Sequence[bytes]) -> None:
    found = spans(tokens)
    if found:
        start, stop = chance.choice(found)
        head, tail = chance.choice(_WRAPPERS)
        times = chance.choice((1, 1, 1, 2, 64, 201))
        tokens[stop:stop] = split(tail)[0] * times
        tokens[start:start] = split(head)[0] * times


def _share_value(chance: Chance, tokens: Tokens, _: Sequence[bytes]) -> None:
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


def _change_opcode(chance: Chance, tokens: Tokens, _: Sequence[bytes]) -> None:
    if tokens:
        tokens[chance.randrange(len(tokens))] = chance.choice(_BARE)


def _drop_opcodes(chance: Chance, tokens: Tokens, _: Sequence[bytes]) -> None:
    start, stop = chance.part(tokens)
    del tokens[start : start + 1 if chance.one_in(2) else stop]


def _repeat_opcodes(chance: Chance, tokens: Tokens, _: Sequence[bytes]) -> None:
    start, stop = chance.part(tokens)
    tokens[start:stop] = tokens[start:stop] * chance.randrange(2, 40)


def _change_protocol(chance: Chance, tokens: Tokens, _: Sequence[bytes]) -> None:
    at = 0 if tokens and tokens[0][:1] == b"\x80" else chance.place(len(tokens))
    tokens[at : at + 1 - bool(at)] = [b"\x80" + bytes([chance.randrange(7)])]


_CHANGES: Final[tuple[Callable[[Chance, Tokens, Sequence[bytes]], None], ...]] = (
    _change_argument, _change_argument, _change_argument, _change_argument, _replace_leaf, _replace_leaf,
    _replace_leaf, _replace_value, _replace_value, _exchange_values, _exchange_values, _add_value, _wrap_value,
    _wrap_value, _share_value, _share_value, _drop_value, _change_opcode, _drop_opcodes, _repeat_opcodes,
    _change_protocol,
)  # fmt: skip
