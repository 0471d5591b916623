"""Schedules that are tables of values: ``functools.partial(numpy.interp, xp=..., fp=...)`` (VALUES.md 13.5)."""

from __future__ import annotations

import functools
import json
import math
import pickle
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import sbformat
from sbformat import LimitError
from sbformat.cli import main
from sbformat.known.types import FloatSchedule, InterpolatedSchedule
from sbformat.limits import Limits
from sbformat.pkl import Call, Global
from sbformat.values import decode_blob, encode
from sbformat.values.render import render_json, render_line
from tests.helpers.build_blobs import UTILS, array, change, decode_outcome, new, partial, refused, tree, understood
from tests.helpers.many_cases import check_each
from tests.helpers.old_archives import blob, rebuilt, with_keys
from tests.helpers.sampling import with_exhaustive

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

INTERP: Final = Global("numpy", "interp")
GRID: Final = [step / 1000 for step in range(1001)]
COSINE: Final = [3e-4 * math.cos(1 - point) for point in GRID]
TABLE: Final = InterpolatedSchedule((0.0, 0.5, 1.0), (0.0, 0.25, 1.0))


def table(function: Global = INTERP, **keywords: Any) -> Call:
    return partial(function, **{"xp": [0.0, 0.5, 1.0], "fp": [0.0, 0.25, 1.0], **keywords})


def verdict(archive: sbformat.Archive) -> tuple[str, str | None]:
    report = sbformat.scan(sbformat.writes(archive))
    return report.verdict, report.reason


# -- what is known ------------------------------------------------------------------------------------


@check_each("protocol", range(2, 6))
@check_each("dtype", [None, "f8", "f4", "f2", ">f8", "i8", "u1"])
def test_a_partial_of_interp_is_a_table(protocol: int, dtype: str | None) -> None:
    points: Any = [0, 1, 4]
    values: Any = (0.5, 2, 1.5) if dtype is None else [1, 2, 3]
    if dtype is not None:
        points, values = np.array(points, dtype), np.array(values, dtype)
    made = understood(pickle.dumps(functools.partial(np.interp, xp=points, fp=values), protocol))
    assert made == InterpolatedSchedule((0.0, 1.0, 4.0), tuple(map(float, values)))
    assert {type(number) for part in made for number in part} == {float}


def test_lists_may_contain_numpys_scalars() -> None:
    values = [np.float64(0.5), np.float32(0.25), np.int16(2)]
    made = understood(pickle.dumps(functools.partial(np.interp, xp=[0, 1, 2], fp=values)))
    assert made.values == (0.5, 0.25, 2.0)


def test_the_name_of_numpy_before_1_16_is_known() -> None:
    assert understood(table(Global("numpy.lib.function_base", "interp"))) == TABLE


def test_two_tables_share_their_name_and_points() -> None:
    points = [0.0, 1.0]
    made = understood([partial(INTERP, xp=points, fp=points), partial(INTERP, xp=points, fp=[3, 2])])
    assert made == [InterpolatedSchedule((0.0, 1.0), (0.0, 1.0)), InterpolatedSchedule((0.0, 1.0), (3.0, 2.0))]


@check_each(
    ("points", "values"),
    [
        (GRID, COSINE),
        ([0.25, 0.5], [1.0, 2.0]),
        ([0.5], [3.0]),
        ([-1e308, 1e308], [-1e308, 1e308]),
        ([0.0, 5e-324, 1.0], [1e308, -1e308, 1.0]),
        ([0, 1e-310, 1], [1.0, 1.0, 0.0]),
    ],
)
def test_samples_are_those_of_numpy(points: list[float], values: list[float]) -> None:
    made = understood(pickle.dumps(functools.partial(np.interp, xp=points, fp=values)))
    for progress in [step / 50 for step in range(51)] + [-1.0, 2.0, 0.1234567, 5e-324, 1e-310, 5e-311]:
        expected = float(np.interp(progress, points, values))
        assert made.sample(progress) == pytest.approx(expected, rel=1e-15, abs=0, nan_ok=True), progress


# -- what is not known --------------------------------------------------------------------------------

