"""Checks that the constructors share (FORMAT.md 6.3, 6.5).

They are about the context of one ``.pth`` (its storages by key, and counts), arguments, attributes of tensors, and the
parts of sparse tensors, whose indices torch follows without a check.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NoReturn

from sbformat.errors import quote
from sbformat.pkl.tree import CALLS, NUMPY_DTYPE, PACKED_STORAGES, STORAGES, Call, Dict, Global, Persistent, walk
from sbformat.pth.values import StorageId, check_keys, refuse, refuse_unsupported

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from sbformat.limits import Budget
    from sbformat.pth.values import SparseTensor, Storage


INT64: Final = 2**63
_ALL_TIMES_STORAGES: Final = 8


def _is_view(view: object) -> bool:
    if type(view) is not tuple or len(view) != 3 or type(view[0]) is not str:
        return False
    return all(type(part) is int and 0 <= part < INT64 for part in view[1:])


def _whole(storage: Storage) -> Storage:
    """Return a storage, or the one that it is a view of."""
    return storage.part_of[0] if storage.part_of else storage


def _dtype_of(cls: object) -> str:
    """Return the dtype of the elements of a storage class."""
    dtype = STORAGES.get(cls.pair) if type(cls) is Global and not cls.updates else None
    if dtype is None:
        if type(cls) is Global and cls.pair in PACKED_STORAGES and not cls.updates:
            refuse_unsupported(f"{quote(cls)} has several items in a byte, which numpy cannot represent")
        refuse(f"{quote(cls)} is not a known storage class")
    return dtype


def is_class_id(reference: Persistent) -> bool:
    """Return whether a persistent id is a class of modules: ``("module", class, file, source)``, in a legacy stream."""
    parts = reference.id
    return type(parts) is tuple and len(parts) == 4 and parts[0] == "module" and type(parts[1]) is Global


class DecodeContext:
    """The storages of one ``.pth`` by key, and counts over all of its tensors.

    :param open_storage: returns the storage for key, dtype, numel, location and view metadata of a persistent id
    :param id_items: the number of items of a persistent id: 5 in a torch zip, 6 in a legacy stream
    """

    __slots__ = (
        "_class", "_dtype", "_kept", "_open_storage", "_storages", "_takes_modules", "budget", "copied", "expanded",
        "height", "heights", "id_items", "items", "limits", "ordered_dict", "states", "tensors",
    )  # fmt: skip

    def __init__(
        self, budget: Budget, open_storage: Callable[..., Storage], id_items: int, *, takes_modules: bool = False
    ) -> None:
        self.budget = budget
        self.limits = budget.limits
        self.id_items = id_items
        self.tensors = 0
        self.copied = 0
        """The bytes that constructors copied from their arguments, minus the bytes of the pickle."""
        self.items = 0
        self.expanded = 0
        """The number of items of tensors that have more than four times those of their storage."""
        self.height = 0
        """The levels of containers in the last value that was built without a frame: attributes, or a set."""
        self.heights: dict[int, int] = {}
        """The levels of each container in attributes by its ``id()``: containers may be shared by all tensors."""
        self.states: dict[int, dict[str, object]] = {}
        """The attributes that were checked, by the ``id()`` of their dict in the pickle, which keeps it alive."""
        self._kept: set[int] = set()
        self.ordered_dict: Global | None = None
        """The name ``collections.OrderedDict`` in the last tensor's hooks: as a rule, all tensors share this node."""
        self._class: object = self  # of the last storage: as a rule, all storages share this node
        self._dtype = ""  # of that class
        self._open_storage = open_storage
        self._storages: dict[str | tuple[str, object], Storage] = {}
        self._takes_modules = takes_modules

    def copy(self, nbytes: int) -> None:
        """Charge bytes that a constructor copies, once all copies together are larger than the pickle."""
        before = max(self.copied, 0)
        self.copied += nbytes
        if self.copied > before:
            self.budget.spend("expanded_items", self.copied - before)

    @property
    def keys(self) -> set[str]:
        """The keys of the storages so far."""
        return {storage.key for storage in self._storages.values()}

    def check_all(self, value: object) -> None:
        """Check the persistent ids in a value, and open their storages."""
        for node in walk(value):
            if type(node) is Persistent and not (self._takes_modules and is_class_id(node)):
                self.storage(node)

    def keep(self, state: Dict) -> None:
        """Check the persistent ids in attributes and replace them; what attributes share is visited once."""
        for node in walk(state, self._kept):
            if type(node) is Persistent:
                node.id = StorageId(self.storage(node))

    def resolve(self, kept: object) -> None:
        """Replace the persistent ids in inert nodes by their storages, as an encoder numbers the keys anew."""
        from sbformat.pkl.numpy import reaches_memory

        for node in walk(kept):
            if type(node) is Call and reaches_memory(node):
                refuse("a numpy dtype or array has a state that numpy never writes, and does not check")
            if type(node) is Persistent and type(node.id) is tuple and node.id[:1] == ("storage",):
                node.id = StorageId(self.storage(node))

    def storage(self, reference: object) -> Storage:
        """Return the storage of a persistent id. Each key has one dtype and size (FORMAT.md 6.3)."""
        if type(reference) is not Persistent or reference.updates:
            refuse("expected a storage for a tensor, got another value")
        parts = reference.id
        if type(parts) is not tuple or len(parts) != self.id_items or parts[0] != "storage":
            return self._other_id(parts)
        view = None
        if self.id_items == 5:
            _, cls, key, location, numel = parts
        else:
            _, cls, key, location, numel, view = parts
        if cls is not self._class:
            self._dtype = _dtype_of(cls)
            self._class = cls
        dtype = self._dtype
        if type(key) is not str or type(location) is not str or type(numel) is not int or not 0 <= numel < INT64:
            message = "expected two texts and an integer >= 0 as key, location and size of a persistent id"
            refuse(f"{message}, got other values")
        if view is not None and not _is_view(view):
            refuse("a persistent id has unknown view metadata")
        name = key if view is None else (key, view)
        storage = self._storages.get(name)
        if storage is None:
            storage = self._storages[name] = self._open_storage(key, dtype, numel, location, view)
        elif storage.dtype != dtype or storage.location != location:
            refuse(f"the storage {quote(key)} is referred to with two classes or locations")
        elif _whole(storage).numel != numel:
            refuse(f"the storage {quote(key)} is referred to with two sizes")
        return storage

    def _other_id(self, parts: object) -> Storage:
        """Return the storage of an id that :meth:`resolve` replaced; refuse every other."""
        if type(parts) is StorageId:
            return parts.storage
        if type(parts) is tuple and parts[:1] == ("module",):
            refuse_unsupported("a whole nn.Module was pickled, which only the code of its class can read")
        return refuse(
            f"expected {self.id_items} items ('storage', class, key, location, numel) as a persistent id, got others"
        )

    def check_totals(self) -> None:
        """Charge the tensors after the last one; until then the limits of the pickle bound them.

        Tensors may share storages, but copies of all tensors must not be much larger than the file.
        """
        self.budget.spend("tensors", self.tensors)
        stored = sum({storage.key: storage.nbytes for storage in map(_whole, self._storages.values())}.values())
        excess = max(self.expanded, self.items - _ALL_TIMES_STORAGES * stored)
        if excess > 0:
            self.budget.spend("expanded_items", excess)


