"""From an observation, as ``predict`` takes it, to batches for the inputs of a graph.

SB3's rules (``common/policies.py``, ``obs_to_tensor``; ``common/utils.py``, ``is_vectorized_observation``): an array of
the shape of the space is a single observation, one with an axis before it a batch; anything that numpy makes an array of
is accepted; an image with its channels last is transposed when only that makes it fit. SB2's rules are the same without
images. What does not fit is a ``ValueError`` that names both shapes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from sbformat.errors import quote
from sbformat.values.types import Box, DictSpace, Discrete, MultiDiscrete

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sbformat.policies.graph import Input
    from sbformat.policies.model import Family
    from sbformat.values.types import Space

_NUMBERS: Final = "biuf"
"""Kinds of numpy dtypes that an observation may have."""
_BYTE: Final = "u1"
_WHITE: Final = 255


class Reader(Protocol):
    """Reads observations of one space."""

    def read(self, observation: Any) -> tuple[tuple[np.ndarray, ...], bool]:
        """Return a batch for each input, and whether the observation was a batch.

        :raises ValueError: when it does not fit the space
        """


def make_reader(space: Space, inputs: Sequence[Input], family: Family) -> Reader:
    """Return the reader of a policy's observations.

    :param inputs: of the graph, for observations: one, or one for each key of a Dict space
    """
    if isinstance(space, DictSpace):
        return DictReader({item.key or "": ArrayReader(item, space.spaces[item.key or ""], family) for item in inputs})
    return ArrayReader(inputs[0], space, family)


class ArrayReader:
    """Reads observations that are one array.

    :param described: the input of the graph
    :param space: its space
    """

    def __init__(self, described: Input, space: Space, family: Family) -> None:
        self.shape = described.shape
        self.dtype = np.dtype(described.dtype)
        self.choices = _read_choices(space)
        self._space = space
        self._is_sb3 = family == "sb3"
        self._is_image = self._is_sb3 and _is_image_space(space)
        self._name = "the observation" if described.key is None else f"{quote(described.key, 60)} of the observation"

    def read(self, observation: Any) -> tuple[tuple[np.ndarray], bool]:
        """Return a batch, and whether the observation was one."""
        array, is_batched = self.read_array(observation)
        return (array,), is_batched

    def read_array(self, observation: Any) -> tuple[np.ndarray, bool]:
        """Return a batch, and whether the observation was one.

        :raises ValueError: when it does not fit the space
        """
        array = observation if type(observation) is np.ndarray else self._make_array(observation)
        if array.shape == self.shape:
            array, is_batched = array[None], False
        elif array.ndim > 0 and array.shape[1:] == self.shape:
            is_batched = True
        else:
            array, is_batched = self._transpose(array)
        if array.dtype != self.dtype:
            array = self._cast(array)
        if self.choices is not None:
            self._check_choices(array)
        return array, is_batched

    def _make_array(self, observation: Any) -> np.ndarray:
        if isinstance(observation, Mapping):
            message = f"expected an array of the shape {self.shape} as {self._name}, got a dict"
            raise ValueError(message)  # noqa: TRY004 -- one class for observations that do not fit
        if isinstance(observation, tuple) and len(observation) == 2 and isinstance(observation[1], Mapping):
            message = "expected an observation, got a tuple of observation and info: obs, info = env.reset()"
            raise ValueError(message)
        try:
            return np.asarray(observation)
        except (ValueError, TypeError):
            message = f"expected an array of numbers as {self._name}, got lists of different lengths, or other objects"
            raise ValueError(message) from None

    def _transpose(self, array: np.ndarray) -> tuple[np.ndarray, bool]:
        """Return an image, or images, with the channels first."""
        if self._is_image and array.ndim in (3, 4):
            moved = np.moveaxis(array, -1, -3)
            if moved.shape[-3:] == self.shape:
                return (moved[None], False) if array.ndim == 3 else (moved, True)
        batch = ", ".join(map(str, ("n", *self.shape)))
        message = (
            f"expected the shape {self.shape} of one observation, or ({batch}{',' if not self.shape else ''}) of a "
            f"batch, as {self._name}, got {array.shape}"
        )
        raise ValueError(message)

    def _cast(self, array: np.ndarray) -> np.ndarray:
        """Return an array of the dtype of the input, with the values that SB3 would compute with."""
        if array.dtype.kind not in _NUMBERS:
            message = f"expected numbers as {self._name}, got {quote(array.dtype, 40)}"
            raise ValueError(message)
        with np.errstate(all="ignore"):
            return array.astype(self.dtype)

    def _check_choices(self, array: np.ndarray) -> None:
        """Check that integers are choices of the space: a one-hot vector has no place for others."""
        if not ((array >= 0) & (array < self.choices)).all():
            shown = self.choices.tolist() if self.choices is not None else None
            least, most = array.min(), array.max()
            message = f"expected {self._name} to be integers >= 0 and < {quote(shown)}, got {least} to {most}"
            raise ValueError(message)


class DictReader:
    """Reads observations that are a dict of arrays.

    :param readers: by key, in the order of the inputs
    """

    def __init__(self, readers: dict[str, ArrayReader]) -> None:
        self._readers = readers

    def read(self, observation: Any) -> tuple[tuple[np.ndarray, ...], bool]:
        """Return a batch for each key, and whether one of them was a batch: others may be single beside a batch of one.

        :raises ValueError: when it does not fit the space
        """
        if not isinstance(observation, Mapping):
            message = f"expected a dict with the keys {self._list(self._readers)}, got {_describe(observation)}"
            raise ValueError(message)  # noqa: TRY004 -- one class for observations that do not fit
        if observation.keys() != self._readers.keys():
            message = (
                f"expected an observation with the keys {self._list(self._readers)}, got {self._list(observation)}"
            )
            raise ValueError(message)
        found = [reader.read_array(observation[key]) for key, reader in self._readers.items()]
        sizes = {len(array) for array, _ in found}
        if len(sizes) > 1:
            shapes = ", ".join(f"{quote(key, 40)}: {np.shape(value)}" for key, value in observation.items())
            message = f"expected all parts of the observation single, or batches of one size, got the shapes {shapes}"
            raise ValueError(message)
        return tuple(array for array, _ in found), any(is_batched for _, is_batched in found)

    @staticmethod
    def _list(keys: Mapping[Any, Any]) -> str:
        return ", ".join(quote(key, 40) for key in list(keys)[:20]) or "none"


def _describe(observation: Any) -> str:
    if isinstance(observation, tuple) and len(observation) == 2 and isinstance(observation[1], Mapping):
        return "a tuple of observation and info: obs, info = env.reset()"
    return f"an array of the shape {observation.shape}" if hasattr(observation, "shape") else type(observation).__name__


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
