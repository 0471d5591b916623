"""Details of the spaces in normalization statistics: defaults, forms, random generators (VALUES.md 13.1, 13.3, 13.4)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from conformance.generators import build_bundles as facts
from conformance.generators.build_bundles import ASKED, expected_statistics
from conformance.generators.build_objects import (
    RUNNING,
    array,
    box,
    dict_space,
    discrete,
    doubles,
    dtype,
    encoded_bytes,
    floats,
    given_pairs,
    numbers,
    objects,
    pack_items,
    reconstructed_array,
    running_mean,
    sample_array,
    scalar,
    space,
)
from conformance.generators.build_pth import Apply, Change, Name, Pairs, ordered
from conformance.generators.normalisation import TENSOR, UNSUPPORTED, pickled
from conformance.generators.vectors import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from conformance.generators.vectors import Vector

LIMIT: Final = "limit exceeded"
DUP_POP: Final = b"20"
BUILD_STOP: Final = b"b."
NUMPY: Final = "numpy.random._pickle"
ABSENT: Final = expected_statistics()
"""The expected output when the space is not known."""


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from dtypes()
    yield from shapes()
    yield from bounds()
    yield from containers()
    yield from shared_attributes()
    yield from given()
    yield from generators()
    yield from seeds()
    yield from sums()
    yield from forms()
    yield from other_values()
    yield from orders()


def of(value: object) -> bytes:
    """Statistics with this action space."""
    return pickled(action_space=value)


def found(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The expected output for it."""
    return expected_statistics(action_space=dict(fields))


def gym(kind: str, **fields: Any) -> dict[str, Any]:
    """A space of gym in JSON."""
    return {"type": kind, "library": "gym", **fields}


UNSAID: Final = {"library": "gym", "bounded_below": None, "bounded_above": None}
OLD_BOX: Final = {"low": doubles(-1, -2), "high": doubles(1, 2)}
OLD_BOX_FACTS: Final = {
    **facts.box((-1.0, -2.0), (1.0, 2.0), **UNSAID), "dtype": "<f8", "low": facts.json_array("f8", [-1.0, -2.0]),
    "high": facts.json_array("f8", [1.0, 2.0]),
}  # fmt: skip
"""A Box of the oldest releases: neither shape nor dtype."""
NVEC: Final = {"nvec": numbers("i4", 2, 3)}
NVEC_FACTS: Final = gym("MultiDiscrete", nvec=facts.json_array("i4", [2, 3]), start=None, dtype="<i4")


def dtypes() -> Iterator[Vector]:
    rule = Rule("13.4", "The oldest releases of gym have neither")
    binary = gym("MultiBinary", shape=[3], dtype="|i1")
    for name, made, fields in (
        ("box", space("box", "Box", OLD_BOX, "gym"), OLD_BOX_FACTS),
        ("multi-discrete", space("multi_discrete", "MultiDiscrete", NVEC, "gym"), NVEC_FACTS),
        ("multi-binary", space("multi_binary", "MultiBinary", {"n": 3}, "gym"), binary),
        ("discrete", space("discrete", "Discrete", {"n": 2}, "gym"), facts.discrete(2, library="gym")),
        ("box-none", space("box", "Box", {**OLD_BOX, "dtype": None}, "gym"), OLD_BOX_FACTS),
    ):
        yield rule.accepts(f"space-without-dtype-{name}", of(made), found(fields), ASKED)
    newer = {"n": 2, "start": 0, "_shape": (), "_np_random": None}
    yield rule.accepts("space-without-dtype-gymnasium", of(space("discrete", "Discrete", newer)), ABSENT, ASKED)
    rule = Rule("13.4", "a name or class for a dtype")
    for label, value, code in (
        ("name", "float32", "<f4"), ("name-short", "f4", None), ("name-bool", "bool_", "|b1"), ("name-int", "int", "<i8"),
        ("name-float", "float", "<f8"), ("name-str", "str", None), ("name-uint8", "uint8", "|u1"),
        ("class", Name("numpy", "float32"), "<f4"), ("class-bool", Name("numpy", "bool_"), "|b1"),
        ("class-of-python", Name("builtins", "float"), "<f8"), ("class-int", Name("builtins", "int"), "<i8"),
        ("class-complex", Name("builtins", "complex"), None), ("class-of-another", Name("agent", "float32"), None),
        ("name-float-underscore", "float_", None), ("name-longdouble", "longdouble", None), ("number", 4, None),
    ):  # fmt: skip
        made = space("box", "Box", {**OLD_BOX, "dtype": value}, "gym")
        expect = ABSENT if code is None else found({**OLD_BOX_FACTS, "dtype": code})
        yield rule.accepts(f"space-dtype-by-{label}", of(made), expect, ASKED)
    for label, value in {"name": "float32", "class": Name("numpy", "float32")}.items():
        made = box((-1, -2), (1, 2), dtype=value)
        yield rule.accepts(f"space-dtype-by-{label}-gymnasium", of(made), ABSENT, ASKED)
    rule = Rule("13.4", "The dtype is also the implied one: numbers for Box, integers for the three others")
    other = found(facts.box((-1.0, -2.0), (1.0, 2.0), dtype="<f8"))
    yield rule.accepts("space-box-of-another-dtype", of(box((-1, -2), (1, 2), dtype=dtype("f8"))), other, ASKED)
    odd = space("discrete", "Discrete", {**newer, "dtype": dtype("f4")})
    yield rule.accepts("space-discrete-of-floats", of(odd), ABSENT, ASKED)


