"""Activations of TensorFlow as those of torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.errors import UnsupportedError
from sbformat.known.types import Partial, Reference
from sbformat.policies.sb2.activations import read_activation

if TYPE_CHECKING:
    from sbformat.tools.rebuild.sb2.interface import Sb2Agent

_MODULE: Final = "torch.nn.modules.activation"


def _torch(name: str) -> Reference:
    return Reference(_MODULE, name)


_IDENTITY: Final = Reference("torch.nn.modules.linear", "Identity")
_TORCH: Final = {
    "elu": _torch("ELU"),
    "identity": _IDENTITY,
    "leaky_relu": Partial(_torch("LeakyReLU"), (), {"negative_slope": 0.2}),  # torch's default is 0.01
    "linear": _IDENTITY,
    "log_softmax": Partial(_torch("LogSoftmax"), (), {"dim": -1}),
    "relu": _torch("ReLU"),
    "relu6": _torch("ReLU6"),
    "selu": _torch("SELU"),
    "sigmoid": _torch("Sigmoid"),
    "softmax": Partial(_torch("Softmax"), (), {"dim": -1}),
    "softplus": _torch("Softplus"),
    "softsign": _torch("Softsign"),
    "swish": _torch("SiLU"),
    "tanh": _torch("Tanh"),
}
"""The class of torch by TensorFlow's name; torch has no exponential, and another hard sigmoid."""


def convert_activation(agent: Sb2Agent, default: str, sb3_default: str) -> dict[str, object]:
    """Return ``activation_fn`` among the arguments of SB3's policy; none if it is SB3's default.

    :param default: TensorFlow's name of SB2's default: ``tanh``
    :param sb3_default: the same for SB3's policy
    :raises UnsupportedError: for an activation that torch does not have
    """
    name = read_activation(agent.model.policy.settings.get("act_fun", default))
    if name not in _TORCH:
        message = f"its activation {name} is not a class of torch.nn"
        raise UnsupportedError(message)
    return {} if name == sb3_default else {"activation_fn": _TORCH[name]}
