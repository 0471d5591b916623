"""torch's small values, and bytes and numbers as protocol 2 encodes them (FORMAT.md 6.6)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sbformat.errors import UnsupportedError, quote
from sbformat.pkl.names import DTYPES as DTYPE_NAMES
from sbformat.pkl.names import LAYOUTS, MEMORY_FORMATS
from sbformat.pth.arguments import arguments, reduced, refuse, whole_numbers
from sbformat.pth.values import DEVICE_INDEXES, Device, DTypeName, Layout, MemoryFormat, Size

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbformat.pkl.tree import Global
    from sbformat.pth.context import DecodeContext


_DEVICE_NAME: Final = "[A-Za-z_]+"
_DEVICE_TEXT: Final = rf"{_DEVICE_NAME}(:(0|[1-9][0-9]?|1[01][0-9]|12[0-7]))?"


def size_of(value: object) -> Size:
    """Return a shape, which is ``torch.Size((2, 3))`` or the plain tuple."""
    args = reduced(value, "size")
    return Size(whole_numbers(value if args is None else arguments(args, "torch.Size", (1,))[0], "size"))


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


def layout_of(value: object) -> str:
    """Return the name of a layout."""
    args = reduced(value, "layout")
    if args is None:
        refuse("expected the layout of a sparse tensor, got another value")
    return _layout(None, args).name


def _layout(context: DecodeContext | None, args: tuple[object, ...]) -> Layout:  # noqa: ARG001
    (name,) = arguments(args, "_get_layout", (1,))
    if type(name) is not str:
        refuse("expected a text for _get_layout, got another value")
    short = name.removeprefix("torch.")
    if short not in LAYOUTS:
        message = f"{quote(name)} is not a known layout"
        raise UnsupportedError(message)
    return Layout(short)


def _bytearray(context: DecodeContext, args: tuple[object, ...]) -> bytearray:  # noqa: ARG001
    if args == ():
        return bytearray()
    from sbformat.pkl.numpy import latin1_bytes

    raw = latin1_bytes(*args) if len(args) == 2 else _bytes_of(arguments(args, "bytearray", (1,))[0])
    if raw is None:
        refuse("expected bytes for a bytearray, got another value")
    return bytearray(raw)


def _bytes_of(value: object) -> bytes | None:
    from sbformat.pkl.numpy import encoded_bytes

    return None if type(value) is bytearray else encoded_bytes(value)


def _encode(context: DecodeContext, args: tuple[object, ...]) -> bytes:  # noqa: ARG001
    from sbformat.pkl.numpy import latin1_bytes

    raw = latin1_bytes(*arguments(args, "_codecs.encode", (2,)))
    if raw is None:
        refuse("expected latin-1 text that encodes bytes, as torch writes it, got other values")
    return raw


def _bytes(context: DecodeContext, args: tuple[object, ...]) -> bytes:  # noqa: ARG001
    if args != ():
        message = "expected no arguments of bytes, as protocol 2 writes it for empty bytes, got some"
        raise UnsupportedError(message)
    return b""


def _complex(context: DecodeContext, args: tuple[object, ...]) -> complex:  # noqa: ARG001
    real, imaginary = arguments(args, "complex", (2,))
    if type(real) is not float or type(imaginary) is not float:
        refuse("expected two floats for a complex number, got other values")
    return complex(real, imaginary)


SMALL_VALUES: Final[dict[str, Callable[[DecodeContext, tuple[object, ...]], object]]] = {
    "size": _size,
    "device": _device,
    "layout": _layout,
    "bytearray": _bytearray,
    "complex": _complex,
    "encode": _encode,
    "bytes": _bytes,
}
"""By role in :data:`sbformat.pkl.names.CALLS`."""


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
