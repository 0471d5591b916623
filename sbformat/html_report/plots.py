"""Plots of a page: numbers in, SVG out, drawn by matplotlib, with the same bytes for the same numbers.

The only text from a file in a plot are the names of bars, in ASCII and not read as formulas. Other labels are HTML
beside the plot. :func:`convert_svg` puts what matplotlib wrote into the page: the Content-Security-Policy forbids
``style`` attributes, colours follow the light or dark theme, and ids are different from plot to plot. Elements and
attributes that are not listed here are left out, so that nothing in a plot can run or load. ::

    <path d="M 0 70.000000" style="fill: #000004; stroke: none" id="patch_1"/>   becomes
    <path d="M 0 70" fill="var(--series-1)" stroke="none" id="f0-patch_1" />
"""

from __future__ import annotations

import io
import math
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from sbformat.html_report.page import escape_text, mark_safe, quiet_matplotlib
from sbformat.immutable import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from xml.etree.ElementTree import Element

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

TEXT, MUTED, LINE = "#000001", "#000002", "#000003"
SERIES: Final = tuple(f"#00000{digit}" for digit in "456789")
"""The colours of lines beside each other; each has a pattern of dashes, too."""
SERIES_1, SERIES_2 = SERIES[:2]
_DASHES: Final[tuple[Any, ...]] = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)), (0, (9, 2)), (0, (3, 3)))
_COLOURS: Final = {
    TEXT: "var(--text)", MUTED: "var(--muted)", LINE: "var(--line)",
    **{colour: f"var(--series-{place})" for place, colour in enumerate(SERIES, 1)},
}  # fmt: skip
"""The colours to draw with, and what they become: variables of the page's style sheet."""
_ELEMENTS: Final = frozenset({"svg", "g", "defs", "clipPath", "path", "rect", "use", "text", "tspan"})
_ATTRIBUTES: Final = frozenset({
    "id", "class", "role", "aria-label", "viewBox", "d", "x", "y", "width", "height", "transform", "clip-path",
    "fill", "fill-opacity", "fill-rule", "stroke", "stroke-width", "stroke-linecap", "stroke-linejoin",
    "stroke-dasharray", "stroke-dashoffset", "stroke-miterlimit", "stroke-opacity", "opacity", "font-size",
    "text-anchor",
})  # fmt: skip
_REFERENCE: Final = re.compile(r"#([\w.-]+)")
_DECIMALS: Final = re.compile(r"\.0+\b|(\.\d\d)\d+")  # decimals beyond two: hundredths of a pixel
_FONT_SIZE: Final = re.compile(r"[\d.]+px")
_POINTS_PER_INCH: Final = 72
_LABEL: Final = 26  # characters of a label
_LEAST: Final = 1e-100  # numbers of which the largest is between this and its inverse are drawn as they are
_MARGIN: Final = 1e-3  # above and below equal numbers, the part of them that the axis shows
_FEW_POINTS: Final = 60  # that are drawn on the line of a curve
_SETTINGS: Final = {
    "svg.fonttype": "none", "svg.hashsalt": "sbformat", "svg.image_inline": True, "text.usetex": False, "font.size": 10,
    "axes.edgecolor": LINE, "axes.facecolor": "none", "axes.grid.axis": "y", "axes.labelcolor": MUTED,
    "axes.linewidth": 1, "axes.spines.left": False, "axes.spines.right": False, "axes.spines.top": False,
    "axes.unicode_minus": True, "figure.facecolor": "none", "grid.color": LINE, "grid.linewidth": 0.75,
    "path.simplify": False, "xtick.color": LINE, "xtick.labelcolor": MUTED, "xtick.major.size": 3,
    "ytick.color": LINE, "ytick.labelcolor": MUTED, "ytick.major.size": 0,
}  # fmt: skip
"""Settings of matplotlib over its defaults: those of the user do not change a page."""


class Histogram(Record):
    """Counts of equally wide bins."""

    counts: tuple[int, ...]
    low: float
    """The lower edge of the first bin."""
    high: float
    """The upper edge of the last bin."""

    def edges(self) -> list[float]:
        """Return the edges of the bins, one more than bins; far apart ones without an overflow."""
        count = len(self.counts)
        return [self.low * (1 - at / count) + self.high * (at / count) for at in range(count + 1)]


