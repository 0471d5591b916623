"""What an original archive says, and what real Stable-Baselines3 should hold of it, told without the rebuilding.

Written from SB3's releases, not from ``sbformat.tools.rebuild``: torch reads the entries, and the maps of names,
columns and options are this page's own.
"""

from __future__ import annotations

import io
import json
import re
import struct
import warnings
from collections import OrderedDict, deque
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import sb3_contrib as contrib
import stable_baselines3 as sb3
import torch

import sbformat
from sbformat.known.types import (
    ConstantSchedule,
    FloatSchedule,
    Function,
    Instance,
    LinearSchedule,
    Reference,
    TrainFreq,
)
from sbformat.pkl.numpy import ArrayInfo
from tests.helpers.sampling import sample
from tests.helpers.shared_files import CORPUS, GENERATED
from tests.interop.rebuild_envs import environment, smaller

if TYPE_CHECKING:
    from sbformat.archive.archive import Archive

# -- which archives, and what is excepted -------------------------------------------------------------

ARCHIVES: Final = [
    *sorted(CORPUS.glob("sb3/*")),
    *(path for path in sorted(GENERATED.glob("*/*.zip")) if re.fullmatch(r"[\d.]+", path.parent.name)),
]

FOREIGN: Final = (
    "sb3/HumanCompatibleAI_imitation__tests__testdata__expert_models__*@6148c831",
    "sb3/HumanCompatibleAI_imitation__tests__testdata__expert_models__*@b35fb55d",
)
"""Policies with a features extractor of another package, which SB3 does not have."""
REPLACED: Final = "sb3/HumanCompatibleAI_imitation__tests__testdata__reward_models__*"
"""One whose class only passes arguments to SB3's own, whose layers are shared."""
CARRIED_EXTRACTORS: Final = ("*-customextractor*.zip",)
"""Features extractors of users, by value."""
REFUSED: Final = {
    "0.6.0/*-CnnPolicy.zip": "third layer has 32 filters",
    **dict.fromkeys(FOREIGN, "--allow imitation.policies.base.NormalizeFeaturesExtractor"),
    **dict.fromkeys(CARRIED_EXTRACTORS, "carried by value.*its weights do not fit.*--policy-class"),
}
"""No target has such a network; with the reason."""
CARRIED: Final[dict[str, frozenset[str]]] = {
    "sb3/lewis841214_stable-baselines3__her_bit_env.zip": frozenset({"replay_buffer_kwargs/goal_selection_strategy"}),
}
"""Values that only the packages of users can make, or that only their own SB3 had."""
CONTRADICTORY: Final = ("sb3/bb515_*__logs__best_model.zip@2b1a71ac",)
"""Their ``lr_schedule`` is another one than their ``learning_rate``, of which every SB3 makes it anew."""
GONE: Final = frozenset(
    {
        "system_info.txt", "tensorboard_log", "tb_writer", "remove_time_limit_termination", "n_episodes_rollout",
        "max_episode_length", "online_sampling", "policy_kwargs/device", "replay_buffer_kwargs/online_sampling",
        "replay_buffer_kwargs/max_episode_length",
    }
)  # fmt: skip
"""What no SB3 of today has a use for, and what is private."""
NULLS: Final = frozenset({"actor"})
"""Keys of DQN before 2.0 that were null, where SB3 has a network."""
PPO_IN_A2C: Final = frozenset({"batch_size", "n_epochs", "clip_range", "clip_range_vf", "target_kl"})
"""What A2C of 0.6 wrote, which was a PPO."""


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def sample_archives(paths: list[Path], one_in: int) -> list[Path]:
    """All archives of others, and of the generated ones one in so many of each release and algorithm."""
    return sample(paths, one_in, name=name_of, group=find_group)


def find_group(path: Path) -> object:
    return (path.parent.name, path.name.partition("-")[0]) if path.is_relative_to(GENERATED) else path


def is_any(name: str, patterns: Any) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def loadable(paths: list[Path]) -> list[Path]:
    """All that SB3 alone can load."""
    return [path for path in paths if not is_any(name_of(path), REFUSED)]


def carried(name: str) -> frozenset[str]:
    """The keys whose values are not rebuilt."""
    return frozenset().union(*(keys for pattern, keys in CARRIED.items() if fnmatch(name, pattern)))


# -- an archive and its model -------------------------------------------------------------------------

_SCALAR: Final = np.float64(0).__reduce__()[0]
_NUMPY: Final = [np.dtype, type(np.dtype("f8")), _SCALAR, (_SCALAR, "numpy.core.multiarray.scalar")]


