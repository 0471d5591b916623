"""``write_vecnormalize``: a pickle that ``VecNormalize.load`` of the target's SB3 accepts (STATISTICS.md 17.4)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from sbformat.container.writer import write_all
from sbformat.errors import TensorError, require_type
from sbformat.formats.vecnormalize.attributes import vecnormalize_of
from sbformat.formats.vecnormalize.reading import read_pickle
from sbformat.formats.vecnormalize.values import RunningMeanStd, VecNormalize
from sbformat.io.atomic import new_file, open_new
from sbformat.io.source import BytesSource
from sbformat.known.changes import NEWEST, RESET_OPTIONS, parse_target
from sbformat.known.encoder import encode_array
from sbformat.limits import Budget, Limits
from sbformat.pkl.decode import decode_pickle
from sbformat.pkl.encode import encode_pickle
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pkl.tree import Call, Dict, Global, Update
from sbformat.values import encode

if TYPE_CHECKING:
    import numpy as np

    from sbformat.known.changes import Release

_CLASS: Final = ("stable_baselines3.common.vec_env.vec_normalize", "VecNormalize")
_STATISTICS: Final = ("stable_baselines3.common.running_mean_std", "RunningMeanStd")
_PROTOCOL: Final = 4
_MOST_ENVS: Final = 65_536
"""Up to so many environments get a seed and options each; with more, SB3 takes those of the wrapped environment."""
_FIRST_COUNT: Final = 1e-4
_ANY: Final = Limits()._replace(pickle_bytes=2**40, pickle_nodes=2**31)
"""Limits for pickles that this module wrote."""


def write_vecnormalize(
    value: VecNormalize,
    path: str | os.PathLike[str],
    *,
    target: str | Release = NEWEST,
    overwrite: bool = False,
) -> None:
    """Write a ``vecnormalize.pkl`` for SB3, completely or not at all (STATISTICS.md 17.4).

    :param value: the statistics
    :param path: the file; no suffix is added
    :param target: as in :func:`writes_vecnormalize`
    :param overwrite: replace an existing file
    :raises FileExistsError: when the file exists and ``overwrite`` is False
    :raises OSError: when it cannot be written
    :raises UnsupportedError: as in :func:`writes_vecnormalize`

    Example::

        statistics = sbformat.read_vecnormalize("obs_rms.pkl")  # of SB2
        sbformat.write_vecnormalize(statistics, "vecnormalize.pkl", target="2.3")
    """
    data = writes_vecnormalize(value, target=target)
    with new_file(path, overwrite=overwrite) as temporary, open_new(temporary) as file:
        write_all(file, data)
        os.fsync(file.fileno())


def writes_vecnormalize(value: VecNormalize, *, target: str | Release = NEWEST) -> bytes:
    """Return a pickle that ``VecNormalize.load`` of SB3 accepts without a warning (STATISTICS.md 17.4).

    It contains what SB3 writes: classes by name, and plain data; equal values give equal bytes. When the value has no
    space, SB3 takes that of the wrapped environment and checks no shape.

    :param value: the statistics; those of SB2 become SB3's
    :param target: a release of SB3, ``2.0`` to ``2.9``
    :return: one pickle of protocol 4
    :raises UnsupportedError: for another target, or a space that not every gymnasium has

    Example::

        data = sbformat.writes_vecnormalize(statistics, target="2.0")
    """
    require_type(value, VecNormalize, "a VecNormalize")
    release = parse_target(target)
    made = _new(_CLASS, Dict(_state(value, release)))
    data = encode_pickle(made, protocol=_PROTOCOL)
    again = vecnormalize_of(read_pickle(BytesSource(data), _ANY))
    if again.obs_rms != value.obs_rms or again.norm_obs_keys != value.norm_obs_keys:
        message = "the written pickle does not contain the same statistics"
        raise TensorError(message)
    return data


def _state(value: VecNormalize, release: Release) -> list[tuple[object, object]]:
    """Return the attributes, in the order of SB3 2.9."""
    returns = value.ret_rms or _first_statistics()
    old_reward = _no_items() if value.old_reward is None else value.old_reward
    return [
        *_of_environment(value, release),
        ("norm_obs", value.norm_obs),
        ("norm_obs_keys", None if value.norm_obs_keys is None else list(value.norm_obs_keys)),
        *([] if value.obs_rms is None else [("obs_rms", _by_key(value.obs_rms, _statistics))]),
        ("ret_rms", _statistics(returns)),
        *((name, getattr(value, name)) for name in ("clip_obs", "clip_reward", "gamma", "epsilon")),
        ("training", value.training),
        ("norm_reward", value.norm_reward),
        ("old_reward", _array(old_reward)),
        *_old_observation(value, release),
    ]


def _old_observation(value: VecNormalize, release: Release) -> list[tuple[object, object]]:
    """Return the last observation, which always exists in old releases."""
    if value.old_obs is not None:
        return [("old_obs", _by_key(value.old_obs, _array))]
    return [("old_obs", _array(_no_items()))] if release < RESET_OPTIONS else []


def _of_environment(value: VecNormalize, release: Release) -> list[tuple[object, object]]:
    """Return the attributes that SB3 copies from the wrapped environment."""
    made: list[tuple[object, object]] = []
    if value.num_envs is not None:
        made.append(("num_envs", value.num_envs))
    spaces = _spaces(value, release)
    made += [pair for pair in spaces if pair[0] != "obs_spaces"]
    if value.num_envs is not None and value.num_envs <= _MOST_ENVS:
        count = range(value.num_envs)
        made += [("reset_infos", [Dict() for _ in count]), ("_seeds", [None for _ in count])]
        made += [("_options", [Dict() for _ in count])] if release >= RESET_OPTIONS else []
    made += [("render_mode", None), ("metadata", Dict([("render_modes", [])]))]
    return made + [pair for pair in spaces if pair[0] == "obs_spaces"]


def _spaces(value: VecNormalize, release: Release) -> list[tuple[object, object]]:
    """Return the spaces as gymnasium's; the parts of a Dict space are shared with ``obs_spaces``."""
    held: dict[str, object] = {}
    if value.observation_space is not None:
        held["observation_space"] = value.observation_space
    if value.action_space is not None:
        held["action_space"] = value.action_space
    if value.observation_space is not None and value.observation_space.has_keys:
        held["obs_spaces"] = dict(value.observation_space.parts())
    tree: Any = decode_pickle(encode(held, release), Budget(_ANY)).value
    return list(tree)


def _new(pair: tuple[str, str], state: Dict) -> Call:
    made = Call("NEWOBJ", Global(*pair), ())
    made.updates = [Update("BUILD", made, state)]
    return made


def _by_key(value: Any, make: Any) -> Any:
    return Dict([(key, make(part)) for key, part in value.items()]) if isinstance(value, dict) else make(value)


def _statistics(value: RunningMeanStd) -> Call:
    pairs: list[tuple[object, object]] = [("mean", _array(value.mean)), ("var", _array(value.var))]
    return _new(_STATISTICS, Dict([*pairs, ("count", value.count)]))


def _array(array: np.ndarray) -> Call:
    """Return an array in the one form that numpy 1 and 2 load without a warning."""
    return encode_array(ArrayInfo(array.dtype.str, array.shape, "C", array.tobytes(), is_scalar=False))


def _first_statistics() -> RunningMeanStd:
    """Return the statistics that SB3 starts with."""
    import numpy as np

    return RunningMeanStd(np.zeros(()), np.ones(()), _FIRST_COUNT)


def _no_items() -> np.ndarray:
    import numpy as np

    return np.zeros(0)
