"""The text entries of an archive: the SB3 version and ``system_info.txt`` (FORMAT.md 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sbformat.errors import DataError
from sbformat.immutable import FrozenDict, Record

if TYPE_CHECKING:
    from collections.abc import Mapping


class SystemInfo(Record):
    """The system that an agent was saved on, from ``system_info.txt``.

    >>> archive.system_info.fields["PyTorch"]
    '2.3.1+cpu'
    """

    fields: Mapping[str, str]
    """``OS``, ``Python``, ``Stable-Baselines3``, ``PyTorch``, ``GPU Enabled``, ``Numpy``, ``Cloudpickle``,
    ``Gymnasium``, ``OpenAI Gym``, as far as the release wrote them; the values are text."""
    text: str
    """The whole entry."""


def parse_system_info(raw: bytes) -> SystemInfo:
    """Parse the lines ``Key: value``, with the bullet of SB3 >= 1.7 or without; other lines are kept in ``text``.

    :raises DataError: if it is not UTF-8
    """
    text = _decode_text(raw)
    fields: dict[str, str] = {}
    for line in text.splitlines():
        key, separator, value = line.removeprefix("- ").partition(": ")
        if separator:
            fields.setdefault(key.strip(), value.strip())
    return SystemInfo(FrozenDict(fields), text)


def parse_version(raw: bytes) -> str:
    """Return the version without surrounding white space; it is a PEP 440 version in every real archive.

    :raises DataError: if it is not printable ASCII
    """
    text = _decode_text(raw).strip()
    if not (text.isascii() and text.isprintable()):
        message = "expected a version in printable ASCII, got other characters"
        raise DataError(message)
    return text


def _decode_text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"expected UTF-8: {error.reason}"
        raise DataError(message, offset=error.start) from None
