"""``sbformat.export_onnx`` beside Stable-Baselines3: onnxruntime predicts what every agent of the matrix predicts."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pytest

pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")
pytest.importorskip("sb3_contrib")
pytest.importorskip("onnxruntime")

import numpy as np
import onnx
import torch

import sbformat
from tests.helpers.onnx_policy import OnnxPolicy
from tests.helpers.sampling import sample
from tests.helpers.shared_files import summarize_counts
from tests.interop.export_oracle import check_action_alone, check_export, check_normalized, check_recurrence
from tests.interop.policy_agents import build_agent, draw_observations, stack_observations
from tests.interop.policy_oracle import COUNT, RELATIVE, ROUNDING, RealPolicy, assert_close, draw_masks
from tests.interop.policy_setups import NORMALIZED, SETUPS
from tests.interop.test_policies_matrix import MASKED, each

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.filterwarnings("ignore")]

DOUBLE: Final = onnx.TensorProto.DOUBLE
WIDE: Final = {DOUBLE, *map(onnx.TensorProto.DataType.Value, ("INT32", "UINT32", "INT64", "UINT64"))}
"""Inputs that float32 does not represent."""

COUNTED: Final[Counter[str]] = Counter()
_summary = summarize_counts(COUNTED, "test_export_matrix.py:")


def export(policy: Any, path: Path, **options: Any) -> Any:
    """Export, check the file, and return what onnxruntime makes of it."""
    exported = OnnxPolicy(policy, path, sbformat.export_onnx(policy, path, **options))
    check_model(path)
    return exported


def export_all(policy: Any, path: Path, **options: Any) -> Any:
    return export(policy, path, outputs=policy.graph.outputs, **options)


def check_model(path: Path) -> None:
    """The checker of ONNX accepts a model; float64 is computed with only to subtract means from inputs that need it."""
    onnx.checker.check_model(str(path), full_check=True)
    graph = onnx.shape_inference.infer_shapes(onnx.load(path), strict_mode=True, data_prop=True).graph
    doubles = [value.name for value in graph.value_info if value.type.tensor_type.elem_type == DOUBLE]
    assert all("vecnormalize" in name for name in doubles)
    if not any(value.type.tensor_type.elem_type in WIDE for value in graph.input):
        assert not doubles
        assert not [tensor.name for tensor in graph.initializer if tensor.data_type == DOUBLE]


EXPORTED: Final = sample(SETUPS, 3, name=lambda setup: setup.id, group=lambda setup: (setup.algorithm, setup.policy))


@pytest.mark.parametrize("setup", each(EXPORTED))
def test_a_model_acts_as_in_sb3(setup: Any, tmp_path: Path) -> None:
    agent = build_agent(setup)
    real, policy = RealPolicy(agent.model), sbformat.load_policy(agent.raw)
    exported = export_all(policy, tmp_path / "all.onnx")
    COUNTED["observations"] += check_export(real, policy, exported)
    if real.is_recurrent:
        COUNTED["sequences of an LSTM"] += check_recurrence(real, policy, exported)
    check_action_alone(real, export(policy, tmp_path / "action.onnx"))
    COUNTED["agents"] += 1


@pytest.mark.parametrize("setup", each(MASKED))
def test_masks_are_an_input(setup: Any, tmp_path: Path) -> None:
    agent = build_agent(setup)
    real, policy = RealPolicy(agent.model), sbformat.load_policy(agent.raw)
    exported = export_all(policy, tmp_path / "model.onnx")
    masks = draw_masks(real.action_space, COUNT)
    COUNTED["masked observations"] += check_export(real, policy, exported, action_masks=masks)


@pytest.mark.parametrize("label", NORMALIZED)
def test_statistics_are_in_the_model(label: str, tmp_path: Path) -> None:
    COUNTED["observations behind VecNormalize"] += check_normalized(
        *NORMALIZED[label], tmp_path, lambda policy: export_all(policy, tmp_path / "model.onnx")
    )


KINDS: Final = {(setup.algorithm, setup.policy): setup for setup in reversed(SETUPS)}
"""The first agent of each algorithm and policy class."""


@pytest.mark.parametrize("opset", range(13, 22))
@pytest.mark.parametrize("kind", KINDS, ids="-".join)
def test_every_opset_computes_the_same(kind: tuple[str, str], opset: int, tmp_path: Path) -> None:
    agent = build_agent(KINDS[kind])
    real, policy = RealPolicy(agent.model), sbformat.load_policy(agent.raw)
    path = tmp_path / "model.onnx"
    exported = export_all(policy, path, opset=opset)
    assert [entry.version for entry in onnx.load(path).opset_import if not entry.domain] == [opset]
    check_export(real, policy, exported)
    COUNTED["opsets of agents"] += 1


# -- SB3's own recipe ---------------------------------------------------------------------------------


class Recipe(torch.nn.Module):
    """What SB3's guide "Exporting models" gives to ``torch.onnx``: for SAC and its like the actor, else the policy.

    The result lacks what ``predict`` does to the action of a Box afterwards.
    """

    def __init__(self, policy: Any) -> None:
        super().__init__()
        self.policy = policy.actor if hasattr(getattr(policy, "actor", None), "get_action_dist_params") else policy
        self.options = {} if type(policy).__module__.startswith("sb3_contrib.ars") else {"deterministic": True}

    def forward(self, observation: Any) -> Any:
        """Return actions; of an on-policy algorithm actions, values and log probabilities."""
        return self.policy(observation, **self.options)


RAW: Final = {
    setup.id: setup
    for setup in (*KINDS.values(), *SETUPS)
    if setup.algorithm != "RecurrentPPO"
    and (setup.label.startswith(("to_", "sde")) or setup.policy == "LinearPolicy" or setup in KINDS.values())
}


@pytest.mark.parametrize("setup", each(RAW.values()))
def test_a_raw_model_computes_what_the_recipe_of_sb3_does(setup: Any, tmp_path: Path) -> None:
    agent = build_agent(setup)
    real, policy = RealPolicy(agent.model), sbformat.load_policy(agent.raw)
    observations = stack_observations(draw_observations(real.observation_space, COUNT))
    real.policy.set_training_mode(False)
    with torch.no_grad():
        expected = Recipe(real.policy)(real.policy.obs_to_tensor(observations)[0])
    action, *values = expected if isinstance(expected, tuple) else (expected,)
    names = ("action", "value") if values else ("action",)
    exported = export(policy, tmp_path / "raw.onnx", outputs=names, raw=True)
    found = exported.outputs(observations)
    rounding = real.measure_rounding(observations)
    for name, value in zip(names, (action, *values)):
        expected_value = value.numpy().reshape(found[name].shape)
        if expected_value.dtype.kind == "f":
            assert_close(found[name], expected_value, name, RELATIVE + ROUNDING * rounding.get(name, 0.0))
        else:
            np.testing.assert_array_equal(found[name], expected_value)
    COUNTED["raw models"] += 1
