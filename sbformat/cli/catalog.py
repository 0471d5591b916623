"""``sbformat catalog``: one table of many archives, and conditions of SQL on it.

In: with ``-o`` archives, folders, globs and URLs; without it a table. Out: the table, or its rows as text, CSV or JSON.
"""

from __future__ import annotations

import math
import os
import shlex
import sys
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from sbformat import parallel
from sbformat.cli import _files, _many, _output, _progress
from sbformat.cli import _options as opt
from sbformat.errors import UnsupportedError, escape, quote
from sbformat.rendering import count_noun, format_size, read_number

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from sbformat.catalogue.catalog import CatalogSource
    from sbformat.catalogue.rows import Row, Scalar
    from sbformat.catalogue.table_files import Found

_QUERY: Final = ("where", "group_by", "sort", "reverse", "columns", "rows")  # options for a catalogue that is there
_WRITING: Final = ("list", "fresh", "force", "allow", "exclude", "jobs", "dask")
_OF_ROWS: Final = (".tex", ".md", ".json", ".txt")  # suffixes of files with rows, which no table has
_FEW: Final = 32
_SHOWN_FAILURES: Final = 20
_USUAL: Final = (
    "source", "algorithm", "sb3_version", "env", "seed", "timesteps", "mean_reward", "best_evaluation",
    "last_evaluation", "learning_rate", "gamma", "verdict", "outcome",
)  # fmt: skip
"""Columns that are printed as text."""
_LEADING: Final = ("algorithm", "env", "seed", "last_evaluation", "mean_reward")
"""Those of them that a terminal without room for all has first, after the source."""
_MEASURES: Final = ("mean_reward", "best_evaluation", "last_evaluation", "timesteps")
"""Columns that are printed of groups."""
_DIGITS: Final = 3  # of a deviation; its mean has as many decimals
_MOST_DIGITS: Final = 9  # decimals of the two
_LARGE: Final = 1e9  # means and deviations that are written with an exponent
_MOST: Final = 1000  # rows that are printed as text
_CELL: Final = 300

CATALOG: Final = opt.Command(
    example="sbformat catalog logs/ -o runs.parquet",
    description="With -o, write a table with one row for each archive: what it is, its verdict and problems, and "
    "every hyper-parameter in a column. A table that exists is brought up to date: files of the same size and time "
    "are not read again, and a run that was interrupted goes on where it was. Without -o, print rows of a table. "
    "Exit status 1 when a file or one of its entries could not be read: its row says why. Exit status 2 when there "
    "is no table, or nothing to put into it.",
    options=(
        opt.option(
            "paths",
            "SOURCE",
            "archives, folders, globs in quotes ('runs/**/*.zip'), URLs; without -o one table",
            nargs="*",
        ),
        opt.option(
            "-o --output",
            "OUT",
            "the table: .parquet (extra catalog), .csv, .jsonl, .sqlite; or, of a table that exists, the file for its "
            "rows: .tex, .md, .json, .txt, .csv",
        ),
        opt.option("--list", "FILE", "read further sources from a file, one a line; - is standard input"),
        opt.flag("--fresh", "read every file again"),
        opt.option("--where", "CONDITION", 'rows that meet a condition of SQL: "gamma < 0.99"'),
        opt.option("--columns", "NAME,NAME", "columns to print", type=opt.parse_columns),
        opt.option(
            "--group-by",
            "NAME,NAME",
            "one row for all rows that are the same in these columns, such as env,algorithm: their number n, and of "
            "--columns the mean and the standard deviation of the sample (with n - 1)",
            type=opt.parse_columns,
        ),
        opt.option("--sort", "NAME", "sort the rows by a column, groups by its mean"),
        opt.flag("--reverse", "reverse the order of the rows"),
        opt.option("--rows", "N", "print N rows at most", type=opt.parse_count),
        opt.ALLOW,
        opt.MANY,
        opt.flag("--force", "overwrite an OUT that is not such a table, or a file with rows"),
        opt.common(*opt.TABLES),
    ),
)


def run_catalog(args: argparse.Namespace) -> int:
    """Write a catalogue or search one; 1 when a source could not be read, 2 when there is no catalogue."""
    if _prints_rows(args):
        args.report_output, args.output = args.output, None
    wrong = _check_arguments(args)
    if wrong:
        raise opt.UsageError(wrong)
    if args.output is None:
        return _print_to_output(args)
    outputs = [args.output, f"{args.output}.partial"]
    report = _files.report_errors(args.output, lambda: write_catalog(args), outputs=outputs)
    return _output.finish(args, report, _output.Form(_print_text), is_finding=bool(report.get("failed")))


