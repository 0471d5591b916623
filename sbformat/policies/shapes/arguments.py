"""The arguments of a policy, or of a class that a policy makes, checked one by one as torch and SB3 would."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sbformat.constants import DATA_ENTRY
from sbformat.errors import UnsupportedError, escape, quote
from sbformat.known.numpy import to_number
from sbformat.known.rows import UnrecognizedError
from sbformat.known.table import current_name
from sbformat.known.types import Reference
from sbformat.pkl.numpy import ArrayInfo
from sbformat.policies.shapes.sizes import (
    NetworkError,
    Size,
    describe_value,
    read_size,
    unknown_value_error,
    wrong_value_error,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sbformat.pkl.names import Pair

KWARGS: Final = "policy_kwargs"
_NUMERIC_KINDS: Final = tuple("biufc")
"""Kinds of numpy dtypes that are numbers."""


class Arguments(NamedTuple):
    """Arguments of a class, by name."""

    values: Mapping[str, Any]
    path: str = KWARGS
    """The key of ``data`` that holds them, and the path below it."""

    def key(self, name: str) -> str:
        """Return the path of an argument: ``policy_kwargs/net_arch``."""
        return f"{self.path}/{name}"

    def refuse_others(self, accepted: Iterable[str], owner: str) -> None:
        """Refuse names that the class does not accept.

        :param accepted: the names that it accepts
        :param owner: the class, for the message
        """
        known = set(accepted)
        for name in self.values:
            if name not in known:
                raise NetworkError(self.key(escape(name, 80)), f"{owner} has no argument {quote(name, 80)}")

    def size(self, name: str, default: int, *, least: int = 0) -> Size:
        """Return a size, not less than the least that torch accepts."""
        return read_size(self.values.get(name, default), self.key(name), least=least)

    def number_of(self, name: str, default: int, *, least: int = 0) -> Size:
        """Return a number that Python counts to; there, a bool is 0 or 1."""
        value = self.values.get(name, default)
        return read_size(int(value) if isinstance(value, bool) else value, self.key(name), least=least)

    def require_number(self, name: str) -> None:
        """Refuse an argument that is set and that torch cannot multiply a tensor by."""
        value = self.values.get(name, 0)
        is_array = isinstance(value, ArrayInfo) and value.dtype[1:2] in _NUMERIC_KINDS
        if not is_array and not isinstance(value, (int, float, complex)):
            raise wrong_value_error(value, self.key(name), "a number")

    def flag(self, name: str, *, default: bool) -> bool:
        """Return whether an argument is true for Python."""
        return is_true(self.values.get(name, default), self.key(name))

    def reference(self, name: str, default: Pair) -> Pair:
        """Return the class that an argument names, by its name of today.

        :raises UnsupportedError: when it is not a class that is known by its name
        """
        value = self.values.get(name, Reference(*default))
        if isinstance(value, Reference):
            return current_name(value.pair)
        raise unknown_value_error(value, self.key(name))

    def nested(self, name: str) -> Arguments:
        """Return an argument that is itself a dict of arguments; None is an empty one."""
        value = self.values.get(name)
        if not (value is None or (isinstance(value, dict) and all(type(part) is str for part in value))):
            raise wrong_value_error(value, self.key(name), "a dict of arguments")
        return Arguments(value or {}, self.key(name))


def is_true(value: object, key: str) -> bool:
    """Return whether a value is true for Python.

    :raises UnsupportedError: when its type is not known
    """
    if isinstance(value, ArrayInfo):  # before tuples: it is one, which is not empty
        with suppress(UnrecognizedError):
            return bool(to_number(value, key))
    elif value is None or isinstance(value, (bool, int, float, str, list, tuple, dict)):
        return bool(value)
    message = f"{escape(key, 80)}: expected true or false, got {describe_value(value)}"
    raise UnsupportedError(message, entry=DATA_ENTRY)
