"""What the page "Try it" shows of a file or folder: its worker calls these functions in Pyodide.

In: a path in the memory of the worker. Out: text of JSON. :func:`scan` and :func:`describe` are what the commands
``scan`` and ``inspect --long`` print, :func:`act` is the program that the page runs to compute actions.

numpy, which Pyodide has to download, is needed for statistics of VecNormalize, logs of evaluations and sparse tensors.
Where it is missing, the result has ``numpy: true`` and what can be had without it; ``error`` is why there is none.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import warnings
from typing import TYPE_CHECKING, Any

from sbformat.catalogue.collect import FileData
from sbformat.cli import main
from sbformat.cli._inspect_page import Page, print_page, read_beside
from sbformat.cli._output import Recorder
from sbformat.cli.inspect import print_contents
from sbformat.errors import SbformatError
from sbformat.folders.agents import find_in_folder
from sbformat.html_report.diagram import make_diagram
from sbformat.limits import DEFAULT_LIMITS
from sbformat.policies.loading import load_model
from sbformat.reader import read_in_place
from sbformat.tools.inspect import inspect

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbformat.html_report.diagram import Diagram


def clear(folder: str) -> None:
    """Make a folder that is empty, and the one that paths begin at."""
    os.chdir("/")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    os.chdir(folder)


def scan(path: str) -> str:
    """Return the document of ``sbformat scan --format json``, by ``schema/report.schema.json``."""
    with contextlib.redirect_stdout(io.StringIO()) as output, contextlib.redirect_stderr(io.StringIO()):
        try:
            main(["scan", "--format", "json", path])
        except ImportError as error:  # of sparse tensors
            return json.dumps({"numpy": _require_numpy(error)})
    return output.getvalue()


def describe(path: str) -> str:
    """Return the tables that ``sbformat inspect --long`` prints, and the diagram of the network.

    The result has ``remarks``, sentences; ``page`` and ``details``, lists of tables, each a title, the titles of its
    columns, and rows; and ``diagram``, which is None without a network or of a large one.
    """
    return _answer(lambda: _describe(path))


def act(path: str) -> str:
    """Return the program of ``sbformat export --format javascript``, and ``remarks``, sentences."""
    return _answer(lambda: _act(path))


def _answer(work: Callable[[], dict[str, Any]]) -> str:
    """Return the result of some work as JSON, or why there is none."""
    try:
        return json.dumps(work())
    except (SbformatError, OSError) as error:
        return json.dumps({"error": str(error)})
    except ImportError as error:
        return json.dumps({"numpy": _require_numpy(error)})


def _require_numpy(error: ImportError) -> bool:
    """Raise the error again, unless it is about numpy."""
    if error.name != "numpy":
        raise error
    return True


def _describe(path: str) -> dict[str, Any]:
    chosen = find_in_folder(path)
    remarks = [] if chosen is None else [text for text in (chosen.remark, chosen.warning) if text]
    agent = path if chosen is None else chosen.path
    archive = read_in_place(agent, on_unknown="inert")
    report = inspect(archive)
    training, needs_numpy = None, False
    try:
        training = read_beside(agent, FileData(agent, archive, None, report, None), DEFAULT_LIMITS)
    except ImportError as error:
        needs_numpy = _require_numpy(error)
    page, details = Recorder(), Recorder()
    print_page(page, Page(agent, report, archive, "it is above", training, has_details=True))
    page.table("broken", ("entry", "outcome", "why"), report.broken)
    print_contents(details, report)
    diagram = None if report.network is None else make_diagram(report.network)
    return {
        "numpy": needs_numpy,
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


def _act(path: str) -> dict[str, Any]:
    from sbformat.policies.javascript.export import make_program

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = load_model(path)
    remarks = [str(warning.message) for warning in caught]
    if model.was_normalized and not model.is_normalized:
        remarks.append(
            "The agent was trained with normalized observations, and this file does not have the statistics: "
            "enter normalized observations, or drop the folder that has vecnormalize.pkl, too."
        )
    return {"remarks": remarks, "program": make_program(model)}
