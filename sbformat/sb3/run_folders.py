"""The folder of a run as a source of ``sbformat.sb3.load`` (FOLDERS.md 21)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import quote
from sbformat.folders import find_in_folder

if TYPE_CHECKING:
    from sbformat.archive.archive import Archive
    from sbformat.io.opening import SourceLike
    from sbformat.limits import Limits

_DEEPEST: Final = 100


def choose_source(source: Archive | SourceLike, env: Any, limits: Limits) -> tuple[Archive | SourceLike, str]:
    """Return the agent of a folder, and what to warn of: statistics that the environments do not have.

    :param source: anything that is not the folder of a run is returned unchanged
    :param env: of the caller
    :param limits: for each file
    :raises UnsupportedError: when the folder has several agents, and none of them is the one to prefer
    """
    chosen = find_in_folder(source, limits)
    if chosen is None:
        return source, ""
    if chosen.statistics is None or _is_normalized(env):
        return chosen.path, chosen.warning or chosen.problem
    remark = (
        f"{chosen.remark}, which are not loaded with the agent: "
        f"sbformat.sb3.load_vecnormalize({quote(chosen.statistics)}, venv) makes an environment with them"
    )
    return chosen.path, f"{remark}; {chosen.warning}" if chosen.warning else remark


def _is_normalized(env: Any) -> bool:
    """Return whether an environment has SB3's ``VecNormalize`` among its wrappers."""
    for _ in range(_DEEPEST):
        if any(cls.__name__ == "VecNormalize" for cls in type(env).__mro__):
            return True
        env = getattr(env, "venv", None)
        if env is None:
            break
    return False
