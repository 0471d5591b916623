"""Archives of SBX: their weights, and what can and cannot be done with them."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import sbformat
from sbformat.cli import main
from sbformat.pkl import Call, Global
from tests.helpers.many_cases import check_each
from tests.helpers.sbx import blob, jax_array, made_object, sbx_archive, train_state, with_state

if TYPE_CHECKING:
    from collections.abc import Callable

ARCHIVES = Path(__file__).parents[1] / "nets" / "archives" / "sbx"
PPO = ARCHIVES / "ppo-box.zip"
DQN = ARCHIVES / "dqn.zip"
KERNEL = np.arange(6, dtype=np.float32).reshape(3, 2)


def test_the_weights_are_state_dicts() -> None:
    archive = sbformat.read(PPO)
    assert archive.format == "sbx"
    assert archive.state_dicts == ("policy", "policy.optimizer", "pytorch_variables.pth")
    assert archive.contents[:3] == ("data", "policy", "policy.optimizer")
    weights = archive.parameters["policy"].to_numpy()
    assert weights["actor_state"]["params"]["params"]["Dense_0"]["kernel"].shape == (3, 8)
    assert weights["actor_state"]["params"]["params"]["log_std"].dtype == np.float32
    optimizer = sbformat.read_parameters(PPO)["policy.optimizer"]["actor_state"]
    assert optimizer["step"] == 4
    state = optimizer["opt_state"][1]
    assert state["hyperparams"]["learning_rate"] == np.float32(3e-4)
    assert state["inner_state"][0]["mu"]["params"]["Dense_0"]["kernel"].shape == (3, 8)
    with sbformat.safe_open(PPO) as file:
        assert file.get_tensor("vf_state/params/params/Dense_1/bias").shape == (1,)


def test_the_algorithm_is_that_of_sbx() -> None:
    for path, name in ((PPO, "PPO"), (DQN, "DQN")):
        algorithm = sbformat.read(path).algorithm
        assert (algorithm.name, algorithm.certain) == (name, True)
        assert "of SBX" in algorithm.evidence[0]
    ddpg = sbformat.reads(sbx_archive("td3", {}, policy_delay=1, target_noise_clip=0.0)).algorithm
    assert (ddpg.name, ddpg.certain) == ("DDPG", False)


def test_an_archive_of_sbx_is_valid_and_extracted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (PPO, DQN):
        assert sbformat.validate(path) == ()
    out = tmp_path / "weights.npz"
    assert main(["extract", str(DQN), "-o", str(out)]) == 0
    assert np.load(out)["qf_state/params/params/Dense_0/kernel"].shape == (3, 8)
    assert main(["inspect", str(PPO)]) == 0
    shown = capsys.readouterr().out
    assert "SBX (Stable Baselines Jax) archive" in shown
    assert "SBX loads it, and SB3 does not" in shown
    assert main(["rebuild", str(PPO), "-o", str(tmp_path / "out.zip")]) == 2
    assert "load_policy runs it" in capsys.readouterr().err
    assert not (tmp_path / "out.zip").exists()


def test_hyperparameters_are_edited_and_weights_are_not(tmp_path: Path) -> None:
    archive = sbformat.read(DQN)
    edited = archive.replace(data={**archive.data, "gamma": 0.5})
    sbformat.write(edited, tmp_path / "edited.zip")
    again = sbformat.read(tmp_path / "edited.zip")
    assert (again.format, again.data["gamma"]) == ("sbx", 0.5)
    assert again.parameters["policy"] == archive.parameters["policy"]
    assert again == edited
    for name in ("policy", "policy.optimizer"):
        with pytest.raises(sbformat.UnsupportedError, match="does not write"):
            archive.replace(parameters={name: {"a": np.zeros(1)}})


def test_a_folder_is_one_too(tmp_path: Path) -> None:
    with zipfile.ZipFile(DQN) as file:
        file.extractall(tmp_path)
    assert sbformat.read(tmp_path).parameters["policy"] == sbformat.read(DQN).parameters["policy"]


def test_states_beside_the_policy_have_their_own_names() -> None:
    state = train_state({"log_ent_coef": np.array(-0.5, np.float32)})
    source = sbx_archive("sac", {}, ent_coef_state=blob(state, "flax.training.train_state.TrainState"))
    archive = sbformat.reads(source)
    assert archive.state_dicts[2:4] == ("ent_coef_state", "ent_coef_state.optimizer")
    assert archive.parameters["ent_coef_state"].to_numpy()["params"]["log_ent_coef"] == np.float32(-0.5)
    assert archive.parameters["ent_coef_state.optimizer"].to_numpy()["step"] == 3


def policy_of(params: Any) -> sbformat.Archive:
    return sbformat.reads(sbx_archive("sac", {"actor_state": train_state(params)}))


def test_a_frozen_dict_and_the_name_before_jax_04() -> None:
    array = jax_array(KERNEL)
    array.func = Global("jax._src.device_array", "_reconstruct_device_array")
    node = Call("REDUCE", Global("flax.core.frozen_dict", "FrozenDict"), (sbformat.pkl.Dict([("kernel", array)]),))
    found = policy_of(node).parameters["policy"].to_numpy()
    assert np.array_equal(found["actor_state"]["params"]["kernel"], KERNEL)


def with_argument(position: int, value: object) -> Call:
    array = jax_array(KERNEL)
    args = list(array.args)  # type: ignore[call-overload]
    args[position] = value
    array.args = tuple(args)
    return array


def with_update() -> Call:
    return with_state(jax_array(KERNEL), sbformat.pkl.Dict())


@check_each(
    "make",
    [
        lambda: with_argument(0, Global("os", "system")),
        lambda: with_argument(0, Global("numpy._core.multiarray", "scalar")),
        lambda: with_argument(1, (Global("mine", "Array"), (0,), b"b")),
        lambda: with_argument(1, "text"),
        lambda: with_argument(2, (1, (9,), None, False, b"")),
        lambda: with_argument(3, "text"),
        lambda: with_argument(3, sbformat.pkl.Dict([("weak_type", 1)])),
        with_update,
        lambda: Call("REDUCE", Global("mine", "make"), ()),
        lambda: made_object(("mine", "Layers"), {"kernel": KERNEL}),
        lambda: Global("mine", "kernel"),
        lambda: b"bytes",
    ],
)
def test_what_is_not_an_array_of_jax_is_refused(make: Callable[[], object]) -> None:
    archive = policy_of({"kernel": make()})
    for _ in range(2):
        with pytest.raises(sbformat.SbformatError, match="expected"):
            archive.state_dict("policy")
    assert archive.data["gamma"] == 0.99
    assert any(problem.kind == "unreadable" for problem in sbformat.iter_problems(archive))


def test_validate_finds_weights_that_do_not_fit_and_networks_that_are_not_known() -> None:
    for name, kind in (("Actor", "unchecked"), ("SquashedGaussianActor", "mismatch")):
        module = made_object(("sbx.common.policies", name), {"net_arch": [9]}) if kind == "mismatch" else None
        module = module or made_object(("mine", name), {})
        layers = {f"Dense_{number}": {"kernel": KERNEL, "bias": KERNEL[0]} for number in range(3)}
        archive = sbformat.reads(sbx_archive("sac", {"actor": module, "actor_state": train_state({"params": layers})}))
        found = [problem for problem in sbformat.iter_problems(archive) if problem.entry == "policy"]
        assert [problem.kind for problem in found] == [kind]


def test_two_states_of_one_name_are_refused() -> None:
    policy = made_object(("sbx.sac.policies", "SACPolicy"), {"actor_state": train_state({})})
    policy.updates[0].value.append(policy.updates[0].value[0])  # type: ignore[index, attr-defined]
    source = sbx_archive("sac", {}, policy=blob(policy, "sbx.sac.policies.SACPolicy"))
    with pytest.raises(sbformat.TensorError, match="got two"):
        sbformat.reads(source).state_dict("policy")


def test_parameters_nested_too_deeply_are_refused() -> None:
    params: Any = {}
    for _ in range(300):
        params = {"a": params}
    with pytest.raises(sbformat.LimitError, match="value_depth"):
        policy_of(params).state_dict("policy")


def test_an_archive_without_a_pickled_policy_has_no_weights() -> None:
    source = sbx_archive("sac", {}, policy=None)
    archive = sbformat.reads(source)
    assert (archive.format, archive.state_dicts) == ("sbx", ())
    with pytest.raises(sbformat.MissingEntryError):
        sbformat.load_policy(archive)
