"""Which algorithm of Stable Baselines 2 wrote a file: every algorithm and release, and real files."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

import sbformat
from sbformat import pkl
from sbformat.data import Serialized
from sbformat.formats.sb2 import SIGNATURES, infer_algorithm
from tests.helpers.many_cases import check_each
from tests.helpers.sb2_keys import ALGORITHMS, every_data, last_data, reference
from tests.helpers.shared_files import CORPUS, GENERATED, SHARED, summarize_counts

COUNTED: Final[Counter[str]] = Counter()
_summary = summarize_counts(COUNTED, "test_sb2_algorithms.py inferred")


@check_each(("algorithm", "data"), [(name, data) for name, _, data in every_data()])
def test_every_release_is_told_for_certain(algorithm: str, data: dict[str, Any]) -> None:
    found = infer_algorithm(data)
    assert found[:2] == (algorithm, True)
    assert len(found.evidence) >= 2


def test_every_algorithm_is_tested() -> None:
    assert {name for name, _ in SIGNATURES} | {"GAIL"} == set(ALGORITHMS)
    assert len(ALGORITHMS) == 12


def test_the_keys_of_one_are_no_other_s() -> None:
    for algorithm in set(ALGORITHMS) - {"HER", "GAIL"}:
        data = last_data(algorithm)
        assert [name for name, keys in SIGNATURES if all(key in data for key in keys)] == [algorithm]


def test_the_evidence_is_what_was_concluded_from() -> None:
    assert infer_algorithm(last_data("GAIL")).evidence == (
        "policy is stable_baselines.common.policies.MlpPolicy",
        "data has timesteps_per_batch, max_kl",
        "using_gail is true",
    )
    assert infer_algorithm(last_data("HER")).evidence[-1] == "model_class is stable_baselines.td3.td3.TD3"


@pytest.mark.parametrize("flag", [None, 1, "true", Serialized(None, pkl.dumps(True))])
def test_trpo_and_gail_are_not_told_apart_without_the_flag(flag: Any) -> None:
    data = {**last_data("GAIL"), "using_gail": flag}
    assert infer_algorithm(data)[:2] == ("TRPO", False)
    del data["using_gail"]
    assert infer_algorithm(data)[:2] == ("TRPO", False)


@check_each(
    ("module", "name"),
    [("deepq", "DQN"), ("ddpg", "DDPG"), ("sac", "SAC"), ("td3", "TD3"), ("common", None), ("my", None)],
)
def test_the_policy_tells_when_the_keys_do_not(module: str, name: str | None) -> None:
    policy = reference(f"stable_baselines.{module}.policies", "LnMlpPolicy")
    found = infer_algorithm({"policy": policy})
    assert found[:2] == (name, False)
    assert found.evidence[0] == f"policy is stable_baselines.{module}.policies.LnMlpPolicy"


@check_each(
    "data",
    [
        {},
        {"policy": None},
        {"policy": "MlpPolicy"},
        {"policy": Serialized(None, b"")},
        {"policy": Serialized(None, pkl.dumps([]))},
        {"policy": Serialized(None, pkl.dumps(pkl.Global("a", "b")) + b"x" * 5000)},
        {"alpha": 1, "epsilon": 1},
    ],
)
def test_nothing_tells_when_nothing_is_there(data: dict[str, Any]) -> None:
    assert infer_algorithm(data)[:2] == (None, False)


@check_each("value", [None, 1, "x", [], {}, Serialized(None, b"broken")])
def test_values_of_any_kind_are_no_hindrance(value: Any) -> None:
    for algorithm in ALGORITHMS:
        found = infer_algorithm(dict.fromkeys(last_data(algorithm), value))
        assert found.name == ("TRPO" if algorithm == "GAIL" else algorithm)


def test_subclasses_of_the_user_s_keep_the_name_of_what_they_extend() -> None:
    data = {**last_data("PPO2"), "policy": reference("utils", "CustomMlpPolicy"), "mine": 1}
    assert infer_algorithm(data)[:2] == ("PPO2", True)


# -- real files, when they lie beside the project -----------------------------------------------------

_UNNAMED: Final = {
    "ddpg_mountain": "DDPG", "ddpg_pendulum": "DDPG", "sac_mountaincar": "SAC", "sac_mountaioncar": "SAC",
    "sac_noisynav": "SAC", "quadrotor_env": "PPO2", "cartpole_0": "PPO2",
}  # fmt: skip
"""Files whose own name does not begin with the algorithm, and what their authors' scripts train."""


def named(file: str) -> str | None:
    """The algorithm that a file's name tells: ``a2c__CartPole-v1.pkl``, ``.../ppo2_bestest.zip``, ``PPO2_Pendulum``."""
    words = [word for part in Path(file).name.split("__") for word in part.replace("-", "_").split("_")]
    found = [word.upper() for word in words if word.upper() in ALGORITHMS]
    return found[0] if found else next((name for part, name in _UNNAMED.items() if part in file), None)


def files() -> list[Path]:
    """SB2's files of the corpus, and generated ones."""
    path = CORPUS / "manifest.json"
    rows = json.loads(path.read_text("utf-8")) if path.exists() else []
    real = [CORPUS / row["file"] for row in rows if row["kind"] in ("sb2zip", "sb2pkl")]
    generated = [path for path in sorted((GENERATED / "sb2").glob("*.*")) if path.suffix in (".zip", ".pkl")]
    return real + generated


@pytest.mark.skipif(not SHARED.is_dir(), reason="there is no ../shared beside the project")
def test_real_files_are_what_their_names_say() -> None:
    for path in files():
        archive = sbformat.read(path)
        if archive.format in ("sb2-zip", "sb2-pickle"):
            assert archive.algorithm[:2] == (named(path.name) or archive.algorithm.name, True), path.name
            COUNTED[f"{archive.format} files"] += 1
