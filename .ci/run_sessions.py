"""Run sessions of noxfile.py and print a summary of each: ``python3 .ci/run_sessions.py [SESSION...]``.

Without names, the sessions that noxfile.py lists as its default run, in that order. nox is installed into a temporary
virtual environment, and every session gets a fresh one, so that nothing but python3 and pip is needed and nothing is
left behind. A session whose Python or program is not installed is skipped.

The summary of a session is its result, its lines about files outside of the repository (``corpus...``,
``test_name.py...``), the total of the conformance vectors and the closing line of pytest. The whole output of a session
that failed follows. The exit status is 1 if a session failed or the time was up.
"""

from __future__ import annotations

import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT: Final = Path(__file__).resolve().parent.parent
MINUTES: Final = 90
"""The time limit of the whole run."""

SUMMARY_LINE: Final = re.compile(r"corpus|test_\w+\.py|all  |=* ?[0-9]+ (?:passed|failed|error|skipped)")


def find_pythons() -> list[str]:
    """List the folders of the Pythons to offer nox: the running one's, then those of pyenv, newest first."""
    root = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    found = glob.glob(os.path.join(glob.escape(root), "versions", "3.*", "bin"))
    found.sort(key=lambda folder: [int(digits) for digits in re.findall(r"\d+", folder)], reverse=True)
    return [os.path.dirname(sys.executable), *found]


def make_environment() -> dict[str, str]:
    """Return the environment variables for nox: no modules from outside of the sessions' environments."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["PATH"] = os.pathsep.join([*find_pythons(), environment.get("PATH", os.defpath)])
    environment["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    return environment


def install_nox(folder: Path) -> str:
    """Install nox into a virtual environment in ``folder``; return the path of its Python."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = str(folder / ("Scripts" if sys.platform == "win32" else "bin") / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "nox"], check=True)
    return python


class Runner:
    """Runs one session after the other.

    :param work: A temporary folder for the environments and the output.
    :param deadline: The value of ``time.monotonic()`` at which a running session is ended.
    """

    def __init__(self, work: Path, deadline: float) -> None:
        """Install nox."""
        self.work = work
        self.deadline = deadline
        self.environment = make_environment()
        self.nox = [install_nox(work / "nox"), "-m", "nox", "--noxfile", str(ROOT / "noxfile.py")]

    def list_sessions(self) -> list[str]:
        """Return the names of the default sessions."""
        done = subprocess.run(
            [*self.nox, "--list", "--json"], stdout=subprocess.PIPE, check=True, env=self.environment, text=True
        )
        return [session["session"] for session in json.loads(done.stdout)]

    def run_session(self, name: str) -> bool:
        """Run a session and print its summary; return whether it passed or was skipped."""
        start = time.monotonic()
        result, output = self._run(name)
        print(f"== {name}: {result} ({time.monotonic() - start:.0f} s)")
        for line in output.splitlines():
            if SUMMARY_LINE.match(line):
                print(line)
        failed = result not in ("passed", "skipped")
        if failed:
            print(f"-- the output of {name}:", output, f"-- end of the output of {name}", sep="\n")
        sys.stdout.flush()
        return not failed

    def _run(self, name: str) -> tuple[str, str]:
        """Run a session; return its result in a word and its output."""
        environments, log, report = self.work / "environments", self.work / "log", self.work / "report.json"
        report.unlink(missing_ok=True)
        options = ["--envdir", str(environments), "--report", str(report)]
        options += ["--no-error-on-missing-interpreters", "--download-python", "never"]
        with log.open("wb") as file:
            process = subprocess.Popen(
                [*self.nox, "--session", name, *options],
                stdout=file,
                stderr=subprocess.STDOUT,
                env=self.environment,
                start_new_session=True,  # so that the session's own children can be ended with it
            )
            try:
                status: int | None = process.wait(max(self.deadline - time.monotonic(), 1))
            except subprocess.TimeoutExpired:
                status = None
            finally:
                end_group(process)
        shutil.rmtree(environments, ignore_errors=True)
        output = log.read_text("utf-8", "replace")
        if status is None:
            return f"FAILED, the {MINUTES} minutes are up", output
        if status != 0 or not report.exists():
            return "FAILED", output
        skipped = all(session["result"] == "skipped" for session in json.loads(report.read_text())["sessions"])
        return "skipped" if skipped else "passed", output


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process and the group that it leads, if it is still running."""
    if process.poll() is not None:
        return
    if sys.platform == "win32":
        process.kill()
    else:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def main(names: Sequence[str]) -> int:
    """Run sessions, all of the default ones without names; return the exit status."""
    deadline = time.monotonic() + 60 * MINUTES
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the session ends and the folder is removed
    with tempfile.TemporaryDirectory() as work:
        runner = Runner(Path(work), deadline)
        results = [runner.run_session(name) for name in names or runner.list_sessions()]
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
