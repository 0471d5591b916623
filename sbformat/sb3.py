"""Hand a rebuilt archive to the real Stable-Baselines3: its own ``load``, without one pickle of the file.

The extra ``sb3`` brings Stable-Baselines3; this module and ``unsafe`` are the two that nothing else imports.
"""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sbformat.errors import UnsupportedError, quote
from sbformat.targets import NEWEST, RELEASES, Target
from sbformat.limits import DEFAULT_LIMITS, Limits
from sbformat.tools.rebuild import rebuild
from sbformat.tools.rebuild.releases import ALGORITHMS
from sbformat.writer import writes

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sbformat.archive import Archive
    from sbformat.source import SourceLike

A = TypeVar("A")

_PACKAGES: Final = ("stable_baselines3", "sb3_contrib")

__all__ = ["load"]


def load(
    algorithm: type[A],
    source: Archive | SourceLike,
    *,
    custom_objects: Mapping[str, Any] | None = None,
    allow: Collection[str] = (),
    limits: Limits = DEFAULT_LIMITS,
    **kwargs: Any,  # noqa: ANN401 -- whatever SB3 takes
) -> A:
    """Load an agent as ``algorithm.load`` does, from an archive of any release or of a stranger.

    The archive is rebuilt in memory (:func:`sbformat.rebuild`) for the release of SB3 that is installed, and SB3 loads
    the result: every pickle that it reads was written here.

    :param algorithm: SB3's class, or your own one derived from it: ``PPO``, ``SAC``, ``RecurrentPPO``, ...
    :param source: an archive, or what :func:`sbformat.read` takes
    :param custom_objects: values by key of ``data`` that take the place of the archive's, as in SB3; a schedule of the
        author's own, or a policy class, is given here
    :param allow: dotted names outside SB3 that may be imported, exactly as the error names them
    :param limits: as in :func:`sbformat.read`
    :param kwargs: for SB3's ``load``: ``env``, ``device``, ...
    :return: the agent
    :raises UnsupportedError: when it is an agent of another algorithm, refers to a class outside SB3 that was not
        allowed, cannot be rebuilt, or SB3 is not installed
    :raises SbformatError: when the archive cannot be read
    """
    given = dict(custom_objects or {})
    archive, report = rebuild(source, target=_installed(), algorithm=_named(algorithm), given=given, limits=limits)
    foreign = next((required for required in report.requires if required.name not in allow), None)
    if foreign is not None:
        message = (
            f"{foreign.key} refers to {quote(foreign.name)}, which is none of SB3's, and SB3 would import it; trust it "
            f"by allow, or bring a value of your own in custom_objects"
        )
        raise UnsupportedError(message, entry="data")
    loader: Any = algorithm
    return loader.load(BytesIO(writes(archive)), custom_objects=given, **kwargs)  # type: ignore[no-any-return]


def _installed() -> str:
    """Return the release of SB3 that is installed, or the newest that is known when it is newer still.

    :raises UnsupportedError: when there is none, or an older one than can be written for
    """
    try:
        import stable_baselines3
    except ImportError:
        message = "Stable-Baselines3 is not installed: pip install 'sbformat[sb3]'"
        raise UnsupportedError(message) from None
    first, second = (int(part) for part in stable_baselines3.__version__.split(".")[:2])
    if (first, second) < min(RELEASES):
        message = f"SB3 {first}.{second} is installed, and {min(RELEASES)} is the oldest that can be written for"
        raise UnsupportedError(message)
    return str(min(Target(first, second), NEWEST))


def _named(algorithm: type) -> str | None:
    """Return SB3's name of an algorithm, or of the one that it is derived from."""
    names = (cls.__name__ for cls in algorithm.__mro__ if cls.__module__.split(".")[0] in _PACKAGES)
    return next((name for name in names if name in ALGORITHMS), None)
