"""``extract``: write the tensors of an archive to a ``.safetensors``, ``.npz`` or ``.npy`` file.

In: an archive, the name of an entry, patterns. Out: the file, and an :class:`ExtractReport`. Besides the tensors of its
state dicts, an archive may have numbers that belong to them: a replay buffer has its position and its episodes beside
the arrays, statistics of VecNormalize have counts and settings: without these, the arrays cannot be used.
"""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import json
import os
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sbformat.arrayfiles.writer import detect_format, write_arrays
from sbformat.constants import POLICY_ENTRY, PTH_SUFFIX, TABLES
from sbformat.errors import (
    MissingEntryError,
    SbformatError,
    TensorError,
    UnsupportedError,
    escape,
    quote,
    require_names,
    require_type,
)
from sbformat.formats.vecnormalize.bundled import (
    describe_settings,
    has_entries,
    make_arrays,
    make_number,
    make_settings,
    read_entries,
)
from sbformat.immutable import Record
from sbformat.limits import DEFAULT_LIMITS, Limits
from sbformat.pth.values import segment
from sbformat.reader import read_in_place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from sbformat.archive.archive import Archive
    from sbformat.reader import ArchiveLike


_Makers: TypeAlias = "dict[str, Callable[[], Any]]"

ALL: Final = "*"


class Candidate(Record):
    """A tensor that can be extracted."""

    label: str
    """Its name in the output, which begins with the entry if all entries are extracted."""
    names: tuple[str, ...]
    """Its path in the state dict, and the name of its TensorFlow variable."""
    make: Callable[[], Any]
    """Returns the array, or a stream of its bytes."""


def select(candidates: Sequence[Candidate], patterns: Iterable[str]) -> list[Candidate]:
    """Return the candidates that a pattern selects, in their order.

    ``*`` selects all, also if a tensor has that name, which ``[*]`` selects. Any other pattern is first compared as an
    exact name, then as a glob, and then as a glob in which brackets are themselves: the paths of an optimizer contain
    brackets, such as ``state/[0]/exp_avg``. Globs are compared with names in the output only if no path matches:
    ``re*`` selects no tensor for the entry ``replay_buffer``. A pattern with commas that selects nothing is several.
    """
    by_path: defaultdict[str, list[int]] = defaultdict(list)
    by_label: defaultdict[str, list[int]] = defaultdict(list)
    for place, candidate in enumerate(candidates):
        by_label[candidate.label].append(place)
        for name in dict.fromkeys(candidate.names):
            by_path[name].append(place)

    def find(pattern: str) -> list[int]:
        found = None if pattern == ALL else by_path.get(pattern) or by_label.get(pattern)
        for index in (by_path, by_label):
            for glob in (pattern, pattern.replace("[", "[[]")):
                matching = (index[name] for name in index if fnmatch.fnmatchcase(name, glob))
                found = found or [place for places in matching for place in places]
        return found or []

    chosen: set[int] = set()
    for pattern in dict.fromkeys(patterns):
        names = [] if find(pattern) else [name.strip() for name in pattern.split(",")]
        for part in filter(None, names) if len(names) > 1 else [pattern]:
            found = find(part)
            if not found and candidates:
                raise MissingEntryError(part, present=by_label, what="tensor that matches")
            chosen.update(found)
    return [candidate for place, candidate in enumerate(candidates) if place in chosen]


ALL_ENTRIES: Final = "all"
STATISTICS: Final = "statistics"
"""The statistics of a bundle; also the name of the only state dict of a ``vecnormalize.pkl``."""


class Part(Record):
    """The tensors of one state dict, or of the statistics of a bundle, that can be extracted."""

    name: str
    arrays: _Makers
    """Functions that make the arrays, by the path of the tensor."""
    labels: Mapping[str, str]
    """Names in the output, of paths that have another name there."""
    facts: dict[str, Any]
    left_behind: int


def list_parts(archive: Archive, entry: str, kind: str) -> Iterator[Part]:
    """Yield the parts that an entry's name selects.

    :param entry: SB3's name of a state dict, ``statistics``, or ``all``
    """
    names = archive.state_dicts
    has_statistics = has_entries(archive)
    if has_statistics and entry == STATISTICS:
        yield _list_bundled_statistics(archive)
        return
    if not names and not (has_statistics and entry == ALL_ENTRIES):
        raise MissingEntryError(POLICY_ENTRY, present=archive.entries, what="state dict")
    if entry != ALL_ENTRIES:
        others = (STATISTICS, ALL_ENTRIES) if has_statistics else (ALL_ENTRIES,)
        try:
            names = (archive.find_state_dict(entry, others=others),)
        except MissingEntryError as error:
            hint = _suggest_tensors(archive, entry)
            raise MissingEntryError(error.name, what="state dict", hint=hint) if hint else error from None
    for name in names:
        yield _list_state_dict(archive, name, kind)
    if has_statistics and entry == ALL_ENTRIES:
        yield _list_bundled_statistics(archive)


