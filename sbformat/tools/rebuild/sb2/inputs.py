"""The observations of an agent as SB3 gives them to its networks.

SB3 has its own order of an observation's items: it moves the channels of images first, and sorts the parts of a Dict.
So the columns of the first layers are reordered, and the result saves SB3's observation space.

What SB3 does with an image depends on the space alone (``is_image_space`` and ``is_image_space_channels_first`` of
``common/preprocessing.py``): three dimensions of bytes from 0 to 255 are an image, whose channels are last unless its
first dimension is the smallest one. SB3 divides images by 255, unless ``normalize_images`` is false. SB2 scales for a
CNN alone, but there each Box whose bounds are finite.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from sbformat.errors import UnsupportedError
from sbformat.formats.sb2.networks import CONVOLUTIONS, convolve
from sbformat.pkl.numpy import ArrayInfo
from sbformat.policies.sb2.agents import GOAL_KEYS
from sbformat.policies.shapes.extractors import flattened_size, is_image
from sbformat.values.types import Box, DictSpace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.formats.sb2.networks import Input
    from sbformat.tools.rebuild.sb2.interface import Sb2Agent
    from sbformat.values.types import Space

_CHANNELS_FIRST: Final = (2, 0, 1)
"""The axes of an image of SB2, as SB3 orders them."""


class Inputs(NamedTuple):
    """The observations of SB2 and those of SB3."""

    kind: str
    """``Mlp``, ``Cnn`` or ``MultiInput``: the start of the name of SB3's policy."""
    space: Space
    """The observation space that SB3 saves."""
    columns: np.ndarray
    """The position, in SB3's flattened observation, of each item of SB2's; int64. Of a CNN, those of its features."""
    policy_kwargs: Mapping[str, object]
    """Arguments that the policy needs so that the networks get the observations as in SB2."""
    image: tuple[int, ...] | None
    """Height, width and channels, for a CNN."""

    @property
    def size(self) -> int:
        """The number of items, of a CNN its features."""
        return len(self.columns)


def read_inputs(agent: Sb2Agent, inputs: Input) -> Inputs:
    """Return how SB3 gives an agent its observations.

    :param inputs: the input stage of its network
    :raises UnsupportedError: when SB3 cannot give them to a network as SB2 does
    """
    model = agent.model
    space: Any = model.observation_space
    if inputs.cnn is not None:
        _check_images(space, is_padded=inputs.cnn.is_padded)
        return Inputs("Cnn", _transpose(space), np.arange(inputs.width), {}, space.shape)
    if model.goal_space is not None:
        return _read_goals(model.goal_space, inputs.width)
    if not is_image(space, is_normalized=False):
        return Inputs("Mlp", space, np.arange(inputs.width), {}, None)
    kwargs = {"normalize_images": False}
    if _has_channels_first(space.shape):
        return Inputs("Mlp", space, np.arange(inputs.width), kwargs, None)
    height, width, channels = space.shape
    columns = np.arange(inputs.width).reshape(channels, height, width).transpose(1, 2, 0).reshape(-1)
    return Inputs("Mlp", _transpose(space), columns, kwargs, None)


def _has_channels_first(shape: tuple[int, ...]) -> bool:
    return shape.index(min(shape)) == 0


def _check_images(space: Space, *, is_padded: bool) -> None:
    """Refuse images that SB3's NatureCNN does not get as SB2's CNN does.

    :raises UnsupportedError: with the reason
    """
    if not is_image(space, is_normalized=False):
        message = "SB3 scales only images of bytes from 0 to 255, and moves the channels first only of those"
        raise UnsupportedError(message)
    if _has_channels_first(space.shape):
        message = (
            f"SB3 takes the first dimension of the images, {space.shape}, for the channels, because it is smallest"
        )
        raise UnsupportedError(message)
    sides = space.shape[:2]
    for _, size, stride, _ in CONVOLUTIONS:
        lengths = tuple(convolve(side, size, stride, is_padded=is_padded) for side in sides)
        if is_padded and any((length - 1) * stride + size != side for length, side in zip(lengths, sides)):
            message = 'its CNN pads the images (pad="SAME"), and SB3\'s does not'
            raise UnsupportedError(message)
        sides = lengths


def _transpose(space: Box) -> Box:
    """Return the space of images with the channels first."""
    height, width, channels = space.shape
    low, high = (
        ArrayInfo(space.dtype, (channels, height, width), "C", bytes([bound]) * prod(space.shape), is_scalar=False)
        for bound in (0, 255)
    )
    return Box("gymnasium", low.shape, space.dtype, low, high, None, None, None)


def _read_goals(spaces: DictSpace, width: int) -> Inputs:
    """Return the parts of a goal environment's observation in the order of SB3's Dict, which sorts its keys.

    :param width: of the observation that SB2 made of them
    """
    sizes = {}
    for key in GOAL_KEYS:
        part = spaces.spaces.get(key)
        if part is None:
            message = f"the goal environment's observation has no part {key!r}"
            raise UnsupportedError(message)
        if is_image(part, is_normalized=False):
            message = f"SB3 makes a CNN for the images of the part {key!r}"
            raise UnsupportedError(message)
        sizes[key] = int(flattened_size(part, key))
    if sum(sizes.values()) != width:
        message = (
            f"the parts of the goal environment's observation have {sum(sizes.values())} items, its network {width}"
        )
        raise UnsupportedError(message)
    starts, start = {}, 0
    for key in sorted(sizes):
        starts[key], start = start, start + sizes[key]
    columns = np.concatenate([np.arange(starts[key], starts[key] + size) for key, size in sizes.items()])
    ordered = {key: spaces.spaces[key] for key in sorted(sizes)}
    return Inputs("MultiInput", DictSpace("gymnasium", ordered, None), columns, {}, None)
