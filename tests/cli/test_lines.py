"""``sbformat predict --lines``: one line for each line, what the batch gives, and errors that keep programs in step."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import sbformat
from sbformat import spaces
from sbformat.cli import _lines, main
from sbformat.errors import ValidationError
from tests.helpers.bundled import ARCHIVES, PPO, ROOT, SAC
from tests.helpers.reports import parse_reports
from tests.helpers.vector_files import write_vector

if TYPE_CHECKING:
    from pathlib import Path

STATISTICS = ARCHIVES / "vecnormalize-pendulum.pkl"
LINE = b"[0.1, -0.2, 0.03, 0.4]\n"
LSTMS = ["policy-lstm", "policy-lstm-two-layers", "policy-lstm-actor-only", "policy-sb2-ppo2-lstm"]


class Stream:
    """Runs ``predict --lines`` in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def run(self, text: bytes, path: object, *options: object) -> tuple[int, list[Any], str]:
        """Return the status, the values of the lines, and standard error."""
        self._monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
        status = main(["predict", str(path), "--lines", *map(str, options)])
        out, err = self._capsys.readouterr()
        assert not out or out.endswith("\n")
        return status, [json.loads(line) for line in out.splitlines()], err

    def answer(self, values: list[Any], path: object, *options: object) -> list[Any]:
        """Return the answers to values, none of which fails."""
        status, answers, err = self.run("".join(f"{json.dumps(value)}\n" for value in values).encode(), path, *options)
        assert (status, err, len(answers)) == (0, "", len(values))
        return answers

    def predict(self, values: Any, path: object, *options: object) -> dict[str, Any]:
        """Return the report of a batch."""
        arguments = ["--observation", json.dumps(values), *options, "--format", "json"]
        assert main(["predict", str(path), *map(str, arguments)]) == 0
        (report,) = parse_reports(self._capsys.readouterr().out)
        return report


@pytest.fixture
def stream(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Stream:
    return Stream(capsys, monkeypatch)


def sample(path: object, count: int, n_envs: int = 0) -> list[Any]:
    """Return observations of an agent, or batches of ``n_envs``."""
    shape: Any = sbformat.load_policy(str(path)).observation_space.shape
    shape = (count, n_envs, *shape) if n_envs else (count, *shape)
    made: list[Any] = np.random.default_rng(1).uniform(-1, 1, shape).tolist()
    return made


# -- what a batch gives -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("agent", "options"),
    [
        (PPO, []),
        (PPO, ["--stochastic", "--seed", 3]),
        (SAC, ["--vecnormalize", STATISTICS]),
        (SAC, ["--stochastic", "--seed", 5]),
        ("policy-ppo-gsde", ["--stochastic", "--seed", 5]),
        ("policy-maskable", ["--action-masks", "[1, 0, 1]"]),
        ("policy-maskable-multi-discrete", ["--stochastic", "--seed", 1]),
        ("policy-lstm", []),
    ],
)
@pytest.mark.parametrize("outputs", [[], ["--outputs"]], ids=["", "outputs"])
def test_lines_give_what_the_batch_gives(stream: Stream, agent: Any, options: list[Any], outputs: list[str]) -> None:
    path = agent if agent in (PPO, SAC) else write_vector(agent)
    values = sample(path, 30)
    answers = stream.answer(values, path, *options, *outputs)
    masks = [option if option != "[1, 0, 1]" else json.dumps([[1, 0, 1]] * 30) for option in options]
    report = stream.predict(values, path, *masks, *outputs)
    if outputs:
        assert answers[0].keys() == report["outputs"].keys()
        for name, expected in {**report["outputs"], "action": report["actions"]}.items():
            if name not in ("hidden", "cell", "critic_hidden", "critic_cell"):  # with an axis of environments
                np.testing.assert_allclose([answer[name] for answer in answers], expected, atol=1e-5)
    else:
        np.testing.assert_allclose(answers, report["actions"], atol=1e-5)
    assert "--stochastic" not in options or answers != stream.answer(values, path, *outputs)


