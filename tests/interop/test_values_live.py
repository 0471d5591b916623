"""What known says of a blob is what real cloudpickle, gymnasium, numpy and torch make of it.

Run with real torch and stable-baselines3: ``python -m pytest -m interop tests/interop/test_values_live.py``.
"""

from __future__ import annotations

import enum
import functools
import glob
import os
import pickle
import sys
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")

import cloudpickle
import torch
from gymnasium import spaces
from stable_baselines3.common import noise, type_aliases, utils

import sbformat
from sbformat.data import Serialized
from sbformat.known import types as values
from sbformat.known.code import make_code
from sbformat.known.table import find_role
from sbformat.limits import Budget
from sbformat.pkl import Call
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pth import Device, TensorInfo
from sbformat.pth.arrays import to_array
from tests.helpers.build_blobs import Outcome, code_parts, decode_outcome, understood
from tests.helpers.bundled import PPO, SAC
from tests.helpers.shared_files import GENERATED

if TYPE_CHECKING:
    from collections.abc import Callable

ARCHIVES: Final = sorted([str(PPO), str(SAC), *glob.glob(os.path.join(GENERATED, "2.[0-9]*", "*.zip"))])


# -- a value and what it is said to be ----------------------------------------------------------------


def same(found: Any, real: Any) -> None:  # noqa: C901 -- a case a kind
    """Assert that a value of ours says what the real one is."""
    if isinstance(real, spaces.Space):
        same_space(found, real)
    elif isinstance(real, (np.ndarray, np.generic)):
        assert isinstance(found, ArrayInfo)
        made = found.to_numpy()
        assert (type(made), made.dtype, made.shape) == (type(real), real.dtype.newbyteorder("="), real.shape)
        np.testing.assert_array_equal(made, real)
    elif isinstance(real, torch.Tensor):
        assert isinstance(found, TensorInfo)
        assert (found.dtype, found.shape) == (str(real.dtype).removeprefix("torch."), tuple(real.shape))
        assert (found.requires_grad, found.is_parameter) == (real.requires_grad, isinstance(real, torch.nn.Parameter))
        plain = real.detach().resolve_conj().resolve_neg().contiguous()
        assert to_array(found, Budget()).tobytes() == plain.numpy().tobytes()
    elif isinstance(real, (utils.ConstantSchedule, utils.LinearSchedule, utils.FloatSchedule)):
        same_schedule(found, real)
    elif isinstance(real, type_aliases.TrainFreq):
        assert (found.frequency, found.unit.value) == (real.frequency, real.unit.value)
    elif isinstance(real, enum.Enum):
        assert (found.enum.name, found.value) == (type(real).__qualname__, real.value)
    elif isinstance(real, torch.device):
        assert found == Device(real.type, real.index)
    elif isinstance(real, noise.ActionNoise):
        assert str(found.type) == f"{type(real).__module__}.{type(real).__qualname__}"
        same(found.attributes, vars(real))
    elif isinstance(real, type):
        assert isinstance(found, (values.Reference, values.CarriedClass))
        assert (found.module, found.name) == (real.__module__, real.__qualname__) or isinstance(
            found, values.CarriedClass
        )
    elif isinstance(real, dict):
        assert isinstance(found, dict)
        assert isinstance(found, OrderedDict) == isinstance(real, OrderedDict)
        assert list(found) == list(real)
        for key, part in real.items():
            same(found[key], part)
    elif isinstance(real, (list, tuple, deque)):
        assert len(list(found)) == len(real)
        assert getattr(found, "maxlen", None) == getattr(real, "maxlen", None)
        for mine, part in zip(found, real):
            same(mine, part)
    elif callable(real):
        same_schedule(found, real)
    else:
        assert (type(found), found) == (type(real), real)


def same_schedule(found: Any, real: Any) -> None:
    if isinstance(found, values.Function) and found.schedule is None:  # the user's
        assert found.qualname == real.__qualname__
        return
    if (
        isinstance(found, values.FloatSchedule)
        and isinstance(found.schedule, values.Function)
        and found.schedule.schedule is None
    ):
        return
    if (
        isinstance(found, values.Function)
        and isinstance(found.schedule, values.FloatSchedule)
        and isinstance(found.schedule.schedule, values.Function)
    ):
        return
    for progress in (1.0, 0.97, 0.5, 0.1, 0.0):
        assert at(found, progress) == pytest.approx(real(progress), rel=1e-15, abs=0)


