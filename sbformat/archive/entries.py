"""The entries of an archive that is not a zip; and the text entries of any.

Out: ``FileEntries``, the entries outside a zip, of an unzipped archive, a single ``.pth`` or a single ``data``.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Final

from sbformat.archive.kinds import LFS_POINTER, is_lfs_pointer
from sbformat.constants import PLAIN_ENTRIES, PTH_SUFFIX
from sbformat.container.layout import STORED, Entry, Member, check_name, check_path, check_paths
from sbformat.container.reader import Entries
from sbformat.errors import ContainerError, DataError, UnsupportedError, quote
from sbformat.immutable import FrozenDict, Record
from sbformat.io.opening import LARGE_FILE_BYTES, is_remote, open_source, open_url
from sbformat.io.source import BytesSource, FileSource, is_by_range, iter_views
from sbformat.io.urls import join_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sbformat.io.remote import RemoteSource
    from sbformat.io.source import Path, Source
    from sbformat.limits import Budget, LimitName, Limits
    from sbformat.pth.values import OnUnknown


__all__ = ["Entries"]


class ReadOptions(Record):
    """How entries are decoded; see :func:`sbformat.read`."""

    on_unknown: OnUnknown = "error"
    unchecked_crc: bool = False
    copy: bool = False
    check_crc: bool = True
    """Check the CRC of a ``.pth`` entry as a whole, in addition to those of the records that are read."""


ONLY_POINTERS: Final = f"expected an archive, got a folder of which each file is {LFS_POINTER}"
_MOST_NAMES: Final = 8  # that a sentence has
_LARGEST_POINTER: Final = 1024  # pointers of Git LFS are shorter, in bytes


class FileEntries(Entries):
    """Entries outside a zip, each with its own source; nothing stores a CRC of them."""

    __slots__ = ("_budget", "_sources", "left_out")

    def __init__(self, sources: dict[str, Source], budget: Budget, left_out: Sequence[str] = ()) -> None:
        self.left_out = left_out
        self._sources = sources
        self._budget = budget
        self.entries = {
            name: Entry(name, 0, 0, source.size, source.size, 0, STORED) for name, source in sources.items()
        }

    @property
    def file(self) -> Source | None:
        """The bytes of the only entry; None for several."""
        return next(iter(self._sources.values())) if len(self._sources) == 1 else None

    def read(self, name: str, *, limit: LimitName | None = None) -> memoryview:
        if limit is not None:
            self._budget.spend(limit, self.entry(name).size)
        source = self._sources.get(name)
        if source is not None and (isinstance(source, FileSource) or is_by_range(source)):
            self._budget.spend("total_bytes", self.entry(name).size)
        return self.view(name)

    def view(self, name: str) -> memoryview:
        return self.source(name).view(0, self.entries[name].size)

    raw = view  # none is compressed

    def stream(self, name: str, chunk_bytes: int | None = None) -> Iterator[memoryview | bytes]:
        source = self.source(name)
        if isinstance(source, _LazySource):
            source = BytesSource(self.view(name))
        return iter_views(source, 0, self.entries[name].size, chunk_bytes)

    def source(self, name: str) -> Source:
        self.entry(name)
        return self._sources[name]

    def member(self, name: str) -> Member:
        return Member(name, self.entry(name).size, partial(self.stream, name))


def open_folder(
    path: Path,
    budget: Budget,
    *,
    mapped: bool = False,
    in_memory: bool = True,
    follows: Callable[[str], bool] = lambda _: True,
    progress: Callable[[int], None] | None = None,
) -> FileEntries:
    """Open a folder that an archive was unzipped into: the files directly in it.

    Subfolders and files whose names start with a dot are left out. Links are left out as well, except those named like
    SB3's entries, which download caches make: no other file that a link points to may become a part of an archive.
    Files whose names are invalid as entry names are listed in ``left_out``.

    :param in_memory: False leaves the bytes of large files on the disk
    :param follows: returns whether to follow a link named like an entry
    """
    paths: dict[str, str]
    sizes: dict[str, int] = {}
    if is_remote(path):
        from sbformat.io.remote.listing import pin_folder, walk_folder

        url = pin_folder(path)
        sizes = {row.name: row.size for row in next(iter(walk_folder(url, depth=0))).files}
        paths = {name: join_url(url, name) for name in sizes}
    else:
        with os.scandir(path) as found:
            paths = {item.name: item.path for item in found if _is_file(item, follows)}
    visible = [name for name in sorted(paths) if not name.startswith(".")]
    names = [name for name in visible if is_entry_name(name)]
    budget.spend("outer_entries", len(names))
    check_paths(names)
    sources: dict[str, Source] = {}
    for name in names:
        here = paths[name]
        if not is_sb3_name(name):
            sources[name] = _LazyRemote(here, sizes[name], budget.limits) if name in sizes else _LazySource(here)
        elif name in sizes:
            remote = open_url(here, budget.limits)
            sources[name] = remote.load(progress) if in_memory else remote
        elif in_memory or os.stat(here).st_size <= LARGE_FILE_BYTES:
            sources[name] = open_source(here, mapped=mapped, budget=budget, progress=progress)
        else:
            sources[name] = FileSource(here, limits=budget.limits)
    names = [name for name in sources if is_sb3_name(name)]
    pointers = [name for name in names if sources[name].size < _LARGEST_POINTER and is_lfs_pointer(sources[name])]
    if pointers and pointers == names:
        raise UnsupportedError(ONLY_POINTERS)
    sources |= {name: _Pointer(name, sources[name].size) for name in pointers}
    budget.grant(sum(source.size for source in sources.values()))
    return FileEntries(sources, budget, [name for name in visible if name not in sources])


def _is_file(item: os.DirEntry[str], follows: Callable[[str], bool]) -> bool:
    """Return whether a file may be an entry; only links that are named like an entry of SB3 are followed."""
    may_follow = is_sb3_name(item.name) and (not item.is_symlink() or follows(item.path))
    return item.is_file(follow_symlinks=may_follow)


def is_entry_name(name: str) -> bool:
    """Return whether a file's name is valid as an entry name (FORMAT.md 2.6)."""
    try:
        check_path(check_name(os.fsencode(name)))
    except ContainerError:
        return False
    return True


