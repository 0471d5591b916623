"""Which tests a run collects and how many examples Hypothesis draws, the same in every run; summaries of modules."""

from __future__ import annotations

import gc
import importlib
import os
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import settings

from tests.helpers.sampling import DEFAULT_PROFILE, EXHAUSTIVE_PROFILE, choose_redundant, sample
from tests.helpers.shared_files import SUMMARY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TESTS: Final = Path(__file__).parent
MARKED: Final = {
    "browser": "browser",
    "interop": "interop",
    "programs": "programs",
    "ci_kit": "ci_kit",
    "robustness": "robustness",
    "policies/c/test_operators.py": "exports",
    "policies/c/test_predictions.py": "exports",
    "policies/c/test_programs.py": "exports",
    "policies/javascript/test_operators.py": "exports",
    "policies/javascript/test_predictions.py": "exports",
    "policies/onnx/test_operators.py": "exports",
    "policies/onnx/test_predictions.py": "exports",
    "io/test_write_faults.py": "robustness",
    "pth/test_hostile.py": "robustness",
    "tools/scan/test_large.py": "robustness",
    "values/test_hostile.py": "robustness",
    "catalogue/test_remote.py": "servers",
    "cli/test_urls.py": "servers",
    "io/remote/test_http.py": "servers",
    "io/remote/test_hub.py": "servers",
    "io/remote/test_memory.py": "servers",
    "io/remote/test_redirects.py": "servers",
    "io/remote/test_s3.py": "servers",
    "io/remote/test_same_as_local.py": "servers",
    "io/test_hub_server.py": "servers",
    "io/test_s3_server.py": "servers",
    "io/test_servers.py": "servers",
}
"""The markers of the tests of folders and modules: sessions of their own run them."""
ONLY_MARKED: Final = frozenset({"exports", "programs", "servers"})
"""Markers that no test has but those of ``MARKED``."""

settings.load_profile(DEFAULT_PROFILE)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option with which ``.ci/run`` compares a part of the cases with torch and SB3."""
    parser.addoption("--one-in", type=int, default=1, help="of the cases of each test one in so many, and at least one")


def pytest_configure(config: pytest.Config) -> None:
    """Load the profile with which ``more_examples`` draws all examples if ``-m`` selects the exhaustive tests.

    Where Python is asked to write no bytecode, it is in a temporary folder: hundreds of processes use it.
    """
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", None) and not hasattr(config, "workerinput"):
        folder = tempfile.TemporaryDirectory(prefix="bytecode-", ignore_cleanup_errors=True)
        config.add_cleanup(folder.cleanup)
        os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix = folder.name
        sys.dont_write_bytecode = False
    expression = config.option.markexpr
    if "exhaustive" in expression and "not exhaustive" not in expression:
        settings.load_profile(EXHAUSTIVE_PROFILE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import tests whose marker is not selected: that takes longer than many tests."""
    markers, expression = find_markers(collection_path), config.option.markexpr
    selected = expression.partition(" ")[0]
    if selected in ONLY_MARKED and collection_path.suffix == ".py":
        return None if selected in markers else True
    return True if any(f"not {marker}" in expression for marker in markers) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Import every n-th test module first in the n-th of n workers that run all tests.

    Each needs all modules, and pytest keeps those that it has compiled: they compile different ones at the same time.
    What is collected is never freed: the garbage collector need not look at it.
    """
    gc.disable()
    worker = getattr(session.config, "workerinput", None)
    if worker is None or session.config.args_source is pytest.Config.ArgsSource.ARGS:
        return
    number, count = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    for path in sorted(TESTS.rglob("test_*.py"))[number::count]:
        if not any(pytest_ignore_collect(part, session.config) for part in (path, *path.parents)):
            with suppress(Exception, pytest.skip.Exception):  # which the collection of the module meets again
                importlib.import_module(".".join(path.relative_to(TESTS.parent).with_suffix("").parts))


def pytest_collection_finish() -> None:
    """Let the garbage collector look at what is made from now on."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of ``MARKED``; leave out what ``--one-in`` does, and ``each_value`` by default."""
    for item in items:
        for marker in find_markers(item.path):
            item.add_marker(marker)
    kept = sample(items, config.option.one_in, name=lambda item: item.nodeid, group=find_test)
    config.hook.pytest_deselected(items=set(items).difference(kept))
    items[:] = kept
    cases = [item for item in items if isinstance(item, pytest.Function) and item.get_closest_marker("each_value")]
    for item in choose_redundant(cases, find_test, find_values):
        item.add_marker(pytest.mark.exhaustive)


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Let a worker send one message of a test that passes instead of five, which take longer than most tests."""
    if not hasattr(item.config, "workerinput"):
        return None
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    passed = all(report.passed for report in reports)
    for report in reports:
        if report.when == "call" or not passed:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


@cache
def find_markers(path: Path) -> list[str]:
    """Return the markers of a module or folder of ``tests``: its own, and that of its folder."""
    names = [part.relative_to(TESTS).as_posix() for part in (path, path.parent) if part.is_relative_to(TESTS)]
    return [MARKED[name] for name in names if name in MARKED]


def find_test(item: pytest.Item) -> str:
    """Return the name of a test without its parameters."""
    return item.nodeid.partition("[")[0]


def find_values(item: pytest.Function) -> set[tuple[str, int]]:
    """Each parameter with the identity of its value, which is one object in all cases of a product."""
    return {(name, id(value)) for name, value in item.callspec.params.items()}


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Keep the summary lines of a worker."""
    node.config.stash.setdefault(SUMMARY, []).extend(getattr(node, "workeroutput", {}).get("summary", []))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the summary lines."""
    for line in sorted(config.stash.get(SUMMARY, [])):
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def two_processes() -> Iterator[ProcessPoolExecutor]:
    """Two processes for all tests: each takes half a second to import numpy and the package."""
    with ProcessPoolExecutor(2, get_context("spawn")) as executor:
        yield executor


@pytest.fixture
def shared_processes(monkeypatch: pytest.MonkeyPatch, two_processes: ProcessPoolExecutor) -> list[int]:
    """Let commands with ``--jobs`` work in ``two_processes``; the list has how many each would have started."""
    from sbformat import parallel

    asked: list[int] = []
    real: Callable[..., Any] = parallel.map_in_order

    def map_in_order(*arguments: Any, processes: int = 1, **options: Any) -> Any:
        asked.append(processes)
        return real(*arguments, executor=two_processes if processes > 1 else None, **options)

    monkeypatch.setattr(parallel, "map_in_order", map_in_order)
    return asked


@pytest.fixture
def any_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have ``rebuild`` take networks of a few layers, which no policy has, for what a test says of those layers."""
    monkeypatch.setattr("sbformat.tools.rebuild.check_weights", lambda *_: None)
