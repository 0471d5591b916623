"""``data`` anew: each key kept, translated or dropped, with a row that says so (FORMAT.md 15.1, 15.2)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from sbformat.constants import ENTROPY_LEARNERS
from sbformat.data import Serialized
from sbformat.errors import UnsupportedError, escape
from sbformat.globals.dangerous import ADDRESS
from sbformat.immutable import thaw
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pkl.tree import Node
from sbformat.policies.entropy import fixed_coefficient, initial_coefficient
from sbformat.schema import known_keys
from sbformat.tools.rebuild import buffers, policies, releases
from sbformat.tools.rebuild.check_data import check_data
from sbformat.tools.rebuild.context import DROPPED
from sbformat.tools.rebuild.defaults import describe_default
from sbformat.tools.rebuild.encode import PRIVATE, is_private, parts, texts, written
from sbformat.tools.rebuild.roles import HER_BUFFER
from sbformat.tools.rebuild.schedules import rebuilt_schedule
from sbformat.values.render import render_line
from sbformat.values.types import (
    Box,
    CarriedClass,
    CarriedObject,
    DType,
    EnumMember,
    Function,
    Instance,
    Partial,
    Reference,
    Schedule,
    Space,
    TrainFreq,
    Value,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbformat.tools.rebuild.context import Job

_SPACES: Final = ("observation_space", "action_space")
_UNIT: Final = Reference("stable_baselines3.common.type_aliases", "TrainFrequencyUnit")
_CALLABLES: Final = (Reference, Function, Partial, Schedule, Instance, Node, CarriedClass)


def rebuilt_data(job: Job) -> dict[str, Any]:
    """Return all of ``data`` for the target; every key of the archive gets a row.

    :raises UnsupportedError: for what SB3 cannot do without and that cannot be written anew
    """
    made: dict[str, Any] = {}
    for key, value in thaw(job.archive.data).items():
        if key in job.options.given:
            job.told("translated", "null: the loader brings a value", key=key)
            result = None
        elif key in job.replaced:
            job.told("translated", "another value was given", key=key)
            result = job.replaced[key]
            _note_arguments(job, key)
        else:
            handler = _handler(job, key)
            if handler in _LEFT_OUT or key in releases.METHODS:
                _refuse_unknown(job, key, value)
            result = handler(job, key, value)
        if result is not DROPPED:
            made[releases.RENAMED.get(key, key)] = result
    for key, value in job.replaced.items():
        if key not in made:
            job.told("translated", "was given", key=key)
            made[key] = value
            _note_arguments(job, key)
    made.update(dict.fromkeys(job.options.given - made.keys()))
    if job.options.policy_class is not None and "policy_class" not in made:
        made["policy_class"] = policies.policy_class(job, "policy_class", None)
    check_data(job, made)
    _complete(job, made)
    return made


def _note_arguments(job: Job, key: str) -> None:
    """Note the policy's arguments when they are among the values that were given.

    :raises UnsupportedError: for one that SB3 cannot use
    """
    if key == "policy_kwargs":
        given = job.replaced[key]
        job.arguments = given if type(given) is dict else None
        if type(given) is dict:
            policies.check_given(job, key, given)


def _handler(job: Job, key: str) -> Callable[[Job, str, Any], Any]:
    if key in _HANDLERS:
        return _HANDLERS[key]
    if releases.RENAMED.get(key) in job.archive.data:
        return _replaced
    if key in releases.REMOVED or (key in releases.A2C_OF_0_6 and job.is_a2c_of_0_6):
        return _removed
    if key in releases.EXCLUDED:
        return _excluded
    return rebuilt_schedule if key in releases.SCHEDULES else _plain


# -- any value ----------------------------------------------------------------------------------------


def _plain(job: Job, key: str, value: Any) -> Any:
    """A value that SB3 takes as it is."""
    if key in releases.METHODS:
        return job.dropped(key, "a part of the algorithm itself, which it would take the place of")
    is_known = key in known_keys(job.algorithm) or key in releases.RENAMED
    try:
        meaning = job.meaning(key)
        result = written(meaning, job.target) if isinstance(value, Serialized) else value
    except UnsupportedError as error:
        return job.unknown(key, value, error.message)
    found = _parts(meaning)
    if any(isinstance(part, _CALLABLES) for part in found):
        return job.unknown(key, value, "something to call under a key where SB3 keeps a value")
    if is_private(key) or any(map(is_private, texts(meaning))):
        return job.dropped(key, PRIVATE)
    if key not in releases.TEXTS and any(isinstance(part, (str, bytes, bytearray)) for part in found):
        instead = describe_default(job.algorithm, key) if is_known else None
        return job.dropped(key, "it holds a text of whoever trained it, and SB3 has none there", instead)
    if not is_known and any(isinstance(part, Value) or _is_text_in_numbers(part) for part in found):
        return job.dropped(key, "an object, or an array of bytes, under a key where SB3 keeps none")
    name = releases.RENAMED.get(key)
    if name is not None:
        job.told("translated", f"is {name} now", key=key)
    elif isinstance(value, Serialized):
        job.told("translated", _line(meaning), key=key)
    else:
        job.told("kept", "" if is_known else "no key of SB3: it becomes an attribute of the agent", key=key)
    return result


def _is_text_in_numbers(part: object) -> bool:
    return isinstance(part, ArrayInfo) and part.dtype in ("|u1", "|i1")


def _parts(value: object) -> list[object]:
    """A value and all that is in it, but for what numbers, names and their like are made of."""
    return list(parts(value, (ArrayInfo, Reference, EnumMember, DType)))


def _line(meaning: object) -> str:
    return escape(render_line(meaning), 200)


def _removed(job: Job, key: str, value: object) -> Any:  # noqa: ARG001
    if key not in releases.REMOVED:
        return job.dropped(key, "a key of PPO, which A2C wrote in SB3 0.6", is_finding=False)
    if key == "model_class" and job.lost:
        message = f"HER's goals cannot be told from the observation: {job.lost}"
        return job.dropped(key, message, "a plain replay buffer", is_finding=True)
    if key in releases.HER_KEPT and job.hindsight is not None:
        job.told("translated", releases.REMOVED[key], key=key)
        return DROPPED
    return job.dropped(key, releases.REMOVED[key])


def _replaced(job: Job, key: str, value: object) -> Any:  # noqa: ARG001
    return job.dropped(key, f"{releases.RENAMED[key]} is there too, and is what SB3 reads")


def _excluded(job: Job, key: str, value: object) -> Any:
    if value is None:  # DQN before 2.0 had a null in the place of an actor
        return job.dropped(key, "null where SB3 has an object of its own, which it would take the place of")
    return job.dropped(key, "SB3 never saves it of its own accord: it would take the place of the agent's own")


def _made_anew(job: Job, key: str, value: object) -> Any:
    """A value that SB3's ``load`` writes over, whatever stands there."""
    if not isinstance(value, Serialized):
        return _plain(job, key, value)
    source = f"what SB3 makes of {releases.MADE_ANEW[key]}"
    try:
        meaning = job.meaning(key)
    except UnsupportedError as error:
        return job.dropped(key, error.message, source)
    if any(_is_code(part) for part in _parts(meaning)):
        return job.dropped(key, _line(meaning), source)
    job.told("translated", f"left out for {source}, whatever it was: {_line(meaning)}", key=key)
    return DROPPED


