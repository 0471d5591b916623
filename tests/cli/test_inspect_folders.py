"""``sbformat inspect`` of folders: what belongs together, before the table of files."""

from __future__ import annotations

import json
import os
import re
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.test_commands import run
from tests.helpers.bundled import PPO, with_data, zipped
from tests.helpers.reports import REPORT
from tests.helpers.run_folders import AGENT, BUFFER, STATISTICS, make_evaluations, make_folder, make_hub, make_zoo

if TYPE_CHECKING:
    from pathlib import Path

Capture = pytest.CaptureFixture[str]


def run_document(capsys: Capture, *args: object) -> tuple[int, dict[str, Any]]:
    status, out = run(capsys, "inspect", *args, "--format", "json")
    document: dict[str, Any] = json.loads(out)
    REPORT.validate(document)
    return status, document


def test_the_text_shows_what_belongs_to_each_agent(capsys: Capture, tmp_path: Path) -> None:
    status, text = run(capsys, "inspect", make_zoo(tmp_path / "logs" / "run"))
    assert status == 0
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines.index("best_model.zip best Pendulum-v1/vecnormalize.pkl Pendulum-v1/args.yml, config.yml") == 2
    checkpoint = next(line for line in lines if line.startswith("rl_model_1000_steps.zip checkpoint"))
    assert "rl_model_vecnormalize_1000_steps.pkl rl_model_replay_buffer_1000_steps.pkl" in checkpoint
    assert "Pendulum-v1/args.yml algo sac, env Pendulum-v1, seed 7" in lines
    assert any(line.startswith("Pendulum-v1/config.yml n_timesteps 20,000, normalize {'norm_obs'") for line in lines)
    assert "0.monitor.csv episodes of Monitor" in lines
    assert next(line for line in lines if line.startswith("12 files in "))


def test_a_repository_with_a_zip_of_metrics_is_read_without_an_error(capsys: Capture, tmp_path: Path) -> None:
    hub = make_hub(tmp_path)
    status, text = run(capsys, "inspect", hub)
    assert (status, "mean_reward -150.5, std_reward 2.5" in text) == (0, True)
    for form in ("json", "csv"):
        assert run(capsys, "inspect", hub, "--format", form)[0] == 0
    assert run(capsys, "inspect", hub / "train_eval_metrics.zip")[0] == 2


def test_json_has_all_of_it(capsys: Capture, tmp_path: Path) -> None:
    zoo = make_zoo(tmp_path / "zoo")
    make_folder(zoo, {"bad.zip": AGENT[:300], "Pendulum-v1/env_kwargs.yml": b"a: !!python/name:os.system\n"})
    status, document = run_document(capsys, zoo, PPO)
    assert status == 2
    (folder,) = document["folders"]
    assert folder["path"] == str(zoo)
    assert [row["path"] for row in folder["agents"]][:2] == ["best_model.zip", "Pendulum-v1.zip"]
    settings = {row["path"]: row["values"] for row in folder["settings"]}
    assert settings["Pendulum-v1/args.yml"] == {"algo": "sac", "env": "Pendulum-v1", "seed": 7}
    assert settings["Pendulum-v1/config.yml"]["n_timesteps"] == 20000
    assert settings["Pendulum-v1/env_kwargs.yml"] == {"a": "tag:yaml.org,2002:python/name:os.system"}
    assert [row["outcome"] for row in folder["others"] if row["path"] == "bad.zip"] == ["container failure"]
    assert run_document(capsys, PPO)[1]["folders"] == []


def test_only_agents_decide_which_columns_differ(capsys: Capture, tmp_path: Path) -> None:
    values = {"learning_rate": 0.1, "num_timesteps": 7, "batch_size": 8, "seed": 5}
    other = with_data(lambda data: data.update(values))
    make_folder(tmp_path, {"a.zip": PPO.read_bytes(), "b.zip": other, "env.pkl": STATISTICS, "buffer.pkl": BUFFER})
    status, text = run(capsys, "inspect", tmp_path)
    table, shared = text[text.index("  4 files in") :].split("\n\n")
    assert (status, len(table.splitlines())) == (0, 6)
    assert table.splitlines()[1].split() == ["file", "seed", "timesteps", "learning_rate", "batch_size"]
    assert shared.splitlines()[0] == "  the same in all agents"
    assert re.search(r"\n    Algorithm +PPO\n", shared)
    assert re.search(r"\n    SB3 version +\d", shared)
    assert "--columns shows others" not in text  # such as clip_obs, which only the statistics have


