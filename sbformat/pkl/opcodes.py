"""The table of the 68 pickle opcodes, protocols 0 to 5 (FORMAT.md 5.1).

One row for each opcode: its byte, its name in CPython's ``pickletools``, the protocol that introduced it, the layout
of its argument, and its effect on the stack (``before -- after``, ``|`` is a mark). The handlers of the machine, the
encoder and the disassembler use this table.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Opcode(NamedTuple):
    """A row of the table."""

    code: int
    name: str
    protocol: int
    argument: str
    """Empty: no argument. u1 u2 u4 u8 i4 f8: a number. line, line2: one line of text, or two. s1 s4 s8: bytes after an
    unsigned length of 1, 4 or 8 bytes. i4s: bytes after a signed length of 4 bytes."""
    effect: str


def _rows(text: str) -> tuple[Opcode, ...]:
    rows = []
    for line in text.strip().splitlines():
        code, name, protocol, argument, effect = (part.strip() for part in line.split("  ", 4))
        value = int(code, 16)
        rows.append(Opcode(value, name, int(protocol), "" if argument == "-" else argument, effect))
    return tuple(rows)


OPCODES: Final = _rows("""
28  MARK  0  -  -- |
2e  STOP  0  -  value --
30  POP  0  -  value --
31  POP_MARK  1  -  | values --
32  DUP  0  -  value -- value value
46  FLOAT  0  line  -- float
49  INT  0  line  -- int or bool
4a  BININT  1  i4  -- int
4b  BININT1  1  u1  -- int
4c  LONG  0  line  -- int
4d  BININT2  1  u2  -- int
4e  NONE  0  -  -- None
50  PERSID  0  line  -- persistent
51  BINPERSID  1  -  id -- persistent
52  REDUCE  0  -  callable args -- value
53  STRING  0  line  -- str
54  BINSTRING  1  i4s  -- str
55  SHORT_BINSTRING  1  s1  -- str
56  UNICODE  0  line  -- str
58  BINUNICODE  1  s4  -- str
61  APPEND  0  -  list value -- list
62  BUILD  0  -  value state -- value
63  GLOBAL  0  line2  -- global
64  DICT  0  -  | keys and values -- dict
7d  EMPTY_DICT  1  -  -- dict
65  APPENDS  1  -  list | values -- list
67  GET  0  line  -- value
68  BINGET  1  u1  -- value
69  INST  0  line2  | args -- value
6a  LONG_BINGET  1  u4  -- value
6c  LIST  0  -  | values -- list
5d  EMPTY_LIST  1  -  -- list
6f  OBJ  1  -  | class args -- value
70  PUT  0  line  value -- value
71  BINPUT  1  u1  value -- value
72  LONG_BINPUT  1  u4  value -- value
73  SETITEM  0  -  dict key value -- dict
74  TUPLE  0  -  | values -- tuple
29  EMPTY_TUPLE  1  -  -- tuple
75  SETITEMS  1  -  dict | keys and values -- dict
47  BINFLOAT  1  f8  -- float
80  PROTO  2  u1  --
81  NEWOBJ  2  -  class args -- value
82  EXT1  2  u1  -- extension
83  EXT2  2  u2  -- extension
84  EXT4  2  i4  -- extension
85  TUPLE1  2  -  value -- tuple
86  TUPLE2  2  -  value value -- tuple
87  TUPLE3  2  -  value value value -- tuple
88  NEWTRUE  2  -  -- True
89  NEWFALSE  2  -  -- False
8a  LONG1  2  s1  -- int
8b  LONG4  2  i4s  -- int
42  BINBYTES  3  s4  -- bytes
43  SHORT_BINBYTES  3  s1  -- bytes
8c  SHORT_BINUNICODE  4  s1  -- str
8d  BINUNICODE8  4  s8  -- str
8e  BINBYTES8  4  s8  -- bytes
8f  EMPTY_SET  4  -  -- set
90  ADDITEMS  4  -  set | values -- set
91  FROZENSET  4  -  | values -- frozenset
92  NEWOBJ_EX  4  -  class args kwargs -- value
93  STACK_GLOBAL  4  -  module name -- global
94  MEMOIZE  4  -  value -- value
95  FRAME  4  u8  --
96  BYTEARRAY8  5  s8  -- bytearray
97  NEXT_BUFFER  5  -  -- buffer
98  READONLY_BUFFER  5  -  buffer -- buffer
""")

BY_CODE: Final = {row.code: row for row in OPCODES}
