"""``sbformat.sb3.load`` and the README's agents, with the real Stable-Baselines3."""

# ruff: noqa: E402 -- importorskip stands before what needs it
from __future__ import annotations

import inspect
import re
import subprocess
import sys
import warnings
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch")
sb3 = pytest.importorskip("stable_baselines3")

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3.common.envs import FakeImageEnv
from stable_baselines3.common.policies import ActorCriticPolicy

import sbformat
import sbformat.sb3
from sbformat import UnsupportedError
from sbformat.pkl import Call, Global
from tests.helpers.bundled import PPO, ROOT, SAC
from tests.helpers.old_archives import OLD, blob, reference, with_keys
from tests.helpers.shared_files import CORPUS

if TYPE_CHECKING:
    from pathlib import Path


ARGUMENTS = {"source", "algorithm", "allow", "limits"}
"""The arguments of ``rebuild`` that ``load`` has too."""


class Mine(ActorCriticPolicy):
    """A policy outside SB3."""


class OwnPPO(sb3.PPO):  # type: ignore[misc]
    """An algorithm derived from SB3's."""


def test_an_old_agent_is_loaded_whole() -> None:
    model = sbformat.sb3.load(sb3.PPO, OLD, device="cpu")
    assert (model.learning_rate, model.clip_range(1.0), model.gamma) == (3e-4, 0.2, 0.99)
    assert model.policy.net_arch == {"pi": [8, 8], "vf": [8, 8]}
    action, _ = model.predict(np.zeros(4, np.float32), deterministic=True)
    assert action in (0, 1)
    assert type(sbformat.sb3.load(OwnPPO, sbformat.read(OLD))) is OwnPPO


