"""Render decoded values for reports: as JSON for programs, as one line for people (VALUES.md 13).

The output is bounded: deep values and long lists are shortened, and no more than 2,000 parts are rendered.
"""

from __future__ import annotations

import contextlib
import json
import math
import struct
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import escape
from sbformat.known import spaces, types
from sbformat.known.numpy import unpack_items
from sbformat.known.rows import UnrecognizedError
from sbformat.known.sb3 import EXAMINED_KEYS
from sbformat.known.types import CarriedObject, Function, InterpolatedSchedule, LinearSchedule, Reference, Value
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pkl.tree import Call, Dict, Node
from sbformat.pth.values import TensorInfo
from sbformat.values.computed import ComputedSchedule
from sbformat.values.schedule_meaning import SAMPLED, describe_samples, find_meaning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sbformat.values.schedule_meaning import ScheduleMeaning

_DEEPEST: Final = 12
_PARTS: Final = 2000
_ITEMS: Final = 64
_CHARACTERS: Final = 200
_BITS: Final = 64
_INLINE: Final = 4
_REPORT_CHARACTERS: Final = 1 << 24  # characters of JSON in all values of one report
_ROW_CHARACTERS: Final = 16
FROM_BYTECODE: Final = "understood from bytecode"


def render_json(value: object, key: str | None = None) -> Any:
    """Return a decoded value as JSON: plain values as they are, any other as an object with its ``kind``.

    That of a user's schedule has ``computes``: what was understood of its bytecode.

    :param value: as :func:`sbformat.values.decode` returns it
    :param key: the key of ``data`` that has it: functions are examined under those of schedules
    """
    made = _json(value, count(1), 0)
    found = find_meaning(value, examines=key in EXAMINED_KEYS)
    if found.is_from_bytecode or isinstance(found.function, Function):
        made["computes"] = _describe_meaning(found)
    return made


class ValueRenderer:
    """Renders the values of one report as JSON: a small file cannot make a report of gigabytes.

    :param characters: of JSON in all values together; further values are ``{"kind": "more"}``
    """

    def __init__(self, characters: int = _REPORT_CHARACTERS) -> None:
        self._left = characters

    def render(self, value: object, key: str | None = None) -> Any:
        """Return a decoded value as :func:`render_json` does, while there is space for it."""
        if self._left <= 0:
            return {"kind": "more"}
        made = render_json(value, key)
        self._left -= _ROW_CHARACTERS + (len(json.dumps(made)) if isinstance(made, (str, list, dict)) else 0)
        return made


def _json(value: object, parts: Iterator[int], depth: int) -> Any:
    if next(parts) > _PARTS or depth > _DEEPEST:
        return {"kind": "more"}
    if value is None or isinstance(value, (bool, float, str, int, bytes, bytearray)):
        return _scalar(value)
    if isinstance(value, ArrayInfo):
        return _array(value)
    if isinstance(value, TensorInfo):
        return {"kind": "tensor", "dtype": value.dtype, "shape": list(value.shape)}
    if isinstance(value, Function):
        return _function(value, parts, depth)
    if isinstance(value, (Node, types.Cycle)):
        return {"kind": "opaque", "text": render_line(value)}
    if isinstance(value, (dict, Dict)):
        return _mapping(value, parts, depth)
    if isinstance(value, Value):
        kind = "reference" if type(value) is Reference else type(value).__name__
        return {"kind": kind, **_fields(value, parts, depth)}
    return _items(value, parts, depth)


def _scalar(value: object) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _CHARACTERS else {"kind": "text", "characters": len(value)}
    if isinstance(value, (bytes, bytearray)):
        return {"kind": "bytes", "bytes": len(value)}
    if isinstance(value, int) and value.bit_length() > _BITS:
        return {"kind": "int", "bits": value.bit_length()}
    return value


def _items(value: Any, parts: Iterator[int], depth: int) -> Any:
    """Render a list of any kind, or a date or path as text."""
    if not hasattr(value, "__len__"):
        return {"kind": type(value).__name__, "text": escape(str(value), _CHARACTERS)}
    items = sorted(value, key=render_line) if isinstance(value, (set, frozenset)) else value  # others have an order
    shown = [_json(item, parts, depth + 1) for item, _ in zip(items, range(_ITEMS))]
    if isinstance(value, (list, tuple)) and len(value) == len(shown):
        return shown
    made = {"kind": type(value).__name__, "length": len(value), "items": shown}
    if getattr(value, "maxlen", None) is not None:
        made["maxlen"] = value.maxlen
    return made


