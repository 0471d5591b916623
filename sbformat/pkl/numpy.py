"""numpy arrays, scalars and dtypes in inert trees, decoded without numpy (FORMAT.md 6.6).

A fixed table of dtype codes, never ``np.dtype(text)``; the number of bytes must be exactly that of shape and
dtype.
"""

from __future__ import annotations

import codecs
import re
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeGuard

from sbformat.errors import SbformatError, TensorError, UnsupportedError, quote
from sbformat.immutable import Record
from sbformat.pkl.tree import CALLS, NUMPY_DTYPE, NUMPY_NDARRAY, NUMPY_RECONSTRUCT, Call, Dict, Global, Unread, Update

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np


ITEM_SIZES: Final = {
    "b1": 1, "i1": 1, "u1": 1, "i2": 2, "u2": 2, "f2": 2, "i4": 4, "u4": 4, "f4": 4, "i8": 8, "u8": 8, "f8": 8,
    "c8": 8, "c16": 16,
}  # fmt: skip
"""Bytes an item, by numpy's dtype code."""

_BYTE_ORDERS: Final = {"<": "<", ">": ">", "|": "|", "=": "<"}
_RANK: Final = 64
_PIECE: Final = 1 << 20
_ODD_BOOLS: Final = "expected only bytes 0 and 1 in a numpy value of bools, got others"
_PLAIN_STATES: Final = ((None, None, None, -1, -1, 0), (None, None, None, -1, -1, 0, None))
_STRUCTURE_FLAGS: Final = (0, 16, 128, 144, -128, -112)
"""Of a structure of plain fields, aligned or not; those of objects would have numpy take bytes for pointers."""


_ALIGNMENTS: Final = (1, 2, 4, 8, 16)
_UNORDERED: Final = ("O", "S", "V")  # kinds of dtypes without a byte order


class _Reduced(Call):
    """A REDUCE of a plain name with a tuple, as every numpy value."""

    __slots__ = ()
    func: Global
    args: tuple[Any, ...]


class Field(Record):
    """A field of a structured dtype."""

    name: str
    dtype: str
    offset: int  # in bytes


class ArrayInfo(Record):
    """A numpy array or scalar of a pickle, before it is created."""

    dtype: str  # numpy's array-interface code, ``<f8``
    shape: tuple[int, ...]
    order: Literal["C", "F"]  # ``C`` or ``F``: how ``buffer`` runs through the shape
    buffer: bytes | Unread  # ``Unread`` if it is too large for memory: see :meth:`read` and :meth:`chunks`
    is_scalar: bool
    fields: tuple[Field, ...] = ()  # of a structured dtype
    axes: tuple[int, ...] = ()
    """The position of each axis of the shape in the order of the buffer, if that is different."""

    def __repr__(self) -> str:
        """In a line: its bytes may be many."""
        what = "scalar" if self.is_scalar else f"array of shape {self.shape}"
        return f"<ArrayInfo {self.dtype} {what}, {len(self.buffer)} bytes>"

    @property
    def numel(self) -> int:
        return len(self.buffer) // item_size(self.dtype) if self.buffer else 0

    def read(self) -> bytes:
        """Return the bytes of its items, wherever they are."""
        return self.buffer if isinstance(self.buffer, bytes) else bytes(self.view())

    def chunks(self, size: int = 1 << 20) -> Iterator[bytes | memoryview]:
        """Yield the bytes of its items in chunks, without keeping them in memory."""
        if isinstance(self.buffer, bytes):
            yield self.buffer
            return
        for piece in self.buffer.chunks(size):
            _check_items(self.dtype, piece)
            yield piece

    def check(self) -> None:
        """Check items that are ``Unread`` as :meth:`chunks` does."""
        if _is_checked(self.dtype):
            for _ in self.chunks():
                pass

    def view(self) -> memoryview:
        """Return the bytes of its items; ``Unread`` ones are read from the file, and not kept."""
        if isinstance(self.buffer, bytes):
            return memoryview(self.buffer)
        view = self.buffer.view()
        for start in range(0, len(view), _PIECE):
            _check_items(self.dtype, view[start : start + _PIECE])
        return view

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:  # noqa: FBT001 -- numpy's
        """Return the array for ``numpy.asarray``; read-only unless copied or converted to another dtype."""
        import numpy as np

        array = np.asarray(self.to_numpy())
        array.flags.writeable = False
        wanted = array.dtype if dtype is None else np.dtype(dtype)
        if copy is False and wanted != array.dtype:
            raise ValueError(f"expected a copy, to convert {array.dtype} to {wanted}")
        return array.astype(wanted, copy=bool(copy))

    def to_numpy(self) -> np.ndarray | np.generic:
        """Return the array (read-only, native byte order) or the numpy scalar."""
        array = self.as_stored()
        native: np.ndarray = array.astype(array.dtype.newbyteorder("="), copy=False)
        native.flags.writeable = False
        return native[()] if self.is_scalar else native

    def as_stored(self) -> np.ndarray:
        """Return an array of the bytes as they are stored, in their byte order, also for a scalar."""
        import numpy as np

        names, formats, offsets = zip(*self.fields) if self.fields else ((), (), ())
        fields = {"names": names, "formats": formats, "offsets": offsets, "itemsize": item_size(self.dtype)}
        dtype: np.dtype = np.dtype(fields if names else self.dtype)  # type: ignore[arg-type]
        shape = self.shape
        if self.axes:
            shape = tuple(self.shape[self.axes.index(axis)] for axis in range(len(self.axes)))
        view = self.view()
        try:
            array: np.ndarray = np.ndarray(shape, dtype, array_buffer(view), order=self.order)
        except ValueError as error:
            message = f"this numpy cannot hold an array of {len(self.shape)} dimensions: {error}"
            raise UnsupportedError(message) from None
        return array.transpose(self.axes) if self.axes else array


