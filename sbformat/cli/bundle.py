"""``sbformat bundle`` and ``unbundle``: an archive and its normalization statistics in one file, and back."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from sbformat.cli import _files, _output
from sbformat.cli import _options as opt
from sbformat.errors import ALREADY_EXISTS, UnsupportedError, escape
from sbformat.rendering import format_size

if TYPE_CHECKING:
    import argparse

    from sbformat.formats.vecnormalize import VecNormalize

_SETTINGS: Final = (
    "library", "num_envs", "training", "norm_obs", "norm_reward", "clip_obs", "clip_reward", "gamma", "epsilon",
)  # fmt: skip
_OUTPUT: Final = opt.output_file("the archive to write")

BUNDLE: Final = opt.Command(
    example="sbformat bundle agent.zip --vecnormalize vecnormalize.pkl -o bundle.zip",
    description="Write an archive that also holds the statistics of a vecnormalize.pkl, in two more entries of "
    "plain JSON and safetensors. SB3 loads the agent from it as before; sbformat unbundle gives back the "
    "agent, and statistics that VecNormalize.load of SB3 loads.",
    options=(
        opt.option("path", "FILE", f"an archive{opt.STDIN}"),
        opt.option(
            "--vecnormalize",
            "STATS",
            "a vecnormalize.pkl of SB3 or SB2, SB2's obs_rms.pkl or ret_rms.pkl, a folder with both, or a bundle"
            f"{opt.STDIN}",
            required=True,
        ),
        _OUTPUT,
        opt.flag("--force", "overwrite OUT, and statistics that FILE has already"),
        opt.flag("--allow-mismatch", "accept statistics of another shape or space than those of the agent"),
        opt.reading(),
    ),
)
UNBUNDLE: Final = opt.Command(
    example="sbformat unbundle bundle.zip -o agent.zip --vecnormalize vecnormalize.pkl",
    description="Write the archive that a bundle was made of, every entry byte for byte, and a vecnormalize.pkl "
    "that VecNormalize.load of the target's SB3 takes: the statistics, settings and spaces, without the random "
    "generators and render modes of the file that was bundled. Both files are written, or none.",
    options=(
        opt.option("path", "FILE", f"an archive that sbformat bundle made{opt.STDIN}"),
        _OUTPUT,
        opt.option("--vecnormalize", "STATS", "the vecnormalize.pkl to write", required=True),
        opt.make_target(),
        opt.flag("--force", "overwrite OUT and STATS"),
        opt.reading(),
    ),
)


def run_bundle(args: argparse.Namespace) -> int:
    """Bundle; return 2 when it failed."""
    report, _ = _output.report_warnings(args.path, lambda: _bundle(args), outputs=[args.output])
    return _output.finish(args, report, _output.Form(_print_bundle))


def _bundle(args: argparse.Namespace) -> dict[str, Any]:
    from sbformat.formats.vecnormalize.bundled import ENTRIES
    from sbformat.policies.loading import read_given_statistics
    from sbformat.tools.bundle import bundle

    _files.require_suffix("bundle", args.output)
    for path in (args.path, args.vecnormalize):
        _files.refuse_same_file(path, args.output)
    limits = _files.make_limits(args)
    statistics = _files.name_in_errors(
        args.vecnormalize, lambda: read_given_statistics(_files.open_input(args.vecnormalize, limits), limits)
    )
    archive = _files.read_archive(args.path, args)
    made = bundle(archive, statistics, overwrite=args.force, allow_mismatch=args.allow_mismatch)
    _files.write_archive(made, args.output, overwrite=args.force)
    entries = [{"entry": name, "nbytes": made.entries[name].size} for name in ENTRIES]
    return {"output": args.output, "entries": entries, "vecnormalize": _describe_statistics(statistics)}


def run_unbundle(args: argparse.Namespace) -> int:
    """Unbundle; return 2 when it failed."""
    form = _output.Form(_print_unbundle)
    return _output.run_one(args, lambda: _unbundle(args), form, args.output, args.vecnormalize)


def _unbundle(args: argparse.Namespace) -> dict[str, Any]:
    from sbformat.container.writer import write_all
    from sbformat.formats.vecnormalize import writes_vecnormalize
    from sbformat.formats.vecnormalize.bundled import ENTRIES
    from sbformat.io.atomic import new_file, open_new
    from sbformat.tools.bundle import unbundle

    _check_outputs(args)
    source = _files.read_archive(args.path, args)
    if not set(ENTRIES) & source.entries.keys():
        message = "expected a bundle, got an archive without statistics"
        raise UnsupportedError(message, hint="sbformat bundle puts them into it")
    archive, statistics = unbundle(source)
    data = writes_vecnormalize(statistics, target=args.target)
    with new_file(args.vecnormalize, overwrite=args.force) as temporary:
        with open_new(temporary) as file:
            write_all(file, data)
        _files.write_archive(archive, args.output, overwrite=args.force)
    return {
        "output": args.output,
        "statistics_output": args.vecnormalize,
        "vecnormalize": _describe_statistics(statistics),
    }


def _check_outputs(args: argparse.Namespace) -> None:
    """Check the paths of the outputs before anything is written."""
    for output in (args.output, args.vecnormalize):
        if output == _files.STANDARD_STREAM:
            raise UnsupportedError("-: two files are written, and standard output takes one: expected their names")
        _files.refuse_same_file(args.path, output)
        if not args.force and os.path.lexists(output):
            raise FileExistsError(17, ALREADY_EXISTS, output)
    if os.path.realpath(args.output) == os.path.realpath(args.vecnormalize):
        raise UnsupportedError("the archive and the statistics need different files")


# -- statistics ---------------------------------------------------------------------------------------


def _describe_statistics(value: VecNormalize) -> dict[str, Any]:
    """Return the settings and shapes of statistics."""
    found = value.obs_rms
    observations: dict[Any, Any] = {**found} if isinstance(found, dict) else {None: found}
    moments = [("obs_rms", key, part) for key, part in observations.items()] + [("ret_rms", None, value.ret_rms)]
    rows = [
        {"name": name, "key": key, "shape": list(part.shape), "count": part.count}
        for name, key, part in moments
        if part is not None
    ]
    keys = value.norm_obs_keys
    settings = {name: getattr(value, name) for name in _SETTINGS}
    return {**settings, "norm_obs_keys": keys if keys is None else list(keys), "statistics": rows}


def _print_statistics(printer: _output.Plain, found: dict[str, Any]) -> None:
    """Print the shapes of statistics, one a line."""
    for row in found["statistics"]:
        of = f" of {escape(row['key'])}" if row["key"] is not None else ""
        shape = " x ".join(map(str, row["shape"]))
        numbers = "one number" if shape in ("", "1") else f"{shape} numbers"
        printer.line(f"  {row['name']}{of}: {numbers}, of {row['count']:,.0f} samples")


def _print_bundle(printer: _output.Plain, report: dict[str, Any]) -> None:
    nbytes = sum(row["nbytes"] for row in report["entries"])
    printer.line(f"{escape(report['output'], 1000)}: with the statistics, {format_size(nbytes)}")
    _print_statistics(printer, report["vecnormalize"])


def _print_unbundle(printer: _output.Plain, report: dict[str, Any]) -> None:
    printer.line(f"{escape(report['output'], 1000)}: the archive")
    printer.line(
        f"{escape(report['statistics_output'], 1000)}: the statistics, without random generators and render modes"
    )
    _print_statistics(printer, report["vecnormalize"])
