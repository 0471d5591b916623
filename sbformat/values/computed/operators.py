"""Operators of the machine: what instructions compute from the topmost items of the stack, and lists that they make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.values.computed import operations
from sbformat.values.computed.errors import refuse
from sbformat.values.computed.expressions import Expression
from sbformat.values.computed.library import require_items
from sbformat.values.computed.objects import MOST_ITEMS, Table, Unusable, convert, describe, require_number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sbformat.values.computed.frames import Frame
    from sbformat.values.computed.machine import Machine


_MOST_CHOICES: Final = 32
"""Items of a list from which the remaining progress selects one."""


def _binary(machine: Machine, frame: Frame, symbol: str) -> None:
    one, other = frame.pop_many(2)
    if symbol == "+" and type(one) is type(other) and isinstance(one, (tuple, list)):
        if len(one) + len(other) > MOST_ITEMS:
            refuse("it makes a long list")
        frame.push(one + other)
        return
    frame.push(machine.apply(operations.BINARY[symbol], require_number(one), require_number(other)))


def _unary(machine: Machine, frame: Frame, symbol: str) -> None:
    value = require_number(frame.pop())
    frame.push(value if symbol == "+" else machine.apply(operations.NEGATE, value))


def _not(machine: Machine, frame: Frame, _: Any) -> None:
    value = frame.pop()
    if isinstance(value, Expression):
        test = value if value.kind == "bool" else machine.apply(operations.COMPARE["!="], value, 0)
        frame.push(machine.apply(operations.NOT, test))
    else:
        frame.push(not machine.is_true(value))


def _compare(machine: Machine, frame: Frame, symbol: str) -> None:
    one, other = frame.pop_many(2)
    texts = (one, other)
    if symbol in ("==", "!=") and all(part is None or isinstance(part, (str, int, float)) for part in texts):
        frame.push((one == other) is (symbol == "=="))
    else:
        frame.push(machine.apply(operations.COMPARE[symbol], require_number(one), require_number(other)))


def _is(_machine: Machine, frame: Frame, inverted: Any) -> None:
    one, other = frame.pop_many(2)
    singletons = [part for part in (one, other) if part is None or isinstance(part, bool)]
    if not singletons or any(isinstance(part, Unusable) for part in (one, other)):
        refuse("it compares identities")
    may_be_bool = any(isinstance(part, Expression) and part.kind in ("bool", "number") for part in (one, other))
    if may_be_bool and None not in singletons:
        refuse("it compares identities")
    frame.push((one is other) is not inverted)


def _contains(_machine: Machine, frame: Frame, inverted: Any) -> None:
    item, container = frame.pop_many(2)
    items = list(container.items) if isinstance(container, Table) else require_items(container)
    if not all(part is None or isinstance(part, (str, int, float)) for part in (item, *items)):
        refuse("it searches a list for something other than numbers and text")
    frame.push((item in items) is not inverted)


def _subscript(machine: Machine, frame: Frame, _: Any) -> None:
    container, key = frame.pop_many(2)
    if isinstance(container, Table) and isinstance(key, (str, int, float)):
        if key not in container.items:
            refuse("it uses a key that a dict lacks")
        frame.push(convert(container.items[key]))
        return
    if isinstance(key, Expression) and isinstance(container, (tuple, list)) and 0 < len(container) <= _MOST_CHOICES:
        frame.push(machine.apply(operations.ITEM, key, *map(require_number, container)))
        return
    if not isinstance(container, (tuple, list)) or not isinstance(key, (int, slice)):
        refuse(f"it uses an item of {describe(container)}")
    try:
        frame.push(container[key])
    except (IndexError, TypeError, ValueError):
        refuse("it uses an item that a list lacks")


def _slice(_machine: Machine, frame: Frame, count: int) -> None:
    parts = frame.pop_many(count)
    if not 2 <= count <= 3 or not all(part is None or isinstance(part, int) for part in parts):
        refuse("it takes an unusual part of a list")
    frame.push(slice(*parts))


# -- lists --------------------------------------------------------------------------------------------


def _tuple(_machine: Machine, frame: Frame, count: int) -> None:
    frame.push(tuple(frame.pop_many(count)))


def _list(_machine: Machine, frame: Frame, count: int) -> None:
    frame.push(frame.pop_many(count))


def _append(_machine: Machine, frame: Frame, depth: int) -> None:
    value = frame.pop()
    _extend_list(frame.peek(depth), [value])


def _extend(_machine: Machine, frame: Frame, depth: int) -> None:
    items = require_items(frame.pop())
    _extend_list(frame.peek(depth), items)


def _extend_list(target: Any, items: list[Any]) -> None:
    if not isinstance(target, list) or len(target) + len(items) > MOST_ITEMS:
        refuse("it makes a long list")
    target.extend(items)


def _to_tuple(_machine: Machine, frame: Frame, _: Any) -> None:
    frame.push(tuple(require_items(frame.pop())))


def _unpack(_machine: Machine, frame: Frame, count: int) -> None:
    items = require_items(frame.pop())
    if len(items) != count:
        refuse("it unpacks a list of another length")
    for item in reversed(items):
        frame.push(item)


OPERATORS: Final[Mapping[str, Callable[[Machine, Frame, Any], None]]] = {
    "append": _append,
    "binary": _binary,
    "compare": _compare,
    "contains": _contains,
    "extend": _extend,
    "is": _is,
    "list": _list,
    "not": _not,
    "slice": _slice,
    "subscript": _subscript,
    "to_tuple": _to_tuple,
    "tuple": _tuple,
    "unary": _unary,
    "unpack": _unpack,
}
"""The functions of these instructions, by name."""
