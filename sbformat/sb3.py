"""Pass a rebuilt archive to the real Stable-Baselines3: its own ``load``, without any pickle of the file.

The extra ``sb3`` installs Stable-Baselines3. Nothing in the package imports this module.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from sbformat.constants import DATA_ENTRY
from sbformat.errors import SbformatError, UnsupportedError, escape, quote
from sbformat.globals.releases import NEWEST, RELEASES, Target
from sbformat.limits import DEFAULT_LIMITS, Limits
from sbformat.reader import read
from sbformat.tools.rebuild import rebuild
from sbformat.tools.rebuild.releases import ALGORITHMS
from sbformat.writer import writes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from sbformat.archive.archive import Archive
    from sbformat.io.source import SourceLike
    from sbformat.tools.rebuild import RebuildReport, Row

A = TypeVar("A")

_PACKAGES: Final = ("stable_baselines3", "sb3_contrib")

__all__ = ["load"]


@overload
def load(
    algorithm: type[A],
    source: Archive | SourceLike,
    *,
    custom_objects: Mapping[str, Any] | None = None,
    allow: Collection[str] = (),
    report: Callable[[RebuildReport], object] | list[RebuildReport] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    **kwargs: Any,
) -> A: ...


@overload
def load(
    algorithm: str,
    source: Archive | SourceLike,
    *,
    custom_objects: Mapping[str, Any] | None = None,
    allow: Collection[str] = (),
    report: Callable[[RebuildReport], object] | list[RebuildReport] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    **kwargs: Any,
) -> Any: ...


def load(
    algorithm: type[Any] | str,
    source: Archive | SourceLike,
    *,
    custom_objects: Mapping[str, Any] | None = None,
    allow: Collection[str] = (),
    report: Callable[[RebuildReport], object] | list[RebuildReport] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    **kwargs: Any,
) -> Any:
    """Load an agent as ``algorithm.load`` does, from an archive of any release, or an untrusted one (FORMAT.md 15).

    The archive is rebuilt in memory (:func:`sbformat.rebuild`) for the installed release of SB3, and SB3 loads the
    result: every pickle that it reads was made here. One ``UserWarning`` names each hyper-parameter, class or argument
    that was replaced or dropped, with the old and the new value::

        model = sbformat.sb3.load(PPO, "agent-2020.zip", env=env)
        model = sbformat.sb3.load("TQC", "agent-2020.zip", custom_objects={"learning_rate": 1e-3})

    :param algorithm: a class of SB3 or sb3-contrib, its name (``"PPO"``), or a class that is derived from one
    :param source: an archive, or a path, bytes or a binary file, as in :func:`sbformat.read`
    :param custom_objects: values by key of ``data`` to use instead of the archive's, as in SB3: a custom schedule or
        policy class is passed here
    :param allow: exact dotted names outside SB3 that may be imported and called, as the warning or error names them
    :param report: a list to which the report of the rebuild is appended, or a function that is called with it, before
        SB3 loads the result
    :param limits: as in :func:`sbformat.read`
    :param kwargs: for SB3's ``load``: ``env``, ``device``, ``print_system_info``, ...
    :return: the agent
    :raises UnsupportedError: when it is an agent of another algorithm, when SB3 cannot load it without a class that is
        not allowed, when it cannot be rebuilt, and when SB3 is not installed
    :raises SbformatError: when the archive cannot be read
    :raises TypeError: when ``algorithm`` is neither a class nor a name, and when ``allow`` is a str
    """
    target = _installed_release()
    loader = _find_class(algorithm)
    given = dict(custom_objects or {})
    original = read(source, limits=limits)
    archive, account = rebuild(
        original, target=target, algorithm=_find_name(loader), supplied_at_load=given, allow=allow, limits=limits
    )
    if report is not None:
        take = report.append if isinstance(report, list) else report
        take(account)
    _warn([row for row in account.findings if _key_of(row) not in kwargs])
    if kwargs.get("print_system_info"):
        archive = archive.replace(system_info=_read_system_info(original))
    try:
        return loader.load(BytesIO(writes(archive)), custom_objects=given, **kwargs)
    except RuntimeError as error:
        dropped = [_describe(row) for row in account.findings if _key_of(row) in ("policy_class", "policy_kwargs")]
        if not dropped:
            raise
        message = (
            f"SB3 cannot load it without what was dropped: {'; '.join(dropped)}; pass it in custom_objects "
            f"(policy_class, policy_kwargs), or allow the name"
        )
        raise UnsupportedError(message, entry=DATA_ENTRY) from error


def _find_class(algorithm: object) -> Any:
    """Return the class of an algorithm.

    :raises UnsupportedError: for a name that is not an algorithm, or that is not installed
    :raises TypeError: when it is neither a class nor a name
    """
    if isinstance(algorithm, type):
        return algorithm
    if not isinstance(algorithm, str):
        message = f"algorithm: expected a class or its name, got {type(algorithm).__name__}"
        raise TypeError(message)
    if algorithm not in ALGORITHMS:
        message = f"{quote(algorithm, 80)} is not an algorithm of SB3; available: {', '.join(ALGORITHMS)}"
        raise UnsupportedError(message)
    for package in _PACKAGES:
        try:
            return getattr(import_module(package), algorithm)
        except (ImportError, AttributeError):
            continue
    message = f"the installed Stable-Baselines3 has no {algorithm}: pip install sb3-contrib"
    raise UnsupportedError(message)


def _find_name(algorithm: type) -> str | None:
    """Return SB3's name of an algorithm, or of the one from which it is derived."""
    names = (cls.__name__ for cls in algorithm.__mro__ if cls.__module__.split(".")[0] in _PACKAGES)
    return next((name for name in names if name in ALGORITHMS), None)


def _warn(findings: list[Row]) -> None:
    """Emit one warning of everything that the agent computes or trains with and that is different now."""
    if findings:
        message = f"not as it was saved: {'; '.join(map(_describe, findings))}; custom_objects sets other values"
        warnings.warn(message, UserWarning, stacklevel=3)


def _describe(row: Row) -> str:
    """Return the place, the old value, the new value and the reason."""
    place = row.key if row.entry == DATA_ENTRY and row.key is not None else row.entry
    return f"{place}: {row.was or 'not readable'} -> {row.instead or 'the default of SB3'} ({row.message})"


def _key_of(row: Row) -> str:
    """Return the key of ``data`` that a row is about, or its entry."""
    return row.key.partition("/")[0] if row.key is not None and row.entry == DATA_ENTRY else row.entry


def _read_system_info(archive: Archive) -> str | None:
    """Return the description of the system that saved the agent; without control characters, since SB3 prints it."""
    try:
        info = archive.system_info
    except SbformatError:
        return None
    return None if info is None else "\n".join(escape(line, 1000) for line in info.text.splitlines())


def _installed_release() -> str:
    """Return the installed release of SB3, or the newest known one if it is newer.

    :raises UnsupportedError: when SB3 is not installed, or is older than the oldest target
    """
    try:
        import stable_baselines3
    except ImportError:
        message = "to load an agent, Stable-Baselines3 is needed: pip install 'sbformat[sb3]'"
        raise UnsupportedError(message) from None
    first, second = (int(part) for part in stable_baselines3.__version__.split(".")[:2])
    if (first, second) < min(RELEASES):
        message = f"expected SB3 {min(RELEASES)} or later, got {first}.{second}"
        raise UnsupportedError(message)
    return str(min(Target(first, second), NEWEST))