def shapes() -> Iterator[Vector]:
    rule = Rule("13.4", "and gymnasium's Box, Discrete, MultiDiscrete and MultiBinary have one.")
    bare = {"low": floats(-1, -2), "high": floats(1, 2), "dtype": dtype("f4")}
    yield rule.accepts("space-gymnasium-without-shape", of(space("box", "Box", bare)), ABSENT, ASKED)
    yield rule.accepts("space-gymnasium-shape-none", of(space("box", "Box", {**bare, "_shape": None})), ABSENT, ASKED)
    listed = {**bare, "_shape": [2]}
    yield rule.accepts("space-gymnasium-shape-list", of(space("box", "Box", listed)), ABSENT, ASKED)
    plain = facts.box((-1.0, -2.0), (1.0, 2.0), **UNSAID)
    yield rule.accepts(
        "space-gym-shape-list", of(space("box", "Box", {**bare, "shape": [2]}, "gym")), found(plain), ASKED
    )
    yield rule.accepts(
        "space-gym-shape-none", of(space("box", "Box", {**bare, "shape": None}, "gym")), found(plain), ASKED
    )
    yield rule.accepts(
        "space-gym-shape-another", of(space("box", "Box", {**bare, "shape": (3,)}, "gym")), ABSENT, ASKED
    )
    rule = Rule("13.4", "If an attribute has two names (`shape` and `_shape`), only one of them is present")
    twice = space("box", "Box", {**bare, "_shape": (2,), "shape": (2,)})
    yield rule.accepts("space-shape-twice", of(twice), ABSENT, ASKED)
    rule = Rule("13.4", "`start`: another of its shape (gymnasium >= 0.29; zeros if missing")
    pair = {"nvec": numbers("i8", 2, 3), "start": numbers("i8", 0, 0), "_shape": (2,), "dtype": dtype("i8")}
    zeros = {
        "type": "MultiDiscrete", "library": "gymnasium", "nvec": facts.json_array("i8", [2, 3]),
        "start": facts.json_array("i8", 0, [2]), "dtype": "<i8",
    }  # fmt: skip
    yield rule.accepts("space-start-of-zeros", of(space("multi_discrete", "MultiDiscrete", pair)), found(zeros), ASKED)
    other = {**pair, "start": numbers("i8", 0)}
    yield rule.accepts(
        "space-start-of-another-shape", of(space("multi_discrete", "MultiDiscrete", other)), ABSENT, ASKED
    )


