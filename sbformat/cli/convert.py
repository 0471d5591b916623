"""``sbformat convert``: archives to safetensors and back, arrays to ``.pth``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sbformat.cli import _files, _output
from sbformat.errors import escape

if TYPE_CHECKING:
    import argparse


def configure(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "convert",
        help="convert archives to safetensors and back, arrays to .pth",
        description="Convert between archives (.zip), safetensors files that hold all of one, and .pth files. "
        "The suffixes tell the formats; .npz and plain .safetensors become .pth.",
    )
    parser.add_argument("path", metavar="FILE", help="an archive in any form, a .safetensors or an .npz")
    parser.add_argument("-o", "--output", required=True, metavar="OUT", help=".zip, .safetensors or .pth")
    parser.add_argument("--entry", default="policy", metavar="NAME", help="what a .pth gets: policy (default), ...")
    parser.add_argument("--force", action="store_true", help="overwrite what is there")
    _files.add_reading_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Convert; 2 when it could not."""

    def work() -> dict[str, Any]:
        from sbformat.tools.convert import convert

        _files.refuse_same(args.path, args.output)
        source = _files.read_in_place(args.path, args)
        total = sum(entry.size for entry in source.entries.values())
        with _output.bytes_progress("converting", total) as advance:
            return convert(source, args.output, entry=args.entry, overwrite=args.force, progress=advance)._asdict()

    report = _files.guarded(args.path, work)
    _output.show(args, report, _print_text)
    return _files.EXIT_FINE if report["outcome"] == "ok" else _files.EXIT_COULD_NOT


def _print_text(printer: _output.Plain, report: dict[str, Any]) -> None:
    count = len(report["entries"])
    parts = [f"{count} entr{'y' if count == 1 else 'ies'}"] if count else []
    parts += [f"{report['tensors']} tensor{'' if report['tensors'] == 1 else 's'}", _output.size(report["nbytes"])]
    printer.line(f"{escape(report['output'], 1000)}: {', '.join(parts)}")
    for name in report["as_bytes"]:
        printer.line(f"  {escape(name)} is held as its bytes: it is no text, and has no form as tensors")
