"""A policy that was exported as a graph, run by the interpreter of docs/export/other.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sbformat.policies.export.files import NEXT, name_states

from .exported_policy import ExportedPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from sbformat import ExportReport, Policy


class GraphPolicy(ExportedPolicy):
    """What an interpreter computes, with the interface of ``Policy``.

    :param interpreter: with the method ``run`` of the page
    :param report: of ``export_graph``. Its names are those of the graph; here they are those of the other exports
    """

    def __init__(self, policy: Policy, interpreter: Any, report: ExportReport) -> None:
        names = name_states(policy.graph)
        inputs = tuple(port._replace(name=names.get(port.value, port.name)) for port in report.inputs)
        super().__init__(policy, report._replace(inputs=inputs))
        self._interpreter = interpreter

    def run(self, inputs: Mapping[str, np.ndarray], count: int) -> dict[str, np.ndarray]:
        outputs, states = self._interpreter.run({port.value: inputs[port.name] for port in self.report.inputs})
        names = {port.value: port.name for port in self.report.inputs}
        return {**outputs, **{f"{NEXT}{names[value]}": array for value, array in states.items()}}
