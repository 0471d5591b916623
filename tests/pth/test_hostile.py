"""Hostile ``.pth`` files of up to 2 MB: each question is answered within what a hostile file may cost.

Every file is read in a process of its own (``read_hostile_pth.py``): whatever it does, nothing but an answer
or an error of ours may come out, within two seconds of processor time and three times its size and 64 MiB
of memory (RULES.md, "Budget for hostile input"). If it takes longer, its calls are counted (``count_work.py``).
"""

from __future__ import annotations

import struct
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

import pytest

from conformance.generators.build_pth import (
    GET_LAYOUT,
    REBUILD_FROM_TYPE,
    REBUILD_META,
    REBUILD_PARAMETER_WITH_STATE,
    REBUILD_Q,
    REBUILD_V2,
    REBUILD_V3,
    UNTYPED,
    Apply,
    Change,
    Name,
    Persist,
    Raw,
    Run,
    floats,
    legacy_stream,
    ordered,
    storage,
    tensor,
    text,
    torch_zip,
    whole,
)
from sbformat import Limits
from tests.helpers import count_work, pth_checks
from tests.helpers.pth_checks import weigh
from tests.helpers.sampling import with_exhaustive

if TYPE_CHECKING:
    from collections.abc import Callable

EIGHT: Final = bytes(32)

# -- values that no message and no hash may touch -----------------------------------------------------

DEEP: Final = Raw(b")" + b"\x85" * 20_000)
DEEPEST: Final = Raw(b")" + b"\x85" * 300_000)
DOUBLING: Final = Raw(b")" + b"\x85" + b"2\x86" * 60)
HUGE: Final = Raw(whole(1 << 200_000))
HOLDING_ITSELF: Final = Raw(b"]q\xf0h\xf0a")
LONG: Final = Raw(text("\U0001f600" * 100_000))

PLACES: Final[dict[str, Callable[[Raw], object]]] = {
    "a persistent id": Persist,
    "a storage class": lambda value: Persist(("storage", value, "0", "cpu", 8)),
    "a storage key": lambda value: storage(8, value),
    "a location": lambda value: storage(8, "0", "FloatStorage", value),
    "a numel": storage,
    "an offset": lambda value: tensor(storage(8), (2,), (1,), value),
    "a shape": lambda value: tensor(storage(8), value, (1,)),
    "a size": lambda value: tensor(storage(8), (value,), (1,)),
    "a stride": lambda value: tensor(storage(8), (2,), (value,)),
    "hooks": lambda value: Apply(REBUILD_V2, (storage(8), 0, (2,), (1,), False, value)),
    "metadata": lambda value: tensor(storage(8), (2,), (1,), 0, False, value),
    "a dtype": lambda value: Apply(REBUILD_V3, (storage(8, "0", UNTYPED), 0, (2,), (1,), False, ordered(), value)),
    "a meta dtype": lambda value: Apply(REBUILD_META, (value, (2,), (1,), False)),
    "a class": lambda value: Apply(REBUILD_FROM_TYPE, (REBUILD_V2, value, (), {})),
    "a function": lambda value: Apply(REBUILD_FROM_TYPE, (value, Name("torch", "Tensor"), (), {})),
    "a layout": lambda value: Apply(GET_LAYOUT, (value,)),
    "a scheme": lambda value: Apply(
        REBUILD_Q, (storage(32, "0", "QInt8Storage"), 0, (2,), (1,), (value, 1, 2), False, ordered())
    ),
    "attributes": lambda value: Apply(REBUILD_PARAMETER_WITH_STATE, (floats((8,)), True, ordered(), {"x": value})),
    "a dtype's byte order": lambda value: Apply(
        Name("numpy._core.multiarray", "scalar"),
        (Apply(Name("numpy", "dtype"), ("f8",), Change("BUILD", (3, value, None, None, None, -1, -1, 0))), bytes(8)),
    ),
    "a key": lambda value: Raw(b"}" + value.opcodes + b"Ns"),
    "a set": lambda value: Apply(Name("builtins", "set"), (value,)),
    "a member": lambda value: Apply(Name("builtins", "set"), ([value],)),
    "the arguments": lambda value: Apply(REBUILD_V2, value),
    "a value": lambda value: value,
}  # fmt: skip


