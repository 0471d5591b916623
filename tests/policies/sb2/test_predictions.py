"""Policies of Stable Baselines 2 predict what SB2 predicted."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.helpers.bundled import ARCHIVES
from tests.helpers.sb2_predictions import (
    assert_same_distribution,
    assert_same_predictions,
    read_recording,
    recorded_agents,
)
from tests.helpers.shared_files import SHARED

BUNDLED: Final = recorded_agents(ARCHIVES / "sb2")
RECORDED: Final = recorded_agents(SHARED / "policies" / "sb2")
DRAWN: Final = [path for path in BUNDLED if "samples" in read_recording(path)]
WALKING: Final = "ddpg-walk"
"""Its noise depends on the step before, and is left out."""


@pytest.mark.parametrize("agent", BUNDLED, ids=lambda path: path.name)
def test_a_bundled_agent_predicts_what_sb2_does(agent: Path) -> None:
    assert_same_predictions(agent)


@pytest.mark.parametrize("agent", RECORDED, ids=lambda path: path.name)
def test_an_agent_predicts_what_sb2_does(agent: Path) -> None:
    assert_same_predictions(agent)


@pytest.mark.parametrize("agent", DRAWN, ids=lambda path: path.stem)
def test_actions_are_drawn_as_in_sb2(agent: Path) -> None:
    if agent.stem != WALKING:
        assert_same_distribution(agent)


def test_there_are_agents_to_compare() -> None:
    assert len(BUNDLED) == 28
    assert not SHARED.exists() or len({path.stem for path in RECORDED}) == 27
