"""The page of one file, which fits a screen: what it is, whether it is safe to load, and what is unusual in it.

In: a file that was inspected. Out: text. ``--long`` prints its details below it (:mod:`sbformat.cli.inspect`).
"""

from __future__ import annotations

import json
import os
import shlex
import textwrap
from itertools import islice
from time import gmtime, strftime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sbformat.archive.kinds import KIND_TITLES, OBJECTS, SB3_ARCHIVES, STATISTICS
from sbformat.catalogue.collect import FileData, add_training, collect_episodes, find_beside
from sbformat.catalogue.rows import GROUPS, order_column, render_value
from sbformat.cli import _files, _output
from sbformat.constants import OPTIMIZER_WORD
from sbformat.data import LargeValue
from sbformat.errors import SbformatError, escape
from sbformat.immutable import Record
from sbformat.io.opening import is_folder, is_remote, join_path
from sbformat.known.algorithms import ALGORITHMS
from sbformat.known.changes import NEWEST, WRITES_VERSION
from sbformat.known.spaces import Box, DictSpace
from sbformat.rendering import count_noun, format_size
from sbformat.values.render import render_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sbformat.archive.archive import Archive
    from sbformat.archive.defaults import ChangedValue
    from sbformat.folders.logs import Curve, Training
    from sbformat.limits import Limits
    from sbformat.tools.inspect import InspectReport, TensorRow
    from sbformat.tools.scan import ScanReport

T = TypeVar("T")

_WIDTH: Final = 94  # characters of the cells of a row, without what is between them: a line has 100
_LINE: Final = _WIDTH - len("observation space")  # characters of a value in the summary
_SHORTEST: Final = 30  # characters of a hyper-parameter that are shown beside a long name
_LINES: Final = 4  # lines of a sentence
_ROWS: Final = 14  # rows of a table
_MOST_SCANNED: Final = 256 << 20
"""Bytes of the largest file that is scanned: that takes about as long as reading it."""
_MOST_LOGGED: Final = 4 << 20
"""Bytes of the logs of a run that are read for the page of its agent."""
_WHOLE: Final = 100_000  # characters of a sentence that is not shortened
_SPACES: Final = ("observation_space", "action_space")
_NOT_SHOWN: Final = frozenset(
    {*_SPACES, *GROUPS["Run"], "policy_class", "policy", "ep_info_buffer", "ep_success_buffer"}
)
"""Keys that are elsewhere on the page, or of no use on it."""
_LIBRARIES: Final = ("Python", "PyTorch", "Numpy", "Gymnasium", "OpenAI Gym", "Gym")
"""Fields of ``system_info.txt``."""
_COUNTS: Final = ("num_timesteps", "_total_timesteps", "_episode_num", "_n_updates", "n_envs", "seed", "start_time")
_ABSURD: Final = 1 << 63
_NANOSECONDS: Final = 10**9
_DATES: Final = (10**9, 4 * 10**9)  # seconds since 1970, from 2001 to 2096


class Page(Record):
    """The facts that a page shows."""

    path: str
    """As reports have it."""
    report: InspectReport
    archive: Archive
    verdict: ScanReport | str
    """That of ``scan``, or why there is none."""
    training: Training | None
    """What the logs and settings beside an agent say."""
    has_details: bool
    """The details are below it: sentences are whole, and tables that are among the details are left out."""


def make_page(path: str, report: InspectReport, archive: Archive, limits: Limits, *, has_details: bool) -> Page:
    """Return the facts: of a file that was inspected, the verdict, and of an agent what its logs say."""
    training = read_beside(path, FileData(path, archive, None, report, None), limits)
    return Page(path, report, archive, judge(path, archive, limits), training, has_details)


def print_page(printer: _output.Plain, page: Page) -> None:
    """Print the page, without what could not be read."""
    _print_verdict(printer, page)
    printer.table("summary", (), _list_summary(page), longest=_WIDTH)
    _print_network(printer, page)
    printer.table("training", (), _list_training(page), longest=_WIDTH)
    _print_hyperparameters(printer, page)
    _print_rows(printer, "keys of data that are left out, because of a limit", _list_left_out(page), lambda row: row)


# -- verdict ------------------------------------------------------------------------------------------


