"""Which files of a folder belong together: the layouts of rl_zoo3, the Hugging Face tools and SB3's callbacks."""

from __future__ import annotations

import os
import zipfile
from typing import TYPE_CHECKING

import pytest

import sbformat
from sbformat import find_agent, inspect_folder
from sbformat.folders.names import order_key, parse_name
from tests.helpers.bundled import PPO, zipped
from tests.helpers.run_folders import AGENT, BUFFER, CONFIG, STATISTICS, make_folder, make_hub, make_zoo

if TYPE_CHECKING:
    from pathlib import Path


def describe(top: Path) -> dict[str, tuple[object, ...]]:
    """Return the files of each agent, in the order of the report."""
    return {row.path: row[2:] for row in sbformat.inspect_folder(top).agents}


def test_a_run_of_rl_zoo3(tmp_path: Path) -> None:
    settings = ("Pendulum-v1/args.yml", "Pendulum-v1/config.yml")
    last = ("Pendulum-v1/vecnormalize.pkl",)
    found = describe(make_zoo(tmp_path))
    assert list(found) == [
        "best_model.zip",
        "Pendulum-v1.zip",
        "rl_model_200_steps.zip",
        "rl_model_1000_steps.zip",
        "rl_model_30000_steps.zip",
    ]
    logs = ("0.monitor.csv",)
    assert found["best_model.zip"] == ("best", None, last, None, settings, logs, None)
    assert found["Pendulum-v1.zip"] == ("agent", None, last, None, settings, logs, None)
    assert found["rl_model_1000_steps.zip"] == (
        "checkpoint",
        1000,
        ("rl_model_vecnormalize_1000_steps.pkl",),
        "rl_model_replay_buffer_1000_steps.pkl",
        settings,
        logs,
        None,
    )


def test_a_repository_of_the_hugging_face_tools(tmp_path: Path) -> None:
    report = sbformat.inspect_folder(make_hub(tmp_path))
    assert [row[2:] for row in report.agents] == [
        (
            "agent",
            None,
            ("vec_normalize.pkl",),
            None,
            (),
            ("train_eval_metrics.zip",),
            "sac-Pendulum",
        )
    ]
    titles = {file.path: (file.title, file.outcome) for file in report.others}
    assert titles == {
        "README.md": ("description", "ok"),
        "results.json": ("evaluation of the Hugging Face tools", "ok"),
        "train_eval_metrics.zip": ("training and evaluation metrics of rl_zoo3", "ok"),
        "vec_normalize.pkl": ("statistics of VecNormalize", "ok"),
    }
    assert report.unreadable == ()
    assert repr(report) == "<FolderReport 1 agent, 4 other files>"


def test_agents_side_by_side_have_the_files_of_their_names(tmp_path: Path) -> None:
    found = describe(
        make_folder(tmp_path, {
            "a2c/One.zip": AGENT, "a2c/One/vecnormalize.pkl": STATISTICS, "a2c/Two.zip": AGENT,
            "b/one.zip": AGENT, "b/two.zip": AGENT, "b/one_vecnormalize.pkl": STATISTICS,
            "b/vecnormalize_two.pkl": STATISTICS, "b/two_replay_buffer.pkl": BUFFER,
        })
    )  # fmt: skip
    assert {name: row[2:4] for name, row in found.items()} == {
        "a2c/One.zip": (("a2c/One/vecnormalize.pkl",), None),
        "a2c/Two.zip": ((), None),
        "b/one.zip": (("b/one_vecnormalize.pkl",), None),
        "b/two.zip": (("b/vecnormalize_two.pkl",), "b/two_replay_buffer.pkl"),
    }


def test_a_file_with_another_name_belongs_to_an_agent_that_is_alone(tmp_path: Path) -> None:
    files = {
        "best_model.zip": AGENT,
        "x.zip": AGENT,
        "x_9_steps.zip": AGENT,
        "stats.pkl": STATISTICS,
        "memory.pkl": BUFFER,
    }
    found = describe(make_folder(tmp_path, files))
    assert {row[2] for row in found.values()} == {("stats.pkl",)}
    assert [row[3] for row in found.values()] == ["memory.pkl", "memory.pkl", None]
    found = describe(make_folder(tmp_path, {"y.zip": AGENT}))
    assert {row[2:4] for row in found.values()} == {((), None)}


def test_the_files_of_a_run_may_be_above_its_checkpoints(tmp_path: Path) -> None:
    found = describe(
        make_folder(tmp_path, {
            "run/vecnormalize.pkl": STATISTICS, "run/config.yml": CONFIG, "run/best/best_model.zip": AGENT,
            "run/checkpoints/x_10_steps.zip": AGENT, "run/other/x.zip": AGENT,
        })
    )  # fmt: skip
    assert {name: (row[2], row[4]) for name, row in found.items()} == {
        "run/best/best_model.zip": (("run/vecnormalize.pkl",), ("run/config.yml",)),
        "run/checkpoints/x_10_steps.zip": (("run/vecnormalize.pkl",), ("run/config.yml",)),
        "run/other/x.zip": ((), ()),
    }


def test_a_checkpoint_has_no_replay_buffer_of_another_step(tmp_path: Path) -> None:
    files = {"m_10_steps.zip": AGENT, "m_replay_buffer_20_steps.pkl": BUFFER, "replay_buffer.pkl": BUFFER}
    assert describe(make_folder(tmp_path, files))["m_10_steps.zip"][3] is None