ITEMS: Final = b"\0" * 16
NOT_KNOWN: Final[dict[str, Callable[[], Call]]] = {
    "another function": lambda: table(Global("numpy", "interp2")),
    "a positional argument": lambda: partial(INTERP, 0.5, xp=[0.0], fp=[0.0]),
    "left": lambda: table(left=None),
    "right": lambda: table(right=0.0),
    "period": lambda: table(period=1.0),
    "x": lambda: table(x=1.0),
    "no fp": lambda: partial(INTERP, xp=[0.0]),
    "no keywords": lambda: partial(INTERP),
    "attributes": lambda: change(Call("REDUCE", Global("functools", "partial"), (INTERP,)),
                                 (INTERP, (), {"xp": [0.0], "fp": [0.0]}, {"x": 1})),
    "another function in the state": lambda: change(Call("REDUCE", Global("functools", "partial"), (INTERP,)),
                                                    (Global("os", "system"), (), {"xp": [0.0], "fp": [0.0]}, None)),
    "another function in the call": lambda: change(
        Call("REDUCE", Global("functools", "partial"), (Global("os", "system"),)),
        (INTERP, (), {"xp": [0.0], "fp": [0.0]}, None)),
    "two arguments": lambda: change(Call("REDUCE", Global("functools", "partial"), (INTERP, 1)),
                                    (INTERP, (), {"xp": [0.0], "fp": [0.0]}, None)),
    "two states": lambda: change(table(), (INTERP, (), {"xp": [0.0], "fp": [0.0]}, None)),
    "a changed function": lambda: table(change(Global("numpy", "interp"), {"__code__": 1})),
    "NaN": lambda: table(xp=[0.0, math.nan, 1.0]),
    "infinity": lambda: table(fp=[0.0, math.inf, 1.0]),
    "equal points": lambda: table(xp=[0.0, 0.5, 0.5]),
    "falling points": lambda: table(xp=[1.0, 0.5, 0.0]),
    "no points": lambda: table(xp=[], fp=[]),
    "fewer values": lambda: table(fp=[0.0, 1.0]),
    "a number": lambda: table(xp=1.0, fp=1.0),
    "text": lambda: table(fp="abc"),
    "bytes": lambda: table(fp=b"abc"),
    "text in a list": lambda: table(fp=["1", "2", "3"]),
    "a bool": lambda: table(xp=[False, 0.5, 1.0]),
    "None": lambda: table(fp=[None, 0.5, 1.0]),
    "a complex number": lambda: table(fp=[0.0, Call("REDUCE", Global("builtins", "complex"), (1.0, 1.0)), 1.0]),
    "a list in a list": lambda: table(fp=[[0.0], [1.0], [2.0]]),
    "a long integer": lambda: table(fp=[0, 2**53 + 1, 1]),
    "a longer integer": lambda: table(fp=[0, 1 << 5000, 1]),
    "a dict": lambda: table(fp={0: 1, 1: 2, 2: 3}),
    "a set": lambda: table(fp={0.0, 1.0, 2.0}),
    "an unknown call": lambda: table(fp=[0.0, Call("REDUCE", Global("os", "getpid"), ()), 1.0]),
    "a table": lambda: table(fp=table()),
    "an array without dimensions": lambda: table(fp=array((), ITEMS[:8], "f8")),
    "an array of two dimensions": lambda: table(fp=array((1, 3), b"\0" * 24, "f8")),
    "an array of objects": lambda: table(fp=array((3,), [0.0, 1.0, 2.0], "O8", "|")),
    "an array of bools": lambda: table(fp=array((3,), b"\0\1\0", "b1", "|")),
    "an array of complex numbers": lambda: table(fp=array((3,), b"\0" * 48, "c16")),
    "an array of text": lambda: table(fp=array((3,), b"\0" * 12, "U1")),
    "an array of NaN": lambda: table(fp=array((3,), b"\xff" * 24, "f8")),
    "an array with a missing item": lambda: table(fp=array((3,), ITEMS, "f8")),
    "an array in a list": lambda: table(fp=[0.0, array((), ITEMS[:8], "f8"), 1.0]),
    "an array of too many": lambda: table(xp=array((100_001,), bytes(800_008), "f8")),
    "too many": lambda: table(xp=list(range(100_001)), fp=[0] * 100_001),
}  # fmt: skip


@check_each("name", NOT_KNOWN)
def test_anything_else_is_as_dangerous_as_before(name: str) -> None:
    content = NOT_KNOWN[name]()
    refused(content)
    document = dict.fromkeys(("learning_rate", "x"), blob(content))
    report = sbformat.scan(sbformat.data.dumps(document))
    assert {"learning_rate", "x"} <= {row.key for row in report.findings if row.verdict == "dangerous"}


@pytest.mark.parametrize("name", with_exhaustive(list(NOT_KNOWN)[1::4], NOT_KNOWN))
def test_rebuild_leaves_anything_else_out(name: str) -> None:
    made, rows, _ = rebuilt(with_keys(learning_rate=blob(NOT_KNOWN[name]())))
    assert "learning_rate" not in made.data
    assert rows["learning_rate"].is_finding


@pytest.mark.parametrize("position", [0, 1, 2])
def test_the_name_itself_stays_unknown_beside_a_table(position: int) -> None:
    """A pickle shares the name, and what is found of one use is not to hide another."""
    items: list[Any] = [table(), table()]
    items.insert(position, INTERP)
    outcome = decode_outcome(items)
    assert [issue.node for issue in outcome.issues] == [outcome.value[position]]
    assert verdict(with_keys(x=blob(items))) == ("dangerous", "not-known")  # the partial is given that name, too
    scheduled = new(UTILS, "FloatSchedule", {"value_schedule": INTERP})
    assert verdict(with_keys(learning_rate=blob([table(), scheduled])))[0] == "dangerous"


def test_a_call_of_interp_is_unknown_beside_a_table() -> None:
    assert verdict(with_keys(x=blob([table(), Call("REDUCE", INTERP, (0.5, [0.0], [1.0]))])))[0] == "dangerous"