def judge(path: str, archive: Archive, limits: Limits) -> ScanReport | str:
    """Return the verdict of a file on the bytes that were read, or why it was not scanned."""
    from sbformat.tools.scan import scan, scan_opened

    file = archive.stored_entries.file
    if is_remote(path):
        from sbformat.io.remote import RemoteSource

        if isinstance(file, RemoteSource) and file.is_fetched():
            file = file.load()
        elif file is None or isinstance(file, RemoteSource):
            return "not all of it was fetched"
    elif is_folder(path):  # what is below or hidden is no entry of the archive, but scan examines it
        file = None
    size = file.size if file is not None else sum(entry.size for entry in archive.entries.values())
    if size > _MOST_SCANNED:
        return f"it is larger than {format_size(_MOST_SCANNED)}"
    try:
        return scan(path, limits=limits) if file is None else scan_opened(file, limits=limits)
    except (SbformatError, OSError) as error:
        return _shorten(str(error), _LINE)


def _print_verdict(printer: _output.Plain, page: Page) -> None:
    """Print the verdict in a line, and the command that shows more."""
    found = page.verdict
    is_stream = page.path == _files.name_input(_files.STANDARD_STREAM)
    dashes = "-- " if page.path.startswith("-") else ""
    command = f"sbformat scan {_files.STANDARD_STREAM if is_stream else dashes + escape(shlex.quote(page.path), 1000)}"
    if isinstance(found, str):
        printer.line(f"  verdict of scan: not checked, because {found}: {command}")
        return
    verdict = _output.Styled(_output.render_verdict(found.verdict, found.reason))
    count = len(found.findings) + found.omitted
    more = f", {count_noun(count, 'finding')}: {command}" if found.verdict != "clean" else ""
    printer.line("  verdict of scan: ", verdict, more)


# -- summary ------------------------------------------------------------------------------------------


def _list_summary(page: Page) -> list[tuple[str, str]]:
    report = page.report
    title = KIND_TITLES.get(report.format, report.format)
    if report.stable_baselines3_version is not None:
        title += f" of SB3 {report.stable_baselines3_version}"
    elif report.format in SB3_ARCHIVES:
        title += f" of an unknown release (SB3 before {WRITES_VERSION}.0 did not write it)"
    rows = [("format", title)]
    if report.algorithm is not None:
        name = report.algorithm.name or "unknown"
        rows.append(("algorithm", name if report.algorithm.certain else f"{name} (not certain)"))
        if page.has_details and report.algorithm.evidence:
            rows += fold("", f"because {', and '.join(report.algorithm.evidence)}")
    if report.policy_class is not None:
        rows.append(("policy class", report.policy_class))
    found = report.hyperparameters or {}
    rows += [(key.replace("_", " "), render_space(found[key].value, key)) for key in _SPACES if key in found]
    fields = report.system_info or {}
    libraries = [f"{name} {fields[name]}" for name in _LIBRARIES if name in fields]
    rows += [("saved with", _shorten(", ".join(libraries), _LINE))] if libraries else []
    size = format_size(sum(entry.size for entry in report.entries))
    parts = [count_noun(len(report.entries), "entry", "entries"), size]
    is_whole = not any(row.entry.partition("/")[0] in page.archive.state_dicts for row in report.broken)
    if report.state_dicts and is_whole:
        numel = sum(state_dict.numel for state_dict in report.state_dicts if OPTIMIZER_WORD not in state_dict.name)
        parts.append(f"{numel:,} {'numbers in arrays' if report.format in OBJECTS else 'parameters'}")
    rows.append(("contents", ", ".join(parts)))
    for note in report.notes:
        rows += fold("note", note, is_whole=page.has_details)
    if report.not_checked:
        count = count_noun(len(report.not_checked), "entry", "entries")
        rows.append(("not checked", f"parts of {count} that were not fetched"))
    return rows


def _shorten(text: str, most: int) -> str:
    """Return an escaped text of so many characters at most."""
    return escape(text, most if len(text) <= most else most - 1)


def fold(name: str, text: str, *, is_whole: bool = False) -> list[tuple[str, str]]:
    """Return the rows of a text that is longer than a line; the first one has its name.

    :param is_whole: however long it is
    """
    lines = textwrap.wrap(_shorten(text, _WHOLE if is_whole else _LINES * _LINE), _LINE, break_on_hyphens=False)
    return list(zip((name, *[""] * len(lines)), lines))


def render_space(value: Any, key: str) -> str:
    """Return a space in a line: without its bounds, or with the sizes of its parts alone, if it is long."""
    if not isinstance(value, (Box, DictSpace)):
        return render_value(value, key).text
    text = render_line(value, key)
    return text if len(text) <= _LINE else _shorten(_render_sizes(value), _LINE)


