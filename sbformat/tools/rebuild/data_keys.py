"""``data`` for the target: each key is rebuilt by the handler for it, which adds its row (REBUILDING.md 15.1, 15.2).

In: the context. Out: the new ``data``. A handler gets the context, the key, and the value as the archive has it; it
returns what the new ``data`` contains, or ``DROPPED``. ``_HANDLERS`` has those of single keys; ``_find_handler``
chooses one for any other key. In the end the JSON Schema decides on every value, and what SB3's ``load`` needs is added
or refused.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from sbformat.constants import DATA_ENTRY
from sbformat.data import Serialized
from sbformat.errors import SbformatError, UnsupportedError, ValidationError, escape
from sbformat.immutable import thaw
from sbformat.known import changes
from sbformat.known.algorithms import ENTROPY_LEARNERS
from sbformat.known.dangerous import ADDRESS
from sbformat.known.sb3 import HER_BUFFER, SCHEDULE_KEYS
from sbformat.known.spaces import Space
from sbformat.known.types import (
    CarriedClass,
    CarriedObject,
    ConstantSchedule,
    DType,
    EnumMember,
    FloatSchedule,
    Function,
    InterpolatedSchedule,
    LinearSchedule,
    Partial,
    Reference,
    TrainFreq,
    Value,
)
from sbformat.nets.arguments import Agent, NetworkError
from sbformat.nets.entropy import fixed_coefficient, initial_coefficient
from sbformat.nets.sb3 import require_gsde
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pkl.tree import Node
from sbformat.schema import iter_problems, known_keys
from sbformat.schema.assigned import WRAPPED
from sbformat.tools.rebuild.policy_and_buffers import (
    add_required_arguments,
    check_assigned,
    rebuild_action_noise,
    rebuild_buffer_class,
    rebuild_buffer_kwargs,
    rebuild_goal_strategy,
    rebuild_policy_class,
    rebuild_policy_kwargs,
)
from sbformat.tools.rebuild.rebuild_context import DROPPED, find_source_release
from sbformat.tools.rebuild.rebuild_report import (
    EXCLUDED,
    METHODS,
    RECREATED,
    TEXT_KEYS,
    describe_default,
    find_default,
    show,
)
from sbformat.tools.rebuild.trusted import CALLABLES, PRIVATE, describe_unknown, is_private, iter_parts
from sbformat.values.computed import ComputedSchedule
from sbformat.values.render import FROM_BYTECODE
from sbformat.values.schedule_meaning import describe_samples, find_meaning, find_nearest, unwrap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sbformat.tools.rebuild.rebuild_context import RebuildContext
    from sbformat.values.schedule_meaning import ScheduleMeaning


def rebuild_data(context: RebuildContext) -> dict[str, Any]:
    """Return ``data`` for the target; every key of the archive gets a row."""
    options = context.options
    made: dict[str, Any] = {}
    for key, value in thaw(context.archive.data).items():
        if key in options.supplied_at_load:
            context.translate(key, "null: the value is supplied when SB3 loads it")
            result = None
        elif key in context.assigned:
            context.translate(key, "another value was assigned")
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
            context.translate(key, "was assigned")
            made[key] = value
            _note_policy_arguments(context, key)
    made.update(dict.fromkeys(options.supplied_at_load - made.keys()))
    if options.policy_class is not None and "policy_class" not in made:
        made["policy_class"] = rebuild_policy_class(context, "policy_class", None)
    _check_data(context, made)
    if context.has_defaults:  # other keys than SB3's own identify no algorithm
        for key, value in context.family.defaults.items():
            if key in context.archive.data:
                made.setdefault(key, value)
    _add_missing(context, made)
    return made


def _note_policy_arguments(context: RebuildContext, key: str) -> None:
    """Note the policy's arguments when they were assigned."""
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
    is_a2c_of_0_6 = context.algorithm == "A2C" and changes.MARK_OF_0_6 in context.archive.data
    if key in changes.REMOVED or (key in changes.A2C_OF_0_6 and is_a2c_of_0_6):
        return _drop_removed
    if key in EXCLUDED:
        return _drop_excluded
    return _rebuild_schedule if key in SCHEDULE_KEYS else _rebuild_plain


# -- any value ----------------------------------------------------------------------------------------


