"""What every measurement uses: files, workers, processes run in turn, and the list of installed readers."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.files import ROOT, TEMPLATE
from benchmarks.processes import Failed, Worker, environment, run
from benchmarks.rivals import MAPPED, MODULES, OTHER_FILES, READERS, US

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from benchmarks.processes import Ran
    from benchmarks.results import Curve

CORPUS: Final = ROOT.parent / "shared" / "corpus" / "sb3"
"""Real archives, which are not part of the project; measured if they exist."""
OTHER_MODULES: Final = ("numpy", "stable_baselines3", "onnx", "onnxruntime", "onnxscript", "matplotlib")
"""Modules that are not readers."""
MANY: Final = 100
FEW: Final = 5
FIND: Final = """
import importlib.metadata, importlib.util, json, sys
found = {}
for name in sys.argv[1:]:
    if importlib.util.find_spec(name) is not None:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "of no known version"
print(json.dumps(found))
"""


def find_installed(names: Iterable[str]) -> dict[str, str]:
    """Return the versions of the installed modules; a child process looks, as that may import their parents."""
    done = subprocess.run([sys.executable, "-c", FIND, *names], cwd=ROOT, capture_output=True, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def command_line() -> list[str]:
    """Return the command ``sbformat`` that is installed beside this Python, or else ``python -m sbformat``."""
    script = shutil.which("sbformat", path=os.path.dirname(sys.executable))
    return [script] if script else [sys.executable, "-m", "sbformat"]


class Bench:
    """The resources of one run of the benchmarks.

    :param folder: the folder of generated files; existing ones are reused
    :param rounds: rounds of every measurement; slow ones take fewer
    :param is_quick: use few and small archives
    :param tell: called with a text that shows the progress
    :param against: another commit whose instructions are also counted
    """

    def __init__(
        self, folder: Path, *, rounds: int, is_quick: bool, tell: Callable[[str], None], against: str = ""
    ) -> None:
        self.folder, self.rounds, self.is_quick, self.tell = folder, rounds, is_quick, tell
        self.measure, self.against = "", against
        self.curves: list[Curve] = []
        self.env = environment(str(folder / "bytecode"))
        self.versions = find_installed((*MODULES, *OTHER_MODULES))
        self.workers: dict[str, Worker] = {}
        self.agreeing: dict[str, list[str]] = {}
        self.able: list[str] = []
        self.refusals: dict[str, str] = {}
        self.bundled = sorted(map(str, TEMPLATE.parent.glob("*.zip")))
        corpus = sorted(map(str, CORPUS.glob("*.zip"))) if CORPUS.is_dir() else []
        self.archives = [*self.bundled, *(corpus[::25] if is_quick else corpus)]

    # -- files ----------------------------------------------------------------------------------------

    def file(self, kind: str, amount: int) -> str:
        """Return the path of a file of :mod:`benchmarks.files`; it is created if it does not exist."""
        path = self.folder / f"{kind}-{amount}.zip"
        if not path.exists():
            self.tell(f"{self.measure}: making {path.name}")
            self._make(kind, path, str(amount))
        return str(path)

    def ideal(self, source: str) -> str:
        """Return the path of the policy of one archive as a safetensors file."""
        return self.ideals([source])[0]

    def source(self, name: str, path: str) -> str:
        """Return the file of a reader: for ``MAPPED`` the policy of an archive as a ``.pth`` file."""
        if name != MAPPED:
            return path
        made = Path(path).with_suffix(".pth")
        if not made.exists():
            self._make("pth", made, path)
        return str(made)

    def ideals(self, sources: Sequence[str]) -> list[str]:
        """Return the paths of the policies of archives as safetensors files."""
        name = "ideal-" + hashlib.sha256("\n".join(sources).encode()).hexdigest()[:16]
        if not (self.folder / name).exists():
            self.tell(f"{self.measure}: making safetensors files")
            self._make("ideals", self.folder / name, *sources)
        return [str(self.folder / name / f"{at}.safetensors") for at in range(len(sources))]

    def _make(self, kind: str, path: Path, *rest: str) -> None:
        unfinished = path.with_name(f"unfinished-{path.name}")
        command = [sys.executable, "-m", "benchmarks.files", kind, str(unfinished), *rest]
        subprocess.run(command, cwd=ROOT, env=self.env, check=True)
        os.sync()
        unfinished.rename(path)

    def many(self, count: int) -> list[str]:
        """Return that many archives: those that exist, repeated in turn if there are too few."""
        real = self.archives[len(self.bundled) :] or self.archives
        if count <= len(real):
            return real[:count]
        folder = self.folder / "many"
        folder.mkdir(exist_ok=True)
        paths = [folder / f"{at:04}-{Path(real[at % len(real)]).name}" for at in range(count)]
        for at, path in enumerate(paths):
            if not path.exists():
                shutil.copyfile(real[at % len(real)], path)
        return list(map(str, paths))

    # -- subjects -------------------------------------------------------------------------------------

    def missing(self, names: Iterable[str]) -> dict[str, str]:
        """Return the readers among these that cannot run here, and why."""
        found = {}
        for name in names:
            module = READERS[name].module
            if module is not None and module not in self.versions:
                found[name] = "not installed"
            elif name in self.refusals:
                found[name] = f"not available: {self.refusals[name]}"
        return found

    def worker(self, subject: str) -> Worker:
        """Return the worker process of a subject; it is started at its first use."""
        if subject not in self.workers:
            self.workers[subject] = Worker(subject, self.env)
        return self.workers[subject]

    def readers(self) -> list[str]:
        """Return the installed readers that can read the bundled archive, sbformat first."""
        if not self.able:
            names = [name for name in READERS if name not in OTHER_FILES]
            lost = self.missing(names)
            self.able = [name for name in names if name not in lost and self._is_able(name)]
        return self.able

    def _is_able(self, name: str) -> bool:
        try:
            self.worker(name).seconds("policy", str(TEMPLATE), 1)
        except Failed as error:
            self.refusals[name] = str(error)
            return False
        return True

    def agreed(self, task: str) -> list[str]:
        """Return the archives for which every reader, the slow ones excepted, gives the same arrays as sbformat."""
        if task not in self.agreeing:
            names = [name for name in self.readers() if not READERS[name].is_slow]
            self.agreeing[task] = [path for path in self.archives if self._agree(task, path, names)]
        return self.agreeing[task]

    def few_agreed(self, task: str, name: str, paths: Sequence[str]) -> list[str]:
        """Return the first of these archives that a slow reader reads as well."""
        found = [path for path in paths[: 2 * FEW] if self._agree(task, path, [US, name])]
        return found[:FEW]

    def _agree(self, task: str, path: str, names: Sequence[str]) -> bool:
        digests = set()
        for name in names:
            self.tell(f"{self.measure}: does {name} read {Path(path).name}")
            try:
                digests.add(self.worker(name).ask(task, path, is_digest=True)["digest"])
            except Failed:
                return False
        return len(digests) == 1

    def close(self, names: Iterable[str] | None = None) -> None:
        """End workers: those that are named, or all."""
        for name in list(self.workers if names is None else names):
            if name in self.workers:
                self.workers.pop(name).close()

    # -- in turn --------------------------------------------------------------------------------------

    def whole(
        self,
        commands: Mapping[str, list[str]],
        rounds: int,
        *,
        accepted: tuple[int, ...] = (0,),
        is_sampled: bool = False,
        before: Callable[[], None] | None = None,
        slow: Mapping[str, int] | None = None,
    ) -> tuple[dict[str, list[Ran]], dict[str, str]]:
        """Run whole processes in turn; the first round fills caches and is not measured.

        :param before: called before each process, and not measured
        :param slow: subjects that run in the first rounds only
        :return: the cost of each by round, and the subjects that failed, with the reason
        """
        found: dict[str, list[Ran]] = {name: [] for name in commands}
        failed: dict[str, str] = {}
        for at in range(rounds + 1):
            for name, command in commands.items():
                if name in failed or at > (slow or {}).get(name, rounds):
                    continue
                self.tell(f"{self.measure}: {name}, round {at} of {rounds}")
                if before:
                    before()
                try:
                    ran = run(command, self.env, is_sampled=is_sampled, accepted=accepted)
                except Failed as error:
                    failed[name] = f"not available: {error}"
                    continue
                if at:
                    found[name].append(ran)
        return found, failed

    def python(self, code: str, *arguments: str) -> list[str]:
        """Return a command that runs code in this Python."""
        return [sys.executable, "-c", code, *arguments]

    def sbformat(self, *arguments: str) -> list[str]:
        """Return a command line of sbformat."""
        return [*command_line(), *arguments]


def pair_by_round(ran: Mapping[str, Sequence[Any]]) -> dict[str, dict[str, float]]:
    """Return the seconds of processes by round."""
    return {name: {str(at): one.seconds for at, one in enumerate(runs)} for name, runs in ran.items()}
