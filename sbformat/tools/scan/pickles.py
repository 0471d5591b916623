"""Find and judge pickles: serialized values, streams of several pickles, and pickles within pickles (SCANNING.md 14.2).

Any bytes may be a pickle, because pickles of the protocols 0 and 1 have no mark. Text and numbers can begin like one by
chance but seldom continue like one, so bytes count as a pickle when the machine reaches STOP or an import
(:func:`_is_pickle` has the exact rules). Another pickle may follow. Every bytes object in a pickle is examined
in the same way, after the pickle itself.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from sbformat.constants import LEGACY_MAGIC_BYTES, LOCAL_SIGNATURE
from sbformat.container.reader import InflatedSource
from sbformat.errors import LimitError, PickleError, SbformatError, TensorError
from sbformat.known.dangerous import explain_danger
from sbformat.limits import Budget
from sbformat.pkl import Pickle
from sbformat.pkl.decode import Attempt, attempt
from sbformat.pkl.numpy import encoded_bytes
from sbformat.pkl.tree import BYTES, Call, Global, Unread, Update
from sbformat.tools.scan.findings import FindingCounter
from sbformat.tools.scan.judge import ENCODING_ROLES, Judged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sbformat.archive.kinds import Kind
    from sbformat.io.source import Source
    from sbformat.limits import Limits
    from sbformat.pkl.tree import Node
    from sbformat.pth.context import DecodeContext
    from sbformat.tools.scan.findings import Finding, Location

MAX_DEPTH: Final = 8
"""Levels of files within files, and of pickles within pickles."""
_PROTO: Final = 0x80
_NEWEST_PROTOCOL: Final = 5
_BYTES_PER_BYTE: Final = 4
_EXTRA_BYTES: Final = 3 << 20
_FRAME: Final = b"\x95"
_FIRST_WINDOW: Final = 1 << 16
_NODE_COST: Final = 64  # cost of judging a composite value, in bytes of a pickle
_ATTEMPT_COST: Final = 400  # cost of an attempt to decode bytes, in bytes of a pickle


class PickleScanner(ABC):
    """Judges pickles, collects the findings of one scan, and limits how much it examines."""

    def __init__(self, limits: Limits, allow: frozenset[str], progress: Callable[[int], None] | None = None) -> None:
        self.budget = Budget(limits)
        self.allow = allow
        self.progress = progress
        self.findings: list[Finding] = []
        self.counter = FindingCounter()
        self.imports: set[str] = set()
        self.pickles = 0
        self.format: Kind | None = None
        """The type of the outermost zip, once it is known."""
        self.is_program = False
        """Whether the records of a TorchScript archive are being scanned."""
        self._postponed: list[tuple[bytes | bytearray | Unread, Location, int]] | None = None
        self._bytes_left = _EXTRA_BYTES
        self._seen: set[tuple[Location, bytes]] = set()

    def add(self, *findings: Finding) -> None:
        """Add findings; beyond a thousand of one verdict they are only counted."""
        self.findings += [row for row in findings if self.counter.count(row.verdict, row.reason)]

    # -- how much is examined: a small file may contain itself thousands of times ----------------------

    def grant(self, size: int) -> None:
        """Allow a file in memory, and four bytes of pickles and of recovered content for each of its bytes."""
        self._bytes_left += _BYTES_PER_BYTE * size
        self.budget.grant(size)

    def bytes_left(self) -> int:
        """Return how many more bytes may be examined."""
        return self._bytes_left

    def charge(self, size: int, location: Location) -> bool:
        """Charge for bytes to examine; return whether any were left before."""
        before, self._bytes_left = self._bytes_left, self._bytes_left - size
        if before > 0 >= self._bytes_left:  # once: for what uses the budget up, not for what comes after
            message = "the file contains more data within itself than is examined; from here on, nothing is"
            self.add(location.finding("broken", message))
        return before > 0

    # -- pickles --------------------------------------------------------------------------------------

    @abstractmethod
    def scan_content(self, data: memoryview, location: Location, depth: int = 0) -> None:
        """Scan bytes of any type: zips, torch files, pickles."""

    def scan_blob(self, data: bytes, location: Location, depth: int) -> Judged | None:
        """Judge one pickle and the bytes after it; None when it was judged before."""
        if not self.charge(_ATTEMPT_COST, location):
            return None
        found = attempt(data, self.budget)
        judged = self._judge_readings(found, data, location, depth)
        for end in found.all_ends:
            if end < len(data):
                self._report_trailing(len(data) - end, end, location)
                self.scan_pickles(memoryview(data)[end:], location, depth + 1)
        return judged

    def _report_trailing(self, count: int, offset: int, location: Location) -> None:
        self.add(location.finding("trailing-bytes", f"{count} bytes follow the pickle", offset=offset))

    def _judge_readings(
        self, found: Attempt, data: bytes, location: Location, depth: int, *, encoding: str = "ascii"
    ) -> Judged | None:
        """Judge a pickle in each way in which unpicklers read it; return the result of the first."""
        first = None
        seen = location, hashlib.sha256(data[: found.reached]).digest()
        is_new = seen not in self._seen  # base64 can be decoded in several ways
        self._seen.add(seen)
        for number, reading in enumerate(found.readings):
            self.charge(reading.reached + _NODE_COST * reading.built, location)
            if number or is_new:
                judged = self.judge(reading, data, location, depth, encoding=encoding)
                first = first or judged
        return first

    def scan_pickles(
        self,
        data: memoryview | Unread,
        location: Location,
        depth: int,
        *,
        is_due: bool = False,
        is_whole: bool = True,
        is_nested: bool = False,
    ) -> bool:
        """Judge bytes that may be pickles, one after another; return whether any is one.

        :param is_due: the loader unpickles them, so a fault is a finding
        :param is_whole: nothing else may follow the pickles
        :param is_nested: they are a bytes object in a pickle, usually the numbers of an array
        """
        count, last = 0, 0
        starts = [0]
        tried: set[int] = set()
        while starts:
            start = starts.pop()
            if start in tried or start >= len(data):
                continue
            is_first = not tried
            tried.add(start)
            if not self.charge(_ATTEMPT_COST, location):
                return True
            raw, found = self._attempt(data[start:])
            ends = [start + end for end in reversed(found.all_ends)]
            if _is_pickle(found, raw, len(data) - start, is_nested=is_nested) or (is_due and is_first):
                count += 1
                self._judge_readings(found, raw, location, depth, encoding="utf-8")
                last = max(last, *ends, 0) if ends else len(data)
            else:
                self.charge(found.reached + _NODE_COST * found.built, location)
                if is_nested:
                    continue
            starts.extend(ends)  # also after a pickle of plain data: a torch file is several pickles in a row
        if count and last < len(data) and is_whole:
            self._report_trailing(len(data) - last, last, location)
        return count > 0

    def _attempt(self, rest: memoryview | Unread) -> tuple[bytes, Attempt]:
        """Decode the pickle that bytes may begin with; return the bytes that were read, and the result.

        Arrays and other pickles usually follow, so no more bytes are copied than are needed.
        """
        allowed = self.budget.limits.pickle_bytes
        window = _FIRST_WINDOW
        while True:
            raw = bytes(rest[: min(window, allowed)])
            found = attempt(raw, self.budget, encoding="utf-8")
            is_cut = isinstance(found.error, PickleError) and found.error.is_cut_short
            is_decided = found.error is None or not (is_cut or _FRAME in raw[: found.reached])
            if is_cut and len(raw) == allowed < len(rest):  # the limit, and not the file, ends there
                found = found._replace(error=LimitError("pickle_bytes", allowed=allowed, actual=len(rest)))
            if is_decided or len(raw) == min(len(rest), allowed):
                return raw, found
            window = window * 8 if isinstance(rest, Unread) else allowed

    def scan_large_pickle(self, source: Source, location: Location, depth: int) -> Judged | None:
        """Judge one pickle that exceeds ``pickle_bytes``, such as a replay buffer; return None if it is none.

        Its arrays stay in the file and are examined one at a time.
        """
        if source.size <= self.budget.limits.pickle_bytes and not isinstance(source, InflatedSource):
            return None
        from sbformat.pkl.out_of_core import decode_large

        try:
            pickle = decode_large(source, self.budget, encoding="utf-8")
        except SbformatError:
            return None
        return self.judge(pickle, b"", location, depth)

    # -- bytes in pickles -----------------------------------------------------------------------------

    def judge(
        self,
        found: Attempt | Pickle,
        data: bytes,
        location: Location,
        depth: int,
        *,
        encoding: str = "utf-8",
        scope: DecodeContext | None = None,
    ) -> Judged:
        """Judge a pickle, and scan the bytes objects in it.

        :param found: the pickle, decoded as far as possible, or whole
        :param data: the pickle and any bytes that follow it; empty when offsets are not needed
        :param encoding: of Python 2's 8-bit strings
        :param scope: finds the storages of a ``.pth``
        """
        is_program = self.is_program and not isinstance(found, Pickle)
        tried = Attempt(found, found.log, None, found.size) if isinstance(found, Pickle) else found
        judged = Judged(location, self.allow, tried, is_program=is_program)
        judged.judge_pickle(self.budget, scope, len(data))
        if tried.error is not None:
            judged.findings.append(location.broken(tried.error))
        judged.locate(data, self.budget, encoding)
        self.pickles += 1
        self.imports.update(judged.imports)
        self.counter.omitted += judged.counter.omitted
        self.counter.is_harmful = self.counter.is_harmful or judged.counter.is_harmful
        self.add(*judged.findings)
        for part in judged.parts:
            if type(part) in BYTES:
                if len(part) > 1:  # type: ignore[arg-type]
                    self._scan_or_postpone(part, location, depth)  # type: ignore[arg-type]
            elif type(part) is Call and judged.roles[id(part)] in ENCODING_ROLES:
                encoded = None
                with suppress(TensorError):
                    encoded = encoded_bytes(part)
                if encoded:
                    self._scan_or_postpone(encoded, location, depth)
        return judged

    def _scan_or_postpone(self, part: bytes | bytearray | Unread, location: Location, depth: int) -> None:
        if self._postponed is None:
            self._scan_nested(part, location, depth)
        else:
            self._postponed.append((part, location, depth))

    @contextmanager
    def postpone_nested(self) -> Iterator[None]:
        """Scan bytes within pickles after all pickles of an entry, because many of them use up the budget."""
        if self._postponed is not None:
            yield
            return
        self._postponed = []
        postponed = self._postponed
        try:
            yield
        finally:
            self._postponed = None
        for part, location, depth in postponed:
            self._scan_nested(part, location, depth)

    def _scan_nested(self, part: bytes | bytearray | Unread, location: Location, depth: int) -> None:
        """Scan bytes within a pickle that may be a file or pickles themselves; a file is read into memory."""
        try:
            head = bytes(part[:32])
            view = part if isinstance(part, Unread) else memoryview(part)
            if head.startswith(LOCAL_SIGNATURE) or (head[0] == _PROTO and LEGACY_MAGIC_BYTES in head):
                self.scan_content(view.view() if isinstance(view, Unread) else view, location, depth + 1)
            elif depth < MAX_DEPTH:
                self.scan_pickles(view, location, depth + 1, is_whole=False, is_nested=True)
            elif is_marked(head):
                self.add(location.finding("broken", f"pickles are nested in pickles more than {MAX_DEPTH} levels deep"))
        except SbformatError as error:  # bytes left in the file have changed, or are too large for memory
            self.add(location.broken(error))


def is_marked(raw: bytes | bytearray | memoryview) -> bool:
    """Return whether bytes begin as a pickle of protocol 2 or newer does."""
    return len(raw) > 1 and raw[0] == _PROTO and raw[1] <= _NEWEST_PROTOCOL


def _is_pickle(found: Attempt, raw: bytes, size: int, *, is_nested: bool) -> bool:
    """Return whether bytes are a pickle, whole or broken, and not text or numbers that begin like one.

    Of the protocols 0 and 1, which have no mark, a pickle of plain data counts only when nothing else follows.

    :param raw: those that were read
    :param size: number of all bytes
    """
    has_mark = is_marked(raw)
    if not is_nested and found.error is not None and _FRAME in raw[: found.reached]:
        return True
    is_cut = isinstance(found.error, PickleError) and found.error.is_cut_short and len(raw) < size
    if (is_cut or isinstance(found.error, LimitError)) and (has_mark or not is_nested):
        return True  # its end is unknown; numbers in an array seldom have the mark
    if found.pickle is not None:
        return has_mark or bool(found.log) or (not is_nested and found.pickle.size == size)
    if has_mark:
        return bool(found.log)
    return any(_is_unlikely_by_chance(node) for node in found.log)


def _is_unlikely_by_chance(node: Node | Update) -> bool:
    """Return whether text or numbers seldom decode to a row: a call, or a name that is harmful or changed."""
    if isinstance(node, Update):
        return isinstance(node.target, Global)
    return isinstance(node, Call) or (isinstance(node, Global) and explain_danger(node.pair) is not None)
