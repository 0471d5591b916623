"""``python -m benchmarks.rebuilding FOLDER...``: what ``rebuild`` keeps of many agents, counted.

Every file in the folders that is an agent of SB3 or SB2 is rebuilt in memory for the newest target. Printed are the
numbers of files, those of the hyper-parameters that training uses by what became of them, each reason why one was
dropped, and each reason why a whole file was refused.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import sbformat
from sbformat.errors import SbformatError, escape
from sbformat.rendering import count_noun, render_table
from sbformat.tools.rebuild import rebuild

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sbformat.tools.rebuild import RebuildReport, Row

FORMATS: Final = ("sb3", "sb2-zip", "sb2-pickle")
SUFFIXES: Final = ("", ".zip", ".pkl")
_DETAILS: Final = re.compile(
    r"; (?:its last value|--set|during training|the nearest|--allow|--policy-class|sbformat\.).*"
)
_VALUES: Final = re.compile(r"'[^']*'|\([^()]*\d[^()]*\)")
_FUNCTION: Final = re.compile(r".*: (?=custom code carried by value)")
_REASON: Final = 150


@dataclass
class Counts:
    """What was counted."""

    files: Counter[str] = field(default_factory=Counter)
    """Files by ``whole`` (nothing that training uses is another), ``with findings`` and ``refused``."""
    values: Counter[str] = field(default_factory=Counter)
    """Hyper-parameters that training uses by what became of them: ``kept``, ``translated``, ``dropped``."""
    dropped: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Dropped ones by key and reason."""
    refused: Counter[str] = field(default_factory=Counter)
    """Files that were refused by reason."""
    examples: dict[str, str] = field(default_factory=dict)
    """A file for each reason."""

    def add(self, name: str, report: RebuildReport) -> None:
        """Count a file that was rebuilt."""
        self.files["with findings" if report.findings else "whole"] += 1
        for row in report.hyperparameters:
            is_lost = row.action == "dropped" and row.is_finding
            self.values["dropped" if is_lost else "kept" if row.action == "kept" else "translated"] += 1
            if is_lost:
                reason = find_reason(row)
                self.dropped[row.key or row.entry, reason] += 1
                self.examples.setdefault(reason, name)

    def add_refused(self, name: str, error: SbformatError) -> None:
        """Count a file that was refused."""
        reason = simplify_reason(error.message)
        self.files["refused"] += 1
        self.refused[reason] += 1
        self.examples.setdefault(reason, name)


def find_reason(row: Row) -> str:
    """Return why a value was dropped, without the value itself."""
    return simplify_reason(row.message.removeprefix(f"{row.was}: "))


def simplify_reason(message: str) -> str:
    """Return a reason without what differs between files: values, and what the user can do.

    >>> simplify_reason("expected a number of at least 0, got 'x'; --set gamma=NUMBER sets one")
    'expected a number of at least 0, got …'
    """
    return escape(_VALUES.sub("\u2026", _FUNCTION.sub("", _DETAILS.sub("", message))), _REASON)


def find_agents(folders: Iterable[Path]) -> Iterator[Path]:
    """Yield the files that may be agents, in order."""
    for folder in folders:
        for path in sorted(folder.rglob("*")) if folder.is_dir() else [folder]:
            if path.is_file() and (path.suffix in SUFFIXES or "@" in path.name):
                yield path


def count_agents(paths: Iterable[Path]) -> Counts:
    """Rebuild files in memory, and count; those that are no agents are left out."""
    counts = Counts()
    for path in paths:
        try:
            archive = sbformat.read(path)
        except SbformatError:
            counts.files["not read"] += 1
            continue
        if archive.format not in FORMATS:
            continue
        try:
            counts.add(str(path), rebuild(archive).report)
        except SbformatError as error:
            counts.add_refused(str(path), error)
    return counts


def describe_counts(counts: Counts) -> Iterator[str]:
    """Yield the lines to print."""
    yield f"files: {_list_counts(counts.files)}"
    total = sum(counts.values.values())
    yield f"{count_noun(total, 'hyper-parameter')} that training uses: {_list_counts(counts.values)}"
    if counts.dropped:
        rows = [
            (str(count), key, reason, counts.examples[reason]) for (key, reason), count in counts.dropped.most_common()
        ]
        yield from ["", "dropped", *render_table(("", "key", "why", "one file"), rows, right=[0])]
    if counts.refused:
        refused = [(str(count), reason, counts.examples[reason]) for reason, count in counts.refused.most_common()]
        yield from ["", "refused", *render_table(("", "why", "one file"), refused, right=[0])]


def _list_counts(counts: Counter[str]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.most_common()) or "none"


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rebuilding", description=__doc__.split("\n\n")[1])
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="folders with agents, or files")
    paths = find_agents(parser.parse_args().folders)
    sys.stdout.writelines(f"{line}\n" for line in describe_counts(count_agents(paths)))


if __name__ == "__main__":
    main()
