"""The exact ``(module, name)`` pairs that a ``.pth`` may contain, with the role of each (FORMAT.md 5.4).

Python 2 names are renamed before they are looked up here. Sources: torch ``_utils.py``, ``_tensor.py``, ``storage.py``,
``_weights_only_unpickler.py``; numpy ``_core/multiarray``.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

Pair: TypeAlias = tuple[str, str]

PthRole: TypeAlias = Literal[
    "tensor", "tensor_v2", "tensor_v3", "qtensor", "parameter", "parameter_with_state", "from_type_v2", "sparse",
    "meta", "size", "device", "layout", "ordered_dict", "set", "frozenset", "bytearray", "complex", "encode",
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
NUMPY_RECONSTRUCT_NAME: Final = "_reconstruct"

TENSOR_CLASSES: Final[dict[Pair, bool]] = {
    ("torch", "Tensor"): False,
    ("torch.nn.parameter", "Parameter"): True,
}
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
