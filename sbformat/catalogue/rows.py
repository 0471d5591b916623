"""The row of a file: what it is, its hyper-parameters, and why it is not clean; and the columns of many rows.

In comes what :mod:`sbformat.catalogue.collect` read. :func:`make_cells` decides once how each value is rendered, sorted
and stored. Of these cells, :func:`collect_row` makes what the table of ``report`` and ``inspect`` shows, so that a
thousand files are not in memory together, and :func:`make_row` the row of a catalogue: a flat dict with names and types
for SQL and data frames. :func:`make_table` divides what many rows have into columns, which differ between files, and
values that all files share.
"""

from __future__ import annotations

import json
import math
import os
import posixpath
import re
import zlib
from collections import Counter
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sbformat.archive.kinds import KIND_TITLES, OBJECTS
from sbformat.catalogue.collect import Failure, FileData, collect_episodes
from sbformat.constants import OPTIMIZER_WORD
from sbformat.data import LargeValue, Serialized
from sbformat.errors import escape
from sbformat.folders.names import AGENTS
from sbformat.immutable import Record
from sbformat.io.opening import join_path
from sbformat.io.urls import find_scheme, is_url
from sbformat.known.sb3 import EXAMINED_KEYS
from sbformat.known.types import ConstantSchedule, InterpolatedSchedule, LinearSchedule
from sbformat.pkl.numpy import ArrayInfo
from sbformat.rendering import format_size, write_number
from sbformat.values.computed import ComputedSchedule
from sbformat.values.render import render_linear, render_plain
from sbformat.values.schedule_meaning import describe_samples, find_meaning

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sbformat.archive.hyperparameters import Hyperparameter
    from sbformat.folders.logs import Curve, Training
    from sbformat.folders.trees import Beside
    from sbformat.policies.describe import Summary
    from sbformat.schema import Problem
    from sbformat.tools.inspect import InspectReport
    from sbformat.tools.scan import ScanReport


GROUPS: Final = {
    "Optimization": (
        "learning_rate", "lr_schedule", "n_steps", "batch_size", "n_epochs", "gamma", "gae_lambda", "clip_range",
        "clip_range_vf", "normalize_advantage", "ent_coef", "target_entropy", "vf_coef", "max_grad_norm", "target_kl",
        "tau", "train_freq", "gradient_steps", "learning_starts", "policy_delay", "target_policy_noise",
        "target_noise_clip", "target_update_interval", "exploration_fraction", "exploration_initial_eps",
        "exploration_final_eps", "exploration_schedule", "top_quantiles_to_drop_per_net", "n_quantiles", "n_critics",
        "cg_max_steps", "cg_damping", "line_search_shrinking_factor", "line_search_max_iter", "n_critic_updates",
        "sub_sampling_factor", "n_delta", "delta_std", "n_top", "pop_size", "zero_policy", "alive_bonus_offset",
    ),
    "Policy": ("policy_class", "policy_kwargs", "use_sde", "sde_sample_freq", "use_sde_at_warmup", "action_noise"),
    "Replay and rollout": (
        "buffer_size", "replay_buffer_class", "replay_buffer_kwargs", "optimize_memory_usage", "rollout_buffer_class",
        "rollout_buffer_kwargs", "n_sampled_goal", "goal_selection_strategy",
    ),
    "Run": (
        "num_timesteps", "_total_timesteps", "n_envs", "seed", "device", "verbose", "tensorboard_log", "start_time",
        "_stats_window_size", "_n_updates", "_episode_num",
    ),
}  # fmt: skip
"""The keys of ``data`` by what they are about, in the order in which they are shown."""


_CELL: Final = 80
MOST_KEYS: Final = 300
"""Keys of one file that can become columns."""
_MOST_FINDINGS: Final = 5  # findings of one file that are listed
SENTENCE: Final = 400
"""Characters of a message."""
_LARGEST: Final = 1 << 63  # integers of a catalogue are less: formats of tables have 64 bits
_NUMBER: Final = re.compile(r"(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?= \(|$)")
"""A number, or what :func:`~sbformat.values.render.render_line` writes for an array of one item."""

