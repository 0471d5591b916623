"""The activations of TensorFlow as classes of torch that compute the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.errors import UnsupportedError
from sbformat.policies.sb2.activations import read_activation
from sbformat.values.types import Partial, Reference

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.tools.rebuild.sb2.interface import Sb2Agent

_MODULE: Final = "torch.nn.modules.activation"
_CLASSES: Final[Mapping[str, tuple[Reference, Mapping[str, object]]]] = {
    "elu": (Reference(_MODULE, "ELU"), {}),
    "identity": (Reference("torch.nn.modules.linear", "Identity"), {}),
    "leaky_relu": (Reference(_MODULE, "LeakyReLU"), {"negative_slope": 0.2}),
    "linear": (Reference("torch.nn.modules.linear", "Identity"), {}),
    "log_softmax": (Reference(_MODULE, "LogSoftmax"), {"dim": -1}),
    "relu": (Reference(_MODULE, "ReLU"), {}),
    "relu6": (Reference(_MODULE, "ReLU6"), {}),
    "selu": (Reference(_MODULE, "SELU"), {}),
    "sigmoid": (Reference(_MODULE, "Sigmoid"), {}),
    "softmax": (Reference(_MODULE, "Softmax"), {"dim": -1}),
    "softplus": (Reference(_MODULE, "Softplus"), {}),
    "softsign": (Reference(_MODULE, "Softsign"), {}),
    "swish": (Reference(_MODULE, "SiLU"), {}),
    "tanh": (Reference(_MODULE, "Tanh"), {}),
}
"""By the name of the function: the class, and the arguments with which it computes the same."""


def find_activation(agent: Sb2Agent, default: str) -> str:
    """Return the name of the function that a policy has after its hidden layers.

    :param default: of the algorithm
    :raises UnsupportedError: when it is not known
    """
    return read_activation(agent.model.policy.settings.get("act_fun", default))


def torch_activation(name: str) -> Reference | Partial:
    """Return ``activation_fn`` for a function of TensorFlow.

    :param name: as :func:`find_activation` returns it
    :raises UnsupportedError: when torch has no such class
    """
    if name not in _CLASSES:
        message = f"torch has no activation that computes what TensorFlow's {name} does"
        raise UnsupportedError(message)
    cls, arguments = _CLASSES[name]
    return Partial(cls, (), dict(arguments)) if arguments else cls
