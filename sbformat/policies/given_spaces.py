"""Spaces that the caller passes: those of sbformat, and objects of gym or gymnasium, read by their plain attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.known.types import Box, DictSpace, Discrete, MultiBinary, MultiDiscrete, Space
from sbformat.pkl.numpy import ArrayInfo

if TYPE_CHECKING:
    from collections.abc import Callable

_INT64: Final = "<i8"


def convert_space(space: object, name: str) -> Space:
    """Return a space as a value of sbformat; gym and gymnasium are not imported.

    :param space: a space of sbformat, or a Box, Discrete, MultiDiscrete, MultiBinary or Dict of gym or gymnasium
    :param name: of the argument, for the message
    :raises TypeError: for something else

    Example::

        convert_space(env.observation_space, "observation_space")
    """
    if isinstance(space, Space):
        return space
    kind = next((parent.__name__ for parent in type(space).__mro__ if parent.__name__ in _CONVERTERS), None)
    try:
        return _CONVERTERS[kind or ""](space, name)
    except (KeyError, AttributeError):
        message = f"expected a space of gymnasium or sbformat as {name}, got {type(space).__name__}"
        raise TypeError(message) from None


def _library(space: object) -> Any:
    return "gym" if type(space).__module__.partition(".")[0] == "gym" else "gymnasium"


def _read_array(array: Any) -> ArrayInfo:
    dtype = array.dtype.newbyteorder("<")
    return ArrayInfo(dtype.str, tuple(array.shape), "C", array.astype(dtype).tobytes(), is_scalar=False)


def _read_dtype(space: Any) -> str:
    """Return the code of its dtype; spaces of the oldest gym have none, or a name."""
    code = getattr(getattr(space, "dtype", None), "str", None)
    return code if isinstance(code, str) else _INT64


def _convert_box(space: Any, _: str) -> Space:
    low, high = _read_array(space.low), _read_array(space.high)
    return Box(_library(space), tuple(space.shape), low.dtype, low, high, None)


def _convert_discrete(space: Any, _: str) -> Space:
    return Discrete(_library(space), int(space.n), int(getattr(space, "start", 0)), _read_dtype(space), None)


def _convert_multi_discrete(space: Any, _: str) -> Space:
    start = getattr(space, "start", None)
    starts = None if start is None else _read_array(start)
    return MultiDiscrete(_library(space), _read_array(space.nvec), starts, _read_dtype(space), None)


def _convert_multi_binary(space: Any, _: str) -> Space:
    return MultiBinary(_library(space), tuple(space.shape), "|i1", None)


def _convert_dict(space: Any, name: str) -> Space:
    parts = {key: convert_space(part, f"{name}[{key!r}]") for key, part in space.spaces.items()}
    return DictSpace(_library(space), parts, None)


_CONVERTERS: Final[dict[str, Callable[[Any, str], Space]]] = {
    "Box": _convert_box,
    "Discrete": _convert_discrete,
    "MultiDiscrete": _convert_multi_discrete,
    "MultiBinary": _convert_multi_binary,
    "Dict": _convert_dict,
}
