"""The table of the 68 pickle opcodes, protocols 0 to 5 (FORMAT.md 5.1).

One row for each opcode: its byte, its name in CPython's ``pickletools``, the protocol that introduced it, the layout
of its argument, and its effect on the stack (``before -- after``, ``|`` is a mark). The handlers of the machine, the
encoder and the disassembler use this table. ``schema/tables/opcodes.json`` has the rows for readers in any language.
"""

from __future__ import annotations

from typing import Final

from sbformat.immutable import Record


class Opcode(Record):
    """A row of the table."""

    code: int
    name: str
    protocol: int
    argument: str
    """Empty: no argument. u1 u2 u4 u8 i4 f8: a number. line, line2: one line of text, or two. s1 s4 s8: bytes after an
    unsigned length of 1, 4 or 8 bytes. i4s: bytes after a signed length of 4 bytes."""
    effect: str


OPCODES: Final = (
    # begin opcodes: generated from schema/tables/opcodes.json by schema/generate_tables.py
    Opcode(0x28, "MARK", 0, "", "-- |"),
    Opcode(0x2E, "STOP", 0, "", "value --"),
    Opcode(0x30, "POP", 0, "", "value --"),
    Opcode(0x31, "POP_MARK", 1, "", "| values --"),
    Opcode(0x32, "DUP", 0, "", "value -- value value"),
    Opcode(0x4E, "NONE", 0, "", "-- None"),
    Opcode(0x88, "NEWTRUE", 2, "", "-- True"),
    Opcode(0x89, "NEWFALSE", 2, "", "-- False"),
    Opcode(0x49, "INT", 0, "line", "-- int or bool"),
    Opcode(0x4C, "LONG", 0, "line", "-- int"),
    Opcode(0x4A, "BININT", 1, "i4", "-- int"),
    Opcode(0x4B, "BININT1", 1, "u1", "-- int"),
    Opcode(0x4D, "BININT2", 1, "u2", "-- int"),
    Opcode(0x8A, "LONG1", 2, "s1", "-- int"),
    Opcode(0x8B, "LONG4", 2, "i4s", "-- int"),
    Opcode(0x46, "FLOAT", 0, "line", "-- float"),
    Opcode(0x47, "BINFLOAT", 1, "f8", "-- float"),
    Opcode(0x53, "STRING", 0, "line", "-- text"),
    Opcode(0x54, "BINSTRING", 1, "i4s", "-- text"),
    Opcode(0x55, "SHORT_BINSTRING", 1, "s1", "-- text"),
    Opcode(0x56, "UNICODE", 0, "line", "-- text"),
    Opcode(0x58, "BINUNICODE", 1, "s4", "-- text"),
    Opcode(0x8C, "SHORT_BINUNICODE", 4, "s1", "-- text"),
    Opcode(0x8D, "BINUNICODE8", 4, "s8", "-- text"),
    Opcode(0x42, "BINBYTES", 3, "s4", "-- bytes"),
    Opcode(0x43, "SHORT_BINBYTES", 3, "s1", "-- bytes"),
    Opcode(0x8E, "BINBYTES8", 4, "s8", "-- bytes"),
    Opcode(0x96, "BYTEARRAY8", 5, "s8", "-- bytearray"),
    Opcode(0x29, "EMPTY_TUPLE", 1, "", "-- tuple"),
    Opcode(0x85, "TUPLE1", 2, "", "value -- tuple"),
    Opcode(0x86, "TUPLE2", 2, "", "value value -- tuple"),
    Opcode(0x87, "TUPLE3", 2, "", "value value value -- tuple"),
    Opcode(0x74, "TUPLE", 0, "", "| values -- tuple"),
    Opcode(0x5D, "EMPTY_LIST", 1, "", "-- list"),
    Opcode(0x6C, "LIST", 0, "", "| values -- list"),
    Opcode(0x61, "APPEND", 0, "", "list value -- list"),
    Opcode(0x65, "APPENDS", 1, "", "list | values -- list"),
    Opcode(0x7D, "EMPTY_DICT", 1, "", "-- dict"),
    Opcode(0x64, "DICT", 0, "", "| keys and values -- dict"),
    Opcode(0x73, "SETITEM", 0, "", "dict key value -- dict"),
    Opcode(0x75, "SETITEMS", 1, "", "dict | keys and values -- dict"),
    Opcode(0x8F, "EMPTY_SET", 4, "", "-- set"),
    Opcode(0x90, "ADDITEMS", 4, "", "set | values -- set"),
    Opcode(0x91, "FROZENSET", 4, "", "| values -- frozenset"),
    Opcode(0x70, "PUT", 0, "line", "value -- value"),
    Opcode(0x71, "BINPUT", 1, "u1", "value -- value"),
    Opcode(0x72, "LONG_BINPUT", 1, "u4", "value -- value"),
    Opcode(0x94, "MEMOIZE", 4, "", "value -- value"),
    Opcode(0x67, "GET", 0, "line", "-- value"),
    Opcode(0x68, "BINGET", 1, "u1", "-- value"),
    Opcode(0x6A, "LONG_BINGET", 1, "u4", "-- value"),
    Opcode(0x63, "GLOBAL", 0, "line2", "-- global"),
    Opcode(0x93, "STACK_GLOBAL", 4, "", "module name -- global"),
    Opcode(0x82, "EXT1", 2, "u1", "-- extension"),
    Opcode(0x83, "EXT2", 2, "u2", "-- extension"),
    Opcode(0x84, "EXT4", 2, "i4", "-- extension"),
    Opcode(0x52, "REDUCE", 0, "", "callable args -- call"),
    Opcode(0x69, "INST", 0, "line2", "| args -- call"),
    Opcode(0x6F, "OBJ", 1, "", "| class args -- call"),
    Opcode(0x81, "NEWOBJ", 2, "", "class args -- call"),
    Opcode(0x92, "NEWOBJ_EX", 4, "", "class args kwargs -- call"),
    Opcode(0x62, "BUILD", 0, "", "value state -- value"),
    Opcode(0x50, "PERSID", 0, "line", "-- persistent"),
    Opcode(0x51, "BINPERSID", 1, "", "id -- persistent"),
    Opcode(0x80, "PROTO", 2, "u1", "--"),
    Opcode(0x95, "FRAME", 4, "u8", "--"),
    Opcode(0x97, "NEXT_BUFFER", 5, "", "-- buffer"),
    Opcode(0x98, "READONLY_BUFFER", 5, "", "buffer -- buffer"),
    # end opcodes
)

BY_CODE: Final = {row.code: row for row in OPCODES}