def test_damaged_files_are_reported_and_other_formats_are_not(tmp_path: Path) -> None:
    make_folder(tmp_path, {
        "cut.zip": AGENT[:1000], "noise.pkl": b"\x00\x01", "page.zip": b"<!doctype html>", "fine.zip": AGENT,
        "lfs.zip": b"version https://git-lfs.github.com/spec/v1\n",
    })  # fmt: skip
    report = sbformat.inspect_folder(tmp_path)
    assert [row.path for row in report.agents] == ["fine.zip"]
    assert {file.path for file in report.unreadable} == {"cut.zip", "noise.pkl", "page.zip"}
    assert "git lfs pull" in next(file.message for file in report.others if file.path == "lfs.zip")


def test_an_unzipped_archive_without_its_zip_is_an_agent(tmp_path: Path) -> None:
    with zipfile.ZipFile(PPO) as file:
        file.extractall(tmp_path / "runs" / "agent-1.5")
    assert [(row.path, row.kind) for row in sbformat.inspect_folder(tmp_path).agents] == [("runs/agent-1.5", "folder")]


def test_links_out_of_the_folder_and_hidden_files_are_left_out(tmp_path: Path) -> None:
    outside = make_folder(tmp_path / "outside", {"secret.zip": AGENT})
    top = make_folder(tmp_path / "top", {"agent.zip": AGENT, ".git/x.zip": AGENT, ".hidden.zip": AGENT})
    (top / "out.zip").symlink_to(outside / "secret.zip")
    (top / "folder").symlink_to(outside)
    (top / "loop").symlink_to(top)
    (top / "inside.zip").symlink_to(top / "agent.zip")
    os.mkfifo(top / "pipe.zip")
    report = sbformat.inspect_folder(top)
    assert [row.path for row in report.agents] == ["agent.zip", "inside.zip"]
    assert report.others == ()


def test_a_snapshot_of_the_hugging_face_cache_is_read(tmp_path: Path) -> None:
    hub = make_folder(tmp_path / "models--me--agent", {"blobs/abc": AGENT, "blobs/def": STATISTICS})
    snapshot = hub / "snapshots" / "0123"
    snapshot.mkdir(parents=True)
    (snapshot / "agent.zip").symlink_to(hub / "blobs" / "abc")
    (snapshot / "vec_normalize.pkl").symlink_to(hub / "blobs" / "def")
    assert describe(snapshot)["agent.zip"][2] == ("vec_normalize.pkl",)


def test_the_folder_has_to_exist(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        sbformat.inspect_folder(tmp_path / "nowhere")
    with pytest.raises(TypeError, match="expected the path of a folder"):
        sbformat.inspect_folder(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "steps", "series"),
    [
        ("rl_model_1000_steps.zip", 1000, "rl_model"),
        ("a/rl_model_vecnormalize_1000_steps.pkl", 1000, "rl_model"),
        ("vecnormalize_1000_steps.pkl", 1000, ""),
        ("vec_normalize.pkl", None, ""),
        ("1000_steps.zip", 1000, ""),
        ("replay_buffer.pkl", None, ""),
        ("my-vecnormalizer.pkl", None, "my-vecnormalizer"),
        ("x_" + "9" * 30 + "_steps.zip", None, "x_" + "9" * 30 + "_steps"),
        ("x_\u0663_steps.zip", None, "x_\u0663_steps"),
    ],
)
def test_what_a_name_says(name: str, steps: int | None, series: str) -> None:
    found = parse_name(name)
    assert (found.steps, found.series) == (steps, series)


def test_numbers_in_names_are_sorted_as_numbers() -> None:
    names = ["run_10/a", "run_2/a", "run_2", "b", f"run_{'9' * 5000}", "10", "9"]
    assert sorted(names, key=order_key) == ["9", "10", "b", "run_2", "run_2/a", "run_10/a", f"run_{'9' * 5000}"]


def test_content_decides_what_a_file_is_whatever_its_name(tmp_path: Path) -> None:
    make_folder(tmp_path, {
        "noext": AGENT, "a.zip@123": AGENT, "stats.bin": STATISTICS, "damaged.old": AGENT[:900],
        "picture.docx": zipped({"word/document.xml": b"<a/>"}), "log.npz": zipped({"a.npy": b""}), "notes.txt": b"hi",
        "cut.docx": zipped({"word/document.xml": b"<a/>"})[:-20],
    })  # fmt: skip
    report = inspect_folder(tmp_path)
    assert [agent.path for agent in report.agents] == ["a.zip@123", "noext"]
    others = {file.path: (file.kind, file.outcome) for file in report.others}
    assert others.pop("stats.bin") == ("vecnormalize", "ok")
    assert others.pop("damaged.old") == (None, "container failure")
    assert set(others.values()) == {(None, "ok")}


def test_the_blobs_that_links_lead_to_are_not_agents_twice(tmp_path: Path) -> None:
    make_folder(tmp_path / "models--x", {"blobs/0a1b": AGENT, "blobs/0c": AGENT, "snapshots/1/README.md": b"#"})
    (tmp_path / "models--x" / "snapshots" / "1" / "agent.zip").symlink_to("../../blobs/0a1b")
    paths = [agent.path for agent in inspect_folder(tmp_path).agents]
    assert paths == ["models--x/blobs/0c", "models--x/snapshots/1/agent.zip"]


def test_an_agent_with_the_usual_suffix_is_preferred_to_its_copies(tmp_path: Path) -> None:
    make_folder(tmp_path, {"agent.zip": AGENT, "agent.zip.bak": AGENT})
    assert find_agent(tmp_path).path == str(tmp_path / "agent.zip")
    (tmp_path / "agent.zip").unlink()
    assert find_agent(tmp_path).path == str(tmp_path / "agent.zip.bak")
