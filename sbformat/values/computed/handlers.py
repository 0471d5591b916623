"""The instructions of the machine: what each does to the stack and the variables of one call, in the table ``_DO``.

Every function of the table receives the machine, the frame and the argument of its instruction. Those that jump set
``frame.position``; ``return`` sets ``frame.result``.
"""

from __future__ import annotations

import builtins
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import escape
from sbformat.values.code import Code
from sbformat.values.computed.errors import refuse
from sbformat.values.computed.frames import MOST_STACK, RUNNING
from sbformat.values.computed.instructions import NULL
from sbformat.values.computed.library import find_name, find_package, require_items
from sbformat.values.computed.objects import (
    UNBOUND,
    Cell,
    Closure,
    Iterator,
    Library,
    Object,
    Package,
    Table,
    Unusable,
    convert,
    describe,
    is_plain,
)
from sbformat.values.computed.operators import OPERATORS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sbformat.values.computed.frames import Frame
    from sbformat.values.computed.machine import Machine


def execute(machine: Machine, frame: Frame) -> Any:
    """Return what a call returns."""
    while frame.result is RUNNING:
        machine.charge()
        if not 0 <= frame.position < len(frame.instructions):
            refuse("its bytecode jumps to something other than an instruction")
        instruction = frame.instructions[frame.position]
        frame.position += 1
        _DO[instruction.op](machine, frame, instruction.arg)
    return frame.result


_EXCEPT: Final = -2
"""The target of a block that is not a loop: try, with handlers that no error reaches."""
_FINALLY: Final = -3
"""The target of a block whose end is executed however it is left."""


# -- variables ----------------------------------------------------------------------------------------


def _const(_machine: Machine, frame: Frame, arg: Any) -> None:
    frame.push(arg)


def _fast(_machine: Machine, frame: Frame, name: str) -> None:
    if name not in frame.locals:
        refuse(UNBOUND.reason)
    if frame.locals[name] is UNBOUND:
        refuse(UNBOUND.reason)
    frame.push(frame.locals[name])


def _fast_and_clear(_machine: Machine, frame: Frame, name: str) -> None:
    frame.push(frame.locals.pop(name, UNBOUND))


def _store(_machine: Machine, frame: Frame, name: str) -> None:
    frame.locals[name] = frame.pop()


def _delete(_machine: Machine, frame: Frame, name: str) -> None:
    if frame.locals.pop(name, UNBOUND) is UNBOUND:
        refuse(UNBOUND.reason)


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
    content = _find_cell(frame, name).content
    if content is UNBOUND:
        refuse(UNBOUND.reason)
    frame.push(content)


def _store_deref(_machine: Machine, frame: Frame, name: str) -> None:
    if name in frame.closure.code.freevars:
        refuse("it changes a variable that it shares with others")
    _find_cell(frame, name).content = frame.pop()


def _global(machine: Machine, frame: Frame, name: str) -> None:
    found = machine.find_global(frame.closure, name)
    if isinstance(found, Unusable) and name not in frame.closure.globals and name not in _ERRORS:
        refuse(found.reason)
    frame.push(found)


_ERRORS: Final = frozenset(
    name for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, Exception)
)


def _attribute(machine: Machine, frame: Frame, name: str) -> None:
    owner = frame.pop()
    if isinstance(owner, Package):
        frame.push(find_name(owner.name, name))
    elif isinstance(owner, Object):
        frame.push(machine.get_attribute(owner, name))
    elif isinstance(owner, Table) and name == "get":
        frame.push(Library("get", lambda _, key, default=None, /: _find_item(owner, key, default)))
    elif isinstance(owner, Unusable):
        refuse(owner.reason)
    else:
        refuse(f"it uses the attribute {escape(name, 100)} of {describe(owner)}")


def _find_item(table: Table, key: Any, default: Any) -> Any:
    """Return what ``get`` of a dict returns."""
    if not is_plain(key) or key is None:
        refuse("it uses an unusual key of a dict")
    return convert(table.items[key]) if key in table.items else default


def _import(_machine: Machine, frame: Frame, name: str) -> None:
    level, names = frame.pop_many(2)
    if level != 0:
        refuse("it imports a part of its own package")
    package = name.partition(".")[0] if names is None else name
    found = find_package(package)
    if isinstance(found, Unusable):
        refuse(found.reason)
    frame.push(found)


