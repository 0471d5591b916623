"""What the commands that run an agent share: their options, warnings, and where output goes."""

from __future__ import annotations

import argparse
import contextlib
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sbformat.cli import _files, _output, _streams
from sbformat.errors import DataError, UnsupportedError, escape
from sbformat.io.opening import is_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sbformat.archive.archive import Archive
    from sbformat.cli._output import Plain
    from sbformat.formats.vecnormalize import VecNormalize
    from sbformat.policies.run.policy import Policy


_NO_STATISTICS: Final = "none"
_POLICY_KWARGS: Final = "--policy-kwargs"
_OBSERVATION: Final = "--observation"
"""The option that can be JSON from standard input."""


def add_statistics_option(parser: argparse.ArgumentParser) -> None:
    """Add the option for statistics of VecNormalize."""
    parser.add_argument(
        "--vecnormalize",
        metavar="STATS",
        help="the statistics it was trained with, by default those of a bundle; "
        "none: observations are normalized already",
    )


def add_class_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for what a policy of custom classes is treated as."""
    parser.add_argument(
        "--policy-class", metavar="NAME", help="the class of SB3 that a custom policy class extends: ActorCriticPolicy"
    )
    parser.add_argument(
        _POLICY_KWARGS,
        metavar="JSON",
        help="arguments of the policy that the file lacks, or whose class is not known: "
        '\'{"features_extractor_class": "FlattenExtractor"}\'',
    )


def add_policy_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands that run an agent."""
    add_statistics_option(parser)
    parser.add_argument("--seed", type=partial(parse_number, least=0), metavar="N", help="of the random numbers")


def parse_number(text: str, *, least: int = 1) -> int:
    """Return the number of an option.

    :raises argparse.ArgumentTypeError: when it is not one
    """
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        message = f"expected a number of at least {least}, got {escape(text)}"
        raise argparse.ArgumentTypeError(message)
    return number


def read_statistics(args: argparse.Namespace) -> VecNormalize | bool | None:
    """Return the statistics of a command line, as ``load_policy`` takes them.

    :raises OtherFileError: if they cannot be read
    """
    path: str | None = args.vecnormalize
    if path is None or path == _NO_STATISTICS:
        return None if path is None else False
    from sbformat.policies.loading import read_given_statistics

    limits = _files.make_limits(args)
    return _files.name_in_errors(path, lambda: read_given_statistics(_streams.open_input(path, limits), limits))


def open_agent(
    args: argparse.Namespace, *, statistics: VecNormalize | bool | None
) -> tuple[Archive, VecNormalize | bool | None]:
    """Open the agent of a command line; of a folder the one to prefer, with its statistics unless some are given.

    :param statistics: those of the command line
    """
    limits = _files.make_limits(args)
    chosen = None
    if is_folder(args.path):
        from sbformat.folders import find_in_folder

        chosen = find_in_folder(args.path, limits)
    if chosen is None:
        return _files.read_archive(args.path, args), statistics
    args.chosen = chosen
    _output.warn(f"{escape(_streams.name_input(args.path), 1000)}: {chosen.remark}")
    if statistics is None and chosen.problem:
        raise UnsupportedError(chosen.problem)
    if statistics is None and chosen.warning:
        warnings.warn(chosen.warning, UserWarning, stacklevel=2)
    if statistics is None and chosen.statistics is not None:
        from sbformat.policies.loading import read_given_statistics

        path = chosen.statistics
        statistics = _files.name_in_errors(path, lambda: read_given_statistics(path, limits))
    elif statistics is None and chosen.is_normalized:
        from sbformat.policies.loading import NOT_NORMALIZED

        warnings.warn(NOT_NORMALIZED, UserWarning, stacklevel=2)
    return _files.name_in_errors(chosen.path, lambda: _files.read_archive(chosen.path, args)), statistics


def load_agent(args: argparse.Namespace, *, statistics: VecNormalize | bool | None, seed: int | None = None) -> Policy:
    """Load the agent of a command line."""
    from sbformat.policies.loading import load_policy

    archive, statistics = open_agent(args, statistics=statistics)
    return load_policy(
        archive,
        vecnormalize=statistics,
        policy_class=args.policy_class,
        policy_kwargs=parse_object(args.policy_kwargs, _POLICY_KWARGS, args) if args.policy_kwargs else None,
        seed=seed,
        limits=_files.make_limits(args),
    )


def parse_object(text: str, option: str, args: argparse.Namespace) -> dict[str, Any]:
    """Parse a JSON object of the command line.

    :param option: which has it
    :raises OtherFileError: when it is something else
    """
    found = parse_json(text.encode("utf-8", "surrogatepass"), option, args)
    if not isinstance(found, dict):
        message = "expected a JSON object"
        raise _files.OtherFileError(option) from DataError(message)
    return found


def parse_json(data: bytes, what: str, args: argparse.Namespace) -> Any:
    """Parse JSON of the command line, strictly.

    :param what: the option, which the report of an error blames; ``-`` for standard input
    :raises OtherFileError: when it is not JSON
    """
    from sbformat.data import parse
    from sbformat.errors import SbformatError
    from sbformat.limits import Budget

    try:
        return parse(data, Budget(_files.make_limits(args)))
    except SbformatError as error:
        from sbformat.cli._hints import explain_json

        option = _OBSERVATION if what == _streams.STANDARD_STREAM else what
        error.message += explain_json(option, data.decode("utf-8", "replace"))
        raise _files.OtherFileError(what) from error


@contextlib.contextmanager
def collect_warnings() -> Iterator[list[str]]:
    """Collect the texts of warnings for users, each once; those for developers are left out."""
    found: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        yield found
    found += dict.fromkeys(str(warning.message) for warning in caught)


def finish_run(
    args: argparse.Namespace,
    report: dict[str, Any],
    print_text: Callable[[Plain, dict[str, Any]], None],
    warned: Sequence[str],
    *,
    list_columns: Callable[[dict[str, Any]], Sequence[str]] | None = None,
    list_rows: Callable[[dict[str, Any]], list[dict[str, Any]]] | None = None,
) -> int:
    """Print the report of a command that runs an agent, and return the exit status.

    Standard output has only what a program after this one in a pipe reads: warnings and errors go to standard error.

    :param list_columns: returns the header of CSV for a report, also for that of an error
    :param list_rows: returns the rows of CSV for a report
    """
    for text in warned:
        _output.warn(f"warning: {escape(text, 1000)}")
    if args.format == "json" and report["outcome"] == "ok":
        chosen = getattr(args, "chosen", None)
        files = None if chosen is None else {"agent": chosen.path, "vecnormalize": chosen.statistics}
        report = {**report, "chosen": files, "warnings": list(warned)}
    if args.format == "csv" and list_columns is not None and list_rows is not None:
        from sbformat.cli import _csv

        _csv.print_report(report, list_columns(report), list_rows)
    else:
        _output.print_report(args, report, print_text)
    return _files.EXIT_FINE if report["outcome"] == "ok" else _files.EXIT_COULD_NOT
