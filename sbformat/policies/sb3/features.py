"""From observations to features: the graph's inputs, VecNormalize, ``preprocess_obs`` and the features extractors.

Source: SB3 ``common/preprocessing.py`` and ``common/torch_layers.py``, 0.6 to 2.9, which compute the same for the
spaces that they share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.constants import DATA_ENTRY
from sbformat.errors import UnsupportedError, escape, quote
from sbformat.known.sb3 import COMBINED, FLATTEN, NATURE
from sbformat.known.spaces import Box, DictSpace, Discrete, MultiBinary, MultiDiscrete
from sbformat.policies.builder import numpy_name
from sbformat.policies.graph import Input
from sbformat.policies.normalization import normalize_observation, require_not_normalized
from sbformat.policies.sb3.network import FLOAT
from sbformat.policies.sb3.settings import WHAT_WORKS
from sbformat.policies.shapes.extractors import NORMALIZE, NORMS, choice_counts, is_image
from sbformat.policies.shapes.sizes import NetworkError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sbformat.formats.vecnormalize import VecNormalize
    from sbformat.known.spaces import Space
    from sbformat.policies.builder import Value
    from sbformat.policies.sb3.network import Network

_OBSERVATION_SPACE: Final = "observation_space"
OBSERVATION: Final = "observation"
"""The name of the input; of a Dict's parts, what their names begin with."""
_ANY: Final = "features_extractor"
_CNN_TENSORS: Final = frozenset(
    f"{layer}.{part}" for layer in ("cnn.0", "cnn.2", "cnn.4", "linear.0") for part in ("weight", "bias")
)

_NORM_TENSORS: Final = tuple({f"normalize.{name}" for name in names} for names in NORMS.values())
"""The tensors of an extractor that normalizes with a layer of imitation."""


