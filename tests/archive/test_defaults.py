"""Which hyper-parameters differ from the defaults; ``tests/interop/test_defaults_live.py`` asks the constructors."""

from __future__ import annotations

from typing import Any

import pytest

import sbformat
from sbformat.archive.defaults import list_changed
from sbformat.archive.hyperparameters import Hyperparameter
from sbformat.known.algorithms import ALGORITHMS
from sbformat.known.types import ConstantSchedule, LinearSchedule, Reference
from tests.helpers.bundled import ARCHIVES, PPO, SAC
from tests.policies.run.models import box

OLD_PPO = ARCHIVES / "ppo-cartpole-1.0.zip"
BUFFERS = "stable_baselines3.common.buffers"


@pytest.mark.parametrize(
    ("path", "changed"),
    [
        (PPO, {"n_steps": 32, "batch_size": 32, "n_epochs": 1, "policy_kwargs.net_arch": [8, 8]}),
        (OLD_PPO, {"n_steps": 32, "batch_size": 32, "n_epochs": 1,
                   "policy_kwargs.net_arch": [8, {"pi": [8], "vf": [8]}]}),
        (SAC, {"buffer_size": 64, "learning_starts": 4, "batch_size": 4, "policy_kwargs.net_arch": [8, 8]}),
    ],
    ids=lambda value: getattr(value, "stem", ""),
)  # fmt: skip
def test_what_was_passed_to_the_constructor_is_found(path: Any, changed: dict[str, Any]) -> None:
    archive = sbformat.read(path)
    name = archive.algorithm.name
    assert name is not None
    found = list_changed(name, archive.hyperparameters(), archive.stable_baselines3_version)
    assert {row.key: row.value for row in found} == changed
    for row in found:
        assert row.has_default == (not row.key.startswith("policy_kwargs."))
        assert not row.has_default or row.default == ALGORITHMS[name].hyperparameters[row.key]


def change(algorithm: str, version: str | None = "2.9.2", **values: Any) -> list[str]:
    """Return the keys of the values that are not the default."""
    found = {key: Hyperparameter(value, "decoded", None) for key, value in values.items()}
    return [row.key for row in list_changed(algorithm, found, version)]


def test_a_schedule_is_compared_by_its_values() -> None:
    same = {"learning_rate": ConstantSchedule(3e-4), "clip_range": ConstantSchedule(0.2), "clip_range_vf": None}
    assert change("PPO", **same) == []
    assert change("PPO", **{**same, "clip_range": ConstantSchedule(0.1)}) == ["clip_range"]
    assert change("PPO", learning_rate=LinearSchedule(3e-4, 0.0, 1.0)) == ["learning_rate"]


def test_an_item_that_a_constructor_sets_has_a_default() -> None:
    found = {"policy_kwargs": Hyperparameter({"optimizer_class": "SGD", "net_arch": [8]}, "decoded", None)}
    assert [(row.key, row.default, row.has_default) for row in list_changed("A2C", found, "2.9.2")] == [
        ("policy_kwargs.optimizer_class", "torch.optim.rmsprop.RMSprop", True),
        ("policy_kwargs.net_arch", None, False),
    ]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_defaults_are_no_changes(algorithm: str) -> None:
    values = ALGORITHMS[algorithm].hyperparameters
    assert change(algorithm, **values) == []
    assert change(algorithm, **{key: f"another {key}" for key in values}) == list(values)


@pytest.mark.parametrize(
    ("algorithm", "values"),
    [
        ("SAC", {"target_entropy": -2.0, "action_space": box(2)}),
        ("DQN", {"train_freq": [4, "step"], "replay_buffer_kwargs": {}}),
        ("ARS", {"n_top": 5, "n_delta": 5}),
        ("SAC", {"n_steps": 3, "gamma": 0.9, "replay_buffer_class": Reference(BUFFERS, "NStepReplayBuffer"),
                 "replay_buffer_kwargs": {"n_steps": 3, "gamma": 0.9}}),
        ("PPO", {"rollout_buffer_class": Reference(BUFFERS, "RolloutBuffer"), "rollout_buffer_kwargs": {}}),
        ("DDPG", {"policy_kwargs": {"n_critics": 1}}),
        ("A2C", {"policy_kwargs": {"optimizer_class": Reference("torch.optim.rmsprop", "RMSprop"),
                                   "optimizer_kwargs": {"alpha": 0.99, "eps": 1e-5, "weight_decay": 0}}}),
        ("QRDQN", {"batch_size": 64, "policy_kwargs": {"optimizer_class": Reference("torch.optim.adam", "Adam"),
                                                       "optimizer_kwargs": {"eps": 0.01 / 64}}}),
    ],
)  # fmt: skip
def test_what_a_constructor_stores_for_a_default_is_no_change(algorithm: str, values: dict[str, Any]) -> None:
    assert set(change(algorithm, **values)) <= {"n_delta", "n_steps", "gamma", "batch_size"}


def test_a_value_may_be_as_deep_as_a_file_wants() -> None:
    """Lists within lists, and lists that contain one list twice, whose text would have 2**60 items."""
    deep: Any = 0.2
    for _ in range(100_000):
        deep = [deep]
    wide: Any = 0.2
    for _ in range(60):
        wide = [wide, wide]
    for value in (deep, wide, {"net_arch": wide}, (deep, "step")):
        for algorithm, row in ALGORITHMS.items():
            keys = row.hyperparameters
            found = change(algorithm, **dict.fromkeys(keys, value))
            assert {key.partition(".")[0] for key in found} == set(keys)


def test_an_interval_that_a_release_divided_is_the_default() -> None:
    """SB3 1.4 to 1.8 saved ``target_update_interval`` of DQN divided by the number of environments."""
    divided = {"n_envs": 8, "target_update_interval": 1250}
    assert change("DQN", "1.6.2", **divided) == []
    assert change("DQN", "2.9.2", **divided) == ["target_update_interval"]
    assert change("DQN", None, **divided) == ["target_update_interval"]


@pytest.mark.parametrize(
    ("name", "values", "changed"),
    [
        (
            "A2C",
            {"policy_kwargs": {}},
            {"policy_kwargs.optimizer_class", "policy_kwargs.optimizer_kwargs"},
        ),
        ("DDPG", {"policy_kwargs": {}}, {"policy_kwargs.n_critics"}),
        ("DQN", {"target_update_interval": 10_000, "n_envs": 4, "policy_kwargs": {}}, {"target_update_interval"}),
        ("DQN", {"target_update_interval": 2500, "n_envs": 4, "policy_kwargs": {}}, set()),
    ],
)
def test_what_a_constructor_would_have_added_or_computed_is_compared(
    name: str, values: dict[str, Any], changed: set[str]
) -> None:
    found = {key: Hyperparameter(value, "json", None) for key, value in values.items()}
    assert {row.key for row in list_changed(name, found, "1.8.0")} == changed
