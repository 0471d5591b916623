"""The agents of a folder, each with the files that belong to it, and the one to prefer (FOLDERS.md 21).

:func:`inspect_folder` lists them; :func:`find_agent` chooses one with its statistics, for ``load_policy(folder)`` and
the commands that run an agent.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from sbformat.archive.kinds import KIND_TITLES, LFS_POINTER
from sbformat.constants import DATA_ENTRY
from sbformat.errors import COULD_NOT_OPEN, MissingEntryError, SbformatError, UnsupportedError, quote, require_type
from sbformat.folders.listing import list_files
from sbformat.folders.names import AGENTS, BEST, Index, describe_name, has_usual_suffix, order_key, parse_name
from sbformat.folders.settings import Normalization, read_normalize
from sbformat.immutable import Record
from sbformat.io.opening import has_file, is_folder, is_remote, join_path, pin_folder
from sbformat.io.patterns import Exclusion
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits
from sbformat.rendering import count_noun

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from sbformat.archive.kinds import Kind
    from sbformat.folders.names import FileName
    from sbformat.folders.trees import Beside


Role: TypeAlias = Literal["best", "agent", "checkpoint"]
"""``best``: EvalCallback's ``best_model``; ``checkpoint``: with a number of steps in its name; else ``agent``."""
_ROLES: Final[tuple[Role, ...]] = ("best", "agent", "checkpoint")


class AgentFiles(Record):
    """An agent, and the files that belong to it. Paths begin at the folder, with slashes."""

    path: str
    kind: Kind
    role: Role
    steps: int | None
    """The number of steps in the name of a checkpoint."""
    statistics: tuple[str, ...]
    """The statistics of VecNormalize: one file, or SB2's ``obs_rms.pkl`` and ``ret_rms.pkl``."""
    replay_buffer: str | None
    settings: tuple[str, ...]
    """``args.yml``, ``config.yml`` and the like."""
    logs: tuple[str, ...]
    """``evaluations.npz``, ``monitor.csv``, ``progress.csv`` and TensorBoard's event files of its run."""
    unzipped: str | None
    """The folder of the same name that the archive was unzipped into, as the Hugging Face tools do."""


class OtherFile(Record):
    """A file that is not an agent."""

    path: str
    kind: Kind | None
    """The kind of a file that sbformat reads: statistics, a replay buffer, or another."""
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
    """The result of :func:`inspect_folder`."""

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
    folder: str | os.PathLike[str],
    *,
    limits: Limits = DEFAULT_LIMITS,
    leave_out: Collection[str] = (),
    exclude: Iterable[str] = (),
) -> FolderReport:
    """Find the agents in a folder and below, each with the files that belong to it (FOLDERS.md 21).

    Folders of rl_zoo3, of the Hugging Face tools and of SB3's callbacks are understood. Hidden files, and links that
    lead out of the folder, are left out. Each archive and pickle is opened to find out what it is; nothing is run::

        for agent in sbformat.inspect_folder("logs").agents:
            print(agent.path, agent.role, agent.statistics, agent.replay_buffer)

    :param folder: a path, or a URL; of a remote folder only files with the suffixes of archives are opened
    :param limits: for each file, as in :func:`sbformat.read`
    :param leave_out: real paths of folders below it that are not looked into
    :param exclude: patterns of files and folders below it that are left out, as those of ``sbformat inspect --exclude``
    :raises OSError: when the folder cannot be opened
    """
    require_type(folder, (str, os.PathLike), "the path of a folder")
    top = pin_folder(folder) if is_remote(folder) else os.fsdecode(folder)
    files = list_files(top, limits, leave_out, Exclusion(exclude))
    index = Index(files)
    names = {file.name for file in files}
    copies = {file.name for file in files if file.kind == "folder" and f"{file.name}.zip" in names}
    agents, others = [], []
    for file in files:
        kind = file.kind
        if kind is None or kind not in AGENTS:
            title = describe_name(file.name) if kind is None else KIND_TITLES.get(kind, "")
            others.append(OtherFile(file.name, kind, title, file.outcome or "ok", file.message))
        elif file.name not in copies:
            agents.append(_collect(file.name, kind, index, copies))
    return FolderReport(top, tuple(sorted(agents, key=_rank)), tuple(others))


def _collect(path: str, kind: Kind, index: Index, copies: set[str]) -> AgentFiles:
    name = parse_name(path)
    statistics, buffer, settings = index.find_statistics(name), index.find_buffer(name), index.find_settings(name)
    unzipped = os.path.splitext(path)[0]
    return AgentFiles(
        path,
        kind,
        _find_role(name),
        name.steps,
        statistics,
        buffer,
        settings,
        index.find_logs(name),
        unzipped if unzipped in copies else None,
    )


