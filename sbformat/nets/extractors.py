"""From observations to features: the graph's inputs, VecNormalize, ``preprocess_obs`` and the features extractors.

Sources: SB3 ``common/vec_env/vec_normalize.py``, ``common/torch_layers.py`` and ``common/preprocessing.py``, 0.6 to
2.9, imitation ``policies/base.py``; SB2's VecNormalize computes the same (STATISTICS.md 17.3).
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final

from sbformat.constants import DATA_ENTRY
from sbformat.errors import ValidationError, escape, quote
from sbformat.known import changes
from sbformat.known.sb3 import COMBINED, FLATTEN, NATURE
from sbformat.known.table import current_name
from sbformat.known.types import Reference
from sbformat.nets.arguments import OBSERVATIONS, NetworkError, Size, choice_counts, flattened_size, refuse
from sbformat.nets.layers import (
    FLOAT,
    Activation,
    Conv2d,
    Flatten,
    Linear,
    Module,
    ModuleDict,
    RunningNorm,
    Scope,
    Sequential,
    Spec,
    Supplied,
)
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pkl.tree import Global
from sbformat.policies.builder import numpy_name
from sbformat.policies.graph import NORMALIZATION, Input

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sbformat.formats.vecnormalize import VecNormalize
    from sbformat.known.changes import Release
    from sbformat.known.spaces import Space
    from sbformat.nets.arguments import Agent, Arguments
    from sbformat.nets.layers import Network
    from sbformat.pkl.tree import Pair
    from sbformat.policies.builder import GraphBuilder, Value


_DOUBLE: Final = "float64"
_CHANNELS_LAST: Final = (1, 2, 0)


def normalize_observation(builder: GraphBuilder, value: Value, statistics: VecNormalize, key: str | None) -> Value:
    """Add the nodes that normalize an observation, or one part of a Dict.

    >>> normalize_observation(builder, observation, statistics, None).dtype
    'float32'

    Statistics of channel-last images are accepted for a channel-first observation: an agent of the releases before 1.8
    could be trained on images that VecNormalize normalized before VecTransposeImage transposed them.

    :return: float32 of the same shape; the value itself where nothing is normalized
    """
    found = statistics.obs_rms
    if not statistics.norm_obs or (key is not None and key not in (statistics.norm_obs_keys or ())):
        return value
    if isinstance(found, dict) != (key is not None) or found is None:
        of, by = ("a Dict", "an array") if key is not None else ("an array", "a Dict")
        raise ValidationError(f"expected statistics of {of}, as the observation space is, got those of {by}")
    moments = found[key] if isinstance(found, dict) and key is not None else found
    name = f"{NORMALIZATION}:obs_rms" if key is None else f"{NORMALIZATION}:obs_rms/{key}"
    module = NORMALIZATION if key is None else f"{NORMALIZATION}.{key}"
    shape, expected = value.shape, moments.shape  # type: ignore[union-attr]
    is_image = value.dtype == "uint8" and len(shape) == 3
    transposed = shape != expected and is_image and tuple(shape[axis] for axis in _CHANNELS_LAST) == expected
    if shape != expected and not transposed:
        raise ValidationError(f"{quote(name, 120)}: expected statistics of the shape {shape}, got {expected}")
    value = builder.cast(value, _DOUBLE, module)
    if transposed:
        value = builder.add("Transpose", value, axes=_CHANNELS_LAST, module=module)
    parts = []
    for part in ("mean", "var"):
        array: Any = getattr(moments, part)  # of numpy, which read the statistics
        if array.dtype.kind != "f":
            refuse(f"expected statistics of floats, got {array.dtype}")
        info = ArrayInfo(array.dtype.str, array.shape, "C", array.tobytes(), is_scalar=False)
        parts.append(builder.weight(f"{name}/{part}", info, f"{name}/{part}"))
    mean, variance = parts
    numbers = (statistics.epsilon, statistics.clip_obs, -statistics.clip_obs)
    epsilon, high, low = (builder.constant(number, _DOUBLE) for number in numbers)
    deviation = builder.add("Sqrt", builder.add("Add", variance, epsilon, module=module), module=module)
    value = builder.add("Div", builder.add("Sub", value, mean, module=module), deviation, module=module)
    value = builder.add("Min", builder.add("Max", value, low, module=module), high, module=module)
    value = builder.add("Cast", value, to="float32", module=module)
    return builder.add("Transpose", value, axes=(2, 0, 1), module=module) if transposed else value


def add_observation_input(
    builder: GraphBuilder, space: Space, name: str, key: str | None, statistics: VecNormalize | None, library: str
) -> Value:
    """Add the input of one observation, or of one part of a Dict, and what VecNormalize does to it.

    :param library: ``SB3`` or ``SBX``
    :return: in the shape and dtype of the space, int64 for choices; normalized, float32
    """
    if statistics is not None and statistics.norm_obs and not space.may_be_normalized:
        found, keys = statistics.obs_rms, statistics.norm_obs_keys or ()
        has_any = key in keys if isinstance(found, dict) else found is not None and key is None
        if has_any:
            message = f"expected no statistics of a {space.class_name} observation: VecNormalize normalizes a Box alone"
            raise ValidationError(message)
    if space.observed not in ("numbers", "one-hot"):
        refuse(f"{library} has no {space.class_name} observations", DATA_ENTRY)
    dtype = "int64" if space.observed == "one-hot" else numpy_name(space.dtype)
    value = builder.input(Input(name, dtype, space.shape, key=key))
    if statistics is None or not space.may_be_normalized:
        return value
    return normalize_observation(builder, value, statistics, key)


OBSERVATION: Final = "observation"
"""The name of the input; of a Dict's parts, what their names begin with."""
NORMALIZE: Final = ("imitation.policies.base", "NormalizeFeaturesExtractor")
"""An extractor of the package imitation that flattens observations and normalizes them with its own statistics."""
NORMS: Final = {
    ("imitation.util.networks", "RunningNorm"): ("count",),
    ("imitation.util.networks", "EMANorm"): ("count", "inv_learning_rate", "num_batches"),
}
"""The layers that it normalizes with, and their tensors beside a mean and a variance of each feature."""
NATURE_LAYERS: Final = ((8, 4), (4, 2), (3, 1))
EXTRACTOR: Final = "features_extractor"
"""Its name in a state dict, if the policy has one."""
EXTRACTOR_CLASS: Final = "features_extractor_class"

