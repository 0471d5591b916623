"""Tensors out of an archive into a file of another kind."""

from __future__ import annotations

import fnmatch
import json
import os
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sbformat.archive import is_state_dict, state_dict_entry
from sbformat.errors import MissingEntryError
from sbformat.export import export, format_of
from sbformat.spec import PTH_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sbformat.archive import Archive
    from sbformat.pth import StateDict

ALL_ENTRIES: Final = "all"


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
    progress: Callable[[str], None] | None = None,
) -> ExtractReport:
    """Write the tensors of one state dict, or of all, to a file.

    :param archive: the archive, read
    :param output: ``.safetensors``, ``.npz``, or a folder for ``.npy``
    :param entry: ``policy``, ``policy.optimizer``, ..., or ``all``: the names are then ``entry:path``
        (``entry/path`` in a folder)
    :param tensors: a glob over the paths
    :param overwrite: replace what is there
    :param progress: called with each name once it is written
    :raises MissingEntryError: when there is no such entry, or nothing matches the glob
    :raises UnsupportedError: for what the format cannot hold
    :raises FileExistsError: when the output exists and ``overwrite`` is False
    """
    kind = format_of(output)
    separator = "/" if kind == "npy-folder" else ":"
    arrays: dict[str, Any] = {}
    left_behind = 0
    present: list[str] = []
    for name, state_dict in _selected(archive, entry):
        paths = state_dict.tensors()
        present += paths
        left_behind += sum(1 for leaf in state_dict.leaves() if leaf.path not in paths and leaf.value not in ({}, []))
        for path in paths:
            if fnmatch.fnmatchcase(path, tensors):
                arrays[f"{name}{separator}{path}" if entry == ALL_ENTRIES else path or name] = state_dict.array(path)
    if not arrays and present:
        raise MissingEntryError(tensors, present=present, what="tensor that matches")
    version = archive.stable_baselines3_version
    facts = {"entry": entry, "stable_baselines3_version": version}
    metadata = {"sbformat": json.dumps(facts)}  # one key: safetensors writes several in any order
    export(arrays, output, metadata=metadata, overwrite=overwrite, progress=progress)
    nbytes = sum(array.nbytes for array in arrays.values())
    return ExtractReport(os.fspath(output), kind, tuple(arrays), nbytes, left_behind)


def _selected(archive: Archive, entry: str) -> Iterator[tuple[str, StateDict]]:
    names = [name for name in archive.entries if is_state_dict(name)]
    if entry != ALL_ENTRIES:
        names = [state_dict_entry(names, entry, others=(ALL_ENTRIES,))]
    for name in names:
        yield name.removesuffix(PTH_SUFFIX), archive.state_dict(name)
