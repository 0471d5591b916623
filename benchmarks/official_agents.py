"""``python -m benchmarks.official_agents AGENTS BENCHMARK``: do official agents do what they are known for?

Runs published agents in the environments of gymnasium, without torch and TensorFlow, and compares the mean reward with
what ``benchmark.md`` says of the same agent: the difference should be within two standard errors, of both means
together. Prints a table in Markdown. The agents are those of Stable-Baselines3 (DLR-RM/rl-trained-agents, with
``benchmark.md`` of DLR-RM/rl-baselines3-zoo), or of Stable Baselines 2 (araffin/rl-baselines-zoo).
"""

from __future__ import annotations

import argparse
import math
import re
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import sbformat

if TYPE_CHECKING:
    from collections.abc import Iterator

TODAY: Final = {
    "BipedalWalker-v2": "BipedalWalker-v3",
    "BipedalWalkerHardcore-v2": "BipedalWalkerHardcore-v3",
    "LunarLander-v2": "LunarLander-v3",
    "LunarLanderContinuous-v2": "LunarLanderContinuous-v3",
    "Pendulum-v0": "Pendulum-v1",
}
"""The environments that gymnasium has under another version; not those of MuJoCo, whose physics have changed."""

ENVIRONMENTS: Final = (
    "Acrobot-v1", "BipedalWalker-v3", "BipedalWalkerHardcore-v3", "CartPole-v1", "MountainCar-v0",
    "MountainCarContinuous-v0", "Pendulum-v1", *TODAY,
)  # fmt: skip
SAMPLED: Final = ("a2c", "acer", "acktr", "ppo2", "trpo")
"""The algorithms of Stable Baselines 2 whose published results are those of sampled actions (see its ``enjoy.py``)."""

ERRORS: Final = 2.0


class Published(NamedTuple):
    """A row of ``benchmark.md``."""

    mean: float
    std: float
    episodes: int


class Row(NamedTuple):
    """What an agent did, beside what is published."""

    agent: str
    environment: str
    published: Published
    report: sbformat.EvaluationReport
    seconds: float

    @property
    def errors(self) -> float:
        """The difference of the means, in standard errors of it."""
        ours = self.report.std_reward**2 / len(self.report.rewards)
        error = math.sqrt(ours + self.published.std**2 / self.published.episodes)
        difference = self.report.mean_reward - self.published.mean
        if error == 0:
            return 0.0 if abs(difference) < 1e-3 else math.inf
        return difference / error


def read_published(path: Path) -> dict[tuple[str, str], Published]:
    """The published results, by algorithm and environment."""
    number = r" *(-?[\d.]+)"
    pattern = rf"^\|(\w+) *\|([\w-]+) *\|{number}\|{number}\|.*\| *(\d+)\|$"
    rows = re.findall(pattern, path.read_text("utf-8"), re.MULTILINE)
    return {(algo, env): Published(float(mean), float(std), int(count)) for algo, env, mean, std, count in rows}


def find_agents(folder: Path) -> Iterator[tuple[str, str, Path]]:
    """Algorithm, environment and archive of each agent whose environment gymnasium has."""
    for path in sorted([*folder.glob("*/*_1/*.zip"), *folder.glob("*/*.zip"), *folder.glob("*/*.pkl")]):
        environment = path.stem
        if environment in ENVIRONMENTS:
            algorithm = path.parent.parent if path.parent.name == f"{environment}_1" else path.parent
            yield algorithm.name, environment, path


def evaluate(path: Path, environment: str, episodes: int, seed: int) -> sbformat.EvaluationReport:
    folder = path.parent / environment  # with vecnormalize.pkl, or SB2's obs_rms.pkl
    config = folder / "config.yml"
    settings = config.read_text("utf-8") if config.exists() else "normalize: true"  # early agents have none
    has_statistics = any((folder / name).exists() for name in ("vecnormalize.pkl", "obs_rms.pkl"))
    is_normalized = has_statistics and re.search(r"\bnormalize\b\W+(?!false)", settings) is not None
    is_sampled = path.parent.name in SAMPLED
    frames = re.search(r"frame_stack\W+(\d+)", settings)
    return sbformat.evaluate(
        path,
        TODAY.get(environment, environment),
        episodes=episodes,
        vecnormalize=folder if is_normalized else False,
        deterministic=not is_sampled,
        frame_stack=int(frames[1]) if frames else None,
        seed=seed,
    )


def print_row(row: Row) -> None:
    report = row.report
    verdict = "yes" if abs(row.errors) <= ERRORS else "no"
    cells = (
        row.agent,
        row.environment,
        f"{row.published.mean:,.2f} ± {row.published.std:,.2f} ({row.published.episodes:,})",
        f"{report.mean_reward:,.2f} ± {report.std_reward:,.2f} ({len(report.rewards):,})",
        f"{row.errors:+.1f}",
        verdict,
        f"{row.seconds:.1f} s, {sum(report.lengths):,} steps",
    )
    print(f"| {' | '.join(cells)} |", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Run official agents, and compare with what is published.")
    parser.add_argument("agents", type=Path, help="a folder with a folder for each algorithm")
    parser.add_argument("benchmark", type=Path, help="benchmark.md of the same zoo")
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="a part of algorithm/environment")
    args = parser.parse_args()
    published = read_published(args.benchmark)
    warnings.simplefilter("ignore")  # those of gymnasium about versions
    print("| agent | environment | published (episodes) | ours (episodes) | standard errors | within 2 | time |")
    print("| --- | --- | ---: | ---: | ---: | --- | ---: |")
    counts = {True: 0, False: 0}
    for algorithm, environment, path in find_agents(args.agents):
        agent = f"{algorithm}/{environment}"
        if args.only not in agent or (algorithm, environment) not in published:
            continue
        start = time.perf_counter()
        try:
            report = evaluate(path, environment, args.episodes, args.seed)
        except sbformat.SbformatError as error:
            print(f"| {agent} | {error} |", flush=True)
            continue
        here = TODAY.get(environment, environment)
        row = Row(agent, here, published[algorithm, environment], report, time.perf_counter() - start)
        counts[abs(row.errors) <= ERRORS] += 1
        print_row(row)
    print(f"\n{counts[True]} of {sum(counts.values())} within {ERRORS:g} standard errors")
    return 0


if __name__ == "__main__":
    sys.exit(main())
