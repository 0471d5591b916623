"""``extract``: write the tensors of an archive to a ``.safetensors``, ``.npz`` or ``.npy`` file."""

from __future__ import annotations

import fnmatch
import json
import os
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sbformat.arrayfiles.writer import detect_format, write_arrays
from sbformat.constants import POLICY_ENTRY, PTH_SUFFIX
from sbformat.errors import MissingEntryError, TensorError
from sbformat.limits import DEFAULT_LIMITS, Limits
from sbformat.pth.addresses import segment
from sbformat.reader import read_in_place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sbformat.archive.archive import Archive
    from sbformat.pth import StateDict
    from sbformat.reader import ArchiveLike

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
    """Names of the tensors in the output."""
    nbytes: int
    """Bytes of the tensors."""
    left_behind: int
    """Number of values that are not tensors and were not written: learning rates, step counts."""


def extract(
    source: ArchiveLike,
    output: str | os.PathLike[str],
    *,
    entry: str = "policy",
    tensors: str = "*",
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> ExtractReport:
    """Write the tensors of one state dict, or of all of them, to a file.

    A large file is read in pieces while the output is written, so it must not change meanwhile. ::

        sbformat.extract("ppo-cartpole.zip", "policy.safetensors")
        sbformat.extract("ppo-cartpole.zip", "all.npz", entry="all", tensors="*.weight")

    :param source: an archive, or what :func:`sbformat.read` takes
    :param output: a ``.safetensors`` or ``.npz`` file, or a folder for ``.npy`` files
    :param entry: ``policy``, ``policy.optimizer``, ..., or ``all``, which names tensors ``entry:path``
        (``entry/path`` in a folder)
    :param tensors: a glob pattern over the paths of the tensors
    :param overwrite: replace an existing output
    :param progress: called with a number of bytes whenever that many bytes of tensors were written
    :param limits: for reading
    :raises MissingEntryError: when the archive has no such entry, or no tensor matches the pattern
    :raises UnsupportedError: for tensors that the output format cannot store
    :raises FileExistsError: when the output exists and ``overwrite`` is False
    """
    archive = read_in_place(source, limits=limits, on_unknown="inert")
    kind = detect_format(output)
    facts: dict[str, Any] = {"entry": entry, "stable_baselines3_version": archive.stable_baselines3_version}
    separator = "/" if kind == "npy-folder" else ":"
    arrays: dict[str, Any] = {}
    left_behind = 0
    present: list[str] = []
    for name, state_dict in _select_state_dicts(archive, entry):
        paths = state_dict.tensors()
        present += paths
        left_behind += sum(1 for leaf in state_dict.leaves() if leaf.path not in paths and leaf.value not in ({}, []))
        names = _name_variables(archive, state_dict, kind)
        for path in paths:
            if fnmatch.fnmatchcase(path, tensors) or fnmatch.fnmatchcase(names.get(path, path), tensors):
                label = names.get(path, path)
                arrays[f"{name}{separator}{label}" if entry == ALL_ENTRIES else label or name] = state_dict.stream(path)
        if archive.format == _REPLAY_BUFFER:
            prefix = f"{name}{separator}" if entry == ALL_ENTRIES else ""
            columns, facts["replay_buffer"] = _describe_replay_buffer(archive, tensors)
            present += (*_SCALARS, *_EPISODES)
            arrays = {**{f"{prefix}{path}": column for path, column in columns.items()}, **arrays}
    if not arrays and present:
        raise MissingEntryError(tensors, present=present, what="tensor that matches")
    metadata = {"sbformat": json.dumps(facts)}  # one key: safetensors does not keep the order of several
    write_arrays(arrays, output, metadata=metadata, overwrite=overwrite, progress=progress, check=archive.check)
    nbytes = sum(array.nbytes for array in arrays.values())
    return ExtractReport(os.fspath(output), kind, tuple(arrays), nbytes, left_behind)


def _name_variables(archive: Archive, state_dict: StateDict, kind: str) -> dict[str, str]:
    """Return the names of TensorFlow variables by path: there, slashes are part of a name and nothing is nested.

    File names omit the ``:0`` (the first output of an operation) that every variable has: a path with a colon is not
    portable.
    """
    if archive.format not in ("sb2-zip", "sb2-pickle"):
        return {}
    if kind != "npy-folder":
        return {segment(key): key for key in state_dict}
    return {segment(key): re.sub(":0(?=#|$)", "", key) for key in state_dict}


def _describe_replay_buffer(archive: Archive, tensors: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a replay buffer contains besides its arrays: as arrays, and as JSON; empty for a class of a user."""
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


def _select_state_dicts(archive: Archive, entry: str) -> Iterator[tuple[str, StateDict]]:
    names = archive.state_dicts
    if not names:
        archive.refuse_sbx()
        raise MissingEntryError(POLICY_ENTRY, present=archive.entries, what="state dict")
    if entry != ALL_ENTRIES:
        names = (archive.find_state_dict(entry, others=(ALL_ENTRIES,)),)
    for name in names:
        yield name.removesuffix(PTH_SUFFIX), archive.state_dict(name)
