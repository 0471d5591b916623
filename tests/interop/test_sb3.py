"""Real Stable-Baselines3 and sb3-contrib train and save, sbformat reads: every algorithm, bit for bit."""

# ruff: noqa: E402 -- importorskip stands before what needs it
from __future__ import annotations

import io
import json
import os
import zipfile
from copy import deepcopy
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import pytest

torch = pytest.importorskip("torch")
sb3 = pytest.importorskip("stable_baselines3")
contrib = pytest.importorskip("sb3_contrib")

import gymnasium
import numpy as np
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike
from stable_baselines3.common.utils import get_system_info

import sbformat
from sbformat import Serialized
from sbformat.immutable import thaw
from sbformat.pth import StateDict
from tests.interop.torch_values import assert_same

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # gymnasium's and torch's own
]

NETS: Final = {"net_arch": [8, 8]}


class Small(gymnasium.Env[Any, Any]):
    """Three steps, random observations; spaces as asked for."""

    def __init__(self, observation: gymnasium.Space[Any], action: gymnasium.Space[Any]) -> None:
        self.observation_space = observation
        self.action_space = action
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self.steps = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return self.observation_space.sample(), 1.0, self.steps == 3, False, {}

    def action_masks(self) -> np.ndarray:
        return np.ones(2, bool)

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return -np.abs(achieved - desired).sum(-1)


BOX: Final = gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)
IMAGE: Final = gymnasium.spaces.Box(0, 255, (3, 36, 36), np.uint8)
TWO: Final = gymnasium.spaces.Discrete(2)
CONTINUOUS: Final = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
GOALS: Final = gymnasium.spaces.Dict({"observation": BOX, "achieved_goal": BOX, "desired_goal": BOX})
SEVERAL: Final = gymnasium.spaces.Dict({"vector": BOX, "image": IMAGE})

ON: Final = {"n_steps": 8, "policy_kwargs": NETS}
OFF: Final = {"learning_starts": 4, "buffer_size": 50, "batch_size": 4, "policy_kwargs": NETS}


def on_policy(cls: Any, policy: str, observation: Any, action: Any, **options: Any) -> Callable[[], Any]:
    return lambda: cls(policy, Small(observation, action), seed=1, **deepcopy(options))  # it changes policy_kwargs


def with_goals(cls: Any, action: Any) -> Callable[[], Any]:
    return lambda: cls(
        "MultiInputPolicy",
        Small(GOALS, action),
        seed=1,
        replay_buffer_class=sb3.HerReplayBuffer,
        replay_buffer_kwargs={"n_sampled_goal": 2},
        **deepcopy(OFF),
    )


def noisy(cls: Any) -> Callable[[], Any]:
    noise = NormalActionNoise(np.zeros(2), np.full(2, 0.1))
    return lambda: cls("MlpPolicy", Small(BOX, CONTINUOUS), seed=1, action_noise=noise, **deepcopy(OFF))