def _refuse_unknown(job: Job, key: str, value: object) -> None:
    """Note what is unknown or code under a key that is left out anyway, when the caller asks for an error."""
    if job.options.on_unknown != "error" or not isinstance(value, Serialized):
        return
    try:
        meaning = job.meaning(key)
    except UnsupportedError as error:
        job.refused.append(f"{escape(key)}: {error.message}")
        return
    if any(_is_code(part) for part in _parts(meaning)):
        job.refused.append(f"{escape(key)}: {_line(meaning)} is not known")


def _is_code(part: object) -> bool:
    is_function = isinstance(part, Function) and part.schedule is None
    return is_function or isinstance(part, (Node, CarriedClass, CarriedObject))


def _tensorboard_log(job: Job, key: str, value: object) -> Any:
    if value is None:
        job.told("kept", "", key=key)
        return None
    if not job.options.keep_system_info or not isinstance(value, str) or ADDRESS.search(value):
        job.dropped(key, "where whoever trained it kept logs", "null: no logs")
        return None
    job.told("kept", "", key=key)
    return value


# -- spaces, numbers -----------------------------------------------------------------------


def _space(job: Job, key: str, value: object) -> Any:
    """A space, as gymnasium's; SB3 loads nothing without one."""
    try:
        meaning = job.meaning(key)
        if not isinstance(meaning, Space):
            message = f"{_line(meaning)} is no space that is known"
            raise UnsupportedError(message)
        result = written(meaning, job.target)
    except UnsupportedError as error:
        if job.options.on_unknown == "keep":
            return job.unknown(key, value, error.message)
        message = f"{key}: {error.message}; SB3 loads no agent without it"
        raise UnsupportedError(message, entry="data") from None
    if key == "observation_space" and job.hindsight is not None:
        job.told(
            "translated", "the Dict space of observation and goals, which HER concatenated before SB3 1.1", key=key
        )
        return written(job.hindsight.space, job.target)
    moved = "a space of gym, gymnasium's now" if meaning.library == "gym" else "written anew"
    random = "" if meaning.random is None else "; its random generator starts anew"
    job.told("translated", f"{_line(meaning)}: {moved}{random}", key=key)
    return result


