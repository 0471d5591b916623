"""``read_vecnormalize``: every form that people have normalisation statistics in (FORMAT.md 17.2)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from sbformat.archive.kinds import detect_kind, refuse_kind
from sbformat.constants import SETTINGS_ENTRY
from sbformat.errors import MissingEntryError, SbformatError, TensorError, UnsupportedError, quote
from sbformat.formats.opener import open_archive
from sbformat.formats.pickled import require_plain_pickle
from sbformat.formats.vecnormalize.attributes import class_of, library_of, statistics_of, vecnormalize_of
from sbformat.formats.vecnormalize.entries import read_entries
from sbformat.formats.vecnormalize.values import RunningMeanStd, VecNormalize
from sbformat.io.source import open_source
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits
from sbformat.pkl.decode import decode_pickle
from sbformat.values import decode_tree

if TYPE_CHECKING:
    from sbformat.archive.archive import Archive
    from sbformat.io.source import BytesSource, SourceLike
    from sbformat.values.types import Instance

WHOLE_FILE: Final = "vecnormalize.pkl"
WHOLE_FILES: Final = (WHOLE_FILE, "vec_normalize.pkl")
"""As rl_zoo3 names it, and as many tutorials and Hub folders do."""
OBSERVATIONS_FILE: Final = "obs_rms.pkl"
RETURNS_FILE: Final = "ret_rms.pkl"
_ELSEWHERE: Final = ("torch-legacy", "data-json", "safetensors")


def read_vecnormalize(source: SourceLike, *, limits: Limits = DEFAULT_LIMITS) -> VecNormalize:
    """Read normalisation statistics; nothing in the file is run.

    A lone ``obs_rms.pkl`` or ``ret_rms.pkl`` of SB2 has statistics of one of the two: what it lacks is not normalised,
    and the settings are SB2's defaults. Which of them it is tells its name, and its shape where there is none: those of
    returns have no dimensions.

    :param source: a ``vecnormalize.pkl`` of SB3 or SB2, or one of SB2's two files: a path, bytes, or a binary file
        object; a folder with a ``vecnormalize.pkl``, a ``vec_normalize.pkl`` or SB2's two; an archive that
        :func:`sbformat.bundle` made
    :param limits: what the file may ask for
    :raises OSError: from the path, unchanged
    :raises MissingEntryError: when a folder or archive has none, or an attribute is missing
    :raises PickleError: when it is no pickle
    :raises TensorError: when statistics do not fit each other
    :raises UnsupportedError: when it is something else
    :raises LimitError: when it asks for more than allowed
    """
    found = parts_of(source, limits)
    return parts_value(found) if isinstance(found, dict) else read_entries(found)


def parts_of(source: SourceLike, limits: Limits) -> dict[str, Instance] | Archive:
    """Return what the files of a source hold, by the name of each; of a bundle the archive.

    :raises SbformatError: as :func:`read_vecnormalize`
    """
    name = ""
    if isinstance(source, (str, os.PathLike)):
        if os.path.isdir(source):
            return _of_folder(os.fsdecode(source), limits)
        name = os.path.basename(os.fsdecode(source))
    opened = open_source(source, budget=Budget(limits))
    kind = detect_kind(opened)
    if kind == "zip":
        return open_archive(opened.view(0, opened.size), Budget(limits))
    if kind != "pickle":
        if kind in _ELSEWHERE:
            message = "no VecNormalize: a pickle of one is expected, or a bundle"
            raise UnsupportedError(message)
        refuse_kind(kind, opened)
    found = pickled(opened, limits)
    return {WHOLE_FILE if class_of(found) == "VecNormalize" else file_of(found, name): found}


def pickled(opened: BytesSource, limits: Limits) -> Instance:
    """Return the ``VecNormalize`` or ``RunningMeanStd`` that a pickle holds.

    :raises UnsupportedError: when it is something else
    """
    budget = Budget(limits)
    budget.grant(opened.size)
    pickle = require_plain_pickle(decode_pickle(opened.view(0, opened.size), budget))
    value, decoder = decode_tree(pickle, budget)
    if not class_of(value):
        doubts = [doubt.message for doubt in decoder.issues.values()]
        message = f"a pickle of something else than a VecNormalize{f': {doubts[0]}' if doubts else ''}"
        raise UnsupportedError(message)
    made: Instance = value
    return made


def file_of(value: Instance, name: str) -> str:
    """Tell which of SB2's two files a ``RunningMeanStd`` is of, by the name of its file and its shape.

    :raises TensorError: when the shape is another one than the name says
    """
    has_dimensions = statistics_of(value, "the pickle").shape != ()
    if "ret_rms" in name:
        if has_dimensions:
            message = "statistics of returns have no dimensions, these have"
            raise TensorError(message)
        return RETURNS_FILE
    return OBSERVATIONS_FILE if has_dimensions or "obs_rms" in name else RETURNS_FILE


def folder_files(folder: str) -> tuple[str, ...]:
    """Return the names of the files of statistics in a folder: one of :data:`WHOLE_FILES`, or SB2's two."""
    for names in (*((name,) for name in WHOLE_FILES), (OBSERVATIONS_FILE, RETURNS_FILE)):
        present = tuple(name for name in names if os.path.isfile(os.path.join(folder, name)))
        if present:
            return present
    return ()


def _of_folder(folder: str, limits: Limits) -> dict[str, Instance] | Archive:
    names = folder_files(folder)
    if not names and os.path.isfile(os.path.join(folder, SETTINGS_ENTRY)):
        return open_archive(folder, Budget(limits))
    if not names:
        raise MissingEntryError(WHOLE_FILE, present=sorted(os.listdir(folder)), what="file")
    made = {}
    for name in names:
        try:
            found = pickled(open_source(os.path.join(folder, name), budget=Budget(limits)), limits)
            is_whole = class_of(found) == "VecNormalize"
            if is_whole != (name in WHOLE_FILES) or (not is_whole and file_of(found, name) != name):
                message = "the pickle of something else"
                raise UnsupportedError(message)
        except SbformatError as error:
            raise error.within(name) from None
        made[WHOLE_FILE if is_whole else name] = found
    return made


def parts_value(parts: dict[str, Instance]) -> VecNormalize:
    """Return the value of what :func:`parts_of` found: a ``VecNormalize``, or SB2's statistics alone."""
    if WHOLE_FILE in parts:
        return vecnormalize_of(parts[WHOLE_FILE])
    found: dict[str, RunningMeanStd] = {name: statistics_of(value, name) for name, value in parts.items()}
    libraries = {library_of(value) for value in parts.values()}
    if len(libraries) > 1:
        message = f"the files are of different libraries: {', '.join(sorted(map(quote, libraries)))}"
        raise UnsupportedError(message)
    return VecNormalize(
        obs_rms=found.get(OBSERVATIONS_FILE),
        ret_rms=found.get(RETURNS_FILE),
        norm_obs=OBSERVATIONS_FILE in found,
        norm_reward=RETURNS_FILE in found,
        library=libraries.pop(),
    )
