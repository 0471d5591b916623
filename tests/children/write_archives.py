"""Writes archives in a process of its own: one that is killed, runs out of room, or tells what memory it took.

``python write_archives.py TASK JSON`` prints what came of it as JSON. Nothing is judged here but the bytes of files:
``old``, ``new``, or ``other``, which must never be.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import sbformat
from conformance.generators import build_zips
from tests.children.read_hostile_pth import forget, peak

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OLD: Final = build_zips.sb3_archive(entries={"which": b"old"})
MIB: Final = 1 << 20


def new_archive() -> sbformat.Archive:
    """A small archive with an entry of every kind: copied, encoded, and folders of names."""
    archive = sbformat.reads(build_zips.sb3_archive(entries={"which": b"new"}))
    return archive.replace(parameters={"policy.optimizer": {"state": {}, "param_groups": [{"lr": 0.5}]}})


NEW: Final = sbformat.writes(new_archive())
REENCODED: Final = sbformat.writes(new_archive(), reencode=True)


def found(target: Path) -> str:
    """What the target holds."""
    if not target.exists():
        return "absent"
    return {OLD: "old", NEW: "new", REENCODED: "new"}.get(target.read_bytes(), "other")


def beside(target: Path) -> list[str]:
    """What else lies in its folder."""
    return sorted(name for name in os.listdir(target.parent) if name != target.name)


# -- killed -------------------------------------------------------------------------------------------

WATCHED: Final = ("open", "close", "fsync", "replace", "rename", "link", "unlink", "chmod", "truncate", "ftruncate")
HOW: Final = ("before", "half", "after")


class Watch:
    """Counts the calls that change files or settle them, and dies at one.

    :param number: the call to die at, from 0; None for none
    :param how: before it, after it, or in the midst of it, which only ``write`` has
    """

    def __init__(self, number: int | None, how: str) -> None:
        self.calls: list[str] = []
        self._number = number
        self._how = how

    def __call__(self, name: str, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        is_last = len(self.calls) == self._number
        self.calls.append(name)
        if is_last and self._how == "before":
            self._die()
        if is_last and self._how == "half" and name == "write":
            call(args[0][: len(args[0]) // 2])
            self._die()
        value = call(*args, **kwargs)
        if is_last:
            self._die()
        return value

    def _die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def install(self) -> None:
        """Put itself in front of the calls."""
        for name in WATCHED:
            setattr(os, name, self._watched(name, getattr(os, name)))
        watch = self

        class Watched(sbformat.io.atomic.NewFile):
            """A raw file whose writes are watched."""

            def write(self, data: Any) -> int:
                written: int = watch("write", super().write, data)
                return written

        sbformat.io.atomic.NewFile = Watched  # type: ignore[attr-defined]

    def _watched(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **kwargs: Any) -> Any:
            return self(name, call, *args, **kwargs)

        return watched


def in_fork(action: Callable[[], None]) -> int:
    """Do it in a fork; return its status as ``waitpid`` gives it."""
    process = os.fork()
    if process == 0:
        status = 1
        try:
            action()
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(process, 0)[1]


def traced(target: Path, options: dict[str, Any]) -> list[str]:
    """The watched calls of one write, in order."""
    reader, writer = os.pipe()

    def action() -> None:
        watch = Watch(None, "")
        watch.install()
        sbformat.write(new_archive(), target, **{"overwrite": True, **options})
        calls = list(watch.calls)
        with io.FileIO(writer, "w") as pipe:
            pipe.write(json.dumps(calls).encode())

    status = in_fork(action)
    os.close(writer)
    with io.FileIO(reader) as pipe:
        calls: list[str] = json.loads(pipe.readall())
    assert status == 0
    return calls


def killed(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Write and die as each case says, without waiting for the disk: a kill loses nothing of what was written."""
    os.fsync = lambda _: None
    return [kill_each(**case) for case in cases]


