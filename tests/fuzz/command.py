"""The command: ``python tests/fuzz TARGET [FILE...]``.

    python tests/fuzz pkl --minutes 5 --corpus /tmp/corpus    fuzz one target
    python tests/fuzz all --minutes 20 --jobs 2               all six, each so long
    python tests/fuzz pkl findings/pkl-...                    run files, without atheris

Fuzzing needs the extra ``fuzz``. At the end there is a line for each target; the exit code is 1 for findings. Each is
kept as the input, with its traceback in ``.txt`` beside it.
"""

from __future__ import annotations

import argparse
import faulthandler
import sys
import tempfile
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.fuzz.supervisor import Outcome

TARGETS: Final = ("container", "data", "pkl", "pth", "archive", "policies", "computed")
_MINUTE: Final = 60
_PATIENCE: Final = 30
"""Seconds until a file that is replayed is given up."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    asked = _parser().parse_args(arguments)
    names = TARGETS if asked.target == "all" else (asked.target,)
    return replay(names, asked.files) if asked.files else _fuzz_all(names, asked)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python tests/fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("target", choices=(*TARGETS, "all"))
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="run these files instead of fuzzing")
    parser.add_argument("--minutes", type=float, default=5.0, metavar="N", help="for each target (default: 5)")
    parser.add_argument("--corpus", type=Path, metavar="DIR", help="read and extend the corpora of DIR/TARGET")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where findings go (default: a new temporary folder)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="targets at a time (default: 1)")
    return parser


def _fuzz_all(names: Sequence[str], asked: argparse.Namespace) -> int:
    from tests.fuzz import supervisor

    supervisor.require_atheris()
    keep = asked.keep or Path(tempfile.mkdtemp(prefix="sbformat-fuzz-"))
    corpus = asked.corpus or keep / "corpus"
    _say(f"findings are kept in {keep}")

    def run(name: str) -> Outcome:
        outcome = supervisor.fuzz(name, asked.minutes * _MINUTE, corpus / name, keep)
        _say(str(outcome))
        return outcome

    with ThreadPoolExecutor(asked.jobs) as pool:
        outcomes = list(pool.map(run, names))
    for file in (file for outcome in outcomes for file in outcome.findings):
        _say(f"  {file}")
    return int(any(outcome.findings for outcome in outcomes))


def replay(names: Sequence[str], files: Sequence[Path]) -> int:
    """Run files through targets as they are, without atheris; return 1 when one is a finding."""
    from tests.fuzz import law, targets

    found = 0
    for name in names:
        one_input = targets.load(name)
        law.judge(one_input, targets.warming())
        for file in files:
            faulthandler.dump_traceback_later(_PATIENCE, exit=True)  # a hang tells where it is
            try:
                law.judge(one_input, file.read_bytes())
                _say(f"{name} {file}: keeps the law")
            except Exception:  # noqa: BLE001 -- any is a finding
                _say(f"{name} {file}: {traceback.format_exc()}")
                found = 1
            finally:
                faulthandler.cancel_dump_traceback_later()
    return found


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
