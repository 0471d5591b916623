"""Run sessions of noxfile.py and print a summary of each: ``python3 .ci/run_sessions.py [SESSION...]``.

Without names, the sessions that noxfile.py lists as its default run, in that order: those with the tag
``all_processors`` first and one after the other, then two of the others at the same time. nox and uv are installed into
a temporary virtual environment, and every session gets a fresh one, so that nothing but python3 and pip is needed and
nothing is left behind. A session whose Python or program is not installed is skipped. A session that takes too long is
ended and has failed; the others still run.

The summary of a session is printed when it ends: its result, its lines about files outside of the repository
(``corpus...``, ``test_name.py...``), the total of the conformance vectors and the closing line of pytest. The whole
output of a session that failed follows. The exit status is 1 if a session failed or the time was up.
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
MINUTES: Final = 85
"""The time limit of the whole run."""
SESSION_MINUTES: Final = 40
"""The time limit of a session."""
LANES: Final = 2
"""How many sessions run at the same time."""
ALL_PROCESSORS: Final = "all_processors"
"""The tag in noxfile.py of a session that runs alone."""
NETWORK: Final = {
    "PIP_DEFAULT_TIMEOUT": "60",
    "PIP_RETRIES": "3",
    "npm_config_fetch_timeout": "60000",
    "npm_config_fetch_retries": "3",
    "GIT_TERMINAL_PROMPT": "0",
}
"""Environment variables with which pip, npm and git fail without a network, rather than wait or ask."""

UV_VARIABLES: Final = {
    "PIP_INDEX_URL": "UV_DEFAULT_INDEX",
    "PIP_EXTRA_INDEX_URL": "UV_INDEX",
    "PIP_FIND_LINKS": "UV_FIND_LINKS",
    "PIP_CERT": "SSL_CERT_FILE",
}
"""Environment variables of pip, and those with which uv finds the same packages."""

SUMMARY_LINE: Final = re.compile(r"corpus|test_\w+\.py|all  |=* ?[0-9]+ (?:passed|failed|error|skipped)")


def find_pythons() -> list[str]:
    """List the folders of the Pythons to offer nox: the running one's, then those of pyenv, newest first."""
    root = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    found = glob.glob(os.path.join(glob.escape(root), "versions", "3.*", "bin"))
    found.sort(key=lambda folder: [int(digits) for digits in re.findall(r"\d+", folder)], reverse=True)
    return [os.path.dirname(sys.executable), *found]


