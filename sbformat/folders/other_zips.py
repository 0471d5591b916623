"""Zips that are not agents: documents, programs and data that have the same suffix."""

from __future__ import annotations

import struct
from typing import Final

from sbformat.constants import (
    DATA_ENTRY,
    PICKLE_RECORD,
    SB2_PARAMETER_LIST_ENTRY,
    SB2_PARAMETERS_ENTRY,
    VERSION_ENTRY,
)

_ENTRIES: Final = frozenset({
    DATA_ENTRY, VERSION_ENTRY, PICKLE_RECORD, SB2_PARAMETERS_ENTRY, SB2_PARAMETER_LIST_ENTRY,
})  # fmt: skip
_SUFFIXES: Final = (".pth", ".pt")


def is_other_zip(path: str) -> bool:
    """Return whether a file is a zip in which no folder has an entry of an agent or of a torch file.

    The names are those that ``zipfile`` finds, which SB3 and torch's users read zips with: a damaged archive, and one
    in a folder of its zip, are not other zips.

    :param path: of a file that could not be read as an archive
    """
    import zipfile

    try:
        with zipfile.ZipFile(path) as file:
            names = [name.rpartition("/")[2].casefold() for name in file.namelist()]
    except (zipfile.BadZipFile, struct.error, ValueError, NotImplementedError, OSError, LookupError, ArithmeticError):
        return False
    return not any(name in _ENTRIES or name.endswith(_SUFFIXES) for name in names)
