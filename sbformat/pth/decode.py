"""Decode a ``.pth`` entry to its state dict: torch zips, and the stream that torch wrote before 1.6 (FORMAT.md 6, 7).

In: the bytes of the entry, and a budget. Out: a :class:`~sbformat.pth.state_dict.StateDict`. Three parts follow one
another here: the values that are built from an inert tree, the legacy stream, and the torch zip.

Theory of operation
-------------------

Values are built from a :class:`~sbformat.pkl.machine.Pickle`, whose tree consists of plain values and nodes that
describe calls, and a :class:`~sbformat.pth.context.DecodeContext`, which opens storages and counts. A tensor becomes a
``TensorInfo``: dtype, shape, strides, and the storage with its bytes, which are not read here.

The tree is walked depth first. A container that is being built is a :class:`_Frame` on a stack: a list of its parts, of
which each is replaced by its value, and a function that makes the container of the finished parts. A part that is a
container itself gets a frame of its own. A call becomes a value by the function for its name, in
:mod:`~sbformat.pth.constructors` for tensors and small values, here for containers.

For example, a module with one parameter of shape (2,) has this tree::

    Call(REDUCE, Global("collections", "OrderedDict"), ())
      updates: SETITEMS [("bias", Call(REDUCE, Global("torch._utils", "_rebuild_tensor_v2"), args))]
      args:    (Persistent(("storage", Global("torch", "FloatStorage"), "0", "cpu", 2)), 0, (2,), (1,), False, hooks)

1. The call of OrderedDict becomes a frame: its keys are checked, its parts are ``[Call(_rebuild_tensor_v2)]``.
2. That call becomes ``TensorInfo("float32", (2,), (1,), 0, storage)``, when the two items are within the storage "0".
3. No part is left: the frame makes ``OrderedDict([("bias", TensorInfo(...))])``.

Invariants:

* Nothing recurses, whatever the tree is.
* Only keys are hashed, and only those that a file cannot choose to collide.
* A part that occurs twice is built once, and is the same object in both places. What contains itself is refused.
* Depth is counted along the path: a shared part counts with all its levels wherever it occurs. So it cannot hide depth.
* Only a call with exactly the known module, name and arguments becomes a value. Everything else is refused, or kept as
  its node with ``on_unknown="inert"``.

The legacy stream is five pickles, then the bytes of the storages, little-endian on every machine. Source: torch
``serialization.py::_legacy_load``.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NoReturn

from sbformat.constants import (
    BYTE_ORDER_RECORD,
    IGNORED_RECORDS,
    LEGACY_MAGIC,
    LEGACY_PROTOCOL,
    LOCAL_SIGNATURE,
    PICKLE_RECORD,
    STORAGE_FOLDER,
    TORCH_VERSION_RECORD,
    TORCH_VERSION_RECORD_OLD,
    TORCH_VERSIONS,
    TORCHSCRIPT_RECORD,
)
from sbformat.container.layout import STORED, check_records
from sbformat.container.reader import Container
from sbformat.errors import SbformatError, TensorError, UnsupportedError, quote
from sbformat.io.source import BytesSource, Cursor
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits
from sbformat.pkl.decode import decode_next, decode_pickle
from sbformat.pkl.tree import NUMPY_RECONSTRUCT, Call, Dict, FrozenSet, Global, Persistent, Set
from sbformat.pth.constructors import CONSTRUCTORS, named_value
from sbformat.pth.context import INT64, DecodeContext, role_of
from sbformat.pth.file_storage import InflatedStorage, RecordStorage
from sbformat.pth.state_dict import StateDict
from sbformat.pth.values import (
    PLAIN,
    STORAGE_ITEMSIZES,
    OnUnknown,
    Storage,
    check_keys,
    refuse,
    refuse_unsupported,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sbformat.io.source import Source
    from sbformat.pkl.decode import Pickle
    from sbformat.pth.modules import ModuleState


class _Frame:
    """A container that is being built: ``parts``, a new list, has values where its parts were built before ``at``.

    ``height`` is the levels of containers from here downwards, as far as they are built.
    """

    __slots__ = ("at", "height", "make", "node", "parts")

    def __init__(self, node: object, parts: list[Any], make: Callable[[list[Any]], object]) -> None:
        self.node = node
        self.parts = parts
        self.make = make
        self.at = 0
        self.height = 1


def build_values(pickle: Pickle, context: DecodeContext, on_unknown: OnUnknown) -> object:  # noqa: C901, PLR0912, PLR0915
    """Build the value of a pickle; the context opens its storages, and is a new one for each pickle."""
    shared = pickle.shared
    context.copied -= pickle.size
    done: dict[int, tuple[object, int]] = {}
    opened: set[int] = set()
    frame = _Frame(None, [pickle.value], list)
    frames = [frame]
    plain = PLAIN
    deepest = context.limits.value_depth
    levels_left = deepest  # how many levels of containers the value of a part may have
    longest_key = context.limits.tensor_name_bytes // 4  # in characters: so many take at most four times the bytes
    func: object = None
    make = None  # the function for the name of the last call: nearly all tensors have the same name
    while True:
        parts = frame.parts
        for at in range(frame.at, len(parts)):
            node = parts[at]
            kind = type(node)
            if kind in plain:  # most parts: keys' values, numbers of parameter groups
                continue
            is_shared = shared and id(node) in shared
            if is_shared and id(node) in done:
                value, height = done[id(node)]
            else:
                height = 0
                if kind is Call:
                    if node.func is not func:
                        func = node.func
                        make = _constructor(func)
                    if make is not None and not node.updates and node.how == "REDUCE" and type(node.args) is tuple:
                        value = make(context, node.args)
                    else:
                        context.height = 0
                        value = _visit_call(node, context, on_unknown)
                        height = context.height
                elif kind is Dict and (flat := _flat(node, longest_key)) is not None:
                    value = flat
                    height = 1
                else:
                    context.height = 0
                    value = _visit(node, context, on_unknown)
                    height = context.height
                if type(value) is _Frame:
                    if is_shared:  # only a part that occurs twice can be within itself
                        if id(node) in opened:
                            refuse("a value contains itself")
                        opened.add(id(node))
                    frame.at = at
                    context.budget.spend("value_depth", len(frames))
                    frames.append(value)
                    frame = value
                    levels_left -= 1
                    break
                if is_shared:
                    done[id(node)] = value, height
            parts[at] = value
            if height:
                if height > levels_left:
                    context.budget.spend("value_depth", deepest - levels_left + height)
                if frame.height <= height:
                    frame.height = height + 1
        else:
            frames.pop()
            levels_left += 1
            if not frames:
                context.check_totals()
                return parts[0]
            value = frame.make(parts)
            height = frame.height
            if id(frame.node) in shared:
                opened.discard(id(frame.node))
                done[id(frame.node)] = value, height
            frame = frames[-1]
            frame.parts[frame.at] = value
            frame.at += 1
            frame.height = max(frame.height, height + 1)


def _flat(pairs: Dict, longest_key: int) -> dict[str, object] | None:
    """Build a dict of text keys and plain values without a frame, as half of all dicts are; None for others."""
    made: dict[str, object] = {}
    for key, value in pairs:
        if type(key) is not str or type(value) not in PLAIN or len(key) > longest_key:
            return None
        made[key] = value
    return made if len(made) == len(pairs) else None


def _visit(node: object, context: DecodeContext, on_unknown: OnUnknown) -> object:
    """Return the value of a leaf or the frame of a container, except for calls."""
    kind = type(node)
    if kind is Dict:
        keys = check_keys(node, context)  # type: ignore[arg-type]
        return _Frame(node, [value for _, value in node], lambda values: dict(zip(keys, values)))  # type: ignore[attr-defined]
    if kind is list:
        return _Frame(node, list(node), lambda parts: parts)  # type: ignore[call-overload]
    if kind is tuple:
        return _Frame(node, list(node), tuple)  # type: ignore[call-overload]
    if kind is Persistent:
        return context.storage(node)
    if kind is bytearray:
        return node
    if kind is Set or kind is FrozenSet:
        return _members(list(node), context, set if kind is Set else frozenset)  # type: ignore[call-overload]
    value = named_value(node) if type(node) is Global else None
    return _unknown(node, context, on_unknown) if value is None else value


def _visit_call(node: Call, context: DecodeContext, on_unknown: OnUnknown) -> object:
    role = role_of(node.func)
    if not role or node.how != "REDUCE":
        return _unknown(node, context, on_unknown)
    if role in _COPIED:
        context.copy(_copied_bytes(role, node))
    make = CONSTRUCTORS.get(role)
    if make is not None:
        if node.updates or type(node.args) is not tuple:
            refuse(f"expected plain arguments and no changes for a {role}, got computed arguments or a change")
        return make(context, node.args)
    if role == "ordered_dict":
        return _ordered_dict(node, context)
    if role in ("set", "frozenset"):
        args = node.args
        if node.updates or type(args) is not tuple or len(args) > 1 or (args and type(args[0]) not in (list, tuple)):
            refuse("expected a list for a set, got another value")
        return _members(list(args[0]) if args else [], context, set if role == "set" else frozenset)
    from sbformat.pkl.numpy import array_info

    return array_info(node)


def _constructor(func: object) -> Callable[[DecodeContext, tuple[object, ...]], object] | None:
    """Return the function for calls of a name, if it needs only the arguments."""
    role = role_of(func)
    return None if role in _COPIED or role in _WITH_ATTRIBUTES else CONSTRUCTORS.get(role)


_WITH_ATTRIBUTES: Final = frozenset({"parameter_with_state", "from_type_v2"})
"""Roles whose values may contain containers without being one."""
_ITEM_COST: Final = 8  # what an item of a list or tuple counts that a constructor copies, in bytes
_COPIED: Final = {
    "encode": 0, "bytearray": 0, "size": 0, "numpy_scalar": 1, "numpy_array": 0, "ordered_dict": 0, "set": 0,
    "frozenset": 0,
}  # fmt: skip
"""Roles whose values are as large as an argument, which a pickle can share between thousands of calls, and the index of
that argument. The bytes of ``_reconstruct`` are in its state."""


def _copied_bytes(role: str, node: Call) -> int:
    """Return how many bytes a call copies (FORMAT.md 8, ``expanded_items``)."""
    args = node.args if type(node.args) is tuple else ()
    at = _COPIED[role]
    if role == "numpy_array" and node.func.pair[1] == NUMPY_RECONSTRUCT:  # type: ignore[attr-defined]
        state = node.updates[0].value if node.updates else ()
        args, at = state if type(state) is tuple else (), 4
    copied: Any = args[at] if len(args) > at else None
    if type(copied) is Call and type(copied.args) is tuple and copied.args:
        copied = copied.args[0]  # bytes that are encoded by another call
    if type(copied) in (list, tuple):
        return _ITEM_COST * len(copied)
    return len(copied) if type(copied) in (str, bytes, bytearray) else 0


def _unknown(node: object, context: DecodeContext, on_unknown: OnUnknown) -> object:
    if on_unknown == "inert":
        context.resolve(node)
        return node
    name = quote(node) if type(node) is Global else f"a {type(node).__name__}"
    if type(node) is Call and type(node.func) is Global:
        name = f"{quote(node.func)}, which is called here,"
    return refuse_unsupported(f"{name} is not a known constructor or name", hint="on_unknown='inert' keeps its node")


def _ordered_dict(node: Call, context: DecodeContext) -> _Frame:
    """Return the frame of an OrderedDict, with the attribute ``_metadata`` that ``Module.state_dict`` sets."""
    pairs = Dict(_initial_pairs(node.args))
    metadata: list[object] = []
    for update in node.updates or ():
        if update.how == "SETITEMS" and not metadata:
            pairs.extend(update.value)  # type: ignore[arg-type]
            continue
        state = update.value
        if update.how != "BUILD" or type(state) is not Dict or len(state) != 1 or state[0][0] != "_metadata":
            refuse("expected no attributes of an OrderedDict except _metadata, got others")
        metadata.append(state[0][1])
    if len(metadata) > 1:
        refuse("an OrderedDict has its attributes set twice")
    keys = check_keys(pairs, context)

    def make(values: list[Any]) -> OrderedDict[Any, Any]:
        made = OrderedDict(zip(keys, values))
        if metadata:
            made._metadata = values[-1]  # type: ignore[attr-defined]  # noqa: SLF001 -- torch's own name
        return made

    return _Frame(node, [value for _, value in pairs] + metadata, make)


def _initial_pairs(args: object) -> list[tuple[object, object]]:
    """Return the pairs of ``OrderedDict()`` or, as Python 2 wrote it, ``OrderedDict([[key, value], ...])``."""
    if args == ():
        return []
    if type(args) is tuple and len(args) == 1 and type(args[0]) is list:
        pairs = [tuple(item) if type(item) in (list, tuple) else () for item in args[0]]
        if all(len(pair) == 2 for pair in pairs):
            return pairs
    return refuse("expected pairs for an OrderedDict, got another value")


def _members(items: list[object], context: DecodeContext, kind: Callable[[Any], object]) -> object:
    context.height = 1
    return kind(check_keys(Dict([(item, None) for item in items]), context))


_SYSTEM_INFO_KEYS: Final = frozenset({"protocol_version", "little_endian", "type_sizes"})
_WORD: Final = 64  # no key there is longer: a long text could make the file another format's too, a tar


def open_legacy(data: memoryview, budget: Budget, modules: ModuleState | None = None) -> tuple[Pickle, DecodeContext]:
    """Return the pickle of the object in a legacy stream, and the context with the storages that follow it.

    :param modules: replaces whole modules, whose classes are persistent ids, by their state
    """
    cursor = Cursor(data, TensorError)
    _check_head(cursor, budget)
    pickle = decode_next(cursor, budget)
    if pickle.flags:
        _refuse_legacy("; ".join(pickle.flags), cursor)
    storages = _Storages(cursor, _plain(cursor, budget), budget)
    context = DecodeContext(budget, storages.open, id_items=6, takes_modules=modules is not None)
    context.check_all(pickle.discarded)  # torch.load opens these storages as well
    context.check_all(pickle.value)
    storages.lay_out()
    return pickle if modules is None else modules.replace(pickle), context


def _check_head(cursor: Cursor, budget: Budget) -> None:
    """Check the magic number, the protocol and the writer's system."""
    first = decode_next(cursor, budget)
    if type(first.value) is not int or first.value != LEGACY_MAGIC:
        raise UnsupportedError("a pickle, but not a torch file: its first value is not torch's magic number", offset=0)
    _checked(first, cursor)
    protocol = _plain(cursor, budget)
    if type(protocol) is not int or protocol != LEGACY_PROTOCOL:
        _refuse_legacy(f"expected {LEGACY_PROTOCOL} as the protocol of the stream, got another value", cursor)
    info = _plain(cursor, budget)
    if type(info) is not Dict or {key for key, _ in info if type(key) is str} != _SYSTEM_INFO_KEYS or len(info) != 3:
        _refuse_legacy("expected a description of the writer's system as its third pickle, got another value", cursor)
    values = [value for _, value in info if type(value) is not Dict]
    values += [value for _, sizes in info if type(sizes) is Dict for pair in sizes for value in pair]
    if any(type(value) not in (int, bool, str) or (type(value) is str and len(value) > _WORD) for value in values):
        _refuse_legacy("its third pickle contains more than numbers about the writer's system", cursor)


