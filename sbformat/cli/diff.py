"""``sbformat diff`` and ``edit``: compare two archives; write one with other values, weights or entries.

Both report changes: a row for each value or tensor that differs, in a table for each entry.
"""

from __future__ import annotations

import bisect
import os
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sbformat.cli import _files, _output, _progress
from sbformat.cli import _options as opt
from sbformat.constants import DATA_ENTRY, OPTIMIZER_WORD
from sbformat.errors import UnsupportedError, escape
from sbformat.io.opening import is_folder
from sbformat.rendering import count_noun

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

_AFTER_SLASH: Final = chr(ord("/") + 1)
_LISTED: Final = 10
_DIGITS: Final = 3
_MESSAGE: Final = 600  # characters of a message without ``--verbose``; a terminal folds it
_BECAME: Final = " became "
_SIDES: Final = 2
CSV_COLUMNS: Final = (
    "path", "other", "outcome", "entry", "loc", "kind", "message", "max_abs_difference", "l2_difference",
    "relative_change", "differing", "numel", "old", "new",
)  # fmt: skip
"""A row for each change, and for each entry that cannot be decoded."""
_NORM: Final = "norm of the difference"
_HEADER: Final = ("where", "what", "how", _NORM, "relative change")
_NORMS: Final = (3, 4)
_TENSORS: Final = ("state dict", "equal", "within the tolerance", "different", "max abs difference", _NORM)

DIFF: Final = opt.Command(
    example="sbformat diff before.zip after.zip",
    description="Compare two archives: hyper-parameters, tensors (dtype, shape, values), entries and versions. "
    "Numbers are equal bit for bit, unless --rtol or --atol give a tolerance. "
    "Exit status 1 when they differ, or when one has an entry that cannot be decoded; with -q only the first line: how "
    "many differences there are.",
    options=(
        opt.option("path", "A", f"an archive, a .pth file, or a folder with one agent{opt.STDIN}"),
        opt.option("other", "B", f"the archive to compare it with{opt.STDIN}"),
        opt.option(
            "--only",
            "PART",
            "compare only weights, optimizers, data, system (versions), or an entry: policy, ...; repeatable",
            action="append",
        ),
        opt.option(
            "--rtol",
            "X",
            "relative tolerance: numbers are equal if |new - old| <= atol + rtol * |old|; default 0: bit for bit",
            type=opt.parse_tolerance,
            default=0.0,
        ),
        opt.option("--atol", "X", "absolute tolerance, see --rtol; default 0", type=opt.parse_tolerance, default=0.0),
        opt.flag("--long", "list every tensor, also where many of a state dict differ in their numbers alone"),
        opt.REPORT,
        opt.reading(*opt.TABLES),
    ),
)
EDIT: Final = opt.Command(
    example="sbformat edit agent.zip -o edited.zip --set gamma=0.98",
    description="Write an archive with other hyper-parameters, weights or entries. What is not edited is copied "
    "byte for byte; the output is read again before it takes its name. Exit status 1 when SB3 could no longer "
    "load it; an edit that the weights do not fit is refused.",
    options=(
        opt.option("path", "FILE", f"an archive{opt.STDIN}"),
        opt.one_of(
            opt.option("-o --output", "OUT", "the archive to write"),
            opt.flag("--in-place", "write over FILE; it stays whole on any failure"),
            is_required=True,
        ),
        opt.assignments(
            "give a key of data (or a JSON pointer) a JSON value, or @FILE with one, checked against the schema; "
            """repeatable; a schedule: learning_rate='{"linear": [3e-4, 0]}'"""
        ),
        opt.repeated("--unset", "KEY", "remove a key of data; repeatable"),
        opt.option("--weights", "FILE", "tensors from a .safetensors or .npz file, checked by name"),
        opt.flag(
            "--drop-optimizer",
            "empty the optimizers' states, so that SB3 still loads it; remove one that is too damaged for that",
        ),
        opt.repeated("--drop", "ENTRY", "remove an entry; repeatable"),
        opt.flag("--unknown-keys", "allow --set to add keys that SB3 does not have"),
        opt.flag("--allow-mismatch", "write it even if its weights do not fit the new data"),
        opt.FORCE,
        opt.reading(),
    ),
)


