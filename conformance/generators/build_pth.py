"""Hand-made ``.pth`` files: a small pickler of inert trees, and the torch zip or the legacy stream around it.

Nothing here needs torch. A tree is made of plain values and of :class:`Name`, :class:`Apply`,
:class:`Persist`, :class:`Pairs` and :class:`Raw`; a value that occurs twice in it is written once and shared, as
by Python's pickler.
"""

from __future__ import annotations

import io
import struct
import zipfile
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MAGIC: Final = 0x1950A86A20F9469CFC6C
LEGACY_PROTOCOL: Final = 1001
SYSTEM: Final = {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}


class Name(NamedTuple):
    """A name by module and attribute: GLOBAL."""

    module: str
    name: str


class Change(NamedTuple):
    """A change of a call's result: ``BUILD``, ``SETITEMS``, ``APPENDS`` or ``ADDITEMS``, and its argument."""

    how: str
    value: Any


class Apply:
    """A call, with the changes to its result. ``how`` is ``REDUCE``, ``NEWOBJ``, ``OBJ`` or ``INST``."""

    def __init__(self, func: object, args: object, *changes: Change, how: str = "REDUCE") -> None:
        self.func = func
        self.args = args
        self.changes = list(changes)
        self.how = how


class Persist:
    """A persistent id: BINPERSID."""

    def __init__(self, id: object) -> None:  # noqa: A002 -- the protocol's word
        self.id = id


class Pairs:
    """A dict by its pairs: for keys that occur twice or that Python could not hash."""

    def __init__(self, *pairs: tuple[object, object]) -> None:
        self.pairs = pairs


class Raw:
    """Opcodes that leave one value on the stack."""

    def __init__(self, opcodes: bytes) -> None:
        self.opcodes = opcodes


# -- the pickler --------------------------------------------------------------------------------------

_CHANGES: Final = {"SETITEMS": b"u", "APPENDS": b"e", "ADDITEMS": b"\x90"}
_CALLS: Final = {"REDUCE": b"R", "NEWOBJ": b"\x81"}


def dumps(tree: object, protocol: int = 2) -> bytes:
    """Pickle a tree."""
    return b"\x80" + bytes([protocol]) + _Pickler().encode(tree) + b"."


def whole(number: int) -> bytes:
    """The opcode of an integer."""
    if 0 <= number < 1 << 8:
        return b"K" + bytes([number])
    if 0 <= number < 1 << 16:
        return b"M" + struct.pack("<H", number)
    if -(1 << 31) <= number < 1 << 31:
        return b"J" + struct.pack("<i", number)
    raw = number.to_bytes(number.bit_length() // 8 + 1, "little", signed=True)
    return (b"\x8a" + bytes([len(raw)]) if len(raw) < 1 << 8 else b"\x8b" + struct.pack("<I", len(raw))) + raw


def text(value: str) -> bytes:
    """The opcode of a text."""
    raw = value.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(raw)) + raw


