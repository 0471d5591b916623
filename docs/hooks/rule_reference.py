"""The page of the rules of ``scan``: a heading for each rule, which the ``helpUri`` of a SARIF log leads to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.cli._tables import list_rules
from sbformat.tools.scan.findings import RULES, VERDICTS
from sbformat.tools.scan.sarif import DANGEROUS_TOO, LEVELS, get_severity, make_rule_id

if TYPE_CHECKING:
    from sbformat.tools.scan.findings import Rule, Verdict
    from sbformat.tools.scan.sarif import RuleHelp

_INTRODUCTION: Final = """# Rules of scan

`sbformat scan` reports findings, each by one of these rules, and gives a file the worst verdict of its findings. The
verdicts, from best to worst, are `clean`, `unknown`, `code`, `broken` and `dangerous`. A verdict describes what is in
the file; none of them means that the author can be trusted. [Section 14](../../schema/SCANNING.md#14-scanning) of the
format defines the rules. `sbformat help rules` prints them.

Code scanners that read SARIF show a finding with a level and a severity. They rank it by its rule, so a rule with a
lower verdict whose findings may also be dangerous has a second identifier for these.

| rule | verdict | SARIF level | severity |
|---|---|---|---|
"""
_NAMES: Final = ((9.0, "critical"), (7.0, "high"), (4.0, "medium"), (0.0, "low"))
"""GitHub's name for a severity of at least so much."""


def name_severity(severity: float) -> str:
    """Return a severity with GitHub's name for it."""
    return f"{severity:.1f} ({next(name for least, name in _NAMES if severity >= least)})"


def render_row(rule: Rule, verdict: Verdict) -> str:
    """Return the row of a rule in the table at the top."""
    severity = name_severity(get_severity(rule, verdict))
    return f"| [`{make_rule_id(rule, verdict)}`](#{rule}) | {verdict} | {LEVELS[verdict]} | {severity} |"


def render_rule(rule: Rule, verdicts: str, help_of: RuleHelp) -> str:
    """Return the section of a rule."""
    head = f"## {rule}\n\n*{help_of.summary}* Verdict: {verdicts}."
    return f"{head}\n\n{help_of.meaning}\n\n**What to do.** {help_of.remedy}\n"


def render_rules() -> str:
    """Return the page, the worst rules first."""
    described = [
        *RULES.items(),
        *((rule, VERDICTS[-1]) for rule in DANGEROUS_TOO),
    ]
    described.sort(key=lambda pair: -get_severity(*pair))
    rows = "\n".join(render_row(*pair) for pair in described)
    return f"{_INTRODUCTION}{rows}\n\n" + "\n".join(render_rule(*row) for row in list_rules())
