"""The spaces of gym and gymnasium: one class for each kind, with all that is known about it (VALUES.md 13.4).

A class has the names of the kind, its fields, which plain JSON has as well (STATISTICS.md 17.6), how a pickle holds
them, what gymnasium does with it (``contains``, ``sample``), and what SB3 may do with it (``observed``,
``distribution``). Other modules ask a space what it can, and not for its class.

To add a kind: a class here, and its name in :data:`SPACE_TYPES`.

Sources: gym ``spaces/`` of 0.10 to 0.26, gymnasium ``spaces/`` of 0.26 to 1.4; SB3 ``common/preprocessing.py`` and
``common/distributions.py``, 0.6 to 2.9. numpy is imported only where elements of a space are made or checked.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Sequence as SequenceOf
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NoReturn, TypeAlias

from sbformat.errors import SbformatError, UnsupportedError, escape, need_extra
from sbformat.known.changes import GYMNASIUM
from sbformat.known.numpy import to_int, unpack_items
from sbformat.known.rows import known, reject
from sbformat.known.sb3 import decode_plain_object
from sbformat.known.types import DType, RandomState, Reference, Value, own_tuple, refuse
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pkl.tree import Call, Dict, Update

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import ModuleType

    import numpy as np
    from typing_extensions import Self

    from sbformat.known.context import NodeContext
    from sbformat.known.encoder import Encoder
    from sbformat.known.rows import Known


Library: TypeAlias = Literal["gym", "gymnasium"]

LIBRARIES: Final = ("gym", "gymnasium")

Bounds: TypeAlias = tuple[ArrayInfo, ArrayInfo]

FieldKind: TypeAlias = Literal[
    "shape", "dtype", "array", "optional array", "flags", "int", "text", "bool", "space", "optional space", "spaces",
    "named spaces",
]  # fmt: skip
"""``flags`` is an optional array of bools that most releases derive from other fields."""

_SPACES: Final = "gymnasium.spaces"
_MODULES: Final = {"MultiDiscrete": "multi_discrete", "MultiBinary": "multi_binary"}
"""The modules of spaces whose names are not those of the classes in lower case."""
_OLD_MODULES: Final = {"Dict": "dict_space", "Tuple": "tuple_space"}
"""Their modules below ``gym.spaces`` before gym 0.12."""
_COMMON: Final = frozenset({"shape", "_shape", "dtype", "np_random", "_np_random"})
_TYPE_CODES: Final = {
    "bool_": "|b1", "int8": "|i1", "uint8": "|u1", "int16": "<i2", "uint16": "<u2", "int32": "<i4", "uint32": "<u4",
    "int64": "<i8", "uint64": "<u8", "float16": "<f2", "float32": "<f4", "float64": "<f8", "int": "<i8",
    "float": "<f8", "bool": "|b1", "str": "<U0",
}  # fmt: skip
"""numpy's scalar types, which the oldest releases saved instead of a dtype."""
_RANK: Final = 64  # the highest rank of an array in numpy
_NUMBERS: Final = "biufc"
_WHOLE: Final = "iu"
_MOST_ITEMS: Final = 10_000_000
"""Items of an element that is drawn: a small file can share spaces so that an element is far greater than the file."""
_LIKELY_LENGTH: Final = 16  # A length that one in a hundred elements of a Sequence exceeds
_INT64: Final = "<i8"
_USUAL: Final = {"random": None, "start": None, "sort_keys": True}
"""Fields that reports leave out when they have this value."""


# -- every kind ----------------------------------------------------------------------------------------


