"""The machine that executes a schedule's instructions for one remaining progress (VALUES.md 13.5).

**What comes in.** A function of the file, as :mod:`~sbformat.values.computed.library` has it, and a progress.

**What goes out.** The number that the function returns, and the decisions on which it depends: the differences that
were compared with 0, with their slopes. As long as no decision changes, a result that has a slope is a line in p:
:mod:`~sbformat.values.computed.analysis` makes pieces of such lines.

**Invariants.** The machine performs only the instructions of ``_DO`` and the functions of the library. Steps, depth of
calls, length of lists and size of numbers are bounded. It raises nothing but NotUnderstoodError, which includes every
error that Python would raise, and whatever Python's and numpy's releases compute in different ways.

Example, ``lambda p: 3e-4 if p > 0.5 else 1e-4`` for p = 0.75::

    compare ">" (p, 0.5)  ->  true; the decision is 0.25, with a slope of 1
    jump_if False         ->  no
    return 0.0003             with a slope of 0: so it is for all p down to 0.75 - 0.25 / 1
"""

from __future__ import annotations

import builtins
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import escape
from sbformat.immutable import Record
from sbformat.known.code import Code
from sbformat.known.types import ConstantSchedule
from sbformat.values.computed import arithmetic
from sbformat.values.computed.arithmetic import (
    ANY,
    EPSILON,
    FAILS,
    TRUTH,
    Decision,
    NotUnderstoodError,
    Number,
    OtherReleaseError,
    make_number,
    refuse,
)
from sbformat.values.computed.bytecode import NULL, decode_instructions
from sbformat.values.computed.library import (
    MOST_ITEMS,
    UNBOUND,
    ArrayNumber,
    Cell,
    Closure,
    Iterator,
    Known,
    Library,
    List,
    Method,
    Object,
    Package,
    Row,
    Table,
    Unusable,
    convert,
    describe,
    find_builtin,
    find_key,
    find_name,
    find_package,
    require_int,
    require_items,
    require_number,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sbformat.values.computed.bytecode import Instruction, Release

_MOST_STEPS: Final = 4_000
"""Instructions for one progress. A schedule of four pieces, computed in a loop, takes 340."""
_MOST_CALLS: Final = 12
"""Calls within calls."""
_MOST_STACK: Final = 256
_MOST_VARIABLES: Final = 500
_DECODED: Final = 16
"""Bytes that are decoded in the time in which an instruction is executed."""
_VARARGS: Final = 0x04
_KEYWORDS: Final = 0x08
INEXACT: Final = "it depends on the last digits of a number, which differ between machines"
_SUSPENDED: Final = 0x20 | 0x80 | 0x200
"""Flags of generators and coroutines."""


class Result(Record):
    """What a function returns for one progress."""

    number: Number
    decisions: list[Decision]
    """The comparisons whose operands have a slope."""
    is_regular: bool
    """Whether these are all decisions, and none depends on how a number is rounded."""


class Machine:
    """Runs functions of one release of CPython.

    :param is_strict: whether to refuse a decision by the last digits of a number that are not the same everywhere
    """

    def __init__(self, release: Release, *, is_strict: bool = True) -> None:
        self.release = release
        self.is_strict = is_strict
        self.decoded: dict[int, list[Instruction]] = {}
        self.converted: dict[int, Any] = {}
        """Global values, by the ``id()`` of what the file has."""
        self.has_handlers = False
        """Whether errors may have another effect than to end the function."""
        self.total_steps = 0

    def run(self, function: Any, progress: float) -> Result:
        """Return what a function returns for a remaining progress.

        :raises NotUnderstoodError: when that is not a finite number, or not known here
        """
        self.steps = self.depth = 0
        self.decisions: list[Decision] = []
        self.is_regular = True
        try:
            found = self.call(function, (Number(progress, "float", 1.0),), {})
        except NotUnderstoodError as error:
            if str(error) != FAILS:
                raise
            refuse(f"{FAILS} at progress {progress:.6g}")
        except ArithmeticError:  # of numbers that are greater than all that a schedule computes with
            refuse(f"{FAILS} at progress {progress:.6g}")
        finally:
            self.total_steps += self.steps
        if found is None:
            refuse("it returns None")
        number = require_number(found)
        if not math.isfinite(number.value):
            refuse(f"{FAILS} at progress {progress:.6g}")
        if self.is_strict and not number.is_exact and not number.noise < math.inf:
            refuse(INEXACT)
        return Result(number, self.decisions, self.is_regular)

    # -- decisions ------------------------------------------------------------------------------------

    def note(self, decision: Decision) -> None:
        """Record a decision, or where an operation begins to fail."""
        if decision.slope is None:
            self.is_regular = False
            if self.has_handlers:
                refuse("it handles errors")
        elif decision.slope:
            self.decisions.append(decision)
        elif decision.noise and decision.is_close:
            self.is_regular = False

    def note_limit(self, number: Number, limit: float) -> None:
        """Record that an operation begins to fail, or has a step, where its operand is a limit."""
        if number.slope != 0:
            self.note(arithmetic.make_decision(number, make_number(limit)))

    def check_handlers(self, number: Number) -> Number:
        """Return the result of an operation that may fail for some progress."""
        if self.has_handlers and number.slope is None:
            refuse("it handles errors")
        return number

    def compare(self, symbol: str, one: Number, other: Number) -> bool:
        """Return the result of a comparison, which is a decision."""
        left, right = arithmetic.align(one, other)
        decision = arithmetic.make_decision(left, right)
        if self.is_strict and decision.is_close and not decision.is_exact:
            refuse(INEXACT)
        self.note(decision)
        return arithmetic.COMPARE[symbol](left.value, right.value)

    def choose(self, symbol: str, one: Number, other: Number) -> Number:
        """Return the first number if the comparison holds, else the second: ``min`` and ``max``."""
        left, right = arithmetic.align(one, other)
        decision = arithmetic.make_decision(left, right)
        self.note(decision)
        found = one if arithmetic.COMPARE[symbol](left.value, right.value) else other
        if decision.is_exact or not decision.is_close:
            return found
        if self.is_strict and one.kind != other.kind and {one.kind, other.kind} != {"float", "f8"}:
            refuse(INEXACT)
        kind = found.kind if one.kind == other.kind else "f8"  # either one, whose values are nearly the same
        return Number(found.value, kind, found.slope, decision.noise, is_exact=False)

    def combine(self, symbol: str, one: Any, other: Any) -> Number:
        """Return the result of an operator."""
        left, right = require_number(one), require_number(other)
        if symbol in _DIVISIONS:
            self.note_limit(right, 0)
        elif symbol == "**":
            self.note_limit(left, 0)
        found = arithmetic.combine(symbol, left, right)
        may_fail = right.slope != 0 if symbol in _DIVISIONS else symbol == "**"
        return self.check_handlers(found) if may_fail else found

    def is_true(self, value: Any) -> bool:
        """Return whether a value is true."""
        if isinstance(value, Number):
            if value.kind in ("bool", "b1", TRUTH):
                return bool(value.value)
            return self.compare("!=", value, _ZERO)
        if value is None or isinstance(value, (str, tuple)):
            return bool(value)
        if isinstance(value, List):
            return bool(value.items)
        if isinstance(value, (Closure, Method, Library)):
            return True
        return refuse(value.reason if isinstance(value, Unusable) else f"it tests {describe(value)}")

    # -- calls ----------------------------------------------------------------------------------------

    def call(self, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Return what a call returns."""
        if isinstance(function, Method):
            return self.call(function.function, (*function.args, *args), {**function.keywords, **keywords})
        if isinstance(function, Closure):
            return self._call_closure(function, args, keywords)
        if isinstance(function, Library):
            self.steps += sum(len(part.items if isinstance(part, _LISTS) else part) for part in args if _is_list(part))
            if function.name not in _OF_ARRAYS and any(isinstance(part, ArrayNumber) for part in args):
                refuse(f"it calls {function.name} with an array without dimensions")
            try:
                return function.call(self, *args, **keywords)
            except TypeError:
                return refuse(f"it calls {function.name} with unusual arguments")
        if isinstance(function, Known) and len(args) == 1 and not keywords:
            return self._call_schedule(function, require_number(args[0]))
        if isinstance(function, Object) and "__call__" in function.methods and not function.is_class:
            method = convert(function.methods["__call__"])  # of the class, whatever attributes the object has
            if isinstance(method, Closure):
                return self.call(method, (function, *args), keywords)
        return refuse(function.reason if isinstance(function, Unusable) else f"it calls {describe(function)}")

    def call_as_float(self, function: Any, args: tuple[Any, ...]) -> Number:
        """Return the result of a call as a float."""
        return arithmetic.convert(require_number(self.call(function, args, {})), "float")

    def _call_schedule(self, known: Known, progress: Number) -> Number:
        """Return what a schedule of SB3 returns."""
        values: Any = tuple(Number(value, ANY) for value in known.schedule)
        if isinstance(known.schedule, ConstantSchedule):
            return values[0]  # type: ignore[no-any-return]
        start, end, end_fraction = values
        done = self.combine("-", make_number(1), progress)
        if self.compare(">", done, end_fraction):
            return end  # type: ignore[no-any-return]
        step = self.combine("*", done, self.combine("-", end, start))
        found = self.combine("+", start, self.combine("/", step, end_fraction))
        noise = found.noise + 4 * EPSILON * max(abs(start.value), abs(end.value))  # libraries compute it in other steps
        return Number(found.value, ANY, found.slope, noise, is_exact=False)

    def _call_closure(self, closure: Closure, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        self.depth += 1
        if self.depth > _MOST_CALLS:
            refuse("its calls are too deep")
        code = closure.code
        if code.flags & _SUSPENDED:
            refuse("it is a generator")
        instructions = self.decoded.get(id(code))
        if instructions is None:
            if len(code.varnames) + len(code.cellvars) + len(code.freevars) > _MOST_VARIABLES:
                refuse("it has too many variables")
            instructions = self.decoded[id(code)] = decode_instructions(code, self.release)
            self.steps += len(code.bytecode) // _DECODED
        self.has_handlers |= bool(code.exceptiontable)
        frame = Frame(closure, _bind(closure, args, keywords), instructions, has_caches=self.release.has_caches)
        if self.release.has_caches:  # one numbering: a variable of the closure is a local whose content is the cell
            frame.locals.update((name, frame.cells[name]) for name in code.freevars)
        result = self._execute(frame)
        self.depth -= 1
        return result

    def _execute(self, frame: Frame) -> Any:
        instructions = frame.instructions
        while frame.result is _RUNNING:
            self.steps += 1
            if self.steps > _MOST_STEPS:
                refuse(f"it needs more than {_MOST_STEPS} steps")
            if not 0 <= frame.position < len(instructions):
                message = "its bytecode jumps to something other than an instruction"
                raise OtherReleaseError(message)
            op, arg = instructions[frame.position]
            frame.position += 1
            _DO[op](self, frame, arg)
        return frame.result

    # -- names ----------------------------------------------------------------------------------------

    def get_attribute(self, owner: Object, name: str) -> Any:
        """Return an attribute of an object of a class pickled by value."""
        methods = owner.methods
        if "__getattribute__" in methods:
            refuse("it uses an object that computes its attributes")
        found = convert(methods[name]) if name in methods else None
        if name in methods and not (found is None or isinstance(found, _ATTRIBUTES)):
            refuse(f"it uses an attribute {escape(name, 100)} that is not a number or method")
        if name in owner.attributes:
            return convert(owner.attributes[name])
        if name not in methods:
            refuse(f"it uses an attribute {escape(name, 100)} that an object lacks")
        return found if owner.is_class or not isinstance(found, Closure) else Method(found, (owner,), {})

    def find_global(self, closure: Closure, name: str) -> Any:
        """Return what a global name means."""
        if "__builtins__" in closure.globals:
            refuse("it has builtins of its own")
        if name not in closure.globals:
            return find_builtin(name)
        value = closure.globals[name]
        if id(value) not in self.converted:
            self.converted[id(value)] = convert(value)
        return self.converted[id(value)]


_LISTS: Final = (List, Row, Iterator)
_OF_ARRAYS: Final = ("float", "min", "max", "maximum", "minimum", "fmax", "fmin", "clip", "bool", "where")
"""Functions that take an array without dimensions as they take a number."""


def _is_list(value: Any) -> bool:
    return isinstance(value, _LISTS) or type(value) is tuple


_ZERO: Final = make_number(0)
_DIVISIONS: Final = ("/", "//", "%")
_ATTRIBUTES: Final = (str, Number, Closure, Table, tuple, List, Row)


# -- frames -------------------------------------------------------------------------------------------

_RUNNING: Final = object()
"""The result of a call that has not returned."""


class Frame:
    """One call of a function: its stack and its variables."""

    def __init__(
        self, closure: Closure, local: dict[str, Any], instructions: list[Instruction], *, has_caches: bool
    ) -> None:
        code = closure.code
        if any(name not in closure.cells for name in code.freevars):
            refuse("it lacks a variable of its closure")
        own = {name: Cell(local.pop(name, UNBOUND)) for name in code.cellvars} if not has_caches else {}
        self.closure = closure
        self.locals = local
        self.cells: dict[str, Cell] = {**own, **{name: closure.cells[name] for name in code.freevars}}
        self.instructions = instructions
        self.position = 0
        self.stack: list[Any] = []
        self.loops: list[tuple[int, int]] = []
        """Of SETUP_LOOP and other blocks: where BREAK_LOOP continues, and the height of the stack."""
        self.keywords: tuple[str, ...] = ()
        """Of KW_NAMES, for the next call."""
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


def _bind(closure: Closure, args: tuple[Any, ...], keywords: dict[str, Any]) -> dict[str, Any]:
    """Return the local variables of a function that is called, as Python binds arguments."""
    code = closure.code
    total = code.argcount + code.kwonlyargcount
    extra = bool(code.flags & _VARARGS) + bool(code.flags & _KEYWORDS)
    if min(code.argcount, code.kwonlyargcount, code.posonlyargcount) < 0 or total + extra > len(code.varnames):
        refuse("its code object has an invalid number of arguments")
    names = code.varnames[:total]
    bound = {**dict(zip(names[: code.argcount], args)), **_bind_extra(code, total, args)}
    for name, value in keywords.items():
        if name in bound or name not in names[code.posonlyargcount :]:
            refuse("it calls a function with unusual arguments")
        bound[name] = value
    defaults = dict(zip(reversed(names[: code.argcount]), reversed(closure.defaults)))
    for name in names:
        if name not in bound:
            source = defaults if name in names[: code.argcount] else closure.keyword_defaults
            if name not in source:
                refuse("it needs more arguments than the remaining progress")
            bound[name] = source[name]
    return bound


def _bind_extra(code: Code, total: int, args: tuple[Any, ...]) -> dict[str, Any]:
    """Return ``*args`` and ``**kwargs``; refuses arguments that no parameter receives."""
    found: dict[str, Any] = {}
    if code.flags & _VARARGS:
        found[code.varnames[total]] = args[code.argcount :]
    elif len(args) > code.argcount:
        refuse("it takes no argument, or is called with too many")
    if code.flags & _KEYWORDS:
        found[code.varnames[total + bool(code.flags & _VARARGS)]] = Unusable("it uses its keyword arguments")
    return found


# -- variables ----------------------------------------------------------------------------------------


def _fast(_machine: Machine, frame: Frame, name: str) -> None:
    value = frame.locals.get(name, UNBOUND)
    if value is UNBOUND:
        refuse(UNBOUND.reason)
    frame.push(value)


def _store(_machine: Machine, frame: Frame, name: str) -> None:
    frame.locals[name] = frame.pop()


def _delete(_machine: Machine, frame: Frame, name: str) -> None:
    if frame.locals.pop(name, UNBOUND) is UNBOUND:
        refuse(UNBOUND.reason)


def _make_cell(_machine: Machine, frame: Frame, name: str) -> None:
    """MAKE_CELL: from then on, the content of the variable is a cell with its former content."""
    frame.locals[name] = Cell(frame.locals.get(name, UNBOUND))


def _find_cell(machine: Machine, frame: Frame, name: str) -> Cell:
    found = (frame.locals if machine.release.has_caches else frame.cells).get(name)
    return found if isinstance(found, Cell) else refuse("its bytecode uses a cell that its code object lacks")


def _deref(machine: Machine, frame: Frame, name: str) -> None:
    content = _find_cell(machine, frame, name).content
    if content is UNBOUND:
        refuse(UNBOUND.reason)
    frame.push(content)


def _store_deref(machine: Machine, frame: Frame, name: str) -> None:
    if name in frame.closure.code.freevars:
        refuse("it changes a variable that it shares with others")
    _find_cell(machine, frame, name).content = frame.pop()


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
    found = find_key(key)
    return _get_item(table, found) if found in table.items else default


def _get_item(table: Table, key: object) -> Any:
    return table.items[key] if table.is_own else convert(table.items[key])


def _import(_machine: Machine, frame: Frame, name: str) -> None:
    level, names = frame.pop_many(2)
    if require_int(level) != 0:
        refuse("it imports a part of its own package")
    found = find_package(name.partition(".")[0] if names is None else name)
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
    value = frame.pop()
    if machine.release.needs_bool and not (isinstance(value, Number) and value.kind in ("bool", TRUTH)):
        refuse("its bytecode tests something other than a condition")
    if machine.is_true(value) is wanted:
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
    if isinstance(value, List):
        object.__setattr__(value, "is_own", False)  # items that are added while it is iterated would be iterated, too
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


_EXCEPT: Final = -2
"""The target of a block that is not a loop: try, with handlers that no error reaches."""
_FINALLY: Final = -3
"""The target of a block whose end is executed however it is left."""


def _setup_loop(_machine: Machine, frame: Frame, target: int) -> None:
    if len(frame.loops) >= _MOST_STACK:
        refuse("its loops are too deep")
    frame.loops.append((target, len(frame.stack)))


def _setup_handler(machine: Machine, frame: Frame, target: int) -> None:
    """SETUP_EXCEPT: the handler is never reached, because an error ends the run; SETUP_FINALLY: see its target."""
    machine.has_handlers = True
    _setup_loop(machine, frame, target)


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


# -- calls and functions ------------------------------------------------------------------------------


def _call(machine: Machine, frame: Frame, arg: Any) -> None:
    count, null = arg
    names, frame.keywords = frame.keywords, ()
    _finish_call(machine, frame, frame.pop_many(count), null, names)


def _keywords(_machine: Machine, frame: Frame, names: tuple[str, ...]) -> None:
    frame.keywords = names


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
    if any(part is NULL for part in args):
        refuse("its bytecode calls something without an argument")
    frame.push(machine.call(function, tuple(args[:position]), keywords))


def _function(machine: Machine, frame: Frame, arg: Any) -> None:
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
            _function_attribute(machine, frame, flag)


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


def _unsupported(machine: Machine, _frame: Frame, arg: str) -> None:
    if arg.startswith("opcode") and not machine.release.others >> int(arg.removeprefix("opcode ")) & 1:
        message = f"it uses {arg}"
        raise OtherReleaseError(message)
    refuse(f"it uses {arg}" if arg.isupper() or arg.startswith("opcode") else arg)


# -- operators ----------------------------------------------------------------------------------------


def _binary(machine: Machine, frame: Frame, symbol: str) -> None:
    one, other = frame.pop_many(2)
    if symbol == "+" and type(one) is type(other) and isinstance(one, (tuple, List)):
        items = require_items(one) + require_items(other)
        if len(items) > MOST_ITEMS:
            refuse("it makes a long list")
        frame.push(tuple(items) if isinstance(one, tuple) else List(items))
        return
    frame.push(machine.combine(symbol, one, other))


def _in_place(machine: Machine, frame: Frame, symbol: str) -> None:
    """``+=``: of a list, it would change what other variables refer to, too."""
    if isinstance(frame.peek(2), (List, ArrayNumber)):
        refuse("it changes a list, dict or array")
    _binary(machine, frame, symbol)


def _unary(_machine: Machine, frame: Frame, symbol: str) -> None:
    number = require_number(frame.pop())
    if symbol == "-":
        frame.push(arithmetic.negate(number))
    elif number.kind in ("bool", "b1", TRUTH):
        refuse("it computes with the sign of a condition")
    else:
        frame.push(number)


def _compare(machine: Machine, frame: Frame, symbol: str) -> None:
    one, other = frame.pop_many(2)
    if symbol in ("==", "!=") and (one is None or other is None or isinstance(one, str) or isinstance(other, str)):
        frame.push(make_number((find_key(one) == find_key(other)) is (symbol == "==")))
        return
    left, right = require_number(one), require_number(other)
    found = machine.compare(symbol, left, right)
    kinds = (left.kind, right.kind)
    frame.push(Number(found, TRUTH if ANY in kinds else "b1" if any(map(arithmetic.is_numpy, kinds)) else "bool"))


def _to_bool(machine: Machine, frame: Frame, _: Any) -> None:
    frame.push(make_number(machine.is_true(frame.pop())))


def _not(machine: Machine, frame: Frame, _: Any) -> None:
    value = frame.pop()
    if machine.release.needs_bool and not (isinstance(value, Number) and value.kind == "bool"):
        refuse("its bytecode tests something other than a condition")
    frame.push(make_number(not machine.is_true(value)))


def _is(_machine: Machine, frame: Frame, inverted: Any) -> None:
    one, other = frame.pop_many(2)
    if any(isinstance(part, Unusable) for part in (one, other)):
        refuse("it compares identities")
    if one is None or other is None:
        found = one is other
    else:
        left, right = require_number(one), require_number(other)
        if "bool" not in (left.kind, right.kind):
            refuse("it compares identities")
        found = left.kind == right.kind and left.value is right.value
    frame.push(make_number(found is not inverted))


def _contains(_machine: Machine, frame: Frame, inverted: Any) -> None:
    item, container = frame.pop_many(2)
    if isinstance(container, Iterator):
        refuse("it searches an iterator")
    items: Any = container.items if isinstance(container, Table) else list(map(find_key, require_items(container)))
    frame.push(make_number((find_key(item) in items) is not inverted))


def _subscript(machine: Machine, frame: Frame, _: Any) -> None:
    container, key = frame.pop_many(2)
    if isinstance(container, Table):
        found = find_key(key)
        if found not in container.items:
            refuse("it uses a key that a dict lacks")
        frame.push(_get_item(container, found))
        return
    if not isinstance(container, (tuple, List, Row)):
        refuse(f"it uses an item of {describe(container)}")
    items = tuple(require_items(container))
    if isinstance(key, slice):
        made = items[key]
        frame.push(made if type(container) is tuple else List(list(made)) if isinstance(container, List) else Row(made))
        return
    index = require_number(key)
    if index.kind not in ("int", "i8") and (index.kind != "bool" or isinstance(container, Row)):
        refuse("it uses an item at a place that is not an integer")
    if not -len(items) <= index.value < len(items):
        refuse("it uses an item that a list lacks")
    if index.slope is None:
        machine.is_regular = False
        machine.check_handlers(index)
    frame.push(items[int(index.value)])


def _slice(_machine: Machine, frame: Frame, count: int) -> None:
    parts = [part if part is None else require_int(part) for part in frame.pop_many(count)]
    if not 2 <= count <= 3 or parts[2:] == [0]:
        refuse("it takes an unusual part of a list")
    frame.push(slice(*parts))


def _append(_machine: Machine, frame: Frame, depth: int) -> None:
    value = frame.pop()
    _extend_list(frame.peek(depth), [value])


def _extend(_machine: Machine, frame: Frame, depth: int) -> None:
    items = require_items(frame.pop())
    _extend_list(frame.peek(depth), items)


def _extend_list(target: Any, items: list[Any]) -> None:
    if not isinstance(target, List) or not target.is_own or len(target.items) + len(items) > MOST_ITEMS:
        refuse("it makes a long list, or changes one that it has not made")
    target.items.extend(items)


def _unpack(_machine: Machine, frame: Frame, count: int) -> None:
    value = frame.pop()
    items = require_items(value)
    if isinstance(value, Iterator) or len(items) != count:
        refuse("it unpacks a list of another length")
    for item in reversed(items):
        frame.push(item)


def _dict(_machine: Machine, frame: Frame, count: int) -> None:
    parts = frame.pop_many(2 * count)
    frame.push(Table(dict(zip(map(find_key, parts[::2]), parts[1::2])), is_own=True))


def _dict_of_keys(_machine: Machine, frame: Frame, count: int) -> None:
    keys = require_items(frame.pop())
    if len(keys) != count:
        refuse("its bytecode makes a dict with another number of keys")
    frame.push(Table(dict(zip(map(find_key, keys), frame.pop_many(count))), is_own=True))


_DO: Final[Mapping[str, Callable[[Machine, Frame, Any], None]]] = {
    "append": _append,
    "attribute": _attribute,
    "binary": _binary,
    "break": _break,
    "call": _call,
    "call_keywords": _call_keywords,
    "cell": lambda machine, frame, name: frame.push(_find_cell(machine, frame, name)),
    "compare": _compare,
    "const": lambda _, frame, arg: frame.push(arg),
    "contains": _contains,
    "continue": _continue,
    "copy": lambda _, frame, depth: frame.push(frame.peek(depth)),
    "delete": _delete,
    "deref": _deref,
    "dict": _dict,
    "dict_of_keys": _dict_of_keys,
    "extend": _extend,
    "fast": _fast,
    "fast_and_clear": lambda _, frame, name: frame.push(frame.locals.pop(name, UNBOUND)),
    "for": _for,
    "function": _function,
    "function_attribute": _function_attribute,
    "global": _global,
    "import": _import,
    "import_from": _import_from,
    "in_place": _in_place,
    "is": _is,
    "iterate": _iterate,
    "jump": _jump,
    "jump_if": _jump_if,
    "jump_if_none": _jump_if_none,
    "jump_or_pop": _jump_or_pop,
    "keywords": _keywords,
    "list": lambda _, frame, count: frame.push(List(frame.pop_many(count))),
    "make_cell": _make_cell,
    "not": _not,
    "pop": lambda _machine, frame, _: frame.pop(),
    "pop_block": _pop_block,
    "raise": lambda *_: refuse("it raises an error for some progress"),
    "return": _return,
    "rotate": _rotate,
    "setup_except": lambda machine, frame, _: _setup_handler(machine, frame, _EXCEPT),
    "setup_finally": lambda machine, frame, _: _setup_handler(machine, frame, _FINALLY),
    "setup_loop": _setup_loop,
    "slice": _slice,
    "store": _store,
    "store_deref": _store_deref,
    "subscript": _subscript,
    "swap": _swap,
    "to_bool": _to_bool,
    "to_tuple": lambda _machine, frame, _: frame.push(tuple(require_items(frame.pop()))),
    "tuple": lambda _, frame, count: frame.push(tuple(frame.pop_many(count))),
    "unary": _unary,
    "unpack": _unpack,
    "unsupported": _unsupported,
}
"""What each instruction does to the stack and the variables of one call. Those that jump set ``frame.position``."""
