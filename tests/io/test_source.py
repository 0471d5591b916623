"""Sources: whatever a caller gives becomes ``size`` and ``view``, copied no more than needed."""

from __future__ import annotations

import io
import mmap
import os
import sys
import threading
from array import array
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbformat.errors import ContainerError, FormatError, LimitError, TensorError, UnsupportedError
from sbformat.io.opening import open_large, open_path, open_source
from sbformat.io.source import BytesSource, Cursor, FileSource, is_in_memory, iter_views, read_ahead, slice_source
from sbformat.limits import Budget, Limits
from sbformat.pkl.numpy import array_buffer
from tests.helpers import thresholds

if TYPE_CHECKING:
    from collections.abc import Iterator


posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX only")


def content(source: BytesSource) -> bytes:
    return bytes(source.view(0, source.size))


class Unseekable(io.RawIOBase):
    """A pipe: bytes come once, a few at a time."""

    def __init__(self, data: bytes, step: int = 3) -> None:
        self.data = data
        self.step = step
        self.taken = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def read(self, size: int = -1) -> bytes:
        chunk = self.data[self.taken : self.taken + min(self.step, size if size >= 0 else self.step)]
        self.taken += len(chunk)
        return chunk


# -- BytesSource --------------------------------------------------------------------------------------


def test_a_source_knows_its_size_and_views_without_copying() -> None:
    data = b"0123456789"
    source = BytesSource(data)
    view = source.view(2, 3)
    assert source.size == 10
    assert bytes(view) == b"234"
    assert view.obj is data


def test_views_are_read_only_even_over_a_bytearray() -> None:
    assert BytesSource(bytearray(b"abc")).view(0, 3).readonly


def test_items_of_any_buffer_are_counted_in_bytes() -> None:
    numbers = array("I", [1, 2, 3])
    source = BytesSource(memoryview(numbers))
    assert source.size == 3 * numbers.itemsize
    assert content(source) == numbers.tobytes()


# -- bytes-like ---------------------------------------------------------------------------------------


def test_bytes_are_held_not_copied() -> None:
    data = b"abc"
    assert open_source(data).view(0, 3).obj is data


def test_a_view_of_bytes_is_held_not_copied() -> None:
    data = b"xabcx"
    assert open_source(memoryview(data)[1:4]).view(0, 3).obj is data


@pytest.mark.parametrize("wrap", [lambda buffer: buffer, memoryview])
def test_what_its_owner_could_still_change_is_copied(wrap: Any) -> None:
    buffer = bytearray(b"abc")
    source = open_source(wrap(buffer))
    buffer[:] = b"xyz"
    assert content(source) == b"abc"


def test_a_view_with_gaps_is_copied() -> None:
    assert content(open_source(memoryview(b"a-b-c-")[::2])) == b"abc"


# -- paths --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("kind", [str, Path])
def test_a_path_is_read_or_mapped(tmp_path: Path, kind: Any, mapped: bool) -> None:  # noqa: FBT001
    path = tmp_path / "agent.zip"
    path.write_bytes(b"content")
    assert content(open_source(kind(path), mapped=mapped)) == b"content"


@pytest.mark.parametrize("mapped", [False, True])
def test_an_empty_file_is_an_empty_source(tmp_path: Path, mapped: bool) -> None:  # noqa: FBT001
    path = tmp_path / "empty"
    path.touch()
    assert open_source(path, mapped=mapped).size == 0


def test_a_file_that_was_read_may_change_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "agent.zip"
    path.write_bytes(b"content")
    source = open_source(path)
    path.unlink()
    assert content(source) == b"content"


def test_a_bare_name_falls_back_to_the_zip(tmp_path: Path) -> None:
    (tmp_path / "agent.zip").write_bytes(b"content")
    assert content(open_source(tmp_path / "agent")) == b"content"


def test_the_exact_name_comes_before_the_fallback(tmp_path: Path) -> None:
    (tmp_path / "agent.zip").write_bytes(b"zip")
    (tmp_path / "agent").write_bytes(b"exact")
    assert content(open_source(tmp_path / "agent")) == b"exact"


def test_a_missing_file_is_an_os_error_with_the_name_that_was_asked_for(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        open_source(tmp_path / "agent")
    assert caught.value.filename == str(tmp_path / "agent")
    with pytest.raises(FileNotFoundError):
        open_path(tmp_path / "other")


def test_a_folder_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"directory|denied"):
        open_source(tmp_path)


