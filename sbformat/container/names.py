"""Check the names of zip members, and recognize entries by name (FORMAT.md 1.2, 2.6)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NoReturn

from sbformat.constants import PTH_SUFFIX
from sbformat.errors import ContainerError, quote

if TYPE_CHECKING:
    from collections.abc import Iterable

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

    :param raw: the name as it is stored
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
    :raises ContainerError: when it is outside its folder, or some system would give it another meaning
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
    :raises ContainerError: for two equal paths, or a file whose parent folder is another file
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