def _plain(cursor: Cursor, budget: Budget) -> object:
    """Decode a pickle of plain data; torch writes none that imports anything."""
    return _checked(decode_next(cursor, budget), cursor).value


def _checked(pickle: Pickle, cursor: Cursor) -> Pickle:
    if pickle.flags or pickle.log:
        _refuse_legacy("; ".join(pickle.flags) or "a pickle of plain data imports or calls something", cursor)
    return pickle


class _Storages:
    """The bytes of the storages, which follow the pickles: of each, its number of elements, then these.

    Their size is only known from the references to it: so these are opened first, and the storages are located later.
    """

    __slots__ = ("_cursor", "_facts", "_keys", "_listed", "_roots", "_runs", "_views")

    def __init__(self, cursor: Cursor, keys: object, budget: Budget) -> None:
        if type(keys) is not list or any(type(key) is not str for key in keys):
            _refuse_legacy("expected a list of texts as storage keys, got another value", cursor)
        budget.spend("inner_entries", len(keys))
        self._cursor = cursor
        self._keys: list[str] = keys
        self._listed = frozenset(keys)
        if len(self._listed) != len(keys):
            _refuse_legacy("its list of storage keys contains one twice", cursor)
        self._facts: dict[str, tuple[str, int, str]] = {}
        self._roots: dict[str, Storage] = {}
        self._runs: dict[str, memoryview] = {}
        self._views: dict[str, tuple[str, int, int]] = {}

    def open(self, key: str, dtype: str, numel: int, location: str, view: tuple[str, int, int] | None) -> Storage:
        """Return the storage that a persistent id describes; a view is a part of it (pre torch 0.4)."""
        if key not in self._listed:
            refuse(f"the storage {quote(key)} is not in the list of keys")
        known = self._facts.setdefault(key, (dtype, numel, location))
        if known != (dtype, numel, location):
            refuse(f"the storage {quote(key)} is referred to with two dtypes, sizes or locations")
        itemsize = STORAGE_ITEMSIZES[dtype]
        root = self._roots.get(key)
        if root is None:
            root = self._roots[key] = Storage(key, dtype, numel, location, "little", self._runs.__getitem__, key)
        if view is None:
            return root
        name, offset, size = view
        if name in self._listed or self._views.setdefault(name, (key, offset, size)) != (key, offset, size):
            refuse(f"the view {quote(name)} of the storage {quote(key)} has the key of a storage, or of another view")
        if offset + size > numel:
            refuse(f"a view of the storage {quote(key)} extends beyond it")
        start, stop = offset * itemsize, (offset + size) * itemsize
        part = Storage(key, dtype, size, location, "little", lambda name: self._runs[name][start:stop], key)
        part.part_of = root, start
        return part

    def lay_out(self) -> None:
        """Locate the bytes of every storage; no bytes may follow the last one."""
        cursor = self._cursor
        for key in self._keys:
            if key not in self._facts:
                _refuse_legacy(f"the storage {quote(key)} is listed, but no tensor uses it", cursor)
            dtype, numel, _ = self._facts[key]
            count = cursor.uint(8, "a storage's number of elements")
            if count != numel or count >= INT64:
                message = f"expected {numel} elements in the storage {quote(key)}, as its tensors say, got {count}"
                _refuse_legacy(message, cursor)
            nbytes = numel * STORAGE_ITEMSIZES[dtype]
            self._runs[key] = memoryview(cursor.take(nbytes, f"the storage {quote(key)}"))
        if cursor.left:
            _refuse_legacy(f"{cursor.left} bytes follow the last storage", cursor)


