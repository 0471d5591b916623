"""numpy arrays, scalars and dtypes as they stand in a pickle, read without numpy (FORMAT.md 6.6).

A fixed table of dtype codes, never ``np.dtype(text)``; the bytes must be exactly what shape and dtype
ask for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple, NoReturn, TypeGuard

from sbformat.errors import TensorError, UnsupportedError, quote
from sbformat.names import CALLS, NUMPY_DTYPE, NUMPY_NDARRAY, NUMPY_RECONSTRUCT_NAME
from sbformat.pkl.tree import Call, Global, Update

if TYPE_CHECKING:
    import numpy as np

ITEM_SIZES: Final = {
    "b1": 1, "i1": 1, "u1": 1, "i2": 2, "u2": 2, "f2": 2, "i4": 4, "u4": 4, "f4": 4, "i8": 8, "u8": 8, "f8": 8,
    "c8": 8, "c16": 16,
}  # fmt: skip
"""Bytes an item, by numpy's dtype code."""

_BYTE_ORDERS: Final = {"<": "<", ">": ">", "|": "|", "=": "<"}
_RANK: Final = 64


class _Reduced(Call):
    """A REDUCE of a plain name with a tuple: what every numpy value is."""

    __slots__ = ()
    func: Global
    args: tuple[object, ...]


class ArrayInfo(NamedTuple):
    """A numpy array or scalar that was pickled, not yet made."""

    dtype: str
    """numpy's array-interface code, ``<f8``."""
    shape: tuple[int, ...]
    order: Literal["C", "F"]
    """``C`` or ``F``: how ``buffer`` runs through the shape."""
    buffer: bytes
    is_scalar: bool

    def to_numpy(self) -> np.ndarray | np.generic:
        """Return the array (read-only, native byte order) or the numpy scalar."""
        import numpy as np

        try:
            array: np.ndarray = np.ndarray(self.shape, self.dtype, self.buffer, order=self.order)
        except ValueError as error:
            message = f"this numpy cannot hold an array of {len(self.shape)} dimensions: {error}"
            raise UnsupportedError(message) from None
        native = array.astype(array.dtype.newbyteorder("="), copy=False)
        native.flags.writeable = False
        return native[()] if self.is_scalar else native


def _refuse(message: str) -> NoReturn:
    raise TensorError(message)


def _is_reduced(value: object) -> TypeGuard[_Reduced]:
    return (
        isinstance(value, Call)
        and value.how == "REDUCE"
        and isinstance(value.func, Global)
        and not value.func.updates
        and isinstance(value.args, tuple)
    )


def encoded_bytes(value: object) -> bytes | None:
    """Return the bytes of ``_codecs.encode(text, "latin1")`` or ``bytes()``, protocol 2's spellings, or of bytes."""
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if not _is_reduced(value) or value.updates:
        return None
    args, role = value.args, CALLS.get(value.func.pair)
    if role == "bytes" and args == ():
        return b""
    if role != "encode" or len(args) != 2:
        return None
    return latin1_bytes(*args)


def latin1_bytes(text: object, encoding: object) -> bytes | None:
    """Return the bytes that text stands for, or None when it is no text or not in latin-1."""
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        return None
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        _refuse("bytes spelled as text hold a character above 255")


def dtype_code(value: object) -> str:
    """Return the code of ``numpy.dtype(code, align, copy)`` with its state.

    :raises UnsupportedError: for dtypes outside the table: structured, text, object, datetime
    :raises TensorError: for arguments that numpy never writes
    """
    if not (_is_reduced(value) and value.func == Global(*NUMPY_DTYPE)):
        _refuse("a numpy value has something else where its dtype belongs")
    args = value.args
    if not isinstance(args, tuple) or not 1 <= len(args) <= 3 or not isinstance(args[0], str):
        _refuse("a numpy dtype has unknown arguments")
    code = args[0]
    if code not in ITEM_SIZES:
        message = f"the numpy dtype {quote(code)} is not a plain number"
        raise UnsupportedError(message)
    order = "|"
    for update in value.updates or ():
        state = update.value
        if update.how != "BUILD" or not isinstance(state, tuple) or len(state) not in (8, 9):
            _refuse("a numpy dtype has an unknown state")
        if type(state[1]) is not str or state[1] not in _BYTE_ORDERS or any(part is not None for part in state[2:5]):
            _refuse("a numpy dtype has fields or an unknown byte order")
        order = _BYTE_ORDERS[state[1]]
    if ITEM_SIZES[code] == 1:
        return f"|{code}"
    return f"{'<' if order == '|' else order}{code}"


