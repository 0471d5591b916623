"""The project's own files agree with each other: workflows, noxfile, documents, metadata."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import subprocess
import sys
from functools import cache, reduce
from typing import TYPE_CHECKING, Any

import pytest

import sbformat
from tests.helpers.bundled import ROOT
from tests.helpers.site_hooks import load_hook

if TYPE_CHECKING:
    from pathlib import Path

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
YAML = [
    *sorted((ROOT / ".github").rglob("*.yml")),
    *(ROOT / name for name in (".pre-commit-config.yaml", "CITATION.cff", "action.yml")),
]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
PYPROJECT = (ROOT / "pyproject.toml").read_text("utf-8")
PYTHONS = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', PYPROJECT)
GENERATED = {ROOT / "docs" / name for name in load_hook("site_pages").GENERATED}
"""Pages that only the site has."""
BY_HAND = {"newest"}
"""Sessions that no workflow runs: what they install changes."""
MATRIX = re.compile(r"\$\{\{ matrix\.(\w+) \}\}")


def load_yaml(path: Path) -> Any:
    return pytest.importorskip("yaml").safe_load(path.read_text("utf-8"))


@cache
def list_sessions() -> frozenset[str]:
    """The names that ``nox --list`` prints, without nox: the functions decorated with ``nox.session``."""
    found = set()
    for node in ast.parse((ROOT / "noxfile.py").read_text("utf-8")).body:
        for decorator in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
            text = ast.unparse(decorator)
            if text.startswith("nox.session"):
                found |= {f"{node.name}-{python}" for python in PYTHONS} if "python=PYTHONS" in text else {node.name}
    return frozenset(found)


def expand_matrix(text: str, matrix: dict[str, list[Any]]) -> list[str]:
    """A text once for each value of the variables of a job's matrix that it names."""
    texts = [text]
    for name in MATRIX.findall(text):
        texts = [MATRIX.sub(str(value), part, count=1) for part in texts for value in matrix[name]]
    return texts


def test_the_yaml_files_parse() -> None:
    assert [path.name for path in YAML if not isinstance(load_yaml(path), dict)] == []


def test_three_packages_and_no_more_at_run_time() -> None:
    (names,) = re.findall(r"^dependencies = \[(.*)\]$", PYPROJECT, re.MULTILINE)
    assert re.findall(r'"(\w+)>=', names) == ["numpy", "safetensors", "jsonschema"]
    assert names.count('"') == 6


