"""``export_graph``: two files from which a policy can be computed, without anything of sbformat."""

from __future__ import annotations

import hashlib
import json
import math
import os
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from jsonschema import ValidationError as SchemaError
from safetensors.numpy import load

import sbformat
from sbformat.policies.export.parts import choose_outputs
from sbformat.schema import load_schema
from tests.helpers import policy_vectors
from tests.helpers.bundled import ARCHIVES, PPO, ROOT, SAC
from tests.helpers.policy_graphs import ppo_graph
from tests.helpers.policy_vectors import VECTORS
from tests.helpers.sampling import mark_others
from tests.helpers.sb2_predictions import recorded_agents
from tests.helpers.site_hooks import load_hook
from tests.policies.sampled import mark_sb2_agents, name_family

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

VALIDATOR = Draft202012Validator(load_schema("graph"))
SB2 = ROOT / "tests" / "nets" / "archives" / "sb2"
STATISTICS = ARCHIVES / "vecnormalize-pendulum.pkl"


# -- an interpreter, by POLICIES.md 19.2 and 20.4 alone --------------------------------------------------


def lay_patches(x: np.ndarray, kernel: tuple[int, ...], strides: list[int], pads: list[int]) -> np.ndarray:
    top, left, bottom, right = pads
    padded = np.pad(x, ((0, 0), (top, bottom), (left, right)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, kernel, (1, 2))
    return windows[:, :: strides[0], :: strides[1]]


def normalize_layer(x: np.ndarray, scale: np.ndarray, bias: np.ndarray, epsilon: float) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + epsilon) * scale + bias


def soften(x: np.ndarray, axis: int) -> np.ndarray:
    power = np.exp(x - x.max(axis, keepdims=True))
    return power / power.sum(axis, keepdims=True)


def log_sum_exp(x: np.ndarray, axis: int, *, keepdims: bool = False) -> np.ndarray:
    """The logarithm of the sum of exponentials along an axis."""
    greatest = x.max(axis, keepdims=True)
    found: np.ndarray = np.log(np.exp(x - greatest).sum(axis, keepdims=True)) + greatest
    return found if keepdims else found.squeeze(axis)


OPERATORS: dict[str, Callable[..., Any]] = {
    "Identity": lambda x: x,
    "Cast": lambda x, to: x.astype(to),
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Max": np.maximum, "Min": np.minimum,
    "Greater": np.greater, "Where": np.where, "Neg": np.negative, "Abs": np.abs, "Exp": np.exp, "Log": np.log,
    "Sqrt": np.sqrt, "Round": np.rint, "Tanh": np.tanh,
    "Relu": lambda x: np.maximum(x, 0),
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Softplus": lambda x: np.logaddexp(x, 0),
    "Softsign": lambda x: x / (1 + abs(x)),
    "Elu": lambda x, alpha: np.where(x < 0, alpha * np.expm1(x), x),
    "Celu": lambda x, alpha: np.where(x < 0, alpha * np.expm1(x / alpha), x),
    "Selu": lambda x, alpha, gamma: gamma * np.where(x < 0, alpha * np.expm1(x), x),
    "LeakyRelu": lambda x, alpha: np.where(x < 0, alpha * x, x),
    "PRelu": lambda x, y: np.where(x < 0, y * x, x),
    "Erf": np.vectorize(math.erf),
    "HardSigmoid": lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1),
    "Shrink": lambda x, lambd, bias: np.where(x > lambd, x - bias, np.where(x < -lambd, x + bias, 0)),
    "Softmax": soften,
    "LogSoftmax": lambda x, axis: np.log(soften(x, axis)),
    "OneHot": lambda x, depth: x[..., None] == np.arange(depth),
    "Transpose": lambda x, axes: x.transpose(axes),
    "Reshape": lambda x, shape: x.reshape(shape),
    "Concat": lambda *parts, axis: np.concatenate(parts, axis),
    "Slice": lambda x, axis, start, end: x.take(range(start, end), axis),
    "Gemm": lambda x, y, z=0.0, **given: (y if given["transB"] else y.T) @ x + z,
    "Conv": lambda x, y, z, strides, pads: (
        np.einsum("chwij,fcij->fhw", lay_patches(x, y.shape[2:], strides, pads), y) + z[:, None, None]
    ),
    "LayerNormalization": normalize_layer,
    "ReduceSum": lambda x, axis, keepdims=False: x.sum(axis, keepdims=keepdims),
    "ReduceMean": lambda x, axis, keepdims=False: x.mean(axis, keepdims=keepdims),
    "ReduceMin": lambda x, axis, keepdims=False: x.min(axis, keepdims=keepdims),
    "ReduceLogSumExp": log_sum_exp,
    "ArgMax": lambda x, axis, keepdims=False: x.argmax(axis, keepdims=keepdims),
}  # fmt: skip


