"""Logs of training beside an agent: what it was trained in, and how its reward rose (FOLDERS.md 21).

In: ``evaluations.npz`` of EvalCallback, ``monitor.csv`` of Monitor, ``progress.csv`` of SB3's logger, TensorBoard's
event files, and ``train_eval_metrics.zip``, in which rl_zoo3 uploads some of these. Out: a :class:`Curve` of
evaluations and one of training, with the environment and the seed. No file is unpickled: an array of objects in a
``.npz`` is refused. Lines that a run which was killed left incomplete are passed over, and so are numbers that are not
finite.
"""

from __future__ import annotations

import csv
import json
import math
import struct
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import DataError, SbformatError
from sbformat.immutable import Record
from sbformat.io.opening import join_path, read_start
from sbformat.io.source import BytesSource
from sbformat.limits import Budget

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from sbformat.folders.trees import Beside
    from sbformat.limits import Limits

METRICS_FILE: Final = "train_eval_metrics.zip"
"""The zip of logs that rl_zoo3 uploads to the Hugging Face hub."""
_EVENTS: Final = "events.out.tfevents."
_STEPS: Final = ("time/total_timesteps", "total_timesteps", "total timesteps", "steps")
"""Columns with the number of steps, in SB3 and SB2."""
_EVALUATION: Final = ("eval/mean_reward",)
_TRAINING: Final = ("rollout/ep_rew_mean", "ep_reward_mean", "ep_rew_mean", "mean 100 episode reward", "episode_reward")
_LONGEST: Final = 100_000  # characters of a line; csv refuses fields of more
_WINDOW: Final = 100  # episodes of a mean
_LARGEST: Final = 1e300  # rewards are less, so that their sums are finite
_MOST_STEPS: Final = 1 << 63
_HEAD: Final = struct.Struct("<QI")
_DOUBLE, _BYTES, _FLOAT = 1, 2, 5
"""Wire types of protocol buffers."""


