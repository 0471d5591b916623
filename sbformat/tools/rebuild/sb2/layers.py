"""The layers of SB2's networks as torch has them, and the observations as SB3 gives them to its networks.

In: an agent, and its network as a tree of modules (:mod:`sbformat.nets.sb2`). Out: lists of arrays in the order of
SB3's state dict, which has their names; weights are (outputs, inputs). SB3 has its own order of an observation's items:
it sorts the parts of a Dict, and moves the channels of images first where ``is_image_space`` and
``is_image_space_channels_first`` of its ``preprocessing`` say so (``VecTransposeImage`` around environments,
``maybe_transpose`` in ``predict``), whatever the policy is, and saves the transposed space. So the columns of the first
layers are reordered. It divides images by 255 unless ``normalize_images`` is False; any other scale of SB2 goes into
the first convolution.
"""

from __future__ import annotations

from itertools import chain
from math import inf, prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sbformat.constants import SB2_PARAMETERS_ENTRY
from sbformat.errors import UnsupportedError
from sbformat.immutable import Record
from sbformat.known.numpy import unpack_items
from sbformat.known.spaces import Box, DictSpace
from sbformat.known.types import Partial, Reference
from sbformat.nets import layers, sb2
from sbformat.nets.arguments import flattened_size
from sbformat.nets.sb2_agents import GOAL_KEYS
from sbformat.pkl.numpy import ArrayInfo
from sbformat.tools.rebuild.rebuild_report import Row
from sbformat.tools.rebuild.sb2.folding import Linear

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sbformat.known.spaces import Space
    from sbformat.tools.rebuild.sb2.conversion import Sb2Agent

_CHANNELS_FIRST: Final = (2, 0, 1)

# -- observations -------------------------------------------------------------------------------------


class Inputs(Record):
    """The observations of SB2 and those of SB3."""

    kind: str
    """``Mlp``, ``Cnn`` or ``MultiInput``: the start of the name of SB3's policy."""
    space: Space | None
    """The observation space that SB3 saves; None if it is the file's."""
    columns: np.ndarray
    """The position in SB3's flattened observation of each item of SB2's; int64. Of a CNN, those of its features."""
    policy_kwargs: Mapping[str, object] = {}
    """Arguments that the policy needs so that the networks get the observations as in SB2."""
    rows: tuple[Row, ...] = ()
    """What the user has to do differently."""
    cnn: sb2.Cnn | None = None

    @property
    def size(self) -> int:
        """The number of items, of a CNN its features."""
        return len(self.columns)


def read_inputs(agent: Sb2Agent, inputs: sb2.InputStage) -> Inputs:
    """Return how SB3 gives an agent its observations.

    :param inputs: the input stage of its network
    """
    cnn, columns = inputs.cnn, np.arange(inputs.width)
    if agent.model.goal_space is not None and cnn is None:
        return _read_goals(agent.model.goal_space, inputs.width)
    space = agent.model.observation_space
    is_bytes = space.is_image()
    if not isinstance(space, Box) or len(space.shape) != len(_CHANNELS_FIRST) or (cnn is None and not is_bytes):
        return Inputs("Mlp" if cnn is None else "Cnn", None, columns, cnn=cnn)
    is_transposed = space.shape.index(min(space.shape)) != 0
    unscaled = {"normalize_images": False}
    if cnn is None:
        if not is_transposed:
            return Inputs("Mlp", None, columns, unscaled)
        columns[_order_channels(space.shape)] = np.arange(inputs.width)
        return Inputs("Mlp", _transpose(space), columns, unscaled)
    transposed, rows = _transpose(space), []
    if not is_bytes or not is_transposed:
        message = "SB3 transposes only images of bytes from 0 to 255 whose height is not their shortest side"
        shown = f"observations of the shape {transposed.shape}: transpose those of the environment"
        rows.append(Row("data", "observation_space", "translated", message, shown, str(space.shape), is_finding=True))
    return Inputs("Cnn", transposed, columns, {} if is_bytes else unscaled, tuple(rows), cnn)


