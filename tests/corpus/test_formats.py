"""Agents of Stable Baselines 2, statistics and replay buffers of real libraries: values as those libraries have them.

Reads ``../shared/corpus`` and ``../shared/generated``, and is skipped where they are not. At the end of the run this
module writes one line to the terminal: how many files of each kind it read, and how many lists it had names for.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import sbformat
from sbformat.cli import main
from sbformat.schema import load_schema
from sbformat.tools.diff import diff
from sbformat.tools.inspect import inspect
from tests.helpers.shared_files import CORPUS, GENERATED, SHARED, generated_files, summarize_counts

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.exhaustive

if not os.path.isdir(SHARED):
    pytest.skip("there is no ../shared beside the project", allow_module_level=True)

READ: Final[Counter[str]] = Counter()
_summary = summarize_counts(READ, "test_corpus_family.py read")

ROWS: Final = [row for row in json.loads((CORPUS / "manifest.json").read_text()) if row["kind"] != "sb3"]
AGENTS: Final = [row for row in ROWS if row["kind"] in ("sb2zip", "sb2pkl")]
STATISTICS: Final = [row for row in ROWS if row["kind"] in ("sb2rms", "vecnormalize")]
OTHERS: Final = [row for row in ROWS if row["kind"] == "pkl-name"]
SB2: Final = sorted((GENERATED / "sb2").glob("*.expected.npz"))
OBJECTS: Final = sorted(
    path
    for pattern in ("vecnormalize*.pkl", "replaybuffer*.pkl", "*_rms.pkl")
    for path in generated_files(pattern, "[0-9]*", "sb2")
)


def name(row: dict[str, Any]) -> str:
    return str(row["file"])


def digest(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"))).tobytes()).hexdigest()


def serves_every_command(path: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Inspect, validate, scan, diff and extract take it, and print what the published schema says."""
    from jsonschema import Draft202012Validator

    validator = Draft202012Validator(load_schema("report"))
    output = str(tmp_path / "out.npz")
    for command in (["inspect"], ["validate"], ["scan"], ["diff", str(path)], ["extract", "-o", output, "--force"]):
        status = main([*command, str(path), "--format", "json"])
        report = json.loads(capsys.readouterr().out)
        validator.validate(report)
        assert status == 0 or command == ["scan"], (command, report)
        assert report["files"][0].get("reason") != "harmful", report["files"][0]["findings"]
        assert report["files"][0].get("verdict") != "broken", report["files"][0]["findings"]


@pytest.mark.parametrize("row", AGENTS, ids=name)
def test_agents_of_sb2_have_the_parameters_that_their_authors_saved(
    row: dict[str, Any], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = CORPUS / row["file"]
    archive = sbformat.read(path)
    if archive.format == "running-mean-std":  # statistics under the name of an agent's folder
        READ["statistics among the agents"] += 1
        serves_every_command(path, capsys, tmp_path)
        return
    assert archive.format == {"sb2zip": "sb2-zip", "sb2pkl": "sb2-pickle"}[row["kind"]]
    parameters = archive.parameters["parameters"].to_numpy()
    assert parameters
    assert not inspect(archive).broken
    expected = json.loads((CORPUS / row["expected"]).read_text()) if "expected" in row else {}
    if "params" in expected:
        assert [(str(a.dtype), list(a.shape), digest(a)) for a in parameters.values()] == [
            tuple(item[1:]) for item in expected["params"]
        ]
        if expected["container"] != "list":
            assert list(parameters) == [item[0] for item in expected["params"]]
    READ[f"{archive.format} of {archive.algorithm.name}"] += 1
    if archive.notes:
        READ["lists with names" if not all(map(str.isdigit, parameters)) else "lists without names"] += 1
    assert archive == sbformat.read(path)
    serves_every_command(path, capsys, tmp_path)


@pytest.mark.parametrize("path", SB2, ids=lambda path: path.name)
@pytest.mark.parametrize("suffix", [".zip", ".pkl"])
def test_generated_agents_of_sb2_equal_what_sb2_had(
    path: Path, suffix: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    source = path.with_name(path.name.replace(".expected.npz", suffix))
    archive = sbformat.read(source)
    found = archive.parameters["parameters"].to_numpy()
    with np.load(path) as expected:
        assert list(found) == json.loads(path.with_suffix(".json").read_text())["order"]
        for key, array in found.items():
            np.testing.assert_array_equal(array, expected[key], strict=True)
    READ[f"generated {archive.format}"] += 1
    serves_every_command(source, capsys, tmp_path)


@pytest.mark.parametrize("path", SB2, ids=lambda path: path.name)
def test_the_zip_and_the_pickle_of_one_agent_of_sb2_hold_the_same(path: Path) -> None:
    made = [sbformat.read(path.with_name(path.name.replace(".expected.npz", suffix))) for suffix in (".zip", ".pkl")]
    report = diff(*made)
    assert {change.entry for change in report.changes} <= {"data"}
    assert all(row.different == 0 for row in report.state_dicts)


@pytest.mark.parametrize("row", STATISTICS, ids=name)
def test_statistics_are_read(row: dict[str, Any], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    archive = sbformat.read(CORPUS / row["file"])
    statistics = archive.parameters["statistics"].to_numpy()
    if row["kind"] == "sb2rms":
        expected = json.loads((CORPUS / row["expected"]).read_text())
        assert [digest(np.asarray(statistics[key])) for key in ("mean", "var")] == [expected["mean"], expected["var"]]
        assert statistics["count"] == expected["count"]
    else:
        found = statistics["obs_rms"]
        for part in (found,) if "mean" in found else found.values():
            assert {"mean", "var", "count"} == set(part)
    READ[archive.format] += 1
    serves_every_command(CORPUS / row["file"], capsys, tmp_path)


@pytest.mark.parametrize("path", OBJECTS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_generated_statistics_and_buffers_are_read(
    path: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    archive = sbformat.read(path)
    kinds = {"vecnormalize": "vecnormalize", "replaybuffer": "replay-buffer"}
    assert archive.format == kinds.get(path.stem.partition("-")[0], "running-mean-std")
    expected_file = path.with_name(path.name.replace(".pkl", ".expected.json"))
    if expected_file.exists() and archive.format == "vecnormalize":
        expected = json.loads(expected_file.read_text())
        expected = expected.get("obs_rms") or {key: expected[f"obs_{key}"] for key in ("mean", "var", "count")}
        found = archive.parameters["statistics"].to_numpy()["obs_rms"]
        pairs = [(found, expected)] if "mean" in expected else [(found[key], expected[key]) for key in expected]
        for mine, theirs in pairs:
            np.testing.assert_array_equal(mine["mean"], theirs["mean"])
            np.testing.assert_array_equal(mine["var"], theirs["var"])
            assert mine["count"] == theirs["count"]
    READ[f"generated {archive.format}"] += 1
    serves_every_command(path, capsys, tmp_path)


@pytest.mark.parametrize("row", OTHERS, ids=name)
def test_pickles_of_something_else_are_told_what_they_are(row: dict[str, Any]) -> None:
    with pytest.raises(sbformat.UnsupportedError, match="a pickle of collections.deque: neither statistics"):
        sbformat.read(CORPUS / row["file"])
    READ["pickles of something else, refused"] += 1


def test_a_file_object_is_read_as_its_path_is() -> None:
    path = SB2[0].with_name(SB2[0].name.replace(".expected.npz", ".pkl"))
    assert sbformat.read(io.BytesIO(path.read_bytes())) == sbformat.read(path) == sbformat.reads(path.read_bytes())
