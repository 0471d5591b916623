"""A policy in JavaScript with the interface of ``sbformat.Policy``: many observations in one process of node."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from sbformat.policies.javascript.export import ARRAYS
from sbformat.policies.javascript.export import __file__ as export_file

from .exported_policy import ExportedPolicy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sbformat import ExportReport, Policy

PROGRAM: Final = Path(__file__).with_name("run_policies.mjs")
RUNTIME: Final = Path(export_file).with_name("runtime.js")
FORMS: Final = ("nested", "float64", "float32")
"""How observations are given: as nested arrays, or as a typed array."""
_OPTIONS: Final = {"action_masks": "mask", "episode_start": "episodeStart"}


class Node:
    """A process of node that runs policies, one request at a time; without node, the test is skipped."""

    def __init__(self) -> None:
        if shutil.which("node") is None:
            pytest.skip("node is not installed")
        self._process = subprocess.Popen(
            ["node", PROGRAM, RUNTIME], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def request(self, source: Path | Mapping[str, Any], **wanted: Sequence[Any]) -> list[Any]:
        """Return the results of ``calls`` or ``expressions``; an error is a text.

        :param source: the path of a module, or a program
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        what = {"module": str(source)} if isinstance(source, Path) else {"program": source}
        self._process.stdin.write(f"{json.dumps({**what, **wanted})}\n")
        self._process.stdin.flush()
        results: list[Any] = json.loads(self._process.stdout.readline())
        return results

    def evaluate(self, source: Path | Mapping[str, Any], *expressions: str) -> list[str]:
        """Return the texts of expressions in JavaScript; what a module exports is in their scope."""
        return self.request(source, expressions=expressions)

    def close(self) -> None:
        """End the process."""
        self._process.communicate(timeout=500)


def run_node() -> Iterator[Node]:
    """Yield a process: the body of a fixture."""
    node = Node()
    yield node
    node.close()


class JavaScriptPolicy(ExportedPolicy):
    """A policy that ``export_javascript`` wrote.

    :param source: the path of the module
    :param report: of the export
    """

    def __init__(self, policy: Policy, node: Node, source: Path, report: ExportReport) -> None:
        super().__init__(policy, report)
        self._node, self._source = node, source
        self._states = {port.name.removeprefix("next_") for port in report.outputs} & {
            port.name for port in report.inputs
        }

    def run(self, inputs: Mapping[str, np.ndarray], count: int) -> dict[str, np.ndarray]:
        calls = [self._make_call(inputs, row) for row in range(count)]
        results = self._node.request(self._source, calls=calls)
        for result in results:
            assert isinstance(result, dict), result
        made = {}
        for port in self.report.outputs:
            is_state = port.name.removeprefix("next_") in self._states
            rows = [
                result["state"][port.name.removeprefix("next_")] if is_state else result["outputs"][port.name]
                for result in results
            ]
            assert {row["type"] for row in rows} <= {ARRAYS[port.dtype] if port.shape else "Number"}
            items = np.stack([np.frombuffer(base64.b64decode(row["data"])) for row in rows])
            made[port.name] = items.astype(port.dtype).reshape(count, *port.shape)
        return made

    def _make_call(self, inputs: Mapping[str, np.ndarray], row: int) -> dict[str, Any]:
        form = FORMS[row % len(FORMS)]
        parts: dict[str | None, Any] = {}
        options: dict[str, Any] = {}
        for port in self.report.inputs:
            array = encode_array(inputs[port.name][row], form)
            if port.role == "observation":
                parts[port.key] = array
            elif port.role == "state":
                options.setdefault("state", {})[port.name] = array
            else:
                options[_OPTIONS[port.role]] = array
        return {"observation": parts.get(None, parts), "options": options}


def encode_array(array: np.ndarray, form: str = "nested") -> dict[str, Any]:
    """Return an array as the program reads it."""
    data = base64.b64encode(np.asarray(array, np.float64).tobytes()).decode("ascii")
    # float32 does not have the numbers of a form that is exact
    is_narrow = form == "float32" and array.dtype in (np.float32, np.uint8, np.int8, np.bool_)
    return {"data": data, "shape": list(array.shape), "form": form if is_narrow or form == "nested" else "float64"}
