"""Archive: lazy entries, equality, the algorithm."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

import sbformat
from conformance.generators.build_zips import is_terminal_safe
from sbformat.archive.hyperparameters import ValueDecoder
from sbformat.data import Serialized
from sbformat.limits import Budget, Limits
from sbformat.reader import read_in_place
from tests.helpers.bundled import PPO, SAC, changed, entries, with_data, zipped

if TYPE_CHECKING:
    from pathlib import Path


def test_everything_is_there() -> None:
    archive = sbformat.read(PPO)
    assert archive.format == "sb3"
    assert archive.stable_baselines3_version == "2.9.2"
    assert archive.data["gamma"] == 0.99
    assert list(archive.data) == list(json.loads(entries()["data"]))
    assert isinstance(archive.data["policy_class"], Serialized)
    assert list(archive.parameters) == ["policy", "policy.optimizer"]
    assert archive.pytorch_variables is not None
    assert len(archive.pytorch_variables) == 0
    assert archive.system_info is not None
    assert archive.system_info.fields["Stable-Baselines3"] == "2.9.2"
    assert archive.system_info.text.encode() == entries()["system_info.txt"]
    assert dict(archive.extra) == {}


def test_entries_stream_verbatim() -> None:
    archive = sbformat.read(PPO)
    for name, content in entries().items():
        assert b"".join(archive.stream(name)) == content


def test_the_digest_is_that_of_the_whole_file(tmp_path: Path) -> None:
    expected = hashlib.sha256(PPO.read_bytes()).hexdigest()
    for archive in (sbformat.read(PPO), sbformat.reads(PPO.read_bytes()), read_in_place(PPO)):
        assert archive.sha256() == expected
    assert sbformat.read(PPO).replace(data={}).sha256() is None
    for name, content in entries().items():
        (tmp_path / name).write_bytes(content)
    assert sbformat.read(tmp_path).sha256() is None


def test_missing_names_suggest_present_ones() -> None:
    archive = sbformat.read(PPO)
    with pytest.raises(sbformat.MissingEntryError, match=r"'policy\.optimizer'"):
        archive.parameters["policy.optimiser"]
    with pytest.raises(KeyError):
        archive.parameters["nothing"]
    with pytest.raises(sbformat.MissingEntryError, match="'action_net.weight'"):
        archive.parameters["policy"]["action_net.wieght"]


def test_a_broken_optimizer_does_not_cost_the_policy() -> None:
    archive = sbformat.reads(changed(policy_optimizer_pth=b"PK\x03\x04 nothing"))
    assert archive.parameters["policy"]["action_net.weight"].shape == (2, 8)
    for _ in range(2):
        with pytest.raises(sbformat.ContainerError) as caught:
            archive.parameters["policy.optimizer"]
        assert caught.value.entry == "policy.optimizer.pth"
    with pytest.raises(sbformat.ContainerError):
        sbformat.read_parameters(changed(policy_optimizer_pth=b"PK\x03\x04 nothing"))
    assert list(sbformat.read_parameters(changed(policy_optimizer_pth=b"x"), entries=["policy"])) == ["policy"]


def test_a_broken_data_does_not_cost_the_weights() -> None:
    archive = sbformat.reads(changed(data=b"{"))
    with pytest.raises(sbformat.DataError) as caught:
        archive.data  # noqa: B018
    assert caught.value.entry == "data"
    assert len(archive.parameters["policy"]) == 12


def test_old_archives_lack_entries() -> None:
    old = entries(SAC)
    old["tensors.pth"] = old.pop("pytorch_variables.pth")
    del old["_stable_baselines3_version"], old["system_info.txt"]
    archive = sbformat.reads(zipped(old))
    assert archive.stable_baselines3_version is None
    assert archive.system_info is None
    assert archive.pytorch_variables is not None
    assert archive.pytorch_variables["log_ent_coef"].shape == (1,)
    assert "tensors" not in archive.parameters


def test_unknown_entries_are_kept() -> None:
    archive = sbformat.reads(changed(**{"notes.txt": b"mine", "deep/policy.pth": b"not loaded"}))
    assert dict(archive.extra) == {"notes.txt": b"mine", "deep/policy.pth": b"not loaded"}


def test_deflated_archives_are_equal_to_stored_ones() -> None:
    deflated = zipped(entries(), zipfile.ZIP_DEFLATED)
    assert sbformat.reads(deflated) == sbformat.read(PPO)


@pytest.mark.parametrize(
    "other",
    [
        with_data(lambda data: data.update(gamma=0.98)),
        with_data(lambda data: data.update(gamma=data.pop("gamma"))),  # another order
        with_data(lambda data: data.update(seed=0.0)),  # another type
        changed(policy_pth=entries()["policy.optimizer.pth"]),
        changed(without=("system_info.txt",)),
        changed(**{"notes.txt": b"mine"}),
        changed(_stable_baselines3_version=b"2.9.1"),
    ],
)
def test_equality_is_by_value(other: bytes) -> None:
    assert sbformat.reads(other) != sbformat.read(PPO)


def test_nan_equals_nan_and_undecodable_entries_compare_by_bytes() -> None:
    def change(data: dict[str, Any]) -> None:
        data.update(gamma=float("nan"), target_kl=float("inf"))

    assert sbformat.reads(with_data(change)) == sbformat.reads(with_data(change))
    broken = changed(policy_pth=b"broken")
    assert sbformat.reads(broken) == sbformat.reads(broken)
    assert sbformat.reads(broken) != sbformat.reads(changed(policy_pth=b"broken too"))


def test_archives_are_unhashable() -> None:
    with pytest.raises(TypeError):
        hash(sbformat.read(PPO))


@pytest.mark.parametrize(("path", "name", "certain"), [(PPO, "PPO", True), (SAC, "SAC", True)])
def test_the_algorithm_is_inferred(path: Any, name: str, certain: bool) -> None:  # noqa: FBT001
    algorithm = sbformat.read(path).algorithm
    assert (algorithm.name, algorithm.certain) == (name, certain)
    assert algorithm.evidence


SIGNATURES = {
    "ARS": {"n_delta": 8, "delta_std": 0.05},
    "HER": {"model_class": 1, "n_sampled_goal": 4},
    "TQC": {"top_quantiles_to_drop_per_net": 2, "target_entropy": -1.0, "ent_coef": "auto"},
    "TRPO": {"cg_max_steps": 15, "n_steps": 2048, "gae_lambda": 0.95, "vf_coef": 0.5},
    "QRDQN": {"n_quantiles": 200, "exploration_fraction": 0.1},
    "DQN": {"exploration_fraction": 0.1},
    "CrossQ": {"target_entropy": -1.0, "ent_coef": "auto", "policy_delay": 3},
    "SAC": {"target_entropy": -1.0, "ent_coef": "auto"},
    "TD3": {"policy_delay": 2, "target_policy_noise": 0.2, "target_noise_clip": 0.5},
    "DDPG": {"policy_delay": 1, "target_policy_noise": 0.1, "target_noise_clip": 0.0},
    "PPO": {"n_epochs": 10, "clip_range": 0.2, "n_steps": 2048, "gae_lambda": 0.95, "vf_coef": 0.5},
    "A2C": {"n_steps": 5, "gae_lambda": 1.0, "vf_coef": 0.5},
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_keys_tell_the_algorithm(name: str) -> None:
    from sbformat.archive.hyperparameters import infer

    assert infer(SIGNATURES[name]).name == name


def test_only_the_class_tells_ppo_from_its_relatives() -> None:
    from sbformat.archive.hyperparameters import infer

    for module, name in (
        ("sb3_contrib.common.maskable.policies", "MaskablePPO"),
        ("sb3_contrib.common.recurrent.policies", "RecurrentPPO"),
        ("stable_baselines3.common.policies", "PPO"),
    ):
        blob = Serialized("<class 'abc.ABCMeta'>", b"\x80\x02c" + module.encode() + b"\nPolicy\n.")
        assert infer({**SIGNATURES["PPO"], "policy_class": blob})[:2] == (name, True)
    mine = Serialized(None, b"\x80\x02cmine\nPolicy\n.")
    assert infer({**SIGNATURES["PPO"], "policy_class": mine})[:2] == ("PPO", False)


def test_a2c_of_sb3_0_6_wrote_the_keys_of_ppo() -> None:
    from sbformat.archive.hyperparameters import infer

    assert infer({**SIGNATURES["PPO"], "_current_progress": 1.0, "n_epochs": 1})[:2] == ("A2C", False)


def test_nothing_tells_nothing() -> None:
    from sbformat.archive.hyperparameters import infer

    assert infer({})[:2] == (None, False)
    assert infer({}, ("ent_coef_optimizer.pth",))[:2] == ("SAC", False)


def test_a_blob_is_looked_into_for_a_class_reference_only() -> None:
    from sbformat.archive.hyperparameters import class_reference

    assert class_reference(Serialized(None, b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R.")) is None
    assert class_reference(Serialized(None, b"garbage")) is None
    assert class_reference(0.99) is None


def test_entries_with_a_wrong_crc_compare_by_their_bytes() -> None:
    data = bytearray(PPO.read_bytes())
    with zipfile.ZipFile(PPO) as file:
        data[file.getinfo("system_info.txt").header_offset + 60] ^= 1
    assert sbformat.reads(bytes(data)) == sbformat.reads(bytes(data))
    assert sbformat.reads(bytes(data)) != sbformat.read(PPO)


def test_a_key_is_decoded_by_its_kind() -> None:
    from sbformat.known.spaces import Discrete
    from sbformat.known.types import ConstantSchedule, FloatSchedule, Reference

    archive = sbformat.read(PPO)
    assert archive.decode("gamma") == 0.99
    assert archive.decode("lr_schedule") == FloatSchedule(ConstantSchedule(0.0003))
    assert archive.decode("policy_class") == Reference("stable_baselines3.common.policies", "ActorCriticPolicy")
    space = archive.decode("action_space")
    assert isinstance(space, Discrete)
    assert (space.n, space.start, space.library) == (2, 0, "gymnasium")
    with pytest.raises(sbformat.MissingEntryError, match="lr_schedule"):
        archive.decode("lr_shedule")


def test_hyperparameters_tell_how_each_was_obtained() -> None:
    archive = sbformat.read(PPO)
    changed = archive.replace(
        data={
            **archive.data,
            "unknown": Serialized("x", b"\x80\x02cmy.module\nmake\n)R."),
            "broken": Serialized("x", b"\x80\x02"),
            "several": Serialized("x", b"\x80\x02]cmy.module\nThing\na."),
        }
    )
    found = changed.hyperparameters()
    assert list(found) == list(changed.data)
    assert (found["gamma"].value, found["gamma"].how) == (0.99, "json")
    assert found["clip_range"].how == "decoded"
    assert (found["unknown"].how, repr(found["unknown"].value)) == ("opaque", "<REDUCE my.module.make>")
    assert found["broken"].how == "opaque"
    assert found["broken"].value is changed.data["broken"]
    assert str(found["broken"].why).startswith("pickle failure: ")
    assert (found["several"].how, repr(found["several"].value)) == ("decoded", "[Global('my.module', 'Thing')]")


def test_a_blob_beyond_a_limit_breaks_only_itself() -> None:
    found = sbformat.read(PPO, limits=sbformat.Limits(pickle_opcodes=20)).hyperparameters()
    assert found["policy_class"].how == "decoded"
    assert found["observation_space"].how == "opaque"
    assert str(found["observation_space"].why).startswith("limit exceeded: ")


def test_the_repr_of_hyperparameters_is_short_although_shared_parts_have_any_number_of_paths() -> None:
    doubling = base64.b64encode(b"\x80\x04)\x85" + b"2\x86" * 60 + b".").decode("ascii")
    archive = sbformat.reads(json.dumps({"x": {":serialized:": doubling}, "policy_class": 0, "y": 1}).encode())
    shown = repr(archive.hyperparameters())
    assert is_terminal_safe(shown)
    assert shown.endswith("'y': <Hyperparameter 1, json>}")


def test_values_that_nothing_can_change_are_decoded_once_and_the_others_anew() -> None:
    archive = sbformat.read(SAC)
    for key in ("observation_space", "action_space", "policy_class"):
        assert archive.decode(key) is archive.decode(key)
        assert archive.hyperparameters()[key].value is archive.decode(key)
    one, other = archive.decode("policy_kwargs"), archive.decode("policy_kwargs")
    assert one == other
    assert one is not other


def test_the_random_generator_of_a_space_cannot_be_changed() -> None:
    space = sbformat.read(SAC).decode("action_space")
    for part in (space.random.state, space.random.state["state"]):
        with pytest.raises(TypeError, match="cannot be changed"):
            part.clear()
    assert copy.deepcopy(space) == space


@pytest.mark.parametrize("path", [PPO, SAC])
@pytest.mark.parametrize("memory", range(0, 60_000, 1500))
def test_what_was_decoded_before_changes_no_limit(path: Path, memory: int) -> None:
    """A value that is not decoded again is charged as if it was."""
    data = sbformat.read(path).data
    used, fresh = ValueDecoder(), Budget(Limits(memory_bytes=memory))
    for key, value in data.items():
        used.describe(key, value, Budget())
    again = Budget(fresh.limits)
    for key, value in data.items():
        expected, found = ValueDecoder().describe(key, value, fresh), used.describe(key, value, again)
        assert (found.how, found.why) == (expected.how, expected.why)
        assert again.memory_left() == fresh.memory_left()
