"""``Graph.describe`` and the summary of a graph: layers, activations, steps before and after."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

import sbformat
from sbformat.cli import main
from sbformat.limits import Budget, Limits
from sbformat.policies.builder import GraphBuilder, Value
from sbformat.policies.describe import list_parts, summarize
from sbformat.policies.graph import NORMALIZATION, Graph, Input, Sampling, State
from sbformat.schema import load_schema
from tests.helpers.bundled import PPO
from tests.helpers.policy_graphs import ppo_graph
from tests.helpers.shared_files import SHARED, generated_files, summarize_counts
from tests.nets.agents import make_agent
from tests.policies.run.models import box, dict_space, discrete, images

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sbformat.pth import TensorInfo


def test_a_network_is_described_in_tables() -> None:
    assert ppo_graph().describe() == DESCRIPTION


DESCRIPTION = """\
inputs
  input        dtype    shape  role
  observation  float32  4      observation

layers (251 parameters)
  layer                       operation  reads                       shape   activation  parameters  weights
  mlp_extractor.policy_net.0  linear     observation                 4 -> 8  Tanh                40  \
policy.pth:mlp_extractor.policy_net.0.weight, .bias
  mlp_extractor.policy_net.2  linear     mlp_extractor.policy_net.0  8 -> 8  Tanh                72  \
policy.pth:mlp_extractor.policy_net.2.weight, .bias
  mlp_extractor.value_net.0   linear     observation                 4 -> 8  Tanh                40  \
policy.pth:mlp_extractor.value_net.0.weight, .bias
  mlp_extractor.value_net.2   linear     mlp_extractor.value_net.0   8 -> 8  Tanh                72  \
policy.pth:mlp_extractor.value_net.2.weight, .bias
  action_net                  linear     mlp_extractor.policy_net.2  8 -> 2                      18  \
policy.pth:action_net.weight, .bias
  value_net                   linear     mlp_extractor.value_net.2   8 -> 1                       9  \
policy.pth:value_net.weight, .bias

outputs
  output  dtype    shape   from
  action  int64    scalar  action
  logits  float32  2       action_net
  value   float32  1       value_net

post-processing
  step    operation                dtype  shape
  action  ArgMax(logits, axis=-1)  int64  scalar

sampling
  categorical  a choice with the probabilities softmax(logits), of 2 choices; the draw replaces action
