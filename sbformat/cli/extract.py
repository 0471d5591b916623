"""``sbformat extract``: write tensors to files that need no torch."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from sbformat.cli import _files, _output, _progress, _streams
from sbformat.cli._hints import require_suffix
from sbformat.errors import escape

if TYPE_CHECKING:
    import argparse


def configure(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "extract",
        example="sbformat extract agent.zip -o policy.safetensors",
        help="write tensors to .safetensors, .npz or .npy files",
        description="Write the tensors of a state dict to a .safetensors or .npz file, or to a folder of .npy files.",
    )
    parser.add_argument("path", metavar="FILE", help="an archive or a .pth file")
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="OUT",
        help="the suffix selects the format: .safetensors, .npz, or a folder of .npy; -: .safetensors",
    )
    parser.add_argument(
        "--entry",
        default="policy",
        metavar="NAME",
        help="policy (default), policy.optimizer, ..., statistics (of a bundle), or all",
    )
    parser.add_argument(
        "--tensors",
        action="append",
        metavar="NAME",
        help="only tensors of this name or pattern (*.weight); repeatable",
    )
    parser.add_argument("--force", action="store_true", help="overwrite OUT")
    _files.add_reading_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Extract tensors; return 2 when it failed."""

    def work() -> dict[str, Any]:
        from sbformat.tools.extract import extract

        require_suffix("extract", args.output)
        _files.refuse_same_file(args.path, args.output)
        archive = _files.read_in_place(args.path, args, on_unknown="inert")
        with (
            _streams.open_output(args.output, ".safetensors") as output,
            _progress.count_bytes("extracting", _count_bytes(archive, args.entry)) as advance,
        ):
            report = extract(
                archive,
                output,
                entry=args.entry,
                tensors=args.tensors or "*",
                overwrite=args.force,
                progress=advance,
            )
        return {**report._asdict(), "output": args.output}

    report = _files.report_errors(args.path, work, outputs=[args.output])
    _output.print_report(args, report, partial(_print_text, counts_others=not args.tensors))
    return _files.EXIT_FINE if report["outcome"] == "ok" else _files.EXIT_COULD_NOT


def _count_bytes(archive: Any, entry: str) -> int:
    """Return the bytes of all tensors of the entry, for the progress bar."""
    from sbformat.errors import SbformatError

    try:
        names = archive.state_dicts if entry == "all" else (archive.find_state_dict(entry),)
        states = [archive.state_dict(name) for name in names]
        return sum(getattr(info, "nbytes", 0) for state in states for info in state.tensors().values())
    except SbformatError:
        return 0


def _print_text(printer: _output.Plain, report: dict[str, Any], *, counts_others: bool) -> None:
    count = len(report["tensors"])
    size = _output.format_size(report["nbytes"])
    printer.line(f"{escape(report['output'], 1000)}: {_output.count_noun(count, 'tensor')}, {size}")
    if report["left_behind"] and counts_others:
        printer.line(
            f"  not written: {report['left_behind']} values that are not tensors (learning rates, step counts)"
        )
