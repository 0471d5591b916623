"""``docs/speed.md``, generated from ``benchmarks/results.json``, and the numbers that other documents quote from it.

``python -m benchmarks --page`` measures all that the page needs and writes both; ``python -m benchmarks.page`` writes
the page again. A row is in the page if its line is in the results.
"""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from benchmarks import report
from benchmarks.results import Line, Spread

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

ROOT: Final = Path(__file__).resolve().parent.parent
RESULTS: Final = ROOT / "benchmarks" / "results.json"
PAGE: Final = "docs/speed.md"


class Row(NamedTuple):
    """A row of the page."""

    title: str
    """Empty for another rival of the row above."""
    measure: str
    of: str = "time"
    rival: str = ""
    beside: str = ""
    """The rival, and what it does not do."""


ROWS: Final = (
    Row("an archive to arrays, every CRC checked", "warm-policy", "time", "torch", "torch, `weights_only`"),
    Row("", "warm-policy", "time", "lazy unpickler", "a lazy, unsafe unpickler in C"),
    Row("the whole process, one archive", "cold-one", "time", "torch", "torch"),
    Row("", "cold-one", "time", "import numpy", "`import numpy` alone"),
    Row("the same, 100 archives", "cold-many", "time", "lazy unpickler", "a lazy, unsafe unpickler in C"),
    Row("an action for one observation, DQN, 2 x 64", "predict-one", "DQN", "stable-baselines3", "SB3's `predict`"),
    Row("", "predict-one", "DQN", "onnxruntime, whole policy", "onnxruntime, the same policy as ONNX; no checks"),
    Row("the same, PPO", "predict-one", "PPO", "stable-baselines3", "SB3's `predict`"),
    Row("", "predict-one", "PPO", "onnxruntime, whole policy", "onnxruntime, the same policy as ONNX; no checks"),
    Row("the same, SAC", "predict-one", "SAC", "stable-baselines3", "SB3's `predict`"),
    Row("", "predict-one", "SAC", "onnxruntime, whole policy", "onnxruntime, the same policy as ONNX; no checks"),
    Row("actions for 4,096 observations, PPO", "predict-batch", "PPO", "stable-baselines3", "SB3's, one thread"),
    Row("", "predict-batch", "PPO", "onnxruntime, whole policy", "onnxruntime, one thread; no checks"),
    Row("NatureCNN, one frame", "predict-image", "NatureCNN", "torch", "torch, one thread; the network alone"),
    Row("from the start of a process to the first action", "first-action", "time", "stable-baselines3", "SB3"),
    Row(
        "a process that exports an agent to ONNX, PPO", "export-onnx", "PPO", "torch.onnx", "SB3's recipe, `torch.onnx`"
    ),
    Row("", "export-onnx", "PPO", "torch.onnx, dynamo=False", "the same with `dynamo=False`"),
    Row("nodes of the file, without bounds, PPO", "onnx-size", "nodes, PPO", "torch.onnx", "`torch.onnx`"),
    Row("that file in onnxruntime, one observation", "onnx-latency", "PPO", "torch.onnx", "the file of `torch.onnx`"),
    Row("the same, SAC: the same operators", "onnx-latency", "SAC", "torch.onnx", "the file of `torch.onnx`"),
    Row(
        "compiled C, one observation, PPO, `gcc -O2`", "c-latency", "PPO, gcc -O2", "onnxruntime",
        "`session.run` of onnxruntime",
    ),
    Row("", "c-latency", "PPO, gcc -O2", "onnxruntime, bound", "the same, input and output bound"),
    Row("a JavaScript module in node, one observation, PPO", "javascript-latency", "PPO"),
    Row("the same, NatureCNN", "javascript-latency", "PPO-NatureCNN"),
    Row("`sbformat inspect --format json`", "inspect", "time", "python -c pass", "`python -c pass`"),
    Row("`scan`, an archive in memory", "scan", "time", "picklescan", "picklescan: each `.pth`, not `data`"),
    Row("", "scan", "time", "fickling", "fickling: each `.pth`, not `data`"),
    Row("", "scan", "time", "modelaudit", "modelaudit: the archive as a file, not `data`"),
    Row("`validate`, an archive in memory", "validate", "time of one"),
    Row("`rebuild`, an archive in memory", "rebuild", "time of one"),
    Row("`catalog` of 10,000 archives, a second, 1 process", "catalog", "10,000 archives, 1 process"),
    Row("a search in a catalogue of 10,000 rows, CSV", "catalog-query", "rows of .csv", "duckdb", "DuckDB, same query"),
    Row("the same, by group, Parquet", "catalog-query", "groups of .parquet", "duckdb", "DuckDB, same query"),
    Row("`safe_open` of 512 MiB, one tensor", "open-large", "time, the first", "safetensors", "safetensors"),
    Row("", "open-large", "time, the first", "torch, mmap", "torch, `mmap=True`, of the `.pth` alone; no CRC"),
    Row("its private memory, above `import numpy`", "open-large", "private memory"),
    Row("`read` of 512 MiB, all arrays", "read-large", "time", "torch", "torch"),
    Row("", "read-large", "time", "torch, mmap", "torch, `mmap=True`, and a copy of each array; no CRC"),
    Row(
        "`write` of 512 MiB, synced and read again", "write-large", "time", "torch, synced",
        "torch and zip, as SB3 has it, synced",
    ),
    Row("`extract` of 512 MiB, synced", "extract-large", "time", "copy, synced", "a copy, synced; no CRC"),
)  # fmt: skip
MISSED: Final = {
    "inspect": "Importing its modules takes most of what remains.",
    "warm-policy": "The unpickler in C checks nothing of the pickle, which is most of what remains.",
}
"""Why a goal is missed, by measurement."""
INTRODUCTION: Final = """\
# Speed

<!-- generated from benchmarks/results.json by python -m benchmarks.page -->

"""
CONDITIONS: Final = (
    "`python -m benchmarks` compares sbformat with the other readers that are installed (extra `bench`), on the same "
    "files and in turn, and prints a table of ratios. [`benchmarks/`](../benchmarks/README.md) explains the rows, "
    "counts instructions, compares two commits, and shows that the cost grows linearly. With Python {python}, "
    "{processors} processors, {archives} real archives that all of them read, and {versions}:"
)
HEADER: Final = """

| | ours | beside | theirs | ratio |
| --- | ---: | --- | ---: | ---: |
"""
END: Final = """
`inspect`, `scan`, and `extract` to safetensors do not import numpy, jsonschema or safetensors, so that they start fast.
[`benchmarks/history.md`](../benchmarks/history.md) has the instructions of each path, release by release.
"""
SMALLEST: Final = 0.01
"""The smallest ratio that two decimals can show."""
NAMED: Final = ("torch", "stable_baselines3", "onnxruntime", "picklescan", "fickling", "modelaudit")
"""The packages whose versions the page has."""


