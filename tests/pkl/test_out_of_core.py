"""Pickles larger than memory: what stays in the file, and that all else is what the machine makes of the whole."""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbformat.errors import ContainerError, LimitError, PickleError, SbformatError, TensorError, UnsupportedError
from sbformat.io.source import BytesSource, FileSource
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits
from sbformat.pkl.decode import decode_pickle
from sbformat.pkl.numpy import array_info
from sbformat.pkl.out_of_core import LARGE, decode_large
from sbformat.pkl.tree import Call, Global, Node, Unread, children
from tests.helpers.count_work import count_lines
from tests.helpers.many_cases import check_each
from tests.helpers.sampling import more_examples, with_exhaustive
from tests.robustness.test_differential import pickles

if TYPE_CHECKING:
    from pathlib import Path

    from sbformat.pkl.decode import Pickle

BYTES: Final = b"\x8e" + (90).to_bytes(8, "little") + b"r" * 90
BYTEARRAY: Final = b"\x96" + (90).to_bytes(8, "little") + b"s" * 90


def framed(body: bytes) -> bytes:
    return b"\x95" + len(body).to_bytes(8, "little") + body


def large(data: bytes, threshold: int = 64, **limits: int) -> Pickle:
    return decode_large(BytesSource(data), Budget(Limits(**limits)), threshold=threshold)


def test_runs_of_unread_bytes_are_unread() -> None:
    unread = Unread(BytesSource(b"0123456789"), 2, 6)
    assert bytes(unread) == b"234567"
    assert [bytes(run) for run in (unread[:2], unread[4:], unread[1:99], unread[5:1])] == [b"23", b"67", b"34567", b""]
    assert bytes(unread[1:5][1:3]) == b"45"
    for wrong in (0, slice(0, 6, 2), "a"):
        with pytest.raises(TypeError):
            unread[wrong]  # type: ignore[index]


# -- the law ------------------------------------------------------------------------------------------


def plain(value: object) -> tuple[type, bytes] | None:
    """Bytes, read or unread, as what stood in the pickle."""
    if isinstance(value, Unread):
        return (bytearray if value.is_bytearray else bytes), value.read()
    return (type(value), bytes(value)) if isinstance(value, (bytes, bytearray)) else None


def check_same(left: object, right: object) -> None:
    """Assert that two trees are one but for bytes that were left unread."""
    todo = [(left, right)]
    seen = set()
    while todo:
        one, other = todo.pop()
        if (id(one), id(other)) in seen:
            continue
        seen.add((id(one), id(other)))
        if plain(one) is not None:
            assert plain(one) == plain(other)
            continue
        assert type(one) is type(other)
        if isinstance(one, (Node, list, tuple)):
            assert not isinstance(one, Global) or one == other
            parts = children(one), children(other)
            assert len(parts[0]) == len(parts[1])
            todo.extend(zip(*parts))
        else:
            assert one == other or one != one  # noqa: PLR0124 -- NaN


def check(data: bytes, limits: Limits, threshold: int) -> str:
    """Assert that a pickle is read alike, or refused alike, whatever stays in the file."""
    try:
        whole = decode_pickle(data, Budget(limits))
    except SbformatError as error:
        with pytest.raises(type(error)):
            decode_large(BytesSource(data), Budget(limits), threshold=threshold)
        return type(error).__name__
    found = decode_large(BytesSource(data), Budget(limits), threshold=threshold)
    check_same(found.value, whole.value)
    assert [type(row) for row in found.log] == [type(row) for row in whole.log]
    assert (found.protocol, found.flags, len(found.shared)) == (whole.protocol, whole.flags, len(whole.shared))
    return ""


def seeds() -> list[bytes]:
    values: list[Any] = [
        b"x" * 10, [b"abc" * 30, b"", bytearray(b"12" * 50), {"a": b"z" * 300}], bytearray(100), [b"y" * 200] * 5,
        [1, 2, "\u00e9" * 40, b"q" * 70_000, (1, 2), {3.5: None}], 2**900, "text\n\n", [bytearray(b"x")] * 3,
    ]  # fmt: skip
    made = [dumps(value, protocol) for value in values for protocol in range(6) for dumps in (pickle.dumps, in_python)]
    inner = BYTEARRAY + b"\x94\x98"
    made += [
        b"\x80\x05" + framed(inner) + b".",
        b"\x80\x05" + framed(inner + b"."),
        b"\x80\x05" + framed(b"") + framed(inner + b"0") + framed(BYTES + b"."),
    ]
    return made


def in_python(value: object, protocol: int) -> bytes:
    """By the pickler in pure Python, which makes other frames."""
    return pickle._dumps(value, protocol)  # type: ignore[attr-defined,no-any-return]


