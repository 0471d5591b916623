"""The machine that executes a schedule's instructions for one remaining progress (VALUES.md 13.5).

**What comes in.** A function of the file, as :mod:`~sbformat.values.computed.library` has it, and a progress.

**What goes out.** The number that the function returns, and the decisions on which it depends: the differences that
were compared with 0, with their slopes. As long as no decision changes, a result that has a slope is a line in p:
:mod:`~sbformat.values.computed.analysis` makes pieces of such lines.

**Invariants.** The machine performs only the instructions of ``Frame.execute`` and the functions of the library. Steps,
depth of calls, length of lists and size of numbers are bounded. It raises nothing but NotUnderstoodError, which
includes every error that Python would raise, and whatever Python's and numpy's releases compute in different ways.

Example, ``lambda p: 3e-4 if p > 0.5 else 1e-4`` for p = 0.75::

    compare ">" (p, 0.5)  ->  true; the decision is 0.25, with a slope of 1
    jump_if False         ->  no
    return 0.0003             with a slope of 0: so it is for all p down to 0.75 - 0.25 / 1
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import escape
from sbformat.known.types import ConstantSchedule, FloatSchedule, LinearSchedule, Module, Partial
from sbformat.pkl.numpy import ArrayInfo
from sbformat.values.computed import arithmetic, library
from sbformat.values.computed.arithmetic import NotUnderstoodError, Number, OtherReleaseError, make_number, refuse
from sbformat.values.computed.bytecode import decode_instructions
from sbformat.values.computed.library import Cell, Closure, Library, Object, OwnList, Unusable, convert, require_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbformat.values.computed.bytecode import Instruction, Release

_MOST_STEPS: Final = 4_000  # instructions for one progress. A schedule of four pieces, computed in a loop, takes 340
_MOST_CALLS: Final = 12  # calls within calls
_MOST_VARIABLES: Final = 500
_DECODED: Final = 16  # bytes that are decoded in the time in which an instruction is executed
_VARARGS: Final = 0x04
_KEYWORDS: Final = 0x08
_SUSPENDED: Final = 0x20 | 0x80 | 0x200  # flags of generators and coroutines
INEXACT: Final = "it depends on the last digits of a number, which differ between machines"
_HANDLES: Final = "it handles errors"
_DIVISIONS: Final = ("/", "//", "%")
_CONDITIONS: Final = ("bool", "b1")
_ERRORS: Final = frozenset(
    name for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, Exception)
)


class Machine:
    """Runs functions of one release of CPython.

    :param is_strict: whether to refuse a decision by the last digits of a number that are not the same everywhere
    """

    def __init__(self, release: Release, *, is_strict: bool = True) -> None:
        self.release = release
        self.is_strict = is_strict
        self.decoded: dict[int, list[Instruction]] = {}
        self.has_handlers = False
        """Whether errors may have another effect than to end the function."""
        self.total_steps = 0

    def run(self, function: Any, progress: float) -> Number:
        """Return what a function returns for a remaining progress.

        ``decisions`` then has the comparisons whose operands have a slope, and ``is_regular`` is whether these are all,
        and none depends on how a number is rounded.
        """
        self.steps = self.depth = 0
        self.decisions: list[arithmetic.Decision] = []
        self.is_regular = True
        try:
            found = self.call(function, (Number(progress, "float", 1.0),), {})
            number = require_number(found) if found is not None else refuse("it returns None")
            if not math.isfinite(number.value):
                refuse(arithmetic.FAILS)
        except (AttributeError, LookupError, TypeError, ValueError, RecursionError):
            # it uses one kind of object as another, or an iterator of iterators of thousands
            refuse("its bytecode is not what a compiler writes")
        except (NotUnderstoodError, ArithmeticError) as error:  # of numbers that are greater than any schedule's
            if isinstance(error, NotUnderstoodError) and str(error) != arithmetic.FAILS:
                raise
            refuse(f"{arithmetic.FAILS} at progress {progress:.6g}")
        finally:
            self.total_steps += self.steps
        if self.is_strict and not number.is_exact and not number.noise < math.inf:
            refuse(INEXACT)
        return number

    # -- numbers --------------------------------------------------------------------------------------

    def note(self, decision: arithmetic.Decision) -> None:
        """Record a decision, or where an operation begins to fail."""
        if decision.slope is None:
            self.is_regular = False
            if self.has_handlers:
                refuse(_HANDLES)
        elif decision.slope:
            self.decisions.append(decision)
        elif decision.noise and decision.is_close:
            self.is_regular = False

    def note_limit(self, number: Number, limit: float) -> None:
        """Record that an operation begins to fail, or has a step, where its operand is a limit."""
        if number.slope != 0:
            self.note(arithmetic.make_decision(number, make_number(limit)))

    def compare(self, symbol: str, one: Number, other: Number) -> bool:
        """Return the result of a comparison, which is a decision."""
        is_chosen, decision = self._decide(symbol, one, other)
        if self.is_strict and decision.is_close and not decision.is_exact:
            refuse(INEXACT)
        return is_chosen

    def _decide(self, symbol: str, one: Number, other: Number) -> tuple[bool, arithmetic.Decision]:
        left, right = arithmetic.align(one, other)
        decision = arithmetic.make_decision(left, right)
        self.note(decision)
        return arithmetic.COMPARE[symbol](left.value, right.value), decision

    def choose(self, symbol: str, one: Number, other: Number) -> Number:
        """Return the first number if the comparison holds, else the second: ``min`` and ``max``."""
        is_chosen, decision = self._decide(symbol, one, other)
        found = one if is_chosen else other
        if decision.is_exact or not decision.is_close:
            return found
        if self.is_strict and one.kind != other.kind and {one.kind, other.kind} != {"float", "f8"}:
            refuse(INEXACT)
        kind = found.kind if one.kind == other.kind else "f8"  # either one, whose values are nearly the same
        return found._replace(kind=kind, noise=decision.noise, is_exact=False)

    def combine(self, symbol: str, one: Any, other: Any) -> Number:
        """Return the result of an operator."""
        left, right = require_number(one), require_number(other)
        if symbol in _DIVISIONS:
            self.note_limit(right, 0)
        elif symbol == "**":
            self.note_limit(left, 0)
        found = arithmetic.combine(symbol, left, right)
        may_fail = right.slope != 0 if symbol in _DIVISIONS else symbol == "**"
        if may_fail and self.has_handlers and found.slope is None:
            refuse(_HANDLES)
        return found

    def apply(self, function: Callable[..., Any], operands: tuple[Number, ...], kind: str, how: str) -> Number:
        """Return the result of a function, which may fail for some progress."""
        found = arithmetic.apply(function, operands, kind, how)
        if self.has_handlers and found.slope is None:
            refuse(_HANDLES)
        return found

    def is_true(self, value: Any) -> bool:
        """Return whether a value is true."""
        if isinstance(value, Number):
            return bool(value.value) if value.kind in _CONDITIONS else self.compare("!=", value, arithmetic.ZERO)
        if value is None or type(value) in (str, tuple, list, OwnList):
            return bool(value)
        if isinstance(value, (Closure, Partial, Library)):
            return True
        return refuse(value.reason if isinstance(value, Unusable) else f"it tests {library.describe(value)}")

    # -- calls ----------------------------------------------------------------------------------------

    def call(self, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Return what a call returns."""
        match function:
            case Closure():
                return self._call_closure(function, args, keywords)
            case Library():
                self.steps += sum(len(part) for part in args if type(part) in (tuple, list, OwnList, range))
                try:
                    return function.call(self, *args, **keywords)
                except TypeError:
                    refuse(f"it calls {function.name} with unusual arguments")
            case Partial():
                if len(function.args) + len(function.keywords) > library.MOST_ITEMS:
                    refuse("it has too many arguments")
                own = {name: convert(part) for name, part in function.keywords.items()}
                inner = convert(function.function)
                return self.call(inner, (*map(convert, function.args), *args), {**own, **keywords})
            case FloatSchedule() if not keywords:
                found = self.call(convert(function.schedule), args, {})
                return arithmetic.convert(require_number(found), "float")
            case ConstantSchedule() | LinearSchedule() if len(args) == 1 and not keywords:
                return self._call_schedule(function, require_number(args[0]))
            case Object(methods={"__call__": method}, is_class=False):  # of the class, whatever attributes it has
                method = convert(method)
                if isinstance(method, Closure):
                    return self.call(method, (function, *args), keywords)
        return refuse(function.reason if isinstance(function, Unusable) else f"it calls {library.describe(function)}")

    def _call_schedule(self, schedule: ConstantSchedule | LinearSchedule, progress: Number) -> Number:
        """Return what a schedule of SB3 returns: a float of Python or of numpy, which the file does not contain."""
        if not all(type(number) in (int, float) and math.isfinite(number) for number in schedule):
            refuse("it calls a schedule whose numbers are not known")
        values = tuple(Number(float(value), arithmetic.ANY) for value in schedule)
        if isinstance(schedule, ConstantSchedule):
            return values[0]
        start, end, end_fraction = values
        done = self.combine("-", make_number(1), progress)
        if self.compare(">", done, end_fraction):
            return end
        step = self.combine("*", done, self.combine("-", end, start))
        found = self.combine("+", start, self.combine("/", step, end_fraction))
        # libraries compute it in other steps
        noise = found.noise + 4 * arithmetic.EPSILON * max(abs(start.value), abs(end.value))
        return found._replace(noise=noise, is_exact=False)

    def _call_closure(self, closure: Closure, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        self.depth += 1
        if self.depth > _MOST_CALLS:
            refuse("its calls are too deep")
        code = closure.code
        if code.flags & _SUSPENDED:
            refuse("it is a generator")
        if id(code) not in self.decoded:
            if len(code.varnames) + len(code.cellvars) + len(code.freevars) > _MOST_VARIABLES:
                refuse("it has too many variables")
            self.decoded[id(code)] = decode_instructions(code, self.release)
            self.steps += len(code.bytecode) // _DECODED
        self.has_handlers |= bool(code.exceptiontable)
        frame = Frame(self, closure, _bind(closure, args, keywords))
        instructions = self.decoded[id(code)]
        while frame.is_running:
            self.steps += 1
            if self.steps > _MOST_STEPS:
                refuse(f"it needs more than {_MOST_STEPS} steps")
            if not 0 <= frame.position < len(instructions):
                raise OtherReleaseError("its bytecode jumps to something other than an instruction")
            instruction = instructions[frame.position]
            frame.position += 1
            frame.execute(*instruction)
        self.depth -= 1
        return frame.stack.pop()


def _bind(closure: Closure, args: tuple[Any, ...], keywords: dict[str, Any]) -> dict[str, Any]:
    """Return the local variables of a function that is called, as Python binds arguments."""
    code = closure.code
    total = code.argcount + code.kwonlyargcount
    has_args, has_keywords = bool(code.flags & _VARARGS), bool(code.flags & _KEYWORDS)
    fewest = min(code.argcount, code.kwonlyargcount, code.posonlyargcount)
    if fewest < 0 or total + has_args + has_keywords > len(code.varnames):
        refuse("its code object has an invalid number of arguments")
    names = code.varnames[:total]
    bound = dict(zip(names[: code.argcount], args))
    if has_args:
        bound[code.varnames[total]] = args[code.argcount :]
    elif len(args) > code.argcount:
        refuse("it takes no argument, or is called with too many")
    if has_keywords:
        bound[code.varnames[total + has_args]] = Unusable("it uses its keyword arguments")
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


class Frame:
    """One call of a function: its stack and its variables."""

    def __init__(self, machine: Machine, closure: Closure, variables: dict[str, Any]) -> None:
        code = closure.code
        if any(name not in closure.cells for name in code.freevars):
            refuse("it lacks a variable of its closure")
        self.machine = machine
        self.closure = closure
        self.variables = variables
        """Those of the closure, and others that functions share, are cells."""
        for name in () if machine.release.has_caches else code.cellvars:  # since 3.11, MAKE_CELL makes them
            variables[name] = Cell(variables.get(name, library.UNBOUND))
        variables.update({name: closure.cells[name] for name in code.freevars})
        self.position = 0
        self.stack: list[Any] = []
        self.blocks: list[tuple[int, int]] = []
        """Where a loop of CPython 3.7 continues after BREAK_LOOP, or -1 for try; and the height of the stack."""
        self.keywords: tuple[str, ...] = ()
        """The names of the last arguments of the next call."""
        self.is_running = True

    def pop_many(self, count: int) -> list[Any]:
        """Return the topmost items, in their order on the stack."""
        return [self.stack.pop() for _ in range(count)][::-1]

    def push(self, value: Any) -> None:
        """Push a value, of which the machine may have made it; of the file it is converted here."""
        self.stack.append(value if type(value) is Number else convert(value))

    def execute(self, op: str, arg: Any, target: int) -> None:  # noqa: C901, PLR0912, PLR0915 -- a case for each
        """Execute an instruction, of which the position is after it."""
        stack, machine, variables = self.stack, self.machine, self.variables
        match op:
            case "fast":
                value = variables.get(arg, library.UNBOUND)
                if value is library.UNBOUND or (isinstance(value, Cell) and not machine.release.has_caches):
                    refuse(library.UNBOUND.reason)
                self.push(value)
            case "const":
                self.push(arg)
            case "binary":
                self.push(self.combine(arg, *self.pop_many(2)))
            case "in_place":  # of a list, it would change what other variables refer to, too
                one, other = self.pop_many(2)
                if isinstance(one, list) or (isinstance(one, Number) and one.kind == arithmetic.ARRAY):
                    refuse("it changes a list, dict or array")
                self.push(self.combine(arg, one, other))
            case "unary":
                number = require_number(stack.pop())
                if arg == "+" and number.kind in _CONDITIONS:
                    refuse("it computes with the sign of a condition")
                self.push(number if arg == "+" else arithmetic.negate(number))
            case "compare":
                self.push(self.compare(arg, *self.pop_many(2)))
            case "to_bool":
                self.push(machine.is_true(stack.pop()))
            case "not":
                self.push(not self.is_true(stack.pop()))
            case "is":
                self.push(_is_same(*self.pop_many(2)) is not bool(arg))
            case "contains":
                item, container = self.pop_many(2)
                if isinstance(container, Iterator):
                    refuse("it searches an iterator")
                items = container
                if not isinstance(container, dict):
                    items = list(map(library.find_key, library.iterate(container)))
                self.push((library.find_key(item) in items) is not arg)
            case "store":
                variables[arg] = stack.pop()
            case "fast_and_clear":
                self.push(variables.pop(arg, library.UNBOUND))
            case "make_cell":
                variables[arg] = Cell(variables.get(arg, library.UNBOUND))
            case "cell":
                self.push(variables[arg])
            case "content":
                content = stack.pop().content
                if content is library.UNBOUND:
                    refuse(library.UNBOUND.reason)
                self.push(content)
            case "store_deref":
                if arg in self.closure.code.freevars:
                    refuse("it changes a variable that it shares with others")
                variables[arg].content = stack.pop()
            case "global":
                self.push(self.find_global(arg))
            case "attribute":
                self.push(_get_attribute(stack.pop(), arg))
            case "import":
                level, names = self.pop_many(2)
                name = arg.partition(".")[0] if names is None else arg
                if library.require_int(level) != 0 or name not in library.TABLES:
                    refuse(f"it imports {escape(name, 100)}")
                self.push(Module(name))
            case "import_from":
                owner = stack[-1]
                found = library.find_name(owner.name, arg) if isinstance(owner, Module) else library.UNBOUND
                self.push(refuse(found.reason) if isinstance(found, Unusable) else found)
            case "pop":
                stack.pop()
            case "copy" | "swap" | "rotate" if not 0 < arg <= len(stack):
                raise IndexError
            case "copy":
                self.push(stack[-arg])
            case "swap":
                stack[-arg], stack[-1] = stack[-1], stack[-arg]
            case "rotate":  # the topmost item moves down
                stack.insert(len(stack) - arg, stack.pop())
            case "jump":
                self.position = target
            case "jump_if":
                if self.is_true(stack.pop()) is arg:
                    self.position = target
            case "iterate":
                self.push(library.iterate(stack.pop()))
            case "for":
                item = next(stack[-1], library.UNBOUND)
                if item is not library.UNBOUND:
                    self.push(item)
                    return
                if not machine.release.keeps_iterator:
                    stack.pop()
                self.position = target
            case "block":  # a loop, or try: its handler is never reached, because an error ends the run
                machine.has_handlers |= not arg
                self.blocks.append((target if arg else -1, len(stack)))
            case "pop_block":
                self.blocks.pop()
            case "break" | "continue":
                while self.blocks[-1][0] < 0:
                    self.blocks.pop()
                if op == "break":
                    target, height = self.blocks.pop()
                    del stack[height:]
                self.position = target
            case "keywords":
                self.keywords = stack.pop()
            case "call":
                self.call(*arg)
            case "function":
                self.push(Closure(stack.pop(), {}, self.closure.globals))
            case "function_attribute":  # 1 are defaults, 2 keyword defaults, 4 annotations, 8 the closure
                value, function = self.pop_many(2)
                if arg == 2 or (arg != 4 and type(value) is not tuple):
                    refuse("it makes a function with keyword defaults")
                if arg == 8:
                    function = function._replace(cells=dict(zip(function.code.freevars, value)))
                self.push(function._replace(defaults=value) if arg == 1 else function)
            case "return":
                del stack[:-1]
                self.is_running = False
            case "raise":
                refuse("it raises an error for some progress")
            case "subscript":
                self.push(self.get_item(*self.pop_many(2)))
            case "slice":
                self.push(slice(*[part if part is None else library.require_int(part) for part in self.pop_many(arg)]))
            case "list":
                self.push(OwnList(self.pop_many(arg)))
            case "tuple":
                self.push(tuple(self.pop_many(arg)))
            case "dict":
                parts = self.pop_many(2 * arg)
                self.push(dict(zip(map(library.find_key, parts[::2]), parts[1::2])))
            case "dict_of_keys":
                keys = list(library.iterate(stack.pop()))
                if len(keys) != arg:
                    refuse("its bytecode makes a dict with another number of keys")
                self.push(dict(zip(map(library.find_key, keys), self.pop_many(arg))))
            case "append" | "extend":
                value = stack.pop()
                items = [value] if op == "append" else list(library.iterate(value))
                owner = stack[-arg] if arg else None
                if type(owner) is not OwnList or len(owner) + len(items) > library.MOST_ITEMS:
                    refuse("it makes a long list, or changes one that it has not made")
                owner.extend(items)
            case "unpack":
                value = stack.pop()
                items = list(library.iterate(value))
                if isinstance(value, Iterator) or len(items) != arg:
                    refuse("it unpacks a list of another length")
                for item in reversed(items):
                    self.push(item)
            case _:
                if arg.startswith("opcode") and not machine.release.others >> int(arg.removeprefix("opcode ")) & 1:
                    raise OtherReleaseError(f"it uses {arg}")
                is_name = arg.isupper() or arg.startswith("opcode")
                refuse(_CHANGES.get(arg, f"it uses {arg}" if is_name else arg))

    def is_true(self, value: Any) -> bool:
        """Return whether a value is true, where newer releases test nothing but bools."""
        if self.machine.release.needs_bool and not (isinstance(value, Number) and value.kind == "bool"):
            refuse("its bytecode tests something other than a condition")
        return self.machine.is_true(value)

    def find_global(self, name: str) -> Any:
        """Return what a global name means: a value of the file, or what Python has by this name."""
        names = self.closure.globals
        if "__builtins__" in names:
            refuse("it has builtins of its own")
        found = library.TABLES["builtins"].get(name) if name not in names else names[name]
        if found is None and name not in names:
            found = Unusable(f"it uses {escape(name, 100)}, which the file does not contain")
            if name not in _ERRORS:
                refuse(found.reason)
        return found

    def combine(self, symbol: str, one: Any, other: Any) -> Any:
        """Return the result of an operator, also of two lists or tuples."""
        if symbol == "+" and {type(one), type(other)} in ({tuple}, {list}, {OwnList}, {list, OwnList}):
            if len(one) + len(other) > library.MOST_ITEMS:
                refuse("it makes a long list")
            return (*one, *other) if type(one) is tuple else OwnList([*one, *other])
        return self.machine.combine(symbol, one, other)

    def compare(self, symbol: str, one: Any, other: Any) -> Number:
        """Return the result of a comparison of numbers, or of text and None."""
        if symbol in ("==", "!=") and (one is None or other is None or isinstance(one, str) or isinstance(other, str)):
            return make_number((library.find_key(one) == library.find_key(other)) is (symbol == "=="))
        left, right = require_number(one), require_number(other)
        found = self.machine.compare(symbol, left, right)
        return Number(found, "bool" if {left.kind, right.kind} <= arithmetic.PYTHON else "b1")

    def call(self, count: int, null: str) -> None:
        """Call what is below the arguments, and below or above a NULL or the object of a method."""
        names, self.keywords = self.keywords, ()
        args = self.pop_many(count)
        function = self.stack.pop()
        if null:
            below, above = self.stack.pop(), function
            function = above if null == "below" and below is library.NULL else below
            if above is not function and (above is not library.NULL or null == "below"):
                args = [above, *args]
        if type(names) is not tuple or len(names) > len(args) or len(set(names)) != len(names):
            refuse("its bytecode has invalid names of arguments")
        if any(part is library.NULL for part in args):
            refuse(library.NULL.reason)
        position = len(args) - len(names)
        self.push(self.machine.call(function, tuple(args[:position]), dict(zip(names, args[position:]))))

    def get_item(self, container: Any, key: Any) -> Any:
        """Return ``container[key]``."""
        if isinstance(container, dict):
            found = library.find_key(key)
            return container[found] if found in container else refuse("it uses a key that a dict lacks")
        if isinstance(container, ArrayInfo):
            items: Any = list(library.iterate(container))
        elif type(container) in (tuple, list, OwnList, range):
            items = container
        else:
            refuse(f"it uses an item of {library.describe(container)}")
        if len(items) > library.MOST_ITEMS:
            refuse("it uses a long list")
        if isinstance(key, slice) and items is container:
            return OwnList(items[key]) if isinstance(items, list) else items[key]
        index = require_number(key)
        if index.kind not in ("int", "i8") and (index.kind != "bool" or isinstance(container, ArrayInfo)):
            refuse("it uses an item at a place that is not an integer")
        if not -len(items) <= index.value < len(items):
            refuse("it uses an item that a list lacks")
        if index.slope is None or index.noise:
            self.machine.is_regular = False
            if self.machine.has_handlers:
                refuse(_HANDLES)
        return items[int(index.value)]


_CHANGES: Final = {
    "STORE_ATTR": "it changes an attribute",
    "STORE_GLOBAL": "it changes a global variable",
    "STORE_SUBSCR": "it changes a list or dict",
}


def _is_same(one: Any, other: Any) -> bool:
    """Return ``one is other``, of None and bools."""
    for part in (one, other):
        if isinstance(part, Unusable):
            refuse(part.reason)
    if one is None or other is None:
        return one is other
    left, right = require_number(one), require_number(other)
    if "bool" not in (left.kind, right.kind) or "b1" in (left.kind, right.kind):
        refuse("it compares identities")
    return left.kind == right.kind and left.value is right.value


def _get_attribute(owner: Any, name: str) -> Any:
    """Return an attribute of a module, of an object of a class pickled by value, or ``get`` of a dict."""
    if isinstance(owner, Module):
        return library.find_name(owner.name, name)
    if isinstance(owner, dict) and name == "get":
        return Library("get", lambda _, key, default=None, /: convert(owner.get(library.find_key(key), default)))
    if isinstance(owner, Unusable):
        refuse(owner.reason)
    if not isinstance(owner, Object):
        refuse(f"it uses the attribute {escape(name, 100)} of {library.describe(owner)}")
    if "__getattribute__" in owner.methods:
        refuse("it uses an object that computes its attributes")
    found = convert(owner.methods.get(name))
    if type(found) not in _ATTRIBUTES:
        refuse(f"it uses an attribute {escape(name, 100)} that is not a number or method")
    if name in owner.attributes:
        return owner.attributes[name]
    if name not in owner.methods:
        refuse(f"it uses an attribute {escape(name, 100)} that an object lacks")
    return found if owner.is_class or not isinstance(found, Closure) else Partial(found, (owner,), {})


_ATTRIBUTES: Final = (type(None), str, Number, Closure, dict, tuple, list, ArrayInfo)
