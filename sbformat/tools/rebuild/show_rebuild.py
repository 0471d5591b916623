"""How the report of ``rebuild`` is displayed: a line for ``repr``, tables for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sbformat.errors import escape
from sbformat.rendering import count_noun

if TYPE_CHECKING:
    from sbformat.tools.rebuild.rebuild_report import RebuildReport, Row


_HEADER = ("entry", "key", "action", "before", "now", "what was done, or why it was dropped")


def describe(report: RebuildReport) -> str:
    """Return the line for ``repr``: the algorithm, the releases, and the number of rows by action."""
    text = f"{report.algorithm} of {_render_source(report)} for SB3 {report.target}: {_render_counts(report)}"
    return f"<RebuildReport {escape(text)}>"


def _render_source(report: RebuildReport) -> str:
    if report.sb2_algorithm:
        return f"Stable Baselines 2 ({report.sb2_algorithm})"
    return f"SB3 {report.written_by}" if report.written_by else "a release that is not stored"


def _render_counts(report: RebuildReport) -> str:
    counts = [f"{count:,} {action}" for action, count in report.counts().items()]
    return f"{', '.join(counts)}; {count_noun(len(report.findings), 'finding')}"


def render(report: RebuildReport) -> str:
    """Return the HTML for notebooks: what differs, what loading imports, and folded all rows."""
    from sbformat.notebook import fold, render_output, render_paragraph, render_table

    requires = [(required.key, required.name) for required in report.requires]
    different = render_table("findings: the agent computes or trains differently", _HEADER, _list_rows(report.findings))
    return render_output(
        f"RebuildReport: {report.algorithm} of {_render_source(report)}, for SB3 {report.target}",
        [
            different or render_paragraph("The agent computes and trains as before."),
            render_table("loading the result imports, and trusts", ("key", "name"), requires),
            fold(_render_counts(report), [render_table("", _HEADER, _list_rows(report.rows))]),
        ],
    )


def _list_rows(rows: tuple[Row, ...]) -> list[tuple[str, ...]]:
    return [
        (row.entry, row.key or "", row.action, row.was or "", row.now or row.instead or "", row.message) for row in rows
    ]