class Case:
    """An archive as it was, as it was rebuilt, and the agent that SB3 makes of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = name_of(path)
        self.original = sbformat.read(path)
        beside = path.with_suffix(".expected.json")
        self.expected: dict[str, Any] = json.loads(beside.read_text())["data"] if beside.exists() else {}

    @cached_property
    def rebuilt(self) -> tuple[Archive, Any]:
        return sbformat.rebuild(self.original)

    @cached_property
    def raw(self) -> bytes:
        return sbformat.writes(self.rebuilt[0])

    @property
    def report(self) -> Any:
        return self.rebuilt[1]

    @cached_property
    def model(self) -> Any:
        """The agent, as it is loaded to predict; no warning is let through."""
        return self.load(environment(self.observation_space, self.action_space) if self.has_goals else None)

    def load(self, env: Any = None, **options: Any) -> Any:
        if "buffer_size" in self.original.data:
            options.setdefault("buffer_size", 16)  # SB3 allocates all of it when it loads
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return algorithm_class(self.report.algorithm).load(io.BytesIO(self.raw), env, device="cpu", **options)

    def loaded_to_train(self) -> Any:
        """The agent beside as many environments as it had, with so little to do that an update is quick."""
        count = self.original.data.get("n_envs", 1)
        return self.load(environment(self.observation_space, self.action_space, count), **smaller(self.model, count))

    @cached_property
    def goals(self) -> Goals | None:
        """How HER before SB3 1.1 made an observation."""
        if "model_class" not in self.original.data:
            return None
        last = self.original.decode("_last_obs")
        return Goals(last["observation"].shape[1], last["desired_goal"].shape[1], last["observation"].dtype)

    @property
    def has_goals(self) -> bool:
        buffer = self.original.data.get("replay_buffer_class")
        return self.goals is not None or (buffer is not None and b"HerReplayBuffer" in buffer.pickle)

    @cached_property
    def observation_space(self) -> Any:
        space = self.original.decode("observation_space")
        return made_space(space) if self.goals is None else self.goals.space(made_space(space))

    @cached_property
    def action_space(self) -> Any:
        return made_space(self.original.decode("action_space"))

    def stored(self, entry: str) -> Any:
        """What torch reads from an entry of the original."""
        return torch_loads(bytes(self.original.raw(entry)))

    @cached_property
    def weights(self) -> dict[str, torch.Tensor]:
        return self.stored("policy.pth")

    @cached_property
    def origins(self) -> dict[str, str]:
        """The old name of every new one, in today's order."""
        return origins(list(self.weights), self.report.algorithm)


def algorithm_class(name: str) -> Any:
    return getattr(sb3, name, None) or getattr(contrib, name)


def torch_loads(raw: bytes) -> Any:
    with torch.serialization.safe_globals(_NUMPY):
        return torch.load(io.BytesIO(raw), map_location="cpu", weights_only=True)


class Goals(NamedTuple):
    """The columns of an observation of HER before SB3 1.1: the observation, then the desired goal."""

    observation: int
    goal: int
    dtype: str

    def space(self, whole: Any) -> Any:
        from gymnasium import spaces

        def part(start: int, stop: int) -> Any:
            return spaces.Box(whole.low[start:stop], whole.high[start:stop], dtype=np.dtype(self.dtype).type)

        goal = self.observation, self.observation + self.goal
        parts = [("achieved_goal", part(*goal)), ("desired_goal", part(*goal)), ("observation", part(0, goal[0]))]
        return spaces.Dict(OrderedDict(parts))

    def widened(self, name: str, values: np.ndarray) -> np.ndarray:
        """A first layer's matrix for the concatenated Dict: achieved goal (never seen), desired goal, observation."""
        takes_it = re.search(r"\.(latent_pi|qf\d+|mu|q_net)\.0\.weight$", name)
        if not takes_it or values.ndim != 2:
            return values
        observation, goal, rest = np.split(values, [self.observation, self.observation + self.goal], axis=1)
        return np.concatenate([np.zeros_like(goal), goal, observation, rest], axis=1)


# -- names --------------------------------------------------------------------------------------------


