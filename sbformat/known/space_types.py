"""The spaces of gym and gymnasium as values (VALUES.md 13.4): one class per kind, and one table of fields for all uses.

Each class annotates all fields that a pickle may have. ``plain_fields`` lists those that define the space, with the
kind of each: the JSON of a bundle has exactly these, reports leave out ``flags``, and statistics keep only these. The
other fields are random generators, and spaces that gymnasium derives when it constructs one.

To add a kind: a class here, its name in :mod:`sbformat.known.space_names`, and a node decoder in
:mod:`sbformat.known.spaces`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias

from sbformat.errors import SbformatError, UnsupportedError, escape
from sbformat.known.base import Value

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from sbformat.pkl.numpy import ArrayInfo

Library: TypeAlias = Literal["gym", "gymnasium"]

LIBRARIES: Final = ("gym", "gymnasium")

FieldKind: TypeAlias = Literal[
    "shape", "dtype", "array", "optional array", "flags", "int", "text", "bool", "space", "optional space", "spaces",
    "named spaces",
]  # fmt: skip
"""``flags`` is an optional array of bools that most releases derive from other fields."""


class RandomState(Value):
    """A random number generator of numpy, or its bit generator alone."""

    kind: Literal["RandomState", "Generator", "BitGenerator"]
    bit_generator: str
    """``MT19937``, ``PCG64``, ..."""
    state: object
    """As the ``state`` attribute of numpy's generator, with arrays as ArrayInfo."""
    seed_sequence: SeedSequence | None


class SeedSequence(Value):
    """A ``numpy.random.SeedSequence``."""

    entropy: object
    spawn_key: tuple[int, ...]
    pool_size: int
    n_children_spawned: int
    pool: ArrayInfo
    """The mixed entropy; numpy does not derive it again."""


class Space(Value):
    """A space of gym or gymnasium, of any kind.

    Each has ``library``, ``"gym"`` or ``"gymnasium"``, and ``random``, the :class:`RandomState` that was saved with it
    or None. A dtype is numpy's array-interface code, such as ``<f4``, which ``numpy.dtype`` accepts. An array is an
    :class:`~sbformat.pkl.numpy.ArrayInfo`: ``numpy.asarray(space.low)`` has its dtype and shape.
    """

    class_name: ClassVar[str]
    """The name of the class in gymnasium."""
    module: ClassVar[str]
    """Its module below ``gymnasium.spaces``."""
    plain_fields: ClassVar[Mapping[str, FieldKind]]
    """The fields that define the space, in order."""

    if TYPE_CHECKING:  # every subclass has these two as fields

        @property
        def library(self) -> Library: ...
        @property
        def random(self) -> RandomState | None: ...

    @property
    def pair(self) -> tuple[str, str]:
        """Module and name of its class in gymnasium."""
        return f"gymnasium.spaces.{self.module}", self.class_name

    def to_gymnasium(self) -> Any:
        """Return the space as a ``gymnasium.Space``, which equals the one that was saved.

        A space of gym becomes gymnasium's. Random generators start anew, without a seed.

        :raises UnsupportedError: when gymnasium is not installed, or its installed release refuses the space

        Example::

            env_space = sbformat.read("agent.zip").decode("observation_space").to_gymnasium()
            env_space.sample()
        """
        try:
            from gymnasium import spaces
        except ImportError:
            message = "gymnasium is not installed: pip install 'sbformat[gym]'"
            raise UnsupportedError(message) from None
        return _convert(self, spaces, {})

    @abstractmethod
    def _construct(self, spaces: ModuleType, convert: Any) -> Any:
        """Call the constructor of gymnasium; every class of a space has its own.

        :param spaces: ``gymnasium.spaces``
        :param convert: returns gymnasium's space for a space within this one
        """


class Box(Space):
    """Arrays of numbers within bounds: ``low <= x <= high``, both of the shape of the box, infinite where unbounded."""

    library: Library
    shape: tuple[int, ...]
    dtype: str
    low: ArrayInfo
    high: ArrayInfo
    random: RandomState | None
    bounded_below: ArrayInfo | None = None
    """Where the lower bound applies; None in the oldest releases. Integers have no infinity to say that it does not."""
    bounded_above: ArrayInfo | None = None

    class_name = "Box"
    module = "box"
    plain_fields = {
        "shape": "shape", "dtype": "dtype", "low": "array", "high": "array", "bounded_below": "flags",
        "bounded_above": "flags",
    }  # fmt: skip

    def _construct(self, spaces: ModuleType, _: Any) -> Any:
        made = spaces.Box(self.low.to_numpy(), self.high.to_numpy(), self.shape, self.dtype)
        for name in ("bounded_below", "bounded_above"):  # gymnasium derives them from infinite bounds
            flags = getattr(self, name)
            if flags is not None:
                setattr(made, name, flags.to_numpy())
        return made


