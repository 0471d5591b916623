"""``policy_class`` for the target: SB3's own class by its name of today, or a custom one that is allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sbformat.errors import UnsupportedError, escape
from sbformat.known.types import Reference
from sbformat.pkl.tree import Global
from sbformat.tools.rebuild.allowed import describe_unknown
from sbformat.tools.rebuild.encode import encode_value

if TYPE_CHECKING:
    from sbformat.tools.rebuild.context import RebuildContext


def rebuild_policy_class(context: RebuildContext, key: str, value: object) -> Any:
    """Return the policy class, as ``data`` contains it.

    :param value: as the archive has it
    :raises UnsupportedError: for an unknown class, when SB3 has no policy for the observations
    """
    chosen = context.options.policy_class
    if chosen is not None:
        context.report("translated", f"{chosen}, as requested", key=key)
        if chosen.pair in context.family.policies.values():
            return encode_value(chosen, context.target)
        return encode_value(context.allowed.require(key, chosen.pair), context.target, foreign=context.allowed.pairs)
    known = context.original_sb3_policy
    if context.her_observation is not None and known is not None:
        pair = context.family.policies["MultiInputPolicy"]
        context.report("translated", f"{'.'.join(pair)}, for the Dict space of observation and goals", key=key)
        return encode_value(Reference(*pair), context.target)
    if known is not None:
        before = context.decode(key)
        message = str(known) if known == before else f"{escape(str(before), 200)} is {known} now"
        if context.preset is not None:
            message = f"{known}, to which {escape(str(before), 200)} passes arguments, and nothing else"
        context.report("translated", message, key=key)
        return encode_value(known, context.target)
    return _handle_unknown_class(context, key, value)


def _handle_unknown_class(context: RebuildContext, key: str, value: object) -> Any:
    meaning = context.decode_or_none(key)
    if isinstance(meaning, (Global, Reference)) and meaning in context.allowed:
        allowed = context.allowed.replace_names(key, meaning)
        return context.keep_allowed(key, allowed, escape(str(meaning)))
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
    return encode_value(standard, context.target)
