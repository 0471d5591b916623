"""``Policy`` with networks of one matrix, whose results each test computes itself; SB3 is compared in tests/interop."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sbformat.errors import UnsupportedError
from sbformat.known.spaces import Box, Space
from sbformat.policies.graph import Input, Sampling, State
from tests.policies.run.graphs import describe
from tests.policies.run.models import (
    HIGH,
    LOW,
    Model,
    box,
    categorical,
    dict_space,
    discrete,
    gaussian,
    images,
    make_policy,
    multi_binary,
    multi_discrete,
    numbers,
)

if TYPE_CHECKING:
    from sbformat.policies.builder import PolicyModel, Value
    from sbformat.policies.run.policy import Policy

FOUR = numbers(4, seed=7)
DRAWS = 20_000
SIGMAS = 6
"""A mean of draws is this many of its standard errors from the expected one with a probability of 2e-9."""

# -- deterministic actions ----------------------------------------------------------------------------


def test_an_action_is_the_clipped_mean() -> None:
    policy = make_policy(gaussian(box(4), box(3)))
    action, state = policy.predict(FOUR, deterministic=True)
    assert (action.dtype, action.shape, state) == (np.float32, (3,), None)
    np.testing.assert_allclose(action, np.clip(numbers(3, 4) @ FOUR, LOW, HIGH), rtol=1e-6)


@pytest.mark.parametrize("family", ["sb3", "sb2"])
def test_a_discrete_action_is_the_greatest_logit(family: Any) -> None:
    policy = make_policy(categorical(box(4), discrete(5), family=family))
    action, _ = policy.predict(FOUR, deterministic=True)
    assert action == (numbers(5, 4) @ FOUR).argmax()
    assert isinstance(action, np.ndarray if family == "sb3" else np.int64)
    assert (action.dtype, action.shape) == (np.int64, ())
    batch, _ = policy.predict(FOUR[None], deterministic=True)
    assert (batch.dtype, batch.shape, batch[0]) == (np.int64, (1,), action)


def test_an_action_of_two_dimensions() -> None:
    policy = make_policy(gaussian(box(4), box(2, 3)))
    assert policy.predict(FOUR, deterministic=True)[0].shape == (2, 3)
    assert policy.predict(FOUR[None].repeat(5, 0), deterministic=True)[0].shape == (5, 2, 3)


SPACES: dict[str, tuple[Space, Any]] = {
    "Box": (box(4), FOUR),
    "Box of two dimensions": (box(2, 2), FOUR.reshape(2, 2)),
    "Box of no dimension": (box(), np.float32(0.5)),
    "Box of float64": (box(4, dtype="float64"), FOUR.astype("float64")),
    "Discrete": (discrete(6), np.int64(4)),
    "MultiDiscrete": (multi_discrete(3, 4), np.array([2, 1])),
    "MultiBinary": (multi_binary(3), np.array([1, 0, 1], "int8")),
    "image": (images(3, 8, 6), (numbers(3, 8, 6) * 50).astype("uint8")),
    "Dict": (dict_space(b=box(2), a=discrete(3)), {"a": np.int64(2), "b": FOUR[:2]}),
}


def as_batch(observation: Any, count: int = 1) -> Any:
    if isinstance(observation, dict):
        return {key: as_batch(part, count) for key, part in observation.items()}
    return np.stack([observation] * count)


@pytest.mark.parametrize("name", SPACES)
def test_a_batch_is_its_observations_one_by_one(name: str) -> None:
    space, observation = SPACES[name]
    policy = make_policy(gaussian(space, box(2)))
    single, _ = policy.predict(observation, deterministic=True)
    assert single.shape == (2,)
    for count in (1, 3):
        batch, _ = policy.predict(as_batch(observation, count), deterministic=True)
        assert batch.shape == (count, 2)
        np.testing.assert_allclose(batch, as_batch(single, count), rtol=1e-6)


def test_rows_of_a_batch_are_independent() -> None:
    policy = make_policy(gaussian(box(4), box(2)))
    batch = numbers(700, 4, seed=3)
    together, _ = policy.predict(batch, deterministic=True)
    expected = [policy.predict(row, deterministic=True)[0] for row in batch]
    np.testing.assert_allclose(together, expected, rtol=1e-5, atol=1e-6)


def test_an_empty_batch() -> None:
    action, _ = make_policy(gaussian(box(4), box(2))).predict(np.empty((0, 4), "float32"))
    assert action.shape == (0, 2)


# -- observations -------------------------------------------------------------------------------------


def test_anything_that_numpy_makes_an_array_of_is_accepted() -> None:
    policy = make_policy(gaussian(box(4), box(2)))
    expected, _ = policy.predict(np.array([1, 2, 3, 4], "float32"), deterministic=True)
    same: list[Any] = [[1, 2, 3, 4], (1.0, 2, 3, 4), np.array([1, 2, 3, 4], ">f8"), np.array([1, 2, 3, 4], "uint8")]
    for observation in same:
        assert (policy.predict(observation, deterministic=True)[0] == expected).all()
    masked = np.ma.masked_array([1.0, 2, 3, 4])
    assert (policy.predict(masked, deterministic=True)[0] == expected).all()


@pytest.mark.parametrize("one", [4, np.int32(4), np.array(4), 4.0, np.float32(4.5)])
def test_a_discrete_observation_is_an_integer_or_truncated(one: Any) -> None:
    policy = make_policy(gaussian(discrete(6), box(2)))
    action, _ = policy.predict(one, deterministic=True)
    np.testing.assert_allclose(action, np.clip(numbers(2, 6)[:, 4], LOW, HIGH))


def test_an_image_may_have_its_channels_last() -> None:
    policy = make_policy(gaussian(images(3, 8, 6), box(2)))
    image = (numbers(3, 8, 6) * 50).astype("uint8")
    expected, _ = policy.predict(image, deterministic=True)
    last, _ = policy.predict(image.transpose(1, 2, 0), deterministic=True)
    assert last.shape == (2,)
    assert (last == expected).all()
    batch, _ = policy.predict(np.stack([image.transpose(1, 2, 0)] * 2), deterministic=True)
    np.testing.assert_allclose(batch, [expected] * 2, rtol=1e-6)


def test_only_an_image_is_transposed() -> None:
    policy = make_policy(gaussian(box(3, 8, 6), box(2)))
    with pytest.raises(ValueError, match=r"expected the shape \(3, 8, 6\)"):
        policy.predict(numbers(8, 6, 3))


def test_an_image_of_floats_is_not_cut_to_bytes() -> None:
    policy = make_policy(gaussian(images(1, 2, 2), box(2)))
    image = np.array([[[0.5, -0.25], [0.75, 1e-3]]])
    action, _ = policy.predict(image, deterministic=True)
    np.testing.assert_allclose(action, numbers(2, 4) @ image.ravel().astype("float32"), rtol=1e-5)


REFUSED: dict[str, tuple[Space, Any, str]] = {
    "shape": (box(4), numbers(3), r"expected the shape \(4,\) of one observation, or \(n, 4\) .* got \(3,\)"),
    "rank": (box(4), numbers(2, 1, 4), r"got \(2, 1, 4\)"),
    "scalar": (box(4), 1.0, r"got \(\)"),
    "dict": (box(4), {"a": FOUR}, r"expected an array of the shape \(4,\) as the observation, got a dict"),
    "reset": (box(4), (FOUR, {}), r"got a tuple of an observation and a dict; .* obs, info = env\.reset\(\)"),
    "reset of a dict": (dict_space(a=box(4)), ({"a": FOUR}, {}), r"obs, info = env\.reset\(\)"),
    "array": (dict_space(a=box(4)), FOUR, "expected a dict with the keys 'a', got an array of 'float32' of the shape"),
    "missing key": (dict_space(a=box(4), b=box(1)), {"a": FOUR}, "with the keys 'a', 'b', got 'a'"),
    "unknown key": (dict_space(a=box(4)), {"a": FOUR, "c": FOUR}, "keys 'a', got 'a', 'c'"),
    "sizes": (
        dict_space(a=box(4), b=box(1)), {"a": numbers(2, 4), "b": numbers(3, 1)},
        r"batches of one size, got the shapes 'a': \(2, 4\), 'b': \(3, 1\)",
    ),
    "single beside a batch": (dict_space(a=box(4), b=box(1)), {"a": numbers(2, 4), "b": numbers(1)}, "of one size"),
    "part": (dict_space(a=box(4)), {"a": numbers(3)}, r"as 'a' of the observation, got \(3,\)"),
    "text": (box(4), ["a", "b", "c", "d"], "got a list: at index 0 is the text 'a'"),
    "null": (box(4), [0, 0, 0, None], "got a list: at index 3 is None, the null of JSON"),
    "item of a batch": (box(2), [[0, 0], [0, "b"]], "got a list: at index 1, 1 is the text 'b'"),
    "dict in a list": (box(2), [0, {}], "got a list: at index 1 is a dict"),
    "objects": (box(4), None, "expected numbers as the observation, got a NoneType"),
    "complex": (box(4), FOUR + 1j, "expected numbers as the observation, got an array of 'complex64'"),
    "ragged": (box(4), [[1.0, 2.0], [3.0]], "lists of different lengths"),
    "choice": (discrete(6), 6, "expected integers >= 0 and < 6 as the observation, got 6 to 6"),
    "negative choice": (discrete(6), np.array([2, -1]), "got -1 to 2"),
    "NaN choice": (discrete(6), np.nan, "got nan to nan"),
    "choices": (multi_discrete(3, 4), np.array([1, 4]), r"expected integers >= 0 and < \[3, 4\]"),
    "Discrete of two dimensions": (discrete(6), np.zeros((2, 1), "int64"), r"expected the shape \(\) .* or \(n,\)"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("method", ["predict", "outputs"])
def test_an_observation_that_does_not_fit_is_refused(name: str, method: str) -> None:
    space, observation, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        getattr(make_policy(gaussian(space, box(2))), method)(observation)


def test_a_part_may_be_single_beside_a_batch_of_one() -> None:
    policy = make_policy(gaussian(dict_space(a=box(2), b=box(1)), box(2)))
    action, _ = policy.predict({"a": FOUR[None, :2], "b": FOUR[2:3]})
    assert action.shape == (1, 2)


def test_an_observation_is_not_changed_and_not_kept() -> None:
    policy = make_policy(gaussian(box(4), box(4)))
    observation = FOUR.copy()
    first, _ = policy.predict(observation, deterministic=True)
    kept = first.copy()
    policy.predict(observation * 2, deterministic=True)
    assert (observation == FOUR).all()
    assert (first == kept).all()
    first[:] = 0
    assert (policy.predict(observation, deterministic=True)[0] == kept).all()


# -- drawn actions ------------------------------------------------------------------------------------


def repeat(observation: np.ndarray) -> np.ndarray:
    return np.repeat(observation[None], DRAWS, 0)


def assert_mean(values: np.ndarray, expected: Any, deviation: Any) -> None:
    """Check the mean of independent draws, given the expected mean and standard deviation of one."""
    error = np.abs(values.mean(0) - expected)
    assert (error <= SIGMAS * np.asarray(deviation) / np.sqrt(len(values)) + 1e-6).all(), error


def test_a_gaussian_action_has_the_mean_and_deviation() -> None:
    policy = make_policy(gaussian(box(4), box(3, low=-np.inf, high=np.inf)))
    actions, _ = policy.predict(repeat(FOUR))
    mean, std = numbers(3, 4) @ FOUR, np.exp(np.linspace(-1, 0.5, 3))
    assert actions.dtype == np.float32
    assert_mean(actions, mean, std)
    assert_mean((actions - mean) ** 2, std**2, std**2 * np.sqrt(2))
    products = (actions[:, 0] - mean[0]) * (actions[:, 1] - mean[1])
    assert_mean(products, 0, std[0] * std[1])


def test_a_drawn_action_is_clipped() -> None:
    actions, _ = make_policy(gaussian(box(4), box(3))).predict(repeat(FOUR * 4))
    assert actions.min() == LOW
    assert actions.max() == HIGH


def test_a_deviation_may_depend_on_the_observation() -> None:
    model = Model(box(4), box(2, low=-np.inf, high=np.inf))
    features = model.features()
    mean, log_std = model.linear(features, 2, "mean"), model.linear(features, 2, "log_std", seed=9)
    model.outputs = {"action": model.clip(mean), "log_std": log_std}
    policy = make_policy(model.build(Sampling("gaussian", "mean", {"mean": "mean", "log_std": "log_std"})))
    actions, _ = policy.predict(repeat(FOUR))
    mean_, std = numbers(2, 4) @ FOUR, np.exp(numbers(2, 4, seed=9) @ FOUR)
    assert_mean(actions, mean_, std)
    assert_mean((actions - mean_) ** 2, std**2, std**2 * np.sqrt(2))


@pytest.mark.parametrize("log_std", [88.0, 1000.0, np.inf, np.nan, -1000.0])
def test_any_deviation_draws_without_a_warning(log_std: float) -> None:
    model = Model(box(4), box(2))
    mean, spread = model.linear(model.features(), 2, "mean"), model.weight("log_std", np.full(2, log_std, "float32"))
    model.outputs = {"action": model.clip(mean)}
    policy = make_policy(model.build(Sampling("gaussian", "mean", {"mean": "mean", "log_std": spread.name})))
    for observation in (FOUR, FOUR * 0, FOUR * np.float32(1e30)):
        action, _ = policy.predict(observation)
        assert action.dtype == np.float32


@pytest.mark.parametrize("name", ["gaussian", "categorical"])
@pytest.mark.parametrize("deterministic", [True, False])
def test_an_observation_that_is_not_a_number_is_refused_where_torch_does(name: str, *, deterministic: bool) -> None:
    model = gaussian(box(4), box(2)) if name == "gaussian" else categorical(box(4), discrete(3))
    policy = make_policy(model)
    for observation in (np.full(4, np.nan), np.full((300, 4), np.nan), np.array([0, np.inf, -np.inf, 0])):
        with pytest.raises(ValueError, match="expected numbers as (mean|logits) of the action, got NaN"):
            policy.predict(observation, deterministic=deterministic)


def test_numbers_of_environments_are_checked() -> None:
    policy = make_policy(gaussian(box(4), box(2)))
    for call, least in ((policy.initial_state, 0), (policy.reset_noise, 1)):
        for count in (-1, 1.5, "x", True):
            with pytest.raises(ValueError, match=f"expected an integer >= {least} as n_envs, got"):
                call(count)  # type: ignore[operator]


def frequencies(drawn: np.ndarray, count: int) -> np.ndarray:
    return drawn[..., None] == np.arange(count)


def softmax(logits: np.ndarray) -> np.ndarray:
    power = np.exp(logits - logits.max())
    return power / power.sum()


def test_a_choice_has_the_probabilities_of_softmax() -> None:
    policy = make_policy(categorical(box(4), discrete(5)))
    actions, _ = policy.predict(repeat(FOUR))
    expected = softmax(numbers(5, 4) @ FOUR)
    assert (actions.dtype, actions.shape) == (np.int64, (DRAWS,))
    assert_mean(frequencies(actions, 5), expected, np.sqrt(expected * (1 - expected)))
    single, _ = policy.predict(FOUR)
    assert (single.dtype, single.shape) == (np.int64, ())


def test_each_component_has_choices_of_its_own() -> None:
    policy = make_policy(categorical(box(4), multi_discrete(2, 4)))
    actions, _ = policy.predict(repeat(FOUR))
    logits = numbers(6, 4) @ FOUR
    assert (actions.dtype, actions.shape) == (np.int64, (DRAWS, 2))
    for component, part in enumerate((logits[:2], logits[2:])):
        expected = softmax(part)
        found = frequencies(actions[:, component], len(part))
        assert_mean(found, expected, np.sqrt(expected * (1 - expected)))
    assert policy.predict(FOUR)[0].shape == (2,)


def bernoulli() -> PolicyModel:
    model = Model(box(4), multi_binary(3))
    logits = model.linear(model.features(), 3, "logits")
    model.outputs = {"action": model.builder.add("Round", model.builder.add("Sigmoid", logits), name="action")}
    return model.build(Sampling("bernoulli", "action", {"logits": "logits"}))


def test_a_bit_has_the_probability_of_sigmoid() -> None:
    actions, _ = make_policy(bernoulli()).predict(repeat(FOUR))
    expected = 1 / (1 + np.exp(-numbers(3, 4) @ FOUR))
    assert (actions.dtype, actions.shape) == (np.float32, (DRAWS, 3))
    assert set(np.unique(actions)) == {0, 1}
    assert_mean(actions, expected, np.sqrt(expected * (1 - expected)))


def epsilon_greedy(rate: float, start: int = 0) -> PolicyModel:
    model = Model(box(4), discrete(5, start))
    values = model.linear(model.features(), 5, "q_values")
    model.outputs = {"action": model.builder.add("ArgMax", values, axis=-1, name="action"), "q_values": values}
    return model.build(Sampling("epsilon_greedy", rate=rate))


def test_epsilon_greedy_draws_once_for_the_whole_batch() -> None:
    policy = make_policy(epsilon_greedy(0.25))
    best, _ = policy.predict(FOUR, deterministic=True)
    batches = np.array([policy.predict(np.stack([FOUR] * 40))[0] for _ in range(2000)])
    is_random = (batches != best).any(1)
    assert_mean(is_random, 0.25, np.sqrt(0.25 * 0.75))
    drawn = batches[is_random]
    assert_mean(frequencies(drawn.ravel(), 5), 0.2, np.sqrt(0.2 * 0.8))
    assert (batches[~is_random] == best).all()


def test_epsilon_greedy_of_one_observation() -> None:
    policy = make_policy(epsilon_greedy(1.0, start=-2))
    drawn = [policy.predict(FOUR)[0] for _ in range(200)]
    assert {(action.dtype, action.shape) for action in drawn} == {(np.dtype("int64"), ())}
    assert {int(action) for action in drawn} == {-2, -1, 0, 1, 2}
    assert (make_policy(epsilon_greedy(0.0)).predict(np.stack([FOUR] * 9))[0] == (numbers(5, 4) @ FOUR).argmax()).all()


@pytest.mark.parametrize("start", [2**63 - 5, 2**70, -(2**63) - 1])
def test_random_actions_that_have_no_dtype_are_refused(start: int) -> None:
    with pytest.raises(UnsupportedError, match="expected a Discrete action space of int64, got one that starts at"):
        make_policy(epsilon_greedy(0.5, start))


def gsde() -> PolicyModel:
    model = Model(box(4), box(2, low=-np.inf, high=np.inf))
    latent = model.linear(model.features(), 3, "latent")
    mean = model.linear(latent, 2, "mean", seed=4)
    std = model.builder.add("Exp", model.weight("log_std", numbers(3, 2, seed=5)), name="std")
    model.outputs = {"action": model.clip(mean)}
    return model.build(Sampling("gsde", "mean", {"mean": "mean", "latent": "latent", "std": std.name}))


def test_gsde_noise_is_a_fixed_matrix_until_it_is_reset() -> None:
    policy = make_policy(gsde())
    observations = numbers(50, 4, seed=2)
    latent = observations @ numbers(3, 4).T
    mean = latent @ numbers(2, 3, seed=4).T

    def find_matrix(rows: slice = slice(None)) -> np.ndarray:
        actions, _ = policy.predict(observations[rows])
        found, left, _, _ = np.linalg.lstsq(latent[rows], actions - mean[rows], rcond=None)
        assert (left < 1e-6).all()
        return found

    first = find_matrix()
    np.testing.assert_allclose(find_matrix(slice(20)), first, rtol=1e-2, atol=1e-4)
    single, _ = policy.predict(observations[0])
    np.testing.assert_allclose(single, mean[0] + latent[0] @ first, rtol=1e-3, atol=1e-4)
    policy.reset_noise()
    assert np.abs(find_matrix() - first).max() > 1e-2
    policy.seed(0)
    np.testing.assert_allclose(find_matrix(), first, rtol=1e-2, atol=1e-4)

    draws = []
    for _ in range(1500):
        policy.reset_noise()
        draws.append(policy.predict(observations[0])[0] - mean[0])
    deviation = np.sqrt((latent[0] ** 2) @ np.exp(numbers(3, 2, seed=5)) ** 2)
    assert_mean(np.array(draws), 0, deviation)
    assert_mean(np.array(draws) ** 2, deviation**2, deviation**2 * np.sqrt(2))


def test_gsde_noise_for_each_environment() -> None:
    policy = make_policy(gsde())
    policy.reset_noise(n_envs=3)
    same = np.stack([FOUR] * 3)
    actions, _ = policy.predict(same)
    assert len(np.unique(actions[:, 0])) == 3
    assert (policy.predict(same)[0] == actions).all()
    np.testing.assert_allclose(policy.predict(FOUR)[0], actions[0], rtol=1e-5)
    np.testing.assert_allclose(policy.predict(np.stack([FOUR] * 2))[0], [actions[0]] * 2, rtol=1e-5)


MODELS = {
    "gaussian": gaussian(box(4), box(3)),
    "categorical": categorical(box(4), discrete(50)),
    "components": categorical(box(4), multi_discrete(9, 9, 9)),
    "bernoulli": bernoulli(),
    "epsilon_greedy": epsilon_greedy(0.9),
    "gsde": gsde(),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_seed_determines_all_actions(name: str) -> None:
    def draw(policy: Policy) -> list[Any]:
        return [policy.predict(row)[0].tolist() for row in numbers(20, 4)]

    policy = make_policy(MODELS[name], seed=3)
    drawn = draw(policy)
    assert draw(make_policy(MODELS[name], seed=3)) == drawn
    assert draw(make_policy(MODELS[name], seed=np.random.default_rng(3))) == drawn
    assert draw(make_policy(MODELS[name], seed=4)) != drawn
    assert draw(make_policy(MODELS[name], seed=None)) != draw(make_policy(MODELS[name], seed=None))
    policy.seed(3)
    assert draw(policy) == drawn


@pytest.mark.parametrize("name", MODELS)
def test_a_copy_has_random_numbers_of_its_own(name: str) -> None:
    policy = make_policy(MODELS[name])
    policy.predict(FOUR)
    for made in (copy.copy(policy), copy.deepcopy(policy)):
        expected = [made.predict(FOUR)[0].tolist() for _ in range(10)]
        made.reset_noise()
        other = copy.copy(policy)
        assert [other.predict(FOUR)[0].tolist() for _ in range(10)] == expected


@pytest.mark.parametrize("seed", [True, "1", 1.0, np.random.RandomState(0)])
def test_a_seed_of_another_type_is_refused(seed: Any) -> None:
    with pytest.raises(TypeError, match="expected an integer or a numpy.random.Generator as seed, got"):
        make_policy(MODELS["gaussian"], seed=seed)


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a seed >= 0, got -1"):
        make_policy(MODELS["gaussian"], seed=-1)


def test_it_cannot_be_pickled() -> None:
    with pytest.raises(TypeError, match="a Policy cannot be pickled: load the file in each process"):
        pickle.dumps(make_policy(MODELS["gaussian"]))


def test_threads_may_share_it() -> None:
    policy = make_policy(gaussian(box(4), box(3)))
    batches = [numbers(count % 7 + 1, 4, seed=count) for count in range(200)]
    expected = [np.clip(batch @ numbers(3, 4).T, LOW, HIGH) for batch in batches]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda batch: policy.predict(batch, deterministic=True)[0], batches * 5))
    for one, other in zip(found, expected * 5):
        np.testing.assert_allclose(one, other, rtol=1e-5)


# -- masks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("space", "sizes"), [(discrete(5), (5,)), (multi_discrete(2, 4), (2, 4))])
def test_a_masked_choice_is_never_taken(space: Space, sizes: tuple[int, ...]) -> None:
    policy = make_policy(categorical(box(4), space, masked=True))
    generator = np.random.default_rng(1)
    masks = np.concatenate([generator.random((3000, size)) < 0.5 for size in sizes], -1)
    starts = np.cumsum((0, *sizes))
    masks[:, starts[:-1]] |= ~np.logical_or.reduceat(masks, starts[:-1], -1)  # each component has a choice
    observations = numbers(3000, 4, seed=1) * 20
    for deterministic in (False, True):
        actions, _ = policy.predict(observations, deterministic=deterministic, action_masks=masks)
        columns = actions.reshape(len(masks), -1) + starts[:-1]
        assert np.take_along_axis(masks, columns, -1).all()


def test_a_policy_tells_whether_it_takes_masks() -> None:
    for masked in (True, False):
        assert make_policy(categorical(box(4), discrete(3), masked=masked)).takes_action_masks is masked


def test_masks_of_any_shape_and_type() -> None:
    policy = make_policy(categorical(box(4), discrete(3), masked=True))
    only_two: list[Any] = [
        [0, 0, 1], [False, False, True], np.array([[0, 0, 1]]), np.array([0, 0, 1.0]), np.array([[[0]], [[0]], [[1]]]),
    ]  # fmt: skip
    for masks in only_two:
        assert policy.predict(FOUR, action_masks=masks)[0] == 2
        assert policy.outputs(FOUR, action_masks=masks)["action"] == 2
    expected = (numbers(3, 4) @ FOUR).argmax()
    assert policy.predict(FOUR, deterministic=True)[0] == expected
    assert policy.predict(FOUR, deterministic=True, action_masks=[1, 1, 1])[0] == expected


def test_masks_that_do_not_fit_are_refused() -> None:
    policy = make_policy(categorical(box(4), discrete(3), masked=True))
    with pytest.raises(ValueError, match=r"expected numbers of the shape \(1, 3\) as action_masks, got a list of 2"):
        policy.predict(FOUR, action_masks=[1, 0])
    with pytest.raises(ValueError, match=r"as action_masks, got an array of <U1 of the shape \(3,\)"):
        policy.predict(FOUR, action_masks=np.array(["a", "b", "c"]))
    with pytest.raises(ValueError, match="expected an array of numbers as action_masks, got lists of different"):
        policy.predict(FOUR, action_masks=[[1, [0], 1]])
    for method in ("predict", "outputs"):
        with pytest.raises(ValueError, match="the policy does not take action_masks: only those of MaskablePPO do"):
            getattr(make_policy(categorical(box(4), discrete(3))), method)(FOUR, action_masks=[1, 1, 1])


# -- recurrent policies -------------------------------------------------------------------------------


LAYERS, HIDDEN = 2, 3


def recurrent(family: Any = "sb3", *, critic: bool = False) -> PolicyModel:
    """Return a network whose next state is half the state, zero where an episode starts, plus the observation."""
    model = Model(box(HIDDEN), box(HIDDEN, low=-np.inf, high=np.inf), family)
    add, builder = model.builder.add, model.builder
    observation = model.features()
    following: dict[str, Value] = {}
    start = builder.input(Input("episode_start", "float32", (), 0.0, "episode_start"))
    kept = add("Reshape", add("Sub", builder.constant(1.0), start), shape=(1,))
    names = ["hidden", "cell", *(["critic_hidden", "critic_cell"] if critic else [])] if family == "sb3" else ["state"]
    layers = LAYERS if family == "sb3" else 1
    size = HIDDEN * LAYERS // layers
    wide = add("Concat", *[observation] * (size // HIDDEN), axis=-1)
    states: list[State] = []
    for layer, (at, name) in product(range(layers), enumerate(names)):
        state = builder.input(Input(f"{name}_l{layer}", "float32", (size,), 0.0, "state"))
        half = add("Mul", add("Mul", state, kept), builder.constant(0.5))
        step = add("Add", half, builder.constant(float(at + 1)))
        made = add("Add", step, wide, name=f"{name}_l{layer} next")
        states.append(State(state.name, made.name, name))
        following[name] = made
    last = following[names[0]]
    mean = add("Slice", last, axis=-1, start=size - HIDDEN, end=size, name="mean")
    model.outputs = {"action": model.clip(mean)}
    if critic:
        model.outputs["value"] = add("ReduceSum", following["critic_cell"], axis=-1)
    return model.build(Sampling("none"), states)


def simulate(observations: np.ndarray, starts: np.ndarray, offset: float) -> np.ndarray:
    """Return the states of each step, computed in a plain loop."""
    state, states = np.zeros(observations.shape[1:]), []
    for observation, start in zip(observations, starts):
        state = state * (1 - start)[:, None] * 0.5 + offset + observation
        states.append(state)
    return np.array(states)


@pytest.mark.parametrize("deterministic", [False, True])
def test_a_state_goes_round(deterministic: bool) -> None:  # noqa: FBT001 -- a case
    policy = make_policy(recurrent())
    observations = numbers(12, 2, HIDDEN)
    starts = np.random.default_rng(0).random((12, 2)) < 0.3
    hidden, cell = simulate(observations, starts, 1.0), simulate(observations, starts, 2.0)
    state = None
    for step in range(12):
        actions, state = policy.predict(observations[step], state, starts[step], deterministic)
        np.testing.assert_allclose(actions, hidden[step], rtol=1e-5)
        assert isinstance(state, tuple)
        for array, expected in zip(state, (hidden[step], cell[step])):
            assert (array.dtype, array.shape) == (np.float32, (LAYERS, 2, HIDDEN))
            np.testing.assert_allclose(array, [expected] * LAYERS, rtol=1e-5)


def test_a_state_of_one_observation() -> None:
    policy = make_policy(recurrent())
    action, state = policy.predict(np.ones(HIDDEN))
    assert action.shape == (HIDDEN,)
    assert [array.shape for array in state] == [(LAYERS, 1, HIDDEN)] * 2
    for start in (False, True, [True], np.array([0.0])):
        again, _ = policy.predict(np.ones(HIDDEN), state, start)
        assert again.tolist() == ([2.0] * 3 if np.all(start) else [3.0] * 3)


def test_the_state_of_sb2_is_one_array() -> None:
    policy = make_policy(recurrent("sb2"))
    actions, state = policy.predict(np.ones((4, HIDDEN)))
    assert (state.dtype, state.shape) == (np.float32, (4, LAYERS * HIDDEN))
    actions, state = policy.predict(np.ones((4, HIDDEN)), state, [False, True, False, True])
    assert actions[:, 0].tolist() == [3, 2, 3, 2]
    assert policy.initial_state(4).shape == (4, LAYERS * HIDDEN)


def test_the_initial_state_is_zeros() -> None:
    policy = make_policy(recurrent())
    state = policy.initial_state(5)
    assert [array.shape for array in state] == [(LAYERS, 5, HIDDEN)] * 2
    assert not any(array.any() for array in state)
    batch = numbers(5, HIDDEN)
    assert (policy.predict(batch, state)[0] == policy.predict(batch)[0]).all()
    assert make_policy(MODELS["gaussian"]).initial_state() is None


BAD_STATES: list[tuple[Any, str]] = [
    (
        np.zeros((LAYERS, 1, HIDDEN)),
        r"expected a tuple of 2 arrays as state, got an array of float64 of the shape \(2, 1, 3\)",
    ),
    ((np.zeros((LAYERS, 1, HIDDEN)),), "expected a tuple of 2 arrays as state, got a tuple of 1"),
    ("ab", "expected a tuple of 2 arrays as state, got str"),
    (
        (np.zeros((LAYERS, 2, HIDDEN)),) * 2,
        r"of the shape \(2, 1, 3\) as state, got an array of float64 of the shape \(2, 2, 3\)",
    ),
    (
        (np.zeros((LAYERS, HIDDEN)),) * 2,
        r"of the shape \(2, 1, 3\) as state, got an array of float64 of the shape \(2, 3\)",
    ),
    (([[1.0], 2.0],) * 2, "expected an array of numbers as state, got lists of different lengths"),
    ((np.full((LAYERS, 1, HIDDEN), "a"),) * 2, r"expected an array of numbers of the shape \(2, 1, 3\)"),
]


@pytest.mark.parametrize(("state", "message"), BAD_STATES)
def test_a_state_that_does_not_fit_is_refused(state: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_policy(recurrent()).predict(np.ones(HIDDEN), state)


def test_starts_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"expected numbers of the shape \(1,\) as episode_start, got a list of 2"):
        make_policy(recurrent()).predict(np.ones(HIDDEN), episode_start=[True, False])


def test_a_policy_without_state_returns_what_sb3_and_sb2_return() -> None:
    state = object()
    assert make_policy(gaussian(box(4), box(2))).predict(FOUR, state, [True])[1] is state
    assert make_policy(gaussian(box(4), box(2), family="sb2")).predict(FOUR, state, [True])[1] is None


# -- outputs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [None, 1, 3, 4])
def test_outputs_are_batched_as_the_observation_is(count: int | None) -> None:
    policy = make_policy(gaussian(box(4), box(3)))
    made = policy.outputs(FOUR if count is None else np.stack([FOUR] * count))
    assert list(made) == ["action", "mean", "log_std"]
    expected = {
        "action": np.clip(numbers(3, 4) @ FOUR, LOW, HIGH),
        "mean": numbers(3, 4) @ FOUR,
        "log_std": np.linspace(-1, 0.5, 3),
    }
    for name, value in expected.items():
        batch = value if count is None else np.stack([value] * count)
        assert (made[name].dtype, made[name].shape) == (np.float32, batch.shape)
        np.testing.assert_allclose(made[name], batch, rtol=1e-5)
        assert made[name].flags.writeable


def test_outputs_have_the_next_states() -> None:
    policy = make_policy(recurrent(critic=True))
    observation = numbers(HIDDEN)
    first = policy.outputs(observation)
    assert list(first) == ["action", "value", "hidden", "cell", "critic_hidden", "critic_cell"]
    assert {first[name].shape for name in list(first)[2:]} == {(LAYERS, 1, HIDDEN)}
    action, state = policy.predict(observation)
    assert [part.tolist() for part in state] == [first["hidden"].tolist(), first["cell"].tolist()]
    everything = policy.outputs(observation, [first[name] for name in list(first)[2:]])
    np.testing.assert_allclose(everything["value"], ((4 + observation) * 0.5 + 4 + observation).sum(), rtol=1e-5)
    actor = policy.outputs(observation, state)
    np.testing.assert_allclose(actor["action"], (1 + observation) * 0.5 + 1 + observation, rtol=1e-5)
    np.testing.assert_allclose(actor["value"], ((2 + observation) * 0.5 + 4 + observation).sum(), rtol=1e-5)
    restarted = policy.outputs(observation, state, True)
    assert restarted["action"].tolist() == action.tolist()


def test_functions_of_the_caller_are_called() -> None:
    model = Model(box(4), box(2, low=-np.inf, high=np.inf))
    observation = model.features()
    made = model.builder.add(
        "Call", observation, function="extractor", keys=(), dtype="float32", shape=(2,), name="mean"
    )
    model.outputs = {"action": model.clip(made)}
    policy = make_policy(model.build(Sampling("none")), modules={"extractor": lambda batch: batch[:, :2] * 2})
    np.testing.assert_allclose(policy.predict(FOUR)[0], FOUR[:2] * 2)
    np.testing.assert_allclose(policy.predict(numbers(3, 4))[0], numbers(3, 4)[:, :2] * 2)


def test_what_it_is() -> None:
    model = gaussian(box(4), box(3))
    policy = make_policy(model)
    assert repr(policy) == "<Policy PPO Box(4,) -> Box(3,)>"
    assert repr(make_policy(model._replace(algorithm=None))) == "<Policy of an unknown algorithm Box(4,) -> Box(3,)>"
    others = make_policy(gaussian(dict_space(a=box(4), b=discrete(3)), box(3)))
    assert repr(others) == "<Policy PPO Dict(a, b) -> Box(3,)>"
    assert repr(make_policy(epsilon_greedy(0.5))) == "<Policy PPO Box(4,) -> Discrete(5)>"
    assert (policy.graph, policy.algorithm, policy.inferred) == (model.graph, "PPO", ())
    assert (policy.observation_space, policy.action_space) == (model.observation_space, model.action_space)
    assert policy.vecnormalize is None


def test_statistics_are_applied_in_float64() -> None:
    model = Model(box(1), box(1, low=-np.inf, high=np.inf))
    add = model.builder.add
    value = add("Cast", model.builder.input(Input("observation", "float32", (1,))), to="float64")
    centered = add("Sub", value, model.builder.weight("mean", describe(np.array([1e8])), "test"))
    model.outputs = {"action": model.clip(add("Cast", centered, to="float32"))}
    policy = make_policy(model.build(Sampling("none")))
    assert isinstance(policy.observation_space, Box)
    assert policy.predict(np.array([1e8 + 1]))[0].tolist() == [1]
    assert policy.predict(np.array([10**8 + 3]))[0].tolist() == [3]
