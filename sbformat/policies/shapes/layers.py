"""The parameters of torch's layers: names and shapes, in the order of ``state_dict()`` (FORMAT.md 6.8).

Sources: torch ``nn/modules``, SB3 ``common/torch_layers.py``, sb3-contrib ``common/torch_layers.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sbformat.policies.shapes.sizes import Size


class Parameter(NamedTuple):
    """A tensor of a state dict."""

    name: str
    shape: tuple[int, ...]
    is_buffer: bool = False
    """Whether it is part of the state, but no optimizer changes it."""
    same_as: str | None = None
    """For a second name of a tensor, its first name; None for any other."""


Parameters = list[Parameter]
"""The parameters of a module, with names relative to it."""

NATURE_CNN: Final = ((8, 4), (4, 2), (3, 1))
"""Kernel and stride of NatureCNN's three convolutions."""


def add_prefix(prefix: str, parameters: Iterable[Parameter]) -> Parameters:
    """Return a module's parameters under the names that they have in its parent."""
    return [parameter._replace(name=f"{prefix}.{parameter.name}") for parameter in parameters]


def add_alias(prefix: str, first: str, parameters: Iterable[Parameter]) -> Parameters:
    """Return the parameters of a module that its parent has under a second name.

    :param prefix: the second name
    :param first: the first name
    """
    return [
        parameter._replace(name=f"{prefix}.{parameter.name}", same_as=f"{first}.{parameter.name}")
        for parameter in parameters
    ]


def sequential(modules: Iterable[Parameters]) -> Parameters:
    """``Sequential``: modules named by their position."""
    return [parameter for number, module in enumerate(modules) for parameter in add_prefix(str(number), module)]


def linear(inputs: int, outputs: int, *, bias: bool = True) -> Parameters:
    """``Linear``."""
    weight = Parameter("weight", (outputs, inputs))
    return [weight, Parameter("bias", (outputs,))] if bias else [weight]


def convolution(inputs: int, outputs: int, kernel: int) -> Parameters:
    """``Conv2d`` with a square kernel."""
    return [Parameter("weight", (outputs, inputs, kernel, kernel)), Parameter("bias", (outputs,))]


def lstm(
    inputs: int, hidden: int, layers: int, *, bias: bool = True, bidirectional: bool = False, projection: int = 0
) -> Parameters:
    """``LSTM``: four gates in each matrix; with a projection the hidden state is smaller."""
    made: Parameters = []
    state = projection or hidden
    for layer in range(layers):
        size = inputs if layer == 0 else state * (2 if bidirectional else 1)
        for direction in ("", "_reverse") if bidirectional else ("",):
            of = f"l{layer}{direction}"
            made += [
                Parameter(f"weight_ih_{of}", (4 * hidden, size)),
                Parameter(f"weight_hh_{of}", (4 * hidden, state)),
            ]
            made += [Parameter(f"bias_{part}_{of}", (4 * hidden,)) for part in ("ih", "hh") if bias]
            made += [Parameter(f"weight_hr_{of}", (projection, hidden))] if projection else []
    return made


def batch_renorm(size: int) -> Parameters:
    """``BatchRenorm1d`` of sb3-contrib."""
    return [
        Parameter("scale", (size,)),
        Parameter("bias", (size,)),
        Parameter("ra_mean", (size,), is_buffer=True),
        Parameter("ra_var", (size,), is_buffer=True),
        Parameter("steps", (), is_buffer=True),
    ]


def mlp(
    inputs: int,
    outputs: int | None,
    sizes: Sequence[Size],
    activation: Parameters,
    *,
    bias: bool = True,
    renorm: bool = False,
) -> list[Parameters]:
    """Return the modules that SB3's ``create_mlp`` makes.

    :param inputs: features that the first layer receives
    :param outputs: outputs of the last layer, which no activation follows; None without such a layer
    :param sizes: outputs of each hidden layer
    :param activation: the parameters of one activation
    :param bias: whether the layers have a bias
    :param renorm: whether a batch renormalisation precedes each layer
    """
    made: list[Parameters] = []
    for size in sizes:
        made += [batch_renorm(inputs)] if renorm else []
        made += [linear(inputs, size, bias=bias), activation]
        inputs = size
    if outputs is not None:
        made += [batch_renorm(inputs)] if renorm else []
        made.append(linear(inputs, outputs, bias=bias))
    return made
