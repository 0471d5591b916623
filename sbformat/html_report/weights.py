"""The distribution of the numbers of each tensor."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sbformat.constants import OPTIMIZER_WORD, POLICY_ENTRY, PTH_SUFFIX
from sbformat.errors import SbformatError
from sbformat.html_report.page import format_number
from sbformat.html_report.plots import Histogram
from sbformat.immutable import Record
from sbformat.pth.array_streams import ArrayStream
from sbformat.pth.values import TensorInfo

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sbformat.archive.archive import Archive
    from sbformat.catalogue.collect import FileData
    from sbformat.pth import StateDict
    from sbformat.tools.inspect import StateDictReport, TensorRow

BINS: Final = 40
_FEW_BINS: Final = 16
_FEW: Final = 400
"""A tensor of fewer elements has a histogram of fewer bins."""
MOST_TENSORS: Final = 1000
"""Tensors of a page whose numbers are read, and that are listed; the others are counted."""
MOST_PLOTS: Final = 120
"""Histograms of a page."""
_FEWEST: Final = 8
"""A tensor of fewer elements has no histogram."""
_STATE: Final = re.compile(r"state/\[?(\d{1,6})\]?/")
"""The path of a tensor of an optimizer, with the index of its parameter."""
_NOT_PARAMETERS: Final = frozenset({
    "running_mean", "running_var", "num_batches_tracked", "ra_mean", "ra_var", "steps",
    "_u", "_v", "weight_mask", "bias_mask",
})  # fmt: skip
"""Tensors of modules and of torch's wrappers that are not trained."""
_SAMPLE: Final = 1_000_000
"""Elements of one tensor that are read; of a larger one, as many at equal distances."""
_LARGE_BYTES: Final = 64 << 20
"""A larger tensor is read in pieces."""
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
    """Of a tensor of an optimizer the parameter that it belongs to, or an empty text."""


class StateDictData(Record):
    """A state dict of a page."""

    report: StateDictReport
    tensors: tuple[TensorData, ...]
    omitted: int
    """Number of tensors that are not listed."""

    @property
    def has_parameter_names(self) -> bool:
        """Whether the parameters of its tensors are known."""
        return any(tensor.parameter for tensor in self.tensors)


def collect_weights(file: FileData) -> list[StateDictData]:
    """Return the state dicts of a file with the distribution of each tensor, up to :data:`MOST_TENSORS`."""
    if file.archive is None or file.inspected is None:
        return []
    left = MOST_TENSORS
    found = []
    for report in file.inspected.state_dicts:
        owners = find_parameters(report, file.inspected.state_dicts)
        tensors = _read_tensors(file.archive, report, left, owners)
        left -= len(tensors)
        found.append(StateDictData(report, tensors, len(report.tensors) - len(tensors)))
    return found


def _read_tensors(
    archive: Archive, report: StateDictReport, most: int, owners: dict[int, str]
) -> tuple[TensorData, ...]:
    state_dict = archive.state_dict(report.name)
    infos = state_dict.tensors()
    made = []
    for row in report.tensors[:most]:
        distribution, remark = None, ""
        info = infos[row.name]
        if type(info) is not TensorInfo:
            remark = f"{row.kind}: not read"
        else:
            try:
                array, sampled = read_numbers(state_dict, info)
                distribution = describe_numbers(array, sampled=sampled)
                remark = "" if distribution is not None else _describe_others(array)
            except SbformatError as error:
                remark = error.outcome
        found = _STATE.match(row.name)
        made.append(TensorData(row, distribution, remark, owners.get(int(found[1]), "") if found else ""))
    return tuple(made)


def _describe_others(array: Any) -> str:
    """Return why an array has no distribution."""
    return "complex numbers: not summarized" if array.dtype.kind == "c" else "not numbers: not summarized"


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
    if info.nbytes <= _LARGE_BYTES:
        return state_dict.array_of(info), False
    stream = state_dict.stream_of(info)
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

    :param array: of any shape and dtype
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
