"""Text for people about a graph: :func:`list_tables` for a report, :func:`describe` as one text."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from sbformat.errors import escape
from sbformat.immutable import Record
from sbformat.policies.summary import summarize
from sbformat.rendering import render_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sbformat.policies.graph import Graph, Sampling
    from sbformat.policies.operators import Shape
    from sbformat.policies.summary import Layer, Step, Summary

_CELL: Final = 200
_ROWS: Final = 1000
_SIZES: Final = 8
_SAMPLING: Final = {
    "gaussian": "{mean} + exp({log_std}) * noise",
    "gsde": "{mean} + {latent} @ ({std} * noise), with noise that is drawn once",
    "categorical": "a choice with the probabilities softmax({logits})",
    "bernoulli": "1 with the probability sigmoid({logits}), else 0",
    "epsilon_greedy": "with the probability {rate}, a random action",
    "none": "none: the action is deterministic",
}
"""How an action is drawn, by the kind of ``Sampling``."""


class Table(Record):
    """A table of a description."""

    title: str
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    right: tuple[int, ...] = ()
    """Columns that are right-aligned."""


def describe(graph: Graph) -> str:
    """Return a graph as text: one table after another, escaped, with a line for each layer."""
    lines = []
    for table in list_tables(summarize(graph), with_weights=True):
        rows = [[escape(cell, _CELL) for cell in row] for row in table.rows[:_ROWS]]
        if rows:
            lines += ["", table.title, *(f"  {line}" for line in render_table(table.header, rows, table.right))]
        if len(table.rows) > _ROWS:
            lines.append(f"  \u2026 and {len(table.rows) - _ROWS:,} more")
    return "\n".join(lines[1:]) + "\n"


def list_tables(summary: Summary, *, with_weights: bool = False) -> list[Table]:
    """Return the tables of a description; cells are not escaped, and some tables have no rows.

    :param with_weights: with the addresses of each layer's weights
    """
    layers = Table(
        f"layers ({summary.parameter_count:,} parameters)",
        ("layer", "operation", "reads", "shape", "activation", "parameters", *(["weights"] if with_weights else [])),
        [_list_cells(layer, with_weights=with_weights) for layer in summary.layers],
        right=(5,),
    )
    outputs = [(head.name, head.dtype, render_shape(head.shape), head.source) for head in summary.heads]
    return [
        Table(
            "inputs",
            ("input", "dtype", "shape", "role"),
            [
                (item.name, item.dtype, render_shape(item.shape), _describe_role(item.role, item.key, item.default))
                for item in summary.inputs
            ],
        ),
        _make_steps("pre-processing", summary.preprocessing),
        layers,
        Table("outputs", ("output", "dtype", "shape", "from"), outputs),
        _make_steps("post-processing", summary.postprocessing),
        Table(
            "states", ("state", "input", "next value"), [(row.name, row.input, row.output) for row in summary.states]
        ),
        Table("sampling", (), [(summary.sampling.kind, describe_sampling(summary.sampling))]),
        Table("inferred", (), [(sentence,) for sentence in summary.inferred]),
    ]


def render_shape(shape: Shape) -> str:
    """Return a shape as text, ``4 x 84 x 84``."""
    return " x ".join(map(str, shape)) or "scalar"


def describe_sampling(sampling: Sampling) -> str:
    """Return how an action is drawn, as a phrase."""
    phrase = _SAMPLING[sampling.kind].format(rate=sampling.rate, **sampling.parameters)
    sizes = f", of {', '.join(map(str, sampling.sizes[:_SIZES]))} choices" if sampling.sizes else ""
    sizes = f"{sizes} in {len(sampling.sizes)} components" if len(sampling.sizes) > 1 else sizes
    replaces = f"; the draw replaces {sampling.replaces}" if sampling.replaces else ""
    return f"{phrase}{sizes}{replaces}"


def _join_addresses(addresses: Sequence[str]) -> str:
    """Return addresses as text; of one that begins as that before it, the last name: ``a:net.weight, .bias``."""
    shown = list(addresses[:1])
    for before, address in itertools.pairwise(addresses):
        start, dot, name = address.rpartition(".")
        shown.append(f".{name}" if dot and before.rpartition(".")[0] == start else address)
    return ", ".join(shown)


def _make_steps(title: str, steps: tuple[Step, ...]) -> Table:
    rows = [(step.name, step.operation, step.dtype, render_shape(step.shape)) for step in steps]
    return Table(title, ("step", "operation", "dtype", "shape"), rows)


def _list_cells(layer: Layer, *, with_weights: bool) -> tuple[str, ...]:
    before = ", ".join(dict.fromkeys(map(render_shape, layer.input_shapes)))
    after = render_shape(layer.shape)
    return (
        layer.name,
        layer.operation,
        ", ".join(layer.inputs),
        f"{before} -> {after}" if before else after,
        layer.activation or "",
        f"{layer.parameter_count:,}" if layer.weights else "",
        *([_join_addresses(layer.weights)] if with_weights else []),
    )


def _describe_role(role: str, key: str | None, default: float | None) -> str:
    shown = role.replace("_", " ")
    shown += f" {key!r}" if key is not None else ""
    return shown if default is None else f"{shown}, by default {default:g}"
