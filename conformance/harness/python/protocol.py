"""The protocol of conformance/README.md: one file on standard input, or many files in one process (``--batch``).

A harness is a function of the file and the arguments. It returns what is printed: an object, or the bytes of an
archive. A single run and each request of a batch call ``respond``, so that both have the same exit codes.

The harness tests the ``sbformat`` that Python finds: an installed one, or one on ``PYTHONPATH``. If there is none, it
tests the one of the repository that it is in. This module has to be imported before ``sbformat``.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

sys.path.append(str(Path(__file__).resolve().parents[3]))  # last, so that an installed package precedes it

import sbformat

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Harness = Callable[[bytes, Sequence[str]], dict[str, Any] | bytes]

ACCEPTED: Final = 0
REFUSED: Final = 1
WRONG_ARGUMENTS: Final = 2
FAULT: Final = 70
"""A fault of the program, which is not a fault of the file."""


class WrongArgumentsError(Exception):
    """An argument that the harness does not know, or whose value is malformed."""


class ArgumentParser(argparse.ArgumentParser):
    """Raises an exception where argparse ends the process."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, add_help=False, **options)

    def error(self, message: str) -> NoReturn:
        """Report wrong arguments."""
        raise WrongArgumentsError(message)


@dataclass(frozen=True)
class Response:
    """The exit code of a single run, and what it prints."""

    code: int
    content: dict[str, Any] | bytes

    def printed(self) -> bytes:
        """What a single run writes to standard output."""
        return self.content if isinstance(self.content, bytes) else json.dumps(self.content).encode()

    def line(self) -> bytes:
        """The line of a batch."""
        if isinstance(self.content, bytes):
            answer: dict[str, Any] = {"code": self.code, "base64": base64.b64encode(self.content).decode()}
        elif self.code in (ACCEPTED, REFUSED):
            answer = {"code": self.code, "answer": self.content}
        else:
            answer = {"code": self.code, **self.content}
        return json.dumps(answer).encode() + b"\n"


def respond(harness: Harness, source: bytes, arguments: Sequence[str]) -> Response:
    """Run the harness on one file."""
    try:
        response = Response(ACCEPTED, harness(source, arguments))
        response.printed()  # what JSON cannot represent is a fault of this file's run
    except sbformat.SbformatError as error:
        return Response(REFUSED, {"outcome": error.outcome, "message": str(error)})
    except WrongArgumentsError as error:
        return Response(WRONG_ARGUMENTS, {"message": str(error)})
    except Exception as error:  # noqa: BLE001 -- any other exception is a fault of the program
        traceback.print_exc()
        return Response(FAULT, {"message": f"{type(error).__name__}: {error}"[:2048]})
    return response


def read_request(line: bytes) -> tuple[bytes, list[str]]:
    """Read the file and the arguments of one line of a batch."""
    request = json.loads(line)
    source = base64.b64decode(request["base64"]) if "base64" in request else Path(request["file"]).read_bytes()
    return source, request["arguments"]


def run_batch(harness: Harness) -> None:
    """Answer each line of standard input with a line."""
    answers, sys.stdout = sys.stdout.buffer, sys.stderr  # nothing else may print between the answers
    for line in sys.stdin.buffer:
        try:
            source, arguments = read_request(line)
        except (ValueError, KeyError, TypeError, OSError) as error:
            response = Response(FAULT, {"message": f"the request cannot be read: {error!r}"})
        else:
            response = respond(harness, source, arguments)
        answers.write(response.line())
        answers.flush()


def main(harness: Harness) -> int:
    """Run a harness with the arguments of the command line; return the exit code."""
    arguments = sys.argv[1:]
    if arguments == ["--batch"]:
        run_batch(harness)
        return ACCEPTED
    response = respond(harness, sys.stdin.buffer.read(), arguments)
    if response.code in (ACCEPTED, REFUSED):
        sys.stdout.buffer.write(response.printed())
    else:
        sys.stderr.write(f"{Path(sys.argv[0]).name}: {response.content['message']}\n")  # type: ignore[index]
    return response.code