def test_a_table_of_chosen_columns_is_only_that(capsys: Capture, tmp_path: Path) -> None:
    text = run(capsys, "inspect", make_zoo(tmp_path), "--sort", "path")[1]
    assert "belongs to" not in text


def test_what_is_the_same_of_many_runs_is_said_once(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ppo_1", "ppo_2", "ppo_3"):
        make_folder(make_zoo(tmp_path / name), {"evaluations.npz": make_evaluations()})
    monkeypatch.setitem(sys.modules, "yaml", None)
    text = run(capsys, "inspect", tmp_path, "--jobs", 1)[1]
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert 'ppo_1/Pendulum-v1/args.yml and 5 more not read: PyYAML reads it: pip install "sbformat[yaml]"' in lines
    assert "ppo_2 3 evaluations 5.5 at 200 3.5 at 300" in lines
    doubts = [line for line in lines if line.startswith("it is not known whether the agent ")]
    assert [line.rpartition("; ")[2] for line in doubts] == ["2 more like this", "8 more like this"]
    assert "ppo_1/0.monitor.csv and 2 more episodes of Monitor" in lines


def test_settings_that_cannot_be_read_are_named(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_folder(tmp_path, {"a.zip": AGENT, "config.yml": b"a: [", "results.json": b"[1"})
    text = run(capsys, "inspect", tmp_path)[1]
    assert text.count("not read: ") == 2
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert 'pip install "sbformat[yaml]"' in run(capsys, "inspect", tmp_path)[1]


def test_hostile_names_and_values_are_escaped(capsys: Capture, tmp_path: Path) -> None:
    name = "a\x1b[31m\u202e.zip"
    make_folder(tmp_path, {name: AGENT, "config.yml": b'env: "\\x1b[2J"\n', "x\n.md": b""})
    text = run(capsys, "inspect", tmp_path)[1]
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert all(character.isprintable() or character == "\n" for character in text)


def test_agents_with_other_names_are_in_both_tables(capsys: Capture, tmp_path: Path) -> None:
    make_folder(tmp_path, {"noext": AGENT, "b.zip@123": AGENT, "c.docx": zipped({"a": b""}), "cut.1": AGENT[:500]})
    status, document = run_document(capsys, tmp_path)
    assert status == 2
    outcomes = {os.path.basename(file["path"]): file["outcome"] for file in document["files"]}
    assert outcomes == {"noext": "ok", "b.zip@123": "ok", "cut.1": "container failure"}
    assert [row["path"] for row in document["folders"][0]["agents"]] == ["b.zip@123", "noext"]


def test_statistics_that_are_left_out_are_named(capsys: Capture, tmp_path: Path) -> None:
    config = b"n_timesteps: 2e4\npolicy: MlpPolicy\nbatch_size: 64\nent_coef: 0.01\nnothing: null\n"
    make_folder(tmp_path, {"a.zip": AGENT, "vecnormalize.pkl": STATISTICS, "config.yml": config})
    status, text = run(capsys, "inspect", tmp_path)
    words = " ".join(text.split())
    assert (status, "'vecnormalize.pkl' are not used: 'config.yml' has no normalize" in words) == (0, True)
    assert "policy MlpPolicy, batch_size 64, ent_coef 0.01" in words
    assert "nothing" not in words
    (agent,) = run_document(capsys, tmp_path)[1]["folders"][0]["agents"]
    assert agent["doubt"].startswith("the statistics 'vecnormalize.pkl' are not used")


def test_many_settings_are_counted(capsys: Capture, tmp_path: Path) -> None:
    config = "".join(f"k{number}: {number}\n" for number in range(35)).encode()
    make_folder(tmp_path, {"a.zip": AGENT, "config.yml": config})
    words = " ".join(run(capsys, "inspect", tmp_path)[1].split())
    assert "k29 29, 5 more (--format json)" in words


def test_rewards_of_a_replay_buffer_are_not_those_of_an_agent(capsys: Capture, tmp_path: Path) -> None:
    make_folder(tmp_path, {"a.zip": AGENT, "replay_buffer.pkl": BUFFER})
    text = run(capsys, "inspect", tmp_path, "--columns", "kind,mean_reward", "--format", "csv")[1]
    row = next(line for line in text.splitlines() if "replay_buffer" in line)
    assert row.endswith(",")
