"""``sbformat diff``: compare two archives."""

from __future__ import annotations

import argparse
import bisect
import math
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from sbformat.cli import _files, _output, _progress, _streams
from sbformat.cli._options import is_verbose
from sbformat.constants import DATA_ENTRY
from sbformat.errors import escape

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_AFTER_SLASH: Final = chr(ord("/") + 1)
_LISTED: Final = 10
_DIGITS: Final = 3
_SENTENCE: Final = 600
_MESSAGE: Final = 100
"""Characters of a message without ``--verbose``."""
_BECAME: Final = " became "
_SIDES: Final = 2
_NORMS: Final = ("l2_difference", "relative_change")
CSV_COLUMNS: Final = (
    "path", "other", "outcome", "entry", "loc", "kind", "message", "max_abs_difference", "l2_difference",
    "relative_change", "differing", "numel", "old", "new",
)  # fmt: skip
"""A row for each change, and for each entry that cannot be decoded."""
_HEADER: Final = ("where", "what", "how", "l2 norm", "relative change")


def configure(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "diff",
        example="sbformat diff before.zip after.zip",
        help="compare two archives",
        description="Compare two archives: hyper-parameters, tensors (dtype, shape, values), entries and versions. "
        "Numbers are equal bit for bit, unless --rtol or --atol give a tolerance. "
        "Exit status 1 when they differ, or when one has an entry that cannot be decoded.",
    )
    parser.add_argument("path", metavar="A", help="an archive or a .pth file")
    parser.add_argument("other", metavar="B", help="the archive to compare it with")
    parser.add_argument(
        "--only",
        action="append",
        metavar="PART",
        help="compare only weights, optimizers, data, system (versions), or an entry: policy, ...; repeatable",
    )
    parser.add_argument(
        "--rtol",
        type=_parse_tolerance,
        default=0.0,
        metavar="X",
        help="relative tolerance: numbers are equal if |new - old| <= atol + rtol * |old|; default 0: bit for bit",
    )
    parser.add_argument(
        "--atol", type=_parse_tolerance, default=0.0, metavar="X", help="absolute tolerance, see --rtol; default 0"
    )
    _files.add_reading_options(parser, "csv")
    parser.set_defaults(run=run)


def _parse_tolerance(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number >= 0):
        message = f"expected a finite number of 0 or more, got {escape(text)}"
        raise argparse.ArgumentTypeError(message)
    return number


def run(args: argparse.Namespace) -> int:
    """Compare; 1 when they differ, 2 when one could not be read."""

    def work() -> dict[str, Any]:
        from sbformat.tools.diff import diff

        old = _files.read_archive(args.path, args, on_unknown="inert")
        new = _files.name_in_errors(args.other, lambda: _files.read_archive(args.other, args, on_unknown="inert"))
        with _progress.count_bytes("comparing", sum(entry.size for entry in new.entries.values())) as advance:
            report = diff(old, new, only=args.only, rtol=args.rtol, atol=args.atol, progress=advance)
        return {
            "other": _streams.name_input(args.other),
            "only": args.only,
            "rtol": args.rtol,
            "atol": args.atol,
            "equal": not report.changes,
            "changes": list_changes(report.changes),
            "state_dicts": [row._asdict() for row in report.state_dicts],
            "unreadable": [row._asdict() for row in report.unreadable],
            "close": report.close,
        }

    report = _files.report_errors(args.path, work)
    if args.format == "csv":
        from sbformat.cli import _csv

        _csv.print_report(report, CSV_COLUMNS, list_rows)
    else:
        _output.print_report(args, report, _print_text)
    if report["outcome"] != "ok":
        return _files.EXIT_COULD_NOT
    return _files.EXIT_FINE if report["equal"] and not report["unreadable"] else _files.EXIT_FINDINGS