def array_buffer(view: memoryview | bytes) -> Any:
    """Return bytes over which numpy makes arrays that stay read-only.

    The base of an array over a view is the owner of its memory; where that is not bytes but a map or a bytearray, numpy
    would let a caller make the array writable.
    """
    if not view or type(view) is bytes or type(view.obj) is bytes:  # type: ignore[union-attr]
        return view
    import numpy as np

    return np.frombuffer(view, np.uint8)


def _refuse(message: str, error: type[SbformatError] = TensorError) -> NoReturn:
    raise error(message)


def _is_checked(code: str) -> bool:
    """Return whether some bytes are not valid items of a dtype."""
    return code == "|b1" or code[1] == "U"


def _check_items(code: str, raw: bytes | memoryview) -> None:
    """Refuse bytes that numpy accepts without a check: bools other than 0 and 1, and invalid characters."""
    if code == "|b1" and bytes(raw).translate(None, b"\0\1"):
        _refuse(_ODD_BOOLS)
    if code[1] == "U":
        try:
            # by functions of ``codecs``: text codecs by name are imported when they are first used
            (codecs.utf_32_be_decode if code[0] == ">" else codecs.utf_32_le_decode)(raw, "surrogatepass", True)
        except UnicodeDecodeError:
            _refuse("expected characters in a numpy text, got a number that is not a character")


def _is_reduced(value: object) -> TypeGuard[_Reduced]:
    return (
        isinstance(value, Call)
        and value.how == "REDUCE"
        and isinstance(value.func, Global)
        and not value.func.updates
        and type(value.args) is tuple
    )


def _buffer(value: object) -> bytes | Unread | None:
    """Return the items of an array, which may be ``Unread``; None for anything but bytes."""
    if type(value) is list:
        _refuse("a numpy array contains Python objects", UnsupportedError)
    return value if isinstance(value, Unread) else encoded_bytes(value)


def encoded_bytes(value: object) -> bytes | None:
    """Return bytes, or those of ``_codecs.encode(text, "latin1")`` or ``bytes()``, as protocol 2 encodes them."""
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
    """Return text as latin-1 bytes, or None if the arguments are not text and that encoding."""
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        return None
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        _refuse("expected characters up to 255 in text that encodes bytes, got another")


def dtype_code(value: object) -> str:
    """Return the code of ``numpy.dtype(code, align, copy)`` with its state."""
    call = _dtype_call(value)
    code = call.args[0]
    if code not in ITEM_SIZES:
        _refuse(f"the numpy dtype {quote(code)} is not a plain number", UnsupportedError)
    return _plain_code(code, _dtype_state(call))


def _plain_code(code: str, state: tuple[Any, ...] | None) -> str:
    """Return the code of a dtype of numbers with its byte order."""
    if state is not None and not any(_is_exactly(state[2:], plain) for plain in _PLAIN_STATES):
        _refuse("a numpy dtype has fields or an unknown state")
    order = "|" if state is None else _BYTE_ORDERS[state[1]]
    if ITEM_SIZES[code] == 1:
        return f"|{code}"
    return f"{'<' if order == '|' else order}{code}"


