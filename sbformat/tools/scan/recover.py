"""Recover what a more lenient reader could find in damaged files: zip members, serialized values in JSON, tar members.

Whatever needs recovering has a ``broken`` finding of its own, so nothing that is recovered makes a file better.
"""

from __future__ import annotations

import binascii
import contextlib
import hashlib
import json
import re
import struct
import zlib
from itertools import chain, islice, pairwise
from typing import TYPE_CHECKING, Any, Final

from sbformat.constants import LOCAL_SIGNATURE, SERIALIZED_MARKER
from sbformat.container.reader import list_by_zipfile
from sbformat.data import check_counts
from sbformat.errors import LimitError, SbformatError
from sbformat.immutable import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from lzma import LZMADecompressor
    from mmap import mmap

    from sbformat.limits import Budget

_LOCAL: Final = struct.Struct("<4sHHHHHIIIHH")
_MAX_MEMBERS: Final = 4096
MAX_RECOVERED: Final = 1 << 22
"""Bytes that are inflated of a damaged member."""
_MAX_BLOBS: Final = 1 << 17  # more than the budget of a scan allows
_DEFLATED: Final = 8
_BZIP2: Final = 12
_LZMA: Final = 14
_LZMA_HEADER: Final = 9
ZSTANDARD: Final = 93
"""The only compression method that zipfile reads (since Python 3.14) and that is not examined here."""
_NOT_BASE64: Final = bytes(set(range(256)) - set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"))
_TAR_BLOCK: Final = 512
_PLAIN_HEADER: Final = re.compile(
    rb"\{'descr': '[<>|=][biufcSU][0-9]{1,9}', 'fortran_order': (?:True|False), 'shape': \([0-9, ]*\), ?\} *\n"
)
"""The header of a ``.npy`` file for an array of numbers or text."""
_MARKER: Final = re.compile(
    b"".join(rb"(?:%b|(?i:\\u00%02x))" % (re.escape(c.encode()), ord(c)) for c in SERIALIZED_MARKER)
)
"""The key of a serialized value in every form that JSON allows."""
_BLOB: Final = re.compile(_MARKER.pattern + rb'"\s*:\s*"([^"]*)')
"""The key of a serialized value, and its base64 text, in which characters may be escaped."""


def iter_members(data: memoryview, bytes_left: Callable[[], int]) -> Iterator[tuple[str, int, bytes | memoryview]]:
    """Yield the name, compression method and content of members, whether or not the central directory lists them.

    A member starts with a local header. The content of a stored one ends at the next header, that of a compressed one
    is as much as can be inflated. A member may have several methods.

    :param bytes_left: returns how many more bytes may be examined: several headers may claim the same bytes
    """
    raw = bytes(data)
    listed = _list_directory(raw)  # first, because a file may contain any number of other signatures
    starts = [found.start() for found in islice(re.finditer(re.escape(LOCAL_SIGNATURE), raw), _MAX_MEMBERS)]
    following = dict(pairwise([*starts, len(raw)]))
    for start in dict.fromkeys([*(start for start, _ in listed), *starts]):
        most = min(bytes_left(), MAX_RECOVERED)
        if most <= 0:
            return
        if not 0 <= start <= len(raw) - _LOCAL.size:
            continue
        _, _, _, method, _, _, _, compressed, _, name_size, extra_size = _LOCAL.unpack_from(raw, start)
        at = start + _LOCAL.size + name_size + extra_size
        name = raw[start + _LOCAL.size : start + _LOCAL.size + name_size].decode("utf-8", "replace")
        stop = max(at + compressed if compressed <= len(raw) - at else at, following.get(start, len(raw)))
        for used in dict.fromkeys((method, *(other for begin, other in listed if begin == start))):
            content = inflate_member(data[at:], used, most) if used else data[at:stop]
            if content or used == ZSTANDARD:
                yield name, used, content


def _list_directory(raw: bytes) -> list[tuple[int, int]]:
    """Return the offset of each member that zipfile finds, and the method of the directory, by which it reads it."""
    import io

    found = list_by_zipfile(io.BytesIO(raw)) or ()  # SB3 cannot open what zipfile cannot
    return [(info.header_offset, info.compress_type) for info in islice(found, _MAX_MEMBERS)]


def inflate_member(data: memoryview, method: int, most: int) -> bytes:
    """Return the content of a compressed member as far as it can be inflated; empty for an unsupported method.

    :param data: the compressed member and any bytes that follow it
    """
    import bz2
    import lzma

    most = max(most, 1)  # 0 means no limit to zlib
    try:
        if method == _DEFLATED:
            return zlib.decompressobj(-15).decompress(data, most)
        if method == _BZIP2:
            return bz2.BZ2Decompressor().decompress(data, most)
        if method == _LZMA:
            return _open_lzma(data, most).decompress(data[_LZMA_HEADER:], most)
    except (zlib.error, lzma.LZMAError, OSError, EOFError):
        pass
    return b""


def _open_lzma(data: memoryview, most: int) -> LZMADecompressor:
    """Return a decompressor for the header of a member: a version, the size of the properties (5), and these.

    The dictionary never needs to be larger than the output, whatever size the header claims.
    """
    import lzma

    properties = data[4] if len(data) >= _LZMA_HEADER and data[2] == 5 else 255
    if properties >= 9 * 5 * 5:
        raise lzma.LZMAError("invalid LZMA properties")
    rest, lc = divmod(properties, 9)
    pb, lp = divmod(rest, 5)
    size = min(int.from_bytes(data[5:_LZMA_HEADER], "little"), most)
    layout = {"id": lzma.FILTER_LZMA1, "dict_size": max(size, 4096), "lc": lc, "lp": lp, "pb": pb}
    return lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=[layout])


