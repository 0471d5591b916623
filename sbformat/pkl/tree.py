"""The inert tree: the content of a pickle, with nothing imported, called or hashed (FORMAT.md 5.2).

None, bool, int, float, str, bytes, bytearray, tuple and list are themselves; bytes that are too many to keep in memory
may be :class:`Unread`. Everything else is one of the small nodes below. A tree may share parts and may contain itself:
walk it with a visited set, never by recursion.

The names that a ``.pth`` may contain, with the role of each, are below the nodes (FORMAT.md 5.4). Python 2 names are
renamed before they are looked up here. Sources: torch ``_utils.py``, ``_tensor.py``, ``storage.py``,
``_weights_only_unpickler.py``; numpy ``_core/multiarray``.
"""

from __future__ import annotations

from _weakref import ref  # the module weakref takes a millisecond to import
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sbformat.io.source import Source


How: TypeAlias = Literal["REDUCE", "NEWOBJ", "NEWOBJ_EX", "INST", "OBJ", "STACK_GLOBAL"]
UpdateHow: TypeAlias = Literal["BUILD", "APPENDS", "SETITEMS", "ADDITEMS"]


class Dict(list[tuple[object, object]]):
    """A dict as the pairs that were set, in order, including repeated keys."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<Dict of {len(self)} pairs>"


class Set(list[object]):
    """A set as the items that were added, in order."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<Set of {len(self)} items>"


