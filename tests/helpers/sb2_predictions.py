"""What Stable Baselines 2 predicted for its agents, beside what ``load_policy`` predicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

import sbformat
from tests.helpers.exact_policy import measure_rounding

if TYPE_CHECKING:
    from pathlib import Path

    from tests.helpers.exported_policy import ExportedPolicy

RELATIVE: Final = 1e-5
"""Of continuous values: relative to the greatest of an array, for TensorFlow adds in another order."""
DRAWS: Final = 8192
SUFFIXES: Final = (".zip", ".pkl")


def recorded_agents(folder: Path) -> list[Path]:
    """The agents of a folder that have predictions beside them."""
    names = [path.name.removesuffix(".predict.npz") for path in sorted(folder.glob("*.predict.npz"))]
    return [path for name in names for suffix in SUFFIXES if (path := folder / (name + suffix)).exists()]


def read_recording(agent: Path) -> dict[str, np.ndarray]:
    """The arrays that were recorded; None, which SB2 returned for some, is left out."""
    found = {}
    with np.load(agent.with_suffix(".predict.npz")) as archive:
        for name in archive.files:
            try:
                found[name] = archive[name]
            except ValueError:  # an object
                continue
    return found


def assert_equal(actual: Any, expected: np.ndarray, what: str, rounding: float = 0.0) -> None:
    """Compare arrays: integers exactly.

    :param rounding: what float32 rounds in our network; in TensorFlow's it is as much, with another sign
    """
    actual = np.asarray(actual)
    assert actual.shape == expected.shape, what
    if expected.dtype.kind in "iu":
        np.testing.assert_array_equal(actual, expected, what)
    else:
        greatest = float(np.abs(expected).max())
        np.testing.assert_allclose(
            actual, expected, RELATIVE, RELATIVE * max(greatest, 1.0) + 4 * rounding, err_msg=what
        )


def assert_same_predictions(agent: Path) -> sbformat.Policy:
    """Compare actions, probabilities, values and states with a recording, and return the policy."""
    policy = sbformat.load_policy(agent, seed=0)
    assert_same_recording(policy, agent)
    return policy


def assert_same_recording(policy: sbformat.Policy | ExportedPolicy, agent: Path) -> None:
    """Compare what a policy predicts, loaded or exported, with the recording of an agent."""
    recording = read_recording(agent)
    if "states" in recording:
        _compare_steps(policy, recording)
        return
    observations = split_goals(policy, recording["observations"])
    rounding = measure_rounding(sbformat.load_policy(agent), observations, len(recording["observations"]))
    actions, state = policy.predict(observations, deterministic=True)
    assert state is None
    assert actions.dtype == recording["actions"].dtype
    assert_equal(actions, recording["actions"], "actions", rounding["action"])
    single = policy.predict(_take(observations, 3), deterministic=True)[0]
    assert_equal(single, recording["actions"][3], "the action for one observation", rounding["action"])
    outputs = policy.outputs(observations)
    assert_equal(outputs["action"], recording["actions"], "the output action", rounding["action"])
    for name in ("value", "q_values"):
        if name in recording:
            assert_equal(outputs[name], recording[name], name, rounding[name])
    if "probabilities" in recording:
        assert_equal(_describe_distribution(outputs), recording["probabilities"], "probabilities")


def split_goals(policy: sbformat.Policy | ExportedPolicy, observations: np.ndarray) -> Any:
    """The observations as the policy takes them: a dict of parts for HER."""
    if not hasattr(policy.observation_space, "spaces"):
        return observations
    parts, start = {}, 0
    for item in policy.graph.inputs:
        width = int(np.prod(item.shape))
        parts[item.key] = observations[:, start : start + width].reshape(len(observations), *item.shape)
        start += width
    assert start == observations.shape[1]
    return parts


def assert_same_distribution(agent: Path) -> None:
    """Compare actions that are drawn for one observation: frequencies, or mean and deviation."""
    samples = read_recording(agent)["samples"]
    policy = sbformat.load_policy(agent, seed=0)
    first = split_goals(policy, np.repeat(read_recording(agent)["observations"][:1], DRAWS, 0))
    drawn, _ = policy.predict(first)
    assert drawn.dtype.kind == samples.dtype.kind  # TD3's noise makes float64 of float32
    assert drawn.shape[1:] == samples.shape[1:]
    if samples.dtype.kind == "i":
        for choice in np.union1d(samples, drawn):
            _compare_means(drawn == choice, samples == choice)
        return
    _compare_means(drawn, samples)
    spread = drawn.std(0, dtype=np.float64)
    np.testing.assert_allclose(samples.std(0, dtype=np.float64), spread, 0.25, 1e-3)


def _compare_means(drawn: np.ndarray, samples: np.ndarray) -> None:
    """Means agree within five standard errors."""
    mean, deviation = drawn.mean(0, dtype=np.float64), drawn.std(0, dtype=np.float64)
    error = 5 * deviation / np.sqrt(len(samples)) + 5 / len(samples) * (drawn.dtype == bool) + 1e-3
    assert (np.abs(samples.mean(0, dtype=np.float64) - mean) <= error).all()


def _compare_steps(policy: sbformat.Policy | ExportedPolicy, recording: dict[str, np.ndarray]) -> None:
    """Compare the steps of a recurrent policy, whose state goes from one to the next."""
    masks = recording["masks"].reshape(len(recording["masks"]), -1)
    steps, count = masks.shape
    state: Any = None
    made: dict[str, list[Any]] = {"actions": [], "states": [], "value": []}
    for step in range(steps):
        batch = np.stack([recording["observations"][(step + 5 * at) % steps] for at in range(count)])
        made["value"].append(policy.outputs(batch, state, masks[step])["value"])
        action, state = policy.predict(batch, state, masks[step], deterministic=True)
        made["actions"].append(action)
        made["states"].append(state)
    for name in ("actions", "states", "value"):
        if name in recording and not (name == "value" and policy.algorithm == "ACER"):
            assert_equal(np.reshape(made[name], recording[name].shape), recording[name], name)


def _describe_distribution(outputs: dict[str, np.ndarray]) -> np.ndarray:
    """What ``action_probability`` of SB2 returns: for a Box mean and standard deviation."""
    if "mean" in outputs:
        return np.stack([outputs["mean"], np.exp(outputs["log_std"])])
    return outputs.get("probabilities", outputs["action"])


def _take(observations: Any, number: int) -> Any:
    if isinstance(observations, dict):
        return {key: value[number] for key, value in observations.items()}
    return observations[number]
