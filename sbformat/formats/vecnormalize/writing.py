"""``write_vecnormalize``: a pickle that ``VecNormalize.load`` of the target's SB3 takes (FORMAT.md 17.4)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from sbformat.container.writer import write_all
from sbformat.errors import TensorError
from sbformat.formats.vecnormalize.attributes import vecnormalize_of
from sbformat.formats.vecnormalize.reading import pickled
from sbformat.formats.vecnormalize.values import RunningMeanStd, VecNormalize
from sbformat.globals.releases import NEWEST, Target, parse_target
from sbformat.io.atomic import new_file, open_new
from sbformat.io.source import BytesSource
from sbformat.limits import Budget, Limits
from sbformat.pkl.decode import decode_pickle
from sbformat.pkl.encode import encode_pickle
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pkl.tree import Call, Dict, Global, Update
from sbformat.values import encode
from sbformat.values.encoder import encode_array
from sbformat.values.types import DictSpace

if TYPE_CHECKING:
    import numpy as np

_CLASS: Final = ("stable_baselines3.common.vec_env.vec_normalize", "VecNormalize")
_STATISTICS: Final = ("stable_baselines3.common.running_mean_std", "RunningMeanStd")
_PROTOCOL: Final = 4
_OPTIONS: Final = Target(2, 2)
"""Since then environments have options for their next reset."""
_MOST_ENVS: Final = 65_536
"""Environments that are given a seed and options each; those of more take the wrapped environment's."""
_FIRST_COUNT: Final = 1e-4
_ANY: Final = Limits()._replace(pickle_bytes=2**40, pickle_nodes=2**31)
"""For what was written here."""


def write_vecnormalize(
    value: VecNormalize,
    path: str | os.PathLike[str],
    *,
    target: str | Target = NEWEST,
    overwrite: bool = False,
) -> None:
    """Write a ``vecnormalize.pkl``, whole or not at all.

    :param value: what to write
    :param path: the target; no suffix is added
    :param target: as in :func:`writes_vecnormalize`
    :param overwrite: replace a file that exists
    :raises FileExistsError: when it exists and ``overwrite`` is False
    :raises OSError: when it cannot be written
    :raises UnsupportedError: as in :func:`writes_vecnormalize`
    """
    data = writes_vecnormalize(value, target=target)
    with new_file(path, overwrite=overwrite) as temporary, open_new(temporary) as file:
        write_all(file, data)
        os.fsync(file.fileno())


def writes_vecnormalize(value: VecNormalize, *, target: str | Target = NEWEST) -> bytes:
    """Return a pickle that ``VecNormalize.load`` of SB3 takes without a warning; the same for the same value.

    It holds what SB3 writes itself, classes by name and plain data. Where the value has no space, SB3 takes the wrapped
    environment's, and checks no shape.

    :param value: what to write; SB2's become SB3's
    :param target: a release of SB3, ``2.0`` to ``2.9``
    :raises UnsupportedError: for another target, and for a space that not every gymnasium has
    """
    release = parse_target(target)
    made = _new(_CLASS, Dict(_state(value, release)))
    data = encode_pickle(made, protocol=_PROTOCOL)
    again = vecnormalize_of(pickled(BytesSource(data), _ANY))
    if again.obs_rms != value.obs_rms or again.norm_obs_keys != value.norm_obs_keys:
        message = "what was written does not read back as the same statistics"
        raise TensorError(message)
    return data


def _state(value: VecNormalize, release: Target) -> list[tuple[object, object]]:
    """The attributes, in the order of SB3 2.9."""
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


def _old_observation(value: VecNormalize, release: Target) -> list[tuple[object, object]]:
    """The last observation: before SB3 2.2 there was always one."""
    if value.old_obs is not None:
        return [("old_obs", _by_key(value.old_obs, _array))]
    return [("old_obs", _array(_no_items()))] if release < _OPTIONS else []


def _of_environment(value: VecNormalize, release: Target) -> list[tuple[object, object]]:
    """What SB3 keeps of the environment that it wraps."""
    made: list[tuple[object, object]] = []
    if value.num_envs is not None:
        made.append(("num_envs", value.num_envs))
    spaces = _spaces(value, release)
    made += [pair for pair in spaces if pair[0] != "obs_spaces"]
    if value.num_envs is not None and value.num_envs <= _MOST_ENVS:
        count = range(value.num_envs)
        made += [("reset_infos", [Dict() for _ in count]), ("_seeds", [None for _ in count])]
        made += [("_options", [Dict() for _ in count])] if release >= _OPTIONS else []
    made += [("render_mode", None), ("metadata", Dict([("render_modes", [])]))]
    return made + [pair for pair in spaces if pair[0] == "obs_spaces"]


def _spaces(value: VecNormalize, release: Target) -> list[tuple[object, object]]:
    """The spaces as gymnasium's; a Dict space's parts are one object wherever they stand."""
    held: dict[str, object] = {}
    if value.observation_space is not None:
        held["observation_space"] = value.observation_space
    if value.action_space is not None:
        held["action_space"] = value.action_space
    if isinstance(value.observation_space, DictSpace):
        held["obs_spaces"] = dict(value.observation_space.spaces)
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
    """An array in the one form that numpy 1 and 2 read without a warning."""
    return encode_array(ArrayInfo(array.dtype.str, array.shape, "C", array.tobytes(), is_scalar=False))


def _first_statistics() -> RunningMeanStd:
    """Return those that SB3 begins with."""
    import numpy as np

    return RunningMeanStd(np.zeros(()), np.ones(()), _FIRST_COUNT)


def _no_items() -> np.ndarray:
    import numpy as np

    return np.zeros(0)
