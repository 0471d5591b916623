"""Pickles as text, escaped and bounded: their opcodes with offsets, their inert tree by lines, a call on one line."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from sbformat.errors import PickleError, escape
from sbformat.immutable import Record
from sbformat.pkl.opcodes import BY_CODE
from sbformat.pkl.state import refuse
from sbformat.pkl.tree import Call, Dict, Extension, FrozenSet, Global, Node, Persistent, Set, Unread, walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sbformat.pkl.machine import Pickle

_SHOWN: Final = 120
_SHOWN_BYTES: Final = 24
_INDENT: Final = "  "
_DEEPEST_SHOWN: Final = 60
_LAYOUTS: Final = {
    "u1": "<B", "u2": "<H", "u4": "<I", "u8": "<Q", "i4": "<i", "f8": ">d", "s1": "<B", "s4": "<I", "s8": "<Q",
    "i4s": "<i",
}  # fmt: skip
"""Numbers, and the lengths of bytes, by the kind of an argument."""


class Line(Record):
    """One opcode."""

    offset: int
    name: str
    argument: str  # as text, escaped and shortened; empty if the opcode has none


def opcodes(data: bytes) -> Iterator[Line]:
    """Yield the opcodes of a pickle up to its STOP."""
    position = 0
    while True:
        row = BY_CODE.get(data[position]) if position < len(data) else None
        if row is None:
            got = f"{data[position]:#04x}" if position < len(data) else "the end of the pickle"
            refuse(f"expected a pickle opcode, got {got}", position)
        try:
            argument, after = _argument(row.argument, data, position + 1)
        except (struct.error, ValueError):
            raise PickleError(f"the argument of {row.name} is cut short", offset=position) from None
        yield Line(position, row.name, argument)
        if row.name == "STOP":
            return
        position = after


def _argument(kind: str, data: bytes, position: int) -> tuple[str, int]:
    if kind in _LAYOUTS:
        [number] = struct.unpack_from(_LAYOUTS[kind], data, position)
        position += struct.calcsize(_LAYOUTS[kind])
        if "s" not in kind:
            return repr(number), position
        if not 0 <= number <= len(data) - position:
            raise ValueError
        return _bytes(data[position : position + number]), position + number
    lines = []
    for _ in range({"": 0, "line": 1, "line2": 2}[kind]):
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
        todo.extend((depth + 1, name, part) for name, part in reversed([*_parts(node)]))
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
        return f"{node.how} {_head(node.func) if isinstance(node.func, Global) else 'of what is computed'}"
    if isinstance(node, Extension):
        return f"extension {node.code}"
    if isinstance(node, (Persistent, Dict, Set, FrozenSet)):
        return repr(node).strip("<>")
    return f"{type(node).__name__} of {len(node)}"  # type: ignore[arg-type]


def _parts(node: object) -> Iterator[tuple[str, object]]:
    if isinstance(node, Dict):
        yield from _pairs(node)
    elif isinstance(node, (list, tuple)):
        yield from (("", part) for part in node)
    elif isinstance(node, Call):
        if not isinstance(node.func, Global):
            yield "function ", node.func
        if isinstance(node.args, tuple):
            yield from (("", part) for part in node.args)
        else:
            yield "arguments ", node.args
        if node.kwargs is not None:
            yield "keywords ", node.kwargs
    elif isinstance(node, Persistent):
        yield "", node.id
    for update in (node.updates if isinstance(node, Node) else None) or ():
        yield from _pairs(update.value) if update.how == "SETITEMS" else [(f"{update.how} ", update.value)]


def _pairs(pairs: object) -> Iterator[tuple[str, object]]:
    """Yield pairs with plain keys as ``key: value``, and the parts of other pairs as two."""
    for key, value in pairs:  # type: ignore[attr-defined]
        if isinstance(key, (Node, list, tuple)):
            yield from (("key ", key), ("value ", value))
        else:
            yield _leaf(key) + ": ", value


# -- calls --------------------------------------------------------------------------------------------

ARGUMENTS: Final = 160  # characters of the arguments of a call that a message contains
_NAME: Final = 200
_DEEPEST: Final = 4
_PARTS: Final = 60  # values of one call that are rendered: an argument may be shared a million times
_BITS: Final = 64
_OMITTED: Final = "\u2026"


def render_call(call: Call, limit: int = ARGUMENTS) -> str:
    """Return a call as Python writes it, escaped, on one line and bounded.

    >>> render_call(Call("REDUCE", Global("os", "system"), ("id",)))
    "os.system('id')"
    """
    return f"{_callee(call)}{render_arguments(call, limit)}"


def render_arguments(call: Call, limit: int = ARGUMENTS) -> str:
    """Return the arguments of a call with their parentheses, escaped, on one line and bounded."""
    line = _Arguments(limit)
    parts = line.join(call.args, 0) if isinstance(call.args, tuple) else f"*{line.render(call.args, 0)}"
    if call.kwargs is not None:
        pairs = line.render(call.kwargs, 0)
        parts += f"{', ' if parts else ''}**{pairs}"
    return f"({escape(parts, limit)})"


def render_object(call: Call, limit: int = ARGUMENTS) -> str:
    """Return a call, and the attributes that BUILD gives what it makes, on one line, escaped and bounded.

    Of an object of a user's class: ``my.schedules.Cosine() with {'start': 0.1}``.
    """
    updates = call.updates or []
    state = updates[0].value if len(updates) == 1 and updates[0].how == "BUILD" else None
    shown = f" with {escape(_Arguments(limit).render(state, 0), limit)}" if isinstance(state, Dict) else ""
    return f"{render_call(call, limit)}{shown}"


def _callee(call: Call) -> str:
    return escape(str(call.func), _NAME) if isinstance(call.func, Global) else "a computed function"


class _Arguments:
    """The arguments of one call, of which only so many characters and parts are rendered."""

    def __init__(self, characters: int) -> None:
        self.characters = characters
        self.left = _PARTS

    def render(self, value: object, depth: int) -> str:
        self.left -= 1
        if self.left < 0 or depth > _DEEPEST:
            return _OMITTED
        if isinstance(value, (str, bytes, bytearray)):
            cut = value[: self.characters]
            text = repr(bytes(cut) if isinstance(cut, bytearray) else cut)
            return text if len(cut) == len(value) else f"{text[:-1]}{_OMITTED}{text[-1]}"
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value) if value.bit_length() <= _BITS else f"an integer of {value.bit_length():,} bits"
        if isinstance(value, Node):
            return self._render_node(value, depth)
        if isinstance(value, Unread):
            return f"{len(value):,} bytes"
        if not isinstance(value, (list, tuple)):
            return str(value)  # None, True, False, a float
        items = self.join(value, depth)
        if isinstance(value, (Dict, Set, FrozenSet)):
            return f"{{{items}}}"
        return f"[{items}]" if isinstance(value, list) else f"({items}{',' if len(value) == 1 else ''})"

    def _render_node(self, node: Node, depth: int) -> str:
        if isinstance(node, Global):
            return escape(str(node), _NAME)
        if isinstance(node, Call):
            args = node.args if isinstance(node.args, tuple) else (node.args,)
            return f"{_callee(node)}({self.join(args, depth)})"
        if isinstance(node, Persistent):
            return "a persistent value"
        return f"the copyreg extension {node.code}" if isinstance(node, Extension) else _OMITTED

    def join(self, items: Sequence[object], depth: int) -> str:
        """Return items with commas, of a dict its pairs; those that are omitted are marked."""
        parts = [
            ": ".join(self.render(part, depth + 1) for part in (item if isinstance(items, Dict) else (item,)))  # type: ignore[attr-defined]
            for item in items[: max(self.left, 0)]
        ]
        return ", ".join(parts if len(parts) == len(items) else [*parts, _OMITTED])
