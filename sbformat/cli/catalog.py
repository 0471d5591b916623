"""``sbformat catalog``: one table of many archives, and conditions of SQL on it."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sbformat import parallel
from sbformat.cli import _files, _many, _output, _progress, _streams
from sbformat.cli._options import is_quiet
from sbformat.errors import escape
from sbformat.rendering import format_size

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator

    from sbformat.catalogue.rows import Row
    from sbformat.catalogue.sources import CatalogSource

_QUERY: Final = ("where", "sort", "reverse", "columns", "rows")
"""Options for a catalogue that is there."""
_WRITING: Final = ("list", "fresh", "force", "allow", "jobs", "dask")
_FEW: Final = 32
_SHOWN_FAILURES: Final = 20


def configure(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "catalog",
        example="sbformat catalog logs/ -o runs.parquet",
        help="write a table with a row for each of many archives, and search it",
        description="With -o, write a table with one row for each archive: what it is, its verdict and problems, and "
        "every hyper-parameter in a column. A table that exists is brought up to date: files of the same size and time "
        "are not read again, and a run that was interrupted goes on where it was. Without -o, print rows of a table. "
        "Exit status 1 when a file or one of its entries could not be read: its row says why. Exit status 2 when there "
        "is no table, or nothing to put into it.",
    )
    parser.add_argument(
        "paths",
        nargs="*",
        metavar="SOURCE",
        help="archives, folders, globs in quotes ('runs/**/*.zip'), URLs; without -o one table",
    )
    parser.add_argument(
        "-o", "--output", metavar="OUT", help="the table: .parquet (extra catalog), .csv, .jsonl, .sqlite"
    )
    parser.add_argument(
        "--list", metavar="FILE", help="read further sources from a file, one a line; - is standard input"
    )
    parser.add_argument("--fresh", action="store_true", help="read every file again")
    parser.add_argument("--where", metavar="CONDITION", help='rows that meet a condition of SQL: "gamma < 0.99"')
    parser.add_argument("--columns", type=_many.parse_columns, metavar="NAME,NAME", help="columns to print")
    parser.add_argument("--sort", metavar="NAME", help="sort the rows by a column")
    parser.add_argument("--reverse", action="store_true", help="reverse the order of the rows")
    parser.add_argument("--rows", type=_many.parse_count, metavar="N", help="print N rows at most")
    parser.add_argument(
        "--allow", action="append", default=[], metavar="NAME", help="treat a dotted name as known; repeatable"
    )
    _many.add_jobs_option(parser)
    parser.add_argument("--force", action="store_true", help="overwrite an OUT that is not such a table")
    _files.add_common_options(parser, "csv")
    parser.set_defaults(run=run, refuse=parser.error)


def run(args: argparse.Namespace) -> int:
    """Write a catalogue or search one; 1 when a source could not be read, 2 when there is no catalogue."""
    wrong = _check_arguments(args)
    if wrong:
        args.refuse(wrong)
    if args.output is None:
        from sbformat.cli._catalog_query import print_rows

        return print_rows(args)
    name = args.output
    report = _files.report_errors(name, lambda: write_catalog(args), outputs=[args.output, f"{args.output}.partial"])
    _output.print_report(args, report, _print_text, is_finding=bool(report.get("failed")))
    if report["outcome"] != "ok":
        return _files.EXIT_COULD_NOT
    return _files.EXIT_FINDINGS if report["failed"] else _files.EXIT_FINE


def _check_arguments(args: argparse.Namespace) -> str:
    """Return what is wrong with the arguments: options of writing and of searching do not go together."""
    given = {name for name in (*_QUERY, *_WRITING) if getattr(args, name) not in (None, False, [])}
    if args.output is None:
        missing = [name for name in _WRITING if name in given]
        if missing:
            return f"--{missing[0]}: expected it with -o OUT, which writes a table"
        return "" if len(args.paths) == 1 else "expected -o OUT to write a table, or one table to print rows of"
    wrong = [name for name in _QUERY if name in given]
    if wrong:
        return f"--{wrong[0]}: expected it without -o, with a table that exists"
    if _streams.STANDARD_STREAM in (*args.paths, args.output):
        return "expected paths and URLs as sources, and a file as OUT, got '-'"
    if args.format == "csv":
        return "--format csv prints rows of a table; with -o, name a file that ends with .csv"
    return (
        "" if args.paths or args.list is not None else "expected sources: files, folders, globs, URLs, or --list FILE"
    )


def write_catalog(args: argparse.Namespace) -> dict[str, Any]:
    """Write the catalogue, and return what the command reports.

    :raises SbformatError: when the output is not a catalogue, or in another format
    :raises OSError: when it cannot be written
    """
    from sbformat.catalogue.update import update_catalog

    if args.allow:
        _files.check_allowed(args)
    report = update_catalog(
        _list_arguments(args),
        args.output,
        map_rows=partial(_map_rows, args),
        limits=_files.make_limits(args),
        allow=args.allow,
        fresh=args.fresh,
        overwrite=args.force,
    )
    if report is None:
        return {"outcome": "missing", "message": "there are no sources: the catalogue is not written"}
    return {
        "rows": report.rows,
        "read": report.read,
        "resumed": report.resumed,
        "columns": report.columns,
        "nbytes": report.nbytes,
        "failed": report.failed,
        "failures": [
            {"path": source, "outcome": outcome, "message": message} for source, outcome, message in report.failures
        ],
    }


def _list_arguments(args: argparse.Namespace) -> Iterator[str]:
    """Yield the sources of the command line, then those of the list.

    :raises OSError: when the list cannot be opened
    """
    yield from args.paths
    if args.list == _streams.STANDARD_STREAM:
        yield from _strip_lines(sys.stdin, args)
    elif args.list is not None:
        with open(args.list, encoding="utf-8", errors="surrogateescape") as file:
            yield from _strip_lines(file, args)


def _strip_lines(lines: Iterable[str], args: argparse.Namespace) -> Iterator[str]:
    cleaned = (line.removeprefix("\ufeff").rstrip("\r\n") for line in lines)  # some editors begin a file with this mark
    return (_streams.add_url_options(line, args) for line in cleaned if line.strip())


def _map_rows(
    args: argparse.Namespace,
    work: Callable[[CatalogSource], Row],
    sources: Iterable[CatalogSource],
    lost: Callable[[CatalogSource], Row],
    count: int,
) -> Iterator[Row]:
    """Make rows by processes or a cluster, with a progress bar."""
    processes = 1 if count < _FEW else min(args.jobs or parallel.processors(), count)
    if args.dask is not None:
        processes = 2 if count else 1
    given = (source._replace(target=_streams.add_url_options(source.target, args)) for source in sources)
    rows = _many.map_items(work, given, args, processes=processes, lost=lost)
    with _progress.count_items("reading", count) as advance:
        for row in rows:
            advance(str(row["source"]))
            yield row


def _print_text(printer: _output.Plain, report: dict[str, Any]) -> None:
    for row in report["failures"][:_SHOWN_FAILURES]:
        printer.line(f"  {row['outcome']}: {escape(row['path'], 1000)}: {row['message']}")
    more = report["failed"] - min(len(report["failures"]), _SHOWN_FAILURES)
    if more:
        printer.line(f"  \u2026 and {more:,} more that could not be read: --where \"outcome <> 'ok'\" lists them")
    if not is_quiet():
        count = _output.count_noun(report["rows"], "row")
        known = report["rows"] - report["read"]
        what = f"{report['read']:,} read, {known:,} known from before" if known else f"{report['read']:,} read"
        size = format_size(report["nbytes"])
        printer.line(f"{escape(report['path'], 1000)}: {count}, {report['columns']:,} columns, {size} ({what})")
