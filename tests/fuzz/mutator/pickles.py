"""Pickles as whole opcodes and whole values: lengths and frames stay right, but for those that are wrong on purpose."""

from __future__ import annotations

import pickletools
import struct
from typing import TYPE_CHECKING, Final

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
    FRAME,
    INTS,
    LENGTHS,
    MOST_TOKENS,
    OPCODES,
    Tokens,
    anchored,
    is_pickle,
    join,
    spans,
    split,
)
from tests.fuzz.mutator.fragments import FRAGMENTS, LEAVES, name_lines, text

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fuzz.mutator.chance import Chance

__all__ = ["argument", "changed", "is_pickle", "join", "name_code", "spans", "split", "value"]

_TEXTS: Final = ("unicodestring1", "unicodestring4", "unicodestring8")
_DEEPEST: Final = 250
"""How often a value is wrapped at most: just past ``value_depth``."""


# -- arguments ----------------------------------------------------------------------------------------


def argument(chance: Chance, code: bytes, old: bytes = b"") -> bytes:
    """An opcode with another argument, whole and of the right length."""
    opcode = OPCODES[code]
    if opcode.arg is None:
        return code
    kind, size = opcode.arg.name, opcode.arg.n
    if kind in INTS:
        layout = INTS[kind]
        width = struct.calcsize(layout)
        near = int.from_bytes(old[1 : 1 + width], "little")
        return code + (chance.number(near) % 256**width).to_bytes(width, "little")
    if kind == "float8":
        return code + struct.pack(">d", chance.real())
    if size == pickletools.UP_TO_NEWLINE:
        return code + _lines(chance, kind, old[1:])
    layout = LENGTHS[size]
    body = old[1 + struct.calcsize(layout) :]
    if kind in _TEXTS and not chance.one_in(4):
        body = chance.word(body.decode("utf-8", "replace")).encode("utf-8", "surrogatepass")
    else:
        body = chance.bytes_of(body)
    limit = 255 if size == pickletools.TAKEN_FROM_ARGUMENT1 else None
    return code + struct.pack(layout, len(body[:limit])) + body[:limit]


def _lines(chance: Chance, kind: str, old: bytes) -> bytes:
    if kind == "stringnl_noescape_pair":
        return name_lines(chance.name(_lines_name(old)))
    if chance.one_in(3):
        return chance.bytes_of(old.rstrip(b"\n")).replace(b"\n", b"") + b"\n"
    if kind == "floatnl":
        return repr(chance.real()).encode() + b"\n"
    if kind.startswith("decimalnl"):
        return str(chance.number()).encode() + (b"L\n" if kind.endswith("long") else b"\n")
    word = chance.word().encode("unicode_escape")
    return (b"'" + word + b"'" if kind == "stringnl" else word) + b"\n"


# -- changes ------------------------------------------------------------------------------------------


def value(chance: Chance, tokens: Tokens) -> Tokens:
    """Opcodes that leave one value on the stack: a leaf, a constructor's call, or a value of the pickle."""
    kind = chance.randrange(3)
    found = spans(tokens) if kind == 0 else []
    if found:
        span = chance.choice(found)
        return tokens[span.start : span.stop]
    return split(chance.choice(FRAGMENTS if kind == 1 else LEAVES))[0]


def _replace_value(chance: Chance, tokens: Tokens) -> None:
    found = spans(tokens)
    if found:
        span = chance.choice(found)
        tokens[span.start : span.stop] = value(chance, tokens)


def _replace_leaf(chance: Chance, tokens: Tokens) -> None:
    """Put another number, text or name where one stands: what is around it keeps its shape."""
    leaves = [span.start for span in spans(tokens) if span.stop - span.start == 1]
    if not leaves:
        return
    index = chance.choice(leaves)
    if len(tokens[index]) > 1 and chance.one_in(2):
        tokens[index] = argument(chance, tokens[index][:1], tokens[index])
    else:
        tokens[index : index + 1] = split(chance.choice(LEAVES))[0]


def _add_value(chance: Chance, tokens: Tokens) -> None:
    found = spans(tokens)
    at = chance.choice(found).stop if found else 0
    tokens[at:at] = value(chance, tokens)