def kill_each(folder: str, options: dict[str, Any], *, is_there: bool, every: int, first: int) -> dict[str, Any]:
    """Write and die at calls in turn; a row says what was found, and what a write after that gave.

    :param every: which calls, from the first, besides those around the rename: 1 for all of them
    """
    target = Path(folder) / "agent.zip"

    def prepare() -> None:
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))
        if is_there:
            target.write_bytes(OLD)

    prepare()
    archive = new_archive()
    calls = traced(target, options)
    renamed = calls.index("link" if options.get("overwrite") is False else "replace")
    rows = []
    for number in range(len(calls)):
        if number % every != first and abs(number - renamed) > 1:
            continue
        for how in HOW if calls[number] == "write" else (HOW[0], HOW[2]):
            prepare()

            def action(number: int = number, how: str = how) -> None:
                Watch(number, how).install()
                sbformat.write(archive, target, **{"overwrite": True, **options})

            status = in_fork(action)
            row = {"call": calls[number], "number": number, "how": how, "signal": os.WTERMSIG(status)}
            row |= {"target": found(target), "beside": beside(target)}
            sbformat.write(archive, target, overwrite=True)
            row |= {"after": found(target), "beside_after": beside(target)}
            rows.append(row)
    return {"calls": calls, "rows": rows}


# -- no room ------------------------------------------------------------------------------------------


def no_room(folder: str, sizes: list[int]) -> list[dict[str, Any]]:
    """Write where no file may be larger than each of these sizes."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    target = Path(folder) / "agent.zip"
    target.write_bytes(OLD)
    archive = new_archive()
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    rows = []
    for size in sizes:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            sbformat.write(archive, target, overwrite=True)
            outcome = "written"
        except OSError as error:
            outcome = errno.errorcode[error.errno or 0]
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        rows.append({"size": size, "outcome": outcome, "target": found(target), "beside": beside(target)})
        target.write_bytes(OLD)
    return rows


# -- together -----------------------------------------------------------------------------------------


def hold(path: str) -> list[str]:
    """Map an archive, say so, wait for a line, then tell its tensors."""
    with sbformat.safe_open(path) as file:
        sys.stdout.write("mapped\n")
        sys.stdout.flush()
        sys.stdin.readline()
        return [file.get_tensor(name).tobytes().hex() for name in file.keys()]  # noqa: SIM118 -- safetensors' interface


def over_and_over(path: str, which: str) -> int:
    """Write one archive to one target until standard input ends; return how often."""
    archive = new_archive().replace(extra={"which": which.encode() * 4000})
    with io.FileIO(0, closefd=False) as pipe:
        os.set_blocking(0, False)
        count = 0
        while pipe.read(1) != b"":
            sbformat.write(archive, path, overwrite=True)
            count += 1
    return count


# -- memory -------------------------------------------------------------------------------------------


def arrays(mib: int) -> Iterator[tuple[str, np.ndarray]]:
    """Tensors of many shapes and this many MiB in all, a quarter of them not contiguous."""
    share = mib * MIB // 4
    yield "flat", np.arange(share // 4, dtype="f4")
    square = int((share // 8) ** 0.5)
    yield "square", np.arange(square * square, dtype="f8").reshape(square, square)
    wide = np.arange(share // 2, dtype="f2").reshape(2, -1)
    yield "first", wide[0]
    yield "second", wide[1]
    yield "turned", np.arange(share // 4 // 4, dtype="i4").reshape(64, -1).T
    yield "back", np.arange(share // 4 // 4, dtype="i4")[::-1]
    yield "apart", np.arange(share // 4, dtype="i4").reshape(-1, 2)[:, ::2]
    for number in range(100):
        yield f"small.{number}", np.full((3, 5), number, "f4")


def memory(path: str, mib: int) -> dict[str, Any]:
    """Write tensors of this size; tell what the process grew by at most, and how long it took."""
    weights = dict(arrays(mib))
    archive = sbformat.reads(build_zips.sb3_archive())
    np.arange(3).tobytes()
    rows: dict[str, Any] = {}
    forget()
    before, start = peak(), time.perf_counter()
    archive = archive.replace(parameters={"policy": weights})
    sbformat.write(archive, path, overwrite=True)
    rows["grown"], rows["seconds"] = peak() - before, time.perf_counter() - start
    rows["size"] = os.path.getsize(path)
    with sbformat.safe_open(path) as file:
        rows["same"] = all(same(file.get_tensor(name), weights[name]) for name in weights)
    return rows


def same(first: np.ndarray, second: np.ndarray) -> bool:
    """Equal, looked at in pieces."""
    return first.shape == second.shape and all(
        np.array_equal(first[at : at + MIB], second[at : at + MIB]) for at in range(0, len(first), MIB)
    )


TASKS: Final[dict[str, Callable[..., Any]]] = {
    "killed": killed, "no_room": no_room, "hold": hold, "over_and_over": over_and_over, "memory": memory,
}  # fmt: skip

if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(json.dumps(TASKS[sys.argv[1]](**json.loads(sys.argv[2]))))