def _rebuild_plain(context: RebuildContext, key: str, value: Any) -> Any:
    """Return a value without code, which SB3 sets on the agent."""
    if key in METHODS:
        return context.drop(key, "the name of a method of the algorithm, which it would replace")
    is_known = key in known_keys(context.algorithm) or key in changes.RENAMED
    try:
        meaning = context.decode(key)
        result = context.encode(meaning) if isinstance(value, Serialized) else value
    except UnsupportedError as error:
        return context.handle_unknown(key, value, error.message)
    found = _list_parts(meaning)
    if any(isinstance(part, CALLABLES) for part in found):
        return context.handle_unknown(key, value, "something that can be called, where SB3 has a plain value")
    if is_private((key, meaning)):
        return context.drop(key, PRIVATE)
    if key not in TEXT_KEYS and any(isinstance(part, (str, bytes, bytearray)) for part in found):
        instead = describe_default(context.algorithm, key) if is_known else None
        return context.drop(key, "it contains a text of the author, where SB3 has none", instead)
    if not is_known and any(_may_be_text(part) for part in found):
        return context.drop(key, "an object, or an array of bytes, under a key that SB3 does not have")
    name = changes.RENAMED.get(key)
    if name is not None:
        context.translate(key, f"is {name} now")
    elif isinstance(value, Serialized):
        context.translate(key, show(meaning))
    else:
        context.keep(key, "" if is_known else "not a key of SB3: it becomes an attribute of the agent")
    return result


def _may_be_text(part: object) -> bool:
    """Return whether a part is an object, or an array that could encode a text."""
    return isinstance(part, Value) or (isinstance(part, ArrayInfo) and part.dtype in ("|u1", "|i1"))


def _list_parts(value: object) -> list[object]:
    """Return a value and everything in it, except the parts of arrays, names and the like."""
    return list(iter_parts(value, (ArrayInfo, Reference, EnumMember, DType)))


def _drop_removed(context: RebuildContext, key: str, value: object) -> Any:  # noqa: ARG001
    if key not in changes.REMOVED:
        message = f"a key of PPO, which A2C also saved in SB3 {changes.FIRST}"
        return context.drop(key, message, is_finding=False)
    if key == "model_class" and context.why_no_her_observation:
        message = f"HER's goals cannot be separated from the observation: {context.why_no_her_observation}"
        return context.drop(key, message, "a plain replay buffer", is_finding=True)
    if key in changes.HER_KEPT and context.her_observation is not None:
        context.translate(key, changes.REMOVED[key])
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
        return context.drop(key, show(meaning, key), instead)
    context.translate(key, f"left out: SB3 creates it from {RECREATED[key]}; was {show(meaning, key)}")
    return DROPPED


def _refuse_unknown(context: RebuildContext, key: str, value: object) -> None:
    """Note what is unknown or code under a key that is dropped anyway, for ``on_unknown="error"``."""
    if context.options.on_unknown != "error" or not isinstance(value, Serialized):
        return
    try:
        meaning = context.decode(key)
        why = show(meaning) if _contains_code(meaning) else ""
    except UnsupportedError as error:
        why = error.message
    if why:
        context.refused.append(f"{escape(key)}: {why}")


def _contains_code(meaning: object) -> bool:
    """Return whether a value contains code, unless it is a schedule that SB3 has a class for."""
    if isinstance(find_meaning(meaning).schedule, (ConstantSchedule, LinearSchedule)):
        return False
    return any(
        isinstance(part, (Node, CarriedClass, CarriedObject)) or (isinstance(part, Function) and part.schedule is None)
        for part in _list_parts(meaning)
    )


def _rebuild_tensorboard_log(context: RebuildContext, key: str, value: object) -> Any:
    is_kept = context.options.keep_system_info and isinstance(value, str) and not ADDRESS.search(value)
    if value is None or is_kept:
        context.keep(key)
        return value
    context.drop(key, "a path of the author's logs", "null: no logs")
    return None


# -- spaces, numbers ----------------------------------------------------------------------------------


def _rebuild_space(context: RebuildContext, key: str, value: object) -> Any:
    """Return a space of gymnasium; SB3 loads no agent without one."""
    try:
        meaning = context.decode(key)
        if not isinstance(meaning, Space):
            message = f"{show(meaning)} is not a known space"
            raise UnsupportedError(message)
        result = context.encode(meaning)
    except UnsupportedError as error:
        if context.options.on_unknown == "keep":
            return context.handle_unknown(key, value, error.message)
        message = f"{key}: {error.message}; SB3 loads no agent without it"
        raise UnsupportedError(message, entry="data") from None
    if key == "observation_space" and context.her_observation is not None:
        since = changes.DICT_SPACES
        context.translate(key, f"the Dict space of observation and goals, which HER concatenated before SB3 {since}")
        return context.encode(context.her_observation.space)
    form = "a space of gymnasium instead of gym" if meaning.library == "gym" else "encoded again"
    random = "" if meaning.random is None else "; with a new random generator"
    context.translate(key, f"{show(meaning)}: {form}{random}")
    return result


