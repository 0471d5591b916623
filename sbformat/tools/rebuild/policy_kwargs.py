"""``policy_kwargs`` for the target: without removed arguments, and with those that the stored layers require.

Some defaults changed between releases, so an archive that used a default then needs an explicit argument now:
``context.required_arguments`` collects those, from the layers and from the optimizer's options.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.data import Serialized
from sbformat.errors import UnsupportedError, escape
from sbformat.known import changes
from sbformat.known.numpy import unpack_items
from sbformat.known.spaces import Space
from sbformat.known.table import current_name
from sbformat.known.types import Partial, Reference
from sbformat.nets.sb3 import POLICIES
from sbformat.tools.rebuild.allowed import describe_unknown
from sbformat.tools.rebuild.context import DROPPED, find_source_release
from sbformat.tools.rebuild.encode import PRIVATE, encode_value, is_private, iter_texts
from sbformat.tools.rebuild.optimizer_options import ADAM, OPTIMIZERS, fits_option, is_number
from sbformat.tools.rebuild.roles import CLASS_ARGUMENTS, EXTRACTORS, check_plain, check_role
from sbformat.values.render import render_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.pkl.names import Pair
    from sbformat.tools.rebuild.context import RebuildContext
    from sbformat.tools.rebuild.network import Network

_CLASS_OF: Final = {
    "features_extractor_kwargs": "features_extractor_class",
    "optimizer_kwargs": "optimizer_class",
}
"""Arguments that SB3 passes to a class, and the argument that is this class."""
_NUMBERS: Final = frozenset(
    {"log_std_init", "clip_mean", "batch_norm_momentum", "batch_norm_eps", "renorm_warmup_steps"}
)
"""Arguments that are numbers and do not decide on a shape."""


# -- arguments that are required ----------------------------------------------------------------------


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
        context.report("translated", f"{escape(render_line(value), 200)}: {why}", key=f"policy_kwargs/{name}")
    return {**kept, **{name: value for name, (value, _) in context.required_arguments.items()}}


# -- the arguments of the archive ---------------------------------------------------------------------


def rebuild_policy_kwargs(context: RebuildContext, key: str, value: object) -> Any:
    """Return the policy's arguments, as ``data`` contains them.

    :param value: as the archive has it
    """
    try:
        meaning = context.decode(key)
        if type(meaning) is not dict or any(type(name) is not str for name in meaning):
            message = f"expected a dict of arguments, got {escape(render_line(meaning), 200)}"
            raise UnsupportedError(message)
    except UnsupportedError as error:
        result = context.handle_unknown(key, value, error.message, "the policy's defaults")
        context.policy_arguments = None if result is not DROPPED else add_required_arguments(context, {})
        if context.policy_arguments is None:
            return result
        return encode_value(context.policy_arguments, context.target)
    meaning = context.allowed.replace_names(key, meaning)
    if context.options.on_unknown == "keep" and (why := _find_unknown(context, meaning)):
        context.policy_arguments = None
        return context.handle_unknown(key, value, why)
    count = len(context.rows)
    kept = add_required_arguments(context, _rebuild_arguments(context, key, meaning))
    context.policy_arguments = kept
    result = encode_value(kept, context.target, foreign=context.allowed.pairs)
    if len(context.rows) == count and not isinstance(value, Serialized):
        context.report("kept", "", key=key)
    else:
        context.report("translated", escape(render_line(kept), 200), key=key)
    return result


def check_assigned(context: RebuildContext, key: str, given: dict[str, Any]) -> None:
    """Check the policy's arguments that the caller assigned.

    :raises UnsupportedError: for the first that SB3 does not accept
    """
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
            accepted = _list_accepted(context, kept.get(owner), name)
            kept[name] = _rebuild_class_arguments(context, place, kept[name], accepted)
    return {name: part for name, part in kept.items() if part is not DROPPED}


def _rebuild_argument(context: RebuildContext, place: str, name: str, value: object) -> Any:
    """Return one argument, or :data:`DROPPED`."""
    if name == "device":
        return context.drop(place, "SB3 sets the device when it loads", is_finding=False)
    if context.has_sb3_policy and name not in _list_argument_names(context):
        if name == changes.NOISE_ARGUMENT and value is not None:
            message = f"policy_kwargs: {name} gives the exploration noise its own layers, which SB3 2 does not support"
            raise UnsupportedError(message, entry="data")
        message = f"not an argument of {context.algorithm}'s policies in SB3 {context.target}"
        return context.drop(place, message, was=value, is_finding=not (value is None or name == "use_sde"))
    if name == "squash_output" and value is not True and _always_squashes(context):
        since = changes.ARS_SQUASHES_IF_ASKED
        if not _acts_within_one(context):
            message = f"policy_kwargs: squash_output is False, but ARS squashed anyway and did not scale before {since}"
            raise UnsupportedError(message, entry="data")
        context.report("translated", f"True: MlpPolicy of ARS ignored it before SB3 {since}, and squashed", key=place)
        return True
    try:
        _check_argument(context, name, value)
    except UnsupportedError as error:
        return context.handle_unknown(place, DROPPED, error.message, "the policy's default", was=value)
    if any(map(is_private, iter_texts((name, value)))):
        return context.drop(place, PRIVATE)
    return value


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


def _check_argument(context: RebuildContext, name: str, value: object) -> None:
    """Check that an argument is known in its role, and can be encoded.

    :raises UnsupportedError: with the option that keeps it, if there is one
    """
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
            message = f"expected a number, got {escape(render_line(value), 200)}"
            raise UnsupportedError(message)
    encode_value(value, context.target, foreign=allowed)


# -- arguments of a class -----------------------------------------------------------------------------


def _list_accepted(context: RebuildContext, owner: object, name: str) -> Mapping[str, Any] | None:
    """Return the arguments that a class accepts with their defaults, None for a flag; None when it is not known."""
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
        if name not in accepted:
            message = "the class has no such argument"
        elif not fits_option(name, value, accepted[name]):
            message = f"expected a value like {accepted[name]}"
        else:
            kept[name] = value
            continue
        context.drop(f"{place}/{escape(str(name), 80)}", message, was=value)
    return kept