def _dtype_call(value: object) -> _Reduced:
    """Return the call of a dtype; the first of its arguments is its code."""
    if not (_is_reduced(value) and value.func.pair == NUMPY_DTYPE):
        _refuse("expected the dtype of a numpy value, got another value")
    args = value.args
    if not 1 <= len(args) <= 3 or not isinstance(args[0], str) or any(type(arg) not in (bool, int) for arg in args[1:]):
        _refuse("a numpy dtype has unknown arguments")
    return value


def _dtype_state(call: _Reduced) -> tuple[Any, ...] | None:
    args, updates = call.args, call.updates or []
    if len(updates) > 1 or (updates and updates[0].how != "BUILD"):
        _refuse("a numpy dtype has an unknown state")
    if not updates:
        return None
    if len(args) < 3 or not args[2]:
        _refuse("a numpy dtype has a state that numpy ignores, as it is not a copy")
    state = updates[0].value
    if type(state) is not tuple or len(state) not in (8, 9):
        _refuse("a numpy dtype has an unknown state")
    if type(state[0]) is not int or state[0] not in (3, 4):
        _refuse("a numpy dtype has an unknown version")
    if type(state[1]) is not str or state[1] not in _BYTE_ORDERS:
        _refuse("a numpy dtype has fields or an unknown byte order")
    if state[1] == ">" and (args[0][:1] in _UNORDERED or ITEM_SIZES.get(args[0]) == 1):
        _refuse("a numpy dtype of single bytes is big-endian, and so different from numpy's own")
    return state


def wide_dtype(value: object) -> tuple[str, tuple[Field, ...]]:
    """Return the code of a dtype, and its fields: besides plain numbers, text, bytes and flat structures."""
    call = _dtype_call(value)
    code, state = call.args[0], _dtype_state(call)
    if code in ITEM_SIZES:
        return _plain_code(code, state), ()
    if not re.fullmatch("[USV][0-9]{1,9}", code):
        _refuse(f"the numpy dtype {quote(code)} is neither a number nor text", UnsupportedError)
    size = item_size(f"|{code}")
    if state is not None and state[8:] not in ((), (None,)):
        _refuse("a numpy dtype has metadata", UnsupportedError)
    names, fields = (None, None) if state is None else state[3:5]
    if names is None and fields is None:
        plain = (size, 4, 8) if code[0] == "U" else (size, 1, 0)
        if state is not None and not _is_exactly(state[2:8], (None, None, None, *plain)):
            _refuse("a numpy dtype has an unknown state")
        order = "<" if state is None or state[1] != ">" else ">"
        return (f"{order}{code}" if code[0] == "U" else f"|{code}"), ()
    if code[0] != "V" or type(names) is not tuple or type(fields) is not Dict or len(fields) != len(names) or not names:
        _refuse("a numpy dtype has unknown fields")
    if (
        state is None
        or any(type(part) is not int for part in state[5:8])
        or (state[2], state[5]) != (None, size)
        or state[6] not in _ALIGNMENTS
        or state[7] not in _STRUCTURE_FLAGS
    ):
        _refuse("a numpy dtype has an unknown state")
    made = tuple(_field(name, pair, size) for name, pair in zip(names, fields))
    if len({field.name for field in made}) != len(made):
        _refuse("a numpy dtype has two fields with the same name")
    ordered = sorted(made, key=lambda field: field.offset)
    if any(one.offset + item_size(one.dtype) > other.offset for one, other in pairwise(ordered)):
        _refuse("the fields of a numpy dtype overlap")
    return f"|{code}", made


def _field(name: object, pair: tuple[object, object], size: int) -> Field:
    key, where = pair
    if type(name) is not str or not name or key != name or type(where) is not tuple or len(where) != 2:
        _refuse("a numpy dtype has unknown fields")
    dtype, offset = where[:2]
    code = dtype_code(dtype)
    if type(offset) is not int or not 0 <= offset <= size - item_size(code):
        _refuse("a field of a numpy dtype is outside the dtype")
    return Field(name, code, offset)


def item_size(code: str) -> int:
    """Return the bytes of one item of a dtype by its code, ``<f4``."""
    return ITEM_SIZES.get(code[1:]) or int(code[2:]) * (4 if code[1] == "U" else 1)


def is_plain(code: str) -> bool:
    """Return whether a dtype without fields is one that a reader returns: of numbers, text or bytes."""
    return code[1:] in ITEM_SIZES or code[1] in "USV"


def _is_exactly(values: tuple[object, ...], wanted: tuple[object, ...]) -> bool:
    """Return whether two tuples have equal items of the same types: False is not 0, and numpy refuses 0.0."""
    return list(map(type, values)) == list(map(type, wanted)) and values == wanted


