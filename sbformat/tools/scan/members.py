"""Read the members of zips to scan them: damaged ones as far as possible, large ones without inflating all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.container.layout import STORED
from sbformat.container.reader import INFLATED_WHOLE_BYTES, Container, InflatedSource
from sbformat.errors import SbformatError
from sbformat.tools.scan.recover import MAX_RECOVERED, inflate_member

if TYPE_CHECKING:
    from sbformat.archive.entries import Entries
    from sbformat.tools.scan.location import Location
    from sbformat.tools.scan.pickles import PickleScanner

_COPIES: Final = 2
"""Copies that are made of bytes that may be a pickle: of the pickle, and of one of its frames."""


def open_large_member(entries: Entries, name: str) -> InflatedSource | None:
    """Open a member that inflates to more than is held in memory; None for smaller and for damaged ones."""
    entry = entries.entries[name]
    if entry.method == STORED or entry.size <= INFLATED_WHOLE_BYTES or not isinstance(entries, Container):
        return None
    try:
        source = entries.source(name)
    except SbformatError:  # read_member reports it
        return None
    return source if isinstance(source, InflatedSource) else None


def read_large_member(scanner: PickleScanner, source: InflatedSource, location: Location) -> memoryview:
    """Return all of a large member, or its first bytes if it is too large, which is a finding."""
    try:
        scanner.budget.keep((1 + _COPIES) * source.size)
        return source.view(0, source.size)
    except SbformatError as error:
        scanner.add(location.broken(error))
        return first_bytes(source)


def read_member(
    scanner: PickleScanner, entries: Entries, name: str, location: Location, *, copies: int = _COPIES
) -> memoryview:
    """Return the bytes of an entry; of a damaged one, which is a finding, as many as can be recovered.

    :param location: that contains the entry
    :param copies: number of copies that are made of inflated bytes when they are scanned
    """
    entry = entries.entries[name]
    try:
        if entry.method != STORED:
            scanner.budget.keep(copies * entry.size)
        return entries.read(name)
    except SbformatError as error:
        scanner.add(location.within(name).broken(error))
    try:
        raw = entries.raw(name)
    except SbformatError:  # it is in inflated bytes that are too large to hold
        return memoryview(b"")
    if entry.method == STORED:
        return raw
    content = inflate_member(raw, entry.method, min(scanner.bytes_left(), MAX_RECOVERED))
    scanner.charge(len(content), location.within(name))
    return memoryview(content)


def first_bytes(data: memoryview | InflatedSource) -> memoryview:
    """Return as many bytes as are examined of a zip that is damaged."""
    return data.view(0, min(data.size, MAX_RECOVERED)) if isinstance(data, InflatedSource) else data
