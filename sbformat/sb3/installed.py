"""The installed Stable-Baselines3: its release, and its algorithms by name."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any, Final

from sbformat.errors import UnsupportedError, quote
from sbformat.known.algorithms import ALGORITHMS
from sbformat.known.changes import NEWEST, RELEASES, Release

ORIGINAL: Final = "_sbformat_original"
"""Attribute of a method that replaces one of SB3's: that method."""
_PACKAGES: Final = ("stable_baselines3", "sb3_contrib")


def find_installed_release() -> str:
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
    return str(min(Release(first, second), NEWEST))


def find_class(algorithm: object) -> Any:
    """Return the class of an algorithm.

    :param algorithm: a class, or the name of one of SB3's or sb3-contrib's
    :raises UnsupportedError: for a name that is not an algorithm, and when SB3, or the package of the algorithm, is
        not installed
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
    find_installed_release()
    for package in _PACKAGES:
        try:
            return getattr(import_module(package), algorithm)
        except (ImportError, AttributeError):
            continue
    message = f"the installed Stable-Baselines3 has no {algorithm}: pip install sb3-contrib"
    raise UnsupportedError(message)


def find_name(algorithm: type) -> str | None:
    """Return SB3's name of an algorithm, or of the one from which it is derived."""
    names = (cls.__name__ for cls in algorithm.__mro__ if cls.__module__.split(".")[0] in _PACKAGES)
    return next((name for name in names if name in ALGORITHMS), None)


def find_loader(algorithm: Any) -> Any:
    """Return SB3's own ``load`` of a class, also while :func:`~sbformat.sb3.replace_loaders` replaces it."""
    original = getattr(getattr(algorithm.load, "__func__", None), ORIGINAL, None)
    return algorithm.load if original is None else partial(original, algorithm)
