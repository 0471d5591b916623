"""The agent of a folder and its statistics: for ``load_policy(folder)`` and the commands that run an agent."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import sbformat
from sbformat.cli import main
from tests.helpers.bundled import ARCHIVES, SAC
from tests.helpers.environments import CountingEnv
from tests.helpers.many_archives import refuse_listing, write_archives
from tests.helpers.many_cases import check_each
from tests.helpers.reports import parse_reports
from tests.helpers.run_folders import AGENT, CONFIG, PENDULUM, STATISTICS, make_folder, make_hub, make_zoo
from tests.policies.test_loading import with_last_observation

if TYPE_CHECKING:
    from collections.abc import Mapping

Capture = pytest.CaptureFixture[str]
OBSERVATION = np.array([0.5, -0.25, 1.5], np.float32)


def act(source: Any, **options: Any) -> list[float]:
    """Return the action of an agent that observes a pendulum."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        action, _ = sbformat.load_policy(source, **options).predict(OBSERVATION, deterministic=True)
    values: list[float] = action.tolist()
    return values


NORMALIZED = act(SAC, vecnormalize=ARCHIVES / "vecnormalize-pendulum.pkl")
PLAIN = act(SAC, vecnormalize=False)


def find(top: Path) -> tuple[str, str | None]:
    chosen = sbformat.find_agent(top)
    statistics = None if chosen.statistics is None else str(Path(chosen.statistics).relative_to(top))
    return str(Path(chosen.path).relative_to(top)), statistics


def test_the_best_agent_of_a_run_is_preferred(tmp_path: Path) -> None:
    zoo = make_zoo(tmp_path)
    assert find(zoo) == ("best_model.zip", "Pendulum-v1/vecnormalize.pkl")
    (zoo / "best_model.zip").unlink()
    assert find(zoo) == ("Pendulum-v1.zip", "Pendulum-v1/vecnormalize.pkl")
    (zoo / "Pendulum-v1.zip").unlink()
    assert find(zoo) == ("rl_model_30000_steps.zip", "rl_model_vecnormalize_30000_steps.pkl")


def test_a_folder_acts_as_its_agent_with_its_statistics(tmp_path: Path) -> None:
    assert NORMALIZED != PLAIN
    for top in (make_zoo(tmp_path / "zoo"), make_hub(tmp_path / "hub")):
        assert act(top) == act(str(top)) == NORMALIZED
        assert act(top, vecnormalize=False) == PLAIN
        assert act(top, vecnormalize=top.parent / "zoo" / "Pendulum-v1" / "vecnormalize.pkl") == NORMALIZED
        graph = sbformat.policy_graph(top)
        assert "vecnormalize" in graph.describe().lower()


@pytest.mark.parametrize(
    ("normalize", "is_used"),
    [
        ("normalize: false", False),
        ("normalize: true", True),
        ("normalize: {norm_obs: false, norm_reward: true}", False),
        ("normalize: \"{'norm_obs': False}\"", False),
        ("normalize: \"{'norm_reward': False}\"", True),
        ("n_steps: 8", True),
        ('normalize: "dict(norm_obs=False)"', False),
        ("normalize: null", False),
        ("normalize: {}", False),
        ("normalize: 1", True),
    ],
)
def test_config_says_whether_statistics_are_used(tmp_path: Path, normalize: str, is_used: bool) -> None:  # noqa: FBT001
    make_folder(tmp_path, {
        "a.zip": PENDULUM, "vecnormalize.pkl": STATISTICS, "config.yml": normalize.encode(),
    })  # fmt: skip
    assert act(tmp_path) == (NORMALIZED if is_used else PLAIN)


