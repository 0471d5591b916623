"""ONNX exports that onnx2tf converts to TensorFlow Lite compute what ``Policy`` and the recorded libraries compute.

``nox -s tflite`` installs onnx2tf and runs this.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import sbformat
from tests.helpers.bundled import ARCHIVES, PPO, SAC
from tests.helpers.exported_policy import ExportedPolicy
from tests.helpers.policy_vectors import VECTORS, assert_predictions, load_vector

interpreter = pytest.importorskip("ai_edge_litert.interpreter")
pytest.importorskip("onnx2tf")

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

TOLERANCE: Final = 1e-5


class TflitePolicy(ExportedPolicy):
    """A policy that is exported, converted, and run by the interpreter: one observation after another.

    :param folder: where the files are written
    """

    def __init__(self, policy: sbformat.Policy, folder: Path) -> None:
        report = sbformat.export_onnx(policy, folder / "policy.onnx", outputs=list(policy.graph.outputs))
        super().__init__(policy, report)
        names = [port.name for port in report.inputs]
        subprocess.run(  # in a process of its own: after some conversions onnx2tf fails in the same one
            [sys.executable, "-m", "onnx2tf", "-n", "-kat", *names, "-i", "policy.onnx", "-o", "lite"],
            cwd=folder, check=True, capture_output=True, timeout=500,
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
