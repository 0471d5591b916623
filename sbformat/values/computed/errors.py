"""The reason why a function is not understood, on its way to :func:`sbformat.values.computed.examine`."""

from __future__ import annotations

from typing import NoReturn


class NotUnderstoodError(Exception):
    """A function is not a pure function of numbers, or not one that is known here; never leaves the package."""


class OtherReleaseError(NotUnderstoodError):
    """Bytecode is not what a release of CPython compiles."""


def refuse(reason: str) -> NoReturn:
    """Raise a reason.

    :param reason: the end of a sentence about the function: "it calls print"; text of the file in it is escaped
    """
    raise NotUnderstoodError(reason)
