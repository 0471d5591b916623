"""What every blob of real archives and of archives of every era means: values as real cloudpickle gave them.

Reads ``../shared/corpus`` and ``../shared/generated``, and is skipped where they are not. At the end of the run this
module writes one line to the terminal: how many blobs of each key it decoded to values without a doubt.
"""

from __future__ import annotations

import glob
import json
import os
from collections import Counter, OrderedDict, deque
from typing import Any, Final

import numpy as np
import pytest

import sbformat
from sbformat.data import Serialized
from sbformat.known.spaces import Box, DictSpace, Discrete, MultiBinary, MultiDiscrete
from sbformat.known.types import (
    CarriedClass,
    ConstantSchedule,
    EnumMember,
    FloatSchedule,
    Function,
    Instance,
    LinearSchedule,
    Reference,
    RNNStates,
    TrainFreq,
)
from sbformat.limits import Budget
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pth import Device, TensorInfo
from sbformat.pth.arrays import to_array
from tests.helpers.build_blobs import Outcome, decode_outcome
from tests.helpers.shared_files import CORPUS, GENERATED, SHARED, summarize_counts

pytestmark = pytest.mark.exhaustive

if not os.path.isdir(SHARED):
    pytest.skip("there is no ../shared beside the project", allow_module_level=True)

DECODED: Final[Counter[str]] = Counter()
_summary = summarize_counts(DECODED, "test_corpus_known.py decoded")


def load(path: str) -> Any:
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def blobs(path: str) -> dict[str, Outcome]:
    """Every blob of an archive, recognised."""
    data = sbformat.read(path).data
    return {key: decode_outcome(value.pickle) for key, value in data.items() if isinstance(value, Serialized)}


def is_carried(outcome: Outcome) -> bool:
    """Is there a function or class of the user's in it, by value or by a name that no library of the table has?"""
    return any(issue.rule in ("function", "class") or issue.rule == "unknown" for issue in outcome.issues)


def check(path: str) -> dict[str, Outcome]:
    found = blobs(path)
    for key, outcome in found.items():
        DECODED[f"blobs of {key}"] += 1
        if is_carried(outcome):
            DECODED[f"blobs of {key} with code or classes of the user's"] += 1
            continue
        assert outcome.issues == [], key
        assert outcome.overlooked == [], key
    return found


# -- the corpus ---------------------------------------------------------------------------------------


def corpus() -> list[str]:
    path = os.path.join(CORPUS, "manifest.json")
    rows = load(path) if os.path.exists(path) else []
    return [row["file"] for row in rows if row["kind"] == "sb3"]


@pytest.mark.parametrize("file", corpus())
def test_every_blob_of_the_corpus_is_understood(file: str) -> None:
    for outcome in check(os.path.join(CORPUS, file)).values():
        for issue in outcome.issues:
            assert issue.rule in ("function", "class")


# -- archives of every release ------------------------------------------------------------------------

RELEASES: Final = sorted(
    os.path.relpath(path, GENERATED) for path in glob.glob(os.path.join(GENERATED, "[0-9]*", "*.zip"))
)


@pytest.mark.parametrize("file", RELEASES)
def test_every_blob_of_every_release_is_what_cloudpickle_gives(file: str) -> None:
    path = os.path.join(GENERATED, file)
    expected = load(path.removesuffix(".zip") + ".expected.json")["data"]
    for key, outcome in check(path).items():
        assert {issue.rule for issue in outcome.issues} <= {"function", "class"}
        if "call" in expected[key]:
            check_schedule(outcome.value, expected[key], is_users=is_carried(outcome))
        else:
            assert described(outcome.value) == comparable(expected[key]), key


def check_schedule(value: Any, expected: Any, *, is_users: bool) -> None:
    """A schedule has the values that it had, or is a function of the user's, which is described."""
    if is_users:
        inner = value.schedule if isinstance(value, FloatSchedule) else value
        assert isinstance(inner, Function)
        return
    for progress, result in expected["call"].items():
        assert at(value, float(progress)) == pytest.approx(result, rel=1e-15, abs=0)
    DECODED["schedules evaluated"] += 1


def at(schedule: Any, progress: float) -> float:
    """What a schedule gives when so much of the training is left."""
    if isinstance(schedule, Function):
        return at(schedule.schedule, progress)
    if isinstance(schedule, FloatSchedule):
        return float(at(schedule.schedule, progress))
    if isinstance(schedule, ConstantSchedule):
        return schedule.value
    assert isinstance(schedule, LinearSchedule)
    if 1 - progress > schedule.end_fraction:
        return schedule.end
    return schedule.start + (1 - progress) * (schedule.end - schedule.start) / schedule.end_fraction