class Line(Record):
    """A line of a plot, with a band around it."""

    steps: Sequence[float]
    values: Sequence[float]
    low: Sequence[float] = ()
    """The lower edge of the band; empty without one, as the next field."""
    high: Sequence[float] = ()


class Plots:
    """Draws the plots of one page."""

    def __init__(self) -> None:
        self._count = 0

    @property
    def next_name(self) -> str:
        """The id of the plot that is drawn next, to which others can refer."""
        return f"f{self._count}"

    def draw_histogram(self, first: Histogram, *, label: str, second: Histogram | None = None) -> Any:
        """Return a small histogram, without an axis of counts.

        :param label: what a screen reader says
        :param second: drawn over it as a line, in the second colour
        """
        limits = [first.low, first.high]
        limits += [second.low, second.high] if second is not None else []

        def draw(axes: Axes, power: int) -> None:
            axes.stairs(first.counts, shift(first.edges(), power), fill=True, color=SERIES_1)
            if second is not None:
                axes.stairs(second.counts, shift(second.edges(), power), color=SERIES_2, linewidth=1.5)
            axes.set_ylim(bottom=0)
            axes.set_yticks([])
            axes.margins(x=0)
            _choose_ticks(axes.xaxis, 3, power=power)
            axes.tick_params(axis="x", labelsize=11, pad=3)

        return self._draw(draw, limits, (200, 84), (16, 23, 184, 82), label)

    def draw_schedule(self, values: Sequence[float], *, label: str) -> Any:
        """Return a small plot of a number over the progress of the training, from 0 to 100%.

        :param values: at equal distances; numbers that are not finite are gaps
        :param label: what a screen reader says
        """
        finite = [value for value in values if math.isfinite(value)]

        def draw(axes: Axes, power: int) -> None:
            axes.grid(visible=True, axis="y")
            fractions = [at / (len(values) - 1) for at in range(len(values))]
            heights = [value if math.isfinite(value) else math.nan for value in shift(values, power)]
            axes.plot(fractions, heights, color=SERIES_1, linewidth=1.5)
            axes.set_xlim(0, 1)
            _widen_equal(axes, shift(finite, power))
            _choose_ticks(axes.xaxis, 2, percent=True)
            _choose_ticks(axes.yaxis, 3, power=power)

        return self._draw(draw, finite, (200, 84), (44, 20, 186, 78), label)

    def draw_series(self, values: Sequence[float], averages: Sequence[float], *, label: str) -> Any:
        """Return a plot of numbers in their order as points, with a line of averages.

        :param values: one number a position, from 1
        :param averages: as many, or none
        :param label: what a screen reader says
        """

        def draw(axes: Axes, power: int) -> None:
            positions = range(1, len(values) + 1)
            heights = shift(values, power)
            _draw_points(axes, positions, heights, 3.2, power)
            _widen_equal(axes, heights)
            if averages:
                axes.plot(positions, shift(averages, power), color=SERIES_2, linewidth=1.5)

        return self._draw(draw, values, (360, 190), (48, 22, 352, 184), label)

    def draw_curve(self, steps: Sequence[int], values: Sequence[float], *, label: str) -> Any:
        """Return a plot of numbers over steps as a line, with a point for each of a few.

        :param steps: one a number, in their order
        :param label: what a screen reader says
        """

        def draw(axes: Axes, power: int) -> None:
            heights = shift(values, power)
            size = 3.2 if len(steps) <= _FEW_POINTS else 0
            axes.plot(steps, heights, color=SERIES_1, linewidth=1.5, marker="o", markersize=size, markeredgewidth=0)
            _show_steps(axes, steps, heights, power)

        return self._draw(draw, values, (360, 190), (48, 22, 344, 184), label)

    def draw_lines(self, lines: Sequence[Line], *, label: str) -> Any:
        """Return a plot of several curves over steps, the first ones as many as there are colours.

        :param lines: of finite numbers
        :param label: what a screen reader says
        """
        drawn = lines[: len(SERIES)]
        edges = [value for line in drawn for value in (*line.values, *line.low, *line.high)]

        def draw(axes: Axes, power: int) -> None:
            for line, colour, dashes in zip(drawn, SERIES, _DASHES):
                if line.low:
                    low, high = shift(line.low, power), shift(line.high, power)
                    axes.fill_between(line.steps, low, high, color=colour, alpha=0.16, linewidth=0)
                size = 3.2 if len(line.steps) == 1 else 0
                heights = shift(line.values, power)
                axes.plot(line.steps, heights, color=colour, linewidth=1.75, linestyle=dashes, marker="o",
                          markersize=size, markeredgewidth=0)  # fmt: skip
            steps = [step for line in drawn for step in line.steps]
            _show_steps(axes, steps, shift(edges, power), power)

        return self._draw(draw, edges, (360, 210), (48, 22, 344, 204), label)

    def draw_intervals(self, centers: Sequence[float], widths: Sequence[float], *, label: str) -> Any:
        """Return a plot of numbers by index, each with an interval around it.

        :param centers: one number an index, from 0
        :param widths: the distance of the interval's ends from it
        :param label: what a screen reader says
        """

        def draw(axes: Axes, power: int) -> None:
            positions = range(len(centers))
            middle, half = shift(centers, power), shift(widths, power)
            low = [center - width for center, width in zip(middle, half)]
            high = [center + width for center, width in zip(middle, half)]
            thick = max(1.0, min(6.0, 180 / len(centers)))
            axes.vlines(positions, low, high, color=SERIES_1, linewidth=thick, alpha=0.45)
            _draw_points(axes, positions, middle, 3, power)
            axes.set_xlim(-0.6, len(centers) - 0.4)

        return self._draw(draw, [*centers, *widths], (360, 190), (48, 22, 352, 184), label)

    def draw_bars(self, names: Sequence[str], values: Sequence[float], *, label: str) -> Any:
        """Return a plot of fractions as bars, one below the other, with an axis in percent.

        :param names: of the bars; what is not ASCII is replaced, and long ones are shortened
        :param values: one number a name, of 0 or more
        :param label: what a screen reader says
        """

        def draw(axes: Axes, power: int) -> None:
            axes.grid(visible=True, axis="x")
            axes.set_axisbelow(True)
            positions = range(len(values))
            axes.barh(positions, shift(values, power), height=0.62, color=SERIES_1)
            axes.set_yticks(positions, [_shorten(name) for name in names])
            for text in axes.get_yticklabels():
                text.set_parse_math(False)
            axes.tick_params(axis="y", labelcolor=TEXT)
            axes.set_ylim(len(values) - 0.4, -0.6)
            axes.set_xlim(left=0)
            _choose_ticks(axes.xaxis, 4, percent=True, power=power)

        height = 16 * len(values) + 24
        return self._draw(draw, values, (360, height), (150, 20, 346, height - 4), label)

    def _draw(
        self,
        draw: Callable[[Axes, int], None],
        values: Sequence[float],
        size: tuple[int, int],
        box: tuple[int, int, int, int],
        label: str,
    ) -> Any:
        """Return a plot.

        :param draw: draws on axes, its numbers divided by a power of ten
        :param values: that it draws
        :param size: width and height in pixels
        :param box: left, bottom, right and top of the axes
        """
        (width, height), (left, bottom, right, top) = size, box
        document = io.StringIO()
        with quiet_matplotlib():
            from matplotlib import style
            from matplotlib.backends.backend_svg import FigureCanvasSVG
            from matplotlib.figure import Figure

            with style.context(["default", _SETTINGS]):
                figure = Figure(figsize=(width / _POINTS_PER_INCH, height / _POINTS_PER_INCH), dpi=_POINTS_PER_INCH)
                axes = figure.add_axes((left / width, bottom / height, (right - left) / width, (top - bottom) / height))
                draw(axes, find_power(values))
                canvas: Any = FigureCanvasSVG(figure)
                canvas.print_svg(document, metadata={"Date": None})
        name = self.next_name
        self._count += 1
        return convert_svg(document.getvalue(), label, name)


