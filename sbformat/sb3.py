"""Hand a rebuilt archive to the real Stable-Baselines3: its own ``load``, without one pickle of the file.

The extra ``sb3`` brings Stable-Baselines3; this module and ``unsafe`` are the two that nothing else imports.
"""

from __future__ import annotations

import warnings
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sbformat.archive.archive import Archive
from sbformat.constants import DATA_ENTRY
from sbformat.errors import SbformatError, UnsupportedError, escape
from sbformat.globals.releases import NEWEST, RELEASES, Target
from sbformat.limits import DEFAULT_LIMITS, Limits
from sbformat.reader import read
from sbformat.tools.rebuild import rebuild
from sbformat.tools.rebuild.releases import ALGORITHMS
from sbformat.writer import writes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from sbformat.io.source import SourceLike
    from sbformat.tools.rebuild import RebuildReport, Row

A = TypeVar("A")

_PACKAGES: Final = ("stable_baselines3", "sb3_contrib")

__all__ = ["load"]


def load(
    algorithm: type[A],
    source: Archive | SourceLike,
    *,
    custom_objects: Mapping[str, Any] | None = None,
    allow: Collection[str] = (),
    report: Callable[[RebuildReport], object] | list[RebuildReport] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    **kwargs: Any,
) -> A:
    """Load an agent as ``algorithm.load`` does, from an archive of any release or of a stranger.

    The archive is rebuilt in memory (:func:`sbformat.rebuild`) for the release of SB3 that is installed, and SB3 loads
    the result: every pickle that it reads was written here. One ``UserWarning`` names each hyper-parameter, class or
    argument that was replaced or dropped, with the old and the new value.

    :param algorithm: SB3's class, or your own one derived from it: ``PPO``, ``SAC``, ``RecurrentPPO``, ...
    :param source: an archive, or what :func:`sbformat.read` takes
    :param custom_objects: values by key of ``data`` that take the place of the archive's, as in SB3; a schedule of the
        author's own, or a policy class, is given here
    :param allow: dotted names outside SB3 that may be imported and called, exactly as the warning or error names them
    :param report: a list that the report of the rebuilding is appended to, or a function that is called with it, before
        SB3 loads the result
    :param limits: as in :func:`sbformat.read`
    :param kwargs: for SB3's ``load``: ``env``, ``device``, ``print_system_info``, ...
    :return: the agent
    :raises UnsupportedError: when it is an agent of another algorithm, SB3 could not load it without a class that was
        not allowed, it cannot be rebuilt, or SB3 is not installed
    :raises SbformatError: when the archive cannot be read
    :raises TypeError: when ``allow`` is a str
    """
    given = dict(custom_objects or {})
    original = source if isinstance(source, Archive) else read(source, limits=limits)
    archive, account = rebuild(
        original, target=_installed(), algorithm=_named(algorithm), given=given, allow=allow, limits=limits
    )
    if report is not None:
        take = report.append if isinstance(report, list) else report
        take(account)
    _warn([row for row in account.findings if _key_of(row) not in kwargs])
    if kwargs.get("print_system_info"):
        archive = archive.replace(system_info=_system_info(original))
    loader: Any = algorithm
    try:
        return loader.load(BytesIO(writes(archive)), custom_objects=given, **kwargs)  # type: ignore[no-any-return]
    except RuntimeError as error:
        lost = [_describe(row) for row in account.findings if _key_of(row) in ("policy_class", "policy_kwargs")]
        if not lost:
            raise
        message = (
            f"SB3 cannot load it without what was dropped: {'; '.join(lost)}; give it in custom_objects "
            f"(policy_class, policy_kwargs), or allow the name"
        )
        raise UnsupportedError(message, entry=DATA_ENTRY) from error


def _warn(findings: list[Row]) -> None:
    """Emit one warning of all that the agent computes or trains with and that is another now."""
    if findings:
        message = f"not as it was saved: {'; '.join(map(_describe, findings))}; custom_objects gives values of your own"
        warnings.warn(message, UserWarning, stacklevel=3)


def _describe(row: Row) -> str:
    """Return the place, the old and the new value, and why."""
    place = row.key if row.entry == DATA_ENTRY and row.key is not None else row.entry
    return f"{place}: {row.was or 'not readable'} -> {row.instead or 'the default of SB3'} ({row.message})"


def _key_of(row: Row) -> str:
    """Return the key of ``data`` that a row is of, or its entry."""
    return row.key.partition("/")[0] if row.key is not None and row.entry == DATA_ENTRY else row.entry


def _system_info(archive: Archive) -> str | None:
    """Return the description of the system that the agent was saved on, without control characters.

    SB3 prints it.
    """
    try:
        info = archive.system_info
    except SbformatError:
        return None
    return None if info is None else "\n".join(escape(line, 1000) for line in info.text.splitlines())


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