STRANGE: Final = {
    "deep": DEEP, "deepest": DEEPEST, "doubling": DOUBLING, "huge": HUGE, "itself": HOLDING_ITSELF, "long": LONG,
}  # fmt: skip
few_leaves = pytest.mark.parametrize("limits", with_exhaustive([{"leaves": 10_000}], [{}]), ids=str)


@few_leaves
@pytest.mark.parametrize("what", with_exhaustive([what for what in STRANGE if what != "deepest"], STRANGE))
def test_no_place_in_a_pickle_is_hashed_shown_or_recursed_into(what: str, limits: dict[str, int]) -> None:
    """One file a place and a value: the tree may hold anything anywhere."""
    weigh(*[torch_zip([make(STRANGE[what])], {"0": EIGHT}) for make in PLACES.values()], limits=limits)


def test_a_value_that_is_refused_before_it_is_in_its_place() -> None:
    weigh(torch_zip([DEEPEST]))


# -- many of something small --------------------------------------------------------------------------


def tensors(numel: int, cls: str, geometry: bytes, count: int) -> bytes:
    """A pickle of one storage and a list of that many tensors of one geometry: 21 bytes each."""
    reference = (
        b"(" + text("storage") + f"ctorch\n{cls}\n".encode() + text("0") + text("cpu") + whole(numel) + b"tQq\x000"
    )
    head = reference + b"ccollections\nOrderedDict\n)Rq\x010" + geometry + b"ctorch._utils\n_rebuild_tensor_v2\nq\x040"
    return (
        b"\x80\x02"
        + head
        + b"]"
        + (b"(" + b"h\x04(h\x00K\x00h\x02h\x03\x89h\x01tR" * 1000 + b"e") * (count // 1000)
        + b"."
    )


def row(size: int, stride: int) -> bytes:
    """One dimension, as memo entries 2 and 3."""
    return b"(" + whole(size) + b"tq\x020(" + whole(stride) + b"tq\x030"


def with_bits(pickled: bytes, bits: bytes) -> bytes:
    """The same tensors with metadata."""
    return pickled.replace(b"h\x01tR", b"h\x01h\x05tR").replace(b"ctorch._utils", bits + b"q\x050ctorch._utils")


def lists_of(item: bytes, count: int, head: bytes = b"", protocol: int = 2) -> bytes:
    """A pickle of lists of 90,000 items: the stack holds no more than 100,000."""
    full, rest = divmod(count, 90_000)
    return b"\x80" + bytes([protocol]) + head + b"]" + (b"(" + item * 90_000 + b"e") * full + b"(" + item * rest + b"e."


def legacy_keys(count: int) -> bytes:
    """A legacy stream of empty storages, listed in the opposite order."""
    head = b"(" + text("storage") + b"q\x00ctorch\nFloatStorage\nq\x01" + text("cpu") + b"q\x021"
    ids = b"".join(b"(h\x00h\x01" + text(str(number)) + b"h\x02K\x00NtQ" for number in range(count))
    keys = [str(number) for number in reversed(range(count))]
    return legacy_stream(b"\x80\x02" + head + b"](" + ids + b"e.", [Run(key, 0, b"") for key in keys])


ITEMS: Final[dict[str, Callable[[int], bytes]]] = {
    "dicts": lambda part: lists_of(b"}", 450_000 // part),
    "lists": lambda part: lists_of(b"]", 450_000 // part),
    "sets": lambda part: lists_of(b"\x8f", 450_000 // part, protocol=4),
    "frozensets": lambda part: lists_of(b"(\x91", 450_000 // part, protocol=4),
    "tuples": lambda part: lists_of(b"N\x85", 450_000 // part),
    "ordered dicts": lambda part: lists_of(b"h\x00)R", 450_000 // part, b"ccollections\nOrderedDict\nq\x000"),
    "dtypes": lambda part: lists_of(b"ctorch\nbool\n", 150_000 // part),
    "whole numbers": lambda part: lists_of(b"M\xff\xff", 630_000 // part),
    "long numbers": lambda part: lists_of(b"\x8a\x01\x80", 630_000 // part),
    "floats": lambda part: lists_of(b"G\0\0\0\0\0\0\0\1", 200_000 // part),
    "texts": lambda part: lists_of(b"\x8c\x02\xc4\x80", 450_000 // part, protocol=4),
    "bytes": lambda part: lists_of(b"C\x02ab", 450_000 // part, protocol=4),
    "bytearrays": lambda part: lists_of(b"\x96" + bytes(8), 200_000 // part, protocol=5),
    "one part shared": lambda part: lists_of(b"h\x00", 900_000 // part, b"}q\x000"),
    "sizes": lambda part: lists_of(b"h\x00h\x01R", 200_000 // part, b"ctorch\nSize\nq\x000)\x85q\x010"),
    "devices": lambda part: lists_of(
        b"h\x00h\x01R", 200_000 // part, b"ctorch\ndevice\nq\x000" + text("cpu") + b"\x85q\x010"
    ),
    "numpy scalars": lambda part: lists_of(
        b"h\x00h\x01R",
        150_000 // part,
        b"cnumpy.core.multiarray\nscalar\nq\x000cnumpy\ndtype\n" + text("f8") + b"\x85RC\x08abcdefgh\x86q\x010",
    ),
    "memo entries": lambda part: b"\x80\x04N" + b"\x94" * (990_000 // part) + b".",
    "far memo entries": lambda part: b"\x80\x04N" + b"".join(
        b"r" + struct.pack("<I", 2 * n + 5) for n in range(390_000 // part)
    ) + b".",
    "changes of nothing": lambda part: b"\x80\x02ccollections\nOrderedDict\n)R" + b"(u" * (490_000 // part) + b".",
    "keys": lambda part: b"\x80\x02}" + b"".join(
        b"(" + b"".join(text(str(n)) + b"N" for n in range(at, at + 40_000 // part)) + b"u"
        for at in range(0, 160_000, 40_000)
    ) + b".",
    "dense keys": lambda part: b"\x80\x02}(" + b"".join(
        b"M" + struct.pack("<H", n) + b"N" for n in range(45_000 // part)
    ) + b"u.",
    "colliding keys": lambda part: b"\x80\x02}(" + b"".join(
        whole(n * ((1 << 61) - 1)) + b"N" for n in range(45_000 // part)
    ) + b"u.",
}  # fmt: skip


@pytest.fixture
def eighth(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Limits for files of an eighth of the size, which may cost an eighth of the memory, and a quarter of the time."""
    monkeypatch.setattr(pth_checks, "BASE_BYTES", pth_checks.BASE_BYTES // 8)
    monkeypatch.setattr(pth_checks, "SECONDS", pth_checks.SECONDS / 4)
    return {"memory_bytes": Limits().memory_bytes // 8}


def test_many_small_values(eighth: dict[str, int]) -> None:
    """A quarter of a megabyte of each, in one process."""
    weigh(*[torch_zip(make(8), {"0": EIGHT}) for make in ITEMS.values()], limits=eighth)


@pytest.mark.parametrize("what", with_exhaustive(["dicts", "numpy scalars", "colliding keys"], ITEMS))
def test_two_megabytes_of_small_values(what: str) -> None:
    weigh(torch_zip(ITEMS[what](1), {"0": EIGHT}))


CONJ: Final = b"}" + text("conj") + b"\x88s"
NEG: Final = b"}" + text("neg") + b"\x88s"
LARGE: Final = 600_000
EXPANDED: Final = row(1 << 24, 0)
TENSORS: Final[dict[str, Callable[[int], tuple[bytes, bytes]]]] = {
    "small": lambda part: (tensors(8, "FloatStorage", row(2, 1), 65_000 // part), EIGHT),
    "bools over a large storage": lambda part: (
        tensors(LARGE, "BoolStorage", row(LARGE, 1), 60_000 // part), bytes(LARGE),
    ),
    "bools with strides": lambda part: (
        tensors(LARGE, "BoolStorage", row(LARGE // 2, 2), 60_000 // part), bytes(LARGE),
    ),
    "half complex over a large storage": lambda part: (
        tensors(LARGE // 4, "ComplexHalfStorage", row(LARGE // 4, 1), 60_000 // part), bytes(LARGE),
    ),
    "conjugates over a large storage": lambda part: (
        with_bits(tensors(LARGE // 8, "ComplexFloatStorage", row(LARGE // 8, 1), 50_000 // part), CONJ), bytes(LARGE),
    ),
    "expanded": lambda part: (tensors(1, "FloatStorage", EXPANDED, 60_000 // part), bytes(4)),
    "expanded bools": lambda part: (tensors(1, "BoolStorage", EXPANDED, 60_000 // part), bytes(1)),
    "expanded half complex": lambda part: (tensors(1, "ComplexHalfStorage", EXPANDED, 60_000 // part), bytes(4)),
    "expanded conjugates": lambda part: (
        with_bits(tensors(1, "ComplexFloatStorage", EXPANDED, 60_000 // part), CONJ), bytes(8),
    ),
    "expanded negatives": lambda part: (with_bits(tensors(1, "FloatStorage", EXPANDED, 60_000 // part), NEG), bytes(4)),
    "one expanded": lambda part: (lone(tensors(1, "FloatStorage", EXPANDED, 1000)), bytes(4)),
    "one expanded bool": lambda part: (lone(tensors(1, "BoolStorage", EXPANDED, 1000)), bytes(1)),
    "one expanded half complex": lambda part: (lone(tensors(1, "ComplexHalfStorage", EXPANDED, 1000)), bytes(4)),
    "one expanded conjugate": lambda part: (
        lone(with_bits(tensors(1, "ComplexDoubleStorage", EXPANDED, 1000), CONJ)), bytes(16),
    ),
}  # fmt: skip


def lone(pickled: bytes) -> bytes:
    """The same pickle with one tensor only."""
    item = pickled[pickled.index(b"](") + 2 :]
    item = item[: item.index(b"R") + 1]
    return pickled[: pickled.index(b"](") + 2] + item + b"e."


def make_tensors(what: str, part: int) -> bytes:
    pickled, raw = TENSORS[what](part)
    return torch_zip(pickled, {"0": raw})


copies = pytest.mark.parametrize("copy", [False, True], ids=["views", "copies"])


@copies
@pytest.mark.parametrize("part", with_exhaustive([24], [8]))
def test_tensors_larger_than_their_file(part: int, copy: bool) -> None:  # noqa: FBT001
    """A part of the tensors of each kind, in one process."""
    weigh(*[make_tensors(what, part) for what in TENSORS], copy=copy)


@copies
@pytest.mark.parametrize("what", with_exhaustive(["small", "expanded bools"], TENSORS))
def test_tens_of_thousands_of_tensors_larger_than_their_file(what: str, copy: bool) -> None:  # noqa: FBT001
    weigh(make_tensors(what, 1), copy=copy)


def test_many_storages_of_the_legacy_stream() -> None:
    weigh(legacy_keys(40_000))


def test_many_records_that_are_missed() -> None:
    names = [("a" * 3 + "b" * 3) * 30 + str(number) for number in range(1000)]
    weigh(torch_zip(tensor(storage(8, "ab" * 90), (2,)), dict.fromkeys(names, b"")))


# -- nesting ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [300, 20_000])
def test_tensors_within_tensors(depth: int) -> None:
    layout = b"ctorch.serialization\n_get_layout\n" + text("torch.sparse_coo") + b"\x85Rq\x010"
    head = b"\x80\x02ctorch._utils\n_rebuild_sparse_tensor\nq\x000" + layout
    sparse = torch_zip(head + b"h\x00h\x01" * depth + b"K\x00" + b"K\x00)\x87\x86R" * depth + b".")
    scheme = b"ctorch\nper_channel_affine\nq\x020"
    head = b"\x80\x02ctorch._utils\n_rebuild_qtensor\nq\x000ccollections\nOrderedDict\n)Rq\x030" + scheme
    reference = b"(" + text("storage") + b"ctorch\nQInt8Storage\n" + text("0") + text("cpu") + whole(1) + b"tQq\x040"
    opening, closing = b"h\x00(h\x04K\x00K\x01\x85K\x01\x85(h\x02", b"K\x00K\x00t\x89h\x03tR"
    weigh(sparse, torch_zip(head + reference + opening * depth + b"K\x00" + closing * depth + b".", {"0": b"\0"}))


@few_leaves
def test_a_tree_that_doubles_thirty_times(limits: dict[str, int]) -> None:
    part = floats((8,))
    doubling: object = [part]
    for _ in range(30):
        doubling = [doubling, doubling]
    tree: object = part
    for level in range(30):
        tree = {f"a{level}": tree, f"b{level}": tree}
    tuples = [Raw(b"]" + b"\x85" + b"2\x86" * 30)]
    trees = (tuples, {"w": doubling}, tree)
    weigh(*[torch_zip(tree, {"0": EIGHT}) for tree in trees], limits=limits)


def test_lists_that_all_hold_each_other() -> None:
    count = 900
    lists = b"".join(b"]r" + struct.pack("<I", number) + b"0" for number in range(count))
    refs = b"".join(b"j" + struct.pack("<I", number) for number in range(count))
    filled = b"".join(
        b"j" + struct.pack("<I", number) + b"(" + refs[: 5 * (count // 4)] + b"e0"
        for number in range(count // 4, count)
    )
    weigh(torch_zip(b"\x80\x02" + lists + filled + b"](" + refs + b"e."))


# -- inflation ----------------------------------------------------------------------------------------


def test_a_pickle_that_inflates() -> None:
    """The ratio of a member above 1 MiB is at most 200; below, 64 MiB is all that a file may take."""
    text_of = b"\x80\x02" + text("a" * 1_000_000) + b"."
    weigh(
        torch_zip(text_of, deflated=True),
        torch_zip(b"\x80\x02" + text("a" * 50_000_000) + b".", deflated=True),
    )


def test_many_storages_that_inflate() -> None:
    """Each below the size from which its ratio counts, together a thousand times the file."""
    count = 100
    storages = {str(number): bytes(1 << 20) for number in range(count)}
    tree = [tensor(storage(1 << 18, str(number)), (1 << 18,)) for number in range(count)]
    weigh(torch_zip(tree, storages, deflated=True))


# -- what constructors copy ---------------------------------------------------------------------------


def test_one_argument_given_to_thousands_of_calls() -> None:
    calls = b"h\x00h\x01R" * 90_000
    shared = (
        b"ctorch\nSize\nq\x000" + b"(" + b"K\x01" * 90_000 + b"t\x85",
        b"c__builtin__\nbytearray\nq\x000" + b"B\x40\x42\x0f\x00" + bytes(1_000_000) + b"\x85",
        b"c_codecs\nencode\nq\x000" + text("a" * 1_000_000) + text("latin1") + b"\x86",
    )
    weigh(*[torch_zip(b"\x80\x03" + part + b"q\x010](" + calls + b"e.") for part in shared])


# -- the scales ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "allowed"), [("SECONDS", 0.0), ("BASE_BYTES", -(1 << 30)), ("MESSAGE_BYTES", 5)])
def test_the_scales_are_not_blind(name: str, allowed: float, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = torch_zip(Apply(Name("os", "system"), ("id",)))
    assert [row["outcome"] for row in weigh(refused)] == ["unsupported"]
    monkeypatch.setattr(pth_checks, name, allowed)
    with pytest.raises(AssertionError):
        weigh(refused)


def test_calls_decide_what_seconds_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(count_work, "LONGEST", 1e12)
    refused = torch_zip(Apply(Name("os", "system"), ("id",)))
    for allowed, outcome in ((1e-9, pytest.raises(AssertionError, match="ends of functions")), (1e-4, nullcontext())):
        monkeypatch.setattr(pth_checks, "SECONDS", allowed)
        with outcome:
            weigh(refused)


def test_a_busy_machine_fails_nothing() -> None:
    asked = []

    def run(environment: dict[str, str]) -> float:
        asked.append(count_work.COUNTED in environment)
        return 1.9 if asked[-1] else 7.0

    assert count_work.stay_within(run, lambda seconds: seconds, 2.0) == 7.0
    assert asked == [False, True]
    with pytest.raises(AssertionError, match=r"took 21.00 s of 2.00 s"):
        count_work.stay_within(lambda _: 21.0, lambda seconds: seconds, 2.0)
    with pytest.raises(AssertionError, match=r"84,000,000 beginnings and ends"):
        count_work.stay_within(lambda _: 7.0, lambda seconds: seconds, 2.0)
