"""The readings of a pickle whose frames are wrong."""

from __future__ import annotations

from sbformat.pkl.opcodes import readings

FRAMED = b"\x80\x04\x95\x02" + bytes(7) + b"K\x01."


def test_a_reading_ends_after_stop() -> None:
    found, _ = readings(FRAMED + b"K\x02.", 100)
    assert [(reading.data, reading.end) for reading in found] == [(FRAMED, len(FRAMED))]