NAME: Final = "file"
FACTS: Final = {
    "verdict": "Verdict",
    "algorithm": "Algorithm",
    "policy": "Policy",
    "sb3_version": "SB3 version",
    "timesteps": "Timesteps",
    "mean_reward": "Training reward",
    "episodes": "Episodes",
    "env": "Environment",
    "best_evaluation": "Best evaluation",
    "best_evaluation_timesteps": "Timesteps of the best evaluation",
    "last_evaluation": "Last evaluation",
    "last_evaluation_timesteps": "Timesteps of the last evaluation",
    "parameters": "Parameters",
    "size": "Size",
    "statistics": "Statistics",
    "kind": "Kind",
    "observation_space": "Observation space",
    "action_space": "Action space",
}
"""The columns that are not hyper-parameters, with their titles."""
OF_TRAINING: Final = (
    "env", "statistics", "best_evaluation", "best_evaluation_timesteps", "last_evaluation", "last_evaluation_timesteps",
)  # fmt: skip
"""Those of them that are about files beside an agent: statistics, logs and settings."""
_IN_FACTS: Final = frozenset({"policy_class", "policy", "num_timesteps", "observation_space", "action_space"})
"""Keys of ``data`` that have a column of another name."""


Scalar: TypeAlias = "int | float | bool | str | None"


class Cell(Record):
    """A value of a row."""

    text: str
    number: float | None = None
    """What it is sorted by, if it is a number."""
    is_words: bool = False
    """Whether the text is more than the number: of a linear schedule, which is sorted by its start."""
    value: Scalar = None
    """What a catalogue stores: a number, a truth value or a text; None for no value."""


class Remark(Record):
    """A finding of a file, or why it or one of its entries could not be read."""

    label: str
    """The verdict or outcome."""
    place: str
    message: str


class RunCurve(Record):
    """How the reward of a run rose, by the logs beside its agents."""

    logs: tuple[str, ...]
    """The paths of the logs and settings: the same for all agents of a run."""
    kind: str
    """``evaluations`` or ``training``, as the fields of :class:`~sbformat.folders.logs.Training`."""
    curve: Curve
    """At most 100 points."""


class FileRow(Record):
    """The cells of a file in the table; they can be sent between processes."""

    name: str
    cells: Mapping[str, Cell]
    """By the key of the column; of a hyper-parameter its key in ``data``, with ``data.`` before it if that is also the
    key of another column."""
    remarks: tuple[Remark, ...]
    omitted: int
    failure: Failure | None
    is_broken: bool
    statistics: tuple[str, ...] = ()
    """The paths of the statistics of VecNormalize that belong to an agent."""
    run: RunCurve | None = None


def collect_row(file: FileData) -> FileRow:
    """Return the row of a file, without what else was read from it."""
    remarks: list[Remark] = []
    if file.failure is not None:
        remarks.append(Remark(file.failure.outcome, "", escape(file.failure.message, SENTENCE)))
    for row in file.inspected.broken if file.inspected is not None else ():
        remarks += [Remark(row.outcome, escape(row.entry, _CELL), escape(row.message, SENTENCE))]
    findings = file.scanned.findings if file.scanned is not None else ()
    for finding in sorted(findings, key=lambda finding: -_rank(finding.verdict)):
        place = ", ".join(filter(None, (finding.entry, finding.key)))
        remarks.append(Remark(finding.verdict, escape(place, _CELL), escape(finding.message, SENTENCE)))
    # once each message, at its first place
    listed = list({row.message: row for row in reversed(remarks)}.values())[::-1]
    omitted = max(len(listed) - _MOST_FINDINGS, 0)
    return FileRow(
        name=file.name,
        cells={key: cell for key, cell in make_cells(file).items() if cell.text},
        remarks=tuple(listed[:_MOST_FINDINGS]),
        omitted=omitted + (file.scanned.omitted if file.scanned is not None else 0),
        failure=file.failure,
        is_broken=file.is_broken,
        statistics=_join_paths(file.beside, file.beside.statistics) if file.beside is not None else (),
        run=_find_curve(file),
    )


