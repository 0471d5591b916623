"""The options of the command line: those that commands share, the texts of their values, and what they say of output.

A command is described by a :class:`Command`: its options, in the order of its help, with the groups that it shares with
others. Values of options that are wrong are ``argparse.ArgumentTypeError``; options that do not go together are a
:class:`UsageError`, which becomes the usage and the message of the command. Options that a command line leaves out get
the values of environment variables, then those of ``_DEFAULTS``: see :func:`complete_options`.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sbformat.errors import UnsupportedError, escape
from sbformat.immutable import Record
from sbformat.io.patterns import Exclusion
from sbformat.io.urls import TIMEOUT
from sbformat.limits import Limits
from sbformat.parallel import WORKER_TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

_DEPTHS: Final = ("json_depth", "value_depth")
_DEEPEST: Final = 200
_BYTES: Final = "_bytes"  # the end of the names of limits that are sizes
_LONGEST_TIMEOUT: Final = 1_000_000  # seconds
_SIZE: Final = r"(?i)(\d{1,18}(?:\.\d{1,9})?)\s*(?:([kmgt])(i?))?(b?)"
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_ADVICE: Final = r"pass limits=Limits\(([\w=., ]+)\)"
_TENSORS: Final = r"pass tensors='([^']+)'"
_EITHER: Final = r"\b\w+=True or (?=--\w)"  # an argument of Python, before the option that is the same
_MOST_JOBS: Final = 1024
_COLORS: Final = ("auto", "always", "never")
_DEFAULTS: Final = {"color": "auto", "format": "text", "timeout": TIMEOUT, "worker_timeout": WORKER_TIMEOUT}
"""Values of options that neither the command line nor a variable gives; ``format`` may be that of the output."""
_DIGITS: Final = 18


class UsageError(Exception):
    """Options that do not go together; the message is for the user of the command line.

    :param hint: what to do next
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message}\n{hint}" if hint else message)


class Option(Record):
    """An option or a positional argument: its names, and what ``add_argument`` takes beside them."""

    names: tuple[str, ...]
    settings: dict[str, Any]


class OneOf(Record):
    """Options of which one may be given."""

    options: tuple[Option, ...]
    is_required: bool


class Shared(Record):
    """Options that several commands have. The help of a command has them in one group, after the command's own."""

    options: Options


Options: TypeAlias = "tuple[Option | OneOf | Shared | Options, ...]"
"""Options, or groups of them."""


class Command(Record):
    """A command without its name and the line about it, which the table of all commands has."""

    example: str
    description: str
    options: Options


def option(names: str, metavar: str | None, text: str, **settings: Any) -> Option:
    """Describe an option with a value, or a positional argument.

    :param names: separated by spaces: ``-o --output``
    :param metavar: what the help calls the value; None for choices
    :param text: its help
    """
    return Option(tuple(names.split()), {"metavar": metavar, "help": text, **settings})


class JsonText(str):
    """The value of an option that is JSON, or after ``@`` the name of the file with it."""

    __slots__ = ()


def json_option(name: str, text: str, **settings: Any) -> Option:
    """Describe an option whose value is JSON or ``@FILE``."""
    return option(name, "JSON", text, type=JsonText, **settings)


def flag(names: str, text: str) -> Option:
    """Describe an option without a value."""
    return Option(tuple(names.split()), {"action": "store_true", "help": text})


def repeated(name: str, metavar: str, text: str, **settings: Any) -> Option:
    """Describe an option that can be given several times, whose values are a list."""
    return option(name, metavar, text, **{"action": "append", "default": [], **settings})


def output_file(text: str) -> Option:
    """Describe the option for the file to write."""
    return option("-o --output", "OUT", text, required=True)


def one_of(*options: Option, is_required: bool = False) -> OneOf:
    """Describe options of which one may be given."""
    return OneOf(options, is_required)


def add_options(parser: argparse.ArgumentParser, options: Iterable[Any]) -> None:
    """Add the options of a command to its parser: its own, then those that it shares with other commands."""
    options = list(options)
    _add_all(parser, [one for one in options if not isinstance(one, Shared)])
    shared = [one.options for one in options if isinstance(one, Shared)]
    if shared:
        _add_all(parser.add_argument_group("shared options"), shared)


