"""One ``.pth`` while it is decoded: its storages by key, and what it asks for in all (FORMAT.md 6.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

from sbformat.errors import TensorError, UnsupportedError, quote
from sbformat.globals.torch import PACKED_STORAGES, STORAGES
from sbformat.pkl.tree import Global, Persistent, walk
from sbformat.pth.values import StorageId

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbformat.limits import Budget
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


class Scope:
    """One ``.pth`` while it is decoded: its storages by key, and its counts.

    :param budget: the operation's
    :param open_storage: takes key, dtype, numel, location and view metadata of a persistent id and
        returns the storage, or raises TensorError
    :param id_items: items of a persistent id: 5 in the zip, 6 in the legacy stream
    """

    __slots__ = (
        "_open_storage", "_storages", "budget", "copied", "expanded", "id_items", "items", "limits", "ordered_dict",
        "tensors",
    )  # fmt: skip

    def __init__(self, budget: Budget, open_storage: Callable[..., Storage], id_items: int) -> None:
        self.budget = budget
        self.limits = budget.limits
        self.id_items = id_items
        self.tensors = 0
        self.copied = 0
        """Bytes that constructors made of what they were given, less those of the pickle."""
        self.items = 0
        """Of all tensors."""
        self.expanded = 0
        """Of those that are larger than four times their storage."""
        self.ordered_dict: Global | None = None
        """The node of ``collections.OrderedDict`` that the last tensor's hooks referred to: mostly one for all."""
        self._open_storage = open_storage
        self._storages: dict[str | tuple[str, object], Storage] = {}

    def copy(self, nbytes: int) -> None:
        """Charge what a constructor copies, as far as all copies together are larger than the pickle."""
        before = max(self.copied, 0)
        self.copied += nbytes
        if self.copied > before:
            self.budget.spend("expanded_items", self.copied - before)

    @property
    def keys(self) -> set[str]:
        """The keys of the storages that were named so far."""
        return {storage.key for storage in self._storages.values()}

    def resolve(self, kept: object) -> None:
        """Find the storages that inert nodes refer to: keys are numbered anew when they are written again."""
        for node in walk(kept):
            if type(node) is Persistent and type(node.id) is tuple and node.id[:1] == ("storage",):
                node.id = StorageId(self.storage(node))

    def storage(self, reference: object) -> Storage:
        """Return the storage that a persistent id names: one dtype and size a key (FORMAT.md 6.3)."""
        if type(reference) is not Persistent or reference.updates:
            _refuse("expected a storage for a tensor, got another value")
        parts = reference.id
        if type(parts) is not tuple or len(parts) != self.id_items or parts[0] != "storage":
            return self._other_id(parts)
        _, cls, key, location, numel = parts if self.id_items == 5 else parts[:5]
        view = parts[5] if self.id_items == 6 else None
        dtype = STORAGES.get(cls.pair) if type(cls) is Global and not cls.updates else None
        if dtype is None:
            if type(cls) is Global and cls.pair in PACKED_STORAGES:
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
        elif view is None and storage.numel != numel:
            _refuse(f"the storage {quote(key)} is referred to with two sizes")
        return storage

    def _other_id(self, parts: object) -> Storage:
        """Return the storage of an id that was resolved before; refuse every other."""
        if type(parts) is StorageId:
            return parts.storage
        if type(parts) is tuple and parts[:1] == ("module",):
            message = "a whole nn.Module was pickled, which only the code of its class can read"
            raise UnsupportedError(message)
        _refuse(
            f"expected {self.id_items} items ('storage', class, key, location, numel) as a persistent id, got others"
        )

    def check_totals(self) -> None:
        """Charge the tensors, once all are described: the limits of the pickle bound them meanwhile.

        Tensors may share storages, but not so many that copies of them all would dwarf the file.
        """
        self.budget.spend("tensors", self.tensors)
        stored = sum(storage.nbytes for storage in self._storages.values())
        excess = max(self.expanded, self.items - _ALL_TIMES_STORAGES * stored)
        if excess > 0:
            self.budget.spend("expanded_items", excess)
