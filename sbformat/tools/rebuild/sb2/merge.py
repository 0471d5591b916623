"""One report of two: of the conversion from SB2's form to SB3's, and of the rebuild of that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.constants import DATA_ENTRY, OPTIMIZER_WORD, POLICY_ENTRY, SB2_PARAMETERS_ENTRY
from sbformat.tools.rebuild.report import Row

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from sbformat.tools.rebuild.report import Action
    from sbformat.tools.rebuild.sb2.convert import Conversion
    from sbformat.tools.rebuild.sb2.interface import Setting

_FRESH: Final = "a fresh state: SB2 does not save that of its optimizers"


def merge_reports(conversion: Conversion, rows: Sequence[Row], assigned: Collection[str]) -> tuple[Row, ...]:
    """Return the rows of the report.

    :param rows: of the rebuild of ``conversion.archive``
    :param assigned: the keys that the caller assigned
    """
    made: dict[tuple[str, str | None], Row] = {}
    merged = (_merge_row(conversion, row) for row in rows if row.entry == DATA_ENTRY)
    for row in (*merged, *(_note_assigned(row, assigned) for row in conversion.rows)):
        earlier = made.get((row.entry, row.key))
        made[row.entry, row.key] = row if earlier is None else _combine(earlier, row)
    silent = {(DATA_ENTRY, key) for key, setting in conversion.settings.items() if _is_bookkeeping(setting)}
    kept = [row for place, row in made.items() if place not in silent or row.action == "dropped"]
    return (*kept, *_report_entries(rows))


def _note_assigned(row: Row, assigned: Collection[str]) -> Row:
    """Return the row of a key of SB2 that was part of another key, for which the caller assigned a value."""
    is_assigned = row.new_key is not None and row.new_key.partition("/")[0] in assigned
    return row._replace(message="another value was assigned") if is_assigned else row


def _combine(row: Row, other: Row) -> Row:
    """Return one row of two about a key: of the value in the result, and of what does not become of it."""
    message = "; ".join(filter(None, (other.message, row.message)))
    action: Action = "dropped" if "dropped" in (row.action, other.action) else "translated"
    return other._replace(action=action, message=message, is_finding=row.is_finding or other.is_finding)


def _is_bookkeeping(setting: Setting) -> bool:
    """Return whether a key is one that SB3 would set by itself, and does not train with."""
    return setting.source is None and not setting.note and setting.key != "policy_kwargs"


def _merge_row(conversion: Conversion, row: Row) -> Row:
    """Return the row of a key with SB2's name for it, and how the value follows from SB2's."""
    key, _, rest = (row.key or "").partition("/")
    setting = conversion.settings.get(key)
    if setting is None:
        return row
    message = "; ".join(filter(None, (_describe_origin(setting), row.message)))
    name = (setting.source or key) + (f"/{rest}" if rest else "")
    action = "translated" if row.action == "kept" and message else row.action
    place = key + (f"/{rest}" if rest else "")
    return row._replace(key=name, action=action, message=message, new_key=place if place != name else None)


def _describe_origin(setting: Setting) -> str:
    renamed = f"{setting.key} in SB3" if setting.source not in (None, setting.key) else ""
    return ": ".join(filter(None, (renamed, setting.note)))


def _report_entries(rows: Sequence[Row]) -> Iterator[Row]:
    yield Row(SB2_PARAMETERS_ENTRY, None, "translated", f"{POLICY_ENTRY}, under the names and in the form of torch")
    seen = set()
    for row in rows:
        if row.entry == DATA_ENTRY or row.entry in seen:
            continue
        seen.add(row.entry)
        if OPTIMIZER_WORD in row.entry:
            yield Row(row.entry, None, "translated", _FRESH)
        elif row.entry != POLICY_ENTRY:
            yield row