def _wrap_value(chance: Chance, tokens: Tokens) -> None:
    """Put a value into a container, call or reference, once or deeper than any reader goes."""
    found = spans(tokens)
    if not found:
        return
    span = chance.choice(found)
    calls = ((name_code(chance), b"\x85R"), (name_code(chance), b"b"))
    head, tail = chance.choice((*WRAPPERS, *calls))
    wrap(tokens, span, head, tail, chance.randrange(1, _DEEPEST) if chance.one_in(8) else 1)


def name_code(chance: Chance, old: tuple[str, str] = ("", "")) -> bytes:
    """GLOBAL, or STACK_GLOBAL on two texts."""
    pair = chance.name(old)
    if chance.one_in(2):
        return b"c" + name_lines(pair)
    return text(pair[0]) + text(pair[1]) + b"\x93"


def _lines_name(lines: bytes) -> tuple[str, str]:
    module, _, attribute = lines.decode("utf-8", "replace").partition("\n")
    return module, attribute.rstrip("\n")


def _change_name(chance: Chance, tokens: Tokens) -> None:
    names = [index for index, token in enumerate(tokens) if token[:1] in (b"c", b"\x93")]
    if not names:
        return
    index = chance.choice(names)
    is_line = tokens[index][:1] == b"c"
    old = _lines_name(tokens[index][1:]) if is_line else _stacked_name(tokens[:index])
    tokens[index : index + 1] = [*([] if is_line else [b"0", b"0"]), *split(name_code(chance, old))[0]]


def _stacked_name(tokens: Tokens) -> tuple[str, str]:
    """The two texts right before STACK_GLOBAL."""
    texts = [token for token in tokens[-4:] if token[:1] in (b"\x8c", b"X")]
    heads = {b"\x8c": 2, b"X": 5}
    said = [token[heads[token[:1]] :].decode("utf-8", "replace") for token in texts[-2:]]
    return (said[0], said[1]) if len(said) == 2 else ("", "")


def _change_argument(chance: Chance, tokens: Tokens) -> None:
    with_argument = [index for index, token in enumerate(tokens) if len(token) > 1]
    if with_argument:
        index = chance.choice(with_argument)
        tokens[index] = argument(chance, tokens[index][:1], tokens[index])


def _add_opcode(chance: Chance, tokens: Tokens) -> None:
    at = chance.place(len(tokens))
    tokens[at:at] = [argument(chance, chance.choice(list(OPCODES)))]


def _move_opcode(chance: Chance, tokens: Tokens) -> None:
    if tokens:
        token = tokens.pop(chance.randrange(len(tokens)))
        tokens.insert(chance.place(len(tokens)), token)


def _frame(chance: Chance, tokens: Tokens) -> None:
    tokens.insert(chance.place(len(tokens)), FRAME + bytes(8))


_LIKELY: Final[tuple[Callable[[Chance, Tokens], None], ...]] = (
    _replace_leaf, _replace_leaf, _replace_leaf, _replace_value, _replace_value, _add_value, _wrap_value, _change_name,
    _change_argument, share_value,
)  # fmt: skip
"""Mostly give a pickle again."""
_UNLIKELY: Final[tuple[Callable[[Chance, Tokens], None], ...]] = (
    drop_value, change_opcode, _add_opcode, drop_opcodes, repeat_opcodes, _move_opcode, change_protocol, _frame,
)  # fmt: skip
"""Mostly break it."""


def changed(chance: Chance, data: bytes) -> bytes:
    """A pickle, and whatever follows it, with one to three changes; now and then with a byte that is wrong."""
    tokens, rest = split(data)
    if not tokens or chance.one_in(16):
        return chance.bytes_of(data)
    if chance.one_in(2):
        tokens = anchored(tokens)
    for _ in range(chance.choice((1, 1, 1, 1, 2, 3))):
        chance.choice(_UNLIKELY if chance.one_in(4) else _LIKELY)(chance, tokens)
    made = join(tokens[:MOST_TOKENS])
    return (chance.bytes_of(made) if chance.one_in(32) else made) + rest
