"""``sbformat report``: a page of HTML to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sbformat.cli import _files, _output
from sbformat.errors import escape

if TYPE_CHECKING:
    import argparse

    from sbformat.html_report.collect import FileData


def configure(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "report",
        example="sbformat report agent.zip -o agent.html",
        help="write a page of HTML about archives (extra report)",
        description="Write one page of HTML, to look at in a browser: about one file, a comparison of two, or a table "
        "of more to sort and filter. The page loads nothing from elsewhere. Exit status 1 when a file or an entry is "
        "broken: the page shows it with the reason.",
    )
    parser.add_argument("paths", nargs="+", metavar="FILE", help="archives, .pth and .pkl files, or folders of them")
    parser.add_argument("-o", "--output", required=True, metavar="OUT", help="the page, .html")
    parser.add_argument("--title", metavar="TEXT", help="the title of the page")
    parser.add_argument(
        "--allow", action="append", default=[], metavar="NAME", help="treat a name as known; repeatable"
    )
    parser.add_argument("--force", action="store_true", help="overwrite OUT")
    _files.add_common_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the page; 1 when a file or an entry is broken, 2 when there is no page."""
    paths = list(_files.expand_paths(args.paths))
    outcome = _files.report_errors(args.output, lambda: write_page(paths, args))
    _output.print_report(args, outcome, _print_text)
    if outcome["outcome"] != "ok":
        return _files.EXIT_COULD_NOT
    return _files.EXIT_FINDINGS if outcome["broken"] else _files.EXIT_FINE


def write_page(paths: list[str], args: argparse.Namespace) -> dict[str, Any]:
    """Collect the files, write the page, and return what the command reports."""
    from sbformat.html_report.page import require_packages
    from sbformat.html_report.report import require_opened, write_report

    require_packages()
    for path in paths:
        _files.refuse_same_file(path, args.output)
    found = list(collect_files(paths, args))
    require_opened(found)
    written = write_report(found, args.output, title=args.title, overwrite=args.force)
    return {
        "nbytes": written.nbytes,
        "files": list(written.files),
        "broken": list(written.broken),
    }


def collect_files(paths: list[str], args: argparse.Namespace) -> list[FileData]:
    """Read, inspect and scan each file."""
    from sbformat.html_report.collect import collect_file

    found = []
    with _output.progress("reading", len(paths)) as advance:
        for path in paths:
            found.append(collect_file(path, limits=_files.make_limits(args), allow=args.allow))
            advance(path)
    return found


def _print_text(printer: _output.Plain, report: dict[str, Any]) -> None:
    count = _output.count_noun(len(report["files"]), "file")
    printer.line(f"{escape(report['path'], 1000)}: a page about {count}")
    for name in report["broken"]:
        printer.line(f"  broken: {escape(name, 1000)}")
