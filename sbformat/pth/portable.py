"""State dicts as JSON and named tensors, which a safetensors file can contain (WRITER.md 12.6).

Values that JSON represents are plain JSON; others are objects with one key, a tag: ``{"tuple": [...]}``. For values
without a tag (sparse and quantized tensors, inert nodes) :func:`to_portable` raises an error; the entry is then stored
as bytes.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import struct
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, NoReturn

from sbformat.errors import DataError, quote
from sbformat.immutable import Record
from sbformat.limits import DEFAULT_LIMITS, Limits
from sbformat.pkl.tree import DTYPES, LAYOUTS, MEMORY_FORMATS
from sbformat.pth.values import (
    DEVICE_INDEXES,
    Device,
    DTypeName,
    Layout,
    MemoryFormat,
    Size,
    TensorInfo,
    other_keys,
    refuse_unsupported,
    segment,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sbformat.pth.state_dict import StateDict

_DEEPEST: Final = 15  # containers in containers; each takes three levels of JSON, of which a reader allows 64
_EXACT_INTEGERS: Final = 2**53
_DOUBLE: Final = struct.Struct(">d")
_MOST_VALUES: Final = 200_000
"""The most values of one tree. A shared value counts each time, a text once more for each 256 characters."""
_TEXT_COST: Final = 256
_NAME_BYTES: Final = 60_000
_NAMED: Final[dict[str, tuple[Callable[[str], Any], frozenset[str]]]] = {
    "dtype": (DTypeName, frozenset(DTYPES.values())),
    "layout": (Layout, LAYOUTS),
    "memory_format": (MemoryFormat, frozenset(MEMORY_FORMATS.values())),
}
"""torch's small values that are a name, and the names there are."""


def to_portable(state_dict: StateDict, name: str) -> tuple[Any, dict[str, TensorInfo]]:
    """Split a state dict into a JSON value and its tensors.

    Tensors that are the same view of one storage are one, under the first path: ``name:path``.
    """
    state_dict.tensors()  # counts its paths, which shared containers could make any number of
    split = _Split(name)
    return split.value(state_dict.tree, "", 0), split.tensors


