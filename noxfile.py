"""The checks of continuous integration, one session each.

``.ci/run`` and ``.github/workflows`` run these sessions and have no list of their own. Every session starts in a fresh
virtual environment and installs what it needs: with uv, which takes seconds, if it is installed; the commands of
README.md and torch with pip.

    nox                            the sessions that .ci/run runs
    nox --list                     every session, with its description
    nox -s lint                    one session
    nox -s tests-3.13 -- -k crc    arguments after "--" go to pytest
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Final

import nox

FIRST_COMMAND: Final = 'pip install ".[cli]" && sbformat inspect tests/archives/ppo-cartpole.zip'
TEST_COMMAND: Final = 'pip install -e ".[test]" && python -m pytest -n auto'
"""Copied from README.md; a test compares them."""

PYTHONS: Final = nox.project.python_versions(nox.project.load_toml("pyproject.toml"))
"""The supported versions: the classifiers of pyproject.toml, oldest first."""

TORCH: Final = "torch==2.13.0"
"""Installed first and by exact version: a range would select the newest build, with gigabytes of GPU libraries."""

OLDEST_SB3: Final = (TORCH, "numpy<2", "stable-baselines3==2.0.0", "sb3-contrib==2.0.0", "gymnasium==0.28.1")
"""The first release that ``rebuild`` writes for."""

NEWEST: Final = ("torch", "stable-baselines3", "sb3-contrib", "gymnasium", "numpy", "cloudpickle")
"""What the session ``newest`` installs without a version; torch has gigabytes of GPU libraries."""
OLD_TARGETS: Final = {
    "1_6": ("stable-baselines3==1.6.2", "sb3-contrib==1.6.2"),
    "1_8": ("stable-baselines3==1.8.0", "sb3-contrib==1.8.0"),
}
"""Releases before gymnasium that ``rebuild`` writes for."""
OLD_PYTHON: Final = "3.8"
OLD_TOOLS: Final = ("pip<24.1", "setuptools<66", "wheel<0.39")
"""What builds gym 0.21."""
OLD_PACKAGES: Final = ("torch==1.11.0", "gym==0.21")

BROWSER_PART: Final = "--one-in=10"
INTEROP_PART: Final = "--one-in=20"
"""The cases of each test that run without ``SBFORMAT_ALL=1``, which continuous integration sets each night."""

SB3_SOURCE: Final = "https://github.com/DLR-RM/stable-baselines3"
"""Its tests are in no package; the tag of the installed release is cloned."""

NODE_PACKAGES: Final = ("onnxruntime-node@1.30.0", "onnxruntime-web@1.30.0")
"""What tests/policies/onnx/test_node.py runs models with."""

PAGE_PROGRAMS: Final = ("godot3-server", "libjna-java", "mono-mcs", "mono-runtime")
"""What the programs of docs/export/ for Java and game engines need, by their names in Debian and Ubuntu."""

TFLITE_PACKAGES: Final = ("onnx2tf==2.6.9", "hypothesis", "pytest", "pytest-timeout", "pytest-xdist")
"""What docs/export/tflite.md installs, and what its tests need; onnx2tf needs older packages than the extra test."""

PAGE_PACKAGES: Final = ("datasets",)
"""What the programs of docs/how-to/ import in addition to torch and stable-baselines3."""

AJV: Final = ("ajv@8.20.0", "ajv-formats@3.0.1")
"""A validator of JSON Schemas, with which tests/schema/test_schema_files.py compiles those of the project."""

SARIF_MULTITOOL: Final = "@microsoft/sarif-multitool@5.7.0"
"""Microsoft's rules for SARIF logs, those of GitHub included."""

INSTRUMENTER: Final = "@stryker-mutator/instrumenter@9.6.1"
"""Makes the mutants of the JavaScript decoder."""

AXE: Final = "axe-core@4.14.1"
"""The accessibility checks of reports, run in the browser."""

PYODIDE: Final = f"pyodide@{json.loads(Path('docs/try/pyodide.json').read_text('utf-8'))['version']}"
"""Python for the page "Try it" of the site."""

