"""The parameters that the optimizers of an agent have, and what their entries have otherwise (FORMAT.md 6.8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.constants import ENTROPY_OPTIMIZER, PTH_SUFFIX
from sbformat.policies.mismatches import Mismatch
from sbformat.policies.off_policy import shares_extractor
from sbformat.policies.sizes import KWARGS
from sbformat.pth.values import TensorInfo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.archive.archive import Archive
    from sbformat.policies.agents import Agent
    from sbformat.policies.layers import Parameters
    from sbformat.policies.parameters import Fit

ONLINE: Final = {"stable_baselines3.dqn.policies": "q_net.", "sb3_contrib.qrdqn.policies": "quantile_net."}
"""The online network of the policies of a module, which has a target network besides."""
_WITH_SHARED: Final = "stable_baselines3.td3.policies"
"""Where the critics' optimizer has a features extractor that is the actor's, too."""
_MOMENTS: Final = frozenset(
    """
    exp_avg exp_avg_sq max_exp_avg_sq exp_inf square_avg grad_avg momentum_buffer sum acc_delta prev ax
    """.split()  # noqa: SIM905 -- a name a line is no better
)
"""Parts of an optimizer's state that have the shape of their parameter."""


def optimizer_mismatches(archive: Archive, fit: Fit) -> Iterator[tuple[str, Mismatch]]:
    """Yield what the optimizers' entries have otherwise than the policy's parameters ask for, with the entry's name.

    :param archive: the archive
    :param fit: its policy, as :func:`~sbformat.policies.nearest` gives it
    :raises SbformatError: for an entry that cannot be read
    """
    for name in archive.parameters:
        options = (
            [[(1,)]]
            if name == ENTROPY_OPTIMIZER
            else [[parameter.shape for parameter in option] for option in optimized(fit.agent, fit.parameters, name)]
        )
        tree: Any = archive.parameters[name].tree if options else None
        if not _is_optimizer(tree):
            continue
        groups = tree["param_groups"]
        counts = [len(group["params"]) for group in groups]
        parameters = next((option for option in options if [len(option)] == counts), None)
        entry = name + PTH_SUFFIX
        if parameters is None:
            yield entry, Mismatch("param_groups", "count", (len(options[0]),), tuple(counts), KWARGS)
            continue
        for number, shape in zip(groups[0]["params"], parameters):
            for word, moment in _moments(tree["state"], number):
                if tuple(moment.shape) != tuple(shape):
                    place = f"state/[{number}]/{word}"
                    yield entry, Mismatch(place, "shape", tuple(map(int, shape)), tuple(moment.shape), "policy.pth")


def _moments(state: dict[Any, Any], number: object) -> Iterator[tuple[str, TensorInfo]]:
    moments = state.get(number)
    for word, moment in moments.items() if isinstance(moments, dict) else ():
        if type(word) is str and word in _MOMENTS and isinstance(moment, TensorInfo):
            yield word, moment


def _is_optimizer(tree: Any) -> bool:
    if not isinstance(tree, dict) or not isinstance(tree.get("state"), dict):
        return False
    groups = tree.get("param_groups")
    return isinstance(groups, list) and all(
        isinstance(group, dict)
        and isinstance(group.get("params"), list)
        and all(type(number) is int for number in group["params"])
        for group in groups
    )


def optimized(agent: Agent, parameters: Parameters, name: str) -> list[Parameters]:
    """Return the parameters that an optimizer of the policy may have, in its order.

    :param agent: what decided on the network
    :param parameters: all of the policy's
    :param name: ``policy.optimizer``, ``actor.optimizer`` or ``critic.optimizer``
    :return: of DQN and QRDQN those of the online network, which releases since 2.4 have, then those of both; nothing
        for an optimizer that is not known
    """
    own = [parameter for parameter in parameters if not parameter.is_buffer]
    if name == "policy.optimizer":
        everything = [parameter for parameter in own if not parameter.same_as]
        online = ONLINE.get(agent.policy_class[0])
        if online is None:
            return [everything]
        return [[parameter for parameter in own if parameter.name.startswith(online)], everything]
    module, _, word = name.partition(".")
    if word != "optimizer" or module not in ("actor", "critic"):
        return []
    inside = [parameter for parameter in own if parameter.name.startswith(f"{module}.")]
    if module == "critic" and agent.policy_class[0] != _WITH_SHARED and shares_extractor(agent):
        inside = [parameter for parameter in inside if "features_extractor" not in parameter.name]
    return [inside] if inside else []
