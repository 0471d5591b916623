"""What real Stable-Baselines3 predicts, beside what a policy of sbformat does.

``RealPolicy`` gives an agent of SB3 the interface of ``sbformat.Policy``. The checks take one of each and raise an
``AssertionError`` where they differ:

- ``check_actions``: deterministic actions, one observation at a time and in batches: values, shapes and dtypes.
- ``check_outputs``: what the network says before an action is chosen.
- ``check_sequence``: the states of an LSTM over 50 steps with new episodes in between.
- ``policy_sampling.check_samples``: sampled actions, as distributions.
- ``policy_forms.check_refusals`` and ``check_forms``: what SB3's ``predict`` refuses, and what else it takes.
"""

from __future__ import annotations

import copy
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from gymnasium import spaces
from sb3_contrib.common.recurrent.type_aliases import RNNStates
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

from tests.interop.policy_agents import WITH_BUFFER, draw_observations, stack_observations

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

RELATIVE: Final = 1e-5
ROUNDING: Final = 4
"""How many times SB3's own error, compared with its network in float64, another float32 network may be off."""
ABSOLUTE: Final = 2e-6
"""For actions near zero: float32 sums of other order differ by parts of their largest term."""
COUNT: Final = 50
EPSILON_GREEDY: Final = frozenset({"DQN", "QRDQN"})
ALWAYS_DETERMINISTIC: Final = frozenset({"TD3", "DDPG", "ARS"})


