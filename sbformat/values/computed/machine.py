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
    """The result of a function for one progress."""

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
        """Return what a function returns for a remaining progress."""
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
        result = self._execute(Frame(self, closure, _bind(closure, args, keywords), instructions))
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
            _DO[op](frame, arg)
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
_EXCEPT: Final = -2
"""The target of a block that is not a loop: try, with handlers that no error reaches."""
_FINALLY: Final = -3
"""The target of a block whose end is executed however it is left."""
_ERRORS: Final = frozenset(
    name for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, Exception)
)


class Frame:
    """One call of a function: its stack and its variables.

    The method ``do_X`` executes the instruction ``X`` with its argument; one that jumps sets ``position``.
    """

    def __init__(
        self, machine: Machine, closure: Closure, local: dict[str, Any], instructions: list[Instruction]
    ) -> None:
        code = closure.code
        if any(name not in closure.cells for name in code.freevars):
            refuse("it lacks a variable of its closure")
        own = () if machine.release.has_caches else code.cellvars  # since 3.11, MAKE_CELL makes them
        self.machine = machine
        self.closure = closure
        self.locals = local
        self.cells = {name: Cell(local.pop(name, UNBOUND)) for name in own}
        self.cells.update({name: closure.cells[name] for name in code.freevars})
        if machine.release.has_caches:  # one numbering: a variable of the closure is a local whose content is the cell
            local.update(self.cells)
        self.instructions = instructions
        self.position = 0
        self.stack: list[Any] = []
        self.loops: list[tuple[int, int]] = []
        """For SETUP_LOOP and other blocks: where BREAK_LOOP continues, and the height of the stack."""
        self.keywords: tuple[str, ...] = ()
        """The names of KW_NAMES, for the next call."""
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

    # -- variables ------------------------------------------------------------------------------------

    def do_fast(self, name: str) -> None:
        value = self.locals.get(name, UNBOUND)
        if value is UNBOUND:
            refuse(UNBOUND.reason)
        self.push(value)

    def do_store(self, name: str) -> None:
        self.locals[name] = self.pop()

    def do_delete(self, name: str) -> None:
        if self.locals.pop(name, UNBOUND) is UNBOUND:
            refuse(UNBOUND.reason)

    def do_make_cell(self, name: str) -> None:
        """MAKE_CELL: from then on, the content of the variable is a cell with its former content."""
        self.locals[name] = Cell(self.locals.get(name, UNBOUND))

    def _find_cell(self, name: str) -> Cell:
        found = (self.locals if self.machine.release.has_caches else self.cells).get(name)
        return found if isinstance(found, Cell) else refuse("its bytecode uses a cell that its code object lacks")

    def do_deref(self, name: str) -> None:
        content = self._find_cell(name).content
        if content is UNBOUND:
            refuse(UNBOUND.reason)
        self.push(content)

    def do_store_deref(self, name: str) -> None:
        if name in self.closure.code.freevars:
            refuse("it changes a variable that it shares with others")
        self._find_cell(name).content = self.pop()

    def do_global(self, name: str) -> None:
        found = self.machine.find_global(self.closure, name)
        if isinstance(found, Unusable) and name not in self.closure.globals and name not in _ERRORS:
            refuse(found.reason)
        self.push(found)

    def do_attribute(self, name: str) -> None:
        owner = self.pop()
        if isinstance(owner, Package):
            self.push(find_name(owner.name, name))
        elif isinstance(owner, Object):
            self.push(self.machine.get_attribute(owner, name))
        elif isinstance(owner, Table) and name == "get":
            self.push(Library("get", lambda _, key, default=None, /: _find_item(owner, key, default)))
        elif isinstance(owner, Unusable):
            refuse(owner.reason)
        else:
            refuse(f"it uses the attribute {escape(name, 100)} of {describe(owner)}")

    def do_import(self, name: str) -> None:
        level, names = self.pop_many(2)
        if require_int(level) != 0:
            refuse("it imports a part of its own package")
        found = find_package(name.partition(".")[0] if names is None else name)
        if isinstance(found, Unusable):
            refuse(found.reason)
        self.push(found)

    def do_import_from(self, name: str) -> None:
        owner = self.peek(1)
        found = find_name(owner.name, name) if isinstance(owner, Package) else UNBOUND
        if isinstance(found, Unusable):
            refuse(found.reason)
        self.push(found)

    # -- the stack ------------------------------------------------------------------------------------

    def do_swap(self, depth: int) -> None:
        lower = self.peek(depth)
        self.stack[-depth], self.stack[-1] = self.stack[-1], lower

    def do_rotate(self, depth: int) -> None:
        """Move the topmost item down, to a depth."""
        self.peek(depth)
        self.stack.insert(len(self.stack) - depth, self.stack.pop())

    # -- branches and loops ---------------------------------------------------------------------------

    def do_jump(self, target: int) -> None:
        self.position = target

    def do_jump_if(self, arg: Any) -> None:
        target, wanted = arg
        value = self.pop()
        if self.machine.release.needs_bool and not (isinstance(value, Number) and value.kind in ("bool", TRUTH)):
            refuse("its bytecode tests something other than a condition")
        if self.machine.is_true(value) is wanted:
            self.position = target

    def do_jump_or_pop(self, arg: Any) -> None:
        target, wanted = arg
        if self.machine.is_true(self.peek(1)) is wanted:
            self.position = target
        else:
            self.pop()

    def do_jump_if_none(self, arg: Any) -> None:
        target, wanted = arg
        value = self.pop()
        if isinstance(value, Unusable):
            refuse(value.reason)
        if (value is None) is wanted:
            self.position = target

    def do_iterate(self, _: Any) -> None:
        value = self.pop()
        if isinstance(value, List):
            object.__setattr__(
                value, "is_own", False
            )  # items that are added while it is iterated would be iterated, too
        self.push(value if isinstance(value, Iterator) else Iterator(require_items(value)))

    def do_for(self, arg: Any) -> None:
        target, end = arg
        iterator = self.peek(1)
        if not isinstance(iterator, Iterator):
            refuse("its bytecode loops over something other than an iterator")
        if iterator.is_shared:
            refuse("it uses an iterator twice")
        if iterator.position < len(iterator.items):
            self.push(iterator.items[iterator.position])
            iterator.position += 1
            return
        if end == "pop":
            self.pop()
        self.position = target

    def do_setup_loop(self, target: int) -> None:
        if len(self.loops) >= _MOST_STACK:
            refuse("its loops are too deep")
        self.loops.append((target, len(self.stack)))

    def _setup_handler(self, target: int) -> None:
        """SETUP_EXCEPT: the handler is never reached, because an error ends the run; SETUP_FINALLY: see its target."""
        self.machine.has_handlers = True
        self.do_setup_loop(target)

    def do_pop_block(self, _: Any) -> None:
        if not self.loops:
            refuse("its bytecode ends a block that it did not start")
        self.loops.pop()

    def _leave_blocks(self) -> tuple[int, int]:
        """End the blocks within a loop; return the loop, which continues."""
        while self.loops:
            target, height = self.loops[-1]
            if target >= 0:
                return target, height
            if target == _FINALLY:
                break
            self.loops.pop()
        return refuse("it leaves a block before its end")

    def do_break(self, _: Any) -> None:
        target, height = self._leave_blocks()
        self.loops.pop()
        del self.stack[height:]
        self.position = target

    def do_continue(self, target: int) -> None:
        self._leave_blocks()
        self.position = target

    # -- calls and functions --------------------------------------------------------------------------

    def do_call(self, arg: Any) -> None:
        count, null = arg
        names, self.keywords = self.keywords, ()
        self._finish_call(self.pop_many(count), null, names)

    def do_keywords(self, names: tuple[str, ...]) -> None:
        self.keywords = names

    def do_call_keywords(self, arg: Any) -> None:
        count, null = arg
        names = self.pop()
        if type(names) is not tuple or any(type(name) is not str for name in names):
            refuse("its bytecode has invalid names of arguments")
        self._finish_call(self.pop_many(count), null, names)

    def _finish_call(self, args: list[Any], null: str, names: tuple[str, ...]) -> None:
        if not null:
            function = self.pop()
        else:
            below, above = self.pop_many(2)
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
        self.push(self.machine.call(function, tuple(args[:position]), keywords))

    def do_function(self, arg: Any) -> None:
        """MAKE_FUNCTION: of its flags, 1 are defaults, 2 keyword defaults, 4 annotations, 8 the closure."""
        flags, has_name = arg
        if has_name:
            self.pop()
        code = self.pop()
        if not isinstance(code, Code):
            refuse("its bytecode makes a function without a code object")
        self.push(Closure(code, {}, (), {}, self.closure.globals))
        for flag in (8, 4, 2, 1):
            if flags & flag:
                self.do_function_attribute(flag)

    def do_function_attribute(self, flag: int) -> None:
        value, function = self.pop_many(2)
        if not isinstance(function, Closure):
            refuse("its bytecode changes something other than a function")
        if flag == 8:
            names = function.code.freevars
            if (
                type(value) is not tuple
                or len(value) != len(names)
                or not all(isinstance(part, Cell) for part in value)
            ):
                refuse("its bytecode makes a function with an invalid closure")
            function = function.replace(cells=dict(zip(names, value)))
        elif flag == 1:
            if type(value) is not tuple:
                refuse("its bytecode makes a function with invalid defaults")
            function = function.replace(defaults=value)
        elif flag != 4:
            refuse("it makes a function with keyword defaults")
        self.push(function)

    def do_return(self, _arg: Any) -> None:
        if any(target == _FINALLY for target, _ in self.loops):
            refuse("it leaves a block before its end")
        self.result = self.pop()

    def do_unsupported(self, arg: str) -> None:
        if arg.startswith("opcode") and not self.machine.release.others >> int(arg.removeprefix("opcode ")) & 1:
            message = f"it uses {arg}"
            raise OtherReleaseError(message)
        refuse(f"it uses {arg}" if arg.isupper() or arg.startswith("opcode") else arg)

    # -- operators ------------------------------------------------------------------------------------

    def do_binary(self, symbol: str) -> None:
        one, other = self.pop_many(2)
        if symbol == "+" and type(one) is type(other) and isinstance(one, (tuple, List)):
            items = require_items(one) + require_items(other)
            if len(items) > MOST_ITEMS:
                refuse("it makes a long list")
            self.push(tuple(items) if isinstance(one, tuple) else List(items))
            return
        self.push(self.machine.combine(symbol, one, other))

    def do_in_place(self, symbol: str) -> None:
        """``+=``: of a list, it would change what other variables refer to, too."""
        if isinstance(self.peek(2), (List, ArrayNumber)):
            refuse("it changes a list, dict or array")
        self.do_binary(symbol)

    def do_unary(self, symbol: str) -> None:
        number = require_number(self.pop())
        if symbol == "-":
            self.push(arithmetic.negate(number))
        elif number.kind in ("bool", "b1", TRUTH):
            refuse("it computes with the sign of a condition")
        else:
            self.push(number)

    def do_compare(self, symbol: str) -> None:
        one, other = self.pop_many(2)
        if symbol in ("==", "!=") and (one is None or other is None or isinstance(one, str) or isinstance(other, str)):
            self.push(make_number((find_key(one) == find_key(other)) is (symbol == "==")))
            return
        left, right = require_number(one), require_number(other)
        found = self.machine.compare(symbol, left, right)
        kinds = (left.kind, right.kind)
        self.push(Number(found, TRUTH if ANY in kinds else "b1" if any(map(arithmetic.is_numpy, kinds)) else "bool"))

    def do_to_bool(self, _: Any) -> None:
        self.push(make_number(self.machine.is_true(self.pop())))

    def do_not(self, _: Any) -> None:
        value = self.pop()
        if self.machine.release.needs_bool and not (isinstance(value, Number) and value.kind == "bool"):
            refuse("its bytecode tests something other than a condition")
        self.push(make_number(not self.machine.is_true(value)))

    def do_is(self, inverted: Any) -> None:
        one, other = self.pop_many(2)
        if any(isinstance(part, Unusable) for part in (one, other)):
            refuse("it compares identities")
        if one is None or other is None:
            found = one is other
        else:
            left, right = require_number(one), require_number(other)
            if "bool" not in (left.kind, right.kind):
                refuse("it compares identities")
            found = left.kind == right.kind and left.value is right.value
        self.push(make_number(found is not inverted))

    def do_contains(self, inverted: Any) -> None:
        item, container = self.pop_many(2)
        if isinstance(container, Iterator):
            refuse("it searches an iterator")
        items: Any = container.items if isinstance(container, Table) else list(map(find_key, require_items(container)))
        self.push(make_number((find_key(item) in items) is not inverted))

    def do_subscript(self, _: Any) -> None:
        container, key = self.pop_many(2)
        if isinstance(container, Table):
            found = find_key(key)
            if found not in container.items:
                refuse("it uses a key that a dict lacks")
            self.push(_get_item(container, found))
            return
        if not isinstance(container, (tuple, List, Row)):
            refuse(f"it uses an item of {describe(container)}")
        items = tuple(require_items(container))
        if isinstance(key, slice):
            made = items[key]
            self.push(
                made if type(container) is tuple else List(list(made)) if isinstance(container, List) else Row(made)
            )
            return
        index = require_number(key)
        if index.kind not in ("int", "i8") and (index.kind != "bool" or isinstance(container, Row)):
            refuse("it uses an item at a place that is not an integer")
        if not -len(items) <= index.value < len(items):
            refuse("it uses an item that a list lacks")
        if index.slope is None:
            self.machine.is_regular = False
            self.machine.check_handlers(index)
        self.push(items[int(index.value)])

    def do_slice(self, count: int) -> None:
        parts = [part if part is None else require_int(part) for part in self.pop_many(count)]
        if not 2 <= count <= 3 or parts[2:] == [0]:
            refuse("it takes an unusual part of a list")
        self.push(slice(*parts))

    def do_append(self, depth: int) -> None:
        value = self.pop()
        _extend_list(self.peek(depth), [value])

    def do_extend(self, depth: int) -> None:
        items = require_items(self.pop())
        _extend_list(self.peek(depth), items)

    def do_unpack(self, count: int) -> None:
        value = self.pop()
        items = require_items(value)
        if isinstance(value, Iterator) or len(items) != count:
            refuse("it unpacks a list of another length")
        for item in reversed(items):
            self.push(item)

    def do_dict(self, count: int) -> None:
        parts = self.pop_many(2 * count)
        self.push(Table(dict(zip(map(find_key, parts[::2]), parts[1::2])), is_own=True))

    def do_dict_of_keys(self, count: int) -> None:
        keys = require_items(self.pop())
        if len(keys) != count:
            refuse("its bytecode makes a dict with another number of keys")
        self.push(Table(dict(zip(map(find_key, keys), self.pop_many(count))), is_own=True))

    def do_cell(self, name: str) -> None:
        self.push(self._find_cell(name))

    def do_const(self, arg: Any) -> None:
        self.push(arg)

    def do_copy(self, depth: int) -> None:
        self.push(self.peek(depth))

    def do_fast_and_clear(self, name: str) -> None:
        self.push(self.locals.pop(name, UNBOUND))

    def do_list(self, count: int) -> None:
        self.push(List(self.pop_many(count)))

    def do_pop(self, _: Any) -> None:
        self.pop()

    def do_raise(self, _: Any) -> None:
        refuse("it raises an error for some progress")

    def do_setup_except(self, _: Any) -> None:
        self._setup_handler(_EXCEPT)

    def do_setup_finally(self, _: Any) -> None:
        self._setup_handler(_FINALLY)

    def do_to_tuple(self, _: Any) -> None:
        self.push(tuple(require_items(self.pop())))

    def do_tuple(self, count: int) -> None:
        self.push(tuple(self.pop_many(count)))


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


def _find_item(table: Table, key: Any, default: Any) -> Any:
    """Return what ``get`` of a dict returns."""
    found = find_key(key)
    return _get_item(table, found) if found in table.items else default


def _get_item(table: Table, key: object) -> Any:
    return table.items[key] if table.is_own else convert(table.items[key])


def _extend_list(target: Any, items: list[Any]) -> None:
    if not isinstance(target, List) or not target.is_own or len(target.items) + len(items) > MOST_ITEMS:
        refuse("it makes a long list, or changes one that it has not made")
    target.items.extend(items)


_DO: Final[Mapping[str, Callable[[Frame, Any], None]]] = {
    name.removeprefix("do_"): method for name, method in vars(Frame).items() if name.startswith("do_")
}
"""The methods of the instructions; there are no others."""
