"""``StateDict``: a decoded ``.pth`` entry, whose arrays are created on access."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import MissingEntryError, SbformatError, UnsupportedError
from sbformat.immutable import Record
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pkl.tree import Dict
from sbformat.pth.values import Decoded, MetaTensor, QuantizedTensor, SparseTensor, Storage, TensorInfo, segment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np

    from sbformat.container.reader import Container
    from sbformat.pth.array_streams import ArrayStream
    from sbformat.pth.values import Chunk

_PATH_COST: Final = 256  # the number of characters of a path that count as one more value
_KEYED: Final = (dict, OrderedDict)
_INDEXED: Final = (list, tuple)
_CONTAINERS: Final = (*_KEYED, *_INDEXED, Dict)
_OWNERS: Final = (*_CONTAINERS, TensorInfo)
_CHECKED: Final = ("bool", "", "int32", "int64")
"""Dtypes of storages that can contain bools or indices of sparse tensors."""
_TENSORS: Final = (TensorInfo, SparseTensor, QuantizedTensor, MetaTensor)


def _storages_of(value: object) -> list[Storage]:
    """Return the storages of a leaf."""
    if isinstance(value, Storage):
        return [value]
    parts: tuple[Any, ...] = (value,)
    if isinstance(value, (SparseTensor, QuantizedTensor)):
        parts = (*value.indices, value.values) if isinstance(value, SparseTensor) else value
    return [part.storage for part in parts if isinstance(part, TensorInfo)]


def _unlisted(path: str, value: Any) -> list[tuple[str, Any]]:
    """Return what belongs to a value but has no path of its own: the metadata of a dict, the attributes of a tensor."""
    if type(value) is OrderedDict and hasattr(value, "_metadata"):
        return [(path, value._metadata)]  # noqa: SLF001 -- torch's own name
    if type(value) is TensorInfo and value.state:
        return [(path, dict(value.state))]
    return []


def _below(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Return an iterator over the parts of a container with their paths."""
    prefix = f"{path}/" if path else ""
    if type(value) in _KEYED or type(value) is Dict:
        pairs = value if type(value) is Dict else value.items()
        return ((prefix + segment(key), part) for key, part in pairs)
    return ((f"{prefix}[{index}]", part) for index, part in enumerate(value))


class Leaf(Record):
    """A value that is not a container, and its path."""

    path: str
    value: Any


