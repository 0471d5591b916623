"""Exports of archives by others: of SB3, beside real SB3, and of SB2, beside what SB2 predicted for them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import pytest

pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")
pytest.importorskip("sb3_contrib")
pytest.importorskip("onnxruntime")

import numpy as np

import sbformat
from tests.helpers.c_policy import CPolicy
from tests.helpers.exact_policy import measure_rounding, measure_sensitivity
from tests.helpers.javascript_policy import JavaScriptPolicy, Node, run_node
from tests.helpers.onnx_policy import OnnxPolicy
from tests.helpers.sb2_predictions import assert_same_recording, recorded_agents
from tests.helpers.shared_files import CORPUS, GENERATED, SHARED, summarize_counts
from tests.interop.export_oracle import NormalizedReal, check_export, check_recurrence, compare_with_policy
from tests.interop.policy_agents import draw_observations, stack_observations
from tests.interop.policy_oracle import COUNT, RealPolicy, assert_same_action
from tests.interop.rebuild_oracle import ARCHIVES, Case, loadable, made_space, sample_archives
from tests.interop.test_policies_archives import (
    OLD,
    PAIRS,
    OfGoals,
    draw_like,
    each,
    load_normalizer,
    load_original,
    rebuild_old_network,
    rows_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(not SHARED.exists(), reason="no archives beside the project"),
]

COUNTED: Final[Counter[str]] = Counter()
_summary = summarize_counts(COUNTED, "test_export_archives.py:")


_node = pytest.fixture(scope="module", name="node")(run_node)


def export(policy: Any, folder: Path, node: Node) -> Iterator[Any]:
    """Export all outputs as ONNX, JavaScript and C; of HER before SB3 1.1 with the Dict that it has today."""
    if isinstance(policy, OfGoals):
        yield from map(OfGoals, export(policy.policy, folder, node))
        return
    path = folder / "policy.onnx"
    yield OnnxPolicy(policy, path, sbformat.export_onnx(policy, path, outputs=policy.graph.outputs))
    module = folder / "policy.mjs"
    yield JavaScriptPolicy(policy, node, module, sbformat.export_javascript(policy, module))
    source = folder / "policy.c"
    report = sbformat.export_c(policy, source, outputs=policy.graph.outputs)
    yield CPolicy(policy, source, report, *choose_compiler(policy))


def choose_compiler(policy: Any) -> tuple[str, tuple[str]]:
    """Return a compiler and its optimization, by the digest of the graph."""
    digest = crc32(repr(policy.graph.nodes).encode())
    return ("gcc", "clang")[digest % 2], (("-O0",), ("-O2",))[digest // 2 % 2]


def allow_sensitivity(policy: Any, exported: Any, observations: list[Any]) -> dict[str, float]:
    """Return how far the last bits of observations may move outputs of C and JavaScript.

    Their sums have another order than those of torch, numpy and onnxruntime, which agree more closely. There are
    trained networks whose sums cancel.
    """
    if exported.report.format == "onnx":
        return {}
    batch = stack_observations(observations)
    if isinstance(policy, OfGoals):
        return measure_sensitivity(policy.policy, policy.convert(batch), COUNT)
    return measure_sensitivity(policy, batch, COUNT)


@pytest.mark.parametrize("path", each(sample_archives([*loadable(ARCHIVES), *OLD], 3)))
def test_an_archive_acts_as_in_sb3(path: Path, node: Node, tmp_path: Path) -> None:
    case = Case(path)
    policy = sbformat.load_policy(path) if path in OLD else load_original(case)
    real = RealPolicy(rebuild_old_network(case, policy.algorithm) if path in OLD else case.model)
    observations = draw_observations(real.observation_space, COUNT)
    for exported in export(policy, tmp_path, node):
        check_export(real, policy, exported, observations, allow_sensitivity(policy, exported, observations))
        if real.is_recurrent:
            check_recurrence(real, policy, exported)
    COUNTED["archives of SB3"] += 1


@pytest.mark.parametrize(("path", "beside"), [pytest.param(*pair, id=pair[0].name) for pair in PAIRS])
def test_statistics_beside_an_archive_are_exported(path: Path, beside: Path, node: Node, tmp_path: Path) -> None:
    case = Case(path)
    statistics, _ = sbformat.rebuild_vecnormalize(beside)
    normalizer = load_normalizer(statistics, tmp_path / "statistics.pkl", RealPolicy(case.model))
    real, policy = NormalizedReal(case.model, normalizer), sbformat.load_policy(path, vecnormalize=statistics)
    observations = draw_like(normalizer.obs_rms, real.observation_space, np.random.default_rng(0))
    rows = [rows_of(observations, index) for index in range(COUNT)]
    for exported in export(policy, tmp_path, node):
        check_export(real, policy, exported, rows, allow_sensitivity(policy, exported, rows))
    COUNTED["archives with statistics"] += 1


RECORDED: Final = recorded_agents(SHARED / "policies" / "sb2")


@pytest.mark.parametrize("agent", RECORDED, ids=lambda path: path.name)
def test_an_agent_predicts_what_sb2_did(agent: Path, node: Node, tmp_path: Path) -> None:
    for exported in export(sbformat.load_policy(agent), tmp_path, node):
        assert_same_recording(exported, agent)
    COUNTED["recorded agents of SB2"] += 1


SB2: Final = [path for folder in (CORPUS, GENERATED) for path in sorted((folder / "sb2").glob("*.[pz][ki][lp]"))]


def load_sb2(path: Path) -> Any:
    try:
        return sbformat.load_policy(path, seed=0)
    except sbformat.UnsupportedError:  # tests/nets/test_sb2_predictions.py names them
        return None


@pytest.mark.parametrize("path", each(SB2))
def test_an_agent_of_sb2_acts_as_its_policy(path: Path, node: Node, tmp_path: Path) -> None:
    policy = load_sb2(path)
    if policy is None:
        with pytest.raises(sbformat.UnsupportedError):
            sbformat.export_onnx(path, tmp_path / "policy.onnx")
        assert not list(tmp_path.iterdir())
        COUNTED["agents of SB2 refused by name"] += 1
        return
    for exported in export(policy, tmp_path, node):
        check_like_policy(policy, exported)
    COUNTED["agents of SB2"] += 1


def check_like_policy(policy: Any, exported: Any) -> None:
    """Compare with ``Policy`` where there is no SB2 to run: batches, with a state and new episodes."""
    observations = draw_observations(made_space(policy.observation_space), COUNT)
    rounding = measure_rounding(policy, stack_observations(observations), COUNT)
    error = max(rounding["action"], rounding.get("mean", 0.0))
    state, starts = None, np.ones(COUNT)
    for count in (COUNT, 7, 1):
        rows = stack_observations(observations[:count])
        given = (None if state is None else state[:count], starts[:count])
        found = compare_with_policy(policy, exported, rows, rounding, *given)
        expected = policy.predict(rows, *given, deterministic=True)[0]
        assert_same_action(exported.predict(rows, *given)[0], expected, f"batch of {count}", error)
        state, starts = found.get("state"), np.arange(COUNT) % 3 == 0
