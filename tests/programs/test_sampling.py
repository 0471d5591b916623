"""Samples of test cases have every group, are the same in every run, and are everything if all is requested."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.helpers import sampling

if TYPE_CHECKING:
    import pytest

CASES = [f"{kind}-{number}" for kind in ("a", "b") for number in range(10)] + ["c-0"]


def draw(one_in: int) -> list[str]:
    return sampling.sample(CASES, one_in, name=str, group=lambda case: case[0])


def test_a_sample_has_a_part_of_every_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "HAS_ALL", False)
    found = draw(4)
    assert [sum(case[0] == kind for case in found) for kind in "abc"] == [3, 3, 1]
    assert found == sorted(found) == draw(4)
    assert draw(1) == CASES


def test_everything_is_taken_if_all_is_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "HAS_ALL", True)
    assert draw(4) == CASES
