"""``build_sb3_policy``: from an archive to its policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.constants import DATA_ENTRY, POLICY_ENTRY
from sbformat.errors import UnsupportedError, ValidationError, quote
from sbformat.formats.normalized import was_normalized
from sbformat.known.changes import ACTOR_EXTRACTOR, CRITIC_EXTRACTOR
from sbformat.nets.wrappers import unwrap_policy
from sbformat.policies.builder import GraphBuilder
from sbformat.policies.model import PolicyModel
from sbformat.policies.sb3.features import Features
from sbformat.policies.sb3.inference import infer_policy_class, infer_settings
from sbformat.policies.sb3.network import Network
from sbformat.policies.sb3.off_policy import (
    build_ars,
    build_deterministic_actor,
    build_gaussian_actor,
    build_q_network,
    build_quantile_network,
)
from sbformat.policies.sb3.on_policy import build_actor_critic
from sbformat.policies.sb3.settings import WHAT_WORKS, is_extended, read_settings
from sbformat.policies.shapes import NetworkError
from sbformat.policies.shapes.mismatches import read_shapes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sbformat.archive.archive import Archive
    from sbformat.limits import Budget
    from sbformat.policies.model import Given
    from sbformat.policies.sb3.actions import Head
    from sbformat.policies.sb3.settings import Kind

BUILDERS: Final[Mapping[Kind, Callable[[Network, Features], Head]]] = {
    "actor_critic": build_actor_critic,
    "maskable": build_actor_critic,
    "recurrent": build_actor_critic,
    "q_network": build_q_network,
    "quantile_network": build_quantile_network,
    "sac": build_gaussian_actor,
    "tqc": build_gaussian_actor,
    "crossq": build_gaussian_actor,
    "td3": build_deterministic_actor,
    "ars": build_ars,
    "ars_linear": build_ars,
}
"""What adds the nodes of a policy, by its kind."""
_TARGETS: Final = ("q_net_target.", "quantile_net_target.", "actor_target.", "critic_target.")
"""Copies that training alone uses."""
_ALIASES: Final = ("features_extractor.", f"{ACTOR_EXTRACTOR}.", f"{CRITIC_EXTRACTOR}.", "critic.features_")
"""Names of which several may stand for one features extractor."""


def build_sb3_policy(archive: Archive, given: Given, budget: Budget) -> PolicyModel:
    """Return the policy of an archive of SB3 as a graph.

    :param archive: of an agent, a lone ``policy.pth`` or a file of ``policy.save()``
    :param given: what the caller of ``load_policy`` supplies
    :param budget: what the operation may use
    :raises UnsupportedError: when a part is not known, with its name, or when the caller has to supply something
    :raises ValidationError: when the tensors are not those that SB3 makes for ``data``, or the statistics not those of
        the observations
    :raises SbformatError: when an entry cannot be read

    Example::

        model = build_sb3_policy(archive, Given(), Budget(DEFAULT_LIMITS))
        model.graph.outputs["action"]
    """
    try:
        return _build(archive, given, budget)
    except NetworkError as error:
        message = f"{error.key}: {error.message}"
        raise ValidationError(message, entry=error.entry) from None


def _build(archive: Archive, given: Given, budget: Budget) -> PolicyModel:
    entry = archive.find_state_dict("policy")
    policy = unwrap_policy(archive, entry)
    read_shapes(policy.state_dict)  # refuses what is not a dict of tensors
    builder = GraphBuilder(budget)
    network = Network(builder, policy.state_dict.tree, entry, given.modules, policy.origins)
    inferred = infer_policy_class(network)
    has_data = archive.format == "policy-file" or DATA_ENTRY in archive.entries
    if archive.format == "policy-file" or (has_data and entry == POLICY_ENTRY):
        network.settings = read_settings(archive, given, inferred)
        if archive.format == "policy-file" and given.policy_class is None:
            name = network.settings.agent.policy_class[1]
            builder.infer(f"the policy is {name}, from its arguments and tensors: the file does not name its class")
        elif is_extended(archive, given):
            name = network.settings.agent.policy_class[1]
            builder.infer(f"the policy computes as {name}, with its defaults, since policy_class says so")
    else:
        network.settings = infer_settings(network, given, inferred)
    settings = network.settings
    policy.require_all(given.modules)
    for note in policy.notes:
        builder.infer(note)
    head = BUILDERS[settings.kind](network, Features(network, given.vecnormalize))
    _require_all_used(network)
    return PolicyModel(
        builder.build(head.outputs, head.sampling),
        settings.agent.observation_space,
        settings.agent.action_space,
        archive.algorithm.name if has_data else None,
        "sb3",
        has_data and was_normalized(archive, settings.agent.observation_space),
        archive,
    )


def _require_all_used(network: Network) -> None:
    """Refuse tensors that are not part of the graph, where nothing else has compared their names with SB3's.

    :raises UnsupportedError: for any but targets and second names of a features extractor
    """
    unused = [name for name in network.tensors if name not in network.used and not name.startswith(_TARGETS)]
    unused = [name for name in unused if not name.startswith(_ALIASES)]
    if unused:
        shown = ", ".join(quote(name, 80) for name in unused[:4])
        message = f"{network.settings.agent.policy_class[1]} does not have {shown}; {WHAT_WORKS}"
        raise UnsupportedError(message)
