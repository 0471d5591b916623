"""Run a decoder, and an encoder, over the conformance vectors (README.md). Standard library only.

python run.py --decoder "python harness/python/decode.py"
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE)]

from conformance.runner.checks import Commands, Result, apply_expectation, judge  # noqa: E402
from conformance.runner.commands import open_command  # noqa: E402
from conformance.runner.reports import is_success, print_json, print_text, write_junit  # noqa: E402
from conformance.runner.selection import print_features, print_vectors, select_vectors, write_vectors  # noqa: E402
from conformance.runner.vectors import list_lacking, read_features  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conformance.runner.vectors import Vector

RECURSION_LIMIT = 10_000
"""Values nest 200 deep, and each takes several levels of JSON."""


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of the command line."""
    parser = argparse.ArgumentParser(
        "run.py", description="Run a decoder, and an encoder, over the conformance vectors.", allow_abbrev=False
    )
    command: dict[str, Any] = {"type": shlex.split, "metavar": "COMMAND"}
    names: dict[str, Any] = {"action": "append", "default": [], "metavar": "NAME"}
    parser.add_argument("--decoder", help="reads an archive, prints tagged JSON", **command)
    parser.add_argument("--encoder", help="reads tagged JSON, writes an archive", **command)
    which = parser.add_argument_group("which vectors")
    which.add_argument("--only", default="", metavar="TEXT", help="only vectors with this in their names")
    which.add_argument("--feature", help="only vectors that need this feature; core: those that need none", **names)
    which.add_argument(
        "--level", type=int, choices=range(4), help="only vectors of this level of conformance and of those below it"
    )
    which.add_argument(
        "--section", action="append", default=[], metavar="N", help="only vectors of this section: 6, or 6.5"
    )
    which.add_argument(
        "--every", type=int, default=1, metavar="N", help="only one vector in N of those that the other options select"
    )
    which.add_argument("--skip-feature", help="skip vectors that need this feature", **names)
    which.add_argument(
        "--implementation", choices=read_features()["core"].implementations,
        help="skip vectors that need a feature that features.json does not list for this decoder of harness",
    )  # fmt: skip
    which.add_argument("--xfail", help="a vector that is expected to fail", **names)
    which.add_argument("--list", action="store_true", help="print the names of the selected vectors, and run none")
    which.add_argument("--list-features", action="store_true", help="print their features, and run none")
    which.add_argument("--write", metavar="FOLDER", help="write their files to a folder, and run none")
    how = parser.add_argument_group("how they are run")
    how.add_argument("--timeout", type=float, default=20, metavar="SECONDS", help="for one file (default: 20)")
    how.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="number of parallel commands")
    how.add_argument(
        "--batch", choices=("auto", "no"), default="auto",
        help="auto: one process for many files if the command supports it (default); no: one process for each file",
    )  # fmt: skip
    what = parser.add_argument_group("what is printed")
    what.add_argument("--totals", action="store_true", help="also print totals by feature and by section")
    what.add_argument("--format", choices=("text", "json"), default="text", help="of standard output (default: text)")
    what.add_argument("--junit", metavar="FILE", help="also write JUnit XML")
    return parser


def run_vectors(vectors: Sequence[Vector], options: argparse.Namespace) -> list[Result]:
    """Run the vectors in parallel; return their results in order."""
    opened = {
        kind: command and open_command(command, options.timeout, batch=options.batch, is_encoder=kind == "encoder")
        for kind, command in (("decoder", options.decoder), ("encoder", options.encoder))
    }
    lacking = list_lacking(options.implementation) if options.implementation else []
    commands = Commands(**opened, skipped_features=[*options.skip_feature, *lacking])
    try:
        with ThreadPoolExecutor(max(options.jobs, 1)) as pool:
            found = list(pool.map(lambda vector: judge(vector, commands), vectors))
    finally:
        commands.close()
    return [apply_expectation(result, options.xfail) for result in found]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the vectors; return 0 if all results were as expected."""
    sys.setrecursionlimit(RECURSION_LIMIT)
    parser = make_parser()
    options = parser.parse_args(arguments)
    vectors = select_vectors(parser, options)
    if options.list or options.list_features:
        (print_features if options.list_features else print_vectors)(vectors)
        return 0
    if options.write:
        write_vectors(parser, vectors, options.write)
        return 0
    if not options.decoder:
        parser.error("--decoder is required")
    results = run_vectors(vectors, options)
    if options.junit:
        write_junit(options.junit, results)
    if options.format == "json":
        print_json(results, {"decoder": options.decoder, "encoder": options.encoder})
    else:
        print_text(results, totals=options.totals)
    return 0 if is_success(results) else 1


if __name__ == "__main__":
    sys.exit(main())
