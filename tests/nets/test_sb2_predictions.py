"""Policies of Stable Baselines 2 predict what SB2 predicted."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pytest

import sbformat
from tests.helpers.sb2_predictions import (
    assert_same_distribution,
    assert_same_predictions,
    read_recording,
    recorded_agents,
)
from tests.helpers.shared_files import CORPUS, GENERATED, SHARED, add_summary_line
from tests.policies.sampled import mark_sb2_agents

BUNDLED: Final = recorded_agents(Path(__file__).parent / "archives" / "sb2")
RECORDED: Final = recorded_agents(SHARED / "policies" / "sb2")
DRAWN: Final = [path for path in BUNDLED if "samples" in read_recording(path)]
WALKING: Final = ("ddpg-walk", "td3-tanh")
"""Their noise depends on the step before, and is left out."""


@pytest.mark.parametrize("agent", BUNDLED, ids=lambda path: path.name)
def test_a_bundled_agent_predicts_what_sb2_does(agent: Path) -> None:
    assert_same_predictions(agent)


@pytest.mark.parametrize("agent", RECORDED, ids=lambda path: path.name)
def test_an_agent_predicts_what_sb2_does(agent: Path) -> None:
    assert_same_predictions(agent)


@pytest.mark.parametrize("agent", mark_sb2_agents(DRAWN), ids=lambda path: path.stem)
def test_actions_are_drawn_as_in_sb2(agent: Path) -> None:
    if agent.stem not in WALKING:
        assert_same_distribution(agent)


def test_there_are_agents_to_compare() -> None:
    assert len(BUNDLED) == 41
    assert not SHARED.exists() or len({path.stem for path in RECORDED}) == 27


@pytest.mark.parametrize("folder", [CORPUS / "sb2", GENERATED / "sb2"], ids=lambda path: path.parent.name)
def test_agents_load_or_are_refused_by_name(folder: Path, request: pytest.FixtureRequest) -> None:
    if not folder.exists():
        pytest.skip("needs ../shared")
    loaded, refused = 0, []
    for path in sorted(folder.iterdir()):
        if path.suffix in (".json", ".npz") or not sbformat.read(path).format.startswith("sb2"):
            continue
        try:
            policy = sbformat.load_policy(path)
        except sbformat.UnsupportedError as error:
            refused.append((path.name, str(error)))
            continue
        loaded += 1
        seen = {item.key: np.zeros(item.shape) for item in policy.graph.inputs if item.role == "observation"}
        policy.predict(seen.get(None, seen), deterministic=True)
    assert loaded > 20
    assert all("is not a class of Stable Baselines 2" in message for _, message in refused)
    names = ", ".join(name for name, _ in refused) or "none"
    line = f"{Path(__file__).name}: {loaded} agents of {folder.parent.name}/sb2 act; refused: {names}"
    add_summary_line(request.config, line)