def origins(names: list[str], algorithm: str) -> dict[str, str]:
    """Old names of a policy's tensors by today's names, in today's order."""
    if algorithm in {"SAC", "TD3", "DDPG", "TQC"}:
        return {re.sub(r"\.q([12])_net\.", lambda found: f".qf{int(found[1]) - 1}.", name): name for name in names}
    if algorithm == "ARS":
        return {re.sub(r"^action_net\.weight$", "action_net.0.weight", name): name for name in names}
    if algorithm in {"DQN", "QRDQN", "CrossQ"}:
        return {name: name for name in names}
    own = {"policy_net", "value_net"} & {name.split(".")[1] for name in names if name.startswith("mlp_extractor.")}
    depth = 2 * sum(bool(re.fullmatch(r"mlp_extractor\.shared_net\.\d+\.weight", name)) for name in names)
    made: dict[str, str] = {}
    tail: dict[str, str] = {}
    for head in ("policy_net", "value_net"):
        for name in names:
            if name.startswith("mlp_extractor.shared_net."):
                tail[name.replace("shared_net", head)] = name
        for name in names:
            if head in own and (found := re.fullmatch(rf"mlp_extractor\.{head}\.(\d+)\.(.+)", name)):
                tail[f"mlp_extractor.{head}.{int(found[1]) + depth}.{found[2]}"] = name
    extractor = [name for name in names if name.startswith("features_extractor.")]
    repeats = () if any(name.startswith("pi_features") for name in names) else ("pi_", "vf_")
    for name in names:
        if name.startswith("mlp_extractor."):
            made.update(tail)
        else:
            made[name] = name
        if extractor and name == extractor[-1]:
            made.update({prefix + one: one for prefix in repeats for one in extractor})
    return made


def expected_weights(case: Case) -> dict[str, np.ndarray]:
    """What the policy's state dict should be."""
    made = {name: case.weights[old].numpy() for name, old in case.origins.items()}
    return made if case.goals is None else {name: case.goals.widened(name, array) for name, array in made.items()}


def assert_same_bits(live: torch.Tensor, expected: np.ndarray, at: str) -> None:
    found = live.detach().numpy()
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape), at
    assert found.tobytes() == np.ascontiguousarray(expected).tobytes(), at


# -- optimizers ---------------------------------------------------------------------------------------

OPTIMIZERS: Final = ("policy.optimizer", "actor.optimizer", "critic.optimizer", "ent_coef_optimizer")
_KINDS: Final = {"betas": {"Adam"}, "centered": {"RMSprop"}, "nesterov": {"SGD"}}
"""Options that one class alone has among those that are a default."""


def live_optimizer(model: Any, name: str) -> tuple[Any, list[str]]:
    """An optimizer of the agent, and the names of its parameters in the policy."""
    if name == "ent_coef_optimizer":
        return model.ent_coef_optimizer, ["log_ent_coef"]
    part = name.removesuffix(".optimizer")
    module, prefix = (model.policy, "") if part == "policy" else (getattr(model.policy, part), f"{part}.")
    names = {id(parameter): prefix + own for own, parameter in module.named_parameters()}
    return module.optimizer, [names[id(parameter)] for parameter in module.optimizer.param_groups[0]["params"]]


def stored_names(case: Case, name: str, count: int) -> list[str]:
    """The old names of an optimizer's parameters, in its order: as the state dict lists them, each memory once."""
    if name == "ent_coef_optimizer":
        return ["log_ent_coef"]
    buffers = {case.origins.get(own) for own, _ in case.model.policy.named_buffers()}
    prefix = "" if name == "policy.optimizer" else f"{name.removesuffix('.optimizer')}."
    found: dict[int, str] = {}
    for own, tensor in case.weights.items():
        if own.startswith(prefix) and own not in buffers:
            found.setdefault(tensor.data_ptr(), own)
    names = list(found.values())
    online = [own for own in names if not own.partition(".")[0].endswith("_target")]
    bare = [own for own in names if "features_extractor" not in own]
    return next(choice for choice in (names, online, bare) if len(choice) == count)


def assert_same_optimizer(case: Case, name: str) -> int:
    """Compare options and moments; return how many parameters have moments."""
    stored = case.stored(f"{name}.pth")
    live, names = live_optimizer(case.model, name)
    (group,), (options,) = stored["param_groups"], live.param_groups
    for key, value in group.items():
        if key != "params":
            assert options[key] == value or list(options[key]) == list(value), (name, key)
    assert type(live).__name__ in stored_kinds(case, name, group), name
    keys = dict(zip(stored_names(case, name, len(group["params"])), group["params"]))
    where = {own: keys[own if name == "ent_coef_optimizer" else case.origins[own]] for own in names}
    for own, parameter in zip(names, options["params"]):
        expected = stored["state"].get(where[own], {})
        found = live.state.get(parameter, {})
        assert set(found) == set(expected), (name, own)
        for word, value in expected.items():
            assert_same_moment(case, found[word], value, own, f"{name}/{own}/{word}")
    return sum(where[own] in stored["state"] for own in names)


