"""The records of a zip: one table, from which ``layout`` reads and ``writer`` writes (FORMAT.md 2)."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, TypeAlias

from sbformat.immutable import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Chunks: TypeAlias = "Iterable[bytes | memoryview]"

STORED: Final = 0
DEFLATED: Final = 8

END: Final = Struct("<4s4H2IH")
"""Signature; this disk, disk of the directory; entries here, entries; size and start of the directory; comment size."""
ZIP64_END: Final = Struct("<4sQ2H2I4Q")
"""Signature, size of the rest; made by, version; two disks; entries here, entries, size and start of the directory."""
ZIP64_LOCATOR: Final = Struct("<4sIQI")
"""Signature, disk, offset of the zip64 end record, disks."""
CENTRAL: Final = Struct("<4s6H3I5H2I")
"""Signature; made by, version, flags, method, time, date; CRC, compressed size, size; sizes of name, extras and
comment, disk, internal attributes; external attributes, offset of the local header."""
LOCAL: Final = Struct("<4s5H3I2H")
"""Signature; version, flags, method, time, date; CRC, compressed size, size; sizes of name and extras."""
EXTRA: Final = Struct("<2H")
"""Id and size of an extra field."""
DESCRIPTOR: Final = Struct("<4s3I")
"""Signature; CRC, compressed size, size."""
DESCRIPTOR64: Final = Struct("<4sI2Q")

MAX16: Final = 0xFFFF
MAX32: Final = 0xFFFFFFFF
"""Sentinels: the value is in a zip64 record or extra field instead."""

FLAG_DESCRIPTOR: Final = 0x8
FLAG_UTF8: Final = 0x800

EXTRA_ZIP64: Final = 0x0001
EXTRA_TORCH_PADDING: Final = 0x4246  # "FB": aligns a record's data; may repeat

DOS_FOLDER: Final = 0x10
MODE_FILE: Final = 0o100000
MODE_FOLDER: Final = 0o040000


class Entry(Record):
    """One member of a zip that was read; its local header and its directory record agree on it."""

    name: str
    offset: int
    """Position of the local header in the zip, in bytes."""
    data_offset: int
    """Position of the member's bytes, as they are stored; -1 for one that is fetched by ranges, until it is used."""
    compressed_size: int
    size: int
    crc: int
    method: int
    """0 stored, 8 deflated."""

    @property
    def is_folder(self) -> bool:
        """A directory entry: its name ends with a slash and it is empty."""
        return self.name.endswith("/")


class Member(Record):
    """One member of a zip that is to be written; its size is known before its bytes are made."""

    name: str
    size: int
    chunks: Callable[[], Chunks]
    """Returns an iterable over its bytes, from the start at each call."""
    crc: Callable[[], int] | None = None
    """Returns their CRC-32 after the last chunk, when iterating over them computes it or has checked it."""