@pytest.mark.parametrize("name", LSTMS)
def test_lines_of_a_sequence_give_what_the_batch_of_its_steps_gives(stream: Stream, name: str) -> None:
    path = write_vector(name)
    values = sample(path, 8)
    answers = stream.answer(values, path, "--sequence", "--outputs")
    report = stream.predict(values, path, "--sequence", "--outputs")
    assert answers == [dict(zip(report["outputs"], parts)) for parts in zip(*report["outputs"].values())]
    assert answers != stream.answer(values, path, "--outputs")


def test_observations_of_a_dict_space_are_objects(stream: Stream) -> None:
    path = write_vector("policy-ppo-observes-dict")
    space: Any = sbformat.load_policy(path).observation_space
    generator = np.random.default_rng(0)
    values = [{key: np.asarray(part).tolist() for key, part in space.sample(generator).items()} for _ in range(5)]
    batch = {key: [value[key] for value in values] for key in values[0]}
    answers = stream.answer(values, path)
    assert answers == stream.predict(batch, path)["actions"]
    assert answers == stream.answer([{"observation": value} for value in values], path)
    status, answers, _ = stream.run(b'{"camera": 1}\n', path)
    assert (status, "expected an observation with the keys 'axes'" in answers[0]["error"]) == (2, True)


# -- episodes, masks and batches ----------------------------------------------------------------------


@pytest.mark.parametrize("name", LSTMS)
def test_an_episode_begins_where_a_line_says_so(stream: Stream, name: str) -> None:
    path = write_vector(name)
    values = sample(path, 4)
    second = [{"observation": values[0], "episode_start": True}, *({"observation": value} for value in values[1:])]
    answers = stream.answer([*values, *second], path, "--sequence", "--outputs")
    assert answers[:4] == answers[4:]
    assert answers[:4] != stream.answer([*values, *values], path, "--sequence", "--outputs")[4:]


@pytest.mark.parametrize("name", LSTMS)
def test_a_line_can_be_a_batch_of_environments(stream: Stream, name: str) -> None:
    path = write_vector(name)
    batches = sample(path, 4, n_envs=2)
    lines: list[Any] = [{"observation": batch} for batch in batches]
    lines[2]["episode_start"] = [False, True]
    answers = stream.answer(lines, path, "--sequence", "--outputs")
    for place in range(2):
        alone: list[Any] = [{"observation": batch[place]} for batch in batches]
        alone[2]["episode_start"] = place == 1
        expected = stream.answer(alone, path, "--sequence", "--outputs")
        for name_, value in expected[-1].items():
            if name_ in ("action", "value", "logits"):
                found = answers[-1][name_][place]
                np.testing.assert_allclose(np.ravel(found), np.ravel(value), atol=1e-5)


def test_masks_of_a_line_replace_those_of_the_command_line(stream: Stream) -> None:
    path = write_vector("policy-maskable")
    value = sample(path, 1)[0]
    masks = [[1, 0, 0], [0, 1, 0], [0, 0, 1], None]
    lines = [{"observation": value, "action_masks": mask} for mask in masks]
    assert stream.answer(lines, path, "--action-masks", "[false, true, false]") == [0, 1, 2, 1]


@pytest.mark.parametrize(
    ("keys", "value", "expected"),
    [
        ("", [1], ([1], None, None)),
        ("", {"observation": [1], "action_masks": [0]}, ([1], [0], None)),
        ("ab", {"a": 1, "b": 2}, ({"a": 1, "b": 2}, None, None)),
        ("ab", {"b": 2, "a": 1}, ({"b": 2, "a": 1}, None, None)),
        ("ab", {"a": 1}, ({"a": 1}, None, None)),
        ("ab", {"observation": {"a": 1, "b": 2}}, ({"a": 1, "b": 2}, None, None)),
        (["observation"], {"observation": [1]}, ({"observation": [1]}, None, None)),
        (["observation"], {"observation": {"observation": [1]}, "episode_start": False}, (
            {"observation": [1]}, None, False
        )),
        (["observation", "action_masks"], {"observation": [1], "action_masks": [0]}, (
            {"observation": [1], "action_masks": [0]}, None, None
        )),
        (["observation", "goal"], {"observation": [1], "goal": [0]}, ({"observation": [1], "goal": [0]}, None, None)),
    ],
)  # fmt: skip
def test_an_object_is_an_observation_if_it_has_the_keys_of_the_space(keys: Any, value: Any, expected: Any) -> None:
    space: Any = spaces.Dict({key: spaces.Discrete(2) for key in keys}) if keys else spaces.Discrete(2)
    steps: Any = SimpleNamespace(policy=SimpleNamespace(observation_space=space), is_sequence=True)
    assert _lines._split(value, steps) == expected


