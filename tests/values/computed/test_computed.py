"""Schedules that are understood from their bytecode: against CPython's own results, and what is refused."""

from __future__ import annotations

import base64
import gzip
import json
import math
import opcode
import random
import struct
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import pytest

import sbformat
from sbformat.known.types import ConstantSchedule, FloatSchedule, Function, LinearSchedule
from sbformat.limits import Budget
from sbformat.values import decode_blob
from sbformat.values.computed import ComputedSchedule, examine, understand
from sbformat.values.computed.arithmetic import NotUnderstoodError, Number, combine
from sbformat.values.computed.bytecode import (
    PYTHON_3_9,
    PYTHON_3_10,
    PYTHON_3_11,
    PYTHON_3_12,
    PYTHON_3_13,
    PYTHON_3_14,
    load_opcodes,
)
from tests.helpers.build_blobs import call, dtype, understood
from tests.helpers.count_work import count_calls
from tests.helpers.many_cases import check_each
from tests.helpers.sampling import with_exhaustive
from tests.values.computed.pickled_schedules import MISLEADING, MISLEADING_RELEASES, RELEASES, load

RANDOM: Final = Path(__file__).parent / "random"
KINDS: Final = {
    ConstantSchedule: "constant",
    LinearSchedule: "linear",
    ComputedSchedule: "computed",
    type(None): "none",
}


def value_at(schedule: Any, progress: float) -> float:
    """What SB3 computes for a schedule."""
    if isinstance(schedule, ConstantSchedule):
        return schedule.value
    if isinstance(schedule, ComputedSchedule):
        return schedule.sample(progress)
    if 1 - progress > schedule.end_fraction:
        return schedule.end
    return schedule.start + (1 - progress) * (schedule.end - schedule.start) / schedule.end_fraction


@cache
def understand_one(release: str, name: str) -> Any:
    """What a function of a release is understood as."""
    return understand(load(release)[name].decode())


@cache
def choose_names(release: str, step: int) -> list[str]:
    """One in so many functions of a release; each function is chosen for one in so many releases."""
    names = [name for name in load(release) if (crc32(name.encode()) + RELEASES.index(release)) % step == 0]
    assert len(names) > 5
    return names


steps = pytest.mark.parametrize("step", with_exhaustive([7], [1]))


@steps
@pytest.mark.parametrize("release", RELEASES)
def test_each_schedule_is_understood_as_its_cpython_computes_it(release: str, step: int) -> None:
    for name in choose_names(release, step):
        pickled, schedule = load(release)[name], understand_one(release, name)
        assert KINDS[type(schedule)] == pickled.kind, (name, examine(pickled.decode()))
        for at, value in enumerate(pickled.values or ()):
            assert math.isclose(value_at(schedule, at / 50), value, rel_tol=1e-12, abs_tol=1e-18), (name, at)


@check_each("release", RELEASES)
def test_enough_schedules_are_pickled_of_each_kind(release: str) -> None:
    kinds = [pickled.kind for pickled in load(release).values()]
    assert len(kinds) >= 110
    assert all(kinds.count(kind) >= 10 for kind in KINDS.values())


@steps
def test_a_schedule_means_the_same_in_every_release(step: int) -> None:
    for name in load("3.14"):
        expected = understand_one("3.14", name)
        values = [expected.sample(at / 50) for at in range(51)] if isinstance(expected, ComputedSchedule) else []
        for release in (release for release in RELEASES if name in choose_names(release, step)):
            found = understand_one(release, name)
            if isinstance(expected, ComputedSchedule) and isinstance(found, ComputedSchedule):
                others = [found.sample(at / 50) for at in range(51)]
                assert all(map(math.isclose, others, values)), (name, release)  # sum of floats is another since 3.12
            else:
                assert found == expected, (name, release)


SCHEDULES: Final = {
    "lambda": LinearSchedule(0.0003, 0.0, 1.0),
    "two_values": LinearSchedule(0.00025, 2.5e-06, 1.0),
    "linear_fn": LinearSchedule(1.0, 0.05, 0.1),
    "floor_max": LinearSchedule(0.0003, 1e-05, 1 - 1e-05 / 0.0003),
    "constant_integer": ConstantSchedule(1),
    "constant_closure": ConstantSchedule(0.2),
    "object_of_subclass": LinearSchedule(0.001, 0.0001, 0.9),
}


@check_each("name", SCHEDULES)
def test_the_numbers_of_a_schedule(name: str) -> None:
    assert understand(load("3.11")[name].decode()) == SCHEDULES[name]