class _State:
    """The attributes that BUILD gives a space."""

    def __init__(self, context: NodeContext, node: Call, *own: str) -> None:
        if node.args != ():
            reject("expected a space constructed without arguments")
        self.attributes = context.read_attributes(node)
        self.library: Library = "gymnasium" if str(node.func).startswith("gymnasium.") else "gym"
        unknown = [name for name in self.attributes if name not in _COMMON and name not in own]
        if unknown:
            reject(f"a space has the unknown attribute {unknown[0]!r:.80}")

    def get(self, *names: str) -> Any:
        """Return the attribute with one of these names, or None."""
        held = [self.attributes[name] for name in names if name in self.attributes]
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
        """Return the code of its dtype, of one of these kinds; the oldest releases of gym save none."""
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
        if random is not None and (not isinstance(random, RandomState) or random.kind == "BitGenerator"):
            reject("expected a random generator of numpy in a space")
        return random

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

    def space(self, name: str) -> Space:
        return self.spaces([self.get(name)])[0]


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
    """The fields that define the space, in order: the JSON of a bundle has exactly these, reports leave out ``flags``,
    and statistics keep only these. The others are random generators, and what gymnasium derives."""
    saved: ClassVar[tuple[str, ...]]
    """The attributes that a pickle may have, besides those of every space."""
    is_gone: ClassVar[bool] = False
    """Whether gym, and some gymnasium that SB3 2 accepts, do not have it."""
    is_in_old_gym: ClassVar[bool] = True
    """Whether gym 0.21 has it, which SB3 before gymnasium requires."""

    observed: ClassVar[Literal["", "numbers", "one-hot", "by key"]] = ""
    """How SB3 gives a policy its observations; empty when it does not."""
    may_be_normalized: ClassVar[bool] = False
    """Whether VecNormalize normalizes its observations."""
    distribution: ClassVar[Literal["", "gaussian", "categorical", "multi-categorical", "bernoulli"]] = ""
    """How SB3 draws its actions; empty when it has no such actions."""

    library: Library

    if TYPE_CHECKING:  # the first is a field of every subclass, the others of some

        def __init__(self, library: Library, random: RandomState | None, **fields: Any) -> None: ...
        @property
        def random(self) -> RandomState | None: ...
        @property
        def shape(self) -> Any: ...
        @property
        def dtype(self) -> Any: ...

    else:
        shape = dtype = None
        """The shape of one element, a tuple, and the code of its dtype; None when it is not one array."""

    def __init_subclass__(cls) -> None:
        cls._fields = ("library", *cls.__annotations__)
        cls.class_name = cls.__name__.removesuffix("Space")
        cls.module = _MODULES.get(cls.class_name, cls.class_name.lower())

    @property
    def bounds(self) -> Bounds | None:
        """The least and the greatest value of each item, in the shape of the space; None without bounds."""
        return None

    @property
    def pair(self) -> tuple[str, str]:
        """Module and name of its class in gymnasium."""
        return f"{_SPACES}.{self.module}", self.class_name

    @property
    def has_keys(self) -> bool:
        """Whether an observation is a dict."""
        return self.observed == "by key"

    def parts(self) -> Mapping[Any, Space]:
        """Return the space of each key of an observation that is a dict; of any other, the space itself for None."""
        return {None: self}

    def choices(self) -> tuple[int, ...]:
        """Return the number of choices of each item; none for a space of other elements than choices."""
        return ()

    def flat_size(self) -> int:
        """Return the number of features of one observation, or of outputs for a distribution over actions.

        Choices are one-hot. Only of one array, which SB3 has as the one or the other::

            Discrete("gymnasium", 4, 0, "<i8", None).flat_size()  # 4
        """
        return sum(self.choices()) if self.observed == "one-hot" else math.prod(self.shape)

    def is_image(self, *, is_normalized: bool = False) -> bool:  # noqa: ARG002 -- of a Box
        """Return what SB3's ``is_image_space`` returns: three dimensions; bytes from 0 to 255, unless normalized."""
        return False

    def inner_spaces(self) -> list[Space]:
        """Return the spaces that it contains directly."""
        found: list[Space] = []
        for name in self.plain_fields:
            value = getattr(self, name)
            items = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else (value,)
            found += [item for item in items if isinstance(item, Space)]
        return found

    def find_problem(self) -> str:
        """Return why its fields do not fit together, or nothing."""
        return ""

    def shown_fields(self) -> Iterable[tuple[str, Any]]:
        """Return the fields that a report shows: none that gymnasium derives, or that has its usual value."""
        for name, part in super().shown_fields():
            is_usual = name in _USUAL and part is _USUAL[name]
            if self.plain_fields.get(name) != "flags" and not is_usual:
                yield name, part

    # -- elements -------------------------------------------------------------------------------------

    def contains(self, value: Any) -> bool:  # noqa: ARG002 -- of other kinds
        """Return whether a value is an element of the space, as gymnasium 1.4 does.

        :param value: an array of ``shape``, or a list of its items; a number for a Discrete, text, a dict or a tuple
        :raises UnsupportedError: for a Graph and a stacked Sequence, whose elements are objects of gymnasium

        Example::

            space = sbformat.read("agent.zip").decode("action_space")  # Discrete(2)
            space.contains(1), space.contains(2)  # (True, False)

        Source: gymnasium ``spaces/``, 1.4.
        """
        self._refuse_elements()

    def sample(self, rng: np.random.Generator) -> Any:
        """Return a random element, drawn as gymnasium 1.4 does.

        :param rng: changed by each call; equal generators give equal elements
        :return: an array of ``shape`` and ``dtype``, a number, text, a dict or a tuple
        :raises UnsupportedError: for a Graph and a stacked Sequence, whose elements are objects of gymnasium; when
            there is no element, or when one has more than 10 million items

        Example::

            space = sbformat.read("agent.zip").decode("observation_space")
            policy.predict(space.sample(numpy.random.default_rng(0)))

        Source: gymnasium ``spaces/``, 1.4.
        """
        if self.count_items({}) > _MOST_ITEMS:
            refuse(f"an element of this {self.class_name} space has more than {_MOST_ITEMS:,} items")
        try:
            return self.draw(rng)
        except (ValueError, OverflowError, ZeroDivisionError) as error:
            message = f"no element of this {self.class_name} space can be drawn: {escape(str(error), 200)}"
            raise UnsupportedError(message) from None

    def draw(self, rng: np.random.Generator) -> Any:  # noqa: ARG002 -- of other kinds
        """Return a random element, whatever its size, or raise an error of numpy: for :meth:`sample`."""
        self._refuse_elements()

    def count_items(self, counts: dict[int, int]) -> int:
        """Return how many items an element has or is likely to have; shared spaces count wherever they are used."""
        if id(self) not in counts:
            inner = self.inner_spaces()
            own = math.prod(self.shape or ())
            counts[id(self)] = sum(space.count_items(counts) for space in inner) if inner else own
        return counts[id(self)]

    def _refuse_elements(self) -> NoReturn:
        refuse(f"the elements of this {self.class_name} space are objects of gymnasium: call to_gymnasium() first")

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
            raise need_extra("gymnasium is not installed", "gym") from None
        return _convert(self, spaces, {})

    @abstractmethod
    def _construct(self, spaces: ModuleType, convert: Any) -> Any:
        """Call the constructor in ``gymnasium.spaces``; ``convert`` returns gymnasium's space for one within it."""

    # -- pickles --------------------------------------------------------------------------------------

    @classmethod
    def decode(cls, context: NodeContext, node: Call) -> Self:
        """Decode the space from the attributes that BUILD gives an object of its class (VALUES.md 13.4)."""
        state = _State(context, node, *cls.saved)
        made = cls(**cls._read_state(state), library=state.library, random=state.random())
        problem = made.find_problem()
        if problem:
            reject(problem)
        return made

    @classmethod
    @abstractmethod
    def _read_state(cls, state: _State) -> dict[str, Any]:
        """Return its own fields from the attributes of an object."""

    def encode(self, encoder: Encoder) -> Call:
        """Return the tree of the space as the target's library pickles it (VALUES.md 13.7), if it loads the kind."""
        state = self._write_state(encoder)
        state["_shape"] = None if self.shape is None else own_tuple(self.shape)
        state["dtype"] = None if self.dtype is None else DType(self.dtype).encode(encoder)
        made = Call("NEWOBJ", encoder.name(self.pair), ())
        made.updates = [Update("BUILD", made, Dict([*state.items(), ("_np_random", None)]))]
        return made

    def _write_state(self, encoder: Encoder) -> dict[str, Any]:
        """Return its own attributes of an object of the target's library."""
        return super().encode(encoder)  # type: ignore[no-any-return]  # it refuses

    def make_hints(self) -> dict[str, Any]:
        """Return what SB3 writes beside the blob: people and catalogues read it, and SB3 does not load it."""
        if self.shape is None:
            return {}
        kind = {"f": "float", "i": "int", "u": "uint"}.get(self.dtype[1:2])
        name = f"{kind}{int(self.dtype[2:]) * 8}" if kind else "bool" if self.dtype[1:2] == "b" else self.dtype
        return {"dtype": name, "_shape": list(self.shape)}

    @classmethod
    def _read_object(cls, space: Any, _: Callable[[Any, str], Space]) -> dict[str, Any]:
        """Return its own fields from the attributes of an object of gym or gymnasium."""
        raise AttributeError(space)


