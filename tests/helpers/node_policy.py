"""A policy that was exported as an ONNX model, run by onnxruntime-node or onnxruntime-web."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from .exported_policy import ExportedPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat import ExportReport, Policy

NODE_MODULES: Final = os.environ.get("SBFORMAT_NODE_MODULES")
"""A folder with the packages onnxruntime-node and onnxruntime-web; ``nox -s export_pages`` makes one."""
PACKAGES: Final = ("onnxruntime-node", "onnxruntime-web")
"""The second one is WebAssembly, as in a browser."""
PROGRAM: Final = Path(__file__).with_name("run_models.mjs")


class Node:
    """A node process that runs models, one request at a time.

    :param package: one of :data:`PACKAGES`
    """

    def __init__(self, package: str) -> None:
        assert NODE_MODULES is not None
        self._process = subprocess.Popen(
            ["node", PROGRAM, NODE_MODULES, package],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8",
        )  # fmt: skip

    def run(self, model: Path, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Compute the outputs of a model."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"model": str(model), "inputs": {name: _encode(array) for name, array in inputs.items()}}
        self._process.stdin.write(f"{json.dumps(request)}\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert "error" not in answer, answer["error"]
        return {name: _decode(value) for name, value in answer["outputs"].items()}

    def close(self) -> None:
        """End the process."""
        self._process.communicate(timeout=500)


class NodePolicy(ExportedPolicy):
    """What a model computes in node, with the interface of ``Policy``."""

    def __init__(self, policy: Policy, node: Node, model: Path, report: ExportReport) -> None:
        super().__init__(policy, report)
        self._node, self._model = node, model

    def run(self, inputs: Mapping[str, np.ndarray], count: int) -> dict[str, np.ndarray]:
        return self._node.run(self._model, inputs)


def _encode(array: np.ndarray) -> dict[str, Any]:
    data = base64.b64encode(array.tobytes()).decode("ascii")
    return {"dtype": array.dtype.name, "shape": list(array.shape), "data": data}


def _decode(value: Mapping[str, Any]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(value["data"]), value["dtype"]).reshape(value["shape"])