def _mapping(value: Any, parts: Iterator[int], depth: int) -> Any:
    pairs = value.items() if isinstance(value, dict) else value
    shown = {}
    for (key, item), _ in zip(pairs, range(_ITEMS)):
        name = escape(key if isinstance(key, str) else render_line(key), _CHARACTERS)
        shown[name] = _json(item, parts, depth + 1)
    return shown if len(value) <= _ITEMS else {"kind": "dict", "length": len(value), "items": shown}


def _fields(value: Any, parts: Iterator[int], depth: int) -> dict[str, Any]:
    """Return the fields of a value, a random generator by its kind alone, and a table by samples."""
    if isinstance(value, InterpolatedSchedule):
        return {"points": len(value.values), "samples": [value.sample(progress) for progress in SAMPLED]}
    made = {}
    for name, part in value.shown_fields():
        if isinstance(part, types.RandomState):
            made[name] = part.bit_generator
        elif isinstance(part, Reference):
            made[name] = str(part)
        else:
            made[name] = _json(part, parts, depth + 1)
    return made


def _array(value: ArrayInfo) -> dict[str, Any]:
    made: dict[str, Any] = {"kind": "scalar" if value.is_scalar else "array", "dtype": value.dtype}
    if not value.is_scalar:
        made["shape"] = list(value.shape)
    try:
        items = unpack_items(value)
    except UnrecognizedError:
        return made
    if value.is_scalar:
        return {**made, "value": items[0]}
    if len(items) <= _ITEMS:
        return {**made, "items": list(items)}
    return {**made, "min": min(items), "max": max(items)}


def _function(value: Function, parts: Iterator[int], depth: int) -> dict[str, Any]:
    made: dict[str, Any] = {"kind": "function", "qualname": escape(value.qualname, _CHARACTERS)}
    if value.module is not None:
        made["module"] = escape(value.module, _CHARACTERS)
    if value.code is not None:
        made["file"] = escape(value.code.filename, _CHARACTERS)
        made["line"] = value.code.firstlineno
        made["digest"] = value.digest
    if value.schedule is not None:
        made["schedule"] = _json(value.schedule, parts, depth + 1)
    made["closure"] = _mapping(value.closure, parts, depth)
    return made


def _describe_meaning(found: ScheduleMeaning) -> dict[str, Any]:
    """Return what a user's function computes, or why that is not understood."""
    if found.schedule is None:
        return {"kind": "unknown", "text": escape(found.reason, _CHARACTERS)}
    if isinstance(found.schedule, ComputedSchedule):
        return {"kind": "ComputedSchedule", "samples": [found.schedule.sample(progress) for progress in SAMPLED]}
    return {"kind": type(found.schedule).__name__, **vars(found.schedule)}


# -- a line for people --------------------------------------------------------------------------------


def render_line(value: object, key: str | None = None) -> str:
    """Return a decoded value as one line, escaped and bounded.

    :param value: as :func:`sbformat.values.decode` returns it
    :param key: the key of ``data`` that has it: functions are examined under those of schedules
    """
    found = find_meaning(value, examines=key in EXAMINED_KEYS)
    if found.function is None or found.schedule is None:
        return render_plain(value)
    function = found.function
    name = function.type.name if isinstance(function, CarriedObject) else getattr(function, "qualname", "a partial")
    return escape(f"{_render(found.schedule, 0)} ({FROM_BYTECODE}), from {name}", _CHARACTERS)


def render_plain(value: object) -> str:
    """Return a decoded value as :func:`render_line` does, without examining functions."""
    return escape(_render(value, 0), _CHARACTERS)


