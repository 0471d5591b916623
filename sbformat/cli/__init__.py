"""The command line: ``sbformat inspect | report | diff | catalog | scan | validate | edit | rebuild | convert | ...``.

In: the arguments of the process. Out: the exit status: 0 success, 1 findings, 2 failure. The table ``COMMANDS`` has
the module of each command, its group, and its help in one line. A module is imported when its command is chosen: of a
command ``name``, it has the description ``NAME`` and the function ``run_name(args) -> int``.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys

import sbformat

TYPE_CHECKING = False  # of typing, which --version and --help do not need
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from typing import Any, Final, NoReturn

COMMANDS: Final = {
    "inspect": ("inspect", "look", "show the contents of archives"),
    "report": ("report", "look", "write a page of HTML about archives (extra report)"),
    "diff": ("diff", "look", "compare two archives"),
    "catalog": ("catalog", "look", "write a table with a row for each of many archives, and search it"),
    "scan": ("scan", "check", "show what loading files would run or import"),
    "validate": ("validate", "check", "check archives against the schema and the rules, and whether SB3 loads them"),
    "edit": ("diff", "change", "change hyper-parameters, weights or entries"),
    "rebuild": ("rebuild", "change", "make an archive that is old or not trusted load in today's SB3"),
    "convert": ("convert", "change", "convert archives to safetensors and back, arrays to .pth"),
    "bundle": ("bundle", "change", "put the statistics of a VecNormalize into an archive"),
    "unbundle": ("bundle", "change", "take the statistics of a VecNormalize out of a bundle"),
    "predict": ("agents", "use", "compute an agent's actions for observations"),
    "evaluate": ("agents", "use", "run an agent in an environment (extra gym)"),
    "extract": ("convert", "use", "write tensors to .safetensors, .npz or .npy files"),
    "export": ("agents", "use", "write a policy as a JavaScript module, plain PyTorch, ONNX (extra onnx), C, or JSON"),
    "completion": ("completion", "other", "write a script of completions for a shell (extra completion)"),
    "help": ("completion", "other", "print the help of all commands, or of one"),
}
"""The module of each command, its group in the help, and what it does."""
ALIASES: Final = {"upgrade": "rebuild"}
"""Second names of commands."""
_OTHER_WORDS: Final = {
    **dict.fromkeys(("update", "migrate", "modernize", "port", "repair", "fix"), "rebuild"),
    **dict.fromkeys(("info", "show", "list", "cat", "print", "load", "open", "read", "view"), "inspect"),
    **dict.fromkeys(("check", "verify", "lint"), "validate"),
    **dict.fromkeys(("compare", "cmp"), "diff"),
    **dict.fromkeys(("set", "change", "modify"), "edit"),
    **dict.fromkeys(("run", "act", "enjoy"), "predict"),
    "version": "--version",
}
"""Other words for a command, which are not names of it: the error for one names the command."""
_WITHOUT_COMMAND: Final = (("--version",), ("-V",), ("--help",), ("-h",))
"""Arguments of which no command's parser is made."""
_SHORTEST: Final = 3
_EXIT_COULD_NOT: Final = 2
_EXIT_INTERRUPTED: Final = 130
_ISSUES: Final = "https://github.com/sbformat/sbformat/issues"


class _Formatter(argparse.HelpFormatter):
    """Help of one width everywhere, so that the README can quote it."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=32, width=96)


class _CommandParser(argparse.ArgumentParser):
    """A parser whose errors are laid out as those of files, without the usage, which is long."""

    def error(self, message: str) -> NoReturn:
        """Write the error and exit; a line feed in the message is before its hint."""
        from sbformat.cli._files import lay_out

        text, _, hint = message.partition("\n")
        self.exit(_EXIT_COULD_NOT, lay_out(f"{self.prog}: error: {text}", hint or f"see {self.prog} --help"))


class Parser(_CommandParser):
    """The parser of the whole command line, with the parsers of its commands."""

    commands: dict[str, _CommandParser]
    """By name, without the second names."""

    def format_help(self) -> str:
        """Return the help, with a section for each group of commands."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        groups: dict[str, list[argparse.Action]] = {}
        for name, (_, group, text) in COMMANDS.items():
            names = ", ".join((name, *_list_aliases(name)))  # argparse writes "rebuild (upgrade)"
            groups.setdefault(group, []).append(argparse.Action([], name, help=text, metavar=names))
        for title, actions in (*groups.items(), (self._optionals.title, self._optionals._group_actions)):  # noqa: SLF001
            formatter.start_section(title)
            formatter.add_arguments(actions)
            formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()


