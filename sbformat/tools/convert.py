"""``convert``: write an archive as ``.zip``, ``.safetensors`` or ``.pth``, and arrays as ``.pth`` (WRITER.md 12.6).

A ``.safetensors`` file that was made of an archive contains all of it, and converts back to an equal one: the tensors
by address, and in the metadata a JSON document with the remaining values and every small entry of text. Readers limit
the size of that document, so entries that would exceed the limit become one-dimensional uint8 tensors.
"""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from sbformat.archive.archive import Archive
from sbformat.constants import PTH_SUFFIX
from sbformat.container.layout import is_state_dict
from sbformat.errors import SbformatError, UnsupportedError, quote, require_type
from sbformat.formats.array_files import ARRAYS, METADATA_KEY, PORTABLE_VERSION, ArrayFile
from sbformat.immutable import Record
from sbformat.limits import DEFAULT_LIMITS, Limits
from sbformat.pth import StateDict
from sbformat.pth.portable import to_portable
from sbformat.reader import read_in_place
from sbformat.writer import write, write_pth

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbformat.reader import ArchiveLike

ConvertFormat: TypeAlias = Literal["sb3", "pth", "safetensors"]

_TEXT_BYTES: Final = 1 << 20  # largest entry of text that is stored in the metadata
_ESCAPED: Final = bytes((*range(0x20), 0x7F, *range(0xC0, 0x100))) + b'"\\'
"""First bytes, in UTF-8, of the characters that JSON escapes."""
_MAX_ESCAPES: Final = 1 << 18  # escaped characters in all texts of the metadata: each costs a reader much memory
_HEADER_BYTES: Final = 60 << 20
"""Largest header of a safetensors file: sbformat reads 64 MiB of JSON, the safetensors library 100 MB."""
_HEADER_NODES: Final = 1_800_000
_ROW_BYTES: Final = 200
_ROW_NODES: Final = 30  # upper bounds for a tensor in the header, besides its name and shape
_LENGTH_BYTES: Final = 21  # upper bound for a number in a shape, with its comma
_FORMATS: Final[dict[str, ConvertFormat]] = {".zip": "sb3", ".pth": "pth", ".safetensors": "safetensors"}

Arrays: TypeAlias = Mapping[str, Any]


class ConvertReport(Record):
    """The file that was written."""

    output: str
    format: ConvertFormat
    entries: tuple[str, ...]
    """Entries of the archive that the output contains; none when arrays were converted."""
    tensors: int
    """Number of named tensors."""
    as_bytes: tuple[str, ...]
    """Entries that a safetensors file stores as their bytes: neither text, nor state dicts with a portable form."""
    nbytes: int
    """Size of the output."""