def _add_all(parser: Any, options: Iterable[Any]) -> None:
    """Add options and groups of them to a parser, or to a group of it."""
    for one in options:
        if isinstance(one, Option):
            parser.add_argument(*one.names, **one.settings)
        elif isinstance(one, OneOf):
            _add_all(parser.add_mutually_exclusive_group(required=one.is_required), one.options)
        else:
            _add_all(parser, one)


# -- values -------------------------------------------------------------------------------------------


def parse_limit(text: str) -> tuple[str, int]:
    """Return the name and the value of a limit.

    >>> parse_limit("json_bytes=1.5KiB")
    ('json_bytes', 1536)
    """
    name, _, value = text.partition("=")
    name = name.strip().replace("-", "_")
    if name not in Limits._fields:
        from sbformat.cli import find_nearest

        close = find_nearest(name, Limits._fields)
        hint = f"did you mean {close}?" if close else "sbformat help limits lists them"
        raise argparse.ArgumentTypeError(f"unknown limit {escape(name)}\n{hint}")
    number = _parse_size(name, value.strip())
    if name in _DEPTHS and number > _DEEPEST:
        raise argparse.ArgumentTypeError(f"{name} can be at most {_DEEPEST}: reports are not nested deeper")
    return name, number


def _parse_size(name: str, value: str) -> int:
    """Return a number with its unit: of 1000 (``64MB``, ``2M``) or of 1024 (``1GiB``)."""
    found = re.fullmatch(_SIZE, value.replace("_", ""))
    is_size = name.endswith(_BYTES)
    message = f"{name}: expected a whole number, got {escape(value)}"
    if found is None:
        what = "a size such as 500_000, 64MB or 1GiB" if is_size else "a whole number such as 500_000"
        raise argparse.ArgumentTypeError(f"{name}: expected {what}, got {escape(value) or 'nothing'}")
    digits, prefix, binary, unit = found.groups("")
    if unit and not is_size:
        message = f"{name} is a number of items, not of bytes: expected a whole number, got {escape(value)}"
        raise argparse.ArgumentTypeError(message)
    whole, _, fraction = digits.partition(".")
    unit_size: int = (1024 if binary else 1000) ** _POWERS[prefix.lower()]
    scale: int = 10 ** len(fraction)
    number, rest = divmod(int(whole + fraction) * unit_size, scale)
    if rest:
        raise argparse.ArgumentTypeError(message)
    return number


def parse_seconds(text: str) -> float:
    """Return a time of an option, in seconds."""
    if not re.fullmatch(r"(?a)\d{1,7}(\.\d{1,9})?", text) or not 0 < float(text) <= _LONGEST_TIMEOUT:
        raise argparse.ArgumentTypeError(f"expected seconds, such as 30 or 0.5, got {escape(text)}")
    return float(text)


def parse_number(text: str, *, least: int = 1) -> int:
    """Return the number of an option."""
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise argparse.ArgumentTypeError(f"expected a number of at least {least}, got {escape(text)}")
    return number


def parse_count(text: str, *, most: int | None = None) -> int:
    """Return the number of an option, from 1."""
    if not text.isdecimal() or len(text) > _DIGITS or not 1 <= int(text) <= (most or int(text)):
        extent = "from 1" if most is None else f"from 1 to {most}"
        raise argparse.ArgumentTypeError(f"expected a number {extent}, got {escape(text)}")
    return int(text)


def parse_jobs(text: str) -> int:
    """Return the number of processes."""
    return parse_count(text, most=_MOST_JOBS)


def parse_color(text: str) -> str:
    """Return when to write colours."""
    if text not in _COLORS:
        raise argparse.ArgumentTypeError(f"expected {', '.join(_COLORS[:-1])} or {_COLORS[-1]}, got {escape(text)}")
    return text


def parse_switch(text: str) -> bool:
    """Return whether a variable switches an option on."""
    if text not in ("0", "1"):
        raise argparse.ArgumentTypeError(f"expected 1 or 0, got {escape(text)}")
    return text == "1"