THIS_PYTHON: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
INSTALLED: Final = [version for version in PYTHONS if version == THIS_PYTHON or shutil.which(f"python{version}")]
TESTED: Final = dict.fromkeys((*INSTALLED[:1], *INSTALLED[-1:]))
"""The versions that ``.ci/run`` tests: the oldest and the newest that are installed."""

NOTEBOOKS: Final = ("ipykernel>=6", "nbclient>=0.10", "nbconvert>=7")
"""What runs and renders a notebook."""

PACKAGING: Final = (
    "build>=1.2",
    "check-wheel-contents>=0.6.1",
    "hatchling>=1.24",
    "pip",
    "readme-renderer[md]>=44",
    "trove-classifiers",
    "twine>=6",
)
"""What checks a release before it is published."""

PYTEST_OPTIONS: Final = ("-q", "-p", "no:cacheprovider")
"""Quiet, with no cache folder left in the checkout."""

ALL_PROCESSORS: Final = "all_processors"
"""The tag of sessions that ``.ci/run`` runs alone; it runs two of the others at the same time."""

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|venv"
nox.options.sessions = [
    "first_command",
    *(f"tests-{version}" for version in TESTED),
    "interop",
    "ci_kit",
    "browser",
    "packaging",
    "docs",
    "export_pages",
    "lint",
    "programs",
    "servers",
    "exports",
    "robustness",
    "conformance_python",
    "conformance_javascript",
]
"""What ``.ci/run`` runs, in the order of this file: the longest first, so that two at a time end together.

The others run each night.
"""


def run_readme_command(session: nox.Session, command: str, *arguments: str) -> None:
    """Run a command line of README.md without a shell; ``arguments`` go to its last command."""
    *first, last = (shlex.split(part) for part in command.split(" && "))
    for words in first:
        session.run(*words)
    session.run(*last, *arguments)


def run_pytest(session: nox.Session, *arguments: str, workers: str = "auto", env: dict[str, str] | None = None) -> None:
    """Run pytest with these arguments and what followed ``--`` on the command line.

    :param workers: the number of processes; ``"0"`` for what uses few processors or a browser
    """
    session.run("python", "-m", "pytest", "-n", workers, *PYTEST_OPTIONS, *arguments, *session.posargs, env=env)


def run_marked(session: nox.Session, marker: str, *paths: str) -> None:
    """Run the tests of a marker that the default run leaves out, but not those that take minutes."""
    session.install("-e", ".[test]")
    run_pytest(session, *paths, "-m", f"{marker} and not exhaustive and not slow")


def install_node_packages(session: nox.Session, *packages: str) -> str:
    """Install packages of npm into the session's environment; return their folder."""
    if shutil.which("npm") is None:
        session.skip("npm is not installed")
    modules = Path(session.virtualenv.location) / "node"
    session.run(  # without the install scripts, which download libraries for GPUs
        "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(modules), *packages,
        external=True,
    )  # fmt: skip
    return str(modules / "node_modules")


@nox.session(venv_backend="venv")
def first_command(session: nox.Session) -> None:
    """Run the first command of README.md."""
    run_readme_command(session, FIRST_COMMAND)


@nox.session(venv_backend="venv")
def readme(session: nox.Session) -> None:
    """Run all commands and programs of README.md, on any system, and compare what they print."""
    session.install("-e", ".[test]")
    run_pytest(session, "tests/project/test_pages.py", "-k", "README", "-m", "not lint", workers="0")


@nox.session(python=PYTHONS, tags=[ALL_PROCESSORS])
def tests(session: nox.Session) -> None:
    """Run the test command of README.md; with the oldest Python, the tests but those of the project's own files."""
    if session.python == PYTHONS[0] and len(TESTED) > 1:
        session.install("-e", ".[test]")
        run_pytest(session, "--ignore=tests/project")
    else:
        session.install("pip")  # which the command names
        run_readme_command(session, TEST_COMMAND, *PYTEST_OPTIONS, *session.posargs)


@nox.session
def exhaustive(session: nox.Session) -> None:
    """Run the tests that take minutes: the audit hook, memory, every mutation, and all archives of ../shared."""
    session.install("-e", ".[test]")
    run_pytest(session, "-m", "exhaustive")


