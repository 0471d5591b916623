"""The tables of limits, environment variables and rules, for ``sbformat help`` and the pages of the documentation."""

from __future__ import annotations

import ast
import inspect
from typing import TYPE_CHECKING, Final

import sbformat.limits
from sbformat.cli._options import LIMIT_PREFIX, PREFIX, VARIABLES
from sbformat.limits import DEFAULT_LIMITS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from sbformat.tools.scan.findings import Rule
    from sbformat.tools.scan.sarif import RuleHelp

_UNITS: Final = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))
_COLOURS: Final = (
    ("NO_COLOR", "--color never", "any text: no colours, unless --color or SBFORMAT_COLOR says otherwise"),
    ("FORCE_COLOR", "--color always", "any text: colours in a pipe, too, unless one of the others says otherwise"),
)


def render_size(name: str, value: int) -> str:
    """Return the default of a limit: sizes in binary units, counts with separators."""
    if name.endswith("_bytes"):
        for unit, factor in _UNITS:
            if value >= factor and value % factor == 0:
                return f"{value // factor} {unit}"
    return f"{value:,}"


def list_limits() -> list[tuple[str, str, str]]:
    """Return the name of each limit, its default, and what it bounds: the text below its field, on one line."""
    (cls,) = ast.parse(inspect.getsource(sbformat.limits.Limits)).body
    assert isinstance(cls, ast.ClassDef)  # noqa: S101 -- it is a class
    texts: dict[str, str] = {}
    for field, text in zip(cls.body, cls.body[1:]):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
            texts[field.target.id] = " ".join(ast.literal_eval(text.value).split())
    return [(name, render_size(name, value), texts[name]) for name, value in DEFAULT_LIMITS._asdict().items()]


def list_variables(parsers: Iterable[argparse.ArgumentParser]) -> list[tuple[str, str, str]]:
    """Return the name of each environment variable, the option that it stands for, and its value.

    Those of limits, ``SBFORMAT_LIMIT_`` and the name of one, are not among them.

    :param parsers: those of all commands
    """
    actions = {action.dest: action for parser in parsers for action in parser._actions}  # noqa: SLF001 -- argparse lists them nowhere else
    rows = []
    for name in VARIABLES:
        action = actions[name]
        switch = "1 or 0: " if action.nargs == 0 else ""
        value = (
            "" if action.nargs == 0 else f" {action.metavar or '{' + ','.join(map(str, action.choices or ())) + '}'}"
        )
        rows.append((f"{PREFIX}{name.upper()}", f"{action.option_strings[-1]}{value}", f"{switch}{action.help or ''}"))
    return [*rows, *_COLOURS]


def list_limit_variables() -> list[tuple[str, str, str]]:
    """Return the name of the variable of each limit, the option that it stands for, and the default."""
    return [(f"{LIMIT_PREFIX}{name.upper()}", name, size) for name, size, _ in list_limits()]


def list_rules() -> list[tuple[Rule, str, RuleHelp]]:
    """Return each rule of ``scan`` with the verdict of its findings and its help, the worst ones first."""
    from sbformat.tools.scan.findings import RULES
    from sbformat.tools.scan.sarif import DANGEROUS_TOO, RULE_HELP, get_severity

    rules = sorted(RULES, key=lambda rule: -get_severity(rule, RULES[rule]))
    verdicts = (f"{RULES[rule]}{', or dangerous' if rule in DANGEROUS_TOO else ''}" for rule in rules)
    return [(rule, verdict, RULE_HELP[rule]) for rule, verdict in zip(rules, verdicts)]