def _refuse_legacy(message: str, cursor: Cursor) -> NoReturn:
    raise TensorError(message, offset=cursor.position)


_PICKLES: Final = ((PICKLE_RECORD, STORAGE_FOLDER), (TORCHSCRIPT_RECORD, "constants/"))
"""The records with tensors, and the folders of their storages; the second is that of a TorchScript archive."""
_SPECIAL_RECORDS: Final = (
    PICKLE_RECORD, BYTE_ORDER_RECORD, TORCH_VERSION_RECORD, TORCH_VERSION_RECORD_OLD, TORCHSCRIPT_RECORD,
    *IGNORED_RECORDS,
)  # fmt: skip
_TAR_MAGIC_AT: Final = 257
_TAR_MAGIC: Final = b"ustar"


def loads(
    data: bytes | bytearray | memoryview,
    *,
    limits: Limits = DEFAULT_LIMITS,
    on_unknown: OnUnknown = "error",
    unchecked_crc: bool = False,
    copy: bool = False,
) -> StateDict:
    """Decode a ``.pth`` file of any torch release since 0.1.10.

    :param data: the file's bytes: a torch zip (torch >= 1.6) or a legacy stream
    :param on_unknown: ``error`` refuses a constructor that is unknown, ``inert`` keeps its node of
        :mod:`sbformat.pkl.tree` in its place
    :param unchecked_crc: read files that torch wrote without CRCs
    :param copy: return aligned, writable copies of arrays instead of read-only views of ``data``
    :return: the state dict; arrays are created on access
    """
    source = BytesSource(data)
    return decode_pth(
        source.view(0, source.size), Budget(limits), on_unknown=on_unknown, unchecked_crc=unchecked_crc, copy=copy
    )


