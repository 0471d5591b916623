"""Policies of the package imitation: they pass arguments to SB3's, and normalize observations in the network."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sbformat
from sbformat import pkl
from sbformat.data import Serialized
from sbformat.pkl import Global
from sbformat.pkl.tree import Call, Dict
from sbformat.pth.state_dict import clear_optimizer
from tests.helpers.bundled import PPO

BASE = "imitation.policies.base"
OBSERVATIONS = np.array([[0.5, -0.2, 0.9, 0.0], [-1.0, 0.1, 3.0, 2.0]], np.float32)
RANDOM = np.random.default_rng(3)


def blob(tree: object) -> Serialized:
    return Serialized("<class 'dict'>", pkl.dumps(tree, protocol=4))


def layer(outputs: int, inputs: int) -> tuple[np.ndarray, np.ndarray]:
    return RANDOM.standard_normal((outputs, inputs)).astype(np.float32), np.ones(outputs, np.float32)


LAYERS = {
    f"mlp_extractor.{branch}_net.{number}": layer(32, inputs)
    for branch in ("policy", "value")
    for number, inputs in ((0, 4), (2, 32))
}
LAYERS |= {"action_net": layer(2, 32), "value_net": layer(1, 32)}
WEIGHTS = {f"{name}.{part}": array for name, parts in LAYERS.items() for part, array in zip(("weight", "bias"), parts)}
NORM: dict[str, Any] = {
    "running_mean": np.array([0.5, 0.0, -1.0, 2.0], np.float32),
    "running_var": np.array([4.0, 1.0, 0.25, 9.0], np.float32),
    "count": np.array(9, np.int32),
}


def agent(policy: str = "FeedForward32Policy", kwargs: object = (), weights: Any = WEIGHTS) -> sbformat.Archive:
    """An agent of SB3 1.8 whose policy is of imitation."""
    template = sbformat.read(PPO)
    data = {**template.data, "policy_class": blob(Global(BASE, policy)), "policy_kwargs": blob(kwargs or Dict())}
    return template.replace(
        data=data,
        parameters={"policy": weights, "policy.optimizer": clear_optimizer(template.parameters["policy.optimizer"])},
        stable_baselines3_version="1.8.0",
    )


def normalizing(norm: str = "RunningNorm", **more: np.ndarray) -> sbformat.Archive:
    arguments = Dict([("normalize_class", Global("imitation.util.networks", norm))])
    extractor = Global(BASE, "NormalizeFeaturesExtractor")
    pairs = Dict([("features_extractor_class", extractor), ("features_extractor_kwargs", arguments)])
    kwargs = Call("REDUCE", Global("sacred.config.custom_containers", "ReadOnlyDict"), (pairs,))
    tensors = {
        f"{prefix}features_extractor.normalize.{name}": value
        for prefix in ("", "pi_", "vf_")
        for name, value in {**NORM, **more}.items()
    }
    return agent(kwargs=kwargs, weights={**tensors, **WEIGHTS})


def logits(observations: np.ndarray) -> np.ndarray:
    value = observations
    for name in ("mlp_extractor.policy_net.0", "mlp_extractor.policy_net.2"):
        weight, bias = LAYERS[name]
        value = np.tanh(value @ weight.T + bias)
    weight, bias = LAYERS["action_net"]
    return value @ weight.T + bias  # type: ignore[no-any-return]


def test_a_class_that_passes_arguments_computes_as_that_of_sb3() -> None:
    policy = sbformat.load_policy(agent())
    assert np.allclose(policy.outputs(OBSERVATIONS)["logits"], logits(OBSERVATIONS), atol=1e-5)
    assert [row for row in sbformat.iter_problems(agent()) if row.entry == "policy.pth"] == []


@pytest.mark.parametrize(
    "archive",
    [
        normalizing(),
        normalizing("EMANorm", inv_learning_rate=np.array(1.0, np.float32), num_batches=np.array(4, np.int32)),
    ],
    ids=["RunningNorm", "EMANorm"],
)
def test_its_statistics_are_part_of_the_network(archive: sbformat.Archive) -> None:
    policy = sbformat.load_policy(archive)
    seen = (OBSERVATIONS - NORM["running_mean"]) / np.sqrt(NORM["running_var"] + 1e-5)
    assert np.allclose(policy.outputs(OBSERVATIONS)["logits"], logits(seen), atol=1e-4)
    assert [row for row in sbformat.iter_problems(archive) if row.entry == "policy.pth"] == []


def test_the_names_are_known_to_scan() -> None:
    for archive in (agent(), normalizing()):
        report = sbformat.scan(sbformat.writes(archive))
        assert report.verdict == "clean", report.findings


def test_another_norm_is_refused_by_name() -> None:
    with pytest.raises(sbformat.UnsupportedError, match="normalize_class is imitation.util.networks.BaseNorm"):
        sbformat.load_policy(normalizing("BaseNorm"))


def test_rebuild_writes_the_class_of_sb3_with_the_arguments() -> None:
    made, report = sbformat.rebuild(agent())
    (row,) = (row for row in report.rows if row.key == "policy_class")
    assert "ActorCriticPolicy, to which imitation.policies.base.FeedForward32Policy passes arguments" in row.message
    assert str(made.decode("policy_class")) == "stable_baselines3.common.policies.ActorCriticPolicy"
    assert made.decode("policy_kwargs")["net_arch"] == [32, 32]
    assert np.allclose(sbformat.load_policy(made).outputs(OBSERVATIONS)["logits"], logits(OBSERVATIONS), atol=1e-5)


def test_a_features_extractor_that_sb3_lacks_is_refused_with_the_option() -> None:
    archive = normalizing()
    with pytest.raises(sbformat.SbformatError, match="--allow imitation.policies.base.NormalizeFeaturesExtractor"):
        sbformat.rebuild(archive)
