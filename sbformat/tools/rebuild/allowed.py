"""Names outside the tables that the caller trusts by ``allow``: found in a value at any depth (REBUILDING.md 15.1)."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import UnsupportedError, escape, quote
from sbformat.known.dangerous import explain_danger
from sbformat.known.table import find
from sbformat.known.types import CarriedClass, FloatSchedule, Function, Partial, Reference
from sbformat.pkl.tree import Call, Dict, Global
from sbformat.tools.rebuild.report import Required
from sbformat.values.render import render_line

if TYPE_CHECKING:
    from collections.abc import Collection

    from sbformat.pkl.names import Pair
    from sbformat.tools.rebuild.advice import Advice

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