def _find_role(name: FileName) -> Role:
    return "best" if name.stem == BEST else "agent" if name.steps is None else "checkpoint"


def _rank(agent: AgentFiles) -> tuple[Any, ...]:
    name = parse_name(agent.path)
    return order_key(name.folder), _ROLES.index(agent.role), order_key(name.series), name.steps or 0, agent.path


_LISTED: Final = 8
_BEST_FILE: Final = f"{BEST}.zip"


class ChosenAgent(Record):
    """The agent of a folder."""

    path: str
    """The path of its archive."""
    statistics: str | None
    """The path of its statistics: a file, or the folder with SB2's two."""
    is_normalized: bool | None
    """Whether ``config.yml`` says that observations were normalized; None if there is none, or without PyYAML."""
    remark: str
    """Which files were chosen, as a sentence."""
    warning: str
    """Which statistics, files and folders were left out and why, or that settings were not read; empty when nothing is
    uncertain."""
    problem: str = ""
    """Why it has to be given whether the statistics are those of the agent; empty when that is known."""


def find_in_folder(source: object, limits: Limits = DEFAULT_LIMITS) -> ChosenAgent | None:
    """Return the agent of a folder; None for what is not a folder, an unzipped archive, and a folder without agents.

    :param source: any source of :func:`sbformat.read`
    """
    if not is_folder(source) or has_file(source, DATA_ENTRY):
        return None
    try:
        return find_agent(source, limits=limits)
    except MissingEntryError:
        return None


def find_agent(folder: str | os.PathLike[str], *, limits: Limits = DEFAULT_LIMITS) -> ChosenAgent:
    """Return the agent that ``load_policy(folder)`` loads, and its statistics (FOLDERS.md 21).

    It is ``best_model.zip``; without one the only agent that is not a checkpoint, or else the last checkpoint. Its
    statistics are not used where ``normalize`` of ``config.yml`` is false, or missing in a ``config.yml`` of rl_zoo3,
    which PyYAML reads (extra ``yaml``), unless the last observation of the agent was certainly normalized::

        chosen = sbformat.find_agent("logs/ppo/Pendulum-v1_1")
        policy = sbformat.load_policy(chosen.path, vecnormalize=chosen.statistics)

    :param folder: a path, or a URL such as ``hf://sb3/ppo-CartPole-v1``
    :param limits: for each file, as in :func:`sbformat.read`
    :raises MissingEntryError: when it has no agent
    :raises UnsupportedError: when it has several, and none of them is the one to prefer, or instead of agents pointers
        of Git LFS
    :raises OSError: when it cannot be opened
    """
    report = inspect_folder(folder, limits=limits)
    if not report.agents:
        pointer = next((file.path for file in report.others if LFS_POINTER in file.message), None)
        if pointer is not None:
            raise UnsupportedError(f"the folder has no agent, and {quote(pointer, 100)} is {LFS_POINTER}")
        raise MissingEntryError(_BEST_FILE, present=[file.path for file in report.others], what="agent")
    return complete_agent(report, choose_agent(report), limits)


def choose_agent(report: FolderReport) -> AgentFiles:
    """Return the best agent; without one the only one that is not a checkpoint, or else the last checkpoint."""
    agents = [agent for agent in report.agents if agent.kind == "folder" or has_usual_suffix(agent.path)]
    agents = agents or list(report.agents)
    best = [agent for agent in agents if agent.role == "best"]
    plain = [agent for agent in agents if agent.role == "agent"]
    plain = [agent for agent in plain if agent.kind != "policy-file"] or plain
    checkpoints = [agent for agent in agents if agent.role == "checkpoint"]
    if len(best) == 1:
        here = parse_name(best[0].path).folder
        # others in the folder of the best one, or in the one above it, are of the same run
        if all(parse_name(agent.path).folder in (here, here.rpartition("/")[0]) for agent in plain):
            return best[0]
    if not best and len(plain) == 1:
        return plain[0]
    series = {(name.folder, name.series) for name in (parse_name(agent.path) for agent in checkpoints)}
    if not best and not plain and len(series) == 1:
        return max(checkpoints, key=lambda agent: agent.steps or 0)
    first = [*best, *plain]
    names = [agent.path for agent in (*first, *(agent for agent in agents if agent not in first))]
    listed = ", ".join(quote(name, 100) for name in names[:_LISTED])
    more = f", \N{HORIZONTAL ELLIPSIS} {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    hint = f"name the file of one of them: {listed}{more}"
    raise UnsupportedError(f"the folder has {len(agents)} agents: {hint}", hint=hint)


