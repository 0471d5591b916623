"""``export``: a policy in the format that the name of the output ends in, as ``sbformat export`` chooses it.

A format is a row of ``FORMATS``: what it is called, which file is written beside the output, and which arguments no
other format has. The modules that write the formats are imported when one is chosen.
"""

from __future__ import annotations

import os
import re
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import quote, require_type
from sbformat.immutable import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sbformat.archive.archive import Archive
    from sbformat.io.opening import SourceLike
    from sbformat.policies.export.files import ExportReport
    from sbformat.policies.run.policy import Policy


class Format(Record):
    """A format of exported policies."""

    title: str
    function: str
    """The module that writes it, a colon, and the function."""
    beside: str = ""
    """The suffix of the file that is written beside the output; empty for none."""
    options: tuple[str, ...] = ()
    """Arguments of :func:`export` that other formats do not have."""
    has_all: bool = False
    """Whether all outputs of the policy are written by default, not ``action`` alone."""
    draws: str = ""
    """The call in the exported program that draws an action, if there is one."""


_JAVASCRIPT: Final = Format(
    "a JavaScript module", "sbformat.policies.javascript.export:export_javascript", ".d.ts", has_all=True,
    draws="predict(observation, { deterministic: false })",
)  # fmt: skip
GRAPH: Final = ".json"
"""The suffix of what :func:`sbformat.export_graph` writes."""
FORMATS: Final = {
    ".onnx": Format("an ONNX model", "sbformat.policies.onnx:export_onnx", options=("batch", "opset")),
    ".c": Format("C source", "sbformat.policies.c.export:export_c", ".h", ("name",)),
    ".js": _JAVASCRIPT,
    ".mjs": _JAVASCRIPT._replace(beside=".d.mts"),
    GRAPH: Format(
        "a graph with its weights", "sbformat.policies.export.lowering:export_graph", ".safetensors", has_all=True
    ),
    ".py": Format(
        "PyTorch source with its weights", "sbformat.policies.pytorch.export:export_torch", ".safetensors",
        has_all=True, draws="policy.act(observation, deterministic=False)",
    ),
}  # fmt: skip
"""The formats, by the suffix of the output."""
JAVASCRIPT: Final = tuple(suffix for suffix, form in FORMATS.items() if form.title == _JAVASCRIPT.title)
_NAME: Final = "policy"


def export(
    policy: Policy | Archive | SourceLike,
    path: str | os.PathLike[str],
    *,
    outputs: Iterable[str] | None = None,
    raw: bool = False,
    overwrite: bool = False,
    opset: int | None = None,
    batch: str | int | None = None,
    name: str | None = None,
) -> ExportReport:
    """Write a policy for programs without Python, in the format that the name of the file ends in.

    ``.onnx`` is an ONNX model (:func:`export_onnx`), ``.c`` is C source with a header (:func:`export_c`), ``.js`` or
    ``.mjs`` a JavaScript module (:func:`export_javascript`), ``.json`` the graph with its weights in ``.safetensors``
    (:func:`export_graph`), ``.py`` PyTorch source with its weights (:func:`export_torch`). ::

        sbformat.export("agent.zip", "agent.onnx", outputs=("action", "value"))
        sbformat.export("agent.zip", "agent.c", name="robot")

    :param policy: a loaded policy, or what :func:`sbformat.load_policy` takes
    :param path: of the file
    :param outputs: names of outputs; by default ``action``, and all of them in JSON, JavaScript and PyTorch
    :param raw: leave out what clips or scales a continuous action to the bounds of its space
    :param overwrite: replace files that exist
    :param opset: of ONNX: the version of its operators, 13 to 21; by default 17
    :param batch: of ONNX: the name of the first axis, whose size is free, or its size; by default ``batch``
    :param name: of C: what all names in the source begin with; by default that of the file
    :return: the files, inputs and outputs
    :raises ValueError: for another suffix, an argument of another format, and as the function of the format
    :raises FileExistsError: when a file exists and ``overwrite`` is False
    :raises SbformatError: as the function of the format
    """
    require_type(path, (str, os.PathLike), "a path")
    target = os.fspath(path)
    suffix = find_suffix(target)
    given: dict[str, Any] = {
        key: value for key, value in (("opset", opset), ("batch", batch), ("name", name)) if value is not None
    }
    for key in given:
        require_format(key, suffix)
    form = FORMATS[suffix]
    if "name" in form.options:
        given.setdefault("name", make_name(target))
    chosen = ("action",) if outputs is None and not form.has_all else outputs
    module, _, function = form.function.partition(":")
    write: Callable[..., ExportReport] = getattr(import_module(module), function)
    return write(policy, target, outputs=chosen, raw=raw, overwrite=overwrite, **given)


def find_suffix(path: str) -> str:
    """Return the key of ``FORMATS`` that a path ends in.

    :raises ValueError: for any other suffix, with the output that it is written beside
    """
    suffix = os.path.splitext(path)[1].lower()
    if suffix in FORMATS:
        return suffix
    ending = os.path.basename(path).lower()
    if ending in FORMATS:
        raise ValueError(f"expected a name before the ending, such as {_NAME}{ending}, got {quote(path)}")
    beside = ((form.beside, name) for name, form in FORMATS.items() if form.beside)
    hint = "".join(f"; {end} is written beside the output {name}" for end, name in beside if path.lower().endswith(end))
    raise ValueError(f"expected an output that ends in {', '.join(FORMATS)}, got {quote(path)}{hint}")


def require_format(option: str, suffix: str) -> None:
    """Refuse an argument of another format."""
    for other, form in FORMATS.items():
        if option in form.options and suffix != other:
            raise ValueError(f"{option}: expected it with an output {other}, got {suffix}")


def list_outputs(path: str) -> list[str]:
    """Return the files that are written for an output."""
    stem, suffix = os.path.splitext(path)
    beside = FORMATS[suffix.lower()].beside
    return [path, stem + (beside.upper() if suffix == ".C" else beside)] if beside else [path]


def make_name(path: str) -> str:
    """Return the name of a file as one that names in C can begin with.

    >>> make_name("2 robots/walk (new).c")
    'walk_new'
    """
    from sbformat.policies.c.export import KEYWORDS, LONGEST_NAME

    stem = os.path.splitext(os.path.basename(path))[0]
    name = re.sub("[^A-Za-z0-9]+", "_", stem).strip("_")
    if not name:
        return _NAME
    if name[0].isdigit() or name in KEYWORDS:
        name = f"{_NAME}_{name}"
    return name[:LONGEST_NAME].rstrip("_")
