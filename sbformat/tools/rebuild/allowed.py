"""Names outside the tables that the caller trusts by ``allow``: found in a value, at any depth (FORMAT.md 15.1)."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import UnsupportedError, quote
from sbformat.globals.dangerous import explain_danger
from sbformat.globals.references import ALGORITHMS, REFERENCES
from sbformat.pkl.tree import Call, Dict, Global
from sbformat.tools.rebuild.report import Required
from sbformat.values.types import FloatSchedule, Partial, Reference

if TYPE_CHECKING:
    from collections.abc import Collection

    from sbformat.globals.torch import Pair

_PARTIAL: Final = ("functools", "partial")
_PARTIAL_STATE: Final = 4


class Allowed:
    """The names that may be kept, and those of them that were.

    :param names: dotted, exact
    :raises UnsupportedError: for one that is known to be harmful
    """

    def __init__(self, names: Collection[str]) -> None:
        self._names = frozenset(names)
        for name in sorted(self._names):
            module, _, last = name.rpartition(".")
            _refuse_harmful((module, last))
        self.required: list[Required] = []
        """Those that were kept, by place."""

    @property
    def pairs(self) -> frozenset[Pair]:
        """Module and name of those that were kept."""
        return frozenset(required.pair for required in self.required)

    def require(self, place: str, pair: Pair) -> Reference:
        """Note that a name is kept, which the loader imports then.

        :param place: a key of ``data``, or a place below it with slashes
        :raises UnsupportedError: when the name is known to be harmful, or is an algorithm
        """
        _refuse_harmful(pair)
        required = Required(place, ".".join(pair), pair)
        if required not in self.required:
            self.required.append(required)
        return Reference(*pair)

    def value(self, place: str, value: Any) -> Any:
        """Return a value with the names in it that may be kept as references, each noted.

        :param place: of the value
        :raises UnsupportedError: for a name that is known to be harmful
        """
        return _Rewriting(self, place).value(value) if self._names else value

    def __contains__(self, name: object) -> bool:
        return str(name) in self._names


def harm_of(pair: Pair) -> str | None:
    """Say why a name cannot be allowed: a short clause whose subject is the name; None when it can."""
    if pair in ALGORITHMS:
        return "is an algorithm, which makes the environment that it is given by name"
    return explain_danger(pair)


def _refuse_harmful(pair: Pair) -> None:
    why = harm_of(pair)
    if why:
        message = f"{quote('.'.join(pair))} {why}: it cannot be allowed"
        raise UnsupportedError(message)


class _Rewriting:
    """One value: parts that are shared stay shared."""

    def __init__(self, allowed: Allowed, place: str) -> None:
        self._allowed = allowed
        self._place = place
        self._made: dict[int, tuple[Any, Any]] = {}
        """What was made of a container by its ``id()``, and that itself."""

    def value(self, value: Any) -> Any:
        if id(value) not in self._made:
            self._made[id(value)] = self._value(value), value
        return self._made[id(value)][0]

    def _value(self, value: Any) -> Any:
        if isinstance(value, (Global, Reference)):
            return self._name(value)
        if type(value) in (list, tuple):
            return type(value)([self.value(part) for part in value])
        if type(value) in (dict, OrderedDict):
            return type(value)((key, self.value(part)) for key, part in value.items())
        if isinstance(value, Partial):
            return Partial(self.value(value.function), self.value(value.args), self.value(value.keywords))
        if isinstance(value, FloatSchedule):
            return FloatSchedule(self.value(value.schedule))
        if isinstance(value, Call):
            return self._partial(value)
        return value

    def _name(self, name: Any) -> Any:
        if getattr(name, "updates", None) or name not in self._allowed:
            return name
        return self._allowed.require(self._place, name.pair)

    def _partial(self, call: Call) -> Any:
        """Return a partial of a function that may be kept; it was left as it is because that is not known."""
        func, updates = call.func, call.updates or []
        state = updates[0].value if len(updates) == 1 else None
        if not isinstance(func, Global) or func.pair != _PARTIAL or type(state) is not tuple:
            return call
        if len(state) != _PARTIAL_STATE or not isinstance(state[0], Global) or state[0] not in self._allowed:
            return call
        keywords = dict(state[2]) if isinstance(state[2], Dict) and _has_texts(state[2]) else {}
        if type(state[1]) is not tuple or len(keywords) != len(state[2] or ()):
            return call
        given = tuple(self.value(_known(part)) for part in state[1])
        return Partial(
            self.value(state[0]), given, {str(key): self.value(_known(part)) for key, part in keywords.items()}
        )


def _has_texts(keywords: Dict) -> bool:
    return all(type(key) is str for key, _ in keywords)


def _known(part: object) -> object:
    """Return a name of the tables in an inert tree as the reference that it is."""
    is_known = isinstance(part, Global) and not part.updates and part.pair in REFERENCES
    return Reference(*part.pair) if is_known else part  # type: ignore[attr-defined]
