"""An archive and the statistics that its observations were normalised with, in one file, and apart again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from sbformat.errors import UnsupportedError
from sbformat.vecnormalize.entries import ENTRIES, has_entries, read_entries, write_entries

if TYPE_CHECKING:
    from sbformat.archive import Archive
    from sbformat.vecnormalize.values import VecNormalize

_WHOLE: Final = ("sb3", "folder")


class Unbundled(NamedTuple):
    """What :func:`unbundle` returns."""

    archive: Archive
    """As it was before it was bundled."""
    vecnormalize: VecNormalize


def bundle(archive: Archive, vecnormalize: VecNormalize, *, overwrite: bool = False) -> Archive:
    """Return the archive with the statistics in two more entries, which SB3 passes over (FORMAT.md 17.5).

    Every other entry stays byte for byte. SB3 loads the agent from it as before; the statistics are for
    :func:`unbundle` and :func:`sbformat.read_vecnormalize`, and for whoever reads JSON and safetensors.

    :param archive: a whole one
    :param vecnormalize: as :func:`sbformat.read_vecnormalize` gives it
    :param overwrite: replace statistics that the archive has already
    :raises UnsupportedError: when it has some and ``overwrite`` is False, is no whole archive of SB3, or for statistics
        that the entries cannot hold exactly
    """
    if archive.format not in _WHOLE:
        message = f"a {archive.format} is no whole archive of SB3, and cannot hold statistics"
        raise UnsupportedError(message)
    if has_entries(archive) and not overwrite:
        message = "the archive has statistics already: it is a bundle; overwrite=True or --force replaces them"
        raise UnsupportedError(message)
    return archive.replace(extra=write_entries(vecnormalize, archive.limits))


def unbundle(archive: Archive) -> Unbundled:
    """Return the archive without the statistics, and the statistics: the mirror of :func:`bundle`.

    :param archive: that :func:`bundle` made
    :raises MissingEntryError: when one of the two entries is not there
    :raises SbformatError: when they break the format
    """
    vecnormalize = read_entries(archive)
    return Unbundled(archive.without(*ENTRIES), vecnormalize)
