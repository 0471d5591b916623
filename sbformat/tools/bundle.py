"""An archive and the statistics that its observations were normalised with, in one file, and apart again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from sbformat.errors import SbformatError, UnsupportedError, ValidationError, escape, quote
from sbformat.formats.vecnormalize.entries import ENTRIES, has_entries, read_entries, write_entries
from sbformat.pth.mismatches import Mismatch
from sbformat.values.types import Box, DictSpace, Discrete, MultiBinary, MultiDiscrete

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.archive.archive import Archive
    from sbformat.formats.vecnormalize.values import VecNormalize

_WHOLE: Final = ("sb3", "folder")
_OBSERVATIONS: Final = "observation_space"
_SPACES: Final = (Box, Discrete, MultiBinary, MultiDiscrete)
_SHOWN: Final = 4


class Unbundled(NamedTuple):
    """What :func:`unbundle` returns."""

    archive: Archive
    """As it was before it was bundled."""
    vecnormalize: VecNormalize


def bundle(
    archive: Archive, vecnormalize: VecNormalize, *, overwrite: bool = False, allow_mismatch: bool = False
) -> Archive:
    """Return the archive with the statistics in two more entries, which SB3 passes over (FORMAT.md 17.5).

    Every other entry stays byte for byte. SB3 loads the agent from it as before; the statistics are for
    :func:`unbundle` and :func:`sbformat.read_vecnormalize`, and for whoever reads JSON and safetensors.

    :param archive: a whole one
    :param vecnormalize: as :func:`sbformat.read_vecnormalize` gives it
    :param overwrite: replace statistics that the archive has already
    :param allow_mismatch: take statistics of another shape than the agent's observations have, as they are where a
        wrapper such as ``VecFrameStack`` lies between the two
    :raises ValidationError: when the statistics do not fit the agent's observation space: all that does not is in
        ``problems``
    :raises UnsupportedError: when it has some and ``overwrite`` is False, is no whole archive of SB3, or for statistics
        that the entries cannot hold exactly
    """
    if archive.format not in _WHOLE:
        message = f"a {archive.format} is no whole archive of SB3, and cannot hold statistics"
        raise UnsupportedError(message)
    if has_entries(archive) and not overwrite:
        message = "the archive has statistics already: it is a bundle; overwrite=True or --force replaces them"
        raise UnsupportedError(message)
    mismatches = [] if allow_mismatch else list(find_mismatches(archive, vecnormalize))
    if mismatches:
        listed = "; ".join(row.message for row in mismatches[:_SHOWN])
        more = f"; and {len(mismatches) - _SHOWN} more" if len(mismatches) > _SHOWN else ""
        message = f"the statistics do not fit the agent (allow_mismatch=True or --allow-mismatch takes them): {listed}"
        raise ValidationError(message + more, problems=mismatches)
    return archive.replace(extra=write_entries(vecnormalize, archive.limits))


def find_mismatches(archive: Archive, vecnormalize: VecNormalize) -> Iterator[Mismatch]:
    """Yield the statistics of observations whose keys or shapes are not those of the agent's observation space.

    The shape of an image may have its channels last: SB3 moves them to the front behind the statistics. Nothing is
    compared when observations are not normalised, or the space is not known.
    """
    if not vecnormalize.norm_obs or vecnormalize.obs_rms is None:
        return
    try:
        space = archive.decode(_OBSERVATIONS)
    except SbformatError:
        return
    statistics = vecnormalize.obs_rms
    if not isinstance(statistics, dict):
        if isinstance(space, DictSpace):
            yield Mismatch("obs_rms", "shape", "expected statistics by key, for a Dict space, got those of one array")
        else:
            yield from _shape_mismatches("obs_rms", statistics.shape, space)
        return
    keys = vecnormalize.norm_obs_keys
    if not isinstance(space, DictSpace):
        if isinstance(space, _SPACES):
            yield Mismatch("obs_rms", "shape", "expected statistics of one array, got those of a Dict space, by key")
        return
    for key in statistics if keys is None else keys:
        place = f"obs_rms/{escape(key, 80)}"
        if key not in space.spaces:
            yield Mismatch(place, "unexpected", f"the agent's observations have no key {quote(key, 80)}")
        elif key in statistics:
            yield from _shape_mismatches(place, statistics[key].shape, space.spaces[key])


def _shape_mismatches(place: str, shape: tuple[int, ...], space: object) -> Iterator[Mismatch]:
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
        yield Mismatch(place, "shape", f"{place}: expected the shape {expected} of {_OBSERVATIONS}, got {shape}")


def unbundle(archive: Archive) -> Unbundled:
    """Return the archive without the statistics, and the statistics: the mirror of :func:`bundle`.

    :param archive: that :func:`bundle` made
    :raises MissingEntryError: when one of the two entries is not there
    :raises SbformatError: when they break the format
    """
    vecnormalize = read_entries(archive)
    return Unbundled(archive.without(*ENTRIES), vecnormalize)
