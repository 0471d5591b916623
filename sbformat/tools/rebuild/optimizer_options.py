"""What each optimizer of torch stores: the options of a group, and the state of a parameter (REBUILDING.md 15.5).

Sources: ``torch/optim/*.py`` of torch 1.11 to 2.13 (``defaults``, ``__setstate__``, ``step``), SB3
``common/sb2_compat/rmsprop_tf_like.py``.
``load_state_dict`` replaces its own groups with the saved ones without a check; ``__setstate__`` adds the options that
later releases of torch introduced, and ``step`` raises for options that are still missing.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from sbformat.pkl.numpy import ArrayInfo
from sbformat.pth.values import TensorInfo

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.pkl.names import Pair

Shape: TypeAlias = Literal["scalar", "parameter"]


class OptimizerClass(NamedTuple):
    """What a class of optimizer stores."""

    defaults: Mapping[str, Any]
    """The options that ``step`` reads and that torch does not add by itself, with the defaults of the constructor."""
    state: Mapping[str, Shape]
    """The state of a parameter after its first step: numbers (``scalar``) or tensors of the parameter's shape."""
    on_demand: Mapping[str, str] = {}
    """Further tensors of the parameter's shape, each with the option that enables it."""
    keywords: frozenset[str] = frozenset()
    """Further arguments of the constructor."""


_FLAGS: Final = frozenset({"foreach", "maximize", "capturable", "differentiable"})
_STEP: Final[Mapping[str, Shape]] = {"step": "scalar"}
_BETAS: Final = {"betas": (0.9, 0.999), "eps": 1e-8}


def _adam(weight_decay: float, *flags: str) -> OptimizerClass:
    return OptimizerClass(
        {"lr": 1e-3, **_BETAS, "weight_decay": weight_decay},
        {**_STEP, "exp_avg": "parameter", "exp_avg_sq": "parameter"},
        {"max_exp_avg_sq": "amsgrad"},
        _FLAGS | {"fused", "amsgrad", *flags},
    )


_RMSPROP: Final = OptimizerClass(
    {"lr": 1e-2, "momentum": 0, "alpha": 0.99, "eps": 1e-8, "weight_decay": 0},
    {**_STEP, "square_avg": "parameter"},
    {"momentum_buffer": "momentum", "grad_avg": "centered"},
    frozenset({"centered"}),
)

ADAM: Final[Pair] = ("torch.optim.adam", "Adam")
OPTIMIZERS: Final[Mapping[Pair, OptimizerClass]] = {
    ADAM: _adam(0, "decoupled_weight_decay"),
    ("torch.optim.adamw", "AdamW"): _adam(1e-2),
    ("torch.optim.rmsprop", "RMSprop"): _RMSPROP._replace(keywords=_FLAGS | {"centered"}),
    ("stable_baselines3.common.sb2_compat.rmsprop_tf_like", "RMSpropTFLike"): _RMSPROP,
    ("torch.optim.sgd", "SGD"): OptimizerClass(
        {"lr": 1e-3, "momentum": 0, "dampening": 0, "weight_decay": 0},
        {},  # a missing momentum_buffer is created
        keywords=(_FLAGS - {"capturable"}) | {"fused", "nesterov"},
    ),
    ("torch.optim.adadelta", "Adadelta"): OptimizerClass(
        {"lr": 1.0, "rho": 0.9, "eps": 1e-6, "weight_decay": 0},
        {**_STEP, "square_avg": "parameter", "acc_delta": "parameter"},
        keywords=_FLAGS,
    ),
    ("torch.optim.adagrad", "Adagrad"): OptimizerClass(
        {"lr": 1e-2, "lr_decay": 0, "eps": 1e-10, "weight_decay": 0, "initial_accumulator_value": 0},
        {**_STEP, "sum": "parameter"},
        keywords=(_FLAGS - {"capturable"}) | {"fused"},
    ),
    ("torch.optim.adamax", "Adamax"): OptimizerClass(
        {"lr": 2e-3, **_BETAS, "weight_decay": 0},
        {**_STEP, "exp_avg": "parameter", "exp_inf": "parameter"},
        keywords=_FLAGS,
    ),
    ("torch.optim.asgd", "ASGD"): OptimizerClass(
        {"lr": 1e-2, "lambd": 1e-4, "alpha": 0.75, "t0": 1e6, "weight_decay": 0},
        {**_STEP, "eta": "scalar", "mu": "scalar", "ax": "parameter"},
        keywords=_FLAGS,
    ),
    ("torch.optim.nadam", "NAdam"): OptimizerClass(
        {"lr": 2e-3, **_BETAS, "weight_decay": 0, "momentum_decay": 4e-3},
        {**_STEP, "mu_product": "scalar", "exp_avg": "parameter", "exp_avg_sq": "parameter"},
        keywords=_FLAGS | {"decoupled_weight_decay"},
    ),
    ("torch.optim.radam", "RAdam"): OptimizerClass(
        {"lr": 1e-3, **_BETAS, "weight_decay": 0},
        {**_STEP, "exp_avg": "parameter", "exp_avg_sq": "parameter"},
        keywords=_FLAGS | {"decoupled_weight_decay"},
    ),
    ("torch.optim.rprop", "Rprop"): OptimizerClass(
        {"lr": 1e-2, "etas": (0.5, 1.2), "step_sizes": (1e-6, 50)},
        {**_STEP, "prev": "parameter", "step_size": "parameter"},
        keywords=_FLAGS,
    ),
}
"""The optimizers that SB3 can use. LBFGS and SparseAdam do not work with its training step, Muon does not support
biases, and Adafactor is newer than the oldest target's torch."""