def is_flag(value: object) -> bool:
    """Return whether a value is true or false, as numpy pickles it: a bool, or 0 or 1."""
    return type(value) in (bool, int) and value in (0, 1)


def is_empty_shape(value: object) -> bool:
    """Return whether a value is ``(0,)``, the first shape of an array in numpy's pickles."""
    return type(value) is tuple and _is_exactly(value, (0,))


def is_object_array(call: Call) -> bool:
    """Return whether a ``_reconstruct`` creates an array of Python objects."""
    updates = call.updates or []
    state = updates[0].value if len(updates) == 1 else None
    return type(state) is tuple and len(state) == 5 and is_object_dtype(state[2])


def is_object_dtype(value: object) -> bool:
    """Return whether a call creates the dtype of Python objects."""
    if not (_is_reduced(value) and value.func.pair == NUMPY_DTYPE):
        return False
    call = _dtype_call(value)
    code: str = call.args[0]
    state = _dtype_state(call)
    if state is None or code != "O8":
        return code == "O8"
    return state[8:] in ((), (None,)) and _is_exactly(state[1:8], ("|", None, None, None, -1, -1, 63))


def reaches_memory(call: Call) -> bool:
    """Return whether numpy, which does not check what it unpickles, may access memory outside the value of a call.

    The state of a dtype has sizes and offsets, and an array of objects takes the items of a list, as many as its shape.
    """
    func, states = call.func, [update.value for update in call.updates or ()]
    if not isinstance(func, Global) or func.module.partition(".")[0] != "numpy":
        return False
    if func.pair == NUMPY_DTYPE:
        if all(_is_checked_state(call.args, state) for state in states):
            return False
        with suppress(TensorError, UnsupportedError):
            return not (is_object_dtype(call) or wide_dtype(call))
        return True
    for state in states:
        if type(state) is not tuple or len(state) != 5:
            continue
        dtype = state[2]
        code = dtype.args[0] if _is_reduced(dtype) and dtype.args else None
        if type(code) is not str or "o" in code.lower():
            with suppress(TensorError):
                return type(state[4]) is not list or checked_numel(state[1], 1) != len(state[4])
            return True
    return False


def _is_checked_state(args: object, state: object) -> bool:
    """Return whether a state of a dtype is safe: without sizes, fields and flags, and with a unit for dates."""
    code = args[0] if type(args) is tuple and args else None
    if type(code) is not str or type(state) is not tuple or not _is_exactly(state[2:8], _PLAIN_STATES[0]):
        return False
    if re.fullmatch("[mM]8", code):  # numpy checks the items, which convert to a unit and two numbers
        unit = state[8][1] if len(state) == 9 and type(state[8]) is tuple and len(state[8]) == 2 else ()
        if type(unit) is not tuple or len(unit) != 4 or encoded_bytes(unit[0]) is None:
            return False
        return all(type(number) is int and number > 0 for number in unit[1:])
    return re.fullmatch("[biufc][0-9]{1,2}", code) is not None and len(state) in (8, 9)


def array_info(call: Call, *, is_wide: bool = False) -> ArrayInfo:
    """Return the array or scalar of a call of a numpy constructor in :data:`~sbformat.pkl.tree.CALLS`.

    :param is_wide: allow text, bytes and flat structures too
    """
    if not _is_reduced(call):
        _refuse("a numpy value has computed arguments")
    is_scalar = CALLS[call.func.pair] == "numpy_scalar"
    if not is_scalar and call.func.pair[1] != NUMPY_RECONSTRUCT:
        return _from_buffer(call, is_wide=is_wide)
    shape: object = ()
    order: Literal["C", "F"] = "C"
    if is_scalar:
        if call.updates or len(call.args) != 2:
            _refuse("a numpy scalar has unknown arguments")
        dtype, items = call.args
    else:
        _, shape, dtype, is_fortran, items = _array_state(call)
        order = "F" if is_fortran else "C"
    read = _dtype(dtype, is_wide=is_wide)
    if isinstance(items, bytearray) or (isinstance(items, Unread) and items.is_bytearray):  # numpy never writes one
        _refuse("expected bytes as the items of a numpy value, got a bytearray")
    return _checked(read, shape, order, _buffer(items), is_scalar=is_scalar)


