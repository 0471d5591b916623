"""What every exported file needs: names of inputs and outputs, metadata, and how files are written.

An observation is ``observation``; of a Dict space each part has the name of its key, or ``observation.KEY`` where
another input or output has that name. A recurrent state is ``hidden``, ``cell``, ``critic_hidden``, ``critic_cell``
(``state`` in Stable Baselines 2) as an input, and ``next_hidden``, ... as an output; of several layers ``hidden.0``,
``hidden.1``, ... The others have the names of the graph: ``action_masks``, ``episode_start``, ``action``, ``value``.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import sbformat
from sbformat.errors import UnsupportedError, quote
from sbformat.immutable import Record
from sbformat.io.atomic import new_file
from sbformat.rendering import write_numbers
from sbformat.values.render import render_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sbformat.policies.builder import PolicyModel
    from sbformat.policies.graph import Graph
    from sbformat.policies.operators import Shape

NEXT: Final = "next_"
"""What the names of states begin with as outputs."""


class Port(Record):
    """An input or output of an exported policy."""

    name: str
    """In the exported file."""
    value: str
    """In the graph."""
    dtype: str
    """numpy's name."""
    shape: Shape
    """The shape of one item, without the batch."""
    role: Literal["observation", "state", "episode_start", "action_masks", "output"]
    key: str | None = None
    """The key of a Dict observation."""


def name_inputs(graph: Graph, needed: Iterable[str], outputs: Iterable[str]) -> tuple[Port, ...]:
    """Return the inputs of an exported policy: every observation, and what else is needed.

    :param needed: names of inputs of the graph
    :param outputs: the names of all outputs of the file, which no input may have
    """
    wanted = set(needed)
    states = name_states(graph)
    others = {item.name for item in graph.inputs if item.role != "observation"} | set(states.values()) | set(outputs)
    made = []
    for item in graph.inputs:
        if item.role == "observation":
            name = "observation" if item.key is None else item.key
            if item.key is not None and (name in others or not name):
                name = f"observation.{name}"
        elif item.name in wanted:
            name = states.get(item.name, item.name)
        else:
            continue
        made.append(Port(name, item.name, item.dtype, item.shape, item.role, item.key))
    require_distinct([*(port.name for port in made), *outputs])
    return tuple(made)


def name_states(graph: Graph) -> Mapping[str, str]:
    """Return the name in the file of each state that is an input, by its name in the graph."""
    counts = Counter(state.name for state in graph.states)
    seen: Counter[str] = Counter()
    made = {}
    for state in graph.states:
        made[state.input] = state.name if counts[state.name] == 1 else f"{state.name}.{seen[state.name]}"
        seen[state.name] += 1
    return made


def require_distinct(names: Iterable[str]) -> None:
    """Refuse two inputs or outputs of one name."""
    for name, count in Counter(names).items():
        if count > 1:
            raise UnsupportedError(f"expected inputs and outputs of different names, got {quote(name, 80)} twice")


# -- metadata -----------------------------------------------------------------------------------------


def describe_origin(model: PolicyModel) -> Mapping[str, str]:
    """Return what is known of an agent: names, and JSON or texts (POLICIES.md 20.1).

    ``algorithm``; ``stable_baselines3_version``; ``observation_space`` and ``action_space``, as JSON; ``sha256`` of the
    file; ``inferred``, a JSON list of sentences; ``normalized``, whether VecNormalize's statistics are applied;
    ``sbformat_version``. What is not known is left out.
    """
    archive, inferred = model.archive, model.graph.inferred
    found = {
        "algorithm": model.algorithm,
        "stable_baselines3_version": None if archive is None else archive.stable_baselines3_version,
        "observation_space": _write_json(render_json(model.observation_space)),
        "action_space": _write_json(render_json(model.action_space)),
        "sha256": None if archive is None else archive.sha256(),
        "inferred": _write_json(list(inferred)) if inferred else None,
        "normalized": _write_json(model.is_normalized),
        "sbformat_version": sbformat.__version__,
    }
    return {name: text.strip() for name, text in found.items() if text is not None}


def summarize_origin(metadata: Mapping[str, str]) -> str:
    """Return a sentence about where an exported file comes from."""
    text = f"{metadata.get('algorithm', 'unknown')} policy"
    if release := metadata.get("stable_baselines3_version"):
        text += f" of Stable-Baselines3 {release}"
    if digest := metadata.get("sha256"):
        text += f", from a file with the SHA-256 {digest}"
    return f"{text}; exported by sbformat {metadata['sbformat_version']}"


@cache
def read_parts(path: Path) -> Mapping[str, str]:
    """Return the parts of a file of templates by their names, which lines ``//// NAME`` or ``#### NAME`` begin."""
    text = path.read_text("utf-8").replace("\r\n", "\n").removesuffix("\n")
    _, *found = re.split(r"\n(?:////|####) (\w+)\n", text)
    return dict(zip(found[::2], found[1::2]))


def _write_json(value: object) -> str:
    return json.dumps(write_numbers(value), ensure_ascii=True, allow_nan=False)


# -- files --------------------------------------------------------------------------------------------


class ExportedFile(Record):
    """A file that was written."""

    path: str
    size: int
    """In bytes."""


class ExportReport(Record):
    """The result of an export."""

    format: str
    """``onnx``, ``c``, ``javascript``, ``json`` or ``pytorch``."""
    files: tuple[ExportedFile, ...]
    """The file that was requested, then those beside it."""
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    nodes: int
    """The number of operations."""
    constants: int
    """The number of items of all constants."""
    metadata: Mapping[str, str]
    """What the file records about the agent (POLICIES.md 20.1)."""


def write_files(contents: Mapping[str, bytes], *, overwrite: bool) -> tuple[ExportedFile, ...]:
    """Write files; when one cannot be written, all are as they were.

    :param contents: bytes by path
    :param overwrite: replace files that exist
    """
    if len({os.path.realpath(path) for path in contents}) < len(contents):
        raise OSError(errno.EINVAL, "two outputs are one file", next(iter(contents)))
    written: dict[str, bytes | None] = {}
    """What the files that are in their place were; None for one that did not exist."""
    try:
        with contextlib.ExitStack() as stack:
            for path, content in contents.items():
                stack.enter_context(_write_file(path, content, written, overwrite=overwrite))
    except BaseException:
        for path, before in written.items():
            with contextlib.suppress(OSError):  # the first error is the one to report
                if before is None:
                    os.unlink(path)
                    continue
                with new_file(path, overwrite=True) as temporary:
                    temporary.write_bytes(before)
        raise
    return tuple(ExportedFile(os.fspath(path), len(content)) for path, content in contents.items())


@contextlib.contextmanager
def _write_file(path: str, content: bytes, written: dict[str, bytes | None], *, overwrite: bool) -> Iterator[None]:
    """Write a temporary file, and move it to its place at the end."""
    before = Path(path).read_bytes() if overwrite and os.path.isfile(path) else None
    with new_file(path, overwrite=overwrite) as temporary:
        try:
            temporary.write_bytes(content)
        except OSError as error:
            error.filename = path  # the name that the caller passed
            raise
        yield
    written[path] = before