REASONS: Final = {
    "prints": "it uses print, which the file does not contain",
    "writes_a_global": "it changes a global variable",
    "counts": "it changes a variable that it shares with others",
    "divides_by_zero": "it has no finite value at progress 0",
    "infinite_power": "it computes with an integer that is too long",
    "raises": "it raises an error for some progress",
    "returns_none": "it returns None",
    "generator": "it is a generator",
    "random": "it uses numpy.random, which is not arithmetic that is known here",
    "two_arguments": "it needs more arguments than the remaining progress",
}


@check_each("release", RELEASES)
def test_why_a_function_is_not_understood(release: str) -> None:
    assert {name: examine(load(release)[name].decode()) for name in REASONS} == {
        name: (None, reason) for name, reason in REASONS.items()
    }


def test_a_function_that_is_understood_is_still_code_for_a_scan() -> None:
    for name in ("lambda", "constant_closure", "square"):
        assert sbformat.scan(load("3.11")[name].data).verdict == "code"
        assert load("3.11")[name].decode().schedule is None


def test_a_wrapper_of_sb3_is_looked_into() -> None:
    function = load("3.11")["lambda"].decode()
    assert understand(FloatSchedule(FloatSchedule(function))) == LinearSchedule(0.0003, 0.0, 1.0)
    assert understand(FloatSchedule(ConstantSchedule(0.5))) == ConstantSchedule(0.5)


def make_scalar(code: str, content: bytes) -> Any:
    return understood(call("numpy.core.multiarray", "scalar", dtype(code), content))


SCALARS: Final = {
    "f8": (struct.pack("<d", 0.5), LinearSchedule(0.5, 0.0, 1.0)),
    "i8": (struct.pack("<q", 2), LinearSchedule(2.0, 0.0, 1.0)),
    "i4": (struct.pack("<i", 2), LinearSchedule(2.0, 0.0, 1.0)),
    "u1": (struct.pack("<B", 2), LinearSchedule(2.0, 0.0, 1.0)),
    "f4": (struct.pack("<f", 0.5), None),
    "f2": (struct.pack("<e", 0.5), None),
}


@check_each("code", SCALARS)
def test_scalars_of_numpy_times_a_float(code: str) -> None:
    """float32 and float16 times a number of Python is float64 in numpy 1, and not in numpy 2."""
    function = load("3.11")["closure"].decode()
    content, expected = SCALARS[code]
    assert (
        understand(Function(**{**vars(function), "closure": {"initial_value": make_scalar(code, content)}})) == expected
    )


def test_integers_of_numpy_have_64_bits() -> None:
    """``n * n * n`` of int64 2 ** 31 is 0."""
    function = load("3.11")["closure"].decode()
    cube = bytes.fromhex("9501 9700 8901 8901 7a050000 8901 7a050000 5300".replace(" ", ""))
    code = function.code._replace(bytecode=cube)
    for content, value in ((2**31, 0), (3, 27), (-(2**21), -(2**63))):
        scalar = make_scalar("i8", struct.pack("<q", content))
        changed = Function(**{**vars(function), "code": code, "closure": {"initial_value": scalar}})
        assert understand(changed) == ConstantSchedule(float(value)), content


@check_each("value", [None, 1, "p", [], {}, object(), math.nan])
def test_other_values_are_not_schedules(value: object) -> None:
    assert examine(value).schedule is None
    assert examine(value).reason in (
        "it is not a function whose bytecode is in the file",
        "it uses a value that is not known here",
        "it computes with NaN",
    )


def test_a_computed_schedule_has_no_value_where_python_fails() -> None:
    schedule = understand(load("3.11")["square_root"].decode())
    assert isinstance(schedule, ComputedSchedule)
    assert math.isnan(schedule.sample(-1.0))
    assert schedule.sample(0.25) == 0.00015


# -- the table of opcodes -----------------------------------------------------------------------------


@pytest.mark.skipif(sys.version_info >= (3, 15), reason="of releases up to 3.14")
def test_the_table_has_the_numbers_of_this_cpython() -> None:
    by_release = {10: PYTHON_3_10, 11: PYTHON_3_11, 12: PYTHON_3_12, 13: PYTHON_3_13, 14: PYTHON_3_14}
    release = by_release[sys.version_info[1]]
    caches: Any = getattr(opcode, "_inline_cache_entries", {})
    for number, row in load_opcodes(release).items():
        if row.name in opcode.opmap:
            assert opcode.opmap[row.name] == number
            found = caches.get(row.name, 0) if isinstance(caches, dict) else caches[number]
            assert found == row.caches
        else:
            assert release is PYTHON_3_10, row.name  # whose column is also that of older releases


