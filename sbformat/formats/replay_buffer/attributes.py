"""The numbers and flags among a replay buffer's attributes, checked."""

from __future__ import annotations

from typing import Any, NoReturn

from sbformat.errors import TensorError
from sbformat.values.context import UnrecognizedError
from sbformat.values.numbers import to_number


def refuse(message: str) -> NoReturn:
    """Refuse a replay buffer: of the sentence only what its ``whose`` says."""
    message = f"a replay buffer whose {message}"
    raise TensorError(message)


def a_number(attributes: dict[str, Any], name: str) -> int | float:
    """Return a number, a numpy scalar as Python's."""
    if name not in attributes:
        refuse(f"{name} is missing")
    try:
        return to_number(attributes[name], name)
    except UnrecognizedError:
        refuse(f"{name} is no number")


def a_whole(attributes: dict[str, Any], name: str, least: int) -> int:
    """Return a whole number of at least ``least``."""
    found = a_number(attributes, name)
    if type(found) is not int or not least <= found < 2**63:
        refuse(f"{name} is out of range")
    return found


def a_flag(attributes: dict[str, Any], name: str, *, default: bool | None = None) -> bool:
    """Return a flag; where it is missing, the default if there is one."""
    if default is not None and name not in attributes:
        return default
    found = a_number(attributes, name)
    if found not in (0, 1):
        refuse(f"{name} is neither true nor false")
    return bool(found)
