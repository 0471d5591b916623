"""Run a command whose standard output is a terminal of a given width."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.helpers.bundled import ROOT

if TYPE_CHECKING:
    from pathlib import Path

requires_terminals = pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a terminal")
_CHOOSE_COLOURS = ("NO_COLOR", "FORCE_COLOR", "COLUMNS")


def run_in_terminal(
    *words: object, columns: int = 100, cwd: Path = ROOT, stream: str = "stdout", **environment: str
) -> tuple[int, str]:
    """Return the exit status of ``sbformat WORDS``, and the text that the terminal receives.

    :param columns: the width of the terminal
    :param stream: of the program, that the terminal receives: ``stdout`` or ``stderr``
    :param environment: variables, such as NO_COLOR
    """
    import fcntl
    import termios

    control, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    variables = {name: value for name, value in os.environ.items() if name not in _CHOOSE_COLOURS}
    process = subprocess.Popen(
        [sys.executable, "-m", "sbformat", *map(str, words)],
        **{stream: terminal},
        env={**variables, "TERM": "xterm", "PYTHONPATH": str(ROOT), **environment},
        cwd=cwd,
    )
    os.close(terminal)
    received = b""
    while True:
        try:
            part = os.read(control, 65536)
        except OSError:  # the end, on Linux
            break
        if not part:
            break
        received += part
    os.close(control)
    return process.wait(), received.decode().replace("\r\n", "\n")
