"""Buffers and action noise of ``data`` for the target: classes of SB3 with their arguments (FORMAT.md 15.1, 15.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import UnsupportedError, escape
from sbformat.globals.constructors import PLAIN_OBJECTS
from sbformat.globals.references import NUMPY
from sbformat.globals.renamed import current_name
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pkl.tree import Global
from sbformat.tools.rebuild import releases
from sbformat.tools.rebuild.context import DROPPED
from sbformat.tools.rebuild.encode import PRIVATE, is_private, texts, written
from sbformat.tools.rebuild.policies import describe_unknown
from sbformat.tools.rebuild.roles import HER_BUFFER, NSTEP_BUFFER, REPLAY_BUFFERS, buffers_of, check_plain
from sbformat.values.render import render_line
from sbformat.values.types import DictSpace, EnumMember, Instance, Reference

if TYPE_CHECKING:
    from collections.abc import Collection

    from sbformat.tools.rebuild.context import Job

_NOISES: Final = frozenset(pair for pair in PLAIN_OBJECTS if pair[0] == "stable_baselines3.common.noise")
_NUMBERS: Final = frozenset(("numpy", name) for name in NUMPY["numpy"].split() if name.startswith(("float", "int")))
_DEEPEST: Final = 4
"""A vectorised noise holds noises."""


def buffer_class(job: Job, key: str, value: object) -> Any:
    """Return a class that SB3 has for the algorithm, or one that is allowed; any other is left to SB3's choice."""
    if value is None:
        job.told("kept", "", key=key)
        return None
    try:
        meaning = job.meaning(key)
        if isinstance(meaning, (Global, Reference)) and meaning in job.allowed:
            result = written(job.allowed.value(key, meaning), job.target, foreign=job.allowed.pairs)
            job.told("kept", f"{escape(str(meaning))}, which is allowed: the loader imports it", key=key)
            return result
        pair = current_name(meaning.pair) if isinstance(meaning, Reference) else None
        is_dict = job.hindsight is not None or isinstance(job.readable("observation_space"), DictSpace)
        if pair not in buffers_of(key, job.algorithm, is_dict=is_dict):
            raise UnsupportedError(describe_unknown(meaning, "a buffer of such observations"))
        if pair == NSTEP_BUFFER:  # SB3 warns of one that it did not choose itself
            job.told("translated", "null: SB3 chooses it for n_steps > 1", key=key)
            return None
        result = written(meaning, job.target)
    except UnsupportedError as error:
        return job.unknown(key, value, error.message, "the buffer that SB3 chooses")
    job.told("translated", escape(render_line(meaning), 200), key=key)
    return result


def buffer_kwargs(job: Job, key: str, value: object) -> Any:
    """Return the arguments of a buffer: those that it does not take are left out."""
    try:
        meaning = job.meaning(key)
        if type(meaning) is not dict:
            message = f"{escape(render_line(meaning), 200)} is not a dict of arguments"
            raise UnsupportedError(message)
    except UnsupportedError as error:
        result = job.unknown(key, value, error.message, "none")
        return {} if result is DROPPED else result
    accepted = _accepted(job, key)
    kept: dict[Any, Any] = {}
    for name, part in job.allowed.value(key, meaning).items():
        place = f"{key}/{escape(str(name), 80)}"
        if name in releases.HER_REMOVED:
            job.dropped(place, "HerReplayBuffer does not take it since SB3 2.0", is_finding=False)
        elif accepted is not None and name not in accepted:
            job.dropped(place, "no argument of the buffer in its place", was=part)
        elif name == "goal_selection_strategy" and accepted is not None:
            kept[name] = strategy(job, place, part)
        elif any(map(is_private, texts((name, part)))):
            job.dropped(place, PRIVATE)
        else:
            _keep(job, place, kept, name, part, is_foreign=accepted is None)
    job.told("kept" if kept == meaning else "translated", "" if kept == meaning else "arguments of today", key=key)
    return written(kept, job.target, foreign=job.allowed.pairs)


def _keep(job: Job, place: str, kept: dict[Any, Any], name: object, part: object, *, is_foreign: bool) -> None:
    """Keep an argument in which nothing can be called but what is allowed."""
    try:
        check_plain(part, job.allowed.pairs, is_foreign=is_foreign)
        written(part, job.target, foreign=job.allowed.pairs)
        kept[name] = part
    except UnsupportedError as error:
        job.dropped(place, error.message, was=part)


def _accepted(job: Job, key: str) -> Collection[str] | None:
    """Return the arguments that the buffer takes; None for one that is allowed, whose arguments are not known."""
    owner = key.replace("_kwargs", "_class")
    meaning = job.readable(owner)
    if isinstance(meaning, (Global, Reference)) and meaning in job.allowed:
        return None
    if owner in job.options.given or job.options.on_unknown == "keep":
        return None
    if owner == "rollout_buffer_class":
        return ()
    steps = job.archive.data.get("n_steps")
    chosen = NSTEP_BUFFER if type(steps) is int and steps > 1 else ("", "")
    pair = current_name(meaning.pair) if isinstance(meaning, Reference) else chosen
    if pair == HER_BUFFER or job.hindsight is not None:
        return REPLAY_BUFFERS[HER_BUFFER]
    return REPLAY_BUFFERS[NSTEP_BUFFER if NSTEP_BUFFER in (pair, chosen) else next(iter(REPLAY_BUFFERS))]


def strategy(job: Job, place: str, value: object) -> str:
    """Return a goal selection strategy as text; SB3 refuses any other than three."""
    if isinstance(value, EnumMember) and isinstance(value.value, int) and value.value in range(3):
        return releases.GOAL_STRATEGIES[value.value]
    if isinstance(value, str) and value.lower() in releases.GOAL_STRATEGIES:
        return value.lower()
    job.dropped(place, "not a strategy of SB3", "future", was=value)
    return "future"


# -- action noise -------------------------------------------------------------------------------------


def action_noise(job: Job, key: str, value: object) -> Any:
    """Return noise of SB3 that is made of numbers."""
    if value is None:
        job.told("kept", "", key=key)
        return None
    try:
        meaning = job.meaning(key)
        _check_noise(meaning, _DEEPEST)
        result = written(meaning, job.target)
    except UnsupportedError as error:
        return job.unknown(key, value, error.message, "no noise")
    job.told("translated", escape(render_line(meaning), 200), key=key)
    return result


def _check_noise(value: object, depth: int) -> None:
    """Check that noise holds numbers, or noise.

    :raises UnsupportedError: when it is, or holds, something else
    """
    if not isinstance(value, Instance) or value.type.pair not in _NOISES or not depth:
        message = f"{escape(render_line(value), 200)} is not action noise that is known"
        raise UnsupportedError(message)
    for name, part in value.attributes.items():
        noises = part if isinstance(part, list) else [part]
        if name in ("_noises", "noises", "_base_noise", "base_noise"):
            for noise in noises:
                _check_noise(noise, depth - 1)
        elif not _is_number(name, part):
            shown = escape(render_line(part), 100)
            message = f"{escape(render_line(value), 100)} has {shown} for {escape(str(name), 80)}"
            raise UnsupportedError(message)


def _is_number(name: object, part: object) -> bool:
    if name in ("_dtype", "dtype"):
        return isinstance(part, Reference) and part.pair in _NUMBERS
    return part is None or type(part) in (bool, int, float) or (isinstance(part, ArrayInfo) and part.dtype[1] in "biuf")
