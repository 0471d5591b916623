"""What was not checked of an archive that is fetched by ranges, because the bytes were not fetched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sbformat.container.reader import Container
from sbformat.immutable import Record
from sbformat.rendering import count_noun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sbformat.archive.entries import Entries


class NotChecked(Record):
    """An entry of which something was not checked."""

    entry: str
    message: str
    """What, as a sentence without its end."""


def list_not_checked(entries: Entries, find_records: Callable[[str], Container | None]) -> Iterator[NotChecked]:
    """Yield what was not checked; nothing of an archive that was read whole (FORMAT.md 2.7).

    :param entries: of the archive
    :param find_records: returns the torch zip of an entry that was decoded
    """
    rows = {row.name: row for row in entries.list_unchecked()} if isinstance(entries, Container) else {}
    for name, entry in entries.entries.items():
        row = rows.get(name)
        if row is not None and row.header:
            yield NotChecked(name, "nothing of it was fetched: neither its local header nor its CRC-32 was checked")
            continue
        if row is not None and row.crc:
            yield NotChecked(name, f"the CRC-32 of its {entry.size:,} bytes was not checked")
        records = find_records(name)
        if records is None:
            continue
        unread = records.list_unchecked()
        if unread:
            headers = sum(record.header for record in unread)
            message = f"the CRC-32 of {len(unread):,} of its {count_noun(len(records), 'record')} was not checked"
            yield NotChecked(name, message + (f", nor the local header of {headers:,}" if headers else ""))
