"""Pickles wherever they are: blobs, streams of several, and pickles within pickles (FORMAT.md 14.2)."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from sbformat.constants import LEGACY_MAGIC_BYTES, LOCAL_SIGNATURE
from sbformat.container.inflate import InflatedSource
from sbformat.errors import LimitError, PickleError, SbformatError, TensorError
from sbformat.globals.dangerous import reason
from sbformat.limits import Budget
from sbformat.pkl import Attempt, attempt
from sbformat.pkl.numpy import encoded_bytes
from sbformat.pkl.tree import Call, Global, Unread, Update, children
from sbformat.tools.scan.judge import MOST_FINDINGS, judge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.io.source import Source
    from sbformat.limits import Limits
    from sbformat.pkl.tree import Node
    from sbformat.tools.scan.judge import Judged
    from sbformat.tools.scan.location import Place
    from sbformat.tools.scan.report import Finding

DEEPEST: Final = 8
"""Files within files, and pickles within pickles."""
_PROTO: Final = 0x80
_NEWEST_PROTOCOL: Final = 5
_TIMES_READ: Final = 4
_LEAST_READ: Final = 3 << 20
_FRAME: Final = b"\x95"
_SHORT: Final = 1 << 16
_A_NODE: Final = 64
"""What a composite value costs that is judged, in bytes of a pickle."""
_AN_ATTEMPT: Final = 400
"""What a look at bytes costs, in bytes of a pickle."""


class StreamScanner(ABC):
    """What one scan may ask for, what it has found, and how it looks at pickles.

    :param limits: of the whole
    :param allow: dotted names that are taken for known
    """

    def __init__(self, limits: Limits, allow: frozenset[str]) -> None:
        self.budget = Budget(limits)
        self.allow = allow
        self.findings: list[Finding] = []
        self._counts: dict[str, int] = {}
        self.imports: set[str] = set()
        self.pickles = 0
        self.omitted = 0
        self._waiting: list[tuple[bytes | bytearray | Unread, Place, int]] | None = None
        self.is_program = False
        """The records of a TorchScript archive are looked into."""
        self.is_harmful = False
        """Something is known to do harm, whether its finding is listed or not."""
        self._left = _LEAST_READ
        self._known: set[tuple[Place, bytes]] = set()

    def add(self, finding: Finding) -> None:
        """Keep a finding; beyond a thousand of one verdict they are only counted."""
        self.is_harmful = self.is_harmful or finding.reason == "harmful"
        count = self._counts[finding.verdict] = self._counts.get(finding.verdict, 0) + 1
        if count <= MOST_FINDINGS:
            self.findings.append(finding)
        else:
            self.omitted += 1

    # -- how much is looked at: a small file may hold itself thousands of times ------------------------

    def grant(self, size: int) -> None:
        """Allow for a file: four times its size of pickles and of what is carved, and 3 MiB for the whole scan."""
        self._left += _TIMES_READ * size

    def left(self) -> int:
        """Return how many bytes may still be looked at."""
        return self._left

    def charge(self, size: int, place: Place) -> bool:
        """Charge bytes that are looked at; say whether there are any left."""
        was_left, self._left = self._left, self._left - size
        if was_left > 0 >= self._left:
            self.add(place.finding("broken", "it holds more within itself than is looked into, from here on"))
        return was_left > 0

    def is_new(self, data: bytes, place: Place) -> bool:
        """Say whether the same pickle was not judged at the same place before: base64 can be read in several ways."""
        seen = place, hashlib.sha256(data).digest()
        if seen in self._known:
            return False
        self._known.add(seen)
        return True

    # -- pickles --------------------------------------------------------------------------------------

    @abstractmethod
    def content(self, data: memoryview, place: Place, depth: int = 0) -> None:
        """Look into bytes of any kind: zips, torch files, pickles."""

    def pickle(self, data: bytes, place: Place, depth: int) -> Judged | None:
        """Judge a blob: one pickle, and bytes behind it if there are any; None when it was looked at before."""
        if not self.charge(_AN_ATTEMPT, place):
            return None
        found = attempt(data, self.budget)
        judged = self._judge_readings(found, data, place, depth)
        for end in found.all_ends:
            if end < len(data):
                self.add(place.finding("trailing-bytes", f"{len(data) - end} bytes follow the pickle", offset=end))
                self.pickle_stream(memoryview(data)[end:], place, depth + 1)
        return judged

    def _judge_readings(
        self, found: Attempt, data: bytes, place: Place, depth: int, *, encoding: str = "ascii"
    ) -> Judged | None:
        """Judge a pickle, in each way in which unpicklers read it; return what came of the first."""
        first = None
        for number, reading in enumerate(found.readings):
            self.charge(reading.reached + _A_NODE * reading.built, place)
            if number or self.is_new(data[: found.reached], place):
                judged = judge(
                    reading, data, place, self.budget, self.allow, encoding=encoding, is_program=self.is_program
                )
                self.judged(judged, place, depth)
                first = first or judged
        return first

    def pickle_stream(
        self,
        data: memoryview | Unread,
        place: Place,
        depth: int,
        *,
        is_due: bool = False,
        is_whole: bool = True,
        is_nested: bool = False,
    ) -> bool:
        """Judge bytes that may be pickles, one after another; say whether they are.

        :param is_due: the loader takes them for pickles, so a fault is one
        :param is_whole: nothing else may follow
        :param is_nested: they are in a pickle: numbers of any kind, as a rule
        """
        count, last = 0, 0
        waiting = [0]
        tried: set[int] = set()
        while waiting:
            start = waiting.pop()
            if start in tried or start >= len(data):
                continue
            is_first = not tried
            tried.add(start)
            if not self.charge(_AN_ATTEMPT, place):
                return True
            raw, found = self.attempted(data[start:])
            ends = [start + end for end in reversed(found.all_ends)]
            if self._is_pickle(found, raw, len(data) - start, is_nested=is_nested) or (is_due and is_first):
                count += 1
                self._judge_readings(found, raw, place, depth, encoding="utf-8")
                last = max(last, *ends, 0) if ends else len(data)
            else:
                self.charge(found.reached + _A_NODE * found.built, place)
                if is_nested:
                    continue
            waiting.extend(ends)  # also past one of plain data: torch's files are several pickles in a row
        if count and last < len(data) and is_whole:
            message = f"{len(data) - last} bytes follow the pickle"
            self.add(place.finding("trailing-bytes", message, offset=last))
        return count > 0

    def _is_pickle(self, found: Attempt, raw: bytes, size: int, *, is_nested: bool) -> bool:
        """Say whether bytes are a pickle, whole or broken.

        :param raw: what was read of them
        :param size: how many there are
        """
        is_likely = not is_nested or is_marked(raw)  # numbers seldom begin as a pickle does
        is_framed = not is_nested and found.error is not None and _FRAME in raw[: found.reached]
        is_beyond = is_likely and _is_beyond(found.error, is_cut=len(raw) < size)
        return is_framed or is_beyond or _is_pickle(found, size, is_marked=is_marked(raw), is_nested=is_nested)

    def attempted(self, rest: memoryview | Unread) -> tuple[bytes, Attempt]:
        """Decode the pickle that bytes may begin with; return what of them was read, and how far it went.

        Arrays and other pickles follow as a rule, so no more is copied than is needed.
        """
        allowed = self.budget.limits.pickle_bytes
        window = _SHORT
        while True:
            raw = bytes(rest[: min(window, allowed)])
            found = attempt(raw, self.budget, encoding="utf-8")
            is_cut = isinstance(found.error, PickleError) and found.error.is_cut_short
            is_told = found.error is None or not (is_cut or _FRAME in raw[: found.reached])
            if is_told or len(raw) == min(len(rest), allowed):
                return raw, found
            window = window * 8 if isinstance(rest, Unread) else allowed

    def large_pickle(self, source: Source, place: Place, depth: int) -> bool:
        """Judge one pickle that is longer than one may be held, a replay buffer; say whether that is what it is.

        Its arrays are left where they are, and looked into by themselves.
        """
        if source.size <= self.budget.limits.pickle_bytes and not isinstance(source, InflatedSource):
            return False
        from sbformat.pkl.out_of_core import decode_large

        try:
            pickle = decode_large(source, self.budget, encoding="utf-8")
        except SbformatError:
            return False
        found = Attempt(pickle, pickle.log, None, pickle.size)
        self.judged(judge(found, b"", place, self.budget, self.allow, encoding="utf-8"), place, depth)
        return True

    def judged(self, judged: Judged, place: Place, depth: int) -> None:
        """Keep what came of a pickle, and look into the bytes that it holds."""
        self.pickles += 1
        self.imports |= judged.imports
        self.omitted += judged.omitted
        self.is_harmful = self.is_harmful or judged.is_harmful
        for finding in judged.findings:
            self.add(finding)
        seen: set[int] = set()
        for composite in judged.parts:
            for part in children(composite):
                if isinstance(part, (bytes, bytearray, Unread)) and id(part) not in seen and len(part) > 1:
                    seen.add(id(part))
                    self._nested_or_later(part, place, depth)
            spelled = _spelled_bytes(composite)
            if spelled:
                self._nested_or_later(spelled, place, depth)

    def _nested_or_later(self, part: bytes | bytearray | Unread, place: Place, depth: int) -> None:
        if self._waiting is None:
            self.nested(part, place, depth)
        else:
            self._waiting.append((part, place, depth))

    @contextmanager
    def later(self) -> Iterator[None]:
        """Look into bytes within pickles after the pickles of a whole entry: many of them use up the budget."""
        if self._waiting is not None:
            yield
            return
        waiting: list[tuple[bytes | bytearray | Unread, Place, int]] = []
        self._waiting = waiting
        try:
            yield
        finally:
            self._waiting = None
        for part, place, depth in waiting:
            self.nested(part, place, depth)

    def nested(self, part: bytes | bytearray | Unread, place: Place, depth: int) -> None:
        """Look into bytes within a pickle that may be a file or pickle themselves; a file is held for that."""
        try:
            head = bytes(part[:32])
            view = part if isinstance(part, Unread) else memoryview(part)
            if head.startswith(LOCAL_SIGNATURE) or (head[0] == _PROTO and LEGACY_MAGIC_BYTES in head):
                self.content(view.view() if isinstance(view, Unread) else view, place, depth + 1)
            elif depth < DEEPEST:
                self.pickle_stream(view, place, depth + 1, is_whole=False, is_nested=True)
            elif is_marked(head):
                self.add(place.finding("broken", "pickles lie within pickles deeper than any that is written"))
        except SbformatError as error:  # what was left in the file is not there any more, or is too much to hold
            self.add(place.broken(error))


def _spelled_bytes(node: object) -> bytes | None:
    """Return the bytes that a call stands for, as protocol 2 spells them."""
    if not isinstance(node, Call):
        return None
    try:
        return encoded_bytes(node)
    except TensorError:
        return None


def is_marked(raw: bytes | bytearray | memoryview) -> bool:
    """Say whether bytes begin as a pickle of protocol 2 or newer does."""
    return len(raw) > 1 and raw[0] == _PROTO and raw[1] <= _NEWEST_PROTOCOL


def _is_pickle(found: Attempt, size: int, *, is_marked: bool, is_nested: bool) -> bool:
    """Say whether bytes are a pickle: text and numbers begin like one by chance, but do not go on like one.

    Of the protocols 0 and 1, which have no mark, a pickle of plain data is one when it is all there is.
    """
    if found.pickle is not None:
        return is_marked or bool(found.log) or (not is_nested and found.pickle.size == size)
    if is_marked:
        return bool(found.log)
    return any(_tells(node) for node in found.log)


def _tells(node: Node | Update) -> bool:
    """Say whether text or numbers seldom give a row of a log by chance: a call, a name that is harmful or changed."""
    if isinstance(node, Update):
        return isinstance(node.target, Global)
    return isinstance(node, Call) or (isinstance(node, Global) and reason(node.pair) is not None)


def _is_beyond(error: SbformatError | None, *, is_cut: bool) -> bool:
    """Say whether a pickle asks for more than is allowed: nobody has seen its end then."""
    return isinstance(error, LimitError) or (is_cut and isinstance(error, PickleError) and error.is_cut_short)
