"""Whether SB3 can load the new weights: their names and shapes against the network it makes (REBUILDING.md 15.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.constants import POLICY_ENTRY
from sbformat.data import Serialized
from sbformat.errors import SbformatError, UnsupportedError
from sbformat.known.spaces import Space
from sbformat.nets.arguments import Agent, NetworkError, is_true
from sbformat.nets.reading import compare_network

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.nets.reading import NetworkMatch
    from sbformat.tools.rebuild.context import RebuildContext
    from sbformat.tools.rebuild.network import Network

_MAX_MISMATCHES: Final = 3
_DECIDE_ON_NETWORK: Final = ("policy_class", "policy_kwargs", "observation_space", "action_space")
"""Keys that decide on the network: one that is supplied at load is not known here."""


def check_weights(context: RebuildContext, network: Network, data: Mapping[str, Any]) -> NetworkMatch | None:
    """Return the network that SB3 makes from the new ``data``, or None when it is not known.

    :param network: the policy's tensors in the result
    :param data: of the result
    :raises UnsupportedError: when SB3 cannot make the network, when the tensors do not fit it, and when the policy was
        replaced and it is not known whether they fit
    """
    policy = context.sb3_policy
    if policy is None or context.policy_arguments is None:
        return None
    if context.options.supplied_at_load.intersection(_DECIDE_ON_NETWORK):
        return None
    try:
        actual = {tensor.name: tuple(tensor.info.shape) for tensor in network.tensors}
        match = compare_network(_make_agent(context, data), actual)
    except NetworkError as error:
        raise UnsupportedError(_advise(context, f"SB3 cannot make its network: {error.message}")) from None
    except SbformatError as error:
        if context.why_policy_replaced:
            raise UnsupportedError(_advise(context, error.message)) from None
        return None
    if mismatches := match.mismatches:
        shown = "; ".join(mismatch.message for mismatch in mismatches[:_MAX_MISMATCHES])
        more = f"; and {len(mismatches) - _MAX_MISMATCHES} more" if len(mismatches) > _MAX_MISMATCHES else ""
        problem = f"its weights do not fit {policy.name}: {shown}{more}"
        raise UnsupportedError(_advise(context, problem), entry=POLICY_ENTRY)
    return match


def _make_agent(context: RebuildContext, data: Mapping[str, Any]) -> Agent:
    """Return what decides on the network of the result.

    :param data: of the result
    :raises UnsupportedError: when a part is not known
    """
    space = context.decode("observation_space") if context.her_observation is None else context.her_observation.space
    use_sde = data.get("use_sde")
    if isinstance(use_sde, Serialized):  # copied unchanged
        use_sde = context.decode("use_sde")
    policy: Any = context.sb3_policy
    arguments: Any = context.policy_arguments
    actions = context.decode("action_space")
    if not isinstance(space, Space) or not isinstance(actions, Space):
        message = "one of its spaces is not known"
        raise UnsupportedError(message)
    return Agent(policy.pair, space, actions, arguments, is_true(use_sde, "use_sde"), context.target)


def _advise(context: RebuildContext, problem: str) -> str:
    """Return a problem with what was dropped from the policy before it, and the options that help after it."""
    dropped = [
        f"{row.key}: {row.message}"
        for row in context.rows
        if row.action == "dropped" and row.is_finding and row.key and row.key.startswith("policy_")
    ]
    if context.why_policy_replaced:
        others = [line for line in dropped if not line.startswith("policy_class:")]
        dropped = [f"policy_class: {context.why_policy_replaced}", *others]
    return "; ".join([*dropped, f"SB3 could not load the result: {problem}", context.options.advice.other_network])
