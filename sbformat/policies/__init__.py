"""Policies as networks: what each one of SB3 is made of, found out without importing it.

One table of layers gives the names and shapes of a policy's state dict (FORMAT.md 6.8): ``layers``, ``extractors``,
``on_policy``, ``off_policy``, ``one_network``.
"""

from __future__ import annotations

from sbformat.policies.agents import Agent
from sbformat.policies.mismatches import Mismatch, find_contradictions, find_mismatches
from sbformat.policies.optimizers import optimizer_mismatches
from sbformat.policies.parameters import POLICIES, Fit, agent_of, expected_parameters, nearest, parameters_of
from sbformat.policies.saved_policy import require_known_network
from sbformat.policies.sizes import NetworkError

__all__ = [
    "POLICIES",
    "Agent",
    "Fit",
    "Mismatch",
    "NetworkError",
    "agent_of",
    "expected_parameters",
    "find_contradictions",
    "find_mismatches",
    "nearest",
    "optimizer_mismatches",
    "parameters_of",
    "require_known_network",
]
