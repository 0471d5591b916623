"""``sbformat rebuild``: write an archive or statistics anew, so that today's SB3 loads them and runs nothing.

In: an agent, a file of ``policy.save()``, or statistics. Out: the file for the target's SB3, and a report of what
became of each hyper-parameter and of everything else. Of many files, see :mod:`sbformat.cli._rebuild_folder`.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sbformat.cli import _files, _many, _output
from sbformat.cli import _options as opt
from sbformat.constants import DATA_ENTRY, PTH_SUFFIX
from sbformat.errors import MESSAGE_BYTES, UnsupportedError, escape
from sbformat.io.opening import has_file, is_folder, is_remote, read_start
from sbformat.known.changes import WRITES_VERSION

if TYPE_CHECKING:
    import argparse

    from sbformat.cli._output import Plain

_HEAD_BYTES: Final = 512
WORDS: Final = ("kept", "translated", "added", "dropped")
"""The treatments of a value. In JSON, a value that was added is ``translated``."""
_HEADER: Final = ("hyper-parameter", "before", "now", "how")
_SENTENCE: Final = 240
_HOW: Final = 80  # characters of a cell that says how; what is longer is a note below the table
_VALUE: Final = 60  # characters of a value before and now
_STATISTICS: Final = "VecNormalize"  # in a report on statistics, the value of ``algorithm``

REBUILD: Final = opt.Command(
    example="sbformat rebuild old.zip -o agent.zip --target 2.9",
    description="Write an archive that the target's SB3 loads whole and that runs nothing: every pickle in it is "
    "written anew from the decoded value of the old one. Values that are not known, or carry code, are dropped and "
    "reported, with the value that SB3 uses instead; so are paths, logs and the author's system information. A "
    "policy class that is not known is replaced by SB3's own if all weights fit it; otherwise nothing is written. "
    "Exit status 1 says that the agent now computes or trains with something else.",
    options=(
        opt.option(
            "paths",
            "FILE",
            "an archive, or the folder that it was unzipped into; an agent of Stable Baselines 2 (.zip or .pkl), "
            "which becomes an archive of SB3; a vecnormalize.pkl, SB2's obs_rms.pkl or "
            "ret_rms.pkl, or a folder with both; several of them, a folder with agents and what belongs to them, or "
            f"patterns in quotes{opt.STDIN}",
            nargs="+",
        ),
        opt.output_file(
            "the archive, the vecnormalize.pkl, or of a file of policy.save() the .pth to "
            "write; of several files, or of a folder, the folder to write"
        ),
        opt.make_target(),
        opt.option("--algorithm", "NAME", "PPO, SAC, ...: where the archive does not tell for certain"),
        opt.option(
            "--on-unknown",
            None,
            "values that are not known: drop (default), keep (the result is then not clean), or refuse",
            choices=("drop", "keep", "error"),
            default="drop",
        ),
        opt.option(
            "--policy-class",
            "NAME",
            "another policy: MlpPolicy, MultiInputPolicy, my.policies.MyPolicy, ...; "
            "for SB2, its class to treat a user's class as",
        ),
        opt.repeated(
            "--allow",
            "NAME",
            "keep a class or function that is not known, by its exact dotted name; SB3 calls it; repeatable",
        ),
        opt.repeated(
            "--as",
            "NAME=KNOWN",
            "read objects of a class that is not known as those of one that is, which it extends: "
            "my.spaces.MyBox=gymnasium.spaces.Box; repeatable",
            dest="treat_as",
            type=partial(opt.parse_pair, form="NAME=KNOWN"),
        ),
        opt.repeated(
            "--map",
            "CLASS=NAME",
            "refer to a class of your own module instead of one that the file carries by value, as code: "
            "__main__.MyExtractor=mymodule.MyExtractor; SB3 imports it; repeatable",
            dest="map_names",
            type=partial(opt.parse_pair, form="CLASS=NAME"),
        ),
        opt.assignments(
            "give a key of data a JSON value, or @FILE with one; repeatable; "
            """a schedule: learning_rate='{"linear": [3e-4, 0]}'"""
        ),
        opt.flag("--keep-system-info", "keep system_info.txt and tensorboard_log"),
        opt.flag("--copy-others", "of a folder, also copy settings, logs and other files in which scan finds nothing"),
        opt.flag("--copy-buffers", "of a folder, also copy replay buffers in which scan finds nothing"),
        opt.flag("--long", "of many files, show everything instead of a row for each"),
        opt.MANY,
        opt.flag("--force", "overwrite OUT, or the files in it that are written"),
        opt.reading(),
    ),
)


def run_rebuild(args: argparse.Namespace) -> int:
    """Rebuild; return 1 when the agent now computes or trains with something else, 2 when a file was not written."""
    is_many = _is_many(args.paths, args.output)
    _many.use_absolute_paths(args)
    if is_many:
        from sbformat.cli._rebuild_folder import run_many

        return run_many(args)
    path = args.paths[0]
    report = _files.report_errors(path, lambda: rebuild_file(path, args.output, args), outputs=[args.output])
    is_finding = any(row["is_finding"] for row in report.get("rows", ()))
    return _output.finish(args, report, _output.Form(print_text), is_finding=is_finding)


def _is_many(paths: list[str], output: str) -> bool:
    """Return whether the output is a folder: for several files, for a folder of files, and where a folder is named."""
    if len(paths) > 1 or output.endswith(("/", os.sep)) or os.path.isdir(output):
        return True
    is_one = output == _files.STANDARD_STREAM or output.lower().endswith((".zip", ".pkl", ".pth"))
    return not is_one and is_folder(paths[0]) and not has_file(paths[0], DATA_ENTRY)


def rebuild_file(path: str, output: str, args: argparse.Namespace) -> dict[str, Any]:
    """Rebuild an agent or statistics, whichever the file holds, and return the report."""
    _files.require_suffix("rebuild", output)
    _files.refuse_same_file(path, output)
    path = _find_agent(path, output, args)
    if is_statistics(path, args):
        _refuse_archive_options(args, "this file holds statistics")
        return rebuild_statistics(path, output, args)
    if output.lower().endswith(PTH_SUFFIX):
        return rebuild_policy_file(path, output, args)
    return rebuild_agent(path, output, args)


def _find_agent(path: str, output: str, args: argparse.Namespace) -> str:
    """Return the agent of the folder of a run, which may be a repository of the Hub; any other path unchanged."""
    if not output.lower().endswith(".zip"):
        return path
    chosen = _files.find_agent(path, args, on_statistics="; its statistics are not in OUT: a folder as OUT gets both")
    return path if chosen is None else chosen.path


def rebuild_policy_file(path: str, output: str, args: argparse.Namespace) -> dict[str, Any]:
    """Rebuild a file of ``policy.save()``, which the suffix of the output announces, and return the report."""
    from sbformat.io.atomic import new_file, open_new
    from sbformat.tools.rebuild import rebuild_policy

    _refuse_archive_options(args, f"a {PTH_SUFFIX} is a file of policy.save()")
    content, report = rebuild_policy(_files.read_archive(path, args), target=args.target)
    with new_file(output, overwrite=args.force) as temporary, open_new(temporary) as file:
        file.write(content)
    return {"output": output, **report.to_json()}


def rebuild_agent(path: str, output: str, args: argparse.Namespace) -> dict[str, Any]:
    """Rebuild an agent, and return the report."""
    from sbformat.cli import _json
    from sbformat.tools.rebuild import rebuild

    original = _files.read_archive(path, args)
    if original.format == "policy-file":
        name = escape(os.path.splitext(output)[0], 1000) if output != _files.STANDARD_STREAM else "policy"
        hint = f"-o {name}{PTH_SUFFIX}"
        message = f"a file of policy.save() is rebuilt as such a file, not as an archive: {hint}"
        raise UnsupportedError(message, hint=hint)
    archive, report = rebuild(
        original,
        target=args.target,
        algorithm=args.algorithm,
        on_unknown=args.on_unknown,
        policy_class=args.policy_class,
        allow=args.allow,
        treat_as=opt.collect_pairs("--as", args.treat_as),
        map_names=opt.collect_pairs("--map", args.map_names),
        assign=dict(_json.parse_assignments(args, original)),
        keep_system_info=args.keep_system_info,
    )
    _files.write_archive(archive, output, overwrite=args.force)
    return {"output": output, **report.to_json()}


def is_statistics(path: str, args: argparse.Namespace) -> bool:
    """Return whether a path is a file or folder of statistics rather than an archive."""
    from sbformat.archive.kinds import STATISTICS, detect_kind
    from sbformat.formats.vecnormalize.pickles import folder_files
    from sbformat.io.source import BytesSource

    source = _files.open_input(path, _files.make_limits(args))
    if is_folder(source):
        return not has_file(source, DATA_ENTRY) and bool(folder_files(path))
    if isinstance(source, str) and not is_remote(source) and not os.path.isfile(source):
        return False
    if detect_kind(BytesSource(read_start(source, _HEAD_BYTES) if isinstance(source, str) else source)) != "pickle":
        return False
    return _files.read_archive(path, args).format in STATISTICS


def rebuild_statistics(path: str, output: str, args: argparse.Namespace) -> dict[str, Any]:
    """Rebuild statistics, and return the report."""
    from sbformat.formats.vecnormalize import write_vecnormalize
    from sbformat.tools.rebuild import rebuild_vecnormalize

    limits = _files.make_limits(args)
    value, report = rebuild_vecnormalize(_files.open_input(path, limits), target=args.target, limits=limits)
    with _files.open_output(output, ".pkl") as target:
        write_vecnormalize(value, target, target=args.target, overwrite=args.force)
    return {"output": output, **report.to_json()}


def _refuse_archive_options(args: argparse.Namespace, why: str) -> None:
    """Refuse options that apply to archives only."""
    given = {
        "--algorithm": args.algorithm,
        "--policy-class": args.policy_class,
        "--allow": args.allow,
        "--as": args.treat_as,
        "--map": args.map_names,
        "--set": args.set,
        "--on-unknown": args.on_unknown != "drop",
        "--keep-system-info": args.keep_system_info,
    }
    for name, value in given.items():
        if value:
            raise UnsupportedError(f"{name} applies to archives only, and {why}")


# -- text ---------------------------------------------------------------------------------------------


def print_text(printer: Plain, report: dict[str, Any]) -> None:
    """Print the report on one file."""
    counts = ", ".join(f"{count} {word}" for word, count in count_words(report).items())
    written = describe_release(report)
    written = f", {written} ->" if written else " for SB3"
    printer.line(f"{escape(report['output'], 1000)}: {report['algorithm']}{written} {report['target']}: {counts}")
    _print_settings(printer, report)
    others = [row for row in report["rows"] if not row["is_hyperparameter"]]
    rows = [
        (_render_place(row), row["message"] + (f" (instead: {row['instead']})" if row["instead"] else ""))
        for row in others
        if find_word(row) == "translated"
    ]
    printer.table("translated", ("where", "how"), rows, longest=_SENTENCE)
    added = [(_render_place(row), _shorten(row["now"]), row["message"]) for row in others if find_word(row) == "added"]
    printer.table("added", ("where", "now", "how"), added, longest=_SENTENCE)
    _print_dropped(printer, [row for row in others if row["action"] == "dropped"])
    _print_consequences(printer, report)


def describe_release(report: dict[str, Any]) -> str:
    """Return what wrote the original; empty for statistics and files of ``policy.save()``, which do not contain it."""
    if report.get("sb2_algorithm"):
        return f"SB2's {report['sb2_algorithm']}"
    if report["algorithm"] == _STATISTICS or "." in report["algorithm"]:  # a policy is named by its module and class
        return ""
    return f"SB3 {report['written_by'] or f'before {WRITES_VERSION}'}"


def count_words(report: dict[str, Any]) -> dict[str, int]:
    """Return the number of rows by what became of their values; ``added`` only where there are some."""
    words = [find_word(row) for row in report["rows"]]
    return {word: words.count(word) for word in WORDS if word != "added" or word in words}


def find_word(row: dict[str, Any]) -> str:
    """Return what became of a value: its action, or ``added`` for a key of the result that the file does not have."""
    is_new = row["action"] == "translated" and row["was"] is None and row["now"] is not None
    return "added" if is_new and row["entry"] == DATA_ENTRY else str(row["action"])


def _print_settings(printer: Plain, report: dict[str, Any]) -> None:
    """Print what became of the hyper-parameters, with the keys that got the default of the algorithm in one line."""
    from sbformat.tools.rebuild.rebuild_report import DEFAULT_NOTE

    note = DEFAULT_NOTE.format(report["algorithm"])
    rows = [row for row in report["rows"] if row["is_hyperparameter"]]
    defaults = [row for row in rows if find_word(row) == "added" and row["message"] == note]
    cells, notes = [], []
    for row in rows:
        if row not in defaults:
            key, old, new, word, how = _render_setting(row)
            is_long = len(how) > _HOW
            cells.append((key, old, new, f"{word}: see the note" if is_long else f"{word}: {how}" if how else word))
            notes += [(key, how)] if is_long else []
    printer.table("hyper-parameters", _HEADER, cells, longest=_SENTENCE)
    printer.table("notes", ("hyper-parameter", "note"), notes, longest=_SENTENCE)
    if defaults:
        texts = ", ".join(f"{escape(_render_place(row))} {_shorten(row['now'])}" for row in defaults)
        printer.line(f"\n  added with the defaults of {escape(report['algorithm'])}: {texts}")


def _print_dropped(printer: Plain, rows: list[dict[str, Any]]) -> None:
    """Print what the result does not have: the value before, what SB3 uses instead, and why."""
    cells = [
        (
            _render_place(row),
            "" if row["message"].startswith(row["was"] or " ") else _shorten(row["was"] or ""),
            _shorten(row["instead"] or ""),
            row["message"],
        )
        for row in rows
    ]
    header = ("where", "before", "instead", "why")
    printer.table("dropped", header, cells, longest=_SENTENCE, leaves_out=range(len(header)))


def _print_consequences(printer: Plain, report: dict[str, Any]) -> None:
    """Print what differs for the agent, and what loading it imports."""
    found = [escape(_render_place(row)) for row in report["rows"] if row["is_finding"]]
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


def _render_setting(row: dict[str, Any]) -> tuple[str, str, str, str, str]:
    """Return a value that the algorithm trains with: its key, before, now, what became of it, and how."""
    old, new = row["was"] or "", row["now"] or row["instead"] or "left out"
    words = row["message"].removeprefix(f"{old}: ").removeprefix(f"{new}: ")
    if row["new_key"] is not None:  # which the first column shows
        words = words.removeprefix(f"{row['new_key']} in SB3").lstrip(":; ")
    if words.startswith(f"{new} (") and words.endswith(")"):  # what a schedule is, and how that is known
        words = words[len(new) + 2 : -1]
    key = _render_place(row) if row["new_key"] is None else f"{_render_place(row)} -> {row['new_key']}"
    return key, _shorten(old), _shorten(new), find_word(row), "" if words in ("", old, new) else words


def _shorten(value: str) -> str:
    return escape(value, MESSAGE_BYTES if opt.shows_whole() else _VALUE)