def _suggest_tensors(archive: Archive, entry: str) -> str:
    """Return the pattern of the tensors of the policy that begin with the name of a part; empty if there are none."""
    with contextlib.suppress(SbformatError):
        if any(path.startswith(f"{entry}.") for path in archive.state_dict(POLICY_ENTRY).tensors()):
            return f"for these tensors of 'policy' pass tensors='{escape(entry)}.*'"
    return ""


def _list_state_dict(archive: Archive, name: str, kind: str) -> Part:
    state_dict = archive.state_dict(name)
    arrays: _Makers = {path: functools.partial(state_dict.stream, path) for path in state_dict.tensors()}
    others = [leaf for leaf in state_dict.leaves() if leaf.path not in arrays and leaf.value not in ({}, [])]
    facts: dict[str, Any] = {}
    beside: _Makers = {}
    if archive.format == "replay-buffer":
        beside, facts = _list_replay_buffer(archive)
    elif archive.format in ("vecnormalize", "running-mean-std"):
        numbers = {leaf.path: leaf.value for leaf in others if type(leaf.value) in (int, float)}
        counts = {path: make_number(value) for path, value in numbers.items() if path.rpartition("/")[2] == "count"}
        beside = _return_each({path: array for path, array in counts.items() if array is not None})
        settings, facts = _list_settings(archive)
        others = [leaf for leaf in others if leaf.path not in beside]
        arrays, beside = {**arrays, **beside, **settings, **arrays}, {}  # an array precedes a setting of its name
    labels: dict[str, str] = {}
    if archive.format in ("sb2-zip", "sb2-pickle"):  # TensorFlow: slashes are part of a name, and nothing is nested
        labels = {segment(key): key for key in state_dict}
    if kind == "npy-folder":
        # Every variable has a ``:0`` (the first output of an operation). A path with a colon is not portable.
        labels = {path: re.sub(":0(?=#|$)", "", key) for path, key in labels.items()}
    return Part(name.removesuffix(PTH_SUFFIX), {**beside, **arrays}, labels, facts, len(others))


def _list_replay_buffer(archive: Archive) -> tuple[_Makers, dict[str, Any]]:
    """Return what a replay buffer contains besides its arrays: as arrays, and as JSON; empty for a class of a user."""
    from sbformat.formats.replay_buffer import ENDS, is_of_sb3, replay_buffer_of

    try:
        buffer = replay_buffer_of(archive)
    except TensorError:
        if is_of_sb3(archive):
            raise
        return {}, {}
    episodes = functools.cache(buffer.episode_table)
    arrays = _return_each(buffer.scalars())
    for name in ("env", "start", "length", "end"):
        arrays[f"episode_{name}"] = functools.partial(lambda column: episodes()[column], name)
    facts = {
        "class": str(buffer.type), "pos": buffer.pos, "full": buffer.full, "buffer_size": buffer.buffer_size,
        "n_envs": buffer.n_envs, "optimize_memory_usage": buffer.optimize_memory_usage,
        "handle_timeout_termination": buffer.handle_timeout_termination, "episode_end": list(ENDS),
    }  # fmt: skip
    return arrays, {"replay_buffer": facts}


def _list_settings(archive: Archive) -> tuple[_Makers, dict[str, Any]]:
    """Return the settings of a VecNormalize: as arrays, and as JSON.

    SB2's files of a mean and a variance have none, and those of a class of a user may not be what SB3 has.
    """
    from sbformat.formats.vecnormalize.pickles import read_vecnormalize

    if archive.format != "vecnormalize":
        return {}, {}
    try:
        value = read_vecnormalize(archive)
    except SbformatError:
        return {}, {}
    return _return_each(make_settings(value)), {"vecnormalize": describe_settings(value)}


def _list_bundled_statistics(archive: Archive) -> Part:
    value = read_entries(archive)
    return Part(STATISTICS, _return_each(make_arrays(value)), {}, {"vecnormalize": describe_settings(value)}, 0)


def _return_each(arrays: Mapping[str, Any]) -> _Makers:
    return {name: functools.partial(lambda made: made, array) for name, array in arrays.items()}


