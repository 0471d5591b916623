"""``sbformat rebuild``: write an archive or statistics anew, so that today's SB3 loads them and runs nothing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, get_args

from sbformat.cli import _files, _output, _progress, _streams
from sbformat.cli._assignments import add_set_option, parse_assignments
from sbformat.cli._hints import require_suffix
from sbformat.cli._options import is_verbose
from sbformat.constants import DATA_ENTRY
from sbformat.errors import UnsupportedError, escape

if TYPE_CHECKING:
    import argparse

_HEADER: Final = ("hyper-parameter", "before", "now", "how")
_SENTENCE: Final = 240
_VALUE: Final = 60
"""Characters of a value before and now."""
_STATISTICS: Final = "VecNormalize"
"""In a report on statistics, the value of ``algorithm``."""


def configure(subparsers: Any) -> None:
    """Add the command."""
    from sbformat.globals.releases import NEWEST, RELEASES

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
        help="values that are not known: drop (default), keep (the result is then not clean), or refuse",
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
    add_set_option(
        parser, """give a key of data a JSON value; repeatable; a schedule: learning_rate='{"linear": [3e-4, 0]}'"""
    )
    parser.add_argument("--keep-system-info", action="store_true", help="keep system_info.txt and tensorboard_log")
    parser.add_argument("--force", action="store_true", help="overwrite OUT")
    _files.add_reading_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Rebuild; return 1 when the agent now computes or trains with something else, 2 when nothing could be written."""
    report = _files.report_errors(args.path, lambda: _rebuild(args), outputs=[args.output])
    is_finding = any(row["is_finding"] for row in report.get("rows", ()))
    _output.print_report(args, report, _print_text, is_finding=is_finding)
    if report["outcome"] != "ok":
        return _files.EXIT_COULD_NOT
    return _files.EXIT_FINDINGS if is_finding else _files.EXIT_FINE


def _rebuild(args: argparse.Namespace) -> dict[str, Any]:
    from sbformat.tools.rebuild import rebuild
    from sbformat.writer import write

    require_suffix("rebuild", args.output)
    _files.refuse_same_file(args.path, args.output)
    if _is_statistics(args.path, args):
        return _rebuild_statistics(args)
    archive, report = rebuild(
        _files.read_archive(args.path, args),
        target=args.target,
        algorithm=args.algorithm,
        on_unknown=args.on_unknown,
        policy_class=args.policy_class,
        allow=args.allow,
        assign=dict(parse_assignments(args, _files.make_limits(args))),
        keep_system_info=args.keep_system_info,
    )
    total = sum(entry.size for entry in archive.entries.values())
    with (
        _streams.open_output(args.output, ".zip") as output,
        _progress.count_bytes("writing", total) as advance,
    ):
        write(archive, output, overwrite=args.force, progress=advance)
    return {"output": args.output, **report.to_json()}


def _is_statistics(path: str, args: argparse.Namespace) -> bool:
    """Return whether a path is a file or folder of statistics rather than an archive."""
    from sbformat.archive.kinds import STATISTICS, detect_kind
    from sbformat.formats.vecnormalize.reading import folder_files
    from sbformat.io.source import BytesSource, FileSource

    source = _streams.open_input(path, _files.make_limits(args))
    if os.path.isdir(path):
        return not os.path.isfile(os.path.join(path, DATA_ENTRY)) and bool(folder_files(path))
    if isinstance(source, str) and not os.path.isfile(source):
        return False
    if detect_kind(FileSource(source) if isinstance(source, str) else BytesSource(source)) != "pickle":
        return False
    return _files.read_archive(path, args).format in STATISTICS


def _rebuild_statistics(args: argparse.Namespace) -> dict[str, Any]:
    from sbformat.formats.vecnormalize import write_vecnormalize
    from sbformat.tools.rebuild import rebuild_vecnormalize

    given = [option for option, value in _archive_options(args).items() if value]
    if given:
        message = f"{given[0]} applies to archives only, and this file holds statistics"
        raise UnsupportedError(message)
    limits = _files.make_limits(args)
    value, report = rebuild_vecnormalize(_streams.open_input(args.path, limits), target=args.target, limits=limits)
    with _streams.open_output(args.output, ".pkl") as output:
        write_vecnormalize(value, output, target=args.target, overwrite=args.force)
    return {"output": args.output, **report.to_json()}


def _archive_options(args: argparse.Namespace) -> dict[str, object]:
    """Return the options that apply to archives only."""
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
        written = "SB3"  # its pickles do not name a release
    if report["sb2_algorithm"]:
        written = f"SB2's {report['sb2_algorithm']}"
    printer.line(f"{escape(report['output'], 1000)}: {report['algorithm']}, {written} -> {report['target']}: {counts}")
    settings = [_render_setting(row) for row in report["rows"] if row["is_hyperparameter"]]
    printer.table("hyper-parameters", _HEADER, settings, longest=_SENTENCE)
    others = [row for row in report["rows"] if not row["is_hyperparameter"]]
    for action in ("translated", "dropped"):
        rows = [(_render_place(row), _render_message(row)) for row in others if row["action"] == action]
        printer.table(action, ("where", "how" if action == "translated" else "why"), rows, longest=_SENTENCE)
    found = [_render_place(row) for row in report["rows"] if row["is_finding"]]
    if found:
        printer.line(f"\n  The agent now computes or trains with something else: {', '.join(found)}")
    if any(row["is_finding"] and "not known" in row["message"] for row in report["rows"]):
        printer.line(
            "\n  --allow NAME keeps a class or function that is not known: SB3 then imports and calls it. "
            "--set KEY=JSON sets another value."
        )
    if report["requires"]:
        printer.line("\n  The loader imports and trusts:")
        for required in report["requires"]:
            printer.line(f"    {escape(required['name'], 200)} ({escape(required['key'])})")


def _render_place(row: dict[str, Any]) -> str:
    if row["key"] is None:
        return str(row["entry"])
    return str(row["key"]) if row["entry"] == DATA_ENTRY else f"{row['entry']}:{row['key']}"


def _render_setting(row: dict[str, Any]) -> tuple[str, ...]:
    """Return the cells of a value that the algorithm trains with: its key, before, now, and what was done."""
    old, new = row["was"], row["now"] or row["instead"] or "left out"
    words = row["message"].removeprefix(f"{new}: ").removeprefix(f"{old}: ")
    done = row["action"] if words in ("", old, new) else f"{row['action']}: {words}"
    key = _render_place(row) if row["new_key"] is None else f"{_render_place(row)} -> {row['new_key']}"
    return key, _shorten(old or "not set"), _shorten(new), done


def _shorten(value: str) -> str:
    return escape(value, _SENTENCE if is_verbose() else _VALUE)


def _render_message(row: dict[str, Any]) -> str:
    instead = f" (instead: {row['instead']})" if row["instead"] else ""
    return f"{row['message']}{instead}"
