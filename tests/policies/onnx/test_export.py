"""The file that ``export_onnx`` writes, and what it refuses."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import onnxruntime
import pytest

import sbformat
from sbformat.known.spaces import Box
from sbformat.policies import onnx as exporter
from sbformat.policies.onnx import OPSETS
from tests.helpers.bundled import PPO, SAC
from tests.helpers.onnx_policy import OnnxPolicy
from tests.helpers.policy_vectors import VECTORS, load_vector
from tests.nets.agents import make_agent
from tests.policies.onnx.models import export
from tests.policies.run.graphs import describe
from tests.policies.run.models import Model, box, dict_space, discrete
from tests.policies.sampled import SOME_VECTORS

WIDE: Final = (onnx.TensorProto.DOUBLE, onnx.TensorProto.COMPLEX64, onnx.TensorProto.COMPLEX128)


def read_model(path: Path) -> onnx.ModelProto:
    return onnx.load(path / "policy.onnx")


# -- content ------------------------------------------------------------------------------------------


def test_the_report_and_the_metadata(tmp_path: Path) -> None:
    path = tmp_path / "policy.onnx"
    report = sbformat.export_onnx(PPO, path, outputs=["action", "value"])
    made = read_model(tmp_path)
    assert report.format == "onnx"
    assert report.files == ((str(path), path.stat().st_size),)
    assert [(port.name, port.dtype, port.shape) for port in report.inputs] == [("observation", "float32", (4,))]
    assert [(port.name, port.dtype, port.shape) for port in report.outputs] == [
        ("action", "int64", ()),
        ("value", "float32", (1,)),
    ]
    assert report.nodes == len(made.graph.node) == 13
    assert report.constants == sum(int(np.prod(item.dims)) for item in made.graph.initializer) == 251
    assert {item.key: item.value for item in made.metadata_props} == report.metadata
    assert report.metadata["algorithm"] == made.graph.name == "PPO"
    assert report.metadata["sha256"] == hashlib.sha256(PPO.read_bytes()).hexdigest()
    assert json.loads(report.metadata["observation_space"])["shape"] == [4]
    assert made.doc_string.startswith("PPO policy of Stable-Baselines3 2.")
    assert (made.producer_name, made.producer_version) == ("sbformat", sbformat.__version__)


def test_names_are_those_of_stable_baselines3(tmp_path: Path) -> None:
    sbformat.export_onnx(PPO, tmp_path / "policy.onnx", outputs=["action", "logits"])
    graph = read_model(tmp_path).graph
    module = "mlp_extractor.policy_net"
    assert [node.name for node in graph.node] == [
        f"{module}.0/Gemm", f"{module}.1/Tanh", f"{module}.2/Gemm", f"{module}.3/Tanh", "action_net/Gemm",
        "action/ReduceLogSumExp", "action/Sub", "action",
    ]  # fmt: skip
    weights = sbformat.read(PPO).parameters["policy"].to_numpy()
    assert {item.name for item in graph.initializer} <= set(weights)
    for item in graph.initializer:
        np.testing.assert_array_equal(onnx.numpy_helper.to_array(item), weights[item.name])


@pytest.mark.parametrize(
    ("opset", "ir_version"), [(13, 7), (14, 7), (15, 8), (16, 8), (17, 8), (18, 8), (19, 9), (20, 9), (21, 10)]
)
def test_the_version_is_the_oldest_of_an_opset(tmp_path: Path, opset: int, ir_version: int) -> None:
    sbformat.export_onnx(PPO, tmp_path / "policy.onnx", opset=opset)
    made = read_model(tmp_path)
    assert [(item.domain, item.version) for item in made.opset_import] == [("", opset)]
    assert made.ir_version == ir_version


def test_the_first_axis_has_a_name_or_a_size(tmp_path: Path) -> None:
    policy = sbformat.load_policy(SAC)
    for batch in ("batch", "N"):
        session = export(policy, tmp_path, batch=batch).session
        assert {item.shape[0] for item in (*session.get_inputs(), *session.get_outputs())} == {batch}
    made = export(policy, tmp_path, batch=3)
    assert {item.shape[0] for item in (*made.session.get_inputs(), *made.session.get_outputs())} == {3}
    observations = np.ones((3, 3), np.float32)
    for name, array in policy.outputs(observations).items():
        np.testing.assert_allclose(made.outputs(observations)[name], array, 1e-5, 1e-6)
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument):
        made.outputs(np.ones((4, 3), np.float32))


def test_bytes_are_the_same_in_every_process(tmp_path: Path) -> None:
    names = ["policy-cnn-multi-input", "policy-lstm-two-layers", "policy-sac-gsde"]
    program = f"""
