"""Baselines of ``scan``: findings that someone looked at and accepted, so that they fail no job (SCANNING.md 14.4).

In: the bytes of a baseline, a JSON document by ``schema/baseline.schema.json``, and the reports of files. Out: the
reports with their accepted findings marked, and the items of the baseline that accept nothing.

An item accepts findings of one file, by its SHA-256, and has the fields of the finding that identify it. A file that
changes has another digest, and a release of sbformat that judges a finding worse gives it another verdict or reason:
neither is accepted by an item that was written before. ::

    {"sha256": "5f70...", "rule": "unknown-call", "verdict": "dangerous", "reason": "not-known", "entry": "data",
     "key": "policy_class", "names": ["my.Policy"], "justification": "our own policy", "expires": "2027-06-30"}
"""

from __future__ import annotations

import json
from datetime import date
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sbformat.data import parse_object
from sbformat.errors import DataError, escape
from sbformat.immutable import Record
from sbformat.limits import DEFAULT_LIMITS, Budget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sbformat.limits import Limits

    Item: TypeAlias = dict[str, Any]

_VERSION: Final = 1
_EXPECTED: Final = "expected a baseline, as scan --write-baseline writes it"
_OF_FINDING: Final = ("rule", "verdict", "reason", "entry", "key", "names")
"""The fields that an item has in common with its finding."""
_OF_PERSON: Final = ("justification", "expires")
"""The fields that someone adds to an item; they are kept when the baseline is written again."""


class Applied(Record):
    """The result of :func:`apply_baseline`."""

    accepted: int
    """Number of findings that are accepted."""
    unmatched: list[Item]
    """Items that match no finding: the file has changed, was not scanned, or does not have the finding any more."""
    expired: list[Item]
    """Items whose date has passed; they accept nothing."""


def read_baseline(content: bytes, limits: Limits = DEFAULT_LIMITS) -> list[Item]:
    """Return the items of a baseline.

    :raises DataError: when it is not JSON, violates the schema, or has a date that does not exist
    """
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    from sbformat.schema.schemas import load_schema

    try:
        document = parse_object(content, Budget(limits))
    except DataError as error:
        error.message = f"{_EXPECTED}: {error.message}"
        raise
    wrong = best_match(Draft202012Validator(load_schema("baseline")).iter_errors(document))
    if wrong is not None:
        place = "".join(f"/{part}" for part in wrong.absolute_path)
        raise DataError(f"{_EXPECTED}: {f'{escape(place)}: ' if place else ''}{escape(wrong.message)}")
    for at, item in enumerate(document["accepted"]):
        try:
            _last_day(item)
        except ValueError:
            message = f"/accepted/{at}/expires: expected a date such as 2027-06-30, got {escape(item['expires'])}"
            raise DataError(message) from None
    return list(document["accepted"])


def make_baseline(
    reports: Sequence[Mapping[str, Any]],
    previous: Sequence[Item] = (),
    was_scanned: Callable[[str], bool] = lambda _: True,
) -> list[Item]:
    """Return items that accept the findings of reports; a file without a digest has none.

    :param previous: the items of the baseline that is replaced: what people wrote in them is kept, and so are the items
        of files that were not scanned
    :param was_scanned: whether the scan looked at a path
    """
    written: dict[tuple[Any, ...], Item] = {
        identify(item): {name: item[name] for name in _OF_PERSON if name in item} for item in previous
    }
    digests = {report.get("sha256") for report in reports}
    made: dict[tuple[Any, ...], Item] = {
        identify(item): item
        for item in previous
        if item["sha256"] not in digests and not ("path" in item and was_scanned(item["path"]))
    }
    for report in reports:
        for row in report.get("findings", ()) if report.get("sha256") else ():
            item = {"path": report["path"], "sha256": report["sha256"], **{name: row[name] for name in _OF_FINDING}}
            key = identify(item)
            made.setdefault(key, item | written.get(key, {}))
    return sorted(made.values(), key=lambda item: (item.get("path", ""), item["entry"], item["key"], item["rule"]))


def render_baseline(items: list[Item]) -> bytes:
    """Return the document of a baseline."""
    document = {"baseline_version": _VERSION, "accepted": items}
    return f"{json.dumps(document, indent=2)}\n".encode("ascii")


def apply_baseline(reports: Iterable[Mapping[str, Any]], items: Iterable[Item], today: date) -> Applied:
    """Mark the accepted findings of reports: each gets ``accepted``, and ``justification`` if the item has one."""
    items = list(items)
    expired = [item for item in items if _last_day(item) < today]
    valid = {identify(item): item for item in items if _last_day(item) >= today}
    accepted, matched = 0, set()
    for report in reports:
        for row in report.get("findings", ()):
            key = identify({**row, "sha256": report["sha256"]})
            if key in valid:
                row |= {"accepted": True, **{name: valid[key][name] for name in _OF_PERSON[:1] if name in valid[key]}}
                matched.add(key)
                accepted += 1
    return Applied(accepted, [item for key, item in valid.items() if key not in matched], expired)


def _last_day(item: Item) -> date:
    return date.fromisoformat(item["expires"]) if "expires" in item else date.max


def identify(item: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what makes a finding the one that an item accepts."""
    return (item["sha256"], *(item[name] for name in _OF_FINDING[:-1]), tuple(item["names"]))
