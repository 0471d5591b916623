"""Text views of a pickle: its opcodes with their offsets, or its inert tree, one per line, escaped and bounded."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from sbformat.errors import PickleError, escape
from sbformat.immutable import Record
from sbformat.pkl.opcodes import BY_CODE
from sbformat.pkl.tree import Call, Dict, Extension, FrozenSet, Global, Node, Persistent, Set, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.pkl.decode import Pickle

_SHOWN: Final = 120
_SHOWN_BYTES: Final = 24
_INDENT: Final = "  "
_DEEPEST_SHOWN: Final = 60
_NUMBERS: Final = {"u1": "<B", "u2": "<H", "u4": "<I", "u8": "<Q", "i4": "<i", "f8": ">d"}
_LENGTHS: Final = {"s1": "<B", "s4": "<I", "s8": "<Q", "i4s": "<i"}


class Line(Record):
    """One opcode."""

    offset: int
    name: str
    argument: str
    """The argument as text, escaped and shortened; empty if the opcode has none."""


def opcodes(data: bytes) -> Iterator[Line]:
    """Yield the opcodes of a pickle up to its STOP.

    :param data: the pickle, and the bytes that follow it
    """
    position = 0
    while True:
        row = BY_CODE.get(data[position]) if position < len(data) else None
        if row is None:
            got = f"{data[position]:#04x}" if position < len(data) else "the end of the pickle"
            message = f"expected a pickle opcode, got {got}"
            raise PickleError(message, offset=position)
        try:
            argument, after = _argument(row.argument, data, position + 1)
        except (struct.error, ValueError):
            message = f"the argument of {row.name} is cut short"
            raise PickleError(message, offset=position) from None
        yield Line(position, row.name, argument)
        if row.name == "STOP":
            return
        position = after


def _argument(kind: str, data: bytes, position: int) -> tuple[str, int]:
    if not kind:
        return "", position
    if kind in _NUMBERS:
        layout = _NUMBERS[kind]
        return repr(struct.unpack_from(layout, data, position)[0]), position + struct.calcsize(layout)
    if kind in _LENGTHS:
        layout = _LENGTHS[kind]
        start = position + struct.calcsize(layout)
        length = struct.unpack_from(layout, data, position)[0]
        if not 0 <= length <= len(data) - start:
            raise ValueError
        return _bytes(data[start : start + length]), start + length
    lines = []
    for _ in range(2 if kind == "line2" else 1):
        stop = data.index(b"\n", position)
        lines.append(_bytes(data[position:stop]))
        position = stop + 1
    return " ".join(lines), position


def _bytes(raw: bytes) -> str:
    try:
        text = raw[: _SHOWN * 4].decode("utf-8")
    except UnicodeDecodeError:
        return _raw(raw)
    return escape(text, _SHOWN) if text.isprintable() or len(raw) <= _SHOWN_BYTES else _raw(raw)


def _raw(raw: bytes | bytearray) -> str:
    more = f"... ({len(raw)} bytes)" if len(raw) > _SHOWN_BYTES else ""
    return raw[:_SHOWN_BYTES].hex(" ") + more


def tree(pickle: Pickle, most: int = 10_000) -> Iterator[str]:
    """Yield an inert tree, one value per line, indented by its depth. A value that occurs twice is numbered.

    Calls whose result is not part of the value follow it: an unpickler executes them, too.

    :param pickle: the decoded pickle
    :param most: the number of lines after which the rest is omitted
    """
    numbers: dict[int, int] = {}
    todo: list[tuple[int, str, object]] = [(0, "and then ", call) for call in reversed(_dropped(pickle))]
    todo.append((0, "", pickle.value))
    for _ in range(most):
        if not todo:
            return
        depth, label, node = todo.pop()
        head = f"{_INDENT * min(depth, _DEEPEST_SHOWN)}{label}"
        if not isinstance(node, (Node, list, tuple)) or node == ():
            yield head + _leaf(node)
            continue
        if id(node) in numbers:
            yield f"{head}#{numbers[id(node)]}, as above"
            continue
        numbers[id(node)] = len(numbers) + 1
        yield f"{head}{_head(node)}  #{numbers[id(node)]}"
        todo.extend((depth + 1, name, part) for name, part in reversed(_parts(node)))
    yield f"... {len(todo)} more at least"


def _dropped(pickle: Pickle) -> list[Call]:
    """Return the calls that are not part of the value, in order, except those that are part of another of them."""
    seen: set[int] = set()
    for _ in walk(pickle.value, seen):
        pass
    dropped: list[Call] = []
    for node in reversed(pickle.log):
        if isinstance(node, Call) and id(node) not in seen:
            dropped.append(node)
            for _ in walk(node, seen):
                pass
    return dropped[::-1]


def _leaf(value: object) -> str:
    if isinstance(value, (bytes, bytearray)):
        return f"{type(value).__name__} {_raw(value)}"
    if isinstance(value, int) and value.bit_length() > 4 * _SHOWN:
        return f"a number of {value.bit_length()} bits"
    return escape(repr(value[:_SHOWN]) if isinstance(value, str) else repr(value), _SHOWN)


def _head(node: object) -> str:
    if isinstance(node, Global):
        return escape(str(node), _SHOWN)
    if isinstance(node, Call):
        return (
            f"{node.how} {escape(str(node.func), _SHOWN) if isinstance(node.func, Global) else 'of what is computed'}"
        )
    if isinstance(node, Extension):
        return f"extension {node.code}"
    if isinstance(node, (Persistent, Dict, Set, FrozenSet)):
        return repr(node).strip("<>")
    return f"{type(node).__name__} of {len(node)}"  # type: ignore[arg-type]


def _parts(node: object) -> list[tuple[str, object]]:
    parts: list[tuple[str, object]] = []
    if isinstance(node, Dict):
        return _pairs(node)
    if isinstance(node, (list, tuple)):
        return [("", part) for part in node]
    if isinstance(node, Call):
        if not isinstance(node.func, Global):
            parts.append(("function ", node.func))
        if isinstance(node.args, tuple):
            parts += [("", part) for part in node.args]
        else:
            parts.append(("arguments ", node.args))
        if node.kwargs is not None:
            parts.append(("keywords ", node.kwargs))
    elif isinstance(node, Persistent):
        parts.append(("", node.id))
    for update in (node.updates if isinstance(node, Node) else None) or ():
        parts += _pairs(update.value) if update.how == "SETITEMS" else [(f"{update.how} ", update.value)]
    return parts


def _pairs(pairs: object) -> list[tuple[str, object]]:
    """Return pairs with plain keys as ``key: value``, and the parts of other pairs as two."""
    parts: list[tuple[str, object]] = []
    for key, value in pairs:  # type: ignore[attr-defined]
        if isinstance(key, (Node, list, tuple)):
            parts += [("key ", key), ("value ", value)]
        else:
            parts.append((_leaf(key) + ": ", value))
    return parts