def assert_same_moment(case: Case, live: Any, stored: Any, own: str, at: str) -> None:
    if at.endswith("/step"):
        assert float(live) == float(stored), at
    elif isinstance(stored, torch.Tensor):
        expected = stored.numpy()
        assert_same_bits(live, expected if case.goals is None else case.goals.widened(own, expected), at)
    else:
        assert live == stored, at


def stored_kinds(case: Case, name: str, group: dict[str, Any]) -> set[str]:
    """The names that an optimizer's class may have: as the archive says, or else as the options tell."""
    given = policy_arguments(case).get("optimizer_class")
    if isinstance(given, Reference) and name != "ent_coef_optimizer":
        return {given.name}
    return next(kinds for option, kinds in _KINDS.items() if option in group)


def policy_arguments(case: Case) -> dict[str, Any]:
    found = case.original.decode("policy_kwargs") if "policy_kwargs" in case.original.data else {}
    return found if isinstance(found, dict) else {}


# -- schedules ----------------------------------------------------------------------------------------

PROGRESS: Final = (1.0, 0.5, 0.0)


def values_of(case: Case, key: str) -> list[float] | None:
    """A schedule's values, of expected.json where there is one; None for none."""
    told = case.expected.get(key, {})
    if "call" in told:
        return [float(told["call"][str(progress)]) for progress in PROGRESS]
    if key not in case.original.data:
        return None
    meaning = case.original.decode(key)
    return None if meaning is None else [value_at(meaning, progress) for progress in PROGRESS]


def value_at(meaning: Any, progress: float) -> float:
    """A schedule's value when so much of the training remains."""
    if isinstance(meaning, ArrayInfo):
        return float(meaning.to_numpy().item())
    if isinstance(meaning, Function) and set(meaning.closure) == {"initial_value", "final_value"}:  # of a user
        first, last = meaning.closure["initial_value"], meaning.closure["final_value"]
        return float(last + progress * (first - last))
    if isinstance(meaning, (FloatSchedule, Function)):
        return value_at(meaning.schedule, progress)
    if isinstance(meaning, ConstantSchedule):
        return float(meaning.value)
    if isinstance(meaning, LinearSchedule):
        passed = (1 - progress) / meaning.end_fraction
        return meaning.end if passed > 1 else meaning.start + passed * (meaning.end - meaning.start)
    return float(meaning)


# -- spaces -------------------------------------------------------------------------------------------


def made_space(value: Any) -> Any:
    """A space of gymnasium, of what was decoded."""
    from gymnasium import spaces

    kind = type(value).__name__
    if kind == "Box":
        return spaces.Box(value.low.to_numpy(), value.high.to_numpy(), dtype=np.dtype(value.dtype).type)
    if kind == "Discrete":
        return spaces.Discrete(value.n, start=value.start)
    if kind == "MultiDiscrete":
        start = None if value.start is None else value.start.to_numpy()
        return spaces.MultiDiscrete(value.nvec.to_numpy(), dtype=np.dtype(value.dtype).type, start=start)
    if kind == "MultiBinary":
        return spaces.MultiBinary(value.shape if len(value.shape) > 1 else value.shape[0])
    if kind == "DictSpace":
        return spaces.Dict(OrderedDict((key, made_space(part)) for key, part in value.spaces.items()))
    raise AssertionError(kind)


def assert_same_space(live: Any, expected: Any) -> None:
    """Compare every number of two spaces, where gymnasium's own equality lets them be close."""
    assert type(live) is type(expected)
    assert (live.dtype, live.shape) == (expected.dtype, expected.shape)
    if hasattr(expected, "spaces"):
        assert list(live.spaces) == list(expected.spaces)
        for key, part in expected.spaces.items():
            assert_same_space(live.spaces[key], part)
    for word in ("low", "high", "n", "nvec", "start", "bounded_below", "bounded_above"):
        if hasattr(expected, word):
            one, other = np.asarray(getattr(live, word)), np.asarray(getattr(expected, word))
            assert (word, one.dtype.kind, one.tolist()) == (word, other.dtype.kind, other.tolist())


# -- all other values ---------------------------------------------------------------------------------

