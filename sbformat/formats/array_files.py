"""``.safetensors`` and ``.npz`` files, read as archives (WRITER.md 12.6).

A ``.safetensors`` that ``convert`` made of an archive is read as that archive; any other file is read as one state
dict. numpy is not needed: tensors are bytes until they are requested.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, NoReturn

from sbformat.archive.archive import Archive, SingleFileArchive
from sbformat.archive.entries import FileEntries
from sbformat.arrayfiles.headers import read_tensors
from sbformat.container.layout import encode_path, is_state_dict
from sbformat.data import parse_object
from sbformat.errors import DataError, SbformatError, quote
from sbformat.formats.sb2 import npy_tensor
from sbformat.io.source import BytesSource
from sbformat.limits import Budget, Limits
from sbformat.pth import StateDict
from sbformat.pth.file_storage import FileStorage
from sbformat.pth.portable import from_portable
from sbformat.pth.values import refuse_unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sbformat.archive.entries import Entries, ReadOptions
    from sbformat.archive.kinds import Kind
    from sbformat.container.reader import Container
    from sbformat.io.source import Source
    from sbformat.pth import TensorInfo

METADATA_KEY: Final = "sbformat"
"""The only key of the metadata: safetensors does not keep the order of several."""
PORTABLE_VERSION: Final = 1
ARRAYS: Final = "arrays"
"""The name of the state dict of a file of plain arrays."""


class ArrayFile(SingleFileArchive):
    """A file of plain arrays: a state dict of one level; ``records`` is the zip that the arrays are in."""

    __slots__ = ("_records", "_tensors")

    def __init__(
        self,
        entries: Entries,
        kind: Kind,
        tensors: Callable[[], Mapping[str, TensorInfo]],
        budget: Budget,
        options: ReadOptions,
        records: Container | None = None,
    ) -> None:
        super().__init__(entries, kind, budget, options, (ARRAYS,))
        self._tensors = tensors
        self._records = records

    def _find_records(self, name: str) -> Container | None:  # noqa: ARG002 -- there is one zip
        return self._records

    def _decode_state_dict(self, name: str) -> StateDict:
        return StateDict(OrderedDict(self._tensors()), self._budget, copy=self._options.copy, entry=name)


def open_safetensors(opened: Source, entries: Entries, budget: Budget, options: ReadOptions) -> Archive:
    """Open a ``.safetensors`` file, whose one entry is the file."""
    tensors, metadata = read_tensors(opened, budget)
    document = decode_description(metadata.get(METADATA_KEY), budget.limits)
    if document is None:
        return ArrayFile(entries, "safetensors", lambda: tensors, budget, options)
    own = Budget(budget.limits)
    kept, made = build_contents(document, tensors, own)
    return Archive(FileEntries(kept, own), "sb3", own, options).with_entries(dict(made))


def open_npz(container: Container, entries: Entries, budget: Budget, options: ReadOptions) -> ArrayFile:
    """Open a ``.npz`` file, whose one entry is the file."""

    def tensors() -> dict[str, TensorInfo]:
        budget.spend("tensors", len(container))
        names = [name.removesuffix(".npy") for name in container]
        return {name: npy_tensor(container, name, budget) for name in names}

    return ArrayFile(entries, "npz", tensors, budget, options, container)


# -- the description of an archive --------------------------------------------------------------------


def decode_description(text: str | None, limits: Limits) -> list[dict[str, Any]] | None:
    """Decode the description of an archive in a file's metadata; None if the file contains plain arrays."""
    if text is None:
        return None
    document = parse_object(text.encode("utf-8", "surrogatepass"), Budget(limits))
    if "entries" not in document:
        return None  # what extract writes: facts about the arrays
    version, rows = document.get("version"), document["entries"]
    if type(version) is not int or version != PORTABLE_VERSION:
        refuse_unsupported(f"expected a description of version {PORTABLE_VERSION}, got {quote(version, 40)}")
    if type(rows) is not list or any(type(row) is not dict or type(row.get("name")) is not str for row in rows):
        _refuse("expected a list of entries as its description")
    return rows


def build_contents(
    rows: list[dict[str, Any]], tensors: Mapping[str, TensorInfo], budget: Budget
) -> tuple[dict[str, Source], dict[str, StateDict]]:
    """Build the entries that a file describes: bytes or text by name, and state dicts by name."""
    limits = budget.limits
    budget.spend("outer_entries", len(rows))
    used: set[str] = set()
    kept: dict[str, Source] = {}
    made: dict[str, StateDict] = {}
    for row in rows:
        name = row["name"]
        if name in kept or name in made:
            _refuse(f"its description names {quote(name)} twice")
        try:
            encode_path(name)
            content = _content(row, tensors, used, limits)
        except SbformatError as error:
            raise error.within(name) from None
        if isinstance(content, StateDict):
            made[name] = content
        else:  # what was broken comes back as it was
            kept[name] = content
    left = next((name for name in tensors if name not in used), None)
    if left is not None:
        _refuse(f"its description does not name the tensor {quote(left)}")
    return kept, made


def _refuse(message: str) -> NoReturn:
    raise DataError(message)


def _content(
    row: dict[str, Any], tensors: Mapping[str, TensorInfo], used: set[str], limits: Limits
) -> Source | StateDict:
    name = row["name"]
    words = row.keys() - {"name"}
    if words == {"tree"} and is_state_dict(name):
        return StateDict(from_portable(row["tree"], tensors, used=used, limits=limits), Budget(limits))
    if words == {"text"} and type(row["text"]) is str:
        try:
            return BytesSource(str(row["text"]).encode("utf-8"))
        except UnicodeEncodeError:
            raise DataError("its text contains a lone surrogate, which UTF-8 cannot encode") from None
    info = tensors.get(name)
    if not words and info is not None and info.dtype == "uint8" and len(info.shape) == 1:
        used.add(name)
        return info.storage.source() if isinstance(info.storage, FileStorage) else BytesSource(info.storage.bytes())
    return _refuse("its description has no content for this entry, and no tensor of bytes has its name")