def describe_left_out(names: Sequence[str]) -> str:
    """Return a sentence about the files of a folder that cannot be entries; empty without such files."""
    shown = ", ".join(quote(name, 80) for name in names[:_MOST_NAMES]) + (", ..." if names[_MOST_NAMES:] else "")
    return f"left out, because an entry cannot have such a name: {shown}" if names else ""


def is_sb3_name(name: str) -> bool:
    """Return whether SB3 reads a file of this name."""
    return name in PLAIN_ENTRIES or name.endswith(PTH_SUFFIX)


class _Pointer:
    """A pointer of Git LFS to an entry, which is refused when it is read."""

    __slots__ = ("_name", "size")

    def __init__(self, name: str, size: int) -> None:
        self._name = name
        self.size = size

    def view(self, offset: int, length: int) -> memoryview:  # noqa: ARG002 -- as of every source
        raise UnsupportedError(f"expected an entry, got {LFS_POINTER}", entry=self._name)


class _LazySource:
    """A file that is opened at each read: it is beside the entries of an archive, and may be of any kind."""

    __slots__ = ("_path", "size")

    def __init__(self, path: str) -> None:
        self._path = path
        self.size = os.stat(path).st_size

    def view(self, offset: int, length: int) -> memoryview:
        return open_source(self._path).view(offset, length)


class _LazyRemote:
    """A remote file that is opened at its first read."""

    __slots__ = ("_limits", "_opened", "_url", "size")

    def __init__(self, url: str, size: int, limits: Limits) -> None:
        self._url = url
        self._limits = limits
        self._opened: RemoteSource | None = None
        self.size = size

    def view(self, offset: int, length: int) -> memoryview:
        if self._opened is None:
            self._opened = open_url(self._url, self._limits)
        if self._opened.size != self.size:
            raise ContainerError(f"{quote(self._opened.name)} has changed since its folder was listed")
        return self._opened.view(offset, length)


class SystemInfo(Record):
    """The system that an agent was saved on, from ``system_info.txt``.

    >>> archive.system_info.fields["PyTorch"]
    '2.3.1+cpu'
    """

    fields: Mapping[str, str]
    """``OS``, ``Python``, ``Stable-Baselines3``, ``PyTorch``, ``GPU Enabled``, ``Numpy``, ``Cloudpickle``,
    ``Gymnasium``, ``OpenAI Gym``, as far as the release wrote them; the values are text."""
    text: str
    """The whole entry."""


def parse_system_info(raw: bytes) -> SystemInfo:
    """Parse the lines ``Key: value``, with the bullet of SB3 >= 1.7 or without; other lines are kept in ``text``."""
    text = _decode_text(raw)
    fields: dict[str, str] = {}
    for line in text.splitlines():
        key, separator, value = line.removeprefix("- ").partition(": ")
        if separator:
            fields.setdefault(key.strip(), value.strip())
    return SystemInfo(FrozenDict(fields), text)


def parse_version(raw: bytes) -> str:
    """Return the version without surrounding white space; it is a PEP 440 version in every real archive."""
    text = _decode_text(raw).strip()
    if not (text.isascii() and text.isprintable()):
        raise DataError("expected a version in printable ASCII, got other characters")
    return text


def _decode_text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"expected UTF-8: {error.reason}", offset=error.start) from None
