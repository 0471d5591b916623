"""ONNX exports that onnx2tf converts to TensorFlow Lite compute what ``Policy`` and the recorded libraries compute.

``nox -s tflite`` installs onnx2tf and runs this.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import sbformat
from tests.helpers.bundled import ARCHIVES, PPO, SAC
from tests.helpers.exported_policy import ExportedPolicy
from tests.helpers.policy_vectors import VECTORS, assert_predictions, load_vector

interpreter = pytest.importorskip("ai_edge_litert.interpreter")
onnx2tf = pytest.importorskip("onnx2tf")

if TYPE_CHECKING:
    from collections.abc import Mapping

TOLERANCE: Final = 1e-5

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered in cast")  # in the float16 file, which is not used


@pytest.fixture(autouse=True)
def find_onnxsim(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let onnx2tf find the command onnxsim. Without it some files have operators that no interpreter has."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)


class TflitePolicy(ExportedPolicy):
    """A policy that is exported, converted, and run by the interpreter: one observation after another.

    :param folder: where the files are written
    """

    def __init__(self, policy: sbformat.Policy, folder: Path) -> None:
        report = sbformat.export_onnx(policy, folder / "policy.onnx", outputs=list(policy.graph.outputs))
        super().__init__(policy, report)
        names = [port.name for port in report.inputs]
        onnx2tf.convert(
            input_onnx_file_path=str(folder / "policy.onnx"), output_folder_path=str(folder / "lite"),
            keep_shape_absolutely_input_names=names, non_verbose=True,
        )  # fmt: skip
        self._runner = interpreter.Interpreter(str(folder / "lite" / "policy_float32.tflite")).get_signature_runner()

    def run(self, inputs: Mapping[str, np.ndarray], count: int) -> dict[str, np.ndarray]:
        rows = [self._runner(**{name: array[at : at + 1] for name, array in inputs.items()}) for at in range(count)]
        return {port.name: np.concatenate([row[port.name] for row in rows]) for port in self.report.outputs}


@pytest.mark.parametrize("name", VECTORS)
def test_a_vector(tmp_path: Path, name: str) -> None:
    assert_predictions(name, TflitePolicy(load_vector(name), tmp_path), TOLERANCE)


def load_agents() -> dict[str, tuple[sbformat.Policy, np.ndarray]]:
    """The agents of docs/export/tflite.md with 100 observations of each."""
    random = np.random.default_rng(1)
    angles = random.uniform(-np.pi, np.pi, 100)
    pendulum = np.stack([np.cos(angles), np.sin(angles), random.uniform(-8, 8, 100)], 1)
    statistics = ARCHIVES / "vecnormalize-pendulum.pkl"
    return {
        "cartpole": (sbformat.load_policy(PPO), random.normal(size=(100, 4)).astype(np.float32)),
        "pendulum": (sbformat.load_policy(SAC, vecnormalize=statistics), pendulum.astype(np.float32)),
        "recurrent": (load_vector("policy-lstm"), random.normal(size=(100, 4)).astype(np.float32)),
        "image": (load_vector("policy-cnn"), random.integers(0, 256, (100, 1, 36, 36), np.uint8)),
    }


@pytest.mark.parametrize("name", ["cartpole", "pendulum", "recurrent", "image"])
def test_a_hundred_observations(tmp_path: Path, name: str) -> None:
    policy, observations = load_agents()[name]
    model = TflitePolicy(policy, tmp_path)
    state: Any = None
    found_state: Any = None
    for step, observation in enumerate(observations):
        start = np.array([step % 25 == 0])
        action, state = policy.predict(observation, state, start, deterministic=True)
        found, found_state = model.predict(observation, found_state, start)
        np.testing.assert_allclose(found, action, 0, 1e-6 if name == "pendulum" else 0)
