"""``data`` for the target: each key is rebuilt by the handler for it, which adds its row (REBUILDING.md 15.1, 15.2).

A handler gets the context, the key, and the value as the archive has it; it returns what the new ``data`` contains, or
``DROPPED``. ``_HANDLERS`` has those of single keys; ``_find_handler`` chooses one for any other key.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from sbformat.data import Serialized
from sbformat.errors import UnsupportedError, escape
from sbformat.immutable import thaw
from sbformat.known import changes
from sbformat.known.algorithms import ALGORITHMS, ENTROPY_LEARNERS
from sbformat.known.dangerous import ADDRESS
from sbformat.known.sb3 import HER_BUFFER, SCHEDULE_KEYS
from sbformat.known.spaces import Space
from sbformat.known.types import (
    CarriedClass,
    CarriedObject,
    ConstantSchedule,
    DType,
    EnumMember,
    Function,
    Instance,
    LinearSchedule,
    Partial,
    Reference,
    Schedule,
    TrainFreq,
    Value,
)
from sbformat.nets.entropy import fixed_coefficient, initial_coefficient
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pkl.tree import Node
from sbformat.schema import known_keys
from sbformat.tools.rebuild import buffers
from sbformat.tools.rebuild.algorithms import (
    EXCLUDED,
    METHODS,
    RECREATED,
    TEXT_KEYS,
    describe_default,
)
from sbformat.tools.rebuild.check_data import check_data
from sbformat.tools.rebuild.context import DROPPED, find_source_release
from sbformat.tools.rebuild.encode import PRIVATE, encode_value, is_private, iter_parts, iter_texts
from sbformat.tools.rebuild.policy_class import rebuild_policy_class
from sbformat.tools.rebuild.policy_kwargs import add_required_arguments, check_assigned, rebuild_policy_kwargs
from sbformat.tools.rebuild.schedules import rebuild_schedule
from sbformat.values.render import render_line
from sbformat.values.schedule_meaning import find_meaning

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbformat.tools.rebuild.context import RebuildContext

_SPACES: Final = ("observation_space", "action_space")
_FREQUENCY_UNIT: Final = Reference("stable_baselines3.common.type_aliases", "TrainFrequencyUnit")
_CALLABLES: Final = (Reference, Function, Partial, Schedule, Instance, Node, CarriedClass)


def rebuild_data(context: RebuildContext) -> dict[str, Any]:
    """Return ``data`` for the target; every key of the archive gets a row.

    :raises UnsupportedError: when SB3 needs a value that cannot be rebuilt
    """
    options = context.options
    made: dict[str, Any] = {}
    for key, value in thaw(context.archive.data).items():
        if key in options.supplied_at_load:
            context.report("translated", "null: the value is supplied when SB3 loads it", key=key)
            result = None
        elif key in context.assigned:
            context.report("translated", "another value was assigned", key=key)
            result = context.assigned[key]
            _note_policy_arguments(context, key)
        else:
            handler = _find_handler(context, key)
            if handler in _DROPPING_HANDLERS or key in METHODS:
                _refuse_unknown(context, key, value)
            result = handler(context, key, value)
        if result is not DROPPED:
            made[changes.RENAMED.get(key, key)] = result
    for key, value in context.assigned.items():
        if key not in made:
            context.report("translated", "was assigned", key=key)
            made[key] = value
            _note_policy_arguments(context, key)
    made.update(dict.fromkeys(options.supplied_at_load - made.keys()))
    if options.policy_class is not None and "policy_class" not in made:
        made["policy_class"] = rebuild_policy_class(context, "policy_class", None)
    check_data(context, made)
    if context.has_defaults:
        _add_defaults(context, made)
    _add_missing(context, made)
    return made


def _note_policy_arguments(context: RebuildContext, key: str) -> None:
    """Note the policy's arguments when they were assigned.

    :raises UnsupportedError: for an argument that SB3 does not accept
    """
    if key == "policy_kwargs":
        given = context.assigned[key]
        context.policy_arguments = given if type(given) is dict else None
        if type(given) is dict:
            check_assigned(context, key, given)


def _find_handler(context: RebuildContext, key: str) -> Callable[[RebuildContext, str, Any], Any]:
    if key in _HANDLERS:
        return _HANDLERS[key]
    if changes.RENAMED.get(key) in context.archive.data:
        return _drop_renamed
    if key in changes.REMOVED or (key in changes.A2C_OF_0_6 and _is_a2c_of_0_6(context)):
        return _drop_removed
    if key in EXCLUDED:
        return _drop_excluded
    return rebuild_schedule if key in SCHEDULE_KEYS else _rebuild_plain


def _is_a2c_of_0_6(context: RebuildContext) -> bool:
    """Return whether it is of the release in which A2C was a subclass of PPO and saved its keys."""
    return context.algorithm == "A2C" and changes.MARK_OF_0_6 in context.archive.data


# -- any value ----------------------------------------------------------------------------------------


def _rebuild_plain(context: RebuildContext, key: str, value: Any) -> Any:
    """Return a value without code, which SB3 sets on the agent."""
    if key in METHODS:
        return context.drop(key, "the name of a method of the algorithm, which it would replace")
    is_known = key in known_keys(context.algorithm) or key in changes.RENAMED
    try:
        meaning = context.decode(key)
        result = encode_value(meaning, context.target) if isinstance(value, Serialized) else value
    except UnsupportedError as error:
        return context.handle_unknown(key, value, error.message)
    found = _list_parts(meaning)
    if any(isinstance(part, _CALLABLES) for part in found):
        return context.handle_unknown(key, value, "something that can be called, where SB3 has a plain value")
    if is_private(key) or any(map(is_private, iter_texts(meaning))):
        return context.drop(key, PRIVATE)
    if key not in TEXT_KEYS and any(isinstance(part, (str, bytes, bytearray)) for part in found):
        instead = describe_default(context.algorithm, key) if is_known else None
        return context.drop(key, "it contains a text of the author, where SB3 has none", instead)
    if not is_known and any(isinstance(part, Value) or _is_byte_array(part) for part in found):
        return context.drop(key, "an object, or an array of bytes, under a key that SB3 does not have")
    name = changes.RENAMED.get(key)
    if name is not None:
        context.report("translated", f"is {name} now", key=key)
    elif isinstance(value, Serialized):
        context.report("translated", _describe(meaning), key=key)
    else:
        message = "" if is_known else "not a key of SB3: it becomes an attribute of the agent"
        context.report("kept", message, key=key)
    return result


def _is_byte_array(part: object) -> bool:
    """Return whether a part is an array that could encode a text."""
    return isinstance(part, ArrayInfo) and part.dtype in ("|u1", "|i1")


def _list_parts(value: object) -> list[object]:
    """Return a value and everything in it, except the parts of arrays, names and the like."""
    return list(iter_parts(value, (ArrayInfo, Reference, EnumMember, DType)))


def _describe(meaning: object, key: str | None = None) -> str:
    return escape(render_line(meaning, key), 200)


def _drop_removed(context: RebuildContext, key: str, value: object) -> Any:  # noqa: ARG001
    if key not in changes.REMOVED:
        message = f"a key of PPO, which A2C also saved in SB3 {changes.FIRST}"
        return context.drop(key, message, is_finding=False)
    if key == "model_class" and context.why_no_her_observation:
        message = f"HER's goals cannot be separated from the observation: {context.why_no_her_observation}"
        return context.drop(key, message, "a plain replay buffer", is_finding=True)
    if key in changes.HER_KEPT and context.her_observation is not None:
        context.report("translated", changes.REMOVED[key], key=key)
        return DROPPED
    return context.drop(key, changes.REMOVED[key])


def _drop_renamed(context: RebuildContext, key: str, value: object) -> Any:  # noqa: ARG001
    return context.drop(key, f"there is also {changes.RENAMED[key]}, its new name, which SB3 reads")


def _drop_excluded(context: RebuildContext, key: str, value: object) -> Any:
    if value is None:  # DQN before 2.0 saved null for its actor
        return context.drop(key, "null would replace an object of the agent")
    return context.drop(key, "SB3 does not save it: it would replace an object of the agent")


def _drop_recreated(context: RebuildContext, key: str, value: object) -> Any:
    """Leave out a blob that SB3's ``load`` creates again, whatever the archive has."""
    if not isinstance(value, Serialized):
        return _rebuild_plain(context, key, value)
    instead = f"what SB3 creates from {RECREATED[key]}"
    try:
        meaning = context.decode(key)
    except UnsupportedError as error:
        return context.drop(key, error.message, instead)
    if _contains_code(meaning):
        return context.drop(key, _describe(meaning, key), instead)
    context.report(
        "translated", f"left out: SB3 creates it from {RECREATED[key]}; was {_describe(meaning, key)}", key=key
    )
    return DROPPED