class RealPolicy:
    """An agent of SB3 with the interface of ``sbformat.Policy``."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.policy = model.policy
        self.algorithm = type(model).__name__
        self.observation_space = model.observation_space
        self.action_space = model.action_space
        self.is_recurrent = hasattr(self.policy, "lstm_actor")
        self.uses_sde = bool(getattr(model, "use_sde", False))

    def predict(self, observation: Any, *args: Any, action_masks: Any = None, **kwargs: Any) -> Any:
        masks = {} if action_masks is None else {"action_masks": action_masks}
        return self.model.predict(observation, *args, **masks, **kwargs)

    def seed(self, seed: int) -> None:
        torch.manual_seed(seed)
        np.random.seed(seed)  # noqa: NPY002 -- epsilon-greedy of SB3 draws from it
        self.action_space.seed(seed)

    def reset_noise(self, count: int = 1) -> None:
        self.policy.reset_noise(count)

    def measure_rounding(self, batch: Any, *given: Any, **masks: Any) -> dict[str, float]:
        """Return how far actions and outputs are from those of the same network in float64.

        Trained networks exist whose sums cancel: there, two orders of summation differ by more than 1e-5.
        """
        if self.uses_sde:
            with torch.no_grad():  # noise that a gradient could flow through cannot be copied
                self.reset_noise()
        exact = RealPolicy(copy.copy(self.model))
        exact.policy = exact.model.policy = copy.deepcopy(self.policy).double()
        for module in exact.policy.modules():
            if isinstance(module, (BaseFeaturesExtractor, torch.nn.LSTM)):  # SB3 gives them float32
                module.register_forward_pre_hook(lambda _, arguments: to_double(arguments))
        pairs = {"action": [one.predict(batch, deterministic=True, **masks)[0] for one in (self, exact)]}
        ours, theirs = (one.outputs(batch, *given, **masks) for one in (self, exact))
        pairs |= {name: [value, theirs[name]] for name, value in ours.items()}
        with np.errstate(all="ignore"):
            errors = {name: float(np.abs(np.subtract(*pair)).max()) for name, pair in pairs.items()}
        return {name: error for name, error in errors.items() if np.isfinite(error)}

    def outputs(self, observation: Any, *given: Any, action_masks: Any = None) -> dict[str, Any]:
        """Every output that SB3 can compute, with a batch axis."""
        self.policy.set_training_mode(False)
        with torch.no_grad():
            tensor, _ = self.policy.obs_to_tensor(observation)
            if hasattr(self.policy, "value_net"):
                found = dict(self._actor_critic_outputs(tensor, given, action_masks))
            elif hasattr(self.policy, "actor"):
                found = dict(self._critic_outputs(tensor))
            else:
                found = dict(self._value_outputs(tensor))
        return {name: value.numpy() for name, value in found.items()}

    def _actor_critic_outputs(self, tensor: Any, given: Any, masks: Any) -> Iterator[tuple[str, Any]]:
        if self.is_recurrent:
            states, starts = self._recurrent_arguments(tensor, *given)
            yield "value", self.policy.predict_values(tensor, states.vf, starts)
            distribution, (hidden, cell) = self.policy.get_distribution(tensor, states.pi, starts)
            yield from (("hidden", hidden), ("cell", cell))
            if self.policy.lstm_critic is not None:
                _, _, _, after = self.policy.forward(tensor, states, starts, deterministic=True)
                yield from zip(("critic_hidden", "critic_cell"), after.vf)
        else:
            yield "value", self.policy.predict_values(tensor)
            options = {} if masks is None else {"action_masks": masks}
            distribution = self.policy.get_distribution(tensor, **options)
        parts = getattr(distribution, "distributions", None) or distribution.distribution
        if isinstance(parts, torch.distributions.Normal):
            yield "mean", parts.mean
            yield "log_std", parts.stddev.log()
        else:
            parts = parts if isinstance(parts, list) else [parts]
            yield "logits", torch.cat([part.logits for part in parts], dim=1)
            yield "probabilities", torch.cat([part.probs for part in parts], dim=1)

    def _recurrent_arguments(self, tensor: Any, state: Any = None, episode_start: Any = None) -> tuple[Any, Any]:
        """Return the states of actor and critic, and the starts, as tensors; the critic's are zeros at first."""
        count = len(next(iter(tensor.values())) if isinstance(tensor, dict) else tensor)
        layers, _, size = self.policy.lstm_hidden_state_shape
        zeros = [np.zeros((layers, count, size))] * 2
        given = zeros if state is None else list(state)
        critic = given[2:] or (given if self.policy.lstm_critic is None else zeros)
        starts = np.zeros(count) if episode_start is None else episode_start
        pi, vf = (tuple(torch.as_tensor(part, dtype=torch.float32) for part in pair) for pair in (given[:2], critic))
        return RNNStates(pi, vf), torch.as_tensor(np.asarray(starts), dtype=torch.float32)

    def _critic_outputs(self, tensor: Any) -> Iterator[tuple[str, Any]]:
        actor = self.policy.actor
        if hasattr(actor, "get_action_dist_params"):
            mean, log_std, more = actor.get_action_dist_params(tensor)
            normal = actor.action_dist.proba_distribution(mean, log_std, **more).distribution
            yield "mean", normal.mean
            yield "log_std", normal.stddev.log()
            action = actor(tensor, deterministic=True)
        else:
            action = actor(tensor)
            yield "mean", action
        values = self.policy.critic(tensor, action)
        if isinstance(values, tuple):
            yield "q_values", torch.cat(values, dim=1)
        else:
            yield "quantiles", values
            yield "q_values", values.mean(dim=2)

    def _value_outputs(self, tensor: Any) -> Iterator[tuple[str, Any]]:
        if self.algorithm == "DQN":
            yield "q_values", self.policy.q_net(tensor)
        elif self.algorithm == "QRDQN":
            quantiles = self.policy.quantile_net(tensor)
            yield "quantiles", quantiles
            yield "q_values", quantiles.mean(dim=1)
        else:
            features = self.policy.extract_features(tensor, self.policy.features_extractor)
            name = "scores" if isinstance(self.action_space, spaces.Discrete) else "mean"
            yield name, self.policy.action_net(features)


def to_double(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(to_double, value))
    return {key: part.double() for key, part in value.items()} if isinstance(value, dict) else value.double()