SEEDS: Final = seeds()
INSERTED: Final = (
    b"\x95" + (50).to_bytes(8, "little"), b"B\x20\0\0\0", b"\x96\x30" + bytes(7), b"N", b"(", b".", b"\x94", bytes(30),
    b"I1\n", b"cos\nx\n", b"\x98", b"t\xfe\xff\xff\xff",
)  # fmt: skip


HOW: Final = ("set", "cut", "drop", "put")


@pytest.mark.parametrize("threshold", [0, 1, 64, LARGE])
def test_what_picklers_write_is_read_alike(threshold: int) -> None:
    assert {check(data, DEFAULT_LIMITS, threshold) for data in SEEDS} == {""}


@pytest.mark.parametrize("step", with_exhaustive([11], [1]))
@pytest.mark.parametrize("threshold", [1, 40])
def test_every_pickle_of_the_vectors_is_read_or_refused_alike(threshold: int, step: int) -> None:
    outcomes = [check(data, DEFAULT_LIMITS, threshold) for _, data in pickles()[::step]]
    assert len(outcomes) > 500 // step
    assert "" in outcomes


@more_examples(400)
@given(
    data=st.sampled_from([seed for seed in SEEDS if len(seed) < 2000]),
    edits=st.lists(
        st.tuples(st.integers(0, 2000), st.sampled_from(["set", "cut", "drop", "put"]), st.integers(0, 255))
    ),
    limits=st.sampled_from(
        [DEFAULT_LIMITS, *(Limits(pickle_opcodes=n) for n in (1, 7, 30)), Limits(pickle_nodes=2, pickle_stack=3)]
    ),
    threshold=st.sampled_from([0, 1, 3, 30, 64, 100]),
)
def test_whatever_was_done_to_a_pickle_it_is_read_or_refused_alike(
    data: bytes, edits: list[tuple[int, str, int]], limits: Limits, threshold: int
) -> None:
    """Leaving bytes in the file changes nothing else: not what is read, not what is refused."""
    changed = bytearray(data)
    for at, how, value in edits:
        place = at % (len(changed) + 1)
        if how == "set":
            changed[place : place + 1] = bytes([value])
        elif how == "cut":
            del changed[place:]
        elif how == "drop":
            del changed[place : place + value % 20]
        else:
            changed[place:place] = INSERTED[value % len(INSERTED)]
    check(bytes(changed), limits, threshold)


@pytest.mark.parametrize("data", [SEEDS[8], b"\x80\x05" + framed(BYTEARRAY + b"0" + BYTES + b"\x85.")])
def test_every_cut_and_every_flipped_bit_is_refused_or_read_alike(data: bytes) -> None:
    for at in range(len(data)):
        check(data[:at], DEFAULT_LIMITS, 20)
        for bits in (1, 0x80, 0xFF):
            check(data[:at] + bytes([data[at] ^ bits]) + data[at + 1 :], DEFAULT_LIMITS, 20)


# -- what stays unread --------------------------------------------------------------------------------


def test_large_bytes_stay_where_they_are() -> None:
    value = [b"s" * (LARGE - 1), b"b" * LARGE, bytearray(b"a" * (LARGE + 1))]
    data = pickle.dumps(value, 5)
    found: Any = decode_large(BytesSource(data), Budget()).value
    assert [type(part) for part in found] == [bytes, Unread, Unread]
    assert [part.is_bytearray for part in found[1:]] == [False, True]
    assert data[found[1].offset :][:LARGE] == value[1]
    assert [found[1].read(), found[2].read()] == value[1:]
    assert [len(piece) for piece in found[2].chunks(40_000)] == [40_000, LARGE + 1 - 40_000]
    assert repr(found[1]) == f"<Unread {LARGE} bytes at {found[1].offset}>"


def test_a_buffer_that_is_made_readonly_is_bytes() -> None:
    found: Any = large(b"\x80\x05" + BYTEARRAY + b"\x94\x98h\0\x86.").value
    assert [part.is_bytearray for part in found] == [False, True]
    assert found[0].freeze() is found[0]


def test_bytes_that_are_left_out_do_not_count() -> None:
    data = pickle.dumps([bytes(LARGE)] + [bytearray(LARGE) for _ in range(40)], 5)
    with pytest.raises(LimitError, match="pickle_bytes"):
        decode_pickle(data, Budget(Limits(pickle_bytes=1000)))
    pickled = decode_large(BytesSource(data), Budget(Limits(pickle_bytes=1000)))
    assert pickled.size == len(data) - 41 * LARGE
    with pytest.raises(LimitError, match="pickle_bytes"):
        decode_large(BytesSource(data), Budget(Limits(pickle_bytes=pickled.size - 1)))


