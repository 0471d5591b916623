"""Policies, buffers and action noise of ``data`` for the target: classes with arguments (REBUILDING.md 15.1, 15.2).

In: the keys ``policy_class``, ``policy_kwargs``, ``*_buffer_class``, ``*_buffer_kwargs`` and ``action_noise``, and what
the stored layers require. Out: what ``data`` of the result contains for them, without removed arguments and without
what SB3 would call. Some defaults changed between releases, so an archive that used a default then needs an explicit
argument now: ``context.required_arguments`` collects those, from the layers and from the optimizer's options.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.data import Serialized
from sbformat.errors import UnsupportedError, escape
from sbformat.known import changes
from sbformat.known.numpy import unpack_items
from sbformat.known.sb3 import HER_BUFFER, NSTEP_BUFFER
from sbformat.known.spaces import DictSpace, Space
from sbformat.known.table import current_name, find
from sbformat.known.types import EnumMember, Instance, Partial, Reference
from sbformat.nets.sb3 import POLICIES
from sbformat.pkl.numpy import ArrayInfo
from sbformat.tools.rebuild.optimizers import ADAM, OPTIMIZERS, fits_option, is_number
from sbformat.tools.rebuild.rebuild_context import DROPPED, find_source_release
from sbformat.tools.rebuild.rebuild_report import GOAL_STRATEGIES, show
from sbformat.tools.rebuild.trusted import (
    CLASS_ARGUMENTS,
    EXTRACTORS,
    PRIVATE,
    REPLAY_BUFFERS,
    check_plain,
    check_role,
    describe_unknown,
    is_private,
    list_buffers,
)
from sbformat.values.render import render_line

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sbformat.pkl.tree import Pair
    from sbformat.tools.rebuild.network import Network
    from sbformat.tools.rebuild.rebuild_context import RebuildContext

# -- the policy's class -------------------------------------------------------------------------------


def rebuild_policy_class(context: RebuildContext, key: str, value: object) -> Any:
    """Return the policy class: SB3's own by its name of today, or a custom one that is allowed."""
    chosen = context.options.policy_class
    if chosen is not None:
        context.translate(key, f"{chosen}, as requested")
        is_sb3s = chosen.pair in context.family.policies.values()
        return context.encode_allowed(chosen if is_sb3s else context.allowed.require(key, chosen.pair))
    known = context.original_sb3_policy
    if known is None:
        return _rebuild_unknown_class(context, key, value)
    before = context.decode(key)
    if context.her_observation is not None:
        known = Reference(*context.family.policies["MultiInputPolicy"])
        context.translate(key, f"{known}, for the Dict space of observation and goals")
    elif context.preset is not None:
        context.translate(key, f"{known}, to which {show(before)} passes arguments, and nothing else")
    else:
        context.translate(key, str(known) if known == before else f"{escape(str(before), 200)} is {known} now")
    return context.encode(known)


def _rebuild_unknown_class(context: RebuildContext, key: str, value: object) -> Any:
    meaning = context.decode_or_none(key)
    if context.is_allowed_name(meaning):
        return context.keep_allowed(key, meaning)
    why = describe_unknown(meaning, "a policy", context.options.advice)
    if context.options.on_unknown == "keep":
        return context.handle_unknown(key, value, why)
    standard, option = context.sb3_policy, context.options.advice.standard_policy
    if standard is None:
        message = f"{key}: {why}, and {context.algorithm} has no policy for its observations; {option}"
        raise UnsupportedError(message, entry="data")
    context.why_policy_replaced = why
    why = f"{why}; names and shapes of all weights fit SB3's own, but it may compute something else; {option}"
    if context.options.on_unknown == "error":
        context.refused.append(f"{key}: {why}")
    context.drop(key, why, str(standard), was=meaning, is_finding=True)
    return context.encode(standard)


# -- arguments of the policy that are required --------------------------------------------------------

_KEY: Final = "policy_kwargs"


def find_kept_modules(context: RebuildContext) -> tuple[str, ...]:
    """Return the modules of a class that is not SB3's and is kept: it makes the wrappers of its own tensors.

    :return: as :func:`~sbformat.nets.wrappers.unwrap` takes them
    """
    if not context.has_sb3_policy:
        return ("",)
    made = context.policy_argument("features_extractor_class")
    extractor = made.function if isinstance(made, Partial) else made
    if isinstance(extractor, Reference):
        is_known = current_name(extractor.pair) in EXTRACTORS
    else:
        is_known = extractor is None and (_KEY not in context.archive.data or context.decode_or_none(_KEY) is not None)
    is_kept = context.options.on_unknown == "keep" or extractor in context.allowed
    if _KEY in context.options.supplied_at_load or (is_kept and not is_known):
        return ("features_extractor", changes.ACTOR_EXTRACTOR, changes.CRITIC_EXTRACTOR)
    return ()


