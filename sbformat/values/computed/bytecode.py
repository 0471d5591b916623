"""Bytecode of any release as one list of instructions, which the machine executes (VALUES.md 13.5).

**What comes in.** A code object and a release, whose opcodes, caches and jumps differ from others.

**What goes out.** Instructions of one small language: operations on a stack, with names, constants and operators in
the place of numbers, and jumps to positions of the list. An opcode of two parts (LOAD_FAST_LOAD_FAST, RETURN_CONST)
becomes two instructions. An opcode that no schedule needs becomes ``unsupported``, which fails only if it is reached.

**Invariants.** Every jump leads to the first part of an opcode, never into an argument, an EXTENDED_ARG that belongs to
another opcode, or a cache. Every argument is within the table that it selects from.

Example, ``lambda p: p * 3e-4`` of CPython 3.13::

    95 00          RESUME           (checked, then dropped)
    55 00          LOAD_FAST 0      Instruction("fast", "p")
    53 01          LOAD_CONST 1     Instruction("const", 0.0003)
    2d 05 00 00    BINARY_OP 5      Instruction("binary", "*")
    24 00          RETURN_VALUE     Instruction("return", None)

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
from sbformat.known.code import Code
from sbformat.values.computed.arithmetic import NotUnderstoodError, OtherReleaseError, make_number, refuse
from sbformat.values.computed.library import convert

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


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
    """How many of ``float``, ``int`` and ``bool`` are added by ``sum`` with a compensation of errors."""

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
opcode                            <=3.10 3.11   3.12   3.13   3.14  instructions
BINARY_ADD                        23     -      -      -      -      binary:+
BINARY_AND                        64     -      -      -      -      binary:&
BINARY_FLOOR_DIVIDE               26     -      -      -      -      binary://
BINARY_MODULO                     22     -      -      -      -      binary:%
BINARY_MULTIPLY                   20     -      -      -      -      binary:*
BINARY_OP                         -      122+1  122+1  45+1   44+5   *
BINARY_OR                         66     -      -      -      -      binary:|
BINARY_POWER                      19     -      -      -      -      binary:**
BINARY_SLICE                      -      -      26     4      1      slice:2 subscript
BINARY_SUBSCR                     25     25+4   25+1   5+1    -      subscript
BINARY_SUBTRACT                   24     -      -      -      -      binary:-
BINARY_TRUE_DIVIDE                27     -      -      -      -      binary:/
BINARY_XOR                        65     -      -      -      -      binary:^
BREAK_LOOP                        80     -      -      -      -      break
BUILD_CONST_KEY_MAP               156    156    156    46     -      dict_of_keys:#
BUILD_LIST                        103    103    103    47     46     list:#
BUILD_MAP                         105    105    105    48     47     dict:#
BUILD_SLICE                       133    133    133    50     49     slice:#
BUILD_TUPLE                       102    102    102    52     51     tuple:#
CALL                              -      171+4  171+3  53+3   52+3   *
CALL_FUNCTION                     131    -      -      -      -      *
CALL_FUNCTION_KW                  141    -      -      -      -      *
CALL_INTRINSIC_1                  -      -      173    55     53     *
CALL_KW                           -      -      -      57     55+3   *
CALL_METHOD                       161    -      -      -      -      *
COMPARE_OP                        107    107+2  107+1  58+1   56+1   *
CONTAINS_OP                       118    118    118    59+1   57+1   contains:?
CONTINUE_LOOP                     119    -      -      -      -      continue:forward
COPY                              -      120    120    61     59     copy:#
COPY_FREE_VARS                    -      149    149    62     60     .
DELETE_FAST                       126    126    126    65     63     delete:local
DUP_TOP                           4      -      -      -      -      copy:1
DUP_TOP_TWO                       5      -      -      -      -      copy:2 copy:2
END_FOR                           -      -      4      11     9      -
EXTENDED_ARG                      144    144    144    71     69     -
FOR_ITER                          93     93     93+1   72+1   70+1   *
GET_ITER                          68     68     68     19     16     iterate
IMPORT_FROM                       109    109    109    74     72     import_from:name
IMPORT_NAME                       108    108    108    75     73     import:name
INPLACE_ADD                       55     -      -      -      -      in_place:+
INPLACE_AND                       77     -      -      -      -      in_place:&
INPLACE_FLOOR_DIVIDE              28     -      -      -      -      in_place://
INPLACE_MODULO                    59     -      -      -      -      in_place:%
INPLACE_MULTIPLY                  57     -      -      -      -      in_place:*
INPLACE_OR                        79     -      -      -      -      in_place:|
INPLACE_POWER                     67     -      -      -      -      in_place:**
INPLACE_SUBTRACT                  56     -      -      -      -      in_place:-
INPLACE_TRUE_DIVIDE               29     -      -      -      -      in_place:/
INPLACE_XOR                       78     -      -      -      -      in_place:^
IS_OP                             117    117    117    76     74     is:?
JUMP_ABSOLUTE                     113    -      -      -      -      jump:forward
JUMP_BACKWARD                     -      140    140    77+1   75+1   jump:backward
JUMP_FORWARD                      110    110    110    79     77     jump:forward
JUMP_IF_FALSE_OR_POP              111    111    -      -      -      jump_or_pop:forward,False
JUMP_IF_TRUE_OR_POP               112    112    -      -      -      jump_or_pop:forward,True
KW_NAMES                          -      172    172    -      -      *
LIST_APPEND                       145    145    145    80     78     append:#
LIST_EXTEND                       162    162    162    81     79     extend:#
LIST_TO_TUPLE                     82     82     -      -      -      to_tuple
LOAD_ATTR                         106    106+4  106+9  82+9   80+9   *
LOAD_CLOSURE                      135    136    136    -      -      cell:cell
LOAD_CONST                        100    100    100    83     82     const:constant
LOAD_DEREF                        136    137    137    84     83     deref:cell
LOAD_FAST                         124    124    124    85     84     fast:local
LOAD_FAST_AND_CLEAR               -      -      143    86     85     fast_and_clear:local
LOAD_FAST_BORROW                  -      -      -      -      86     fast:local
LOAD_FAST_BORROW_LOAD_FAST_BORROW -      -      -      -      87     fast:first fast:second
LOAD_FAST_CHECK                   -      -      127    87     88     fast:local
LOAD_FAST_LOAD_FAST               -      -      -      88     89     fast:first fast:second
LOAD_GLOBAL                       116    116+5  116+4  91+4   92+4   *
LOAD_METHOD                       160    160+10 -      -      -      *
LOAD_SMALL_INT                    -      -      -      -      94     const:integer
MAKE_CELL                         -      135    135    94     97     make_cell:local
MAKE_FUNCTION                     132    132    132    26     23     *
NOP                               9      9      9      30     27     .
NOT_TAKEN                         -      -      -      -      28     .
POP_BLOCK                         87     -      -      -      -      pop_block
POP_ITER                          -      -      -      -      30     pop
POP_JUMP_BACKWARD_IF_FALSE        -      175    -      -      -      jump_if:backward,False
POP_JUMP_BACKWARD_IF_NONE         -      174    -      -      -      jump_if_none:backward,True
POP_JUMP_BACKWARD_IF_NOT_NONE     -      173    -      -      -      jump_if_none:backward,False
POP_JUMP_BACKWARD_IF_TRUE         -      176    -      -      -      jump_if:backward,True
POP_JUMP_FORWARD_IF_FALSE         -      114    -      -      -      jump_if:forward,False
POP_JUMP_FORWARD_IF_NONE          -      129    -      -      -      jump_if_none:forward,True
POP_JUMP_FORWARD_IF_NOT_NONE      -      128    -      -      -      jump_if_none:forward,False
POP_JUMP_FORWARD_IF_TRUE          -      115    -      -      -      jump_if:forward,True
POP_JUMP_IF_FALSE                 114    -      114    97+1   100+1  jump_if:forward,False
POP_JUMP_IF_NONE                  -      -      129    98+1   101+1  jump_if_none:forward,True
POP_JUMP_IF_NOT_NONE              -      -      128    99+1   102+1  jump_if_none:forward,False
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
SETUP_EXCEPT                      121    -      -      -      -      setup_except
SETUP_FINALLY                     122    -      -      -      -      setup_finally
SETUP_LOOP                        120    -      -      -      -      setup_loop:forward
SET_FUNCTION_ATTRIBUTE            -      -      -      106    108    function_attribute:#
STORE_ATTR                        95     95+4   95+4   108+4  110+4  *
STORE_DEREF                       137    138    138    109    111    store_deref:cell
STORE_FAST                        125    125    125    110    112    store:local
STORE_FAST_LOAD_FAST              -      -      -      111    113    store:first fast:second
STORE_FAST_STORE_FAST             -      -      -      112    114    store:first store:second
STORE_GLOBAL                      97     97     97     113    115    *
STORE_SUBSCR                      60     60+1   60+1   39+1   38+1   *
SWAP                              -      99     99     115    117    swap:#
TO_BOOL                           -      -      -      40+3   39+3   to_bool
UNARY_NEGATIVE                    11     11     11     42     41     unary:-
UNARY_NOT                         12     12     12     43     42     not
UNARY_POSITIVE                    10     10     -      -      -      unary:+
UNPACK_SEQUENCE                   92     92+1   92+1   117+1  119+1  unpack:#
"""
"""The number of each opcode; after "+", the code units of its inline cache. A number that has another meaning in some
release up to 3.10 is reached there only after an opcode that is not in the table.

The last column has the instructions that an opcode becomes: none (``.``), those of a rule of ``_RULES`` (``*``), or
names with an argument, which is a constant or what ``_ARGUMENTS`` finds. That of ``-`` is not supported."""


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
"""The number of arguments of a code object."""


