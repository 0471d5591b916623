"""The agent of a folder, with its statistics: for ``load_policy(folder)`` and the commands that run an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.archive.kinds import LFS_POINTER
from sbformat.constants import DATA_ENTRY
from sbformat.errors import MissingEntryError, SbformatError, UnsupportedError, quote
from sbformat.folders.names import BEST, has_usual_suffix, parse_name
from sbformat.folders.report import inspect_folder
from sbformat.folders.settings import Normalization, read_normalize
from sbformat.immutable import Record
from sbformat.io.opening import has_file, is_folder, join_path
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits

if TYPE_CHECKING:
    import os

    from sbformat.folders.report import AgentFiles, FolderReport

_LISTED: Final = 8
_BEST_FILE: Final = f"{BEST}.zip"


class ChosenAgent(Record):
    """The agent of a folder."""

    path: str
    """Of its archive."""
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
    :param limits: for each file
    :raises UnsupportedError: when the folder has several agents, and none of them is the one to prefer, or instead of
        agents pointers of Git LFS
    """
    if not is_folder(source) or has_file(source, DATA_ENTRY):
        return None
    report = inspect_folder(source, limits=limits)
    _refuse_pointers(report)
    return _complete(report, choose_agent(report), limits) if report.agents else None


def _refuse_pointers(report: FolderReport) -> None:
    """Refuse a folder whose agents were not fetched from Git LFS."""
    pointers = [file.path for file in report.others if LFS_POINTER in file.message]
    if pointers and not report.agents:
        message = f"the folder has no agent, and {quote(pointers[0], 100)} is {LFS_POINTER}"
        raise UnsupportedError(message)


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
    _refuse_pointers(report)
    if not report.agents:
        names = [file.path for file in report.others]
        raise MissingEntryError(_BEST_FILE, present=names, what="agent")
    return _complete(report, choose_agent(report), limits)


def choose_agent(report: FolderReport) -> AgentFiles:
    """Return the best agent; without one the only one that is not a checkpoint, or else the last checkpoint.

    :raises UnsupportedError: when several are left
    """
    agents = [agent for agent in report.agents if agent.kind == "folder" or has_usual_suffix(agent.path)]
    agents = agents or list(report.agents)
    best = [agent for agent in agents if agent.role == "best"]
    plain = [agent for agent in agents if agent.role == "agent"]
    plain = [agent for agent in plain if agent.kind != "policy-file"] or plain
    checkpoints = [agent for agent in agents if agent.role == "checkpoint"]
    if len(best) == 1 and not _are_apart(best[0], plain):
        return best[0]
    if not best and len(plain) == 1:
        return plain[0]
    series = {(name.folder, name.series) for name in (parse_name(agent.path) for agent in checkpoints)}
    if not best and not plain and len(series) == 1:
        return max(checkpoints, key=lambda agent: agent.steps or 0)
    names = [agent.path for agent in (*best, *plain)] or [agent.path for agent in checkpoints]
    listed = ", ".join(quote(name, 100) for name in names[:_LISTED])
    more = f", \N{HORIZONTAL ELLIPSIS} {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    message = f"the folder has {len(agents)} agents: name the file of one of them: {listed}{more}"
    raise UnsupportedError(message)


def _are_apart(best: AgentFiles, others: list[AgentFiles]) -> bool:
    """Return whether other agents are in other runs: not in the folder of the best one, nor in the one above it."""
    here = parse_name(best.path).folder
    return any(parse_name(agent.path).folder not in (here, here.rpartition("/")[0]) for agent in others)


def _complete(report: FolderReport, agent: AgentFiles, limits: Limits) -> ChosenAgent:
    normalization, problem = find_normalization(report.path, agent, limits)
    is_used = bool(agent.statistics) and normalization.is_normalized is not False
    statistics = None
    if is_used:
        folder = agent.statistics[0].rpartition("/")[0]
        statistics = join_path(report.path, folder if len(agent.statistics) > 1 else agent.statistics[0])
    names = " and ".join(quote(name) for name in agent.statistics)
    remark = f"the agent is {quote(agent.path)}"
    if names:
        remark += (
            f", its statistics {names}"
            if is_used
            else f", and its statistics {names} are not used: {normalization.why}"
        )
    path = join_path(report.path, agent.path)
    doubts = ["" if problem else describe_doubt(agent, normalization)]
    doubts += [f"{quote(file.path)} is left out: {file.message}" for file in report.unreadable if file.is_unopened]
    warning = "; ".join(filter(None, doubts))
    return ChosenAgent(path, statistics, normalization.is_normalized, remark, warning, problem)


def find_normalization(top: str, agent: AgentFiles, limits: Limits) -> tuple[Normalization, str]:
    """Return whether observations were normalized, and why that is not known (FOLDERS.md 21).

    The settings say so, or the last observation in the archive, if it was certainly normalized.

    :param top: the folder
    :param limits: for each file
    """
    found = read_normalize(top, agent.settings, limits)
    if not agent.statistics or found.is_normalized:
        return found, ""
    is_certain = _is_surely_normalized(join_path(top, agent.path), limits)
    names = " and ".join(quote(name) for name in agent.statistics)
    ask = "pass the statistics of the agent, or none, as vecnormalize (--vecnormalize FILE or none)"
    if is_certain and found.is_stated:
        contradiction = "was trained with VecNormalize, but normalize in its settings says that it was not"
        return found, f"the agent {quote(agent.path)} {contradiction}: {ask}"
    if is_certain:
        return Normalization(is_normalized=True), ""
    if found.is_unreadable:
        why = f"it is not known whether the agent was trained with {names}, because {found.not_read}"
        return found, f"{why}: install it, or {ask}"
    return found, ""


def _is_surely_normalized(path: str, limits: Limits) -> bool:
    from sbformat.formats.normalized import is_surely_normalized
    from sbformat.formats.opener import open_archive

    try:
        return is_surely_normalized(open_archive(path, Budget(limits)))
    except (SbformatError, OSError):
        return False  # what loads the agent says why


def describe_doubt(agent: AgentFiles, normalization: Normalization) -> str:
    """Return which statistics are left out and why, or why they may not be those of the agent; usually empty.

    :param agent: with its statistics
    :param normalization: what the settings say
    """
    names = " and ".join(quote(name) for name in agent.statistics)
    if not names:
        return ""
    if normalization.is_normalized is False:
        if normalization.is_stated:
            return ""
        return (
            f"the statistics {names} are not used: {normalization.why}; if the agent was trained with them, "
            f"pass them as vecnormalize (--vecnormalize FILE)"
        )
    if normalization.not_read:
        return (
            f"the statistics {names} are used, but {normalization.not_read}, so that it is not known whether the agent "
            f"was trained with them"
        )
    if _are_named_otherwise(agent):
        return f"the statistics {names} are used, the only ones there, although their name is another than the agent's"
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
