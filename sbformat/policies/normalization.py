"""VecNormalize's statistics as nodes: SB3's and SB2's ``normalize_obs``, in float64 (STATISTICS.md 17.3).

Source: SB3 ``common/vec_env/vec_normalize.py``; SB2's class of that name computes the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.constants import DATA_ENTRY
from sbformat.errors import UnsupportedError, ValidationError, quote
from sbformat.pkl.numpy import ArrayInfo
from sbformat.policies.builder import numpy_name
from sbformat.policies.graph import Input

if TYPE_CHECKING:
    from sbformat.formats.vecnormalize import VecNormalize
    from sbformat.known.spaces import Space
    from sbformat.policies.builder import GraphBuilder, Value

ADDRESS: Final = "vecnormalize"
"""Where the addresses of statistics begin."""
_DOUBLE: Final = "float64"
_IMAGE_AXES: Final = 3
_BYTE: Final = "uint8"
"""The dtype of images that VecTransposeImage transposes."""
_CHANNELS_LAST: Final = (1, 2, 0)
_CHANNELS_FIRST: Final = (2, 0, 1)


def normalize_observation(builder: GraphBuilder, value: Value, statistics: VecNormalize, key: str | None) -> Value:
    """Add the nodes that normalize an observation, or one part of a Dict.

    >>> normalize_observation(builder, observation, statistics, None).dtype
    'float32'

    Statistics of channel-last images are accepted for a channel-first observation: an agent of the releases before 1.8
    could be trained on images that VecNormalize normalized before VecTransposeImage transposed them.

    :param value: the observation, of any dtype
    :param statistics: as loaded
    :param key: of the Dict; None for any other space
    :return: float32 of the same shape; the value itself where nothing is normalized
    :raises ValidationError: when the statistics are not those of the observation space
    """
    found = statistics.obs_rms
    if not statistics.norm_obs or (key is not None and key not in (statistics.norm_obs_keys or ())):
        return value
    if isinstance(found, dict) != (key is not None) or found is None:
        of, by = ("a Dict", "an array") if key is not None else ("an array", "a Dict")
        message = f"expected statistics of {of}, as the observation space is, got those of {by}"
        raise ValidationError(message)
    moments = found[key] if isinstance(found, dict) and key is not None else found
    name = f"{ADDRESS}:obs_rms" if key is None else f"{ADDRESS}:obs_rms/{key}"
    module = ADDRESS if key is None else f"{ADDRESS}.{key}"
    transposed = _is_transposed(value, moments.shape, name)  # type: ignore[union-attr]
    if value.dtype != _DOUBLE:
        value = builder.add("Cast", value, to=_DOUBLE, module=module)
    if transposed:
        value = builder.add("Transpose", value, axes=_CHANNELS_LAST, module=module)
    mean, variance = (
        builder.weight(f"{name}/{part}", _describe_array(getattr(moments, part)), f"{name}/{part}")
        for part in ("mean", "var")
    )
    epsilon, high, low = (
        builder.constant(number, _DOUBLE) for number in (statistics.epsilon, statistics.clip_obs, -statistics.clip_obs)
    )
    deviation = builder.add("Sqrt", builder.add("Add", variance, epsilon, module=module), module=module)
    value = builder.add("Div", builder.add("Sub", value, mean, module=module), deviation, module=module)
    value = builder.add("Min", builder.add("Max", value, low, module=module), high, module=module)
    value = builder.add("Cast", value, to="float32", module=module)
    return builder.add("Transpose", value, axes=_CHANNELS_FIRST, module=module) if transposed else value


def add_observation_input(
    builder: GraphBuilder, space: Space, name: str, key: str | None, statistics: VecNormalize | None, library: str
) -> Value:
    """Add the input of one observation, or of one part of a Dict, and what VecNormalize does to it.

    :param name: of the input
    :param key: of the part, or None
    :param library: ``SB3`` or ``SBX``
    :return: in the shape and dtype of the space, int64 for choices; normalized, float32
    :raises UnsupportedError: when policies of the library do not observe the space
    :raises ValidationError: when there are statistics of a space that VecNormalize does not normalize
    """
    if statistics is not None and not space.may_be_normalized:
        _require_not_normalized(statistics, key, space.class_name)
    if space.observed not in ("numbers", "one-hot"):
        message = f"{library} has no {space.class_name} observations"
        raise UnsupportedError(message, entry=DATA_ENTRY)
    dtype = "int64" if space.observed == "one-hot" else numpy_name(space.dtype)
    value = builder.input(Input(name, dtype, space.shape, key=key))
    return (
        value
        if statistics is None or not space.may_be_normalized
        else normalize_observation(builder, value, statistics, key)
    )


def _require_not_normalized(statistics: VecNormalize, key: str | None, space: str) -> None:
    found = statistics.obs_rms
    has_any = key in (statistics.norm_obs_keys or ()) if isinstance(found, dict) else found is not None and key is None
    if statistics.norm_obs and has_any:
        message = f"expected no statistics of a {space} observation: VecNormalize normalizes a Box alone"
        raise ValidationError(message)


def _is_transposed(value: Value, statistics: tuple[int, ...], name: str) -> bool:
    """Return whether statistics are of the channel-last images that an observation was transposed from."""
    observation = value.shape
    if observation == statistics:
        return False
    is_image = value.dtype == _BYTE and len(observation) == _IMAGE_AXES
    if is_image and tuple(observation[axis] for axis in _CHANNELS_LAST) == statistics:
        return True
    message = f"{quote(name, 120)}: expected statistics of the shape {observation}, got {statistics}"
    raise ValidationError(message)


def _describe_array(array: Any) -> ArrayInfo:
    """Return an array of the statistics, which numpy made when they were read, as the graph refers to arrays."""
    if array.dtype.kind != "f":
        message = f"expected statistics of floats, got {array.dtype}"
        raise UnsupportedError(message)
    return ArrayInfo(array.dtype.str, array.shape, "C", array.tobytes(), is_scalar=False)