def list_rows(report: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of CSV."""
    unreadable = [
        {"entry": row["entry"], "loc": row["side"], "kind": "unreadable", "message": row["message"]}
        for row in report["unreadable"]
    ]
    return [{"other": report["other"], **row} for row in (*report["changes"], *unreadable)]


def list_changes(changes: Any) -> list[dict[str, Any]]:
    """Return changes as a report has them."""
    return [change._asdict() for change in changes]


def print_changes(printer: _output.Plain, changes: list[dict[str, Any]]) -> None:
    """Print changes as a table for each entry."""
    tables: dict[str, list[tuple[str, ...]]] = {}
    for row in group_changes(changes):
        message = row["message"] if is_verbose() else _shorten_message(row["message"])
        cells = (row["loc"] or "(all of it)", row["kind"], message, *(_render_norm(row[key]) for key in _NORMS))
        tables.setdefault(row["entry"], []).append(cells)
    for entry, rows in tables.items():
        width = len(_HEADER) if any(any(row[-len(_NORMS) :]) for row in rows) else len(_HEADER) - len(_NORMS)
        shown = [row[:width] for row in _shorten_changes(rows)]
        printer.table(escape(entry), _HEADER[:width], shown, right=range(len(_HEADER) - len(_NORMS), width))


def _shorten_message(message: str) -> str:
    """Cut the old and the new value each, so that both are seen."""
    sides = message.split(_BECAME)
    if len(sides) != _SIDES or len(message) <= _MESSAGE:  # a value may contain the word
        return message
    room = _MESSAGE - len(_BECAME)
    old, new = (len(side) for side in sides)
    cut = max(room // 2, room - new), max(room // 2, room - old)
    return _BECAME.join(side if len(side) <= limit else f"{side[: limit - 1]}\u2026" for side, limit in zip(sides, cut))


def group_changes(changes: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return changes as people count them: a dict of tensors that was emptied, or filled, is one.

    State dicts are compared by tensors and other values, of which an empty dict is one: the emptied ``state`` of an
    optimizer is added, and all that it contained is removed.
    """
    by_entry: dict[str, list[int]] = {}
    for at, row in enumerate(changes):
        by_entry.setdefault(row["entry"], []).append(at)
    found: dict[int, Mapping[str, Any]] = {}
    dropped: set[int] = set()
    for entry, places in by_entry.items():
        for one, other in (("added", "removed"), ("removed", "added")) if entry != DATA_ENTRY else ():
            below = sorted((changes[at]["loc"], at) for at in places if changes[at]["kind"] == other)
            for at in places:
                row = changes[at]
                if row["kind"] != one or not row["loc"]:
                    continue
                start, end = (bisect.bisect_left(below, (row["loc"] + mark,)) for mark in ("/", _AFTER_SLASH))
                if end > start:
                    count = _output.count_noun(end - start, "value")
                    words = f"contained {count}, {row['message']}"
                    words = words if other == "removed" else f"{row['message']}, contains {count}"
                    found[at] = {**row, "kind": other, "message": words}
                    dropped |= {place for _, place in below[start:end]}
    return [found.get(at, row) for at, row in enumerate(changes) if at not in dropped]


def _render_norm(value: float | None) -> str:
    return "" if value is None else f"{value:.{_DIGITS}g}"


def _shorten_changes(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Name only some of many tensors that came or went: dropping an optimizer removes all that it held."""
    left = Counter(row[1] for row in rows)
    many = {kind for kind in ("added", "removed") if left[kind] > _LISTED}
    shown: Counter[str] = Counter()
    made = []
    for row in rows:
        kind = row[1]
        shown[kind] += 1
        if kind not in many or shown[kind] < _LISTED:
            made.append(row)
        elif shown[kind] == _LISTED:
            made.append((f"\u2026 {left[kind] - _LISTED + 1} more", kind, *[""] * (len(row) - 2)))
    return made


def _print_text(printer: _output.Plain, report: dict[str, Any]) -> None:
    path, other = (escape(report[key], 1000) for key in ("path", "other"))
    printer.line(f"{path} -> {other}: {_describe_result(report)}")
    print_changes(printer, report["changes"])
    has_tolerance = bool(report["rtol"] or report["atol"])
    rows = [
        (
            row["name"],
            str(row["equal"]),
            *([str(row["close"])] if has_tolerance else ()),
            str(row["different"]),
            "" if row["max_abs_difference"] is None else f"{row['max_abs_difference']:.6g}",
            _render_norm(row["l2_difference"]),
        )
        for row in report["state_dicts"]
        if row["different"] or row["close"]
    ]
    closeness = ("within the tolerance",) if has_tolerance else ()
    header = ("state dict", "equal", *closeness, "different", "max abs difference", "l2 norm")
    printer.table("tensors", header, rows, right=range(1, len(header)))
    unreadable = [
        (row["entry"], report["path" if row["side"] == "first" else "other"], row["outcome"], row["message"])
        for row in report["unreadable"]
    ]
    printer.table("cannot be decoded", ("entry", "file", "outcome", "why"), unreadable, longest=_SENTENCE)


def _describe_result(report: dict[str, Any]) -> str:
    """Return the result in a few words: what was compared, and whether it is equal."""
    words = _output.count_noun(len(group_changes(report["changes"])), "difference")
    if report["equal"]:
        words = "equal within the tolerance" if report["rtol"] or report["atol"] else "equal"
    if report["only"]:
        words += f" in {', '.join(map(escape, report['only']))}"
    if report["close"]:
        left_out = f"; {_output.count_noun(report['close'], 'difference')} left out"
        words += left_out if report["equal"] else f", and {report['close']:,} within the tolerance"
    if report["unreadable"]:
        count = _output.count_noun(len({row["entry"] for row in report["unreadable"]}), "entry", "entries")
        words += f"{', but' if report['equal'] else ';'} {count} cannot be decoded"
    return words
