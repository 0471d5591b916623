"""The cost for CPython of hashing the keys of a pickle's dicts and the members of its sets (SCANNING.md 14.1).

A pickle whose keys cannot be hashed cannot be loaded, and hashing some keys takes years: a tuple does not cache its
hash, so a tuple of two references to a tuple of two references, thirty levels deep, is hashed 2**30 times; and a file
can choose numbers whose hashes collide in every slot of a table. Nothing of a file is hashed here except numbers and
tuples of numbers, whose hashes are needed to find collisions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.known.spaces import SPACE_TYPES
from sbformat.known.table import find, find_called, find_role
from sbformat.pkl.tree import Call, Dict, FrozenSet, Global, Set, Unread

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sbformat.limits import Limits

_UNHASHABLE: Final[dict[type, str]] = {list: "a list", Dict: "a dict", Set: "a set", bytearray: "a bytearray"}
_UNHASHABLE_OBJECTS: Final = frozenset({"portable_array", *SPACE_TYPES})
"""Kinds of objects whose classes have an ``__eq__`` and no ``__hash__``."""
_HASHING: Final = frozenset({Dict, Set, FrozenSet, Call})  # types of parts that may contain a hash table
_NUMBERS: Final = (int, float, bool)
_LINEAR_PROBES: Final = 9  # adjacent slots that CPython's sets probe before they jump; dicts probe none
_PERTURB_SHIFT: Final = 5
_PROBES_A_KEY: Final = 32
"""Probes that are allowed per key on average; tables that were not made to collide need fewer than 6."""


def find_key_fault(parts: Iterable[object], limits: Limits) -> str | None:
    """Return why a pickle cannot be loaded, or not in reasonable time, because of its keys; None if it can.

    :param parts: every composite value and node that loading it creates, each once; other values among them are skipped
    :param limits: ``pickle_nodes`` parts may be hashed, ``value_depth`` tuples deep; up to ``other_keys`` keys of a
        table are not checked for collisions
    """
    costs = _Costs(limits.pickle_nodes, limits.value_depth)
    for part in parts:
        for keys, is_set in _tables(part) if type(part) in _HASHING else ():
            fault = costs.add(keys)
            if fault is None and len(keys) > limits.other_keys:
                fault = _find_collisions(keys, limits.other_keys, is_set=is_set)
            if fault is not None:
                return fault
    return None


def _tables(part: Any) -> list[tuple[list[object], bool]]:
    """Return the keys of each hash table in a dict, set or call, with True for those of a set."""
    kind = type(part)
    if kind is Dict:
        others = [key for key, _ in part if type(key) is not str]
        return [(others, False)] if others else []
    if kind is Set or kind is FrozenSet:
        return [(_others(part), True)]
    found: list[tuple[list[object], bool]] = []
    items = part.args[0] if type(part.args) is tuple and len(part.args) == 1 else ()
    role = find_role(part) if items and isinstance(items, (list, tuple)) else None
    if role in ("set", "frozenset"):
        found.append((_others(items), True))
    elif role == "ordered_dict" and type(items) is list:
        found.append((_others(item[0] for item in items if isinstance(item, (list, tuple)) and item), False))
    for update in part.updates or ():
        if update.how == "SETITEMS":
            found.append((_others(key for key, _ in update.value), False))
        elif update.how == "ADDITEMS":
            found.append((_others(update.value), True))
    return found


def _others(keys: Iterable[object]) -> list[object]:
    """Return the keys that are not text: the hash of text is salted and cached."""
    return [key for key in keys if type(key) is not str]


class _Costs:
    """Count of the parts that are hashed, over all tables of a pickle; hashing tuples in tuples recurses, in C."""

    def __init__(self, most: int, deepest: int) -> None:
        self.most = most
        self.deepest = deepest
        self.spent = 0
        self._costs: dict[int, int] = {}
        self._heights: dict[int, int] = {}

    def add(self, keys: list[object]) -> str | None:
        """Add the keys of one table; return a fault or None."""
        for key in keys:
            fault = self._measure(key)
            if fault is not None:
                return f"{fault} cannot be hashed, and is a key or a member of a set"
            if self._heights.get(id(key), 0) > self.deepest:
                return f"a key nests more than {self.deepest} tuples"
            self.spent += self._costs.get(id(key), 1)
            if self.spent > self.most:
                return f"loading it hashes more than {self.most:,} parts of its keys"
        return None

    def _measure(self, key: object) -> str | None:
        """Measure a key and every tuple in it; return what in it cannot be hashed, or None."""
        todo = [key]
        while todo:
            part = todo[-1]
            fault = _unhashable(part)
            if fault is not None:
                return fault
            if type(part) is not tuple or id(part) in self._costs:
                todo.pop()
                continue
            waiting = [item for item in part if type(item) is tuple and id(item) not in self._costs]
            if waiting:
                todo.extend(waiting)
                continue
            fault = next((found for found in map(_unhashable, part) if found is not None), None)
            if fault is not None:
                return fault
            self._costs[id(part)] = 1 + sum(self._costs.get(id(item), 1) for item in part)
            self._heights[id(part)] = 1 + max((self._heights.get(id(item), 0) for item in part), default=0)
            todo.pop()
        return None


def _unhashable(value: object) -> str | None:
    """Return a description of a value that CPython cannot hash, or None."""
    kind = type(value)
    if kind in _UNHASHABLE:
        return _UNHASHABLE[kind]
    if kind is Unread:
        return _UNHASHABLE[bytearray] if value.is_bytearray else None  # type: ignore[attr-defined]
    if not isinstance(value, Call) or type(value.func) is not Global:
        return None
    is_object = value.how == "NEWOBJ" and find(value.func.pair).kind in _UNHASHABLE_OBJECTS
    dtype = value.args[0] if find_role(value) == "numpy_scalar" and value.args else None  # type: ignore[index]
    code = dtype.args[0] if isinstance(dtype, Call) and type(dtype.args) is tuple and dtype.args else None
    is_structured = isinstance(code, str) and code.lstrip("<>|=").startswith("V")  # a numpy scalar with fields
    if is_object or "unhashable" in find_called(value).uses or is_structured:
        return f"an object of {value.func}"
    return None


# -- collisions ---------------------------------------------------------------------------------------


def _find_collisions(keys: list[object], most: int, *, is_set: bool) -> str | None:
    """Return a fault when many keys of one table collide, or more than ``most`` are objects, or None."""
    objects = sum(isinstance(key, Call) for key in keys)
    if objects > most:
        return f"{objects:,} of its keys in one table are objects, whose hashes a file may choose"
    numbers = [key for key in keys if type(key) in _NUMBERS or (type(key) is tuple and _is_numeric(key))]
    allowed = _PROBES_A_KEY * len(numbers)
    if _count_probes(numbers, allowed, is_set=is_set) > allowed:
        return "its keys collide in the hash table: loading it takes time that grows with the square of their number"
    return None


def _is_numeric(key: tuple[object, ...]) -> bool:
    """Return whether a tuple consists of numbers or tuples of them, the values whose hashes a file can choose."""
    todo: list[object] = list(key)
    for _ in range(1000):
        if not todo:
            return True
        part = todo.pop()
        if type(part) is tuple:
            todo.extend(part)
        elif type(part) not in _NUMBERS and part is not None:
            return False
    return False


def _count_probes(keys: list[object], most: int, *, is_set: bool) -> int:
    """Return how often CPython jumps between slots while it fills a table with keys, up to ``most``.

    Source: CPython ``Objects/dictobject.c`` and ``Objects/setobject.c``.
    """
    probes, size = 0, 8
    slots: list[object] = [None] * size
    entered: list[tuple[int, object]] = []
    for key in keys:
        entry = (hash(key), key)
        found = _insert(slots, entry, is_set=is_set)
        probes += abs(found)
        if probes > most:
            break
        if found < 0:
            continue
        entered.append(entry)
        if 3 * len(entered) >= 2 * size or (is_set and 5 * len(entered) >= 3 * size):
            size *= 4 if is_set else 2
            slots = [None] * size
            for again in entered:
                probes += abs(_insert(slots, again, is_set=is_set))
                if probes > most:
                    break
    return probes


def _insert(slots: list[object], entry: tuple[int, object], *, is_set: bool) -> int:
    """Insert a key; return the number of jumps, negative when the key was already there."""
    mask, perturb = len(slots) - 1, entry[0] & 0xFFFFFFFFFFFFFFFF
    at, count = perturb & mask, 0
    while True:
        run = _LINEAR_PROBES if is_set and at + _LINEAR_PROBES <= mask else 0
        count += 1
        for place in range(at, at + run + 1):
            there = slots[place]
            if there is None:
                slots[place] = entry
                return count
            held, key = there[1], entry[1]  # type: ignore[index]
            if there[0] == entry[0] and (  # type: ignore[index]
                held is key or (type(held) in _NUMBERS and type(key) in _NUMBERS and held == key)
            ):
                return -count
        perturb >>= _PERTURB_SHIFT
        at = (5 * at + 1 + perturb) & mask