def require_network_arguments(context: RebuildContext, network: Network) -> None:
    """Note the arguments that the layers of a network require, where the defaults of today are others."""
    required = context.required_arguments
    if context.preset is not None:
        for name, value in context.preset[1].items():
            required[name] = value, "the policy class of the archive passes it"
    if network.net_arch is not None:
        required["net_arch"] = network.net_arch, "the layers of both networks, none of them shared"
    elif network.old_default_net_arch is not None and context.policy_argument("net_arch") is None:
        required["net_arch"] = network.old_default_net_arch, "the stored layers, which were the default once"
    if network.shares_extractor and context.policy_argument("share_features_extractor") is None:
        required["share_features_extractor"] = True, f"the default before SB3 {changes.UNSHARED_EXTRACTORS}"


def require_optimizer_class(context: RebuildContext, pair: Pair | None) -> None:
    """Note the class of the policy's optimizer, where the archive does not name it."""
    if pair is not None and context.policy_argument("optimizer_class") is None:
        context.required_arguments["optimizer_class"] = Reference(*pair), "identified by the optimizer's options"


def add_required_arguments(context: RebuildContext, kept: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with those that are required, each with a row."""
    if not context.has_sb3_policy:
        return kept
    for name, (value, why) in context.required_arguments.items():
        context.translate(f"{_KEY}/{name}", f"{show(value)}: {why}")
    return {**kept, **{name: value for name, (value, _) in context.required_arguments.items()}}


# -- arguments of the policy in the archive -----------------------------------------------------------


def decode_arguments(context: RebuildContext, key: str, *, with_names: bool = False) -> dict[Any, Any]:
    """Return the arguments that a key of ``data`` has.

    :param with_names: whether they have to have names
    """
    meaning = context.decode(key)
    if type(meaning) is not dict or (with_names and any(type(name) is not str for name in meaning)):
        message = f"expected a dict of arguments, got {show(meaning)}"
        raise UnsupportedError(message)
    return meaning


def rebuild_policy_kwargs(context: RebuildContext, key: str, value: object) -> Any:
    """Return the policy's arguments, as ``data`` contains them."""
    try:
        meaning = decode_arguments(context, key, with_names=True)
    except UnsupportedError as error:
        result = context.handle_unknown(key, value, error.message, "the policy's defaults")
        context.policy_arguments = None if result is not DROPPED else add_required_arguments(context, {})
        return result if context.policy_arguments is None else context.encode(context.policy_arguments)
    meaning = context.allowed.replace_names(key, meaning)
    if context.options.on_unknown == "keep" and (why := _find_unknown(context, meaning)):
        context.policy_arguments = None
        return context.handle_unknown(key, value, why)
    count = len(context.rows)
    kept = add_required_arguments(context, _rebuild_arguments(context, key, meaning))
    context.policy_arguments = kept
    result = context.encode_allowed(kept)
    if len(context.rows) == count and not isinstance(value, Serialized):
        context.keep(key)
    else:
        context.translate(key, show(kept))
    return result


def check_assigned(context: RebuildContext, key: str, given: dict[str, Any]) -> None:
    """Check the policy's arguments that the caller assigned."""
    rows, refused = list(context.rows), list(context.refused)
    _rebuild_arguments(context, key, given)
    wrong = [row for row in context.rows[len(rows) :] if row.action != "translated"]
    context.rows, context.refused = rows, refused
    if wrong:
        message = f"{wrong[0].key}: {wrong[0].message}"
        raise UnsupportedError(message, entry="data")


def _find_unknown(context: RebuildContext, arguments: dict[str, Any]) -> str:
    """Return why the first of the arguments cannot be rebuilt, or an empty text."""
    for name, part in arguments.items():
        try:
            if name != "device":
                _check_argument(context, name, part)
        except UnsupportedError as error:
            return f"{escape(name, 80)}: {error.message}"
    return ""


def _rebuild_arguments(context: RebuildContext, key: str, meaning: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that are kept; the arguments of a class that is dropped are dropped, too."""
    kept = {}
    for name, part in meaning.items():
        result = _rebuild_argument(context, f"{key}/{escape(name, 80)}", name, part)
        if result is not DROPPED:
            kept[name] = result
    for name, owner in _CLASS_OF.items():
        place = f"{key}/{name}"
        if owner in meaning and owner not in kept and kept.pop(name, None) is not None:
            context.drop(place, f"the {owner} that they are for is dropped", was=meaning[name])
        elif name in kept:
            kept[name] = _rebuild_class_arguments(context, place, kept[name], _list_accepted(context, kept, name))
    return {name: part for name, part in kept.items() if part is not DROPPED}


def _rebuild_argument(context: RebuildContext, place: str, name: str, value: object) -> Any:
    """Return one argument, or :data:`DROPPED`."""
    if name == "device":
        return context.drop(place, "SB3 sets the device when it loads", is_finding=False)
    if context.has_sb3_policy and name not in _list_argument_names(context):
        if name == changes.NOISE_ARGUMENT and value is not None:
            message = f"{_KEY}: {name} gives the exploration noise its own layers, which SB3 2 does not support"
            raise UnsupportedError(message, entry="data")
        message = f"not an argument of {context.algorithm}'s policies in SB3 {context.target}"
        return context.drop(place, message, was=value, is_finding=not (value is None or name == "use_sde"))
    if name == "squash_output" and value is not True and _always_squashes(context):
        since = changes.ARS_SQUASHES_IF_ASKED
        if not _acts_within_one(context):
            message = f"{_KEY}: squash_output is False, but ARS squashed anyway and did not scale before {since}"
            raise UnsupportedError(message, entry="data")
        context.translate(place, f"True: MlpPolicy of ARS ignored it before SB3 {since}, and squashed")
        return True
    try:
        _check_argument(context, name, value)
    except UnsupportedError as error:
        return context.handle_unknown(place, DROPPED, error.message, "the policy's default", was=value)
    return context.drop(place, PRIVATE) if is_private((name, value)) else value


def _list_argument_names(context: RebuildContext) -> frozenset[str]:
    """Return the arguments that the policies of the algorithm accept in the target release."""
    policies = (POLICIES[pair] for pair in context.family.policies.values())
    return frozenset().union(*(policy.argument_names(context.target) for policy in policies))


def _always_squashes(context: RebuildContext) -> bool:
    """Return whether the policy squashed its output regardless of its argument, as ARS's MLP once did."""
    return (
        context.algorithm == "ARS"
        and find_source_release(context.archive) < changes.ARS_SQUASHES_IF_ASKED
        and context.decode("policy_class") == Reference("sb3_contrib.ars.policies", "ARSPolicy")
    )


def _acts_within_one(context: RebuildContext) -> bool:
    """Return whether every action is between -1 and 1, so that scaling does not change it."""
    space = context.decode("action_space")
    if not isinstance(space, Space) or space.bounds is None:
        return True
    low, high = map(unpack_items, space.bounds)
    return set(low) == {-1} and set(high) == {1}


_NUMBERS: Final = frozenset(
    {"log_std_init", "clip_mean", "batch_norm_momentum", "batch_norm_eps", "renorm_warmup_steps"}
)
"""Arguments that are numbers and do not decide on a shape."""


def _check_argument(context: RebuildContext, name: str, value: object) -> None:
    """Check that an argument is known in its role, and can be encoded."""
    allowed = context.allowed.pairs
    if name in CLASS_ARGUMENTS:
        try:
            check_role(name, value, allowed)
        except UnsupportedError:
            if isinstance(value, (str, int, float, type(None), Partial)):
                raise
            raise UnsupportedError(describe_unknown(value, name, context.options.advice)) from None
    else:
        check_plain(value, allowed, is_foreign=not context.has_sb3_policy or name in _CLASS_OF)
        if name in _NUMBERS and context.has_sb3_policy and not is_number(value):
            message = f"expected a number, got {show(value)}"
            raise UnsupportedError(message)
    context.encode_allowed(value)


# -- arguments of a class -----------------------------------------------------------------------------

_CLASS_OF: Final = {
    "features_extractor_kwargs": "features_extractor_class",
    "optimizer_kwargs": "optimizer_class",
}
"""Arguments that SB3 passes to a class, and the argument that is this class."""


def _list_accepted(context: RebuildContext, kept: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """Return the arguments that a class accepts with their defaults, None for a flag; None when it is not known."""
    owner = kept.get(_CLASS_OF[name])
    owner = owner.function if isinstance(owner, Partial) else owner
    pair = current_name(owner.pair) if isinstance(owner, Reference) else None
    policy = context.sb3_policy
    if policy is None or (owner is not None and pair is None):
        return None
    if name == "optimizer_kwargs":
        row = OPTIMIZERS.get(pair or ADAM)
        return None if row is None else row.arguments
    return EXTRACTORS.get(pair or POLICIES[policy.pair].extractor)


def _rebuild_class_arguments(
    context: RebuildContext, place: str, given: Any, accepted: Mapping[str, Any] | None
) -> Any:
    """Return the arguments of a features extractor or optimizer without those that it does not accept."""
    if given is None or accepted is None:
        return given
    if type(given) is not dict:
        return context.drop(place, "expected a dict of arguments", "none", was=given)
    kept = {}
    for name, value in given.items():
        inner = f"{place}/{escape(str(name), 80)}"
        if name not in accepted:
            context.drop(inner, "the class has no such argument", was=value)
        elif not fits_option(name, value, accepted[name]):
            context.drop(inner, f"expected a value like {accepted[name]}", was=value)
        else:
            kept[name] = value
    return kept


# -- buffers ------------------------------------------------------------------------------------------


def rebuild_buffer_class(context: RebuildContext, key: str, value: object) -> Any:
    """Return a class that SB3 has for the algorithm, or one that is allowed; else SB3 chooses one."""
    if value is None:
        context.keep(key)
        return None
    try:
        meaning = context.decode(key)
        if context.is_allowed_name(meaning):
            return context.keep_allowed(key, meaning)
        pair = current_name(meaning.pair) if isinstance(meaning, Reference) else None
        has_keys = isinstance(context.decode_or_none("observation_space"), DictSpace)
        if pair not in list_buffers(key, context.algorithm, is_dict=context.her_observation is not None or has_keys):
            raise UnsupportedError(describe_unknown(meaning, "a buffer of such observations", context.options.advice))
        if pair == NSTEP_BUFFER:  # SB3 warns of one that it did not choose itself
            context.translate(key, "null: SB3 chooses it for n_steps > 1")
            return None
        result = context.encode(meaning)
    except UnsupportedError as error:
        return context.handle_unknown(key, value, error.message, "the buffer that SB3 chooses")
    context.translate(key, show(meaning))
    return result


def rebuild_buffer_kwargs(context: RebuildContext, key: str, value: object) -> Any:
    """Return the arguments of a buffer without those that it does not accept."""
    try:
        meaning = decode_arguments(context, key)
    except UnsupportedError as error:
        result = context.handle_unknown(key, value, error.message, "none")
        return {} if result is DROPPED else result
    accepted = _list_buffer_arguments(context, key)
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
        elif is_private((name, part)):
            context.drop(place, PRIVATE)
        else:
            try:
                check_plain(part, context.allowed.pairs, is_foreign=accepted is None)
                context.encode_allowed(part)
                kept[name] = part
            except UnsupportedError as error:
                context.drop(place, error.message, was=part)
    if kept == meaning:
        context.keep(key)
    else:
        context.translate(key, "the arguments of today")
    return context.encode_allowed(kept)


def _list_buffer_arguments(context: RebuildContext, key: str) -> Collection[str] | None:
    """Return the arguments that the buffer accepts; None for an allowed class, whose arguments are not known."""
    owner = key.replace("_kwargs", "_class")
    meaning = context.decode_or_none(owner)
    if (
        context.is_allowed_name(meaning)
        or owner in context.options.supplied_at_load
        or context.options.on_unknown == "keep"
    ):
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

_NOISE_PARTS: Final = ("_noises", "noises", "_base_noise", "base_noise")
"""Attributes of noise that are noise themselves."""
_MAX_NOISE_DEPTH: Final = 4


def rebuild_action_noise(context: RebuildContext, key: str, value: object) -> Any:
    """Return noise of SB3 that consists of numbers."""
    if value is None:
        context.keep(key)
        return None
    try:
        meaning = context.decode(key)
        _check_noise(meaning, _MAX_NOISE_DEPTH)
        result = context.encode(meaning)
    except UnsupportedError as error:
        return context.handle_unknown(key, value, error.message, "no noise")
    context.translate(key, show(meaning))
    return result


def _check_noise(value: object, depth: int) -> None:
    """Check that noise consists of numbers, or of noise that is nested up to a depth."""
    if not isinstance(value, Instance) or find(value.type.pair).kind != "noise" or not depth:
        message = f"{show(value)} is not known as action noise"
        raise UnsupportedError(message)
    for name, part in value.attributes.items():
        if name in _NOISE_PARTS:
            for noise in part if isinstance(part, list) else [part]:
                _check_noise(noise, depth - 1)
        elif not _is_noise_number(name, part):
            of, shown = (escape(render_line(shown), 100) for shown in (value, part))
            message = f"{escape(str(name), 80)} of {of}: expected a number, got {shown}"
            raise UnsupportedError(message)


def _is_noise_number(name: object, part: object) -> bool:
    if name in ("_dtype", "dtype"):
        is_name = isinstance(part, Reference) and part.name.startswith(("float", "int"))
        return is_name and "number" in find(part.pair).uses  # type: ignore[attr-defined]
    return part is None or type(part) in (bool, int, float) or (isinstance(part, ArrayInfo) and part.dtype[1] in "biuf")
