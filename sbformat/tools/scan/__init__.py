"""``scan``: what loading a file would run, import or not understand (FORMAT.md 14)."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from sbformat.errors import SbformatError, escape
from sbformat.limits import DEFAULT_LIMITS, Budget
from sbformat.loose import open_folder
from sbformat.names.dangerous import reason
from sbformat.sniff import sniff
from sbformat.source import open_large, open_source
from sbformat.tools.scan.files import Scanner
from sbformat.tools.scan.judge import Place
from sbformat.tools.scan.report import RULES, VERDICTS, Finding, ScanReport
from sbformat.tools.scan.watched import PIECE_BYTES, WatchedSource

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sbformat.limits import Limits
    from sbformat.source import Source, SourceLike
    from sbformat.tools.scan.report import Verdict

_GIT = ".git"

__all__ = ["RULES", "VERDICTS", "Finding", "ScanReport", "scan"]


def scan(source: SourceLike, *, limits: Limits = DEFAULT_LIMITS, allow: Iterable[str] = ()) -> ScanReport:
    """Judge a file without running, importing or fetching anything named in it.

    :param source: a path, the folder that an archive was unzipped into, bytes, or a binary file object: an archive, a
        lone ``.pth``, a pickle, a bare ``data``, or anything that may hold one of them
    :param limits: what it may ask for; what asks for more is ``broken``
    :param allow: dotted names that are taken for known, exactly as they are reported
    :raises OSError: from the path, unchanged
    :raises ValueError: for a name in ``allow`` that is known to run, import, open or connect
    """
    allowed = frozenset(allow)
    for name in sorted(allowed):
        why = next(filter(None, (reason(pair) for pair in _pairs(name))), None)
        if why:
            message = f"{escape(name)} cannot be allowed: it {why}"
            raise ValueError(message)
    scanner = Scanner(limits, allowed)
    if isinstance(source, (str, os.PathLike)) and os.path.isdir(source):
        return _folder(source, scanner)
    large = _large(source, scanner)
    if large is not None:
        return large
    try:
        opened = open_source(source, budget=Budget(limits))
    except SbformatError as error:
        scanner.add(Place("").broken(error))
        return _report(scanner, "unknown", None, 0)
    view = opened.view(0, opened.size)
    scanner.grant(opened.size)
    kind = sniff(opened)
    scanner.content(view, Place(""))
    kind = scanner.format or kind if kind == "zip" else kind
    return _report(scanner, kind, hashlib.sha256(view).hexdigest(), opened.size)


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


def _folder(source: str | os.PathLike[str], scanner: Scanner) -> ScanReport:
    """Scan the entries of an unzipped archive, and every other file below."""
    size, top = 0, set()
    try:
        entries = open_folder(source, scanner.budget)
    except SbformatError as error:
        scanner.add(Place("").broken(error))
    else:
        size = sum(entry.size for entry in entries.entries.values())
        scanner.grant(size)
        scanner.entries(entries, Place(""), 0)
        top = set(entries.entries)
    for path, name in _others(source, top):
        large = _open_large(path, scanner.budget.limits)
        if large is not None:
            scanner.grant(large.size)
        try:
            if large is not None and scanner.large_file(large, Place(name)):
                size += large.size
                continue
            opened = open_source(path, budget=scanner.budget)
        except SbformatError as error:
            scanner.add(Place(name).broken(error))
            continue
        size += opened.size
        if large is None:
            scanner.grant(opened.size)
        scanner.content(opened.view(0, opened.size), Place(name), is_beside=True)
    return _report(scanner, "folder", None, size)


def _others(source: str | os.PathLike[str], top: set[str]) -> Iterator[tuple[str, str]]:
    """Yield the files below a folder that are no entries of its archive, in order, with their names from there.

    Links to files are followed, as whoever loads them does (a download cache is made of links); those to folders are
    not, nor is what git keeps for itself.
    """

    def refuse(error: OSError) -> None:
        raise error

    root = os.fsdecode(source)
    for folder, folders, files in os.walk(root, onerror=refuse):
        folders[:] = sorted(name for name in folders if name != _GIT)
        for file in sorted(files):
            path = os.path.join(folder, file)
            name = os.path.relpath(path, root).replace(os.sep, "/")
            if name not in top and os.path.isfile(path):
                yield path, name


def _report(scanner: Scanner, kind: str, sha256: str | None, size: int) -> ScanReport:
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
    )
