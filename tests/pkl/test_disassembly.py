"""Pickles for people: opcodes as pickletools tells them, trees bounded whatever a file holds."""

from __future__ import annotations

import pickle
import pickletools

import pytest

from sbformat.errors import PickleError
from sbformat.limits import Budget
from sbformat.pkl import attempt, decode_pickle, trace
from sbformat.pkl.disassembly import opcodes, tree
from tests.helpers.many_cases import check_each

VALUES = (
    None,
    {"a": [1, 2.5, "text", b"bytes", 2**70], 1: (True, None, frozenset({1}))},
    [[]] * 3,
    bytearray(b"x" * 300),
    "long" * 200,
    pickle.PickleBuffer,
)


def lines(data: bytes) -> list[str]:
    return list(tree(decode_pickle(data, Budget())))


@check_each("protocol", range(6))
@check_each("value", VALUES)
def test_opcodes_are_those_of_pickletools(value: object, protocol: int) -> None:
    data = pickle.dumps(value, protocol)
    expected = [(position, opcode.name) for opcode, _, position in pickletools.genops(data)]
    assert [(line.offset, line.name) for line in opcodes(data)] == expected


@check_each("protocol", range(6))
def test_an_attempt_notes_the_offset_of_each_row(protocol: int) -> None:
    data = pickle.dumps([complex(1, 2), VALUES[-1], {complex(3, 4)}, range(3)], protocol) + b"behind"
    found = attempt(data, Budget())
    assert found.pickle is not None
    assert found.pickle.log == found.log
    offsets = trace(data, found, Budget())
    names = {position: opcode.name for opcode, _, position in pickletools.genops(data)}
    logged = [names[offset] for offset in offsets]
    assert len(logged) == len(found.log) > 4
    assert set(logged) <= {"GLOBAL", "STACK_GLOBAL", "REDUCE", "NEWOBJ", "BUILD", "INST"}


@pytest.mark.parametrize("cut", [b"", b"\xff.", b"tR"])
def test_an_attempt_keeps_what_precedes_a_fault(cut: bytes) -> None:
    data = b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R" + cut
    found = attempt(data, Budget())
    assert found.pickle is None
    assert found.error is not None
    assert [repr(row) for row in found.log] == ["Global('os', 'system')", "<REDUCE os.system>"]
    assert trace(data, found, Budget()) == [2, 23]


def test_an_attempt_reads_on_where_a_frame_is_too_long() -> None:
    framed = b"\x80\x04\x95\xff\xff\x00\x00\x00\x00\x00\x00cos\nsystem\n."
    found = attempt(framed, Budget())
    assert isinstance(found.error, PickleError)
    (other,) = found.others
    assert [repr(row) for row in other.log] == ["Global('os', 'system')"]
    assert trace(framed, other, Budget()) == [11]


@check_each("data", [b"", b"\x80", b"\x80\x04", b"\x8c\x05ab", b"X\xff\xff\xff\xff", b"cno\n", b"\xff"])
def test_what_cannot_be_listed_is_said(data: bytes) -> None:
    with pytest.raises(PickleError):
        list(opcodes(data))


def test_a_tree_shows_each_part_once() -> None:
    shared = ["x"]
    told = lines(pickle.dumps([shared, shared, {"k": shared}], 4))
    assert told == [
        "list of 3  #1",
        "  list of 1  #2",
        "    'x'",
        "  #2, as above",
        "  Dict of 1 pairs  #3",
        "    'k': #2, as above",
    ]


def test_a_tree_shows_what_was_dropped() -> None:
    told = lines(b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R0N.")
    assert told == ["None", "and then REDUCE os.system  #1", "  'true'"]


def test_a_tree_is_bounded() -> None:
    deep: object = None
    for _ in range(3000):
        deep = (deep,)
    nested = b"\x80\x02" + b"N" + b"\x85" * 3000 + b"."
    assert max(map(len, lines(nested))) < 300
    many = lines(pickle.dumps([str(number) for number in range(30_000)], 2))
    assert len(many) == 10_001
    assert many[-1].startswith("... ")
    for value in ("\x1b[31m\u202e" * 50, b"\x1b[31m" * 50, 10**5000):
        told = "".join(lines(pickle.dumps(value, 4)))
        assert "\x1b" not in told
        assert "\u202e" not in told
        assert len(told) < 400


def test_dropped_calls_that_share_a_part_cost_no_more() -> None:
    shared = b"]q\x00(" + b"N" * 5000 + b"e0"
    data = b"\x80\x02" + shared + b"ca\nb\n(h\x00tR0" * 5000 + b"N."
    assert len(lines(data)) == 10_001