def list_steps() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Every job of every workflow with each of its steps."""
    jobs = [job for path in WORKFLOWS for job in load_yaml(path)["jobs"].values()]
    return [(job, step) for job in jobs for step in job.get("steps", [])]


def test_the_workflows_run_sessions_of_the_noxfile() -> None:
    ran: set[str] = set()
    for job, step in list_steps():
        session = step.get("run", "").partition("nox --session ")[2].partition(" -- ")[0]
        if session:
            ran |= set(expand_matrix(session, job.get("strategy", {}).get("matrix", {})))
    assert list_sessions() - ran == BY_HAND
    assert ran <= list_sessions()


def test_the_workflows_pin_actions_and_test_every_python() -> None:
    used = [step["uses"] for _, step in list_steps() if "uses" in step]
    used += [step["uses"] for step in load_yaml(ROOT / "action.yml")["runs"]["steps"] if "uses" in step]
    used.remove("./")  # the action of this repository
    assert len(used) > 10
    assert [name for name in used if not re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}", name)] == []
    tests = load_yaml(ROOT / ".github" / "workflows" / "full.yml")["jobs"]["tests"]["strategy"]["matrix"]
    assert tests["python"] == PYTHONS
    assert {system.partition("-")[0] for system in tests["os"]} == {"ubuntu", "macos", "windows"}


def test_a_pull_request_has_to_pass_three_workflows_and_a_release_all() -> None:
    quick = {path.stem for path in WORKFLOWS if "pull_request" in load_yaml(path)[True]}  # "on" is a boolean of YAML
    assert quick == {"conformance", "lint", "test"}
    jobs = load_yaml(ROOT / ".github" / "workflows" / "publish.yml")["jobs"].values()
    called = {job["uses"].rpartition("/")[2] for job in jobs if "uses" in job}
    assert called == {"conformance.yml", "full.yml", "lint.yml"}


def test_the_sessions_that_a_pull_request_has_to_pass_are_documented() -> None:
    ran = set()
    for workflow in (load_yaml(path) for path in WORKFLOWS):
        for job in workflow["jobs"].values() if "pull_request" in workflow[True] else ():
            for step in job.get("steps", ()) if "if" not in job else ():
                session = step.get("run", "").partition("nox --session ")[2]
                ran |= set(expand_matrix(session, job.get("strategy", {}).get("matrix", {}))) - {""}
    sentence = (
        (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("A pull request has to pass ")[2].partition(";")[0]
    )
    assert ran == set(re.findall(r"`([\w.-]+)`", sentence))


@pytest.mark.lint
def test_the_commands_that_test_the_promises_select_tests() -> None:
    commands = re.findall(r"`python (-m pytest -m robustness [^`]+)`", (ROOT / "SECURITY.md").read_text("utf-8"))
    assert len(commands) > 5
    for command in commands:
        arguments = [sys.executable, *command.split(), "--collect-only", "-q", "-n", "0", "-p", "no:cacheprovider"]
        done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stdout[-500:]}"


def test_a_release_is_signed_by_jobs_that_run_no_code_of_the_project() -> None:
    workflow = load_yaml(ROOT / ".github" / "workflows" / "publish.yml")
    jobs = workflow["jobs"]
    assert workflow["permissions"] == {"contents": "read"}
    signing = {name for name, job in jobs.items() if "id-token" in job.get("permissions", {})}
    assert signing == {"attest", "publish"}
    for name in signing:
        assert [step for step in jobs[name]["steps"] if "run" in step or "checkout" in step["uses"]] == []
    assert jobs["publish"]["environment"] == "pypi"
    assert jobs["publish"]["steps"][-1]["with"] == {"attestations": True}
    assert set(jobs["attest"]["needs"]) == set(jobs) - signing - {"release"}
    assert jobs["publish"]["needs"] == ["attest"]
    assert jobs["release"]["needs"] == ["publish"]
    assert jobs["release"]["permissions"] == {"contents": "write"}
    assert [step for step in jobs["release"]["steps"] if "checkout" in step.get("uses", "")] == []


def test_a_release_checks_its_tag_first_and_builds_the_documentation() -> None:
    jobs = load_yaml(ROOT / ".github" / "workflows" / "publish.yml")["jobs"]
    commands = [step["run"] for step in jobs["build"]["steps"] if "run" in step]
    assert commands[0] == 'python .ci/release.py check "$GITHUB_REF_NAME"'
    (checkout,) = [step for step in jobs["build"]["steps"] if "checkout" in step.get("uses", "")]
    assert checkout["with"]["fetch-depth"] == 0
    called = load_yaml(ROOT / ".github" / "workflows" / jobs["test"]["uses"].rpartition("/")[2])["jobs"]
    assert "python -m nox --session docs" in [step.get("run") for step in called["docs"]["steps"]]


def test_no_command_of_a_workflow_contains_an_expression_from_outside() -> None:
    expressions = {
        part for _, step in list_steps() for part in re.findall(r"\$\{\{\s*(.*?)\s*\}\}", step.get("run", ""))
    }
    assert len(expressions) > 1
    assert [part for part in expressions if not part.startswith("matrix.")] == []


def test_one_version_and_one_address() -> None:
    citation = load_yaml(ROOT / "CITATION.cff")
    assert citation["version"] == sbformat.__version__
    assert citation["repository-code"] in PYPROJECT
    home = " ".join((ROOT / "docs" / "index.md").read_text("utf-8").split())
    for key, value in (("title", citation["title"]), ("url", citation["repository-code"])):
        assert re.search(rf"\b{key} += {{{re.escape(value)}}}", home)
    assert f"{citation['repository-code']}/" in (ROOT / "CHANGELOG.md").read_text("utf-8")


@pytest.mark.lint
def test_links_lead_to_files() -> None:
    links = [
        (path, target)
        for path in DOCUMENTS
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", path.read_text("utf-8"))
    ]
    assert len(links) > 100
    found = [(path.parent / target, path.name, target) for path, target in links]
    assert [row[1:] for row in found if not row[0].exists() and row[0].resolve() not in GENERATED] == []


def test_a_page_names_those_that_only_the_site_has() -> None:
    text = (ROOT / "docs" / "install.md").read_text("utf-8")
    named = re.findall(r"https://sbformat\.github\.io/sbformat/(reference/\w+)/\)", text)
    assert sorted(f"{page}.md" for page in named) == sorted(load_hook("site_pages").GENERATED)


def test_the_documents_and_the_noxfile_name_programs_that_exist() -> None:
    text = "".join(path.read_text("utf-8") for path in [*DOCUMENTS, ROOT / "noxfile.py", ROOT / "pyproject.toml"])
    programs = set(re.findall(r"\b(?:tests|conformance|schema|benchmarks|sbformat)/[\w./-]+\.(?:py|js)\b", text))
    assert len(programs) > 50
    assert [path for path in programs if not (ROOT / path).exists()] == []


def test_the_documents_name_sessions_and_rules_that_exist() -> None:
    text = "".join(path.read_text("utf-8") for path in [*DOCUMENTS, ROOT / "noxfile.py"])
    sessions = set(re.findall(r"nox -s ([\w.-]+)", text))
    assert len(sessions) > 3
    assert sessions <= list_sessions()
    rules = re.findall(r'Rule\("[\d.]+", "(.*)"\)', (ROOT / "CONTRIBUTING.md").read_text("utf-8"))
    assert len(rules) == 1
    assert rules[0] in " ".join((ROOT / "schema" / "FORMAT.md").read_text("utf-8").split())


def test_the_architecture_names_files_that_exist() -> None:
    paths = re.findall(r"`((?:sbformat|schema|conformance|tests|docs|benchmarks|\.github)/[^`]*)`", ARCHITECTURE)
    assert len(paths) > 50
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_architecture_names_functions_that_exist() -> None:
    named = set(re.findall(r"`((?:\w+\.)+\w+)[`(\[]", ARCHITECTURE))
    named = {name for name in named if not name.endswith((".py", ".md", ".json", ".pth", ".pkl", ".toml", ".yml"))}
    assert len(named) > 30
    for name in named - {"numpy.ndarray", "policy.save", "torch.save"}:
        parts = name.removeprefix("sbformat.").split(".")
        found: Any = sbformat
        if parts[0] not in sbformat.__all__:
            found = importlib.import_module(f"sbformat.{parts.pop(0)}")
        while importlib.util.find_spec(f"{found.__name__}.{parts[0]}") if hasattr(found, "__path__") else None:
            found = importlib.import_module(f"{found.__name__}.{parts.pop(0)}")
        assert reduce(getattr, parts, found) is not None, name


def test_the_architecture_lists_the_layers_of_the_contracts() -> None:
    contract = re.search(r'containers = \["sbformat"\].*?layers = \[(.*?)\]', PYPROJECT, re.DOTALL)
    assert contract is not None
    rows = [re.findall(r"\w+", row) for row in re.findall(r'"(.*?)"', contract[1])]
    place = {name: number for number, row in enumerate(rows) for name in row}
    table = ARCHITECTURE.partition("## Layers")[2].partition("Three rules")[0]
    listed = re.findall(r"`sbformat/(\w+)(?:/|\.py)`", "\n".join(re.findall(r"^\|([^|]*)", table, re.MULTILINE)))
    assert set(listed) == set(place) - {"__main__"}
    assert [place[name] for name in listed] == sorted(place[name] for name in listed)