def test_a_release_has_each_number_once() -> None:
    for release in (PYTHON_3_9, PYTHON_3_11, PYTHON_3_12, PYTHON_3_13, PYTHON_3_14):
        assert len({row.name for row in load_opcodes(release).values()}) == len(load_opcodes(release))
    assert len(load_opcodes(PYTHON_3_9)) > 70


# -- hostile bytecode ---------------------------------------------------------------------------------


def change_code(function: Function, **parts: Any) -> Function:
    code = function.code
    assert code is not None
    return Function(**{**vars(function), "code": code._replace(**parts)})


@pytest.mark.parametrize("amount", with_exhaustive([(1, 3)], [(1, 1), (8, 1)]), ids=str)
@pytest.mark.parametrize("release", RELEASES)
def test_any_bytecode_gives_a_schedule_or_a_reason(release: str, amount: tuple[int, int]) -> None:
    """So many changes of each function, or of one in so many."""
    changes, step = amount
    chance = random.Random(release)  # noqa: S311 -- the same in every run
    for name in choose_names(release, step):
        function = load(release)[name].decode()
        if not isinstance(function, Function) or function.code is None:
            continue
        for _ in range(changes):
            bytecode = bytearray(function.code.bytecode)
            for _ in range(chance.choice((1, 1, 2, 5))):
                bytecode[chance.randrange(len(bytecode))] = chance.choice((chance.randrange(256), 0, 1, 255, 144, 71))
            cut = chance.choice((len(bytecode), len(bytecode), chance.randrange(len(bytecode) + 1)))
            schedule, reason = examine(change_code(function, bytecode=bytes(bytecode[:cut])))
            assert (schedule is None) is bool(reason)


HOSTILE: Final = {
    "no bytecode": b"",
    "an odd number of bytes": bytes.fromhex("7c00640014005300 00"),
    "an empty stack": bytes.fromhex("14005300"),
    "no return": bytes.fromhex("7c00"),
    "a constant that is not there": bytes.fromhex("64ff5300"),
    "a variable that is not there": bytes.fromhex("7cff5300"),
    "a jump into an argument": bytes.fromhex("6e017c005300"),
    "a jump after the end": bytes.fromhex("6e7f7c005300"),
    "a jump to itself": bytes.fromhex("7100"),
    "an argument of more than 31 bits": bytes.fromhex("90ff90ff90ff90ff64005300"),
    "arguments that are never used": bytes.fromhex("900190019001"),
    "a stack that grows": bytes.fromhex("7c007100"),
    "an end of a block that has no start": bytes.fromhex("57007c005300"),
    "a list that grows": bytes.fromhex("67007c0091017102"),
}


@check_each("what", HOSTILE)
def test_hostile_bytecode_is_refused(what: str) -> None:
    function = change_code(load("3.8")["lambda"].decode(), bytecode=HOSTILE[what], linetable=b"")
    schedule, reason = examine(function)
    assert schedule is None
    assert reason.isprintable()


def test_the_argument_of_a_jump_is_counted_as_its_release_does() -> None:
    """3.9 counts bytes, 3.10 two bytes: only its line table says which of the two compiled a function."""
    bytecode = bytes.fromhex("6e02 6401 5300 7c00 5300".replace(" ", ""))  # JUMP_FORWARD 2 over LOAD_CONST, or more
    function = change_code(load("3.10")["lambda"].decode(), bytecode=bytecode, linetable=b"\x0a\x01")
    assert understand(function) == LinearSchedule(1.0, 0.0, 1.0)
    older = change_code(function, linetable=b"\x00\x01")
    assert understand(older) is None  # returns what is on an empty stack


def test_bytecode_of_cpython_3_5_has_opcodes_of_one_and_three_bytes() -> None:
    function = load("3.6")["lambda"].decode()
    bytecode = bytes.fromhex("7c0000 640100 14 53")  # LOAD_FAST, LOAD_CONST, BINARY_MULTIPLY, RETURN_VALUE
    assert understand(change_code(function, bytecode=bytecode)) == LinearSchedule(0.0003, 0.0, 1.0)
    constant = load("3.6")["constant_closure"].decode()
    assert understand(change_code(constant, bytecode=bytes.fromhex("880000 53"))) == ConstantSchedule(0.2)
    assert understand(change_code(function, bytecode=bytecode[:-1])) is None


def make_product(times: int) -> Function:
    """``p * p * ...``."""
    bytecode = bytes.fromhex("7c00") + bytes.fromhex("7c001400") * times + bytes.fromhex("5300")
    return change_code(load("3.8")["lambda"].decode(), bytecode=bytecode, linetable=b"")


