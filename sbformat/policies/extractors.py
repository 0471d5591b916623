"""The features extractors of SB3, and the size of what they extract.

Sources: SB3 ``common/torch_layers.py`` and ``common/preprocessing.py``, 0.6 to 2.9.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final, TypeGuard

from sbformat.constants import DATA_ENTRY
from sbformat.errors import UnsupportedError, escape, quote
from sbformat.policies.layers import NATURE_CNN, Parameters, convolution, linear, prefixed, sequential
from sbformat.policies.sizes import Arguments, NetworkError, Size
from sbformat.values.context import UnrecognizedError
from sbformat.values.numbers import unpack_items
from sbformat.values.types import Box, DictSpace, Discrete, MultiBinary, MultiDiscrete

if TYPE_CHECKING:
    from sbformat.globals.torch import Pair
    from sbformat.pkl.numpy import ArrayInfo
    from sbformat.policies.releases import Release
    from sbformat.values.types import Space

_LAYERS: Final = "stable_baselines3.common.torch_layers"
FLATTEN: Final = (_LAYERS, "FlattenExtractor")
NATURE: Final = (_LAYERS, "NatureCNN")
COMBINED: Final = (_LAYERS, "CombinedExtractor")
_OBSERVATIONS: Final = "observation_space"
_FILTERS: Final = (32, 64, 64)
_FILTERS_OF_0_7: Final = (32, 64, 32)
_MOST_KEYS: Final = 1024
"""Of a Dict: a file can have any number of them share one space."""


def features(
    extractor: Pair, space: Space, arguments: Arguments, release: Release, *, is_normalized: bool
) -> tuple[Parameters, Size]:
    """Return the parameters of a features extractor, and the number of features.

    :param extractor: its class
    :param space: of the observations
    :param arguments: ``features_extractor_kwargs``
    :param release: of SB3
    :param is_normalized: whether ``normalize_images`` is false: images may be of any dtype and bounds then
    :raises UnsupportedError: when the class or the space is not known
    :raises NetworkError: when SB3 cannot make it
    """
    owner = extractor[1]
    normalized = ("normalized_image",) if release >= (1, 7) else ()
    if extractor == FLATTEN:
        arguments.refuse_others((), owner)
        if isinstance(space, DictSpace):
            raise NetworkError(_OBSERVATIONS, "a Dict needs MultiInputPolicy, or a features extractor that takes it")
        return [], flattened(space, _OBSERVATIONS)
    is_normalized = is_normalized and release >= (1, 7)
    if extractor == NATURE:
        arguments.refuse_others(("features_dim", *normalized), owner)
        is_normalized = is_normalized or arguments.flag("normalized_image", default=False)
        size = arguments.size("features_dim", 512, least=1)
        if not is_image(space, is_normalized=is_normalized):
            message = "NatureCNN takes images only: a Box of three dimensions, of bytes from 0 to 255"
            raise NetworkError(_OBSERVATIONS, message)
        return nature_cnn(space.shape, size, release), size
    if extractor == COMBINED and release >= (1, 1):
        arguments.refuse_others(("cnn_output_dim", *normalized), owner)
        is_normalized = is_normalized or arguments.flag("normalized_image", default=False)
        return _combined(space, arguments, release, is_normalized=is_normalized)
    message = f"features_extractor_class is {escape('.'.join(extractor), 120)}, whose layers are not known"
    raise UnsupportedError(message, entry=DATA_ENTRY)


def flattened(space: Space, key: str) -> Size:
    """Return the number of features of a flattened observation, one-hot where it is discrete.

    :raises NetworkError: when SB3 has none for the space
    """
    if isinstance(space, Box):
        size = prod(space.shape)
    elif isinstance(space, Discrete):
        size = space.n
    elif isinstance(space, MultiBinary):
        size = prod(space.shape)
    elif isinstance(space, MultiDiscrete):
        size = sum(choices(space, key))
    else:
        raise _not_flattened(space, key)
    if size < 1:
        raise NetworkError(key, f"expected at least one feature, got {size}")
    return Size(size, key)


def choices(space: MultiDiscrete, key: str) -> tuple[int, ...]:
    """Return the numbers of choices of a MultiDiscrete.

    :raises NetworkError: when they are not in one dimension
    """
    if len(space.nvec.shape) != 1:
        raise NetworkError(key, f"expected a MultiDiscrete of one dimension, got the shape {space.nvec.shape}")
    try:
        return tuple(map(int, unpack_items(space.nvec)))
    except UnrecognizedError:
        message = f"nvec of {key} is no array of numbers"
        raise UnsupportedError(message, entry=DATA_ENTRY) from None


def _not_flattened(space: Space, key: str) -> UnsupportedError:
    message = f"{key} is a {type(space).__name__.removesuffix('Space')}, of which the number of features is not known"
    return UnsupportedError(message, entry=DATA_ENTRY)


def is_image(space: Space, *, is_normalized: bool) -> TypeGuard[Box]:
    """Return what ``is_image_space`` says: three dimensions; bytes from 0 to 255, unless images are normalised."""
    if not isinstance(space, Box) or len(space.shape) != 3:
        return False
    if is_normalized:
        return True
    return space.dtype[1:] == "u1" and _is_all(space.low, 0) and _is_all(space.high, 255)


def _is_all(bound: ArrayInfo, value: int) -> bool:
    """Return whether every item of a bound is a number; images are read in pieces."""
    if bound.dtype[1:] != "u1":
        return set(unpack_items(bound)) == {value}
    item = bytes([value])
    return all(bytes(piece).count(item) == len(piece) for piece in bound.chunks())


def nature_cnn(shape: tuple[int, ...], outputs: Size, release: Release) -> Parameters:
    """``NatureCNN``: three convolutions and a layer.

    :param shape: of an image, its channels first
    :param outputs: the number of features
    :param release: of SB3
    :raises NetworkError: when the image is too small
    """
    channels, *edges = shape
    inputs: int = Size(channels, _OBSERVATIONS)
    convolutions = []
    for (kernel, stride), filters in zip(NATURE_CNN, _FILTERS if release >= (0, 8) else _FILTERS_OF_0_7):
        edges = [(edge - kernel) // stride + 1 for edge in edges]
        convolutions += [convolution(inputs, filters, kernel), []]
        inputs = filters
    if channels < 1 or min(edges) < 1:
        raise NetworkError(_OBSERVATIONS, f"an image of {shape} is too small for NatureCNN")
    layer = linear(Size(inputs * prod(edges), _OBSERVATIONS), outputs)
    return [*prefixed("cnn", sequential(convolutions)), *prefixed("linear", sequential([layer]))]


def _combined(space: Space, arguments: Arguments, release: Release, *, is_normalized: bool) -> tuple[Parameters, Size]:
    """``CombinedExtractor``: a NatureCNN for every image of a Dict; everything else is flattened."""
    if not isinstance(space, DictSpace):
        raise NetworkError(_OBSERVATIONS, "MultiInputPolicy takes observations in a Dict only")
    if len(space.spaces) > _MOST_KEYS:
        message = f"a Dict of {len(space.spaces):,} keys is more than any agent observes"
        raise UnsupportedError(message, entry=DATA_ENTRY)
    outputs = arguments.size("cnn_output_dim", 256)
    made: Parameters = []
    total = Size(0, "")
    images: dict[tuple[int, int, str], bool] = {}
    """By the bounds, which many keys may share."""
    for key, part in space.spaces.items():
        if isinstance(part, DictSpace):
            raise NetworkError(_OBSERVATIONS, f"SB3 takes no Dict within a Dict, as {quote(key, 80)} is")
        if not key or "." in key:
            raise NetworkError(_OBSERVATIONS, f"torch has no module of the name {quote(key, 80)}")
        bounds = (id(part.low), id(part.high), part.dtype) if isinstance(part, Box) else (0, 0, "")
        if bounds not in images:
            images[bounds] = is_image(part, is_normalized=is_normalized)
        if isinstance(part, Box) and images[bounds]:
            cnn = nature_cnn(part.shape, outputs, release)
            made += prefixed(f"extractors.{key}", cnn)
            total = total + outputs
        else:
            total = total + flattened(part, _OBSERVATIONS)
    if total < 1:
        raise NetworkError(_OBSERVATIONS, "expected at least one feature, got 0")
    return made, total
