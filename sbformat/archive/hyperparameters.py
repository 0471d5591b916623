"""Values of ``data`` as people know them: JSON as it is, blobs decoded without running them (FORMAT.md 13)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from sbformat.data import Serialized
from sbformat.errors import SbformatError, escape
from sbformat.immutable import thaw
from sbformat.pkl.tree import Node
from sbformat.values import decode_blob
from sbformat.values.render import render_line

if TYPE_CHECKING:
    from sbformat.limits import Budget


class Hyperparameter(NamedTuple):
    """A value of ``data``, and how it was obtained."""

    value: Any
    """A JSON value, a decoded one, or what could not be decoded: a node of :mod:`sbformat.pkl.tree`, or
    :class:`~sbformat.Serialized` when it is no pickle."""
    how: Literal["json", "decoded", "opaque"]
    why: str | None
    """Why it is opaque."""

    def __repr__(self) -> str:
        """In a line: shared parts would make a value's own repr as long as a file likes."""
        return f"<Hyperparameter {render_line(self.value)}, {self.how}{f': {escape(self.why)}' if self.why else ''}>"


def decoded(value: object, budget: Budget) -> Any:
    """Return what a value of ``data`` means.

    :param value: JSON, or a blob
    :param budget: the operation's
    :raises PickleError: when a blob is no pickle
    :raises LimitError: when it asks for more than allowed
    """
    return decode_blob(value.pickle, budget) if isinstance(value, Serialized) else thaw(value)


def hyperparameter(value: object, budget: Budget) -> Hyperparameter:
    """Return a value of ``data`` with how it was obtained; what cannot be decoded stays as it is."""
    if not isinstance(value, Serialized):
        return Hyperparameter(thaw(value), "json", None)
    try:
        meaning = decoded(value, budget)
    except SbformatError as error:
        return Hyperparameter(value, "opaque", f"{error.outcome}: {error.message}")
    if isinstance(meaning, Node):
        return Hyperparameter(meaning, "opaque", "its constructor is not known")
    return Hyperparameter(meaning, "decoded", None)
