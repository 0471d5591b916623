"""``sbformat.load_policy`` of archives by others, as written, beside real SB3 with what ``rebuild`` made of them.

SB3 of today loads few of them as they are, so it gets the rebuilt ones, and the policy of sbformat the original: both
act alike, or the table in the end gives the reason why they were not compared.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pytest

pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")
pytest.importorskip("sb3_contrib")

import numpy as np
from stable_baselines3.common.torch_layers import NatureCNN
from stable_baselines3.common.vec_env import VecNormalize
from torch import nn

import sbformat
from tests.helpers.shared_files import CORPUS, GENERATED, add_summary_line
from tests.interop.policy_agents import draw_observations
from tests.interop.policy_oracle import (
    COUNT,
    RELATIVE,
    ROUNDING,
    RealPolicy,
    assert_close,
    assert_same_action,
    check_actions,
    check_outputs,
    check_sequence,
)
from tests.interop.policy_sampling import check_samples
from tests.interop.rebuild_envs import environment
from tests.interop.rebuild_oracle import (
    ARCHIVES,
    CARRIED_EXTRACTORS,
    Case,
    algorithm_class,
    is_any,
    loadable,
    name_of,
    sample_archives,
    torch_loads,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(not ARCHIVES, reason="no archives beside the project"),
]

COMPARED: Final[dict[str, Counter[str]]] = {}
"""By folder: how many archives were compared, and why the others were not."""
OLD_CNN: Final = "0.6.0/*-CnnPolicy.zip"


@pytest.fixture(scope="module", autouse=True)
def table(request: pytest.FixtureRequest) -> Iterator[None]:
    """Print how many of how many, and why not the others."""
    COMPARED.clear()
    yield
    everything: Counter[str] = sum((part for folder, part in COMPARED.items() if folder != "statistics"), Counter())
    for folder, counts in [*sorted(COMPARED.items()), ("all", everything)]:
        row = ", ".join(f"{reason}: {count}" for reason, count in sorted((+counts).items()))
        add_summary_line(request.config, f"test_policies_archives.py: {folder:<10} {counts.total():>3} archives: {row}")


def count(path: Path, result: str) -> None:
    COMPARED.setdefault(path.parent.name, Counter())[result] += 1


def each(paths: list[Path]) -> Any:
    return [pytest.param(path, id=name_of(path)) for path in paths]


class OfGoals:
    """A policy of HER before SB3 1.1, given the Dict that it has today.

    Its observation was one vector: the observation, then the desired goal (``ObsDictWrapper.convert_dict``).
    """

    def __init__(self, policy: Any) -> None:
        self.policy = policy

    def convert(self, observation: Any) -> Any:
        return np.concatenate([observation["observation"], observation["desired_goal"]], axis=-1)

    def predict(self, observation: Any, *args: Any, **kwargs: Any) -> Any:
        return self.policy.predict(self.convert(observation), *args, **kwargs)

    def outputs(self, observation: Any, *args: Any) -> Any:
        return self.policy.outputs(self.convert(observation), *args)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.policy, name)


def load_original(case: Case) -> Any:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        policy = sbformat.load_policy(case.path)
    assert [warning.category for warning in caught] == [UserWarning] * was_normalized(case)
    assert policy.algorithm == ("HER" if case.goals else case.report.algorithm)
    return OfGoals(policy) if case.goals else policy


def was_normalized(case: Case) -> bool:
    """Off-policy algorithms have the key in any case: there, the statistics beside the agent tell."""
    is_off_policy = "learning_starts" in case.original.data
    has_key = case.original.data.get("_last_original_obs") is not None
    return has_key and (not is_off_policy or find_statistics(case.path) is not None or "Panda" in case.name)


@pytest.mark.parametrize("path", each(sample_archives(loadable(ARCHIVES), 3)))
def test_an_archive_acts_as_in_sb3(path: Path) -> None:
    case = Case(path)
    count(path, "not compared")
    real, policy = RealPolicy(case.model), load_original(case)
    observations = draw_observations(real.observation_space, COUNT)
    check_actions(real, policy, observations)
    check_outputs(real, policy, observations)
    has_images = any("cnn" in name for name in case.weights)
    check_samples(real, policy, share=0.01 if has_images else 0.15)
    if real.is_recurrent:
        check_sequence(real, policy, 2)
    count(path, "acts as in SB3")
    COMPARED[path.parent.name]["not compared"] -= 1


class OldNatureCNN(NatureCNN):
    """The network for images of SB3 0.6, whose third layer had 32 filters."""

    def __init__(self, observation_space: Any, features_dim: int = 512) -> None:
        super().__init__(observation_space, features_dim)
        self.cnn[4] = nn.Conv2d(64, 32, kernel_size=3, stride=1, padding=0)
        size = self.linear[0].in_features // 2
        self.linear = nn.Sequential(nn.Linear(size, features_dim), nn.ReLU())


OLD: Final = [path for path in ARCHIVES if is_any(name_of(path), [OLD_CNN])]


@pytest.mark.parametrize("path", each(OLD))
def test_a_network_that_sb3_has_no_more_acts_as_it_did(path: Path) -> None:
    case = Case(path)
    count(path, "not compared")
    policy = sbformat.load_policy(path)
    real = RealPolicy(rebuild_old_network(case, policy.algorithm))
    observations = draw_observations(real.observation_space, COUNT)
    check_actions(real, policy, observations)
    check_outputs(real, policy, observations)
    count(path, "acts as in SB3")
    COMPARED[path.parent.name]["not compared"] -= 1


def rebuild_old_network(case: Case, algorithm: str | None) -> Any:
    arguments = {**case.original.decode("policy_kwargs"), "features_extractor_class": OldNatureCNN, "net_arch": []}
    env = environment(case.observation_space, case.action_space)
    model = algorithm_class(algorithm)("CnnPolicy", env, policy_kwargs=arguments, device="cpu")
    weights = torch_loads(bytes(case.original.raw("policy.pth")))
    model.policy.load_state_dict(current_names(model.policy.state_dict(), weights))
    return model


def current_names(live: dict[str, Any], stored: dict[str, Any]) -> dict[str, Any]:
    """Weights of 0.6 under the names of today: one extractor under all names that the policy has for it."""
    return {name: stored[name if name in stored else re.sub(r"^(pi|vf)_", "", name)] for name in live}


UNKNOWN: Final = [path for path in ARCHIVES if is_any(name_of(path), [*CARRIED_EXTRACTORS])]


@pytest.mark.parametrize("path", each(UNKNOWN))
def test_a_network_that_is_not_known_is_refused_by_name(path: Path) -> None:
    archive = sbformat.read(path)
    foreign = extractor_name(archive)
    with pytest.raises(sbformat.UnsupportedError, match=foreign):
        sbformat.load_policy(path)
    count(path, f"refused ({foreign})")


def extractor_name(archive: Any) -> str:
    given = archive.decode("policy_kwargs")["features_extractor_class"]
    return str(getattr(given, "name", None) or given.type.name)


# -- statistics of observations -----------------------------------------------------------------------


def find_statistics(path: Path) -> Path | None:
    """The statistics that rl-zoo saved beside an agent: ``a2c__Ant-v3_1__Ant-v3.zip`` and ``..__vecnormalize.pkl``."""
    folder = re.match(r"[a-z0-9]+__[\w.-]+?-v\d+_\d+__", path.name)
    found = sorted((CORPUS / "side").glob(f"{folder[0]}*__vecnormalize.pkl")) if folder else []
    return found[0] if found else None


PAIRS: Final = [
    *((path, found) for path in loadable(ARCHIVES) if (found := find_statistics(path)) is not None),
    *(
        (path, beside)
        for path in sorted(GENERATED.glob("[0-9]*/*-vecnormalize.zip"))
        if (beside := path.parent / "vecnormalize-box.pkl").exists()
    ),
]


def draw_like(statistics: Any, space: Any, random: np.random.Generator) -> Any:
    """Observations as far from the mean as training saw them, and some farther."""
    if isinstance(statistics, dict):
        return {key: draw_like(part, space[key], random) for key, part in statistics.items()}
    rows = statistics.mean + random.normal(0, 3, (COUNT, *np.shape(statistics.mean))) * np.sqrt(statistics.var)
    return rows.astype(space.dtype)


@pytest.mark.parametrize(("path", "beside"), [pytest.param(*pair, id=name_of(pair[0])) for pair in PAIRS])
def test_statistics_are_applied_as_in_sb3(path: Path, beside: Path, tmp_path: Path) -> None:
    case = Case(path)
    real = RealPolicy(case.model)
    statistics, _ = sbformat.rebuild_vecnormalize(beside)
    normalizer = load_normalizer(statistics, tmp_path / "statistics.pkl", real)
    observations = draw_like(normalizer.obs_rms, real.observation_space, np.random.default_rng(0))
    normalized = normalizer.normalize_obs(observations)
    rounding = real.measure_rounding(normalized)
    expected = real.predict(normalized, deterministic=True)[0]
    for source in (beside, tmp_path / "statistics.pkl", statistics):
        policy = sbformat.load_policy(path, vecnormalize=source)
        found = policy.predict(observations, deterministic=True)[0]
        assert_same_action(found, expected, str(source), rounding.get("action", 0.0))
    compare_with_statistics(real, policy, normalizer, observations, rounding)
    COMPARED.setdefault("statistics", Counter())["act as behind VecNormalize"] += 1


def load_normalizer(statistics: Any, path: Path, real: RealPolicy) -> Any:
    """Return the ``VecNormalize`` of SB3, through a file."""
    sbformat.write_vecnormalize(statistics, path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return VecNormalize.load(str(path), environment(real.observation_space, real.action_space))


def compare_with_statistics(
    real: RealPolicy, policy: Any, normalizer: Any, observations: Any, rounding: dict[str, float]
) -> None:
    """One observation at a time, and the outputs."""
    for index in range(COUNT):
        row = rows_of(observations, index)
        expected = real.predict(normalizer.normalize_obs(row), deterministic=True)[0]
        found = policy.predict(row, deterministic=True)[0]
        assert_same_action(found, expected, f"observation {index}", rounding.get("action", 0.0))
    outputs = policy.outputs(observations)
    for name, value in real.outputs(normalizer.normalize_obs(observations)).items():
        if name in outputs and name != "logits":
            assert_close(outputs[name], value, name, RELATIVE + ROUNDING * rounding.get(name, 0.0))


def rows_of(observations: Any, index: int) -> Any:
    return (
        {key: part[index] for key, part in observations.items()}
        if isinstance(observations, dict)
        else observations[index]
    )