def test_without_pyyaml_it_has_to_be_said_whether_statistics_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Otherwise the same folder would give other actions with PyYAML."""
    monkeypatch.setitem(sys.modules, "yaml", None)
    make_folder(tmp_path, {"a.zip": PENDULUM, "vecnormalize.pkl": STATISTICS, "config.yml": b"normalize: false"})
    with pytest.raises(sbformat.UnsupportedError, match=r"'config.yml' was not read \(PyYAML reads it.*vecnormalize"):
        sbformat.load_policy(tmp_path)
    assert main(["predict", str(tmp_path), "--observation", "[0, 0, 0]"]) == 2
    assert "--vecnormalize FILE or none" in capsys.readouterr().err
    assert act(tmp_path, vecnormalize=False) == PLAIN
    assert act(tmp_path, vecnormalize=tmp_path / "vecnormalize.pkl") == NORMALIZED


@check_each("config", ["n_timesteps: 20000.0\npolicy: MlpPolicy\n", None, "normalize: true"])
@check_each("has_yaml", [True, False])
def test_an_observation_that_was_normalized_decides(has_yaml: bool, config: str | None) -> None:  # noqa: FBT001
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as name:
        if not has_yaml:
            patch.setitem(sys.modules, "yaml", None)
        top = make_trained(Path(name), config)
        assert sbformat.find_agent(top).statistics == str(top / "vecnormalize.pkl")
        assert sbformat.find_agent(top).problem == ""


def test_a_contradiction_of_settings_and_observation_is_an_error(tmp_path: Path) -> None:
    top = make_trained(tmp_path, "normalize: false")
    message = "was trained with VecNormalize, but normalize in its settings says that it was not"
    assert message in sbformat.find_agent(top).problem
    with pytest.raises(sbformat.UnsupportedError, match="was trained with VecNormalize"):
        sbformat.load_policy(top)
    assert act(top, vecnormalize=False) == PLAIN


def make_trained(top: Path, config: str | None) -> Path:
    """A folder with statistics, and an agent whose last observation is beyond the bounds of its space."""
    agent = with_last_observation(([0.5, -1.7, 1.0], "f4"), ([0.6, 0.7, 1.1], "f4"))
    sbformat.write(agent, top / "a.zip")
    files = {"vecnormalize.pkl": STATISTICS} | ({} if config is None else {"config.yml": config.encode()})
    return make_folder(top, files)


def test_settings_that_cannot_be_read_are_warned_of(tmp_path: Path) -> None:
    make_folder(tmp_path, {"a.zip": PENDULUM, "vecnormalize.pkl": STATISTICS, "config.yml": b"[a list]"})
    assert "config.yml' was not read (expected YAML of a mapping)" in sbformat.find_agent(tmp_path).warning
    (tmp_path / "vecnormalize.pkl").unlink()
    assert sbformat.find_agent(tmp_path).warning == ""


RL_ZOO = b"""!!python/object/apply:collections.OrderedDict
- - - gamma
    - 0.98
