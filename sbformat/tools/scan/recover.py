"""What a more lenient reader could find in what is broken: members of a damaged zip, blobs of damaged JSON, a tar.

Nothing here is trusted, and nothing of it is ever called clean: what does not parse is reported as broken, and what
can be seen in it all the same is judged.
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
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sbformat.constants import LOCAL_SIGNATURE, SERIALIZED_MARKER
from sbformat.data import check_counts
from sbformat.errors import LimitError, SbformatError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from lzma import LZMADecompressor
    from mmap import mmap

    from sbformat.limits import Budget

_LOCAL: Final = struct.Struct("<4sHHHHHIIIHH")
_MOST_MEMBERS: Final = 4096
_MOST_BLOBS: Final = 1 << 17
"""More than there is budget for."""
_DEFLATED: Final = 8
_BZIP2: Final = 12
_LZMA: Final = 14
_LZMA_HEADER: Final = 9
ZSTANDARD: Final = 93
"""Of the methods that Python's zipfile reads the only one that is not looked into: it does since 3.14."""
_NO_LETTERS: Final = bytes(set(range(256)) - set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"))
_TAR_BLOCK: Final = 512
_PLAIN_HEADER: Final = re.compile(
    rb"\{'descr': '[<>|=][biufcSU][0-9]{1,9}', 'fortran_order': (?:True|False), 'shape': \([0-9, ]*\), ?\} *\n"
)
"""The header that numpy writes for an array of numbers or text."""
_MARKER: Final = re.compile(
    b"".join(rb"(?:%b|(?i:\\u00%02x))" % (re.escape(c.encode()), ord(c)) for c in SERIALIZED_MARKER)
)
"""The key of a blob as JSON can spell it."""
_BLOB: Final = re.compile(_MARKER.pattern + rb'"\s*:\s*"([^"]*)')
"""A blob's key and its text, whose characters may be escaped themselves."""


class Member(NamedTuple):
    """A member of a zip, read by one method."""

    name: str
    method: int
    content: bytes | memoryview
    """As far as it can be had: a stored one up to the next header, an inflated one up to a limit."""


def members(data: memoryview, left: Callable[[], int]) -> Iterator[Member]:
    """Yield every member that starts with a local header, wherever it is and whatever a directory says.

    :param data: a zip, or what should be one
    :param left: says how many bytes may still be looked at: headers may claim the same ones again and again
    """
    raw = bytes(data)
    listed = _listed(raw)  # first: a file can hold any number of other signatures
    starts = [found.start() for found in islice(re.finditer(re.escape(LOCAL_SIGNATURE), raw), _MOST_MEMBERS)]
    following = dict(pairwise([*starts, len(raw)]))
    for start in dict.fromkeys([*(start for start, _ in listed), *starts]):
        if left() <= 0:
            return
        if not 0 <= start <= len(raw) - _LOCAL.size:
            continue
        _, _, _, method, _, _, _, compressed, _, name_size, extra_size = _LOCAL.unpack_from(raw, start)
        at = start + _LOCAL.size + name_size + extra_size
        name = raw[start + _LOCAL.size : start + _LOCAL.size + name_size].decode("utf-8", "replace")
        stop = max(at + compressed if compressed <= len(raw) - at else at, following.get(start, len(raw)))
        for used in dict.fromkeys((method, *(other for begin, other in listed if begin == start))):
            content = inflated(data[at:], used, left()) if used else data[at:stop]
            if content or used == ZSTANDARD:
                yield Member(name, used, content)


def _listed(raw: bytes) -> list[tuple[int, int]]:
    """Return where zipfile finds members, and by which method it reads them: the directory's, not the header's."""
    import io
    import zipfile

    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as file:
            return [(info.header_offset, info.compress_type) for info in islice(file.infolist(), _MOST_MEMBERS)]
    except (zipfile.BadZipFile, struct.error, ValueError, NotImplementedError, OSError, LookupError, ArithmeticError):
        return []  # SB3 cannot open it either


def inflated(data: memoryview, method: int, most: int) -> bytes:
    """Return what a compressed member holds, as far as it can be had; nothing for a method that is not looked into.

    :param data: the member, and whatever follows it
    :param method: its number in the zip; those that Python's zipfile reads
    :param most: bytes, and no more
    """
    import bz2
    import lzma

    most = max(most, 1)  # 0 would be no bound
    try:
        if method == _DEFLATED:
            return zlib.decompressobj(-15).decompress(data, most)
        if method == _BZIP2:
            return bz2.BZ2Decompressor().decompress(data, most)
        if method == _LZMA:
            return _decompressor_of_lzma(data, most).decompress(data[_LZMA_HEADER:], most)
    except (zlib.error, lzma.LZMAError, OSError, EOFError):
        pass
    return b""


def _decompressor_of_lzma(data: memoryview, most: int) -> LZMADecompressor:
    """Return a decompressor by a member's header: a version, the size of the properties (5), and these.

    The dictionary need be no larger than what is taken from it, whatever size the header claims.
    """
    import lzma

    properties = data[4] if len(data) >= _LZMA_HEADER and data[2] == 5 else 255
    if properties >= 9 * 5 * 5:
        message = "no properties of LZMA"
        raise lzma.LZMAError(message)
    rest, lc = divmod(properties, 9)
    pb, lp = divmod(rest, 5)
    size = min(int.from_bytes(data[5:_LZMA_HEADER], "little"), most)
    layout = {"id": lzma.FILTER_LZMA1, "dict_size": max(size, 4096), "lc": lc, "lp": lp, "pb": pb}
    return lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=[layout])


