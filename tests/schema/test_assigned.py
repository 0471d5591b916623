"""Schedules that a caller assigns: ``--set learning_rate='{"linear": [3e-4, 0]}'`` (VALUES.md 13.7)."""

from __future__ import annotations

import json
import math
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import sbformat
from sbformat import ConstantSchedule, LinearSchedule, ValidationError
from sbformat.cli import main
from sbformat.known.changes import NEWEST, Release
from sbformat.known.sb3 import SCHEDULE_KEYS
from sbformat.known.types import FloatSchedule
from sbformat.schema.assigned import encode_assigned, find_release
from tests.helpers.bundled import PPO
from tests.helpers.many_cases import check_all, check_each
from tests.helpers.old_archives import OLD

if TYPE_CHECKING:
    from pathlib import Path

HALF: Final = LinearSchedule(0.2, 0.05, 0.5)


@check_each(
    ("given", "expected"),
    [
        ({"constant": 1}, ConstantSchedule(1.0)),
        ({"constant": np.float32(0.5)}, ConstantSchedule(0.5)),
        ({"linear": [0.2, 0]}, LinearSchedule(0.2, 0.0, 1.0)),
        ({"linear": (0.2, 0.05, 0.5)}, HALF),
        (HALF, HALF),
        (FloatSchedule(FloatSchedule(HALF)), HALF),
        (ConstantSchedule(3e-4), ConstantSchedule(3e-4)),
    ],
)
def test_a_schedule_is_written_so_that_it_is_read_again(given: Any, expected: Any) -> None:
    targets = (Release(2, 0), Release(2, 6), Release(2, 7), NEWEST)
    check_all(check_schedule, product(sorted(SCHEDULE_KEYS), [given], [expected], targets))


def check_schedule(key: str, given: Any, expected: Any, target: Release) -> None:
    found = sbformat.decode(encode_assigned(key, given, target))
    if target >= (2, 7) and key not in ("learning_rate", "exploration_schedule"):
        assert isinstance(found, FloatSchedule)
        found = found.schedule
    assert found == expected


@check_each("key", sorted(SCHEDULE_KEYS))
def test_a_number_is_a_schedule_only_where_sb3_calls_the_value(key: str) -> None:
    found = encode_assigned(key, 0.5, NEWEST)
    assert (found == 0.5) == (key in {"learning_rate", "clip_range", "clip_range_vf"})


@check_each("given", [None, 1, "text", [1, 2], {"linear": [1, 0]}, {"constant": 1}, {}])
def test_values_of_other_keys_are_unchanged(given: Any) -> None:
    assert encode_assigned("policy_kwargs", given, NEWEST) is given


def test_no_clipping_of_the_value_function_stays_null() -> None:
    assert encode_assigned("clip_range_vf", None, NEWEST) is None


@check_each(
    ("given", "message"),
    [
        ({}, "expected a number, "),
        ({"linear": 1}, '{"constant": NUMBER} or {"linear": [START, END]}'),
        ({"linear": [1]}, 'got {"linear": [1]}'),
        ({"linear": [1, 2, 1, 1]}, "got"),
        ({"linear": [1, 0], "constant": 1}, "got"),
        ({"Linear": [1, 0]}, "got"),
        ({1: range(2)}, "got dict"),
        ({"linear": [1, "0"]}, "expected a number of at least 0 in the start and end of a linear schedule"),
        ({"linear": [True, 0]}, "got true"),
        ({"linear": [1, None]}, "got null"),
        ({"linear": [-1, 0]}, "got -1.0"),
        ({"linear": [1, math.nan]}, "got nan"),
        ({"constant": math.inf}, "got inf"),
        ({"constant": 10**400}, "got inf"),
        ({"linear": [1, 0, 0]}, "expected an end fraction from 1e-12 to 1"),
        ({"linear": [1, 0, 1.5]}, "got 1.5"),
        ({"linear": [1, 0, 1e-320]}, "got 1e-320"),
        (math.nan, "got nan"),
        (10**400, "got inf"),
        (-1e-3, "got -0.001"),
        (LinearSchedule(1.0, 0.0, 2.0), "got 2.0"),
        (ConstantSchedule("a" * 1000), "got"),  # type: ignore[arg-type]
    ],
)
def test_other_objects_and_numbers_are_refused(given: Any, message: str) -> None:
    with pytest.raises(ValidationError) as refused:
        encode_assigned("learning_rate", given, NEWEST)
    assert message in refused.value.message
    (problem,) = refused.value.problems
    assert (problem.entry, problem.loc, problem.level) == ("data", "/learning_rate", "error")


def test_a_schedule_under_a_key_that_has_none_is_refused() -> None:
    with pytest.raises(ValidationError, match="a schedule is possible for clip_range, "):
        sbformat.edit(PPO, assign={"gamma": HALF})


@check_each(
    ("version", "release"),
    [(None, (1, 6)), ("1.0rc0", (1, 6)), ("1.8.0", (1, 8)), ("2.6.0a1", (2, 6)), ("3.1", NEWEST), ("x", NEWEST)],
)
def test_an_archive_is_edited_for_the_release_that_wrote_it(version: str | None, release: tuple[int, int]) -> None:
    assert find_release(version) == release


def test_edit_and_rebuild_write_schedules_that_are_clean_and_valid() -> None:
    assign = {"learning_rate": HALF, "clip_range": {"linear": [0.2, 0.1]}, "clip_range_vf": {"constant": 0.3}}
    made = [
        sbformat.edit(PPO, assign=assign).archive,
        sbformat.edit(OLD, assign=assign).archive,
        *(sbformat.rebuild(OLD, assign=assign, target=target).archive for target in ("2.0", "2.6", "2.7", "2.9")),
    ]
    for archive in made:
        again = sbformat.reads(sbformat.writes(archive))
        assert not [problem for problem in sbformat.iter_problems(again) if problem.level == "error"]
        assert again.decode("learning_rate") == HALF
        found = [again.decode(key) for key in ("clip_range", "clip_range_vf")]
        inner = [value.schedule if isinstance(value, FloatSchedule) else value for value in found]
        assert inner == [LinearSchedule(0.2, 0.1, 1.0), ConstantSchedule(0.3)]
    assert [sbformat.scan(sbformat.writes(archive)).verdict for archive in made[2:]] == ["clean"] * 4


def test_the_command_line_writes_a_linear_schedule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("edit", "rebuild"):
        path = tmp_path / f"{command}.zip"
        assert main([command, str(PPO), "-o", str(path), "--set", 'learning_rate={"linear": [3e-4, 0]}']) == 0
        assert sbformat.read(path).decode("learning_rate") == LinearSchedule(3e-4, 0.0, 1.0)
        capsys.readouterr()
        assert main(["inspect", str(path), "--format", "json"]) == 0
        shown = json.loads(capsys.readouterr().out)["files"][0]["data"]["learning_rate"]["serialized"]["value"]
        assert shown == {"kind": "LinearSchedule", "start": 0.0003, "end": 0.0, "end_fraction": 1.0}


def test_the_command_line_refuses_another_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("edit", "rebuild"):
        path = tmp_path / f"{command}.zip"
        assert main([command, str(PPO), "-o", str(path), "--set", 'clip_range={"linear": [0.2]}']) == 2
        assert '/clip_range: expected a number, {"constant": NUMBER}' in capsys.readouterr().err
        assert not path.exists()
