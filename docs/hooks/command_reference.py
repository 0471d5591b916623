"""The page of commands: what ``sbformat COMMAND --help`` prints, as tables."""

from __future__ import annotations

import argparse
import html
from typing import Final

from sbformat.cli import ALIASES, COMMANDS, build_parser

_INTRODUCTION: Final = """# Commands

This page is made of the command line itself, and has what `sbformat COMMAND --help` prints. A `-` is the standard input
or output, where one file is read or written. Values that are JSON need quotes in a shell.

"""
_STATUS: Final = """
The exit status is 0 for success; 1 for findings: a file that is invalid, or that the `--target` of `validate` does not
load whole, files that differ, a verdict that reaches `--fail-on`, an agent that computes something else now; 2 if the
command could not do its work, or there was no file to examine. The result goes to the standard output, errors and
progress to the standard error ([their form](errors.md#on-the-command-line)).

On a terminal long texts and lists are shortened, and `--verbose` shows more. In a pipe or file they are whole: the
bound of a cell of a table is ten times that on a terminal, and at least 2,048 characters; that of a table is 100,000
rows.
"""
_HELP: Final = "show this help message and exit"
_USAGE: Final = "usage: "


def escape_cell(text: str) -> str:
    """Return plain text for a cell of a table."""
    return html.escape(" ".join(text.split()), quote=False).replace("|", "\\|").replace("*", "\\*").replace("_", "\\_")


def render_help(action: argparse.Action, prog: str) -> str:
    """Return the help of an argument, with its default in place."""
    if not action.help:
        return ""
    values = {**vars(action), "prog": prog}
    values["choices"] = ", ".join(map(str, action.choices)) if action.choices else ""
    return action.help % values


def name_argument(action: argparse.Action) -> str:
    """Return an argument as one writes it: ``-o OUT, --output OUT``."""
    formatter = argparse.HelpFormatter(prog="")
    if not action.option_strings:
        return formatter._format_args(action, formatter._get_default_metavar_for_positional(action))  # noqa: SLF001
    if action.nargs == 0:
        return ", ".join(action.option_strings)
    value = formatter._format_args(action, formatter._get_default_metavar_for_optional(action))  # noqa: SLF001
    return ", ".join(f"{option} {value}" for option in action.option_strings)


def render_command(name: str, parser: argparse.ArgumentParser) -> str:
    """Return the section of a command."""
    others = [alias for alias, command in ALIASES.items() if command == name]
    also = [f"`sbformat {alias}` is the same command." for alias in others]
    usage = parser.format_usage().rstrip().replace("\n" + " " * len(_USAGE), "\n").removeprefix(_USAGE)
    lines = [f"## {name}", "", " ".join([parser.description or "", *also]), "", "```text", usage, "```", ""]
    for group in parser._action_groups:  # noqa: SLF001
        actions = [action for action in group._group_actions if action.help not in (argparse.SUPPRESS, _HELP)]  # noqa: SLF001
        if not actions:
            continue
        title = (group.title or "options").replace("positional arguments", "arguments")
        lines += [f"| {title} | meaning |", "|---|---|"]
        for action in actions:
            written = name_argument(action).replace("|", "\\|")
            lines.append(f"| `{written}` | {escape_cell(render_help(action, parser.prog))} |")
        lines.append("")
    example = (parser.epilog or "").removeprefix("Example: ")
    if example:
        lines += ["Example:", "", "```text", example, "```", ""]
    return "\n".join(lines)


def render_commands() -> str:
    """Return the page."""
    parser = build_parser()
    groups = list(dict.fromkeys(group for _, group, _ in COMMANDS.values()))
    rows = []
    for name, (_, group, text) in sorted(COMMANDS.items(), key=lambda item: groups.index(item[1][1])):
        names = ", ".join(
            f"`{one}`" for one in (name, *(alias for alias, command in ALIASES.items() if command == name))
        )
        rows.append(f"| {group} | [{names}](#{name}) | {escape_cell(text)} |")
    table = "\n".join(["| | command | what it does |", "|---|---|---|", *rows, ""])
    sections = "\n".join(render_command(name, command) for name, command in parser.commands.items())
    return _INTRODUCTION + table + _STATUS + "\n" + sections