def test_the_number_of_instructions_is_bounded() -> None:
    assert isinstance(understand(make_product(60)), ComputedSchedule)
    for times, reason in ((200, "it needs too many steps"), (4000, "it needs more than 4000 steps")):
        with count_calls() as calls:
            assert reason in examine(make_product(times)).reason
        assert calls.number < 500_000


# -- schedules that are easily misread ----------------------------------------------------------------


@pytest.mark.parametrize("step", with_exhaustive([3], [1]))
@check_each("release", MISLEADING_RELEASES)
def test_no_schedule_is_taken_for_another(release: str, step: int) -> None:
    for name, pickled in load(release, MISLEADING).items():
        if (crc32(name.encode()) + MISLEADING_RELEASES.index(release)) % step:
            continue
        schedule = understand(pickled.decode())
        assert pickled.kind == "any" or KINDS[type(schedule)] == pickled.kind, (name, examine(pickled.decode()))
        for at, value in enumerate((schedule and pickled.values) or ()):
            assert math.isclose(value_at(schedule, at / 50), value, rel_tol=1e-12, abs_tol=1e-18), (name, at)


def test_work_for_a_condition_of_many_pieces_is_bounded() -> None:
    function = load("3.13", MISLEADING)["many_decisions"].decode()
    with count_calls() as calls:
        assert understand(function) is None
    assert calls.number < 500_000


def test_equality_that_rounding_decides_is_not_exact() -> None:
    """``x == x`` is true whatever the rounding; of two ways to compute one line, it is different for each p."""
    assert understand(load("3.13", MISLEADING)["equal_to_itself"].decode()) == LinearSchedule(1.0, 0.0, 1.0)
    assert isinstance(understand(load("3.13", MISLEADING)["equal_but_for_rounding"].decode()), ComputedSchedule)


# -- random schedules ---------------------------------------------------------------------------------


@pytest.mark.parametrize("step", with_exhaustive([3], [1]))
@check_each("file", sorted(RANDOM.glob("*.json.gz")))
def test_a_random_schedule_is_what_its_cpython_and_its_numpy_compute(file: Path, step: int) -> None:
    found = json.loads(gzip.decompress(file.read_bytes()))
    schedules = found["schedules"][::step]
    kinds = Counter()
    for row in schedules:
        schedule = understand(decode_blob(base64.b64decode(row["pickle"]), Budget()))
        kinds[type(schedule)] += 1
        greatest = max((abs(value) for value in row["values"] if value is not None), default=0)
        for progress, value in zip(found["points"], row["values"] if schedule else ()):
            result = value_at(schedule, progress)
            allowed = greatest * (1e-12 if isinstance(schedule, ComputedSchedule) else 1e-9)
            is_same = math.isnan(result) if value is None else abs(result - value) <= allowed
            assert is_same, (row["source"], progress, result, value)
    assert min(kinds[kind] for kind in KINDS) >= len(schedules) / 20 / step


@pytest.mark.parametrize("step", with_exhaustive([2], [1]))
def test_an_adversarial_schedule_is_refused_or_what_its_cpython_computes(step: int) -> None:
    path = Path(__file__).parent / "adversarial" / "schedules.json.gz"
    wrong, understood = [], 0
    for name, row in list(json.loads(gzip.decompress(path.read_bytes())).items())[::step]:
        schedule = understand(decode_blob(base64.b64decode(row["pickle"]), Budget()))
        understood += schedule is not None
        greatest = max((abs(value) for _, value in row["values"] if value is not None), default=0)
        allowed = greatest * (1e-11 if isinstance(schedule, ComputedSchedule) else 1e-9)
        for progress, value in row["values"] if schedule else ():
            found = value_at(schedule, progress)
            if not (math.isnan(found) if value is None else abs(found - value) <= allowed):
                wrong.append((name, progress, found, value))
                break
    assert wrong == []
    assert understood > 50 / step


@pytest.mark.parametrize("symbol", ["+", "-", "*", "/", "//", "%"])
@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 10**19, 2**70])
def test_an_integer_that_an_int64_cannot_be_is_not_combined_with_one(symbol: str, value: int) -> None:
    wide, short = Number(value, "int"), Number(3, "i8")
    for pair in ((wide, short), (short, wide)):
        with pytest.raises(NotUnderstoodError, match="an integer that is too long for its dtype"):
            combine(symbol, *pair)
    assert combine("+", Number(2**63 - 4, "int"), short).value == 2**63 - 1