def _rebuild_train_freq(context: RebuildContext, key: str, value: object) -> Any:
    """Return ``train_freq``, which includes ``n_episodes_rollout``."""
    episodes = context.archive.data.get("n_episodes_rollout")
    if type(value) is list and len(value) == 2 and type(value[0]) is int and value[1] in ("step", "episode"):
        context.translate(key, f"every {value[0]} {value[1]}")  # SB3 accepts a tuple, JSON has lists
        return context.encode(TrainFreq(value[0], EnumMember(FREQUENCY_UNIT, value[1])))
    if value is None:
        return context.handle_unknown(key, value, "expected a number of steps or episodes", "every step")
    if type(value) is not int or type(episodes) is not int:
        return _rebuild_plain(context, key, value)
    unit, frequency = ("episode", episodes) if episodes > 0 else ("step", value)
    meaning = TrainFreq(frequency, EnumMember(FREQUENCY_UNIT, unit))
    context.translate(key, f"{show(meaning)}, from train_freq {value} and n_episodes_rollout {episodes}")
    return context.encode(meaning)


FREQUENCY_UNIT: Final = Reference("stable_baselines3.common.type_aliases", "TrainFrequencyUnit")


def _rebuild_target_update_interval(context: RebuildContext, key: str, value: object) -> Any:
    """Return the steps between updates of the target network; some releases saved them divided by ``n_envs``."""
    count = context.archive.data.get("n_envs")
    since, until = changes.DIVIDED_INTERVAL.get(context.algorithm, (changes.UNKNOWN, changes.UNKNOWN))
    source = find_source_release(context.archive)
    if since <= source < until and type(value) is int and type(count) is int and count > 1:
        context.translate(key, f"{value * count}: SB3 {source} saved it divided by its {count} environments")
        return value * count
    return _rebuild_plain(context, key, value)


def _rebuild_entropy_coefficient(context: RebuildContext, key: str, value: Any) -> Any:
    """Return ``ent_coef``: a number, or ``auto`` with an initial value where the algorithm learns it."""
    meaning = context.decode_or_none(key)
    is_learner = context.algorithm in ENTROPY_LEARNERS
    fixed = fixed_coefficient(meaning) if is_learner else None
    if fixed is not None and isinstance(meaning, str):
        context.translate(key, f"{fixed}, the number of the text")
        return fixed
    if is_learner:
        is_fit = fixed is not None or initial_coefficient(meaning) is not None
    else:
        is_fit = isinstance(meaning, (int, float, ArrayInfo))
    if is_fit:
        return _rebuild_plain(context, key, value)
    message = "expected a number of at least 0 or auto" if is_learner else "expected a number"
    default = describe_default(context.algorithm, key)
    if isinstance(value, Serialized) or not is_learner:
        return context.handle_unknown(key, value, message, default, was=meaning)
    if context.options.on_unknown == "error":  # wrong, not unknown: the default's optimizer and tensor are for auto
        context.refused.append(f"{key}: {message}")
    return context.drop(key, message, default, was=meaning)


def _rebuild_target_entropy(context: RebuildContext, key: str, value: Any) -> Any:
    """Return a number; SB3 computes that of ``auto`` in the constructor, and not when it loads."""
    meaning = context.decode_or_none(key)
    if isinstance(meaning, (int, float, ArrayInfo)):
        return _rebuild_plain(context, key, value)
    space = context.decode_or_none("action_space")
    number = -float(math.prod(space.shape)) if isinstance(space, Space) and space.distribution == "gaussian" else 0.0
    if meaning == "auto":
        context.translate(key, f"{number}, the value of auto")
    else:
        context.drop(key, "expected a number or auto", str(number), was=meaning)
    return number


def _rebuild_env_count(context: RebuildContext, key: str, value: object) -> Any:
    """Return ``n_envs``, which SB3's ``load`` needs."""
    if type(value) is int and value > 0:
        return _rebuild_plain(context, key, value)
    context.drop(key, "expected a number of environments", "1", was=context.decode_or_none(key))
    return 1


# -- schedules ----------------------------------------------------------------------------------------


class _ComputedError(UnsupportedError):
    """A schedule is understood, and SB3 has no class for it; the message has the nearest one."""


