"""Agents of real Stable-Baselines3 for every algorithm, policy, space and option, with weights that all matter.

A ``Setup`` names one agent. ``build_agent`` makes it, moves every parameter and buffer away from its initial value,
saves it, and loads it again as SB3 does: what it predicts then is the truth that ``policy_oracle`` compares with.
"""

from __future__ import annotations

import io
import warnings
from typing import Any, Final, NamedTuple

import numpy as np
import sb3_contrib as contrib
import stable_baselines3 as sb3
import torch
from gymnasium import spaces
from stable_baselines3 import HerReplayBuffer
from stable_baselines3.common.vec_env import VecNormalize

from tests.interop.rebuild_envs import environment

BATCH_RENORM: Final = ("ra_mean", "ra_var", "steps")
WITH_BUFFER: Final = frozenset({"DQN", "QRDQN", "SAC", "TD3", "DDPG", "TQC", "CrossQ"})


class Setup(NamedTuple):
    """An agent to make.

    :param label: what differs from the other setups of the algorithm
    :param policy: ``MlpPolicy`` and so on
    :param kwargs: ``policy_kwargs``
    :param options: other arguments of the algorithm
    """

    label: str
    algorithm: str
    policy: str
    observation: Any
    action: Any
    kwargs: dict[str, Any] = {}
    options: dict[str, Any] = {}

    @property
    def id(self) -> str:
        return f"{self.algorithm}-{self.policy.removesuffix('Policy')}-{self.label}"

    @property
    def has_goals(self) -> bool:
        return self.options.get("replay_buffer_class") is HerReplayBuffer


class Agent(NamedTuple):
    """An agent as SB3 loaded it, and the file that it was loaded from."""

    model: Any
    raw: bytes


FINITE: Final = spaces.Box(-1, 1, (2,))
"""What an agent with infinite bounds is made with: SB3 refuses those with an environment, and loads them without."""


def is_unbounded(space: Any) -> bool:
    return isinstance(space, spaces.Box) and not np.isfinite([space.low, space.high]).all()


def algorithm_class(name: str) -> Any:
    return getattr(sb3, name, None) or getattr(contrib, name)


def build_agent(setup: Setup) -> Agent:
    """Make, perturb, save and load an agent.

    :raises Exception: whatever SB3 raises where it cannot make such an agent
    """
    torch.set_num_threads(1)
    torch.manual_seed(1)
    algorithm = algorithm_class(setup.algorithm)
    env = environment(setup.observation, FINITE if is_unbounded(setup.action) else setup.action)
    options = {"device": "cpu", **setup.options}
    if setup.algorithm in WITH_BUFFER:
        options.setdefault("buffer_size", 16)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = algorithm(setup.policy, env, policy_kwargs=dict(setup.kwargs), **options)
        perturb_weights(model.policy, seed=sum(setup.id.encode()))
        if hasattr(model, "exploration_rate"):
            model.exploration_rate = 0.3
        model.action_space = setup.action
        held = io.BytesIO()
        model.save(held)
        raw = held.getvalue()
        return Agent(algorithm.load(io.BytesIO(raw), env if setup.has_goals else None, device="cpu"), raw)


def perturb_weights(policy: Any, seed: int) -> None:
    """Add noise to each parameter and buffer, in proportion to what the layer takes in.

    Networks that get bytes as they are have small weights: sums of large terms are no longer equal within 1e-5.
    """
    random = np.random.default_rng(seed)
    with torch.no_grad():
        for name, parameter in policy.named_parameters():
            noise = torch.as_tensor(random.normal(size=tuple(parameter.shape)), dtype=parameter.dtype)
            if name.endswith("log_std"):
                parameter.copy_(0.4 * noise - 1.0)
            elif parameter.dim() > 1:
                parameter.add_(0.8 * noise / np.sqrt(parameter[0].numel()))
            else:
                parameter.add_(0.3 * noise)
            if name.endswith("cnn.0.weight") and not policy.normalize_images:
                parameter.div_(255)
        for name, buffer in policy.named_buffers():
            noise = random.normal(size=tuple(buffer.shape))
            changed = {"ra_mean": 0.4 * noise, "ra_var": 0.3 + noise**2, "steps": 7 + 0 * noise}[name.split(".")[-1]]
            buffer.copy_(torch.as_tensor(changed).to(buffer.dtype))


