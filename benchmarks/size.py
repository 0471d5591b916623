"""``python -m benchmarks.size``: count the lines of the package, of each folder, and beside another commit.

A line is a docstring, a comment of its own line, blank, or code; what follows code on its line is code. A docstring is
any string that stands alone as a statement, so the text below a constant counts as one.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import subprocess
import tarfile
from collections import Counter
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT: Final = Path(__file__).resolve().parent.parent
COLUMNS: Final = ("modules", "lines", "code", "docstrings", "comments", "blank")


def count(source: str) -> Counter[str]:
    """Return the number of lines of each kind in a module.

    >>> dict(count('# why\\nx = 1\\n'))
    {'modules': 1, 'lines': 2, 'comments': 1, 'code': 1}
    """
    texts = {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    lines = source.splitlines()
    counted = Counter(modules=1, lines=len(lines))
    for number, line in enumerate(lines, 1):
        text = line.strip()
        counted[
            "docstrings" if number in texts else "blank" if not text else "comments" if text[0] == "#" else "code"
        ] += 1
    return counted


def read_checkout(folder: str) -> Iterator[tuple[PurePosixPath, str]]:
    """Yield the modules of the checkout, each with its path from the root."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        yield PurePosixPath(path.relative_to(ROOT).as_posix()), path.read_text(encoding="utf-8")


def read_commit(folder: str, commit: str) -> Iterator[tuple[PurePosixPath, str]]:
    """Yield the modules of a commit, each with its path from the root."""
    packed = subprocess.run(["git", "archive", commit, folder], cwd=ROOT, check=True, capture_output=True).stdout  # noqa: S607
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive:
            if member.name.endswith(".py") and (stream := archive.extractfile(member)) is not None:
                yield PurePosixPath(member.name), stream.read().decode()


def count_folders(modules: Iterable[tuple[PurePosixPath, str]]) -> dict[str, Counter[str]]:
    """Return the counts of each folder that has modules, without those of its folders, and of all as ``total``."""
    counts: dict[str, Counter[str]] = {}
    for path, source in modules:
        counted = count(source)
        for name in (str(path.parent), "total"):
            counts.setdefault(name, Counter()).update(counted)
    return {name: counts[name] for name in sorted(counts, key=lambda name: (name == "total", name))}


def main() -> None:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.size", description=__doc__)
    parser.add_argument("folder", nargs="?", default="sbformat", help="the folder to count (sbformat)")
    parser.add_argument("--against", metavar="COMMIT", help="also count this commit: each number as BEFORE -> NOW")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    arguments = parser.parse_args()
    now = count_folders(read_checkout(arguments.folder))
    before = count_folders(read_commit(arguments.folder, arguments.against)) if arguments.against else {}
    if arguments.format == "json":
        print(json.dumps({"now": now, "before": before} if before else now, indent=2))
        return
    names = sorted({*now, *before}, key=lambda name: (name == "total", name))
    rows = [["", *COLUMNS]]
    for name in names:
        cells = [f"{now.get(name, Counter())[column]:,}" for column in COLUMNS]
        if before:
            cells = [
                f"{before.get(name, Counter())[column]:,} -> {cell}"
                for column, cell in zip(COLUMNS, cells, strict=True)
            ]
        rows.append([name, *cells])
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        print(row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)))


if __name__ == "__main__":
    main()
