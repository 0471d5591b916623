"""JSON as ``json.dumps(value, indent=2)`` writes it, in less than half the time.

A report may be rendered where it is made: what is sent between processes is small then, and the document is put
together of text.
"""

from __future__ import annotations

from json.encoder import encode_basestring_ascii
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_INDENT: Final = "  "


class Rendered(str):
    """JSON text of a part, which stands as it is."""

    __slots__ = ()


def dumps(value: object, *, depth: int = 0) -> Rendered:
    """Return a tree of JSON values as text. How deep it is, the readers cap.

    :param value: JSON values, tuples for arrays, NaN and the infinities, and parts that are text already
    :param depth: in how many arrays and objects it will lie
    """
    parts: list[str] = []
    _write(value, "\n" + _INDENT * depth, parts.append)
    return Rendered("".join(parts))


def _write(value: Any, line: str, write: Callable[[str], None]) -> None:  # noqa: ANN401 -- any JSON value
    """Write a value; ``line`` is the beginning of the line on which it ends."""
    scalar = _SCALARS.get(type(value))
    if scalar is not None:
        write(scalar(value))
    elif isinstance(value, dict):
        before = "{"
        for key, part in value.items():
            write(f"{before}{line}{_INDENT}{encode_basestring_ascii(key)}: ")
            _write(part, line + _INDENT, write)
            before = ","
        write(line + "}" if value else "{}")
    elif isinstance(value, (list, tuple)):
        before = "["
        for part in value:
            write(f"{before}{line}{_INDENT}")
            _write(part, line + _INDENT, write)
            before = ","
        write(line + "]" if value else "[]")
    else:
        kind = next((kind for kind in (str, int, float) if isinstance(value, kind)), None)
        if kind is None:
            message = f"{type(value).__name__} is no kind of JSON"
            raise TypeError(message)
        write(_SCALARS[kind](value))


def _float(value: float) -> str:
    """NaN and the infinities as text: JSON has no word for them."""
    if isfinite(value):
        return float.__repr__(value)
    return '"NaN"' if value != value else '"Infinity"' if value > 0 else '"-Infinity"'  # noqa: PLR0124 -- only NaN


_SCALARS: Final[dict[type, Callable[[Any], str]]] = {
    Rendered: str.__str__,
    str: encode_basestring_ascii,
    int: int.__repr__,
    float: _float,
    bool: lambda value: "true" if value else "false",
    type(None): lambda _: "null",
}
