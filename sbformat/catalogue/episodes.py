"""Rewards and lengths of episodes: the last ones of an agent's training, or those in a replay buffer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import SbformatError
from sbformat.immutable import Record
from sbformat.known.numpy import to_number
from sbformat.known.rows import UnrecognizedError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sbformat.archive.archive import Archive
    from sbformat.catalogue.collect import FileData
    from sbformat.formats.replay_buffer import Episode, ReplayBuffer

MOST_EPISODES: Final = 1000
"""Episodes that are read: of more, the last ones."""


class Episodes(Record):
    """Episodes in their order."""

    source: str
    """Where they are stored: ``ep_info_buffer`` or ``replay buffer``."""
    rewards: tuple[float, ...]
    """The sum of each episode's rewards."""
    lengths: tuple[int, ...]
    success_rate: float | None
    """Of the episodes with a result; None without any."""
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
    found = settings.get("ep_info_buffer")
    rows = _list_items(found.value if found is not None else None)
    shown = rows[-MOST_EPISODES:]
    pairs = [(_find_number(row, "r"), _find_number(row, "l")) for row in shown]
    complete = [
        (reward, length)
        for reward, length in pairs
        if reward is not None and length is not None and abs(length) < 2**53
    ]
    if not complete:
        return None
    successes = settings.get("ep_success_buffer")
    rewards, lengths = zip(*complete)
    unreadable = len(shown) - len(complete)
    return Episodes(
        "ep_info_buffer",
        rewards,
        tuple(map(int, lengths)),
        _find_success_rate(_list_items(successes.value if successes is not None else None)),
        len(rows) - len(shown),
        (f"{unreadable} episodes have no reward or length that is a finite number",) if unreadable else (),
    )


def _list_items(value: object) -> list[Any]:
    """Return the items of a deque or list; none of anything else."""
    from collections import deque

    return list(value) if isinstance(value, (deque, list, tuple)) else []


def _find_number(row: object, key: str) -> float | None:
    return _read_number(row.get(key)) if isinstance(row, dict) else None


def _read_number(value: object) -> float | None:
    """Return a finite number; None for anything else."""
    try:
        number = float(to_number(value, "a number"))
    except (UnrecognizedError, OverflowError):
        return None
    return number if abs(number) < 1e300 else None  # NaN is not less


def _find_success_rate(values: Iterable[object]) -> float | None:
    found = [number for number in map(_read_number, values) if number is not None]
    return sum(found) / len(found) if found else None


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
    if not sums:
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
