"""Decode a state dict from an entry of an archive, with the CRCs of the entry and of its records checked.

The bytes of a ``.pth`` are in two zips, each with a CRC-32 over them; :mod:`sbformat.container.integrity` reads them
once for both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.errors import SbformatError
from sbformat.io.source import is_by_range
from sbformat.pth import decode_pth, decode_zip
from sbformat.pth.decode import is_torch_zip, open_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sbformat.archive.entries import Entries
    from sbformat.container.reader import Container
    from sbformat.limits import Budget
    from sbformat.pth import StateDict
    from sbformat.pth.values import OnUnknown

_VERIFIED_BYTES: Final = 1 << 18
"""An entry up to this size that cannot be decoded is fetched whole, to find out whether it is damaged."""


def decode_entry(
    entries: Entries,
    name: str,
    budget: Budget,
    *,
    on_unknown: OnUnknown = "error",
    unchecked_crc: bool = False,
    copy: bool = False,
    check_crc: bool = True,
) -> StateDict:
    """Decode a ``.pth`` entry and check its CRC.

    When the entry is not in memory, its CRC is checked later, by ``entries.check_deferred``.

    :param entries: of the archive
    :param name: of the entry
    :param budget: of the operation
    :param on_unknown: as for :func:`sbformat.pth.loads`, like the next two
    :param check_crc: False leaves the CRC of the entry unchecked; those of its records are checked all the same
    :raises SbformatError: when it is damaged or cannot be decoded; a wrong CRC of the entry is reported first, unless
        the entry is large and would have to be fetched for it
    """
    source = entries.source(name)
    try:
        if not is_torch_zip(source):
            data = entries.read(name) if check_crc else entries.view(name)
            return decode_pth(data, budget, on_unknown=on_unknown, unchecked_crc=unchecked_crc, copy=copy)
        records = open_records(source, budget, unchecked_crc=unchecked_crc)
        if check_crc:
            entries.check_zip(name, records)
        return decode_zip(records, budget, on_unknown=on_unknown, copy=copy)
    except SbformatError:
        if check_crc and (source.size <= _VERIFIED_BYTES or not is_by_range(source)):
            entries.verify(name)
        raise


def check_records(names: Iterable[str], find_records: Callable[[str], Container | None]) -> None:
    """Check what was not checked of the torch zips that were decoded.

    :param names: of the state dicts
    :param find_records: returns the torch zip of an entry that was decoded
    :raises ContainerError: if a header or a CRC is wrong
    """
    for name in names:
        records = find_records(name)
        if records is not None:
            try:
                records.check_rest()
            except SbformatError as error:
                raise error.within(name) from None
