"""What real Stable-Baselines3 predicts, beside what a policy of sbformat does.

``RealPolicy`` gives an agent of SB3 the interface of ``sbformat.Policy``. The checks take one of each and raise an
``AssertionError`` where they differ:

- ``check_actions``: deterministic actions, one observation at a time and in batches: values, shapes and dtypes.
- ``check_outputs``: what the network says before an action is chosen.
- ``check_samples``: sampled actions, as distributions.
- ``check_sequence``: the states of an LSTM over 50 steps with new episodes in between.
- ``check_refusals``: what SB3's ``predict`` refuses.

The tests of distributions compare two samples of fixed seeds. Their thresholds are beyond what chance does in a
million runs; a deviation that is wrong by a tenth, or another epsilon, is beyond them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from gymnasium import spaces
from sb3_contrib.common.recurrent.type_aliases import RNNStates
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

from sbformat import SbformatError
from tests.interop.policy_agents import WITH_BUFFER, draw_observations, repeat_observation, stack_observations

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    """Compare within 1e-5 of the larger of 1 and the value (FORMAT.md 19.1), or of the value and less."""
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


def log_softmax(values: Any) -> Any:
    highest = values.max(axis=1, keepdims=True)
    return values - highest - np.log(np.exp(values - highest).sum(axis=1, keepdims=True))


# -- sampling -----------------------------------------------------------------------------------------

DRAWS: Final = 20_000
SLOW_DRAWS: Final = 1000
"""Where each sample is a call."""
SIGMAS: Final = 6.5


def check_samples(real: RealPolicy, policy: Any, share: float = 1.0, seed: int = 5, **masks: Any) -> None:
    """Compare sampled actions of one observation as distributions.

    :param share: of the draws that are made otherwise
    :param masks: for that observation
    """
    observations = draw_observations(real.observation_space, 2, seed)
    draw = choose_drawing(real)
    count = max(40, int(share * (DRAWS if draw is draw_in_batch else SLOW_DRAWS)))
    policy.seed(1)
    found = draw(policy, observations, count, **masks)
    real.seed(2)
    expected = draw(real, observations, count, **masks)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    if real.algorithm in ALWAYS_DETERMINISTIC:
        assert_same_action(found, expected, "samples of a deterministic policy")
    elif isinstance(real.action_space, spaces.Box):
        assert_same_continuous(found, expected)
    else:
        assert_same_choices(found, expected)
    policy.seed(1)
    again = draw(policy, observations, count if draw is draw_in_batch else 20, **masks)
    assert again.tobytes() == found[: len(again)].tobytes(), "the same seed, other samples"


def choose_drawing(real: RealPolicy) -> Callable[..., Any]:
    if real.algorithm in EPSILON_GREEDY:
        return draw_by_calls
    return draw_with_noise if real.uses_sde else draw_in_batch


def draw_in_batch(policy: Any, observations: list[Any], count: int, **masks: Any) -> Any:
    masks = {key: np.repeat(value[None], count, axis=0) for key, value in masks.items()}
    return policy.predict(repeat_observation(observations[0], count), **masks)[0]


def draw_by_calls(policy: Any, observations: list[Any], count: int) -> Any:
    """Epsilon-greedy: each call is one draw, with which all actions of a batch are random, or none."""
    batch = repeat_observation(observations[0], 2)
    rows = [[policy.predict(observations[0])[0], *policy.predict(batch)[0]] for _ in range(2 * count)]
    return np.array(rows)


def draw_with_noise(policy: Any, observations: list[Any], count: int) -> Any:
    """State-dependent noise is drawn by ``reset_noise`` and stays: both observations of one draw depend on it."""
    batch = stack_observations([observations[0], observations[1], observations[0]])
    drawn = []
    for _ in range(count):
        policy.reset_noise()
        actions = policy.predict(batch)[0]
        assert_close(actions[0], actions[2], "one observation in two rows")
        drawn.append(actions[:2])
    np.testing.assert_array_equal(policy.predict(batch)[0], actions)
    return np.array(drawn)


def check_noise_of_environments(real: RealPolicy, policy: Any) -> None:
    """With noise for each of three environments, a batch of three has different noise, and one of two has one."""
    one = draw_observations(real.observation_space, 1, seed=5)[0]
    for either in (real, policy):
        either.reset_noise(3)
        two, three = (either.predict(repeat_observation(one, rows))[0] for rows in (2, 3))
        assert_close(two[0], two[1], "noise of a batch of another size")
        assert len(np.unique(np.round(three, 4), axis=0)) == 3, type(either)


def assert_same_choices(found: Any, expected: Any) -> None:
    """Chi-square tests of two samples of one size: of each column, and of their combinations."""
    one, other = (values.reshape(len(values), -1) for values in (found, expected))
    for columns in (*([index] for index in range(one.shape[1])), slice(None)):
        rows = np.concatenate([one[:, columns], other[:, columns]])
        _, kinds = np.unique(rows, axis=0, return_inverse=True)
        counts = [np.bincount(part, minlength=kinds.max() + 1) for part in np.split(kinds.reshape(-1), [len(one)])]
        rare = sum(counts) < 10
        counts = [np.append(part[~rare], part[rare].sum()) for part in counts]
        total = np.maximum(sum(counts), 1)
        statistic = float((np.subtract(*counts).astype(float) ** 2 / total).sum())
        freedom = len(total) - 1
        assert statistic < freedom + 5 * np.sqrt(2 * freedom) + 22, (statistic, freedom, counts)


def assert_same_continuous(found: Any, expected: Any) -> None:
    """Compare mean, deviation and distribution (Kolmogorov-Smirnov) of each column, and of sums of columns.

    The sums tell of columns that depend on one another. How well a deviation is estimated depends on the kurtosis,
    which is large where most samples are clipped; where nearly all are, only the distributions are compared.
    """
    columns = np.array([part.reshape(len(part), -1) for part in (found, expected)], np.float64)
    rest = np.abs(columns - np.median(columns, axis=(0, 1))) > 1e-4
    moving = columns[:, :, rest.sum(axis=(0, 1)) >= 100]
    if moving.shape[2]:
        directions = np.random.default_rng(0).normal(size=(moving.shape[2], 6)) / moving.std(axis=(0, 1))[:, None]
        moving = np.concatenate([moving, moving @ directions], axis=2)
    assert_same_moments(moving)
    for one, other in zip(*(np.concatenate([columns, moving], axis=2).transpose(0, 2, 1))):
        assert ks_distance(one, other) < 2.7 * np.sqrt(2 / len(one))


def assert_same_moments(samples: Any) -> None:
    """Compare mean and deviation of each column of two samples, (2, rows, columns)."""
    error = SIGMAS * np.sqrt(2 / samples.shape[1])
    deviation = samples.std(axis=(0, 1))
    kurtosis = np.mean((samples - samples.mean(axis=(0, 1))) ** 4, axis=(0, 1)) / deviation**4
    assert np.all(np.abs(np.subtract(*samples.mean(axis=1))) <= error * deviation + 1e-6)
    relative = np.sqrt(kurtosis - 1) / 2
    assert np.all(np.abs(np.subtract(*samples.std(axis=1))) <= error * relative * deviation + 1e-6)


def ks_distance(one: Any, other: Any) -> float:
    """The largest difference of two empirical distribution functions; ties up to rounding count as ties."""
    step = 1e-5 * (np.abs(other).max() + 1e-12)
    one, other = np.round(one / step), np.round(other / step)
    places = np.unique(np.concatenate([one, other]))
    parts = [np.searchsorted(np.sort(values), places, side="right") / len(values) for values in (one, other)]
    return float(np.abs(np.subtract(*parts)).max())


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


# -- refusals -----------------------------------------------------------------------------------------


def list_bad_observations(space: Any) -> Iterator[tuple[str, Any]]:
    """What no environment of the space gives."""
    good = draw_observations(space, 3)
    batch = stack_observations(good)
    yield "a tuple of gymnasium's reset", (good[0], {})
    yield "a text", "observation"
    yield "nothing", None
    if isinstance(space, spaces.Dict):
        key = next(iter(space.spaces))
        yield "a dict without a key", {name: value for name, value in good[0].items() if name != key}
        yield "a dict with another key", {**good[0], "other": np.zeros(2, np.float32)}
        yield "a part of another shape", {**good[0], key: np.zeros((2, 2, 2, 9, 2))}
        yield "an array in the place of a dict", np.zeros(3, np.float32)
        yield "no keys", {}
        return
    yield "a dict in the place of an array", {"observation": good[0]}
    yield "an axis too many", batch[None, None]
    yield "a column too many", np.zeros((*np.shape(good[0]), 2, 3))
    if space.shape:
        yield "a number", np.float32(0)
        yield "half of it", np.reshape(good[0], -1)[:-1]
    else:
        yield "a number beyond the last", np.int64(space.n)
        yield "a negative number", np.int64(-1)


def predict_or_refuse(policy: Any, observation: Any) -> tuple[Any, str]:
    """Return the action and no text, or None and the text of the error."""
    try:
        return policy.predict(copy.deepcopy(observation), deterministic=True)[0], ""
    except Exception as error:  # noqa: BLE001 -- SB3, numpy and torch have their own
        is_ours = isinstance(error, (SbformatError, ValueError)) and "expected" in str(error)
        return None, str(error) if is_ours else type(error).__name__


def check_refusals(real: RealPolicy, policy: Any) -> int:
    """Give both what is no observation: what SB3 refuses is refused, what it takes has SB3's result.

    A wrong argument is a ValueError of sbformat: one that says what was expected, not one of numpy.
    """
    refused = 0
    for label, observation in list_bad_observations(real.observation_space):
        expected, _ = predict_or_refuse(real, observation)
        found, error = predict_or_refuse(policy, observation)
        if expected is None:
            assert found is None, f"SB3 refuses {label}"
            assert "expected" in error, (label, error)
            refused += 1
        else:
            assert found is not None, (label, error)
            assert_same_action(found, expected, label)
    return refused


def list_forms(space: Any) -> Iterator[tuple[str, Any]]:
    """Other forms of good observations: SB3 takes some of them."""
    good = draw_observations(space, 4)
    batch = stack_observations(good)
    for label, change in FORMS.items():
        yield f"one: {label}", change_parts(good[0], change)
        yield f"batch: {label}", change_parts(batch, change)
    if isinstance(space, spaces.Dict):
        yield "keys in another order", dict(reversed(batch.items()))
        return
    yield "no rows", batch[:0]
    yield "every second row", batch[::2]
    if batch.dtype.kind == "f":
        yield "not a number", np.full(space.shape, np.nan, space.dtype)
        yield "infinite", np.full(space.shape, np.inf, space.dtype)
    yield "a list of observations", list(good)
    if np.ndim(good[0]) == 3:
        yield "one: channels last", np.moveaxis(good[0], 0, -1)
        yield "batch: channels last", np.moveaxis(batch, 1, -1)


FORMS: Final[dict[str, Callable[[Any], Any]]] = {
    "list": lambda values: values.tolist(),
    "Fortran order": np.asfortranarray,
    "read-only": lambda values: np.frombuffer(values.tobytes(), values.dtype).reshape(np.shape(values)),
    **{
        name: lambda values, name=name: np.asarray(values).astype(name)  # type: ignore[misc]
        for name in ("float64", "float32", "float16", "int64", "int32", "uint8", "bool", ">f4", "object")
    },
    "with a part": lambda values: np.asarray(values) + 0.7,
}


def change_parts(observation: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(observation, dict):
        return {key: change(part) for key, part in observation.items()}
    return change(observation)


def check_forms(real: RealPolicy, policy: Any) -> int:
    """Give both the observations in other forms, and compare where SB3 takes them; return how many it takes."""
    taken = 0
    for label, observation in list_forms(real.observation_space):
        expected, _ = predict_or_refuse(real, observation)
        if expected is not None:
            found, error = predict_or_refuse(policy, observation)
            assert found is not None, (label, error)
            assert_same_action(found, expected, label)
            taken += 1
    return taken
