"""The one module that unpickles: for those who insist. Nothing imports it; importing it is the only way to it.

:func:`unpickle` runs a blob through the standard unpickler with an exact list of names that it may import. Before
that the blob is decoded without running anything, and refused as a whole when it asks for more; while it runs, the
unpickler checks every name again. A list of names is weaker than :mod:`sbformat.known`, which gives the values
of known blobs with nothing run at all: what is on the list *is* imported and called, with what the file says.

Full trust runs a file's own code. It has to be spelled out, in words that a reviewer will notice::

    from sbformat import unsafe
    unsafe.unpickle(archive.data["learning_rate"], trust=unsafe.I_TRUST_THIS_FILE)
"""

from __future__ import annotations

import io
import pickle
import re
from copy import deepcopy
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from sbformat.data import Serialized
from sbformat.errors import SbformatError, UnsupportedError, escape, quote
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits
from sbformat.names.references import REFERENCES, SPACES
from sbformat.pkl import Call, Dict, Extension, Global, Update, decode_pickle
from sbformat.pkl.state import FIX_IMPORTS_BELOW, rename

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sbformat.archive import Archive
    from sbformat.names.pth import Pair
    from sbformat.pkl import Node

I_TRUST_THIS_FILE: Final = "this file may run any code as me"
"""What ``trust`` has to be for a blob to be unpickled without a list."""

UNPICKLE_LIMITS: Final = DEFAULT_LIMITS._replace(pickle_nodes=20_000)
"""CPython hashes nested tuples on the C stack, which 200,000 of them end; real blobs without code build 710 values."""

_SHOWN: Final = 12
"""Refusals that a message spells out."""

# -- what may be imported, and called ------------------------------------------------------------------

_LOAD_FROM_BYTES: Final = ("torch.storage", "_load_from_bytes")

_ENUMS: Final[frozenset[Pair]] = frozenset({
    ("stable_baselines3.common.type_aliases", "TrainFrequencyUnit"),
    ("stable_baselines3.her.goal_selection_strategy", "GoalSelectionStrategy"),
})  # fmt: skip
"""Their members exist once in a process: no file may change one."""

_PLAIN: Final[frozenset[Pair]] = frozenset(
    (f"stable_baselines3.common.{module}", name)
    for module, name in (
        ("noise", "NormalActionNoise"),
        ("noise", "OrnsteinUhlenbeckActionNoise"),
        ("noise", "VectorizedActionNoise"),
        ("utils", "ConstantSchedule"),
        ("utils", "FloatSchedule"),
        ("utils", "LinearSchedule"),
    )
) | frozenset((module, name) for module, names in SPACES.items() for name in names.split())
"""Objects that are their attributes: BUILD gives them a dict of these, never slots, which would call setters."""

_DTYPE: Final = ("numpy", "dtype")
_RANDOM: Final = "numpy.random._pickle"
_GENERATORS: Final[frozenset[Pair]] = frozenset({
    ("numpy.random", "__RandomState_ctor"), (_RANDOM, "__randomstate_ctor"), (_RANDOM, "__generator_ctor"),
})  # fmt: skip
_BIT_GENERATOR: Final = (_RANDOM, "__bit_generator_ctor")
_BIT_GENERATORS: Final[frozenset[Pair]] = frozenset(
    (module, name)
    for module, name in REFERENCES
    if module in {f"numpy.random.{kind}" for kind in ("_mt19937", "_pcg64", "_philox", "_sfc64")}
)
_SEED_SEQUENCE: Final = ("numpy.random.bit_generator", "__pyx_unpickle_SeedSequence")
_RECONSTRUCT, _SCALARS, _BUFFERS = (
    frozenset({(f"numpy.core.{module}", name), (f"numpy._core.{module}", name)})
    for module, name in (("multiarray", "_reconstruct"), ("multiarray", "scalar"), ("numeric", "_frombuffer"))
)
_NDARRAY: Final = ("numpy", "ndarray")
_STATEFUL: Final[frozenset[Pair]] = _GENERATORS | _RECONSTRUCT | {_DTYPE, _NDARRAY, _BIT_GENERATOR, _SEED_SEQUENCE}
"""numpy's, whose state their own ``__setstate__`` reads."""

_CONTAINERS: Final[frozenset[Pair]] = frozenset({
    ("collections", "OrderedDict"), ("collections", "deque"), ("collections", "defaultdict"), ("builtins", "set"),
})  # fmt: skip