_MOST_BYTES: Final = 1 << 14
"""Length of a bytecode. A line of Python is about 20 bytes, and schedules have a few lines."""


_MOST_ARGUMENTS: Final = 256
"""Of a call; in CPython 3.5, greater numbers count arguments with names."""
_HAVE_ARGUMENT: Final = 90
"""The first opcode with an argument, in CPython 3.5."""


class Instruction(Record):
    """An operation of the machine (``Frame`` of :mod:`~sbformat.values.computed.machine`) and its argument."""

    op: str
    arg: Any


class _Raw(Record):
    """An opcode as it is in the bytecode."""

    name: str
    arg: int
    start: int
    """Offset of its first byte, with the EXTENDED_ARG before it."""
    end: int
    """Offset after its caches."""


def decode_instructions(code: Code, release: Release) -> list[Instruction]:
    """Return the instructions of a code object as a release compiles it."""
    raws = list(_split(code.bytecode, release))
    if release.has_caches:
        _check_prologue(raws)
    context = _Context(code, release)
    parts: list[list[Instruction]] = []
    position = 0
    for raw in raws:
        context.positions[raw.start] = position
        made = _translate(raw, context)
        parts.append(made)
        position += len(made)
    instructions = [instruction for part in parts for instruction in part]
    return [
        Instruction(made.op, context.resolve(made.arg)) if isinstance(made.arg, Target) else made
        for made in instructions
    ]


