"""The layers of SB2's networks as torch has them: weights (outputs, inputs), and activations of ``torch.nn``."""

from __future__ import annotations

from math import inf, prod
from typing import TYPE_CHECKING, Final

import numpy as np

from sbformat.constants import SB2_PARAMETERS_ENTRY
from sbformat.errors import UnsupportedError
from sbformat.immutable import Record
from sbformat.known.numpy import unpack_items
from sbformat.known.spaces import Box, DictSpace
from sbformat.known.types import Partial, Reference
from sbformat.nets import activations, sb2
from sbformat.nets.arguments import flattened_size
from sbformat.nets.sb2 import CONVOLUTIONS, convolve
from sbformat.nets.sb2_agents import GOAL_KEYS
from sbformat.pkl.numpy import ArrayInfo
from sbformat.tools.rebuild.rebuild_report import Row
from sbformat.tools.rebuild.sb2.folding import Linear

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sbformat.known.spaces import Space
    from sbformat.nets.sb2 import Cnn, InputStage, Variable
    from sbformat.tools.rebuild.sb2.conversion import Sb2Agent


_STRIDE: Final = 2
"""Of the numbers of layers in torch's ``Sequential``: an activation is between two of them."""


def refuse_layer_norm(*, is_normed: bool) -> None:
    """Refuse a network with layer normalization.

    :raises UnsupportedError: when it has any
    """
    if is_normed:
        message = "its layers are normalized (LayerNorm), and SB3 has no policy with such layers"
        raise UnsupportedError(message)


def require_variables(agent: Sb2Agent, variables: Iterable[Variable]) -> None:
    """Check that the file has all of these variables, with these shapes.

    :raises UnsupportedError: for the first that it does not have
    """
    for name, shape in variables:
        info = agent.model.tensors.get(name)
        if info is None or tuple(info.shape) != shape:
            shown = "it is missing" if info is None else f"got {tuple(info.shape)}"
            message = f"expected the parameter {name} of the shape {shape}, {shown}"
            raise UnsupportedError(message)


def convert_activation(agent: Sb2Agent, default: str) -> dict[str, object]:
    """Return ``activation_fn`` among the arguments of SB3's policy; none if it is the default.

    :param default: of both, by TensorFlow's name: ``tanh``
    :raises UnsupportedError: for an activation that torch does not have
    """
    name = agent.model.read_activation(default)
    found = sb2.ACTIVATIONS[name]
    if isinstance(found, sb2.Function):
        message = f"its activation {name} is not a class of torch.nn"
        raise UnsupportedError(message)
    pair = next(pair for pair in activations.ACTIVATIONS if pair[1] == found.spec.name)
    arguments = dict(found.spec.arguments)
    made = Partial(Reference(*pair), (), arguments) if arguments else Reference(*pair)
    return {} if name == default else {"activation_fn": made}


def read_linear(agent: Sb2Agent, scope: str, layer: sb2.Linear, images: Images | None = None) -> Linear:
    """Return a layer.

    :param images: of the agent, for a layer whose inputs are the flat observation
    """
    weight, bias = (agent.array(f"{scope}/{word}:0") for word in layer.names)
    weight = weight if images is None else images.order(weight)
    return Linear(np.ascontiguousarray(weight.T), bias.reshape(-1))


def read_tower(agent: Sb2Agent, scope: str, tower: sb2.Tower, *heads: str) -> list[Linear]:
    """Return the hidden layers of a network, then its heads.

    :param scope: of the network
    :param heads: by default all
    """
    names = (*tower.names, *(heads or tower.heads))
    return [read_linear(agent, f"{scope}/{name}", tower.layer(name)) for name in names]