def decode_pth(
    data: memoryview,
    budget: Budget,
    *,
    on_unknown: OnUnknown = "error",
    unchecked_crc: bool = False,
    copy: bool = False,
    modules: ModuleState | None = None,
) -> StateDict:
    """Do the same as :func:`loads`, within an operation's budget; with ``modules``, also whole modules."""
    head = bytes(data[:4])
    if head == LOCAL_SIGNATURE:
        container = open_records(BytesSource(data), budget, unchecked_crc=unchecked_crc)
        return decode_zip(container, budget, on_unknown=on_unknown, copy=copy, modules=modules)
    if head[:1] == b"\x80":
        pickle, context = open_legacy(data, budget, modules)
        return StateDict(build_values(pickle, context, on_unknown), budget, copy=copy)
    if bytes(data[_TAR_MAGIC_AT : _TAR_MAGIC_AT + len(_TAR_MAGIC)]) == _TAR_MAGIC:
        refuse_unsupported("this is the tar that torch wrote before 0.1.10", hint="torch.load reads it")
    start = quote(head.decode("latin-1"))
    raise TensorError(f"expected a torch zip or a legacy torch file, got a file that starts with {start}", offset=0)


# -- the torch zip (FORMAT.md 6.1, 6.2) ---------------------------------------------------------------