_BUILDERS: Final[frozenset[Pair]] = (
    _ENUMS
    | _PLAIN
    | _STATEFUL
    | _SCALARS
    | _BUFFERS
    | _CONTAINERS
    | {
        _LOAD_FROM_BYTES,
        ("torch", "device"),
        ("torch", "Size"),
        ("torch._utils", "_rebuild_tensor_v2"),
        ("torch._utils", "_rebuild_parameter"),
        ("builtins", "frozenset"),
        ("builtins", "bytearray"),
        ("builtins", "complex"),
        ("sb3_contrib.common.recurrent.type_aliases", "RNNStates"),
        ("stable_baselines3.common.type_aliases", "TrainFreq"),
    }
)
"""What SB3's own types are built with; all else on the ready list may be named, and not called."""

SB3_TYPES: Final[frozenset[Pair]] = REFERENCES | _BUILDERS
"""The ready list: spaces, arrays, scalars, random states, schedules (the classes), action noise, TrainFreq, RNNStates,
tensors, and references to the classes of :mod:`sbformat.names.references`. Functions by value are not on it: what
makes one can make any."""

_NAMED_ONLY: Final = SB3_TYPES - _BUILDERS

_CODE: Final = re.compile(r"(?:b1|[iu][1248]|f(?:2|4|8|12|16)|c(?:8|16|24|32)|O[48]|[SUV](?:0|[1-9][0-9]{0,8}))")


