"""The diagram of a network: what reads what, and boxes that do not overlap."""

from __future__ import annotations

import re
from itertools import combinations

import sbformat
from sbformat.html_report.diagram import MOST_BOXES, Box, Diagram, list_boxes, make_diagram, shorten
from sbformat.policies.describe import Layer, Summary, summarize
from tests.helpers.bundled import PPO, SAC
from tests.helpers.many_cases import check_each
from tests.helpers.policy_vectors import ARCHIVES
from tests.helpers.vector_files import write_vector


def summarize_file(path: object) -> Summary:
    return summarize(sbformat.policy_graph(path))  # type: ignore[arg-type]


def list_edges(boxes: list[Box]) -> set[tuple[str, str]]:
    return {(boxes[source].title, box.title) for box in boxes for source in box.sources}


def draw(summary: Summary) -> Diagram:
    diagram = make_diagram(summary)
    assert diagram is not None
    return diagram


def test_the_boxes_of_an_actor_critic_read_each_other() -> None:
    boxes = list_boxes(summarize_file(PPO))
    assert list_edges(boxes) == {
        ("observation", "mlp_extractor.policy_net.0"),
        ("mlp_extractor.policy_net.0", "mlp_extractor.policy_net.2"),
        ("mlp_extractor.policy_net.2", "action_net"),
        ("observation", "mlp_extractor.value_net.0"),
        ("mlp_extractor.value_net.0", "mlp_extractor.value_net.2"),
        ("mlp_extractor.value_net.2", "value_net"),
        ("action_net", "action: scalar"),
        ("value_net", "value: 1"),
    }
    (policy,) = (box for box in boxes if box.title == "action: scalar")
    assert policy.lines == ("logits: 2", "probabilities: 2")
    (layer,) = (box for box in boxes if box.title == "mlp_extractor.policy_net.0")
    assert layer.lines == ("linear \u00b7 4 \u2192 8", "Tanh \u00b7 40 parameters")


def test_outputs_that_steps_compute_lead_to_the_layers_before_them() -> None:
    edges = list_edges(list_boxes(summarize_file(SAC)))
    assert {("critic.qf0.4", "q_values: 2"), ("critic.qf1.4", "q_values: 2")} <= edges
    assert ("actor", "action: 1") in edges
    assert {("observation", "critic"), ("actor", "critic")} <= edges


@check_each("name", ARCHIVES)
def test_every_known_policy_has_a_diagram_without_overlaps(name: str) -> None:
    summary = summarize_file(write_vector(name))
    diagram = draw(summary)
    for one, other in combinations(diagram.boxes, 2):
        apart = max(one.y, other.y) >= min(one.y + one.height, other.y + other.height)
        assert apart or abs(one.x - other.x) >= (one.width + other.width) / 2, (one.title, other.title)
    for box in diagram.boxes:
        assert box.x - box.width / 2 >= 0
        assert box.x + box.width / 2 <= diagram.width
        assert box.y + box.height <= diagram.height
    titles = [box.title for box in diagram.boxes]
    assert set(titles) >= {layer.name for layer in summary.layers}
    steps = {step.name for step in summary.preprocessing} & {name for layer in summary.layers for name in layer.inputs}
    assert titles.count("pre-processing") == len(steps)
    reading = {box.title for box in diagram.boxes if box.sources}
    assert {layer.name for layer in summary.layers if layer.inputs} <= reading


def test_lines_go_down_from_the_box_that_is_read() -> None:
    for line in draw(summarize_file(SAC)).lines:
        heights = [float(y) for y in re.findall(r"(?:[\d.-]+ |V)([\d.-]+)", line)]
        assert heights == sorted(heights)


def test_a_large_network_has_no_diagram() -> None:
    summary = summarize_file(PPO)
    layer: Layer = summary.layers[0]
    others = MOST_BOXES - len(list_boxes(summary))
    assert draw(summary._replace(layers=(*summary.layers, *(layer._replace(name=f"l{i}") for i in range(others)))))
    many = (*summary.layers, *(layer._replace(name=f"l{i}") for i in range(others + 1)))
    assert make_diagram(summary._replace(layers=many)) is None


def test_long_names_keep_their_beginning_and_their_end() -> None:
    assert shorten("action_net") == "action_net"
    shown = shorten(f"beginning{'x' * 1000}the_end")
    assert shown.startswith("beginning")
    assert shown.endswith("the_end")
    assert len(shown) <= 26
