"""A ``.pth`` entry to its state dict: the torch zip here, the legacy stream in ``legacy`` (FORMAT.md 6, 7).

The inert tree becomes plain containers with :mod:`sbformat.pth.values` as leaves, in one iterative
walk: depth is counted along the path, shared parts stay shared, and what refers to itself is refused.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, NoReturn

from sbformat.container import Container
from sbformat.errors import SbformatError, TensorError, UnsupportedError, quote
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits
from sbformat.names import CALLS
from sbformat.numpy_pickles import array_info, encoded_bytes
from sbformat.pkl.decode import decode_pickle
from sbformat.pkl.tree import Call, Dict, FrozenSet, Global, Node, Persistent, Set, Update
from sbformat.pth import legacy
from sbformat.pth.constructors import CONSTRUCTORS, named_value
from sbformat.pth.dtypes import DTYPES
from sbformat.pth.scope import Scope
from sbformat.pth.state_dict import StateDict
from sbformat.pth.values import OnUnknown, Storage
from sbformat.source import BytesSource
from sbformat.spec import (
    BYTE_ORDER_RECORD,
    LOCAL_SIGNATURE,
    PICKLE_RECORD,
    STORAGE_FOLDER,
    TORCH_VERSION_RECORD,
    TORCH_VERSION_RECORD_OLD,
    TORCH_VERSIONS,
    TORCHSCRIPT_RECORD,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbformat.pkl.decode import Pickle

_METADATA: Final = "_metadata"
_SPECIAL_RECORDS: Final = (
    PICKLE_RECORD, BYTE_ORDER_RECORD, TORCH_VERSION_RECORD, TORCH_VERSION_RECORD_OLD, TORCHSCRIPT_RECORD,
)  # fmt: skip
_PROTO_BYTE: Final = b"\x80"
_TAR_MAGIC_AT: Final = 257
_TAR_MAGIC: Final = b"ustar"
_KEY_PARTS: Final = 8
_TEXT: Final = {str}


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
    :param limits: what it may ask for
    :param on_unknown: ``error`` refuses a constructor that is not known, ``inert`` keeps its node of
        :mod:`sbformat.pkl.tree` in its place
    :param unchecked_crc: read files that torch wrote without CRCs
    :param copy: give aligned, writable arrays of their own instead of read-only views of ``data``
    :return: the state dict; arrays are made when they are asked for
    :raises ContainerError: for a damaged zip
    :raises PickleError: for a damaged pickle
    :raises TensorError: for tensors that do not fit their storages, and files that are no ``.pth``
    :raises UnsupportedError: for TorchScript, the tar of torch < 0.1.10, unknown constructors
    :raises LimitError: when it asks for more than allowed
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
) -> StateDict:
    """Like :func:`loads`, within an operation's budget."""
    head = bytes(data[:4])
    if head == LOCAL_SIGNATURE:
        container = Container(
            BytesSource(data), budget=budget, names="record", entry_limit="inner_entries", unchecked_crc=unchecked_crc
        )
        return decode_zip(container, budget, on_unknown=on_unknown, copy=copy)
    if head[:1] == _PROTO_BYTE:
        pickle, scope = legacy.decode(data, budget)
        return StateDict(_build(pickle, scope, on_unknown), budget, copy=copy)
    if bytes(data[_TAR_MAGIC_AT : _TAR_MAGIC_AT + len(_TAR_MAGIC)]) == _TAR_MAGIC:
        message = "this is the tar that torch wrote before 0.1.10; torch.load reads it"
        raise UnsupportedError(message)
    message = f"neither a torch zip nor a legacy torch file: it starts with {quote(head.decode('latin-1'))}"
    raise TensorError(message, offset=0)


# -- the torch zip (FORMAT.md 6.1, 6.2) ---------------------------------------------------------------