def run_diff(args: argparse.Namespace) -> int:
    """Compare; 1 when they differ, 2 when one could not be read."""
    report = _files.report_errors(args.path, lambda: _diff(args))
    is_finding = not report.get("equal") or bool(report.get("unreadable"))
    form = _output.Form(partial(_print_diff, lists_all=args.long), CSV_COLUMNS, _list_rows)
    return _output.finish(args, report, form, is_finding=is_finding)


def _diff(args: argparse.Namespace) -> dict[str, Any]:
    from sbformat.tools.diff import diff

    old = _files.read_archive(args.path, args, on_unknown="inert")
    new = _files.name_in_errors(args.other, lambda: _files.read_archive(args.other, args, on_unknown="inert"))
    with _progress.count_bytes("comparing", sum(entry.size for entry in new.entries.values())) as advance:
        report = diff(old, new, only=args.only, rtol=args.rtol, atol=args.atol, progress=advance)
    return {
        "other": _files.name_input(args.other),
        "only": args.only,
        "rtol": args.rtol,
        "atol": args.atol,
        "equal": not report.changes,
        "changes": [row._asdict() for row in report.changes],
        "state_dicts": [row._asdict() for row in report.state_dicts],
        "unreadable": [row._asdict() for row in report.unreadable],
        "close": report.close,
    }


def run_edit(args: argparse.Namespace) -> int:
    """Edit; return 1 when SB3 could not load the result, 2 when nothing could be written."""
    if not (args.set or args.unset or args.weights or args.drop_optimizer or args.drop):
        raise opt.UsageError("nothing to edit: expected --set, --unset, --weights, --drop-optimizer or --drop")
    output = _files.resolve_path(args.path) if args.in_place else args.output
    report = _files.report_errors(args.path, lambda: _edit(args, output), outputs=[output])
    problems = report.get("problems", ())
    has_errors = any(row.get("level") == "error" for row in problems)
    return _output.finish(args, report, _output.Form(_print_edit), is_finding=has_errors)


def _edit(args: argparse.Namespace, output: str) -> dict[str, Any]:
    from sbformat.cli import _json
    from sbformat.tools.diff import diff
    from sbformat.tools.edit import edit

    if not args.in_place:
        _files.refuse_same_file(args.path, output, hint="--in-place writes over it")
        _files.require_suffix("edit", output)
    elif args.path == _files.STANDARD_STREAM:
        raise UnsupportedError("standard input cannot be edited in place", hint="write the edited archive with -o")
    archive = _files.read_archive(args.path, args)
    if args.in_place and (archive.format != "sb3" or is_folder(args.path)):
        hint = "write the edited archive to another file with -o"
        raise UnsupportedError("--in-place needs the file of an archive", hint=hint)
    assigned = _json.parse_assignments(args, archive)
    edited, problems = edit(
        archive,
        assign=assigned,
        unset=args.unset,
        weights=None if args.weights is None else _read_weights(args),
        drop_optimizer=args.drop_optimizer,
        drop=args.drop,
        unknown_keys=args.unknown_keys,
        allow_mismatch=args.allow_mismatch,
    )
    for key, value in assigned:
        if type(value) is float and type(edited.data.get(key)) is int:
            made = edited.data[key]
            _files.write_remark(f"{escape(key)}: {value} is written as {made}, because SB3 needs an integer")
    changes = [row._asdict() for row in diff(archive, edited).changes]
    _files.write_archive(edited, output, overwrite=args.in_place or args.force)
    return {"output": os.fspath(output), "changes": changes, "problems": [row._asdict() for row in problems]}


def _read_weights(args: argparse.Namespace) -> dict[str, Any]:
    from sbformat.arrayfiles.reader import read_arrays

    return _files.name_in_errors(args.weights, lambda: read_arrays(args.weights, limits=_files.make_limits(args)))


# -- text and CSV -------------------------------------------------------------------------------------


