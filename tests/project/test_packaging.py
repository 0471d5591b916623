"""The schemas are found in a wheel, an sdist and an editable install; the metadata is what it should be."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.helpers.bundled import ROOT


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a wheel and an sdist, built without the network."""
    out = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)],
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out


SCHEMAS = ("data", "graph", "pickled", "report", "sb2-data")
READ_SCHEMA = "from sbformat.schema import load_schema; import json; print(json.dumps(load_schema('data')['$id']))"


def read_schema(package: Path, folder: Path) -> str:
    """The name of the schema that the package in a folder finds, from another folder."""
    program = f"import sys; sys.path.insert(0, {str(package)!r}); {READ_SCHEMA}"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
    name: str = json.loads(done.stdout)
    return name


def test_the_wheel_holds_the_schemas(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
        file.extractall(tmp_path)
    assert {"sbformat/py.typed", *(f"sbformat/_schema/{name}.schema.json" for name in SCHEMAS)} <= names
    templates = {path.name for path in (ROOT / "sbformat" / "html_report" / "templates").iterdir()}
    assert len(templates) > 3
    assert {f"sbformat/html_report/templates/{name}" for name in templates} <= names
    assert {name.partition("/")[0] for name in names} == {"sbformat", wheel.name.partition("-py3")[0] + ".dist-info"}
    assert read_schema(tmp_path, tmp_path) == "urn:sbformat:data"


def test_the_sdist_holds_what_the_wheel_is_made_of(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "schema/FORMAT.md"} <= names
    assert {"CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "SECURITY.md", "docs/architecture.md"} <= names
    assert {"noxfile.py", ".ci/run", ".github/workflows/test.yml", ".pre-commit-config.yaml"} <= names
    assert {f"schema/{name}.schema.json" for name in SCHEMAS} <= names
    assert "sbformat/py.typed" in names


def test_the_checkout_finds_its_schemas(tmp_path: Path) -> None:
    assert read_schema(ROOT, tmp_path) == "urn:sbformat:data"


def test_three_packages_and_no_more_at_run_time(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        metadata = file.read(next(name for name in file.namelist() if name.endswith("METADATA"))).decode()
    requires = [line.partition(": ")[2] for line in metadata.splitlines() if line.startswith("Requires-Dist")]
    core = {item.partition(">")[0] for item in requires if "extra ==" not in item}
    assert core == {"numpy", "safetensors", "jsonschema"}
    assert "Requires-Python: >=3.10" in metadata
    assert "Project-URL: Repository, https://github.com/sbformat/sbformat" in metadata
