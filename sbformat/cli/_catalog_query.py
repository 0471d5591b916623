"""``sbformat catalog TABLE``: print rows of a catalogue as text, CSV or JSON."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from sbformat.cli import _csv, _files, _output, _streams
from sbformat.errors import escape

if TYPE_CHECKING:
    import argparse

    from sbformat.catalogue.query import Found
    from sbformat.catalogue.rows import Scalar

_USUAL: Final = (
    "source", "algorithm", "sb3_version", "timesteps", "mean_reward", "learning_rate", "gamma", "verdict", "outcome",
)  # fmt: skip
"""Columns that are printed as text."""
_MOST: Final = 1000
"""Rows that are printed as text."""
_CELL: Final = 300


def print_rows(args: argparse.Namespace) -> int:
    """Print rows of a catalogue; 2 when it cannot be read, or the condition is wrong."""
    path = args.paths[0]
    report = _files.report_errors(path, lambda: _search(args, path))
    if report["outcome"] != "ok":
        _output.report_failure(report, lists_problems=False)
        if args.format == "json":
            _output.print_json(args.command, [report])
        return _files.EXIT_COULD_NOT
    if args.format == "json":
        _output.print_json(args.command, [report])
    return _files.EXIT_FINE


def _search(args: argparse.Namespace, path: str) -> dict[str, Any]:
    """Search the catalogue and print what was found, but for JSON, which is the report."""
    from sbformat.catalogue.query import search

    options = {"where": args.where, "sort": args.sort, "is_reversed": args.reverse, "most": args.rows}
    columns = args.columns
    if columns is None and args.format == "text":
        with search(path) as every:
            columns = [name for name in _USUAL if name in every.columns]
    with search(path, columns=columns, **options) as found:
        if args.format == "json":
            return {"columns": list(found.columns), "rows": [dict(zip(found.columns, row)) for row in found.rows]}
        if args.format == "csv":
            _csv.print_csv(found.columns, (dict(zip(found.columns, row)) for row in found.rows))
        else:
            _print_text(_output.make_printer(), found, path)
    return {}


def _print_text(printer: _output.Plain, found: Found, path: str) -> None:
    rows = list(islice(found.rows, _MOST + 1))
    shown = rows[:_MOST]
    numbers = [place for place, values in enumerate(zip(*shown)) if _are_numbers(values)]
    cells = [tuple("" if value is None else _render(value) for value in row) for row in shown]
    more = f", the first {_MOST:,}" if len(rows) > _MOST else ""
    title = f"{_output.count_noun(len(shown), 'row')} of {escape(path, 1000)}{more}"
    if not cells:
        _streams.write_remark(f"{escape(path, 1000)}: no row meets the condition")
    printer.table(title, found.columns, cells, right=numbers, longest=_CELL)


def _are_numbers(values: tuple[Scalar, ...]) -> bool:
    return all(value is None or isinstance(value, (int, float)) for value in values)


def _render(value: Scalar) -> str:
    return value if isinstance(value, str) else f"{value:.6g}" if isinstance(value, float) else str(value)
