"""How the report of ``scan`` is displayed: a line for ``repr``, tables for notebooks."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from sbformat.errors import escape
from sbformat.rendering import count_noun, format_size
from sbformat.tools.scan.findings import VERDICTS

if TYPE_CHECKING:
    from sbformat.tools.scan.findings import ScanReport


_LINE: Final = 300
_NAMES: Final = 8
_MEANINGS: Final = {
    "clean": "every byte was understood: plain data, and constructors with checked arguments",
    "unknown": "something is not known, and nothing calls it",
    "code": "functions, classes or programs are pickled by value",
    "broken": "it cannot be parsed, or exceeds a limit",
    "dangerous": "loading it calls something that is not known, or that runs, imports, opens or connects",
}
"""What each verdict means for the reader of a report, in short (SCANNING.md 14.1)."""


def describe(report: ScanReport) -> str:
    """Return the line for ``repr``: the verdict, and the number of findings by rule."""
    rules = Counter(finding.rule for finding in report.findings)
    counted = [f"{count} {rule}" for rule, count in rules.most_common(_NAMES)]
    counted += [f"{report.omitted:,} not listed"] if report.omitted else []
    details = f" ({', '.join(counted)})" if counted else ""
    findings = f"{count_noun(len(report.findings) + report.omitted, 'finding')}{details}"
    reason = f" ({report.reason})" if report.reason else ""
    text = f"{report.format} {report.verdict}{reason}: {findings}, {count_noun(report.pickles, 'pickle')}"
    return f"<ScanReport {escape(text, _LINE)}>"


def render(report: ScanReport) -> str:
    """Return the HTML for notebooks: the verdict, the findings with the worst first, and folded the imports."""
    from sbformat.notebook import Markup, escape_text, fold, render_badge, render_output, render_table

    reason = f" ({report.reason})" if report.reason else ""
    title = Markup(f"{render_badge(report.verdict)}{escape_text(reason)} {escape_text(_MEANINGS[report.verdict])}")
    facts = [
        ("format", report.format),
        ("size", format_size(report.size)),
        ("SHA-256", report.sha256 or "none: a folder, or an archive in memory"),
        ("pickles judged", f"{report.pickles:,}"),
    ]
    worst_first = sorted(report.findings, key=lambda finding: -VERDICTS.index(finding.verdict))
    rows = []
    for row in worst_first:
        place = (row.entry, row.key, "" if row.offset is None else f"at byte {row.offset:,}")
        rows.append((render_badge(row.verdict), row.rule, ", ".join(filter(None, place)), row.message))
    count = len(report.findings) + report.omitted
    return render_output(
        title,
        [
            render_table("", (), facts),
            render_table("findings", ("verdict", "rule", "where", "what"), rows, count=count),
            fold(
                count_noun(len(report.imports), "imported name"),
                [render_table("", ("name",), [(name,) for name in report.imports])],
            ),
            fold(
                count_noun(len(report.skipped), "file without a verdict", "files without a verdict"),
                [render_table("", ("file", "reason"), report.skipped)],
            ),
        ],
    )