def at(found: Any, progress: float) -> float:
    if isinstance(found, (values.Function, values.FloatSchedule)):
        return float(at(found.schedule, progress))
    if isinstance(found, values.ConstantSchedule):
        return float(found.value)
    assert isinstance(found, values.LinearSchedule)
    return float(utils.LinearSchedule(found.start, found.end, found.end_fraction)(progress))


def same_space(found: Any, real: Any) -> None:
    assert found.library == type(real).__module__.partition(".")[0]
    if isinstance(real, spaces.Box):
        same(found.low, real.low)
        same(found.high, real.high)
        assert (found.shape, np.dtype(found.dtype)) == (real.shape, real.dtype)
    elif isinstance(real, spaces.Discrete):
        assert (found.n, found.start, np.dtype(found.dtype)) == (real.n, real.start, real.dtype)
    elif isinstance(real, spaces.MultiDiscrete):
        same(found.nvec, real.nvec)
        assert np.dtype(found.dtype) == real.dtype
        if found.start is not None:
            same(found.start, real.start)
    elif isinstance(real, spaces.MultiBinary):
        assert found.shape == real.shape
    elif isinstance(real, spaces.Dict):
        assert list(found.spaces) == list(real.spaces)
        for key, part in real.spaces.items():
            same_space(found.spaces[key], part)
    elif isinstance(real, (spaces.Tuple, spaces.OneOf)):
        assert type(found).__name__.removesuffix("Space") == type(real).__name__
        assert len(found.spaces) == len(real.spaces)
        for mine, part in zip(found.spaces, real.spaces):
            same_space(mine, part)
    elif isinstance(real, spaces.Text):
        assert (found.min_length, found.max_length, set(found.characters)) == (
            real.min_length,
            real.max_length,
            set(real.character_list),
        )
    elif isinstance(real, spaces.Sequence):
        assert found.stack == real.stack
        same_space(found.feature_space, real.feature_space)
    else:
        assert isinstance(real, spaces.Graph)
        same_space(found.node_space, real.node_space)
        assert (found.edge_space is None) == (real.edge_space is None)
        if real.edge_space is not None:
            same_space(found.edge_space, real.edge_space)
    same_random(found.random, getattr(real, "_np_random", None))


def same_random(found: Any, real: Any) -> None:
    if real is None:
        assert found is None
        return
    state = real.bit_generator.state if isinstance(real, np.random.Generator) else real.get_state(legacy=False)
    assert found.kind == type(real).__name__
    assert found.bit_generator == state["bit_generator"]
    same_numbers(found.state, state)


def same_numbers(found: Any, real: Any) -> None:
    if isinstance(real, dict):
        assert set(found) == set(real)
        for key, part in real.items():
            same_numbers(found[key], part)
    elif isinstance(real, np.ndarray):
        np.testing.assert_array_equal(found.to_numpy(), real)
    else:
        assert found == real


# -- archives -----------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:numpy.core:DeprecationWarning")
@pytest.mark.parametrize("path", ARCHIVES, ids=lambda path: os.path.join(*path.split(os.sep)[-2:]))
def test_every_blob_is_what_cloudpickle_loads(path: str) -> None:
    archive = sbformat.read(path)
    assert archive.system_info is not None
    is_ours = archive.system_info.fields["Python"].startswith("{}.{}.".format(*sys.version_info))
    for value in archive.data.values():
        if not isinstance(value, Serialized):
            continue
        outcome = decode_outcome(value.pickle)
        if holds_code(outcome) and not is_ours:  # the bytecode of another Python: loading may fail, running may crash
            continue
        same(outcome.value, cloudpickle.loads(value.pickle))


def holds_code(outcome: Outcome) -> bool:
    return any(find_role(node) == "builtin_type" for node in outcome.decoder.pickle.log if isinstance(node, Call))