def convert(
    source: ArchiveLike | Arrays,
    output: str | os.PathLike[str],
    *,
    entry: str = "policy",
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> ConvertReport:
    """Write an archive, or arrays, in another format.

    A large file is read in pieces while the output is written, so it must not change meanwhile. ::

        sbformat.convert("ppo-cartpole.zip", "ppo-cartpole.safetensors")
        sbformat.convert("ppo-cartpole.safetensors", "copy.zip")  # equal to the first

    :param source: an archive, or what :func:`sbformat.read` takes; also numpy arrays by name
    :param output: the suffix chooses the format: ``.zip`` for an archive, ``.safetensors`` for all of an archive or
        arrays, ``.pth`` for one state dict
    :param entry: the state dict to write to a ``.pth``
    :param overwrite: replace an existing output
    :param progress: called with a number of bytes whenever that many were written; tensors that become a
        ``.safetensors`` are read and checked first, and counted then as well
    :param limits: for reading
    :raises UnsupportedError: for an unknown suffix, and for arrays when the output is an archive
    :raises FileExistsError: when the output exists and ``overwrite`` is False
    """
    require_type(entry, str, "entry to be the name of a state dict")
    require_type(output, (str, os.PathLike), "a path")
    kind = _FORMATS.get(os.path.splitext(os.fspath(output))[1].lower())
    if kind is None:
        message = f"expected an output with the suffix .zip, .pth or .safetensors, got {quote(os.fspath(output))}"
        raise UnsupportedError(message)
    entries: tuple[str, ...] = ()
    as_bytes: tuple[str, ...] = ()
    options: dict[str, Any] = {"overwrite": overwrite, "progress": progress}
    found = source if isinstance(source, Mapping) else read_in_place(source, limits=limits)
    if isinstance(found, ArrayFile):  # a ``.safetensors`` or ``.npz`` that was not made of an archive
        found = cast("Arrays", found.state_dict(ARRAYS).tree)
    if not isinstance(found, Archive):
        tensors = len(found)
        _write_arrays(found, output, kind, options)
    elif kind == "safetensors":
        from sbformat.arrayfiles.writer import write_arrays

        made = _PortableArchive(found, progress or (lambda _: None))
        document = json.dumps({"version": PORTABLE_VERSION, "entries": made.rows})
        write_arrays(made.arrays, output, metadata={METADATA_KEY: document}, check=found.check, **options)
        entries, tensors, as_bytes = tuple(found.entries), made.tensors, tuple(made.as_bytes)
    elif kind == "pth":
        name = found.find_state_dict(entry.removesuffix(PTH_SUFFIX))
        entries, state_dict = (name,), found.state_dict(name)
        tensors = len(state_dict.tensors())
        try:
            write_pth(state_dict, output, check=found.check, **options)
        except SbformatError as error:
            raise error if (error.entry or "").startswith(name) else error.within(name) from None
    else:
        entries = tuple(found.entries)
        tensors = sum(_count_tensors(found, name) for name in entries if is_state_dict(name))
        write(found, output, **options)
    return ConvertReport(os.fspath(output), kind, entries, tensors, as_bytes, os.stat(output).st_size)


def _count_tensors(archive: Archive, name: str) -> int:
    try:
        return len(archive.state_dict(name).tensors())
    except SbformatError:
        return 0  # the entry is copied unchanged


def _write_arrays(
    arrays: Arrays, output: str | os.PathLike[str], kind: ConvertFormat, options: Mapping[str, Any]
) -> None:
    if kind == "sb3":
        hint = "sbformat edit TEMPLATE.zip --weights FILE -o OUT.zip adds them to one"
        raise UnsupportedError("arrays alone do not make an archive", hint=hint)
    state_dict = StateDict.from_arrays(OrderedDict(arrays))
    if kind == "pth":
        write_pth(state_dict, output, **options)
    else:
        from sbformat.arrayfiles.writer import write_arrays

        streams = {name: state_dict.stream_of(state_dict.tree[name]) for name in arrays}
        write_arrays(streams, output, **options)


# -- an archive as safetensors ------------------------------------------------------------------------


class _PortableArchive:
    """All of an archive: tensors by address, everything else in the JSON document or as bytes.

    The header of the safetensors file stays within the limits of a reader.
    """

    def __init__(self, archive: Archive, progress: Callable[[int], None]) -> None:
        self._archive = archive
        self._progress = progress
        self._bytes_left = _HEADER_BYTES
        self._nodes_left = _HEADER_NODES
        self._escapes_left = _MAX_ESCAPES
        self.arrays: dict[str, Any] = {}
        self.rows: list[dict[str, Any]] = []
        self.as_bytes: list[str] = []
        self.tensors = 0
        for name in archive.entries:
            self._add(name)

    def _add(self, name: str) -> None:
        """Add an entry: a state dict as tensors and text as text if the limits allow it, everything else as bytes."""
        from sbformat.arrayfiles.writer import bytes_stream

        if is_state_dict(name):
            row, arrays = self._convert_state_dict(name)
        else:
            row, arrays = self._convert_text(name), {}
        if row is None or not self._reserve(row, arrays):
            self.as_bytes.append(name)
            member, _ = self._archive.encode_entry(name)
            self.arrays[name] = bytes_stream(member.size, member.chunks)
            self.rows.append({"name": name})
            return
        self.rows.append(row)
        self.arrays.update(arrays)
        self.tensors += len(arrays)

    def _convert_state_dict(self, name: str) -> tuple[dict[str, Any] | None, dict[str, Any]]:
        """Return the row and the arrays of a state dict; no row when it cannot be read or has no portable form."""
        from sbformat.arrayfiles.writer import SAFETENSORS_DTYPES

        try:
            state_dict = self._archive.state_dict(name)
            tree, infos = to_portable(state_dict, name.removesuffix(PTH_SUFFIX))
            if any(info.dtype not in SAFETENSORS_DTYPES for info in infos.values()):
                return None, {}
            streams = {key: state_dict.stream_of(info) for key, info in infos.items()}
            for piece in chain.from_iterable(stream.pieces() for stream in streams.values()):
                self._progress(len(piece))  # read everything once: an entry with a wrong CRC is stored as bytes
        except SbformatError:
            return None, {}
        return {"name": name, "tree": tree}, streams

    def _convert_text(self, name: str) -> dict[str, Any] | None:
        member, _ = self._archive.encode_entry(name)
        if member.size > _TEXT_BYTES:
            return None
        content = b"".join(member.chunks())
        escapes = len(content) - len(content.translate(None, _ESCAPED))
        if escapes > self._escapes_left:
            return None
        try:
            row = {"name": name, "text": content.decode("utf-8")}
        except UnicodeDecodeError:
            return None
        self._escapes_left -= escapes
        return row

    def _reserve(self, row: dict[str, Any], arrays: Arrays) -> bool:
        """Return whether the header stays within the limits of a reader with this row, and count it if so."""
        text = json.dumps(row)
        size = len(json.dumps(text)) + sum(len(json.dumps(key)) + _ROW_BYTES for key in arrays)
        ranks = [len(array.shape) for array in arrays.values()]
        size += _LENGTH_BYTES * sum(ranks)
        nodes = _ROW_NODES * len(ranks) + sum(ranks)
        if "tree" in row:  # an upper bound: it also counts characters within texts
            nodes += text.count(",") + 7 * (text.count("[") + text.count("{"))
        if size > self._bytes_left or nodes > self._nodes_left:
            return False
        self._bytes_left -= size
        self._nodes_left -= nodes
        return True