def arguments(args: tuple[object, ...], what: str, lengths: tuple[int, ...]) -> tuple[Any, ...]:
    """Return arguments of one of these numbers."""
    if len(args) not in lengths:
        refuse(f"expected {' or '.join(map(str, lengths))} arguments of {what}, got {len(args)}")
    return args


def pair_of(value: object) -> tuple[str, str] | None:
    """Return module and name of a plain name."""
    return value.pair if type(value) is Global and not value.updates else None


def role_of(func: object) -> str:
    """Return the role of a plain name that may be called, or an empty text."""
    return CALLS.get(func.pair, "") if type(func) is Global and not func.updates else ""


def flag(value: object, what: str) -> bool:
    """Return a bool that is one."""
    if type(value) is not bool:
        refuse(f"expected a bool for {what}, got a {type(value).__name__.lower()}")
    return value


def whole_numbers(value: object, what: str) -> tuple[int, ...]:
    """Return a shape or strides that are whole numbers."""
    if type(value) is not tuple or any(type(item) is not int or not 0 <= item < INT64 for item in value):
        refuse(f"expected a tuple of integers >= 0 as a {what}, got another value")
    return value


def is_unknown_call(value: object) -> bool:
    """Return whether a value is a call that is not in the tables: another name, a computed one, or another opcode."""
    if type(value) is not Call:
        return False
    pair = pair_of(value.func)
    return value.how != "REDUCE" or (pair not in CALLS and pair != NUMPY_DTYPE)