MODELS: Final[dict[str, tuple[str, Callable[[], Any]]]] = {
    "PPO": ("PPO", on_policy(sb3.PPO, "MlpPolicy", BOX, TWO, batch_size=4, **ON)),
    "PPO continuous": ("PPO", on_policy(sb3.PPO, "MlpPolicy", BOX, CONTINUOUS, batch_size=4, use_sde=True, **ON)),
    "PPO images": ("PPO", on_policy(sb3.PPO, "CnnPolicy", IMAGE, TWO, batch_size=4, n_steps=8)),
    "PPO dict": ("PPO", on_policy(sb3.PPO, "MultiInputPolicy", SEVERAL, TWO, batch_size=4, n_steps=8)),
    "PPO schedules": (
        "PPO",
        on_policy(
            sb3.PPO, "MlpPolicy", BOX, TWO, batch_size=4, learning_rate=lambda left: 1e-3 * left, clip_range=0.1, **ON
        ),
    ),
    "A2C": ("A2C", on_policy(sb3.A2C, "MlpPolicy", BOX, TWO, **ON)),
    "A2C RMSprop of TensorFlow": (
        "A2C",
        on_policy(
            sb3.A2C, "MlpPolicy", BOX, TWO, n_steps=8,
            policy_kwargs={**NETS, "optimizer_class": RMSpropTFLike},
        ),
    ),
    "DQN": ("DQN", on_policy(sb3.DQN, "MlpPolicy", BOX, TWO, **OFF)),
    "SAC": ("SAC", on_policy(sb3.SAC, "MlpPolicy", BOX, CONTINUOUS, **OFF)),
    "SAC fixed": ("SAC", on_policy(sb3.SAC, "MlpPolicy", BOX, CONTINUOUS, ent_coef=0.1, **OFF)),
    "TD3": ("TD3", noisy(sb3.TD3)),
    "DDPG": ("DDPG", noisy(sb3.DDPG)),
    "HER with DQN": ("DQN", with_goals(sb3.DQN, TWO)),
    "HER with SAC": ("SAC", with_goals(sb3.SAC, CONTINUOUS)),
    "TQC": ("TQC", on_policy(contrib.TQC, "MlpPolicy", BOX, CONTINUOUS, **OFF)),
    "QRDQN": ("QRDQN", on_policy(contrib.QRDQN, "MlpPolicy", BOX, TWO, **OFF)),
    "CrossQ": ("CrossQ", on_policy(contrib.CrossQ, "MlpPolicy", BOX, CONTINUOUS, **OFF)),
    "TRPO": ("TRPO", on_policy(contrib.TRPO, "MlpPolicy", BOX, TWO, batch_size=4, **ON)),
    "MaskablePPO": ("MaskablePPO", on_policy(contrib.MaskablePPO, "MlpPolicy", BOX, TWO, batch_size=4, **ON)),
    "RecurrentPPO": (
        "RecurrentPPO",
        on_policy(
            contrib.RecurrentPPO, "MlpLstmPolicy", BOX, TWO, n_steps=8, batch_size=4,
            policy_kwargs={**NETS, "lstm_hidden_size": 4},
        ),
    ),
    "ARS": ("ARS", on_policy(contrib.ARS, "MlpPolicy", BOX, CONTINUOUS, n_delta=2, policy_kwargs=NETS)),
    "ARS linear": ("ARS", on_policy(contrib.ARS, "LinearPolicy", BOX, CONTINUOUS, n_delta=2)),
}  # fmt: skip


