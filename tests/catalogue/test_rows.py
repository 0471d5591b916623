"""The rows of a catalogue: what each column has, names of columns, and files that cannot be read."""

from __future__ import annotations

import hashlib
import math
import os
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

import sbformat
from sbformat.catalogue.catalog import describe_path, describe_source, list_sources, make_work, name_reader
from sbformat.catalogue.rows import COLUMNS, name_columns
from sbformat.limits import DEFAULT_LIMITS, Limits
from tests.helpers.bundled import ARCHIVES, PPO, SAC, changed, set_data
from tests.helpers.many_archives import write_archives
from tests.helpers.run_folders import STATISTICS, make_evaluations, make_folder, make_hub

if TYPE_CHECKING:
    from pathlib import Path


def make_one(source: Any, **options: Any) -> dict[str, Any]:
    (row,) = sbformat.catalog([source], **options)
    return row


def with_data(**values: Any) -> bytes:
    archive = sbformat.read(PPO)
    return sbformat.writes(set_data(archive, {**archive.data, **values}))


def test_a_row_has_the_facts_then_the_hyper_parameters() -> None:
    row = make_one(PPO)
    assert list(row)[: len(COLUMNS)] == list(COLUMNS)
    for name, kind in COLUMNS.items():
        assert row[name] is None or type(row[name]) is kind, name
    expected = {
        "source": str(PPO),
        "size": PPO.stat().st_size,
        "sha256": hashlib.sha256(PPO.read_bytes()).hexdigest(),
        "version": str(PPO.stat().st_mtime_ns),
        "format": "sb3",
        "algorithm": "PPO",
        "algorithm_certain": True,
        "policy_class": "stable_baselines3.common.policies.ActorCriticPolicy",
        "action_space": "Discrete(2)",
        "layers": 6,
        "parameters": 251,
        "verdict": "clean",
        "findings": 0,
        "problems": 0,
        "outcome": "ok",
        "error": None,
        "sbformat": sbformat.__version__,
    }
    assert {name: row[name] for name in expected} == expected
    assert row["network"].startswith("linear 4 -> 8 Tanh, ")


def test_versions_are_those_of_system_info() -> None:
    row = make_one(SAC)
    fields = sbformat.read(SAC).system_info.fields
    assert (row["python_version"], row["torch_version"]) == (fields["Python"], fields["PyTorch"])
    assert (row["numpy_version"], row["gym_version"]) == (fields["Numpy"], fields["Gymnasium"])


def test_hyper_parameters_have_the_type_of_their_values() -> None:
    row = make_one(PPO)
    assert (row["gamma"], row["n_steps"], row["use_sde"], row["clip_range"]) == (0.99, 32, False, 0.2)
    assert [type(row[name]) for name in ("gamma", "n_steps", "use_sde")] == [float, int, bool]
    assert row["target_kl"] is None
    assert row["policy_kwargs_net_arch"] == "[8, 8]"
    assert make_one(SAC)["target_entropy"] == -1.0


def test_numbers_that_tables_lack_are_kept_as_far_as_possible() -> None:
    row = make_one(with_data(seed=1 << 70, batch_size=10**400, gamma=1.0))
    assert (row["seed"], type(row["seed"])) == (float(1 << 70), float)
    assert isinstance(row["batch_size"], str)
    assert row["gamma"] == 1.0


def test_a_key_cannot_take_the_place_of_a_fact() -> None:
    row = make_one(with_data(**{"verdict": "clean", "size": 0, "select": 1, "Gamma": 7, "a b": 1, "9": 2, "": 3}))
    assert row["size"] != 0
    assert (row["data_verdict"], row["data_size"], row["data_select"]) == ("clean", 0, 1)
    assert (row["gamma"], row["gamma_2"], row["a_b"], row["data_9"], row["data_"]) == (0.99, 7, 1, 2, 3)


@pytest.mark.parametrize(
    ("keys", "names"),
    [
        (["Gamma", "gamma"], ["gamma_2", "gamma"]),
        (["a.b", "a-b", "a_b"], ["a_b_2", "a_b_3", "a_b"]),
        (["_private", "\u00e4"], ["_private", "_"]),
        (["x" * 100, "x" * 99], ["x" * 64, "x" * 64 + "_2"]),
        (["source", "data_source"], ["data_source_2", "data_source"]),
        (["order", "other"], ["data_order", "data_other"]),
    ],
)
def test_names_of_columns_are_plain_and_different(keys: list[str], names: list[str]) -> None:
    assert list(name_columns(keys).values()) == names