def _refuse_unknown(context: RebuildContext, key: str, value: object) -> None:
    """Note what is unknown or code under a key that is dropped anyway, for ``on_unknown="error"``."""
    if context.options.on_unknown != "error" or not isinstance(value, Serialized):
        return
    try:
        meaning = context.decode(key)
    except UnsupportedError as error:
        context.refused.append(f"{escape(key)}: {error.message}")
        return
    if _contains_code(meaning):
        context.refused.append(f"{escape(key)}: {_describe(meaning, key)}")


def _contains_code(meaning: object) -> bool:
    """Return whether a value contains code, unless it is a schedule that SB3 has a class for."""
    if isinstance(find_meaning(meaning).schedule, (ConstantSchedule, LinearSchedule)):
        return False
    return any(_is_code(part) for part in _list_parts(meaning))


def _is_code(part: object) -> bool:
    is_function = isinstance(part, Function) and part.schedule is None
    return is_function or isinstance(part, (Node, CarriedClass, CarriedObject))


def _rebuild_tensorboard_log(context: RebuildContext, key: str, value: object) -> Any:
    is_kept = context.options.keep_system_info and isinstance(value, str) and not ADDRESS.search(value)
    if value is None or is_kept:
        context.report("kept", "", key=key)
        return value
    context.drop(key, "a path of the author's logs", "null: no logs")
    return None


