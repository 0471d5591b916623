r"""The diagram of a network: boxes for inputs, layers and outputs, from top to bottom, and lines for what each reads.

What comes in is a :class:`~sbformat.policies.describe.Summary`; what goes out are boxes and lines with coordinates in
pixels, which a template draws. The order is that of Sugiyama, Tagawa and Toda ("Methods for visual understanding of
hierarchical system structures", 1981): :func:`find_ranks` puts each box below everything that it reads; a line that
passes a rank gets a place there, of a box without content; :func:`order_ranks` sorts each rank by the places of its
neighbours; :func:`place_boxes` moves each box towards the middle of its neighbours, as far as those beside it allow.

    observation                rank 0        name      sources
        |                                    a         observation
        a                      rank 1        b         a
       / \\                                   c         a, observation
      b   c                    rank 2
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from sbformat.html_report.page import format_shape
from sbformat.immutable import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sbformat.policies.describe import Layer, Summary

Kind: TypeAlias = Literal["input", "step", "layer", "output", "pass"]
"""``pass`` is where a line passes a rank."""

MOST_BOXES: Final = 80
"""A larger network is only listed as a table."""
_WIDTH: Final = 204
_PASS_WIDTH: Final = 12
_LINE_HEIGHT: Final = 16
_PADDING: Final = 9
_GAP: Final = 20
_RANK_GAP: Final = 34
_MARGIN: Final = 2
_SWEEPS: Final = 8
_CHARACTERS: Final = 26
"""Characters of the title of a box."""
_LINE_CHARACTERS: Final = 31
"""Characters of another line, which is not bold."""
_NAMES: Final = re.compile(r"[^\s(),\[\]=]+")


@dataclass(slots=True, kw_only=True)
class Box:
    """A box of a diagram."""

    kind: Kind
    title: str
    """Its first line; the whole name, which the template shortens."""
    lines: tuple[str, ...] = ()
    sources: list[int] = field(default_factory=list)
    """The boxes that it reads, by index."""
    rank: int = 0
    x: float = 0
    """The middle."""
    y: float = 0
    """The upper edge."""

    @property
    def width(self) -> int:
        """In pixels."""
        return _PASS_WIDTH if self.kind == "pass" else _WIDTH

    @property
    def height(self) -> int:
        """In pixels."""
        return 2 * _PADDING + _LINE_HEIGHT * (1 + len(self.lines))

    @property
    def texts(self) -> list[tuple[float, str]]:
        """Each line with the height of its baseline."""
        first = self.y + _PADDING + 12
        others = [shorten(line, _LINE_CHARACTERS) for line in self.lines]
        return [(first + _LINE_HEIGHT * at, line) for at, line in enumerate((shorten(self.title), *others))]


class Diagram(Record):
    """A diagram with coordinates in pixels."""

    width: int
    height: int
    boxes: tuple[Box, ...]
    lines: tuple[str, ...]
    """Paths of SVG."""


def make_diagram(summary: Summary) -> Diagram | None:
    """Return the diagram of a network; None for one that is too large."""
    boxes = list_boxes(summary)
    if not boxes or len(boxes) > MOST_BOXES:
        return None
    find_ranks(boxes)
    ends = insert_passes(boxes)
    ranks: list[list[int]] = [[] for _ in range(1 + max(box.rank for box in boxes))]
    for index, box in enumerate(boxes):
        ranks[box.rank].append(index)
    order_ranks(boxes, ranks)
    place_boxes(boxes, ranks)
    y = float(_MARGIN)
    for rank in ranks:
        height = max((boxes[index].height for index in rank if boxes[index].kind != "pass"), default=0)
        for index in rank:
            boxes[index].y = y if boxes[index].kind != "pass" else y + height / 2 - boxes[index].height / 2
        y += height + _RANK_GAP
    shown = tuple(box for box in boxes if box.kind != "pass")
    width = max(box.x + box.width / 2 for box in boxes) + _MARGIN
    return Diagram(round(width), round(y - _RANK_GAP + _MARGIN), shown, tuple(_draw_line(boxes, line) for line in ends))


# -- boxes --------------------------------------------------------------------------------------------


def list_boxes(summary: Summary) -> list[Box]:
    """Return the boxes of a network, each with those that it reads, which are before it."""
    boxes: list[Box] = []
    at: dict[str, int] = {}
    for item in summary.inputs:
        if item.role not in ("state", "episode_start"):
            at[item.name] = len(boxes)
            boxes.append(Box(kind="input", title=item.name, lines=(f"{format_shape(item.shape)} {item.dtype}",)))
    steps = _resolve_steps(summary)
    read = {name for layer in summary.layers for name in layer.inputs}
    for step in summary.preprocessing:
        if step.name in read:
            at[step.name] = len(boxes)
            sources = _find_sources(steps[step.name], steps, at)
            lines = (f"{step.operation.partition('(')[0]} \u2192 {format_shape(step.shape)}",)
            boxes.append(Box(kind="step", title="pre-processing", lines=lines, sources=sources))
    for layer in summary.layers:
        sources = _find_sources(layer.inputs, steps, at)
        at[layer.name] = len(boxes)
        boxes.append(Box(kind="layer", title=layer.name, lines=_describe_layer(layer), sources=sources))
    outputs: dict[tuple[int, ...], list[str]] = {}
    for head in summary.heads:
        found = tuple(_find_sources([head.source], steps, at))
        outputs.setdefault(found, []).append(f"{head.name}: {format_shape(head.shape)}")
    for sources_of, (first, *others) in outputs.items():
        boxes.append(Box(kind="output", title=first, lines=tuple(others), sources=list(sources_of)))
    return boxes


def _describe_layer(layer: Layer) -> tuple[str, ...]:
    before = ", ".join(dict.fromkeys(map(format_shape, layer.input_shapes)))
    lines = [layer.operation, f"{before} \u2192 {format_shape(layer.shape)}"]
    if len(joined := " \u00b7 ".join(lines)) <= _LINE_CHARACTERS:
        lines = [joined]
    extra = [layer.activation] if layer.activation else []
    extra += [f"{layer.parameter_count:,} parameters"] if layer.weights else []
    return (*lines, " \u00b7 ".join(extra)) if extra else tuple(lines)


def _resolve_steps(summary: Summary) -> dict[str, list[str]]:
    """Return the names that each step reads: its expression names layers, inputs, outputs and other steps."""
    sources = {head.name: head.source for head in summary.heads}
    found = {}
    for step in (*summary.preprocessing, *summary.postprocessing):
        names = _NAMES.findall(step.operation.partition("(")[2])
        found[step.name] = [sources.get(name, name) for name in names if sources.get(name, name) != step.name]
    return found


def _find_sources(names: Iterable[str], steps: dict[str, list[str]], at: dict[str, int]) -> list[int]:
    """Return the boxes that values depend on: their own, or those that their steps depend on."""
    found: set[int] = set()
    seen: set[str] = set()
    todo = list(names)
    while todo:
        part = todo.pop()
        if part in seen:
            continue
        seen.add(part)
        if part in at:
            found.add(at[part])
        else:
            todo.extend(steps.get(part, ()))
    return sorted(found)


def shorten(text: str, most: int = _CHARACTERS) -> str:
    """Return a text that fits into a box, without its middle if it is too long."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[: half - 3]}\u2026{text[-half - 2 :]}"