def bounds() -> Iterator[Vector]:
    rule = Rule("13.4", "`bounded_below`, `bounded_above`: bools of that shape (gym >= 0.13.1)")
    point = {
        "low": numbers("f4", -1, shape=()), "high": numbers("f4", 1, shape=()), "_shape": (), "dtype": dtype("f4"),
    }  # fmt: skip
    one = {
        "type": "Box", "library": "gymnasium", "shape": [], "dtype": "<f4", "low": facts.json_array("f4", [-1.0], []),
        "high": facts.json_array("f4", [1.0], []),
    }  # fmt: skip
    rule = Rule("13.4", "A numpy scalar is an array of shape `()` here; a number or bool of Python is no array.")
    for name, value, code in (
        ("array", numbers("b1", 1, shape=()), True), ("scalar", scalar(b"\1", "b1"), True), ("bool", True, False), ("none", None, False),
    ):  # fmt: skip
        made = space("box", "Box", {**point, "bounded_below": value, "bounded_above": value})
        both = {f"bounded_{side}": facts.json_array("b1", [True], []) for side in ("below", "above")}
        yield rule.accepts(f"space-bounded-by-{name}", of(made), found({**one, **both}) if code else ABSENT, ASKED)
    odd = box((-1, -2), (1, 2), bounded_below=numbers("u1", 1, 1))
    yield rule.accepts("space-bounded-by-numbers", of(odd), ABSENT, ASKED)
    half = box((-1, -2), (1, 2), bounded_below=numbers("b1", 1, shape=(1,)))
    yield rule.accepts("space-bounded-in-another-shape", of(half), ABSENT, ASKED)
    rule = Rule("13.4", "`low`, `high`: arrays of one shape")
    yield rule.accepts(
        "space-box-scalars",
        of(space("box", "Box", {**point, "low": scalar(pack_items("f4", -1), "f4")})),
        found({**one, "bounded_below": None, "bounded_above": None}),
        ASKED,
    )
    yield rule.accepts("space-box-numbers", of(space("box", "Box", {**point, "low": -1.0, "high": 1.0})), ABSENT, ASKED)
    bools = {"low": numbers("b1", 0, 0), "high": numbers("b1", 1, 1), "_shape": (2,), "dtype": dtype("b1")}
    fields = {
        "type": "Box", "library": "gymnasium", "shape": [2], "dtype": "|b1", "low": facts.json_array("b1", False, [2]),
        "high": facts.json_array("b1", True, [2]), "bounded_below": None, "bounded_above": None,
    }  # fmt: skip
    yield rule.accepts("space-box-of-bools", of(space("box", "Box", bools)), found(fields), ASKED)
    odd = box((-1, -2), (1, 2), high=floats(1))
    yield rule.accepts("space-box-of-two-shapes", of(odd), ABSENT, ASKED)
    yield rule.accepts("space-box-repr-of-a-number", of(box((-1, -2), (1, 2), low_repr=1)), ABSENT, ASKED)


def containers() -> Iterator[Vector]:
    two, plain = discrete(2), facts.discrete(2)
    rule = Rule("13.4", "`spaces`: an OrderedDict or a dict, in either library")
    fields = {**facts.dict_space({"b": plain, "a": plain}), "library": "gym"}
    for label, parts in {"ordered-dict": ordered({"b": two, "a": two}), "dict": {"b": two, "a": two}}.items():
        made = space("dict", "Dict", {"spaces": parts, "shape": None, "dtype": None}, "gym")
        yield rule.accepts(f"space-dict-of-{label}", of(made), found(fields), ASKED)
    made = space("dict", "Dict", {"spaces": ordered({"b": two, "a": two}), "_shape": None, "dtype": None})
    yield rule.accepts(
        "space-gymnasium-dict-of-ordered-dict", of(made), found(facts.dict_space({"b": plain, "a": plain})), ASKED
    )
    rule = Rule("13.4", "The keys of a Dict are text; of two equal ones, the last one applies.")
    twice = space("dict", "Dict", {"spaces": Pairs(("a", discrete(3)), ("a", two))})
    yield rule.accepts("space-dict-key-twice", of(twice), found(facts.dict_space({"a": plain})), ASKED)
    for label, odd in {"number": {1: two}, "none": None, "list": [two], "part-none": {"a": None}}.items():
        yield rule.accepts(f"space-dict-of-{label}", of(space("dict", "Dict", {"spaces": odd})), ABSENT, ASKED)
    yield rule.accepts(
        "space-dict-sorted-by-none", of(space("dict", "Dict", {"spaces": {"a": two}, "sort_keys": None})), ABSENT, ASKED
    )
    yield rule.accepts(
        "space-dict-with-shape", of(space("dict", "Dict", {"spaces": {"a": two}, "_shape": ()})), ABSENT, ASKED
    )
    rule = Rule("13.4", "`spaces`: a tuple; in gym also a list (before 0.22)")
    listed = {"spaces": [two]}
    yield rule.accepts(
        "space-tuple-of-a-list", of(space("tuple", "Tuple", listed, "gym")), found(gym("Tuple", spaces=[plain])), ASKED
    )
    yield rule.accepts("space-gymnasium-tuple-of-a-list", of(space("tuple", "Tuple", listed)), ABSENT, ASKED)
    rule = Rule("13.4", "Sequence, `sequence`: `feature_space`; `stack`: bool")
    fields = gym("Sequence", feature_space=plain, stack=False)
    yield rule.accepts(
        "space-gym-sequence-without-stack",
        of(space("sequence", "Sequence", {"feature_space": two}, "gym")),
        found(fields),
        ASKED,
    )
    yield rule.accepts(
        "space-gymnasium-sequence-without-stack",
        of(space("sequence", "Sequence", {"feature_space": two})),
        ABSENT,
        ASKED,
    )
    yield rule.accepts(
        "space-graph-without-edges-attribute", of(space("graph", "Graph", {"node_space": two})), ABSENT, ASKED
    )