# -- spaces of arrays ----------------------------------------------------------------------------------


class Box(Space):
    """Arrays of numbers within bounds: ``low <= x <= high``, both of the shape of the box, infinite where unbounded."""

    shape: tuple[int, ...]
    dtype: str
    low: ArrayInfo
    high: ArrayInfo
    random: RandomState | None
    bounded_below: ArrayInfo | None = None
    """Where the lower bound applies; None in the oldest releases. Integers have no infinity to say that it does not."""
    bounded_above: ArrayInfo | None = None

    plain_fields = {
        "shape": "shape", "dtype": "dtype", "low": "array", "high": "array", "bounded_below": "flags",
        "bounded_above": "flags",
    }  # fmt: skip
    saved = ("low", "high", "bounded_below", "bounded_above", "low_repr", "high_repr")
    observed = "numbers"
    may_be_normalized = True
    distribution = "gaussian"

    @property
    def bounds(self) -> Bounds:
        return self.low, self.high

    def is_image(self, *, is_normalized: bool = False) -> bool:
        if len(self.shape) != 3 or is_normalized:
            return len(self.shape) == 3
        return self.dtype[1:] == "u1" and _has_only(self.low, 0) and _has_only(self.high, 255)

    def find_problem(self) -> str:
        arrays = (self.low, self.high, self.bounded_below, self.bounded_above)
        fit = all(array is None or array.shape == self.shape for array in arrays)
        return "" if fit else "the bounds of a Box do not have its shape"

    def contains(self, value: Any) -> bool:
        """Return whether it is an array of the shape, within the bounds, of a dtype that converts without loss."""
        import numpy as np

        low, high = np.asarray(self.low), np.asarray(self.high)
        if not isinstance(value, np.ndarray):
            try:
                value = np.asarray(value, self.dtype)
            except (ValueError, TypeError, OverflowError):
                return False
        fits = np.can_cast(value.dtype, self.dtype) and value.shape == self.shape
        return bool(fits and np.all(value >= low) and np.all(value <= high))

    def draw(self, rng: np.random.Generator) -> Any:
        """Return an array: each item uniform between bounds, exponential beyond one, and normal without."""
        import numpy as np

        dtype = np.dtype(self.dtype)
        low, high = np.asarray(self.low), np.asarray(self.high)
        above = low > -np.inf if self.bounded_below is None else np.asarray(self.bounded_below)
        below = high < np.inf if self.bounded_above is None else np.asarray(self.bounded_above)
        end = high if dtype.kind == "f" else high.astype("int64") + 1
        made = np.empty(self.shape)
        made[~above & ~below] = rng.normal(size=np.count_nonzero(~above & ~below))
        made[above & ~below] = rng.exponential(size=np.count_nonzero(above & ~below)) + low[above & ~below]
        made[~above & below] = -rng.exponential(size=np.count_nonzero(~above & below)) + end[~above & below]
        made[above & below] = rng.uniform(low[above & below], end[above & below])
        if dtype.kind == "f":
            return made.astype(dtype)
        made = np.floor(made)
        if dtype.kind in _WHOLE:
            limits, margin = np.iinfo(dtype), 2 if dtype == np.int64 else 0  # float64 cannot hold the limits of int64
            made = made.clip(limits.min + margin, limits.max - margin)
        return made.astype(dtype).clip(low, high) if dtype == np.int64 else made.astype(dtype)

    def _construct(self, spaces: ModuleType, _: Any) -> Any:
        made = spaces.Box(self.low.to_numpy(), self.high.to_numpy(), self.shape, self.dtype)
        for name in ("bounded_below", "bounded_above"):  # gymnasium derives them from infinite bounds
            flags = getattr(self, name)
            if flags is not None:
                setattr(made, name, flags.to_numpy())
        return made

    @classmethod
    def _read_state(cls, state: _State) -> dict[str, Any]:
        low, high = state.array("low"), state.array("high")
        state.check_shape(low.shape)
        flags = [state.array(name) if name in state.attributes else None for name in ("bounded_below", "bounded_above")]
        if any(flag is not None and flag.dtype != "|b1" for flag in flags):
            reject("expected bools as bounded_below and bounded_above of a Box")
        if any(type(state.get(name)) not in (str, type(None)) for name in ("low_repr", "high_repr")):
            reject("expected text as low_repr and high_repr of a Box")
        return {
            "shape": low.shape, "dtype": state.dtype(low.dtype, _NUMBERS), "low": low, "high": high,
            "bounded_below": flags[0], "bounded_above": flags[1],
        }  # fmt: skip

    def _write_state(self, encoder: Encoder) -> dict[str, Any]:
        parts = {
            "low": self.low,
            "high": self.high,
            "bounded_below": self.bounded_below or _flags(self.low, lambda low: low > -math.inf),
            "bounded_above": self.bounded_above or _flags(self.high, lambda high: high < math.inf),
        }  # gymnasium derives low_repr and high_repr
        arrays = {name: encoder.array(info._replace(is_scalar=False)) for name, info in parts.items()}
        return {"dtype": None, "_shape": None, **arrays}  # gymnasium sets these two first

    @classmethod
    def _read_object(cls, space: Any, _: Any) -> dict[str, Any]:
        low, high = _array_of(space.low), _array_of(space.high)
        return {"shape": tuple(space.shape), "dtype": low.dtype, "low": low, "high": high}


