"""The processes of node that run vectors against mutants."""

from __future__ import annotations

import json
import subprocess
import threading
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

HERE: Final = __file__.rpartition("workers.py")[0]
NODE: Final = ("node", "--max-old-space-size=2048", f"{HERE}worker.js")
SECONDS_ALLOWED: Final = 5.0
TIMES_SLOWER: Final = 10.0
"""A mutant that takes 5 s and 10 times as long as the unchanged decoder counts as killed."""


class Ended(Exception):  # noqa: N818 -- an expected event
    """The process ended, or was ended after its time, without an answer."""


class Worker:
    """A process that is replaced when it ends."""

    def __init__(self, *arguments: Path) -> None:
        self.arguments = [str(argument) for argument in arguments]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> subprocess.Popen[bytes]:
        """Start the process if there is none, and wait until it has read its files."""
        if self.process is None:
            self.process = subprocess.Popen(
                [*NODE, *self.arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            assert self.process.stdout is not None
            if self.process.stdout.readline() != b"{}\n":
                message = f"cannot start {' '.join(self.process.args)}"
                raise RuntimeError(message)
        return self.process

    def ask(self, mutant: str, vectors: Sequence[int], seconds: float) -> dict[str, Any]:
        """Run vectors against a mutant.

        :param seconds: what the unchanged decoder takes for these vectors
        :raises Ended: the process ended, or took too long
        """
        process = self.start()
        assert process.stdin is not None
        assert process.stdout is not None
        timer = threading.Timer(SECONDS_ALLOWED + TIMES_SLOWER * seconds, process.kill)
        timer.start()
        try:
            process.stdin.write(json.dumps({"mutant": mutant, "vectors": vectors}).encode() + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = b""
        finally:
            timer.cancel()
        if not line.endswith(b"\n"):
            self.end()
            raise Ended
        found: dict[str, Any] = json.loads(line)
        return found

    def end(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


def make_baseline(decoder: Path, vectors: Path) -> bytes:
    """Run the unchanged decoder; return its answers and what the vectors reach, as JSON."""
    return subprocess.run([*NODE, str(decoder), str(vectors)], stdout=subprocess.PIPE, check=True).stdout
