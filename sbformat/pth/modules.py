"""The state of pickled modules, as ``Module.state_dict`` returns it (FORMAT.md 6.9).

In: the tree of ``torch.save(module)``, of a dict of modules, or of a TorchScript archive. Out: the same tree in which a
module is a dict: its parameters and persistent buffers by path, without the code of its class. A module is recognized
by its attributes, whatever its class: ``_parameters``, ``_buffers`` and ``_modules``; in TorchScript by its name, and
there tensors are attributes of their own.

Sources: torch ``nn/modules/module.py``, ``Module._save_to_state_dict``; ``csrc/jit/serialization/export_module.cpp``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, get_args

from sbformat.errors import escape
from sbformat.pkl.tree import Call, Dict, Global, Persistent, Set, TensorRole
from sbformat.pth.context import role_of
from sbformat.pth.values import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sbformat.limits import Budget
    from sbformat.pkl.decode import Pickle

_SCRIPTED: Final = "__torch__"
_FIELDS: Final = ("_parameters", "_buffers", "_modules")
_TRANSIENT: Final = "_non_persistent_buffers_set"
_TENSORS: Final = frozenset(get_args(TensorRole))
"""Roles of calls whose value is a tensor."""
_MOST_CLASSES: Final = 1000
_MOST_DICTS: Final = 1000


class ModuleState:
    """The modules of a pickle, once :meth:`replace` has found them.

    :param budget: each path of a tensor is charged to ``tensors``, each module to ``expanded_items``: a module that
        others share has several
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.classes: dict[str, str] = {}
        """The class of each module by its path: the first thousand."""

    def replace(self, pickle: Pickle) -> Pickle:
        """Return a pickle with the state of a module as its value, or of the modules that are values of its dict."""
        return pickle._replace(value=self._replace(pickle.value))

    def _replace(self, value: object) -> object:
        if read_attributes(value) is not None:
            return self._list_state(value, "")
        pairs = read_pairs(value)
        if pairs is None or not any(read_attributes(part) is not None for _, part in pairs):
            return value
        return Dict(
            (
                key,
                part
                if read_attributes(part) is None
                else self._list_state(part, f"{key}." if type(key) is str else ""),
            )
            for key, part in pairs
        )

    def _list_state(self, root: object, prefix: str) -> Dict:
        """Return the tensors of a module and of those in it by path, in the order of ``state_dict``."""
        found = Dict()
        todo: list[tuple[str, object, tuple[int, ...]]] = [("", root, ())]
        while todo:
            path, module, within = todo.pop()
            attributes = read_attributes(module)
            if attributes is None:
                continue
            if id(module) in within:
                refuse("a module contains itself")
            self._budget.spend("expanded_items", 1)
            self._budget.spend("value_depth", len(within) + 1)
            self._add_class(prefix + path, module)
            own, inner = _split(attributes)
            self._budget.spend("tensors", len(own))
            found += [(f"{path}{name}", part) for name, part in own]
            todo += [(f"{path}{name}.", part, (*within, id(module))) for name, part in reversed(inner)]
        return found

    def _add_class(self, path: str, module: object) -> None:
        if len(self.classes) < _MOST_CLASSES:
            self.classes[path.rstrip(".")] = name_class(module)


def name_class(module: object) -> str:
    """Return module and name of the class of an object, as text to show."""
    made = getattr(module, "func", None)
    if type(made) is Persistent and type(made.id) is tuple and len(made.id) > 1:  # the legacy stream adds its source
        made = made.id[1]
    return escape(str(made), 200) if type(made) is Global else "a class that the file defines"


def read_attributes(node: object) -> Mapping[str, Any] | None:
    """Return the attributes of a module by name; None for any other value."""
    if type(node) is not Call or node.updates is None or len(node.updates) != 1 or node.updates[0].how != "BUILD":
        return None
    state = node.updates[0].value
    if type(state) is not Dict or any(type(name) is not str for name, _ in state):
        return None
    made: dict[Any, Any] = dict(state)
    is_scripted = type(node.func) is Global and node.func.module.partition(".")[0] == _SCRIPTED
    return made if is_scripted or all(read_pairs(made.get(name)) is not None for name in _FIELDS) else None


def read_pairs(value: object) -> list[tuple[object, object]] | None:
    """Return the items of a dict or an OrderedDict; None for any other value."""
    if type(value) is Dict:
        return list(value)
    if type(value) is not Call or role_of(value.func) != "ordered_dict":
        return None
    if value.args != () or any(update.how not in ("SETITEMS", "BUILD") for update in value.updates or ()):
        return None
    items: list[Any] = [update.value for update in value.updates or () if update.how == "SETITEMS"]
    return [pair for part in items for pair in part]


def _split(attributes: Mapping[str, Any]) -> tuple[list[tuple[str, object]], list[tuple[str, object]]]:
    """Return the tensors of a module, and the modules in it, by name."""
    if all(name in attributes for name in _FIELDS):
        listed = attributes.get(_TRANSIENT)
        items = listed.args[0] if type(listed) is Call and type(listed.args) is tuple and listed.args else listed
        transient = {name for name in items if type(name) is str} if isinstance(items, (Set, list)) else set()
        parameters, buffers, inner = (_named(attributes[name]) for name in _FIELDS)
        own = [*parameters, *((name, part) for name, part in buffers if name not in transient)]
        return [(name, part) for name, part in own if part is not None], list(inner)
    own = [(name, part) for name, part in attributes.items() if _is_tensor(part)]
    return own, [(name, part) for name, part in attributes.items() if read_attributes(part) is not None]


def _named(value: object) -> Iterator[tuple[str, object]]:
    for name, part in read_pairs(value) or ():
        if type(name) is not str:
            refuse("expected texts as the names of parameters, buffers and modules")
        yield name, part


def holds_tensors(value: object) -> bool:
    """Return whether a value is a module, or a dict of texts with a tensor or array in it or in one of its dicts."""
    todo = [value]
    for _ in range(_MOST_DICTS):
        if not todo:
            return False
        part = todo.pop()
        if read_attributes(part) is not None:
            return True
        pairs = read_pairs(part)
        if pairs is not None and all(type(key) is str for key, _ in pairs):
            if any(_is_tensor(item) or _is_array(item) for _, item in pairs):
                return True
            todo += [item for _, item in pairs if read_pairs(item) is not None or type(item) is Call]
    return False


def _is_array(value: object) -> bool:
    return type(value) is Call and role_of(value.func) == "numpy_array"


def _is_tensor(value: object) -> bool:
    return type(value) is Call and role_of(value.func) in _TENSORS
