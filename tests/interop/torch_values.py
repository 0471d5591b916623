"""What torch holds against what sbformat read: bit for bit, with everything an array cannot say."""

from __future__ import annotations

import math
import struct
from collections import OrderedDict
from typing import Any

import numpy as np
import torch

from sbformat.pth import (
    Device,
    DTypeName,
    Layout,
    MetaTensor,
    QuantizedTensor,
    Size,
    SparseTensor,
    StateDict,
    Storage,
    TensorInfo,
)

_LAYOUTS = {torch.sparse_csr: "sparse_csr", torch.sparse_bsr: "sparse_bsr"}


def item_bytes(tensor: torch.Tensor) -> bytes:
    """The little-endian bytes of a strided tensor's items, in C order."""
    plain = tensor.detach().resolve_conj().resolve_neg()
    if plain.dtype == torch.complex32:
        plain = plain.to(torch.complex64)
    if plain.is_quantized:
        plain = plain.int_repr()
    copied = torch.empty(plain.shape, dtype=plain.dtype).copy_(plain)
    return bytes(copied.reshape(-1).view(torch.uint8).numpy().tobytes()) if copied.numel() else b""


def assert_same(real: Any, state_dict: StateDict) -> None:
    """Assert that a state dict holds what torch holds."""
    _compare(real, state_dict.tree, state_dict.to_numpy(), "")


def _compare(real: Any, info: Any, made: Any, at: str) -> None:
    if isinstance(real, torch.Tensor):
        _compare_tensor(real, info, made, at)
    elif isinstance(real, torch.Size):
        assert (type(info), tuple(info)) == (Size, tuple(real)), at
    elif isinstance(real, (dict, OrderedDict)):
        assert type(info) is type(made) is type(real), at
        assert list(map(_scalar, info)) == list(map(_scalar, made)) == list(map(_scalar, real)), at
        for key, value in real.items():
            _compare(value, info[key], made[key], f"{at}/{key!r:.200}")
        if hasattr(real, "_metadata"):
            _compare(real._metadata, info._metadata, made._metadata, f"{at}._metadata")
    elif isinstance(real, (list, tuple)):
        assert type(info) is type(made) is type(real), at
        assert len(info) == len(made) == len(real), at
        for index, value in enumerate(real):
            _compare(value, info[index], made[index], f"{at}/{index}")
    else:
        _compare_leaf(real, info, made, at)


def _compare_leaf(real: Any, info: Any, made: Any, at: str) -> None:
    if isinstance(real, (torch.UntypedStorage, torch.TypedStorage)):
        untyped = real if isinstance(real, torch.UntypedStorage) else real._untyped_storage
        assert isinstance(info, Storage), at
        assert made.tobytes() == bytes(untyped), at
    elif isinstance(real, torch.dtype):
        assert info == DTypeName(str(real).removeprefix("torch.")), at
    elif isinstance(real, torch.layout):
        assert info == Layout(str(real).removeprefix("torch.")), at
    elif isinstance(real, torch.device):
        assert info == Device(real.type, real.index), at
    elif isinstance(real, (np.ndarray, np.generic)):
        assert isinstance(made, type(real)), at
        assert (made.dtype, made.shape) == (real.dtype.newbyteorder("="), real.shape), at
        assert made.tobytes() == real.astype(made.dtype).tobytes(), at
    else:
        assert _scalar(info) == _scalar(made) == _scalar(real), at


def _scalar(value: Any) -> object:
    """A scalar with its type; floats by their bits."""
    if type(value) is float:
        return float, struct.pack("<d", value)
    if type(value) is complex:
        return complex, struct.pack("<2d", value.real, value.imag)
    return type(value), value


def _compare_tensor(real: torch.Tensor, info: Any, made: Any, at: str) -> None:
    if real.is_meta:
        is_parameter = isinstance(real, torch.nn.Parameter)
        expected = MetaTensor(_name(real), tuple(real.shape), real.stride(), real.requires_grad, is_parameter)
        assert info == made == expected, at
    elif real.layout == torch.sparse_coo:
        assert isinstance(info, SparseTensor), at
        assert (info.layout, info.shape) == ("sparse_coo", tuple(real.shape)), at
        _compare_strided(real._indices(), info.indices[0], made.indices[0], f"{at}.indices")
        _compare_values(real._values(), real, info, made, at)
        assert info.is_coalesced in (None, real.is_coalesced()), at
    elif real.layout != torch.strided:
        _compare_compressed(real, info, made, at)
    elif real.is_quantized:
        _compare_quantized(real, info, made, at)
    else:
        _compare_strided(real, info, made, at)


def _compare_compressed(real: torch.Tensor, info: Any, made: Any, at: str) -> None:
    by_row = real.layout in _LAYOUTS
    compressed = real.crow_indices() if by_row else real.ccol_indices()
    plain = real.col_indices() if by_row else real.row_indices()
    assert (info.layout, info.shape) == (str(real.layout).removeprefix("torch."), tuple(real.shape)), at
    _compare_strided(compressed, info.indices[0], made.indices[0], f"{at}.compressed")
    _compare_strided(plain, info.indices[1], made.indices[1], f"{at}.plain")
    _compare_values(real.values(), real, info, made, at)


def _compare_values(values: torch.Tensor, real: torch.Tensor, info: Any, made: Any, at: str) -> None:
    """The values of a sparse tensor bear its flags."""
    bare = info.values._replace(requires_grad=False, is_parameter=False)
    _compare_strided(values.detach(), bare, made.values, f"{at}.values")
    assert info.values.is_parameter == isinstance(real, torch.nn.Parameter), at
    if real.is_leaf:
        assert info.values.requires_grad == real.requires_grad, at


def _compare_quantized(real: torch.Tensor, info: Any, made: Any, at: str) -> None:
    assert isinstance(made, QuantizedTensor), at
    scheme = str(real.qscheme()).removeprefix("torch.")
    assert made.scheme in (scheme, scheme.removesuffix("_float_qparams")), at  # torch saves both by one name
    assert made.int_repr.shape == tuple(real.shape), at
    assert made.int_repr.tobytes() == item_bytes(real), at
    assert info.int_repr.dtype == _name(real), at
    if made.axis is None:
        assert (made.scale, made.zero_point) == (real.q_scale(), real.q_zero_point()), at
    else:
        assert made.axis == real.q_per_channel_axis(), at
        assert list(made.scale) == real.q_per_channel_scales().tolist(), at
        assert list(made.zero_point) == real.q_per_channel_zero_points().tolist(), at
    # torch computes in float32, and by a fused multiply where the processor has one
    ours, theirs = made.dequantize(), real.dequantize().numpy()
    step = float(np.max(np.abs(theirs), initial=1.0)) * 2**-21
    assert ours.shape == theirs.shape, at
    assert np.allclose(ours, theirs, rtol=0, atol=step), at


def _compare_strided(real: torch.Tensor, info: Any, made: Any, at: str) -> None:
    assert isinstance(info, TensorInfo), at
    assert (info.dtype, info.shape) == (_name(real), tuple(real.shape)), at
    assert info.requires_grad == real.requires_grad, at
    assert info.is_parameter == isinstance(real, torch.nn.Parameter), at
    assert info.strides == real.stride(), at
    assert info.numel == real.numel() == math.prod(info.shape), at
    assert made.shape == tuple(real.shape), at
    assert str(made.dtype) == ("complex64" if info.dtype == "complex32" else info.dtype), at
    assert made.tobytes() == item_bytes(real), at


def _name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
