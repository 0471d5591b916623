"""Whether SB3 can load ``data``: keys that it needs, and values that the JSON Schema refuses (FORMAT.md 15.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.constants import DATA_ENTRY, ENTROPY_LEARNERS
from sbformat.data import Serialized
from sbformat.errors import UnsupportedError, ValidationError, escape
from sbformat.schema import iter_problems
from sbformat.tools.rebuild.defaults import CONSTRUCTED, describe_default
from sbformat.tools.rebuild.releases import RENAMED
from sbformat.values.types import Box

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.tools.rebuild.context import Job

_REQUIRED: Final = ("policy_class", "observation_space", "action_space")
"""Keys whose values no constructor supplies."""
_SUPPLIED: Final = ("verbose", "n_envs")
"""Keys that ``load`` reads from ``data``, and whose values the constructor's defaults supply."""
_NOT_NUMBERS: Final = frozenset({"ent_coef", "train_freq"})
"""Keys with a number as their default that may hold an object too."""
_NOISY_POLICIES: Final = frozenset({"PPO", "A2C", "TRPO", "RecurrentPPO"})
"""On-policy algorithms whose policy takes ``use_sde`` from ``data``."""


def check_data(job: Job, made: dict[str, Any]) -> None:
    """Drop the values that the schema refuses, and supply or refuse what is missing; each with a finding.

    :param made: the keys of the result, changed in place
    :raises UnsupportedError: for a key that SB3 loads nothing without
    :raises ValidationError: for a value that the caller assigned
    """
    for key, message in list(_wrong_values(job, made)):
        if key in made:
            _drop(job, made, key, message)
    _check_noise(job, made)
    for key in _REQUIRED:
        if key not in made:
            message = f"{key}: it is missing, and SB3 loads no agent without it"
            raise UnsupportedError(message, entry=DATA_ENTRY)
    for key in _SUPPLIED:
        if key not in made:
            made[key] = CONSTRUCTED[job.algorithm][key]
            if not any(row.key == key and row.entry == DATA_ENTRY for row in job.rows):
                message = "it is missing, and SB3's load reads it"
                job.dropped(key, message, describe_default(job.algorithm, key), is_finding=True)


def _wrong_values(job: Job, made: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the keys whose values SB3 cannot use, each with the reason; not what the loader brings."""
    keeps = job.options.on_unknown == "keep"
    problems = [problem for problem in iter_problems(made) if problem.level == "error"]
    assigned = [problem for problem in problems if _key_of(problem.loc) in job.replaced]
    if assigned:
        message = f"{assigned[0].loc}: {assigned[0].message}"
        raise ValidationError(message, problems=tuple(assigned))
    for problem in problems:
        key = _key_of(problem.loc)
        if key in made and key not in job.options.given and not (keeps and isinstance(made[key], Serialized)):
            yield key, problem.message
    for key, default in CONSTRUCTED[job.algorithm].items():
        is_number = type(default) in (bool, int, float) and key not in _NOT_NUMBERS
        if is_number and isinstance(made.get(key), Serialized) and not keeps and key not in job.replaced:
            yield key, "expected a single number, got an object"


def _key_of(loc: str) -> str:
    """Return the key of ``data`` that a JSON pointer leads into; empty for the whole."""
    return [*loc.split("/"), ""][1].replace("~1", "/").replace("~0", "~")


def _drop(job: Job, made: dict[str, Any], key: str, message: str) -> None:
    """Leave a value out of the result, in the place of what the account had about it.

    :raises UnsupportedError: for a key that SB3 loads nothing without
    """
    if key in _REQUIRED:
        message = f"{key}: {message}; SB3 loads no agent without it"
        raise UnsupportedError(message, entry=DATA_ENTRY)
    del made[key]
    names = {key, *(old for old, new in RENAMED.items() if new == key and old in job.archive.data)}
    had_row = [row for row in job.rows if row.entry == DATA_ENTRY and row.key in names]
    job.rows = [row for row in job.rows if row not in had_row]
    shown = next((row.key for row in had_row if row.key), key)
    if job.options.on_unknown == "error":
        job.refused.append(f"{escape(shown)}: {message}")
    job.dropped(shown, message, describe_default(job.algorithm, key), was=job.readable(shown), is_finding=True)


def _check_noise(job: Job, made: dict[str, Any]) -> None:
    """Drop ``use_sde`` where the policy has no such noise: SB3's ``load`` resets it, and fails."""
    if made.get("use_sde") is not True or not job.is_of_sb3 or job.arguments is None:
        return
    if job.options.given.intersection(("use_sde", "policy_kwargs", "policy_class", "action_space")):
        return
    if job.algorithm in ENTROPY_LEARNERS:
        has_noise = bool(job.arguments.get("use_sde"))
    else:
        has_noise = job.algorithm in _NOISY_POLICIES and isinstance(job.readable("action_space"), Box)
    if has_noise:
        return
    message = "the policy has no state-dependent noise, and SB3's load fails to reset it"
    if "use_sde" in job.replaced:
        message = f"use_sde: {message}"
        raise UnsupportedError(message, entry=DATA_ENTRY)
    _drop(job, made, "use_sde", message)
