"""Normalization statistics of a bundle, the bundle, and the expected output of a decoder (STATISTICS.md 17.5)."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final

from conformance.generators import expected
from conformance.generators.build_objects import SampleArray, expected_arrays, sample_array
from conformance.generators.build_zips import Member, build_zip

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ASKED: Final = "--statistics"
SETTINGS_ENTRY: Final = "vecnormalize.json"
ARRAYS_ENTRY: Final = "vecnormalize.safetensors"
_DTYPES: Final = {"f8": "F64", "f4": "F32", "f2": "F16", "u1": "U8", "i8": "I64", "b1": "BOOL"}
"""The names of dtypes in safetensors."""


def means(
    name: str, mean: Sequence[float], var: Sequence[float], count: float, **others: Any
) -> dict[str, SampleArray]:
    """The three arrays of a RunningMeanStd."""
    parts = {"mean": sample_array("f8", *mean, **others), "var": sample_array("f8", *var, **others)}
    return {f"{name}.{part}": array for part, array in {**parts, "count": sample_array("f8", count, shape=())}.items()}


OBSERVATIONS: Final = means("obs_rms", (1, 2), (3, 4), 5)
RETURNS: Final = means("ret_rms", (0.5,), (2,), 6, shape=())
ARRAYS: Final = OBSERVATIONS | RETURNS
SETTINGS: Final[dict[str, Any]] = {
    "format_version": 1, "library": "stable_baselines3", "num_envs": None, "training": True, "norm_obs": True,
    "norm_reward": True, "clip_obs": 10.0, "clip_reward": 10.0, "gamma": 0.99, "epsilon": 1e-8, "norm_obs_keys": None,
    "obs_rms": "array", "ret_rms": "array", "old_obs": None, "old_reward": None, "observation_space": None,
    "action_space": None,
}  # fmt: skip
"""Arrays of the statistics of observations and of returns."""


# -- spaces -------------------------------------------------------------------------------------------


def json_array(code: str, items: Any, shape: Sequence[int] | None = None) -> dict[str, Any]:
    """An array in JSON, with these items."""
    order = "|" if code[-1] == "1" else "<"
    return {"dtype": order + code, "shape": [len(items)] if shape is None else list(shape), "items": items}


def box(low: Sequence[float], high: Sequence[float], **others: Any) -> dict[str, Any]:
    """A Box of float32, a vector of two or more items. A bound is set if it is finite."""
    texts = {math.inf: "Infinity", -math.inf: "-Infinity"}
    bounds = {
        name: json_array("f4", [texts.get(v, v) for v in values]) for name, values in (("low", low), ("high", high))
    }
    flags = {f"bounded_{name}": json_array("b1", True, [len(low)]) for name in ("below", "above")}
    return {
        "type": "Box", "library": "gymnasium", "shape": [len(low)], "dtype": "<f4", **bounds, **flags, **others,
    }  # fmt: skip


def discrete(n: int, **others: Any) -> dict[str, Any]:
    """A Discrete."""
    return {"type": "Discrete", "library": "gymnasium", "n": n, "start": 0, "dtype": "<i8", **others}


def dict_space(spaces: Mapping[str, Any]) -> dict[str, Any]:
    """A Dict."""
    return {
        "type": "Dict", "library": "gymnasium", "spaces": [[name, part] for name, part in spaces.items()],
        "sort_keys": True,
    }  # fmt: skip


# -- the file, and what is printed for it -------------------------------------------------------------


def safetensors(arrays: Mapping[str, SampleArray], *, metadata: Mapping[str, str] | None = None) -> bytes:
    """A safetensors file with the arrays in this order."""
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    end = 0
    for name, array in arrays.items():
        start, end = end, end + len(array.items)
        header[name] = {"dtype": _DTYPES[array.code], "shape": list(array.shape), "data_offsets": [start, end]}
    raw = json.dumps(header).encode()
    raw += b" " * (-len(raw) % 8)
    return len(raw).to_bytes(8, "little") + raw + b"".join(array.items for array in arrays.values())


def bundle(settings: Any = SETTINGS, arrays: Mapping[str, SampleArray] | bytes | None = ARRAYS) -> bytes:
    """An archive and the two entries: settings as JSON or as bytes, arrays or the bytes of their file, or None."""
    texts = settings if isinstance(settings, bytes) or settings is None else json.dumps(settings).encode()
    raw = arrays if isinstance(arrays, bytes) or arrays is None else safetensors(arrays)
    entries = {"data": b"{}", SETTINGS_ENTRY: texts, ARRAYS_ENTRY: raw}
    return build_zip(*[Member(name.encode(), data) for name, data in entries.items() if data is not None])


def expected_statistics(arrays: Mapping[str, SampleArray] = ARRAYS, **settings: Any) -> dict[str, Any]:
    """The expected output for statistics with these settings changed."""
    document = json.loads(json.dumps({**SETTINGS, **settings}, sort_keys=True))
    return {"statistics": {"settings": expected.plain(document), "arrays": expected_arrays(arrays)}}
