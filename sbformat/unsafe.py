"""The one module that unpickles: for those who insist. Nothing imports it; importing it is the only way to it.

:func:`unpickle` runs a blob through the standard unpickler with an exact list of names that it may import. Before
that the blob is decoded without running anything, and refused as a whole when it asks for more, or calls a name of the
default list with something that :mod:`sbformat.values` does not recognize: numpy and torch take pointers, positions and
shapes as they come. While it runs, the unpickler checks every name again. It is weaker than :mod:`sbformat.values`,
which gives the values of known blobs with nothing run at all: what is on the list *is* imported and called.

Full trust runs a file's own code. It has to be spelled out, in words that a reviewer will notice::

    from sbformat import unsafe
    unsafe.unpickle(archive.data["learning_rate"], trust=unsafe.I_TRUST_THIS_FILE)
"""

from __future__ import annotations

import io
import pickle
from copy import deepcopy
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from sbformat.data import Serialized
from sbformat.errors import SbformatError, UnsupportedError, escape, quote
from sbformat.globals.references import REFERENCES
from sbformat.globals.spaces import SPACE_REFERENCES
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits
from sbformat.pkl import Call, Dict, Extension, Global, Update, decode_pickle
from sbformat.pkl.disassembly import opcodes
from sbformat.pkl.state import FIX_IMPORTS_BELOW, rename
from sbformat.pkl.tree import walk
from sbformat.values import decode_tree
from sbformat.values.hashing import find_key_fault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from sbformat.archive.archive import Archive
    from sbformat.globals.torch import Pair
    from sbformat.pkl import Node, Pickle

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

_PLAIN: Final[frozenset[Pair]] = (
    frozenset(
        (f"stable_baselines3.common.{module}", name)
        for module, name in (
            ("noise", "NormalActionNoise"),
            ("noise", "OrnsteinUhlenbeckActionNoise"),
            ("noise", "VectorizedActionNoise"),
            ("utils", "ConstantSchedule"),
            ("utils", "FloatSchedule"),
            ("utils", "LinearSchedule"),
        )
    )
    | SPACE_REFERENCES
)
"""Objects that are their attributes: BUILD gives them a dict of these, never slots, which would call setters."""

_NUMPY: Final[frozenset[Pair]] = frozenset({
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("numpy.random", "__RandomState_ctor"),
    ("numpy.random._pickle", "__randomstate_ctor"),
    ("numpy.random._pickle", "__generator_ctor"),
    ("numpy.random._pickle", "__bit_generator_ctor"),
    ("numpy.random.bit_generator", "__pyx_unpickle_SeedSequence"),
    *(
        (f"numpy.{core}.{module}", name)
        for core in ("core", "_core")
        for module, name in (("multiarray", "_reconstruct"), ("multiarray", "scalar"), ("numeric", "_frombuffer"))
    ),
})  # fmt: skip
"""Arrays, scalars, dtypes and random generators."""

_CONTAINERS: Final[frozenset[Pair]] = frozenset({
    ("collections", "OrderedDict"), ("collections", "deque"), ("collections", "defaultdict"), ("builtins", "set"),
})  # fmt: skip

_BUILDERS: Final[frozenset[Pair]] = (
    _ENUMS
    | _PLAIN
    | _NUMPY
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
tensors, and references to the classes of :mod:`sbformat.globals.references`. Functions by value are not on it: what
makes one can make any."""

_NAMED_ONLY: Final = SB3_TYPES - _BUILDERS

_DROPPING: Final = ("POP", "POP_MARK")


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
            f"sbformat.values.decode shows what it holds without running it; to run it, {advice}"
        )


# -- the doors -----------------------------------------------------------------------------------------


def unpickle(
    serialized: Serialized,
    *,
    allow: Iterable[Pair | str] = SB3_TYPES,
    trust: str | None = None,
    limits: Limits = UNPICKLE_LIMITS,
) -> Any:
    """Unpickle a blob, importing and calling what it names.

    :param serialized: a value of ``archive.data``
    :param allow: the names it may import: pairs of module and name, or ``"module.name"``; exact. Yours may be
        called with anything; those of :data:`SB3_TYPES` only as :mod:`sbformat.values` recognises them
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
    if not names and not reasons:
        reasons = [*_not_recognised(decoded, budget), *_hashing_refusals(decoded, limits)]
        reasons += [f"in it {flag}" for flag in decoded.flags]
        if any(line.name in _DROPPING for line in opcodes(serialized.pickle)):
            reasons.append("it makes a value and drops it")
    if names or reasons:
        raise NotAllowedError(names, reasons, serialized.type)
    unpickler = _Unpickler(serialized.pickle, allow, is_renamed=decoded.protocol < FIX_IMPORTS_BELOW)
    return _run(serialized, unpickler.load)


def _refusal(step: Node | Update) -> str | None:
    """Return why a step of the log must not be taken even when its names are allowed, or None."""
    if isinstance(step, Update):
        if isinstance(step.target, Global):
            return f"it changes {quote(step.target)} itself"
        return None if isinstance(step.target, Call) else "it changes what it computes"
    if isinstance(step, Extension):
        return "it names something by an extension code"
    if not isinstance(step, Call):
        return None
    if step.how == "STACK_GLOBAL":
        return "it computes the name of an import"
    if not isinstance(step.func, Global):
        return "it calls what it computes"
    if not isinstance(step.args, tuple) or not (step.kwargs is None or isinstance(step.kwargs, Dict)):
        return f"it computes the arguments of {quote(step.func)}"
    if step.func.pair in _NAMED_ONLY:
        return f"it calls {quote(step.func)}, which may only be named"
    return None


def _not_recognised(decoded: Pickle, budget: Budget) -> Iterator[str]:
    """Yield what the ready list's callables are given that their libraries do not write.

    numpy and torch take most of it as it comes, pointers and positions included: what :mod:`sbformat.values` checks is
    checked here, for names of the ready list. A plain object of those may hold what a name of the caller's own makes.
    """
    _, decoder = decode_tree(decoded, budget, checks_unread=True)
    calls = [step for step in decoded.log if isinstance(step, Call)]
    for call in calls:
        decoder.decode(call)
    has_own = any(_pair_of(call) not in SB3_TYPES for call in calls)
    for call in calls:
        pair = _pair_of(call)
        if id(call) in decoder.understood or pair not in SB3_TYPES:
            continue
        if not (has_own and pair in _PLAIN and _is_plain(call)):
            doubt = decoder.issues.get(id(call))
            why = f": {doubt.message}" if doubt is not None and doubt.message else ""
            yield f"it calls {quote(call.func)} with what no pickler writes for SB3's types{why}"


def _pair_of(call: Call) -> Pair:
    return call.func.pair  # type: ignore[attr-defined, no-any-return]


def _is_plain(call: Call) -> bool:
    """Say whether an object is made without arguments and given attributes, never slots, which would call setters."""
    states = [update.value for update in call.updates or () if update.how == "BUILD"]
    return (
        (call.how, call.args) == ("NEWOBJ", ())
        and len(call.updates or ()) == len(states) <= 1
        and all(isinstance(state, Dict) and all(isinstance(key, str) for key, _ in state) for state in states)
    )


def _hashing_refusals(decoded: Pickle, limits: Limits) -> Iterator[str]:
    """Yield what is wrong with keys of dicts and members of sets, which the unpickler hashes."""
    fault = find_key_fault(walk([decoded.value, *decoded.log, *decoded.discarded]), limits)
    if fault is not None:
        yield fault


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

    def find_class(self, module: str, name: str) -> Any:
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
