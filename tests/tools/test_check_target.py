"""Whether SB3's own ``load`` loads an archive whole: a promise if it does, and reasons in the order of what to do."""

from __future__ import annotations

import sys
from importlib import metadata
from typing import TYPE_CHECKING, Any

import pytest

import sbformat
from sbformat import Limits
from sbformat.errors import UnsupportedError
from sbformat.known.changes import RELEASES
from sbformat.tools.check_target import TargetReason, TargetReport, check_target
from tests.helpers.build_blobs import call, function, new
from tests.helpers.bundled import ARCHIVES, PPO, SAC, changed, entries, zipped
from tests.helpers.old_archives import BASES, OLD, blob, reference, with_keys

if TYPE_CHECKING:
    from sbformat.archive.archive import Archive

HERE = {"stable-baselines3": "2.9.2", "sb3-contrib": "2.9.2", "numpy": "2.4.6", "cloudpickle": "3.1.3"}


def install(monkeypatch: pytest.MonkeyPatch, python: str = "3.11.2", **packages: str | None) -> None:
    """Have other packages installed, and another Python."""
    found = {**HERE, **{name.replace("_", "-"): version for name, version in packages.items()}}

    def version(package: str) -> str:
        if found.get(package) is None:
            raise metadata.PackageNotFoundError(package)
        return str(found[package])

    monkeypatch.setattr(metadata, "version", version)
    monkeypatch.setattr(sys, "version_info", (*map(int, python.split(".")), "final", 0))


def causes(archive: Archive | Any, target: str = "2.9", **options: Any) -> list[str]:
    """The causes of the reasons, in their order."""
    return [reason.cause for reason in check_target(archive, target=target, **options).reasons]


def only(archive: Archive | Any, target: str = "2.9") -> TargetReason:
    """The one reason."""
    (reason,) = check_target(archive, target=target).reasons
    return reason


def with_python(archive: Archive, python: str) -> Archive:
    """An archive that says which Python saved it."""
    return archive.replace(system_info=f"- Python: {python}\n")


# -- whole --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [PPO, SAC])
def test_an_archive_of_the_target_is_loaded_whole(path: Any) -> None:
    assert check_target(path, target="2.9") == TargetReport("2.9.2", None, ())


@pytest.mark.each_value
@pytest.mark.parametrize("release", RELEASES.values())
@pytest.mark.parametrize("path", [OLD, PPO, SAC])
def test_what_rebuild_writes_is_loaded_whole(path: Any, release: str) -> None:
    made, _ = sbformat.rebuild(path, target=release)
    assert check_target(made, target=release).reasons == ()


def test_the_installed_releases_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    report = check_target(PPO, target="installed")
    assert (report.loads_whole, report.target) == (True, "2.9.2")
    assert report.environment == "Python 3.11.2, Stable-Baselines3 2.9.2, Numpy 2.4.6, Cloudpickle 3.1.3"
    install(monkeypatch, numpy="1.26.4")
    assert causes(PPO, "installed") == ["numpy"]
    install(monkeypatch, stable_baselines3="2.3.2")
    assert causes(PPO, "installed") == ["class", "class"]  # classes of schedules
    install(monkeypatch, stable_baselines3="2.11.0")
    assert check_target(PPO, target="installed").target == "2.11.0"
    install(monkeypatch, stable_baselines3=None)
    with pytest.raises(UnsupportedError, match="is not installed here"):
        check_target(PPO, target="installed")


