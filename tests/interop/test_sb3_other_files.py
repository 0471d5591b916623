"""``load_vecnormalize``, ``load_replay_buffer`` and ``replace_loaders`` of ``sbformat.sb3``, with the real SB3."""

# ruff: noqa: E402 -- importorskip stands before what needs it
from __future__ import annotations

import os
import pickle
import warnings
from typing import TYPE_CHECKING, Any, Final

import pytest

torch = pytest.importorskip("torch")
sb3 = pytest.importorskip("stable_baselines3")

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.buffers import DictReplayBuffer, NStepReplayBuffer, ReplayBuffer
from stable_baselines3.common.vec_env import VecNormalize
from stable_baselines3.her import HerReplayBuffer

import sbformat
import sbformat.sb3
from sbformat import SbformatError, TensorError, UnsupportedError
from sbformat.pkl import Call, Global, dumps
from tests.helpers.build_replay_buffers import HER, buffer, hindsight_of_old
from tests.helpers.bundled import ARCHIVES, PPO
from tests.helpers.shared_files import generated_files
from tests.interop.rebuild_envs import environment
from tests.interop.test_vecnormalize_live import ACTIONS, VECTOR, check_same, trained

if TYPE_CHECKING:
    from pathlib import Path

BOX: Final = spaces.Box(-1, 1, (3,))
ACTION: Final = spaces.Box(-1, 1, (1,))
GOALS: Final = spaces.Dict(
    {"achieved_goal": spaces.Box(-1, 1, (1,)), "desired_goal": spaces.Box(-1, 1, (1,)),
     "observation": spaces.Box(-1, 1, (2,))}
)  # fmt: skip


SHARED: Final = {"optimize_memory_usage": True, "replay_buffer_kwargs": {"handle_timeout_termination": False}}
HINDSIGHT: Final = {"replay_buffer_class": HerReplayBuffer, "replay_buffer_kwargs": {"copy_info_dict": True}}


def make_model(observations: Any, actions: Any = ACTION, count: int = 1, **options: Any) -> Any:
    policy = "MultiInputPolicy" if isinstance(observations, spaces.Dict) else "MlpPolicy"
    algorithm = sb3.DQN if isinstance(actions, spaces.Discrete) else sb3.SAC
    env = environment(observations, actions, count)
    arguments = {"buffer_size": 8 * count, "learning_starts": 8, "policy_kwargs": {"net_arch": [4]}, "batch_size": 2}
    return algorithm(policy, env, device="cpu", **{**arguments, **options})


def load(model: Any, source: Any, *arguments: Any) -> Any:
    """Load without a warning; return the buffer."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sbformat.sb3.load_replay_buffer(model, source, *arguments)
    return model.replay_buffer


class Own(ReplayBuffer):
    """A user's own buffer, with a setting and an array of its own."""

    def __init__(self, *args: Any, scale: float = 1.0, **named: Any) -> None:
        super().__init__(*args, **named)
        self.scale = scale
        self.priorities = np.zeros((self.buffer_size, self.n_envs))


# -- statistics ---------------------------------------------------------------------------------------


def test_statistics_are_wrapped_around_an_environment(tmp_path: Path) -> None:
    real = trained(VECTOR, {"clip_obs": 0.5, "gamma": 0.5})
    real.save(str(tmp_path / "vecnormalize.pkl"))
    env = environment(VECTOR, ACTIONS, 3)
    for source in (tmp_path / "vecnormalize.pkl", tmp_path, sbformat.read(tmp_path / "vecnormalize.pkl")):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            made = sbformat.sb3.load_vecnormalize(source, env)
        assert (type(made), made.venv, made.num_envs) == (VecNormalize, env, 3)
        check_same(made, real, VECTOR)
        assert (made.clip_obs, made.gamma, made.training) == (0.5, 0.5, True)
    made.reset()
    made.step(np.zeros((3, 2), np.float32))
    with pytest.raises(AssertionError, match="spaces must have the same shape"):
        sbformat.sb3.load_vecnormalize(tmp_path, environment(spaces.Box(-1, 1, (5,)), ACTIONS))
    with pytest.raises(UnsupportedError, match="expected a pickle of a VecNormalize"):
        sbformat.sb3.load_vecnormalize(dumps(Call("REDUCE", Global("os", "system"), ("true",))), env)


