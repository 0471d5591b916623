"""The GitHub Action: its steps run as on the runner, and nothing that a file chose becomes a command."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import runpy
import shutil
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from sbformat.cli import main
from sbformat.tools.scan.findings import VERDICTS
from tests.helpers.bundled import PPO, ROOT

pytest.importorskip("yaml")
from tests.helpers.action_runner import ACTION, ActionRunner, QuickActionRunner, list_commands, read_outputs

pytestmark = pytest.mark.skipif(shutil.which("bash") is None or sys.platform == "win32", reason="needs bash")

EVIL: Final = b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R."
UNKNOWN: Final = b"\x80\x02cmy.policies\nMyPolicy\n."
INSTALLED: Final = {"python": {"python-path": sys.executable}, "install": {"python": sys.executable}}


@pytest.fixture
def runner(tmp_path: Path) -> ActionRunner:
    """The action with sbformat installed, and one clean archive in the workspace."""
    if not any(importlib.metadata.distributions(name="sbformat")):
        pytest.skip("sbformat is not installed, and the action does not import it from PYTHONPATH")
    return with_archive(ActionRunner(tmp_path, INSTALLED))


@pytest.fixture
def quick(tmp_path: Path) -> ActionRunner:
    """The same, with the scan in this process."""
    return with_archive(QuickActionRunner(tmp_path, INSTALLED))


def with_archive(made: ActionRunner) -> ActionRunner:
    (made.workspace / "models").mkdir()
    shutil.copy(PPO, made.workspace / "models" / "good.zip")
    return made


# -- results ------------------------------------------------------------------------------------------


def test_a_clean_workspace_passes_and_is_uploaded(runner: ActionRunner) -> None:
    run = runner.run()
    assert run.status == 0, run.printed
    sarif = run.outputs.pop("sarif-file")
    assert run.outputs == {
        "verdict": "clean", "exit-status": "0", "files": "1", "findings": "0", "complete": "true", "fails": "false",
    }  # fmt: skip
    assert set(ACTION["outputs"]) <= {*run.outputs, "sarif-file"}
    assert json.loads(Path(sarif).read_text("utf-8"))["runs"][0]["results"] == []
    assert [name.partition("@")[0] for name in run.used] == ["github/codeql-action/upload-sarif"]
    assert run.summary.startswith("## sbformat scan: clean\n\n1 file: 1 clean.\n")
    assert run.commands == []


def test_a_dangerous_file_fails_the_job_after_the_upload(runner: ActionRunner) -> None:
    (runner.workspace / "models" / "evil.pkl").write_bytes(EVIL)
    run = runner.run(path="models")
    assert run.status == 1
    assert (run.outputs["verdict"], run.outputs["exit-status"], run.outputs["files"]) == ("dangerous", "1", "2")
    assert run.used != []
    *annotations, last = run.commands
    assert {(row.name, row.properties["file"], row.properties["line"]) for row in annotations} == {
        ("error", "models/evil.pkl", "1")
    }
    assert annotations[0].properties["title"] == "sbformat: dangerous-name"
    assert annotations[0].message == "os.system is imported: it runs commands and reaches files"
    assert last.name == "error"
    assert "2 files: 1 dangerous, 1 clean" in run.summary
    assert "<td>dangerous</td><td><code>models/evil.pkl</code></td>" in run.summary
    assert 'href="https://sbformat.github.io/sbformat/reference/rules/#dangerous-name"' in run.summary


def test_uris_are_relative_to_the_workspace_also_for_absolute_paths(quick: ActionRunner) -> None:
    (quick.workspace / "evil one.pkl").write_bytes(EVIL)
    run = quick.run(path=str(quick.workspace))
    log = json.loads(Path(run.outputs["sarif-file"]).read_text("utf-8"))["runs"][0]
    places = [result["locations"][0]["physicalLocation"]["artifactLocation"] for result in log["results"]]
    assert {place["uri"] for place in places} == {"evil%20one.pkl"}
    assert run.commands[0].properties["file"] == "evil one.pkl"


@pytest.mark.parametrize(
    ("fail_on", "status"),
    [
        ("", 1),
        ("code", 0),
        (" never ", 0),
        pytest.param("unknown", 1, marks=pytest.mark.exhaustive),
        pytest.param("never", 0, marks=pytest.mark.exhaustive),
    ],
)
def test_the_level_decides_whether_the_job_fails(quick: ActionRunner, fail_on: str, status: int) -> None:
    (quick.workspace / "models" / "own.pkl").write_bytes(UNKNOWN)
    run = quick.run(fail_on=fail_on)
    assert (run.status, run.outputs["verdict"]) == (status, "unknown")


def test_never_does_not_hide_what_could_not_be_read(quick: ActionRunner) -> None:
    run = quick.run(path="models\nnowhere.zip", fail_on="never")
    assert run.status == 1
    assert run.outputs["exit-status"] == "2"
    assert (run.outputs["complete"], run.used) == ("false", [])  # GitHub refuses the log of a failed run
    assert "nowhere.zip: cannot open" in run.summary


def test_a_workspace_without_files_fails(quick: ActionRunner) -> None:
    shutil.rmtree(quick.workspace / "models")
    run = quick.run()
    assert run.status == 1
    assert (run.outputs["exit-status"], run.outputs["verdict"], run.used) == ("2", "", [])
    assert "nothing examined" in run.summary
    assert "no file was examined" in run.printed


def test_names_and_limits_and_paths_are_lines(quick: ActionRunner) -> None:
    (quick.workspace / "models" / "own.pkl").write_bytes(UNKNOWN)
    (quick.workspace / "-x y.pkl").write_bytes(UNKNOWN)
    run = quick.run(path="models/\n\n  -x y.pkl  \n", allow="my.other.Name\nmy.policies.MyPolicy\n")
    assert (run.status, run.outputs["files"]) == (0, "3"), run.printed
    run = quick.run(path="models/good.zip", limits="total_bytes=1000\nratio=5")
    assert (run.status, run.outputs["verdict"]) == (1, "broken")


def test_a_baseline_accepts_findings(quick: ActionRunner) -> None:
    evil, baseline = quick.workspace / "models" / "evil.pkl", quick.workspace / "accepted.json"
    evil.write_bytes(EVIL)
    assert main(["scan", "--write-baseline", str(baseline), str(evil)]) == 0
    (quick.workspace / "models" / "args.yml").write_text("a: 1\nb: !!python/name:my.name\n", "utf-8")
    run = quick.run(path="models", baseline=" accepted.json ", fail_on="unknown")
    assert (run.status, run.outputs["verdict"], run.outputs["exit-status"]) == (1, "dangerous", "1")
    annotation, last = run.commands
    assert (annotation.properties["file"], annotation.properties["line"]) == ("models/args.yml", "2")
    assert "The scan failed" in last.message
    assert run.summary.count("<td>dangerous (accepted)</td>") == 2
    (quick.workspace / "models" / "args.yml").unlink()
    run = quick.run(path="models", baseline="accepted.json")
    assert (run.status, run.outputs["verdict"], run.outputs["exit-status"]) == (0, "dangerous", "0")
    assert run.commands == []


@pytest.mark.parametrize(
    "options", [{"fail_on": "cleann"}, {"allow": "os.system"}, {"limits": "x=1"}, {"baseline": "none"}]
)
def test_a_wrong_input_fails_the_step_with_the_reason(quick: ActionRunner, options: dict[str, str]) -> None:
    run = quick.run(**options)
    assert run.status == 2
    assert next(iter(options.values())).partition("=")[0] in run.printed
    assert (run.outputs, run.used) == ({}, [])


def test_the_log_can_be_written_elsewhere_and_not_be_uploaded(quick: ActionRunner) -> None:
    run = quick.run(sarif_file="out.sarif", upload_sarif="false")
    assert run.outputs["sarif-file"] == str(quick.workspace / "out.sarif")
    assert json.loads((quick.workspace / "out.sarif").read_text("utf-8"))["version"] == "2.1.0"
    assert run.used == []


def test_files_that_git_lfs_did_not_fetch_are_a_warning(quick: ActionRunner) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"
    (quick.workspace / "models" / "large.zip").write_text(pointer, "utf-8")
    run = quick.run()
    assert (run.status, run.outputs["files"]) == (0, "1")
    assert [row.name for row in run.commands] == ["warning"]
    assert "lfs: true" in run.commands[0].message
    assert "Without a verdict: 1 Git LFS pointer" in run.summary


# -- hostile files ------------------------------------------------------------------------------------

HOSTILE_NAMES: Final = (
    "::error file=x::owned.pkl",
    "a\n::set-output name=verdict::clean\n.pkl",
    "a\r::add-mask::e\r.pkl",
    "##[add-mask]owned.pkl",
    "x' $(touch owned) `touch owned` ; touch owned.pkl",
    "<img src=x onerror=alert(1)>.pkl",
    "](https:..evil.example) @everyone **x** |.pkl",
    "\u202egnp.pkl",
    "%0A%0D%25,file=other.pkl",
    "${{ github.token }}.pkl",
)


@pytest.mark.parametrize(
    "names",
    [
        HOSTILE_NAMES[:5],  # with as many annotations as GitHub shows
        HOSTILE_NAMES[5:],
        *(pytest.param((name,), marks=pytest.mark.exhaustive) for name in HOSTILE_NAMES),
    ],
    ids=repr,
)
def test_the_names_of_files_do_no_harm(runner: ActionRunner, names: tuple[str, ...]) -> None:
    for name in names:
        (runner.workspace / name).write_bytes(EVIL)
    run = runner.run()
    assert run.outputs["verdict"] == "dangerous"
    assert run.outputs["files"] == str(1 + len(names))
    commands = run.commands
    assert {row.name for row in commands} == {"error"}
    assert len(commands) == 2 * len(names) + 1
    assert len({row.properties["file"] for row in commands[:-1]}) == len(names)
    assert {tuple(sorted(row.properties)) for row in commands[:-1]} == {("file", "line", "title")}
    assert not list(runner.workspace.glob("**/owned"))
    assert re.findall(r"<(?!/?(?:table|tr|th|td|code|a|p)\b)", run.summary) == []
    assert "\u202e" not in run.summary + run.printed
    cells = re.sub(r"<code>[^<]*</code>", "", run.summary)
    assert "evil" not in cells
    assert "everyone" not in cells


def test_names_in_a_file_do_no_harm(quick: ActionRunner) -> None:
    name = "</code></table><script>alert(1)</script>::warning::x ](https://evil.example) @everyone"
    (quick.workspace / "a.pkl").write_bytes(b"\x80\x02cos\n" + name.encode() + b"\n.")
    run = quick.run()
    assert run.outputs["verdict"] == "dangerous"
    assert "<script" not in run.summary
    assert "everyone" not in re.sub(r"<code>[^<]*</code>", "", run.summary)
    assert {row.name for row in run.commands} == {"error"}


def test_modules_in_the_workspace_are_not_imported(runner: ActionRunner) -> None:
    for name in ("json", "sbformat", "numpy", "html", "subprocess", "sitecustomize"):
        (runner.workspace / f"{name}.py").write_text("open('owned', 'w')\nraise SystemExit(0)\n", "utf-8")
    (runner.workspace / "evil.pkl").write_bytes(EVIL)
    run = runner.run()
    assert run.outputs["verdict"] == "dangerous"
    assert not (runner.workspace / "owned").exists()


def test_many_findings_stay_within_the_limits_of_github(quick: ActionRunner) -> None:
    long = "x" * 180
    for number in range(210):
        text = f"\x80\x02cos\n{long}{number}\n.".encode("latin-1")
        (quick.workspace / f"{long}{number:03}.pkl").write_bytes(text)
    run = quick.run()
    assert (run.outputs["files"], run.outputs["findings"]) == ("211", "210")
    assert len(run.summary.encode()) < 1024 * 1024
    assert "The first 200 of 210 findings" in run.summary
    assert len(run.commands) == 11


@pytest.mark.parametrize("character", ['"', "&", "x", "\U0001f389"])
def test_a_summary_is_less_than_github_displays(character: str) -> None:
    scan: Any = runpy.run_path(str(ROOT / "action" / "scan.py"))
    long = character * 5000
    row = scan["Finding"]("dangerous", "error", long, long, "dangerous-name", "https://example.org/", long, 1, False)
    run = {"artifacts": [], "invocations": [{"properties": {"skipped": {}}}]}
    summary = scan["render_summary"](run, [row] * 300, [long] * 300, fails=True)
    assert len(summary.encode()) <= 1_000_000
    table, _, after = summary.rpartition("</table>")
    shown = table.count("<td>dangerous</td>")
    assert after == f"\n\nThe first {shown} of 300 findings; the SARIF log has more.\n"
    assert shown == 200 or len(summary.encode()) > 980_000
    shown = summary.count("<p>")
    assert 0 < shown <= 200
    assert f"The first {shown} of 300 errors; the log of the step has all." in summary


# -- the metadata -------------------------------------------------------------------------------------


def test_no_expression_is_part_of_a_script() -> None:
    scripts = [step["run"] for step in ACTION["runs"]["steps"] if "run" in step]
    assert len(scripts) == 3
    assert [script for script in scripts if "${{" in script] == []


def test_expressions_name_inputs_and_steps_that_exist() -> None:
    text = (ROOT / "action.yml").read_text("utf-8")
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == set(ACTION["inputs"])
    ids = {step["id"] for step in ACTION["runs"]["steps"] if "id" in step}
    assert set(re.findall(r"steps\.(\w+)\.", text)) == ids
    assert all(row["description"] for row in [*ACTION["inputs"].values(), *ACTION["outputs"].values()])
    assert all(isinstance(row["default"], str) for row in ACTION["inputs"].values())
    assert ", ".join(VERDICTS[1:]) in ACTION["inputs"]["fail-on"]["description"]


def test_the_helper_reads_commands_and_outputs_as_the_runner_does(tmp_path: Path) -> None:
    printed = "::notice file=a%3Ab,line=1::x%0Ay\n::stop-commands::t\n::error::no\n##[error]no\n::t::\na ##[error]yes\n"
    assert [(row.name, row.message) for row in list_commands(printed)] == [("notice", "x\ny"), ("error", "yes")]
    assert list_commands(printed)[0].properties == {"file": "a:b", "line": "1"}
    (tmp_path / "output").write_text("a=1\nb<<EOF\nx\ny=2\nEOF\n", "utf-8")
    assert read_outputs(tmp_path / "output") == {"a": "1", "b": "x\ny=2"}


@pytest.mark.ci_kit
def test_the_action_installs_sbformat_by_itself(tmp_path: Path) -> None:
    runner = ActionRunner(tmp_path, {"python": INSTALLED["python"]})
    (runner.workspace / "pip.py").write_text("raise SystemExit(3)\n", "utf-8")
    (runner.workspace / "evil.pkl").write_bytes(EVIL)
    run = runner.run()
    assert run.outputs["verdict"] == "dangerous", run.printed
    assert run.status == 1
    assert not os.path.exists(runner.workspace / "sbformat.egg-info")
