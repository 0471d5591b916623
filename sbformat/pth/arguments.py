"""Checks of arguments, shared by the constructors."""

from __future__ import annotations

from typing import Any, NoReturn

from sbformat.errors import TensorError
from sbformat.pkl.names import CALLS, NUMPY_DTYPE
from sbformat.pkl.tree import Call, Global
from sbformat.pth.context import INT64


def refuse(message: str) -> NoReturn:
    """Raise for arguments that torch never writes."""
    raise TensorError(message)


def arguments(args: tuple[object, ...], what: str, lengths: tuple[int, ...]) -> tuple[Any, ...]:
    """Return arguments of one of these numbers."""
    if len(args) not in lengths:
        refuse(f"expected {' or '.join(map(str, lengths))} arguments of {what}, got {len(args)}")
    return args


def pair_of(value: object) -> tuple[str, str] | None:
    """Return module and name of a plain name."""
    return value.pair if type(value) is Global and not value.updates else None


def flag(value: object, what: str) -> bool:
    """Return a bool that is one."""
    if type(value) is not bool:
        refuse(f"expected a bool for {what}, got a {type(value).__name__.lower()}")
    return value


def whole_numbers(value: object, what: str) -> tuple[int, ...]:
    """Return a shape or strides that are whole numbers."""
    if not isinstance(value, tuple) or any(type(item) is not int or not 0 <= item < INT64 for item in value):
        refuse(f"expected a tuple of integers >= 0 as a {what}, got another value")
    return value


def is_unknown_call(value: object) -> bool:
    """Return whether a value is a call that is not in the tables: another name, a computed one, or another opcode."""
    if type(value) is not Call:
        return False
    pair = pair_of(value.func)
    return value.how != "REDUCE" or (pair not in CALLS and pair != NUMPY_DTYPE)


def reduced(value: object, role: str) -> tuple[object, ...] | None:
    """Return the arguments when this is a call of a name with that role."""
    if type(value) is not Call or value.how != "REDUCE" or value.updates or type(value.args) is not tuple:
        return None
    return value.args if CALLS.get(pair_of(value.func) or ("", "")) == role else None
