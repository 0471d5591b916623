"""An agent in the SB3 1.x of its time, and the same agent rebuilt in today's: 50 observations, the same actions.

``SBFORMAT_SB3_1`` names a Python interpreter that has SB3 1.6 and sb3-contrib 1.6, with gym::

    python3.9 -m venv old && old/bin/pip install 'setuptools==65.5.0' 'wheel<0.40' 'pip<24.1'
    old/bin/pip install --no-build-isolation gym==0.21 torch==1.12.1 numpy==1.23.5 \
        stable-baselines3==1.6.2 sb3-contrib==1.6.2
    SBFORMAT_SB3_1=old/bin/python python -m pytest -m interop tests/interop/test_rebuild_acts_alike.py

Those that this release cannot load itself are counted, by why not; so are those that no target can have.
"""

# ruff: noqa: E402 -- importorskip stands before what needs it
from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")
pytest.importorskip("sb3_contrib")

import numpy as np

from tests.helpers.shared_files import summarize_counts
from tests.interop.old_sb3_child import predict
from tests.interop.rebuild_envs import sample
from tests.interop.rebuild_oracle import ARCHIVES, Case, loadable, name_of

if TYPE_CHECKING:
    from collections.abc import Mapping

INTERPRETER: Final = os.environ.get("SBFORMAT_SB3_1", "")
CHILD: Final = Path(__file__).parent / "old_sb3_child.py"
COUNT: Final = 50
TOLERANCE: Final = 1e-5
RELEASES: Final = (0, 10), (1, 7)
"""The first release whose agents SB3 1.6 loads, and the first whose layers it does not know."""

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(not INTERPRETER, reason="SBFORMAT_SB3_1 names no interpreter with SB3 1.6"),
    pytest.mark.skipif(not ARCHIVES, reason="no archives beside the project"),
]

COUNTED: Final[Counter[str]] = Counter()
_summary = summarize_counts(COUNTED, "test_rebuild_acts_alike.py:")


def release_of(path: Path) -> tuple[int, int]:
    """The release that wrote an archive; 0.0 before 0.9, which SB3 did not say."""
    import sbformat

    found = re.match(r"(\d+)\.(\d+)", sbformat.read(path).stable_baselines3_version or "")
    return (int(found[1]), int(found[2])) if found else (0, 0)


PATHS: Final = (
    [path for path in loadable(ARCHIVES) if RELEASES[0] <= release_of(path) < RELEASES[1]] if INTERPRETER else []
)


def observe(case: Case) -> tuple[Any, Any]:
    """The same observations as the old agent and as the rebuilt one take them."""
    random = np.random.default_rng(7)
    case.observation_space.seed(7)
    rows = [sample(case.observation_space, random) for _ in range(COUNT)]
    if not isinstance(rows[0], dict):
        new = np.stack([np.asarray(row) for row in rows])
        return new, new
    new = {key: np.stack([np.asarray(row[key]) for row in rows]) for key in rows[0]}
    if case.goals is None:
        return new, new
    return np.concatenate([new["observation"], new["desired_goal"]], axis=1), new


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Mapping[Path, Any]:
    """By path: the actions of the old agent, or why there are none."""
    folder = tmp_path_factory.mktemp("acts")
    jobs = []
    for index, path in enumerate(PATHS):
        case = Case(path)
        old, _ = observe(case)
        np.savez(folder / f"{index}.npz", **(old if isinstance(old, dict) else {"observation": old}))
        jobs.append(
            {
                "path": str(path), "algorithm": case.report.algorithm, "keys": isinstance(old, dict),
                "observations": str(folder / f"{index}.npz"), "actions": str(folder / f"{index}.npy"),
            }
        )  # fmt: skip
    (folder / "jobs.json").write_text(json.dumps(jobs))
    ran = subprocess.run(
        [INTERPRETER, str(CHILD), str(folder / "jobs.json")], capture_output=True, text=True, check=False, timeout=3600
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    reasons = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(reasons) == len(jobs)
    return {
        path: np.load(job["actions"]) if reason is None else reason for path, job, reason in zip(PATHS, jobs, reasons)
    }


@pytest.mark.parametrize("path", [pytest.param(path, id=name_of(path)) for path in PATHS])
def test_the_rebuilt_agent_acts_as_the_original_did(path: Path, answers: Mapping[Path, Any]) -> None:
    found = answers[path]
    if isinstance(found, str):
        COUNTED[f"not loaded by SB3 1.6: {found[:90]}"] += 1
        pytest.skip(found)
    torch.set_num_threads(1)
    case = Case(path)
    _, new = observe(case)
    actions = predict(case.model, new, recurrent=case.report.algorithm == "RecurrentPPO")
    assert actions.shape == found.shape
    np.testing.assert_allclose(actions, found, rtol=TOLERANCE, atol=TOLERANCE)
    COUNTED[f"{case.report.algorithm}: {COUNT} equal actions"] += 1


def test_most_agents_were_compared(answers: Mapping[Path, Any]) -> None:
    """Whatever SB3 1.6 cannot load is an exception; generated archives of its own release are none."""
    failed = {name_of(path): reason for path, reason in answers.items() if isinstance(reason, str)}
    assert len(failed) < len(answers) // 4
    own = {name: reason for name, reason in failed.items() if name.startswith("1.6.2/")}
    assert own == {}