def shared_attributes() -> Iterator[Vector]:
    rule = Rule("13.1", "An object is in doubt if its dict of attributes is also referred to elsewhere.")
    state = {"n": 2, "start": 0, "_shape": (), "dtype": dtype("i8"), "_np_random": None}
    one = Apply(Name("gymnasium.spaces.discrete", "Discrete"), (), Change("BUILD", state), how="NEWOBJ")
    yield rule.accepts("space-own-attributes", of(one), found(facts.discrete(2)), ASKED)
    yield rule.accepts("space-attributes-elsewhere", pickled(action_space=one, metadata=state), ABSENT, ASKED)
    two = Apply(Name("gymnasium.spaces.discrete", "Discrete"), (), Change("BUILD", state), how="NEWOBJ")
    yield rule.accepts("space-attributes-of-two", pickled(action_space=one, observation_space=two), ABSENT, ASKED)
    same = pickled(action_space=one, observation_space=one)
    both = expected_statistics(action_space=facts.discrete(2), observation_space=facts.discrete(2))
    yield rule.accepts("space-object-elsewhere", same, both, ASKED)
    parts = {"mean": doubles(1, 2), "var": doubles(3, 4), "count": 5.0}
    rule = Rule("17.1", "So is one whose dict of attributes is also referred to elsewhere.")
    shared = pickled(obs_rms=Apply(RUNNING, (), Change("BUILD", parts), how="NEWOBJ"), metadata=parts)
    yield rule.refuses("norm-means-attributes-elsewhere", shared, TENSOR, ASKED)
    rule = Rule("17.1", "So is one whose dict of attributes is also referred to elsewhere (13.1).")
    yield rule.refuses("norm-attributes-elsewhere", pickled()[:-2] + DUP_POP + BUILD_STOP, UNSUPPORTED, ASKED)
    rule = Rule("13.4", "Of two attributes of one name, the last one applies.")
    twice = Pairs(*({**state, "n": 3}).items(), ("n", 2))
    one = Apply(Name("gymnasium.spaces.discrete", "Discrete"), (), Change("BUILD", twice), how="NEWOBJ")
    yield rule.accepts("space-attribute-twice", of(one), found(facts.discrete(2)), ASKED)


def given() -> Iterator[Vector]:
    """What calls are given, with shared parts each time that they occur."""
    rule = Rule("13.1", "This number minus the bytes of the pickle is at most `pickle_nodes`")
    for name, levels in {"few": 10, "many": 30}.items():
        data = of(given_pairs(levels))
        if name == "few":
            yield rule.accepts(f"space-given-{name}", data, ABSENT, ASKED)
        else:
            yield rule.refuses(f"space-given-{name}", data, LIMIT, ASKED)
    unknown = of(Apply(Name("numpy", "some_function"), given_pairs(levels).args))
    yield rule.accepts("space-given-to-an-unknown-call", unknown, ABSENT, ASKED)


# -- random generators --------------------------------------------------------------------------------


def words(code: str, count: int) -> Apply:
    """An array of zeros."""
    return array((count,), bytes(count * int(code[1])), code)


TWISTER: Final[dict[str, Any]] = {"bit_generator": "MT19937", "state": {"key": words("u4", 624), "pos": 624}}
BUFFERED: Final = {"has_uint32": 0, "uinteger": 0}
PCG: Final[dict[str, Any]] = {"bit_generator": "PCG64", "state": {"state": 2**127, "inc": 1}, **BUFFERED}
PHILOX: Final[dict[str, Any]] = {
    "bit_generator": "Philox", "state": {"counter": words("u8", 4), "key": words("u8", 2)}, "buffer": words("u8", 4),
    "buffer_pos": 4, **BUFFERED,
}  # fmt: skip
SFC: Final[dict[str, Any]] = {"bit_generator": "SFC64", "state": {"state": words("u8", 4)}, **BUFFERED}
GAUSS: Final = {"has_gauss": 0, "gauss": 0.0}


def call(name: str, args: tuple[object, ...], state: object = None, module: str = NUMPY) -> Apply:
    """A constructor of numpy and its state."""
    return Apply(Name(module, name), args, *([] if state is None else [Change("BUILD", state)]))