def make_environment(work: Path) -> dict[str, str]:
    """Return the environment variables for nox: no modules from outside of the sessions' environments.

    Bytecode is cached in the temporary folder ``work``: tests start thousands of processes that import sbformat, and no
    cache folder is left in the checkout.
    """
    removed = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
    environment = {name: value for name, value in os.environ.items() if name not in removed}
    environment["PYTHONPYCACHEPREFIX"] = str(work / "bytecode")
    environment.update(NETWORK)
    variables = {uv: environment[pip] for pip, uv in UV_VARIABLES.items() if pip in environment}
    if "UV_FIND_LINKS" in variables:
        variables["UV_FIND_LINKS"] = ",".join(variables["UV_FIND_LINKS"].split())
    environment.update(variables)
    environment["UV_INDEX_STRATEGY"] = "unsafe-best-match"  # as pip: the newest release of all indexes
    environment["UV_HTTP_TIMEOUT"] = NETWORK["PIP_DEFAULT_TIMEOUT"]
    environment["UV_CACHE_DIR"] = str(work / "uv")
    environment["PATH"] = os.pathsep.join([*find_pythons(), environment.get("PATH", os.defpath)])
    environment["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    return environment


def install_nox(folder: Path) -> str:
    """Install nox and uv into a virtual environment in ``folder``; return the path of its Python."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = str(folder / ("Scripts" if sys.platform == "win32" else "bin") / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "nox[uv]"], check=True)
    return python


class Session:
    """A session that runs.

    :param name: of the session
    :param command: of nox, without the options for this session
    :param folder: for the environment and the output; it is removed at the end
    :param environment: the environment variables
    :param deadline: the value of ``time.monotonic()`` at which the session is ended
    """

    def __init__(
        self, name: str, command: Sequence[str], folder: Path, environment: dict[str, str], deadline: float
    ) -> None:
        """Start the session."""
        self.name = name
        self.folder = folder
        self.start = time.monotonic()
        self.deadline = min(self.start + 60 * SESSION_MINUTES, deadline)
        folder.mkdir()
        options = ["--envdir", str(folder / "environments"), "--report", str(folder / "report.json")]
        options += ["--no-error-on-missing-interpreters", "--download-python", "never"]
        with (folder / "log").open("wb") as file:
            self.process = subprocess.Popen(
                [*command, "--session", name, *options],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,  # so that the session's own children can be ended with it
            )

    def is_done(self) -> bool:
        """Return whether the session has ended or its time is up."""
        return self.process.poll() is not None or time.monotonic() >= self.deadline

    def finish(self) -> bool:
        """End the session, print its summary and remove its folder; return whether it passed or was skipped."""
        status = self.process.poll()
        end_group(self.process)
        seconds = time.monotonic() - self.start
        output = (self.folder / "log").read_text("utf-8", "replace")
        result = f"FAILED, {seconds / 60:.0f} minutes are up" if status is None else self._find_result(status)
        print(f"== {self.name}: {result} ({seconds:.0f} s)")
        for line in output.splitlines():
            if SUMMARY_LINE.match(line):
                print(line)
        failed = result not in ("passed", "skipped")
        if failed:
            print(f"-- the output of {self.name}:", output, f"-- end of the output of {self.name}", sep="\n")
        sys.stdout.flush()
        shutil.rmtree(self.folder, ignore_errors=True)
        return not failed

    def _find_result(self, status: int) -> str:
        """Return the result in a word."""
        report = self.folder / "report.json"
        if status != 0 or not report.exists():
            return "FAILED"
        skipped = all(session["result"] == "skipped" for session in json.loads(report.read_text())["sessions"])
        return "skipped" if skipped else "passed"


class Runner:
    """Runs sessions, of which some may run at the same time.

    :param nox: the command of nox
    :param work: a temporary folder for the environments and the output
    :param deadline: the value of ``time.monotonic()`` at which running sessions are ended
    """

    def __init__(self, nox: Sequence[str], work: Path, deadline: float) -> None:
        """Start nothing yet."""
        self.nox = nox
        self.work = work
        self.deadline = deadline
        self.environment = make_environment(work)

    def list_sessions(self, names: Sequence[str]) -> dict[str, bool]:
        """Return the sessions with these names, or the default ones, and whether each runs alone."""
        command = [*self.nox, "--list", "--json", *(["--session", *names] if names else [])]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=self.environment, text=True)
        return {row["session"]: ALL_PROCESSORS in row["tags"] for row in json.loads(done.stdout)}

    def run_sessions(self, names: Sequence[str]) -> bool:
        """Run sessions, all of the default ones without names; return whether none of them failed."""
        sessions = self.list_sessions(names)
        waiting = sorted(sessions, key=lambda name: not sessions[name])
        running: list[Session] = []
        results: list[bool] = []
        try:
            while waiting or running:
                for session in [session for session in running if session.is_done()]:
                    running.remove(session)
                    results.append(session.finish())
                lanes = 1 if any(sessions[session.name] for session in running) else LANES
                if waiting and len(running) < lanes:
                    name = waiting.pop(0)
                    folder = self.work / f"session-{len(results) + len(running)}"
                    running.append(Session(name, self.nox, folder, self.environment, self.deadline))
                else:
                    time.sleep(0.2)
        finally:
            for session in running:
                end_group(session.process)
        return bool(results) and all(results)


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
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as work:
        nox = [install_nox(Path(work) / "nox"), "-m", "nox", "--noxfile", str(ROOT / "noxfile.py")]
        return 0 if Runner(nox, Path(work), deadline).run_sessions(names) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
