"""Networks that SB3 does not have, as wider ones: the same values, computed in numpy."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import sbformat
from sbformat.tools.rebuild.sb2 import folding
from sbformat.tools.rebuild.sb2.folding import Layers, Linear, Signal, Units, add_late_actions, clip, join_towers
from tests.helpers.changed_sb2_agents import FOLDER, changed, read_parameters, with_parameters
from tests.helpers.exact_policy import measure_rounding
from tests.helpers.many_cases import check_each
from tests.helpers.sampling import with_exhaustive
from tests.helpers.sb2_predictions import assert_equal, read_recording, recorded_agents, split_goals
from tests.helpers.shared_files import SHARED

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbformat.tools.rebuild.rebuild_report import Row


FUNCTIONS: Final[dict[str, Callable[[np.ndarray], np.ndarray]]] = {
    "relu": lambda x: np.maximum(x, 0),
    "leaky_relu": lambda x: np.where(x < 0, 0.2 * x, x),
    "elu": lambda x: np.where(x < 0, np.expm1(np.minimum(x, 0)), x),
    "identity": lambda x: x,
    "linear": lambda x: x,
}
"""Activations that carry a value."""
COUNT: Final = 50
RANDOM: Final = np.random.default_rng(0)


def make_layers(*widths: int) -> list[Linear]:
    """Return layers between these widths."""
    return [
        Linear(RANDOM.normal(size=(outputs, inputs)), RANDOM.normal(size=outputs))
        for inputs, outputs in itertools.pairwise(widths)
    ]


def run(layers: Sequence[Linear], values: np.ndarray, activation: str) -> np.ndarray:
    """Return the outputs for a batch: the activation is between the layers."""
    for number, layer in enumerate(layers):
        values = FUNCTIONS[activation](values) if number else values
        values = values @ layer.weight.T.astype(np.float64) + layer.bias
    return values


def close(actual: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(actual, expected, 1e-5, 1e-4)


@check_each("activation", [*FUNCTIONS, "tanh"])
@check_each("hidden", [(), (6,), (6, 4)])
def test_towers_beside_each_other_are_a_dueling_network(activation: str, hidden: tuple[int, ...]) -> None:
    actions, value = make_layers(5, *hidden, 3), make_layers(5, *hidden, 1)
    layers = Layers(5, activation)
    join_towers(layers, Signal.select(range(5)), actions, value)
    seen = RANDOM.normal(size=(COUNT, 5))
    FUNCTIONS.setdefault("tanh", np.tanh)
    scores, state = run(actions, seen, activation), run(value, seen, activation)
    close(run(layers.made, seen, activation), state + scores - scores.mean(axis=1, keepdims=True))
    assert layers.widths == [2 * width for width in hidden]


@pytest.mark.parametrize("activation", ["relu", "leaky_relu", "elu", "identity"])
def test_features_of_a_cnn_are_carried_to_scores_without_hidden_layers(activation: str) -> None:
    actions, value = make_layers(5, 3), make_layers(5, 6, 4, 1)
    layers = Layers(5, activation)
    join_towers(layers, Signal.select(range(5)), actions, value)
    seen = np.abs(RANDOM.normal(size=(COUNT, 5)))
    scores, state = run(actions, seen, activation), run(value, seen, activation)
    close(run(layers.made, seen, activation), state + scores - scores.mean(axis=1, keepdims=True))


@check_each("activation", ["relu", "leaky_relu", "elu", "identity"])
@check_each("hidden", [(6,), (6, 4), (6, 4, 3)])
def test_actions_are_carried_to_the_second_layer_of_a_critic(activation: str, hidden: tuple[int, ...]) -> None:
    first, *rest = make_layers(5, *hidden, 1)
    second = Linear(RANDOM.normal(size=(len(rest[0].bias), hidden[0] + 2)), rest[0].bias)
    layers = Layers(7, activation)
    add_late_actions(layers, Signal.select(range(5)), Signal.select((5, 6)), [first, second, *rest[1:]])
    seen, actions = RANDOM.normal(size=(COUNT, 5)), RANDOM.uniform(-1, 1, (COUNT, 2))
    inner = np.concatenate([FUNCTIONS[activation](run([first], seen, activation)), actions], axis=1)
    expected = run([second, *rest[1:]], inner, activation)
    close(run(layers.made, np.concatenate([seen, actions], axis=1), activation), expected)


def test_a_critic_without_hidden_layers_does_not_depend_on_the_action() -> None:
    (head,) = make_layers(5, 1)
    layers = Layers(7, "relu")
    add_late_actions(layers, Signal.select(range(5)), Signal.select((5, 6)), [head])
    assert not layers.made[0].weight[:, 5:].any()


@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "relu6", "selu", "softplus"])
def test_an_activation_that_changes_every_value_carries_none(activation: str) -> None:
    with pytest.raises(sbformat.UnsupportedError, match=f"no unit with the activation {activation} carries"):
        Layers(2, activation).carry(Signal.select((0, 1)), -1.0)


@pytest.mark.parametrize(("low", "high"), [(-5.0, 5.0), (1.0, 2.0), (-np.inf, 0.5), (-0.5, np.inf)])
def test_a_layer_clips(low: float, high: float) -> None:
    layers = Layers(3, "relu")
    (signal,) = clip(layers, Signal.select(range(3)).scale(np.full(3, 2.0), np.ones(3)), low, high)
    layers.add(Units.copy(signal))
    seen = RANDOM.normal(size=(COUNT, 3)) * 9
    close(run(layers.made, seen, "relu"), np.clip(2 * seen + 1, low, high))


def test_within_the_bounds_clipping_rounds_nothing() -> None:
    layers = Layers(1, "relu")
    (signal,) = clip(layers, Signal.select([0]), -5.0, 5.0)
    layers.add(Units.copy(signal))
    seen = RANDOM.uniform(-5, 5, (COUNT, 1)).astype(np.float32)
    values = seen
    for number, layer in enumerate(layers.made):
        values = np.maximum(values, 0) if number else values
        values = values @ layer.weight.T + layer.bias
    inside = (np.abs(seen) < 4.99)[:, 0]
    np.testing.assert_array_equal(values[inside], seen[inside])


def test_only_relu_clips() -> None:
    with pytest.raises(sbformat.UnsupportedError, match="SB3 does not clip observations"):
        clip(Layers(1, "tanh"), Signal.select([0]), -1.0, 1.0)


def test_a_layer_that_is_too_large_is_refused_before_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "MOST_WEIGHTS", 99)
    layers = Layers(10, "relu")
    assert layers.add(Units.apply(Linear(np.zeros((9, 10)), np.zeros(9)), Signal.select(range(10))))
    with pytest.raises(sbformat.UnsupportedError, match="12 times 9 weights, more than 99"):
        layers.add(Units.apply(Linear(np.zeros((12, 9)), np.zeros(12)), Signal.select(range(9))))


ALGORITHMS: Final = ("DQN", "SAC", "TD3", "DDPG", "HER")
AGENTS: Final = [
    path
    for folder in (FOLDER, SHARED / "policies" / "sb2")
    for path in recorded_agents(folder)
    if path.name.startswith(tuple(name.lower() for name in ALGORITHMS)) or "lstm" in path.name
]
REFUSED: Final = {
    "-ln": "LayerNorm", "lnlstm": "LnLstm", "acer": "no ACER", "dqn-first": "LayerNorm", "perturbed": "LayerNorm",
    "-list": "LayerNorm", "selu-ln": "LayerNorm", "her-dqn-discrete": "LayerNorm", "-lstm.": "layers before its LSTM",
    "ppo2-lstm-arch": "layers before its LSTM",
}  # fmt: skip
"""Parts of the names of agents that are refused, and the reason; the last one that is in a name."""


def find_reason(agent: Path) -> str | None:
    return next((reason for part, reason in reversed(REFUSED.items()) if part in agent.name), None)


CONVERTED: Final = [agent for agent in AGENTS if find_reason(agent) is None]


def rows_of(report: Any) -> dict[str | None, Row]:
    return {row.key: row for row in report.rows}


def convert(name: str) -> tuple[sbformat.Archive, dict[str | None, Row]]:
    archive, report = sbformat.rebuild(FOLDER / name)
    return archive, rows_of(report)


@check_each("agent", CONVERTED)
def test_a_converted_agent_predicts_what_sb2_does(agent: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        archive, _ = sbformat.rebuild(agent)
    data = sbformat.writes(archive)
    assert not sbformat.validate(data)
    assert sbformat.scan(data).verdict == "clean"
    policy, recording = sbformat.load_policy(data), read_recording(agent)
    if "states" in recording:
        compare_steps(policy, recording)
        return
    original = sbformat.load_policy(agent)
    observations = split_goals(original, recording["observations"])
    rounding = measure_rounding(original, observations, len(recording["observations"]))
    if isinstance(observations, np.ndarray) and observations.ndim == 4:  # images, which SB3 transposes
        observations = observations.transpose(0, 3, 1, 2)
    expected = recording["actions"]
    actions = policy.predict(observations, deterministic=True)[0]
    assert_equal(actions.astype(expected.dtype), expected, "actions", rounding["action"])
    if "q_values" in recording:
        assert_equal(policy.outputs(observations)["q_values"], recording["q_values"], "q_values", rounding["q_values"])


def compare_steps(policy: sbformat.Policy, recording: dict[str, np.ndarray]) -> None:
    """SB2's state is the cells, then the hidden values."""
    masks = recording["masks"].reshape(len(recording["masks"]), -1)
    steps, count = masks.shape
    state: Any = None
    for step in range(steps):
        batch = np.stack([recording["observations"][(step + 5 * at) % steps] for at in range(count)])
        if batch.ndim == 4:
            batch = batch.transpose(0, 3, 1, 2)
        action, state = policy.predict(batch, state, masks[step], deterministic=True)
        hidden, cell = (part[0] for part in state)
        expected = recording["actions"][step]
        assert_equal(np.reshape(action, expected.shape).astype(expected.dtype), expected, "actions")
        assert_equal(np.concatenate([cell, hidden], axis=-1), recording["states"][step], "states")


