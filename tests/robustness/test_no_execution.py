"""Reading, and every command, in a process that watches every audit event: nothing of a file is run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Final

import pytest

from tests.helpers.bundled import ROOT
from tests.helpers.sampling import with_exhaustive

CHILD: Final = str(ROOT / "tests" / "children" / "watch_execution.py")
PARTS: Final = with_exhaustive([(1, 400)], [(0, 4), (1, 4), (2, 4), (3, 4)])
"""Children, each with its part of the vectors; in the default run, one with few of them."""


@pytest.mark.parametrize("part_of", PARTS, ids=str)
def test_nothing_in_a_file_is_run(part_of: tuple[int, int], tmp_path: object) -> None:
    part, parts = part_of
    command = [sys.executable, CHILD, str(tmp_path), str(part), str(parts)]
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500, env=path)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["files"] >= (3 if part else 35)
    assert report["vectors"] >= 3_600 // parts
    assert report["written"] >= (3 if parts > 4 else 20)
    assert report["seen"] == [], report["modules"]
    assert report["modules"] == []
    assert report["changed"] == []