def build_parser(*words: str) -> Parser:
    """Return the parser of the whole command line.

    :param words: the arguments: modules of commands that are not among them are not imported; all are without any
    """
    parser = Parser(
        prog="sbformat",
        description="Read, check, scan, compare, edit, convert, rebuild and bundle Stable-Baselines3 archives, and run "
        "or export their agents; put what is known of many into one table. No code in a file is ever executed.",
        epilog="sbformat help COMMAND shows its options, sbformat help limits the limits of readers, sbformat help "
        "environment the variables SBFORMAT_... that set defaults. Exit status: 0 success, 1 findings, 2 failure.",
        formatter_class=_Formatter,
    )
    parser.add_argument("-V", "--version", action="version", version=f"sbformat {sbformat.__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_CommandParser)
    parser.commands = {}
    chosen = {ALIASES.get(word, word) for word in words}
    first = ALIASES.get(words[0], words[0]) if words else ""
    for name in (first,) if first in COMMANDS else () if words in _WITHOUT_COMMAND else COMMANDS:
        text, others = COMMANDS[name][2], _list_aliases(name)
        added = subparsers.add_parser(name, help=text, aliases=others, formatter_class=_Formatter)
        added.set_defaults(command=name)  # whichever of its names was given
        parser.commands[name] = added
        if not words or name in chosen:
            _configure(name, added)
    return parser


def _list_aliases(name: str) -> list[str]:
    """Return the second names of a command."""
    return [alias for alias, command in ALIASES.items() if command == name]


def _configure(name: str, parser: argparse.ArgumentParser) -> None:
    """Import the module of a command, and give the parser what it describes."""
    from importlib import import_module

    from sbformat.cli._options import add_options

    module = import_module(f"sbformat.cli.{COMMANDS[name][0]}")
    command = getattr(module, name.upper())
    parser.description, parser.epilog = command.description, f"Example: {command.example}"
    add_options(parser, command.options)
    parser.set_defaults(run=getattr(module, f"run_{name}"))


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status.

    :param argv: the arguments; those of the process when None
    """
    if sys.stdout is None:
        _write_remark("standard output is closed", "redirect it to a file, or to /dev/null")
        return _EXIT_COULD_NOT
    if hasattr(sys.stdout, "reconfigure"):  # a terminal that cannot show a character gets its escape
        sys.stdout.reconfigure(errors="backslashreplace")
    arguments = sys.argv[1:] if argv is None else list(argv)
    try:
        parser, args = _parse_arguments(arguments)
        return _run(parser, args)
    except KeyboardInterrupt:
        return _EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe had enough
        _drop_output()
    except Exception as error:
        if _is_closed_pipe(error):
            _drop_output()
            return _EXIT_COULD_NOT
        text = _describe_error(error)
        if text is None and argv is not None:  # a bug: users of the command line get one line, other callers the error
            raise
        _write_remark(*(text.split("\n", 1) if text else _describe_bug(error)))
    return _EXIT_COULD_NOT


def _run(parser: Parser, args: argparse.Namespace) -> int:
    """Run the command that the arguments name; options that do not go together end it as wrong arguments do."""
    from time import perf_counter

    from sbformat.cli import _options

    begin = perf_counter()
    _options.set_options(args)
    run: Callable[[argparse.Namespace], int] = args.run
    del args.run  # args is sent to other processes
    try:
        if getattr(args, "report_output", None) in (None, "-"):
            status = run(args)
        else:
            from sbformat.cli._output import run_to_file

            status = run_to_file(run, args)
    except _options.UsageError as error:
        parser.commands[args.command].error(str(error))
    sys.stdout.flush()
    if getattr(args, "exclude", None):
        from sbformat.cli._files import warn_of_exclusions

        warn_of_exclusions(args)
    if _options.is_verbose():
        _write_remark(f"exit status {status} after {perf_counter() - begin:.2f} s")
    return status


def _parse_arguments(arguments: list[str]) -> tuple[Parser, argparse.Namespace]:
    """Parse the arguments; an error says what could be meant."""
    parser = build_parser(*(arguments or [""]))
    if not arguments:
        parser.print_help(sys.stderr)
        raise SystemExit(_EXIT_COULD_NOT)
    if arguments[0] not in (*COMMANDS, *ALIASES) and not arguments[0].startswith("-"):
        parser.error(explain_command(arguments[0], COMMANDS))
    if problem := _explain_first(arguments, parser):
        parser.error(problem)
    for argument in arguments[: arguments.index("--")] if "--" in arguments else arguments:
        if argument[:1] == "-" and len(argument) > 1 and os.path.lexists(argument):
            from sbformat.errors import quote

            name = quote(argument)
            parser.error(f"{name} is an option, and a file here\n'--' before the names of files makes them files")
    args, extra = parser.parse_known_args(arguments)
    if extra:
        command = parser.commands[args.command]
        command.error(_explain_options(extra, command))
    from sbformat.cli import _files, _options

    try:
        _options.complete_options(args, parser.commands[args.command])
        _files.start(args)
    except _options.UsageError as error:
        parser.commands[args.command].error(str(error))
    return parser, args


# -- errors -------------------------------------------------------------------------------------------


def explain_command(word: str, commands: Collection[str]) -> str:
    """Return the error for a word that is not a command, and in a second line its hint."""
    from sbformat.errors import escape, quote

    if os.path.exists(word) or os.path.exists(f"{word}.zip"):
        return f"expected a command before the file\nsbformat inspect {escape(word)}"
    other = _OTHER_WORDS.get(word.lower())
    if other is not None:
        return f"there is no command {quote(word, 60)}\nsbformat {other} does that"
    close = find_nearest(word, commands)
    hint = f"did you mean {close}?" if close else f"available: {', '.join(commands)}"
    return f"there is no command {quote(word, 60)}\n{hint}"


def _explain_first(arguments: Sequence[str], parser: Parser) -> str:
    """Return the error for an option before the command that is not one of the program; empty if there is none."""
    from sbformat.errors import escape

    first = arguments[0].partition("=")[0]
    own = list(parser._option_string_actions)  # noqa: SLF001 -- argparse lists them nowhere else
    is_own = first in own or (first.startswith("--") and any(name.startswith(first) for name in own))
    if not first.startswith("-") or is_own:
        return ""
    at = next((at for at, word in enumerate(arguments) if word in COMMANDS or word in ALIASES), None)
    if at is None:
        close = find_nearest(first, own)
        return f"unrecognized arguments: {escape(first)}" + (f"\ndid you mean {close}?" if close else "")
    words = " ".join(map(escape, (arguments[at], *arguments[:at], *arguments[at + 1 :])))
    return f"options of a command come after it\nsbformat {words}"


def _explain_options(extra: Sequence[str], parser: argparse.ArgumentParser) -> str:
    """Return the error for arguments that a command does not have, and in a second line its hint."""
    from sbformat.errors import escape

    known = [name for action in parser._actions for name in action.option_strings]  # noqa: SLF001 -- argparse lists them nowhere else
    found = (find_nearest(word.partition("=")[0], known) for word in extra if word.startswith("--"))
    hint = " or ".join(name for name in found if name)
    text = f"unrecognized arguments: {' '.join(map(escape, extra))}"
    files = [action for action in parser._actions if not action.option_strings]  # noqa: SLF001 -- as above
    if [file.nargs for file in files] == [None] and not any(word.startswith("-") for word in extra):
        return f"{text}\none {files[0].metavar} is expected"
    return f"{text}\ndid you mean {hint}?" if hint else text


def find_nearest(word: str, names: Iterable[str]) -> str | None:
    """Return the name that is most like a word: the one it begins, one with few other letters, or that contains it."""
    import difflib

    names = list(names)
    begun = [name for name in names if len(word) >= _SHORTEST and name.startswith(word.lower())]
    close = begun or difflib.get_close_matches(word.lower()[:60], names, n=1)
    close = close or [name for name in names if len(word) >= _SHORTEST and word.lower() in name]
    return close[0] if close else None


def _is_closed_pipe(error: Exception) -> bool:
    """Return whether it is what Windows reports, instead of a BrokenPipeError, when the reader of a pipe had enough."""
    cause = error if isinstance(error, OSError) else error.__cause__
    is_of_output = isinstance(cause, OSError) and cause.filename is None
    return sys.platform == "win32" and is_of_output and cause.errno == errno.EINVAL


def _describe_error(error: Exception) -> str | None:
    """Return the line about an error that a command may have, and in a second line its hint; None for a bug.

    Files have reports for their errors: an error of the operating system is that of standard output, or of the file
    that it names.
    """
    from sbformat.cli import _files
    from sbformat.errors import escape
    from sbformat.parallel import WorkersError

    if isinstance(error, WorkersError):
        return str(error)
    if not isinstance(error, (OSError, _files.OutputError)):
        return None
    _drop_output()
    cause: Any = error.__cause__ if isinstance(error, _files.OutputError) else error
    if not isinstance(cause, OSError):
        return str(cause)
    text = _files.describe_system_error(cause)
    if cause.filename is None:
        return f"standard output: cannot write: {text}"
    return f"{escape(str(cause.filename), 1000)}: {text}"


def _describe_bug(error: Exception) -> tuple[str, str]:
    """Return the text about an error that no command expects: what it is and where; and where to report it."""
    from sbformat.errors import escape

    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code if trace is not None else None
    place = f" in {code.co_name} ({os.path.basename(code.co_filename)}:{trace.tb_lineno})" if trace and code else ""
    what = f"{type(error).__name__}{place}: {escape(str(error), 300)}"
    return f"internal error: {what}", f"please report it at {_ISSUES}, with the file if you can"


def _write_remark(text: str, hint: str = "") -> None:
    from sbformat.cli._files import write_remark

    write_remark(text, hint)


def _drop_output() -> None:
    """Redirect standard output to nowhere: the interpreter flushes it again when it ends."""
    import contextlib

    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