class FrozenSet(tuple[object, ...]):
    """A frozenset as its items, in order."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<FrozenSet of {len(self)} items>"


class Node:
    """A value that only the real unpickler could create, with the changes that were made to it afterwards."""

    __slots__ = ("__weakref__", "updates")

    updates: list[Update] | None
    """BUILD, APPENDS, SETITEMS and ADDITEMS on this node, in order; None when there were none."""

    def __init__(self) -> None:
        self.updates = None


class Update:
    """One change of a node: an opcode that would call a method of the value that the node describes."""

    __slots__ = ("_target", "how", "value")

    def __init__(self, how: UpdateHow, target: Node, value: object) -> None:
        self.how = how
        self._target: Node | ref[Node] = target if type(target) is Persistent else ref(target)
        self.value = value
        """BUILD: the state. APPENDS, ADDITEMS: a list of items. SETITEMS: a list of pairs."""

    @property
    def target(self) -> Node:
        """The node that is changed, as long as the tree or its log is in memory.

        A weak reference: the node refers to its updates, and a tree with cycles would wait for the garbage collector.
        Only a Persistent, which is not in the log, is referred to directly.
        """
        target = self._target
        if isinstance(target, Node):
            return target
        node = target()
        if node is None:
            raise ReferenceError("the tree of this update is gone")
        return node

    def __reduce__(self) -> tuple[type[Update], tuple[UpdateHow, Node, object]]:
        return Update, (self.how, self.target, self.value)  # a weak reference is neither copied nor pickled

    def __repr__(self) -> str:
        return f"<{self.how} on {self.target!r}>"


class Global(Node):
    """A name that the unpickler would import; equal when module and name are."""

    __slots__ = ("pair",)

    def __init__(self, module: str, name: str) -> None:
        self.updates = None
        self.pair = (module, name)

    @property
    def module(self) -> str:
        """The module, with Python 2 names already renamed below protocol 3."""
        return self.pair[0]

    @property
    def name(self) -> str:
        """The name in it; dotted names (protocol 4) stay dotted."""
        return self.pair[1]

    def __eq__(self, other: object) -> bool:
        return self.pair == other.pair if isinstance(other, Global) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.pair)

    def __str__(self) -> str:
        return ".".join(self.pair)

    def __repr__(self) -> str:
        return f"Global{self.pair!r}"


class Call(Node):
    """A call that is not executed; of STACK_GLOBAL, a computed name, ``args`` are module and name."""

    __slots__ = ("args", "func", "how", "kwargs")

    def __init__(self, how: How, func: object, args: object, kwargs: object = None) -> None:
        self.updates = None
        self.how = how
        self.func = func
        self.args = args  # a tuple, or a node whose value would have to be one
        self.kwargs = kwargs  # NEWOBJ_EX only: a :class:`Dict` or a node

    def __repr__(self) -> str:
        func = str(self.func) if isinstance(self.func, Global) else "computed"
        return f"<{self.how} {func}>"


class Persistent(Node):
    """A reference that the file format resolves: in a ``.pth``, a storage."""

    __slots__ = ("id",)

    def __init__(self, id: object) -> None:  # noqa: A002 -- the pickle protocol's own word
        self.updates = None
        self.id = id

    def __repr__(self) -> str:
        return "<Persistent>"


class Extension(Node):
    """A name by its number in the ``copyreg`` extension registry, which is never used."""

    __slots__ = ("code",)

    def __init__(self, code: int) -> None:
        self.updates = None
        self.code = code

    def __repr__(self) -> str:
        return f"Extension({self.code})"


class Unread:
    """Bytes that stay in the file until they are requested, because they are too many to keep in memory.

    An object is equal to itself only: to compare the bytes would be to read them.

    :param is_bytearray: whether the pickle contains a bytearray, not bytes
    """

    __slots__ = ("is_bytearray", "offset", "size", "source")

    def __init__(self, source: Source, offset: int, size: int, *, is_bytearray: bool = False) -> None:
        self.source = source
        self.offset = offset
        self.size = size
        self.is_bytearray = is_bytearray

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, run: slice) -> Unread:
        if not isinstance(run, slice) or run.step not in (None, 1):
            raise TypeError("expected a slice with step 1 of unread bytes")
        start, stop, _ = run.indices(self.size)
        return Unread(self.source, self.offset + start, max(stop - start, 0))

    def __bytes__(self) -> bytes:
        return self.read()

    def view(self) -> memoryview:
        """Return all of the bytes, copied only if the source has to copy."""
        return self.source.view(self.offset, self.size)

    def read(self) -> bytes:
        """Return all of them as bytes, copied only if necessary."""
        view = self.view()
        owner = view.obj
        return owner if type(owner) is bytes and len(owner) == len(view) else bytes(view)

    def chunks(self, size: int = 1 << 20) -> Iterator[memoryview]:
        """Yield the bytes in chunks of ``size``; the last one may be shorter."""
        for start in range(0, self.size, size):
            yield self.source.view(self.offset + start, min(size, self.size - start))

    def freeze(self) -> Unread:
        """Return the same bytes as an object that is not a bytearray."""
        return Unread(self.source, self.offset, self.size) if self.is_bytearray else self

    def __repr__(self) -> str:
        return f"<Unread {self.size} bytes at {self.offset}>"


LEAVES: Final = frozenset({str, int, float, bool, bytes, type(None)})
"""Types of most parts that are neither composite values nor nodes."""
COMPOSITES: Final = frozenset({list, tuple, Dict, Set, FrozenSet, Call, Persistent, Extension})
"""Types of all values that have parts or can be changed. A name can be changed too, but two equal ones are the same."""
WALKED: Final = COMPOSITES | {Global}  # types of all composite values and nodes
BYTES: Final = frozenset({bytes, bytearray, Unread})  # types of bytes, in memory or left in the file


def walk(root: object, seen: set[int] | None = None, kinds: frozenset[type] = WALKED) -> Iterator[object]:
    """Yield every composite value and node of a tree once, parents before children.

    It is iterative, with a visited set: shared parts and cycles are visited once.

    :param seen: the ``id()`` of each value to skip; those of the values that are yielded are added
    :param kinds: the types to yield: :data:`WALKED`, or more
    """
    seen = set() if seen is None else seen
    todo: list[Any] = [root] if type(root) in kinds else []
    while todo:
        value = todo.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        yield value
        kind = type(value)
        if kind is tuple or kind is list:
            parts = value
        elif kind is Call and not value.updates:
            parts = (value.func, value.args, value.kwargs)
        elif kind is Global and not value.updates:
            continue
        else:
            parts = children(value)
        if not kinds.isdisjoint(map(type, parts)):
            todo += [part for part in reversed(parts) if type(part) in kinds]


def children(value: object) -> Sequence[object]:
    """Return the parts of a composite value or node, in the order of the pickle; do not change what is returned."""
    if isinstance(value, Node):
        parts: list[object] = []
        if type(value) is Call:
            parts = [value.func, value.args, value.kwargs]
        elif type(value) is Persistent:
            parts = [value.id]
        if value.updates:
            add_changes(value.updates, parts)
        return parts
    if type(value) is Dict:
        return [part for pair in value for part in pair]
    return value if isinstance(value, (list, tuple)) else []


def add_changes(updates: list[Update], parts: list[object]) -> None:
    """Add to the parts of a node what its changes gave it."""
    for update in updates:
        if update.how == "BUILD":
            parts.append(update.value)
        elif update.how == "SETITEMS":
            parts += [part for pair in update.value for part in pair]  # type: ignore[attr-defined]
        else:
            parts += update.value  # type: ignore[arg-type]


Pair: TypeAlias = tuple[str, str]

TensorRole: TypeAlias = Literal[
    "tensor", "tensor_v2", "tensor_v3", "qtensor", "parameter", "parameter_with_state", "from_type_v2", "sparse",
    "meta",
]  # fmt: skip
"""Roles of calls whose value is a tensor."""
PthRole: TypeAlias = Literal[
    TensorRole, "size", "device", "layout", "ordered_dict", "set", "frozenset", "bytearray", "complex", "encode",
    "bytes", "numpy_scalar", "numpy_array",
]  # fmt: skip

CALLS: Final[dict[Pair, PthRole]] = {
    ("torch._utils", "_rebuild_tensor"): "tensor",
    ("torch._utils", "_rebuild_tensor_v2"): "tensor_v2",
    ("torch._utils", "_rebuild_tensor_v3"): "tensor_v3",
    ("torch._utils", "_rebuild_qtensor"): "qtensor",
    ("torch._utils", "_rebuild_parameter"): "parameter",
    ("torch._utils", "_rebuild_parameter_with_state"): "parameter_with_state",
    ("torch._utils", "_rebuild_sparse_tensor"): "sparse",
    ("torch._utils", "_rebuild_sparse_csr_tensor"): "sparse",  # torch 1.11 to 1.13
    ("torch._utils", "_rebuild_meta_tensor_no_storage"): "meta",
    ("torch._tensor", "_rebuild_from_type_v2"): "from_type_v2",
    ("torch", "Size"): "size",
    ("torch", "device"): "device",
    ("torch.serialization", "_get_layout"): "layout",
    ("collections", "OrderedDict"): "ordered_dict",
    ("builtins", "set"): "set",
    ("builtins", "frozenset"): "frozenset",
    ("builtins", "bytearray"): "bytearray",
    ("builtins", "complex"): "complex",
    ("_codecs", "encode"): "encode",
    ("builtins", "bytes"): "bytes",  # protocol 2 writes b"" so
    ("numpy.core.multiarray", "scalar"): "numpy_scalar",
    ("numpy.core._multiarray_umath", "scalar"): "numpy_scalar",  # some builds of numpy 1.16 to 1.19
    ("numpy._core.multiarray", "scalar"): "numpy_scalar",
    ("numpy.core.multiarray", "_reconstruct"): "numpy_array",
    ("numpy.core._multiarray_umath", "_reconstruct"): "numpy_array",
    ("numpy._core.multiarray", "_reconstruct"): "numpy_array",
    ("numpy.core.numeric", "_frombuffer"): "numpy_array",
    ("numpy._core.numeric", "_frombuffer"): "numpy_array",
}
"""Functions that may be called."""

NUMPY_DTYPE: Final[Pair] = ("numpy", "dtype")
NUMPY_NDARRAY: Final[Pair] = ("numpy", "ndarray")
NUMPY_RECONSTRUCT: Final = "_reconstruct"

TENSOR_CLASSES: Final[dict[Pair, bool]] = {("torch", "Tensor"): False, ("torch.nn.parameter", "Parameter"): True}
"""Classes whose instances ``_rebuild_from_type_v2`` may return, and whether each is a Parameter."""

STORAGES: Final[dict[Pair, str]] = {
    # begin storages: generated from schema/tables/storages.json by schema/generate_tables.py
    ("torch", "DoubleStorage"): "float64",
    ("torch.cuda", "DoubleStorage"): "float64",
    ("torch", "FloatStorage"): "float32",
    ("torch.cuda", "FloatStorage"): "float32",
    ("torch", "HalfStorage"): "float16",
    ("torch.cuda", "HalfStorage"): "float16",
    ("torch", "BFloat16Storage"): "bfloat16",
    ("torch.cuda", "BFloat16Storage"): "bfloat16",
    ("torch", "LongStorage"): "int64",
    ("torch.cuda", "LongStorage"): "int64",
    ("torch", "IntStorage"): "int32",
    ("torch.cuda", "IntStorage"): "int32",
    ("torch", "ShortStorage"): "int16",
    ("torch.cuda", "ShortStorage"): "int16",
    ("torch", "CharStorage"): "int8",
    ("torch.cuda", "CharStorage"): "int8",
    ("torch", "ByteStorage"): "uint8",
    ("torch.cuda", "ByteStorage"): "uint8",
    ("torch", "BoolStorage"): "bool",
    ("torch.cuda", "BoolStorage"): "bool",
    ("torch", "ComplexDoubleStorage"): "complex128",
    ("torch.cuda", "ComplexDoubleStorage"): "complex128",
    ("torch", "ComplexFloatStorage"): "complex64",
    ("torch.cuda", "ComplexFloatStorage"): "complex64",
    ("torch", "ComplexHalfStorage"): "complex32",
    ("torch.cuda", "ComplexHalfStorage"): "complex32",
    ("torch", "QInt8Storage"): "qint8",
    ("torch.cuda", "QInt8Storage"): "qint8",
    ("torch", "QUInt8Storage"): "quint8",
    ("torch.cuda", "QUInt8Storage"): "quint8",
    ("torch", "QInt32Storage"): "qint32",
    ("torch.cuda", "QInt32Storage"): "qint32",
    ("torch.storage", "UntypedStorage"): "",
    ("torch", "UntypedStorage"): "",
    # end storages
}
"""Storage classes and the dtype of their elements; an untyped storage counts bytes."""

STORAGE_CLASSES: Final[dict[str, Pair]] = {dtype: pair for pair, dtype in reversed(STORAGES.items())}
"""The class that the writer names for a storage of each dtype."""

_DTYPE_NAMES: Final = (
    # begin dtypes: generated from schema/tables/dtypes.json by schema/generate_tables.py
    "complex128", "uint64", "int64", "float64", "complex64", "float32", "uint32", "int32", "complex32", "qint32",
    "bfloat16", "float16", "uint16", "int16", "float8_e5m2fnuz", "float8_e4m3fnuz", "float8_e8m0fnu", "float8_e4m3fn",
    "float8_e5m2", "int8", "uint8", "bool", "qint8", "quint8",
    # end dtypes
)  # fmt: skip
DTYPES: Final[dict[Pair, str]] = {("torch", name): name for name in _DTYPE_NAMES}
"""torch dtypes, as values and as arguments."""

DEVICE_TYPES: Final = frozenset(
    {
        "cpu", "cuda", "fpga", "hip", "hpu", "ideep", "ipu", "lazy", "maia", "meta", "metal", "mkldnn", "mps", "msnpu",
        "mtia", "opencl", "opengl", "ort", "privateuseone", "ve", "vulkan", "xla", "xpu",
    }
)  # fmt: skip
"""Types of devices that some release of torch knows; an extension may register others."""

MEMORY_FORMATS: Final[dict[Pair, str]] = {
    ("torch", name): name for name in ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
}

PACKED_STORAGES: Final = frozenset(
    {
        # begin packed: generated from schema/tables/storages.json by schema/generate_tables.py
        ("torch", "QUInt4x2Storage"),
        ("torch", "QUInt2x4Storage"),
        # end packed
    }
)
"""Storages with several items per byte."""

LAYOUTS: Final = frozenset({"strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"})

QUANTIZATION_SCHEMES: Final[dict[Pair, bool]] = {
    ("torch", "per_tensor_affine"): False,
    ("torch", "per_tensor_symmetric"): False,
    ("torch", "per_channel_affine"): True,
    ("torch", "per_channel_symmetric"): True,
    ("torch", "per_channel_affine_float_qparams"): True,
}
"""Quantization schemes, and whether each has one scale per channel."""
