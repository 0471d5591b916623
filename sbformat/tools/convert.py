"""Archives to safetensors and back, without loss; arrays to ``.pth`` (FORMAT.md 12.6)."""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from sbformat import data as data_entry
from sbformat.archive import Archive, Options, is_state_dict
from sbformat.errors import DataError, MissingEntryError, SbformatError, UnsupportedError, quote
from sbformat.export import SAFETENSORS_DTYPES, export
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits
from sbformat.loose import LooseEntries
from sbformat.overlay import Overlay
from sbformat.pth import StateDict
from sbformat.pth.portable import from_portable, to_portable
from sbformat.spec import PTH_SUFFIX
from sbformat.writer import write, write_pth

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbformat.pth import TensorInfo

ConvertFormat: TypeAlias = Literal["sb3", "pth", "safetensors"]

METADATA_KEY: Final = "sbformat"
"""The only key of the metadata: safetensors writes several in any order."""
PORTABLE_VERSION: Final = 1
_TEXT_BYTES: Final = 1 << 20
"""Entries of text up to this size stand in the metadata; larger ones and others become tensors of bytes."""
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

    :param path: the file
    :param read: reads an archive
    :param limits: for the other formats
    :return: an archive also for a ``.safetensors`` that :func:`convert` made of one
    :raises SbformatError: when it cannot be read
    """
    if not path.endswith((".safetensors", ".npz")):
        return read(path)
    from sbformat.weights import read_arrays, read_safetensors

    if path.endswith(".npz"):
        return read_arrays(path, limits=limits)
    arrays, metadata = read_safetensors(path, limits=limits)
    document = _document(metadata.get(METADATA_KEY), limits)
    return arrays if document is None else _archive(document, arrays, limits)


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
            write_pth(state_dict, output, overwrite=overwrite, progress=progress)
        else:
            tensors = sum(_count(source, name) for name in entries if is_state_dict(name))
            write(source, output, overwrite=overwrite, progress=progress)
    else:
        tensors = len(source)
        _from_arrays(source, output, kind, overwrite=overwrite, progress=progress)
    return ConvertReport(os.fspath(output), kind, entries, tensors, as_bytes, os.stat(output).st_size)


def _one(archive: Archive, entry: str) -> tuple[StateDict, tuple[str, ...]]:
    names = [name for name in archive.entries if is_state_dict(name)]
    name = names[0] if len(names) == 1 and entry == "policy" else entry + PTH_SUFFIX
    if name not in names:
        raise MissingEntryError(entry, present=[name.removesuffix(PTH_SUFFIX) for name in names], what="state dict")
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
        export(arrays, output, overwrite=overwrite)


# -- an archive as safetensors ------------------------------------------------------------------------


def _to_safetensors(
    archive: Archive, output: str | os.PathLike[str], *, overwrite: bool
) -> tuple[int, tuple[str, ...]]:
    """Write all of an archive: tensors by address, everything else in the metadata, or as bytes."""
    arrays: dict[str, Any] = {}
    rows = []
    as_bytes = []
    tensors = 0
    for name in archive.entries:
        split = _split(archive, name) if is_state_dict(name) else None
        if split is not None:
            tree, infos = split
            state_dict = archive.state_dict(name)
            arrays.update((key, state_dict.array_of(info)) for key, info in infos.items())
            tensors += len(infos)
            rows.append({"name": name, "tree": tree})
            continue
        text = None if is_state_dict(name) else _as_text(archive, name)
        if text is None:
            as_bytes.append(name)
            arrays[name] = b"".join(archive.stream(name))
            rows.append({"name": name})
        else:
            rows.append({"name": name, "text": text})
    document = {"version": PORTABLE_VERSION, "entries": rows}
    export(arrays, output, metadata={METADATA_KEY: json.dumps(document)}, overwrite=overwrite)
    return tensors, tuple(as_bytes)


def _split(archive: Archive, name: str) -> tuple[Any, dict[str, TensorInfo]] | None:
    """The portable form of a state dict, or None when it has none, or cannot be decoded."""
    try:
        tree, infos = to_portable(archive.state_dict(name), name.removesuffix(PTH_SUFFIX))
    except SbformatError:
        return None
    return None if any(info.dtype not in SAFETENSORS_DTYPES for info in infos.values()) else (tree, infos)


def _as_text(archive: Archive, name: str) -> str | None:
    if archive.entries[name].size > _TEXT_BYTES:
        return None
    try:
        return b"".join(archive.stream(name)).decode("utf-8")
    except UnicodeDecodeError:
        return None


# -- and back -----------------------------------------------------------------------------------------


def _document(text: str | None, limits: Limits) -> list[dict[str, Any]] | None:
    """The description of an archive in a file's metadata; None when the file holds plain arrays."""
    if text is None:
        return None
    document = data_entry.decode(text.encode("utf-8", "surrogatepass"), Budget(limits))
    if "entries" not in document:
        return None  # what extract writes: facts about the arrays
    rows = document["entries"]
    if document.get("version") != PORTABLE_VERSION:
        message = f"its description has version {document.get('version')!r:.40}; {PORTABLE_VERSION} is known"
        raise UnsupportedError(message)
    if type(rows) is not list or any(type(row) is not dict or type(row.get("name")) is not str for row in rows):
        message = "its description is not a list of entries"
        raise DataError(message)
    return rows


def _archive(rows: list[dict[str, Any]], arrays: Arrays, limits: Limits) -> Archive:
    from sbformat.pth.from_arrays import tensors_of

    infos = tensors_of(arrays)
    budget = Budget(limits)
    contents: dict[str, bytes | StateDict | None] = {}
    for row in rows:
        name = row["name"]
        if name in contents:
            message = f"its description names {quote(name)} twice"
            raise DataError(message)
        try:
            contents[name] = _content(row, arrays, infos, limits)
        except SbformatError as error:
            raise error.within(name) from None
    return Archive(Overlay(LooseEntries({}, budget), contents), "sb3", budget, Options())


def _content(row: dict[str, Any], arrays: Arrays, infos: Mapping[str, TensorInfo], limits: Limits) -> bytes | StateDict:
    if "tree" in row:
        return StateDict(from_portable(row["tree"], infos), Budget(limits))
    if type(row.get("text")) is str:
        return str(row["text"]).encode("utf-8", "surrogatepass")
    if row["name"] in arrays and arrays[row["name"]].dtype == "uint8":
        return bytes(arrays[row["name"]])
    message = "its description says nothing of this entry, and no tensor of bytes has its name"
    raise DataError(message)
