"""Limits of the command line: ``--limit NAME=VALUE`` with units, errors that name the option, and seconds."""

from __future__ import annotations

import argparse
import re
from typing import Final

from sbformat.errors import escape
from sbformat.limits import Limits

_DEPTHS: Final = ("json_depth", "value_depth")
_DEEPEST: Final = 200
_BYTES: Final = "_bytes"
"""The end of the names of limits that are sizes."""
_LONGEST: Final = 1_000_000
"""Seconds."""
_SIZE: Final = r"(?i)(\d{1,18}(?:\.\d{1,9})?)\s*(?:([kmgt])(i?))?(b?)"
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_ADVICE: Final = r"pass limits=Limits\((\w+)=\.\.\.\)"


def add_limit_option(parser: argparse.ArgumentParser) -> None:
    """Add the option."""
    parser.add_argument(
        "--limit",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        type=parse_limit,
        help="change a limit: json_bytes=128MB; repeatable",
    )


def parse_limit(text: str) -> tuple[str, int]:
    """Return the name and the value of a limit.

    >>> parse_limit("json_bytes=1.5KiB")
    ('json_bytes', 1536)

    :raises argparse.ArgumentTypeError: for a name or a value that is not one
    """
    name, _, value = text.partition("=")
    name = name.strip().replace("-", "_")
    if name not in Limits._fields:
        import difflib

        close = difflib.get_close_matches(name[:60], Limits._fields, n=1)
        hint = f"did you mean {close[0]}?" if close else f"available: {', '.join(Limits._fields)}"
        message = f"unknown limit {escape(name)}; {hint}"
        raise argparse.ArgumentTypeError(message)
    number = _parse_number(name, value.strip())
    if name in _DEPTHS and number > _DEEPEST:
        message = f"{name} can be at most {_DEEPEST}: reports are not nested deeper"
        raise argparse.ArgumentTypeError(message)
    return name, number


def _parse_number(name: str, value: str) -> int:
    """Return a number with its unit: of 1000 (``64MB``, ``2M``) or of 1024 (``1GiB``)."""
    found = re.fullmatch(_SIZE, value.replace("_", ""))
    is_size = name.endswith(_BYTES)
    if found is None:
        what = "a size such as 500_000, 64MB or 1GiB" if is_size else "a whole number such as 500_000"
        message = f"{name}: expected {what}, got {escape(value) or 'nothing'}"
        raise argparse.ArgumentTypeError(message)
    digits, prefix, binary, unit = found.groups("")
    if unit and not is_size:
        message = f"{name} is a number of items, not of bytes: expected a whole number, got {escape(value)}"
        raise argparse.ArgumentTypeError(message)
    whole, _, fraction = digits.partition(".")
    unit_size: int = (1024 if binary else 1000) ** _POWERS[prefix.lower()]
    scale: int = 10 ** len(fraction)
    number, rest = divmod(int(whole + fraction) * unit_size, scale)
    if rest:
        message = f"{name}: expected a whole number, got {escape(value)}"
        raise argparse.ArgumentTypeError(message)
    return number


def parse_seconds(text: str) -> float:
    """Return a time of an option, in seconds.

    :raises argparse.ArgumentTypeError: for anything but a number above 0, with a million at most
    """
    if not re.fullmatch(r"(?a)\d{1,7}(\.\d{1,9})?", text) or not 0 < float(text) <= _LONGEST:
        message = f"expected seconds, such as 30 or 0.5, got {escape(text)}"
        raise argparse.ArgumentTypeError(message)
    return float(text)


def name_option(message: str) -> str:
    """Return the message of a LimitError with the option of the command line, instead of the argument of Python."""
    return re.sub(_ADVICE, r"pass --limit \1=VALUE", message)
