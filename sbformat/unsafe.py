"""Unpickle serialized values: the only module that executes something that a file names. No other module imports it.

:func:`unpickle` passes a pickle to the standard unpickler, with an exact list of names that it may import. Before that,
the pickle is decoded without executing anything, and refused if it uses other names, or calls a name of the default
list with arguments that :mod:`sbformat.values` does not recognize: numpy and torch do not check pointers, offsets and
shapes. While the unpickler runs, it checks every name again. :mod:`sbformat.values` is safer, because it decodes known
values without executing anything; here, the names on the list *are* imported and called.

Trusting a file executes its own code. That requires an argument which a reviewer will notice::

    from sbformat import unsafe
    unsafe.unpickle(archive.data["learning_rate"], trust=unsafe.I_TRUST_THIS_FILE)
"""

from __future__ import annotations

import io
import pickle
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from sbformat.data import Serialized
from sbformat.errors import SbformatError, UnsupportedError, escape, quote
from sbformat.immutable import thaw
from sbformat.known.table import TABLE, find
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits
from sbformat.pkl import Call, Dict, Extension, Global, Update, decode_pickle
from sbformat.pkl.disassembly import opcodes
from sbformat.pkl.state import FIX_IMPORTS_BELOW, rename
from sbformat.pkl.tree import walk
from sbformat.reader import read
from sbformat.values import decode_tree
from sbformat.values.hashing import find_key_fault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from sbformat.pkl import Node, Pickle
    from sbformat.pkl.tree import Pair
    from sbformat.reader import ArchiveLike

I_TRUST_THIS_FILE: Final = "this file may run any code as me"
"""The value of ``trust`` that unpickles without a list."""

UNPICKLE_LIMITS: Final = DEFAULT_LIMITS._replace(pickle_nodes=20_000)
"""CPython hashes nested tuples recursively, and 200,000 of them overflow the C stack; real values need 710 nodes."""

_REASONS_SHOWN: Final = 12  # reasons for a refusal that a message lists

# -- what may be imported, and called ------------------------------------------------------------------

_LOAD_FROM_BYTES: Final = ("torch.storage", "_load_from_bytes")

_BUILDERS: Final[frozenset[Pair]] = frozenset(pair for pair, row in TABLE.items() if "built" in row.uses)
"""The names that build SB3's own types; the other names of :data:`SB3_TYPES` may be referred to, but not called."""

SB3_TYPES: Final[frozenset[Pair]] = _BUILDERS.union(pair for pair, row in TABLE.items() if row.is_reference)
"""The default list: spaces, arrays, scalars, random states, schedule classes, action noise, TrainFreq, RNNStates,
tensors, and references to the classes of :mod:`sbformat.known`. Functions pickled by value are not on it,
because a name that creates one function can create any."""

_NAMED_ONLY: Final = SB3_TYPES - _BUILDERS

_DROPPING: Final = ("POP", "POP_MARK")


class NotAllowedError(UnsupportedError):
    """A serialized value uses more than the list allows; nothing was imported or executed.

    :param names: dotted names that are not on the list
    :param reasons: other reasons for the refusal, as clauses
    :param type: the ``:type:`` of the value
    """

    names: tuple[str, ...]

    def __init__(self, names: Iterable[str], reasons: Iterable[str], type: str | None) -> None:  # noqa: A002 -- SB3's word
        self.names = tuple(sorted(set(names)))
        parts = [f"it imports {quote(name)}" for name in self.names] + sorted(set(reasons))
        listed = "; ".join(parts[:_REASONS_SHOWN])
        if len(parts) > _REASONS_SHOWN:
            listed += f"; and {len(parts) - _REASONS_SHOWN} more"
        advice = "pass allow=SB3_TYPES | {...} with the names that you know"
        if any(name.startswith("cloudpickle") for name in self.names):
            advice = "pass trust=I_TRUST_THIS_FILE, which a function or class pickled by value requires"
        super().__init__(
            f"{quote(type or 'a value', 80)} was not unpickled, and nothing was executed: {listed}. "
            f"sbformat.values.decode decodes it without executing it; to execute it, {advice}"
        )


# -- public functions ----------------------------------------------------------------------------------