def test_a_file_that_changes_its_size_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "agent.zip"
    path.write_bytes(b"content")
    status = os.fstat

    def one_more(descriptor: int) -> os.stat_result:
        found = list(status(descriptor))
        found[6] += 1
        return os.stat_result(found)

    monkeypatch.setattr(os, "fstat", one_more)
    with pytest.raises(ContainerError, match="changed its size"):
        open_source(path)


# -- large files -------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", [-1, 1, -1000, 1000])
def test_a_file_of_another_size_than_it_had_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: int
) -> None:
    path = tmp_path / "agent.zip"
    path.write_bytes(bytes(2000))
    status = os.fstat

    def another(descriptor: int) -> os.stat_result:
        found = list(status(descriptor))
        found[6] += by
        return os.stat_result(found)

    monkeypatch.setattr(os, "fstat", another)
    with pytest.raises(ContainerError, match=f"expected {2000 + by} bytes, got 2000"):
        open_source(path)
    with pytest.raises(ContainerError, match=f"expected {2000 + by} bytes, got 2000"):
        open_source(path, progress=lambda _: None)


@pytest.mark.parametrize("size", [1, 2999, 3000, 3001, 10_000])
def test_progress_counts_the_bytes_of_a_file_as_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(thresholds.FILE_PIECE_BYTES, 1000)
    path = tmp_path / "agent.zip"
    path.write_bytes(os.urandom(size))
    counts: list[int] = []
    view = open_source(path, progress=counts.append).view(0, size)
    assert view == path.read_bytes()
    assert view.readonly
    assert (sum(counts), max(counts) <= 1000) == (size, True)


@pytest.mark.parametrize("size", [4000, 4001, 4999, 9000, 12_345])
@pytest.mark.parametrize("has_preadv", [True, False])
def test_a_large_file_is_read_by_two_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, *, has_preadv: bool
) -> None:
    monkeypatch.setattr(thresholds.FILE_PIECE_BYTES, 1000)
    monkeypatch.setattr(thresholds.PARALLEL_BYTES, 4000)
    if not has_preadv:
        monkeypatch.delattr(os, "preadv", raising=False)
        monkeypatch.delattr(mmap, "MAP_ANONYMOUS", raising=False)
    path = tmp_path / "agent.zip"
    path.write_bytes(os.urandom(size))
    counts: list[int] = []
    started = []
    start = threading.Thread.start

    def watch(thread: threading.Thread) -> None:
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", watch)
    assert open_source(path, progress=counts.append).view(0, size) == path.read_bytes()
    assert open_source(path).view(0, size) == path.read_bytes()
    assert sum(counts) == size
    assert len(started) == (2 if has_preadv else 0)  # one beside this thread, each time


def test_a_failure_in_one_thread_ends_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thresholds.FILE_PIECE_BYTES, 1000)
    monkeypatch.setattr(thresholds.PARALLEL_BYTES, 4000)
    path = tmp_path / "agent.zip"
    path.write_bytes(bytes(9000))

    def fail(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        open_source(path, progress=fail)
    assert caught.tb is not None  # the traceback is still there
    assert "sbformat-read-ahead" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize("change", [-1, 1, -3000, 3000])
def test_a_large_file_that_changes_its_size_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: int
) -> None:
    monkeypatch.setattr(thresholds.FILE_PIECE_BYTES, 1000)
    monkeypatch.setattr(thresholds.PARALLEL_BYTES, 4000)
    path = tmp_path / "agent.zip"
    path.write_bytes(bytes(8000))
    status = os.fstat

    def other_size(descriptor: int) -> os.stat_result:
        found = list(status(descriptor))
        found[6] -= change
        return os.stat_result(found)

    monkeypatch.setattr(os, "fstat", other_size)
    with pytest.raises(ContainerError, match="changed its size"):
        open_source(path)


@pytest.mark.parametrize("size", [0, 1, 99, 100, 101, 1000])
def test_a_slice_of_a_source_is_in_memory_when_that_is(tmp_path: Path, size: int) -> None:
    data = bytes(at * at % 251 for at in range(1000))
    (tmp_path / "x").write_bytes(data)
    for source in (open_source(data), FileSource(tmp_path / "x")):
        inner = slice_source(slice_source(source, 30, 500), 2, 333)
        for part, first in ((slice_source(source, 3, 900), 3), (inner, 32)):
            assert is_in_memory(part) == is_in_memory(source)
            last = min(size, part.size)
            assert bytes(part.view(5, last)) == data[first + 5 : min(first + 5 + last, first + part.size)]
            assert b"".join(iter_views(part, 1, last, 7)) == data[first + 1 : first + last]


