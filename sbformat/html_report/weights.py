"""The numbers of weights: the distribution of each tensor of a file, and how far those of two files are apart.

In come the state dicts of archives; out come rows and histograms for the pages. Large tensors are read in pieces.
"""

from __future__ import annotations

import math
import re
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sbformat.constants import OPTIMIZER_WORD, POLICY_ENTRY, PTH_SUFFIX
from sbformat.errors import SbformatError
from sbformat.html_report.page import format_number
from sbformat.html_report.plots import Histogram
from sbformat.immutable import Record
from sbformat.pth.array_streams import ArrayStream
from sbformat.pth.arrays import difference
from sbformat.pth.values import TensorInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sbformat.archive.archive import Archive
    from sbformat.catalogue.collect import FileData
    from sbformat.limits import Budget
    from sbformat.pth import StateDict
    from sbformat.pth.arrays import Difference
    from sbformat.tools.inspect import StateDictReport, TensorRow


BINS: Final = 40
_FEW_BINS: Final = 16
_FEW: Final = 400  # A tensor of fewer elements has a histogram of fewer bins
MOST_TENSORS: Final = 1000
"""Tensors of a page whose numbers are read or compared, and that are listed; the others are counted."""
MOST_PLOTS: Final = 120
"""Histograms of a page."""
_FEWEST: Final = 8  # A tensor of fewer elements has no histogram
_STATE: Final = re.compile(r"state/\[?(\d{1,6})\]?/")
"""The path of a tensor of an optimizer, with the index of its parameter."""
_NOT_PARAMETERS: Final = frozenset({
    "running_mean", "running_var", "num_batches_tracked", "ra_mean", "ra_var", "steps",
    "_u", "_v", "weight_mask", "bias_mask",
})  # fmt: skip
"""Tensors of modules and of torch's wrappers that are not trained."""
_SAMPLE: Final = 1_000_000  # elements of one tensor that are read; of a larger one, as many at equal distances
_LARGE_BYTES: Final = 64 << 20  # A larger tensor is read in pieces
_BELOW_ONE: Final = 1 - 2**-53


class Distribution(Record):
    """The numbers of an array."""

    mean: float | None
    """None when no number is finite, as for the next three."""
    std: float | None
    minimum: float | None
    maximum: float | None
    zeros: int
    not_finite: int
    """Infinities and NaN, which do not count in the other fields."""
    histogram: Histogram | None
    """None for few elements, and if all are equal."""
    sampled: bool
    """Whether only some elements were read."""

    def describe(self) -> str:
        """Return mean, deviation and range as a phrase."""
        if self.minimum is None:
            return "no finite numbers"
        start = f"mean {format_number(self.mean)}, standard deviation {format_number(self.std)}, "
        return f"{start}from {format_number(self.minimum)} to {format_number(self.maximum)}"


class TensorData(Record):
    """A tensor of a page."""

    row: TensorRow
    distribution: Distribution | None
    """None if its numbers could not be read, or are not real numbers."""
    remark: str
    """Why there is no distribution, or an empty text."""
    parameter: str
    """The parameter that a tensor of an optimizer belongs to; empty for other tensors."""


class StateDictData(Record):
    """A state dict of a page."""

    report: StateDictReport
    tensors: tuple[TensorData, ...]
    """Those that are listed."""


def collect_weights(file: FileData) -> list[StateDictData]:
    """Return the state dicts of a file with the distribution of each tensor, up to :data:`MOST_TENSORS`."""
    if file.archive is None or file.inspected is None:
        return []
    left = MOST_TENSORS
    found = []
    for report in file.inspected.state_dicts:
        owners = find_parameters(report, file.inspected.state_dicts)
        state_dict = file.archive.state_dict(report.name)
        tensors = []
        for row in report.tensors[:left]:
            at = _STATE.match(row.name)
            owner = owners.get(int(at[1]), "") if at else ""
            tensors.append(TensorData(row, *_read_distribution(state_dict, row), owner))
        left -= len(tensors)
        found.append(StateDictData(report, tuple(tensors)))
    return found


