"""Whole modules that torch pickled, TorchScript, and plain pickles of tensors: their state dicts, without any code."""

from __future__ import annotations

import io
import pickle
import zipfile
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import sbformat
from sbformat.cli import main
from sbformat.errors import LimitError, PickleError, SbformatError, TensorError, UnsupportedError, ValidationError
from sbformat.limits import Limits
from tests.helpers.build_replay_buffers import classes
from tests.helpers.bundled import PPO, ROOT

if TYPE_CHECKING:
    from pathlib import Path

MODULES: Final = ROOT / "tests" / "formats" / "modules"
"""Made by ``make.py`` there, with torch 2.13 and SB3 2.9.2."""
SHAPES: Final = {
    "net": {
        "model/a.weight": (4, 3), "model/a.bias": (4,), "model/b.weight": (4, 3), "model/b.bias": (4,),
        "model/bn.weight": (4,), "model/bn.bias": (4,), "model/bn.running_mean": (4,), "model/bn.running_var": (4,),
        "model/bn.num_batches_tracked": (), "model/e.k": (3,),
    },
    "script": {"0.weight": (4, 3), "0.bias": (4,), "1.running_mean": (4,), "2.weight_ih_l0": (8, 4)},
    "const": {"constants.0": (3,)},
}  # fmt: skip


def read(name: str) -> Any:
    archive = sbformat.read(MODULES / f"{name}.pt")
    return archive.state_dict(archive.state_dicts[0])


@pytest.mark.parametrize("name", SHAPES)
def test_the_state_has_the_names_of_torch(name: str) -> None:
    found = {path: info.shape for path, info in read(name).tensors().items()}
    assert {path: found.get(path) for path in SHAPES[name]} == SHAPES[name]
    assert not any(path.endswith(".t") for path in found)  # a buffer that is not persistent


def test_a_module_is_read_with_its_classes() -> None:
    state = read("net")
    assert state.classes["model"] == "__main__.Net"
    assert state.classes["model.bn"] == "torch.nn.modules.batchnorm.BatchNorm1d"
    np.testing.assert_array_equal(state.array("model/a.weight"), state.array("model/b.weight"))
    assert state["epoch"] == 3


@pytest.mark.parametrize(("name", "shape"), [("ppo", (3,)), ("rppo", (4,))])
def test_a_whole_policy_of_sb3_runs(name: str, shape: tuple[int, ...]) -> None:
    policy = sbformat.load_policy(MODULES / f"{name}.pt")
    assert policy.observation_space.shape == shape
    action, _ = policy.predict(np.zeros(shape, np.float32), deterministic=True)
    assert np.isfinite(action).all()


