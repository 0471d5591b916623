"""Progress bars: they move while a file is read and written, and come to their end."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import sbformat
from sbformat.cli import _progress, main
from tests.helpers import thresholds
from tests.helpers.bundled import ARCHIVES, PPO, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STATISTICS: Final = ARCHIVES / "vecnormalize-pendulum.pkl"
ITEMS: Final = 1 << 20
_STEPS: Final = 2


class Bar:
    """A bar that was shown."""

    def __init__(self, label: str, total: int) -> None:
        self.label = label
        self.total = total
        self.steps: list[int] = []


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> list[Bar]:
    """The bars that a terminal would show, of work of any size."""
    shown: list[Bar] = []

    @contextlib.contextmanager
    def draw(label: str, total: int, *, is_bytes: bool) -> Iterator[Any]:
        assert isinstance(is_bytes, bool)
        shown.append(Bar(label, total))
        yield shown[-1].steps.append

    monkeypatch.setattr(_progress, "_draw", draw)
    monkeypatch.setattr(thresholds.BAR_BYTES, 1 << 20)
    monkeypatch.setattr(thresholds.FILE_PIECE_BYTES, 1 << 20)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    return shown


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of 8 MB."""
    path = tmp_path_factory.mktemp("large") / "large.zip"
    weights = np.arange(ITEMS, dtype=np.float32)
    variables = {"policy": {"x": weights}, "policy.optimizer": {"y": weights + 1}}
    sbformat.write(sbformat.read(ARCHIVES / "sac-pendulum.zip").replace(parameters=variables), path)
    return path


@pytest.mark.parametrize(
    ("command", "labels"),
    [
        (["inspect"], ["reading"]),
        (["validate"], ["reading"]),
        (["scan"], ["scanning"]),
        (["diff", PPO], ["reading"]),
        (["rebuild", "-o", "o.zip", "--on-unknown", "keep"], ["reading"]),
        (["edit", "-o", "o.zip", "--unset", "verbose"], ["reading", "writing"]),
        (["edit", "-o", "o.zip", "--set", "verbose=1", "--allow-mismatch"], ["reading", "writing"]),
        (["convert", "-o", "o.zip"], ["converting"]),
        (["convert", "-o", "o.pth"], ["converting"]),
        (["convert", "-o", "o.safetensors"], ["converting"]),
        (["extract", "-o", "o.safetensors"], ["extracting"]),
        (["extract", "-o", "o.npz", "--entry", "all"], ["extracting"]),
        (["extract", "-o", "folder", "--entry", "all"], ["extracting"]),
        (["bundle", "-o", "o.zip", "--vecnormalize", STATISTICS], ["reading", "writing"]),
    ],
    ids=lambda value: " ".join(map(str, value[:3])),
)
def test_bars_come_to_their_end_in_several_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: Path, bars: list[Bar], command: list[Any], labels: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sbformat.io.opening.LARGE_FILE_BYTES", 1 << 20)
    main([command[0], str(large), *map(str, command[1:])])
    assert [bar.label for bar in bars][: len(labels)] == labels
    for bar in bars[: len(labels)]:
        assert sum(bar.steps) == pytest.approx(bar.total, rel=0.02), bar.label
        assert len(bar.steps) > _STEPS, bar.label
    assert all(sum(bar.steps) <= bar.total * 1.02 for bar in bars)


def test_two_archives_are_read_and_compared(bars: list[Bar], large: Path) -> None:
    assert main(["diff", str(large), str(large)]) == 0
    assert [bar.label for bar in bars] == ["reading", "reading", "comparing"]
    assert all(sum(bar.steps) == pytest.approx(bar.total, rel=0.02) for bar in bars)


@pytest.mark.parametrize("command", ["inspect", "validate", "scan"])
def test_many_files_are_one_bar(tmp_path: Path, bars: list[Bar], command: str) -> None:
    for number in range(60):
        (tmp_path / f"{number}.zip").write_bytes(b"PK" if number else PPO.read_bytes())
    main([command, str(tmp_path), "--jobs", "1"])
    assert [(bar.total, sum(bar.steps), len(bar.steps)) for bar in bars] == [(60, 60, 60)]


@pytest.mark.parametrize("command", ["inspect", "validate", "scan"])
def test_few_large_files_are_one_bar_if_processes_read_them(
    monkeypatch: pytest.MonkeyPatch, bars: list[Bar], large: Path, shared_processes: list[int], command: str
) -> None:
    monkeypatch.setattr(thresholds.PROCESS_BYTES, 1 << 20)
    main([command, str(large), str(large), "--jobs", "2"])
    assert [(bar.total, sum(bar.steps)) for bar in bars] == [(2, 2)]
    assert shared_processes == [2]


@pytest.mark.parametrize("words", [["--quiet"], []])
def test_no_bar_is_shown_with_quiet_or_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, bars: list[Bar], large: Path, words: list[str]
) -> None:
    if not words:
        monkeypatch.setattr("sys.stderr.isatty", lambda: False)
    main(["validate", str(large), *words])
    assert bars == []


def test_a_small_file_has_no_bar(bars: list[Bar]) -> None:
    assert main(["validate", str(PPO)]) == 0
    assert bars == []


@pytest.mark.parametrize("failure", [OSError(5, "Input/output error"), KeyboardInterrupt()])
def test_a_failure_ends_the_bar(
    monkeypatch: pytest.MonkeyPatch, bars: list[Bar], large: Path, failure: BaseException
) -> None:
    def fail(*_: object) -> bytes:
        raise failure

    with monkeypatch.context() as patch:
        patch.setattr("sbformat.io.opening._read_pieces", fail)
        assert main(["validate", str(large)]) != 0
    assert main(["validate", str(large)]) in (0, 1)
    assert len(bars) == 2


def test_a_terminal_shows_the_bytes_that_were_read(tmp_path: Path) -> None:
    pty = pytest.importorskip("pty")
    path = tmp_path / "large.zip"
    archive = sbformat.read(PPO).replace(extra={"x.bin": bytes(80 << 20)})
    sbformat.write(archive, path)
    read_end, write_end = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "sbformat", "validate", path], stdout=subprocess.PIPE, stderr=write_end, cwd=ROOT
    ) as process:
        os.close(write_end)
        shown = b""
        with contextlib.suppress(OSError):  # the other side is closed
            while chunk := os.read(read_end, 65536):
                shown += chunk
        process.communicate()
    os.close(read_end)
    assert b"reading" in shown
    assert b"MiB" in shown
