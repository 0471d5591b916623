"""``sbformat bundle``: an archive and its normalisation statistics in one file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.cli import _files, _output, _progress, _streams
from sbformat.cli._hints import require_suffix
from sbformat.errors import escape

if TYPE_CHECKING:
    import argparse

    from sbformat.formats.vecnormalize import RunningMeanStd, VecNormalize


_SETTINGS: Final = (
    "library", "num_envs", "training", "norm_obs", "norm_reward", "clip_obs", "clip_reward", "gamma", "epsilon",
)  # fmt: skip


def configure(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "bundle",
        example="sbformat bundle agent.zip --vecnormalize vecnormalize.pkl -o bundle.zip",
        help="put the statistics of a VecNormalize into an archive",
        description="Write an archive that also holds the statistics of a vecnormalize.pkl, in two more entries of "
        "plain JSON and safetensors. SB3 loads the agent from it as before; sbformat unbundle gives both files back.",
    )
    parser.add_argument("path", metavar="FILE", help="an archive")
    parser.add_argument(
        "--vecnormalize",
        required=True,
        metavar="STATS",
        help="a vecnormalize.pkl of SB3 or SB2, SB2's obs_rms.pkl or ret_rms.pkl, a folder with both, or a bundle",
    )
    parser.add_argument("-o", "--output", required=True, metavar="OUT", help="the archive to write")
    parser.add_argument("--force", action="store_true", help="overwrite OUT, and statistics that FILE has already")
    parser.add_argument(
        "--allow-mismatch",
        action="store_true",
        help="accept statistics whose shape is not that of the agent's observations",
    )
    _files.add_reading_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Bundle; return 2 when it failed."""
    report = _files.report_errors(args.path, lambda: _bundle(args), outputs=[args.output])
    _output.print_report(args, report, _print_text)
    return _files.EXIT_FINE if report["outcome"] == "ok" else _files.EXIT_COULD_NOT


def _bundle(args: argparse.Namespace) -> dict[str, Any]:
    from sbformat.formats.vecnormalize.entries import ENTRIES
    from sbformat.policies.loading import read_given_statistics
    from sbformat.tools.bundle import bundle
    from sbformat.writer import write

    require_suffix("bundle", args.output)
    for path in (args.path, args.vecnormalize):
        _files.refuse_same_file(path, args.output)
    limits = _files.make_limits(args)
    statistics = _files.name_in_errors(
        args.vecnormalize,
        lambda: read_given_statistics(_streams.open_input(args.vecnormalize, limits), limits),
    )
    archive = _files.read_archive(args.path, args)
    made = bundle(archive, statistics, overwrite=args.force, allow_mismatch=args.allow_mismatch)
    total = sum(entry.size for entry in made.entries.values())
    with (
        _streams.open_output(args.output, ".zip") as output,
        _progress.count_bytes("writing", total) as advance,
    ):
        write(made, output, overwrite=args.force, progress=advance)
    entries = [{"entry": name, "nbytes": made.entries[name].size} for name in ENTRIES]
    return {"output": args.output, "entries": entries, "vecnormalize": describe_statistics(statistics)}


def describe_statistics(value: VecNormalize) -> dict[str, Any]:
    """Return the settings and shapes of statistics, as a report has them."""
    found = value.obs_rms
    observations = found if isinstance(found, dict) else {} if found is None else {None: found}
    rows = [_describe_moments("obs_rms", key, part) for key, part in observations.items()]
    if value.ret_rms is not None:
        rows.append(_describe_moments("ret_rms", None, value.ret_rms))
    keys = value.norm_obs_keys
    settings = {name: getattr(value, name) for name in _SETTINGS}
    return {**settings, "norm_obs_keys": keys if keys is None else list(keys), "statistics": rows}


def _describe_moments(name: str, key: str | None, part: RunningMeanStd) -> dict[str, Any]:
    return {"name": name, "key": key, "shape": list(part.shape), "count": part.count}


def print_statistics(printer: _output.Plain, found: dict[str, Any]) -> None:
    """Print the shapes of :func:`describe_statistics`, one a line."""
    for row in found["statistics"]:
        of = f" of {escape(row['key'])}" if row["key"] is not None else ""
        shape = " x ".join(map(str, row["shape"])) or "one number"
        printer.line(f"  {row['name']}{of}: {shape}, of {row['count']:,.0f} samples")


def _print_text(printer: _output.Plain, report: dict[str, Any]) -> None:
    nbytes = sum(row["nbytes"] for row in report["entries"])
    printer.line(f"{escape(report['output'], 1000)}: with the statistics, {_output.format_size(nbytes)}")
    print_statistics(printer, report["vecnormalize"])
