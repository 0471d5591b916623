"""``sbformat edit``: an archive with other values, weights or entries, without torch or SB3."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from sbformat.cli import _files, _output, _progress, _streams
from sbformat.cli._assignments import add_set_option, parse_assignments
from sbformat.cli._hints import require_suffix
from sbformat.cli.diff import group_changes, list_changes, print_changes
from sbformat.errors import UnsupportedError, escape

if TYPE_CHECKING:
    import argparse

    from sbformat.archive.archive import Archive


def configure(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "edit",
        example="sbformat edit agent.zip -o edited.zip --set gamma=0.98",
        help="change hyper-parameters, weights or entries",
        description="Write an archive with other hyper-parameters, weights or entries. What is not edited is copied "
        "byte for byte; the output is read again before it takes its name. Exit status 1 when SB3 could no longer "
        "load it; an edit that the weights do not fit is refused.",
    )
    parser.add_argument("path", metavar="FILE", help="an archive")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("-o", "--output", metavar="OUT", help="the archive to write")
    where.add_argument("--in-place", action="store_true", help="write over FILE; it stays whole on any failure")
    add_set_option(
        parser,
        "give a key of data (or a JSON pointer) a JSON value, checked against the schema; repeatable; "
        """a schedule: learning_rate='{"linear": [3e-4, 0]}'""",
    )
    parser.add_argument("--unset", action="append", default=[], metavar="KEY", help="remove a key of data; repeatable")
    parser.add_argument("--weights", metavar="FILE", help="tensors from a .safetensors or .npz file, checked by name")
    parser.add_argument(
        "--drop-optimizer",
        action="store_true",
        help="empty the optimizers' states, so that SB3 still loads it; remove one that is too damaged for that",
    )
    parser.add_argument("--drop", action="append", default=[], metavar="ENTRY", help="remove an entry; repeatable")
    parser.add_argument("--unknown-keys", action="store_true", help="allow --set to add keys that SB3 does not have")
    parser.add_argument(
        "--allow-mismatch", action="store_true", help="write it even if its weights do not fit the new data"
    )
    parser.add_argument("--force", action="store_true", help="overwrite OUT")
    _files.add_reading_options(parser)
    parser.set_defaults(run=run, refuse=parser.error)


def run(args: argparse.Namespace) -> int:
    """Edit; return 1 when SB3 could not load the result, 2 when nothing could be written."""
    if not (args.set or args.unset or args.weights or args.drop_optimizer or args.drop):
        args.refuse("nothing to edit: expected --set, --unset, --weights, --drop-optimizer or --drop")
    outputs = [_files.resolve_path(args.path) if args.in_place else args.output]
    report = _files.report_errors(args.path, lambda: _edit(args), outputs=outputs)
    _output.print_report(args, report, _print_text, is_finding=_has_errors(report))
    if report["outcome"] != "ok":
        if any(row["kind"] == "mismatch" for row in report.get("problems", ())):
            _streams.write_remark("nothing was written; --allow-mismatch writes it anyway")
        return _files.EXIT_COULD_NOT
    return _files.EXIT_FINDINGS if _has_errors(report) else _files.EXIT_FINE


def _has_errors(report: dict[str, Any]) -> bool:
    return any(row.get("level") == "error" for row in report.get("problems", ()))


def _edit(args: argparse.Namespace) -> dict[str, Any]:
    from sbformat.tools.diff import diff
    from sbformat.tools.edit import edit
    from sbformat.writer import write

    if args.in_place and args.path == _streams.STANDARD_STREAM:
        message = "standard input cannot be edited in place; write the edited archive with -o"
        raise UnsupportedError(message)
    output = _files.resolve_path(args.path) if args.in_place else args.output
    if not args.in_place:
        _files.refuse_same_file(args.path, output, hint="; --in-place writes over it")
    if not args.in_place:
        require_suffix("edit", output)
    archive = _files.read_archive(args.path, args)
    if args.in_place and archive.format != "sb3":
        message = "--in-place needs an archive; write the edited archive to another file with -o"
        raise UnsupportedError(message)
    assigned = parse_assignments(args, _files.make_limits(args))
    edited, problems = edit(
        archive,
        assign=assigned,
        unset=args.unset,
        weights=_weights(args),
        drop_optimizer=args.drop_optimizer,
        drop=args.drop,
        unknown_keys=args.unknown_keys,
        allow_mismatch=args.allow_mismatch,
    )
    for key, value in assigned:
        if type(value) is float and type(edited.data.get(key)) is int:
            _streams.write_remark(
                f"{escape(key)}: {value} is written as {edited.data[key]}, because SB3 needs an integer"
            )
    changes = list_changes(diff(archive, edited).changes)
    with (
        _streams.open_output(output, ".zip") as target,
        _progress.count_bytes("writing", _count_bytes(edited)) as advance,
    ):
        write(edited, target, overwrite=args.in_place or args.force, progress=advance)
    return {
        "output": os.fspath(output),
        "changes": changes,
        "problems": [row._asdict() for row in problems],
    }


def _weights(args: argparse.Namespace) -> dict[str, Any] | None:
    if args.weights is None:
        return None
    from sbformat.arrayfiles.reader import read_arrays

    return _files.name_in_errors(args.weights, lambda: read_arrays(args.weights, limits=_files.make_limits(args)))


def _count_bytes(archive: Archive) -> int:
    return sum(entry.size for entry in archive.entries.values())


def _print_text(printer: _output.Plain, report: dict[str, Any]) -> None:
    count = len(group_changes(report["changes"]))
    printer.line(f"{escape(report['output'], 1000)}: {_output.count_noun(count, 'change')}")
    print_changes(printer, report["changes"])
    for row in report["problems"]:
        printer.line(f"  new {row['level']}: {escape(row['entry'])}: {escape(row['message'], 600)}")