def _render(value: Any, depth: int) -> str:
    if depth > _INLINE:
        return "\u2026"
    if value is None or isinstance(value, (bool, float)):
        return str(value)
    if isinstance(value, int):
        return str(value) if value.bit_length() <= _BITS else f"an integer of {value.bit_length()} bits"
    if isinstance(value, str):
        return repr(value[:_CHARACTERS])
    for kind, render in _RENDERERS:
        if isinstance(value, kind):
            return render(value, depth + 1)
    if isinstance(value, Value):
        return f"{type(value).__name__}({_joined(value, depth + 1)})"
    if hasattr(value, "__len__"):
        return f"{type(value).__name__} of {len(value)}" if len(value) else f"empty {type(value).__name__}"
    return str(value)


def _joined(values: Iterable[object], depth: int) -> str:
    parts = [_render(value, depth) for value, _ in zip(values, range(_INLINE * 2))]
    return ", ".join(parts)


def _pairs(value: Any, depth: int) -> str:
    items = list(zip(value.items() if isinstance(value, dict) else value, range(_INLINE * 3)))
    shown = ", ".join(f"{_plain_key(key, depth)}: {_render(part, depth)}" for (key, part), _ in items)
    return "{" + shown + (", \u2026}" if len(value) > len(items) else "}")


def _plain_key(key: object, depth: int) -> str:
    """Render a key without its parts: keys may contain others, to any depth."""
    return key[:_CHARACTERS] if isinstance(key, str) else _render(key, max(depth, _INLINE))


def _list(value: Any, depth: int) -> str:
    if len(value) > _INLINE * 2:
        return f"{type(value).__name__} of {len(value)}"
    return f"[{_joined(value, depth)}]"


def _shape(shape: tuple[int, ...]) -> str:
    return "(" + ", ".join(map(str, shape[: _INLINE * 2])) + ("," if len(shape) == 1 else "") + ")"


def _bounds(value: ArrayInfo) -> str:
    """Render all bounds when they are few, and their range otherwise."""
    try:
        items = unpack_items(value)
    except UnrecognizedError:
        return f"array of {value.dtype}"
    if not items:
        return "none"
    if len(set(items)) == 1:
        return _digits(items[0], value.dtype)
    if len(items) <= _INLINE:
        return f"[{', '.join(_digits(item, value.dtype) for item in items)}]"
    return f"{_digits(min(items), value.dtype)} to {_digits(max(items), value.dtype)}"


def _digits(item: float, dtype: str) -> str:
    """Render a number with as many digits as its dtype needs: a float32 of 4.8 is not 4.800000190734863."""
    code = {"f4": "<f", "f2": "<e"}.get(dtype[1:])
    if code is None or not math.isfinite(item):
        return str(item)
    for precision in range(1, 10):
        text = f"{item:.{precision}g}"
        with contextlib.suppress(OverflowError):
            if struct.pack(code, float(text)) == struct.pack(code, item):
                break
    return str(float(text))


def _render_array(value: ArrayInfo, _: int) -> str:
    if value.is_scalar:
        return f"{_bounds(value)} ({value.dtype})"
    return f"array {value.dtype} {_shape(value.shape)}: {_bounds(value)}"


def render_linear(value: LinearSchedule) -> str:
    """Return a linear schedule as ``linear 0.0008 -> 0.0``, and when it ends if that is not the end of training."""
    fraction, text = value.end_fraction, f"linear {value.start} -> {value.end}"
    if fraction == 1:
        return text
    try:
        last = float(value.start + (value.end - value.start) / fraction)
    except (ArithmeticError, TypeError, ValueError):
        last = math.nan
    if not math.isfinite(last) or not 0 < fraction < math.inf:
        return f"{text} over {fraction}"
    if fraction < 1:
        return f"{text} in the first {100 * fraction:.4g}% of training"
    return f"{text}, which it does not reach: {last:.4g} at the end of training (end fraction {fraction})"


def _render_table(value: InterpolatedSchedule, _: int) -> str:
    return f"{describe_samples(value)} during training: interpolated between {len(value.values):,} values"


def _render_function(value: Function, depth: int) -> str:
    if value.schedule is not None:
        return f"{_render(value.schedule, depth)}, from {value.qualname}"
    where = f" ({value.code.filename}:{value.code.firstlineno})" if value.code is not None else ""
    closure = f", with {_pairs(value.closure, depth)}" if value.closure else ""
    return f"function {value.qualname}{where}{closure}"


