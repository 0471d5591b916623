"""Whether torch's optimizers can continue from what a file stores for them (REBUILDING.md 15.5).

``load_state_dict`` replaces its own groups with the saved ones without a check; ``__setstate__`` adds the options that
later releases of torch introduced, and ``step`` raises for options that are still missing.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from sbformat.known.table import list_place
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pth.values import TensorInfo

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.known.rows import Known
    from sbformat.pkl.names import Pair

ADAM: Final[Pair] = ("torch.optim.adam", "Adam")
OPTIMIZERS: Final = list_place("optimizer_class")
"""The optimizers that SB3 can use."""


def list_defaults(optimizer: Known) -> dict[str, Any]:
    """Return the options that a group needs, with the defaults of the constructor; SB3 sets ``lr``, whatever it is."""
    return {"lr": 1e-3, **{name: default for name, default in optimizer.arguments.items() if default is not None}}


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


def find_wrong_options(optimizer: Known, group: Mapping[str, Any]) -> list[str]:
    """Return the options that a group lacks, and those whose values are of another kind."""
    needed = list_defaults(optimizer)
    lacking = [name for name in needed if name not in group]
    known = {**optimizer.arguments, **needed}
    wrong = [name for name, default in known.items() if name in group and not fits_option(name, group[name], default)]
    return [*lacking, *wrong]


_ALWAYS: Final = ("scalar", "parameter")


def fits_parameter(
    optimizer: Known, group: Mapping[str, Any], state: Mapping[str, Any], shape: tuple[int, ...] | None
) -> bool:
    """Return whether ``step`` can continue from the state of a parameter.

    :param group: the options of its group
    :param state: the state of the parameter; empty before its first step
    :param shape: the parameter's shape; None when it is not known
    """
    if not state:
        return True
    has_all = all(
        name in state and (_is_scalar(state[name]) if kind == "scalar" else _has_shape(state[name], shape))
        for name, kind in optimizer.stores.items()
        if kind in _ALWAYS or group.get(kind)
    )
    return has_all and all(
        _is_scalar(value) or _has_shape(value, shape) for value in state.values() if isinstance(value, TensorInfo)
    )


def _is_scalar(value: object) -> bool:
    return type(value) in (int, float) or (isinstance(value, TensorInfo) and value.shape in ((), (1,)))


def _has_shape(value: object, shape: tuple[int, ...] | None) -> bool:
    return isinstance(value, TensorInfo) and (shape is None or tuple(value.shape) == tuple(shape))