@check_each("agent", [agent for agent in AGENTS if agent not in CONVERTED])
def test_what_sb3_does_not_have_is_refused_with_what_works(agent: Path) -> None:
    with pytest.raises(sbformat.UnsupportedError, match=f"{find_reason(agent)}.*load_policy.*ONNX"):
        sbformat.rebuild(agent)


# -- networks -----------------------------------------------------------------------------------------


def test_a_dueling_network_becomes_one_of_twice_the_width() -> None:
    archive, rows = convert("dqn-leaky-image.zip")
    assert archive.decode("policy_kwargs")["net_arch"] == [12, 10]
    weight = archive.parameters["policy"]["q_net.q_net.2.weight"]
    assert weight.shape == (10, 12)
    assert not weight[:5, 6:].any()
    assert not weight[5:, :6].any()
    assert "one network computes the sum of both towers" in rows["deepq/model/state_value"].message


def test_the_target_network_is_sb2s() -> None:
    archive, _ = convert("dqn-no-layers.zip")
    weights = archive.parameters["policy"]
    parameters = sbformat.read(FOLDER / "dqn-no-layers.zip").state_dict("parameters")
    for module, scope in (("q_net", "deepq/model"), ("q_net_target", "deepq/target_q_func/model")):
        expected = np.asarray(parameters[f"{scope}/action_value/fully_connected/weights:0"]).T
        np.testing.assert_allclose(weights[f"{module}.q_net.0.weight"], expected, 1e-7)


