"""Mutants of pickles: other arguments of opcodes, values of other pickles, and opcodes in other places."""

from __future__ import annotations

import pickletools
import struct
from functools import cache
from typing import TYPE_CHECKING, Final

from conformance.file_mutants.chance import NUMBERS, ODD_TEXTS
from conformance.file_mutants.opcode_changes import (
    WRAPPERS,
    change_opcode,
    change_protocol,
    drop_opcodes,
    drop_value,
    repeat_opcodes,
    share_value,
    wrap,
)
from conformance.file_mutants.opcodes import (
    INTS,
    LENGTHS,
    MOST_TOKENS,
    OPCODES,
    Tokens,
    anchored,
    join,
    spans,
    split,
    split_stream,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from conformance.file_mutants.chance import Chance

    _Change = Callable[[Chance, Tokens, Sequence[bytes]], None]

__all__ = ["change_pickle", "change_stream", "collect_values"]

_MOST_DONATED: Final = 40
"""Opcodes of a value that is put into another pickle."""
_TEXT_CODES: Final = (b"\x8c", b"X", b"\x8d", b"U", b"T", b"B", b"C", b"\x8e", b"\x96")


def collect_values(pickles: Sequence[bytes]) -> list[bytes]:
    """The values of pickles, each once, as opcodes: what a mutant takes from other pickles."""
    return list(dict.fromkeys(value for pickle in pickles for value in _values_of(pickle)))


@cache
def _values_of(pickle: bytes) -> tuple[bytes, ...]:
    """The values of one pickle; several layers and runs begin with the same."""
    tokens, _ = split(pickle)
    return tuple(
        b"".join(tokens[start:stop]) for start, stop in spans(anchored(tokens)) if stop - start <= _MOST_DONATED
    )


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
    found, data = split_stream(data)
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


def _wrap_value(chance: Chance, tokens: Tokens, _: Sequence[bytes]) -> None:
    found = spans(tokens)
    if found:
        span = chance.choice(found)
        head, tail = chance.choice(WRAPPERS)
        wrap(tokens, span, head, tail, chance.choice((1, 1, 1, 2, 64, 201)))


def _alone(change: Callable[[Chance, Tokens], None]) -> _Change:
    """A change that takes nothing from other pickles."""
    return lambda chance, tokens, _: change(chance, tokens)


_CHANGES: Final[tuple[_Change, ...]] = (
    _change_argument, _change_argument, _change_argument, _change_argument, _replace_leaf, _replace_leaf,
    _replace_leaf, _replace_value, _replace_value, _exchange_values, _exchange_values, _add_value, _wrap_value,
    _wrap_value, _alone(share_value), _alone(share_value), _alone(drop_value), _alone(change_opcode), _alone(drop_opcodes), _alone(repeat_opcodes),
    _alone(change_protocol),
)  # fmt: skip
