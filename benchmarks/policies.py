"""Measurements of policies: one observation, a batch, an image, and a process from its start to the first action."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.bench import pair_by_round
from benchmarks.files import ROOT
from benchmarks.predictors import BARE, PREDICTORS, SB3, TORCH
from benchmarks.reading import in_turn, peaks
from benchmarks.results import Line, compare
from benchmarks.rivals import US
from benchmarks.tasks import PREDICTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.bench import Bench

ACT: Final = "from benchmarks.once import act; act()"
FLAT: Final = ("DQN", "PPO", "SAC")
IMAGE: Final = "NatureCNN"


def agent_file(bench: Bench, name: str) -> str:
    """Return the file of an agent, which SB3 writes."""
    path = Path(bench.folder) / f"agent-{name}.zip"
    if not path.exists():
        bench.tell(f"{bench.measure}: making {path.name}")
        unfinished = path.with_name(f"unfinished-{path.name}")
        command = [sys.executable, "-m", "benchmarks.agents", name, str(unfinished)]
        subprocess.run(command, cwd=ROOT, env=bench.env, check=True)
        unfinished.rename(path)
    return str(path)


def compare_predictors(bench: Bench, task: str, agent: str, goals: Mapping[str, float]) -> list[Line]:
    """Compare all that can predict with an agent, where each round is a pair."""
    if "stable_baselines3" not in bench.versions:
        return [Line(bench.measure, agent, "s", None, note="stable_baselines3 is not installed")]
    lost = {}
    files = {}
    path = agent_file(bench, agent)
    for name, predictor in PREDICTORS.items():
        absent = [module for module in predictor.modules if module not in bench.versions]
        if absent:
            lost[name] = f"{absent[0]} is not installed"
        elif agent in predictor.agents and not (name == BARE and task == "predict-batch"):
            files[name] = {path: path}
    found: dict[str, dict[str, float]] = {name: {} for name in files}
    repeats, _ = PREDICTIONS[task]
    for turn in range(bench.rounds):
        samples, failed = in_turn(bench, task, files, rounds=1, calls=20 if repeats > 1 else 5, is_held=False)
        lost.update(failed)
        files = {name: rows for name, rows in files.items() if name not in failed}
        for name, values in samples.items():
            found[name][str(turn)] = values[path] / repeats
    bench.close()
    return compare(bench.measure, found, us=US, goals=goals, missing=lost, of=agent)


def predict_one(bench: Bench) -> list[Line]:
    goals = {SB3: 0.10, BARE: 3.0}
    return [line for agent in FLAT for line in compare_predictors(bench, "predict-one", agent, goals)]


def predict_batch(bench: Bench) -> list[Line]:
    return [line for agent in FLAT for line in compare_predictors(bench, "predict-batch", agent, {SB3: 1.2})]


def predict_image(bench: Bench) -> list[Line]:
    return compare_predictors(bench, "predict-image", IMAGE, {TORCH: 2.0})


def first_action(bench: Bench) -> list[Line]:
    if "stable_baselines3" not in bench.versions:
        return [Line(bench.measure, "time", "s", None, note="stable_baselines3 is not installed")]
    path = agent_file(bench, "PPO")
    commands = {name: bench.python(ACT, name, path) for name in (US, SB3)}
    commands["import numpy"] = bench.python("import numpy")
    ran, failed = bench.whole(commands, max(3, bench.rounds // 2))
    return compare(
        bench.measure, pair_by_round(ran), us=US, goals={SB3: 0.08}, peaks=peaks(ran), missing=failed, note="PPO"
    )
