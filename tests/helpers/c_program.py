"""A policy in C with the interface of ``sbformat.Policy``: the program that ``-DNAME_MAIN`` makes of its file.

Sanitizers work in a program, and only with effort in a library that Python loads.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tests.helpers.c_policy import C99, compile_c
from tests.helpers.exported_policy import ExportedPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sbformat import ExportReport, Policy

SANITIZERS: Final = ("-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
_ORDER: Final = ("observation", "action_masks", "episode_start")


class CProgram(ExportedPolicy):
    """A policy that ``export_c`` wrote, with the name ``policy``. One process computes a batch.

    It keeps its state from one observation to the next, so each observation of a batch begins an episode.

    :param policy: that was exported
    :param c_path: the C file
    :param report: of the export
    """

    def __init__(
        self, policy: Policy, c_path: Path, report: ExportReport, compiler: str = "gcc",
        flags: Sequence[str] = SANITIZERS,
    ) -> None:  # fmt: skip
        super().__init__(policy, report)
        program = c_path.with_suffix(".program")
        self.program = compile_c([c_path], program, compiler, (*C99, "-DPOLICY_MAIN", *flags))
        self._inputs = [port for role in _ORDER for port in report.inputs if port.role == role]
        states = {f"next_{port.name}" for port in report.inputs if port.role == "state"}
        self._states = [port for port in report.outputs if port.name in states]
        self._outputs = [port for port in report.outputs if port.name not in states]

    def outputs(self, *args: Any, **kwargs: Any) -> dict[str, np.ndarray]:
        """The outputs; a program does not print states."""
        return {name: value for name, value in super().outputs(*args, **kwargs).items() if name in self.graph.outputs}

    def run(self, inputs: Mapping[str, np.ndarray], count: int) -> dict[str, np.ndarray]:
        starts = {"episode_start": np.ones((count, 1), np.float32)} if self._states else {}
        states = {port.name: np.zeros((count, *port.shape), port.dtype) for port in self._states}
        return {**self._print({**inputs, **starts}), **states}

    def run_episodes(self, observations: Any, starts: np.ndarray) -> dict[str, np.ndarray]:
        """Compute the outputs of observations one after another, with the state that each of them leaves.

        :param starts: whether an observation begins an episode
        """
        return self._print(self._read(observations, None, starts, None)[0])

    def _print(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        columns = [inputs[port.name].reshape(len(inputs[port.name]), -1) for port in self._inputs]
        lines = [" ".join(f"{number:.17g}" for part in row for number in part) for row in zip(*columns)]
        made = subprocess.run([self.program], input="\n".join(lines), capture_output=True, text=True, check=False)
        assert (made.returncode, made.stderr) == (0, ""), made.stderr[:5000]
        rows = [np.array(line.split(), np.float64) for line in made.stdout.splitlines()]
        table = np.array(rows).reshape(len(lines), sum(int(np.prod(port.shape)) for port in self._outputs))
        found, at = {}, 0
        for port in self._outputs:
            size = int(np.prod(port.shape))
            found[port.name] = table[:, at : at + size].reshape(len(lines), *port.shape).astype(port.dtype)
            at += size
        return found