class _Split:
    def __init__(self, name: str) -> None:
        self._name = name
        self._known: dict[tuple[Any, ...], str] = {}
        self._values = 0
        self.tensors: dict[str, TensorInfo] = {}

    def value(self, value: Any, path: str, depth: int) -> Any:
        """Return the JSON of one value."""
        self._values += 1 + (len(value) // _TEXT_COST if isinstance(value, (str, bytes, bytearray)) else 0)
        if self._values > _MOST_VALUES:
            refuse_unsupported("the description has more values than allowed")
        if value is None or type(value) in (bool, str):
            return value
        if depth > _DEEPEST:
            refuse_unsupported("nested too deeply for JSON")
        if type(value) is int:
            return value if abs(value) < _EXACT_INTEGERS else {"int": hex(value)}
        if type(value) is float:
            return {"float": _float_text(value)}
        if isinstance(value, TensorInfo):
            return self._tensor(value, path)
        if type(value) in (dict, OrderedDict):
            return self._dict(value, path, depth)
        if type(value) in (list, tuple):
            word = "list" if type(value) is list else "tuple"
            return {word: [self.value(part, _join(path, f"[{at}]"), depth + 1) for at, part in enumerate(value)]}
        for word, (kind, _) in _NAMED.items():
            if type(value) is kind:
                return {word: value.name}
        return self._small(value, path, depth)

    def _small(self, value: Any, path: str, depth: int) -> Any:
        if type(value) in (bytes, bytearray):
            return {type(value).__name__: base64.b64encode(value).decode("ascii")}
        if type(value) is complex:
            return {"complex": [_float_text(value.real), _float_text(value.imag)]}
        if type(value) is Size:
            return {"size": list(value)}
        if type(value) is Device:
            return {"device": [value.type, value.index]}
        if type(value) in (set, frozenset):
            members = [self.value(member, path, depth + 1) for member in value]
            return {type(value).__name__: sorted(members, key=json.dumps)}  # no hash decides the order
        return refuse_unsupported(f"{quote(path)} is a {type(value).__name__}, which has no portable form")

    def _tensor(self, info: TensorInfo, path: str) -> dict[str, Any]:
        if info.state is not None or info.dtype == "complex32":
            refuse_unsupported(f"{quote(path)} has attributes, or the dtype complex32, and so no portable form")
        view = (id(info.storage), info.dtype, info.offset, info.shape, info.strides, info.conj, info.neg)
        name = self._known.setdefault(view, f"{self._name}:{path}")
        try:
            size = len(name.encode("utf-8"))
        except UnicodeEncodeError:
            size = _NAME_BYTES + 1
        if size > _NAME_BYTES or "\0" in name:
            refuse_unsupported(f"{quote(name)} cannot be the name of a tensor in a safetensors file")
        self.tensors.setdefault(name, info)
        return {"tensor": name, **{flag: True for flag in _FLAGS if getattr(info, flag)}}

    def _dict(self, value: dict[Any, Any], path: str, depth: int) -> dict[str, Any]:
        pairs = [
            [self.value(key, path, depth + 1), self.value(part, _join(path, segment(key)), depth + 1)]
            for key, part in value.items()
        ]
        if type(value) is dict:
            return {"dict": pairs}
        metadata = getattr(value, "_metadata", None)
        beside = {} if metadata is None else {"_metadata": self.value(metadata, path, depth + 1)}
        return {"ordered_dict": pairs, **beside}


def _join(path: str, part: str) -> str:
    return f"{path}/{part}" if path else part


def _float_text(value: float) -> float | str:
    """Return a float as a JSON number if that is exact, else as the 16 hexadecimal digits of the binary64."""
    return value if math.isfinite(value) else _DOUBLE.pack(value).hex()


# -- and back -----------------------------------------------------------------------------------------


class _Reading(Record):
    """The tensors that the JSON refers to, and the limits."""

    tensors: Mapping[str, TensorInfo]
    used: set[str]
    limits: Limits


def from_portable(
    value: object, tensors: Mapping[str, TensorInfo], *, used: set[str] | None = None, limits: Limits = DEFAULT_LIMITS
) -> Any:
    """Return the tree that a JSON value and tensors were split from.

    :param value: as :func:`to_portable` gives it, from a file: every tag of it is checked
    :param used: gets the names of the tensors that it refers to
    :param limits: for dicts and sets whose keys are not text
    """
    try:
        return _value(value, _Reading(tensors, set() if used is None else used, limits))
    except RecursionError:
        return _refuse("it is nested too deeply")


_FLAGS: Final = ("requires_grad", "is_parameter")
_BESIDE: Final = {"tensor": frozenset(_FLAGS), "ordered_dict": frozenset({"_metadata"})}
"""The keys that may occur beside a tag."""
_COMPOSITES: Final = frozenset({"dict", "ordered_dict", "list", "tuple", "set", "frozenset", "tensor"})
_WORDS: Final = _COMPOSITES | {"int", "float", "bytes", "bytearray", "complex", "size", "device", *_NAMED}


def _value(value: object, context: _Reading) -> Any:
    if value is None or type(value) in (bool, str) or (type(value) is int and abs(value) < _EXACT_INTEGERS):
        return value
    if not isinstance(value, dict) or not value:
        _refuse(f"expected a tagged value, got a {type(value).__name__}")
    word, *beside = value
    if word not in _WORDS:
        _refuse(f"{quote(word)} is not a known tag")
    if not _BESIDE.get(word, frozenset()).issuperset(beside):
        _refuse(f"unexpected key beside {quote(word)}: {quote(beside[0])}")
    return _composite(word, value, context) if word in _COMPOSITES else _leaf(word, value[word])


def _composite(word: str, whole: dict[str, Any], context: _Reading) -> Any:
    """Return a container or a tensor."""
    body = whole[word]
    if word == "tensor":
        return _tensor(whole, body, context)
    if word == "dict":
        return dict(_pairs(body, context))
    if word == "ordered_dict":
        made = OrderedDict(_pairs(body, context))
        if "_metadata" in whole:
            made._metadata = _value(whole["_metadata"], context)  # type: ignore[attr-defined]  # noqa: SLF001
        return made
    parts = [_value(part, context) for part in _items(body)]
    if word in ("list", "tuple"):
        return parts if word == "list" else tuple(parts)
    _check_keys(parts, context)
    try:
        members = set(parts)
    except TypeError:
        return _refuse("a set contains a container")
    if len(members) != len(parts):
        _refuse("a set contains the same member twice")
    return members if word == "set" else frozenset(parts)


def _leaf(word: str, body: object) -> Any:
    """Return a value without parts."""
    if word == "int":
        return _integer(_text(body))
    if word == "float":
        return _number(body)
    if word in ("bytes", "bytearray"):
        try:
            raw = base64.b64decode(_text(body), validate=True)
        except (binascii.Error, ValueError):
            return _refuse("expected base64 for bytes, got another text")
        return raw if word == "bytes" else bytearray(raw)
    if word in _NAMED:
        kind, names = _NAMED[word]
        text = _text(body)
        return kind(text) if text in names else _refuse(f"{quote(body)} is not a known name of torch for this tag")
    parts = _items(body)
    if word == "complex":
        if len(parts) != 2:
            _refuse("expected two floats for a complex number, got other values")
        return complex(*map(_number, parts))
    if word == "size":
        if any(type(part) is not int or part < 0 for part in parts):
            _refuse("expected integers for a size, got other values")
        return Size(parts)
    known = [*DEVICE_INDEXES, None]
    if len(parts) != 2 or type(parts[0]) is not str or type(parts[1]) not in (int, type(None)) or parts[1] not in known:
        _refuse("expected a text and an integer for a device, got other values")
    return Device(*parts)


def _refuse(message: str) -> NoReturn:
    raise DataError(message)


def _items(value: object) -> list[Any]:
    if not isinstance(value, list):
        _refuse("expected a list, got another value")
    return value


def _text(body: object) -> str:
    if type(body) is not str:
        _refuse("expected a text, got another value")
    return body


def _check_keys(keys: list[Any], context: _Reading) -> None:
    """Limit the number of keys whose hashes a file can choose, as the decoder of a ``.pth`` does."""
    context.limits.check("other_keys", len(other_keys(keys)))


def _pairs(value: object, context: _Reading) -> list[tuple[Any, Any]]:
    rows = [_items(row) for row in _items(value)]
    if any(len(row) != 2 for row in rows):
        _refuse("expected a list of pairs for a dict, got another value")
    made = [(_value(key, context), _value(part, context)) for key, part in rows]
    _check_keys([key for key, _ in made], context)
    try:
        if len(dict(made)) != len(made):
            _refuse("a dict has the same key twice")
    except TypeError:
        _refuse("a dict has a container as a key")
    return made


def _tensor(whole: dict[str, Any], body: object, context: _Reading) -> TensorInfo:
    info = context.tensors.get(body) if type(body) is str else None
    if info is None:
        _refuse(f"the file has no tensor {quote(body)}")
    flags = {flag: whole.get(flag, False) for flag in _FLAGS}
    if any(type(flag) is not bool for flag in flags.values()):
        _refuse("expected booleans as the flags of a tensor, got other values")
    context.used.add(str(body))
    return info._replace(**flags)


def _integer(text: str) -> int:
    try:
        made = int(text, 16)
    except ValueError:
        return _refuse("expected a long integer in hexadecimal, got another value")
    return made if hex(made) == text else _refuse("expected a long integer as Python's hex writes it, got another form")


def _number(body: object) -> float:
    if type(body) is float or (type(body) is int and abs(body) <= _EXACT_INTEGERS):
        return float(body)
    text = _text(body)
    if len(text) != 16:
        _refuse("expected a number or 16 hexadecimal digits for a float, got another value")
    try:
        return float(_DOUBLE.unpack(bytes.fromhex(text))[0])
    except (ValueError, struct.error):
        return _refuse("expected hexadecimal digits for a float, got other characters")
