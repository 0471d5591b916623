"""A policy that was exported as PyTorch, with the interface of ``sbformat.Policy``."""

from __future__ import annotations

import importlib.util
import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from .exported_policy import ACTION, ExportedPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat import ExportReport, Policy

_NUMBERS = itertools.count()


def load_module(path: Path | str) -> Any:
    """Import a file."""
    spec = importlib.util.spec_from_file_location(f"exported_policy_{next(_NUMBERS)}", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class TorchPolicy(ExportedPolicy):
    """What a module computes, with the interface of ``Policy``.

    :param path: of the Python file, whose weights are beside it
    :param transform: of the module, such as ``torch.jit.script``
    """

    def __init__(self, policy: Policy, path: Path | str, report: ExportReport, transform: Any = None) -> None:
        super().__init__(policy, report)
        made = load_module(path).Policy.load(str(Path(path).with_suffix(".safetensors")))
        self.module = made if transform is None else transform(made)

    def arguments(self, inputs: Mapping[str, np.ndarray]) -> list[Any]:
        """Return the tensors that ``forward`` takes."""
        tensors = {name: torch.from_numpy(np.array(array)) for name, array in inputs.items()}
        observations = {port.key: tensors[port.name] for port in self._ports["observation"]}
        made: list[Any] = [observations.get(None, observations)]
        made += [tensors[port.name] for port in self._ports.get("action_masks", ())]
        if names := self._state_names():
            parts = [[tensors[port.name] for port in self._layers(name)] for name in names]
            made.append(parts[0][0] if names == ["state"] else tuple(torch.stack(part) for part in parts))
        return made + [tensors[port.name] for port in self._ports.get("episode_start", ())]

    def run(self, inputs: Mapping[str, np.ndarray], count: int) -> dict[str, np.ndarray]:
        del count
        arguments = self.arguments(inputs)
        with torch.no_grad():
            outputs = self.module(*arguments)
        action = self.module.act(*arguments)
        names = self._state_names()
        requested = [port.name for port in self.report.outputs if port.name in self.graph.outputs]
        found = {name: getattr(outputs, name).detach() for name in requested if name != ACTION}
        if names:
            action, state = action
            for at, name in enumerate(names):
                part = state if names == ["state"] else state[at]
                rows = [part] if names == ["state"] else part
                found.update({f"next_{port.name}": row for port, row in zip(self._layers(name), rows)})
        found[ACTION] = action
        return {name: tensor.numpy() for name, tensor in found.items()}