def _list_rows(report: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of CSV."""
    unreadable = [
        {"entry": row["entry"], "loc": row["side"], "kind": "unreadable", "message": row["message"]}
        for row in report["unreadable"]
    ]
    return [{"other": report["other"], **row} for row in (*report["changes"], *unreadable)]


def _print_changes(printer: _output.Plain, changes: list[dict[str, Any]]) -> None:
    """Print changes as a table for each entry; without norms where no tensor changed."""
    tables: dict[str, list[tuple[str, ...]]] = {}
    for row in group_changes(changes):
        message = row["message"] if opt.shows_whole() else _shorten_message(row["message"])
        norms = (_render_norm(row["l2_difference"]), _render_norm(row["relative_change"]))
        tables.setdefault(row["entry"], []).append((row["loc"] or "(all of it)", row["kind"], message, *norms))
    for entry, rows in sorted(tables.items(), key=lambda item: OPTIMIZER_WORD in item[0]):
        has_norms = any(any(row[at] for at in _NORMS) for row in rows)
        width = len(_HEADER) if has_norms else _NORMS[0]
        shown = [row[:width] for row in _shorten_changes(rows)]
        printer.table(escape(entry), _HEADER[:width], shown, right=_NORMS, longest=_MESSAGE)


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
                    count = count_noun(end - start, "value")
                    words = f"contained {count}, {row['message']}"
                    words = words if other == "removed" else f"{row['message']}, contains {count}"
                    found[at] = {**row, "kind": other, "message": words}
                    dropped |= {place for _, place in below[start:end]}
    return [found.get(at, row) for at, row in enumerate(changes) if at not in dropped]


def _merge_tensors(changes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return changes with one for all tensors of a state dict that differ in their numbers alone, if these are many.

    Two agents of different seeds differ in each of them.
    """
    counts = Counter(row["entry"] for row in changes if row["numel"] is not None)
    left_out = dict.fromkeys(("l2_difference", "relative_change"))
    words = "their numbers differ, not their shapes; --long lists them"
    made, merged = [], set()
    for row in changes:
        count = counts[row["entry"]] if row["numel"] is not None else 0
        if count <= _LISTED:
            made.append(row)
        elif row["entry"] not in merged:
            merged.add(row["entry"])
            made.append({**row, **left_out, "loc": f"{count:,} tensors", "message": words})
    return made


def _render_norm(value: float | None) -> str:
    return "" if value is None else f"{value:.{_DIGITS}g}"


def _shorten_changes(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Name only some of many tensors that came or went: dropping an optimizer removes all that it held."""
    if opt.shows_whole():
        return rows
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


def _print_diff(printer: _output.Plain, report: dict[str, Any], *, lists_all: bool) -> None:
    path, other = (escape(report[key], 1000) for key in ("path", "other"))
    printer.line(f"{path} -> {other}: {_describe_result(report)}")
    if opt.is_quiet():
        return
    has_tolerance = bool(report["rtol"] or report["atol"])
    rows = [
        (
            row["name"],
            row["equal"],
            row["close"] if has_tolerance else None,
            row["different"],
            None if row["max_abs_difference"] is None else f"{row['max_abs_difference']:.6g}",
            _render_norm(row["l2_difference"]),
        )
        for row in sorted(report["state_dicts"], key=lambda row: OPTIMIZER_WORD in row["name"])
        if row["different"] or row["close"]
    ]
    printer.table("tensors", _TENSORS, rows, right=range(1, len(_TENSORS)), leaves_out=(2,))
    _print_changes(printer, report["changes"] if lists_all else _merge_tensors(report["changes"]))
    unreadable = [
        (row["entry"], report["path" if row["side"] == "first" else "other"], row["outcome"], row["message"])
        for row in report["unreadable"]
    ]
    printer.table("cannot be decoded", ("entry", "file", "outcome", "why"), unreadable, longest=_MESSAGE)


def _describe_result(report: dict[str, Any]) -> str:
    """Return the result in a few words: what was compared, and whether it is equal."""
    words = count_noun(len(group_changes(report["changes"])), "difference")
    if report["equal"]:
        words = "equal within the tolerance" if report["rtol"] or report["atol"] else "equal"
    if report["only"]:
        words += f" in {', '.join(map(escape, report['only']))}"
    if report["close"]:
        left_out = f"; {count_noun(report['close'], 'difference')} left out"
        words += left_out if report["equal"] else f", and {report['close']:,} within the tolerance"
    if report["unreadable"]:
        count = count_noun(len({row["entry"] for row in report["unreadable"]}), "entry", "entries")
        words += f"{', but' if report['equal'] else ';'} {count} cannot be decoded"
    return words


def _print_edit(printer: _output.Plain, report: dict[str, Any]) -> None:
    count = len(group_changes(report["changes"]))
    printer.line(f"{escape(report['output'], 1000)}: {count_noun(count, 'change')}")
    _print_changes(printer, report["changes"])
    for row in report["problems"]:
        place = f"{escape(row['entry'])} {escape(row['loc'])}".rstrip()
        printer.line(f"  new {row['level']}: {place}: {escape(row['message'], 600)}")
