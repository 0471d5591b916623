"""Convert tagged JSON with contents, the input of an encoder, to values."""

from __future__ import annotations

import base64
import struct
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sbformat import StateDict
from sbformat.data import Serialized
from sbformat.limits import Budget
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pkl.tree import STORAGE_CLASSES
from sbformat.pth.values import (
    DTYPES,
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
    from collections.abc import Callable


def content(text: str) -> bytes:
    """Base64."""
    return base64.b64decode(text, validate=True)


def floating(text: str) -> float:
    """A binary64 by its 16 digits."""
    return float(struct.unpack(">d", bytes.fromhex(text))[0])


def json_value(value: Any) -> Any:
    """A value of ``data``."""
    if not isinstance(value, dict):
        return value
    if "serialized" in value:
        facts = value["serialized"]
        return Serialized(facts["type"], content(facts["content"]), json_value(facts["hints"]))
    if "list" in value:
        return [json_value(part) for part in value["list"]]
    if "dict" in value:
        return {key: json_value(part) for key, part in value["dict"]}
    return int(value["int"], 16) if "int" in value else floating(value["float"])


def state_dict(value: Any) -> StateDict:
    """A state dict."""
    return StateDict(tree(value), Budget())


def tree(value: Any) -> Any:
    """A value of a state dict."""
    if not isinstance(value, dict):
        return value
    word = next(word for word in value if word in _WORDS)
    return _WORDS[word](value)


def _storage(dtype: str, raw: bytes) -> Storage:
    itemsize = DTYPES[dtype].itemsize if dtype else 1
    view = memoryview(raw)
    return Storage("", dtype, len(raw) // itemsize, "cpu", "little", lambda _: view, "")


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1] * len(shape)
    for axis in range(len(shape) - 1, 0, -1):
        strides[axis - 1] = strides[axis] * max(shape[axis], 1)
    return tuple(strides)


def _strided(body: dict[str, Any], whole: dict[str, Any]) -> TensorInfo:
    shape = tuple(body["shape"])
    typed = body["dtype"] if body["dtype"] in STORAGE_CLASSES else ""
    made = TensorInfo(body["dtype"], shape, _contiguous(shape), 0, _storage(typed, content(body["items"])))
    return made._replace(**_flags(whole), state=tree(whole["state"]) if "state" in whole else None)


def _flags(whole: dict[str, Any]) -> dict[str, bool]:
    return {flag: whole.get(flag, False) for flag in ("requires_grad", "is_parameter")}


def _meta(whole: dict[str, Any]) -> MetaTensor:
    shape = tuple(whole["meta"]["shape"])
    return MetaTensor(whole["meta"]["dtype"], shape, _contiguous(shape), **_flags(whole))


def _quantized(whole: dict[str, Any]) -> QuantizedTensor:
    body = whole["quantized"]
    scale, zero_point = tree(body["scale"]), tree(body["zero_point"])
    return QuantizedTensor(_strided(body, whole), body["scheme"], scale, zero_point, body["axis"])


def _sparse(whole: dict[str, Any]) -> SparseTensor:
    body = whole["sparse"]
    indices = tuple(tree(part) for part in body["indices"])
    return SparseTensor(body["layout"], tuple(body["size"]), indices, tree(body["values"]), body["is_coalesced"])


def _array(body: dict[str, Any], *, is_scalar: bool) -> ArrayInfo:
    code = np.dtype(body["dtype"]).newbyteorder("<").str
    return ArrayInfo(code, tuple(body.get("shape", ())), "C", content(body["items"]), is_scalar)


def _ordered_dict(whole: dict[str, Any]) -> OrderedDict[Any, Any]:
    made = OrderedDict((tree(key), tree(part)) for key, part in whole["ordered_dict"])
    if "_metadata" in whole:
        made._metadata = tree(whole["_metadata"])  # type: ignore[attr-defined]
    return made


def _parts(kind: Callable[[Any], Any]) -> Callable[[dict[str, Any]], Any]:
    return lambda whole: kind(tree(part) for part in whole[kind.__name__])  # type: ignore[attr-defined]


_WORDS: Final[dict[str, Callable[[dict[str, Any]], Any]]] = {
    "int": lambda whole: int(whole["int"], 16),
    "float": lambda whole: floating(whole["float"]),
    "complex": lambda whole: complex(*map(floating, whole["complex"])),
    "bytes": lambda whole: content(whole["bytes"]),
    "bytearray": lambda whole: bytearray(content(whole["bytearray"])),
    **{kind.__name__: _parts(kind) for kind in (list, tuple, set, frozenset)},
    "dict": lambda whole: {tree(key): tree(part) for key, part in whole["dict"]},
    "ordered_dict": _ordered_dict,
    "tensor": lambda whole: _strided(whole["tensor"], whole),
    "meta": _meta,
    "quantized": _quantized,
    "sparse": _sparse,
    "storage": lambda whole: _storage(whole["storage"]["dtype"] or "", content(whole["storage"]["content"])),
    "size": lambda whole: Size(whole["size"]),
    "device": lambda whole: Device(*whole["device"]),
    "dtype": lambda whole: DTypeName(whole["dtype"]),
    "layout": lambda whole: Layout(whole["layout"]),
    "memory_format": lambda whole: MemoryFormat(whole["memory_format"]),
    "array": lambda whole: _array(whole["array"], is_scalar=False),
    "scalar": lambda whole: _array(whole["scalar"], is_scalar=True),
}