# -- layout -------------------------------------------------------------------------------------------


def find_ranks(boxes: Sequence[Box]) -> None:
    """Give each box the rank below everything that it reads; boxes are after their sources."""
    for box in boxes:
        box.rank = 1 + max((boxes[source].rank for source in box.sources), default=-1)


def insert_passes(boxes: list[Box]) -> list[list[int]]:
    """Add a box of the kind ``pass`` for each rank that a line passes; return the boxes along each line."""
    lines = []
    for index in range(len(boxes)):
        box = boxes[index]
        for at, source in enumerate(box.sources):
            line = [source]
            for rank in range(boxes[source].rank + 1, box.rank):
                boxes.append(Box(kind="pass", title="", sources=[line[-1]], rank=rank))
                line.append(len(boxes) - 1)
            box.sources[at] = line[-1]
            lines.append([*line, index])
    return lines


def order_ranks(boxes: Sequence[Box], ranks: list[list[int]]) -> None:
    """Sort the boxes of each rank by the mean place of their neighbours, alternately those above and below."""
    above, below = _list_neighbours(boxes)
    for sweep in range(_SWEEPS):
        neighbours = above if sweep % 2 == 0 else below
        for rank in ranks if sweep % 2 == 0 else reversed(ranks):
            place = {index: at for other in ranks for at, index in enumerate(other)}
            rank.sort(key=lambda index: _mean((place[n] for n in neighbours[index]), place[index]))


