"""What belongs together in the folders of a command line, for ``inspect``."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any, Final

from sbformat.cli import _files
from sbformat.constants import DATA_ENTRY
from sbformat.errors import SbformatError
from sbformat.io.opening import has_file, is_folder
from sbformat.io.urls import hide_secrets, is_url

if TYPE_CHECKING:
    import argparse

    from sbformat.cli._output import Plain
    from sbformat.folders import AgentFiles, FolderReport
    from sbformat.limits import Limits

_RESULTS: Final = "results.json"
_SHOWN: Final = (
    "algo", "env", "n_timesteps", "seed", "normalize", "n_envs", "frame_stack", "env_wrapper", "policy",
    "mean_reward", "std_reward", "n_eval_episodes", "is_deterministic",
)  # fmt: skip
"""Settings that are printed first."""
_LONGEST: Final = 160
_LONGEST_SETTINGS: Final = 1000
_MOST_SETTINGS: Final = 30
_MOST: Final = 4
"""Items of a list that are printed."""
_ABSENT: Final[tuple[object, ...]] = (None, "", [], {})
"""Values of settings that are not printed: rl_zoo3 writes all of its arguments."""
_WORDS: Final = {True: "true", False: "false", None: "null"}


def describe_folders(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return what belongs together in each folder of a command line that is not an unzipped archive."""
    limits = _files.make_limits(args)
    found = []
    for path in dict.fromkeys(args.paths):
        try:
            if not is_folder(path) or has_file(path, DATA_ENTRY):
                continue
            from sbformat.folders import inspect_folder

            report = inspect_folder(path, limits=limits)
        except (OSError, SbformatError):  # reading the files reports it
            continue
        if report.agents:
            found.append(_describe(report, limits))
    return found


def _describe(report: FolderReport, limits: Limits) -> dict[str, Any]:
    agents = [row._asdict() for row in report.agents]
    names = dict.fromkeys(name for row in report.agents for name in row.settings)
    names |= dict.fromkeys(row.path for row in report.others if posixpath.basename(row.path) == _RESULTS)
    settings = [_read(report.path, name, limits) for name in names]
    for row, agent in zip(agents, report.agents):
        row["doubt"] = _find_doubt(report.path, agent, limits)
    return {
        "path": hide_secrets(report.path) if is_url(report.path) else report.path,
        "agents": agents,
        "others": [row._asdict() for row in report.others],
        "settings": settings,
    }


def _find_doubt(top: str, agent: AgentFiles, limits: Limits) -> str:
    """Return why the statistics beside an agent are not used, or may not be its own; usually empty."""
    from sbformat.folders.agents import describe_doubt, find_normalization

    if not agent.statistics:
        return ""
    normalization, problem = find_normalization(top, agent, limits)
    return problem or describe_doubt(agent, normalization)


def _read(top: str, name: str, limits: Limits) -> dict[str, Any]:
    from sbformat.folders.settings import read_results, read_settings
    from sbformat.io.opening import join_path

    path = join_path(top, name)
    try:
        values = read_results(path, limits) if name.endswith(_RESULTS) else read_settings(path, limits)
    except (SbformatError, OSError) as error:
        return {"path": name, "values": None, "message": str(error)}
    return {"path": name, "values": _to_json(values), "message": ""}


def _to_json(value: Any) -> Any:
    """Return a value as JSON: text for what was not made."""
    from sbformat.folders.settings import Opaque

    if isinstance(value, Opaque):
        return value.text
    if isinstance(value, dict):
        return {key: _to_json(part) for key, part in value.items()}
    return [_to_json(part) for part in value] if isinstance(value, list) else value


# -- text ---------------------------------------------------------------------------------------------


def print_folders(printer: Plain, folders: list[dict[str, Any]]) -> None:
    """Print the agents of each folder with their files, then settings, then files that belong to no agent.

    Nothing is printed of a folder in which nothing belongs to an agent: the table of its files is enough.
    """
    for folder in folders:
        rows = [_render_agent(agent) for agent in folder["agents"]]
        if not any(any(row[1:]) for row in rows) and not folder["settings"]:
            continue
        title = f"agents of {folder['path']}, and what belongs to them"
        _print_filled(printer, title, ("agent", "", "statistics", "replay buffer", "settings", "unzipped in"), rows)
        settings = [(row["path"], _render_settings(row)) for row in folder["settings"]]
        printer.table("settings and results", (), settings, longest=_LONGEST_SETTINGS)
        doubts = dict.fromkeys((agent["doubt"],) for agent in folder["agents"] if agent["doubt"])
        printer.table("statistics", (), list(doubts), longest=_LONGEST_SETTINGS)
        used = {row["path"] for row in folder["settings"]}
        used |= {name for agent in folder["agents"] for name in (*agent["statistics"], agent["replay_buffer"])}
        others = [(row["path"], _render_other(row)) for row in folder["others"] if row["path"] not in used]
        printer.table("other files", (), others, longest=_LONGEST)
        printer.line()


def _print_filled(printer: Plain, title: str, header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """Print a table without the columns that are empty in all rows."""
    columns = [place for place in range(len(header)) if any(row[place] for row in rows)]
    cells = [tuple(row[place] for place in columns) for row in rows]
    printer.table(title, tuple(header[place] for place in columns), cells, longest=_LONGEST)


def _render_agent(agent: dict[str, Any]) -> tuple[str, ...]:
    """Return the row of an agent; its files are named from its own folder."""
    here = posixpath.dirname(agent["path"])

    def shorten(*names: str | None) -> str:
        return ", ".join(posixpath.relpath(name, here or ".") for name in names if name is not None)

    role = "" if agent["role"] == "agent" else agent["role"]
    files = (shorten(*agent["statistics"]), shorten(agent["replay_buffer"]), shorten(*agent["settings"]))
    return (agent["path"], role, *files, shorten(agent["unzipped"]))


def _render_settings(row: dict[str, Any]) -> str:
    if row["values"] is None:
        return f"not read: {row['message']}"
    values = row["values"]
    others = [key for key, value in values.items() if key not in _SHOWN and value not in _ABSENT]
    keys = [key for key in _SHOWN if key in values] + others
    shown = [f"{key} {_render_value(values[key])}" for key in keys[:_MOST_SETTINGS]]
    if len(keys) > _MOST_SETTINGS:
        shown.append(f"{len(keys) - _MOST_SETTINGS:,} more (--format json)")
    return ", ".join(shown) or f"{len(values)} settings"


def _render_value(value: Any) -> str:
    if isinstance(value, dict):
        return f"({len(value)} settings)"
    if isinstance(value, list):
        shown = [_render_value(part) for part in value[:_MOST]] + ["\N{HORIZONTAL ELLIPSIS}"] * (len(value) > _MOST)
        return f"[{', '.join(shown)}]"
    if value is None or isinstance(value, bool):
        return _WORDS[value]
    if isinstance(value, float) and value.is_integer():
        return f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) and abs(value) >= 10_000 else str(value)


def _render_other(row: dict[str, Any]) -> str:
    if row["outcome"] != "ok":
        return f"{row['outcome']}: {row['message']}"
    return str(row["title"] or row["message"])
