"""The table of operators: what every row needs, and that it is the only place where operators are listed."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import sbformat
from sbformat import UnsupportedError
from sbformat.nets.layers import ACTIVATION_NODES
from sbformat.policies import onnx
from sbformat.policies.c import calls
from sbformat.policies.c.export import name_arguments, write_source
from sbformat.policies.operators import OPERATORS, C, Operand, Operator, Parts
from sbformat.policies.run import kernels
from tests.policies.run.graphs import interpret, lower_graph, make_graph, run_graph
from tests.policies.run.models import box

EXPORTED: Final = {op: row for op, row in OPERATORS.items() if op != "Call"}
SOURCES: Final = Path(sbformat.__file__).parent / "policies"
LISTS: Final = {
    ("operators.py", "OPERATORS"),
    ("operators.py", "COMPOSED"),  # sequences of operators
    ("pytorch/modules.py", "_LSTM"),  # those of a layer of torch.nn
    ("pytorch/modules.py", "class Tree"),  # those of torch.nn's layers
}
"""The table, and the lists of more than two operators that are not about single operators."""
C_VIEWS: Final = {"same", "reshaped", "cast", "slice", "transposed"}
"""Those of ``find_view`` in the back end for C."""
OLDEST, NEWEST = 13, 21


def test_every_row_has_a_column_of_each_back_end_or_parts() -> None:
    for op, row in EXPORTED.items():
        assert row.parts or (row.numpy and row.c and row.onnx <= OLDEST), op


def test_the_functions_that_columns_name_exist() -> None:
    for op, row in OPERATORS.items():
        module, _, name = row.numpy.rpartition(".")
        assert not name or callable(getattr(np if module else kernels, name)), op
        assert row.c is None or callable(getattr(calls.Writer, f"write_{row.c.write}")), op
        assert callable(getattr(onnx, row.onnx_write)), op
        assert not row.view or (callable(getattr(kernels, f"view_{row.view}")) and row.view in C_VIEWS), op


def test_parts_have_columns_of_their_own() -> None:
    """So that no back end meets an operator that is made of itself."""
    for op, row in EXPORTED.items():
        if row.parts:
            operands = [Operand("float32", (4,), False, name) for name in "xyz"[: row.operands[0]]]
            parts = Parts("node", "float32")
            last = row.parts(parts, *operands, **dict.fromkeys(row.attributes, 1.0))
            assert last.name == parts.nodes[-1].name, op
            assert last[:2] == row.result(operands, dict.fromkeys(row.attributes, 1.0)), op
            for node in parts.nodes:
                inner = OPERATORS[node.op]
                assert inner.numpy, node.op
                assert inner.c, node.op
                assert inner.onnx <= OLDEST, node.op


def test_an_activation_of_torch_has_the_attributes_of_its_operator() -> None:
    activations = {op: row for op, row in OPERATORS.items() if row.activation}
    for op, row in activations.items():
        assert set(row.arguments) in (set(row.attributes), set()), op
        assert row.activation in ACTIVATION_NODES
    assert len({row.activation for row in activations.values()}) == len(activations)


def test_operators_are_listed_in_the_table_alone() -> None:
    found = set()
    for path in sorted(SOURCES.rglob("*.py")):
        name = path.relative_to(SOURCES).as_posix()
        for statement in ast.parse(path.read_text()).body:
            for node in ast.walk(statement):
                items = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [])
                words = {word for item in items if isinstance(item, ast.Constant) for word in str(item.value).split()}
                if len(words & set(OPERATORS)) > 2:
                    found.add((name, ast.unparse(statement).partition(":")[0]))
    assert found == LISTS


# -- an operator that a back end does not have --------------------------------------------------------


def square_plus(make: Parts, x: Operand, *, four: float) -> Operand:
    root = make.add("Sqrt", make.add("Add", make.add("Mul", x, x), make.constant("number", four)))
    return make.add("Div", make.add("Add", root, x), make.constant("number", 2.0))


def compute(x: np.ndarray) -> np.ndarray:
    return (x + np.sqrt(x * x + 4)) / 2


X: Final = np.random.default_rng(0).standard_normal((3, 2, 4)).astype(np.float32)


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> Operator:
    row = OPERATORS["LeakyRelu"]._replace(
        attributes=frozenset({"four"}),
        numpy="",
        c=None,
        onnx=99,
        activation="Squareplus",
        parts=square_plus,
    )
    monkeypatch.setitem(OPERATORS, "Squareplus", row)  # type: ignore[arg-type]
    return row


def write_c(graph: Any) -> str:
    lowered = lower_graph(graph)
    return write_source(lowered, name_arguments(lowered, "policy", box(1), box(1)), "policy", "policy.h").code


@pytest.mark.usefixtures("made_up")
def test_an_operator_of_parts_alone_runs_and_is_exported() -> None:
    graph, inputs = make_graph("Squareplus", [X], four=4.0)
    before = X.copy()
    np.testing.assert_allclose(run_graph(graph, inputs)["result"], compute(X), rtol=1e-6)
    assert np.array_equal(X, before)
    source = write_c(graph)
    assert [line.strip() for line in source.splitlines() if line.startswith("    /* result")] == [
        "/* result/Mul: Mul */", "/* result/Add: Add */", "/* result/Sqrt: Sqrt */", "/* result/Add_2: Add */",
        "/* result: Div */",
    ]  # fmt: skip
    for opset in (OLDEST, NEWEST):
        steps = onnx.translate(lower_graph(graph), opset, None).steps
        assert [step.op for step in steps] == ["Mul", "Add", "Sqrt", "Add", "Div"]
        assert steps[-1].output == "result"


@pytest.mark.usefixtures("made_up")
def test_it_may_follow_others_in_their_memory() -> None:
    """In numpy it has memory of its own, whatever its parts read last."""
    from sbformat.limits import Budget
    from sbformat.policies.builder import GraphBuilder
    from sbformat.policies.graph import Input, Sampling

    builder = GraphBuilder(Budget())
    made = builder.add("Squareplus", builder.add("Neg", builder.input(Input("x", "float32", (2, 4)))), four=4.0)
    graph = builder.build({"result": builder.add("Neg", made)}, Sampling("none"))
    np.testing.assert_allclose(run_graph(graph, {"x": X})["result"], -compute(-X), rtol=1e-6)


def test_a_column_goes_before_parts(made_up: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    row = made_up._replace(c=C("(x + sqrtf(x * x + four)) / 2.0f"), onnx=20)
    monkeypatch.setitem(OPERATORS, "Squareplus", row)  # type: ignore[arg-type]
    graph, _ = make_graph("Squareplus", [X], four=4.0)
    assert "out[i] = (x + sqrtf(x * x + four)) / 2.0f;" in write_c(graph)
    counts = {opset: len(onnx.translate(lower_graph(graph), opset, None).steps) for opset in (19, 20)}
    assert counts == {19: 5, 20: 1}


def test_an_operator_without_column_and_parts_is_refused_by_name(
    made_up: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = made_up._replace(numpy="leaky_relu", parts=None, attributes=frozenset({"alpha"}))
    monkeypatch.setitem(OPERATORS, "Squareplus", row)  # type: ignore[arg-type]
    graph, inputs = make_graph("Squareplus", [X], alpha=0.5)
    assert run_graph(graph, inputs)["result"].shape == X.shape
    with pytest.raises(UnsupportedError, match="'Squareplus' cannot be exported: C does not have it"):
        write_c(graph)
    with pytest.raises(UnsupportedError, match="'Squareplus' cannot be exported: opset 17 of ONNX does not have it"):
        onnx.translate(lower_graph(graph), 17, None)


def test_parts_compute_what_kernels_compute() -> None:
    """Those of operators that numpy has: they are what other back ends run."""
    attributes = {"LayerNormalization": {"epsilon": 1e-5}}
    for op, row in EXPORTED.items():
        if row.parts and row.numpy:
            operands = [np.random.default_rng(at).standard_normal((3, 4)).astype(np.float32) for at in range(3)]
            graph, inputs = make_graph(op, operands[: row.operands[0]], **attributes[op])
            expected = interpret(graph, inputs)["result"]
            with pytest.MonkeyPatch.context() as patch:
                patch.setitem(OPERATORS, op, row._replace(numpy=""))  # type: ignore[arg-type]
                np.testing.assert_allclose(run_graph(graph, inputs)["result"], expected, rtol=1e-5, atol=1e-6)
