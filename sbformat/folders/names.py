"""The meaning of the names of files, and the folders in which to look for the files of an agent, nearest first."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from sbformat.constants import ARCHIVE_SUFFIXES, OBSERVATIONS_FILE, RETURNS_FILE, WHOLE_FILES
from sbformat.folders.logs import METRICS_FILE, is_log
from sbformat.immutable import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sbformat.folders.listing import ListedFile


_STEPS: Final = re.compile(r"(?:^|[_-])(\d{1,18})_steps$", re.ASCII)
_KINDS: Final = re.compile(
    r"(?:^|[_-])(?:vec[_-]?normalize|replay[_-]?buffer|obs_rms|ret_rms)(?=$|[_-])", re.IGNORECASE
)
_DIGITS: Final = re.compile(r"(\d+)", re.ASCII)
_LONGEST_NUMBER: Final = 18

BEST: Final = "best_model"
"""The name that SB3's EvalCallback gives the best agent."""
YAML_SUFFIXES: Final = (".yml", ".yaml")
SETTINGS: Final = frozenset({"args", "config", "env_kwargs", "hyperparams", "hyperparameters"})
"""Names of settings files of rl_zoo3 and of others that follow it, without the suffix."""

_TITLES: Final = {
    "results.json": "evaluation of the Hugging Face tools", "config.json": "data of an agent, without its weights",
    "evaluations.npz": "evaluations of EvalCallback", "command.txt": "the command of rl_zoo3",
    METRICS_FILE: "training and evaluation metrics of rl_zoo3", "replay.mp4": "video",
    "progress.csv": "log of training",
}  # fmt: skip
_SUFFIX_TITLES: Final = {
    "monitor.csv": "episodes of Monitor", "readme.md": "description", ".md": "text", ".txt": "text", ".mp4": "video",
    ".gif": "picture", ".png": "picture", ".csv": "table", ".json": "JSON", ".yml": "settings", ".yaml": "settings",
    ".npz": "arrays", ".npy": "arrays", ".safetensors": "arrays",
}  # fmt: skip
"""The first suffix that a name has counts."""


class FileName(Record):
    """The parts of the name of a file."""

    folder: str
    """The folder of the file, relative to the top; empty for the top."""
    stem: str
    """The name without its suffix."""
    steps: int | None
    """The number of steps of a checkpoint."""
    series: str
    """The stem without steps and without what the file is: checkpoints of one run have the same."""


def parse_name(name: str) -> FileName:
    """Return what a name says.

    >>> parse_name("logs/rl_model_vecnormalize_1000_steps.pkl")
    FileName(folder='logs', stem='rl_model_vecnormalize_1000_steps', steps=1000, series='rl_model')

    :param name: the path from the top of the folder, with slashes
    """
    folder, _, last = name.rpartition("/")
    start, suffix = os.path.splitext(last)
    stem = start if suffix.lower() in ARCHIVE_SUFFIXES else last  # folders have no suffix
    found = _STEPS.search(stem)
    rest = stem[: found.start()] if found else stem
    return FileName(folder, stem, int(found[1]) if found else None, _KINDS.sub("", rest).strip("_-"))


def name_in_run(path: str) -> str:
    """Return the last parts of a path, as many as it takes to see which agent it is.

    >>> name_in_run("logs/CartPole-v1_1/best_model.zip"), name_in_run("logs/ppo-cartpole.zip")
    ('CartPole-v1_1/best_model.zip', 'ppo-cartpole.zip')
    """
    *folders, last = path.replace(os.sep, "/").rstrip("/").split("/")
    name = parse_name(last)
    shown = [last]
    is_usual = name.steps is not None or name.series.lower() in _USUAL
    while is_usual and folders and folders[-1].strip("."):
        shown.insert(0, folders.pop())
        is_usual = shown[0].lower() in PARTS_OF_RUNS
    return "/".join(shown)


def has_usual_suffix(name: str) -> bool:
    """Return whether a file is called like one that may be an agent; others are opened for what they start with."""
    return name.lower().endswith(ARCHIVE_SUFFIXES)


