"""The inert pickle machine: CPython's meaning of every opcode, nothing imported, called or hashed."""

from __future__ import annotations

import copy
import gc
import io
import itertools
import math
import pickle
import pickletools
import struct
import sys
import warnings
import weakref
from operator import itemgetter
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.generators.build_zips import is_terminal_safe
from sbformat.errors import LimitError, PickleError, SbformatError, TensorError
from sbformat.io.source import Cursor
from sbformat.limits import Budget, Limits
from sbformat.pkl import (
    Call,
    Dict,
    Extension,
    FrozenSet,
    Global,
    Node,
    Persistent,
    Pickle,
    Set,
    Update,
    attempt,
    decode_next,
    decode_pickle,
    loads,
)
from sbformat.pkl.opcodes import BY_CODE, OPCODES
from sbformat.pkl.tree import children, walk
from tests.helpers.many_cases import check_all, check_each
from tests.helpers.recording_unpickler import Graph, Recorder, Unlike
from tests.helpers.sampling import mark_others, more_examples, with_exhaustive

TOOLS = {op.name: op for op in pickletools.opcodes}
CODES = {name: op.code.encode("latin-1") for name, op in TOOLS.items()}
GLOBAL = b"cm\nn\n"


def decode(raw: bytes, **limits: int) -> Pickle:
    return decode_pickle(raw, Budget(Limits(**{"memory_bytes": 1 << 30, **limits})))


def refused(raw: bytes, match: str = ".", **limits: int) -> PickleError:
    with pytest.raises(PickleError, match=match) as caught:
        decode(raw, **limits)
    assert is_terminal_safe(str(caught.value))
    return caught.value


def beyond(raw: bytes, **limits: int) -> LimitError:
    with pytest.raises(LimitError) as caught:
        decode(raw, **limits)
    assert is_terminal_safe(str(caught.value))
    return caught.value


def counted(size: int, raw: bytes) -> bytes:
    return len(raw).to_bytes(size, "little") + raw


def frame(body: bytes, size: int | None = None) -> bytes:
    return b"\x95" + struct.pack("<Q", len(body) if size is None else size) + body


def shown(value: Any) -> Any:
    """A small tree as nested plain values that can be compared."""
    if isinstance(value, Dict):
        return {"dict": [(shown(key), shown(item)) for key, item in value]}
    if isinstance(value, (Set, FrozenSet)):
        return {type(value).__name__: [shown(item) for item in value]}
    if isinstance(value, (list, tuple)):
        return type(value)(shown(item) for item in value)
    if isinstance(value, Node):
        facts: tuple[Any, ...]
        if isinstance(value, Global):
            facts = value.pair
        elif isinstance(value, Call):
            facts = (value.how, shown(value.func), shown(value.args), shown(value.kwargs))
        else:
            facts = (shown(value.id) if isinstance(value, Persistent) else value.code,)  # type: ignore[attr-defined]
        return (type(value).__name__, *facts, *[(update.how, shown(update.value)) for update in value.updates or ()])
    return value


NAME = ("Global", "m", "n")


def call(how: str, func: Any = NAME, args: Any = (), kwargs: Any = None, *updates: Any) -> tuple[Any, ...]:
    return ("Call", how, func, args, kwargs, *updates)


# -- the table ----------------------------------------------------------------------------------------


def test_the_table_has_the_68_opcodes_of_pickletools() -> None:
    assert len(OPCODES) == len(BY_CODE) == 68
    assert {(row.name, row.code, row.protocol) for row in OPCODES} == {
        (op.name, ord(op.code), op.proto) for op in pickletools.opcodes
    }


def test_the_table_lays_out_arguments_as_pickletools_does() -> None:
    layouts = {
        "uint1": "u1", "uint2": "u2", "uint4": "u4", "uint8": "u8", "int4": "i4", "float8": "f8", "long1": "s1",
        "long4": "i4s",
        "string1": "s1", "string4": "i4s", "bytes1": "s1", "bytes4": "s4", "bytes8": "s8", "bytearray8": "s8",
        "unicodestring1": "s1", "unicodestring4": "s4", "unicodestring8": "s8", "stringnl": "line",
        "stringnl_noescape": "line",
        "stringnl_noescape_pair": "line2", "decimalnl_short": "line", "decimalnl_long": "line", "floatnl": "line",
        "unicodestringnl": "line",
    }  # fmt: skip
    for op in pickletools.opcodes:
        row = BY_CODE[ord(op.code)]
        assert row.argument == (layouts[op.arg.name] if op.arg else ""), op.name


def test_the_table_shows_marks_where_pickletools_has_them() -> None:
    for op in pickletools.opcodes:
        before, _, after = BY_CODE[ord(op.code)].effect.partition("--")
        assert ("|" in before) == (pickletools.markobject in op.stack_before), op.name
        assert ("|" in after) == (pickletools.markobject in op.stack_after), op.name


# -- each opcode, by name -----------------------------------------------------------------------------