def _train_freq(job: Job, key: str, value: object) -> Any:
    """``train_freq``, with what ``n_episodes_rollout`` said before SB3 1.0."""
    episodes = job.archive.data.get("n_episodes_rollout")
    if type(value) is list and len(value) == 2 and type(value[0]) is int and value[1] in ("step", "episode"):
        job.told("translated", f"every {value[0]} {value[1]}", key=key)  # SB3 takes a pair, and JSON has none
        return written(TrainFreq(value[0], EnumMember(_UNIT, value[1])), job.target)
    if value is None:
        return job.unknown(key, value, "expected a number of steps or episodes", "every step")
    if type(value) is not int or type(episodes) is not int:
        return _plain(job, key, value)
    unit, frequency = ("episode", episodes) if episodes > 0 else ("step", value)
    meaning = TrainFreq(frequency, EnumMember(_UNIT, unit))
    job.told("translated", f"{_line(meaning)}, from train_freq {value} and n_episodes_rollout {episodes}", key=key)
    return written(meaning, job.target)


def _target_update_interval(job: Job, key: str, value: object) -> Any:
    """Steps between updates of the target network, which some releases saved divided by the number of environments."""
    count = job.archive.data.get("n_envs")
    since, until = releases.DIVIDED_INTERVAL.get(job.algorithm, ((0, 0), (0, 0)))
    if since <= job.source < until and type(value) is int and type(count) is int and count > 1:
        message = f"{value * count}: SB3 {job.source[0]}.{job.source[1]} saved it divided by its {count} environments"
        job.told("translated", message, key=key)
        return value * count
    return _plain(job, key, value)


def _entropy_coefficient(job: Job, key: str, value: Any) -> Any:
    """``ent_coef``: a number, or ``auto`` with where it begins for those that learn it."""
    meaning = job.readable(key)
    default = describe_default(job.algorithm, key)
    if job.algorithm not in ENTROPY_LEARNERS:
        if isinstance(meaning, (int, float, ArrayInfo)):
            return _plain(job, key, value)
        return job.unknown(key, value, "expected a number", default, was=meaning)
    fixed = fixed_coefficient(meaning)
    if fixed is not None and isinstance(meaning, str):
        job.told("translated", f"{fixed}, which SB3 makes of the text", key=key)
        return fixed
    if fixed is not None or initial_coefficient(meaning) is not None:
        return _plain(job, key, value)
    message = "expected a number of at least 0 or auto"
    if not isinstance(value, Serialized):  # not unknown but wrong: the optimizer and the tensor are of auto
        if job.options.on_unknown == "error":
            job.refused.append(f"{key}: {message}")
        return job.dropped(key, message, default, was=meaning)
    return job.unknown(key, value, message, default, was=meaning)


