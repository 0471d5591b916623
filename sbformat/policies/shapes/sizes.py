"""Sizes of axes that remember the key of ``data`` that decides on them, and the errors for other values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.constants import DATA_ENTRY
from sbformat.errors import UnsupportedError, ValidationError, escape
from sbformat.known.numpy import to_number, unpack_items
from sbformat.known.rows import UnrecognizedError
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pkl.tree import Global, Node
from sbformat.values.render import render_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Self

MAX_LAYERS: Final = 8_192
"""Layers or tensors of a network: a file can ask for any number of critics or layers."""
_MAX_VALUE_LENGTH: Final = 120
"""Characters of a value in a message."""


class NetworkError(ValidationError):
    """SB3 cannot make the network that ``data`` describes.

    :param key: the key of ``data`` that is wrong, with the path below it: ``policy_kwargs/net_arch``
    :param message: what is wrong
    """

    key: str

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message, entry=DATA_ENTRY)
        self.key = key


class Size(int):
    """The size of an axis, and the key of ``data`` that decides on it."""

    key: str

    def __new__(cls, value: int, key: str) -> Self:
        """Make a size.

        :param value: the number of items along the axis
        :param key: of ``data``; empty for a size that a layer always has
        """
        made = super().__new__(cls, value)
        made.key = key
        return made

    def __add__(self, other: int) -> Size:
        """Add the size of what is concatenated."""
        return Size(int(self) + int(other), join_keys((self.key, getattr(other, "key", ""))))

    def __mul__(self, other: int) -> Size:
        """Multiply by another size, or by a plain int."""
        return Size(int(self) * int(other), join_keys((self.key, getattr(other, "key", ""))))

    __rmul__ = __mul__


def join_keys(keys: Iterable[str]) -> str:
    """Join the keys that decide on a size: ``use_sde and action_space``."""
    return " and ".join(dict.fromkeys(key for key in keys if key))


def read_size(value: object, key: str, *, least: int = 0) -> Size:
    """Return a value as a size.

    :raises NetworkError: when torch would not accept it
    """
    expected = f"a whole number, {least} or more"
    if isinstance(value, ArrayInfo) and value.shape == ():
        try:
            value = to_number(value, key)
        except UnrecognizedError:
            raise NetworkError(key, f"expected {expected}, got {describe_value(value)}") from None
    if type(value) is not int or value < least:
        raise wrong_value_error(value, key, expected)
    return Size(value, key)


def read_sizes(value: object, key: str) -> list[Size]:
    """Return a list of layer sizes; an array of whole numbers is one, too.

    :raises NetworkError: when it is not a list of sizes
    """
    if isinstance(value, ArrayInfo) and len(value.shape) == 1:
        _require_layer_count(value.shape[0], key)
        try:
            value = unpack_items(value)
        except UnrecognizedError:
            raise wrong_value_error(value, key, "a list of layer sizes") from None
    if not isinstance(value, (list, tuple)):
        raise wrong_value_error(value, key, "a list of layer sizes")
    _require_layer_count(len(value), key)
    return [read_size(part, key) for part in value]


def _require_layer_count(count: int, key: str) -> None:
    if count > MAX_LAYERS:
        raise NetworkError(key, f"expected at most {MAX_LAYERS:,} layers, got {count:,}")


# -- errors -------------------------------------------------------------------------------------------


def describe_value(value: object) -> str:
    """Return a value for a message, escaped and bounded."""
    return escape(render_line(value), _MAX_VALUE_LENGTH)


def wrong_value_error(value: object, key: str, expected: str) -> UnsupportedError | NetworkError:
    """Return the error for a value of another type; a value that was not decoded is unsupported."""
    if isinstance(value, Node):
        return unknown_value_error(value, key, expected)
    return NetworkError(key, f"expected {expected}, got {describe_value(value)}")


def unknown_value_error(value: object, key: str, expected: str = "a class") -> UnsupportedError | NetworkError:
    """Return the error for a value outside the tables: plain data is wrong, and anything else is not known."""
    if value is None or isinstance(value, (bool, int, float, str, list, dict)):
        return NetworkError(key, f"expected {expected}, got {describe_value(value)}")
    name = str(value) if isinstance(value, Global) else render_line(value)
    message = f"{escape(key, 80)} is {escape(name, _MAX_VALUE_LENGTH)}, and the network for it is not known"
    return UnsupportedError(message, entry=DATA_ENTRY)
