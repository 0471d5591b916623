"""Convert decoded values to the tagged JSON of the conformance protocol (``conformance/README.md``)."""

from __future__ import annotations

import base64
import hashlib
import struct
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from sbformat.data import Serialized
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pkl.tree import Dict, Extension, FrozenSet, Global, Node, Persistent, Set, Update
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
    from collections.abc import Iterable

    import numpy as np

EXACT: Final = 2**53
"""Integers below this are JSON numbers."""


def digest(data: bytes | memoryview) -> str:
    """The SHA-256 of bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def hexadecimal(number: float) -> str:
    """The 16 digits of a binary64."""
    return struct.pack(">d", number).hex()


def scalar(value: Any) -> Any:
    """Tag a value without parts; raises TypeError for other values."""
    kind = type(value)
    if value is None or kind in (bool, str):
        return value
    if kind is int:
        return value if abs(value) < EXACT else {"int": hex(value)}
    if kind is float:
        return {"float": hexadecimal(value)}
    if kind is complex:
        return {"complex": [hexadecimal(value.real), hexadecimal(value.imag)]}
    if kind in (bytes, bytearray):
        return {kind.__name__: base64.b64encode(value).decode("ascii")}
    raise TypeError(kind)


def sizes(shape: Iterable[int]) -> list[Any]:
    """Tag the sizes of a shape."""
    return [scalar(size) for size in shape]


# -- data ---------------------------------------------------------------------------------------------


def json_value(value: Any) -> Any:
    """A value of ``data``."""
    if isinstance(value, list):
        return {"list": [json_value(part) for part in value]}
    if isinstance(value, dict):
        return {"dict": [[key, json_value(part)] for key, part in value.items()]}
    if isinstance(value, Serialized):
        facts = {"size": len(value.pickle), "sha256": digest(value.pickle), "canonical": value.is_canonical}
        return {"serialized": {"type": value.type, **facts, "hints": json_value(dict(value.hints))}}
    return scalar(value)


# -- state dicts --------------------------------------------------------------------------------------


class Inert:
    """Represents an inert node: the protocol only prints that there is one."""


def _plain(value: Any) -> Any:
    """Replace the nodes in an attribute by markers: attributes are inert."""
    if isinstance(value, Dict):
        return {key: _plain(part) for key, part in value}
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, (Set, FrozenSet)):
        return Inert()
    if isinstance(value, (list, tuple)):
        return type(value)(map(_plain, value))
    return Inert() if isinstance(value, Node) else value


class StateDicts:
    """Trees of ``.pth`` entries."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._budget = Budget(limits)

    def value(self, value: Any) -> Any:
        """Tag one value; the tree is at most ``value_depth`` deep, and contains no cycle."""
        kind = type(value)
        if kind in (list, tuple, set, frozenset):
            return {kind.__name__: [self.value(part) for part in value]}
        if kind in (dict, OrderedDict):
            return self._dict(value)
        special = _SPECIAL.get(kind)
        return scalar(value) if special is None else special(self, value)

    def _dict(self, value: Any) -> dict[str, Any]:
        pairs = [[self.value(key), self.value(part)] for key, part in value.items()]
        if type(value) is dict:
            return {"dict": pairs}
        made = {"ordered_dict": pairs}
        return {**made, "_metadata": self.value(value._metadata)} if hasattr(value, "_metadata") else made

    def _tensor(self, info: TensorInfo) -> dict[str, Any]:
        body = {"dtype": info.dtype, "shape": sizes(info.shape), "sha256": digest(items(info, self._budget))}
        state = {"state": self.value(_plain(dict(info.state)))} if info.state else {}
        return {"tensor": body, **_flags(info), **state}

    def _meta(self, meta: MetaTensor) -> dict[str, Any]:
        return {"meta": {"dtype": meta.dtype, "shape": sizes(meta.shape)}, **_flags(meta)}

    def _quantized(self, made: QuantizedTensor) -> dict[str, Any]:
        integers = self._tensor(made.int_repr)
        body = integers.pop("tensor")
        scale, zero_point = (list(part) if type(part) is tuple else part for part in (made.scale, made.zero_point))
        facts = {"scheme": made.scheme, "scale": self.value(scale), "zero_point": self.value(zero_point)}
        return {"quantized": {**body, **facts, "axis": made.axis}, **integers}

    def _sparse(self, made: SparseTensor) -> dict[str, Any]:
        from sbformat.pth.arrays import index_arrays

        index_arrays(made, self._budget)
        facts = {"layout": made.layout, "size": sizes(made.shape), "is_coalesced": made.is_coalesced}
        return {"sparse": {**facts, "indices": [*map(self.value, made.indices)], "values": self.value(made.values)}}

    def _storage(self, storage: Storage) -> dict[str, Any]:
        facts = {"dtype": storage.dtype or None, "size": storage.nbytes}
        return {"storage": {**facts, "sha256": digest(storage.bytes())}}

    def _array(self, info: ArrayInfo) -> dict[str, Any]:
        import numpy as np

        array = np.asarray(info.to_numpy())
        if info.is_scalar:
            return {"scalar": {"dtype": array.dtype.name, "sha256": digest(little_endian(array))}}
        return array_value(array)


