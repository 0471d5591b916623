"""``.pth`` entries as state dicts: the torch zip and the legacy stream, without torch (FORMAT.md 6, 7)."""

from sbformat.pth.decode import decode_pth, decode_zip, loads
from sbformat.pth.encode import dumps, encode_pth
from sbformat.pth.optimizers import emptied
from sbformat.pth.state_dict import Leaf, StateDict
from sbformat.pth.values import (
    Device,
    DTypeName,
    Layout,
    MemoryFormat,
    MetaTensor,
    QuantizedTensor,
    Size,
    SparseTensor,
    Storage,
    TensorInfo,
)

__all__ = [
    "DTypeName",
    "Device",
    "Layout",
    "Leaf",
    "MemoryFormat",
    "MetaTensor",
    "QuantizedTensor",
    "Size",
    "SparseTensor",
    "StateDict",
    "Storage",
    "TensorInfo",
    "decode_pth",
    "decode_zip",
    "dumps",
    "emptied",
    "encode_pth",
    "loads",
]