def test_the_targets_of_sac_are_copies_of_its_critics_and_the_value_function_is_dropped() -> None:
    archive, rows = convert("sac-auto.zip")
    weights = archive.parameters["policy"]
    for name in weights:
        if name.startswith("critic."):
            np.testing.assert_array_equal(weights[name], weights[name.replace("critic.", "critic_target.")])
    assert rows["model/values_fn/vf"].action == "dropped"
    assert "starts as a copy" in rows["model/values_fn"].message
    expected = sbformat.read(FOLDER / "sac-auto.zip").state_dict("parameters")["model/log_ent_coef:0"]
    variables = archive.pytorch_variables
    assert variables is not None
    assert variables["log_ent_coef"] == np.asarray(expected)


def test_a_fixed_entropy_coefficient_has_no_optimizer() -> None:
    archive, _ = convert("sac-image.zip")
    assert archive.data["ent_coef"] == 0.2
    assert "ent_coef_optimizer.pth" not in archive.entries


def test_actions_and_clipping_widen_the_networks_of_ddpg() -> None:
    archive, rows = convert("ddpg-deep.zip")
    # 3 observations, each as x, -x, x - high and low - x; 2 actions, each as a and -a, in the first two layers
    assert archive.decode("policy_kwargs")["net_arch"] == {"pi": [12, 7, 5, 4], "qf": [16, 11, 5, 4]}
    assert "clips the observations to -2.0 and 4.0" in rows["model/pi"].message
    assert "carry the actions" in rows["model/qf"].message
    assert "head of the critic" in rows["input/ret_rms"].message


