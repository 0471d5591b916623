"""``.ci/release.py`` in a copy of the repository: what it changes, what it refuses, and the notes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tarfile
from typing import TYPE_CHECKING

import pytest

from tests.helpers.bundled import ROOT

if TYPE_CHECKING:
    from pathlib import Path

COPIED = (".ci", "benchmarks", "docs")
AUTHOR = ("-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A repository with the files that the program may change, and one commit."""
    for name in COPIED:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "*.png"))
    (tmp_path / "sbformat").mkdir()
    for path in (*ROOT.glob("*.md"), ROOT / "CITATION.cff", ROOT / "sbformat" / "__init__.py"):
        shutil.copyfile(path, tmp_path / path.relative_to(ROOT))
    run_git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    commit(tmp_path, "Begin")
    return tmp_path


def run_git(folder: Path, *arguments: str) -> str:
    command = ["git", *AUTHOR, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def commit(folder: Path, message: str) -> None:
    run_git(folder, "add", "--all")
    run_git(folder, "commit", "--quiet", "--message", message)


def release(folder: Path, *arguments: str) -> tuple[int, str, str]:
    """Run the program; its status, output and errors."""
    command = [sys.executable, str(folder / ".ci" / "release.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def add_entry(folder: Path) -> None:
    path = folder / "CHANGELOG.md"
    entry = "## [Unreleased]\n\n### Added\n\n- [Something](docs/install.md) new.\n"
    path.write_text(path.read_text("utf-8").replace("## [Unreleased]\n", entry, 1), "utf-8")
    commit(folder, "Add something")


def read(folder: Path, name: str) -> str:
    return (folder / name).read_text("utf-8")


def test_two_releases_state_version_and_date_everywhere(copy: Path) -> None:
    for version, date in (("0.7.0", "2027-01-02"), ("0.7.1", "2027-03-04")):
        add_entry(copy)
        status, out, err = release(copy, "prepare", version, "--date", date)
        assert (status, err) == (0, "")
        changed = run_git(copy, "diff", "--name-only").split()
        assert changed == [line for line in out.splitlines() if line in changed]
        assert {"CHANGELOG.md", "CITATION.cff", "docs/how-to/scan-in-ci.md", "sbformat/__init__.py"} <= set(changed)
        commit(copy, f"Release {version}")
        run_git(copy, "tag", f"v{version}")
        run_git(copy, "update-ref", "refs/remotes/origin/main", "HEAD")
        assert release(copy, "check", f"v{version}") == (0, "", "")
    assert '\n__version__ = "0.7.1"\n' in read(copy, "sbformat/__init__.py")
    assert "\nversion: 0.7.1\ndate-released: 2027-03-04\nlicense: MIT\n" in read(copy, "CITATION.cff")
    for name in ("README.md", "docs/index.md", "docs/install.md"):
        assert '`pip install "sbformat[cli]"` installs' in read(copy, name)
    recipes = read(copy, "docs/how-to/scan-in-ci.md")
    assert set(re.findall(r"(?:release |@v|rev: v)(\d+\.\d+\.\d+)", recipes)) == {"0.7.1"}
    assert "\nThe recipes name release 0.7.1.\n\n## " in recipes
    changelog = read(copy, "CHANGELOG.md")
    assert re.findall(r"^## .*", changelog, re.MULTILINE) == [
        "## [Unreleased]", "## [0.7.1] - 2027-03-04", "## [0.7.0] - 2027-01-02",
    ]  # fmt: skip
    links = [line for line in changelog.splitlines() if re.match(r"\[[\w.]+\]: ", line)]
    assert [line.partition("sbformat/sbformat/")[2] for line in links] == [
        "compare/v0.7.1...main", "releases/tag/v0.7.1", "releases/tag/v0.7.0",
    ]  # fmt: skip
    for path in copy.rglob("*.md"):
        text = path.read_text("utf-8")
        assert "not released yet" not in text
        assert "first release will be" not in text
        assert "As soon as there is a release" not in text


def test_the_notes_are_the_section_of_the_release_with_absolute_links(copy: Path) -> None:
    add_entry(copy)
    assert release(copy, "prepare", "0.7.0")[0] == 0
    status, out, _ = release(copy, "notes", "v0.7.0")
    assert status == 0
    link = "https://github.com/sbformat/sbformat/blob/v0.7.0/docs/install.md"
    assert out.startswith(f"### Added\n\n- [Something]({link}) new.\n")
    assert "## [" not in out
    assert "[Unreleased]" not in out
    assert re.findall(r"\]\((?!https://)[^)]*\)", out) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["prepare", "0.2"], "expected a version of three numbers, such as 0.2.0, got '0.2'"),
        (["prepare", "v0.2.0"], "expected a version of three numbers"),
        (["prepare", "0.02.0"], "expected a version of three numbers"),
        (["prepare", "0.6.9"], "expected a version after 0.7.0, the newest in CHANGELOG.md, got 0.6.9"),
        (["prepare", "0.7.0"], "expected a version after 0.7.0"),
        (["prepare", "0.8.0"], "nothing is listed below [Unreleased] in CHANGELOG.md"),
        (["check", "0.7.0"], "expected a tag such as v0.2.0, got '0.7.0'"),
        (["check", "v0.8.0"], "__init__.py: expected a line that begins with '__version__ = \"0.8.0\"'"),
        (["check", "v0.7.0"], "the commit of v0.7.0 is not on main"),
        (["notes", "v0.8.0"], "CHANGELOG.md has no section about 0.8.0"),
    ],
)
def test_what_is_no_release_is_refused(copy: Path, arguments: list[str], message: str) -> None:
    assert release(copy, "prepare", "0.7.0")[0] == 0
    run_git(copy, "update-ref", "refs/remotes/origin/main", "HEAD")
    commit(copy, "Release 0.7.0 on another branch")
    status, out, err = release(copy, *arguments)
    assert (status, out) == (2, "")
    assert err.startswith("release.py: ")
    assert message in err
    assert run_git(copy, "status", "--porcelain") == ""