# -- the observation ----------------------------------------------------------------------------------


def add_observation(network: Network, agent: Agent, statistics: VecNormalize | None) -> dict[str | None, Value]:
    """Add the inputs of a policy, and ``preprocess_obs``: numbers as float32, images over 255, integers one-hot.

    :return: float32, by the key of a Dict in the order of the space, in which CombinedExtractor concatenates them; by
        None for any other space
    """
    parts = agent.observation_space.parts()
    if not parts:
        raise NetworkError(OBSERVATIONS, "expected a Dict with at least one part")
    made: dict[str | None, Value] = {}
    for key, space in parts.items():
        scope = Scope(network, OBSERVATION if key is None else f"{OBSERVATION}.{key}")
        value = add_observation_input(network.builder, space, scope.path, key, statistics, "SB3")
        value = encode_numbers(scope, value, space)
        if space.is_image() and agent.arguments.flag("normalize_images", default=True):
            value = scope.add("Div", value, scope.constant(255.0))
        made[key] = value
    return made


def encode_numbers(scope: Scope, value: Value, space: Space) -> Value:
    """Add choices one-hot, from 0 whatever ``start`` is, which SB3 does not subtract; other numbers as float32."""
    if space.observed != "one-hot":
        return scope.network.builder.cast(value, FLOAT, scope.path)
    counts = choice_counts(space, OBSERVATIONS)
    if not space.shape:
        return scope.add("OneHot", value, depth=counts[0])
    parts = []
    for at, count in enumerate(counts):
        index = scope.add("Slice", value, axis=-1, start=at, end=at + 1)
        parts.append(scope.flatten(scope.add("OneHot", index, depth=count)))
    return scope.add("Concat", *parts, axis=-1)


# -- features extractors ------------------------------------------------------------------------------


class FeaturesExtractor(Module):
    """A features extractor: from an observation to a vector of :attr:`features_dim` numbers."""

    features_dim: Size

    def extract(self, scope: Scope, observation: Mapping[str | None, Value]) -> Value:
        """Add the nodes that compute the features of what :func:`add_observation` returns."""
        return self.forward(scope, observation[None])


