"""SARIF logs keep Microsoft's rules, which include those of GitHub: ``sarif-multitool`` checks them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from conformance.runner.vectors import read_vectors
from sbformat.cli import main
from tests.helpers.bundled import PPO
from tests.helpers.vector_files import write_vectors

pytestmark = pytest.mark.ci_kit

NODE_MODULES: Final = os.environ.get("SBFORMAT_NODE_MODULES")
SYSTEM: Final = {"linux": "linux", "darwin": "darwin", "win32": "win32"}.get(sys.platform, "")
EVIL: Final = b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R."
NOT_KEPT: Final = {
    "SARIF2002": "messages have their text: GitHub displays nothing else (GH1007)",
    "SARIF2003": "the program that uploads a log knows the revision",
    "SARIF2006": "the test has no network",
    "SARIF2009": "rules have names that can be read, as in the other reports",
    "SARIF2010": "files are binary, so there are no snippets of code",
    "SARIF2011": "files are binary, so there are no snippets of code",
    "SARIF2013": "a log does not contain the files",
}
"""Recommendations that a log does not follow, and why not."""


def find_multitool() -> Path:
    """The program; its npm wrapper passes arguments through a shell."""
    folder = Path(NODE_MODULES or "") / "@microsoft" / f"sarif-multitool-{SYSTEM}"
    path = folder / ("Sarif.Multitool.exe" if SYSTEM == "win32" else "Sarif.Multitool")
    if NODE_MODULES is None or not path.is_file():
        pytest.skip("SBFORMAT_NODE_MODULES does not name packages for node")
    path.chmod(0o755)
    return path


def check_log(log: dict[str, Any], folder: Path) -> list[tuple[str, str, str]]:
    """Return what the rules of SARIF and of GitHub find: the rule, the level and where."""
    (folder / "log.sarif").write_text(json.dumps(log), "utf-8")
    command = [str(find_multitool()), "validate", "log.sarif", "--rule-kind", "Sarif;Ghas", "--kind", "Fail"]
    command += ["--level", "Error;Warning;Note", "--log", "ForceOverwrite", "--output", "checked.sarif"]
    subprocess.run(
        command, cwd=folder, check=False, capture_output=True,
        env={**os.environ, "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1", "DOTNET_BUNDLE_EXTRACT_BASE_DIR": str(folder)},
    )  # fmt: skip
    (run,) = json.loads((folder / "checked.sarif").read_text("utf-8-sig"))["runs"]
    return [
        (row["ruleId"], row.get("level", "warning"), str(row["message"].get("arguments", [""])[0]))
        for row in run["results"]
    ]


def scan(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """The log of a scan."""
    capsys.readouterr()
    main(["scan", "--format", "sarif", *arguments])
    log: dict[str, Any] = json.loads(capsys.readouterr().out)
    return log


def test_the_log_of_every_vector_keeps_the_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_vectors(list(read_vectors()), tmp_path / "vectors")
    monkeypatch.chdir(tmp_path)
    log = scan(capsys, "vectors", "nowhere.zip", "--list-skipped")
    assert len({result["ruleId"] for result in log["runs"][0]["results"]}) > 18
    assert [row for row in check_log(log, tmp_path) if row[0] not in NOT_KEPT] == []


def test_the_log_of_a_workspace_keeps_the_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(PPO, "a b.zip")
    Path("evil.pkl").write_bytes(EVIL)
    Path("unzipped").mkdir()
    Path("unzipped/data").write_bytes(b"{}")
    Path("unzipped/policy.pth").write_bytes(EVIL)
    found = check_log(scan(capsys, "."), tmp_path)
    assert [row for row in found if row[0] not in NOT_KEPT] == []
    found = check_log(scan(capsys, str(tmp_path)), tmp_path)
    assert [row for row in found if row[0] not in NOT_KEPT] == []


def test_a_log_without_findings_keeps_the_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert [row for row in check_log(scan(capsys, str(PPO)), tmp_path) if row[0] not in NOT_KEPT] == []


def test_the_rules_find_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "evil.pkl"
    path.write_bytes(EVIL)
    log = scan(capsys, str(path))
    for result in log["runs"][0]["results"]:
        del result["locations"][0]["physicalLocation"]["region"]
    for rule in log["runs"][0]["tool"]["driver"]["rules"]:
        del rule["help"]
    found = {rule for rule, _, _ in check_log(log, tmp_path)}
    assert {"GH1003", "GH2012"} & found
