"""Decoded values of ``data``: JSON unchanged, blobs decoded without running them (VALUES.md 13)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from sbformat.data import Serialized
from sbformat.errors import SbformatError, escape
from sbformat.immutable import Record, thaw
from sbformat.pkl.tree import Node
from sbformat.values import decode_blob
from sbformat.values.render import render_line

if TYPE_CHECKING:
    from sbformat.limits import Budget


class Hyperparameter(Record):
    """A value of ``data``, and how it was decoded."""

    value: Any
    """A JSON value, a decoded one, or, if it could not be decoded, a node of :mod:`sbformat.pkl.tree`, or
    :class:`~sbformat.Serialized` if it is not a pickle."""
    how: Literal["json", "decoded", "opaque"]
    why: str | None
    """The reason if it is opaque."""

    def __repr__(self) -> str:
        """Return one line: with shared parts, the repr of a value can be as long as a file wants."""
        return f"<Hyperparameter {render_line(self.value)}, {self.how}{f': {escape(self.why)}' if self.why else ''}>"


def decode_value(value: object, budget: Budget) -> Any:
    """Decode a value of ``data``.

    :param value: JSON, of which a mutable copy is returned, or a blob
    :param budget: the budget of the operation
    :raises PickleError: if a blob is not a pickle
    :raises LimitError: if it needs more than allowed
    """
    return decode_blob(value.pickle, budget) if isinstance(value, Serialized) else thaw(value)


def decode_hyperparameter(value: object, budget: Budget) -> Hyperparameter:
    """Decode a value of ``data``; if that fails, it is returned unchanged, with the reason."""
    if not isinstance(value, Serialized):
        return Hyperparameter(thaw(value), "json", None)
    try:
        decoded = decode_value(value, budget)
    except SbformatError as error:
        return Hyperparameter(value, "opaque", f"{error.outcome}: {error.message}")
    if isinstance(decoded, Node):
        return Hyperparameter(decoded, "opaque", "its constructor is not known")
    return Hyperparameter(decoded, "decoded", None)