def decode_zip(
    container: Container,
    budget: Budget,
    *,
    on_unknown: OnUnknown = "error",
    copy: bool = False,
    modules: ModuleState | None = None,
) -> StateDict:
    """Decode an opened torch zip.

    :param modules: replaces whole modules by their state; then the records of a TorchScript archive are read as well
    """
    tree: Any = None
    for record, folder in _PICKLES if modules is not None else _PICKLES[:1]:
        if record == TORCHSCRIPT_RECORD and _find_root(container) + record not in container:
            continue
        pickle, context, name = open_zip(container, budget, record, folder, takes_programs=modules is not None)
        with _named(name):
            if pickle.flags:
                refuse("; ".join(pickle.flags))
            context.check_all(pickle.discarded)  # torch.load opens these storages as well
            if modules is not None:
                pickle = modules.replace(pickle)
                if _find_root(container) + TORCHSCRIPT_RECORD in container and not modules.classes:
                    _refuse_program()
            value = build_values(pickle, context, on_unknown)
        if record == PICKLE_RECORD:
            tree = value
        elif isinstance(tree, dict) and isinstance(value, tuple):  # the constants of a program
            tree.update((f"constants.{place}", part) for place, part in enumerate(value))
    made = StateDict(tree, budget, copy=copy)
    made.records = container
    return made


