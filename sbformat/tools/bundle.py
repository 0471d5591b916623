"""``bundle`` and ``unbundle``: an archive and the normalisation statistics of its observations in one file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from sbformat.errors import SbformatError, UnsupportedError, ValidationError, escape, quote
from sbformat.formats.vecnormalize.entries import ENTRIES, has_entries, read_entries, write_entries
from sbformat.formats.vecnormalize.reading import read_vecnormalize
from sbformat.formats.vecnormalize.values import VecNormalize
from sbformat.limits import DEFAULT_LIMITS, Limits
from sbformat.pth.mismatches import Mismatch
from sbformat.reader import read
from sbformat.values.types import Box, DictSpace, Discrete, MultiBinary, MultiDiscrete

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.archive.archive import Archive
    from sbformat.reader import ArchiveLike

_WHOLE_ARCHIVES: Final = ("sb3", "folder")
_OBSERVATION_SPACE: Final = "observation_space"
_ARRAY_SPACES: Final = (Box, Discrete, MultiBinary, MultiDiscrete)
_MISMATCHES_SHOWN: Final = 4


class Unbundled(NamedTuple):
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
    """Return an archive that also contains normalisation statistics, in two more entries (FORMAT.md 17.5).

    SB3 ignores these entries and loads the agent as before. They are JSON and safetensors; :func:`unbundle` and
    :func:`sbformat.read_vecnormalize` read them. Every other entry stays byte for byte. ::

        archive = sbformat.bundle("agent.zip", "vecnormalize.pkl")
        sbformat.write(archive, "bundle.zip")

    :param source: an archive of SB3 (a zip, or the folder it was unzipped into), or what :func:`sbformat.read` takes
    :param vecnormalize: statistics, or what :func:`sbformat.read_vecnormalize` takes
    :param overwrite: replace statistics that the archive already contains
    :param allow_mismatch: accept statistics whose shape is not that of the agent's observations, which is right when a
        wrapper such as ``VecFrameStack`` comes between the two
    :param limits: for reading
    :raises ValidationError: when the statistics do not fit the observation space of the agent; ``problems`` lists all
        mismatches
    :raises UnsupportedError: when the archive already contains statistics and ``overwrite`` is False, when it is not a
        whole archive of SB3, and for statistics that the entries cannot represent exactly
    """
    archive = read(source, limits=limits)
    if not isinstance(vecnormalize, VecNormalize):
        vecnormalize = read_vecnormalize(vecnormalize, limits=limits)
    if archive.format not in _WHOLE_ARCHIVES:
        message = f"expected a whole archive of SB3 to add statistics to, got a {archive.format}"
        raise UnsupportedError(message)
    if has_entries(archive) and not overwrite:
        message = "the archive already contains statistics (it is a bundle); overwrite=True or --force replaces them"
        raise UnsupportedError(message)
    mismatches = [] if allow_mismatch else list(find_mismatches(archive, vecnormalize))
    if mismatches:
        listed = "; ".join(row.message for row in mismatches[:_MISMATCHES_SHOWN])
        left = len(mismatches) - _MISMATCHES_SHOWN
        more = f"; and {left} more" if left > 0 else ""
        message = (
            f"the statistics do not fit the agent (allow_mismatch=True or --allow-mismatch accepts them): {listed}"
        )
        raise ValidationError(message + more, problems=mismatches)
    return archive.replace(extra=write_entries(vecnormalize, archive.limits))


def find_mismatches(archive: Archive, vecnormalize: VecNormalize) -> Iterator[Mismatch]:
    """Yield the statistics whose keys or shapes are not those of the agent's observation space.

    Images may have their channels last: SB3 moves them to the front after normalising. Nothing is compared when
    observations are not normalised, or the space is unknown.
    """
    if not vecnormalize.norm_obs or vecnormalize.obs_rms is None:
        return
    try:
        space = archive.decode(_OBSERVATION_SPACE)
    except SbformatError:
        return
    statistics = vecnormalize.obs_rms
    if not isinstance(statistics, dict):
        if isinstance(space, DictSpace):
            yield Mismatch(
                "obs_rms", "shape", "expected statistics by key, as for a Dict space, got those of one array"
            )
        else:
            yield from _find_shape_mismatch("obs_rms", statistics.shape, space)
        return
    keys = vecnormalize.norm_obs_keys
    if not isinstance(space, DictSpace):
        if isinstance(space, _ARRAY_SPACES):
            yield Mismatch(
                "obs_rms", "shape", "expected statistics of one array, got statistics by key, as for a Dict space"
            )
        return
    for key in statistics if keys is None else keys:
        path = f"obs_rms/{escape(key, 80)}"
        if key not in space.spaces:
            yield Mismatch(path, "unexpected", f"the observations of the agent have no key {quote(key, 80)}")
        elif key in statistics:
            yield from _find_shape_mismatch(path, statistics[key].shape, space.spaces[key])


def _find_shape_mismatch(path: str, shape: tuple[int, ...], space: object) -> Iterator[Mismatch]:
    if isinstance(space, (Box, MultiBinary)):
        expected = space.shape
    elif isinstance(space, MultiDiscrete):
        expected = space.nvec.shape
    elif isinstance(space, Discrete):
        expected = ()
    else:
        return
    has_channels_last = len(shape) == 3 and (shape[2], *shape[:2]) == expected
    if shape != expected and not has_channels_last:
        yield Mismatch(path, "shape", f"{path}: expected the shape {expected} of {_OBSERVATION_SPACE}, got {shape}")


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
