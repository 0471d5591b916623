"""Tensors out of an archive into a file of another kind."""

from __future__ import annotations

import fnmatch
import json
import os
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sbformat.arrayfiles.writer import detect_format, write_arrays
from sbformat.constants import POLICY_ENTRY, PTH_SUFFIX
from sbformat.errors import MissingEntryError, TensorError
from sbformat.pth.addresses import segment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sbformat.archive.archive import Archive
    from sbformat.pth import StateDict

ALL_ENTRIES: Final = "all"
_REPLAY_BUFFER: Final = "replay-buffer"
_SCALARS: Final = ("pos", "buffer_size", "n_envs", "full")
_EPISODES: Final = ("episode_env", "episode_start", "episode_length", "episode_end")


class ExtractReport(NamedTuple):
    """What was written."""

    output: str
    format: str
    """``safetensors``, ``npz`` or ``npy-folder``."""
    tensors: tuple[str, ...]
    """Their names in the output."""
    nbytes: int
    left_behind: int
    """Values that are no tensors: learning rates, step counts."""


def extract(
    archive: Archive,
    output: str | os.PathLike[str],
    *,
    entry: str = "policy",
    tensors: str = "*",
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
) -> ExtractReport:
    """Write the tensors of one state dict, or of all, to a file.

    :param archive: the archive, read
    :param output: ``.safetensors``, ``.npz``, or a folder for ``.npy``
    :param entry: ``policy``, ``policy.optimizer``, ..., or ``all``: the names are then ``entry:path``
        (``entry/path`` in a folder)
    :param tensors: a glob over the paths
    :param overwrite: replace what is there
    :param progress: called with the bytes of tensors as they are written
    :raises MissingEntryError: when there is no such entry, or nothing matches the glob
    :raises UnsupportedError: for what the format cannot hold
    :raises FileExistsError: when the output exists and ``overwrite`` is False
    """
    kind = detect_format(output)
    facts: dict[str, Any] = {"entry": entry, "stable_baselines3_version": archive.stable_baselines3_version}
    separator = "/" if kind == "npy-folder" else ":"
    arrays: dict[str, Any] = {}
    left_behind = 0
    present: list[str] = []
    for name, state_dict in _selected(archive, entry):
        paths = state_dict.tensors()
        present += paths
        left_behind += sum(1 for leaf in state_dict.leaves() if leaf.path not in paths and leaf.value not in ({}, []))
        names = _graph_names(archive, state_dict, kind)
        for path in paths:
            if fnmatch.fnmatchcase(path, tensors) or fnmatch.fnmatchcase(names.get(path, path), tensors):
                shown = names.get(path, path)
                arrays[f"{name}{separator}{shown}" if entry == ALL_ENTRIES else shown or name] = state_dict.stream(path)
        if archive.format == _REPLAY_BUFFER:
            prefix = f"{name}{separator}" if entry == ALL_ENTRIES else ""
            columns, facts["replay_buffer"] = _replay_facts(archive, tensors)
            present += (*_SCALARS, *_EPISODES)
            arrays = {**{f"{prefix}{path}": column for path, column in columns.items()}, **arrays}
    if not arrays and present:
        raise MissingEntryError(tensors, present=present, what="tensor that matches")
    metadata = {"sbformat": json.dumps(facts)}  # one key: safetensors writes several in any order
    write_arrays(arrays, output, metadata=metadata, overwrite=overwrite, progress=progress, check=archive.check)
    nbytes = sum(array.nbytes for array in arrays.values())
    return ExtractReport(os.fspath(output), kind, tuple(arrays), nbytes, left_behind)


def _graph_names(archive: Archive, state_dict: StateDict, kind: str) -> dict[str, str]:
    """The names of TensorFlow's variables by path: there slashes are part of a name, and nothing is nested.

    As files they lose the ``:0`` that all have, which names the first output: no path holds a colon.
    """
    if archive.format not in ("sb2-zip", "sb2-pickle"):
        return {}
    if kind != "npy-folder":
        return {segment(key): key for key in state_dict}
    return {segment(key): re.sub(":0(?=#|$)", "", key) for key in state_dict}


def _replay_facts(archive: Archive, tensors: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a replay buffer is besides its arrays: as arrays, and as JSON; nothing of a user's own kind of buffer."""
    from sbformat.formats.replay_buffer import ENDS, is_of_sb3, replay_buffer_of

    try:
        buffer = replay_buffer_of(archive)
    except TensorError:
        if is_of_sb3(archive):
            raise
        return {}, {}
    arrays = buffer.scalars()
    if any(fnmatch.fnmatchcase(name, tensors) for name in _EPISODES):
        arrays |= {f"episode_{name}": column for name, column in buffer.episode_table().items()}
    facts = {
        "class": str(buffer.type), "pos": buffer.pos, "full": buffer.full, "buffer_size": buffer.buffer_size,
        "n_envs": buffer.n_envs, "optimize_memory_usage": buffer.optimize_memory_usage,
        "handle_timeout_termination": buffer.handle_timeout_termination, "episode_end": list(ENDS),
    }  # fmt: skip
    return {name: array for name, array in arrays.items() if fnmatch.fnmatchcase(name, tensors)}, facts


def _selected(archive: Archive, entry: str) -> Iterator[tuple[str, StateDict]]:
    names = archive.state_dicts
    if not names:
        archive.refuse_sbx()
        raise MissingEntryError(POLICY_ENTRY, present=archive.entries, what="state dict")
    if entry != ALL_ENTRIES:
        names = (archive.find_state_dict(entry, others=(ALL_ENTRIES,)),)
    for name in names:
        yield name.removesuffix(PTH_SUFFIX), archive.state_dict(name)
