"""The activations of torch: which are known, the arguments of each, and the parameters of those that have any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.policies.shapes.layers import Parameter, Parameters
from sbformat.policies.shapes.sizes import read_size, unknown_value_error
from sbformat.values.types import Partial, Reference

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.globals.torch import Pair
    from sbformat.policies.shapes.arguments import Arguments


def _classes(module: str, arguments: str, names: str) -> dict[Pair, tuple[str, ...]]:
    return {(f"torch.nn.modules.{module}", name): tuple(arguments.split()) for name in names.split()}


ACTIVATIONS: Final[Mapping[Pair, tuple[str, ...]]] = {
    **_classes("activation", "", "LogSigmoid Sigmoid Softmax2d Softsign Tanh Tanhshrink"),
    **_classes("activation", "inplace", "Hardsigmoid Hardswish Mish ReLU ReLU6 SELU SiLU"),
    **_classes("activation", "dim", "GLU LogSoftmax Softmax Softmin"),
    **_classes("activation", "alpha inplace", "CELU ELU"),
    **_classes("activation", "lambd", "Hardshrink Softshrink"),
    **_classes("activation", "approximate", "GELU"),
    **_classes("activation", "min_val max_val inplace", "Hardtanh"),
    **_classes("activation", "negative_slope inplace", "LeakyReLU"),
    **_classes("activation", "num_parameters init", "PReLU"),
    **_classes("activation", "lower upper inplace", "RReLU"),
    **_classes("activation", "beta threshold", "Softplus"),
    **_classes("dropout", "p inplace", "AlphaDropout Dropout FeatureAlphaDropout"),
    **_classes("linear", "", "Identity"),
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