def decode_zip(
    container: Container, budget: Budget, *, on_unknown: OnUnknown = "error", copy: bool = False
) -> StateDict:
    """Decode an opened torch zip."""
    root = _root(container)
    _check_version(container, root)
    byte_order = _byte_order(container, root)
    pickle_name = root + PICKLE_RECORD
    folder = root + STORAGE_FOLDER

    def open_storage(key: str, dtype: str, numel: int, location: str, _view: object) -> Storage:
        name = folder + key
        record = container.entries.get(name)
        if record is None:
            _refuse(f"the storage {quote(key)} has no record")
        storage = Storage(key, dtype, numel, location, byte_order, container.read, name)
        if storage.nbytes != record.size:
            itemsize = DTYPES[dtype].itemsize if dtype else 1
            _refuse(f"the storage {quote(key)} is {numel} x {itemsize} bytes, its record has {record.size}")
        return storage

    try:
        pickle = decode_pickle(container.read(pickle_name, limit="pickle_bytes"), budget, encoding="utf-8")
        if pickle.flags:
            _refuse("; ".join(pickle.flags))
        tree = _build(pickle, Scope(budget, open_storage, id_items=5), on_unknown)
    except SbformatError as error:
        if error.entry is None:
            error.within(pickle_name)
        raise
    return StateDict(tree, budget, copy=copy)


def _root(container: Container) -> str:
    """Return the one folder that all records lie in, with its slash."""
    first = next(iter(container))
    root = first.partition("/")[0] + "/"
    for name in container:
        if not name.startswith(root):
            _refuse(f"its records lie in two folders, {quote(root)} and {quote(name)}: this is no torch zip")
    joined = "\n".join(container)
    if joined != joined.casefold():
        _check_case(container, root)
    if root + TORCHSCRIPT_RECORD in container:
        message = "this is a TorchScript archive: a program, not a state dict; torch.jit.load reads it"
        raise UnsupportedError(message)
    if root + PICKLE_RECORD not in container:
        _refuse(f"it has no record {quote(root + PICKLE_RECORD)}: an unfinished save, or no torch zip")
    return root


def _check_case(container: Container, root: str) -> None:
    """Refuse names that torch would mix up: it looks records up without regard to case."""
    folded = {name.casefold(): name for name in container}
    if len(folded) != len(container):
        _refuse("two of its records differ only in case, and torch takes either for the other")
    for name in _SPECIAL_RECORDS:
        if folded.get((root + name).casefold(), root + name) != root + name:
            _refuse(f"a record differs only in case from {quote(name)}, and torch takes it for that")


def _check_version(container: Container, root: str) -> None:
    name = root + TORCH_VERSION_RECORD
    if name not in container:
        name = root + TORCH_VERSION_RECORD_OLD
        if name not in container:
            _refuse(f"it has no record {quote(root + TORCH_VERSION_RECORD)}")
    text = bytes(container.read(name, limit="version_bytes")).removesuffix(b"\n")
    if not (text.isdigit() and len(text) <= 2 and int(text) in TORCH_VERSIONS):
        _refuse(f"its format version is {quote(text.decode('latin-1'))}; {TORCH_VERSIONS[0]} to 10 are known")


def _byte_order(container: Container, root: str) -> str:
    """``little`` where torch < 2.1 wrote no record."""
    name = root + BYTE_ORDER_RECORD
    if name not in container:
        return "little"
    text = bytes(container.read(name, limit="version_bytes"))
    if text not in (b"little", b"big"):
        _refuse(f"its byte order is {quote(text.decode('latin-1'))}, not little or big")
    return text.decode("ascii")


def _refuse(message: str) -> NoReturn:
    raise TensorError(message)


# -- from the inert tree to values (FORMAT.md 6.6) ----------------------------------------------------


class _Frame:
    """A container whose parts are being made: leaves in place, containers in frames of their own."""

    __slots__ = ("at", "height", "make", "node", "parts")

    def __init__(self, node: object, parts: list[Any], make: Callable[[list[Any]], object]) -> None:
        self.node = node
        self.parts = parts
        """A list of its own: each part is replaced by its value."""
        self.make = make
        self.at = 0
        """The part that is being made."""
        self.height = 1
        """Levels of containers from here down, as far as they are made."""


_PLAIN: Final = frozenset({str, int, float, bool, type(None), bytes})


