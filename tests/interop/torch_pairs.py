"""Two values that torch loaded, compared: bit for bit, with strides, flags, attributes and what is one object."""

from __future__ import annotations

import struct
from collections import OrderedDict
from typing import Any

import numpy as np
import torch

from tests.interop.torch_values import item_bytes

_KEYED = (dict, OrderedDict)
_LISTED = (list, tuple, torch.Size)


def assert_alike(theirs: Any, ours: Any) -> int:
    """Assert that two values are equal in all that torch can tell, and return how many tensors they hold.

    What is one object, and what is one storage, in the first is one in the second, and the other way.
    """
    comparison = _Comparison()
    comparison.compare(theirs, ours, "")
    return comparison.tensors


class _Comparison:
    def __init__(self) -> None:
        self.tensors = 0
        self.objects: dict[object, object] = {}
        """What an object, a storage of the first value is in the second."""
        self.backwards: dict[object, object] = {}
        self.held: list[object] = []
        """Whose addresses were noted: none is given to another."""

    def one_to_one(self, theirs: object, ours: object, at: str) -> None:
        assert self.objects.setdefault(theirs, ours) == ours, f"{at}: shared there, not here"
        assert self.backwards.setdefault(ours, theirs) == theirs, f"{at}: shared here, not there"

    def compare(self, theirs: Any, ours: Any, at: str) -> None:
        assert type(theirs) is type(ours), at
        if isinstance(theirs, torch.Tensor):
            self.same_object(theirs, ours, at)
            self.tensors += 1
            self.compare_tensor(theirs, ours, at)
        elif isinstance(theirs, _KEYED):
            self.same_object(theirs, ours, at)
            assert list(map(scalar, theirs)) == list(map(scalar, ours)), at
            for key, value in theirs.items():
                self.compare(value, ours[key], f"{at}/{key!r:.200}")
            assert vars(theirs).keys() == vars(ours).keys() if hasattr(theirs, "__dict__") else True, at
            if hasattr(theirs, "_metadata"):
                self.compare(theirs._metadata, ours._metadata, f"{at}._metadata")
        elif isinstance(theirs, _LISTED):
            if isinstance(theirs, list):
                self.same_object(theirs, ours, at)
            assert len(theirs) == len(ours), at
            for index, value in enumerate(theirs):
                self.compare(value, ours[index], f"{at}/[{index}]")
        elif isinstance(theirs, (torch.UntypedStorage, torch.TypedStorage)):
            self.compare_storage(theirs, ours, at)
        elif isinstance(theirs, np.ndarray):
            assert (theirs.dtype, theirs.shape, theirs.strides) == (ours.dtype, ours.shape, ours.strides), at
            assert theirs.tobytes() == ours.tobytes(), at
        elif isinstance(theirs, np.generic):
            assert (theirs.dtype, theirs.tobytes()) == (ours.dtype, ours.tobytes()), at
        else:
            assert scalar(theirs) == scalar(ours), at

    def same_object(self, theirs: Any, ours: Any, at: str) -> None:
        self.held += [theirs, ours]
        self.one_to_one(id(theirs), id(ours), at)

    def compare_storage(self, theirs: Any, ours: Any, at: str) -> None:
        if isinstance(theirs, torch.TypedStorage):
            assert theirs.dtype == ours.dtype, at
            theirs, ours = theirs._untyped_storage, ours._untyped_storage
        assert theirs.nbytes() == ours.nbytes(), at
        pair = ("storage", theirs._cdata), ("storage", ours._cdata)
        if self.objects.get(pair[0]) != pair[1]:
            assert torch.equal(raw(theirs), raw(ours)), at
        self.held += [theirs, ours]
        self.one_to_one(*pair, at)

    def compare_tensor(self, theirs: torch.Tensor, ours: torch.Tensor, at: str) -> None:
        for name in ("dtype", "shape", "layout", "device", "requires_grad", "is_leaf", "is_quantized"):
            assert getattr(theirs, name) == getattr(ours, name), f"{at}: {name}"
        self.compare(vars(theirs), vars(ours), f"{at}.__dict__")
        if theirs.layout == torch.sparse_coo:
            assert theirs.is_coalesced() == ours.is_coalesced(), at
            self.compare_tensor(theirs._indices(), ours._indices(), f"{at}.indices")
            self.compare_tensor(theirs._values(), ours._values(), f"{at}.values")
        elif theirs.layout != torch.strided:
            by_row = theirs.layout in (torch.sparse_csr, torch.sparse_bsr)
            for name in ("crow_indices", "col_indices") if by_row else ("ccol_indices", "row_indices"):
                self.compare_tensor(getattr(theirs, name)(), getattr(ours, name)(), f"{at}.{name}")
            self.compare_tensor(theirs.values().detach(), ours.values().detach(), f"{at}.values")
        else:
            assert theirs.stride() == ours.stride(), at
            assert theirs.storage_offset() == ours.storage_offset(), at
            if theirs.is_quantized:
                self.compare_scheme(theirs, ours, at)
            if not theirs.is_meta:
                self.compare_items(theirs, ours, at)

    def compare_items(self, theirs: torch.Tensor, ours: torch.Tensor, at: str) -> None:
        assert (theirs.is_conj(), theirs.is_neg()) == (ours.is_conj(), ours.is_neg()), at
        self.compare_storage(theirs.untyped_storage(), ours.untyped_storage(), f"{at}.storage")

    def compare_scheme(self, theirs: torch.Tensor, ours: torch.Tensor, at: str) -> None:
        assert theirs.qscheme() == ours.qscheme(), at
        if theirs.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
            assert (theirs.q_scale(), theirs.q_zero_point()) == (ours.q_scale(), ours.q_zero_point()), at
        else:
            assert theirs.q_per_channel_axis() == ours.q_per_channel_axis(), at
            for name in ("q_per_channel_scales", "q_per_channel_zero_points"):
                mine, other = getattr(ours, name)(), getattr(theirs, name)()
                assert (mine.dtype, item_bytes(mine)) == (other.dtype, item_bytes(other)), at


