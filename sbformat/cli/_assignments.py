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
        message = f"{escape(text)} is not KEY=JSON"
        raise argparse.ArgumentTypeError(message)
    return key, value


def assignments(args: argparse.Namespace, limits: Limits) -> list[tuple[str, Any]]:
    """Return the keys that the command line gives, with their values, read by the rules of ``data``.

    :raises DataError: for a text that is no JSON value
    """
    return [(key, _parsed(key, text, limits)) for key, text in args.set]


def _parsed(key: str, text: str, limits: Limits) -> Any:
    from sbformat.data import loads

    try:
        found = loads(b'{"":%b\n}' % text.encode("utf-8", "surrogatepass"), limits=limits)
    except DataError as error:
        message = (
            f"{escape(key)}: {escape(text)} is no JSON value ({error.message}); "
            f"a text stands in double quotes: --set '{escape(key)}=\"...\"'"
        )
        raise DataError(message) from None
    if len(found) != 1:
        message = f"{escape(key)}: {escape(text)} is more than one JSON value"
        raise DataError(message)
    return found[""]