def _prints_rows(args: argparse.Namespace) -> bool:
    """Return whether ``-o`` is a file for the rows of a table that exists, not for a table of archives."""
    if args.output is None or not _is_table(args):
        return False
    is_query = args.has_format or any(getattr(args, name) not in (None, False) for name in _QUERY)
    return is_query or os.path.splitext(args.output)[1].lower() in _OF_ROWS


def _is_table(args: argparse.Namespace) -> bool:
    """Return whether the only source is a table, by its suffix."""
    from sbformat.catalogue.table_files import SUFFIXES

    if len(args.paths) != 1 or args.list is not None or os.path.isdir(args.paths[0]):
        return False
    return str(args.paths[0]).lower().endswith(SUFFIXES)


def _print_to_output(args: argparse.Namespace) -> int:
    """Print rows of the table, into the file of ``-o`` if there is one."""
    run = partial(_print_rows, path=args.paths[0])
    if getattr(args, "report_output", None) in (None, _files.STANDARD_STREAM):
        return run(args)
    if not args.has_format:
        args.format = opt.find_format(args.report_output, ("text", "json", *opt.TABLES))
    return _output.run_to_file(run, args)


def _check_arguments(args: argparse.Namespace) -> str:
    """Return what is wrong with the arguments: options of writing and of searching do not go together."""
    given = [name for name in (*_QUERY, *_WRITING) if getattr(args, name) not in (None, False, [])]
    if args.output is None:
        has_file = getattr(args, "report_output", None) is not None
        missing = [name for name in given if name in _WRITING and not (has_file and name == "force")]
        if missing:
            return f"--{missing[0]}: expected it with -o OUT, which writes a table"
        if len(args.paths) != 1:
            return "expected -o OUT to write a table, or one table to print rows of"
        path = escape(args.paths[0], 1000)
        hint = f"first: sbformat catalog {path} -o runs.csv"
        return "" if _is_table(args) else f"expected a table to print rows of, got {path}\n{hint}"
    if _is_table(args):
        hint = f"a file for its rows ends with {', '.join(_OF_ROWS)}, or with .csv after --format csv or a query"
        return f"expected archives as sources of a table, got the table {escape(args.paths[0], 1000)}\n{hint}"
    wrong = [name for name in given if name in _QUERY]
    if wrong:
        message = f"--{wrong[0].replace('_', '-')}: expected it with a table that exists, not with archives"
        return f"{message}\n{_describe_steps(args, wrong)}"
    if _files.STANDARD_STREAM in (*args.paths, args.output):
        return "expected paths and URLs as sources, and a file as OUT, got '-'"
    if args.format in opt.TABLES:
        hint = "\nwith -o, name a file that ends with .csv" * (args.format == "csv")
        return f"--format {args.format} prints rows of a table{hint}"
    has_sources = args.paths or args.list is not None
    return "" if has_sources else "expected sources: files, folders, globs, URLs, or --list FILE"


def _describe_steps(args: argparse.Namespace, query: Iterable[str] = ()) -> str:
    """Return the two commands that write a table of the sources, and its rows as they are asked for.

    :param query: names of options for the rows
    """
    from sbformat.catalogue.table_files import SUFFIXES

    is_table = args.output.lower().endswith(SUFFIXES)
    table = args.output if is_table else "runs.csv"
    rows = [table]
    for name in query:
        value = getattr(args, name)
        rows.append(f"--{name.replace('_', '-')}")
        rows += [] if value is True else [",".join(value) if isinstance(value, (list, tuple)) else str(value)]
    rows += [] if is_table else ["-o", args.output]
    sources = [*args.paths, *(() if args.list is None else ("--list", args.list))]
    first, then = (escape(shlex.join(words), 1000) for words in ([*sources, "-o", table], rows))
    return f"first: sbformat catalog {first}; then: sbformat catalog {then}"


def write_catalog(args: argparse.Namespace) -> dict[str, Any]:
    """Write the catalogue, and return what the command reports."""
    from sbformat.catalogue.update import update_catalog

    _files.check_allowed(args)
    if args.output.lower().endswith(_OF_ROWS):
        raise UnsupportedError(f"expected a table, got {quote(args.output)}", hint=_describe_steps(args))
    report = update_catalog(
        _list_arguments(args),
        args.output,
        map_rows=partial(_map_rows, args),
        limits=_files.make_limits(args),
        allow=args.allow,
        exclude=_files.make_exclusion(args),
        fresh=args.fresh,
        overwrite=args.force,
    )
    if report is None:
        return {"outcome": "missing", "message": "there are no sources: the catalogue is not written"}
    names = ("rows", "read", "resumed", "columns", "nbytes", "failed")
    failures = [dict(zip(("path", "outcome", "message"), failure)) for failure in report.failures]
    return {**{name: getattr(report, name) for name in names}, "failures": failures}


