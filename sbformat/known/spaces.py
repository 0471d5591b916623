"""Node decoders for spaces of gym and gymnasium, with the attributes that each release saves (VALUES.md 13.4).

Sources: gym ``spaces/`` of 0.10 to 0.26, gymnasium ``spaces/`` of 0.26 to 1.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.known.numbers import to_int, unpack_items
from sbformat.known.rows import UnrecognizedError, known, reject
from sbformat.known.sb3 import decode_plain_object
from sbformat.known.types import (
    Box,
    DictSpace,
    Discrete,
    DType,
    Graph,
    MultiBinary,
    MultiDiscrete,
    OneOf,
    RandomState,
    Reference,
    Sequence,
    Space,
    Text,
    TupleSpace,
)
from sbformat.pkl.numpy import ArrayInfo

if TYPE_CHECKING:
    from sbformat.known.context import Context
    from sbformat.known.rows import Known, NodeDecoder
    from sbformat.known.types import Library
    from sbformat.pkl.tree import Call

_COMMON: Final = frozenset({"shape", "_shape", "dtype", "np_random", "_np_random"})
_TYPE_CODES: Final = {
    "bool_": "|b1", "int8": "|i1", "uint8": "|u1", "int16": "<i2", "uint16": "<u2", "int32": "<i4", "uint32": "<u4",
    "int64": "<i8", "uint64": "<u8", "float16": "<f2", "float32": "<f4", "float64": "<f8", "int": "<i8",
    "float": "<f8", "bool": "|b1", "str": "<U0",
}  # fmt: skip
"""numpy's scalar types, which the oldest releases saved instead of a dtype."""
_MAX_RANK: Final = 64
"""The highest rank of an array in numpy."""
_NUMBERS: Final = "biufc"
_WHOLE: Final = "iu"


