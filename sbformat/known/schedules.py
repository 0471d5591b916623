"""Node decoders for schedules: SB3's classes, and the published functions that earlier releases pickled by value.

VALUES.md 13.5. Sources: SB3 ``common/utils.py``, rl-zoo3 ``utils.py``. A published function is identified by the
digest of its code. What the digest leaves out is checked, because cells and globals decide what that code computes.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import escape
from sbformat.known.changes import SCHEDULE_CLASSES
from sbformat.known.context import RUNS_WHEN_CALLED
from sbformat.known.numpy import to_float64, to_number, unpack_items
from sbformat.known.rows import UnrecognizedError, known, reject
from sbformat.known.types import (
    SB3_UTILS,
    CarriedObject,
    ConstantSchedule,
    FloatSchedule,
    Function,
    InterpolatedSchedule,
    LinearSchedule,
    Reference,
)
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pkl.tree import Global, Node

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sbformat.known.code import FunctionParts
    from sbformat.known.context import NodeContext
    from sbformat.known.published import Published
    from sbformat.known.types import Schedule
    from sbformat.pkl.tree import Call

_SCHEDULES: Final = (ConstantSchedule, LinearSchedule, FloatSchedule, InterpolatedSchedule)
_CARRIED: Final = (Function, CarriedObject)
"""A user's schedules, which have issues of their own."""
_MOST_POINTS: Final = 100_000
_EXACT: Final = 2**53
"""Integers up to this are exact as floats."""
_NO_FILE: Final = "<dynamic-code>"
"""The file name in all code that cloudpickle >= 3.1.3 pickles."""
_GLOBALS: Final = frozenset({"__package__", "__name__", "__file__"})


def _attributes(context: NodeContext, node: Call, *names: str) -> list[Any]:
    attributes = context.read_attributes(node) if node.args == () else {}
    if set(attributes) != set(names):
        reject(f"expected the attributes {', '.join(names)} of a schedule")
    return [attributes[name] for name in names]


def decode_constant_schedule(context: NodeContext, node: Call) -> ConstantSchedule:
    """Decode ``ConstantSchedule(val)`` of SB3 >= 2.7."""
    (value,) = _attributes(context, node, "val")
    made = ConstantSchedule(to_number(value, "the value of a schedule"))
    context.accept(node)
    return made


def decode_linear_schedule(context: NodeContext, node: Call) -> LinearSchedule:
    """Decode ``LinearSchedule(start, end, end_fraction)`` of SB3 >= 2.7."""
    values = _attributes(context, node, "start", "end", "end_fraction")
    made = LinearSchedule(*(to_float64(value, "a value of a schedule") for value in values))
    context.accept(node)
    return made


def decode_simple_linear_schedule(context: NodeContext, node: Call) -> LinearSchedule:
    """Decode ``SimpleLinearSchedule(initial_value)`` of rl-zoo3 >= 2.7."""
    (value,) = _attributes(context, node, "initial_value")
    made = _linear_from_initial(to_float64(value, "the value of a schedule"))
    context.accept(node)
    return made


def decode_float_schedule(context: NodeContext, node: Call) -> FloatSchedule:
    """Decode ``FloatSchedule(value_schedule)`` of SB3 >= 2.7."""
    (value,) = _attributes(context, node, "value_schedule")
    if not isinstance(value, (*_SCHEDULES, *_CARRIED, Node)):
        reject("expected a schedule in a FloatSchedule")
    context.accept(node)
    return FloatSchedule(value)


def decode_constant_function(context: NodeContext, node: Call) -> ConstantSchedule:
    """Decode a call of ``constant_fn(val)``, which :func:`~sbformat.values.encode` writes for SB3 < 2.7."""
    return ConstantSchedule(*_numbers(context, node, 1))


def decode_linear_function(context: NodeContext, node: Call) -> LinearSchedule:
    """A call of ``get_linear_fn(start, end, end_fraction)``, as :func:`decode_constant_function`."""
    return LinearSchedule(*_numbers(context, node, 3))


def _numbers(context: NodeContext, node: Call, count: int) -> list[float]:
    args: Any = node.args
    if len(args) != count or node.updates:
        reject(f"expected {count} arguments of a schedule function, and no later change")
    values = [(to_number if count == 1 else to_float64)(context.value(arg), "a value of a schedule") for arg in args]
    context.accept(node)
    return values