class Discrete(Space):
    """The integers ``start`` to ``start + n - 1``."""

    n: int
    start: int
    """0 before gym 0.22, which had no other."""
    dtype: str
    random: RandomState | None

    plain_fields = {"n": "int", "start": "int", "dtype": "dtype"}
    saved = ("n", "start")
    observed = "one-hot"
    distribution = "categorical"

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    def choices(self) -> tuple[int, ...]:
        return (self.n,)

    def contains(self, value: Any) -> bool:
        """Return whether it is one of the integers, of a dtype that converts without loss."""
        import numpy as np

        dtype = np.dtype(self.dtype)
        if isinstance(value, int):
            limits = np.iinfo(dtype)
            return limits.min <= value <= limits.max and self.start <= value < self.start + self.n
        if not isinstance(value, (np.generic, np.ndarray)) or value.shape != ():
            return False
        is_whole = np.issubdtype(value.dtype, np.integer) and np.can_cast(value.dtype, dtype)
        return bool(is_whole and self.start <= int(value) < self.start + self.n)

    def draw(self, rng: np.random.Generator) -> Any:
        import numpy as np

        dtype: Any = np.dtype(self.dtype).type
        return dtype(self.start) + rng.integers(self.n, dtype=dtype)

    def make_hints(self) -> dict[str, Any]:
        return {**super().make_hints(), "n": str(self.n), "start": str(self.start)}

    def _construct(self, spaces: ModuleType, _: Any) -> Any:
        return spaces.Discrete(self.n, start=self.start, **({} if self.dtype == _INT64 else {"dtype": self.dtype}))

    @classmethod
    def _read_state(cls, state: _State) -> dict[str, Any]:
        start = (
            to_int(state.get("start"), "start of a Discrete") if "start" in state.attributes else 0
        )  # since gym 0.22
        state.check_shape(())
        return {"n": to_int(state.get("n"), "n of a Discrete"), "start": start, "dtype": state.dtype(_INT64, _WHOLE)}

    def _write_state(self, encoder: Encoder) -> dict[str, Any]:
        if encoder.target < GYMNASIUM:
            _refuse_start(is_zero=self.start == 0)
            return {"n": self.n}
        return {"n": self.n, "start": self.start}

    @classmethod
    def _read_object(cls, space: Any, _: Any) -> dict[str, Any]:
        return {"n": int(space.n), "start": int(getattr(space, "start", 0)), "dtype": _dtype_of(space)}