"""


def build(make: Callable[[GraphBuilder], Graph]) -> Graph:
    return make(GraphBuilder(Budget(Limits())))


def tensor(shape: tuple[int, ...]) -> TensorInfo:
    """A tensor of any shape: only dtype and shape of a weight are looked at."""
    info = sbformat.read(PPO).parameters["policy"].info("action_net.weight")
    return info._replace(shape=shape)


def image_graph(builder: GraphBuilder) -> Graph:
    """An image, divided by 255, two convolutions, and a squashed action between bounds."""

    def weight(name: str, *shape: int) -> Value:
        return builder.weight(name, tensor(shape), f"policy.pth:{name}")

    value = builder.input(Input("observation", "uint8", (36, 36, 3)))
    value = builder.add("Transpose", value, axes=(2, 0, 1))
    value = builder.add("Div", builder.add("Cast", value, to="float32"), builder.constant(255.0), name="scaled")
    for at, (filters, channels, kernel) in {0: (8, 3, 8), 2: (16, 8, 3)}.items():
        module = f"cnn.{at}"
        kernels = weight(f"{module}.weight", filters, channels, kernel, kernel)
        value = builder.add("Conv", value, kernels, strides=(2, 2), pads=(0, 0, at, at), module=module)
        value = builder.add("Mul", value, builder.add("Sigmoid", value, module=f"cnn.{at + 1}"), module=f"cnn.{at + 1}")
    value = builder.add("Reshape", value, shape=(16 * 8 * 8,))
    mean = builder.add("Gemm", value, weight("mu.weight", 2, 16 * 8 * 8), transB=True, module="mu", name="mean")
    slope = builder.add("PRelu", mean, weight("slope", 1), module="mu_activation")
    squashed = builder.add("Tanh", slope, name="squashed")
    action = builder.add("Max", squashed, builder.constant((-1.0, 0.0), shape=(2,)), name="action")
    return builder.build({"action": action, "mean": mean}, Sampling("none"))


def test_layers_activations_and_steps_are_told_apart() -> None:
    summary = summarize(build(image_graph))
    assert [step.operation for step in summary.preprocessing] == [
        "Transpose(observation, axes=[2, 0, 1])", "Cast(Transpose, to=float32)", "Div(Cast, 255.0)",
    ]  # fmt: skip
    assert [(layer.name, layer.operation, layer.shape, layer.activation) for layer in summary.layers] == [
        ("cnn.0", "convolution 8 x 8, stride 2", (8, 15, 15), "SiLU"),
        ("cnn.2", "convolution 3 x 3, stride 2, padding 0, 0, 2, 2", (16, 8, 8), "SiLU"),
        ("Reshape", "Reshape", (1024,), None),
        ("mu", "linear", (2,), None),
        ("mu_activation", "PRelu", (2,), None),  # not an activation of a layer: mean is an output
    ]
    assert summary.layers[0].inputs == ("scaled",)
    assert summary.layers[3].outputs == ("mean",)
    assert [step.operation for step in summary.postprocessing] == [
        "Tanh(mu_activation)", "Max(squashed, [-1.0, 0.0])",
    ]  # fmt: skip


def test_what_vecnormalize_returns_and_a_lone_parameter_are_named_by_what_they_are() -> None:
    def make(builder: GraphBuilder) -> Graph:
        value = builder.input(Input("observation", "float32", (3,)))
        value = builder.add("Div", value, builder.constant(2.0), module=NORMALIZATION)
        value = builder.add("Neg", value, module=NORMALIZATION)
        matrix = builder.weight("mu.weight", tensor((2, 3)), "policy.pth:mu.weight")
        mean = builder.add("Gemm", value, matrix, transB=True, module="mu")
        log_std = builder.add("Identity", builder.weight("log_std", tensor((2,)), "policy.pth:log_std"))
        assert log_std.name != "log_std"
        return builder.build({"action": mean, "log_std": log_std}, Sampling("none"))

    summary = summarize(build(make))
    assert [step.name for step in summary.preprocessing] == ["vecnormalize/Div", "normalized_observation"]
    assert [(layer.name, layer.operation, layer.inputs) for layer in summary.layers] == [
        ("mu", "linear", ("normalized_observation",)),
        ("log_std", "log standard deviation", ()),
    ]
    assert [head.source for head in summary.heads] == ["mu", "log_std"]


def lstm_graph(builder: GraphBuilder) -> Graph:
    """One gate of an LSTM: enough to be recognized by its state."""
    observation = builder.input(Input("observation", "float32", (4,)))
    hidden = builder.input(Input("hidden", "float32", (4,), role="state"))
    matrix = builder.weight("lstm_actor.weight_ih_l0", tensor((4, 4)), "policy.pth:lstm_actor.weight_ih_l0")
    gate = builder.add("Gemm", observation, matrix, transB=True, module="lstm_actor")
    after = builder.add("Tanh", builder.add("Add", gate, hidden, module="lstm_actor"), module="lstm_actor")
    builder.state(State("hidden", after.name, "hidden"))
    action = builder.add("ArgMax", after, axis=-1, name="action")
    builder.infer("the LSTM has 4 units")
    return builder.build({"action": action}, Sampling("epsilon_greedy", "action", rate=0.05))


IMAGE = images(1, 36, 36)
FEATURES = "1 x 36 x 36 -> 32 x 8 x 8 -> 64 x 3 x 3 -> 64 x 1 x 1"
CRITICS = {"net_arch": {"pi": [4], "qf": [5, 6]}}


@pytest.mark.parametrize(
    ("policy", "spaces", "arguments", "parts"),
    [
        ("ActorCriticPolicy", (box(3), box(2)), {"net_arch": [4, 5]},
         [("policy", "3 -> 4 -> 5 -> 2 Tanh"), ("value", "3 -> 4 -> 5 -> 1 Tanh")]),
        ("ActorCriticCnnPolicy", (IMAGE, discrete(2)), {},
         [("features", f"{FEATURES} -> 512 ReLU"), ("policy", "512 -> 2"), ("value", "512 -> 1")]),
        ("MultiInputActorCriticPolicy", (dict_space(a=IMAGE, b=IMAGE, c=box(3)), discrete(2)), {"net_arch": [4]},
         [("features", f"{FEATURES} -> 256 ReLU, 2 of these"), ("policy", "515 -> 4 -> 2 Tanh"),
          ("value", "515 -> 4 -> 1 Tanh")]),
        ("RecurrentActorCriticPolicy", (box(3), discrete(2)), {"lstm_hidden_size": 6, "net_arch": [4]},
         [("policy", "3 -> LSTM 6 -> 4 -> 2 Tanh"), ("value", "3 -> LSTM 6 -> 4 -> 1 Tanh")]),
        ("sac.SACPolicy", (box(3), box(2)), CRITICS,
         [("policy", "3 -> 4 -> 2 ReLU"), ("q_values", "5 -> 5 -> 6 -> 1 ReLU, 2 of these")]),
        ("td3.TD3Policy", (box(3), box(2)), {**CRITICS, "n_critics": 1},
         [("policy", "3 -> 4 -> 2 ReLU, Tanh"), ("q_values", "5 -> 5 -> 6 -> 1 ReLU")]),
        ("crossq.CrossQPolicy", (box(3), box(2)), CRITICS,
         [("policy", "3 -> 4 -> 2 batch normalization, ReLU"),
          ("q_values", "5 -> 5 -> 6 -> 1 batch normalization, ReLU, 2 of these")]),
        ("dqn.DQNPolicy", (box(3), discrete(4)), {"net_arch": []}, [("q_values", "3 -> 4")]),
        ("qrdqn.QRDQNPolicy", (box(3), discrete(4)), {"net_arch": [8], "n_quantiles": 5},
         [("q_values", "3 -> 8 -> 20 ReLU")]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_each_part_of_a_network_is_a_line(
    policy: str, spaces: tuple[Any, Any], arguments: dict[str, Any], parts: list[tuple[str, str]]
) -> None:
    network = sbformat.inspect(make_agent(policy, *spaces, **arguments)).network
    assert network is not None
    assert list_parts(network) == parts


def test_many_parts_take_little_time() -> None:
    """Ten thousand critics are one line."""

    def make(builder: GraphBuilder) -> Graph:
        value = builder.input(Input("observation", "float32", (4,)))
        matrix = builder.weight("w", tensor((1, 4)), "policy.pth:w")
        made = [builder.add("Gemm", value, matrix, transB=True, module=f"critic.{at}") for at in range(10_000)]
        return builder.build({"q_values": builder.add("Concat", *made, axis=-1)}, Sampling("none"))

    assert list_parts(summarize(build(make))) == [("q_values", "4 -> 1, 10000 of these")]


def test_many_parts_with_many_layers_in_common_take_little_time() -> None:
    def make(builder: GraphBuilder) -> Graph:
        value = builder.input(Input("observation", "float32", (4,)))
        wide, narrow = (
            builder.weight(name, tensor(shape), f"policy.pth:{name}")
            for name, shape in {"w": (4, 4), "v": (1, 4)}.items()
        )
        made = []
        for at in range(5000):
            value = builder.add("Gemm", value, wide, transB=True, module=f"shared.{at}")
            made.append(builder.add("Gemm", value, narrow, transB=True, module=f"critic.{at}"))
        return builder.build({"q_values": builder.add("Concat", *made, axis=-1)}, Sampling("none"))

    (first, *_), count = list_parts(summarize(build(make))), 64
    assert first == ("q_values", "4 -> 4 -> 1")
    assert len(list_parts(summarize(build(make)))) == count


def test_states_and_inferences_are_described() -> None:
    graph = build(lstm_graph)
    (layer,) = summarize(graph).layers
    assert (layer.operation, layer.inputs, layer.parameter_count) == ("LSTM", ("observation",), 16)
    text = graph.describe()
    for line in (
        "  hidden  hidden  lstm_actor/Tanh",
        "  epsilon_greedy  with the probability 0.05, a random action; the draw replaces action",
        "  the LSTM has 4 units",
    ):
        assert f"{line}\n" in text


def test_a_name_of_the_file_does_not_reach_the_terminal_as_it_is() -> None:
    def make(builder: GraphBuilder) -> Graph:
        evil = "\x1b[31m{mean}\n\u202e"
        value = builder.input(Input(evil, "float32", (4,), key=evil))
        matrix = builder.weight(f"{evil}.weight", tensor((2, 4)), f"policy.pth:{evil}.weight")
        mean = builder.add("Gemm", value, matrix, transB=True, module=evil)
        return builder.build({"action": mean}, Sampling("gaussian", mean.name, {"mean": mean.name, "log_std": evil}))

    text = build(make).describe()
    assert not {c for c in text if not (c.isprintable() or c == "\n")}


@pytest.mark.parametrize("count", [1000, 1001])
def test_a_long_network_is_cut(count: int) -> None:
    def make(builder: GraphBuilder) -> Graph:
        value = builder.input(Input("observation", "float32", (4,)))
        matrix = builder.weight("w", tensor((4, 4)), "policy.pth:w")
        for at in range(count):
            value = builder.add("Gemm", value, matrix, transB=True, module=f"layer.{at}")
        return builder.build({"action": value}, Sampling("none"))

    assert ("\u2026 and 1 more" in build(make).describe()) == (count > 1000)


NEWEST = generated_files("*.zip", "2.9.2")
SB2 = sorted((SHARED / "policies" / "sb2").glob("*.zip"))
GRAPHS = Draft202012Validator(load_schema("graph"))
REPORTS = Draft202012Validator(load_schema("report"))
COUNTS: Counter[str] = Counter()
summary_line = summarize_counts(COUNTS, "networks:")
LSTM = next((path for path in NEWEST if path.name == "recurrentppo-MlpLstmPolicy.zip"), None)
DICT = next((path for path in NEWEST if path.name == "her-sac-MultiInputPolicy.zip"), None)


@pytest.mark.parametrize("path", [*NEWEST, *SB2], ids=lambda path: path.stem)
def test_every_network_has_a_description(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        graph = sbformat.policy_graph(path, vecnormalize=False)
    except sbformat.SbformatError as error:
        COUNTS[type(error).__name__] += 1
        pytest.skip(str(error))
    COUNTS["described"] += 1
    GRAPHS.validate(json.loads(json.dumps(graph.to_dict(), allow_nan=False)))
    summary = summarize(graph)
    tensors = {weight.address for weight in graph.weights.values() if isinstance(weight.source, sbformat.TensorInfo)}
    shown = [address for layer in summary.layers for address in layer.weights]
    assert set(shown) == tensors
    assert sum(layer.parameter_count for layer in summary.layers) >= graph.parameter_count > 0
    assert [head.name for head in summary.heads] == list(graph.outputs)
    text = graph.describe()
    assert all(f"\n  {layer.name} " in text for layer in summary.layers)
    main(["inspect", str(path), "--format", "json"])
    report = json.loads(capsys.readouterr().out)
    REPORTS.validate(report)
    assert report["files"][0]["network"]["parameter_count"] == graph.parameter_count


def predict(capsys: pytest.CaptureFixture[str], path: Path, observation: object, *options: str) -> list[object]:
    """The actions that the command prints."""
    assert main(["predict", str(path), "--observation", json.dumps(observation), "--format", "json", *options]) == 0
    document = json.loads(capsys.readouterr().out)
    REPORTS.validate(document)
    (report,) = document["files"]
    made: list[object] = report["outputs"]["value"] if report["outputs"] else report["actions"]
    return made


@pytest.mark.skipif(LSTM is None, reason="there are no generated archives")
def test_a_sequence_carries_the_state_from_step_to_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert LSTM is not None
    policy = sbformat.load_policy(LSTM)
    shape = policy.observation_space.shape  # type: ignore[attr-defined]
    steps = [[0.3 * number] * shape[0] for number in range(5)]
    apart = predict(capsys, LSTM, steps, "--outputs")
    together = predict(capsys, LSTM, steps, "--outputs", "--sequence")
    assert together[0] == pytest.approx(apart[0], rel=1e-5)
    assert together[-1] != pytest.approx(apart[-1], rel=1e-4)
    state, expected = None, []
    for number, step in enumerate(steps):
        action, state = policy.predict(step, state, [number == 0], deterministic=True)
        expected.append(action.tolist())
    assert predict(capsys, LSTM, steps, "--sequence") == expected


@pytest.mark.skipif(DICT is None, reason="there are no generated archives")
def test_a_dict_observation_is_an_object_or_an_npz(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    import numpy as np

    assert DICT is not None
    parts = {item.key: item.shape for item in sbformat.policy_graph(DICT).inputs}
    batch = {str(key): np.linspace(-1, 1, 3 * shape[0]).reshape(3, *shape) for key, shape in parts.items()}
    plain = {key: part.tolist() for key, part in batch.items()}
    expected = sbformat.load_policy(DICT).predict(batch, deterministic=True)[0].tolist()
    assert predict(capsys, DICT, plain) == expected
    np.testing.assert_allclose(predict(capsys, DICT, plain, "--sequence"), expected, rtol=1e-5)
    np.savez(tmp_path / "o.npz", **batch)
    assert main(["predict", str(DICT), "--observation", str(tmp_path / "o.npz"), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"][0]["actions"] == expected