def _read_goals(space: Space, width: int) -> Inputs:
    """Return the parts of a goal environment's observation in the order of SB3's Dict, which sorts its keys.

    :param width: of the observation that SB2 made of them
    """
    sizes = {}
    parts = space.parts()
    for key in GOAL_KEYS:
        part = parts.get(key)
        if part is None:
            message = f"the goal environment's observation has no part {key!r}"
            raise UnsupportedError(message)
        if part.is_image():
            message = f"SB3 makes a CNN for the images of the part {key!r}"
            raise UnsupportedError(message)
        sizes[key] = int(flattened_size(part, key))
    if sum(sizes.values()) != width:
        total = sum(sizes.values())
        message = f"the parts of the goal environment's observation have {total} items, its network gets {width}"
        raise UnsupportedError(message)
    starts, start = {}, 0
    for key in sorted(sizes):
        starts[key], start = start, start + sizes[key]
    columns = np.concatenate([np.arange(starts[key], starts[key] + size) for key, size in sizes.items()])
    ordered = {key: parts[key] for key in sorted(sizes)}
    return Inputs("MultiInput", DictSpace("gymnasium", ordered, None), columns)


def _order_channels(shape: Sequence[int]) -> np.ndarray:
    """Return the positions of an image's items, of the shape height, width, channels, with the channels first."""
    order: np.ndarray = np.arange(prod(shape)).reshape(shape).transpose(_CHANNELS_FIRST).reshape(-1)
    return order


def _transpose(space: Box) -> Box:
    """Return a space of images with the channels first."""

    def transpose(bounds: Any) -> Any:
        if bounds is None:
            return None
        array = np.ascontiguousarray(np.transpose(bounds.to_numpy(), _CHANNELS_FIRST))
        return ArrayInfo(array.dtype.str, array.shape, "C", array.tobytes(), is_scalar=False)

    height, width, channels = space.shape
    low, high, *flags = map(transpose, (space.low, space.high, space.bounded_below, space.bounded_above))
    return Box(space.library, (channels, height, width), space.dtype, low, high, None, *flags)


# -- layers -------------------------------------------------------------------------------------------


def flatten(layers: Iterable[Linear]) -> list[np.ndarray]:
    """Return the weight and the bias of each layer."""
    return list(chain.from_iterable(layers))


def read_linear(agent: Sb2Agent, scope: str, layer: sb2.Linear, inputs: Inputs | None = None) -> Linear:
    """Return a layer.

    :param inputs: of the agent, for a layer that gets them
    """
    weight, bias = (agent.array(f"{scope}/{word}:0") for word in layer.names)
    if inputs is not None:
        weight = order_rows(weight, inputs)
    return Linear(np.ascontiguousarray(weight.T), bias.reshape(-1))


def order_rows(weight: np.ndarray, inputs: Inputs) -> np.ndarray:
    """Return the weights of a first layer, a row for each item of SB2's observation, in the order of SB3's."""
    made = np.empty_like(weight)
    made[inputs.columns] = weight
    return made


def read_tower(agent: Sb2Agent, scope: str, tower: sb2.Tower, *heads: str) -> list[Linear]:
    """Return the hidden layers of a network, then its heads; by default all."""
    names = (*tower.names, *(heads or tower.heads))
    return [read_linear(agent, f"{scope}/{name}", tower.layer(name)) for name in names]


