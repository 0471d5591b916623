"""All CRC-32 checks of an archive (FORMAT.md 2.5).

In: the source of a zip, and its entries with the CRC-32 that the directory gives for each. Out: nothing, or a
``ContainerError`` for the first member whose bytes have another CRC-32.

A ``.pth`` entry is a zip within a zip, so two CRC-32s cover a tensor's bytes, and computing one of them takes a third
of the time of reading 512 MiB. The rules:

* No byte of a member is handed out as its content before its CRC is checked, or the reader of a stream gets the error
  instead of the end. The exceptions are named so: :meth:`Container.view` and :meth:`Container.source`.
* What is in memory does not change, so a CRC that was computed is remembered. A member of a file is checked each time.
* The CRC of an entry that is itself a zip follows from those of its large members and the bytes between them, so that
  each byte is read once for both: ``combine(crc(headers, data.pkl), crc("data/0"), size)``, and so on to the directory.
* Where the entry stays in a file, this is deferred: the members are checked as they are read, and
  :meth:`Checksums.check_deferred` computes the rest before the result counts (when all was written).

A CRC-32 is the remainder of the bytes, taken as a polynomial over GF(2), modulo a fixed polynomial of degree 32.
Appending ``n`` bytes multiplies the polynomial before them by ``x ** (8 * n)``; so the remainder of the whole is the
remainder of that product plus (XOR) that of the appended bytes. Powers are computed by squaring; because
``x ** (2 ** 32) == x`` in this field, 32 squares are enough for every length. zlib's ``crc32_combine`` does the same.
"""

from __future__ import annotations

import zlib
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar

from sbformat.container.layout import STORED
from sbformat.errors import ContainerError, SbformatError
from sbformat.io.source import CHUNK_BYTES, is_by_range, is_in_memory, iter_views

_POLYNOMIAL: Final = 0xEDB88320  # without its leading term; bit 31 is the coefficient of ``x ** 0``, as everywhere here
_ONE: Final = 1 << 31
_X: Final = 1 << 30
_BITS: Final = 32
_PARALLEL_BYTES: Final = 1 << 24
"""From this size on, two threads compute one half each: 512 MiB take 0.07 s instead of 0.13."""


def crc32(data: memoryview, before: int = 0) -> int:
    """Return the CRC-32 of bytes in memory."""
    if len(data) < _PARALLEL_BYTES:
        return zlib.crc32(data, before)
    from threading import Thread

    middle = len(data) // 2
    later: list[int] = []
    try:
        thread = Thread(target=lambda: later.append(zlib.crc32(data[middle:])), name="sbformat-crc32", daemon=True)
        thread.start()
    except RuntimeError:  # no thread can be started
        return zlib.crc32(data, before)
    first = zlib.crc32(data[:middle], before)
    thread.join()
    if not later:  # an error in the thread: it is raised here, if it occurs again
        return zlib.crc32(data[middle:], first)
    return combine_crc32(first, later[0], len(data) - middle)


def combine_crc32(first: int, second: int, size: int) -> int:
    """Return the CRC-32 of two byte strings, concatenated."""
    return _product(_power(size), first) ^ second


@lru_cache(maxsize=256)
def _power(size: int) -> int:
    """Return ``x ** (8 * size)``; many tensors have the same size."""
    power = _ONE
    square = 3  # 8 is 2 ** 3
    while size:
        if size & 1:
            power = _product(_squares()[square % _BITS], power)
        size >>= 1
        square += 1
    return power


def _product(left: int, right: int) -> int:
    """Multiply two polynomials: add ``right * x ** n`` for each term ``x ** n`` of ``left``."""
    product = 0
    while left:
        if left & _ONE:
            product ^= right
        left = left << 1 & 0xFFFFFFFF
        right = right >> 1 ^ (_POLYNOMIAL if right & 1 else 0)
    return product


@lru_cache(maxsize=1)
def _squares() -> tuple[int, ...]:
    """Return ``x ** (2 ** n)`` for ``n`` from 0 to 31."""
    found = [_X]
    while len(found) < _BITS:
        found.append(_product(found[-1], found[-1]))
    return tuple(found)


if TYPE_CHECKING:
    from collections.abc import Container, Generator, Iterable, Iterator

    from sbformat.container.layout import Entry, Layout, Member

    Chunk = TypeVar("Chunk", bound=memoryview | bytes)

COMBINE_BYTES: Final = 1 << 18
"""Members from this size on are combined, not read twice. Reading 512 MiB takes 0.39 s instead of 0.52, and writing
them 20 % less processor time. A combination takes 20 to 300 us, and zlib computes a CRC-32 at 2 to 4 GB/s, so that
smaller members would gain nothing."""


def refuse_member(entry: Entry | Member, message: str, *, hint: str = "") -> NoReturn:
    """Raise what is wrong with a member."""
    raise ContainerError(message, entry=entry.name, hint=hint)