"""


@pytest.mark.parametrize(
    ("config", "name", "is_used"),
    [
        (RL_ZOO, "config.yml", False),
        (b"n_timesteps: 20000.0\npolicy: MlpPolicy\n", "config.yml", False),
        (b"n_timesteps: 20000.0\n", "config.yml", True),  # of another program
        (RL_ZOO, "config.yaml", True),  # which rl_zoo3 does not read
        (RL_ZOO, "args.yml", True),
    ],
)
def test_statistics_are_left_out_if_config_of_rl_zoo_has_no_normalize(
    tmp_path: Path,
    capsys: Capture,
    config: bytes,
    name: str,
    is_used: bool,  # noqa: FBT001
) -> None:
    make_folder(tmp_path, {"a.zip": PENDULUM, "a/vecnormalize.pkl": STATISTICS, f"a/{name}": config})
    chosen = sbformat.find_agent(tmp_path)
    assert (chosen.statistics is not None, chosen.warning == "") == (is_used, is_used)
    message = "the statistics 'a/vecnormalize.pkl' are not used: 'a/config.yml' has no normalize"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        policy = sbformat.load_policy(tmp_path)
    assert policy.predict(OBSERVATION, deterministic=True)[0].tolist() == (NORMALIZED if is_used else PLAIN)
    assert [message in str(warning.message) for warning in caught] == [True] * (not is_used)
    assert act(tmp_path, vecnormalize=tmp_path / "a" / "vecnormalize.pkl") == NORMALIZED
    arguments = ["predict", str(tmp_path), "--observation", json.dumps(OBSERVATION.tolist()), "--format", "json"]
    assert main(arguments) == 0
    (report,) = parse_reports(capsys.readouterr().out)
    assert report["actions"] == [NORMALIZED if is_used else PLAIN]
    assert any(message in text for text in report["warnings"]) is not is_used
    assert main(["export", str(tmp_path), "-o", str(tmp_path / "policy.c"), "--format", "json"]) == 0
    (report,) = parse_reports(capsys.readouterr().out)
    assert report["metadata"]["normalized"] == ("true" if is_used else "false")
    assert any(message in text for text in report["warnings"]) is not is_used


def test_statistics_that_are_missing_are_warned_of(tmp_path: Path, capsys: Capture) -> None:
    make_folder(tmp_path, {"a.zip": PENDULUM, "config.yml": CONFIG})
    with pytest.warns(UserWarning, match="no statistics are used: pass vecnormalize='vecnormalize.pkl'"):
        sbformat.load_policy(tmp_path)
    assert act(tmp_path, vecnormalize=False) == PLAIN
    assert main(["predict", str(tmp_path), "--observation", "[0.5, -0.25, 1.5]"]) == 0
    err = capsys.readouterr().err
    assert "no statistics are used\n  hint: none are beside it: --vecnormalize FILE names them; --vecnormalize" in err


@pytest.mark.parametrize(
    ("agent", "statistics"),
    [
        ("agent.zip", "vecnormalize.pkl"),
        ("agent", "vecnormalize.pkl"),
        ("PongNoFrameskip-v4.zip", "PongNoFrameskip-v4/vecnormalize.pkl"),
        ("checkpoints/agent_100_steps.zip", "vecnormalize.pkl"),
    ],
)
def test_the_warning_names_the_statistics_beside_an_agent(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, agent: str, statistics: str
) -> None:
    file = agent if agent.endswith(".zip") else f"{agent}.zip"
    agent_bytes = sbformat.writes(with_last_observation(([0.5, -1.7, 1.0], "f4"), ([0.6, 0.7, 1.1], "f4")))
    make_folder(tmp_path / "runs", {file: agent_bytes, statistics: STATISTICS})
    monkeypatch.chdir(tmp_path)
    command = ["predict", f"runs/{agent}", "--observation", "[0.5, -0.25, 1.5]"]
    assert main(command) == 0
    err = capsys.readouterr().err.replace("\n    ", " ")
    path = os.path.join("runs", *statistics.split("/"))
    assert err == (
        "sbformat: warning: the agent was trained behind VecNormalize, and no statistics are used\n"
        f"  hint: --vecnormalize {path} uses those beside it; --vecnormalize none says that observations are "
        "normalized already\n"
    )
    assert main([*command, "--vecnormalize", path]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("files", "names"),
    [
        ({"a.zip": AGENT, "b.zip": AGENT}, ("'a.zip'", "'b.zip'")),
        ({"a/best_model.zip": AGENT, "b/best_model.zip": AGENT}, ("'a/best_model.zip'", "'b/best_model.zip'")),
        ({"a/best_model.zip": AGENT, "b/x.zip": AGENT}, ("'a/best_model.zip'", "'b/x.zip'")),
        ({"a_1_steps.zip": AGENT, "b_1_steps.zip": AGENT}, ("'a_1_steps.zip'",)),
    ],
)
def test_a_folder_with_several_agents_is_refused(
    tmp_path: Path, files: Mapping[str, bytes], names: tuple[str, ...]
) -> None:
    make_folder(tmp_path, files)
    for call in (sbformat.load_policy, sbformat.find_agent, sbformat.policy_graph):
        with pytest.raises(sbformat.UnsupportedError, match="the folder has 2 agents: name the file") as error:
            call(tmp_path)
        assert all(name in str(error.value) for name in names)


def test_all_agents_that_are_counted_are_listed(tmp_path: Path) -> None:
    saved = (ARCHIVES / "policy-box.pth").read_bytes()
    names = ["a.zip", "b.zip", "c_1_steps.zip", "policy.pth"]
    make_folder(tmp_path, {**dict.fromkeys(names, AGENT), "policy.pth": saved})
    with pytest.raises(sbformat.UnsupportedError, match="the folder has 4 agents") as error:
        sbformat.find_agent(tmp_path)
    assert all(f"'{name}'" in error.value.hint for name in names)


def test_many_agents_are_not_all_listed(tmp_path: Path) -> None:
    make_folder(tmp_path, {f"{number}.zip": AGENT for number in range(20)})
    with pytest.raises(sbformat.UnsupportedError, match="12 more"):
        sbformat.find_agent(tmp_path)


def test_a_folder_without_an_agent_is_refused(tmp_path: Path) -> None:
    make_folder(tmp_path, {"vecnormalize.pkl": STATISTICS})
    with pytest.raises(sbformat.MissingEntryError, match="there is no agent 'best_model.zip'"):
        sbformat.find_agent(tmp_path)
    with pytest.raises(sbformat.MissingEntryError, match="there is no entry 'data'"):
        sbformat.load_policy(tmp_path)


def test_an_unzipped_agent_is_loaded_as_before(tmp_path: Path) -> None:
    hub = make_hub(tmp_path)
    assert act(hub / "sac-Pendulum") == PLAIN


def test_the_commands_take_folders_and_report_the_files(tmp_path: Path, capsys: Capture) -> None:
    zoo = make_zoo(tmp_path / "zoo")
    observation = json.dumps(OBSERVATION.tolist())
    assert main(["predict", str(zoo), "--observation", observation, "--format", "json"]) == 0
    out, err = capsys.readouterr()
    (report,) = parse_reports(out)
    assert report["actions"] == [NORMALIZED]
    assert report["path"] == str(zoo)
    assert report["chosen"] == {
        "agent": str(zoo / "best_model.zip"),
        "vecnormalize": str(zoo / "Pendulum-v1" / "vecnormalize.pkl"),
    }
    assert "the agent is 'best_model.zip', its statistics 'Pendulum-v1/vecnormalize.pkl'" in err
    arguments = ["predict", str(zoo), "--observation", observation, "--vecnormalize", "none", "--format", "json"]
    assert main(arguments) == 0
    assert parse_reports(capsys.readouterr().out)[0]["actions"] == [PLAIN]
    assert main(["export", str(zoo), "-o", str(tmp_path / "policy.c"), "--format", "json"]) == 0
    (report,) = parse_reports(capsys.readouterr().out)
    assert (report["metadata"]["normalized"], report["chosen"]["agent"]) == ("true", str(zoo / "best_model.zip"))
    assert main(["predict", str(SAC), "--observation", observation, "--format", "json"]) == 0
    assert parse_reports(capsys.readouterr().out)[0]["chosen"] is None


@pytest.mark.parametrize(
    "command",
    [
        "diff FOLDER FOLDER",
        "edit FOLDER -o OUT.zip --set gamma=0.5",
        "convert FOLDER -o OUT.safetensors",
        "extract FOLDER -o OUT.npz",
        "bundle FOLDER --vecnormalize STATISTICS -o OUT.zip",
    ],
)
def test_commands_on_one_agent_take_a_folder(command: str, tmp_path: Path, capsys: Capture) -> None:
    zoo, two = make_zoo(tmp_path / "zoo"), tmp_path / "two"
    for place, status in ((zoo, 0), (two, 2)):
        if place == two:
            two.mkdir()
            for name in ("first.zip", "second.zip"):
                shutil.copy(SAC, two / name)
        words = command.replace("FOLDER", str(place)).replace("STATISTICS", str(zoo / "Pendulum-v1/vecnormalize.pkl"))
        words = words.replace("OUT", str(tmp_path / f"out-{place.name}"))
        assert main(words.split()) == status
        error = capsys.readouterr().err
        if place == zoo:
            assert f"{zoo}: the agent is 'best_model.zip'" in error
        else:
            assert f"{two}: unsupported: the folder has 2 agents\n  hint: name the file of one of them" in error
            assert "'first.zip', 'second.zip'" in error


def test_no_folder_is_edited_in_place(tmp_path: Path, capsys: Capture) -> None:
    zoo = make_zoo(tmp_path / "zoo")
    before = (zoo / "best_model.zip").read_bytes()
    assert main(["edit", str(zoo), "--in-place", "--set", "gamma=0.5"]) == 2
    assert "--in-place needs the file of an archive" in capsys.readouterr().err
    assert (zoo / "best_model.zip").read_bytes() == before


@pytest.mark.parametrize(
    ("agent", "statistics", "is_doubtful"),
    [
        ("a.zip", "b_vecnormalize.pkl", True),
        ("Env1.zip", "Env2/vecnormalize.pkl", True),
        ("a.zip", "a_vecnormalize.pkl", False),
        ("a.zip", "vec_normalize.pkl", False),
        ("Env1.zip", "Env1/vecnormalize.pkl", False),
        ("best_model.zip", "Env2/vecnormalize.pkl", False),
        ("model/a.zip", "vecnormalize.pkl", False),
    ],
)
def test_statistics_with_another_name_are_warned_of(
    tmp_path: Path,
    agent: str,
    statistics: str,
    is_doubtful: bool,  # noqa: FBT001
) -> None:
    make_folder(tmp_path, {agent: PENDULUM, statistics: STATISTICS})
    chosen = sbformat.find_agent(tmp_path)
    assert chosen.statistics == str(tmp_path / statistics)
    assert ("their name is another than the agent's" in chosen.warning) is is_doubtful


def test_damaged_statistics_are_named(tmp_path: Path, capsys: Capture) -> None:
    make_folder(tmp_path, {"a.zip": AGENT, "vecnormalize.pkl": STATISTICS[:-200]})
    assert sbformat.find_agent(tmp_path).statistics is None  # a cut file is not known as statistics
    make_folder(tmp_path, {"vecnormalize.pkl": STATISTICS})
    assert main(["predict", str(tmp_path), "--observation", "[0, 0, 0, 0]"]) == 2
    assert "statistics" in capsys.readouterr().err  # of other observations than those of the agent


def test_evaluate_takes_a_folder(tmp_path: Path) -> None:
    make_folder(tmp_path, {"agent.zip": AGENT})
    expected = sbformat.evaluate(AGENT, CountingEnv(), episodes=2)
    assert sbformat.evaluate(tmp_path, CountingEnv(), episodes=2) == expected


def test_a_folder_that_cannot_be_listed_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (path,) = write_archives(tmp_path / "runs", 1)
    (tmp_path / "runs" / "others").mkdir()
    refuse_listing(monkeypatch, tmp_path / "runs" / "others")
    chosen = sbformat.find_agent(tmp_path / "runs")
    assert (chosen.path, chosen.warning) == (str(path), "'others' is left out: Permission denied")
