"""The inputs of an SBX policy: ``prepare_obs`` of ``common/policies.py``, which encodes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.constants import DATA_ENTRY
from sbformat.errors import UnsupportedError
from sbformat.policies.normalization import add_observation_input

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
    if not space.has_keys:
        value = _add_part(builder, None, space, statistics)
        return value if value.shape else builder.add("Reshape", value, shape=(1,), module=_NAME)
    parts = [_add_part(builder, key, part, statistics) for key, part in space.parts().items()]
    if not parts or any(len(part.shape) != 1 for part in parts):
        message = "expected vectors as the parts of a Dict observation, which SBX concatenates"
        raise UnsupportedError(message, entry=DATA_ENTRY)
    return builder.add("Concat", *parts, axis=-1, module=_NAME) if len(parts) > 1 else parts[0]


def _add_part(builder: GraphBuilder, key: str | None, space: Space, statistics: VecNormalize | None) -> Value:
    name = _NAME if key is None else f"{_NAME}.{key}"
    value = add_observation_input(builder, space, name, key, statistics, "SBX")
    return value if value.dtype == _FLOAT else builder.add("Cast", value, to=_FLOAT, module=name)
