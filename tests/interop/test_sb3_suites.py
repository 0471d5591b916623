"""SB3's own tests of saving and loading, with ``sbformat.sb3`` in the place of its loaders.

``SBFORMAT_SB3_SOURCE`` names a checkout of the installed release of SB3, whose tests are not in its package; without
it, this module is skipped. ``nox -s sb3_suites`` fetches one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")

from tests.helpers.bundled import ROOT

SOURCE: Final = os.environ.get("SBFORMAT_SB3_SOURCE", "")

pytestmark = [
    pytest.mark.skipif(not SOURCE, reason="SBFORMAT_SB3_SOURCE names no checkout of Stable-Baselines3"),
]

SUITES: Final = {
    "test_save_load.py": "not large",
    "test_vec_normalize.py": "",
    "test_her.py": "save_load",
    "test_callbacks.py": "checkpoint_additional_info",
    "test_cnn.py": "test_cnn or channel_first",
    "test_run.py": "train_freq",
}
"""The files with tests that load something, and which of their tests."""

EXECUTES_THE_FILE: Final = {
    "test_save_load_backward_compatible[PPO]": "expects the lambda itself, by its name",
}
"""Tests that pass only if code of the file ran."""


def run_suite(folder: Path, name: str, chosen: str) -> dict[str, str]:
    """Run one file of SB3's tests; return its tests with their outcomes: passed, skipped, or why it failed."""
    result = folder / "result.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.interop.sb3_suite_plugin"]
    options = [f"--junitxml={result}", "-W", "ignore::pytest.PytestConfigWarning", *(["-k", chosen] if chosen else [])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))}
    ran = subprocess.run(
        [*command, *options, f"tests/{name}"],
        cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=3600,
    )  # fmt: skip
    assert result.exists(), ran.stdout[-4000:] + ran.stderr[-4000:]
    outcomes = {}
    for case in ET.parse(result).iter("testcase"):  # noqa: S314 -- pytest wrote it
        fault = next((part for part in case if part.tag in ("failure", "error", "skipped")), None)
        outcomes[case.attrib["name"]] = (
            "passed"
            if fault is None
            else "skipped"
            if fault.tag == "skipped"
            else fault.attrib.get("message", fault.tag)
        )
    return outcomes


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", SUITES)
def test_sb3s_own_tests_pass(tmp_path: Path, name: str) -> None:
    """All pass, except for those that assert that code of the file ran."""
    # A copy, since a package named ``tests`` beside ours would hide the plugin.
    shutil.copytree(Path(SOURCE) / "tests", tmp_path / "tests", ignore=shutil.ignore_patterns("__init__.py"))
    outcomes = run_suite(tmp_path, name, SUITES[name])
    failed = {test: why for test, why in outcomes.items() if why not in ("passed", "skipped")}
    assert {test: why for test, why in failed.items() if test not in EXECUTES_THE_FILE} == {}
    assert "passed" in outcomes.values()
