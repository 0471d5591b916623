"""The features extractors of SB3: their parameters, and the number of features that they return.

Sources: SB3 ``common/torch_layers.py`` and ``common/preprocessing.py``, 0.6 to 2.9.
"""

from __future__ import annotations

from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING, Final

from sbformat.constants import DATA_ENTRY
from sbformat.errors import UnsupportedError, escape, quote
from sbformat.known import changes
from sbformat.known.sb3 import COMBINED, FLATTEN, NATURE
from sbformat.policies.shapes.layers import (
    NATURE_CNN,
    Parameter,
    Parameters,
    add_prefix,
    convolution,
    linear,
    sequential,
)
from sbformat.policies.shapes.sizes import NetworkError, Size

if TYPE_CHECKING:
    from sbformat.known.changes import Release
    from sbformat.known.spaces import Space
    from sbformat.pkl.names import Pair
    from sbformat.policies.shapes.arguments import Arguments

_MODULE: Final = "stable_baselines3.common.torch_layers"
NORMALIZE: Final = ("imitation.policies.base", "NormalizeFeaturesExtractor")
"""Of the package imitation: flattens observations, and normalizes them with statistics of its own."""
NORMS: Final = {
    ("imitation.util.networks", "RunningNorm"): ("running_mean", "running_var", "count"),
    ("imitation.util.networks", "EMANorm"): (
        "running_mean", "running_var", "count", "inv_learning_rate", "num_batches",
    ),
}  # fmt: skip
"""The layers that it normalizes with, and their tensors, of which the first two have a number for each feature."""
_RUNNING: Final = ("running_mean", "running_var")
_OBSERVATIONS: Final = "observation_space"
_MAX_KEYS: Final = 1024
"""Keys of a Dict space: in a file any number of them can share one space."""


def extractor_parameters(
    extractor: Pair, space: Space, arguments: Arguments, release: Release, *, is_normalized: bool
) -> tuple[Parameters, Size]:
    """Return the parameters of a features extractor, and the number of features that it returns.

    :param extractor: its class
    :param space: the observation space
    :param arguments: ``features_extractor_kwargs``
    :param release: the release of SB3
    :param is_normalized: whether ``normalize_images`` is false: images then have any dtype and bounds
    :raises UnsupportedError: when the class or the space is not known
    :raises NetworkError: when SB3 cannot make it
    """
    owner = extractor[1]
    takes_normalized = release >= changes.NORMALIZED_IMAGES
    normalized = ("normalized_image",) if takes_normalized else ()
    if extractor == FLATTEN:
        arguments.refuse_others((), owner)
        if space.has_keys:
            message = "a Dict space needs MultiInputPolicy, or a features extractor for Dict observations"
            raise NetworkError(_OBSERVATIONS, message)
        return [], flattened_size(space, _OBSERVATIONS)
    if extractor == NORMALIZE:
        return _normalize(space, arguments)
    is_normalized = is_normalized and takes_normalized
    if extractor == NATURE:
        arguments.refuse_others(("features_dim", *normalized), owner)
        is_normalized = is_normalized or arguments.flag("normalized_image", default=False)
        size = arguments.size("features_dim", 512, least=1)
        if not space.is_image(is_normalized=is_normalized):
            message = "NatureCNN needs images: expected a Box of three dimensions, of bytes from 0 to 255"
            raise NetworkError(_OBSERVATIONS, message)
        return _nature_cnn(space.shape, size, release), size
    if extractor == COMBINED and release >= changes.DICT_SPACES:
        arguments.refuse_others(("cnn_output_dim", *normalized), owner)
        is_normalized = is_normalized or arguments.flag("normalized_image", default=False)
        return _combined(space, arguments, release, is_normalized=is_normalized)
    message = f"features_extractor_class is {escape('.'.join(extractor), 120)}, and its layers are not known"
    raise UnsupportedError(message, entry=DATA_ENTRY)


def _normalize(space: Space, arguments: Arguments) -> tuple[Parameters, Size]:
    """``NormalizeFeaturesExtractor``: the flattened observation, through a layer with statistics.

    :raises UnsupportedError: for a layer that is not of imitation
    """
    arguments.refuse_others(("normalize_class",), NORMALIZE[1])
    norm = arguments.reference("normalize_class", next(iter(NORMS)))
    if norm not in NORMS:
        message = f"normalize_class is {escape('.'.join(norm), 120)}, and its layers are not known"
        raise UnsupportedError(message, entry=DATA_ENTRY)
    size = flattened_size(space, _OBSERVATIONS)
    shapes = {name: (size,) if name in _RUNNING else () for name in NORMS[norm]}
    return [Parameter(f"normalize.{name}", shape, is_buffer=True) for name, shape in shapes.items()], size


