"""``sbformat rebuild``: write an archive or statistics anew, so that today's SB3 loads them and runs nothing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from sbformat.cli import _files, _many, _output, _streams
from sbformat.cli._assignments import add_set_option
from sbformat.cli._rebuild_file import rebuild_file
from sbformat.cli._rebuild_text import print_text
from sbformat.constants import DATA_ENTRY
from sbformat.io.opening import has_file, is_folder

if TYPE_CHECKING:
    import argparse


def configure(subparsers: Any) -> None:
    """Add the command."""
    from sbformat.known.changes import NEWEST, RELEASES

    parser = subparsers.add_parser(
        "rebuild",
        example="sbformat rebuild old.zip -o agent.zip --target 2.9",
        help="make an archive that is old or not trusted load in today's SB3",
        description="Write an archive that the target's SB3 loads whole and that runs nothing: every pickle in it is "
        "written anew from the decoded value of the old one. Values that are not known, or carry code, are dropped and "
        "reported, with the value that SB3 uses instead; so are paths, logs and the author's system information. A "
        "policy class that is not known is replaced by SB3's own if all weights fit it; otherwise nothing is written. "
        "Exit status 1 says that the agent now computes or trains with something else.",
    )
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="FILE",
        help="an archive, or the folder that it was unzipped into; an agent of Stable Baselines 2 (.zip or .pkl), "
        "which becomes an archive of SB3; a vecnormalize.pkl, SB2's obs_rms.pkl or "
        "ret_rms.pkl, or a folder with both; several of them, or a folder with agents and what belongs to them",
    )
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="OUT",
        help="the archive, the vecnormalize.pkl, or of a file of policy.save() the .pth to "
        "write; of several files, or of a folder, the folder to write",
    )
    parser.add_argument(
        "--target", default=str(NEWEST), metavar="RELEASE", help=f"SB3 {min(RELEASES)} to {NEWEST} (default {NEWEST})"
    )
    parser.add_argument(
        "--algorithm", metavar="NAME", help="PPO, SAC, ...: where the archive does not tell for certain"
    )
    parser.add_argument(
        "--on-unknown",
        choices=("drop", "keep", "error"),
        default="drop",
        help="values that are not known: drop (default), keep (the result is then not clean), or refuse",
    )
    parser.add_argument(
        "--policy-class",
        metavar="NAME",
        help="another policy: MlpPolicy, MultiInputPolicy, my.policies.MyPolicy, ...; "
        "for SB2, its class to treat a user's class as",
    )
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="NAME",
        help="keep a class or function that is not known, by its exact dotted name; SB3 calls it; repeatable",
    )
    add_set_option(
        parser, """give a key of data a JSON value; repeatable; a schedule: learning_rate='{"linear": [3e-4, 0]}'"""
    )
    parser.add_argument("--keep-system-info", action="store_true", help="keep system_info.txt and tensorboard_log")
    parser.add_argument(
        "--copy-others",
        action="store_true",
        help="of a folder, also copy settings, logs and other files in which scan finds nothing",
    )
    parser.add_argument(
        "--copy-buffers", action="store_true", help="of a folder, also copy replay buffers in which scan finds nothing"
    )
    parser.add_argument("--long", action="store_true", help="of many files, show everything instead of a row for each")
    _many.add_jobs_option(parser)
    parser.add_argument("--force", action="store_true", help="overwrite OUT, or the files in it that are written")
    _files.add_reading_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Rebuild; return 1 when the agent now computes or trains with something else, 2 when a file was not written."""
    is_many = _is_many(args.paths, args.output)
    _many.use_absolute_paths(args)
    if is_many:
        return _run_many(args)
    path = args.paths[0]
    report = _files.report_errors(path, lambda: rebuild_file(path, args.output, args), outputs=[args.output])
    is_finding = any(row["is_finding"] for row in report.get("rows", ()))
    _output.print_report(args, report, print_text, is_finding=is_finding)
    if report["outcome"] != "ok":
        return _files.EXIT_COULD_NOT
    return _files.EXIT_FINDINGS if is_finding else _files.EXIT_FINE


def _is_many(paths: list[str], output: str) -> bool:
    """Return whether the output is a folder: for several files, for a folder of files, and where a folder is named."""
    if len(paths) > 1 or output.endswith(("/", os.sep)) or os.path.isdir(output):
        return True
    is_one = output == _streams.STANDARD_STREAM or output.lower().endswith((".zip", ".pkl", ".pth"))
    return not is_one and is_folder(paths[0]) and not has_file(paths[0], DATA_ENTRY)


def _run_many(args: argparse.Namespace) -> int:
    from sbformat.cli._rebuild_folder import print_many, run_many

    reports, others = run_many(args, args.paths, args.output)
    for report in reports:
        if report["outcome"] != "ok":
            _output.report_failure(report, lists_problems=False)
    if args.format == "json":
        _output.print_json(args.command, reports, others=others)
    else:
        print_many(args, args.output, reports, others)
        if args.long:
            printer = _output.make_printer()
            for report in reports:
                if report["outcome"] == "ok":
                    printer.line()
                    print_text(printer, report)
    if any(report["outcome"] != "ok" for report in reports):
        return _files.EXIT_COULD_NOT
    has_findings = any(row["is_finding"] for report in reports for row in report["rows"])
    return _files.EXIT_FINDINGS if has_findings else _files.EXIT_FINE
