"""The programs of ``conformance`` in this process: to start a process for each test takes longer than most tests."""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Any

import pytest

from conformance.runner.commands import Batch, open_command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import ModuleType


def run_program(main: Callable[[Sequence[str]], int], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Call the ``main`` of a program; return its exit code and what it printed."""
    printed, errors, limit = io.StringIO(), io.StringIO(), sys.getrecursionlimit()
    try:
        with redirect_stdout(printed), redirect_stderr(errors):
            code = main(arguments)
    except SystemExit as ended:
        code = ended.code  # type: ignore[assignment]
    finally:
        sys.setrecursionlimit(limit)
    return subprocess.CompletedProcess(arguments, code, printed.getvalue(), errors.getvalue())


class SharedBatch(Batch):
    """A batch whose processes remain after a run, for the next one."""

    def close(self) -> None:
        """The processes end with the block of ``share_processes``."""


@contextmanager
def share_processes(program: ModuleType, *commands: Sequence[str]) -> Iterator[None]:
    """Have the runs of a program within a block share the processes of these commands."""
    shared = {tuple(command): SharedBatch(command, 60) for command in commands}

    def open_shared(command: Sequence[str], timeout: float, **options: Any) -> Any:
        return shared.get(tuple(command)) or open_command(command, timeout, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "open_command", open_shared)
        yield
    for batch in shared.values():
        Batch.close(batch)
