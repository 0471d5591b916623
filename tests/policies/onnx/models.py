"""Exports for tests: of policies to a file of a folder, and of graphs in memory; both opened in onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sbformat
from sbformat.limits import Budget
from sbformat.policies.export.interface import Port
from sbformat.policies.export.lowering import Lowered
from sbformat.policies.onnx.model import write_model
from sbformat.policies.onnx.translate import translate
from sbformat.policies.run.program import fold_nodes
from sbformat.policies.run.weights import Weights
from tests.helpers.onnx_policy import OnnxPolicy, open_session

if TYPE_CHECKING:
    import numpy as np

    from sbformat.policies.graph import Graph


def export(policy: sbformat.Policy, folder: Path, **options: Any) -> OnnxPolicy:
    """Export all outputs of a policy, or those that are given, and return what the model computes."""
    options.setdefault("outputs", list(policy.graph.outputs))
    path = folder / "policy.onnx"
    report = sbformat.export_onnx(policy, path, overwrite=True, **options)
    return OnnxPolicy(policy, path, report)


def lower_graph(graph: Graph) -> Lowered:
    """Return a graph that no file contains, as ``lower`` returns that of a policy; nothing is narrowed."""
    weights = Weights(graph, Budget())
    constants = {name: weights[name] for name in graph.weights}
    nodes = fold_nodes(graph.nodes, constants)
    described = {item.name: (item.dtype, item.shape) for item in (*graph.inputs, *graph.nodes)}
    described |= {name: (array.dtype.name, array.shape) for name, array in constants.items()}
    inputs = tuple(Port(item.name, item.name, item.dtype, item.shape, item.role) for item in graph.inputs)
    outputs = tuple(Port(name, value, *described[value], "output") for name, value in graph.outputs.items())
    return Lowered(inputs, outputs, nodes, constants, {"sbformat_version": "0"})


def run_model(graph: Graph, inputs: Mapping[str, np.ndarray], opset: int, batch: int | None = None) -> list[np.ndarray]:
    """Run a graph in onnxruntime."""
    lowered = lower_graph(graph)
    content = write_model(lowered, translate(lowered, opset, batch), batch or "batch")
    found: list[np.ndarray] = open_session(content).run(list(graph.outputs), dict(inputs))
    return found
