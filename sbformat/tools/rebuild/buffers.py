"""Buffers and action noise of ``data`` for the target: SB3's classes with arguments (REBUILDING.md 15.1, 15.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import UnsupportedError, escape
from sbformat.known import changes
from sbformat.known.sb3 import HER_BUFFER, NSTEP_BUFFER
from sbformat.known.spaces import DictSpace
from sbformat.known.table import current_name, find
from sbformat.known.types import EnumMember, Instance, Reference
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pkl.tree import Global
from sbformat.tools.rebuild.algorithms import GOAL_STRATEGIES
from sbformat.tools.rebuild.allowed import describe_unknown
from sbformat.tools.rebuild.context import DROPPED
from sbformat.tools.rebuild.encode import PRIVATE, encode_value, is_private, iter_texts
from sbformat.tools.rebuild.roles import REPLAY_BUFFERS, check_plain, list_buffers
from sbformat.values.render import render_line

if TYPE_CHECKING:
    from collections.abc import Collection

    from sbformat.tools.rebuild.context import RebuildContext

_NOISE_PARTS: Final = ("_noises", "noises", "_base_noise", "base_noise")
"""Attributes of noise that are noise themselves."""
_MAX_NOISE_DEPTH: Final = 4


def rebuild_buffer_class(context: RebuildContext, key: str, value: object) -> Any:
    """Return a class that SB3 has for the algorithm, or one that is allowed; else SB3 chooses one.

    :param value: as the archive has it
    """
    if value is None:
        context.report("kept", "", key=key)
        return None
    try:
        meaning = context.decode(key)
        if isinstance(meaning, (Global, Reference)) and meaning in context.allowed:
            allowed = context.allowed.replace_names(key, meaning)
            return context.keep_allowed(key, allowed, escape(str(meaning)))
        pair = current_name(meaning.pair) if isinstance(meaning, Reference) else None
        is_dict = context.her_observation is not None or isinstance(
            context.decode_or_none("observation_space"), DictSpace
        )
        if pair not in list_buffers(key, context.algorithm, is_dict=is_dict):
            raise UnsupportedError(describe_unknown(meaning, "a buffer of such observations", context.options.advice))
        if pair == NSTEP_BUFFER:  # SB3 warns of one that it did not choose itself
            context.report("translated", "null: SB3 chooses it for n_steps > 1", key=key)
            return None
        result = encode_value(meaning, context.target)
    except UnsupportedError as error:
        return context.handle_unknown(key, value, error.message, "the buffer that SB3 chooses")
    context.report("translated", escape(render_line(meaning), 200), key=key)
    return result


def rebuild_buffer_kwargs(context: RebuildContext, key: str, value: object) -> Any:
    """Return the arguments of a buffer without those that it does not accept.

    :param value: as the archive has it
    """
    try:
        meaning = context.decode(key)
        if type(meaning) is not dict:
            message = f"expected a dict of arguments, got {escape(render_line(meaning), 200)}"
            raise UnsupportedError(message)
    except UnsupportedError as error:
        result = context.handle_unknown(key, value, error.message, "none")
        return {} if result is DROPPED else result
    accepted = _list_accepted(context, key)
    kept: dict[Any, Any] = {}
    for name, part in context.allowed.replace_names(key, meaning).items():
        place = f"{key}/{escape(str(name), 80)}"
        if name in changes.HER_REMOVED:
            message = f"HerReplayBuffer does not accept it since SB3 {changes.GYMNASIUM}"
            context.drop(place, message, is_finding=False)
        elif accepted is not None and name not in accepted:
            context.drop(place, "the buffer has no such argument", was=part)
        elif name == "goal_selection_strategy" and accepted is not None:
            kept[name] = rebuild_goal_strategy(context, place, part)
        elif any(map(is_private, iter_texts((name, part)))):
            context.drop(place, PRIVATE)
        else:
            _keep_plain(context, place, kept, name, part, is_foreign=accepted is None)
    is_same = kept == meaning
    context.report("kept" if is_same else "translated", "" if is_same else "the arguments of today", key=key)
    return encode_value(kept, context.target, foreign=context.allowed.pairs)


def _keep_plain(
    context: RebuildContext, place: str, kept: dict[Any, Any], name: object, part: object, *, is_foreign: bool
) -> None:
    """Keep an argument that contains nothing that can be called, except what is allowed."""
    try:
        check_plain(part, context.allowed.pairs, is_foreign=is_foreign)
        encode_value(part, context.target, foreign=context.allowed.pairs)
        kept[name] = part
    except UnsupportedError as error:
        context.drop(place, error.message, was=part)


def _list_accepted(context: RebuildContext, key: str) -> Collection[str] | None:
    """Return the arguments that the buffer accepts; None for an allowed class, whose arguments are not known."""
    owner = key.replace("_kwargs", "_class")
    meaning = context.decode_or_none(owner)
    if isinstance(meaning, (Global, Reference)) and meaning in context.allowed:
        return None
    if owner in context.options.supplied_at_load or context.options.on_unknown == "keep":
        return None
    if owner == "rollout_buffer_class":
        return ()
    steps = context.archive.data.get("n_steps")
    chosen = NSTEP_BUFFER if type(steps) is int and steps > 1 else ("", "")
    pair = current_name(meaning.pair) if isinstance(meaning, Reference) else chosen
    if pair == HER_BUFFER or context.her_observation is not None:
        return REPLAY_BUFFERS[HER_BUFFER]
    return REPLAY_BUFFERS[NSTEP_BUFFER if NSTEP_BUFFER in (pair, chosen) else next(iter(REPLAY_BUFFERS))]


def rebuild_goal_strategy(context: RebuildContext, place: str, value: object) -> str:
    """Return HER's goal selection strategy as one of the three texts that SB3 accepts."""
    if isinstance(value, EnumMember) and isinstance(value.value, int) and value.value in range(3):
        return GOAL_STRATEGIES[value.value]
    if isinstance(value, str) and value.lower() in GOAL_STRATEGIES:
        return value.lower()
    context.drop(place, f"expected one of {', '.join(GOAL_STRATEGIES)}", "future", was=value)
    return "future"


