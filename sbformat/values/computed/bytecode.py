"""Bytecode of any release as one list of instructions, which the machine executes (VALUES.md 13.5).

**What comes in.** A code object and a release, whose opcodes, caches and jumps differ from others.

**What goes out.** Instructions of one small language: operations on a stack, with names, constants and operators in
the place of numbers, and jumps to positions of the list. An opcode of two parts (LOAD_FAST_LOAD_FAST, RETURN_CONST)
becomes two instructions. An opcode that no schedule needs becomes ``unsupported``, which fails only if it is reached.

**Invariants.** Every jump leads to the first part of an opcode, never into an argument, an EXTENDED_ARG that belongs to
another opcode, or a cache. Every argument is within the table that it selects from.

Example, ``lambda p: p * 3e-4`` of CPython 3.13::

    95 00          RESUME           (checked, then dropped)
    55 00          LOAD_FAST 0      ("fast", "p")
    53 01          LOAD_CONST 1     ("const", 0.0003)
    2d 05 00 00    BINARY_OP 5      ("binary", "*")
    24 00          RETURN_VALUE     ("return", None)

**Releases.** A code object does not contain the release that compiled it. Since 3.11 it has a qualified name; before,
its line table covers the whole bytecode in 3.10 alone. The number of RESUME differs between 3.12, 3.13 and 3.14. 3.11
and 3.12 are both tried where nothing distinguishes them: then both compute the same. 3.6 to 3.9 differ in nothing that
is read here. In 3.5, which is tried beside them, opcodes from 90 have two bytes of argument, and others none: the high
byte of nearly every argument is 0, which is not an opcode of 3.6 to 3.9.
Sources: ``Lib/opcode.py``, ``Include/opcode_ids.h`` and ``_opcode_metadata.py`` of each release.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, NoReturn

from sbformat.immutable import Record
from sbformat.values.computed.arithmetic import NotUnderstoodError, OtherReleaseError, refuse
from sbformat.values.computed.library import NULL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sbformat.known.code import Code


class Release(Record):
    """What bytecode of these releases of CPython has in common."""

    name: str
    column: int
    """Its column of the table."""
    jumps: int
    """Bytes per unit of a jump."""
    has_caches: bool = False
    """Whether inline caches follow instructions, jumps are relative, and locals and cells have one numbering (3.11)."""
    compare_shift: int = 0
    """Bits of the argument of COMPARE_OP that are not its operator."""
    null: str = ""
    """Where the NULL of a call without an object is: nowhere, ``below`` the callable, or ``above`` it."""
    skipped: int = 0
    """Code units that FOR_ITER skips at the end of the loop, after its argument."""
    others: int = 0
    """A bit for each opcode that the release has, where bytecode may be that of this release or of another."""
    compensated: tuple[str, ...] = ()
    """The types that ``sum`` adds to a float with a compensation of errors."""

    @property
    def needs_bool(self) -> bool:
        """Whether only a bool can be tested, so that another instruction makes one (3.13)."""
        return self.compare_shift == 5

    @property
    def keeps_iterator(self) -> bool:
        """Whether another instruction drops the iterator of a loop at its end (3.14)."""
        return self.name == "3.14"


PYTHON_3_5: Final = Release("3.5", 0, 1)
PYTHON_3_7: Final = Release("3.6 and 3.7", 0, 1)
PYTHON_3_9: Final = Release("3.8 and 3.9", 0, 1)
PYTHON_3_10: Final = Release("3.10", 0, 2)
PYTHON_3_11: Final = Release("3.11", 1, 2, True, 0, "below", 0, 0x1F87D39BF5FFF7DFDFFFFFFFC0CF0307E003BC2009E07)
PYTHON_3_12: Final = Release(
    "3.12", 2, 2, True, 4, "below", 1, 0x7FFFE000000000000001F83C39EFFFFFFFC7FFFFEA80CB030FE003BCE029A3F, ("float",)
)
PYTHON_3_13: Final = Release("3.13", 3, 2, True, 5, "above", 2, 0, ("float",))
PYTHON_3_14: Final = Release("3.14", 4, 2, True, 5, "above", 1, 0, ("float", "int", "bool"))

_TABLE: Final = """
opcode                            <=3.10 3.11   3.12   3.13   3.14  instructions
BINARY_OP                         -      122+1  122+1  45+1   44+5   *
BINARY_SLICE                      -      -      26     4      1      slice:2 subscript
BINARY_SUBSCR                     25     25+4   25+1   5+1    -      subscript
BREAK_LOOP                        80     -      -      -      -      break
BUILD_CONST_KEY_MAP               156    156    156    46     -      dict_of_keys:#
BUILD_LIST                        103    103    103    47     46     list:#
BUILD_MAP                         105    105    105    48     47     dict:#
BUILD_SLICE                       133    133    133    50     49     slice:#
BUILD_TUPLE                       102    102    102    52     51     tuple:#
CALL                              -      171+4  171+3  53+3   52+3   call:count
CALL_FUNCTION                     131    -      -      -      -      call:count
CALL_FUNCTION_KW                  141    -      -      -      -      keywords call:count
CALL_INTRINSIC_1                  -      -      173    55     53     *
CALL_KW                           -      -      -      57     55+3   keywords call:count
CALL_METHOD                       161    -      -      -      -      call:count
COMPARE_OP                        107    107+2  107+1  58+1   56+1   *
CONTAINS_OP                       118    118    118    59+1   57+1   contains:?
CONTINUE_LOOP                     119    -      -      -      -      continue:forward
COPY                              -      120    120    61     59     copy:#
COPY_FREE_VARS                    -      149    149    62     60     .
DELETE_FAST                       126    126    126    65     63     fast:local pop fast_and_clear:local pop
DUP_TOP                           4      -      -      -      -      copy:1
DUP_TOP_TWO                       5      -      -      -      -      copy:2 copy:2
END_FOR                           -      -      4      11     9      -
EXTENDED_ARG                      144    144    144    71     69     -
FOR_ITER                          93     93     93+1   72+1   70+1   for:forward
GET_ITER                          68     68     68     19     16     iterate
IMPORT_FROM                       109    109    109    74     72     import_from:name
IMPORT_NAME                       108    108    108    75     73     import:name
IS_OP                             117    117    117    76     74     is:?
JUMP_ABSOLUTE                     113    -      -      -      -      jump:forward
JUMP_BACKWARD                     -      140    140    77+1   75+1   jump:backward
JUMP_FORWARD                      110    110    110    79     77     jump:forward
JUMP_IF_FALSE_OR_POP              111    111    -      -      -      copy:1 jump_if:forward,False pop
JUMP_IF_TRUE_OR_POP               112    112    -      -      -      copy:1 jump_if:forward,True pop
KW_NAMES                          -      172    172    -      -      const:constant keywords
LIST_APPEND                       145    145    145    80     78     append:#
LIST_EXTEND                       162    162    162    81     79     extend:#
LOAD_ATTR                         106    106+4  106+9  82+9   80+9   *
LOAD_CLOSURE                      135    136    136    -      -      cell:cell
LOAD_CONST                        100    100    100    83     82     const:constant
LOAD_DEREF                        136    137    137    84     83     cell:cell content
LOAD_FAST                         124    124    124    85     84     fast:local
LOAD_FAST_AND_CLEAR               -      -      143    86     85     fast_and_clear:local
LOAD_FAST_BORROW                  -      -      -      -      86     fast:local
LOAD_FAST_BORROW_LOAD_FAST_BORROW -      -      -      -      87     fast:first fast:second
LOAD_FAST_CHECK                   -      -      127    87     88     fast:local
LOAD_FAST_LOAD_FAST               -      -      -      88     89     fast:first fast:second
LOAD_GLOBAL                       116    116+5  116+4  91+4   92+4   *
LOAD_METHOD                       160    160+10 -      -      -      *
LOAD_SMALL_INT                    -      -      -      -      94     const:#
MAKE_CELL                         -      135    135    94     97     make_cell:local
MAKE_FUNCTION                     132    132    132    26     23     *
NOP                               9      9      9      30     27     .
NOT_TAKEN                         -      -      -      -      28     .
POP_BLOCK                         87     -      -      -      -      pop_block
POP_ITER                          -      -      -      -      30     pop
POP_JUMP_BACKWARD_IF_FALSE        -      175    -      -      -      jump_if:backward,False
POP_JUMP_BACKWARD_IF_NONE         -      174    -      -      -      const is jump_if:backward,True
POP_JUMP_BACKWARD_IF_NOT_NONE     -      173    -      -      -      const is jump_if:backward,False
POP_JUMP_BACKWARD_IF_TRUE         -      176    -      -      -      jump_if:backward,True
POP_JUMP_FORWARD_IF_FALSE         -      114    -      -      -      jump_if:forward,False
POP_JUMP_FORWARD_IF_NONE          -      129    -      -      -      const is jump_if:forward,True
POP_JUMP_FORWARD_IF_NOT_NONE      -      128    -      -      -      const is jump_if:forward,False
POP_JUMP_FORWARD_IF_TRUE          -      115    -      -      -      jump_if:forward,True
POP_JUMP_IF_FALSE                 114    -      114    97+1   100+1  jump_if:forward,False
POP_JUMP_IF_NONE                  -      -      129    98+1   101+1  const is jump_if:forward,True
POP_JUMP_IF_NOT_NONE              -      -      128    99+1   102+1  const is jump_if:forward,False
POP_JUMP_IF_TRUE                  115    -      115    100+1  103+1  jump_if:forward,True
POP_TOP                           1      1      1      32     31     pop
PRECALL                           -      166+1  -      -      -      .
PUSH_NULL                         -      2      2      34     33     const:null
RAISE_VARARGS                     130    130    130    101    104    raise
RESUME                            -      151    151    149    128    .
RETURN_CONST                      -      -      121    103    -      const:constant return
RETURN_VALUE                      83     83     83     36     35     return
ROT_FOUR                          6      -      -      -      -      rotate:4
ROT_N                             99     -      -      -      -      rotate:#
ROT_THREE                         3      -      -      -      -      rotate:3
ROT_TWO                           2      -      -      -      -      rotate:2
SETUP_EXCEPT                      121    -      -      -      -      block
SETUP_FINALLY                     122    -      -      -      -      block
SETUP_LOOP                        120    -      -      -      -      block:forward,True
SET_FUNCTION_ATTRIBUTE            -      -      -      106    108    function_attribute:#
STORE_ATTR                        95     95+4   95+4   108+4  110+4  -
STORE_DEREF                       137    138    138    109    111    store_deref:cell
STORE_FAST                        125    125    125    110    112    store:local
STORE_FAST_LOAD_FAST              -      -      -      111    113    store:first fast:second
STORE_FAST_STORE_FAST             -      -      -      112    114    store:first store:second
STORE_GLOBAL                      97     97     97     113    115    -
STORE_SUBSCR                      60     60+1   60+1   39+1   38+1   -
SWAP                              -      99     99     115    117    swap:#
TO_BOOL                           -      -      -      40+3   39+3   to_bool
UNARY_NEGATIVE                    11     11     11     42     41     unary:-
UNARY_NOT                         12     12     12     43     42     not
UNARY_POSITIVE                    10     10     -      -      -      unary:+
UNPACK_SEQUENCE                   92     92+1   92+1   117+1  119+1  unpack:#
"""
"""The number of each opcode; after "+", the code units of its inline cache. A number that has another meaning in some
release up to 3.10 is reached there only after an opcode that is not in the table.

