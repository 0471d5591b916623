"""Build the graph of a Stable Baselines 2 policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.policies.builder import GraphBuilder
from sbformat.policies.model import PolicyModel
from sbformat.policies.sb2.actor_critics import add_actor_critic
from sbformat.policies.sb2.actors import add_actor
from sbformat.policies.sb2.agents import read_agent
from sbformat.policies.sb2.layers import Layers
from sbformat.policies.sb2.q_networks import add_q_network

if TYPE_CHECKING:
    from sbformat.archive.archive import Archive
    from sbformat.limits import Budget
    from sbformat.policies.model import Given

_MAKERS: Final = {"DQN": add_q_network, "SAC": add_actor, "TD3": add_actor, "DDPG": add_actor}


def build_sb2_policy(archive: Archive, given: Given, budget: Budget) -> PolicyModel:
    """Return the policy of a Stable Baselines 2 file as a graph.

    :param archive: a zip or pickle of SB2, as :func:`sbformat.formats.opener.open_archive` returns it
    :param given: what the caller supplies beside the file
    :param budget: what the operation may use
    :raises UnsupportedError: when the algorithm, policy, activation or a space is not known; the message names it
    :raises ValidationError: when the file contradicts itself
    :raises SbformatError: when it cannot be read

    Example::

        model = build_sb2_policy(open_archive("ppo2.zip", budget), Given(), budget)
        model.graph.outputs   # {"action": ..., "logits": ..., "value": ...}
    """
    agent = read_agent(archive, given)
    builder = GraphBuilder(budget)
    for sentence in agent.inferred:
        builder.infer(sentence)
    add = _MAKERS.get(agent.learner, add_actor_critic)
    outputs, sampling = add(agent, Layers(builder, agent.tensors))
    graph = builder.build(outputs, sampling)
    space = agent.goal_space or agent.observation_space
    return PolicyModel(graph, space, agent.action_space, agent.algorithm, "sb2", False, archive)
