"""What a more lenient reader could find in what is broken: members of a damaged zip, blobs of damaged JSON, a tar.

Nothing here is trusted, and nothing of it is ever called clean: what does not parse is reported as broken, and what
can be seen in it all the same is judged.
"""

from __future__ import annotations

import binascii
import contextlib
import json
import re
import struct
import zlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sbformat.spec import LOCAL_SIGNATURE, SERIALIZED_MARKER
from sbformat.zip_records import STORED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.limits import Limits

_LOCAL: Final = struct.Struct("<4sHHHHHIIIHH")
_MOST_MEMBERS: Final = 4096
_MOST_INFLATED: Final = 1 << 24
_TIMES_CARVED: Final = 4
"""All that is carved is at most this many times the file: headers may claim the same bytes again and again."""
_DEFLATED: Final = 8
_BZIP2: Final = 12
_TAR_BLOCK: Final = 512
_BLOB: Final = re.compile(rb'serialized:"\s*:\s*"((?:[^"\\]|\\.)*)')


def members(data: memoryview) -> Iterator[tuple[str, bytes | memoryview, bool]]:
    """Yield every member that starts with a local header, wherever it stands and whatever a directory says.

    Each with its name and whether it was inflated: what lies in a stored one is seen where it stands.

    :param data: a zip, or what should be one
    """
    raw = bytes(data)
    starts = [found.start() for found in _finditer(raw)]
    left = _TIMES_CARVED * len(raw) + _MOST_INFLATED
    for index, start in enumerate(starts):
        if len(raw) - start < _LOCAL.size or left <= 0:
            return
        _, _, _, method, _, _, _, compressed, _, name_size, extra_size = _LOCAL.unpack_from(raw, start)
        at = start + _LOCAL.size + name_size + extra_size
        name = raw[start + _LOCAL.size : start + _LOCAL.size + name_size].decode("utf-8", "replace")
        following = starts[index + 1] if index + 1 < len(starts) else len(raw)
        stop = max(at + compressed if compressed <= len(raw) - at else at, following)
        content = inflated(data[at:], method, left) if method else data[at:stop]
        left -= len(content) + _LOCAL.size
        if content:
            yield name, content, method != STORED


def _finditer(raw: bytes) -> Iterator[re.Match[bytes]]:
    for count, found in enumerate(re.finditer(re.escape(LOCAL_SIGNATURE), raw)):
        if count == _MOST_MEMBERS:
            return
        yield found


def inflated(data: memoryview, method: int, most: int = _MOST_INFLATED) -> bytes:
    """Return what a compressed member holds, as far as it can be had; nothing for a method that is not looked into.

    :param data: the member, and whatever follows it
    :param method: its number in the zip: those that Python's zipfile reads, but LZMA
    :param most: bytes, and no more
    """
    import bz2

    try:
        if method == _DEFLATED:
            return zlib.decompressobj(-15).decompress(data, most)
        return bz2.BZ2Decompressor().decompress(data, most) if method == _BZIP2 else b""
    except (zlib.error, OSError, EOFError):
        return b""


def is_tar(data: memoryview) -> bool:
    """Say whether bytes begin with a tar header, as Python's tarfile tells: by its checksum, whatever its magic.

    :param data: of the file
    """
    header = bytes(data[:_TAR_BLOCK])
    text = header[148:156].strip(b" \0")
    if len(header) < _TAR_BLOCK or not re.fullmatch(rb"[0-7]{1,7}", text):
        return False
    return int(text, 8) == sum(header[:148]) + sum(header[156:]) + 8 * ord(" ")


def tar_members(data: memoryview) -> Iterator[tuple[str, memoryview]]:
    """Yield the files of a tar, as torch wrote before 0.1.10.

    :param data: the tar
    """
    position = 0
    for _ in range(_MOST_MEMBERS):
        header = bytes(data[position : position + _TAR_BLOCK])
        size_text = header[124:136].strip(b" \0")
        if len(header) < _TAR_BLOCK or not re.fullmatch(rb"[0-7]{1,12}", size_text):
            return
        size = int(size_text, 8)
        start = position + _TAR_BLOCK
        yield header[:100].rstrip(b"\0").decode("utf-8", "replace"), data[start : start + size]
        position = start + (size + _TAR_BLOCK - 1) // _TAR_BLOCK * _TAR_BLOCK


def blobs(raw: bytes, limits: Limits) -> Iterator[tuple[str, bytes]]:
    """Yield every blob in text that is no valid ``data``: of doubled keys, too, and at any depth.

    :param raw: the entry's bytes
    :param limits: what may be parsed at all
    """
    found: list[tuple[str, str]] = []

    def note(pairs: list[tuple[str, Any]]) -> object:
        found.extend((key, value.text) for key, value in pairs if isinstance(value, _Blob))
        texts = [value for key, value in pairs if key == SERIALIZED_MARKER and type(value) is str]
        found.extend(("", text) for text in texts[:-1])
        return _Blob(texts[-1]) if texts else None

    if len(raw) <= limits.json_bytes:
        with contextlib.suppress(ValueError, RecursionError):
            root = json.loads(raw.decode("utf-8-sig", "replace"), object_pairs_hook=note)
            found.extend([("", root.text)] if isinstance(root, _Blob) else [])
    known = {text for _, text in found}
    texts = (match[1].decode("latin-1").replace("\\/", "/") for match in _BLOB.finditer(raw))
    found += [("", text) for text in texts if text not in known]
    for key, encoded in found[:_MOST_MEMBERS]:
        for blob in base64_readings(encoded):
            yield key, blob


class _Blob(NamedTuple):
    """An object that holds a blob."""

    text: str


def base64_readings(text: str) -> list[bytes]:
    """Return what decoders make of a text: Python's lenient one, and those that pass over padding or know ``-_``.

    :param text: as it stands in ``data``
    """
    readings: list[bytes] = []
    with contextlib.suppress(binascii.Error):
        readings.append(binascii.a2b_base64(text.encode("utf-8", "replace")))
    for spelled in (text, text.replace("-", "+").replace("_", "/")):
        pieces = [re.sub("[^A-Za-z0-9+/]", "", piece) for piece in spelled.split("=")]
        readings.append(_unpadded("".join(pieces)))
        readings.append(b"".join(map(_unpadded, pieces)))
    return [reading for reading in dict.fromkeys(readings) if reading]


def _unpadded(letters: str) -> bytes:
    """Decode letters of the alphabet that lack their padding; a last one that stands for no byte is dropped."""
    return binascii.a2b_base64(letters[: len(letters) - (len(letters) % 4 == 1)] + "==")
