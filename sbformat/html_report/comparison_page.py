"""The page about two files: what differs between them, in settings, network, weights, verdict and everything else."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from sbformat.catalogue.rows import order_column
from sbformat.constants import DATA_ENTRY, OPTIMIZER_WORD
from sbformat.data import has_pickle
from sbformat.errors import LimitError, SbformatError
from sbformat.html_report.archive_page import (
    MOST_ROWS,
    RATE,
    RATE_SCHEDULE,
    REWARDS,
    Plot,
    is_rate_repeated,
    list_facts,
    list_settings,
    list_spaces,
)
from sbformat.html_report.curves import compare_curves
from sbformat.html_report.page import format_number, format_shape, read_template, render_page
from sbformat.html_report.plots import Plots
from sbformat.html_report.weights import ChangedWeights, choose_bars, compare_weights, make_overlays
from sbformat.immutable import Record
from sbformat.policies.describe import list_tables
from sbformat.rendering import count_noun
from sbformat.tools.diff import diff

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sbformat.archive.archive import Archive
    from sbformat.catalogue.collect import FileData
    from sbformat.policies.describe import Layer
    from sbformat.tools.diff import Change
    from sbformat.tools.scan.findings import Finding

_GROUPS: Final = "param_groups"  # of an optimizer, in which its settings are
ABSENT: Final = "\u2013"
"""What is shown where a file has no such value."""


class Pair(Record):
    """A value of both files."""

    name: str
    first: str
    second: str
    differs: bool
    remark: str = ""


class FindingPair(Record):
    """A finding of one file or of both."""

    finding: Finding
    place: str
    """``both``, ``first`` or ``second``."""


def render_comparison(first: FileData, second: FileData, *, title: str | None = None) -> str:
    """Return the page about two files."""
    plots = Plots()
    *names, common = name_files(first.name, second.name)
    heading = title or (f"{common}: " if common else "") + " and ".join(names)
    context = make_context(first, second, plots) | {"heading": heading, "names": names}
    style = read_template("comparison.css")
    return render_page("comparison.html.jinja", context, title=f"{heading} \u2013 sbformat report", style=style)


def name_files(first: str, second: str) -> tuple[str, str, str]:
    """Return the parts in which two paths differ, and the name of the file if that is the same.

    >>> name_files("runs/a/best/model.zip", "runs/b/best/model.zip")
    ('a', 'b', 'best/model.zip')
    """
    one, other = (name.replace("\\", "/").rstrip("/").split("/") for name in (first, second))
    if one == other:
        return first, second, ""
    while len(one) > 1 and len(other) > 1 and one[0] == other[0]:
        del one[0], other[0]
    common: list[str] = []
    while len(one) > 1 and len(other) > 1 and one[-1] == other[-1]:
        common.insert(0, one.pop())
        del other[-1]
    return "/".join(one), "/".join(other), "/".join(common)


def make_context(first: FileData, second: FileData, plots: Plots) -> dict[str, Any]:
    """Return what the template prints."""
    changes, remark = _list_changes(first, second)
    described = find_described(first, second)
    settings = pair_settings(first, second, changes)
    archives = None
    if first.archive is not None and second.archive is not None:
        archives = first.archive, second.archive
    changed = compare_weights(*archives) if archives is not None else None
    names = {(pair.entry, pair.name) for pair in changed.pairs} if changed is not None else set()
    others = [row for row in changes if (row.entry, row.loc) not in names and not _is_setting(row, described)]
    return {
        "first": first,
        "second": second,
        "is_equal": not changes and not remark and archives is not None,
        "remark": remark,
        "facts": pair_facts(first, second),
        "settings": [pair for pair in settings if pair.differs and not is_state(pair.name)],
        "states": [pair for pair in settings if pair.differs and is_state(pair.name)],
        "same_settings": [pair for pair in settings if not pair.differs],
        "findings": pair_findings(first, second),
        "curves": compare_curves(first, second, plots),
        "networks": _list_networks(first, second),
        "weights": make_weights(changed, archives, plots) if changed is not None and archives is not None else None,
        "other_places": describe_places(others),
        "others": [row for row in others if OPTIMIZER_WORD not in row.entry],
        "optimizer_others": [row for row in others if OPTIMIZER_WORD in row.entry],
        "optimizer_word": OPTIMIZER_WORD,
        "most_rows": MOST_ROWS,
    }


def _list_changes(first: FileData, second: FileData) -> tuple[tuple[Change, ...], str]:
    """Return the changes of :func:`sbformat.diff`, or why there are none."""
    if first.archive is None or second.archive is None:
        return (), ""
    try:
        return diff(first.archive, second.archive).changes, ""
    except LimitError:
        return (), "The files differ in more places than are listed."
    except SbformatError as error:
        return (), f"The files could not be compared: {error.message}"


# -- facts, settings, findings, networks --------------------------------------------------------------


def pair_facts(first: FileData, second: FileData) -> list[Pair]:
    """Return the figures at the top of the page, with the verdicts, spaces and rewards."""
    sides: list[dict[str, str]] = []
    for file in (first, second):
        figures: dict[str, str] = {} if file.scanned is None else {"Verdict": file.scanned.verdict}
        if file.inspected is not None:
            facts = list_facts(file, file.inspected)
            for fact in facts:
                figures[fact.label] = f"{fact.value} {fact.remark}" if fact.label in REWARDS else fact.value
            figures |= {f"{space.role} space": space.text for space in list_spaces(file.inspected)}
        sides.append(figures)
    return [_make_pair(name, sides[0].get(name), sides[1].get(name)) for name in _merge_orders(*sides)]


def _merge_orders(first: Iterable[str], second: Iterable[str]) -> list[str]:
    """Return the names of both, each after those that are before it.

    >>> _merge_orders(["a", "d"], ["a", "b", "d"])
    ['a', 'b', 'd']
    """
    names = list(first)
    at = 0
    for name in second:
        if name in names:
            at = names.index(name) + 1
        else:
            names.insert(at, name)
            at += 1
    return names


def _make_pair(name: str, first: str | None, second: str | None, *, differs: bool = False, remark: str = "") -> Pair:
    shown = (ABSENT if first is None else first), (ABSENT if second is None else second)
    return Pair(name, *shown, differs or first != second, remark)


def pair_settings(first: FileData, second: FileData, changes: tuple[Change, ...]) -> list[Pair]:
    """Return every setting of the two files, in the order of the page about one file."""
    changed: dict[str, str] = {}
    described = find_described(first, second)
    for row in changes:
        if _is_setting(row, described) and row.loc:
            changed.setdefault(_find_key(row), row.message)
    sides: list[dict[str, str]] = []
    for file in (first, second):
        groups = list_settings(file.inspected, repeats_rate=True) if file.inspected is not None else {}
        sides.append({setting.name: setting.value for rows in groups.values() for setting in rows})
    pairs = {}
    for name in sorted({**sides[0], **sides[1]}, key=order_column):
        one, other = (side.get(name) for side in sides)
        remark = changed.get(name, "") if one == other else ""
        value, _, tail = remark.rpartition(": ")
        remark = tail if value and tail.startswith("same ") else remark  # the value is beside it
        pairs[name] = _make_pair(name, one, other, differs=name in changed, remark=remark)
    values = [(file.inspected and file.inspected.hyperparameters) or {} for file in (first, second)]
    if all(map(is_rate_repeated, values)) and pairs[RATE].differs >= pairs[RATE_SCHEDULE].differs:
        del pairs[RATE_SCHEDULE]
    return list(pairs.values())


_BUFFERS: Final = ("ep_info_buffer", "ep_success_buffer")


def is_state(name: str) -> bool:
    """Return whether a value of ``data`` is the state of a run when it was saved, and not a setting."""
    return name.startswith("_") or name == "start_time" or name in _BUFFERS


def find_described(first: FileData, second: FileData) -> frozenset[str]:
    """Return the settings that differ in nothing but the description beside their pickle, which nothing reads.

    SB3 writes the addresses of methods there: it differs between any two runs.
    """
    sides = [
        {key: value.pickle for key, value in data.items() if has_pickle(value)}
        for data in ((file.inspected.data if file.inspected else None) or {} for file in (first, second))
    ]
    return frozenset(key for key, pickle in sides[0].items() if sides[1].get(key) == pickle)


def _is_setting(row: Change, described: frozenset[str]) -> bool:
    """Return whether a change is of a setting that differs."""
    return row.entry == DATA_ENTRY and _find_key(row) not in described


def _find_key(row: Change) -> str:
    return row.loc[1:].split("/")[0].replace("~1", "/").replace("~0", "~")


_MOST_NAMES: Final = 6


def describe_places(changes: Iterable[Change]) -> list[tuple[str, int, str]]:
    """Return of each entry how many differences it has, and of what: names without their paths."""
    places: dict[str, list[str]] = {}
    for row in changes:
        parts = [part for part in row.loc.split("/") if part and not part.startswith("[") and part != _GROUPS]
        places.setdefault(row.entry, []).append(parts[0] if parts else row.kind)
    return [(entry, len(names), _list_names(names)) for entry, names in places.items()]


def _list_names(names: Iterable[str]) -> str:
    listed = list(dict.fromkeys(names))
    more = f" and {len(listed) - _MOST_NAMES} more" if len(listed) > _MOST_NAMES else ""
    return ", ".join(listed[:_MOST_NAMES]) + more


def pair_findings(first: FileData, second: FileData) -> list[FindingPair]:
    """Return the findings of both files, those of one file first."""
    sides = [
        {(row.rule, row.entry, row.key, row.message): row for row in (file.scanned.findings if file.scanned else ())}
        for file in (first, second)
    ]
    pairs = []
    for key, finding in {**sides[0], **sides[1]}.items():
        place = "both" if key in sides[0] and key in sides[1] else "first" if key in sides[0] else "second"
        pairs.append(FindingPair(finding, place))
    return sorted(pairs, key=lambda pair: pair.place == "both")


def _list_networks(first: FileData, second: FileData) -> dict[str, Any] | None:
    """Return the layers of both networks side by side, or that they are the same; None if neither has a policy."""
    tables, reasons = [], []
    layers: list[dict[str, str]] = []
    for file in (first, second):
        network = file.inspected.network if file.inspected else None
        listed = [] if network is None else list_tables(network)
        tables.append(next((table for table in listed if table.title.startswith("layers")), None))
        layers.append({} if network is None else {layer.name: _describe_layer(layer) for layer in network.layers})
        reasons.append(file.inspected.network_error if file.inspected else None)
    if tables == [None, None] and reasons == [None, None]:
        return None
    is_same = tables[0] is not None and tables[1] is not None and tables[0].rows == tables[1].rows
    pairs = [_make_pair(name, layers[0].get(name), layers[1].get(name)) for name in {**layers[0], **layers[1]}]
    return {"tables": tables, "reasons": reasons, "is_same": is_same, "layers": pairs}


def _describe_layer(layer: Layer) -> str:
    """Return a layer as one line: ``linear 4 \u2192 64, Tanh, 320 parameters``."""
    before = ", ".join(dict.fromkeys(map(format_shape, layer.input_shapes)))
    shape = f"{before} \u2192 {format_shape(layer.shape)}" if before else format_shape(layer.shape)
    count = count_noun(layer.parameter_count, "parameter") if layer.weights else ""
    return ", ".join(filter(None, (f"{layer.operation} {shape}", layer.activation, count)))


# -- weights ------------------------------------------------------------------------------------------


def make_weights(changed: ChangedWeights, archives: tuple[Archive, Archive], plots: Plots) -> dict[str, Any] | None:
    """Return the tensors of both files, the plot of changes by layer, and histograms over each other."""
    if not changed.pairs and not changed.unreadable:
        return None
    layers = changed.layers
    bars = choose_bars(layers)
    bar_plot = None
    if any(layer.relative_change for layer in bars):
        label = f"Relative change of {len(bars)} layers; the table below has the numbers"
        names, values = [layer.name for layer in bars], [layer.relative_change for layer in bars]
        bar_plot = plots.draw_bars(names, values, label=label)
    figures: dict[str, list[Plot]] = {}
    for pair, before, after in make_overlays(changed, *archives):
        caption = f"relative change {format_percent(pair.relative_change)}"
        low, high = format_number(min(before.low, after.low)), format_number(max(before.high, after.high))
        label = f"Histograms of {pair.name} in both files, {caption}; from {low} to {high}"
        plot = Plot(pair.name, plots.draw_histogram(before, second=after, label=label), caption)
        figures.setdefault(pair.entry, []).append(plot)
    counts = []
    for title, is_optimizer in (("weights", False), ("optimizer state", True)):
        pairs = [pair for pair in changed.pairs if (OPTIMIZER_WORD in pair.entry) == is_optimizer]
        if pairs:
            counts.append((title, sum(not pair.is_equal for pair in pairs), len(pairs)))
    return {
        "pairs": [(pair, format_percent(pair.relative_change)) for pair in changed.pairs],
        "counts": counts,
        "omitted": changed.omitted,
        "unreadable": changed.unreadable,
        "layers": [(layer.name, format_percent(layer.relative_change)) for layer in layers],
        "left_out_bars": len(layers) - len(bars),
        "bars": bar_plot,
        "figures": figures,
    }


def format_percent(change: float | None) -> str:
    """Return a relative change in percent.

    >>> format_percent(0.0123)
    '1.23%'
    """
    if change is None or math.isnan(change):
        return "unknown"
    if math.isinf(change):
        return "from zero"
    if change == 0:
        return "equal"
    return "less than 0.001%" if change < 1e-5 else f"{100 * change:.3g}%" if change < 10 else f"{change:,.4g} times"