def open_pth(data: memoryview, budget: Budget) -> tuple[Pickle, DecodeContext]:
    """Return the pickle of a ``.pth``, before values are built, and the context that opens its storages."""
    if bytes(data[:4]) == LOCAL_SIGNATURE:
        return open_zip(open_records(BytesSource(data), budget), budget)[:2]
    return open_legacy(data, budget)


def open_zip(
    container: Container,
    budget: Budget,
    record: str = PICKLE_RECORD,
    folder: str = STORAGE_FOLDER,
    *,
    takes_programs: bool = False,
) -> tuple[Pickle, DecodeContext, str]:
    """Return the pickle of an opened torch zip, the context that opens its storages, and the name of its record."""
    root = _root(container, takes_programs=takes_programs)
    byte_order = _byte_order(container, root)
    folder = root + folder
    pickle_name = root + record
    records = container.entries
    load = container.read
    is_stored = records[pickle_name].method == STORED and not container.is_inflated(pickle_name)
    is_plain = container.is_in_memory and is_stored

    def open_storage(key: str, dtype: str, numel: int, location: str, _view: object) -> Storage:
        name = folder + key
        record = records.get(name)
        if record is None:
            refuse(f"the storage {quote(key)} has no record")
        storage: Storage
        if (is_plain and record.method == STORED) or (container.is_in_memory and not container.is_inflated(name)):
            storage = Storage(key, dtype, numel, location, byte_order, load, name)
        else:
            kind = InflatedStorage if container.is_inflated(name) else RecordStorage
            storage = kind(key, dtype, numel, location, byte_order, container, name)
        if storage.nbytes != record.size:
            itemsize = STORAGE_ITEMSIZES[dtype]
            refuse(f"expected {numel} x {itemsize} bytes for the storage {quote(key)}, got a record of {record.size}")
        return storage

    with _named(pickle_name):
        pickle = decode_pickle(load(pickle_name, limit="pickle_bytes"), budget, encoding="utf-8")
    return pickle, DecodeContext(budget, open_storage, id_items=5), pickle_name