def test_a_critic_that_sb3_cannot_have_is_new_and_the_actor_is_kept() -> None:
    archive, rows = convert("ddpg-tanh.zip")
    assert rows["model/qf"].is_finding
    assert "no unit with the activation tanh" in rows["model/qf"].message
    weights = archive.parameters["policy"]
    assert weights["critic.qf0.0.weight"].shape == (6, 6)
    np.testing.assert_array_equal(weights["critic.qf0.0.weight"], weights["critic_target.qf0.0.weight"])
    assert np.abs(weights["critic.qf0.0.weight"]).max() <= 1 / np.sqrt(6)


def test_an_activation_that_cannot_clip_is_refused_where_observations_are_unbounded() -> None:
    source = changed("ddpg-tanh", lambda data: data.update(observation_range=[-1.0, 1.0]))
    with pytest.raises(sbformat.UnsupportedError, match="only layers with the activation relu"):
        sbformat.rebuild(source)


def test_an_lstm_is_shared_and_has_torchs_order_of_gates() -> None:
    archive, _ = convert("ppo2-lstm-first.zip")
    kwargs = archive.decode("policy_kwargs")
    assert kwargs["shared_lstm"]
    assert not kwargs["enable_critic_lstm"]
    assert kwargs["net_arch"] == {"pi": [4, 3], "vf": [4, 5, 4]}
    bias = np.asarray(sbformat.read(FOLDER / "ppo2-lstm-first.zip").state_dict("parameters")["model/lstm1/b:0"])
    write, keep, read, candidate = np.split(bias, 4)
    weights = archive.parameters["policy"]
    np.testing.assert_array_equal(weights["lstm_actor.bias_ih_l0"], np.concatenate([write, keep, candidate, read]))
    assert not weights["lstm_actor.bias_hh_l0"].any()


# -- hyper-parameters ---------------------------------------------------------------------------------


def test_hyper_parameters_of_dqn_have_sb3s_names() -> None:
    archive, rows = convert("dqn-no-layers.zip")
    data = archive.data
    assert data["target_update_interval"] == 500
    assert data["exploration_final_eps"] == 0.02
    assert data["buffer_size"] == 50_000  # SB2's default, which it does not save
    assert data["learning_starts"] == 1000
    assert data["exploration_rate"] == pytest.approx(0.4)  # as make.py set it
    assert archive.decode("train_freq").frequency == 1
    assert rows["double_q"].is_finding
    assert not rows["prioritized_replay"].is_finding


def test_priorities_of_a_replay_buffer_are_a_finding() -> None:
    source = changed("dqn-no-layers", lambda data: data.update(prioritized_replay=True, double_q=False))
    rows = rows_of(sbformat.rebuild(source)[1])
    assert rows["prioritized_replay"].is_finding
    assert rows["prioritized_replay"].instead == "a uniform replay buffer"
    assert not rows["double_q"].is_finding


def test_td3_keeps_its_gradient_steps_which_the_file_does_not_contain() -> None:
    archive, _ = convert("td3-noise.zip")
    assert archive.data["gradient_steps"] == 100
    assert archive.decode("train_freq").frequency == 100
    noise = archive.decode("action_noise")
    assert str(noise.type) == "stable_baselines3.common.noise.NormalActionNoise"
    np.testing.assert_array_equal(noise.attributes["_sigma"].to_numpy(), [0.3, 0.0])
    assert str(noise.attributes["_dtype"]) == "numpy.float32"


def test_ornstein_uhlenbeck_noise_is_kept() -> None:
    archive, _ = convert("td3-tanh.zip")
    noise = archive.decode("action_noise")
    assert noise.type.name == "OrnsteinUhlenbeckActionNoise"
    assert noise.attributes["_theta"] == 0.15


def test_hyper_parameters_of_ddpg_have_sb3s_names() -> None:
    archive, rows = convert("ddpg-deep.zip")
    data = archive.data
    assert (data["learning_rate"], data["gradient_steps"], data["learning_starts"]) == (1e-4, 50, 0)
    assert (data["policy_delay"], data["target_noise_clip"], data["buffer_size"]) == (1, 0.0, 10)
    assert archive.decode("train_freq").frequency == 100
    assert rows["critic_lr"].is_finding
    assert not rows["reward_scale"].is_finding


