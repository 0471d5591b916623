"""The browser of this folder's tests, which ``nox -s browser`` runs; skipped where Chromium or selenium is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.helpers.browser import Browser, find_axe, find_browser

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    pytest.importorskip("selenium")
    programs = find_browser()
    if programs is None:
        pytest.skip("chromium and chromedriver are not installed")
    browser = Browser(*programs)
    yield browser
    browser.close()


@pytest.fixture
def axe() -> None:
    if find_axe() is None:
        pytest.skip("SBFORMAT_NODE_MODULES names no folder with axe-core")