PROGRAMS: dict[str, list[tuple[bytes, Any]]] = {
    "MARK": [(b"(t", ()), (b"(Nt", (None,)), (b"N(Nt\x86", (None, (None,)))],
    "STOP": [(b"N", None)],
    "POP": [(b"NK\x010", None), (b"N(0", None)],
    "POP_MARK": [(b"N(K\x01K\x021", None), (b"N(1", None)],
    "DUP": [(b"K\x012\x86", (1, 1))],
    "FLOAT": [(b"F1.5\n", 1.5), (b"F-0.0\n", -0.0), (b"F1e300\n", 1e300), (b"F2\n", 2.0), (b"Finf\n", math.inf),
        (b"F-inf\n", -math.inf)],
    "INT": [(b"I7\n", 7), (b"I-7\n", -7), (b"I00\n", False), (b"I01\n", True), (b"I0\n", 0),
        (b"I99999999999999999999\n", 10**20 - 1)],
    "BININT": [(b"J\xff\xff\xff\xff", -1), (b"J\x00\x00\x00\x80", -(2**31)), (b"J\x01\x02\x03\x04", 0x04030201)],
    "BININT1": [(b"K\xff", 255)],
    "LONG": [(b"L7L\n", 7), (b"L7\n", 7), (b"L-7L\n", -7), (b"L0L\n", 0)],
    "BININT2": [(b"M\x01\x02", 513)],
    "NONE": [(b"N", None)],
    "PERSID": [(b"Pan id\n", ("Persistent", "an id")), (b"P\n", ("Persistent", ""))],
    "BINPERSID": [(b"K\x01Q", ("Persistent", 1)), (b"K\x01\x85Q", ("Persistent", (1,)))],
    "REDUCE": [(GLOBAL + b"K\x01\x85R", call("REDUCE", args=(1,))), (GLOBAL + b")R)R", call("REDUCE", call("REDUCE")))],
    "STRING": [(b"S'a'\n", "a"), (b'S"it\'s"\n', "it's"), (b"S'a\\n\\x41\\\\'\n", "a\nA\\"), (b"S''\n", ""),
        (b"S'\\t\\r\\'\\\"'\n", "\t\r'\"")],
    "BINSTRING": [(b"T" + counted(4, b"abc"), "abc"), (b"T" + counted(4, b""), "")],
    "SHORT_BINSTRING": [(b"U" + counted(1, b"abc"), "abc")],
    "UNICODE": [(b"Vabc\n", "abc"), (b"V\\u20ac\xe9\n", "\u20ac\u00e9"), (b"V\\ud800\n", "\ud800"), (b"V\n", "")],
    "BINUNICODE": [(b"X" + counted(4, "\u20ac".encode()), "\u20ac"), (b"X" + counted(4, b"\xed\xa0\x80"), "\ud800")],
    "APPEND": [(b"]K\x01a", [1]), (b"](lK\x01a", None)][:1],
    "BUILD": [(GLOBAL + b")RNb", call("REDUCE", NAME, (), None, ("BUILD", None))),
        (GLOBAL + b"}b", (*NAME, ("BUILD", {"dict": []})))],
    "GLOBAL": [(GLOBAL, NAME), (b"ca.b\nc.d\n", ("Global", "a.b", "c.d"))],
    "DICT": [(b"(K\x01Nd", {"dict": [(1, None)]}), (b"(d", {"dict": []})],
    "EMPTY_DICT": [(b"}", {"dict": []})],
    "APPENDS": [(b"](K\x01K\x02e", [1, 2]), (b"](e", [])],
    "GET": [(b"K\x01p0\n0g0\n", 1), (b"K\x01p99\n0g99\n", 1)],
    "BINGET": [(b"K\x01q\x000h\x00", 1), (b"K\x01q\xff0h\xff", 1)],
    "INST": [(b"(K\x01im\nn\n", call("INST", args=(1,))), (b"(im\nn\n", call("INST"))],
    "LONG_BINGET": [(b"K\x01r\x00\x00\x01\x000j\x00\x00\x01\x00", 1)],
    "LIST": [(b"(K\x01l", [1]), (b"(l", [])],
    "EMPTY_LIST": [(b"]", [])],
    "OBJ": [(b"(" + GLOBAL + b"K\x01o", call("OBJ", args=(1,))), (b"(" + GLOBAL + b"o", call("OBJ"))],
    "PUT": [(b"K\x01p5\n0g5\n", 1)],
    "BINPUT": [(b"K\x01q\x05", 1)],
    "LONG_BINPUT": [(b"K\x01r\x05\x00\x00\x00", 1)],
    "SETITEM": [(b"}K\x01K\x02s", {"dict": [(1, 2)]}), (b"}K\x01NsK\x01K\x03s", {"dict": [(1, None), (1, 3)]})],
    "TUPLE": [(b"(K\x01K\x02K\x03K\x04t", (1, 2, 3, 4))],
    "EMPTY_TUPLE": [(b")", ())],
    "SETITEMS": [(b"}(K\x01K\x02K\x03K\x04u", {"dict": [(1, 2), (3, 4)]}), (b"}(u", {"dict": []})],
    "BINFLOAT": [(b"G" + struct.pack(">d", -2.5), -2.5)],
    "PROTO": [(b"\x80\x05N", None), (b"\x80\x00N", None), (b"\x80\x04N0\x80\x02N", None)],
    "NEWOBJ": [(GLOBAL + b"K\x01\x85\x81", call("NEWOBJ", args=(1,)))],
    "EXT1": [(b"\x82\x01", ("Extension", 1))],
    "EXT2": [(b"\x83\x01\x02", ("Extension", 513))],
    "EXT4": [(b"\x84\x01\x02\x03\x04", ("Extension", 0x04030201))],
    "TUPLE1": [(b"K\x01\x85", (1,))],
    "TUPLE2": [(b"K\x01K\x02\x86", (1, 2))],
    "TUPLE3": [(b"K\x01K\x02K\x03\x87", (1, 2, 3))],
    "NEWTRUE": [(b"\x88", True)],
    "NEWFALSE": [(b"\x89", False)],
    "LONG1": [(b"\x8a\x00", 0), (b"\x8a" + counted(1, b"\xff"), -1), (b"\x8a" + counted(1, b"\xff\x00"), 255)],
    "LONG4": [(b"\x8b" + counted(4, b"\x00" * 8 + b"\x01"), 2**64), (b"\x8b" + counted(4, b""), 0)],
    "BINBYTES": [(b"B" + counted(4, b"\x00\xff"), b"\x00\xff")],
    "SHORT_BINBYTES": [(b"C" + counted(1, b"\x00\xff"), b"\x00\xff")],
    "SHORT_BINUNICODE": [(b"\x8c" + counted(1, "\u00e9".encode()), "\u00e9")],
    "BINUNICODE8": [(b"\x8d" + counted(8, b"abc"), "abc")],
    "BINBYTES8": [(b"\x8e" + counted(8, b"abc"), b"abc")],
    "EMPTY_SET": [(b"\x8f", {"Set": []})],
    "ADDITEMS": [(b"\x8f(K\x01K\x02\x90", {"Set": [1, 2]}), (b"\x8f(\x90", {"Set": []})],
    "FROZENSET": [(b"(K\x01K\x02\x91", {"FrozenSet": [1, 2]}), (b"(\x91", {"FrozenSet": []})],
    "NEWOBJ_EX": [(GLOBAL + b"K\x01\x85}\x92", call("NEWOBJ_EX", args=(1,), kwargs={"dict": []}))],
    "STACK_GLOBAL": [(b"\x8c\x01m\x8c\x01n\x93", NAME)],
    "MEMOIZE": [(b"K\x01\x94K\x02\x94\x86h\x00h\x01\x86\x86", ((1, 2), (1, 2)))],
    "FRAME": [(frame(b"N"), None), (frame(b"") + b"N", None), (frame(b"K\x01") + frame(b"K\x02\x86"), (1, 2))],
    "BYTEARRAY8": [(b"\x96" + counted(8, b"abc"), bytearray(b"abc"))],
    "NEXT_BUFFER": [],
    "READONLY_BUFFER": [(b"\x96" + counted(8, b"abc") + b"\x98", b"abc"), (b"C\x01a\x98", b"a"),
        (GLOBAL + b"\x98", NAME)],
}  # fmt: skip
EVERY_PROGRAM = [(name, body, value) for name, rows in PROGRAMS.items() for body, value in rows]


def test_every_opcode_has_its_programs() -> None:
    assert set(PROGRAMS) == set(CODES)
    assert all(rows for name, rows in PROGRAMS.items() if name != "NEXT_BUFFER")


def test_each_opcode_means_what_it_means_to_cpython() -> None:
    check_all(check_opcode, EVERY_PROGRAM)


def check_opcode(name: str, body: bytes, value: Any) -> None:
    raw = body + b"."
    assert name in {op.name for op, _, _ in pickletools.genops(raw)}
    found = decode(raw)
    assert shown(found.value) == value
    assert type(found.value) is not list or type(value) is list
    assert (found.size, found.flags) == (len(raw), ())


def test_each_program_is_refused_when_it_is_cut_anywhere() -> None:
    check_all(refused, ((body[:size],) for _, body, _ in EVERY_PROGRAM for size in range(len(body) + 1)))


def test_each_program_takes_nothing_from_below_a_mark() -> None:
    """Every opcode finds at least what it takes; with a mark above its operands it finds nothing."""
    check_all(check_mark, ((name, body) for name, body, _ in EVERY_PROGRAM))


def check_mark(name: str, body: bytes) -> None:
    last = max(at for op, _, at in pickletools.genops(body + b".") if op.name == name and at is not None)
    takes = TOOLS[name].stack_before
    if takes and name != "POP" and pickletools.markobject not in takes:
        refused(body[:last] + b"(" + body[last:] + b".")


@check_each("name", [name for name, op in TOOLS.items() if op.stack_before])
def test_an_opcode_that_takes_something_is_refused_on_an_empty_stack(name: str) -> None:
    argument = TOOLS[name].arg
    raw = b"" if argument is None else b"m\nn\n" if argument.n < 0 else bytes(argument.n)
    refused(CODES[name] + raw + b"N.")


def test_any_other_byte_is_no_opcode() -> None:
    for code in set(range(256)) - set(BY_CODE):
        error = refused(b"N" + bytes([code]) + b".", f"expected a pickle opcode, got {code:#04x}")
        assert error.offset == 1, hex(code)


def test_out_of_band_buffers_are_refused() -> None:
    refused(b"\x80\x05\x97.", "out-of-band buffer")


def test_nothing_may_follow_stop() -> None:
    assert refused(b"N.N.", "2 bytes follow the STOP").offset == 2
    assert loads(b"N.") is None


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview])
def test_any_bytes_like_is_taken(wrap: Any) -> None:
    assert loads(wrap(b"K\x07.")) == 7


# -- plain data, against CPython ----------------------------------------------------------------------


