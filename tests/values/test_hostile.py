"""Hostile blobs of up to 2 MB: each is decoded or refused within what a hostile file may cost (RULES.md).

Every file is read in a process of its own (``decode_hostile_blobs.py``), as ``test_pth_hostile`` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from conformance.generators.build_pth import Name, Persist, Run, legacy_stream, text, whole
from sbformat import Limits
from tests.helpers import attacks, pth_checks
from tests.helpers.attacks import attributes, call, items, name, new, octets, pickle, value
from tests.helpers.build_blobs import CLOUD, CONSTANT
from tests.helpers.sampling import with_exhaustive

if TYPE_CHECKING:
    from collections.abc import Callable

NDARRAY: Final = name("numpy", "ndarray")
DISCRETE: Final = name("gymnasium.spaces.discrete", "Discrete")


def weigh(*fragments: bytes, **options: object) -> list[str]:
    """The outcomes of decoding."""
    files = [pickle(fragment, 5) for fragment in fragments]
    rows = pth_checks.weigh(*files, program="decode_hostile_blobs", **options)
    return [row["outcome"] for row in rows if row["what"] == "decode"]


# -- values that nothing may hash, spell or recurse into ----------------------------------------------

DEEP: Final = attacks.EMPTY + b"\x85" * 10_000
LEVELS: Final = attacks.EMPTY + b"\x85" * 150
DOUBLING: Final = attacks.EMPTY + b"2\x86" * 100
TABLES: Final = b"}" + (b"q\xf1(" + text("a") + b"h\xf1" + text("b") + b"h\xf1u0}(" + text("x") + b"h\xf1u") * 30
HUGE: Final = whole(1 << 400_000)
HUGEST: Final = whole(1 << 3_400_000)
HOLDING_ITSELF: Final = b"]q\xf0h\xf0a"
LONG: Final = text("\U0001f600" * 100_000)
STRANGE: Final = {
    "deep": DEEP,
    "levels": LEVELS,
    "doubling": DOUBLING,
    "tables": TABLES,
    "huge": HUGE,
    "itself": HOLDING_ITSELF,
    "long": LONG,
    "hugest": HUGEST,
}

CELL: Final = name(CLOUD, "_make_cell")


def code_with(index: int, part: bytes) -> bytes:
    """A code object with one part replaced by a fragment."""
    parts = [value(item) for item in CONSTANT]
    parts[index] = part
    return call(call(name(CLOUD, "_builtin_type"), text("CodeType")), *parts)


def dtype(code: bytes = text("f4"), order: bytes = text("<"), more: bytes = b"N") -> bytes:
    state = items(whole(3), order, more, b"N", b"N", whole(-1), whole(-1), whole(0))
    return call(name("numpy", "dtype"), code, b"\x89", b"\x88") + state + b"b"


def array(shape: bytes = items(whole(1)), kind: bytes | None = None, raw: bytes = octets(bytes(4))) -> bytes:
    made = call(name("numpy.core.multiarray", "_reconstruct"), NDARRAY, items(whole(0)), octets(b"b"))
    return made + items(whole(1), shape, dtype() if kind is None else kind, b"\x89", raw) + b"b"


def built(module: str, cls: str, **state: bytes) -> bytes:
    return new(name(module, cls)) + attributes(**state) + b"b"


def generator(state: bytes) -> bytes:
    return call(name("numpy.random._pickle", "__generator_ctor"), text("PCG64")) + state + b"b"


PLACES: Final[dict[str, Callable[[bytes], bytes]]] = {
    "a value": lambda part: part,
    "a key": lambda part: b"}" + part + b"Ns",
    "a member": lambda part: b"\x8f(" + part + b"\x90",
    "an OrderedDict": lambda part: call(name("collections", "OrderedDict"), part),
    "a key of an OrderedDict": lambda part: call(name("collections", "OrderedDict")) + b"(" + part + b"Nu",
    "a deque": lambda part: call(name("collections", "deque"), part, part),
    "a set": lambda part: call(name("builtins", "set"), part),
    "a range": lambda part: call(name("builtins", "range"), part),
    "a dtype": dtype,
    "a byte order": lambda part: dtype(order=part),
    "a subarray": lambda part: dtype(more=part),
    "a shape": array,
    "a size": lambda part: array(items(part)),
    "the bytes of an array": lambda part: array(raw=part),
    "an object": lambda part: array(
        kind=dtype(text("O8"), text("|")).replace(b"K\x00tb", b"K?tb"), raw=b"](" + part + b"e"
    ),
    "a bit generator": lambda part: call(name("numpy.random._pickle", "__generator_ctor"), part),
    "a random state": generator,
    "part of a random state": lambda part: generator(attributes(bit_generator=text("PCG64"), state=part)),
    "attributes": lambda part: new(name("stable_baselines3.common.noise", "NormalActionNoise")) + part + b"b",
    "an attribute": lambda part: built("stable_baselines3.common.noise", "NormalActionNoise", _mu=part),
    "n": lambda part: built("gymnasium.spaces.discrete", "Discrete", n=part),
    "bits": lambda part: built("gymnasium.spaces.multi_binary", "MultiBinary", n=part),
    "spaces": lambda part: built("gymnasium.spaces.tuple", "Tuple", spaces=part),
    "spaces by name": lambda part: built("gymnasium.spaces.dict", "Dict", spaces=part),
    "characters": lambda part: built(
        "gymnasium.spaces.text", "Text", min_length=whole(1), max_length=whole(2), _char_list=part
    ),
    "a schedule": lambda part: built("stable_baselines3.common.utils", "ConstantSchedule", val=part),
    "an enumeration": lambda part: call(name("stable_baselines3.common.type_aliases", "TrainFrequencyUnit"), part),
    "a date": lambda part: call(name("datetime", "datetime"), part, part),
    "a time": lambda part: call(name("datetime", "timedelta"), part),
    "a path": lambda part: call(name("pathlib", "PosixPath"), part),
    "a partial": lambda part: (
        call(name("functools", "partial"), name("builtins", "int")) + items(part, part, part, part) + b"b"
    ),
    "two functions of a partial": lambda part: (
        call(name("functools", "partial"), call(CELL, part)) + items(call(CELL, part), b")", b"}", b"N") + b"b"
    ),
    "a storage": lambda part: call(name("torch.storage", "_load_from_bytes"), part),
    "a tensor": lambda part: call(name("torch._utils", "_rebuild_tensor_v2"), part, part, part, part, part, part),
    "a type of Python's": lambda part: call(call(name(CLOUD, "_builtin_type"), part), part),
    "code constants": lambda part: code_with(7, part),
    "a constant": lambda part: code_with(7, items(part)),
    "a file name": lambda part: code_with(10, part),
    "globals": lambda part: attacks.function(scope=part),
    "a cell": lambda part: attacks.function(cells=[call(CELL, part)]),
    "the text of a function": lambda part: attacks.function(__doc__=part),
    "a qualified name": lambda part: attacks.function(__qualname__=part),
    "annotations": lambda part: attacks.function(__annotations__=part),
    "closure values": lambda part: call(
        name(CLOUD, "_fill_function"),
        call(name(CLOUD, "_make_skel_func"), code_with(1, whole(0)), whole(1), b"}"),
        attributes(closure_values=part),
    ),
    "a class": lambda part: call(name(CLOUD, "_make_skeleton_class"), part, text("A"), part, part, part, b"N"),
    "members": lambda part: call(
        name(CLOUD, "_make_skeleton_enum"), b")", text("A"), text("A"), part, part, part, b"N"
    ),
    "a type's parameters": lambda part: call(name("_operator", "getitem"), name("typing", "Union"), part),
    "a TypeVar": lambda part: call(name(CLOUD, "_make_typevar"), part, part),
    "a module": lambda part: call(name(CLOUD, "subimport"), part),
    "getattr": lambda part: call(name("builtins", "getattr"), name("torch", "Tensor"), part),
}


@pytest.mark.parametrize("what", with_exhaustive([what for what in STRANGE if what != "hugest"], STRANGE))
def test_no_place_in_a_blob_is_hashed_spelled_or_recursed_into(what: str) -> None:
    """One file a place; the value stands in it, alone and beside what holds it itself."""
    weigh(*[make(STRANGE[what]) for make in PLACES.values()])


# -- what holds itself --------------------------------------------------------------------------------

SELVES: Final[dict[str, bytes]] = {
    "a space": new(name("gymnasium.spaces.dict", "Dict")) + b"q\x00" + attributes(spaces=attributes(a=b"h\x00")) + b"b",
    "a box": new(name("gymnasium.spaces.box", "Box")) + b"q\x00" + attributes(low=b"h\x00", high=b"h\x00") + b"b",
    "an OrderedDict": call(name("collections", "OrderedDict")) + b"q\x00(" + text("a") + b"h\x00u",
    "an OrderedDict as its key": call(name("collections", "OrderedDict")) + b"q\x00(h\x00h\x00u",
    "a deque": call(name("collections", "deque")) + b"q\x00(h\x00e",
    "an array": call(name("numpy.core.multiarray", "_reconstruct"), NDARRAY, items(whole(0)), octets(b"b"))
    + b"q\x00"
    + items(whole(1), items(whole(1)), dtype(text("O8"), text("|")).replace(b"K\x00tb", b"K?tb"), b"\x89", b"](h\x00e")
    + b"b",
    "a dtype": call(name("numpy", "dtype"), text("V4")) + b"q\x00" + items(*[b"h\x00"] * 8) + b"b",
    "a partial": call(name("functools", "partial"), name("builtins", "int")) + b"q\x00" + items(*[b"h\x00"] * 4) + b"b",
    "a generator": call(name("numpy.random._pickle", "__generator_ctor"), text("PCG64")) + b"q\x00h\x00b",
    "an object": new(name("stable_baselines3.common.noise", "NormalActionNoise"))
    + b"q\x00"
    + attributes(_mu=b"h\x00")
    + b"b",
    "a schedule": new(name("stable_baselines3.common.utils", "FloatSchedule"))
    + b"q\x00"
    + attributes(value_schedule=b"h\x00")
    + b"b",
    "a name": name("numpy", "ndarray") + b"q\x00h\x00b",
    "a closure": attacks.function(cells=[call(CELL, attacks.get(1000))]),
    "a class": call(name(CLOUD, "_make_skeleton_class"), name("builtins", "type"), text("A"), b")", b"}", b"N", b"N")
    + b"q\x00"
    + call(name(CLOUD, "_class_setstate"), b"h\x00", items(attributes(a=b"h\x00"), b"}"))
    + b"0",
}


def test_what_holds_itself() -> None:
    assert set(weigh(*SELVES.values())) == {"read"}


# -- many of something small, and shared parts that are given again and again --------------------------


def lists_of(item: bytes, count: int, head: bytes = b"") -> bytes:
    """A list of so many, filled by 90,000 at a time: the stack holds no more than 100,000."""
    full, rest = divmod(count, 90_000)
    return head + b"]" + (b"(" + item * 90_000 + b"e") * full + b"(" + item * rest + b"e"


def kept(fragment: bytes, index: int) -> bytes:
    return fragment + b"q" + bytes([index]) + b"0"


def again(func: bytes, part: bytes, count: int, item: bytes = b"h\x01h\x00\x85R") -> bytes:
    return lists_of(item, count, kept(part, 0) + kept(func, 1))


MANY_NONE: Final = b"]" + (b"(" + b"N" * 90_000 + b"e") * 10
STATE_OF_MANY: Final = b"}(" + b"".join(text(str(number)) + b"N" for number in range(40_000)) + b"u"
SPACES_OF_ONE: Final = kept(DISCRETE + b")\x81" + attributes(n=whole(2)) + b"b", 2) + attributes(
    spaces=b"(" + b"h\x02" * 90_000 + b"t"
)
STORAGE: Final = legacy_stream(
    Persist(("storage", Name("torch", "FloatStorage"), "0", "cpu", 1, None)), [Run("0", 1, bytes(4))]
)
BITS: Final = kept(
    array(items(whole(1_000_000)), dtype(text("i1"), text("|")), octets(bytes(1_000_000))), 2
) + attributes(n=b"h\x02")
MILLION: Final = text("a" * 1_000_000)
LOAD: Final = name("torch.storage", "_load_from_bytes")

SHARED: Final[dict[str, Callable[[int], bytes]]] = {
    "text as bytes": lambda part: lists_of(
        b"h\x02h\x00h\x01\x86R",
        90_000 // part,
        kept(MILLION, 0) + kept(text("latin1"), 1) + kept(name("_codecs", "encode"), 2),
    ),
    "bytes as bytearrays": lambda part: again(name("builtins", "bytearray"), octets(bytes(1_000_000)), 90_000 // part),
    "bytearrays as arrays": lambda part: lists_of(
        b"h\x01(h\x00h\x02h\x03h\x04tR",
        60_000 // part,
        kept(b"\x96" + (1_000_000).to_bytes(8, "little") + bytes(1_000_000), 0)
        + kept(name("numpy.core.numeric", "_frombuffer"), 1)
        + kept(dtype(text("i1"), text("|")), 2)
        + kept(items(whole(1_000_000)), 3)
        + kept(text("C"), 4),
    ),
    "deques": lambda part: again(name("collections", "deque"), MANY_NONE, 63_000 // part),
    "sets": lambda part: again(name("builtins", "set"), MANY_NONE, 63_000 // part),
    "OrderedDicts": lambda part: again(
        name("collections", "OrderedDict"), kept(b"NN\x86", 2) + b"](" + b"h\x02" * 90_000 + b"e", 63_000 // part
    ),
    "sizes": lambda part: again(name("torch", "Size"), b"(" + b"K\x01" * 90_000 + b"t", 63_000 // part),
    "attributes": lambda part: again(
        name("stable_baselines3.common.noise", "NormalActionNoise"), STATE_OF_MANY, 63_000 // part, b"h\x01)\x81h\x00b"
    ),
    "spaces": lambda part: again(
        name("gymnasium.spaces.tuple", "Tuple"), SPACES_OF_ONE, 63_000 // part, b"h\x01)\x81h\x00b"
    ),
    "bits": lambda part: again(
        name("gymnasium.spaces.multi_binary", "MultiBinary"), BITS, 63_000 // part, b"h\x01)\x81h\x00b"
    ),
    "storages": lambda part: again(LOAD, octets(STORAGE), 63_000 // part),
    "files that are no storages": lambda part: again(LOAD, octets(legacy_stream([1] * 50)), 63_000 // part),
    "many storages": lambda part: (
        kept(LOAD, 1) + b"](" + (b"h\x01" + octets(STORAGE) + b"\x85R") * (1_900_000 // part // len(STORAGE)) + b"e"
    ),
    "discretes": lambda part: again(DISCRETE, attributes(n=whole(2)), 63_000 // part, b"h\x01)\x81h\x00b"),
    "dtypes": lambda part: again(name("numpy", "dtype"), text("f4"), 63_000 // part),
    "cells": lambda part: again(CELL, b"N", 63_000 // part),
    "dates": lambda part: again(name("datetime", "date"), octets(bytes([7, 228, 1, 2])), 63_000 // part),
    "paths": lambda part: again(name("pathlib", "PosixPath"), text("a/" * 500_000), 60_000 // part),
    "numbers as times": lambda part: again(name("datetime", "timedelta"), whole(1 << 3_000_000), 63_000 // part),
    "code": lambda part: again(
        call(name(CLOUD, "_builtin_type"), text("CodeType")),
        items(*[value(part) for part in CONSTANT]),
        63_000 // part,
        b"h\x01h\x00R",
    ),
    "names": lambda part: lists_of(b"cos\nsystem\n", 180_000 // part),
    "floats that collide": lambda part: (
        b"}(" + b"".join(attacks.number(float((1 << 61) * n)) + b"N" for n in range(1, 45_000 // part)) + b"u"
    ),
    "numbers that collide": lambda part: (
        b"}(" + b"".join(whole(n * ((1 << 61) - 1)) + b"N" for n in range(45_000 // part)) + b"u"
    ),
    "members that collide": lambda part: (
        b"\x8f(" + b"".join(whole(n * ((1 << 61) - 1)) for n in range(45_000 // part)) + b"\x90"
    ),
}


def test_many_small_values_and_shared_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """An eighth of each, in one process and within an eighth of the memory."""
    monkeypatch.setattr(pth_checks, "BASE_BYTES", pth_checks.BASE_BYTES // 8)
    weigh(*[make(8) for make in SHARED.values()], limits={"memory_bytes": Limits().memory_bytes // 8})


@pytest.mark.parametrize("what", with_exhaustive(["attributes", "members that collide"], SHARED))
def test_tens_of_thousands_of_small_values_and_shared_parts(what: str) -> None:
    weigh(SHARED[what](1))


# -- torch files within pickles -----------------------------------------------------------------------


def test_files_within_files() -> None:
    """A storage's own file that loads another in its pickle, and so on: no file of torch's does."""
    fragment = octets(STORAGE)
    for _ in range(12):
        loading = pickle(call(LOAD, fragment), 2)
        parts = attacks.STREAM
        fragment = octets(b"".join([*map(attacks.build_pth.dumps, parts[:3]), loading, attacks.build_pth.dumps([])]))
    tensors = items(*[call(LOAD, fragment)] * 50)
    assert (
        weigh(call(LOAD, fragment), tensors, call(LOAD, octets(STORAGE * 3000)), call(LOAD, octets(STORAGE[:-1])))
        == ["read"] * 4
    )
