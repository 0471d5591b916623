"""``read_vecnormalize``: reads every form of normalization statistics (STATISTICS.md 17.2)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from sbformat.archive.archive import Archive
from sbformat.archive.kinds import detect_kind, refuse_kind
from sbformat.constants import SETTINGS_ENTRY
from sbformat.errors import MissingEntryError, SbformatError, TensorError, UnsupportedError, quote
from sbformat.formats.opener import open_archive
from sbformat.formats.pickled import PickledArchive, require_distinct_names, require_plain_pickle
from sbformat.formats.vecnormalize.attributes import class_of, library_of, statistics_of, vecnormalize_of
from sbformat.formats.vecnormalize.entries import read_entries
from sbformat.formats.vecnormalize.values import RunningMeanStd, VecNormalize
from sbformat.io.opening import base_name, has_file, is_folder, join_path, list_names, open_source
from sbformat.io.urls import is_url
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits
from sbformat.pkl.decode import decode_pickle
from sbformat.values import decode_tree

if TYPE_CHECKING:
    from sbformat.io.opening import SourceLike
    from sbformat.io.source import BytesSource
    from sbformat.known.types import Instance

WHOLE_FILE: Final = "vecnormalize.pkl"
WHOLE_FILES: Final = (WHOLE_FILE, "vec_normalize.pkl")
"""The name in rl_zoo3, and that in many tutorials and Hub folders."""
OBSERVATIONS_FILE: Final = "obs_rms.pkl"
RETURNS_FILE: Final = "ret_rms.pkl"
_ELSEWHERE: Final = ("torch-legacy", "data-json", "safetensors")


def read_vecnormalize(source: Archive | SourceLike, *, limits: Limits = DEFAULT_LIMITS) -> VecNormalize:
    """Read normalization statistics; nothing in the file is run (STATISTICS.md 17).

    A lone ``obs_rms.pkl`` or ``ret_rms.pkl`` of SB2 has the statistics of observations or of returns: the other is not
    normalized, and the settings are SB2's defaults. The file's name tells which it is, and without a name its shape:
    statistics of returns have no dimensions.

    :param source: a ``vecnormalize.pkl`` of SB3 or SB2, or one of SB2's two files: a path, bytes, or a binary file
        object; a folder with a ``vecnormalize.pkl``, a ``vec_normalize.pkl`` or SB2's two; an archive that
        :func:`sbformat.bundle` made; or what :func:`sbformat.read` returned for one
    :param limits: bounds on what the file may use
    :return: statistics as float64 arrays, settings, and spaces
    :raises OSError: from the path, unchanged
    :raises MissingEntryError: when a folder or archive has no statistics, or an attribute is missing
    :raises PickleError: when the file is not a pickle
    :raises TensorError: when statistics do not fit together
    :raises UnsupportedError: when the file is something else
    :raises LimitError: when it exceeds a limit

    Example::

        statistics = sbformat.read_vecnormalize("vecnormalize.pkl")
        statistics.obs_rms.mean  # float64, of the shape of an observation
    """
    found = read_parts(source, limits)
    return make_vecnormalize(found) if isinstance(found, dict) else read_entries(found)


def read_parts(source: Archive | SourceLike, limits: Limits) -> dict[str, Instance] | Archive:
    """Return the decoded files of a source by name, or the archive of a bundle.

    :raises SbformatError: as :func:`read_vecnormalize`
    """
    name = ""
    if isinstance(source, Archive):
        value: Any = source.value if isinstance(source, PickledArchive) else None
        return _name_part(value, next(iter(source.entries))) if class_of(value) else source
    if isinstance(source, (str, os.PathLike)):
        if is_folder(source):
            return _read_folder(source if is_url(source) else os.fsdecode(source), limits)
        name = base_name(source)
    opened = open_source(source, budget=Budget(limits))
    kind = detect_kind(opened)
    if kind == "zip":
        return open_archive(opened.view(0, opened.size), Budget(limits))
    if kind != "pickle":
        if kind in _ELSEWHERE:
            message = "expected a pickle of a VecNormalize, or a bundle"
            raise UnsupportedError(message)
        refuse_kind(kind, opened)
    return _name_part(read_pickle(opened, limits), name)


def _name_part(value: Instance, name: str) -> dict[str, Instance]:
    return {WHOLE_FILE if class_of(value) == "VecNormalize" else find_file_name(value, name): value}


def read_pickle(opened: BytesSource, limits: Limits) -> Instance:
    """Return the ``VecNormalize`` or ``RunningMeanStd`` in a pickle.

    :raises UnsupportedError: when it is something else
    """
    budget = Budget(limits)
    budget.grant(opened.size)
    pickle = require_plain_pickle(decode_pickle(opened.view(0, opened.size), budget))
    require_distinct_names(pickle.value)
    value, decoder = decode_tree(pickle, budget)
    if not class_of(value):
        doubts = [doubt.message for doubt in decoder.issues.values()]
        message = f"expected a pickle of a VecNormalize{f': {doubts[0]}' if doubts else ''}"
        raise UnsupportedError(message)
    made: Instance = value
    return made


def find_file_name(value: Instance, name: str) -> str:
    """Return which of SB2's two files a ``RunningMeanStd`` is from, by the file's name and the shape.

    :raises TensorError: when name and shape contradict each other
    """
    has_dimensions = statistics_of(value, "the pickle").shape != ()
    if "ret_rms" in name:
        if has_dimensions:
            message = "expected statistics of returns of shape (), got some with dimensions"
            raise TensorError(message)
        return RETURNS_FILE
    return OBSERVATIONS_FILE if has_dimensions or "obs_rms" in name else RETURNS_FILE


def folder_files(folder: str) -> tuple[str, ...]:
    """Return the names of the files of statistics in a folder: one of :data:`WHOLE_FILES`, or SB2's two."""
    found = list_names(folder)
    for names in (*((name,) for name in WHOLE_FILES), (OBSERVATIONS_FILE, RETURNS_FILE)):
        present = tuple(name for name in names if name in found)
        if present:
            return present
    return ()


