"""``sbformat convert`` and ``extract``: archives to safetensors and back, tensors to files that need no torch."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from sbformat.cli import _files, _output, _progress
from sbformat.cli import _options as opt
from sbformat.constants import PTH_SUFFIX
from sbformat.errors import SbformatError, UnsupportedError, escape
from sbformat.rendering import count_noun, format_size

if TYPE_CHECKING:
    import argparse

    from sbformat.archive.archive import Archive

_FORMATS: Final = ("zip", "safetensors", "pth")

CONVERT: Final = opt.Command(
    example="sbformat convert agent.zip -o agent.safetensors",
    description="Convert between archives (.zip), safetensors files that hold all of one, and .pth files. "
    "The suffixes select the formats; .npz and plain .safetensors become .pth.",
    options=(
        opt.option("path", "FILE", f"an archive in any form, a .safetensors or an .npz{opt.STDIN}"),
        opt.output_file(".zip, .safetensors or .pth"),
        opt.option("--entry", "NAME", "the state dict to write to a .pth: policy (default), ...", default="policy"),
        opt.option("--to", None, "the format of standard output, with -o -", choices=_FORMATS),
        opt.FORCE,
        opt.reading(),
    ),
)
EXTRACT: Final = opt.Command(
    example="sbformat extract agent.zip -o policy.safetensors",
    description="Write the tensors of a state dict to a .safetensors or .npz file, or to a folder of .npy files; the "
    "steps of a replay buffer to a table with a row for each, or as a dataset of Minari or d3rlpy.",
    options=(
        opt.option("path", "FILE", f"an archive or a .pth file{opt.STDIN}"),
        opt.output_file(
            "the suffix selects the format: .safetensors, .npz, or a folder of .npy; of a replay buffer also .csv and "
            ".parquet; -: .safetensors"
        ),
        opt.option(
            "--entry",
            "NAME",
            "policy (default), policy.optimizer, ..., statistics (of a bundle), or all",
            default="policy",
        ),
        opt.option(
            "--tensors",
            "NAME,NAME",
            "only tensors of these names or patterns (*.weight, actor.*); repeatable",
            action="append",
        ),
        opt.option(
            "--dataset",
            None,
            "of a replay buffer: a folder for Minari, or an .h5 file for d3rlpy (extra dataset)",
            choices=("minari", "d3rlpy"),
        ),
        opt.FORCE,
        opt.reading(),
    ),
)


def run_convert(args: argparse.Namespace) -> int:
    """Convert; return 2 when it failed."""
    if (args.output == _files.STANDARD_STREAM) != (args.to is not None):
        raise opt.UsageError(f"--to: expected it with the output -, and only then: one of {', '.join(_FORMATS)}")
    return _output.run_one(args, lambda: _convert(args), _output.Form(_print_convert), args.output)


def _convert(args: argparse.Namespace) -> dict[str, Any]:
    from sbformat.tools.convert import convert

    _files.require_suffix("convert", args.output)
    _files.refuse_same_file(args.path, args.output)
    source = _files.read_in_place(args.path, args)
    with (
        _files.open_output(args.output, f".{args.to}") as output,
        _progress.count_bytes("converting", _count_converted(source, output, args.entry)) as advance,
    ):
        report = convert(source, output, entry=args.entry, overwrite=args.force, progress=advance)
    return {**report._asdict(), "output": args.output}


def _count_converted(archive: Archive, output: str, entry: str) -> int:
    """Return the bytes that the conversion counts: of a safetensors file, tensors are read before they are written."""
    total = sum(member.size for member in archive.entries.values())
    suffix = os.path.splitext(output)[1].lower()
    if suffix == PTH_SUFFIX:
        name = entry if entry.endswith(PTH_SUFFIX) else f"{entry}{PTH_SUFFIX}"
        return archive.entries[name].size if name in archive.entries else total
    return 2 * total if suffix == ".safetensors" else total


def _print_convert(printer: _output.Plain, report: dict[str, Any]) -> None:
    count = len(report["entries"])
    parts = [count_noun(count, "entry", "entries")] if count else []
    parts += [count_noun(report["tensors"], "tensor"), format_size(report["nbytes"])]
    printer.line(f"{escape(report['output'], 1000)}: {', '.join(parts)}")
    for name in report["as_bytes"]:
        printer.line(f"  {escape(name)} is stored as bytes: it is neither text nor tensors")


def run_extract(args: argparse.Namespace) -> int:
    """Extract tensors; return 2 when it failed."""

    def print_text(printer: _output.Plain, report: dict[str, Any]) -> None:
        noun = "tensor" if report["format"] in ("safetensors", "npz", "npy-folder") else "column"
        count, size = count_noun(len(report["tensors"]), noun), format_size(report["nbytes"])
        printer.line(f"{escape(report['output'], 1000)}: {count}, {size}")
        if report["left_behind"] and not args.tensors:
            others = "values that are not tensors (learning rates, step counts)"
            printer.line(f"  not written: {report['left_behind']} {others}")

    return _output.run_one(args, lambda: _extract(args), _output.Form(print_text), args.output)


def _extract(args: argparse.Namespace) -> dict[str, Any]:
    from sbformat.tools.extract import extract

    if args.output.lower().endswith(".pt"):
        path, output = escape(args.path, 1000), escape(args.output, 1000)
        hint = f"sbformat convert {path} -o {output}h writes a file for torch.load"
        raise _files.OtherFileError(args.output) from UnsupportedError("sbformat does not write .pt files", hint=hint)
    _files.require_suffix("extract", args.output)
    _files.refuse_same_file(args.path, args.output)
    archive = _files.read_in_place(args.path, args, on_unknown="inert")
    with (
        _files.open_output(args.output, ".safetensors") as output,
        _progress.count_bytes("extracting", _count_extracted(archive, args.entry)) as advance,
    ):
        report = extract(
            archive,
            output,
            entry=args.entry,
            tensors=args.tensors or "*",
            dataset=args.dataset,
            overwrite=args.force,
            progress=advance,
        )
    return {**report._asdict(), "output": args.output}


def _count_extracted(archive: Archive, entry: str) -> int:
    """Return the bytes of all tensors of the entry; 0 if they cannot be counted."""
    try:
        names = archive.state_dicts if entry == "all" else (archive.find_state_dict(entry),)
        states = [archive.state_dict(name) for name in names]
        return sum(getattr(info, "nbytes", 0) for state in states for info in state.tensors().values())
    except SbformatError:
        return 0