@pytest.mark.parametrize(("target", "error"), [("0.1", UnsupportedError), ("", UnsupportedError), (2.9, TypeError)])
def test_other_targets_are_refused(target: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        check_target(PPO, target=target)


def test_statistics_are_no_agent() -> None:
    with pytest.raises(UnsupportedError, match="expected an agent, got statistics of VecNormalize"):
        check_target(ARCHIVES / "vecnormalize-pendulum.pkl", target="2.9")


# -- the order, and what helps ------------------------------------------------------------------------


def test_reasons_are_in_the_order_of_what_to_do() -> None:
    report = check_target(OLD, target="2.9", name="old.zip")
    found = {reason.cause: reason for reason in report.reasons}
    assert [*found] == ["python", "gym", "data", "network", "optimizer"]
    assert "bytecode of Python 3.8 to 3.10" in found["python"].message
    assert found["python"].keys == ("lr_schedule", "clip_range")
    assert found["gym"].keys == ("observation_space", "action_space")
    assert "mlp_extractor.shared_net" in found["network"].message
    assert all("sbformat rebuild old.zip -o NEW.zip --target 2.9" in reason.help for reason in report.reasons)


def test_classes_that_the_target_lacks_are_named() -> None:
    report = check_target(PPO, target="2.3")
    assert [reason.cause for reason in report.reasons] == ["numpy", "class", "class"]
    assert report.reasons[0].help[0] == "pip install 'numpy>=2'"
    assert "exists since SB3 2.7, not in 2.3" in report.reasons[1].message


# -- code of another Python ---------------------------------------------------------------------------


def test_bytecode_is_for_the_python_that_saved_it(monkeypatch: pytest.MonkeyPatch) -> None:
    archive = with_python(with_keys(clip_range=blob(function())), "3.11.7")
    reason = only(archive)
    assert (reason.cause, reason.keys) == ("python", ("clip_range",))
    assert reason.help[0].startswith("load it with Python 3.11, which saved it")
    install(monkeypatch, "3.11.2")
    assert check_target(archive, target="installed").loads_whole
    install(monkeypatch, "3.12.1")
    assert "of Python 3.11, not of 3.12" in only(archive, "installed").message
    install(monkeypatch, cloudpickle="2.0.0")
    assert only(archive, "installed").cause == "cloudpickle"


def test_a_python_that_the_target_does_not_run_on_is_no_advice() -> None:
    archive = with_python(with_keys(clip_range=blob(function())), "3.7.3")
    assert only(archive).help[0].startswith("sbformat rebuild")
    assert check_target(archive, target="2.0").reasons[0].help[0].startswith("load it with Python 3.7")


def test_a_schedule_that_is_created_again_only_has_to_be_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    archive = with_python(with_keys(lr_schedule=blob(function())), "3.12.1")
    install(monkeypatch, "3.11.2")  # code objects have as many arguments
    assert check_target(archive, target="installed").loads_whole
    install(monkeypatch, "3.10.2")
    assert causes(archive, "installed") == ["python"]


def test_cloudpickle_removed_how_old_releases_stored_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    archive = with_python(with_keys(clip_range=blob(function(spelling="fill"))), "3.11.7")
    install(monkeypatch)
    reason = only(archive, "installed")
    assert (reason.cause, reason.help[0]) == ("cloudpickle", "pip install 'cloudpickle<3'")
    install(monkeypatch, cloudpickle="2.2.1")
    assert check_target(archive, target="installed").loads_whole


@pytest.mark.parametrize(
    ("module", "name", "python"), [("pathlib._local", "PurePosixPath", "3.13.0"), ("pathlib", "PurePosixPath", "3.8.0")]
)
def test_paths_of_a_newer_python(monkeypatch: pytest.MonkeyPatch, module: str, name: str, python: str) -> None:
    archive = with_keys(mine=blob(call(module, name, "a")))
    install(monkeypatch, python)
    assert "python" not in causes(archive, "installed")
    install(monkeypatch, "3.12.0")
    assert ("python" in causes(archive, "installed")) == (module == "pathlib._local")


@pytest.mark.parametrize("name", ["PosixPath", "WindowsPath"])
def test_paths_of_a_system_may_be_those_of_another(name: str) -> None:
    assert only(with_keys(mine=blob(call("pathlib", name, "a")))).cause == "python"


# -- names --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "name", "words"),
    [
        ("mine.things", "Thing", "in a package that SB3 does not need"),
        ("__main__", "Thing", "defined in the program that saved it"),
        ("torch.nn", "NoSuchThing", "not a known name of its package"),
        ("stable_baselines3.ppo.policies", "PPOPolicy", "ActorCriticPolicy now"),
        ("stable_baselines3.td3.policies", "Critic", "is in no release of SB3 2"),
    ],
)
def test_a_name_that_cannot_be_imported(module: str, name: str, words: str) -> None:
    reason = only(with_keys(mine=reference(module, name)))
    assert (reason.cause, reason.keys) == ("class", ("mine",))
    assert words in reason.message


def test_contrib_has_to_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    archive = with_keys(mine=reference("sb3_contrib.common.maskable.policies", "MaskableActorCriticPolicy"))
    install(monkeypatch)
    assert check_target(archive, target="installed").loads_whole
    install(monkeypatch, sb3_contrib=None)
    assert "sb3-contrib, which is not installed" in only(archive, "installed").message


def test_what_rebuild_drops_is_said_with_the_option_that_keeps_it() -> None:
    reason = only(with_keys(learning_rate=blob(new("mine", "Cosine", {"start": 1.0})), lr_schedule=...))
    assert reason.cause == "class"
    assert any("it drops learning_rate" in line and "--allow mine.Cosine" in line for line in reason.help)