def order_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return what names are sorted by: numbers in them as numbers, so that ``run_10`` comes after ``run_2``."""
    parts = _DIGITS.split(name)
    return tuple(
        (0, int(part), "") if place % 2 and len(part) <= _LONGEST_NUMBER else (1, 0, part)
        for place, part in enumerate(parts)
        if part
    )


def describe_name(name: str) -> str:
    """Return what a file is by its name; empty when the name does not say."""
    last = name.rpartition("/")[2].lower()
    if last in _TITLES:
        return _TITLES[last]
    if last.startswith("events.out.tfevents."):
        return "log of TensorBoard"
    return next((title for suffix, title in _SUFFIX_TITLES.items() if last.endswith(suffix)), "")


PARTS_OF_RUNS: Final = frozenset({
    "best", "best_model", "best_models", "checkpoint", "checkpoints", "eval", "final", "last", "logs", "model",
    "models", "saved_models", "weights",
})  # fmt: skip
"""Names of folders with agents of a run whose other files may be one level up."""
_USUAL: Final = PARTS_OF_RUNS | {"agent", "final_model", "last_model", "policy", "rl_model"}
"""Names of agents that many runs have."""
AGENTS: Final = frozenset({"sb3", "sbx", "folder", "sb2-zip", "sb2-pickle", "policy-file"})
"""Kinds of files with an agent."""


def is_settings(name: str) -> bool:
    """Return whether a file is called like settings."""
    stem, suffix = os.path.splitext(_last(name).lower())
    return suffix in YAML_SUFFIXES and stem in SETTINGS


class Companion(Record):
    """Statistics of VecNormalize: one file, or the two of SB2."""

    files: tuple[str, ...]
    name: FileName


class Index:
    """The files of a folder by what they are and the folder that they are in.

    :param files: of :func:`sbformat.folders.listing.list_files`
    """

    def __init__(self, files: Iterable[ListedFile]) -> None:
        self.agents: defaultdict[str, list[ListedFile]] = defaultdict(list)
        self.statistics: defaultdict[str, list[Companion]] = defaultdict(list)
        self.buffers: defaultdict[str, list[Companion]] = defaultdict(list)
        self.settings: defaultdict[str, list[str]] = defaultdict(list)
        self.logs: defaultdict[str, list[str]] = defaultdict(list)
        self.others: set[str] = set()
        """Statistics and replay buffers."""
        self._run_folders: defaultdict[str, list[str]] = defaultdict(list)
        pairs: defaultdict[str, list[str]] = defaultdict(list)
        for file in files:
            name = parse_name(file.name)
            if file.kind in ("running-mean-std", "vecnormalize", "replay-buffer"):
                self.others.add(file.name)
            if file.kind in AGENTS:
                self.agents[name.folder].append(file)
            elif file.kind == "running-mean-std" and _last(file.name) in (OBSERVATIONS_FILE, RETURNS_FILE):
                pairs[name.folder].append(file.name)
            elif file.kind in ("vecnormalize", "running-mean-std"):
                self.statistics[name.folder].append(Companion((file.name,), name))
            elif file.kind == "replay-buffer":
                self.buffers[name.folder].append(Companion((file.name,), name))
            elif is_log(file.name):
                self.logs[name.folder].append(file.name)
            elif is_settings(file.name):
                self.settings[name.folder].append(file.name)
        for folder, names in pairs.items():
            self.statistics[folder].append(Companion(tuple(names), parse_name(names[0])))
        for folder in dict.fromkeys([*self.statistics, *self.settings]):
            if folder and folder not in self.agents:
                self._run_folders[folder.rpartition("/")[0]].append(folder)

    def list_places(self, agent: FileName) -> Iterator[str]:
        """Yield the folders in which to look for the files of an agent.

        First the folder that is called like the agent, where rl_zoo3 has them; then its own; then the only folder in it
        that has settings or statistics and no agent, which rl_zoo3 calls like the environment. For an agent in a folder
        that is called ``checkpoints`` and the like, the same of the folder above.
        """
        here = agent.folder
        yield f"{here}/{agent.stem}" if here else agent.stem
        yield here
        yield from self._list_run_folder(here, agent)
        above, _, last = here.rpartition("/")
        if last.lower() in PARTS_OF_RUNS:
            yield above
            yield from (folder for folder in self._list_run_folder(above, agent) if folder != here)

    def _list_run_folder(self, folder: str, agent: FileName) -> list[str]:
        """Return the only folder with settings or statistics, unless it is that of another agent than this one."""
        found = self._run_folders[folder]
        if len(found) != 1:
            return []
        is_part = agent.steps is not None or agent.stem == BEST
        stems = {parse_name(other.name).stem for other in self.agents[folder]} - {agent.stem}
        return found if is_part or _last(found[0]) not in stems else []

    def find_statistics(self, agent: FileName) -> tuple[str, ...]:
        """Return the file with the statistics of an agent, or SB2's two; empty when none belongs to it."""
        for place in self.list_places(agent):
            found = self.statistics[place]
            unnumbered = [item for item in found if item.name.steps is None]
            chosen = _find_same_step(found, agent) or _find_only([i for i in unnumbered if i.name.series == agent.stem])
            chosen = chosen or _find_usual_name(found)
            if chosen is None and not self._are_several(place, agent):
                chosen = _find_only(unnumbered)
            if chosen is not None:
                return chosen.files
        return ()

    def _are_several(self, place: str, agent: FileName) -> bool:
        """Return whether a file with any name could be another agent's: one that is not a part of the same run."""
        names = (parse_name(other.name) for folder in {place, agent.folder} for other in self.agents[folder])
        return len({name.stem for name in names if name.steps is None and name.stem not in (BEST, agent.stem)}) > (
            agent.steps is not None or agent.stem == BEST
        )

    def find_buffer(self, agent: FileName) -> str | None:
        """Return the replay buffer of an agent: that of the same step, of its name, or the only one without a step."""
        for place in self.list_places(agent):
            found = self.buffers[place]
            if agent.steps is None:
                unnumbered = [item for item in found if item.name.steps is None]
                same = [item for item in unnumbered if item.name.series == agent.stem]
                if not same:
                    has_others = self._are_several(place, agent)
                    same = [item for item in unnumbered if not (item.name.series and has_others)]
                chosen = _find_only(same)
            else:  # a buffer of another step is not the one that belongs to a checkpoint
                chosen = _find_same_step(found, agent)
            if chosen is not None:
                return chosen.files[0]
        return None

    def find_settings(self, agent: FileName) -> tuple[str, ...]:
        """Return the settings files of an agent: those of the nearest folder that has some."""
        return next((tuple(self.settings[place]) for place in self.list_places(agent) if self.settings[place]), ())

    def find_logs(self, agent: FileName) -> tuple[str, ...]:
        """Return the logs of the run of an agent: of the nearest folder that has some, if it has one run."""
        place = next((place for place in self.list_places(agent) if self.logs[place]), None)
        return () if place is None or self._are_several(place, agent) else tuple(self.logs[place])


def _last(name: str) -> str:
    return name.rpartition("/")[2]


def _find_only(found: list[Companion]) -> Companion | None:
    return found[0] if len(found) == 1 else None


def _find_same_step(found: list[Companion], agent: FileName) -> Companion | None:
    """Return what was saved at the step of a checkpoint, of its series if there are several."""
    if agent.steps is None:
        return None
    same = [item for item in found if item.name.steps == agent.steps]
    return _find_only([item for item in same if item.name.series == agent.series] or same)


def _find_usual_name(found: list[Companion]) -> Companion | None:
    """Return the statistics that have the name of rl_zoo3, that of the Hugging Face tools, or those of SB2's files."""
    for names in (*((name,) for name in WHOLE_FILES), (OBSERVATIONS_FILE, RETURNS_FILE)):
        for item in found:
            if _last(item.files[0]) in names:
                return item
    return None
