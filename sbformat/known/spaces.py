"""The spaces of gym and gymnasium, with what each release stores (FORMAT.md 13.4).

Sources: gym ``spaces/`` of 0.10 to 0.26, gymnasium ``spaces/`` of 0.26 to 1.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.known.numbers import unpacked, whole
from sbformat.known.recognition import Unrecognised
from sbformat.known.values import (
    Box,
    Discrete,
    DictSpace,
    DType,
    Graph,
    MultiBinary,
    MultiDiscrete,
    OneOf,
    RandomState,
    Reference,
    Sequence,
    Text,
    TupleSpace,
)
from sbformat.numpy_pickles import ArrayInfo

if TYPE_CHECKING:
    from sbformat.known.recognition import Recognition
    from sbformat.known.values import Library, Space
    from sbformat.pkl.tree import Call

_SPACES: Final = (Box, Discrete, DictSpace, Graph, MultiBinary, MultiDiscrete, OneOf, Sequence, Text, TupleSpace)
_COMMON: Final = frozenset({"shape", "_shape", "dtype", "np_random", "_np_random"})
_TYPE_CODES: Final = {
    "bool_": "|b1", "int8": "|i1", "uint8": "|u1", "int16": "<i2", "uint16": "<u2", "int32": "<i4", "uint32": "<u4",
    "int64": "<i8", "uint64": "<u8", "float16": "<f2", "float32": "<f4", "float64": "<f8", "int": "<i8",
    "float": "<f8", "bool": "|b1", "str": "<U0",
}  # fmt: skip
"""numpy's scalar types, which the oldest releases stored in the place of a dtype."""
_RANK: Final = 64
"""numpy's greatest."""


class _State:
    """What BUILD gives a space: its attributes, each taken once."""

    def __init__(self, scope: Recognition, node: Call, *own: str) -> None:
        if node.args != ():
            message = "a space is made from arguments"
            raise Unrecognised(message)
        self._attributes = scope.attributes(node)
        self._node = node
        self._scope = scope
        unknown = [name for name in self._attributes if name not in _COMMON and name not in own]
        if unknown:
            message = f"a space has the attribute {unknown[0]!r:.80}, which its library never writes"
            raise Unrecognised(message)

    @property
    def library(self) -> Library:
        pair = self._node.func.pair  # type: ignore[attr-defined]
        return "gymnasium" if pair[0].startswith("gymnasium.") else "gym"

    def get(self, *names: str) -> Any:  # noqa: ANN401 -- of any type
        """Return the attribute under the first of these names that it has."""
        return next((self._attributes[name] for name in names if name in self._attributes), None)

    def shape(self) -> tuple[int, ...] | None:
        shape = self.get("_shape", "shape")
        if shape is None:
            return None
        if type(shape) not in (tuple, list):
            message = "the shape of a space is no tuple"
            raise Unrecognised(message)
        return tuple(whole(size, "a size in the shape of a space") for size in shape)

    def dtype(self, default: str) -> str:
        dtype = self.get("dtype")
        if isinstance(dtype, DType):
            return dtype.code
        if isinstance(dtype, Reference):
            dtype = dtype.name
        if dtype is None:
            return default
        if type(dtype) is str and dtype in _TYPE_CODES:
            return _TYPE_CODES[dtype]
        message = "the dtype of a space is none of numpy's"
        raise Unrecognised(message)

    def random(self) -> RandomState | None:
        random = self.get("_np_random", "np_random")
        if random is None or isinstance(random, RandomState):
            return random
        message = "the random generator of a space is none of numpy's"
        raise Unrecognised(message)

    def array(self, name: str) -> ArrayInfo:
        value = self.get(name)
        if not isinstance(value, ArrayInfo):
            message = f"{name} of a space is no array of numbers"
            raise Unrecognised(message)
        return value

    def spaces(self, values: Any) -> tuple[Space, ...]:  # noqa: ANN401 -- checked here
        """Check that each of these is a space, and return them."""
        if any(not isinstance(value, _SPACES) for value in values):
            message = "a space is made of something that is no space"
            raise Unrecognised(message)
        return tuple(values)

    def accept(self) -> None:
        self._scope.accept(self._node)


def box(scope: Recognition, node: Call) -> Box:
    """``Box``: shape and bounds agree."""
    state = _State(scope, node, "low", "high", "bounded_below", "bounded_above", "low_repr", "high_repr")
    low, high = state.array("low"), state.array("high")
    shape = state.shape()
    if shape is None:
        shape = low.shape
    bounds = [None if state.get(name) is None else state.array(name) for name in ("bounded_below", "bounded_above")]
    if any(bound is not None and bound.shape != shape for bound in (low, high, *bounds)):
        message = "the bounds of a Box are not of its shape"
        raise Unrecognised(message)
    if any(type(state.get(name)) not in (str, type(None)) for name in ("low_repr", "high_repr")):
        message = "the bounds of a Box are described by something that is no text"
        raise Unrecognised(message)
    made = Box(state.library, shape, state.dtype(low.dtype), low, high, state.random(), *bounds)
    state.accept()
    return made


