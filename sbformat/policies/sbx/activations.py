"""The activations of jax as those of torch, by the names of jax's functions.

Source: jax ``_src/nn/functions.py``, and ``tanh`` of ``_src/numpy/ufuncs.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.errors import UnsupportedError
from sbformat.known.types import Reference
from sbformat.nets.activations import Spec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.formats.sbx.modules import Module

ACTIVATIONS: Final[Mapping[str, Spec]] = {
    "tanh": Spec("Tanh"),
    "relu": Spec("ReLU"),
    "relu6": Spec("ReLU6"),
    "elu": Spec("ELU"),
    "celu": Spec("CELU"),
    "selu": Spec("SELU"),
    "silu": Spec("SiLU"),
    "swish": Spec("SiLU"),
    "gelu": Spec("GELU", {"approximate": "tanh"}),
    "leaky_relu": Spec("LeakyReLU"),
    "sigmoid": Spec("Sigmoid"),
    "log_sigmoid": Spec("LogSigmoid"),
    "softplus": Spec("Softplus"),
    "soft_sign": Spec("Softsign"),
    "hard_tanh": Spec("Hardtanh"),
    "hard_sigmoid": Spec("Hardsigmoid"),
    "hard_silu": Spec("Hardswish"),
    "hard_swish": Spec("Hardswish"),
    "mish": Spec("Mish"),
}
"""By the name of jax's function, with jax's default arguments."""


_PPO: Final = "sbx.ppo.policies"


def find_activation(module: Module, given: object = None) -> Spec:
    """Return the activation of a network.

    :param given: the class of torch's activation that the caller supplies, or None
    :raises UnsupportedError: for a function that is not known
    """
    if isinstance(given, Reference):
        return Spec(given.name)
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
