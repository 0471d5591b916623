"""Writing when things go wrong: no room, no rights, a kill at any call, readers and writers at once, little memory.

The target is wholly old or wholly new, whatever happens, and no more than one ``.*.tmp`` lies beside it.
"""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
import time
import zipfile
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import sbformat
from conformance.generators import build_zips
from sbformat.io.atomic import NewFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytest.importorskip("resource", reason="limits and signals of POSIX")

from tests.children import write_archives
from tests.children.write_archives import MIB, NEW, OLD, beside, found, new_archive
from tests.helpers.sampling import with_exhaustive

CHILD: Final = Path(write_archives.__file__)
PATIENCE: Final = 500
TEMPORARY: Final = re.compile(r"\.[0-9a-f]{16}\.tmp")


def start(task: str, **arguments: Any) -> subprocess.Popen[str]:
    """Start a task of ``write_archives.py``."""
    command = [sys.executable, str(CHILD), task, json.dumps(arguments)]
    streams: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, **streams)


def finish(child: subprocess.Popen[str], sent: str = "", *, patience: float = PATIENCE) -> Any:
    """Its answer."""
    answer, complaint = child.communicate(sent, timeout=patience)
    assert child.returncode == 0, complaint[-2000:]
    return json.loads(answer)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A file that holds the old archive, alone in its folder."""
    path = tmp_path / "agent.zip"
    path.write_bytes(OLD)
    return path


def test_the_archives_of_these_tests_are_readable_and_differ() -> None:
    assert sbformat.reads(OLD).extra["which"] == b"old"
    assert sbformat.reads(NEW) == new_archive()
    assert sbformat.reads(NEW).extra["which"] == b"new"


# -- killed -------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("every", with_exhaustive([12], [1]))
def test_a_kill_at_any_call_leaves_the_old_or_the_new(tmp_path: Path, every: int) -> None:
    """In the default run every twelfth call, of each way to write another one, and those around the rename."""
    ways: list[tuple[bool, dict[str, Any]]] = [
        (True, {}), (False, {}), (False, {"overwrite": False}), (True, {"reencode": True}),
    ]  # fmt: skip
    cases = [
        {"folder": str(tmp_path), "options": options, "is_there": is_there, "every": every, "first": first % every}
        for first, (is_there, options) in enumerate(ways)
    ]
    for case, answer in zip(cases, finish(start("killed", cases=cases))):
        check_kills(answer, **case)


def check_kills(answer: Any, *, options: Any, is_there: bool, every: int, first: int, **_: str) -> None:
    """Check what was found after each kill."""
    old = "old" if is_there else "absent"
    rename = "link" if options.get("overwrite") is False else "replace"
    calls = answer["calls"]
    assert calls.count("write") > 15
    assert calls.count(rename) == 1
    renamed = calls.index(rename)
    for row in answer["rows"]:
        is_over = row["number"] > renamed or (row["number"] == renamed and row["how"] == "after")
        assert row["signal"] == 9, row
        assert row["target"] == ("new" if is_over else old), row
        assert len(row["beside"]) <= 1, row
        assert all(TEMPORARY.fullmatch(name) for name in row["beside"]), row
        assert (row["after"], row["beside_after"]) == ("new", row["beside"]), row
    numbers = [number for number in range(len(calls)) if number % every == first or abs(number - renamed) <= 1]
    assert [row["number"] for row in answer["rows"]] == [
        number for number in numbers for _ in range(3 if calls[number] == "write" else 2)
    ]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("overwrite", [True, False])
def test_the_file_is_synced_before_it_takes_its_name_and_the_folder_after(tmp_path: Path, overwrite: bool) -> None:  # noqa: FBT001
    calls = write_archives.traced(tmp_path / "o.zip", {"overwrite": overwrite})
    renamed = calls.index("replace" if overwrite else "link")
    assert "write" not in calls[calls.index("fsync") :]
    assert calls.index("fsync") < renamed
    assert "fsync" in calls[renamed:]
    assert found(tmp_path / "o.zip") == "new"


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="needs posix_fadvise")
@pytest.mark.parametrize("is_refused", [True, False])
def test_each_range_is_named_once_for_the_disk(
    target: Path,
    is_refused: bool,  # noqa: FBT001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ranges = []

    def advise(_: int, start: int, size: int, advice: int) -> None:
        assert advice == os.POSIX_FADV_DONTNEED
        ranges.append(range(start, start + size))
        if is_refused:
            raise OSError(22, "not here")

    monkeypatch.setattr(os, "posix_fadvise", advise)
    monkeypatch.setattr(sbformat.io.atomic, "_WRITE_BACK_BYTES", 1000)
    target.unlink()
    sbformat.write(new_archive(), target)
    assert [place for one in ranges for place in one] == list(range(ranges[-1].stop))
    assert 0 <= target.stat().st_size - ranges[-1].stop < 1000
    assert found(target) == "new"


# -- no room ------------------------------------------------------------------------------------------


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    sizes = [*range(0, len(NEW), 37), *range(len(NEW) - 30, len(NEW) + 2)]
    rows = finish(start("no_room", folder=str(tmp_path), sizes=sizes))
    assert [row["size"] for row in rows] == sizes
    for row in rows:
        fits = row["size"] >= len(NEW)
        assert row["outcome"] == ("written" if fits else "EFBIG"), row
        assert row["target"] == ("new" if fits else "old"), row
        assert row["beside"] == [], row


# -- errors of the system -----------------------------------------------------------------------------


class Fault:
    """Lets a call through a few times, then fails with an error of the system, once.

    :param call: the real one
    :param number: how often it is let through
    :param code: of the error
    :param only: which calls count, by their first argument
    """

    def __init__(
        self, call: Callable[..., Any], number: int, code: int, only: Callable[[Any], bool] = lambda _: True
    ) -> None:
        self.error = OSError(code, os.strerror(code))
        self.is_raised = False
        self._call = call
        self._left = number
        self._only = only

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.is_raised and self._only(args[0]):
            if self._left == 0:
                self.is_raised = True
                raise self.error
            self._left -= 1
        return self._call(*args, **kwargs)


def failure(archive: sbformat.Archive, target: Path, **options: Any) -> BaseException | None:
    """What ends a write; None when it comes to its end."""
    try:
        sbformat.write(archive, target, **{"overwrite": True, **options})
    except BaseException as error:  # noqa: BLE001 -- interrupts, too
        return error
    return None


def is_temporary(path: Any) -> bool:
    return TEMPORARY.fullmatch(os.path.basename(str(path))) is not None


CODES: Final = [errno.EROFS, errno.EACCES, errno.ENOSPC, errno.EIO]
names_of_codes = errno.errorcode.get


@pytest.mark.parametrize("code", CODES, ids=names_of_codes)
@pytest.mark.parametrize(
    ("name", "number"),
    [("open", 0), ("open", 1), ("fsync", 0), ("fsync", 1), ("replace", 0), ("close", 0), ("stat", 0)],
)
def test_errors_of_the_system_pass_and_leave_the_old_file(
    target: Path, monkeypatch: pytest.MonkeyPatch, name: str, number: int, code: int
) -> None:
    only = is_temporary if name == "open" else lambda path: name != "stat" or str(path) == str(target)
    fault = Fault(getattr(os, name), number, code, only)
    archive = new_archive()
    with monkeypatch.context() as patch, pytest.raises(OSError, match=os.strerror(code)) as caught:
        patch.setattr(os, name, fault)
        sbformat.write(archive, target, overwrite=True)
    assert caught.value is fault.error
    assert (found(target), beside(target)) == ("old", [])
    sbformat.write(archive, target, overwrite=True)
    assert (found(target), beside(target)) == ("new", [])


def test_an_error_of_chmod_passes_and_leaves_the_old_file(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target.chmod(0o500)
    fault = Fault(os.chmod, 0, errno.EPERM)
    with monkeypatch.context() as patch, pytest.raises(PermissionError) as caught:
        patch.setattr(os, "chmod", fault)
        sbformat.write(new_archive(), target, overwrite=True)
    assert caught.value is fault.error
    assert (found(target), beside(target)) == ("old", [])


def test_a_file_system_without_modes_is_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError(errno.EPERM, "no modes here")

    monkeypatch.setattr(os, "chmod", refuse)
    sbformat.write(new_archive(), tmp_path / "o.zip", overwrite=True)
    assert found(tmp_path / "o.zip") == "new"


def test_a_folder_that_cannot_be_synced_is_no_error(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = Fault(os.open, 0, errno.EACCES, lambda path: str(path) == str(target.parent))
    monkeypatch.setattr(os, "open", fault)
    sbformat.write(new_archive(), target, overwrite=True)
    assert fault.is_raised
    assert found(target) == "new"


def test_a_temporary_that_cannot_be_removed_does_not_hide_the_error(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace, unlink = Fault(os.replace, 0, errno.EIO), Fault(os.unlink, 0, errno.EROFS)
    with monkeypatch.context() as patch, pytest.raises(OSError, match=os.strerror(errno.EIO)) as caught:
        patch.setattr(os, "replace", replace)
        patch.setattr(os, "unlink", unlink)
        sbformat.write(new_archive(), target, overwrite=True)
    assert caught.value is replace.error
    assert unlink.is_raised
    assert found(target) == "old"


@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK], ids=names_of_codes)
def test_a_file_system_without_links_keeps_what_is_there(
    target: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", refuse)
    other = target.with_name("other.zip")
    sbformat.write(new_archive(), other, overwrite=False)
    with pytest.raises(FileExistsError, match="already exists; pass overwrite=True to replace it"):
        sbformat.write(new_archive(), other, overwrite=False)
    other.unlink()

    def meanwhile(_: int) -> None:
        other.write_bytes(OLD)

    with pytest.raises(FileExistsError):
        sbformat.write(new_archive(), other, overwrite=False, progress=meanwhile)
    assert found(other) == "old"
    assert beside(other) == ["agent.zip"]


class Unreliable(NewFile):
    """A raw file that writes little at a time, and fails at some call."""

    at_most: int = 1 << 30
    left: int = 1 << 30
    error: OSError

    def write(self, data: Any) -> int:
        type(self).left -= 1
        if self.left < 0:
            raise self.error
        return super().write(memoryview(data)[: self.at_most])


@pytest.fixture
def unreliable(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Unreliable]]:
    """The raw file that archives are written to; its class says how it behaves."""

    class Made(Unreliable):
        """One a test."""

    monkeypatch.setattr("sbformat.io.atomic.NewFile", Made)
    yield Made
    assert Made.left < 1 << 30, "nothing was written to it"


@pytest.mark.parametrize("code", CODES, ids=names_of_codes)
def test_a_write_that_fails_at_any_call_leaves_the_old_file(
    target: Path, unreliable: type[Unreliable], code: int
) -> None:
    archive = new_archive()
    for number in range(1000):
        unreliable.left, unreliable.error = number, OSError(code, os.strerror(code))
        error = failure(archive, target)
        if error is None:
            break
        assert error is unreliable.error
        assert (found(target), beside(target)) == ("old", [])
    assert number > 15
    assert (found(target), beside(target)) == ("new", [])


def test_a_file_that_takes_little_at_a_time_is_written_whole(target: Path, unreliable: type[Unreliable]) -> None:
    unreliable.at_most = 7
    sbformat.write(new_archive(), target, overwrite=True)
    assert (found(target), beside(target)) == ("new", [])


@pytest.mark.parametrize("at", [0, 40, len(NEW) // 3, len(NEW) // 2, -10, -1])
def test_what_the_disk_gives_back_otherwise_is_refused(target: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    class Flipped(sbformat.writer.FileSource):  # type: ignore[name-defined,misc]
        """One bit comes back wrong."""

        __slots__ = ()

        def view(self, offset: int, length: int) -> memoryview:
            data = bytearray(super().view(offset, length))
            if offset <= at % self.size < offset + length:
                data[at % self.size - offset] ^= 1
            return memoryview(bytes(data))

    monkeypatch.setattr("sbformat.writer.FileSource", Flipped)
    with pytest.raises(sbformat.SbformatError):
        sbformat.write(new_archive(), target, overwrite=True)
    assert (found(target), beside(target)) == ("old", [])


def test_a_file_that_comes_back_shorter_is_an_error_of_the_system(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = os.fsync

    def cut(handle: int) -> None:
        synced(handle)
        if os.fstat(handle).st_size > 100:
            os.ftruncate(handle, os.fstat(handle).st_size - 1)

    monkeypatch.setattr(os, "fsync", cut)
    with pytest.raises((OSError, sbformat.SbformatError)):
        sbformat.write(new_archive(), target, overwrite=True)
    assert (found(target), beside(target)) == ("old", [])


def test_weights_that_change_while_they_are_written_give_a_whole_file_or_none(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import zlib

    weights = np.zeros(1000, "f4")
    archive = new_archive().replace(parameters={"policy": {"w": weights}})

    class Training:
        """Weights go on changing between the checksum of a chunk and its writing."""

        @staticmethod
        def crc32(chunk: Any, crc: int = 0) -> int:
            value = zlib.crc32(chunk, crc)
            if len(chunk) == weights.nbytes:
                weights[:] += 1
            return value

    for name in ("writer", "checksums"):
        monkeypatch.setattr(f"sbformat.container.{name}.zlib", Training)
    try:
        sbformat.write(archive, target, overwrite=True)
    except sbformat.ContainerError:
        assert found(target) == "old"
    else:
        assert set(sbformat.read_parameters(target)["policy"]["w"].tolist()) <= set(range(10))
    assert beside(target) == []


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_is_an_error(target: Path) -> None:
    target.parent.chmod(0o500)
    try:
        with pytest.raises(PermissionError):
            sbformat.write(new_archive(), target, overwrite=True)
    finally:
        target.parent.chmod(0o700)
    assert (found(target), beside(target)) == ("old", [])


def test_an_interrupt_at_any_progress_leaves_the_old_file(target: Path) -> None:
    archive = new_archive()
    for error in (KeyboardInterrupt, SystemExit, MemoryError):
        for number in range(1000):
            left = [number]

            def progress(_: int, error: Any = error, left: list[int] = left) -> None:
                left[0] -= 1
                if left[0] < 0:
                    raise error

            target.write_bytes(OLD)
            raised = failure(archive, target, progress=progress)
            if raised is None:
                break
            assert type(raised) is error
            assert (found(target), beside(target)) == ("old", [])
        assert number > 5
        assert (found(target), beside(target)) == ("new", [])


# -- together -----------------------------------------------------------------------------------------


def test_a_mapped_reader_sees_the_old_tensors_while_the_file_is_replaced(target: Path) -> None:
    other = start("hold", path=str(target))
    assert other.stdout is not None
    assert other.stdout.readline() == "mapped\n"
    expected = [np.array(values, "<f4").tobytes() for values in build_zips.POLICY.values()]
    changed = {name: np.full(len(values), 9, "f4") for name, values in build_zips.POLICY.items()}
    with sbformat.safe_open(target) as file:
        first = file.get_tensor("w")
        for archive in (new_archive().replace(parameters={"policy": changed}), new_archive().without("policy.pth")):
            sbformat.write(archive, target, overwrite=True)
            assert [file.get_tensor(name).tobytes() for name in file.keys()] == expected  # noqa: SIM118
    assert first.tobytes() == expected[0]
    assert "policy" not in sbformat.read(target).parameters
    assert finish(other, "go on\n") == [values.hex() for values in expected]
    assert beside(target) == []


def test_two_writers_and_a_reader_meet_whole_archives_only(target: Path) -> None:
    writers = [start("over_and_over", path=str(target), which=which) for which in ("a", "b")]
    seen = dict.fromkeys(
        [OLD, *(sbformat.writes(new_archive().replace(extra={"which": w * 4000})) for w in (b"a", b"b"))], 0
    )
    until = time.monotonic() + PATIENCE
    try:
        while min(list(seen.values())[1:]) < 50 and time.monotonic() < until:
            archive = sbformat.read(target)
            seen[sbformat.writes(archive)] += 1
            assert target.read_bytes() in seen
    finally:
        counts = [finish(writer) for writer in writers]
    assert min(counts) > 0
    assert min(list(seen.values())[1:]) >= 50, (seen.values(), counts)
    assert len(seen) == 3
    assert beside(target) == []


# -- memory -------------------------------------------------------------------------------------------

on_linux = pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="needs Linux to measure memory")


@on_linux
@pytest.mark.parametrize("mib", with_exhaustive([32], [128, 256]))
def test_tens_of_megabytes_are_written_in_little_memory(tmp_path: Path, mib: int) -> None:
    found = finish(start("memory", path=str(tmp_path / "o.zip"), mib=mib))
    (tmp_path / "o.zip").unlink()
    assert found["same"]
    assert found["size"] > (mib - 6) * MIB
    assert 0 < found["grown"] < min(mib / 2, 64) * MIB


@pytest.mark.slow
@on_linux
def test_two_gibibytes_are_written_in_little_memory(tmp_path: Path) -> None:
    found = finish(start("memory", path=str(tmp_path / "o.zip"), mib=2048), patience=600)
    (tmp_path / "o.zip").unlink()
    sys.stderr.write(f"\n2 GiB: {found}\n")
    assert found["same"]
    assert found["size"] > 2000 * MIB
    assert 0 < found["grown"] < 64 * MIB


@pytest.mark.slow
def test_a_tensor_beyond_32_bits_is_read_back_by_all(tmp_path: Path) -> None:
    path = tmp_path / "o.zip"
    large = np.arange((4096 + 64) * MIB // 4, dtype="<f4")
    weights = {"large": large, "behind": np.arange(5, dtype="<i8")}
    began = time.perf_counter()
    archive = sbformat.reads(build_zips.sb3_archive()).replace(
        parameters={"policy": weights, "z": {"w": np.ones(3, "f4")}}
    )
    sbformat.write(archive, path, overwrite=True)
    sys.stderr.write(f"\n{path.stat().st_size:,} bytes written in {time.perf_counter() - began:.1f} s\n")
    with pytest.raises(sbformat.LimitError, match="total_bytes"):
        sbformat.read(path)
    with sbformat.safe_open(path) as file:
        assert write_archives.same(file.get_tensor("large"), large)
        assert file.get_tensor("behind").tolist() == [0, 1, 2, 3, 4]
    with sbformat.safe_open(path, entry="z") as file:
        assert file.get_tensor("w").tolist() == [1, 1, 1]
    began = time.perf_counter()
    with zipfile.ZipFile(path) as outer:
        assert outer.testzip() is None
        with outer.open("policy.pth") as stream, zipfile.ZipFile(stream) as inner:
            assert inner.getinfo("archive/data/0").file_size == large.nbytes
            with inner.open("archive/data/0") as record:
                for at in range(0, len(large), MIB):
                    assert record.read(4 * MIB) == large[at : at + MIB].tobytes()
                assert record.read() == b""
            assert inner.read("archive/data/1") == weights["behind"].tobytes()
        with zipfile.ZipFile(BytesIO(outer.read("z.pth"))) as inner:
            assert inner.testzip() is None
    sys.stderr.write(f"zipfile read it in {time.perf_counter() - began:.1f} s\n")
    try:
        import torch
    except ImportError:
        sys.stderr.write("torch is not there\n")
        return
    with zipfile.ZipFile(path) as outer, outer.open("policy.pth") as stream:
        loaded = torch.load(stream, weights_only=True)
    assert list(loaded) == ["large", "behind"]
    assert write_archives.same(loaded["large"].numpy(), large)
    assert loaded["behind"].tolist() == [0, 1, 2, 3, 4]
    sys.stderr.write(f"torch {torch.__version__} read it\n")


def test_a_pth_that_the_disk_gives_back_otherwise_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sbformat.writer import write_pth

    class Flipped(sbformat.writer.FileSource):  # type: ignore[name-defined,misc]
        """One bit of the tensor comes back wrong."""

        def view(self, offset: int, length: int) -> memoryview:
            found = bytearray(super().view(offset, length))
            at = found.find(b"\x01\x02\x03\x04")
            if at >= 0:
                found[at] ^= 4
            return memoryview(found)

    monkeypatch.setattr(sbformat.writer, "FileSource", Flipped)
    with pytest.raises(sbformat.ContainerError, match="CRC"):
        write_pth(sbformat.StateDict.from_arrays({"x": np.arange(100, dtype=np.uint8)}), tmp_path / "o.pth")
    assert not list(tmp_path.iterdir())


def test_a_link_that_takes_the_place_of_the_temporary_is_not_followed(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    opened = sbformat.io.atomic.open_new

    def swapped(temporary: Path) -> Any:
        temporary.unlink()
        temporary.symlink_to(victim)
        return opened(temporary)

    monkeypatch.setattr(sbformat.writer, "open_new", swapped)
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        sbformat.write(new_archive(), target, overwrite=True)
    assert victim.read_bytes() == b"mine"
    assert found(target) == "old"


def test_old_temporary_files_are_removed_and_no_others(tmp_path: Path) -> None:
    names = [".0123456789abcdef.tmp", ".fedcba9876543210.tmp", ".0123456789abcdef.tmp.zip", "0123456789abcdef.tmp"]
    for name in names:
        (tmp_path / name).write_bytes(b"half")
        os.utime(tmp_path / name, (0, 0))
    os.utime(tmp_path / names[1])  # of a process that runs
    (tmp_path / ".aaaaaaaaaaaaaaaa.tmp").mkdir()
    sbformat.write(new_archive(), tmp_path / "agent.zip")
    assert sorted(os.listdir(tmp_path)) == sorted([*names[1:], ".aaaaaaaaaaaaaaaa.tmp", "agent.zip"])
