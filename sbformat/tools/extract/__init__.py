"""``extract``: write the tensors of an archive to a ``.safetensors``, ``.npz`` or ``.npy`` file."""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING, Any

from sbformat.arrayfiles.writer import detect_format, write_arrays
from sbformat.constants import PTH_SUFFIX
from sbformat.errors import MissingEntryError, SbformatError, quote
from sbformat.immutable import Record
from sbformat.limits import DEFAULT_LIMITS, Limits
from sbformat.reader import read_in_place
from sbformat.tools.extract.candidates import ALL_ENTRIES, list_candidates, list_parts
from sbformat.tools.extract.selection import ALL, Candidate, parse_patterns, select

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sbformat.archive.archive import Archive
    from sbformat.reader import ArchiveLike

__all__ = ["ExtractReport", "extract"]


class ExtractReport(Record):
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
    tensors: Iterable[str] | str = ALL,
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> ExtractReport:
    """Write the tensors of one state dict, or of all of them, to a file.

    A large file is read in pieces while the output is written, so it must not change meanwhile. Of statistics of
    VecNormalize the counts and settings are written as well, as arrays without dimensions; of a replay buffer its
    position and its episodes. ::

        sbformat.extract("ppo-cartpole.zip", "policy.safetensors")
        sbformat.extract("ppo-cartpole.zip", "all.npz", entry="all", tensors="*.weight")
        sbformat.extract("ppo-cartpole.zip", "m.npz", entry="policy.optimizer", tensors=["state/[0]/exp_avg"])

    :param source: an archive, or what :func:`sbformat.read` takes
    :param output: a ``.safetensors`` or ``.npz`` file, or a folder for ``.npy`` files
    :param entry: ``policy``, ``policy.optimizer``, ..., ``statistics`` for those of a bundle, or ``all``, which names
        tensors ``entry:path`` (``entry/path`` in a folder)
    :param tensors: which tensors: exact paths, names in the output, or glob patterns, one or several; ``*`` selects
        all, also if a tensor has that name, which ``[*]`` selects
    :param overwrite: replace an existing output
    :param progress: called with a number of bytes whenever that many bytes of tensors were written
    :param limits: for reading
    :raises MissingEntryError: when the archive has no such entry, or no tensor matches one of the patterns
    :raises UnsupportedError: for tensors that the output format cannot store
    :raises FileExistsError: when the output exists and ``overwrite`` is False
    """
    patterns = parse_patterns(tensors)
    archive = read_in_place(source, limits=limits, on_unknown="inert")
    kind = detect_format(output)
    facts: dict[str, Any] = {"entry": entry, "stable_baselines3_version": archive.stable_baselines3_version}
    separator = "/" if kind == "npy-folder" else ":"
    candidates: list[Candidate] = []
    left_behind = 0
    for part in list_parts(archive, entry, kind):
        candidates += list_candidates(part, f"{part.name}{separator}" if entry == ALL_ENTRIES else "")
        facts |= part.facts
        left_behind += part.left_behind
    try:
        chosen = select(candidates, patterns)
    except MissingEntryError as error:
        hint = _name_other_entry(archive, error.name)
        if not hint:
            raise
        raise MissingEntryError(error.name, what=f"tensor in {quote(entry)} that matches", hint=hint) from None
    arrays = {tensor.label: tensor.make() for tensor in chosen}
    metadata = {"sbformat": json.dumps(facts)}  # one key: safetensors does not keep the order of several
    write_arrays(arrays, output, metadata=metadata, overwrite=overwrite, progress=progress, check=archive.check)
    nbytes = sum(array.nbytes for array in arrays.values())
    return ExtractReport(os.fspath(output), kind, tuple(arrays), nbytes, left_behind)


def _name_other_entry(archive: Archive, path: str) -> str:
    """Return which state dict has a tensor of this name, in words; empty if none has."""
    for name in archive.state_dicts:
        with contextlib.suppress(SbformatError):
            if path in archive.state_dict(name).tensors():
                return f"the entry {quote(name.removesuffix(PTH_SUFFIX))} has it"
    return ""