def _split(bytecode: bytes, release: Release) -> Any:
    """Yield the opcodes, and check that caches are empty."""
    if not 0 < len(bytecode) <= _MOST_BYTES:
        refuse("its bytecode has an unusual length")
    opcodes = load_opcodes(release)
    is_old = release is PYTHON_3_5
    offset = start = extended = 0
    while offset < len(bytecode):
        number = bytecode[offset]
        opcode = opcodes.get(number) or Opcode(f"opcode {number}", 0)
        size = 2 if not is_old else 3 if number >= _HAVE_ARGUMENT else 1
        low = bytecode[offset + 1 : offset + size]
        arg = extended << 8 * len(low) | int.from_bytes(low, "little")
        offset += size
        if opcode.name == EXTENDED_ARG:
            extended = arg
            if extended >> (15 if is_old else 23):
                refuse("its bytecode has an argument of more than 31 bits")
            continue
        end = offset + 2 * opcode.caches
        if any(bytecode[offset:end]) or end > len(bytecode) or number == 0:
            _refuse_release()
        yield _Raw(opcode.name, arg, start, end)
        offset = start = end
        extended = 0


def _refuse_release() -> NoReturn:
    message = "its bytecode is not that of a known release of CPython"
    raise OtherReleaseError(message)


def _check_prologue(raws: list[_Raw]) -> None:
    """Check that cells are made, and then RESUME, whose number tells most releases apart."""
    for raw in raws:
        if raw.name not in ("COPY_FREE_VARS", "MAKE_CELL"):
            if raw.name != "RESUME" or raw.arg:
                break
            return
    _refuse_release()


class Target(Record):
    """A jump, before the positions of all instructions are known."""

    offset: int
    with_arg: Any = None
    """An argument beside the jump."""


class _Context:
    """What the translation of opcodes needs: the tables of a code object, and its numbering of variables."""

    def __init__(self, code: Code, release: Release) -> None:
        self.code = code
        self.release = release
        self.positions: dict[int, int] = {}
        self.constants: dict[int, Any] = {}
        own_cells = tuple(name for name in code.cellvars if name not in code.varnames)
        everything = code.varnames + own_cells + code.freevars
        if len(set(everything)) != len(everything) or len(set(code.cellvars)) != len(code.cellvars):
            refuse("two of its variables have one name")
        self.locals = everything if release.has_caches else code.varnames
        self.cells = everything if release.has_caches else code.cellvars + code.freevars

    def pick(self, table: tuple[Any, ...], index: int) -> Any:
        """Return an item of a table of the code object."""
        if index >= len(table):
            refuse("its bytecode refers to something that its code object lacks")
        return table[index]

    def constant(self, index: int) -> Any:
        """Return a constant as the machine uses it."""
        if index not in self.constants:
            value = self.pick(self.code.constants, index)
            self.constants[index] = value if isinstance(value, Code) else convert(value)
        return self.constants[index]

    def resolve(self, target: Target) -> Any:
        """Return the position that a jump leads to; -1 fails when it is reached."""
        position = self.positions.get(target.offset, -1)
        return position if target.with_arg is None else (position, target.with_arg)


