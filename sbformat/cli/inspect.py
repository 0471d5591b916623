"""``sbformat inspect``: the contents of archives."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sbformat.archive.kinds import KIND_TITLES, OBJECTS, SB3_ARCHIVES
from sbformat.cli import _files, _inspect_folder, _inspect_json, _many, _output, _streams
from sbformat.cli._limits import name_option
from sbformat.cli._statistics import list_statistics
from sbformat.constants import OPTIMIZER_WORD
from sbformat.data import Serialized
from sbformat.errors import MissingEntryError, UnsupportedError, escape
from sbformat.immutable import Record
from sbformat.io.opening import is_remote
from sbformat.known.changes import WRITES_VERSION
from sbformat.values.render import render_line

if TYPE_CHECKING:
    import argparse

    from sbformat.archive.archive import Archive
    from sbformat.archive.hyperparameters import Hyperparameter
    from sbformat.cli._inspect_table import TableRow
    from sbformat.tools.inspect import InspectReport, StateDictReport

_SENTENCE: Final = 500


def configure(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "inspect",
        example="sbformat inspect agent.zip",
        help="show the contents of archives",
        description="Show version, algorithm, policy class, system, hyper-parameters, entries and tensors.",
    )
    parser.add_argument("paths", nargs="+", metavar="FILE", help="archives, .pth and .pkl files, or folders of them")
    parser.add_argument("--brief", action="store_true", help="totals only, without the tables of tensors")
    parser.add_argument(
        "--long", action="store_true", help="of several files, show everything instead of a table with a row for each"
    )
    parser.add_argument(
        "--columns",
        type=_many.parse_columns,
        metavar="NAME,NAME",
        help="columns of the table: algorithm, gamma, ...; by default those that differ",
    )
    parser.add_argument("--sort", metavar="NAME", help="sort the table by a column: path, learning_rate, ...")
    parser.add_argument("--reverse", action="store_true", help="reverse the order of the table")
    parser.add_argument("--system", action="store_true", help="compare the saved system with this one")
    parser.add_argument(
        "--blobs", action="append", default=[], metavar="KEY", help="list what a pickle of data holds; repeatable"
    )
    parser.add_argument("--opcodes", action="store_true", help="with --blobs: its opcodes with their offsets")
    _many.add_jobs_option(parser)
    _files.add_reading_options(parser, "csv")
    parser.set_defaults(run=run, refuse=parser.error)


class InspectResult(Record):
    """Result of a worker process for one file: the rendered text, which is small and picklable."""

    status: int
    json: str | None
    shown: _output.Recorded
    failure: dict[str, Any] | None
    """The report of a file that could not be read."""
    row: TableRow | None = None
    """With a table of all files: the row of this one."""


def run(args: argparse.Namespace) -> int:
    """Inspect each file; return 1 when an entry is broken, 2 when a file could not be read."""
    import sbformat.reader
    import sbformat.tools.inspect

    _many.use_absolute_paths(args)
    paths = list(_files.expand_paths(args.paths))
    folders = _inspect_folder.describe_folders(args) if _shows_folders(args) else []
    args.as_table = _is_table(args, len(paths))
    del args.refuse  # a method of the parser, which cannot be sent to other processes
    if args.as_table:
        import sbformat.cli._inspect_table  # noqa: F401 -- see above

    status = _files.EXIT_FINE
    results: list[InspectResult] = []
    printer = _output.Plain() if args.format == "json" else _output.make_printer()
    if args.format == "text":
        _inspect_folder.print_folders(printer, folders)
    lost = partial(_make_result, report=None, args=args)
    found = _many.map_files(partial(inspect_one, args=args), paths, args, lost=lost, done="inspected")
    is_collected = args.as_table or args.format == "json"
    with _many.count_files("inspecting", paths if is_collected else (), args) as advance:
        for done in found:
            advance("")
            status = max(status, done.status)
            if is_collected:
                results.append(done)
                continue
            if done.failure is not None:
                _output.report_failure(done.failure, lists_problems=False)
            _output.print_recorded(printer, done.shown)
    return max(status, _print_collected(results, args, folders) if is_collected else status)


def _shows_folders(args: argparse.Namespace) -> bool:
    """Return whether to show what belongs together in folders: not beside a table whose columns were chosen."""
    return bool(args.format == "json" or (args.format == "text" and not (args.columns or args.sort or args.reverse)))


def _is_table(args: argparse.Namespace, count: int) -> bool:
    """Return whether there is one row for each file."""
    wants_table = args.columns is not None or args.sort is not None or args.reverse
    if wants_table and args.format == "json":
        args.refuse("--columns, --sort and --reverse: expected them with --format text or csv")
    if args.format == "text" and not wants_table:
        return count > 1 and not (args.long or args.brief or args.system or args.blobs)
    return bool(args.format != "json")


def _print_collected(results: list[InspectResult], args: argparse.Namespace, folders: list[dict[str, Any]]) -> int:
    """Print the results of all files together, and return the exit status of that."""
    for done in results:
        if done.failure is not None:
            _output.report_failure(done.failure, lists_problems=False)
    if args.format == "json":
        _output.print_json("inspect", [done.json for done in results if done.json is not None], folders=folders)
        return _files.EXIT_FINE
    from sbformat.cli import _inspect_table

    try:
        rows = [done.row for done in results if done.row is not None]
        rows = _inspect_table.sort_rows(rows, args.sort, is_reversed=args.reverse)
        if args.format == "csv":
            _inspect_table.print_csv(rows, args.columns)
        else:
            _inspect_table.print_text(_output.make_printer(), rows, args.columns)
    except MissingEntryError as error:
        _streams.write_remark(str(error))
        return _files.EXIT_COULD_NOT
    return _files.EXIT_FINE


def inspect_one(path: str, args: argparse.Namespace) -> InspectResult:
    """Inspect one file; runs in a worker process when there are many."""
    from sbformat.tools.inspect import inspect

    found: list[tuple[Archive, InspectReport]] = []

    def work() -> dict[str, Any]:
        read = _files.read_in_place if is_remote(path) else _files.read_archive
        archive = read(path, args, on_unknown="inert")
        report = inspect(archive)
        broken = tuple(row._replace(message=name_option(row.message)) for row in report.broken)
        why = report.network_error and name_option(report.network_error)
        found.append((archive, report._replace(broken=broken, network_error=why)))
        return _inspect_json.describe_requested(archive, args)

    outcome = _files.report_errors(path, work)
    if outcome["outcome"] == UnsupportedError.outcome and path not in args.paths and _is_other_zip(path):
        return InspectResult(_files.EXIT_FINE, None, [], None)  # a zip of something else, found in a folder
    archive, report = found[0] if found and outcome["outcome"] == "ok" else (None, None)
    return _make_result(outcome, report, args, archive)


def _is_other_zip(path: str) -> bool:
    from sbformat.folders.listing import is_other_zip

    return is_other_zip(path)


def _make_result(
    outcome: dict[str, Any], report: InspectReport | None, args: argparse.Namespace, archive: Archive | None = None
) -> InspectResult:
    status = _files.EXIT_FINE
    if report is None:
        status = _files.EXIT_COULD_NOT
    elif report.broken:
        status = _files.EXIT_FINDINGS
    failure = outcome if report is None else None
    if args.format == "json":
        text = _output.render_report({**outcome, **(_inspect_json.describe_report(report) if report else {})})
        return InspectResult(status, text, [], failure)
    if args.as_table:
        from sbformat.cli._inspect_table import make_row

        return InspectResult(status, None, [], failure, make_row(outcome, report, archive))
    recorder = _output.Recorder()
    if report is not None:
        _print_text(recorder, outcome, report, brief=args.brief)
    return InspectResult(status, None, recorder.recorded, failure)


# -- text ---------------------------------------------------------------------------------------------


def _print_text(printer: _output.Plain, outcome: dict[str, Any], report: InspectReport, *, brief: bool) -> None:
    printer.heading(escape(outcome["path"], 1000))
    printer.table("summary", (), _list_summary(report), longest=_SENTENCE)
    if report.system_info:
        printer.table("system info", (), list(report.system_info.items()))
    if report.hyperparameters is not None:
        rows = [(key, _render_data_value(key, value)) for key, value in report.hyperparameters.items()]
        printer.table("attributes" if report.format in OBJECTS else "hyper-parameters (data)", (), rows)
    if report.statistics is not None:
        rows = list_statistics(report.statistics, with_settings=report.format not in OBJECTS)
        printer.table("normalization", (), rows, longest=_SENTENCE)
    printer.table(
        "entries",
        ("name", "size", "stored as"),
        [
            (row.name, _output.format_size(row.size), _describe_method(row.size, row.compressed_size))
            for row in report.entries
        ],
        right=(1,),
    )
    if report.network is not None and not brief:
        from sbformat.policies.describe import list_tables

        for table in list_tables(report.network):
            printer.table(f"network: {table.title}", table.header, table.rows, right=table.right)
    for state_dict in report.state_dicts:
        _print_state_dict(printer, state_dict, brief=brief)
    broken = [tuple(row) for row in report.broken]
    printer.table("broken", ("entry", "outcome", "why"), broken, longest=_SENTENCE)
    not_checked = [tuple(row) for row in report.not_checked]
    printer.table("not checked, because it was not fetched", ("entry", "what"), not_checked, longest=_SENTENCE)
    _print_requested(printer, outcome)
    printer.line()


def _describe_method(inflated: int, compressed: int) -> str:
    return "stored" if inflated == compressed else f"deflated, {_output.format_size(compressed)}"


def _list_summary(report: InspectReport) -> list[tuple[str, str]]:
    rows = [("format", KIND_TITLES.get(report.format, report.format))]
    if report.stable_baselines3_version is not None:
        rows.append(("SB3 version", report.stable_baselines3_version))
    elif report.format in SB3_ARCHIVES:
        rows.append(("SB3 version", f"not stored (SB3 before {WRITES_VERSION}.0 did not write it)"))
    if report.algorithm is not None:
        name = report.algorithm.name or "unknown"
        rows.append(("algorithm", name if report.algorithm.certain else f"{name} (not certain)"))
        rows += [("", evidence) for evidence in report.algorithm.evidence]
    if report.policy_class is not None:
        rows.append(("policy class", report.policy_class))
    numel = sum(state_dict.numel for state_dict in report.state_dicts if OPTIMIZER_WORD not in state_dict.name)
    if report.state_dicts:
        rows.append(("numbers in arrays" if report.format in OBJECTS else "parameters", f"{numel:,}"))
    if report.network is not None:
        rows.append(("network", f"known, with the outputs {', '.join(head.name for head in report.network.heads)}"))
    elif report.network_error is not None:
        rows.append(("network", f"not known: {report.network_error}"))
    rows += [("note", note) for note in report.notes]
    return rows


def _render_data_value(key: str, found: Hyperparameter) -> str:
    value = found.value
    if found.how == "json":
        return value if isinstance(value, str) else json.dumps(value)
    if isinstance(value, Serialized):
        return f"{value.type}, pickled, {_output.format_size(len(value.pickle))}: {found.why}"
    return render_line(value, key)


def _print_requested(printer: _output.Plain, outcome: dict[str, Any]) -> None:
    rows = [
        (row["name"], row["saved"] or "", row["here"] or "", "matters" if row["matters"] else "", row["why"])
        for row in outcome.get("system", ())
    ]
    printer.table("system", ("", "saved", "here", "", "why"), rows)
    for blob in outcome.get("blobs", ()):
        printer.line(f"\n  {escape(blob['key'])}")
        for line in blob.get("lines", ()):
            printer.line(f"    {line}")
        for row in blob.get("opcodes", ()):
            printer.line(f"    {row['offset']:>8}  {row['name']}  {row['argument']}".rstrip())
        if blob["broken"]:
            printer.line(f"    {blob['broken']}")


def _print_state_dict(printer: _output.Plain, report: StateDictReport, *, brief: bool) -> None:
    count = len(report.tensors)
    title = (
        f"{report.name}: {_output.count_noun(count, 'tensor')}, {report.numel:,} items, "
        f"{_output.format_size(report.nbytes)}"
    )
    if brief or not report.tensors:
        printer.line(f"\n  {title}")
        return
    rows = []
    for row in report.tensors:
        notes = [] if row.kind == "tensor" else [row.kind]
        notes += ["requires grad"] if row.requires_grad else []
        notes += [row.location] if row.location not in (None, "cpu") else []
        notes += [f"shares {row.shares_storage_with}"] if row.shares_storage_with else []
        shape = " x ".join(map(str, row.shape)) or "scalar"
        rows.append(
            (row.name or "(the whole entry)", row.dtype, shape, _output.format_size(row.nbytes), ", ".join(notes))
        )
    printer.table(title, ("tensor", "dtype", "shape", "size", ""), rows, right=(3,))
