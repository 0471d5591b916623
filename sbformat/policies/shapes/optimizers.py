"""The parameters that each optimizer of an agent has, and how its entry differs from them (FORMAT.md 6.8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.constants import ENTROPY_OPTIMIZER, PTH_SUFFIX
from sbformat.known.table import list_place
from sbformat.policies.shapes.arguments import KWARGS
from sbformat.policies.shapes.mismatches import Mismatch
from sbformat.policies.shapes.sac_and_td3 import shares_extractor
from sbformat.pth.values import TensorInfo

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from sbformat.archive.archive import Archive
    from sbformat.policies.shapes.agents import Agent
    from sbformat.policies.shapes.layers import Parameters
    from sbformat.policies.shapes.parameters import NetworkMatch

ONLINE_NETWORKS: Final = {"stable_baselines3.dqn.policies": "q_net.", "sb3_contrib.qrdqn.policies": "quantile_net."}
"""The prefix of the online network, by the module of the policy; these policies also have a target network."""
_SHARES_WITH_CRITIC: Final = "stable_baselines3.td3.policies"
"""The module of policies whose critic optimizer includes a features extractor that is shared with the actor."""
_PARAMETER_SHAPED: Final = frozenset(
    name for row in list_place("optimizer_class").values() for name, kind in row.stores.items() if kind != "scalar"
)
"""Tensors of an optimizer's state that have the shape of their parameter."""


def find_optimizer_mismatches(
    archive: Archive, match: NetworkMatch, computed: Collection[str] = ()
) -> Iterator[tuple[str, Mismatch]]:
    """Yield how the entries of the optimizers differ from the policy's parameters, each with the entry's name.

    :param match: as :func:`~sbformat.policies.shapes.match_network` returns it
    :param computed: the names of parameters that were computed from others: the optimizer of such a one is not
        compared, since it may have been made before or after the others replaced it
    :raises SbformatError: when an entry cannot be read
    """
    for name in archive.parameters:
        options: list[list[tuple[int, ...]]] = [[(1,)]]
        if name != ENTROPY_OPTIMIZER:
            lists = optimized_parameters(match.agent, match.parameters, name)
            options = [[parameter.shape for parameter in parameters] for parameters in lists]
            if any(parameter.name in computed for parameters in lists for parameter in parameters):
                continue
        tree: Any = archive.parameters[name].tree if options else None
        if not is_optimizer_tree(tree):
            continue
        groups = tree["param_groups"]
        if any(type(number) is not int for group in groups for number in group["params"]):
            continue
        counts = [len(group["params"]) for group in groups]
        shapes = next((option for option in options if [len(option)] == counts), None)
        entry = name + PTH_SUFFIX
        if shapes is None:
            yield entry, Mismatch("param_groups", "count", (len(options[0]),), tuple(counts), KWARGS)
            continue
        for number, shape in zip(groups[0]["params"], shapes):
            for item, tensor in _list_state_tensors(tree["state"], number):
                if tuple(tensor.shape) != tuple(shape):
                    place = f"state/[{number}]/{item}"
                    yield entry, Mismatch(place, "shape", tuple(map(int, shape)), tuple(tensor.shape), "policy.pth")


def _list_state_tensors(state: dict[Any, Any], number: object) -> Iterator[tuple[str, TensorInfo]]:
    items = state.get(number)
    for item, tensor in items.items() if isinstance(items, dict) else ():
        if type(item) is str and item in _PARAMETER_SHAPED and isinstance(tensor, TensorInfo):
            yield item, tensor


def is_optimizer_tree(tree: Any) -> bool:
    """Return whether a tree has the structure of an optimizer's state dict: ``state`` and ``param_groups``."""
    return (
        isinstance(tree, dict)
        and isinstance(tree.get("state"), dict)
        and isinstance(tree.get("param_groups"), list)
        and all(isinstance(group, dict) and isinstance(group.get("params"), list) for group in tree["param_groups"])
    )


def optimized_parameters(agent: Agent, parameters: Parameters, name: str) -> list[Parameters]:
    """Return the lists of parameters that an optimizer may have, each in the optimizer's order.

    :param agent: what decides on the network
    :param parameters: all parameters of the policy
    :param name: ``policy.optimizer``, ``actor.optimizer`` or ``critic.optimizer``
    :return: one list; for DQN and QRDQN two: those of the online network alone, then those of both
        networks; empty for an optimizer that is not known
    """
    own = [parameter for parameter in parameters if not parameter.is_buffer]
    if name == "policy.optimizer":
        everything = [parameter for parameter in own if not parameter.same_as]
        online = ONLINE_NETWORKS.get(agent.policy_class[0])
        if online is None:
            return [everything]
        return [[parameter for parameter in own if parameter.name.startswith(online)], everything]
    module, _, word = name.partition(".")
    if word != "optimizer" or module not in ("actor", "critic"):
        return []
    inside = [parameter for parameter in own if parameter.name.startswith(f"{module}.")]
    if module == "critic" and agent.policy_class[0] != _SHARES_WITH_CRITIC and shares_extractor(agent):
        inside = [parameter for parameter in inside if "features_extractor" not in parameter.name]
    return [inside] if inside else []
