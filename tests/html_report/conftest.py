"""Pages with few plots, for tests of the rest of a page: to draw all of an agent takes a second."""

from __future__ import annotations

import pytest


@pytest.fixture
def few_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw two plots of the weights of an agent."""
    monkeypatch.setattr("sbformat.html_report.archive_page.MOST_PLOTS", 2)
