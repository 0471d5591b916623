"""``inspect_folder``: the agents of a folder, each with the files that belong to it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from sbformat.archive.kinds import KIND_TITLES
from sbformat.errors import COULD_NOT_OPEN, require_type
from sbformat.folders.listing import list_files
from sbformat.folders.names import BEST, describe_name, order_key, parse_name
from sbformat.folders.places import AGENTS, Index
from sbformat.immutable import Record
from sbformat.io.opening import is_remote, pin_folder
from sbformat.limits import DEFAULT_LIMITS, Limits
from sbformat.rendering import count_noun

if TYPE_CHECKING:
    from collections.abc import Collection

    from sbformat.archive.kinds import Kind
    from sbformat.folders.listing import ListedFile

Role: TypeAlias = Literal["best", "agent", "checkpoint"]
"""``best``: EvalCallback's ``best_model``; ``checkpoint``: with a number of steps in its name; else ``agent``."""
_ROLES: Final[tuple[Role, ...]] = ("best", "agent", "checkpoint")


class AgentFiles(Record):
    """An agent, and the files that belong to it. Paths begin at the folder, with slashes."""

    path: str
    kind: Kind
    role: Role
    steps: int | None
    """Of a checkpoint: the number of steps in its name."""
    statistics: tuple[str, ...]
    """Of VecNormalize: one file, or SB2's ``obs_rms.pkl`` and ``ret_rms.pkl``."""
    replay_buffer: str | None
    settings: tuple[str, ...]
    """``args.yml``, ``config.yml`` and the like."""
    unzipped: str | None
    """The folder of the same name that the archive was unzipped into, as the Hugging Face tools do."""


class OtherFile(Record):
    """A file that is not an agent."""

    path: str
    kind: Kind | None
    """Of statistics, a replay buffer, or another file that sbformat reads."""
    title: str
    """What it is, by its contents or its name; empty when neither is known."""
    outcome: str
    """``ok``, or the kind of error of a file that could not be read."""
    message: str
    """Why it is not read."""

    @property
    def is_unopened(self) -> bool:
        """Whether the operating system cannot open it: a file, or a folder with files that are not known."""
        return self.outcome == COULD_NOT_OPEN


class FolderReport(Record):
    """What :func:`inspect_folder` found."""

    path: str
    agents: tuple[AgentFiles, ...]
    """By folder; in each the best, then others, then checkpoints in the order of steps."""
    others: tuple[OtherFile, ...]

    @property
    def unreadable(self) -> tuple[OtherFile, ...]:
        """The files that may be archives, and could not be read."""
        return tuple(file for file in self.others if file.outcome != "ok")

    def __repr__(self) -> str:
        counts = f"{count_noun(len(self.agents), 'agent')}, {count_noun(len(self.others), 'other file')}"
        return f"<FolderReport {counts}>"


def inspect_folder(
    folder: str | os.PathLike[str], *, limits: Limits = DEFAULT_LIMITS, leave_out: Collection[str] = ()
) -> FolderReport:
    """Find the agents in a folder and below, each with the files that belong to it (FOLDERS.md 21).

    Folders of rl_zoo3, of the Hugging Face tools and of SB3's callbacks are understood. Hidden files, and links that
    lead out of the folder, are left out. Each archive and pickle is opened to find out what it is; nothing is run::

        for agent in sbformat.inspect_folder("logs").agents:
            print(agent.path, agent.role, agent.statistics, agent.replay_buffer)

    :param folder: a path, or a URL; of a remote folder only files with the suffixes of archives are opened
    :param limits: for each file, as in :func:`sbformat.read`
    :param leave_out: real paths of folders below it that are not looked into
    :raises OSError: when the folder cannot be opened
    """
    require_type(folder, (str, os.PathLike), "the path of a folder")
    top = pin_folder(folder) if is_remote(folder) else os.fsdecode(folder)
    files = list_files(top, limits, leave_out)
    index = Index(files)
    names = {file.name for file in files}
    copies = {name for name in _find_unzipped(files) if f"{name}.zip" in names}
    agents = [
        _collect(file.name, file.kind, index, copies)
        for file in files
        if file.kind is not None and file.kind in AGENTS and file.name not in copies
    ]
    others = tuple(_describe_other(file) for file in files if file.kind not in AGENTS)
    return FolderReport(top, tuple(sorted(agents, key=_rank)), others)


def _find_unzipped(files: list[ListedFile]) -> list[str]:
    return [file.name for file in files if file.kind == "folder"]


def _collect(path: str, kind: Kind, index: Index, copies: set[str]) -> AgentFiles:
    name = parse_name(path)
    unzipped = os.path.splitext(path)[0]
    role: Role = "best" if name.stem == BEST else "agent" if name.steps is None else "checkpoint"
    return AgentFiles(
        path,
        kind,
        role,
        name.steps,
        index.find_statistics(name),
        index.find_buffer(name),
        index.find_settings(name),
        unzipped if unzipped in copies else None,
    )


def _rank(agent: AgentFiles) -> tuple[Any, ...]:
    name = parse_name(agent.path)
    return order_key(name.folder), _ROLES.index(agent.role), order_key(name.series), name.steps or 0, agent.path


def _describe_other(file: ListedFile) -> OtherFile:
    title = KIND_TITLES.get(file.kind, "") if file.kind is not None else describe_name(file.name)
    return OtherFile(file.name, file.kind, title, file.outcome or "ok", file.message)