def _join_paths(beside: Beside, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(join_path(beside.top, name) for name in names)


_MOST_POINTS: Final = 100  # of a curve of a row


def _find_curve(file: FileData) -> RunCurve | None:
    """Return the curve of evaluations, or else that of training."""
    for kind in ("evaluations", "training"):
        curve = getattr(file.training, kind, None)
        if curve is not None and file.beside is not None:
            logs = _join_paths(file.beside, (*file.beside.logs, *file.beside.settings))
            return RunCurve(logs, kind, curve.thin(_MOST_POINTS))
    return None


def make_lost_row(report: dict[str, Any]) -> FileRow:
    """Return the row of a file whose worker was killed, of which ``path``, ``outcome`` and ``message`` are known."""
    failure = Failure(report["outcome"], report["message"])
    return collect_row(FileData(name=report["path"], archive=None, failure=failure, inspected=None, scanned=None))


def make_cells(file: FileData) -> dict[str, Cell]:
    """Return what is known of a file, by the key of the column: facts, then hyper-parameters in the order of the file.

    A cell without a text is one without a value.
    """
    cells: dict[str, Cell] = {}
    if file.scanned is not None:
        cells["verdict"] = Cell(file.scanned.verdict, _rank(file.scanned.verdict), value=file.scanned.verdict)
        cells["size"] = Cell(format_size(file.scanned.size), file.scanned.size, value=file.scanned.size)
    elif file.failure is not None:
        cells["verdict"] = Cell(file.failure.outcome, _rank(file.failure.outcome))
    if file.inspected is None:
        return cells
    report = file.inspected
    cells["kind"] = make_text(KIND_TITLES.get(report.format, report.format))
    cells["sb3_version"] = make_text(report.stable_baselines3_version)
    if report.algorithm is not None and report.algorithm.name is not None:
        cells["algorithm"] = make_text(report.algorithm.name)
    cells["policy"] = make_text((report.policy_class or "").rpartition(".")[2])
    if report.state_dicts and report.format not in OBJECTS:
        count = sum(row.numel for row in report.state_dicts if OPTIMIZER_WORD not in row.name)
        cells["parameters"] = _make_count(count)
    values = report.hyperparameters or {}
    for key in ("observation_space", "action_space"):
        if key in values:
            cells[key] = render_value(values[key].value, key)
    steps = values.get("num_timesteps")
    if steps is not None and type(steps.value) is int:
        cells["timesteps"] = _make_count(steps.value) if abs(steps.value) < _LARGEST else Cell("")
    episodes = collect_episodes(file)
    if episodes is not None and episodes.rewards and report.format not in OBJECTS:
        mean = math.fsum(episodes.rewards) / len(episodes.rewards)
        cells["mean_reward"] = _make_measure(mean)
        cells["episodes"] = _make_count(len(episodes.rewards))
    cells |= _list_hyperparameters(values)
    if file.beside is not None:
        cells["statistics"] = make_text(file.beside.name(file.beside.statistics))
    if file.training is not None:
        cells |= _describe_training(file.training, cells.get("timesteps", Cell("")).value)
        if file.training.seed is not None and ("seed" not in cells or cells["seed"].value is None):
            cells["seed"] = render_value(file.training.seed)
    return cells


def _describe_training(training: Training, timesteps: Any) -> dict[str, Cell]:
    """Return the environment, and the best and the last evaluation with their steps.

    The logs are those of a run, which may have saved several files: each has the evaluations until it was saved.

    :param timesteps: of training when the file was saved; None if that is not known
    """
    cells = {"env": make_text(training.env)}
    curve = training.evaluations
    if curve is not None and timesteps is not None:
        curve = curve.until(timesteps)
    if curve is not None and curve.steps:
        for name, place in (("best", curve.best), ("last", -1)):
            cells[f"{name}_evaluation"] = _make_measure(curve.rewards[place])
            cells[f"{name}_evaluation_timesteps"] = _make_count(curve.steps[place])
    return cells


def _make_measure(number: float) -> Cell:
    return Cell(f"{number:.6g}", number, value=number)


def make_text(text: str | None) -> Cell:
    """Return a text of a file as a cell: escaped and shortened; no value if it is empty."""
    shown = escape(text or "", _CELL)
    return Cell(shown, value=shown or None)


def _make_count(count: int) -> Cell:
    return Cell(f"{count:,}", float(count), value=to_scalar(count))


def to_scalar(value: float) -> int | float | str:
    """Return a number as a table stores it: one that has more than 64 bits as a float, or as text."""
    if isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
        try:
            return float(value)
        except OverflowError:
            return render_plain(value)
    return value


def _rank(verdict: str) -> int:
    """Return the place of a verdict from best to worst; what is not one, because nothing could be judged, is last."""
    from sbformat.tools.scan.findings import VERDICTS

    return VERDICTS.index(verdict) if verdict in VERDICTS else len(VERDICTS)


def _list_hyperparameters(values: Mapping[str, Hyperparameter]) -> dict[str, Cell]:
    """Return a cell for each value of ``data``; those of a dict such as ``policy_kwargs`` have cells of their own."""
    cells: dict[str, Cell] = {}
    for key, found in values.items():
        if key in _IN_FACTS or len(cells) >= MOST_KEYS:
            continue
        name = escape(key, _CELL)
        if name in FACTS or name == NAME:
            name = f"data.{name}"
        cells[name] = render_value(found.value, key)
        if key.endswith("_kwargs") and isinstance(found.value, dict):
            for part, value in list(found.value.items())[:MOST_KEYS]:
                if isinstance(part, str):
                    cells[f"{name}.{escape(part, _CELL)}"] = render_value(value)
    return cells


def render_value(value: Any, key: str | None = None) -> Cell:
    """Return a value as a cell.

    :param key: of ``data``; None for a value within another
    """
    if isinstance(value, LargeValue):
        return make_text(f"{escape(value.type or 'JSON', _CELL)}, left out: {format_size(value.nbytes)}")
    if isinstance(value, Serialized) and key is not None:
        return make_text(f"{escape(value.type or 'pickle', _CELL)}, not decoded")
    if value is None or isinstance(value, bool):
        return Cell(json.dumps(value), value=value)
    if isinstance(value, str):
        shown = escape(value, _CELL)
        return Cell(shown or "''", value=shown)
    schedule = find_meaning(value, examines=key in EXAMINED_KEYS).schedule
    if isinstance(schedule, LinearSchedule):
        return _make_schedule_cell(render_linear(schedule), schedule.start)
    if isinstance(schedule, (ComputedSchedule, InterpolatedSchedule)):
        return _make_schedule_cell(describe_samples(schedule), schedule.sample(1.0))
    if isinstance(schedule, ConstantSchedule) and not isinstance(value, ArrayInfo):
        value = schedule.value
    shown = escape(render_plain(value), _CELL)
    match = _NUMBER.match(shown)
    number = float(match[1]) if match is not None else None
    scalar: Scalar = shown
    if type(value) in (int, float):
        scalar = to_scalar(value)
    elif isinstance(schedule, ConstantSchedule):  # an array of one number
        scalar = to_scalar(schedule.value)
    return Cell(shown or "''", number, value=scalar)


def _make_schedule_cell(text: str, start: float) -> Cell:
    """Return a schedule as a cell: ``linear 0.0008 -> 0.0``, which is sorted by its start."""
    shown = escape(text, _CELL)
    return Cell(shown, float(start) if math.isfinite(start) else None, is_words=True, value=shown)


_LONGEST: Final = 64
_OTHER: Final = re.compile(r"[^a-z0-9_]")
_RESERVED: Final = frozenset({
    "add", "all", "alter", "and", "as", "autoincrement", "between", "case", "catalog", "check", "collate",
    "commit", "constraint", "create", "default", "deferrable", "delete", "distinct", "drop", "else", "escape",
    "except", "exists", "foreign", "from", "group", "having", "in", "index", "insert", "intersect", "into",
    "is", "isnull", "join", "limit", "not", "notnull", "null", "oid", "on", "or", "order", "other", "primary",
    "references", "returning", "rowid", "select", "set", "table", "then", "to", "transaction", "union",
    "unique", "update", "using", "values", "when", "where", "_rowid_",
})  # fmt: skip
"""Words of SQL that are not names, and names that a table of a catalogue has anyway."""


def name_columns(keys: Iterable[str]) -> dict[str, str]:
    """Return the name of the column of each key.

    >>> name_columns(["gamma", "policy_kwargs.net_arch", "Gamma", "size"])
    {'gamma': 'gamma', 'policy_kwargs.net_arch': 'policy_kwargs_net_arch', 'Gamma': 'gamma_2', 'size': 'data_size'}
    """
    names = {key: _name(key) for key in keys}
    used = {name for key, name in names.items() if key == name}
    for key, name in names.items():
        if key == name:
            continue
        number = 1
        while names[key] in used:
            number += 1
            names[key] = f"{name}_{number}"
        used.add(names[key])
    return names


@lru_cache(maxsize=4096)
def _name(key: str) -> str:
    """Return the name that a key has if no other key of its file has it."""
    name = _OTHER.sub("_", key.lower())[:_LONGEST]
    is_taken = not name or name[0].isdigit() or name in COLUMNS or name in _RESERVED
    return f"data_{name}" if is_taken else name


Row: TypeAlias = "dict[str, Scalar]"

COLUMNS: Final[dict[str, type]] = {
    "source": str, "size": int, "sha256": str, "version": str, "format": str, "algorithm": str,
    "algorithm_certain": bool, "sb3_version": str, "python_version": str, "torch_version": str, "numpy_version": str,
    "gym_version": str, "policy_class": str, "observation_space": str, "action_space": str, "layers": int,
    "network": str, "parameters": int, "timesteps": int, "mean_reward": float, "episodes": int, "env": str,
    "best_evaluation": float, "best_evaluation_timesteps": int, "last_evaluation": float,
    "last_evaluation_timesteps": int, "statistics": str, "logs": str, "log_problem": str, "verdict": str,
    "reason": str, "finding": str, "findings": int, "problems": int, "problem": str, "outcome": str,
    "error": str, "sbformat": str, "checksum": int,
}  # fmt: skip
"""The columns that every row has, in their order, with the type of their values."""
BUNDLED: Final = "bundled"
"""The statistics of an agent whose archive contains them."""
OK: Final = "ok"
_NETWORK: Final = 200
_VERSIONS: Final = {
    "python_version": ("Python",),
    "torch_version": ("PyTorch",),
    "numpy_version": ("Numpy",),
    "gym_version": ("Gymnasium", "OpenAI Gym", "Gym"),
}
"""The fields of ``system_info.txt`` by the column that has their value; of several, the first that is there."""
_ABSENT: Final = frozenset({"", "None", "not installed"})


class SourceState(Record):
    """The facts about a source that are known without reading it."""

    name: str
    size: int | None
    version: str | None
    """What changes when its contents do: the time of the last modification, an ETag, a commit."""
    beside: Beside | None = None
    """The files that belong to it."""


def make_row(file: FileData, problems: Sequence[Problem], state: SourceState, *, made_by: str) -> Row:
    """Return the row of a file."""
    row = make_empty_row(state, made_by=made_by)
    cells = make_cells(file)
    for name in ("algorithm", "sb3_version", "observation_space", "action_space", "parameters", "timesteps",
                 "mean_reward", "episodes", *OF_TRAINING, "verdict"):  # fmt: skip
        if name in cells:
            row[name] = cells[name].value
    if row["size"] is None and "size" in cells:
        row["size"] = cells["size"].value
    if file.inspected is not None:
        row.update(_describe_contents(file.inspected))
        if file.inspected.statistics is not None and file.inspected.format in AGENTS:
            row["statistics"] = BUNDLED
        update_statistics(row, state.beside)
    if file.training is not None and state.beside is not None:
        row.update(_describe_logs(file.training, state.beside))
    if file.scanned is not None:
        row.update(_describe_findings(file.scanned))
    errors = [problem for problem in problems if problem.level == "error"]
    row["problems"] = len(errors)
    for first in errors[:1]:
        row["problem"] = _join(f"{first.entry} {first.loc}".strip(), first.message)
    for broken in file.inspected.broken[:1] if file.inspected is not None else ():
        row.update(outcome=broken.outcome, error=_join(broken.entry, broken.message))
    if file.failure is not None:
        row.update(outcome=file.failure.outcome, error=escape(file.failure.message, SENTENCE), problems=None)
    keys = [key for key in cells if key not in FACTS][:MOST_KEYS]
    row.update((name, cells[key].value) for key, name in name_columns(keys).items())
    for name, kind in COLUMNS.items():
        if kind is int and not isinstance(row[name], int):  # a forged size, which has more than 64 bits
            row[name] = None
    return row


def make_empty_row(state: SourceState, *, made_by: str) -> Row:
    """Return the row of a source of which nothing is known yet."""
    row: Row = dict.fromkeys(COLUMNS)
    row.update(source=encode_name(state.name), size=state.size, version=state.version, outcome=OK, sbformat=made_by)
    return row


def make_failed_row(state: SourceState, outcome: str, message: str, *, made_by: str) -> Row:
    """Return the row of a source that could not be read: an outcome, as in the reports of the command line, and why."""
    row = make_empty_row(state, made_by=made_by)
    row.update(outcome=outcome, error=escape(message, SENTENCE))
    return row


def encode_name(name: str) -> str:
    """Return the name of a file as a text of a table: escaped whole, so that it is one line of UTF-8."""
    return escape(name, len(name))


def compute_checksum(row: Row) -> int:
    """Return the checksum of the values of a row: CRC-32, the same for every format of tables.

    Formats differ in what is an integer, a number with a fraction or a truth value, and in how they store NaN.
    """
    values = {
        name: value if isinstance(value, str) else write_number(value + 0.0)
        for name, value in row.items()
        if value is not None and name != "checksum"
    }
    return zlib.crc32(json.dumps(values, ensure_ascii=False, sort_keys=True).encode())


def is_as_written(row: Row) -> bool:
    """Return whether a row that was read from a table is the one that was written."""
    try:
        return row["checksum"] == compute_checksum(row)
    except (TypeError, UnicodeError, OverflowError):  # a table may have any bytes as a number
        return False


def update_statistics(row: Row, beside: Beside | None) -> None:
    """Set the statistics of a row to a file that is beside its agent now."""
    if row["statistics"] != BUNDLED and row["format"] in AGENTS:
        row["statistics"] = encode_name((beside and beside.name(beside.statistics)) or "") or None


def _describe_logs(training: Training, beside: Beside) -> Row:
    """Return the files of logs, and why the first one that could not be read could not."""
    row: Row = {"logs": encode_name(beside.name(beside.logs) or "") or None}
    for name, message in islice(training.problems.items(), 1):
        row["log_problem"] = _join(beside.name([name]) or name, message)
    return row


def _describe_contents(report: InspectReport) -> Row:
    row: Row = {"format": report.format, "policy_class": make_text(report.policy_class).value}
    if report.algorithm is not None and report.algorithm.name is not None:
        row["algorithm_certain"] = report.algorithm.certain
    fields = report.system_info or {}
    for name, keys in _VERSIONS.items():
        found = next((fields[key] for key in keys if fields.get(key, "") not in _ABSENT), None)
        row[name] = make_text(found).value
    if report.network is not None:
        row["layers"] = len(report.network.layers)
        row["network"] = _render_network(report.network)
    elif report.network_error is not None and report.format not in OBJECTS:
        row["network"] = escape(f"not known: {report.network_error}", _NETWORK)
    return row


def _render_network(network: Summary) -> str:
    """Return the layers as a text, ``linear 4 -> 64 Tanh, linear 64 -> 2``."""
    from sbformat.policies.describe import render_shape

    parts = []
    for layer in network.layers:
        before = ", ".join(dict.fromkeys(map(render_shape, layer.input_shapes)))
        shape = f"{before} -> {render_shape(layer.shape)}" if before else render_shape(layer.shape)
        parts.append(" ".join(filter(None, (layer.operation, shape, layer.activation))))
    return escape(", ".join(parts), _NETWORK)


def _describe_findings(report: ScanReport) -> Row:
    row: Row = {"sha256": report.sha256, "reason": report.reason, "findings": len(report.findings) + report.omitted}
    if report.findings:
        worst = max(report.findings, key=lambda finding: _rank(finding.verdict))
        row["finding"] = _join(", ".join(filter(None, (worst.entry, worst.key))), worst.message)
    return row


def _join(place: str, message: Any) -> str:
    return escape(f"{place}: {message}" if place else str(message), SENTENCE)


# -- columns of a table of many files -----------------------------------------------------------------

_NAME: Final = 300
_MOST_COLUMNS: Final = 150
_SHOWN_COLUMNS: Final = 12  # hyper-parameters that a page shows at first; the others can be added
_HIDDEN_FACTS: Final = frozenset({
    "kind", "episodes", "observation_space", "action_space", "best_evaluation_timesteps", "last_evaluation_timesteps",
})  # fmt: skip
_CHOICES: Final = tuple(key for group in ("Optimization", "Policy", "Replay and rollout") for key in GROUPS[group])
"""The hyper-parameters in their order, without what agents keep of their run."""
_NOT_SHOWN: Final = ("_schedule", "_kwargs", "_class", "train_freq", "action_noise")
"""Ends of the names of hyper-parameters that say the same as others, or more than a cell should contain."""
_NET_ARCH: Final = "policy_kwargs.net_arch"
_SEED: Final = "seed"
"""Shown with the facts where it differs: runs that are repeated differ in it alone."""


class Column(Record):
    """A column of the table."""

    key: str
    title: str
    is_number: bool
    is_shown: bool


class FileTable(Record):
    """Rows and columns of a page about many files."""

    folder: str
    """The folder in which all files are, to which their names are relative; or empty."""
    rows: tuple[FileRow, ...]
    """With names relative to the folder."""
    columns: tuple[Column, ...]
    shared: tuple[tuple[str, str], ...]
    """Titles and values that all readable files have in common."""
    omitted_columns: int
    """Number of columns beyond the first 150, which are left out."""
    verdicts: tuple[tuple[str, int], ...]
    """Number of files of each verdict, from worst to best."""


def make_table(rows: Iterable[FileRow]) -> FileTable:
    """Return the table of the rows: columns for what differs, and apart from these what is the same in all files."""
    listed = list(rows)
    folder, names = find_folder([row.name for row in listed])
    readable = [row for row in listed if row.failure is None]
    values: dict[str, Counter[str]] = {key: Counter() for key in FACTS}
    for row in listed:
        for key, cell in row.cells.items():
            values.setdefault(key, Counter())[cell.text] += 1
    shared, differing = [], []
    for key, counts in values.items():
        if key != "verdict" and len(readable) > 1 and list(counts.values()) == [len(readable)]:
            shared.append((FACTS.get(key, key), next(iter(counts))))
        elif counts:
            differing.append(key)
    sizes = {key: sum(values[key].values()) for key in differing}
    kept = _keep_columns(differing, sizes)
    chosen = _choose_columns(kept, sizes)
    columns = []
    for key in kept:
        cells = [row.cells[key] for row in listed if key in row.cells]
        is_number = key != "verdict" and all(cell.number is not None or cell.text == "null" for cell in cells)
        columns.append(Column(key=key, title=FACTS.get(key, key), is_number=is_number, is_shown=key in chosen))
    verdicts = Counter(row.cells["verdict"] for row in listed if "verdict" in row.cells)
    worst_first = sorted(verdicts, key=lambda cell: (-(cell.number or 0), cell.text))
    return FileTable(
        folder=folder,
        rows=tuple(row._replace(name=name) for row, name in zip(listed, names)),
        columns=tuple(columns),
        shared=tuple(shared),
        omitted_columns=len(differing) - len(kept),
        verdicts=tuple((cell.text, verdicts[cell]) for cell in worst_first),
    )


def find_folder(names: Sequence[str]) -> tuple[str, list[str]]:
    """Return the folder in which all files are, and their names relative to it, escaped."""
    folder = ""
    try:
        if len(names) > 1 and all(map(is_url, names)):
            schemes = {find_scheme(name) for name in names}
            if len(schemes) == 1:
                paths = [posixpath.dirname(name.partition("://")[2]) for name in names]
                folder = f"{schemes.pop()}://{posixpath.commonpath(paths)}"
        elif len(names) > 1 and all("/" in name or os.sep in name for name in names) and not any(map(is_url, names)):
            folder = os.path.commonpath([os.path.dirname(name) for name in names])
    except ValueError:  # absolute and relative paths, or several drives
        folder = ""
    below = [name[len(folder) :].lstrip("/" + os.sep) if folder else name for name in names]
    return escape(folder, _NAME), [escape(name, _NAME) for name in below]


def _keep_columns(keys: Sequence[str], counts: Mapping[str, int]) -> list[str]:
    """Return the columns that the page has, in their order: if there are too many, those of most files."""
    ordered = sorted(keys, key=order_column)
    if len(ordered) <= _MOST_COLUMNS:
        return ordered
    most = sorted(ordered, key=lambda key: (key not in FACTS, -counts[key]))[:_MOST_COLUMNS]
    return [key for key in ordered if key in set(most)]


def order_column(key: str) -> tuple[int, int]:
    """Facts, hyper-parameters as on the page of one file, other keys, and what agents keep of their run."""
    known = key.partition(".")[0]
    if key in FACTS or key == _SEED:
        return 0, list(FACTS).index(key) if key in FACTS else len(FACTS)
    if known in _CHOICES:
        return 1, _CHOICES.index(known)
    return (3 if key.startswith("_") or key in GROUPS["Run"] else 2), 0


def _choose_columns(keys: Sequence[str], counts: Mapping[str, int]) -> frozenset[str]:
    """Return the columns that are shown at first: the hyper-parameters of most files."""
    facts = [key for key in keys if (key in FACTS and key not in _HIDDEN_FACTS) or key == _SEED]
    choices = [key for key in keys if (key in _CHOICES and not key.endswith(_NOT_SHOWN)) or key == _NET_ARCH]
    choices.sort(key=lambda key: -counts[key])
    return frozenset((*facts, *choices[:_SHOWN_COLUMNS]))