# -- live values --------------------------------------------------------------------------------------

BOX: Final = spaces.Box(-1.0, 1.0, (2,), np.float32)
SPACES: Final[dict[str, Callable[[], Any]]] = {
    "Box": lambda: spaces.Box(np.array([-np.inf, 0], "f4"), np.array([1, np.inf], "f4")),
    "Box of images": lambda: spaces.Box(0, 255, (4, 4, 3), np.uint8),
    "Box without axes": lambda: spaces.Box(-1.0, 1.0, (), np.float64),
    "Discrete": lambda: spaces.Discrete(4, start=-1),
    "MultiDiscrete": lambda: spaces.MultiDiscrete([3, 4], start=[1, -1]),
    "MultiDiscrete of rows": lambda: spaces.MultiDiscrete([[3, 4], [5, 6]], dtype=np.int32),
    "MultiBinary": lambda: spaces.MultiBinary(4),
    "MultiBinary of a shape": lambda: spaces.MultiBinary((2, 3)),
    "Text": lambda: spaces.Text(5, min_length=2, charset="abc"),
    "Dict": lambda: spaces.Dict({"b": BOX, "a": spaces.Discrete(3)}),
    "Tuple": lambda: spaces.Tuple((BOX, spaces.Discrete(3))),
    "Sequence": lambda: spaces.Sequence(BOX, stack=True),
    "Graph": lambda: spaces.Graph(BOX, spaces.Discrete(3)),
    "Graph without edges": lambda: spaces.Graph(BOX, None),
    "OneOf": lambda: spaces.OneOf((BOX, spaces.Discrete(3))),
}


@pytest.mark.parametrize("protocol", [2, 4, 5])
@pytest.mark.parametrize("seeded", [False, True], ids=["fresh", "seeded"])
@pytest.mark.parametrize("what", SPACES)
def test_live_spaces(what: str, seeded: bool, protocol: int) -> None:  # noqa: FBT001
    space = SPACES[what]()
    if seeded:
        space.seed(7)
        space.sample()
    found = understood(cloudpickle.dumps(space, protocol))
    same(found, space)
    assert (found.random is not None) == seeded


LIVE: Final[dict[str, Callable[[], Any]]] = {
    "noise": lambda: noise.NormalActionNoise(np.zeros(2), np.ones(2)),
    "correlated noise": lambda: noise.OrnsteinUhlenbeckActionNoise(np.zeros(2), np.ones(2), initial_noise=np.ones(2)),
    "noise of several": lambda: noise.VectorizedActionNoise(noise.NormalActionNoise(np.zeros(2), np.ones(2)), 3),
    "frequency": lambda: type_aliases.TrainFreq(3, type_aliases.TrainFrequencyUnit.EPISODE),
    "schedule": lambda: utils.FloatSchedule(utils.LinearSchedule(1.0, 0.1, 0.5)),
    "constant": lambda: utils.FloatSchedule(0.5),
    "tensors": lambda: [
        torch.arange(6.0).reshape(2, 3).T,
        torch.nn.Parameter(torch.ones(2)),
        torch.ones(3, dtype=torch.bool),
    ],
    "device": lambda: torch.device("cuda", 1),
    "classes": lambda: {"activation_fn": torch.nn.ReLU, "optimizer_class": torch.optim.Adam},
    "arrays": lambda: [np.arange(6).reshape(2, 3).T, np.float32(2), np.array(["a", "bc"]), np.zeros((0, 3))],
    "rows": lambda: deque([{"r": 1.5, "l": 3, "t": np.float64(0.25)}], maxlen=100),
}


@pytest.mark.parametrize("what", LIVE)
def test_live_values(what: str) -> None:
    real = LIVE[what]()
    same(understood(cloudpickle.dumps(real)), real)


def test_tensors_that_share_a_storage_share_it() -> None:
    whole = torch.arange(6.0)
    pickled = cloudpickle.dumps([whole, whole[2:4], whole])
    first, second, third = understood(pickled)
    real_first, real_second, real_third = cloudpickle.loads(pickled)
    pointer = real_first.untyped_storage().data_ptr()
    assert (first.storage is second.storage) == (pointer == real_second.untyped_storage().data_ptr())
    assert first is third
    assert real_first is real_third
    assert to_array(second, Budget()).tolist() == [2, 3]


