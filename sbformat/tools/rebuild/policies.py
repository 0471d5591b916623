"""The policy's class and arguments for the target (FORMAT.md 15.1, 15.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.data import Serialized
from sbformat.errors import UnsupportedError, escape
from sbformat.globals.renamed import current_name
from sbformat.pkl.tree import Call, Global
from sbformat.policies import POLICIES
from sbformat.tools.rebuild.allowed import harm_of
from sbformat.tools.rebuild.context import DROPPED
from sbformat.tools.rebuild.encode import PRIVATE, is_private, texts, written
from sbformat.tools.rebuild.optimizer_options import ADAM, OPTIMIZERS, fits_number, fits_option, keywords_of
from sbformat.tools.rebuild.roles import CLASS_ARGUMENTS, EXTRACTORS, check_plain, check_role
from sbformat.values.render import render_line
from sbformat.values.types import CarriedClass, Function, Partial, Reference

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.globals.torch import Pair
    from sbformat.tools.rebuild.context import Job

_ARGUMENTS_OF: Final = {
    "features_extractor_kwargs": "features_extractor_class",
    "optimizer_kwargs": "optimizer_class",
}
"""Arguments that SB3 hands on to a class, and where that class is."""
_NUMBERS: Final = frozenset(
    {"log_std_init", "clip_mean", "batch_norm_momentum", "batch_norm_eps", "renorm_warmup_steps"}
)
"""Arguments that are numbers and do not decide on a shape."""
_ANOTHER: Final = "--policy-class NAME (policy_class=NAME) takes one of SB3's own"


# -- the class ----------------------------------------------------------------------------------------


def policy_class(job: Job, key: str, value: object) -> Any:
    """Return the policy's class: SB3's own by its name of today, a user's when it is allowed, else SB3's standard one.

    :raises UnsupportedError: for an option that names no policy, and when SB3 has none for the observations
    """
    if job.options.policy_class is not None:
        return _requested_class(job, key, job.options.policy_class)
    if job.hindsight is not None and job.known_policy is not None:
        pair = job.family.policies["MultiInputPolicy"]
        job.told("translated", f"{'.'.join(pair)}, for the Dict space of observation and goals", key=key)
        return written(Reference(*pair), job.target)
    known = job.known_policy
    if known is not None:
        before = job.meaning(key)
        message = str(known) if known == before else f"{escape(str(before), 200)} is {known} now"
        job.told("translated", message, key=key)
        return written(known, job.target)
    return _unknown_class(job, key, value)


def _requested_class(job: Job, key: str, given: Reference) -> Any:
    """A class that the caller named: one of the algorithm's, or one of a package of the caller's own."""
    job.told("translated", f"{given}, as requested", key=key)
    if given.pair in job.family.policies.values():
        return written(given, job.target)
    return written(job.allowed.require(key, given.pair), job.target, foreign=job.allowed.pairs)


def _unknown_class(job: Job, key: str, value: object) -> Any:
    meaning = job.readable(key)
    if isinstance(meaning, (Global, Reference)) and meaning in job.allowed:
        result = written(job.allowed.value(key, meaning), job.target, foreign=job.allowed.pairs)
        job.told("kept", f"{escape(str(meaning))}, which is allowed: the loader imports it", key=key)
        return result
    why = describe_unknown(meaning, "a policy")
    if job.options.on_unknown == "keep":
        return job.unknown(key, value, why)
    standard = job.policy
    if standard is None:
        message = f"{key}: {why}, and {job.algorithm} has no policy for its observations; {_ANOTHER}"
        raise UnsupportedError(message, entry="data")
    job.replaced_policy = why
    why = f"{why}; all names and shapes of its weights fit SB3's own, but what it computed may differ; {_ANOTHER}"
    if job.options.on_unknown == "error":
        job.refused.append(f"{key}: {why}")
    job.dropped(key, why, str(standard), was=meaning, is_finding=True)
    return written(standard, job.target)


def describe_unknown(value: object, what: str) -> str:
    """Say why a class or function is not kept, and which option keeps it."""
    shown = escape(render_line(value), 200)
    name = value if isinstance(value, (Global, Reference)) else _function_of(value)
    if isinstance(value, (CarriedClass, Function)):
        return f"{shown} is a user's own, carried by value: code, with no name to allow"
    if name is None or getattr(name, "updates", None):
        return f"{shown} is not known as {what}"
    harm = harm_of(name.pair)
    if harm:
        return f"{escape(str(name), 200)} {harm}"
    return (
        f"{escape(str(name), 200)} is not known as {what}: SB3 would import and call it; "
        f"--allow {escape(str(name), 200)} (allow=[...]) keeps it"
    )


def _function_of(value: object) -> Any:
    """Return the name that a partial calls."""
    if isinstance(value, Partial):
        return value.function if isinstance(value.function, (Global, Reference)) else None
    state = value.updates[0].value if isinstance(value, Call) and value.updates else None
    first = state[0] if isinstance(state, tuple) and state else None
    return first if isinstance(first, Global) else None


# -- the arguments ------------------------------------------------------------------------------------


def policy_kwargs(job: Job, key: str, value: object) -> Any:
    """Return the policy's arguments: those that are gone left out, those that changed their meaning written out."""
    try:
        meaning = job.meaning(key)
        if type(meaning) is not dict or any(type(name) is not str for name in meaning):
            message = f"{escape(render_line(meaning), 200)} is not a dict of arguments"
            raise UnsupportedError(message)
    except UnsupportedError as error:
        result = job.unknown(key, value, error.message, "the policy's defaults")
        job.arguments = None if result is not DROPPED else told_facts(job, {})
        return result if job.arguments is None else written(job.arguments, job.target)
    meaning = job.allowed.value(key, meaning)
    if job.options.on_unknown == "keep" and (why := _first_unknown(job, meaning)):
        job.arguments = None
        return job.unknown(key, value, why)
    count = len(job.rows)
    kept = told_facts(job, _kept_arguments(job, key, meaning))
    job.arguments = kept
    result = written(kept, job.target, foreign=job.allowed.pairs)
    is_same = len(job.rows) == count and not isinstance(value, Serialized)
    job.told("kept" if is_same else "translated", "" if is_same else escape(render_line(kept), 200), key=key)
    return result


