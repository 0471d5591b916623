"""The installed Stable-Baselines3: its release, its algorithms by name, ``load_vecnormalize`` (STATISTICS.md 17.4)."""

from __future__ import annotations

import os
from functools import partial
from importlib import import_module
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import UnsupportedError, need_extra, quote
from sbformat.formats.vecnormalize import write_vecnormalize
from sbformat.known.algorithms import ALGORITHMS
from sbformat.known.changes import GYMNASIUM, NEWEST, Release
from sbformat.limits import DEFAULT_LIMITS, Limits
from sbformat.tools.rebuild import rebuild_vecnormalize

if TYPE_CHECKING:
    from sbformat.archive.archive import Archive
    from sbformat.io.opening import SourceLike


ORIGINAL: Final = "_sbformat_original"
"""Attribute of a method that replaces one of SB3's: that method."""
_PACKAGES: Final = ("stable_baselines3", "sb3_contrib")


def find_installed_release() -> str:
    """Return the installed release of SB3, or the newest known one if it is newer."""
    try:
        import stable_baselines3
    except ImportError:
        raise need_extra("to load an agent, Stable-Baselines3 is needed", "sb3") from None
    first, second = (int(part) for part in stable_baselines3.__version__.split(".")[:2])
    if (first, second) < GYMNASIUM:
        raise UnsupportedError(f"expected SB3 {GYMNASIUM} or later, got {first}.{second}")
    return str(min(Release(first, second), NEWEST))


def find_class(algorithm: object) -> Any:
    """Return the class of an algorithm.

    :param algorithm: a class, or the name of one of SB3's or sb3-contrib's
    """
    if isinstance(algorithm, type):
        return algorithm
    if not isinstance(algorithm, str):
        raise TypeError(f"algorithm: expected a class or its name, got {type(algorithm).__name__}")
    if algorithm not in ALGORITHMS:
        hint = f"available: {', '.join(ALGORITHMS)}"
        raise UnsupportedError(f"{quote(algorithm, 80)} is not an algorithm of SB3", hint=hint)
    find_installed_release()
    for package in _PACKAGES:
        try:
            return getattr(import_module(package), algorithm)
        except (ImportError, AttributeError):
            continue
    raise UnsupportedError(f"the installed Stable-Baselines3 has no {algorithm}: pip install sb3-contrib")


def find_name(algorithm: type) -> str | None:
    """Return SB3's name of an algorithm, or of the one from which it is derived."""
    names = (cls.__name__ for cls in algorithm.__mro__ if cls.__module__.split(".")[0] in _PACKAGES)
    return next((name for name in names if name in ALGORITHMS), None)


def find_loader(algorithm: Any) -> Any:
    """Return SB3's own ``load`` of a class, also while :func:`~sbformat.sb3.replace_loaders` replaces it."""
    original = getattr(getattr(algorithm.load, "__func__", None), ORIGINAL, None)
    return algorithm.load if original is None else partial(original, algorithm)


def load_vecnormalize(source: Archive | SourceLike, venv: Any, *, limits: Limits = DEFAULT_LIMITS) -> Any:
    """Wrap environments as ``VecNormalize.load`` does, with statistics of any release of SB3 or SB2, or untrusted ones.

    The statistics are rebuilt (:func:`sbformat.rebuild_vecnormalize`) for the installed release of SB3, which loads
    the result from a temporary file::

        env = sbformat.sb3.load_vecnormalize("vecnormalize.pkl", DummyVecEnv([make_env]))
        model = sbformat.sb3.load(PPO, "agent.zip", env=env)

    :param source: a ``vecnormalize.pkl``, the files of SB2, a folder with either, or a bundle with an agent, as in
        :func:`sbformat.read_vecnormalize`
    :param venv: the vectorized environment to wrap
    :param limits: as in :func:`sbformat.read_vecnormalize`
    :return: a ``VecNormalize``, in training if it was when it was saved, as in SB3
    :raises UnsupportedError: when SB3 is not installed, and for a source that is not statistics
    :raises SbformatError: when it cannot be read
    :raises AssertionError: from SB3, when the statistics have another shape than the observations
    """
    release = find_installed_release()
    value, _ = rebuild_vecnormalize(source, target=release, limits=limits)
    from stable_baselines3.common.vec_env import VecNormalize

    with TemporaryDirectory(prefix="sbformat-") as folder:
        path = os.path.join(folder, "vecnormalize.pkl")
        write_vecnormalize(value, path, target=release)
        return getattr(VecNormalize.load, ORIGINAL, VecNormalize.load)(path, venv)
