"""The panel "Actions" of an interactive page: the policy of an agent as data, and the scripts that run it.

In comes a :class:`~sbformat.catalogue.collect.FileData`, out come a JSON text and notes. The policy runs in the
browser, by the runtime of the JavaScript export, and ``templates/panel.js`` has the controls. The script is the same on
every page; what comes from the file is JSON in an element that no browser executes.
"""

from __future__ import annotations

import json
import os
import re
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sbformat.errors import UnsupportedError
from sbformat.folders.agents import find_statistics
from sbformat.html_report.page import read_template
from sbformat.immutable import Record
from sbformat.io.urls import is_url
from sbformat.limits import DEFAULT_LIMITS, Budget
from sbformat.policies.javascript.export import make_program, read_runtime
from sbformat.policies.loading import NO_STATISTICS, load_model
from sbformat.rendering import format_size

if TYPE_CHECKING:
    from sbformat.catalogue.collect import FileData
    from sbformat.limits import Limits
    from sbformat.policies.graph import Graph

LARGEST_WEIGHTS: Final = 64 << 20
"""Size in bytes of the weights of a page; a NatureCNN has 7 MB. A page is a third larger, since it is text."""
STYLE: Final = "panel.css"
_EXPORT: Final = re.compile(r"^export (?=function|const|class)", re.MULTILINE)
_ESCAPES: Final = str.maketrans({character: f"\\u{ord(character):04x}" for character in "<>&"})


class ActionsPanel(Record):
    """The policy of an agent, ready for a page."""

    program: str
    """JSON that can be written into a ``script`` element: ASCII without ``<``, ``>`` and ``&``."""
    notes: tuple[str, ...]
    """Sentences about its statistics."""


def make_panel(file: FileData, *, vecnormalize: Any = None, limits: Limits = DEFAULT_LIMITS) -> ActionsPanel:
    """Return the policy of a file with the statistics that belong to it.

    :param vecnormalize: as for :func:`sbformat.load_policy`; by default the statistics of a bundle, or those beside the
        agent, by the rules for an agent in a folder
    :raises UnsupportedError: when the file has no policy that is known, its statistics are not certain, or its weights
        are larger than :data:`LARGEST_WEIGHTS`
    :raises SbformatError: when the file cannot be read
    """
    if file.archive is None:
        raise UnsupportedError(f"expected an agent whose policy can run, got a file that cannot be read: {file.reason}")
    notes = []
    if vecnormalize is None and file.beside is not None:
        name = file.name.rpartition("/")[2] if is_url(file.name) else os.path.basename(file.name)
        chosen = find_statistics(file.beside, name, file.archive.format, limits)
        if chosen.problem:
            raise UnsupportedError(chosen.problem)
        vecnormalize = chosen.statistics
        notes = [chosen.warning]
        if chosen.statistics is not None:
            notes.insert(0, f"The statistics are those beside the agent: {file.beside.name(file.beside.statistics)}.")
    try:
        model = load_model(file.archive, vecnormalize=vecnormalize, limits=limits)
    except UnsupportedError as error:
        if "load_policy" in error.hint:
            error.add_hint("a page does not take them, but sbformat export has --policy-class and --policy-kwargs")
        raise
    if model.was_normalized and not model.is_normalized and vecnormalize is not False:
        notes.append(f"{NO_STATISTICS}: give normalized observations, or the actions are not those of the agent")
    size = measure_weights(model.graph)
    if size > LARGEST_WEIGHTS:
        allowed = format_size(LARGEST_WEIGHTS)
        message = f"expected weights of at most {allowed} for a page with the policy in it, got {format_size(size)}"
        raise UnsupportedError(message, hint="sbformat export -o policy.js writes the policy alone")
    return ActionsPanel(write_json(make_program(model, budget=Budget(limits))), tuple(filter(None, notes)))


def measure_weights(graph: Graph) -> int:
    """Return the size in bytes of all weights of a policy."""
    return sum(prod(weight.shape) * np.dtype(weight.dtype).itemsize for weight in graph.weights.values())


def write_json(value: Any) -> str:
    """Return JSON for an element ``script``: nothing in it ends the element, or begins a comment."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).translate(_ESCAPES)


def make_script() -> str:
    """Return the script of a page with a panel: the runtime and the panel, which are modules, and what starts them."""
    modules = {"createPolicy": read_runtime(), "createPanel": read_template("panel.js")}
    parts = ['"use strict";\n']
    for name, text in modules.items():
        parts.append(f"const {name} = (() => {{\n{_EXPORT.sub('', text)}\nreturn {name};\n}})();\n")
    return "".join([*parts, read_template("start_panel.js")])