@pytest.fixture(scope="module", params=MODELS)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Any, str]:
    """The name of the algorithm, a model after a few steps, and the archive it saved."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    algorithm, make = MODELS[request.param]
    model = make()
    model.learn(16)
    path = str(tmp_path_factory.mktemp("models") / "model.zip")
    model.save(path)
    return algorithm, model, path


def test_the_parameters_are_the_models(trained: tuple[str, Any, str]) -> None:
    _, model, path = trained
    archive = sbformat.read(path)
    real = model.get_parameters()
    assert set(archive.parameters) == set(real)
    for name, state in real.items():
        assert_same(state, archive.parameters[name])
    read = sbformat.read_parameters(path)
    assert list(read) == list(archive.parameters)
    for name, state in real.items():
        assert_equal_arrays(state, read[name])


def assert_equal_arrays(real: Any, read: Any) -> None:
    if isinstance(real, torch.Tensor):
        assert read.tobytes() == real.detach().contiguous().numpy().tobytes()
    elif isinstance(real, dict):
        assert list(real) == list(read)
        for key, value in real.items():
            assert_equal_arrays(value, read[key])


def test_the_variables_are_the_models(trained: tuple[str, Any, str]) -> None:
    _, model, path = trained
    variables = sbformat.read(path).pytorch_variables
    assert isinstance(variables, StateDict)
    names = model._get_torch_save_params()[1]
    assert_same({name: getattr(model, name) for name in names}, variables)


def test_shared_parameters_stay_shared(trained: tuple[str, Any, str]) -> None:
    _, model, path = trained
    policy = sbformat.read(path).parameters["policy"]
    real = model.policy.state_dict()
    pointers = {name: tensor.untyped_storage().data_ptr() for name, tensor in real.items()}
    storages = {name: id(info.storage) for name, info in policy.tensors().items()}
    assert len(set(pointers.values())) == len(set(storages.values()))
    arrays = policy.to_numpy()
    names = list(real)
    for first, second in pairwise(names):
        assert np.shares_memory(arrays[first], arrays[second]) == (
            pointers[first] == pointers[second] and overlap(real[first], real[second])
        )


def overlap(first: torch.Tensor, second: torch.Tensor) -> bool:
    spans = [(t.data_ptr(), t.data_ptr() + t.numel() * t.element_size()) for t in (first, second)]
    return spans[0][0] < spans[1][1] and spans[1][0] < spans[0][1]


def test_the_algorithm_is_told(trained: tuple[str, Any, str]) -> None:
    algorithm, model, path = trained
    found = sbformat.read(path).algorithm
    assert found.name == algorithm == type(model).__name__
    if isinstance(getattr(model, "replay_buffer", None), sb3.HerReplayBuffer):
        assert any("HerReplayBuffer" in line for line in found.evidence)


def test_the_data_is_the_models(trained: tuple[str, Any, str]) -> None:
    """Every value that SB3 wrote as JSON, and every marker beside a pickle."""
    _, model, path = trained
    with zipfile.ZipFile(path) as opened:
        text = opened.read("data").decode()
    read = thaw(sbformat.read(path).data)
    real = json.loads(text)
    assert list(read) == list(real)
    for key, value in real.items():
        if isinstance(value, dict) and ":serialized:" in value:
            assert isinstance(read[key], Serialized)
            assert read[key].type == value[":type:"]
        else:
            assert (type(read[key]), read[key]) == (type(value), value)
            assert value == json.loads(json.dumps(getattr(model, key)))
    assert isinstance(read["policy_class"], Serialized)
    assert read["num_timesteps"] == model.num_timesteps


def test_version_and_system_info(trained: tuple[str, Any, str]) -> None:
    _, _, path = trained
    archive = sbformat.read(path)
    assert archive.stable_baselines3_version == sb3.__version__
    fields, text = get_system_info(print_info=False)
    assert archive.system_info is not None
    assert archive.system_info.fields == {key: str(value) for key, value in fields.items()}
    assert archive.system_info.fields["PyTorch"] == torch.__version__
    assert text.strip()
    assert archive.format == "sb3"
    assert archive.extra == {}


def test_the_entries_are_those_of_the_zip(trained: tuple[str, Any, str]) -> None:
    _, _, path = trained
    with zipfile.ZipFile(path) as opened:
        assert list(sbformat.read(path).entries) == opened.namelist()


def test_each_way_to_hand_an_archive_over_gives_the_same(trained: tuple[str, Any, str], tmp_path: Any) -> None:
    """By path, with and without suffix, as bytes, as a file; saved to a stream that was not rewound; unzipped."""
    _, model, path = trained
    archive = sbformat.read(path)
    with open(path, "rb") as file:
        raw = file.read()
        file.seek(100)
        assert sbformat.read(file) == archive
    assert sbformat.read(path.removesuffix(".zip")) == archive
    assert sbformat.reads(raw) == archive
    stream = io.BytesIO()
    model.save(stream)
    assert stream.tell() > 0
    again = sbformat.read(stream)
    assert list(again.entries) == list(archive.entries)
    for name in archive.parameters:
        assert again.parameters[name] == archive.parameters[name]
    with zipfile.ZipFile(path) as opened:
        opened.extractall(tmp_path)
    folder = sbformat.read(tmp_path)
    assert folder.format == "folder"
    for name in archive.parameters:
        assert folder.parameters[name] == archive.parameters[name]
    assert list(folder.data) == list(archive.data)


def test_safe_open_gives_each_tensor(trained: tuple[str, Any, str]) -> None:
    _, model, path = trained
    real = model.policy.state_dict()
    with sbformat.safe_open(path) as opened:
        assert opened.keys() == list(real)
        for name, tensor in real.items():
            assert opened.get_tensor(name).tobytes() == tensor.contiguous().numpy().tobytes()
            assert opened.get_slice(name).get_shape() == list(tensor.shape)


def test_an_archive_that_was_loaded_and_saved_again_is_equal_but_for_what_loading_sets(
    trained: tuple[str, Any, str], tmp_path: Any
) -> None:
    _, model, path = trained
    loaded = type(model).load(path, env=model.get_env())
    loaded.save(tmp_path / "again.zip")
    first, second = sbformat.read(path), sbformat.read(tmp_path / "again.zip")
    for name in first.parameters:
        assert first.parameters[name] == second.parameters[name], name


def test_what_policy_save_writes_is_read(tmp_path: Any) -> None:
    """``policy.save`` writes classes and spaces by name: the weights are read, and nothing is imported."""
    model = MODELS["PPO"][1]()
    path = os.path.join(tmp_path, "policy.pth")
    model.policy.save(path)
    assert_equal_arrays(model.policy.state_dict(), sbformat.read(path).parameters["policy"])
    assert sbformat.scan(path).verdict == "clean"


def test_an_archive_written_into_a_pipe_is_read() -> None:
    """A stream that cannot seek makes zipfile write descriptors behind every member."""

    class Unseekable(io.RawIOBase):
        def __init__(self) -> None:
            self.written = bytearray()

        def writable(self) -> bool:
            return True

        def write(self, data: Any) -> int:
            self.written += bytes(data)
            return len(data)

    model = MODELS["PPO"][1]()
    pipe = Unseekable()
    model.save(io.BufferedWriter(pipe))
    archive = sbformat.reads(bytes(pipe.written)) if pipe.written else None
    if archive is None:
        pytest.skip("this SB3 does not flush what it did not open")
    assert_same(model.policy.state_dict(), archive.parameters["policy"])
