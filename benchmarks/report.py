"""The results as a text table, as Markdown and as JSON."""

from __future__ import annotations

import json
import os
import platform
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from benchmarks.results import Curve, Line

HEADER: Final = ("measure", "of", "ours", "RSS", "beside", "theirs", "RSS", "ratio (quartiles)", "goal", "", "note")
RIGHT: Final = frozenset({"ours", "RSS", "theirs", "goal"})
MB: Final = 1_000_000
ROUNDS_TO_ONE: Final = 0.9995
NOTHING: Final = "-"


def environment(versions: Mapping[str, str], archives: int) -> dict[str, Any]:
    """Return the environment that the numbers depend on."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processors": os.cpu_count(),
        "archives": archives,
        "installed": dict(versions),
    }


# -- cells --------------------------------------------------------------------------------------------


def quantity(value: float | None, unit: str) -> str:
    """Return a number with its unit and three digits."""
    if value is None:
        return NOTHING
    if unit == "s":
        for factor, name in ((1, "s"), (1e3, "ms")):
            if value * factor >= ROUNDS_TO_ONE:
                return f"{three(value * factor)} {name}"
        return f"{three(value * 1e6)} us"
    if unit == "B":
        return f"{value / MB:.1f} MB"
    return f"{value:,.0f}" if unit else f"{value:.2f}"


def three(value: float) -> str:
    """Return a number with three digits and without an exponent."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def goal(line: Line) -> str:
    """Return the goal of a line."""
    if line.limit is None:
        return ""
    return f"\u2264 {line.limit:.2f} x" if line.rival else f"\u2264 {quantity(line.limit, line.unit)}"


def verdict(line: Line) -> str:
    """Return whether the goal was met."""
    if line.limit is None:
        return ""
    return {None: "not measured", True: "met", False: "missed"}[line.is_met]


def cells(line: Line) -> tuple[str, ...]:
    """Return the row of a line."""
    ratio = line.ratio
    spread = f"{ratio.median:.3f} ({ratio.lower:.3f}..{ratio.upper:.3f})" if ratio else ""
    return (
        line.measure,
        line.of,
        quantity(line.ours, line.unit),
        quantity(line.our_peak, "B") if line.our_peak else "",
        line.rival,
        quantity(line.theirs, line.unit) if line.rival else "",
        quantity(line.their_peak, "B") if line.their_peak else "",
        spread,
        goal(line),
        verdict(line),
        line.note,
    )


# -- documents ----------------------------------------------------------------------------------------


def text(lines: Sequence[Line]) -> str:
    """Return the table in columns; the name of a measurement is in its first row only."""
    rows = [list(HEADER), *(list(cells(line)) for line in lines)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(HEADER))]
    made, before = [], ""
    for row in rows:
        name, row[0] = row[0], "" if row[0] == before else row[0]
        before = name
        made.append("  ".join(align_cell(cell, width, head) for cell, width, head in zip(row, widths, HEADER)).rstrip())
    return "\n".join(made) + "\n"


def align_cell(cell: str, width: int, head: str) -> str:
    """Pad a cell to its column: numbers to the right."""
    return cell.rjust(width) if head in RIGHT else cell.ljust(width)


def summary(lines: Sequence[Line]) -> str:
    """Return how many goals were met, and which were missed."""
    goals = [line for line in lines if line.limit is not None]
    missed = [
        f"{line.measure} ({line.of}{', ' + line.rival if line.rival else ''})" for line in goals if line.is_met is False
    ]
    unmeasured = sum(line.is_met is None for line in goals)
    made = f"{sum(line.is_met is True for line in goals)} of {len(goals)} goals met"
    made += f", {unmeasured} not measured" if unmeasured else ""
    return made + (f"; missed: {', '.join(missed)}" if missed else "") + "\n"


def markdown(lines: Sequence[Line], about: Mapping[str, Any]) -> str:
    """Return the same table in Markdown, below the environment."""
    versions = ", ".join(f"{name} {version}" for name, version in about["installed"].items())
    rows = [HEADER, tuple("---:" if head in RIGHT else "---" for head in HEADER), *map(cells, lines)]
    table = "".join(map(table_row, rows))
    return (
        f"Python {about['python']}, {about['system']}, {about['processors']} processors, {about['archives']} archives; "
        f"{versions or 'no rival is installed'}.\n\n{table}\n{summary(lines)}"
    )


def table_row(cells: Iterable[str]) -> str:
    """Return a row of a table in Markdown."""
    return "|" + "|".join(f" {cell.replace('|', chr(92) + '|')} " if cell else " " for cell in cells) + "|\n"


def document(lines: Sequence[Line], curves: Sequence[Curve], about: Mapping[str, Any]) -> str:
    """Return everything as JSON, a row for each line."""
    rows = (json.dumps(row(line)) for line in lines)
    rest = json.dumps({**about, "growth": [curve._asdict() for curve in curves]}, indent=1).removesuffix("\n}")
    return f'{rest},\n "lines": [\n  ' + ",\n  ".join(rows) + "\n ]\n}\n"


def row(line: Line) -> dict[str, Any]:
    """Return what a line has, with four digits."""
    found = {name: value for name, value in line._asdict().items() if value not in (None, "")}
    if line.ratio is not None:
        found["ratio"] = {name: float(f"{value:.4g}") for name, value in line.ratio._asdict().items()}
    for name in {"ours", "theirs"} & {*found}:
        found[name] = float(f"{found[name]:.4g}")
    return found if line.is_met is None else {**found, "met": line.is_met}