# -- action noise -------------------------------------------------------------------------------------


def rebuild_action_noise(context: RebuildContext, key: str, value: object) -> Any:
    """Return noise of SB3 that consists of numbers.

    :param value: as the archive has it
    """
    if value is None:
        context.report("kept", "", key=key)
        return None
    try:
        meaning = context.decode(key)
        _check_noise(meaning, _MAX_NOISE_DEPTH)
        result = encode_value(meaning, context.target)
    except UnsupportedError as error:
        return context.handle_unknown(key, value, error.message, "no noise")
    context.report("translated", escape(render_line(meaning), 200), key=key)
    return result


def _check_noise(value: object, depth: int) -> None:
    """Check that noise consists of numbers, or of noise.

    :param depth: how deep noise may be nested
    :raises UnsupportedError: when it is, or contains, something else
    """
    if not isinstance(value, Instance) or find(value.type.pair).kind != "noise" or not depth:
        message = f"{escape(render_line(value), 200)} is not known as action noise"
        raise UnsupportedError(message)
    for name, part in value.attributes.items():
        noises = part if isinstance(part, list) else [part]
        if name in _NOISE_PARTS:
            for noise in noises:
                _check_noise(noise, depth - 1)
        elif not _is_number(name, part):
            shown = escape(render_line(part), 100)
            message = f"{escape(str(name), 80)} of {escape(render_line(value), 100)}: expected a number, got {shown}"
            raise UnsupportedError(message)


def _is_number(name: object, part: object) -> bool:
    if name in ("_dtype", "dtype"):
        if not isinstance(part, Reference) or not part.name.startswith(("float", "int")):
            return False
        return "number" in find(part.pair).uses
    return part is None or type(part) in (bool, int, float) or (isinstance(part, ArrayInfo) and part.dtype[1] in "biuf")
