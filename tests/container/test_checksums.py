"""CRC-32s of what is put together, against zlib's of the whole."""

from __future__ import annotations

import os
import threading
import types
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbformat.container.checksums import combine_crc32, crc32
from tests.helpers import thresholds
from tests.helpers.sampling import more_examples


@more_examples(100)
@given(st.binary(), st.binary())
def test_that_of_two_runs_is_that_of_both_together(first: bytes, second: bytes) -> None:
    assert combine_crc32(zlib.crc32(first), zlib.crc32(second), len(second)) == zlib.crc32(first + second)


@more_examples(100)
@given(st.lists(st.binary(), max_size=20))
def test_many_are_put_together_one_by_one(runs: list[bytes]) -> None:
    total = 0
    for run in runs:
        total = combine_crc32(total, zlib.crc32(run), len(run))
    assert total == zlib.crc32(b"".join(runs))


@pytest.mark.parametrize("size", [0, 1, 255, 256, 65_535, 65_536, (1 << 20) - 1, 1 << 20, 3_000_001])
def test_runs_of_many_sizes(size: int) -> None:
    first, second = os.urandom(100), os.urandom(size)
    assert combine_crc32(zlib.crc32(first), zlib.crc32(second), size) == zlib.crc32(first + second)


@pytest.mark.parametrize("size", [1 << 31, (1 << 32) - 1, 1 << 32, (1 << 40) + 12345])
def test_runs_larger_than_memory_are_as_their_parts_say(size: int) -> None:
    """Appending ``size`` bytes is appending half of them twice."""
    one, half = 0x12345678, size // 2
    zeros = 0  # any CRC would do: what counts is how far the first run is moved
    moved = combine_crc32(combine_crc32(one, zeros, half), zeros, size - half)
    assert combine_crc32(one, zeros, size) == moved


@pytest.mark.parametrize("size", [999, 1000, 1001, 5000])
@pytest.mark.parametrize("before", [0, 0x12345678])
def test_two_threads_compute_the_crc_of_large_bytes(monkeypatch: pytest.MonkeyPatch, size: int, before: int) -> None:
    monkeypatch.setattr(thresholds.CRC_PARALLEL_BYTES, 1000)
    threads = set()
    compute = zlib.crc32

    def watch(data: memoryview, before: int = 0) -> int:
        threads.add(threading.current_thread().name)
        return compute(data, before)

    monkeypatch.setattr("sbformat.container.checksums.zlib", types.SimpleNamespace(crc32=watch))
    data = os.urandom(size)
    assert crc32(memoryview(data), before) == compute(data, before)
    assert len(threads) == (2 if size >= 1000 else 1)


def test_without_a_result_of_the_thread_one_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thresholds.CRC_PARALLEL_BYTES, 1000)
    monkeypatch.setattr("threading.Thread.run", lambda _: None)
    assert crc32(memoryview(bytes(2000)), 7) == zlib.crc32(bytes(2000), 7)


def test_without_threads_one_computes_the_crc(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        message = "can't start new thread"
        raise RuntimeError(message)

    monkeypatch.setattr(thresholds.CRC_PARALLEL_BYTES, 1000)
    monkeypatch.setattr("threading.Thread.start", fail)
    assert crc32(memoryview(bytes(2000)), 7) == zlib.crc32(bytes(2000), 7)