def decode_interpolation(context: NodeContext, node: Call, state: Any) -> InterpolatedSchedule:
    """Decode ``functools.partial(numpy.interp, xp=points, fp=values)`` of plain numbers.

    :param state: of the partial: its function, arguments, keywords and attributes
    """
    function, given, keywords, attributes = state
    first: Any = node.args[0] if len(node.args) == 1 else None  # type: ignore[arg-type, index]
    context.value(first)  # a use of the name
    is_own = id(node.updates[0].value) not in context.pickle.shared  # type: ignore[index]
    is_same = type(first) is Global and first.pair == function.pair and not first.updates and not function.updates
    if not is_own or not is_same or given != () or attributes not in (None, {}):
        reject("a partial of numpy.interp has positional arguments, attributes, two functions or a shared state")
    if type(keywords) is not dict or set(keywords) != {"xp", "fp"}:
        reject("expected xp and fp, and nothing else, as the arguments of numpy.interp")
    points, values = (_numbers_of_table(context, keywords[name]) for name in ("xp", "fp"))
    if not 1 <= len(points) == len(values):
        reject("expected as many values as points in numpy.interp, and at least one")
    if any(right <= left for left, right in pairwise(points)):
        reject("expected points that increase in numpy.interp")
    context.accept(node)
    context.accept_uses(first, function)
    return InterpolatedSchedule(points, values)


def _numbers_of_table(context: NodeContext, value: object) -> tuple[float, ...]:
    """Return the finite numbers of a list, a tuple or an array without further dimensions."""
    found: Sequence[object] = ()
    if isinstance(value, ArrayInfo):
        if len(value.shape) != 1 or value.shape[0] > _MOST_POINTS or value.dtype[1:2] not in "fiu":
            reject(f"expected at most {_MOST_POINTS:,} plain numbers in an array for numpy.interp")
        context.charge_items(value.shape[0])
        found = unpack_items(value)
    elif type(value) in (list, tuple):
        found = value  # type: ignore[assignment]
    if len(found) > _MOST_POINTS:
        reject(f"expected at most {_MOST_POINTS:,} points in numpy.interp")
    return tuple([_finite_float(part) for part in found])


def _finite_float(value: object) -> float:
    if isinstance(value, ArrayInfo) and (not value.is_scalar or value.dtype[1:2] not in "fiu"):
        reject("expected numbers in a list for numpy.interp")
    number = to_number(value, "a number of numpy.interp")
    if type(number) is bool or not math.isfinite(number) or (type(number) is int and abs(number) > _EXACT):
        reject("expected finite numbers in numpy.interp")
    return float(number)


def _linear_from_initial(value: float) -> LinearSchedule:
    return LinearSchedule(value, 0.0, 1.0)


# -- published functions ------------------------------------------------------------------------------


def find_schedule(parts: FunctionParts) -> tuple[Schedule | None, str]:
    """Return the schedule that a published function computes, or None; and why it is not published, or nothing."""
    from sbformat.known.published import PUBLISHED

    code = parts.code
    rows = PUBLISHED.get(code.digest or "", ()) if code is not None else ()
    if code is None or not rows:
        where = f"{code.filename}:{code.firstlineno}" if code is not None else "an unknown file"
        name = parts.qualname if type(parts.qualname) is str else "?"
        return None, f"the function {escape(name, 100)} ({escape(where, 200)}) is pickled by value: {RUNS_WHEN_CALLED}"
    differences = [_difference(parts, row) for row in rows]
    if "" not in differences:
        return None, f"{rows[0].qualname} has published code, but {differences[0]}"
    return _make_schedule(rows[differences.index("")], dict(zip(code.freevars, parts.closure))), ""


