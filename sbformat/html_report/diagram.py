"""The diagram of a network: columns of boxes for inputs, layers and outputs, and lines for what each reads.

What comes in is a :class:`~sbformat.policies.describe.Summary`; what goes out are boxes and lines with coordinates in
pixels, which a template draws. A box is in the row of its depth, below everything that it reads, and in the column of
the first layer that it reads, if no other box of its row is there; otherwise in a column further to the right. Boxes
that read nothing are placed after the others, each above the first box that reads it.

    name      reads                          column 0       column 1
    a         observation           row 0    observation
    b         a                     row 1    a
    c         a                     row 2    b              c
    d         b, observation        row 3    d

A line runs between columns where it passes a box: that of ``d`` and ``observation`` to the right of column 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from sbformat.html_report.page import format_shape
from sbformat.immutable import Record
from sbformat.policies.describe import find_sources, resolve_steps
from sbformat.rendering import count_noun

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sbformat.policies.describe import Layer, Summary

Kind: TypeAlias = Literal["input", "step", "layer", "output"]

MOST_BOXES: Final = 80
"""A larger network is only listed as a table."""
_WIDTH: Final = 204
_LINE_HEIGHT: Final = 16
_PADDING: Final = 9
_GAP: Final = 20
_ROW_GAP: Final = 34
_MARGIN: Final = 2
_CHARACTERS: Final = 26  # characters of the title of a box
_LINE_CHARACTERS: Final = 31  # characters of another line, which is not bold


@dataclass(slots=True, kw_only=True)
class Box:
    """A box of a diagram."""

    kind: Kind
    title: str
    """Its first line; the whole name, which the template shortens."""
    lines: tuple[str, ...] = ()
    sources: list[int] = field(default_factory=list)
    """The boxes that it reads, by index."""
    row: int = 0
    column: int = 0
    y: float = 0
    """The upper edge."""
    width: int = _WIDTH

    @property
    def x(self) -> float:
        """The middle."""
        return _MARGIN + _WIDTH / 2 + self.column * (_WIDTH + _GAP)

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
    rows = place_boxes(boxes)
    y = float(_MARGIN)
    for row in rows:
        for box in row.values():
            box.y = y
        y += max(box.height for box in row.values()) + _ROW_GAP
    width = max(box.x for box in boxes) + _WIDTH / 2 + _GAP / 2 + _MARGIN
    lines = tuple(_draw_line(boxes[source], box, rows) for box in boxes for source in box.sources)
    return Diagram(round(width), round(y - _ROW_GAP + _MARGIN), tuple(boxes), lines)


# -- boxes --------------------------------------------------------------------------------------------


def list_boxes(summary: Summary) -> list[Box]:
    """Return the boxes of a network, each with those that it reads, which are before it."""
    boxes: list[Box] = []
    at: dict[str, int] = {}
    steps = resolve_steps(summary)

    def add(name: str, box: Box, reads: Iterable[str] = ()) -> None:
        box.sources = find_sources(reads, steps, at)
        at[name] = len(boxes)
        boxes.append(box)

    for item in summary.inputs:
        if item.role not in ("state", "episode_start"):
            add(item.name, Box(kind="input", title=item.name, lines=(f"{format_shape(item.shape)} {item.dtype}",)))
    read = {name for layer in summary.layers for name in layer.inputs}
    for step in summary.preprocessing:
        if step.name in read:
            lines = (f"{step.operation.partition('(')[0]} \u2192 {format_shape(step.shape)}",)
            add(step.name, Box(kind="step", title="pre-processing", lines=lines), steps[step.name])
    for layer in summary.layers:
        add(layer.name, Box(kind="layer", title=layer.name, lines=_describe_layer(layer)), layer.inputs)
    outputs: dict[tuple[int, ...], list[str]] = {}
    for head in summary.heads:
        found = tuple(find_sources([head.source], steps, at))
        outputs.setdefault(found, []).append(f"{head.name}: {format_shape(head.shape)}")
    for sources, (first, *others) in outputs.items():
        boxes.append(Box(kind="output", title=first, lines=tuple(others), sources=list(sources)))
    return boxes


def _describe_layer(layer: Layer) -> tuple[str, ...]:
    before = ", ".join(dict.fromkeys(map(format_shape, layer.input_shapes)))
    after = format_shape(layer.shape)
    lines = [layer.operation, f"{before} \u2192 {after}" if before else after]
    if len(joined := " \u00b7 ".join(lines)) <= _LINE_CHARACTERS:
        lines = [joined]
    extra = [layer.activation] if layer.activation else []
    extra += [count_noun(layer.parameter_count, "parameter")] if layer.weights else []
    return (*lines, " \u00b7 ".join(extra)) if extra else tuple(lines)


def shorten(text: str, most: int = _CHARACTERS) -> str:
    """Return a text that fits into a box, without its middle if it is too long."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[: half - 3]}\u2026{text[-half - 2 :]}"


# -- places and lines ---------------------------------------------------------------------------------


def place_boxes(boxes: Sequence[Box]) -> list[dict[int, Box]]:
    """Give each box its row and column; return the boxes of each row by column. Boxes are after their sources."""
    readers: dict[int, list[Box]] = {}
    for box in boxes:
        box.row = 1 + max((boxes[source].row for source in box.sources), default=-1)
        for source in box.sources:
            readers.setdefault(source, []).append(box)
    rows: list[dict[int, Box]] = [{} for _ in range(1 + max(box.row for box in boxes))]
    for at, box in sorted(enumerate(boxes), key=lambda pair: not pair[1].sources):
        layers = [boxes[source] for source in box.sources if boxes[source].sources]
        near = layers if box.sources else readers.get(at, [])
        box.column = near[0].column if near else 0
        while box.column in rows[box.row]:
            box.column += 1
        rows[box.row][box.column] = box
    return rows


def _draw_line(source: Box, box: Box, rows: Sequence[dict[int, Box]]) -> str:
    """Return the path of a line from the lower edge of a box to the upper edge of one that reads it."""
    x, y = source.x, source.y + source.height
    path = f"M{x:.1f} {y:.1f}"
    if passed := rows[source.row + 1 : box.row]:
        is_free = all(box.column not in row for row in passed)
        between = box.x if is_free else box.x + (_WIDTH + _GAP) / 2
        path += _draw_curve(x, y, between, min(other.y for other in passed[0].values()))
        x, y = between, box.y - _ROW_GAP
        path += f"V{y:.1f}"
    return path + _draw_curve(x, y, box.x, box.y)


def _draw_curve(x0: float, y0: float, x1: float, y1: float) -> str:
    half = (y0 + y1) / 2
    return f"C{x0:.1f} {half:.1f} {x1:.1f} {half:.1f} {x1:.1f} {y1:.1f}" if x0 != x1 else f"V{y1:.1f}"