def _rebuild_schedule(context: RebuildContext, key: str, value: object) -> Any:
    """Return a number if a schedule is constant, else SB3's own schedule, or one that is allowed."""
    number = find_default(context.algorithm, key)
    default = "no clipping" if number is None else str(number)
    if key == "learning_rate":
        default = f"{default}, the default of {context.algorithm}"
    try:
        meaning = context.decode(key)
        if key == "clip_range_vf" and type(meaning) in (int, float) and meaning == 0:
            meaning = ConstantSchedule(0.0)
        if (meaning is None and key == "clip_range_vf") or type(meaning) in (int, float):
            if key != "clip_range":  # SB3 takes any number there
                _check_rate(meaning)
            context.keep(key)
            return meaning
        return _encode_schedule(context, key, context.allowed.replace_names(key, meaning))
    except _ComputedError as error:
        return context.handle_unknown(key, value, error.message, default)
    except UnsupportedError as error:
        rate = context.last_learning_rate
        last = f"; its last value was {rate}" if key == "learning_rate" and rate is not None else ""
        message = f"{error.message}{last}; {context.options.advice.set_value(key)}"
        return context.handle_unknown(key, value, message, default)


def _encode_schedule(context: RebuildContext, key: str, meaning: object) -> Any:
    inner = unwrap(meaning)
    function = inner.function if isinstance(inner, Partial) else inner
    if isinstance(function, Reference) and function.pair in context.allowed.pairs:
        return context.keep_allowed(key, meaning)
    found = find_meaning(meaning)
    _check_meaning(context, key, found, meaning)
    how = FROM_BYTECODE if found.is_from_bytecode else ""
    written: Any = found.schedule
    # ARS calls the schedule without a check, and PPO refuses the number 0 but not a schedule of it
    may_be_number = key != "delta_std_schedule" and not (key == "clip_range_vf" and getattr(written, "value", 1) == 0)
    if isinstance(written, ConstantSchedule) and may_be_number:
        form = "a function" if isinstance(meaning, Function) or how else "an object"
        context.translate(key, f"a number instead of {form}{how and ', '}{how}")
        return written.value
    published = meaning.schedule if isinstance(meaning, Function) else None
    if isinstance(published or meaning, FloatSchedule) or (how and key in WRAPPED):
        written = FloatSchedule(written)
    result = context.encode(written)
    context.translate(key, f"{show(found.schedule)}{how and f' ({how})'}")
    return result


def _check_meaning(context: RebuildContext, key: str, found: ScheduleMeaning, meaning: object) -> None:
    """Check that SB3 has a schedule for what was found, and accepts its numbers."""
    schedule, advice = found.schedule, context.options.advice
    if isinstance(schedule, ComputedSchedule):
        message = f"neither constant nor linear, as SB3's schedules are: {describe_samples(schedule)} during training"
        nearest = find_nearest(schedule)
        if nearest is not None:
            message += f"; the nearest is {advice.set_schedule(key, nearest)}"
        raise _ComputedError(message)
    if schedule is None:
        reason = f" ({escape(found.reason, 100)})" if found.reason else ""
        message = f"{describe_unknown(unwrap(meaning), 'a schedule', advice)}{reason}"
        raise UnsupportedError(message)
    if isinstance(schedule, ConstantSchedule):
        _check_rate(schedule.value)
    elif isinstance(schedule, InterpolatedSchedule):
        _check_rate(schedule.sample(1.0))
    else:
        _check_rate(schedule.start)  # torch checks the first one only
        if not math.isfinite(schedule.end) or not 0 < schedule.end_fraction < math.inf:
            message = f"expected finite numbers in a linear schedule, got {escape(repr(schedule))}"
            raise UnsupportedError(message)


def _check_rate(value: float | None) -> None:
    """Check that torch accepts a number as a learning rate."""
    if value is not None and not 0 <= value < math.inf:
        message = f"expected a number of at least 0, got {value}"
        raise UnsupportedError(message)


# -- what SB3's load needs ----------------------------------------------------------------------------

_REQUIRED: Final = ("policy_class", "observation_space", "action_space")
"""Keys that SB3's ``load`` reads, without a default."""
_NOT_ONLY_NUMBERS: Final = frozenset({"ent_coef", "train_freq"})
"""Keys whose default is a number, but whose value may be an object."""
_DECIDE_ON_NOISE: Final = ("use_sde", "policy_kwargs", "policy_class", "action_space")


