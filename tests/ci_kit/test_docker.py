"""The Dockerfile: what its image contains and runs as; its steps run without Docker."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.helpers.bundled import PPO, ROOT

INSTRUCTIONS: Final = [
    (line.partition(" ")[0], line.partition(" ")[2])
    for line in (ROOT / "Dockerfile").read_text("utf-8").splitlines()
    if line and not line.startswith("#")
]
VENV: Final = "/opt/sbformat"
MAX_BYTES: Final = 150_000_000
"""Of everything that the image adds to Python's."""


def list_arguments(instruction: str) -> list[str]:
    """The arguments of every use of an instruction."""
    return [arguments for name, arguments in INSTRUCTIONS if name == instruction]


def list_copied() -> list[str]:
    """The files and folders of the repository that are copied."""
    return [name for line in list_arguments("COPY") if "--from" not in line for name in line.split()[:-1]]


def test_the_image_runs_sbformat_as_a_user_without_rights() -> None:
    assert list_arguments("USER") == ["65534:65534"]
    assert [json.loads(text) for text in list_arguments("ENTRYPOINT")] == [["sbformat"]]
    names = [name for name, _ in INSTRUCTIONS]
    last = len(names) - 1 - names[::-1].index("FROM")
    assert "RUN" not in names[last:]  # nothing is installed into the image but what is copied
    assert names[last:].index("USER") < names[last:].index("ENTRYPOINT")
    assert not {"ADD", "EXPOSE", "VOLUME"} & set(names)


def test_what_is_copied_exists_and_is_sent_to_docker() -> None:
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert ignored[0] == "*"
    sent = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    assert sent == set(list_copied())
    assert [name for name in list_copied() if not (ROOT / name).exists()] == []


def test_both_stages_have_the_same_python() -> None:
    (first, second) = [line.split()[0] for line in list_arguments("FROM")]
    assert first == second
    assert re.fullmatch(r"python:3\.\d+-slim", first)


@pytest.mark.ci_kit
@pytest.mark.skipif(sys.platform == "win32", reason="the commands are those of a POSIX shell")
def test_the_steps_install_a_program_that_works(tmp_path: Path) -> None:
    source, venv = tmp_path / "source", tmp_path / "venv"
    source.mkdir()
    for name in list_copied():
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, source / name)
    for line in list_arguments("RUN"):
        words = [word.replace(VENV, str(venv)) for word in shlex.split(line)]
        words[0] = sys.executable if words[0] == "python" else words[0]
        subprocess.run(words, cwd=source, check=True)
    shutil.rmtree(source)
    program = [str(venv / "bin" / "sbformat")]
    done = subprocess.run([*program, "scan", str(PPO)], cwd=tmp_path, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{PPO}: clean" in done.stdout
    size = sum(path.stat().st_size for path in venv.rglob("*") if path.is_file() and not path.is_symlink())
    assert size < MAX_BYTES, f"{size:,} bytes"
    assert not list(venv.rglob("pip"))


@pytest.mark.ci_kit
def test_docker_builds_an_image_that_scans(tmp_path: Path) -> None:
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "info"], capture_output=True, check=False).returncode:
        pytest.skip("no Docker is running")
    tag = "sbformat-test"
    subprocess.run([docker, "build", "--quiet", "--tag", tag, str(ROOT)], check=True)
    shutil.copy(PPO, tmp_path / "good.zip")
    tmp_path.chmod(0o755)
    command = [docker, "run", "--rm", "--network", "none", "--read-only", "--volume", f"{tmp_path}:/work:ro", tag]
    done = subprocess.run([*command, "scan", "."], text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "good.zip: clean" in done.stdout