def parse_tolerance(text: str) -> float:
    """Return the number of ``--rtol`` or ``--atol``."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number >= 0):
        raise argparse.ArgumentTypeError(f"expected a finite number of 0 or more, got {escape(text)}")
    return number


def parse_columns(text: str) -> list[str]:
    """Return the names of columns of an option."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise argparse.ArgumentTypeError(f"expected names of columns, got {escape(text)}")
    return names


def parse_glob(text: str) -> str:
    """Return a pattern of names or paths to leave out."""
    try:
        Exclusion([text])
    except ValueError as error:
        raise argparse.ArgumentTypeError(escape(str(error))) from None
    return text


def parse_pair(text: str, *, form: str, type_: type[str] = str) -> tuple[str, str]:
    """Return the two parts of an option's value that ``=`` separates.

    :param form: what the help calls the value: ``KEY=JSON``
    :param type_: of the second part
    """
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise argparse.ArgumentTypeError(f"expected {form}, got {escape(text)}")
    return key, type_(value)


def collect_pairs(option: str, pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the pairs of an option that can be given several times, with one value for each name."""
    made: dict[str, str] = {}
    for name, value in pairs:
        if made.setdefault(name, value) != value:
            first, second = (escape(f"{option} {name}={one}") for one in (made[name], value))
            raise UnsupportedError(
                f"{first} and {second} contradict each other: give one of them", hint="give one of them"
            )
    return made


def name_option(message: str) -> str:
    """Return the message of an error with options of the command line alone, without the arguments of Python.

    >>> name_option("pass limits=Limits(ratio=...); overwrite=True or --force replaces it")
    'pass --limit ratio=VALUE; --force replaces it'
    """
    message = re.sub(_TENSORS, r'pass --tensors "\1"', message)
    return re.sub(_EITHER, "", re.sub(_ADVICE, _name_options, message))


def _name_options(found: re.Match[str]) -> str:
    options = found[1].replace("...", "VALUE").split(", ")
    return " ".join(["pass", *(f"--limit {option}" for option in options)])


# -- options that commands share ----------------------------------------------------------------------

STDIN: Final = "; - is standard input"
"""The end of the help of each argument that can be that."""
FILES: Final = option(
    "paths",
    "FILE",
    f"archives, .pth and .pkl files, folders of them, or patterns in quotes ('runs/**/*.zip'){STDIN}",
    nargs="+",
)
AGENT: Final = option("path", "FILE", f"an agent, or a folder with one and its statistics{STDIN}")
ALLOW: Final = repeated("--allow", "NAME", "treat a dotted name as known; repeatable")
FORCE: Final = flag("--force", "overwrite OUT")
MANY: Final = Shared(
    (
        repeated(
            "--exclude",
            "GLOB",
            "leave out what matches in folders, by its name (*.tmp, old/) or its path below the folder (runs/*/old); "
            "repeatable",
            type=parse_glob,
        ),
        one_of(
            option(
                "--jobs",
                "N",
                "processes for many files; one for each processor by default",
                type=parse_jobs,
            ),
            option(
                "--dask",
                "ADDRESS",
                "let the workers of a Dask scheduler do the work, or 'local': some on this machine (extra dask)",
            ),
        ),
        option(
            "--worker-timeout",
            "SECONDS",
            f"with --dask, end when there has been no worker for so long (default: {WORKER_TIMEOUT:g})",
            type=parse_seconds,
        ),
    )
)
"""Options of commands that work on many files."""
REPORT: Final[Options] = (
    option(
        "-o --output",
        "OUT",
        "the file for the report, or - for standard output; without --format its suffix selects the format: .json, ...",
        dest="report_output",
    ),
    FORCE,
)
"""Options of every command that prints a report; those of commands that write something else are ``args.output``."""
_COMMON: Final[Options] = (
    one_of(
        flag("-q --quiet", "only results, findings and errors"),
        flag("-v --verbose", "also what was read, and long texts in full"),
    ),
    option("--color", None, "auto (default): in a terminal", choices=_COLORS),
    repeated(
        "--limit",
        "NAME=VALUE",
        "change a limit: json_bytes=128MB; sbformat help limits lists them; repeatable",
        type=parse_limit,
    ),
    flag("--private-redirects", "of URLs: follow redirects to private addresses, and from https to http"),
    option(
        "--timeout",
        "SECONDS",
        f"of URLs: how long a server may send nothing, or too little (default: {TIMEOUT:g})",
        type=parse_seconds,
    ),
)


TABLES: Final = ("csv", "markdown", "latex")
"""Output formats of a report that is a table."""
_TITLES: Final = {"csv": "CSV", "markdown": "Markdown", "latex": "LaTeX", "sarif": "SARIF"}


def common(*formats: str) -> Shared:
    """Return the options of every command.

    :param formats: output formats besides text and JSON
    """
    words = ("text for people (default)", "JSON", *(_TITLES[word] for word in formats))
    text = f"{', '.join(words[:-1])} or {words[-1]}"
    return Shared((option("--format", None, text, choices=("text", "json", *formats)), *_COMMON))


def reading(*formats: str) -> Shared:
    """Return the options of every command that reads archives; see :func:`common`."""
    crc = flag("--unchecked-crc", "also read a .pth that torch saved without CRCs")
    return Shared((*common(*formats).options, crc))


def make_target() -> Option:
    """Return the option for the release of SB3 to write for, which imports the table of releases."""
    from sbformat.known.changes import NEWEST, RELEASES

    text = f"SB3 {min(RELEASES)} to {NEWEST} (default {NEWEST})"
    return option("--target", "RELEASE", text, default=str(NEWEST))


def assignments(text: str) -> Option:
    """Return the option ``--set``, whose values ``_json.parse_assignments`` returns."""
    return repeated("--set", "KEY=JSON", text, type=partial(parse_pair, form="KEY=JSON", type_=JsonText))


# -- options that the command line leaves out ---------------------------------------------------------

PREFIX: Final = "SBFORMAT_"
VARIABLES: Final[dict[str, Callable[[str], Any]]] = {
    "jobs": parse_jobs,
    "worker_timeout": parse_seconds,
    "timeout": parse_seconds,
    "color": parse_color,
    "quiet": parse_switch,
    "verbose": parse_switch,
}
"""The options that have a variable, ``SBFORMAT_JOBS``, and what parses its value. Every limit has one, too."""
_ALIKE: Final = 0.75  # of the letters of two names, so that one may be the other misspelled
_INSTEAD: Final = {"jobs": "dask", "quiet": "verbose", "verbose": "quiet"}
"""Options that exclude each other: one that is given replaces the variable of the other."""
LIMIT_PREFIX: Final = f"{PREFIX}LIMIT_"
_FORMATS: Final = {
    ".json": "json", ".jsonl": "jsonl", ".csv": "csv", ".sarif": "sarif", ".md": "markdown", ".tex": "latex",
}  # fmt: skip
"""The format of a report by the suffix of its file."""
_TEXT: Final = ("", ".txt", ".log", ".text")
"""The suffixes of files with text; any other could be a mistake for one of a format."""


def is_report_name(path: str) -> bool:
    """Return whether a file has the suffix of a report."""
    return os.path.splitext(path)[1].lower() in (*_FORMATS, *_TEXT[1:])


def complete_options(args: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Give the options that a command line leaves out the values of environment variables, or their defaults.

    Only this function reads these variables: how the library reads a file does not depend on the environment.

    :param parser: that of the command
    """
    for option_name, parse in VARIABLES.items():
        is_given = any(getattr(args, name, None) for name in (option_name, _INSTEAD.get(option_name, option_name)))
        text = os.environ.get(f"{PREFIX}{option_name.upper()}")
        if option_name in args and text and not is_given:
            setattr(args, option_name, _parse_variable(f"{PREFIX}{option_name.upper()}", parse, text))
    if not getattr(args, "quiet", False):
        _warn_about_names()
    if "limit" in args:
        found = sorted(name for name, text in os.environ.items() if name.startswith(LIMIT_PREFIX) and text)
        limits = [_parse_variable(name, partial(_parse_limit_of, name), os.environ[name]) for name in found]
        args.limit = [*limits, *args.limit]
    args.has_format = getattr(args, "format", None) is not None
    has_file = getattr(args, "report_output", None) and not getattr(args, "lines", False)  # of predict: JSON Lines
    if "format" in args and not args.has_format and has_file:
        choices: Any = next(action.choices for action in parser._actions if action.dest == "format")  # noqa: SLF001 -- argparse lists them nowhere else
        args.format = find_format(args.report_output, choices)
    for option_name, value in _DEFAULTS.items():
        if getattr(args, option_name, value) is None:
            setattr(args, option_name, value)


def _warn_about_names() -> None:
    """Warn about each variable whose name is nearly one of ours: it sets nothing.

    Others that begin so are left alone: programs around this one may have them.
    """
    for name, text in sorted(os.environ.items()):
        word = name.removeprefix(PREFIX).lower()
        if not name.startswith(PREFIX) or not text or word in VARIABLES or name.startswith(LIMIT_PREFIX):
            continue
        from difflib import get_close_matches

        from sbformat.cli._files import write_remark

        close = get_close_matches(word[:60], VARIABLES, n=1, cutoff=_ALIKE)
        if close:
            hint = f"did you mean {PREFIX}{close[0].upper()}?"
            write_remark(f"warning: the environment variable {escape(name)} is not known", hint)


def _parse_limit_of(variable: str, text: str) -> tuple[str, int]:
    return parse_limit(f"{variable.removeprefix(LIMIT_PREFIX).lower()}={text}")


def _parse_variable(name: str, parse: Callable[[str], Any], text: str) -> Any:
    try:
        return parse(text)
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"environment variable {escape(name)}: {error}") from None