def place_boxes(boxes: Sequence[Box], ranks: Sequence[Sequence[int]]) -> None:
    """Give each box the place of the middle of its neighbours, or the nearest one that is free."""
    for rank in ranks:
        x = 0.0
        for index in rank:
            boxes[index].x = x + boxes[index].width / 2
            x += boxes[index].width + _GAP
    above, below = _list_neighbours(boxes)
    for sweep in range(2 * _SWEEPS):
        neighbours = above if sweep % 2 == 0 else below
        for rank in ranks if sweep % 2 == 0 else reversed(ranks):
            _spread(boxes, rank, [_mean((boxes[n].x for n in neighbours[i]), boxes[i].x) for i in rank])
    left = min(box.x - box.width / 2 for box in boxes)
    for box in boxes:
        box.x += _MARGIN - left


def _spread(boxes: Sequence[Box], rank: Sequence[int], wanted: Sequence[float]) -> None:
    """Place the boxes of a rank as near as possible to where they are wanted, in order and apart."""
    groups: list[tuple[float, list[int]]] = []
    offsets = [0.0]
    for left, right in pairwise(rank):
        offsets.append(offsets[-1] + (boxes[left].width + boxes[right].width) / 2 + _GAP)
    for at in range(len(rank)):  # boxes that would overlap become a group, in the middle of where they are wanted
        members = [at]
        start = wanted[at] - offsets[at]
        while groups and groups[-1][0] > start:
            members = [*groups.pop()[1], *members]
            start = _mean((wanted[i] - offsets[i] for i in members), 0.0)
        groups.append((start, members))
    for start, members in groups:
        for member in members:
            boxes[rank[member]].x = start + offsets[member]


def _list_neighbours(boxes: Sequence[Box]) -> tuple[list[list[int]], list[list[int]]]:
    """Return the boxes above and below each box."""
    below: list[list[int]] = [[] for _ in boxes]
    for index, box in enumerate(boxes):
        for source in box.sources:
            below[source].append(index)
    return [box.sources for box in boxes], below


def _mean(numbers: Iterable[float], default: float) -> float:
    found = list(numbers)
    return sum(found) / len(found) if found else default


def _draw_line(boxes: Sequence[Box], line: Sequence[int]) -> str:
    """Return the path of a line from the lower edge of the first box to the upper edge of the last one."""
    first, *middle, last = (boxes[index] for index in line)
    points = [(first.x, first.y + first.height)]
    for box in middle:
        points += [(box.x, box.y), (box.x, box.y + box.height)]
    points.append((last.x, last.y))
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x0, y0), (x1, y1) in pairwise(points):
        half = (y0 + y1) / 2
        path += f"C{x0:.1f} {half:.1f} {x1:.1f} {half:.1f} {x1:.1f} {y1:.1f}" if x0 != x1 else f"V{y1:.1f}"
    return path
