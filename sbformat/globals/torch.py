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

_STORAGE_DTYPES: Final = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "ComplexDoubleStorage": "complex128",
    "ComplexFloatStorage": "complex64",
    "ComplexHalfStorage": "complex32",
    "QInt8Storage": "qint8",
    "QUInt8Storage": "quint8",
    "QInt32Storage": "qint32",
}

STORAGES: Final[dict[Pair, str]] = {
    **{("torch", name): dtype for name, dtype in _STORAGE_DTYPES.items()},
    **{("torch.cuda", name): dtype for name, dtype in _STORAGE_DTYPES.items()},  # before torch 0.4
    ("torch.storage", "UntypedStorage"): "",
    ("torch", "UntypedStorage"): "",
}
"""Storage classes and the dtype of their elements; an untyped storage counts bytes."""

STORAGE_CLASSES: Final[dict[str, Pair]] = {
    **{dtype: ("torch", name) for name, dtype in _STORAGE_DTYPES.items()},
    "": ("torch.storage", "UntypedStorage"),
}
"""The class that the writer names for a storage of each dtype."""

DTYPES: Final[dict[Pair, str]] = {
    ("torch", name): name
    for name in (
        "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32",
        "float64", "bfloat16", "complex32", "complex64", "complex128", "float8_e4m3fn", "float8_e4m3fnuz",
        "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "qint8", "quint8", "qint32",
    )
}  # fmt: skip
"""torch dtypes, as values and as arguments."""

MEMORY_FORMATS: Final[dict[Pair, str]] = {
    ("torch", name): name for name in ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
}

PACKED_STORAGES: Final = frozenset({("torch", "QUInt4x2Storage"), ("torch", "QUInt2x4Storage")})
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
