"""Spaces to write: the constructors of gymnasium, and the JSON that ``inspect --format json`` prints for a space.

In: numbers, arrays or JSON. Out: a value of :mod:`sbformat.known.spaces`, as ``Archive.decode`` returns it, which
``edit(assign={"observation_space": ...})`` writes. Without gymnasium; arguments mean what they mean there.

Source: gymnasium ``spaces/``, 1.4.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from sbformat.errors import DataError, escape
from sbformat.known import spaces
from sbformat.rendering import read_number

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike, DTypeLike

    from sbformat.known.spaces import Space

__all__ = ["Box", "Dict", "Discrete", "MultiBinary", "MultiDiscrete"]

S = TypeVar("S", bound=spaces.Space)

_LARGEST: Final = 100_000_000
"""Items of a space."""
_DEEPEST: Final = 20


def Box(  # noqa: N802 -- the names of gymnasium
    low: ArrayLike, high: ArrayLike, shape: Iterable[int] | None = None, dtype: DTypeLike = "float32"
) -> spaces.Box:
    """Return a space of arrays of numbers within bounds.

    :param low: the least value: one number, or an array of the shape; ``-inf`` for none
    :param high: the greatest value, likewise
    :param shape: by default that of ``low`` and ``high``
    :param dtype: of the elements
    :raises ValueError: when the arguments do not fit together

    Example::

        sbformat.Box(-1, 1, (3,))
        sbformat.Box(0, 255, (4, 84, 84), "uint8")
    """
    import numpy as np

    kind = np.dtype(dtype)
    sides = [np.asarray(side, "float64" if kind.kind == "f" else None) for side in (low, high)]
    found = np.broadcast_shapes(*(side.shape for side in sides)) if shape is None else tuple(shape)
    _check_shape(found)
    if kind.kind not in "fiub" or any(side.shape not in ((), found) for side in sides):
        _refuse(f"expected numbers as bounds, of the shape {found} or one for all items, and a dtype of numbers")
    if any(np.isnan(side).any() for side in sides):
        _refuse("expected bounds that are numbers, got NaN")
    arrays = [np.broadcast_to(side, found).astype(kind) for side in sides]
    if kind.kind != "f" and any((array != side).any() for array, side in zip(arrays, sides)):
        _refuse(f"expected bounds that {kind.name} can represent")
    if (arrays[0] > arrays[1]).any():
        _refuse("expected no lower bound above its upper bound")
    return _make(spaces.Box, "Box", low=arrays[0], high=arrays[1], shape=found)


def Discrete(n: int, start: int = 0) -> spaces.Discrete:  # noqa: N802
    """Return the space of the integers ``start`` to ``start + n - 1``."""
    if type(n) is not int or n < 1 or type(start) is not int:
        _refuse("expected an integer of at least 1 as n of a Discrete, and an integer as start")
    return _make(spaces.Discrete, "Discrete", n=n, start=start)


def MultiDiscrete(nvec: ArrayLike) -> spaces.MultiDiscrete:  # noqa: N802
    """Return the space of arrays of integers, each item from 0 to that of ``nvec`` less 1."""
    import numpy as np

    array = np.asarray(nvec)
    if array.dtype.kind not in "iu" or not array.size or (array < 1).any():
        _refuse("expected integers of at least 1 as nvec of a MultiDiscrete")
    _check_shape(array.shape)
    return _make(spaces.MultiDiscrete, "MultiDiscrete", nvec=array.astype("int64"), start=np.zeros_like(array, "int64"))


def MultiBinary(n: int | Iterable[int]) -> spaces.MultiBinary:  # noqa: N802
    """Return the space of arrays of 0 and 1 of the length, or shape, ``n``."""
    shape = (n,) if isinstance(n, int) else tuple(n)
    _check_shape(shape)
    return _make(spaces.MultiBinary, "MultiBinary", shape=shape)


def Dict(parts: Mapping[str, Space]) -> spaces.DictSpace:  # noqa: N802
    """Return the space of dicts with an element of each space under its key; the keys in gymnasium's order, sorted."""
    if not parts or not all(isinstance(key, str) and isinstance(part, spaces.Space) for key, part in parts.items()):
        _refuse("expected a space for each text in a Dict")
    return _make(spaces.DictSpace, "Dict", spaces=dict(sorted(parts.items())))