The last column has the instructions that an opcode becomes: none (``.``), those of ``_Decoder.expand`` (``*``), or
names with an argument, as ``_Decoder.find_argument`` reads it. An opcode with ``-`` is not supported."""


_OPERATORS: Final = {
    "ADD": ("+", 23, 55), "AND": ("&", 64, 77), "FLOOR_DIVIDE": ("//", 26, 28), "MODULO": ("%", 22, 59),
    "MULTIPLY": ("*", 20, 57), "OR": ("|", 66, 79), "POWER": ("**", 19, 67), "SUBTRACT": ("-", 24, 56),
    "TRUE_DIVIDE": ("/", 27, 29), "XOR": ("^", 65, 78),
}  # fmt: skip
"""The operators up to 3.10, each with the numbers of its opcodes ``BINARY_`` and ``INPLACE_``."""


class Opcode(Record):
    """A row of the table, in one release."""

    name: str
    caches: int = 0
    """Code units that follow it, all zero in a code object that was pickled."""
    parts: tuple[tuple[str, str], ...] = (("-", ""),)
    """The instructions of the last column, each with the text of its argument."""


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
            parts = (part.partition(":") for part in cells[5:])
            found[int(number)] = Opcode(name, int(caches or 0), tuple((op, text) for op, _, text in parts))
    if not release.has_caches:
        for name, (symbol, binary, in_place) in _OPERATORS.items():
            found[binary] = Opcode(f"BINARY_{name}", 0, (("binary", symbol),))
            found[in_place] = Opcode(f"INPLACE_{name}", 0, (("in_place", symbol),))
    return found


def list_releases(code: Code) -> tuple[Release, ...]:
    """Return the releases that may have compiled a code object, by what is not its bytecode."""
    if code.qualname is not None:
        return PYTHON_3_11, PYTHON_3_12, PYTHON_3_13, PYTHON_3_14
    if code.arguments == _ARGUMENTS_UNTIL_3_7:
        return PYTHON_3_7, PYTHON_3_5
    return (PYTHON_3_10 if sum(code.linetable[::2]) == len(code.bytecode) else PYTHON_3_9,)


_ARGUMENTS_UNTIL_3_7: Final = 15  # the number of arguments of a code object
_MOST_BYTES: Final = 1 << 14  # length of a bytecode. A line of Python is about 20 bytes, and schedules have a few lines
_MOST_ARGUMENTS: Final = 256  # of a call; in CPython 3.5, greater numbers count arguments with names
_HAVE_ARGUMENT: Final = 90  # the first opcode with an argument, in CPython 3.5


class Instruction(Record):
    """An operation of the machine (``Frame`` of :mod:`~sbformat.values.computed.machine`) and its argument."""

    op: str
    arg: Any = None
    target: int = -1
    """Where it jumps to: an offset of the bytecode, then a position of the list. -1 fails when it is reached."""


class _Raw(Record):
    """An opcode as it is in the bytecode."""

    opcode: Opcode
    arg: int
    start: int
    """Offset of its first byte, with the EXTENDED_ARG before it."""
    end: int
    """Offset after its caches."""


def decode_instructions(code: Code, release: Release) -> list[Instruction]:
    """Return the instructions of a code object as a release compiles it."""
    raws = list(_split(code.bytecode, release))
    if release.has_caches:
        # cells are made first, and then comes RESUME, whose number tells most releases apart
        first = next((raw for raw in raws if raw.opcode.name not in ("COPY_FREE_VARS", "MAKE_CELL")), None)
        if first is None or first.opcode.name != "RESUME" or first.arg:
            _refuse_release()
    decoder = _Decoder(code, release)
    positions: dict[int, int] = {}
    instructions: list[Instruction] = []
    for raw in raws:
        positions[raw.start] = len(instructions)
        try:
            instructions += decoder.translate(raw)
        except NotUnderstoodError as error:  # in code that may never be reached
            instructions.append(Instruction("unsupported", str(error)))
        except IndexError:
            reason = "its bytecode refers to something that its code object lacks"
            instructions.append(Instruction("unsupported", reason))
    return [made if made.target < 0 else made._replace(target=positions.get(made.target, -1)) for made in instructions]


def _split(bytecode: bytes, release: Release) -> Iterator[_Raw]:
    """Yield the opcodes, and check that caches are empty."""
    if not 0 < len(bytecode) <= _MOST_BYTES:
        refuse("its bytecode has an unusual length")
    opcodes = load_opcodes(release)
    is_old = release is PYTHON_3_5
    offset = start = extended = 0
    while offset < len(bytecode):
        number = bytecode[offset]
        opcode = opcodes.get(number) or Opcode(f"opcode {number}")
        size = 2 if not is_old else 3 if number >= _HAVE_ARGUMENT else 1
        low = bytecode[offset + 1 : offset + size]
        arg = extended << 8 * len(low) | int.from_bytes(low, "little")
        offset += size
        if opcode.name == "EXTENDED_ARG":
            extended = arg
            if extended >> (15 if is_old else 23):
                refuse("its bytecode has an argument of more than 31 bits")
            continue
        end = offset + 2 * opcode.caches
        if any(bytecode[offset:end]) or end > len(bytecode) or number == 0:
            _refuse_release()
        yield _Raw(opcode, arg, start, end)
        offset = start = end
        extended = 0


def _refuse_release() -> NoReturn:
    raise OtherReleaseError("its bytecode is not that of a known release of CPython")


class _Decoder:
    """Translates opcodes, with the tables of a code object and its numbering of variables."""

    def __init__(self, code: Code, release: Release) -> None:
        self.release = release
        own_cells = tuple(name for name in code.cellvars if name not in code.varnames)
        everything = code.varnames + own_cells + code.freevars
        if len(set(everything)) != len(everything) or len(set(code.cellvars)) != len(code.cellvars):
            refuse("two of its variables have one name")
        self.tables: dict[str, tuple[Any, ...]] = {
            "constant": code.constants,
            "name": code.names,
            "local": everything if release.has_caches else code.varnames,
            "cell": everything if release.has_caches else code.cellvars + code.freevars,
        }

    def translate(self, raw: _Raw) -> list[Instruction]:
        """Return the instructions that an opcode becomes."""
        name, _, parts = raw.opcode
        if parts[0][0] == "-" or (name == "SETUP_FINALLY" and self.release in (PYTHON_3_5, PYTHON_3_7)):
            return [Instruction("unsupported", name)]
        if parts[0][0] == "*":
            return self.expand(name, raw.arg)
        made = []
        for op, text in parts:
            kind, _, condition = text.partition(",")
            if op == ".":
                continue
            if kind in ("forward", "backward"):
                target = self.find_target(raw, is_backward=kind == "backward")
                made.append(Instruction(op, condition == "True", target))
            else:
                made.append(Instruction(op, self.find_argument(text, raw)))
        return made

    def find_argument(self, text: str, raw: _Raw) -> Any:
        """Return the argument that a text of the table describes: one of its own, or what the opcode's selects."""
        match text:
            case "#":
                return raw.arg
            case "?":
                return bool(raw.arg)
            case "null":
                return NULL
            case "count":
                if raw.arg >= _MOST_ARGUMENTS:
                    refuse("it calls with too many arguments, or by name")
                return raw.arg, "below" if raw.opcode.name == "CALL_METHOD" else self.release.null
            case "first":
                return self.tables["local"][raw.arg >> 4]
            case "second":
                return self.tables["local"][raw.arg & 15]
            case _ if text in self.tables:
                return self.tables[text][raw.arg]
        return int(text) if text.isdigit() else text or None

    def find_target(self, raw: _Raw, *, is_backward: bool) -> int:
        """Return the offset that an opcode jumps to: before 3.11, only forward jumps and loops count from its end."""
        distance = raw.arg * self.release.jumps
        if raw.opcode.name == "FOR_ITER":  # since 3.12 it skips END_FOR; before 3.14 the iterator is dropped, too
            distance += 2 * self.release.skipped
        elif not self.release.has_caches and raw.opcode.name not in ("JUMP_FORWARD", "SETUP_LOOP"):
            return distance
        return raw.end - distance if is_backward else raw.end + distance

    def expand(self, name: str, arg: int) -> list[Instruction]:
        """Return the instructions of an opcode whose argument consists of parts."""
        match name:
            case "BINARY_OP":
                symbol = _BINARY[arg]
                if symbol == "[]":
                    return [Instruction("subscript")]
                if not symbol:
                    refuse("its bytecode has an operator that is not arithmetic")
                return [Instruction("binary" if arg < _IN_PLACE else "in_place", symbol)]
            case "COMPARE_OP":
                return self.compare(arg)
            case "CALL_INTRINSIC_1":
                return [Instruction("unary", "+") if arg == _POSITIVE else Instruction("unsupported", name)]
            case "MAKE_FUNCTION":  # of its flags, 1 are defaults, 2 keyword defaults, 4 annotations, 8 the closure
                if self.release is PYTHON_3_5:
                    refuse("it makes a function in CPython 3.5")
                made = [] if self.release.has_caches else [Instruction("pop")]  # its qualified name
                flags = [Instruction("function_attribute", flag) for flag in (8, 4, 2, 1) if arg & flag]
                return [*made, Instruction("function"), *flags]
            case "LOAD_GLOBAL":
                has_flag = self.release.has_caches
            case "LOAD_ATTR":  # before 3.12, methods have an opcode of their own
                has_flag = self.release.compare_shift > 0
            case _:
                has_flag = False
        load = Instruction("global" if name == "LOAD_GLOBAL" else "attribute", self.tables["name"][arg >> has_flag])
        if name != "LOAD_METHOD" and not (has_flag and arg & 1):
            return [load]
        # a call without an object has NULL beside the callable; a method is bound here, so it has one, too
        null = [Instruction("const", NULL)]
        return [load, *null] if self.release.null == "above" else [load, *null, Instruction("swap", 2)]

    def compare(self, arg: int) -> list[Instruction]:
        """Return the instructions of COMPARE_OP."""
        shift = self.release.compare_shift
        index = arg >> shift
        symbol = _COMPARISONS[index]
        if index >= _ORDERINGS:
            if self.release.has_caches:
                refuse("its bytecode compares by an unknown operator")
            return [Instruction("contains" if symbol.endswith("in") else "is", "not" in symbol)]
        to_bool = [Instruction("to_bool")] if self.release.needs_bool and arg & _AS_BOOL else []
        return [Instruction("compare", symbol), *to_bool]


_AS_BOOL: Final = 16  # the bit of COMPARE_OP that makes a bool of the result (3.13)
_COMPARISONS: Final = ("<", "<=", "==", "!=", ">", ">=", "in", "not in", "is", "is not")
_ORDERINGS: Final = 6  # comparisons that are still COMPARE_OP since 3.9
_BINARY: Final = (*(2 * ("+", "&", "//", "", "", "*", "%", "|", "**", "", "-", "/", "^")), "[]")
_IN_PLACE: Final = 13  # the operators of BINARY_OP (3.11); those of ``+=`` follow, and in 3.14 the subscript
_POSITIVE: Final = 5  # the argument of CALL_INTRINSIC_1 for ``+x``
