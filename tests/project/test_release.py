"""The wheel and the sdist of a release: metadata, contents, reproducible bytes, and installation without extras."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.helpers.bundled import ARCHIVES, ROOT

pytestmark = pytest.mark.packaging

PYTHONS: Final = re.findall(
    r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text("utf-8")
)
EPOCH: Final = 1_700_000_000
"""2023-11-14 22:13:20 UTC; zips have steps of two seconds."""
OLDEST: Final = {
    "3.10": ("numpy==1.23.0", "safetensors==0.4.4", "jsonschema==4.18.0"),
    "3.11": ("numpy==1.23.2", "safetensors==0.4.4", "jsonschema==4.18.0"),
}
"""The oldest releases that the metadata allows, where there are wheels of them."""
IGNORED: Final = shutil.ignore_patterns(".git", "__pycache__", ".*_cache", ".hypothesis", ".nox", "dist", "*.egg-info")


def run(*command: str, folder: Path, **variables: str) -> str:
    """The output of a command that has to succeed, without the variables of the tests' own Python."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=folder, env=environment | variables, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(source: Path, out: Path, *options: str, **variables: str) -> dict[str, str]:
    """Build with the installed hatchling; the SHA-256 of each file by its name."""
    command = (sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), *options, str(source))
    run(*command, folder=out.parent, SOURCE_DATE_EPOCH=str(EPOCH), **variables)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in out.iterdir()}


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an sdist and a wheel, which is built from the sdist."""
    out = tmp_path_factory.mktemp("release") / "dist"
    assert len(build(ROOT, out)) == 2
    return out


@pytest.fixture(scope="session")
def wheel(dist: Path) -> Path:
    (found,) = dist.glob("sbformat-*-py3-none-any.whl")
    return found


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_a_copy_elsewhere_builds_the_same_bytes(dist: Path, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere"
    shutil.copytree(ROOT, copy, ignore=IGNORED)
    for path in copy.rglob("*"):
        path.chmod(path.stat().st_mode & 0o700)
        os.utime(path, (1, 1))
    assert build(copy, tmp_path / "dist", TZ="Asia/Kathmandu", LC_ALL="C", PYTHONHASHSEED="7") == digests(dist)


def test_the_sdist_builds_itself_and_the_wheel_of_the_checkout(dist: Path, tmp_path: Path) -> None:
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as file:
        file.extractall(tmp_path, filter="data")
    unpacked = tmp_path / sdist.name.removesuffix(".tar.gz")
    assert build(unpacked, tmp_path / "again") == digests(dist)
    (name,) = build(ROOT, tmp_path / "direct", "--wheel").items()
    assert name in digests(dist).items()


def test_files_have_the_time_of_the_epoch(dist: Path, wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        assert {info.date_time for info in file.infolist()} == {(2023, 11, 14, 22, 13, 20)}
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as tar:
        assert {member.mtime for member in tar} == {EPOCH}
        assert {(member.uid, member.uname) for member in tar} == {(0, "")}


SCHEMAS: Final = ("baseline", "data", "graph", "pickled", "report", "sb2-data")
READ_SCHEMA: Final = "from sbformat.schema import load_schema; print(load_schema('data')['$id'])"


def test_the_wheel_has_the_schemas_and_templates(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
        file.extractall(tmp_path)
    assert {"sbformat/py.typed", "sbformat/tools/scan/rules.json"} <= names
    assert {f"sbformat/_schema/{name}.schema.json" for name in SCHEMAS} <= names
    templates = {path.name for path in (ROOT / "sbformat" / "html_report" / "templates").iterdir()}
    assert len(templates) > 3
    assert {f"sbformat/html_report/templates/{name}" for name in templates} <= names
    assert {"sbformat/policies/c/functions.c", "sbformat/policies/pytorch/policy.txt"} <= set(names)
    assert {"LICENSE", "NOTICE.md"} <= {name.rpartition("/")[2] for name in names if ".dist-info/licenses/" in name}
    assert {name.partition("/")[0] for name in names} == {"sbformat", wheel.name.partition("-py3")[0] + ".dist-info"}
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {READ_SCHEMA}"
    assert run(sys.executable, "-c", program, folder=tmp_path).strip().endswith("/schema/data.schema.json")


def test_the_sdist_has_what_the_wheel_and_the_tests_need(dist: Path) -> None:
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "schema/FORMAT.md"} <= names
    assert {
        "CHANGELOG.md",
        "CITATION.cff",
        "CONTRIBUTING.md",
        "NOTICE.md",
        "SECURITY.md",
        "docs/architecture.md",
    } <= names
    assert {"noxfile.py", ".ci/run", ".github/workflows/test.yml", ".pre-commit-config.yaml"} <= names
    assert {f"schema/{name}.schema.json" for name in SCHEMAS} <= names
    assert "sbformat/py.typed" in names


def test_the_wheel_requires_three_packages(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        metadata = file.read(next(name for name in file.namelist() if name.endswith("METADATA"))).decode()
    requires = [line.partition(": ")[2] for line in metadata.splitlines() if line.startswith("Requires-Dist")]
    core = {item.partition(">")[0] for item in requires if "extra ==" not in item}
    assert core == {"numpy", "safetensors", "jsonschema"}
    assert "Requires-Python: >=3.10" in metadata
    assert "Project-URL: Repository, https://github.com/sbformat/sbformat" in metadata


def test_twine_accepts_metadata_and_long_description(dist: Path) -> None:
    files = [str(path) for path in dist.iterdir()]
    text = run(sys.executable, "-m", "twine", "--no-color", "check", "--strict", *files, folder=dist)
    assert text.count("PASSED") == 2


def test_check_wheel_contents_accepts_the_wheel(dist: Path, wheel: Path) -> None:
    text = run(sys.executable, "-m", "check_wheel_contents", "--no-config", str(wheel), folder=dist)
    assert text.strip().endswith(": OK")


def test_the_classifiers_are_known() -> None:
    known = pytest.importorskip("trove_classifiers").classifiers
    used = re.findall(r'^    "(\w[^"]* :: [^"]*)",$', (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
    assert len(used) > 8
    assert set(used) <= known


def test_the_long_description_has_no_relative_links() -> None:
    markdown = pytest.importorskip("readme_renderer.markdown")
    html = markdown.render((ROOT / "README.md").read_text("utf-8"))
    assert html is not None
    targets = re.findall(r'(?:href|src)="([^"]*)"', html)
    assert len(targets) > 5
    assert [target for target in targets if not target.startswith(("https://", "#"))] == []


# -- installation -------------------------------------------------------------------------------------


@cache
def find_python(version: str) -> str | None:
    """The program ``python3.X``, if there is one that runs and is that version."""
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    candidate = sys.executable if version == running else shutil.which(f"python{version}")
    if candidate is None:
        return None
    command = [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return candidate if done.stdout.strip() == version else None


def use_installed(version: str, wheel: Path, tmp_path: Path, *pins: str) -> dict[str, str]:
    """Install the wheel into a fresh environment, use it; the versions of Python and numpy that were used."""
    python = find_python(version)
    if python is None:
        pytest.skip(f"Python {version} is not installed")
    environment, work = tmp_path / "environment", tmp_path / "work"
    work.mkdir()
    run(python, "-m", "venv", str(environment), folder=work)
    installed = str(environment / ("Scripts" if os.name == "nt" else "bin") / "python")
    run(installed, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", str(wheel), *pins, folder=work)
    run(installed, "-m", "pip", "check", folder=work)
    program = str(ROOT / "tests" / "children" / "use_installed.py")
    versions: dict[str, str] = json.loads(run(installed, program, str(ARCHIVES), folder=work))
    assert versions["python"].startswith(f"{version}.")
    return versions


@pytest.mark.parametrize("version", PYTHONS)
def test_the_wheel_works_without_extras(version: str, wheel: Path, tmp_path: Path) -> None:
    assert use_installed(version, wheel, tmp_path)["numpy"]


@pytest.mark.parametrize("version", OLDEST)
def test_the_wheel_works_with_the_oldest_releases_that_it_allows(version: str, wheel: Path, tmp_path: Path) -> None:
    assert use_installed(version, wheel, tmp_path, *OLDEST[version])["numpy"].startswith("1.23.")


@pytest.mark.parametrize("version", PYTHONS)
def test_every_python_has_wheels_of_all_that_is_required(version: str, wheel: Path, tmp_path: Path) -> None:
    run(
        sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--target", str(tmp_path / "target"),
        "--python-version", version, "--only-binary", ":all:", str(wheel), folder=tmp_path,
    )  # fmt: skip


def test_the_lower_bounds_of_the_metadata_are_tested() -> None:
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    required = dict(re.findall(r'"(numpy|safetensors|jsonschema)>=([\d.]+)"', text))
    for pins in OLDEST.values():
        for pin in pins:
            name, _, version = pin.partition("==")
            assert f"{version}.".startswith(f"{required[name]}."), pin
