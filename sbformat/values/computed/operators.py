"""Operators of the machine: what instructions compute from the topmost items of the stack, and lists that they make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.values.computed import operations
from sbformat.values.computed.errors import refuse
from sbformat.values.computed.expressions import Expression, find_kind
from sbformat.values.computed.library import require_items
from sbformat.values.computed.objects import (
    MOST_ITEMS,
    Iterator,
    List,
    Row,
    Table,
    Unusable,
    convert,
    describe,
    is_plain,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sbformat.values.computed.frames import Frame
    from sbformat.values.computed.machine import Machine


_MOST_CHOICES: Final = 32
"""Items of a list from which the remaining progress selects one."""


def _binary(machine: Machine, frame: Frame, symbol: str) -> None:
    one, other = frame.pop_many(2)
    if symbol == "+" and type(one) is type(other) and isinstance(one, (tuple, List)):
        items = require_items(one) + require_items(other)
        if len(items) > MOST_ITEMS:
            refuse("it makes a long list")
        frame.push(tuple(items) if isinstance(one, tuple) else List(items))
        return
    frame.push(machine.calculate(operations.BINARY[symbol], one, other))


def _in_place(machine: Machine, frame: Frame, symbol: str) -> None:
    """``+=``: of a list, it would change what other variables refer to, too."""
    if isinstance(frame.peek(2), List):
        refuse("it changes a list or dict")
    _binary(machine, frame, symbol)


def _unary(machine: Machine, frame: Frame, symbol: str) -> None:
    value = frame.pop()
    if symbol == "-":
        frame.push(machine.calculate(operations.NEGATE, value))
        return
    number = machine.require_number(value)
    if find_kind(number) == "bool":
        refuse("it computes with the sign of a condition")
    frame.push(number)


def _not(machine: Machine, frame: Frame, _: Any) -> None:
    value = frame.pop()
    if isinstance(value, Expression):
        test = value if value.kind == "bool" else machine.apply(operations.COMPARE["!="], value, 0)
        frame.push(machine.apply(operations.NOT, test))
    else:
        frame.push(not machine.is_true(value))


def _compare(machine: Machine, frame: Frame, symbol: str) -> None:
    one, other = frame.pop_many(2)
    if symbol in ("==", "!=") and is_plain(one) and is_plain(other):
        frame.push((one == other) is (symbol == "=="))
    else:
        frame.push(machine.calculate(operations.COMPARE[symbol], one, other))


def _is(machine: Machine, frame: Frame, inverted: Any) -> None:
    one, other = frame.pop_many(2)
    singletons = [part for part in (one, other) if part is None or isinstance(part, bool)]
    if not singletons or any(isinstance(part, Unusable) for part in (one, other)):
        refuse("it compares identities")
    may_be_bool = any(isinstance(part, Expression) and part.kind in ("bool", "number") for part in (one, other))
    if may_be_bool and None not in singletons:
        refuse("it compares identities")
    machine.asks_for_types |= None not in singletons
    frame.push((one is other) is not inverted)


def _contains(_machine: Machine, frame: Frame, inverted: Any) -> None:
    item, container = frame.pop_many(2)
    if isinstance(container, Iterator):
        refuse("it searches an iterator")
    items = list(container.items) if isinstance(container, Table) else require_items(container)
    if not all(map(is_plain, (item, *items))):
        refuse("it searches a list for something other than numbers and text")
    frame.push((item in items) is not inverted)


def _subscript(machine: Machine, frame: Frame, _: Any) -> None:
    container, key = frame.pop_many(2)
    if isinstance(container, Table) and is_plain(key) and key is not None:
        if key not in container.items:
            refuse("it uses a key that a dict lacks")
        frame.push(convert(container.items[key]))
        return
    is_array = isinstance(container, Row)  # of which a bool selects other things than an item
    if not isinstance(container, (tuple, List, Row)) or isinstance(key, Iterator):
        refuse(f"it uses an item of {describe(container)}")
    items = tuple(require_items(container))
    if isinstance(key, Expression):
        if not 0 < len(items) <= _MOST_CHOICES or (is_array and key.kind != "int"):
            refuse("the progress selects an item of a long list")
        frame.push(machine.apply(operations.ITEM, key, *map(machine.require_number, items)))
    elif type(key) is int or (type(key) is bool and not is_array):
        if not -len(items) <= key < len(items):
            refuse("it uses an item that a list lacks")
        frame.push(items[key])
    elif isinstance(key, slice):
        made = items[key]
        frame.push(made if type(container) is tuple else List(list(made)) if isinstance(container, List) else Row(made))
    else:
        refuse(f"it uses an item of {describe(container)}")


def _slice(_machine: Machine, frame: Frame, count: int) -> None:
    parts = frame.pop_many(count)
    if not 2 <= count <= 3 or not all(part is None or type(part) is int for part in parts) or parts[2:] == [0]:
        refuse("it takes an unusual part of a list")
    frame.push(slice(*parts))


# -- lists --------------------------------------------------------------------------------------------


def _tuple(_machine: Machine, frame: Frame, count: int) -> None:
    frame.push(tuple(frame.pop_many(count)))


def _list(_machine: Machine, frame: Frame, count: int) -> None:
    frame.push(List(frame.pop_many(count)))


def _append(_machine: Machine, frame: Frame, depth: int) -> None:
    value = frame.pop()
    _extend_list(frame.peek(depth), [value])


def _extend(_machine: Machine, frame: Frame, depth: int) -> None:
    items = require_items(frame.pop())
    _extend_list(frame.peek(depth), items)


def _extend_list(target: Any, items: list[Any]) -> None:
    if not isinstance(target, List) or len(target.items) + len(items) > MOST_ITEMS:
        refuse("it makes a long list")
    target.items.extend(items)


def _to_tuple(_machine: Machine, frame: Frame, _: Any) -> None:
    frame.push(tuple(require_items(frame.pop())))


def _unpack(_machine: Machine, frame: Frame, count: int) -> None:
    value = frame.pop()
    items = require_items(value)
    if isinstance(value, Iterator) or len(items) != count:
        refuse("it unpacks a list of another length")
    for item in reversed(items):
        frame.push(item)


OPERATORS: Final[Mapping[str, Callable[[Machine, Frame, Any], None]]] = {
    "append": _append,
    "binary": _binary,
    "compare": _compare,
    "contains": _contains,
    "extend": _extend,
    "in_place": _in_place,
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
