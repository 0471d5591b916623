"""``sbformat.export_javascript`` beside Stable-Baselines3: node predicts what every agent of the matrix predicts."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pytest

pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")
pytest.importorskip("sb3_contrib")

import sbformat
from tests.helpers.javascript_policy import JavaScriptPolicy, Node, run_node
from tests.helpers.sampling import sample
from tests.helpers.shared_files import summarize_counts
from tests.interop.export_oracle import check_action_alone, check_export, check_normalized, check_recurrence
from tests.interop.policy_agents import build_agent
from tests.interop.policy_oracle import COUNT, RealPolicy, draw_masks
from tests.interop.policy_setups import NORMALIZED, SETUPS
from tests.interop.test_policies_matrix import MASKED, each

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.filterwarnings("ignore")]

COUNTED: Final[Counter[str]] = Counter()
_summary = summarize_counts(COUNTED, "test_export_javascript_matrix.py:")
_node = pytest.fixture(scope="module", name="node")(run_node)

EXPORTED: Final = sample(SETUPS, 3, name=lambda setup: setup.id, group=lambda setup: (setup.algorithm, setup.policy))


def export(policy: Any, node: Node, path: Path, **options: Any) -> JavaScriptPolicy:
    return JavaScriptPolicy(policy, node, path, sbformat.export_javascript(policy, path, **options))


@pytest.mark.parametrize("setup", each(EXPORTED))
def test_a_module_acts_as_in_sb3(setup: Any, node: Node, tmp_path: Path) -> None:
    agent = build_agent(setup)
    real, policy = RealPolicy(agent.model), sbformat.load_policy(agent.raw)
    exported = export(policy, node, tmp_path / "all.mjs")
    COUNTED["observations"] += check_export(real, policy, exported)
    if real.is_recurrent:
        COUNTED["sequences of an LSTM"] += check_recurrence(real, policy, exported)
    check_action_alone(real, export(policy, node, tmp_path / "action.mjs", outputs=["action"]))
    COUNTED["agents"] += 1


@pytest.mark.parametrize("setup", each(MASKED))
def test_masks_are_an_option(setup: Any, node: Node, tmp_path: Path) -> None:
    agent = build_agent(setup)
    real, policy = RealPolicy(agent.model), sbformat.load_policy(agent.raw)
    masks = draw_masks(real.action_space, COUNT)
    exported = export(policy, node, tmp_path / "policy.mjs")
    COUNTED["masked observations"] += check_export(real, policy, exported, action_masks=masks)


@pytest.mark.parametrize("label", NORMALIZED)
def test_statistics_are_in_the_module(label: str, node: Node, tmp_path: Path) -> None:
    COUNTED["observations behind VecNormalize"] += check_normalized(
        *NORMALIZED[label], tmp_path, lambda policy: export(policy, node, tmp_path / "policy.mjs")
    )
