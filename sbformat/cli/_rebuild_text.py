"""The text of ``sbformat rebuild`` on one file: what became of its hyper-parameters, and of everything else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.cli._options import is_verbose
from sbformat.constants import DATA_ENTRY
from sbformat.errors import escape
from sbformat.known.changes import WRITES_VERSION

if TYPE_CHECKING:
    from sbformat.cli._output import Plain

WORDS: Final = ("kept", "translated", "added", "dropped")
"""What becomes of a value. In JSON, a value that was added is ``translated``."""
_HEADER: Final = ("hyper-parameter", "before", "now", "how")
_SENTENCE: Final = 240
_HOW: Final = 80
"""Characters of a cell that says how; what is longer is a note below the table."""
_VALUE: Final = 60
"""Characters of a value before and now."""
_STATISTICS: Final = "VecNormalize"
"""In a report on statistics, the value of ``algorithm``."""


def print_text(printer: Plain, report: dict[str, Any]) -> None:
    """Print the report on one file."""
    counts = ", ".join(f"{count} {word}" for word, count in count_words(report).items())
    written = describe_release(report)
    written = f", {written} ->" if written else " for SB3"
    printer.line(f"{escape(report['output'], 1000)}: {report['algorithm']}{written} {report['target']}: {counts}")
    _print_settings(printer, report)
    others = [row for row in report["rows"] if not row["is_hyperparameter"]]
    rows = [(_render_place(row), _render_message(row)) for row in others if find_word(row) == "translated"]
    printer.table("translated", ("where", "how"), rows, longest=_SENTENCE)
    added = [(_render_place(row), _shorten(row["now"]), row["message"]) for row in others if find_word(row) == "added"]
    printer.table("added", ("where", "now", "how"), added, longest=_SENTENCE)
    _print_dropped(printer, [row for row in others if row["action"] == "dropped"])
    _print_consequences(printer, report)


def describe_release(report: dict[str, Any]) -> str:
    """Return what wrote the original; empty for statistics and files of ``policy.save()``, which do not contain it."""
    if report.get("sb2_algorithm"):
        return f"SB2's {report['sb2_algorithm']}"
    if report["algorithm"] == _STATISTICS or "." in report["algorithm"]:  # a policy is named by its module and class
        return ""
    return f"SB3 {report['written_by'] or f'before {WRITES_VERSION}'}"


def count_words(report: dict[str, Any]) -> dict[str, int]:
    """Return the number of rows by what became of their values; ``added`` only where there are some."""
    words = [find_word(row) for row in report["rows"]]
    return {word: words.count(word) for word in WORDS if word != "added" or word in words}


def find_word(row: dict[str, Any]) -> str:
    """Return what became of a value: its action, or ``added`` for a key of the result that the file does not have."""
    is_new = row["action"] == "translated" and row["was"] is None and row["now"] is not None
    return "added" if is_new and row["entry"] == DATA_ENTRY else str(row["action"])


def _print_settings(printer: Plain, report: dict[str, Any]) -> None:
    """Print what became of the hyper-parameters, with the keys that got the default of the algorithm in one line."""
    from sbformat.tools.rebuild.rebuild_report import DEFAULT_NOTE

    note = DEFAULT_NOTE.format(report["algorithm"])
    rows = [row for row in report["rows"] if row["is_hyperparameter"]]
    defaults = [row for row in rows if find_word(row) == "added" and row["message"] == note]
    cells, notes = [], []
    for row in rows:
        if row not in defaults:
            key, old, new, word, how = _render_setting(row)
            is_long = len(how) > _HOW
            cells.append((key, old, new, f"{word}: see the note" if is_long else f"{word}: {how}" if how else word))
            notes += [(key, how)] if is_long else []
    printer.table("hyper-parameters", _HEADER, cells, longest=_SENTENCE)
    printer.table("notes", ("hyper-parameter", "note"), notes, longest=_SENTENCE)
    if defaults:
        texts = ", ".join(f"{escape(_render_place(row))} {_shorten(row['now'])}" for row in defaults)
        printer.line(f"\n  added with the defaults of {escape(report['algorithm'])}: {texts}")


def _print_dropped(printer: Plain, rows: list[dict[str, Any]]) -> None:
    """Print what the result does not have: the value before, what SB3 uses instead, and why."""
    header = ("where", "before", "instead", "why")
    cells = [
        (
            _render_place(row),
            "" if row["message"].startswith(row["was"] or " ") else _shorten(row["was"] or ""),
            _shorten(row["instead"] or ""),
            str(row["message"]),
        )
        for row in rows
    ]
    used = [index for index in range(len(header)) if any(row[index] for row in cells)]
    printer.table(
        "dropped", [header[index] for index in used], [[row[index] for index in used] for row in cells],
        longest=_SENTENCE,
    )  # fmt: skip


def _print_consequences(printer: Plain, report: dict[str, Any]) -> None:
    """Print what differs for the agent, and what loading it imports."""
    found = [escape(_render_place(row)) for row in report["rows"] if row["is_finding"]]
    if found:
        printer.line(f"\n  The agent now computes or trains with something else: {', '.join(found)}")
    if any(row["is_finding"] and "not known" in row["message"] for row in report["rows"]):
        printer.line(
            "\n  --allow NAME keeps a class or function that is not known: SB3 then imports and calls it. "
            "--set KEY=JSON sets another value."
        )
    if report["requires"]:
        printer.line("\n  The loader imports and trusts:")
        for required in report["requires"]:
            printer.line(f"    {escape(required['name'], 200)} ({escape(required['key'])})")


def _render_place(row: dict[str, Any]) -> str:
    if row["key"] is None:
        return str(row["entry"])
    return str(row["key"]) if row["entry"] == DATA_ENTRY else f"{row['entry']}:{row['key']}"


def _render_setting(row: dict[str, Any]) -> tuple[str, str, str, str, str]:
    """Return a value that the algorithm trains with: its key, before, now, what became of it, and how."""
    old, new = row["was"] or "", row["now"] or row["instead"] or "left out"
    words = row["message"].removeprefix(f"{old}: ").removeprefix(f"{new}: ")
    if row["new_key"] is not None:  # which the first column shows
        words = words.removeprefix(f"{row['new_key']} in SB3").lstrip(":; ")
    if words.startswith(f"{new} (") and words.endswith(")"):  # what a schedule is, and how that is known
        words = words[len(new) + 2 : -1]
    key = _render_place(row) if row["new_key"] is None else f"{_render_place(row)} -> {row['new_key']}"
    return key, _shorten(old), _shorten(new), find_word(row), "" if words in ("", old, new) else words


def _shorten(value: str) -> str:
    return escape(value, _SENTENCE if is_verbose() else _VALUE)


def _render_message(row: dict[str, Any]) -> str:
    instead = f" (instead: {row['instead']})" if row["instead"] else ""
    return f"{row['message']}{instead}"