def test_partials_with_one_state_between_them_are_refused() -> None:
    state = tree((INTERP, (), {"xp": [0.0], "fp": [0.0]}, None))
    made = [change(Call("REDUCE", Global("functools", "partial"), (INTERP,)), None) for _ in range(2)]
    for node in made:
        node.updates[0].value = state
    assert len(decode_outcome(made).issues) >= 2


def test_a_list_that_grows_after_the_partial_has_it_is_a_finding() -> None:
    points = b"](G" + bytes(8) + b"e\x94"
    data = (
        b"\x80\x04(cfunctools\npartial\ncnumpy\ninterp\n\x94\x85R(h\x00)}(X\x02\0\0\0xp" + points
        + b"X\x02\0\0\0fp](G" + bytes(8) + b"euNtbh\x01(Nee1l."
    )  # fmt: skip
    assert sbformat.scan(data).verdict != "clean"


@pytest.mark.parametrize("size", with_exhaustive([10_000], [100_000]))
def test_many_partials_that_share_an_array_are_bounded(size: int) -> None:
    points = array((size,), np.arange(float(size)).tobytes(), "f8")
    many = [partial(INTERP, xp=points, fp=points) for _ in range(40)]
    data = blob(many).pickle
    with pytest.raises(LimitError, match="pickle_nodes"):
        decode_blob(data, sbformat.limits.Budget(Limits(pickle_nodes=5 * size)))


# -- where it is used ---------------------------------------------------------------------------------

KEYS: Final = ("learning_rate", "clip_range", "clip_range_vf", "delta_std_schedule")
TARGETS: Final = ("2.0", "2.3", "2.6", "2.7", "2.9")
PAIRS: Final = [
    (KEYS[(number + is_float) % 4], target, bool(is_float))
    for number, target in enumerate(TARGETS)
    for is_float in (0, 1)
]
"""Each release, in a ``FloatSchedule`` and alone, with each key in turn."""


@pytest.mark.parametrize("case", with_exhaustive(PAIRS, product(KEYS, TARGETS, (False, True))), ids=str)
def test_rebuild_keeps_a_table_for_every_target(case: tuple[str, str, bool]) -> None:
    key, target, in_floats = case
    old = table(Global("numpy.lib.function_base", "interp"))
    content = new(UTILS, "FloatSchedule", {"value_schedule": old}) if in_floats else old
    archive = with_keys(**{key: blob(content)})
    made, rows, report = rebuilt(archive, target=target)
    assert made.decode(key) == (FloatSchedule(TABLE) if in_floats and target >= "2.7" else TABLE)
    assert report.findings == ()
    assert rows[key].action == "translated"
    assert (verdict(archive)[0], verdict(made)[0]) == ("clean", "clean")
    assert b"numpy.lib" not in made.data[key].pickle  # numpy 2 has no such module
    assert [problem for problem in sbformat.iter_problems(made) if problem.level == "error"] == []


def test_what_is_written_is_what_python_unpickles() -> None:
    made = pickle.loads(encode(TABLE))
    assert (made.func, made.args, made.keywords) == (np.interp, (), {"xp": [0.0, 0.5, 1.0], "fp": [0.0, 0.25, 1.0]})


def test_a_table_that_starts_below_zero_is_dropped() -> None:
    made, rows, _ = rebuilt(with_keys(learning_rate=blob(table(fp=[1.0, 1.0, -1.0]))))
    assert "learning_rate" not in made.data
    assert "expected a number of at least 0, got -1.0" in rows["learning_rate"].message


def test_a_table_under_another_key_is_a_finding() -> None:
    assert verdict(with_keys(predict=blob(table())))[0] == "unknown"


def test_people_see_five_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cosine = functools.partial(np.interp, xp=GRID, fp=COSINE)
    shown = "0.0003, 0.000291, 0.000263, 0.00022, 0.000162"
    archives = {"table": blob(0), "line": blob(table()), "other": blob(table(fp=[0.0, 0.25, 1.5]))}
    for name, content in archives.items():
        path = str(tmp_path / f"{name}.zip")
        value = sbformat.Serialized("x", pickle.dumps(cosine)) if name == "table" else content
        sbformat.write(with_keys(learning_rate=value), path)
    first, second, third = (str(tmp_path / f"{name}.zip") for name in archives)
    decoded = sbformat.read(first).decode("learning_rate")
    assert render_line(decoded, "learning_rate") == f"{shown} during training: interpolated between 1,001 values"
    made = render_json(decoded)
    assert (made["kind"], made["points"]) == ("InterpolatedSchedule", 1001)
    assert made["samples"] == [float(cosine(progress)) for progress in (1.0, 0.75, 0.5, 0.25, 0.0)]
    main(["inspect", first, "--long"])
    assert f"{shown} during training: interpolated between 1,001 values" in capsys.readouterr().out
    main(["inspect", first, second, "--columns", "learning_rate"])
    assert shown in capsys.readouterr().out
    assert main(["diff", second, third, "--format", "json"]) == 1
    (row,) = json.loads(capsys.readouterr().out)["files"][0]["changes"]
    assert (row["old"]["samples"][0], row["new"]["samples"][0]) == (1.0, 1.5)
    assert "interpolated between 3 values" in row["message"]
