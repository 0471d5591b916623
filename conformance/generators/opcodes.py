"""The 68 opcodes, each accepted and each misused (FORMAT.md 5.1)."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Final

from conformance.generators.trees import (
    GLOBAL,
    PickleRule,
    call,
    change,
    counted,
    dict_,
    extension,
    frame,
    frozenset_,
    list_,
    name,
    persistent,
    set_,
    tree,
    tuple_,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.generators.vectors import Vector

TEXT: Final = (Path(__file__).resolve().parents[2] / "schema" / "FORMAT.md").read_text("utf-8")
ROWS: Final = re.findall(r"^(\| [0-9a-f]{2} \| ([A-Z_0-9]+) \|.*\|)$", TEXT, re.MULTILINE)
"""The rows of the table, verbatim, and the names of the opcodes."""
BY_NAME: Final = {name.lower().replace("_", "-"): PickleRule("5.1", row) for row, name in ROWS}


def rule_of(vector: str) -> PickleRule:
    """The row of an opcode, by the name of a vector: ``int:true`` is about INT."""
    return BY_NAME[vector.partition(":")[0]]


def named(vector: str) -> str:
    """The whole name of a vector."""
    return f"opcode-{vector.replace(':', '-')}"


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from constants()
    yield from the_memo()
    yield from containers()
    yield from changed()
    yield from names()
    yield from others()
    yield from cut()
    yield from lying_lengths()
    yield from without_operands()
    yield from wrong_operands()


# -- accepted -----------------------------------------------------------------------------------------

CONSTANTS: Final = (
    ("stop", b"N", None),
    ("none", b"N", None),
    ("newtrue", b"\x88", True),
    ("newfalse", b"\x89", False),
    ("pop", b"NK\x010", None),
    ("pop-mark", b"N(K\x01K\x021", None),
    ("int", b"I-70\n", -70),
    ("int:false", b"I00\n", False),
    ("int:true", b"I01\n", True),
    ("long", b"L-123456789012345678901L\n", -123456789012345678901),
    ("long:without-l", b"L7\n", 7),
    ("binint", b"J\xfe\xff\xff\x80", -0x7F000002),
    ("binint1", b"K\xff", 255),
    ("binint2", b"M\x01\xff", 0xFF01),
    ("long1", b"\x8a" + counted(1, b"\xff\x00"), 255),
    ("long1:negative", b"\x8a" + counted(1, b"\x80"), -128),
    ("long1:no-bytes", b"\x8a\x00", 0),
    ("long4", b"\x8b" + counted(4, bytes(8) + b"\x01"), 2**64),
    ("long4:large", b"\x8b" + counted(4, bytes(2000) + b"\x81"), -127 << 16000),
    ("float", b"F-1.5e3\n", -1500.0),
    ("binfloat", b"G" + struct.pack(">d", 1.1), 1.1),
    ("string", b"S'it\\'s\\n'\n", "it's\n"),
    ("binstring", b"T" + counted(4, b"a\x00\n"), "a\x00\n"),
    ("short-binstring", b"U" + counted(1, b"abc"), "abc"),
    ("unicode", b"Va\\u20ac\xe9\\U0001f600\n", "a\u20ac\xe9\U0001f600"),
    ("unicode:backslashes", b"V\\\\u0041\\n\\\n", "\\\\u0041\\n\\"),
    ("binunicode", b"X" + counted(4, "\u20ac\U0001f600\n".encode()), "\u20ac\U0001f600\n"),
    ("binunicode:surrogate", b"X" + counted(4, b"a\xed\xa0\x80b"), "a\ud800b"),
    ("short-binunicode", b"\x8c" + counted(1, "\ufeff\u20ac".encode()), "\ufeff\u20ac"),
    ("binunicode8", b"\x8d" + counted(8, b"abc"), "abc"),
    ("binbytes", b"B" + counted(4, b"\x00\xff"), b"\x00\xff"),
    ("short-binbytes", b"C" + counted(1, b"\x00\xff"), b"\x00\xff"),
    ("binbytes8", b"\x8e" + counted(8, b"\x00\xff"), b"\x00\xff"),
    ("bytearray8", b"\x96" + counted(8, b"\x00\xff"), bytearray(b"\x00\xff")),
    ("empty-tuple", b")", ()),
    ("proto", b"\x80\x05N", None),
    ("frame", frame(b"K\x07"), 7),
    ("readonly-buffer", b"\x96" + counted(8, b"ab") + b"\x98", b"ab"),
    ("readonly-buffer:of-bytes", b"C\x02ab\x98", b"ab"),
)  # fmt: skip
"""Vector, opcodes, value."""


def constants() -> Iterator[Vector]:
    for vector, body, value in CONSTANTS:
        yield rule_of(vector).gives(named(vector), body + b".", tree(value, protocol=5 if vector == "proto" else 0))
    nan = {**tree(None), "value": {"float": "7ff8000000000123"}}
    yield rule_of("binfloat").gives("opcode-binfloat-nan", b"G\x7f\xf8\0\0\0\0\x01\x23.", nan)
    yield rule_of("proto").gives("opcode-proto-0", b"\x80\x00N.", tree(None))
    yield rule_of("proto").gives("opcode-proto-last-counts", b"\x80\x04N0\x80\x02N.", tree(None, protocol=2))


def the_memo() -> Iterator[Vector]:
    for vector, put, get in (
        ("put", b"p300\n", b"g300\n"),
        ("binput", b"q\xff", b"h\xff"),
        ("long-binput", b"r\x00\x01\x00\x00", b"j\x00\x01\x00\x00"),
        ("memoize", b"\x94", b"h\x00"),
        ("get", b"q\x0a", b"g10\n"),
        ("binget", b"p10\n", b"h\x0a"),
        ("long-binget", b"q\x0a", b"j\x0a\x00\x00\x00"),
    ):
        shared = list_()
        printed = tree(tuple_(shared, shared))
        yield rule_of(vector).gives(named(vector), b"]" + put + get + b"\x86.", printed)
    memoize = rule_of("memoize")
    yield memoize.gives("opcode-memoize-counts-entries", b"K\x01q\x05K\x02\x94h\x01\x87.", tree(tuple_(1, 2, 2)))
    yield memoize.gives("opcode-memoize-over-an-entry", b"K\x01q\x01K\x02\x94h\x01\x87.", tree(tuple_(1, 2, 2)))


def containers() -> Iterator[Vector]:
    for vector, body, value in (
        ("mark", b"(N(tt", tuple_(None, ())),
        ("tuple1", b"K\x01\x85", tuple_(1)),
        ("tuple2", b"K\x01K\x02\x86", tuple_(1, 2)),
        ("tuple3", b"K\x01K\x02K\x03\x87", tuple_(1, 2, 3)),
        ("tuple", b"(K\x01K\x02K\x03K\x04t", tuple_(1, 2, 3, 4)),
        ("empty-list", b"]", list_()),
        ("list", b"(K\x01K\x02l", list_(1, 2)),
        ("empty-dict", b"}", dict_()),
        ("dict", b"(K\x01K\x02K\x01K\x03d", dict_((1, 2), (1, 3))),
        ("empty-set", b"\x8f", set_()),
        ("frozenset", b"(K\x01K\x01\x91", frozenset_(1, 1)),
        ("append", b"]K\x01aNa", list_(1, None)),
        ("appends", b"](K\x01K\x02e(Ne", list_(1, 2, None)),
        ("appends:nothing", b"](e", list_()),
        ("setitem", b"}K\x01K\x02sK\x01K\x03s", dict_((1, 2), (1, 3))),
        ("setitems", b"}(K\x01K\x02]NuK\x03Ns", dict_((1, 2), (list_(), None), (3, None))),
        ("additems", b"\x8f(K\x01]K\x01\x90", set_(1, list_(), 1)),
    ):
        yield rule_of(vector).gives(named(vector), body + b".", tree(value))
    shared = list_()
    yield rule_of("dup").gives("opcode-dup", b"]2\x86.", tree(tuple_(shared, shared)))


def changed() -> Iterator[Vector]:
    """Changes of a node by the opcodes of containers."""
    for vector, body, how, what in (
        ("append", b"K\x01a", "APPENDS", [1]),
        ("appends", b"(K\x01K\x02e", "APPENDS", [1, 2]),
        ("setitem", b"K\x01K\x02s", "SETITEMS", [[1, 2]]),
        ("setitems", b"(K\x01K\x02K\x01Nu", "SETITEMS", [[1, 2], [1, None]]),
        ("additems", b"(K\x01K\x02\x90", "ADDITEMS", [1, 2]),
        ("build", b"K\x01b", "BUILD", 1),
    ):
        node = name().changed(how, what)
        node_name = named(vector if vector == "build" else f"{vector}:to-a-node")
        yield rule_of(vector).gives(node_name, GLOBAL + body + b".", tree(node, node, change(node)))


def names() -> Iterator[Vector]:
    node = name("m.o", "n.\u00e9")
    yield rule_of("global").gives("opcode-global", "cm.o\nn.\u00e9\n.".encode(), tree(node, node))
    node = name()
    yield rule_of("stack-global").gives("opcode-stack-global", b"\x8c\x01m\x8c\x01n\x93.", tree(node, node))
    for vector, body, code in (
        ("ext1", b"\x82\xff", 255),
        ("ext2", b"\x83\x01\xff", 0xFF01),
        ("ext4", b"\x84\xff\xff\xff\x7f", 2**31 - 1),
    ):
        node = extension(code)
        yield rule_of(vector).gives(named(vector), body + b".", tree(node, node))
    for vector, body, arguments, more in (
        ("reduce", GLOBAL + b"K\x01\x85R", tuple_(1), {}),
        ("inst", b"(K\x01im\nn\n", tuple_(1), {}),
        ("inst:without-arguments", b"(im\nn\n", (), {}),
        ("obj", b"(" + GLOBAL + b"K\x01K\x02o", tuple_(1, 2), {}),
        ("obj:without-arguments", b"(" + GLOBAL + b"o", (), {}),
        ("newobj", GLOBAL + b"K\x01\x85\x81", tuple_(1), {}),
        ("newobj-ex", GLOBAL + b")}\x8c\x01kK\x01s\x92", (), {"keywords": dict_(("k", 1))}),
    ):
        how = vector.partition(":")[0].upper().replace("-", "_")
        node = name()
        made = call(how, node, arguments, **more)
        yield rule_of(vector).gives(named(vector), body + b".", tree(made, node, made))


def others() -> Iterator[Vector]:
    for vector, body, node in (
        ("persid", b"Pan id\n", persistent("an id")),
        ("binpersid", b"K\x01\x85Q", persistent(tuple_(1))),
    ):
        yield rule_of(vector).gives(named(vector), body + b".", tree(node))
    node = name()
    yield rule_of("readonly-buffer").gives("opcode-readonly-buffer-of-a-node", GLOBAL + b"\x98.", tree(node, node))
    yield rule_of("next-buffer").fails("opcode-next-buffer", b"\x80\x05\x97.")
    yield rule_of("next-buffer").fails("opcode-next-buffer-above-a-value", b"\x80\x05N\x97.")


# -- misused ------------------------------------------------------------------------------------------


def cut() -> Iterator[Vector]:
    """The pickle ends within the opcode's argument, or before its line does."""
    for vector, body in (
        ("binint", b"J\x01\x02\x03"),
        ("binint1", b"K"),
        ("binint2", b"M\x01"),
        ("binfloat", b"G" + bytes(7)),
        ("binput", b"q"),
        ("long-binput", b"r\x00\x00\x00"),
        ("binget", b"q\x000h"),
        ("long-binget", b"q\x000j\x00\x00\x00"),
        ("ext1", b"\x82"),
        ("ext2", b"\x83\x01"),
        ("ext4", b"\x84\x01\x00\x00"),
        ("proto", b"\x80"),
        ("frame", b"\x95\x00\x00\x00\x00\x00\x00\x00"),
        ("int", b"I7"),
        ("long", b"L7L"),
        ("float", b"F1.5"),
        ("string", b"S'a'"),
        ("unicode", b"Va"),
        ("put", b"p0"),
        ("get", b"q\x000g0"),
        ("persid", b"Pa"),
        ("global", b"cm\nn"),
        ("inst", b"(im\nn"),
    ):
        yield rule_of(vector).fails(named(f"{vector}:cut"), b"N" + body)
    yield rule_of("stop").fails("opcode-stop-missing-of-nothing", b"")
    for vector, code in (("none", b"N"), ("newtrue", b"\x88"), ("newfalse", b"\x89"), ("empty-set", b"\x8f")):
        yield rule_of(vector).fails(named(f"{vector}:without-stop"), code)


