"""The torch constructors that a ``.pth`` may call, and their values (FORMAT.md 6.3 to 6.6).

Contract of the functions in the tables: they receive the context and the arguments from the inert tree, check every
argument, and return a value of :mod:`sbformat.pth.values`. Tensors nest only as deep as FORMAT.md allows, so nothing
recurses.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NoReturn

from sbformat.errors import quote
from sbformat.pkl.tree import DTYPES as DTYPE_NAMES
from sbformat.pkl.tree import LAYOUTS, MEMORY_FORMATS, QUANTIZATION_SCHEMES, TENSOR_CLASSES, Call, Dict, Global
from sbformat.pth.context import (
    INT64,
    DecodeContext,
    arguments,
    check_attributes,
    check_shapes,
    flag,
    is_unknown_call,
    pair_of,
    reduced,
    role_of,
    whole_numbers,
)
from sbformat.pth.values import (
    DEVICE_INDEXES,
    DTYPES,
    QUANTIZED,
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
    refuse,
    refuse_unsupported,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection


_DEVICE_NAME: Final = "[A-Za-z_]+"
_DEVICE_TEXT: Final = rf"{_DEVICE_NAME}(:(0|[1-9][0-9]?|1[01][0-9]|12[0-7]))?"


def _size(context: DecodeContext, args: tuple[object, ...]) -> Size:  # noqa: ARG001
    (items,) = arguments(args, "torch.Size", (1,))
    return Size(whole_numbers(items, "size"))


def _device(context: DecodeContext, args: tuple[object, ...]) -> Device:  # noqa: ARG001
    kind, *index = arguments(args, "torch.device", (1, 2))
    if type(kind) is not str or (index and (type(index[0]) is not int or index[0] not in DEVICE_INDEXES)):
        refuse("expected a text and an integer below 128 for torch.device, got other values")
    if not re.fullmatch(_DEVICE_NAME if index else _DEVICE_TEXT, kind):
        refuse(f"expected a name as cpu or cuda:0 for torch.device, got {quote(kind)}")
    return Device(kind, index[0] if index else None)


def _layout(context: DecodeContext, args: tuple[object, ...]) -> Layout:  # noqa: ARG001
    (name,) = arguments(args, "_get_layout", (1,))
    if type(name) is not str:
        refuse("expected a text for _get_layout, got another value")
    short = name.removeprefix("torch.")
    if short not in LAYOUTS:
        refuse_unsupported(f"{quote(name)} is not a known layout")
    return Layout(short)


def _bytearray(context: DecodeContext, args: tuple[object, ...]) -> bytearray:  # noqa: ARG001
    if args == ():
        return bytearray()
    from sbformat.pkl.numpy import encoded_bytes, latin1_bytes

    if len(args) == 2:
        raw = latin1_bytes(*args)
    else:
        (value,) = arguments(args, "bytearray", (1,))
        raw = None if type(value) is bytearray else encoded_bytes(value)
    if raw is None:
        refuse("expected bytes for a bytearray, got another value")
    return bytearray(raw)


def _encode(context: DecodeContext, args: tuple[object, ...]) -> bytes:  # noqa: ARG001
    from sbformat.pkl.numpy import latin1_bytes

    raw = latin1_bytes(*arguments(args, "_codecs.encode", (2,)))
    if raw is None:
        refuse("expected latin-1 text that encodes bytes, as torch writes it, got other values")
    return raw


def _bytes(context: DecodeContext, args: tuple[object, ...]) -> bytes:  # noqa: ARG001
    if args != ():
        refuse_unsupported("expected no arguments of bytes, as protocol 2 writes it for empty bytes, got some")
    return b""


def _complex(context: DecodeContext, args: tuple[object, ...]) -> complex:  # noqa: ARG001
    real, imaginary = arguments(args, "complex", (2,))
    if type(real) is not float or type(imaginary) is not float:
        refuse("expected two floats for a complex number, got other values")
    return complex(real, imaginary)


def named_value(value: Global) -> object:
    """Return the dtype, memory format or layout of a global; None for any other."""
    if value.updates:
        return None
    if value.pair in DTYPE_NAMES:
        return DTypeName(DTYPE_NAMES[value.pair])
    if value.pair in MEMORY_FORMATS:
        return MemoryFormat(MEMORY_FORMATS[value.pair])
    if value.module == "torch" and value.name in LAYOUTS:
        return Layout(value.name)
    return None


_new: Final = tuple.__new__  # half the price of calling the class, once a tensor
_DIFFERENTIABLE: Final = frozenset(name for name in DTYPES if name.startswith(("float", "bfloat", "complex")))
_VIEW_TIMES_STORAGE: Final = 4
_ONE_DIGIT: Final = 2**30 - 1  # the largest integer that CPython compares fast
_TENSOR_ATTRIBUTES: Final = frozenset(
    {
        # begin refused: generated from schema/tables/refused-attributes.json by schema/generate_tables.py
        "H", "T", "_backward_hooks", "_base", "_cdata", "_grad", "_grad_fn", "_post_accumulate_grad_hooks", "_version",
        "data", "device", "dtype", "grad", "grad_dtype", "grad_fn", "imag", "is_leaf", "itemsize", "layout", "mH", "mT",
        "name", "names", "nbytes", "ndim", "output_nr", "real", "requires_grad", "retains_grad", "shape", "volatile",
        # end refused
    }
)  # fmt: skip
"""Attributes of ``torch.Tensor`` itself: torch refuses to set them, or they change the tensor."""
PLAIN: Final = frozenset(name for name in DTYPES if name not in QUANTIZED)


def _no_hooks(context: DecodeContext, value: object) -> None:
    """Refuse backward hooks, which are functions; torch writes an empty OrderedDict for none."""
    if type(value) is Call and value.args == () and not value.updates and value.how == "REDUCE":
        func = value.func
        if func is context.ordered_dict:
            return
        if type(func) is Global and func.pair == ("collections", "OrderedDict") and not func.updates:
            context.ordered_dict = func
            return
    refuse_unsupported("a tensor was saved with backward hooks, which are code")


def dtype_of(value: object) -> str:
    """Return the name of a dtype from the global ``torch.X``."""
    pair = pair_of(value)
    if pair is None:
        refuse("expected a name as the dtype of a tensor, got another value")
    if pair not in DTYPE_NAMES:
        refuse_unsupported(f"{quote(value)} is not a known dtype")
    return DTYPE_NAMES[pair]


# -- geometry (FORMAT.md 6.4) -------------------------------------------------------------------------

_MOST_ITEMS: Final = INT64 // 16  # of the largest item


def _strided(
    context: DecodeContext,
    storage: Storage,
    dtype: str,
    offset: object,
    shape: object,
    strides: object,
    requires_grad: object,
) -> TensorInfo:
    """Check offset, shape and strides against the storage; every number is an int, and not a bool."""
    if type(shape) is not tuple or type(strides) is not tuple or len(shape) != len(strides):
        refuse("expected two tuples of the same length as shape and strides of a tensor, got other values")
    if type(offset) is not int or offset < 0 or offset >= INT64:
        refuse("expected an integer >= 0 as the offset of a tensor, got another value")
    if len(shape) > context.limits.tensor_rank:
        context.budget.spend("tensor_rank", len(shape))
    numel = 1
    reach = axis = 0
    for size in shape:
        stride = strides[axis]
        axis += 1  # noqa: SIM113 -- zip and enumerate take as long as the checks
        if type(size) is not int or type(stride) is not int or size < 0 or stride < 0:
            refuse("expected integers >= 0 as shape and strides of a tensor, got other values")
        if (size > _ONE_DIGIT or stride > _ONE_DIGIT) and max(size, stride) >= INT64:
            refuse("expected integers >= 0 as shape and strides of a tensor, got other values")
        numel *= size
        reach += (size - 1) * stride
    context.tensors += 1
    context.items += numel
    available = storage.numel if storage.dtype else storage.nbytes // DTYPES[dtype].itemsize
    if not numel or numel >= _MOST_ITEMS:
        _check_items(shape)
    elif offset + reach >= available:
        refuse(f"a tensor of shape {shape} at {offset} reaches element {offset + reach} of a storage of {available}")
    if numel > available and numel > _VIEW_TIMES_STORAGE * available:
        context.expanded += numel
    if requires_grad is not False:
        _gradient(dtype, requires_grad)
    return _new(TensorInfo, (dtype, shape, strides, offset, storage, requires_grad, False, False, False, None))


def _gradient(dtype: str, requires_grad: object) -> bool:
    """Return whether a tensor requires a gradient, which only one of floats can."""
    learns = flag(requires_grad, "requires_grad")
    if learns and dtype not in _DIFFERENTIABLE:
        refuse(f"a tensor of {dtype} cannot require a gradient")
    return learns


def _check_items(shape: tuple[int, ...]) -> None:
    """Refuse a shape that numpy refuses: too many items for its index type, also if another dimension is empty."""
    items = 1
    for size in shape:
        items *= size or 1
    if items >= _MOST_ITEMS:
        refuse(f"a tensor of shape {shape} is too large for any memory")


def _tensor(context: DecodeContext, args: tuple[object, ...]) -> TensorInfo:
    reference, offset, shape, strides = arguments(args, "_rebuild_tensor", (4,))
    storage = context.storage(reference)
    if storage.dtype not in PLAIN:
        _refuse_dtype(storage.dtype)
    return _strided(context, storage, storage.dtype, offset, shape, strides, False)


def _tensor_v2(context: DecodeContext, args: tuple[object, ...]) -> TensorInfo:
    if len(args) != 6:
        if len(args) == 7:
            return _with_bits(_tensor_v2(context, args[:6]), args[6])
        arguments(args, "_rebuild_tensor_v2", (6, 7))
    reference, offset, shape, strides, requires_grad, hooks = args
    storage = context.storage(reference)
    _no_hooks(context, hooks)
    dtype = storage.dtype
    if dtype not in PLAIN:
        _refuse_dtype(dtype)
    return _strided(context, storage, dtype, offset, shape, strides, requires_grad)


def _tensor_v3(context: DecodeContext, args: tuple[object, ...]) -> TensorInfo:
    if len(args) == 8:
        return _with_bits(_tensor_v3(context, args[:7]), args[7])
    reference, offset, shape, strides, requires_grad, hooks, kind = arguments(args, "_rebuild_tensor_v3", (7,))
    storage = context.storage(reference)
    _no_hooks(context, hooks)
    dtype = dtype_of(kind)
    if storage.dtype not in ("", dtype):
        refuse(f"expected a storage of {dtype} for a tensor of {dtype}, got one of {storage.dtype}")
    if dtype in QUANTIZED:
        refuse(f"a tensor of {dtype} has no scale")
    return _strided(context, storage, dtype, offset, shape, strides, requires_grad)


def _refuse_dtype(dtype: str) -> NoReturn:
    if not dtype:
        refuse("expected a dtype for a tensor of an untyped storage, got none")
    refuse(f"a tensor over a storage of {dtype} has no scale")


def _with_bits(info: TensorInfo, metadata: object) -> TensorInfo:
    """Set the conj and neg bits; torch saves no other metadata of tensors."""
    bits: dict[object, bool] = {}
    if type(metadata) is not Dict:
        refuse("expected a dict as the metadata of a tensor, got another value")
    for key, value in metadata:
        if key not in ("conj", "neg") or key in bits:
            refuse_unsupported("a tensor was saved with metadata other than conj and neg")
        if value is not True:
            refuse(f"expected True for the {key} bit of a tensor, as torch writes no other, got another value")
        bits[key] = True
    if bits.get("conj") and not info.dtype.startswith("complex"):
        refuse(f"a tensor of {info.dtype} has a conj bit")
    if bits.get("neg") and (info.dtype == "bool" or info.dtype.startswith("float8")):
        refuse(f"a tensor of {info.dtype} has a neg bit")
    return info._replace(conj=bits.get("conj", False), neg=bits.get("neg", False))


# -- tensors of other kinds (FORMAT.md 6.5) -----------------------------------------------------------


def _part(context: DecodeContext, value: object, roles: Collection[str], what: str) -> Any:
    """Return a tensor that is an argument of another constructor: the call of a function with one of these roles."""
    role, args = reduced(value)
    if role not in roles:
        if is_unknown_call(value):
            refuse_unsupported("a tensor within another is the result of an unknown call")
        refuse(f"expected the call of a {what} as part of a tensor, got another value")
    return _UNWRAPPED[role](context, args)


def _strided_part(context: DecodeContext, value: object) -> TensorInfo:
    """Return a part of a sparse or quantized tensor, which must be a strided tensor."""
    return _part(context, value, _STRIDED, "strided tensor")  # type: ignore[no-any-return]


def _attributes(context: DecodeContext, value: object) -> dict[str, object]:
    """Return the attributes of a tensor, checked once for all tensors that share them."""
    attributes = context.states.get(id(value))
    if attributes is None:
        if type(value) is not Dict or any(type(key) is not str for key, _ in value):
            refuse("expected a dict of attributes as the state of a tensor, got another value")
        attributes = {str(key): item for key, item in value}
        for key in attributes:
            if key.startswith("__") or key in _TENSOR_ATTRIBUTES:
                refuse_unsupported(f"a tensor was saved with the attribute {quote(key)}, which would change it")
        check_attributes(value, context)
        context.keep(value)
        context.states[id(value)] = attributes
    context.height = context.heights[id(value)]
    return attributes


def _parameter(context: DecodeContext, args: tuple[object, ...]) -> Any:
    data, requires_grad, hooks = arguments(args, "_rebuild_parameter", (3,))
    _no_hooks(context, hooks)
    made = _part(context, data, _UNWRAPPED, "plain tensor")
    field = {QuantizedTensor: "int_repr", SparseTensor: "values"}.get(type(made))
    items = getattr(made, field) if field else made  # what has the dtype, and the flags
    marked = items._replace(requires_grad=_gradient(items.dtype, requires_grad), is_parameter=True)
    return made._replace(**{field: marked}) if field else marked


def _parameter_with_state(context: DecodeContext, args: tuple[object, ...]) -> TensorInfo:
    *parts, state = arguments(args, "_rebuild_parameter_with_state", (4,))
    made = _parameter(context, tuple(parts))
    if not isinstance(made, TensorInfo):
        refuse_unsupported("only strided tensors can have attributes")
    return made._replace(state=_attributes(context, state))


def _from_type_v2(context: DecodeContext, args: tuple[object, ...]) -> object:
    func, cls, func_args, state = arguments(args, "_rebuild_from_type_v2", (4,))
    is_parameter = TENSOR_CLASSES.get(pair_of(cls) or ("", ""))
    role = role_of(func)
    if is_parameter is None or role not in _STRIDED:
        refuse_unsupported(f"a tensor of the class {quote(cls)} is rebuilt by {quote(func)}")
    if type(func_args) is not tuple:
        refuse("expected a tuple of arguments for a tensor, got another value")
    info = _UNWRAPPED[role](context, func_args)
    return info._replace(is_parameter=is_parameter, state=_attributes(context, state))


def _qtensor(context: DecodeContext, args: tuple[object, ...]) -> QuantizedTensor:
    storage, offset, shape, strides, scheme, requires_grad, hooks = arguments(args, "_rebuild_qtensor", (7,))
    found = context.storage(storage)
    _no_hooks(context, hooks)
    if found.dtype not in QUANTIZED:
        refuse(f"expected a quantized storage for a quantized tensor, got one of {found.dtype or 'no dtype'}")
    info = _strided(context, found, found.dtype, offset, shape, strides, requires_grad)
    pair = pair_of(scheme[0]) if type(scheme) is tuple and scheme else None
    if pair is None:
        refuse("expected a scheme for a quantized tensor, got another value")
    if pair not in QUANTIZATION_SCHEMES:
        refuse_unsupported(f"{quote('.'.join(pair))} is not a known scheme of quantized tensors")
    if not QUANTIZATION_SCHEMES[pair]:
        _, scale, zero_point = arguments(scheme, pair[1], (3,))
        if type(scale) is not float or type(zero_point) is not int:
            refuse("expected a float scale and an integer zero point of a quantized tensor, got other values")
        return QuantizedTensor(info, pair[1], scale, zero_point, None)
    _, scales, zero_points, axis = arguments(scheme, pair[1], (4,))
    if type(axis) is not int or not 0 <= axis < len(info.shape):
        refuse("expected one of its dimensions as the axis of a quantized tensor, got another value")
    # Some schemes have zero points that are floats.
    whole = ("float32",) if pair[1].endswith("float_qparams") else ("int64", "int32", "float32")
    channels = info.shape[axis]
    scale = _per_channel(context, scales, channels, ("float64", "float32"))
    return QuantizedTensor(info, pair[1], scale, _per_channel(context, zero_points, channels, whole), axis)


def _per_channel(context: DecodeContext, value: object, channels: int, dtypes: tuple[str, ...]) -> object:
    """Return scales or zero points: a tensor, or the list of numbers that torch <= 1.4 wrote."""
    if type(value) is list:
        if len(value) != channels or any(type(item) not in (int, float) for item in value):
            refuse("expected one scale and zero point for each channel of a quantized tensor, got other values")
        return tuple(value)
    info = _strided_part(context, value)
    if info.shape != (channels,):
        refuse("expected one scale and zero point for each channel of a quantized tensor, got other values")
    if info.dtype not in dtypes:
        refuse("scales or zero points of a quantized tensor have a dtype that torch never writes")
    return info


def _sparse(context: DecodeContext, args: tuple[object, ...]) -> SparseTensor:
    layout, data = arguments(args, "_rebuild_sparse_tensor", (2,))
    role, layout_args = reduced(layout)
    if role != "layout":
        refuse("expected the layout of a sparse tensor, got another value")
    name = _layout(context, layout_args).name
    context.tensors += 1
    if type(data) is not tuple:
        refuse("expected a tuple as the parts of a sparse tensor, got another value")
    if name == "sparse_coo":
        indices, values, shape, *coalesced = arguments(data, name, (3, 4))
        is_coalesced = flag(coalesced[0], "is_coalesced") if coalesced else None
        parts: tuple[object, ...] = (indices,)
    elif name == "strided":
        refuse("a sparse tensor has a strided layout")
    else:
        compressed, plain, values, shape = arguments(data, name, (4,))
        parts, is_coalesced = (compressed, plain), None
    tensors = tuple(_strided_part(context, part) for part in parts)
    entries = _strided_part(context, values)
    role, size_args = reduced(shape)
    size = _size(context, size_args if role == "size" else (shape,))
    context.budget.spend("tensor_rank", len(size))
    made = SparseTensor(name, size, tensors, entries, is_coalesced)
    check_shapes(made)
    return made


def _meta(context: DecodeContext, args: tuple[object, ...]) -> MetaTensor:
    dtype, shape, strides, requires_grad = arguments(args, "_rebuild_meta_tensor_no_storage", (4,))
    context.tensors += 1
    name = dtype_of(dtype)
    if type(shape) is not tuple or type(strides) is not tuple or len(shape) != len(strides):
        refuse("expected two tuples of the same length as shape and strides of a meta tensor, got other values")
    context.budget.spend("tensor_rank", len(shape))
    sizes, steps = whole_numbers(shape, "shape"), whole_numbers(strides, "strides")
    _check_items(sizes)
    return MetaTensor(name, sizes, steps, _gradient(name, requires_grad))


_STRIDED: Final = ("tensor_v2", "tensor_v3", "tensor")

_UNWRAPPED: Final[dict[str, Callable[[DecodeContext, tuple[object, ...]], Any]]] = {
    "tensor": _tensor,
    "tensor_v2": _tensor_v2,
    "tensor_v3": _tensor_v3,
    "qtensor": _qtensor,
    "sparse": _sparse,
    "meta": _meta,
}
"""Constructors that may be arguments of another one."""

CONSTRUCTORS: Final[dict[str, Callable[[DecodeContext, tuple[object, ...]], object]]] = {
    **_UNWRAPPED,
    "parameter": _parameter,
    "parameter_with_state": _parameter_with_state,
    "from_type_v2": _from_type_v2,
    "size": _size,
    "device": _device,
    "layout": _layout,
    "bytearray": _bytearray,
    "complex": _complex,
    "encode": _encode,
    "bytes": _bytes,
}
"""By role in :data:`sbformat.pkl.tree.CALLS`. ``build`` builds containers, ``pkl.numpy`` numpy's values."""
