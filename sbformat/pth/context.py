"""What the builder shares between the tensors of one ``.pth``: its storages by key, and counts (FORMAT.md 6.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

from sbformat.errors import TensorError, UnsupportedError, quote
from sbformat.pkl.names import PACKED_STORAGES, STORAGES
from sbformat.pkl.tree import Call, Global, Persistent, walk
from sbformat.pth.values import StorageId

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbformat.limits import Budget
    from sbformat.pkl.decode import Pickle
    from sbformat.pkl.tree import Dict
    from sbformat.pth.values import Storage

INT64: Final = 2**63
_ALL_TIMES_STORAGES: Final = 8


def _refuse(message: str) -> NoReturn:
    raise TensorError(message)


def _check_view(view: object) -> None:
    if type(view) is not tuple or len(view) != 3 or type(view[0]) is not str:
        _refuse("a persistent id has unknown view metadata")
    if any(type(part) is not int or not 0 <= part < INT64 for part in view[1:]):
        _refuse("a persistent id has unknown view metadata")


def _whole(storage: Storage) -> Storage:
    """Return a storage, or the one that it is a view of."""
    return storage.part_of[0] if storage.part_of else storage


class DecodeContext:
    """The storages of one ``.pth`` by key, and counts over all of its tensors.

    :param budget: the budget of the operation
    :param open_storage: returns the storage for key, dtype, numel, location and view metadata of a persistent id, or
        raises TensorError
    :param id_items: the number of items of a persistent id: 5 in a torch zip, 6 in a legacy stream
    """

    __slots__ = (
        "_kept", "_open_storage", "_storages", "budget", "copied", "expanded", "height", "heights", "id_items", "items",
        "limits", "ordered_dict", "states", "tensors",
    )  # fmt: skip

    def __init__(self, budget: Budget, open_storage: Callable[..., Storage], id_items: int) -> None:
        self.budget = budget
        self.limits = budget.limits
        self.id_items = id_items
        self.tensors = 0
        self.copied = 0
        """The bytes that constructors copied from their arguments, minus the bytes of the pickle."""
        self.items = 0
        """The number of items of all tensors."""
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
        self._open_storage = open_storage
        self._storages: dict[str | tuple[str, object], Storage] = {}

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

    def check_popped(self, pickle: Pickle) -> None:
        """Check the persistent ids of values that the pickle popped: ``torch.load`` opens their storages as well."""
        self.check_all(pickle.discarded)

    def check_all(self, kept: object) -> None:
        """Check the persistent ids in a value, and open their storages."""
        for node in walk(kept):
            if type(node) is Persistent:
                self.storage(node)

    def keep(self, state: Dict) -> None:
        """Check the persistent ids in attributes and replace them; what attributes share is visited once."""
        for node in walk(state, self._kept):
            if type(node) is Persistent:
                node.id = StorageId(self.storage(node))

    def resolve(self, kept: object) -> None:
        """Replace the persistent ids in inert nodes by their storages, as an encoder numbers the keys anew.

        :raises TensorError: for a numpy value with which numpy may access memory outside it
        """
        from sbformat.pkl.numpy import reaches_memory

        for node in walk(kept):
            if type(node) is Call and reaches_memory(node):
                _refuse("a numpy dtype or array has a state that numpy never writes, and does not check")
            if type(node) is Persistent and type(node.id) is tuple and node.id[:1] == ("storage",):
                node.id = StorageId(self.storage(node))

    def storage(self, reference: object) -> Storage:
        """Return the storage of a persistent id. Each key has one dtype and size (FORMAT.md 6.3)."""
        if type(reference) is not Persistent or reference.updates:
            _refuse("expected a storage for a tensor, got another value")
        parts = reference.id
        if type(parts) is not tuple or len(parts) != self.id_items or parts[0] != "storage":
            return self._other_id(parts)
        _, cls, key, location, numel = parts if self.id_items == 5 else parts[:5]
        view = parts[5] if self.id_items == 6 else None
        dtype = STORAGES.get(cls.pair) if type(cls) is Global and not cls.updates else None
        if dtype is None:
            if type(cls) is Global and cls.pair in PACKED_STORAGES and not cls.updates:
                message = f"{quote(cls)} has several items in a byte, which numpy cannot represent"
                raise UnsupportedError(message)
            _refuse(f"{quote(cls)} is not a known storage class")
        if type(key) is not str or type(location) is not str or type(numel) is not int or not 0 <= numel < INT64:
            _refuse(
                "expected two texts and an integer >= 0 as key, location and size of a persistent id, got other values"
            )
        if view is not None:
            _check_view(view)
        name = key if view is None else (key, view)
        storage = self._storages.get(name)
        if storage is None:
            storage = self._storages[name] = self._open_storage(key, dtype, numel, location, view)
        elif storage.dtype != dtype or storage.location != location:
            _refuse(f"the storage {quote(key)} is referred to with two classes or locations")
        elif _whole(storage).numel != numel:
            _refuse(f"the storage {quote(key)} is referred to with two sizes")
        return storage

    def _other_id(self, parts: object) -> Storage:
        """Return the storage of an id that :meth:`resolve` replaced; refuse every other."""
        if type(parts) is StorageId:
            return parts.storage
        if type(parts) is tuple and parts[:1] == ("module",):
            message = "a whole nn.Module was pickled, which only the code of its class can read"
            raise UnsupportedError(message)
        _refuse(
            f"expected {self.id_items} items ('storage', class, key, location, numel) as a persistent id, got others"
        )

    def check_totals(self) -> None:
        """Charge the tensors after the last one; until then the limits of the pickle bound them.

        Tensors may share storages, but copies of all tensors must not be much larger than the file.
        """
        self.budget.spend("tensors", self.tensors)
        roots = {storage.key: storage for storage in map(_whole, self._storages.values())}
        stored = sum(storage.nbytes for storage in roots.values())
        excess = max(self.expanded, self.items - _ALL_TIMES_STORAGES * stored)
        if excess > 0:
            self.budget.spend("expanded_items", excess)