def _render_sizes(value: Any) -> str:
    if not isinstance(value, DictSpace):
        return f"Box({value.shape}, {value.dtype})"
    parts = (
        (key, _render_sizes(part) if isinstance(part, Box) else render_line(part)) for key, part in value.spaces.items()
    )
    return f"Dict({', '.join(f'{key}: {text}' for key, text in islice(parts, _ROWS))})"


# -- network, or arrays -------------------------------------------------------------------------------


def _print_network(printer: _output.Plain, page: Page) -> None:
    """Print a line for each part of the network, or why it is not known; of other files their arrays."""
    report = page.report
    if report.network is not None:
        from sbformat.policies.describe import list_parts

        _print_rows(printer, "network", list_parts(report.network), lambda part: part)
    elif report.network_error is not None:
        printer.table("network", (), fold("not known", report.network_error, is_whole=page.has_details), longest=_WIDTH)
    has_values = report.network is not None or report.data is not None
    if page.has_details or report.format in STATISTICS or (has_values and report.format not in OBJECTS):
        return
    rows = [row for state_dict in report.state_dicts for row in state_dict.tensors]
    _print_rows(printer, "arrays" if report.format in OBJECTS else "tensors", rows, _list_tensor)


def _list_tensor(row: TensorRow) -> tuple[str, ...]:
    return row.name or "(the whole entry)", row.dtype, " x ".join(map(str, row.shape)) or "scalar"


def _print_rows(
    printer: _output.Plain, title: str, items: Sequence[T], make_row: Callable[[T], tuple[str, ...]]
) -> None:
    """Print a table with rows for the first items, and how many more there are."""
    most = _ROWS if len(items) > _ROWS + 1 else _ROWS + 1
    rows = [make_row(item) for item in items[:most]]
    if len(items) > most:
        rows.append((f"\u2026 and {len(items) - most:,} more", *[""] * (len(rows[0]) - 1)))
    printer.table(title, (), rows)


# -- training -----------------------------------------------------------------------------------------


def _list_training(page: Page) -> list[tuple[str, str]]:
    """Return how long an agent was trained, and with what result."""
    report = page.report
    if report.format in OBJECTS:
        return []
    rows = _describe_run(page.training) if page.training is not None else []
    found = report.hyperparameters or {}
    values = {key: count for key in _COUNTS if key in found and (count := _read_count(found[key].value)) is not None}
    if "num_timesteps" in values:
        planned = f" of {values['_total_timesteps']:,} planned" if "_total_timesteps" in values else ""
        rows.append(("timesteps", f"{values['num_timesteps']:,}{planned}"))
    rows += _describe_episodes(page, values.get("_episode_num", 0))
    parts = [count_noun(values["_n_updates"], "update")] if "_n_updates" in values else []
    parts += [count_noun(values["n_envs"], "environment")] if "n_envs" in values else []
    parts += [f"seed {values['seed']}"] if "seed" in values else []
    parts += [f"started {time}" for time in [_render_time(values.get("start_time", 0))] if time]
    return [*rows, ("run", ", ".join(parts))] if parts else rows


def _describe_run(training: Training) -> list[tuple[str, str]]:
    """Return the environment, and the evaluations of the logs."""
    rows = []
    if training.env is not None:
        rows.append(("environment", _shorten(f"{training.env}  ({training.env_file})", _LINE)))
    curve = training.evaluations
    if curve is not None:
        points = (f"{name} {_render_point(curve, at)}" for name, at in (("best", curve.best), ("last", -1)))
        rows.append(("evaluations", f"{len(curve.steps):,}: {', '.join(points)}"))
    return rows


def _render_point(curve: Curve, at: int) -> str:
    return f"{curve.rewards[at]:,.6g} at {curve.steps[at]:,}"


def read_beside(path: str, file: FileData, limits: Limits) -> Training | None:
    """Return what the logs and settings beside an agent say, if they are on this machine and small; None without any.

    :param path: of the agent
    """
    if is_remote(path) or not os.path.exists(path):
        return None
    beside = find_beside(path, limits)
    if beside is None:
        return None
    sizes = {name: _measure(join_path(beside.top, name)) for name in beside.logs}
    logs = tuple(name for name, size in sizes.items() if size <= _MOST_LOGGED)
    is_small = sum(sizes[name] for name in logs) <= _MOST_LOGGED
    return add_training(file, beside._replace(logs=logs if is_small else ()), limits).training


