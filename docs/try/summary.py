"""What the page "Try it" shows of a file or folder: its worker calls these functions in Pyodide.

In: a path in the memory of the worker. Out: text of JSON. :func:`scan` and :func:`describe` are what the commands
``scan`` and ``inspect --long`` print, :func:`act` is the program that the page runs to compute actions.

numpy, which Pyodide has to download, is needed for statistics of VecNormalize, logs of evaluations and sparse tensors.
Where it is missing, the result has ``numpy: true`` and what can be had without it; ``error`` is why there is none.

``agent`` is the path of the agent of a folder that the user chose; it is empty for the one that
:func:`sbformat.find_agent` prefers.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
from typing import TYPE_CHECKING, Any, Final

from sbformat.catalogue.collect import FileData
from sbformat.cli import main
from sbformat.cli._inspect_page import Page, print_page, read_beside
from sbformat.cli._output import Recorder
from sbformat.cli.inspect import print_contents
from sbformat.errors import SbformatError, UnsupportedError
from sbformat.folders.agents import complete_agent, find_in_folder, inspect_folder
from sbformat.html_report.diagram import make_diagram
from sbformat.limits import DEFAULT_LIMITS
from sbformat.policies.loading import load_model
from sbformat.reader import read_in_place
from sbformat.tools.inspect import inspect

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbformat.folders.agents import ChosenAgent
    from sbformat.html_report.diagram import Diagram

_BYTES: Final = (
    (re.compile(r"^at byte 0: "), ""),
    (re.compile(r"a file that starts with .*", re.DOTALL), "a file of a type that sbformat does not know"),
    (re.compile(r"; it starts with .*", re.DOTALL), ""),
)
"""What is changed in messages: the first bytes of a file that is not an archive say nothing to most people."""


def clear(top: str, name: str) -> None:
    """Make an empty folder, the only one in another, and the one that paths begin at.

    :param name: a new one for each: sbformat keeps what it knows of a path for a minute
    """
    os.chdir("/")
    shutil.rmtree(top, ignore_errors=True)
    os.makedirs(os.path.join(top, name))
    os.chdir(os.path.join(top, name))


def scan(path: str) -> str:
    """Return the document of ``sbformat scan --format json``, by ``schema/report.schema.json``."""
    with contextlib.redirect_stdout(io.StringIO()) as output, contextlib.redirect_stderr(io.StringIO()):
        try:
            main(["scan", "--format", "json", path])
        except ImportError as error:  # of sparse tensors
            return json.dumps({"numpy": _require_numpy(error)})
    return output.getvalue()


def describe(path: str, agent: str = "") -> str:
    """Return the tables that ``sbformat inspect --long`` prints, and the diagram of the network.

    The result has ``remarks``, sentences; ``page`` and ``details``, lists of tables, each a title, the titles of its
    columns, and rows; ``has_policy``; ``diagram``, which is None without a network or of a large one; and ``loaded``,
    the paths of the agent and its statistics. Of a folder with several agents, none of them to prefer, it has
    ``agents`` alone, their paths.
    """
    return _answer(lambda: _describe(path, agent))


def act(path: str, agent: str = "", statistics: bool | None = None) -> str:  # noqa: FBT001 -- JavaScript calls it
    """Return the program of ``sbformat export --format javascript``, and ``remarks``, sentences.

    Where it is not certain whether the statistics beside an agent are its own, the result has ``choices``: values of
    ``statistics`` to call it with.

    :param statistics: whether those that are found are used; None to use them if that is certain
    """
    return _answer(lambda: _act(path, agent, statistics))


def _answer(work: Callable[[], dict[str, Any]]) -> str:
    """Return the result of some work as JSON, or why there is none."""
    try:
        return json.dumps(work())
    except (SbformatError, OSError) as error:
        text = str(error)
        for pattern, replacement in _BYTES:
            text = pattern.sub(replacement, text)
        return json.dumps({"error": text})
    except ImportError as error:
        return json.dumps({"numpy": _require_numpy(error)})


def _require_numpy(error: ImportError) -> bool:
    """Raise the error again, unless it is about numpy."""
    if error.name != "numpy":
        raise error
    return True


def _choose(path: str, agent: str) -> ChosenAgent | None:
    """Return the agent of a folder with its statistics; None for a file, and a folder without agents."""
    if not agent:
        return find_in_folder(path)
    report = inspect_folder(path)
    return complete_agent(report, next(found for found in report.agents if found.path == agent))


def _describe(path: str, agent: str) -> dict[str, Any]:
    try:
        chosen = _choose(path, agent)
    except UnsupportedError:
        agents = [found.path for found in inspect_folder(path).agents]
        if not agents:  # pointers of Git LFS
            raise
        return {"agents": agents}
    remarks = [] if chosen is None else [text for text in (chosen.remark, chosen.warning) if text]
    source = path if chosen is None else chosen.path
    archive = read_in_place(source, on_unknown="inert")
    report = inspect(archive)
    training, needs_numpy = None, False
    try:
        training = read_beside(source, FileData(source, archive, None, report, None), DEFAULT_LIMITS)
    except ImportError as error:
        needs_numpy = _require_numpy(error)
    page, details = Recorder(), Recorder()
    print_page(page, Page(source, report, archive, "it is above", training, has_details=True))
    page.table("broken", ("entry", "outcome", "why"), report.broken)
    print_contents(details, report)
    diagram = None if report.network is None else make_diagram(report.network)
    return {
        "numpy": needs_numpy,
        "loaded": [source] if chosen is None or chosen.statistics is None else [source, chosen.statistics],
        "has_policy": report.network is not None,
        "remarks": remarks,
        "page": _list_tables(page),
        "details": _list_tables(details),
        "diagram": None if diagram is None else _list_boxes(diagram),
    }


def _list_tables(recorder: Recorder) -> list[Any]:
    return [values[:3] for name, values, _ in recorder.recorded if name == "draw"]


def _list_boxes(diagram: Diagram) -> dict[str, Any]:
    boxes = [(box.kind, box.x - box.width / 2, box.y, box.width, box.height, box.x, box.texts) for box in diagram.boxes]
    return {"width": diagram.width, "height": diagram.height, "lines": diagram.lines, "boxes": boxes}


def _act(path: str, agent: str, statistics: bool | None) -> dict[str, Any]:  # noqa: FBT001 -- as above
    from sbformat.policies.javascript.export import make_program

    chosen = _choose(path, agent)
    source, found, was_normalized = path, None, False
    if chosen is not None:
        source, found, was_normalized = chosen.path, chosen.statistics, bool(chosen.is_normalized)
        if chosen.problem and statistics is None:
            return {"error": chosen.problem.partition(": ")[0], "choices": [False, True] if found else [False]}
    model = load_model(source, vecnormalize=False if statistics is False else found)
    remark = ""
    if statistics is False:
        remark = "If the agent was trained with statistics, enter normalized observations: none are used here."
    elif (model.was_normalized or was_normalized) and not model.is_normalized:
        remark = (
            "The agent was trained with normalized observations, and the statistics are not there: "
            "enter normalized observations, or drop the folder that has vecnormalize.pkl, too."
        )
    return {"remarks": [remark] if remark else [], "program": make_program(model)}
