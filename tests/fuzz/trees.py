"""Equality of inert trees, told by nothing of what is tested: by type, bits, order, and what is shared."""

from __future__ import annotations

from typing import Any

from sbformat.pkl import Call, Dict, FrozenSet, Global, Node, Persistent, Set


def assert_same_tree(left: object, right: object) -> None:
    """Assert that two trees say the same, and share and hold themselves in the same places."""
    there: dict[int, int] = {}
    back: dict[int, int] = {}
    todo = [(left, right)]
    while todo:
        one, other = todo.pop()
        if _has_identity(one) and _has_identity(other):
            if id(one) in there:
                assert there[id(one)] == id(other), "two values were one, or one was two"
                continue
            assert id(other) not in back, "something is shared that was not"
            there[id(one)], back[id(other)] = id(other), id(one)
        mine, theirs = facts(one), facts(other)
        assert mine == theirs, f"{mine!r:.200} is not {theirs!r:.200}"
        todo.extend(zip(parts(one), parts(other)))


def _has_identity(value: object) -> bool:
    """Names, texts and bytes that say the same may be one; what can be changed may not."""
    if type(value) is Global:
        return bool(value.updates)
    return isinstance(value, (list, tuple, bytearray, Node)) and value != ()


def facts(value: Any) -> tuple[object, ...]:
    """What a value says by itself, and how many parts it has in which place."""
    if isinstance(value, Node):
        changes = [(change.how, 1 if change.how == "BUILD" else len(change.value)) for change in value.updates or ()]
        own = [getattr(value, name, None) for name in ("pair", "how", "code")]
        return type(value), *own, *changes
    if isinstance(value, (list, tuple)):
        return type(value), len(value)
    return type(value), value.hex() if isinstance(value, float) else value


def parts(value: Any) -> list[object]:
    """The parts of a value, in order."""
    if isinstance(value, Dict):
        return [part for pair in value for part in pair]
    if isinstance(value, (list, tuple, Set, FrozenSet)):
        return list(value)
    found: list[object] = []
    if isinstance(value, Call):
        found = [value.func, value.args, value.kwargs]
    elif isinstance(value, Persistent):
        found = [value.id]
    for change in (value.updates if isinstance(value, Node) else None) or ():
        held: Any = change.value
        if change.how == "BUILD":
            found.append(held)
        else:
            found += [part for pair in held for part in pair] if change.how == "SETITEMS" else held
    return found


def depth(root: object, most: int) -> int:
    """How deep a tree is, up to ``most``; what is shared counts where it is met first."""
    level, seen, deep = [root], set(), 0
    while level and deep < most:
        deep += 1
        below = [part for value in level for part in parts(value)]
        level = [part for part in below if isinstance(part, (Node, list, tuple)) and id(part) not in seen]
        seen.update(map(id, level))
    return deep