# -- spaces, numbers ----------------------------------------------------------------------------------


def _rebuild_space(context: RebuildContext, key: str, value: object) -> Any:
    """Return a space of gymnasium; SB3 loads no agent without one."""
    try:
        meaning = context.decode(key)
        if not isinstance(meaning, Space):
            message = f"{_describe(meaning)} is not a known space"
            raise UnsupportedError(message)
        result = encode_value(meaning, context.target)
    except UnsupportedError as error:
        if context.options.on_unknown == "keep":
            return context.handle_unknown(key, value, error.message)
        message = f"{key}: {error.message}; SB3 loads no agent without it"
        raise UnsupportedError(message, entry="data") from None
    if key == "observation_space" and context.her_observation is not None:
        message = f"the Dict space of observation and goals, which HER concatenated before SB3 {changes.DICT_SPACES}"
        context.report("translated", message, key=key)
        return encode_value(context.her_observation.space, context.target)
    form = "a space of gymnasium instead of gym" if meaning.library == "gym" else "encoded again"
    random = "" if meaning.random is None else "; with a new random generator"
    context.report("translated", f"{_describe(meaning)}: {form}{random}", key=key)
    return result


def _rebuild_train_freq(context: RebuildContext, key: str, value: object) -> Any:
    """Return ``train_freq``, which includes ``n_episodes_rollout``."""
    episodes = context.archive.data.get("n_episodes_rollout")
    if type(value) is list and len(value) == 2 and type(value[0]) is int and value[1] in ("step", "episode"):
        context.report("translated", f"every {value[0]} {value[1]}", key=key)  # SB3 accepts a tuple, JSON has lists
        return encode_value(TrainFreq(value[0], EnumMember(_FREQUENCY_UNIT, value[1])), context.target)
    if value is None:
        return context.handle_unknown(key, value, "expected a number of steps or episodes", "every step")
    if type(value) is not int or type(episodes) is not int:
        return _rebuild_plain(context, key, value)
    unit, frequency = ("episode", episodes) if episodes > 0 else ("step", value)
    meaning = TrainFreq(frequency, EnumMember(_FREQUENCY_UNIT, unit))
    message = f"{_describe(meaning)}, from train_freq {value} and n_episodes_rollout {episodes}"
    context.report("translated", message, key=key)
    return encode_value(meaning, context.target)


def _rebuild_target_update_interval(context: RebuildContext, key: str, value: object) -> Any:
    """Return the steps between updates of the target network; some releases saved them divided by ``n_envs``."""
    count = context.archive.data.get("n_envs")
    since, until = changes.DIVIDED_INTERVAL.get(context.algorithm, (changes.UNKNOWN, changes.UNKNOWN))
    source = find_source_release(context.archive)
    if since <= source < until and type(value) is int and type(count) is int and count > 1:
        message = f"{value * count}: SB3 {source} saved it divided by its {count} environments"
        context.report("translated", message, key=key)
        return value * count
    return _rebuild_plain(context, key, value)


def _rebuild_entropy_coefficient(context: RebuildContext, key: str, value: Any) -> Any:
    """Return ``ent_coef``: a number, or ``auto`` with an initial value where the algorithm learns it."""
    meaning = context.decode_or_none(key)
    default = describe_default(context.algorithm, key)
    if context.algorithm not in ENTROPY_LEARNERS:
        if isinstance(meaning, (int, float, ArrayInfo)):
            return _rebuild_plain(context, key, value)
        return context.handle_unknown(key, value, "expected a number", default, was=meaning)
    fixed = fixed_coefficient(meaning)
    if fixed is not None and isinstance(meaning, str):
        context.report("translated", f"{fixed}, the number of the text", key=key)
        return fixed
    if fixed is not None or initial_coefficient(meaning) is not None:
        return _rebuild_plain(context, key, value)
    message = "expected a number of at least 0 or auto"
    if not isinstance(value, Serialized):  # wrong, not unknown: the default's optimizer and tensor are made for auto
        if context.options.on_unknown == "error":
            context.refused.append(f"{key}: {message}")
        return context.drop(key, message, default, was=meaning)
    return context.handle_unknown(key, value, message, default, was=meaning)