def _difference(parts: FunctionParts, row: Published) -> str:  # noqa: PLR0911 -- a line a check
    """Return how a function differs from the published one in what the digest leaves out, or nothing."""
    from sbformat.known.code import has_valid_line_table

    code: Any = parts.code
    filename = code.filename.replace("\\", "/")
    if filename != _NO_FILE and not (filename.endswith(row.paths) and filename.isprintable()):
        return "it names another file"
    if not row.first_lines[0] <= code.firstlineno <= row.first_lines[1]:
        return "it names another line"
    if not has_valid_line_table(code):
        return "its line table does not fit its bytecode"
    if parts.qualname not in (row.qualname, None) or parts.module not in row.modules or parts.name != code.name:
        return "it has another name or module"
    if not _is_plain_globals(parts.base_globals, row) or parts.globals not in (None, {}):
        return "global names that it uses are bound to something else"
    if (
        parts.defaults not in (None, ())
        or parts.keyword_defaults not in (None, {})
        or parts.attributes not in (None, {})
    ):
        return "it has defaults or attributes"
    if not _is_own_doc(parts.doc, code.constants) or parts.submodules not in (None, []):
        return "it has another docstring, or modules"
    if not _is_plain_annotations(parts.annotations):
        return "its annotations are not types"
    if len(parts.closure) != len(code.freevars) or code.freevars != row.cells:
        return "its closure has another number of cells"
    if not all(_is_number_or_schedule(value) for value in parts.closure):
        return "its closure holds something other than numbers and schedules"
    return ""


def _is_plain_globals(values: object, row: Published) -> bool:
    """Return whether base globals bind only the module's own name, package and file."""
    if isinstance(values, str):
        return values in row.modules
    if type(values) is not dict or not set(values) <= _GLOBALS:
        return False
    package, name, file = (values.get(key) for key in ("__package__", "__name__", "__file__"))
    return (
        name in (None, *row.modules)
        and package in (None, "", *(module.rpartition(".")[0] for module in row.modules))
        and (file is None or (type(file) is str and file.isprintable()))
    )


def _is_own_doc(doc: object, constants: tuple[object, ...]) -> bool:
    """Return whether a docstring is None, or the first constant, where the compiler puts it."""
    return doc is None or (type(doc) is str and type(constants[0]) is str and doc == constants[0])


def _is_plain_annotations(values: object) -> bool:
    return values is None or (
        type(values) is dict and all(isinstance(value, (Reference, str)) for value in values.values())
    )


def _is_number_or_schedule(value: object) -> bool:
    """Return whether a cell's content is one; functions that are not published have issues of their own."""
    if isinstance(value, (*_SCHEDULES, *_CARRIED)):
        return True
    try:
        to_number(value, "")
    except UnrecognizedError:
        return False
    return True


def _make_schedule(row: Published, closure: dict[str, Any]) -> Schedule | None:
    values = [closure[name] for name in row.cells]
    if row.role == "float":
        inner = values[0]
        known = inner.schedule if isinstance(inner, Function) and inner.schedule is not None else inner
        return FloatSchedule(known)
    if any(isinstance(value, (*_SCHEDULES, *_CARRIED)) for value in values):
        return None
    if row.role == "constant":
        return ConstantSchedule(to_number(values[0], row.cells[0]))
    try:
        numbers = {name: to_float64(value, name) for name, value in zip(row.cells, values)}
    except UnrecognizedError:
        return None
    if row.role == "initial":
        return _linear_from_initial(numbers[row.cells[0]])
    return LinearSchedule(numbers["start"], numbers["end"], numbers["end_fraction"])


# -- rows ----------------------------------------------------------------------------------------------

_CLASS: Final[dict[str, Any]] = {"uses": "value, built", "since": SCHEDULE_CLASSES}

ROWS: Final = [
    *known(SB3_UTILS, "ConstantSchedule", kind="constant_schedule", new=decode_constant_schedule, **_CLASS),
    *known(SB3_UTILS, "LinearSchedule", kind="linear_schedule", new=decode_linear_schedule, **_CLASS),
    *known(SB3_UTILS, "FloatSchedule", kind="float_schedule", new=decode_float_schedule, **_CLASS),
    *known(SB3_UTILS, "constant_fn", role="constant_function", call=decode_constant_function),
    *known(SB3_UTILS, "get_linear_fn", role="linear_function", call=decode_linear_function),
    *known("rl_zoo3.utils", "SimpleLinearSchedule", kind="simple_linear_schedule", new=decode_simple_linear_schedule),
]
