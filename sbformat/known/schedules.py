"""Node decoders for schedules: SB3's classes, and the published functions that earlier releases pickled by value.

VALUES.md 13.5. Sources: SB3 ``common/utils.py``, rl-zoo3 ``utils.py``. A published function is identified by the
digest of its code. What the digest leaves out is checked, because cells and globals decide what that code computes.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import escape
from sbformat.known import types
from sbformat.known.changes import SCHEDULE_CLASSES
from sbformat.known.context import RUNS_WHEN_CALLED
from sbformat.known.numpy import to_float64, to_number, unpack_items
from sbformat.known.rows import UnrecognizedError, known, reject
from sbformat.known.types import SB3_UTILS, ConstantSchedule, FloatSchedule, InterpolatedSchedule, LinearSchedule
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pkl.tree import Global, Node

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sbformat.known.code import FunctionParts
    from sbformat.known.context import NodeContext
    from sbformat.known.published import Published
    from sbformat.known.rows import NodeDecoder
    from sbformat.known.types import Schedule
    from sbformat.pkl.tree import Call

_SCHEDULES: Final = (
    ConstantSchedule, LinearSchedule, FloatSchedule, InterpolatedSchedule,
    types.Function, types.CarriedObject,  # of a user, which have issues of their own
)  # fmt: skip
_MOST_POINTS: Final = 100_000
_EXACT: Final = 2**53  # integers up to this are exact as floats
_NO_FILE: Final = "<dynamic-code>"  # the file name in all code that cloudpickle >= 3.1.3 pickles
_GLOBALS: Final = frozenset({"__package__", "__name__", "__file__"})


def _attributes(context: NodeContext, node: Call, *names: str) -> list[Any]:
    attributes = context.read_attributes(node) if node.args == () else {}
    if set(attributes) != set(names):
        reject(f"expected the attributes {', '.join(names)} of a schedule")
    return [attributes[name] for name in names]


def _class_decoder(make: Callable[..., Schedule], *names: str) -> NodeDecoder:
    """Return the decoder of a class of SB3 >= 2.7 or rl-zoo3 >= 2.7 whose attributes are numbers."""
    read = to_number if make is ConstantSchedule else to_float64
    what = "the value of a schedule" if len(names) == 1 else "a value of a schedule"

    def decode(context: NodeContext, node: Call) -> Schedule:
        return make(*(read(value, what) for value in _attributes(context, node, *names)))

    return decode


def _function_decoder(make: Callable[..., Schedule], count: int) -> NodeDecoder:
    """Return the decoder of a call of a function of numbers, which :mod:`sbformat.values` writes for SB3 < 2.7."""
    read = to_number if make is ConstantSchedule else to_float64

    def decode(context: NodeContext, node: Call) -> Schedule:
        args: Any = node.args
        if len(args) != count or node.updates:
            reject(f"expected {count} arguments of a schedule function, and no later change")
        return make(*(read(context.value(arg), "a value of a schedule") for arg in args))

    return decode


def _linear_from_initial(value: float) -> LinearSchedule:
    return LinearSchedule(value, 0.0, 1.0)


def decode_float_schedule(context: NodeContext, node: Call) -> FloatSchedule:
    """Decode ``FloatSchedule(value_schedule)`` of SB3 >= 2.7."""
    (value,) = _attributes(context, node, "value_schedule")
    if not isinstance(value, (*_SCHEDULES, Node)):
        reject("expected a schedule in a FloatSchedule")
    return FloatSchedule(value)


def decode_interpolation(context: NodeContext, node: Call, state: Any) -> InterpolatedSchedule:
    """Decode ``functools.partial(numpy.interp, xp=points, fp=values)`` of plain numbers, with its decoded state."""
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


# -- published functions ------------------------------------------------------------------------------


def find_schedule(parts: FunctionParts) -> tuple[Schedule | None, str]:
    """Return the schedule that a published function computes, or None; and why it is not published, or nothing."""
    from sbformat.known.published import PUBLISHED

    code = parts.code
    rows = PUBLISHED.get(code.digest or "", ()) if code is not None else ()
    if code is None or not rows:
        where = f"{code.filename}:{code.firstlineno}" if code is not None else "an unknown file"
        qualname = parts.state.get("__qualname__")
        name = escape(qualname if type(qualname) is str else "?", 100)
        return None, f"the function {name} ({escape(where, 200)}) is pickled by value: {RUNS_WHEN_CALLED}"
    differences = [_difference(parts, row) for row in rows]
    if "" not in differences:
        return None, f"{rows[0].qualname} has published code, but {differences[0]}"
    return _make_schedule(rows[differences.index("")], dict(zip(code.freevars, parts.closure))), ""


def _difference(parts: FunctionParts, row: Published) -> str:  # noqa: PLR0911 -- a line a check
    """Return how a function differs from the published one in what the digest leaves out, or nothing."""
    from sbformat.known.code import has_valid_line_table

    code: Any = parts.code
    get = parts.state.get
    filename = code.filename.replace("\\", "/")
    if filename != _NO_FILE and not (filename.endswith(row.path) and filename.isprintable()):
        return "it names another file"
    if not row.first_lines[0] <= code.firstlineno <= row.first_lines[1]:
        return "it names another line"
    if not has_valid_line_table(code):
        return "its line table does not fit its bytecode"
    is_named = get("__qualname__") in (row.qualname, None) and get("__name__") == code.name
    if not is_named or get("__module__") != row.module:
        return "it has another name or module"
    if not _is_plain_globals(parts.base_globals, row) or get("__globals__") not in (None, {}):
        return "global names that it uses are bound to something else"
    empty: dict[str, Any] = {"__defaults__": (), "__kwdefaults__": {}, "__dict__": {}}
    if any(get(name) not in (None, value) for name, value in empty.items()):
        return "it has defaults or attributes"
    doc, annotations = get("__doc__"), get("__annotations__")
    is_own_doc = doc is None or (type(doc) is str and doc == code.constants[0])  # where the compiler puts it
    if not is_own_doc or get("_cloudpickle_submodules") not in (None, []):
        return "it has another docstring, or modules"
    if annotations is not None and not (
        type(annotations) is dict and all(isinstance(value, (types.Reference, str)) for value in annotations.values())
    ):
        return "its annotations are not types"
    if len(parts.closure) != len(code.freevars) or code.freevars != row.cells:
        return "its closure has another number of cells"
    if not all(isinstance(value, _SCHEDULES) or _is_number(value) for value in parts.closure):
        return "its closure holds something other than numbers and schedules"
    return ""


def _is_plain_globals(values: object, row: Published) -> bool:
    """Return whether base globals bind only the module's own name, package and file."""
    if isinstance(values, str):
        return values == row.module
    if type(values) is not dict or not set(values) <= _GLOBALS:
        return False
    package, name, file = (values.get(key) for key in ("__package__", "__name__", "__file__"))
    return (
        name in (None, row.module)
        and package in (None, "", row.module.rpartition(".")[0])
        and (file is None or (type(file) is str and file.isprintable()))
    )


