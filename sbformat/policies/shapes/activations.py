"""The activations of torch: which are known, the arguments of each, and the parameters of those that have any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.known.table import list_place
from sbformat.known.types import Partial, Reference
from sbformat.policies.shapes.layers import Parameter, Parameters
from sbformat.policies.shapes.sizes import read_size, unknown_value_error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.pkl.names import Pair
    from sbformat.policies.shapes.arguments import Arguments


ACTIVATIONS: Final[Mapping[Pair, tuple[str, ...]]] = {
    pair: tuple(row.arguments) for pair, row in list_place("activation_fn").items()
}
"""Activations, with the arguments that a partial may give them; none of them needs one."""
RELU: Final = ("torch.nn.modules.activation", "ReLU")
TANH: Final = ("torch.nn.modules.activation", "Tanh")
_PRELU: Final = ("torch.nn.modules.activation", "PReLU")
FLATTEN_LAYER: Final = ("torch.nn.modules.flatten", "Flatten")
"""Not an activation, but SB3 accepts it in the place of one, and it has no parameters."""


def activation_parameters(arguments: Arguments, default: Pair) -> Parameters:
    """Return the parameters of ``activation_fn``: none, except for PReLU.

    :param arguments: of the policy
    :param default: the policy's default activation
    :raises UnsupportedError: when the activation is not known
    """
    key = arguments.key("activation_fn")
    value: Any = arguments.values.get("activation_fn", Reference(*default))
    given: Mapping[str, object] = {}
    if type(value) is Partial:
        names = dict(zip(ACTIVATIONS[_PRELU], value.args))
        value, given = value.function, {**names, **value.keywords}
    if not isinstance(value, Reference) or (value.pair not in ACTIVATIONS and value.pair != FLATTEN_LAYER):
        raise unknown_value_error(value, key)
    if value.pair == _PRELU:
        return [Parameter("weight", (read_size(given.get("num_parameters", 1), key),))]
    return []