def _check_data(context: RebuildContext, made: dict[str, Any]) -> None:
    """Drop the values that the schema refuses, and add or refuse what is missing; each with a finding.

    :param made: the new ``data``, changed in place
    """
    for key, message in list(_find_wrong_values(context, made)):
        if key in made:
            _drop_value(context, made, key, message)
    _check_gsde(context, made)
    for key in _REQUIRED:
        if key not in made:
            message = f"{key}: it is missing, and SB3 loads no agent without it"
            raise UnsupportedError(message, entry=DATA_ENTRY)
    for key in ("verbose", "n_envs"):  # load reads them, and the constructor has defaults
        if key not in made:
            made[key] = context.family.defaults[key]
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
    for key, default in context.family.defaults.items():
        is_number = type(default) in (bool, int, float) and key not in _NOT_ONLY_NUMBERS
        if is_number and isinstance(made.get(key), Serialized) and not keeps and key not in context.assigned:
            yield key, "expected a single number, got an object"


def _drop_value(context: RebuildContext, made: dict[str, Any], key: str, message: str) -> None:
    """Remove a value from the result; its row replaces the earlier ones."""
    if key in _REQUIRED:
        message = f"{key}: {message}; SB3 loads no agent without it"
        raise UnsupportedError(message, entry=DATA_ENTRY)
    del made[key]
    names = {key, *(old for old, new in changes.RENAMED.items() if new == key and old in context.archive.data)}
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


def _add_missing(context: RebuildContext, made: dict[str, Any]) -> None:
    """Add the keys and arguments that later releases need so that they do the same."""
    if context.required_arguments and "policy_kwargs" not in made:
        context.policy_arguments = add_required_arguments(context, {})
        made["policy_kwargs"] = context.encode(context.policy_arguments)
    if context.her_observation is not None:
        made["replay_buffer_class"] = context.encode(Reference(*HER_BUFFER))
        made["replay_buffer_kwargs"] = _make_her_kwargs(context)
        context.translate("replay_buffer_class", f"HerReplayBuffer, which HER is since SB3 {changes.DICT_SPACES}")
        context.translate("replay_buffer_kwargs", escape(str(made["replay_buffer_kwargs"])))
    if made.get("optimize_memory_usage") is True:
        arguments = made.get("replay_buffer_kwargs")
        if (arguments is None or type(arguments) is dict) and "handle_timeout_termination" not in (arguments or {}):
            made["replay_buffer_kwargs"] = {**(arguments or {}), "handle_timeout_termination": False}
            since = f"since SB3 {changes.DICT_SPACES}, and the only behaviour before"
            message = f"False: required with optimize_memory_usage {since}"
            context.translate("replay_buffer_kwargs/handle_timeout_termination", message)


def _make_her_kwargs(context: RebuildContext) -> dict[str, Any]:
    """Return HerReplayBuffer's arguments, from the keys of an archive of HER."""
    given = {name: context.archive.decode(name) for name in changes.HER_KEPT if name in context.archive.data}
    made: dict[str, Any] = {}
    if type(given.get("n_sampled_goal")) is int:
        made["n_sampled_goal"] = given["n_sampled_goal"]
    key = "goal_selection_strategy"
    if key in given:
        made[key] = rebuild_goal_strategy(context, key, given[key])
    return made


_HANDLERS: Final[dict[str, Callable[[RebuildContext, str, Any], Any]]] = {
    "observation_space": _rebuild_space,
    "action_space": _rebuild_space,
    **dict.fromkeys(RECREATED, _drop_recreated),
    "policy_class": rebuild_policy_class,
    "policy_kwargs": rebuild_policy_kwargs,
    "tensorboard_log": _rebuild_tensorboard_log,
    "train_freq": _rebuild_train_freq,
    "ent_coef": _rebuild_entropy_coefficient,
    "target_entropy": _rebuild_target_entropy,
    "n_envs": _rebuild_env_count,
    "target_update_interval": _rebuild_target_update_interval,
    "replay_buffer_class": rebuild_buffer_class,
    "rollout_buffer_class": rebuild_buffer_class,
    "replay_buffer_kwargs": rebuild_buffer_kwargs,
    "rollout_buffer_kwargs": rebuild_buffer_kwargs,
    "action_noise": rebuild_action_noise,
}
_DROPPING_HANDLERS: Final = frozenset(
    {_drop_recreated, _drop_removed, _drop_renamed, _drop_excluded, _rebuild_tensorboard_log}
)
"""Handlers whose result never contains the value of a blob."""
