"""A call in a pickle as a line for people: ``os.system('id')``. Nothing of it is executed (FORMAT.md 5.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.errors import escape
from sbformat.pkl.tree import Call, Dict, Extension, FrozenSet, Global, Node, Persistent, Set, Unread

if TYPE_CHECKING:
    from collections.abc import Sequence

ARGUMENTS: Final = 160
"""Characters of the arguments of a call that a message contains."""
_NAME: Final = 200
_DEEPEST: Final = 4
_PARTS: Final = 60
"""Values of one call that are rendered: an argument may be shared a million times."""
_BITS: Final = 64
_OMITTED: Final = "\u2026"


def render_call(call: Call, limit: int = ARGUMENTS) -> str:
    """Return a call as Python writes it, escaped, on one line and bounded.

    >>> render_call(Call("REDUCE", Global("os", "system"), ("id",)))
    "os.system('id')"

    :param limit: characters of the arguments
    """
    return f"{_render_callee(call.func)}{render_arguments(call, limit)}"


def render_arguments(call: Call, limit: int = ARGUMENTS) -> str:
    """Return the arguments of a call with their parentheses, escaped, on one line and bounded.

    :param limit: characters of the arguments
    """
    left = _Quota(limit)
    parts = _render_items(call.args, left, 0) if isinstance(call.args, tuple) else f"*{_render(call.args, left, 0)}"
    if call.kwargs is not None:
        pairs = _render(call.kwargs, left, 0)
        parts += f"{', ' if parts else ''}**{pairs}"
    return f"({escape(parts, limit)})"


class _Quota:
    """How much may still be rendered of one call."""

    def __init__(self, characters: int) -> None:
        self.characters = characters
        self.parts = _PARTS


def _render_callee(func: object) -> str:
    if isinstance(func, Global):
        return escape(str(func), _NAME)
    return "a computed function"


def _render(value: object, left: _Quota, depth: int) -> str:
    left.parts -= 1
    if left.parts < 0 or depth > _DEEPEST:
        return _OMITTED
    if isinstance(value, (str, bytes, bytearray)):
        cut = value[: left.characters]
        text = repr(bytes(cut) if isinstance(cut, bytearray) else cut)
        return text if len(cut) == len(value) else f"{text[:-1]}{_OMITTED}{text[-1]}"
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if value.bit_length() <= _BITS else f"an integer of {value.bit_length():,} bits"
    if isinstance(value, Node):
        return _render_node(value, left, depth)
    if isinstance(value, Unread):
        return f"{len(value):,} bytes"
    if isinstance(value, (list, tuple)):
        return _render_container(value, left, depth)
    return str(value)  # None, True, False, a float


def _render_container(value: Sequence[object], left: _Quota, depth: int) -> str:
    if isinstance(value, Dict):
        return f"{{{_render_pairs(value, left, depth + 1)}}}"
    items = _render_items(value, left, depth)
    if isinstance(value, (Set, FrozenSet)):
        return f"{{{items}}}"
    return f"[{items}]" if isinstance(value, list) else f"({items}{',' if len(value) == 1 else ''})"


def _render_node(node: Node, left: _Quota, depth: int) -> str:
    if isinstance(node, Global):
        return escape(str(node), _NAME)
    if isinstance(node, Call):
        args = node.args if isinstance(node.args, tuple) else (node.args,)
        return f"{_render_callee(node.func)}({_render_items(args, left, depth)})"
    if isinstance(node, Persistent):
        return "a persistent value"
    return f"the copyreg extension {node.code}" if isinstance(node, Extension) else _OMITTED


def _render_items(items: Sequence[object], left: _Quota, depth: int) -> str:
    parts = [_render(item, left, depth + 1) for item in items[: max(left.parts, 0)]]
    return ", ".join(parts) + _mark_omitted(parts, items)


def _render_pairs(pairs: Dict, left: _Quota, depth: int) -> str:
    parts = [
        f"{_render(key, left, depth)}: {_render(value, left, depth)}" for key, value in pairs[: max(left.parts, 0)]
    ]
    return ", ".join(parts) + _mark_omitted(parts, pairs)


def _mark_omitted(parts: list[str], items: Sequence[object]) -> str:
    return "" if len(parts) == len(items) else f", {_OMITTED}" if parts else _OMITTED
