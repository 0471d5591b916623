"""Frames stacked as SB3's ``VecFrameStack`` does (``common/vec_env/stacked_observations.py``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

import numpy as np

from sbformat.known.spaces import DictSpace
from sbformat.tools.evaluate.spaces import is_image, stack_space

if TYPE_CHECKING:
    from sbformat.known.spaces import Space

ChannelsOrder: TypeAlias = Literal["first", "last"]
ORDERS: Final = get_args(ChannelsOrder)


class FrameStack:
    """The last observations of an environment along one axis, the newest last; zeros before the first.

    :param space: of one observation: a Box, or a Dict of them
    :param frames: how many are stacked
    :param order: the axis of the channels; by default that of the smallest size for images, the last one for others
    :raises UnsupportedError: for another space

    Example::

        stack = FrameStack(space, 4)
        observation = stack.reset(first_observation)
        observation = stack.add(next_observation)
    """

    def __init__(self, space: Space, frames: int, order: ChannelsOrder | None = None) -> None:
        self._parts: dict[str, FrameStack] = {}
        self.space: Space
        if isinstance(space, DictSpace):
            self._parts = {key: FrameStack(part, frames, order) for key, part in space.spaces.items()}
            self.space = DictSpace(space.library, {key: part.space for key, part in self._parts.items()}, None)
            return
        channels_first = order == "first"
        if order is None and is_image(space):
            shape = space.shape
            channels_first = shape[0] == min(shape)
        self._axis = 0 if channels_first else -1
        self.space = stack_space(space, frames, self._axis)
        self._stacked = np.zeros(self.space.shape, self.space.dtype)

    def reset(self, observation: Any) -> Any:
        """Return the stack at the start of an episode: zeros, and the observation."""
        if self._parts:
            return {key: part.reset(observation[key]) for key, part in self._parts.items()}
        self._stacked = np.zeros_like(self._stacked)
        return self.add(observation)

    def add(self, observation: Any) -> Any:
        """Return the stack after a step."""
        if self._parts:
            return {key: part.add(observation[key]) for key, part in self._parts.items()}
        newest = np.asarray(observation, self._stacked.dtype)
        _, older = np.split(self._stacked, [newest.shape[self._axis]], self._axis)
        self._stacked = np.concatenate((older, newest), self._axis)
        return self._stacked
