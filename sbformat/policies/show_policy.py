"""How a policy is displayed in notebooks: its spaces, inputs, layers and outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.values.render import render_line

if TYPE_CHECKING:
    from sbformat.notebook import Markup
    from sbformat.policies.run.policy import Policy


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
    return render_output(title, [render_table("", (), facts), *_render_network(policy)])


def _render_network(policy: Policy) -> list[Markup]:
    """Return a table for each part of the network."""
    from sbformat.notebook import fold, render_paragraph, render_table
    from sbformat.policies.describe import list_tables, summarize

    count = len(policy.graph.nodes)
    if count > 2000:
        return [render_paragraph(f"The network has {count:,} operations; policy.graph.describe() lists them.")]
    shown: list[Markup] = []
    folded: list[Markup] = []
    for table in list_tables(summarize(policy.graph)):
        markup = render_table(table.title, table.header, table.rows, right=table.right)
        (shown if table.title.startswith(_SHOWN) else folded).append(markup)
    return [*shown, fold("inputs, pre- and post-processing, sampling", folded)]
