"""validate, inspect and a retyped key on real archives of every era, when they lie beside the project."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

import sbformat
from sbformat.tools.inspect import inspect
from tests.helpers.bundled import zipped
from tests.helpers.shared_files import SHARED, add_summary_line, generated_files

pytestmark = pytest.mark.exhaustive

if not SHARED.is_dir():
    pytest.skip("there is no ../shared beside the project", allow_module_level=True)


def archives() -> list[Path]:
    """Every SB3 archive that must read."""
    manifest = json.loads((SHARED / "corpus" / "manifest.json").read_text("utf-8"))
    real = [SHARED / "corpus" / row["file"] for row in manifest if row["kind"] == "sb3"]
    generated = generated_files("*.zip", "[0-9]*", "extra")
    return real + [path for path in generated if "corrupt" not in path.name]


def test_validate_finds_no_error_and_inspect_nothing_broken(request: pytest.FixtureRequest) -> None:
    found = [(path.name, row) for path in archives() for row in sbformat.iter_problems(path)]
    assert [row for row in found if row[1].kind != "unchecked"] == []
    unchecked = [row.message for _, row in found]
    assert len(unchecked) == 12
    assert all("MyExtractor" in message for message in unchecked)
    reports = [inspect(sbformat.read(path)) for path in archives()]
    assert all(not report.broken for report in reports)
    assert all(report.algorithm is not None and report.algorithm.name for report in reports)
    add_summary_line(request.config, f"corpus: validated {len(reports)} archives, no error, nothing broken")


@pytest.mark.parametrize("value", [[[{"a": 1}]], 12345.678], ids=["array of arrays of objects", "number"])
def test_a_wrong_type_is_found_for_every_key_of_every_algorithm(value: Any) -> None:
    seen: set[tuple[str | None, str]] = set()
    refused: set[str] = set()
    for path in archives():
        with zipfile.ZipFile(path) as file:
            data = json.loads(file.read("data"))
        algorithm = sbformat.reads(zipped({"data": json.dumps(data).encode(), "policy.pth": b""})).algorithm.name
        keys = [key for key in data if (algorithm, key) not in seen and key != "policy_class"]
        seen |= {(algorithm, key) for key in keys}
        for key in keys:
            changed = sbformat.reads(json.dumps({**data, key: value}).encode()).data
            places = {row.loc.split("/")[1] for row in sbformat.iter_problems(changed) if row.level == "error"}
            if key in places:
                refused.add(key)
    known = {key for _, key in seen}
    if isinstance(value, list):
        assert refused == known
    else:
        assert len(refused) > len(known) // 2