def convert_branches(
    agent: Sb2Agent, net: sb2.ActorCriticPolicy, steps: Sequence[sb2.Step], images: Images | None
) -> tuple[dict[str, np.ndarray], dict[str, list[int]]]:
    """Return an actor-critic without its LSTM, and the widths of its hidden layers.

    :param steps: the hidden layers; those that are shared are in both networks
    :param images: of the agent, if the first layers get the flat observation
    """
    arrays: dict[str, np.ndarray] = {}
    heads: dict[str, np.ndarray] = {}
    widths: dict[str, list[int]] = {}
    if isinstance(net.pi, sb2.GaussianLinear):
        arrays["log_std"] = agent.array(f"{net.scope}/pi/logstd:0").reshape(-1)
    if net.inputs.cnn is not None:
        arrays |= convert_cnn(agent, net.inputs.cnn, net.scope, "features_extractor")
    for branch, module, head in (("pi", "policy_net", "action_net"), ("vf", "value_net", "value_net")):
        own = [step for step in steps if step.branch in ("both", branch)]
        layers = [
            read_linear(agent, f"{net.scope}/{name}", getattr(net, name), None if at else images)
            for at, name in enumerate([*(step.name for step in own), branch])
        ]
        arrays |= name_layers(f"mlp_extractor.{module}", layers[:-1])
        heads |= name_layer(head, layers[-1])
        widths[branch] = [step.width for step in own]
    return arrays | heads, widths


def name_layers(prefix: str, layers: Iterable[Linear]) -> dict[str, np.ndarray]:
    """Return the layers of a ``Sequential`` by name: ``prefix.0.weight``, ``prefix.0.bias``, ``prefix.2.weight``."""
    made = {}
    for number, layer in enumerate(layers):
        made.update(name_layer(f"{prefix}.{_STRIDE * number}", layer))
    return made


def name_layer(name: str, layer: Linear) -> dict[str, np.ndarray]:
    """Return one layer by name."""
    return {f"{name}.weight": layer.weight, f"{name}.bias": layer.bias}


def copied_row(name: str, instead: str) -> Row:
    """Return a row about networks that the file does not have, or not completely.

    :param name: of their scope
    :param instead: what the result has
    """
    return Row(SB2_PARAMETERS_ENTRY, name, "dropped", "the file does not have all of it", instead, is_finding=True)


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


class Inputs(Record):
    """The observations of SB2 and those of SB3."""

    kind: str
    """``Mlp``, ``Cnn`` or ``MultiInput``: the start of the name of SB3's policy."""
    space: Space | None
    """The observation space that SB3 saves; None if it is the file's."""
    columns: np.ndarray
    """The position in SB3's flattened observation of each item of SB2's; int64. Of a CNN, those of its features."""
    policy_kwargs: Mapping[str, object]
    """Arguments that the policy needs so that the networks get the observations as in SB2."""
    rows: tuple[Row, ...]
    """What the user has to do differently."""
    cnn: Cnn | None

    @property
    def size(self) -> int:
        """The number of items, of a CNN its features."""
        return len(self.columns)

    def convert_cnn(self, agent: Sb2Agent, scope: str, module: str) -> dict[str, np.ndarray]:
        """Return the features extractor of a module: SB2's CNN in a scope, or nothing.

        :raises UnsupportedError: when SB3 has no such CNN
        """
        return {} if self.cnn is None else convert_cnn(agent, self.cnn, scope, f"{module}.features_extractor")


def read_inputs(agent: Sb2Agent, inputs: InputStage) -> Inputs:
    """Return how SB3 gives an agent its observations.

    :param inputs: the input stage of its network
    :raises UnsupportedError: when SB3 cannot give them to a network as SB2 does
    """
    if agent.model.goal_space is not None and inputs.cnn is None:
        return _read_goals(agent.model.goal_space, inputs.width)
    images = describe_images(agent, inputs.cnn)
    columns = np.arange(inputs.width)
    if inputs.cnn is not None:
        return Inputs("Cnn", images.space, columns, images.policy_kwargs, images.rows, inputs.cnn)
    order = images.order(columns)  # of SB2's items in SB3
    columns[order] = np.arange(inputs.width)
    return Inputs("Mlp", images.space, columns, images.policy_kwargs, images.rows, None)


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
    return Inputs("MultiInput", DictSpace("gymnasium", ordered, None), columns, {}, (), None)
