"""``write_arrays``: arrays to ``.safetensors``, ``.npz``, or a folder of ``.npy`` files.

Arrays that a format cannot represent are refused by name before anything is written. Files are written whole or not at
all, and equal arrays give equal bytes. Arrays are written one after the other in pieces: a stream is never in memory as
a whole.
"""

from __future__ import annotations

import json
import os
from io import BufferedWriter
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Literal, TypeAlias

from sbformat.arrayfiles.headers import CODES, check_safetensors
from sbformat.container.layout import check_name, check_path, check_paths
from sbformat.errors import ContainerError, UnsupportedError, quote, require_type
from sbformat.immutable import Record
from sbformat.io.atomic import new_file, new_folder, open_new
from sbformat.io.source import READ_AHEAD_BYTES, read_ahead
from sbformat.pth.array_streams import ArrayStream
from sbformat.pth.values import refuse_unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import numpy as np

    from sbformat.pth.values import Chunk

ExportFormat: TypeAlias = Literal["safetensors", "npz", "npy-folder"]

SAFETENSORS_DTYPES: Final = frozenset(
    {
        "bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "bfloat16",
        "float32", "float64", "float8_e4m3fn", "float8_e5m2",
    }
)  # fmt: skip
"""torch's dtypes that every release of safetensors can hold."""

_ALIGNMENT: Final = 8
_HEADER_BYTES: Final = 100_000_000  # the longest header that the library reads
_NAME_BYTES: Final = 65_000  # a member of a zip can have little more
_RESERVED: Final = "__metadata__"


def detect_format(path: str | os.PathLike[str]) -> ExportFormat:
    """Detect the format from a path's suffix: ``.safetensors``, ``.npz``, none or a slash for a folder."""
    require_type(path, (str, os.PathLike), "a path")
    text = os.fspath(path)
    if not text:
        refuse_unsupported("expected a path to write to, got an empty one")
    suffix = Path(text).suffix.lower()
    if suffix == ".safetensors":
        return "safetensors"
    if suffix == ".npz":
        return "npz"
    if not text.endswith(("/", os.sep)) and suffix and not Path(text).is_dir():
        refuse_unsupported(
            f"{quote(text)}: expected the suffix .safetensors or .npz, or none for a folder of .npy files"
        )
    return "npy-folder"


def write_arrays(
    arrays: Mapping[str, Any],
    path: str | os.PathLike[str],
    *,
    metadata: Mapping[str, str] | None = None,
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
    check: Callable[[], None] | None = None,
) -> None:
    """Write arrays to a file or folder.

    :param arrays: by name; every one a numpy array, an :class:`~sbformat.pth.array_streams.ArrayStream`, or bytes,
        which count as an array of them
    :param path: its suffix tells the format, see :func:`detect_format`
    :param metadata: text that a ``.safetensors`` keeps in its header; the others have no place for it
    :param progress: called with the bytes of an array as they are written
    :param check: called when all was written, before it takes the target's place; what it raises is raised
    """
    streams = _describe_arrays(arrays)
    kind = detect_format(path)
    write = {"safetensors": _safetensors, "npz": _npz, "npy-folder": _npy_folder}[kind]
    write(_Job(streams, path, dict(metadata or {}), overwrite, progress or (lambda _: None), check or (lambda: None)))


def encode_safetensors(arrays: Mapping[str, Any]) -> bytes:
    """Return the bytes of the ``.safetensors`` file that :func:`write_arrays` writes."""
    streams = _describe_arrays(arrays)
    names, header = _lay_out(streams, {})
    return b"".join((header, *(piece for name in names for piece in streams[name].in_c_order())))


def _describe_arrays(arrays: Mapping[str, Any]) -> dict[str, ArrayStream]:
    streams = {}
    for name, array in arrays.items():
        streams[name] = _stream(name, array)
        try:
            size = len(name.encode("utf-8"))
        except UnicodeEncodeError:
            size = 0
        if not 0 < size <= _NAME_BYTES or "\0" in name:
            refuse_unsupported(
                f"{quote(name)} cannot be a name: it is empty, too long, or holds NUL or a lone surrogate"
            )
    return streams


class _Job(Record):
    """The checked arguments of :func:`write_arrays`."""

    arrays: dict[str, ArrayStream]
    path: str | os.PathLike[str]
    metadata: dict[str, str]
    overwrite: bool
    progress: Callable[[int], None]
    check: Callable[[], None]

    def copy(self, pieces: Iterator[Chunk], nbytes: int, file: IO[bytes]) -> None:
        """Write the bytes of arrays; when there are many, the next ones are read and checked meanwhile."""
        for piece in read_ahead(pieces) if nbytes >= READ_AHEAD_BYTES else pieces:
            file.write(piece)
            self.progress(len(piece))


def bytes_stream(size: int, chunks: Callable[[], Iterable[Chunk]]) -> ArrayStream:
    """Return bytes as an array of them; ``chunks`` gives them, each time it is called."""

    def make() -> np.ndarray:
        import numpy as np

        return np.frombuffer(b"".join(chunks()), np.uint8)

    return ArrayStream("uint8", 1, "|u1", (size,), False, lambda: iter(chunks()), make)


