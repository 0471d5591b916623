"""Zips that are not agents: documents, programs and data that have the same suffix."""

from __future__ import annotations

import io
import struct
from typing import IO, TYPE_CHECKING, Final

from sbformat.constants import (
    DATA_ENTRY,
    LOCAL_SIGNATURE,
    PICKLE_RECORD,
    SB2_PARAMETER_LIST_ENTRY,
    SB2_PARAMETERS_ENTRY,
    VERSION_ENTRY,
)
from sbformat.errors import SbformatError
from sbformat.io.opening import is_remote, open_source, to_path

if TYPE_CHECKING:
    import os

_ENTRIES: Final = frozenset({
    DATA_ENTRY, VERSION_ENTRY, PICKLE_RECORD, SB2_PARAMETERS_ENTRY, SB2_PARAMETER_LIST_ENTRY,
})  # fmt: skip
_SUFFIXES: Final = (".pth", ".pt")
_HEADER_BYTES: Final = 30
_NAME_LENGTH: Final = 26
"""Where the length of the name is in the header of an entry."""


def is_other_zip(path: str) -> bool:
    """Return whether a file is a zip in which no folder has an entry of an agent or of a torch file.

    The names are those that ``zipfile`` finds, which SB3 and torch's users read zips with: a damaged archive, and one
    in a folder of its zip, are not other zips.

    :param path: of a file that could not be read as an archive
    """
    import zipfile

    try:
        with zipfile.ZipFile(_open(path)) as file:
            names = [name.rpartition("/")[2].casefold() for name in file.namelist()]
    except (zipfile.BadZipFile, struct.error, ValueError, NotImplementedError, OSError, LookupError, ArithmeticError):
        return False
    return not any(map(_is_of_agent, names))


def _open(path: str) -> str | os.PathLike[str] | IO[bytes]:
    """Return what ``zipfile`` opens: the path, or the bytes of a remote file."""
    if not is_remote(path):
        return to_path(path)
    try:
        source = open_source(path)
        return io.BytesIO(source.view(0, source.size))
    except SbformatError as error:
        raise OSError from error


def is_zip_of_agent(head: bytes) -> bool:
    """Return whether the first entry of a zip, which may be damaged, is one of an agent.

    :param head: the first bytes of the file
    """
    if not head.startswith(LOCAL_SIGNATURE) or len(head) < _HEADER_BYTES:
        return False
    length = int.from_bytes(head[_NAME_LENGTH : _NAME_LENGTH + 2], "little")
    return _is_of_agent(head[_HEADER_BYTES : _HEADER_BYTES + length].decode("utf-8", "replace").casefold())


def _is_of_agent(name: str) -> bool:
    return name in _ENTRIES or name.endswith(_SUFFIXES)