def _build(pickle: Pickle, scope: Scope, on_unknown: OnUnknown) -> object:  # noqa: C901, PLR0912 -- once a value
    """Turn the inert tree into containers and leaves: depth first, with a stack of its own.

    Parts that the pickle shares are made once and stay shared; what holds itself is refused. Depth is
    counted along the path: a shared part counts with all its levels wherever it stands.
    """
    shared = pickle.shared
    done: dict[int, tuple[object, int]] = {}
    opened: set[int] = set()
    frame = _Frame(None, [pickle.value], list)
    frames = [frame]
    deepest = scope.limits.value_depth
    longest_key = scope.limits.tensor_name_bytes // 4  # characters that surely fit
    while True:
        parts = frame.parts
        for at in range(frame.at, len(parts)):
            node = parts[at]
            if type(node) in _PLAIN:
                continue
            is_shared = id(node) in shared
            if is_shared and id(node) in done:
                value, height = done[id(node)]
            else:
                height = 0
                if type(node) is Call:
                    value = _visit_call(node, scope, on_unknown)
                elif type(node) is Dict and (flat := _flat(node, longest_key)) is not None:
                    value = flat
                    height = 1
                else:
                    value = _visit(node, scope, on_unknown)
                if type(value) is _Frame:
                    if is_shared:
                        if id(node) in opened:
                            _refuse("a value holds itself")
                        opened.add(id(node))
                    frame.at = at
                    scope.budget.spend("value_depth", len(frames))
                    frames.append(value)
                    frame = value
                    break
                if is_shared:
                    done[id(node)] = value, height
            parts[at] = value
            if height:
                if len(frames) + height - 1 > deepest:
                    scope.budget.spend("value_depth", len(frames) + height - 1)
                frame.height = max(frame.height, height + 1)
        else:
            frames.pop()
            if not frames:
                scope.check_totals()
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
    """Return a dict of text keys and plain values at once, or None for any other: half of all dicts."""
    made: dict[str, object] = {}
    for key, value in pairs:
        if type(key) is not str or type(value) not in _PLAIN or len(key) > longest_key:
            return None
        made[key] = value
    return made if len(made) == len(pairs) else None


def _visit(node: object, scope: Scope, on_unknown: OnUnknown) -> object:
    """Return a leaf's value, or the frame of a container; calls have a function of their own."""
    kind = type(node)
    if kind is Dict:
        keys = _keys(node, scope)  # type: ignore[arg-type]
        return _Frame(node, [value for _, value in node], lambda values: dict(zip(keys, values)))  # type: ignore[attr-defined]
    if kind is list:
        return _Frame(node, list(node), _itself)  # type: ignore[call-overload]
    if kind is tuple:
        return _Frame(node, list(node), tuple)  # type: ignore[call-overload]
    if kind is Persistent:
        return scope.storage(node)
    if kind is bytearray:
        return node
    if kind is Set or kind is FrozenSet:
        return _members(list(node), scope, set if kind is Set else frozenset)  # type: ignore[call-overload]
    value = named_value(node) if type(node) is Global else None
    return _unknown(node, on_unknown) if value is None else value


def _itself(parts: list[Any]) -> list[Any]:
    return parts


def _visit_call(node: Call, scope: Scope, on_unknown: OnUnknown) -> object:
    func = node.func
    role = CALLS.get(func.pair) if type(func) is Global and not func.updates else None
    if role is None or node.how != "REDUCE":
        return _unknown(node, on_unknown)
    make = CONSTRUCTORS.get(role)
    if make is not None:
        if node.updates or type(node.args) is not tuple:
            _refuse(f"a {role} is changed after it was made, or has computed arguments")
        return make(scope, node.args)
    if role == "ordered_dict":
        return _ordered_dict(node, scope)
    if role in ("set", "frozenset"):
        return _set_of(node, scope, set if role == "set" else frozenset)
    return array_info(node)


def _unknown(node: object, on_unknown: OnUnknown) -> object:
    if on_unknown == "inert":
        return node
    message = f"{_described(node)} is no constructor or name that is known; on_unknown='inert' keeps it as it stands"
    raise UnsupportedError(message)