def _measure(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return _MOST_LOGGED + 1


def _describe_episodes(page: Page, count: int) -> list[tuple[str, str]]:
    """Return the mean reward of the last episodes.

    :param count: of all episodes; 0 of an algorithm that does not count them
    """
    found = collect_episodes(FileData(page.path, page.archive, None, page.report, None))
    if found is None:
        return [("episodes", f"{count:,}")] if count else []
    number = len(found.rewards)
    reward, length = sum(found.rewards) / number, sum(found.lengths) / number
    of_all = f" of {count:,}" if count > number else ""
    text = f"{reward:,.6g} over the last {count_noun(number, 'episode')}{of_all}, mean length {length:,.6g}"
    success = f", {found.success_rate:.0%} successes" if found.success_rate is not None else ""
    return [("mean reward", text + success)]


def _read_count(value: object) -> int | None:
    """Return a number as an integer, also a whole float; None for anything else, and for numbers that are absurd."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return int(value) if abs(value) < _ABSURD else None


def _render_time(start: int) -> str:
    """Return the time at which training began, which SB3 saved in seconds, and since 1.7 in nanoseconds."""
    seconds = start // _NANOSECONDS if start > _DATES[1] else start
    return strftime("%Y-%m-%d %H:%M UTC", gmtime(seconds)) if _DATES[0] < seconds < _DATES[1] else ""


# -- hyper-parameters ---------------------------------------------------------------------------------


def _print_hyperparameters(printer: _output.Plain, page: Page) -> None:
    """Print the hyper-parameters that differ from the defaults of the algorithm; all of them if it has none."""
    report = page.report
    found = report.hyperparameters
    if report.statistics is not None and not page.has_details:
        from sbformat.cli.inspect import list_statistics, render_settings

        is_bundle = report.format not in STATISTICS
        rows = [("settings", render_settings(report.statistics))] if is_bundle else []
        rows += list_statistics(report.statistics, with_settings=not is_bundle)
        _print_rows(printer, "normalization", rows, lambda row: (row[0], _shorten(row[1], _LINE)))
    if found is None or report.format in STATISTICS:
        return
    name = report.algorithm.name if report.algorithm is not None else None
    if name in ALGORITHMS and report.format == "sb3":
        _print_changed(printer, report, name)
        return
    if page.has_details:
        return
    kept = [(key, row.value) for key, row in found.items() if key not in _NOT_SHOWN and not key.startswith("_")]
    left = _WIDTH - max((len(key) for key, _ in kept[:_ROWS]), default=0)
    title = "attributes" if report.format in OBJECTS else "hyper-parameters"
    _print_rows(printer, title, kept, lambda row: (row[0], _render_value(row[1], row[0], left)))


def _print_changed(printer: _output.Plain, report: InspectReport, name: str) -> None:
    from sbformat.archive.defaults import list_changed

    changed = list_changed(name, report.hyperparameters or {}, report.stable_baselines3_version)
    changed = [row for row in changed if not isinstance(row.value, LargeValue)]
    changed.sort(key=lambda row: order_column(row.key))
    left = _WIDTH - max((len(row.key) for row in changed[:_ROWS]), default=0)

    def make_row(row: ChangedValue) -> tuple[str, ...]:
        default = f"  (default {_render_default(row.default)})" if row.has_default else "  (not set by default)"
        return row.key, _render_value(row.value, row.key, left - len(default)) + default

    title = f"hyper-parameters that differ from the defaults of {name} in SB3 {NEWEST}"
    if changed:
        _print_rows(printer, title, changed, make_row)
    else:
        printer.table(title, (), [("none",)])


def _render_value(value: Any, key: str, most: int) -> str:
    cell = render_value(value, key)
    text = render_line(value, key) if cell.is_words else cell.text  # the former says where a schedule is from
    return _shorten(text, max(most, _SHORTEST))


def _render_default(default: Any) -> str:
    return default if isinstance(default, str) else json.dumps(default)


# -- limits -------------------------------------------------------------------------------------------


def _list_left_out(page: Page) -> list[tuple[str, ...]]:
    """Return the keys of ``data`` that are larger than the limits allow, and the options with which they are read."""
    found = [(key, value) for key, value in (page.report.data or {}).items() if isinstance(value, LargeValue)]
    return [(_shorten(key, _SHORTEST), format_size(value.nbytes), _name_limits(value)) for key, value in found]


def _name_limits(value: LargeValue) -> str:
    options = (f"--limit {name}={most}" for name, most in value.needs.items())
    return f"if you trust the size, pass {' '.join(options)}"
