"""``scan``: what loading a file would run, import or not understand (FORMAT.md 14)."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Final

from sbformat.archive.archive import Archive
from sbformat.archive.folder import LooseEntries, is_read, open_folder
from sbformat.archive.kinds import sniff
from sbformat.errors import SbformatError, UnsupportedError, escape
from sbformat.globals.dangerous import reason
from sbformat.io.source import open_large, open_source
from sbformat.limits import DEFAULT_LIMITS, Budget
from sbformat.tools.scan.files import Scanner
from sbformat.tools.scan.location import Place
from sbformat.tools.scan.report import RULES, VERDICTS, Finding, ScanReport, Skipped
from sbformat.tools.scan.sidecars import is_script
from sbformat.tools.scan.stable_source import PIECE_BYTES, WatchedSource
from sbformat.tools.scan.tree import is_passed_over, is_within, read_tree, roots_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sbformat.io.source import Source, SourceLike
    from sbformat.limits import Limits
    from sbformat.tools.scan.report import SkipReason, Verdict

ARCHIVES: Final = frozenset({
    "sb3", "torch-zip", "torch-legacy", "sb2-zip", "npz", "zip", "safetensors", "pickle",
})  # fmt: skip
"""Formats of files of a tree that are listed though nothing was found in them."""
_ZIP_OR_FOLDER: Final = ("sb3", "sb2-zip", "folder")
_HEAD_BYTES: Final = 512

__all__ = ["RULES", "VERDICTS", "Finding", "ScanReport", "Skipped", "scan", "scan_in_tree"]


def scan(source: Archive | SourceLike, *, limits: Limits = DEFAULT_LIMITS, allow: Iterable[str] = ()) -> ScanReport:
    """Judge a file without running, importing or fetching anything named in it.

    A folder is judged as one, with every file below it; links out of it are not followed.

    :param source: a path, a folder (an archive may have been unzipped into it), bytes, or a binary file object: an
        archive, a lone ``.pth``, a pickle, a bare ``data``, or anything that may hold one of them
    :param limits: what it may ask for; what asks for more is ``broken``
    :param allow: dotted names that are taken for known, exactly as they are reported
    :raises OSError: from the path, unchanged
    :raises UnsupportedError: for a path that is neither a file, a folder nor a pipe
    :raises ValueError: for a name in ``allow`` that is known to run, import, open or connect
    """
    allowed = frozenset(allow)
    for name in sorted(allowed):
        why = next(filter(None, (reason(pair) for pair in _pairs(name))), None)
        if why:
            message = f"{escape(name)} cannot be allowed: it {why}"
            raise ValueError(message)
    scanner = Scanner(limits, allowed)
    if isinstance(source, Archive):
        return _scan_archive(source, scanner)
    if isinstance(source, (str, os.PathLike)) and os.path.isdir(source):
        return _folder(os.fsdecode(source), scanner, roots_of(os.fsdecode(source)))
    return _file(source, scanner)[0]


def scan_in_tree(
    path: str, roots: tuple[str, ...], *, limits: Limits = DEFAULT_LIMITS, allow: Iterable[str] = ()
) -> ScanReport | SkipReason:
    """Judge what :func:`sbformat.tools.scan.tree.read_tree` lists, or say why it has no verdict.

    :param path: a file, or the folder that an archive was unzipped into
    :param roots: of the tree, which links may lead to
    :param limits: as in :func:`scan`
    :param allow: as in :func:`scan`, checked
    """
    scanner = Scanner(limits, frozenset(allow))
    if os.path.isdir(path):
        return _folder(path, scanner, roots)
    if is_passed_over(path, limits):
        return "large"
    report, head = _file(path, scanner, is_beside=True)
    if report.pickles or report.findings or report.format in ARCHIVES:
        return report
    return "script" if is_script(path, head) else "other"


def _scan_archive(archive: Archive, scanner: Scanner) -> ScanReport:
    """Scan the entries of an archive in memory; of a file that is one object, that."""
    entries = archive.stored_entries
    size = sum(entry.size for entry in entries.entries.values())
    scanner.grant(size)
    if archive.format in _ZIP_OR_FOLDER:
        scanner.scan_entries(entries, Place(""), 0)
    else:
        for name in entries.entries:
            scanner.content(entries.view(name), Place(""))
    return _report(scanner, archive.format, None, size)


def _file(source: SourceLike, scanner: Scanner, *, is_beside: bool = False) -> tuple[ScanReport, bytes]:
    """Scan one file; also return its first bytes."""
    large = _large(source, scanner)
    if large is not None:
        return large, b""
    try:
        opened = open_source(source, budget=Budget(scanner.budget.limits))
    except UnsupportedError:  # a device: there is no file to judge
        raise
    except SbformatError as error:
        scanner.add(Place("").broken(error))
        return _report(scanner, "unknown", None, 0), b""
    view = opened.view(0, opened.size)
    scanner.grant(opened.size)
    kind = sniff(opened)
    scanner.content(view, Place(""), is_beside=is_beside)
    kind = scanner.format or kind if kind == "zip" else kind
    return _report(scanner, kind, hashlib.sha256(view).hexdigest(), opened.size), bytes(view[:_HEAD_BYTES])


def _large(source: SourceLike, scanner: Scanner) -> ScanReport | None:
    """Scan a file of one pickle that may be larger than memory, a replay buffer; None for all else."""
    opened = _open_large(source, scanner.budget.limits)
    if opened is None:
        return None
    watched, sha256 = WatchedSource(opened), None
    judged = Scanner(scanner.budget.limits, scanner.allow)
    judged.grant(opened.size)
    try:
        if not judged.large_file(watched, Place("")):
            return None
        sha256 = watched.sha256()
    except SbformatError as error:  # it is not the file any more that was judged
        judged.add(Place("").broken(error))
    return _report(judged, "pickle", sha256, opened.size)


def _open_large(source: SourceLike, limits: Limits) -> Source | None:
    room = max(limits.member_bytes, PIECE_BYTES)  # what is read at once is no member
    try:
        return open_large(source, limits=limits._replace(member_bytes=room))
    except SbformatError:
        return None


def _pairs(name: str) -> list[tuple[str, str]]:
    """Every way to part a dotted name into module and name."""
    parts = name.split(".")
    return [(".".join(parts[:at]), ".".join(parts[at:])) for at in range(1, len(parts))]


def _folder(source: str, scanner: Scanner, roots: tuple[str, ...]) -> ScanReport:
    """Scan the entries of an unzipped archive, and every other file below."""
    entries = LooseEntries({}, scanner.budget)
    tree = read_tree(source, roots, set(), finds_archives=False)
    for error in tree.unreadable.values():
        raise error
    with os.scandir(source) as items:
        is_archive = any(is_read(item.name) for item in items)
    if is_archive:
        try:
            entries = open_folder(source, scanner.budget, follows=lambda path: is_within(path, roots))
        except SbformatError as error:
            scanner.add(Place("").broken(error))
    size, top = sum(entry.size for entry in entries.entries.values()), set(entries.entries)
    scanner.grant(size)
    scanner.scan_entries(entries, Place(""), 0)
    skipped = [row for row in tree.skipped if _name_of(row.path, source) not in top]
    _judge_links([_name_of(row.path, source) for row in skipped if row.reason == "link-out"], scanner)
    names = [(path, _name_of(path, source)) for path in tree.files]
    for path, name in names:
        if name in top:
            head = b"" if is_read(name) else bytes(entries.view(name)[:_HEAD_BYTES])
            skipped += [Skipped(path, "script")] if is_script(name, head) else []
        elif is_passed_over(path, scanner.budget.limits):
            skipped.append(Skipped(path, "large"))
        else:
            examined, head = _beside(path, name, scanner)
            size += examined
            skipped += [Skipped(path, "script")] if is_script(name, head) else []
    if not names and not top:
        scanner.add(Place("").finding("unknown-entry", "no file in this folder was examined"))
    return _report(scanner, "folder", None, size, skipped)


def _judge_links(names: list[str], scanner: Scanner) -> None:
    """Tell of links out of a folder that have the names of entries."""
    for name in filter(is_read, names):
        message = "a link out of the folder: who loads the archive reads what it leads to, which was not examined"
        scanner.add(Place(name).finding("unknown-entry", message))


def _name_of(path: str, folder: str) -> str:
    return os.path.relpath(path, folder).replace(os.sep, "/")


def _beside(path: str, name: str, scanner: Scanner) -> tuple[int, bytes]:
    """Scan a file of a folder that is no entry of its archive; return its size and its first bytes."""
    large = _open_large(path, scanner.budget.limits)
    if large is not None:
        scanner.grant(large.size)
    try:
        if large is not None and scanner.large_file(large, Place(name)):
            return large.size, b""
        opened = open_source(path, budget=scanner.budget)
    except SbformatError as error:
        scanner.add(Place(name).broken(error))
        return 0, b""
    if large is None:
        scanner.grant(opened.size)
    view = opened.view(0, opened.size)
    scanner.content(view, Place(name), is_beside=True)
    return opened.size, bytes(view[:_HEAD_BYTES])


def _report(scanner: Scanner, kind: str, sha256: str | None, size: int, skipped: Iterable[Skipped] = ()) -> ScanReport:
    verdict: Verdict = max((finding.verdict for finding in scanner.findings), key=VERDICTS.index, default="clean")
    return ScanReport(
        format=kind,
        verdict=verdict,
        reason=None if verdict != "dangerous" else "harmful" if scanner.is_harmful else "not-known",
        findings=tuple(scanner.findings),
        omitted=scanner.omitted,
        imports=tuple(sorted(scanner.imports)),
        pickles=scanner.pickles,
        sha256=sha256,
        size=size,
        skipped=tuple(skipped),
    )
