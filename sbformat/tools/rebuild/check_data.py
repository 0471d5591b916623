"""Whether SB3 can load the new ``data``: the keys that it needs, and the JSON Schema of values (REBUILDING.md 15.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.constants import DATA_ENTRY
from sbformat.data import Serialized
from sbformat.errors import SbformatError, UnsupportedError, ValidationError, escape
from sbformat.known.algorithms import ALGORITHMS
from sbformat.known.changes import RENAMED
from sbformat.nets.arguments import Agent, NetworkError
from sbformat.nets.sb3 import require_gsde
from sbformat.schema import iter_problems
from sbformat.tools.rebuild.algorithms import describe_default

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.tools.rebuild.context import RebuildContext

_REQUIRED: Final = ("policy_class", "observation_space", "action_space")
"""Keys that SB3's ``load`` reads, without a default."""
_DEFAULTED: Final = ("verbose", "n_envs")
"""Keys that SB3's ``load`` reads, for which the constructor's default is added."""
_NOT_ONLY_NUMBERS: Final = frozenset({"ent_coef", "train_freq"})
"""Keys whose default is a number, but whose value may be an object."""
_DECIDE_ON_NOISE: Final = ("use_sde", "policy_kwargs", "policy_class", "action_space")


def check_data(context: RebuildContext, made: dict[str, Any]) -> None:
    """Drop the values that the schema refuses, and add or refuse what is missing; each with a finding.

    :param made: the new ``data``, changed in place
    :raises UnsupportedError: when a key is missing that SB3 cannot load without
    :raises ValidationError: for a value that the caller assigned
    """
    for key, message in list(_find_wrong_values(context, made)):
        if key in made:
            _drop_value(context, made, key, message)
    _check_gsde(context, made)
    for key in _REQUIRED:
        if key not in made:
            message = f"{key}: it is missing, and SB3 loads no agent without it"
            raise UnsupportedError(message, entry=DATA_ENTRY)
    for key in _DEFAULTED:
        if key not in made:
            made[key] = ALGORITHMS[context.algorithm].defaults[key]
            if not any(row.key == key and row.entry == DATA_ENTRY for row in context.rows):
                message = "it is missing, and SB3's load needs it"
                context.drop(key, message, describe_default(context.algorithm, key), is_finding=True)


def _find_wrong_values(context: RebuildContext, made: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the keys whose values SB3 cannot use, each with the reason; not those that are supplied at load."""
    keeps = context.options.on_unknown == "keep"
    problems = [problem for problem in iter_problems(made) if problem.level == "error"]
    assigned = [problem for problem in problems if problem.key in context.assigned]
    if assigned:
        message = f"{assigned[0].loc}: {assigned[0].message}"
        raise ValidationError(message, problems=tuple(assigned))
    for problem in problems:
        key = problem.key
        is_checked = key in made and key not in context.options.supplied_at_load
        if is_checked and not (keeps and isinstance(made[key], Serialized)):
            yield key, problem.message
    for key, default in ALGORITHMS[context.algorithm].defaults.items():
        is_number = type(default) in (bool, int, float) and key not in _NOT_ONLY_NUMBERS
        if is_number and isinstance(made.get(key), Serialized) and not keeps and key not in context.assigned:
            yield key, "expected a single number, got an object"


def _drop_value(context: RebuildContext, made: dict[str, Any], key: str, message: str) -> None:
    """Remove a value from the result; its row replaces the earlier ones.

    :raises UnsupportedError: for a key that SB3 cannot load without
    """
    if key in _REQUIRED:
        message = f"{key}: {message}; SB3 loads no agent without it"
        raise UnsupportedError(message, entry=DATA_ENTRY)
    del made[key]
    names = {key, *(old for old, new in RENAMED.items() if new == key and old in context.archive.data)}
    replaced = [row for row in context.rows if row.entry == DATA_ENTRY and row.key in names]
    context.rows = [row for row in context.rows if row not in replaced]
    shown = next((row.key for row in replaced if row.key), key)
    if context.options.on_unknown == "error":
        context.refused.append(f"{escape(shown)}: {message}")
    default = describe_default(context.algorithm, key)
    context.drop(shown, message, default, was=context.decode_or_none(shown), is_finding=True)


def _check_gsde(context: RebuildContext, made: dict[str, Any]) -> None:
    """Drop ``use_sde`` where the policy has no such noise: SB3's ``load`` samples it, and fails."""
    policy, arguments = context.sb3_policy, context.policy_arguments
    if made.get("use_sde") is not True or policy is None or arguments is None:
        return
    if context.options.supplied_at_load.intersection(_DECIDE_ON_NOISE):
        return
    actions: Any = context.decode_or_none("action_space")
    try:
        require_gsde(Agent(policy.pair, actions, actions, arguments, use_sde=True, release=context.target))
    except NetworkError as error:
        message = f"{error.message}, and SB3's load fails to sample its noise"
    except SbformatError:  # not known whether it has noise
        return
    else:
        return
    if "use_sde" in context.assigned:
        message = f"use_sde: {message}"
        raise UnsupportedError(message, entry=DATA_ENTRY)
    _drop_value(context, made, "use_sde", message)