def generator(state: object, *args: object, name: str = "__generator_ctor") -> Apply:
    """A generator by the name of its bit generator."""
    given = args or ((state["bit_generator"],) if isinstance(state, dict) else ())
    return call(name, given, state)


def changed(state: dict[str, Any], /, **parts: Any) -> dict[str, Any]:
    """The state of a bit generator with these parts of its inner state."""
    return {**state, "state": {**state["state"], **parts}}


def with_generator(value: object) -> bytes:
    """Statistics whose space has this random generator."""
    return of(box((-1, -2), (1, 2), _np_random=value))


KNOWN: Final = found(facts.box((-1.0, -2.0), (1.0, 2.0)))


def generators() -> Iterator[Vector]:
    rule = Rule("13.3", "Keys, lengths and positions are exact, because numpy reads at the given position")
    for name, state in {
        "mt19937": TWISTER,
        "pcg64": PCG,
        "pcg64dxsm": {**PCG, "bit_generator": "PCG64DXSM"},
        "philox": PHILOX,
        "sfc64": SFC,
    }.items():
        yield rule.accepts(f"space-generator-{name}", with_generator(generator(state)), KNOWN, ASKED)
    for name, odd in {
        "pos-too-large": changed(TWISTER, pos=625), "pos-negative": changed(TWISTER, pos=-1), "key-short": changed(TWISTER, key=words("u4", 623)),
        "key-of-u8": changed(TWISTER, key=words("u8", 624)), "inc-too-large": changed(PCG, inc=2**128), "state-bool": changed(PCG, state=True),
        "buffer-pos": {**PHILOX, "buffer_pos": 5}, "counter-short": changed(PHILOX, counter=words("u8", 3)), "uinteger": {**PCG, "uinteger": 2**32},
        "has-uint32": {**PCG, "has_uint32": 2}, "another-key": {**PCG, "mine": 0}, "another-inner-key": changed(PCG, mine=0),
        "gauss": {**PCG, **GAUSS}, "without-uinteger": {k: v for k, v in PCG.items() if k != "uinteger"},
    }.items():  # fmt: skip
        yield rule.accepts(f"space-generator-{name}", with_generator(generator(odd)), ABSENT, ASKED)
    rule = Rule("13.3", "The callables are `numpy.random.__RandomState_ctor`, and of `numpy.random._pickle`")
    constructor = Name(NUMPY, "__bit_generator_ctor")
    yield rule.accepts(
        "space-generator-with-constructor", with_generator(generator(PCG, "PCG64", constructor)), KNOWN, ASKED
    )
    yield rule.accepts(
        "space-generator-with-another-constructor",
        with_generator(generator(PCG, "PCG64", Name("posix", "_exit"))),
        ABSENT,
        ASKED,
    )
    yield rule.accepts("space-generator-of-another-name", with_generator(generator(PCG, "PCG32")), ABSENT, ASKED)
    yield rule.accepts("space-generator-of-two-names", with_generator(generator(PCG, "Philox")), ABSENT, ASKED)
    state = {**TWISTER, **GAUSS}
    yield rule.accepts(
        "space-random-state",
        with_generator(generator(state, "MT19937", constructor, name="__randomstate_ctor")),
        KNOWN,
        ASKED,
    )
    yield rule.accepts(
        "space-random-state-without-gauss",
        with_generator(generator(TWISTER, "MT19937", name="__randomstate_ctor")),
        ABSENT,
        ASKED,
    )
    bit = call("__bit_generator_ctor", ("PCG64",), (PCG, None))
    rule = Rule("13.3", "A Generator created from a bit generator has no state of its own.")
    yield rule.accepts(
        "space-generator-of-a-bit-generator", with_generator(call("__generator_ctor", (bit,))), KNOWN, ASKED
    )
    named = call("__bit_generator_ctor", (Name("numpy.random._pcg64", "PCG64"),), (PCG, None))
    yield rule.accepts("space-generator-of-a-class", with_generator(call("__generator_ctor", (named,))), KNOWN, ASKED)
    other = call("__bit_generator_ctor", (Name("numpy.random", "PCG64"),), (PCG, None))
    yield rule.accepts(
        "space-generator-of-another-class", with_generator(call("__generator_ctor", (other,))), ABSENT, ASKED
    )
    yield rule.accepts("space-generator-is-a-bit-generator", with_generator(bit), ABSENT, ASKED)
    rule = Rule("13.3", "Without a state, numpy creates a new generator each time: in doubt.")
    yield rule.accepts(
        "space-generator-without-state", with_generator(call("__generator_ctor", ("PCG64",))), ABSENT, ASKED
    )
    rule = Rule(
        "13.3", "A RandomState of numpy 2 contains the state of its bit generator a second time, and both are equal."
    )
    inner = call("__bit_generator_ctor", ("MT19937",), (TWISTER, None))
    yield rule.accepts(
        "space-random-state-of-numpy-2", with_generator(call("__randomstate_ctor", (inner,), state)), KNOWN, ASKED
    )
    differs = {**changed(TWISTER, pos=3), **GAUSS}
    yield rule.accepts(
        "space-random-state-that-differs", with_generator(call("__randomstate_ctor", (inner,), differs)), ABSENT, ASKED
    )
    rule = Rule(
        "13.3",
        'the tuple ("MT19937", key, pos, has_gauss, gauss) before numpy 1.17, whose last two items may both be missing',
    )
    for name, items, known in (
        ("five", ("MT19937", words("u4", 624), 1, 0, 0.0), True), ("three", ("MT19937", words("u4", 624), 1), True),
        ("four", ("MT19937", words("u4", 624), 1, 0), False), ("of-pcg64", ("PCG64", words("u4", 624), 1), False),
    ):  # fmt: skip
        made = call("__RandomState_ctor", (), items, "numpy.random")
        yield rule.accepts(f"space-random-state-{name}", with_generator(made), KNOWN if known else ABSENT, ASKED)


