"""Values to what ``data`` contains: JSON where SB3 accepts it, else a new blob (VALUES.md 13.7, REBUILDING.md 15.2)."""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any, Final

from sbformat.data import Serialized
from sbformat.errors import UnsupportedError, escape, quote
from sbformat.known.algorithms import ALGORITHMS
from sbformat.known.dangerous import explain_danger
from sbformat.known.spaces import Space
from sbformat.known.table import current_name, find, list_place
from sbformat.known.types import (
    CarriedClass,
    ConstantSchedule,
    FloatSchedule,
    Function,
    Instance,
    InterpolatedSchedule,
    LinearSchedule,
    Module,
    Partial,
    Reference,
    Schedule,
    TrainFreq,
    Value,
)
from sbformat.nets.activations import ACTIVATIONS
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pkl.tree import Call, Dict, Global, Node
from sbformat.tools.rebuild.optimizers import OPTIMIZERS, fits_option
from sbformat.tools.rebuild.rebuild_report import Required
from sbformat.values import encode
from sbformat.values.render import render_line

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from sbformat.known.changes import Release
    from sbformat.pkl.names import Pair
    from sbformat.tools.rebuild.rebuild_context import Advice


_MAX_JSON_DEPTH: Final = 20
_MAX_JSON_NODES: Final = 100_000
_MAX_JSON_TEXT: Final = 1 << 20
_EXACT_INTEGERS: Final = 2**63
_SCHEDULES: Final = (ConstantSchedule, FloatSchedule, LinearSchedule)

PRIVATE: Final = "it contains a path or an address of the author"
_PATH: Final = re.compile(
    r"""
    (?<![\w.])/[^\s/]                                     # an absolute path, however short
    | /(?:home|users|root|mnt|media|tmp|var|opt|usr|etc|srv|data|scratch|private|workspace|content)\b
    | ~[\w/\\] | (?<![A-Za-z])[A-Za-z]:[/\\\w] | \\[\w.-]+\\ | \\\\[\w.-] | \$\{?[A-Z_]{2,} | %[A-Za-z_]{3,}%
    | [\w.+-]@[\w-] | \w:// | \bfile: | \bssh: | \w:\d{2,5}\b      # addresses
    """,
    re.VERBOSE | re.IGNORECASE,
)


def is_private(text: str) -> bool:
    """Return whether a text contains an absolute path, or an address with a user or host."""
    return _PATH.search(text) is not None


def iter_parts(value: object, closed: tuple[type, ...], *, with_keys: bool = False) -> Iterator[object]:
    """Yield a value and everything in it, each part once.

    :param closed: types whose parts are not yielded
    :param with_keys: whether to yield the keys of dicts
    """
    todo = [value]
    seen: set[int] = set()
    while todo:
        part = todo.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        if isinstance(part, dict):
            todo.extend(part.keys() if with_keys else ())
            todo.extend(part.values())
        elif isinstance(part, (list, tuple, deque, set, frozenset, Value)) and not isinstance(part, closed):
            todo.extend(part)


def iter_texts(value: object) -> Iterator[str]:
    """Yield every text in a value, each once: keys included, and bytes as latin-1."""
    for part in iter_parts(value, (ArrayInfo, Reference), with_keys=True):  # these contain numbers and known names
        if isinstance(part, str):
            yield part
        elif isinstance(part, (bytes, bytearray)):
            yield part.decode("latin-1")


def encode_value(value: object, target: Release, *, foreign: frozenset[Pair] = frozenset()) -> Any:
    """Return what ``data`` contains for a value: plain JSON if that decodes to the same value, else a blob.

    :param value: as :func:`sbformat.values.decode` returns it
    :param foreign: names outside SB3 that it may contain
    :raises UnsupportedError: when it cannot be encoded without code
    """
    if isinstance(value, ArrayInfo) and value.is_scalar:
        return encode_value(value.to_numpy().item(), target)
    if _is_json(value):
        return value
    kind, hints = _describe(value)
    return Serialized(f"<class '{kind}'>", encode(value, target, foreign=foreign), hints)


