"""Normalization statistics in a pickle (STATISTICS.md 17.1, 17.2)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from conformance.generators import build_bundles as facts
from conformance.generators.build_bundles import ARRAYS, ASKED, OBSERVATIONS, RETURNS, expected_statistics, means
from conformance.generators.build_objects import (
    MULTIARRAY,
    NORMALIZE,
    RUNNING,
    SB2,
    SB2_NORMALIZE,
    SB2_RUNNING,
    box,
    dict_space,
    discrete,
    doubles,
    dtype,
    encoded_bytes,
    floats,
    instance,
    numbers,
    pack_items,
    reconstructed_array,
    running_mean,
    sample_array,
    scalar,
    space,
)
from conformance.generators.build_pth import EXIT, Apply, Change, Name, Pairs, dumps, legacy_stream
from conformance.generators.vectors import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.generators.vectors import Vector

TENSOR: Final = "tensor failure"
MISSING: Final = "missing"
UNSUPPORTED: Final = "unsupported"
ABSENT: Final = ...
"""Marks an attribute that is absent."""


def number(value: float) -> Apply:
    """A numpy scalar of float64."""
    return scalar(pack_items("f8", value), "f8")


ATTRIBUTES: Final[dict[str, Any]] = {
    "obs_rms": running_mean(doubles(1, 2), doubles(3, 4), 5.0), "ret_rms": running_mean(number(0.5), number(2.0), 6.0),
    "clip_obs": 10.0, "clip_reward": 10.0, "gamma": 0.99, "epsilon": 1e-8, "training": True, "norm_obs": True,
    "norm_reward": True,
}  # fmt: skip
"""Only the required attributes."""
BOX: Final[dict[str, Any]] = {"observation_space": box((-1, -2), (1, 2))}
BOX_FACTS: Final[dict[str, Any]] = {"observation_space": facts.box((-1.0, -2.0), (1.0, 2.0))}
PARTS: Final = {"image": box((0, 0.5), (1, 2)), "vector": box((-1, -2), (1, 2))}
KEYS: Final[dict[str, Any]] = {
    "obs_rms": {"vector": running_mean(doubles(1, 2), doubles(3, 4), 5.0)}, "norm_obs_keys": ["vector"],
    "observation_space": dict_space(PARTS),
}  # fmt: skip
KEYS_FACTS: Final[dict[str, Any]] = {
    "obs_rms": ["vector"],
    "norm_obs_keys": ["vector"],
    "observation_space": facts.dict_space(
        {"image": facts.box((0.0, 0.5), (1.0, 2.0)), "vector": facts.box((-1.0, -2.0), (1.0, 2.0))}
    ),
}
KEYS_ARRAYS: Final = means("obs_rms/vector", (1, 2), (3, 4), 5) | RETURNS


def a_set(*items: str) -> Apply:
    """A set in protocol 2."""
    return Apply(Name("builtins", "set"), (list(items),))


def pickled(cls: Name = NORMALIZE, **changed: Any) -> bytes:
    """A VecNormalize with these attributes changed."""
    made = {**ATTRIBUTES, **changed}
    return dumps(instance(cls, {name: value for name, value in made.items() if value is not ABSENT}))


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from roots()
    yield from names()
    yield from statistics()
    yield from numbers_and_flags()
    yield from environments()
    yield from last_steps()
    yield from keys()
    yield from asked_for()
    yield from shapes()
    yield from spaces()
    yield from spaces_of_each_type()
    yield from lone_files()


def roots() -> Iterator[Vector]:
    rule = Rule("17.1", "The root is an object that consists only of its attributes (16.3)")
    yield rule.accepts("norm-whole-of-sb2", pickled(SB2_NORMALIZE), expected_statistics(library=SB2), ASKED)
    plain = (NORMALIZE, Name("builtins", "object"), None)
    copied = Apply(Name("copyreg", "_reconstructor"), plain, Change("BUILD", ATTRIBUTES))
    yield rule.accepts("norm-reconstructed", dumps(copied), expected_statistics(), ASKED)
    yield rule.refuses(
        "norm-from-arguments",
        dumps(Apply(NORMALIZE, (1,), Change("BUILD", ATTRIBUTES), how="NEWOBJ")),
        UNSUPPORTED,
        ASKED,
    )
    yield rule.refuses("norm-called", dumps(Apply(NORMALIZE, (), Change("BUILD", ATTRIBUTES))), UNSUPPORTED, ASKED)
    yield rule.refuses("norm-left-behind", b"\x80\x02N" + pickled()[2:], "pickle failure", ASKED)
    yield rule.refuses("norm-cut", pickled()[:-1], "pickle failure", ASKED)
    rule = Rule(
        "17.1",
        'An object of another class, or with an attribute that is not listed, is something else ("unsupported").',
    )
    yield rule.refuses("norm-of-another-class", pickled(Name("agent", "Normalize")), UNSUPPORTED, ASKED)
    dotted = Name("stable_baselines3.common.vec_env", "vec_normalize.VecNormalize")
    yield rule.refuses("norm-of-a-dotted-name", pickled(dotted), UNSUPPORTED, ASKED)
    yield rule.refuses("norm-attribute-of-ones-own", pickled(extra=1), UNSUPPORTED, ASKED)
    yield rule.refuses("norm-of-a-list", dumps([1]), UNSUPPORTED, ASKED)
    yield rule.refuses("norm-of-an-agent", dumps(({}, [])), UNSUPPORTED, ASKED)
    rule = Rule("17", "one pickle of the wrapper, by section 5.")
    for name, data, outcome in (
        ("data", b'{"gamma": 0.5}', UNSUPPORTED), ("nothing", b"", "container failure"), ("text", b"clip_obs", "container failure"),
        ("legacy-pth", legacy_stream({}), UNSUPPORTED),
    ):  # fmt: skip
        yield rule.refuses(f"norm-of-{name}", data, outcome, ASKED)
    rule = Rule(
        "17.1",
        "of the environment that was wrapped; they have no meaning for another environment",
    )
    listed = {
        "reset_infos": [{}], "_seeds": [None], "_options": [{}], "render_mode": None,
        "metadata": {"render_modes": []}, "obs_spaces": None, "obs_keys": None,
    }  # fmt: skip
    yield rule.accepts("norm-listed-attributes", pickled(**listed), expected_statistics(), ASKED)


def names() -> Iterator[Vector]:
    """Names of attributes that are not distinct texts."""
    rule = Rule("17", "and so is a flag (16.3) and a name of an attribute that is not text or occurs twice.")
    for name, pair in {"twice": ("gamma", 0.5), "number": (1, 0.5)}.items():
        state = Pairs(*ATTRIBUTES.items(), pair)
        made = dumps(Apply(NORMALIZE, (), Change("BUILD", state), how="NEWOBJ"))
        yield rule.refuses(f"norm-name-{name}", made, "pickle failure", ASKED)
    twice = Pairs(("mean", 0.5), ("var", 2.0), ("count", 6.0), ("mean", 0.25))
    made = dumps(Apply(RUNNING, (), Change("BUILD", twice), how="NEWOBJ"))
    yield rule.refuses("norm-lone-name-twice", made, "pickle failure", ASKED)


def statistics() -> Iterator[Vector]:
    rule = Rule(
        "17.1",
        "with `mean` and `var`, float64 arrays of the same shape, or numpy scalars or floats if there are no dimensions",
    )
    for name, value in {"numbers": 0.5, "arrays": numbers("f8", 0.5, shape=())}.items():
        twice = running_mean(value, 2.0 if name == "numbers" else numbers("f8", 2, shape=()), 6.0)
        yield rule.accepts(f"norm-returns-of-{name}", pickled(ret_rms=twice), expected_statistics(), ASKED)
    for name, (mean, var) in {
        "of-two-shapes": (doubles(1, 2), doubles(3)), "of-a-row": (doubles(1, 2), numbers("f8", 3, 4, shape=(1, 2))),
        "of-text": ("x", "x"), "of-none": (None, None), "of-a-list": ([1.0, 2.0], [3.0, 4.0]), "of-whole-numbers": (1, 3),
    }.items():  # fmt: skip
        yield rule.refuses(f"norm-means-{name}", pickled(obs_rms=running_mean(mean, var)), TENSOR, ASKED)
    for name in ("mean", "var", "count"):
        parts = {"mean": doubles(1, 2), "var": doubles(3, 4), "count": 5.0}
        del parts[name]
        yield rule.refuses(f"norm-means-without-{name}", pickled(obs_rms=instance(RUNNING, parts)), MISSING, ASKED)
    rule = Rule(
        "17.1", 'Statistics of another dtype are refused ("tensor failure"): they would normalize to other bits.'
    )
    swapped = Apply(Name(MULTIARRAY, "scalar"), (dtype("f8", ">"), encoded_bytes(pack_items("f8", 0.5)[::-1])))
    same = running_mean(swapped, number(2.0), 6.0)
    yield rule.accepts(
        "norm-means-big-endian", pickled(ret_rms=same), expected_statistics(), ASKED, features=("big-endian",)
    )
    for code in ("f4", "i8", "b1"):
        odd = running_mean(numbers(code, 1, 1), numbers(code, 1, 1))
        yield rule.refuses(f"norm-means-of-{code}", pickled(obs_rms=odd), TENSOR, ASKED)
    half = running_mean(doubles(1, 2), floats(3, 4))
    yield rule.refuses("norm-variance-of-f4", pickled(obs_rms=half), TENSOR, ASKED)
    rule = Rule("17.1", "and `count`, a number.")
    for name, count in {"whole": 5, "of-numpy": number(5), "of-f4": scalar(pack_items("f4", 5), "f4")}.items():
        odd = running_mean(doubles(1, 2), doubles(3, 4), count)
        yield rule.accepts(f"norm-count-{name}", pickled(obs_rms=odd), expected_statistics(), ASKED)
    for name, count in {"text": "5", "bool": True, "none": None, "array": doubles(5, 6)}.items():
        odd = running_mean(doubles(1, 2), doubles(3, 4), count)
        yield rule.refuses(f"norm-count-of-{name}", pickled(obs_rms=odd), TENSOR, ASKED)
    rule = Rule("17.1", "A variance MAY be negative or NaN, and is kept.")
    var = (-1.0, math.nan)
    odd = running_mean(doubles(1, 2), doubles(*var), 5.0)
    yield rule.accepts(
        "norm-variance-odd",
        pickled(obs_rms=odd),
        expected_statistics(means("obs_rms", (1, 2), var, 5) | RETURNS),
        ASKED,
    )


def numbers_and_flags() -> Iterator[Vector]:
    rule = Rule("17.1", "`clip_obs`, `clip_reward`, `gamma`, `epsilon`: numbers, of Python or numpy")
    made = {
        "clip_obs": 5,
        "clip_reward": scalar(pack_items("f4", 0.5), "f4"),
        "gamma": scalar(pack_items("i8", 1), "i8"),
    }
    found = {"clip_obs": 5.0, "clip_reward": 0.5, "gamma": 1.0}
    yield rule.accepts("norm-numbers", pickled(**made), expected_statistics(**found), ASKED)
    odd = {"clip_obs": math.inf, "clip_reward": -math.inf, "gamma": math.nan, "epsilon": -1e300}
    found = {"clip_obs": "Infinity", "clip_reward": "-Infinity", "gamma": "NaN", "epsilon": -1e300}
    yield rule.accepts("norm-numbers-odd", pickled(**odd), expected_statistics(**found), ASKED)
    for name, value in {"text": "5", "bool": False, "none": None, "array": doubles(1, 2), "huge": 10**400}.items():
        yield rule.refuses(f"norm-clip-of-{name}", pickled(clip_obs=value), TENSOR, ASKED)
    rule = Rule("17.1", "`training`, `norm_obs`, `norm_reward`: bools, of Python or numpy")
    yield rule.accepts(
        "norm-flags-of-numpy", pickled(training=scalar(b"\0", "b1")), expected_statistics(training=False), ASKED
    )
    for name, value in {"number": 1, "text": "yes", "none": None}.items():
        yield rule.refuses(f"norm-training-of-{name}", pickled(training=value), TENSOR, ASKED)
    rule = Rule(
        "17.1", 'The four numbers and the three flags MUST be present ("missing"); any other attribute may be absent.'
    )
    yield rule.accepts("norm-attributes-that-must-be", pickled(), expected_statistics(), ASKED)
    for name in ("clip_obs", "clip_reward", "gamma", "epsilon", "training", "norm_obs", "norm_reward"):
        yield rule.refuses(f"norm-without-{name.replace('_', '-')}", pickled(**{name: ABSENT}), MISSING, ASKED)


def environments() -> Iterator[Vector]:
    rule = Rule(
        "17.1",
        "`num_envs`: an integer from 1 to 2^31 - 1, of Python or numpy; "
        'an integer outside of this range is "unsupported"',
    )
    for name, value in {"one": 1, "most": 2**31 - 1}.items():
        yield rule.accepts(f"norm-num-envs-{name}", pickled(num_envs=value), expected_statistics(num_envs=value), ASKED)
    three = scalar(pack_items("i8", 3), "i8")
    yield rule.accepts("norm-num-envs-of-numpy", pickled(num_envs=three), expected_statistics(num_envs=3), ASKED)
    large = scalar(pack_items("i8", 2**31), "i8")
    for name, value in {"none": 0, "negative": -1, "too-many": 2**31, "huge": 2**70, "large-of-numpy": large}.items():
        yield rule.refuses(f"norm-num-envs-{name}", pickled(num_envs=value), UNSUPPORTED, ASKED)
    rule = Rule("17.1", 'Statistics, numbers, flags and keys of another type are a "tensor failure".')
    for name, odd in {"text": "1", "bool": True, "float": 1.0, "half": 1.5, "nan": math.nan, "null": None}.items():
        yield rule.refuses(f"norm-num-envs-of-{name}", pickled(num_envs=odd), TENSOR, ASKED)


def last_steps() -> Iterator[Vector]:
    rule = Rule(
        "17.1",
        "`old_obs`: the last observation: an array, or a dict of arrays; before the first reset empty, since SB3 2.2 absent",
    )
    made = pickled(old_obs=numbers("f4", 1, 2, shape=(1, 2)))
    one = {"old_obs": sample_array("f4", 1, 2, shape=(1, 2))}
    yield rule.accepts("norm-last-observation", made, expected_statistics(ARRAYS | one, old_obs="array"), ASKED)
    yield rule.accepts(
        "norm-last-observation-empty",
        pickled(old_obs=doubles()),
        expected_statistics(ARRAYS | {"old_obs": sample_array("f8")}, old_obs="array"),
        ASKED,
    )
    made = pickled(old_obs={"b": floats(1), "a": numbers("u1", 2)})
    several = {"old_obs/b": sample_array("f4", 1), "old_obs/a": sample_array("u1", 2)}
    yield rule.accepts(
        "norm-last-observation-by-key", made, expected_statistics(ARRAYS | several, old_obs=["b", "a"]), ASKED
    )
    rule = Rule("17.1", "`old_reward`: the last rewards: an array; SB2 has `old_rews`, its first files neither")
    last = ARRAYS | {"old_reward": sample_array("f4", 0.5)}
    yield rule.accepts(
        "norm-last-reward", pickled(old_reward=floats(0.5)), expected_statistics(last, old_reward="array"), ASKED
    )
    older = expected_statistics(last, old_reward="array", library=SB2)
    yield rule.accepts("norm-last-reward-of-sb2", pickled(SB2_NORMALIZE, old_rews=floats(0.5)), older, ASKED)
    rule = Rule(
        "17.1",
        "A last observation or reward that is not an array of numbers counts as absent.",
    )
    for name, value in {
        "text": "x",
        "list": [1.0],
        "dict": {"a": None},
        "by-number": {1: floats(1)},
        "none": None,
    }.items():
        yield rule.accepts(f"norm-last-observation-of-{name}", pickled(old_obs=value), expected_statistics(), ASKED)
    yield rule.accepts("norm-last-reward-of-a-list", pickled(old_reward=[1.0]), expected_statistics(), ASKED)


def keys() -> Iterator[Vector]:
    rule = Rule(
        "17.1",
        "`obs_rms`: a RunningMeanStd; a dict of them by key of a Dict space; absent if observations are not normalized (since SB3 1.4)",
    )
    yield rule.accepts("norm-by-key", pickled(**KEYS), expected_statistics(KEYS_ARRAYS, **KEYS_FACTS), ASKED)
    for name, value in {
        "number": 3, "list": [ATTRIBUTES["obs_rms"]], "part-none": {"vector": None}, "array": doubles(1, 2),
        "by-number": {1: ATTRIBUTES["obs_rms"]}, "another-class": instance(Name("agent", "RunningMeanStd"), {"mean": 1.0, "var": 1.0, "count": 1}),
        "dotted-name": running_mean(0.5, 2.0, 6.0, Name("stable_baselines3.common", "running_mean_std.RunningMeanStd")),
    }.items():  # fmt: skip
        yield rule.refuses(f"norm-statistics-of-{name}", pickled(obs_rms=value), TENSOR, ASKED)
    yield rule.refuses("norm-returns-by-key", pickled(ret_rms={"a": ATTRIBUTES["ret_rms"]}), TENSOR, ASKED)
    rule = Rule(
        "17.1",
        "Without `norm_obs_keys` all keys are normalized, and each key of a Dict space MUST have statistics, and no other key",
    )
    two = {"vector": ATTRIBUTES["obs_rms"], "image": running_mean(doubles(5, 6), doubles(7, 8), 9.0)}
    both = {**KEYS_FACTS, "obs_rms": ["vector", "image"]}
    arrays = KEYS_ARRAYS | means("obs_rms/image", (5, 6), (7, 8), 9)
    found = expected_statistics(arrays, **{**both, "norm_obs_keys": ["image", "vector"]})
    made = pickled(**{**KEYS, "obs_rms": two, "norm_obs_keys": ABSENT})
    yield rule.accepts("norm-keys-absent", made, found, ASKED)
    made = pickled(**{**KEYS, "norm_obs_keys": ABSENT})
    yield rule.refuses("norm-keys-absent-of-some", made, TENSOR, ASKED)
    rule = Rule("17.1", 'None beside statistics by key is a "tensor failure", whatever `norm_obs` is.')
    yield rule.refuses("norm-keys-none", pickled(**{**KEYS, "obs_rms": two, "norm_obs_keys": None}), TENSOR, ASKED)
    unused = pickled(**{**KEYS, "norm_obs_keys": None}, norm_obs=False)
    yield rule.refuses("norm-keys-none-not-asked-for", unused, TENSOR, ASKED)
    rule = Rule("17.1", "`norm_obs_keys` is used if `obs_keys` is present too.")
    made = pickled(**KEYS, obs_keys=a_set("image", "vector"))
    yield rule.accepts("norm-keys-beside-obs-keys", made, expected_statistics(KEYS_ARRAYS, **KEYS_FACTS), ASKED)
    made = pickled(**{**KEYS, "norm_obs_keys": []})
    yield rule.accepts(
        "norm-keys-empty", made, expected_statistics(KEYS_ARRAYS, **{**KEYS_FACTS, "norm_obs_keys": []}), ASKED
    )
    rule = Rule(
        "17.1",
        "`norm_obs_keys`, since SB3 1.4: a list of the keys that are normalized (a tuple; a set, which is used sorted), None without keys",
    )
    in_order = expected_statistics(arrays, **{**both, "norm_obs_keys": ["image", "vector"]})
    for name, value in {"tuple": ("image", "vector"), "set": a_set("vector", "image")}.items():
        made = pickled(**{**KEYS, "obs_rms": two, "norm_obs_keys": value})
        yield rule.accepts(f"norm-keys-in-a-{name}", made, in_order, ASKED)
    for name, odd in {"text": "vector", "numbers": [1], "dict": {"vector": 1}}.items():
        yield rule.refuses(f"norm-keys-of-{name}", pickled(**{**KEYS, "norm_obs_keys": odd}), TENSOR, ASKED)
    rule = Rule(
        "17.1",
        '`norm_obs_keys` together with a single RunningMeanStd that the flags require is refused ("unsupported").',
    )
    yield rule.refuses("norm-keys-of-one", pickled(norm_obs_keys=["vector"]), UNSUPPORTED, ASKED)
    rule = Rule("17.1", "None beside a single RunningMeanStd, or beside none, means that there are no keys.")
    yield rule.accepts("norm-keys-none-of-one", pickled(norm_obs_keys=None), expected_statistics(), ASKED)


def asked_for() -> Iterator[Vector]:
    rule = Rule(
        "17.1",
        'What the flags require MUST be present: `obs_rms`, with each key of `norm_obs_keys`, for `norm_obs`; `ret_rms` for `norm_reward` ("missing").',
    )
    none = {"norm_obs": False, "norm_reward": False}
    made = pickled(**none, obs_rms=ABSENT, ret_rms=ABSENT)
    yield rule.accepts(
        "norm-nothing-asked-for", made, expected_statistics({}, **none, obs_rms=None, ret_rms=None), ASKED
    )
    kept = expected_statistics(**none)
    yield rule.accepts("norm-not-asked-for", pickled(**none), kept, ASKED)
    for name, value in {"absent": ABSENT, "none": None}.items():
        yield rule.refuses(f"norm-observations-{name}", pickled(obs_rms=value), MISSING, ASKED)
        yield rule.refuses(f"norm-returns-{name}", pickled(ret_rms=value), MISSING, ASKED)
    made = pickled(**{**KEYS, "norm_obs_keys": ["vector", "image"]})
    yield rule.refuses("norm-key-missing", made, MISSING, ASKED)
    made = pickled(**{**KEYS, "norm_obs_keys": ["vector", "image"]}, norm_obs=False)
    found = expected_statistics(KEYS_ARRAYS, **{**KEYS_FACTS, "norm_obs_keys": ["vector", "image"], "norm_obs": False})
    yield rule.accepts("norm-key-not-asked-for", made, found, ASKED)


def shapes() -> Iterator[Vector]:
    rule = Rule("17.1", "Statistics MUST have the shape of the Box to which they belong")
    yield rule.accepts("norm-box", pickled(**BOX), expected_statistics(**BOX_FACTS), ASKED)
    three = running_mean(doubles(1, 2, 3), doubles(3, 4, 5))
    yield rule.refuses("norm-box-of-another-shape", pickled(**BOX, obs_rms=three), TENSOR, ASKED)
    yield rule.refuses("norm-box-of-a-key", pickled(**{**KEYS, "obs_rms": {"vector": three}}), TENSOR, ASKED)
    yield rule.refuses("norm-box-of-no-dimensions", pickled(**BOX, obs_rms=running_mean(0.5, 2.0)), TENSOR, ASKED)
    other = {"observation_space": facts.discrete(3)}
    yield rule.accepts("norm-no-box", pickled(observation_space=discrete(3)), expected_statistics(**other), ASKED)
    rule = Rule("17.1", 'Statistics by key require a Dict space ("tensor failure") that has those keys ("missing")')
    yield rule.refuses("norm-keys-of-a-box", pickled(**{**KEYS, **BOX}), TENSOR, ASKED)
    odd = {"norm_obs_keys": ["other"], "obs_rms": {"other": ATTRIBUTES["obs_rms"]}}
    yield rule.refuses("norm-keys-of-another-space", pickled(**{**KEYS, **odd}), MISSING, ASKED)


def spaces() -> Iterator[Vector]:
    rule = Rule("17.1", "A space that is not known counts as absent")
    for name, value in {
        "class": space("box", "Mine", {}), "call": Apply(EXIT, (1,)), "text": "Box", "none": None,
        "attribute": space("discrete", "Discrete", {"n": 2, "mine": 1}),
    }.items():  # fmt: skip
        yield rule.accepts(f"norm-space-unknown-{name}", pickled(observation_space=value), expected_statistics(), ASKED)
    made = pickled(**{**KEYS, "observation_space": ABSENT})
    yield rule.accepts(
        "norm-keys-without-a-space",
        made,
        expected_statistics(KEYS_ARRAYS, **{**KEYS_FACTS, "observation_space": None}),
        ASKED,
    )
    rule = Rule("17.1", 'A space whose arrays are not plain numbers is refused ("unsupported").')
    texts = reconstructed_array((2,), dtype("U1", "<", (4, 4, 8)), encoded_bytes("ab".encode("utf-32-le")))
    yield rule.refuses("norm-space-of-text", pickled(action_space=box((0, 0), (1, 1), low=texts)), UNSUPPORTED, ASKED)
    rule = Rule("17.6", "always little-endian)")
    large = reconstructed_array(
        (2,), dtype("f4", ">"), encoded_bytes(pack_items("f4", -1)[::-1] + pack_items("f4", -2)[::-1])
    )
    made = pickled(observation_space=box((-1, -2), (1, 2), low=large))
    yield rule.accepts("norm-space-big-endian", made, expected_statistics(**BOX_FACTS), ASKED, features=("big-endian",))
    rule = Rule("17.6", "an array of all items, the last axis fastest")
    turned = reconstructed_array(
        (2, 3), dtype("i8"), encoded_bytes(pack_items("i8", 1, 4, 2, 5, 3, 6)), is_fortran=True
    )
    found = {
        "type": "MultiDiscrete", "library": "gymnasium", "nvec": facts.json_array("i8", [1, 2, 3, 4, 5, 6], (2, 3)), "start": None,
        "dtype": "<i8",
    }  # fmt: skip
    made = pickled(
        action_space=space("multi_discrete", "MultiDiscrete", {"nvec": turned, "_shape": (2, 3), "dtype": dtype("i8")})
    )
    yield rule.accepts("norm-space-fortran", made, expected_statistics(action_space=found), ASKED)
    rule = Rule("17.1", "Random generators of spaces are omitted")
    state = ("MT19937", reconstructed_array((624,), dtype("u4"), bytes(2496)), 624, 0, 0.0)
    random = Apply(Name("numpy.random", "__RandomState_ctor"), (), Change("BUILD", state))
    made = pickled(observation_space=box((-1, -2), (1, 2), _np_random=random))
    yield rule.accepts("norm-space-with-a-generator", made, expected_statistics(**BOX_FACTS), ASKED)


def spaces_of_each_type() -> Iterator[Vector]:
    rule = Rule("17.1", "`observation_space`, `action_space`: spaces (13.4) of gym, of gymnasium since SB3 2.0")
    head = {"library": "gymnasium"}
    whole, plain = discrete(2), facts.discrete(2)
    pair = facts.json_array("i8", [2, 3])
    nvec = {"nvec": numbers("i8", 2, 3), "_shape": (2,), "dtype": dtype("i8")}
    bounds = {"low": floats(-1, -2), "high": floats(1, 2), "shape": (2,), "dtype": dtype("f4")}
    letters = {
        "_char_set": Apply(Name("builtins", "frozenset"), (["a", "b"],)),
        "_char_list": ("a", "b"),
        "_char_str": "ab",
    }
    unsaid = {"library": "gym", "bounded_below": None, "bounded_above": None}
    for name, made, found in (
        ("box-of-gym", space("box", "Box", bounds, "gym"), facts.box((-1.0, -2.0), (1.0, 2.0), **unsaid)),
        ("multi-discrete", space("multi_discrete", "MultiDiscrete", {**nvec, "start": numbers("i8", 0, 1)}),
            {"type": "MultiDiscrete", **head, "nvec": pair, "start": facts.json_array("i8", [0, 1]), "dtype": "<i8"}),
        ("multi-discrete-from-zeros", space("multi_discrete", "MultiDiscrete", nvec),
            {"type": "MultiDiscrete", **head, "nvec": pair, "start": None, "dtype": "<i8"}),
        ("multi-binary", space("multi_binary", "MultiBinary", {"n": 3, "_shape": (3,), "dtype": dtype("i1")}),
            {"type": "MultiBinary", **head, "shape": [3], "dtype": "|i1"}),
        ("tuple", space("tuple", "Tuple", {"spaces": (whole, whole)}), {"type": "Tuple", **head, "spaces": [plain, plain]}),
        ("one-of", space("oneof", "OneOf", {"spaces": (whole,)}), {"type": "OneOf", **head, "spaces": [plain]}),
        ("text", space("text", "Text", {"min_length": 1, "max_length": 8, **letters}),
            {"type": "Text", **head, "min_length": 1, "max_length": 8, "characters": "ab"}),
        ("sequence", space("sequence", "Sequence", {"feature_space": whole, "stack": True}),
            {"type": "Sequence", **head, "feature_space": plain, "stack": True}),
        ("graph", space("graph", "Graph", {"node_space": whole, "edge_space": None}),
            {"type": "Graph", **head, "node_space": plain, "edge_space": None}),
    ):  # fmt: skip
        yield rule.accepts(
            f"norm-space-{name}", pickled(action_space=made), expected_statistics(action_space=found), ASKED
        )


def lone_files() -> Iterator[Vector]:
    rule = Rule("17.2", "each one RunningMeanStd, and no settings")
    only = {"norm_reward": False, "ret_rms": None}
    lone = running_mean(doubles(1, 2), doubles(3, 4), 5.0, SB2_RUNNING)
    yield rule.accepts(
        "norm-lone-of-sb3", dumps(ATTRIBUTES["obs_rms"]), expected_statistics(OBSERVATIONS, **only), ASKED
    )
    yield rule.refuses("norm-lone-of-a-pair", dumps((lone, lone)), UNSUPPORTED, ASKED)
    yield rule.refuses(
        "norm-lone-of-another-class",
        dumps(running_mean(0.5, 2.0, 6.0, Name("agent", "RunningMeanStd"))),
        UNSUPPORTED,
        ASKED,
    )
    rule = Rule("17.2", "statistics of returns have no dimensions, and MUST NOT have any.")
    returns = {"norm_obs": False, "obs_rms": None}
    yield rule.accepts(
        "norm-lone-of-returns", dumps(ATTRIBUTES["ret_rms"]), expected_statistics(RETURNS, **returns), ASKED
    )
    one = {"mean": sample_array("f8", 0.5), "var": sample_array("f8", 2.0), "count": sample_array("f8", 6, shape=())}
    single = {f"obs_rms.{part}": array for part, array in one.items()}
    made = dumps(running_mean(doubles(0.5), doubles(2.0), 6.0))
    yield rule.accepts("norm-lone-of-one-item", made, expected_statistics(single, **only), ASKED)
    for name, values in {"one": (1.0,), "two": (1.0, 2.0)}.items():
        odd = running_mean(doubles(*values), doubles(*values))
        yield rule.refuses(f"norm-returns-with-dimensions-{name}", pickled(ret_rms=odd), TENSOR, ASKED)
    rule = Rule(
        "17.2",
        "The settings are SB2's defaults: clip at 10, gamma 0.99, epsilon 1e-8. Values without statistics are not normalized.",
    )
    yield rule.accepts(
        "norm-lone-settings", dumps(running_mean(0.5, 2.0, 6)), expected_statistics(RETURNS, **returns), ASKED
    )
    empty = running_mean(doubles(), doubles(), 6.0)
    yield rule.accepts(
        "norm-lone-of-nothing", dumps(empty), expected_statistics(means("obs_rms", (), (), 6), **only), ASKED
    )