def _described(node: object) -> str:
    if type(node) is Call and type(node.func) is Global:
        return f"{quote(node.func)}, called here,"
    return quote(node) if type(node) is Global else f"a {type(node).__name__}"


def _ordered_dict(node: Call, scope: Scope) -> _Frame:
    """An OrderedDict, with the ``_metadata`` that ``Module.state_dict`` hangs on it."""
    pairs = Dict(_initial_pairs(node.args))
    metadata: list[object] = []
    for update in node.updates or ():
        if update.how == "SETITEMS" and not metadata:
            pairs.extend(update.value)  # type: ignore[arg-type]
        else:
            metadata.append(_metadata_of(update))
    if len(metadata) > 1:
        _refuse("an OrderedDict has its attributes set twice")
    keys = _keys(pairs, scope)

    def make(values: list[Any]) -> OrderedDict[Any, Any]:
        made = OrderedDict(zip(keys, values))
        if metadata:
            made._metadata = values[-1]  # type: ignore[attr-defined]  # noqa: SLF001 -- torch's own name
        return made

    return _Frame(node, [value for _, value in pairs] + metadata, make)


def _initial_pairs(args: object) -> list[tuple[object, object]]:
    """``OrderedDict()`` or, as Python 2 wrote it, ``OrderedDict([[key, value], ...])``."""
    if args == ():
        return []
    if type(args) is tuple and len(args) == 1 and type(args[0]) is list:
        pairs = [tuple(item) if type(item) in (list, tuple) else () for item in args[0]]
        if all(len(pair) == 2 for pair in pairs):
            return pairs
    _refuse("an OrderedDict is not made of pairs")


def _metadata_of(update: Update) -> object:
    state = update.value
    if update.how != "BUILD" or type(state) is not Dict or len(state) != 1 or state[0][0] != _METADATA:
        _refuse("an OrderedDict is given attributes other than _metadata")
    return state[0][1]


def _set_of(node: Call, scope: Scope, kind: Callable[[Any], object]) -> object:
    args = node.args
    if node.updates or type(args) is not tuple or len(args) > 1 or (args and type(args[0]) not in (list, tuple)):
        _refuse("a set is not made of a list")
    return _members(list(args[0]) if args else [], scope, kind)


def _members(items: list[object], scope: Scope, kind: Callable[[Any], object]) -> object:
    _keys(Dict([(item, None) for item in items]), scope)
    return kind(items)


# -- keys: the only values of a file that are hashed (FORMAT.md 6.6) ----------------------------------


def _keys(pairs: Dict, scope: Scope) -> list[Any]:
    """Check a dict's keys and return them.

    Text is hashed with a salt, and whole numbers 0..n-1 cannot collide; of others, which a file could
    choose so that they do, only few are allowed. No key may stand twice.
    """
    keys: list[Any] = [_key(key) if type(key) is Call else key for key, _ in pairs]
    if set(map(type, keys)) != _TEXT:
        _check_other_keys(keys, scope)
    allowed = scope.budget.limits.tensor_name_bytes
    for key in keys:
        if type(key) is str and len(key) * 4 > allowed:
            scope.budget.spend("tensor_name_bytes", len(key.encode("utf-8", "surrogatepass")))
    if len(set(keys)) != len(keys):
        _refuse("a key stands twice in one dict")
    return keys


def _key(call: Call) -> object:
    """Bytes as protocol 2 spells them; no other call can be a key."""
    raw = encoded_bytes(call)
    return call if raw is None else raw


def _check_other_keys(keys: list[Any], scope: Scope) -> None:
    others = 0
    for key in keys:
        if type(key) is not str and not (type(key) is int and 0 <= key < len(keys)):
            others += 1
            _check_other_key(key)
    scope.budget.spend("other_keys", others)


def _check_other_key(key: object) -> None:
    parts = key if type(key) is tuple else (key,)
    if len(parts) > _KEY_PARTS or any(type(part) not in _PLAIN for part in parts):
        if isinstance(key, Node):
            message = f"a dict has {_described(key)} as a key"
            raise UnsupportedError(message)
        _refuse(f"a dict has a key of type {type(key).__name__.lower()}")
