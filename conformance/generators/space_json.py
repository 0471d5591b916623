"""Spaces and numbers in the JSON of a bundle (STATISTICS.md 17.6)."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final

from conformance.generators.build_bundles import (
    ASKED,
    SETTINGS,
    box,
    bundle,
    dict_space,
    discrete,
    expected_statistics,
    json_array,
)
from conformance.generators.vectors import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.generators.vectors import Vector

DATA: Final = "data failure"
TEXT_DTYPE: Final = "<U0"


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from numbers()
    yield from arrays()
    yield from items()
    yield from boxes()
    yield from fields()
    yield from several()
    yield from sizes()


def with_space(space: Any) -> bytes:
    """A bundle with this action space, which the statistics do not depend on."""
    return bundle({**SETTINGS, "action_space": space})


def accepts(rule: Rule, name: str, space: Any, printed: Any = None) -> Vector:
    """A space, and its expected output if that differs."""
    found = expected_statistics(action_space=space if printed is None else printed)
    return rule.accepts(f"space-{name}", with_space(space), found, ASKED)


def refuses(rule: Rule, name: str, space: Any) -> Vector:
    """A value that is not a space."""
    return rule.refuses(f"space-{name}", with_space(space), DATA, ASKED)


def numbers() -> Iterator[Vector]:
    rule = Rule("17.6", 'A number is a JSON number, or one of the texts `"Infinity"`, `"-Infinity"`, `"NaN"`.')
    for name, value in {
        "infinite": "Infinity",
        "below": "-Infinity",
        "nan": "NaN",
        "float": 0.1,
        "huge": 1e300,
    }.items():
        yield rule.accepts(
            f"number-{name}", bundle({**SETTINGS, "clip_obs": value}), expected_statistics(clip_obs=value), ASKED
        )
    broken: dict[str, Any] = {
        "text": "5", "word": "inf", "lower": "nan", "plus": "+Infinity", "bool": True, "array": [5.0], "object": {},
        "token-nan": math.nan, "token-infinity": math.inf,
    }  # fmt: skip
    for name, odd in broken.items():
        yield rule.refuses(f"number-{name}", bundle({**SETTINGS, "clip_obs": odd}), DATA, ASKED)
    text = json.dumps({**SETTINGS, "clip_obs": 5.25})
    yield rule.refuses("number-too-large", bundle(text.replace("5.25", "1e400").encode()), DATA, ASKED)
    rule = Rule("17.6", "An integer of at most 2^53 represents the float of its value; larger ones are refused.")
    for name, whole in {"one": 1, "2-53": 2**53, "minus-2-53": -(2**53)}.items():
        yield rule.accepts(
            f"number-whole-{name}",
            bundle({**SETTINGS, "clip_obs": whole}),
            expected_statistics(clip_obs=float(whole)),
            ASKED,
        )
    for name, whole in {
        "2-53-and-1": 2**53 + 1,
        "2-54": 2**54,
        "minus-2-53-and-1": -(2**53) - 1,
        "long": 10**400,
    }.items():
        yield rule.refuses(f"number-whole-{name}", bundle({**SETTINGS, "clip_obs": whole}), DATA, ASKED)


def discretes(array: Any) -> dict[str, Any]:
    """A MultiDiscrete of this array."""
    return {"type": "MultiDiscrete", "library": "gymnasium", "nvec": array, "start": None, "dtype": "<i8"}


def arrays() -> Iterator[Vector]:
    rule = Rule(
        "17.6",
        "An array is an object of `dtype` (numpy's code: `|b1`, `|i1`, `|u1`, `<i2`, ..., `<f8`; always little-endian)",
    )
    for code in ("i1", "u1", "i2", "u2", "i4", "u4", "u8"):
        yield accepts(rule, f"array-{code}", discretes(json_array(code, [2, 3])))
    yield accepts(rule, "array-b1", discretes(json_array("b1", [True, False])))
    for code in ("f2", "f4", "f8"):
        yield accepts(rule, f"array-{code}", discretes(json_array(code, [0.5, -2.0])))
    for name, dtype in {
        "big-endian": ">i8", "no-order": "i8", "order-of-u1": "<u1", "bar-of-i8": "|i8", "object": "|O8", "text": TEXT_DTYPE, "complex": "<c8",
        "date": "<m8", "name": "int64", "null": None, "array": ["<i8"],
    }.items():  # fmt: skip
        yield refuses(rule, f"array-dtype-{name}", discretes({"dtype": dtype, "shape": [2], "items": [2, 3]}))
    rule = Rule("17.6", "`shape` (an array of sizes)")
    yield accepts(rule, "array-of-two-axes", discretes(json_array("i8", [1, 2, 3, 4, 5, 6], (2, 3))))
    yield accepts(rule, "array-without-axes", discretes(json_array("i8", [5], ())))
    yield accepts(rule, "array-empty", discretes(json_array("i8", [], (2, 0))))
    for name, shape in {
        "number": 2, "text": "2", "negative": [2, -1], "float": [2.0], "bool": [True, 2], "null": None,
    }.items():  # fmt: skip
        yield refuses(rule, f"array-shape-{name}", discretes({"dtype": "<i8", "shape": shape, "items": [2, 3]}))
    rule = Rule("17.6", "A shape of more than 64 sizes, or whose items require 2^63 bytes or more, is refused")
    yield accepts(rule, "array-shape-of-64", discretes({"dtype": "<i8", "shape": [1] * 64, "items": [2]}))
    for name, shape in {"long": [1] * 65, "huge": [2**30, 2**30]}.items():
        yield refuses(rule, f"array-shape-{name}", discretes({"dtype": "<i8", "shape": shape, "items": 2}))
    rule = Rule("17.6", "An array is an object of `dtype`")
    for field in ("dtype", "shape", "items"):
        whole = json_array("i8", [2, 3])
        del whole[field]
        yield refuses(rule, f"array-without-{field}", discretes(whole))
    yield refuses(rule, "array-with-more", discretes({**json_array("i8", [2, 3]), "order": "C"}))
    yield refuses(rule, "array-as-a-list", discretes([2, 3]))
    yield refuses(rule, "array-null", discretes(None))


def items() -> Iterator[Vector]:
    rule = Rule("17.6", "`items`: an array of all items, the last axis fastest, or a single item that represents all")
    single = json_array("i8", 4, (2, 2))
    yield accepts(rule, "items-single", discretes(single))
    yield accepts(rule, "items-all-the-same", discretes(json_array("i8", [4, 4, 4, 4], (2, 2))), discretes(single))
    yield accepts(rule, "items-single-of-one", discretes(json_array("i8", 4, (1,))), discretes(json_array("i8", [4])))
    yield accepts(rule, "items-single-of-none", discretes(json_array("i8", 4, (0,))), discretes(json_array("i8", [])))
    yield accepts(rule, "items-zeros-of-two-signs", discretes(json_array("f4", [0.0, -0.0])))
    for name, odd in {
        "fewer": [1, 2, 3], "more": [1, 2, 3, 4, 5], "none": [], "nested": [[1, 2], [3, 4]], "null": None, "object": {}, "null-in-it": [1, 2, 3, None],
    }.items():  # fmt: skip
        yield refuses(rule, f"items-{name}", discretes(json_array("i8", odd, (2, 2))))
    rule = Rule(
        "17.6",
        "Items of `b1` are bools, those of integers JSON integers in its range, those of floats numbers (1) that the dtype represents exactly.",
    )
    for code, (least, most) in {
        "i1": (-128, 127),
        "u1": (0, 255),
        "i2": (-(2**15), 2**15 - 1),
        "u8": (0, 2**64 - 1),
        "i8": (-(2**63), 2**63 - 1),
    }.items():
        yield accepts(rule, f"items-range-of-{code}", discretes(json_array(code, [least, most])))
        yield refuses(rule, f"items-above-{code}", discretes(json_array(code, [least, most + 1])))
        yield refuses(rule, f"items-below-{code}", discretes(json_array(code, [least - 1, most])))
    exact = {"f4": 2.0**-149, "f2": 65504.0, "f8": 5e-324}
    for code, number in exact.items():
        yield accepts(rule, f"items-exact-{code}", discretes(json_array(code, [number, 1.0])))
    yield accepts(
        rule, "items-whole-for-floats", discretes(json_array("f4", [1, -2])), discretes(json_array("f4", [1.0, -2.0]))
    )
    words = json_array("f4", ["NaN", "Infinity", "-Infinity"])
    yield accepts(rule, "items-texts-for-floats", discretes(words))
    for name, (code, number) in {
        "f4-tenth": ("f4", 0.1), "f4-huge": ("f4", 1e300), "f4-tiny": ("f4", 1e-300), "f2-large": ("f2", 65520.0),
        "f4-whole": ("f4", 2**25 + 1), "f8-whole": ("f8", 2**53 + 1),
    }.items():  # fmt: skip
        yield refuses(rule, f"items-inexact-{name}", discretes(json_array(code, [number, 1.0])))
    for name, (code, wrong) in {
        "number-for-a-bool": ("b1", 1), "text-for-a-bool": ("b1", "true"), "bool-for-a-number": ("u1", True), "float-for-a-whole": ("i8", 1.0),
        "text-for-a-whole": ("i8", "1"), "nan-for-a-whole": ("i8", "NaN"), "bool-for-a-float": ("f4", True), "text-for-a-float": ("f4", "1.0"),
    }.items():  # fmt: skip
        yield refuses(rule, f"items-{name}", discretes(json_array(code, [wrong, wrong])))
        yield refuses(rule, f"items-single-{name}", discretes(json_array(code, wrong, (2,))))


PLAIN: Final = box((-1.0, 0.5), (1.0, 2.0))


def boxes() -> Iterator[Vector]:
    rule = Rule(
        "17.6",
        "`Box`: `shape`; `dtype`; `low`, `high`: arrays (2) of that shape; `bounded_below`, `bounded_above`: arrays of that shape, or null if the release did not write them",
    )
    yield accepts(rule, "box-of-gym", {**PLAIN, "library": "gym", "bounded_below": None, "bounded_above": None})
    yield accepts(
        rule,
        "box-unbounded",
        box(
            (-math.inf, 0.0),
            (1.0, math.inf),
            bounded_below=json_array("b1", [False, True]),
            bounded_above=json_array("b1", [True, False]),
        ),
    )
    for name, changes in {
        "shape": {"shape": [3]}, "low": {"low": json_array("f4", [0.0])}, "high": {"high": json_array("f4", [1.0, 2.0], (2, 1))},
        "bounded-below": {"bounded_below": json_array("b1", [True])}, "bounded-above": {"bounded_above": json_array("b1", True, [3])},
        "low-null": {"low": None}, "shape-null": {"shape": None}, "flags-of-bools": {"bounded_below": True},
    }.items():  # fmt: skip
        yield refuses(rule, f"box-{name}", {**PLAIN, **changes})
    rule = Rule("17.6", "The `dtype` of a space is numpy's code of a number, in any byte order, or `<U0`.")
    for name, dtype in {"u1": "|u1", "big-endian": ">f4", "text": TEXT_DTYPE}.items():
        yield accepts(rule, f"dtype-{name}", {**PLAIN, "dtype": dtype})
    for name, odd in {
        "object": "|O8",
        "date": "<m8",
        "name": "float32",
        "no-order": "f4",
        "null": None,
        "array": ["<f4"],
    }.items():
        yield refuses(rule, f"dtype-{name}", {**PLAIN, "dtype": odd})


def spaces() -> dict[str, dict[str, Any]]:
    """One of each type."""
    head = {"library": "gymnasium"}
    return {
        "Box": PLAIN,
        "Discrete": discrete(3, start=-1),
        "MultiDiscrete": {**discretes(json_array("i8", [2, 3])), "start": json_array("i8", [0, 1])},
        "MultiBinary": {"type": "MultiBinary", **head, "shape": [2, 3], "dtype": "|i1"},
        "Dict": {**dict_space({"b": PLAIN, "a": discrete(2)}), "sort_keys": False},
        "Tuple": {"type": "Tuple", **head, "spaces": [PLAIN, discrete(2)]},
        "OneOf": {"type": "OneOf", **head, "spaces": [discrete(2), PLAIN]},
        "Text": {"type": "Text", **head, "min_length": 1, "max_length": 8, "characters": "ab\u00e9"},
        "Sequence": {"type": "Sequence", **head, "feature_space": PLAIN, "stack": True},
        "Graph": {"type": "Graph", **head, "node_space": PLAIN, "edge_space": discrete(2)},
    }


def fields() -> Iterator[Vector]:
    rule = Rule(
        "17.6",
        "A space is an object of `type`, `library` (`gym` or `gymnasium`) and the fields of its type, and no others.",
    )
    for name, space in spaces().items():
        label = name.lower()
        yield accepts(rule, f"of-{label}", space)
        yield refuses(rule, f"{label}-with-more", {**space, "np_random": None})
        for field in space:
            less = {key: value for key, value in space.items() if key != field}
            yield refuses(rule, f"{label}-without-{field.replace('_', '-')}", less)
    for label, odd in {"number": 3, "text": "Box", "array": [], "empty": {}, "bool": False}.items():
        yield refuses(rule, f"as-{label}", odd)
    for label, changes in {
        "type-unknown": {"type": "Mine"}, "type-lower": {"type": "box"}, "type-array": {"type": ["Box"]}, "type-null": {"type": None},
        "library-unknown": {"library": "mine"}, "library-null": {"library": None}, "library-array": {"library": []},
    }.items():  # fmt: skip
        yield refuses(rule, label, {**PLAIN, **changes})


def several() -> Iterator[Vector]:
    made = spaces()
    wrong: dict[str, tuple[str, dict[str, Any]]] = {
        "Discrete": ("`Discrete`: `n`, `start`: integers; `dtype`", {
            "n-float": {"n": 3.0}, "n-text": {"n": "3"}, "n-bool": {"n": True}, "start-null": {"start": None},
        }),
        "MultiDiscrete": ("`MultiDiscrete`: `nvec`: an array; `start`: an array of its shape, or null for zeros; `dtype`", {
            "start-of-another-shape": {"start": json_array("i8", [1])}, "start-number": {"start": 0}, "nvec-null": {"nvec": None},
        }),
        "MultiBinary": ("`MultiBinary`: `shape`; `dtype`", {"shape-number": {"shape": 3}, "shape-negative": {"shape": [-1]}}),
        "Dict": ("`Dict`: `spaces`: an array of pairs `[name, space]`, no name twice; `sort_keys`: bool", {
            "spaces-object": {"spaces": {"a": PLAIN}}, "spaces-of-one": {"spaces": [["a"]]}, "spaces-of-three": {"spaces": [["a", PLAIN, 1]]},
            "spaces-name-number": {"spaces": [[1, PLAIN]]}, "spaces-name-twice": {"spaces": [["a", PLAIN], ["a", PLAIN]]},
            "spaces-null": {"spaces": [["a", None]]}, "sort-keys-number": {"sort_keys": 1}, "sort-keys-null": {"sort_keys": None},
        }),
        "Tuple": ("`Tuple`, `OneOf`: `spaces`: an array of spaces", {
            "spaces-object": {"spaces": {}}, "spaces-null": {"spaces": [None]}, "spaces-number": {"spaces": [1]},
        }),
        "OneOf": ("`Tuple`, `OneOf`: `spaces`: an array of spaces", {"spaces-null": {"spaces": None}, "spaces-text": {"spaces": ["a"]}}),
        "Text": ("`Text`: `min_length`, `max_length`, `characters`", {
            "length-float": {"min_length": 1.0}, "length-null": {"max_length": None}, "characters-array": {"characters": ["a", "b"]},
        }),
        "Sequence": ("`Sequence`: `feature_space`; `stack`: bool", {"space-null": {"feature_space": None}, "stack-number": {"stack": 1}}),
        "Graph": ("`Graph`: `node_space`; `edge_space`: a space or null", {"nodes-null": {"node_space": None}, "edges-number": {"edge_space": 1}}),
    }  # fmt: skip
    right: dict[str, dict[str, Any]] = {
        "Discrete": {"from-zero": {"start": 0}}, "MultiDiscrete": {"start-null": {"start": None}}, "MultiBinary": {"of-one-axis": {"shape": [4]}},
        "Dict": {"empty": {"spaces": []}, "nested": {"spaces": [["a", made["Dict"]], ["", made["Tuple"]]]}}, "Tuple": {"empty": {"spaces": []}},
        "OneOf": {"of-one": {"spaces": [PLAIN]}}, "Text": {"empty": {"characters": "", "min_length": 0}}, "Sequence": {"not-stacked": {"stack": False}},
        "Graph": {"without-edges": {"edge_space": None}},
    }  # fmt: skip
    for name, (sentence, changes) in wrong.items():
        rule = Rule("17.6", sentence)
        for label, change in right[name].items():
            yield accepts(rule, f"{name.lower()}-{label}", {**made[name], **change})
        for label, change in changes.items():
            yield refuses(rule, f"{name.lower()}-{label}", {**made[name], **change})


def sizes() -> Iterator[Vector]:
    rule = Rule(
        "17.6",
        "All arrays of one document may require no more bytes than `blobs_bytes`, which is checked before they are allocated.",
    )
    passed = "limit exceeded"
    huge = discretes(json_array("i8", 0, [2**33]))
    yield rule.refuses("space-array-of-much-memory", with_space(huge), passed, ASKED)
    both = bundle({**SETTINGS, "observation_space": PLAIN, "action_space": PLAIN})
    found = expected_statistics(observation_space=PLAIN, action_space=PLAIN)
    asked_for = 2 * (2 * 2 * 4 + 2 * 2)
    yield rule.accepts("space-arrays-at-the-limit", both, found, ASKED, "--limit", f"blobs_bytes={asked_for}")
    yield rule.refuses("space-arrays-above-the-limit", both, passed, ASKED, "--limit", f"blobs_bytes={asked_for - 1}")
