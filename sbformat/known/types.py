"""Types of decoded values (VALUES.md 13): plain records, defined without numpy, torch or gymnasium.

Spaces are in :mod:`sbformat.known.spaces`. Arrays and numpy scalars are
:class:`~sbformat.pkl.numpy.ArrayInfo`, tensors :class:`~sbformat.pth.TensorInfo`; containers, dates and paths are
Python's own. What is not known stays a node of :mod:`sbformat.pkl.tree`.
"""

from __future__ import annotations

import bisect
import math
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from sbformat.known.base import Cycle as Cycle  # noqa: PLC0414 -- exported
from sbformat.known.base import Reference as Reference  # noqa: PLC0414 -- exported
from sbformat.known.base import Value as Value  # noqa: PLC0414 -- exported

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sbformat.known.code import Code
    from sbformat.pkl.numpy import ArrayInfo, Field


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


class DType(Value):
    """A numpy dtype."""

    code: str
    """As in numpy's array interface: ``<f4``."""
    fields: tuple[Field, ...] = ()


class ObjectArray(Value):
    """A numpy array of Python objects."""

    shape: tuple[int, ...]
    order: Literal["C", "F"]
    """Order in memory."""
    items: list[object]
    """In C order, whatever the order in memory."""


# -- schedules and functions (VALUES.md 13.5) ---------------------------------------------------------


class ConstantSchedule(Value):
    """The same value during the whole training."""

    value: float


class LinearSchedule(Value):
    """From ``start`` to ``end`` during the first ``end_fraction`` of the training, then ``end``."""

    start: float
    end: float
    end_fraction: float = 1.0


class FloatSchedule(Value):
    """Another schedule, with its values converted to Python floats."""

    schedule: Schedule | Function | object
    """An unknown object stays inert."""


class InterpolatedSchedule(Value):
    """A table of values with lines between them: ``functools.partial(numpy.interp, xp=..., fp=...)``.

    SB3 has no class for it, and every release calls it. Example::

        InterpolatedSchedule((0.0, 0.5, 1.0), (1e-5, 1e-4, 3e-4)).sample(0.75)  # 0.0002
    """

    progress: tuple[float, ...]
    """The remaining progress of each point, increasing: ``xp``. At least one point, and all numbers are finite."""
    values: tuple[float, ...]
    """The value at each point: ``fp``."""

    def sample(self, progress: float) -> float:
        """Return the value at a remaining progress, as numpy computes it.

        :param progress: from 1 (start of the training) to 0 (its end)
        :return: below and above all points that of the nearest
        """
        points, values = self.progress, self.values
        right = bisect.bisect_right(points, progress)
        if right in (0, len(points)) or points[right - 1] == progress:
            return values[max(right - 1, 0)]
        slope = (values[right] - values[right - 1]) / (points[right] - points[right - 1])
        found = slope * (progress - points[right - 1]) + values[right - 1]
        return slope * (progress - points[right]) + values[right] if math.isnan(found) else found


Schedule: TypeAlias = ConstantSchedule | LinearSchedule | FloatSchedule | InterpolatedSchedule


class Function(Value):
    """A function that was pickled by value: described, never created."""

    qualname: str
    """``get_schedule_fn.<locals>.func``."""
    module: str | None
    code: Code | None
    """None when the code object is not understood."""
    closure: dict[str, object]
    """Its free variables, with the contents of their cells."""
    defaults: tuple[object, ...]
    globals: dict[str, object]
    """The global names that its code uses, as far as they were pickled with it."""
    schedule: Schedule | None
    """What it computes, when it is a published schedule function, unchanged."""
    keyword_defaults: dict[str, object] = {}
    is_changed: bool = False
    """Whether other parts of the pickle may change what it computes, or its globals are not a plain dict."""

    @property
    def digest(self) -> str | None:
        """SHA-256 of the parts of its code that execute, in hex."""
        return None if self.code is None else self.code.digest


class CarriedClass(Value):
    """A class that was pickled by value: described, never created."""

    module: str | None
    name: str
    bases: tuple[object, ...]
    attributes: dict[str, object]
    """Its methods (:class:`Function`) and other attributes."""
    metaclass: object = Reference("builtins", "type")

    @property
    def methods(self) -> tuple[str, ...]:
        """The names of its functions."""
        return tuple(name for name, value in self.attributes.items() if isinstance(value, Function))


class CarriedObject(Value):
    """An object of a class that was pickled by value: described, never created."""

    type: Reference
    args: tuple[object, ...]
    """Arguments of its class or of ``__new__``; of keyword arguments the values."""
    attributes: dict[str, object]
    """Its attributes and slots."""
    state: object
    """A state other than attributes, for ``__setstate__`` of its class, or None."""
    items: tuple[object, ...]
    """Its contents, when it is a container: items, or pairs of key and value."""
    cls: CarriedClass | Cycle | None = None
    """Its class."""
    is_called: bool = False
    """Whether a call of its class made it, which also runs ``__init__``."""

    def shown_fields(self) -> Iterable[tuple[str, Any]]:
        """Return the fields that a report shows: not its class, which its type names."""
        return ((name, part) for name, part in super().shown_fields() if name != "cls")


class Module(Value):
    """A module that a function or class pickled by value refers to."""

    name: str


class Partial(Value):
    """A ``functools.partial``."""

    function: object
    args: tuple[object, ...]
    keywords: dict[str, object]


class Described(Value):
    """A small value of Python without a literal: ``range(3)``, ``typing.Union[...]``, a property."""

    kind: str
    parts: tuple[object, ...]


# -- objects (VALUES.md 13.6) -------------------------------------------------------------------------


class EnumMember(Value):
    """A member of an enumeration, by its value."""

    enum: Reference
    value: object


class TrainFreq(Value):
    """How often an off-policy algorithm trains: every ``frequency`` steps or episodes."""

    frequency: int
    unit: EnumMember


class RNNStates(Value):
    """The LSTM states of a recurrent policy: hidden and cell state of actor and critic."""

    pi: tuple[object, ...]
    vf: tuple[object, ...]


class DefaultDict(Value):
    """A ``collections.defaultdict``."""

    factory: object
    items: dict[object, object]


class Instance(Value):
    """An object that consists of its attributes alone: action noise, statistics, buffers."""

    type: Reference
    attributes: dict[str, object]
