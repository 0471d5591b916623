"""From an observation, as ``predict`` takes it, to batches for the inputs of a graph.

SB3's rules (``common/policies.py``, ``obs_to_tensor``; ``common/utils.py``, ``is_vectorized_observation``): an array
of the shape of the space is a single observation, one with an axis before it a batch. Anything that numpy makes an
array of is accepted. An image with its channels last is transposed when only that makes it fit. SB2's rules are the
same without images. What does not fit is a ``ValueError`` that names both shapes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from sbformat.errors import quote
from sbformat.known.spaces import Box, DictSpace, Discrete, MultiDiscrete
from sbformat.policies.graph import find_users

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sbformat.known.spaces import Space
    from sbformat.policies.graph import Graph, Input
    from sbformat.policies.model import Family

NUMBERS: Final = "biuf"
"""Kinds of numpy dtypes that an observation may have."""
_FLOATS: Final = ("float32", "float64")
_SHOWN: Final = 20
"""Keys and sizes in a message."""
_BYTE: Final = "u1"
_WHITE: Final = 255


class Reader(Protocol):
    """Reads observations of one space."""

    def read(self, observation: Any) -> tuple[dict[str, np.ndarray], bool]:
        """Return a batch for each input by name, and whether the observation was a batch.

        :raises ValueError: when it does not fit the space
        """


def make_reader(space: Space, inputs: Sequence[Input], family: Family) -> Reader:
    """Return the reader of a policy's observations.

    :param inputs: of the graph, for observations: one, or one for each key of a Dict space
    """
    if isinstance(space, DictSpace):
        return DictReader([ArrayReader(item, space.spaces[item.key or ""], family) for item in inputs])
    return ArrayReader(inputs[0], space, family)


def widen_inputs(graph: Graph, family: Family) -> Graph:
    """Return a graph whose inputs have the dtype that observations are converted to first.

    SB3 converts whatever it gets to float32, or with statistics to float64: an input of integers or float32 would cut
    an observation of another dtype before that. SB2 has inputs of the dtype of the space.
    """
    inputs = []
    users = find_users(graph.nodes)
    for item in graph.inputs:
        targets = {node.attributes["to"] if node.op == "Cast" else "" for node in users.get(item.name, ())}
        if targets and targets <= set(_FLOATS) and item.role == "observation":
            wide = max(targets, key=_FLOATS.index)
            is_wider = wide == _FLOATS[-1] or (family == "sb3" and item.dtype not in _FLOATS)
            inputs.append(item._replace(dtype=wide) if is_wider else item)
        else:
            inputs.append(item)
    return graph._replace(inputs=tuple(inputs))


class ArrayReader:
    """Reads observations that are one array.

    :param described: the input of the graph
    :param space: its space
    """

    def __init__(self, described: Input, space: Space, family: Family) -> None:
        self.key = described.key
        self._input = described.name
        self._shape = described.shape
        self._choices = _read_choices(space)
        self._is_image = family == "sb3" and _is_image_space(space)
        self._name = "the observation" if described.key is None else f"{quote(described.key, 60)} of the observation"

    def read(self, observation: Any) -> tuple[dict[str, np.ndarray], bool]:
        """Return a batch by the name of the input, and whether the observation was one.

        :raises ValueError: when it does not fit the space
        """
        array = observation if type(observation) is np.ndarray else self._make_array(observation)
        if array.dtype.kind not in NUMBERS:
            message = f"expected numbers as {self._name}, got {_describe(observation)}"
            raise ValueError(message)
        if array.shape == self._shape:
            array, is_batched = array[None], False
        elif array.ndim > 0 and array.shape[1:] == self._shape:
            is_batched = True
        else:
            array, is_batched = self._transpose(array)
        if self._choices is not None:
            self._check_choices(array)
        return {self._input: array}, is_batched

    def _make_array(self, observation: Any) -> np.ndarray:
        if isinstance(observation, Mapping) or _is_reset(observation):
            message = f"expected an array of the shape {self._shape} as {self._name}, got {_describe(observation)}"
            raise ValueError(message)
        return make_array(observation, self._name)

    def _transpose(self, array: np.ndarray) -> tuple[np.ndarray, bool]:
        """Return an image, or images, with the channels first."""
        if self._is_image and array.ndim in (3, 4):
            moved = np.moveaxis(array, -1, -3)
            if moved.shape[-3:] == self._shape:
                return (moved[None], False) if array.ndim == 3 else (moved, True)
        batch = str(("n", *self._shape)).replace("'", "")
        message = (
            f"expected the shape {self._shape} of one observation, or {batch} of a batch, as {self._name}, "
            f"got {array.shape}"
        )
        raise ValueError(message)

    def _check_choices(self, array: np.ndarray) -> None:
        """Check that numbers are choices of the space: a one-hot vector has no place for others."""
        choices = self._choices
        if choices is not None and not ((array >= 0) & (array < choices)).all():
            shown = choices.tolist() if choices.size <= _SHOWN else "those of the space"
            message = f"expected integers >= 0 and < {shown} as {self._name}, got {array.min()} to {array.max()}"
            raise ValueError(message)


class DictReader:
    """Reads observations that are a dict of arrays.

    :param readers: in the order of the inputs
    """

    def __init__(self, readers: list[ArrayReader]) -> None:
        self._readers = {reader.key: reader for reader in readers}

    def read(self, observation: Any) -> tuple[dict[str, np.ndarray], bool]:
        """Return a batch for each input by name, and whether one of them was a batch.

        :raises ValueError: when it does not fit the space
        """
        if not isinstance(observation, Mapping):
            message = f"expected a dict with the keys {_join(self._readers)}, got {_describe(observation)}"
            raise ValueError(message)  # noqa: TRY004 -- one class for observations that do not fit
        if observation.keys() != self._readers.keys():
            message = f"expected an observation with the keys {_join(self._readers)}, got {_join(observation)}"
            raise ValueError(message)
        inputs: dict[str, np.ndarray] = {}
        is_batched = False
        for key, reader in self._readers.items():
            made, is_batch = reader.read(observation[key])
            inputs.update(made)
            is_batched = is_batched or is_batch
        if len({len(array) for array in inputs.values()}) > 1:
            shapes = ", ".join(f"{quote(key, 40)}: {np.shape(value)}" for key, value in observation.items())
            message = f"expected single observations or batches of one size, got the shapes {shapes}"
            raise ValueError(message)
        return inputs, is_batched


def make_array(value: Any, what: str) -> np.ndarray:
    """Return anything that numpy makes an array of as one.

    :raises ValueError: for lists of different lengths; numpy before 1.24 warns, and makes an array of lists
    """
    try:
        return np.asarray(value)
    except (ValueError, TypeError, UserWarning):
        message = f"expected an array of numbers as {what}, got lists of different lengths, or other objects"
        raise ValueError(message) from None


def _join(keys: Iterable[Any]) -> str:
    return ", ".join(quote(key, 40) for key in list(keys)[:_SHOWN]) or "none"


def _is_reset(observation: Any) -> bool:
    """Return whether it is what ``reset`` of gymnasium returns: an observation and a dict."""
    return isinstance(observation, tuple) and len(observation) == 2 and isinstance(observation[1], Mapping)


def _describe(observation: Any) -> str:
    if _is_reset(observation):
        return "a tuple of an observation and a dict; reset() of gymnasium returns two values: obs, info = env.reset()"
    if isinstance(observation, np.ndarray):
        return f"an array of {quote(observation.dtype, 40)} of the shape {observation.shape}"
    return f"a {type(observation).__name__}"


def _read_choices(space: Space) -> np.ndarray | None:
    """Return the number of choices of each item of a discrete space; None for other spaces."""
    if isinstance(space, Discrete):
        return np.asarray(space.n)
    return np.asarray(space.nvec) if isinstance(space, MultiDiscrete) else None


def _is_image_space(space: Space) -> bool:
    """Return whether SB3 treats a space as one of images (``is_image_space``)."""
    return (
        isinstance(space, Box)
        and len(space.shape) == 3
        and space.dtype.endswith(_BYTE)
        and bool((np.asarray(space.low) == 0).all() and (np.asarray(space.high) == _WHITE).all())
    )
