"""Activation functions of TensorFlow, which ``act_fun`` of a policy refers to by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import UnsupportedError, quote
from sbformat.formats.sb2.policies import named_class

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.policies.builder import GraphBuilder, Value

_PACKAGES: Final = ("tensorflow", "tensorflow_core")
"""TensorFlow 1.15 is installed under the second name, too."""
_SELU: Final = {"alpha": 1.6732632423543772, "gamma": 1.0507009873554805}

_OPERATORS: Final[Mapping[str, tuple[tuple[str, Mapping[str, Any]], ...]]] = {
    "elu": (("Elu", {"alpha": 1.0}),),
    "exp": (("Exp", {}),),
    "exponential": (("Exp", {}),),
    "hard_sigmoid": (("HardSigmoid", {"alpha": 0.2, "beta": 0.5}),),
    "identity": (),
    "leaky_relu": (("LeakyRelu", {"alpha": 0.2}),),
    "linear": (),
    "log_softmax": (("LogSoftmax", {"axis": -1}),),
    "relu": (("Relu", {}),),
    "relu6": (("Relu", {}),),
    "selu": (("Selu", _SELU),),
    "sigmoid": (("Sigmoid", {}),),
    "softmax": (("Softmax", {"axis": -1}),),
    "softplus": (("Softplus", {}),),
    "softsign": (("Softsign", {}),),
    "swish": (("Sigmoid", {}),),
    "tanh": (("Tanh", {}),),
}
"""What each function consists of; ``relu6`` and ``swish`` have one more operand, see :func:`activate`."""


def read_activation(value: object) -> str:
    """Return the name of an activation: a key of the table.

    :param value: ``act_fun`` as :mod:`sbformat.values` decodes it, or a name such as ``relu``
    :raises UnsupportedError: when it is not a function of TensorFlow, or not an activation
    """
    pair = named_class(value)
    if pair is not None and pair[0].partition(".")[0] in _PACKAGES:
        value = pair[1]
    if isinstance(value, str) and value in _OPERATORS:
        return value
    shown = ".".join(pair) if pair else getattr(value, "name", None) or type(value).__name__
    message = f"the activation {quote(shown, 120)} is not known; available: {', '.join(_OPERATORS)}"
    raise UnsupportedError(message)


def activate(builder: GraphBuilder, name: str, value: Value, module: str) -> Value:
    """Apply an activation.

    :param name: as :func:`read_activation` returns it
    :param module: the layer before it
    """
    made = value
    for op, attributes in _OPERATORS[name]:
        made = builder.add(op, made, module=module, **attributes)
    if name == "relu6":
        return builder.add("Min", made, builder.constant(6.0), module=module)
    return builder.add("Mul", value, made, module=module) if name == "swish" else made
