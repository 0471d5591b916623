"""``scan``: report what loading a file would run or import, and what is not understood in it (SCANNING.md 14).

How a pickle is judged is described in :mod:`sbformat.tools.scan.judge`, how pickles are found in a file in
:mod:`sbformat.tools.scan.files`.
"""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Final

from sbformat.archive.archive import Archive
from sbformat.archive.entries import ONLY_POINTERS, FileEntries, is_sb3_name, open_folder
from sbformat.archive.kinds import detect_kind
from sbformat.errors import ContainerError, SbformatError, UnsupportedError, escape, require_names
from sbformat.io.opening import (
    LARGE_FILE_BYTES,
    find_roots,
    is_folder,
    is_remote,
    is_within,
    open_large,
    open_source,
    open_url,
    to_path,
)
from sbformat.io.source import FileSource, iter_views, read_ahead
from sbformat.io.urls import hide_secrets, join_url, last_name
from sbformat.known.dangerous import explain_danger
from sbformat.limits import DEFAULT_LIMITS, Budget
from sbformat.tools.scan.files import FileScanner, read_member
from sbformat.tools.scan.findings import RULES, VERDICTS, Finding, Location, ScanReport, Skipped
from sbformat.tools.scan.folders import Tree, is_large_and_unknown
from sbformat.tools.scan.sidecars import is_script, is_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sbformat.io.opening import SourceLike
    from sbformat.io.remote import RemoteSource
    from sbformat.io.source import BytesSource, Source
    from sbformat.limits import Limits
    from sbformat.tools.scan.findings import SkipReason, Verdict


PIECE_BYTES: Final = 1 << 23