class MultiDiscrete(Space):
    """Arrays of integers, each item in a range of its own."""

    nvec: ArrayInfo
    """The number of choices of each item."""
    start: ArrayInfo | None
    """The first choice of each item; None before gymnasium 0.29: zeros."""
    dtype: str
    random: RandomState | None

    plain_fields = {"nvec": "array", "start": "optional array", "dtype": "dtype"}
    saved = ("nvec", "start")
    observed = "one-hot"
    distribution = "multi-categorical"

    @property
    def shape(self) -> tuple[int, ...]:
        return self.nvec.shape

    def choices(self) -> tuple[int, ...]:
        """Return the number of choices of each item, in the order of ``nvec``.

        :raises UnsupportedError: when ``nvec`` is not an array of whole numbers
        """
        counts = unpack_items(self.nvec) if self.nvec.dtype[1:2] in ("f", *_WHOLE) else (math.nan,)
        if any(count % 1 != 0 for count in counts):
            refuse("expected whole numbers as nvec of a MultiDiscrete")
        return tuple(map(int, counts))

    def find_problem(self) -> str:
        fit = self.start is None or self.start.shape == self.nvec.shape
        return "" if fit else "start of a MultiDiscrete does not have the shape of nvec"

    def contains(self, value: Any) -> bool:
        """Return whether it is an array, or a list, of choices, of a dtype that converts without loss."""
        import numpy as np

        nvec, start = self._read_arrays()
        array = _promote(value)
        fits = array is not None and array.shape == self.shape and np.can_cast(array.dtype, self.dtype)
        return bool(fits and np.all(start <= array) and np.all(array <= start + (nvec - 1)))

    def draw(self, rng: np.random.Generator) -> Any:
        nvec, start = self._read_arrays()
        return (rng.random(nvec.shape) * nvec).astype(self.dtype) + start

    def _read_arrays(self) -> tuple[Any, Any]:
        import numpy as np

        nvec = np.asarray(self.nvec).astype(self.dtype)
        return nvec, np.zeros_like(nvec) if self.start is None else np.asarray(self.start).astype(self.dtype)

    def _construct(self, spaces: ModuleType, _: Any) -> Any:
        start = {} if self.start is None else {"start": self.start.to_numpy()}
        return spaces.MultiDiscrete(self.nvec.to_numpy(), dtype=self.dtype, **start)

    @classmethod
    def _read_state(cls, state: _State) -> dict[str, Any]:
        start = state.array("start") if "start" in state.attributes else None  # since gymnasium 0.29
        nvec = state.array("nvec")
        if any(array is not None and array.dtype[1] not in _WHOLE for array in (nvec, start)):
            reject("expected integers as nvec and start of a MultiDiscrete")
        state.check_shape(nvec.shape)
        if start is None and state.library == "gymnasium" and "_shape" not in state.attributes:
            reject("a MultiDiscrete has neither start nor _shape, from which gymnasium derives it")
        return {"nvec": nvec, "start": start, "dtype": state.dtype(nvec.dtype, _WHOLE)}

    def _write_state(self, encoder: Encoder) -> dict[str, Any]:
        nvec, start = self.nvec, self.start
        if encoder.target < GYMNASIUM:
            _refuse_start(is_zero=start is None or not any(unpack_items(start)))
            return {"nvec": encoder.tree(nvec)}
        if start is None:
            start = ArrayInfo(nvec.dtype, nvec.shape, "C", bytes(len(nvec.buffer)), is_scalar=False)
        return {"nvec": encoder.tree(nvec), "start": encoder.tree(start)}

    @classmethod
    def _read_object(cls, space: Any, _: Any) -> dict[str, Any]:
        start = getattr(space, "start", None)
        starts = None if start is None else _array_of(start)
        return {"nvec": _array_of(space.nvec), "start": starts, "dtype": _dtype_of(space)}


class MultiBinary(Space):
    """Arrays of 0 and 1."""

    shape: tuple[int, ...]
    dtype: str
    random: RandomState | None

    plain_fields = {"shape": "shape", "dtype": "dtype"}
    saved = ("n",)
    observed = "numbers"
    distribution = "bernoulli"

    def contains(self, value: Any) -> bool:
        """Return whether it is an array, or a list, of 0 and 1."""
        import numpy as np

        array = _promote(value)
        return bool(array is not None and array.shape == self.shape and np.all((array == 0) | (array == 1)))

    def draw(self, rng: np.random.Generator) -> Any:
        import numpy as np

        return rng.integers(0, 2, self.shape, np.dtype(self.dtype))

    def _construct(self, spaces: ModuleType, _: Any) -> Any:
        return spaces.MultiBinary(self.shape[0] if len(self.shape) == 1 else self.shape)

    @classmethod
    def _read_state(cls, state: _State) -> dict[str, Any]:
        n = state.get("n")  # a number, or a shape since gym 0.17
        sizes = tuple(n) if type(n) in (tuple, list) else (n,)
        if isinstance(n, ArrayInfo) and len(n.shape) == 1 and n.shape[0] <= _RANK:
            sizes = unpack_items(n)
        shape = tuple(to_int(size, "n of a MultiBinary") for size in sizes)
        state.check_shape(shape)
        return {"shape": shape, "dtype": state.dtype("|i1", _WHOLE)}

    def _write_state(self, _: Encoder) -> dict[str, Any]:
        return {"n": self.shape[0] if len(self.shape) == 1 else own_tuple(self.shape)}

    @classmethod
    def _read_object(cls, space: Any, _: Any) -> dict[str, Any]:
        return {"shape": tuple(space.shape), "dtype": "|i1"}


