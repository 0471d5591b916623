"""An exported policy with the interface of ``sbformat.Policy``, so that the same checks run on both."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sbformat.known.spaces import DictSpace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sbformat import Policy
    from sbformat.policies.export.files import ExportReport, Port

ACTION: Final = "action"
_CRITIC: Final = "critic_"


class ExportedPolicy(ABC):
    """What ``predict`` and ``outputs`` of a policy return, computed by an exported file.

    The file has an input for each layer of a state; ``Policy`` has one array for all. An LSTM's next states are
    returned by ``outputs`` too, if the file has them.

    :param policy: that was exported
    :param report: of the export
    """

    def __init__(self, policy: Policy, report: ExportReport) -> None:
        self.policy, self.report = policy, report
        self.graph, self.algorithm = policy.graph, policy.algorithm
        self.observation_space, self.action_space = policy.observation_space, policy.action_space
        self._ports: dict[str, list[Port]] = {}
        for port in report.inputs:
            self._ports.setdefault(port.role, []).append(port)

    @abstractmethod
    def run(self, inputs: Mapping[str, np.ndarray], count: int) -> dict[str, np.ndarray]:
        """Compute the outputs of a batch, by name.

        :param inputs: arrays with a batch axis, by the name of the port, of its dtype
        """

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,  # noqa: FBT001, FBT002 -- the interface of Policy
        *,
        action_masks: Any = None,
    ) -> tuple[np.ndarray, Any]:
        assert deterministic
        inputs, count, is_batched = self._read(observation, state, episode_start, action_masks)
        found = self.run(inputs, count)
        names = [name for name in self._state_names() if not name.startswith(_CRITIC)]
        if names:
            parts = [self._stack(found, name) for name in names]
            state = parts[0] if names == ["state"] else tuple(parts)
        action = found[ACTION].astype(self.graph.output(ACTION).dtype, copy=False)
        return (action if is_batched else action[0, ...]), state

    def outputs(
        self, observation: Any, state: Any = None, episode_start: Any = None, action_masks: Any = None
    ) -> dict[str, np.ndarray]:
        inputs, count, is_batched = self._read(observation, state, episode_start, action_masks)
        found = self.run(inputs, count)
        names = [port.name for port in self.report.outputs if port.name in self.graph.outputs]
        made = {name: found[name] if is_batched else found[name][0] for name in names}
        made.update({name: self._stack(found, name) for name in self._state_names()})
        return made

    def _state_names(self) -> list[str]:
        return list(dict.fromkeys(port.name.partition(".")[0] for port in self._ports.get("state", ())))

    def _layers(self, name: str) -> list[Port]:
        return [port for port in self._ports["state"] if port.name.partition(".")[0] == name]

    def _stack(self, found: Mapping[str, np.ndarray], name: str) -> np.ndarray:
        parts = [found[f"next_{port.name}"] for port in self._layers(name)]
        return parts[0] if name == "state" else np.stack(parts)

    def _read(
        self, observation: Any, state: Any, episode_start: Any, action_masks: Any
    ) -> tuple[dict[str, np.ndarray], int, bool]:
        inputs: dict[str, np.ndarray] = {}
        is_batched = False
        for port in self._ports["observation"]:
            is_dict = isinstance(self.observation_space, DictSpace)
            array = _move_channels(np.asarray(observation[port.key] if is_dict else observation), port.shape)
            is_batched = is_batched or array.ndim > len(port.shape)
            inputs[port.name] = array if array.ndim > len(port.shape) else array[None]
        count = len(next(iter(inputs.values())))
        for role, value, default in (("action_masks", action_masks, 1), ("episode_start", episode_start, 0)):
            for port in self._ports.get(role, ()):
                given = np.full((count, *port.shape), default) if value is None else np.asarray(value)
                inputs[port.name] = given.reshape(count, *port.shape)
        inputs.update(self._read_states(state, count))
        dtypes = {port.name: port.dtype for port in self.report.inputs}
        return {name: np.ascontiguousarray(array, dtypes[name]) for name, array in inputs.items()}, count, is_batched

    def _read_states(self, state: Any, count: int) -> dict[str, np.ndarray]:
        names = self._state_names()
        if not names:
            return {}
        parts: Sequence[Any] = [state] if names == ["state"] else state
        actors = [name for name in names if not name.startswith(_CRITIC)]
        given = {} if state is None else dict(zip(names if len(parts) > len(actors) else actors, parts))
        made = {}
        for name in names:
            part = given.get(name, given.get(name.removeprefix(_CRITIC)))
            for at, port in enumerate(self._layers(name)):
                zero = np.zeros((count, *port.shape), np.float32)
                made[port.name] = zero if part is None else np.asarray(part if name == "state" else part[at])
        return made


def _move_channels(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """An image with the channels last as the file takes it, which does not move them."""
    if len(shape) == 3 and array.shape[-3:] != shape == (array.shape[-1], *array.shape[-3:-1]):
        return np.moveaxis(array, -1, -3)
    return array