class StateDict(Decoded, Mapping[Any, Any]):
    """The content of a ``.pth`` entry: a mapping, as torch would load it, with numpy arrays instead of tensors.

    >>> weights = sbformat.read("agent.zip").parameters["policy"]
    >>> weights["action_net.weight"].shape
    (6, 64)

    Arrays are created on access; parts that share memory in the file share it here. ``tree`` is the same without
    numpy, with :class:`~sbformat.pth.values.TensorInfo` instead of arrays.

    :param copy: return copies of arrays instead of views
    :param entry: the archive's entry, for messages
    """

    __slots__ = ("_budget", "_copy", "_leaves", "classes", "entry", "records", "tree")

    tree: Any
    entry: str | None
    records: Container | None
    """The torch zip that it was read from."""
    classes: Mapping[str, str]
    """Of a file that is a whole module: the class of each module by its path; empty for others."""

    def __init__(self, tree: object, budget: Budget, *, copy: bool = False, entry: str | None = None) -> None:
        self.entry = entry
        self.records = None
        self.classes = {}
        self.tree = tree
        self._budget = budget
        self._copy = copy
        self._leaves: dict[str, Any] | None = None

    @classmethod
    def from_arrays(cls, value: object, *, like: StateDict | None = None, limits: Limits = DEFAULT_LIMITS) -> StateDict:
        """Create a state dict from numpy arrays, the mirror of :meth:`to_numpy`.

        Arrays are not copied, and are read when they are written. Arrays that overlap in memory share it in the file,
        unless it contains bytes of neither. Objects with ``__array__`` count as arrays, numpy scalars as numbers.

        :param value: a mapping, or another value to save, of arrays, numbers, text, lists, tuples and mappings
        :param like: a state dict; where it has a tensor, a numpy scalar becomes a tensor without dimensions
        :param limits: the limits for later operations on it
        :raises UnsupportedError: for a value or dtype that a ``.pth`` cannot contain, by its path
        """
        from sbformat.pth.from_arrays import state_dict_of

        return cls(state_dict_of(value, like.tensors() if like else ()), Budget(limits))

    def with_arrays(self, arrays: Mapping[str, Any]) -> StateDict:
        """Return a copy with other tensors, each of the same shape; everything else is unchanged.

        :param arrays: by path, as in :meth:`tensors`. float64 becomes float32 if that is the dtype here; float never
            becomes int. A name may be omitted if another one has the same tensor here.
        :raises ValidationError: when names, shapes or dtypes do not fit; ``problems`` lists all of them
        """
        from sbformat.pth.from_arrays import with_arrays

        return self.with_tree(with_arrays(self.tree, self.tensors(), arrays, self.entry))

    def with_values_of(self, given: StateDict) -> StateDict:
        """Return a copy with the tensors of another state dict, like those of :meth:`with_arrays`.

        Its other values must be equal.

        :raises ValidationError: when names, shapes, dtypes or other values do not fit: all that do not are in
            ``problems``
        """
        from sbformat.pth.compare import equal, leaf_misfits
        from sbformat.pth.from_arrays import with_arrays

        tensors = given.tensors()
        others = {path: value for path, value in given.leaves() if path not in tensors and (path or value)}

        def is_equal(one: object, other: object) -> bool:
            one = self._make(one).item() if isinstance(one, ArrayInfo) and one.shape == () else one
            return equal(one, other, self._budget, given._budget)

        found = leaf_misfits(dict(self.leaves()), others, is_equal)
        arrays = {path: given.array(path) for path in tensors}
        return self.with_tree(with_arrays(self.tree, self.tensors(), arrays, self.entry, found))

    def like_optimizer(self, given: StateDict) -> StateDict:
        """Return another state of the same optimizer, in this one's dtypes.

        :raises ValidationError: when it is for other parameters: all that does not fit is in ``problems``
        """
        from sbformat.pth.from_arrays import like_optimizer

        casts = like_optimizer(self.tree, self.tensors(), given.tree, given.tensors(), given.array_of)
        return given.with_tree(casts) if casts is not given.tree else given

    def with_tree(self, tree: object) -> StateDict:
        """Return a state dict of the same entry with another tree."""
        return StateDict(tree, self._budget, copy=self._copy, entry=self.entry)

    def new_budget(self) -> Budget:
        """Return a fresh budget for one operation on it."""
        return Budget(self._budget.limits)

    def named(self, entry: str) -> StateDict:
        """Return the state dict with the name of its entry, for messages."""
        return self if self.entry == entry else StateDict(self.tree, self._budget, copy=self._copy, entry=entry)

    # -- as a mapping ---------------------------------------------------------------------------------

    def _keyed(self) -> dict[Any, Any]:
        return self.tree if type(self.tree) in _KEYED else {}

    def __getitem__(self, key: object) -> Any:
        try:
            value = self._keyed()[key]
        except KeyError:
            raise MissingEntryError(segment(key), present=map(segment, self._keyed()), what="key") from None
        return self._make(value)

    def __contains__(self, key: object) -> bool:
        return key in self._keyed()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._keyed())

    def __len__(self) -> int:
        return len(self._keyed())

    def __repr__(self) -> str:
        from sbformat.pth.show_state_dict import describe

        return describe(self)

    def _repr_html_(self) -> str:
        """Return a table of its tensors for notebooks."""
        from sbformat.pth.show_state_dict import render

        return render(self)

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        """Equal by value: containers and their order, tensors bit for bit, NaN equal to NaN."""
        if not isinstance(other, StateDict):
            return NotImplemented
        from sbformat.pth.compare import equal

        return equal(self.tree, other.tree, self._budget, other._budget)

    # -- beyond a mapping -----------------------------------------------------------------------------

    @property
    def metadata(self) -> Any:
        """The ``_metadata`` of ``Module.state_dict``: module path to ``{"version": n}``; None without."""
        return getattr(self.tree, "_metadata", None)

    def to_numpy(self) -> Any:
        """Return all values: a dict, or the value that was saved, with arrays instead of tensors.

        :raises ContainerError: when the CRC of a record is wrong
        :raises UnsupportedError: for a dtype that needs an extra
        """
        return self._make(self.tree)

    def _make(self, value: object) -> Any:
        from sbformat.pth.arrays import materialize

        try:
            return materialize(value, self.new_budget(), copy=self._copy)
        except SbformatError as error:
            self._place(error)
            raise

    def _place(self, error: SbformatError) -> None:
        if self.entry is not None:
            error.within(self.entry)

    def leaves(self) -> Iterator[Leaf]:
        """Yield every value that is not a container, with its path, in the order of the file.

        Empty containers count as values. Shared parts are yielded once for each path.
        """
        allowed = self._budget.limits.leaves
        count = 0
        todo = [iter([("", self.tree)])]
        while todo:
            for path, value in todo[-1]:
                # A small file can share parts so that its paths are any number, and as long as names and depth allow.
                count += 1 + len(path) // _PATH_COST
                kind = type(value)
                if (kind is TensorInfo and value.state) or kind is OrderedDict:
                    count = self._count(_unlisted(path, value), count)
                if count > allowed:
                    self._budget.spend("leaves", count)
                if value and (kind in _KEYED or kind in _INDEXED):
                    todo.append(_below(path, value))
                    break
                yield Leaf(path, value)
            else:
                todo.pop()

    def _count(self, values: list[tuple[str, Any]], count: int) -> int:
        """Add the values of metadata or attributes to the number of leaves, with the path of their owner."""
        allowed = self._budget.limits.leaves
        todo = [iter(values)]
        while todo:
            for path, value in todo[-1]:
                count += 1 + len(path) // _PATH_COST
                if count > allowed:
                    self._budget.spend("leaves", count)
                if type(value) in _OWNERS:
                    parts = _below(path, value) if type(value) in _CONTAINERS else iter(())
                    todo.append(chain(_unlisted(path, value), parts))
                    break
            else:
                todo.pop()
        return count

    def tensors(self) -> dict[str, Any]:
        """Return every tensor by path, without numpy: ``TensorInfo``, or one of torch's other kinds."""
        if self._leaves is None:
            self._leaves = {leaf.path: leaf.value for leaf in self.leaves() if type(leaf.value) in _TENSORS}
        return self._leaves

    def storages(self) -> list[Storage]:
        """Return the storages of its tensors, each once, in the order of the file."""
        found: dict[int, Storage] = {}
        seen: set[int] = set()
        todo: list[Any] = [self.tree]
        while todo:
            value = todo.pop()
            if type(value) not in _KEYED and type(value) not in _INDEXED:
                found.update((id(storage), storage) for storage in _storages_of(value))
            elif id(value) not in seen:
                seen.add(id(value))
                todo.extend(reversed(value.values() if type(value) in _KEYED else value))
        return list(found.values())

    def check(self) -> None:
        """Check the CRC of every storage, that bools are 0 or 1, and the indices of sparse tensors.

        :raises ContainerError: when a CRC is wrong
        :raises TensorError: when a bool is another number, or an index is outside its tensor
        """
        storages = self.storages()
        try:
            for storage in storages:
                storage.check()
            if any(storage.dtype in _CHECKED for storage in storages):
                from sbformat.pth.array_streams import check_items

                for leaf in self.leaves():
                    check_items(leaf.value, self.array_of)
        except SbformatError as error:
            self._place(error)
            raise

    def info(self, path: str) -> Any:
        """Return the description of the tensor at a path, without numpy.

        :param path: as in ``tensors()``: ``mlp_extractor.policy_net.0.weight``, ``state/[0]/exp_avg``
        :raises MissingEntryError: when there is no tensor at that path
        """
        tensors = self.tensors()
        try:
            return tensors[path]
        except KeyError:
            raise MissingEntryError(path, present=tensors, what="tensor") from None

    def array(self, path: str) -> np.ndarray:
        """Return the tensor at a path as an array, or as a value type where numpy has no such array."""
        return self.array_of(self.info(path))

    def stream(self, path: str) -> ArrayStream | Any:
        """Return the tensor at a path as a stream, which is written in chunks without keeping it in memory.

        :return: a stream; where numpy has no array, what :meth:`array` returns
        :raises MissingEntryError: when there is no tensor at that path
        """
        return self.stream_of(self.info(path))

    def stream_of(self, info: TensorInfo | Any) -> ArrayStream | Any:
        """Return a tensor of :meth:`tensors` as :meth:`stream` does."""
        from sbformat.pth.array_streams import stream_of

        if type(info) is not TensorInfo:
            return self.array_of(info)
        try:
            stream = stream_of(info, partial(self.array_of, info))
        except SbformatError as error:
            self._place(error)
            raise
        return stream._replace(pieces=partial(self._placed, stream.pieces))

    def _placed(self, pieces: Callable[[], Iterator[Chunk]]) -> Iterator[Chunk]:
        try:
            yield from pieces()
        except SbformatError as error:
            if not f"{error.entry}/".startswith(f"{self.entry}/"):  # the entry was added when an array was created
                self._place(error)
            raise

    def array_of(self, info: TensorInfo) -> np.ndarray:
        """Return the array of a tensor of :meth:`tensors`."""
        return self._make(info)  # type: ignore[no-any-return]


def clear_optimizer(state_dict: StateDict) -> StateDict:
    """Return an optimizer's state dict without its optimizer state, which takes two thirds of an archive.

    The parameter groups stay, so that ``load_state_dict``, and with it SB3's ``load``, accepts the result; training
    continues with a new optimizer state.
    """
    tree: Any = state_dict.tree
    groups = tree.get("param_groups") if isinstance(tree, dict) and isinstance(tree.get("state"), dict) else None
    if not isinstance(groups, list) or not all(isinstance(group, dict) and "params" in group for group in groups):
        message = "expected the state dict of an optimizer, got one without 'state' and 'param_groups'"
        raise UnsupportedError(message, entry=state_dict.entry)
    return state_dict.with_tree(type(tree)((key, {} if key == "state" else part) for key, part in tree.items()))
