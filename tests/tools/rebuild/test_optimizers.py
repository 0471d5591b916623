"""``rebuild``: states that the optimizer which SB3 makes could not go on from start anew (REBUILDING.md 15.5)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import sbformat
from conformance.runner.vectors import decode_file
from sbformat.pkl import Global
from tests.helpers import policy_vectors
from tests.helpers.build_blobs import partial
from tests.helpers.many_cases import check_each
from tests.helpers.old_archives import BASES, FRESH, blob, rebuilt, with_keys

if TYPE_CHECKING:
    from sbformat import Archive
    from sbformat.tools.rebuild import RebuildReport

SGD: Final[dict[str, Any]] = {
    "lr": 0.25, "momentum": 0, "dampening": 0, "weight_decay": 0, "nesterov": False, "maximize": False, "params": [0],
}  # fmt: skip
ADAM: Final = {"lr": 0.25, "betas": (0.5, 0.75), "eps": 1e-5, "weight_decay": 0, "amsgrad": False}
NEW: Final = {"lr": 0.25, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0, "params": [0]}


def entropy(state: Any) -> Archive:
    return FRESH["sac"].replace(parameters={"ent_coef_optimizer": state})


def result_of(archive: Archive, name: str, **options: Any) -> tuple[Any, Any, RebuildReport]:
    """The state of an optimizer in the result, the row of its entry, and the report."""
    made, rows, report = rebuilt(archive, **options)
    return made.parameters[name].to_numpy(), rows[f"{name}.pth"], report


def moments(*shape: int, **more: Any) -> dict[str, Any]:
    zeros = np.zeros(shape, np.float32)
    return {"step": np.array(3, np.float32), "exp_avg": zeros, "exp_avg_sq": zeros, **more}


@check_each(
    "group",
    [
        SGD,
        {**ADAM, "params": [0, 1]},
        {**ADAM, "params": []},
        *({**ADAM, name: value, "params": [0]} for name, value in (
            ("betas", None), ("betas", (0.9,)), ("betas", (0.9, "x")), ("betas", 0.9), ("betas", (0.9, 1.5)),
            ("eps", None), ("eps", True), ("eps", float("nan")), ("eps", -1.0), ("weight_decay", None),
            ("lr", None), ("lr", (1.0,)), ("amsgrad", 1.0), ("foreach", 3), ("differentiable", True),
        )),
        *({**{key: ADAM[key] for key in ADAM if key != gone}, "params": [0]} for gone in sorted(ADAM.keys() & NEW)),
    ],
)  # fmt: skip
def test_groups_that_adam_could_not_step_are_those_of_a_new_one(group: dict[str, Any]) -> None:
    found, row, report = result_of(entropy({"state": {}, "param_groups": [group]}), "ent_coef_optimizer")
    assert found["state"] == {}
    assert found["param_groups"][0].keys() >= NEW.keys()
    assert found["param_groups"][0]["params"] == [0]
    assert {name: found["param_groups"][0][name] for name in ("betas", "eps", "weight_decay")} == {
        "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0,
    }  # fmt: skip
    assert "starts anew" in row.message
    (finding,) = report.findings
    assert (finding.entry, finding.key) == ("ent_coef_optimizer.pth", "param_groups")
    options = {key: value for key, value in group.items() if key != "params" and value != (0.9, "x")}
    assert json.dumps(finding.old, sort_keys=True) == json.dumps(options, sort_keys=True)
    assert finding.new["betas"] == [0.9, 0.999]
    assert finding.is_hyperparameter


@pytest.mark.parametrize("count", [0, 2])
def test_several_groups_are_one(count: int) -> None:
    groups = [{**ADAM, "params": [index]} for index in range(count)]
    found, _, report = result_of(entropy({"state": {}, "param_groups": groups}), "ent_coef_optimizer")
    assert [group["params"] for group in found["param_groups"]] == [[0]]
    assert report.findings


def test_groups_that_adam_can_step_stay() -> None:
    for more in ({}, {"amsgrad": True}, {"foreach": None, "maximize": True}, {"initial_lr": 0.5}, {"lr": -1e-9}):
        given = {"state": {}, "param_groups": [{**ADAM, **more, "params": [0]}]}
        found, row, report = result_of(entropy(given), "ent_coef_optimizer")
        assert found == given
        assert "anew" not in row.message
        assert report.findings == ()


@check_each(
    "state",
    [
        {"step": np.array(3, np.float32)},
        {"square_avg": np.zeros(1, np.float32)},
        moments(2),
        moments(1, exp_avg=np.zeros((1, 1), np.float32)),
        moments(1, exp_avg=1.0),
        moments(1, step=None),
        moments(1, step=np.zeros(3, np.float32)),
        moments(1, other=np.zeros((7,), np.float32)),
    ],
)
def test_moments_of_another_class_or_shape_start_anew(state: dict[str, Any]) -> None:
    given = {"state": {0: state}, "param_groups": [{**ADAM, "params": [0]}]}
    found, row, report = result_of(entropy(given), "ent_coef_optimizer")
    assert found == {"state": {}, "param_groups": [{**ADAM, "params": [0]}]}
    assert "starts anew" in row.message
    assert report.findings == ()


def test_moments_need_what_their_options_ask_for() -> None:
    group = {**ADAM, "amsgrad": True, "params": [0]}
    found, _, _ = result_of(entropy({"state": {0: moments(1)}, "param_groups": [group]}), "ent_coef_optimizer")
    assert found["state"] == {}
    full = moments(1, max_exp_avg_sq=np.zeros(1, np.float32))
    found, _, _ = result_of(entropy({"state": {0: full}, "param_groups": [group]}), "ent_coef_optimizer")
    assert found["state"][0].keys() == full.keys()


@pytest.mark.parametrize("base", ["ppo", "sac"])
def test_a_state_that_is_missing_is_new(base: str) -> None:
    for name in BASES[base].parameters:
        if name == "policy":
            continue
        found, row, report = result_of(BASES[base].without(f"{name}.pth"), name)
        assert found["state"] == {}
        assert found["param_groups"][0]["params"] == BASES[base].parameters[name].tree["param_groups"][0]["params"]
        assert "fresh" in row.message
        assert report.findings == ()


def test_options_that_a_policy_passes_are_those_of_a_new_optimizer() -> None:
    for vector, names in (
        ("policy-crossq", ("actor.optimizer", "critic.optimizer")),
        ("policy-a2c", ("policy.optimizer",)),
    ):
        whole = sbformat.reads(decode_file(policy_vectors.VECTORS[vector]))
        for name in names:
            group = result_of(whole.without(f"{name}.pth"), name)[0]["param_groups"][0]
            (old,) = whole.parameters[name].to_numpy()["param_groups"]
            assert {option: old[option] for option in group} == group


@pytest.mark.parametrize("base", ["ppo", "sac"])
def test_each_optimizer_has_as_many_parameters_as_its_network(base: str) -> None:
    for name in BASES[base].parameters:
        if name == "policy":
            continue
        given = BASES[base].parameters[name].to_numpy()
        group = {**given["param_groups"][0]}
        size = len(group["params"])
        for wrong in (size - 1, size + 1):
            changed = {"state": {}, "param_groups": [{**group, "params": list(range(wrong))}]}
            found, row, report = result_of(BASES[base].replace(parameters={name: changed}), name)
            assert found["param_groups"][0]["params"] == list(range(size))
            assert f"expected {size} parameters, got {wrong}" in row.message
            assert report.findings
    assert rebuilt(BASES[base])[2].findings == ()


def test_the_shape_of_each_moment_is_its_parameters() -> None:
    given = BASES["ppo"].parameters["policy.optimizer"].to_numpy()
    state = {**given["state"], 0: moments(*given["state"][0]["exp_avg"].shape[::-1])}
    archive = BASES["ppo"].replace(parameters={"policy.optimizer": {**given, "state": state}})
    found, row, _ = result_of(archive, "policy.optimizer")
    assert found["state"] == {}
    assert "state does not fit" in row.message


@pytest.mark.parametrize(
    "given",
    [
        Global("torch.optim.sgd", "SGD"),
        Global("torch.optim.adadelta", "Adadelta"),
        partial(Global("torch.optim.sgd", "SGD"), momentum=0.5),
        Global("stable_baselines3.common.sb2_compat.rmsprop_tf_like", "RMSpropTFLike"),
    ],
)
def test_a_state_of_adam_is_not_given_to_another_class(given: Any) -> None:
    archive = with_keys(policy_kwargs=blob({"net_arch": [8, 8], "optimizer_class": given}))
    found, row, report = result_of(archive, "policy.optimizer")
    assert found["state"] == {}
    assert "betas" not in found["param_groups"][0]
    assert "starts anew" in row.message
    assert {"param_groups"} == {row.key for row in report.findings}


def test_a_class_that_is_dropped_leaves_no_state_that_adam_cannot_go_on_from() -> None:
    size = len(BASES["ppo"].parameters["policy.optimizer"].to_numpy()["param_groups"][0]["params"])
    theirs = {"lr": 0.5, "mine": 1.0, "params": list(range(size))}
    archive = with_keys(policy_kwargs=blob({"net_arch": [8, 8], "optimizer_class": Global("mine", "Lion")}))
    archive = archive.replace(parameters={"policy.optimizer": {"state": {}, "param_groups": [theirs]}})
    found, _, report = result_of(archive, "policy.optimizer")
    assert found["param_groups"][0]["betas"] == (0.9, 0.999)
    assert found["param_groups"][0]["lr"] == 0.5
    assert {row.key for row in report.findings} == {"policy_kwargs/optimizer_class", "param_groups"}
    found, _, report = result_of(archive, "policy.optimizer", allow=["mine.Lion"])
    assert found["param_groups"] == [theirs]
    assert report.findings == ()


def test_the_options_of_a_new_one_are_those_that_the_policy_gives() -> None:
    given = {"eps": 0.5, "lr": 3, "betas": [2, 3], "a": 1}
    archive = with_keys(policy_kwargs={"net_arch": [8, 8], "optimizer_kwargs": given})
    group = {"lr": 0.25, "params": [0]}
    archive = archive.replace(parameters={"policy.optimizer": {"state": {}, "param_groups": [group]}})
    made, rows, _ = rebuilt(archive)
    assert made.data["policy_kwargs"]["optimizer_kwargs"] == {"eps": 0.5}
    assert made.parameters["policy.optimizer"].to_numpy()["param_groups"][0]["eps"] == 0.5
    assert {key for key in rows if key.startswith("policy_kwargs/optimizer_kwargs/")} == {
        f"policy_kwargs/optimizer_kwargs/{name}" for name in ("lr", "betas", "a")
    }
    assert sbformat.scan(sbformat.writes(made)).verdict == "clean"