def test_a_hostile_file_has_few_columns() -> None:
    row = make_one(with_data(**{f"key{number}": number for number in range(2000)}))
    assert len(row) <= len(COLUMNS) + 300


def test_a_file_that_cannot_be_read_is_a_row(tmp_path: Path) -> None:
    (tmp_path / "broken.zip").write_bytes(PPO.read_bytes()[:1000])
    (tmp_path / "empty.zip").write_bytes(b"")
    rows = list(sbformat.catalog([tmp_path / "broken.zip", tmp_path / "empty.zip", tmp_path / "nowhere.zip", PPO]))
    assert [row["outcome"] for row in rows] == ["container failure", "container failure", "cannot open", "ok"]
    assert [bool(row["error"]) for row in rows] == [True, True, True, False]
    assert (rows[0]["verdict"], rows[0]["size"], rows[2]["size"]) == ("broken", 1000, None)
    assert rows[0]["problems"] is None


def test_an_entry_that_cannot_be_read_is_the_error_of_a_row() -> None:
    row = make_one(changed(_stable_baselines3_version=b"\xff"))
    assert row["outcome"] == "data failure"
    assert row["error"].startswith("_stable_baselines3_version: ")
    assert row["problems"] >= 1
    assert row["algorithm"] == "PPO"


def test_findings_and_problems_have_their_places() -> None:
    archive = sbformat.read(PPO)
    row = make_one(sbformat.writes(set_data(archive, {**archive.data, "seed": -1})))
    assert (row["problems"], row["outcome"]) == (1, "ok")
    assert row["problem"].startswith("data /seed: ")


def test_a_name_that_is_allowed_changes_the_reader() -> None:
    assert make_one(PPO, allow=["my.module.f"])["sbformat"].startswith(f"{sbformat.__version__}+")
    assert name_reader(DEFAULT_LIMITS, []) != name_reader(Limits(json_depth=3), [])
    with pytest.raises(ValueError, match="os.system cannot be allowed"):
        sbformat.catalog([PPO], allow=["os.system"])


def test_sources_are_files_folders_and_globs_in_order(tmp_path: Path) -> None:
    paths = write_archives(tmp_path / "a" / "b", 2)
    names = [source.state.name for source in list_sources([PPO, tmp_path, f"{tmp_path}/**/*0.zip", str(paths[1])])]
    assert names == [str(PPO), str(paths[0]), str(paths[1]), str(paths[0]), str(paths[1])]
    assert [source.state.name for source in list_sources([f"{tmp_path}/*.none"])] == [f"{tmp_path}/*.none"]


def test_one_source_is_a_source() -> None:
    for source in (str(PPO), PPO, PPO.read_bytes(), sbformat.read(PPO)):
        assert [row["algorithm"] for row in sbformat.catalog(source)] == ["PPO"]


def test_statistics_are_those_that_belong_to_an_agent(tmp_path: Path) -> None:
    (path,) = write_archives(tmp_path / "best", 1)
    assert make_one(path)["statistics"] is None
    (tmp_path / "vecnormalize.pkl").write_bytes((ARCHIVES / "vecnormalize-pendulum.pkl").read_bytes())
    assert make_one(path)["statistics"] == "../vecnormalize.pkl"
    (tmp_path / "best" / "vecnormalize.pkl").write_bytes((ARCHIVES / "vecnormalize-pendulum.pkl").read_bytes())
    assert make_one(path)["statistics"] == "vecnormalize.pkl"
    assert make_one(tmp_path / "vecnormalize.pkl")["statistics"] is None
    report = sbformat.inspect_folder(tmp_path)
    assert [agent.statistics for agent in report.agents] == [("best/vecnormalize.pkl",)]


def test_logs_and_settings_beside_an_agent_are_in_its_row(tmp_path: Path) -> None:
    (path,) = write_archives(tmp_path / "run" / "best", 1, num_timesteps=320)
    assert make_one(path)["env"] is None
    make_folder(tmp_path / "run", {
        "evaluations.npz": make_evaluations(), "progress.csv": b"a,b\n" + b"x" * 200_000,
        "args.yml": b"env: Pendulum-v1\nseed: 7\n", "vecnormalize.pkl": STATISTICS,
    })  # fmt: skip
    row = make_one(path)
    assert (row["best_evaluation"], row["best_evaluation_timesteps"]) == (5.5, 200)
    assert (row["last_evaluation"], row["last_evaluation_timesteps"]) == (3.5, 300)
    assert row["logs"] == "../evaluations.npz, ../progress.csv"
    assert str(row["log_problem"]).startswith("../progress.csv: expected lines of at most")
    assert row["outcome"] == "ok"
    pytest.importorskip("yaml")
    assert row["env"] == "Pendulum-v1"
    other = make_one(tmp_path / "run" / "vecnormalize.pkl")
    assert (other["env"], other["logs"], other["best_evaluation"]) == (None, None, None)