def _import_from(_machine: Machine, frame: Frame, name: str) -> None:
    owner = frame.peek(1)
    found = find_name(owner.name, name) if isinstance(owner, Package) else UNBOUND
    if isinstance(found, Unusable):
        refuse(found.reason)
    frame.push(found)


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
    if iterator.is_shared:
        refuse("it uses an iterator twice")
    if iterator.position < len(iterator.items):
        frame.push(iterator.items[iterator.position])
        iterator.position += 1
        return
    if end == "pop":
        frame.pop()
    frame.position = target


def _setup_loop(_machine: Machine, frame: Frame, target: int) -> None:
    if len(frame.loops) >= MOST_STACK:
        refuse("its loops are too deep")
    frame.loops.append((target, len(frame.stack)))


def _setup_except(machine: Machine, frame: Frame, _: Any) -> None:
    """SETUP_EXCEPT: the handler is never reached, because an error ends the analysis."""
    machine.has_handlers = True
    _setup_loop(machine, frame, _EXCEPT)


def _setup_finally(machine: Machine, frame: Frame, _: Any) -> None:
    """SETUP_FINALLY: as SETUP_EXCEPT, but no jump leaves the block without the instructions at its end."""
    machine.has_handlers = True
    _setup_loop(machine, frame, _FINALLY)


def _pop_block(_machine: Machine, frame: Frame, _: Any) -> None:
    if not frame.loops:
        refuse("its bytecode ends a block that it did not start")
    frame.loops.pop()


def _leave_blocks(frame: Frame) -> tuple[int, int]:
    """End the blocks within a loop; return the loop, which continues."""
    while frame.loops:
        target, height = frame.loops[-1]
        if target >= 0:
            return target, height
        if target == _FINALLY:
            break
        frame.loops.pop()
    return refuse("it leaves a block before its end")


def _break(_machine: Machine, frame: Frame, _: Any) -> None:
    target, height = _leave_blocks(frame)
    frame.loops.pop()
    del frame.stack[height:]
    frame.position = target


def _continue(_machine: Machine, frame: Frame, target: int) -> None:
    _leave_blocks(frame)
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
        function = replace(function, cells=dict(zip(names, value)))
    elif flag == 1:
        if type(value) is not tuple:
            refuse("its bytecode makes a function with invalid defaults")
        function = replace(function, defaults=value)
    elif flag != 4:
        refuse("it makes a function with keyword defaults")
    frame.push(function)


def _return(_machine: Machine, frame: Frame, _arg: Any) -> None:
    if any(target == _FINALLY for target, _ in frame.loops):
        refuse("it leaves a block before its end")
    frame.result = frame.pop()


def _raise(_machine: Machine, _frame: Frame, _: Any) -> None:
    refuse("it raises an error for some progress")


def _unsupported(_machine: Machine, _frame: Frame, arg: str) -> None:
    refuse(f"it uses {arg}" if arg.isupper() or arg.startswith("opcode") else arg)


_DO: Final[Mapping[str, Callable[[Machine, Frame, Any], None]]] = {
    **OPERATORS,
    "attribute": _attribute,
    "break": _break,
    "call": _call,
    "call_keywords": _call_keywords,
    "cell": _cell,
    "const": _const,
    "continue": _continue,
    "copy": _copy,
    "delete": _delete,
    "deref": _deref,
    "fast": _fast,
    "fast_and_clear": _fast_and_clear,
    "for": _for,
    "function": _function,
    "function_attribute": _function_attribute,
    "global": _global,
    "import": _import,
    "import_from": _import_from,
    "iterate": _iterate,
    "jump": _jump,
    "jump_if": _jump_if,
    "jump_if_none": _jump_if_none,
    "jump_or_pop": _jump_or_pop,
    "make_cell": _make_cell,
    "pop": _pop,
    "pop_block": _pop_block,
    "raise": _raise,
    "return": _return,
    "rotate": _rotate,
    "setup_except": _setup_except,
    "setup_finally": _setup_finally,
    "setup_loop": _setup_loop,
    "store": _store,
    "store_deref": _store_deref,
    "swap": _swap,
    "unsupported": _unsupported,
}
