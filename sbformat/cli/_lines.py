"""``sbformat predict --lines``: a policy that another program asks through a pipe.

In: JSON Lines. A line is an observation, or an object with ``observation``, ``action_masks`` and ``episode_start``.
Out: for each line one line, written before the next one is read. It is the action; with ``--outputs`` an object with it
and what the network computes; for a line that fails an object with ``error``. So the two programs stay in step whatever
the lines contain, and an object with ``error`` is never an action. Blank lines are skipped.

An object with exactly the keys of a Dict observation space is an observation, whatever the names of its keys are.
"""

from __future__ import annotations

import contextlib
import json
import sys
import warnings
from typing import IO, TYPE_CHECKING, Any, Final

from sbformat.cli import _files, _json
from sbformat.cli._options import name_option
from sbformat.data import parse
from sbformat.errors import SbformatError, UnsupportedError, ValidationError, quote
from sbformat.limits import Budget
from sbformat.rendering import count_noun, write_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from sbformat.cli.agents import Steps
    from sbformat.limits import Limits

_OBSERVATION: Final = "observation"
_MASKS: Final = "action_masks"
_START: Final = "episode_start"
_BLANK: Final = b" \t\r\n"
_DISCARDED_BYTES: Final = 1 << 16
_encode: Final = json.JSONEncoder(allow_nan=False).encode
_MOST_SHOWN: Final = 20  # keys in a message


def open_lines(given: str) -> AbstractContextManager[IO[bytes]]:
    """Open what ``--observation`` names: standard input, or ``@FILE``."""
    if given != _files.STANDARD_STREAM:
        if not given.startswith(_json.FILE_MARK):
            message = "expected - or @FILE with --lines, which reads JSON Lines: --observation @observations.jsonl"
            raise _files.OtherFileError(_json.OBSERVATION) from ValidationError(message)
        return _files.name_in_errors(given[1:], lambda: open(given[1:], "rb"))
    if sys.stdin is None:
        raise _files.OtherFileError(given) from UnsupportedError("standard input is closed")
    if sys.stdin.isatty():
        end = "Ctrl+Z and Enter" if sys.platform == "win32" else "Ctrl+D"
        _files.write_remark(f"type an observation in each line, such as [0.1, 0.2]; {end} ends")
    return contextlib.nullcontext(sys.stdin.buffer)


def answer_lines(lines: IO[bytes], steps: Steps, masks: Any, limits: Limits) -> str:
    """Write a line for each line; return what failed, empty if nothing did.

    :param masks: those of a line that has none
    """
    if hasattr(sys.stdout, "reconfigure"):  # also on Windows
        sys.stdout.reconfigure(newline="\n")
    count = failed = 0
    first = ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, line in _read_lines(lines, limits.json_bytes):
            count += 1
            try:
                answer = _answer(line, steps, masks, limits)
            except SbformatError as error:
                failed += 1
                message = name_option(str(error))
                first = first or f"line {number}: {error.outcome}: {message}"
                answer = {"error": message, "outcome": error.outcome, "line": number}
            _write(answer)
    total = f" ({failed} of {count_noun(count, 'line')} failed)" if count > 1 else ""
    return f"{first}{total}" if first else ""


def _read_lines(file: IO[bytes], most: int) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the text of each line that is not blank; of one above the limit, what is refused.

    :param most: bytes that a line may have
    """
    number = 0
    while line := file.readline(most + len(b"\r\n")):
        rest = line
        while not rest.endswith(b"\n") and (rest := file.readline(_DISCARDED_BYTES)):
            pass
        number += 1
        if number == 1 and line.startswith(_json.UTF_16):
            raise UnsupportedError("expected JSON Lines in UTF-8, got UTF-16: in PowerShell, Out-File -Encoding utf8")
        line = (_json.decode_bytes(line) if number == 1 else line).strip(_BLANK)
        if line:
            yield number, line


def _answer(line: bytes, steps: Steps, masks: Any, limits: Limits) -> Any:
    """Return the action for a line, or an object with it and the outputs."""
    try:
        value = parse(line, Budget(limits))
    except SbformatError as error:
        error.add_hint(_json.explain_json("", line.decode("utf-8", "replace")))
        raise
    observation, given_masks, start = _split(value, steps)
    action, outputs = steps.predict(observation, masks if given_masks is None else given_masks, start)
    return {**outputs, "action": action} if outputs else action


def _split(value: Any, steps: Steps) -> tuple[Any, Any, Any]:
    """Return the observation of a line, its action masks and whether an episode begins, None where it has none."""
    if not isinstance(value, dict):
        return value, None, None
    space = steps.policy.observation_space
    keys = space.parts().keys() if space.has_keys else frozenset()
    if keys and (value.keys() == keys or _OBSERVATION not in value):
        return value, None, None
    unknown = sorted(value.keys() - {_OBSERVATION, _MASKS, _START})
    if unknown or _OBSERVATION not in value:
        shown = ", ".join(quote(key, 40) for key in list(value)[:_MOST_SHOWN]) or "none"
        message = f"expected an observation, or an object with {_OBSERVATION!r} and perhaps {_MASKS!r} and {_START!r}"
        raise ValidationError(f"{message}, got an object with the keys {shown}")
    start = value.get(_START)
    if not (start is None or isinstance(start, bool) or (isinstance(start, list) and start)):
        raise ValidationError(f"expected true or false as {_START!r}, or a list of them for a batch")
    if start is not None and not steps.is_sequence:
        raise ValidationError(f"{_START!r} needs --sequence, without which every line is the first of an episode")
    return value[_OBSERVATION], value.get(_MASKS), start


def _write(answer: Any) -> None:
    """Write a line, and let the reader have it."""
    try:
        text = _encode(answer)
    except ValueError:
        text = json.dumps(write_numbers(answer))
    try:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _files.OutputError from error
