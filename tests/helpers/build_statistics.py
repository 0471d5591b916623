"""Pickles of normalisation statistics, made of inert trees: as SB3 and SB2 write them, and by one change."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from sbformat import pkl
from tests.helpers.build_blobs import array, box, call, discrete, dtype, new, tree

SB3: Final = "stable_baselines3.common"
SB2: Final = "stable_baselines.common"
ABSENT: Final = object()

MEAN: Final = (0.5, -1.25, 1e-3)
VAR: Final = (4.0, 0.0, 0.3)


def floats(items: Any, code: str = "f8") -> Any:
    """An array as numpy pickles one."""
    made = np.asarray(items, f"<{code}")
    return array(made.shape, made.tobytes(), code)


def scalar(item: float, code: str = "f8") -> Any:
    return call("numpy.core.multiarray", "scalar", dtype(code), np.asarray(item, f"<{code}").tobytes())


def rms(mean: Any = MEAN, var: Any = VAR, count: Any = 100.0001, *, library: str = SB3) -> Any:
    """A ``RunningMeanStd``; numbers become arrays or scalars of float64."""
    held = [
        part if not isinstance(part, (float, tuple)) else scalar(part) if isinstance(part, float) else floats(part)
        for part in (mean, var)
    ]
    return new(f"{library}.running_mean_std", "RunningMeanStd", {"mean": held[0], "var": held[1], "count": count})


def returns(library: str = SB3) -> Any:
    return rms(2.0, 9.0, library=library)


def vectors(low: Any, high: Any) -> Any:
    """A Box of float32."""
    flags = {
        name: array((len(bound),), (np.abs(bound) < np.inf).tobytes(), "b1", "|")
        for name, bound in (("bounded_below", low), ("bounded_above", high))
    }
    return box(floats(low, "f4"), floats(high, "f4"), (len(low),), **flags)


def whole(library: str = SB3, **changes: Any) -> Any:
    """A ``VecNormalize`` over observations of three numbers; ``ABSENT`` leaves an attribute out."""
    state = {
        "num_envs": 1,
        "observation_space": vectors([-1, -2, -np.inf], [1, 2, np.inf]),
        "action_space": discrete(2),
        "norm_obs": True,
        "norm_obs_keys": None,
        "obs_rms": rms(library=library),
        "ret_rms": returns(library),
        "clip_obs": 5.0,
        "clip_reward": 10.0,
        "gamma": 0.99,
        "epsilon": 1e-8,
        "training": True,
        "norm_reward": True,
        "old_reward": floats([1.5], "f4"),
        "old_obs": floats([[1, 2, 3]], "f4"),
        **changes,
    }
    kept = {name: value for name, value in state.items() if value is not ABSENT}
    return new(f"{library}.vec_env.vec_normalize", "VecNormalize", kept)


def with_keys(**changes: Any) -> Any:
    """One over a Dict space of which a part is normalised."""
    bounded = array((2, 2), b"\1" * 4, "b1", "|")
    image = box(
        array((2, 2), b"\0" * 4, "u1", "|"), array((2, 2), b"\xff" * 4, "u1", "|"), (2, 2), dtype=dtype("u1", "|"),
        bounded_below=bounded, bounded_above=bounded,
    )  # fmt: skip
    vector = vectors([-1, -1], [1, 1])
    parts = new("gymnasium.spaces.dict", "Dict", {"spaces": {"image": image, "vector": vector}, "_np_random": None})
    given = {
        "observation_space": parts,
        "norm_obs_keys": ["vector"],
        "obs_spaces": {"image": image, "vector": vector},
        "obs_rms": {"vector": rms((1.0, 2.0), (4.0, 0.25))},
        "old_obs": {"image": array((1, 2, 2), b"\1\2\3\4", "u1", "|"), "vector": floats([[3, 4]], "f4")},
    }
    return whole(**{**given, **changes})


def pickled(value: Any, protocol: Any = 4) -> bytes:
    return pkl.dumps(tree(value), protocol=protocol)
