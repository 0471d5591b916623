"""Read the numbers and flags among a replay buffer's attributes, with checks."""

from __future__ import annotations

from typing import Any, NoReturn

from sbformat.errors import TensorError
from sbformat.known.numpy import to_number
from sbformat.known.rows import UnrecognizedError


def refuse(message: str) -> NoReturn:
    """Raise a :class:`~sbformat.TensorError` about a replay buffer."""
    message = f"invalid replay buffer: {message}"
    raise TensorError(message)


def read_number(attributes: dict[str, Any], name: str) -> int | float:
    """Return a number; a numpy scalar becomes a Python number."""
    if name not in attributes:
        refuse(f"{name} is missing")
    try:
        return to_number(attributes[name], name)
    except UnrecognizedError:
        refuse(f"expected a number as {name}")


def read_int(attributes: dict[str, Any], name: str, least: int) -> int:
    """Return an integer of at least ``least``."""
    found = read_number(attributes, name)
    if type(found) is not int or not least <= found < 2**63:
        refuse(f"expected an integer >= {least} as {name}")
    return found


def read_flag(attributes: dict[str, Any], name: str, *, default: bool | None = None) -> bool:
    """Return a flag, or the default when it is missing."""
    if default is not None and name not in attributes:
        return default
    found = read_number(attributes, name)
    if found not in (0, 1):
        refuse(f"expected a bool as {name}")
    return bool(found)