def test_no_pickle_of_a_file_is_run(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    evil = blob(Call("REDUCE", Global("os", "system"), (f"touch {marker}",)))
    for key in ("lr_schedule", "mine", "_last_obs"):
        model = sbformat.sb3.load(sb3.PPO, with_keys(**{key: evil}), device="cpu")
        assert model.gamma == 0.99
    with pytest.warns(
        UserWarning, match=r"learning_rate: not known: os.system\('[^']*'\) -> 0\.0003, the default of PPO"
    ):
        sbformat.sb3.load(sb3.PPO, with_keys(learning_rate=evil), device="cpu")
    assert not marker.exists()


def test_one_warning_names_all_that_is_replaced() -> None:
    lost = blob(Call("REDUCE", Global("mine", "schedule"), ()))
    archive = with_keys(
        learning_rate=lost,
        clip_range=reference("mine", "clip"),
        policy_class=reference("mine", "Policy"),
        lr_schedule=lost,
    )
    reports: list[Any] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = sbformat.sb3.load(sb3.PPO, archive, device="cpu", report=reports)
    ours = [warning for warning in caught if "not as it was saved" in str(warning.message)]
    assert [(warning.category, warning.filename) for warning in ours] == [(UserWarning, __file__)]
    message = str(ours[0].message)
    assert "clip_range: mine.clip -> 0.2 (" in message
    assert (
        "(is not known as a schedule: SB3 would import and call it; allow=['mine.clip'] keeps it; custom_objects={'clip"
        in message
    )
    assert not re.search("assign|--[a-z]", message)
    assert "policy_class: mine.Policy -> stable_baselines3.common.policies.ActorCriticPolicy (" in message
    assert "learning_rate: not known: mine.schedule() -> 0.0003, the default of PPO (" in message
    assert "lr_schedule:" not in message
    assert (model.learning_rate, model.clip_range(1.0), type(model.policy)) == (3e-4, 0.2, ActorCriticPolicy)
    (report,) = reports
    assert {row.key for row in report.findings} == {"learning_rate", "clip_range", "policy_class"}
    taken: list[Any] = []
    with pytest.warns(UserWarning, match="learning_rate"):
        sbformat.sb3.load(sb3.PPO, archive, device="cpu", report=taken.append)
    assert taken == [report]


def test_what_the_caller_gives_is_not_warned_of() -> None:
    lost = blob(Call("REDUCE", Global("mine", "schedule"), ()))
    archive = with_keys(learning_rate=lost, clip_range=lost)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        given = {"clip_range": 0.5}
        model = sbformat.sb3.load(sb3.PPO, archive, device="cpu", custom_objects=given, learning_rate=0.25)
    assert (model.lr_schedule(1.0), model.clip_range(1.0)) == (0.25, 0.5)


def test_the_system_is_described_as_the_archive_does(capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sbformat.sb3.load(sb3.PPO, PPO, device="cpu", print_system_info=True)
    text = capsys.readouterr().out.partition("== SAVED MODEL SYSTEM INFO ==")[2]
    saved = sbformat.read(PPO).system_info
    assert saved is not None
    assert saved.text.strip() in text
    hostile = sbformat.read(PPO).replace(system_info="OS: \x1b[31mred\r\n- Python: 3")
    sbformat.sb3.load(sb3.PPO, hostile, device="cpu", print_system_info=True)
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert "- Python: 3" in text
    without = sbformat.read(PPO).without("system_info.txt")
    with pytest.warns(UserWarning, match="saved with SB3 <= 1.2.0"):
        sbformat.sb3.load(sb3.PPO, without, device="cpu", print_system_info=True)


def test_a_class_carried_by_value_is_asked_for() -> None:
    path = CORPUS.parent / "generated" / "2.9.2" / "ppo-MlpPolicy-customextractor.zip"
    if not path.exists():
        pytest.skip("there is no ../shared beside the project")
    with pytest.raises(UnsupportedError, match="features_extractor_class: .*carried by value.*custom_objects"):
        sbformat.sb3.load(sb3.PPO, path, device="cpu")


def test_custom_objects_take_the_place_of_values() -> None:
    lost = blob(Call("REDUCE", Global("mine", "schedule"), ()))
    archive = with_keys(learning_rate=lost, policy_class=reference("mine", "Mine"))
    given = {"learning_rate": 0.5, "policy_class": Mine, "clip_range": lambda _: 0.125}
    model = sbformat.sb3.load(sb3.PPO, archive, custom_objects=given, device="cpu")
    assert type(model.policy) is Mine
    assert (model.learning_rate, model.lr_schedule(0.5), model.clip_range(0.5)) == (0.5, 0.5, 0.125)


def test_a_custom_object_whose_key_data_lacks_is_ignored() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = sbformat.sb3.load(sb3.PPO, PPO, device="cpu", custom_objects={"dummy": 1.0, "gamma": 0.5})
    assert not hasattr(model, "dummy")
    assert model.gamma == 0.5
    without = with_keys(clip_range_vf=...)
    assert (
        sbformat.sb3.load(sb3.PPO, without, device="cpu", custom_objects={"clip_range_vf": 0.5}).clip_range_vf is None
    )


@pytest.mark.parametrize("name", [*sorted({*inspect.signature(sbformat.rebuild).parameters} - ARGUMENTS)])
def test_an_argument_of_rebuild_is_refused_by_name(name: str) -> None:
    with pytest.raises(TypeError, match=f"load has no argument {name}, which is one of rebuild: "):
        sbformat.sb3.load(sb3.PPO, PPO, device="cpu", **{name: "MlpPolicy"})


def test_a_class_of_a_policy_is_an_attribute_as_in_sb3() -> None:
    assert type(sbformat.sb3.load(sb3.PPO, PPO, device="cpu", policy_class=Mine).policy) is Mine


@pytest.mark.parametrize("how", ["custom_objects", "attributes"])
def test_schedules_are_given_as_to_rebuild(how: str) -> None:
    given: dict[str, Any] = {
        "learning_rate": sbformat.LinearSchedule(1e-3, 0.0),
        "clip_range": {"linear": [0.5, 0.25, 0.5]},
        "clip_range_vf": {"constant": 0.125},
    }
    arguments: dict[str, Any] = {"custom_objects": given} if how == "custom_objects" else given
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = sbformat.sb3.load(sb3.PPO, PPO, device="cpu", **arguments)
    assert [model.lr_schedule(progress) for progress in (1.0, 0.5, 0.0)] == pytest.approx([1e-3, 5e-4, 0])
    assert [model.clip_range(progress) for progress in (1.0, 0.75, 0.5, 0.0)] == pytest.approx([0.5, 0.375, 0.25, 0.25])
    assert model.clip_range_vf(0.5) == 0.125
    assert type(model.learning_rate).__module__ == "stable_baselines3.common.utils"
    with pytest.raises(sbformat.ValidationError, match="expected a number, .* or "):
        sbformat.sb3.load(sb3.PPO, PPO, custom_objects={"learning_rate": {"linear": 3}})
    with pytest.raises(sbformat.ValidationError, match="/gamma: a schedule is possible for"):
        sbformat.sb3.load(sb3.PPO, PPO, custom_objects={"gamma": sbformat.ConstantSchedule(0.5)})


def test_a_misspelt_custom_object_is_named() -> None:
    match = "custom_objects: learning_rte is ignored, since data has no such key; did you mean learning_rate"
    with pytest.warns(UserWarning, match=match) as caught:
        model = sbformat.sb3.load(sb3.PPO, PPO, device="cpu", custom_objects={"learning_rte": 0.5})
    assert [warning.filename for warning in caught] == [__file__]
    assert not hasattr(model, "learning_rte")


def test_a_missing_verbosity_is_not_warned_of() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sbformat.sb3.load(sb3.PPO, with_keys(verbose=...), device="cpu").verbose == 0


def test_the_arguments_have_the_order_of_sb3() -> None:
    env = sb3.common.env_util.make_vec_env("CartPole-v1", 2)
    model = sbformat.sb3.load(sb3.PPO, PPO, env, "cpu", {"gamma": 0.5}, False, False)
    assert (model.n_envs, model.gamma, model.get_env()) == (2, 0.5, env)


def test_the_layout_of_an_older_release_is_converted_with_a_warning(tmp_path: Path) -> None:
    env = FakeImageEnv(screen_height=40, screen_width=40, n_channels=2, discrete=False)
    model = sb3.A2C("CnnPolicy", env, policy_kwargs={"net_arch": [8]}, device="cpu")
    del model.policy.pi_features_extractor
    model.save(tmp_path / "a2c.zip")
    with pytest.warns(UserWarning, match="SB3 < 1.7") as caught:
        loaded = sbformat.sb3.load(sb3.A2C, tmp_path / "a2c.zip", device="cpu")
    assert [warning.filename for warning in caught] == [__file__]
    observation = env.observation_space.sample()
    for one, other in zip(loaded.policy.features_extractor.parameters(), model.policy.features_extractor.parameters()):
        assert one.equal(other)
    assert loaded.predict(observation, deterministic=True)[0].shape == env.action_space.shape

    q = sb3.DQN("MlpPolicy", "CartPole-v1", buffer_size=8, device="cpu")
    q.policy.optimizer = torch.optim.Adam(q.policy.parameters(), lr=0.001)
    q.save(tmp_path / "dqn.zip")
    with pytest.warns(UserWarning, match="SB3 < 2.4"):
        sbformat.sb3.load(sb3.DQN, tmp_path / "dqn.zip", device="cpu")
    of_its_release = sbformat.read(tmp_path / "dqn.zip").replace(stable_baselines3_version="2.3.2")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole = sbformat.sb3.load(sb3.DQN, of_its_release, device="cpu")
    size = len(whole.policy.optimizer.state_dict()["param_groups"][0]["params"])
    assert size == len(list(whole.policy.q_net.parameters()))


def test_an_agent_of_her_is_loaded_without_an_environment(tmp_path: Path) -> None:
    env = sb3.common.envs.BitFlippingEnv(n_bits=4, continuous=True)
    arguments = {"n_sampled_goal": 2, "handle_timeout_termination": False}
    model = sb3.SAC(
        "MultiInputPolicy", env, replay_buffer_class=sb3.HerReplayBuffer, replay_buffer_kwargs=arguments,
        learning_starts=10, buffer_size=64, device="cpu",
    )  # fmt: skip
    model.save(tmp_path / "her.zip")
    with pytest.warns(UserWarning, match="without HerReplayBuffer, which needs an environment: pass env"):
        loaded = sbformat.sb3.load(sb3.SAC, tmp_path / "her.zip", device="cpu")
    observation, _ = env.reset()
    np.testing.assert_array_equal(
        loaded.predict(observation, deterministic=True)[0], model.predict(observation, deterministic=True)[0]
    )
    assert loaded.replay_buffer.handle_timeout_termination is False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole = sbformat.sb3.load(sb3.SAC, tmp_path / "her.zip", env=env, device="cpu")
    assert type(whole.replay_buffer) is sb3.HerReplayBuffer
    assert whole.learn(32).num_timesteps == 32


def test_functions_of_users_stay_functions_and_are_not_run(tmp_path: Path) -> None:
    """A constant is SB3's own, as is a line; any other pure function has its values."""
    schedules = {"learning_rate": lambda p: 0.25 * p**2, "clip_range": lambda p: 0.5 if p > 0.5 else 0.125}
    sb3.PPO("MlpPolicy", "CartPole-v1", device="cpu", clip_range_vf=lambda p: p, **schedules).save(tmp_path / "a.zip")
    sb3.PPO("MlpPolicy", "CartPole-v1", device="cpu", learning_rate=lambda _: 0.001).save(tmp_path / "b.zip")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = sbformat.sb3.load(sb3.PPO, tmp_path / "a.zip", device="cpu")
        constant = sbformat.sb3.load(sb3.PPO, tmp_path / "b.zip", device="cpu")
    assert type(model.learning_rate) is sbformat.sb3.EvaluatedSchedule
    assert "during training" in repr(model.learning_rate)
    for progress in (1.0, 0.75, 0.5, 0.25, 0.0):
        assert model.learning_rate(progress) == schedules["learning_rate"](progress)
        assert model.lr_schedule(progress) == schedules["learning_rate"](progress)
        assert model.clip_range(progress) == schedules["clip_range"](progress)
        assert model.clip_range_vf(progress) == progress
    assert type(constant.learning_rate) is sb3.common.utils.ConstantSchedule
    assert constant.learning_rate(0.0) == 0.001
    env = sb3.common.env_util.make_vec_env("CartPole-v1", 1)
    model = sbformat.sb3.load(sb3.PPO, tmp_path / "a.zip", env, "cpu", n_steps=8, batch_size=8)
    assert model.learn(16).num_timesteps == 16
    model.save(tmp_path / "again.zip")
    again = sb3.PPO.load(tmp_path / "again.zip", device="cpu")
    assert again.learning_rate(0.5) == pytest.approx(0.0625)
    given = {"learning_rate": 0.5, "clip_range": 0.25}
    model = sbformat.sb3.load(sb3.PPO, tmp_path / "a.zip", device="cpu", custom_objects=given)
    assert (model.learning_rate, model.clip_range(0.0)) == (0.5, 0.25)
    assert sbformat.sb3.load(sb3.PPO, tmp_path / "b.zip", device="cpu", learning_rate=0.5).learning_rate == 0.5


def test_a_function_that_is_not_a_rate_is_not_kept(tmp_path: Path) -> None:
    """It begins below 0, which torch refuses, or is not a number somewhere."""
    for function in (lambda p: p**2 - 3, lambda _: -1.0, lambda p: 1.0 / (p * p - 0.25)):
        model = sb3.PPO("MlpPolicy", "CartPole-v1", device="cpu")
        model.learning_rate = function
        model.save(tmp_path / "a.zip")
        with pytest.warns(UserWarning, match="not as it was saved: learning_rate"):
            loaded = sbformat.sb3.load(sb3.PPO, tmp_path / "a.zip", device="cpu")
        assert loaded.learning_rate == 3e-4


def test_the_archive_can_determine_the_algorithm() -> None:
    assert type(sbformat.sb3.load(None, OLD, device="cpu")) is sb3.PPO
    assert type(sbformat.sb3.load(None, SAC, device="cpu")) is sb3.SAC


def test_an_agent_of_sb2_becomes_one_of_sb3() -> None:
    path = ROOT / "tests" / "nets" / "archives" / "sb2" / "a2c-leaky-bits.zip"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = sbformat.sb3.load(None, path, device="cpu", custom_objects={"gamma": 0.5, "dummy": 1})
    assert (type(model), model.gamma, hasattr(model, "dummy")) == (sb3.A2C, 0.5, False)
    observations = np.stack([model.observation_space.sample() for _ in range(20)])
    ours = sbformat.load_policy(path).predict(observations, deterministic=True)[0]
    np.testing.assert_array_equal(model.predict(observations, deterministic=True)[0], ours)
    with pytest.raises(UnsupportedError, match="becomes one of A2C, not of 'PPO'"):
        sbformat.sb3.load(sb3.PPO, path)


def test_a_class_outside_sb3_is_imported_only_when_it_is_allowed() -> None:
    archive = with_keys(policy_class=reference(Mine.__module__, "Mine"))
    with pytest.warns(
        UserWarning, match=r"policy_class: .*Mine -> .*ActorCriticPolicy .*allow=\['[^']*Mine'\] keeps it"
    ):
        model = sbformat.sb3.load(sb3.PPO, archive, device="cpu")
    assert type(model.policy) is ActorCriticPolicy
    model = sbformat.sb3.load(sb3.PPO, archive, allow=[f"{Mine.__module__}.Mine"], device="cpu")
    assert type(model.policy) is Mine
    with pytest.raises(UnsupportedError, match="it cannot be allowed"):
        sbformat.sb3.load(sb3.PPO, archive, allow=["os.system"])
    inner = with_keys(policy_kwargs=blob({"net_arch": [8, 8], "activation_fn": Global("mine", "Swish")}))
    with pytest.warns(UserWarning, match="policy_kwargs/activation_fn: mine.Swish -> the policy's default"):
        sbformat.sb3.load(sb3.PPO, inner, custom_objects={"policy_class": Mine}, device="cpu")


def test_an_agent_of_another_algorithm_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="an agent of SAC, not of PPO"):
        sbformat.sb3.load(sb3.PPO, SAC)
    ddpg = with_keys("sac", policy_delay=1, target_noise_clip=0.0, target_policy_noise=0.1, target_entropy=...)
    for algorithm in (sb3.A2C, sb3.PPO, sb3.SAC, sb3.DQN):
        with pytest.raises(UnsupportedError, match=f"an agent of DDPG, not of {algorithm.__name__}"):
            sbformat.sb3.load(algorithm, ddpg)


def test_an_algorithm_can_be_given_by_its_name() -> None:
    assert type(sbformat.sb3.load("PPO", OLD, device="cpu")) is sb3.PPO
    with pytest.raises(UnsupportedError, match="an agent of SAC, not of TQC"):
        sbformat.sb3.load("TQC", SAC)
    with pytest.raises(UnsupportedError, match="'Nonsense' is not an algorithm of SB3; available: PPO, .*ARS"):
        sbformat.sb3.load("Nonsense", OLD)
    with pytest.raises(TypeError, match="algorithm: expected a class or its name, got int"):
        sbformat.sb3.load(3, OLD)  # type: ignore[call-overload]


def test_what_is_for_load_goes_to_load() -> None:
    environment: Any = sb3.common.env_util.make_vec_env("CartPole-v1", 2)
    model = sbformat.sb3.load(sb3.PPO, PPO, env=environment, device="cpu", n_steps=8, batch_size=8)
    assert (model.n_envs, model.n_steps) == (2, 8)
    assert model.learn(16).num_timesteps >= 16


def test_the_folder_of_a_run_is_loaded_by_its_agent(tmp_path: Path) -> None:
    from stable_baselines3.common.env_util import make_vec_env

    from tests.helpers.run_folders import make_folder, make_zoo

    zoo = make_zoo(tmp_path / "zoo")
    with pytest.warns(UserWarning, match=r"'best_model.zip', its statistics .*sbformat.sb3.load_vecnormalize\("):
        model = sbformat.sb3.load(None, zoo)
    assert type(model) is sb3.SAC
    statistics = zoo / "Pendulum-v1" / "vecnormalize.pkl"
    env = sbformat.sb3.load_vecnormalize(statistics, make_vec_env("Pendulum-v1"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sbformat.sb3.load("SAC", zoo, env=env)
    assert not [warning for warning in caught if "load_vecnormalize" in str(warning.message)]
    make_folder(tmp_path / "two", {"a.zip": PPO.read_bytes(), "b.zip": PPO.read_bytes()})
    with pytest.raises(UnsupportedError, match="the folder has 2 agents"):
        sbformat.sb3.load(sb3.PPO, tmp_path / "two")


class MyBox(gym.spaces.Box):  # type: ignore[misc]
    """A space of a user."""


class Cosine:
    """A schedule of a user, as an object."""

    def __init__(self, start: float, end: float) -> None:
        self.start, self.end = start, end

    def __call__(self, progress: float) -> float:
        return self.end + (self.start - self.end) * progress**2


class Steps(gym.Env):  # type: ignore[misc]
    """An environment whose observations are a user's space."""

    def __init__(self) -> None:
        self.observation_space = MyBox(-1, 1, (3,), np.float32)
        self.action_space = gym.spaces.Discrete(2)

    def reset(self, **_: Any) -> Any:
        return self.observation_space.sample(), {}

    def step(self, _: Any) -> Any:
        return self.observation_space.sample(), 1.0, False, False, {}


def test_spaces_and_schedules_of_users_are_kept_when_they_are_allowed(tmp_path: Path) -> None:
    names = [f"{kind.__module__}.{kind.__name__}" for kind in (MyBox, Cosine)]
    path, out = tmp_path / "agent.zip", tmp_path / "out.zip"
    trained = sb3.PPO(
        "MlpPolicy", Steps(), learning_rate=Cosine(1e-3, 1e-5), clip_range=Cosine(0.2, 0.1), n_steps=8, batch_size=8,
        device="cpu",
    )  # fmt: skip
    trained.learn(64)
    trained.save(path)
    for model in (
        sbformat.sb3.load(sb3.PPO, path, allow=names, env=Steps(), device="cpu"),
        load_rebuilt(path, out, allow=names),
        load_rebuilt(path, out, allow=names[1:], treat_as={names[0]: "gymnasium.spaces.Box"}),
    ):
        assert model.lr_schedule(0.5) == trained.lr_schedule(0.5)
        assert model.clip_range(0.5) == trained.clip_range(0.5)
        assert model.observation_space == trained.observation_space
        observation = np.full(3, 0.5, np.float32)
        assert model.predict(observation, deterministic=True) == trained.predict(observation, deterministic=True)
        model.learn(64)
    assert type(model.observation_space) is gym.spaces.Box
    with pytest.raises(UnsupportedError, match=r"custom_objects=\{'observation_space': SPACE\} sets a space"):
        sbformat.sb3.load(sb3.PPO, path)


def load_rebuilt(path: Path, out: Path, **options: Any) -> Any:
    made, report = sbformat.rebuild(path, **options)
    assert report.findings == ()
    sbformat.write(made, out, overwrite=True)
    return sb3.PPO.load(out, env=Steps(), device="cpu")


OWN_CLASSES = """
import torch
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

class MyExtractor(BaseFeaturesExtractor):
    def __init__(self, observation_space, features_dim):
        super().__init__(observation_space, features_dim)
        self.net = torch.nn.Linear(observation_space.shape[0], features_dim)

    def forward(self, observations):
        return torch.tanh(self.net(observations))

class MyActivation(torch.nn.Module):
    def forward(self, features):
        return torch.sin(features)

class MyAdam(torch.optim.Adam):
    def step(self, closure=None):
        return super().step(closure)

class MyPolicy(ActorCriticPolicy):
    def forward(self, observations, deterministic=False):
        return super().forward(observations, deterministic)

class Cosine:
    def __init__(self, start):
        self.start = start

    def __call__(self, progress):
        return self.start * progress ** 2
"""
"""Classes of a program: cloudpickle carries those of ``__main__`` by value."""
LOAD_MAPPED = """
import sys
import gymnasium
import numpy as np
import stable_baselines3 as sb3

model = sb3.PPO.load(sys.argv[1], env=gymnasium.make("CartPole-v1"), device="cpu")
observations = np.load("observations.npy")
tensor = model.policy.obs_to_tensor(observations)[0]
np.save("logits.npy", model.policy.get_distribution(tensor).distribution.logits.detach().numpy())
assert model.policy.features_extractor_class.__module__ == "mymodule", model.policy.features_extractor_class
model.learn(64)
"""


def test_classes_carried_by_value_are_mapped_to_a_module(tmp_path: Path) -> None:
    """A program with the module on its path loads the result, which has no code, and trains it on."""
    own: dict[str, Any] = {"__name__": "__main__"}
    exec(OWN_CLASSES, own)  # noqa: S102 -- as if this were the program
    arguments = {
        "features_extractor_class": own["MyExtractor"], "features_extractor_kwargs": {"features_dim": 6},
        "activation_fn": own["MyActivation"], "optimizer_class": own["MyAdam"],
    }  # fmt: skip
    trained = sb3.PPO(
        own["MyPolicy"], "CartPole-v1", learning_rate=own["Cosine"](1e-3), n_steps=32, batch_size=16, device="cpu",
        policy_kwargs=arguments,
    )  # fmt: skip
    trained.learn(64)
    trained.save(tmp_path / "agent.zip")
    names = [f"__main__.{name}" for name in ("MyExtractor", "MyActivation", "MyAdam", "MyPolicy", "Cosine")]
    with pytest.raises(UnsupportedError, match="--map __main__.MyPolicy=MODULE.MyPolicy"):
        sbformat.rebuild(tmp_path / "agent.zip")
    mapped = {name: name.replace("__main__", "mymodule") for name in names}
    made, report = sbformat.rebuild(tmp_path / "agent.zip", map_names=mapped)
    assert report.findings == ()
    assert {required.name for required in report.requires} == set(mapped.values())
    assert not [finding for finding in sbformat.scan(sbformat.writes(made)).findings if "carried" in finding.rule]
    sbformat.write(made, tmp_path / "new.zip")
    (tmp_path / "mymodule.py").write_text(OWN_CLASSES)
    (tmp_path / "load.py").write_text(LOAD_MAPPED)
    observations = np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4)
    np.save(tmp_path / "observations.npy", observations)
    subprocess.run([sys.executable, "load.py", "new.zip"], cwd=tmp_path, check=True)
    tensor = trained.policy.obs_to_tensor(observations)[0]
    logits = trained.policy.get_distribution(tensor).distribution.logits.detach().numpy()
    np.testing.assert_array_equal(np.load(tmp_path / "logits.npy"), logits)