class Quote(NamedTuple):
    """Numbers of the page in another document: each is a group of the pattern."""

    document: str
    pattern: str
    cells: tuple[tuple[str, int, int], ...]
    """Of each: the beginning of its row, its column (1 ours, 3 theirs, 4 the ratio), and its place in the cell."""


QUOTES: Final = (
    Quote("README.md", r"takes ([\d.]+) times as long as with torch", (("an archive to arrays", 4, 0),)),
    Quote("README.md", r"first action ([\d.]+) times", (("from the start of a process", 4, 0),)),
    Quote(
        "docs/comparison.md",
        r"one archive takes ([\d.]+) times as long as one with torch, and (\d+ MB) instead of (\d+ MB)",
        (("the whole process", 4, 0), ("the whole process", 1, 1), ("the whole process", 3, 1)),
    ),
    Quote(
        "docs/tutorials/run-without-torch.md",
        r"starts in ([\d.]+ m?s) with (\d+ MB) of memory, where SB3 takes ([\d.]+ s) and (\d+ MB), "
        r"and an action takes ([\d.]+ us)",
        (
            *(("from the start of a process", column, place) for column in (1, 3) for place in (0, 1)),
            ("the same, PPO", 1, 0),
        ),
    ),
)


# -- results ------------------------------------------------------------------------------------------


def read_results(path: Path = RESULTS) -> tuple[list[Line], dict[str, Any]]:
    """Return the lines and the environment of a file of results; none if there is no such file."""
    about: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {"lines": []}
    lines = []
    for row in about.pop("lines"):
        row.pop("met", None)
        lines.append(Line(**{"ours": None, **row, "ratio": Spread(**row["ratio"]) if "ratio" in row else None}))
    return lines, about


