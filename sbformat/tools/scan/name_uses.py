"""Find how the names and values in a pickle are used: passed to a call, called after loading, or changed too late.

SCANNING.md 14.1. Loading an unknown name that is only referred to imports its module, nothing else. A name that
a constructor receives, or that SB3 calls after loading, runs code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.known.sb3_attributes import is_sb3_attribute
from sbformat.known.table import find, find_called, find_role
from sbformat.pkl.tree import Call, Dict, Global, Node, Update
from sbformat.tools.scan.location import UNKNOWN_KEY

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MODEL_DATA: Final = frozenset({"state_dict", "data"})
"""The keys of a file of ``policy.save``: parameters, and the arguments of the policy's constructor."""


def find_given_names(log: Iterable[Node | Update]) -> dict[int, Call]:
    """Return the calls of known constructors that receive a name, by the ``id()`` of the name."""
    given: dict[int, Call] = {}
    seen: set[int] = set()
    for node in log:
        if not isinstance(node, Call):
            continue
        if type(node.func) is not Global or not find(node.func.pair).is_known:
            continue  # a call of an unknown name has a finding of its own
        row = find_called(node)
        if "carries" in row.uses:
            continue
        if "holds" in row.uses:  # items of a list are only stored, but a name instead of the list is iterated over
            args = node.args if type(node.args) is tuple else ()
            given.update((id(arg), node) for arg in args if isinstance(arg, Global))
            continue
        holds_items = row.role == "default_dict"
        values = [node.args, node.kwargs]
        values += [update.value for update in node.updates or () if not (holds_items and update.how == "SETITEMS")]
        for name in _find_names(values, seen):
            given.setdefault(id(name), node)
    return given


def _find_names(roots: Iterable[object], seen: set[int], *, is_deep: bool = False) -> list[Global]:
    """Return the names in values, but not those within nodes.

    :param seen: the ``id()`` of values that were visited before
    :param is_deep: also return names within nodes, other than the name that a call calls
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
    :param key: the key of ``data`` that contains the pickle, or :data:`~sbformat.tools.scan.location.UNKNOWN_KEY`;
        empty for any other pickle. Agents of Stable Baselines 2 and files of ``policy.save`` contain keys themselves
    """
    pairs: Sequence[tuple[object, object]] = [(key, value)]
    if not key:
        is_agent = type(value) in (tuple, list) and len(value) == 2  # type: ignore[arg-type]
        pairs = list_pairs(value[0] if is_agent else value)  # type: ignore[index]
        if not is_agent:
            is_model = {name for name, _ in pairs if type(name) is str} >= _MODEL_DATA
            pairs = [("data__", part) for name, part in pairs if name == "data" and is_model]
    called: dict[int, str] = {}
    for name, part in pairs:
        if isinstance(name, str) and (is_sb3_attribute(name) or name == UNKNOWN_KEY):
            for found in _find_names([part], set(), is_deep=True):
                called.setdefault(id(found), name)
    return called


def list_pairs(value: object) -> list[tuple[object, object]]:
    """Return the items of a dict of any type, as the tree contains them; empty for any other value."""
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
    """Return whether a value was changed after a call received it, so that the call received a different value.

    :param log: of a pickle
    :param changes: the changed values, each with the length of the log at that moment
    """
    reached: set[int] = set()
    position = 0
    for target, moment in changes:
        while position < min(moment, len(log)):
            node = log[position]
            position += 1
            if isinstance(node, Call):
                _add_received([node.args, node.kwargs], reached)
        if id(target) in reached:
            return True
    return False


def _add_received(roots: Iterable[object], reached: set[int]) -> None:
    """Add the ``id()`` of every value that a call receives, but not those within nodes."""
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