def reduced(value: object) -> tuple[str, tuple[object, ...]]:
    """Return the role and the arguments of a plain call of a known name; an empty role for any other value."""
    if type(value) is not Call or value.how != "REDUCE" or value.updates or type(value.args) is not tuple:
        return "", ()
    return role_of(value.func), value.args


_CONTAINERS: Final = frozenset({Dict, list, tuple})
"""Types that are containers in attributes too. Everything else is a value without parts there."""


def check_attributes(state: Dict, context: DecodeContext) -> None:
    """Check the dicts in the attributes of a tensor, without recursion; ``context.heights`` gets their levels."""
    heights = context.heights
    opened: set[int] = set()
    todo: list[Any] = [state]
    while todo:
        value = todo[-1]
        if id(value) in heights:
            todo.pop()
            continue
        items = [part for _, part in value] if type(value) is Dict else value
        parts = [part for part in items if type(part) in _CONTAINERS]
        if id(value) in opened:
            opened.discard(id(value))
            heights[id(value)] = 1 + max((heights[id(part)] for part in parts), default=0)
            continue
        if type(value) is Dict:
            value[:] = zip(check_keys(value, context), items)  # bytes instead of their calls
        opened.add(id(value))
        for part in reversed(parts):
            if id(part) in opened:
                refuse("an attribute of a tensor contains itself")
            if id(part) not in heights:
                todo.append(part)


_COO: Final = "sparse_coo"
_IN_BLOCKS: Final = ("sparse_bsr", "sparse_bsc")


def _refuse_sparse(message: str) -> NoReturn:
    refuse(f"{message}: torch would access memory outside the tensor")


def check_shapes(sparse: SparseTensor) -> None:
    """Check that shapes and dtypes of the parts fit the size; the indices themselves are not read.

    :param sparse: whose parts are :class:`~sbformat.pth.values.TensorInfo`
    """
    if math.prod(sparse.shape) >= INT64:
        _refuse_sparse("a sparse tensor is too large for any memory")
    dtypes = {part.dtype for part in sparse.indices}
    if dtypes != {"int64"} and (sparse.layout == _COO or dtypes != {"int32"}):
        _refuse_sparse("the indices of a sparse tensor have another dtype than torch writes")
    if any(part.nbytes > part.storage.nbytes for part in sparse.indices):
        _refuse_sparse("indices of a sparse tensor share their memory")
    if not _fits(sparse):
        _refuse_sparse("the parts of a sparse tensor do not fit its size")


def _fits(sparse: SparseTensor) -> bool:
    if sparse.layout == _COO:
        shape, size = sparse.indices[0].shape, sparse.shape
        return len(shape) == 2 and shape[0] <= len(size) and sparse.values.shape == (shape[1], *size[shape[0] :])
    compressed, plain = (part.shape for part in sparse.indices)
    if len(compressed) == len(plain) > 1:
        refuse_unsupported("batches of sparse tensors are not supported")
    values, size = sparse.values.shape, sparse.shape
    blocks = _block_shape(sparse)
    if len(size) < 2 or len(blocks) != 2 or any(not block or count % block for count, block in zip(size, blocks)):
        return False
    inner = blocks if sparse.layout in _IN_BLOCKS else ()
    return (compressed, plain) == ((_counts(sparse)[0] + 1,), values[:1]) and values[1:] == (*inner, *size[2:])


def _block_shape(sparse: SparseTensor) -> tuple[int, ...]:
    return tuple(sparse.values.shape[1:3]) if sparse.layout in _IN_BLOCKS else (1, 1)


def _counts(sparse: SparseTensor) -> tuple[int, int]:
    """Return the number of rows and columns, or blocks of them; the compressed dimension first."""
    rows, columns = (count // block for count, block in zip(sparse.shape, _block_shape(sparse)))
    return (columns, rows) if sparse.layout in ("sparse_csc", "sparse_bsc") else (rows, columns)


def check_indices(sparse: SparseTensor, *indices: np.ndarray) -> None:
    """Check the indices of a sparse tensor whose shapes fit."""
    if sparse.layout == _COO:
        bounds = list(zip(indices[0], sparse.shape))
    else:
        compressed, plain = indices
        bounds = [(plain, _counts(sparse)[1])]
        if (compressed[0], compressed[-1]) != (0, len(plain)) or (compressed[1:] < compressed[:-1]).any():
            _refuse_sparse("the compressed indices of a sparse tensor do not ascend from 0 to the number of its values")
    if any(row.size and not 0 <= row.min() <= row.max() < count for row, count in bounds):
        _refuse_sparse("an index of a sparse tensor is outside its size")