def _render_call(value: Call) -> str:
    from sbformat.pkl.disassembly import render_object

    return render_object(value, _CHARACTERS)


def _render_object(value: CarriedObject, depth: int) -> str:
    parts = [
        *([_list(value.args, depth)] if value.args else []),
        *([_pairs(value.attributes, depth)] if value.attributes else []),
        *([f"state {_render(value.state, depth)}"] if value.state is not None else []),
        *([f"holding {_list(value.items, depth)}"] if value.items else []),
    ]
    return " ".join(["object of", value.type.name, *parts]) + ", a class pickled by value"


_RENDERERS: Final[tuple[tuple[Any, Callable[[Any, int], str]], ...]] = (
    (ArrayInfo, _render_array),
    (TensorInfo, lambda value, _: f"tensor {value.dtype} {_shape(value.shape)}"),
    (Reference, lambda value, _: str(value)),
    (types.DType, lambda value, _: f"dtype {value.code}"),
    (spaces.Box, lambda box, _: f"Box({_bounds(box.low)}, {_bounds(box.high)}, {_shape(box.shape)}, {box.dtype})"),
    (spaces.Discrete, lambda value, _: f"Discrete({value.n}{f', start={value.start}' if value.start else ''})"),
    (spaces.MultiDiscrete, lambda value, _: f"MultiDiscrete({_bounds(value.nvec)})"),
    (spaces.MultiBinary, lambda value, _: f"MultiBinary({', '.join(map(str, value.shape))})"),
    (spaces.Text, lambda text, _: f"Text({text.min_length} to {text.max_length} of {len(text.characters)} characters)"),
    (spaces.Sequence, lambda value, depth: f"Sequence({_render(value.feature_space, depth)})"),
    (spaces.Graph, lambda value, depth: f"Graph({_joined((value.node_space, value.edge_space), depth)})"),
    (types.ConstantSchedule, lambda value, _: f"constant {value.value}"),
    (LinearSchedule, lambda value, _: render_linear(value)),
    (ComputedSchedule, lambda value, _: f"{describe_samples(value)} during training"),
    (InterpolatedSchedule, _render_table),
    (types.FloatSchedule, lambda value, depth: _render(value.schedule, depth)),
    (Function, _render_function),
    (types.CarriedClass, lambda value, depth: f"class {value.name}({_joined(value.bases, depth)}), pickled by value"),
    (CarriedObject, _render_object),
    (types.Partial, lambda value, depth: f"partial of {_render(value.function, depth)}({_joined(value.args, depth)})"),
    (types.TrainFreq, lambda value, _: f"every {value.frequency} {value.unit.value}"),
    (types.EnumMember, lambda value, depth: f"{value.enum.name}({_render(value.value, depth)})"),
    (types.Instance, lambda value, depth: f"{value.type.name} {_pairs(value.attributes, depth)}"),
    (types.RandomState, lambda value, _: f"{value.kind} ({value.bit_generator})"),
    (types.SeedSequence, lambda *_: "SeedSequence"),
    (types.RNNStates, lambda value, depth: f"RNNStates({_joined((*value.pi, *value.vf), depth)})"),
    (types.Module, lambda value, _: f"module {value.name}"),
    (types.ObjectArray, lambda value, _: f"array of objects {_shape(value.shape)}"),
    (types.DefaultDict, lambda value, depth: f"defaultdict {_pairs(value.items, depth)}"),
    (types.Described, lambda value, depth: f"{value.kind}({_joined(value.parts, depth)})"),
    (types.Cycle, lambda *_: "itself"),
    (Call, lambda value, _: f"not known: {_render_call(value)}"),
    (Node, lambda value, _: f"not known: {value}"),
    ((dict, Dict), _pairs),
    (spaces.DictSpace, lambda value, depth: f"Dict({_pairs(value.spaces, depth)[1:-1]})"),
    ((spaces.TupleSpace, spaces.OneOf), lambda value, depth: f"{value.class_name}({_joined(value.spaces, depth)})"),
    ((list, tuple), _list),
    ((bytes, bytearray), lambda value, _: f"{len(value)} bytes"),
)
"""How each kind of value is rendered: the first that matches."""
