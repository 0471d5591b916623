"""Descriptions of real networks: text and JSON of the generated archives, and actions over a sequence of steps."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from jsonschema import Draft202012Validator

import sbformat
from sbformat.cli import main
from sbformat.policies.describe import summarize
from sbformat.schema import load_schema
from tests.helpers.shared_files import SHARED, generated_files, summarize_counts

if TYPE_CHECKING:
    from pathlib import Path

NEWEST = generated_files("*.zip", "2.9.2")
SB2 = sorted((SHARED / "policies" / "sb2").glob("*.zip"))
GRAPHS = Draft202012Validator(load_schema("graph"))
REPORTS = Draft202012Validator(load_schema("report"))
COUNTS: Counter[str] = Counter()
summary_line = summarize_counts(COUNTS, "networks:")
LSTM = next((path for path in NEWEST if path.name == "recurrentppo-MlpLstmPolicy.zip"), None)
DICT = next((path for path in NEWEST if path.name == "her-sac-MultiInputPolicy.zip"), None)


@pytest.mark.parametrize("path", [*NEWEST, *SB2], ids=lambda path: path.stem)
def test_every_network_has_a_description(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        graph = sbformat.policy_graph(path, vecnormalize=False)
    except sbformat.SbformatError as error:
        COUNTS[type(error).__name__] += 1
        pytest.skip(str(error))
    COUNTS["described"] += 1
    GRAPHS.validate(json.loads(json.dumps(graph.to_dict(), allow_nan=False)))
    summary = summarize(graph)
    tensors = {weight.address for weight in graph.weights.values() if isinstance(weight.source, sbformat.TensorInfo)}
    shown = [address for layer in summary.layers for address in layer.weights]
    assert set(shown) == tensors
    assert sum(layer.parameter_count for layer in summary.layers) >= graph.parameter_count > 0
    assert [head.name for head in summary.heads] == list(graph.outputs)
    text = graph.describe()
    assert all(f"\n  {layer.name} " in text for layer in summary.layers)
    main(["inspect", str(path), "--format", "json"])
    report = json.loads(capsys.readouterr().out)
    REPORTS.validate(report)
    assert report["files"][0]["network"]["parameter_count"] == graph.parameter_count


def predict(capsys: pytest.CaptureFixture[str], path: Path, observation: object, *options: str) -> list[object]:
    """The actions that the command prints."""
    assert main(["predict", str(path), "--observation", json.dumps(observation), "--format", "json", *options]) == 0
    document = json.loads(capsys.readouterr().out)
    REPORTS.validate(document)
    (report,) = document["files"]
    made: list[object] = report["outputs"]["value"] if report["outputs"] else report["actions"]
    return made


@pytest.mark.skipif(LSTM is None, reason="there are no generated archives")
def test_a_sequence_carries_the_state_from_step_to_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert LSTM is not None
    policy = sbformat.load_policy(LSTM)
    shape = policy.observation_space.shape  # type: ignore[attr-defined]
    steps = [[0.3 * number] * shape[0] for number in range(5)]
    apart = predict(capsys, LSTM, steps, "--outputs")
    together = predict(capsys, LSTM, steps, "--outputs", "--sequence")
    assert together[0] == pytest.approx(apart[0], rel=1e-5)
    assert together[-1] != pytest.approx(apart[-1], rel=1e-4)
    state, expected = None, []
    for number, step in enumerate(steps):
        action, state = policy.predict(step, state, [number == 0], deterministic=True)
        expected.append(action.tolist())
    assert predict(capsys, LSTM, steps, "--sequence") == expected


@pytest.mark.skipif(DICT is None, reason="there are no generated archives")
def test_a_dict_observation_is_an_object_or_an_npz(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    import numpy as np

    assert DICT is not None
    parts = {item.key: item.shape for item in sbformat.policy_graph(DICT).inputs}
    batch = {str(key): np.linspace(-1, 1, 3 * shape[0]).reshape(3, *shape) for key, shape in parts.items()}
    plain = {key: part.tolist() for key, part in batch.items()}
    expected = sbformat.load_policy(DICT).predict(batch, deterministic=True)[0].tolist()
    assert predict(capsys, DICT, plain) == expected
    np.testing.assert_allclose(predict(capsys, DICT, plain, "--sequence"), expected, rtol=1e-5)
    np.savez(tmp_path / "o.npz", **batch)
    assert main(["predict", str(DICT), "--observation", str(tmp_path / "o.npz"), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"][0]["actions"] == expected
