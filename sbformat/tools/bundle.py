"""``bundle`` and ``unbundle``: an archive and the normalisation statistics of its observations in one file."""

from __future__ import annotations

import contextlib
import warnings
from typing import TYPE_CHECKING

from sbformat.archive.kinds import SB3_ARCHIVES
from sbformat.errors import SbformatError, UnsupportedError
from sbformat.formats.vecnormalize.bundled import ENTRIES, has_entries, read_entries, write_entries
from sbformat.formats.vecnormalize.pickles import read_vecnormalize
from sbformat.formats.vecnormalize.values import VecNormalize, describe_other_spaces, require_fit
from sbformat.immutable import Record
from sbformat.limits import DEFAULT_LIMITS, Limits
from sbformat.reader import read

if TYPE_CHECKING:
    from sbformat.archive.archive import Archive
    from sbformat.reader import ArchiveLike


class Unbundled(Record):
    """The result of :func:`unbundle`."""

    archive: Archive
    """The archive without the statistics."""
    vecnormalize: VecNormalize


def bundle(
    source: ArchiveLike,
    vecnormalize: VecNormalize | ArchiveLike,
    *,
    overwrite: bool = False,
    allow_mismatch: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> Archive:
    """Return an archive that also contains normalisation statistics, in two more entries (STATISTICS.md 17.5).

    A warning says whether the statistics are of another space than the agent, although of the same shape.
    SB3 ignores these entries and loads the agent as before. They are JSON and safetensors; :func:`unbundle` and
    :func:`sbformat.read_vecnormalize` read them. Every other entry stays byte for byte. ::

        archive = sbformat.bundle("agent.zip", "vecnormalize.pkl")
        sbformat.write(archive, "bundle.zip")

    :param source: an archive of SB3 (a zip, or the folder it was unzipped into), or what :func:`sbformat.read` takes
    :param vecnormalize: statistics, or what :func:`sbformat.read_vecnormalize` takes
    :param overwrite: replace statistics that the archive already contains
    :param allow_mismatch: accept statistics whose shape is not that of the agent's observations, which is right when a
        wrapper such as ``VecFrameStack`` comes between the two, and those of other spaces without a warning
    :param limits: for reading
    :raises ValidationError: when the statistics do not fit the observation space of the agent; ``problems`` lists all
        mismatches
    :raises UnsupportedError: when the archive already contains statistics and ``overwrite`` is False, when it is not a
        whole archive of SB3, and for statistics that the entries cannot represent exactly
    """
    archive = read(source, limits=limits)
    if not isinstance(vecnormalize, VecNormalize):
        vecnormalize = read_vecnormalize(vecnormalize, limits=limits)
    if archive.format not in SB3_ARCHIVES:
        raise UnsupportedError(f"expected a whole archive of SB3 to add statistics to, got a {archive.format}")
    if has_entries(archive) and not overwrite:
        message = "the archive already contains statistics (it is a bundle)"
        raise UnsupportedError(message, hint="overwrite=True or --force replaces them")
    spaces: dict[str, object] = {}
    for name in ("observation_space", "action_space"):
        with contextlib.suppress(SbformatError):  # unknown
            spaces[name] = archive.decode(name)
    if not allow_mismatch:
        otherwise = "allow_mismatch=True or --allow-mismatch accepts them"
        require_fit(vecnormalize, spaces.get("observation_space"), otherwise)
        for sentence in describe_other_spaces(vecnormalize, spaces):
            warnings.warn(sentence, UserWarning, stacklevel=2)
    return archive.replace(extra=write_entries(vecnormalize, archive.limits))


def unbundle(source: ArchiveLike, *, limits: Limits = DEFAULT_LIMITS) -> Unbundled:
    """Return an archive without the statistics, and the statistics: the inverse of :func:`bundle`.

    Example::

        archive, vecnormalize = sbformat.unbundle("bundle.zip")

    :param source: an archive that :func:`bundle` made, or what :func:`sbformat.read` takes
    :param limits: for reading
    :raises MissingEntryError: when the archive lacks one of the two entries
    :raises SbformatError: when an entry violates the format
    """
    archive = read(source, limits=limits)
    vecnormalize = read_entries(archive)
    return Unbundled(archive.without(*ENTRIES), vecnormalize)
