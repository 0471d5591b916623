"""``.pth`` entries as state dicts: the torch zip and the legacy stream, without torch (FORMAT.md 6, 7).

What encodes is loaded when it is asked for: most who read never write.
"""

from typing import TYPE_CHECKING

from sbformat.pth.decode import decode_pth, decode_zip, loads, open_pth
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

if TYPE_CHECKING:
    from sbformat.pth.encode import dumps, encode_pth
    from sbformat.pth.optimizers import emptied

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
    "open_pth",
]


_LATER = {"dumps": "encode", "encode_pth": "encode", "emptied": "optimizers"}


def __getattr__(name: str) -> object:
    if name in _LATER:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
