"""The page about one file: what it is, whether it is safe to load, and what is in it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sbformat.archive.kinds import KIND_TITLES, OBJECTS
from sbformat.constants import OPTIMIZER_WORD
from sbformat.html_report.page import format_number, format_size, render_page
from sbformat.html_report.settings import list_settings, list_spaces
from sbformat.policies.describe import list_tables

if TYPE_CHECKING:
    from sbformat.html_report.collect import FileData
    from sbformat.policies.describe import Table
    from sbformat.tools.inspect import InspectReport

MOST_ROWS: Final = 500
"""Rows of a table; the others are counted."""


class Fact(NamedTuple):
    """A figure of the summary."""

    label: str
    value: str
    remark: str = ""


def render_archive(file: FileData, *, title: str | None = None) -> str:
    """Return the page about one file."""
    context = make_context(file)
    shown = title or f"{os.path.basename(file.name.rstrip('/')) or file.name} \u2013 sbformat report"
    return render_page("archive.html.jinja", {**context, "heading": title or file.name}, title=shown)


def make_context(file: FileData) -> dict[str, Any]:
    """Return what the template prints."""
    inspected = file.inspected
    return {
        "file": file,
        "inspected": inspected,
        "scanned": file.scanned,
        "kind": KIND_TITLES.get(inspected.format, inspected.format) if inspected else "file that could not be read",
        "facts": list_facts(file, inspected) if inspected else [],
        "settings": list_settings(inspected) if inspected else {},
        "spaces": list_spaces(inspected) if inspected else [],
        "network_tables": _list_network_tables(inspected),
        "is_object": inspected is not None and inspected.format in OBJECTS,
        "most_rows": MOST_ROWS,
    }


def list_facts(file: FileData, report: InspectReport) -> list[Fact]:
    """Return the figures at the top of a page."""
    facts = []
    if report.algorithm is not None:
        certain = "" if report.algorithm.certain else "inferred, not certain"
        facts.append(Fact("Algorithm", report.algorithm.name or "unknown", certain))
    if report.stable_baselines3_version is not None:
        facts.append(Fact("Stable-Baselines3", report.stable_baselines3_version))
    if report.policy_class is not None:
        package, _, name = report.policy_class.rpartition(".")
        facts.append(Fact("Policy", name, package))
    numel = sum(row.numel for row in report.state_dicts if OPTIMIZER_WORD not in row.name)
    if report.state_dicts:
        facts.append(Fact("Numbers in arrays" if report.format in OBJECTS else "Parameters", format_number(numel)))
    steps = (report.data or {}).get("num_timesteps")
    if type(steps) is int:
        facts.append(Fact("Training steps", format_number(steps)))
    if file.scanned is not None:
        facts.append(Fact("Size", format_size(file.scanned.size)))
    return facts


def _list_network_tables(report: InspectReport | None) -> list[Table]:
    if report is None or report.network is None:
        return []
    return [table for table in list_tables(report.network) if table.rows]
