"""The values of a ``.pth`` without numpy: dtypes, descriptions of tensors, storages, torch's small values, and keys.

Each of these is in the decoded tree where torch would have its own object. Those that consist of tensors (sparse,
quantized) contain :class:`TensorInfo` in the tree, and arrays after access. Keys of dicts and members of sets are the
only values that are hashed; they form the path of a value (FORMAT.md 6.4 to 6.7).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NoReturn, TypeAlias

from sbformat.errors import TensorError, UnsupportedError, quote
from sbformat.immutable import Record
from sbformat.pkl.tree import Call, Dict, Global, Node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import numpy as np

    from sbformat.pth.context import DecodeContext


class DType(Record):
    """A torch dtype."""

    name: str
    """As torch names it, without ``torch.``."""
    itemsize: int
    """Bytes an item."""
    numpy: str
    """numpy's dtype code; ``ml_dtypes.X`` for dtypes that numpy lacks; the integer type for quantized ones, and that of
    complex64, which can represent all values, for complex32."""
    swap: int
    """Bytes that are reversed together when the byte order differs."""

    @property
    def is_in_numpy(self) -> bool:
        """Whether numpy has it without ml_dtypes."""
        return not self.numpy.startswith("ml_dtypes.")


DTYPES: Final = {row.name: row for row in (
    # begin dtypes: generated from schema/tables/dtypes.json by schema/generate_tables.py
    DType("complex128", 16, "c16", 8), DType("uint64", 8, "u8", 8), DType("int64", 8, "i8", 8),
    DType("float64", 8, "f8", 8), DType("complex64", 8, "c8", 4), DType("float32", 4, "f4", 4),
    DType("uint32", 4, "u4", 4), DType("int32", 4, "i4", 4), DType("complex32", 4, "c8", 2),
    DType("qint32", 4, "i4", 4), DType("bfloat16", 2, "ml_dtypes.bfloat16", 2), DType("float16", 2, "f2", 2),
    DType("uint16", 2, "u2", 2), DType("int16", 2, "i2", 2),
    DType("float8_e5m2fnuz", 1, "ml_dtypes.float8_e5m2fnuz", 1),
    DType("float8_e4m3fnuz", 1, "ml_dtypes.float8_e4m3fnuz", 1),
    DType("float8_e8m0fnu", 1, "ml_dtypes.float8_e8m0fnu", 1), DType("float8_e4m3fn", 1, "ml_dtypes.float8_e4m3fn", 1),
    DType("float8_e5m2", 1, "ml_dtypes.float8_e5m2", 1), DType("int8", 1, "i1", 1), DType("uint8", 1, "u1", 1),
    DType("bool", 1, "b1", 1), DType("qint8", 1, "i1", 1), DType("quint8", 1, "u1", 1),
    # end dtypes
)}  # fmt: skip

QUANTIZED: Final = frozenset({
    # begin quantized: generated from schema/tables/dtypes.json by schema/generate_tables.py
    "qint32", "qint8", "quint8"
    # end quantized
})  # fmt: skip


STORAGE_ITEMSIZES: Final = {"": 1, **{row.name: row.itemsize for row in DTYPES.values()}}
"""The bytes of an element of a storage, by its dtype; ``""`` is an untyped storage, whose elements are bytes."""


def segment(key: object) -> str:
    """Return a key's part of a tensor's path (FORMAT.md 6.7).

    Text is unchanged, with ``~`` as ``~0``, ``/`` as ``~1`` and a leading ``[`` as ``~2``; empty text
    is ``~3``; every other key is in brackets.
    """
    if type(key) is not str:
        return f"[{key_text(key)}]".replace("~", "~0").replace("/", "~1")
    if "~" in key or "/" in key:
        key = key.replace("~", "~0").replace("/", "~1")
    return f"~2{key[1:]}" if key.startswith("[") else key or "~3"


def other_keys(keys: list[Any]) -> list[Any]:
    """Return those of a dict's keys that are neither text nor 0..n-1: a file could choose ones that collide (6.6)."""
    return [key for key in keys if type(key) is not str and not (type(key) is int and 0 <= key < len(keys))]


def key_text(key: object) -> str:
    """Return a key that is not text as Python's ``repr`` does, long integers in hexadecimal (FORMAT.md 6.7)."""
    if type(key) is int:
        return str(key) if key.bit_length() <= 64 else hex(key)  # long decimals cost, or are refused
    if type(key) is tuple:
        parts = ", ".join(map(key_text, key))
        return f"({parts},)" if len(key) == 1 else f"({parts})"
    if isinstance(key, frozenset):
        return f"frozenset({{{', '.join(sorted(map(key_text, key)))}}})"
    return repr(key)


Chunk: TypeAlias = "bytes | memoryview"

PIECE_BYTES: Final = 1 << 20
"""The size of the pieces in which items are read, compared and written."""


class Decoded:
    """An object with a decoded tree."""

    __slots__ = ()
    tree: Any


class Storage:
    """The bytes of one or more tensors: a record of the zip, or a part of the legacy stream.

    A subclass whose bytes are elsewhere has its own ``_pieces``, from which :meth:`span` and :meth:`chunks` follow;
    with ``is_kept`` False it keeps no bytes in memory.

    :param key: its name in the file
    :param dtype: the dtype of its elements, or ``""`` for an untyped storage, whose elements are bytes
    :param location: torch's device, ``cpu``, ``cuda:0``; it has no effect here
    :param byte_order: ``little`` or ``big``
    :param load: returns its bytes for ``where``, with the CRC checked; called once
    """

    __slots__ = (
        "_bytes", "_load", "_where", "byte_order", "dtype", "key", "location", "nbytes", "numel", "part_of", "swapped",
    )  # fmt: skip
    is_kept: ClassVar[bool] = True

    def __init__(
        self, key: str, dtype: str, numel: int, location: str, byte_order: str,
        load: Callable[[str], memoryview], where: str,
    ) -> None:  # fmt: skip
        self.key = key
        self.dtype = dtype
        self.numel = numel
        self.location = location
        self.byte_order = byte_order
        self.nbytes = numel * STORAGE_ITEMSIZES[dtype]
        self._load = load
        self._where = where
        self._bytes: memoryview | None = None
        self.part_of: tuple[Storage, int] | None = None
        """The storage that this is a view of, and the offset in bytes (torch < 0.4)."""
        self.swapped: dict[int, bytes] | None = None
        """Copies in this machine's byte order, by the bytes swapped together."""

    def bytes(self) -> memoryview:
        """Return its bytes, in the byte order of the file."""
        if self._bytes is not None:
            return self._bytes
        loaded = self._load(self._where)
        if self.is_kept:
            self._bytes = loaded
        return loaded

    def check(self) -> None:
        """Check its bytes."""
        self.bytes()

    def chunks(self, swap: int = 1) -> Iterator[Chunk]:
        """Return its bytes in pieces, as :meth:`span` does."""
        return self.span(0, self.nbytes, swap)

    def span(self, start: int, stop: int, swap: int = 1) -> Iterator[Chunk]:
        """Yield a run of its bytes in pieces.

        :param swap: the number of bytes that are reversed together, of which ``start`` is a multiple: 1 for unchanged
        """
        for piece in self._pieces(start, stop):
            yield piece if swap == 1 else swapped(memoryview(piece), swap)

    def _pieces(self, start: int, stop: int) -> Iterator[Chunk]:
        """Yield a run of its bytes in pieces, each a whole number of items."""
        data = self.bytes()
        for at in range(start, stop, PIECE_BYTES):
            yield data[at : min(at + PIECE_BYTES, stop)]

    def __repr__(self) -> str:
        return f"<Storage {self.key!r} {self.dtype or 'untyped'} {self.nbytes} bytes>"


def swapped(piece: memoryview, swap: int) -> bytes:
    """Reverse each group of ``swap`` bytes; a rest that is shorter stays as it is."""
    whole = len(piece) - len(piece) % swap
    made = bytearray(piece)
    for at in range(swap):
        made[at:whole:swap] = piece[swap - 1 - at : whole : swap]
    return bytes(made)


def cut(pieces: Iterable[Chunk], start: int, stop: int) -> Iterator[Chunk]:
    """Yield a run of the bytes that pieces consist of."""
    at = 0
    for piece in pieces:
        part = memoryview(piece)[max(start - at, 0) : max(stop - at, 0)]
        at += len(piece)
        if part:
            yield part
        if at >= stop:
            break


def check_bools(piece: Chunk, where: str) -> Chunk:
    """Return a piece of items of bool, which torch writes as 0 and 1; a view of another dtype may write others."""
    if bytes(piece).translate(None, b"\0\1"):
        refuse(f"expected only bytes 0 and 1 in {where}, got others")
    return piece


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """C-order strides in items, as torch has them: a size of 0 counts as 1."""
    steps = []
    step = 1
    for size in reversed(shape):
        steps.append(step)
        step *= size or 1
    return tuple(reversed(steps))


class StorageId(Record):
    """The persistent id of a storage, after the storage was opened."""

    storage: Storage


class TensorInfo(Record):
    """The description of a tensor in its file, with the facts that an array cannot represent."""

    dtype: str
    """As torch names it, without ``torch.``."""
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements."""
    offset: int
    """The position of the first element in the storage, in elements."""
    storage: Storage
    """Tensors that share memory share this object."""
    requires_grad: bool = False
    is_parameter: bool = False
    """An ``nn.Parameter``."""
    conj: bool = False
    """The values are the complex conjugates of the elements."""
    neg: bool = False
    """The values are the negatives of the elements."""
    state: Mapping[str, object] | None = None
    """Python attributes that were saved with the tensor."""

    def __repr__(self) -> str:
        """In a line: attributes by their names, for they may share parts in a way that no text can show."""
        facts = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields[:-1], self))
        return f"TensorInfo({facts}, state={self.state if self.state is None else list(self.state)})"

    @property
    def numel(self) -> int:
        """The number of items."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The size of its items in bytes; its storage may have fewer or more bytes."""
        return self.numel * DTYPES[self.dtype].itemsize

    @property
    def location(self) -> str:
        """Torch's device, ``cpu``, ``cuda:0``."""
        return self.storage.location


class MetaTensor(Record):
    """A tensor on the meta device: geometry without data."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    requires_grad: bool = False
    is_parameter: bool = False


class SparseTensor(Record):
    """A sparse tensor as its parts; numpy has no such array."""

    layout: str
    """``sparse_coo``, ``sparse_csr``, ``sparse_csc``, ``sparse_bsr`` or ``sparse_bsc``."""
    shape: tuple[int, ...]
    indices: tuple[Any, ...]
    """COO: one int64 tensor of shape (sparse dimensions, entries). Compressed layouts: the compressed
    indices, then the plain ones."""
    values: Any
    """A tensor of shape (entries, ...)."""
    is_coalesced: bool | None = None
    """COO only; None if the release of torch did not save it."""


class QuantizedTensor(Record):
    """A quantized tensor: integers with the scale and zero point that make numbers of them."""

    int_repr: Any
    """The integers, with torch's quantized dtype (``qint8``, ``quint8``, ``qint32``)."""
    scheme: str
    """``per_tensor_affine``, ``per_channel_affine``, ..."""
    scale: Any
    """A float, or one a channel."""
    zero_point: Any
    """An int, or one a channel."""
    axis: int | None
    """The dimension of the channels."""

    def dequantize(self) -> np.ndarray:
        """Return the numbers, float32, as torch's ``dequantize`` does; needs arrays in the fields."""
        import numpy as np

        scale, zero_point = np.asarray(self.scale), np.asarray(self.zero_point)
        if self.axis is not None:
            shape = [-1 if axis == self.axis else 1 for axis in range(self.int_repr.ndim)]
            scale, zero_point = scale.reshape(shape), zero_point.reshape(shape)
        numbers: np.ndarray = ((self.int_repr.astype(np.float64) - zero_point) * scale).astype(np.float32)
        return numbers


class Size(tuple[int, ...]):
    """``torch.Size``: a shape as a value."""

    __slots__ = ()


DEVICE_INDEXES: Final = range(-1, 128)
"""Eight bits in c10, where -1 is none."""


class Device(Record):
    """``torch.device``."""

    type: str
    index: int | None = None  # type: ignore[assignment]  # torch's own word, which tuples have too


class DTypeName(Record):
    """A torch dtype as a value."""

    name: str


class Layout(Record):
    """``torch.layout``."""

    name: str


class MemoryFormat(Record):
    """``torch.memory_format``."""

    name: str


OnUnknown = Literal["error", "inert"]
"""What to do with an unknown constructor: refuse the entry, or keep the node."""


PLAIN: Final = frozenset({str, int, float, bool, type(None), bytes})
"""Types of values without parts; a key is one of them, or a tuple of them."""
_KEY_PARTS: Final = 8
_TEXT: Final = {str}


def refuse(message: str) -> NoReturn:
    """Raise for what torch never writes."""
    raise TensorError(message)


def refuse_unsupported(message: str, *, hint: str = "") -> NoReturn:
    """Raise for what is valid, or may be, and has no place here."""
    raise UnsupportedError(message, hint=hint)


def check_keys(pairs: Dict, context: DecodeContext) -> list[Any]:
    """Check the keys of a dict and return them.

    Text is hashed with a salt, and the integers 0 to n-1 cannot collide. A file could choose other keys that collide,
    so only few of those are allowed. No key may occur twice.
    """
    keys: list[Any] = [key for key, _ in pairs]
    texts = keys
    if set(map(type, keys)) != _TEXT:
        keys = [_key(key, context) if type(key) in (Call, tuple) else key for key in keys]
        others = other_keys(keys)
        for key in others:
            _check_other_key(key)
        context.budget.spend("other_keys", len(others))
        texts = [key for key in keys if type(key) is str]
    if 4 * max(map(len, texts), default=0) > context.limits.tensor_name_bytes:
        for key in texts:
            context.budget.spend("tensor_name_bytes", len(key.encode("utf-8", "surrogatepass")))
    if len(set(keys)) != len(keys):
        refuse("a dict has the same key twice")
    return keys


def _key(key: Any, context: DecodeContext) -> object:
    """Return a key with its bytes decoded, which protocol 2 encodes as calls; no other call can be a key."""
    if type(key) is tuple:
        if len(key) > _KEY_PARTS:
            refuse(f"a dict has a key of {len(key)} items")
        return tuple([_key(part, context) if type(part) is Call else part for part in key])
    from sbformat.pkl.numpy import encoded_bytes

    raw = encoded_bytes(key)
    if raw is None:
        return key
    context.copy(len(raw))
    return raw


def _check_other_key(key: object) -> None:
    for part in key if type(key) is tuple else (key,):
        if isinstance(part, Node):
            name = quote(part) if isinstance(part, Global) else type(part).__name__.lower()
            refuse_unsupported(f"a dict has a key with a node of the pickle, {name}")
        if type(part) not in PLAIN:
            refuse(f"a dict has a key of type {type(part).__name__.lower()}")
        if part != part:  # noqa: PLR0124 -- NaN alone differs from itself
            refuse("a dict has a key NaN, which Python compares by identity")


_TORCH: Final = {
    row.numpy: row.name for row in DTYPES.values() if row.name not in QUANTIZED and row.name != "complex32"
}
"""torch's dtypes by numpy's codes without the byte order."""


def tensor_info(
    code: str,
    shape: tuple[int, ...],
    order: Literal["C", "F"],
    load: Callable[[str], memoryview],
    *,
    key: str = "",
    axes: tuple[int, ...] = (),
) -> TensorInfo:
    """Describe an array whose bytes are known to fit its shape.

    :param code: of the dtype, in the array interface: ``<f4``
    :param order: how the bytes run through the shape
    :param load: returns the bytes for ``key``; called once
    :param axes: the position of each axis of the shape in the order of the bytes, if that is different
    """
    dtype = _TORCH.get(code.lstrip("<>|="))
    if dtype is None:
        refuse_unsupported(f"a state dict cannot contain an array of the dtype {quote(code, 40)}")
    byte_order = "big" if code.startswith(">") else "little"
    storage = Storage(key, dtype, math.prod(shape), "cpu", byte_order, load, key)
    if axes:
        inner = contiguous(tuple(shape[axes.index(axis)] for axis in range(len(axes))))
        strides = tuple(inner[axis] for axis in axes)
    else:
        strides = contiguous(shape) if order == "C" else contiguous(shape[::-1])[::-1]
    return TensorInfo(dtype, shape, strides, 0, storage)