def merge(old: Iterable[Line], new: Sequence[Line]) -> list[Line]:
    """Return the new lines, and the old ones of other measurements."""
    again = {line.measure for line in new}
    return [*(line for line in old if line.measure not in again), *new]


# -- the page -----------------------------------------------------------------------------------------


def find_line(lines: Iterable[Line], row: Row) -> Line | None:
    """Return the line of a row, if it was measured."""
    found = (line for line in lines if (line.measure, line.of) == (row.measure, row.of))
    return next((line for line in found if line.rival == row.rival and line.found is not None), None)


def render_cost(value: float | None, unit: str, peak: int | None) -> str:
    """Return a time or another number, and the memory that it took."""
    text = report.quantity(value, unit)
    return f"{text}, {peak / report.MB:.0f} MB" if peak else text


def render_rows(lines: Sequence[Line]) -> list[tuple[str, ...]]:
    """Return the cells of the page's table; ours is in the first row of a title only."""
    made = []
    title = above = ""
    for row in ROWS:
        title = row.title or title
        line = find_line(lines, row)
        if line is not None:
            ours = ("", "") if title == above else (title, render_cost(line.ours, line.unit, line.our_peak))
            theirs = ("", "", "")
            if line.ratio is not None:
                ratio = line.ratio.median
                text = report.three(ratio) if ratio >= SMALLEST else f"{ratio:.1g}"
                theirs = row.beside, render_cost(line.theirs, line.unit, line.their_peak), text
            made.append((*ours, *theirs))
            above = title
    return made


def list_missed(lines: Iterable[Line]) -> list[str]:
    """Return a point of a list for each goal that is missed."""
    made = []
    for line in lines:
        if line.is_met is False:
            found, goal = (
                f"{value:.3g} times" if line.rival else report.quantity(value, line.unit)
                for value in (line.found, line.limit)
            )
            name = ", ".join(filter(None, (line.measure, line.of, line.rival and f"beside {line.rival}")))
            reason = MISSED.get(line.measure)
            text = f"- {name}: {found}, the goal is {goal}." + (f" {reason}" if reason else "")
            made.append(wrap(text, "  "))
    return made


def wrap(text: str, indent: str = "") -> str:
    """Return a paragraph in lines."""
    return textwrap.fill(text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def render_page(lines: Sequence[Line], about: Mapping[str, Any]) -> str:
    """Return the text of the page."""
    counts = (re.match(r"(\d+) archives", line.note) for line in lines if line.measure == "warm-policy")
    archives = next((found[1] for found in counts if found), "some")
    versions = ", ".join(f"{name} {about['installed'][name]}" for name in NAMED if name in about["installed"])
    python = about["python"].rpartition(".")[0]
    conditions = CONDITIONS.format(
        processors=about["processors"], python=python, archives=archives, versions=versions or "without rivals"
    )
    text = INTRODUCTION + wrap(conditions) + HEADER + "".join(map(report.table_row, render_rows(lines)))
    missed = list_missed(lines)
    return text + ("\n## Goals that are missed\n\n" + "\n".join(missed) + "\n" if missed else "") + END


def find_quotes(quote: Quote, page: str) -> list[str]:
    """Return the numbers that a quotation has to have."""
    found = []
    for start, column, place in quote.cells:
        (line,) = [line for line in page.splitlines() if line.startswith(f"| {start}")]
        found.append(line.strip("|").split("|")[column].strip().split(", ")[place])
    return found


def replace_quotes(text: str, quote: Quote, page: str) -> str:
    """Return a document with the numbers of the page."""
    found = re.search(quote.pattern.replace(" ", r"\s+"), text)
    if found is None:
        return text
    for group, number in reversed(list(enumerate(find_quotes(quote, page), 1))):
        text = text[: found.start(group)] + number + text[found.end(group) :]
    return text


def write_page() -> None:
    """Write the page, and its numbers in other documents."""
    page = render_page(*read_results())
    (ROOT / PAGE).write_text(page, "utf-8", newline="\n")
    for quote in QUOTES:
        path = ROOT / quote.document
        path.write_text(replace_quotes(path.read_text("utf-8"), quote, page), "utf-8", newline="\n")


if __name__ == "__main__":
    write_page()
