"""The table of algorithms: every other table of algorithms, classes and policies is a view of it."""

from __future__ import annotations

from itertools import pairwise

from sbformat.archive.hyperparameters import infer
from sbformat.known.algorithms import (
    ALGORITHMS,
    ENTROPY_LEARNERS,
    HER,
    OPTIMIZERS,
    POLICY_CLASSES,
    SIGNATURES,
    list_relatives,
)
from sbformat.known.table import find
from sbformat.nets.sb3 import NETWORKS, POLICIES
from sbformat.schema import known_keys
from sbformat.tools.rebuild.trusted import list_buffers


def test_a_row_agrees_with_every_view() -> None:
    for name, row in ALGORITHMS.items():
        assert find((row.module, name)).uses == {"algorithm"}
        assert len(OPTIMIZERS[name]) == {"actor_critic": 1, "q": 1, "critics": 2, "ars": 0}[row.kind]
        assert (name in ENTROPY_LEARNERS) == ("ent_coef_optimizer" in known_keys(name))
        for alias, pair in row.policies.items():
            assert alias.endswith("Policy")
            assert find(pair).uses == {"value"}
            assert find(pair).since == row.classes.since
            assert pair in POLICIES
        for is_dict in (False, True):
            buffers = list_buffers("rollout_buffer_class", name, is_dict=is_dict)
            assert bool(buffers) == (row.kind == "actor_critic")
            assert all(find(pair).place == "rollout_buffer_class" for pair in buffers)


def test_the_policies_are_those_of_the_algorithms() -> None:
    assert list(POLICIES) == [pair for row in POLICY_CLASSES for pair in row.by_alias.values()]
    used = {row.network for row in POLICIES.values()}
    assert used == {row.network for row in NETWORKS.values()}


def test_the_schema_has_the_keys_of_each_algorithm() -> None:
    usual = known_keys(None)
    for row in ALGORITHMS.values():
        own = known_keys(row.name)
        assert own > usual
        assert not row.keys or any(own.issuperset(keys) for keys in row.keys)
        assert own.issuperset(row.fixes)


def test_keys_or_the_policy_class_identify_each_algorithm() -> None:
    for row in ALGORITHMS.values():
        for keys in row.keys:
            assert infer(dict.fromkeys(keys)).name == row.name
        assert row.keys or row.like
    every = dict.fromkeys(key for _, keys in SIGNATURES for key in keys)
    assert infer(every).name == SIGNATURES[0][0]


def test_more_specific_keys_are_looked_for_first() -> None:
    numbers = [ALGORITHMS[name].precedence for name, _ in SIGNATURES if name != HER[1]]
    assert all(one >= other for one, other in pairwise(numbers))


def test_relatives_are_mutual() -> None:
    for row in ALGORITHMS.values():
        if row.like:
            assert row.like in list_relatives(row.name)
            assert row.name in list_relatives(row.like)
            assert row.kind == ALGORITHMS[row.like].kind
        if row.fixes:
            like = ALGORITHMS[row.like]
            assert any(like.defaults[key] != row.defaults[key] for key in row.fixes)
    assert list_relatives("PPO") == ["A2C", "TRPO", "MaskablePPO", "RecurrentPPO"]
    assert list_relatives("HER") == []
