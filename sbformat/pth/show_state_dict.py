"""How a state dict is displayed: a line for ``repr``, a table for notebooks. Both are bounded, and never raise."""

from __future__ import annotations

from itertools import islice
from math import prod
from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import SbformatError, escape
from sbformat.immutable import Record
from sbformat.pth.values import DTYPES, MetaTensor, QuantizedTensor, SparseTensor, TensorInfo
from sbformat.rendering import count_noun, format_size

if TYPE_CHECKING:
    from sbformat.pth.state_dict import StateDict


_VALUES: Final = 10_000  # values that are counted: these take 30 ms
_ROWS: Final = 50
_CHARACTERS: Final = 80
_MANY: Final = 10**15


class Overview(Record):
    """The contents of a state dict, as far as they were counted."""

    tensors: int
    items: int
    """Number of elements of all tensors; a tensor that shares its memory counts like any other."""
    nbytes: int
    dtypes: tuple[str, ...]
    """Those of the tensors, each once."""
    rows: tuple[tuple[str, str, str, str], ...]
    """Path, dtype, shape and size of the first tensors."""
    values: tuple[tuple[str, str], ...]
    """The first values that are not tensors, each with its path."""
    others: int
    """Number of values that are not tensors."""
    is_complete: bool
    """False if there are more values than were counted."""


def count_values(state_dict: StateDict) -> Overview:
    """Return what a state dict contains, without reading a tensor; at most 10,000 values are counted."""
    rows: list[tuple[str, str, str, str]] = []
    values: list[tuple[str, str]] = []
    dtypes: dict[str, None] = {}
    tensors = items = nbytes = others = seen = 0
    leaves = state_dict.leaves()
    try:
        for path, value in islice(leaves, _VALUES):
            seen += 1
            geometry = _find_geometry(value)
            if geometry is None:
                others += path != "" or value != {}
                if len(values) < _ROWS and (path or value != {}):
                    values.append((path, _describe_value(value)))
                continue
            dtype, shape, kind = geometry
            size = prod(shape) * DTYPES[dtype].itemsize
            tensors, items, nbytes = tensors + 1, items + prod(shape), nbytes + size
            dtypes[dtype] = None
            if len(rows) < _ROWS:
                rows.append((path or "(the whole entry)", f"{dtype} {kind}".rstrip(), render_shape(shape), _size(size)))
        is_complete = seen < _VALUES or next(leaves, None) is None
    except SbformatError:  # more values than the limits allow
        is_complete = False
    return Overview(tensors, items, nbytes, tuple(dtypes), tuple(rows), tuple(values), others, is_complete)


def summarize(overview: Overview) -> str:
    """Return an overview in a few words: ``12 tensors, 9,155 numbers, 35.8 KiB``."""
    parts = [count_noun(overview.tensors, "tensor")]
    if overview.tensors:
        parts += [f"{_count(overview.items)} {' and '.join(overview.dtypes[:3])}", _size(overview.nbytes)]
    if overview.others:
        parts.append(count_noun(overview.others, "other value"))
    return ("" if overview.is_complete else "at least ") + ", ".join(parts)


def describe(state_dict: StateDict) -> str:
    """Return the line for ``repr``."""
    name = f" {escape(state_dict.entry, _CHARACTERS)}" if state_dict.entry is not None else ""
    overview = count_values(state_dict)
    shown = [f"{escape(path, _CHARACTERS)} {shape}" for path, _, shape, _ in overview.rows[:2]]
    more = ", \u2026" if overview.tensors > len(shown) else ""
    first = f"; {', '.join(shown)}{more}" if shown else ""
    return f"<StateDict{name}: {summarize(overview)}{first}>"


def render(state_dict: StateDict) -> str:
    """Return the HTML for notebooks: the tensors, and the values that are not tensors."""
    from sbformat.notebook import fold, render_output, render_table

    overview = count_values(state_dict)
    name = f" {state_dict.entry}" if state_dict.entry is not None else ""
    tensors = render_table("", ("tensor", "dtype", "shape", "size"), overview.rows, right=(3,), count=overview.tensors)
    values = render_table("", ("path", "value"), overview.values, count=overview.others)
    others = count_noun(overview.others, "value that is not a tensor", "values that are not tensors")
    return render_output(f"StateDict{name}: {summarize(overview)}", [tensors, fold(others, [values])])


def render_shape(shape: tuple[int, ...]) -> str:
    """Return a shape as text: ``64 x 4``."""
    return escape(" x ".join(map(str, shape)) or "scalar", _CHARACTERS)


def _find_geometry(value: Any) -> tuple[str, tuple[int, ...], str] | None:
    """Return the dtype, the shape and the kind of a tensor; None for any other value."""
    if isinstance(value, TensorInfo):
        return value.dtype, value.shape, ""
    if isinstance(value, SparseTensor):
        return value.values.dtype, value.shape, "sparse"
    if isinstance(value, QuantizedTensor):
        return value.int_repr.dtype, value.int_repr.shape, "quantized"
    if isinstance(value, MetaTensor):
        return value.dtype, value.shape, "meta"
    return None


def _describe_value(value: Any) -> str:
    if value is None or isinstance(value, (bool, float)):
        return str(value)
    if isinstance(value, int):
        return f"{value}" if value.bit_length() <= 64 else f"an integer of {value.bit_length()} bits"
    if isinstance(value, str):
        return escape(repr(value[:_CHARACTERS]))
    if hasattr(value, "__len__"):
        return f"{type(value).__name__} of {len(value)}"
    return escape(repr(value), _CHARACTERS)


def _size(nbytes: int) -> str:
    return format_size(nbytes) if nbytes < _MANY * _MANY else "more than 10^30 B"


def _count(number: int) -> str:
    return f"{number:,}" if number < _MANY else "more than 10^15"
