"""The layers of SB2's networks as torch has them: weights (outputs, inputs), and activations of ``torch.nn``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from sbformat.constants import SB2_PARAMETERS_ENTRY
from sbformat.errors import UnsupportedError
from sbformat.known.types import Partial, Reference
from sbformat.nets import layers, sb2
from sbformat.tools.rebuild.report import Row
from sbformat.tools.rebuild.sb2.folding import Linear
from sbformat.tools.rebuild.sb2.images import convert_cnn

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sbformat.nets.sb2 import Variable
    from sbformat.tools.rebuild.sb2.images import Images
    from sbformat.tools.rebuild.sb2.interface import Sb2Agent

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
    pair = next(pair for pair in layers.ACTIVATIONS if pair[1] == found.spec.name)
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
