"""What functions of users compute, found from bytecode of each release of CPython (VALUES.md 13.5).

The bytecode is what each release compiles; its source is beside it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from conformance.generators.carried import CLOUD, Opcodes, call, call_of, name_of, opcodes
from conformance.generators.scanning import document, pickled, scans
from conformance.generators.vectors import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.generators.vectors import Vector

KEY: Final = "learning_rate"
ARGUMENTS: Final = {"3.6": 15, "3.8": 16, "3.10": 16, "3.11": 18, "3.12": 18, "3.13": 18, "3.14": 18}
"""The number of arguments of the code object."""

LINEAR: Final = {
    "3.6": "7c00640114005300",
    "3.10": "7c00640114005300",
    "3.11": "97007c0064017a0500005300",  # and 3.12
    "3.13": "9500550053012d0500002400",
    "3.14": "8000560052012c05000000000000000000002300",
}
"""``lambda p: p * 0.25``, with the constants None and 0.25."""

FLOOR: Final = {
    "3.6": "74007c0064011400640283025300",
    "3.10": "74007c0064011400640283025300",
    "3.11": "97007401000000000000000000007c0064017a0500006402a6020000ab0200000000000000005300",
    "3.12": "9700740100000000000000007c0064017a0500006402ab020000000000005300",
    "3.13": "95005b010000000000000000550053012d050000530235020000000000002400",
    "3.14": "80005c010000000000000000560052012c0500000000000000000000520234020000000000002300",
}
"""``lambda p: max(p * 0.5, 0.125)``, with the constants None, 0.5 and 0.125."""

HOLD: Final = {
    "3.6": "64017c00180064026b04721064035300640464017c0018006405140018005300",
    "3.8": "64017c00180064026b04721064035300640464017c0018006405140018005300",
    "3.10": "64017c00180064026b04720864035300640464017c0018006405140018005300",
    "3.11": "970064017c007a0a000064026b0400000000720264035300640464017c007a0a000064057a0500007a0a00005300",
    "3.12": "970064017c007a0a000064026b44000072017903640464017c007a0a000064057a0500007a0a00005300",
    "3.13": "9500530155002d0a000053023a9400006101000067035304530155002d0a000053052d0500002d0a00002400",
    "3.14": (
        "80005e0156002c0a00000000000000000000520238940000640300001c005203230052045e0156002c0a0000000000000000000052052c05"
        "000000000000000000002c0a000000000000000000002300"
    ),
}
"""0.25 if 1 - p > 0.5, otherwise 1.0 - (1 - p) * 1.5; the constants are None, 1, 0.5, 0.25, 1.0 and 1.5."""

STEPS: Final = {
    "3.8": "7c0064016b04720c6401530064025300",
    "3.10": "7c0064016b0472066401530064025300",
    "3.11": "97007c0064016b0400000000720264016e0164025300",
    "3.12": "97007c0064016b44000072026401530064025300",
    "3.13": "9500550053013a940000610200005301240053022400",
    "3.14": "80005600520138940000640300001c005201230052022300",
}
"""``lambda p: 0.5 if p > 0.5 else 0.25``, with the constants None, 0.5 and 0.25."""


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from releases()
    yield from jumps()
    yield from not_understood()
    yield from kinds()
    yield from numbers()
    yield from shared_globals()
    yield from tables()


def schedule(
    release: str, bytecode: str, constants: tuple[Any, ...], names: tuple[str, ...] = (), table: bytes | None = None
) -> bytes:
    """The ``data`` of an archive whose learning rate is a function of one argument, ``p``."""
    function = make_function(release, bytecode, constants, names, table)
    return document(pickled(function.code), KEY)


def make_function(
    release: str,
    bytecode: str,
    constants: tuple[Any, ...],
    names: tuple[str, ...] = (),
    table: bytes | None = None,
    *,
    own: dict[str, Any] | None = None,
    module: Any = None,
) -> Opcodes:
    """A function of one argument, ``p``.

    :param own: the globals that are pickled with it
    :param module: the dict that they are added to
    """
    code = bytes.fromhex(bytecode)
    lines = (bytes((len(code), 0)) if release == "3.10" else b"") if table is None else table
    has_positions = ARGUMENTS[release] == 18
    values = (
        1, *([0] if ARGUMENTS[release] > 15 else []), 0, 1, 4, 3, code, constants, names, ("p",), "train.py", "f",
        *(["f"] if has_positions else []), 1, lines, *([b""] if has_positions else []), (), (),
    )  # fmt: skip
    made = call_of(call(CLOUD, "_builtin_type", "CodeType"), *values)
    state = {
        "globals": own or {}, "defaults": None, "dict": {}, "closure_values": None, "module": "__main__", "name": "f",
        "qualname": "f",
    }  # fmt: skip
    skeleton = call(CLOUD, "_make_skel_func", made, 0, module or {"__name__": "__main__"})
    return call(CLOUD, "_fill_function", skeleton, state)


def computes(rule: Rule, name: str, data: bytes, expected: dict[str, Any] | None) -> Vector:
    """A function, and what it computes."""
    return rule.accepts(f"schedule-{name}", data, {"schedule": expected}, "--schedule", KEY)


def releases() -> Iterator[Vector]:
    rule = Rule("13.5", "The release that compiled a code object is not stored in it.")
    for release, bytecode in LINEAR.items():
        data = schedule(release, bytecode, (None, 0.25))
        yield computes(rule, f"linear-{release}", data, {"linear": [0.25, 0.0, 1.0]})
    for release, bytecode in FLOOR.items():
        data = schedule(release, bytecode, (None, 0.5, 0.125), ("max",))
        yield computes(rule, f"floor-{release}", data, {"linear": [0.5, 0.125, 0.75]})
    data = schedule("3.13", LINEAR["3.13"].replace("9500", "9600", 1), (None, 0.25))
    yield computes(rule, "linear-resume-of-no-release", data, None)


def jumps() -> Iterator[Vector]:
    rule = Rule("13.5", "where a jump counts units of two bytes; otherwise 3.8 or 3.9, where it counts bytes")
    for release, bytecode in HOLD.items():
        data = schedule(release, bytecode, (None, 1, 0.5, 0.25, 1.0, 1.5))
        yield computes(rule, f"end-fraction-{release}", data, {"linear": [1.0, 0.25, 0.5]})
    for release, bytecode in STEPS.items():
        data = schedule(release, bytecode, (None, 0.5, 0.25))
        yield computes(rule, f"steps-{release}", data, {"computed": [0.5, 0.5, 0.25, 0.25, 0.25]})
    data = schedule("3.10", STEPS["3.8"], (None, 0.5, 0.25))
    yield computes(rule, "steps-of-3.8-with-a-table-of-3.10", data, None)
    rule = Rule("13.5", "A jump leads to the first byte of an instruction or of its EXTENDED_ARG")
    data = schedule("3.8", STEPS["3.8"].replace("720c", "720d"), (None, 0.5, 0.25))
    yield computes(rule, "jump-into-an-argument", data, None)
    data = schedule("3.8", "7c0064016b04720c6401530090006402 5300".replace(" ", ""), (None, 0.5, 0.25))
    yield computes(rule, "jump-to-extended-arg", data, {"computed": [0.5, 0.5, 0.25, 0.25, 0.25]})
    data = schedule("3.8", "7c0064016b04720e6401530090006402 5300".replace(" ", ""), (None, 0.5, 0.25))
    yield computes(rule, "jump-after-extended-arg", data, None)
    rule = Rule("13.5", "Inline caches are zero")
    data = schedule("3.12", LINEAR["3.11"].replace("7a050000", "7a050001"), (None, 0.25))
    yield computes(rule, "cache-that-is-not-zero", data, None)


def not_understood() -> Iterator[Vector]:
    rule = Rule("13.5", "it raises an error or has no finite value for some p in [0, 1]")
    yield computes(rule, "division-by-p", schedule("3.8", "64017c001b005300", (None, 1)), None)
    data = schedule("3.8", "64017c00640217001b005300", (None, 1.0, 1.0))  # 1.0 / (p + 1.0)
    yield computes(rule, "division", data, {"computed": [0.5, 1 / 1.75, 1 / 1.5, 0.8, 1.0]})
    rule = Rule("13.5", "A global name that the file does not contain is Python's own")
    data = schedule("3.8", FLOOR["3.6"], (None, 0.5, 0.125), ("print",))
    yield computes(rule, "print", data, None)
    rule = Rule("13.5", "integers of 256 bits")
    for name, power, expected in (("256-bits", 255, {"constant": 0.5}), ("257-bits", 256, None)):
        data = schedule("3.8", "640164021300010064035300", (None, 2, power, 0.5))  # 2 ** power; return 0.5
        yield computes(rule, f"power-of-{name}", data, expected)


def kinds() -> Iterator[Vector]:
    rule = Rule("13.5", "they have the same result up to the p at which the next one changes")
    data = schedule("3.8", "7c0064016b05720c6402530064035300", (None, 0, 0.5, 2.0))  # 0.5 if p >= 0 else 2.0
    yield computes(rule, "condition-that-always-holds", data, {"constant": 0.5})
    data = schedule("3.8", "7c0064016b04720c6402530064035300", (None, 0, 0.5, 2.0))  # 0.5 if p > 0 else 2.0
    yield computes(rule, "condition-that-holds-but-at-one-point", data, {"computed": [0.5, 0.5, 0.5, 0.5, 2.0]})
    rule = Rule("13.5", "what has a value of its own at p = 1 alone is neither")
    data = schedule("3.8", "7c0064016b02720c6402530064035300", (None, 1, 0.5, 0.25))  # 0.5 if p == 1 else 0.25
    yield computes(rule, "first-value-apart", data, {"computed": [0.5, 0.25, 0.25, 0.25, 0.25]})
    rule = Rule("13.5", "Differences of 1e-9 of the greatest value are rounding errors")
    for name, start, expected in (
        ("rounding-error", 0.5 + 1e-11, {"constant": 0.5 + 1e-11}),
        ("small-step", 0.5 + 1e-8, {"computed": [0.5 + 1e-8, 0.5 + 1e-8, 0.5, 0.5, 0.5]}),
    ):
        data = schedule("3.8", STEPS["3.8"].replace("6401530064025300", "6402530064035300"), (None, 0.5, start, 0.5))
        yield computes(rule, name, data, expected)


def scalar(code: str, items: bytes) -> Opcodes:
    """A number of numpy."""
    dtype = Opcodes(call("numpy", "dtype", code, 0, 1).code + opcodes((3, "<", None, None, None, -1, -1, 0)) + b"b")
    return call("numpy.core.multiarray", "scalar", dtype, items)


def numbers() -> Iterator[Vector]:
    rule = Rule("13.5", "integers of numpy have 8 to 64 bits and no error if they overflow")
    cube = "640164011400640114005300"  # n * n * n
    for name, value, expected in (("overflows", 1 << 31, 0), ("is-negative", 1 << 21, -(1 << 63)), ("fits", 3, 27)):
        number = scalar("i8", value.to_bytes(8, "little"))
        data = schedule("3.8", cube, (None, number))
        yield computes(rule, f"int64-that-{name}", data, {"constant": float(expected)})
    data = schedule("3.8", "640164011400640114005300", (None, scalar("i4", (1 << 11).to_bytes(4, "little"))))
    yield computes(rule, "int32-that-overflows", data, {"constant": 0.0})
    rule = Rule("13.5", "What numpy 1 and 2 compute in different types")
    half = scalar("f4", bytes.fromhex("0000003f"))
    yield computes(rule, "float32-times-p", schedule("3.8", LINEAR["3.6"], (None, half)), None)
    data = schedule("3.8", "640164011400 5300".replace(" ", ""), (None, half))
    yield computes(rule, "float32-times-float32", data, {"constant": 0.25})


def shared_globals() -> Iterator[Vector]:
    rule = Rule("13.5", "A global name to which another function of the pickle gives another value")
    reads, stored = "74005300", Opcodes(opcodes({"__name__": "__main__"}) + b"\x94")  # return rate
    for name, own, other, expected in (
        ("another-value", {"rate": 0.25}, {"rate": 0.5}, None),
        ("the-same-value", {"rate": 0.25}, {"rate": 0.25}, {"constant": 0.25}),
        ("another-name", {"rate": 0.25}, {"other": 0.5}, {"constant": 0.25}),
        ("no-value-here", {}, {"rate": 0.5}, None),
    ):
        first = make_function("3.8", reads, (None,), ("rate",), own=other, module=stored)
        second = make_function("3.8", reads, (None,), ("rate",), own=own, module=Opcodes(b"h\x00"))
        data = document(pickled(first.code + b"0" + second.code), KEY)  # the first is dropped
        yield computes(rule, f"globals-with-{name}", data, expected)


INTERP: Final = name_of("numpy", "interp")
POINTS: Final = (0, 0.5, 1.0)
VALUES: Final = (0.0, 0.25, 1.0)


def table(function: Any = INTERP, args: tuple[Any, ...] = (), attributes: Any = None, **keywords: Any) -> Opcodes:
    """``functools.partial(numpy.interp, xp=POINTS, fp=VALUES)``, with other arguments."""
    given = {name: part for name, part in {"xp": POINTS, "fp": VALUES, **keywords}.items() if part is not ...}
    state = opcodes((function, args, given, attributes))
    return Opcodes(call("functools", "partial", function).code + state + b"b")


def tables() -> Iterator[Vector]:
    rule = Rule("13.5", "It is known in this form alone: the function is `numpy.interp`")
    earlier = name_of("numpy.lib.function_base", "interp")
    for name, made in (("numpy", table()), ("numpy-1.15", table(earlier))):
        data = document(pickled(made.code), KEY)
        yield computes(rule, f"table-{name}", data, {"computed": [1.0, 0.625, 0.25, 0.125, 0.0]})
        yield scans(rule, f"table-{name}", data, "clean")
    rule = Rule("13.5", "no positional arguments, no attributes, and no keywords other than these two")
    for name, made in (
        ("positional", table(args=(0.5,))),
        ("attributes", table(attributes={"x": 1})),
        ("left", table(left=None)),
        ("period", table(period=1.0)),
        ("without-values", table(fp=...)),
    ):
        yield scans(
            rule, f"table-{name}", document(pickled(made.code), KEY), "dangerous", "called-name", "unchecked-arguments"
        )
    rule = Rule("13.5", "Both are lists, tuples, or arrays of one dimension, of the same length")
    for name, made in (
        ("fewer-values", table(fp=VALUES[:2])),
        ("no-points", table(xp=(), fp=())),
        ("equal-points", table(xp=(0.0, 0.5, 0.5))),
        ("infinite", table(fp=(0.0, 1.0, math.inf))),
        ("nan", table(xp=(0.0, math.nan, 1.0))),
        ("bool", table(xp=(Opcodes(b"\x89"), 1.0, 2.0))),
        ("text", table(fp="abc")),
    ):
        yield scans(
            rule, f"table-{name}", document(pickled(made.code), KEY), "dangerous", "called-name", "unchecked-arguments"
        )
    rule = Rule(
        "13.5", "Anywhere else, `numpy.interp` is an unknown name, also if the same pickle contains such a table."
    )
    stored = Opcodes(INTERP.code + b"\x94")  # MEMOIZE, then BINGET
    both = b"](" + stored.code + table(Opcodes(b"h\x00")).code + b"e"
    yield scans(rule, "table-and-its-name", document(pickled(both)), "dangerous", "called-name")