# -- spaces of other spaces, and text ------------------------------------------------------------------


class DictSpace(Space):
    """Dicts with a space for each key, in order."""

    spaces: dict[str, Space]
    random: RandomState | None
    sort_keys: bool = True
    """Whether gymnasium >= 1.4 sorts the names when it makes a space from it; earlier releases always did."""

    plain_fields = {"spaces": "named spaces", "sort_keys": "bool"}
    saved = ("spaces", "sort_keys")
    observed = "by key"

    def __getitem__(self, key: str) -> Space:
        return self.spaces[key]

    def parts(self) -> Mapping[Any, Space]:
        return self.spaces

    def contains(self, value: Any) -> bool:
        """Return whether it is a dict of exactly the keys, with an element of each space."""
        is_whole = isinstance(value, dict) and value.keys() == self.spaces.keys()
        return is_whole and all(space.contains(value[key]) for key, space in self.spaces.items())

    def draw(self, rng: np.random.Generator) -> Any:
        return {key: space.draw(rng) for key, space in self.spaces.items()}

    def _construct(self, spaces: ModuleType, convert: Any) -> Any:
        made = spaces.Dict(OrderedDict((key, convert(part)) for key, part in self.spaces.items()))  # it does not sort
        made.sort_keys = self.sort_keys
        return made

    @classmethod
    def _read_state(cls, state: _State) -> dict[str, Any]:
        spaces = state.get("spaces")  # an OrderedDict before gymnasium 1.0
        if not isinstance(spaces, dict) or any(type(key) is not str for key in spaces):
            reject("expected a dict with text keys as spaces of a Dict")
        is_sorted = state.get("sort_keys") if "sort_keys" in state.attributes else True
        if type(is_sorted) is not bool:
            reject("expected a bool as sort_keys of a Dict")
        state.check_composite()
        return {"spaces": dict(zip(spaces, state.spaces(spaces.values()))), "sort_keys": is_sorted}

    def _write_state(self, encoder: Encoder) -> dict[str, Any]:
        spaces = encoder.ordered_dict(OrderedDict(self.spaces))  # SB3 before 2.4 accepts nothing else
        return {"spaces": spaces, **({} if encoder.target < GYMNASIUM else {"sort_keys": self.sort_keys})}

    @classmethod
    def _read_object(cls, space: Any, convert: Callable[[Any, str], Space]) -> dict[str, Any]:
        return {"spaces": {key: convert(part, key) for key, part in space.spaces.items()}}


class _Several(Space):
    """A space that consists of several others in order."""

    plain_fields = {"spaces": "spaces"}
    saved = ("spaces",)

    if TYPE_CHECKING:

        @property
        def spaces(self) -> tuple[Space, ...]: ...

    def _construct(self, spaces: ModuleType, convert: Any) -> Any:
        return getattr(spaces, self.class_name)(tuple(map(convert, self.spaces)))

    @classmethod
    def _read_state(cls, state: _State) -> dict[str, Any]:
        spaces = state.get("spaces")  # a list before gym 0.22
        if type(spaces) is not tuple and (type(spaces) is not list or state.library == "gymnasium"):
            reject("expected a tuple as spaces of a Tuple or OneOf")
        state.check_composite()
        return {"spaces": state.spaces(spaces)}


class TupleSpace(_Several):
    """Tuples with a space for each position."""

    spaces: tuple[Space, ...]
    random: RandomState | None

    def __getitem__(self, index: int) -> Space:
        return self.spaces[index]

    def contains(self, value: Any) -> bool:
        """Return whether it is a tuple, list or array with an element of each space."""
        import numpy as np

        is_whole = isinstance(value, (tuple, list, np.ndarray)) and len(value) == len(self.spaces)
        return is_whole and all(space.contains(item) for space, item in zip(self.spaces, value))

    def draw(self, rng: np.random.Generator) -> Any:
        return tuple(space.draw(rng) for space in self.spaces)

    def _write_state(self, encoder: Encoder) -> dict[str, Any]:
        return {"spaces": tuple(encoder.tree(space) for space in self.spaces)}


class OneOf(_Several):
    """An element of one of several spaces."""

    spaces: tuple[Space, ...]
    random: RandomState | None

    is_gone = True  # since gymnasium 1.0
    is_in_old_gym = False

    def contains(self, value: Any) -> bool:
        """Return whether it is a tuple of the number of a space and an element of that space."""
        import numpy as np

        if not isinstance(value, tuple) or len(value) != 2 or not isinstance(value[0], (int, np.int64)):
            return False
        return bool(0 <= value[0] < len(self.spaces)) and self.spaces[int(value[0])].contains(value[1])

    def draw(self, rng: np.random.Generator) -> Any:
        at = rng.integers(0, len(self.spaces))
        return at, self.spaces[int(at)].draw(rng)