_SPECIAL: Final[dict[type, Any]] = {
    TensorInfo: StateDicts._tensor,
    MetaTensor: StateDicts._meta,
    QuantizedTensor: StateDicts._quantized,
    SparseTensor: StateDicts._sparse,
    Storage: StateDicts._storage,
    ArrayInfo: StateDicts._array,
    Size: lambda _, size: {"size": sizes(size)},
    Device: lambda _, device: {"device": list(device)},
    DTypeName: lambda _, dtype: {"dtype": dtype.name},
    Layout: lambda _, layout: {"layout": layout.name},
    Inert: lambda *_: {"inert": True},
    MemoryFormat: lambda _, memory_format: {"memory_format": memory_format.name},
}


def _flags(tensor: TensorInfo | MetaTensor) -> dict[str, bool]:
    flags = {"requires_grad": tensor.requires_grad, "is_parameter": tensor.is_parameter}
    return {flag: True for flag, is_set in flags.items() if is_set}


def items(info: TensorInfo, budget: Budget) -> bytes:
    """The items of a tensor in C order, little-endian."""
    import numpy as np  # archives without tensors do not need it

    from sbformat.pth.arrays import to_array

    if DTYPES[info.dtype].numpy.startswith("ml_dtypes."):  # an extra, which is not required for the bytes
        size = DTYPES[info.dtype].itemsize
        array = to_array(info._replace(dtype=f"uint{8 * size}", neg=False), budget)
        return little_endian(array ^ array.dtype.type(1 << (8 * size - 1)) if info.neg else array)
    array = to_array(info, budget)
    if info.dtype == "complex32":  # numpy's complex64 represents each item exactly, so the halves are restored exactly
        array = np.ascontiguousarray(array).reshape(-1).view(np.float32).astype(np.float16)
    return little_endian(array)


def array_value(array: np.ndarray) -> dict[str, Any]:
    """A numpy array."""
    facts = {"dtype": array.dtype.name, "shape": sizes(array.shape)}
    return {"array": {**facts, "sha256": digest(little_endian(array))}}


def little_endian(array: np.ndarray) -> bytes:
    """The bytes of an array in C order."""
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


# -- trees of pickles ---------------------------------------------------------------------------------


class Nodes:
    """The nodes of an inert tree, numbered in the order of the first reference."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._found: list[object] = []

    def reference(self, value: object) -> Any:
        """A value without parts, or the number of its node."""
        if type(value) is tuple and not value:
            return {"tuple": []}
        if not isinstance(value, (list, tuple, Node)):
            return scalar(value)
        if id(value) not in self._numbers:
            self._numbers[id(value)] = len(self._found)
            self._found.append(value)
        return {"node": self._numbers[id(value)]}

    def row(self, row: object) -> Any:
        """A row of the log."""
        return {"changed": self.reference(row.target)} if isinstance(row, Update) else self.reference(row)

    def all(self) -> list[Any]:
        """All nodes that are reachable from the references so far."""
        made: list[Any] = []
        while len(made) < len(self._found):
            made.append(self._node(self._found[len(made)]))
        return made

    def _node(self, value: Any) -> dict[str, Any]:
        if isinstance(value, Dict):
            return {"dict": self._pairs(value)}
        for kind, word in ((Set, "set"), (FrozenSet, "frozenset"), (list, "list"), (tuple, "tuple")):
            if isinstance(value, kind):
                return {word: [self.reference(part) for part in value]}
        made = self._facts(value)
        changes = [self._change(update) for update in value.updates or ()]
        return {**made, **({"changes": changes} if changes else {})}

    def _facts(self, value: Node) -> dict[str, Any]:
        if isinstance(value, Global):
            return {"global": list(value.pair)}
        if isinstance(value, Extension):
            return {"extension": value.code}
        if isinstance(value, Persistent):
            return {"persistent": self.reference(value.id)}
        return self._call(value)

    def _call(self, call: Any) -> dict[str, Any]:
        if call.how == "STACK_GLOBAL":
            return {"call": call.how, "arguments": [self.reference(part) for part in call.args]}
        made = {"call": call.how, "callable": self.reference(call.func), "arguments": self.reference(call.args)}
        return made if call.how != "NEWOBJ_EX" else {**made, "keywords": self.reference(call.kwargs)}

    def _change(self, update: Any) -> dict[str, Any]:
        if update.how == "BUILD":
            return {"BUILD": self.reference(update.value)}
        if update.how == "SETITEMS":
            return {"SETITEMS": self._pairs(update.value)}
        return {update.how: [self.reference(part) for part in update.value]}

    def _pairs(self, pairs: Any) -> list[list[Any]]:
        return [[self.reference(key), self.reference(part)] for key, part in pairs]