@contextmanager
def _named(record: str) -> Iterator[None]:
    """Add the name of a record to an error without one."""
    try:
        yield
    except SbformatError as error:
        if error.entry is None:
            error.within(record)
        raise


def is_torch_zip(source: Source) -> bool:
    """Return whether a ``.pth`` is a zip, as torch saves it since 1.6."""
    return bytes(source.view(0, min(source.size, len(LOCAL_SIGNATURE)))) == LOCAL_SIGNATURE


def open_records(source: Source, budget: Budget, *, unchecked_crc: bool = False) -> Container:
    """Open a torch zip and check its structure; no record is read."""
    container = Container(source, budget=budget, names="record", unchecked_crc=unchecked_crc)
    check_records(container)
    return container


def _refuse_program() -> NoReturn:
    refuse_unsupported("this is a TorchScript archive: a program, not a state dict", hint="torch.jit.load reads it")


def _find_root(container: Container) -> str:
    return next(iter(container)).partition("/")[0] + "/"


def _root(container: Container, *, takes_programs: bool) -> str:
    """Return the folder that contains all records, with its slash."""
    root = _find_root(container)
    joined = "\n".join(container)
    if f"\n{joined}".count(f"\n{root}") != len(container):
        other = next(name for name in container if not name.startswith(root))
        refuse(f"expected all records in one folder, got {quote(root)} and {quote(other)}: not a torch zip")
    if joined != joined.casefold():
        # torch ignores case when it looks up records, so that it may confuse names.
        folded = {name.casefold(): name for name in container}
        if len(folded) != len(container):
            refuse("two of its records differ only in case, which torch ignores")
        for name in _SPECIAL_RECORDS:
            if folded.get((root + name).casefold(), root + name) != root + name:
                refuse(f"a record differs from {quote(name)} only in case, which torch ignores")
    is_whole = root + PICKLE_RECORD in container and _find_version(container, root) is not None
    if root + TORCHSCRIPT_RECORD in container and not (takes_programs and is_whole):
        _refuse_program()
    if root + PICKLE_RECORD not in container:
        refuse(f"expected a record {quote(root + PICKLE_RECORD)}: saving was interrupted, or this is not a torch zip")
    return root


def _find_version(container: Container, root: str) -> str | None:
    names = root + TORCH_VERSION_RECORD, root + TORCH_VERSION_RECORD_OLD
    return next((name for name in names if name in container), None)


def _byte_order(container: Container, root: str) -> str:
    """Check the format's version, and return the byte order; ``little`` if there is no record, as before torch 2.1."""
    version = _find_version(container, root)
    if version is None:
        refuse(f"expected a record {quote(root + TORCH_VERSION_RECORD)}")
    text = bytes(container.read(version, limit="version_bytes")).removesuffix(b"\n")
    if not (text.isdigit() and len(text) <= 2 and int(text) in TORCH_VERSIONS):
        refuse(f"expected a format version from {TORCH_VERSIONS[0]} to 10, got {quote(text.decode('latin-1'))}")
    if root + BYTE_ORDER_RECORD not in container:
        return "little"
    text = bytes(container.read(root + BYTE_ORDER_RECORD, limit="version_bytes"))
    if text not in (b"little", b"big"):
        refuse(f"expected the byte order little or big, got {quote(text.decode('latin-1'))}")
    return text.decode("ascii")