def _list_arguments(args: argparse.Namespace) -> Iterator[str]:
    """Yield the sources of the command line, then those of the list."""
    yield from args.paths
    if args.list == _files.STANDARD_STREAM:
        yield from _strip_lines(sys.stdin, args)
    elif args.list is not None:
        from io import TextIOWrapper

        from sbformat.cli._json import UTF_16

        with open(args.list, "rb") as file:
            encoding = "utf-16" if file.peek(2).startswith(UTF_16) else "utf-8"  # of PowerShell, or of everything else
            with TextIOWrapper(file, encoding, "surrogateescape") as lines:
                yield from _strip_lines(lines, args)


def _strip_lines(lines: Iterable[str], args: argparse.Namespace) -> Iterator[str]:
    cleaned = (line.removeprefix("\ufeff").rstrip("\r\n") for line in lines)  # some editors begin a file with this mark
    return (_files.add_url_options(line, args) for line in cleaned if line.strip())


def _map_rows(
    args: argparse.Namespace,
    work: Callable[[CatalogSource], Row],
    sources: Iterable[CatalogSource],
    lost: Callable[[CatalogSource], Row],
    count: int,
) -> Iterator[Row]:
    """Make rows by processes or a cluster, with a progress bar."""
    few = 1 if count < _FEW else min(args.jobs or parallel.processors(), count)
    processes = few if args.dask is None else 2 if count else 1
    given = (source._replace(target=_files.add_url_options(source.target, args)) for source in sources)
    rows = _many.map_items(work, given, args, processes=processes, lost=lost)
    with _progress.count_items("reading", count) as advance:
        for row in rows:
            advance()
            yield row


def _print_text(printer: _output.Plain, report: dict[str, Any]) -> None:
    for row in report["failures"][:_SHOWN_FAILURES]:
        printer.line(f"  {row['outcome']}: {escape(row['path'], 1000)}: {row['message']}")
    more = report["failed"] - min(len(report["failures"]), _SHOWN_FAILURES)
    if more:
        printer.line(f"  \u2026 and {more:,} more that could not be read: --where \"outcome <> 'ok'\" lists them")
    if not opt.is_quiet():
        count = count_noun(report["rows"], "row")
        known = report["rows"] - report["read"]
        what = f"{report['read']:,} read, {known:,} known from before" if known else f"{report['read']:,} read"
        size = format_size(report["nbytes"])
        printer.line(f"{escape(report['path'], 1000)}: {count}, {report['columns']:,} columns, {size} ({what})")


# -- rows of a catalogue ------------------------------------------------------------------------------


def _print_rows(args: argparse.Namespace, path: str) -> int:
    """Print rows of a catalogue; 2 when it cannot be read, or the condition is wrong."""
    report = _files.report_errors(path, lambda: _search(args, path))
    if args.format == "json":
        _output.print_json(args.command, [report])
    _output.report_failures([report])
    return _files.EXIT_FINE if report["outcome"] == "ok" else _files.EXIT_COULD_NOT


def _search(args: argparse.Namespace, path: str) -> dict[str, Any]:
    """Search the catalogue and print what was found, but for JSON, which is the report."""
    from sbformat.catalogue.table_files import search

    options = {
        "where": args.where,
        "group_by": args.group_by or (),
        "sort": args.sort,
        "is_reversed": args.reverse,
        "most": args.rows,
    }
    columns = args.columns
    if columns is None and args.group_by:
        columns = _MEASURES
    elif columns is None and args.format not in ("json", "csv"):
        with search(path) as every:
            columns = [name for name in _USUAL if name in every.columns]
    with search(path, columns=columns, **options) as found:
        _warn_about_groups(found)
        rows = (dict(zip(found.columns, row)) for row in found.rows)
        if args.format == "json":
            return {"columns": list(found.columns), "rows": list(rows)}
        if args.format == "csv":
            _output.print_csv(found.columns, rows)
        else:
            _print_query(args, found, path)
    return {}


def _warn_about_groups(found: Found) -> None:
    """Say what a reader of the numbers of groups would not expect."""
    if found.failed:
        count = count_noun(found.failed, "file")
        _output.warn(f"the groups have {count} that could not be read whole; without: --where \"outcome = 'ok'\"")
    if found.repeated:
        count = count_noun(found.repeated, "file")
        verb = "belongs" if found.repeated == 1 else "belong"
        hint = "to choose one of each run: --where \"source LIKE '%best_model.zip'\""
        _output.warn(f"{count} {verb} to runs of other files in the groups (checkpoints): n counts them, too", hint)


