"""Runs command lines in processes with other environments, so that what they import is imported once.

Each line of standard input is a JSON list of an environment and the arguments of a command, or null to end the process
of that environment. Each line of the output is a JSON list of the status, output and errors of the command, or the exit
status of the process. ``tests/helpers/command_process.py`` starts it.
"""

from __future__ import annotations

import contextlib
import io
import json
import multiprocessing
import os
import sys
import time
from importlib import import_module
from typing import TYPE_CHECKING, Final

from sbformat.cli import main

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

IMPORTED: Final = ("numpy", "yaml", "requests", "tqdm", "s3fs", "sbformat.tools.scan", "sbformat.io.remote")
"""What is imported for all processes: none of it reads variables that tests set, as huggingface_hub does."""


def run(arguments: list[str]) -> tuple[int, str, str]:
    """Run a command line."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(arguments)
    return status, out.getvalue(), err.getvalue()


def work(environment: dict[str, str], connection: Connection) -> None:
    """Run the command lines of an environment, in a process of their own."""
    os.environ.clear()
    os.environ.update(environment)
    time.sleep = lambda _: None  # huggingface_hub waits half a minute for a server that is not there
    while (arguments := connection.recv()) is not None:
        connection.send(run(arguments))


def serve() -> None:
    """Start a process for each environment, and hand its command lines to it."""
    context = multiprocessing.get_context("fork")
    started: dict[str, tuple[BaseProcess, Connection]] = {}
    for line in sys.stdin:
        environment, arguments = json.loads(line)
        key = json.dumps(environment)
        if key not in started:
            mine, other = context.Pipe()
            started[key] = context.Process(target=work, args=(environment, other)), mine
            started[key][0].start()
            other.close()
        process, connection = started[key]
        connection.send(arguments)
        if arguments is None:
            process.join()
            del started[key]
            answer: object = process.exitcode
        else:
            answer = connection.recv()
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":  # workers import this module
    for name in IMPORTED:
        with contextlib.suppress(ImportError):
            import_module(name)
    assert "huggingface_hub" not in sys.modules
    serve()