def unpickle(
    serialized: Serialized,
    *,
    allow: Iterable[Pair | str] = SB3_TYPES,
    trust: str | None = None,
    limits: Limits = UNPICKLE_LIMITS,
) -> Any:
    """Unpickle a serialized value: import and call the names in it.

    Example::

        from sbformat import unsafe
        space = unsafe.unpickle(archive.data["observation_space"])  # a gymnasium.spaces.Box

    :param serialized: a value of ``archive.data``
    :param allow: the exact names that the pickle may import, as pairs of module and name or as ``"module.name"``. Your
        own names may be called with any arguments; those of :data:`SB3_TYPES` only with arguments that
        :mod:`sbformat.values` recognizes
    :param trust: :data:`I_TRUST_THIS_FILE` executes everything in the pickle, and ignores ``allow``
    :param limits: what the pickle may use before it is executed
    :raises NotAllowedError: when it names, computes or changes more than that; nothing was executed
    :raises PickleError: when it is not a pickle; nothing was executed
    :raises LimitError: when it exceeds a limit; nothing was executed
    :raises UnsupportedError: when executing it fails on this machine; the cause is chained
    """
    if not isinstance(serialized, Serialized):
        raise TypeError(f"expected a Serialized, a value of archive.data, got {type(serialized).__name__}")
    if _is_trusted(trust):
        limits.check("blob_bytes", len(serialized.pickle))
        return _run(serialized, lambda: pickle.loads(serialized.pickle))  # noqa: S301 -- the caller trusts the file in so many words
    return _unpickle(serialized, _exact_pairs(allow), limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why the value of a key of ``data`` could not be unpickled."""

    type: str | None
    """The ``:type:`` of the value."""
    error: str
    """The class of the error: that of the library when executing the pickle failed, otherwise one of sbformat."""
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedData:
    """``data`` as SB3 loads it."""

    data: dict[str, Any]
    """Every key that did not fail, in order."""
    failures: dict[str, Failure]
    """The keys that failed."""


def load_data(
    source: ArchiveLike,
    custom_objects: Mapping[str, Any] | None = None,
    *,
    allow: Iterable[Pair | str] = SB3_TYPES,
    trust: str | None = None,
    limits: Limits = UNPICKLE_LIMITS,
) -> LoadedData:
    """Load ``data`` as SB3's ``json_to_data`` does, except that one failing value does not stop the others.

    Example::

        loaded = unsafe.load_data("agent.zip", custom_objects={"lr_schedule": lambda _: 3e-4})
        loaded.data["observation_space"], loaded.failures

    :param source: an archive, or what :func:`sbformat.read` takes
    :param custom_objects: replacements for values, by key, which are used instead of unpickling; a key that ``data``
        does not contain is ignored
    :param allow: as for :func:`unpickle`
    :param trust: as for :func:`unpickle`
    :param limits: as for :func:`unpickle`, for each value
    :return: the values, and the reason for each that failed. SB3 itself drops a key and warns at RuntimeError,
        TypeError and AttributeError, and fails at other errors
    :raises SbformatError: when ``data`` cannot be read
    """
    if custom_objects is not None and not isinstance(custom_objects, dict):
        raise ValueError(f"expected custom_objects to be a dict or None, got {type(custom_objects).__name__}")
    _is_trusted(trust)
    pairs = _exact_pairs(allow)
    data: dict[str, Any] = {}
    failures: dict[str, Failure] = {}
    for key, value in read(source).data.items():
        if custom_objects is not None and key in custom_objects:
            data[key] = custom_objects[key]
        elif isinstance(value, Serialized):
            try:
                data[key] = unpickle(value, allow=pairs, trust=trust, limits=limits)
            except SbformatError as error:
                kind = type(error.__cause__ or error).__name__
                failures[key] = Failure(type=value.type, error=kind, message=str(error))
        else:
            data[key] = thaw(value)
    return LoadedData(data=data, failures=failures)


def _is_trusted(trust: str | None) -> bool:
    if trust is None:
        return False
    if trust != I_TRUST_THIS_FILE:
        raise ValueError(
            f"expected trust to be None or unsafe.I_TRUST_THIS_FILE ({I_TRUST_THIS_FILE!r}), got {quote(trust, 80)}"
        )
    return True


def _exact_pairs(allow: Iterable[Pair | str]) -> frozenset[Pair]:
    if allow is SB3_TYPES:
        return SB3_TYPES
    if isinstance(allow, str):
        raise TypeError("expected a collection of names for allow, got one text; put it into a set")
    pairs = [tuple(name.rpartition(".")[::2]) if isinstance(name, str) else name for name in allow]
    for pair in pairs:
        if not (isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(part, str) and part for part in pair)):
            raise ValueError(f"expected pairs of module and name, or 'module.name', for allow, got {quote(pair)}")
        if "." in pair[1]:
            raise ValueError(f"expected names at the top level of a module for allow, got {quote(pair[1])}")
    return frozenset(pairs)  # type: ignore[arg-type]


# -- checks before anything is executed ----------------------------------------------------------------


def _unpickle(serialized: Serialized, allow: frozenset[Pair], limits: Limits) -> object:
    budget = Budget(limits)
    budget.spend("blob_bytes", len(serialized.pickle))
    decoded = decode_pickle(serialized.pickle, budget)
    names = [str(step) for step in decoded.log if isinstance(step, Global) and step.pair not in allow]
    reasons = [reason for step in decoded.log if (reason := _find_refusal(step)) is not None]
    if not names and not reasons:
        fault = find_key_fault(walk([decoded.value, *decoded.log, *decoded.discarded]), limits)
        reasons = [*_iter_unrecognized(decoded, budget), *([] if fault is None else [fault])]
        reasons += [f"in it {flag}" for flag in decoded.flags]
        if any(line.name in _DROPPING for line in opcodes(serialized.pickle)):
            reasons.append("it creates a value and discards it")
    if names or reasons:
        raise NotAllowedError(names, reasons, serialized.type)
    unpickler = _Unpickler(serialized.pickle, allow, is_renamed=decoded.protocol < FIX_IMPORTS_BELOW)
    return _run(serialized, unpickler.load)


def _find_refusal(step: Node | Update) -> str | None:
    """Return why a row of the log is refused even when its names are allowed, or None."""
    if isinstance(step, Update):
        if isinstance(step.target, Global):
            return f"it changes {quote(step.target)} itself"
        return None if isinstance(step.target, Call) else "it changes a value that it computes"
    if isinstance(step, Extension):
        return "it imports a name by an extension code"
    if not isinstance(step, Call):
        return None
    if step.how == "STACK_GLOBAL":
        return "it computes the name of an import"
    if not isinstance(step.func, Global):
        return "it calls a value that it computes"
    if not isinstance(step.args, tuple) or not (step.kwargs is None or isinstance(step.kwargs, Dict)):
        return f"it computes the arguments of {quote(step.func)}"
    if step.func.pair in _NAMED_ONLY:
        return f"it calls {quote(step.func)}, which may only be referred to"
    return None


def _iter_unrecognized(decoded: Pickle, budget: Budget) -> Iterator[str]:
    """Yield the calls of names of :data:`SB3_TYPES` with arguments that their libraries do not write.

    numpy and torch do not check pointers and offsets among them, and :mod:`sbformat.values` does. The attributes of a
    plain object may contain values that the caller's own names create.
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
        if not (has_own and _is_plain(call)):
            issue = decoder.issues.get(id(call))
            why = f": {issue.message}" if issue is not None and issue.message else ""
            yield f"it calls {quote(call.func)} with arguments that no pickler writes for SB3's types{why}"


def _pair_of(call: Call) -> Pair:
    return call.func.pair  # type: ignore[attr-defined, no-any-return]


def _is_plain(call: Call) -> bool:
    """Return whether an object is created without arguments, and only has attributes set, never slots (setters)."""
    if not find(_pair_of(call)).extends_object:
        return False
    states = [update.value for update in call.updates or () if update.how == "BUILD"]
    return (
        (call.how, call.args) == ("NEWOBJ", ())
        and len(call.updates or ()) == len(states) <= 1
        and all(isinstance(state, Dict) and all(isinstance(key, str) for key, _ in state) for state in states)
    )


# -- execution -----------------------------------------------------------------------------------------


class _Unpickler(pickle.Unpickler):
    """The standard unpickler, restricted to the names on a list.

    :param data: the pickle
    :param allow: the names
    :param is_renamed: whether the pickle uses the names of Python 2, as protocols below 3 do
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
    """Load the legacy stream that contains the storage of a tensor; torch's own function executes any pickle in it."""
    return import_module("torch").load(io.BytesIO(raw), weights_only=True)


def _run(serialized: Serialized, load: Callable[[], object]) -> object:
    """Unpickle; any error of the libraries becomes an :class:`UnsupportedError`."""
    try:
        return load()
    except SbformatError:
        raise
    except Exception as error:
        what = f"unpickling {quote(serialized.type or 'a value', 80)} failed"
        raise UnsupportedError(f"{what}: {type(error).__name__}: {escape(str(error))}") from error
