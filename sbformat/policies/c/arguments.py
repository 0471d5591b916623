"""The arguments of the function in C: names, types, sizes, and what the header says about each."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final, NamedTuple

from sbformat.known.spaces import DictSpace, Discrete, MultiDiscrete
from sbformat.policies.c.names import escape_comment, name_parameters
from sbformat.policies.c.numbers import C_TYPES
from sbformat.policies.export.interface import NEXT
from sbformat.policies.run.kernels import ELEMENTWISE
from sbformat.values.render import render_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sbformat.known.spaces import Space
    from sbformat.policies.export.interface import Port
    from sbformat.policies.export.lowering import Lowered
    from sbformat.policies.graph import Node

_ORDER: Final = ("observation", "action_masks", "episode_start", "state", "output")
_MEANINGS: Final = {
    "action_masks": "1 for each choice that is allowed, 0 for the others",
    "episode_start": "1 at the first step of an episode, which makes the state zero; else 0",
    "value": "the value of the state of the environment",
    "logits": "the unnormalized logarithms of the probabilities of the choices",
    "probabilities": "the probabilities of the choices",
    "mean": "the mean of the distribution of actions, before it is scaled or clipped to the bounds",
    "log_std": "the logarithm of the standard deviation of the distribution of actions",
    "q_values": "the value of each action, or of the action by each critic",
    "quantiles": "the quantiles of the distribution of returns",
    "scores": "the number of each choice, of which the action has the greatest",
}


class Argument(NamedTuple):
    """An array that the function reads or writes."""

    port: Port
    name: str
    """An identifier: of a parameter, or of a member of the state."""
    size_name: str
    """The macro of its size."""
    meaning: str
    """For a comment."""

    @property
    def type(self) -> str:
        """The type of an item in C."""
        return C_TYPES[self.port.dtype]

    @property
    def size(self) -> int:
        """The number of items."""
        return prod(self.port.shape)

    @property
    def is_output(self) -> bool:
        """Whether the function writes it."""
        return self.port.role == "output"


class Arguments(NamedTuple):
    """All arguments."""

    inputs: tuple[Argument, ...]
    """Without states."""
    states: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    """Without next states."""
    next_states: tuple[Port, ...]
    """For each state, the output with its next value."""


def name_arguments(lowered: Lowered, name: str, observations: Space, actions: Space) -> Arguments:
    """Return the arguments of the function, in order.

    :param name: what the names of macros begin with, in lower case
    """
    inputs = sorted(lowered.inputs, key=lambda port: _ORDER.index(port.role))
    states = [port for port in inputs if port.role == "state"]
    following = {f"{NEXT}{port.name}" for port in states}
    next_states = {port.name: port for port in lowered.outputs if port.name in following}
    outputs = [port for port in lowered.outputs if port.name not in following]
    names = name_parameters([*inputs, *outputs])
    made = [
        Argument(
            port, names[port.name], f"{name}_{names[port.name]}_size".upper(),
            _describe(port, lowered.nodes, observations, actions),
        )
        for port in (*inputs, *outputs)
    ]  # fmt: skip
    return Arguments(
        tuple(item for item in made if item.port.role not in ("state", "output")),
        tuple(item for item in made if item.port.role == "state"),
        tuple(item for item in made if item.is_output),
        tuple(next_states[f"{NEXT}{port.name}"] for port in states),
    )


def _describe(port: Port, nodes: Sequence[Node], observations: Space, actions: Space) -> str:
    if port.role == "observation":
        space = observations.spaces[port.key] if isinstance(observations, DictSpace) and port.key else observations
        axes = _name_axes(port.value, nodes)
        key = "" if port.key is None else f"; key {escape_comment(port.key[:80])}"
        return f"{_describe_space(space)}{axes}{key}"
    if port.name == "action":
        return _describe_space(actions)
    return _MEANINGS.get(port.role if port.role != "output" else port.name, "")


def _describe_space(space: Space) -> str:
    """Return the kind, bounds and choices of a space; choices count from 0, not from ``start`` (POLICIES.md 19.8)."""
    text = escape_comment(render_line(space))
    return f"{text}, counted from 0" if isinstance(space, (Discrete, MultiDiscrete)) else text


def _name_axes(value: str, nodes: Iterable[Node]) -> str:
    """Return the axes of an image, as far as its way to a convolution shows them."""
    reached = {value}
    for node in nodes:
        if node.inputs[0] in reached and len(node.shape) == 3:
            if node.op == "Conv":
                return "; an image: channels, height, width"
            if node.op == "Transpose" and tuple(node.attributes["axes"]) == (2, 0, 1):
                return "; an image: height, width, channels"
            if node.op in ELEMENTWISE:
                reached.add(node.name)
    return ""
