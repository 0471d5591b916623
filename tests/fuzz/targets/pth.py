"""``.pth`` files: torch zips and legacy streams."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sbformat import SbformatError, UnsupportedError, pth
from sbformat.pth import StateDict, TensorInfo
from sbformat.pth.arrays import numpy_dtype
from tests.fuzz.law import ask

if TYPE_CHECKING:
    from sbformat.pth.values import OnUnknown

_GATHERED: Final = 64
"""Items of a tensor that are looked up one by one."""


def one_input(data: bytes) -> None:
    """Arrays have the shape, dtype and items that their geometry says, a file equals itself, and what can be read to
    its last value is written and read again as the same; with unknown constructors refused, and kept."""
    for on_unknown in ("error", "inert"):
        found = ask(pth.loads, data, on_unknown=on_unknown)
        if not isinstance(found, SbformatError) and is_whole(found, data, on_unknown) and on_unknown == "error":
            check_written(found)


def is_whole(found: StateDict, data: bytes, on_unknown: OnUnknown) -> bool:
    """Ask for all that a file holds; say whether every question was answered."""
    infos = ask(found.tensors)
    answers = [infos, ask(found.storages), ask(found.check), ask(found.to_numpy), ask(repr, found)]
    if not isinstance(infos, SbformatError):
        answers += [_checked_array(found, path, info) for path, info in infos.items()]
    copied = pth.loads(data, on_unknown=on_unknown, copy=True)
    answers += [ask(copied.to_numpy), ask(found.__eq__, copied)]
    if any(isinstance(answer, SbformatError) for answer in answers):
        return False
    assert answers[-1] is True, "a file does not equal itself"
    return True


def _checked_array(found: StateDict, path: str, info: Any) -> Any:
    array = ask(found.array, path)
    if isinstance(array, SbformatError) or not isinstance(info, TensorInfo):
        return array
    assert found.info(path) is info
    assert array.shape == info.shape
    assert array.dtype == ("complex64" if info.dtype == "complex32" else numpy_dtype(info.dtype))
    assert not array.flags.writeable
    if 0 < info.numel <= _GATHERED and not (info.conj or info.neg or info.dtype == "complex32"):
        _check_items(array, info)
    return array


def _check_items(array: np.ndarray, info: TensorInfo) -> None:
    """The items are those of the storage, each at offset + index x strides."""
    if info.storage.byte_order != "little":
        return
    raw, size = bytes(info.storage.bytes()), array.dtype.itemsize
    for index in itertools.product(*map(range, info.shape)):
        at = size * (info.offset + sum(step * stride for step, stride in zip(index, info.strides)))
        assert np.asarray(array[index]).tobytes() == raw[at : at + size]


def may_be_refused(found: StateDict, error: SbformatError) -> bool:
    """Only a big-endian storage that holds items of two sizes cannot be written, as no bytes say both; nor what
    protocol 2 has no opcode for, in what is kept inert of a tensor's attributes."""
    if error.message.startswith("protocol 2 has no "):
        return True
    is_big = any(storage.byte_order == "big" for storage in found.storages())
    return isinstance(error, UnsupportedError) and "items of two sizes" in error.message and is_big


def check_written(found: StateDict) -> None:
    """``loads(dumps(x)) == x``, and what is written then is the same; its arrays can be written alone."""
    raw = ask(pth.dumps, found)
    if isinstance(raw, SbformatError):
        assert may_be_refused(found, raw), raw
        return
    again = pth.loads(raw)
    assert again == found
    assert pth.dumps(again) == raw
    assert list(again.tensors()) == list(found.tensors())
    made = ask(lambda: pth.dumps(StateDict.from_arrays(found.to_numpy())))
    if not isinstance(made, SbformatError):
        ask(lambda: pth.loads(made).to_numpy())