@pytest.mark.parametrize("parallel_bytes", [1000, 1 << 20])
def test_nothing_can_change_a_file_that_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parallel_bytes: int
) -> None:
    monkeypatch.setattr(thresholds.PARALLEL_BYTES, parallel_bytes)
    path = tmp_path / "x"
    path.write_bytes(bytes(2000))
    view = open_source(path).view(0, 2000)
    for made in (np.frombuffer(view, np.uint8), np.ndarray((500,), np.float32, array_buffer(view))):
        with pytest.raises(ValueError, match="WRITEABLE"):
            made.flags.writeable = True
    with path.open("r+b") as file:
        file.write(b"\1" * 2000)
        file.truncate(10)
    assert bytes(view) == bytes(2000)


@posix
def test_a_large_file_beside_a_link_that_leads_nowhere_is_not_taken_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sbformat.io.opening.LARGE_FILE_BYTES", 100)
    (tmp_path / "x.zip").write_bytes(bytes(2000))
    assert open_large(tmp_path / "x") is not None
    (tmp_path / "x").symlink_to("x")
    assert open_large(tmp_path / "x") is None
    with pytest.raises(OSError, match="links"):
        open_source(tmp_path / "x")


@posix
def test_a_pipe_is_read_to_its_end_and_charged() -> None:
    reading, writing = os.pipe()
    try:
        os.write(writing, b"content")
        os.close(writing)
        assert content(open_source(f"/dev/fd/{reading}", budget=Budget(Limits(total_bytes=7)))) == b"content"
    finally:
        os.close(reading)


@posix
def test_a_device_is_neither_a_file_nor_a_pipe() -> None:
    with pytest.raises(UnsupportedError, match="expected a file, a folder or a pipe"):
        open_source("/dev/null")


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="Linux only")
@pytest.mark.parametrize("mapped", [False, True])
def test_no_descriptor_stays_open(tmp_path: Path, mapped: bool) -> None:  # noqa: FBT001
    path = tmp_path / "agent.zip"
    path.write_bytes(b"content")
    before = len(os.listdir("/proc/self/fd"))
    source = open_source(path, mapped=mapped)
    del source
    assert len(os.listdir("/proc/self/fd")) == before


# -- file objects -------------------------------------------------------------------------------------


def test_a_seekable_file_object_is_read_from_its_start_wherever_it_stands() -> None:
    file = io.BytesIO(b"content")
    file.seek(4)
    assert content(open_source(file)) == b"content"
    assert not file.closed


def test_an_open_file_is_read_and_left_open(tmp_path: Path) -> None:
    path = tmp_path / "agent.zip"
    path.write_bytes(b"content")
    with path.open("rb") as file:
        file.read(3)
        assert content(open_source(file)) == b"content"
        assert not file.closed


def test_a_stream_is_read_from_where_it_stands() -> None:
    assert content(open_source(Unseekable(b"content"))) == b"content"


def test_a_stream_is_charged_as_it_comes() -> None:
    assert content(open_source(Unseekable(b"content"), budget=Budget(Limits(total_bytes=7)))) == b"content"
    stream = Unseekable(b"x" * 1000)
    with pytest.raises(LimitError) as caught:
        open_source(stream, budget=Budget(Limits(total_bytes=7)))
    assert caught.value.limit == "total_bytes"
    assert stream.taken == 9


def test_an_object_with_read_alone_is_a_stream() -> None:
    class Reader:
        chunks = [b"con", b"tent", b""]

        def read(self, _size: int) -> bytes:
            return self.chunks.pop(0)

    assert content(open_source(Reader())) == b"content"  # type: ignore[arg-type]


def test_a_text_file_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="binary"):
        open_source(io.StringIO("content"))  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [5, None, object(), ["data"], 1.5])
def test_anything_else_is_a_type_error(wrong: Any) -> None:
    with pytest.raises(TypeError):
        open_source(wrong)