def build_normalizer(setup: Setup, options: dict[str, Any]) -> Any:
    """Make a ``VecNormalize`` for an agent, with statistics that change observations."""
    normalizer = VecNormalize(environment(setup.observation, setup.action), training=False, **options)
    random = np.random.default_rng(7)
    found = getattr(normalizer, "obs_rms", None) or {}
    for statistics in found.values() if isinstance(found, dict) else [found]:
        statistics.mean = statistics.mean + random.normal(0, 0.5, statistics.mean.shape)
        statistics.var = statistics.var * random.uniform(0.1, 3, statistics.var.shape)
    return normalizer


# -- observations -------------------------------------------------------------------------------------

REACH: Final = 1e4
"""Bounds beyond this count as none: observations of a network are not uniform up to 3e38."""


def draw_observation(space: Any, random: np.random.Generator) -> Any:
    """An observation that SB3 takes: its one-hot encoding takes 0 to n - 1, whatever ``start`` is."""
    if isinstance(space, spaces.Dict):
        return {key: draw_observation(part, random) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Discrete):
        return np.int64(random.integers(space.n))
    if isinstance(space, spaces.MultiDiscrete):
        return random.integers(0, space.nvec).astype(space.dtype)
    if isinstance(space, spaces.MultiBinary):
        return random.integers(0, 2, space.shape).astype(space.dtype)
    low, high = (np.clip(bound.astype(np.float64), -REACH, REACH) for bound in (space.low, space.high))
    if space.dtype.kind in "iu":
        return random.integers(low, high, endpoint=True).astype(space.dtype)
    wide = high - low >= REACH
    uniform = random.uniform(np.where(wide, -1.0, low), np.where(wide, 1.0, high))
    values = np.where(wide, random.normal(0, 2, space.shape), uniform)
    return np.clip(values, space.low, space.high).astype(space.dtype)


def draw_observations(space: Any, count: int, seed: int = 0) -> list[Any]:
    random = np.random.default_rng(seed)
    return [draw_observation(space, random) for _ in range(count)]


def stack_observations(observations: list[Any]) -> Any:
    """A batch of observations, as a vectorized environment gives it."""
    if isinstance(observations[0], dict):
        return {key: np.stack([one[key] for one in observations]) for key in observations[0]}
    return np.stack(observations)


def repeat_observation(observation: Any, count: int) -> Any:
    return stack_observations([observation] * count)


# -- setups -------------------------------------------------------------------------------------------

VECTOR: Final = spaces.Box(-1, 1, (3,))
IMAGE_FIRST: Final = spaces.Box(0, 255, (1, 36, 40), np.uint8)
IMAGE_LAST: Final = spaces.Box(0, 255, (40, 37, 3), np.uint8)
IMAGE_FLOATS: Final = spaces.Box(0, 1, (2, 36, 36), np.float32)
OBSERVATIONS: Final[dict[str, Any]] = {
    "float32": VECTOR,
    "float64": spaces.Box(-2, 3, (2,), np.float64),
    "unbounded": spaces.Box(-np.inf, np.inf, (4,)),
    "integers": spaces.Box(-5, 100, (3,), np.int64),
    "bytes": spaces.Box(0, 20, (4,), np.uint8),
    "small_integers": spaces.Box(-3, 3, (2,), np.int8),
    "matrix": spaces.Box(-1, 1, (2, 3)),
    "volume": spaces.Box(-1, 1, (2, 3, 2)),
    "discrete": spaces.Discrete(5),
    "discrete_start": spaces.Discrete(5, start=2),
    "multi_discrete": spaces.MultiDiscrete([3, 2, 4]),
    "multi_discrete_start": spaces.MultiDiscrete([3, 2, 4], start=[1, 0, 2]),
    "bits": spaces.MultiBinary(4),
    "bits_matrix": spaces.MultiBinary([2, 3]),
    "image_first": spaces.Box(0, 255, (3, 6, 5), np.uint8),
    "image_last": spaces.Box(0, 255, (6, 5, 3), np.uint8),
    "image_middle": spaces.Box(0, 255, (6, 3, 5), np.uint8),
    "not_an_image": spaces.Box(0, 3, (6, 5, 3), np.uint8),
}
DICT: Final = spaces.Dict(
    {
        "z": VECTOR,
        "matrix": spaces.Box(-1, 1, (2, 2), np.float64),
        "image": spaces.Box(0, 255, (36, 40, 1), np.uint8),
        "d": spaces.Discrete(3),
        "b": spaces.MultiBinary([2, 2]),
        "a": spaces.Box(0, 9, (2,), np.int32),
    }
)
FIRST_DICT: Final = spaces.Dict({"v": VECTOR, "image": spaces.Box(0, 255, (3, 36, 40), np.uint8), "c": IMAGE_FIRST})
"""SB3 refuses a Dict with images of both orders."""
MULTI_DISCRETE_DICT: Final = spaces.Dict({"m": spaces.MultiDiscrete([2, 3]), "b": spaces.MultiBinary(3), "v": VECTOR})
FLOAT_IMAGE_DICT: Final = spaces.Dict({"floats": IMAGE_FLOATS, "v": VECTOR})
GOALS: Final = spaces.Dict({"observation": VECTOR, "desired_goal": VECTOR, "achieved_goal": VECTOR})

