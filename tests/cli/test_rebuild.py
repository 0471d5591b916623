"""``sbformat rebuild``: what it prints and writes, and how it fails."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

import pytest

import sbformat
from sbformat.cli import main
from sbformat.cli.diff import _shorten_message
from sbformat.cli.rebuild import describe_release
from sbformat.pkl import Call, Global
from tests.cli.test_commands import run, run_json
from tests.cli.test_writing import failure
from tests.helpers.bundled import PPO, ROOT
from tests.helpers.old_archives import BASES, OLD, blob, reference, with_keys

if TYPE_CHECKING:
    from pathlib import Path

SB2_DQN = ROOT / "tests" / "nets" / "archives" / "sb2" / "dqn-noise.zip"
Capture = pytest.CaptureFixture[str]


def test_an_old_archive_is_written_anew(capsys: Capture, tmp_path: Path) -> None:
    out = tmp_path / "out.zip"
    status, (report,) = run_json(capsys, "rebuild", OLD, "-o", out)
    assert (status, report["algorithm"], report["written_by"], report["target"]) == (0, "PPO", "1.0", "2.9.2")
    assert sum(report["counts"].values()) == len(report["rows"])
    assert sbformat.read(out) == sbformat.rebuild(OLD).archive
    status, text = run(capsys, "rebuild", OLD, "-o", out, "--force", "--target", "2.1")
    assert status == 0
    assert "PPO, SB3 1.0 -> 2.1.0: " in text
    assert sbformat.read(out).stable_baselines3_version == "2.1.0"


def test_every_hyperparameter_is_printed_before_and_now(capsys: Capture, tmp_path: Path) -> None:
    source, out = tmp_path / "in.zip", tmp_path / "out.zip"
    sbformat.write(with_keys(learning_rate=blob(Call("REDUCE", Global("os", "system"), ("true",)))), source)
    lines = run(capsys, "rebuild", source, "-o", out)[1].splitlines()
    table = lines[lines.index("  hyper-parameters") + 1 :]
    rows = [re.split(r" {2,}", line.strip()) for line in table[: table.index("")]]
    cells = {row[0]: row[1:] for row in rows}
    assert rows[0] == ["hyper-parameter", "before", "now", "how"]
    assert cells["gamma"] == ["0.99", "0.99", "kept"]
    assert cells["clip_range"] == ["constant 0.2", "0.2", "translated: a number instead of an object"]
    assert cells["learning_rate"][:2] == ["not known: os.system('true')", "0.0003, the default of PPO"]
    assert cells["learning_rate"][2].startswith("dropped: ")
    assert {row.key for row in sbformat.rebuild(source).report.hyperparameters} == set(cells) - {"hyper-parameter"}


def test_long_reasons_are_notes_below_the_hyperparameters(capsys: Capture, tmp_path: Path) -> None:
    source, out = tmp_path / "in.zip", tmp_path / "out.zip"
    sbformat.write(with_keys(learning_rate=blob(Call("REDUCE", Global("mine", "f"), ()))), source)
    status, (report,) = run_json(capsys, "rebuild", source, "-o", out)
    message = next(row["message"] for row in report["rows"] if row["key"] == "learning_rate")
    lines = run(capsys, "rebuild", source, "-o", out, "--force")[1].splitlines()
    table = lines[: lines.index("  notes")]
    assert (status, [line.split()[-4:] for line in table if "learning_rate " in line]) == (
        1,
        [["dropped:", "see", "the", "note"]],
    )
    assert lines[lines.index("  notes") + 2].split(maxsplit=1) == ["learning_rate", message]


def test_values_that_sb3_does_not_have_are_printed_with_what_is_used_instead(capsys: Capture, tmp_path: Path) -> None:
    text = run(capsys, "rebuild", SB2_DQN, "-o", tmp_path / "out.zip")[1]
    lines = text[text.index("\n  dropped\n") :].splitlines()
    rows = [re.split(r" {2,}", line.strip()) for line in lines]
    assert ["where", "before", "instead", "why"] in rows
    assert ["double_q", "True", "DQN's own target", "double Q-learning, which SB3 has not"] in rows
    assert ["prioritized_replay", "False", "SB3 has no replay buffer with priorities"] in rows


def test_keys_that_the_file_does_not_have_are_added_and_those_with_defaults_are_one_line(
    capsys: Capture, tmp_path: Path
) -> None:
    text = run(capsys, "rebuild", SB2_DQN, "-o", tmp_path / "out.zip")[1]
    assert "\n  added with the defaults of DQN: use_sde False, sde_sample_freq -1, " in text
    assert "the file has no such key" not in text
    assert "added: SB2 makes one step each time" in text
    first = text.splitlines()[0]
    counts = {word: int(count) for count, word in re.findall(r"(\d+) ([a-z]+)", first.rpartition(": ")[2])}
    _, (report,) = run_json(capsys, "rebuild", SB2_DQN, "-o", tmp_path / "out.zip", "--force")
    assert report["counts"]["translated"] == counts["translated"] + counts["added"]
    assert set(counts) == {"kept", "translated", "added", "dropped"}


def test_what_was_asked_for_is_passed_on(capsys: Capture, tmp_path: Path) -> None:
    source, out = tmp_path / "in.zip", tmp_path / "out.zip"
    system = Call("REDUCE", Global("os", "system"), ("true",))
    archive = with_keys(learning_rate=blob(system), policy_class=reference("mine", "Mine"), tensorboard_log="logs")
    sbformat.write(archive, source)
    status, (report,) = run_json(capsys, "rebuild", source, "-o", out)
    assert status == 1
    assert report["requires"] == []
    found = {row["key"]: row["was"] for row in report["rows"] if row["is_finding"]}
    assert found == {"learning_rate": "not known: os.system('true')", "policy_class": "mine.Mine"}
    text = run(capsys, "rebuild", source, "-o", out, "--force")[1]
    assert "The agent now computes or trains with something else: policy_class, learning_rate" in text
    allowed = ["--allow", "mine.Mine", "--allow", "mine.Other", "--set", "learning_rate=0.5", "--force"]
    status, (report,) = run_json(capsys, "rebuild", source, "-o", out, *allowed)
    assert (status, report["requires"]) == (0, [{"key": "policy_class", "name": "mine.Mine"}])
    assert "mine.Mine (policy_class)" in run(capsys, "rebuild", source, "-o", out, *allowed)[1]
    options = ["--set", "learning_rate=0.5", "--policy-class", "MlpPolicy", "--keep-system-info", "--force"]
    status, (report,) = run_json(capsys, "rebuild", source, "-o", out, *options)
    made = sbformat.read(out)
    assert made.data["learning_rate"] == 0.5
    assert made.data["tensorboard_log"] == "logs"
    assert report["requires"] == []
    assert failure(capsys, "rebuild", source, "-o", out, "--force", "--on-unknown", "error")["outcome"] == "unsupported"
    assert sbformat.read(out) == made
    assert main(["rebuild", str(source), "-o", str(out), "--force", "--on-unknown", "keep"]) == 0
    assert sbformat.read(out).data["learning_rate"] == archive.data["learning_rate"]


@pytest.mark.parametrize(
    ("options", "outcome"),
    [
        (["--target", "1.5"], "unsupported"),
        (["--policy-class", "Nonsense"], "unsupported"),
        (["--policy-class", "os.system"], "unsupported"),
        (["--policy-class", "CnnPolicy"], "unsupported"),
        (["--policy-class", "torch.nn.modules.linear.Linear"], "unsupported"),
        (["--allow", "os.system"], "unsupported"),
        (["--as", "a.B=gymnasium.spaces.Box", "--as", "a.B=gymnasium.spaces.Discrete"], "unsupported"),
        (["--map", "__main__.Net=mymodule.Net"], "unsupported"),
        (["--map", "__main__.Net=mymodule.Net", "--map", "__main__.Net=mymodule.Other"], "unsupported"),
        (["--set", 'policy_kwargs={"net_arch":[32]}'], "unsupported"),
        (["--set", "learning_rate=fast"], "invalid"),
        (["--set", 'learning_rate="fast"'], "invalid"),
        (["--set", "nonsense=1"], "missing"),
    ],
)
def test_what_cannot_be_leaves_nothing(capsys: Capture, tmp_path: Path, options: list[str], outcome: str) -> None:
    out = tmp_path / "out.zip"
    assert failure(capsys, "rebuild", PPO, "-o", out, *options)["outcome"] == outcome
    assert not os.listdir(tmp_path)


def test_a_learning_rate_that_is_lost_is_a_finding_unless_another_is_given(capsys: Capture, tmp_path: Path) -> None:
    source, out = tmp_path / "in.zip", tmp_path / "out.zip"
    for key in ("learning_rate", "clip_range", "gamma", "replay_buffer_class"):
        archive = with_keys("sac" if "buffer" in key else "ppo", **{key: blob(Call("REDUCE", Global("mine", "f"), ()))})
        sbformat.write(archive, source, overwrite=True)
        status, (report,) = run_json(capsys, "rebuild", source, "-o", out, "--force")
        row = next(row for row in report["rows"] if row["key"] == key)
        assert (status, row["is_finding"], row["was"]) == (1, True, "not known: mine.f()")
        if "buffer" not in key:
            assert run(capsys, "rebuild", source, "-o", out, "--force", "--set", f"{key}=0.5")[0] == 0


def test_allow_is_not_advised_for_what_is_known(capsys: Capture, tmp_path: Path) -> None:
    source = tmp_path / "in.zip"
    lost = {"state": {}, "param_groups": [{"params": [0]}]}
    sbformat.write(BASES["sac"].replace(parameters={"ent_coef_optimizer": lost}), source)
    text = run(capsys, "rebuild", source, "-o", tmp_path / "out.zip")[1]
    assert "The agent now computes or trains with something else" in text
    assert "--allow" not in text


def test_a_policy_that_fits_no_class_is_refused_and_nothing_is_written(capsys: Capture, tmp_path: Path) -> None:
    source, out = tmp_path / "in.zip", tmp_path / "out.zip"
    sbformat.write(with_keys(policy_class=reference("mine", "Mine"), policy_kwargs={"net_arch": [4]}), source)
    message = failure(capsys, "rebuild", source, "-o", out)["message"]
    for part in ("--allow mine.Mine", "--policy-class", "--set policy_kwargs", "do not fit ActorCriticPolicy"):
        assert part in message
    assert not out.exists()
    options = ["--policy-class", "MlpPolicy", "--set", 'policy_kwargs={"net_arch": [8, 8]}']
    assert run(capsys, "rebuild", source, "-o", out, *options)[0] == 0


def test_neither_the_input_nor_another_file_is_written_over(capsys: Capture, tmp_path: Path) -> None:
    source = tmp_path / "in.zip"
    source.write_bytes(OLD.read_bytes())
    assert (
        "the output and the input are the same file"
        in failure(capsys, "rebuild", source, "-o", source, "--force")["message"]
    )
    other = tmp_path / "other.zip"
    other.write_text("mine")
    assert "--force overwrites it" in failure(capsys, "rebuild", source, "-o", other)["message"]
    assert other.read_text() == "mine"
    assert source.read_bytes() == OLD.read_bytes()


def test_texts_of_a_file_choose_no_byte_of_the_terminal(capsys: Capture, tmp_path: Path) -> None:
    source, out = tmp_path / "in.zip", tmp_path / "out.zip"
    hostile = "\x1b[31m\u202e\n" * 3
    values: dict[str, Any] = {
        hostile: hostile,
        "policy_kwargs": {"net_arch": [8, 8], hostile: 1},
        "mine": blob(Global(hostile, hostile)),
    }
    sbformat.write(with_keys(**values), source)
    status, text = run(capsys, "rebuild", source, "-o", out)
    assert status == 1
    assert all(character.isprintable() or character == "\n" for character in text)
    status, (report,) = run_json(capsys, "rebuild", source, "-o", out, "--force")
    assert "\x1b" not in json.dumps(report, ensure_ascii=False)


def test_the_release_of_a_file_that_does_not_contain_it_is_not_named() -> None:
    """Statistics and files of ``policy.save()``; an agent without a version is older than 0.9."""
    empty = {"written_by": None, "sb2_algorithm": None}
    assert describe_release({**empty, "algorithm": "stable_baselines3.common.policies.ActorCriticPolicy"}) == ""
    assert describe_release({**empty, "algorithm": "VecNormalize"}) == ""
    assert describe_release({**empty, "algorithm": "PPO"}) == "SB3 before 0.9"
    assert describe_release({**empty, "algorithm": "PPO", "sb2_algorithm": "PPO2"}) == "SB2's PPO2"


def test_a_long_change_shows_both_values() -> None:
    assert _shorten_message("a became b") == "a became b"
    shown = _shorten_message(f"{'a' * 900} became {'b' * 900}")
    assert (len(shown), "a\u2026 became bbb" in shown) == (600, True)
    assert _shorten_message(f"{'a' * 900} became 0.5").endswith("aaa\u2026 became 0.5")