def _rebuild_target_entropy(context: RebuildContext, key: str, value: Any) -> Any:
    """Return a number; SB3 computes that of ``auto`` in the constructor, and not when it loads."""
    meaning = context.decode_or_none(key)
    if isinstance(meaning, (int, float, ArrayInfo)):
        return _rebuild_plain(context, key, value)
    space = context.decode_or_none("action_space")
    number = -float(math.prod(space.shape)) if isinstance(space, Space) and space.distribution == "gaussian" else 0.0
    if meaning == "auto":
        context.report("translated", f"{number}, the value of auto", key=key)
    else:
        context.drop(key, "expected a number or auto", str(number), was=meaning)
    return number


def _rebuild_env_count(context: RebuildContext, key: str, value: object) -> Any:
    """Return ``n_envs``, which SB3's ``load`` needs."""
    if type(value) is int and value > 0:
        return _rebuild_plain(context, key, value)
    context.drop(key, "expected a number of environments", "1", was=context.decode_or_none(key))
    return 1


# -- what later releases need -------------------------------------------------------------------------


def _add_defaults(context: RebuildContext, made: dict[str, Any]) -> None:
    """Set what was dropped to the values that SB3 uses instead: other keys than SB3's own identify no algorithm."""
    for key, value in ALGORITHMS[context.algorithm].defaults.items():
        if key in context.archive.data and key not in made:
            made[key] = value


def _add_missing(context: RebuildContext, made: dict[str, Any]) -> None:
    """Add the keys and arguments that later releases need so that they do the same."""
    if context.required_arguments and "policy_kwargs" not in made:
        context.policy_arguments = add_required_arguments(context, {})
        made["policy_kwargs"] = encode_value(context.policy_arguments, context.target)
    if context.her_observation is not None:
        made["replay_buffer_class"] = encode_value(Reference(*HER_BUFFER), context.target)
        made["replay_buffer_kwargs"] = _make_her_kwargs(context)
        message = f"HerReplayBuffer, which HER is since SB3 {changes.DICT_SPACES}"
        context.report("translated", message, key="replay_buffer_class")
        context.report("translated", escape(str(made["replay_buffer_kwargs"])), key="replay_buffer_kwargs")
    if made.get("optimize_memory_usage") is True:
        arguments = made.get("replay_buffer_kwargs")
        if (arguments is None or type(arguments) is dict) and "handle_timeout_termination" not in (arguments or {}):
            made["replay_buffer_kwargs"] = {**(arguments or {}), "handle_timeout_termination": False}
            since = f"since SB3 {changes.DICT_SPACES}, and the only behaviour before"
            message = f"False: required with optimize_memory_usage {since}"
            context.report("translated", message, key="replay_buffer_kwargs/handle_timeout_termination")


def _make_her_kwargs(context: RebuildContext) -> dict[str, Any]:
    """Return HerReplayBuffer's arguments, from the keys of an archive of HER."""
    given = {name: context.archive.decode(name) for name in changes.HER_KEPT if name in context.archive.data}
    made: dict[str, Any] = {}
    if type(given.get("n_sampled_goal")) is int:
        made["n_sampled_goal"] = given["n_sampled_goal"]
    if "goal_selection_strategy" in given:
        value = given["goal_selection_strategy"]
        made["goal_selection_strategy"] = buffers.rebuild_goal_strategy(context, "goal_selection_strategy", value)
    return made


_HANDLERS: Final[dict[str, Callable[[RebuildContext, str, Any], Any]]] = {
    **dict.fromkeys(_SPACES, _rebuild_space),
    **dict.fromkeys(RECREATED, _drop_recreated),
    "policy_class": rebuild_policy_class,
    "policy_kwargs": rebuild_policy_kwargs,
    "tensorboard_log": _rebuild_tensorboard_log,
    "train_freq": _rebuild_train_freq,
    "ent_coef": _rebuild_entropy_coefficient,
    "target_entropy": _rebuild_target_entropy,
    "n_envs": _rebuild_env_count,
    "target_update_interval": _rebuild_target_update_interval,
    "replay_buffer_class": buffers.rebuild_buffer_class,
    "rollout_buffer_class": buffers.rebuild_buffer_class,
    "replay_buffer_kwargs": buffers.rebuild_buffer_kwargs,
    "rollout_buffer_kwargs": buffers.rebuild_buffer_kwargs,
    "action_noise": buffers.rebuild_action_noise,
}
_DROPPING_HANDLERS: Final = frozenset(
    {_drop_recreated, _drop_removed, _drop_renamed, _drop_excluded, _rebuild_tensorboard_log}
)
"""Handlers whose result never contains the value of a blob."""
