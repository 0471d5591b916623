"""The table of defaults is that of the constructors: of their signatures, and of what they store for a default."""

# ruff: noqa: E402 -- importorskip stands before what needs it
from __future__ import annotations

import inspect
import io
from typing import Any, Final

import pytest

sb3 = pytest.importorskip("stable_baselines3")
contrib = pytest.importorskip("sb3_contrib")

from gymnasium import spaces
from stable_baselines3.common.noise import NormalActionNoise

import sbformat
from sbformat.archive.defaults import list_changed
from sbformat.known.algorithms import ALGORITHMS
from tests.interop.rebuild_envs import environment

pytestmark = [pytest.mark.filterwarnings("ignore")]

NOT_COMPARED: Final = {"self", "policy", "env", "tensorboard_log", "verbose", "seed", "device", "_init_setup_model"}
OF_OPTIMIZER: Final = {"use_rms_prop": True, "rms_prop_eps": 1e-5}
"""Arguments of A2C that are a part of ``policy_kwargs`` in ``data``."""
VECTOR: Final = spaces.Box(-1, 1, (3,))
OBSERVATIONS: Final = {"vector": VECTOR, "dict": spaces.Dict({"a": VECTOR, "b": VECTOR})}
BOX: Final = spaces.Box(-1, 1, (2,))
DISCRETE: Final = spaces.Discrete(3)


def find_class(name: str) -> Any:
    return getattr(sb3, name, None) or getattr(contrib, name)


def find_changed(model: Any) -> dict[str, Any]:
    """Return the changed values of a saved agent, by key."""
    file = io.BytesIO()
    model.save(file)
    report = sbformat.inspect(file.getvalue())
    assert report.algorithm is not None
    assert report.hyperparameters is not None
    assert type(model).__name__ == report.algorithm.name
    found = list_changed(type(model).__name__, report.hyperparameters, report.stable_baselines3_version)
    return {row.key: row.value for row in found}


def make_model(name: str, observations: spaces.Space[Any], **arguments: Any) -> Any:
    row = ALGORITHMS[name]
    actions = DISCRETE if row.kind == "q" or name == "MaskablePPO" else BOX
    is_dict = isinstance(observations, spaces.Dict)
    policy = list(row.policies)[-1 if is_dict else 0]
    return find_class(name)(policy, environment(observations, actions), **arguments)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_argument_has_the_default_of_the_constructor(name: str) -> None:
    parameters = inspect.signature(find_class(name).__init__).parameters
    expected = {key: row.default for key, row in parameters.items() if key not in NOT_COMPARED}
    table = {key.removeprefix("_"): value for key, value in ALGORITHMS[name].hyperparameters.items()}
    table |= OF_OPTIMIZER if name == "A2C" else {}
    assert {key: table[key] for key in expected} == expected


@pytest.mark.parametrize("observations", OBSERVATIONS)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_agent_with_default_arguments_differs_in_nothing(name: str, observations: str) -> None:
    if observations == "dict" and "MultiInput" not in list(ALGORITHMS[name].policies)[-1]:
        pytest.skip("it has no policy for Dict observations")
    assert find_changed(make_model(name, OBSERVATIONS[observations])) == {}


CHANGES: Final[dict[str, dict[str, Any]]] = {
    "PPO": {"clip_range": 0.1, "n_steps": 64, "policy_kwargs": {"net_arch": [8]}, "stats_window_size": 10},
    "A2C": {"rms_prop_eps": 1e-3, "use_sde": True},
    "SAC": {"train_freq": (1, "episode"), "target_entropy": -1.0, "ent_coef": "auto_0.1", "n_steps": 3},
    "TD3": {"action_noise": NormalActionNoise([0.0, 0.0], [0.1, 0.1]), "tau": 0.01},
    "DQN": {"target_update_interval": 500, "train_freq": 1},
    "ARS": {"n_top": 2},
    "QRDQN": {"batch_size": 16, "policy_kwargs": {"n_quantiles": 10}},
}
RENAMED: Final = {
    "rms_prop_eps": "policy_kwargs.optimizer_kwargs", "stats_window_size": "_stats_window_size",
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_changed_arguments_and_no_others_are_found(name: str) -> None:
    arguments = CHANGES[name]
    expected = {RENAMED.get(key, key) for key in arguments if key != "policy_kwargs"}
    expected |= {f"policy_kwargs.{key}" for key in arguments.get("policy_kwargs", ())}
    assert set(find_changed(make_model(name, VECTOR, **arguments))) == expected