RENAMED: Final = {"_current_progress": "_current_progress_remaining", "_last_dones": "_last_episode_starts"}
ELSEWHERE: Final = frozenset(
    {
        "policy_class", "policy_kwargs", "observation_space", "action_space",  # with the policy and the spaces
        "learning_rate", "lr_schedule", "clip_range", "clip_range_vf", "delta_std_schedule", "exploration_schedule",
        "replay_buffer_class", "replay_buffer_kwargs", "rollout_buffer_class", "rollout_buffer_kwargs", "buffer_size",
        "model_class", "n_sampled_goal", "goal_selection_strategy", "train_freq",
        "batch_norm_stats", "batch_norm_stats_target", "actor_batch_norm_stats", "critic_batch_norm_stats",
        "actor_batch_norm_stats_target", "critic_batch_norm_stats_target",  # tensors of the policy
        "weights", "_last_lstm_states", "log_ent_coef", "ent_coef_optimizer",  # what SB3 makes anew
    }
)  # fmt: skip
"""Keys that tests of their own compare, and those that SB3 makes of others."""
FORCED: Final = frozenset({"_last_obs"})
"""What ``load`` itself forgets when it gets an environment."""


def superseded(case: Case) -> set[str]:
    """Keys that say nothing any more: of PPO in A2C of 0.6, and old names beside the new ones."""
    data = case.original.data
    both = {old for old, new in RENAMED.items() if old in data and new in data}
    return both | (PPO_IN_A2C if case.name.startswith("0.6.0/a2c") else set())


def schedules_gone(case: Case) -> set[str]:
    """Keys of schedules that nothing of today can be compared with."""
    gone = superseded(case) | carried(case.name)
    return gone | ({"lr_schedule"} if "learning_rate" in gone or is_any(case.name, CONTRADICTORY) else set())


def other_keys(case: Case) -> list[str]:
    """The keys whose values the agent should have as they were."""
    gone = ELSEWHERE | GONE | NULLS | carried(case.name) | superseded(case)
    return [key for key in case.original.data if key not in gone and not (case.has_goals and key in FORCED)]


def assert_same_value(live: Any, value: Any, at: str) -> None:
    """Compare what the agent has with what was decoded."""
    if isinstance(value, ArrayInfo):
        expected = value.to_numpy()
        assert np.asarray(live).tolist() == expected.tolist(), at
        assert value.is_scalar or np.asarray(live).dtype == expected.dtype, at
    elif isinstance(value, dict):
        assert list(live) == list(value), at
        for key, part in value.items():
            assert_same_value(live[key], part, f"{at}/{key}")
    elif isinstance(value, (list, tuple, deque)):
        assert (len(live), getattr(live, "maxlen", None)) == (len(value), getattr(value, "maxlen", None)), at
        for index, part in enumerate(value):
            assert_same_value(live[index], part, f"{at}/{index}")
    elif isinstance(value, Instance):
        assert type(live).__name__ == value.type.name, at
        own = {word: vars(live)[word] for word in value.attributes}
        assert vars(live).keys() - own <= {"_dtype"}, at  # of noise, since SB3 1.8
        assert_same_value(own, value.attributes, at)
    elif isinstance(value, Reference):
        assert live.__name__ in {value.name, f"np.{value.name}"}, at
    else:
        assert type(value) in (type(None), bool, int, float, str), (at, type(value))
        assert type(live) is type(value), at
        assert bits(live) == bits(value), at


def bits(value: Any) -> object:
    return struct.pack("<d", value) if isinstance(value, float) else value


def train_freq(case: Case) -> tuple[int, str] | None:
    """How often an off-policy agent trains: before SB3 1.0 episodes went before steps."""
    if "train_freq" not in case.original.data:
        return None
    meaning = case.original.decode("train_freq")
    if isinstance(meaning, TrainFreq):
        return meaning.frequency, str(meaning.unit.value)
    episodes = case.original.data.get("n_episodes_rollout", -1)
    return (episodes, "episode") if episodes > 0 else (meaning, "step")


def goal_options(case: Case) -> tuple[int, str]:
    """How many goals HER samples, and by which strategy: keys of the archive before SB3 1.1, then the buffer's."""
    given: Any = case.original.data if case.goals else case.original.decode("replay_buffer_kwargs")
    strategy: Any = given.get("goal_selection_strategy", "future")
    if case.goals:
        strategy = case.original.decode("goal_selection_strategy")
    value = getattr(strategy, "value", strategy)
    named = value if isinstance(value, str) else ("future", "final", "episode")[value]
    return given.get("n_sampled_goal", 4), named
