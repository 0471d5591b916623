"""``load_vecnormalize``: normalization statistics as SB3's own ``VecNormalize`` (STATISTICS.md 17.4)."""

from __future__ import annotations

import os
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from sbformat.formats.vecnormalize import write_vecnormalize
from sbformat.limits import DEFAULT_LIMITS, Limits
from sbformat.sb3.installed import ORIGINAL, find_installed_release
from sbformat.tools.rebuild import rebuild_vecnormalize

if TYPE_CHECKING:
    from sbformat.archive.archive import Archive
    from sbformat.io.opening import SourceLike


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