def list_keywords(pair: Pair) -> dict[str, Any]:
    """Return the arguments of a class other than the learning rate, with their defaults; None for a flag."""
    optimizer = OPTIMIZERS[pair]
    known = {**dict.fromkeys(optimizer.keywords), **optimizer.defaults}
    return {name: default for name, default in known.items() if name != "lr"}


def is_number(value: object) -> bool:
    """Return whether a value is a number of Python or numpy."""
    is_scalar = isinstance(value, ArrayInfo) and value.is_scalar and value.dtype[1] in "fiu"
    return is_scalar or type(value) in (int, float)


def fits_option(name: str, value: Any, default: object) -> bool:
    """Return whether an option has a value of the same kind as its default.

    :param default: of the constructor; None for a flag
    """
    value = value.to_numpy().item() if isinstance(value, ArrayInfo) and value.is_scalar else value
    if name == "lr":  # SB3 sets it before each update
        return type(value) in (int, float)
    if name == "differentiable":  # SB3 cannot train with it
        return not value
    if default is None:
        return value is None or type(value) is bool
    if type(default) is tuple:
        is_pair = type(value) in (list, tuple) and len(value) == len(default)
        is_fine = is_pair and all(map(_is_nonnegative, value))
        return is_fine and (name != "betas" or max(value) < 1)
    return _is_nonnegative(value)


def _is_nonnegative(value: object) -> bool:
    return type(value) in (int, float) and 0 <= value < math.inf  # type: ignore[operator]


def find_wrong_options(optimizer: OptimizerClass, group: Mapping[str, Any]) -> list[str]:
    """Return the options that a group lacks, and those whose values are of another kind."""
    lacking = [name for name in optimizer.defaults if name not in group]
    known = {**dict.fromkeys(optimizer.keywords), **optimizer.defaults}
    wrong = [name for name, default in known.items() if name in group and not fits_option(name, group[name], default)]
    return [*lacking, *wrong]


def fits_parameter(
    optimizer: OptimizerClass, group: Mapping[str, Any], state: Mapping[str, Any], shape: tuple[int, ...] | None
) -> bool:
    """Return whether ``step`` can continue from the state of a parameter.

    :param group: the options of its group
    :param state: the state of the parameter; empty before its first step
    :param shape: the parameter's shape; None when it is not known
    """
    if not state:
        return True
    wanted = dict(optimizer.state)
    wanted.update((name, "parameter") for name, option in optimizer.on_demand.items() if group.get(option))
    has_all = all(
        name in state and (_is_scalar(state[name]) if kind == "scalar" else _has_shape(state[name], shape))
        for name, kind in wanted.items()
    )
    return has_all and all(
        _is_scalar(value) or _has_shape(value, shape) for value in state.values() if isinstance(value, TensorInfo)
    )


def _is_scalar(value: object) -> bool:
    return type(value) in (int, float) or (isinstance(value, TensorInfo) and value.shape in ((), (1,)))


def _has_shape(value: object, shape: tuple[int, ...] | None) -> bool:
    return isinstance(value, TensorInfo) and (shape is None or tuple(value.shape) == tuple(shape))