def flattened_size(space: Space, key: str) -> Size:
    """Return the number of features of a flattened observation; discrete ones are one-hot.

    :raises NetworkError: when SB3 cannot flatten the space
    """
    if space.observed not in ("numbers", "one-hot"):
        message = f"the number of features of {key}, a {space.class_name}, is not known"
        raise UnsupportedError(message, entry=DATA_ENTRY)
    choice_counts(space, key)
    size = space.flat_size()
    if size < 1:
        raise NetworkError(key, f"expected at least one feature, got {size}")
    return Size(size, key)


def choice_counts(space: Space, key: str) -> tuple[int, ...]:
    """Return the number of choices of each component of a space of choices.

    :raises NetworkError: when it is a MultiDiscrete of other than one dimension
    """
    if space.distribution == "multi-categorical" and len(space.shape) != 1:
        raise NetworkError(key, f"expected a {space.class_name} of one dimension, got the shape {space.shape}")
    try:
        return space.choices()
    except UnsupportedError:
        message = f"nvec of {key} is not an array of whole numbers"
        raise UnsupportedError(message, entry=DATA_ENTRY) from None


def require_choices(space: Space, key: str) -> None:
    """Refuse a space that contains nothing: one without choices, or with a negative size.

    :raises NetworkError: for such a space, or such a part of a Dict
    """
    for part in space.parts().values():
        sizes: tuple[int, ...] = ()
        with suppress(UnsupportedError):
            sizes = part.choices()
        if min(sizes, default=1) < 1:
            raise NetworkError(key, f"expected at least one choice, got {min(sizes):,}")
        if min(part.shape or (), default=0) < 0:
            raise NetworkError(key, f"expected sizes of 0 or more, got the shape {part.shape}")


def _nature_cnn(shape: tuple[int, ...], outputs: Size, release: Release) -> Parameters:
    """``NatureCNN``: three convolutions and a linear layer.

    :param shape: of an image, channels first
    :param outputs: the number of features
    :raises NetworkError: when the image is too small
    """
    channels, *edges = shape
    inputs: int = Size(channels, _OBSERVATIONS)
    convolutions = []
    counts = changes.FILTERS if release >= changes.WIDE_CNN else changes.OLD_FILTERS
    for (kernel, stride), filters in zip(NATURE_CNN, counts):
        edges = [(edge - kernel) // stride + 1 for edge in edges]
        convolutions += [convolution(inputs, filters, kernel), []]
        inputs = filters
    if channels < 1 or min(edges) < 1:
        raise NetworkError(_OBSERVATIONS, f"an image of the shape {shape} is too small for NatureCNN")
    layer = linear(Size(inputs * prod(edges), _OBSERVATIONS), outputs)
    return [*add_prefix("cnn", sequential(convolutions)), *add_prefix("linear", sequential([layer]))]


def _combined(space: Space, arguments: Arguments, release: Release, *, is_normalized: bool) -> tuple[Parameters, Size]:
    """``CombinedExtractor``: a NatureCNN for each image of a Dict; all other parts are flattened."""
    if not space.has_keys:
        raise NetworkError(_OBSERVATIONS, "MultiInputPolicy needs a Dict space")
    parts = space.parts()
    if len(parts) > _MAX_KEYS:
        message = f"expected at most {_MAX_KEYS:,} keys in a Dict space, got {len(parts):,}"
        raise UnsupportedError(message, entry=DATA_ENTRY)
    outputs = arguments.size("cnn_output_dim", 256)
    made: Parameters = []
    total = Size(0, "")
    images: dict[tuple[object, ...], bool] = {}
    """Whether a space is one of images, by the identity of its bounds, which many keys may share."""
    for key, part in parts.items():
        if part.has_keys:
            raise NetworkError(_OBSERVATIONS, f"SB3 has no nested Dict spaces, and {quote(key, 80)} is one")
        if not key or "." in key:
            raise NetworkError(_OBSERVATIONS, f"{quote(key, 80)} cannot be the name of a module in torch")
        bounds = (part.class_name, getattr(part, "dtype", ""), *map(id, part.bounds or ()))
        if bounds not in images:
            images[bounds] = part.is_image(is_normalized=is_normalized)
        if images[bounds]:
            made += add_prefix(f"extractors.{key}", _nature_cnn(part.shape, outputs, release))
            total = total + outputs
        else:
            total = total + flattened_size(part, _OBSERVATIONS)
    if total < 1:
        raise NetworkError(_OBSERVATIONS, "expected at least one feature, got 0")
    return made, total