# -- replay buffers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cls", "space", "options"),
    [
        (ReplayBuffer, BOX, {}),
        (ReplayBuffer, BOX, SHARED),
        (ReplayBuffer, spaces.Discrete(5), {}),
        (ReplayBuffer, spaces.Box(0, 255, (1, 8, 8), np.uint8), {}),
        (DictReplayBuffer, GOALS, {}),
        (NStepReplayBuffer, BOX, {"n_steps": 3, "gamma": 0.5}),
        (HerReplayBuffer, GOALS, HINDSIGHT),
        (Own, BOX, {"replay_buffer_class": Own, "replay_buffer_kwargs": {"scale": 0.5}}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("count", [1, 2])
def test_the_buffer_is_that_which_sb3_itself_would_load(
    tmp_path: Path, cls: Any, space: Any, options: dict[str, Any], count: int
) -> None:
    model = make_model(space, count=count, **options)
    model.learn(11 * count)
    real = model.replay_buffer
    if cls is Own:
        real.priorities += 3
    model.save_replay_buffer(tmp_path / "replay_buffer.pkl")
    made = load(model, tmp_path / "replay_buffer", False)
    assert made is not real
    assert (type(made), made.device) == (cls, model.device)
    expected, found = vars(real), vars(made)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if name == "infos":
            np.testing.assert_equal(found[name].tolist(), value.tolist())
        elif isinstance(value, np.ndarray):
            np.testing.assert_array_equal(found[name], value)
            assert (found[name].dtype, found[name].flags.writeable) == (value.dtype, True)
        elif name in ("observations", "next_observations"):
            for key, part in value.items():
                np.testing.assert_array_equal(found[name][key], part)
        else:
            assert found[name] == value or name == "env", name
    assert model.learn(11 * count, reset_num_timesteps=False).num_timesteps == 22 * count


def test_a_buffer_is_on_the_device_of_the_model() -> None:
    model = make_model(BOX)
    model.device = torch.device("cuda")  # whether it is available or not
    assert load(model, buffer(rows=6, envs=1)).device == torch.device("cuda")


def test_buffers_of_other_releases_are_those_of_the_installed_one(tmp_path: Path) -> None:
    paths = [*generated_files("replaybuffer*.pkl", "[0-9]*"), ARCHIVES / "replay-buffer-cartpole.pkl"]
    for path in paths:
        saved = sbformat.read_replay_buffer(path)
        model = make_model(saved.observation_space.to_gymnasium(), saved.action_space.to_gymnasium())
        made = load(model, path)
        assert (made.size(), made.pos, made.full) == (saved.size(), saved.pos, saved.full)
        for name, array in saved.arrays.items():
            own = getattr(made, name) if "/" not in name else getattr(made, name.split("/")[0])[name.split("/")[1]]
            np.testing.assert_array_equal(own.reshape(array.shape), array)
        model.learn(12)
    old = buffer("DictReplayBuffer", rows=6, envs=1, handle_timeout_termination=None, timeouts=None)
    with pytest.raises(UnsupportedError, match="expected an array 'observations/achieved_goal' of shape"):
        sbformat.sb3.load_replay_buffer(make_model(GOALS), old)
    made = load(make_model(BOX), buffer(rows=6, envs=1, handle_timeout_termination=None, timeouts=None))
    assert (made.handle_timeout_termination, made.timeouts.any()) == (False, False)


def test_episodes_in_rows_become_steps() -> None:
    """Hindsight before SB3 1.8: an episode of 5 steps, one of 2, and an unfinished one of 3."""
    done = np.zeros((4, 5, 1), "f4")
    done[1, 1] = 1
    model = make_model(GOALS, spaces.Box(-1, 1, (3,)), replay_buffer_class=HerReplayBuffer)
    made = load(model, hindsight_of_old(done=done), False)
    assert (made.buffer_size, made.pos, made.full, made.n_sampled_goal) == (20, 10, False, 4)
    assert made.ep_start[:11, 0].tolist() == [0, 0, 0, 0, 0, 5, 5, 7, 7, 7, 0]
    assert made.ep_length[:11, 0].tolist() == [5, 5, 5, 5, 5, 2, 2, 0, 0, 0, 0]
    assert made._current_ep_start.tolist() == [7]
    assert np.flatnonzero(made.dones).tolist() == [4, 6]
    assert np.flatnonzero(made.timeouts).tolist() == [4]
    assert made.observations["observation"][5:8, 0].tolist() == [[10, 11], [12, 13], [20, 21]]
    assert made.rewards[:10, 0].tolist() == [0, 1, 2, 3, 4, 5, 6, 10, 11, 12]
    with pytest.warns(UserWarning, match="The last trajectory in the replay buffer will be truncated"):
        sbformat.sb3.load_replay_buffer(model, hindsight_of_old("buffer", n_sampled_goal=...))
    assert (model.replay_buffer.n_sampled_goal, model.replay_buffer.ep_length[9, 0]) == (4, 3)
    assert model.learn(16).num_timesteps == 16
    full = {"full": True, "pos": 1, "episode_lengths": np.array([5, 5, 5, 5]), "current_idx": 0}
    made = load(model, hindsight_of_old(**full))
    assert (made.pos, made.full, made.size()) == (0, True, 20)
    assert made.rewards[:, 0].tolist() == [*range(5, 20), *range(5)]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (buffer(rows=6, envs=1, shape=(4,)), r"numbers of shape \(6, 1, 3\).*float32 of shape \(6, 1, 4\)"),
        (buffer(rows=6, envs=1, rewards=np.zeros((6, 1), "c8")), "'rewards' to be numbers .* got complex64"),
        (buffer("Mine", "os", rows=6, envs=1), "SB3, or of the model's replay_buffer_class, got 'os.Mine'"),
        (buffer("HerReplayBuffer", HER, rows=6, envs=1, her_ratio=0.8), "refuses the settings of the file"),
        (buffer("NStepReplayBuffer", rows=6, envs=1, n_steps=2, gamma=0.5, optimize_memory_usage=True),
         "NStepReplayBuffer refuses the settings|ReplayBuffer does not support"),
        (buffer(rows=6, envs=1, optimize_memory_usage=True, next_observations=None), "ReplayBuffer refuses the"),
        (PPO, "expected a replay buffer, got a file of the kind sb3"),
    ],
)  # fmt: skip
def test_a_buffer_that_does_not_fit_is_refused(source: Any, words: str) -> None:
    model = make_model(BOX)
    before = model.replay_buffer
    with pytest.raises(UnsupportedError, match=words):
        sbformat.sb3.load_replay_buffer(model, source)
    assert model.replay_buffer is before