def plain(value: Any) -> Any:
    """The value that a tree of plain data stands for; calls are those that picklers of old protocols write."""
    if isinstance(value, Dict):
        return {plain(key): plain(item) for key, item in value}
    if isinstance(value, Set):
        return {plain(item) for item in value}
    if isinstance(value, FrozenSet):
        return frozenset(plain(item) for item in value)
    if isinstance(value, (list, tuple)):
        return type(value)(plain(item) for item in value)
    if isinstance(value, Call):
        assert isinstance(value.func, Global)
        assert value.how == "REDUCE"
        assert isinstance(value.args, tuple)
        args = [plain(item) for item in value.args]
        makers: dict[tuple[str, str], Any] = {
            ("builtins", "set"): set,
            ("builtins", "frozenset"): frozenset,
            ("builtins", "bytearray"): bytearray,
            ("builtins", "bytes"): bytes,
            ("builtins", "complex"): complex,
            ("_codecs", "encode"): lambda text, encoding: text.encode(encoding),
        }
        return makers[value.func.pair](*args)
    assert not isinstance(value, Node)
    return value


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.integers(-(2**70),
        2**70) | st.floats(allow_nan=False) | st.binary(max_size=9)
    | st.text(st.characters(codec=None), max_size=9) | st.complex_numbers(allow_nan=False) | st.sampled_from(["\n",
            "\\", "\r", "\x1a", "\0"])
)  # fmt: skip
HASHABLE = st.recursive(SCALARS, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=4)
VALUES = st.recursive(
    SCALARS | st.binary(max_size=20).map(bytearray),
    lambda inner: st.lists(inner, max_size=5) | st.lists(inner, max_size=5).map(tuple) | st.dictionaries(HASHABLE,
        inner, max_size=4)
    | st.sets(HASHABLE, max_size=4) | st.frozensets(HASHABLE, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(value=VALUES)
@more_examples(40)
def test_plain_data_of_every_protocol_is_read_as_cpython_reads_it(value: Any) -> None:
    for protocol, dumps in itertools.product(range(6), (pickle.dumps, pickle._dumps)):  # type: ignore[attr-defined]
        raw = dumps(value, protocol)
        found = decode(raw)
        assert repr(plain(found.value)) == repr(pickle.loads(raw))
        assert found.protocol == (protocol if protocol > 1 else 0)
        assert (found.size, found.flags) == (len(raw), ())


@pytest.mark.parametrize(
    ("protocol", "size"),
    [
        *itertools.product(range(6), [0, 1, 127, 128, 255, 256]),
        *mark_others(itertools.product(range(6), [65_535, 65_536, 70_000]), 6, group=itemgetter(1)),
    ],
)
def test_sizes_around_those_of_the_opcodes_are_read(protocol: int, size: int) -> None:
    for value in (
        "x" * size,
        b"x" * size,
        "\u20ac" * size,
        bytearray(size),
        [None] * size,
        tuple([0] * size),
        size,
        -size,
        2 ** min(size, 1900),
    ):
        raw = pickle.dumps([value, 1], protocol)
        assert plain(loads(raw)) == [value, 1]


@pytest.mark.parametrize("protocol", range(2, 6))
def test_integers_of_thousands_of_digits_are_read_from_binary(protocol: int) -> None:
    for value in (2**2040, -(2**2040), 2**100_000):
        assert loads(pickle.dumps(value, protocol)) == value


@check_each("protocol", range(6))
def test_shared_parts_stay_shared_and_cycles_stay_cycles(protocol: int) -> None:
    shared: list[Any] = [1]
    cycle: list[Any] = [shared, shared, ("t", shared), {"k": shared}]
    cycle.append(cycle)
    found = loads(pickle.dumps(cycle, protocol))
    assert isinstance(found, list)
    assert found[4] is found
    assert found[0] is found[1] is found[2][1] is found[3][0][1]


@check_each("protocol", range(6))
def test_many_memo_entries_of_every_protocol_are_read(protocol: int) -> None:
    value = [[str(index)] for index in range(300)]
    assert plain(loads(pickle.dumps([value, value], protocol))) == [value, value]


def test_large_frames_and_long_strings_are_read() -> None:
    value = ["x" * 70_000, b"y" * 70_000, [str(i) for i in range(20_000)]]
    assert plain(loads(pickle.dumps(value, 4))) == value


@pytest.mark.parametrize("protocol", range(3))
def test_text_that_python_2_pickled_is_read(protocol: int) -> None:
    body = [b"S'caf\\xc3'\n", b"T" + counted(4, b"ab"), b"U" + counted(1, b"ab")][protocol]
    if protocol:
        assert loads(body + b".") == "ab"
    else:
        refused(body + b".", "text in ascii")


# -- any program, against a recording unpickler -------------------------------------------------------


STEPS = (
    *[body for name in ("NONE", "BININT1", "EMPTY_LIST", "EMPTY_DICT", "EMPTY_TUPLE", "EMPTY_SET",
            "NEWTRUE") for body, _ in PROGRAMS[name]],
    b"\x8c\x01a", b"\x8c\x01b", b"C\x01x", b"I5\n", b"L6L\n", b"F1.5\n", b"Vv\n", b"S's'\n", b"K\x02",
    b"(", b"(", b"(", b"0", b"1", b"2", b"a", b"e", b"s", b"u", b"t", b"l", b"d", b"\x85", b"\x86", b"\x87", b"\x90",
    b"\x91",
    b"cm\nn\n", b"cm\nn\n", b"\x8c\x01a\x8c\x01b\x93", b"\x93", b")R", b"R", b"Nb", b"b", b"o", b"im\nn\n", b"Q",
    b"Ppid\n",
    b"q\x00", b"q\x01", b"q\x05", b"r\x02\x00\x00\x00", b"p3\n", b"\x94", b"\x94", b"h\x00", b"h\x01", b"h\x05",
    b"j\x02\x00\x00\x00", b"g3\n",
    b"\x80\x04", b"\x80\x02",
)  # fmt: skip


@given(st.lists(st.sampled_from(STEPS), max_size=24), st.booleans())
@more_examples(1500)
def test_whatever_is_accepted_is_what_a_recording_unpickler_makes_of_it(steps: list[bytes], proto: bool) -> None:  # noqa: FBT001
    raw = (b"\x80\x04" if proto else b"") + b"".join(steps) + b"."
    try:
        found = decode(raw)
    except SbformatError as error:
        assert is_terminal_safe(str(error))  # noqa: PT017
        return
    try:
        expected = Recorder(io.BytesIO(raw)).load()
    except TypeError as error:
        # CPython hashes keys and members, and calls with a tuple; we keep lists, and nodes that would give a tuple
        assert "unhashable" in str(error) or "must be a tuple" in str(error)  # noqa: PT017
        return
    except pickle.UnpicklingError as error:
        assert "STACK_GLOBAL requires str" in str(error)  # noqa: PT017 -- a computed name is a call of its own here
        return
    try:
        ours = Graph(found.value)
    except Unlike:
        return
    theirs = Graph(expected)
    assert (ours.root, ours.rows) == (theirs.root, theirs.rows)


@given(st.binary(max_size=60))
@more_examples(500)
def test_any_bytes_are_a_pickle_or_refused(raw: bytes) -> None:
    for body in (raw, b"\x80\x04" + raw + b".", b"(((]}" + raw):
        try:
            decode(body, pickle_opcodes=50, pickle_memo=20, pickle_stack=20)
        except SbformatError as error:
            assert is_terminal_safe(str(error))  # noqa: PT017


# -- text opcodes -------------------------------------------------------------------------------------


@check_each(
    "text",
    [
        b"",
        b" 7",
        b"7 ",
        b"+7",
        b"07",
        b"0x10",
        b"1_000",
        b"--7",
        b"7.0",
        b"1e3",
        b"\xd9\xa7",
        b"7L",
        b"true",
        b"-",
        b"000",
    ],
)
def test_an_int_is_written_as_python_writes_it(text: bytes) -> None:
    refused(b"I" + text + b"\n.", "expected an integer")


@check_each("text", [b"", b"L", b"7LL", b"7l", b"07L", b"0x10L", b" 7L", b"7 L", b"1_0L", b"+1L"])
def test_a_long_is_written_as_python_writes_it(text: bytes) -> None:
    refused(b"L" + text + b"\n.", "expected an integer")


@check_each(
    "text",
    [
        b"",
        b".5",
        b"1.5 ",
        b" 1.5",
        b"1_0.5",
        b"0x1p3",
        b"infinity",
        b"1e",
        b"1e99999",
        b"nan(1)",
        b"--1",
        b"+1.5",
        b"1,5",
        b"e5",
        b"1.5f",
    ],
)
def test_a_float_is_written_as_python_writes_it(text: bytes) -> None:
    refused(b"F" + text + b"\n.", "expected a float")


@check_each("number", [0.1, -1.5e-300, 1e16, 1e22, 5e-324, math.inf, -math.inf, 0.0, 123456789.0])
def test_floats_that_protocol_0_wrote_are_read(number: float) -> None:
    assert loads(pickle.dumps(number, 0)) == number
    assert math.isnan(loads(pickle.dumps(math.nan, 0)))  # type: ignore[arg-type]


@check_each(
    "text",
    [
        b"", b"'", b"a", b"'a", b"a'", b"'a\"", b"'a' ", b" 'a'", b"'\\'", b"'\\a'", b"'\\x4'", b"'\\xg1'", b"'\\0'",
        b"'\\101'", b"'\\u20ac'", b"'a'b", b"b'a'", b"u'a'", b"'\\x4\\\\1'", b"'\\\\\\'",
    ],
)  # fmt: skip
def test_a_string_is_quoted_and_escaped_as_python_2_wrote_it(text: bytes) -> None:
    refused(b"S" + text + b"\n.", "a quoted STRING")


@given(st.text(st.sampled_from("\\\\\\'\"nrtx4101a"), max_size=9), st.sampled_from("'\""))
@more_examples(400)
def test_a_string_is_refused_or_read_as_cpython_reads_it(body: str, quote: str) -> None:
    raw = f"S{quote}{body}{quote}\n.".encode()
    try:
        found = loads(raw)
    except PickleError:
        return
    assert found == pickle.loads(raw)


@pytest.mark.parametrize("raw", [b"S'\xe9'\n", b"S'\\xe9'\n", b"T" + counted(4, b"\xe9"), b"U" + counted(1, b"\xe9")])
def test_8_bit_text_is_ascii_as_pickle_loads_has_it_and_utf8_as_torch_load_has_it(raw: bytes) -> None:
    refused(raw + b".", "text in ascii")
    utf8 = raw.replace(b"\\xe9", b"\\xc3\\xa9").replace(b"\xe9", b"\xc3\xa9").replace(b"\x01", b"\x02")
    assert decode_next(Cursor(utf8 + b".", TensorError), Budget()).value == "\u00e9"
    with pytest.raises(PickleError, match="text in utf-8"):
        decode_next(Cursor(raw + b".", TensorError), Budget())


@check_each(
    "raw",
    [
        b"X" + counted(4, b"\xff"),
        b"\x8c" + counted(1, b"\xc3"),
        b"\x8d" + counted(8, b"\xc0\x80"),
        b"c\xff\nn\n",
        b"Pcaf\xc3\xa9\n",
        b"V\\u12\n",
    ],
)
def test_text_that_does_not_decode_is_refused(raw: bytes) -> None:
    refused(raw + b".", "expected text in")


@check_each("name", ["PUT", "GET"])
@check_each("text", [b"", b"-1", b"+1", b"01", b" 1", b"1 ", b"a", b"1_0", b"1" * 20, b"\xd9\xa1"])
def test_a_memo_index_in_text_is_decimal(name: str, text: bytes) -> None:
    refused(b"N" + CODES[name] + text + b"\n.", "expected a memo index")


@check_each("raw", [b"I1", b"L1L", b"F1.5", b"S'a'", b"Va", b"Pa", b"cm", b"cm\nn", b"p1", b"(im\nn", b"c"])
def test_a_line_without_an_end_is_refused(raw: bytes) -> None:
    refused(b"N" + raw)


def test_hostile_text_is_escaped_in_messages() -> None:
    for text in (b"\x1b[31m", b"\xe2\x80\xae", b"\x00", b"x" * 10_000):
        refused(b"I" + text + b"\n.")
        refused(b"F" + text + b"\n.")
        refused(b"Np" + text + b"\n.")


# -- lengths ------------------------------------------------------------------------------------------


@check_each(("name", "size"), [
    ("BINUNICODE", 4), ("SHORT_BINUNICODE", 1), ("BINUNICODE8", 8), ("BINBYTES", 4), ("SHORT_BINBYTES", 1),
    ("BINBYTES8", 8),
    ("BYTEARRAY8", 8), ("BINSTRING", 4), ("SHORT_BINSTRING", 1), ("LONG1", 1), ("LONG4", 4), ("FRAME", 8),
])  # fmt: skip
def test_lengths_are_compared_with_the_bytes_left(name: str, size: int) -> None:
    top = (1 << 8 * size) - 1
    for length in {5, 127, top >> 1, top}:
        refused(b"N" + CODES[name] + length.to_bytes(size, "little") + b"abc.")
    for cut in range(size):
        refused(b"N" + CODES[name] + bytes(cut))


@pytest.mark.parametrize("name", ["BINSTRING", "LONG4"])
def test_negative_lengths_are_refused(name: str) -> None:
    for length in (-1, -5, -(2**31)):
        refused(CODES[name] + struct.pack("<i", length) + b"abc.")


@pytest.mark.parametrize("raw", [b"\x82\x00", b"\x83\x00\x00", b"\x84\x00\x00\x00\x00", b"\x84\xff\xff\xff\xff"])
def test_extension_codes_are_positive(raw: bytes) -> None:
    refused(raw + b".", "an extension code above 0")


@pytest.mark.parametrize("protocol", [6, 7, 255])
def test_protocols_above_5_are_refused(protocol: int) -> None:
    refused(bytes([0x80, protocol]) + b"N.", "protocol")


# -- stack and marks ----------------------------------------------------------------------------------


def test_pop_on_an_empty_frame_of_the_stack_removes_the_mark() -> None:
    assert loads(b"K\x01(0.") == 1
    assert loads(b"K\x01((00.") == 1
    assert loads(b"(K\x01(K\x0200t.") == (1,)
    refused(b"(00N.")
    refused(b"0N.")


@pytest.mark.parametrize("body", [b"(.", b"N(.", b".", b"N0."])
def test_stop_takes_its_value_from_above_the_last_mark(body: bytes) -> None:
    refused(body)


def test_marks_nest() -> None:
    assert loads(b"(K\x01((tK\x02tK\x03t.") == (1, ((), 2), 3)


def test_values_and_marks_left_at_stop_are_flagged() -> None:
    assert decode(b"NN.").flags == ("values are left on the stack at STOP",)
    assert decode(b"(N.").flags == ("marks are left on the stack at STOP",)
    assert decode(b"((N.").flags == ("marks are left on the stack at STOP",)
    assert len(decode(b"N(N.").flags) == 2
    assert decode(b"N.").flags == ()


@check_each(
    "body", [b"]q\x00h\x00Na0", b"]2Na0", b"}q\x00h\x00NNs0", b"\x8f2(N\x900", GLOBAL + b")R2Nb0", b"K\x01Q2Nb0"]
)
def test_a_value_that_changes_after_it_was_referred_to_again_is_flagged(body: bytes) -> None:
    (flag,) = decode(body + b".").flags
    assert "changed" in flag
    assert decode(body.replace(b"q\x00h\x00", b"q\x00").replace(b"2", b"")[:-1] + b".").flags == ()


@pytest.mark.parametrize("gone", [b"]200", b"}200", b"\x8f200", b"K\x01Q200", b"]q\x00h\x0000Nq\x000"])
def test_a_value_that_is_gone_is_not_taken_for_the_new_one_in_its_place(gone: bytes) -> None:
    for made in (b"]Na", b"](NNe", b"}NNs", b"}(NNu", b"\x8f(N\x90", b"K\x01QNb", GLOBAL + b")RNb"):
        assert decode(gone * 5 + made + b".").flags == ()


@check_each(
    "body",
    [
        b"}NNa", b")Na", b"\x8fNa", b"KaNa", b"\x8c\x01aNa", b"](NN\x90", b"}(N\x90", b"}(Ne", b"](NNu", b")NNs",
        b"]NNs", b"\x8f(NNu",
        b"]Nb", b"}Nb", b"Nb", b")Nb", b"K\x01Nb", b"NNb", b"\x96" + bytes(8) + b"Na", b"(\x91(N\x90",
    ],
)  # fmt: skip
def test_changes_are_for_their_own_containers_and_for_nodes(body: bytes) -> None:
    refused(body + b".")


@pytest.mark.parametrize("body", [b"}(Nu", b"(Nd", b"(NNNd", b"}(NNNu", GLOBAL + b"(Nu"])
def test_keys_need_values(body: bytes) -> None:
    refused(body + b".", "odd number of values")


@check_each("callable_", [b"N", b"K\x01", b"\x8c\x01a", b")", b"]", b"}", b"\x88", b"C\x01a", b"(\x91"])
def test_only_nodes_are_called(callable_: bytes) -> None:
    for body in (callable_ + b")R", callable_ + b")\x81", callable_ + b")}\x92", b"(" + callable_ + b"o"):
        refused(body + b".", "expected a name or node for")


@check_each("args", [b"N", b"]", b"}", b"K\x01", b"\x8c\x01a", b"(\x91", b"\x8f"])
def test_arguments_are_a_tuple_or_a_node(args: bytes) -> None:
    for body in (GLOBAL + args + b"R", GLOBAL + args + b"\x81", GLOBAL + args + b"}\x92"):
        refused(body + b".", "expected a tuple of arguments")
    assert shown(loads(GLOBAL + GLOBAL + b"R.")) == call("REDUCE", NAME, NAME)


@pytest.mark.parametrize("kwargs", [b"N", b")", b"]", b"K\x01", b"\x8f"])
def test_keywords_are_a_dict_or_a_node(kwargs: bytes) -> None:
    refused(GLOBAL + b")" + kwargs + b"\x92.", "expected a dict of keywords")
    assert shown(loads(GLOBAL + b")" + GLOBAL + b"\x92.")) == call("NEWOBJ_EX", NAME, (), NAME)


@pytest.mark.parametrize("body", [b"K\x01", b"N", b"\x8c\x01a", b"]", b"}"])
def test_readonly_buffer_is_for_buffers(body: bytes) -> None:
    refused(body + b"\x98.", "READONLY_BUFFER")


def test_readonly_buffer_leaves_the_memo_as_it_was() -> None:
    found = loads(b"\x96" + counted(8, b"ab") + b"\x94\x98h\x00\x86.")
    assert found == (b"ab", bytearray(b"ab"))
    assert [type(part) for part in found] == [bytes, bytearray]  # type: ignore[attr-defined]


def test_readonly_buffer_cannot_multiply_a_buffer() -> None:
    raw = b"(\x96" + counted(8, bytes(10_000)) + b"\x94" + b"h\x00\x98" * 100 + b"t."
    items = decode(raw).value
    assert isinstance(items, tuple)
    assert sum({id(item): len(item) for item in items}.values()) <= 3 * len(raw)


# -- the memo -----------------------------------------------------------------------------------------


def test_memoize_takes_the_number_of_entries_as_its_index() -> None:
    assert loads(b"K\x01q\x05K\x02\x94h\x01\x87.") == (1, 2, 2)  # one entry was there, so its index is 1
    assert loads(b"K\x01q\x00K\x02q\x00K\x03\x940h\x00h\x01\x86\x87.") == (1, 2, (2, 3))
    refused(b"K\x01q\x05K\x02\x94h\x02.", "no entry 2")


@pytest.mark.parametrize("raw", [b"K\x01q\x01K\x02\x940h\x01.", b"K\x01q\x02K\x02\x94K\x03\x94h\x02."])
def test_memoize_may_meet_an_entry_that_was_put_out_of_order(raw: bytes) -> None:
    assert loads(raw) == pickle.loads(raw)


@given(
    st.lists(
        st.sampled_from(
            [b"q%c" % i for i in range(6)]
            + [b"\x94"] * 4
            + [b"h%c" % i for i in range(6)]
            + [b"K%c" % i for i in range(9)]
        ),
        max_size=20,
    )
)
@more_examples(400)
def test_the_memo_is_cpythons_whatever_the_order(steps: list[bytes]) -> None:
    raw = b"(K\x63" + b"".join(steps) + b"t."
    try:
        expected = pickle.loads(raw)
    except pickle.UnpicklingError:
        refused(raw, "the memo has no entry")
        return
    assert loads(raw) == expected


def test_entries_out_of_order_and_set_twice_are_kept() -> None:
    assert loads(b"(K\x01q\xffK\x02r\x00\x00\x10\x00K\x03q\x00K\x04q\xff0h\xffj\x00\x00\x10\x00h\x00t.") == (
        1,
        2,
        3,
        4,
        2,
        3,
    )


@check_each("raw", [b"h\x00.", b"Nq\x00h\x01.", b"j\xff\xff\xff\xff.", b"g5\n.", b"Nq\x05h\x04.", b"Nq\x05h\x00."])
def test_an_entry_that_was_not_set_cannot_be_got(raw: bytes) -> None:
    refused(raw, "the memo has no entry")


@check_each("body", [b"q\x00", b"r\x00\x00\x00\x00", b"p0\n", b"\x94", b"(q\x00", b"N(\x94"])
def test_putting_needs_a_value_above_the_mark(body: bytes) -> None:
    refused(body + b"N.")


def test_a_list_may_hold_itself() -> None:
    found = loads(b"]q\x00h\x00a.")
    assert isinstance(found, list)
    assert found[0] is found
    assert sum(1 for _ in walk(found)) == 1


def test_dicts_tuples_calls_and_nodes_may_hold_themselves() -> None:
    for raw in (
        b"}q\x00Nh\x00s.",
        b"]q\x00(h\x00ta.",
        GLOBAL + b"q\x00h\x00b.",
        GLOBAL + b")Rq\x00(Nh\x00u.",
        GLOBAL + b"q\x00h\x00Qa.",
    ):
        found = decode(raw)
        assert 1 <= sum(1 for _ in walk(found.value)) <= 10
        assert len(repr(found.value)) < 100


# -- frames -------------------------------------------------------------------------------------------


def test_frames_hold_whole_opcodes_and_follow_each_other() -> None:
    assert loads(b"\x80\x04" + frame(b"]") + frame(b"K\x01a") + b".") == [1]
    assert loads(b"\x80\x04" + frame(b"]K\x01a.")) == [1]
    assert loads(frame(b"K\x01") + b"C\x01a\x86.") == (1, b"a")


INSIDE = [b"K\x01", b"M\x01\x02", b"J\x01\x02\x03\x04", b"G" + bytes(8), b"C\x02ab", b"X\x02\0\0\0ab", b"\x8c\x02ab",
    b"Vab\n", b"cab\ncd\n",
          b"\x8a\x01\x01", b"\x96\x02\0\0\0\0\0\0\0ab", b"\x80\x04N", b"I12\n", b"Nq\x00", b"Nr\x00\0\0\0", b"Np0\n",
          b"\x82\x01", b"F1.5\n"]  # fmt: skip


@check_each("body", INSIDE)
@check_each("behind", [b".", b"N.", b"0N."])
def test_an_opcode_that_straddles_the_end_of_its_frame_is_refused(body: bytes, behind: bytes) -> None:
    start = len(body) - len(body.lstrip(b"N")) if body.startswith(b"N") and len(body) > 1 else 0
    for size in range(start + 1, len(body)):
        if body.startswith(b"\x80") and size > 1:
            continue
        refused(frame(body, size) + behind)


@pytest.mark.parametrize("size", [1, 5, 8, 9])
def test_a_frame_that_straddles_the_end_of_another_is_refused(size: int) -> None:
    refused(frame(frame(b"N"), size) + b".")
    refused(b"\x80\x04" + frame(frame(b"N."), size))


@pytest.mark.parametrize("behind", [b"", b"0N."])
def test_a_frame_within_a_frame_is_refused_wherever_the_outer_one_ends(behind: bytes) -> None:
    refused(b"\x80\x04" + frame(b"N0" + frame(b"N.")) + behind, "inside another frame")
    refused(b"\x80\x04" + frame(frame(b"N") + b".") + behind, "inside another frame")
    refused(b"\x80\x04" + frame(frame(b"") + b"N.") + behind, "inside another frame")


def test_a_frame_that_passes_the_end_is_refused() -> None:
    for size in (3, 4, 2**63, 2**64 - 1):
        refused(frame(b"N.", size))


def test_a_frame_past_stop_is_flagged() -> None:
    cursor = Cursor(frame(b"N.N") + b"0.", TensorError)
    assert decode_next(cursor, Budget()).flags == ("a frame extends beyond STOP",)
    assert cursor.position == 11


def test_a_frame_past_stop_is_flagged_even_when_it_ends_with_the_data() -> None:
    assert decode_next(Cursor(frame(b"N.N0"), TensorError), Budget()).flags == ("a frame extends beyond STOP",)


# -- the log ------------------------------------------------------------------------------------------


def log(raw: bytes) -> list[Any]:
    return [(line.how, shown(line.value)) if isinstance(line, Update) else shown(line) for line in decode(raw).log]


def test_imports_and_calls_are_logged_in_order() -> None:
    assert str(decode(b"cos\nsystem\n\x8c\x02ls\x85R.").log[0]) == "os.system"
    assert log(b"ca\nb\ncc\nd\n)R\x85R.") == [
        ("Global", "a", "b"),
        ("Global", "c", "d"),
        call("REDUCE", ("Global", "c", "d")),
        call("REDUCE", ("Global", "a", "b"), (call("REDUCE", ("Global", "c", "d")),)),
    ]


@check_each(
    "body",
    [
        GLOBAL, b"\x8c\x01m\x8c\x01n\x93", b"\x82\x01", b"\x83\x01\x00", b"\x84\x01\x00\x00\x00", GLOBAL + b")R",
        GLOBAL + b")\x81",
        GLOBAL + b")}\x92", b"(im\nn\n", b"(" + GLOBAL + b"o", GLOBAL + GLOBAL + b"\x93", GLOBAL + b"Nb",
        GLOBAL + b"Na", GLOBAL + b"(Ne",
        GLOBAL + b"NNs", GLOBAL + b"(NNu", GLOBAL + b"(N\x90",
    ],
)  # fmt: skip
@check_each(("before", "behind"), [(b"", b"0N."), (b"", b"q\x000N."), (b"(", b"1N."), (b"(N(", b"10(10N.")])
def test_pop_hides_nothing_from_the_log(body: bytes, before: bytes, behind: bytes) -> None:
    kept = decode(b"N" + body + b".").log
    hidden = decode(b"N" + before + body + behind).log
    assert kept
    assert [type(line) for line in hidden] == [type(line) for line in kept]


def test_pop_mark_and_the_memo_hide_nothing_either() -> None:
    assert log(b"(" + GLOBAL + b")R1N.") == [NAME, call("REDUCE")]
    assert log(GLOBAL + b")Rq\x00Nq\x000.") == [NAME, call("REDUCE")]


def test_changes_of_a_name_or_call_are_logged_and_kept_on_it() -> None:
    found = decode(GLOBAL + b"Nb(K\x01eK\x02a(K\x03K\x04uK\x05K\x06s(K\x07\x90.")
    expected = [
        ("BUILD", None),
        ("APPENDS", [1]),
        ("APPENDS", [2]),
        ("SETITEMS", [(3, 4)]),
        ("SETITEMS", [(5, 6)]),
        ("ADDITEMS", [7]),
    ]
    assert shown(found.value) == (*NAME, *expected)
    assert isinstance(found.log[0], Global)
    assert found.log[1:] == found.value.updates  # type: ignore[attr-defined]
    assert all(line.target is found.value for line in found.log[1:])  # type: ignore[union-attr]


def test_changes_of_plain_containers_and_persistent_ids_are_not_logged() -> None:
    assert log(b"](Ne0}(NNu0\x8f(N\x900K\x01Q.") == []


def test_inst_logs_its_import_and_its_call() -> None:
    assert log(b"(K\x01im\nn\n.") == [NAME, call("INST", args=(1,))]


def test_a_name_that_is_computed_is_a_call_of_its_own() -> None:
    assert log(b"\x8c\x02os" + GLOBAL + b")R\x93.") == [
        NAME,
        call("REDUCE"),
        call("STACK_GLOBAL", None, ("os", call("REDUCE"))),
    ]
    assert log(b"K\x01Q\x8c\x01n\x93.") == [call("STACK_GLOBAL", None, (("Persistent", 1), "n"))]


@pytest.mark.parametrize(
    ("module", "name"),
    [(b"N", b"\x8c\x01n"), (b"\x8c\x01m", b"K\x01"), (b"C\x01m", b"C\x01n"), (b"]", b"]"), (b")", b"\x8c\x01n")],
)
def test_names_are_text(module: bytes, name: bytes) -> None:
    refused(module + name + b"\x93.", "expected texts")


def test_names_are_utf8() -> None:
    assert shown(loads(b"c\xc3\xa9\n\xc3\xa9\n.")) == ("Global", "\u00e9", "\u00e9")


# -- names of Python 2 --------------------------------------------------------------------------------

RENAMED = [
    ("__builtin__", "set", "builtins", "set"),
    ("__builtin__", "xrange", "builtins", "range"),
    ("copy_reg", "_reconstructor", "copyreg", "_reconstructor"),
    ("commands", "getoutput", "subprocess", "getoutput"),
    ("itertools", "imap", "builtins", "map"),
    ("itertools", "izip", "builtins", "zip"),
    ("UserDict", "UserDict", "collections", "UserDict"),
    ("cPickle", "loads", "pickle", "loads"),
    ("os", "system", "os", "system"),
    ("sbformat", "x", "sbformat", "x"),
]


@check_each(("module", "name", "new_module", "new_name"), RENAMED)
def test_below_protocol_3_names_are_renamed_as_cpython_does(
    module: str, name: str, new_module: str, new_name: str
) -> None:
    texts = b"".join(b"\x8c" + counted(1, text.encode()) for text in (module, name))
    for spelled in (f"c{module}\n{name}\n".encode(), texts + b"\x93"):
        for head in (b"", b"\x80\x00", b"\x80\x01", b"\x80\x02"):
            assert shown(loads(head + spelled + b".")) == ("Global", new_module, new_name)
        for head in (b"\x80\x03", b"\x80\x04", b"\x80\x05"):
            assert shown(loads(head + spelled + b".")) == ("Global", module, name)
    assert shown(loads(f"(i{module}\n{name}\n.".encode())) == call("INST", ("Global", new_module, new_name))


def test_every_renaming_of_cpython_is_applied() -> None:
    from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING

    for (module, name), pair in NAME_MAPPING.items():
        assert loads(f"c{module}\n{name}\n.".encode()) == Global(*pair)
    for module, new in IMPORT_MAPPING.items():
        assert loads(f"c{module}\nno_such_name\n.".encode()) == Global(new, "no_such_name")


def test_the_last_protocol_counts() -> None:
    assert shown(loads(b"\x80\x04\x80\x02c__builtin__\nset\n.")) == ("Global", "builtins", "set")
    assert shown(loads(b"\x80\x02\x80\x04c__builtin__\nset\n.")) == ("Global", "__builtin__", "set")
    assert decode(b"\x80\x02\x80\x04N.").protocol == 4


# -- limits, on both sides ----------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 10, 1000])
def test_opcodes_are_limited(count: int) -> None:
    raw = b"N" + b"\x85" * (count - 1) + b"."
    assert decode(raw, pickle_opcodes=count + 1)
    assert beyond(raw, pickle_opcodes=count).limit == "pickle_opcodes"


@pytest.mark.parametrize(
    "body",
    [
        b"N" * 50 + b"0" * 49,
        b"(" + b"N" * 50 + b"t",
        b"N" * 25 + b"(" + b"N" * 25 + b"t" + b"0" * 25,
        b"N" + b"2" * 49 + b"0" * 49,
    ],
)
def test_the_stack_is_limited(body: bytes) -> None:
    assert decode(body + b".", pickle_stack=50)
    assert beyond(b"NNNN" * 20 + body + b".", pickle_stack=50).limit == "pickle_stack"


def test_values_below_marks_count_on_the_stack() -> None:
    raw = b"(N" * 60 + b"t" * 60 + b"."
    assert decode(raw, pickle_stack=120)
    assert beyond(raw, pickle_stack=29).limit == "pickle_stack"


def test_marks_are_limited() -> None:
    raw = b"(" * 10 + b"t" * 10 + b"."
    assert decode(raw, pickle_marks=10)
    assert beyond(raw, pickle_marks=9).limit == "pickle_marks"


@pytest.mark.parametrize("put", [b"\x94", b"r"])
def test_memo_entries_are_limited(put: bytes) -> None:
    def program(count: int) -> bytes:
        return (
            b"N" + b"".join(put + (b"" if put == b"\x94" else struct.pack("<I", 1000 - i)) for i in range(count)) + b"."
        )

    assert decode(program(20), pickle_memo=40)
    assert beyond(program(300), pickle_memo=40).limit == "pickle_memo"


def test_memo_entries_that_are_set_again_count_once() -> None:
    assert decode(b"N" + b"q\x00" * 500 + b"q\x01" * 500 + b".", pickle_memo=4)


@pytest.mark.parametrize("raw", [b"Nr\x0b\x00\x00\x00.", b"Np11\n.", b"Nq\x0b."])
def test_the_memo_index_is_limited(raw: bytes) -> None:
    assert decode(raw, pickle_memo_index=11)
    assert beyond(raw, pickle_memo_index=10).limit == "pickle_memo_index"


@check_each(
    "unit",
    [
        b"]0", b"}0", b"\x8f0", b"N\x850", b"(l0", b"(d0", b"(\x910", b"K\x01Q0", b"P\n0", GLOBAL + b"0",
        b"\x82\x010", b"(im\nn\n0",
        b"\x96" + bytes(8) + b"0", b"NNN\x870", b"NN\x860", b"(t0",
    ],
)  # fmt: skip
def test_composite_values_are_limited(unit: bytes) -> None:
    assert decode(unit * 50 + b"N.", pickle_nodes=120)
    assert beyond(unit * 300 + b"N.", pickle_nodes=120).limit == "pickle_nodes"


@check_each("unit", [b"Nb", b"Na", b"NNs", b"(e", b"(u", b"(\x90", b"(Ne", b"(NNu", b")R"])
def test_changes_and_calls_of_a_node_are_composite_values(unit: bytes) -> None:
    assert decode(GLOBAL + unit * 20 + b".", pickle_nodes=120)
    assert beyond(GLOBAL + unit * 300 + b".", pickle_nodes=120).limit == "pickle_nodes"


@pytest.mark.parametrize("unit", [b"}(" + b"NN" * 30 + b"u0", b"}" + b"NNs" * 30 + b"0", b"(" + b"NN" * 30 + b"d0"])
def test_pairs_of_a_dict_are_composite_values(unit: bytes) -> None:
    assert decode(unit * 10 + b"N.", pickle_nodes=620)
    assert beyond(unit * 10 + b"N.", pickle_nodes=150).limit == "pickle_nodes"


def test_the_bytes_of_a_pickle_are_limited() -> None:
    assert decode(b"N.", pickle_bytes=2)
    assert beyond(b"N.", pickle_bytes=1).actual == 2


@pytest.mark.parametrize("name", ["I", "L"])
@pytest.mark.parametrize("sign", ["", "-"])
def test_digits_of_a_number_in_text_are_limited(name: str, sign: str) -> None:
    assert loads(f"{name}{sign}{'9' * 599}\n.".encode()) == int(sign + "9" * 599)
    refused(f"{name}{sign}{'9' * 4301}\n.".encode(), "digits")
    refused(f"{name}{sign}{'9' * 1_000_000}\n.".encode(), "digits")


@pytest.mark.skipif(not hasattr(sys, "set_int_max_str_digits"), reason="CPython 3.10.7")
@pytest.mark.parametrize("name", ["I", "L"])
def test_a_lower_cap_of_the_interpreter_on_digits_is_our_error(name: str) -> None:
    before = sys.get_int_max_str_digits()
    try:
        sys.set_int_max_str_digits(640)
        with pytest.raises(SbformatError):
            decode(f"{name}{'9' * 1000}\n.".encode())
    finally:
        sys.set_int_max_str_digits(before)


# -- hostile shapes: they end, and nothing recurses ---------------------------------------------------


@pytest.mark.parametrize("part", with_exhaustive([8], [1]))
@pytest.mark.parametrize(
    "make",
    [
        lambda part: b"N" + b"\x85" * (200_000 // part) + b".",
        lambda part: b"N" + b"Q" * (200_000 // part) + b".",
        lambda part: GLOBAL + b")R" * (200_000 // part) + b".",
        lambda part: b"]" * (90_000 // part) + b"a" * (90_000 // part - 1) + b".",
        lambda part: b"}" + b"N}" * (45_000 // part) + b"s" * (45_000 // part) + b".",
        lambda part: GLOBAL + (b"\x85" + GLOBAL + b"\x86Q") * (30_000 // part) + b".",
        lambda part: b"N" + (b"\x85" + GLOBAL + b"Nb\x86") * (30_000 // part) + b".",
        lambda _: b"(" * 900 + b"\x91" * 900 + b".",
    ],
    ids=["tuples", "persistent", "calls", "lists", "dicts", "mixed", "built", "frozensets"],
)
def test_values_of_any_depth_are_decoded_walked_and_let_go_without_recursion(make: Any, part: int) -> None:
    found = decode(make(part))
    assert sum(1 for _ in walk(found.value)) > 800
    del found


def test_a_tree_of_2_to_the_40_paths_is_walked_once_a_node() -> None:
    found = decode(b"N\x85" + b"2\x86" * 40 + b".")
    assert sum(1 for _ in walk(found.value)) == 41


def test_unhashable_and_hostile_keys_are_kept_and_never_hashed() -> None:
    found = decode(b"}(]N}N\x8f]" + b"N" + b"\x85" * 1000 + b"Nu\x8f(]}N\x90\x86(]}\x91\x86.")
    assert len(found.flags) == 0


def test_a_key_that_stands_twice_stays_twice() -> None:
    assert shown(loads(b"}(K\x01NK\x01K\x02u.")) == {"dict": [(1, None), (1, 2)]}


# -- the tree -----------------------------------------------------------------------------------------


def test_walk_yields_parents_before_children_and_each_part_once() -> None:
    found = loads(b"](](K\x01\x85q\x00eh\x00h\x00e.")
    kinds = [type(value).__name__ for value in walk(found)]
    assert kinds == ["list", "list", "tuple"]


@check_each("change", [b"(\x8c\x01k%su", b"\x8c\x01k%ss", b"(%se", b"%sa", b"%sb", b"(%s\x90"])
def test_walk_sees_every_part_that_was_put_into_a_node(change: bytes) -> None:
    nodes = [GLOBAL + b")R" + change % (b"K" + bytes([index]) + b"Q") for index in range(40)]
    found = loads(b"(" + b"".join(nodes) + b"t.")
    assert [part.id for part in walk(found) if isinstance(part, Persistent)] == list(range(40))
    seen = []
    for part in walk(found):  # a loop keeps the part alive while the next is looked for, a comprehension too
        if isinstance(part, Persistent):
            seen.append(part.id)
        del part
    assert seen == list(range(40))


def test_walk_sees_what_is_nested_in_changes_of_nodes() -> None:
    body = b"K\x07Q"
    for _ in range(30):
        body = GLOBAL + b")R(\x8c\x01k" + body + b"u"
    found = loads(body + b".")
    assert [part.id for part in walk(found) if isinstance(part, Persistent)] == [7]


def test_children_are_the_parts_in_the_order_in_which_they_were_saved() -> None:
    assert children(loads(b"}(K\x01K\x02K\x03K\x04u.")) == [1, 2, 3, 4]
    assert list(children(loads(b"(K\x01K\x02t."))) == [1, 2]
    assert list(children(loads(b"(K\x01K\x02\x91."))) == [1, 2]
    assert children(loads(b"K\x01Q.")) == [1]
    assert children(loads(GLOBAL + b".")) == []
    assert children("text") == []
    found = loads(GLOBAL + b"K\x01\x85RK\x02b.")
    assert isinstance(found, Call)
    assert children(found)[:2] == [found.func, (1,)]
    assert children(found)[-1] == 2


def test_names_are_equal_and_hashed_by_module_and_name() -> None:
    assert Global("a", "b") == Global("a", "b")
    assert hash(Global("a", "b")) == hash(Global("a", "b"))
    assert Global("a", "b") != Global("a", "c")
    assert Global("a", "b") != ("a", "b")
    assert (Global("a.b", "c").module, Global("a.b", "c").name, str(Global("a.b", "c"))) == ("a.b", "c", "a.b.c")


@pytest.mark.parametrize("depth", with_exhaustive([5000], [50_000]))
def test_reprs_are_short_whatever_they_hold(depth: int) -> None:
    deep = b"N" + b"\x85" * depth
    for raw in (
        GLOBAL + deep + b"R.",
        deep + b"Q.",
        b"}N" + deep + b"s.",
        b"\x8f(" + deep + b"\x90.",
        b"(" + deep + b"\x91.",
        GLOBAL + deep + b"b.",
    ):
        assert len(repr(loads(raw))) < 100
        assert all(len(repr(line)) < 100 for line in decode(raw).log)
    assert repr(Extension(5)) == "Extension(5)"


# -- several pickles in a row -------------------------------------------------------------------------


def test_pickles_in_a_row_are_decoded_one_by_one() -> None:
    cursor = Cursor(memoryview(b"K\x01.K\x02." + b"rest"), TensorError)
    assert [decode_next(cursor, Budget()).value for _ in range(2)] == [1, 2]
    assert bytes(cursor.take(4, "the rest")) == b"rest"


@pytest.mark.parametrize("size", [65_530, 65_536, 65_537, 262_144, 1_500_000])
def test_a_pickle_larger_than_the_window_is_decoded(size: int) -> None:
    body = b"B" + counted(4, bytes(size)) + b"."
    cursor = Cursor(memoryview(b"N." + body + b"rest"), TensorError)
    assert decode_next(cursor, Budget()).value is None
    assert decode_next(cursor, Budget()).value == bytes(size)
    assert cursor.left == 4


def test_many_opcodes_over_the_edge_of_the_window_are_decoded() -> None:
    value = [str(index) for index in range(30_000)]
    for protocol in range(2, 6):
        cursor = Cursor(memoryview(pickle.dumps(value, protocol) + b"rest"), TensorError)
        assert decode_next(cursor, Budget()).value == value
        assert cursor.left == 4


def test_errors_are_placed_in_the_whole_stream() -> None:
    cursor = Cursor(b"N.N\xff.", TensorError)
    decode_next(cursor, Budget())
    with pytest.raises(PickleError, match="expected a pickle opcode, got 0xff") as caught:
        decode_next(cursor, Budget())
    assert caught.value.offset == 3


def test_a_pickle_that_is_cut_short_is_refused_and_leaves_the_cursor() -> None:
    cursor = Cursor(b"N.N", TensorError)
    decode_next(cursor, Budget())
    with pytest.raises(PickleError):
        decode_next(cursor, Budget())
    assert cursor.position == 2
    with pytest.raises(PickleError):
        decode_next(Cursor(b"", TensorError), Budget())


@pytest.mark.parametrize("size", [10, 70_000, 300_000])
def test_each_pickle_in_a_row_is_limited_in_bytes(size: int) -> None:
    raw = b"B" + counted(4, bytes(size)) + b"."
    whole = len(raw)
    assert decode_next(Cursor(raw, TensorError), Budget(Limits(pickle_bytes=whole))).size == whole
    for allowed in (1, whole // 2, min(65_536, whole - 1), whole - 1):
        with pytest.raises(LimitError) as caught:
            decode_next(Cursor(raw, TensorError), Budget(Limits(pickle_bytes=allowed)))
        assert caught.value.limit == "pickle_bytes"


def test_what_lies_behind_a_pickle_is_not_charged() -> None:
    cursor = Cursor(memoryview(b"N." + bytes(1_000_000)), TensorError)
    assert decode_next(cursor, Budget(Limits(pickle_bytes=2))).size == 2


# -- numbers and texts that CPython takes, and no pickler writes ----------------------------------------

NUMBERS: Final = (
    b"", b"0", b"1", b"7", b"8", b"10", b"010", b"0x10", b"0X1f", b"0b11", b"0o17", b"1_0", b"_1", b"1_", b"1__0",
    b"0_1", b"00", b"01", b"000", b"001", b"08", b"LL", b"1.5", b".5", b"5.", b"1e5", b"1E+5", b"1e00005", b"inf",
    b"Infinity", b"nan", b"NaN", b"0x1p3", b"1_0.5", b"99999999999999999999", b"\xb2", b"\x1c5", b"5\x85", b"\xa05",
    b"--1", b"+-1",
)  # fmt: skip
BEFORE: Final = (b"", b" ", b"+", b"-", b" +", b" -", b"\t", b"\r", b"\v", b"+ ")
BEHIND: Final = (b"", b" ", b"\r", b"\t", b"L", b" L", b"L ")
PLAIN: Final = tuple(map(b"".join, itertools.product(BEFORE, NUMBERS, BEHIND)))
ENDED: Final = tuple(number + b"\0" + rest for number in PLAIN[::5] for rest in (b"", b"x", b"L", b" 5"))
"""C reads a number up to a zero byte."""
LONG: Final = (
    b"0" * 30 + b"5", b"0" * 700 + b"5", b"+" + b"0" * 700, b" " * 700 + b"5", b"5" + b" " * 700, b"9" * 700,
    b"9" * 700 + b"L", b"0x" + b"f" * 700, b"1" * 300 + b".5", b"." + b"5" * 700, b" " * 5000 + b"0x5",
)  # fmt: skip
STRINGS: Final = (
    b"'\\101'", b"'\\1'", b"'\\400'", b"'\\777'", b"'\\8'", b"'\\q'", b"'a\\'", b"'\\x4'", b"'\\x41'", b"'\\\\'", b"''",
    b"'", b"", b"'a' ", b" 'a'", b"'a'\r", b"'a\"", b"'\\a\\b\\f\\v\\0'", b"'a'b'",
    b"'\\\0'", b"'\\u0041'", b'"\\1"', b"'a\0b'",
    b"'\\377'", b"'\xff'", b"'" + b"a" * 700 + b"\\101'",
)  # fmt: skip
KINDS: Final = {"as plain text": PLAIN, "before a zero byte": ENDED, "at length": LONG}
PUTS: Final = b"K\x05" + b"".join(b"q" + bytes([index]) for index in range(101))
HEADS: Final = {"INT": b"I", "LONG": b"L", "FLOAT": b"F", "PUT": PUTS + b"p", "GET": PUTS + b"0g"}
SPELLED: Final = {
    **{f"{name} {kind}": (head, texts) for name, head in HEADS.items() for kind, texts in KINDS.items()},
    "STRING": (b"S", STRINGS),
}
"""What stands before each text, and the texts."""


IS_DECIMAL: Final = sys.version_info >= (3, 14)
"""Whether this CPython reads INT and LONG with base 10; older ones read any base."""


@pytest.mark.parametrize("raw", [b"I08\n", b"I010\n", b"I0x10\n", b"L08L\n", b"L0b1L\n"])
def test_an_attempt_reads_numbers_of_every_release_of_cpython(raw: bytes) -> None:
    found = attempt(raw + b"0cos\nsystem\n.", Budget())
    assert [str(node) for node in found.log] == ["os.system"]
    assert found.error is None


def taken(raw: bytes) -> tuple[bool, object]:
    """Whether CPython's unpickler in C gives a value, and which; every pickle here is plain data."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return True, pickle.loads(raw)
        except (ValueError, OverflowError, EOFError, pickle.UnpicklingError):
            return False, None


spellings = pytest.mark.parametrize("step", with_exhaustive([5], [1]))
"""One in so many."""


@pytest.mark.filterwarnings("ignore:invalid")
@pytest.mark.parametrize("what", SPELLED)
@spellings
def test_an_attempt_goes_on_wherever_cpython_does(what: str, step: int) -> None:
    """What it stopped at would hide every call behind it."""
    head, texts = SPELLED[what]
    stopped, differing, silent = [], [], []
    for text in list(texts)[::step]:
        raw = head + text + b"\n"
        is_taken, value = taken(raw + b".")
        found, behind = attempt(raw + b".", Budget()), attempt(raw + b"0cm\nn\n.", Budget())
        if not is_taken or (what.startswith("PUT") and isinstance(found.error, LimitError)):
            continue
        if found.pickle is None or behind.pickle is None or [str(node) for node in behind.log] != ["m.n"]:
            stopped.append(text)
        elif found.pickle.value != value and repr(found.pickle.value) != repr(value):
            if not (IS_DECIMAL and what.startswith(("INT", "LONG"))):  # the value of 010 was 8 before
                differing.append(text)
        else:
            is_strict = True
            try:
                loads(raw + b".")
            except SbformatError:
                is_strict = False
            if is_strict == any("unusual" in flag for flag in found.pickle.flags):
                silent.append(text)
    assert (stopped, differing, silent) == ([], [], [])


@pytest.mark.parametrize("what", SPELLED)
@spellings
def test_an_attempt_raises_nothing_for_any_spelling(what: str, step: int) -> None:
    head, texts = SPELLED[what]
    raised = []
    for text in list(texts)[::step]:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                attempt(head + text + b"\n.", Budget())
            except Exception as error:  # noqa: BLE001 -- whatever it is, it is too much
                raised.append((text, error))
    assert raised == []


@check_each(
    "raw",
    [b"I0x10\n.", b"I 1 \n.", b"I010\n.", b"I+1\n.", b"L 1_0\n.", b"L0x10L\n.", b"F+1\n.", b"F.5\n.", b"FInfinity\n.",
     b"S'\\101'\n.", b"S'\\q'\n.", b"Np+1\n.", b"Np007\n.", b"Np0\n0g 0\n."],
)  # fmt: skip
def test_odd_spellings_are_taken_by_an_attempt_only(raw: bytes) -> None:
    found = attempt(raw, Budget())
    assert found.pickle is not None
    assert found.pickle.flags == ("a number or text is encoded in an unusual way",)
    refused(raw)


# -- the memory of a tree -----------------------------------------------------------------------------


def test_a_tree_with_updates_is_not_a_cycle() -> None:
    """Reference counts free the tree of a state dict: a cycle would wait for the garbage collector."""
    gc.disable()
    try:
        tree: Any = loads(b"\x80\x02ccollections\nOrderedDict\n)RK\x01K\x02s}b.")
        alive = weakref.ref(tree)
        assert [update.how for update in tree.updates] == ["SETITEMS", "BUILD"]
        del tree
        assert alive() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("body", [b"NQ}b0", b"cm\nn\n}b0", b"cm\nn\n)R}b0", b"\x82\x01}b0"])
def test_the_log_keeps_the_nodes_that_are_changed(body: bytes) -> None:
    """Also those that no value refers to, in a pickle that cannot be read to its end."""
    found = attempt(b"\x80\x02" + body + b"\xff", Budget())
    assert found.pickle is None
    assert [update.how for update in found.log if isinstance(update, Update) and update.target] == ["BUILD"]


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda tree: pickle.loads(pickle.dumps(tree))], ids=["copy", "pickle"]
)
def test_a_tree_with_updates_can_be_copied_and_sent_to_another_process(copied: Any) -> None:
    """Also one that contains itself; an update refers to the copy."""
    raw = b"\x80\x02ccollections\nOrderedDict\n)Rq\x00X\x01\x00\x00\x00aK\x01sX\x01\x00\x00\x00bh\x00sh\x00}b."
    made = copied(loads(raw))
    assert [update.how for update in made.updates] == ["SETITEMS", "SETITEMS", "BUILD"]
    assert all(update.target is made for update in made.updates)
    assert made.updates[1].value[0][1] is made