class StableSource:
    """A source that remembers a digest of the bytes that it returned, to detect that the file has changed.

    The size and times of a file do not show what is written to it through a memory map.
    """

    __slots__ = ("_returned", "_source", "size")

    def __init__(self, source: Source) -> None:
        self._source = source
        self.size = source.size
        self._returned: defaultdict[int, set[tuple[int, int, bytes]]] = defaultdict(set)
        """For each piece, by number: the ranges of it that were returned, and the digest of each."""

    def view(self, offset: int, length: int) -> memoryview:
        """Return ``length`` bytes from ``offset``."""
        view = self._source.view(offset, length)
        stop = offset + len(view)
        for number in range(offset // PIECE_BYTES, -(-stop // PIECE_BYTES)):
            start = number * PIECE_BYTES
            first, last = max(offset, start), min(stop, start + PIECE_BYTES)
            digest = hashlib.sha256(view[first - offset : last - offset]).digest()
            self._returned[number].add((first - start, last - start, digest))
        return view

    def sha256(self, progress: Callable[[int], None] | None = None) -> str:
        """Read all of the file once more, and return its SHA-256 in hexadecimal."""
        whole = hashlib.sha256()
        starts = range(0, self.size, PIECE_BYTES)
        pieces = (self._source.view(start, min(PIECE_BYTES, self.size - start)) for start in starts)
        for number, piece in enumerate(read_ahead(pieces)):
            whole.update(piece)
            if progress is not None:
                progress(len(piece))
            for first, last, digest in self._returned.get(number, ()):
                if hashlib.sha256(piece[first:last]).digest() != digest:
                    raise ContainerError("the file changed while it was scanned", offset=number * PIECE_BYTES + first)
        return whole.hexdigest()


_LISTED_FORMATS: Final = frozenset({
    "sb3", "torch-zip", "torch-legacy", "sb2-zip", "npz", "zip", "safetensors", "pickle",
})  # fmt: skip
"""Formats of files in a tree that have a verdict even when nothing was found in them."""
_OF_SETTINGS: Final = ("text", "data-json")  # kinds of settings files
_MANY_ENTRIES: Final = ("sb3", "sb2-zip", "folder")  # formats of archives in memory that are more than one file
_HEAD_BYTES: Final = 512
_FILE: Final = Location("")

__all__ = ["RULES", "VERDICTS", "Finding", "ScanReport", "Skipped", "scan", "scan_in_tree"]


def scan(
    source: Archive | SourceLike,
    *,
    limits: Limits = DEFAULT_LIMITS,
    allow: Iterable[str] = (),
    progress: Callable[[int], None] | None = None,
) -> ScanReport:
    """Judge a file: nothing named in it is executed, imported or fetched.

    A folder is judged as a whole, with every file below it; links out of it are not followed. ::

        report = sbformat.scan("agent.zip")
        if report.verdict != "clean":
            for finding in report.findings:
                print(finding.verdict, finding.entry, finding.message)

    :param source: a path, a folder (an archive may have been unzipped into it), bytes, a binary file, or an archive in
        memory. The file may be an archive, a ``.pth``, a pickle, a bare ``data``, or anything that may contain one
    :param limits: what the file may use; a file that exceeds a limit is ``broken``
    :param allow: dotted names to treat as known, exactly as findings report them
    :param progress: called with numbers of bytes, in all twice the size of a file: as it is read, and as its digest is
        computed; not called for a folder or an archive
    :raises OSError: when the path cannot be opened
    :raises UnsupportedError: for a path that is neither a file, a folder nor a pipe
    :raises ValueError: for a name in ``allow`` that is known to run, import, open or connect
    """
    scanner = FileScanner(limits, _check_allowed(allow), progress)
    if isinstance(source, Archive):
        return _scan_archive(source, scanner)
    if is_folder(source):
        folder = source if is_remote(source) else os.fsdecode(to_path(source))
        return _scan_folder(folder, scanner, () if is_remote(source) else find_roots(folder))
    return _scan_path(source, scanner, _open_remote(source, limits))[0]


def scan_opened(opened: Source, *, limits: Limits = DEFAULT_LIMITS, allow: Iterable[str] = ()) -> ScanReport:
    """Judge a file that was opened, so that the verdict is that of the bytes that others read; see :func:`scan`.

    :param opened: from :func:`sbformat.formats.opener.open_once`. A file that has changed since is ``broken``
    """
    scanner = FileScanner(limits, _check_allowed(allow))
    if not isinstance(opened, FileSource):
        return _scan_content(opened, scanner)
    return _scan_file(opened.with_limits(_allow_pieces(limits)), opened.with_limits(limits).load, scanner)[0]


def scan_in_tree(
    path: str,
    roots: tuple[str, ...],
    *,
    limits: Limits = DEFAULT_LIMITS,
    allow: Iterable[str] = (),
    progress: Callable[[int], None] | None = None,
) -> ScanReport | SkipReason:
    """Judge a file that :class:`sbformat.tools.scan.folders.Tree` lists, or return why it has no verdict.

    :param roots: the folders of the tree, which links may lead to
    """
    scanner = FileScanner(limits, frozenset(allow), progress)
    if is_folder(path):
        report = _scan_folder(path, scanner, roots)
        is_pointer = not is_remote(path) and [row.message for row in report.findings] == [ONLY_POINTERS]
        return "lfs-pointer" if is_pointer else report
    remote = _open_remote(path, limits)
    if is_large_and_unknown(path, limits, remote):
        return "large"
    report, head = _scan_path(path, scanner, remote, is_sidecar=True)
    if report.pickles or report.findings or report.format in _LISTED_FORMATS:
        return report
    if report.format == "lfs-pointer":
        return "lfs-pointer"
    return "script" if is_script(path, head) else "other"


def _check_allowed(allow: Iterable[str]) -> frozenset[str]:
    """Return the names to treat as known."""
    allowed = frozenset(require_names(allow, "allow"))
    for name in sorted(allowed):
        parts = name.split(".")
        pairs = ((".".join(parts[:at]), ".".join(parts[at:])) for at in range(1, len(parts)))
        why = next(filter(None, map(explain_danger, pairs)), None)
        if why:
            raise ValueError(f"{escape(name)} cannot be allowed: it {why}")
    return allowed


# -- files and archives -------------------------------------------------------------------------------


def _scan_archive(archive: Archive, scanner: FileScanner) -> ScanReport:
    """Scan an archive in memory."""
    entries = archive.stored_entries
    size = sum(entry.size for entry in entries.entries.values())
    scanner.grant(size)
    if archive.format in _MANY_ENTRIES:
        scanner.scan_entries(entries, _FILE, 0)
    else:
        for name in entries.entries:
            scanner.scan_content(read_member(scanner, entries, name, _FILE), _FILE)
    return _make_report(scanner, archive.format, None, size)


def _scan_path(
    source: SourceLike, scanner: FileScanner, remote: RemoteSource | None, *, is_sidecar: bool = False
) -> tuple[ScanReport, bytes]:
    """Scan one file that is not open yet, unless it is a remote one; also return its first bytes."""
    limits = scanner.budget.limits
    load: Callable[[], BytesSource] = partial(open_source, source, budget=Budget(limits), progress=scanner.progress)
    if remote is not None:
        load = partial(remote.load, scanner.progress)
    name = last_name(remote.name) if remote is not None else source
    as_settings = isinstance(name, (str, os.PathLike)) and is_settings(os.fsdecode(name))
    large = _open_large(source, remote, limits)
    return _scan_file(large, load, scanner, is_sidecar=is_sidecar, as_settings=as_settings)


def _scan_file(
    large: Source | None,
    load: Callable[[], BytesSource],
    scanner: FileScanner,
    *,
    is_sidecar: bool = False,
    as_settings: bool = False,
) -> tuple[ScanReport, bytes]:
    """Scan one file; also return its first bytes."""
    report = _scan_large(large, scanner) if large is not None else None
    if report is not None:
        return report, b""
    try:
        opened = load()
    except UnsupportedError:  # a device, not a file
        raise
    except SbformatError as error:
        _scan_unread(scanner, large, _FILE, error)
        return _make_report(scanner, "unknown", None, 0), b""
    report = _scan_content(opened, scanner, is_sidecar=is_sidecar, as_settings=as_settings)
    return report, bytes(opened.view(0, min(opened.size, _HEAD_BYTES)))


def _scan_content(
    opened: Source, scanner: FileScanner, *, is_sidecar: bool = False, as_settings: bool = False
) -> ScanReport:
    """Scan one file that is in memory.

    :param as_settings: judge it as if it was found in a folder, unless it is a failed download
    """
    scanner.grant(opened.size)
    kind = detect_kind(opened)
    is_sidecar = is_sidecar or (as_settings and kind in _OF_SETTINGS)
    scanner.scan_content(opened.view(0, opened.size), _FILE, is_sidecar=is_sidecar)
    kind = scanner.format or kind if kind == "zip" else kind
    digest = hashlib.sha256()
    for piece in iter_views(opened, 0, opened.size, PIECE_BYTES):
        digest.update(piece)
        if scanner.progress is not None:
            scanner.progress(len(piece))
    return _make_report(scanner, kind, digest.hexdigest(), opened.size)


def _scan_unread(scanner: FileScanner, large: Source | None, location: Location, error: SbformatError) -> None:
    """Report a file that cannot be read into memory; YAML tags are looked for in one that is too large for it."""
    scanner.add(location.broken(error))
    if large is not None:
        try:
            scanner.grant(large.size)
            scanner.scan_tags(large, location)
        except SbformatError as changed:
            scanner.add(location.broken(changed))


def _scan_large(opened: Source, scanner: FileScanner) -> ScanReport | None:
    """Scan a file that is one pickle and may be larger than memory, such as a replay buffer; None for other files."""
    stable, sha256 = StableSource(opened), None
    large_scanner = FileScanner(scanner.budget.limits, scanner.allow)
    large_scanner.grant(opened.size)
    try:
        if not large_scanner.scan_large_file(stable, _FILE):
            return None
        if scanner.progress is not None:
            scanner.progress(opened.size)
        sha256 = stable.sha256(scanner.progress)
    except SbformatError as error:  # the file has changed
        large_scanner.add(_FILE.broken(error))
    return _make_report(large_scanner, "pickle", sha256, opened.size)


def _open_remote(source: SourceLike, limits: Limits) -> RemoteSource | None:
    """Open a remote file; None for any other source."""
    return open_url(source, _allow_pieces(limits), is_whole=True) if is_remote(source) else None


def _open_large(source: SourceLike, remote: RemoteSource | None, limits: Limits) -> Source | None:
    """Open a large file without reading it."""
    if remote is not None:
        return remote if remote.size > LARGE_FILE_BYTES and remote.is_by_range() else None
    try:
        return open_large(source, limits=_allow_pieces(limits))
    except SbformatError:
        return None


def _allow_pieces(limits: Limits) -> Limits:
    """Return limits for reading in pieces, which may be larger than ``member_bytes``: it limits members."""
    return limits._replace(member_bytes=max(limits.member_bytes, PIECE_BYTES))


# -- folders ------------------------------------------------------------------------------------------


def _scan_folder(folder: str, scanner: FileScanner, roots: tuple[str, ...]) -> ScanReport:
    """Scan the entries of an unzipped archive, and every other file below, on the disk or remote."""
    listed: list[Skipped] = []
    if is_remote(folder):
        from sbformat.io.remote.listing import pin_folder, walk_folder

        folder = pin_folder(folder)
        paths = {row.name: join_url(folder, row.name) for found in walk_folder(folder) for row in found.files}
    else:
        tree = Tree(folder, roots, set(), finds_archives=False)
        for error in tree.unreadable.values():
            raise error
        listed = tree.skipped
        paths = {_relative_name(path, folder): path for path in tree.files}
    entries = FileEntries({}, scanner.budget)
    if any(map(is_sb3_name, paths if is_remote(folder) else os.listdir(folder))):
        try:
            entries = open_folder(folder, scanner.budget, follows=lambda path: is_within(path, roots))
        except SbformatError as error:
            is_other = isinstance(error, UnsupportedError)  # only pointers of Git LFS
            scanner.add(_FILE.finding("unknown-entry", error.message) if is_other else _FILE.broken(error))
    size = sum(entry.size for entry in entries.entries.values())
    scanner.grant(size)
    scanner.scan_entries(entries, _FILE, 0)
    skipped = []
    for row in listed:
        name = _relative_name(row.path, folder)
        skipped += [row] if name not in entries else []
        if row.reason == "link-out" and name not in entries and is_sb3_name(name):
            message = "a link out of the folder: SB3 reads the file that it leads to, which was not examined"
            scanner.add(Location(name).finding("unknown-entry", message))
    for name, path in paths.items():
        head = b""
        if name not in entries:
            remote = _open_remote(path, scanner.budget.limits)
            if is_large_and_unknown(path, scanner.budget.limits, remote):
                skipped.append(Skipped(hide_secrets(path), "large"))
                continue
            examined, head = _scan_sidecar(path, name, scanner, remote)
            size += examined
        elif not is_remote(folder) and not is_sb3_name(name):
            head = bytes(entries.view(name)[:_HEAD_BYTES])
        if is_script(name, head):
            skipped.append(Skipped(hide_secrets(path), "script"))
    if not paths and not entries.entries:
        scanner.add(_FILE.finding("unknown-entry", "no file in this folder was examined"))
    return _make_report(scanner, "folder", None, size, skipped)


def _relative_name(path: str, folder: str) -> str:
    return os.path.relpath(path, folder).replace(os.sep, "/")


def _scan_sidecar(path: str, name: str, scanner: FileScanner, remote: RemoteSource | None) -> tuple[int, bytes]:
    """Scan a file of a folder that is not an entry of its archive; return its size and its first bytes."""
    large = _open_large(path, remote, scanner.budget.limits)
    if large is not None:
        scanner.grant(large.size)
    try:
        if large is not None and scanner.scan_large_file(large, Location(name)):
            return large.size, b""
        opened = remote.load() if remote is not None else open_source(path, budget=scanner.budget)
    except SbformatError as error:
        _scan_unread(scanner, large, Location(name), error)
        return 0, b""
    if large is None:
        scanner.grant(opened.size)
    view = opened.view(0, opened.size)
    scanner.scan_content(view, Location(name), is_sidecar=True)
    return opened.size, bytes(view[:_HEAD_BYTES])


def _make_report(
    scanner: FileScanner, kind: str, sha256: str | None, size: int, skipped: Iterable[Skipped] = ()
) -> ScanReport:
    verdict: Verdict = max((finding.verdict for finding in scanner.findings), key=VERDICTS.index, default="clean")
    return ScanReport(
        format=kind,
        verdict=verdict,
        reason=None if verdict != "dangerous" else "harmful" if scanner.counter.is_harmful else "not-known",
        findings=tuple(scanner.findings),
        omitted=scanner.counter.omitted,
        imports=tuple(sorted(scanner.imports)),
        pickles=scanner.pickles,
        sha256=sha256,
        size=size,
        skipped=tuple(skipped),
    )
