"""Policies whose modules or tensors torch wrapped: names of SB3, computed tensors, and what is refused."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import sbformat
from sbformat import Archive, UnsupportedError, ValidationError
from sbformat.nets.wrappers import Unwrapped, unwrap, unwrap_policy
from tests.nets.agents import draw, lone, make_agent, saved_policy, weights_of, with_class, with_policy_class
from tests.policies.run.models import dict_space, images

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Arrays = dict[str, np.ndarray]
LAYER = "action_net.weight"


def with_policy(archive: Archive, weights: Mapping[str, Any]) -> Archive:
    return archive.replace(parameters={"policy": dict(weights)})


def renamed(archive: Archive, rename: Callable[[str], str]) -> Archive:
    return with_policy(archive, {rename(name): array for name, array in weights_of(archive).items()})


def split(archive: Archive, name: str, parts: Mapping[str, np.ndarray]) -> Archive:
    """The archive with the parts of a tensor after the others of its module, as torch registers them."""
    module, _, last = name.rpartition(".")
    below = f"{module}.parametrizations.{last}"
    weights = [(other, array) for other, array in weights_of(archive).items() if other != name]
    at = max(at for at, (other, _) in enumerate(weights) if other.startswith(f"{module}."))
    added = [((below if part.startswith(".") else name) + part, array) for part, array in parts.items()]
    return with_policy(archive, dict([*weights[: at + 1], *added, *weights[at + 1 :]]))


def predict(archive: Archive, **given: Any) -> np.ndarray:
    observation = np.array([[0.1, 0.2, 0.3], [-1, 0.5, 0.25]], np.float32)
    return sbformat.load_policy(archive, **given).predict(observation, deterministic=True)[0]


def list_levels(archive: Archive) -> list[str]:
    """The levels of what ``validate`` reports about names and shapes."""
    found = [problem for problem in sbformat.iter_problems(archive) if problem.kind in ("mismatch", "unchecked")]
    return [problem.level for problem in found]


# -- wrappers of modules ------------------------------------------------------------------------------


def test_wrappers_of_modules_are_removed_anywhere() -> None:
    plain = make_agent()
    for rename in (
        lambda name: f"_orig_mod.{name}",
        lambda name: f"module.{name}",
        lambda name: f"_orig_mod.module.{name}",
        lambda name: f"module._orig_mod.module.{name}",
        lambda name: name.replace("mlp_extractor.", "mlp_extractor._orig_mod."),
        lambda name: name.replace("policy_net.", "policy_net.module."),
        lambda name: name.replace("action_net.", "action_net.module._orig_mod."),
    ):
        wrapped = renamed(plain, rename)
        assert np.array_equal(predict(wrapped), predict(plain))
        found = unwrap_policy(wrapped)
        assert list(found.state_dict) == list(weights_of(plain))
        assert [found.origins.get(name, name) for name in found.state_dict] == list(weights_of(wrapped))
        rebuilt, report = sbformat.rebuild(wrapped)
        assert list(rebuilt.parameters["policy"]) == list(weights_of(plain))
        row = next(row for row in report.rows if row.entry == "policy.pth")
        assert row.action == "translated"
        assert row.message == "; ".join(found.notes)
        assert "removed from" in row.message
        assert set(list_levels(wrapped)) == {"warning"}


def test_weights_have_the_address_of_their_stored_name() -> None:
    graph = sbformat.load_policy(renamed(make_agent(), lambda name: f"_orig_mod.{name}")).graph
    assert graph.weights[LAYER].address == f"policy.pth:_orig_mod.{LAYER}"
    assert graph.inferred == ("torch.compile: _orig_mod. removed from 13 names",)


def test_other_forms_of_a_policy_are_unwrapped_too() -> None:
    plain = make_agent()
    wrapped = renamed(plain, lambda name: f"_orig_mod.{name}")
    given = {"action_space": plain.decode("action_space"), "policy_kwargs": {"activation_fn": "Tanh"}}
    assert np.array_equal(predict(lone(wrapped), **given), predict(plain))
    custom = with_policy_class(wrapped, "theirs.Policy")
    assert np.array_equal(predict(custom, policy_class="ActorCriticPolicy"), predict(plain))
    saved = saved_policy(wrapped)
    assert np.array_equal(predict(saved), predict(plain))
    assert list_levels(saved) == ["warning"]


def test_a_state_dict_without_wrappers_is_not_copied() -> None:
    state_dict = make_agent().parameters["policy"]
    assert unwrap(state_dict) == Unwrapped(state_dict)
    assert unwrap(state_dict).state_dict is state_dict


def test_a_module_beside_others_is_not_a_wrapper() -> None:
    wrapped = renamed(make_agent(), lambda name: name.replace("action_net.weight", "action_net.module.weight"))
    with pytest.raises(ValidationError, match=r"'action_net\.module\.weight' is unexpected"):
        predict(wrapped)


def test_a_policy_that_is_wrapped_in_part_is_refused() -> None:
    weights = weights_of(make_agent())
    wrapped = with_policy(make_agent(), {f"_orig_mod.{name}": array for name, array in weights.items()} | weights)
    with pytest.raises(ValidationError, match=r"'_orig_mod\.\S+' is unexpected"):
        predict(wrapped)
    assert "error" in list_levels(wrapped)
    with pytest.raises(UnsupportedError, match=r"'_orig_mod\.\S+' is unexpected"):
        sbformat.rebuild(wrapped)


def test_the_key_of_an_observation_is_not_a_wrapper() -> None:
    space = dict_space(module=images(3, 36, 36), parametrizations=images(3, 36, 36))
    plain = make_agent("MultiInputActorCriticPolicy", space, features_extractor_kwargs={"cnn_output_dim": 4})
    found = unwrap_policy(plain)
    assert list(found.state_dict) == list(weights_of(plain))
    assert found.notes == ()
    wrapped = renamed(plain, lambda name: name.replace("extractors.module.", "extractors.module.module."))
    assert list(unwrap_policy(wrapped).state_dict) == list(weights_of(plain))


def test_names_with_many_parts_are_read_in_linear_time() -> None:
    name = "module." * 100_000 + "weight"
    found = unwrap(sbformat.StateDict.from_arrays({name: draw(1), "a.module.b": draw(1)}))
    assert "a.b" in found.state_dict


# -- wrappers of tensors ------------------------------------------------------------------------------


def spectral(weight: np.ndarray, axis: int = 0) -> tuple[np.ndarray, list[np.ndarray]]:
    """The normalized weight, and vectors near those that yield the norm."""
    matrix = np.moveaxis(weight, axis, 0).reshape(weight.shape[axis], -1).astype("f8")
    left, _, right = np.linalg.svd(matrix)
    vectors = [left[:, 0] + 0.01, right[0] - 0.01]
    return weight / (vectors[0] @ matrix @ vectors[1]), [vector.astype("f4") for vector in vectors]


def direct(weight: np.ndarray, axes: tuple[int, ...] | None) -> tuple[np.ndarray, np.ndarray]:
    """The weight with new lengths, and the lengths."""
    norms = np.sqrt((weight.astype("f8") ** 2).sum(axes, keepdims=axes is not None))
    lengths = np.asarray(draw(*norms.shape, seed=5))
    return weight * (lengths / norms), lengths


def list_computed(weight: np.ndarray) -> list[tuple[np.ndarray, dict[str, np.ndarray]]]:
    """What the parts of a tensor yield, by their names."""
    mask = (draw(*weight.shape, seed=4) > 0).astype("f4")
    made = [(weight * mask, {"_orig": weight, "_mask": mask})]
    normalized, vectors = spectral(weight)
    norms = (("_orig", "_u", "_v"), (".original", ".0._u", ".0._v"))
    made += [(normalized, dict(zip(names, (weight, *vectors)))) for names in norms]
    others = tuple(range(1, weight.ndim))
    for axes in (others, None, (0, *others[1:])):
        scaled, lengths = direct(weight, axes)
        made += [
            (scaled, {"_g": lengths, "_v": weight}),
            (scaled, {".original0": lengths, ".original1": weight}),
        ]
    return made


def test_tensors_are_computed_from_their_parts() -> None:
    plain = make_agent()
    weight = weights_of(plain)[LAYER]
    for expected, parts in list_computed(weight):
        wrapped = renamed(split(plain, LAYER, parts), lambda name: f"_orig_mod.{name}")
        found = unwrap_policy(wrapped)
        assert list(found.state_dict) == list(weights_of(plain)), "a weight is before its bias"
        np.testing.assert_allclose(found.state_dict[LAYER], expected, rtol=1e-6)
        assert found.state_dict[LAYER].dtype == np.float32
        assert found.computed == {LAYER}
        same = with_policy(plain, {**weights_of(plain), LAYER: expected.astype("f4")})
        np.testing.assert_allclose(predict(wrapped), predict(same), rtol=1e-5, atol=1e-6)
        rebuilt, report = sbformat.rebuild(wrapped)
        np.testing.assert_allclose(weights_of(rebuilt)[LAYER], expected, rtol=1e-6)
        assert f"{LAYER} computed from" in next(row.message for row in report.rows if row.entry == "policy.pth")
        assert set(list_levels(wrapped)) == {"warning"}


def test_filters_and_shared_tensors_are_computed() -> None:
    plain = make_agent("ActorCriticCnnPolicy", images(3, 36, 36), features_extractor_kwargs={"features_dim": 4})
    prefixes = ("features_extractor.", "pi_features_extractor.", "vf_features_extractor.")
    weight = weights_of(plain)["features_extractor.cnn.0.weight"]
    for expected, parts in list_computed(weight):
        wrapped = plain
        for prefix in prefixes:
            wrapped = split(wrapped, f"{prefix}cnn.0.weight", parts)
        tree = unwrap_policy(wrapped).state_dict.tree
        found = [tree[f"{prefix}cnn.0.weight"] for prefix in prefixes]
        assert len({id(info.storage) for info in found}) == 1
        np.testing.assert_allclose(unwrap_policy(wrapped).state_dict.array_of(found[0]), expected, rtol=1e-6)
        assert list_levels(wrapped) == ["warning"]


def test_biases_and_recurrent_weights_are_computed() -> None:
    plain = make_agent("recurrent.RecurrentActorCriticPolicy", lstm_hidden_size=4)
    for name in ("action_net.bias", "lstm_actor.weight_hh_l0"):
        array = weights_of(plain)[name]
        wrapped = split(plain, name, {"_orig": array, "_mask": np.zeros_like(array)})
        assert not unwrap_policy(wrapped).state_dict[name].any()
        assert sbformat.load_policy(wrapped)


def test_numbers_that_are_not_finite_are_those_of_torch() -> None:
    zeros = np.zeros((2, 64), "f4")
    wrapped = split(make_agent(), LAYER, {"_g": np.ones((2, 1), "f4"), "_v": zeros})
    assert np.isnan(unwrap_policy(wrapped).state_dict[LAYER]).all()


UNKNOWN = "how its parts determine it is not stored"
REFUSED: tuple[tuple[dict[str, tuple[int, ...]], str], ...] = (
    ({".original": (2, 64), ".0.base": (64, 64)}, f"orthogonal: {LAYER} cannot be computed from .*: {UNKNOWN}"),
    ({".original": (2, 64)}, f"a parametrization that is not known: {LAYER} cannot be computed .*: {UNKNOWN}"),
    ({".original": (2, 64), ".0._u": (2,), ".0._v": (64,), ".1._u": (2,)}, UNKNOWN),
    ({"_orig": (2, 64), "_mask": (2,)}, f"prune: {LAYER} .*: expected a mask of the tensor's shape"),
    ({"_orig": (2, 64), "_u": (3,), "_v": (64,)}, "spectral_norm: .*: expected vectors of the sizes of its matrix"),
    ({"_v": (2, 64), "_g": (2,)}, "weight_norm: .*: expected one length, or one along each axis"),
    ({"_v": (2, 64), "_g": (2, 3)}, "weight_norm: .*: expected a length for each part of the direction"),
)


def test_tensors_that_their_parts_do_not_determine_are_refused_by_name() -> None:
    for shapes, message in REFUSED:
        wrapped = split(make_agent(), LAYER, {part: draw(*shape) for part, shape in shapes.items()})
        with pytest.raises(UnsupportedError, match=message):
            predict(wrapped)
        with pytest.raises(UnsupportedError, match=message):
            predict(lone(wrapped))
        with pytest.raises(UnsupportedError, match=message):
            predict(with_policy_class(wrapped, "theirs.Policy"), policy_class="ActorCriticPolicy")
        with pytest.raises(UnsupportedError, match=message):
            sbformat.rebuild(wrapped)
        assert list_levels(wrapped) == ["info"]


def test_the_axis_of_a_spectral_norm_is_certain_or_refused() -> None:
    plain = make_agent(net_arch=[8, 8])
    name = "mlp_extractor.policy_net.2.weight"
    weight = weights_of(plain)[name]
    for axis in (0, 1):
        normalized, vectors = spectral(weight, axis)
        wrapped = split(plain, name, dict(zip(("_orig", "_u", "_v"), (weight, *vectors))))
        if axis == 0:
            np.testing.assert_allclose(unwrap_policy(wrapped).state_dict[name], normalized, rtol=1e-6)
        else:
            with pytest.raises(UnsupportedError, match="the argument dim is not stored"):
                predict(wrapped)
    first = "mlp_extractor.policy_net.0.weight"
    normalized, vectors = spectral(weights_of(plain)[first], 1)
    wrapped = split(plain, first, dict(zip(("_orig", "_u", "_v"), (weights_of(plain)[first], *vectors))))
    np.testing.assert_allclose(unwrap_policy(wrapped).state_dict[first], normalized, rtol=1e-6)


def test_a_second_parametrization_is_known_from_the_modules() -> None:
    weight = weights_of(make_agent())[LAYER]
    wrapped = split(make_agent(), LAYER, dict(zip((".original", ".0._u", ".0._v"), (weight, *spectral(weight)[1]))))
    assert unwrap_policy(wrapped).computed
    state_dict = wrapped.parameters["policy"]
    tree: Any = OrderedDict(state_dict.tree)
    tree._metadata = {"action_net.parametrizations.weight.1": {"version": 1}}
    assert LAYER in unwrap(state_dict.with_tree(tree)).refused


def test_a_module_of_the_caller_needs_no_computed_tensors() -> None:
    plain = make_agent("ActorCriticCnnPolicy", images(3, 36, 36), features_extractor_kwargs={"features_dim": 4})
    wrapped = plain
    for prefix in ("features_extractor", "pi_features_extractor", "vf_features_extractor"):
        name = f"{prefix}.cnn.0.weight"
        wrapped = split(wrapped, name, {".original": weights_of(plain)[name]})
    custom = with_class(wrapped, "features_extractor_class", "theirs.Extractor")
    policy = sbformat.load_policy(custom, modules={"features_extractor": lambda image: np.ones((len(image), 4), "f4")})
    assert policy.predict(np.zeros((36, 36, 3), np.uint8), deterministic=True)[0].shape == (2,)


# -- rebuild and edit ------------------------------------------------------------------------------------------


def make_optimizer(count: int, state: dict[int, Any]) -> dict[str, Any]:
    """The state dict of an Adam."""
    group = {"lr": 0.5, "betas": (0.9, 0.999), "eps": 1e-5, "weight_decay": 0, "amsgrad": False}
    return {"state": state, "param_groups": [{**group, "params": list(range(count))}]}


def test_wrappers_of_a_class_that_is_kept_are_its_own() -> None:
    plain = make_agent("ActorCriticCnnPolicy", images(3, 36, 36), features_extractor_kwargs={"features_dim": 4})
    prefixes = ("features_extractor.", "pi_features_extractor.", "vf_features_extractor.")
    inside: Arrays = {f"{prefix}net.module.0.weight_orig": draw(1) for prefix in prefixes}
    inside |= {f"{prefix}net.module.0.weight_mask": draw(1) for prefix in prefixes}
    own = {name: array for name, array in weights_of(plain).items() if not name.startswith(prefixes)}
    made = with_policy(plain, {**{f"_orig_mod.{name}": array for name, array in (inside | own).items()}})
    made = made.replace(parameters={"policy.optimizer": make_optimizer(9, {})})
    custom = with_class(made, "features_extractor_class", "theirs.Extractor")
    rebuilt, _ = sbformat.rebuild(custom, allow=["theirs.Extractor"])
    assert list(rebuilt.parameters["policy"]) == [*inside, *own]
    rebuilt, _ = sbformat.rebuild(with_policy_class(made, "theirs.Policy"), algorithm="PPO", allow=["theirs.Policy"])
    assert list(rebuilt.parameters["policy"]) == [*inside, *own]


def test_an_optimizer_of_computed_tensors_starts_anew() -> None:
    plain = sbformat.read(sbformat.writes(make_agent()))
    size = len(weights_of(plain))
    for part, count in (("_v", size + 1), ("_v", size), ("_orig", size)):
        weight = weights_of(plain)[LAYER]
        parts = {"_v": {"_g": weight[:, :1], "_v": weight}, "_orig": {"_orig": weight, "_mask": weight}}[part]
        state = {number: {"step": 1, "exp_avg": weight, "exp_avg_sq": weight} for number in range(count)}
        optimizer = make_optimizer(count, state)
        wrapped = split(plain, LAYER, parts).replace(parameters={"policy.optimizer": optimizer})
        assert list_levels(wrapped) == ["warning"]
        rebuilt, report = sbformat.rebuild(wrapped)
        made: Any = rebuilt.parameters["policy.optimizer"].tree
        assert (made["state"], made["param_groups"][0]["params"]) == ({}, list(range(size)))
        assert made["param_groups"][0]["lr"] == 0.5
        assert "starts anew" in next(row.message for row in report.rows if row.entry == "policy.optimizer.pth")


def test_edits_keep_the_stored_names() -> None:
    wrapped = renamed(make_agent(), lambda name: f"_orig_mod.{name}")
    assert list(sbformat.edit(wrapped, assign={"gamma": 0.5}).archive.parameters["policy"]) == list(weights_of(wrapped))
    made = sbformat.new(wrapped, {"policy": weights_of(wrapped)})
    assert list(made.parameters["policy"]) == list(weights_of(wrapped))
