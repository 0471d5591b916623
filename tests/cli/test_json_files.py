"""Values of options that are JSON, in files: ``@FILE``."""

from __future__ import annotations

import argparse
import codecs
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import sbformat
from sbformat.cli import build_parser, main
from sbformat.cli._files import list_json_files
from sbformat.cli._options import JsonText
from tests.helpers.bundled import PPO
from tests.helpers.reports import parse_reports, unfold
from tests.helpers.vector_files import write_vector

if TYPE_CHECKING:
    from pathlib import Path

TEXT = '{"linear": [3e-4, 0]}\r\n'
ENCODED = {
    "utf-8": TEXT.encode(), "utf-8 with a mark": codecs.BOM_UTF8 + TEXT.encode(), "utf-16": TEXT.encode("utf-16"),
    "utf-16 of another order": codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"),
}  # fmt: skip
"""What editors and shells write; ``>`` of PowerShell 5 writes UTF-16."""


def run_json(capsys: pytest.CaptureFixture[str], *args: object) -> dict[str, Any]:
    """Run a command with --format json; its report."""
    main([*map(str, args), "--format", "json"])
    (report,) = parse_reports(capsys.readouterr().out)
    return report


@pytest.mark.parametrize("encoding", ENCODED)
@pytest.mark.parametrize("command", ["edit", "rebuild"])
def test_set_reads_a_value_from_a_file(tmp_path: Path, command: str, encoding: str) -> None:
    path, output = tmp_path / "value.json", tmp_path / "o.zip"
    path.write_bytes(ENCODED[encoding])
    assert main([command, str(PPO), "-o", str(output), "--set", f"learning_rate=@{path}"]) == 0
    assert sbformat.read(output).decode("learning_rate") == sbformat.LinearSchedule(3e-4, 0.0)


def test_a_text_that_begins_with_the_mark_is_in_quotes(tmp_path: Path) -> None:
    output = tmp_path / "o.zip"
    assert main(["edit", str(PPO), "-o", str(output), "--set", 'tensorboard_log="@logs"']) == 0
    assert sbformat.read(output).data["tensorboard_log"] == "@logs"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot open: No such file or directory"),
        (b"[1,0,.5]", 'data failure: expected JSON: Expecting value; JSON wants 0.5 instead of .5: --set "gamma='),
        (b"\xff\xfex", "data failure: expected UTF-16 after its byte order mark"),
        (b"1, 2", "data failure: expected"),
        (b"", "data failure: expected JSON"),
    ],
)
def test_an_error_names_the_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "value.json"
    if content is not None:
        path.write_bytes(content)
    assert main(["edit", str(PPO), "-o", str(tmp_path / "o.zip"), "--set", f"gamma=@{path}"]) == 2
    assert unfold(capsys.readouterr().err).startswith(f"sbformat: {path}: {message}")


def test_predict_reads_its_options_from_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    agent = write_vector("policy-maskable")
    observations = [[0.1, 0.2, 0.3, 0.4], [-0.5, 0.5, 0.0, 1.0]]
    (tmp_path / "o.json").write_text(json.dumps(observations), "utf-16")
    np.save(tmp_path / "o.npy", np.array(observations))
    (tmp_path / "m.json").write_bytes(codecs.BOM_UTF8 + b"[[1, 0, 0], [0, 0, 1]]")
    for name in ("o.json", "o.npy"):
        options = ["--observation", f"@{tmp_path / name}", "--action-masks", f"@{tmp_path / 'm.json'}"]
        assert run_json(capsys, "predict", agent, *options)["actions"] == [0, 2]
    (tmp_path / "k.json").write_text('{"net_arch": [9]}')
    report = run_json(capsys, "predict", PPO, "--observation", "[]", "--policy-kwargs", f"@{tmp_path / 'k.json'}")
    assert (report["outcome"], len(report["problems"])) == ("invalid", 10)
    report = run_json(capsys, "predict", PPO, "--observation", f"@{tmp_path / 'none.json'}")
    assert (report["file"], report["outcome"]) == (str(tmp_path / "none.json"), "cannot open")


def test_evaluate_reads_the_arguments_of_the_environment(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "e.json"
    for content, blamed in (("[1]", "--env-kwargs"), ("{", str(path))):
        path.write_text(content)
        report = run_json(capsys, "evaluate", PPO, "--env", "CartPole-v1", "--env-kwargs", f"@{path}")
        assert (report["file"], report["outcome"]) == (blamed, "data failure")


def test_each_option_that_is_json_has_the_type_of_it() -> None:
    parsers = build_parser().commands.values()
    options = {action for parser in parsers for action in parser._actions if action.metavar == "JSON"}
    assert {action.dest for action in options} == {"observation", "action_masks", "policy_kwargs", "env_kwargs"}
    assert {action.type for action in options} == {JsonText}
    texts = {name: JsonText(f"@{name}.json") for name in ("observation", "action_masks")}
    args = argparse.Namespace(**texts, path="@a.zip", set=[("gamma", JsonText("@b.json")), ("seed", JsonText("1"))])
    assert list_json_files(args) == ["observation.json", "action_masks.json", "b.json"]