def _read_distribution(state_dict: StateDict, row: TensorRow) -> tuple[Distribution | None, str]:
    """Return the distribution of a tensor, or why there is none."""
    info = state_dict.tensors()[row.name]
    if type(info) is not TensorInfo:
        return None, f"{row.kind}: not read"
    try:
        array, sampled = read_numbers(state_dict, info)
    except SbformatError as error:
        return None, error.outcome
    found = describe_numbers(array, sampled=sampled)
    why = f"{'complex' if array.dtype.kind == 'c' else 'not'} numbers: not summarized"
    return found, "" if found is not None else why


def find_parameters(optimizer: StateDictReport, state_dicts: Iterable[StateDictReport]) -> dict[int, str]:
    """Return the names of the parameters of an optimizer by their indices; empty if these are not certain.

    torch numbers them in the order of the module's parameters, which is that of ``policy.pth``. They are those of the
    part of the policy that the optimizer is named for. If any shape differs, none is known.
    """
    policy = next((report for report in state_dicts if report.name == POLICY_ENTRY), None)
    part = optimizer.name.removesuffix(PTH_SUFFIX).removesuffix(f".{OPTIMIZER_WORD}")
    if policy is None or OPTIMIZER_WORD not in optimizer.name:
        return {}
    prefix = "" if part == "policy" else f"{part}."
    own = [
        row
        for row in policy.tensors
        if row.name.startswith(prefix)
        and row.shares_storage_with is None
        and row.name.rpartition(".")[2] not in _NOT_PARAMETERS
    ]
    found = {}
    for row in optimizer.tensors:
        at = _STATE.match(row.name)
        if at is None or not row.shape:
            continue
        index = int(at[1])
        if index >= len(own) or own[index].shape != row.shape:
            return {}
        found[index] = own[index].name
    return found