def _make(made: type[S], name: str, **attributes: Any) -> S:
    """Return the space that an object of this class of gymnasium, with these attributes, is converted to."""
    found = spaces.convert_space(type(name, (SimpleNamespace,), {})(**attributes), name)
    assert isinstance(found, made)  # noqa: S101 -- of that name
    return found


def _check_shape(shape: tuple[Any, ...]) -> None:
    if not all(type(size) is int and size > 0 for size in shape) or math.prod(shape) > _LARGEST:
        _refuse(f"expected integers of at least 1 as a shape, of at most {_LARGEST:,} items together, got {shape}")


def _refuse(message: str) -> NoReturn:
    raise ValueError(message)


# -- JSON ---------------------------------------------------------------------------------------------

_MAKERS: Final = {
    "Box": (Box, ("low", "high", "shape", "dtype")),
    "Discrete": (Discrete, ("n", "start")),
    "MultiDiscrete": (MultiDiscrete, ("nvec",)),
    "MultiBinary": (MultiBinary, ("n", "shape")),
}
_IGNORED: Final = frozenset({"kind", "library", "random"})
_DERIVED: Final = {"Discrete": {"dtype"}, "MultiDiscrete": {"dtype", "start"}, "MultiBinary": {"dtype"}}
"""Fields that the reports have, and the constructors do not take."""


def from_json(value: Any, *, depth: int = 0) -> Space:
    """Return the space that JSON describes.

    :param value: an object with ``kind`` and the arguments of the constructor of that name; ``low`` and ``high`` of a
        Box may be a number, a list, or an array as ``inspect --format json`` prints it
    :raises DataError: when it does not describe one

    >>> from_json({"kind": "Box", "low": -1, "high": 1, "shape": [3]})
    Box([-1.0, -1.0, -1.0], [1.0, 1.0, 1.0], (3,), <f4)
    """
    kind = value.get("kind") if isinstance(value, Mapping) else None
    try:
        if kind in ("Dict", "DictSpace") and isinstance(value.get("spaces"), Mapping) and depth < _DEEPEST:
            return Dict({key: from_json(part, depth=depth + 1) for key, part in value["spaces"].items()})
        make, names = _MAKERS[str(kind)]
        fields = {name: part for name, part in value.items() if name not in _IGNORED | _DERIVED.get(str(kind), set())}
        if kind == "MultiBinary":
            fields = {"n": fields.get("n", fields.get("shape"))}
        if not set(fields) <= set(names):
            _refuse(f"expected {', '.join(names)} for a {kind}, got {', '.join(map(escape, set(fields) - set(names)))}")
        return make(**{name: _read_array(part) for name, part in fields.items()})  # type: ignore[operator, no-any-return]
    except KeyError:
        message = f"expected a space: an object with the kind {', '.join((*_MAKERS, 'Dict'))}"
        raise DataError(message) from None
    except (ValueError, TypeError, OverflowError) as error:
        message = f"{escape(str(kind), 40)}: {escape(str(error), 200)}"
        raise DataError(message) from None


def _read_array(value: Any) -> Any:
    """Return a number, text or list; of an array in a report its items, or the one number that all of them are."""
    if isinstance(value, Mapping):
        items = value.get("items")
        if items is None and value.get("min") is not None and value.get("min") == value.get("max"):
            return read_number(value["min"])
        if items is None:
            _refuse("a report lists only the first numbers of a long array; give one number, or all of them")
        import numpy as np

        return np.reshape([read_number(item) for item in items], value.get("shape", (-1,)))
    return [_read_array(item) for item in value] if isinstance(value, (list, tuple)) else read_number(value)
