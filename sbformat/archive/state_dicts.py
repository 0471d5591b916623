"""State dicts out of an archive's entries, with the CRC of the entry and those of its records: one sweep for both.

The bytes of a ``.pth`` lie in two zips, each with a CRC of its own over them. That of the entry follows from those of
the records and the few bytes between them (:mod:`sbformat.io.crc32`). Where the bytes are held this is done when the
entry is decoded. Where they stay in a file it waits until the records have gone by, and the code that
writes them calls for the check before that counts.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from sbformat.container.records import STORED
from sbformat.errors import SbformatError
from sbformat.io.crc32 import COMBINED_BYTES
from sbformat.io.source import is_held
from sbformat.pth import decode_pth, decode_zip
from sbformat.pth.decode import is_torch_zip, open_records

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbformat.archive.entries import Entries
    from sbformat.io.source import Source
    from sbformat.limits import Budget
    from sbformat.pth import StateDict
    from sbformat.pth.values import OnUnknown


def decode_entry(
    entries: Entries,
    name: str,
    budget: Budget,
    *,
    on_unknown: OnUnknown = "error",
    unchecked_crc: bool = False,
    copy: bool = False,
    is_swept: bool = True,
) -> tuple[StateDict, Callable[[], None] | None]:
    """Decode a ``.pth`` entry and check its CRC.

    :param entries: where it is
    :param name: its name
    :param budget: the operation's
    :param on_unknown: as for :func:`sbformat.pth.loads`, and so the next two
    :param is_swept: False leaves the CRC of the entry unchecked
    :return: the state dict, and what has still to be called to check the CRC of the entry
    :raises SbformatError: what is wrong with it; damage of the entry as a whole comes first
    """
    source = _combined_source(entries, name, budget) if is_swept or entries.entry(name).method != STORED else None
    if source is None:
        data = entries.read(name) if is_swept else entries.view(name)
        return decode_pth(data, budget, on_unknown=on_unknown, unchecked_crc=unchecked_crc, copy=copy), None
    try:
        records = open_records(source, budget, unchecked_crc=unchecked_crc)
        check = partial(entries.check, name, records.crc_of_all)
        if is_held(source):
            check()
        state_dict = decode_zip(records, budget, on_unknown=on_unknown, copy=copy)
    except SbformatError:
        _sweep(entries, name)
        raise
    return state_dict, None if is_held(source) else check


def _combined_source(entries: Entries, name: str, budget: Budget) -> Source | None:
    """Return an entry whose CRC is worth combining from those of its records; None for what is read as a whole."""
    is_in_zip = entries.crc(name) is not None
    if is_in_zip and entries.entry(name).size < COMBINED_BYTES:  # as most are: a sweep more costs less than a source
        return None
    source = entries.source(name)
    if is_torch_zip(source) and not (is_held(source) and source.size < COMBINED_BYTES):
        return source
    if not is_held(source) and not is_in_zip:  # a zip charges it
        budget.spend("total_bytes", source.size)
    return None


def _sweep(entries: Entries, name: str) -> None:
    """Check the CRC of an entry that cannot be decoded: damage is told as that, whatever it led to."""
    for _ in entries.stream(name):
        pass
