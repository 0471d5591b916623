"""The inert tree: what a pickle says, with nothing imported, called or hashed (FORMAT.md 5.2).

None, bool, int, float, str, bytes, bytearray, tuple and list stand for themselves; bytes that are too many to hold
may stand as :class:`Unread`. Everything else is one of the small nodes below. A tree may share parts and may hold
itself: walk it with a visited set, never by recursion.
"""

from __future__ import annotations

from _weakref import ref  # the module weakref takes a millisecond to import
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.io.source import Source

How: TypeAlias = Literal["REDUCE", "NEWOBJ", "NEWOBJ_EX", "INST", "OBJ", "STACK_GLOBAL"]
UpdateHow: TypeAlias = Literal["BUILD", "APPENDS", "SETITEMS", "ADDITEMS"]


class Dict(list[tuple[object, object]]):
    """A dict as the pairs that were set, in order; repeated keys stay as they came."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<Dict of {len(self)} pairs>"


class Set(list[object]):
    """A set as the items that were added, in order."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<Set of {len(self)} items>"


class FrozenSet(tuple[object, ...]):
    """A frozenset as its items, in order."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<FrozenSet of {len(self)} items>"


class Node:
    """What only the real unpickler could turn into a value, with what was done to it afterwards."""

    __slots__ = ("__weakref__", "updates")

    updates: list[Update] | None
    """BUILD, APPENDS, SETITEMS and ADDITEMS on this node, in order; None when there were none."""

    def __init__(self) -> None:
        self.updates = None


class Update:
    """One change to a node: an opcode that would run a method of whatever the node stands for."""

    __slots__ = ("_target", "how", "value")

    def __init__(self, how: UpdateHow, target: Node, value: object) -> None:
        self.how = how
        self._target = ref(target)
        self.value = value
        """BUILD: the state. APPENDS, ADDITEMS: a list of items. SETITEMS: a list of pairs."""

    @property
    def target(self) -> Node:
        """The node that is changed, as long as its tree is in memory.

        A weak reference: the node refers to its updates, and a tree with cycles would wait for the garbage collector.
        """
        target = self._target()
        if target is None:
            message = "the tree of this update is gone"
            raise ReferenceError(message)
        return target

    def __repr__(self) -> str:
        return f"<{self.how} on {self.target!r}>"


class Global(Node):
    """A name that the unpickler would import; equal when module and name are."""

    __slots__ = ("pair",)

    def __init__(self, module: str, name: str) -> None:
        self.updates = None
        self.pair = (module, name)

    @property
    def module(self) -> str:
        """The module, with Python 2 names already renamed below protocol 3."""
        return self.pair[0]

    @property
    def name(self) -> str:
        """The name in it; dotted names (protocol 4) stay dotted."""
        return self.pair[1]

    def __eq__(self, other: object) -> bool:
        return self.pair == other.pair if isinstance(other, Global) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.pair)

    def __str__(self) -> str:
        return ".".join(self.pair)

    def __repr__(self) -> str:
        return f"Global{self.pair!r}"


class Call(Node):
    """A call that nobody makes.

    ``how`` is the opcode. For STACK_GLOBAL (a name that is itself computed) ``func`` is None and ``args``
    are module and name.
    """

    __slots__ = ("args", "func", "how", "kwargs")

    def __init__(self, how: How, func: object, args: object, kwargs: object = None) -> None:
        self.updates = None
        self.how = how
        self.func = func
        self.args = args
        """A tuple, or a node that would have to give one."""
        self.kwargs = kwargs
        """NEWOBJ_EX only: a :class:`Dict` or a node."""

    def __repr__(self) -> str:
        func = str(self.func) if isinstance(self.func, Global) else "computed"
        return f"<{self.how} {func}>"


class Persistent(Node):
    """A reference that the format resolves by itself: in a ``.pth``, a storage."""

    __slots__ = ("id",)

    def __init__(self, id: object) -> None:  # noqa: A002 -- the pickle protocol's own word
        self.updates = None
        self.id = id

    def __repr__(self) -> str:
        return "<Persistent>"


class Extension(Node):
    """A name by its number in the ``copyreg`` extension registry, which is never asked."""

    __slots__ = ("code",)

    def __init__(self, code: int) -> None:
        self.updates = None
        self.code = code

    def __repr__(self) -> str:
        return f"Extension({self.code})"


class Unread:
    """Bytes that stay where they are until somebody asks: a payload too large to hold with the tree.

    Equal to itself only: comparing what it stands for would read it.

    :param source: where they are
    :param offset: of the first
    :param size: how many
    :param is_bytearray: whether a bytearray stood in the pickle, not bytes
    """

    __slots__ = ("is_bytearray", "offset", "size", "source")

    def __init__(self, source: Source, offset: int, size: int, *, is_bytearray: bool = False) -> None:
        self.source = source
        self.offset = offset
        self.size = size
        self.is_bytearray = is_bytearray

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, run: slice) -> Unread:
        if not isinstance(run, slice) or run.step not in (None, 1):
            message = "of unread bytes there are only runs"
            raise TypeError(message)
        start, stop, _ = run.indices(self.size)
        return Unread(self.source, self.offset + start, max(stop - start, 0))

    def __bytes__(self) -> bytes:
        return self.read()

    def view(self) -> memoryview:
        """Return all of them, copied no more than the source has to.

        :raises ContainerError: when the file has changed since
        """
        return self.source.view(self.offset, self.size)

    def read(self) -> bytes:
        """Return all of them as bytes, copied no more than the source has to."""
        view = self.view()
        held = view.obj
        return held if type(held) is bytes and len(held) == len(view) else bytes(view)

    def chunks(self, size: int = 1 << 20) -> Iterator[memoryview]:
        """Yield them in pieces of ``size``, the last one shorter."""
        for start in range(0, self.size, size):
            yield self.source.view(self.offset + start, min(size, self.size - start))

    def frozen(self) -> Unread:
        """Return the same as bytes, whatever stood in the pickle."""
        return Unread(self.source, self.offset, self.size) if self.is_bytearray else self

    def __repr__(self) -> str:
        return f"<Unread {self.size} bytes at {self.offset}>"


def walk(root: object, seen: set[int] | None = None) -> Iterator[object]:
    """Yield every composite value and node of a tree once, parents before children.

    Iterative, with a visited set: shared parts and cycles cost nothing twice.

    :param seen: the ``id()`` of what to pass over; what is yielded joins it
    """
    seen = set() if seen is None else seen
    todo = [root]
    while todo:
        value = todo.pop()
        if id(value) in seen or not isinstance(value, (Node, list, tuple)):
            continue
        seen.add(id(value))
        yield value
        todo.extend(reversed(children(value)))


def children(value: object) -> list[object]:
    """Return the parts of a composite value or node, in the order in which they were saved."""
    if isinstance(value, Dict):
        return [part for pair in value for part in pair]
    if isinstance(value, (list, tuple)):
        return list(value)
    parts: list[object] = []
    if isinstance(value, Call):
        parts = [value.func, value.args, value.kwargs]
    elif isinstance(value, Persistent):
        parts = [value.id]
    for update in (value.updates if isinstance(value, Node) else None) or ():
        if update.how == "BUILD":
            parts.append(update.value)
        elif update.how == "SETITEMS":
            parts += [part for pair in update.value for part in pair]  # type: ignore[attr-defined]
        else:
            parts += update.value  # type: ignore[arg-type]
    return parts
