"""How policies and networks are displayed in notebooks: spaces, inputs, layers and outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.errors import escape
from sbformat.rendering import count_noun
from sbformat.values.render import render_line

if TYPE_CHECKING:
    from sbformat.notebook import Markup
    from sbformat.policies.describe import Summary
    from sbformat.policies.graph import Graph
    from sbformat.policies.run.policy import Policy


_MOST_NODES: Final = 2000
_NAMES: Final = 6  # of inputs and of outputs in a line
_SHOWN: Final = ("layers", "outputs")  # the tables that are not folded, by the beginning of their titles


def render(policy: Policy) -> str:
    """Return the HTML for notebooks."""
    from sbformat.notebook import render_output, render_table

    statistics = "normalized with statistics of VecNormalize" if policy.vecnormalize is not None else "not normalized"
    facts = [
        ("observation space", render_line(policy.observation_space)),
        ("action space", render_line(policy.action_space)),
        ("observations", statistics),
    ]
    title = f"Policy: {policy.algorithm or 'of an unknown algorithm'}"
    return render_output(title, [render_table("", (), facts), *_list_parts(policy.graph)])


def render_graph(graph: Graph) -> str:
    """Return the HTML of a graph."""
    from sbformat.notebook import render_output

    return render_output(f"Graph: {describe_graph(graph)}", _list_parts(graph))


def describe_graph(graph: Graph) -> str:
    """Return the inputs, outputs and sizes of a graph in a line: ``observation -> action: 9 operations, ...``."""
    inputs = ", ".join(item.name for item in graph.inputs[:_NAMES])
    outputs = ", ".join(list(graph.outputs)[:_NAMES])
    numbers = f"{count_noun(len(graph.nodes), 'operation')}, {count_noun(graph.parameter_count, 'parameter')}"
    return f"{escape(inputs, 200)} -> {escape(outputs, 200)}: {numbers}"


def _list_parts(graph: Graph) -> list[Markup]:
    from sbformat.notebook import render_paragraph
    from sbformat.policies.describe import summarize

    if len(graph.nodes) > _MOST_NODES:
        return [render_paragraph(f"The network has {len(graph.nodes):,} operations; Graph.describe() lists them.")]
    return render_network(summarize(graph))


def render_network(summary: Summary) -> list[Markup]:
    """Return a table for each part of a network; those that are long to read are folded."""
    from sbformat.notebook import fold, render_table
    from sbformat.policies.describe import list_tables

    shown: list[Markup] = []
    folded: list[Markup] = []
    for table in list_tables(summary):
        markup = render_table(table.title, table.header, table.rows, right=table.right)
        (shown if table.title.startswith(_SHOWN) else folded).append(markup)
    return [*shown, fold("inputs, pre- and post-processing, sampling", folded)]