class Checksums:
    """The CRC-32s of the members of one zip: expected, found, and deferred.

    :param unchecked_crc: accept CRC fields that are all zero; no effect when one of them is not
    """

    __slots__ = ("_deferred", "_entries", "_found", "_is_unchecked", "_layout", "_source", "is_in_memory")

    is_in_memory: bool  # the source is in memory, so that its bytes cannot change

    def __init__(self, layout: Layout, *, unchecked_crc: bool) -> None:
        self._layout = layout
        self._source = layout.source
        self._entries = layout.entries
        self._is_unchecked = unchecked_crc and not any(entry.crc for entry in layout.entries.values())
        self._found: dict[str, int] = {}
        self._deferred: dict[str, Checksums] = {}
        self.is_in_memory = is_in_memory(layout.source)

    def is_known(self, entry: Entry) -> bool:
        """Return whether the CRC of a member's bytes was computed before."""
        return entry.name in self._found

    def is_checked(self, name: str) -> bool:
        """Return whether the CRC of a member was computed, and was right.

        One that :meth:`crc_of_zip` computed was not compared: a wrong one is an error when the member is read.
        """
        return name in self._found and (self._is_unchecked or self._found[name] == self._entries[name].crc)

    def check(self, entry: Entry, actual: int) -> None:
        """Remember the CRC of a member's bytes, and compare it with the directory's."""
        self._found[entry.name] = actual
        if actual == entry.crc or self._is_unchecked:
            return
        if not any(other.crc for other in self._entries.values()):
            refuse_member(
                entry,
                "this zip was saved without CRC-32s (torch does so after set_crc32_options(False)), so that damage "
                "cannot be detected",
                hint="pass unchecked_crc=True to read it",
            )
        found = f"expected CRC-32 0x{entry.crc:08x}, got 0x{actual:08x}"
        refuse_member(entry, f"{found}: the bytes are damaged", hint="download or copy the file again")

    def check_view(self, entry: Entry, view: memoryview) -> None:
        """Check all bytes of a member; in memory, they are read only once."""
        name = entry.name
        actual = self._found.get(name) if self.is_in_memory else None
        if actual is None:
            actual = self._found[name] = zlib.crc32(view) if entry.size < _PARALLEL_BYTES else crc32(view)
        if actual != entry.crc:  # called for each record: the usual case ends here
            self.check(entry, actual)

    def check_chunks(self, entry: Entry, chunks: Iterable[Chunk]) -> Iterator[Chunk]:
        """Yield the chunks of a member, and check its CRC after the last one."""
        known = self._found.get(entry.name) if self.is_in_memory else None
        crc = 0
        for chunk in chunks:
            if known is None:
                crc = zlib.crc32(chunk, crc)
            yield chunk
        self.check(entry, crc if known is None else known)

    def check_stored(self, entry: Entry) -> None:
        """Check the CRC of a stored member; its bytes are read unless they were before."""
        self.check(entry, self._crc_of_member(entry))

    def check_zip(self, entry: Entry, inner: Checksums) -> None:
        """Check the CRC of a member that is itself a zip: now if it is in memory, otherwise when it is due."""
        if self.is_in_memory:
            self.check(entry, self._crc_of_inner(entry.name, inner))
        else:
            self._deferred[entry.name] = inner

    def check_deferred(self, names: Container[str]) -> None:
        """Check what :meth:`check_zip` deferred; bytes that nobody has read are read now."""
        for name, inner in self._deferred.items():
            if name in names:
                try:
                    actual = self._crc_of_inner(name, inner)
                except SbformatError as error:
                    raise error.within(name) from None
                self.check(self._entries[name], actual)

    def _crc_of_inner(self, name: str, inner: Checksums) -> int:
        return self._found[name] if name in self._found else inner.crc_of_zip()

    def crc_of_zip(self) -> int:
        """Return the CRC-32 of the whole zip, and remember those of its large stored members, without checking them.

        Of a zip that is fetched by ranges, those of all stored members, so that none is fetched again for its own CRC.
        """
        self._layout.read_headers()
        least = 0 if is_by_range(self._source) else COMBINE_BYTES
        large = [entry for entry in self._entries.values() if entry.size >= least and entry.method == STORED]
        crc = at = 0
        for entry in sorted(large, key=attrgetter("data_offset")):
            crc = self._crc_of_range(at, entry.data_offset, crc)
            at = entry.data_offset + entry.size
            self._found[entry.name] = self._crc_of_member(entry)
            crc = combine_crc32(crc, self._found[entry.name], entry.size)
        return self._crc_of_range(at, self._source.size, crc)

    def _crc_of_member(self, entry: Entry) -> int:
        if entry.name in self._found:
            return self._found[entry.name]
        return self._crc_of_range(entry.data_offset, entry.data_offset + entry.size)

    def _crc_of_range(self, start: int, stop: int, crc: int = 0) -> int:
        if self.is_in_memory:
            return crc32(self._source.view(start, stop - start), crc)
        views = iter_views(self._source, start, stop)
        if stop - start >= 2 * CHUNK_BYTES:
            from sbformat.io.source import read_ahead

            views = read_ahead(views)
        for view in views:
            crc = zlib.crc32(view, crc)
        return crc


def crc32_pair(chunks: Iterable[Chunk], size: int, before: int) -> Generator[Chunk, None, tuple[int, int]]:
    """Yield the chunks of a member that is written into a zip; return two CRC-32s.

    :param before: CRC-32 of the zip up to the member
    :return: that of the member, and that of the zip up to its end
    """
    is_combined = size >= COMBINE_BYTES
    crc = 0
    for chunk in chunks:
        crc = zlib.crc32(chunk, crc)
        if not is_combined:
            before = zlib.crc32(chunk, before)
        yield chunk
    return crc, combine_crc32(before, crc, size) if is_combined else before