# -- live functions and classes -----------------------------------------------------------------------


def digest_of(code: Any) -> str | None:
    made = compiled(code)
    return made.digest


def compiled(code: Any) -> Any:
    parts = [tuple(map(part_of, value)) if type(value) is tuple else value for value in code_parts(code)]
    return make_code(tuple(parts))


def part_of(value: Any) -> Any:
    if hasattr(value, "co_code"):
        return compiled(value)
    return tuple(map(part_of, value)) if type(value) is tuple else value


def by_value(value: Any) -> bytes:
    """As cloudpickle pickles what stands in ``__main__``."""
    module = __import__(__name__)
    cloudpickle.register_pickle_by_value(module)
    try:
        return bytes(cloudpickle.dumps(value))
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def linear(start: float, unit: Any = 3) -> Any:
    def schedule(left: float, scale: float = 2.0) -> float:
        return start * left * scale + float(np.float32(0)) + unit + sum(power for power in (1, 2))

    return schedule


def test_a_closure() -> None:
    live = linear(0.5)
    outcome = decode_outcome(by_value(live))
    found = outcome.value
    assert (found.qualname, found.module) == ("linear.<locals>.schedule", __name__)
    filename = pickle.loads(by_value(live)).__code__.co_filename  # cloudpickle >= 3.1.3 has no names of files
    assert (found.code.filename, found.code.firstlineno) == (filename, live.__code__.co_firstlineno)
    assert (found.closure, found.defaults) == ({"start": 0.5, "unit": 3}, (2.0,))
    assert found.globals == {"np": values.Module("numpy")}
    assert found.digest == digest_of(live.__code__)
    assert found.schedule is None
    assert [issue.rule for issue in outcome.issues] == ["function"]
    assert outcome.overlooked == []


def test_a_lambda_and_a_partial() -> None:
    live = lambda left: left * 1e-3  # noqa: E731 -- what users write
    found = decode_outcome(by_value(live)).value
    assert found.qualname == live.__qualname__
    assert 1e-3 in found.code.constants
    assert found.digest == digest_of(live.__code__)
    partial = decode_outcome(by_value(functools.partial(live, 1, left=2))).value
    assert (partial.function.qualname, partial.args, partial.keywords) == (live.__qualname__, (1,), {"left": 2})


class Extractor(torch.nn.Module):
    """By value: its methods refer to it."""

    size = 3

    def __init__(self) -> None:
        super().__init__()

    @property
    def double(self) -> int:
        return self.size * 2

    @staticmethod
    def still() -> int:
        return 1

    def forward(self, x: Any) -> Any:
        return x


class Color(enum.Enum):
    RED = 1
    BLUE = "b"


def test_a_class_by_value() -> None:
    outcome = decode_outcome(by_value(Extractor))
    found = outcome.value
    assert (found.module, found.name) == (__name__, "Extractor")
    assert found.bases == (values.Reference("torch.nn.modules.module", "Module"),)
    assert set(found.methods) == {"__init__", "forward"}
    assert found.attributes["size"] == 3
    assert found.attributes["forward"].digest == digest_of(Extractor.forward.__code__)
    assert isinstance(found.attributes["__init__"].closure["__class__"], values.Cycle)
    assert {issue.rule for issue in outcome.issues} == {"class", "function"}
    assert outcome.overlooked == []


def test_an_enumeration_by_value() -> None:
    outcome = decode_outcome(by_value([Color, Color.RED]))
    reference = values.Reference(__name__, "Color")
    assert outcome.value[0].attributes["RED"] == values.EnumMember(reference, 1)
    assert "class" in {issue.rule for issue in outcome.issues}


def test_a_function_that_calls_itself() -> None:
    def countdown(left: int) -> int:
        return countdown(left - 1) if left else 0

    found = decode_outcome(by_value(countdown)).value
    assert found.closure == {"countdown": values.Cycle()}
