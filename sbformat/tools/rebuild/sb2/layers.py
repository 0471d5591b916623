"""The linear layers of SB2 as torch has them: weights (outputs, inputs)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.constants import SB2_PARAMETERS_ENTRY
from sbformat.errors import UnsupportedError
from sbformat.tools.rebuild.report import Row
from sbformat.tools.rebuild.sb2.folding import Linear

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np

    from sbformat.formats.sb2.networks import Variable
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


def has_variables(agent: Sb2Agent, variables: Iterable[Variable]) -> bool:
    """Return whether the file has all of these variables, with these shapes."""
    tensors = agent.model.tensors
    return all(name in tensors and tuple(tensors[name].shape) == shape for name, shape in variables)


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


def read_linear(agent: Sb2Agent, scope: str, words: tuple[str, str]) -> Linear:
    """Return a layer.

    :param words: the names of weights and bias in SB2: ``LINEAR``, ``DENSE`` or ``CONNECTED``
    """
    weight, bias = (agent.array(f"{scope}/{word}:0") for word in words)
    return Linear(weight.T.copy(), bias.reshape(-1))


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
