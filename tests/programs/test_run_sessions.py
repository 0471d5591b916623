"""``.ci/run`` runs some sessions alone and the others in pairs, and ends a session that hangs."""

from __future__ import annotations

import importlib.util
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.helpers.bundled import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

NOX: Final = """
import json, pathlib, sys, time
words = sys.argv[1:]
folder = pathlib.Path(__file__).parent
if "--list" in words:
    wanted = words[words.index("--session") + 1:] if "--session" in words else {names!r}
    rows = [{{"session": name, "tags": ["all_processors"] if "alone" in name else []}} for name in {names!r}]
    print(json.dumps([row for row in rows if row["session"] in wanted]))
    sys.exit()
name = words[words.index("--session") + 1]
def log(event):
    with (folder / "events").open("a") as file:
        file.write(f"{{event}} {{name}}\\n")
log("start")
events = folder / "events"
while "hangs" in name or ("pair" in name and events.read_text().count("start pair") < 2):
    time.sleep(0.01)
log("end")
print("1 passed in 1 s")
print("a line of", name)
result = "skipped" if "skipped" in name else "success"
pathlib.Path(words[words.index("--report") + 1]).write_text(json.dumps({{"sessions": [{{"result": result}}]}}))
sys.exit("failing" in name)
"""
"""A program in the place of nox: a session writes into a file that it began and ended, and one of a pair waits for the
other."""


def load_program() -> Any:
    spec = importlib.util.spec_from_file_location("run_sessions", ROOT / ".ci" / "run_sessions.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(
    folder: Path, names: tuple[str, ...], *wanted: str, is_time_up: Callable[[list[str]], bool] = lambda _: False
) -> bool:
    """Run sessions with these names, without nox; return whether none failed.

    :param is_time_up: whether the limits of a session and of the run are over, after these events
    """
    (folder / "nox.py").write_text(NOX.format(names=names), "utf-8")
    (folder / "work").mkdir()
    program = load_program()

    class Clock:
        sleep = staticmethod(time.sleep)

        @staticmethod
        def monotonic() -> float:
            return 1e9 if is_time_up(read_events(folder)) else 0.0

    program.time = Clock
    runner = program.Runner([sys.executable, "-S", str(folder / "nox.py")], folder / "work", 60.0 * program.MINUTES)
    passed: bool = runner.run_sessions(wanted)
    assert list((folder / "work").glob("session*")) == []
    return passed


def read_events(folder: Path) -> list[str]:
    path = folder / "events"
    return path.read_text("utf-8").splitlines() if path.exists() else []


def list_overlaps(events: list[str]) -> set[tuple[str, str]]:
    """The pairs of sessions of which one began before the other had ended."""
    running: list[str] = []
    found = set()
    for event, name in map(str.split, events):
        if event == "start":
            found |= {(other, name) for other in running}
            running.append(name)
        else:
            running.remove(name)
    return found


def test_sessions_run_in_pairs_and_some_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ("pair-1", "alone-1", "pair-2", "third", "alone-2")
    assert run(tmp_path, names)
    events = read_events(tmp_path)
    assert events[:4] == ["start alone-1", "end alone-1", "start alone-2", "end alone-2"]
    overlaps = {tuple(sorted(pair)) for pair in list_overlaps(events)}
    assert ("pair-1", "pair-2") in overlaps
    assert not overlaps >= {("pair-1", "third"), ("pair-2", "third")}, "three ran at the same time"
    printed = capsys.readouterr().out
    assert printed.count(": passed (") == len(names)
    assert printed.count("1 passed in 1 s") == len(names)
    assert "a line of" not in printed


def test_the_others_run_after_one_that_fails_or_hangs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ("hangs", "failing", "skipped", "last")
    assert not run(tmp_path, names, is_time_up=lambda events: "end last" in events)
    printed = capsys.readouterr().out
    assert "== hangs: FAILED, 16666667 minutes are up (1000000000 s)" in printed
    assert "-- the output of failing:\n1 passed in 1 s\na line of failing\n" in printed
    assert "== skipped: skipped" in printed
    assert "== last: passed" in printed


def test_all_sessions_end_when_the_time_of_the_run_is_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ("hangs-1", "hangs-2", "hangs-3")
    assert not run(tmp_path, names, is_time_up=lambda events: len(events) > 1)
    assert capsys.readouterr().out.count("minutes are up") == 3


def test_only_the_sessions_that_are_named(tmp_path: Path) -> None:
    assert run(tmp_path, ("first", "second", "alone"), "second", "alone")
    assert read_events(tmp_path) == ["start alone", "end alone", "start second", "end second"]


def test_the_noxfile_has_the_tag() -> None:
    text = (ROOT / "noxfile.py").read_text("utf-8")
    assert f'ALL_PROCESSORS: Final = "{load_program().ALL_PROCESSORS}"' in text
    assert text.count("tags=[ALL_PROCESSORS]") == 1


def test_no_session_is_not_a_success(tmp_path: Path) -> None:
    assert not run(tmp_path, ("one",), "another")


def test_bytecode_is_cached_outside_of_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    environment = load_program().make_environment(tmp_path)
    assert environment["PYTHONPYCACHEPREFIX"].startswith(str(tmp_path))
    assert not {"PYTHONDONTWRITEBYTECODE", "PYTHONPATH"} & set(environment)


def test_uv_uses_the_settings_of_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", "/wheels")
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    monkeypatch.delenv("UV_DEFAULT_INDEX", raising=False)
    environment = load_program().make_environment(tmp_path)
    assert environment["UV_FIND_LINKS"] == "/wheels"
    assert "UV_DEFAULT_INDEX" not in environment
