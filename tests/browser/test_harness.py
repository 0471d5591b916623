"""What the other tests of this folder rely on: the browser reports what a bad page does, and nothing of a good one."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import pytest

from tests.helpers.browser import NARROW, WIDE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.helpers.browser import Browser

GOOD: Final = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>A page</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>
  @media (prefers-color-scheme: dark) { body { background: rgb(10, 20, 30); color: rgb(250, 250, 250); } }
  @media print { body { background: rgb(1, 2, 3); } }
</style></head>
<body><main><h1>A page</h1><p>Text.</p></main></body>
</html>
"""
BAD: Final = GOOD.replace(
    "<p>Text.</p>",
    """<img src="https://sbformat.invalid/picture.png"><div style="width: 5000px">wide</div>
    <script>document.title = "executed"</script>""",
)


def write(folder: Path, text: str) -> Path:
    path = folder / "page.html"
    path.write_text(text, "utf-8")
    return path


def test_a_good_page_has_nothing_to_report(browser: Browser, axe: None, tmp_path: Path) -> None:
    browser.open(write(tmp_path, GOOD))
    assert browser.list_console() == []
    assert browser.list_requests() == []
    assert browser.find_overflow() == []
    assert browser.find_violations() == []


def test_what_a_bad_page_does_is_reported(browser: Browser, axe: None, tmp_path: Path) -> None:
    browser.open(write(tmp_path, BAD), width=NARROW)
    console = "\n".join(browser.list_console())
    assert "Content Security Policy" in console
    assert "script-src" in console
    assert browser.driver.title == "A page"
    assert "div." in browser.find_overflow()
    assert "image-alt" in {row.rule for row in browser.find_violations()}


def test_a_request_is_reported(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "other.js").write_text("", "utf-8")
    browser.open(write(tmp_path, '<!doctype html><title>A page</title><script src="other.js"></script>'))
    assert browser.list_requests() == [(tmp_path / "other.js").as_uri()]


def test_the_logs_begin_with_the_page(browser: Browser, tmp_path: Path) -> None:
    browser.open(write(tmp_path, BAD))
    browser.open(write(tmp_path, GOOD))
    assert browser.list_console() == []
    assert browser.list_requests() == []


@pytest.mark.parametrize(
    ("scheme", "media", "expected"),
    [
        ("light", "screen", "rgba(0, 0, 0, 0)"),
        ("dark", "screen", "rgb(10, 20, 30)"),
        ("light", "print", "rgb(1, 2, 3)"),
    ],
)
def test_the_page_sees_the_requested_colours(
    browser: Browser, tmp_path: Path, scheme: str, media: str, expected: str
) -> None:
    browser.open(write(tmp_path, GOOD), scheme=scheme, media=media)  # type: ignore[arg-type]
    assert browser.run("return getComputedStyle(document.body).backgroundColor") == expected


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_a_picture_has_the_requested_width(browser: Browser, tmp_path: Path, width: int) -> None:
    browser.open(write(tmp_path, GOOD), width=width)
    picture = browser.picture()
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">I", picture[16:20]) == (width,)
    assert browser.print_pages()[:5] == b"%PDF-"