ASYMMETRIC: Final = spaces.Box(np.array([-1, 0, -0.25], "f4"), np.array([2, 5, 0.5], "f4"))
ACTIONS: Final[dict[str, Any]] = {
    "box": spaces.Box(-1, 1, (2,)),
    "asymmetric": ASYMMETRIC,
    "matrix": spaces.Box(-2, 1, (2, 2)),
    "float64": spaces.Box(-2.0, 0.1, (2,), np.float64),
    "integers": spaces.Box(-3, 4, (2,), np.int64),
    "scalar": spaces.Box(-1, 1, ()),
    "unbounded": spaces.Box(-np.inf, np.inf, (2,)),
    "half": spaces.Box(np.array([-np.inf, 0], "f4"), np.array([0.5, np.inf], "f4")),
    "discrete": spaces.Discrete(4),
    "discrete_start": spaces.Discrete(4, start=3),
    "multi_discrete": spaces.MultiDiscrete([3, 2, 4]),
    "multi_discrete_start": spaces.MultiDiscrete([3, 1], start=[1, 5]),
    "bits": spaces.MultiBinary(3),
}
BOXES: Final = ("box", "asymmetric", "matrix", "float64", "integers", "scalar")
CHOICES: Final = ("discrete", "discrete_start", "multi_discrete", "multi_discrete_start", "bits")
ON_POLICY: Final = ("PPO", "A2C", "TRPO")
ACTIONS_OF: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys((*ON_POLICY, "RecurrentPPO"), (*BOXES, "unbounded", "half", *CHOICES)),
    "MaskablePPO": CHOICES,
    **dict.fromkeys(("DQN", "QRDQN"), ("discrete", "discrete_start")),
    **dict.fromkeys(("SAC", "TD3", "DDPG", "TQC", "CrossQ"), BOXES),
    "ARS": (*BOXES, "unbounded", "discrete", "discrete_start"),
}
ALGORITHMS: Final = tuple(ACTIONS_OF)
FIRST_ACTION: Final = {
    name: ACTIONS["asymmetric" if "asymmetric" in found else found[0]] for name, found in ACTIONS_OF.items()
}
SMALL: Final[dict[str, Any]] = {"net_arch": [7, 6]}
"""Unequal layers, so that a matrix that was not transposed does not fit."""
SMALL_CNN: Final[dict[str, Any]] = {"features_extractor_kwargs": {"features_dim": 6}, "net_arch": [5]}
SMALL_DICT: Final[dict[str, Any]] = {"features_extractor_kwargs": {"cnn_output_dim": 6}, "net_arch": [5]}


def policy_name(algorithm: str, kind: str) -> str:
    return f"{kind}LstmPolicy" if algorithm == "RecurrentPPO" else f"{kind}Policy"


def small_kwargs(algorithm: str, kwargs: dict[str, Any]) -> dict[str, Any]:
    return {**kwargs, "lstm_hidden_size": 8} if algorithm == "RecurrentPPO" else kwargs
