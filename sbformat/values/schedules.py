"""Schedules: SB3's classes, and the published functions that every release before them pickled by value.

FORMAT.md 13.5. Sources: SB3 ``common/utils.py``, rl-zoo3 ``utils.py``. A function is known by the digest of its code,
and what the digest leaves out is checked: its surroundings decide what published code does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import escape
from sbformat.pkl.tree import Node
from sbformat.values.context import UnrecognizedError, reject
from sbformat.values.numbers import to_float64, to_number
from sbformat.values.types import (
    CarriedObject,
    ConstantSchedule,
    FloatSchedule,
    Function,
    LinearSchedule,
    Reference,
)

if TYPE_CHECKING:
    from sbformat.globals.published import Published
    from sbformat.pkl.tree import Call
    from sbformat.values.code import FunctionParts
    from sbformat.values.context import Context
    from sbformat.values.types import Schedule

_SCHEDULES: Final = (ConstantSchedule, LinearSchedule, FloatSchedule)
_CARRIED: Final = (Function, CarriedObject)
"""Schedules of a user, which are in doubt themselves."""
_GLOBALS: Final = frozenset({"__package__", "__name__", "__file__"})


def _attributes(context: Context, node: Call, *names: str) -> list[Any]:
    attributes = context.read_attributes(node) if node.args == () else {}
    if set(attributes) != set(names):
        reject(f"a schedule has attributes other than {', '.join(names)}")
    return [attributes[name] for name in names]


def decode_constant_schedule(context: Context, node: Call) -> ConstantSchedule:
    """``ConstantSchedule(val)``, of SB3 >= 2.7."""
    (value,) = _attributes(context, node, "val")
    made = ConstantSchedule(to_number(value, "the value of a schedule"))
    context.accept(node)
    return made


def decode_linear_schedule(context: Context, node: Call) -> LinearSchedule:
    """``LinearSchedule(start, end, end_fraction)``, of SB3 >= 2.7."""
    values = _attributes(context, node, "start", "end", "end_fraction")
    made = LinearSchedule(*(to_float64(value, "a value of a schedule") for value in values))
    context.accept(node)
    return made


def decode_simple_linear_schedule(context: Context, node: Call) -> LinearSchedule:
    """``SimpleLinearSchedule(initial_value)``, of rl-zoo3 >= 2.7."""
    (value,) = _attributes(context, node, "initial_value")
    made = _from_initial(to_float64(value, "the value of a schedule"))
    context.accept(node)
    return made


def decode_float_schedule(context: Context, node: Call) -> FloatSchedule:
    """``FloatSchedule(value_schedule)``, of SB3 >= 2.7."""
    (value,) = _attributes(context, node, "value_schedule")
    if not isinstance(value, (*_SCHEDULES, *_CARRIED, Node)):
        reject("a FloatSchedule holds no schedule")
    context.accept(node)
    return FloatSchedule(value)


def decode_constant_function(context: Context, node: Call) -> ConstantSchedule:
    """A call of ``constant_fn(val)``: how a schedule is written for SB3 < 2.7 (FORMAT.md 13.7)."""
    return ConstantSchedule(*_numbers(context, node, 1))


def decode_linear_function(context: Context, node: Call) -> LinearSchedule:
    """A call of ``get_linear_fn(start, end, end_fraction)``, as :func:`decode_constant_function`."""
    return LinearSchedule(*_numbers(context, node, 3))


def _numbers(context: Context, node: Call, count: int) -> list[float]:
    args: Any = node.args
    if len(args) != count or node.updates:
        reject("a schedule is made of another number of values, or changed afterwards")
    values = [(to_number if count == 1 else to_float64)(context.value(arg), "a value of a schedule") for arg in args]
    context.accept(node)
    return values


def _from_initial(value: float) -> LinearSchedule:
    return LinearSchedule(value, 0.0, 1.0)


# -- published functions ------------------------------------------------------------------------------


def find_schedule(parts: FunctionParts) -> tuple[Schedule | None, str]:
    """Return what a function computes when it is published, or None; and why it is in doubt, or nothing.

    :param parts: of the function
    """
    from sbformat.globals.published import PUBLISHED
    from sbformat.values.load_hooks import RUNS_WHEN_CALLED

    code = parts.code
    rows = PUBLISHED.get(code.digest or "", ()) if code is not None else ()
    if code is None or not rows:
        where = f"{code.filename}:{code.firstlineno}" if code is not None else "an unknown file"
        name = parts.qualname if type(parts.qualname) is str else "?"
        return None, f"the function {escape(name, 100)} ({escape(where, 200)}) is carried by value: {RUNS_WHEN_CALLED}"
    differences = [_difference(parts, row) for row in rows]
    if "" not in differences:
        return None, f"{rows[0].qualname} has the code that was published, but {differences[0]}"
    return _computed(rows[differences.index("")], dict(zip(code.freevars, parts.closure))), ""


def _difference(parts: FunctionParts, row: Published) -> str:  # noqa: PLR0911 -- a line a check
    """Say how what the digest leaves out differs from what the library leaves, or nothing."""
    from sbformat.values.line_tables import has_valid_line_table

    code: Any = parts.code
    filename = code.filename.replace("\\", "/")
    if not filename.endswith(row.paths) or not filename.isprintable():
        return "it is said to be from another file"
    if not row.first_lines[0] <= code.firstlineno <= row.first_lines[1]:
        return "it is said to be from another line"
    if not has_valid_line_table(code):
        return "its line table is not that of its bytecode"
    if parts.qualname not in (row.qualname, None) or parts.module not in row.modules or parts.name != code.name:
        return "it has another name or module"
    if not _is_plain_globals(parts.base_globals, row) or parts.globals not in (None, {}):
        return "names that it uses are bound to something else"
    if (
        parts.defaults not in (None, ())
        or parts.keyword_defaults not in (None, {})
        or parts.attributes not in (None, {})
    ):
        return "it has defaults or attributes"
    if not _is_own_doc(parts.doc, code.constants) or parts.submodules not in (None, []):
        return "it has another text, or modules"
    if not _is_plain_annotations(parts.annotations):
        return "its annotations are no types"
    if len(parts.closure) != len(code.freevars) or code.freevars != row.cells:
        return "its closure has another number of cells"
    if not all(_is_number_or_schedule(value) for value in parts.closure):
        return "its closure holds something other than numbers and schedules"
    return ""


def _is_plain_globals(values: object, row: Published) -> bool:
    """Say whether base globals bind nothing but the module's own name, package and file."""
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
    """Say whether a doc is none, or the text that the compiler put first among the constants."""
    return doc is None or (type(doc) is str and type(constants[0]) is str and doc == constants[0])


def _is_plain_annotations(values: object) -> bool:
    return values is None or (
        type(values) is dict and all(isinstance(value, (Reference, str)) for value in values.values())
    )


def _is_number_or_schedule(value: object) -> bool:
    """Functions that are not published are in doubt themselves."""
    if isinstance(value, (*_SCHEDULES, *_CARRIED)):
        return True
    try:
        to_number(value, "")
    except UnrecognizedError:
        return False
    return True


def _computed(row: Published, closure: dict[str, Any]) -> Schedule | None:
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
        return _from_initial(numbers[row.cells[0]])
    return LinearSchedule(numbers["start"], numbers["end"], numbers["end_fraction"])