class _Pickler:
    """Opcodes of a tree; a value that occurs twice in it, by identity, is read from the memo."""

    def __init__(self) -> None:
        self.memo: dict[int, int] = {}
        self.kept: list[object] = []

    def encode(self, value: Any) -> bytes:  # noqa: PLR0911 -- a case a kind
        kind = type(value)
        if value is None:
            return b"N"
        if kind is bool:
            return b"\x88" if value else b"\x89"
        if kind is int:
            return whole(value)
        if kind is float:
            return b"G" + struct.pack(">d", value)
        if kind is str:
            return text(value)
        if kind is bytes:
            return b"B" + struct.pack("<I", len(value)) + bytes(value)
        if kind is bytearray:
            return b"\x96" + struct.pack("<Q", len(value)) + bytes(value)
        if kind is Raw:
            return bytes(value.opcodes)
        if kind is tuple and not value:
            return b")"
        if id(value) in self.memo:
            return b"j" + struct.pack("<I", self.memo[id(value)])
        return self._composite(value, kind)

    def _put(self, value: object) -> bytes:
        self.kept.append(value)
        self.memo[id(value)] = len(self.memo)
        return b"r" + struct.pack("<I", self.memo[id(value)])

    def _all(self, values: Iterable[object]) -> bytes:
        return b"".join([self.encode(value) for value in values])

    def _composite(self, value: Any, kind: type) -> bytes:
        if kind is tuple:
            return b"(" + self._all(value) + b"t" + self._put(value)
        if kind is list:
            return b"]" + self._put(value) + b"(" + self._all(value) + b"e"
        if kind is dict or kind is Pairs:
            pairs = value.items() if kind is dict else value.pairs
            return b"}" + self._put(value) + b"(" + self._all(part for pair in pairs for part in pair) + b"u"
        if kind is set:
            return b"\x8f" + self._put(value) + b"(" + self._all(value) + b"\x90"
        if kind is frozenset:
            return b"(" + self._all(value) + b"\x91" + self._put(value)
        if kind is Name:
            return b"c" + f"{value.module}\n{value.name}\n".encode() + self._put(value)
        if kind is Persist:
            return self.encode(value.id) + b"Q" + self._put(value)
        if kind is Apply:
            return self._apply(value)
        message = f"a tree holds no {kind.__name__}"
        raise TypeError(message)

    def _apply(self, call: Apply) -> bytes:
        if call.how == "OBJ":
            made = b"(" + self.encode(call.func) + self._all(call.args) + b"o"  # type: ignore[arg-type]
        elif call.how == "INST":
            assert isinstance(call.func, Name)
            made = b"(" + self._all(call.args) + b"i" + f"{call.func.module}\n{call.func.name}\n".encode()  # type: ignore[arg-type]
        else:
            made = self.encode(call.func) + self.encode(call.args) + _CALLS[call.how]
        made += self._put(call)
        for change in call.changes:
            if change.how == "BUILD":
                made += self.encode(change.value) + b"b"
            else:
                made += b"(" + self._all(change.value) + _CHANGES[change.how]
        return made


# -- torch's constructors -----------------------------------------------------------------------------

ORDERED_DICT: Final = Name("collections", "OrderedDict")
REBUILD: Final = Name("torch._utils", "_rebuild_tensor")
REBUILD_V2: Final = Name("torch._utils", "_rebuild_tensor_v2")
REBUILD_V3: Final = Name("torch._utils", "_rebuild_tensor_v3")
REBUILD_Q: Final = Name("torch._utils", "_rebuild_qtensor")
REBUILD_PARAMETER: Final = Name("torch._utils", "_rebuild_parameter")
REBUILD_PARAMETER_WITH_STATE: Final = Name("torch._utils", "_rebuild_parameter_with_state")
REBUILD_SPARSE: Final = Name("torch._utils", "_rebuild_sparse_tensor")
REBUILD_META: Final = Name("torch._utils", "_rebuild_meta_tensor_no_storage")
REBUILD_FROM_TYPE: Final = Name("torch._tensor", "_rebuild_from_type_v2")
GET_LAYOUT: Final = Name("torch.serialization", "_get_layout")
SIZE: Final = Name("torch", "Size")
DEVICE: Final = Name("torch", "device")
UNTYPED: Final = Name("torch.storage", "UntypedStorage")
EXIT: Final = Name("posix", "_exit")
"""A harmful call, which must never be executed."""


def ordered(pairs: Mapping[Any, Any] | None = None, metadata: object = None) -> Apply:
    """An OrderedDict as pickle writes it: created empty, filled, then ``_metadata`` is set."""
    made = Apply(ORDERED_DICT, ())
    if pairs:
        made.changes.append(Change("SETITEMS", [part for pair in pairs.items() for part in pair]))
    if metadata is not None:
        made.changes.append(Change("BUILD", {"_metadata": metadata}))
    return made