def array_info(call: Call) -> ArrayInfo:
    """Return what a call of a numpy constructor of :data:`~sbformat.names.CALLS` would make.

    :param call: ``scalar``, ``_reconstruct`` with its state, or ``_frombuffer``
    :raises TensorError: when its parts do not fit each other
    :raises UnsupportedError: for a dtype outside the table
    """
    if not _is_reduced(call):
        _refuse("a numpy value has computed arguments")
    if CALLS[call.func.pair] == "numpy_scalar":
        return _scalar(call)
    if call.func.pair[1] == NUMPY_RECONSTRUCT_NAME:
        return _reconstructed(call)
    return _from_buffer(call)


def _scalar(call: Call) -> ArrayInfo:
    args = call.args
    if call.updates or not isinstance(args, tuple) or len(args) != 2:
        _refuse("a numpy scalar has unknown arguments")
    return _checked(dtype_code(args[0]), (), "C", encoded_bytes(args[1]), is_scalar=True)


def _reconstructed(call: Call) -> ArrayInfo:
    args = call.args
    updates = call.updates or []
    if (
        not isinstance(args, tuple)
        or len(args) != 3
        or not (isinstance(args[0], Global) and args[0].pair == NUMPY_NDARRAY)
        or len(updates) != 1
        or updates[0].how != "BUILD"
    ):
        _refuse("a numpy array is not rebuilt the way numpy does")
    state = updates[0].value
    if not isinstance(state, tuple) or len(state) != 5 or not isinstance(state[3], (bool, int)):
        _refuse("a numpy array has an unknown state")
    return _checked(dtype_code(state[2]), state[1], "F" if state[3] else "C", encoded_bytes(state[4]))


def _from_buffer(call: Call) -> ArrayInfo:
    args = call.args
    if call.updates or not isinstance(args, tuple) or len(args) != 4 or args[3] not in ("C", "F"):
        _refuse("a numpy array has an unknown order or arguments")
    return _checked(dtype_code(args[1]), args[2], "F" if args[3] == "F" else "C", encoded_bytes(args[0]))


def _checked(
    code: str, shape: object, order: Literal["C", "F"], buffer: bytes | None, *, is_scalar: bool = False
) -> ArrayInfo:
    if not isinstance(shape, tuple) or len(shape) > _RANK:
        _refuse("a numpy array has an unknown shape")
    size = extent = ITEM_SIZES[code[1:]]
    for length in shape:
        if type(length) is not int or not 0 <= length < 2**63:
            _refuse("a numpy array has an unknown shape")
        size *= length
        extent *= length or 1
    if extent >= 2**63:
        _refuse(f"a numpy array of shape {shape} is larger than any memory")
    if buffer is None:
        message = f"a numpy value of dtype {code} does not hold its items as bytes"
        raise UnsupportedError(message)
    if size != len(buffer):
        _refuse(f"a numpy value of dtype {code} and shape {shape} needs {size} bytes and has {len(buffer)}")
    return ArrayInfo(code, shape, order, buffer, is_scalar)


# -- and back (FORMAT.md 12.3) ------------------------------------------------------------------------

_MULTIARRAY: Final = "numpy.core.multiarray"
"""Its name before numpy 2, which both know."""


def to_tree(info: ArrayInfo) -> Call:
    """Return the call that numpy pickles an array or scalar as."""
    if info.is_scalar:
        return Call("REDUCE", Global(_MULTIARRAY, "scalar"), (_dtype_tree(info.dtype), info.buffer))
    array = Call("REDUCE", Global(_MULTIARRAY, NUMPY_RECONSTRUCT_NAME), (Global(*NUMPY_NDARRAY), (0,), b"b"))
    state = (1, info.shape, _dtype_tree(info.dtype), info.order == "F", info.buffer)
    array.updates = [Update("BUILD", array, state)]
    return array


def _dtype_tree(code: str) -> Call:
    dtype = Call("REDUCE", Global(*NUMPY_DTYPE), (code[1:], False, True))
    dtype.updates = [Update("BUILD", dtype, (3, code[0], None, None, None, -1, -1, 0))]
    return dtype
