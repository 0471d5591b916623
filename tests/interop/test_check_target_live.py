"""What ``check_target`` says of archives, and what the installed SB3 makes of them: whole is a promise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest

pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")
pytest.importorskip("sb3_contrib")

import sbformat
from sbformat.errors import SbformatError
from sbformat.tools.check_target import check_target
from tests.helpers.bundled import PPO, ROOT, SAC
from tests.helpers.old_archives import OLD
from tests.helpers.sampling import HAS_ALL
from tests.helpers.shared_files import DAMAGED, generated_files, summarize_counts

if TYPE_CHECKING:
    from pathlib import Path

CHILD: Final = ROOT / "tests" / "interop" / "load_child.py"
SAMPLED: Final = 12
"""Of the generated archives, one in so many; ``SBFORMAT_ALL=1`` takes all."""
GENERATED: Final = [path for path in generated_files("*.zip", "2.*", "1.6.2", "extra") if path.name != DAMAGED]
ARCHIVES: Final = [PPO, SAC, OLD, *(path for number, path in enumerate(GENERATED) if HAS_ALL or not number % SAMPLED)]
TOO_CAREFUL: Final = "customextractor"
"""Archives with a features extractor by value: what SB3 makes of it is not known."""

COUNTED: Final[Counter[str]] = Counter()
_summary = summarize_counts(COUNTED, "test_check_target_live.py:")


def test_the_installed_sb3_loads_whole_what_is_said_to_be(tmp_path: Path) -> None:
    paths = list(ARCHIVES)
    for number, path in enumerate(ARCHIVES):
        made = tmp_path / f"{number}.zip"
        try:
            sbformat.write(sbformat.rebuild(path, target=check_target(path, target="installed").target).archive, made)
        except SbformatError:
            continue
        paths.append(made)
    jobs = tmp_path / "jobs.json"
    jobs.write_text(json.dumps([(str(path), sbformat.read(path).algorithm.name or "") for path in paths]))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(CHILD), str(jobs)], stdout=subprocess.PIPE, text=True, check=True, env=environment
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(paths)
    wrong, too_careful = [], []
    for path, lost in zip(paths, found):
        report = check_target(path, target="installed")
        COUNTED[f"{'whole' if report.loads_whole else 'not whole'}, as SB3 does"] += report.loads_whole == (not lost)
        if report.loads_whole and lost:
            wrong.append((path.name, lost))
        elif not report.loads_whole and not lost:
            too_careful.append(path.name)
    assert wrong == []
    assert [name for name in too_careful if TOO_CAREFUL not in name] == []