def _print_query(args: argparse.Namespace, found: Found, path: str) -> None:
    from sbformat.catalogue.table_files import MEASURES

    most = _MOST * 100 if opt.shows_whole() else _MOST
    rows = list(islice(found.rows, most + 1))
    shown = [dict(zip(found.columns, row)) for row in rows[:most]]
    if not shown:
        _files.write_remark(f"{escape(path, 1000)}: no row meets the condition")
    if len(rows) > most and args.format != "text":  # only text has a title that says so
        _output.warn(f"only the first {most:,} rows are printed; --format csv prints all")
    mean, *others = MEASURES
    measures = {name + mean: name for name in found.measures}
    merged = {name + suffix for name in found.measures for suffix in others}
    names = [name for name in found.columns if name not in merged]
    printer = _output.make_printer(form=args.format)
    folder, others = "", []
    if printer.width is not None and args.columns is None and not args.group_by and "source" in names:
        folder = _shorten_sources(shown)
        kept = _choose_columns(names, shown, printer.width)
        names, others = kept, [name for name in names if name not in kept]
    cells = [
        [_render_measure(row, measures[name]) if name in measures else _render_scalar(row[name]) for name in names]
        for row in shown
    ]
    noun = "group" if args.group_by else "row"
    more = f", the first {most:,}" if len(rows) > most else ""
    below = f", sources in {folder}" if folder else ""
    printer.table(
        f"{count_noun(len(shown), noun)} of {escape(path, 1000)}{more}{below}",
        [measures.get(name, name) for name in names],
        cells,
        right=[at for at, name in enumerate(names) if _has_numbers(name, [row[name] for row in shown])],
        longest=_CELL,
        leaves_out=[at for at, name in enumerate(names) if name in measures and args.columns is None],
    )
    if others and shown and not opt.is_quiet():
        printer.line(f"\n  --columns shows others: {', '.join(others)}")


def _shorten_sources(rows: Iterable[dict[str, Any]]) -> str:
    """Return the folder in which all sources are, and make their names relative to it."""
    from sbformat.catalogue.rows import find_folder

    named = [row for row in rows if isinstance(row["source"], str)]
    folder, names = find_folder([row["source"] for row in named])
    for row, name in zip(named, names):
        row["source"] = name
    return folder


def _choose_columns(names: Sequence[str], rows: Sequence[Mapping[str, Any]], width: int) -> list[str]:
    """Return the columns for which a terminal has room, in their order; those without a value are dropped first."""
    widths, empty = {}, set()
    for name in names:
        texts = ["" if row[name] is None else str(_render_scalar(row[name])) for row in rows]
        widths[name] = max(map(len, (name, *texts)))
        if not any(texts):
            empty.add(name)
    room = _output.find_room(width, widths.pop("source"))
    places = dict(zip(_LEADING, range(len(_LEADING))))
    ordered = sorted(widths, key=lambda name: (name in empty, places.get(name, len(places))))  # is stable
    kept = _output.keep_narrow({name: widths[name] for name in ordered}, room)
    return [name for name in names if name == "source" or name in kept]


def _has_numbers(name: str, values: Iterable[Scalar]) -> bool:
    """Return whether a column has numbers only; SQLite stores NaN as a text."""
    from sbformat.catalogue.rows import COLUMNS

    return COLUMNS.get(name) is not str and not any(isinstance(read_number(value), str) for value in values)


def _render_scalar(value: Scalar) -> Scalar:
    return f"{value:.6g}" if isinstance(value, float) else value


def _render_measure(row: Mapping[str, Any], name: str) -> str | None:
    """Return the mean of a group with its deviation, and the number of values if some rows have none."""
    from sbformat.catalogue.table_files import COUNT, MEASURES

    mean, deviation, count = (read_number(row[name + suffix]) for suffix in MEASURES)
    if mean is None:
        return None
    text = f"{mean:.0f}" if mean.is_integer() and abs(mean) < _LARGE else f"{mean:.6g}"
    if deviation is not None:
        text = f"{text} \u00b1 {deviation:.{_DIGITS}g}"
        if 0 < deviation < _LARGE and abs(mean) < _LARGE:
            digits = max(_DIGITS - 1 - math.floor(math.log10(deviation)), 0)
            text = f"{mean:.{digits}f} \u00b1 {deviation:.{digits}f}" if digits <= _MOST_DIGITS else text
    return text if count == row[COUNT] else f"{text} (n={count})"