def read_cnn(agent: Sb2Agent, cnn: sb2.Cnn | None, scope: str) -> list[np.ndarray]:
    """Return the CNN of the Nature paper as SB3's ``NatureCNN``; nothing without a CNN.

    Filters are (height, width, channels, filters) in SB2, (filters, channels, height, width) in torch. The features of
    an image are in the order height, width, channels in SB2, and channels, height, width in SB3.

    :param scope: of the layers: ``model``
    """
    if cnn is None:
        return []
    if cnn.is_padded:
        message = 'its CNN pads images (pad="SAME"), which SB3\'s NatureCNN does not'
        raise UnsupportedError(message)
    sides = agent.model.observation_space.shape[:2]
    arrays: list[np.ndarray] = []
    scale, shift = _find_scale(agent)
    channels = 0
    for name, size, stride, filters in sb2.CONVOLUTIONS:
        weights = agent.array(f"{scope}/{name}/w:0").transpose(3, 2, 0, 1).astype(np.float64)
        bias = agent.array(f"{scope}/{name}/b:0").reshape(-1).astype(np.float64)
        if not arrays:
            bias = bias + weights.sum(axis=(1, 2, 3)) * shift
            weights = weights * scale
        arrays += [np.ascontiguousarray(weights, dtype=np.float32), bias.astype(np.float32)]
        sides = tuple(sb2.convolve(side, size, stride, is_padded=False) for side in sides)
        channels = filters
    weights = agent.array(f"{scope}/fc1/w:0")[_order_channels((*sides, channels))]
    return [*arrays, np.ascontiguousarray(weights.T), agent.array(f"{scope}/fc1/b:0").reshape(-1)]


def _find_scale(agent: Sb2Agent) -> tuple[float, float]:
    """Return what SB2 multiplies observations by, and adds, before the CNN, except for SB3's division by 255.

    SB2 computes ``(x - low) / (high - low)`` unless a bound is infinite or both are equal everywhere.
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


_GATES: Final = (0, 1, 3, 2)
"""The gates of torch, by their position in SB2."""


def read_lstm(agent: Sb2Agent, scope: str, inputs: Inputs) -> list[np.ndarray]:
    """Return an LSTM as torch has it: the same cell, with its gates in another order and two biases instead of one.

    SB2      input, forget, output, candidate      x @ wx + h @ wh + b
    torch    input, forget, candidate, output      weight_ih @ x + bias_ih + weight_hh @ h + bias_hh
    """

    def order_gates(rows: np.ndarray) -> np.ndarray:
        parts = np.split(rows, len(_GATES))
        return np.ascontiguousarray(np.concatenate([parts[gate] for gate in _GATES]))

    weights = order_rows(agent.array(f"{scope}/wx:0"), inputs)
    bias = order_gates(agent.array(f"{scope}/b:0").reshape(-1))
    return [order_gates(weights.T), order_gates(agent.array(f"{scope}/wh:0").T), bias, np.zeros_like(bias)]


def convert_activation(agent: Sb2Agent, default: str) -> dict[str, object]:
    """Return ``activation_fn`` among the arguments of SB3's policy; none if it is the default.

    :param default: of both, by TensorFlow's name: ``tanh``
    """
    name = agent.model.read_activation(default)
    found = sb2.ACTIVATIONS[name]
    if isinstance(found, sb2.Function):
        message = f"its activation {name} is not a class of torch.nn"
        raise UnsupportedError(message)
    pair = next(pair for pair in layers.ACTIVATIONS if pair[1] == found.spec.name)
    arguments = dict(found.spec.arguments)
    made = Partial(Reference(*pair), (), arguments) if arguments else Reference(*pair)
    return {} if name == default else {"activation_fn": made}


# -- what a file has to have --------------------------------------------------------------------------


def require_variables(agent: Sb2Agent, variables: Iterable[sb2.Variable]) -> None:
    """Check that the file has all of these variables, with these shapes."""
    for name, shape in variables:
        info = agent.model.tensors.get(name)
        if info is None or tuple(info.shape) != shape:
            shown = "it is missing" if info is None else f"got {tuple(info.shape)}"
            message = f"expected the parameter {name} of the shape {shape}, {shown}"
            raise UnsupportedError(message)


def copied_row(name: str, instead: str) -> Row:
    """Return a row about networks of a scope that the file does not have completely, and what the result has."""
    return Row(SB2_PARAMETERS_ENTRY, name, "dropped", "the file does not have all of it", instead, is_finding=True)
