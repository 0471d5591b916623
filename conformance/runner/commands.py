"""Decoders and encoders as commands: one process for each file, or a few processes for many (``--batch``)."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import subprocess
import tempfile
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

ACCEPTED: Final = 0
REFUSED: Final = 1
WRONG_ARGUMENTS: Final = 2
FAULT: Final = 70
NOT_AN_ARGUMENT_OF_A_FEATURE: Final = "--entry"
LEVELS_ALLOWED: Final = 2000
"""Deeper answers are malformed: values nest 200 deep, and each takes a few levels of JSON."""
ERROR_BYTES: Final = 4096
"""How much of standard error is searched for its last line."""


class Crash(Exception):  # noqa: N818 -- the protocol's own word
    """The command violated the protocol."""


class Unknown(Exception):  # noqa: N818 -- no error
    """The command does not know an argument: it lacks a feature."""


@dataclass(frozen=True)
class Answer:
    """What a command answered: the JSON of a decoder or of a refusal, or the bytes of an encoder."""

    is_accepted: bool
    value: Any = None
    written: bytes = b""


@dataclass(frozen=True)
class Request:
    """The arguments of a single run, and the bytes that it reads from standard input."""

    arguments: Sequence[str]
    content: bytes

    def line(self) -> bytes:
        """The line of a batch."""
        request = {"arguments": list(self.arguments), "base64": base64.b64encode(self.content).decode()}
        return json.dumps(request).encode() + b"\n"


def check_code(code: int, arguments: Sequence[str], message: str) -> None:
    """Raise ``Unknown`` or ``Crash`` if an exit code is neither that of an accepted nor of a refused file."""
    if code == WRONG_ARGUMENTS and arguments and arguments[0] != NOT_AN_ARGUMENT_OF_A_FEATURE:
        raise Unknown(arguments[0])
    if code not in (ACCEPTED, REFUSED):
        raise Crash(f"exit code {code}" + f": {message}" * bool(message))


def find_last_line(text: bytes) -> str:
    """The last line of standard error, or an empty string."""
    lines = text[-ERROR_BYTES:].decode("utf-8", "replace").strip().splitlines()
    return lines[-1].strip() if lines else ""


def parse_json(text: bytes, description: str) -> Any:
    """Parse the JSON that a command printed.

    :param description: what follows the reason if it is malformed
    """
    reason = f"its output is nested more than {LEVELS_ALLOWED} levels deep"
    try:
        value = json.loads(text)
        if not is_nested_deeper(value, LEVELS_ALLOWED):
            return value
    except RecursionError:
        pass
    except ValueError:
        reason = "its output is not JSON"
    raise Crash(reason + f": {description}" * bool(description))


def is_nested_deeper(value: Any, levels: int) -> bool:
    """Say whether arrays and objects are nested more than this number of levels deep."""
    parts = [value]
    for _ in range(levels + 1):
        containers = [part for part in parts if isinstance(part, (list, dict))]
        if not containers:
            return False
        parts = [item for part in containers for item in (part.values() if isinstance(part, dict) else part)]
    return True


def decode_base64(text: Any) -> bytes:
    """Decode the bytes that an encoder wrote."""
    try:
        return base64.b64decode(text, validate=True)
    except (TypeError, ValueError):
        message = f"its output is not base64: {str(text)[:80]!r}"
        raise Crash(message) from None


class SingleRuns:
    """A command that is run once for each file."""

    is_batch: Final = False

    def __init__(self, command: Sequence[str], timeout: float, *, is_encoder: bool = False) -> None:
        self.command = list(command)
        self.timeout = timeout
        self.is_encoder = is_encoder

    def run(self, request: Request) -> Answer:
        """Run the command on one file."""
        try:
            done = subprocess.run(
                [*self.command, *request.arguments], input=request.content, capture_output=True, timeout=self.timeout,
                check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            message = f"no answer within {self.timeout:g} s"
            raise Crash(message) from None
        last = find_last_line(done.stderr)
        check_code(done.returncode, request.arguments, last)
        if not done.stdout.strip():
            raise Crash(f"exit code {done.returncode}" + f": {last}" * bool(last))
        if self.is_encoder and done.returncode == ACCEPTED:
            return Answer(is_accepted=True, written=done.stdout)
        return Answer(done.returncode == ACCEPTED, parse_json(done.stdout, last))

    def close(self) -> None:
        """Nothing remains to be ended."""


class Worker:
    """A process of a command that was started with ``--batch``."""

    def __init__(self, command: Sequence[str]) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 -- closed in end()
        self._process = subprocess.Popen(
            [*command, "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
            start_new_session=True,
        )  # fmt: skip
        self._is_late = False

    def ask(self, request: Request, timeout: float) -> bytes:
        """Send a request; return the line of the answer."""
        timer = threading.Timer(timeout, self._end_late)
        timer.start()
        line = b""
        try:
            with contextlib.suppress(BrokenPipeError):  # it ended, and why is found below
                self._process.stdin.write(request.line())  # type: ignore[union-attr]
                self._process.stdin.flush()  # type: ignore[union-attr]
                line = self._process.stdout.readline()  # type: ignore[union-attr]
        finally:
            timer.cancel()
            timer.join()
        if self._is_late:
            message = f"no answer within {timeout:g} s"
            raise Crash(message)
        if not line.endswith(b"\n"):
            raise Crash(self._describe_end())
        return line

    def end(self) -> None:
        """End the process, and all that it started."""
        with contextlib.suppress(OSError):
            self._process.stdin.close()  # type: ignore[union-attr]
        try:
            self._process.wait(0 if self._is_late else 1)
        except subprocess.TimeoutExpired:
            self._kill()
            self._process.wait()
        self._process.stdout.close()  # type: ignore[union-attr]
        self._errors.close()

    def _end_late(self) -> None:
        self._is_late = True
        self._kill()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()

    def _describe_end(self) -> str:
        try:
            code: int | str = self._process.wait(1)
        except subprocess.TimeoutExpired:
            code = "none, and standard output was closed"
        self._errors.seek(0)
        last = find_last_line(self._errors.read())
        return f"the process ended without an answer: exit code {code}" + f": {last}" * bool(last)


class Batch:
    """A command that is run with ``--batch``: as many processes as threads call ``run`` at the same time."""

    is_batch: Final = True

    def __init__(self, command: Sequence[str], timeout: float, *, is_encoder: bool = False) -> None:
        self.command = list(command)
        self.timeout = timeout
        self.is_encoder = is_encoder
        self._idle: list[Worker] = []

    def run(self, request: Request) -> Answer:
        """Have a process of the command answer for one file. A process that violates the protocol is ended."""
        try:
            worker = self._idle.pop()
        except IndexError:
            worker = Worker(self.command)
        is_intact = False
        try:
            code, found, written = self._parse(worker.ask(request, self.timeout))
            is_intact = True
        finally:
            if is_intact:
                self._idle.append(worker)
            else:
                worker.end()
        check_code(code, request.arguments, str(found.get("message", "")).encode("utf-8", "replace").decode())
        return Answer(code == ACCEPTED, found.get("answer"), written)

    def _parse(self, line: bytes) -> tuple[int, dict[str, Any], bytes]:
        found = parse_json(line, repr(line[:80]))
        code = found.get("code") if isinstance(found, dict) else None
        word = "base64" if self.is_encoder and code == ACCEPTED else "answer"
        known = (ACCEPTED, REFUSED, WRONG_ARGUMENTS, FAULT)
        if type(code) is not int or code not in known or (code in (ACCEPTED, REFUSED) and word not in found):
            message = f"not a response of a batch: {line[:80]!r}"
            raise Crash(message)
        return code, found, decode_base64(found[word]) if word == "base64" else b""

    def close(self) -> None:
        """End the processes."""
        while self._idle:
            self._idle.pop().end()


Command = SingleRuns | Batch


def supports_batch(command: Sequence[str], timeout: float) -> bool:
    """Say whether a command, started with ``--batch`` and an empty standard input, exits with 0 and prints nothing."""
    try:
        done = subprocess.run(
            [*command, "--batch"], stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and not done.stdout


def open_command(command: Sequence[str], timeout: float, *, batch: str, is_encoder: bool = False) -> Command:
    """Make a command.

    :param batch: ``auto`` for one process for many files if the command supports it, ``no`` for one for each
    """
    kind = Batch if batch == "auto" and supports_batch(command, timeout) else SingleRuns
    return kind(command, timeout, is_encoder=is_encoder)