def lying_lengths() -> Iterator[Vector]:
    """A length of one byte more than exist, and lengths that are negative if they are read as signed."""
    for vector, code, size in (
        ("long1", b"\x8a", 1),
        ("long4", b"\x8b", 4),
        ("binstring", b"T", 4),
        ("short-binstring", b"U", 1),
        ("binunicode", b"X", 4),
        ("short-binunicode", b"\x8c", 1),
        ("binunicode8", b"\x8d", 8),
        ("binbytes", b"B", 4),
        ("short-binbytes", b"C", 1),
        ("binbytes8", b"\x8e", 8),
        ("bytearray8", b"\x96", 8),
    ):
        yield rule_of(vector).fails(named(f"{vector}:too-long"), code + counted(size, b"abc.", more=1))
        if size == 8 or code in b"XB":
            lie = code + (bytes(7) + b"\x80" if size == 8 else b"\xff" * 4) + b"abc."
            yield rule_of(vector).fails(named(f"{vector}:length-negative"), lie)


def without_operands() -> Iterator[Vector]:
    """Operands below a mark, or a missing mark."""
    for vector, body in (
        ("stop", b"N("),
        ("dup", b"N(2"),
        ("append", b"](Na"),
        ("setitem", b"}K\x01(Ns"),
        ("tuple1", b"N(\x85"),
        ("tuple2", b"N(N\x86"),
        ("tuple3", b"NN(N\x87"),
        ("memoize", b"N(\x94"),
        ("stack-global", b"\x8c\x01m(\x8c\x01n\x93"),
        ("reduce", GLOBAL + b"()R"),
        ("newobj", GLOBAL + b"()\x81"),
        ("newobj-ex", GLOBAL + b")(}\x92"),
        ("build", GLOBAL + b"(Nb"),
        ("binpersid", b"N(Q"),
        ("readonly-buffer", b"C\x00(\x98"),
        ("obj", b"(o"),
    ):
        yield rule_of(vector).fails(named(f"{vector}:below-a-mark"), body + b".")
    for vector, body in (
        ("pop-mark", b"NN1"),
        ("tuple", b"NNt"),
        ("list", b"NNl"),
        ("dict", b"NNd"),
        ("frozenset", b"NN\x91"),
        ("appends", b"]Ne"),
        ("setitems", b"}NNu"),
        ("additems", b"\x8fN\x90"),
        ("inst", b"Nim\nn\n"),
    ):
        yield rule_of(vector).fails(named(f"{vector}:without-a-mark"), body + b".")
    for vector, body in (("pop", b"0N"), ("dup", b"2"), ("stop", b""), ("mark", b"(")):
        yield rule_of(vector).fails(named(f"{vector}:of-nothing"), body + b".")


def wrong_operands() -> Iterator[Vector]:
    for vector, body in (
        ("empty-tuple:appended-to", b")Na"),
        ("empty-list:item-set", b"]NNs"),
        ("empty-dict:appended-to", b"}Na"),
        ("proto:6", b"\x80\x06N"),
        ("proto:255", b"\x80\xffN"),
        ("readonly-buffer:of-text", b"\x8c\x01a\x98"),
        ("persid:beyond-ascii", b"Pcaf\xc3\xa9\n"),
        ("unicode:short-escape", b"V\\u12\n"),
        ("binunicode:no-utf-8", b"X" + counted(4, b"\xff")),
        ("global:no-utf-8", b"c\xff\nn\n"),
    ):
        yield rule_of(vector).fails(named(vector), body + b".")