def _stream(name: str, array: object) -> ArrayStream:
    if isinstance(array, ArrayStream):
        return array
    if isinstance(array, bytes):
        return bytes_stream(len(array), lambda: (array,))
    import numpy as np

    from sbformat.pth.arrays import c_order, little

    if not isinstance(array, np.ndarray):
        refuse_unsupported(
            f"{quote(name)} is a {type(array).__name__}, not an array", hint="leave it out with --tensors"
        )
    held = np.asarray(array)
    dtype = little(held.dtype)
    is_plain = dtype.kind not in "VO" and dtype.type.__module__ == "numpy"
    descr = np.lib.format.dtype_to_descr(dtype) if is_plain else None
    is_fortran = held.flags.f_contiguous and not held.flags.c_contiguous
    in_order = held.T if is_fortran else held
    return ArrayStream(
        dtype.name, dtype.itemsize, descr, held.shape, is_fortran, lambda: c_order(in_order), lambda: held
    )


def _safetensors(job: _Job) -> None:
    """Write byte for byte what the format's own library writes, which holds all of the file in memory."""
    names, header = _lay_out(job.arrays, job.metadata)
    with new_file(job.path, overwrite=job.overwrite) as temporary:
        with BufferedWriter(open_new(temporary)) as file:
            file.write(header)
            arrays = [job.arrays[name] for name in names]
            pieces = chain.from_iterable(array.in_c_order() for array in arrays)
            job.copy(pieces, sum(array.nbytes for array in arrays), file)
        check_safetensors(temporary)
        job.check()


def _lay_out(arrays: Mapping[str, ArrayStream], metadata: Mapping[str, str]) -> tuple[list[str], bytes]:
    """Return the names in the order of their bytes, and what comes before these: the header and its length."""
    if _RESERVED in arrays:
        refuse_unsupported(f"the name {_RESERVED} is reserved in safetensors", hint="write .npz")
    for name, array in arrays.items():
        if array.dtype not in CODES:
            refuse_unsupported(f"safetensors has no dtype {array.dtype}, which {quote(name)} has")
    rank = {name: place for place, name in enumerate(CODES)}
    names = sorted(arrays, key=lambda name: (rank[arrays[name].dtype], name))
    rows: dict[str, Any] = {_RESERVED: dict(sorted(metadata.items()))} if metadata else {}
    start = 0
    for name in names:
        stop = start + arrays[name].nbytes
        rows[name] = {"dtype": CODES[arrays[name].dtype], "shape": arrays[name].shape, "data_offsets": (start, stop)}
        start = stop
    text = json.dumps(rows, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    if len(text) > _HEADER_BYTES:
        refuse_unsupported(f"a safetensors header of {len(text):,} bytes is too large: there are too many names")
    header = text + b" " * (-len(text) % _ALIGNMENT)
    return names, len(header).to_bytes(_ALIGNMENT, "little") + header


def _npz(job: _Job) -> None:
    import zipfile

    for name, array in job.arrays.items():
        _check_npy(name, array)
        if name.endswith(".npy") and name.removesuffix(".npy") in job.arrays:
            refuse_unsupported(f"a .npz cannot contain both {quote(name)} and {quote(name.removesuffix('.npy'))}")
    with (
        new_file(job.path, overwrite=job.overwrite) as temporary,
        BufferedWriter(open_new(temporary)) as raw,
        zipfile.ZipFile(raw, "w") as file,
    ):
        for name, array in job.arrays.items():
            member = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
            with file.open(member, "w", force_zip64=True) as stream:
                _write_npy(job, array, stream)
        job.check()


def _npy_folder(job: _Job) -> None:
    files = {name: f"{name}.npy" for name in job.arrays}
    try:
        for file in files.values():
            check_path(check_name(file.encode("utf-8")))
        check_paths(files.values())
    except ContainerError as error:
        raise UnsupportedError(f"as file names: {error.message}", hint="write .safetensors or .npz") from None
    for name, array in job.arrays.items():
        _check_npy(name, array)
    with new_folder(job.path, overwrite=job.overwrite, replaceable_suffix=".npy") as temporary:
        for name, array in job.arrays.items():
            target = temporary / files[name]
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as stream:
                _write_npy(job, array, stream)
        job.check()


def _write_npy(job: _Job, array: ArrayStream, file: IO[bytes]) -> None:
    from numpy.lib.format import write_array_header_1_0

    header = {"descr": array.descr, "fortran_order": array.is_fortran, "shape": array.shape}
    write_array_header_1_0(file, header)
    job.copy(array.pieces(), array.nbytes, file)


def _check_npy(name: str, array: ArrayStream) -> None:
    """The .npy header names numpy's own dtypes only; others would come back as raw bytes."""
    if array.descr is None:
        refuse_unsupported(f"{quote(name)} is {array.dtype}, which .npy does not support", hint="write .safetensors")