def _read_folder(folder: str, limits: Limits) -> dict[str, Instance] | Archive:
    names = folder_files(folder)
    if not names and has_file(folder, SETTINGS_ENTRY):
        return open_archive(folder, Budget(limits))
    if not names:
        raise MissingEntryError(WHOLE_FILE, present=list_names(folder), what="file")
    made = {}
    for name in names:
        try:
            found = read_pickle(open_source(join_path(folder, name), budget=Budget(limits)), limits)
            is_whole = class_of(found) == "VecNormalize"
            if is_whole != (name in WHOLE_FILES) or (not is_whole and find_file_name(found, name) != name):
                message = "expected the pickle that the file is named for"
                raise UnsupportedError(message)
        except SbformatError as error:
            raise error.within(name) from None
        made[WHOLE_FILE if is_whole else name] = found
    return made


def make_vecnormalize(parts: dict[str, Instance]) -> VecNormalize:
    """Return the statistics of the files of :func:`read_parts`: of a ``VecNormalize``, or SB2's alone."""
    if WHOLE_FILE in parts:
        return vecnormalize_of(parts[WHOLE_FILE])
    found: dict[str, RunningMeanStd] = {name: statistics_of(value, name) for name, value in parts.items()}
    libraries = {library_of(value) for value in parts.values()}
    if len(libraries) > 1:
        message = f"expected files of one library, got {', '.join(sorted(map(quote, libraries)))}"
        raise UnsupportedError(message)
    return VecNormalize(
        obs_rms=found.get(OBSERVATIONS_FILE),
        ret_rms=found.get(RETURNS_FILE),
        norm_obs=OBSERVATIONS_FILE in found,
        norm_reward=RETURNS_FILE in found,
        library=libraries.pop(),
    )
