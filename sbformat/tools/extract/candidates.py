"""What can be extracted of an archive: the tensors of its state dicts, and numbers that belong to them.

A replay buffer has its position and its episodes beside the arrays, statistics of VecNormalize have counts and
settings: without these, the arrays cannot be used.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any, Final

from sbformat.constants import POLICY_ENTRY, PTH_SUFFIX
from sbformat.errors import MissingEntryError, SbformatError, TensorError
from sbformat.formats.vecnormalize.entries import has_entries
from sbformat.immutable import Record
from sbformat.pth.addresses import segment
from sbformat.tools.extract.selection import Candidate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sbformat.archive.archive import Archive
    from sbformat.pth import StateDict

ALL_ENTRIES: Final = "all"
STATISTICS: Final = "statistics"
"""The statistics of a bundle; also the name of the only state dict of a ``vecnormalize.pkl``."""
_EPISODES: Final = ("episode_env", "episode_start", "episode_length", "episode_end")
_COUNT: Final = "count"


class Part(Record):
    """What can be extracted of one state dict, or of the statistics of a bundle."""

    name: str
    arrays: dict[str, Callable[[], Any]]
    """Functions that make the arrays, by the path of the tensor."""
    labels: Mapping[str, str]
    """Names in the output, of paths that have another name there."""
    facts: dict[str, Any]
    """What is known besides, as JSON."""
    left_behind: int
    """Number of values that are not among the arrays."""


def list_candidates(part: Part, prefix: str) -> Iterator[Candidate]:
    """Yield the tensors of a part.

    :param prefix: of the names in the output
    """
    for path, make in part.arrays.items():
        label = part.labels.get(path, path)
        full = f"{prefix}{label}" if prefix else label or part.name
        yield Candidate(full, (path, label), make)


def list_parts(archive: Archive, entry: str, kind: str) -> Iterator[Part]:
    """Yield the parts that an entry's name selects.

    :param entry: SB3's name of a state dict, ``statistics``, or ``all``
    :param kind: the format of the output
    :raises MissingEntryError: when there is no such state dict
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
        names = (archive.find_state_dict(entry, others=others),)
    for name in names:
        yield _list_state_dict(archive, name, kind)
    if has_statistics and entry == ALL_ENTRIES:
        yield _list_bundled_statistics(archive)


def _list_state_dict(archive: Archive, name: str, kind: str) -> Part:
    state_dict = archive.state_dict(name)
    arrays: dict[str, Callable[[], Any]] = {
        path: functools.partial(state_dict.stream, path) for path in state_dict.tensors()
    }
    others = [leaf for leaf in state_dict.leaves() if leaf.path not in arrays and leaf.value not in ({}, [])]
    facts: dict[str, Any] = {}
    beside: dict[str, Callable[[], Any]] = {}
    if archive.format == "replay-buffer":
        beside, facts = _list_replay_buffer(archive)
    elif archive.format in ("vecnormalize", "running-mean-std"):
        beside = _list_counts({leaf.path: leaf.value for leaf in others})
        settings, facts = _list_settings(archive)
        others = [leaf for leaf in others if leaf.path not in beside]
        arrays, beside = {**arrays, **beside, **settings, **arrays}, {}  # an array precedes a setting of its name
    labels = _name_variables(archive, state_dict, kind)
    return Part(name.removesuffix(PTH_SUFFIX), {**beside, **arrays}, labels, facts, len(others))


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


def _list_replay_buffer(archive: Archive) -> tuple[dict[str, Callable[[], Any]], dict[str, Any]]:
    """Return what a replay buffer contains besides its arrays: as arrays, and as JSON; empty for a class of a user."""
    from sbformat.formats.replay_buffer import ENDS, is_of_sb3, replay_buffer_of

    try:
        buffer = replay_buffer_of(archive)
    except TensorError:
        if is_of_sb3(archive):
            raise
        return {}, {}
    episodes = functools.cache(buffer.episode_table)
    arrays: dict[str, Callable[[], Any]] = {
        **{name: functools.partial(_get, buffer.scalars, name) for name in buffer.scalars()},
        **{name: functools.partial(_get, episodes, name.removeprefix("episode_")) for name in _EPISODES},
    }
    facts = {
        "class": str(buffer.type), "pos": buffer.pos, "full": buffer.full, "buffer_size": buffer.buffer_size,
        "n_envs": buffer.n_envs, "optimize_memory_usage": buffer.optimize_memory_usage,
        "handle_timeout_termination": buffer.handle_timeout_termination, "episode_end": list(ENDS),
    }  # fmt: skip
    return arrays, {"replay_buffer": facts}


def _get(table: Callable[[], Mapping[str, Any]], name: str) -> Any:
    return table()[name]


# -- statistics ---------------------------------------------------------------------------------------


def _list_counts(leaves: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """Return the numbers of samples, which the pickle has as Python numbers."""
    from sbformat.formats.vecnormalize.entries import make_number

    made: dict[str, Callable[[], Any]] = {}
    for path, value in leaves.items():
        if path.rpartition("/")[2] == _COUNT and type(value) in (int, float):
            array = make_number(value)
            if array is not None:
                made[path] = functools.partial(_identity, array)
    return made


def _list_settings(archive: Archive) -> tuple[dict[str, Callable[[], Any]], dict[str, Any]]:
    """Return the settings of a VecNormalize: as arrays, and as JSON.

    SB2's files of a mean and a variance have none, and those of a class of a user may not be what SB3 has.
    """
    from sbformat.formats.vecnormalize.entries import describe_settings, make_settings
    from sbformat.formats.vecnormalize.pickles import read_vecnormalize

    if archive.format != "vecnormalize":
        return {}, {}
    try:
        value = read_vecnormalize(archive)
    except SbformatError:
        return {}, {}
    arrays = {name: functools.partial(_identity, array) for name, array in make_settings(value).items()}
    return {**arrays}, {"vecnormalize": describe_settings(value)}


def _list_bundled_statistics(archive: Archive) -> Part:
    from sbformat.formats.vecnormalize.entries import describe_settings, make_arrays, read_entries

    value = read_entries(archive)
    arrays = {name: functools.partial(_identity, array) for name, array in make_arrays(value).items()}
    return Part(STATISTICS, {**arrays}, {}, {"vecnormalize": describe_settings(value)}, 0)


def _identity(value: Any) -> Any:
    return value