def _target_entropy(job: Job, key: str, value: Any) -> Any:
    """A number; SB3 makes ``auto`` one when it begins to train, and not when it loads."""
    meaning = job.readable(key)
    if isinstance(meaning, (int, float, ArrayInfo)):
        return _plain(job, key, value)
    space = job.readable("action_space")
    number = -float(math.prod(space.shape)) if isinstance(space, Box) else 0.0
    if meaning == "auto":
        job.told("translated", f"{number}, which is what auto means", key=key)
    else:
        job.dropped(key, "expected a number or auto", str(number), was=meaning)
    return number


def _count(job: Job, key: str, value: object) -> Any:
    """``n_envs``, which SB3 loads nothing without."""
    if type(value) is int and value > 0:
        return _plain(job, key, value)
    job.dropped(key, "expected a number of environments", "1", was=job.readable(key))
    return 1


# -- what has to be there -----------------------------------------------------------------------------


def _complete(job: Job, made: dict[str, Any]) -> None:
    """Add what later releases need to do the same."""
    if job.facts and "policy_kwargs" not in made:
        job.arguments = policies.told_facts(job, {})
        made["policy_kwargs"] = written(job.arguments, job.target)
    if job.hindsight is not None:
        made["replay_buffer_class"] = written(Reference(*HER_BUFFER), job.target)
        made["replay_buffer_kwargs"] = _goals(job)
        job.told("translated", "HerReplayBuffer, which HER is since SB3 1.1", key="replay_buffer_class")
        job.told("translated", escape(str(made["replay_buffer_kwargs"])), key="replay_buffer_kwargs")
    if made.get("optimize_memory_usage") is True:
        arguments = made.get("replay_buffer_kwargs")
        if (arguments is None or type(arguments) is dict) and "handle_timeout_termination" not in (arguments or {}):
            made["replay_buffer_kwargs"] = {**(arguments or {}), "handle_timeout_termination": False}
            message = (
                "False: with optimize_memory_usage, SB3 since 1.1 takes nothing else, and before it did nothing else"
            )
            job.told("translated", message, key="replay_buffer_kwargs/handle_timeout_termination")


def _goals(job: Job) -> dict[str, Any]:
    """Return HerReplayBuffer's arguments, from the keys of an archive of HER."""
    given = {name: job.archive.decode(name) for name in releases.HER_KEPT if name in job.archive.data}
    made: dict[str, Any] = {}
    if type(given.get("n_sampled_goal")) is int:
        made["n_sampled_goal"] = given["n_sampled_goal"]
    if "goal_selection_strategy" in given:
        value = given["goal_selection_strategy"]
        made["goal_selection_strategy"] = buffers.strategy(job, "goal_selection_strategy", value)
    return made


_HANDLERS: Final[dict[str, Callable[[Job, str, Any], Any]]] = {
    **dict.fromkeys(_SPACES, _space),
    **dict.fromkeys(releases.MADE_ANEW, _made_anew),
    "policy_class": policies.policy_class,
    "policy_kwargs": policies.policy_kwargs,
    "tensorboard_log": _tensorboard_log,
    "train_freq": _train_freq,
    "ent_coef": _entropy_coefficient,
    "target_entropy": _target_entropy,
    "n_envs": _count,
    "target_update_interval": _target_update_interval,
    "replay_buffer_class": buffers.buffer_class,
    "rollout_buffer_class": buffers.buffer_class,
    "replay_buffer_kwargs": buffers.buffer_kwargs,
    "rollout_buffer_kwargs": buffers.buffer_kwargs,
    "action_noise": buffers.action_noise,
}
_LEFT_OUT: Final = frozenset({_made_anew, _removed, _replaced, _excluded, _tensorboard_log})
"""Handlers whose result never has the value of a blob."""
