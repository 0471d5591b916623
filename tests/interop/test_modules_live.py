"""Whole modules: the state dicts that torch gives of them, and the actions of policies of SB3 that were saved whole."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import sbformat

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.interop
th = pytest.importorskip("torch")
sb3, contrib = pytest.importorskip("stable_baselines3"), pytest.importorskip("sb3_contrib")

SMALL: Final[dict[str, Any]] = {"net_arch": [8]}
POLICIES: Final[dict[str, tuple[Any, str, dict[str, Any]]]] = {
    "ppo": (sb3.PPO, "Pendulum-v1", {"policy_kwargs": {**SMALL, "activation_fn": th.nn.ReLU}}),
    "ppo-sde": (sb3.PPO, "Pendulum-v1", {"use_sde": True, "policy_kwargs": {**SMALL, "squash_output": True}}),
    "a2c": (sb3.A2C, "CartPole-v1", {"policy_kwargs": SMALL}),
    "dqn": (sb3.DQN, "CartPole-v1", {"policy_kwargs": SMALL}),
    "sac": (sb3.SAC, "Pendulum-v1", {"policy_kwargs": {**SMALL, "n_critics": 3}}),
    "sac-sde": (sb3.SAC, "Pendulum-v1", {"use_sde": True, "policy_kwargs": SMALL}),
    "td3": (sb3.TD3, "Pendulum-v1", {"policy_kwargs": SMALL}),
    "tqc": (contrib.TQC, "Pendulum-v1", {"policy_kwargs": {**SMALL, "n_quantiles": 5}}),
    "qrdqn": (contrib.QRDQN, "CartPole-v1", {"policy_kwargs": {**SMALL, "n_quantiles": 7}}),
    "crossq": (contrib.CrossQ, "Pendulum-v1", {"policy_kwargs": SMALL}),
    "ars": (contrib.ARS, "Pendulum-v1", {"policy_kwargs": SMALL}),
    "lstm": (contrib.RecurrentPPO, "CartPole-v1", {"policy_kwargs": {**SMALL, "lstm_hidden_size": 6}}),
}


def compare_state(path: Path, expected: dict[str, Any]) -> None:
    archive = sbformat.read(path)
    found = archive.state_dict(archive.state_dicts[0])
    assert list(found.tensors()) == list(expected)
    for name, tensor in expected.items():
        np.testing.assert_array_equal(found.array(name), tensor.detach().numpy())


@pytest.mark.parametrize("is_zip", [True, False])
@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_that_was_saved_whole_acts_as_in_sb3(name: str, is_zip: bool, tmp_path: Path) -> None:  # noqa: FBT001
    algorithm, env, options = POLICIES[name]
    options = {**options, "policy_kwargs": dict(options["policy_kwargs"])}  # which SB3 adds to
    recurrent = algorithm is contrib.RecurrentPPO
    model = algorithm("MlpLstmPolicy" if recurrent else "MlpPolicy", env, device="cpu", seed=1, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns about the source of classes in the legacy format
        th.save(model.policy, tmp_path / "policy.pt", _use_new_zipfile_serialization=is_zip)
    compare_state(tmp_path / "policy.pt", model.policy.state_dict())
    observation = np.linspace(-0.5, 0.5, model.observation_space.shape[0], dtype=np.float32)
    action, _ = sbformat.load_policy(tmp_path / "policy.pt").predict(observation, deterministic=True)
    expected, _ = model.predict(observation, deterministic=True)
    np.testing.assert_allclose(action, expected, atol=1e-6)
    content, _ = sbformat.rebuild_policy(tmp_path / "policy.pt")
    (tmp_path / "policy.pth").write_bytes(content)
    loaded = type(model.policy).load(tmp_path / "policy.pth", device="cpu")
    np.testing.assert_allclose(loaded.predict(observation, deterministic=True)[0], expected, atol=1e-6)


@pytest.mark.parametrize("is_zip", [True, False])
def test_any_module_has_the_state_dict_of_torch(is_zip: bool, tmp_path: Path) -> None:  # noqa: FBT001
    net = th.nn.Sequential(
        th.nn.Conv2d(1, 2, 3), th.nn.BatchNorm2d(2), th.nn.GRU(4, 2, num_layers=2), th.nn.Embedding(5, 2)
    )
    net.append(net[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        th.save(net, tmp_path / "net.pt", _use_new_zipfile_serialization=is_zip)
    compare_state(tmp_path / "net.pt", net.state_dict())


def test_torchscript_has_the_state_dict_of_torch(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls it deprecated
        script = th.jit.script(th.nn.Sequential(th.nn.Linear(3, 4), th.nn.BatchNorm1d(4), th.nn.LSTM(4, 2)))
        script.save(str(tmp_path / "script.pt"))
    archive = sbformat.read(tmp_path / "script.pt")
    found = archive.state_dict(archive.state_dicts[0])
    assert set(found.tensors()) == set(script.state_dict())
    for name, tensor in script.state_dict().items():
        np.testing.assert_array_equal(found.array(name), tensor.detach().numpy())
