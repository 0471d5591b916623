"""Bounded reads: each names what it wants, none comes back short."""

from __future__ import annotations

import pytest

from sbformat.errors import ContainerError, FormatError, TensorError
from sbformat.io.source import Cursor


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