def test_hostile_episodes_and_missing_environments_are_refused(tmp_path: Path) -> None:
    options = {"replay_buffer_class": HerReplayBuffer, "learning_starts": 10**9}
    model = make_model(GOALS, **options)
    model.learn(6)
    model.save_replay_buffer(tmp_path / "her.pkl")
    real = pickle.loads((tmp_path / "her.pkl").read_bytes())
    real.ep_start[2] = 10**6
    (tmp_path / "hostile.pkl").write_bytes(pickle.dumps(real))
    with pytest.raises(TensorError, match="expected ep_start to be integers from 0 to 7"):
        sbformat.sb3.load_replay_buffer(model, tmp_path / "hostile.pkl")
    model.env = None
    with pytest.raises(UnsupportedError, match="needs an environment: pass env"):
        sbformat.sb3.load_replay_buffer(model, tmp_path / "her.pkl")
    with pytest.raises(FileNotFoundError):
        sbformat.sb3.load_replay_buffer(model, tmp_path / "missing")


# -- replaced methods ---------------------------------------------------------------------------------


class OwnPPO(sb3.PPO):  # type: ignore[misc]
    """An algorithm with a ``load`` of its own."""

    @classmethod
    def load(cls, path: Any, *arguments: Any, **kwargs: Any) -> Any:
        made = super().load(path, *arguments, **kwargs)
        made.is_own = True
        return made


def test_methods_of_sb3_are_replaced_and_put_back(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    evil = dumps(Call("REDUCE", Global("os", "mkdir"), (os.fspath(marker),)))
    (tmp_path / "evil.pkl").write_bytes(evil)
    model = make_model(BOX)
    env = environment(VECTOR, ACTIONS)
    methods = [vars(cls)[name] for cls, name in replaced()]
    with sbformat.sb3.replace_loaders(), sbformat.sb3.replace_loaders():
        assert type(sb3.PPO.load(str(PPO), None, "cpu")) is sb3.PPO
        made = OwnPPO.load(PPO, device="cpu", custom_objects={"gamma": 0.5})
        assert (type(made), made.is_own, made.gamma) == (OwnPPO, True, 0.5)
        assert type(sbformat.sb3.load(sb3.PPO, PPO, device="cpu")) is sb3.PPO
        for call in (model.load_replay_buffer, lambda path: VecNormalize.load(path, env)):
            with pytest.raises(SbformatError):
                call(str(tmp_path / "evil.pkl"))
        trained(VECTOR, {}).save(str(tmp_path / "real.pkl"))
        assert type(VecNormalize.load(str(tmp_path / "real.pkl"), env)) is VecNormalize
    assert [vars(cls)[name] for cls, name in replaced()] == methods
    assert not marker.exists()


def replaced() -> list[tuple[Any, str]]:
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

    return [(BaseAlgorithm, "load"), (OffPolicyAlgorithm, "load_replay_buffer"), (VecNormalize, "load")]