@nox.session(venv_backend="venv")
def interop(session: nox.Session) -> None:
    """Compare with the real torch and stable-baselines3, the oldest supported SB3 included; run all pages of docs/."""
    oldest = Path(session.virtualenv.location) / "sb3_2_0"
    session.run("python", "-m", "venv", str(oldest))
    oldest_python = str(oldest / ("Scripts" if sys.platform == "win32" else "bin") / "python")
    session.run(oldest_python, "-m", "pip", "install", "--quiet", *OLDEST_SB3, external=True)
    session.install(TORCH)
    session.install("-e", ".[test,interop,dataset]", *PAGE_PACKAGES)
    run_pytest(
        session, "-m", "interop", INTEROP_PART,
        env={"SBFORMAT_SB3_2_0": oldest_python, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    run_pytest(
        session, "tests/project/test_pages.py", "-m", "not lint",
        env={"SBFORMAT_PAGES": "all", "HF_HOME": session.create_tmp(), "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    run_pytest(session, "tests/project/test_export_pages.py", "-m", "docs", "-k", "pytorch", workers="0")


@nox.session(venv_backend="venv", python=INSTALLED[-1])
def newest(session: nox.Session) -> None:
    """Compare with the newest torch, SB3, gymnasium, numpy and cloudpickle, in the newest Python; gigabytes.

    By hand: nox -s newest -- --one-in=20
    """
    session.install("--upgrade", *NEWEST)
    session.install("--upgrade", "-e", ".[test,interop]")
    session.run("python", "-m", "pip", "list")  # which releases were compared
    run_pytest(session, "-m", "interop", env={"OMP_NUM_THREADS": "1"})


@nox.session(venv_backend="venv")
def old_targets(session: nox.Session) -> None:
    """Load what ``rebuild`` writes for SB3 1.6 and 1.8 in these releases, with gym 0.21; ten minutes."""
    interpreter = shutil.which(f"python{OLD_PYTHON}")
    if interpreter is None:
        session.skip(f"Python {OLD_PYTHON} is not installed")
    pythons = {}
    for release, packages in OLD_TARGETS.items():
        folder = Path(session.virtualenv.location) / f"sb3_{release}"
        session.run(interpreter, "-m", "venv", str(folder), external=True)
        python = str(folder / ("Scripts" if sys.platform == "win32" else "bin") / "python")
        for wanted in (OLD_TOOLS, (*OLD_PACKAGES, *packages)):
            session.run(python, "-m", "pip", "install", "--quiet", *wanted, external=True)
        pythons[f"SBFORMAT_SB3_{release}"] = python
    session.install(TORCH)
    session.install("-e", ".[test,interop]")
    run_pytest(
        session, "-m", "interop", "tests/interop/test_rebuild_targets.py", "tests/interop/test_vecnormalize_live.py",
        workers="0", env={**pythons, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


@nox.session
def ci_kit(session: nox.Session) -> None:
    """Run the hooks in pre-commit, the GitHub Action, the steps of the Dockerfile, and Microsoft's rules for SARIF."""
    modules = install_node_packages(session, SARIF_MULTITOOL)
    session.install(".[test]", "pip", "pre-commit", "check-jsonschema")
    run_pytest(session, "tests/ci_kit", "-m", "ci_kit", workers="0", env={"SBFORMAT_NODE_MODULES": modules})


def install_with_apt(session: nox.Session, *packages: str) -> None:
    """Install packages of Debian or Ubuntu where apt is there and may; nothing is said where they cannot be had."""
    if shutil.which("apt-get") and os.geteuid() == 0:
        options = ("-qq", "-o", "Acquire::http::Timeout=30", "-o", "Acquire::Retries=2", "-o", "DPkg::Lock::Timeout=60")
        for arguments in (("update",), ("install", "--yes", "--no-install-recommends", *packages)):
            session.run(
                "apt-get", *options, *arguments, external=True, success_codes=range(256),
                env={"DEBIAN_FRONTEND": "noninteractive"},
            )  # fmt: skip


def install_chromium(session: nox.Session) -> None:
    """Install Chromium and its driver where they are missing and apt may install them; skip the session otherwise."""
    if shutil.which("chromedriver") is None:
        install_with_apt(session, "chromium", "chromium-driver")
    if shutil.which("chromedriver") is None:
        session.skip("chromium and chromedriver are not installed")


@nox.session
def browser(session: nox.Session) -> None:
    """Open reports, the site and "Try it" in Chromium: requests, sorting, accessibility, hostile archives."""
    install_chromium(session)
    modules = install_node_packages(session, AXE, PYODIDE)
    session.install("-e", ".[test,docs]", "selenium>=4.20", *NOTEBOOKS)
    run_pytest(
        session, "tests/browser", "-m", "browser", BROWSER_PART,
        workers="0", env={"SBFORMAT_NODE_MODULES": modules},
    )  # fmt: skip


@nox.session
def packaging(session: nox.Session) -> None:
    """Build the wheel and the sdist, check both, and use the wheel with every installed Python, without extras."""
    session.install("-e", ".[test]", *PACKAGING)
    run_pytest(session, "tests/project", "-m", "packaging", workers="0")


@nox.session
def docs(session: nox.Session) -> None:
    """Run every block of the pages by itself, build the site into build/site, check its links; warnings are errors."""
    modules = {"SBFORMAT_NODE_MODULES": install_node_packages(session, PYODIDE)} if shutil.which("npm") else {}
    session.install("-e", ".[docs,test]")
    run_pytest(
        session, "tests/project/test_site.py", "tests/project/test_pages.py", "-m", "not lint", workers="0", env=modules
    )
    session.run("mkdocs", "build", "--strict", env={**modules, "NO_MKDOCS_2_WARNING": "1"})


@nox.session
def export_pages(session: nox.Session) -> None:
    """Run the programs of docs/export/ in every language and engine that is installed or that apt can install."""
    modules = install_node_packages(session, *NODE_PACKAGES)
    if not all(map(shutil.which, ("mcs", "mono", "godot3-server"))) or not Path("/usr/share/java/jna.jar").exists():
        install_with_apt(session, *PAGE_PROGRAMS)
    session.install("-e", ".[test]")
    run_pytest(
        session, "tests/project/test_export_pages.py", "tests/policies/onnx/test_node.py", "-m", "not exhaustive",
        workers="0", env={"SBFORMAT_NODE_MODULES": modules},
    )  # fmt: skip


@nox.session
def tflite(session: nox.Session) -> None:
    """Run docs/export/tflite.md, and convert every policy of the vectors to TensorFlow Lite."""
    session.install("-e", ".[onnx]", *TFLITE_PACKAGES)
    run_pytest(
        session, "tests/project/test_export_pages.py", "tests/policies/onnx/test_tflite.py", "-k", "tflite",
        "-m", "not exhaustive", workers="0",
    )  # fmt: skip


@nox.session
def lint(session: nox.Session) -> None:
    """Run ruff, mypy and the import contracts; check the links and the types of the pages."""
    session.install("-e", ".[test,lint]")
    session.run("ruff", "check", "--no-cache", ".")
    session.run("ruff", "format", "--no-cache", "--check", ".")
    session.run("lint-imports", "--no-cache")
    cache = {"MYPY_CACHE_DIR": session.create_tmp()}  # one for the package and the pages
    if sys.version_info >= (3, 11):  # with the types of numpy 2.3
        session.run("mypy", env=cache)
    run_pytest(session, "tests/project", "-m", "lint", workers="0", env=cache)


@nox.session
def programs(session: nox.Session) -> None:
    """Test the project's own programs: those of the vectors, benchmarks, fuzzing, mutants, tables, and .ci/run."""
    session.install("-e", ".[test]")
    run_pytest(session, "tests/programs", "-m", "programs and not exhaustive and not interop")


@nox.session
def servers(session: nox.Session) -> None:
    """Read archives from servers of HTTP, S3 and the Hub, which fail, lie and redirect."""
    run_marked(session, "servers")


@nox.session
def exports(session: nox.Session) -> None:
    """Run exported policies with gcc, clang, node and onnxruntime, and compare what they compute with Policy."""
    run_marked(session, "exports", "tests/policies")


@nox.session
def robustness(session: nox.Session) -> None:
    """Watch audit events and memory while hostile files are read; decode every vector; mutate files; fail to write."""
    run_marked(
        session, "robustness", "tests/robustness", "tests/io", "tests/pth", "tests/tools/scan", "tests/values",
        "tests/project/test_conformance.py",
    )  # fmt: skip


@nox.session
def conformance_python(session: nox.Session) -> None:
    """Run the conformance vectors against sbformat's decoder and encoder."""
    session.install(".")
    harness = "python conformance/harness/python"
    session.run(
        "python", "conformance/run.py", "--decoder", f"{harness}/decode.py", "--encoder", f"{harness}/encode.py"
    )


@nox.session
def conformance_javascript(session: nox.Session) -> None:
    """Run the conformance vectors against the independent decoder in JavaScript; compile the JSON Schemas with ajv."""
    if shutil.which("node") is None:
        session.skip("node is not installed")
    decoder = "node conformance/harness/javascript/decode.js"
    session.run("python", "conformance/run.py", "--decoder", decoder, "--implementation", "javascript")
    if shutil.which("npm"):
        modules = install_node_packages(session, *AJV)
        session.install("-e", ".[test]")
        run_pytest(session, "tests/schema/test_schema_files.py", workers="0", env={"SBFORMAT_NODE_MODULES": modules})


@nox.session
def mutation(session: nox.Session) -> None:
    """Run the vectors against mutants of the JavaScript decoder; a quarter of an hour.

    By hand: nox -s mutation -- --file zip.js
    """
    modules = install_node_packages(session, INSTRUMENTER)
    session.run("python", "-m", "conformance.mutation", "--modules", modules, *session.posargs)


@nox.session
def package_mutation(session: nox.Session) -> None:
    """Run the tests against a sample of mutants of the package; an hour on two processors.

    By hand: nox -s package_mutation -- --file 'pkl/*' --sample 50 tests/pkl
    """
    session.install("-e", ".[test]")
    session.run("python", "-m", "tests.mutation", *session.posargs, success_codes=[0, 1])  # 1: some survived


@nox.session(venv_backend="venv")
def sb3_suites(session: nox.Session) -> None:
    """Run SB3's own tests of saving and loading with ``sbformat.sb3`` in the place of its loaders; ten minutes."""
    session.install(TORCH)
    session.install("-e", ".[test,interop]")
    version = session.run(
        "python", "-c", "import stable_baselines3; print(stable_baselines3.__version__)", silent=True, log=False
    )
    source = Path(session.create_tmp()) / "stable-baselines3"
    if not source.exists() and not shutil.which("git"):
        session.skip("git is not installed")
    if not source.exists():
        session.run(
            "git", "clone", "--quiet", "--depth", "1", "--branch", f"v{str(version).strip()}", SB3_SOURCE, str(source),
            external=True,
        )  # fmt: skip
    run_pytest(session, "-m", "interop", "tests/interop/test_sb3_suites.py", env={"SBFORMAT_SB3_SOURCE": str(source)})


@nox.session
def scanners(session: nox.Session) -> None:
    """Run other scanners on the files of docs/comparison.md, and compare what they report with the page.

    By hand and in the workflow alone: packages of others are installed, whose releases change.
    """
    session.install(".")
    environments = str(Path(session.virtualenv.location) / "scanners")
    session.run(
        "python", "-m", "benchmarks.scanners", "--environments", environments, "--check", "docs/comparison.md",
    )  # fmt: skip


@nox.session
def build(session: nox.Session) -> None:
    """Build the wheel and the sdist into dist/; an argument ``vX.Y.Z`` must be the version of the wheel.

    Their files have the time that hatchling gives them by default, so that everybody builds the same bytes.
    """
    session.install("build", "twine")
    shutil.rmtree("dist", ignore_errors=True)
    session.run("python", "-m", "build", env={"SOURCE_DATE_EPOCH": None})
    session.run("python", "-m", "twine", "check", "--strict", *map(str, Path("dist").iterdir()))
    wheels = [path.name for path in Path("dist").glob("*.whl")]
    for tag in session.posargs:
        if wheels != [f"sbformat-{tag.removeprefix('v')}-py3-none-any.whl"]:
            session.error(f"expected a wheel of the version of the tag {tag}, got {', '.join(wheels)}")
