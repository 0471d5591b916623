"""Hypothesis draws the same examples in every run; modules add lines to its summary; folders of other sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import settings

from tests.helpers.shared_files import SUMMARY

if TYPE_CHECKING:
    from pathlib import Path

MARKED_FOLDERS: Final = {"browser", "interop"}
"""Folders of ``tests`` in which every test has the marker of that name."""

settings.register_profile("sbformat", derandomize=True, database=None, deadline=None)
settings.load_profile("sbformat")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import the tests of a folder whose marker is not selected: that takes longer than many tests."""
    name = collection_path.name
    return True if name in MARKED_FOLDERS and f"not {name}" in config.option.markexpr else None


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Keep the summary lines of a worker."""
    node.config.stash.setdefault(SUMMARY, []).extend(getattr(node, "workeroutput", {}).get("summary", []))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the summary lines."""
    for line in sorted(config.stash.get(SUMMARY, [])):
        terminalreporter.write_line(line)


@pytest.fixture
def any_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have ``rebuild`` take networks of a few layers, which no policy has, for what a test says of those layers."""
    monkeypatch.setattr("sbformat.tools.rebuild.entries.check_weights", lambda *_: None)
