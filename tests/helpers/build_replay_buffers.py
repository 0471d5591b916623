"""Replay buffers as SB3 pickles them, made without SB3: objects of classes that only bear the names of SB3's."""

from __future__ import annotations

import contextlib
import pickle
import sys
import types
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

BUFFERS: Final = "stable_baselines3.common.buffers"
HER: Final = "stable_baselines3.her.her_replay_buffer"


class Named:
    """Asks for an object of a class by its name.

    :param module: of the class
    :param name: of the class
    :param attributes: of the object
    """

    def __init__(self, module: str, name: str, attributes: dict[str, Any]) -> None:
        self.pair = (module, name)
        self.attributes = attributes


@contextlib.contextmanager
def classes(*pairs: tuple[str, str]) -> Iterator[dict[tuple[str, str], type]]:
    """Classes of these names, which pickle finds while the block lasts."""
    made = {pair: type(pair[1], (), {"__module__": pair[0]}) for pair in pairs}
    modules: dict[str, types.ModuleType] = {}
    for (module, name), cls in made.items():
        parts = module.split(".")
        for end in range(1, len(parts) + 1):
            modules.setdefault(".".join(parts[:end]), types.ModuleType(".".join(parts[:end])))
        setattr(modules[module], name, cls)
    with mock.patch.dict(sys.modules, modules):
        yield made


def pickled(root: Named, protocol: int = 5) -> bytes:
    """The pickle of an object, and of those among its attributes."""
    asked = [root]
    for named in asked:
        asked += (value for value in named.attributes.values() if isinstance(value, Named))
    with classes(*{named.pair for named in asked}) as made:

        def real(named: Named) -> object:
            value = object.__new__(made[named.pair])
            parts = {key: real(part) if isinstance(part, Named) else part for key, part in named.attributes.items()}
            value.__dict__.update(parts)
            return value

        return pickle.dumps(real(root), protocol)


def box(shape: tuple[int, ...], dtype: str = "float32") -> Named:
    """A Box as gymnasium pickles it."""
    bound = np.ones(shape, dtype)
    sure = np.ones(shape, bool)
    attributes = {
        "dtype": np.dtype(dtype), "_shape": shape, "low": -bound if dtype[0] == "f" else 0 * bound, "low_repr": "-1.0",
        "high": bound, "high_repr": "1.0", "bounded_below": sure, "bounded_above": sure, "_np_random": None,
    }  # fmt: skip
    return Named("gymnasium.spaces.box", "Box", attributes)


def attributes_of(
    rows: int = 6, envs: int = 2, shape: tuple[int, ...] = (3,), pos: int = 4, *, full: bool = False, **others: Any
) -> dict[str, Any]:
    """The attributes of a ``ReplayBuffer``, its arrays full of numbers that tell them apart."""
    size = rows * envs * int(np.prod(shape))
    observations = np.arange(size, dtype="f4").reshape(rows, envs, *shape)
    return {
        "buffer_size": rows, "observation_space": box(shape), "action_space": box((1,)), "obs_shape": shape,
        "action_dim": 1, "pos": pos, "full": full, "n_envs": envs, "optimize_memory_usage": False,
        "observations": observations, "next_observations": observations + 0.5,
        "actions": np.arange(rows * envs, dtype="f4").reshape(rows, envs, 1),
        "rewards": np.arange(rows * envs, dtype="f4").reshape(rows, envs), "dones": np.zeros((rows, envs), "f4"),
        "handle_timeout_termination": True, "timeouts": np.zeros((rows, envs), "f4"), **others,
    }  # fmt: skip


def buffer(name: str = "ReplayBuffer", module: str = BUFFERS, protocol: int = 5, **options: Any) -> bytes:
    """The pickle of a buffer; the options are those of :func:`attributes_of`, None leaves an attribute out."""
    attributes = {key: value for key, value in attributes_of(**options).items() if value is not None}
    return pickled(Named(module, name, attributes), protocol)


def hindsight_of_old(name: str = "_buffer", *, done: Any = 0.0, **others: Any) -> bytes:
    """The pickle of :func:`named_hindsight_of_old`."""
    return pickled(named_hindsight_of_old(name, done=done, **others))


def named_hindsight_of_old(name: str = "_buffer", *, done: Any = 0.0, **others: Any) -> Named:
    """A hindsight buffer as SB3 1.1 to 1.7 has it: four episodes of at most five steps, ``buffer`` as before."""
    dims = {
        "observation": (1, 2), "achieved_goal": (1, 1), "desired_goal": (1, 1), "action": (3,), "reward": (1,),
        "next_obs": (1, 2), "next_achieved_goal": (1, 1), "next_desired_goal": (1, 1), "done": (1,),
    }  # fmt: skip
    episodes = {key: np.arange(20 * int(np.prod(dim)), dtype="f4").reshape(4, 5, *dim) for key, dim in dims.items()}
    episodes["done"] = np.zeros((4, 5, 1), "f4") + done
    attributes = {
        **attributes_of(20, 1), "pos": 2, "full": False, name: episodes, "current_idx": 3, "max_episode_length": 5,
        "max_episode_stored": 4, "episode_lengths": np.array([5, 2, 0, 0]), "her_ratio": 0.8, "n_sampled_goal": 4,
        "online_sampling": True, "info_buffer": [], "replay_buffer": None, **others,
    }  # fmt: skip
    return Named(HER, "HerReplayBuffer", {k: v for k, v in attributes.items() if v is not ...})
