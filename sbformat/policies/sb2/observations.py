"""The inputs of a Stable Baselines 2 policy, encoded as ``common/input.py`` does."""

from __future__ import annotations

from functools import partial
from math import inf, isfinite
from typing import TYPE_CHECKING, Final, NamedTuple

from sbformat.errors import UnsupportedError, quote
from sbformat.formats.sb2.policies import UncertainError, read_sizes
from sbformat.known.numpy import to_number, unpack_items
from sbformat.known.rows import UnrecognizedError
from sbformat.policies.builder import numpy_name
from sbformat.policies.graph import Input
from sbformat.policies.normalization import normalize_observation
from sbformat.policies.operators import require
from sbformat.policies.sb2.actions import BOOL
from sbformat.policies.sb2.agents import GOAL_KEYS

if TYPE_CHECKING:
    from sbformat.known.spaces import Bounds, Space
    from sbformat.policies.builder import GraphBuilder, Value
    from sbformat.policies.sb2.agents import Agent
    from sbformat.policies.sb2.layers import Layers

_DTYPE: Final = "float32"
"""What networks compute in."""


def encode_observation(agent: Agent, builder: GraphBuilder, *, is_scaled: bool) -> Value:
    """Add the inputs, and return the observation as the network gets it: float32, in the shape of the space.

    :param is_scaled: whether the network has a CNN, for which SB2 scales a Box to 0 to 1
    """
    space = agent.observation_space
    if agent.goal_space is not None:
        value = _join_goals(agent.goal_space, builder)
        return value if agent.statistics is None else normalize_observation(builder, value, agent.statistics, None)
    value = builder.input(Input("observation", _input_dtype(space), _input_shape(space)))
    if agent.statistics is not None:
        value = normalize_observation(builder, value, agent.statistics, None)
        if space.bounds and not numpy_name(space.dtype).startswith("float"):  # as SB2's placeholder does
            value = builder.add("Cast", value, to=numpy_name(space.dtype))
    value = _encode(space, value, builder)
    return _scale(builder, space.bounds, value) if is_scaled and space.bounds else value


def _join_goals(goals: Space, builder: GraphBuilder) -> Value:
    """Concatenate the parts of a goal environment's observation (``HERGoalEnvWrapper.convert_dict_to_obs``)."""
    parts = []
    for key in GOAL_KEYS:
        space = goals.parts().get(key)
        if space is None or space.distribution in ("", "multi-categorical") or len(space.shape) > 1:
            message = f"expected a vector or a number as the part {key!r} of an observation of HER"
            raise UnsupportedError(message)
        described = Input(f"observation/{key}", _input_dtype(space), _input_shape(space), key=key)
        parts.append(_encode(space, builder.input(described), builder))
    return builder.add("Concat", *parts, axis=-1)


def _input_dtype(space: Space) -> str:
    """Return the dtype that observations are cast to first: that of SB2's placeholder, ``int32`` for integers."""
    if space.observed == "one-hot":
        return "int64"  # OneHot takes it
    return numpy_name(space.dtype) if space.bounds else "int32"


def _input_shape(space: Space) -> tuple[int, ...]:
    return (len(_sizes(space)),) if space.distribution == "multi-categorical" else space.shape


def _sizes(space: Space) -> tuple[int, ...]:
    try:
        return read_sizes(space)
    except UncertainError as reason:
        raise UnsupportedError(str(reason)) from None


def _encode(space: Space, value: Value, builder: GraphBuilder) -> Value:
    """Encode an observation: one-hot for integers, otherwise as float32."""
    if space.distribution == "categorical":
        return builder.add("OneHot", value, depth=space.flat_size())
    if space.observed == "numbers":
        return value if value.dtype == _DTYPE else builder.add("Cast", value, to=_DTYPE)
    parts = []
    for number, size in enumerate(_sizes(space)):
        index = builder.add("Slice", value, axis=-1, start=number, end=number + 1)
        parts.append(builder.add("Reshape", builder.add("OneHot", index, depth=size), shape=(size,)))
    return builder.add("Concat", *parts, axis=-1)