def find_statistics(beside: Beside, name: str, kind: Kind, limits: Limits) -> ChosenAgent:
    """Return an agent that was named itself with the statistics beside it, as :func:`find_agent` does in its folder.

    :param beside: the files that belong to it
    :param name: of its file
    """
    path = f"{beside.folder}/{name}" if beside.folder else name
    role = _find_role(parse_name(path))
    agent = AgentFiles(path, kind, role, None, beside.statistics, None, beside.settings, beside.logs, None)
    return complete_agent(FolderReport(beside.top, (agent,), ()), agent, limits)


def complete_agent(report: FolderReport, agent: AgentFiles, limits: Limits = DEFAULT_LIMITS) -> ChosenAgent:
    """Return an agent of a folder with its statistics, as :func:`find_agent` does with the one to prefer."""
    normalization, problem = find_normalization(report.path, agent, limits)
    is_used = bool(agent.statistics) and normalization.is_normalized is not False
    statistics = None
    if is_used:
        folder = agent.statistics[0].rpartition("/")[0]
        statistics = join_path(report.path, folder if len(agent.statistics) > 1 else agent.statistics[0])
    remark = f"the agent is {quote(agent.path)}"
    if is_used:
        remark += f", its statistics {_name_statistics(agent)}"
    elif agent.statistics:
        remark += f", and its statistics {_name_statistics(agent)} are not used: {normalization.why}"
    path = join_path(report.path, agent.path)
    doubts = ["" if problem else describe_doubt(agent, normalization)]
    doubts += [f"{quote(file.path)} is left out: {file.message}" for file in report.unreadable if file.is_unopened]
    warning = "; ".join(filter(None, doubts))
    return ChosenAgent(path, statistics, normalization.is_normalized, remark, warning, problem)


def _name_statistics(agent: AgentFiles) -> str:
    return " and ".join(map(quote, agent.statistics))


def find_normalization(top: str, agent: AgentFiles, limits: Limits) -> tuple[Normalization, str]:
    """Return whether observations were normalized, and why that is not known (FOLDERS.md 21).

    The settings say so, or the last observation in the archive, if it was certainly normalized.
    """
    from sbformat.formats.normalized import is_surely_normalized
    from sbformat.formats.opener import open_archive

    found = read_normalize(top, agent.settings, limits)
    if not agent.statistics or found.is_normalized:
        return found, ""
    try:
        is_certain = is_surely_normalized(open_archive(join_path(top, agent.path), Budget(limits)))
    except (SbformatError, OSError):
        is_certain = False  # what loads the agent says why
    ask = "pass the statistics of the agent, or none, as vecnormalize (--vecnormalize FILE or none)"
    if is_certain and found.is_stated:
        contradiction = "was trained with VecNormalize, but normalize in its settings says that it was not"
        return found, f"the agent {quote(agent.path)} {contradiction}: {ask}"
    if is_certain:
        return Normalization(is_normalized=True), ""
    if found.is_unreadable:
        trained = f"the agent was trained with {_name_statistics(agent)}"
        return found, f"it is not known whether {trained}, because {found.not_read}: install it, or {ask}"
    return found, ""


def describe_doubt(agent: AgentFiles, normalization: Normalization) -> str:
    """Return which statistics are left out and why, or why they may not be those of the agent; usually empty.

    :param agent: with its statistics
    :param normalization: what the settings say
    """
    start = f"the statistics {_name_statistics(agent)} are"
    if not agent.statistics or (normalization.is_normalized is False and normalization.is_stated):
        return ""
    if normalization.is_normalized is False:
        advice = "if the agent was trained with them, pass them as vecnormalize (--vecnormalize FILE)"
        return f"{start} not used: {normalization.why}; {advice}"
    if normalization.not_read:
        unknown = "it is not known whether the agent was trained with them"
        return f"{start} used, but {normalization.not_read}, so that {unknown}"
    if _are_named_otherwise(agent):
        return f"{start} used, the only ones there, although their name is another than the agent's"
    return ""


def _are_named_otherwise(agent: AgentFiles) -> bool:
    """Return whether statistics, or the folder that they are in, are called like something else than the agent.

    The best agent of a run and its checkpoints have names of their own.
    """
    name, found = parse_name(agent.path), parse_name(agent.statistics[0])
    if agent.role != "agent" or len(agent.statistics) > 1:
        return False
    is_below = found.folder.rpartition("/")[0] == name.folder and found.folder not in ("", name.folder)
    if is_below and found.folder.rpartition("/")[2] != name.stem:
        return True
    return bool(found.series) and found.series not in (name.stem, name.series)
