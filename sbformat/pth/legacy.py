"""The stream that torch wrote before 1.6: five pickles, then the storages' bytes (FORMAT.md 7).

Source: torch ``serialization.py::_legacy_load``. The bytes are little-endian on every machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

from sbformat.constants import LEGACY_MAGIC, LEGACY_PROTOCOL
from sbformat.errors import TensorError, UnsupportedError, quote
from sbformat.io.source import Cursor
from sbformat.pkl.decode import decode_next
from sbformat.pkl.tree import Dict
from sbformat.pth.context import INT64, DecodeContext
from sbformat.pth.dtypes import storage_itemsize
from sbformat.pth.values import Storage

if TYPE_CHECKING:
    from sbformat.limits import Budget
    from sbformat.pkl.decode import Pickle

_SYSTEM_INFO_KEYS: Final = frozenset({"protocol_version", "little_endian", "type_sizes"})
_COUNT_BYTES: Final = 8
_WORD: Final = 64
"""No key there is longer: a long text could make the file another format's too, a tar."""


def decode(data: memoryview, budget: Budget) -> tuple[Pickle, DecodeContext]:
    """Decode the pickles and find the storages that follow them.

    :return: the pickle of the object, and the context with its storages
    :raises TensorError: when it is not such a stream, or its storages are not where they must be
    """
    cursor = Cursor(data, TensorError)
    _check_head(cursor, budget)
    pickle = decode_next(cursor, budget)
    if pickle.flags:
        _refuse("; ".join(pickle.flags), cursor.position)
    storages = _Storages(cursor, _plain(cursor, budget), budget)
    context = DecodeContext(budget, storages.open, id_items=6)
    context.check_popped(pickle)
    context.check_all(pickle.value)
    storages.lay_out()
    return pickle, context


def _check_head(cursor: Cursor, budget: Budget) -> None:
    """The magic number, the protocol and the writer's system."""
    first = decode_next(cursor, budget)
    if type(first.value) is not int or first.value != LEGACY_MAGIC:
        message = "a pickle, but not a torch file: its first value is not torch's magic number"
        raise UnsupportedError(message, offset=0)
    _checked(first, cursor)
    protocol = _plain(cursor, budget)
    if type(protocol) is not int or protocol != LEGACY_PROTOCOL:
        _refuse(f"expected {LEGACY_PROTOCOL} as the protocol of the stream, got another value", cursor.position)
    info = _plain(cursor, budget)
    if type(info) is not Dict or {key for key, _ in info if type(key) is str} != _SYSTEM_INFO_KEYS or len(info) != 3:
        _refuse("expected a description of the writer's system as its third pickle, got another value", cursor.position)
    values = [value for _, value in info if type(value) is not Dict]
    values += [value for _, sizes in info if type(sizes) is Dict for pair in sizes for value in pair]
    if any(type(value) not in (int, bool, str) or (type(value) is str and len(value) > _WORD) for value in values):
        _refuse("its third pickle contains more than numbers about the writer's system", cursor.position)


def _plain(cursor: Cursor, budget: Budget) -> object:
    """Decode a pickle of plain data; torch writes none that imports anything."""
    return _checked(decode_next(cursor, budget), cursor).value


def _checked(pickle: Pickle, cursor: Cursor) -> Pickle:
    if pickle.flags or pickle.log:
        _refuse("; ".join(pickle.flags) or "a pickle of plain data imports or calls something", cursor.position)
    return pickle


class _Storages:
    """The bytes of the storages, which follow the pickles.

    Each storage is its number of elements, then the elements; their size is only known from the references to the
    storage. So the references are opened first, and the storages are located afterwards.
    """

    __slots__ = ("_cursor", "_facts", "_keys", "_listed", "_roots", "_runs", "_views")

    def __init__(self, cursor: Cursor, keys: object, budget: Budget) -> None:
        if type(keys) is not list or any(type(key) is not str for key in keys):
            _refuse("expected a list of texts as storage keys, got another value", cursor.position)
        budget.spend("inner_entries", len(keys))
        self._cursor = cursor
        self._keys: list[str] = keys
        self._listed = frozenset(keys)
        if len(self._listed) != len(keys):
            _refuse("its list of storage keys contains one twice", cursor.position)
        self._facts: dict[str, tuple[str, int, str]] = {}
        self._roots: dict[str, Storage] = {}
        self._runs: dict[str, memoryview] = {}
        self._views: dict[str, tuple[str, int, int]] = {}

    def open(self, key: str, dtype: str, numel: int, location: str, view: tuple[str, int, int] | None) -> Storage:
        """Return the storage that a persistent id describes; a view is a part of it (pre torch 0.4)."""
        if key not in self._listed:
            _refuse(f"the storage {quote(key)} is not in the list of keys", None)
        known = self._facts.setdefault(key, (dtype, numel, location))
        if known != (dtype, numel, location):
            _refuse(f"the storage {quote(key)} is referred to with two dtypes, sizes or locations", None)
        itemsize = storage_itemsize(dtype)
        root = self._roots.get(key)
        if root is None:
            root = self._roots[key] = Storage(key, dtype, numel, location, "little", self._runs.__getitem__, key)
        if view is None:
            return root
        name, offset, size = view
        if name in self._listed or self._views.setdefault(name, (key, offset, size)) != (key, offset, size):
            _refuse(
                f"the view {quote(name)} of the storage {quote(key)} has the key of a storage, or of another view", None
            )
        if offset + size > numel:
            _refuse(f"a view of the storage {quote(key)} extends beyond it", None)
        start, stop = offset * itemsize, (offset + size) * itemsize
        part = Storage(key, dtype, size, location, "little", lambda name: self._runs[name][start:stop], key)
        part.part_of = root, start
        return part

    def lay_out(self) -> None:
        """Locate the bytes of every storage; no bytes may follow the last one."""
        cursor = self._cursor
        for key in self._keys:
            if key not in self._facts:
                _refuse(f"the storage {quote(key)} is listed, but no tensor uses it", cursor.position)
            dtype, numel, _ = self._facts[key]
            count = cursor.uint(_COUNT_BYTES, "a storage's number of elements")
            if count != numel or count >= INT64:
                _refuse(
                    f"expected {numel} elements in the storage {quote(key)}, as its tensors say, got {count}",
                    cursor.position,
                )
            itemsize = storage_itemsize(dtype)
            self._runs[key] = memoryview(cursor.take(numel * itemsize, f"the storage {quote(key)}"))
        if cursor.left:
            _refuse(f"{cursor.left} bytes follow the last storage", cursor.position)


def _refuse(message: str, offset: int | None) -> NoReturn:
    raise TensorError(message, offset=offset)
