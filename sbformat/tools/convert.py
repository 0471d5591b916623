"""Archives to safetensors, and back to equal ones; arrays to ``.pth`` (FORMAT.md 12.6)."""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from sbformat.archive.archive import Archive
from sbformat.constants import PTH_SUFFIX
from sbformat.container.names import is_state_dict
from sbformat.errors import SbformatError, UnsupportedError, quote
from sbformat.formats.array_files import METADATA_KEY, PORTABLE_VERSION, archive_of, document_of
from sbformat.io.source import LARGE_FILE_BYTES
from sbformat.limits import DEFAULT_LIMITS, Limits
from sbformat.pth import StateDict
from sbformat.pth.portable import to_portable
from sbformat.writer import write, write_pth

if TYPE_CHECKING:
    from collections.abc import Callable


ConvertFormat: TypeAlias = Literal["sb3", "pth", "safetensors"]

_TEXT_BYTES: Final = 1 << 20
_ESCAPED: Final = bytes((*range(0x20), 0x7F, *range(0xC0, 0x100))) + b'"\\'
"""Of UTF-8, the first bytes of the characters that JSON escapes."""
_MOST_ESCAPES: Final = 1 << 18
"""In all texts, since each takes a reader much memory; a text that would make them more is kept as bytes."""
"""Entries of text up to this size stand in the metadata; larger ones and others become tensors of bytes."""
_HEADER_BYTES: Final = 60 << 20
"""Of a safetensors file: readers take 64 MiB of JSON here, and 100 MB in the library."""
_HEADER_NODES: Final = 1_800_000
_ROW_BYTES: Final = 200
_ROW_NODES: Final = 30
"""Of a tensor in the header, at most, besides its name and shape."""
_LENGTH_BYTES: Final = 21
"""Of a number in a shape, at most, with its comma."""
_FORMATS: Final[dict[str, ConvertFormat]] = {".zip": "sb3", ".pth": "pth", ".safetensors": "safetensors"}

Arrays: TypeAlias = Mapping[str, Any]


class ConvertReport(NamedTuple):
    """What was written."""

    output: str
    format: ConvertFormat
    entries: tuple[str, ...]
    """Those of the archive that it holds; none when arrays were converted."""
    tensors: int
    """Tensors by name."""
    as_bytes: tuple[str, ...]
    """Entries that a safetensors file holds as they stand: what has no portable form, and what is no text."""
    nbytes: int
    """Size of the output."""


def read_any(path: str, read: Callable[[str], Archive], *, limits: Limits = DEFAULT_LIMITS) -> Archive | Arrays:
    """Read what can be converted: an archive in any form, or the arrays of a ``.safetensors`` or ``.npz``.

    The tensors of a ``.safetensors`` of more than 32 MiB stay in the file, which must not change before they are
    written.

    :param path: the file
    :param read: reads an archive
    :param limits: for the other formats
    :return: an archive also for a ``.safetensors`` that :func:`convert` made of one
    :raises SbformatError: when it cannot be read
    """
    if not path.endswith((".safetensors", ".npz")):
        return read(path)
    from sbformat.arrayfiles.safetensors import tensors_in_place

    if path.endswith(".safetensors") and os.path.isfile(path) and os.path.getsize(path) > LARGE_FILE_BYTES:
        tensors, metadata = tensors_in_place(path, limits=limits)
        document = document_of(metadata.get(METADATA_KEY), limits)
        return tensors if document is None else archive_of(document, tensors, limits)
    from sbformat.arrayfiles.reader import read_arrays, read_safetensors
    from sbformat.pth.from_arrays import tensors_of

    if path.endswith(".npz"):
        return read_arrays(path, limits=limits)
    arrays, metadata = read_safetensors(path, limits=limits)
    document = document_of(metadata.get(METADATA_KEY), limits)
    return arrays if document is None else archive_of(document, tensors_of(arrays), limits)


def convert(
    source: Archive | Arrays,
    output: str | os.PathLike[str],
    *,
    entry: str = "policy",
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
) -> ConvertReport:
    """Write an archive, or arrays, in another format.

    :param source: as :func:`read_any` gives it
    :param output: ``.zip`` for an archive, ``.safetensors`` for all of one in that form, ``.pth`` for one state dict
    :param entry: the state dict that a ``.pth`` gets
    :param overwrite: replace what is there
    :param progress: called with the number of bytes, each time some were written to a ``.zip`` or ``.pth``
    :raises UnsupportedError: for a suffix that is not known, and arrays that are to become an archive
    :raises FileExistsError: when the output exists and ``overwrite`` is False
    """
    kind = _FORMATS.get(os.path.splitext(os.fspath(output))[1])
    if kind is None:
        message = f"{quote(os.fspath(output))}: the suffix tells the format: .zip, .pth or .safetensors"
        raise UnsupportedError(message)
    entries: tuple[str, ...] = ()
    as_bytes: tuple[str, ...] = ()
    if isinstance(source, Archive):
        entries = tuple(source.entries)
        if kind == "safetensors":
            tensors, as_bytes = _to_safetensors(source, output, overwrite=overwrite)
        elif kind == "pth":
            state_dict, entries = _one(source, entry)
            tensors = len(state_dict.tensors())
            try:
                write_pth(state_dict, output, overwrite=overwrite, progress=progress, check=source.check)
            except SbformatError as error:
                (name,) = entries
                raise error if (error.entry or "").startswith(name) else error.within(name) from None
        else:
            tensors = sum(_count(source, name) for name in entries if is_state_dict(name))
            write(source, output, overwrite=overwrite, progress=progress)
    else:
        tensors = len(source)
        _from_arrays(source, output, kind, overwrite=overwrite, progress=progress)
    return ConvertReport(os.fspath(output), kind, entries, tensors, as_bytes, os.stat(output).st_size)


