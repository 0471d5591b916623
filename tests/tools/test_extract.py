"""``extract``: which tensors are selected, and what statistics keep."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

import sbformat
from sbformat import MissingEntryError, StateDict, extract
from sbformat.cli import main
from tests.helpers.build_statistics import SB2, pickled, rms, whole, with_keys
from tests.helpers.bundled import ARCHIVES, PPO, SAC
from tests.helpers.reports import unfold

if TYPE_CHECKING:
    from pathlib import Path

STATISTICS: Final = ARCHIVES / "vecnormalize-pendulum.pkl"
SETTINGS: Final = {
    "num_envs": 1, "training": True, "norm_obs": True, "norm_reward": True, "clip_obs": 10.0, "clip_reward": 10.0,
    "gamma": 0.99, "epsilon": 1e-08,
}  # fmt: skip


def read_npz(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as file:
        return dict(file)


# -- selection ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tensors", "count"),
    [
        ("state/[0]/exp_avg", 1),
        (["state/[0]/exp_avg", "state/[0]/exp_avg_sq", "state/[0]/exp_avg"], 2),
        ("state/[0]/*", 3),
        ("state/[[]0]/*", 3),
        ("*/exp_avg", 12),
        (["*/exp_avg", "state/[3]/exp_avg"], 12),
        (["state/[10]/step", "state/[1]/step"], 2),
        ("policy.optimizer:state/[0]/exp_avg", 1),
        ("policy.optimizer:state/[0]/*", 3),
        ("*", 36),
    ],
)
@pytest.mark.parametrize("entry", ["policy.optimizer", "all"])
def test_names_and_patterns_select(tmp_path: Path, tensors: Any, count: int, entry: str) -> None:
    is_label = isinstance(tensors, str) and tensors.startswith("policy.optimizer:")
    if is_label and entry != "all":
        with pytest.raises(MissingEntryError):
            extract(PPO, tmp_path / "o.npz", entry=entry, tensors=tensors)
        return
    made = extract(PPO, tmp_path / "o.npz", entry=entry, tensors=tensors).tensors
    assert len([name for name in made if "state/" in name]) == count


def test_an_exact_name_is_not_a_pattern(tmp_path: Path) -> None:
    names = {"a[0]": 1, "a0": 2, "b*": 3, "bc": 4}
    source = sbformat.pth.dumps(StateDict.from_arrays({name: np.array(value) for name, value in names.items()}))
    for tensors, expected in (("a[0]", {"a[0]"}), ("a[01]", {"a0"}), ("b*", {"b*"}), ("b?", {"b*", "bc"})):
        made = extract(source, tmp_path / "o.npz", tensors=tensors, overwrite=True)
        assert set(made.tensors) == expected
    assert read_npz(tmp_path / "o.npz").keys() == {"b*", "bc"}


def test_a_star_selects_all_tensors_also_beside_one_of_that_name(tmp_path: Path) -> None:
    arrays = {name: np.zeros(1) for name in ("a", "*", "b")}
    source = sbformat.pth.dumps(StateDict.from_arrays(arrays))
    assert set(extract(source, tmp_path / "o.npz").tensors) == {"a", "*", "b"}
    for tensors, expected in (("*", {"a", "*", "b"}), (["*", "a"], {"a", "*", "b"}), ("[*]", {"*"})):
        made = extract(source, tmp_path / "o.npz", tensors=tensors, overwrite=True)
        assert set(made.tensors) == expected


def test_each_pattern_has_to_match(tmp_path: Path) -> None:
    with pytest.raises(MissingEntryError, match="no tensor that matches 'action_net.weigth'; did you mean 'action_net"):
        extract(PPO, tmp_path / "o.npz", tensors=["*bias", "action_net.weigth"])
    with pytest.raises(ValueError, match="expected at least one name or pattern in tensors"):
        extract(PPO, tmp_path / "o.npz", tensors=[])
    with pytest.raises(TypeError, match="names in tensors, got int"):
        extract(PPO, tmp_path / "o.npz", tensors=[0])  # type: ignore[list-item]
    assert not (tmp_path / "o.npz").exists()


def test_commas_separate_names_unless_a_name_has_them(tmp_path: Path) -> None:
    output = tmp_path / "a.npz"
    report = extract(PPO, output, tensors="action_net.*, value_net.bias")
    assert report.tensors == ("action_net.weight", "action_net.bias", "value_net.bias")
    array = np.zeros(2, "float32")
    state = StateDict.from_arrays({"a,b": array, "a": array, "b": array})
    assert extract(sbformat.pth.dumps(state), output, tensors=["a,b"], overwrite=True).tensors == ("a,b",)
    with pytest.raises(MissingEntryError, match="no tensor that matches 'value_net.bais'; did you mean"):
        extract(PPO, output, tensors="action_net.*,value_net.bais", overwrite=True)


def test_a_part_of_the_policy_that_is_named_as_an_entry_is_a_pattern(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(MissingEntryError, match=r"for these tensors of 'policy' pass tensors='actor\.\*'$"):
        extract(SAC, tmp_path / "a.npz", entry="actor")
    assert main(["extract", str(SAC), "--entry", "actor", "-o", str(tmp_path / "a.npz")]) == 2
    assert capsys.readouterr().err.endswith("  hint: for these tensors of 'policy' pass --tensors \"actor.*\"\n")
    assert main(["extract", str(SAC), "--tensors", "actor.*", "-o", str(tmp_path / "a.npz")]) == 0
    with np.load(tmp_path / "a.npz") as arrays:
        assert {name.partition(".")[0] for name in arrays} == {"actor"}


def test_a_file_for_torch_is_that_of_another_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "weights.pt"
    assert main(["extract", str(PPO), "-o", str(output)]) == 2
    assert f"; sbformat convert {PPO} -o {output}h writes a file for torch.load" in unfold(capsys.readouterr().err)


def test_names_of_the_output_select_in_a_folder(tmp_path: Path) -> None:
    made = extract(PPO, tmp_path / "o", entry="all", tensors="policy/action_net.bias")
    assert made.tensors == ("policy/action_net.bias",)
    assert (tmp_path / "o" / "policy" / "action_net.bias.npy").is_file()


# -- statistics ---------------------------------------------------------------------------------------


def test_statistics_keep_counts_and_settings(tmp_path: Path) -> None:
    value = sbformat.read_vecnormalize(STATISTICS)
    report = extract(STATISTICS, tmp_path / "o.npz")
    arrays = read_npz(tmp_path / "o.npz")
    assert set(report.tensors) == set(arrays) == {
        "obs_rms/mean", "obs_rms/var", "obs_rms/count", "ret_rms/mean", "ret_rms/var", "ret_rms/count", "old_obs",
        "old_reward", *SETTINGS,
    }  # fmt: skip
    assert report.left_behind == 0
    assert {name: arrays[name].item() for name in SETTINGS} == SETTINGS
    assert arrays["obs_rms/count"] == value.obs_rms.count  # type: ignore[union-attr]
    assert [arrays[name].dtype.str for name in ("num_envs", "training", "clip_obs", "ret_rms/count")] == [
        "<i8", "|b1", "<f8", "<f8",
    ]  # fmt: skip
    assert all(arrays[name].shape == () for name in SETTINGS)


def test_observations_are_normalized_with_nothing_but_the_output(tmp_path: Path) -> None:
    extract(STATISTICS, tmp_path / "o.npz")
    found = read_npz(tmp_path / "o.npz")
    observation = np.array([0.5, -0.25, 3.0])
    expected = sbformat.read_vecnormalize(STATISTICS).normalize_obs(observation)
    scale = np.sqrt(found["obs_rms/var"] + found["epsilon"])
    mine = np.clip((observation - found["obs_rms/mean"]) / scale, -found["clip_obs"], found["clip_obs"])
    np.testing.assert_array_equal(mine.astype(np.float32), expected)


def test_safetensors_describe_the_statistics(tmp_path: Path) -> None:
    (tmp_path / "v.pkl").write_bytes(pickled(with_keys(clip_obs=np.inf)))
    extract(tmp_path / "v.pkl", tmp_path / "o.safetensors")
    with safe_open(tmp_path / "o.safetensors", "np") as file:
        facts = json.loads(file.metadata()["sbformat"])["vecnormalize"]
        assert file.get_tensor("clip_obs") == np.inf
        assert "obs_rms/vector/count" in file.keys()  # noqa: SIM118 -- not a mapping
    assert facts["norm_obs_keys"] == ["vector"]
    assert (facts["library"], facts["clip_obs"]) == ("stable_baselines3", "Infinity")


@pytest.mark.parametrize("source", ["pickle", "bundle"])
@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_statistics_of_a_bundle_are_those_of_the_pickle(tmp_path: Path, source: str, suffix: str) -> None:
    agent = ARCHIVES / "sac-pendulum.zip"
    bundle = sbformat.bundle(agent, STATISTICS)
    file = tmp_path / f"o{suffix}"
    report = extract(STATISTICS if source == "pickle" else bundle, file, entry="statistics")
    made = read_npz(file) if suffix == ".npz" else load_file(file)
    pickle = tmp_path / "expected.npz"
    extract(STATISTICS, pickle)
    expected = read_npz(pickle)
    assert set(report.tensors) == set(made) == set(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(made[name], array, strict=True)


def test_all_of_a_bundle_has_its_statistics(tmp_path: Path) -> None:
    bundle = sbformat.bundle(ARCHIVES / "sac-pendulum.zip", STATISTICS)
    names = extract(bundle, tmp_path / "o.npz", entry="all").tensors
    assert {"statistics:clip_obs", "statistics:obs_rms/count", "policy:actor.mu.bias"} <= set(names)
    with pytest.raises(MissingEntryError, match="'statistics'"):
        extract(PPO, tmp_path / "p.npz", entry="statistics")
    with pytest.raises(MissingEntryError, match="did you mean 'statistics'"):
        extract(bundle, tmp_path / "p.npz", entry="statistic")


def test_statistics_alone_have_no_settings(tmp_path: Path) -> None:
    report = extract(pickled(rms(library=SB2)), tmp_path / "o.npz")
    assert report.tensors == ("mean", "var", "count")
    assert read_npz(tmp_path / "o.npz")["count"] == 100.0001


@pytest.mark.parametrize("count", [10**400, -(10**400)])
def test_a_count_that_float64_cannot_hold_is_left_behind(tmp_path: Path, count: int) -> None:
    report = extract(pickled(whole(obs_rms=rms(count=count))), tmp_path / "o.npz")
    assert "obs_rms/count" not in report.tensors
    assert report.left_behind == 1


def test_statistics_of_a_class_of_a_user_keep_what_they_have(tmp_path: Path) -> None:
    report = extract(pickled(whole(clip_obs="ten")), tmp_path / "o.npz")
    assert "obs_rms/count" in report.tensors
    assert "clip_obs" not in report.tensors


def test_the_error_names_the_entry_that_has_the_tensor(tmp_path: Path) -> None:
    with pytest.raises(sbformat.MissingEntryError) as caught:
        sbformat.extract(PPO, tmp_path / "m.npz", tensors=["state/[0]/exp_avg"])
    assert caught.value.message == (
        "there is no tensor in 'policy' that matches 'state/[0]/exp_avg'; the entry 'policy.optimizer' has it"
    )
    with pytest.raises(sbformat.MissingEntryError, match="there is no tensor that matches 'nowhere'; available"):
        sbformat.extract(PPO, tmp_path / "m.npz", tensors=["nowhere"])
