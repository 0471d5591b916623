"""Arrays to files that need no torch: ``.safetensors``, ``.npz``, or a folder of ``.npy``.

What a format cannot hold is refused with the tensor's name before anything is written. Files are made
whole or not at all, and the same arrays give the same bytes.
"""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from sbformat.atomic import new_file, new_folder
from sbformat.entry_names import check_name, check_path, check_paths
from sbformat.errors import ContainerError, UnsupportedError, quote
from sbformat.weights import check_safetensors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ExportFormat: TypeAlias = Literal["safetensors", "npz", "npy-folder"]

SAFETENSORS_DTYPES: Final = frozenset(
    {
        "bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "bfloat16",
        "float32", "float64", "float8_e4m3fn", "float8_e5m2",
    }
)  # fmt: skip
"""torch's dtypes that every release of safetensors can hold."""

_NAME_BYTES: Final = 65_000  # a member of a zip can have little more
_RESERVED: Final = "__metadata__"
_FIXED_DATE: Final = (1980, 1, 1, 0, 0, 0)


def format_of(path: str | os.PathLike[str]) -> ExportFormat:
    """Tell the format from a path's suffix: ``.safetensors``, ``.npz``, none or a slash for a folder.

    :raises UnsupportedError: for any other suffix
    """
    text = os.fspath(path)
    if not text:
        message = "the output has no name"
        raise UnsupportedError(message)
    suffix = Path(text).suffix
    if suffix == ".safetensors":
        return "safetensors"
    if suffix == ".npz":
        return "npz"
    if text.endswith(("/", os.sep)) or not suffix or Path(text).is_dir():
        return "npy-folder"
    message = f"{quote(text)}: the suffix tells the format: .safetensors, .npz, or none for a folder of .npy"
    raise UnsupportedError(message)


def export(
    arrays: Mapping[str, Any],
    path: str | os.PathLike[str],
    *,
    metadata: Mapping[str, str] | None = None,
    overwrite: bool = False,
    progress: Callable[[str], None] | None = None,
) -> None:
    """Write arrays to a file or folder.

    :param arrays: by name; every one a numpy array, or bytes, which count as an array of them
    :param path: its suffix tells the format, see :func:`format_of`
    :param metadata: text that a ``.safetensors`` keeps in its header; the others have no place for it
    :param overwrite: replace what is there
    :param progress: called with each name once it is written
    :raises UnsupportedError: for a tensor or name that the format cannot hold
    :raises FileExistsError: when the target exists and ``overwrite`` is False
    """
    arrays = {
        name: np.frombuffer(array, np.uint8) if isinstance(array, bytes) else array for name, array in arrays.items()
    }
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):
            message = f"{quote(name)} is a {type(array).__name__}, not an array; leave it out with --tensors"
            raise UnsupportedError(message)
        _check_text(name)
    kind = format_of(path)
    write = {"safetensors": _safetensors, "npz": _npz, "npy-folder": _npy_folder}[kind]
    write(_Job(arrays, path, dict(metadata or {}), overwrite, progress or (lambda _: None)))


class _Job(NamedTuple):
    """What :func:`export` was asked for, checked."""

    arrays: Mapping[str, Any]
    path: str | os.PathLike[str]
    metadata: dict[str, str]
    overwrite: bool
    progress: Callable[[str], None]


def _check_text(name: str) -> None:
    try:
        size = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        size = 0
    if not 0 < size <= _NAME_BYTES or "\0" in name:
        message = f"{quote(name)} cannot be a name: it is empty, too long, or holds NUL or a lone surrogate"
        raise UnsupportedError(message)


def _safetensors(job: _Job) -> None:
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    if _RESERVED in job.arrays:
        message = f"safetensors keeps the name {_RESERVED} for itself; write .npz"
        raise UnsupportedError(message)
    dense = {name: np.asarray(array, order="C") for name, array in job.arrays.items()}
    with new_file(job.path, overwrite=job.overwrite) as temporary:
        try:
            save_file(dense, temporary, metadata=job.metadata or None)
        except SafetensorError as error:
            if "I/O error" in str(error):
                raise OSError(5, str(error)[:200], os.fspath(job.path)) from None
            message = f"safetensors cannot hold these tensors: {str(error)[:200]}"
            raise UnsupportedError(message) from None
        check_safetensors(temporary)
    for name in job.arrays:
        job.progress(name)


def _npz(job: _Job) -> None:
    for name, array in job.arrays.items():
        _check_npy(name, array)
        if name.endswith(".npy") and name.removesuffix(".npy") in job.arrays:
            message = f"a .npz cannot hold {quote(name)} beside {quote(name.removesuffix('.npy'))}"
            raise UnsupportedError(message)
    with new_file(job.path, overwrite=job.overwrite) as temporary, zipfile.ZipFile(temporary, "w") as file:
        for name, array in job.arrays.items():
            member = zipfile.ZipInfo(f"{name}.npy", _FIXED_DATE)
            with file.open(member, "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, array, allow_pickle=False)
            job.progress(name)


def _npy_folder(job: _Job) -> None:
    files = {name: f"{name}.npy" for name in job.arrays}
    try:
        for file in files.values():
            check_path(check_name(file.encode("utf-8")))
        check_paths(files.values())
    except ContainerError as error:
        message = f"as file names: {error.message}; write .safetensors or .npz"
        raise UnsupportedError(message) from None
    for name, array in job.arrays.items():
        _check_npy(name, array)
    with new_folder(job.path, overwrite=job.overwrite, replaceable_suffix=".npy") as temporary:
        for name, array in job.arrays.items():
            target = temporary / files[name]
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as stream:
                np.lib.format.write_array(stream, array, allow_pickle=False)
            job.progress(name)


def _check_npy(name: str, array: np.ndarray) -> None:
    """The .npy header names numpy's own dtypes only; others would come back as raw bytes."""
    if array.dtype.kind == "V" or array.dtype.type.__module__ != "numpy":
        message = f"{quote(name)} is {array.dtype}, which .npy cannot name; write .safetensors"
        raise UnsupportedError(message)
