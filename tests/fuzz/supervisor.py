"""One target for so long: starts the engine, starts it again when an input killed it, and counts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.fuzz import ROOT
from tests.fuzz.findings import Findings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MAX_BYTES: Final = 1 << 16
"""Of one input. A hostile file of 2 MB has 2 s: one of this size is far within them."""
_FLAGS: Final = (
    f"-max_len={MAX_BYTES}",
    "-mutate_depth=2",
    "-timeout=10",
    "-rss_limit_mb=2048",
    "-print_final_stats=1",
)
_EXECUTIONS: Final = re.compile(rb"stat::number_of_executed_units:\s*(\d+)")
_TAIL: Final = 2000
_MOST_FRUITLESS: Final = 5
"""Starts in a row that run nothing before it is given up."""


class Outcome(NamedTuple):
    """What came of one target."""

    target: str
    executions: int
    seconds: float
    corpus: int
    findings: list[Path]

    def __str__(self) -> str:
        return (
            f"{self.target}: {self.executions} executions in {self.seconds:.0f} s, a corpus of {self.corpus} inputs, "
            f"{len(self.findings)} findings"
        )


def require_atheris() -> None:
    """Say what is missing.

    :raises SystemExit: without atheris
    """
    if find_spec("atheris") is None:
        sys.exit('fuzzing needs atheris, an extra: pip install "sbformat[fuzz]"; files are replayed without it')


def fuzz(target: str, seconds: float, corpus: Path, keep: Path) -> Outcome:
    """Fuzz one target.

    :param target: its name
    :param seconds: in all, seeds included
    :param corpus: read first, and added to
    :param keep: where findings and the engine's log go
    """
    from tests.fuzz import seeds

    corpus, keep = corpus.absolute(), keep.absolute()
    start = time.monotonic()
    seeds.write(target, corpus, MAX_BYTES)
    findings = Findings(keep, target)
    executions = fruitless = 0
    while (left := int(seconds - (time.monotonic() - start))) > 0 and fruitless < _MOST_FRUITLESS:
        log = keep / f"{target}.log"
        flags = [*_FLAGS, f"-max_total_time={left}", f"-artifact_prefix={findings.artifact_prefix}", str(corpus)]
        is_done, count = _run(target, keep, flags, log)
        executions += count
        fruitless = 0 if count else fruitless + 1
        for digest in findings.killers():
            (corpus / digest).unlink(missing_ok=True)
        if is_done:
            break
    if not executions:
        sys.exit(f"{target}: the engine does not run: {log.read_bytes()[-_TAIL:].decode('utf-8', 'replace')}")
    return Outcome(target, executions, time.monotonic() - start, len(os.listdir(corpus)), findings.files())


def _run(target: str, keep: Path, flags: Sequence[str], log: Path) -> tuple[bool, int]:
    """Run the engine once; return whether it ended by itself, and how many inputs it ran."""
    command = [sys.executable, "-m", "tests.fuzz.engine", target, str(keep), *flags]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with log.open("wb") as file:
        done = subprocess.run(command, stdout=file, stderr=file, env=environment, cwd=ROOT, check=False)
    counts = _EXECUTIONS.findall(log.read_bytes())
    return done.returncode == 0, int(counts[-1]) if counts else 0