def is_tar(data: memoryview) -> bool:
    """Return whether bytes begin with a tar header: tarfile checks its checksum, not its magic number."""
    header = bytes(data[:_TAR_BLOCK])
    if len(header) < _TAR_BLOCK:
        return False
    expected = _parse_tar_number(header[148:156])
    if expected is None:
        return False
    summed = header[:148] + b" " * 8 + header[156:]
    unsigned = sum(summed)
    return expected in (unsigned, unsigned - 256 * sum(byte > 127 for byte in summed))


def _parse_tar_number(field: bytes) -> int | None:
    """Return a number as tarfile reads it: octal text up to a NUL, or base 256."""
    if field[0] in (0x80, 0xFF):
        return int.from_bytes(field[1:], "big") - (256 ** (len(field) - 1) if field[0] == 0xFF else 0)
    try:
        return int(field.split(b"\0")[0].decode("ascii", "replace").strip() or "0", 8)
    except ValueError:
        return None


def contains_blob_key(data: bytes | memoryview | mmap) -> bool:
    """Return whether text contains the key of a serialized value, in any form that JSON allows."""
    return _MARKER.search(data) is not None


def find_npy_pickle(data: memoryview) -> int | None:
    """Return the offset of the pickle in a ``.npy`` file; None for an array of plain numbers or text."""
    start = 10 if bytes(data[6:7]) == b"\x01" else 12
    size = start + int.from_bytes(data[8:start], "little")
    return None if _PLAIN_HEADER.fullmatch(bytes(data[start:size])) else size


def starts_as_json_object(data: memoryview) -> bool:
    """Return whether bytes begin as a JSON object does."""
    return re.match(rb"\s*\{", data) is not None


def iter_tar_members(data: memoryview) -> Iterator[tuple[str, str, memoryview]]:
    """Yield the name, type and content of each member of a tar."""
    position = 0
    for _ in range(_MAX_MEMBERS):
        header = bytes(data[position : position + _TAR_BLOCK])
        size = _parse_tar_number(header[124:136]) if len(header) == _TAR_BLOCK else None
        if size is None or size < 0:
            return
        start = position + _TAR_BLOCK
        name = header[:100].rstrip(b"\0").decode("utf-8", "replace")
        yield name, header[156:157].decode("latin-1"), data[start : start + size]
        position = start + (size + _TAR_BLOCK - 1) // _TAR_BLOCK * _TAR_BLOCK


