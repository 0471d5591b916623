"""A state dict to a ``.pth`` entry: the mirror of ``decode`` (WRITER.md 12.2, 12.3).

Values become the calls that torch would pickle, one level of nodes at a time, which
:func:`sbformat.pkl.encode.encode_pickle` requests. The pickle is encoded immediately, because it is small; the bytes of
the storages are read when they are written.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sbformat.constants import BYTE_ORDER_RECORD, PICKLE_RECORD, STORAGE_FOLDER, TORCH_VERSION_RECORD
from sbformat.container.layout import Member
from sbformat.container.writer import TorchZip
from sbformat.errors import TensorError, UnsupportedError, quote
from sbformat.pkl.encode import encode_pickle
from sbformat.pkl.numpy import ArrayInfo, to_tree
from sbformat.pkl.tree import STORAGE_CLASSES, Call, Dict, FrozenSet, Global, Persistent, Set, Update
from sbformat.pth.state_dict import StateDict
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
    StorageId,
    TensorInfo,
    key_text,
    refuse_unsupported,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


_BATCH: Final = 1000  # items of an OrderedDict that one SETITEMS sets, as in CPython's pickler
_UTILS: Final = "torch._utils"


def _call(module: str, name: str, *args: object) -> Call:
    return Call("REDUCE", Global(module, name), args)


def _ordered(pairs: Iterable[tuple[object, object]] = ()) -> Call:
    made = _call("collections", "OrderedDict")
    items = list(pairs)
    made.updates = [Update("SETITEMS", made, items[start : start + _BATCH]) for start in range(0, len(items), _BATCH)]
    return made


class Calls:
    """The encoder of one ``.pth``: its storages in the order of the tree, numbered from 0, whatever keys they had.

    A part of another storage (torch < 0.4) becomes an offset into that one.
    """

    def __init__(self) -> None:
        self.storages: list[tuple[Storage, int]] = []
        """Each with the bytes of it that are reversed together: files are written little-endian."""
        self._ids: dict[int, tuple[object, ...]] = {}

    def reduce(self, value: object) -> object:
        """Return the tree for a value without an opcode."""
        kind = next((kind for kind in type(value).__mro__ if kind in _MAKERS), None)
        if kind is None:
            refuse_unsupported(f"a .pth cannot contain a {type(value).__name__}")
        return _MAKERS[kind](self, value)

    # -- storages -------------------------------------------------------------------------------------

    def find_id(self, storage: Storage, swap: int | None = None) -> tuple[object, ...]:
        """Return a storage's persistent id, one for all that refer to it."""
        known = self._ids.get(id(storage))
        if known is None:
            swap = swap or (DTYPES[storage.dtype].swap if storage.dtype else 1)
            key = len(self.storages)
            cls = Global(*STORAGE_CLASSES[storage.dtype])
            known = self._ids[id(storage)] = ("storage", cls, str(key), storage.location, storage.numel)
            self.storages.append((storage, 1 if storage.byte_order == "little" else swap))
        elif swap is not None and storage.byte_order != "little" and self.storages[int(str(known[2]))][1] != swap:
            refuse_unsupported(
                f"the big-endian storage {quote(storage.key)} has items of two sizes, so its bytes cannot be reordered"
            )
        return known

    # -- tensors --------------------------------------------------------------------------------------

    def _strided(self, info: TensorInfo) -> tuple[str, tuple[object, ...]]:
        """Return the function that rebuilds a strided tensor, and its arguments."""
        _, itemsize, _, swap = DTYPES[info.dtype]
        storage, start = info.storage.part_of or (info.storage, 0)
        if start % itemsize:  # a part of an untyped storage, at no multiple of its items
            storage, start = info.storage, 0
        self.find_id(storage, swap)
        offset = info.offset + start // itemsize
        args: tuple[object, ...] = (
            Persistent(StorageId(storage)), offset, info.shape, info.strides, _learns(info), _ordered(),
        )  # fmt: skip
        bits = Dict((name, True) for name in ("conj", "neg") if getattr(info, name))
        more: tuple[object, ...] = (bits,) if bits else ()
        if storage.dtype:
            return "_rebuild_tensor_v2", args + more
        return "_rebuild_tensor_v3", (*args, Global("torch", info.dtype), *more)

    def reduce_tensor(self, info: TensorInfo) -> Call:
        """Return the call that rebuilds a strided tensor."""
        name, args = self._strided(info)
        made = _call(_UTILS, name, *args)
        if info.state is None:
            return _as_marked(made, info)
        attributes = Dict(info.state.items())
        if info.is_parameter:
            return _call(_UTILS, "_rebuild_parameter_with_state", made, info.requires_grad, _ordered(), attributes)
        cls = Global("torch", "Tensor")
        return _call("torch._tensor", "_rebuild_from_type_v2", Global(_UTILS, name), cls, args, attributes)

    def reduce_quantized(self, value: QuantizedTensor) -> Call:
        """Return the call that rebuilds a quantized tensor."""
        info = value.int_repr
        _, args = self._strided(info)
        *geometry, learns, hooks = args
        numbers = [list(part) if type(part) is tuple else part for part in (value.scale, value.zero_point)]
        scheme = (Global("torch", value.scheme), *numbers, *(() if value.axis is None else (value.axis,)))
        return _as_marked(_call(_UTILS, "_rebuild_qtensor", *geometry, scheme, learns, hooks), info)

    def reduce_sparse(self, value: SparseTensor) -> Call:
        """Return the call that rebuilds a sparse tensor."""
        from sbformat.limits import Budget
        from sbformat.pth.arrays import index_arrays
        from sbformat.pth.context import check_shapes

        try:
            check_shapes(value)
            index_arrays(value, Budget())
        except TensorError as error:
            raise UnsupportedError(error.message) from None
        entries = value.values._replace(is_parameter=False, requires_grad=_learns(value.values))
        parts = (*value.indices, entries, Size(value.shape))
        if value.is_coalesced is not None:
            parts += (value.is_coalesced,)
        return _as_marked(_call(_UTILS, "_rebuild_sparse_tensor", Layout(value.layout), parts), value.values)

    def reduce_meta(self, value: MetaTensor) -> Call:
        """Return the call that rebuilds a tensor without data."""
        geometry = Global("torch", value.dtype), value.shape, value.strides, _learns(value)
        return _as_marked(_call(_UTILS, "_rebuild_meta_tensor_no_storage", *geometry), value)


