"""Exports for tests: to a file of a folder, then opened in onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sbformat
from tests.helpers.onnx_policy import OnnxPolicy


def export(policy: sbformat.Policy, folder: Path, **options: Any) -> OnnxPolicy:
    """Export all outputs of a policy, or those that are given, and return what the model computes."""
    options.setdefault("outputs", list(policy.graph.outputs))
    path = folder / "policy.onnx"
    report = sbformat.export_onnx(policy, path, overwrite=True, **options)
    return OnnxPolicy(policy, path, report)
