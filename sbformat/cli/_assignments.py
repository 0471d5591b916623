"""``--set KEY=JSON``: values of ``data`` from the command line."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from sbformat.errors import DataError, escape

if TYPE_CHECKING:
    from sbformat.limits import Limits


def add_set_option(parser: argparse.ArgumentParser, text: str) -> None:
    """Add the option.

    :param text: its help
    """
    parser.add_argument("--set", action="append", default=[], metavar="KEY=JSON", type=_assignment, help=text)


def _assignment(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        message = f"expected KEY=JSON, got {escape(text)}"
        raise argparse.ArgumentTypeError(message)
    return key, value


def parse_assignments(args: argparse.Namespace, limits: Limits) -> list[tuple[str, Any]]:
    """Return the keys and values that the command line gives, parsed by the rules of ``data``.

    :raises DataError: for a text that is not a JSON value
    """
    return [(key, _parse_value(key, text, limits)) for key, text in args.set]


def _parse_value(key: str, text: str, limits: Limits) -> Any:
    from sbformat.data import loads

    try:
        found = loads(b'{"":%b\n}' % text.encode("utf-8", "surrogatepass"), limits=limits)
    except DataError as error:
        message = (
            f"{escape(key)}: {escape(text)} is not a JSON value ({error.message}); "
            f"put a text in double quotes: --set '{escape(key)}=\"...\"'"
        )
        raise DataError(message) from None
    if len(found) != 1:
        message = f"{escape(key)}: {escape(text)} is more than one JSON value"
        raise DataError(message)
    return found[""]
