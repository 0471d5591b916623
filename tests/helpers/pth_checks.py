"""What the tests of ``.pth`` files ask of them: decode a tree, name the refusal, weigh a hostile file."""

from __future__ import annotations

import atexit
import json
import os
import struct
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

from conformance.generators.build_pth import torch_zip
from sbformat import SbformatError, pth
from sbformat.errors import MESSAGE_BYTES
from sbformat.pth import arrays
from tests.helpers import bundled
from tests.helpers.count_work import COUNTED, PATIENCE, stay_within

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.pth import StateDict

ROOT = str(bundled.ROOT)
CHILD = "read_hostile_pth"
"""The program of ``tests/children`` that reads them."""

SECONDS = 2.0
"""RULES.md: what a hostile file may cost, in time of one processor."""
BASE_BYTES = 64 << 20
"""And in memory: three times its size and this."""


def hide_extension_dtype(monkeypatch: pytest.MonkeyPatch, name: str, ml_dtypes: object = None) -> None:
    """Let a dtype of ml_dtypes be as on a machine without that package, or with another one.

    White-box: dtypes that were made are remembered.
    """
    monkeypatch.setitem(sys.modules, "ml_dtypes", ml_dtypes)
    monkeypatch.delitem(arrays._NUMPY_DTYPES, name, raising=False)


def decode(tree: object, storages: Mapping[str, bytes] | None = None, **options: Any) -> StateDict:
    """Decode a tree, as the torch zip of it."""
    return pth.loads(torch_zip(tree, storages), **options)


def everything(data: bytes | bytearray | memoryview, **options: Any) -> Any:
    """Decode a file and make every array in it."""
    state_dict = pth.loads(data, **options)
    state_dict.check()
    return state_dict.to_numpy()


def refusal(data: bytes, **options: Any) -> SbformatError:
    """The error that a file is refused with, at the latest when its arrays are made."""
    with pytest.raises(SbformatError) as raised:
        everything(data, **options)
    return raised.value


def refuses(kind: type[SbformatError], words: str, tree: object, storages: Mapping[str, bytes] | None = None) -> None:
    """Assert that a tree is refused with an error of exactly this class, saying this."""
    error = refusal(torch_zip(tree, storages))
    assert type(error) is kind, error
    assert words in str(error)


@cache
def start_forks() -> subprocess.Popen[str]:
    """Start the process that runs all hostile files: to import numpy takes longer than most of them."""
    command = [sys.executable, "-m", "tests.children.fork_programs"]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # a fork has one thread
    started = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment
    )
    atexit.register(started.communicate)
    return started


def run_child(name: str, options: str, environment: dict[str, str], folder: Path) -> tuple[int, str]:
    """Run a program of ``tests/children`` with the files ``0`` to ``2`` of a folder; return its status and errors."""
    paths = [folder / str(number) for number in range(3)]
    if not hasattr(os, "fork"):  # Windows
        with paths[0].open("rb") as source, paths[1].open("wb") as out, paths[2].open("wb") as errors:
            command = [sys.executable, "-m", f"tests.children.{name}", options]
            files: Any = {"stdin": source, "stdout": out, "stderr": errors}
            status = subprocess.call(command, cwd=ROOT, env={**os.environ, **environment}, timeout=PATIENCE, **files)
    else:
        for path in paths[1:]:
            path.touch()
        forks = start_forks()
        assert forks.stdin is not None
        assert forks.stdout is not None
        print(json.dumps([name, [options], environment, list(map(str, paths))]), file=forks.stdin, flush=True)
        status = int(forks.stdout.readline())
    return status, paths[2].read_text(encoding="utf-8")


def weigh(*files: bytes, **options: Any) -> list[dict[str, Any]]:
    """Read hostile files in a process of its own: what each way to look at each gave, and what it cost.

    Asserts that nothing but our own errors came out, and that each took no more than a hostile file may.
    """
    sent = b"".join(struct.pack("<Q", len(data)) + data for data in files)

    def run(environment: dict[str, str]) -> list[dict[str, Any]]:
        with TemporaryDirectory() as folder:
            Path(folder, "0").write_bytes(sent)
            counted = {name: value for name, value in environment.items() if name == COUNTED}
            status, errors = run_child(CHILD, json.dumps(options), counted, Path(folder))
            assert status == 0, f"exit status {status}, after {PATIENCE} s if it is that of an alarm: {errors[-2000:]}"
            rows: list[dict[str, Any]] = json.loads(Path(folder, "1").read_bytes())
        assert {row["file"] for row in rows} == set(range(len(files)))
        return rows

    rows = stay_within(run, lambda rows: max(row["seconds"] for row in rows), SECONDS)
    for row in rows:
        assert row["shown"] <= MESSAGE_BYTES, row
        assert row["grown"] <= 3 * len(files[row["file"]]) + BASE_BYTES, row
    return rows
