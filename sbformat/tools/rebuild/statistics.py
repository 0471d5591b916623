"""``rebuild_vecnormalize``: statistics of any release, or of SB2, as today's ``vecnormalize.pkl`` (FORMAT.md 17.4)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sbformat.constants import SETTINGS_ENTRY
from sbformat.errors import UnsupportedError
from sbformat.formats.vecnormalize.attributes import library_of
from sbformat.formats.vecnormalize.entries import read_entries
from sbformat.formats.vecnormalize.reading import WHOLE_FILE, make_vecnormalize, read_parts
from sbformat.globals.releases import NEWEST, parse_target
from sbformat.limits import DEFAULT_LIMITS, Limits
from sbformat.tools.rebuild.report import RebuildReport, Row
from sbformat.values import encode
from sbformat.values.types import DictSpace

if TYPE_CHECKING:
    from sbformat.formats.vecnormalize.values import VecNormalize
    from sbformat.globals.releases import Target
    from sbformat.io.source import SourceLike
    from sbformat.tools.rebuild.report import Action
    from sbformat.values.types import Instance

KIND: Final = "VecNormalize"
"""What loads the result: it stands in the place of the algorithm."""
_SPACES: Final = ("observation_space", "action_space")
_STATISTICS: Final = ("obs_rms", "ret_rms")
_RENAMED: Final = {
    "obs_keys": ("norm_obs_keys", "is norm_obs_keys since SB3 1.4"),
    "old_rews": ("old_reward", "is old_reward in SB3"),
}
_OF_ENVIRONMENT: Final = frozenset({"reset_infos", "_seeds", "_options", "render_mode", "metadata"})
_INSTEAD: Final = "the wrapped environment's own; no shape is checked"


class RebuiltStatistics(NamedTuple):
    """What :func:`rebuild_vecnormalize` returns."""

    vecnormalize: VecNormalize
    """For :func:`sbformat.write_vecnormalize`."""
    report: RebuildReport


def rebuild_vecnormalize(
    source: SourceLike, *, target: str | Target = NEWEST, limits: Limits = DEFAULT_LIMITS
) -> RebuiltStatistics:
    """Return statistics that the target's SB3 loads, and an account of every attribute.

    What the pickle meant is written anew: numbers, flags, arrays and spaces, those of gym as gymnasium's.

    :param source: as in :func:`sbformat.read_vecnormalize`
    :param target: a release of SB3, ``2.0`` to ``2.9``
    :param limits: as in :func:`sbformat.read_vecnormalize`
    :raises UnsupportedError: for another target, or when it is something else
    :raises SbformatError: when it cannot be read
    """
    release = parse_target(target)
    found = read_parts(source, limits)
    if isinstance(found, dict):
        value, rows = _of_parts(found, release)
    else:
        value, changed = _writable(read_entries(found), release)
        rows = [Row(SETTINGS_ENTRY, None, "translated", "a pickle of SB3's VecNormalize")]
        rows += [_space_row(SETTINGS_ENTRY, name, None, value) for name in changed]
    return RebuiltStatistics(value, RebuildReport(KIND, None, release.version, tuple(rows), ()))


def _of_parts(parts: dict[str, Instance], release: Target) -> tuple[VecNormalize, list[Row]]:
    value, _ = _writable(make_vecnormalize(parts), release)
    if WHOLE_FILE in parts:
        return value, [
            _row(name, part, parts[WHOLE_FILE], value) for name, part in parts[WHOLE_FILE].attributes.items()
        ]
    rows = [Row(name, None, "translated", f"{name.removesuffix('.pkl')} of SB3's VecNormalize") for name in parts]
    settings = (
        f"clip_obs {value.clip_obs}, clip_reward {value.clip_reward}, gamma {value.gamma}, epsilon {value.epsilon}"
    )
    rows += [
        Row(next(iter(parts)), name, "dropped", "SB2 saved no spaces with its statistics", _INSTEAD) for name in _SPACES
    ]
    rows.append(Row(next(iter(parts)), "settings", "translated", f"SB2's defaults, which no file says: {settings}"))
    for name in _STATISTICS:
        if getattr(value, name) is None:
            what = "norm_obs" if name == "obs_rms" else "norm_reward"
            rows.append(Row(next(iter(parts)), what, "translated", f"false: there is no {name}"))
    return value, rows


def _writable(value: VecNormalize, release: Target) -> tuple[VecNormalize, list[str]]:
    """Leave out spaces that have no form which every release reads, and say which."""
    lost = []
    for name in _SPACES:
        try:
            encode(getattr(value, name), release)
        except UnsupportedError:
            lost.append(name)
    without: dict[str, Any] = dict.fromkeys(lost)
    return replace(value, **without), lost


def _row(name: str, part: Any, whole: Instance, value: VecNormalize) -> Row:
    """Tell what became of an attribute."""
    if name in _OF_ENVIRONMENT:
        return _told(name, "dropped", "of the environment that was wrapped", "the next one's")
    if name in _SPACES:
        return _space_row(WHOLE_FILE, name, part, value)
    if name == "obs_spaces":
        if isinstance(value.observation_space, DictSpace):
            return _space_row(WHOLE_FILE, name, whole.attributes.get("observation_space"), value)
        return _told(name, "dropped", "only a Dict has parts")
    if name in _RENAMED:
        today, how = _RENAMED[name]
        return _told(name, "dropped", f"{today} says it") if today in whole.attributes else _renamed(name, part, how)
    if name in ("old_obs", "old_reward") and part is not None and getattr(value, name) is None:
        return _told(name, "dropped", "it is made of something else than arrays", "nothing before the next reset")
    if name in _STATISTICS and part is not None and library_of(whole) != "stable_baselines3":
        return _told(name, "translated", "SB3's RunningMeanStd, with the same numbers")
    return _told(name, "kept", "")


def _renamed(name: str, part: object, how: str) -> Row:
    return _told(name, "translated", how) if part is not None else _told(name, "dropped", "there is nothing in it")


def _space_row(entry: str, name: str, part: Any, value: VecNormalize) -> Row:
    found: Any = value.observation_space if name == "obs_spaces" else getattr(value, name)
    if found is None:
        why = "a space that is not known" if part is not None else "a space that not every release has"
        return Row(entry, name, "dropped", why, _INSTEAD)
    if found.library == "gym":
        return Row(entry, name, "translated", "the same in gymnasium", None)
    is_random = getattr(part, "random", None) is not None
    return Row(entry, name, "kept", "without its random generator" if is_random else "")


def _told(name: str, action: Action, message: str, instead: str | None = None) -> Row:
    return Row(WHOLE_FILE, name, action, message, instead)
