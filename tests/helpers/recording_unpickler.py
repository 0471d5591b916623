"""CPython's own unpickler with names, calls and persistent ids recorded instead of made: the oracle of inert trees."""

from __future__ import annotations

import _compat_pickle
import pickle
from typing import Any

from sbformat.pkl import Call, Dict, FrozenSet, Global, Node, Persistent, Set


class Recorded:
    """What the recording unpickler makes of a name, a call or a persistent id: it keeps what is done to it."""

    def __init__(self, *facts: Any) -> None:
        self.facts = facts
        self.updates: list[tuple[str, Any]] = []

    def __call__(self, *args: Any) -> Recorded:
        return Recorded("call", self, args)

    def __setstate__(self, state: Any) -> None:
        self.updates.append(("BUILD", state))

    def append(self, item: Any) -> None:
        self.updates.append(("APPENDS", [item]))

    def extend(self, items: list[Any]) -> None:
        self.updates.append(("APPENDS", list(items)))

    def __setitem__(self, key: Any, value: Any) -> None:
        self.updates.append(("SETITEMS", (key, value)))

    def add(self, item: Any) -> None:
        self.updates.append(("ADDITEMS", item))


class Recorder(pickle.Unpickler):
    is_old = False
    """Is it of a protocol below 3? Then ``find_class`` renames what Python 2 called otherwise, as the real one."""

    def find_class(self, module: str, name: str) -> Any:
        if self.is_old and (module, name) in _compat_pickle.NAME_MAPPING:
            module, name = _compat_pickle.NAME_MAPPING[module, name]
        elif self.is_old:
            module = {"Tix": "tkinter.tix", **_compat_pickle.IMPORT_MAPPING}.get(module, module)
        return Recorded("global", module, name)

    def persistent_load(self, pid: Any) -> Any:
        return Recorded("persistent", pid)


class Unlike(Exception):  # noqa: N818 -- not an error: CPython would hash or merge what we keep apart
    pass


class Graph:
    """A value, of either side, as rows that can be compared: what each object is and which are its parts."""

    def __init__(self, root: Any) -> None:
        self.rows: list[Any] = []
        self.seen: dict[int, int] = {}
        self.kept: list[Any] = []
        self.root = self.add(root)

    def add(self, value: Any) -> Any:
        if isinstance(value, memoryview):  # CPython's way to have bytes that nothing can change
            value = bytes(value)
        if value is None or isinstance(value, (bool, int, float, str, bytes, bytearray)):
            return type(value).__name__, hex(value) if type(value) is int else repr(value)
        if type(value) is tuple and not value:
            return "()"
        if id(value) in self.seen:
            return self.seen[id(value)]
        self.kept.append(value)
        index = self.seen[id(value)] = len(self.rows)
        self.rows.append(None)
        self.rows[index] = self.row(value)
        return index

    def keyed(self, keys: list[Any]) -> list[Any]:
        if any(not isinstance(key, (str, bytes, type(None))) and type(key) is not int for key in keys):
            raise Unlike
        return keys

    def row(self, value: Any) -> Any:
        if isinstance(value, (Dict, dict)):
            pairs = list(value.items()) if isinstance(value, dict) else list(value)
            self.keyed([key for key, _ in pairs])
            return "dict", [(self.add(key), self.add(item)) for key, item in dict(pairs).items()]
        if isinstance(value, (Set, set, FrozenSet, frozenset)):
            kind = "set" if isinstance(value, (Set, set)) else "frozenset"
            return kind, sorted(map(repr, set(self.keyed(list(value)))))
        if isinstance(value, (list, tuple)):
            return type(value).__name__, [self.add(item) for item in value]
        if isinstance(value, Recorded):
            kind, *facts = value.facts
            if kind == "call":
                facts = [self.add(facts[0]), [self.add(item) for item in facts[1]]]
            elif kind == "persistent":
                facts = [self.add(facts[0])]
            return kind, facts, self.updates(value.updates)
        assert isinstance(value, Node)
        flat: list[tuple[str, Any]] = []
        for update in value.updates or ():
            several = update.how in ("SETITEMS", "ADDITEMS")
            flat.extend((update.how, item) for item in (update.value if several else [update.value]))  # type: ignore[attr-defined]
        if isinstance(value, Global):
            return "global", list(value.pair), self.updates(flat)
        if isinstance(value, Persistent):
            return "persistent", [self.add(value.id)], self.updates(flat)
        assert isinstance(value, Call)
        assert isinstance(value.args, tuple)
        return "call", [self.add(value.func), [self.add(item) for item in value.args]], self.updates(flat)

    def updates(self, updates: list[tuple[str, Any]]) -> list[Any]:
        rows: list[Any] = []
        for how, value in updates:
            if how == "SETITEMS":
                rows.append((how, self.add(value[0]), self.add(value[1])))
            elif how == "APPENDS":
                rows.extend((how, self.add(item)) for item in value)
            else:
                rows.append((how, self.add(value)))
        return rows
