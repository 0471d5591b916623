"""What the names of files say: the number of steps, the series of checkpoints, and what SB3 and rl_zoo3 call files."""

from __future__ import annotations

import os
import re
from typing import Final

from sbformat.constants import ARCHIVE_SUFFIXES
from sbformat.immutable import Record

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
    "results.json": "evaluation of the Hugging Face tools",
    "config.json": "data of an agent, without its weights",
    "evaluations.npz": "evaluations of EvalCallback",
    "train_eval_metrics.zip": "training and evaluation metrics of rl_zoo3",
    "command.txt": "the command of rl_zoo3",
    "replay.mp4": "video",
    "progress.csv": "log of training",
}
_SUFFIX_TITLES: Final = (
    ("monitor.csv", "episodes of Monitor"),
    ("readme.md", "description"),
    (".md", "text"),
    (".txt", "text"),
    (".mp4", "video"),
    (".gif", "picture"),
    (".png", "picture"),
    (".csv", "table"),
    (".json", "JSON"),
    (".yml", "settings"),
    (".yaml", "settings"),
    (".npz", "arrays"),
    (".npy", "arrays"),
    (".safetensors", "arrays"),
)


class FileName(Record):
    """What the name of a file says."""

    folder: str
    """The folder of the file, relative to the top; empty for the top."""
    stem: str
    """The name without its suffix."""
    steps: int | None
    """Of a checkpoint: the number of steps."""
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
    return next((title for suffix, title in _SUFFIX_TITLES if last.endswith(suffix)), "")


def is_settings(name: str) -> bool:
    """Return whether a file is called like settings of rl_zoo3: ``config.yml``, ``args.yml``."""
    stem, suffix = os.path.splitext(name.rpartition("/")[2].lower())
    return suffix in YAML_SUFFIXES and stem in SETTINGS