class Features:
    """The observation of a graph, and the features of it that modules use; each extractor is added once.

    :param network: the policy
    :param statistics: VecNormalize's, or None
    """

    def __init__(self, network: Network, statistics: VecNormalize | None) -> None:
        self._network = network
        self._statistics = statistics
        self._space = network.settings.agent.observation_space
        self._observation: dict[str | None, Value] | None = None
        self._made: dict[object, Value] = {}
        self._general: object = None
        """The identity of the extractor that the caller's ``features_extractor`` is."""

    def extract(self, names: Sequence[str], consumers: Mapping[str, int]) -> Value:
        """Add a features extractor, unless an equal one exists.

        A function that the caller supplies as ``features_extractor`` is that of the actor, and of a critic that shares
        it: another one would have other weights.

        :param names: of the extractor in the state dict, with that of the newest release first
        :param consumers: modules that receive the features, with the number of their other inputs; they determine the
            number of features of an extractor that the caller supplies
        :return: a vector
        :raises UnsupportedError: for an extractor that is not known
        """
        network = self._network
        module = next((name for name in names if network.has(name)), names[0])
        identity = network.identify(module)
        function = module if module in network.modules else ""
        if not function and self._general in (None, identity):
            function = next((name for name in (*names, _ANY) if name in network.modules), "")
            self._general = identity
        key = (function, identity)
        if key not in self._made:
            self._made[key] = self._call(function, module, consumers) if function else self._extract(module)
        network.used.update(network.names(module))
        return self._made[key]

    def extract_for_critic(self, names: Sequence[str], consumers: Mapping[str, int]) -> Value | None:
        """Add a features extractor; None for one that is not known when the caller supplies the actor's.

        :param names: as in :meth:`extract`
        :param consumers: as in :meth:`extract`
        """
        try:
            return self.extract(names, consumers)
        except UnsupportedError:
            if not self._network.called:
                raise
            return None

    def _call(self, function: str, module: str, consumers: Mapping[str, int]) -> Value:
        network = self._network
        sizes = {name: network.input_size(name) for name in consumers}
        known = [size - consumers[name] for name, size in sizes.items() if size is not None]
        if not known:
            message = f"the number of features of {quote(module, 80)} is not known: no layer follows it"
            raise UnsupportedError(message)
        parts = self.observation()
        keys = [key for key in parts if key is not None]
        return network.call(function, module, list(parts.values()), known[0], keys)

    def _extract(self, module: str) -> Value:
        network = self._network
        self._require_known_class()
        parts = self.observation()
        names = {name[len(module) + 1 :] for name in network.names(module)}
        if None in parts:
            if names in _NORM_TENSORS:
                return network.running_norm(f"{module}.normalize", network.flatten(parts[None], module))
            if names and names != _CNN_TENSORS:
                raise _unknown_error(module, names)
            return network.nature_cnn(module, parts[None]) if names else network.flatten(parts[None], module)
        images = {key: f"extractors.{key}" for key in parts if f"extractors.{key}.cnn.0.weight" in names}
        if names != {f"{image}.{name}" for image in images.values() for name in _CNN_TENSORS}:
            raise _unknown_error(module, names)
        vectors = [
            network.nature_cnn(f"{module}.{images[key]}", value)
            if key in images
            else network.flatten(value, f"{module}.extractors.{key}")
            for key, value in parts.items()
        ]
        return network.add("Concat", *vectors, axis=-1, module=module) if len(vectors) > 1 else vectors[0]

    def _require_known_class(self) -> None:
        """Refuse an extractor of another author: without tensors of its own it would look like FlattenExtractor.

        :raises UnsupportedError: with its class
        """
        found = self._network.settings.arguments.reference("features_extractor_class", FLATTEN)
        if found not in (FLATTEN, NATURE, COMBINED, NORMALIZE):
            name = escape(".".join(found), 120)
            message = f"features_extractor_class is {name}, and its layers are not known; {WHAT_WORKS}"
            raise UnsupportedError(message, entry=DATA_ENTRY)

    # -- the observation ------------------------------------------------------------------------------

    def observation(self) -> Mapping[str | None, Value]:
        """Return the preprocessed observation, float32: by the key of a Dict, or None for any other space.

        The keys are in the order in which CombinedExtractor concatenates them, that of the space.
        """
        if self._observation is None:
            parts: dict[str | None, Space] = {None: self._space}
            if isinstance(self._space, DictSpace):
                parts = dict(self._space.spaces.items())
            if not parts:
                message = "expected a Dict with at least one part"
                raise NetworkError(_OBSERVATION_SPACE, message)
            self._observation = {key: self._preprocess(key, space) for key, space in parts.items()}
        return self._observation

    def _preprocess(self, key: str | None, space: Space) -> Value:
        """``preprocess_obs``: numbers as float32, images divided by 255, integers one-hot."""
        network = self._network
        name = OBSERVATION if key is None else f"{OBSERVATION}.{key}"
        if self._statistics is not None and not isinstance(space, Box):
            require_not_normalized(self._statistics, key, space.class_name)
        if isinstance(space, (Discrete, MultiDiscrete)):
            value = network.builder.input(Input(name, "int64", space.shape, key=key))
            return self._one_hot(value, space, name)
        if not isinstance(space, (Box, MultiBinary)):
            message = f"SB3 has no {type(space).__name__.removesuffix('Space')} observations"
            raise UnsupportedError(message, entry=DATA_ENTRY)
        value = network.builder.input(Input(name, numpy_name(space.dtype), space.shape, key=key))
        if isinstance(space, Box) and self._statistics is not None:
            value = normalize_observation(network.builder, value, self._statistics, key)
        if value.dtype != FLOAT:
            value = network.add("Cast", value, to=FLOAT, module=name)
        if is_image(space, is_normalized=False) and network.settings.flag("normalize_images", default=True):
            value = network.add("Div", value, network.constant(255.0), module=name)
        return value

    def _one_hot(self, value: Value, space: Discrete | MultiDiscrete, name: str) -> Value:
        """Integers from 0, whatever ``start`` is, which SB3 does not subtract."""
        network = self._network
        if isinstance(space, Discrete):
            return network.add("OneHot", value, depth=space.n, module=name)
        parts = []
        for at, count in enumerate(choice_counts(space, "observation_space")):
            index = network.add("Slice", value, axis=-1, start=at, end=at + 1, module=name)
            parts.append(network.flatten(network.add("OneHot", index, depth=count, module=name), name))
        return network.add("Concat", *parts, axis=-1, module=name)


def _unknown_error(module: str, names: set[str]) -> UnsupportedError:
    shown = ", ".join(quote(name, 60) for name in sorted(names)[:4])
    message = f"the features extractor {quote(module, 80)} is not one of SB3: it has the tensors {shown}"
    return UnsupportedError(f"{message}; {WHAT_WORKS}")