def find_format(output: str, choices: Collection[str]) -> str:
    """Return the format that the suffix of a report's file selects.

    :param choices: the formats of the command
    """
    suffix = os.path.splitext(output)[1].lower()
    chosen = "text" if suffix in _TEXT else _FORMATS.get(suffix)
    if chosen in choices:
        return str(chosen)
    suffixes = [name for name, format_name in _FORMATS.items() if format_name in choices]
    raise UsageError(f"-o {escape(output)}: expected {', '.join([*suffixes, *_TEXT[1:]])}, no suffix, or --format")


# -- options about output -----------------------------------------------------------------------------


class OutputOptions(Record):
    """The options of every command about output."""

    quiet: bool = False
    verbose: bool = False
    color: str = "auto"
    is_terminal: bool = False
    """The report goes to one, so that long texts are shortened."""


_output_options = OutputOptions()


def set_options(args: argparse.Namespace) -> None:
    """Follow the options of a command line from now on; a command may have none of them."""
    given = {name: vars(args)[name] for name in OutputOptions._fields if name in args}
    goes_to_file = getattr(args, "report_output", None) not in (None, "-")
    use_options(OutputOptions(**given, is_terminal=sys.stdout.isatty() and not goes_to_file))


def get_options() -> OutputOptions:
    """Return the options, for :func:`use_options` in another process."""
    return _output_options


def use_options(options: OutputOptions) -> None:
    """Follow the options of another process's command line from now on."""
    global _output_options  # noqa: PLW0603 -- a process works for one command line at a time
    _output_options = options


def is_quiet() -> bool:
    """Return whether only results, findings and errors are written."""
    return _output_options.quiet


def is_verbose() -> bool:
    """Return whether what was read is written too."""
    return _output_options.verbose


def shows_whole() -> bool:
    """Return whether texts and lists are written whole: with ``--verbose``, and to a pipe or file, which people search.

    No file decides how much is printed: a cell of a table has some thousand characters, and a table 100,000 rows.
    """
    return _output_options.verbose or not _output_options.is_terminal


def wants_color(*, is_terminal: bool) -> bool:
    """Return whether to write escape sequences.

    With ``--color auto`` the environment decides (https://no-color.org, https://force-color.org), then the terminal.

    :param is_terminal: the output is one
    """
    if _output_options.color != "auto":
        return _output_options.color == "always"
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (is_terminal and os.environ.get("TERM") != "dumb")