class Text(Space):
    """Strings of a set of characters, with bounds on their length."""

    min_length: int
    max_length: int
    characters: str
    random: RandomState | None

    is_in_old_gym = False
    plain_fields = {"min_length": "int", "max_length": "int", "characters": "text"}
    saved = (
        "min_length", "max_length", "_char_index", "_char_list", "_charlist", "_char_set", "charset", "_char_str",
        "_charset_str",
    )  # fmt: skip

    def contains(self, value: Any) -> bool:
        """Return whether it is text of such a length and such characters."""
        is_sized = isinstance(value, str) and self.min_length <= len(value) <= self.max_length
        return is_sized and set(self.characters).issuperset(value)

    def count_items(self, _: dict[int, int]) -> int:
        return self.max_length

    def draw(self, rng: np.random.Generator) -> Any:
        length = rng.integers(self.min_length, self.max_length + 1)
        likely = [1 / len(self.characters)] * len(self.characters)
        return "".join(rng.choice(list(self.characters), size=length, p=likely))

    def _construct(self, spaces: ModuleType, _: Any) -> Any:
        return spaces.Text(self.max_length, min_length=self.min_length, charset=self.characters)

    @classmethod
    def _read_state(cls, state: _State) -> dict[str, Any]:
        """Read the characters, which are held three or four times: they agree."""
        held = state.get("_char_list", "_charlist")
        if type(held) not in (tuple, list) or any(type(item) is not str or len(item) != 1 for item in held):
            reject("expected single characters in a Text")
        members, joined = state.get("_char_set", "charset"), state.get("_char_str", "_charset_str")
        index = state.get("_char_index")
        places = {character: place for place, character in enumerate(held)}
        if (
            (members is not None and (type(members) not in (set, frozenset) or members != set(held)))
            or (joined is not None and joined != "".join(sorted(held)))
            or (index is not None and (type(index) is not dict or index.keys() != places.keys()))
            or any(to_int((index or places)[key], "the position of a character") != places[key] for key in places)
        ):
            reject("the copies of the characters of a Text differ")
        least, most = (to_int(state.get(name), f"{name} of a Text") for name in ("min_length", "max_length"))
        if state.shape() is not None:
            reject("a Text has a shape")
        if state.get("dtype") is not None:
            state.dtype("", "U")
        return {"min_length": least, "max_length": most, "characters": "".join(held)}


class Sequence(Space):
    """Sequences of any length."""

    feature_space: Space
    stack: bool
    random: RandomState | None
    stacked_feature_space: Space | None = None
    """With ``stack``: the space of a sequence in one array, as it was saved."""

    is_in_old_gym = False
    plain_fields = {"feature_space": "space", "stack": "bool"}
    saved = ("feature_space", "stack", "stacked_feature_space")

    def contains(self, value: Any) -> bool:
        """Return whether it is a tuple of elements of the space.

        :raises UnsupportedError: with ``stack``
        """
        if self.stack:
            self._refuse_elements()
        return isinstance(value, tuple) and all(map(self.feature_space.contains, value))

    def count_items(self, counts: dict[int, int]) -> int:
        return super().count_items(counts) * _LIKELY_LENGTH

    def draw(self, rng: np.random.Generator) -> Any:
        """Return a tuple of elements, whose number has a geometric distribution.

        :raises UnsupportedError: with ``stack``
        """
        if self.stack:
            self._refuse_elements()
        return tuple(self.feature_space.draw(rng) for _ in range(rng.geometric(0.25)))

    def _construct(self, spaces: ModuleType, convert: Any) -> Any:
        return spaces.Sequence(convert(self.feature_space), stack=self.stack)

    @classmethod
    def _read_state(cls, state: _State) -> dict[str, Any]:
        feature = state.space("feature_space")
        stack = state.get("stack") if "stack" in state.attributes else False
        if type(stack) is not bool or (state.library == "gymnasium" and "stack" not in state.attributes):
            reject("expected a bool as stack of a Sequence")
        stacked = state.space("stacked_feature_space") if "stacked_feature_space" in state.attributes else None
        state.check_composite()
        return {"feature_space": feature, "stack": stack, "stacked_feature_space": stacked}


class Graph(Space):
    """Graphs with a space for each node, and one for each edge or none."""

    node_space: Space
    edge_space: Space | None
    random: RandomState | None
    batch_node_space: Space | None = None
    """The space of several nodes, as gymnasium 1.4 saves it."""
    batch_edge_space: Space | None = None

    is_in_old_gym = False
    plain_fields = {"node_space": "space", "edge_space": "optional space"}
    saved = ("node_space", "edge_space", "batch_node_space", "batch_edge_space")

    def _construct(self, spaces: ModuleType, convert: Any) -> Any:
        edges = None if self.edge_space is None else convert(self.edge_space)
        return spaces.Graph(convert(self.node_space), edges)

    @classmethod
    def _read_state(cls, state: _State) -> dict[str, Any]:
        nodes = state.space("node_space")
        if "edge_space" not in state.attributes:
            reject("a Graph has no edge_space, be it None")
        others = {name: state.space(name) if state.get(name) is not None else None for name in cls.saved[1:]}
        state.check_composite()
        return {"node_space": nodes, **others}


SPACE_TYPES: Final[dict[str, type[Space]]] = {
    kind.class_name: kind
    for kind in (Box, Discrete, MultiDiscrete, MultiBinary, DictSpace, TupleSpace, OneOf, Text, Sequence, Graph)
}
"""Each kind of space by the name of its class in gymnasium."""