def test_no_line_and_no_text_is_held_beyond_the_limit() -> None:
    for data in (b"V" + b"x" * 200_000, b"X" + (200_000).to_bytes(4, "little") + b"x" * 200_000 + b"."):
        with pytest.raises(LimitError, match="pickle_bytes"):
            large(data, pickle_bytes=100_000)


@check_each(
    ("data", "offset"),
    [
        (BYTES + b"0" + b"\xff.", 100),
        (BYTES + b"0" + BYTES + b"0\x80\x09.", 201),
        (b"N." + BYTES, 2),
        (BYTES + b".N", 100),
        (framed(BYTES + b"0X\xff\0\0\0"), 9 + 105),
        (framed(BYTES + b"0") + framed(framed(b"N.")), 109 + 18),
    ],
)
def test_errors_say_where_in_the_file(data: bytes, offset: int) -> None:
    with pytest.raises(PickleError) as found:
        large(data)
    with pytest.raises(PickleError) as expected:
        decode_pickle(data, Budget())
    assert found.value.offset == expected.value.offset == offset


def test_persistent_ids_stand_for_themselves() -> None:
    found: Any = large(BYTES + b"QPname\n\x86.").value
    assert isinstance(found[0].id, Unread)
    assert found[1].id == "name"


@pytest.mark.parametrize(
    "data",
    with_exhaustive(
        [b"I1\n0" * 6000 + b"N.", b"N0" * 12_000 + b"N.", (b"B\0\0\1\0" + bytes(LARGE) + b"0") * 40 + b"N."],
        [b"I1\n0" * 30_000 + b"N.", b"N0" * 60_000 + b"N."],
    ),
    ids=["lines", "opcodes", "payloads", "more lines", "more opcodes"],
)
def test_the_walk_costs_no_more_than_the_machine(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "p.pkl"
    path.write_bytes(data)
    whole = count_lines(lambda: decode_pickle(data, Budget()))
    assert count_lines(lambda: decode_large(FileSource(path), Budget())) < 2 * whole + 20_000


# -- empty dicts --------------------------------------------------------------------------------------

EMPTY: Final = b"}\x94"
HOLDERS: Final = (
    b"\x80\x05]\x94(" + EMPTY * 5 + b"e.",
    b"\x80\x05]\x94(" + EMPTY * 5 + b"K\x01K\x02se.",
    b"\x80\x05]\x94(" + EMPTY * 5 + b"(K\x01K\x02ue.",
    b"\x80\x05]\x94(" + EMPTY * 5 + b"0(K\x01K\x02ue.",  # what is below the last is given items
    b"\x80\x05]\x94(" + EMPTY * 5 + b"h\x02K\x01K\x02s0e.",  # one is given items by way of the memo
    b"\x80\x05]\x94(" + EMPTY * 5 + b"h\x09e.",
    b"\x80\x05]\x94(" + EMPTY * 5 + b"2e.",
    b"\x80\x05]\x94r\x40\0\0\0(" + EMPTY * 5 + b"j\x42\0\0\0e.",
    b"\x80\x05" + EMPTY * 5 + b"\x87\x94" + EMPTY * 4 + b"\x86\x85\x86.",
    b"\x80\x05" + EMPTY * 4 + b"s.",
    b"\x80\x05" + framed(b"]\x94(" + EMPTY * 5 + b"e") + b".",
    b"\x80\x05" + framed(b"]\x94(" + EMPTY * 5) + EMPTY * 4 + b"e.",
    b"\x80\x05" + framed(b"]\x94(" + EMPTY * 5 + b"}") + b"\x94e.",
)


def check_empties(data: bytes) -> None:
    """Assert that a pickle is read alike, or refused alike, when one dict stands for several."""
    refusal = None
    try:
        whole = decode_pickle(data, Budget())
    except SbformatError as error:
        refusal = error
    if refusal is not None:
        with pytest.raises(type(refusal)) as caught:
            decode_large(BytesSource(data), Budget(), threshold=30, least_empties=2)
        assert caught.value.offset == refusal.offset or "cut short" in str(refusal)
        return
    found = decode_large(BytesSource(data), Budget(), threshold=30, least_empties=2)
    check_same(found.value, whole.value)
    assert (found.protocol, found.flags, len(found.shared)) == (whole.protocol, whole.flags, len(whole.shared))


@pytest.mark.parametrize("step", with_exhaustive([47], [3]))
def test_empty_dicts_may_be_one(step: int) -> None:
    for data in HOLDERS:
        check_empties(data)
        for at in range(len(data)):
            check_empties(data[:at])
            for bits in range(1, 256, step):
                check_empties(data[:at] + bytes([data[at] ^ bits]) + data[at + 1 :])


@more_examples(300)
@given(
    st.lists(
        st.sampled_from([EMPTY * 3, EMPTY, b"}", *INSERTED, b"s", b"0", b"h\2", b"e", b"u", b"]\x94", b"\x86", b"2"])
    )
)
def test_whatever_is_done_to_empty_dicts_is_done_to_one_alone(parts: list[bytes]) -> None:
    check_empties(b"\x80\x05(" + b"".join(parts) + b"t.")


@pytest.mark.parametrize("part", with_exhaustive([8], [1]))
def test_millions_of_empty_dicts_cost_two_references_each(part: int) -> None:
    limits = Limits(memory_bytes=DEFAULT_LIMITS.memory_bytes // part, pickle_nodes=DEFAULT_LIMITS.pickle_nodes // part)
    data = b"\x80\x05]\x94" + (b"(" + EMPTY * 1000 + b"e") * (1100 // part) + b"."
    with pytest.raises(LimitError):
        decode_pickle(data, Budget(limits))
    pickled = decode_large(BytesSource(data), Budget(limits))
    assert isinstance(pickled.value, list)
    assert (len(pickled.value), pickled.size) == (1100 // part * 1000, len(data))
    assert not any(pickled.value)
    with pytest.raises(LimitError, match="pickle_nodes"):
        decode_large(BytesSource(data), Budget(Limits(pickle_nodes=60_000 // part)))
    with pytest.raises(LimitError, match="pickle_stack"):
        decode_large(BytesSource(b"(" + EMPTY * 100_100 + b"t."), Budget())


# -- arrays -------------------------------------------------------------------------------------------


def an_array(code: str, payload: bytes, count: int) -> Call:
    dtype = Call("REDUCE", Global("numpy", "dtype"), (code, False, True))
    leaf = Unread(BytesSource(payload), 0, len(payload), is_bytearray=True)
    return Call("REDUCE", Global("numpy.core.numeric", "_frombuffer"), (leaf, dtype, (count,), "C"))


def test_an_array_reads_its_items_when_it_is_made() -> None:
    info = array_info(an_array("i1", bytes(range(100)), 100))
    assert isinstance(info.buffer, Unread)
    assert (info.read(), info.numel, b"".join(info.chunks(7))) == (bytes(range(100)), 100, bytes(range(100)))
    made = info.to_numpy()
    assert made.tolist() == list(range(100))
    assert not made.flags.writeable


def test_an_array_needs_all_its_bytes() -> None:
    with pytest.raises(TensorError, match="expected 404 bytes .* got 400"):
        array_info(an_array("f4", bytes(400), 101))


def test_bools_are_checked_when_they_are_read() -> None:
    info = array_info(an_array("b1", b"\0\1\2", 3))
    for use in (info.to_numpy, info.read, lambda: list(info.chunks())):
        with pytest.raises(TensorError, match="0 and 1"):
            use()
    assert array_info(an_array("b1", b"\0\1\1", 3)).to_numpy().tolist() == [False, True, True]


# -- a file that is opened for each read --------------------------------------------------------------


def test_a_path_source_keeps_no_file_open(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(bytes(range(200)))
    before = set(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else set()
    source = FileSource(path)
    assert source.size == 200
    assert bytes(source.view(5, 3)) == b"\5\6\7"
    assert bytes(source.view(198, 100)) == bytes((198, 199))
    assert bytes(source.view(200, 1)) == b""
    assert source.view(0, 1).readonly
    if before:
        assert set(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("change", ["grown", "cut", "written", "replaced", "gone", "folder"])
def test_a_file_that_changes_is_one_clear_error(tmp_path: Path, change: str) -> None:
    path = tmp_path / "f"
    path.write_bytes(bytes(100))
    source = FileSource(path)
    if change == "grown":
        path.write_bytes(bytes(101))
    elif change == "cut":
        path.write_bytes(bytes(99))
    elif change == "written":
        path.write_bytes(b"x" * 100)
        os.utime(path, ns=(1, 1))
    elif change == "replaced":
        (tmp_path / "g").write_bytes(bytes(100))
        os.replace(tmp_path / "g", path)
    else:
        path.unlink()
        if change == "folder":
            path.mkdir()
    with pytest.raises((ContainerError, IsADirectoryError, PermissionError)) as caught:
        source.view(0, 10)
    assert change == "folder" or "has changed" in str(caught.value)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes by name")
def test_a_pipe_in_the_place_of_the_file_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(bytes(100))
    source = FileSource(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ContainerError, match="has changed"):
        source.view(0, 10)
    with pytest.raises(UnsupportedError, match="not a regular file"):
        FileSource(path)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="not a regular file"):
        FileSource(tmp_path)
    with pytest.raises(FileNotFoundError):
        FileSource(tmp_path / "none")
