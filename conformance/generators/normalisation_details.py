"""Normalization statistics in a pickle: libraries, the order of keys, levels of spaces (STATISTICS.md 17.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conformance.generators import build_bundles as facts
from conformance.generators.build_bundles import ASKED, expected_statistics, means
from conformance.generators.build_objects import (
    NORMALIZE,
    RUNNING,
    SB2,
    SB2_NORMALIZE,
    SB2_RUNNING,
    dict_space,
    discrete,
    doubles,
    instance,
    numbers,
    pack_items,
    running_mean,
    scalar,
    space,
)
from conformance.generators.build_pth import Apply, Name, dumps
from conformance.generators.normalisation import (
    ATTRIBUTES,
    KEYS_ARRAYS,
    PARTS,
    TENSOR,
    UNSUPPORTED,
    number,
    pickled,
)
from conformance.generators.vectors import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.generators.vectors import Vector


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from libraries()
    yield from exact_numbers()
    yield from orders_of_keys()
    yield from levels()


def libraries() -> Iterator[Vector]:
    """Statistics of the class of each library, with a root of each."""
    rule = Rule("17.1", "`<library>` is `stable_baselines3` or `stable_baselines`, each with a root of either library.")
    older = running_mean(doubles(1, 2), doubles(3, 4), 5.0, SB2_RUNNING)
    returns = running_mean(number(0.5), number(2.0), 6.0, SB2_RUNNING)
    for name, changes in {
        "one": {"obs_rms": older}, "other": {"ret_rms": returns}, "both": {"obs_rms": older, "ret_rms": returns},
    }.items():  # fmt: skip
        yield rule.accepts(f"norm-sb2-statistics-{name}", pickled(**changes), expected_statistics(), ASKED)
        found = expected_statistics(library=SB2)
        yield rule.accepts(f"norm-sb2-statistics-{name}-of-sb2", pickled(SB2_NORMALIZE, **changes), found, ASKED)
    rule = Rule("17.1", 'Anything else in the place of statistics is a "tensor failure"')
    parts = {"mean": doubles(1, 2), "var": doubles(3, 4), "count": 5.0}
    elsewhere = {
        "in-sb3": Name("stable_baselines3.common.vec_env.vec_normalize", "RunningMeanStd"),
        "in-sb2": Name("stable_baselines.common.math_util", "RunningMeanStd"),
    }
    for name, cls in elsewhere.items():
        yield rule.refuses(f"norm-statistics-{name}", pickled(obs_rms=instance(cls, parts)), TENSOR, ASKED)
    more = instance(RUNNING, {**parts, "epsilon": 1e-4})
    yield rule.refuses("norm-statistics-with-more", pickled(obs_rms=more), TENSOR, ASKED)
    yield rule.refuses("norm-statistics-of-a-whole", pickled(obs_rms=instance(NORMALIZE, ATTRIBUTES)), TENSOR, ASKED)
    rule = Rule("17.2", 'one with a fourth attribute is something else ("unsupported").')
    yield rule.refuses("norm-lone-with-more", dumps(more), UNSUPPORTED, ASKED)


def exact_numbers() -> Iterator[Vector]:
    """Integers that floats represent or not, and what else is a number."""
    rule = Rule("17.1", 'An integer of more than 2^53 in absolute value is a "tensor failure", of numpy too.')
    for name, value in {"2-53": 2**53, "minus-2-53": -(2**53)}.items():
        found = expected_statistics(clip_obs=float(value))
        yield rule.accepts(f"norm-clip-{name}", pickled(clip_obs=value), found, ASKED)
        of_numpy = scalar(pack_items("i8", value), "i8")
        yield rule.accepts(f"norm-clip-{name}-of-numpy", pickled(clip_obs=of_numpy), found, ASKED)
        above = value + (1 if value > 0 else -1)
        yield rule.refuses(f"norm-clip-{name}-and-1", pickled(clip_obs=above), TENSOR, ASKED)
        of_numpy = scalar(pack_items("i8", above), "i8")
        yield rule.refuses(f"norm-clip-{name}-and-1-of-numpy", pickled(clip_obs=of_numpy), TENSOR, ASKED)
    counted = running_mean(doubles(1, 2), doubles(3, 4), 2**54)
    yield rule.refuses("norm-count-2-54", pickled(obs_rms=counted), TENSOR, ASKED)
    rule = Rule("17.1", "An array without dimensions is the same as a numpy scalar.")
    single = {"clip_obs": numbers("f8", 5, shape=()), "training": numbers("b1", False, shape=())}
    found = expected_statistics(clip_obs=5.0, training=False)
    yield rule.accepts("norm-numbers-in-arrays", pickled(**single), found, ASKED)
    rule = Rule("17.1", "A bool is not a number, nor is a complex number.")
    for name, odd in {"numpy-bool": scalar(b"\1", "b1"), "complex": scalar(pack_items("c16", 1, 0), "c16")}.items():
        yield rule.refuses(f"norm-clip-of-{name}", pickled(clip_obs=odd), TENSOR, ASKED)


def orders_of_keys() -> Iterator[Vector]:
    """Keys that are inferred: in the order of the space or of the statistics, and not sorted."""
    rule = Rule("17.1", "The keys are then those of the space, in its order.")
    statistics = {"image": running_mean(doubles(5, 6), doubles(7, 8), 9.0), "vector": ATTRIBUTES["obs_rms"]}
    arrays = KEYS_ARRAYS | means("obs_rms/image", (5, 6), (7, 8), 9)
    made: dict[str, Any] = {"obs_rms": statistics, "observation_space": dict_space(dict(reversed(PARTS.items())))}
    boxes = {"vector": facts.box((-1.0, -2.0), (1.0, 2.0)), "image": facts.box((0.0, 0.5), (1.0, 2.0))}
    found = {"obs_rms": ["image", "vector"], "norm_obs_keys": ["vector", "image"]}
    spaces = {"observation_space": facts.dict_space(boxes)}
    yield rule.accepts(
        "norm-keys-in-space-order", pickled(**made), expected_statistics(arrays, **found, **spaces), ASKED
    )
    unused = expected_statistics(arrays, **found, **spaces, norm_obs=False)
    rule = Rule("17.1", "The same applies if `norm_obs` is false.")
    yield rule.accepts("norm-keys-in-space-order-unused", pickled(**made, norm_obs=False), unused, ASKED)
    rule = Rule("17.1", "Without a known space they are those of the statistics, in their order.")
    alone = {"obs_rms": dict(reversed(statistics.items()))}
    names = {"obs_rms": ["vector", "image"], "norm_obs_keys": ["vector", "image"]}
    yield rule.accepts("norm-keys-in-statistics-order", pickled(**alone), expected_statistics(arrays, **names), ASKED)


def nested(levels: int) -> Apply:
    """A Tuple in a Tuple, and so on."""
    made = discrete(2)
    for _ in range(levels):
        made = space("tuple", "Tuple", {"spaces": (made,)})
    return made


def nested_facts(levels: int, inner: dict[str, Any] | None = None) -> dict[str, Any]:
    """The JSON of ``nested``, or of another space within as many Tuples."""
    made = facts.discrete(2) if inner is None else inner
    for _ in range(levels):
        made = {"type": "Tuple", "library": "gymnasium", "spaces": [made]}
    return made


def levels() -> Iterator[Vector]:
    """Spaces at the limit of levels, and above it."""
    rule = Rule("17.1", 'A space with more than 20 levels is refused ("unsupported").')
    deep = nested_facts(19)
    yield rule.accepts(
        "norm-space-deep", pickled(action_space=nested(19)), expected_statistics(action_space=deep), ASKED
    )
    yield rule.refuses("norm-space-too-deep", pickled(action_space=nested(20)), UNSUPPORTED, ASKED)
    yield rule.refuses("norm-space-much-too-deep", pickled(action_space=nested(31)), UNSUPPORTED, ASKED)
    yield rule.refuses("norm-space-observed-too-deep", pickled(observation_space=nested(20)), UNSUPPORTED, ASKED)
    rule = Rule(
        "17.1", "one that contains others (Dict, Tuple, OneOf, Sequence, Graph) has one more than the deepest of them."
    )
    node = {"edge_space": None}
    wrappers: dict[str, Any] = {
        "dict": lambda part: dict_space({"b": discrete(2), "a": part}),
        "one-of": lambda part: space("oneof", "OneOf", {"spaces": (discrete(2), part)}),
        "sequence": lambda part: space("sequence", "Sequence", {"feature_space": part, "stack": False}),
        "graph-nodes": lambda part: space("graph", "Graph", {"node_space": part, **node}),
        "graph-edges": lambda part: space("graph", "Graph", {"node_space": discrete(2), "edge_space": part}),
    }
    head, two = {"library": "gymnasium"}, facts.discrete(2)
    found = {
        "dict": {"type": "Dict", **head, "spaces": [["b", two], ["a", nested_facts(18)]], "sort_keys": True},
        "one-of": {"type": "OneOf", **head, "spaces": [two, nested_facts(18)]},
        "sequence": {"type": "Sequence", **head, "feature_space": nested_facts(18), "stack": False},
        "graph-nodes": {"type": "Graph", **head, "node_space": nested_facts(18), **node},
        "graph-edges": {"type": "Graph", **head, "node_space": two, "edge_space": nested_facts(18)},
    }
    for name, wrap in wrappers.items():
        whole = expected_statistics(action_space=found[name])
        yield rule.accepts(f"norm-space-deep-{name}", pickled(action_space=wrap(nested(18))), whole, ASKED)
        yield rule.refuses(f"norm-space-too-deep-{name}", pickled(action_space=wrap(nested(19))), UNSUPPORTED, ASKED)
    rule = Rule("17.1", "An empty Dict has one level, and a Tuple of Discretes two.")
    empty = dict_space({})
    for _ in range(19):
        empty = space("tuple", "Tuple", {"spaces": (empty,)})
    yield rule.accepts(
        "norm-space-deep-empty",
        pickled(action_space=empty),
        expected_statistics(action_space=nested_facts(19, facts.dict_space({}))),
        ASKED,
    )
    more = space("tuple", "Tuple", {"spaces": (empty,)})
    yield rule.refuses("norm-space-too-deep-empty", pickled(action_space=more), UNSUPPORTED, ASKED)