# -- objects of gym and gymnasium ----------------------------------------------------------------------


def _convert(space: Space, spaces: ModuleType, made: dict[int, Any]) -> Any:
    """Return gymnasium's space; parts that are shared stay shared (``made``, by ``id()``)."""
    if id(space) not in made:
        try:
            made[id(space)] = space._construct(spaces, lambda part: _convert(part, spaces, made))  # noqa: SLF001 -- of this module
        except SbformatError:
            raise
        except Exception as error:  # noqa: BLE001 -- whatever this release of gymnasium raises
            message = f"the installed gymnasium refuses a {space.class_name} space: {escape(str(error), 200)}"
            raise UnsupportedError(message) from None
    return made[id(space)]


_CONVERTED: Final = tuple(name for name, kind in SPACE_TYPES.items() if kind.observed or kind.distribution)


def convert_space(space: object, name: str) -> Space:
    """Return a space as a value of sbformat; gym and gymnasium are not imported.

    :param space: a space of sbformat, or a Box, Discrete, MultiDiscrete, MultiBinary or Dict of gym or gymnasium
    :param name: of the argument, for the message
    :raises TypeError: for something else

    Example::

        convert_space(env.observation_space, "observation_space")
    """
    if isinstance(space, Space):
        return space
    kind = next((parent.__name__ for parent in type(space).__mro__ if parent.__name__ in _CONVERTED), "")
    try:
        fields = SPACE_TYPES[kind]._read_object(space, lambda part, key: convert_space(part, f"{name}[{key!r}]"))  # noqa: SLF001 -- of this module
    except (KeyError, AttributeError):
        raise TypeError(f"expected a space of gymnasium or sbformat as {name}, got {type(space).__name__}") from None
    library: Library = "gym" if type(space).__module__.partition(".")[0] == "gym" else "gymnasium"
    return SPACE_TYPES[kind](library=library, random=None, **fields)


def _array_of(array: Any) -> ArrayInfo:
    dtype = array.dtype.newbyteorder("<")
    return ArrayInfo(dtype.str, tuple(array.shape), "C", array.astype(dtype).tobytes(), is_scalar=False)


def _dtype_of(space: Any) -> str:
    """Return the code of its dtype; spaces of the oldest gym have none, or a name."""
    code = getattr(getattr(space, "dtype", None), "str", None)
    return code if isinstance(code, str) else _INT64


def _refuse_start(*, is_zero: bool) -> None:
    """Refuse choices that gym 0.21 cannot have."""
    if not is_zero:
        refuse(f"its choices do not start at 0, and gym has no such space, which SB3 before {GYMNASIUM} uses")


# -- arrays --------------------------------------------------------------------------------------------


def _has_only(bound: ArrayInfo, value: int) -> bool:
    """Return whether every item of a bound equals a value; bytes are read in pieces."""
    if bound.dtype[1:] != "u1":
        return set(unpack_items(bound)) == {value}
    item = bytes([value])
    return all(bytes(piece).count(item) == len(piece) for piece in bound.chunks())


def _promote(value: Any) -> Any:
    """Return an array, or a sequence as one; None for anything else."""
    import numpy as np

    if isinstance(value, SequenceOf):
        try:
            value = np.array(value)
        except ValueError:
            return None
    return value if isinstance(value, np.ndarray) and value.dtype.kind in _NUMBERS else None


def _flags(bounds: ArrayInfo, is_bound: Callable[[Any], Any]) -> ArrayInfo:
    """Return the flags that gym saves with the bounds of a Box since 0.13."""
    return ArrayInfo("|b1", bounds.shape, "C", is_bound(bounds.to_numpy()).tobytes(), is_scalar=False)


# -- rows ----------------------------------------------------------------------------------------------


def _rows(kind: type[Space]) -> list[Known]:
    """Return the rows of a space: in gymnasium, and in gym, from which it was taken over."""
    current = (f"{_SPACES}.{kind.module}", kind.class_name)
    uses: dict[str, Any] = {"kind": kind.class_name, "new": kind.decode}
    olds = [] if kind.is_gone else [f"gym.spaces.{kind.module}"]
    oldest = [f"gym.spaces.{module}" for name, module in _OLD_MODULES.items() if name == kind.class_name]
    until = GYMNASIUM if kind.is_in_old_gym else None
    return [
        *known(*current, "value, built", is_gone=kind.is_gone, since=GYMNASIUM, **uses),
        *known(olds, kind.class_name, "value, built", current=current, until=until, **uses),
        *known(oldest, kind.class_name, "value, built", current=current, **uses),
    ]


ROWS: Final = [
    *(row for kind in SPACE_TYPES.values() for row in _rows(kind)),
    *known(f"{_SPACES}.space", "Space", "value", since=GYMNASIUM),
    *known("gym.spaces.space", "Space", "value", current=(f"{_SPACES}.space", "Space"), until=GYMNASIUM),
    *known("gym.core", "Space", "value", current=(f"{_SPACES}.space", "Space")),
    *known(f"{_SPACES}.graph", "GraphInstance", "value", since=GYMNASIUM),
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
    *known("gymnasium.envs.registration", "WrapperSpec", "only described", kind="environment_spec",
           new=decode_plain_object, attributes=("name", "entry_point", "kwargs")),
]  # fmt: skip