class _State:
    """The attributes that BUILD gives a space."""

    def __init__(self, context: Context, node: Call, *own: str) -> None:
        if node.args != ():
            reject("expected a space constructed without arguments")
        self._attributes = context.read_attributes(node)
        self._node = node
        self._context = context
        unknown = [name for name in self._attributes if name not in _COMMON and name not in own]
        if unknown:
            reject(f"a space has the unknown attribute {unknown[0]!r:.80}")

    @property
    def library(self) -> Library:
        pair = self._node.func.pair  # type: ignore[attr-defined]
        return "gymnasium" if pair[0].startswith("gymnasium.") else "gym"

    def has(self, name: str) -> bool:
        """Return whether it has an attribute, be it None."""
        return name in self._attributes

    def get(self, *names: str) -> Any:
        """Return the attribute with one of these names, or None."""
        held = [self._attributes[name] for name in names if name in self._attributes]
        if len(held) > 1:
            reject(f"a space has both {' and '.join(names)}")
        return held[0] if held else None

    def shape(self) -> tuple[int, ...] | None:
        shape = self.get("_shape", "shape")
        if shape is None:
            return None
        if type(shape) is not tuple and (type(shape) is not list or self.library == "gymnasium"):
            reject("expected a tuple as the shape of a space")
        return tuple(to_int(size, "a size in the shape of a space") for size in shape)

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Check its shape against that of its other attributes; the oldest releases of gym save none."""
        found = self.shape()
        if found != shape and (found is not None or self.library == "gymnasium"):
            reject(f"expected a space of shape {shape}, from its other attributes, got {found}")

    def dtype(self, default: str, kinds: str) -> str:
        """Return the code of its dtype.

        :param default: for the oldest releases of gym, which save none
        :param kinds: the kinds that are allowed, as numpy's letters
        """
        dtype = self.get("dtype")
        if dtype is None and self.library == "gym":
            return default
        code = dtype.code if isinstance(dtype, DType) and not dtype.fields else None
        if self.library == "gym":
            if isinstance(dtype, Reference) and dtype.module in ("numpy", "builtins"):
                dtype = dtype.name
            if type(dtype) is str:
                code = _TYPE_CODES.get(dtype)
        if code is None or code[1] not in kinds:
            reject("a space has a dtype that its library does not save")
        return code

    def check_composite(self) -> None:
        """Check that it has neither shape nor dtype, as a space that consists of other spaces."""
        if self.shape() is not None or self.get("dtype") is not None:
            reject("a space that consists of other spaces has a shape or dtype")

    def random(self) -> RandomState | None:
        random = self.get("_np_random", "np_random")
        if random is None or (isinstance(random, RandomState) and random.kind != "BitGenerator"):
            return random
        message = "expected a random generator of numpy in a space"
        raise UnrecognizedError(message)

    def array(self, name: str) -> ArrayInfo:
        value = self.get(name)
        if not isinstance(value, ArrayInfo):
            reject(f"expected an array of numbers as {name} of a space")
        return value

    def spaces(self, values: Any) -> tuple[Space, ...]:
        """Check that each of these is a space, and return them."""
        if any(not isinstance(value, Space) for value in values):
            reject("expected a space within a space")
        return tuple(values)

    def accept(self) -> None:
        self._context.accept(self._node)


def decode_box(context: Context, node: Call) -> Box:
    """Decode a ``Box``: shape and bounds agree."""
    state = _State(context, node, "low", "high", "bounded_below", "bounded_above", "low_repr", "high_repr")
    low, high = state.array("low"), state.array("high")
    state.check_shape(low.shape)
    flags = [state.array(name) if state.has(name) else None for name in ("bounded_below", "bounded_above")]
    if any(bound is not None and bound.shape != low.shape for bound in (high, *flags)):
        reject("the bounds of a Box do not have its shape")
    if any(flag is not None and flag.dtype != "|b1" for flag in flags):
        reject("expected bools as bounded_below and bounded_above of a Box")
    if any(type(state.get(name)) not in (str, type(None)) for name in ("low_repr", "high_repr")):
        reject("expected text as low_repr and high_repr of a Box")
    made = Box(state.library, low.shape, state.dtype(low.dtype, _NUMBERS), low, high, state.random(), *flags)
    state.accept()
    return made


def decode_discrete(context: Context, node: Call) -> Discrete:
    """Decode a ``Discrete``, which has ``start`` since gym 0.22."""
    state = _State(context, node, "n", "start")
    first = to_int(state.get("start"), "start of a Discrete") if state.has("start") else 0
    state.check_shape(())
    n = to_int(state.get("n"), "n of a Discrete")
    made = Discrete(state.library, n, first, state.dtype("<i8", _WHOLE), state.random())
    state.accept()
    return made


def decode_multi_discrete(context: Context, node: Call) -> MultiDiscrete:
    """Decode a ``MultiDiscrete``, which has ``start`` since gymnasium 0.29."""
    state = _State(context, node, "nvec", "start")
    start = state.array("start") if state.has("start") else None
    nvec = state.array("nvec")
    if start is not None and start.shape != nvec.shape:
        reject("start of a MultiDiscrete does not have the shape of nvec")
    if any(array is not None and array.dtype[1] not in _WHOLE for array in (nvec, start)):
        reject("expected integers as nvec and start of a MultiDiscrete")
    state.check_shape(nvec.shape)
    if start is None and state.library == "gymnasium" and not state.has("_shape"):
        reject("a MultiDiscrete has neither start nor _shape, from which gymnasium derives it")
    made = MultiDiscrete(state.library, nvec, start, state.dtype(nvec.dtype, _WHOLE), state.random())
    state.accept()
    return made


def decode_multi_binary(context: Context, node: Call) -> MultiBinary:
    """Decode a ``MultiBinary``: ``n`` is a number, or a shape since gym 0.17."""
    state = _State(context, node, "n")
    n = state.get("n")
    sizes = tuple(n) if type(n) in (tuple, list) else (n,)
    if isinstance(n, ArrayInfo) and len(n.shape) == 1 and n.shape[0] <= _MAX_RANK:
        sizes = unpack_items(n)
    dims = tuple(to_int(size, "n of a MultiBinary") for size in sizes)
    state.check_shape(dims)
    made = MultiBinary(state.library, dims, state.dtype("|i1", _WHOLE), state.random())
    state.accept()
    return made


def decode_dict(context: Context, node: Call) -> DictSpace:
    """Decode a ``Dict``, which holds an OrderedDict before gymnasium 1.0."""
    state = _State(context, node, "spaces", "sort_keys")
    spaces = state.get("spaces")
    if not isinstance(spaces, dict) or any(type(key) is not str for key in spaces):
        reject("expected a dict with text keys as spaces of a Dict")
    is_sorted = state.get("sort_keys") if state.has("sort_keys") else True
    if type(is_sorted) is not bool:
        reject("expected a bool as sort_keys of a Dict")
    state.check_composite()
    parts = dict(zip(spaces, state.spaces(spaces.values())))
    made = DictSpace(state.library, parts, state.random(), is_sorted)
    state.accept()
    return made


def decode_tuple(context: Context, node: Call) -> TupleSpace:
    """Decode a ``Tuple``, which holds a list before gym 0.22."""
    library, spaces, random = _decode_several(context, node)
    return TupleSpace(library, spaces, random)


def decode_one_of(context: Context, node: Call) -> OneOf:
    """Decode a ``OneOf`` of gymnasium >= 1.0."""
    library, spaces, random = _decode_several(context, node)
    return OneOf(library, spaces, random)


def _decode_several(context: Context, node: Call) -> tuple[Library, tuple[Space, ...], RandomState | None]:
    state = _State(context, node, "spaces")
    spaces = state.get("spaces")
    if type(spaces) is not tuple and (type(spaces) is not list or state.library == "gymnasium"):
        reject("expected a tuple as spaces of a Tuple or OneOf")
    state.check_composite()
    made = state.library, state.spaces(spaces), state.random()
    state.accept()
    return made


def decode_text(context: Context, node: Call) -> Text:
    """Decode a ``Text``, which holds its characters three or four times: they agree."""
    lists, sets, texts = ("_char_list", "_charlist"), ("_char_set", "charset"), ("_char_str", "_charset_str")
    state = _State(context, node, "min_length", "max_length", "_char_index", *lists, *sets, *texts)
    held = state.get(*lists)
    if type(held) not in (tuple, list) or any(type(item) is not str or len(item) != 1 for item in held):
        reject("expected single characters in a Text")
    characters = list(held)
    members, joined, index = state.get(*sets), state.get(*texts), state.get("_char_index")
    if (
        (members is not None and (type(members) not in (set, frozenset) or members != set(characters)))
        or (joined is not None and joined != "".join(sorted(characters)))
        or (index is not None and not _is_index(index, characters))
    ):
        reject("the copies of the characters of a Text differ")
    lengths = [to_int(state.get(name), f"{name} of a Text") for name in ("min_length", "max_length")]
    if state.shape() is not None:
        reject("a Text has a shape")
    if state.get("dtype") is not None:
        state.dtype("", "U")
    made = Text(state.library, lengths[0], lengths[1], "".join(characters), state.random())
    state.accept()
    return made


def _is_index(index: object, characters: list[str]) -> bool:
    """Return whether a dict has the position of each character."""
    places = {character: place for place, character in enumerate(characters)}
    if type(index) is not dict or index.keys() != places.keys():
        return False
    return all(to_int(index[character], "the position of a character") == place for character, place in places.items())


def decode_sequence(context: Context, node: Call) -> Sequence:
    """Decode a ``Sequence``, stacked or not."""
    state = _State(context, node, "feature_space", "stack", "stacked_feature_space")
    (feature,) = state.spaces([state.get("feature_space")])
    stack = state.get("stack") if state.has("stack") else False
    if type(stack) is not bool or (state.library == "gymnasium" and not state.has("stack")):
        reject("expected a bool as stack of a Sequence")
    stacked = state.spaces([state.get("stacked_feature_space")])[0] if state.has("stacked_feature_space") else None
    state.check_composite()
    made = Sequence(state.library, feature, stack, state.random(), stacked)
    state.accept()
    return made


def decode_graph(context: Context, node: Call) -> Graph:
    """Decode a ``Graph``, with edges or without."""
    state = _State(context, node, "node_space", "edge_space", "batch_node_space", "batch_edge_space")
    (nodes,) = state.spaces([state.get("node_space")])
    if not state.has("edge_space"):
        reject("a Graph has no edge_space, be it None")
    others = [
        None if state.get(name) is None else state.spaces([state.get(name)])[0]
        for name in ("edge_space", "batch_node_space", "batch_edge_space")
    ]
    state.check_composite()
    made = Graph(state.library, nodes, others[0], state.random(), *others[1:])
    state.accept()
    return made


# -- rows ----------------------------------------------------------------------------------------------

_DECODERS: Final = {
    "Box": ("box", decode_box),
    "Discrete": ("discrete", decode_discrete),
    "MultiDiscrete": ("multi_discrete", decode_multi_discrete),
    "MultiBinary": ("multi_binary", decode_multi_binary),
    "Dict": ("dict", decode_dict),
    "Tuple": ("tuple", decode_tuple),
    "Text": ("text", decode_text),
    "Sequence": ("sequence", decode_sequence),
    "Graph": ("graph", decode_graph),
}
"""Each space of both libraries, with its module below ``spaces`` and its decoder."""
_OLD_MODULES: Final = {"Dict": "dict_space", "Tuple": "tuple_space"}
"""The module that two of them had before gym 0.12."""
_SPACES: Final = "gymnasium.spaces"


def _rows(name: str, module: str, new: NodeDecoder) -> list[Known]:
    """Return the rows of a space: in gymnasium, and in gym, from which it was taken over."""
    current = (f"{_SPACES}.{module}", name)
    olds = [f"gym.spaces.{old}" for old in (module, _OLD_MODULES.get(name)) if old]
    return [
        *known(*current, "value, built", kind=name, new=new),
        *known(olds, name, "value, built", kind=name, new=new, current=current),
    ]


ROWS: Final = [
    *(row for name, (module, new) in _DECODERS.items() for row in _rows(name, module, new)),
    *known(f"{_SPACES}.oneof", "OneOf", "value, built", kind="OneOf", new=decode_one_of, is_gone=True),  # >= 1.0
    *known(f"{_SPACES}.space", "Space", "value"),
    *known(("gym.spaces.space", "gym.core"), "Space", "value", current=(f"{_SPACES}.space", "Space")),
    *known(f"{_SPACES}.graph", "GraphInstance", "value"),
    *known("gym.spaces.graph", "GraphInstance", "value", current=(f"{_SPACES}.graph", "GraphInstance")),
    *known(  # gym.make imports what they name, and loading does not
        ("gym.envs.registration", "gymnasium.envs.registration"), "EnvSpec", "only described",
        kind="environment_spec", new=decode_plain_object,
        attributes=(
            "id", "entry_point", "reward_threshold", "nondeterministic", "max_episode_steps", "order_enforce",
            "autoreset", "disable_env_checker", "apply_api_compatibility", "new_step_api", "kwargs", "namespace",
            "name", "version", "additional_wrappers", "vector_entry_point",
            "_kwargs", "_env_name",  # gym < 0.22
            "_entry_point", "_local_only", "tags", "timestep_limit", "trials", "max_episode_seconds",  # gym < 0.13
        ),
    ),
    *known(
        "gymnasium.envs.registration", "WrapperSpec", "only described", kind="environment_spec",
        new=decode_plain_object, attributes=("name", "entry_point", "kwargs"),
    ),
]  # fmt: skip