_MAKERS: Final[dict[type, Callable[[Calls, Any], object]]] = {
    dict: lambda _, value: Dict(_without_nan(value).items()),
    OrderedDict: lambda _, value: _ordered_dict(value),
    set: lambda _, value: Set(_in_order(value)),
    frozenset: lambda _, value: FrozenSet(_in_order(value)),
    complex: lambda _, value: _call("builtins", "complex", value.real, value.imag),
    Size: lambda _, value: _call("torch", "Size", tuple(value)),
    Device: lambda _, value: _call("torch", "device", *(part for part in value if part is not None)),
    DTypeName: lambda _, value: Global("torch", value.name),
    MemoryFormat: lambda _, value: Global("torch", value.name),
    Layout: lambda _, value: _call("torch.serialization", "_get_layout", f"torch.{value.name}"),
    ArrayInfo: lambda _, value: to_tree(value),
    Storage: lambda _, value: Persistent(StorageId(value)),
    StorageId: lambda calls, value: calls.find_id(value.storage),
    TensorInfo: Calls.reduce_tensor,
    QuantizedTensor: Calls.reduce_quantized,
    SparseTensor: Calls.reduce_sparse,
    MetaTensor: Calls.reduce_meta,
}
"""The functions that make the trees of values, by type. They are not methods of an encoder's own table, which would
refer to the encoder: its storages, and so the file, would wait for the garbage collector."""


def _learns(info: TensorInfo | MetaTensor) -> bool:
    """Return whether the data of a tensor requires a gradient; for a parameter, the call around it has that."""
    return info.requires_grad and not info.is_parameter


def _as_marked(data: Call, info: TensorInfo | MetaTensor) -> Call:
    """Return the call of a tensor as that of a parameter, if it is one."""
    return _call(_UTILS, "_rebuild_parameter", data, info.requires_grad, _ordered()) if info.is_parameter else data


def _ordered_dict(value: OrderedDict[Any, Any]) -> Call:
    """Return the tree of an OrderedDict, with the attribute ``_metadata`` that ``Module.state_dict`` sets."""
    made = _ordered(_without_nan(value).items())
    if hasattr(value, "_metadata"):
        made.updates = [*(made.updates or ()), Update("BUILD", made, Dict([("_metadata", value._metadata)]))]  # noqa: SLF001 -- torch's own name
    return made


_Keys = TypeVar("_Keys", bound="Iterable[object]")


def _without_nan(keys: _Keys) -> _Keys:
    """Return the keys of a dict or the members of a set, none of which may be NaN (FORMAT.md 6.6)."""
    for key in keys:
        if type(key) is not str and any(part != part for part in (key if type(key) is tuple else (key,))):  # noqa: PLR0124
            refuse_unsupported("a .pth cannot contain NaN as a key or a member of a set")
    return keys


def _in_order(members: Iterable[object]) -> list[object]:
    """Return the members of a set in an order that does not depend on hashes."""
    return sorted(_without_nan(members), key=lambda member: (type(member).__name__, key_text(member)))


_ROOT: Final = "archive/"


def encode_pth(state_dict: StateDict) -> TorchZip:
    """Return the layout of the torch zip of a state dict; its bytes are created on access."""
    return encode_tree(state_dict.tree)


def encode_tree(tree: object) -> TorchZip:
    """Do the same for a tree of values of a state dict, and of inert nodes."""
    calls = Calls()
    pickle = encode_pickle(tree, protocol=2, reduce=calls.reduce)
    records = [_held(PICKLE_RECORD, pickle), _held(BYTE_ORDER_RECORD, b"little")]
    for key, (storage, swap) in enumerate(calls.storages):
        name = f"{_ROOT}{STORAGE_FOLDER}{key}"
        records.append(Member(name, storage.nbytes, partial(storage.chunks, swap)))
    records.append(_held(TORCH_VERSION_RECORD, b"3\n"))
    return TorchZip(records)


def dumps(state_dict: object) -> bytes:
    """Encode a state dict as torch saves it: what ``torch.load(..., weights_only=True)`` of torch >= 1.6 reads.

    :param state_dict: a :class:`StateDict`, or the arrays that :meth:`StateDict.from_arrays` takes
    :return: the bytes of a ``.pth``; the same for the same values
    """
    made = state_dict if isinstance(state_dict, StateDict) else StateDict.from_arrays(state_dict)
    return b"".join(encode_pth(made).chunks())


def _held(name: str, data: bytes) -> Member:
    return Member(_ROOT + name, len(data), lambda: (data,))