class Curve(Record):
    """Mean rewards in the order of time."""

    steps: tuple[int, ...]
    """The steps of training, or for episodes those of all environments, at each point."""
    rewards: tuple[float, ...]

    @property
    def best(self) -> int:
        """The place of the highest reward, the first of several."""
        return max(range(len(self.rewards)), key=lambda place: (self.rewards[place], -place))

    def until(self, step: int) -> Curve:
        """Return the points until a step, which may be none."""
        points = [point for point in zip(self.steps, self.rewards) if point[0] <= step]
        return Curve(tuple(point[0] for point in points), tuple(point[1] for point in points))

    def thin(self, most: int) -> Curve:
        """Return means of neighbours, so that there are no more than ``most`` points."""
        size = -(-len(self.steps) // most) or 1
        starts = range(0, len(self.steps), size)
        means = (math.fsum(part) / len(part) for part in (self.rewards[start : start + size] for start in starts))
        return Curve(tuple(self.steps[min(start + size, len(self.steps)) - 1] for start in starts), tuple(means))


class Log(Record):
    """The contents of one file."""

    env: str | None = None
    evaluations: Curve | None = None
    training: Curve | None = None
    episodes: tuple[tuple[float, float, int], ...] = ()
    """Of Monitor: when each episode ended in seconds, its reward, and its length; joined by :func:`read_training`."""


class Training(Record):
    """What the logs of an agent say together."""

    env: str | None
    """Of Monitor, or else of the settings."""
    seed: int | None
    """Of the settings."""
    evaluations: Curve | None
    """Mean rewards of evaluations: of ``evaluations.npz`` if there is one."""
    training: Curve | None
    """Means of 100 episodes: of those of Monitor, or else as the logger wrote them."""
    files: tuple[str, ...]
    problems: Mapping[str, str]
    """Why a file could not be read, by its name."""
    env_file: str = ""
    seed_file: str = ""
    """The log or settings that the environment and the seed are of."""

    def to_json(self) -> dict[str, Any]:
        """Return the environment and the seed, and of each curve its number of points, the best and the last."""
        problems = [{"path": name, "message": message} for name, message in self.problems.items()]
        curves = {name: _describe_curve(getattr(self, name)) for name in ("evaluations", "training")}
        return {"env": self.env, "seed": self.seed, **curves, "files": list(self.files), "problems": problems}


def _describe_curve(curve: Curve | None) -> dict[str, Any] | None:
    if curve is None:
        return None
    points = {"best": curve.best, "last": len(curve.rewards) - 1}
    made = {name: {"steps": curve.steps[at], "reward": curve.rewards[at]} for name, at in points.items()}
    return {"points": len(curve.steps), **made}


def is_log(name: str) -> bool:
    """Return whether a file is called like a log of training."""
    last = name.rpartition("/")[2].lower()
    known = ("evaluations.npz", "progress.csv", METRICS_FILE)
    return last in known or last.endswith("monitor.csv") or last.startswith(_EVENTS)


def read_training(top: str, names: Sequence[str], settings: Sequence[str], limits: Limits) -> Training:
    """Read the logs and settings of one agent; those of a zip only if they are not beside it, too.

    :param names: paths of logs below ``top``
    :param settings: and of settings
    """
    logs: dict[str, Log] = {}
    problems: dict[str, str] = {}
    for name in names:
        try:
            if not _is_metrics(name):
                logs[name] = read_log(join_path(top, name), limits)
        except (SbformatError, OSError) as error:
            problems[name] = str(error)
    known = {_last(name) for name in names}
    for name in filter(_is_metrics, names):
        try:
            _read_metrics(top, name, known, logs, problems, limits)
        except (SbformatError, OSError) as error:
            problems[name] = str(error)
    values = _read_settings(top, settings, problems, limits)
    ordered = sorted(logs.items(), key=lambda item: not item[0].endswith((".npz", ".csv")))  # exact values come first
    found = [log for _, log in ordered]
    envs = [(log.env, name) for name, log in ordered if log.env]
    envs += [(one["env"], name) for name, one in values.items() if isinstance(one.get("env"), str)]
    env, env_file = envs[0] if envs else (None, "")
    seeds = ((one["seed"], name) for name, one in values.items() if type(one.get("seed")) is int)
    seed, seed_file = next(seeds, (None, ""))
    evaluations = next((log.evaluations for log in found if log.evaluations), None)
    ends = sorted(episode for log in found for episode in log.episodes)
    training = _average(ends) if ends else next((log.training for log in found if log.training), None)
    return Training(env, seed, evaluations, training, tuple(logs), problems, env_file, seed_file)


def find_environments(beside: Beside, problems: dict[str, str], limits: Limits) -> dict[str, str]:
    """Return the environments that the settings of an agent name, or else its logs, with the file that does.

    :param problems: why a file could not be read is added to it
    """
    for logs, settings in (((), beside.settings), (beside.logs, ())):
        found: dict[str, str] = {}
        for name in (*logs, *settings):
            read = read_training(beside.top, [name] if logs else (), [name] if settings else (), limits)
            problems |= read.problems
            if read.env is not None:
                found.setdefault(read.env, name)
        if found:
            return found
    return {}


def _last(name: str) -> str:
    return name.replace("\\", "/").rpartition("/")[2].lower()


def _is_metrics(name: str) -> bool:
    return _last(name) == METRICS_FILE


def _read_metrics(
    top: str, name: str, known: Collection[str], logs: dict[str, Log], problems: dict[str, str], limits: Limits
) -> None:
    """Add the logs in a zip, under its name and theirs, and why one of them could not be read.

    Together they may have as many bytes as one file.
    """
    from sbformat.container.reader import Container

    budget = Budget(limits)
    container = Container(_read_whole(join_path(top, name), budget), budget=budget, names="record")
    total = 0
    for member in container:
        if not is_log(member) or _is_metrics(member) or _last(member) in known:
            continue
        try:
            size = container.entry(member).size
            budget.spend("json_bytes", total + size)
            total += size
            logs[f"{name}/{member}"] = _parse_log(_last(member), container.read(member), budget)
        except SbformatError as error:
            problems[f"{name}/{member}"] = str(error)


def _read_settings(
    top: str, names: Sequence[str], problems: dict[str, str], limits: Limits
) -> dict[str, dict[str, Any]]:
    """Return the values of each file of settings."""
    from sbformat.folders.settings import read_settings

    found = {}
    for name in names:
        try:
            found[name] = read_settings(join_path(top, name), limits)
        except (SbformatError, OSError) as error:
            problems[name] = str(error)
    return found


def _average(episodes: Sequence[tuple[float, float, int]]) -> Curve:
    """Return the mean of the last 100 episodes at the end of each, as SB3's ``rollout/ep_rew_mean``."""
    steps = accumulate(length for _, _, length in episodes)
    sums = [0.0, *accumulate(reward for _, reward, _ in episodes)]
    firsts = (max(0, place - _WINDOW) for place in range(1, len(sums)))
    return Curve(
        tuple(steps), tuple((sums[at + 1] - sums[first]) / (at + 1 - first) for at, first in enumerate(firsts))
    )


def read_log(path: str, limits: Limits) -> Log:
    """Read one log, whose name says what it is.

    :param path: a file that :func:`is_log` knows
    """
    budget = Budget(limits)
    data = _read_whole(path, budget)
    return _parse_log(_last(path), memoryview(data), budget)


def _read_whole(path: str, budget: Budget) -> bytes:
    data = read_start(path, budget.limits.json_bytes + 1)
    budget.spend("total_bytes", len(data))
    budget.spend("json_bytes", len(data))
    budget.grant(len(data))
    return data


def _parse_log(last: str, data: memoryview, budget: Budget) -> Log:
    """Return the contents of a log.

    :param last: its name in lower case
    """
    if last.endswith(".npz"):
        return _read_evaluations(data, budget)
    if last.startswith(_EVENTS):
        return _make_log(_read_events(data))
    lines = bytes(data).decode("utf-8", "replace").replace("\0", "").splitlines()
    if any(len(line) > _LONGEST for line in lines):
        raise DataError(f"expected lines of at most {_LONGEST:,} characters in a CSV file")
    try:
        return _read_monitor(lines) if last.endswith("monitor.csv") else _make_log(_read_progress(lines))
    except csv.Error as error:
        message = f"expected a CSV file: {error}"
        raise DataError(message) from None


def _read_evaluations(data: memoryview, budget: Budget) -> Log:
    """Read ``timesteps`` of shape ``(n,)`` and ``results`` of shape ``(n, episodes)``."""
    from sbformat.arrayfiles.reader import read_npz

    arrays = read_npz(BytesSource(data), budget)
    steps, results = arrays.get("timesteps"), arrays.get("results")
    if steps is None or results is None or results.ndim != 2 or steps.shape != results.shape[:1] or not results.size:
        message = "expected the arrays timesteps of shape (n,) and results of shape (n, episodes)"
        raise DataError(message)
    if steps.dtype.kind not in "iu" or results.dtype.kind not in "iuf":
        message = f"expected integers and numbers, got timesteps of {steps.dtype} and results of {results.dtype}"
        raise DataError(message)
    means = (sum(map(float, row.tolist())) / len(row) for row in results)  # numpy's mean warns where it overflows
    return Log(evaluations=_make_curve(zip(steps.tolist(), means)))


def _make_curve(points: Iterable[tuple[int, float]]) -> Curve | None:
    """Return the points that have a finite reward; None without any."""
    kept = [(step, reward) for step, reward in points if abs(step) < _MOST_STEPS and abs(reward) < _LARGEST]
    return Curve(tuple(step for step, _ in kept), tuple(reward for _, reward in kept)) if kept else None


def _read_monitor(lines: list[str]) -> Log:
    header: dict[str, Any] = {}
    if lines and lines[0].startswith("#"):
        try:
            found = json.loads(lines[0][1:])
            header = found if isinstance(found, dict) else {}
        except (ValueError, RecursionError):
            header = {}
    begin = _to_number(header.get("t_start")) or 0.0
    episodes = []
    for row in csv.DictReader(line for line in lines if not line.startswith("#")):
        reward, length, time = (_to_number(row.get(name)) for name in ("r", "l", "t"))
        if reward is not None and length is not None and length >= 0:
            episodes.append((begin + (time or 0.0), reward, int(length)))
    env = header.get("env_id")
    return Log(env=env if isinstance(env, str) and env != "None" else None, episodes=tuple(episodes))


def _to_number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if abs(number) < _LARGEST else None  # NaN is not less


def _read_progress(lines: list[str]) -> Iterator[tuple[str, int, float]]:
    """Yield the name, the step and the value of each number that a row has for a curve."""
    for row in csv.DictReader(lines):
        step = next((number for number in (_to_number(row.get(name)) for name in _STEPS) if number is not None), None)
        for name in (*_EVALUATION, *_TRAINING):
            value = _to_number(row.get(name))
            if step is not None and value is not None:
                yield name, int(step), value


def _make_log(points: Iterable[tuple[str, int, float]]) -> Log:
    curves: dict[str, list[tuple[int, float]]] = {}
    for name, step, value in points:
        curves.setdefault(name, []).append((step, value))
    made = {name: curve for name, found in curves.items() if (curve := _make_curve(found)) is not None}
    evaluations, training = (
        next((made[name] for name in names if name in made), None) for names in (_EVALUATION, _TRAINING)
    )
    return Log(evaluations=evaluations, training=training)


# -- event files of TensorBoard -----------------------------------------------------------------------


def _read_events(data: memoryview) -> Iterator[tuple[str, int, float]]:
    """Yield the scalars of an event file: records of a length, its checksum, an ``Event`` and its checksum.

    The last record may be incomplete. Sources: TensorFlow ``lib/io/record_writer.h``, ``util/event.proto``.
    """
    at = 0
    while at + _HEAD.size <= len(data):
        length = _HEAD.unpack_from(data, at)[0]
        at += _HEAD.size
        if length > len(data) - at - 4:
            if at == _HEAD.size:
                message = "expected an event file of TensorBoard"
                raise DataError(message)
            return
        step, summaries = 0, []
        for number, value in _iter_fields(data[at : at + length]):
            if number == 2 and isinstance(value, int):
                step = value
            elif number == 5 and isinstance(value, memoryview):
                summaries.append(value)
        for summary in summaries:
            for number, value in _iter_fields(summary):
                if number == 1 and isinstance(value, memoryview):
                    yield from _read_scalar(value, step)
        at += length + 4


def _read_scalar(value: memoryview, step: int) -> Iterator[tuple[str, int, float]]:
    fields = dict(_iter_fields(value))
    tag, number = fields.get(1), fields.get(2)
    name = bytes(tag).decode("utf-8", "replace") if isinstance(tag, memoryview) else ""
    if name in _EVALUATION + _TRAINING and isinstance(number, float):
        yield name, step, number


def _iter_fields(data: memoryview) -> Iterator[tuple[int, int | float | memoryview]]:
    """Yield the fields of a message of protocol buffers: numbers and bytes by the number of the field."""
    at, end = 0, len(data)
    while at < end:
        key, at = _read_varint(data, at)
        kind = key & 7
        size = 0
        if kind == 0:
            value, at = _read_varint(data, at)
            yield key >> 3, value
            continue
        if kind == _BYTES:
            size, at = _read_varint(data, at)
        elif kind in (_DOUBLE, _FLOAT):
            size = 8 if kind == _DOUBLE else 4
        else:
            message = f"the event file has a field of the unknown wire type {kind}"
            raise DataError(message)
        if size > end - at:
            message = "the event file has a field that is longer than its message"
            raise DataError(message)
        part = data[at : at + size]
        yield key >> 3, part if kind == _BYTES else struct.unpack("<d" if kind == _DOUBLE else "<f", part)[0]
        at += size


def _read_varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    message = "the event file has a number that does not end"
    raise DataError(message)