def is_tar(data: memoryview) -> bool:
    """Say whether bytes begin with a tar header, as Python's tarfile tells: by its checksum, whatever its magic.

    :param data: of the file
    """
    header = bytes(data[:_TAR_BLOCK])
    if len(header) < _TAR_BLOCK:
        return False
    summed = header[:148] + b" " * 8 + header[156:]
    unsigned = sum(summed)
    return _tar_number(header[148:156]) in (unsigned, unsigned - 256 * sum(byte > 127 for byte in summed))


def _tar_number(field: bytes) -> int | None:
    """Read a number as tarfile does: text up to a NUL, as Python's int takes it, or base 256."""
    if field[0] in (0x80, 0xFF):
        return int.from_bytes(field[1:], "big") - (256 ** (len(field) - 1) if field[0] == 0xFF else 0)
    try:
        return int(field.split(b"\0")[0].decode("ascii", "replace").strip() or "0", 8)
    except ValueError:
        return None


def holds_marker(data: bytes | memoryview | mmap) -> bool:
    """Say whether text holds the key of a blob, however JSON can spell it.

    :param data: of any size
    """
    return _MARKER.search(data) is not None


def npy_pickle(data: memoryview) -> int | None:
    """Return where the pickle of a numpy array starts: behind its header, unless it is of plain numbers or text.

    :param data: of a ``.npy`` file
    """
    start = 10 if bytes(data[6:7]) == b"\x01" else 12
    size = start + int.from_bytes(data[8:start], "little")
    return None if _PLAIN_HEADER.fullmatch(bytes(data[start:size])) else size


def is_document(data: memoryview) -> bool:
    """Say whether bytes begin as a JSON object does.

    :param data: of any size
    """
    return re.match(rb"\s*\{", data) is not None


def tar_members(data: memoryview) -> Iterator[tuple[str, str, memoryview]]:
    """Yield the members of a tar, as torch wrote before 0.1.10: name, kind and content.

    :param data: the tar
    """
    position = 0
    for _ in range(_MOST_MEMBERS):
        header = bytes(data[position : position + _TAR_BLOCK])
        size = _tar_number(header[124:136]) if len(header) == _TAR_BLOCK else None
        if size is None or size < 0:
            return
        start = position + _TAR_BLOCK
        name = header[:100].rstrip(b"\0").decode("utf-8", "replace")
        yield name, header[156:157].decode("latin-1"), data[start : start + size]
        position = start + (size + _TAR_BLOCK - 1) // _TAR_BLOCK * _TAR_BLOCK