def test_why_rebuild_is_refused_is_said() -> None:
    _, line = only(with_keys(observation_space=blob(new("mine", "MyBox", {"_shape": (4,)})))).help
    assert "is refused: " in line
    assert "--allow mine.MyBox" in line


def test_a_class_that_is_allowed_can_be_imported_there() -> None:
    archive = with_keys(learning_rate=blob(new("mine", "Cosine", {"start": 1.0})), lr_schedule=...)
    assert check_target(archive, target="2.9", allow=["mine.Cosine"]).loads_whole
    report = check_target(archive, target="2.9", allow=["mine.Other"])
    assert [reason.cause for reason in report.reasons] == ["class"]
    assert any("--allow mine.Other" in line for line in report.reasons[0].help)
    with pytest.raises(ValueError, match="cannot be allowed"):
        check_target(archive, target="2.9", allow=["os.system"])


def test_a_large_value_is_not_checked() -> None:
    archive = sbformat.reads(sbformat.writes(with_keys(mine=list(range(20_000)))), limits=Limits(json_bytes=50_000))
    reason = only(archive)
    assert (reason.cause, reason.keys) == ("unchecked", ("mine",))
    assert "--unset mine" in reason.help[0]


def test_gym_has_no_numpy_2() -> None:
    assert not [line for row in check_target(PPO, target="1.8").reasons for line in row.help if "numpy>=2" in line]


def test_a_harmful_file_is_scanned_first() -> None:
    reason = check_target(with_keys(mine=blob(call("os", "system", "true"))), target="2.9", name="x.zip").reasons[0]
    assert (reason.cause, reason.help[0]) == ("harmful", "sbformat scan x.zip")


# -- values and entries -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("gamma", "high", ["invalid"]),
        ("policy", 3, ["data"]),
        ("train", 3, ["data"]),
        ("_last_dones", None, ["data"]),
        ("remove_time_limit_termination", False, ["data"]),
        ("n_envs", ..., ["data"]),
        ("mine", 3, []),
        ("tensorboard_log", "/tmp/logs", []),  # noqa: S108 -- nothing is written there
    ],
)
def test_a_value_that_sb3_does_not_accept(key: str, value: object, expected: list[str]) -> None:
    assert causes(with_keys(**{key: value})) == expected


def test_a_target_entropy_that_sb3_would_compute_from_an_environment() -> None:
    reason = only(with_keys("sac", target_entropy=...))
    assert (reason.cause, reason.keys) == ("data", ("target_entropy",))
    made, _ = sbformat.rebuild(with_keys("sac", target_entropy=...))
    assert made.data["target_entropy"] == -1.0


@pytest.mark.parametrize("argument", ["no_such_argument", "sde_net_arch"])
def test_an_argument_that_the_policy_does_not_have(argument: str) -> None:
    kwargs = {**BASES["ppo"].decode("policy_kwargs"), argument: None}
    reason = only(with_keys(policy_kwargs=kwargs))
    assert (reason.cause, reason.keys) == ("network", (f"policy_kwargs/{argument}",))


def test_entries_that_are_missing_or_not_known() -> None:
    assert causes(changed(without=("policy.optimizer.pth",))) == ["invalid"]
    assert causes(changed(SAC, without=("pytorch_variables.pth",))) == ["network"]
    assert causes(changed(pytorch_variables_pth=entries(SAC)["pytorch_variables.pth"])) == ["network"]
    contents = entries()
    assert causes(zipped({**contents, "other.pth": contents["policy.pth"]})) == ["network"]
    assert causes(zipped({**contents, "notes.txt": b"text"})) == []


def test_names_of_a_compiled_policy() -> None:
    base = BASES["ppo"]
    weights = {f"_orig_mod.{name}": array for name, array in base.parameters["policy"].to_numpy().items()}
    reason = only(base.replace(parameters={**base.parameters, "policy": weights}))
    assert reason.cause == "network"
    assert "_orig_mod." in reason.message


def test_her_needs_its_environment() -> None:
    buffer = reference("stable_baselines3.her.her_replay_buffer", "HerReplayBuffer")
    archive = with_keys("sac", replay_buffer_class=buffer)
    found = check_target(archive, target="2.9", name="her.zip").reasons[-1]
    assert (found.cause, found.help) == ("environment", ("SAC.load('her.zip', env=env)",))


def test_a_folder_is_not_what_sb3_loads(tmp_path: Any) -> None:
    for name, content in entries().items():
        (tmp_path / name).write_bytes(content)
    reason = only(sbformat.read(tmp_path))
    assert (reason.cause, reason.help) == ("format", ("sbformat rebuild FILE -o NEW.zip --target 2.9",))