def _is_json(value: object) -> bool:
    """Return whether JSON decodes to the same value; a value with shared parts stays a blob."""
    todo = [(value, 0)]
    size = 0
    seen: set[int] = set()
    for _ in range(_MAX_JSON_NODES):
        if not todo:
            return size <= _MAX_JSON_TEXT
        part, depth = todo.pop()
        if isinstance(part, (dict, list)):
            if id(part) in seen:  # JSON would repeat it
                return False
            seen.add(id(part))
        size += len(part) if type(part) is str else 0
        if part is None or type(part) in (bool, float, str) or (type(part) is int and abs(part) < _EXACT_INTEGERS):
            continue
        if depth > _MAX_JSON_DEPTH:
            return False
        if type(part) is dict and all(type(key) is str and not key.startswith(":") for key in part):
            todo.extend((inner, depth + 1) for inner in part.values())
        elif type(part) is list:
            todo.extend((inner, depth + 1) for inner in part)
        else:
            return False
    return False


def _describe(value: object) -> tuple[str, dict[str, Any]]:
    """Return the class that SB3 writes as ``:type:``, and what it writes beside the blob.

    People and catalogues read the latter; SB3 does not load it.
    """
    name, hints = type(value).__name__, {}
    if isinstance(value, ArrayInfo):
        name = "numpy.ndarray"
    elif isinstance(value, Reference):
        name, hints = "abc.ABCMeta", {"__module__": current_name(value.pair)[0]}
    elif isinstance(value, Space):
        name, hints = ".".join(value.pair), value.make_hints()
    elif isinstance(value, _SCHEDULES):
        name = f"stable_baselines3.common.utils.{name}"
    elif isinstance(value, InterpolatedSchedule):
        name = "functools.partial"
    elif isinstance(value, TrainFreq):
        name = "stable_baselines3.common.type_aliases.TrainFreq"
    elif isinstance(value, Instance):
        name = str(value.type)
    elif isinstance(value, (OrderedDict, deque)):
        name = f"collections.{name}"
    return name, hints


_PARTIAL: Final = ("functools", "partial")
_PARTIAL_STATE: Final = 4
"""Items of a partial's state: function, arguments, keywords, attributes."""


class Allowed:
    """The names that may be kept, and those that were kept.

    :param names: exact dotted names
    :raises UnsupportedError: for a name that is known to be harmful
    """

    def __init__(self, names: Collection[str]) -> None:
        self._names = frozenset(names)
        for name in sorted(self._names):
            module, _, last = name.rpartition(".")
            _refuse_harmful((module, last))
        self.required: list[Required] = []
        """The names that were kept, with their places."""

    @property
    def pairs(self) -> frozenset[Pair]:
        """Module and name of those that were kept."""
        return frozenset(required.pair for required in self.required)

    def require(self, place: str, pair: Pair) -> Reference:
        """Note that a name is kept, so that the loader imports it.

        :param place: a key of ``data``, or a path below it with slashes
        :raises UnsupportedError: when the name is known to be harmful, or is an algorithm
        """
        _refuse_harmful(pair)
        required = Required(place, ".".join(pair), pair)
        if required not in self.required:
            self.required.append(required)
        return Reference(*pair)

    def replace_names(self, place: str, value: Any) -> Any:
        """Return a value whose allowed names are references; each is noted.

        :param place: of the value
        :raises UnsupportedError: for a name that is known to be harmful
        """
        return _Replacement(self, place).replace(value) if self._names else value

    def __contains__(self, name: object) -> bool:
        return str(name) in self._names


def describe_harm(pair: Pair) -> str | None:
    """Return why a name cannot be allowed, as a clause after the name; None when it can."""
    if "algorithm" in find(pair).uses:
        return "is an algorithm, which makes the environment that it is given by name"
    return explain_danger(pair)


def _refuse_harmful(pair: Pair) -> None:
    why = describe_harm(pair)
    if why:
        message = f"{quote('.'.join(pair))} {why}: it cannot be allowed"
        raise UnsupportedError(message)


