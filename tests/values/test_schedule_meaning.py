"""What a schedule computes, and the nearest schedule that SB3 has (VALUES.md 13.5, REBUILDING.md 15.2)."""

from __future__ import annotations

from typing import Any

import pytest

import sbformat
from sbformat import ConstantSchedule, LinearSchedule
from sbformat.known.types import FloatSchedule
from sbformat.values.computed import ComputedSchedule
from sbformat.values.render import FROM_BYTECODE, render_json, render_line, render_linear
from sbformat.values.schedule_meaning import find_meaning, find_nearest, sample
from tests.helpers.build_schedules import build_schedule
from tests.helpers.many_cases import check_each


def computed(source: str) -> ComputedSchedule:
    found = find_meaning(sbformat.decode(build_schedule(source))).schedule
    assert isinstance(found, ComputedSchedule)
    return found


@check_each(
    ("source", "nearest"),
    [
        ("p + 1e-6 * p ** 2", LinearSchedule(1.0, 0.0, 1.0)),
        ("0.5 + 1e-6 * p ** 2", ConstantSchedule(0.5)),
        ("max(2 * p - 1, 0.0) + 1e-6 * p ** 2", LinearSchedule(1.0, 0.0, 0.5)),
        ("1e-200 * (p + 1e-6 * p ** 2)", LinearSchedule(1e-200, 0.0, 1.0)),
        ("1e300 * (p + 1e-6 * p ** 2)", LinearSchedule(1e300, 0.0, 1.0)),
        ("p ** 2 - p - 5", ConstantSchedule(0.0)),
    ],
)
def test_the_nearest_schedule_has_the_smallest_squared_error(source: str, nearest: Any) -> None:
    found = find_nearest(computed(source))
    assert type(found) is type(nearest)
    assert list(found or ()) == pytest.approx(list(nearest), rel=0.01, abs=2e-6)


@pytest.mark.parametrize("value", [0.5, ConstantSchedule(0.5), FloatSchedule(FloatSchedule(ConstantSchedule(0.5)))])
def test_numbers_and_classes_have_their_own_meaning(value: Any) -> None:
    found = find_meaning(value)
    assert (found.schedule, found.function, found.reason) == (ConstantSchedule(0.5), None, "")


@check_each("value", [None, "0.5", True, [0.5], LinearSchedule("a", 0.0, 1.0), ConstantSchedule(None)])  # type: ignore[arg-type]
def test_other_values_are_not_schedules(value: Any) -> None:
    assert find_meaning(value).schedule is None


def test_a_function_is_examined_on_request_only() -> None:
    function = sbformat.decode(build_schedule("p * 0.5"))
    assert find_meaning(function).is_from_bytecode
    assert find_meaning(function, examines=False).schedule is None


@pytest.mark.parametrize(("key", "is_examined"), [("learning_rate", True), ("cliprange", True), ("gamma", False)])
def test_functions_are_examined_under_the_keys_of_schedules(key: str, is_examined: bool) -> None:  # noqa: FBT001
    function = sbformat.decode(build_schedule("p * 0.5"))
    assert (FROM_BYTECODE in render_line(function, key)) is is_examined
    assert render_json(function, key).get("computes") == (
        {"kind": "LinearSchedule", "start": 0.5, "end": 0.0, "end_fraction": 1.0} if is_examined else None
    )


def test_a_linear_schedule_is_sampled_as_sb3_computes_it() -> None:
    schedule = LinearSchedule(1.0, 0.5, 0.5)
    assert [sample(schedule, progress) for progress in (1.0, 0.75, 0.5, 0.25, 0.0)] == [1.0, 0.75, 0.5, 0.5, 0.5]


@pytest.mark.parametrize(
    ("schedule", "text"),
    [
        (LinearSchedule(0.1, 0.001, 1 / 3), "linear 0.1 -> 0.001 in the first 33.33% of training"),
        (LinearSchedule(0.1, 0.0, 1.0), "linear 0.1 -> 0.0"),
        (
            LinearSchedule(0.5, 0.0, 2),
            "linear 0.5 -> 0.0, which it does not reach: 0.25 at the end of training (end fraction 2)",
        ),
        (LinearSchedule(0.5, 0.0, 0), "linear 0.5 -> 0.0 over 0"),
        (LinearSchedule(0.5, 10**400, 10**500), f"linear 0.5 -> {10**400} over {10**500}"),
    ],
)
def test_a_line_says_when_it_ends(schedule: LinearSchedule, text: str) -> None:
    assert render_linear(schedule) == text
