"""``.ci/run`` runs sessions of one process in pairs and the others alone, and ends a session that hangs."""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace
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
    rows = [{{"session": name, "tags": ["one_process"] if name.startswith("small") else []}} for name in {names!r}]
    print(json.dumps([row for row in rows if row["session"] in wanted]))
    sys.exit()
name = words[words.index("--session") + 1]
start = time.time()
(folder / (name + ".started")).touch()
for other in {meeting!r} if name in {meeting!r} else ():
    while not (folder / (other + ".started")).exists():
        time.sleep(0.02)
time.sleep(500 if "hangs" in name else 0.5)
(folder / name).write_text(json.dumps([start, time.time()]))
print("1 passed in 1 s")
print("a line of", name)
result = "skipped" if "skipped" in name else "success"
pathlib.Path(words[words.index("--report") + 1]).write_text(json.dumps({{"sessions": [{{"result": result}}]}}))
sys.exit("failing" in name)
"""
"""A program in the place of nox: a session writes when it began and ended into a file of its name.

Sessions that meet wait for each other.
"""


def load_program() -> Any:
    spec = importlib.util.spec_from_file_location("run_sessions", ROOT / ".ci" / "run_sessions.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(
    folder: Path,
    names: tuple[str, ...],
    *wanted: str,
    meeting: tuple[str, ...] = (),
    limit: float = 1e6,
    total: float = 1e6,
    is_late: Callable[[list[str]], bool] = lambda _: False,
) -> bool:
    """Run sessions with these names, without nox, within limits in seconds; return whether none failed.

    :param is_late: whether 10,000 seconds have passed, when the sessions with these names are finished
    """
    (folder / "nox.py").write_text(NOX.format(names=names, meeting=meeting), "utf-8")
    (folder / "work").mkdir()
    command = [sys.executable, str(folder / "nox.py")]
    program = load_program()
    program.SESSION_MINUTES = limit / 60
    finished: list[str] = []

    class Session(program.Session):  # type: ignore[misc, name-defined]
        def finish(self) -> bool:
            finished.append(self.name)
            return bool(super().finish())

    program.Session = Session
    program.time = SimpleNamespace(
        sleep=time.sleep, monotonic=lambda: time.monotonic() + (10_000 if is_late(finished) else 0)
    )
    runner = program.Runner(command, folder / "work", time.monotonic() + total)
    passed: bool = runner.run_sessions(wanted)
    assert list((folder / "work").glob("session*")) == []
    return passed


def read_times(folder: Path, name: str) -> tuple[float, float]:
    start, end = json.loads((folder / name).read_text("utf-8"))
    return start, end


def overlap(folder: Path, one: str, other: str) -> bool:
    first, second = read_times(folder, one), read_times(folder, other)
    return first[0] < second[1] and second[0] < first[1]


def test_small_sessions_run_in_pairs_and_the_others_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ("large-1", "small-1", "small-2", "small-3", "large-2")
    assert run(tmp_path, names, meeting=("small-1", "small-2"))
    pairs = {(one, other) for one in names for other in names if one < other and overlap(tmp_path, one, other)}
    assert ("small-1", "small-2") in pairs
    assert {name.partition("-")[0] for pair in pairs for name in pair} == {"small"}
    assert len(pairs) < 3, "three ran at the same time"
    printed = capsys.readouterr().out
    assert printed.count(": passed (") == len(names)
    assert printed.count("1 passed in 1 s") == len(names)
    assert "a line of" not in printed
    assert printed.index("large-1") < printed.index("large-2")


def test_the_others_run_after_one_that_fails_or_hangs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ("small-hangs", "small-failing", "small-skipped", "large")
    assert not run(tmp_path, names, limit=9_000, is_late=lambda finished: len(finished) >= 2)
    printed = capsys.readouterr().out
    assert "== small-hangs: FAILED, 16" in printed
    assert "-- the output of small-failing:\n1 passed in 1 s\na line of small-failing\n" in printed
    assert "== small-skipped: skipped" in printed
    assert "== large: passed" in printed


def test_all_sessions_end_when_the_time_of_the_run_is_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    started = [tmp_path / f"small-hangs-{number}.started" for number in (1, 2)]
    names = ("small-hangs-1", "small-hangs-2", "large-hangs")
    assert not run(tmp_path, names, total=9_000, is_late=lambda _: all(path.exists() for path in started))
    assert capsys.readouterr().out.count("minutes are up") == 3


def test_only_the_sessions_that_are_named(tmp_path: Path) -> None:
    assert run(tmp_path, ("small-1", "small-2", "large"), "small-2", "large")
    assert not (tmp_path / "small-1").exists()
    assert not overlap(tmp_path, "small-2", "large")


def test_the_noxfile_has_the_tag() -> None:
    text = (ROOT / "noxfile.py").read_text("utf-8")
    assert f'ONE_PROCESS: Final = "{load_program().ONE_PROCESS}"' in text
    assert text.count("tags=[ONE_PROCESS]") > 5


def test_no_session_is_not_a_success(tmp_path: Path) -> None:
    assert not run(tmp_path, ("small",), "another")


def test_bytecode_is_cached_outside_of_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    environment = load_program().make_environment(tmp_path)
    assert environment["PYTHONPYCACHEPREFIX"].startswith(str(tmp_path))
    assert not {"PYTHONDONTWRITEBYTECODE", "PYTHONPATH"} & set(environment)
