"""The activations of jax as those of torch, by the names of jax's functions.

Source: jax ``_src/nn/functions.py``, and ``tanh`` of ``_src/numpy/ufuncs.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.errors import UnsupportedError
from sbformat.known.types import Reference
from sbformat.policies.sb3.activations import Activation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.formats.sbx.modules import Module

ACTIVATIONS: Final[Mapping[str, Activation]] = {
    "tanh": Activation("Tanh"),
    "relu": Activation("ReLU"),
    "relu6": Activation("ReLU6"),
    "elu": Activation("ELU"),
    "celu": Activation("CELU"),
    "selu": Activation("SELU"),
    "silu": Activation("SiLU"),
    "swish": Activation("SiLU"),
    "gelu": Activation("GELU", {"approximate": "tanh"}),
    "leaky_relu": Activation("LeakyReLU"),
    "sigmoid": Activation("Sigmoid"),
    "log_sigmoid": Activation("LogSigmoid"),
    "softplus": Activation("Softplus"),
    "soft_sign": Activation("Softsign"),
    "hard_tanh": Activation("Hardtanh"),
    "hard_sigmoid": Activation("Hardsigmoid"),
    "hard_silu": Activation("Hardswish"),
    "hard_swish": Activation("Hardswish"),
    "mish": Activation("Mish"),
}
"""By the name of jax's function, with jax's default arguments."""


_PPO: Final = "sbx.ppo.policies"


def find_activation(module: Module, given: object = None) -> Activation:
    """Return the activation of a network.

    :param given: the class of torch's activation that the caller supplies, or None
    :raises UnsupportedError: for a function that is not known
    """
    if isinstance(given, Reference):
        return Activation(given.name)
    name = module.activation
    if name == "":
        return ACTIVATIONS["tanh" if module.pair[0] == _PPO else "relu"]
    if name is None or name not in ACTIVATIONS:
        shown = name or "a function that is not of jax"
        message = (
            f"activation_fn is {shown}, which is not known: pass the name of its class in torch.nn, as in "
            "policy_kwargs={'activation_fn': 'ReLU'}"
        )
        raise UnsupportedError(message)
    return ACTIVATIONS[name]
