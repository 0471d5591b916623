"""On-policy agents of Stable Baselines 2 as archives of SB3: what they compute, and what the report says."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import sbformat
from sbformat.known.types import ConstantSchedule, LinearSchedule, Reference
from sbformat.nets.sb2 import ActorCriticPolicy, Cnn, InputStage, list_variables
from sbformat.nets.sb2_orders import arrange_layers
from tests.helpers.many_cases import check_each
from tests.helpers.sb2_files import (
    AGENTS,
    assert_same_outputs,
    change_agent,
    draw_observations,
    draw_parameters,
    make_box,
    serialize,
)
from tests.helpers.sb2_keys import COMMON, HISTORY
from tests.helpers.sb2_predictions import read_recording
from tests.helpers.shared_files import SHARED, summarize_counts

if TYPE_CHECKING:
    from collections.abc import Iterator

SUCCESSORS: Final = {"A2C": "A2C", "ACKTR": "A2C", "GAIL": "TRPO", "PPO1": "PPO", "PPO2": "PPO", "TRPO": "TRPO"}
CONVERTED: Final = {
    "a2c-leaky-bits": "A2C", "a2c-no-layers": "A2C", "acktr-sigmoid-box": "A2C", "gail-identity": "TRPO",
    "ppo1-softplus": "PPO", "ppo2-elu-box64": "PPO", "ppo2-keywords": "PPO", "ppo2-relu6-image": "PPO",
    "trpo-bits": "TRPO",
}  # fmt: skip
"""The bundled agents that are converted, and the algorithm that they become."""

counts: Counter[str] = Counter()
summary = summarize_counts(counts, "SB2's on-policy agents:")


def rebuild(source: Any, **options: Any) -> tuple[sbformat.Archive, dict[str, Any]]:
    """The rebuilt archive, and the rows of the report by key, or by entry for those without one."""
    archive, report = sbformat.rebuild(source, **options)
    rows = {row.key or row.entry: row for row in report.rows}
    assert len(rows) == len(report.rows), "a key has two rows"
    return archive, rows


def decode(archive: sbformat.Archive) -> dict[str, Any]:
    return {key: archive.decode(key) for key in archive.data}


# -- what the result computes -------------------------------------------------------------------------


@check_each("agent", CONVERTED)
def test_every_output_is_that_of_the_original(agent: str) -> None:
    path = AGENTS / f"{agent}.zip"
    archive, report = sbformat.rebuild(path)
    assert report.algorithm == archive.algorithm.name == CONVERTED[agent]
    old, new = sbformat.load_policy(path), sbformat.load_policy(archive)
    assert_same_outputs(old, new, draw_observations(old))


@check_each("agent", CONVERTED)
def test_actions_and_values_are_those_that_sb2_predicted(agent: str) -> None:
    recording = read_recording(AGENTS / f"{agent}.zip")
    archive, _ = sbformat.rebuild(AGENTS / f"{agent}.zip")
    outputs = sbformat.load_policy(archive).outputs(recording["observations"])
    np.testing.assert_allclose(outputs["action"], recording["actions"], 1e-5, 1e-5)
    np.testing.assert_allclose(np.reshape(outputs["value"], -1), recording["value"].reshape(-1), 1e-4, 1e-4)


@pytest.mark.each_value
@pytest.mark.parametrize("agent", CONVERTED)
@pytest.mark.parametrize("target", ["2.0", "2.9"])
def test_the_result_is_valid_and_clean(agent: str, target: str) -> None:
    written = sbformat.writes(sbformat.rebuild(AGENTS / f"{agent}.zip", target=target).archive)
    assert not sbformat.validate(written)
    assert sbformat.scan(written).verdict == "clean"


# -- images -------------------------------------------------------------------------------------------

BYTES: Final = make_box(np.zeros((36, 40, 2)), 255, "u1")
FLOATS: Final = make_box(np.full((36, 40, 2), -1.5), 2.0, "f4")


def make_cnn_agent(space: Any, **kwargs: Any) -> bytes:
    """PPO2 with a CNN and random weights, three actions."""
    cnn = Cnn(has_flat_bias=bool(kwargs.get("one_dim_bias")))
    net = ActorCriticPolicy(InputStage(space.shape, cnn), (), is_normed=False, actions=3, is_gaussian=False)
    parameters = draw_parameters(list_variables("model", net))
    return change_agent("ppo2-cnn-same", parameters, observation_space=serialize(space), policy_kwargs=kwargs)


@pytest.mark.parametrize("kwargs", [{}, {"one_dim_bias": True}])
def test_a_cnn_computes_the_same_for_the_same_images(kwargs: dict[str, Any]) -> None:
    source = make_cnn_agent(BYTES, **kwargs)
    archive, rows = rebuild(source)
    assert archive.decode("policy_class").name == "ActorCriticCnnPolicy"
    assert archive.decode("observation_space").shape == (2, 36, 40)
    assert archive.decode("policy_kwargs") == {}
    assert not rows["observation_space"].is_finding
    assert not sbformat.validate(sbformat.writes(archive))
    old = sbformat.load_policy(source)
    images = draw_observations(old, 8)
    assert_same_outputs(old, sbformat.load_policy(archive), images)
    assert_same_outputs(old, sbformat.load_policy(archive), images, images.transpose(0, 3, 1, 2))


def test_the_features_extractor_of_a_cnn_is_shared() -> None:
    policy = rebuild(make_cnn_agent(BYTES))[0].parameters["policy"].tree
    names = [f"{branch}features_extractor.cnn.0.weight" for branch in ("", "pi_", "vf_")]
    assert len({id(policy[name].storage) for name in names}) == 1


@pytest.mark.parametrize(
    "space",
    [FLOATS, make_box(np.full((36, 40, 2), -np.inf), np.inf, "f4"), make_box(np.zeros((36, 40, 2)), 100, "u1")],
)
def test_images_that_sb3_does_not_transpose_are_a_finding(space: Any) -> None:
    source = make_cnn_agent(space)
    archive, rows = rebuild(source)
    assert archive.decode("policy_kwargs") == {"normalize_images": False}
    assert rows["observation_space"].is_finding
    assert "transpose those of the environment" in rows["observation_space"].instead
    assert not sbformat.validate(sbformat.writes(archive))
    old = sbformat.load_policy(source)
    images = draw_observations(old, 8)
    assert_same_outputs(old, sbformat.load_policy(archive), images, images.transpose(0, 3, 1, 2))


def test_bounds_that_differ_between_pixels_are_refused() -> None:
    space = make_box(np.linspace(-1, 0, 36 * 40 * 2).reshape(36, 40, 2), 1.0, "f4")
    with pytest.raises(sbformat.UnsupportedError, match=r"differ between pixels.*load_policy"):
        sbformat.rebuild(make_cnn_agent(space))


def test_a_padded_cnn_is_refused_with_what_works() -> None:
    with pytest.raises(sbformat.UnsupportedError, match=r"pads images.*load_policy runs its policy.*ONNX"):
        sbformat.rebuild(AGENTS / "ppo2-cnn-same.zip")


def test_an_mlp_of_images_gets_them_unscaled_and_in_the_order_of_sb3() -> None:
    archive, _ = rebuild(AGENTS / "ppo2-relu6-image.zip")
    assert archive.decode("policy_kwargs")["normalize_images"] is False
    assert sbformat.read(AGENTS / "ppo2-relu6-image.zip").decode("observation_space").shape == (3, 4, 2)
    assert archive.decode("observation_space").shape == (2, 3, 4)


# -- layers -------------------------------------------------------------------------------------------


def make_mlp_agent(shared: list[int], pi: list[int], vf: list[int], **data: Any) -> bytes:
    """PPO2 with layers and random weights."""
    steps = arrange_layers(shared, pi, vf)
    space = sbformat.read(AGENTS / "ppo2-elu-box64.zip").decode("observation_space")
    net = ActorCriticPolicy(InputStage(space.shape, None), steps, is_normed=False, actions=2, is_gaussian=True)
    arguments = {"net_arch": [*shared, {"pi": pi, "vf": vf}]}
    return change_agent(
        "ppo2-elu-box64", draw_parameters(list_variables("model", net)), policy_kwargs=arguments, **data
    )


@pytest.mark.parametrize(
    ("shared", "pi", "vf"), [([5], [4], [3, 2]), ([5, 4], [], []), ([], [], []), ([], [64, 64], [64, 64])]
)
def test_shared_layers_are_in_both_networks(shared: list[int], pi: list[int], vf: list[int]) -> None:
    source = make_mlp_agent(shared, pi, vf)
    archive, report = sbformat.rebuild(source)
    widths = {"pi": shared + pi, "vf": shared + vf}
    found = archive.decode("policy_kwargs").get("net_arch", {"pi": [64, 64], "vf": [64, 64]})
    assert found == widths
    rows = [row for row in report.rows if row.entry == "parameters" and "trained apart" in row.message]
    assert [row.key for row in rows] == [f"model/shared_fc{number}" for number in range(len(shared))]
    old = sbformat.load_policy(source)
    assert_same_outputs(old, sbformat.load_policy(archive), draw_observations(old))


NET_ARCH: Final = [8, {"vf": [6], "pi": [5, 4]}]
"""The layers of the bundled agent ``ppo2-elu-box64``."""


@check_each("name", ["elu", "leaky_relu", "relu", "relu6", "selu", "sigmoid", "softmax", "softplus",
                                  "softsign", "swish", "tanh", "linear", "log_softmax"])  # fmt: skip
def test_an_activation_is_that_of_torch(name: str) -> None:
    source = change_agent("ppo2-elu-box64", policy_kwargs={"act_fun": name, "net_arch": NET_ARCH})
    old = sbformat.load_policy(source)
    archive, _ = rebuild(source)
    assert ("activation_fn" in archive.decode("policy_kwargs")) is (name != "tanh")
    assert not sbformat.validate(sbformat.writes(archive))
    assert_same_outputs(old, sbformat.load_policy(archive), draw_observations(old))


@pytest.mark.parametrize("name", ["exp", "hard_sigmoid"])
def test_an_activation_that_torch_does_not_have_is_refused(name: str) -> None:
    source = change_agent("ppo2-elu-box64", policy_kwargs={"act_fun": name, "net_arch": NET_ARCH})
    with pytest.raises(sbformat.UnsupportedError, match=f"its activation {name} is not a class of torch.nn"):
        sbformat.rebuild(source)


# -- hyper-parameters ---------------------------------------------------------------------------------


def test_the_hyper_parameters_of_ppo2_have_the_names_and_meanings_of_ppo() -> None:
    source = change_agent("ppo2-elu-box64", n_steps=128, n_envs=8, nminibatches=4, cliprange_vf=-1, seed=7, verbose=1)
    archive, rows = rebuild(source)
    found = decode(archive)
    expected = {
        "n_steps": 128, "n_envs": 8, "batch_size": 256, "n_epochs": 4, "gamma": 0.99, "gae_lambda": 0.95,
        "learning_rate": 0.00025, "clip_range": 0.2, "clip_range_vf": None, "ent_coef": 0.01, "vf_coef": 0.25,
        "max_grad_norm": 0.5, "normalize_advantage": True, "target_kl": None, "seed": 7, "verbose": 1,
        "use_sde": False,
    }  # fmt: skip
    assert {key: found[key] for key in expected} == expected
    assert (rows["nminibatches"].old, rows["nminibatches"].new, rows["nminibatches"].new_key) == (4, 256, "batch_size")
    assert rows["lam"].new_key == "gae_lambda"
    assert "halves the squared error" in rows["vf_coef"].message
    assert not any(row.is_finding for row in rows.values())


@check_each(
    ("given", "expected"), [(..., 0.3), (None, 0.3), (-1, None), (-0.5, None), (0.0, ConstantSchedule(0.0)), (0.1, 0.1)]
)
def test_the_clipping_of_the_value_function_is_that_of_ppo2(given: Any, expected: Any) -> None:
    archive, _ = rebuild(change_agent("ppo2-elu-box64", cliprange=0.3, cliprange_vf=given))
    assert archive.decode("clip_range_vf") == expected


@pytest.mark.parametrize("agent", ["ppo2-elu-box64", "a2c-leaky-bits", "acktr-sigmoid-box"])
def test_gradients_that_are_not_clipped_stay_so(agent: str) -> None:
    archive, rows = rebuild(change_agent(agent, max_grad_norm=None))
    assert archive.decode("max_grad_norm") == 1e10
    assert "None means no clipping" in rows["max_grad_norm"].message


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("constant", 0.001),
        ("linear", LinearSchedule(0.001, 0.0, 1.0)),
        ("double_linear_con", LinearSchedule(0.001, 0.000125, 0.4375)),
    ],
)
def test_the_schedule_of_a2c_is_part_of_its_learning_rate(name: str, expected: Any) -> None:
    archive, rows = rebuild(change_agent("a2c-leaky-bits", learning_rate=0.001, lr_schedule=name))
    found = archive.decode("learning_rate")
    assert getattr(found, "schedule", found) == expected
    assert rows["lr_schedule"].new_key == "learning_rate"
    assert not rows["lr_schedule"].is_finding


@pytest.mark.parametrize("name", ["middle_drop", "double_middle_drop"])
def test_a_schedule_that_sb3_does_not_have_is_a_finding_with_the_nearest_one(name: str) -> None:
    source = change_agent("a2c-leaky-bits", learning_rate=0.001, lr_schedule=name)
    archive, rows = rebuild(source)
    assert archive.decode("learning_rate") == 0.001
    assert rows["lr_schedule"].is_finding
    nearest = rows["lr_schedule"].instead.partition("--set 'learning_rate=")[2].partition("'")[0]
    again, _ = rebuild(source, assign={"learning_rate": json.loads(nearest)})
    assert not isinstance(again.decode("learning_rate"), (int, float))


def test_the_optimizer_of_a2c_computes_as_tensorflows() -> None:
    source = change_agent("a2c-leaky-bits", alpha=0.95, epsilon=1e-3, momentum=0.5)
    archive, rows = rebuild(source)
    arguments = archive.decode("policy_kwargs")
    assert arguments["optimizer_class"].name == "RMSpropTFLike"
    assert arguments["optimizer_kwargs"] == {"alpha": 0.95, "eps": 1e-3, "weight_decay": 0, "momentum": 0.5}
    assert archive.decode("gae_lambda") == 1.0
    assert archive.decode("normalize_advantage") is False
    group = archive.parameters["policy.optimizer"].tree["param_groups"][0]
    assert (group["alpha"], group["eps"], group["momentum"], group["lr"]) == (0.95, 1e-3, 0.5, 0.0007)
    assert rows["alpha"].new_key == "policy_kwargs/optimizer_kwargs/alpha"


def test_the_optimizer_is_new_and_the_report_says_so() -> None:
    archive, rows = rebuild(AGENTS / "ppo2-elu-box64.zip")
    tree = archive.parameters["policy.optimizer"].tree
    assert tree["state"] == {}
    assert (tree["param_groups"][0]["lr"], tree["param_groups"][0]["eps"]) == (0.00025, 1e-5)
    assert "a fresh state" in rows["policy.optimizer.pth"].message


def test_ppo1_anneals_learning_rate_and_clip_range() -> None:
    found = decode(rebuild(AGENTS / "ppo1-softplus.zip")[0])
    rates = [getattr(found[key], "schedule", found[key]) for key in ("learning_rate", "clip_range")]
    assert rates == [LinearSchedule(0.001, 0.0, 1.0), LinearSchedule(0.2, 0.0, 1.0)]
    expected = {"n_steps": 256, "batch_size": 64, "n_epochs": 4, "ent_coef": 0.01, "vf_coef": 1.0}
    assert {key: found[key] for key in expected} == expected
    assert found["clip_range_vf"] is None
    constant = decode(rebuild(change_agent("ppo1-softplus", schedule="constant", adam_epsilon=1e-4))[0])
    assert (constant["learning_rate"], constant["clip_range"]) == (0.001, 0.2)
    assert constant["policy_kwargs"]["optimizer_kwargs"] == {"eps": 1e-4}


def test_trpo_keeps_the_numbers_of_its_search() -> None:
    archive, rows = rebuild(AGENTS / "trpo-bits.zip")
    found = decode(archive)
    expected = {
        "n_steps": 1024, "target_kl": 0.01, "cg_max_steps": 10, "cg_damping": 0.01, "gae_lambda": 0.98,
        "learning_rate": 0.0003, "n_critic_updates": 3, "batch_size": 128, "line_search_max_iter": 10,
        "line_search_shrinking_factor": 0.5, "sub_sampling_factor": 5,
    }  # fmt: skip
    assert {key: found[key] for key in expected} == expected
    assert not any(row.is_finding for row in rows.values())
    rows = rebuild(change_agent("trpo-bits", entcoeff=0.02))[1]
    assert rows["entcoeff"].is_finding


@pytest.mark.parametrize(("agent", "word"), [("acktr-sigmoid-box", "K-FAC"), ("gail-identity", "demonstrations")])
def test_an_algorithm_that_sb3_does_not_have_is_a_finding(agent: str, word: str) -> None:
    _, rows = rebuild(AGENTS / f"{agent}.zip")
    assert word in rows["data"].message
    assert rows["data"].is_finding
    assert rows["data"].was == agent.partition("-")[0].upper()


@check_each("key", ["learning_rate", "cliprange", "n_steps", "gamma", "nminibatches", "vf_coef"])
def test_a_value_that_sb3_cannot_use_is_a_finding(key: str) -> None:
    source = change_agent("ppo2-elu-box64", **{key: "a text"})
    archive, rows = rebuild(source)
    assert rows[key].is_finding
    assert not sbformat.validate(sbformat.writes(archive))


def test_a_fixed_entropy_coefficient_is_a_variable_of_sb3() -> None:
    archive, rows = rebuild(change_agent("sac-softplus", ent_coef=0.125))
    variables = archive.pytorch_variables
    assert variables is not None
    assert {name: float(value) for name, value in variables.to_numpy().items()} == {"ent_coef_tensor": 0.125}
    assert not any(row.is_finding for row in rows.values())


STRANGE: Final = [None, True, -1, 10**400, 1e308, float("nan"), float("inf"), "a text", [], {"a": [1]}]


@pytest.mark.each_value
@pytest.mark.parametrize("value", STRANGE, ids=lambda value: repr(value)[:12])
@pytest.mark.parametrize(
    "agent", ["a2c-leaky-bits", "acktr-sigmoid-box", "ppo1-softplus", "ppo2-elu-box64", "trpo-bits"]
)
def test_strange_numbers_give_an_agent_of_the_same_algorithm(agent: str, value: Any) -> None:
    data = sbformat.read(AGENTS / f"{agent}.zip").data
    numbers = {key: value for key, old in data.items() if type(old) in (int, float)}
    archive, report = sbformat.rebuild(change_agent(agent, **numbers))
    written = sbformat.writes(archive)
    assert not [problem for problem in sbformat.validate(written) if problem.level == "error"]
    assert sbformat.reads(written).algorithm.name == report.algorithm == CONVERTED[agent]
    if not isinstance(value, float):
        assert report.findings


# -- the report ---------------------------------------------------------------------------------------


def list_history(algorithm: str) -> set[str]:
    """Every key that an algorithm wrote in any release."""
    words = f"{COMMON} {HISTORY['TRPO' if algorithm == 'GAIL' else algorithm]}".split()
    return {word for word in words if not word[0].isdigit() and not word.startswith("-")}


@check_each("agent", CONVERTED)
def test_every_key_and_parameter_of_the_file_has_a_row(agent: str) -> None:
    algorithm = agent.partition("-")[0].upper()
    present = sbformat.read(AGENTS / f"{agent}.zip").data
    others = dict.fromkeys(list_history(algorithm) - present.keys(), 1)
    source = change_agent(agent, **others, an_own_key=5)
    archive, report = sbformat.rebuild(source)
    given = sbformat.read(source)
    keys = [row.key for row in report.rows if row.entry == "data" and row.key is not None]
    assert set(given.data) <= set(keys)
    assert next(row for row in report.rows if row.key == "an_own_key").is_finding
    assert {"parameters", "parameter_list"} <= {row.entry for row in report.rows}
    scopes = [row.key for row in report.rows if row.entry == "parameters" and row.key]
    used = sum(tensor.numel for tensor in archive.parameters["policy"].tree.values())
    dropped = sum(
        tensor.numel
        for name, tensor in given.state_dict("parameters").tree.items()
        if any(name.startswith(f"{scope}/") for scope in scopes if "shared" not in scope)
    )
    shared = sum(tensor.numel for name, tensor in given.state_dict("parameters").tree.items() if "/shared_fc" in name)
    assert used + dropped - shared == sum(tensor.numel for tensor in given.state_dict("parameters").tree.values())


def test_the_report_names_the_algorithm_of_sb2() -> None:
    report = sbformat.rebuild(AGENTS / "ppo2-elu-box64.zip").report
    assert (report.sb2_algorithm, report.algorithm, report.written_by) == ("PPO2", "PPO", None)
    assert "Stable Baselines 2 (PPO2)" in repr(report)
    assert report.to_json()["sb2_algorithm"] == "PPO2"


# -- options ------------------------------------------------------------------------------------------


def test_values_can_be_assigned_under_the_names_of_sb3() -> None:
    assign = {"learning_rate": {"linear": [3e-4, 0]}, "n_epochs": 7}
    archive, rows = rebuild(AGENTS / "ppo2-elu-box64.zip", assign=assign)
    found = archive.decode("learning_rate")
    assert getattr(found, "schedule", found) == LinearSchedule(3e-4, 0.0, 1.0)
    assert archive.decode("n_epochs") == 7
    assert "assigned" in rows["noptepochs"].message


def test_a_users_policy_can_be_treated_as_a_class_of_sb2() -> None:
    reference = serialize(Reference("torch.nn.modules.linear", "Linear"))
    source = change_agent("ppo1-softplus", policy=reference, policy_kwargs={"act_fun": "softplus"})
    with pytest.raises(sbformat.UnsupportedError, match="policy_class="):
        sbformat.rebuild(source)
    archive, rows = rebuild(source, policy_class="MlpPolicy")
    assert "names and shapes of the parameters determined the layers" in rows["policy"].message
    old = sbformat.load_policy(source, policy_class="MlpPolicy")
    assert_same_outputs(old, sbformat.load_policy(archive), draw_observations(old))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_unknown": "keep"}, "cannot be kept as they are"),
        ({"algorithm": "SAC"}, "an agent of PPO2, which becomes one of PPO, not of 'SAC'"),
        ({"target": "1.0"}, "target"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises((sbformat.UnsupportedError, ValueError), match=message):
        sbformat.rebuild(AGENTS / "ppo2-elu-box64.zip", **options)


def test_an_attempt_to_edit_an_agent_of_sb2_names_rebuild() -> None:
    with pytest.raises(sbformat.UnsupportedError, match="kind sb2-zip; rebuild makes an archive"):
        sbformat.read(AGENTS / "ppo2-elu-box64.zip").replace(data={})


@pytest.mark.parametrize("agent", ["acer-swish", "acer-lstm-two"])
def test_acer_is_refused_with_what_works(agent: str) -> None:
    with pytest.raises(sbformat.UnsupportedError, match=r"SB3 has no ACER.*load_policy runs its policy.*ONNX"):
        sbformat.rebuild(AGENTS / f"{agent}.zip")


# -- real agents --------------------------------------------------------------------------------------


def list_real_agents() -> Iterator[Path]:
    for folder in ("policies/sb2", "generated/sb2", "corpus/sb2"):
        for path in sorted((SHARED / folder).glob("*")):
            if path.name.partition("@")[0].endswith((".zip", ".pkl")) and "rms" not in path.name:
                yield path


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", [*list_real_agents()], ids=lambda path: f"{path.parent.parent.name}-{path.name}")
def test_a_real_agent_acts_alike_or_is_refused_for_a_reason(path: Path) -> None:
    archive = sbformat.read(path)
    if archive.format not in ("sb2-zip", "sb2-pickle") or archive.algorithm.name not in SUCCESSORS:
        pytest.skip("not an on-policy agent")
    try:
        made, report = sbformat.rebuild(archive)
    except sbformat.UnsupportedError as error:
        counts["refused"] += 1
        assert any(reason in str(error) for reason in ("LSTM", "is not a class of Stable Baselines 2"))  # noqa: PT017
        return
    counts["converted"] += 1
    assert report.algorithm == SUCCESSORS[report.sb2_algorithm or ""] or report.algorithm == "RecurrentPPO"
    written = sbformat.writes(made)
    assert not sbformat.validate(written)
    assert sbformat.scan(written).verdict == "clean"
    if report.algorithm != "RecurrentPPO":
        old = sbformat.load_policy(path)
        assert_same_outputs(old, sbformat.load_policy(written), draw_observations(old))
