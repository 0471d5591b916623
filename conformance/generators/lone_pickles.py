"""Files that are one pickle: the kind of each, and its form as an archive (SB2.md 16.3, 16.4)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from conformance.generators import expected
from conformance.generators.build_objects import (
    BUFFER,
    NORMALIZE,
    RUNNING,
    SB2_NORMALIZE,
    SB2_RUNNING,
    array,
    doubles,
    floats,
    instance,
    running_mean,
    scalar,
)
from conformance.generators.build_pth import Apply, Change, Name, Pairs, dumps, ordered, text, torch_zip
from conformance.generators.build_pth import floats as single
from conformance.generators.vectors import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from conformance.generators.vectors import Vector

ASKED: Final = "--other-formats"
UNSUPPORTED: Final = "unsupported"
TENSOR: Final = "tensor failure"
PICKLE: Final = "pickle failure"
INERT: Final = {"inert": True}


def statistics(*mean: float, **others: Any) -> Apply:
    """A running mean."""
    return instance(RUNNING, {"mean": doubles(*mean), "var": doubles(*mean), "count": 4.5, **others})


def means(*mean: float) -> dict[str, Any]:
    """The expected output for it."""
    one = expected.tensor("float64", (len(mean),), struct.pack(f"<{len(mean)}d", *mean))
    return {"dict": [["mean", one], ["var", one], ["count", expected.floating(4.5)]]}


def expected_output(form: str, data: Sequence[Sequence[Any]], name: str, state_dict: Any) -> dict[str, Any]:
    """The expected output for a file."""
    return expected.archive({"data": {"dict": [list(pair) for pair in data]}, name: state_dict}, form)


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from roots()
    yield from others()
    yield from arrays()
    yield from data()
    yield from sharing()
    yield from agents()
    yield from policies()


NONE_OF_SB2: Final = expected_output("sb2-pickle", [], "parameters", expected.ordered_dict({}))


def roots() -> Iterator[Vector]:
    rule = Rule("16.3", "Its root determines its kind")
    yield rule.accepts("pickle-of-an-agent", dumps(({}, [])), NONE_OF_SB2, ASKED)
    held = expected_output(
        "vecnormalize", [["clip_obs", expected.floating(10.0)]], "statistics", {"dict": [["obs_rms", means(1, 2)]]}
    )
    made = {"obs_rms": statistics(1, 2), "clip_obs": 10.0}
    yield rule.accepts("pickle-of-vecnormalize", dumps(instance(NORMALIZE, made)), held, ASKED)
    yield rule.accepts("pickle-of-vecnormalize-sb2", dumps(instance(SB2_NORMALIZE, made)), held, ASKED)
    lone = expected_output("running-mean-std", [], "statistics", means(1))
    yield rule.accepts("pickle-of-statistics", dumps(statistics(1)), lone, ASKED)
    same = running_mean(doubles(1), doubles(1), cls=SB2_RUNNING)
    yield rule.accepts("pickle-of-statistics-sb2", dumps(same), lone, ASKED)
    rewards = expected.floats(1, 2)
    held = expected_output(
        "replay-buffer", [["pos", 1], ["full", False]], "replay_buffer", {"dict": [["rewards", rewards]]}
    )
    made = {"pos": 1, "full": False, "rewards": floats(1, 2)}
    yield rule.accepts("pickle-of-a-buffer", dumps(instance(BUFFER, made)), held, ASKED)
    rule = Rule("16.3", "or `copyreg._reconstructor` of a class, `builtins.object` and None, and one BUILD with a dict")
    parts = {"mean": doubles(1), "var": doubles(1), "count": 4.5}
    copied = Apply(
        Name("copyreg", "_reconstructor"), (RUNNING, Name("builtins", "object"), None), Change("BUILD", parts)
    )
    yield rule.accepts("pickle-of-statistics-reconstructed", dumps(copied), lone, ASKED)
    rule = Rule("16.3", "An object of another class is one of these if it has the attributes")
    mine = Name("agent", "Normalize")
    made = {"obs_rms": statistics(1, 2), "ret_rms": None, "clip_obs": 1, "extra": "x"}
    held = expected_output(
        "vecnormalize",
        [["ret_rms", None], ["clip_obs", 1], ["extra", "x"]],
        "statistics",
        {
            "dict": [["obs_rms", means(1, 2)]],
        },
    )
    yield rule.accepts("pickle-of-a-class-of-ones-own", dumps(instance(mine, made)), held, ASKED)


def others() -> Iterator[Vector]:
    rule = Rule("16.3", 'Any other pickle is refused ("unsupported").')
    system = Name("os", "system")
    for name, tree in {
        "none": None, "list": [], "tuple-of-lists": ([], []), "tuple-of-three": ({}, [], 1), "class": NORMALIZE,
        "unknown": instance(Name("agent", "Thing"), {"pos": 1}), "call": Apply(system, ("id",)),
        "arguments": Apply(NORMALIZE, (1,), how="NEWOBJ"), "no-state": Apply(NORMALIZE, (), how="NEWOBJ"),
        "two-states": Apply(NORMALIZE, (), Change("BUILD", {"a": 1}), Change("BUILD", {"a": 2}), how="NEWOBJ"),
        "another-state": Apply(NORMALIZE, (), Change("BUILD", ({}, {})), how="NEWOBJ"),
        "another-base": Apply(
            Name("copyreg", "_reconstructor"), (RUNNING, Name("builtins", "dict"), {}), Change("BUILD", {"mean": 1.0})
        ),
    }.items():  # fmt: skip
        yield rule.refuses(f"pickle-of-{name}", dumps(tree), UNSUPPORTED, ASKED)
    rule = Rule("16.3", "is one pickle by section 5, and nothing may follow it")
    whole = dumps(({}, []))
    yield rule.refuses("lone-pickle-behind", whole + b"x", PICKLE, ASKED)
    yield rule.refuses("lone-pickle-twice", whole * 2, PICKLE, ASKED)
    yield rule.refuses("lone-pickle-cut", whole[:-1], PICKLE, ASKED)
    yield rule.refuses("lone-pickle-opcode", whole[:-1] + b"\xff.", PICKLE, ASKED)
    unasked = Rule("1.3", "`.npz`, bare pickle: unsupported.")
    yield unasked.refuses("lone-pickle-not-asked-for", whole, UNSUPPORTED)
    rule = Rule(
        "16.3",
        'A pickle with a flag of 5.3 MUST be refused ("pickle failure"): values that remain on the stack, a part that is',
    )
    held = expected_output("sb2-pickle", [["a", {"list": [1]}]], "parameters", expected.ordered_dict({}))
    early = b"\x80\x02(}q\x00X\x01\x00\x00\x00a]K\x01as0h\x00]t."
    yield rule.accepts("lone-pickle-changed-early", early, held, ASKED)
    rule = Rule("16.3", "values that remain on the stack, a part that is changed after it was used")
    yield rule.refuses("lone-pickle-left-behind", b"\x80\x02N" + whole[2:], PICKLE, ASKED)
    late = b"\x80\x02(}q\x00]q\x01tq\x020h\x00X\x01\x00\x00\x00aK\x01sh\x02."
    yield rule.refuses("lone-pickle-changed-late", late, PICKLE, ASKED)


def arrays() -> Iterator[Vector]:
    rule = Rule(
        "16.3",
        "An attribute belongs to the state dict if it is an array, a `RunningMeanStd`, or a dict of either with text keys.",
    )
    made = {
        "obs_rms": {"a": statistics(1), "b": statistics(2, 3)},
        "old_obs": {"a": floats(1)},
        "old_reward": floats(2),
    }
    facts = [
        ["obs_rms", {"dict": [["a", means(1)], ["b", means(2, 3)]]}],
        ["old_obs", {"dict": [["a", expected.floats(1)]]}],
        ["old_reward", expected.floats(2)],
    ]
    held = expected_output("vecnormalize", [], "statistics", {"dict": facts})
    yield rule.accepts("statistics-by-key", dumps(instance(NORMALIZE, made)), held, ASKED)
    facts = [["old_obs", {"dict": [["a", expected.floats(1)]]}]]
    made = {"old_obs": ordered({"a": floats(1)}), "obs_spaces": {"a": floats(1), "b": 2}, "norm_obs_keys": []}
    data = [["obs_spaces", INERT], ["norm_obs_keys", {"list": []}]]
    held = expected_output("vecnormalize", data, "statistics", {"dict": facts})
    yield rule.accepts("statistics-mixed", dumps(instance(NORMALIZE, made)), held, ASKED)
    rule = Rule("16.3", "A numpy scalar is not an array, and an empty dict is not a dict of arrays: both are `data`.")
    number = scalar(struct.pack("<d", 1.5), "f8")
    made = {
        "a": number,
        "b": {},
        "c": ordered({}),
        "d": {"x": number},
        "e": ordered({"x": statistics(1)}),
        "f": {"x": [1]},
    }
    plain = [
        ["a", expected.floating(1.5)],
        ["b", {"dict": []}],
        ["c", {"dict": []}],
        ["d", {"dict": [["x", expected.floating(1.5)]]}],
    ]
    held = expected_output(
        "vecnormalize", [*plain, ["f", expected.plain({"x": [1]})]], "statistics",
        {"dict": [["e", {"dict": [["x", means(1)]]}]]},
    )  # fmt: skip
    yield rule.accepts("statistics-and-numbers", dumps(instance(NORMALIZE, made)), held, ASKED)
    one = expected.tensor("float64", (), struct.pack("<d", 1.5))
    lone = {"dict": [["mean", one], ["var", one], ["count", 3]]}
    number = scalar(struct.pack("<d", 1.5), "f8")
    rms = instance(RUNNING, {"mean": number, "var": number, "count": 3})
    yield rule.accepts(
        "statistics-of-rewards", dumps(rms), expected_output("running-mean-std", [], "statistics", lone), ASKED
    )
    for name, parts in {"text": {"mean": "x"}, "none": {"mean": None}, "nothing": {}}.items():
        yield rule.refuses(f"statistics-of-{name}", dumps(instance(RUNNING, parts)), TENSOR, ASKED)
    objects = array((1,), b"", "O8")
    yield rule.refuses("statistics-of-objects", dumps(statistics(1, mean=objects)), TENSOR, ASKED)


def data() -> Iterator[Vector]:
    rule = Rule("16.3", "JSON values are unchanged (a numpy scalar is its number")
    values = {"a": None, "b": True, "c": -5, "d": 0.5, "e": "x", "f": [1, "y"], "g": {"h": [2]}}
    pairs = [[key, expected.plain(value)] for key, value in values.items()]
    held = expected_output("sb2-pickle", pairs, "parameters", expected.ordered_dict({}))
    yield rule.accepts("agent-data", dumps((values, [])), held, ASKED)
    numbers = {
        "a": scalar(struct.pack("<f", 0.5), "f4"),
        "b": scalar(struct.pack("<q", -3), "i8"),
        "c": scalar(b"\1", "b1"),
    }
    pairs = [["a", expected.floating(0.5)], ["b", -3], ["c", True]]
    held = expected_output("sb2-pickle", pairs, "parameters", expected.ordered_dict({}))
    yield rule.accepts("agent-numbers", dumps((numbers, [])), held, ASKED)
    rule = Rule("16.3", "Any other part is the pickle of that part alone (12.3)")
    parts = {"policy": Name("agent", "Policy"), "f": Apply(Name("os", "system"), ("id",)), "a": floats(1), "k": {1: 2}}
    held = expected_output("sb2-pickle", [[key, INERT] for key in parts], "parameters", expected.ordered_dict({}))
    yield rule.accepts("agent-parts", dumps((parts, [])), held, ASKED)
    rule = Rule("16.3", "Names MUST be text, none twice.")
    yield rule.refuses("agent-name-number", dumps(({1: 2}, [])), PICKLE, ASKED)
    yield rule.refuses("agent-name-twice", dumps((Pairs(("a", 1), ("a", 2)), [])), PICKLE, ASKED)
    yield from names_of_objects()
    empty = expected_output("sb2-pickle", [["", 1]], "parameters", expected.ordered_dict({}))
    yield rule.accepts("agent-name-empty", dumps(({"": 1}, [])), empty, ASKED)


def names_of_objects() -> Iterator[Vector]:
    """Names of attributes that are not distinct texts, also of those that are arrays."""
    rule = Rule("16.3", 'Other names, of any attribute of the root and of an agent\'s `data`, are a "pickle failure".')
    two = {"a": (("a", floats(1)), ("a", floats(2))), "rms": (("a", statistics(1)), ("a", statistics(2)))}
    for name, pairs in {**two, "number": (("a", floats(1)), (1, floats(2)))}.items():
        named = {"clip_obs": 1.0}.items()
        for kind, cls in (("normalize", NORMALIZE), ("running", RUNNING), ("buffer", BUFFER)):
            made = Apply(cls, (), Change("BUILD", Pairs(*named, *pairs)), how="NEWOBJ")
            yield rule.refuses(f"names-of-{kind}-{name}", dumps(made), PICKLE, ASKED)
    rule = Rule("16.3", "Of two equal keys of another dict, the last one applies, as in Python.")
    twice = {"a": Pairs(("k", 1), ("j", 2), ("k", 3))}
    held = expected_output(
        "sb2-pickle", [["a", expected.plain({"k": 3, "j": 2})]], "parameters", expected.ordered_dict({})
    )
    yield rule.accepts("agent-key-twice", dumps((twice, [])), held, ASKED)


def counted_parts() -> Iterator[Vector]:
    """The parts of 16.3.4, on both sides of their limit."""
    parts: Any = [1, 2]
    number = 3
    for _ in range(6):
        parts = [parts, parts, parts]
        number = 3 * number + 1
    whole = dumps(({"a": parts, "b": 5}, []))
    rule = Rule("16.3", "parts - bytes of the pickle <= pickle_nodes;")
    excess = number + 1 - len(whole)
    assert excess > 300
    plain = {"a": _plain_parts(6), "b": 5}
    held = expected_output(
        "sb2-pickle",
        [[key, expected.plain(value)] for key, value in plain.items()],
        "parameters",
        expected.ordered_dict({}),
    )
    yield rule.accepts("agent-parts-at", whole, held, ASKED, "--limit", f"pickle_nodes={excess}")
    yield rule.refuses("agent-parts-above", whole, "limit exceeded", ASKED, "--limit", f"pickle_nodes={excess - 1}")

    rule = Rule("16.3", "parts = parts + 128 + 8 x (lists, tuples, Dicts, Sets, FrozenSets and nodes of 5.2 that the")
    shared = [1]
    kept = [1, Apply(Name("os", "system"), (shared, shared, (), (), b"id")), 2]
    whole = dumps(({"a": kept}, []))
    excess = 3 + 128 + 8 * 6 - len(whole)  # visited: the list, 1, the call; kept: two lists, a call, a name, two tuples
    held = expected_output("sb2-pickle", [["a", INERT]], "parameters", expected.ordered_dict({}))
    yield rule.accepts("agent-kept-part-at", whole, held, ASKED, "--limit", f"pickle_nodes={excess}")
    yield rule.refuses("agent-kept-part-above", whole, "limit exceeded", ASKED, "--limit", f"pickle_nodes={excess - 1}")


def counted_texts() -> Iterator[Vector]:
    """Texts, arrays and depth, on both sides of their limits."""
    rule = Rule("16.3", "texts - bytes of the pickle <= json_bytes")
    word, key, number = "x\u20ac" * 100, "k" * 50, 1 << 815
    shared = {key: word, "n": number}
    whole = dumps(({"a": [shared] * 20}, []))
    excess = 20 * (len(word) + len(key) + len("n") + 816 // 8) - len(whole)
    assert excess > 300
    values = [expected.plain(shared)] * 20
    held = expected_output("sb2-pickle", [["a", {"list": values}]], "parameters", expected.ordered_dict({}))
    yield rule.accepts("agent-texts-at", whole, held, ASKED, "--limit", f"json_bytes={excess}")
    yield rule.refuses("agent-texts-above", whole, "limit exceeded", ASKED, "--limit", f"json_bytes={excess - 1}")
    rule = Rule("16.3", "arrays - 8 x distinct <= expanded_items")
    one, other = floats(*range(100)), floats(1)
    whole = dumps(({}, [one] * 20 + [other]))
    tensors = [expected.floats(*range(100))] * 20 + [expected.floats(1)]
    held = expected_output(
        "sb2-pickle", [], "parameters", expected.ordered_dict({str(at): info for at, info in enumerate(tensors)})
    )
    excess = 20 * 400 - 8 * 400  # before the last array
    yield rule.accepts("agent-arrays-at", whole, held, ASKED, "--limit", f"expanded_items={excess}")
    yield rule.refuses("agent-arrays-above", whole, "limit exceeded", ASKED, "--limit", f"expanded_items={excess - 1}")
    rule = Rule("16.3", "depth <= json_depth")
    deep = dumps(({"a": [[1]]}, []))
    held = expected_output("sb2-pickle", [["a", expected.plain([[1]])]], "parameters", expected.ordered_dict({}))
    yield rule.accepts("agent-depth-at", deep, held, ASKED, "--limit", "json_depth=3")
    yield rule.refuses("agent-depth-above", deep, "limit exceeded", ASKED, "--limit", "json_depth=2")


def _plain_parts(depth: int) -> Any:
    return [1, 2] if depth == 0 else [_plain_parts(depth - 1)] * 3


def sharing() -> Iterator[Vector]:
    yield from counted_parts()
    yield from counted_texts()
    rule = Rule("16.3", "The number of parts minus the bytes of the pickle is at most `pickle_nodes`.")
    shared = [1, 2]
    pairs = [[key, {"list": [1, 2]}] for key in "ab"]
    held = expected_output("sb2-pickle", pairs, "parameters", expected.ordered_dict({}))
    yield rule.accepts("agent-shared", dumps(({"a": shared, "b": shared}, [])), held, ASKED)
    doubled: list[Any] = [1]
    for _ in range(30):
        doubled = [doubled, doubled]
    yield rule.refuses("agent-doubled", dumps(({"a": doubled}, [])), "limit exceeded", ASKED)
    rule = Rule("16.3", "The size of texts minus the bytes of the pickle is at most `json_bytes`.")
    words = b"](" + text("x" * 2000) + b"q\x05" + b"h\x05" * 1999 + b"e"
    yield rule.refuses(
        "agent-shared-text",
        b"\x80\x02}" + text("a") + words + b"s]\x86.",
        "limit exceeded",
        ASKED,
        "--limit",
        "json_bytes=2000000",
    )
    rule = Rule(
        "16.3", "The bytes of arrays minus eight times the bytes of all distinct arrays are at most `expanded_items`."
    )
    one = floats(*range(100))
    shared = dumps(({}, [one] * 200))
    yield rule.refuses("agent-shared-arrays", shared, "limit exceeded", ASKED, "--limit", "expanded_items=10000")


def agents() -> Iterator[Vector]:
    rule = Rule("16.4", "`params` is an OrderedDict of arrays by name, or a list of arrays alone.")
    tensors = {"model/b:0": expected.floats(1), "model/a:0": expected.floats(2, 3)}
    held = expected_output("sb2-pickle", [], "parameters", expected.ordered_dict(tensors))
    named = ordered({"model/b:0": floats(1), "model/a:0": floats(2, 3)})
    yield rule.accepts("parameters-by-name", dumps(({}, named)), held, ASKED)
    half = {"x": expected.tensor("float32", (), struct.pack("<f", 0.5))}
    made = ordered({"x": scalar(struct.pack("<f", 0.5), "f4")})
    held = expected_output("sb2-pickle", [], "parameters", expected.ordered_dict(half))
    yield rule.accepts("parameters-of-one-number", dumps(({}, made)), held, ASKED)
    rule = Rule("16.4", "they are named by their position, `0`, `1`, ...")
    tensors = {"0": expected.floats(1), "1": expected.floats(2, 3)}
    held = expected_output("sb2-pickle", [], "parameters", expected.ordered_dict(tensors))
    yield rule.accepts("parameters-by-position", dumps(({}, [floats(1), floats(2, 3)])), held, ASKED)
    rule = Rule("16.4", 'A value that is not an array of numbers is refused ("tensor failure").')
    for name, params in {
        "none": None, "numbers": [1.0], "lists": [[floats(1)]], "text": "ab", "by-number": {1: floats(1)}, "mixed": [floats(1), None],
        "named-none": ordered({"a": None}), "objects": [array((1,), b"", "O8")],
    }.items():  # fmt: skip
        yield rule.refuses(f"parameters-of-{name}", dumps(({}, params)), TENSOR, ASKED)


def policies() -> Iterator[Vector]:
    rule = Rule("1.4", "SB3's `policy.save` writes one torch file")
    values = struct.pack("<2f", 1, 2)
    state_dict, storages = ordered({"w": single((2,))}), {"0": values}
    space = instance(Name("my.spaces", "Space"), {"n": 3})
    data = {"observation_space": space, "action_space": None, "net_arch": [8]}
    held = expected_output(
        "policy-file",
        [["observation_space", INERT], ["action_space", None], ["net_arch", {"list": [8]}]],
        "policy.pth",
        expected.ordered_dict({"w": expected.tensor("float32", (2,), values)}),
    )
    whole = {"state_dict": state_dict, "data": data}
    yield rule.accepts("pickle-of-a-policy", torch_zip(whole, storages), held, ASKED)
    turned = {"data": data, "state_dict": state_dict}
    yield rule.accepts("pickle-of-a-policy-in-another-order", torch_zip(turned, storages), held, ASKED)
