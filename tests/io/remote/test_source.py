"""Blocks, neighbours, what is kept, what is fetched ahead: over a file that records what is fetched."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbformat import ContainerError, LimitError, Limits
from sbformat.io.remote.source import BLOCK_BYTES, OPENING_BYTES, Range, RemoteSource
from tests.helpers import thresholds
from tests.helpers.recorded_file import RecordedFile
from tests.helpers.sampling import more_examples

BLOCK = BLOCK_BYTES
MIB = 1 << 20
KEPT_BYTES = thresholds.read_threshold(thresholds.REMOTE_KEPT_BYTES)
AHEAD_BYTES = thresholds.read_threshold(thresholds.REMOTE_AHEAD_BYTES)
DATA = random.Random(0).randbytes(3 * MIB + 12_345)  # noqa: S311 -- the same each time


class ZeroFile(RecordedFile):
    """A large file that is not in memory."""

    def __init__(self, size: int) -> None:
        super().__init__(b"")
        self.size = size

    def fetch(self, ranges: Sequence[Range]) -> list[bytes]:
        self.calls.append(list(ranges))
        return [bytes(stop - start) for start, stop in ranges]


def open_recorded(**options: bool) -> tuple[RecordedFile, RemoteSource]:
    file = RecordedFile(DATA, **options)
    return file, RemoteSource(file)


def test_a_small_read_fetches_a_block_once() -> None:
    file, source = open_recorded()
    for _ in range(2):
        assert bytes(source.view(BLOCK + 5, 10)) == DATA[BLOCK + 5 : BLOCK + 15]
    assert bytes(source.view(BLOCK, BLOCK)) == DATA[BLOCK : 2 * BLOCK]
    assert file.calls == [[(BLOCK, 2 * BLOCK)]]
    assert source.fetched == BLOCK


def test_missing_neighbours_are_one_range() -> None:
    file, source = open_recorded()
    source.view(3 * BLOCK, 1)
    assert bytes(source.view(BLOCK + 1, 4 * BLOCK)) == DATA[BLOCK + 1 : 5 * BLOCK + 1]
    assert file.calls == [[(3 * BLOCK, 4 * BLOCK)], [(BLOCK, 3 * BLOCK), (4 * BLOCK, 6 * BLOCK)]]


def test_the_last_block_ends_with_the_file() -> None:
    file, source = open_recorded()
    last = file.size // BLOCK * BLOCK
    assert bytes(source.view(file.size - 22, 22)) == DATA[-22:]
    assert bytes(source.view(file.size - 22, 500)) == DATA[-22:]
    assert file.ranges == [(last, file.size)]


@pytest.mark.parametrize(("offset", "length"), [(0, 0), (5, 0), (len(DATA), 10), (len(DATA) + 5, 10), (5, -1)])
def test_an_empty_read_fetches_nothing(offset: int, length: int) -> None:
    file, source = open_recorded()
    assert bytes(source.view(offset, length)) == b""
    assert file.calls == []


def test_the_first_bytes_are_kept() -> None:
    file = RecordedFile(DATA)
    source = RemoteSource(file, DATA[:OPENING_BYTES])
    assert bytes(source.view(0, OPENING_BYTES)) == DATA[:OPENING_BYTES]
    assert file.calls == []
    assert source.fetched == OPENING_BYTES
    source.view(OPENING_BYTES, 1)
    assert file.ranges == [(OPENING_BYTES, OPENING_BYTES + BLOCK)]


def test_a_part_of_a_block_is_not_taken_for_all_of_it() -> None:
    file = RecordedFile(DATA)
    source = RemoteSource(file, DATA[: BLOCK + 5])
    assert bytes(source.view(BLOCK, 10)) == DATA[BLOCK : BLOCK + 10]
    assert file.ranges == [(BLOCK, 2 * BLOCK)]


def test_views_cannot_be_written_to() -> None:
    for source in (open_recorded()[1], open_recorded(whole=True)[1]):
        assert source.view(0, 10).readonly
        assert source.view(0, 2 * MIB).readonly
        assert source.load().view(0, 10).readonly


@more_examples(100)
@given(st.lists(st.tuples(st.integers(0, len(DATA)), st.integers(0, 2 * MIB)), max_size=12), st.integers(0, 9))
def test_every_order_of_reads_returns_the_bytes_of_the_file(reads: list[tuple[int, int]], blocks: int) -> None:
    source = RemoteSource(RecordedFile(DATA), DATA[: blocks * BLOCK])
    for offset, length in reads:
        assert bytes(source.view(offset, length)) == DATA[offset : offset + length]
    assert bytes(source.load().view(0, len(DATA))) == DATA


def test_what_is_kept_is_bounded_and_the_oldest_goes_first() -> None:
    file = ZeroFile(1 << 30)
    source = RemoteSource(file)
    kept = KEPT_BYTES // BLOCK
    for number in range(kept):
        source.view(number * BLOCK, 1)
    source.view(0, 1)  # used again
    source.view(kept * BLOCK, 1)
    count = len(file.calls)
    for number in (0, *range(2, kept + 1)):
        source.view(number * BLOCK, 1)
    assert len(file.calls) == count
    source.view(BLOCK, 1)
    assert len(file.calls) == count + 1


def test_memory_stays_bounded_over_a_gigabyte() -> None:
    file = ZeroFile(1 << 30)
    source = RemoteSource(file)
    tracemalloc.start()
    for at in range(0, 1 << 29, 4 * MIB):
        source.view(at, 2 * MIB)
        source.view(at + 3 * MIB, 900_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < KEPT_BYTES + 3 * AHEAD_BYTES


def test_a_large_read_is_exact_and_one_request() -> None:
    file, source = open_recorded()
    assert bytes(source.view(7, MIB)) == DATA[7 : 7 + MIB]
    assert file.calls == [[(7, 7 + MIB)]]
    source.view(2 * MIB, MIB)
    assert bytes(source.view(7, MIB)) == DATA[7 : 7 + MIB]
    assert len(file.calls) == 3, "only the last large read is kept"


def test_a_file_that_is_read_in_order_takes_few_requests() -> None:
    file = ZeroFile(100 * MIB)
    source = RemoteSource(file)
    for at in range(0, file.size, MIB):
        assert len(source.view(at, MIB)) == MIB
    assert len(file.calls) < 20
    assert file.fetched == file.size
    assert max(stop - start for start, stop in file.ranges) <= AHEAD_BYTES


def test_reads_that_do_not_follow_one_another_fetch_nothing_ahead() -> None:
    file = ZeroFile(100 * MIB)
    source = RemoteSource(file)
    for at in range(0, 50 * MIB, 5 * MIB):
        source.view(at, MIB)
    assert file.fetched == 10 * MIB


def test_the_same_large_read_is_fetched_once() -> None:
    file, source = open_recorded()
    for _ in range(3):
        source.view(0, MIB)
    assert len(file.calls) == 1


def test_several_places_are_fetched_together() -> None:
    file, source = open_recorded()
    source.prefetch([(0, 10), (10 * BLOCK - 5, 10 * BLOCK + 5), (-100, 5), (file.size - 5, file.size + 100), (9, 3)])
    last = file.size // BLOCK * BLOCK
    assert file.calls == [[(0, BLOCK), (9 * BLOCK, 11 * BLOCK), (last, file.size)]]
    source.prefetch([(0, 10)])
    source.view(10 * BLOCK, 5)
    assert len(file.calls) == 1


def test_no_more_is_fetched_in_advance_than_is_kept() -> None:
    file = ZeroFile(1 << 30)
    RemoteSource(file).prefetch([(0, 1 << 30)])
    assert file.fetched <= KEPT_BYTES // 2


def test_loading_fetches_what_is_missing_once() -> None:
    file = RecordedFile(DATA)
    source = RemoteSource(file, DATA[:OPENING_BYTES])
    counts: list[int] = []
    assert bytes(source.load(counts.append).view(0, len(DATA))) == DATA
    assert file.ranges == [(OPENING_BYTES, len(DATA))]
    assert (sum(counts), source.fetched) == (len(DATA), len(DATA))


def test_a_large_file_is_loaded_in_pieces() -> None:
    file = ZeroFile(30 * MIB)
    assert RemoteSource(file).load().size == 30 * MIB
    assert len(file.calls) == 4


def test_a_whole_file_is_never_fetched_again() -> None:
    file, source = open_recorded(whole=True)
    counts: list[int] = []
    assert not source.is_by_range()
    assert bytes(source.view(5, 2 * MIB)) == DATA[5 : 5 + 2 * MIB]
    assert bytes(source.view(5, 5)) == DATA[5:10]
    source.prefetch([(0, 10)])
    assert bytes(source.load(counts.append).view(0, len(DATA))) == DATA
    assert (file.calls, sum(counts)) == ([], len(DATA))


def test_bytes_that_are_missing_are_an_error() -> None:
    source = RemoteSource(RecordedFile(DATA, cut=1))
    for read in (lambda: source.view(5, 5), lambda: source.view(5, 2 * MIB), source.load):
        with pytest.raises(ContainerError, match="was cut off or has changed: expected"):
            read()


def test_limits_are_of_one_read_and_of_the_whole() -> None:
    source = RemoteSource(RecordedFile(DATA), limits=Limits(member_bytes=1000, total_bytes=10_000))
    assert len(source.view(0, 1000)) == 1000
    with pytest.raises(LimitError, match="member_bytes"):
        source.view(0, 1001)
    with pytest.raises(LimitError, match="total_bytes"):
        source.load()
    other = source.with_limits(Limits())
    assert (other.size, len(other.view(0, 2000)), len(other.load().view(0, 10))) == (len(DATA), 2000, 10)


def test_threads_read_the_same_file() -> None:
    file, source = open_recorded()

    def read(seed: int) -> bool:
        numbers = random.Random(seed)  # noqa: S311 -- the same each time
        for _ in range(60):
            offset, length = numbers.randrange(len(DATA)), numbers.choice([1, 100, BLOCK, 300_000, MIB, 2 * MIB])
            if bytes(source.view(offset, length)) != DATA[offset : offset + length]:
                return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(read, range(16)))
    assert file.calls


def test_an_error_leaves_the_source_usable() -> None:
    file, source = open_recorded()
    file.cut = 1
    with pytest.raises(ContainerError):
        source.view(0, 10)
    file.cut = 0
    assert bytes(source.view(0, 10)) == DATA[:10]
