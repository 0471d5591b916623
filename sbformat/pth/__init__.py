"""``.pth`` entries as state dicts: the torch zip and the legacy stream, without torch (FORMAT.md 6, 7).

The encoder is imported when it is first used: most programs only read.
"""

from typing import TYPE_CHECKING

from sbformat.pth.decode import decode_pth, decode_zip, loads, open_pth
from sbformat.pth.state_dict import Leaf, StateDict, clear_optimizer
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

__all__ = [
    "DTypeName", "Device", "Layout", "Leaf", "MemoryFormat", "MetaTensor", "QuantizedTensor", "Size", "SparseTensor",
    "StateDict", "Storage", "TensorInfo", "clear_optimizer", "decode_pth", "decode_zip", "dumps", "encode_pth", "loads",
    "open_pth",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name in ("dumps", "encode_pth"):
        from sbformat.pth import encode

        return getattr(encode, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
