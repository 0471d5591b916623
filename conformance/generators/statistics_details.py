"""Details of normalization statistics: forms of their values, keys, bundles (STATISTICS.md 17, VALUES.md 13.2)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from conformance.generators.build_bundles import (
    ARRAYS,
    ARRAYS_ENTRY,
    ASKED,
    RETURNS,
    SETTINGS,
    SETTINGS_ENTRY,
    bundle,
    expected_statistics,
    safetensors,
)
from conformance.generators.build_objects import (
    RUNNING,
    SampleArray,
    dict_space,
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
)
from conformance.generators.build_pth import Apply, Change, Name, Pairs, dumps, ordered, torch_zip
from conformance.generators.build_pth import floats as single
from conformance.generators.build_zips import Member, build_zip
from conformance.generators.normalisation import (
    ABSENT,
    BOX,
    KEYS,
    KEYS_ARRAYS,
    KEYS_FACTS,
    MISSING,
    PARTS,
    TENSOR,
    UNSUPPORTED,
    a_set,
    pickled,
)
from conformance.generators.vectors import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from conformance.generators.vectors import Vector

CONTAINER: Final = "container failure"
LIMIT: Final = "limit exceeded"


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from array_forms()
    yield from buffers()
    yield from array_details()
    yield from dicts()
    yield from means_of_one_key()
    yield from keys()
    yield from keys_twice()
    yield from safetensors_files()
    yield from other_dtypes()
    yield from archives()


def with_means(mean: object, var: object = None) -> bytes:
    """Statistics with this mean."""
    return pickled(obs_rms=running_mean(mean, doubles(3, 4) if var is None else var, 5.0))


def seen(code: str, *values: float, shape: tuple[int, ...] | None = None) -> dict[str, Any]:
    """The expected output for statistics with this last observation."""
    return expected_statistics(ARRAYS | {"old_obs": sample_array(code, *values, shape=shape)}, old_obs="array")


# -- arrays -------------------------------------------------------------------------------------------


def shared_form(shape: tuple[int, ...], items: bytes, *, start: object = ((0,),), code: str = "f8") -> Apply:
    """An array by NEWOBJ, which numpy 1 and 2 load."""
    state = (1, shape, dtype(code), False, encoded_bytes(items))
    return Apply(Name("numpy", "ndarray"), start, Change("BUILD", state), how="NEWOBJ")


def array_forms() -> Iterator[Vector]:
    rule = Rule(
        "13.2",
        "array that both numpy 1 and 2 load: `numpy.ndarray` by NEWOBJ with `((0,),)`, and the state of `_reconstruct`",
    )
    two = pack_items("f8", 1, 2)
    yield rule.accepts("norm-array-by-newobj", with_means(shared_form((2,), two)), expected_statistics(), ASKED)
    for name, start in {"of-one": ((1,),), "of-no-shape": (), "of-a-number": (0,)}.items():
        yield rule.refuses(
            f"norm-array-by-newobj-{name}", with_means(shared_form((2,), two, start=start)), TENSOR, ASKED
        )
    bare = Apply(Name("numpy", "ndarray"), ((0,),), how="NEWOBJ")
    yield rule.refuses("norm-array-by-newobj-without-state", with_means(bare), TENSOR, ASKED)


def buffer(
    code: str, values: tuple[float, ...], shape: object, order: object, *more: object, raw: object = None
) -> Apply:
    """An array as protocol 5 has it."""
    items = encoded_bytes(pack_items(code, *values)) if raw is None else raw
    return Apply(Name("numpy.core.numeric", "_frombuffer"), (items, dtype(code), shape, order, *more))


def buffers() -> Iterator[Vector]:
    rule = Rule("13.2", 'array, protocol 5: `numpy.core.numeric._frombuffer(bytes, dtype, shape, "C" or "F")`')
    yield rule.accepts("norm-array-buffer", with_means(buffer("f8", (1, 2), (2,), "C")), expected_statistics(), ASKED)
    made = with_means(buffer("f8", (), (2,), "C", raw=bytearray(pack_items("f8", 1, 2))))
    yield rule.accepts("norm-array-buffer-of-bytearray", made, expected_statistics(), ASKED)
    turned = buffer("u1", (1, 4, 2, 5, 3, 6), (2, 3), "F")
    yield rule.accepts(
        "norm-array-buffer-fortran", pickled(old_obs=turned), seen("u1", *range(1, 7), shape=(2, 3)), ASKED
    )
    for name, odd in {
        "order-a": buffer("f8", (1, 2), (2,), "A"), "order-k-without-axes": buffer("f8", (1, 2), (2,), "K"),
        "order-c-with-axes": buffer("f8", (1, 2), (2,), "C", (0,)), "too-short": buffer("f8", (1,), (2,), "C"),
        "shape-in-a-list": buffer("f8", (1, 2), [2], "C"),
    }.items():  # fmt: skip
        yield rule.refuses(f"norm-array-buffer-{name}", with_means(odd), TENSOR, ASKED)
    rule = Rule("13.2", "Axis i of the array is axis `axes[i]` of the base, whose bytes are in C order.")
    base = (2, 3, 4)
    items = [100 * i + 10 * j + k for k in range(4) for i in range(2) for j in range(3)]
    moved = buffer(
        "u1", tuple(100 * i + 10 * j + k for i in range(2) for j in range(3) for k in range(4)), base, "K", (2, 0, 1)
    )
    yield rule.accepts(
        "norm-array-buffer-transposed", pickled(old_obs=moved), seen("u1", *items, shape=(4, 2, 3)), ASKED
    )
    for name, axes in {
        "twice": (0, 0),
        "too-few": (0,),
        "too-large": (0, 2),
        "negative": (0, -1),
        "list": [1, 0],
    }.items():
        odd = buffer("f8", (1, 2), (1, 2), "K", axes)
        yield rule.refuses(f"norm-array-buffer-axes-{name}", with_means(odd), TENSOR, ASKED)


def stated(code: str, state: tuple[object, ...], *, args: tuple[object, ...] | None = None) -> Apply:
    """A dtype with this state."""
    return Apply(Name("numpy", "dtype"), (code, False, True) if args is None else args, Change("BUILD", state))


def array_details() -> Iterator[Vector]:
    two = encoded_bytes(pack_items("f8", 1, 2))
    rule = Rule("13.2", "or of 9 items, whose first is 3 or 4 and whose last is None")
    plain = (3, "<", None, None, None, -1, -1, 0)
    for name, state in {"3-of-nine": (*plain, None), "4": (4, *plain[1:], None)}.items():
        made = with_means(reconstructed_array((2,), stated("f8", state), two))
        yield rule.accepts(f"norm-dtype-state-{name}", made, expected_statistics(), ASKED)
    for name, state in {
        "5": (5, *plain[1:]), "3-with-metadata": (*plain, {}), "4-with-metadata": (4, *plain[1:], {}), "of-seven": plain[:-1],
    }.items():  # fmt: skip
        made = with_means(reconstructed_array((2,), stated("f8", state), two))
        yield rule.refuses(f"norm-dtype-state-{name}", made, TENSOR, ASKED)
    rule = Rule("13.2", "A dtype that was not created as a copy has no state, because numpy ignores it.")
    made = reconstructed_array((2,), stated("f8", plain, args=("f8", False, False)), two)
    yield rule.refuses("norm-dtype-not-a-copy", with_means(made), TENSOR, ASKED)
    rule = Rule("13.2", "An array has at most 64 dimensions, and items of b1 are 0 or 1.")
    yield rule.accepts("norm-array-bools", pickled(old_obs=numbers("b1", 0, 1)), seen("b1", 0, 1), ASKED)
    odd = reconstructed_array((2,), dtype("b1"), encoded_bytes(b"\0\2"))
    yield rule.accepts("norm-array-bools-of-two", pickled(old_obs=odd), expected_statistics(), ASKED)
    made = with_means(numbers("f8", 1, shape=(1,) * 65), numbers("f8", 3, shape=(1,) * 65))
    yield rule.refuses("norm-array-of-rank-65", made, TENSOR, ASKED)
    yield rule.accepts(
        "norm-array-seen-of-rank-65", pickled(old_obs=numbers("f8", 1, shape=(1,) * 65)), expected_statistics(), ASKED
    )
    rule = Rule("17.7", "Arrays of statistics and of the last step have at most `tensor_rank` dimensions")
    seen_ = numbers("u1", 7, shape=(1,) * 32)
    yield rule.accepts("norm-array-of-rank-32", pickled(old_obs=seen_), seen("u1", 7, shape=(1,) * 32), ASKED)
    for rank in (33, 64):
        made = with_means(numbers("f8", 1, shape=(1,) * rank), numbers("f8", 3, shape=(1,) * rank))
        yield rule.refuses(f"norm-array-of-rank-{rank}", made, LIMIT, ASKED)
        yield rule.refuses(
            f"norm-array-seen-of-rank-{rank}", pickled(old_obs=numbers("u1", 7, shape=(1,) * rank)), LIMIT, ASKED
        )


# -- dicts and keys -----------------------------------------------------------------------------------


def dicts() -> Iterator[Vector]:
    rule = Rule("16.3", "(An OrderedDict is a dict here.")
    made = pickled(**{**KEYS, "obs_rms": ordered(KEYS["obs_rms"])})
    yield rule.accepts("norm-ordered-dict", made, expected_statistics(KEYS_ARRAYS, **KEYS_FACTS), ASKED)
    pairs = Apply(Name("collections", "OrderedDict"), ([["vector", KEYS["obs_rms"]["vector"]]],))
    made = pickled(**{**KEYS, "obs_rms": pairs})
    yield rule.accepts("norm-ordered-dict-of-pairs", made, expected_statistics(KEYS_ARRAYS, **KEYS_FACTS), ASKED)
    last = ARRAYS | {"old_obs/b": sample_array("f4", 1), "old_obs/a": sample_array("f4", 2)}
    made = pickled(old_obs=ordered({"b": floats(1), "a": floats(2)}))
    yield rule.accepts("norm-ordered-last-observation", made, expected_statistics(last, old_obs=["b", "a"]), ASKED)
    odd = Apply(Name("collections", "OrderedDict"), (), Change("BUILD", {"mine": 1}))
    yield rule.refuses("norm-ordered-dict-with-attributes", pickled(obs_rms=odd), TENSOR, ASKED)
    default = Apply(Name("collections", "defaultdict"), (), Change("SETITEMS", ["vector", KEYS["obs_rms"]["vector"]]))
    yield rule.refuses("norm-default-dict", pickled(**{**KEYS, "obs_rms": default}), TENSOR, ASKED)
    yield rule.accepts("norm-last-observation-of-no-keys", pickled(old_obs={}), expected_statistics(old_obs=[]), ASKED)
    none = {"obs_rms": [], "norm_obs_keys": []}
    yield rule.accepts(
        "norm-no-keys", pickled(obs_rms={}, norm_obs_keys=[]), expected_statistics(RETURNS, **none), ASKED
    )


def means_of_one_key() -> Iterator[Vector]:
    rule = Rule("17.1", 'Statistics, numbers, flags and keys of another type are a "tensor failure".')
    whole = {"mean": doubles(1, 2), "var": doubles(3, 4), "count": 5.0}
    more = instance(RUNNING, {**whole, "epsilon": 1e-4})
    yield rule.refuses("norm-means-with-a-fourth-of-returns", pickled(norm_reward=False, ret_rms=more), TENSOR, ASKED)
    rule = Rule("17.1", 'or with an attribute that is not listed, is something else ("unsupported").')
    yield rule.refuses("norm-means-with-a-fourth-alone", dumps(more), UNSUPPORTED, ASKED)
    rule = Rule("16.3", "Of two equal keys of another dict, the last one applies, as in Python.")
    twice = Pairs(("mean", doubles(7, 8, 9)), *whole.items())
    made = pickled(obs_rms=Apply(RUNNING, (), Change("BUILD", twice), how="NEWOBJ"))
    yield rule.accepts("norm-means-name-twice", made, expected_statistics(), ASKED)
    odd = Apply(RUNNING, (), Change("BUILD", Pairs(*whole.items(), (1, 2))), how="NEWOBJ")
    yield rule.refuses("norm-means-name-number", pickled(obs_rms=odd), TENSOR, ASKED)


THREE: Final = running_mean(doubles(1, 2, 3), doubles(4, 5, 6), 7.0)


def keys() -> Iterator[Vector]:
    off = {"norm_obs": False}
    rule = Rule("17.1", "Statistics MUST have the shape of the Box to which they belong")
    yield rule.refuses("norm-box-not-asked-for", pickled(**BOX, **off, obs_rms=THREE), TENSOR, ASKED)
    yield rule.refuses(
        "norm-box-of-a-key-not-asked-for", pickled(**{**KEYS, **off, "obs_rms": {"vector": THREE}}), TENSOR, ASKED
    )
    both = {**KEYS["obs_rms"], "image": THREE}
    yield rule.refuses("norm-box-of-a-key-that-is-not-normalized", pickled(**{**KEYS, "obs_rms": both}), TENSOR, ASKED)
    rule = Rule("17.1", 'Statistics by key require a Dict space ("tensor failure") that has those keys ("missing")')
    other = {**KEYS["obs_rms"], "other": THREE}
    yield rule.refuses("norm-key-of-no-space", pickled(**{**KEYS, "obs_rms": other}), MISSING, ASKED)
    yield rule.refuses(
        "norm-key-of-no-space-not-asked-for", pickled(**{**KEYS, **off, "obs_rms": other}), MISSING, ASKED
    )
    one = {"observation_space": dict_space(PARTS)}
    both = {"observation_space": KEYS_FACTS["observation_space"]}
    yield rule.accepts("norm-one-for-a-dict", pickled(**one), expected_statistics(**both), ASKED)
    yield rule.accepts(
        "norm-one-for-a-dict-not-asked-for", pickled(**one, **off), expected_statistics(**both, **off), ASKED
    )
    rule = Rule("17.1", "`norm_obs_keys` is used if `obs_keys` is present too.")
    found = expected_statistics(KEYS_ARRAYS, **KEYS_FACTS)
    for name, value in {"number": 1, "twice": ["a", "a"], "missing-key": a_set("other")}.items():
        yield rule.accepts(f"norm-obs-keys-of-{name}", pickled(**KEYS, obs_keys=value), found, ASKED)
    made = pickled(**{**KEYS, "norm_obs_keys": ABSENT}, obs_keys=a_set("vector"))
    yield rule.refuses("norm-obs-keys-alone", made, TENSOR, ASKED)
    rule = Rule("17.1", "a set, which is used sorted")
    made = pickled(**{**KEYS, "norm_obs_keys": a_set("vector", "vector")})
    yield rule.accepts("norm-keys-in-a-set-twice", made, found, ASKED)


def keys_twice() -> Iterator[Vector]:
    rule = Rule("16.3", "Of two equal keys of another dict, the last one applies, as in Python.")
    twice = Pairs(("vector", THREE), ("vector", KEYS["obs_rms"]["vector"]))
    yield rule.accepts(
        "norm-key-twice", pickled(**{**KEYS, "obs_rms": twice}), expected_statistics(KEYS_ARRAYS, **KEYS_FACTS), ASKED
    )
    last = ARRAYS | {"old_obs/a": sample_array("f4", 3), "old_obs/b": sample_array("f4", 2)}
    made = pickled(old_obs=Pairs(("a", floats(1)), ("b", floats(2)), ("a", floats(3))))
    yield rule.accepts("norm-last-observation-key-twice", made, expected_statistics(last, old_obs=["a", "b"]), ASKED)


# -- bundles ------------------------------------------------------------------------------------------


def file_of(header: object, items: bytes) -> bytes:
    """A safetensors file with this header, as an object or as bytes."""
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(raw).to_bytes(8, "little") + raw + items


def rows_of(arrays: Mapping[str, SampleArray]) -> tuple[dict[str, Any], bytes]:
    """The header and the bytes of a file with these arrays."""
    raw = safetensors(arrays)
    size = int.from_bytes(raw[:8], "little")
    return json.loads(raw[8 : 8 + size]), raw[8 + size :]


def safetensors_files() -> Iterator[Vector]:
    rule = Rule(
        "12.6",
        "the first tensor starts at 0, each next one where the one before it ends, and the last ends with the file.",
    )
    header, items = rows_of(ARRAYS)
    first = "obs_rms.mean"
    row = header[first]
    moved = {name: {**made, "data_offsets": [at + 8 for at in made["data_offsets"]]} for name, made in header.items()}
    yield rule.accepts(
        "bundle-safetensors-unaligned", bundle(SETTINGS, file_of(header, items)), expected_statistics(), ASKED
    )
    shared = {**header, "obs_rms.var": {**header["obs_rms.var"], "data_offsets": row["data_offsets"]}}
    for name, made in {
        "gap-before": file_of(moved, bytes(8) + items), "overlap": file_of(shared, items),
        "row-of-a-list": file_of({**header, first: []}, items),
        "row-without-dtype": file_of({**header, first: {k: v for k, v in row.items() if k != "dtype"}}, items),
        "row-without-shape": file_of({**header, first: {k: v for k, v in row.items() if k != "shape"}}, items),
        "negative-size": file_of({**header, first: {**row, "shape": [-2]}}, items),
        "float-size": file_of({**header, first: {**row, "shape": [2.0]}}, items),
        "three-offsets": file_of({**header, first: {**row, "data_offsets": [0, 8, 16]}}, items),
        "offsets-turned": file_of({**header, first: {**row, "data_offsets": [16, 0]}}, items),
        "name-twice": file_of(json.dumps(header)[:-1].encode() + b", " + json.dumps({first: row})[1:].encode(), items),
        "not-utf-8": file_of(b'{"\xff": {}}', b""),
        "name-surrogate": file_of({**header, "\ud800": {"dtype": "U8", "shape": [0], "data_offsets": [len(items)] * 2}}, items),
    }.items():  # fmt: skip
        yield rule.refuses(f"bundle-safetensors-{name}", bundle(SETTINGS, made), CONTAINER, ASKED)
    rule = Rule("12.6", "A reader ignores other fields of a tensor.")
    more = file_of({**header, first: {**row, "mine": 1}}, items)
    yield rule.accepts("bundle-safetensors-field-of-ones-own", bundle(SETTINGS, more), expected_statistics(), ASKED)
    rule = Rule("12.6", "A tensor whose bytes are not those of its shape, and a BOOL other than 0 and 1")
    wrong = file_of({**header, first: {**row, "shape": [3]}}, items)
    yield rule.refuses("bundle-safetensors-another-size", bundle(SETTINGS, wrong), TENSOR, ASKED)
    rule = Rule("12.6", "The limits of JSON (8) apply to the header, `leaves` to the number of tensors")
    deep = b'{"x": ' + b"[" * 70 + b"]" * 70 + b"}"
    yield rule.refuses("bundle-safetensors-deep", bundle(SETTINGS, file_of(deep, b"")), LIMIT, ASKED)
    digits = b'{"x": ' + b"1" * 5000 + b"}"
    yield rule.refuses("bundle-safetensors-digits", bundle(SETTINGS, file_of(digits, b"")), LIMIT, ASKED)
    yield rule.accepts("bundle-safetensors-most-tensors", bundle(), expected_statistics(), ASKED, "--limit", "leaves=6")
    yield rule.refuses("bundle-safetensors-too-many-tensors", bundle(), LIMIT, ASKED, "--limit", "leaves=5")
    rule = Rule("12.6", "`__metadata__` is an object of texts, and may be missing.")
    none = file_of({"__metadata__": {}, **header}, items)
    yield rule.accepts("bundle-safetensors-metadata-empty", bundle(SETTINGS, none), expected_statistics(), ASKED)
    for name, meta in {"of-numbers": {"a": 1}, "null": None, "list": []}.items():
        made = bundle(SETTINGS, file_of({"__metadata__": meta, **header}, items))
        yield rule.refuses(f"bundle-safetensors-metadata-{name}", made, CONTAINER, ASKED)


def last(code: str, items: bytes, shape: tuple[int, ...] = (2,)) -> bytes:
    """A bundle whose last observation has this dtype, by safetensors' name."""
    header, held = rows_of(ARRAYS)
    row = {"dtype": code, "shape": list(shape), "data_offsets": [len(held), len(held) + len(items)]}
    return bundle({**SETTINGS, "old_obs": "array"}, file_of({**header, "old_obs": row}, held + items))


