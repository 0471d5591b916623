"""How far the weights of two files are apart: by tensor, by layer, and as histograms drawn over each other."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from sbformat.constants import OPTIMIZER_WORD
from sbformat.errors import SbformatError
from sbformat.html_report.weights import describe_numbers, read_numbers
from sbformat.immutable import Record
from sbformat.pth.compare import difference
from sbformat.pth.values import TensorInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sbformat.archive.archive import Archive
    from sbformat.html_report.plots import Histogram
    from sbformat.limits import Budget
    from sbformat.pth import StateDict
    from sbformat.pth.compare import Difference

MOST_TENSORS: Final = 1000
"""Tensors of a page whose numbers are compared; the others are counted."""
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
    """Compare the tensors of two archives that have state dicts of the same names.

    :param first: the one that changes are relative to
    :param second: the other one
    """
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
            tensors = left.tensors(), right.tensors()
        except SbformatError:
            unreadable.append(name)
            continue
        paths = list({**tensors[0], **tensors[1]})
        most = max(0, MOST_TENSORS - len(pairs))
        budgets = left.new_budget(), right.new_budget()
        pairs += [_compare_tensors(name, path, left, right, budgets) for path in paths[:most]]
        omitted += len(paths[most:])
    return ChangedWeights(tuple(pairs), omitted, tuple(unreadable))


def _compare_tensors(
    entry: str, path: str, left: StateDict, right: StateDict, budgets: tuple[Budget, Budget]
) -> TensorPair:
    infos = left.tensors().get(path), right.tensors().get(path)
    shapes = _find_shape(infos[0]), _find_shape(infos[1])
    dtypes = getattr(infos[0], "dtype", None), getattr(infos[1], "dtype", None)
    numbers, remark = None, ""
    if infos[0] is None or infos[1] is None:
        remark = f"only in the {'second' if infos[0] is None else 'first'} file"
    elif not isinstance(infos[0], TensorInfo) or not isinstance(infos[1], TensorInfo):
        remark = "not compared number by number"
    elif shapes[0] != shapes[1] or dtypes[0] != dtypes[1]:
        remark = "another shape" if shapes[0] != shapes[1] else "another dtype"
    else:
        try:
            numbers = difference(infos[0], infos[1], *budgets)
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
    return [LayerPair(name, _divide(*sums)) for name, sums in norms.items()]


def _divide(change: float, norm: float) -> float:
    if norm == 0:
        return math.inf if change else 0.0
    return change / norm


def choose_bars(layers: Sequence[LayerPair]) -> list[LayerPair]:
    """Return the layers of the plot, in their order: those whose change is a number, and not the least."""
    finite = [layer for layer in layers if math.isfinite(layer.relative_change)]
    most = sorted(finite, key=lambda layer: -layer.relative_change)[:MOST_BARS]
    return [layer for layer in finite if layer in most]


def make_overlays(changed: ChangedWeights, first: Archive, second: Archive) -> list[Overlay]:
    """Return the histograms of the tensors that changed most, those of policies first."""
    differing = [pair for pair in changed.pairs if pair.numbers is not None and not pair.is_equal]
    differing.sort(key=lambda pair: (OPTIMIZER_WORD in pair.entry, -_rank(pair.relative_change)))
    made: list[Overlay] = []
    for pair in differing:
        if len(made) == MOST_OVERLAYS:
            break
        overlay = _make_overlay(pair, first.state_dict(pair.entry), second.state_dict(pair.entry))
        if overlay is not None:
            made.append(overlay)
    places = {(pair.entry, pair.name): place for place, pair in enumerate(changed.pairs)}
    return sorted(made, key=lambda overlay: places[overlay.pair.entry, overlay.pair.name])


def _rank(change: float | None) -> float:
    return math.inf if change is None or math.isnan(change) else change


def _read_numbers(state_dict: StateDict, name: str) -> Any:
    info = state_dict.tensors()[name]
    return read_numbers(state_dict, info)[0] if isinstance(info, TensorInfo) else state_dict.array(name)


def _make_overlay(pair: TensorPair, first: StateDict, second: StateDict) -> Overlay | None:
    try:
        arrays = [_read_numbers(part, pair.name) for part in (first, second)]
    except SbformatError:
        return None
    found = [describe_numbers(array) for array in arrays]
    lows = [row.minimum for row in found if row is not None and row.minimum is not None]
    highs = [row.maximum for row in found if row is not None and row.maximum is not None]
    if len(lows) < len(found):
        return None
    low, high = min(lows), max(highs)
    drawn = [row.histogram if row is not None else None for row in (describe_numbers(a, (low, high)) for a in arrays)]
    if drawn[0] is None or drawn[1] is None:
        return None
    return Overlay(pair, drawn[0], drawn[1])