class SuppliedExtractor(Supplied, FeaturesExtractor):
    """A features extractor that the caller supplies as a function of the observation, or of a dict of its parts."""

    def __init__(self, function: str, size: int) -> None:
        super().__init__(function, size)
        self.features_dim = Size(size, "")

    def extract(self, scope: Scope, observation: Mapping[str | None, Value]) -> Value:
        return self.call(scope, list(observation.values()), [key for key in observation if key is not None])


class FlattenExtractor(FeaturesExtractor, Flatten):
    """Flattens the observation."""

    def __init__(self, agent: Agent, arguments: Arguments) -> None:
        arguments.refuse_others((), FLATTEN[1])
        if agent.observation_space.has_keys:
            message = "a Dict space needs MultiInputPolicy, or a features extractor for Dict observations"
            raise NetworkError(OBSERVATIONS, message)
        self.features_dim = flattened_size(agent.observation_space, OBSERVATIONS)


class NormalizeFeaturesExtractor(FeaturesExtractor):
    """The flattened observation, through a layer of imitation with statistics."""

    def __init__(self, agent: Agent, arguments: Arguments) -> None:
        arguments.refuse_others(("normalize_class",), NORMALIZE[1])
        norm = arguments.reference("normalize_class", next(iter(NORMS)))
        if norm not in NORMS:
            refuse(f"normalize_class is {escape('.'.join(norm), 120)}, and its layers are not known", DATA_ENTRY)
        self.features_dim = flattened_size(agent.observation_space, OBSERVATIONS)
        self.normalize = RunningNorm(self.features_dim, NORMS[norm])

    def forward(self, scope: Scope, value: Value) -> Value:
        return self.normalize.forward(scope / "normalize", scope.flatten(value))