def _one(archive: Archive, entry: str) -> tuple[StateDict, tuple[str, ...]]:
    name = archive.state_dict_entry(entry.removesuffix(PTH_SUFFIX))
    return archive.state_dict(name), (name,)


def _count(archive: Archive, name: str) -> int:
    try:
        return len(archive.state_dict(name).tensors())
    except SbformatError:
        return 0  # it is copied as it stands


def _from_arrays(
    arrays: Arrays,
    output: str | os.PathLike[str],
    kind: ConvertFormat,
    *,
    overwrite: bool,
    progress: Callable[[int], None] | None,
) -> None:
    if kind == "sb3":
        message = "arrays alone are no archive: sbformat edit TEMPLATE.zip --weights FILE -o OUT.zip puts them into one"
        raise UnsupportedError(message)
    if kind == "pth":
        write_pth(StateDict.from_arrays(OrderedDict(arrays)), output, overwrite=overwrite, progress=progress)
    else:
        from sbformat.arrayfiles.writer import export

        tensors = StateDict.from_arrays(OrderedDict(arrays))
        export({name: tensors.stream_of(tensors.tree[name]) for name in arrays}, output, overwrite=overwrite)


# -- an archive as safetensors ------------------------------------------------------------------------


def _to_safetensors(
    archive: Archive, output: str | os.PathLike[str], *, overwrite: bool
) -> tuple[int, tuple[str, ...]]:
    """Write all of an archive: tensors by address, everything else in the metadata, or as bytes."""
    from sbformat.arrayfiles.writer import export

    made = _Description(archive)
    for name in archive.entries:
        made.add(name)
    document = json.dumps({"version": PORTABLE_VERSION, "entries": made.rows})
    export(made.arrays, output, metadata={METADATA_KEY: document}, overwrite=overwrite, check=archive.check)
    return made.tensors, tuple(made.as_bytes)


class _Description:
    """What a safetensors file will hold: arrays, and a document that a reader's limits allow."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._room = _HEADER_BYTES
        self._nodes = _HEADER_NODES
        self._escapes = _MOST_ESCAPES
        self.arrays: dict[str, Any] = {}
        self.rows: list[dict[str, Any]] = []
        self.as_bytes: list[str] = []
        self.tensors = 0

    def add(self, name: str) -> None:
        """Add an entry in the best form that there is for it and room for."""
        from sbformat.arrayfiles.writer import stream_of_bytes

        if is_state_dict(name):
            row, arrays = self._split(name)
        else:
            row, arrays = self._text(name), {}
        if row is None or not self._has_room(row, arrays):
            self.as_bytes.append(name)
            member = self._archive.encoded(name).member
            self.arrays[name] = stream_of_bytes(member.size, member.chunks)
            self.rows.append({"name": name})
            return
        self.rows.append(row)
        self.arrays.update(arrays)
        self.tensors += len(arrays)

    def _split(self, name: str) -> tuple[dict[str, Any] | None, dict[str, Any]]:
        """The tree of a state dict and its arrays; no tree when it has none, or cannot be read."""
        from sbformat.arrayfiles.writer import SAFETENSORS_DTYPES

        try:
            state_dict = self._archive.state_dict(name)
            tree, infos = to_portable(state_dict, name.removesuffix(PTH_SUFFIX))
            if any(info.dtype not in SAFETENSORS_DTYPES for info in infos.values()):
                return None, {}
            streams = {key: state_dict.stream_of(info) for key, info in infos.items()}
            for _ in chain.from_iterable(stream.pieces() for stream in streams.values()):
                pass  # read once before: where a CRC is wrong, the entry becomes bytes
        except SbformatError:
            return None, {}
        return {"name": name, "tree": tree}, streams

    def _text(self, name: str) -> dict[str, Any] | None:
        member = self._archive.encoded(name).member
        if member.size > _TEXT_BYTES:
            return None
        content = b"".join(member.chunks())
        escapes = len(content) - len(content.translate(None, _ESCAPED))
        if escapes > self._escapes:
            return None
        try:
            row = {"name": name, "text": content.decode("utf-8")}
        except UnicodeDecodeError:
            return None
        self._escapes -= escapes
        return row

    def _has_room(self, row: dict[str, Any], arrays: Arrays) -> bool:
        """Say whether the header stays within a reader's limits; if so, take the room."""
        text = json.dumps(row)
        size = len(json.dumps(text)) + sum(len(json.dumps(key)) + _ROW_BYTES for key in arrays)
        ranks = [len(array.shape) for array in arrays.values()]
        size += _LENGTH_BYTES * sum(ranks)
        nodes = _ROW_NODES * len(ranks) + sum(ranks)
        if "tree" in row:  # an upper bound: those in texts are none
            nodes += text.count(",") + 7 * (text.count("[") + text.count("{"))
        if size > self._room or nodes > self._nodes:
            return False
        self._room -= size
        self._nodes -= nodes
        return True
