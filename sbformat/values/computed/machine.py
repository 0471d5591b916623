"""The machine that follows a schedule's instructions with an unknown remaining progress (VALUES.md 13.5).

**What comes in.** A function of the file, as :mod:`~sbformat.values.computed.objects` has it.

**What goes out.** An expression in the remaining progress, or a number.

**How.** Numbers are computed; whatever depends on the remaining progress becomes an expression. At a branch whose
condition depends on it, the machine asks :class:`Path`: a condition that is exactly known and has one result for all
progress that leads here is no choice; otherwise the path follows one branch and records the condition. The function is
then run again for the other branch, from the beginning, so that no state is ever copied. The results are joined in an
expression ``a if condition else b``.

**Invariants.** The machine performs only the operations of its tables. Steps, paths, depth of calls, length of lists
and size of numbers are bounded. It raises nothing but NotUnderstoodError, which includes every error that Python would
raise for some progress in [0, 1].

Example, ``lambda p: 3e-4 if p > 0.5 else 1e-4``::

    first run   compare ">" (p, 0.5)  ->  condition p > 0.5
                jump_if False         ->  undecided: follow True, record the condition
                return 0.0003
    second run  jump_if False         ->  False, as planned; return 0.0001
    joined      0.0003 if p > 0.5 else 0.0001
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sbformat.errors import escape
from sbformat.values.computed import operations, piecewise
from sbformat.values.computed.errors import refuse
from sbformat.values.computed.expressions import PROGRESS, Expression, apply, find_kind
from sbformat.values.computed.frames import Frame
from sbformat.values.computed.handlers import execute
from sbformat.values.computed.instructions import decode_instructions
from sbformat.values.computed.library import find_builtin
from sbformat.values.computed.objects import (
    UNBOUND,
    Cell,
    Closure,
    Known,
    Library,
    List,
    Method,
    Object,
    Scalar,
    Table,
    Unusable,
    convert,
    describe,
    is_plain,
    require_number,
)

if TYPE_CHECKING:
    from sbformat.values.code import Code
    from sbformat.values.computed.expressions import Operand
    from sbformat.values.computed.instructions import Instruction
    from sbformat.values.computed.opcodes import Release
    from sbformat.values.computed.operations import Operation
    from sbformat.values.computed.piecewise import Piecewise

_MOST_STEPS: Final = 10_000
"""Instructions of all paths. A schedule of four pieces, computed in a loop, takes 340."""
_CELLS: Final = 4
"""Cells of piecewise affine functions whose exact arithmetic takes as long as an instruction."""
_MOST_PATHS: Final = 64
_MOST_CALLS: Final = 12
"""Calls within calls."""
_VARARGS: Final = 0x04
_KEYWORDS: Final = 0x08
_SUSPENDED: Final = 0x20 | 0x80 | 0x200
"""Flags of generators and coroutines."""


_SMALL: Final = 1 << 31
_OF_INTEGERS: Final = (
    *(operations.BINARY[sign] for sign in ("+", "-", "*", "/")),
    operations.NEGATE,
    *operations.COMPARE.values(),
)
"""Operations that give the same for integers of numpy as for floats."""
_OF_TRUTHS: Final = (operations.FLOAT, operations.NOT, operations.INT, *operations.COMPARE.values())
"""Operations that give the same for a bool of numpy as for one of Python."""

_DIVISIONS: Final = tuple(operations.BINARY[sign] for sign in ("/", "//", "%"))


def _is_exact(operand: Operand) -> bool:
    """Return whether all points at which an operation on an operand may fail are known."""
    return not isinstance(operand, Expression) or operand.affine is not None


class Step(NamedTuple):
    """What a run computed or decided, for trials with numbers."""

    expression: Expression
    expected: bool | None = None
    """The truth of a condition, on which this run depends."""
    is_choice: bool = False
    """Whether another run follows the other branch."""


class Trace(NamedTuple):
    """All that one run computed, in order."""

    steps: list[Step]
    result: Operand


class Path:
    """The conditions of one run, and the progress for which they all hold."""

    def __init__(self, plan: tuple[bool, ...]) -> None:
        self.plan = plan
        self.conditions: list[Expression] = []
        self.steps: list[Step] = []
        self.known: dict[int, bool] = {}
        """The truth of conditions, by identity: ``steps`` keeps them all."""
        self.points: Piecewise = piecewise.make_constant(1)
        """The set of progress that leads here, as far as conditions are exactly known."""

    def decide(self, condition: Expression) -> bool:
        """Return which branch this run follows."""
        exact = condition.affine
        if exact is not None:
            where_true = piecewise.intersect(self.points, exact, inverted=False)
            where_false = piecewise.intersect(self.points, exact, inverted=True)
            if where_true is None or where_false is None:
                refuse("it has too many pieces")
            if piecewise.is_empty(where_false) or piecewise.is_empty(where_true):
                found = piecewise.is_empty(where_false)
                self.steps.append(Step(condition, found))
                return found
        index = len(self.conditions)
        choice = self.plan[index] if index < len(self.plan) else True
        self.conditions.append(condition)
        self.steps.append(Step(condition, choice, is_choice=True))
        if exact is not None and where_true is not None and where_false is not None:
            self.points = where_true if choice else where_false
        return choice


class Machine:
    """Runs a function of one release for all progress in [0, 1]."""

    def __init__(self, release: Release) -> None:
        self.release = release
        self.steps = 0
        self.paths = 0
        self.depth = 0
        self.path = Path(())
        self.decoded: dict[int, list[Instruction]] = {}
        self.traces: list[Trace] = []
        self.has_handlers = False
        """Whether errors may have another effect than to end the function."""
        self.uses_numpy = False
        self.asks_for_types = False
        """Whether it does what depends on whether a number is Python's or numpy's."""

    def run(self, function: Any) -> Operand:
        """Return what a function returns for the remaining progress.

        :raises NotUnderstoodError: when it is not a pure function of it that is known here
        """
        found = self._explore(function, ())
        if self.uses_numpy and self.asks_for_types:
            refuse("it depends on whether a number is numpy's")
        return found

    def _explore(self, function: Any, plan: tuple[bool, ...]) -> Operand:
        self.paths += 1
        if self.paths > _MOST_PATHS:
            refuse("it has too many branches")
        self.path = Path(plan)
        self.depth = 0
        result = self.call(function, (PROGRESS,), {})
        if result is None:
            refuse("it returns None")
        found = self.require_number(result)
        conditions = self.path.conditions
        self.traces.append(Trace(self.path.steps, found))
        for index in reversed(range(len(plan), len(conditions))):
            followed = plan + (True,) * (index - len(plan))
            other = self._explore(function, (*followed, False))
            self.charge()
            found = apply(operations.IF, conditions[index], found, other)
        return found

    # -- what instructions need -----------------------------------------------------------------------

    def charge(self, steps: int = 1) -> None:
        """Count instructions, or work that takes as long."""
        self.steps += steps
        if self.steps > _MOST_STEPS:
            refuse(f"it needs more than {_MOST_STEPS} steps")

    def require_number(self, value: Any) -> Operand:
        """Return a value that is a number or an expression; a number of numpy becomes a float."""
        self.uses_numpy |= isinstance(value, Scalar)
        return require_number(value)

    def calculate(self, operation: Operation, *values: Any) -> Operand:
        """Return the result of an operation on values, of which integers and numbers of numpy do not mix."""
        if any(isinstance(part, Scalar) for part in values) and any(type(part) in (int, bool) for part in values):
            if operation not in _OF_INTEGERS:
                refuse("it computes with integers of numpy")
            values = tuple(float(part) if type(part) is int and abs(part) < _SMALL else part for part in values)
            if any(type(part) in (int, bool) for part in values):
                refuse("it computes with integers of numpy")
        if all(isinstance(part, Scalar) for part in values) and operation not in _OF_INTEGERS:
            refuse("it computes with integers of numpy")
        return self.apply(operation, *map(self.require_number, values))

    def apply(self, operation: Operation, *operands: Operand) -> Operand:
        """Return the result of an operation: a number, or an expression."""
        sizes = (len(part.affine.cells) if isinstance(part, Expression) and part.affine else 0 for part in operands)
        self.charge(1 + sum(sizes) // _CELLS)
        chosen = operands[1:] if operation is operations.IF else operands
        if operation not in _OF_TRUTHS and any(find_kind(part) == "bool" for part in chosen):
            self.asks_for_types = True  # numpy's True + True is True
        critical = operands[1:] if operation in _DIVISIONS else operands
        if self.has_handlers and operation.can_fail and not all(map(_is_exact, critical)):
            refuse("it handles errors")
        made = apply(operation, *operands)
        if isinstance(made, Expression) and not any(made is part for part in operands):
            self.path.steps.append(Step(made))
        return made

    def is_true(self, value: Any) -> bool:
        """Return whether a value is true, on this path."""
        if isinstance(value, Expression):
            is_condition = value.kind == "bool"
            condition = value if is_condition else self.apply(operations.COMPARE["!="], value, 0)
            if not isinstance(condition, Expression):
                return bool(condition)
            exact = condition.affine
            if id(condition) not in self.path.known:
                self.charge(1 + len(self.path.points.cells) + len(exact.cells) if exact else 1)
                self.path.known[id(condition)] = self.path.decide(condition)
            return self.path.known[id(condition)]
        if is_plain(value) or type(value) is tuple:
            return bool(value)
        if isinstance(value, List):
            return bool(value.items)
        if isinstance(value, Scalar):
            self.uses_numpy = True
            return bool(require_number(value))
        if isinstance(value, (Closure, Method, Library)):
            return True
        return refuse(value.reason if isinstance(value, Unusable) else f"it tests {describe(value)}")

    def call(self, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Return what a call returns."""
        if isinstance(function, Method):
            return self.call(function.function, (*function.args, *args), {**function.keywords, **keywords})
        if isinstance(function, Closure):
            return self._call_closure(function, args, keywords)
        if isinstance(function, Library):
            try:
                return function.call(self, *args, **keywords)
            except TypeError:
                return refuse(f"it calls {function.name} with unusual arguments")
        if isinstance(function, Known) and len(args) == 1 and not keywords:
            return _apply_schedule(self, function, self.require_number(args[0]))
        if isinstance(function, Object) and "__call__" in function.methods and not function.is_class:
            method = convert(function.methods["__call__"])  # of the class, whatever attributes the object has
            if isinstance(method, Closure):
                return self.call(method, (function, *args), keywords)
        return refuse(function.reason if isinstance(function, Unusable) else f"it calls {describe(function)}")

    def call_as_float(self, function: Any, args: tuple[Any, ...]) -> Operand:
        """Return the result of a call as a float."""
        return self.apply(operations.FLOAT, self.require_number(self.call(function, args, {})))

    def get_attribute(self, owner: Object, name: str) -> Any:
        """Return an attribute of an object of a class pickled by value."""
        methods = owner.methods
        if "__getattribute__" in methods:
            refuse("it uses an object that computes its attributes")
        found = convert(methods[name]) if name in methods else None
        if name in methods and not (is_plain(found) or isinstance(found, (Closure, Scalar, Table, tuple, List))):
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
        return convert(closure.globals[name]) if name in closure.globals else find_builtin(name)

    # -- calls of functions of the file ---------------------------------------------------------------

    def _call_closure(self, closure: Closure, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        self.depth += 1
        if self.depth > _MOST_CALLS:
            refuse("its calls are too deep")
        code = closure.code
        if code.flags & _SUSPENDED:
            refuse("it is a generator")
        instructions = self.decoded.get(id(code))
        if instructions is None:
            instructions = self.decoded[id(code)] = decode_instructions(code, self.release)
        self.has_handlers |= bool(code.exceptiontable)
        frame = Frame(closure, _bind(closure, args, keywords), instructions)
        frame.cells = _make_cells(closure, frame.locals)
        if self.release.has_caches:  # one numbering: a variable of the closure is a local whose content is the cell
            frame.locals.update((name, frame.cells[name]) for name in code.freevars)
        result = execute(self, frame)
        self.depth -= 1
        return result


def _make_cells(closure: Closure, local: dict[str, Any]) -> dict[str, Cell]:
    """Return the cells of a function: its own, with the arguments that are among them, and those of its closure."""
    code = closure.code
    missing = [name for name in code.freevars if name not in closure.cells]
    if missing:
        refuse("it lacks a variable of its closure")
    own = {name: Cell(local.get(name, UNBOUND)) for name in code.cellvars}
    return {**own, **{name: closure.cells[name] for name in code.freevars}}


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


def _apply_schedule(machine: Machine, known: Known, progress: Operand) -> Operand:
    """Return what a schedule of SB3 returns."""
    schedule: Any = known.schedule
    values = tuple(schedule)
    if len(values) == 1:
        return values[0]  # type: ignore[no-any-return]
    start, end, end_fraction = values
    done = machine.apply(operations.SUBTRACT, 1, progress)
    step = machine.apply(operations.MULTIPLY, done, machine.apply(operations.SUBTRACT, end, start))
    line = machine.apply(operations.ADD, start, machine.apply(operations.DIVIDE, step, end_fraction))
    is_over = machine.apply(operations.COMPARE[">"], done, end_fraction)
    if isinstance(is_over, Expression):
        return machine.apply(operations.IF, is_over, end, line)
    return end if is_over else line