import hashlib, pathlib
import sbformat
from tests.helpers.policy_vectors import load_vector
path = pathlib.Path({str(tmp_path)!r}) / "policy.onnx"
for name in {names}:
    policy = load_vector(name)
    sbformat.export_onnx(policy, path, overwrite=True, outputs=policy.graph.outputs)
    print(hashlib.sha256(path.read_bytes()).hexdigest())
"""
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(sbformat.__file__).parents[1])},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    here = []
    for name in names:
        export(load_vector(name), tmp_path)
        here.append(hashlib.sha256((tmp_path / "policy.onnx").read_bytes()).hexdigest())
    assert found.stdout.split() == here
    assert len(set(here)) == 3


SOME_OR_ALL = [SOME_VECTORS, pytest.param(VECTORS, marks=pytest.mark.exhaustive)]


@pytest.mark.parametrize("vectors", SOME_OR_ALL, ids=["some", "all"])
def test_nothing_is_computed_in_float64_and_onnxruntime_has_nothing_to_warn_of(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], vectors: Iterable[str]
) -> None:
    """Only the mean of VecNormalize is subtracted in float64, from an input of that dtype."""
    found = {}
    for name in vectors:
        export(load_vector(name), tmp_path)
        graph = onnx.shape_inference.infer_shapes(read_model(tmp_path), strict_mode=True).graph
        inner = [*graph.value_info, *graph.output]
        names = [item.name for item in inner if item.type.tensor_type.elem_type in WIDE]
        names += [item.name for item in graph.initializer if item.data_type in WIDE]
        if names:
            found[name] = names
    assert found == {}
    assert capfd.readouterr().err == ""


def test_two_outputs_of_one_value(tmp_path: Path) -> None:
    policy = sbformat.load_policy(make_agent(actions=box(2)))
    made = export(policy, tmp_path, raw=True, outputs=["mean", "action"])
    found = made.outputs(np.ones((2, 3), np.float32))
    assert list(found) == ["mean", "action"]
    np.testing.assert_array_equal(found["mean"], found["action"])
    assert [node.op_type for node in read_model(tmp_path).graph.node].count("Identity") == 1


@pytest.mark.parametrize("opset", [13, 15])
@pytest.mark.parametrize("batch", ["batch", 2])
def test_outputs_that_are_constants(tmp_path: Path, opset: int, batch: str | int) -> None:
    policy = sbformat.load_policy(make_agent(actions=box(2)))
    made = export(policy, tmp_path, outputs=["log_std"], opset=opset, batch=batch)
    observations = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(made.outputs(observations)["log_std"], policy.outputs(observations)["log_std"])


def test_bounds_that_are_one_number_are_a_clip(tmp_path: Path) -> None:
    def operators(actions: Any) -> list[str]:
        export(sbformat.load_policy(make_agent(actions=actions)), tmp_path, outputs=["action"])
        return [node.op_type for node in read_model(tmp_path).graph.node][4:]

    assert operators(box(2)) == ["Gemm", "Clip"]
    assert [list(item.dims) for item in read_model(tmp_path).graph.initializer][-2:] == [[], []]
    low, high = (describe(np.array(bounds, "f4")) for bounds in ([-1, -2], [1, 2]))
    assert operators(Box("gymnasium", (2,), "<f4", low, high, None)) == ["Gemm", "Max", "Min"]


# -- observations -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_statistics_are_in_the_model(tmp_path: Path, dtype: str) -> None:
    """Where the mean is 10,000 deviations, float32 has just enough digits, if the difference is computed with care."""
    space = box(3, low=-2000, high=2000, dtype=dtype)
    mean, deviation = np.array([1000.0, 999.123456, -0.1]), np.array([0.1, 0.1, 1e-3])
    rms = sbformat.RunningMeanStd(mean, deviation**2, 1e4)
    statistics = sbformat.VecNormalize(obs_rms=rms, norm_reward=False, epsilon=0.0)
    policy = sbformat.load_policy(make_agent(observations=space, actions=box(2)), vecnormalize=statistics)
    noise = np.random.default_rng(0).normal(size=(50, 3))
    observations = (mean + deviation * noise).astype(dtype)
    made = export(policy, tmp_path)
    assert made.session.get_inputs()[0].type == {"float32": "tensor(float)", "float64": "tensor(double)"}[dtype]
    for name, array in policy.outputs(observations).items():
        np.testing.assert_allclose(made.outputs(observations)[name], array, 1e-5, 1e-5)
    wide = [item.name for item in read_model(tmp_path).graph.initializer if item.data_type in WIDE]
    assert len(wide) == (dtype == "float64")


@pytest.mark.parametrize("opset", [OPSETS[0], OPSETS[-1]])
@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint8"])
def test_statistics_of_integers_are_in_the_model(tmp_path: Path, dtype: str, opset: int) -> None:
    center = 100 if dtype == "uint8" else 2**30 + 1
    space = box(3, low=0, high=2 * center - 3, dtype=dtype)
    rms = sbformat.RunningMeanStd(np.full(3, center + 0.25), np.array([4.0, 25.0, 900.0]), 1e4)
    statistics = sbformat.VecNormalize(obs_rms=rms, norm_reward=False)
    policy = sbformat.load_policy(make_agent(observations=space, actions=box(2)), vecnormalize=statistics)
    observations = (center + np.random.default_rng(0).integers(-20, 20, (50, 3))).astype(dtype)
    made = export(policy, tmp_path, opset=opset)
    for name, array in policy.outputs(observations).items():
        np.testing.assert_allclose(made.outputs(observations)[name], array, 1e-5, 1e-5)


def test_keys_that_are_names_of_outputs(tmp_path: Path) -> None:
    keys = ["action", "value", "observation", "x y", "\u00e9\n", "k" * 5000, "action_net/Gemm", "logits"]
    space = dict_space(**{key: box(2) for key in keys}, last=discrete(3))
    policy = sbformat.load_policy(make_agent("MultiInputActorCriticPolicy", space, discrete(2)))
    made = export(policy, tmp_path)
    names = [item.name for item in made.session.get_inputs()]
    assert names == [port.name for port in made.report.inputs]
    assert names[:3] == ["observation.action", "observation.value", "observation"]
    random = np.random.default_rng(0)
    observations: dict[str, Any] = {key: random.normal(size=(4, 2)).astype(np.float32) for key in keys}
    observations["last"] = np.array([0, 2, 1, 0])
    for name, array in policy.outputs(observations).items():
        np.testing.assert_allclose(made.outputs(observations)[name], array, 1e-5, 1e-5)


@pytest.mark.parametrize("key", ["\ud800", "a\0b"])
def test_keys_that_a_model_cannot_have(tmp_path: Path, key: str) -> None:
    source = make_agent("MultiInputActorCriticPolicy", dict_space(**{key: box(2)}), discrete(2))
    with pytest.raises(sbformat.UnsupportedError, match="expected the name of an input without surrogates and NUL"):
        sbformat.export_onnx(source, tmp_path / "policy.onnx")
    assert not list(tmp_path.iterdir())


def test_any_name_within_the_graph(tmp_path: Path) -> None:
    """Names of weights and nodes may be anything, also those of inputs and outputs of the model."""
    space = box(2)
    hostile = Model(space, space)
    value = hostile.observe(space)
    for at, name in enumerate(["action", "\ud800", "", "n" * 10_000, "observation ", "\0", "\u202e", "a/b:0"]):
        weight = hostile.weight(f"{name} ", np.full(2, at + 0.5, np.float32))
        value = hostile.builder.add("Mul", value, weight, name=f"{name}  ", module=name)
    hostile.outputs = {"action": hostile.builder.add("Tanh", value)}
    policy = sbformat.Policy(hostile.build(sbformat.policies.graph.Sampling("none")))
    observations = np.full((2, 2), 1e-5, np.float32)
    made = export(policy, tmp_path)
    np.testing.assert_allclose(made.outputs(observations)["action"], policy.outputs(observations)["action"], 1e-5)
    assert all(len(item.name) <= 130 for item in read_model(tmp_path).graph.initializer)


# -- what is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"opset": 12}, "expected an opset from 13 to 21, got '12'"),
        ({"opset": OPSETS[-1] + 1}, "expected an opset from 13 to 21, got '22'"),
        ({"opset": True}, "expected an opset from 13 to 21, got 'True'"),
        ({"opset": "17"}, "expected an opset from 13 to 21, got '17'"),
        ({"batch": 0}, "a size of 1 or more as batch, got '0'"),
        ({"batch": -1}, "a size of 1 or more as batch, got '-1'"),
        ({"batch": True}, "a size of 1 or more as batch, got 'True'"),
        ({"batch": ""}, "expected a name such as batch"),
        ({"batch": "\ud800"}, "expected a name such as batch"),
        ({"outputs": ["policy"]}, "expected outputs among 'action', 'logits', .*, got 'policy'"),
        ({"outputs": []}, "expected at least one output"),
    ],
)
def test_arguments_that_are_not_possible(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sbformat.export_onnx(PPO, tmp_path / "policy.onnx", **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("options", [{"batch": None}, {"batch": 1.5}, {"outputs": "action"}, {"outputs": [3]}])
def test_arguments_of_another_type(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="expected"):
        sbformat.export_onnx(PPO, tmp_path / "policy.onnx", **options)
    with pytest.raises(TypeError, match="expected a path, got"):
        sbformat.export_onnx(PPO, None)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_sampled_actions(tmp_path: Path) -> None:
    with pytest.raises(sbformat.UnsupportedError, match="export the outputs 'logits', and sample"):
        sbformat.export_onnx(PPO, tmp_path / "policy.onnx", deterministic=False)
    assert not list(tmp_path.iterdir())


def test_a_file_is_replaced_only_when_requested(tmp_path: Path) -> None:
    path = tmp_path / "policy.onnx"
    path.write_bytes(b"before")
    with pytest.raises(FileExistsError):
        sbformat.export_onnx(PPO, path)
    assert path.read_bytes() == b"before"
    sbformat.export_onnx(PPO, path, overwrite=True)
    OnnxPolicy(sbformat.load_policy(PPO), path.read_bytes(), sbformat.export_onnx(PPO, tmp_path / "second.onnx"))
    with pytest.raises(OSError, match="No such file"):
        sbformat.export_onnx(PPO, tmp_path / "missing" / "policy.onnx")
    assert sorted(item.name for item in tmp_path.iterdir()) == ["policy.onnx", "second.onnx"]


def test_the_package_onnx_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(sbformat.UnsupportedError, match=r'package onnx is needed: pip install "sbformat\[onnx\]"'):
        sbformat.export_onnx(PPO, tmp_path / "policy.onnx")
    assert not list(tmp_path.iterdir())


def test_more_weights_than_a_file_can_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter, "MOST_BYTES", 500)
    with pytest.raises(sbformat.UnsupportedError, match="expected at most 500 bytes of weights in an ONNX file, got"):
        sbformat.export_onnx(PPO, tmp_path / "policy.onnx")
    assert not list(tmp_path.iterdir())


def test_a_model_that_the_check_refuses_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter, "_encode", lambda _: "")  # a graph needs a name
    with pytest.raises(sbformat.UnsupportedError, match="the onnx package refuses the model: .*name"):
        sbformat.export_onnx(PPO, tmp_path / "policy.onnx")
    assert not list(tmp_path.iterdir())