class NatureLayers(Module):
    """Three convolutions and a linear layer, with a ReLU after each, for images of a shape, channels first."""

    def __init__(self, shape: tuple[int, ...], features_dim: Size, release: Release) -> None:
        channels, *edges = shape
        inputs: int = Size(channels, OBSERVATIONS)
        layers: list[Module] = []
        counts = changes.FILTERS if release >= changes.WIDE_CNN else changes.OLD_FILTERS
        for (kernel, stride), filters in zip(NATURE_LAYERS, counts):
            edges = [(edge - kernel) // stride + 1 for edge in edges]
            layers += [Conv2d(inputs, filters, kernel, stride), Activation(Spec("ReLU"))]
            inputs = filters
        if channels < 1 or min(edges) < 1:
            raise NetworkError(OBSERVATIONS, f"an image of the shape {shape} is too small for NatureCNN")
        self.cnn = Sequential([*layers, Flatten()])
        linear = Linear(Size(inputs * prod(edges), OBSERVATIONS), features_dim)
        self.linear = Sequential([linear, Activation(Spec("ReLU"))])

    def forward(self, scope: Scope, value: Value) -> Value:
        return self.linear.forward(scope / "linear", self.cnn.forward(scope / "cnn", value))


def _takes_normalized(agent: Agent, arguments: Arguments, size: str, owner: str) -> bool:
    """Return whether images may have any dtype and bounds, which are those of ``normalize_images=False``."""
    since = agent.release >= changes.NORMALIZED_IMAGES
    arguments.refuse_others((size, "normalized_image") if since else (size,), owner)
    is_normalized = since and not agent.arguments.flag("normalize_images", default=True)
    return is_normalized or arguments.flag("normalized_image", default=False)


class NatureCNN(NatureLayers, FeaturesExtractor):
    """The convolutions of the Nature paper, for images."""

    def __init__(self, agent: Agent, arguments: Arguments) -> None:
        is_normalized = _takes_normalized(agent, arguments, "features_dim", NATURE[1])
        self.features_dim = arguments.size("features_dim", 512, least=1)
        if not agent.observation_space.is_image(is_normalized=is_normalized):
            message = "NatureCNN needs images: expected a Box of three dimensions, of bytes from 0 to 255"
            raise NetworkError(OBSERVATIONS, message)
        super().__init__(agent.observation_space.shape, self.features_dim, agent.release)


class CombinedExtractor(FeaturesExtractor):
    """A NatureCNN for each image of a Dict; all other parts are flattened."""

    def __init__(self, agent: Agent, arguments: Arguments) -> None:
        is_normalized = _takes_normalized(agent, arguments, "cnn_output_dim", COMBINED[1])
        if not agent.observation_space.has_keys:
            raise NetworkError(OBSERVATIONS, "MultiInputPolicy needs a Dict space")
        parts = agent.observation_space.parts()
        agent.limits.check("other_keys", len(parts))  # in a file any number of keys can share one space
        outputs = arguments.size("cnn_output_dim", 256)
        extractors: dict[str, Module] = {}
        total = Size(0, "")
        images: dict[tuple[object, ...], bool] = {}
        """Whether a space is one of images, by the identity of its bounds, which many keys may share."""
        for key, part in parts.items():
            if part.has_keys:
                raise NetworkError(OBSERVATIONS, f"SB3 has no nested Dict spaces, and {quote(key, 80)} is one")
            if not key or "." in key:
                raise NetworkError(OBSERVATIONS, f"{quote(key, 80)} cannot be the name of a module in torch")
            bounds = (part.class_name, getattr(part, "dtype", ""), *map(id, part.bounds or ()))
            if bounds not in images:
                images[bounds] = part.is_image(is_normalized=is_normalized)
            if images[bounds]:
                extractors[key] = NatureLayers(part.shape, outputs, agent.release)
                total = total + outputs
            else:
                extractors[key] = Flatten()
                total = total + flattened_size(part, OBSERVATIONS)
        if total < 1:
            raise NetworkError(OBSERVATIONS, "expected at least one feature, got 0")
        self.extractors = ModuleDict(extractors)
        self.features_dim = total

    def extract(self, scope: Scope, observation: Mapping[str | None, Value]) -> Value:
        parts, place = self.extractors.parts(), scope / "extractors"
        vectors = [module.forward(place / key, observation[key]) for key, module in parts.items()]
        return scope.add("Concat", *vectors, axis=-1) if len(vectors) > 1 else vectors[0]


EXTRACTORS: Final[Mapping[Pair, Callable[[Agent, Arguments], FeaturesExtractor]]] = {
    FLATTEN: FlattenExtractor, NATURE: NatureCNN, COMBINED: CombinedExtractor, NORMALIZE: NormalizeFeaturesExtractor,
}  # fmt: skip
"""The features extractors, each made of the agent and its ``features_extractor_kwargs``."""


def is_known_extractor(value: object) -> bool:
    """Return whether a value of ``features_extractor_class`` is a class whose layers are known."""
    is_plain = isinstance(value, Reference) or (isinstance(value, Global) and not value.updates)
    return is_plain and current_name(value.pair) in EXTRACTORS  # type: ignore[attr-defined]


def make_extractor(agent: Agent, default: Pair) -> FeaturesExtractor:
    """Return the features extractor of an agent, whose policy has a default class."""
    agent.arguments.flag("normalize_images", default=True)  # refused even where no image needs it
    value: Any = agent.policy_kwargs.get(EXTRACTOR_CLASS, Reference(*default))
    known = is_known_extractor(value)
    pair = current_name(value.pair) if known else agent.arguments.reference(EXTRACTOR_CLASS, default)
    if not known or (pair == COMBINED and agent.release < changes.DICT_SPACES):
        refuse(f"features_extractor_class is {escape('.'.join(pair), 120)}, and its layers are not known", DATA_ENTRY)
    return EXTRACTORS[pair](agent, agent.arguments.nested("features_extractor_kwargs"))


def extract_features(
    scope: Scope, extractor: FeaturesExtractor, name: str, observation: Mapping[str | None, Value]
) -> Value:
    """Add a features extractor, of its name in a state dict of today, unless one of the same tensors exists."""
    path = EXTRACTOR if scope.has(EXTRACTOR) and not scope.has(name) else name
    identity = (getattr(extractor, "function", ""), scope.network.identify(path))
    if identity not in scope.network.results:
        scope.network.results[identity] = extractor.extract(scope / path, observation)
    return scope.network.results[identity]