class GraphFile:
    """A policy of two files: one observation at a time."""

    def __init__(self, path: Path) -> None:
        self.graph = json.loads(path.read_bytes(), parse_constant=pytest.fail)
        VALIDATOR.validate(self.graph)
        weights = path.with_name(self.graph["weights_file"]).read_bytes()
        assert hashlib.sha256(weights).hexdigest() == self.graph["weights_sha256"]
        tensors = load(weights)
        self.weights: dict[str, np.ndarray] = {}
        for name, weight in self.graph["weights"].items():
            if "items" in weight:
                items = weight["items"]
                numbers = [float(item) if isinstance(item, str) else item for item in np.atleast_1d(items).tolist()]
                made = np.array(numbers, weight["dtype"])
                made = made.reshape(weight["shape"]) if isinstance(items, list) else np.full(weight["shape"], made)
            else:
                made = tensors.pop(name)
            assert (made.dtype, list(made.shape)) == (weight["dtype"], weight["shape"]), name
            self.weights[name] = made
        assert not tensors

    def run(self, given: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Compute outputs, and the next states by the names of the inputs."""
        values = dict(self.weights)
        for item in self.graph["inputs"]:
            value = given.get(item["name"], item["default"])
            values[item["name"]] = np.broadcast_to(np.asarray(value), item["shape"]).astype(item["dtype"])
        with np.errstate(all="ignore"):
            for node in self.graph["nodes"]:
                made = OPERATORS[node["op"]](*(values[name] for name in node["inputs"]), **node["attributes"])
                values[node["name"]] = np.asarray(made).astype(node["dtype"])
                assert list(values[node["name"]].shape) == node["shape"], node
        named = {state["input"]: state["output"] for state in self.graph["states"]}
        return {name: values[value] for name, value in {**self.graph["outputs"], **named}.items()}


# -- beside Policy ------------------------------------------------------------------------------------


def load_vector(name: str) -> tuple[sbformat.Policy, list[dict[str, Any]]]:
    """Return the policy of a vector, and the arguments of each step."""
    steps = VECTORS[name]["input"]["steps"]
    return policy_vectors.load_vector(name), [{key: read_value(value) for key, value in step.items()} for step in steps]


def read_value(value: Any) -> Any:
    if "items" not in value:
        return {key: read_value(part) for key, part in value.items()}
    return np.array(value["items"], np.dtype(value["dtype"])).reshape(value["shape"])


def make_rows(file: GraphFile, step: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the inputs of each observation of a step."""
    batches = {}
    for item in file.graph["inputs"]:
        value = step.get(item["role"])
        if value is None:
            continue
        array = np.asarray(value if item["key"] is None else value[item["key"]])
        shape = tuple(item["shape"])
        if item["role"] == "observation" and array.shape[-len(shape) :] != shape and len(shape) == 3:
            array = np.moveaxis(array, -1, -3)  # POLICIES.md 19.3: channels last
        batches[item["name"]] = array.reshape(-1, *shape)
    count = max(map(len, batches.values()))
    return [{name: array[row % len(array)] for name, array in batches.items()} for row in range(count)]


def check_steps(policy: sbformat.Policy, file: GraphFile, steps: list[dict[str, Any]]) -> int:
    """Compare the files' outputs with the policy's; both keep their own states. Return the number of comparisons."""
    states: list[dict[str, np.ndarray]] = []
    state: Any = None
    names = list(dict.fromkeys(item["name"] for item in file.graph["states"]))
    compared = 0
    for step in steps:
        rows = make_rows(file, step)
        if len(states) != len(rows):
            states, state = [{} for _ in rows], None
        options = {key: step[key] for key in ("episode_start", "action_masks") if key in step}
        expected = policy.outputs(step["observation"], state, **options)
        found = [file.run({**before, **row}) for before, row in zip(states, rows)]
        for name in file.graph["outputs"]:
            value = np.stack([made[name] for made in found]).reshape(expected[name].shape)
            assert value.dtype == expected[name].dtype, name
            if value.dtype.kind == "f":
                np.testing.assert_allclose(value, expected[name], rtol=1e-5, atol=1e-5, err_msg=name)
            else:
                np.testing.assert_array_equal(value, expected[name], err_msg=name)
            compared += 1
        inputs = [item["input"] for item in file.graph["states"]]
        states = [{name: made[name] for name in inputs} for made in found]
        if names:
            state = expected["state"] if names == ["state"] else tuple(expected[name] for name in names)
    return compared


@pytest.mark.parametrize("name", mark_others(VECTORS, 3, group=name_family))
def test_the_two_files_compute_what_the_policy_computes(tmp_path: Path, name: str) -> None:
    policy, steps = load_vector(name)
    report = sbformat.export_graph(policy, tmp_path / "p.json")
    file = GraphFile(tmp_path / "p.json")
    assert check_steps(policy, file, steps) >= len(steps)
    described = json.loads(json.dumps(policy.graph.to_dict()))
    digest = hashlib.sha256((tmp_path / "p.safetensors").read_bytes()).hexdigest()
    members = {"metadata": dict(report.metadata), "weights_file": "p.safetensors", "weights_sha256": digest}
    assert file.graph == {**described, **members}  # all of the graph
    assert [port.name for port in report.inputs] == [item["name"] for item in file.graph["inputs"]]
    assert report.nodes == len(file.graph["nodes"])


def draw_observations(item: dict[str, Any], generator: np.random.Generator) -> np.ndarray:
    """Return four observations of an input: numbers of any size, bytes, or small integers."""
    shape = (4, *item["shape"])
    if item["dtype"].startswith("float"):
        return generator.normal(size=shape).astype(item["dtype"])
    return generator.integers(0, 256 if len(shape) == 4 else 2, shape).astype(item["dtype"])


@pytest.mark.parametrize("path", mark_sb2_agents(recorded_agents(SB2)), ids=lambda path: path.stem)
def test_agents_of_stable_baselines_2(tmp_path: Path, path: Path) -> None:
    policy = sbformat.load_policy(path)
    sbformat.export_graph(policy, tmp_path / "p.json")
    file = GraphFile(tmp_path / "p.json")
    generator = np.random.default_rng(0)
    steps = []
    for number in range(3):
        observations = [item for item in file.graph["inputs"] if item["role"] == "observation"]
        parts = {item["key"]: draw_observations(item, generator) for item in observations}
        steps.append({"observation": parts.get(None, parts), "episode_start": np.array([number == 0, 0, 1, 0])})
    assert check_steps(policy, file, steps) >= 3


@pytest.mark.parametrize("name", ["policy-sac-gsde", "policy-lstm", "policy-ppo-box", "policy-sb2-ppo2-lstm"])
@pytest.mark.parametrize("raw", [False, True])
def test_one_output_leaves_the_rest_out(tmp_path: Path, name: str, *, raw: bool) -> None:
    policy, steps = load_vector(name)
    sbformat.export_graph(policy, tmp_path / "all.json")
    whole = GraphFile(tmp_path / "all.json")
    report = sbformat.export_graph(policy, tmp_path / "p.json", outputs=["action"], raw=raw)
    file = GraphFile(tmp_path / "p.json")
    assert list(file.graph["outputs"]) == ["action"]
    assert set(file.weights) < set(whole.weights) or name == "policy-sac-gsde"
    assert len(file.graph["nodes"]) < len(whole.graph["nodes"])
    named = {*file.weights, *(item["name"] for key in ("inputs", "nodes") for item in file.graph[key])}
    sampling = file.graph["sampling"]
    assert {sampling["replaces"], *sampling["parameters"].values()} <= named
    assert report.constants == sum(array.size for array in file.weights.values())
    if not raw:
        assert check_steps(policy, file, steps)
    else:
        assert not any(node["module"] == "bounds" for node in file.graph["nodes"])


def test_without_the_action_nothing_is_sampled(tmp_path: Path) -> None:
    sbformat.export_graph(SAC, tmp_path / "p.json", outputs=["mean"])
    graph = GraphFile(tmp_path / "p.json").graph
    assert graph["sampling"]["kind"] == "none"
    assert not any(name.startswith("actor.log_std") for name in graph["weights"])


def test_statistics_are_inside(tmp_path: Path) -> None:
    policy = sbformat.load_policy(SAC, vecnormalize=STATISTICS)
    report = sbformat.export_graph(policy, tmp_path / "p.json")
    assert report.metadata["normalized"] == "true"
    steps = [{"observation": np.array([[0.5, 0.1, -3.0], [1.0, 0.0, 8.0]], np.float32)}]
    assert check_steps(policy, GraphFile(tmp_path / "p.json"), steps)


@pytest.mark.parametrize("path", [PPO, SAC, ARCHIVES / "ppo-cartpole-1.0.zip"])
def test_equal_agents_give_equal_bytes(tmp_path: Path, path: Path) -> None:
    made = []
    for folder, source in (("a", path), ("b", path.read_bytes()), ("c", sbformat.load_policy(path))):
        (tmp_path / folder).mkdir()
        report = sbformat.export_graph(source, tmp_path / folder / "p.json")
        made.append([(tmp_path / folder / name).read_bytes() for name in ("p.json", "p.safetensors")])
        assert [file.size for file in report.files] == [len(content) for content in made[-1]]
        assert sorted(item.name for item in (tmp_path / folder).iterdir()) == ["p.json", "p.safetensors"]
    assert made[0] == made[1] == made[2]


# -- errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("existing", ["p.json", "p.safetensors"])
def test_a_file_that_exists_is_not_replaced(tmp_path: Path, existing: str) -> None:
    (tmp_path / existing).write_text("mine")
    with pytest.raises(FileExistsError):
        sbformat.export_graph(PPO, tmp_path / "p.json")
    assert [(item.name, item.read_text()) for item in tmp_path.iterdir()] == [(existing, "mine")]
    sbformat.export_graph(PPO, tmp_path / "p.json", overwrite=True)
    GraphFile(tmp_path / "p.json")


def test_both_files_are_written_or_none(tmp_path: Path) -> None:
    (tmp_path / "p.safetensors").mkdir()
    (tmp_path / "p.json").write_text("mine")
    with pytest.raises(OSError, match="not a regular file"):
        sbformat.export_graph(PPO, tmp_path / "p.json", overwrite=True)
    assert (tmp_path / "p.json").read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 2
    with pytest.raises(FileNotFoundError):
        sbformat.export_graph(PPO, tmp_path / "nowhere" / "p.json")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"outputs": ["q_values"]}, "expected outputs among 'action', 'logits', 'probabilities', 'value', got 'q_val"),
        ({"outputs": []}, "expected at least one output"),
        ({"path": "p.txt"}, "expected a path that ends in .json, got "),
    ],
)
def test_wrong_arguments_are_named(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    path = tmp_path / options.pop("path", "p.json")
    with pytest.raises(ValueError, match=message):
        sbformat.export_graph(PPO, path, **options)
    assert not list(tmp_path.iterdir())


def test_outputs_are_names(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        sbformat.export_graph(PPO, tmp_path / "p.json", outputs="action")


def test_a_function_of_the_caller_cannot_be_exported(tmp_path: Path) -> None:
    policy = sbformat.load_policy(PPO, modules={"features_extractor": lambda x: x})
    with pytest.raises(sbformat.UnsupportedError, match="'features_extractor' is a function that modules= supplied"):
        sbformat.export_graph(policy, tmp_path / "p.json")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", [b"\xff.json", b"a\\b.json", b"a\nb.json"])
def test_a_file_name_that_the_json_cannot_contain(tmp_path: Path, name: bytes) -> None:
    with pytest.raises(sbformat.UnsupportedError, match="expected a file name in UTF-8"):
        sbformat.export_graph(PPO, tmp_path / os.fsdecode(name))
    assert not list(tmp_path.iterdir())


def test_a_name_in_any_language(tmp_path: Path) -> None:
    sbformat.export_graph(PPO, tmp_path / "агент 1.json")
    assert (tmp_path / "агент 1.json").read_bytes().isascii()
    assert GraphFile(tmp_path / "агент 1.json").graph["weights_file"] == "агент 1.safetensors"


WRITTEN = {"weights_file": "p.safetensors", "weights_sha256": "0" * 64}


@pytest.mark.parametrize(
    "changes",
    [
        {"weights_file": "p.safetensors"},
        {"metadata": {}},
        {"metadata": {"algorithm": 1}, **WRITTEN},
        {"metadata": {}, **WRITTEN, "weights_file": "../p.safetensors"},
        {"metadata": {}, **WRITTEN, "weights_file": "..\\p.safetensors"},
        {"metadata": {}, **WRITTEN, "weights_file": "p.bin"},
        {"metadata": {}, **WRITTEN, "weights_sha256": "A" * 64},
        {"metadata": {}, "weights_file": "p.safetensors"},
    ],
)
def test_the_schema_refuses_other_members(changes: dict[str, Any]) -> None:
    graph = json.loads(json.dumps(ppo_graph().to_dict()))
    VALIDATOR.validate({**graph, "metadata": {}, **WRITTEN})
    with pytest.raises(SchemaError):
        VALIDATOR.validate({**graph, **changes})


def test_choosing_every_output_keeps_the_graph() -> None:
    graph = ppo_graph()
    assert choose_outputs(graph, None, raw=False) == graph


def test_the_example_of_the_format_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    sbformat.export_graph(PPO, "policy.json")
    text = load_hook("format_sections").list_sections()["20.4"].text
    (block,) = text.split("```python\n")[1:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        exec(block.partition("```")[0], {})  # noqa: S102 -- the format's own example
    action, _ = sbformat.load_policy(PPO).predict([0.1, -0.2, 0.03, 0.4], deterministic=True)
    assert capsys.readouterr().out == f"{action}\n"