@pytest.mark.parametrize(
    "value",
    [
        {}, {"obs": 1}, {"observation": 1, "masks": 2}, {"observation": 1, "episode_start": 1},
        {"observation": 1, "episode_start": []},
    ],
)  # fmt: skip
def test_other_objects_are_refused(value: Any) -> None:
    steps: Any = SimpleNamespace(policy=SimpleNamespace(observation_space=spaces.Discrete(2)), is_sequence=True)
    with pytest.raises(ValidationError, match="expected"):
        _lines._split(value, steps)


# -- lines that fail ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "outcome", "message"),
    [
        (b"[1, 2]", "invalid", "expected the shape (4,) of one observation"),
        (b"hello", "data failure", "expected JSON"),
        (b"[1, 0, .5, 0]", "data failure", "; JSON wants 0.5 instead of .5: [1, 0, 0.5, 0]"),
        (b"\xff", "data failure", "expected UTF-8"),
        (b'{"x": 1}', "invalid", "expected an observation, or an object with 'observation'"),
        (b'{"observation": [0, 0, 0, 0], "episode_start": true}', "invalid", "'episode_start' needs --sequence"),
        (b'{"observation": [0, 0, 0, 0], "action_masks": [1]}', "invalid", "MaskablePPO"),
        (b"[" * 100 + b"]" * 100, "limit exceeded", "--limit json_depth="),
        (b"[" + b"0, " * 50_000 + b"0]", "limit exceeded", "--limit json_bytes="),
    ],
)
def test_a_line_that_fails_has_its_error_and_the_others_their_action(
    stream: Stream, line: bytes, outcome: str, message: str
) -> None:
    status, answers, err = stream.run(b"\n".join([LINE, line, LINE, b"[]\n"]), PPO, "--limit", "json_bytes=100_000")
    assert (status, answers[0], answers[2], len(answers)) == (2, 1, 1, 4)
    assert answers[1].keys() == {"error", "outcome", "line"}
    assert (answers[1]["outcome"], answers[1]["line"], answers[3]["line"]) == (outcome, 3, 6)
    assert message in answers[1]["error"]
    assert err == f"sbformat: <stdin>: line 3: {outcome}: {answers[1]['error']} (2 of 4 lines failed)\n"


def test_the_state_after_a_line_that_fails_is_the_one_before(stream: Stream) -> None:
    path = write_vector("policy-lstm")
    values = sample(path, 4)
    expected = stream.answer(values, path, "--sequence", "--outputs")
    lines = [json.dumps(value).encode() for value in values]
    lines[2:2] = [b"[1]", b'{"observation": [1], "episode_start": true}']
    status, answers, _ = stream.run(b"\n".join(lines), path, "--sequence", "--outputs")
    assert (status, answers[:2] + answers[4:]) == (2, expected)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (b"", 0), (b"\n \n\r\n", 0), (LINE.strip(), 1), (LINE * 2, 2), (LINE.replace(b"\n", b"\r\n") * 3, 3),
        (b"\n" + LINE + b"\n\t\n" + LINE, 2), (b"\xef\xbb\xbf" + LINE * 2, 2), (b"  " + LINE, 1),
    ],
)  # fmt: skip
def test_blank_lines_line_ends_and_a_byte_order_mark_do_not_matter(stream: Stream, text: bytes, count: int) -> None:
    assert stream.run(text, PPO) == (0, [1] * count, "")


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_a_line_can_be_as_long_as_the_limit(end: bytes) -> None:
    lines = [b"[0,0,0,0]", b"[0,0,0,10]", b"[" + b"0" * 200_000 + b"]", b"[0]"]
    found = [line for _, line in _lines._read_lines(io.BytesIO((end or b"\n").join(lines) + end), 9)]
    assert [found[0], found[3]] == [lines[0], lines[3]]
    assert all(9 < len(line) <= 11 and long.startswith(line) for line, long in zip(found[1:3], lines[1:3]))