def test_her_is_a_replay_buffer_and_its_observations_a_dict() -> None:
    archive, rows = convert("her-td3.zip")
    assert list(archive.decode("observation_space").spaces) == ["achieved_goal", "desired_goal", "observation"]
    assert archive.decode("replay_buffer_class").name == "HerReplayBuffer"
    assert archive.decode("replay_buffer_kwargs") == {"n_sampled_goal": 4, "goal_selection_strategy": "future"}
    assert rows["her_obs_space"].action == "translated"


def test_a_replay_without_a_name_in_sb3_is_reported() -> None:
    source = changed("sac-softplus", lambda data: data.update(random_exploration=0.2))
    rows = rows_of(sbformat.rebuild(source)[1])
    assert rows["random_exploration"].is_finding


def test_a2c_with_an_lstm_is_ppo_with_one_epoch_of_one_batch() -> None:
    archive, _ = convert("a2c-lstm-bits.zip")
    data = archive.data
    assert (data["n_epochs"], data["batch_size"], data["n_steps"]) == (1, 8, 4)
    assert data["normalize_advantage"] is False


@pytest.mark.parametrize("count", [0.0, np.nan])
def test_statistics_that_are_not_finite_are_refused(count: float) -> None:
    def change(found: dict[str, np.ndarray]) -> None:
        found["input/obs_rms/count:0"] = np.array(count)

    with pytest.raises(sbformat.UnsupportedError, match="the statistics are not finite"):
        sbformat.rebuild(with_parameters("ddpg-normalized", change))


def test_critics_that_are_missing_are_refused_by_name() -> None:
    def change(found: dict[str, np.ndarray]) -> None:
        del found["model/values_fn/qf2/qf2/bias:0"]

    with pytest.raises(sbformat.UnsupportedError, match="expected the parameter model/values_fn/qf2/qf2/bias:0"):
        sbformat.rebuild(with_parameters("sac-auto", change))


# -- hostile files ------------------------------------------------------------------------------------

STRANGE: Final = (None, -1, 1e400, float("nan"), 10**400, "x", [], {}, [1, 2], True, "missing")
CHANGES: Final[tuple[Callable[[np.ndarray], np.ndarray], ...]] = (
    lambda array: array[..., None],
    lambda array: array * np.nan,
    lambda array: array.astype(np.complex64),
    lambda array: array.astype(bool),
    lambda array: np.zeros(0, np.float32),
)


steps = pytest.mark.parametrize("step", with_exhaustive([9], [1]))
"""One in so many keys; 9 and the lengths of ``STRANGE`` and ``CHANGES`` have no common divisor."""


@pytest.mark.parametrize("agent", ["ddpg-normalized", "dqn-no-layers", "sac-auto", "td3-noise", "a2c-lstm-bits"])
@steps
def test_strange_values_give_an_archive_or_an_error(agent: str, step: int) -> None:
    for number, key in list(enumerate(sbformat.read(FOLDER / f"{agent}.zip").data))[::step]:
        assert_converted_or_refused(changed(agent, partial(set_key, key, STRANGE[number % len(STRANGE)])))
    for number, name in list(enumerate(read_parameters(agent)))[::step]:
        assert_converted_or_refused(with_parameters(agent, partial(set_array, name, CHANGES[number % len(CHANGES)])))


@pytest.mark.parametrize("agent", ["ppo2-lstm-first", "ppo1-softplus", "trpo-bits", "a2c-leaky-bits"])
@steps
def test_integers_beyond_a_float_give_an_archive_or_an_error(agent: str, step: int) -> None:
    for key in list(sbformat.read(FOLDER / f"{agent}.zip").data)[::step]:
        assert_converted_or_refused(changed(agent, partial(set_key, key, 10**400)))


def set_key(key: str, value: object, data: dict[str, object]) -> None:
    data[key] = value
    if value == "missing":
        del data[key]


def set_array(name: str, change: Callable[[np.ndarray], np.ndarray], found: dict[str, np.ndarray]) -> None:
    found[name] = change(found[name])


def assert_converted_or_refused(source: bytes) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            archive, _ = sbformat.rebuild(source)
        except sbformat.SbformatError:
            return
        assert all(row.level == "warning" for row in sbformat.validate(sbformat.writes(archive)))