def read_numbers(state_dict: StateDict, info: TensorInfo) -> tuple[Any, bool]:
    """Return the numbers of a tensor, and whether they are a sample: a large one is not kept in memory as a whole."""
    stream = state_dict.stream_of(info) if info.nbytes > _LARGE_BYTES else None
    if not isinstance(stream, ArrayStream) or stream.descr is None:
        return state_dict.array_of(info), False
    step = -(-info.numel // _SAMPLE)
    parts = []
    before = 0
    for piece in stream.pieces():
        items = np.frombuffer(piece, stream.descr)
        parts.append(items[-before % step :: step].copy())
        before += items.size
    return np.concatenate(parts), True


def describe_numbers(
    array: Any, limits: tuple[float, float] | None = None, *, sampled: bool = False
) -> Distribution | None:
    """Return the distribution of an array's numbers; None for numbers that are not real.

    Numbers of any size have a deviation: they are divided by a power of two before they are squared, so that the
    squares neither overflow nor vanish.

    :param limits: the range of the histogram; by default from the least to the largest number
    :param sampled: whether the array is a sample
    """
    flat = array.reshape(-1)
    if flat.size > _SAMPLE:
        sampled = True
        flat = flat[:: -(-flat.size // _SAMPLE)]
    if flat.dtype.kind not in "biufV" or flat.dtype.names is not None:
        return None
    try:
        with np.errstate(all="ignore"):
            numbers = flat.astype(np.float64)
    except (TypeError, ValueError):
        return None
    finite = numbers[np.isfinite(numbers)]
    counts = (int(np.count_nonzero(numbers == 0)), numbers.size - finite.size)
    if not finite.size:
        return Distribution(None, None, None, None, *counts, None, sampled)
    low, high = float(finite.min()), float(finite.max())
    scaled, exponent = _divide_by_power(finite, low, high)
    mean = float(np.ldexp(scaled.mean(), exponent))
    std = float(np.ldexp(min(float(scaled.std()), _BELOW_ONE), exponent))
    bins = _FEW_BINS if numbers.size < _FEW else BINS
    histogram = None if finite.size < _FEWEST else make_histogram(finite, limits or (low, high), bins)
    return Distribution(mean, std, low, high, *counts, histogram, sampled)


def _divide_by_power(numbers: Any, low: float, high: float) -> tuple[Any, int]:
    """Return finite numbers from ``low`` to ``high`` divided by a power of two, all less than 1, and its exponent."""
    exponent = math.frexp(max(abs(low), abs(high)))[1]
    with np.errstate(all="ignore"):
        return np.ldexp(numbers, -exponent), exponent


def make_histogram(finite: Any, limits: tuple[float, float], bins: int) -> Histogram | None:
    """Return the histogram of finite numbers; None if its range is empty."""
    (low, high), exponent = _divide_by_power(np.array(limits), *limits)
    if not low < high or high - low < np.spacing(max(abs(low), abs(high))) * BINS:
        return None
    counts, _ = np.histogram(np.ldexp(finite, -exponent), bins, (low, high))
    return Histogram(tuple(map(int, counts)), *limits)


MOST_OVERLAYS: Final = 60
"""Pairs of histograms of a page, of the tensors that changed most."""
MOST_BARS: Final = 40
"""Layers of the plot of changes, those that changed most."""


class TensorPair(Record):
    """A tensor that both files contain, or one of them."""

    entry: str
    name: str
    shapes: tuple[tuple[int, ...] | None, tuple[int, ...] | None]
    """None where a file does not contain it."""
    dtypes: tuple[str | None, str | None]
    numbers: Difference | None
    """None if the two could not be compared number by number."""
    remark: str
    """Why they could not be, or an empty text."""

    @property
    def is_equal(self) -> bool:
        """Whether both files have the same numbers, bit for bit."""
        return self.numbers is not None and self.numbers.differing == 0

    @property
    def relative_change(self) -> float | None:
        """The norm of the difference divided by that of the first tensor; 0 for equal ones, None if it is unknown."""
        if self.numbers is None:
            return None
        return 0.0 if self.is_equal else self.numbers.relative_change()


class LayerPair(Record):
    """The tensors of one module, weight and bias, taken together."""

    name: str
    relative_change: float
    """As of a tensor of the numbers of all; not finite if the first one is zero."""


class Overlay(Record):
    """The histograms of a tensor in both files, of the same range."""

    pair: TensorPair
    first: Histogram
    second: Histogram


class ChangedWeights(Record):
    """The tensors of two files."""

    pairs: tuple[TensorPair, ...]
    """Those of optimizers last."""
    omitted: int
    """Number of tensors that are not listed, and whose numbers were not compared."""
    unreadable: tuple[str, ...]
    """State dicts that one of the files does not contain, or that cannot be read."""

    @property
    def layers(self) -> list[LayerPair]:
        """The layers of all state dicts but those of optimizers, in their order."""
        return group_layers(pair for pair in self.pairs if OPTIMIZER_WORD not in pair.entry)


def compare_weights(first: Archive, second: Archive) -> ChangedWeights:
    """Compare the tensors of state dicts that two archives have; changes are relative to the first."""
    pairs: list[TensorPair] = []
    omitted = 0
    unreadable = []
    names = sorted(dict.fromkeys((*first.state_dicts, *second.state_dicts)), key=lambda name: OPTIMIZER_WORD in name)
    for name in names:
        if name not in first.state_dicts or name not in second.state_dicts:
            unreadable.append(name)
            continue
        try:
            left, right = first.state_dict(name), second.state_dict(name)
            paths = list({**left.tensors(), **right.tensors()})
        except SbformatError:
            unreadable.append(name)
            continue
        most = max(0, MOST_TENSORS - len(pairs))
        budgets = left.new_budget(), right.new_budget()
        pairs += [_compare_tensors(name, path, left, right, budgets) for path in paths[:most]]
        omitted += len(paths[most:])
    return ChangedWeights(tuple(pairs), omitted, tuple(unreadable))


def _compare_tensors(
    entry: str, path: str, left: StateDict, right: StateDict, budgets: tuple[Budget, Budget]
) -> TensorPair:
    one, other = left.tensors().get(path), right.tensors().get(path)
    shapes = _find_shape(one), _find_shape(other)
    dtypes = getattr(one, "dtype", None), getattr(other, "dtype", None)
    numbers, remark = None, ""
    if one is None or other is None:
        remark = f"only in the {'second' if one is None else 'first'} file"
    elif not isinstance(one, TensorInfo) or not isinstance(other, TensorInfo):
        remark = "not compared number by number"
    elif shapes[0] != shapes[1]:
        remark = "another shape"
    elif dtypes[0] != dtypes[1]:
        remark = "another dtype"
    else:
        try:
            numbers = difference(one, other, *budgets)
        except SbformatError as error:
            remark = error.outcome
    return TensorPair(entry, path, shapes, dtypes, numbers, remark)


def _find_shape(info: Any) -> tuple[int, ...] | None:
    if info is None:
        return None
    shape: tuple[int, ...] = (getattr(info, "int_repr", None) or info).shape
    return shape


def group_layers(pairs: Iterable[TensorPair]) -> list[LayerPair]:
    """Return the layers of tensors: ``net.0.weight`` and ``net.0.bias`` are one, of all their numbers together."""
    norms: dict[str, list[float]] = {}
    for pair in pairs:
        if pair.numbers is None or pair.numbers.numel == 0:
            continue
        layer = pair.name.rpartition(".")[0] or pair.name or pair.entry
        sums = norms.setdefault(layer, [0.0, 0.0])
        change = 0.0 if pair.is_equal else pair.numbers.l2
        sums[0] = math.hypot(sums[0], math.nan if change is None else change)
        sums[1] = math.hypot(sums[1], pair.numbers.old_l2)
    return [
        LayerPair(name, change / norm if norm else math.inf if change else 0.0)
        for name, (change, norm) in norms.items()
    ]


def choose_bars(layers: Sequence[LayerPair]) -> list[LayerPair]:
    """Return the layers of the plot, in their order: those whose change is a number, and not the least."""
    finite = [layer for layer in layers if math.isfinite(layer.relative_change)]
    most = sorted(finite, key=lambda layer: -layer.relative_change)[:MOST_BARS]
    return [layer for layer in finite if layer in most]


def make_overlays(changed: ChangedWeights, first: Archive, second: Archive) -> list[Overlay]:
    """Return the histograms of the tensors that changed most, those of policies first."""

    def rank(pair: TensorPair) -> tuple[bool, float]:
        change = pair.relative_change
        return OPTIMIZER_WORD in pair.entry, -math.inf if change is None or math.isnan(change) else -change

    places = {(pair.entry, pair.name): place for place, pair in enumerate(changed.pairs)}
    differing = sorted((pair for pair in changed.pairs if pair.numbers is not None and not pair.is_equal), key=rank)
    overlays = (_make_overlay(pair, (first, second)) for pair in differing)
    made = list(islice((overlay for overlay in overlays if overlay is not None), MOST_OVERLAYS))
    return sorted(made, key=lambda overlay: places[overlay.pair.entry, overlay.pair.name])


def _make_overlay(pair: TensorPair, archives: tuple[Archive, Archive]) -> Overlay | None:
    arrays = []
    try:
        for state_dict in (archive.state_dict(pair.entry) for archive in archives):
            info = state_dict.tensors()[pair.name]
            is_plain = isinstance(info, TensorInfo)
            arrays.append(read_numbers(state_dict, info)[0] if is_plain else state_dict.array(pair.name))
    except SbformatError:
        return None
    found = [describe_numbers(array) for array in arrays]
    lows = [row.minimum for row in found if row is not None and row.minimum is not None]
    highs = [row.maximum for row in found if row is not None and row.maximum is not None]
    if len(lows) < len(found):
        return None
    drawn = [describe_numbers(array, (min(lows), max(highs))) for array in arrays]
    histograms = [row.histogram for row in drawn if row is not None and row.histogram is not None]
    return Overlay(pair, *histograms) if len(histograms) == len(arrays) else None
