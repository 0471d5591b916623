"""``unsafe`` beside Stable-Baselines3 itself: the same values, the same semantics, and less that is run."""

# ruff: noqa: E402 -- importorskip stands before what needs it
from __future__ import annotations

import base64
import io
import json
import os
import pickle
import zipfile
from collections import Counter, deque
from typing import TYPE_CHECKING, Any, Final

import pytest

torch = pytest.importorskip("torch")
sb3 = pytest.importorskip("stable_baselines3")
contrib = pytest.importorskip("sb3_contrib")
cloudpickle = pytest.importorskip("cloudpickle")

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.noise import NormalActionNoise, OrnsteinUhlenbeckActionNoise, VectorizedActionNoise
from stable_baselines3.common.save_util import data_to_json, json_to_data

import sbformat
from conformance.generators.build_zips import sb3_archive
from sbformat import Serialized, pkl, unsafe
from sbformat.immutable import thaw
from sbformat.pkl import Call, Dict
from tests.helpers.build_blobs import call, change
from tests.helpers.shared_files import DAMAGED, generated_files, summarize_counts
from tests.test_unsafe_crashes import outcome

if TYPE_CHECKING:
    from pathlib import Path

    from sbformat.archive.archive import Archive

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # gymnasium's and torch's own
]

COUNTED: Final[Counter[str]] = Counter()
_summary = summarize_counts(COUNTED, "test_unsafe.py:")

ARCHIVES: Final = [path for path in generated_files("*.zip", "[0-9]*", "extra") if path.name != DAMAGED]


def assert_alike(found: Any, expected: Any) -> None:
    """Compare what two unpicklers made, whether or not their classes have an equality."""
    assert type(found) is type(expected)
    if isinstance(expected, (np.ndarray, np.generic)):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    elif isinstance(expected, torch.Tensor):
        assert found.dtype == expected.dtype
        assert found.requires_grad == expected.requires_grad
        assert torch.equal(found, expected)
    elif isinstance(expected, dict):
        assert list(found) == list(expected)
        for key in expected:
            assert_alike(found[key], expected[key])
    elif isinstance(expected, (list, tuple, deque)):
        assert getattr(found, "maxlen", None) == getattr(expected, "maxlen", None)
        assert len(found) == len(expected)
        for one, other in zip(found, expected):
            assert_alike(one, other)
    elif isinstance(expected, (np.random.Generator, np.random.RandomState)):
        assert found.random() == expected.random()
    elif isinstance(expected, type) or not hasattr(expected, "__dict__"):
        assert found == expected or found != found  # noqa: PLR0124 -- NaN
    else:
        assert_alike(vars(found), vars(expected))


def data_text(archive: Archive) -> str:
    return bytes(archive.raw("data")).decode()


@pytest.mark.skipif(not ARCHIVES, reason="no generated archives beside the project")
def test_values_are_those_of_cloudpickle_and_failures_are_its_own() -> None:
    for path in ARCHIVES:
        archive = sbformat.read(path)
        data = thaw(archive.data)
        loaded = unsafe.load_data(archive)
        assert [*data] == sorted([*loaded.data, *loaded.failures], key=list(data).index)
        for key, value in data.items():
            if not isinstance(value, Serialized):
                assert_alike(loaded.data[key], value)
            elif key in loaded.data:
                COUNTED["blobs as cloudpickle loads them"] += 1
                assert_alike(loaded.data[key], cloudpickle.loads(value.pickle))
            elif loaded.failures[key].error == "NotAllowedError":
                COUNTED["blobs with functions or classes by value"] += 1
                assert b"cloudpickle" in value.pickle
            else:
                COUNTED["blobs that fail here either way"] += 1
                with pytest.raises(Exception) as caught:  # noqa: PT011 -- whichever it is
                    cloudpickle.loads(value.pickle)
                assert type(caught.value).__name__ == loaded.failures[key].error


@pytest.mark.skipif(not ARCHIVES, reason="no generated archives beside the project")
def test_data_of_todays_release_is_what_sb3_makes_of_it() -> None:
    for path in ARCHIVES:
        archive = sbformat.read(path)
        if archive.stable_baselines3_version != sb3.__version__:
            continue
        loaded = unsafe.load_data(archive)
        expected = json_to_data(data_text(archive), dict.fromkeys(loaded.failures))
        assert_alike({**expected, **loaded.data}, expected)
        COUNTED["archives of today"] += 1


