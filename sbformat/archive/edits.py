"""Edits of an archive: what :meth:`Archive.replace` is passed, encoded, and the old entries with the new ones.

In: values by the names of entries. Out: ``EditedEntries``. What was not replaced is read from the old archive; a state
dict is encoded when its bytes are read, so that no copy of its tensors is kept in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from sbformat.archive.entries import parse_system_info, parse_version
from sbformat.constants import DATA_ENTRY, PLAIN_ENTRIES, PTH_SUFFIX, VERSION_ENTRY
from sbformat.container.layout import STORED, Entry, Member, check_paths, encode_path, is_state_dict
from sbformat.container.reader import Entries
from sbformat.data import dumps
from sbformat.errors import ContainerError, SbformatError, quote, require_type
from sbformat.io.source import BytesSource, JoinedSource, iter_views
from sbformat.pth import StateDict, encode_pth

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from sbformat.container.reader import Container
    from sbformat.io.source import Source
    from sbformat.limits import LimitName, Limits


T = TypeVar("T")
Content: TypeAlias = "bytes | JoinedSource | StateDict | None"
"""The new content of an entry: bytes, ``data`` that is copied in part, a state dict, or None to remove it."""


class EditedEntries(Entries):
    """Old entries and new ones; a new one has no CRC.

    The old ones are in their order, then the new ones by name, so that the order of edits does not matter.

    :param base: the old entries; if they are edited ones themselves, both sets of changes are merged
    """

    __slots__ = ("_base", "_joined", "_new")

    def __init__(self, base: Entries, changes: Mapping[str, Content]) -> None:
        self._base = base
        self._new: dict[str, Member] = {}
        self._joined: dict[str, JoinedSource] = {}
        if isinstance(base, EditedEntries):
            self._base, self._new, self._joined = base._base, dict(base._new), dict(base._joined)  # noqa: SLF001 -- its own class
        for name, content in changes.items():
            self._new.pop(name, None)
            self._joined.pop(name, None)
            if isinstance(content, JoinedSource):
                self._joined[name] = content
            if content is not None:
                self._new[name] = encode_content(name, content)
        kept = {name for name in base.entries if name not in changes} | self._new.keys()
        old = self._base.entries
        new = {name: Entry(name, 0, 0, member.size, member.size, 0, STORED) for name, member in self._new.items()}
        names = [*filter(kept.__contains__, old), *sorted(kept - old.keys())]
        self.entries = {name: new.get(name) or old[name] for name in names}
        check_paths(self.entries)

    def is_new(self, name: str) -> bool:
        return name in self._new

    def _old(self, name: str) -> Entries:
        """Return the old entries, if one that was kept has this name."""
        self.entry(name)
        return self._base

    def read(self, name: str, *, limit: LimitName | None = None) -> memoryview:
        if name in self._new:
            return memoryview(b"".join(self._new[name].chunks()))
        return self._old(name).read(name, limit=limit)

    def view(self, name: str) -> memoryview:
        return self.read(name) if name in self._new else self._old(name).view(name)

    def raw(self, name: str) -> memoryview:
        return self.read(name) if name in self._new else self._old(name).raw(name)

    def stream(self, name: str) -> Iterator[memoryview | bytes]:
        return iter(self._new[name].chunks()) if name in self._new else self._old(name).stream(name)

    def source(self, name: str) -> Source:
        if name in self._new:
            return self._joined.get(name) or BytesSource(self.read(name))
        return self._old(name).source(name)

    def member(self, name: str) -> Member:
        return self._new[name] if name in self._new else self._old(name).member(name)

    def verify(self, name: str) -> None:
        if name not in self._new:
            self._old(name).verify(name)

    def check_zip(self, name: str, inner: Container) -> None:
        if name not in self._new:
            self._old(name).check_zip(name, inner)

    def check_deferred(self, names: Collection[str]) -> None:
        self._base.check_deferred({name for name in names if name in self.entries and name not in self._new})


def encode_content(name: str, content: bytes | JoinedSource | StateDict) -> Member:
    """Return new content as a member of a zip."""
    encode_path(name)
    if isinstance(content, JoinedSource):
        return Member(name, content.size, partial(iter_views, content, 0, content.size))
    if not isinstance(content, StateDict):
        return Member(name, len(content), lambda: (content,))
    try:
        encoded = encode_pth(content)
    except SbformatError as error:
        raise error.within(name) from None
    return Member(name, encoded.size, encoded.chunks, encoded.crc)


def encode_edits(
    entries: Entries,
    limits: Limits,
    plain: Mapping[str, Any],
    state_dicts: Mapping[str, Any],
    extra: Mapping[str, bytes | None],
) -> dict[str, Content]:
    """Return the new contents of entries by their full names; None removes an entry, ``...`` in ``plain`` keeps one."""
    changes: dict[str, Content] = {}
    for name, value in plain.items():
        if value is None:
            changes[name] = None
        elif value is not ...:
            changes[name] = dump_data(value) if name == DATA_ENTRY else _encode_text(name, value)
    for name, value in state_dicts.items():
        changes[name] = _convert_state_dict(entries, limits, name, value)
    for name, content in extra.items():
        if name in PLAIN_ENTRIES or is_state_dict(name):
            raise ContainerError(f"expected the name of an extra entry, got {quote(name)}, which SB3 itself reads")
        if content is None:
            entries.entry(name)  # raises if it does not exist
        else:
            require_type(content, (bytes, bytearray, memoryview), f"{quote(name)} in extra to be bytes")
        changes[name] = content if content is None else bytes(content)
    return changes


def dump_data(data: Mapping[str, Any]) -> bytes | JoinedSource:
    """Encode ``data``."""
    require_type(data, Mapping, "data by key")
    return _call_within(DATA_ENTRY, dumps, data)


def _encode_text(name: str, text: str) -> bytes:
    """Encode a text entry, and check that a reader can parse it."""
    require_type(text, str, f"the text of {name}")
    raw = text.encode("utf-8", "surrogatepass")
    _call_within(name, parse_version if name == VERSION_ENTRY else parse_system_info, raw)
    return raw


def _convert_state_dict(entries: Entries, limits: Limits, name: str, value: Any) -> Content:
    if value is None:
        entries.entry(name)
    if not is_state_dict(name) or name.endswith(PTH_SUFFIX * 2):
        stem = name.removesuffix(PTH_SUFFIX)
        raise ContainerError(f"expected the name of a state dict, without folder and {PTH_SUFFIX}, got {quote(stem)}")
    if value is None or isinstance(value, StateDict):
        return value
    return _call_within(name, partial(StateDict.from_arrays, limits=limits), value)


def _call_within(name: str, function: Callable[[Any], T], value: object) -> T:
    try:
        return function(value)
    except SbformatError as error:
        if error.entry is None:
            error.within(name)
        raise
