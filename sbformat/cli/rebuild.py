"""``sbformat rebuild``: an old or a stranger's archive, or statistics, as one that today's SB3 loads."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, get_args

from sbformat.cli import _files, _output
from sbformat.cli._assignments import add_set_option, assignments
from sbformat.constants import DATA_ENTRY
from sbformat.errors import UnsupportedError, escape

if TYPE_CHECKING:
    import argparse

_STATISTICS: Final = "VecNormalize"
"""Stands in the place of the algorithm."""


def configure(subparsers: Any) -> None:
    """Add the command."""
    from sbformat.globals.releases import NEWEST, RELEASES

    parser = subparsers.add_parser(
        "rebuild",
        help="make an old or a stranger's archive load in today's SB3",
        description="Write an archive that the target's SB3 loads whole and that runs nothing: every pickle in it is "
        "written anew from what the old one meant. What is not known, or carries code, is dropped and said, with what "
        "SB3 uses instead; so are paths, logs and the description of the author's machine. A policy class that is not "
        "known is replaced by SB3's own where all weights fit it; where they do not, nothing is written. Exit status 1 "
        "says that the agent computes or trains with something else now.",
    )
    parser.add_argument(
        "path",
        metavar="FILE",
        help="an archive, or the folder that it was unzipped into; "
        "or a vecnormalize.pkl, SB2's obs_rms.pkl or ret_rms.pkl, or a folder with both",
    )
    parser.add_argument(
        "-o", "--output", required=True, metavar="OUT", help="the archive, or the vecnormalize.pkl, to write"
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
        help="what is not known: drop it (default), keep it as it is, so that the result is not clean, or refuse",
    )
    parser.add_argument(
        "--policy-class", metavar="NAME", help="another policy: MlpPolicy, MultiInputPolicy, my.policies.MyPolicy, ..."
    )
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="NAME",
        help="keep a class or function that is not known, by its exact dotted name; SB3 calls it; repeatable",
    )
    add_set_option(parser, "give a key of data a JSON value, where a schedule of one's own is lost; repeatable")
    parser.add_argument("--keep-system-info", action="store_true", help="keep system_info.txt and tensorboard_log")
    parser.add_argument("--force", action="store_true", help="overwrite OUT")
    _files.add_reading_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Rebuild; 1 when the agent computes or trains with something else now, 2 when it could not."""
    report = _files.guarded(args.path, lambda: _rebuild(args))
    _output.show(args, report, _print_text)
    if report["outcome"] != "ok":
        return _files.EXIT_COULD_NOT
    return _files.EXIT_FINDINGS if any(row["is_finding"] for row in report["rows"]) else _files.EXIT_FINE


def _rebuild(args: argparse.Namespace) -> dict[str, Any]:
    from sbformat.tools.rebuild import rebuild
    from sbformat.writer import write

    _files.refuse_same(args.path, args.output)
    if _is_statistics(args.path, args):
        return _rebuild_statistics(args)
    archive, report = rebuild(
        _files.read_archive(args.path, args),
        target=args.target,
        algorithm=args.algorithm,
        on_unknown=args.on_unknown,
        policy_class=args.policy_class,
        allow=args.allow,
        assign=dict(assignments(args, _files.limits(args))),
        keep_system_info=args.keep_system_info,
    )
    total = sum(entry.size for entry in archive.entries.values())
    with _output.bytes_progress("writing", total) as advance:
        write(archive, args.output, overwrite=args.force, progress=advance)
    return {"output": args.output, **report.to_json()}


def _is_statistics(path: str, args: argparse.Namespace) -> bool:
    """Say whether a path leads to statistics, or to a folder of them, and to no archive."""
    from sbformat.archive.kinds import STATISTICS, detect_kind
    from sbformat.formats.vecnormalize.reading import folder_files
    from sbformat.io.source import FileSource

    if os.path.isdir(path):
        return not os.path.isfile(os.path.join(path, DATA_ENTRY)) and bool(folder_files(path))
    if not os.path.isfile(path):
        return False
    if detect_kind(FileSource(path)) != "pickle":
        return False
    return _files.read_archive(path, args).format in STATISTICS


def _rebuild_statistics(args: argparse.Namespace) -> dict[str, Any]:
    from sbformat.formats.vecnormalize import write_vecnormalize
    from sbformat.tools.rebuild import rebuild_vecnormalize

    asked = [option for option, value in _options(args).items() if value]
    if asked:
        message = f"{asked[0]} is for archives, and these are statistics"
        raise UnsupportedError(message)
    value, report = rebuild_vecnormalize(args.path, target=args.target, limits=_files.limits(args))
    write_vecnormalize(value, args.output, target=args.target, overwrite=args.force)
    return {"output": args.output, **report.to_json()}


def _options(args: argparse.Namespace) -> dict[str, object]:
    """What is asked for that statistics do not have."""
    return {
        "--algorithm": args.algorithm,
        "--policy-class": args.policy_class,
        "--allow": args.allow,
        "--set": args.set,
        "--on-unknown": args.on_unknown != "drop",
        "--keep-system-info": args.keep_system_info,
    }


def _print_text(printer: _output.Plain, report: dict[str, Any]) -> None:
    from sbformat.tools.rebuild import Action

    counts = ", ".join(f"{report['counts'][action]} {action}" for action in get_args(Action))
    written = f"SB3 {report['written_by']}" if report["written_by"] else "SB3 before 0.9"
    if report["algorithm"] == _STATISTICS:
        written = "SB3"  # its pickles do not say of which release they are
    printer.line(f"{escape(report['output'], 1000)}: {report['algorithm']}, {written} -> {report['target']}: {counts}")
    for action in ("translated", "dropped"):
        rows = [(_place(row), _told(row)) for row in report["rows"] if row["action"] == action]
        printer.table(action, ("where", "how" if action == "translated" else "why"), rows, longest=240)
    found = [_place(row) for row in report["rows"] if row["is_finding"]]
    if found:
        printer.line(f"\n  The agent computes or trains with something else now: {', '.join(found)}")
    if report["requires"]:
        printer.line("\n  The loader imports, and trusts:")
        for required in report["requires"]:
            printer.line(f"    {escape(required['name'], 200)} ({escape(required['key'])})")


def _place(row: dict[str, Any]) -> str:
    if row["key"] is None:
        return str(row["entry"])
    return str(row["key"]) if row["entry"] == DATA_ENTRY else f"{row['entry']}:{row['key']}"


def _told(row: dict[str, Any]) -> str:
    instead = f" (instead: {row['instead']})" if row["instead"] else ""
    return f"{row['message']}{instead}"