class Discrete(Space):
    """The integers ``start`` to ``start + n - 1``."""

    library: Library
    n: int
    start: int
    """0 before gym 0.22, which had no other."""
    dtype: str
    random: RandomState | None

    class_name = "Discrete"
    module = "discrete"
    plain_fields = {"n": "int", "start": "int", "dtype": "dtype"}

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one element: ``()``."""
        return ()

    def _construct(self, spaces: ModuleType, _: Any) -> Any:
        return spaces.Discrete(self.n, start=self.start, **({} if self.dtype == "<i8" else {"dtype": self.dtype}))


class MultiDiscrete(Space):
    """Arrays of integers, each item in a range of its own."""

    library: Library
    nvec: ArrayInfo
    """The number of choices of each item."""
    start: ArrayInfo | None
    """The first choice of each item; None before gymnasium 0.29: zeros."""
    dtype: str
    random: RandomState | None

    class_name = "MultiDiscrete"
    module = "multi_discrete"
    plain_fields = {"nvec": "array", "start": "optional array", "dtype": "dtype"}

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one element: that of ``nvec``."""
        return self.nvec.shape

    def _construct(self, spaces: ModuleType, _: Any) -> Any:
        start = None if self.start is None else self.start.to_numpy()
        return spaces.MultiDiscrete(
            self.nvec.to_numpy(), dtype=self.dtype, **({} if start is None else {"start": start})
        )


class MultiBinary(Space):
    """Arrays of 0 and 1."""

    library: Library
    shape: tuple[int, ...]
    dtype: str
    random: RandomState | None

    class_name = "MultiBinary"
    module = "multi_binary"
    plain_fields = {"shape": "shape", "dtype": "dtype"}

    def _construct(self, spaces: ModuleType, _: Any) -> Any:
        return spaces.MultiBinary(self.shape[0] if len(self.shape) == 1 else self.shape)


class DictSpace(Space):
    """Dicts with a space for each key, in order."""

    library: Library
    spaces: dict[str, Space]
    random: RandomState | None
    sort_keys: bool = True
    """Whether gymnasium >= 1.4 sorts the names when it makes a space from it; earlier releases always did."""

    class_name = "Dict"
    module = "dict"
    plain_fields = {"spaces": "named spaces", "sort_keys": "bool"}

    def __getitem__(self, key: str) -> Space:
        return self.spaces[key]

    def _construct(self, spaces: ModuleType, convert: Any) -> Any:
        from collections import OrderedDict  # which gymnasium does not sort

        made = spaces.Dict(OrderedDict((key, convert(part)) for key, part in self.spaces.items()))
        made.sort_keys = self.sort_keys
        return made


class TupleSpace(Space):
    """Tuples with a space for each position."""

    library: Library
    spaces: tuple[Space, ...]
    random: RandomState | None

    class_name = "Tuple"
    module = "tuple"
    plain_fields = {"spaces": "spaces"}

    def __getitem__(self, index: int) -> Space:
        return self.spaces[index]

    def _construct(self, spaces: ModuleType, convert: Any) -> Any:
        return spaces.Tuple(tuple(map(convert, self.spaces)))


class OneOf(Space):
    """An element of one of several spaces."""

    library: Library
    spaces: tuple[Space, ...]
    random: RandomState | None

    class_name = "OneOf"
    module = "oneof"
    plain_fields = {"spaces": "spaces"}

    def _construct(self, spaces: ModuleType, convert: Any) -> Any:
        return spaces.OneOf(tuple(map(convert, self.spaces)))


class Text(Space):
    """Strings of a set of characters, with bounds on their length."""

    library: Library
    min_length: int
    max_length: int
    characters: str
    random: RandomState | None

    class_name = "Text"
    module = "text"
    plain_fields = {"min_length": "int", "max_length": "int", "characters": "text"}

    def _construct(self, spaces: ModuleType, _: Any) -> Any:
        return spaces.Text(self.max_length, min_length=self.min_length, charset=self.characters)


class Sequence(Space):
    """Sequences of any length."""

    library: Library
    feature_space: Space
    stack: bool
    random: RandomState | None
    stacked_feature_space: Space | None = None
    """With ``stack``: the space of a sequence in one array, as it was saved."""

    class_name = "Sequence"
    module = "sequence"
    plain_fields = {"feature_space": "space", "stack": "bool"}

    def _construct(self, spaces: ModuleType, convert: Any) -> Any:
        return spaces.Sequence(convert(self.feature_space), stack=self.stack)


class Graph(Space):
    """Graphs with a space for each node, and one for each edge or none."""

    library: Library
    node_space: Space
    edge_space: Space | None
    random: RandomState | None
    batch_node_space: Space | None = None
    """The space of several nodes, as gymnasium 1.4 saves it."""
    batch_edge_space: Space | None = None

    class_name = "Graph"
    module = "graph"
    plain_fields = {"node_space": "space", "edge_space": "optional space"}

    def _construct(self, spaces: ModuleType, convert: Any) -> Any:
        edges = None if self.edge_space is None else convert(self.edge_space)
        return spaces.Graph(convert(self.node_space), edges)


SPACE_TYPES: Final[dict[str, type[Space]]] = {
    kind.class_name: kind
    for kind in (Box, Discrete, MultiDiscrete, MultiBinary, DictSpace, TupleSpace, OneOf, Text, Sequence, Graph)
}
"""Each kind of space by the name of its class in gymnasium."""


def _convert(space: Space, spaces: ModuleType, made: dict[int, Any]) -> Any:
    """Return gymnasium's space; parts that are shared stay shared.

    :param made: spaces that were converted before, by ``id()``
    """
    if id(space) not in made:
        try:
            made[id(space)] = space._construct(spaces, lambda part: _convert(part, spaces, made))  # noqa: SLF001 -- of this module
        except SbformatError:
            raise
        except Exception as error:  # noqa: BLE001 -- whatever this release of gymnasium raises
            message = f"the installed gymnasium refuses a {space.class_name} space: {escape(str(error), 200)}"
            raise UnsupportedError(message) from None
    return made[id(space)]