def describe_unknown(value: object, role: str, advice: Advice) -> str:
    """Return why a class or function is not kept, and which option keeps it.

    :param role: what it should have been, with an article: ``a policy``
    :param advice: for the function that the caller used
    """
    shown = escape(render_line(value), 200)
    name = value if isinstance(value, (Global, Reference)) else _find_function(value)
    if isinstance(value, (CarriedClass, Function)):
        return f"{shown}: custom code carried by value, without a name to allow"
    if name is None or getattr(name, "updates", None):
        return f"{shown} is not known as {role}"
    harm = describe_harm(name.pair)
    if harm:
        return f"{escape(str(name), 200)} {harm}"
    return f"{escape(str(name), 200)} is not known as {role}: SB3 would import and call it; {advice.allow(str(name))}"


def _find_function(value: object) -> Any:
    """Return the name that a partial calls, or None."""
    if isinstance(value, Partial):
        return value.function if isinstance(value.function, (Global, Reference)) else None
    state = value.updates[0].value if isinstance(value, Call) and value.updates else None
    first = state[0] if isinstance(state, tuple) and state else None
    return first if isinstance(first, Global) else None


class _Replacement:
    """The replacement of allowed names in one value; shared parts stay shared."""

    def __init__(self, allowed: Allowed, place: str) -> None:
        self._allowed = allowed
        self._place = place
        self._made: dict[int, tuple[Any, Any]] = {}
        """The new part by the ``id()`` of the old one, and the old one, so that no other part gets its ``id()``."""

    def replace(self, value: Any) -> Any:
        if id(value) not in self._made:
            self._made[id(value)] = self._replace(value), value
        return self._made[id(value)][0]

    def _replace(self, value: Any) -> Any:
        if isinstance(value, (Global, Reference)):
            return self._replace_name(value)
        if type(value) in (list, tuple):
            return type(value)([self.replace(part) for part in value])
        if type(value) in (dict, OrderedDict):
            return type(value)((key, self.replace(part)) for key, part in value.items())
        if isinstance(value, Partial):
            return Partial(self.replace(value.function), self.replace(value.args), self.replace(value.keywords))
        if isinstance(value, FloatSchedule):
            return FloatSchedule(self.replace(value.schedule))
        if isinstance(value, Call):
            return self._replace_partial(value)
        return value

    def _replace_name(self, name: Any) -> Any:
        if getattr(name, "updates", None) or name not in self._allowed:
            return name
        return self._allowed.require(self._place, name.pair)

    def _replace_partial(self, call: Call) -> Any:
        """Return a partial of an allowed function; the decoder left it as a call, since the function is not known."""
        func, updates = call.func, call.updates or []
        state = updates[0].value if len(updates) == 1 else None
        if not isinstance(func, Global) or func.pair != _PARTIAL or type(state) is not tuple:
            return call
        if len(state) != _PARTIAL_STATE or not isinstance(state[0], Global) or state[0] not in self._allowed:
            return call
        keywords = dict(state[2]) if isinstance(state[2], Dict) and _has_text_keys(state[2]) else {}
        if type(state[1]) is not tuple or len(keywords) != len(state[2] or ()):
            return call
        args = tuple(self.replace(_recognize(part)) for part in state[1])
        return Partial(
            self.replace(state[0]), args, {str(key): self.replace(_recognize(part)) for key, part in keywords.items()}
        )


def _has_text_keys(keywords: Dict) -> bool:
    return all(type(key) is str for key, _ in keywords)


def _recognize(part: object) -> object:
    """Return a known name in an inert tree as a reference; anything else unchanged."""
    is_known = isinstance(part, Global) and not part.updates and find(part.pair).is_reference
    return Reference(*part.pair) if is_known else part  # type: ignore[attr-defined]


EXTRACTORS: Final = {pair: row.arguments for pair, row in list_place("features_extractor_class").items()}
"""Features extractors, with their arguments other than the space, and the defaults; None for a flag."""
REPLAY_BUFFERS: Final = {pair: frozenset(row.arguments) for pair, row in list_place("replay_buffer_class").items()}
"""Replay buffers, with their arguments other than those that the algorithm passes."""

_ROLLOUT_BUFFERS: Final = {
    row.name: (
        row.classes.module.removesuffix("policies") + "buffers",
        row.policies[next(iter(row.policies))][1].removesuffix("ActorCriticPolicy"),
    )
    for row in ALGORITHMS.values()
    if row.kind == "actor_critic"
}
"""The module of an algorithm's rollout buffers, and the prefix of their names; they have no other arguments."""

