"""The Python attributes of a tensor: inert values, whose containers follow the rules of others (FORMAT.md 6.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import TensorError
from sbformat.pkl.tree import Dict
from sbformat.pth.keys import check_keys

if TYPE_CHECKING:
    from sbformat.pth.context import DecodeContext

_CONTAINERS: Final = frozenset({Dict, list, tuple})
"""Types that are containers in attributes too. Everything else is a value without parts there."""


def check_attributes(state: Dict, context: DecodeContext) -> None:
    """Check the dicts in the attributes of a tensor, without recursion; ``context.heights`` gets their levels.

    :raises TensorError: for keys that no dict may have, and for a container that contains itself
    """
    heights = context.heights
    opened: set[int] = set()
    todo: list[Any] = [state]
    while todo:
        value = todo[-1]
        if id(value) in heights:
            todo.pop()
            continue
        parts = _parts_of(value)
        if id(value) in opened:
            opened.discard(id(value))
            heights[id(value)] = 1 + max((heights[id(part)] for part in parts), default=0)
            continue
        if type(value) is Dict:
            value[:] = zip(check_keys(value, context), [part for _, part in value])  # bytes instead of their calls
        opened.add(id(value))
        for part in reversed(parts):
            if id(part) in opened:
                message = "an attribute of a tensor contains itself"
                raise TensorError(message)
            if id(part) not in heights:
                todo.append(part)


def _parts_of(value: Any) -> list[Any]:
    """Return the containers that are directly in a container of attributes."""
    items = [part for _, part in value] if type(value) is Dict else value
    return [part for part in items if type(part) in _CONTAINERS]
