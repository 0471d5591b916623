"""Whether SB3 can load the result, as far as the table of expected shapes tells (FORMAT.md 15.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.constants import POLICY_ENTRY
from sbformat.data import Serialized
from sbformat.errors import SbformatError, UnsupportedError
from sbformat.policies import Agent, NetworkError, NetworkMatch, find_mismatches, list_parameters
from sbformat.policies.arguments import is_true
from sbformat.values.types import Space

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.tools.rebuild.context import Job
    from sbformat.tools.rebuild.networks import Network

_SHOWN: Final = 3
_BROUGHT: Final = ("policy_class", "policy_kwargs", "observation_space", "action_space")
"""What decides on the network: a value that the loader brings is not known here."""


def check_fit(job: Job, network: Network, data: Mapping[str, Any]) -> NetworkMatch | None:
    """Return the network that SB3 makes, or None when it is not known.

    :param network: the policy's tensors in the result
    :param data: of the result
    :raises UnsupportedError: when SB3 cannot make the network, when the tensors do not fit it, and when the policy was
        replaced and nothing says that they do
    """
    if job.options.given.intersection(_BROUGHT) or job.policy is None or job.arguments is None:
        return None
    try:
        agent = result_agent(job, data)
        parameters = list_parameters(agent)
    except NetworkError as error:
        raise UnsupportedError(_advise(job, f"SB3 cannot make its network: {error.message}")) from None
    except SbformatError as error:
        if job.replaced_policy:
            raise UnsupportedError(_advise(job, error.message)) from None
        return None
    expected = {parameter.name: parameter.shape for parameter in parameters}
    actual = {tensor.name: tuple(tensor.info.shape) for tensor in network.tensors}
    mismatches = find_mismatches(expected, actual)
    if mismatches:
        shown = "; ".join(mismatch.message for mismatch in mismatches[:_SHOWN])
        more = f"; and {len(mismatches) - _SHOWN} more" if len(mismatches) > _SHOWN else ""
        problem = f"its weights do not fit {job.policy.name}: {shown}{more}"
        raise UnsupportedError(_advise(job, problem), entry=POLICY_ENTRY)
    return NetworkMatch(agent, parameters, mismatches)


def result_agent(job: Job, data: Mapping[str, Any]) -> Agent:
    """Return what decides on the network of the result.

    :param data: of the result
    :raises UnsupportedError: when a part of it is not known
    """
    space = job.meaning("observation_space") if job.hindsight is None else job.hindsight.space
    use_sde = data.get("use_sde")
    if isinstance(use_sde, Serialized):  # copied as it was
        use_sde = job.meaning("use_sde")
    policy: Any = job.policy
    arguments: Any = job.arguments
    actions = job.meaning("action_space")
    if not isinstance(space, Space) or not isinstance(actions, Space):
        message = "one of its spaces is not known"
        raise UnsupportedError(message)
    return Agent(
        policy.pair, space, actions, arguments, is_true(use_sde, "use_sde"), (job.target.major, job.target.minor)
    )


def _advise(job: Job, problem: str) -> str:
    """Say what was dropped from the policy, and which options help."""
    lost = [
        f"{row.key}: {row.message}"
        for row in job.rows
        if row.action == "dropped" and row.is_finding and row.key and row.key.startswith("policy_")
    ]
    if job.replaced_policy:
        others = [line for line in lost if not line.startswith("policy_class:")]
        lost = [f"policy_class: {job.replaced_policy}", *others]
    options = (
        "--allow NAME (allow=[NAME]) keeps a class that is named, --policy-class NAME (policy_class=NAME) takes one of "
        "SB3's own, --set policy_kwargs=JSON (assign={'policy_kwargs': ...}) gives its arguments; "
        "sbformat.sb3.load takes both as custom_objects"
    )
    return "; ".join([*lost, f"SB3 could not load the result: {problem}", options])
