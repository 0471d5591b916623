"""The values of a ``.pth`` without numpy: descriptions of tensors, storages, and torch's small values.

Each of these is in the decoded tree where torch would have its own object. Those that consist of tensors (sparse,
quantized) contain :class:`TensorInfo` in the tree, and arrays after access.
"""

# Annotations are evaluated here: as text, each field's would be compiled, a third of a millisecond of start-up.
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from sbformat.immutable import Record
from sbformat.pth.dtypes import DTYPES, storage_itemsize

if TYPE_CHECKING:
    import numpy as np


Chunk: TypeAlias = "bytes | memoryview"

_CHUNK: Final = 1 << 20


class Decoded:
    """An object with a decoded tree."""

    __slots__ = ()
    tree: Any


class Storage:
    """The bytes of one or more tensors: a record of the zip, or a part of the legacy stream.

    :param key: its name in the file
    :param dtype: the dtype of its elements, or ``""`` for an untyped storage, whose elements are bytes
    :param numel: the number of elements
    :param location: torch's device, ``cpu``, ``cuda:0``; it has no effect here
    :param byte_order: ``little`` or ``big``
    :param load: returns its bytes for ``where``, with the CRC checked; called once
    """

    __slots__ = (
        "_bytes", "_load", "_where", "byte_order", "dtype", "key", "location", "nbytes", "numel", "part_of", "swapped",
    )  # fmt: skip

    def __init__(
        self, key: str, dtype: str, numel: int, location: str, byte_order: str,
        load: Callable[[str], memoryview], where: str,
    ) -> None:  # fmt: skip
        self.key = key
        self.dtype = dtype
        self.numel = numel
        self.location = location
        self.byte_order = byte_order
        self.nbytes = numel * storage_itemsize(dtype)
        self._load = load
        self._where = where
        self._bytes: memoryview | None = None
        self.part_of: tuple[Storage, int] | None = None
        """The storage that this is a view of, and the offset in bytes (torch < 0.4)."""
        self.swapped: dict[int, bytes] | None = None
        """Copies in this machine's byte order, by the bytes swapped together."""

    def bytes(self) -> memoryview:
        """Return its bytes, in the byte order of the file.

        :raises ContainerError: when its record's CRC is wrong
        """
        if self._bytes is None:
            self._bytes = self._load(self._where)
        return self._bytes

    def check(self) -> None:
        """Check its bytes.

        :raises ContainerError: when its record's CRC is wrong
        """
        self.bytes()

    def chunks(self, swap: int = 1) -> Iterator[Chunk]:
        """Yield its bytes in pieces.

        :param swap: the number of bytes that are reversed together: 1 for unchanged
        """
        data = self.bytes()
        for start in range(0, self.nbytes, _CHUNK):
            piece = data[start : start + _CHUNK]
            yield piece if swap == 1 else swapped(piece, swap)

    def span(self, start: int, stop: int, swap: int = 1) -> Iterator[Chunk]:
        """Yield a run of its bytes in pieces.

        :param start: the first byte
        :param stop: the end, at most :attr:`nbytes`
        :param swap: as in :meth:`chunks`; ``start`` is a multiple of it
        """
        at = 0
        for piece in self.chunks(swap):
            part = memoryview(piece)[max(start - at, 0) : max(stop - at, 0)]
            at += len(piece)
            if part:
                yield part
            if at >= stop:
                break

    def __repr__(self) -> str:
        return f"<Storage {self.key!r} {self.dtype or 'untyped'} {self.nbytes} bytes>"


def swapped(piece: memoryview, swap: int) -> bytes:
    """Reverse each group of ``swap`` bytes; a rest that is shorter stays as it is."""
    whole = len(piece) - len(piece) % swap
    made = bytearray(piece)
    for at in range(swap):
        made[at:whole:swap] = piece[swap - 1 - at : whole : swap]
    return bytes(made)


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
        product = 1
        for size in self.shape:
            product *= size
        return product

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

    def dequantize(self) -> "np.ndarray":
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
