"""``sbformat unbundle``: split a bundle into the archive and its ``vecnormalize.pkl``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from sbformat.cli import _files, _output, _progress, _streams
from sbformat.cli.bundle import describe_statistics, print_statistics
from sbformat.errors import UnsupportedError, escape

if TYPE_CHECKING:
    import argparse


def configure(subparsers: Any) -> None:
    """Add the command."""
    from sbformat.known.changes import NEWEST, RELEASES

    parser = subparsers.add_parser(
        "unbundle",
        example="sbformat unbundle bundle.zip -o agent.zip --vecnormalize vecnormalize.pkl",
        help="take the statistics of a VecNormalize out of a bundle",
        description="Write the archive that a bundle was made of, every entry byte for byte, and a vecnormalize.pkl "
        "that VecNormalize.load of the target's SB3 takes. Both files are written, or none.",
    )
    parser.add_argument("path", metavar="FILE", help="an archive that sbformat bundle made")
    parser.add_argument("-o", "--output", required=True, metavar="OUT", help="the archive to write")
    parser.add_argument("--vecnormalize", required=True, metavar="STATS", help="the vecnormalize.pkl to write")
    parser.add_argument(
        "--target", default=str(NEWEST), metavar="RELEASE", help=f"SB3 {min(RELEASES)} to {NEWEST} (default {NEWEST})"
    )
    parser.add_argument("--force", action="store_true", help="overwrite OUT and STATS")
    _files.add_reading_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Unbundle; return 2 when it failed."""
    outputs = [args.output, args.vecnormalize]
    report = _files.report_errors(args.path, lambda: _unbundle(args), outputs=outputs)
    _output.print_report(args, report, _print_text)
    return _files.EXIT_FINE if report["outcome"] == "ok" else _files.EXIT_COULD_NOT


def _unbundle(args: argparse.Namespace) -> dict[str, Any]:
    from sbformat.container.writer import write_all
    from sbformat.formats.vecnormalize import writes_vecnormalize
    from sbformat.formats.vecnormalize.entries import ENTRIES
    from sbformat.io.atomic import new_file, open_new
    from sbformat.tools.bundle import unbundle
    from sbformat.writer import write

    _check_outputs(args)
    source = _files.read_archive(args.path, args)
    if not set(ENTRIES) & source.entries.keys():
        message = "expected a bundle, got an archive without statistics; sbformat bundle puts them into it"
        raise UnsupportedError(message)
    archive, statistics = unbundle(source)
    data = writes_vecnormalize(statistics, target=args.target)
    with new_file(args.vecnormalize, overwrite=args.force) as temporary:
        with open_new(temporary) as file:
            write_all(file, data)
        total = sum(entry.size for entry in archive.entries.values())
        with _progress.count_bytes("writing", total) as advance:
            write(archive, args.output, overwrite=args.force, progress=advance)
    return {
        "output": args.output,
        "statistics_output": args.vecnormalize,
        "vecnormalize": describe_statistics(statistics),
    }


def _check_outputs(args: argparse.Namespace) -> None:
    """Check the paths of the outputs before anything is written.

    :raises FileExistsError: when one exists
    :raises UnsupportedError: when two of the three paths are the same file
    """
    for output in (args.output, args.vecnormalize):
        if output == _streams.STANDARD_STREAM:
            message = "-: two files are written, and standard output takes one: expected their names"
            raise UnsupportedError(message)
        _files.refuse_same_file(args.path, output)
        if not args.force and os.path.lexists(output):
            raise FileExistsError(17, _files.ALREADY_EXISTS, output)
    if os.path.realpath(args.output) == os.path.realpath(args.vecnormalize):
        message = "the archive and the statistics need different files"
        raise UnsupportedError(message)


def _print_text(printer: _output.Plain, report: dict[str, Any]) -> None:
    printer.line(f"{escape(report['output'], 1000)}: the archive")
    printer.line(f"{escape(report['statistics_output'], 1000)}: the statistics")
    print_statistics(printer, report["vecnormalize"])
