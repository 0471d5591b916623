"""Agents of SB2, rebuilt and loaded by real SB3: they predict what real SB2 predicted, and train further.

What SB2 predicted is recorded beside the agents (``tests/nets/archives/sb2/make.py``). ``SBFORMAT_SB2_AGENTS``
names a folder with more of them. An agent that is not converted is refused for one of the reasons below.
"""

# ruff: noqa: E402 -- importorskip stands before what needs it
from __future__ import annotations

import os
import re
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

torch = pytest.importorskip("torch")
sb3 = pytest.importorskip("stable_baselines3")
contrib = pytest.importorskip("sb3_contrib")

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.save_util import load_from_zip_file

import sbformat
from tests.helpers.exact_policy import measure_rounding
from tests.helpers.sb2_predictions import assert_equal, read_recording, recorded_agents, split_goals
from tests.helpers.shared_files import CORPUS, GENERATED, SHARED, summarize_counts
from tests.interop.rebuild_envs import environment, smaller

if TYPE_CHECKING:
    from sbformat.tools.rebuild import RebuildReport

FOLDERS: Final = (
    Path(__file__).parents[1] / "nets" / "archives" / "sb2",
    SHARED / "policies" / "sb2",
    *map(Path, filter(None, [os.environ.get("SBFORMAT_SB2_AGENTS")])),
)
RECORDED: Final = [agent for folder in FOLDERS for agent in recorded_agents(folder)]
OTHERS: Final = sorted(
    path
    for folder in (CORPUS / "sb2", GENERATED / "sb2")
    if folder.exists()
    for path in folder.iterdir()
    if path.suffix not in (".json", ".npz") and sbformat.read(path).format.startswith("sb2")
)
REASONS: Final = (
    r"LayerNorm", r"LnLstm", r"layers before its LSTM", r"has for PPO alone", r"SB3 has no ACER", r"pads images",
    r"bounds that differ between pixels", r"normalizes images", r"is not a class of Stable Baselines 2",
)  # fmt: skip
"""Why agents are not converted."""
NEW_CRITIC: Final = "model/qf"
"""The row of a critic of DDPG that SB3 cannot have."""
FURTHER: Final = 64
"""Steps of training."""
COUNTED: Final[Counter[str]] = Counter()
_summary = summarize_counts(COUNTED, "test_sb2_to_sb3.py:")


@pytest.fixture(autouse=True)
def _warnings_are_errors() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("agent", RECORDED, ids=lambda path: path.name)
def test_a_converted_agent_predicts_what_sb2_does_and_trains(agent: Path, tmp_path: Path) -> None:
    report = convert(agent, tmp_path / "agent.zip")
    if report is None:
        return
    model = load(tmp_path / "agent.zip", report, agent)
    compare_predictions(model, agent, has_critics=not any(row.key == NEW_CRITIC for row in report.findings))
    train(tmp_path / "agent.zip", report, model)
    COUNTED["agents predict what SB2 predicted, and train"] += 1


@pytest.mark.parametrize("agent", OTHERS, ids=lambda path: path.name)
def test_a_converted_agent_loads_without_a_warning(agent: Path, tmp_path: Path) -> None:
    report = convert(agent, tmp_path / "agent.zip")
    if report is None:
        return
    model = load(tmp_path / "agent.zip", report, None)
    policy = sbformat.load_policy(agent)
    random = np.random.default_rng(0)
    observations = {item.key: draw(item, model, random) for item in policy.graph.inputs if item.role == "observation"}
    batch = observations.get(None, observations)
    rounding = measure_rounding(policy, batch, FURTHER)
    actions = policy.predict(batch, deterministic=True)[0]
    assert_equal(model.predict(batch, deterministic=True)[0], actions, "actions", rounding["action"])
    COUNTED["others load, and act as load_policy"] += 1


# -- conversion ---------------------------------------------------------------------------------------


def convert(agent: Path, path: Path) -> RebuildReport | None:
    """Write the converted agent, or return None if it is refused for one of the reasons."""
    try:
        archive, report = sbformat.rebuild(agent)
    except sbformat.UnsupportedError as error:
        assert any(re.search(reason, str(error)) for reason in REASONS), str(error)  # noqa: PT017 -- the other case
        assert re.search("load_policy.*ONNX|policy_class=", str(error))  # noqa: PT017
        COUNTED["agents are refused"] += 1
        return None
    sbformat.write(archive, path)
    assert not sbformat.validate(path)
    assert sbformat.scan(path).verdict == "clean"
    return report