class ExtractReport(Record):
    """The file that was written."""

    output: str
    format: str
    """``safetensors``, ``npz``, ``npy-folder``; of a replay buffer ``csv``, ``parquet``, ``minari`` or ``d3rlpy``."""
    tensors: tuple[str, ...]
    """Names of the tensors in the output, or of its columns."""
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
    dataset: str | None = None,
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> ExtractReport:
    """Write the tensors of one state dict, or of all of them, to a file.

    A large file is read in pieces while the output is written, so it must not change meanwhile. Of statistics of
    VecNormalize the counts and settings are written as well, as arrays without dimensions; of a replay buffer its
    position and its episodes.

    The steps of a replay buffer become a table with a row for each (``.csv``, ``.parquet``, with the columns of
    :meth:`ReplayBuffer.to_pandas`), or a dataset for offline reinforcement learning, whose actions are as the
    environment takes them. ::

        sbformat.extract("ppo-cartpole.zip", "policy.safetensors")
        sbformat.extract("ppo-cartpole.zip", "all.npz", entry="all", tensors="*.weight")
        sbformat.extract("ppo-cartpole.zip", "m.npz", entry="policy.optimizer", tensors=["state/[0]/exp_avg"])
        sbformat.extract("replay_buffer.pkl", "steps.parquet")

    :param source: an archive, or what :func:`sbformat.read` takes
    :param output: a ``.safetensors`` or ``.npz`` file, or a folder for ``.npy`` files; of a replay buffer also ``.csv``
        and ``.parquet``
    :param entry: ``policy``, ``policy.optimizer``, ..., ``statistics`` for those of a bundle, or ``all``, which names
        tensors ``entry:path`` (``entry/path`` in a folder)
    :param tensors: which tensors: exact paths, names in the output, or glob patterns, one or several; ``*`` selects
        all, also if a tensor has that name, which ``[*]`` selects; several can also be one text with commas
    :param dataset: ``minari``: write a folder that Minari opens; ``d3rlpy``: an ``.h5`` file that d3rlpy opens
    :param overwrite: replace an existing output
    :param progress: called with a number of bytes whenever that many bytes of tensors were written
    :param limits: for reading
    :raises MissingEntryError: when the archive has no such entry, or no tensor matches one of the patterns
    :raises UnsupportedError: for tensors that the output format cannot store
    :raises FileExistsError: when the output exists and ``overwrite`` is False
    """
    patterns = (tensors,) if isinstance(tensors, str) else require_names(tensors, "tensors")
    if not patterns:
        raise ValueError("expected at least one name or pattern in tensors; '*' selects all")
    archive = read_in_place(source, limits=limits, on_unknown="inert")
    require_type(output, (str, os.PathLike), "a path")
    if dataset is not None or os.path.splitext(output)[1].lower() in TABLES:
        if entry != "policy" or patterns != (ALL,):
            raise UnsupportedError(
                "a table or dataset has all arrays of a replay buffer: expected no entry and no names of tensors"
            )
        return _extract_steps(archive, os.fspath(output), dataset, overwrite=overwrite, progress=progress)
    kind = detect_format(output)
    facts: dict[str, Any] = {"entry": entry, "stable_baselines3_version": archive.stable_baselines3_version}
    separator = "/" if kind == "npy-folder" else ":"
    candidates: list[Candidate] = []
    left_behind = 0
    for part in list_parts(archive, entry, kind):
        for path, make in part.arrays.items():
            label = part.labels.get(path, path)
            full = f"{part.name}{separator}{label}" if entry == ALL_ENTRIES else label or part.name
            candidates.append(Candidate(full, (path, label), make))
        facts |= part.facts
        left_behind += part.left_behind
    try:
        chosen = select(candidates, patterns)
    except MissingEntryError as error:
        for name in archive.state_dicts:
            with contextlib.suppress(SbformatError):
                if error.name in archive.state_dict(name).tensors():
                    break
        else:
            raise
        hint = f"the entry {quote(name.removesuffix(PTH_SUFFIX))} has it"
        raise MissingEntryError(error.name, what=f"tensor in {quote(entry)} that matches", hint=hint) from None
    if not chosen:
        raise UnsupportedError(f"there is nothing to extract: {quote(entry)} has no tensors")
    arrays = {tensor.label: tensor.make() for tensor in chosen}
    metadata = {"sbformat": json.dumps(facts)}  # one key: safetensors does not keep the order of several
    write_arrays(arrays, output, metadata=metadata, overwrite=overwrite, progress=progress, check=archive.check)
    nbytes = sum(array.nbytes for array in arrays.values())
    return ExtractReport(os.fspath(output), kind, tuple(arrays), nbytes, left_behind)


def _extract_steps(
    archive: Archive, output: str, dataset: str | None, *, overwrite: bool, progress: Callable[[int], None] | None
) -> ExtractReport:
    from sbformat.formats.replay_buffer import replay_buffer_of
    from sbformat.formats.steps import DATASETS, write_dataset, write_table

    if dataset is not None and dataset not in DATASETS:
        raise ValueError(f"expected minari or d3rlpy as dataset, got {dataset!r}")
    buffer = replay_buffer_of(archive)
    nbytes = 0

    def count(size: int) -> None:
        nonlocal nbytes
        nbytes += size
        if progress is not None:
            progress(size)

    if dataset is None:
        names = write_table(buffer, output, overwrite=overwrite, progress=count)
    else:
        names = write_dataset(buffer, output, dataset, overwrite=overwrite, progress=count)
    return ExtractReport(output, dataset or os.path.splitext(output)[1][1:].lower(), tuple(names), nbytes, 0)