def discrete(scope: Recognition, node: Call) -> Discrete:
    """``Discrete``: ``start`` since gym 0.22."""
    state = _State(scope, node, "n", "start")
    start = state.get("start")
    first = 0 if start is None else whole(start, "start of a Discrete")
    state.shape()
    made = Discrete(state.library, whole(state.get("n"), "n of a Discrete"), first, state.dtype("<i8"), state.random())
    state.accept()
    return made


def multi_discrete(scope: Recognition, node: Call) -> MultiDiscrete:
    """``MultiDiscrete``: ``start`` since gymnasium 0.29."""
    state = _State(scope, node, "nvec", "start")
    start = None if state.get("start") is None else state.array("start")
    nvec = state.array("nvec")
    if start is not None and start.shape != nvec.shape:
        message = "start of a MultiDiscrete is not of the shape of nvec"
        raise Unrecognised(message)
    made = MultiDiscrete(state.library, nvec, start, state.dtype(nvec.dtype), state.random())
    state.accept()
    return made


def multi_binary(scope: Recognition, node: Call) -> MultiBinary:
    """``MultiBinary``: ``n`` is a number, or a shape since gym 0.17."""
    state = _State(scope, node, "n")
    n = state.get("n")
    sizes = tuple(n) if type(n) in (tuple, list) else (n,)
    if isinstance(n, ArrayInfo) and len(n.shape) == 1 and n.shape[0] <= _RANK:
        sizes = unpacked(n)
    dims = tuple(whole(size, "n of a MultiBinary") for size in sizes)
    made = MultiBinary(state.library, dims, state.dtype("|i1"), state.random())
    state.accept()
    return made


def dict_space(scope: Recognition, node: Call) -> DictSpace:
    """``Dict``: an OrderedDict before gymnasium 1.0."""
    state = _State(scope, node, "spaces", "sort_keys")
    spaces = state.get("spaces")
    if not isinstance(spaces, dict) or any(type(key) is not str for key in spaces):
        message = "a Dict does not hold its spaces by text"
        raise Unrecognised(message)
    is_sorted = state.get("sort_keys")
    if type(is_sorted) not in (bool, type(None)):
        message = "sort_keys of a Dict is no bool"
        raise Unrecognised(message)
    parts = dict(zip(spaces, state.spaces(spaces.values())))
    made = DictSpace(state.library, parts, state.random(), is_sorted is not False)
    state.accept()
    return made


def tuple_space(scope: Recognition, node: Call) -> TupleSpace:
    """``Tuple``: a list before gym 0.22."""
    library, spaces, random = _several(scope, node)
    return TupleSpace(library, spaces, random)


def one_of(scope: Recognition, node: Call) -> OneOf:
    """``OneOf``, of gymnasium >= 1.0."""
    library, spaces, random = _several(scope, node)
    return OneOf(library, spaces, random)


def _several(scope: Recognition, node: Call) -> tuple[Library, tuple[Space, ...], RandomState | None]:
    state = _State(scope, node, "spaces")
    spaces = state.get("spaces")
    if type(spaces) not in (tuple, list):
        message = "a space of several does not hold them in a tuple"
        raise Unrecognised(message)
    made = state.library, state.spaces(spaces), state.random()
    state.accept()
    return made


def text(scope: Recognition, node: Call) -> Text:
    """``Text``: its characters stand in it three or four times."""
    since_26 = ("_char_set", "_char_list", "_char_index", "_char_str")
    state = _State(scope, node, "min_length", "max_length", "charset", "_charlist", "_charset_str", *since_26)
    characters = state.get("_char_list", "_charlist")
    if type(characters) not in (tuple, list, str) or any(type(item) is not str for item in characters):
        message = "a Text has no characters"
        raise Unrecognised(message)
    lengths = [whole(state.get(name), f"{name} of a Text") for name in ("min_length", "max_length")]
    made = Text(state.library, lengths[0], lengths[1], "".join(characters), state.random())
    state.accept()
    return made


def sequence(scope: Recognition, node: Call) -> Sequence:
    """``Sequence``: stacked or not."""
    state = _State(scope, node, "feature_space", "stack", "stacked_feature_space")
    (feature,) = state.spaces([state.get("feature_space")])
    stack = state.get("stack")
    if type(stack) not in (bool, type(None)):
        message = "stack of a Sequence is no bool"
        raise Unrecognised(message)
    made = Sequence(state.library, feature, bool(stack), state.random())
    state.accept()
    return made


def graph(scope: Recognition, node: Call) -> Graph:
    """``Graph``: nodes, and edges or none."""
    state = _State(scope, node, "node_space", "edge_space", "batch_node_space", "batch_edge_space")
    (nodes,) = state.spaces([state.get("node_space")])
    edge = state.get("edge_space")
    edges = None if edge is None else state.spaces([edge])[0]
    made = Graph(state.library, nodes, edges, state.random())
    state.accept()
    return made
