"""The fastest possible way without torch: CPython's unpickler in C with lazy tensors, in the style of llama.cpp.

It is unsafe (a pickle names what it imports) and checks nothing of the structure: the measure of what checking costs.
It is fed the benchmark's own files only, and never part of the package.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from collections import OrderedDict
from typing import Any

import numpy as np

DTYPES = {"DoubleStorage": np.float64, "FloatStorage": np.float32, "HalfStorage": np.float16, "LongStorage": np.int64,
          "IntStorage": np.int32, "ShortStorage": np.int16, "CharStorage": np.int8, "ByteStorage": np.uint8,
          "BoolStorage": np.bool_}  # fmt: skip


class LazyUnpickler(pickle.Unpickler):
    """Loads ``data.pkl``; a tensor becomes a function that reads it."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        name = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
        super().__init__(io.BytesIO(archive.read(name)))
        self.archive, self.folder = archive, name.removesuffix("data.pkl")

    def persistent_load(self, pid: Any) -> tuple[np.dtype[Any], str]:
        return np.dtype(pid[1]), f"{self.folder}data/{pid[2]}"

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and name in DTYPES:
            return DTYPES[name]
        found = {"_rebuild_tensor_v2": self.tensor, "_rebuild_parameter": lambda data, *_: data}.get(name)
        return found or super().find_class(module, name)

    def tensor(self, storage: tuple[np.dtype[Any], str], offset: int, shape: Any, strides: Any, *_: object) -> Any:
        dtype, name = storage

        def load() -> np.ndarray:
            steps = [step * dtype.itemsize for step in strides]
            return np.ndarray(shape, dtype, self.archive.read(name), offset * dtype.itemsize, steps)

        return load


def arrays(value: Any) -> Any:
    """Return the same containers with every lazy tensor read."""
    if isinstance(value, (dict, OrderedDict)):
        return {key: arrays(part) for key, part in value.items()}
    if isinstance(value, list):
        return [arrays(part) for part in value]
    return value() if callable(value) else value


def load(pth: bytes) -> Any:
    """Return the state dict of a ``.pth``, as arrays."""
    with zipfile.ZipFile(io.BytesIO(pth)) as archive:
        return arrays(LazyUnpickler(archive).load())
