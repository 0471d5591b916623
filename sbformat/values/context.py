"""The walk from an inert tree to values, and the account of what was understood on the way (FORMAT.md 13.1).

Depth first with a stack of its own. Each value of the tree is made once, after its parts; a recogniser gets the node
and asks for its parts' values. What a recogniser accepts, with all that changed it, is understood; anything else is
in doubt and stays as it stands in the tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sbformat.errors import TensorError, UnsupportedError, escape
from sbformat.globals.recognized import CALLS, OBJECTS, PLAIN_OBJECTS
from sbformat.globals.references import REFERENCES
from sbformat.globals.stdlib import NAMES, SLOT_OBJECTS
from sbformat.globals.torch import DTYPES, MEMORY_FORMATS, QUANTIZATION_SCHEMES, STORAGES, TENSOR_CLASSES
from sbformat.pkl.tree import Call, Dict, FrozenSet, Global, Node, Persistent, Set, Update
from sbformat.pth.addresses import other_keys
from sbformat.pth.context import Scope
from sbformat.values.types import Cycle, Reference

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator
    from typing import TypeAlias

    from sbformat.globals.torch import Pair
    from sbformat.limits import Budget
    from sbformat.pkl.decode import Pickle
    from sbformat.pth.values import Storage
    from sbformat.values.load_hooks import Lineage

    Recogniser: TypeAlias = "Callable[[Recognition, Call], object]"

_TEXT: Final = {str}
_MOST_DOUBTS: Final = 50_000
_NODES_A_CALL: Final = 5
"""What a call costs when it becomes a value, in nodes of a pickle."""
_SETTERS: Final = frozenset({"function_state", "class_state"})
_FILLERS: Final = frozenset({"filled_function", "filled_class"})
_CARRIERS: Final = frozenset({"builtin_type", "function", "skeleton_function", "carried_class", "carried_enum"})


class Unrecognised(Exception):  # noqa: N818 -- a word between rooms, never raised to a caller
    """A recogniser's word for: this is not the shape that its library writes."""


class Doubt(NamedTuple):
    """Why a node is not understood."""

    node: Node | Update
    rule: str
    """``unknown``, ``arguments``, ``function``, ``called``, ``class``, ``base``, ``module``, or ``name``: it is known
    where a function or class is carried by value."""
    message: str


class Extent(NamedTuple):
    """How much a container holds, down to the nodes in it; what is shared counts wherever it stands."""

    items: int
    size: int
    """Bytes of text, bytes and numbers."""


_SMALL: Final = Extent(8, 64)
"""What every part that is no larger is taken for."""