def _is_number(value: object) -> bool:
    try:
        to_number(value, "")
    except UnrecognizedError:
        return False
    return True


def _make_schedule(row: Published, closure: dict[str, Any]) -> Schedule | None:
    values = [closure[name] for name in row.cells]
    if row.role == "float":
        (inner,) = values
        is_known = isinstance(inner, types.Function) and inner.schedule is not None
        return FloatSchedule(inner.schedule if is_known else inner)
    if any(isinstance(value, _SCHEDULES) for value in values):
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

_LINEAR: Final = ("start", "end", "end_fraction")
_CLASS: Final[dict[str, Any]] = {"uses": "value, built", "since": SCHEDULE_CLASSES}

ROWS: Final = [
    *known(SB3_UTILS, "ConstantSchedule", kind="constant_schedule", new=_class_decoder(ConstantSchedule, "val"),
           **_CLASS),
    *known(SB3_UTILS, "LinearSchedule", kind="linear_schedule", new=_class_decoder(LinearSchedule, *_LINEAR),
           **_CLASS),
    *known(SB3_UTILS, "FloatSchedule", kind="float_schedule", new=decode_float_schedule, **_CLASS),
    *known(SB3_UTILS, "constant_fn", role="constant_function", call=_function_decoder(ConstantSchedule, 1)),
    *known(SB3_UTILS, "get_linear_fn", role="linear_function", call=_function_decoder(LinearSchedule, 3)),
    *known("rl_zoo3.utils", "SimpleLinearSchedule", kind="simple_linear_schedule",
           new=_class_decoder(_linear_from_initial, "initial_value")),
]  # fmt: skip
