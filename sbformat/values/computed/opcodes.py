"""Opcodes of CPython 3.5 to 3.14, as far as a schedule needs them, and how to tell the releases apart (VALUES.md 13.5).

A code object does not contain the release that compiled it. Since 3.11 it has a qualified name; before, its line table
covers the whole bytecode in 3.10 alone. The number of RESUME differs between 3.12, 3.13 and 3.14. 3.11 and 3.12 are
both tried where nothing distinguishes them: then both compute the same. 3.6 to 3.9 differ in nothing that is read here.
In 3.5, which is tried beside them, opcodes from 90 have two bytes of argument, and others none: the high byte of nearly
every argument is 0, which is not an opcode of 3.6 to 3.9.
Sources: ``Lib/opcode.py``, ``Include/opcode_ids.h`` and ``_opcode_metadata.py`` of each release.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from sbformat.immutable import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.known.code import Code

EXTENDED_ARG: Final = "EXTENDED_ARG"


class Release(Record):
    """What bytecode of these releases of CPython has in common."""

    name: str
    column: int
    """Its column of the table."""
    jumps: int
    """Bytes per unit of a jump."""
    has_caches: bool
    """Whether inline caches follow instructions, jumps are relative, and locals and cells have one numbering (3.11)."""
    compare_shift: int
    """Bits of the argument of COMPARE_OP that are not its operator."""
    null: str
    """Where the NULL of a call without an object is: nowhere, ``below`` the callable, or ``above`` it."""
    skipped: int
    """Code units that FOR_ITER skips at the end of the loop, after its argument."""
    others: int = 0
    """A bit for each opcode that the release has, where bytecode may be that of this release or of another."""
    compensated_sum: int = 0
    """Of ``float``, ``int`` and ``bool``, how many kinds of numbers ``sum`` adds with a compensation of errors."""

    @property
    def needs_bool(self) -> bool:
        """Whether only a bool can be tested, so that another instruction makes one (3.13)."""
        return self.compare_shift == 5


PYTHON_3_5: Final = Release("3.5", 0, 1, False, 0, "", 0)
PYTHON_3_7: Final = Release("3.6 and 3.7", 0, 1, False, 0, "", 0)
PYTHON_3_9: Final = Release("3.8 and 3.9", 0, 1, False, 0, "", 0)
PYTHON_3_10: Final = Release("3.10", 0, 2, False, 0, "", 0)
PYTHON_3_11: Final = Release("3.11", 1, 2, True, 0, "below", 0, 0x1F87D39BF5FFF7DFDFFFFFFFC0CF0307E003BC2009E07)
PYTHON_3_12: Final = Release(
    "3.12", 2, 2, True, 4, "below", 1, 0x7FFFE000000000000001F83C39EFFFFFFFC7FFFFEA80CB030FE003BCE029A3F, 1
)
PYTHON_3_13: Final = Release("3.13", 3, 2, True, 5, "above", 2, 0, 1)
PYTHON_3_14: Final = Release("3.14", 4, 2, True, 5, "above", 1, 0, 3)

_TABLE: Final = """
opcode                            <=3.10 3.11   3.12   3.13   3.14
BINARY_ADD                        23     -      -      -      -
BINARY_AND                        64     -      -      -      -
BINARY_FLOOR_DIVIDE               26     -      -      -      -
BINARY_MODULO                     22     -      -      -      -
BINARY_MULTIPLY                   20     -      -      -      -
BINARY_OP                         -      122+1  122+1  45+1   44+5
BINARY_OR                         66     -      -      -      -
BINARY_POWER                      19     -      -      -      -
BINARY_SLICE                      -      -      26     4      1
BINARY_SUBSCR                     25     25+4   25+1   5+1    -
BINARY_SUBTRACT                   24     -      -      -      -
BINARY_TRUE_DIVIDE                27     -      -      -      -
BINARY_XOR                        65     -      -      -      -
BREAK_LOOP                        80     -      -      -      -
BUILD_CONST_KEY_MAP               156    156    156    46     -
BUILD_LIST                        103    103    103    47     46
BUILD_MAP                         105    105    105    48     47
BUILD_SLICE                       133    133    133    50     49
BUILD_TUPLE                       102    102    102    52     51
CALL                              -      171+4  171+3  53+3   52+3
CALL_FUNCTION                     131    -      -      -      -
CALL_FUNCTION_KW                  141    -      -      -      -
CALL_INTRINSIC_1                  -      -      173    55     53
CALL_KW                           -      -      -      57     55+3
CALL_METHOD                       161    -      -      -      -
COMPARE_OP                        107    107+2  107+1  58+1   56+1
CONTAINS_OP                       118    118    118    59+1   57+1
CONTINUE_LOOP                     119    -      -      -      -
COPY                              -      120    120    61     59
COPY_FREE_VARS                    -      149    149    62     60
DELETE_FAST                       126    126    126    65     63
DUP_TOP                           4      -      -      -      -
DUP_TOP_TWO                       5      -      -      -      -
END_FOR                           -      -      4      11     9
EXTENDED_ARG                      144    144    144    71     69
FOR_ITER                          93     93     93+1   72+1   70+1
GET_ITER                          68     68     68     19     16
IMPORT_FROM                       109    109    109    74     72
IMPORT_NAME                       108    108    108    75     73
INPLACE_ADD                       55     -      -      -      -
INPLACE_AND                       77     -      -      -      -
INPLACE_FLOOR_DIVIDE              28     -      -      -      -
INPLACE_MODULO                    59     -      -      -      -
INPLACE_MULTIPLY                  57     -      -      -      -
INPLACE_OR                        79     -      -      -      -
INPLACE_POWER                     67     -      -      -      -
INPLACE_SUBTRACT                  56     -      -      -      -
INPLACE_TRUE_DIVIDE               29     -      -      -      -
INPLACE_XOR                       78     -      -      -      -
IS_OP                             117    117    117    76     74
JUMP_ABSOLUTE                     113    -      -      -      -
JUMP_BACKWARD                     -      140    140    77+1   75+1
JUMP_FORWARD                      110    110    110    79     77
JUMP_IF_FALSE_OR_POP              111    111    -      -      -
JUMP_IF_TRUE_OR_POP               112    112    -      -      -
KW_NAMES                          -      172    172    -      -
LIST_APPEND                       145    145    145    80     78
LIST_EXTEND                       162    162    162    81     79
LIST_TO_TUPLE                     82     82     -      -      -
LOAD_ATTR                         106    106+4  106+9  82+9   80+9
LOAD_CLOSURE                      135    136    136    -      -
LOAD_CONST                        100    100    100    83     82
LOAD_DEREF                        136    137    137    84     83
LOAD_FAST                         124    124    124    85     84
LOAD_FAST_AND_CLEAR               -      -      143    86     85
LOAD_FAST_BORROW                  -      -      -      -      86
LOAD_FAST_BORROW_LOAD_FAST_BORROW -      -      -      -      87
LOAD_FAST_CHECK                   -      -      127    87     88
LOAD_FAST_LOAD_FAST               -      -      -      88     89
LOAD_GLOBAL                       116    116+5  116+4  91+4   92+4
LOAD_METHOD                       160    160+10 -      -      -
LOAD_SMALL_INT                    -      -      -      -      94
MAKE_CELL                         -      135    135    94     97
MAKE_FUNCTION                     132    132    132    26     23
NOP                               9      9      9      30     27
NOT_TAKEN                         -      -      -      -      28
POP_BLOCK                         87     -      -      -      -
POP_ITER                          -      -      -      -      30
POP_JUMP_BACKWARD_IF_FALSE        -      175    -      -      -
POP_JUMP_BACKWARD_IF_NONE         -      174    -      -      -
POP_JUMP_BACKWARD_IF_NOT_NONE     -      173    -      -      -
POP_JUMP_BACKWARD_IF_TRUE         -      176    -      -      -
POP_JUMP_FORWARD_IF_FALSE         -      114    -      -      -
POP_JUMP_FORWARD_IF_NONE          -      129    -      -      -
POP_JUMP_FORWARD_IF_NOT_NONE      -      128    -      -      -
POP_JUMP_FORWARD_IF_TRUE          -      115    -      -      -
POP_JUMP_IF_FALSE                 114    -      114    97+1   100+1
POP_JUMP_IF_NONE                  -      -      129    98+1   101+1
POP_JUMP_IF_NOT_NONE              -      -      128    99+1   102+1
POP_JUMP_IF_TRUE                  115    -      115    100+1  103+1
POP_TOP                           1      1      1      32     31
PRECALL                           -      166+1  -      -      -
PUSH_NULL                         -      2      2      34     33
RAISE_VARARGS                     130    130    130    101    104
RESUME                            -      151    151    149    128
RETURN_CONST                      -      -      121    103    -
RETURN_VALUE                      83     83     83     36     35
ROT_FOUR                          6      -      -      -      -
ROT_N                             99     -      -      -      -
ROT_THREE                         3      -      -      -      -
ROT_TWO                           2      -      -      -      -
SETUP_EXCEPT                      121    -      -      -      -
SETUP_FINALLY                     122    -      -      -      -
SETUP_LOOP                        120    -      -      -      -
SET_FUNCTION_ATTRIBUTE            -      -      -      106    108
STORE_ATTR                        95     95+4   95+4   108+4  110+4
STORE_DEREF                       137    138    138    109    111
STORE_FAST                        125    125    125    110    112
STORE_FAST_LOAD_FAST              -      -      -      111    113
STORE_FAST_STORE_FAST             -      -      -      112    114
STORE_GLOBAL                      97     97     97     113    115
STORE_SUBSCR                      60     60+1   60+1   39+1   38+1
SWAP                              -      99     99     115    117
TO_BOOL                           -      -      -      40+3   39+3
UNARY_NEGATIVE                    11     11     11     42     41
UNARY_NOT                         12     12     12     43     42
UNARY_POSITIVE                    10     10     -      -      -
UNPACK_SEQUENCE                   92     92+1   92+1   117+1  119+1
"""
"""The number of each opcode; after "+", the code units of its inline cache. A number that has another meaning in some
release up to 3.10 is reached there only after an opcode that is not in the table."""


class Opcode(Record):
    """A row of the table, in one release."""

    name: str
    caches: int
    """Code units that follow it, all zero in a code object that was pickled."""


_BLOCKS: Final = ("BREAK_LOOP", "CONTINUE_LOOP", "SETUP_EXCEPT", "SETUP_LOOP")
"""Opcodes up to 3.7; their numbers have another meaning since."""


@cache
def load_opcodes(release: Release) -> Mapping[int, Opcode]:
    """Return the opcodes of a release by their number."""
    found: dict[int, Opcode] = {}
    for row in _TABLE.splitlines()[2:]:
        name, *cells = row.split()
        number, _, caches = cells[release.column].partition("+")
        if number != "-" and (name not in _BLOCKS or release in (PYTHON_3_5, PYTHON_3_7)):
            found[int(number)] = Opcode(name, int(caches or 0))
    return found


def list_releases(code: Code) -> tuple[Release, ...]:
    """Return the releases that may have compiled a code object, by what is not its bytecode."""
    if code.qualname is not None:
        return PYTHON_3_11, PYTHON_3_12, PYTHON_3_13, PYTHON_3_14
    if code.arguments == _ARGUMENTS_UNTIL_3_7:
        return PYTHON_3_7, PYTHON_3_5
    return (PYTHON_3_10 if sum(code.linetable[::2]) == len(code.bytecode) else PYTHON_3_9,)


_ARGUMENTS_UNTIL_3_7: Final = 15
"""Of a code object."""
