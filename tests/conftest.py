"""Hypothesis draws the same examples in every run; what modules tell stands in the summary."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings

from tests.helpers.shared_files import TOLD

settings.register_profile("sbformat", derandomize=True, database=None, deadline=None)
settings.load_profile("sbformat")


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Keep what a worker's modules told."""
    node.config.stash.setdefault(TOLD, []).extend(getattr(node, "workeroutput", {}).get("told", []))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Show it all."""
    for line in sorted(config.stash.get(TOLD, [])):
        terminalreporter.write_line(line)


@pytest.fixture
def any_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have ``rebuild`` take networks of a few layers, which no policy has, for what a test says of those layers."""
    monkeypatch.setattr("sbformat.tools.rebuild.entries.check_weights", lambda *_: None)
