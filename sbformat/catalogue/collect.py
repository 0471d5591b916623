"""Read, inspect and scan a file: everything that can be found out, and why the rest could not be.

:func:`collect_episodes` returns the episodes of what was read, of an agent's training or of a replay buffer.
"""

from __future__ import annotations

import math
import os
import time
from collections import deque
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sbformat.archive.archive import Archive
from sbformat.archive.entries import ReadOptions
from sbformat.errors import COULD_NOT_OPEN, LimitError, SbformatError, escape
from sbformat.folders.logs import read_training
from sbformat.folders.names import AGENTS
from sbformat.folders.trees import BesideFinder
from sbformat.formats.opener import open_archive, open_once
from sbformat.immutable import Record
from sbformat.io.opening import is_folder, is_remote, open_url
from sbformat.io.urls import hide_secrets, is_url
from sbformat.known.numpy import to_number
from sbformat.known.rows import UnrecognizedError
from sbformat.limits import DEFAULT_LIMITS, Budget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sbformat.archive.hyperparameters import Hyperparameter
    from sbformat.folders.logs import Training
    from sbformat.folders.trees import Beside
    from sbformat.formats.replay_buffer import Episode, ReplayBuffer
    from sbformat.limits import Limits
    from sbformat.reader import ArchiveLike
    from sbformat.tools.inspect import InspectReport
    from sbformat.tools.scan import ScanReport


T = TypeVar("T")


class Failure(Record):
    """Why something could not be read."""

    outcome: str
    """A word, as in the reports of the command line: ``container failure``, ``limit exceeded``, ``cannot open``, ..."""
    message: str
    error: SbformatError | OSError | None = None
    """If there is nothing to show of the source, the error: it cannot be opened, or is empty."""


class FileData(Record):
    """The facts about one file."""

    name: str
    """Its path as the caller gave it; ``<archive>``, ``<bytes>`` or ``<file>`` without one."""
    archive: Archive | None
    failure: Failure | None
    inspected: InspectReport | None
    """None if the file could not be read."""
    scanned: ScanReport | None
    """The verdict, which a damaged file has, too; None if the file could not be opened."""
    size: int | None = None
    version: str | None = None
    """The size in bytes of a remote file, and its ETag, commit or time when it was opened."""
    training: Training | None = None
    """Of an agent, what the logs and settings beside it say."""
    beside: Beside | None = None
    """Of an agent, the files that belong to it."""

    @property
    def is_broken(self) -> bool:
        """Whether the file, or one of its entries, could not be read."""
        return self.failure is not None or bool(self.inspected and self.inspected.broken)

    @property
    def reason(self) -> str:
        """Why it is broken, as a sentence; empty if it is not."""
        if self.failure is not None:
            return f"{self.failure.outcome}: {self.failure.message}"
        for row in self.inspected.broken if self.inspected else ():
            return f"{row.entry}: {row.outcome}: {row.message}"
        return ""


def name_source(source: ArchiveLike) -> str:
    """Return what a page or table calls a source."""
    if isinstance(source, (str, os.PathLike)):
        return hide_secrets(source) if is_url(source) else os.fsdecode(source)
    if isinstance(source, (bytes, bytearray, memoryview)):
        return "<bytes>"
    if isinstance(source, Archive):
        return "<archive>"
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else "<file>"


def collect_file(
    source: ArchiveLike, *, name: str | None = None, limits: Limits = DEFAULT_LIMITS, allow: Iterable[str] = ()
) -> FileData:
    """Read, inspect and scan a file; one that cannot be read is described as far as possible.

    A file is opened once, so that the verdict is that of the bytes that are shown. Of a large one that changes
    meanwhile, what is read later cannot be read. The files of a folder are read twice.
    """
    from sbformat.tools.inspect import inspect
    from sbformat.tools.scan import scan, scan_opened

    shown = name_source(source) if name is None else name
    opened = remote = None
    if not isinstance(source, Archive):
        is_whole, failure = try_to(lambda: not is_folder(source))
        if is_whole and is_remote(source):
            remote, failure = try_to(lambda: open_url(source, limits, is_whole=True))
        if is_whole and failure is None:
            opened, failure = try_to(lambda: open_once(source, Budget(limits), remote=remote))
        if failure is not None:
            return FileData(name=shown, archive=None, failure=failure, inspected=None, scanned=None)
    read = partial(open_archive, source, Budget(limits), ReadOptions("inert"), in_memory=False, opened=opened)
    archive, failure = try_to(read)
    inspected = None
    if archive is not None:
        inspected, failure = try_to(lambda: inspect(archive, limits=limits))
    judge = partial(scan, source) if opened is None else partial(scan_opened, opened)
    scanned, _ = try_to(partial(judge, limits=limits, allow=allow))
    if failure is not None and (archive is not None or (scanned is not None and scanned.size)):
        failure = failure._replace(error=None)  # there is something to show
    return FileData(
        name=shown,
        archive=archive,
        failure=failure,
        inspected=inspected,
        scanned=scanned,
        size=None if remote is None else remote.size,
        version=None if remote is None or remote.version is None else escape(remote.version),
    )


def add_training(file: FileData, beside: Beside | None, limits: Limits) -> FileData:
    """Return a file with what belongs to it, and what logs and settings of that say; not of what is not an agent."""
    is_agent = file.inspected is not None and file.inspected.format in AGENTS
    if not is_agent or beside is None:
        return file
    file = file._replace(beside=beside)
    if not (beside.logs or beside.settings):
        return file
    digest = beside.digest()
    read = _read_training if digest else _read_training.__wrapped__  # it is not known whether remote logs changed
    return file._replace(training=read(beside.top, beside.logs, beside.settings, limits, digest))


