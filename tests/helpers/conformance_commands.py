"""The programs of ``conformance`` in this process: to start a process for each test takes longer than most tests."""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


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