class Recognition:
    """One pickle while it is recognised, and what came of it.

    :param pickle: decoded
    :param budget: the operation's
    :param find: gives the recogniser of a call, or None
    :param tensors: of a ``.pth``, which finds the storages of persistent ids; None for any other pickle
    :param reads_all: read what was left in a file, too, where its bytes can be wrong
    """

    __slots__ = (
        "_calls", "_carried_names", "_extents", "_find", "_given", "_heights", "_made", "_opened", "_substitutes",
        "budget", "claimed", "doubts", "fillers", "lineages", "pickle", "reads_all", "setters", "storages", "tensors",
        "understood", "valued", "waiting",
    )  # fmt: skip

    def __init__(
        self,
        pickle: Pickle,
        budget: Budget,
        find: Callable[[Call], Recogniser | None],
        tensors: Scope | None = None,
        *,
        reads_all: bool = False,
    ) -> None:
        self.pickle = pickle
        self.reads_all = reads_all
        self.budget = budget
        self._find = find
        self.tensors = tensors or Scope(budget, _no_storage, id_items=5)
        self.understood: set[int] = set()
        """The ``id()`` of every node of the log that a recogniser accepted."""
        self.doubts: dict[int, Doubt] = {}
        self.setters: dict[int, list[Call]] = {}
        """cloudpickle's state setters by the ``id()`` of what they change: calls whose result nothing uses."""
        self.fillers: dict[int, list[Call]] = {}
        """The same of cloudpickle < 1.6: calls that change a function or class and return it."""
        self.lineages: dict[int, Lineage] = {}
        """Classes carried by value that are complete, by the ``id()`` of the call that makes them."""
        self.waiting: dict[int, list[Call]] = {}
        """Objects of such classes that are not complete, by the same."""
        self.storages: dict[int, Storage | None] = {}
        """Those of torch files within the pickle, by the ``id()`` of what stands for the file; None for no storage."""
        self.valued: set[int] = set()
        """The ``id()`` of every name that stands as a value, and may."""
        self.claimed: set[int] = set()
        """The ``id()`` of every node that may belong to one other only, and does."""
        self._made: dict[int, object] = {}
        self._extents: dict[int, Extent] = {}
        self._given = Extent(0, 0)
        self._calls = 0
        self._heights: dict[int, int] = {}
        self._opened: set[int] = set()
        self._substitutes: dict[int, Node] = {}
        self._carried_names: Container[Pair] = ()
        for node in pickle.log:
            role = role_of(node) if isinstance(node, Call) else None
            if role in _SETTERS and node.args:  # type: ignore[union-attr]
                self.setters.setdefault(id(node.args[0]), []).append(node)  # type: ignore[arg-type,union-attr]
            elif role in _FILLERS and node.args:  # type: ignore[union-attr]
                self.fillers.setdefault(id(node.args[0]), []).append(node)  # type: ignore[arg-type,union-attr]
            if role in _CARRIERS:
                self._carried_names = NAMES

    # -- the walk -------------------------------------------------------------------------------------

    def make(self, root: object) -> object:
        """Make the value of a tree, or of a part of it that nothing else refers to."""
        if not _has_parts(root) or id(root) in self._made:
            return self.value(root)
        frames: list[tuple[Any, Iterator[object]]] = [(root, self._parts(root))]
        heights = [1]
        deepest = 1
        self._opened.add(id(root))
        while frames:
            node, parts = frames[-1]
            for part in parts:
                if not _has_parts(part) or id(part) in self._opened:
                    continue
                if id(part) in self._made:
                    heights[-1] = max(heights[-1], self._heights.get(id(part), 1) + 1)
                    continue
                self._opened.add(id(part))
                frames.append((part, self._parts(part)))
                heights.append(1)
                if len(frames) > deepest:
                    deepest = len(frames)
                    self.budget.spend("value_depth", deepest)
                break
            else:
                height = heights.pop()
                if len(frames) + height - 1 > deepest:
                    deepest = len(frames) + height - 1
                    self.budget.spend("value_depth", deepest)
                frames.pop()
                self._opened.discard(id(node))
                self._made[id(node)] = self._value_of(node)
                if height > 1:
                    self._heights[id(node)] = height
                if heights:
                    heights[-1] = max(heights[-1], height + 1)
        return self._made[id(root)]

    def _parts(self, node: Any) -> Iterator[object]:
        """Yield what has to be made before a node: names are not, and a call's arguments are, one by one."""
        if isinstance(node, Dict):
            for key, value in node:
                yield key
                yield value
        elif isinstance(node, (list, tuple)):
            yield from node
        elif isinstance(node, Call):
            yield node.func
            if type(node.args) is tuple:
                yield from node.args
            else:
                yield node.args
            yield node.kwargs
            for setter in self.changes_of(node):
                yield from setter.args[1:]  # type: ignore[index]
        for update in (node.updates if isinstance(node, Node) else None) or ():
            state: Any = update.value
            if update.how == "BUILD":
                yield state
            elif update.how == "SETITEMS":
                for key, value in state:
                    yield key
                    yield value
            else:
                yield from state

    def _value_of(self, node: object) -> object:
        kind = type(node)
        if isinstance(node, (list, tuple)):
            extent = self._extent(self._parts(node))
            if extent.items > _SMALL.items or extent.size > _SMALL.size or (kind is Dict and not node):
                self._extents[id(node)] = extent
        if kind is Dict:
            return self.mapping(node)  # type: ignore[arg-type]
        if kind is list:
            return [self.value(part) for part in node]  # type: ignore[attr-defined]
        if kind is tuple:
            return tuple([self.value(part) for part in node])  # type: ignore[attr-defined]
        if kind is Set or kind is FrozenSet:
            return self.members([self.value(part) for part in node], is_frozen=kind is FrozenSet)  # type: ignore[attr-defined]
        if kind is Persistent:
            return self._storage(node)  # type: ignore[arg-type]
        if isinstance(node, Call):
            return self._call(node)
        self.doubt(node, "unknown", "a name by its number in the copyreg registry, which only its author knows")  # type: ignore[arg-type]
        return node

    def _storage(self, node: Persistent) -> object:
        try:
            return self.tensors.storage(node)
        except (TensorError, UnsupportedError) as error:
            self.doubt(node, "arguments", f"a persistent reference: {error.message}")
            return node

    def _call(self, node: Call) -> object:
        recogniser = self._find(node)
        if recogniser is None:
            return node
        self._charge(node)
        if self.pickle.changed and self._is_given_changed(node):
            self.doubt(node, "arguments", "it is given a value that is changed afterwards")
            return node
        try:
            value = recogniser(self, node)
        except (Unrecognised, TensorError, UnsupportedError) as error:
            self.doubt(node, "arguments", str(error) if isinstance(error, Unrecognised) else error.message)
            return node
        except (IndexError, KeyError, TypeError, ValueError):  # a shape that its recogniser did not think of
            self.doubt(node, "arguments", "its arguments are of no kind that is known")
            return node
        return value

    def changes_of(self, node: Call) -> list[Call]:
        """Return the calls of cloudpickle that give a function or class its state."""
        return [*self.setters.get(id(node), ()), *self.fillers.get(id(node), ())]

    def _is_given_changed(self, node: Call) -> bool:
        """Say whether an argument or state was changed after it was referred to again, perhaps after this call.

        The tree holds what came of it in the end, and the call may have seen what it was before.
        """
        todo: list[object] = [node, *self._parts(node)]
        seen: set[int] = set()
        while todo:
            part = todo.pop()
            if id(part) in seen:
                continue
            seen.add(id(part))
            if id(part) in self.pickle.changed:
                return True
            if isinstance(part, (list, tuple)):
                todo.extend(self._parts(part))
        return False

    def knows(self, name: Global) -> bool:
        """Say whether a name was accepted, valued or doubted: whether some recogniser looked at it."""
        return id(name) in self.understood or id(name) in self.valued or id(name) in self.doubts

    def is_due(self, node: Call) -> bool:
        """Say whether a call is yet to be recognised: it has a recogniser, and the walk did not come to it."""
        return id(node) not in self._made and id(node) not in self.understood and self._find(node) is not None

    def _charge(self, node: Call) -> None:
        """Charge what a call is given, which its recogniser may copy: shared parts wherever they are given.

        In what a pickler writes this comes to no more items, or bytes, than the pickle has bytes.
        """
        items, size = self._extent(self._parts(node))
        self._given = Extent(self._given.items + items, self._given.size + size)
        self._calls += 1
        excess = self._given.items - self.pickle.size
        self.budget.spend("pickle_nodes", max(excess, self._calls * _NODES_A_CALL))
        self.budget.spend("blob_bytes", self._given.size - self.pickle.size)

    def _extent(self, parts: Iterator[object]) -> Extent:
        items = size = 0
        for part in parts:
            items += 1
            kind = type(part)
            if kind is str or kind is bytes or kind is bytearray:
                size += len(part)  # type: ignore[arg-type]
            elif kind is int:
                size += part.bit_length() >> 3  # type: ignore[attr-defined]
            elif kind is tuple or kind is list or kind is Dict or kind is Set or kind is FrozenSet:
                inner = self._extents.get(id(part), _SMALL)
                items += inner.items
                size += inner.size
        return Extent(items, size)

    # -- what recognisers ask -------------------------------------------------------------------------

    def value(self, part: object) -> Any:
        """Return the value of a part that was made, of a plain value, or of a name that stands as a value."""
        if type(part) is Global:
            return self._name(part)
        if not _has_parts(part):
            return part
        return self._made[id(part)] if id(part) in self._made else Cycle()

    def _name(self, node: Global) -> object:
        if node.updates:
            return node
        if node.pair in _SINGLETONS:
            self.valued.add(id(node))
            return _SINGLETONS[node.pair]
        if any(node.pair in table for table in _STANDING):
            self.valued.add(id(node))
            return Reference(*node.pair)
        if node.pair in self._carried_names:
            self.accept_where_carried(node)
            return Reference(*node.pair)
        if len(self.doubts) < _MOST_DOUBTS:  # what is not understood is in doubt without a word too
            self.doubt(node, "unknown", "")
        return node

    def mapping(self, pairs: list[tuple[object, object]]) -> dict[Any, Any] | Dict:
        """Return pairs as a dict; as pairs again when a file could choose the hashes of their keys."""
        keys = [self.value(key) for key, _ in pairs]
        if set(map(type, keys)) <= _TEXT or self._may_hash(keys):
            return dict(zip(keys, (self.value(value) for _, value in pairs)))
        return Dict([(key, self.value(value)) for key, (_, value) in zip(keys, pairs)])

    def members(self, values: list[object], *, is_frozen: bool) -> object:
        """Return values as a set; as a list of its own kind when a file could choose their hashes."""
        if set(map(type, values)) <= _TEXT or self._may_hash(values):
            return frozenset(values) if is_frozen else set(values)
        return FrozenSet(values) if is_frozen else Set(values)

    def _may_hash(self, keys: list[object]) -> bool:
        """Text is hashed with a salt; of others few are allowed, and only plain ones (FORMAT.md 6.6)."""
        if any(key is not None and type(key) not in (str, int, bool, float, bytes) for key in keys):
            return False
        return len(other_keys(keys)) <= self.budget.limits.other_keys

    def attributes(self, node: Call) -> dict[str, Any]:
        """Return the one state that BUILD gives an object: a dict of attributes."""
        updates = node.updates or []
        is_own = len(updates) == 1 and updates[0].how == "BUILD" and id(updates[0].value) not in self.pickle.shared
        state = self.value(updates[0].value) if is_own else None
        if type(state) is not dict or set(map(type, state)) - _TEXT:
            message = "its state is not one dict of attributes of its own"
            raise Unrecognised(message)
        return state

    def state(self, node: Call) -> Any:
        """Return the one state that BUILD gives an object."""
        updates = node.updates or []
        if len(updates) != 1 or updates[0].how != "BUILD":
            message = "it is not given exactly one state"
            raise Unrecognised(message)
        return self.value(updates[0].value)

    def accept(self, *nodes: object) -> None:
        """Note nodes as understood, with the names that they call and all that changed them.

        A name that was changed is none of those that are known.
        """
        for node in nodes:
            if type(node) is Global and node.updates:
                continue
            self.understood.add(id(node))
            for update in (node.updates if isinstance(node, Node) else None) or ():
                self.understood.add(id(update))
            if isinstance(node, Call) and isinstance(node.func, Global) and not node.func.updates:
                self.understood.add(id(node.func))

    def accept_where_carried(self, *nodes: Node) -> None:
        """Note nodes as understood in a pickle that carries functions or classes, and as unknown in any other."""
        self.accept(*nodes)
        for node in nodes:
            self.doubt(node, "name", "")

    def doubt(self, node: Node | Update, rule: str, message: str) -> None:
        """Note why a node is not understood."""
        self.doubts.setdefault(id(node), Doubt(node, rule, message))

    def substitute(self, node: Node, other: Node) -> None:
        """Have torch's constructors see another node in the place of this one."""
        self._substitutes[id(node)] = other

    def substituted(self, value: object) -> object:
        """Return what stands for a node."""
        return self._substitutes.get(id(value), value)