def blobs(raw: memoryview, budget: Budget) -> Iterator[tuple[str, bytes]]:
    """Yield every blob in text that is no valid ``data``: of doubled keys, too, and at any depth.

    :param raw: the entry's bytes
    :param budget: what may be parsed at all; of the rest blobs are found by their key
    """
    found: list[tuple[str, str]] = []

    def note(pairs: list[tuple[str, Any]]) -> object:
        found.extend((key, value.text) for key, value in pairs if isinstance(value, _Blob))
        texts = [value for key, value in pairs if key == SERIALIZED_MARKER and type(value) is str]
        found.extend(("", text) for text in texts[:-1])
        return _Blob(texts[-1]) if texts else None

    with budget.temporary(), contextlib.suppress(ValueError, RecursionError, SbformatError):
        budget.spend("json_bytes", len(raw))
        check_counts(raw, budget)
        root = json.loads(str(raw, "utf-8-sig", "replace"), object_pairs_hook=note)
        found.extend([("", root.text)] if isinstance(root, _Blob) else [])
    known = {text for _, text in found}
    most = _most_text(budget)
    spelled = (_unescaped(bytes(raw[slice(*match.span(1))][:most])) for match in _BLOB.finditer(raw))
    every = chain(found, (("", text) for text in spelled if text not in known))
    for key, encoded in islice(every, _MOST_BLOBS):
        with contextlib.suppress(LimitError):
            for blob in base64_readings(encoded, budget):
                yield key, blob


def _unescaped(raw: bytes) -> str:
    """Return the text of a JSON string, or its bytes as they stand."""
    if b"\\" in raw:
        with contextlib.suppress(ValueError):
            return str(json.loads(b'"%b"' % raw))
    return raw.decode("latin-1")


_TIMES_DECODED: Final = 8
"""What a text takes while it is decoded, its own bytes included, in times its size."""
_LEAST_TEXT: Final = 1 << 20


class _Blob(NamedTuple):
    """An object that holds a blob."""

    text: str


def base64_readings(text: str, budget: Budget) -> Iterator[bytes]:
    """Yield what decoders make of a text: Python's lenient one, and those that pass over padding or know ``-_``.

    :param text: as it stands in ``data``
    :param budget: of a text that is too long for the memory that is left only the beginning is decoded
    :raises LimitError: at the end, for such a text
    """
    most = _most_text(budget)
    seen = set()
    for reading in _readings(text[:most]):
        digest = hashlib.sha256(reading).digest()
        if reading and digest not in seen:
            seen.add(digest)
            yield reading
    if len(text) > most:
        budget.keep(0, meanwhile=_TIMES_DECODED * len(text))


def _most_text(budget: Budget) -> int:
    """Return how much of a text may be decoded: whole groups of four letters."""
    return max(budget.memory_left() // _TIMES_DECODED, _LEAST_TEXT) // 4 * 4


def _readings(text: str) -> Iterator[bytes]:
    with contextlib.suppress(binascii.Error):
        yield binascii.a2b_base64(text.encode("utf-8", "replace"))
    raw = text.encode("ascii", "ignore")
    spellings = [raw]
    if b"-" in raw or b"_" in raw:
        spellings.append(raw.replace(b"-", b"+").replace(b"_", b"/"))
    for spelled in spellings:
        pieces = [piece.translate(None, _NO_LETTERS) for piece in re.split(b"=+", spelled)]
        yield _unpadded(b"".join(pieces))
        if len(pieces) > 1:
            yield b"".join(map(_unpadded, pieces))


def _unpadded(letters: bytes) -> bytes:
    """Decode letters of the alphabet that lack their padding; a last one that stands for no byte is dropped."""
    return binascii.a2b_base64(letters[: len(letters) - (len(letters) % 4 == 1)] + b"==")