def _kept_arguments(job: Job, key: str, meaning: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that stay, those of a class without it among them left out."""
    kept = {}
    for name, part in meaning.items():
        result = _argument(job, f"{key}/{escape(name, 80)}", name, part)
        if result is not DROPPED:
            kept[name] = result
    for name, owner in _ARGUMENTS_OF.items():
        place = f"{key}/{name}"
        if owner in meaning and owner not in kept and kept.pop(name, None) is not None:
            job.dropped(place, f"arguments of the {owner} that is dropped", was=meaning[name])
        elif name in kept:
            kept[name] = _class_arguments(job, place, kept[name], _accepted(job, kept.get(owner), name))
    return {name: part for name, part in kept.items() if part is not DROPPED}


def check_given(job: Job, key: str, given: dict[str, Any]) -> None:
    """Check the policy's arguments that the caller assigned.

    :raises UnsupportedError: for the first that SB3 does not take
    """
    rows, refused = list(job.rows), list(job.refused)
    _kept_arguments(job, key, given)
    wrong = [row for row in job.rows[len(rows) :] if row.action != "translated"]
    job.rows, job.refused = rows, refused
    if wrong:
        message = f"{wrong[0].key}: {wrong[0].message}"
        raise UnsupportedError(message, entry="data")


def _first_unknown(job: Job, arguments: dict[str, Any]) -> str:
    """Say what among the arguments cannot be written anew, or nothing."""
    for name, part in arguments.items():
        try:
            if name != "device":
                _check_argument(job, name, part)
        except UnsupportedError as error:
            return f"{escape(name, 80)}: {error.message}"
    return ""


def told_facts(job: Job, kept: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with those that the layers ask for, each with a row."""
    if not job.is_of_sb3:
        return kept
    for name, (value, why) in job.facts.items():
        job.told("translated", f"{escape(render_line(value), 200)}: {why}", key=f"policy_kwargs/{name}")
    return {**kept, **{name: value for name, (value, _) in job.facts.items()}}


def _argument_names(job: Job) -> frozenset[str]:
    """Return the arguments that the policies of the algorithm take in the target, besides what SB3 gives them."""
    release = (job.target.major, job.target.minor)
    return frozenset().union(*(POLICIES[pair].argument_names(release) for pair in job.family.policies.values()))


def _argument(job: Job, place: str, name: str, value: object) -> Any:
    """Return one argument, or the marker when it is dropped."""
    if name == "device":
        return job.dropped(place, "SB3 asks for the device when it loads", is_finding=False)
    if job.is_of_sb3 and name not in _argument_names(job):
        if name == "sde_net_arch" and value is not None:
            message = "policy_kwargs: sde_net_arch gives the noise layers of its own, which SB3 2 does not have"
            raise UnsupportedError(message, entry="data")
        message = f"no argument of {job.algorithm}'s policies in SB3 {job.target}"
        return job.dropped(place, message, was=value, is_finding=not (value is None or name == "use_sde"))
    if name == "squash_output" and value is not True and job.always_squashes:
        if not job.acts_within_one:
            message = (
                "policy_kwargs: squash_output is False, and ARS squashed all the same and did not scale before 1.7"
            )
            raise UnsupportedError(message, entry="data")
        job.told("translated", "True: MlpPolicy of ARS took no other before SB3 1.7", key=place)
        return True
    try:
        _check_argument(job, name, value)
    except UnsupportedError as error:
        return job.unknown(place, DROPPED, error.message, "the policy's default", was=value)
    if any(map(is_private, texts((name, value)))):
        return job.dropped(place, PRIVATE)
    return value


def _check_argument(job: Job, name: str, value: object) -> None:
    """Check that an argument is known in its place, and can be written.

    :raises UnsupportedError: with the option that keeps it, if there is one
    """
    if name in CLASS_ARGUMENTS:
        try:
            check_role(name, value, job.allowed.pairs)
        except UnsupportedError as error:
            if isinstance(value, (str, int, float, type(None))):
                raise
            message = error.message if _is_of_role(value) else describe_unknown(value, name)
            raise UnsupportedError(message) from None
    else:
        is_foreign = not job.is_of_sb3 or name in _ARGUMENTS_OF
        check_plain(value, job.allowed.pairs, is_foreign=is_foreign)
        if name in _NUMBERS and job.is_of_sb3 and not fits_number(value):
            message = f"expected a number, got {escape(render_line(value), 200)}"
            raise UnsupportedError(message)
    written(value, job.target, foreign=job.allowed.pairs)


def _is_of_role(value: object) -> bool:
    """Whether a partial is refused for its arguments alone."""
    return isinstance(value, Partial)


# -- arguments of a class -----------------------------------------------------------------------------


def _accepted(job: Job, owner: object, name: str) -> Mapping[str, Any] | None:
    """Return the arguments that a class takes with their defaults, None for a flag; None when that is not known."""
    owner = owner.function if isinstance(owner, Partial) else owner
    pair = owner.pair if isinstance(owner, Reference) else None
    if not job.is_of_sb3 or (owner is not None and pair is None):
        return None
    if name == "optimizer_kwargs":
        made = ADAM if pair is None else current_name(pair)
        return keywords_of(made) if made in OPTIMIZERS else None
    return EXTRACTORS.get(default_extractor(job.policy) if pair is None else current_name(pair))


def default_extractor(policy: Reference | None) -> Pair:
    """Return the features extractor of a policy of SB3 that is given none."""
    name = "" if policy is None else policy.name
    kind = "CombinedExtractor" if "MultiInput" in name else "NatureCNN" if "Cnn" in name else "FlattenExtractor"
    return "stable_baselines3.common.torch_layers", kind


def _class_arguments(job: Job, place: str, given: Any, accepted: Mapping[str, Any] | None) -> Any:
    """Return the arguments of a features extractor or optimizer without those that it does not take."""
    if given is None or accepted is None:
        return given
    if type(given) is not dict:
        return job.dropped(place, "expected a dict of arguments", "none", was=given)
    kept = {}
    for name, value in given.items():
        if name not in accepted:
            message = "no argument of the class in its place"
        elif not fits_option(name, value, accepted[name]):
            message = f"expected a value like {accepted[name]}"
        else:
            kept[name] = value
            continue
        job.dropped(f"{place}/{escape(str(name), 80)}", message, was=value)
    return kept
