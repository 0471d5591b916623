"""``sbformat predict`` and ``evaluate``, and the network of ``inspect``: text, JSON by its schema, exit status."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
import sys
import warnings
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import sbformat
from sbformat.cli import main
from sbformat.cli.inspect import describe_statistics, list_statistics
from tests.helpers.bundled import ARCHIVES, PPO, SAC, changed, with_data
from tests.helpers.environments import Box, CountingEnv
from tests.helpers.reports import parse_reports, unfold
from tests.helpers.vector_files import write_vector

if TYPE_CHECKING:
    from pathlib import Path

STATISTICS = ARCHIVES / "vecnormalize-pendulum.pkl"
OBSERVATION = [0.1, -0.2, 0.03, 0.4]
OTHERS = [OBSERVATION, [-1.0, 0.5, 0.1, -0.7], [0.0, 0.0, 0.0, 0.0]]


def run(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, str, str]:
    """Run a command; its status, standard output and standard error."""
    status = main([str(arg) for arg in args])
    return (status, *capsys.readouterr())


def run_json(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, dict[str, Any]]:
    """Run a command with --format json; its status and report, checked against the schema."""
    status, out, _ = run(capsys, *args, "--format", "json")
    (report,) = parse_reports(out)
    return status, report


# -- predict ------------------------------------------------------------------------------------------


def test_one_observation_gives_one_action(capsys: pytest.CaptureFixture[str]) -> None:
    policy = sbformat.load_policy(PPO)
    expected = policy.predict(OBSERVATION, deterministic=True)[0].tolist()
    status, report = run_json(capsys, "predict", PPO, "--observation", json.dumps(OBSERVATION))
    assert (status, report["actions"], report["outputs"]) == (0, [expected], None)
    assert (report["algorithm"], report["deterministic"], report["seed"]) == ("PPO", True, None)
    status, out, err = run(capsys, "predict", PPO, "--observation", json.dumps(OBSERVATION))
    assert (status, err) == (0, "")
    assert out.splitlines()[0] == f"{PPO}: PPO, 1 observation, the most likely actions"
    assert out.splitlines()[-1].split() == ["0", str(expected)]


def test_a_batch_and_what_the_network_says(capsys: pytest.CaptureFixture[str]) -> None:
    outputs = sbformat.load_policy(PPO).outputs(np.array(OTHERS))
    status, report = run_json(capsys, "predict", PPO, "--observation", json.dumps(OTHERS), "--outputs")
    assert status == 0
    assert report["actions"] == outputs["action"].tolist()
    assert report["outputs"] == {name: value.tolist() for name, value in outputs.items()}
    out = run(capsys, "predict", PPO, "--observation", json.dumps(OTHERS), "--outputs")[1]
    assert out.splitlines()[3].split() == ["action", *[name for name in outputs if name != "action"]]
    assert len(out.splitlines()) == 7


@pytest.mark.parametrize("suffix", ["npy", "npz", "-"])
def test_observations_come_from_files_and_from_standard_input(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    expected = run_json(capsys, "predict", PPO, "--observation", json.dumps(OTHERS))[1]["actions"]
    given = "-"
    if suffix == "-":
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(OTHERS).encode())))
    else:
        given = str(tmp_path / f"o.{suffix}")
        array = np.array(OTHERS, "float32")
        np.save(given, array) if suffix == "npy" else np.savez(given, array)
    status, report = run_json(capsys, "predict", PPO, "--observation", given)
    if suffix == "npz":  # a dict of arrays, and the space is a Box
        assert (status, report["outcome"], "got a dict" in report["message"]) == (2, "invalid", True)
    else:
        assert (status, report["actions"]) == (0, expected)


def test_sampled_actions_follow_the_seed(capsys: pytest.CaptureFixture[str]) -> None:
    many = json.dumps([OBSERVATION] * 60)
    taken = [
        run_json(capsys, "predict", PPO, "--observation", many, "--stochastic", "--seed", seed)[1] for seed in (1, 1, 2)
    ]
    assert taken[0]["actions"] == taken[1]["actions"] != taken[2]["actions"]
    assert set(taken[0]["actions"]) == {0, 1}
    assert (taken[0]["deterministic"], taken[0]["seed"]) == (False, 1)
    assert len(set(run_json(capsys, "predict", PPO, "--observation", many, "--deterministic")[1]["actions"])) == 1


def test_csv_has_the_sampled_actions_beside_outputs(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--observation", json.dumps([OBSERVATION] * 60), "--stochastic", "--seed", 1, "--outputs"]
    actions = run_json(capsys, "predict", PPO, *options)[1]["actions"]
    rows = csv.DictReader(run(capsys, "predict", PPO, *options, "--format", "csv")[1].splitlines())
    assert [int(row["action"]) for row in rows] == actions


def test_statistics_normalize_observations(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--observation", json.dumps([0.5, 0.1, -3.0]), "--outputs"]
    without = run_json(capsys, "predict", SAC, *options)[1]
    report = run_json(capsys, "predict", SAC, *options, "--vecnormalize", STATISTICS)[1]
    expected = sbformat.load_policy(SAC, vecnormalize=STATISTICS).outputs([[0.5, 0.1, -3.0]])
    assert report["outputs"]["mean"] == expected["mean"].tolist() != without["outputs"]["mean"]


def test_missing_statistics_are_told_on_standard_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(with_data(lambda data: data.update(_last_original_obs=data["observation_space"])))
    options = ["--observation", json.dumps(OBSERVATION)]
    status, out, err = run(capsys, "predict", path, *options)
    assert (status, err.startswith("sbformat: warning: the agent was trained behind VecNormalize")) == (0, True)
    assert "warning" not in out
    assert len(run_json(capsys, "predict", path, *options)[1]["warnings"]) == 1
    assert run_json(capsys, "predict", path, *options, "--vecnormalize", "none")[1]["warnings"] == []


def test_statistics_beside_an_agent_that_are_not_used_are_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    agent = tmp_path / "agent.zip"
    agent.write_bytes(SAC.read_bytes())
    (tmp_path / "vecnormalize.pkl").write_bytes((ARCHIVES / "vecnormalize-pendulum.pkl").read_bytes())
    command = ["predict", agent, "--observation", "[1, 0, 0.5]"]
    _, _, error = run(capsys, *command)
    assert "the statistics beside the agent are not used" in error
    assert f"--vecnormalize {tmp_path / 'vecnormalize.pkl'} uses those beside it" in unfold(error)
    assert run(capsys, *command, "--vecnormalize", "none")[2] == ""
    assert "not used" not in run(capsys, "predict", tmp_path, *command[2:])[2]


def test_a_custom_policy_class_is_treated_as_the_one_that_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "a.zip"
    serialized = base64.b64encode(b"\x80\x04\x8c\x04mine\x8c\x06Policy\x93.").decode()
    path.write_bytes(with_data(lambda data: data["policy_class"].update({":serialized:": serialized})))
    options = ["--observation", json.dumps(OBSERVATION)]
    status, report = run_json(capsys, "predict", path, *options)
    assert (status, report["outcome"]) == (2, "unsupported")
    assert "--policy-class" in report["message"]
    found = run_json(capsys, "predict", path, *options, "--policy-class", "ActorCriticPolicy")[1]
    assert found["actions"] == run_json(capsys, "predict", PPO, *options)[1]["actions"]


@pytest.mark.parametrize("name", ["policy-lstm", "policy-lstm-two-layers", "policy-sb2-ppo2-lstm"])
def test_steps_carry_the_state_of_the_critic_too(capsys: pytest.CaptureFixture[str], name: str) -> None:
    path = write_vector(name)
    policy = sbformat.load_policy(path)
    shape = policy.observation_space.shape  # type: ignore[attr-defined]
    observations = np.random.default_rng(1).uniform(-1, 1, (6, *shape)).astype(np.float32)
    options = ["--observation", json.dumps(observations.tolist()), "--sequence", "--outputs"]
    report = run_json(capsys, "predict", path, *options)[1]
    names = list(dict.fromkeys(state.name for state in policy.graph.states))
    state: Any = None
    for step, observation in enumerate(observations):
        made = policy.outputs(observation[None], state, [step == 0])
        state = made["state"] if names == ["state"] else [made[name] for name in names]
        np.testing.assert_allclose(np.ravel(report["outputs"]["value"][step]), np.ravel(made["value"]), atol=1e-6)
    assert "hidden" not in run(capsys, "predict", path, *options)[1]


@pytest.mark.parametrize(
    ("options", "outcome", "message"),
    [
        (["--observation", "[1, 2"], "data failure", "expected JSON"),
        (["--observation", "[1, 2, 3]"], "invalid", "expected the shape (4,) of one observation"),
        (["--observation", '{"a": 1}'], "invalid", "expected an array of the shape (4,)"),
        (["--observation", '["a", "b", "c", "d"]'], "invalid", "expected numbers"),
        (["--observation", "[[1, 2, 3, 4], [1, 2]]"], "invalid", "lists of different lengths"),
        (["--observation", "5", "--sequence"], "invalid", "a list of observations"),
        (["--observation", "[]", "--sequence"], "invalid", "a list of observations"),
        (["--observation", '"abc"', "--sequence"], "invalid", "a list of observations"),
        (["--observation", '{"a": 1}', "--sequence"], "invalid", "a list of observations"),
        (["--observation", '{"a": [1, 2], "b": [1]}', "--sequence"], "invalid", "for each key of the observation, got"),
        (["--observation", "[1, 2, 3, 4]", "--action-masks", "[1, 0]"], "invalid", "MaskablePPO"),
        (["--observation", "[1, 2, 3, 4]", "--action-masks", "x"], "data failure", "expected JSON"),
        (["--observation", "nowhere.npy"], "cannot open", "No such file"),
        (["--observation", "[" * 100 + "]" * 100], "limit exceeded", "json_depth"),
    ],
)
def test_an_observation_that_does_not_fit_is_one_error(
    capsys: pytest.CaptureFixture[str], options: list[str], outcome: str, message: str
) -> None:
    status, report = run_json(capsys, "predict", PPO, *options)
    assert (status, report["outcome"]) == (2, outcome)
    assert message in report["message"]
    status, out, err = run(capsys, "predict", PPO, *options)
    assert (status, out) == (2, "")
    blamed = PPO if outcome == "invalid" else options[-2] if outcome != "cannot open" else options[-1]
    assert report.get("file", PPO) == blamed
    assert err.startswith(f"sbformat: {blamed}: {outcome}: ")
    assert unfold(err).count("\n") == 1


MASKABLE = b"\x80\x04csb3_contrib.common.maskable.policies\nMaskableActorCriticPolicy\n."


@pytest.fixture
def maskable(tmp_path: Path) -> Path:
    """The bundled agent as one of MaskablePPO, which has the same weights."""
    path = tmp_path / "maskable.zip"
    serialized = base64.b64encode(MASKABLE).decode()
    path.write_bytes(with_data(lambda data: data["policy_class"].update({":serialized:": serialized})))
    return path


@pytest.mark.parametrize(
    ("masks", "expected"), [("[1, 0]", [0, 0, 0]), ("[0, 1]", [1, 1, 1]), ("[[1, 0], [0, 1], [1, 0]]", [0, 1, 0])]
)
def test_steps_have_a_mask_each_or_one_for_all(
    capsys: pytest.CaptureFixture[str], maskable: Path, masks: str, expected: list[int]
) -> None:
    options = ["--observation", json.dumps(OTHERS), "--sequence", "--action-masks", masks]
    assert run_json(capsys, "predict", maskable, *options)[1]["actions"] == expected


@pytest.mark.parametrize(
    ("masks", "message"),
    [
        ("[[1, 0]]", "expected a mask for each of the 3 steps, or one for all, got 1 masks"),
        ("[[1, 0], [1, 0], [1]]", "expected numbers of the shape (1, 2) as action_masks, got a list of 1"),
        ("[[1, 0], [1, [0]], [1, 0]]", "as action_masks, got lists of different lengths"),
        ("[[1, 0], 1, [1, 0]]", "expected numbers of the shape (1, 2) as action_masks, got int"),
        ("[]", "as action_masks, got a list of 0"),
        ("5", "as action_masks, got int"),
        ('{"a": 1}', "as action_masks, got dict"),
    ],
)
def test_masks_of_steps_that_do_not_fit_are_one_line(
    capsys: pytest.CaptureFixture[str], maskable: Path, masks: str, message: str
) -> None:
    options = ["--observation", json.dumps(OTHERS), "--sequence", "--action-masks", masks]
    status, report = run_json(capsys, "predict", maskable, *options)
    assert (status, report["outcome"]) == (2, "invalid")
    assert message in report["message"]


def test_a_policy_that_is_not_known_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(changed(without=("policy.pth",)))
    status, report = run_json(capsys, "predict", path, "--observation", json.dumps(OBSERVATION))
    assert (status, report["outcome"] != "ok") == (2, True)


def test_weights_of_another_network_are_listed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(with_data(lambda data: data.update(policy_kwargs={"net_arch": [9]})))
    status, report = run_json(capsys, "predict", path, "--observation", json.dumps(OBSERVATION))
    assert (status, report["outcome"]) == (2, "invalid")
    assert {"mlp_extractor.policy_net.0.weight", "action_net.weight"} <= {row["loc"] for row in report["problems"]}
    status, out, err = run(capsys, "predict", path, "--observation", json.dumps(OBSERVATION))
    assert (status, out) == (2, "")
    assert err.startswith(f"sbformat: {path}: invalid: 10 problems\n")
    assert "\n  - 'action_net.weight': expected the shape" in err


# -- evaluate -----------------------------------------------------------------------------------------


class Gymnasium(ModuleType):
    """gymnasium, as far as ``evaluate`` knows it."""

    class error:  # noqa: N801 -- gymnasium's name
        class Error(Exception):
            pass

    def __init__(self) -> None:
        super().__init__("gymnasium")
        self.made: list[tuple[str, dict[str, Any]]] = []
        self.closed = 0

    def make(self, env_id: str, **arguments: Any) -> CountingEnv:
        if env_id != "Counting-v1":
            message = f"Environment `{env_id}` doesn't exist."
            raise self.error.Error(message)
        self.made.append((env_id, arguments))
        env = CountingEnv((3, 5) * 20, arguments.get("space", CountingEnv().observation_space))
        env.close = self.count_closed  # type: ignore[attr-defined]
        return env

    def count_closed(self) -> None:
        self.closed += 1


@pytest.fixture
def gymnasium(monkeypatch: pytest.MonkeyPatch) -> Gymnasium:
    made = Gymnasium()
    monkeypatch.setitem(sys.modules, "gymnasium", made)
    return made


def test_evaluate_reports_means_and_deviations(capsys: pytest.CaptureFixture[str], gymnasium: Gymnasium) -> None:
    status, report = run_json(capsys, "evaluate", PPO, "--env", "Counting-v1", "-n", 2, "--seed", 3)
    assert (status, report["rewards"], report["lengths"]) == (0, [4.5, 7.5], [3, 5])
    assert (report["mean_reward"], report["std_reward"]) == (6.0, 1.5)
    assert (report["mean_length"], report["std_length"]) == (4.0, 1.0)
    assert (report["env"], report["seed"], report["deterministic"]) == ("Counting-v1", 3, True)
    assert (gymnasium.made, gymnasium.closed) == ([("Counting-v1", {})], 1)
    status, out, err = run(capsys, "evaluate", PPO, "--env", "Counting-v1", "--stochastic")
    assert (status, err) == (0, "")
    lines = [line.split() for line in out.splitlines()]
    assert " ".join(lines[0]) == f"{PPO}: PPO in Counting-v1, 20 episodes, sampled actions"
    assert lines[-2:] == [["reward", "6.00", "1.50", "4.50", "7.50"], ["length", "4.00", "1.00", "3.00", "5.00"]]


def test_evaluate_tells_of_statistics_that_are_not_used(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, gymnasium: Gymnasium
) -> None:
    agent = tmp_path / "agent.zip"
    agent.write_bytes(PPO.read_bytes())
    (tmp_path / "vecnormalize.pkl").write_bytes(STATISTICS.read_bytes())
    status, _, error = run(capsys, "evaluate", agent, "--env", "Counting-v1", "-n", "2")
    assert (status, len(gymnasium.made)) == (0, 1)
    assert "the statistics beside the agent are not used" in error


def test_evaluate_prints_a_row_for_each_episode(capsys: pytest.CaptureFixture[str], gymnasium: Gymnasium) -> None:
    report = run_json(capsys, "evaluate", PPO, "--env", "Counting-v1", "-n", 2, "--seed", 3)[1]
    status, out, err = run(capsys, "evaluate", PPO, "--env", "Counting-v1", "-n", 2, "--seed", 3, "--format", "csv")
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        "path,outcome,message,algorithm,env,episode,reward,length",
        *(
            f"{PPO},ok,,PPO,Counting-v1,{number},{reward!r},{length}"
            for number, (reward, length) in enumerate(zip(report["rewards"], report["lengths"]))
        ),
    ]


def test_evaluate_passes_arguments_on(capsys: pytest.CaptureFixture[str], gymnasium: Gymnasium) -> None:
    options = ["--max-steps", 2, "--env-kwargs", '{"g": 9.8}']
    report = run_json(capsys, "evaluate", PPO, "--env", "Counting-v1", *options)[1]
    assert gymnasium.made == [("Counting-v1", {"max_episode_steps": 2, "g": 9.8})]
    assert set(report["lengths"]) == {2}


@pytest.mark.parametrize("at", ["agent.zip", "."])
def test_settings_beside_an_agent_name_its_environment(
    capsys: pytest.CaptureFixture[str], gymnasium: Gymnasium, tmp_path: Path, at: str
) -> None:
    pytest.importorskip("yaml")
    (tmp_path / "agent.zip").write_bytes(PPO.read_bytes())
    settings = tmp_path / "args.yml"
    settings.write_text("env: Counting-v1\nseed: 3\n")
    status, report = run_json(capsys, "evaluate", tmp_path / at, "-n", 2)
    assert (status, report["env"], gymnasium.made) == (0, "Counting-v1", [("Counting-v1", {})])
    err = run(capsys, "evaluate", tmp_path / at, "-n", 1)[2]
    assert err.endswith(f"sbformat: environment Counting-v1, from {settings}\n")
    run_json(capsys, "evaluate", tmp_path / at, "--env", "Counting-v1", "--max-steps", 2)
    assert gymnasium.made[-1] == ("Counting-v1", {"max_episode_steps": 2})


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({}, "no settings or logs beside the agent name its environment"),
        ({"args.yml": "env: A-v0", "config.yml": "env: B-v0"}, "the files beside the agent name several: A-v0, B-v0"),
        ({"args.yml": "[1]"}, "; 'args.yml' was not read (expected YAML of a mapping)"),
    ],
)
def test_an_environment_that_is_not_known_is_asked_for(
    capsys: pytest.CaptureFixture[str], gymnasium: Gymnasium, tmp_path: Path, files: dict[str, str], why: str
) -> None:
    pytest.importorskip("yaml")
    (tmp_path / "agent.zip").write_bytes(PPO.read_bytes())
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(SystemExit) as ended:
        main(["evaluate", str(tmp_path / "agent.zip")])
    err = unfold(capsys.readouterr().err)
    assert (ended.value.code, gymnasium.made) == (2, [])
    assert "error: expected --env: " in err
    assert why in err
    assert "; --env CartPole-v1, or another ID of gymnasium" in err


def test_warnings_have_no_escape_sequences(
    capsys: pytest.CaptureFixture[str], gymnasium: Gymnasium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """gymnasium colours its warnings, whether a terminal shows them or not."""
    make = gymnasium.make

    def warn(env_id: str) -> CountingEnv:
        warnings.warn("\x1b[33mWARN: old \x1b[1menvironment\x1b[0m\x1b[0m", UserWarning, stacklevel=1)
        return make(env_id)

    monkeypatch.setattr(gymnasium, "make", warn)
    status, _, err = run(capsys, "evaluate", PPO, "--env", "Counting-v1", "-n", 1)
    assert (status, err) == (0, "sbformat: warning: WARN: old environment\n")


def test_evaluate_stacks_frames(
    capsys: pytest.CaptureFixture[str], gymnasium: Gymnasium, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = gymnasium.make
    monkeypatch.setattr(gymnasium, "make", lambda env_id: make(env_id, space=Box(-9, 9, (2,))))
    options = ["--frame-stack", 2, "--channels-order", "last"]
    assert run_json(capsys, "evaluate", PPO, "--env", "Counting-v1", *options)[0] == 0
    status, report = run_json(capsys, "evaluate", PPO, "--env", "Counting-v1")
    assert (status, report["outcome"]) == (2, "invalid")
    assert "does not fit the policy" in report["message"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--env", "Nothing-v0"], "Environment `Nothing-v0` doesn't exist."),
        (["--env", "Counting-v1", "--env-kwargs", "[]"], "--env-kwargs: data failure: expected a JSON object"),
        (["--env", "Counting-v1", "--env-kwargs", "{"], "--env-kwargs: data failure: at byte 1: expected JSON"),
    ],
)
def test_what_cannot_be_evaluated_is_one_error(
    capsys: pytest.CaptureFixture[str], gymnasium: Gymnasium, options: list[str], message: str
) -> None:
    status, out, err = run(capsys, "evaluate", PPO, *options)
    assert (status, out, unfold(err).count("\n")) == (2, "", 1)
    assert message in err
    assert run_json(capsys, "evaluate", PPO, *options)[0] == 2


def test_an_observation_that_is_not_a_number_is_one_error(
    capsys: pytest.CaptureFixture[str], gymnasium: Gymnasium, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CountingEnv, "observe", lambda _: [np.nan] * 4)
    status, report = run_json(capsys, "evaluate", PPO, "--env", "Counting-v1")
    assert (status, report["outcome"], gymnasium.closed) == (2, "invalid", 1)
    assert "got NaN or infinity" in report["message"]


def test_without_gymnasium_the_extra_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    status, _, err = run(capsys, "evaluate", PPO, "--env", "CartPole-v1")
    assert (status, 'pip install "sbformat[gym]"' in err) == (2, True)


def test_the_order_of_channels_is_for_stacked_frames(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["evaluate", str(PPO), "--env", "x", "--channels-order", "last"])
    assert "--channels-order: expected --frame-stack with it" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--episodes", "--frame-stack", "--max-steps"])
def test_numbers_are_at_least_one(capsys: pytest.CaptureFixture[str], option: str) -> None:
    for wrong in ("0", "-1", "many"):
        with pytest.raises(SystemExit):
            main(["evaluate", str(PPO), "--env", "x", option, wrong])
        assert f"expected a number of at least 1, got {wrong}" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["evaluate", str(PPO), "--env", "x", "--seed", "-1"])
    assert "expected a number of at least 0, got -1" in capsys.readouterr().err


# -- inspect ------------------------------------------------------------------------------------------


def test_inspect_describes_the_network(capsys: pytest.CaptureFixture[str]) -> None:
    status, report = run_json(capsys, "inspect", PPO)
    assert status == 0
    network = report["network"]
    assert [(layer["name"], layer["shape"], layer["activation"]) for layer in network["layers"]] == [
        ("mlp_extractor.policy_net.0", [8], "Tanh"),
        ("mlp_extractor.policy_net.2", [8], "Tanh"),
        ("action_net", [2], None),
        ("mlp_extractor.value_net.0", [8], "Tanh"),
        ("mlp_extractor.value_net.2", [8], "Tanh"),
        ("value_net", [1], None),
    ]
    assert network["layers"][2]["weights"] == ["policy.pth:action_net.weight", "policy.pth:action_net.bias"]
    assert network["layers"][2]["outputs"] == ["logits"]
    assert [item["name"] for item in network["inputs"]] == ["observation"]
    assert [head["name"] for head in network["heads"]] == ["action", "logits", "probabilities", "value"]
    assert [row["operation"] for row in network["postprocessing"][:3]] == [
        "ReduceLogSumExp(logits, axis=-1, keepdims=True)", "Sub(logits, action/ReduceLogSumExp)",
        "ArgMax(action/Sub, axis=-1)",
    ]  # fmt: skip
    assert (network["parameter_count"], network["sampling"]["kind"]) == (251, "categorical")
    out = run(capsys, "inspect", PPO, "--long")[1]
    for words in ("network: layers (251 parameters)", "linear", "4 -> 8", "Tanh", "network: post-processing", "ArgMax"):
        assert words in out
    assert "policy  4 -> 8 -> 8 -> 2 Tanh" in out


def test_inspect_says_why_a_network_is_not_known(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(with_data(lambda data: data.update(policy_kwargs={"net_arch": [9]})))
    status, report = run_json(capsys, "inspect", path)
    assert (status, list(report["network"])) == (0, ["reason"])
    assert report["network"]["reason"].count("\n") == 0
    out = run(capsys, "inspect", path)[1]
    assert re.search(r"^    not known  \S", out, re.MULTILINE)


@pytest.mark.parametrize("name", ["vecnormalize-pendulum.pkl", "replay-buffer-cartpole.pkl"])
def test_a_file_without_a_policy_has_no_network(capsys: pytest.CaptureFixture[str], name: str) -> None:
    status, report = run_json(capsys, "inspect", ARCHIVES / name)
    assert (status, report["network"]) == (0, None)


def test_the_network_of_a_bundle_is_described_without_its_statistics(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "bundle.zip"
    sbformat.write(sbformat.bundle(SAC, STATISTICS), path)
    assert run_json(capsys, "inspect", path)[1]["network"] == run_json(capsys, "inspect", SAC)[1]["network"]


def test_the_numbers_of_statistics_are_shown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.zip"
    sbformat.write(sbformat.bundle(SAC, STATISTICS), bundle)
    value = sbformat.read_vecnormalize(STATISTICS)
    assert isinstance(value.obs_rms, sbformat.RunningMeanStd)
    for path in (STATISTICS, bundle):
        found = run_json(capsys, "inspect", path)[1]["statistics"]
        assert (found["clip_obs"], found["obs_rms"]["count"]) == (value.clip_obs, value.obs_rms.count)
        assert (found["obs_rms"]["mean"], found["obs_rms"]["var"]) == (
            value.obs_rms.mean.tolist(),
            value.obs_rms.var.tolist(),
        )
        out = run(capsys, "inspect", "--long", path)[1]
        assert re.search(r"^    clip_obs +10\.0$", out, re.MULTILINE)
        assert re.search(r"^    obs_rms/mean +-0\.180354, 0\.0395783, 0\.515696$", out, re.MULTILINE)
        assert re.search(r"^    ret_rms/count +100\.0001$", out, re.MULTILINE)
    assert run_json(capsys, "inspect", SAC)[1]["statistics"] is None


def test_long_statistics_are_shortened() -> None:
    rms = sbformat.RunningMeanStd(mean=np.arange(20_000.0), var=np.ones(20_000), count=2.0)
    value = sbformat.VecNormalize(obs_rms=rms, norm_reward=False)
    rows = dict(list_statistics(value, with_settings=False))
    assert rows["obs_rms/mean"] == "0, 1, 2, 3, 4, 5, 6, 7, … 19,992 more, from 0 to 19999"
    assert "ret_rms/mean" not in rows
    found = describe_statistics(value)
    assert found is not None
    assert (found["obs_rms"]["shape"], found["obs_rms"]["mean"], found["ret_rms"]) == ((20_000,), None, None)


def test_broken_statistics_of_a_bundle_are_reported(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "bundle.zip"
    sbformat.write(sbformat.bundle(SAC, STATISTICS), path)
    path.write_bytes(changed(path, **{"vecnormalize.json": b"{}"}))
    status, report = run_json(capsys, "inspect", path)
    assert (status, report["statistics"]) == (1, None)
    assert [row["entry"] for row in report["broken"]] == ["vecnormalize.json"]