_ROLES: Final[Mapping[str, frozenset[Pair]]] = {
    "features_extractor_class": frozenset(EXTRACTORS),
    "optimizer_class": frozenset(OPTIMIZERS),
    "activation_fn": frozenset(ACTIVATIONS),
}
CLASS_ARGUMENTS: Final = frozenset(_ROLES)
"""Arguments of policies that are classes."""

_CALLABLES: Final = (Reference, Function, Partial, CarriedClass, Module, Instance, Schedule, Node)


def list_buffers(role: str, algorithm: str, *, is_dict: bool) -> frozenset[Pair]:
    """Return the buffer classes that an algorithm can use.

    :param role: ``replay_buffer_class`` or ``rollout_buffer_class``
    :param algorithm: its name
    :param is_dict: whether the observation space is a Dict
    """
    if role == "rollout_buffer_class":
        if algorithm not in _ROLLOUT_BUFFERS:
            return frozenset()
        module, prefix = _ROLLOUT_BUFFERS[algorithm]
        return frozenset({(module, f"{prefix}{'Dict' if is_dict else ''}RolloutBuffer")})
    return frozenset(pair for pair in REPLAY_BUFFERS if (pair[1] in ("DictReplayBuffer", "HerReplayBuffer")) == is_dict)


def check_role(role: str, value: object, allowed: frozenset[Pair]) -> None:
    """Check that an argument of a policy is a class that SB3 may call in its role, or a partial of one.

    :param role: one of :data:`CLASS_ARGUMENTS`
    :param allowed: names that the caller trusts
    :raises UnsupportedError: when it is anything else
    """
    function = value.function if isinstance(value, Partial) else value
    if not isinstance(function, Reference):
        message = f"expected a class, got {escape(render_line(value), 200)}"
        raise UnsupportedError(message)
    if function.pair in allowed:
        return
    if current_name(function.pair) not in _ROLES[role]:
        message = f"{escape(str(function), 200)} is not one of the classes known for {role}"
        raise UnsupportedError(message)
    if isinstance(value, Partial) and not _has_known_arguments(role, current_name(function.pair), value):
        message = f"a partial of {function} with arguments that the class does not have"
        raise UnsupportedError(message)


def check_plain(value: object, allowed: frozenset[Pair], *, is_foreign: bool) -> None:
    """Check that an argument contains nothing that can be called, except what is trusted.

    :param allowed: names that the caller trusts
    :param is_foreign: whether it is an argument of a custom class, which may be a layer, an optimizer or a dtype
    :raises UnsupportedError: for the first thing that can be called
    """
    for part in iter_parts(value, (), with_keys=True):
        if not isinstance(part, _CALLABLES):
            continue
        if isinstance(part, Reference) and (part.pair in allowed or (is_foreign and _is_harmless(part.pair))):
            continue
        if isinstance(part, Partial) and isinstance(part.function, Reference):
            continue  # its function and arguments are parts of their own
        message = f"{escape(render_line(part), 200)} can be called, and is not known in this role"
        raise UnsupportedError(message)


def _is_harmless(pair: Pair) -> bool:
    """Return whether a name only makes a layer, an optimizer or a number when it is called."""
    is_in_role = any(pair in classes for classes in _ROLES.values())
    return is_in_role or not find(pair).uses.isdisjoint(_NUMBERS)


_NUMBERS: Final = frozenset({"dtype", "number"})


def _has_known_arguments(role: str, pair: Pair, partial: Partial) -> bool:
    """Return whether the arguments of a partial are ones that the class has, other than those that SB3 passes."""
    if role == "activation_fn":
        names = ACTIVATIONS[pair]
        given = {*names[: len(partial.args)], *partial.keywords}
        is_fit = len(given) == len(partial.args) + len(partial.keywords) and given <= set(names)
        values = (*partial.args, *partial.keywords.values())
        return is_fit and all(type(value) in (bool, int, float) or value in ("none", "tanh") for value in values)
    if role != "optimizer_class":  # SB3 calls issubclass() with an extractor
        return False
    known = OPTIMIZERS[pair].arguments
    return not partial.args and all(
        name in known and fits_option(name, value, known[name]) for name, value in partial.keywords.items()
    )
