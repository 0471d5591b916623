"""Programs: pruned, folded and bound in any way, they give what the plain interpreter gives."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sbformat
from sbformat.errors import ContainerError, LimitError, UnsupportedError
from sbformat.limits import Budget, Limits
from sbformat.policies.builder import GraphBuilder, Value
from sbformat.policies.graph import Graph, Input, Sampling
from sbformat.policies.run.program import Program, Weights
from sbformat.pth.values import Storage, TensorInfo, contiguous
from tests.helpers import thresholds
from tests.policies.run.graphs import interpret, random_value, run_graph

ARCHIVES = Path(__file__).parents[2] / "archives"


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def tensor(
    array: np.ndarray, dtype: str = "", *, offset: int = 0, strides: tuple[int, ...] | None = None
) -> TensorInfo:
    """Return an array as a tensor of a file; its memory begins ``offset`` bytes after an aligned address."""
    buffer = np.zeros(array.nbytes + 64, np.uint8)
    begin = -buffer.ctypes.data % 64 + offset
    buffer[begin : begin + array.nbytes] = np.frombuffer(array.tobytes(), np.uint8)
    view = memoryview(buffer)[begin : begin + array.nbytes]
    dtype = dtype or str(array.dtype)
    storage = Storage("0", dtype, array.size, "cpu", "little", lambda _: view, "test")
    return TensorInfo(dtype, array.shape, strides or contiguous(array.shape), 0, storage)


def build(*results: Value, builder: GraphBuilder) -> Graph:
    return builder.build({f"result {at}": value for at, value in enumerate(results)}, Sampling("none"))


def make_network() -> Graph:
    """A network of two inputs with branches, views, constants, and values that are used twice."""
    builder = GraphBuilder(Budget())
    x = builder.input(Input("x", "float32", (6,)))
    image = builder.input(Input("image", "uint8", (5, 5, 2)))
    mask = builder.input(Input("mask", "float32", (4,), 1.0, "action_masks"))
    scale = builder.add("Exp", random_value(builder, "log_scale", 6))
    x = builder.add("Mul", builder.add("Sub", x, random_value(builder, "mean", 6)), scale)
    pixels = builder.add("Cast", builder.add("Transpose", image, axes=(2, 0, 1)), to="float32")
    pixels = builder.add(
        "Conv", pixels, random_value(builder, "filters", 3, 2, 2, 2), strides=(1, 2), pads=(0, 1, 0, 0)
    )
    flat = builder.add("Reshape", builder.add("Tanh", pixels), shape=(36,))
    both = builder.add("Concat", x, builder.add("Relu", flat), random_value(builder, "extra", 2), axis=-1)
    hidden = builder.add("Gemm", both, random_value(builder, "w1", 8, 44), random_value(builder, "b1", 8), transB=True)
    gate = builder.add("Mul", hidden, builder.add("Sigmoid", hidden))
    left = builder.add("Slice", gate, axis=-1, start=0, end=4)
    right = builder.add("Slice", gate, axis=-1, start=4, end=8)
    logits = builder.add("Add", builder.add("Tanh", left), builder.add("Relu", right))
    kept = builder.add("Greater", mask, builder.constant(0.5))
    masked = builder.add("Where", kept, logits, builder.constant(-1e8), name="masked")
    chances = builder.add("Softmax", masked, axis=-1)
    action = builder.add("ArgMax", masked, axis=-1, name="action")
    return build(action, chances, masked, x, left, scale, builder=builder)


def make_inputs(count: int, *, seed: int = 0) -> dict[str, np.ndarray]:
    image = np.random.default_rng(seed).integers(0, 256, (count, 5, 5, 2)).astype(np.uint8)
    return {"x": numbers(count, 6, seed=seed), "image": image}


@pytest.mark.parametrize("is_masked", [False, True])
@pytest.mark.parametrize("count", [1, 2, 16, 17, 50])
def test_a_network_gives_what_a_plain_interpreter_gives(
    count: int, *, is_masked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thresholds.BATCH_ROWS, 16)
    graph, inputs = make_network(), make_inputs(count)
    if is_masked:
        inputs["mask"] = np.random.default_rng(1).integers(0, 2, (count, 4)).astype(np.float32)
    expected = interpret(graph, inputs)
    before = {name: value.copy() for name, value in inputs.items()}
    program = Program(graph, list(graph.outputs.values()), Weights(graph, Budget()))
    for _ in range(2):
        for name, made in zip(graph.outputs, program.run(inputs)):
            wanted = expected[name][0] if name == "result 5" else expected[name]  # the one that no input changes
            assert (made.dtype, made.shape) == (wanted.dtype, wanted.shape)
            np.testing.assert_allclose(made, wanted, rtol=1e-5, atol=1e-6)
            made[...] = 9  # the caller's own
    assert all(np.array_equal(before[name], inputs[name]) for name in inputs)


def test_only_what_is_wanted_is_needed() -> None:
    graph = make_network()
    program = Program(graph, [graph.outputs["result 3"]], Weights(graph, Budget()))
    assert [item.name for item in program.inputs] == ["x"]
    (made,) = program.run({"x": numbers(3, 6), "unknown": numbers(1)})
    np.testing.assert_allclose(made, interpret(graph, make_inputs(3))["result 3"], rtol=1e-5)


def test_weights_that_are_not_needed_are_not_read() -> None:
    builder = GraphBuilder(Budget())
    x = builder.input(Input("x", "float32", (2,)))

    def fail(_: str) -> memoryview:
        raise AssertionError

    broken = TensorInfo("float32", (2,), (1,), 0, Storage("0", "float32", 2, "cpu", "little", fail, "test"))
    graph = build(
        builder.add("Relu", x), builder.add("Add", x, builder.weight("b", broken, "test")), builder=builder
    )  # fmt: skip
    assert Program(graph, [graph.outputs["result 0"]], Weights(graph, Budget())).run({"x": numbers(1, 2)})


def test_from_a_value_that_the_caller_supplies() -> None:
    graph = make_network()
    program = Program(graph, ["action"], Weights(graph, Budget()), given=["masked"])
    assert [item.name for item in program.inputs] == ["masked"]
    drawn = numbers(5, 4)
    assert np.array_equal(program.run({"masked": drawn})[0], drawn.argmax(-1))
    (same,) = Program(graph, ["masked"], Weights(graph, Budget()), given=["masked"]).run({"masked": drawn})
    assert np.array_equal(same, drawn)
    assert same is not drawn


def test_a_weight_may_be_an_output() -> None:
    graph = make_network()
    program = Program(graph, ["mean", "action"], weights := Weights(graph, Budget()))
    mean, action = program.run(make_inputs(3))
    assert np.array_equal(mean, weights["mean"])
    assert mean.flags.writeable
    assert action.shape == (3,)
    (alone,) = Program(graph, ["mean"], weights).run({})
    assert np.array_equal(alone, mean)


def test_inputs_that_do_not_fit_are_refused() -> None:
    graph = make_network()
    program = Program(graph, ["action"], Weights(graph, Budget()))
    inputs = make_inputs(3)
    with pytest.raises(ValueError, match="expected the inputs x, image, got image"):
        program.run({"image": inputs["image"]})
    with pytest.raises(ValueError, match=r"expected an array of the shape \(3, 5, 5, 2\) as image, got none"):
        program.run({"x": inputs["x"]})
    with pytest.raises(ValueError, match=r"\(3, 5, 5, 2\) as image, got one of \(2, 5, 5, 2\)"):
        program.run({**inputs, "image": inputs["image"][:2]})
    with pytest.raises(ValueError, match=r"\(3, 6\) as x, got one of \(3, 1\)"):
        program.run({**inputs, "x": inputs["x"][:, :1]})
    assert len(program.run(inputs)[0]) == 3


def test_inputs_may_have_any_layout_and_dtype() -> None:
    graph, inputs = make_network(), make_inputs(4)
    expected = run_graph(graph, inputs)
    other = {"x": np.asfortranarray(inputs["x"]).astype(np.float64), "image": np.repeat(inputs["image"], 2, 0)[::2]}
    made = run_graph(graph, other)
    assert all(np.array_equal(made[name], expected[name]) for name in made)


@pytest.mark.parametrize("is_output", [False, True])
def test_inputs_that_are_cast_first(*, is_output: bool) -> None:
    builder = GraphBuilder(Budget())
    x = builder.input(Input("x", "float64", (3,)))
    narrow = builder.add("Cast", x, to="float32")
    graph = build(builder.add("Relu", narrow), *[x] * is_output, builder=builder)
    inputs = {"x": numbers(4, 3).astype(np.float64) + 1e-12}
    made = run_graph(graph, inputs)
    assert np.array_equal(made["result 0"], np.maximum(inputs["x"].astype(np.float32), 0))
    assert not is_output or np.array_equal(made["result 1"], inputs["x"])


def test_an_empty_batch() -> None:
    action, *_, scale = run_graph(make_network(), make_inputs(0)).values()
    assert (action.shape, scale.shape) == ((0,), (6,))


def test_infinities_and_nan_pass_without_warnings() -> None:
    graph, inputs = make_network(), make_inputs(3)
    inputs["x"][0], inputs["x"][1, 2], inputs["x"][2, ::2] = np.nan, np.inf, -3e38
    made, expected = run_graph(graph, inputs), interpret(graph, inputs)
    for name in ("result 1", "result 2"):
        np.testing.assert_allclose(made[name], expected[name], rtol=1e-5, atol=1e-6)
    assert np.geterr()["invalid"] == "warn"


def test_threads_use_one_program() -> None:
    graph = make_network()
    program = Program(graph, list(graph.outputs.values()), Weights(graph, Budget()))
    cases = [make_inputs(1 + seed % 3, seed=seed) for seed in range(8)]
    expected = [run_graph(graph, inputs) for inputs in cases]
    wrong: list[int] = []
    barrier = threading.Barrier(len(cases))

    def repeat(at: int) -> None:
        barrier.wait()
        for _ in range(300):
            made = program.run(cases[at])
            if not all(map(np.array_equal, made, expected[at].values())):
                wrong.append(at)

    threads = [threading.Thread(target=repeat, args=(at,)) for at in range(len(cases))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_an_operand_that_is_used_twice_in_a_node_is_not_replaced() -> None:
    builder = GraphBuilder(Budget())
    x = builder.add("Neg", builder.input(Input("x", "float32", (6,))))
    graph = build(builder.add("LayerNormalization", x, x, x, epsilon=1e-5), builder=builder)
    inputs = {"x": numbers(3, 6)}
    np.testing.assert_allclose(*(make(graph, inputs)["result 0"] for make in (run_graph, interpret)), rtol=1e-5)


def test_memory_is_used_again() -> None:
    graph = make_network()
    program = Program(graph, ["action"], Weights(graph, Budget()))
    program.run(make_inputs(2))
    plans = list(program._forms[()].plans[2])
    program.run(make_inputs(2))
    assert len(plans) == 1
    assert program._forms[()].plans[2] == plans


def test_memory_of_batches_of_many_sizes_is_not_kept() -> None:
    graph = make_network()
    program = Program(graph, ["action"], Weights(graph, Budget()))
    for count in range(1, 40):
        assert len(program.run(make_inputs(count))[0]) == count
    assert len(program._forms[()].plans) <= 8


# -- functions of the caller --------------------------------------------------------------------------


def make_call(keys: tuple[str, ...] = ()) -> Graph:
    builder = GraphBuilder(Budget())
    x, y = (builder.input(Input(name, "float32", (3,))) for name in "xy")
    extra = {"keys": keys} if keys else {}
    made = builder.add("Call", builder.add("Neg", x), y, function="extractor", dtype="float32", shape=(2,), **extra)
    return build(builder.add("Relu", made), builder=builder)


def test_a_function_gets_the_whole_batch_as_its_own_arrays() -> None:
    sizes = []

    def extract(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        sizes.append(len(x))
        made = (x + y)[:, :2].astype(np.float64)
        x[:] = y[:] = 0
        return made

    inputs = {"x": numbers(1000, 3), "y": numbers(1000, 3, seed=1)}
    made = run_graph(make_call(), inputs, functions={"extractor": extract})["result 0"]
    assert np.array_equal(made, np.maximum(inputs["y"] - inputs["x"], 0)[:, :2])
    assert sizes == [1000]
    parts = {"functions": {"extractor": lambda parts: extract(parts["a"], parts["b"])}}
    assert np.array_equal(run_graph(make_call(("a", "b")), inputs, **parts)["result 0"], made)


def test_a_function_may_use_the_program() -> None:
    graph, depths = make_call(), []

    def extract(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        depths.append(1)
        inner = program.run({"x": -x, "y": y})[0] if len(depths) < 3 else np.float32(0)
        return x[:, :2] + inner

    program = Program(graph, [graph.outputs["result 0"]], Weights(graph, Budget()), functions={"extractor": extract})
    x = numbers(2, 3)
    expected = np.zeros((2, 2), np.float32)
    for _ in range(3):
        expected = np.maximum(expected - x[:, :2], 0)
    assert np.array_equal(program.run({"x": x, "y": x})[0], expected)


@pytest.mark.parametrize(
    "function", [lambda x, y: x, lambda x, y: x[0, :2], lambda x, y: x[:, :2].astype("c8"), lambda x, y: None]
)  # fmt: skip
def test_a_result_of_a_function_that_does_not_fit_is_refused(function: Callable[..., Any]) -> None:
    program = make_call()
    inputs = {"x": numbers(4, 3), "y": numbers(4, 3)}
    with pytest.raises(ValueError, match=r"expected an array of float32 of the shape \(4, 2\) .* 'extractor', got"):
        run_graph(program, inputs, functions={"extractor": function})


def test_a_function_that_is_missing_is_named() -> None:
    with pytest.raises(UnsupportedError, match="expected a function for 'extractor', got none"):
        run_graph(make_call(), {"x": numbers(1, 3), "y": numbers(1, 3)}, functions={"other": abs})


# -- weights ------------------------------------------------------------------------------------------


def read_weight(info: Any, dtype: str = "", budget: Budget | None = None) -> np.ndarray:
    builder = GraphBuilder(Budget())
    graph = build(builder.weight("w", info, "test"), builder=builder)
    weight = graph.weights["w"]
    graph = graph._replace(weights={"w": weight._replace(dtype=dtype or weight.dtype)})
    return Weights(graph, budget or Budget())["w"]


def test_aligned_tensors_are_views_of_the_file() -> None:
    matrix = numbers(4, 3)
    for info in (tensor(matrix), tensor(matrix, strides=(1, 4)), tensor(matrix, offset=4), tensor(matrix[0])):
        made = read_weight(info)
        assert np.shares_memory(made, np.frombuffer(info.storage.bytes(), np.uint8))
        assert not made.flags.writeable
    large = numbers(300, 300)
    read_weight(tensor(large), budget=Budget(Limits(member_bytes=1)))  # nothing is copied, and so nothing charged


def test_tensors_whose_views_are_slow_are_copied_once() -> None:
    matrix = numbers(4, 3)
    for info in (tensor(matrix, offset=1), tensor(matrix, offset=2)):
        made = read_weight(info)
        assert not np.shares_memory(made, np.frombuffer(info.storage.bytes(), np.uint8))
        assert np.array_equal(made, matrix)
        assert made.flags.aligned
        assert not made.flags.writeable
        with pytest.raises(LimitError):
            read_weight(info, budget=Budget(Limits(member_bytes=8)))
    wide = tensor(numbers(4, 6))._replace(shape=(4, 3), strides=(6, 2))
    assert read_weight(wide).flags.c_contiguous


def test_filters_are_in_memory_as_convolutions_need_them() -> None:
    filters = numbers(5, 3, 2, 4)
    made = read_weight(tensor(filters))
    assert np.array_equal(made, filters)
    assert made.transpose(2, 3, 1, 0).flags.c_contiguous


def test_numbers_that_are_repeated_are_charged() -> None:
    builder = GraphBuilder(Budget())
    value = builder.constant(2.5, shape=(30, 40))
    graph = build(value, builder=builder)
    assert (Weights(graph, Budget())[value.name] == np.full((30, 40), 2.5, np.float32)).all()
    with pytest.raises(LimitError):
        Weights(graph, Budget(Limits(member_bytes=100)))[value.name]


def test_weights_are_shared_by_programs() -> None:
    graph = make_network()
    weights = Weights(graph, Budget())
    assert weights["w1"] is weights["w1"]
    assert "w1" in weights
    assert "x" not in weights


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_weights_of_another_dtype_are_converted(dtype: str) -> None:
    array = numbers(4, 3).astype(dtype)
    made = read_weight(tensor(array), "float32")
    assert made.dtype == np.float32
    assert np.array_equal(made, array.astype(np.float32))


def test_bfloat16() -> None:
    halves = (np.array([1.5, -2.0, 3e38, np.inf], np.float32).view(np.uint32) >> 16).astype(np.uint16)
    made = read_weight(tensor(halves, "bfloat16"), "float32")
    assert made[:2].tolist() == [1.5, -2.0]
    assert struct.unpack("<f", struct.pack("<HH", 0, halves[2])) == (made[2],)


def test_the_readers_error_is_raised_before_a_program_runs() -> None:
    def fail(_: str) -> memoryview:
        message = "expected the CRC-32 00000000, got 12345678"
        raise ContainerError(message)

    builder = GraphBuilder(Budget())
    broken = TensorInfo("float32", (2,), (1,), 0, Storage("0", "float32", 2, "cpu", "little", fail, "test"))
    x = builder.input(Input("x", "float32", (2,)))
    graph = build(builder.add("Add", x, builder.weight("b", broken, "test")), builder=builder)
    with pytest.raises(ContainerError, match="CRC-32"):
        Program(graph, [graph.outputs["result 0"]], Weights(graph, Budget()))


def test_tensors_of_an_archive() -> None:
    policy = sbformat.read(ARCHIVES / "ppo-cartpole.zip").parameters["policy"]
    for name, info in policy.tensors().items():
        assert np.array_equal(read_weight(info), policy[name])