def _show_steps(axes: Axes, steps: Sequence[float], heights: Sequence[float], power: int) -> None:
    """Put steps and numbers on the axes of curves."""
    axes.grid(visible=True, axis="y")
    if steps and min(steps) == max(steps):
        margin = max(1, abs(steps[0]) * _MARGIN)
        axes.set_xlim(steps[0] - margin, steps[0] + margin)
    _widen_equal(axes, heights)
    _choose_ticks(axes.xaxis, 4)
    _choose_ticks(axes.yaxis, 5, power=power)


def _widen_equal(axes: Axes, heights: Sequence[float]) -> None:
    """Show a part above and below numbers that are all equal."""
    if min(heights) == max(heights):
        margin = max(1, abs(heights[0]) * _MARGIN)
        axes.set_ylim(heights[0] - margin, heights[0] + margin)


def _draw_points(axes: Axes, positions: range, heights: Sequence[float], size: float, power: int) -> None:
    """Draw points over whole numbers."""
    axes.grid(visible=True, axis="y")
    axes.plot(positions, heights, linestyle="", marker="o", markersize=size, markeredgewidth=0, color=SERIES_1)
    _choose_ticks(axes.xaxis, 6, integer=True)
    _choose_ticks(axes.yaxis, 5, power=power)


def convert_svg(document: str, label: str, name: str) -> Any:
    """Return a document of matplotlib as an element for a page.

    :param document: the SVG
    :param label: what a screen reader says; any text
    :param name: the id of the element; those in it begin with it
    """
    from xml.etree.ElementTree import fromstring, tostring

    root = fromstring(document)  # noqa: S314 -- written by matplotlib
    for parent in root.iter():
        for child in list(parent):
            if _local_name(child.tag) not in _ELEMENTS:
                parent.remove(child)
    for element in root.iter():
        _convert_element(element, f"{name}-")
    root.attrib = {
        "id": name, "class": "plot", "role": "img", "aria-label": escape_text(label), "viewBox": root.attrib["viewBox"],
    }  # fmt: skip
    return mark_safe(tostring(root, encoding="unicode"))