def raw(storage: torch.UntypedStorage) -> torch.Tensor:
    """The bytes of a storage."""
    return torch.empty(0, dtype=torch.uint8).set_(storage)


def scalar(value: Any) -> object:
    """A value with its type; floats by their bits, members of sets one by one."""
    if type(value) is float:
        return float, struct.pack("<d", value)
    if type(value) is complex:
        return complex, struct.pack("<2d", value.real, value.imag)
    if type(value) is tuple:
        return tuple, tuple(map(scalar, value))
    if type(value) in (set, frozenset):
        return type(value), frozenset(map(scalar, value))
    return type(value), value


def assert_equal_values(theirs: Any, ours: Any, at: str = "") -> None:
    """Assert that values are equal as far as arrays can tell: dtypes, shapes, items; containers and their order."""
    if isinstance(theirs, torch.Tensor):
        assert isinstance(ours, torch.Tensor), at
        assert (theirs.dtype, theirs.shape) == (ours.dtype, ours.shape), at
        assert item_bytes(theirs) == item_bytes(ours), at
    elif isinstance(theirs, _KEYED):
        assert type(theirs) is type(ours), at
        assert list(theirs) == list(ours), at
        for key, value in theirs.items():
            assert_equal_values(value, ours[key], f"{at}/{key!r:.200}")
        assert getattr(theirs, "_metadata", None) == getattr(ours, "_metadata", None), at
    elif isinstance(theirs, (list, tuple)):
        assert type(theirs) is type(ours), at
        assert len(theirs) == len(ours), at
        for index, value in enumerate(theirs):
            assert_equal_values(value, ours[index], f"{at}/[{index}]")
    else:
        assert scalar(theirs) == scalar(ours), at