class NotAllowedError(UnsupportedError):
    """A blob asks for more than the list allows; nothing of it was imported or run.

    :param names: the dotted names outside the list, sorted
    :param reasons: what else is refused, as sentences' ends
    :param type: the blob's ``:type:``
    """

    names: tuple[str, ...]

    def __init__(self, names: Iterable[str], reasons: Iterable[str], type: str | None) -> None:  # noqa: A002 -- SB3's word
        self.names = tuple(sorted(set(names)))
        parts = [f"it imports {quote(name)}" for name in self.names] + sorted(set(reasons))
        listed = "; ".join(parts[:_SHOWN]) + (f"; and {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else "")
        advice = "pass allow=SB3_TYPES | {...} with the names that you know"
        if any(name.startswith("cloudpickle") for name in self.names):
            advice = "a function or class by value needs full trust"
        super().__init__(
            f"{quote(type or 'a blob', 80)} was not unpickled, and nothing of it was run: {listed}. "
            f"sbformat.known.decode shows what it holds without running it; to run it, {advice}"
        )


# -- the doors -----------------------------------------------------------------------------------------


def unpickle(
    serialized: Serialized,
    *,
    allow: Iterable[Pair | str] = SB3_TYPES,
    trust: str | None = None,
    limits: Limits = UNPICKLE_LIMITS,
) -> Any:  # noqa: ANN401
    """Unpickle a blob, importing and calling what it names.

    :param serialized: a value of ``archive.data``
    :param allow: the names it may import: pairs of module and name, or ``"module.name"``; exact. Yours may be
        called with anything; those of :data:`SB3_TYPES` only as SB3's own types are pickled
    :param trust: :data:`I_TRUST_THIS_FILE` runs whatever the blob holds, and ``allow`` is not asked
    :param limits: what it may ask for before it is run
    :raises NotAllowedError: when it names, computes or changes more than that; nothing was run then
    :raises PickleError: when it is no pickle; nothing was run then
    :raises LimitError: when it asks for more than allowed; nothing was run then
    :raises UnsupportedError: when it fails while it runs, on this machine; the cause is chained
    """
    if not isinstance(serialized, Serialized):
        message = f"unpickle takes a Serialized, not a {type(serialized).__name__}"
        raise TypeError(message)
    if _is_trusted(trust):
        Budget(limits).spend("blob_bytes", len(serialized.pickle))
        return _run(serialized, lambda: pickle.loads(serialized.pickle))  # noqa: S301 -- asked for in words
    return _unpickle(serialized, _exact_pairs(allow), limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A key of ``data`` that was not deserialised."""

    type: str | None
    """Its ``:type:``."""
    error: str
    """The class of what went wrong: of the library's error when it failed while it ran, of sbformat's when refused."""
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedData:
    """``data`` as SB3's loader would have it."""

    data: dict[str, Any]
    """Every key but the failed ones, in order."""
    failures: dict[str, Failure]


def load_data(
    archive: Archive,
    custom_objects: Mapping[str, Any] | None = None,
    *,
    allow: Iterable[Pair | str] = SB3_TYPES,
    trust: str | None = None,
    limits: Limits = UNPICKLE_LIMITS,
) -> LoadedData:
    """Load ``data`` as SB3's ``json_to_data`` does, except that one bad object never stops the others.

    :param archive: what ``sbformat.read`` gave
    :param custom_objects: by key, what to take instead; such a key is not deserialised, and one that the
        archive lacks is left out
    :param allow: as for :func:`unpickle`
    :param trust: as for :func:`unpickle`
    :param limits: as for :func:`unpickle`, for each blob
    :return: the values, and for each that was dropped why; SB3 drops a key and warns at RuntimeError,
        TypeError and AttributeError, and gives up at any other
    :raises SbformatError: when there is no ``data`` that can be read
    """
    if custom_objects is not None and not isinstance(custom_objects, dict):
        message = "custom_objects must be a dict or None"
        raise ValueError(message)
    _is_trusted(trust)
    pairs = _exact_pairs(allow)
    data: dict[str, Any] = {}
    failures: dict[str, Failure] = {}
    for key, value in archive.data.items():
        if custom_objects is not None and key in custom_objects:
            data[key] = custom_objects[key]
        elif isinstance(value, Serialized):
            try:
                data[key] = unpickle(value, allow=pairs, trust=trust, limits=limits)
            except SbformatError as error:
                kind = type(error.__cause__ or error).__name__
                failures[key] = Failure(type=value.type, error=kind, message=str(error))
        else:
            data[key] = deepcopy(value)  # the archive keeps its own
    return LoadedData(data=data, failures=failures)


def _is_trusted(trust: str | None) -> bool:
    if trust is None:
        return False
    if trust != I_TRUST_THIS_FILE:
        message = f"trust must be None or unsafe.I_TRUST_THIS_FILE, which says: {I_TRUST_THIS_FILE}"
        raise ValueError(message)
    return True


def _exact_pairs(allow: Iterable[Pair | str]) -> frozenset[Pair]:
    if allow is SB3_TYPES:
        return SB3_TYPES
    if isinstance(allow, str):
        message = "allow takes several names: put the one into a set"
        raise TypeError(message)
    pairs = [tuple(name.rpartition(".")[::2]) if isinstance(name, str) else name for name in allow]
    for pair in pairs:
        if not (isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(part, str) and part for part in pair)):
            message = f"allow takes pairs of module and name, or 'module.name', not {quote(pair)}"
            raise ValueError(message)
        if "." in pair[1]:
            message = f"allow takes names that stand in a module itself, and {quote(pair[1])} lies deeper"
            raise ValueError(message)
    return frozenset(pairs)  # type: ignore[arg-type]


# -- before anything runs ------------------------------------------------------------------------------


def _unpickle(serialized: Serialized, allow: frozenset[Pair], limits: Limits) -> object:
    budget = Budget(limits)
    budget.spend("blob_bytes", len(serialized.pickle))
    decoded = decode_pickle(serialized.pickle, budget)
    names = [str(step) for step in decoded.log if isinstance(step, Global) and step.pair not in allow]
    reasons = [reason for step in decoded.log if (reason := _refusal(step)) is not None]
    if names or reasons:
        raise NotAllowedError(names, reasons, serialized.type)
    unpickler = _Unpickler(serialized.pickle, allow, is_renamed=decoded.protocol < FIX_IMPORTS_BELOW)
    return _run(serialized, unpickler.load)


def _refusal(step: Node | Update) -> str | None:
    """Return why a step of the log must not be taken even when its names are allowed, or None."""
    if isinstance(step, Update):
        return _update_refusal(step)
    if isinstance(step, Extension):
        return "it names something by an extension code"
    if not isinstance(step, Call):
        return None
    if step.how == "STACK_GLOBAL":
        return "it computes the name of an import"
    if not isinstance(step.func, Global):
        return "it calls what it computes"
    pair = step.func.pair
    if not isinstance(step.args, tuple) or not (step.kwargs is None or isinstance(step.kwargs, Dict)):
        return f"it computes the arguments of {quote(step.func)}"
    if pair in _NAMED_ONLY:
        return f"it calls {quote(step.func)}, which may only be named"
    is_usual = _ARGUMENTS.get(pair)
    if is_usual is not None and not is_usual(step, step.args):
        return f"it calls {quote(step.func)} with what no pickler writes for SB3's types"
    return None


def _update_refusal(update: Update) -> str | None:
    if isinstance(update.target, Global):
        return f"it changes {quote(update.target)} itself"
    if not (isinstance(update.target, Call) and isinstance(update.target.func, Global)):
        return "it changes what it computes"
    pair = update.target.func.pair
    if pair not in SB3_TYPES or (update.how == "BUILD" and pair in _STATEFUL):
        return None
    if update.how != "BUILD":
        is_allowed = pair in _CONTAINERS
    else:
        state = update.value
        is_allowed = pair in _PLAIN and isinstance(state, Dict) and all(isinstance(key, str) for key, _ in state)
    return (
        None if is_allowed else f"it changes what {quote(update.target.func)} made, in another way than SB3's types do"
    )


def _is_plain_dtype(call: Call, args: tuple[object, ...]) -> bool:
    """Tell a dtype without fields, whose state says nothing else: numpy takes flags as they come, down to pointers."""
    if not (len(args) == 3 and isinstance(args[0], str) and _CODE.fullmatch(args[0])):
        return False
    kind, size = args[0][0], int(args[0][1:])
    layout = {"S": (size, 1, 0), "V": (size, 1, 0), "U": (4 * size, 4, 8), "O": (-1, -1, 63)}.get(kind, (-1, -1, 0))
    states = [update.value for update in call.updates or ()]
    return states in [[], *([(3, order, None, None, None, *layout)] for order in "<>|=")]


def _is_bit_generator(_: Call, args: tuple[object, ...]) -> bool:
    """Tell whether what it makes is numpy's own: newer releases call any class that they are given."""
    return all(isinstance(arg, str) or (isinstance(arg, Global) and arg.pair in _BIT_GENERATORS) for arg in args)


def _has_bit_generator(_: Call, args: tuple[object, ...]) -> bool:
    """Tell whether it is made from a bit generator or its name, by numpy's own function."""
    is_known = all(
        isinstance(arg, str) or (isinstance(arg, Call) and arg.func == Global(*_BIT_GENERATOR)) for arg in args[:1]
    )
    return is_known and args[1:] in [(), (Global(*_BIT_GENERATOR),)]


def _has_bytes(_: Call, args: tuple[object, ...]) -> bool:
    """Tell whether it is made of bytes: a number would ask for as many."""
    return not args or (len(args) == 1 and isinstance(args[0], bytes))


def _is_dtype(value: object) -> bool:
    return isinstance(value, Call) and value.func == Global(*_DTYPE)


def _is_scalar(_: Call, args: tuple[object, ...]) -> bool:
    return len(args) == 2 and _is_dtype(args[0])


def _is_buffer(_: Call, args: tuple[object, ...]) -> bool:
    return len(args) == 4 and _is_dtype(args[1])


def _is_array(call: Call, args: tuple[object, ...]) -> bool:
    """Tell whether it is the empty array that numpy starts with, and its dtype a dtype: numpy evaluates texts."""
    states = [update.value for update in call.updates or ()]
    is_empty = args in [(Global(*_NDARRAY), (0,), b"b"), ((0,),)]
    return is_empty and all(isinstance(s, tuple) and len(s) == 5 and _is_dtype(s[2]) for s in states)


_ARGUMENTS: Final[dict[Pair, Callable[[Call, tuple[object, ...]], bool]]] = {
    _DTYPE: _is_plain_dtype,
    _NDARRAY: _is_array,
    **dict.fromkeys(_RECONSTRUCT, _is_array),
    **dict.fromkeys(_SCALARS, _is_scalar),
    **dict.fromkeys(_BUFFERS, _is_buffer),
    _BIT_GENERATOR: _is_bit_generator,
    **dict.fromkeys(_GENERATORS, _has_bit_generator),
    _LOAD_FROM_BYTES: _has_bytes,
    ("builtins", "bytearray"): _has_bytes,
}
"""What is checked of the arguments of a call."""


# -- while it runs -------------------------------------------------------------------------------------


class _Unpickler(pickle.Unpickler):
    """The standard one, which imports what is on the list and nothing else.

    :param data: the pickle
    :param allow: the list
    :param is_renamed: are its names those of Python 2, as below protocol 3?
    """

    def __init__(self, data: bytes, allow: frozenset[Pair], *, is_renamed: bool) -> None:
        super().__init__(io.BytesIO(data))
        self._allow = allow
        self._is_renamed = is_renamed

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401 -- whatever it is
        pair = rename(module, name) if self._is_renamed else (module, name)
        if pair not in self._allow or "." in pair[1]:
            raise NotAllowedError([".".join(pair)], (), None)
        if pair == _LOAD_FROM_BYTES:
            return _load_tensor_bytes
        return getattr(import_module(pair[0]), pair[1])


def _load_tensor_bytes(raw: bytes) -> object:
    """Load the legacy stream that a tensor in a blob holds its storage in; torch's own function runs any pickle."""
    return import_module("torch").load(io.BytesIO(raw), weights_only=True)


def _run(serialized: Serialized, load: Callable[[], object]) -> object:
    """Unpickle; whatever the file's libraries raise becomes one error."""
    try:
        return load()
    except SbformatError:
        raise
    except Exception as error:
        what = f"unpickling {quote(serialized.type or 'a blob', 80)} failed"
        message = f"{what}: {type(error).__name__}: {escape(str(error))}"
        raise UnsupportedError(message) from error