def iter_blobs(raw: memoryview, budget: Budget) -> Iterator[tuple[str, bytes]]:
    """Yield the key and the pickle of every serialized value in an invalid ``data``: at any depth, duplicates included.

    What the budget allows is parsed as JSON; in the rest, a search finds the key of serialized values.
    """
    found: list[tuple[str, str]] = []

    def collect(pairs: list[tuple[str, Any]]) -> object:
        found.extend((key, value.text) for key, value in pairs if isinstance(value, _Blob))
        texts = [value for key, value in pairs if key == SERIALIZED_MARKER and type(value) is str]
        found.extend(("", text) for text in texts[:-1])
        return _Blob(texts[-1]) if texts else None

    with budget.temporary(), contextlib.suppress(ValueError, RecursionError, SbformatError):
        budget.spend("json_bytes", len(raw))
        check_counts(raw, budget)
        root = json.loads(str(raw, "utf-8-sig", "replace"), object_pairs_hook=collect)
        found.extend([("", root.text)] if isinstance(root, _Blob) else [])
    known = {text for _, text in found}
    most = _max_text(budget)
    matches = (_unescape_json(bytes(raw[slice(*match.span(1))][:most])) for match in _BLOB.finditer(raw))
    every = chain(found, (("", text) for text in matches if text not in known))
    for key, encoded in islice(every, _MAX_BLOBS):
        with contextlib.suppress(LimitError):
            for blob in iter_base64_readings(encoded, budget):
                yield key, blob


def _unescape_json(raw: bytes) -> str:
    """Return the text of a JSON string, or its bytes as text when it is invalid."""
    if b"\\" in raw:
        with contextlib.suppress(ValueError):
            return str(json.loads(b'"%b"' % raw))
    return raw.decode("latin-1")


_MEMORY_PER_BYTE: Final = 8  # bytes of memory for each byte of a text while it is decoded, the text itself included
_MIN_TEXT: Final = 1 << 20


class _Blob(Record):
    """A JSON object that is a serialized value."""

    text: str


def iter_base64_readings(text: str, budget: Budget) -> Iterator[bytes]:
    """Yield what decoders decode base64 text to: Python's lenient one, and those that ignore padding or accept ``-_``.

    :param budget: limits memory: only the beginning of a text that is too long is decoded
    """
    most = _max_text(budget)
    seen = set()
    for reading in _decode_base64(text[:most]):
        digest = hashlib.sha256(reading).digest()
        if reading and digest not in seen:
            seen.add(digest)
            yield reading
    if len(text) > most:
        budget.keep(0, meanwhile=_MEMORY_PER_BYTE * len(text))


def _max_text(budget: Budget) -> int:
    """Return how many characters of a text may be decoded: a multiple of four."""
    return max(budget.memory_left() // _MEMORY_PER_BYTE, _MIN_TEXT) // 4 * 4


def _decode_base64(text: str) -> Iterator[bytes]:
    with contextlib.suppress(binascii.Error):
        yield binascii.a2b_base64(text.encode("utf-8", "replace"))
    raw = text.encode("ascii", "ignore")
    variants = [raw]
    if b"-" in raw or b"_" in raw:
        variants.append(raw.replace(b"-", b"+").replace(b"_", b"/"))
    for variant in variants:
        pieces = [piece.translate(None, _NOT_BASE64) for piece in re.split(b"=+", variant)]
        yield _decode_unpadded(b"".join(pieces))
        if len(pieces) > 1:
            yield b"".join(map(_decode_unpadded, pieces))


def _decode_unpadded(letters: bytes) -> bytes:
    """Decode base64 letters without padding, and without a last letter that is too few for a byte."""
    return binascii.a2b_base64(letters[: len(letters) - (len(letters) % 4 == 1)] + b"==")