# -- translation --------------------------------------------------------------------------------------


@cache
def _load_translations() -> Mapping[str, tuple[tuple[str, str], ...]]:
    """Return the instructions of each opcode that has no rule, each with the text of its argument."""
    rows = (row.split() for row in _TABLE.splitlines()[2:])
    return {
        name: tuple((op, arg) for op, _, arg in (part.partition(":") for part in parts if part != "."))
        for name, parts in ((row[0], row[6:]) for row in rows if row[6] not in ("*", "-"))
    }


def _translate(raw: _Raw, context: _Context) -> list[Instruction]:
    try:
        if raw.name in _RULES:
            made = _RULES[raw.name](raw, context)
            return made if isinstance(made, list) else [made]
        translations = _load_translations().get(raw.name)
        if translations is None:
            return [Instruction("unsupported", raw.name)]
        return [Instruction(op, _find_argument(arg, raw, context)) for op, arg in translations]
    except NotUnderstoodError as error:  # in code that may never be reached
        return [Instruction("unsupported", str(error))]


def _find_argument(text: str, raw: _Raw, context: _Context) -> Any:
    """Return the argument that a text of the table stands for; with a comma, a jump and the condition for it."""
    kind, _, condition = text.partition(",")
    if kind in _ARGUMENTS:
        found = _ARGUMENTS[kind](raw, context)
        return Target(found.offset, condition == "True") if condition else found
    return int(text) if text.isdigit() else text or None


NULL: Final = type("Null", (), {"__repr__": lambda _: "NULL"})()
"""What CPython pushes in the place of an object whose method is called."""


def _jump(raw: _Raw, context: _Context, *, backward: bool = False) -> Target:
    """Return where an opcode jumps to: an absolute position before 3.11, except for forward jumps and loops."""
    distance = raw.arg * context.release.jumps
    if context.release.has_caches or raw.name in ("JUMP_FORWARD", "FOR_ITER", "SETUP_LOOP"):
        return Target(raw.end - distance if backward else raw.end + distance)
    return Target(distance)


_ARGUMENTS: Final[Mapping[str, Callable[[_Raw, _Context], Any]]] = {
    "#": lambda raw, _: raw.arg,
    "?": lambda raw, _: bool(raw.arg),
    "integer": lambda raw, _: make_number(raw.arg),
    "null": lambda *_: NULL,
    "constant": lambda raw, context: context.constant(raw.arg),
    "name": lambda raw, context: context.pick(context.code.names, raw.arg),
    "local": lambda raw, context: context.pick(context.locals, raw.arg),
    "first": lambda raw, context: context.pick(context.locals, raw.arg >> 4),
    "second": lambda raw, context: context.pick(context.locals, raw.arg & 15),
    "cell": lambda raw, context: context.pick(context.cells, raw.arg),
    "forward": _jump,
    "backward": lambda raw, context: _jump(raw, context, backward=True),
}


def _with_null(instruction: Instruction, context: _Context) -> list[Instruction]:
    """Return a load of a callable, with the NULL that the release pushes beside it."""
    null = Instruction("const", NULL)
    return [null, instruction] if context.release.null == "below" else [instruction, null]


def _load_global(raw: _Raw, context: _Context) -> list[Instruction]:
    if not context.release.has_caches:
        return [Instruction("global", context.pick(context.code.names, raw.arg))]
    load = Instruction("global", context.pick(context.code.names, raw.arg >> 1))
    return _with_null(load, context) if raw.arg & 1 else [load]


def _load_attribute(raw: _Raw, context: _Context) -> list[Instruction]:
    if context.release.compare_shift == 0:  # before 3.12, methods have an opcode of their own
        return [Instruction("attribute", context.pick(context.code.names, raw.arg))]
    load = Instruction("attribute", context.pick(context.code.names, raw.arg >> 1))
    return _add_null_to_method(load, context) if raw.arg & 1 else [load]


def _load_method(raw: _Raw, context: _Context) -> list[Instruction]:
    load = Instruction("attribute", context.pick(context.code.names, raw.arg))
    return _add_null_to_method(load, context)


