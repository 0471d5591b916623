"""Policies as networks: the names and shapes of the tensors that SB3 makes for a policy, without importing SB3.

Theory of operation (FORMAT.md 6.8)
-----------------------------------
In: an archive, of which ``data`` alone is read. Out: the tensors of ``policy.pth`` that SB3 would make for it, in the
order of ``state_dict()``, and how those that are stored differ. Nothing that the file names is imported, and no array
is read: sizes are Python ints, so a forged size costs nothing.

1. ``parameters.read_agent`` decodes ``policy_class``, the spaces, ``policy_kwargs`` and ``use_sde``: an ``Agent``.
2. ``policy_classes.POLICIES`` maps the class to a ``Policy``: its function, default extractor and arguments by release.
3. That function (``on_policy``, ``sac_and_td3``, ``dqn_and_ars``) composes the network from ``extractors``,
   ``activations`` and ``layers``, as SB3's constructor of the policy does. A network is a list of ``Parameter``, with
   names relative to its module; ``add_prefix`` puts a module into its parent.
4. ``mismatches`` and ``optimizers`` compare the result with the entries; ``entropy`` compares ``ent_coef`` with them.

Each ``Size`` is an int that remembers the key of ``data`` that decides on it, so that a mismatch names its cause.

Worked example: PPO's ``ActorCriticPolicy``, four observations, two discrete actions, ``net_arch=[8]``, SB3 1.8 or
later::

    FlattenExtractor                        no tensors, 4 features
    mlp(4, None, [8], Tanh)                 0.weight (8, 4)  0.bias (8,)
    in the module policy_net                mlp_extractor.policy_net.0.weight (8, 4)  ...
    the same in the module value_net        mlp_extractor.value_net.0.weight (8, 4)  ...
    linear(8, 2), linear(8, 1)              action_net.weight (2, 8)  value_net.weight (1, 8)  and their biases

and the size 8 has the key ``policy_kwargs/net_arch``.

Invariants: a network that SB3 cannot make is a ``NetworkError`` with the key that is wrong; a class or value that is
not known is an ``UnsupportedError`` that names it. Both count as "not checked" for a reader, never as a bad file.

Where to change it: a new policy class is a row of ``POLICIES`` and a function that composes its network. A new release
whose networks differ is a row of :mod:`sbformat.known.changes` and a condition on ``agent.release`` in that function;
an argument that came or went is in the policy's ``since`` and ``until``.
"""

from __future__ import annotations

from sbformat.policies.shapes.agents import Agent
from sbformat.policies.shapes.mismatches import Mismatch, find_contradictions, find_mismatches
from sbformat.policies.shapes.parameters import (
    NetworkMatch,
    expected_parameters,
    list_parameters,
    match_network,
    read_agent,
    require_gsde,
)
from sbformat.policies.shapes.policy_classes import POLICIES, PRESETS
from sbformat.policies.shapes.saved_policy import require_known_network
from sbformat.policies.shapes.sizes import NetworkError

__all__ = [
    "POLICIES",
    "PRESETS",
    "Agent",
    "Mismatch",
    "NetworkError",
    "NetworkMatch",
    "expected_parameters",
    "find_contradictions",
    "find_mismatches",
    "list_parameters",
    "match_network",
    "read_agent",
    "require_gsde",
    "require_known_network",
]
