"""The walk from an inert tree to values: children first, each node once (VALUES.md 13.1).

:mod:`sbformat.values.context` has the theory of operation. The walk has a stack of its own, because a file chooses how
deep its tree is, and charges what it copies, because a tree that shares parts can stand for one exponentially larger.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sbformat.errors import TensorError, UnsupportedError
from sbformat.globals.jax import OBJECTS as JAX_OBJECTS
from sbformat.pkl.tree import LEAVES, Call, Dict, FrozenSet, Global, Node, Persistent, Set
from sbformat.values.context import Context, UnrecognizedError, find_role, has_parts
from sbformat.values.registry import find_node_decoder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.limits import Budget
    from sbformat.pkl.decode import Pickle
    from sbformat.pth.context import DecodeContext

_STORING_ROLES: Final = frozenset({"cell", "function", "function_state", "record"})
_NODES_PER_CALL: Final = 5
"""Cost of decoding a call, in nodes of a pickle."""


class Size(NamedTuple):
    """Size of a container with all nodes in it; a shared node counts wherever it is used."""

    items: int
    nbytes: int
    """Bytes of text, bytes and numbers."""


_SMALL: Final = Size(8, 64)
"""Every container up to this size is charged as this size."""


class Decoder(Context):
    """A context that walks the tree; parameters as :class:`~sbformat.values.context.Context`."""

    __slots__ = ("_calls", "_given", "_heights", "_open", "_sizes")

    def __init__(
        self, pickle: Pickle, budget: Budget, tensors: DecodeContext | None = None, *, checks_unread: bool = False
    ) -> None:
        super().__init__(pickle, budget, tensors, checks_unread=checks_unread)
        self._sizes: dict[int, Size] = {}
        self._given = Size(0, 0)
        self._calls = 0
        self._heights: dict[int, int] = {}
        self._open: set[int] = set()

    def decode(self, root: object) -> object:
        """Return the value of a tree, or of a part of it that nothing else refers to.

        :raises LimitError: when the value is deeper or larger than allowed
        """
        if not has_parts(root) or id(root) in self._values:
            return self.value(root)
        frames: list[tuple[Any, Iterator[object]]] = [(root, self._parts(root))]
        heights = [1]
        deepest = 1
        self._open.add(id(root))
        while frames:
            node, parts = frames[-1]
            for part in parts:
                if type(part) in LEAVES or not has_parts(part) or id(part) in self._open:
                    continue
                if id(part) in self._values:
                    heights[-1] = max(heights[-1], self._heights.get(id(part), 1) + 1)
                    continue
                self._open.add(id(part))
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
                self._open.discard(id(node))
                self._values[id(node)] = self._decode_node(node)
                if height > 1:
                    self._heights[id(node)] = height
                if heights:
                    heights[-1] = max(heights[-1], height + 1)
        return self._values[id(root)]

    def is_pending(self, node: Call) -> bool:
        """Return whether a call has a node decoder, and the walk has not reached it."""
        is_reached = id(node) in self._values or id(node) in self.understood
        return not is_reached and find_node_decoder(node) is not None

    def _parts(self, node: Any) -> Iterator[object]:
        """Yield what has to be decoded before a node: the arguments of a call one by one, and what changes it."""
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
            for setter in self.state_setters(node):
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

    def _decode_node(self, node: object) -> object:
        kind = type(node)
        if isinstance(node, (list, tuple)):
            size = self._measure(self._parts(node))
            if size.items > _SMALL.items or size.nbytes > _SMALL.nbytes or (kind is Dict and not node):
                self._sizes[id(node)] = size
        if kind is Dict:
            return self.make_dict(node)  # type: ignore[arg-type]
        if kind is list:
            return [self.value(part) for part in node]  # type: ignore[attr-defined]
        if kind is tuple:
            return tuple([self.value(part) for part in node])  # type: ignore[attr-defined]
        if kind is Set or kind is FrozenSet:
            return self.make_set([self.value(part) for part in node], is_frozen=kind is FrozenSet)  # type: ignore[attr-defined]
        if kind is Persistent:
            return self._decode_persistent(node)  # type: ignore[arg-type]
        if isinstance(node, Call):
            return self._decode_call(node)
        self.add_issue(node, "unknown", "a copyreg extension code, which only its author can resolve")  # type: ignore[arg-type]
        return node

    def _decode_persistent(self, node: Persistent) -> object:
        try:
            return self.tensors.storage(node)
        except (TensorError, UnsupportedError) as error:
            self.add_issue(node, "arguments", f"a persistent reference: {error.message}")
            return node

    def _decode_call(self, node: Call) -> object:
        decode = find_node_decoder(node)
        if decode is None:
            return node
        self._charge(node)
        if self.pickle.changed and not self._only_stores(node) and self._uses_changed_value(node):
            self.add_issue(node, "arguments", "it is given a value that is changed afterwards")
            return node
        try:
            value = decode(self, node)
        except (UnrecognizedError, TensorError, UnsupportedError) as error:
            self.add_issue(node, "arguments", str(error) if isinstance(error, UnrecognizedError) else error.message)
            return node
        except (IndexError, KeyError, TypeError, ValueError):  # a shape that its node decoder did not think of
            self.add_issue(node, "arguments", "its arguments are not of any known kind")
            return node
        return value

    def _only_stores(self, node: Call) -> bool:
        """Return whether a call only stores its arguments, so that it does not matter when they are changed."""
        if isinstance(node.func, Call) and find_role(node.func) == "builtin_type":
            return node.func.args == ("MethodType",)
        if isinstance(node.func, Global) and node.func.pair in JAX_OBJECTS:
            return not node.func.updates
        return find_role(node) in _STORING_ROLES

    def _uses_changed_value(self, node: Call) -> bool:
        """Return whether an argument or state was changed after it was referred to again, perhaps after this call.

        The tree holds the final contents, and the call may have seen earlier ones.
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

    def _charge(self, node: Call) -> None:
        """Charge a call's arguments, which its node decoder may copy: shared parts wherever they are used.

        What a pickler writes has no more items, or bytes, than the pickle has bytes, and is not charged.
        """
        items, nbytes = self._measure(self._parts(node))
        self._given = Size(self._given.items + items, self._given.nbytes + nbytes)
        self._calls += 1
        excess = self._given.items - self.pickle.size
        self.budget.spend("pickle_nodes", max(excess, self._calls * _NODES_PER_CALL))
        self.budget.spend("blob_bytes", self._given.nbytes - self.pickle.size)

    def _measure(self, parts: Iterator[object]) -> Size:
        items = nbytes = 0
        for part in parts:
            items += 1
            kind = type(part)
            if kind is str or kind is bytes or kind is bytearray:
                nbytes += len(part)  # type: ignore[arg-type]
            elif kind is int:
                nbytes += part.bit_length() >> 3  # type: ignore[attr-defined]
            elif kind is tuple or kind is list or kind is Dict or kind is Set or kind is FrozenSet:
                inner = self._sizes.get(id(part), _SMALL)
                items += inner.items
                nbytes += inner.nbytes
        return Size(items, nbytes)