@lru_cache(maxsize=1)  # agents of one run are read one after another
def _read_training(
    top: str, logs: tuple[str, ...], settings: tuple[str, ...], limits: Limits, _digest: str
) -> Training:
    return read_training(top, logs, settings, limits)


_FINDER_SECONDS: Final = 60.0
_finder: tuple[float, Limits, BesideFinder] | None = None


def find_beside(path: str, limits: Limits) -> Beside | None:
    """Return the files that belong to an agent; what is known of its folder is kept for a minute."""
    global _finder  # noqa: PLW0603 -- agents of one folder are read one after another, and a listing costs requests
    now = time.monotonic()
    if _finder is None or now - _finder[0] > _FINDER_SECONDS or _finder[1] != limits:
        _finder = now, limits, BesideFinder(limits)
    return _finder[2].find(path)


def try_to(get: Callable[[], T]) -> tuple[T, None] | tuple[None, Failure]:
    """Return a value, or why there is none."""
    try:
        return get(), None
    except SbformatError as error:
        is_limit = isinstance(error, LimitError)
        return None, Failure(error.outcome, str(error), None if is_limit else error.again())
    except MemoryError:
        return None, Failure(LimitError.outcome, "out of memory: this machine has less than the file needs")
    except OSError as error:
        text = error.strerror or str(error)
        return None, Failure(COULD_NOT_OPEN, text, OSError(error.errno or 0, text))  # without what a traceback keeps


MOST_EPISODES: Final = 1000
"""Episodes that are read: of more, the last ones."""


class Episodes(Record):
    """Episodes in their order."""

    source: str
    """Where they are stored: ``ep_info_buffer`` or ``replay buffer``."""
    rewards: tuple[float, ...]
    lengths: tuple[int, ...]
    success_rate: float | None
    """The share of successes among the episodes with a result; None without any."""
    omitted: int
    """Number of episodes before these."""
    remarks: tuple[str, ...] = ()


def collect_episodes(file: FileData) -> Episodes | None:
    """Return the episodes of a file; None if it has none that can be read."""
    if file.inspected is None:
        return None
    if file.inspected.format == "replay-buffer":
        return None if file.archive is None else _read_buffer(file.archive)
    settings = file.inspected.hyperparameters or {}
    rows, successes = (_list_items(settings.get(key)) for key in ("ep_info_buffer", "ep_success_buffer"))
    shown = rows[-MOST_EPISODES:]
    pairs = [(_read_number(row.get("r")), _read_number(row.get("l"))) for row in shown if isinstance(row, dict)]
    complete = [(one, two) for one, two in pairs if one is not None and two is not None and abs(two) < 2**53]
    if not complete:
        return None
    rewards, lengths = zip(*complete)
    unreadable = len(shown) - len(complete)
    results = [number for number in map(_read_number, successes) if number is not None]
    return Episodes(
        "ep_info_buffer",
        rewards,
        tuple(map(int, lengths)),
        sum(results) / len(results) if results else None,
        len(rows) - len(shown),
        (f"{unreadable} episodes have no reward or length that is a finite number",) if unreadable else (),
    )


def _list_items(found: Hyperparameter | None) -> list[Any]:
    """Return the items of a deque or list; none of anything else."""
    return list(found.value) if found is not None and isinstance(found.value, (deque, list, tuple)) else []


def _read_number(value: object) -> float | None:
    """Return a finite number; None for anything else."""
    try:
        number = float(to_number(value, "a number"))
    except (UnrecognizedError, OverflowError):
        return None
    return number if abs(number) < 1e300 else None  # NaN is not less


def _read_buffer(archive: Archive) -> Episodes | None:
    """Return the episodes of a replay buffer with the sum of their rewards."""
    import numpy as np

    from sbformat.formats.replay_buffer import read_replay_buffer

    try:
        buffer = read_replay_buffer(archive)
        table = buffer.episode_table()
        rewards = np.asarray(buffer.arrays["rewards"]) if "rewards" in buffer.arrays else None
        order = buffer.episodes()[-MOST_EPISODES:] if len(table["env"]) <= buffer.limits.reported_values else []
        sums = [_sum_rewards(buffer, episode, rewards) for episode in order]
    except (SbformatError, KeyError):
        return None
    finite = [(total, episode.length) for total, episode in zip(sums, order) if abs(total) < 1e300]
    if not finite:
        return None
    totals, lengths = zip(*finite)
    return Episodes(
        "replay buffer", totals, lengths, None, len(table["env"]) - len(order),
        ("The first and the last episode of an environment may be incomplete.",),
    )  # fmt: skip


def _sum_rewards(buffer: ReplayBuffer, episode: Episode, rewards: Any) -> float:
    """Return the sum of an episode's rewards.

    :param rewards: the array, read once; None if the buffer has another one for each episode
    """
    import numpy as np

    if rewards is None or rewards.shape[:2] != (buffer.buffer_size, buffer.n_envs):
        steps = buffer.steps(episode)["rewards"]
    else:
        steps = rewards[buffer.positions(episode), episode.env]
    if steps.dtype.kind not in "biuf":
        return math.nan
    with np.errstate(all="ignore"):  # the caller leaves out a sum that is not finite
        return float(steps.astype(np.float64).sum())
