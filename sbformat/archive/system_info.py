"""The text entries of an archive: the SB3 version and ``system_info.txt`` (FORMAT.md 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sbformat.errors import DataError
from sbformat.immutable import FrozenDict

if TYPE_CHECKING:
    from collections.abc import Mapping


class SystemInfo(NamedTuple):
    """``system_info.txt``: what the agent was saved with."""

    fields: Mapping[str, str]
    """``OS``, ``Python``, ``Stable-Baselines3``, ``PyTorch``, ``GPU Enabled``, ``Numpy``, ``Cloudpickle``,
    ``Gymnasium``, ``OpenAI Gym``, as far as the release wrote them, as text."""
    text: str
    """All of it as it stands."""


def parse_system_info(raw: bytes) -> SystemInfo:
    """Parse the lines ``Key: value``, with the bullet of SB3 >= 1.7 or without.

    :raises DataError: when it is not UTF-8; lines of any other form stay in ``text`` only
    """
    text = _decode(raw)
    fields: dict[str, str] = {}
    for line in text.splitlines():
        key, separator, value = line.removeprefix("- ").partition(": ")
        if separator:
            fields.setdefault(key.strip(), value.strip())
    return SystemInfo(FrozenDict(fields), text)


def parse_version(raw: bytes) -> str:
    """Return the version, a PEP 440 one in every real archive, without white space around it.

    :raises DataError: when it is not printable ASCII
    """
    text = _decode(raw).strip()
    if not (text.isascii() and text.isprintable()):
        message = "the version is not printable ASCII"
        raise DataError(message)
    return text


def _decode(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"it is not UTF-8: {error.reason}"
        raise DataError(message, offset=error.start) from None
