"""Files of Stable Baselines 2 that tests make: bundled agents with other ``data`` or parameters, and new networks."""

from __future__ import annotations

import base64
import io
import json
import zipfile
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sbformat import values
from sbformat.known.spaces import Box, Discrete, MultiBinary, MultiDiscrete
from sbformat.pkl.numpy import ArrayInfo
from tests.helpers.bundled import entries as read_entries
from tests.helpers.bundled import zipped

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import sbformat
    from sbformat.nets.sb2 import Variable

AGENTS: Final = Path(__file__).parents[1] / "nets" / "archives" / "sb2"


def serialize(value: object) -> dict[str, str]:
    """What ``data`` contains for a decoded value."""
    return {":type:": "x", ":serialized:": base64.b64encode(values.encode(value)).decode()}


def change_agent(agent: str, parameters: Mapping[str, np.ndarray] | None = None, **data: Any) -> bytes:
    """A bundled agent with other values in ``data``; ``...`` removes a key.

    :param parameters: all parameters, instead of its own
    """
    found = read_entries(AGENTS / f"{agent}.zip")
    made = {**json.loads(found["data"]), **data}
    found["data"] = json.dumps({key: value for key, value in made.items() if value is not ...}).encode()
    if parameters is not None:
        buffer = io.BytesIO()
        np.savez(buffer, **parameters)  # type: ignore[arg-type]
        found["parameters"], found["parameter_list"] = buffer.getvalue(), json.dumps(list(parameters)).encode()
    return zipped(found)


def read_parameters(agent: str) -> dict[str, np.ndarray]:
    """The parameters of a bundled agent, by numpy."""
    found = read_entries(AGENTS / f"{agent}.zip")
    with zipfile.ZipFile(io.BytesIO(found["parameters"])) as arrays:
        return {name: np.load(arrays.open(f"{name}.npy")) for name in json.loads(found["parameter_list"])}


def draw_parameters(variables: Iterable[Variable], seed: int = 0) -> dict[str, np.ndarray]:
    """Random parameters of a network."""
    random = np.random.default_rng(seed)
    return {name: random.normal(0, 0.3, shape).astype(np.float32) for name, shape in variables}


def make_box(low: Any, high: Any, dtype: str) -> Box:
    """A Box space as ``sbformat.values`` decodes it."""
    lower, upper = (np.ascontiguousarray(bound, dtype) for bound in np.broadcast_arrays(low, high))
    infos = (ArrayInfo(array.dtype.str, array.shape, "C", array.tobytes(), is_scalar=False) for array in (lower, upper))
    return Box("gymnasium", lower.shape, lower.dtype.str, *infos, None)


def draw_observations(policy: sbformat.Policy, count: int = 32, seed: int = 0) -> np.ndarray:
    """A batch of observations within the bounds of the space; of an unbounded one from -3 to 3."""
    space, random = policy.observation_space, np.random.default_rng(seed)
    if isinstance(space, Discrete):
        return random.integers(0, space.n, count)
    if isinstance(space, MultiDiscrete):
        return np.stack([random.integers(0, size, count) for size in space.nvec.to_numpy().reshape(-1)], 1)
    if isinstance(space, MultiBinary):
        return random.integers(0, 2, (count, *space.shape)).astype(np.int8)
    assert isinstance(space, Box)
    low, high = (
        np.vectorize(lambda bound, other: bound if isfinite(bound) else other)(bounds.to_numpy().astype(float), limit)
        for bounds, limit in ((space.low, -3.0), (space.high, 3.0))
    )
    high = np.maximum(np.minimum(high, low + 1e3), low)
    drawn = random.uniform(low, high, (count, *space.shape))
    return np.round(drawn).astype(space.dtype) if space.dtype[1] in "iu" else drawn.astype(space.dtype)


def assert_same_outputs(old: sbformat.Policy, new: sbformat.Policy, given: np.ndarray, others: Any = None) -> None:
    """Compare every output of two policies for the same observations, within 1e-5 of the largest.

    :param others: the observations for the second one, where they are not the same
    """
    before, after = old.outputs(given), new.outputs(given if others is None else others)
    assert before.keys() <= after.keys()
    for name, expected in before.items():
        actual = np.reshape(after[name], expected.shape).astype(np.float64)
        largest = max(1.0, float(np.abs(expected).max()))
        np.testing.assert_allclose(actual, expected, 1e-5, 1e-5 * largest, err_msg=name)
