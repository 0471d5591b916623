"""The records of a zip and the names of its members: what ``layout`` reads, and what ``writer`` writes (FORMAT.md 2).

In: bytes and numbers of a directory. Out: ``Entry``, a member that was read, and ``Member``, one that is to be written;
or a ``ContainerError`` for a name that breaks a rule (FORMAT.md 1.2, 2.6).
"""

from __future__ import annotations

import re
from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias

from sbformat.constants import PTH_SUFFIX
from sbformat.errors import ContainerError, quote
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


NAME_BYTES: Final = 1024
_SHORT: Final = 64
"""Names up to this length are cached when they are valid: SB3 and torch write the same few in every file."""

_BIDI_AND_SEPARATORS: Final = "[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
_STRAY_PARTS: Final = r"(?m)^/|^[A-Za-z]:|\\|//|(?:^|/)\.\.?(?:/|$)"
"""Matches what no name of a record may contain, in a list of names with one on each line."""
_STRAY_TEXTS: Final = ("//", "/./", "/../", "\\", ":")
"""A list of names that it matches contains one of these texts once each name is between slashes; searching for them is
faster."""
_DEVICES: Final = frozenset({"con", "prn", "aux", "nul", "conin$", "conout$"})
_NUMBERED_DEVICES: Final = ("com", "lpt")
_DEVICE_NUMBERS: Final = frozenset("0123456789\u00b9\u00b2\u00b3")


def _refuse(message: str, offset: int | None) -> NoReturn:
    raise ContainerError(message, offset=offset)


def is_state_dict(name: str) -> bool:
    """Return whether SB3 would load this entry with torch: a ``.pth`` at the top level."""
    return name.endswith(PTH_SUFFIX) and "/" not in name and name != PTH_SUFFIX


def check_name(raw: bytes, offset: int | None = None) -> str:
    """Decode a member's name and check it.

    :param offset: its position, for the message
    :raises ContainerError: when it breaks FORMAT.md 2.6
    """
    return (len(raw) <= _SHORT and _good_name(raw)) or _checked_name(raw, offset)


@lru_cache(maxsize=1024)
def _good_name(raw: bytes) -> str | None:
    try:
        return _checked_name(raw, None)
    except ContainerError:
        return None


def _checked_name(raw: bytes, offset: int | None) -> str:
    if not 1 <= len(raw) <= NAME_BYTES:
        _refuse(f"expected a name of 1 to {NAME_BYTES} bytes, got {len(raw)}", offset)
    try:
        name = raw.decode("utf-8")
    except UnicodeDecodeError:
        _refuse(f"the name {quote(raw.decode('utf-8', 'backslashreplace'))} is not UTF-8", offset)
    if not (name.isascii() and name.isprintable()) and not _is_plain(name):
        _refuse(f"the name {quote(name)} holds a control or bidi character", offset)
    return name


def _is_plain(name: str) -> bool:
    import unicodedata

    return not re.search(_BIDI_AND_SEPARATORS, name) and all(unicodedata.category(c) != "Cc" for c in name)


def encode_name(name: str) -> bytes:
    """Return the bytes of the name for a new member.

    :raises ContainerError: when it breaks the rules of FORMAT.md 2.6 for every name
    """
    try:
        raw = name.encode("utf-8")
    except UnicodeEncodeError:
        _refuse(f"the name {quote(name)} holds a lone surrogate", None)
    check_name(raw)
    return raw


def encode_path(name: str) -> bytes:
    """Return the bytes of a name that also follows the path rules."""
    raw = encode_name(name)
    check_path(name)
    return raw


def check_path(name: str, offset: int | None = None) -> None:
    """Check that a name is safe to create on any file system, as it is and normalized.

    :param name: a name that passed :func:`check_name`
    """
    if len(name) > _SHORT or not _is_good_path(name):
        _check_path(name, offset)


@lru_cache(maxsize=1024)
def _is_good_path(name: str) -> bool:
    try:
        _check_path(name, None)
    except ContainerError:
        return False
    return True


def _check_path(name: str, offset: int | None) -> None:
    _check_parts(name, name, offset)
    if not name.isascii():
        import unicodedata

        _check_parts(unicodedata.normalize("NFKC", name), name, offset)


def _check_parts(name: str, original: str, offset: int | None) -> None:
    if "\\" in name or ":" in name or name.startswith("/"):
        _refuse(f"the name {quote(original)} is a path outside its folder", offset)
    for part in name.removesuffix("/").split("/"):
        if part in ("", ".", "..") or part[-1] in ". ":
            _refuse(f"the name {quote(original)} has a part that is empty, a dot or ends with a dot or space", offset)
        if part[0] in "cpanlCPANL" and _is_device(part):
            _refuse(f"the name {quote(original)} is a device on Windows", offset)


def _is_device(part: str) -> bool:
    """Return whether Windows opens a device for a name, in any case and with any suffix: ``NUL.txt``, ``com1 .pth``."""
    stem = part.partition(".")[0].rstrip().lower()
    return stem in _DEVICES or (stem[:3] in _NUMBERED_DEVICES and len(stem) == 4 and stem[3] in _DEVICE_NUMBERS)


def check_records(names: Iterable[str]) -> None:
    """Check the names of a torch zip's records: as paths, all are in the folder that the zip is unpacked into.

    The name of the file when it was saved is the name of that folder, so colons, device names and trailing dots occur.

    :param names: names that passed :func:`check_name`
    :raises ContainerError: for a name that is absolute, or has a part that is empty, ``.`` or ``..`` (FORMAT.md 2.6)
    """
    joined = "\n".join(names)
    if not joined.isascii():
        import unicodedata

        joined += f"\n{unicodedata.normalize('NFKC', joined)}"
    parts = f"/{joined}/".replace("\n", "/\n/")
    if not any(stray in parts for stray in _STRAY_TEXTS):
        return
    found = re.search(_STRAY_PARTS, joined)
    if found:
        name = joined[joined.rfind("\n", 0, found.end()) + 1 :].partition("\n")[0]
        _refuse(f"the record {quote(name)} is a path outside its folder, or has a part that is empty or a dot", None)


def check_paths(names: Iterable[str]) -> None:
    """Check names against each other: no two are the same path on a file system that folds case or normalizes.

    :param names: names that passed :func:`check_name`
    """
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(_fold(name.removesuffix("/")), name)
        if other is not name:
            _refuse(f"the names {quote(other)} and {quote(name)} are equal when case is folded", None)
    for folded, name in seen.items():
        parent = folded.rpartition("/")[0]
        while parent:
            if parent in seen and not seen[parent].endswith("/"):
                _refuse(f"the member {quote(name)} is inside the file {quote(seen[parent])}", None)
            parent = parent.rpartition("/")[0]


def _fold(name: str) -> str:
    if name.isascii():
        return name.lower()
    import unicodedata

    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
