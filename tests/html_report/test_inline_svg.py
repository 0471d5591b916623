"""Plots within a page: no style attributes, colours of the page, ids of their own."""

from __future__ import annotations

import re

import pytest

from sbformat.html_report.plots import SERIES_1, Histogram, Plots, convert_svg

PLOT = f"""<?xml version="1.0"?>
<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 10 20.500000">
 <metadata>secret</metadata>
 <defs><style type="text/css">*{{stroke: red}}</style></defs>
 <g id="figure_1">
  <path id="background" d="M 0 0" style="fill: none"/>
  <path id="shape" d="M 0.123456
   L -7.000000 1.500000" clip-path="url(#clip)" style="fill: {SERIES_1}; stroke-width: 2"/>
  <text style="font: 8px 'Some Font', serif; text-anchor: middle" x="1.000000" y="2">1 &lt; 2</text>
  <use xlink:href="#shape" x="1" onload="alert(1)"/>
 </g>
 <defs><clipPath id="clip"><rect width="10" height="20"/></clipPath></defs>
</svg>"""


def test_styles_become_attributes_in_the_colours_of_the_page() -> None:
    found = str(convert_svg(PLOT, 'a "label" <b>', "f0"))
    assert "style" not in found
    (path,) = re.findall(r'<path [^>]*id="f0-shape"[^>]*>', found)
    for part in ('d="M 0.12 L -7 1.50"', 'clip-path="url(#f0-clip)"', 'fill="var(--series-1)"', 'stroke-width="2"'):
        assert part in path
    (text,) = re.findall(r"<text [^>]*>1 &lt; 2</text>", found)
    assert 'font-size="8px"' in text
    assert 'text-anchor="middle"' in text
    (use,) = re.findall("<use [^>]*>", found)
    assert 'href="#f0-shape"' in use
    assert 'aria-label="a &quot;label&quot; &lt;b&gt;"' in found
    for left_out in ("secret", "red", "onload", "alert", "Some Font", "figure_1"):
        assert left_out not in found


@pytest.mark.parametrize(
    "element",
    [
        "<script>attack()</script>", "<style>p{}</style>", "<foreignObject><b>x</b></foreignObject>",
        '<a href="javascript:attack()">x</a>', '<image href="https://attack"/>', '<use href="https://attack#x"/>',
        '<path onload="attack()"/>', '<path style="fill: url(https://attack)"/>', '<animate onbegin="attack()"/>',
    ],
)  # fmt: skip
def test_nothing_in_a_plot_runs_or_loads(element: str) -> None:
    document = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1">{element}<path d="M 0 0"/></svg>'
    found = str(convert_svg(document, "", "f0"))
    assert '<path d="M 0 0"' in found
    assert not re.search(r"attack|<script|<style|foreign", found)


def test_ids_of_two_plots_differ() -> None:
    first, second = (set(re.findall(r'id="([^"]+)"', str(convert_svg(PLOT, "", name)))) for name in ("f0", "f1"))
    assert len(first) == len(second) == 4
    assert not first & second
    plots = Plots()
    drawn = "".join(str(plots.draw_histogram(Histogram((0, 3, 1), -1.0, 2.0), label="h")) for _ in range(2))
    ids = re.findall(r' id="([^"]+)"', drawn)
    assert len(ids) == len(set(ids)) > 0
    assert set(re.findall(r'#([^")]+)', drawn)) <= set(ids)


def test_real_plots_have_neither_styles_nor_fixed_colours() -> None:
    plots = Plots()
    histogram = Histogram((0, 3, 1), -1.0, 2.0)
    drawn = [
        plots.draw_histogram(histogram, label="h", second=Histogram((1, 1, 1), -1.0, 2.0)),
        plots.draw_series([1.0, 2.0, -3.5] * 10, [0.5] * 30, label="s"),
        plots.draw_series([5.0], [], label="one"),
        plots.draw_series([5.0] * 3, [], label="equal"),
        plots.draw_intervals([1.0, 2.0], [0.5, 0.0], label="i"),
    ]
    for svg in map(str, drawn):
        assert not re.search(r"style|#[0-9a-f]{6}\b|rgb|<metadata|font-family", svg)
        assert "<path" in svg
        assert "var(--series-1)" in svg
    assert "var(--series-2)" in drawn[0]


def test_numbers_are_drawn_the_same_whatever_the_settings_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    import matplotlib as mpl

    def draw() -> str:
        plots = Plots()
        return str(plots.draw_histogram(Histogram((1, 2, 1), 0.0, 1.0), label=""))

    expected = draw()
    monkeypatch.setitem(mpl.rcParams, "font.size", 30)
    monkeypatch.setitem(mpl.rcParams, "svg.fonttype", "path")
    monkeypatch.setitem(mpl.rcParams, "axes.spines.top", True)
    assert draw() == expected
    assert mpl.rcParams["font.size"] == 30


@pytest.mark.parametrize(("low", "high"), [(-1e300, 1e300), (0.0, 5e-300), (1.0, 1.0 + 1e-12)])
def test_edges_stay_finite_and_ordered(low: float, high: float) -> None:
    edges = Histogram((1,) * 40, low, high).edges()
    assert (edges[0], edges[-1], len(edges)) == (low, high, 41)
    assert edges == sorted(edges)