def _add_null_to_method(load: Instruction, context: _Context) -> list[Instruction]:
    """Return the load of a method: the object is on the stack already, so NULL goes below it by an exchange."""
    null = Instruction("const", NULL)
    return [load, null] if context.release.null == "above" else [load, null, Instruction("swap", 2)]


def _compare(raw: _Raw, context: _Context) -> Instruction | list[Instruction]:
    shift = context.release.compare_shift
    index = raw.arg >> shift
    if index >= len(_COMPARISONS) or (not shift and context.release.has_caches and index >= _ORDERINGS):
        refuse("its bytecode compares by an unknown operator")
    symbol = _COMPARISONS[index]
    if symbol in ("in", "not in"):
        return Instruction("contains", symbol == "not in")
    if symbol in ("is", "is not"):
        return Instruction("is", symbol == "is not")
    compare = Instruction("compare", symbol)
    return [compare, Instruction("to_bool", None)] if context.release.needs_bool and raw.arg & _AS_BOOL else compare


_AS_BOOL: Final = 16
"""The bit of COMPARE_OP that makes a bool of the result (3.13)."""
_COMPARISONS: Final = ("<", "<=", "==", "!=", ">", ">=", "in", "not in", "is", "is not")
_ORDERINGS: Final = 6
"""Comparisons that are still COMPARE_OP since 3.9."""


def _binary(raw: _Raw, _: _Context) -> Instruction:
    symbol = _BINARY[raw.arg] if raw.arg < len(_BINARY) else ""
    if symbol == "[]":
        return Instruction("subscript", None)
    if not symbol:
        refuse("its bytecode has an operator that is not arithmetic")
    return Instruction("binary" if raw.arg < _IN_PLACE else "in_place", symbol)


_BINARY: Final = (*(2 * ("+", "&", "//", "", "", "*", "%", "|", "**", "", "-", "/", "^")), "[]")
_IN_PLACE: Final = 13
"""The operators of BINARY_OP (3.11); those of ``+=`` follow, and in 3.14 the subscript."""


def _call(raw: _Raw, context: _Context) -> Instruction:
    if raw.arg >= _MOST_ARGUMENTS:
        refuse("it calls with too many arguments, or by name")
    return Instruction("call", (raw.arg, context.release.null))


def _keyword_names(raw: _Raw, context: _Context) -> list[Instruction]:
    names = context.pick(context.code.constants, raw.arg)
    if type(names) is not tuple or any(type(name) is not str for name in names):
        refuse("its bytecode has invalid names of arguments")
    return [Instruction("keywords", names)]


def _intrinsic(raw: _Raw, _: _Context) -> Instruction:
    if raw.arg not in (5, 6):
        refuse("its bytecode uses an internal function of CPython")
    return Instruction("unary", "+") if raw.arg == 5 else Instruction("to_tuple", None)


def _for(raw: _Raw, context: _Context) -> Instruction:
    """FOR_ITER: since 3.12 it skips END_FOR; before 3.14 the iterator is dropped, too."""
    target = raw.end + raw.arg * context.release.jumps + 2 * context.release.skipped
    return Instruction("for", Target(target, "keep" if context.release is PYTHON_3_14 else "pop"))


def _make_function(raw: _Raw, context: _Context) -> Instruction:
    if context.release is PYTHON_3_5:
        refuse("it makes a function in CPython 3.5")
    return Instruction("function", (raw.arg, not context.release.has_caches))


_RULES: Final[Mapping[str, Callable[[_Raw, _Context], Any]]] = {
    "BINARY_OP": _binary,
    "CALL": _call,
    "CALL_FUNCTION": _call,
    "CALL_FUNCTION_KW": lambda raw, _: Instruction("call_keywords", (raw.arg, "")),
    "CALL_INTRINSIC_1": _intrinsic,
    "CALL_KW": lambda raw, context: Instruction("call_keywords", (raw.arg, context.release.null)),
    "CALL_METHOD": lambda raw, _: Instruction("call", (raw.arg, "below")),
    "COMPARE_OP": _compare,
    "FOR_ITER": _for,
    "KW_NAMES": _keyword_names,
    "LOAD_ATTR": _load_attribute,
    "LOAD_GLOBAL": _load_global,
    "LOAD_METHOD": _load_method,
    "MAKE_FUNCTION": _make_function,
    "STORE_ATTR": lambda *_: Instruction("unsupported", "it changes an attribute"),
    "STORE_GLOBAL": lambda *_: Instruction("unsupported", "it changes a global variable"),
    "STORE_SUBSCR": lambda *_: Instruction("unsupported", "it changes a list or dict"),
}
