"""The inputs and outputs of an exported policy, with the names that they have in every format.

An observation is ``observation``; of a Dict space each part has the name of its key, or ``observation.KEY`` where
another input or output has that name. A recurrent state is ``hidden``, ``cell``, ``critic_hidden``, ``critic_cell``
(``state`` in Stable Baselines 2) as an input, and ``next_hidden``, ... as an output; of several layers ``hidden.0``,
``hidden.1``, ... The others have the names of the graph: ``action_masks``, ``episode_start``, ``action``, ``value``.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from sbformat.errors import UnsupportedError, quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sbformat.policies.graph import Graph
    from sbformat.policies.operators import Shape

NEXT: Final = "next_"
"""What the names of states begin with as outputs."""


class Port(NamedTuple):
    """An input or output of an exported policy."""

    name: str
    """In the exported file."""
    value: str
    """In the graph."""
    dtype: str
    """numpy's name."""
    shape: Shape
    """Of one item, without the batch."""
    role: Literal["observation", "state", "episode_start", "action_masks", "output"]
    key: str | None = None
    """The key of a Dict observation."""


def name_inputs(graph: Graph, needed: Iterable[str], outputs: Iterable[str]) -> tuple[Port, ...]:
    """Return the inputs of an exported policy: every observation, and what else is needed.

    :param needed: names of inputs of the graph
    :param outputs: the names of all outputs of the file, which no input may have
    :raises UnsupportedError: when keys of a Dict cannot be told from other names
    """
    wanted = set(needed)
    states = name_states(graph)
    others = {item.name for item in graph.inputs if item.role != "observation"} | set(states.values()) | set(outputs)
    made = []
    for item in graph.inputs:
        if item.role != "observation" and item.name not in wanted:
            continue
        name = states.get(item.name, item.name)
        if item.role == "observation":
            name = "observation" if item.key is None else item.key
            if item.key is not None and (name in others or not name):
                name = f"observation.{name}"
        made.append(Port(name, item.name, item.dtype, item.shape, item.role, item.key))
    require_distinct([*(port.name for port in made), *outputs])
    return tuple(made)


def name_states(graph: Graph) -> Mapping[str, str]:
    """Return the name in the file of each state that is an input, by its name in the graph."""
    counts = Counter(state.name for state in graph.states)
    seen: Counter[str] = Counter()
    made = {}
    for state in graph.states:
        made[state.input] = state.name if counts[state.name] == 1 else f"{state.name}.{seen[state.name]}"
        seen[state.name] += 1
    return made


def require_distinct(names: Iterable[str]) -> None:
    """Refuse two inputs or outputs of one name.

    :raises UnsupportedError: with the name
    """
    for name, count in Counter(names).items():
        if count > 1:
            message = f"expected inputs and outputs of different names, got {quote(name, 80)} twice"
            raise UnsupportedError(message)
