"""A process that performs the tasks of one subject, warm: a JSON line asks, a JSON line answers.

``python -m benchmarks.worker SUBJECT``. Only one worker is asked at a time, so that subjects take turns.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.tasks import prepare_task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def time_call(call: Callable[[], object]) -> float:
    """Return the seconds of one call, the release of its result included."""
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def arrays(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every array of a state dict with its path."""
    if hasattr(value, "dtype"):
        yield path, value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from arrays(part, f"{path}/{key}")
    elif isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        for at, part in enumerate(value):
            yield from arrays(part, f"{path}/{at}")


def digest(value: Any) -> str:
    """Return a digest of the names, dtypes, shapes and bytes of all arrays, to compare what two subjects read."""
    made = hashlib.sha256()
    for path, array in sorted(arrays(value), key=lambda row: row[0]):
        made.update(f"{path} {array.dtype.str} {array.shape}\n".encode())
        made.update(array.tobytes())
    return made.hexdigest()


def answer_question(subject: str, question: dict[str, Any], last: list[Any]) -> dict[str, Any]:
    """Perform a task; the last prepared one is kept, because the next question is often the same."""
    output = question.get("output", "")
    key = [question["task"], question["path"], question["is_held"], output]
    if last[:1] != [key]:
        last.clear()  # so that two files are never in memory
        task, path, is_held, _ = key
        last[:] = [key, prepare_task(subject, task, path, is_held=is_held, output=output)]
    call = last[1]
    if question.get("is_digest"):
        return {"digest": digest(call())}
    seconds = []
    for _ in range(question["calls"]):
        if output and os.path.exists(output):
            os.remove(output)
            os.sync()  # so that the disk has finished the previous one
        seconds.append(time_call(call))
    return {"seconds": seconds}


def main(subject: str) -> None:
    """Answer until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # so that the output of a library is not taken for an answer
    last: list[Any] = []
    for line in sys.stdin:
        try:
            answer = answer_question(subject, json.loads(line), last)
        except Exception as error:  # noqa: BLE001 -- any exception of a rival is its answer
            answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(sys.argv[1])
