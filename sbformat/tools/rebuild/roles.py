"""Which classes SB3 may call in which role, and the arguments that they accept (REBUILDING.md 15.1).

A class that is known in another role is not known here: ``torch.optim.Adam`` as an activation is as unknown as a custom
class.
Sources: SB3 and sb3-contrib 2.0 to 2.9: ``common/buffers.py``, ``her/her_replay_buffer.py``,
``common/torch_layers.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.errors import UnsupportedError, escape
from sbformat.known.algorithms import ALGORITHMS
from sbformat.known.table import current_name, find, list_place
from sbformat.known.types import CarriedClass, Function, Instance, Module, Partial, Reference, Schedule
from sbformat.nets.layers import ACTIVATIONS
from sbformat.pkl.tree import Node
from sbformat.tools.rebuild.encode import iter_parts
from sbformat.tools.rebuild.optimizer_options import OPTIMIZERS, fits_option
from sbformat.values.render import render_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.pkl.names import Pair

EXTRACTORS: Final = {pair: row.arguments for pair, row in list_place("features_extractor_class").items()}
"""Features extractors, with their arguments other than the space, and the defaults; None for a flag."""
REPLAY_BUFFERS: Final = {pair: frozenset(row.arguments) for pair, row in list_place("replay_buffer_class").items()}
"""Replay buffers, with their arguments other than those that the algorithm passes."""

_ROLLOUT_BUFFERS: Final = {
    row.name: (
        row.classes.module.removesuffix("policies") + "buffers",
        row.policies[next(iter(row.policies))][1].removesuffix("ActorCriticPolicy"),
    )
    for row in ALGORITHMS.values()
    if row.kind == "actor_critic"
}
"""The module of an algorithm's rollout buffers, and the prefix of their names; they have no other arguments."""

_ROLES: Final[Mapping[str, frozenset[Pair]]] = {
    "features_extractor_class": frozenset(EXTRACTORS),
    "optimizer_class": frozenset(OPTIMIZERS),
    "activation_fn": frozenset(ACTIVATIONS),
}
CLASS_ARGUMENTS: Final = frozenset(_ROLES)
"""Arguments of policies that are classes."""

_CALLABLES: Final = (Reference, Function, Partial, CarriedClass, Module, Instance, Schedule, Node)


def list_buffers(role: str, algorithm: str, *, is_dict: bool) -> frozenset[Pair]:
    """Return the buffer classes that an algorithm can use.

    :param role: ``replay_buffer_class`` or ``rollout_buffer_class``
    :param algorithm: its name
    :param is_dict: whether the observation space is a Dict
    """
    if role == "rollout_buffer_class":
        if algorithm not in _ROLLOUT_BUFFERS:
            return frozenset()
        module, prefix = _ROLLOUT_BUFFERS[algorithm]
        return frozenset({(module, f"{prefix}{'Dict' if is_dict else ''}RolloutBuffer")})
    return frozenset(pair for pair in REPLAY_BUFFERS if (pair[1] in ("DictReplayBuffer", "HerReplayBuffer")) == is_dict)


def check_role(role: str, value: object, allowed: frozenset[Pair]) -> None:
    """Check that an argument of a policy is a class that SB3 may call in its role, or a partial of one.

    :param role: one of :data:`CLASS_ARGUMENTS`
    :param allowed: names that the caller trusts
    :raises UnsupportedError: when it is anything else
    """
    function = value.function if isinstance(value, Partial) else value
    if not isinstance(function, Reference):
        message = f"expected a class, got {escape(render_line(value), 200)}"
        raise UnsupportedError(message)
    if function.pair in allowed:
        return
    if current_name(function.pair) not in _ROLES[role]:
        message = f"{escape(str(function), 200)} is not one of the classes known for {role}"
        raise UnsupportedError(message)
    if isinstance(value, Partial) and not _has_known_arguments(role, current_name(function.pair), value):
        message = f"a partial of {function} with arguments that the class does not have"
        raise UnsupportedError(message)


def check_plain(value: object, allowed: frozenset[Pair], *, is_foreign: bool) -> None:
    """Check that an argument contains nothing that can be called, except what is trusted.

    :param allowed: names that the caller trusts
    :param is_foreign: whether it is an argument of a custom class, which may be a layer, an optimizer or a dtype
    :raises UnsupportedError: for the first thing that can be called
    """
    for part in iter_parts(value, (), with_keys=True):
        if not isinstance(part, _CALLABLES):
            continue
        if isinstance(part, Reference) and (part.pair in allowed or (is_foreign and _is_harmless(part.pair))):
            continue
        if isinstance(part, Partial) and isinstance(part.function, Reference):
            continue  # its function and arguments are parts of their own
        message = f"{escape(render_line(part), 200)} can be called, and is not known in this role"
        raise UnsupportedError(message)


def _is_harmless(pair: Pair) -> bool:
    """Return whether a name only makes a layer, an optimizer or a number when it is called."""
    is_in_role = any(pair in classes for classes in _ROLES.values())
    return is_in_role or not find(pair).uses.isdisjoint(_NUMBERS)


_NUMBERS: Final = frozenset({"dtype", "number"})


def _has_known_arguments(role: str, pair: Pair, partial: Partial) -> bool:
    """Return whether the arguments of a partial are ones that the class has, other than those that SB3 passes."""
    if role == "activation_fn":
        names = ACTIVATIONS[pair]
        given = {*names[: len(partial.args)], *partial.keywords}
        is_fit = len(given) == len(partial.args) + len(partial.keywords) and given <= set(names)
        values = (*partial.args, *partial.keywords.values())
        return is_fit and all(type(value) in (bool, int, float) or value in ("none", "tanh") for value in values)
    if role != "optimizer_class":  # SB3 calls issubclass() with an extractor
        return False
    known = OPTIMIZERS[pair].arguments
    return not partial.args and all(
        name in known and fits_option(name, value, known[name]) for name, value in partial.keywords.items()
    )