def seed(
    entropy: object,
    *,
    pool: object = None,
    size: object = 4,
    checksum: int = 0x3EAA222,
    spawned: object = (),
    children: object = 0,
) -> Apply:
    """A SeedSequence."""
    cls = Name("numpy.random.bit_generator", "SeedSequence")
    state = (entropy, children, words("u4", 4) if pool is None else pool, size, spawned)
    return Apply(
        Name("numpy.random.bit_generator", "__pyx_unpickle_SeedSequence"), (cls, checksum, None), Change("BUILD", state)
    )


def seeds() -> Iterator[Vector]:
    rule = Rule(
        "13.3",
        "The checksum is 0x3eaa222, 0xc464c19 or 0xf88304a. The pool is u4 and has as many items as the pool size",
    )
    for name, made, known in (
        ("plain", seed(1), True), ("another-checksum", seed(1, checksum=0xC464C19), True), ("unknown-checksum", seed(1, checksum=1), False),
        ("pool-of-u8", seed(1, pool=words("u8", 4)), False), ("pool-of-five", seed(1, pool=words("u4", 5)), False),
        ("pool-of-three", seed(1, pool=words("u4", 3), size=3), False), ("pool-of-six", seed(1, pool=words("u4", 6), size=6), True),
    ):  # fmt: skip
        bit = call("__bit_generator_ctor", ("PCG64",), (PCG, made))
        yield rule.accepts(
            f"space-seed-{name}", with_generator(call("__generator_ctor", (bit,))), KNOWN if known else ABSENT, ASKED
        )


def sums() -> Iterator[Vector]:
    rule = Rule("17.7", "A space that is referred to several times is written each time")
    part, written = discrete(2), facts.discrete(2)
    for _ in range(3):
        part = space("tuple", "Tuple", {"spaces": (part, part)})
        written = {"type": "Tuple", "library": "gymnasium", "spaces": [written, written]}
    yield rule.accepts("space-shared", of(part), found(written), ASKED, "--limit", "json_nodes=231")
    yield rule.refuses("space-shared-above", of(part), "limit exceeded", ASKED, "--limit", "json_nodes=230")
    for _ in range(12):
        part = space("tuple", "Tuple", {"spaces": (part, part)})
    yield rule.refuses("space-shared-often", of(part), "limit exceeded", ASKED)
    low = [float(-at) for at in range(1, 121)]
    made = space("box", "Box", {"low": doubles(*low), "high": doubles(*[1.0] * 120)}, "gym")
    fields = {"shape": [120], "low": facts.json_array("f8", low), "high": facts.json_array("f8", 1.0, (120,))}
    yield rule.accepts(
        "space-counted", of(made), found({**OLD_BOX_FACTS, **fields}), ASKED, "--limit", "json_nodes=203"
    )
    yield rule.refuses("space-counted-above", of(made), "limit exceeded", ASKED, "--limit", "json_nodes=202")
    yield from canonical_texts()
    rule = Rule("17.7", "The sums of 16.3.4 do not apply.")
    whole = numbers("u1", *bytes(1000))
    seen = {f"k{i}": whole for i in range(60)}
    kept = facts.ARRAYS | {f"old_obs/{key}": sample_array("u1", *bytes(1000)) for key in seen}
    shared = expected_statistics(kept, old_obs=list(seen))
    yield rule.accepts("norm-arrays-shared", pickled(old_obs=seen), shared, ASKED, "--limit", "expanded_items=1000")