def test_a_tree_with_changes_a_tag_and_a_forgotten_sentence_are_refused(copy: Path) -> None:
    (copy / "notes.txt").write_text("")
    assert "expected a clean working tree" in release(copy, "prepare", "0.7.0")[2]
    (copy / "notes.txt").unlink()
    run_git(copy, "tag", "v0.7.0")
    assert "the tag v0.7.0 exists already" in release(copy, "prepare", "0.7.0")[2]
    (copy / "docs" / "new.md").write_text("It is not released yet.\n")
    commit(copy, "Add a page")
    assert "docs/new.md says 'not released yet', and no row of EDITS" in release(copy, "prepare", "0.7.1")[2]
    (copy / "docs" / "new.md").unlink()
    path = copy / "CITATION.cff"
    path.write_text(re.sub(r"\nversion: .*", "", path.read_text()))
    commit(copy, "Break the citation")
    assert "CITATION.cff: expected a text like " in release(copy, "prepare", "0.7.1")[2]
    assert run_git(copy, "status", "--porcelain") == ""


def test_the_archive_for_implementers_runs_without_the_repository(copy: Path, tmp_path: Path) -> None:
    for name in ("conformance", "schema"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(ROOT / "LICENSE", copy / "LICENSE")
    commit(copy, "Add vectors")
    status, out, err = release(copy, "vectors", "v0.7.0", str(tmp_path))
    assert (status, err) == (0, "")
    name = "sbformat-conformance-v0.7.0"
    with tarfile.open(out.strip()) as file:
        assert {path.split("/")[0] for path in file.getnames()} == {name}
        file.extractall(tmp_path / "unpacked", filter="data")
    folder = tmp_path / "unpacked" / name
    assert {path.name for path in folder.iterdir()} == {
        "IMPLEMENT-L0.md", "IMPLEMENT-L1.md", "LICENSE", "conformance", "schema",
    }  # fmt: skip
    assert (folder / "schema" / "tables" / "nfkc.json").exists()
    decoder = folder / "decoder.py"
    decoder.write_text(
        'import sys\nif sys.argv[1:]: sys.exit(2)\nprint(\'{"outcome": "container failure"}\')\nsys.exit(1)\n'
    )
    command = [sys.executable, "-ESs", "conformance/run.py", "--decoder", f"{sys.executable} {decoder}"]
    selected = ("--level", "0", "--section", "2.1", "--format", "json")
    done = subprocess.run([*command, *selected], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    results = json.loads(done.stdout)["results"]
    assert {result["state"] for result in results} == {"passed", "fail"}
    assert [result["state"] for result in results].count("passed") > 10
