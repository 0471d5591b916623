"""The instructions of the machine: what each does to the stack and the variables of one call.

Every function of ``_DO`` receives the machine, the frame and the argument of its instruction. Those that jump set
``frame.position``; ``return`` sets ``frame.result``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import escape
from sbformat.values.code import Code
from sbformat.values.computed import operations
from sbformat.values.computed.errors import refuse
from sbformat.values.computed.expressions import Expression
from sbformat.values.computed.instructions import NULL
from sbformat.values.computed.library import find_name, find_package, require_items
from sbformat.values.computed.objects import (
    MOST_ITEMS,
    UNBOUND,
    Cell,
    Closure,
    Iterator,
    Object,
    Package,
    Table,
    Unusable,
    convert,
    describe,
    require_number,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sbformat.values.computed.instructions import Instruction
    from sbformat.values.computed.machine import Machine

_MOST_STACK: Final = 256
_RUNNING: Final = object()


class Frame:
    """One call of a function."""

    def __init__(self, closure: Closure, local: dict[str, Any], instructions: list[Instruction]) -> None:
        self.closure = closure
        self.locals = local
        self.cells: dict[str, Cell] = {}
        self.instructions = instructions
        self.position = 0
        self.stack: list[Any] = []
        self.loops: list[tuple[int, int]] = []
        """Of SETUP_LOOP: where BREAK_LOOP continues, and the height of the stack."""
        self.result: Any = _RUNNING

    def pop(self) -> Any:
        if not self.stack:
            refuse("its bytecode takes more from the stack than there is")
        return self.stack.pop()

    def pop_many(self, count: int) -> list[Any]:
        """Return the topmost items, in their order on the stack."""
        if count > len(self.stack):
            refuse("its bytecode takes more from the stack than there is")
        items = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        return items

    def peek(self, depth: int) -> Any:
        """Return an item of the stack, of which 1 is the topmost."""
        if not 1 <= depth <= len(self.stack):
            refuse("its bytecode takes more from the stack than there is")
        return self.stack[-depth]

    def push(self, value: Any) -> None:
        if len(self.stack) >= _MOST_STACK:
            refuse("its stack is too large")
        self.stack.append(value)


def execute(machine: Machine, frame: Frame) -> Any:
    """Return what a call returns."""
    while frame.result is _RUNNING:
        machine.charge()
        if not 0 <= frame.position < len(frame.instructions):
            refuse("its bytecode jumps to something other than an instruction")
        instruction = frame.instructions[frame.position]
        frame.position += 1
        _DO[instruction.op](machine, frame, instruction.arg)
    return frame.result


# -- variables ----------------------------------------------------------------------------------------


def _const(_machine: Machine, frame: Frame, arg: Any) -> None:
    frame.push(arg)


def _fast(_machine: Machine, frame: Frame, name: str) -> None:
    if name not in frame.locals:
        refuse(UNBOUND.reason)
    frame.push(frame.locals[name])


def _fast_and_clear(_machine: Machine, frame: Frame, name: str) -> None:
    frame.push(frame.locals.pop(name, UNBOUND))


def _store(_machine: Machine, frame: Frame, name: str) -> None:
    frame.locals[name] = frame.pop()


def _delete(_machine: Machine, frame: Frame, name: str) -> None:
    frame.locals.pop(name, None)


def _make_cell(_machine: Machine, frame: Frame, name: str) -> None:
    """MAKE_CELL: the cells exist since the call; loading the variable gives the cell, for a closure."""
    if name not in frame.cells:
        refuse("its bytecode makes a cell that its code object lacks")
    frame.locals[name] = frame.cells[name]


def _cell(_machine: Machine, frame: Frame, name: str) -> None:
    frame.push(_find_cell(frame, name))


def _find_cell(frame: Frame, name: str) -> Cell:
    if name not in frame.cells:
        refuse("its bytecode uses a cell that its code object lacks")
    return frame.cells[name]


def _deref(_machine: Machine, frame: Frame, name: str) -> None:
    frame.push(_find_cell(frame, name).content)


def _store_deref(_machine: Machine, frame: Frame, name: str) -> None:
    if name in frame.closure.code.freevars:
        refuse("it changes a variable that it shares with others")
    _find_cell(frame, name).content = frame.pop()


def _global(machine: Machine, frame: Frame, name: str) -> None:
    frame.push(machine.find_global(frame.closure, name))


def _attribute(machine: Machine, frame: Frame, name: str) -> None:
    owner = frame.pop()
    if isinstance(owner, Package):
        frame.push(find_name(owner.name, name))
    elif isinstance(owner, Object):
        frame.push(machine.get_attribute(owner, name))
    elif isinstance(owner, Unusable):
        refuse(owner.reason)
    else:
        refuse(f"it uses the attribute {escape(name, 100)} of {describe(owner)}")


def _import(_machine: Machine, frame: Frame, name: str) -> None:
    level, names = frame.pop_many(2)
    if level != 0:
        refuse("it imports a part of its own package")
    package = name.partition(".")[0] if names is None else name
    frame.push(find_package(package))


def _import_from(_machine: Machine, frame: Frame, name: str) -> None:
    owner = frame.peek(1)
    frame.push(find_name(owner.name, name) if isinstance(owner, Package) else owner)


# -- the stack ----------------------------------------------------------------------------------------


def _pop(_machine: Machine, frame: Frame, _: Any) -> None:
    frame.pop()


def _copy(_machine: Machine, frame: Frame, depth: int) -> None:
    frame.push(frame.peek(depth))


def _swap(_machine: Machine, frame: Frame, depth: int) -> None:
    lower = frame.peek(depth)
    frame.stack[-depth], frame.stack[-1] = frame.stack[-1], lower


def _rotate(_machine: Machine, frame: Frame, depth: int) -> None:
    """Move the topmost item down, to a depth."""
    frame.peek(depth)
    frame.stack.insert(len(frame.stack) - depth, frame.stack.pop())


# -- operators ----------------------------------------------------------------------------------------


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


def _subscript(_machine: Machine, frame: Frame, _: Any) -> None:
    container, key = frame.pop_many(2)
    if isinstance(container, Table) and isinstance(key, (str, int, float)):
        if key not in container.items:
            refuse("it uses a key that a dict lacks")
        frame.push(convert(container.items[key]))
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


# -- branches and loops -------------------------------------------------------------------------------


def _jump(_machine: Machine, frame: Frame, target: int) -> None:
    frame.position = target


def _jump_if(machine: Machine, frame: Frame, arg: Any) -> None:
    target, wanted = arg
    if machine.is_true(frame.pop()) is wanted:
        frame.position = target


def _jump_or_pop(machine: Machine, frame: Frame, arg: Any) -> None:
    target, wanted = arg
    if machine.is_true(frame.peek(1)) is wanted:
        frame.position = target
    else:
        frame.pop()


def _jump_if_none(_machine: Machine, frame: Frame, arg: Any) -> None:
    target, wanted = arg
    value = frame.pop()
    if isinstance(value, Unusable):
        refuse(value.reason)
    if (value is None) is wanted:
        frame.position = target


def _iterate(_machine: Machine, frame: Frame, _: Any) -> None:
    value = frame.pop()
    frame.push(value if isinstance(value, Iterator) else Iterator(require_items(value)))


def _for(_machine: Machine, frame: Frame, arg: Any) -> None:
    target, end = arg
    iterator = frame.peek(1)
    if not isinstance(iterator, Iterator):
        refuse("its bytecode loops over something other than an iterator")
    if iterator.position < len(iterator.items):
        frame.push(iterator.items[iterator.position])
        iterator.position += 1
        return
    if end == "pop":
        frame.pop()
    frame.position = target


def _setup_loop(_machine: Machine, frame: Frame, target: int) -> None:
    if len(frame.loops) >= _MOST_STACK:
        refuse("its loops are too deep")
    frame.loops.append((target, len(frame.stack)))


def _pop_block(_machine: Machine, frame: Frame, _: Any) -> None:
    if not frame.loops:
        refuse("its bytecode ends a block that it did not start")
    frame.loops.pop()


def _break(_machine: Machine, frame: Frame, _: Any) -> None:
    if not frame.loops:
        refuse("its bytecode ends a block that it did not start")
    target, height = frame.loops.pop()
    del frame.stack[height:]
    frame.position = target


# -- calls --------------------------------------------------------------------------------------------


def _call(machine: Machine, frame: Frame, arg: Any) -> None:
    count, null, names = arg
    args = frame.pop_many(count)
    _finish_call(machine, frame, args, null, names)


def _call_keywords(machine: Machine, frame: Frame, arg: Any) -> None:
    count, null = arg
    names = frame.pop()
    if type(names) is not tuple or any(type(name) is not str for name in names):
        refuse("its bytecode has invalid names of arguments")
    _finish_call(machine, frame, frame.pop_many(count), null, names)


def _finish_call(machine: Machine, frame: Frame, args: list[Any], null: str, names: tuple[str, ...]) -> None:
    if not null:
        function = frame.pop()
    else:
        below, above = frame.pop_many(2)
        function, own = (above, below) if null == "below" else (below, above)
        if own is not NULL:  # a function, and the object or iterator that it receives first
            function, own = (below, above)
            args = [own, *args]
    if len(names) > len(args) or len(set(names)) != len(names):
        refuse("its bytecode has invalid names of arguments")
    position = len(args) - len(names)
    keywords = dict(zip(names, args[position:]))
    if NULL in args[:position]:
        refuse("its bytecode calls something without an argument")
    frame.push(machine.call(function, tuple(args[:position]), keywords))


def _function(_machine: Machine, frame: Frame, arg: Any) -> None:
    """MAKE_FUNCTION: of its flags, 1 are defaults, 2 keyword defaults, 4 annotations, 8 the closure."""
    flags, has_name = arg
    if has_name:
        frame.pop()
    code = frame.pop()
    if not isinstance(code, Code):
        refuse("its bytecode makes a function without a code object")
    frame.push(Closure(code, {}, (), {}, frame.closure.globals))
    for flag in (8, 4, 2, 1):
        if flags & flag:
            _function_attribute(_machine, frame, flag)


def _function_attribute(_machine: Machine, frame: Frame, flag: int) -> None:
    value, function = frame.pop_many(2)
    if not isinstance(function, Closure):
        refuse("its bytecode changes something other than a function")
    if flag == 8:
        names = function.code.freevars
        if type(value) is not tuple or len(value) != len(names) or not all(isinstance(part, Cell) for part in value):
            refuse("its bytecode makes a function with an invalid closure")
        function = function._replace(cells=dict(zip(names, value)))
    elif flag == 1:
        if type(value) is not tuple:
            refuse("its bytecode makes a function with invalid defaults")
        function = function._replace(defaults=value)
    elif flag != 4:
        refuse("it makes a function with keyword defaults")
    frame.push(function)


def _return(_machine: Machine, frame: Frame, _: Any) -> None:
    frame.result = frame.pop()


def _raise(_machine: Machine, _frame: Frame, _: Any) -> None:
    refuse("it raises an error for some progress")


def _unsupported(_machine: Machine, _frame: Frame, arg: str) -> None:
    refuse(f"it uses {arg}" if arg.isupper() or arg.startswith("opcode") else arg)


_DO: Final[Mapping[str, Callable[[Machine, Frame, Any], None]]] = {
    "append": _append,
    "attribute": _attribute,
    "binary": _binary,
    "break": _break,
    "call": _call,
    "call_keywords": _call_keywords,
    "cell": _cell,
    "compare": _compare,
    "const": _const,
    "contains": _contains,
    "copy": _copy,
    "delete": _delete,
    "deref": _deref,
    "extend": _extend,
    "fast": _fast,
    "fast_and_clear": _fast_and_clear,
    "for": _for,
    "function": _function,
    "function_attribute": _function_attribute,
    "global": _global,
    "import": _import,
    "import_from": _import_from,
    "is": _is,
    "iterate": _iterate,
    "jump": _jump,
    "jump_if": _jump_if,
    "jump_if_none": _jump_if_none,
    "jump_or_pop": _jump_or_pop,
    "list": _list,
    "make_cell": _make_cell,
    "not": _not,
    "pop": _pop,
    "pop_block": _pop_block,
    "raise": _raise,
    "return": _return,
    "rotate": _rotate,
    "setup_loop": _setup_loop,
    "slice": _slice,
    "store": _store,
    "store_deref": _store_deref,
    "subscript": _subscript,
    "swap": _swap,
    "to_tuple": _to_tuple,
    "tuple": _tuple,
    "unary": _unary,
    "unpack": _unpack,
    "unsupported": _unsupported,
}