NOISES: Final = {
    "normal": NormalActionNoise(np.zeros(2), np.ones(2)),
    "ou": OrnsteinUhlenbeckActionNoise(np.zeros(2), np.ones(2)),
    "vectorized": VectorizedActionNoise(NormalActionNoise(np.zeros(2), np.ones(2)), 3),
}
VALUES: Final = {
    **NOISES,
    "tensor": torch.arange(6, dtype=torch.float64).reshape(2, 3).t(),
    "tensors": [torch.ones(2), torch.zeros(0), torch.tensor(True)],
    "parameter": torch.nn.Parameter(torch.ones(2)),
    "dtype": torch.float32,
    "device": torch.device("cpu"),
    "size": {0: torch.Size([2, 3]), 1: torch.ones(1)},
    "classes": {"activation_fn": torch.nn.ReLU, "optimizer_class": torch.optim.AdamW, "policy": sb3.sac.policies.Actor},
    "states": contrib.common.recurrent.type_aliases.RNNStates((torch.ones(1),), (torch.ones(1),)),
    "train_freq": sb3.common.type_aliases.TrainFreq(4, sb3.common.type_aliases.TrainFrequencyUnit.STEP),
    "strategy": sb3.her.GoalSelectionStrategy.FUTURE,
    "schedule": sb3.common.utils.FloatSchedule(sb3.common.utils.LinearSchedule(1.0, 0.1, 0.5)),
}


@pytest.mark.parametrize("name", VALUES)
def test_sb3s_types_come_back(name: str) -> None:
    text = data_to_json({"value": VALUES[name], "always": 1})
    archive = sbformat.reads(sb3_archive(entries={"data": text.encode()}))
    loaded = unsafe.load_data(archive)
    assert loaded.failures == {}
    assert_alike(loaded.data["value"], json_to_data(text)["value"])
    assert_alike(loaded.data["value"], VALUES[name])


def test_custom_objects_mean_what_they_mean_to_sb3(tmp_path: Path) -> None:
    model = sb3.PPO("MlpPolicy", "CartPole-v1", learning_rate=lambda left: left * 0.25, n_steps=8, batch_size=8)
    model.save(tmp_path / "model")
    archive = sbformat.read(tmp_path / "model.zip")
    mine = {"learning_rate": 0.5, "lr_schedule": None, "clip_range": [1], "gamma": 0.1, "absent": 1}
    loaded = unsafe.load_data(archive, mine)
    assert loaded.failures == {}
    assert_alike(loaded.data, json_to_data(data_text(archive), mine))
    assert "absent" not in loaded.data
    refused = unsafe.load_data(archive)
    assert {"learning_rate"} <= set(refused.failures) <= {"learning_rate", "lr_schedule"}
    trusted = unsafe.load_data(archive, trust=unsafe.I_TRUST_THIS_FILE)
    assert list(trusted.data) == list(json_to_data(data_text(archive)))
    assert trusted.data["learning_rate"](1.0) == 0.25


class _Evil:
    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __reduce__(self) -> Any:
        return os.mkdir, (self.folder,)


@pytest.mark.parametrize("is_zip", [False, True])
def test_the_stream_inside_a_tensor_cannot_run_anything(tmp_path: Path, is_zip: bool) -> None:  # noqa: FBT001
    nested = io.BytesIO()
    torch.save(_Evil(str(tmp_path / "ran")), nested, _use_new_zipfile_serialization=is_zip)

    class Storage:
        def __reduce__(self) -> Any:
            return torch.storage._load_from_bytes, (nested.getvalue(),)

    blob = Serialized("<class 'torch.Tensor'>", pickle.dumps(Storage()))
    with pytest.raises(unsafe.NotAllowedError, match="_load_from_bytes"):
        unsafe.unpickle(blob)
    assert not (tmp_path / "ran").exists()
    unsafe.unpickle(blob, trust=unsafe.I_TRUST_THIS_FILE)
    assert (tmp_path / "ran").exists()


