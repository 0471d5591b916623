"""HER before SB3 1.1: an algorithm that wrapped another one, and concatenated its observations (REBUILDING.md 15.4).

Since 1.1, HER is a replay buffer, and the observations are a Dict with the goals. The old layers received ``observation
+ desired_goal``; the Dict has the parts in the order ``achieved_goal, desired_goal, observation``. So the columns of
each first layer are reordered, and those of the achieved goal, which it never received, are zero: the same function.

Worked example, 3 numbers of observation (o) and 2 of goal (g): a row of a first layer of SAC's critic, which also
receives one action (a)::

    before  o0 o1 o2 g0 g1 a0
    after   0  0  g0 g1 o0 o1 o2 a0
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final

from sbformat.constants import POLICY_ENTRY
from sbformat.errors import SbformatError, UnsupportedError
from sbformat.immutable import Record
from sbformat.known.numpy import unpack_items
from sbformat.known.spaces import Box, DictSpace, Discrete, MultiBinary, MultiDiscrete
from sbformat.known.types import Reference
from sbformat.nets.wrappers import unwrap_policy
from sbformat.pkl.numpy import ArrayInfo
from sbformat.tools.rebuild.tensors import select_columns

if TYPE_CHECKING:
    from sbformat.archive.archive import Archive
    from sbformat.known.spaces import Space
    from sbformat.pth.values import TensorInfo

_FIRST_LAYER: Final = re.compile(
    r"(actor|actor_target)\.(latent_pi|mu)\.0\.weight|(critic|critic_target)\.qf\d+\.0\.weight"
    r"|q_net(_target)?\.q_net\.0\.weight"
)
_FIRST_LAYERS_OF_BARE_ACTOR: Final = frozenset({"actor.mu.weight", "actor.log_std.weight"})
"""First layers of SAC's actor when it has no hidden ones."""
_MAX_CHOICES: Final = 1_000_000
_FLOAT_DTYPES: Final = ("<f4", "<f8")
_KEYS: Final = ("achieved_goal", "desired_goal", "observation")
"""The keys of the Dict space, in gymnasium's order."""


class HerObservation(Record):
    """The parts of a concatenated observation."""

    space: DictSpace
    """The observation space of the environment itself."""
    observation_size: int
    """Columns of the observation, which came first."""
    goal_size: int
    """Columns of the goal."""
    is_bare: bool
    """Whether the actor of SAC or TQC has no hidden layers."""
    widened: dict[tuple[int, int, tuple[int, ...]], tuple[TensorInfo, TensorInfo]]
    """The new layers by the memory of the old ones, and the old ones: layers that share memory still do."""

    def widen(self, name: str, info: TensorInfo) -> TensorInfo:
        """Return a first layer with the columns of the Dict, and any other tensor unchanged.

        :param name: of the layer; optimizer states are widened by the name of their layer
        :raises UnsupportedError: when the layer does not receive such an observation
        """
        if not _FIRST_LAYER.fullmatch(name) and not (self.is_bare and name in _FIRST_LAYERS_OF_BARE_ACTOR):
            return info
        known = self.observation_size + self.goal_size
        if len(info.shape) != 2 or info.shape[1] < known or not 0 < info.numel <= info.storage.numel:
            message = f"{name} does not receive an observation of {known} numbers"
            raise UnsupportedError(message, entry=POLICY_ENTRY)
        memory = id(info.storage), info.offset, info.shape
        if memory not in self.widened:
            goal, observation = range(self.observation_size, known), range(self.observation_size)
            columns = [*[None] * self.goal_size, *goal, *observation, *range(known, info.shape[1])]
            self.widened[memory] = select_columns(info, columns), info
        return self.widened[memory][0]


def find_inner_algorithm(archive: Archive) -> str:
    """Return the algorithm that HER wrapped.

    :raises UnsupportedError: when it is not known
    """
    model = archive.decode("model_class")
    if not isinstance(model, Reference):
        message = "model_class, the algorithm that HER wrapped, is not known"
        raise UnsupportedError(message, entry="data")
    return model.name


