"""``sbformat rebuild`` of folders and of several files: what is written where, what is copied, and how it fails."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import sbformat
from sbformat.cli import main
from sbformat.cli._rebuild_folder import make_plan
from sbformat.limits import DEFAULT_LIMITS
from sbformat.pkl import Call, Global
from tests.cli.test_commands import run
from tests.helpers import thresholds
from tests.helpers.build_statistics import SB2, pickled, returns, rms
from tests.helpers.bundled import PPO, ROOT, SAC
from tests.helpers.old_archives import OLD, blob, with_keys
from tests.helpers.reports import REPORT
from tests.helpers.run_folders import AGENT, BUFFER, STATISTICS, make_folder, make_hub, make_zoo

if TYPE_CHECKING:
    from pathlib import Path

Capture = pytest.CaptureFixture[str]


def run_document(capsys: Capture, *args: object) -> tuple[int, dict[str, Any]]:
    """Run ``rebuild`` with --format json; its status and document, checked against the schema."""
    status, out = run(capsys, "rebuild", *args, "--format", "json")
    document: dict[str, Any] = json.loads(out)
    REPORT.validate(document)
    return status, document


def list_below(top: Path) -> list[str]:
    return sorted(str(path.relative_to(top)) for path in top.rglob("*") if path.is_file())


def test_a_folder_is_rebuilt_with_the_same_paths(capsys: Capture, tmp_path: Path) -> None:
    make_zoo(tmp_path / "runs" / "sac" / "Pendulum-v1_1")
    shutil.copy(OLD, tmp_path / "runs" / "old.zip")
    out = tmp_path / "out"
    status, document = run_document(capsys, tmp_path / "runs", "-o", out)
    assert status == 0
    expected = [
        "old.zip",
        "sac/Pendulum-v1_1/Pendulum-v1.zip",
        "sac/Pendulum-v1_1/Pendulum-v1/vecnormalize.pkl",
        "sac/Pendulum-v1_1/best_model.zip",
        *(
            f"sac/Pendulum-v1_1/rl_model_{part}_steps.{suffix}"
            for part, suffix in (("1000", "zip"), ("200", "zip"), ("30000", "zip"), ("vecnormalize_1000", "pkl"),
                                 ("vecnormalize_200", "pkl"), ("vecnormalize_30000", "pkl"))
        ),
    ]  # fmt: skip
    assert list_below(out) == expected
    assert {report["output"] for report in document["files"]} == {str(out / name) for name in expected}
    assert sbformat.read(out / "old.zip") == sbformat.rebuild(OLD).archive
    assert sbformat.read_vecnormalize(out / expected[2]).obs_rms is not None
    left = {os.path.basename(row["path"]): row["message"] for row in document["others"]}
    assert left["config.yml"] == "settings: not copied without --copy-others"
    assert "--copy-buffers" in left["rl_model_replay_buffer_200_steps.pkl"]
    assert not any(row["copied"] for row in document["others"])


def test_the_text_has_a_row_for_each_file(capsys: Capture, tmp_path: Path) -> None:
    make_folder(tmp_path / "runs", {"a/one.zip": OLD.read_bytes(), "a/vecnormalize.pkl": STATISTICS, "README.md": b"#"})
    status, text = run(capsys, "rebuild", tmp_path / "runs", "-o", tmp_path / "out")
    assert status == 0
    lines = [line.split() for line in text.splitlines()]
    assert lines[0][1:] == ["2", "files", "rebuilt,", "1", "not", "copied"]
    assert ["a/one.zip", "PPO", "SB3", "1.0", "25", "14", "0", "1"] in lines
    assert any(line[:2] == ["a/vecnormalize.pkl", "VecNormalize"] for line in lines)
    assert any(line[:1] == ["README.md"] for line in lines)
    assert run(capsys, "rebuild", tmp_path / "runs", "-o", tmp_path / "new", "--quiet") == (0, "")
    long = run(capsys, "rebuild", tmp_path / "runs", "-o", tmp_path / "out", "--force", "--long")[1]
    assert "observation_space" in long


def test_one_bad_file_does_not_stop_the_rest(capsys: Capture, tmp_path: Path) -> None:
    make_folder(tmp_path / "runs", {"bad.zip": AGENT[:500], "noise.pkl": b"\x00\x01\x02", "good.zip": AGENT})
    status, document = run_document(capsys, tmp_path / "runs", "-o", tmp_path / "out")
    assert status == 2
    assert {os.path.basename(report["path"]): report["outcome"] for report in document["files"]} == {
        "bad.zip": "container failure",
        "good.zip": "ok",
        "noise.pkl": "container failure",
    }
    assert list_below(tmp_path / "out") == ["good.zip"]


def test_a_finding_is_the_status_of_the_run(capsys: Capture, tmp_path: Path) -> None:
    archive = with_keys(learning_rate=blob(Call("REDUCE", Global("os", "system"), ("true",))))
    (tmp_path / "runs").mkdir()
    sbformat.write(archive, tmp_path / "runs" / "a.zip")
    (tmp_path / "runs" / "b.zip").write_bytes(AGENT)
    status, text = run(capsys, "rebuild", tmp_path / "runs", "-o", tmp_path / "out", "--quiet")
    assert status == 1
    assert "learning_rate" in next(line for line in text.splitlines() if line.strip().startswith("a.zip"))


def test_nothing_is_overwritten_without_force(capsys: Capture, tmp_path: Path) -> None:
    make_folder(tmp_path / "runs", {"a.zip": AGENT, "b.zip": AGENT})
    make_folder(tmp_path / "out", {"a.zip": b"mine"})
    status, document = run_document(capsys, tmp_path / "runs", "-o", tmp_path / "out")
    assert status == 2
    assert [(report["outcome"], "--force" in report.get("message", "")) for report in document["files"]] == [
        ("cannot write", True),
        ("ok", False),
    ]
    assert (tmp_path / "out" / "a.zip").read_bytes() == b"mine"
    assert run_document(capsys, tmp_path / "runs", "-o", tmp_path / "out", "--force")[0] == 0
    assert sbformat.read(tmp_path / "out" / "a.zip").algorithm.name == "PPO"


def test_other_files_are_copied_on_request_if_scan_finds_nothing(capsys: Capture, tmp_path: Path) -> None:
    runs = make_hub(tmp_path / "runs")
    make_folder(runs, {
        "evil.yml": b'a: !!python/object/apply:os.system ["x"]\n', "run.sh": b"#!/bin/sh\n", "train.py": b"import os\n",
        "evil.npy": b"\x80\x04cos\nsystem\n(S'x'\ntR.", "video.mp4": b"\0\0\0\x18ftypmp42" + bytes(range(256)),
        "replay_buffer.pkl": BUFFER,
    })  # fmt: skip
    out = tmp_path / "out"
    status, document = run_document(capsys, runs, "-o", out, "--copy-others")
    assert status == 0
    rows = {os.path.basename(row["path"]): (row["copied"], row["message"]) for row in document["others"]}
    assert {name for name, (copied, _) in rows.items() if copied} == {
        "README.md", "results.json", "train_eval_metrics.zip", "video.mp4",
    }  # fmt: skip
    assert rows["evil.yml"][1].startswith("dangerous: os.system is called")
    assert rows["evil.npy"][1].startswith("dangerous: ")
    assert rows["run.sh"] == rows["train.py"] == (False, "programs are not copied")
    assert rows["sac-Pendulum"] == (False, "an unzipped archive; 'sac-Pendulum.zip' beside it is rebuilt")
    assert (out / "video.mp4").read_bytes() == (runs / "video.mp4").read_bytes()
    assert run_document(capsys, runs, "-o", tmp_path / "b", "--copy-buffers")[0] == 0
    assert list_below(tmp_path / "b") == ["replay_buffer.pkl", "sac-Pendulum.zip", "vec_normalize.pkl"]
    assert (tmp_path / "b" / "replay_buffer.pkl").read_bytes() == BUFFER


def test_several_files_keep_their_paths_below_the_folder_of_all(capsys: Capture, tmp_path: Path) -> None:
    make_folder(tmp_path, {"runs/a/m.zip": AGENT, "runs/b/m.zip": AGENT, "runs/b/vecnormalize.pkl": STATISTICS})
    runs, out = tmp_path / "runs", tmp_path / "out"
    assert run_document(capsys, runs / "a" / "m.zip", runs / "b", "-o", out)[0] == 0
    assert list_below(out) == ["a/m.zip", "b/m.zip", "b/vecnormalize.pkl"]
    assert run_document(capsys, runs / "a" / "m", "-o", f"{tmp_path}/new/")[0] == 0
    assert list_below(tmp_path / "new") == ["m.zip"]
    assert run_document(capsys, PPO, SAC, "-o", tmp_path / "two")[0] == 0
    assert list_below(tmp_path / "two") == ["ppo-cartpole.zip", "sac-pendulum.zip"]


def test_a_named_file_that_is_not_rebuilt_is_a_failure(capsys: Capture, tmp_path: Path) -> None:
    make_folder(tmp_path, {"replay_buffer.pkl": BUFFER, "text.zip": b"hello", "a.zip": AGENT})
    files = [tmp_path / name for name in ("replay_buffer.pkl", "text.zip", "nowhere.zip", "a.zip")]
    status, document = run_document(capsys, *files, "-o", tmp_path / "out")
    assert status == 2
    assert {os.path.basename(report["path"]): report["outcome"] for report in document["files"]} == {
        "replay_buffer.pkl": "unsupported",
        "text.zip": "container failure",
        "nowhere.zip": "cannot open",
        "a.zip": "ok",
    }


def test_outputs_that_would_be_the_same_are_refused(capsys: Capture, tmp_path: Path) -> None:
    make_folder(tmp_path / "runs", {"A.zip": AGENT, "a.zip": AGENT})
    status, document = run_document(capsys, tmp_path / "runs", "-o", tmp_path / "out")
    assert status == 2
    assert sorted(report["outcome"] for report in document["files"]) == ["ok", "unsupported"]


def test_an_output_within_the_input_is_not_read_again(capsys: Capture, tmp_path: Path) -> None:
    make_folder(tmp_path, {"a.zip": AGENT})
    for options in ((), ("--force",)):
        assert run_document(capsys, tmp_path, "-o", tmp_path / "out", *options)[0] == 0
    assert list_below(tmp_path) == ["a.zip", "out/a.zip"]


@pytest.mark.parametrize("output", ["runs", "file"])
def test_an_output_that_is_not_another_folder_is_refused(capsys: Capture, tmp_path: Path, output: str) -> None:
    make_folder(tmp_path, {"runs/a.zip": AGENT, "runs/b.zip": AGENT, "file": b"x"})
    status, document = run_document(capsys, tmp_path / "runs", "-o", tmp_path / output)
    assert (status, [report["outcome"] for report in document["files"]] != ["ok"]) == (2, True)
    assert list_below(tmp_path) == ["file", "runs/a.zip", "runs/b.zip"]


def test_several_files_are_not_written_to_standard_output(capsys: Capture) -> None:
    assert main(["rebuild", str(PPO), str(SAC), "-o", "-"]) == 2
    assert "the output is a folder" in capsys.readouterr().err


def test_nothing_is_written_through_a_link_out_of_the_output(capsys: Capture, tmp_path: Path) -> None:
    make_folder(tmp_path, {"runs/sub/a.zip": AGENT, "elsewhere/b": b"x"})
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "sub").symlink_to(tmp_path / "elsewhere")
    status, document = run_document(capsys, tmp_path / "runs", "-o", tmp_path / "out")
    assert (status, "a link that leads out" in document["files"][0]["message"]) == (2, True)
    assert list_below(tmp_path / "elsewhere") == ["b"]


def test_an_empty_folder_is_reported(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    status, document = run_document(capsys, tmp_path / "runs", "-o", tmp_path / "out")
    assert (status, document["files"][0]["outcome"]) == (2, "missing")
    assert not (tmp_path / "out").exists()


def test_files_of_sb2_become_those_of_sb3(capsys: Capture, tmp_path: Path) -> None:
    pair = {"A/obs_rms.pkl": pickled(rms(library=SB2)), "A/ret_rms.pkl": pickled(returns(SB2))}
    make_folder(tmp_path / "runs", pair)
    status, document = run_document(capsys, tmp_path / "runs", "-o", tmp_path / "out")
    assert status == 0, document
    assert list_below(tmp_path / "out") == ["A/vecnormalize.pkl"]
    assert sbformat.read_vecnormalize(tmp_path / "out" / "A" / "vecnormalize.pkl").library == "stable_baselines3"


def test_agents_of_sb2_become_archives_of_sb3(tmp_path: Path) -> None:
    pickle = (ROOT / "tests" / "nets" / "archives" / "sb2" / "ddpg-list.pkl").read_bytes()
    make_folder(tmp_path / "runs", {"a/x.pkl": pickle, "b/x.pkl": pickle, "b/x.zip": AGENT})
    plan = make_plan([str(tmp_path / "runs")], "out", DEFAULT_LIMITS, copy_others=False, copy_buffers=False)
    assert sorted(job.output for job in plan.jobs) == ["out/a/x.zip", "out/b/x.pkl.zip", "out/b/x.zip"]
    assert plan.failed == []


def test_many_processes_give_the_same_result(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared_processes: list[int]
) -> None:
    monkeypatch.setattr(thresholds.PROCESS_FILES, 8)
    agents = {f"{number}.zip": AGENT for number in range(2)}
    make_folder(tmp_path / "runs", {**agents, **{f"{number}.pkl": STATISTICS for number in range(2, 8)}})
    documents = [
        run_document(capsys, tmp_path / "runs", "-o", tmp_path / jobs, "--jobs", jobs)[1] for jobs in ("1", "2")
    ]
    for document in documents:
        for report in document["files"]:
            report["output"] = os.path.basename(report["output"])
    assert documents[0] == documents[1]
    assert len(list_below(tmp_path / "2")) == 8
    assert shared_processes == [1, 2]


def test_the_text_names_the_files_that_failed(capsys: Capture, tmp_path: Path) -> None:
    make_folder(tmp_path / "runs", {"bad.zip": AGENT[:500], "good.zip": AGENT, "noext": AGENT})
    status, text = run(capsys, "rebuild", tmp_path / "runs", "-o", tmp_path / "out")
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert status == 2
    assert lines[lines.index("failed") + 2].startswith("bad.zip container failure: ")
    assert list_below(tmp_path / "out") == ["good.zip", "noext.zip"]


@pytest.mark.parametrize(
    ("first", "second"), [("x.pkl", "X.PKL"), ("caf\u00e9.pkl", "cafe\u0301.pkl"), ("A/x.zip", "a/x.zip")]
)
def test_names_that_some_file_systems_do_not_distinguish_are_refused(
    capsys: Capture, tmp_path: Path, first: str, second: str
) -> None:
    make_folder(tmp_path / "runs", dict.fromkeys((first, second), AGENT if first.endswith(".zip") else STATISTICS))
    if len(list_below(tmp_path / "runs")) == 1:
        pytest.skip("this file system does not distinguish them")
    (tmp_path / "runs" / f"same{first[-4:]}").symlink_to(first)
    for sources in ([tmp_path / "runs" / name for name in (first, second, f"same{first[-4:]}")], [tmp_path / "runs"]):
        out = tmp_path / f"out{len(sources)}"
        status, document = run_document(capsys, *sources, "-o", out)
        assert (status, len(list_below(out))) == (2, 2)
        (message,) = [report["message"] for report in document["files"] if report["outcome"] != "ok"]
        assert "would be that of" in message


def test_a_file_that_is_read_is_never_an_output(capsys: Capture, tmp_path: Path) -> None:
    make_folder(tmp_path, {"d/a.zip": AGENT, "d/e/a.zip": OLD.read_bytes()})
    status, document = run_document(
        capsys, tmp_path / "d" / "a.zip", tmp_path / "d" / "e" / "a.zip", "-o", tmp_path / "d" / "e", "--force"
    )
    assert status == 2
    assert (tmp_path / "d" / "e" / "a.zip").read_bytes() == OLD.read_bytes()
    assert [report["outcome"] for report in document["files"]] == ["unsupported", "ok"]
