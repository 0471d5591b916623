"""Archives with bundled normalization statistics (STATISTICS.md 17.5)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from conformance.generators import build_bundles as facts
from conformance.generators import expected
from conformance.generators.build_bundles import (
    ARRAYS,
    ARRAYS_ENTRY,
    ASKED,
    OBSERVATIONS,
    RETURNS,
    SETTINGS,
    SETTINGS_ENTRY,
    bundle,
    expected_statistics,
    means,
    safetensors,
)
from conformance.generators.build_objects import (
    NORMALIZE,
    SampleArray,
    doubles,
    dtype,
    instance,
    numbers,
    sample_array,
    space,
)
from conformance.generators.build_pth import dumps
from conformance.generators.build_zips import Member, build_zip
from conformance.generators.normalisation import ATTRIBUTES, KEYS, KEYS_ARRAYS, KEYS_FACTS, pickled
from conformance.generators.normalisation_details import nested_facts
from conformance.generators.vectors import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from conformance.generators.vectors import Vector

CONTAINER: Final = "container failure"
DATA: Final = "data failure"
TENSOR: Final = "tensor failure"
MISSING: Final = "missing"
UNSUPPORTED: Final = "unsupported"


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from entries()
    yield from settings()
    yield from fields()
    yield from keys()
    yield from arrays()
    yield from fitting()
    yield from not_held()


def changed(**fields: Any) -> bytes:
    """A bundle with these settings changed."""
    return bundle({**SETTINGS, **fields})


def entries() -> Iterator[Vector]:
    rule = Rule("17.5", 'Both MUST be present, or neither; a request for statistics that do not exist is "missing"')
    yield rule.accepts("bundle-whole", bundle(), expected_statistics(), ASKED)
    for name, made in {
        "neither": bundle(None, None), "settings-alone": bundle(SETTINGS, None), "arrays-alone": bundle(None, ARRAYS),
    }.items():  # fmt: skip
        yield rule.refuses(f"bundle-{name}", made, MISSING, ASKED)
    rule = Rule("17.5", "An archive MAY contain statistics in two additional entries after all others")
    settings = json.dumps(SETTINGS).encode()
    first = {ARRAYS_ENTRY: safetensors(ARRAYS), "data": b"{", "policy.pth": b"x", SETTINGS_ENTRY: settings}
    made = build_zip(*[Member(name.encode(), data) for name, data in first.items()])
    yield rule.accepts("bundle-in-another-order", made, expected_statistics(), ASKED)
    yield rule.refuses("bundle-cut", bundle()[:-1], CONTAINER, ASKED)
    kept = {
        "data": {"dict": []},
        SETTINGS_ENTRY: expected.other(settings),
        ARRAYS_ENTRY: expected.other(first[ARRAYS_ENTRY]),
    }
    rule = Rule("1.2", "Every other entry MUST be preserved unchanged and otherwise ignored, as SB3 does.")
    yield rule.accepts("bundle-as-an-archive", bundle(), expected.archive(kept))


def settings() -> Iterator[Vector]:
    rule = Rule("17.5", "`vecnormalize.json` is JSON by the rules of 3.1, with exactly these fields")
    turned = dict(reversed(SETTINGS.items()))
    yield rule.accepts("bundle-fields-in-another-order", bundle(turned), expected_statistics(), ASKED)
    for name, raw in {
        "nothing": b"", "array": b"[]", "empty": b"{}", "cut": json.dumps(SETTINGS).encode()[:-1], "latin-1": b'{"\xe9": 1}',
        "bom": b"\xef\xbb\xbf" + json.dumps(SETTINGS).encode(),
        "twice": json.dumps(SETTINGS).encode()[:-1] + b', "gamma": 0.99}',
    }.items():  # fmt: skip
        yield rule.refuses(f"bundle-settings-{name}", bundle(raw), DATA, ASKED)
    for field in SETTINGS:
        made = bundle({name: value for name, value in SETTINGS.items() if name != field})
        yield rule.refuses(f"bundle-without-{field.replace('_', '-')}", made, DATA, ASKED)
    yield rule.refuses("bundle-field-of-ones-own", changed(mine=1), DATA, ASKED)
    rule = Rule("17.5", 'A reader MUST refuse a higher one ("unsupported")')
    yield rule.accepts("bundle-version", bundle(), expected_statistics(), ASKED)
    yield rule.refuses("bundle-version-higher", changed(format_version=2), UNSUPPORTED, ASKED)
    yield rule.refuses("bundle-version-higher-with-more", changed(format_version=2, mine=1), UNSUPPORTED, ASKED)
    rule = Rule("17.5", "`format_version`: 1.")
    for name, value in {"zero": 0, "text": "1", "bool": True, "float": 1.0, "null": None}.items():
        yield rule.refuses(f"bundle-version-{name}", changed(format_version=value), DATA, ASKED)


def fields() -> Iterator[Vector]:
    rule = Rule("17.5", "`library`: `stable_baselines3` or `stable_baselines`: which one wrote the statistics")
    older = changed(library="stable_baselines")
    yield rule.accepts("bundle-library-sb2", older, expected_statistics(library="stable_baselines"), ASKED)
    for name, value in {"another": "mine", "null": None, "array": []}.items():
        yield rule.refuses(f"bundle-library-{name}", changed(library=value), DATA, ASKED)
    rule = Rule("17.5", "`num_envs`: an integer by 17.1, or null")
    yield rule.accepts("bundle-num-envs", changed(num_envs=4), expected_statistics(num_envs=4), ASKED)
    for name, odd in {"float": 1.0, "bool": True, "text": "1"}.items():
        yield rule.refuses(f"bundle-num-envs-{name}", changed(num_envs=odd), DATA, ASKED)
    for name, number in {"none": 0, "negative": -1, "too-many": 2**31}.items():
        yield rule.refuses(f"bundle-num-envs-{name}", changed(num_envs=number), UNSUPPORTED, ASKED)
    rule = Rule("17.5", "`training`, `norm_obs`, `norm_reward`: bools")
    off = {"training": False, "norm_obs": False, "norm_reward": False}
    yield rule.accepts("bundle-flags-off", changed(**off), expected_statistics(**off), ASKED)
    for field in off:
        name = f"bundle-{field.replace('_', '-')}"
        yield rule.refuses(f"{name}-number", changed(**{field: 1}), DATA, ASKED)
        yield rule.refuses(f"{name}-null", changed(**{field: None}), DATA, ASKED)
    rule = Rule("17.5", "`clip_obs`, `clip_reward`, `gamma`, `epsilon`: numbers (17.6)")
    other = {"clip_obs": 5.0, "clip_reward": 4.0, "gamma": 0.5, "epsilon": 0.25}
    yield rule.accepts("bundle-numbers", changed(**other), expected_statistics(**other), ASKED)
    for field in other:
        yield rule.refuses(f"bundle-{field.replace('_', '-')}-null", changed(**{field: None}), DATA, ASKED)


def keys() -> Iterator[Vector]:
    rule = Rule("17.5", "`norm_obs_keys`: null, or an array of texts, none twice")
    whole = {**SETTINGS, **KEYS_FACTS}
    yield rule.accepts(
        "bundle-by-key", bundle(whole, KEYS_ARRAYS), expected_statistics(KEYS_ARRAYS, **KEYS_FACTS), ASKED
    )
    none = bundle({**whole, "norm_obs_keys": None}, KEYS_ARRAYS)
    yield rule.accepts("bundle-keys-null", none, expected_statistics(KEYS_ARRAYS, **KEYS_FACTS), ASKED)
    yield from inferred_keys()
    for name, value in {"text": "vector", "number": [1], "twice": ["vector", "vector"], "object": {}}.items():
        yield rule.refuses(f"bundle-keys-{name}", bundle({**whole, "norm_obs_keys": value}, KEYS_ARRAYS), DATA, ASKED)
    rule = Rule(
        "17.5", 'null: none; `"array"`: one; an array of texts, none twice: one for each of these keys, in this order'
    )
    both = means("obs_rms/b", (1, 2), (3, 4), 5) | means("obs_rms/a", (5,), (6,), 7) | RETURNS
    made = {**SETTINGS, "obs_rms": ["b", "a"], "norm_obs_keys": ["b", "a"]}
    found = {"obs_rms": ["b", "a"], "norm_obs_keys": ["b", "a"]}
    yield rule.accepts("bundle-keys-in-order", bundle(made, both), expected_statistics(both, **found), ASKED)
    none_left = {"obs_rms": [], "norm_obs_keys": []}
    yield rule.accepts(
        "bundle-keys-empty",
        bundle({**SETTINGS, **none_left}, RETURNS),
        expected_statistics(RETURNS, **none_left),
        ASKED,
    )
    for field in ("obs_rms", "old_obs"):
        for name, odd in {"text": "dict", "null-key": [None], "twice": ["a", "a"], "bool": True, "object": {}}.items():
            yield rule.refuses(f"bundle-{field.replace('_', '-')}-{name}", changed(**{field: odd}), DATA, ASKED)
    last = {"old_obs/b": sample_array("u1", 1, 2), "old_obs/a": sample_array("f4", 0.5)}
    yield rule.accepts(
        "bundle-last-observation-by-key",
        bundle({**SETTINGS, "old_obs": ["b", "a"]}, ARRAYS | last),
        expected_statistics(ARRAYS | last, old_obs=["b", "a"]),
        ASKED,
    )
    rule = Rule("17.5", '`ret_rms`, `old_reward`: null or `"array"`')
    off = {"norm_reward": False, "ret_rms": None}
    yield rule.accepts(
        "bundle-without-returns",
        bundle({**SETTINGS, **off}, OBSERVATIONS),
        expected_statistics(OBSERVATIONS, **off),
        ASKED,
    )
    for field in ("ret_rms", "old_reward"):
        for name, value in {"keys": ["a"], "no-keys": [], "bool": True}.items():
            yield rule.refuses(f"bundle-{field.replace('_', '-')}-{name}", changed(**{field: value}), DATA, ASKED)
    rule = Rule("17.5", "A key is written in a name unchanged, whatever it contains.")
    odd_key = "a/b.mean ~\u00e9\u0000"
    odd_arrays = means(f"obs_rms/{odd_key}", (1,), (2,), 3) | RETURNS
    named = {"obs_rms": [odd_key], "norm_obs_keys": [odd_key]}
    yield rule.accepts(
        "bundle-key-odd", bundle({**SETTINGS, **named}, odd_arrays), expected_statistics(odd_arrays, **named), ASKED
    )
    nameless = means("obs_rms/", (1,), (2,), 3) | RETURNS
    named = {"obs_rms": [""], "norm_obs_keys": [""]}
    yield rule.accepts(
        "bundle-key-empty", bundle({**SETTINGS, **named}, nameless), expected_statistics(nameless, **named), ASKED
    )


def inferred_keys() -> Iterator[Vector]:
    """Null for `norm_obs_keys`: the order is that of `obs_rms`, neither that of the space nor sorted."""
    rule = Rule("17.5", "Null for `norm_obs_keys` beside `obs_rms` by key means the keys of `obs_rms`, in its order")
    arrays = KEYS_ARRAYS | means("obs_rms/image", (5, 6), (7, 8), 9)
    names = ["vector", "image"]
    for name, fields in {
        "null-in-order": {}, "null-not-asked-for": {"norm_obs": False}, "null-without-a-space": {"observation_space": None},
    }.items():  # fmt: skip
        made = {**SETTINGS, **KEYS_FACTS, "obs_rms": names, "norm_obs_keys": None, **fields}
        found = {**KEYS_FACTS, "obs_rms": names, "norm_obs_keys": names, **fields}
        yield rule.accepts(f"bundle-keys-{name}", bundle(made, arrays), expected_statistics(arrays, **found), ASKED)
    other = {**SETTINGS, **KEYS_FACTS, "obs_rms": ["other"], "norm_obs_keys": None}
    odd = means("obs_rms/other", (1, 2), (3, 4), 5) | RETURNS
    rule = Rule("17.5", "The rules of 17.1 apply to the two entries together")
    yield rule.refuses("bundle-keys-null-of-another-space", bundle(other, odd), MISSING, ASKED)


def with_arrays(**arrays: SampleArray) -> dict[str, SampleArray]:
    """The arrays of a bundle with some of them changed; two underscores in a name mean a dot."""
    return {**ARRAYS, **{name.replace("__", "."): array for name, array in arrays.items()}}


def without(name: str) -> dict[str, SampleArray]:
    """The arrays of a bundle without one."""
    return {other: array for other, array in ARRAYS.items() if other != name}


def arrays() -> Iterator[Vector]:
    rule = Rule("17.5", "`vecnormalize.safetensors` has no metadata, and exactly these tensors")
    turned = dict(reversed(ARRAYS.items()))
    yield rule.accepts("bundle-arrays-in-another-order", bundle(SETTINGS, turned), expected_statistics(), ASKED)
    for name in ARRAYS:
        label = name.replace("_", "-").replace(".", "-")
        yield rule.refuses(f"bundle-array-missing-{label}", bundle(SETTINGS, without(name)), TENSOR, ASKED)
    yield rule.refuses("bundle-array-more", bundle(SETTINGS, with_arrays(mine=sample_array("f8", 1))), TENSOR, ASKED)
    more = with_arrays(old_reward=sample_array("f4", 1))
    yield rule.refuses("bundle-array-not-told", bundle(SETTINGS, more), TENSOR, ASKED)
    told = changed(old_reward="array")
    yield rule.refuses("bundle-array-told-alone", told, TENSOR, ASKED)
    noted = safetensors(ARRAYS, metadata={"mine": "text"})
    yield rule.refuses("bundle-metadata", bundle(SETTINGS, noted), TENSOR, ASKED)
    rule = Rule("17.5", 'Metadata is a "tensor failure" too, unless it is an empty object.')
    yield rule.accepts(
        "bundle-metadata-empty", bundle(SETTINGS, safetensors(ARRAYS, metadata={})), expected_statistics(), ASKED
    )
    rule = Rule(
        "17.5",
        "All are F64; mean and variance have the same shape, the count has no dimensions, and those of `ret_rms` have none either.",
    )
    yield rule.accepts("bundle-arrays", bundle(), expected_statistics(), ASKED)
    for name, made in {
        "mean-f4": with_arrays(obs_rms__mean=sample_array("f4", 1, 2)), "var-i8": with_arrays(obs_rms__var=sample_array("i8", 3, 4)),
        "count-f4": with_arrays(obs_rms__count=sample_array("f4", 5, shape=())),
        "two-shapes": with_arrays(obs_rms__var=sample_array("f8", 3)),
        "turned": with_arrays(obs_rms__var=sample_array("f8", 3, 4, shape=(2, 1))),
        "count-of-one": with_arrays(obs_rms__count=sample_array("f8", 5)),
        "returns-of-one": {**OBSERVATIONS, **means("ret_rms", (0.5,), (2,), 6)},
    }.items():  # fmt: skip
        yield rule.refuses(f"bundle-array-{name}", bundle(SETTINGS, made), TENSOR, ASKED)
    rule = Rule("17.5", "`old_reward`: with their own dtype and shape.")
    last = {"old_obs": sample_array("u1", *range(6), shape=(1, 2, 3)), "old_reward": sample_array("f2", 0.5, shape=())}
    found = {"old_obs": "array", "old_reward": "array"}
    yield rule.accepts(
        "bundle-last-arrays",
        bundle({**SETTINGS, **found}, ARRAYS | last),
        expected_statistics(ARRAYS | last, **found),
        ASKED,
    )
    rule = Rule(
        "17.5",
        'A violation of JSON, a field or a space is a "data failure", an invalid safetensors file a "container failure", and tensors that do not match a "tensor failure".',
    )
    whole = safetensors(ARRAYS)
    for name, raw in {
        "nothing": b"", "cut": whole[:-1], "behind": whole + b"x", "long-header": b"\xff" * 100, "no-json": bytes([2]) + bytes(7) + b"[]",
    }.items():  # fmt: skip
        yield rule.refuses(f"bundle-safetensors-{name}", bundle(SETTINGS, raw), CONTAINER, ASKED)


def deep_dicts() -> dict[str, Any]:
    """A Box within 19 Dicts: 20 levels."""
    made = facts.box((-1.0, -2.0), (1.0, 2.0))
    for _ in range(19):
        made = facts.dict_space({"a": made})
    return made


def fitting() -> Iterator[Vector]:
    rule = Rule("17.5", "The rules of 17.1 apply to the two entries together")
    for name, part in {"tuples": nested_facts(19), "dicts": deep_dicts()}.items():
        found = expected_statistics(action_space=part)
        yield rule.accepts(f"bundle-space-deep-{name}", changed(action_space=part), found, ASKED)
        outer = {"type": "Tuple", "library": "gymnasium", "spaces": [part]}
        yield rule.refuses(f"bundle-space-too-deep-{name}", changed(action_space=outer), UNSUPPORTED, ASKED)
    box = {"observation_space": facts.box((-1.0, -2.0), (1.0, 2.0)), "action_space": facts.discrete(3)}
    yield rule.accepts("bundle-spaces", changed(**box), expected_statistics(**box), ASKED)
    other = {"observation_space": facts.box((-1.0, -2.0, -3.0), (1.0, 2.0, 3.0))}
    yield rule.refuses("bundle-box-of-another-shape", changed(**other), TENSOR, ASKED)
    none = bundle({**SETTINGS, "obs_rms": None}, RETURNS)
    yield rule.refuses("bundle-observations-missing", none, MISSING, ASKED)
    none = bundle({**SETTINGS, "ret_rms": None}, OBSERVATIONS)
    yield rule.refuses("bundle-returns-missing", none, MISSING, ASKED)
    whole = {**SETTINGS, **KEYS_FACTS}
    cases: Mapping[str, tuple[dict[str, Any], str]] = {
        "keys-of-a-box": (box, TENSOR), "keys-of-another-space": ({"observation_space": facts.dict_space({})}, MISSING),
        "key-missing": ({"norm_obs_keys": ["vector", "image"]}, MISSING),
    }  # fmt: skip
    for name, (fields, outcome) in cases.items():
        yield rule.refuses(f"bundle-{name}", bundle({**whole, **fields}, KEYS_ARRAYS), outcome, ASKED)
    yield rule.refuses("bundle-keys-of-one", changed(norm_obs_keys=["vector"]), UNSUPPORTED, ASKED)


def not_held() -> Iterator[Vector]:
    rule = Rule(
        "17.5",
        'A writer MUST refuse what these entries cannot represent exactly ("unsupported"):',
    )
    seen = numbers("f8", 1, 2)
    exact = {"old_obs": sample_array("f8", 1, 2)}
    yield rule.accepts(
        "bundle-of-a-last-observation",
        pickled(old_obs=seen),
        expected_statistics(ARRAYS | exact, old_obs="array"),
        ASKED,
    )
    complex_ = {**ATTRIBUTES, "old_obs": numbers("c16", 1, 2, shape=(1,))}
    yield rule.refuses("bundle-of-complex-observations", dumps(instance(NORMALIZE, complex_)), UNSUPPORTED, ASKED)
    part = numbers("c16", 1, 2, shape=(1,))
    complex_box = space("box", "Box", {"low": part, "high": part, "_shape": (1,), "dtype": dtype("c16")})
    yield rule.refuses("bundle-of-a-complex-box", pickled(action_space=complex_box), UNSUPPORTED, ASKED)
    keyed = {**ATTRIBUTES, "old_obs": {"\ud800": doubles(1)}}
    yield rule.refuses("bundle-of-a-key-that-is-no-text", dumps(instance(NORMALIZE, keyed)), UNSUPPORTED, ASKED)
    twice = pickled(**{**KEYS, "norm_obs_keys": ["vector", "vector"]})
    yield rule.refuses("bundle-of-a-key-that-stands-twice", twice, UNSUPPORTED, ASKED)
