"""HER before SB3 1.1: an algorithm around another one, whose observations were concatenated (FORMAT.md 15.4).

Since 1.1 it is a replay buffer, and the observations are a dict with the goals. The layers that take the observation
get the columns of that dict; those of the achieved goal, which nobody saw before, are zero: the same function.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sbformat.constants import POLICY_ENTRY
from sbformat.errors import SbformatError, UnsupportedError
from sbformat.pkl.numpy import ArrayInfo
from sbformat.tools.rebuild.tensors import with_columns
from sbformat.values.numbers import unpack_items
from sbformat.values.types import Box, DictSpace, Discrete, MultiBinary, MultiDiscrete, Reference

if TYPE_CHECKING:
    from sbformat.archive.archive import Archive
    from sbformat.pth.values import TensorInfo
    from sbformat.values.types import Space

_FIRST_LAYER: Final = re.compile(
    r"(actor|actor_target)\.(latent_pi|mu)\.0\.weight|(critic|critic_target)\.qf\d+\.0\.weight"
    r"|q_net(_target)?\.q_net\.0\.weight"
)
_BARE_ACTOR: Final = frozenset({"actor.mu.weight", "actor.log_std.weight"})
"""First layers of a SAC whose actor has no hidden ones."""
_MOST_CHOICES: Final = 1_000_000
_WIDE: Final = ("<f4", "<f8")
_KEYS: Final = ("achieved_goal", "desired_goal", "observation")
"""Of the Dict space, in gymnasium's order."""


class Hindsight(NamedTuple):
    """What an observation was made of."""

    space: DictSpace
    """That of the environment itself."""
    observation: int
    """Columns of the observation, which came first."""
    goal: int
    """Columns of the goal."""
    is_bare: bool
    """Whether the actor of SAC or TQC has no hidden layers."""
    made: dict[tuple[int, int, tuple[int, ...]], tuple[TensorInfo, TensorInfo]]
    """Layers that were widened, by their memory, with what they were: those that share it still do."""

    def widened(self, name: str, info: TensorInfo) -> TensorInfo:
        """Return a tensor with the columns of the dict, when it is one of a first layer; moments go the same way.

        :raises UnsupportedError: when it does not take that observation
        """
        if not _FIRST_LAYER.fullmatch(name) and not (self.is_bare and name in _BARE_ACTOR):
            return info
        known = self.observation + self.goal
        if len(info.shape) != 2 or info.shape[1] < known or not 0 < info.numel <= info.storage.numel:
            message = f"{name} does not take an observation of {known} numbers"
            raise UnsupportedError(message, entry=POLICY_ENTRY)
        memory = id(info.storage), info.offset, info.shape
        if memory not in self.made:
            parts = range(self.observation, known), range(self.observation), range(known, info.shape[1])
            columns = [*[None] * self.goal, *(column for part in parts for column in part)]
            self.made[memory] = with_columns(info, columns), info
        return self.made[memory][0]


def inner_algorithm(archive: Archive) -> str:
    """Return the algorithm that HER was put around.

    :raises UnsupportedError: when that is not known
    """
    model = archive.decode("model_class")
    if not isinstance(model, Reference):
        message = "model_class, the algorithm that HER was put around, is not known"
        raise UnsupportedError(message, entry="data")
    return model.name


def hindsight_of(archive: Archive) -> tuple[Hindsight | None, str]:
    """Return what the observation of HER's archive was made of, or None and why that cannot be told."""
    try:
        space: Any = archive.decode("observation_space")
        last: Any = archive.decode("_last_obs")
    except SbformatError as error:
        return None, error.message
    if not isinstance(last, dict) or not set(_KEYS) <= set(last):
        return None, "it was never trained, and only the last observation tells what is goal and what is not"
    parts = [last[key] for key in _KEYS]
    if any(not isinstance(part, ArrayInfo) or len(part.shape) != 2 or part.dtype[1] not in "biuf" for part in parts):
        return None, "its last observation is not made of vectors"
    sizes = [part.shape[1] for part in parts]
    made = _spaces(space, sizes[2], sizes[1], parts)
    if made is None or sizes[0] != sizes[1]:
        return None, "its last observation does not fit its space"
    observation, desired, achieved, columns = made
    names = archive.parameters["policy"].tensors()
    is_bare = "actor.mu.weight" in names and "actor.latent_pi.0.weight" not in names
    if is_bare and "actor.log_std" in names:
        return None, "its noise takes the observation itself"
    spaces: dict[str, Space] = dict(zip(_KEYS, (achieved, desired, observation)))
    return Hindsight(DictSpace("gymnasium", spaces, None), *columns, is_bare, {}), ""


def _spaces(
    space: object, observation: int, goal: int, parts: list[ArrayInfo]
) -> tuple[Space, Space, Space, tuple[int, int]] | None:
    """Return the spaces of observation, desired and achieved goal, and the columns of the first two."""
    columns = observation, goal
    if isinstance(space, Box) and space.shape == (observation + goal,):
        last = observation + goal
        return (
            _slice(space, 0, observation, parts[2]),
            _slice(space, observation, last, parts[1]),
            _slice(space, observation, last, parts[0]),
            columns,
        )
    if isinstance(space, MultiBinary) and space.shape == (observation + goal,):
        bits, *goals = (MultiBinary("gymnasium", (size,), space.dtype, None) for size in (observation, goal, goal))
        return bits, goals[0], goals[1], columns
    if isinstance(space, MultiDiscrete) and space.nvec.shape == (2,):
        sizes = [size for size in unpack_items(space.nvec) if isinstance(size, int) and 0 < size < _MOST_CHOICES]
        if len(sizes) != 2:
            return None
        choices = [Discrete("gymnasium", size, 0, "<i8", None) for size in (sizes[0], sizes[1], sizes[1])]
        return choices[0], choices[1], choices[2], (sizes[0], sizes[1])
    return None


def _slice(space: Box, start: int, stop: int, last: ArrayInfo) -> Box:
    """Return a part of a Box, in the dtype that the environment's own part had, where that holds the bounds."""
    low, high = (_cut(bound, start, stop, bound.dtype) for bound in (space.low, space.high))
    dtype = space.dtype
    if last.dtype in _WIDE or (last.dtype[1] in "iu" and all(_is_whole(bound) for bound in (low, high))):
        dtype = last.dtype
        low, high = (_cut(bound, 0, stop - start, dtype) for bound in (low, high))
    below, above = (
        None if flags is None else _cut(flags, start, stop, flags.dtype)
        for flags in (space.bounded_below, space.bounded_above)
    )
    return Box("gymnasium", low.shape, dtype, low, high, None, below, above)


def _is_whole(bound: ArrayInfo) -> bool:
    """Say whether a dtype of whole numbers, however narrow, holds bounds."""
    return all(math.isfinite(value) and value in range(128) for value in unpack_items(bound))


def _cut(info: ArrayInfo, start: int, stop: int, dtype: str) -> ArrayInfo:
    whole: Any = info.to_numpy()
    part = whole[start:stop].astype(dtype)
    return ArrayInfo(dtype, part.shape, "C", part.tobytes(), is_scalar=False)