def test_utf_16_is_refused_with_what_to_do(stream: Stream) -> None:
    status, answers, err = stream.run(LINE.decode().encode("utf-16"), PPO)
    assert (status, answers) == (2, [])
    assert err.startswith("sbformat: <stdin>: unsupported: expected JSON Lines in UTF-8, got UTF-16: ")


# -- files, options, processes ------------------------------------------------------------------------


def test_lines_come_from_a_file(stream: Stream, tmp_path: Path) -> None:
    path = tmp_path / "o.jsonl"
    path.write_bytes(LINE * 2 + b"[]")
    status, answers, err = stream.run(b"", PPO, "--observation", f"@{path}")
    assert (status, answers[:2], err.startswith(f"sbformat: {path}: line 3: invalid: ")) == (2, [1, 1], True)
    status, answers, err = stream.run(b"", PPO, "--observation", "@nowhere.jsonl")
    assert (status, answers, err) == (2, [], "sbformat: nowhere.jsonl: cannot open: No such file or directory\n")
    status, answers, err = stream.run(b"", PPO, "--observation", path)
    assert (status, answers) == (2, [])
    assert err.startswith("sbformat: --observation: invalid: expected - or @FILE with --lines")


@pytest.mark.parametrize("name", ["actions.jsonl", "actions.json", "actions"])
def test_lines_go_to_a_file_of_any_suffix(stream: Stream, tmp_path: Path, name: str) -> None:
    output = tmp_path / name
    assert stream.run(LINE * 2, PPO, "-o", output, "--quiet") == (0, [], "")
    assert output.read_text("utf-8") == "1\n1\n"


def test_an_agent_that_cannot_be_loaded_reads_no_line(stream: Stream) -> None:
    status, answers, err = stream.run(LINE, "nowhere.zip")
    assert (status, answers, err) == (2, [], "sbformat: nowhere.zip: cannot open: No such file or directory\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([PPO], "expected --observation, or --lines"),
        ([PPO, "--lines", "--format", "json"], "--lines writes JSON Lines: it does not go with --format json"),
        ([PPO, "--lines", "--format", "csv"], "it does not go with --format csv"),
        (["-", "--lines"], "standard input can be read once"),
        ([SAC, "--lines", "--vecnormalize", "-"], "standard input can be read once"),
    ],
)
def test_options_that_do_not_go_together(
    capsys: pytest.CaptureFixture[str], arguments: list[object], message: str
) -> None:
    with pytest.raises(SystemExit):
        main(["predict", *map(str, arguments)])
    assert message in capsys.readouterr().err


def test_numbers_that_json_does_not_have_are_text(capsys: pytest.CaptureFixture[str]) -> None:
    _lines._write({"value": [float("nan"), 1.0]})
    assert capsys.readouterr().out == '{"value": ["NaN", 1.0]}\n'


def test_a_person_at_a_terminal_is_told_what_to_type(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = io.TextIOWrapper(io.BytesIO(LINE))
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdin", terminal)
    with _lines.open_lines("-") as lines:
        assert lines.read() == LINE
    assert capsys.readouterr().err.startswith("sbformat: type an observation in each line, such as [0.1, 0.2]; Ctrl+")


def start(*options: str) -> subprocess.Popen[str]:
    """Start the command in a process of its own."""
    command = [sys.executable, "-m", "sbformat", "predict", str(PPO), "--lines", *options]
    pipes: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(command, cwd=ROOT, text=True, **pipes)


def test_each_line_is_answered_before_the_next_is_sent() -> None:
    with start() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line, expected in ((LINE.decode(), "1\n"), ("[]\n", '{"error": '), (LINE.decode(), "1\n")):
            process.stdin.write(line)
            process.stdin.flush()
            assert process.stdout.readline().startswith(expected)
        process.stdin.close()
        assert process.wait(60) == 2


def test_a_reader_that_has_enough_ends_it() -> None:
    with start() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.write(LINE.decode())
        process.stdin.close()
        assert (process.wait(60), process.stderr.read()) == (2, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device")
def test_standard_output_that_is_full_is_named() -> None:
    command = [sys.executable, "-m", "sbformat", "predict", str(PPO), "--lines"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, cwd=ROOT, input=LINE, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(b"sbformat: standard output: cannot write: No space left")
