"""Which known classes SB3 may call in which role, and the arguments that they take (FORMAT.md 15.1).

A name that is known elsewhere is not known here: ``torch.optim.Adam`` as an activation is as foreign as a user's class.
Sources: SB3 and sb3-contrib 2.0 to 2.9: ``common/buffers.py``, ``her/her_replay_buffer.py``,
``common/torch_layers.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.errors import UnsupportedError, escape
from sbformat.globals.references import NUMPY
from sbformat.globals.renamed import current_name
from sbformat.globals.torch import DTYPES
from sbformat.pkl.tree import Node
from sbformat.policies.activations import ACTIVATIONS
from sbformat.policies.extractors import COMBINED, FLATTEN, NATURE
from sbformat.tools.rebuild.encode import parts
from sbformat.tools.rebuild.optimizer_options import OPTIMIZERS, fits_option, keywords_of
from sbformat.values.render import render_line
from sbformat.values.types import (
    CarriedClass,
    Function,
    Instance,
    Module,
    Partial,
    Reference,
    Schedule,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.globals.torch import Pair

_BUFFERS: Final = "stable_baselines3.common.buffers"
_MASKABLE: Final = "sb3_contrib.common.maskable.buffers"
_RECURRENT: Final = "sb3_contrib.common.recurrent.buffers"


EXTRACTORS: Final[Mapping[Pair, Mapping[str, object]]] = {
    FLATTEN: {},
    NATURE: {"features_dim": 512, "normalized_image": None},
    COMBINED: {"cnn_output_dim": 256, "normalized_image": None},
}
"""Features extractors, with the arguments they take besides the space and their defaults; None for a flag."""

_TIMEOUTS: Final = frozenset({"handle_timeout_termination"})
HER_BUFFER: Final[Pair] = ("stable_baselines3.her.her_replay_buffer", "HerReplayBuffer")
NSTEP_BUFFER: Final[Pair] = (_BUFFERS, "NStepReplayBuffer")
REPLAY_BUFFERS: Final[Mapping[Pair, frozenset[str]]] = {
    (_BUFFERS, "ReplayBuffer"): _TIMEOUTS,
    (_BUFFERS, "DictReplayBuffer"): _TIMEOUTS,
    NSTEP_BUFFER: _TIMEOUTS | {"n_steps", "gamma"},
    HER_BUFFER: _TIMEOUTS | {"n_sampled_goal", "goal_selection_strategy", "copy_info_dict"},
}
"""Replay buffers, with the arguments they take besides those that the algorithm gives them."""

_ROLLOUT_BUFFERS: Final[Mapping[str, tuple[str, str]]] = {
    **dict.fromkeys(("PPO", "A2C", "TRPO"), (_BUFFERS, "")),
    "MaskablePPO": (_MASKABLE, "Maskable"),
    "RecurrentPPO": (_RECURRENT, "Recurrent"),
}
"""The module of an algorithm's rollout buffers, and how their names begin; they take no further arguments."""

_ROLES: Final[Mapping[str, frozenset[Pair]]] = {
    "features_extractor_class": frozenset(EXTRACTORS),
    "optimizer_class": frozenset(OPTIMIZERS),
    "activation_fn": frozenset(ACTIVATIONS),
}
CLASS_ARGUMENTS: Final = frozenset(_ROLES)
"""Arguments of policies that take a class."""

_PLAIN_NAMES: Final = (
    frozenset().union(*_ROLES.values())
    | DTYPES.keys()
    | frozenset(("numpy", name) for name in NUMPY["numpy"].split() if name not in ("dtype", "ndarray"))
)
"""Names that do nothing but make a layer, an optimizer or a number, whoever calls them."""
_CALLABLES: Final = (Reference, Function, Partial, CarriedClass, Module, Instance, Schedule, Node)


def buffers_of(role: str, algorithm: str, *, is_dict: bool) -> frozenset[Pair]:
    """Return the buffer classes that an algorithm can have.

    :param role: ``replay_buffer_class`` or ``rollout_buffer_class``
    :param algorithm: that has the buffer
    :param is_dict: whether the observation space is a Dict
    """
    if role == "rollout_buffer_class":
        if algorithm not in _ROLLOUT_BUFFERS:
            return frozenset()
        module, prefix = _ROLLOUT_BUFFERS[algorithm]
        return frozenset({(module, f"{prefix}{'Dict' if is_dict else ''}RolloutBuffer")})
    return frozenset(pair for pair in REPLAY_BUFFERS if (pair[1] in ("DictReplayBuffer", "HerReplayBuffer")) == is_dict)


def check_role(role: str, value: object, allowed: frozenset[Pair]) -> None:
    """Check that an argument of a policy is a class that SB3 can call in its role, or a partial of one.

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
    if isinstance(value, Partial) and not _is_known(role, current_name(function.pair), value):
        message = f"a partial of {function} with arguments that are not known there"
        raise UnsupportedError(message)


def check_plain(value: object, allowed: frozenset[Pair], *, is_foreign: bool) -> None:
    """Check that nothing in an argument can be called, unless it is trusted.

    :param allowed: names that the caller trusts
    :param is_foreign: whether it is for a class of a user's own, which may take layers, optimizers and dtypes
    :raises UnsupportedError: for the first thing that can be called
    """
    for part in parts(value, (), with_keys=True):
        if not isinstance(part, _CALLABLES):
            continue
        if isinstance(part, Reference) and (part.pair in allowed or (is_foreign and part.pair in _PLAIN_NAMES)):
            continue
        if isinstance(part, Partial) and isinstance(part.function, Reference):
            continue  # its function and arguments are parts of their own
        message = f"{escape(render_line(part), 200)} can be called, and is not known in this place"
        raise UnsupportedError(message)


def _is_known(role: str, pair: Pair, partial: Partial) -> bool:
    """Say whether a partial gives its class arguments that the class takes beside those that SB3 gives it."""
    if role == "activation_fn":
        names = ACTIVATIONS[pair]
        given = {*names[: len(partial.args)], *partial.keywords}
        is_fit = len(given) == len(partial.args) + len(partial.keywords) and given <= set(names)
        values = (*partial.args, *partial.keywords.values())
        return is_fit and all(type(value) in (bool, int, float) or value in ("none", "tanh") for value in values)
    if role != "optimizer_class":  # SB3 asks what an extractor is derived from
        return False
    known = keywords_of(pair)
    return not partial.args and all(
        name in known and fits_option(name, value, known[name]) for name, value in partial.keywords.items()
    )
