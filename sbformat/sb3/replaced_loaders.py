"""``replace_loaders``: programs that call SB3's own loading methods use those of this package instead."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Final

from sbformat.limits import DEFAULT_LIMITS, Limits
from sbformat.sb3.agents import load_with
from sbformat.sb3.installed import ORIGINAL, find_installed_release
from sbformat.sb3.replay_buffers import load_replay_buffer
from sbformat.sb3.statistics import load_vecnormalize

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

_NAMES: Final = ("load", "load_replay_buffer")


@contextmanager
def replace_loaders(*, allow: Collection[str] = (), limits: Limits = DEFAULT_LIMITS) -> Iterator[None]:
    """Replace SB3's loading methods by those of this package, for programs that cannot be changed.

    Until the context ends, the ``load`` of every algorithm, ``load_replay_buffer`` and ``VecNormalize.load`` load files
    of any release, and untrusted ones, without their pickles::

        with sbformat.sb3.replace_loaders():
            runpy.run_module("rl_zoo3.enjoy", run_name="__main__")

    ``BasePolicy.load``, which reads the files of ``policy.save()``, is not replaced. The replacement holds for all
    threads of the process.

    :param allow: as in :func:`sbformat.sb3.load`
    :param limits: as in :func:`sbformat.read`
    :raises UnsupportedError: when SB3 is not installed
    """
    find_installed_release()
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
    from stable_baselines3.common.vec_env import VecNormalize

    before = [(cls, name, vars(cls)[name]) for cls, name in zip((BaseAlgorithm, OffPolicyAlgorithm), _NAMES)]
    before.append((VecNormalize, "load", vars(VecNormalize)["load"]))
    BaseAlgorithm.load = classmethod(_replace_load(_unwrap(before[0][2]), allow, limits))
    OffPolicyAlgorithm.load_replay_buffer = _replace_buffer_load(_unwrap(before[1][2]), limits)
    VecNormalize.load = staticmethod(_replace_statistics_load(_unwrap(before[2][2]), limits))
    try:
        yield
    finally:
        for cls, name, method in before:
            setattr(cls, name, method)


def _unwrap(method: Any) -> Any:
    """Return SB3's own function: of a class or static method, or of one that is already replaced."""
    function = getattr(method, "__func__", method)
    return getattr(function, ORIGINAL, function)


def _replace_load(original: Any, allow: Collection[str], limits: Limits) -> Callable[..., Any]:
    @wraps(original)
    def load(cls: type, path: Any, *arguments: Any, **kwargs: Any) -> Any:
        own = partial(original, cls)
        return load_with(cls, path, *arguments, allow=allow, limits=limits, sb3_load=own, **kwargs)

    setattr(load, ORIGINAL, original)
    return load


def _replace_buffer_load(original: Any, limits: Limits) -> Callable[..., None]:
    @wraps(original)
    def load(model: Any, path: Any, truncate_last_traj: bool = True) -> None:  # noqa: FBT001, FBT002 -- SB3's own
        load_replay_buffer(model, path, truncate_last_traj, limits=limits)

    return load


def _replace_statistics_load(original: Any, limits: Limits) -> Callable[..., Any]:
    @wraps(original)
    def load(load_path: Any, venv: Any) -> Any:
        return load_vecnormalize(load_path, venv, limits=limits)

    setattr(load, ORIGINAL, original)
    return load