def canonical_texts() -> Iterator[Vector]:
    """The size of the settings as JSON: numbers and characters."""
    rule = Rule("17.7", "Numbers count as Python writes them, and a character beyond `~` as its escapes (`\\u00e9`).")
    for name, key, clip in (("ascii", "~", 1e16), ("del", "\x7f", 1e-5), ("wide", "\U0001f600", 123456789.125)):
        changes = {"obs_rms": [key], "norm_obs_keys": [key], "clip_obs": clip}
        text = json.dumps({**facts.SETTINGS, **changes}, separators=(",", ":"))
        seen = {key: running_mean(doubles(1, 2), doubles(3, 4), 5.0)}
        made = pickled(obs_rms=seen, norm_obs_keys=[key], clip_obs=clip)
        output = expected_statistics(facts.means(f"obs_rms/{key}", (1, 2), (3, 4), 5) | facts.RETURNS, **changes)
        limit = f"json_bytes={len(text)}"
        yield rule.accepts(f"settings-of-size-{name}", made, output, ASKED, "--limit", limit)
        above = f"json_bytes={len(text) - 1}"
        yield rule.refuses(f"settings-of-size-{name}-above", made, LIMIT, ASKED, "--limit", above)


def forms() -> Iterator[Vector]:
    """Values of spaces and of last steps in forms that few releases write."""
    binary = {"n": 3, "_shape": (3,), "dtype": dtype("i1", "|")}
    three = found({"type": "MultiBinary", "library": "gymnasium", "shape": [3], "dtype": "|i1"})
    rule = Rule("13.4", "`n`: an integer, or the sizes: a tuple, a list, or an array of one dimension")
    sizes = {"list": [3], "array": numbers("i8", 3), "scalar": numbers("i8", 3, shape=())}
    for name, value in {**sizes, "tuple": (scalar(pack_items("i8", 3), "i8"),)}.items():
        made = space("multi_binary", "MultiBinary", {**binary, "n": value})
        yield rule.accepts(f"space-binary-of-{name}", of(made), three, ASKED)
    grid = space("multi_binary", "MultiBinary", {**binary, "n": numbers("i8", 3, shape=(1, 1))})
    yield rule.accepts("space-binary-of-grid", of(grid), ABSENT, ASKED)
    rule = Rule("17.5", "negative sizes, and NaNs of a space with a sign or a payload")
    below = space("multi_binary", "MultiBinary", {**binary, "n": -1, "_shape": (-1,)})
    yield rule.refuses("space-binary-below-zero", of(below), UNSUPPORTED, ASKED)
    for name, bits in {"negative": b"\0\0\xc0\xff", "payload": b"\1\0\xc0\x7f"}.items():
        low = array((2,), b"\0\0\xc0\x7f" + bits)
        yield rule.refuses(f"space-box-nan-{name}", of(box((0, 0), (1, 1), low=low)), UNSUPPORTED, ASKED)
    rule = Rule("13.4", "An array of objects is no array here.")
    yield rule.accepts("space-box-of-objects", of(box((0, 0), (1, 1), low=objects((2,), 0, 0))), ABSENT, ASKED)
    rule = Rule("13.4", "`stacked_feature_space`: a space, which is not derived again")
    sequence = {"feature_space": discrete(2), "stack": True, "stacked_feature_space": None}
    yield rule.accepts("space-sequence-stacked-none", of(space("sequence", "Sequence", sequence)), ABSENT, ASKED)
    rule = Rule("13.2", "Text consists of characters up to U+10FFFF.")
    letter = dtype("U1", "<", (4, 4, 8))
    for name, character, outcome in (("highest", 0x10FFFF, UNSUPPORTED), ("above", 0x110000, None)):
        low = reconstructed_array((2,), letter, encoded_bytes(character.to_bytes(4, "little") * 2))
        data = of(box((0, 0), (1, 1), low=low))
        if outcome is None:
            yield rule.accepts(f"space-box-of-text-{name}", data, ABSENT, ASKED)
        else:
            yield rule.refuses(f"space-box-of-text-{name}", data, outcome, ASKED)
    rule = Rule("17.1", "An array without dimensions is the same as a numpy scalar.")
    last = scalar(pack_items("f8", 1), "f8")
    kept = expected_statistics(facts.ARRAYS | {"old_obs": sample_array("f8", 1, shape=())}, old_obs="array")
    yield rule.accepts("norm-last-observation-of-a-scalar", pickled(old_obs=last), kept, ASKED)
    rule = Rule("17.5", "keys of statistics and of observations that are not Unicode text")
    unused = expected_statistics(norm_obs=False, norm_obs_keys=["\ud800"])
    yield rule.accepts("norm-key-surrogate-unused", pickled(norm_obs=False, norm_obs_keys=["\ud800"]), unused, ASKED)


