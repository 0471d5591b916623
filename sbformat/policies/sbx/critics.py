"""The critics of SBX: the value of an observation, or of the deterministic action for each critic."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

from sbformat.errors import SbformatError, ValidationError
from sbformat.policies.sbx.agents import open_branch
from sbformat.policies.sbx.networks import CRITICS, add_layers

if TYPE_CHECKING:
    from sbformat.formats.sbx.modules import Module
    from sbformat.policies.builder import Value
    from sbformat.policies.sbx.agents import Agent
    from sbformat.policies.sbx.branches import Branch

_QUANTILES: Final = "TQC"
_OWN_STATES: Final = ("qf1_state", "qf2_state")
"""The states of TQC's critics, which are not one array."""
_VECTOR: Final = "Vmap"
"""What the name of a module of several critics begins with."""
_MOST_CRITICS: Final = 256


def add_critics(agent: Agent, action: Value | None) -> dict[str, Value]:
    """Add the outputs of the critics; none for a class that is not known.

    A critic that does not fit does not matter for an action: it is left out, and the graph says so.

    :param agent: what the graph is made of
    :param action: the deterministic action before it is scaled to the bounds; None for a critic of observations
    """
    name = "vf" if "vf" in agent.modules else "qf"
    module = agent.modules.get(name)
    if module is None or module.pair not in CRITICS or (name == "qf" and action is None):
        return {}
    try:
        if action is None:
            branch = open_branch(agent, "vf_state", module)
            return {"value": _add_critic(branch, module, agent.observation, "value")}
        return _add_action_values(agent, module, _join(agent, action))
    except SbformatError as error:
        agent.builder.infer(f"{name}: the critic is left out: {error.message}")
        return {}


def _join(agent: Agent, action: Value) -> Value:
    """Concatenate the observation and the action."""
    flat = agent.observation
    if len(flat.shape) != 1:
        flat = agent.builder.add("Reshape", flat, shape=(prod(flat.shape),), module="qf_state")
    return agent.builder.add("Concat", flat, action, axis=-1, module="qf_state")


def _add_action_values(agent: Agent, module: Module, seen: Value) -> dict[str, Value]:
    """Add the values of all critics; of TQC their quantiles too."""
    builder = agent.builder
    values = [_add_critic(branch, module, seen, "") for branch in _list_branches(agent, module)]
    if agent.archive.algorithm.name != _QUANTILES:
        return {"q_values": builder.add("Concat", *values, axis=-1, name="q_values", module="qf")}
    rows = [builder.add("Reshape", value, shape=(1, *value.shape), module="qf") for value in values]
    quantiles = builder.add("Concat", *rows, axis=-2, name="quantiles", module="qf")
    mean = builder.add("ReduceMean", quantiles, axis=-1, name="q_values", module="qf")
    return {"q_values": mean, "quantiles": quantiles}


def _list_branches(agent: Agent, module: Module) -> list[Branch]:
    """Return the branch of each critic.

    :raises ValidationError: if there is none, or more than any agent has
    """
    tensors = agent.weights.tensors
    states = [state for state in _OWN_STATES if any(name.startswith(f"{state}/") for name in tensors)]
    if states:
        return [open_branch(agent, state, module) for state in states]
    vector = open_branch(agent, "qf_state", module)
    start = vector.path_of(_VECTOR)
    name = next((name for name in tensors if name.startswith(start)), None)
    count = tensors[name].shape[0] if name is not None and tensors[name].shape else 0
    if name is None or not 1 <= count <= _MOST_CRITICS:
        message = f"expected from 1 to {_MOST_CRITICS} critics in one array, got {count:,}"
        raise ValidationError(message)
    child = name.removeprefix(vector.path_of("")).partition("/")[0]
    return [vector.child(child)._replace(critic=number) for number in range(count)]


def _add_critic(branch: Branch, module: Module, value: Value, name: str) -> Value:
    hidden, last = add_layers(branch, CRITICS[module.pair], module, value, 1)
    return branch.dense(last[0], hidden, name=name)