def other_dtypes() -> Iterator[Vector]:
    rule = Rule("17.5", "`old_reward`: with their own dtype and shape.")
    yield rule.accepts("bundle-last-bools", last("BOOL", b"\0\1"), seen("b1", 0, 1), ASKED)
    yield rule.refuses("bundle-last-bools-of-two", last("BOOL", b"\0\2"), TENSOR, ASKED)
    rule = Rule("17.7", "A tensor whose dtype numpy does not have (BF16, F8) or whose numbers are complex is")
    for code, size in {"BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "C64": 8}.items():
        name = code.lower().replace("_", "-")
        yield rule.refuses(f"bundle-last-{name}", last(code, bytes(2 * size)), UNSUPPORTED, ASKED)
    rule = Rule("12.6", "A `dtype` that is not one of safetensors' in `tables/dtypes.json` is")
    for name, code in {"f4": "F4", "small-letter": "f64", "of-numpy": "<f8"}.items():
        yield rule.refuses(f"bundle-last-{name}", last(code, bytes(16)), UNSUPPORTED, ASKED)
    rule = Rule("12.6", "and `tensor_rank` to their dimensions")
    for rank in (33, 64, 65):
        yield rule.refuses(f"bundle-last-of-rank-{rank}", last("U8", b"\1", (1,) * rank), LIMIT, ASKED)


def zipped(entries: Mapping[str, bytes | Member]) -> bytes:
    """A zip of entries."""
    return build_zip(
        *[Member(name.encode(), data) if isinstance(data, bytes) else data for name, data in entries.items()]
    )


def archives() -> Iterator[Vector]:
    settings, arrays = json.dumps(SETTINGS).encode(), safetensors(ARRAYS)
    both = {SETTINGS_ENTRY: settings, ARRAYS_ENTRY: arrays}
    rule = Rule("17.7", "one of SB3, one of SB2 (16.1), or a torch zip, which has none")
    yield rule.refuses("bundle-torch-zip", torch_zip(single((1,)), {"0": bytes(4)}), MISSING, ASKED)
    yield rule.refuses(
        "bundle-sb2-zip", zipped({"data": b"{}", "parameter_list": b"[]", "parameters": b""}), MISSING, ASKED
    )
    yield rule.accepts(
        "bundle-sb2-zip-with-both",
        zipped({"data": b"{}", "parameter_list": b"[]", "parameters": b"", **both}),
        expected_statistics(),
        ASKED,
    )
    yield rule.refuses("bundle-another-zip", zipped({"mine": b"{}"}), UNSUPPORTED, ASKED)
    yield rule.refuses("bundle-another-zip-with-both", zipped(both), UNSUPPORTED, ASKED)
    yield rule.refuses("bundle-empty-zip", zipped({}), CONTAINER, ASKED)
    rule = Rule("17.7", "A reader reads only the two entries.")
    bad = Member(b"policy.pth", b"x", local={"crc": 1}, central={"crc": 1})
    yield rule.accepts(
        "bundle-crc-of-another-entry", zipped({"data": b"{}", "policy.pth": bad, **both}), expected_statistics(), ASKED
    )
    bad = Member(b"data", b"{}", local={"crc": 1}, central={"crc": 1})
    yield rule.accepts("bundle-crc-of-data", zipped({"data": bad, **both}), expected_statistics(), ASKED)
    for name, held in both.items():
        bad = Member(name.encode(), held, local={"crc": 1}, central={"crc": 1})
        yield rule.refuses(
            f"bundle-crc-of-{name.partition('.')[2]}", zipped({"data": b"{}", **both, name: bad}), CONTAINER, ASKED
        )
    rule = Rule("17.7", 'A `.safetensors` file is "unsupported", also if it is an archive by 12.6')
    entries = [
        {"name": "data", "text": "{}"},
        {"name": SETTINGS_ENTRY, "text": settings.decode()},
        {"name": ARRAYS_ENTRY},
    ]
    whole = SampleArray("u1", (len(arrays),), arrays)
    noted = {"sbformat": json.dumps({"version": 1, "entries": entries})}
    yield rule.refuses("bundle-as-safetensors", safetensors({ARRAYS_ENTRY: whole}, metadata=noted), UNSUPPORTED, ASKED)
    alone = {"sbformat": json.dumps({"version": 1, "entries": entries[:1]})}
    yield rule.refuses("bundle-as-safetensors-without", safetensors({}, metadata=alone), UNSUPPORTED, ASKED)
    yield rule.refuses("bundle-safetensors-alone", arrays, UNSUPPORTED, ASKED)
