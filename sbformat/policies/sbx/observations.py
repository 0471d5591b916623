"""The inputs of an SBX policy: ``prepare_obs`` of ``common/policies.py``, which encodes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.constants import DATA_ENTRY
from sbformat.errors import UnsupportedError
from sbformat.known.spaces import Box, DictSpace, Discrete, MultiBinary, MultiDiscrete
from sbformat.policies.builder import numpy_name
from sbformat.policies.graph import Input
from sbformat.policies.normalization import normalize_observation, require_not_normalized

if TYPE_CHECKING:
    from sbformat.formats.vecnormalize import VecNormalize
    from sbformat.known.spaces import Space
    from sbformat.policies.builder import GraphBuilder, Value

_FLOAT: Final = "float32"
_NAME: Final = "observation"


def add_observation(builder: GraphBuilder, space: Space, statistics: VecNormalize | None) -> Value:
    """Add the inputs, and return the observation as the network gets it, of float32.

    The parts of a Dict are concatenated in the order of the space. Integers are numbers, not one-hot.

    :param space: of the observations
    :param statistics: VecNormalize's, or None
    :return: in the shape of the space; of a Dict a vector; of a Discrete a vector of one number
    :raises UnsupportedError: for a space that SBX does not accept
    """
    if not isinstance(space, DictSpace):
        value = _add_part(builder, None, space, statistics)
        return value if value.shape else builder.add("Reshape", value, shape=(1,), module=_NAME)
    parts = [_add_part(builder, key, part, statistics) for key, part in space.spaces.items()]
    if not parts or any(len(part.shape) != 1 for part in parts):
        message = "expected vectors as the parts of a Dict observation, which SBX concatenates"
        raise UnsupportedError(message, entry=DATA_ENTRY)
    return builder.add("Concat", *parts, axis=-1, module=_NAME) if len(parts) > 1 else parts[0]


def _add_part(builder: GraphBuilder, key: str | None, space: Space, statistics: VecNormalize | None) -> Value:
    name = _NAME if key is None else f"{_NAME}.{key}"
    if statistics is not None and not isinstance(space, Box):
        require_not_normalized(statistics, key, space.class_name)
    if isinstance(space, (Discrete, MultiDiscrete)):
        value = builder.input(Input(name, "int64", space.shape, key=key))
    elif isinstance(space, (Box, MultiBinary)):
        value = builder.input(Input(name, numpy_name(space.dtype), space.shape, key=key))
    else:
        message = f"SBX has no {type(space).__name__.removesuffix('Space')} observations"
        raise UnsupportedError(message, entry=DATA_ENTRY)
    if isinstance(space, Box) and statistics is not None:
        value = normalize_observation(builder, value, statistics, key)
    return value if value.dtype == _FLOAT else builder.add("Cast", value, to=_FLOAT, module=name)