@pytest.mark.parametrize(
    ("name", "timesteps", "best", "last"),
    [
        ("best_model.zip", 200, (5.5, 200), (5.5, 200)),
        ("rl_model_150_steps.zip", 150, (1.5, 100), (1.5, 100)),
        ("rl_model_50_steps.zip", 50, (None, None), (None, None)),
        ("final.zip", 320, (5.5, 200), (3.5, 300)),
        ("unknown.zip", None, (5.5, 200), (3.5, 300)),
    ],
)
def test_each_file_of_a_run_has_the_evaluations_until_it_was_saved(
    tmp_path: Path, name: str, timesteps: int | None, best: Any, last: Any
) -> None:
    path = write_archives(tmp_path, 1, num_timesteps=timesteps)[0].rename(tmp_path / name)
    (tmp_path / "evaluations.npz").write_bytes(make_evaluations())
    row = make_one(path)
    assert (row["timesteps"], row["logs"]) == (timesteps, "evaluations.npz")
    assert (row["best_evaluation"], row["best_evaluation_timesteps"]) == best
    assert (row["last_evaluation"], row["last_evaluation_timesteps"]) == last


@pytest.mark.parametrize(("seed", "expected"), [(None, 7), (0, 0), (3, 3)])
def test_the_seed_of_the_agent_comes_before_that_of_the_settings(tmp_path: Path, seed: Any, expected: int) -> None:
    pytest.importorskip("yaml")
    make_folder(tmp_path, {"a.zip": with_data(seed=seed), "args.yml": b"seed: 7\n"})
    assert make_one(tmp_path / "a.zip")["seed"] == expected


def test_a_repository_of_the_hugging_face_tools_has_rows_of_its_archives(tmp_path: Path) -> None:
    make_hub(tmp_path)
    rows = {os.path.basename(str(row["source"])): row for row in sbformat.catalog(tmp_path)}
    assert "train_eval_metrics.zip" not in rows
    assert rows["sac-Pendulum.zip"]["logs"] == "train_eval_metrics.zip"
    (named,) = sbformat.catalog(tmp_path / "train_eval_metrics.zip")
    assert named["outcome"] == "unsupported"


def test_statistics_in_the_archive_are_bundled(tmp_path: Path) -> None:
    sbformat.write(sbformat.bundle(SAC, ARCHIVES / "vecnormalize-pendulum.pkl"), tmp_path / "bundle.zip")
    assert make_one(tmp_path / "bundle.zip")["statistics"] == "bundled"


def test_rows_are_the_same_whatever_the_executor(tmp_path: Path, two_processes: ProcessPoolExecutor) -> None:
    sources = [*write_archives(tmp_path, 5), tmp_path / "nowhere.zip", PPO, SAC]
    alone = list(sbformat.catalog(sources))
    with ThreadPoolExecutor(3) as pool:
        assert list(sbformat.catalog(sources, executor=pool)) == alone
    assert list(sbformat.catalog(sources, executor=two_processes)) == alone


def test_a_bug_in_reading_one_file_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    from sbformat.catalogue import catalog

    monkeypatch.setattr(catalog, "collect_file", lambda *_, **__: 1 / 0)
    row = make_one(PPO)
    assert (row["outcome"], row["error"]) == ("internal error", "ZeroDivisionError: division by zero")


def test_a_file_is_opened_once(monkeypatch: pytest.MonkeyPatch) -> None:
    import builtins

    opened = []
    real = builtins.open
    work = make_work(DEFAULT_LIMITS, ())
    source = describe_path(str(PPO))
    describe_source(source, limits=DEFAULT_LIMITS, allow=(), made_by="")
    monkeypatch.setattr(builtins, "open", lambda file, *args, **kw: (opened.append(file), real(file, *args, **kw))[1])
    work(source)
    assert opened.count(str(PPO)) == 1


def test_infinite_rewards_stay_numbers() -> None:
    row = make_one(with_data(ent_coef=math.inf))
    assert row["ent_coef"] == math.inf
