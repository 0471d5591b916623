"""Exports for tests: of policies to a file of a folder, and of graphs in memory; both opened in onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sbformat
from sbformat.policies.onnx import translate, write_model
from tests.helpers.onnx_policy import OnnxPolicy, open_session
from tests.policies.run.graphs import lower_graph

if TYPE_CHECKING:
    import numpy as np

    from sbformat.policies.graph import Graph


def export(policy: sbformat.Policy, folder: Path, **options: Any) -> OnnxPolicy:
    """Export all outputs of a policy, or those that are given, and return what the model computes."""
    options.setdefault("outputs", list(policy.graph.outputs))
    path = folder / "policy.onnx"
    report = sbformat.export_onnx(policy, path, overwrite=True, **options)
    return OnnxPolicy(policy, path, report)


def run_model(graph: Graph, inputs: Mapping[str, np.ndarray], opset: int, batch: int | None = None) -> list[np.ndarray]:
    """Run a graph in onnxruntime."""
    lowered = lower_graph(graph)
    content = write_model(lowered, translate(lowered, opset, batch), batch or "batch")
    found: list[np.ndarray] = open_session(content).run(list(graph.outputs), dict(inputs))
    return found