def load(path: Path, report: RebuildReport, agent: Path | None) -> Any:
    """Return the agent in SB3, with an environment that has SB2's observations.

    :param agent: with a recording, whose observations have the shape of the environment's
    """
    data, _, _ = load_from_zip_file(path)
    assert data is not None
    space = data["observation_space"]
    if isinstance(space, spaces.Box) and agent is not None:
        shape = read_recording(agent)["observations"].shape
        recurrent = "Lstm" in str(sbformat.read(agent).decode("policy"))
        if shape[1:] != space.shape and not isinstance(space, spaces.Dict) and not recurrent:
            space = spaces.Box(0, 255, shape[1:], np.uint8)
    env = environment(space, data["action_space"], data["n_envs"])
    return model_class(report).load(path, env=env, device="cpu", custom_objects={"buffer_size": 1000})


def model_class(report: RebuildReport) -> Any:
    return getattr(sb3, report.algorithm, None) or getattr(contrib, report.algorithm)


def draw(item: Any, model: Any, random: np.random.Generator) -> np.ndarray:
    """Draw observations; SB2 and SB3 encode the same ones."""
    space = model.observation_space if item.key is None else model.observation_space[item.key]
    if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)):
        return np.stack([space.sample() for _ in range(FURTHER)])
    return random.normal(size=(FURTHER, *item.shape)).astype(item.dtype)


# -- comparison ---------------------------------------------------------------------------------------


def compare_predictions(model: Any, agent: Path, *, has_critics: bool) -> None:
    recording = read_recording(agent)
    if "states" in recording:
        compare_steps(model, recording)
        return
    policy = sbformat.load_policy(agent)
    observations = split_goals(policy, recording["observations"])
    rounding = measure_rounding(policy, observations, len(recording["observations"]))
    actions, _ = model.predict(observations, deterministic=True)
    expected = recording["actions"]
    assert_equal(actions.astype(expected.dtype), expected, "actions", rounding["action"])
    seen, _ = model.policy.obs_to_tensor(observations)
    with torch.no_grad():
        if "critics" in recording and has_critics:
            values = torch.cat(model.critic(seen, torch.as_tensor(recording["tried"])), 1)
            assert_equal(values.numpy(), recording["critics"], "critics")
        if hasattr(model, "q_net") and "q_values" in recording:
            assert_equal(model.q_net(seen).numpy(), recording["q_values"], "q_values", rounding["q_values"])
        if hasattr(model, "rollout_buffer") and "value" in recording:
            values = model.policy.predict_values(seen).numpy()[:, 0]
            assert_equal(values, recording["value"].reshape(-1), "value", rounding["value"])


def compare_steps(model: Any, recording: dict[str, np.ndarray]) -> None:
    """Compare the steps of a recurrent policy: SB2's state is the cells, then the hidden values."""
    masks = recording["masks"].reshape(len(recording["masks"]), -1)
    steps, count = masks.shape
    state: Any = None
    made: dict[str, list[Any]] = {"actions": [], "states": []}
    for step in range(steps):
        batch = np.stack([recording["observations"][(step + 5 * at) % steps] for at in range(count)])
        action, state = model.predict(batch, state, masks[step], deterministic=True)
        made["actions"].append(action)
        made["states"].append(np.concatenate([state[1][0], state[0][0]], axis=-1))
    for name, values in made.items():
        expected = recording[name]
        assert_equal(np.reshape(values, expected.shape).astype(expected.dtype), expected, name)


def train(path: Path, report: RebuildReport, model: Any) -> None:
    """Train further, with minibatches that let it finish soon; the parameters change."""
    options = smaller(model, model.n_envs)
    if hasattr(model, "sub_sampling_factor"):  # of the steps of a rollout
        options["n_steps"] = 4 * model.sub_sampling_factor
    env = model.get_env()
    again = model_class(report).load(path, env=env, device="cpu", custom_objects=options)
    before = {name: value.clone() for name, value in again.policy.state_dict().items()}
    again.learn(FURTHER)
    assert again.num_timesteps >= FURTHER
    after = again.policy.state_dict()
    assert any(not torch.equal(value, after[name]) for name, value in before.items())
    assert all(torch.isfinite(value).all() for value in after.values())