# -- scaling ------------------------------------------------------------------------------------------


def _scale(builder: GraphBuilder, bounds: Bounds, value: Value) -> Value:
    """Scale a Box from its bounds to 0 to 1: ``(x - low) / (high - low)``, if SB2 does.

    It does unless a bound is infinite, or all lower bounds are the upper ones. The difference is computed in the dtype
    of the bounds, where int8 overflows.
    """
    least, most = bounds
    require(least.dtype != BOOL, "expected numbers as bounds of images, got bools")
    lower = builder.weight("observation_space/low", least, "data:observation_space/low")
    upper = builder.weight("observation_space/high", most, "data:observation_space/high")
    low, high = unpack_items(least), unpack_items(most)
    if any(abs(bound) == inf for bound in (*low, *high)) or low == high:
        return value
    if set(low) == {0} and set(high) == {255}:  # images, without large weights
        return builder.add("Div", value, builder.constant(255.0))
    extent = builder.add("Cast", builder.add("Sub", upper, lower), to=_DTYPE)
    return builder.add("Div", builder.add("Sub", value, builder.add("Cast", lower, to=_DTYPE)), extent)


# -- normalization of DDPG ----------------------------------------------------------------------------


class _Statistics(NamedTuple):
    mean: Value
    deviation: Value


_STATISTICS: Final = "input/obs_rms"
_SUMS: Final = tuple(f"{_STATISTICS}/{name}:0" for name in ("count", "runningsum", "runningsumsq"))
_LEAST_VARIANCE: Final = 1e-2
_RANGE: Final = (-5.0, 5.0)


def normalize_for_ddpg(agent: Agent, layers: Layers, value: Value) -> Value:
    """Normalize an observation with DDPG's own statistics, and clip it to ``observation_range``.

    DDPG clips in every case. Releases before 2.5 do not save the statistics, and begin with a mean of 0 and a deviation
    of 1 when they load a file.
    """
    add = partial(layers.builder.add, module=_STATISTICS)
    if agent.data.get("normalize_observations") is True:
        if any(name in agent.tensors for name in _SUMS):
            found = _read_statistics(layers)
            shape = value.shape
            value = add("Div", add("Sub", value, found.mean), found.deviation)
            require(value.shape == shape, f"{_STATISTICS}: expected statistics of the shape {shape}, got others")
        else:
            layers.builder.infer("normalize_observations: the file has no statistics, as SB2 saves them since 2.5")
    for op, bound in zip(("Max", "Min"), read_range(agent.data.get("observation_range", _RANGE))):
        if isfinite(bound):
            value = add(op, value, layers.builder.constant(bound))
    return value


def _read_statistics(layers: Layers) -> _Statistics:
    """Return mean and standard deviation, as ``common/mpi_running_mean_std.py`` computes them from sums."""
    add = partial(layers.builder.add, module=_STATISTICS)
    missing = next((name for name in _SUMS if name not in layers.tensors), None)
    require(missing is None, f"the parameter {missing} is missing, without which others have no meaning")
    count, total, squares = (layers.weight(name, "float64") for name in _SUMS)
    mean = add("Cast", add("Div", total, count), to=_DTYPE)
    square = add("Cast", add("Div", squares, count), to=_DTYPE)
    variance = add("Sub", square, add("Mul", mean, mean))
    return _Statistics(mean, add("Sqrt", add("Max", variance, layers.builder.constant(_LEAST_VARIANCE))))


def read_range(value: object) -> tuple[float, float]:
    """Return ``observation_range``: what DDPG clips observations to.

    :raises UnsupportedError: when it is not two numbers
    """
    if isinstance(value, (list, tuple)) and len(value) == 2:
        try:
            least, most = (float(to_number(bound, "a bound")) for bound in value)
        except UnrecognizedError:
            pass
        else:
            return least, most
    message = f"expected two numbers as observation_range, got {quote(value, 80)}"
    raise UnsupportedError(message)
