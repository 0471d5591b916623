"""Reading, and every command, in a process that watches every audit event: nothing of a file is run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Final

import pytest

from tests.helpers.bundled import ROOT

pytestmark = pytest.mark.exhaustive

CHILD: Final = str(ROOT / "tests" / "children" / "watch_execution.py")
PARTS: Final = 4
"""Children, each with its part of the vectors."""


@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_in_a_file_is_run(part: int, tmp_path: object) -> None:
    command = [sys.executable, CHILD, str(tmp_path), str(part), str(PARTS)]
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500, env=path)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["files"] >= (0 if part else 35)
    assert report["vectors"] >= 200
    assert report["written"] >= 20
    assert report["seen"] == [], report["modules"]
    assert report["modules"] == []
    assert report["changed"] == []