def storage(
    numel: object, key: object = "0", cls: str | Name = "FloatStorage", location: object = "cpu", *more: object
) -> Persist:
    """A storage; ``more`` is the view metadata of the legacy stream."""
    return Persist(("storage", Name("torch", cls) if isinstance(cls, str) else cls, key, location, numel, *more))


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    """C-order strides in elements, where a dimension of 0 counts as 1, as in torch."""
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size or 1
    return tuple(reversed(strides))


def tensor(
    store: object,
    shape: Any,
    strides: Any = None,
    offset: Any = 0,
    requires_grad: object = False,  # noqa: FBT002 -- torch's argument
    *metadata: object,
) -> Apply:
    """``_rebuild_tensor_v2`` over a storage."""
    steps = contiguous(shape) if strides is None else strides
    return Apply(REBUILD_V2, (store, offset, shape, steps, requires_grad, ordered(), *metadata))


def floats(shape: tuple[int, ...], key: str = "0", numel: int | None = None) -> Apply:
    """A contiguous float32 tensor that covers its storage."""
    count = 1
    for size in shape:
        count *= size
    return tensor(storage(count if numel is None else numel, key), shape)


# -- files --------------------------------------------------------------------------------------------

_DATE: Final = (1980, 1, 1, 0, 0, 0)


def make_zip(records: Iterable[tuple[str, bytes]], *, deflated: bool = False) -> bytes:
    """A zip of records, in order."""
    file = io.BytesIO()
    method = zipfile.ZIP_DEFLATED if deflated else zipfile.ZIP_STORED
    with zipfile.ZipFile(file, "w", method) as opened:
        for name, data in records:
            info = zipfile.ZipInfo(name, _DATE)
            info.compress_type = method
            opened.writestr(info, data)
    return file.getvalue()


def torch_zip(
    tree: object,
    storages: Mapping[str, bytes] | None = None,
    *,
    root: str = "archive",
    version: bytes | None = b"3\n",
    byte_order: bytes | None = b"little",
    more: Mapping[str, bytes] | None = None,
    protocol: int = 2,
    deflated: bool = False,
) -> bytes:
    """A torch zip: the pickle of ``tree`` (or its bytes) and the storages by key."""
    pickle = tree if isinstance(tree, bytes) else dumps(tree, protocol)
    records = {"data.pkl": pickle}
    if byte_order is not None:
        records["byteorder"] = byte_order
    records |= {f"data/{key}": data for key, data in (storages or {}).items()}
    if version is not None:
        records["version"] = version
    records |= more or {}
    return make_zip([(f"{root}/{name}", data) for name, data in records.items()], deflated=deflated)


def without_crcs(data: bytes) -> bytes:
    """The same zip as torch writes it after ``set_crc32_options(False)``: every CRC field is zero."""
    made = bytearray(data)
    (start,) = struct.unpack_from("<I", data, len(data) - 6)
    at = start
    while made[at : at + 4] == b"PK\x01\x02":
        name, extra, comment = struct.unpack_from("<3H", made, at + 28)
        (local,) = struct.unpack_from("<I", made, at + 42)
        made[at + 16 : at + 20] = made[local + 14 : local + 18] = bytes(4)
        at += 46 + name + extra + comment
    return bytes(made)


class Run(NamedTuple):
    """The data of a storage after the pickles of the legacy stream."""

    key: str
    numel: int
    data: bytes


def legacy_stream(
    tree: object,
    runs: Sequence[Run] = (),
    *,
    magic: object = MAGIC,
    version: object = LEGACY_PROTOCOL,
    system: object = SYSTEM,
    keys: object = None,
    protocol: int = 2,
    tail: bytes = b"",
) -> bytes:
    """The stream that torch wrote before 1.6: five pickles, then the storages."""
    names = [run.key for run in runs] if keys is None else keys
    head = [
        part if isinstance(part, bytes) else dumps(part, protocol) for part in (magic, version, system, tree, names)
    ]
    return b"".join([*head, *(struct.pack("<q", run.numel) + run.data for run in runs), tail])
