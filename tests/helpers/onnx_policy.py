"""A policy that was exported as an ONNX model, run by onnxruntime on one thread."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import onnxruntime

from .exported_policy import ExportedPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy as np

    from sbformat import ExportReport, Policy


def open_session(model: str | Path | bytes) -> onnxruntime.InferenceSession:
    """A session on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    source = model if isinstance(model, bytes) else os.fspath(model)
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


class OnnxPolicy(ExportedPolicy):
    """What a model computes, with the interface of ``Policy``.

    :param model: the path or the bytes
    """

    def __init__(self, policy: Policy, model: str | Path | bytes, report: ExportReport) -> None:
        super().__init__(policy, report)
        self.session = open_session(model)
        self._names = [port.name for port in report.outputs]

    def run(self, inputs: Mapping[str, np.ndarray], count: int) -> dict[str, np.ndarray]:
        return dict(zip(self._names, self.session.run(self._names, dict(inputs))))
