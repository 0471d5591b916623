"""The documentation site in a browser: it fits the window, loads nothing from elsewhere, search and copying work."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Final, Literal

import pytest

from tests.helpers.browser import NARROW, WIDE, serve, wait_for
from tests.helpers.bundled import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.helpers.browser import Browser

PAGES: Final = (
    "", "install/", "tutorials/is-it-safe/", "tutorials/run-without-torch/", "reference/commands/", "reference/api/",
    "reference/errors/", "reference/limits/", "format/", "changelog/",
)  # fmt: skip


OF_THE_THEME: Final = ("landmark-unique", "scrollable-region-focusable")
"""Rules of axe-core: the buttons of each block are a landmark; blocks take the focus only where a mouse can hover."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with the site."""
    for module in ("mkdocs", "material", "mkdocstrings"):
        pytest.importorskip(module)
    out = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(out)], cwd=ROOT, check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    with serve(out) as served:
        yield served.address


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("page", PAGES)
def test_a_page_fits_the_window_and_loads_only_itself(browser: Browser, site: str, page: str, width: int) -> None:
    browser.open(site + page, width=width)
    assert browser.find_overflow() == []
    assert [line for line in browser.list_console() if "SEVERE" in line] == []
    assert [address for address in browser.list_requests() if not address.startswith(site)] == []
    browser.picture(f"site-{page.strip('/').replace('/', '-') or 'home'}-{width}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", ["", "tutorials/is-it-safe/", "reference/commands/"])
def test_a_page_is_accessible(
    browser: Browser, axe: None, site: str, page: str, scheme: Literal["light", "dark"]
) -> None:
    browser.open(site + page, scheme=scheme)
    assert browser.find_violations(*OF_THE_THEME) == []


def test_the_home_page_follows_the_colours_of_the_system(browser: Browser, site: str) -> None:
    colours = []
    schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
    for scheme in schemes:
        browser.open(site, scheme=scheme)
        colours.append(browser.run("return getComputedStyle(document.body).backgroundColor"))
        browser.picture(f"site-home-{scheme}", whole=False)
    assert colours[0] != colours[1]


SEARCH: Final = """
    const query = document.querySelector(".md-search__input");
    query.focus();
    query.value = arguments[0];
    for (const name of ["focus", "input", "keyup"]) query.dispatchEvent(new Event(name, {bubbles: true}));
"""
RESULTS: Final = """
    const links = [...document.querySelectorAll(".md-search-result__link")];
    return links.map((link) => link.pathname + link.hash);
"""


@pytest.mark.parametrize(
    ("words", "result"),
    [("central directory", "/format/#23-central-directory"), ("rebuild target", "/reference/commands/#rebuild")],
)
def test_search_finds(browser: Browser, site: str, words: str, result: str) -> None:
    browser.open(site)
    browser.run(SEARCH, words)
    wait_for(lambda: result in browser.run(RESULTS))


def test_copying_a_console_block_copies_its_commands(browser: Browser, site: str) -> None:
    browser.open(f"{site}tutorials/is-it-safe/")
    copied = browser.run(
        """
        const blocks = [...document.querySelectorAll("code")];
        const block = blocks.find((code) => code.textContent.includes("$ sbformat scan"));
        block.setAttribute("data-md-copying", "");
        return [block.textContent, block.innerText];
        """
    )
    assert "dangerous (harmful)" in copied[0]
    assert [line for line in copied[1].splitlines() if line.strip()] == ["sbformat scan tests/archives/dangerous.zip"]
