"""What becomes of the names and values in a pickle: which are given to a call, called later, or changed too late.

FORMAT.md 14.1. A name that is not known and is only referred to does no more than import its module. It is another
matter when a constructor gets it, or when SB3 calls it after loading.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.globals.attributes import is_used
from sbformat.pkl.tree import Call, Dict, Global, Node, Update
from sbformat.tools.scan.location import ANY_KEY
from sbformat.values.context import find_role, is_known

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_HOLDING: Final = frozenset({"ordered_dict", "deque", "set", "frozenset"})
"""Roles of containers, which keep what they are given."""
_CARRYING: Final = frozenset(
    {
        "function", "skeleton_function", "filled_function", "function_state", "cell", "empty_cell", "carried_class",
        "carried_enum", "filled_class", "class_state", "type_variable", "generic_alias", "descriptor",
    }
)  # fmt: skip
"""Roles of what makes functions and classes carried by value: their code may call anything, and is reported."""
_MODEL_DATA: Final = frozenset({"state_dict", "data"})
"""The keys of what ``policy.save`` writes: parameters, and the arguments of the policy's constructor."""


def find_given_names(log: Iterable[Node | Update]) -> dict[int, Call]:
    """Return the calls of known constructors that are given a name, by the ``id()`` of the name.

    :param log: of a pickle
    """
    given: dict[int, Call] = {}
    seen: set[int] = set()
    for node in log:
        if not isinstance(node, Call):
            continue
        role = find_role(node)
        if role in _CARRYING or type(node.func) is not Global or not is_known(node.func.pair):
            continue  # of a name that is not known, the call itself is reported
        if role in _HOLDING:  # what is in a list is only kept, but a name in its place is asked for its items
            args = node.args if type(node.args) is tuple else ()
            given.update((id(arg), node) for arg in args if isinstance(arg, Global))
            continue
        holds_items = role == "default_dict"
        values = [node.args, node.kwargs]
        values += [update.value for update in node.updates or () if not (holds_items and update.how == "SETITEMS")]
        for name in _names(values, seen):
            given.setdefault(id(name), node)
    return given


def _names(roots: Iterable[object], seen: set[int], *, is_deep: bool = False) -> list[Global]:
    """Return the names in values, down to the nodes in them.

    :param seen: the ``id()`` of what was looked at before
    :param is_deep: look into nodes too, but not at what a call calls
    """
    found, todo = [], list(roots)
    while todo:
        part = todo.pop()
        if id(part) in seen or not isinstance(part, (Node, list, tuple)):
            continue
        seen.add(id(part))
        if isinstance(part, Global):
            found.append(part)
        elif isinstance(part, Dict):
            todo.extend(value for pair in part for value in pair)
        elif isinstance(part, (list, tuple)):
            todo.extend(part)
        elif is_deep:
            if isinstance(part, Call):
                todo += [part.args, part.kwargs]
            todo.extend(update.value for update in part.updates or ())
    return found


def find_called_names(value: object, key: str) -> dict[int, str]:
    """Return the keys under which Stable-Baselines calls a name, by the ``id()`` of the name.

    :param value: the tree of a pickle
    :param key: of ``data``, whose blob it is, :data:`~sbformat.tools.scan.location.ANY_KEY` where it cannot be told;
        empty for any other pickle: an agent of Stable Baselines 2 and what ``policy.save`` writes have their own keys
    """
    pairs: Sequence[tuple[object, object]] = [(key, value)]
    if not key:
        is_agent = type(value) in (tuple, list) and len(value) == 2  # type: ignore[arg-type]
        pairs = pairs_of(value[0] if is_agent else value)  # type: ignore[index]
        if not is_agent:
            is_model = {name for name, _ in pairs if type(name) is str} >= _MODEL_DATA
            pairs = [("data__", part) for name, part in pairs if name == "data" and is_model]
    called: dict[int, str] = {}
    for name, part in pairs:
        if isinstance(name, str) and (is_used(name) or name == ANY_KEY):
            for found in _names([part], set(), is_deep=True):
                called.setdefault(id(found), name)
    return called


def pairs_of(value: object) -> list[tuple[object, object]]:
    """Return the pairs of a dict of any kind, as they are in the tree; none for any other value."""
    if type(value) is Dict:
        return list(value)
    pairs: list[tuple[object, object]] = []
    if isinstance(value, Call) and find_role(value) == "ordered_dict":
        items = value.args[0] if value.args else ()  # type: ignore[index]
        if isinstance(items, (list, tuple)):
            pairs += [(item[0], item[1]) for item in items if isinstance(item, (list, tuple)) and len(item) == 2]
    for update in (value.updates if isinstance(value, Node) else None) or ():
        if update.how == "SETITEMS":
            pairs += update.value  # type: ignore[arg-type]
    return pairs


def find_late_changes(log: Sequence[Node | Update], changes: Iterable[tuple[object, int]]) -> bool:
    """Say whether a value was changed after a call got it: the call saw another one than is here.

    :param log: of a pickle
    :param changes: what was changed, with the length of the log at that moment
    """
    reached: set[int] = set()
    position = 0
    for target, moment in changes:
        while position < min(moment, len(log)):
            node = log[position]
            position += 1
            if isinstance(node, Call):
                _reach([node.args, node.kwargs], reached)
        if id(target) in reached:
            return True
    return False


def _reach(roots: Iterable[object], reached: set[int]) -> None:
    """Add the ``id()`` of every value that a call gets, down to the nodes in it."""
    todo = list(roots)
    while todo:
        part = todo.pop()
        if id(part) in reached:
            continue
        if isinstance(part, bytearray):
            reached.add(id(part))
        elif isinstance(part, (list, tuple)):
            reached.add(id(part))
            todo.extend(value for pair in part for value in pair) if isinstance(part, Dict) else todo.extend(part)