def required_outputs(real: RealPolicy) -> set[str]:
    """The outputs that a policy must give; it may give more of those that SB3 computes."""
    name, continuous = real.algorithm, isinstance(real.action_space, spaces.Box)
    if name in EPSILON_GREEDY:
        return {"q_values"} | ({"quantiles"} if name == "QRDQN" else set())
    if name in WITH_BUFFER:
        return set() if name in ALWAYS_DETERMINISTIC else {"mean", "log_std"}
    if name == "ARS":
        return set() if continuous else {"scores"}
    return {"value"} | ({"mean", "log_std"} if continuous else {"logits", "probabilities"})


# -- comparing ----------------------------------------------------------------------------------------


def assert_close(found: Any, expected: Any, at: str, absolute: float = RELATIVE) -> None:
    """Compare within 1e-5 of the larger of 1 and the value (POLICIES.md 19.1), or of the value and less."""
    assert np.size(found) == np.size(expected), (at, np.shape(found), np.shape(expected))
    found = np.asarray(found, np.float64).reshape(np.shape(expected))
    np.testing.assert_allclose(found, np.asarray(expected, np.float64), rtol=RELATIVE, atol=absolute, err_msg=at)


def assert_same_action(found: Any, expected: Any, at: str, rounding: float = 0.0) -> None:
    """Compare type, dtype and shape, discrete values exactly and continuous ones within 1e-5.

    :param rounding: the error of SB3
    """
    assert isinstance(found, np.ndarray), (at, type(found))
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape), at
    if expected.dtype.kind == "f":
        assert_close(found, expected, at, ABSOLUTE + ROUNDING * rounding)
    else:
        np.testing.assert_array_equal(found, expected, err_msg=at)


def check_actions(real: Any, policy: Any, observations: list[Any], **given: Any) -> int:
    """Compare deterministic actions, singly and in batches, and return how many observations were compared."""
    rounding = real.measure_rounding(stack_observations(observations), **given).get("action", 0.0)
    for index, observation in enumerate(observations):
        before = copy.deepcopy(observation)
        found = policy.predict(observation, deterministic=True, **one_mask(given, index))
        assert_same_bits(observation, before)
        expected = real.predict(observation, deterministic=True, **one_mask(given, index))
        assert_same_action(found[0], expected[0], f"action of observation {index}", rounding)
        assert_same_state(found[1], expected[1])
    if not getattr(real, "is_recurrent", False):
        marker = object()
        assert policy.predict(observations[0], marker, deterministic=True, **one_mask(given, 0))[1] is marker
    for count in (1, 2, len(observations)):
        batch = stack_observations(observations[:count])
        masks = {key: value[:count] for key, value in given.items()}
        found = policy.predict(batch, deterministic=True, **masks)
        expected = real.predict(batch, deterministic=True, **masks)
        assert_same_action(found[0], expected[0], f"actions of a batch of {count}", rounding)
        assert_same_state(found[1], expected[1])
    return len(observations)


def one_mask(given: dict[str, Any], index: int) -> dict[str, Any]:
    return {key: value[index] for key, value in given.items()}


def assert_same_bits(found: Any, before: Any) -> None:
    if isinstance(before, dict):
        assert list(found) == list(before)
        for key, value in before.items():
            assert_same_bits(found[key], value)
    else:
        assert np.asarray(found).tobytes() == np.asarray(before).tobytes(), "the observation was changed"


def assert_same_state(found: Any, expected: Any) -> None:
    """Compare the states of an LSTM; other policies hand back the state that they were given."""
    if expected is None:
        assert found is None
        return
    assert type(found) is tuple
    assert len(found) == len(expected)
    for part, real in zip(found, expected):
        assert (part.dtype, part.shape) == (real.dtype, real.shape)
        assert_close(part, real, "state")


def check_outputs(real: RealPolicy, policy: Any, observations: list[Any], *given: Any, **masks: Any) -> None:
    """Compare the outputs of a batch, and of one observation."""
    batch = stack_observations(observations)
    rounding = real.measure_rounding(batch, *given, **masks)
    compare_outputs(real, policy, batch, *given, rounding=rounding, **masks)
    if not given:
        compare_outputs(real, policy, observations[0], rounding=rounding, **one_mask(masks, 0))