def find_her_observation(archive: Archive) -> tuple[HerObservation | None, str]:
    """Return the parts of the observation in an archive of HER, or None and why they are not known."""
    try:
        space: Any = archive.decode("observation_space")
        last: Any = archive.decode("_last_obs")
    except SbformatError as error:
        return None, error.message
    if not isinstance(last, dict) or not set(_KEYS) <= set(last):
        return None, "it was never trained, and only the last observation distinguishes the goal from the rest"
    parts = [last[key] for key in _KEYS]
    if any(not isinstance(part, ArrayInfo) or len(part.shape) != 2 or part.dtype[1] not in "biuf" for part in parts):
        return None, "its last observation does not consist of vectors"
    goal_size, desired_size, observation_size = (part.shape[1] for part in parts)
    found = _split_space(space, observation_size, desired_size, parts)
    if found is None or goal_size != desired_size:
        return None, "its last observation does not fit its space"
    observation, desired, achieved, columns = found
    names = unwrap_policy(archive).state_dict.tensors()
    is_bare = "actor.mu.weight" in names and "actor.latent_pi.0.weight" not in names
    if is_bare and "actor.log_std" in names:
        return None, "its exploration noise depends on the observation itself"
    spaces: dict[str, Space] = dict(zip(_KEYS, (achieved, desired, observation)))
    return HerObservation(DictSpace("gymnasium", spaces, None), *columns, is_bare, {}), ""


def _split_space(
    space: object, observation: int, goal: int, last: list[ArrayInfo]
) -> tuple[Space, Space, Space, tuple[int, int]] | None:
    """Return the spaces of observation, desired and achieved goal, and the columns of the first two.

    :param observation: items of the observation
    :param goal: items of a goal
    :param last: the parts of the last observation, in the order of the keys
    """
    columns = observation, goal
    if isinstance(space, Box) and space.shape == (observation + goal,):
        end = observation + goal
        return (
            _slice_box(space, 0, observation, last[2]),
            _slice_box(space, observation, end, last[1]),
            _slice_box(space, observation, end, last[0]),
            columns,
        )
    if isinstance(space, MultiBinary) and space.shape == (observation + goal,):
        bits, *goals = (MultiBinary("gymnasium", (size,), space.dtype, None) for size in (observation, goal, goal))
        return bits, goals[0], goals[1], columns
    if isinstance(space, MultiDiscrete) and space.nvec.shape == (2,):
        sizes = [size for size in unpack_items(space.nvec) if isinstance(size, int) and 0 < size < _MAX_CHOICES]
        if len(sizes) != 2:
            return None
        choices = [Discrete("gymnasium", size, 0, "<i8", None) for size in (sizes[0], sizes[1], sizes[1])]
        return choices[0], choices[1], choices[2], (sizes[0], sizes[1])
    return None


def _slice_box(space: Box, start: int, stop: int, last: ArrayInfo) -> Box:
    """Return a part of a Box, in the dtype of the environment's own part if that can hold the bounds."""
    low, high = (_slice_array(bound, start, stop, bound.dtype) for bound in (space.low, space.high))
    dtype = space.dtype
    if last.dtype in _FLOAT_DTYPES or (
        last.dtype[1] in "iu" and all(_has_small_integers(bound) for bound in (low, high))
    ):
        dtype = last.dtype
        low, high = (_slice_array(bound, 0, stop - start, dtype) for bound in (low, high))
    below, above = (
        None if flags is None else _slice_array(flags, start, stop, flags.dtype)
        for flags in (space.bounded_below, space.bounded_above)
    )
    return Box("gymnasium", low.shape, dtype, low, high, None, below, above)


def _has_small_integers(bound: ArrayInfo) -> bool:
    """Return whether any integer dtype can hold the items of a bound."""
    return all(math.isfinite(value) and value in range(128) for value in unpack_items(bound))


def _slice_array(info: ArrayInfo, start: int, stop: int, dtype: str) -> ArrayInfo:
    whole: Any = info.to_numpy()
    part = whole[start:stop].astype(dtype)
    return ArrayInfo(dtype, part.shape, "C", part.tobytes(), is_scalar=False)
