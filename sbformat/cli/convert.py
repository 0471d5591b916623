"""``sbformat convert``: archives to safetensors and back, arrays to ``.pth``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from sbformat.cli import _files, _output, _progress, _streams
from sbformat.cli._hints import require_suffix
from sbformat.constants import PTH_SUFFIX
from sbformat.errors import escape

if TYPE_CHECKING:
    import argparse

    from sbformat.archive.archive import Archive

_FORMATS: Final = ("zip", "safetensors", "pth")


def configure(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "convert",
        example="sbformat convert agent.zip -o agent.safetensors",
        help="convert archives to safetensors and back, arrays to .pth",
        description="Convert between archives (.zip), safetensors files that hold all of one, and .pth files. "
        "The suffixes select the formats; .npz and plain .safetensors become .pth.",
    )
    parser.add_argument("path", metavar="FILE", help="an archive in any form, a .safetensors or an .npz")
    parser.add_argument("-o", "--output", required=True, metavar="OUT", help=".zip, .safetensors or .pth")
    parser.add_argument(
        "--entry", default="policy", metavar="NAME", help="the state dict to write to a .pth: policy (default), ..."
    )
    parser.add_argument("--to", choices=_FORMATS, help="the format of standard output, with -o -")
    parser.add_argument("--force", action="store_true", help="overwrite OUT")
    _files.add_reading_options(parser)
    parser.set_defaults(run=run, refuse=parser.error)


def run(args: argparse.Namespace) -> int:
    """Convert; return 2 when it failed."""

    def work() -> dict[str, Any]:
        from sbformat.tools.convert import convert

        require_suffix("convert", args.output)
        _files.refuse_same_file(args.path, args.output)
        source = _files.read_in_place(args.path, args)
        with (
            _streams.open_output(args.output, f".{args.to}") as output,
            _progress.count_bytes("converting", _count_bytes(source, output, args.entry)) as advance,
        ):
            report = convert(source, output, entry=args.entry, overwrite=args.force, progress=advance)
        return {**report._asdict(), "output": args.output}

    if (args.output == _streams.STANDARD_STREAM) != (args.to is not None):
        args.refuse(f"--to: expected it with the output -, and only then: one of {', '.join(_FORMATS)}")
    report = _files.report_errors(args.path, work, outputs=[args.output])
    _output.print_report(args, report, _print_text)
    return _files.EXIT_FINE if report["outcome"] == "ok" else _files.EXIT_COULD_NOT


def _count_bytes(source: Archive, output: str, entry: str) -> int:
    """Return the bytes that the conversion counts: of a safetensors file, tensors are read before they are written."""
    sizes = {name: member.size for name, member in source.entries.items()}
    suffix = os.path.splitext(output)[1].lower()
    if suffix == ".safetensors":
        return 2 * sum(sizes.values())
    name = entry if entry.endswith(PTH_SUFFIX) else f"{entry}{PTH_SUFFIX}"
    return sizes.get(name, sum(sizes.values())) if suffix == PTH_SUFFIX else sum(sizes.values())


def _print_text(printer: _output.Plain, report: dict[str, Any]) -> None:
    count = len(report["entries"])
    parts = [_output.count_noun(count, "entry", "entries")] if count else []
    parts += [
        _output.count_noun(report["tensors"], "tensor"),
        _output.format_size(report["nbytes"]),
    ]
    printer.line(f"{escape(report['output'], 1000)}: {', '.join(parts)}")
    for name in report["as_bytes"]:
        printer.line(f"  {escape(name)} is stored as bytes: it is neither text nor tensors")
