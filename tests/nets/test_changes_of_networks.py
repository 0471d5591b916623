"""What a release or an author may change is one row: a renamed module, a features extractor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import sbformat
from sbformat.known import changes
from sbformat.known.changes import NEWEST, RenamedModule
from sbformat.nets import extractors
from sbformat.nets.arguments import Size
from sbformat.nets.extractors import FeaturesExtractor
from sbformat.nets.layers import Linear
from tests.nets.agents import build, draw, expected_parameters, lone, make_agent, weights_of, with_class

if TYPE_CHECKING:
    import pytest

    from sbformat.nets.layers import Scope
    from sbformat.policies.builder import Value


def test_a_module_that_a_release_renames_is_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    before, observation = make_agent("sac.SACPolicy", release=NEWEST.before), draw(4, 3)
    plain = sbformat.load_policy(before).outputs(observation)
    row = RenamedModule("latent_pi", ("actor",), "policy_latent", since=NEWEST)
    monkeypatch.setattr(changes, "RENAMED_MODULES", (*changes.RENAMED_MODULES, row))
    old, new = "actor.latent_pi.0.weight", "actor.policy_latent.0.weight"
    assert old in expected_parameters(before)
    made, report = sbformat.rebuild(before)
    assert new in expected_parameters(made)
    assert old not in expected_parameters(made)
    assert list(expected_parameters(made)) == list(made.parameters["policy"].tree)
    assert "actor.latent_pi is actor.policy_latent since SB3 2.9" in [row.message for row in report.rows]
    space = build(made).action_space
    given: dict[str, Any] = {"action_space": space, "policy_kwargs": {"activation_fn": "ReLU"}}
    for policy in (sbformat.load_policy(made), sbformat.load_policy(lone(made), **given)):
        for name, value in policy.outputs(observation).items():
            np.testing.assert_array_equal(value, plain[name], err_msg=name)
    wrong = {(old if name == new else name): value for name, value in weights_of(made).items()}
    problems = list(sbformat.iter_problems(made.replace(parameters={"policy": wrong})))
    assert any(f"{new!r} is missing" in problem.message for problem in problems)


class Scale(FeaturesExtractor):
    """A layer of two features."""

    def __init__(self, *_: Any) -> None:
        self.body = Linear(3, 2)
        self.features_dim = Size(2, "")

    def forward(self, scope: Scope, value: Value) -> Value:
        return self.body.forward(scope / "body", value)


def test_a_features_extractor_is_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    archive = with_class(make_agent(net_arch=[]), "features_extractor_class", "mine.Scale")
    monkeypatch.setattr(extractors, "EXTRACTORS", {**extractors.EXTRACTORS, ("mine", "Scale"): Scale})
    expected, generator = expected_parameters(archive), np.random.default_rng(0)
    assert expected["features_extractor.body.weight"] == (2, 3)
    weights = {name: generator.normal(size=shape).astype("f4") for name, shape in expected.items()}
    for name in weights:
        if name.startswith(("pi_", "vf_")):
            weights[name] = weights[name.partition("_")[2]]
    made = archive.replace(parameters={"policy": weights})
    layers = [node.module for node in build(made).graph.nodes if node.op == "Gemm"]
    assert layers[0] == "pi_features_extractor.body"
    assert not [problem for problem in sbformat.iter_problems(made) if problem.entry == "policy.pth"]