def comparable(expected: Any) -> Any:
    """What the expected JSON says, without what a value of ours does not have."""
    if isinstance(expected, list):
        return [comparable(part) for part in expected]
    if not isinstance(expected, dict):
        return expected
    kept = {key: comparable(part) for key, part in expected.items() if key not in ("fields", "order")}
    if kept.get("type", "").endswith((".TrainFrequencyUnit", ".GoalSelectionStrategy")):
        return {"type": kept["type"], "value": expected["attrs"]["_value_"]["value"]}
    if "class" in kept:
        return {"class": kept["class"].rpartition(".")[2]}
    return kept


def described(value: Any) -> Any:
    """What the expected JSON says of a value."""
    if isinstance(value, (Reference, CarriedClass)):
        return {"class": value.name}
    if isinstance(value, ArrayInfo):
        return array(value)
    if isinstance(value, TensorInfo):
        made = to_array(value, Budget())
        return {
            "type": "torch.Tensor",
            "dtype": f"torch.{value.dtype}",
            "shape": list(value.shape),
            "values": made.ravel().tolist(),
        }
    if isinstance(value, Device):
        return {"type": "torch.device", "repr": f"device(type={value.type!r})"}
    if isinstance(value, Instance):
        return {"type": str(value.type), "attrs": {key: described(part) for key, part in value.attributes.items()}}
    if isinstance(value, EnumMember):
        return {"type": str(value.enum), "value": value.value}
    if isinstance(value, (TrainFreq, RNNStates)):
        modules = {
            "TrainFreq": "stable_baselines3.common.type_aliases",
            "RNNStates": "sb3_contrib.common.recurrent.type_aliases",
        }
        name = type(value).__name__
        return {"type": f"{modules[name]}.{name}", "list": [described(part) for part in value]}
    return space(value) if hasattr(value, "library") else plain(value)


def plain(value: Any) -> Any:
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, dict):
        assert type(value) in (dict, OrderedDict)
        return {"type": kind, "items": {str(key): described(part) for key, part in value.items()}}
    if isinstance(value, deque):
        return {"type": kind, "list": [described(part) for part in value], "maxlen": value.maxlen}
    if isinstance(value, (list, tuple)):
        return {"type": kind, "list": [described(part) for part in value]}
    assert value is None or type(value) in (bool, int, float, str)
    return {"type": kind, "value": value}


def array(value: ArrayInfo) -> Any:
    made = value.to_numpy()
    if value.is_scalar:
        return {"type": f"numpy.{made.dtype}", "dtype": made.dtype.str, "value": made.item()}
    return {"type": "numpy.ndarray", "dtype": made.dtype.str, "shape": list(value.shape), "values": made.tolist()}


def space(value: Any) -> Any:
    kind = type(value).__name__.removesuffix("Space")
    modules = {"MultiBinary": "multi_binary", "MultiDiscrete": "multi_discrete"}
    head = {"type": f"{value.library}.spaces.{modules.get(kind, kind.lower())}.{kind}"}
    if isinstance(value, Box):
        bounds = {"low": described(value.low), "high": described(value.high)}
        return {**head, **bounds, "shape": list(value.shape), "dtype": str(np.dtype(value.dtype))}
    if isinstance(value, DictSpace):
        return {**head, "spaces": {key: space(part) for key, part in value.spaces.items()}}
    if isinstance(value, Discrete):
        return {**head, "n": value.n, "start": value.start}
    if isinstance(value, MultiDiscrete):
        return {**head, "nvec": value.nvec.to_numpy().tolist(), "dtype": str(np.dtype(value.dtype))}
    assert isinstance(value, MultiBinary)
    return {**head, "n": value.shape[0], "shape": list(value.shape)}


# -- pickles beside archives --------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(glob.glob(os.path.join(GENERATED, "[0-9]*", "*.pkl"))))
def test_saved_statistics_and_buffers_are_understood(path: str) -> None:
    with open(path, "rb") as file:
        outcome = decode_outcome(file.read())
    assert isinstance(outcome.value, Instance)
    assert outcome.issues == []
    assert outcome.overlooked == []
    DECODED["pickles beside archives"] += 1
