"""The checks of exports find what is wrong with one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")
pytest.importorskip("sb3_contrib")
pytest.importorskip("onnxruntime")

import numpy as np

import sbformat
from tests.helpers.c_program import CProgram
from tests.helpers.onnx_policy import OnnxPolicy
from tests.interop.export_oracle import check_export, check_program, check_program_episodes, check_recurrence
from tests.interop.policy_agents import build_agent
from tests.interop.policy_oracle import COUNT, RealPolicy, draw_masks
from tests.interop.policy_setups import SETUPS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

pytestmark = [pytest.mark.filterwarnings("ignore")]

BY_ID: Final = {setup.id: setup for setup in SETUPS}
ACTIONS: Final = "PPO-Mlp-to_asymmetric"
CHOICES: Final = "MaskablePPO-Mlp-to_discrete_start"
LSTM: Final = "RecurrentPPO-MlpLstm-layers"

Numbers = dict[str, np.ndarray]


def scale(names: tuple[str, ...]) -> Callable[[Numbers], Numbers]:
    return lambda found: {
        name: value * np.float32(1.0001) if name.startswith(names) else value for name, value in found.items()
    }


def keep(values: Numbers) -> Numbers:
    return values


def give(name: str, number: int) -> Callable[[Numbers], Numbers]:
    return lambda inputs: {key: np.full_like(value, number) if key == name else value for key, value in inputs.items()}


def move_choice(found: Numbers) -> Numbers:
    return {**found, "action": found["action"] + 1}


WRONG: Final[list[tuple[str, Any, Any]]] = [
    (ACTIONS, keep, scale(("action",))),
    (ACTIONS, keep, scale(("value",))),
    (ACTIONS, keep, scale(("log_std",))),
    (CHOICES, keep, scale(("logits",))),
    (CHOICES, keep, move_choice),
    (CHOICES, give("action_masks", 1), keep),
    (LSTM, keep, scale(("next_",))),
    (LSTM, keep, scale(("next_critic_cell.1",))),
    (LSTM, give("episode_start", 0), keep),
    (LSTM, give("hidden.1", 0), keep),
]
"""An agent, what is done to its inputs, and to its outputs."""


def run_checks(name: str, changes: tuple[Any, Any], folder: Path) -> None:
    class Changed(OnnxPolicy):
        def run(self, inputs: Mapping[str, np.ndarray], count: int) -> Numbers:
            return changes[1](super().run(changes[0](inputs), count))

    agent = build_agent(BY_ID[name])
    real, policy = RealPolicy(agent.model), sbformat.load_policy(agent.raw)
    path = folder / "policy.onnx"
    report = sbformat.export_onnx(policy, path, outputs=policy.graph.outputs, overwrite=True)
    exported = Changed(policy, path, report)
    masks = {"action_masks": draw_masks(real.action_space, COUNT)} if name == CHOICES else {}
    check_export(real, policy, exported, **masks)
    if real.is_recurrent:
        check_recurrence(real, policy, exported)


@pytest.mark.parametrize("name", [ACTIONS, CHOICES, LSTM])
def test_a_model_passes_the_checks(name: str, tmp_path: Path) -> None:
    run_checks(name, (keep, keep), tmp_path)


@pytest.mark.parametrize(("name", "before", "after"), WRONG)
def test_the_checks_find(name: str, before: Any, after: Any, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        run_checks(name, (before, after), tmp_path)


def run_program_checks(name: str, change: Any, folder: Path) -> None:
    class Changed(CProgram):
        def _print(self, inputs: Mapping[str, np.ndarray]) -> Numbers:
            found: Numbers = change(super()._print(inputs))
            return found

    agent = build_agent(BY_ID[name])
    real, policy = RealPolicy(agent.model), sbformat.load_policy(agent.raw)
    path = folder / "policy.c"
    program = Changed(policy, path, sbformat.export_c(policy, path, outputs=policy.graph.outputs))
    if real.is_recurrent:
        check_program_episodes(policy, program, real.observation_space)
    else:
        check_program(real, policy, program)


@pytest.mark.parametrize("name", [ACTIONS, LSTM])
def test_a_program_passes_the_checks(name: str, tmp_path: Path) -> None:
    run_program_checks(name, keep, tmp_path)


@pytest.mark.parametrize("output", ["action", "value"])
@pytest.mark.parametrize("name", [ACTIONS, LSTM])
def test_the_checks_of_programs_find(name: str, output: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        run_program_checks(name, scale((output,)), tmp_path)
