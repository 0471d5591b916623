"""The walk from an inert tree to values: children first, each node once (VALUES.md 13.1).

:mod:`sbformat.known.context` has the theory of operation. The walk has a stack of its own, because a file chooses how
deep its tree is, and charges what it copies, because a tree that shares parts can stand for one exponentially larger.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sbformat.errors import TensorError, UnsupportedError
from sbformat.known.context import NodeContext
from sbformat.known.rows import Unaccepted, UnrecognizedError
from sbformat.known.table import find, find_node_decoder, find_role
from sbformat.pkl.tree import COMPOSITES, LEAVES, Call, Dict, FrozenSet, Global, Persistent, Set, add_changes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sbformat.limits import Budget
    from sbformat.pkl.decode import Pickle
    from sbformat.pth.context import DecodeContext

_STORING_ROLES: Final = frozenset({"cell", "function", "record"})
_CONTAINERS: Final = frozenset({list, tuple, Dict, Set, FrozenSet})  # types of composite values that are not nodes
_TEXTS: Final = frozenset({str, bytes, bytearray})
_NODES_PER_CALL: Final = 5  # cost of decoding a call, in nodes of a pickle


_Size: TypeAlias = tuple[int, int]
"""Size of a container with all nodes in it, of which a shared one counts wherever it is used: the number of items, and
the bytes of text, bytes and numbers."""
_SMALL: Final = (8, 64)  # every container up to this size is charged as this size


class Decoder(NodeContext):
    """A context that walks the tree; parameters as :class:`~sbformat.known.context.NodeContext`."""

    def __init__(
        self, pickle: Pickle, budget: Budget, tensors: DecodeContext | None = None, *, checks_unread: bool = False
    ) -> None:
        super().__init__(pickle, budget, tensors, checks_unread=checks_unread)
        self._sizes: dict[int, _Size] = {}
        self._items = self._nbytes = 0
        self._calls = 0
        self._heights: dict[int, int] = {}
        self._open: set[int] = set()

    def decode(self, root: object) -> object:
        """Return the value of a tree, or of a part of it that nothing else refers to."""
        values, is_open = self._values, self._open
        if type(root) not in COMPOSITES or id(root) in values:
            return self.value(root)
        parts = self._parts(root)
        frames: list[tuple[Any, Sequence[object], Iterator[object]]] = [(root, parts, iter(parts))]
        heights = [1]
        deepest = 1
        is_open.add(id(root))
        while frames:
            node, parts, rest = frames[-1]
            for part in rest:
                if type(part) not in COMPOSITES or id(part) in is_open:
                    continue
                if id(part) in values:
                    heights[-1] = max(heights[-1], self._heights.get(id(part), 1) + 1)
                    continue
                inner = self._parts(part)
                if COMPOSITES.isdisjoint(map(type, inner)):  # most of them
                    if len(frames) == deepest:
                        deepest += 1
                        self.budget.spend("value_depth", deepest)
                    values[id(part)] = self._decode_node(part, inner)
                    if heights[-1] == 1:
                        heights[-1] = 2
                    continue
                is_open.add(id(part))
                frames.append((part, inner, iter(inner)))
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
                is_open.discard(id(node))
                values[id(node)] = self._decode_node(node, parts)
                if height > 1:
                    self._heights[id(node)] = height
                if heights:
                    heights[-1] = max(heights[-1], height + 1)
        return values[id(root)]

    def is_pending(self, node: Call) -> bool:
        """Return whether a call has a node decoder, and the walk has not reached it."""
        is_reached = id(node) in self._values or id(node) in self.understood
        return not is_reached and find_node_decoder(node) is not None

    def _parts(self, node: Any) -> Sequence[object]:
        """Return what has to be decoded before a node: the arguments of a call one by one, and what changes it."""
        kind = type(node)
        if kind is Dict:
            return [part for pair in node for part in pair]
        if kind in _CONTAINERS:
            return node  # type: ignore[no-any-return]
        parts: list[object] = []
        if kind is Call:
            parts = [node.func, *node.args] if type(node.args) is tuple else [node.func, node.args]
            parts.append(node.kwargs)
            if self.setters or self.fillers:
                for setter in self.state_setters(node):
                    parts += setter.args[1:]  # type: ignore[index]
        if node.updates:
            add_changes(node.updates, parts)
        return parts

    def _decode_node(self, node: object, parts: Sequence[object]) -> object:
        """Return the value of a node whose parts have values."""
        kind = type(node)
        if kind is Call:
            return self._decode_call(node, parts)  # type: ignore[arg-type]
        if kind in _CONTAINERS:
            items, nbytes = self._measure(parts)
            if items > _SMALL[0] or nbytes > _SMALL[1] or (kind is Dict and not node):
                self._sizes[id(node)] = items, nbytes
            if kind is Dict:
                return self.make_dict(node)  # type: ignore[arg-type]
            if kind is tuple and LEAVES.issuperset(map(type, parts)):
                return node
            made = [part if type(part) in LEAVES else self.value(part) for part in parts]
            if kind is tuple:
                return tuple(made)
            return made if kind is list else self.make_set(made, is_frozen=kind is FrozenSet)
        if kind is Persistent:
            try:
                return self.tensors.storage(node)
            except (TensorError, UnsupportedError) as error:
                self.add_issue(node, "arguments", f"a persistent reference: {error.message}")  # type: ignore[arg-type]
                return node
        self.add_issue(node, "unknown", "a copyreg extension code, which only its author can resolve")  # type: ignore[arg-type]
        return node

    def _decode_call(self, node: Call, parts: Sequence[object]) -> object:
        decode = find_node_decoder(node)
        if decode is None:
            return node
        self._charge(parts)
        if self.pickle.changed and not self._only_stores(node) and self._uses_changed_value(node):
            self.add_issue(node, "arguments", "it is given a value that is changed afterwards")
            return node
        try:
            made = decode(self, node)
        except (UnrecognizedError, TensorError, UnsupportedError) as error:
            self.add_issue(node, "arguments", str(error) if isinstance(error, UnrecognizedError) else error.message)
            return node
        except (IndexError, KeyError, TypeError, ValueError):  # a shape that its node decoder did not think of
            self.add_issue(node, "arguments", "its arguments are not of any known kind")
            return node
        if type(made) is Unaccepted:
            return made.value
        self.accept(node)
        return made

    def _only_stores(self, node: Call) -> bool:
        """Return whether a call only stores its arguments, so that it does not matter when they are changed."""
        if isinstance(node.func, Call) and find_role(node.func) == "builtin_type":
            return node.func.args == ("MethodType",)
        if isinstance(node.func, Global) and "stores" in find(node.func.pair).uses:
            return not node.func.updates
        return find_role(node) in _STORING_ROLES

    def _uses_changed_value(self, node: Call) -> bool:
        """Return whether the tree has later contents of an argument or state than the call may have seen."""
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

    def _charge(self, parts: Sequence[object]) -> None:
        """Charge what a call is given, which its node decoder may copy: shared parts wherever they are used.

        What a pickler writes has no more items, or bytes, than the pickle has bytes, and is not charged.
        """
        items, nbytes = self._measure(parts)
        self._items += items
        self._nbytes += nbytes
        self._calls += 1
        nodes = max(self._items - self.pickle.size, self._calls * _NODES_PER_CALL)
        limits = self.budget.limits
        if nodes > limits.pickle_nodes or self._nbytes - self.pickle.size > limits.blob_bytes:
            self.budget.spend("pickle_nodes", nodes)
            self.budget.spend("blob_bytes", self._nbytes - self.pickle.size)

    def _measure(self, parts: Sequence[object]) -> _Size:
        items, nbytes = len(parts), 0
        for part in parts:
            kind = type(part)
            if kind is int:
                nbytes += part.bit_length() >> 3  # type: ignore[attr-defined]
            elif kind in _CONTAINERS:
                more, longer = self._sizes.get(id(part), _SMALL)
                items += more
                nbytes += longer
            elif kind in _TEXTS:
                nbytes += len(part)  # type: ignore[arg-type]
        return items, nbytes
