"""``rebuild`` of one file: an agent to an archive, statistics to a ``vecnormalize.pkl``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from sbformat.cli import _files, _output, _progress, _streams
from sbformat.cli._assignments import parse_assignments
from sbformat.cli._hints import require_suffix
from sbformat.constants import DATA_ENTRY
from sbformat.errors import UnsupportedError, escape

if TYPE_CHECKING:
    import argparse


_POLICY_SUFFIX: Final = ".pth"
_HEAD_BYTES: Final = 512


def rebuild_file(path: str, output: str, args: argparse.Namespace) -> dict[str, Any]:
    """Rebuild an agent or statistics, whichever the file holds, and return the report.

    :raises UnsupportedError: for statistics with options that apply to archives only
    :raises SbformatError: when the file cannot be rebuilt
    :raises OSError: when a file cannot be read or written
    """
    require_suffix("rebuild", output)
    _files.refuse_same_file(path, output)
    path = _find_agent(path, output, args)
    if is_statistics(path, args):
        given = [option for option, value in _archive_options(args).items() if value]
        if given:
            message = f"{given[0]} applies to archives only, and this file holds statistics"
            raise UnsupportedError(message)
        return rebuild_statistics(path, output, args)
    if output.lower().endswith(_POLICY_SUFFIX):
        return rebuild_policy_file(path, output, args)
    return rebuild_agent(path, output, args)


def _find_agent(path: str, output: str, args: argparse.Namespace) -> str:
    """Return the agent of the folder of a run, which may be a repository of the Hub; any other path unchanged."""
    if not output.lower().endswith(".zip"):
        return path
    from sbformat.folders import find_in_folder

    chosen = find_in_folder(path, _files.make_limits(args))
    if chosen is None:
        return path
    left = "" if chosen.statistics is None else "; its statistics are not in OUT: a folder as OUT gets both"
    _output.warn(f"{escape(_streams.name_input(path), 1000)}: {chosen.remark}{left}")
    return chosen.path


def rebuild_policy_file(path: str, output: str, args: argparse.Namespace) -> dict[str, Any]:
    """Rebuild a file of ``policy.save()``, which the suffix of the output announces, and return the report."""
    from sbformat.io.atomic import new_file, open_new
    from sbformat.tools.rebuild import rebuild_policy

    given = [option for option, value in _archive_options(args).items() if value]
    if given:
        message = f"{given[0]} applies to archives only, and a {_POLICY_SUFFIX} is a file of policy.save()"
        raise UnsupportedError(message)
    content, report = rebuild_policy(_files.read_archive(path, args), target=args.target)
    with new_file(output, overwrite=args.force) as temporary, open_new(temporary) as file:
        file.write(content)
    return {"output": output, **report.to_json()}


def rebuild_agent(path: str, output: str, args: argparse.Namespace) -> dict[str, Any]:
    """Rebuild an agent, and return the report."""
    from sbformat.tools.rebuild import rebuild
    from sbformat.writer import write

    original = _files.read_archive(path, args)
    if original.format == "policy-file":
        name = escape(os.path.splitext(output)[0], 1000) if output != _streams.STANDARD_STREAM else "policy"
        message = f"a file of policy.save() is rebuilt as such a file, not as an archive: -o {name}{_POLICY_SUFFIX}"
        raise UnsupportedError(message)
    archive, report = rebuild(
        original,
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
        _streams.open_output(output, ".zip") as target,
        _progress.count_bytes("writing", total) as advance,
    ):
        write(archive, target, overwrite=args.force, progress=advance)
    return {"output": output, **report.to_json()}


def is_statistics(path: str, args: argparse.Namespace) -> bool:
    """Return whether a path is a file or folder of statistics rather than an archive."""
    from sbformat.archive.kinds import STATISTICS, detect_kind
    from sbformat.formats.vecnormalize.pickles import folder_files
    from sbformat.io.opening import has_file, is_folder, is_remote, read_start
    from sbformat.io.source import BytesSource

    source = _streams.open_input(path, _files.make_limits(args))
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
    value, report = rebuild_vecnormalize(_streams.open_input(path, limits), target=args.target, limits=limits)
    with _streams.open_output(output, ".pkl") as target:
        write_vecnormalize(value, target, target=args.target, overwrite=args.force)
    return {"output": output, **report.to_json()}


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