_STANDING: Final = (REFERENCES, OBJECTS, PLAIN_OBJECTS, DTYPES, MEMORY_FORMATS, QUANTIZATION_SCHEMES)
"""Names that may stand as values."""

_IMPORTED: Final = (*_STANDING, CALLS, SLOT_OBJECTS, TENSOR_CLASSES, STORAGES)
"""Names whose import alone does nothing but define."""

_SINGLETONS: Final[dict[Pair, Any]] = {("builtins", "Ellipsis"): ..., ("builtins", "NotImplemented"): NotImplemented}


def _no_storage(*_: object) -> Any:
    message = "a pickle of its own has no storages"
    raise TensorError(message)


def _has_parts(value: object) -> bool:
    return isinstance(value, (Node, list, tuple)) and type(value) is not Global


def role_of(node: Call) -> str | None:
    """Return the role of what a REDUCE calls by a plain name."""
    func = node.func
    if node.how != "REDUCE" or type(func) is not Global or func.updates or type(node.args) is not tuple:
        return None
    return CALLS.get(func.pair)


def described(node: object) -> str:
    """Return what a node calls or names, escaped."""
    if isinstance(node, Call):
        node = node.func
    return escape(str(node), 200) if isinstance(node, Global) else "something that is computed"


def is_known(pair: Pair) -> bool:
    """Say whether a name is one that sbformat knows, in whatever role: its import does nothing but define."""
    return any(pair in table for table in _IMPORTED)
