"""The policy's class and arguments for the target (FORMAT.md 15.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.data import Serialized
from sbformat.errors import UnsupportedError, escape
from sbformat.known.shown import one_line
from sbformat.known.values import CarriedClass, Reference
from sbformat.names.moved import of_today
from sbformat.names.references import REFERENCES
from sbformat.pkl.tree import Global
from sbformat.tools.rebuild import releases
from sbformat.tools.rebuild.job import DROPPED
from sbformat.tools.rebuild.written import PRIVATE, check_role, is_private, texts, written

if TYPE_CHECKING:
    from sbformat.tools.rebuild.job import Job

_CLASSES: Final = frozenset({"features_extractor_class", "optimizer_class", "activation_fn"})
"""Arguments that take a class, which may be a user's own."""
_BY_HAND: Final = "custom_objects={'policy_class': ...} or --policy-class gives one"


def policy_class(job: Job, key: str, value: object) -> Any:  # noqa: ANN401 -- JSON or Serialized
    """Return the policy's class: SB3's own by its name of today, a user's by the name that it has."""
    given = job.options.policy_class
    if given is not None:
        job.told("translated", f"{given}, as was asked for", key=key)
        if given.pair not in REFERENCES:
            return _foreign(job, key, Global(*given.pair))
        return written(given, job.target)
    if job.hindsight is not None:
        pair = job.family.policies["MultiInputPolicy"]
        job.told("translated", f"{'.'.join(pair)}, for the Dict space of observation and goals", key=key)
        return written(Reference(*pair), job.target)
    try:
        meaning = job.meaning(key)
        if isinstance(meaning, Global) and not meaning.updates:
            made = _foreign(job, key, meaning)
            job.told("kept", f"{escape(str(meaning))}, a class outside SB3: the loader imports it", key=key)
            return made
        if not isinstance(meaning, Reference):
            what = "is carried by value" if isinstance(meaning, CarriedClass) else "is no class that is known"
            message = f"{escape(one_line(meaning), 200)} {what}; {_BY_HAND}"
            raise UnsupportedError(message)
        if not job.is_of_sb3:
            message = f"{meaning} is no policy; {_BY_HAND}"
            raise UnsupportedError(message)
        result = written(meaning, job.target)
    except UnsupportedError as error:
        made = job.unknown(key, value, error.message, "nothing: SB3 cannot load it so")
        return None if made is DROPPED else made  # custom_objects replace only what is there
    now = Reference(*of_today(meaning.pair))
    job.told("translated", str(now) if now == meaning else f"{meaning} is {now} now", key=key)
    return result


def _foreign(job: Job, key: str, name: Global) -> Any:  # noqa: ANN401 -- Serialized
    """A class outside SB3, as a reference: the one thing that a rebuilt archive may have the loader import."""
    job.required(key, name)
    return written(Reference(*name.pair), job.target, foreign=frozenset({name.pair}))


def policy_kwargs(job: Job, key: str, value: object) -> Any:  # noqa: ANN401 -- JSON or Serialized
    """Return the policy's arguments: those that are gone left out, those that changed their meaning written out."""
    try:
        meaning = job.meaning(key)
        if type(meaning) is not dict or any(type(name) is not str for name in meaning):
            message = f"{escape(one_line(meaning), 200)} is no dict of arguments"
            raise UnsupportedError(message)
    except UnsupportedError as error:
        return job.unknown(key, value, error.message, "the policy's defaults")
    if job.options.on_unknown == "keep" and (why := _first_unknown(job, meaning)):
        return job.unknown(key, value, why)
    kept = {}
    count = len(job.rows)
    for name, part in meaning.items():
        result = _argument(job, f"{key}/{escape(name, 80)}", name, part)
        if result is not DROPPED:
            kept[name] = result
    for name in ("features_extractor", "optimizer"):
        if f"{name}_class" in meaning and f"{name}_class" not in kept and kept.pop(f"{name}_kwargs", None) is not None:
            job.dropped(f"{key}/{name}_kwargs", f"arguments of the {name}_class that is dropped")
    kept = told_facts(job, kept)
    result = _written_arguments(job, kept)
    is_same = len(job.rows) == count and not isinstance(value, Serialized)
    job.told("kept" if is_same else "translated", "" if is_same else escape(one_line(kept), 200), key=key)
    return result


def _first_unknown(job: Job, arguments: dict[str, Any]) -> str:
    """Say what among the arguments cannot be written anew, or nothing."""
    for name, part in arguments.items():
        try:
            if name != "device" and not (name in _CLASSES and isinstance(part, Global)):
                written(part, job.target)
        except UnsupportedError as error:
            return f"{escape(name, 80)}: {error.message}"
    return ""


def told_facts(job: Job, kept: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with those that the layers ask for, each with a row."""
    if not job.is_of_sb3:
        return kept
    for name, (value, why) in job.facts.items():
        job.told("translated", f"{escape(one_line(value), 200)}: {why}", key=f"policy_kwargs/{name}")
    return {**kept, **{name: value for name, (value, _) in job.facts.items()}}


def _argument(job: Job, place: str, name: str, value: object) -> Any:  # noqa: ANN401 -- a value or the marker
    """Return one argument, or the marker when it is dropped."""
    if name == "device":
        return job.dropped(place, "SB3 asks for the device when it loads")
    if job.is_of_sb3 and name not in releases.POLICY_KWARGS[job.algorithm]:
        if name == "sde_net_arch" and value is not None:
            message = "policy_kwargs: sde_net_arch gives the noise layers of its own, which SB3 2 does not have"
            raise UnsupportedError(message, entry="data")
        return job.dropped(place, f"no argument of {job.algorithm}'s policies in SB3 {job.target}")
    if name == "squash_output" and value is not True and job.always_squashes:
        if not job.acts_within_one:
            message = (
                "policy_kwargs: squash_output is False, and ARS squashed all the same and did not scale before 1.7"
            )
            raise UnsupportedError(message, entry="data")
        job.told("translated", "True: MlpPolicy of ARS took no other before SB3 1.7", key=place)
        return True
    try:
        if name in _CLASSES and isinstance(value, Global) and not value.updates:
            job.required(place, value)
            job.told("kept", f"{escape(str(value))}, a class outside SB3: the loader imports it", key=place)
            return value
        if name in _CLASSES:
            check_role(name, value)
        written(value, job.target)
    except UnsupportedError as error:
        return job.unknown(place, DROPPED, error.message, "the policy's default: its layers may not fit then")
    if any(map(is_private, texts((name, value)))):
        return job.dropped(place, PRIVATE)
    return value


def _written_arguments(job: Job, kept: dict[str, Any]) -> Any:  # noqa: ANN401 -- JSON or Serialized
    """Write the arguments, with names of classes outside SB3 among them."""
    return written(
        {name: Reference(*part.pair) if isinstance(part, Global) else part for name, part in kept.items()},
        job.target,
        foreign=frozenset(part.pair for part in kept.values() if isinstance(part, Global)),
    )
