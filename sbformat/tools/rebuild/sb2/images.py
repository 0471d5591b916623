"""Images: SB2 has height, width, channels; SB3's networks have channels, height, width.

SB3 transposes images where ``is_image_space`` and ``is_image_space_channels_first`` of its ``preprocessing`` say so
(``VecTransposeImage`` around environments, ``maybe_transpose`` in ``predict``), whatever the policy is, and saves the
transposed space. It divides images by 255 unless ``normalize_images`` is False. So weights move with their channels,
and any other scale goes into the first convolution.
"""

from __future__ import annotations

from math import inf, prod
from typing import TYPE_CHECKING, Final

import numpy as np

from sbformat.errors import UnsupportedError
from sbformat.immutable import Record
from sbformat.known.numpy import unpack_items
from sbformat.known.spaces import Box
from sbformat.nets.sb2 import CONVOLUTIONS, convolve
from sbformat.pkl.numpy import ArrayInfo
from sbformat.tools.rebuild.report import Row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sbformat.nets.sb2 import Cnn
    from sbformat.tools.rebuild.sb2.interface import Sb2Agent

_IMAGE_RANK: Final = 3
_CHANNELS_FIRST: Final = (2, 0, 1)
_PLACES: Final = (0, 2, 4)
"""The positions of the convolutions in ``NatureCNN.cnn``: an activation follows each."""


class Images(Record):
    """How SB3 gets the observations of an agent."""

    space: Box | None
    """The transposed space; None if the space is as it was."""
    policy_kwargs: dict[str, object]
    rows: tuple[Row, ...]
    """What the user has to do differently."""

    def order(self, flat: np.ndarray) -> np.ndarray:
        """Return the rows of a first layer's weights in the order of the flat observation that SB3 has.

        :param flat: weights, shape (inputs, outputs), inputs in the order of SB2's observation
        """
        if self.space is None:
            return flat
        channels, height, width = self.space.shape
        return _order_rows(flat, (height, width, channels))


def describe_images(agent: Sb2Agent, cnn: Cnn | None) -> Images:
    """Return how SB3 gets the observations of an agent.

    :param cnn: of the network; None for an MLP, which gets a flat observation
    """
    space = agent.model.observation_space
    is_bytes = space.is_image()
    if not isinstance(space, Box) or len(space.shape) != _IMAGE_RANK or (cnn is None and not is_bytes):
        return Images(None, {}, ())
    is_transposed = space.shape.index(min(space.shape)) != 0
    if cnn is None:
        return Images(_transpose(space) if is_transposed else None, {"normalize_images": False}, ())
    transposed = _transpose(space)
    if is_bytes and is_transposed:
        return Images(transposed, {}, ())
    arguments: dict[str, object] = {} if is_bytes else {"normalize_images": False}
    message = "SB3 transposes only images of bytes from 0 to 255 whose height is not their shortest side"
    shown = f"observations of the shape {transposed.shape}: transpose those of the environment"
    row = Row("data", "observation_space", "translated", message, shown, str(space.shape), is_finding=True)
    return Images(transposed, arguments, (row,))


def convert_cnn(agent: Sb2Agent, cnn: Cnn, scope: str, prefix: str) -> dict[str, np.ndarray]:
    """Return the CNN of the Nature paper as SB3's ``NatureCNN``.

    Filters are (height, width, channels, filters) in SB2, (filters, channels, height, width) in torch. The features of
    an image are in the order height, width, channels in SB2, and channels, height, width in SB3.

    :param scope: of the layers in SB2: ``model``
    :param prefix: of the layers in SB3: ``features_extractor``
    :raises UnsupportedError: for a padded CNN, and for bounds that differ between pixels
    """
    if cnn.is_padded:
        message = 'its CNN pads images (pad="SAME"), which SB3\'s NatureCNN does not'
        raise UnsupportedError(message)
    space = agent.model.observation_space
    sides = space.shape[:2]
    arrays: dict[str, np.ndarray] = {}
    scale, shift = _find_scale(agent)
    channels = 0
    for place, (name, size, stride, filters) in zip(_PLACES, CONVOLUTIONS):
        weights = agent.array(f"{scope}/{name}/w:0").transpose(3, 2, 0, 1).astype(np.float64)
        bias = agent.array(f"{scope}/{name}/b:0").reshape(-1).astype(np.float64)
        if place == 0:
            bias = bias + weights.sum(axis=(1, 2, 3)) * shift
            weights = weights * scale
        arrays[f"{prefix}.cnn.{place}.weight"] = np.ascontiguousarray(weights, dtype=np.float32)
        arrays[f"{prefix}.cnn.{place}.bias"] = bias.astype(np.float32)
        sides = tuple(convolve(side, size, stride, is_padded=False) for side in sides)
        channels = filters
    weights = _order_rows(agent.array(f"{scope}/fc1/w:0"), (*sides, channels))
    arrays[f"{prefix}.linear.0.weight"] = np.ascontiguousarray(weights.T)
    arrays[f"{prefix}.linear.0.bias"] = agent.array(f"{scope}/fc1/b:0").reshape(-1)
    return arrays


def _order_rows(weights: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """Return rows in the order channels, height, width.

    :param weights: a row for each item of an image of the shape height, width, channels
    """
    rows: np.ndarray = weights[np.arange(prod(shape)).reshape(shape).transpose(_CHANNELS_FIRST).reshape(-1)]
    return rows


def _find_scale(agent: Sb2Agent) -> tuple[float, float]:
    """Return what SB2 multiplies observations by, and adds, before the CNN, except for SB3's division by 255.

    SB2 computes ``(x - low) / (high - low)`` unless a bound is infinite or both are equal everywhere.

    :raises UnsupportedError: when pixels have different bounds
    """
    space = agent.model.observation_space
    if space.bounds is None or space.is_image():
        return 1.0, 0.0
    low, high = map(unpack_items, space.bounds)
    if any(abs(bound) == inf for bound in (*low, *high)) or low == high:
        return 1.0, 0.0
    if len(set(low)) > 1 or len(set(high)) > 1:
        message = "it scales images by bounds that differ between pixels, which SB3 does not"
        raise UnsupportedError(message)
    lower, upper = (bound.to_numpy().reshape(-1)[:1] for bound in space.bounds)
    with np.errstate(over="ignore"):  # integers overflow in SB2, too
        extent = float((upper - lower)[0])
    if extent == 0:
        message = "the bounds of its images overflow"
        raise UnsupportedError(message)
    return 1.0 / extent, -float(lower[0]) / extent


def _transpose(space: Box) -> Box:
    """Return a space of images with the channels first."""
    height, width, channels = space.shape
    flags = (space.bounded_below, space.bounded_above)
    below, above = (None if flag is None else _transpose_array(flag) for flag in flags)
    low, high = _transpose_array(space.low), _transpose_array(space.high)
    return Box(space.library, (channels, height, width), space.dtype, low, high, None, below, above)


def _transpose_array(bounds: ArrayInfo) -> ArrayInfo:
    array = np.ascontiguousarray(np.transpose(bounds.to_numpy(), _CHANNELS_FIRST))
    return ArrayInfo(array.dtype.str, array.shape, "C", array.tobytes(), is_scalar=False)