def _convert_element(element: Element, prefix: str) -> None:
    """Make attributes of the style of an element, and leave out what is not listed."""
    found = {_local_name(name): value for name, value in element.attrib.items()}
    for declaration in found.pop("style", "").split(";"):
        name, _, value = (part.strip() for part in declaration.partition(":"))
        found[name] = _COLOURS.get(value.lower(), value)
    if size := _FONT_SIZE.search(found.get("font", "")):
        found["font-size"] = size[0]
    element.tag = _local_name(element.tag)
    if element.tag == "g":
        found.pop("id", None)  # to which nothing refers
    elif "id" in found:
        found["id"] = prefix + found["id"]
    element.attrib = {
        name: _DECIMALS.sub(r"\1", _REFERENCE.sub(rf"#{prefix}\1", " ".join(value.split())))
        for name, value in found.items()
        if (name in _ATTRIBUTES and "url(" not in value.replace("url(#", ""))
        or (name == "href" and value.startswith("#"))
    }
    element.text, element.tail = (element.text or "").strip(), None


def _local_name(name: str) -> str:
    return name.rpartition("}")[2]


def _shorten(name: str) -> str:
    """Return the end of a name, in characters that every font has."""
    plain = name.encode("ascii", "replace").decode("ascii")
    plain = "".join(character if character.isprintable() else "?" for character in plain)
    return plain if len(plain) <= _LABEL else f"...{plain[3 - _LABEL :]}"


def find_power(values: Iterable[float]) -> int:
    """Return the power of ten by which numbers are divided to be drawn: 0 unless they are huge, or all are tiny.

    matplotlib multiplies and subtracts what it draws: beyond 1e154 or below 1e-154 it would overflow, or draw nothing.
    """
    largest = max(map(abs, values))
    return 0 if largest == 0 or _LEAST <= largest <= 1 / _LEAST else math.floor(math.log10(largest))


def shift(values: Iterable[float], power: int) -> list[float]:
    """Return numbers divided by a power of ten, in two steps: 1e-320 is less than the inverse of the largest float."""
    first = -power // 2
    return [float(value) * 10.0**first * 10.0 ** (-power - first) for value in values]


def _choose_ticks(axis: Axis, most: int, *, integer: bool = False, percent: bool = False, power: int = 0) -> None:
    """Put round numbers on an axis, each with its own exponent.

    :param percent: 0.5 is ``50%``
    :param power: of ten, by which the numbers of the axis were divided
    """
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins=most, integer=integer, steps=[1, 2, 2.5, 5, 10]))
    scale, unit = (100, "%") if percent else (1, "")

    def format_tick(value: float, _: object) -> str:
        shown = f"{scale * value:,.6g}"
        if power and value:
            shown = f"{Decimal(shown.replace(',', '')).scaleb(power).normalize():.6g}"
        return f"{shown}{unit}".replace("-", "\u2212")

    axis.set_major_formatter(FuncFormatter(format_tick))