def storage_bytes(count: int = 4) -> bytes:
    """The torch file that a storage is pickled as."""
    file = io.BytesIO()
    stored = torch.zeros(count)._typed_storage()
    torch.save(stored, file, _use_new_zipfile_serialization=False)
    return file.getvalue()


def tensor(
    size: object = (4,), stride: object = (1,), offset: object = 0, raw: bytes | None = None, *more: object
) -> Call:
    made = call("torch.storage", "_load_from_bytes", storage_bytes() if raw is None else raw)
    hooks = call("collections", "OrderedDict")
    return call("torch._utils", "_rebuild_tensor_v2", made, offset, size, stride, False, hooks, *more)


HOSTILE: Final[dict[str, Call]] = {
    "a size past the storage": tensor((5,)),
    "a size that wraps": tensor((1 << 32, 1 << 32), (1 << 32, 1)),
    "a negative size": tensor((-4,)),
    "a stride past the storage": tensor((2,), (1 << 40,)),
    "a negative stride": tensor((2,), (-(1 << 40),)),
    "an offset past the storage": tensor(offset=1 << 40),
    "a negative offset": tensor(offset=-(1 << 40)),
    "a size without a stride": tensor((2, 2), (1,)),
    "an expanded size": tensor((1 << 40,), (0,)),
    "axes without end": tensor((1,) * 5000, (1,) * 5000),
    "a storage of fewer bytes than it says": tensor(raw=storage_bytes()[:-8]),
    "a storage of more bytes than it says": tensor(raw=storage_bytes() + bytes(8)),
    "a storage that is a tensor": tensor(raw=pickle.dumps(torch.ones(2))),
    "conjugates of real numbers": tensor((4,), (1,), 0, None, Dict([("conj", True)])),
    "a parameter of a storage": call("torch._utils", "_rebuild_parameter",
                                     call("torch.storage", "_load_from_bytes", storage_bytes()), True,
                                     call("collections", "OrderedDict")),
    "a tensor with a state": change(tensor(), Dict([("data", 1)])),
    "a device of text": call("torch", "device", "cuda", "0"),
    "a shape of text": call("torch", "Size", "abc"),
}  # fmt: skip


@pytest.mark.parametrize("what", HOSTILE)
def test_a_tensor_that_reaches_out_of_its_storage_is_refused(what: str) -> None:
    assert outcome(pkl.dumps(HOSTILE[what])) in ("NotAllowedError", "LimitError")


def test_tensors_are_loaded() -> None:
    for value in (torch.ones(2, 3).T, torch.nn.Parameter(torch.ones(2)), torch.zeros(0), torch.tensor(True)):
        assert outcome(pickle.dumps(value)) == "loaded"


class Mine(spaces.Discrete):
    """A space of the user's own."""


def test_a_name_of_the_callers_within_what_is_known() -> None:
    blob = Serialized(None, pickle.dumps(spaces.Dict({"a": Mine(3), "b": spaces.Discrete(2)})))
    with pytest.raises(unsafe.NotAllowedError):
        unsafe.unpickle(blob)
    allow = unsafe.SB3_TYPES | {(Mine.__module__, "Mine")}
    found = unsafe.unpickle(blob, allow=allow)
    assert type(found["a"]) is Mine
    hostile = Serialized(None, pkl.dumps([pkl.loads(blob.pickle), HOSTILE["a size past the storage"]]))
    with pytest.raises(unsafe.NotAllowedError):
        unsafe.unpickle(hostile, allow=allow)


def test_sb3_drops_what_is_dropped_here(tmp_path: Path) -> None:
    """A key whose class is gone: SB3 warns and drops it, and so does ``load_data``, which tells."""
    model = sb3.PPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8)
    model.save(tmp_path / "model")
    with zipfile.ZipFile(tmp_path / "model.zip") as file:
        data = json.loads(file.read("data"))
    gone = b"cstable_baselines3.common.policies\nGone\n."
    data["policy_class"][":serialized:"] = base64.b64encode(gone).decode()
    archive = sbformat.reads(sb3_archive(entries={"data": json.dumps(data).encode()}))
    loaded = unsafe.load_data(archive, allow=unsafe.SB3_TYPES | {"stable_baselines3.common.policies.Gone"})
    assert loaded.failures["policy_class"].error == "AttributeError"
    assert list(loaded.data) == list(json_to_data(json.dumps(data)))