def test_inspect_says_that_it_is_a_whole_module(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(MODULES / "net.pt")]) == 0
    assert "'model': a whole module was pickled, of the class __main__.Net" in " ".join(capsys.readouterr().out.split())
    assert main(["inspect", str(MODULES / "ppo.pt")]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "of the class stable_baselines3.common.policies.ActorCriticPolicy" in shown


def test_extract_writes_its_tensors(tmp_path: Path) -> None:
    report = sbformat.extract(MODULES / "script.pt", tmp_path / "a.npz")
    assert "0.weight" in report.tensors
    assert np.load(tmp_path / "a.npz")["0.weight"].shape == (4, 3)


def test_an_entry_of_an_archive_is_not_read_as_a_module(tmp_path: Path) -> None:
    with (
        zipfile.ZipFile(ROOT / "tests/archives/ppo-cartpole.zip") as old,
        zipfile.ZipFile(tmp_path / "a.zip", "w") as new,
    ):
        for name in old.namelist():
            new.writestr(name, (MODULES / "ppo.pt").read_bytes() if name == "policy.pth" else old.read(name))
    archive = sbformat.read(tmp_path / "a.zip")
    with pytest.raises(UnsupportedError, match="is not a known constructor"):
        archive.state_dict("policy.pth")
    with pytest.raises(ValidationError, match="is not a known constructor"):
        sbformat.validate(archive)


# -- modules that nobody writes -----------------------------------------------------------------------


def pickle_module(**modules: Any) -> bytes:
    """The pickle of a module with an array, and a buffer that is not persistent."""
    with classes(("mine", "Net")) as made:
        found = object.__new__(made["mine", "Net"])
        buffers = {"t": np.ones(1), "b": np.zeros(1)}
        found.__dict__.update(_parameters={"w": np.ones(2), "none": None}, _buffers=buffers, _modules=modules)
        found.__dict__["_non_persistent_buffers_set"] = {"t"}
        return pickle.dumps(found)


def test_a_plain_pickle_of_a_module_is_its_state() -> None:
    found = sbformat.read_parameters(pickle_module())["arrays"]
    assert list(found) == ["w", "b"]


def test_a_module_that_contains_itself_is_refused() -> None:
    with classes(("mine", "Net")) as made:
        found = object.__new__(made["mine", "Net"])
        found.__dict__.update(_parameters={"w": np.ones(2)}, _buffers={}, _modules={"own": found})
        data = pickle.dumps(found)
    with pytest.raises((TensorError, PickleError), match="contains itself"):
        sbformat.read_parameters(data)


def test_shared_modules_are_counted_wherever_they_occur() -> None:
    archive = sbformat.read(MODULES / "net.pt", limits=Limits(tensors=5))
    with pytest.raises(LimitError, match="tensors"):
        archive.state_dict(archive.state_dicts[0])


def test_every_cut_and_flipped_byte_gives_our_errors() -> None:
    data = (MODULES / "net.pt").read_bytes()
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        members = {name: file.read(name) for name in file.namelist()}
    name = next(name for name in members if name.endswith("data.pkl"))
    inner = bytearray(members[name])
    generator = np.random.default_rng(0)
    for _ in range(100):
        changed = bytearray(inner)
        changed[generator.integers(len(inner))] = generator.integers(256)
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as file:
            for member, content in members.items():
                file.writestr(member, bytes(changed) if member == name else content)
        try:
            archive = sbformat.reads(stream.getvalue())
            archive.state_dict(archive.state_dicts[0]).to_numpy()
        except SbformatError:
            continue


# -- plain pickles ------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_pickle_of_arrays_is_read(protocol: int) -> None:
    value = {"a": np.arange(3.0), "b": {"c": np.zeros((2, 2), "i4"), "lr": 0.5}}
    found = sbformat.read_parameters(pickle.dumps(value, protocol))["arrays"]
    np.testing.assert_array_equal(found["a"], value["a"])
    np.testing.assert_array_equal(found["b"]["c"], np.zeros((2, 2)))
    assert found["b"]["lr"] == 0.5
    assert sbformat.read(pickle.dumps(OrderedDict(value), protocol)).format == "array-pickle"


@pytest.mark.parametrize("value", [{}, {"a": 1}, [np.ones(2)], {"a": [1, 2]}, np.ones(3)])
def test_other_pickles_are_refused_as_before(value: Any) -> None:
    with pytest.raises(UnsupportedError, match="neither statistics of VecNormalize"):
        sbformat.reads(pickle.dumps(value))


def test_a_pickle_of_arrays_is_no_agent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "weights.pkl"
    path.write_bytes(pickle.dumps({"a": np.ones(2)}))
    assert main(["validate", str(path)]) == 0
    assert main(["inspect", str(path)]) == 0
    assert "pickle of tensors or arrays" in capsys.readouterr().out
    assert main(["predict", str(path), "--observation", "[0]"]) == 2
    assert "a plain pickle of tensors or arrays" in capsys.readouterr().err
    assert main(["rebuild", str(path), "-o", str(tmp_path / "a.zip")]) == 2


def test_nothing_to_extract_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["extract", str(PPO), "--entry", "pytorch_variables", "-o", str(tmp_path / "a.npz")]) == 2
    assert "has no tensors" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