# -- values and orders --------------------------------------------------------------------------------


def other_values() -> Iterator[Vector]:
    """Numbers and last steps in other forms."""
    rule = Rule("17.1", "`clip_obs`, `clip_reward`, `gamma`, `epsilon`: numbers, of Python or numpy")
    five = pickled(clip_obs=numbers("f8", 5, shape=()))
    yield rule.accepts("norm-clip-of-no-dimensions", five, expected_statistics(clip_obs=5.0), ASKED)
    odd = scalar(pack_items("c16", 5, 0), "c16")
    yield rule.refuses("norm-clip-of-a-complex-scalar", pickled(clip_obs=odd), TENSOR, ASKED)
    rule = Rule("17.1", "`old_reward`: the last rewards: an array; SB2 has `old_rews`, its first files neither")
    for name, attribute, last in (
        ("empty", "old_reward", sample_array("f8")), ("of-sb2-in-sb3", "old_rews", sample_array("f4", 0.5)),
    ):  # fmt: skip
        kept = expected_statistics(facts.ARRAYS | {"old_reward": last}, old_reward="array")
        yield rule.accepts(f"norm-last-reward-{name}", pickled(**{attribute: last.tree()}), kept, ASKED)
    rule = Rule("17.5", "complex observations and bounds")
    part = numbers("c16", 1, 2, shape=(1,))
    yield rule.refuses("norm-last-reward-complex", pickled(old_reward=part), UNSUPPORTED, ASKED)
    yield rule.refuses("norm-last-observation-by-key-complex", pickled(old_obs={"a": part}), UNSUPPORTED, ASKED)
    rule = Rule("13.2", "Codes: numbers as in 6.6")
    swapped = reconstructed_array((1,), stated_order("u1", ">"), encoded_bytes(b"\1"))
    yield rule.accepts("norm-array-of-bytes-swapped", pickled(old_obs=swapped), ABSENT, ASKED)


def stated_order(code: str, order: str) -> Apply:
    """A dtype with this byte order, whatever its size."""
    return Apply(Name("numpy", "dtype"), (code, False, True), Change("BUILD", (3, order, None, None, None, -1, -1, 0)))


def orders() -> Iterator[Vector]:
    """The order of the keys of a file without ``norm_obs_keys``."""
    rule = Rule("17.1", "Without `norm_obs_keys` all keys are normalized")
    one, two = (running_mean(doubles(count), doubles(count), count) for count in (1.0, 2.0))
    kept = facts.means("obs_rms/b", (1,), (1,), 1) | facts.means("obs_rms/a", (2,), (2,), 2) | facts.RETURNS
    parts = {"b": discrete(2), "a": discrete(2)}
    there = {"observation_space": facts.dict_space({name: facts.discrete(2) for name in parts})}
    in_order = {"obs_rms": ["b", "a"], "norm_obs_keys": ["b", "a"]}
    turned = {"obs_rms": ["a", "b"], "norm_obs_keys": ["b", "a"]}
    space_ = {"observation_space": dict_space(parts)}
    for name, made, found_ in (
        ("of-the-space", pickled(obs_rms={"a": two, "b": one}, **space_), expected_statistics(kept, **turned, **there)),
        ("of-the-statistics", pickled(obs_rms={"b": one, "a": two}), expected_statistics(kept, **in_order)),
        ("not-asked-for", pickled(obs_rms={"b": one, "a": two}, norm_obs=False),
            expected_statistics(kept, **in_order, norm_obs=False)),
    ):  # fmt: skip
        yield rule.accepts(f"norm-key-order-{name}", made, found_, ASKED)
    made = facts.bundle({**facts.SETTINGS, "obs_rms": ["b", "a"]}, kept)
    yield rule.accepts("bundle-key-order", made, expected_statistics(kept, **in_order), ASKED)
    rule = Rule("17.1", "`norm_obs_keys`, since SB3 1.4: a list of the keys that are normalized")
    none = pickled(obs_rms={"b": one, "a": two}, norm_obs_keys=None, norm_obs=False)
    yield rule.refuses("norm-keys-none-in-order", none, TENSOR, ASKED)