@pytest.mark.parametrize("wrap", [bytes, memoryview])
def test_bytes_are_taken_in_order(wrap: type) -> None:
    cursor = Cursor(wrap(b"abcdef"), TensorError)
    assert bytes(cursor.take(2, "a pair")) == b"ab"
    assert (cursor.position, cursor.left) == (2, 4)
    assert bytes(cursor.take(4, "the rest")) == b"cdef"
    assert cursor.left == 0


def test_taking_nothing_is_always_possible() -> None:
    cursor = Cursor(b"", TensorError)
    assert cursor.take(0, "nothing") == b""
    assert cursor.uint(0, "nothing") == 0


@pytest.mark.parametrize("failure", [TensorError, ContainerError])
def test_a_short_read_names_what_was_wanted_and_where(failure: type[FormatError]) -> None:
    cursor = Cursor(b"abc", failure, offset=100)
    cursor.take(1, "a byte")
    with pytest.raises(failure, match="storage size: expected 8 bytes, got 2") as caught:
        cursor.take(8, "storage size")
    assert caught.value.offset == 101


def test_a_failed_read_takes_nothing() -> None:
    cursor = Cursor(b"abc", TensorError)
    with pytest.raises(TensorError):
        cursor.take(4, "too much")
    assert bytes(cursor.take(3, "all")) == b"abc"


@pytest.mark.parametrize("size", [-1, -(2**63), 2**63, 2**70])
def test_absurd_sizes_are_refused(size: int) -> None:
    with pytest.raises(TensorError):
        Cursor(b"abc", TensorError).take(size, "a run")


@pytest.mark.parametrize(
    ("raw", "value"), [(b"\x01", 1), (b"\xff", 255), (b"\x01\x02", 0x201), (b"\xff" * 8, 2**64 - 1), (b"\0" * 8, 0)]
)
def test_numbers_are_little_endian_and_unsigned(raw: bytes, value: int) -> None:
    assert Cursor(memoryview(raw), TensorError).uint(len(raw), "a number") == value


def test_a_number_that_is_cut_short_is_refused() -> None:
    with pytest.raises(TensorError, match="a count"):
        Cursor(b"\x01\x02\x03", TensorError).uint(4, "a count")


def test_views_are_not_copied() -> None:
    data = b"abcdef"
    taken = Cursor(memoryview(data), TensorError).take(3, "a part")
    assert isinstance(taken, memoryview)
    assert taken.obj is data


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("sbformat")]


@given(st.lists(st.one_of(st.none(), st.binary(max_size=3))))
def test_items_come_in_order(items: list[bytes | None]) -> None:
    assert list(read_ahead(iter(items))) == items
    assert threads() == []


def test_they_are_made_in_one_other_thread_one_step_ahead() -> None:
    made: list[int] = []
    makers = set()

    def steps() -> Iterator[int]:
        for step in range(10):
            makers.add(threading.get_ident())
            made.append(step)
            yield step

    for step in read_ahead(steps()):
        assert len(made) <= step + 3
    assert len(makers) == 1
    assert threading.get_ident() not in makers


@pytest.mark.parametrize("error", [ValueError("broken"), OSError(28, "no room"), KeyboardInterrupt(), MemoryError()])
def test_an_error_is_raised_where_the_item_would_have_come(error: BaseException) -> None:
    def steps() -> Iterator[int]:
        yield 1
        yield 2
        raise error

    seen = []
    with pytest.raises(type(error)) as caught:
        for step in read_ahead(steps()):
            seen.append(step)  # noqa: PERF402 -- those before the error
    assert caught.value is error
    assert seen == [1, 2]
    assert threads() == []


def test_nothing_is_left_of_one_that_is_not_used_up() -> None:
    ended = threading.Event()

    def steps() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            ended.set()

    items = read_ahead(steps())
    assert next(items) == 1
    items.close()  # type: ignore[attr-defined]
    del items
    assert threads() == []
    assert ended.wait(500)


def test_nothing_is_begun_before_it_is_asked_for() -> None:
    read_ahead(iter("abc"))
    assert threads() == []


def test_where_no_thread_can_be_had_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        message = "can't start new thread"
        raise RuntimeError(message)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert list(read_ahead(range(3))) == [0, 1, 2]


def test_an_interrupt_while_the_thread_starts_leaves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(read_ahead(iter("abc")))
    for thread in threading.enumerate():
        if thread.name.startswith("sbformat"):
            thread.join(500)
    assert threads() == []