def compare_outputs(
    real: RealPolicy,
    policy: Any,
    observation: Any,
    *given: Any,
    rounding: Mapping[str, float] = MappingProxyType({}),
    **masks: Any,
) -> dict[str, Any]:
    """Compare the outputs that both have, and return all of the policy.

    :param rounding: the errors of SB3, by output
    """
    expected = real.outputs(observation, *given, **masks)
    found: dict[str, Any] = policy.outputs(observation, *given, **masks)
    assert required_outputs(real) <= found.keys()
    for name, value in expected.items():
        absolute = RELATIVE + ROUNDING * rounding.get(name, 0.0)
        if name == "logits" and name in found:
            allowed = None if not masks else value > -1e7  # a masked choice has -1e8
            assert_same_logits(found[name], value, real.action_space, allowed, absolute)
        elif name in found:
            assert_close(found[name], value, name, absolute)
        if name in found and len(value) > 1:
            assert len(found[name]) == len(value), (name, np.shape(found[name]))
    return found


def assert_same_logits(found: Any, expected: Any, action_space: Any, allowed: Any, absolute: float) -> None:
    """Compare logits as far as probabilities depend on them: SB3 subtracts the logarithm of their sum.

    :param allowed: whether a choice is not masked; None for no masks
    """
    found = np.asarray(found, np.float64).reshape(expected.shape)
    if isinstance(action_space, spaces.MultiBinary) and expected.shape[1] == action_space.n:
        assert_close(found, expected, "logits", absolute)
        return
    allowed = np.ones(expected.shape, bool) if allowed is None else allowed
    columns = np.cumsum(choice_sizes(action_space))[:-1]
    parts = (np.split(values, columns, axis=1) for values in (found, expected.astype(np.float64), allowed))
    for one, other, mask in zip(*parts):
        logs = [log_softmax(np.where(mask, part, -np.inf))[mask] for part in (one, other)]
        assert_close(*logs, "logits", absolute)


def choice_sizes(action_space: Any) -> list[int]:
    """How many choices each dimension of an action has; MaskablePPO has two for each bit."""
    if isinstance(action_space, spaces.MultiBinary):
        return [2] * int(action_space.n)
    return list(action_space.nvec) if isinstance(action_space, spaces.MultiDiscrete) else [int(action_space.n)]


def draw_masks(space: Any, count: int) -> Any:
    """Masks that allow at least one choice of each dimension."""
    random = np.random.default_rng(3)
    columns = []
    for size in choice_sizes(space):
        allowed = random.random((count, size)) < 0.5
        allowed[np.arange(count), random.integers(size, size=count)] = True
        columns.append(allowed)
    return np.concatenate(columns, axis=1)


def log_softmax(values: Any) -> Any:
    highest = values.max(axis=1, keepdims=True)
    return values - highest - np.log(np.exp(values - highest).sum(axis=1, keepdims=True))


# -- sequences ----------------------------------------------------------------------------------------


def check_sequence(real: RealPolicy, policy: Any, count: int, steps: int = COUNT) -> None:
    """Walk an LSTM through steps of ``count`` environments, where episodes end at other times in each.

    ``predict`` keeps the states of the actor, ``outputs`` those of the critic too.
    """
    random = np.random.default_rng(count)
    states: list[Any] = [None, None]
    complete: Any = None
    starts = np.ones(count, bool)
    for step in range(steps):
        batch = stack_observations(draw_observations(real.observation_space, count, seed=step))
        given = None if step == 0 else starts
        outputs = compare_outputs(real, policy, batch, complete, given)
        complete = [outputs[name] for name in ("hidden", "cell", "critic_hidden", "critic_cell") if name in outputs]
        found = policy.predict(batch, states[0], given, deterministic=True)
        expected = real.predict(batch, states[1], given, deterministic=True)
        assert_same_action(found[0], expected[0], f"step {step}")
        assert_same_state(found[1], expected[1])
        states = [found[1], expected[1]]
        starts = random.random(count) < 0.15