def _array_state(call: _Reduced) -> tuple[Any, ...]:
    """Return the state of ``_reconstruct``: version, shape, dtype, whether it is in Fortran order, and the items."""
    args, updates = call.args, call.updates or []
    if (
        len(args) != 3
        or not (isinstance(args[0], Global) and not args[0].updates)
        or not is_empty_shape(args[1])
        or isinstance(args[2], bytearray)
        or encoded_bytes(args[2]) != b"b"
        or len(updates) != 1
        or updates[0].how != "BUILD"
    ):
        _refuse("a numpy array has unknown arguments of _reconstruct")
    if args[0].pair != NUMPY_NDARRAY:
        _refuse(f"{quote(args[0])} is not numpy's class of arrays", UnsupportedError)
    state = updates[0].value
    if type(state) is not tuple or len(state) != 5 or not is_flag(state[3]):
        _refuse("a numpy array has an unknown state")
    if type(state[0]) is not int or state[0] != 1:
        _refuse("a numpy array has an unknown version")
    return state


def _from_buffer(call: _Reduced, *, is_wide: bool) -> ArrayInfo:
    """Return the array of ``_frombuffer``; since numpy 2.3 its axes may be in another order than its bytes."""
    args = call.args
    is_transposed = is_wide and len(args) == 5 and args[3] == "K"
    if not is_transposed and (call.updates or len(args) != 4 or args[3] not in ("C", "F")):
        _refuse("a numpy array has an unknown order or arguments")
    dtype = _dtype(args[1], is_wide=is_wide)
    if not item_size(dtype[0]):
        _refuse("a numpy array from a buffer has items without bytes")
    info = _checked(dtype, args[2], "F" if args[3] == "F" else "C", _buffer(args[0]))
    if not is_transposed:
        return info
    axes = args[4]
    if type(axes) is not tuple or any(type(axis) is not int for axis in axes) or call.updates:
        _refuse("a numpy array has unknown axes")
    if sorted(axes) != list(range(len(info.shape))):
        _refuse("a numpy array has unknown axes")
    return info._replace(shape=tuple(info.shape[axis] for axis in axes), axes=axes)


def _dtype(value: object, *, is_wide: bool) -> tuple[str, tuple[Field, ...]]:
    return wide_dtype(value) if is_wide else (dtype_code(value), ())


def _checked(
    dtype: tuple[str, tuple[Field, ...]],
    shape: object,
    order: Literal["C", "F"],
    buffer: bytes | Unread | None,
    *,
    is_scalar: bool = False,
) -> ArrayInfo:
    code, fields = dtype
    size = checked_numel(shape, item_size(code)) * item_size(code)
    if buffer is None:
        _refuse(f"expected bytes as the items of a numpy value of dtype {code}, got another value")
    if size != len(buffer):
        _refuse(f"expected {size} bytes for a numpy value of dtype {code} and shape {shape}, got {len(buffer)}")
    if isinstance(buffer, bytes):
        _check_items(code, buffer)
    return ArrayInfo(code, shape, order, buffer, is_scalar, fields)  # type: ignore[arg-type]


def checked_numel(shape: object, itemsize: int) -> int:
    """Return the number of items of a shape that numpy can represent."""
    if type(shape) is not tuple or len(shape) > _RANK:
        _refuse("a numpy array has an unknown shape")
    numel, extent = 1, itemsize
    for length in shape:
        if type(length) is not int or not 0 <= length < 2**63:
            _refuse("a numpy array has an unknown shape")
        numel *= length
        extent *= length or 1
    if extent >= 2**63:
        _refuse(f"a numpy array of shape {shape} is too large for any memory")
    return numel


_MULTIARRAY: Final = "numpy.core.multiarray"  # its name before numpy 2, which both know


def to_tree(info: ArrayInfo) -> Call:
    """Return the call that numpy pickles an array or scalar as."""
    if info.is_scalar:
        return Call("REDUCE", Global(_MULTIARRAY, "scalar"), (dtype_tree(info.dtype), info.read()))
    array = Call("REDUCE", Global(_MULTIARRAY, NUMPY_RECONSTRUCT), (Global(*NUMPY_NDARRAY), (0,), b"b"))
    state = (1, info.shape, dtype_tree(info.dtype), info.order == "F", info.read())
    array.updates = [Update("BUILD", array, state)]
    return array


def dtype_tree(code: str) -> Call:
    """Return the call that numpy pickles a dtype of numbers as, by its code in the array interface, ``<f4``."""
    dtype = Call("REDUCE", Global(*NUMPY_DTYPE), (code[1:], False, True))
    dtype.updates = [Update("BUILD", dtype, (3, code[0], None, None, None, -1, -1, 0))]
    return dtype
