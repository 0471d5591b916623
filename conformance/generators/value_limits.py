"""How the limits of a ``.pth`` are counted, on both sides (FORMAT.md 8.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from conformance.generators import expected
from conformance.generators.build_pth import (
    ORDERED_DICT,
    REBUILD_SPARSE,
    SIZE,
    Apply,
    Change,
    Pairs,
    Run,
    dumps,
    floats,
    legacy_stream,
    ordered,
    storage,
    tensor,
)
from conformance.generators.build_torch_zips import DATA, pth
from conformance.generators.constructors import TRUE, WHOLE, parameter, with_state
from conformance.generators.numpy_values import array, buffer, dtype_of
from conformance.generators.other_tensors import (
    CHANNELS,
    INDICES,
    PER_TENSOR,
    QUANTIZED,
    SCALES,
    SIZES,
    SPARSE,
    VALUES,
    ZEROS,
    as_coo,
    as_quantized,
    coo,
    layout,
    quantized,
)
from conformance.generators.small_values import BYTEARRAY, ENCODE, FROZENSET, SET
from conformance.generators.vectors import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from conformance.generators.vectors import Vector

PASSED: Final = "limit exceeded"
FLAGS: Final = {"is_parameter": True, **TRUE}


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from depths()
    yield from leaves()
    yield from paths()
    yield from tensors()
    yield from expanded()
    yield from views()
    yield from copies()
    yield from copied_keys()


class Counted:
    """A rule about one limit: exactly as much as a file requires, and one less."""

    def __init__(self, limit: str, sentence: str) -> None:
        self.limit = limit
        self.rule = Rule("8.1", sentence)

    def needs(
        self, name: str, count: int, tree: object, held: Any, *features: str, storages: Mapping[str, bytes] = DATA
    ) -> Iterator[Vector]:
        """Yield both sides for a value."""
        return self.file_needs(name, count, pth(tree, storages), held, *features)

    def file_needs(self, name: str, count: int, data: bytes, held: Any, *features: str) -> Iterator[Vector]:
        """Yield both sides for a file."""
        name = f"{self.limit.replace('_', '-')}-of-{name}"
        limits = [("--limit", f"{self.limit}={number}") for number in (count, count - 1)]
        yield self.rule.accepts(f"{name}-kept", data, expected.lone(held), *limits[0], features=features)
        yield self.rule.refuses(f"{name}-passed", data, PASSED, *limits[1], features=features)


def depths() -> Iterator[Vector]:
    count = Counted(
        "value_depth", "`value_depth`: lists, tuples, dicts, ordered dicts, sets and frozensets are containers"
    )
    yield from count.needs("a-set", 1, Apply(SET, ([1],)), {"set": [1]})
    yield from count.needs("a-frozenset-in-a-list", 2, [Apply(FROZENSET, ([1],))], {"list": [{"frozenset": [1]}]})
    yield from count.needs("an-opcode-of-a-set", 2, [{1}], {"list": [{"set": [1]}]})
    yield from count.needs("an-empty-tuple", 2, [()], {"list": [{"tuple": []}]})
    count = Counted("value_depth", "Keys of dicts, members of sets, and the arguments of calls have no depth.")
    yield from count.needs("tuples-as-keys", 1, {(1, 2): 3}, expected.plain({(1, 2): 3}))
    yield from count.needs("tuples-as-members", 1, Apply(SET, ([(1,)],)), {"set": [{"tuple": [1]}]})
    yield from count.needs("arguments", 1, [Apply(SIZE, ((2,),))], {"list": [{"size": [2]}]})
    count = Counted(
        "value_depth", "so is the `state` of a tensor, also an empty one, and the lists, tuples and dicts in it."
    )
    held = {**WHOLE, **FLAGS, "state": expected.plain({"a": [1]})}
    yield from count.needs("attributes", 2, with_state({"a": [1]}), held, "attributes")
    yield from count.needs("attributes-in-a-list", 3, [with_state({"a": [1]})], {"list": [held]}, "attributes")
    yield from count.needs("no-attributes", 1, with_state({}), {**WHOLE, **FLAGS}, "attributes")
    count = Counted("value_depth", "are one level deeper than the container that they are in.")
    held = expected.ordered_dict({}, expected.ordered_dict({}))
    yield from count.needs("metadata", 2, ordered({}, ordered()), held)
    count = Counted("value_depth", "A container with several places counts with all its levels in each of them.")
    part = [1]
    held = {"list": [expected.plain(part), {"list": [{"list": [expected.plain(part)]}]}]}
    yield from count.needs("a-shared-list", 4, [part, [[part]]], held)
    shared = Apply(SET, ([1],))
    held = {"list": [{"set": [1]}, {"list": [{"set": [1]}]}]}
    yield from count.needs("a-shared-set", 3, [shared, [shared]], held)


def leaves() -> Iterator[Vector]:
    count = Counted("leaves", "Members of sets and parts of sparse and quantized tensors are not.")
    yield from count.needs("sets", 2, [Apply(SET, ([1, 2, 3],))], {"list": [{"set": [1, 2, 3]}]})
    yield from count.needs("a-sparse-tensor", 1, coo()[0], as_coo(None), "sparse", storages=SPARSE)
    count = Counted("leaves", "are each a value with the path of what they belong to")
    state = {"a": [1, {"b": 2}]}
    held = {**WHOLE, **FLAGS, "state": expected.plain(state)}
    yield from count.needs("attributes", 6, with_state(state), held, "attributes")
    yield from count.needs("no-attributes", 1, with_state({}), {**WHOLE, **FLAGS}, "attributes")
    held = expected.ordered_dict({"a": None}, expected.ordered_dict({"b": 1}))
    yield from count.needs("metadata", 4, ordered({"a": None}, ordered({"b": 1})), held)
    none = Apply(ORDERED_DICT, (), Change("BUILD", {"_metadata": None}))
    yield from count.needs("metadata-none", 2, none, {"ordered_dict": [], "_metadata": None})
    within = ordered({}, ordered({}, ordered()))
    held = expected.ordered_dict({}, expected.ordered_dict({}, expected.ordered_dict({})))
    yield from count.needs("metadata-of-metadata", 3, within, held)
    shared = with_state({"a": 1})
    held = {**WHOLE, **FLAGS, "state": expected.plain({"a": 1})}
    yield from count.needs("shared-attributes", 7, [shared, shared], {"list": [held, held]}, "attributes")


def paths() -> Iterator[Vector]:
    count = Counted("leaves", "and one more for each 256 characters of its path (6.7), rounded down.")
    for size, needed in ((255, 2), (256, 3), (511, 3), (512, 4)):
        value = {"é" * size: None}
        yield from count.needs(f"a-path-of-{size}", needed, value, expected.plain(value))
    value = {"a" * 254: [None]}
    yield from count.needs("an-index-in-a-path", 4, value, expected.plain(value))
    escaped = {"~" * 128: None}
    yield from count.needs("an-escaped-path", 3, escaped, expected.plain(escaped))
    for name, key, size in (
        ("a-float", 1e-05, 7),
        ("a-large-float", 1e16, 7),
        ("a-decimal", 0.0001, 8),
        ("bytes", b"a\xff'", 11),
        ("a-tuple", (1, "a"), 10),
        ("a-long-integer", 2**64, 21),
        ("a-bool", False, 7),
    ):
        for less in (0, 1):
            inner = {key: 1}
            value = {"a" * (255 - size - less): inner}
            held = {"dict": [[next(iter(value)), expected.plain(inner)]]}
            word = "just-below" if less else "with"
            yield from count.needs(f"a-path-{word}-{name}", 3 if less else 4, value, held)
    long = "a" * 256
    held = expected.plain({long: 0})
    held["dict"][0][1] = expected.ordered_dict({}, expected.ordered_dict({"b": 1}))
    count = Counted("leaves", "The paths of their parts continue that path.")
    yield from count.needs("metadata-with-a-path", 7, {long: ordered({}, ordered({"b": 1}))}, held)
    state = {long[1:-1]: [None]}
    held = {"dict": [["a", {**WHOLE, **FLAGS, "state": expected.plain(state)}]]}
    yield from count.needs("attributes-with-a-path", 7, {"a": with_state(state)}, held, "attributes")


def tensors() -> Iterator[Vector]:
    count = Counted("tensors", "Thus a sparse COO tensor counts as three, a quantized one as one")
    call, storages = coo()
    yield from count.needs("a-sparse-tensor", 3, call, as_coo(None), "sparse", storages=storages)
    yield from count.needs(
        "a-quantized-tensor", 1, quantized(PER_TENSOR), as_quantized(), "quantized", storages=QUANTIZED
    )
    channels = quantized((CHANNELS, SCALES, ZEROS, 0))
    scales, zeros = expected.tensor("float64", (2,), QUANTIZED["s"]), expected.tensor("int64", (2,), QUANTIZED["z"])
    held = as_quantized("per_channel_affine", scales, zeros, 0)
    yield from count.needs("quantized-channels", 3, channels, held, "quantized", storages=QUANTIZED)
    count = Counted(
        "tensors", "A call counts once as a value, however often it is referred to, and once more for each use"
    )
    one = floats((8,))
    yield from count.needs("a-shared-tensor", 1, [one, one], {"list": [WHOLE, WHOLE]})
    held = {"list": [WHOLE, {**WHOLE, **FLAGS}]}
    yield from count.needs("a-tensor-and-its-parameter", 2, [one, parameter(one)], held)
    pair = [Apply(REBUILD_SPARSE, (layout(), (INDICES, VALUES, SIZES))) for _ in range(2)]
    held = {"list": [as_coo(None), as_coo(None)]}
    yield from count.needs("shared-parts", 6, pair, held, "sparse", storages=SPARSE)
    count = Counted("tensors", "A Parameter and `_rebuild_from_type_v2` count as the tensor that they wrap or make.")
    yield from count.needs("a-parameter", 1, parameter(one), {**WHOLE, **FLAGS})
    yield from count.needs("an-attributed-tensor", 1, with_state({}), {**WHOLE, **FLAGS}, "attributes")


def repeated(items: int) -> tuple[Apply, dict[str, Any]]:
    """A float32 tensor that repeats the first item of eight, and its expected output."""
    return tensor(storage(8), (items,), (0,)), expected.floats(*[0] * items)


def expanded() -> Iterator[Vector]:
    count = Counted("expanded_items", "if items > 4 x (items of its storage, or of the view;")
    thirty_three, held = repeated(33)
    yield from count.needs("one-tensor", 33, thirty_three, held)
    limit = ("--limit", "expanded_items=0")
    thirty_two, below = repeated(32)
    made = pth([thirty_two] * 3, DATA)
    yield count.rule.accepts("expanded-items-of-four-times", made, expected.lone({"list": [below] * 3}), *limit)
    count = Counted("expanded_items", "expanded_items += max(0, expanded, all - 8 x stored)")
    nine = [repeated(32)[0] for _ in range(9)]
    yield from count.needs("nine-tensors", 9 * 32 - 8 * 32, nine, {"list": [below] * 9})
    both = [*nine, thirty_three]
    yield from count.needs("the-larger-number", 9 * 32 + 33 - 8 * 32, both, {"list": [*[below] * 9, held]})
    count = Counted(
        "expanded_items", "with the tensors that have items (strided ones, and the integers of quantized ones)"
    )
    call = Apply(
        quantized(PER_TENSOR).func, (storage(6, "q", "QUInt8Storage"), 0, (25,), (0,), PER_TENSOR, False, ordered())
    )
    integers = {"dtype": "quint8", "shape": [25], "sha256": expected.digest(QUANTIZED["q"][:1] * 25)}
    facts = {"scheme": "per_tensor_affine", "scale": expected.floating(0.5), "zero_point": 3, "axis": None}
    held = {"quantized": {**integers, **facts}}
    yield from count.needs("a-quantized-tensor", 25, call, held, "quantized", storages=QUANTIZED)
    count = Counted("expanded_items", "each as often as in `tensors`")
    wrapped = [thirty_three, parameter(thirty_three)]
    first = repeated(33)[1]
    yield from count.needs("a-tensor-and-its-parameter", 66, wrapped, {"list": [first, {**first, **FLAGS}]})


def views() -> Iterator[Vector]:
    def view(name: str) -> object:
        return storage(8, "0", "ByteStorage", "cpu", (name, 0, 1))

    runs = [Run("0", 8, bytes(range(1, 9)))]
    count = Counted("expanded_items", "if items > 4 x (items of its storage, or of the view;")
    held = expected.tensor("uint8", (5,), b"\1" * 5)
    made = legacy_stream(tensor(view("v"), (5,), (0,)), runs)
    yield from count.file_needs("a-view", 5, made, held, "legacy")
    count = Counted(
        "expanded_items",
        "stored = bytes of all storages that an id refers to, each once (of the whole storage, not of its views)",
    )
    four = expected.tensor("uint8", (4,), b"\1" * 4)
    made = legacy_stream([tensor(view(f"v{at}"), (4,), (0,)) for at in range(17)], runs)
    yield from count.file_needs("views-of-one-storage", 4, made, {"list": [four] * 17}, "legacy")


TEXT: Final = "a" * 400
RAW: Final = TEXT.encode()
ROW: Final = [0] * 200


def copies() -> Iterator[Vector]:
    count = Counted("expanded_items", "_codecs.encode, builtins.bytearray, numpy values: copied += bytes of the result")
    encoded = Apply(ENCODE, (TEXT, "latin1"))
    bytes_, ascii_ = expected.raw_bytes(RAW), {"bytearray": expected.raw_bytes(RAW)["bytes"]}
    yield from copied(count, "encoded-bytes", 400, encoded, bytes_)
    yield from copied(count, "bytearrays", 400, Apply(BYTEARRAY, (RAW,)), ascii_)
    yield from copied(count, "bytearrays-of-text", 400, Apply(BYTEARRAY, (TEXT, "latin-1")), ascii_)
    numbers = expected.array("uint8", [400], RAW)
    byte = dtype_of("u1", "|")
    yield from copied(count, "numpy-buffers", 400, buffer(RAW, byte, (400,), "C"), numbers, "numpy-values")
    yield from copied(count, "numpy-arrays", 400, array((400,), RAW, dtype=byte), numbers, "numpy-values")
    count = Counted("expanded_items", "copied += 8 x items of the argument, if there is one")
    yield from copied(count, "sizes", 1600, Apply(SIZE, (tuple(ROW),)), {"size": ROW})
    members = [*range(200)]
    yield from copied(count, "sets", 1600, Apply(SET, (members,)), {"set": members})
    yield from copied(count, "frozensets", 1600, Apply(FROZENSET, (tuple(members),)), {"frozenset": members})
    pairs = Apply(ORDERED_DICT, ([[number, None] for number in members],))
    held = {"ordered_dict": [[number, None] for number in members]}
    yield from copied(count, "ordered-dicts", 1600, pairs, held, times=4)
    count = Counted("expanded_items", "Bytes that are the argument of another call are not counted by themselves.")
    yield from copied(count, "bytearrays-of-encoded-bytes", 400, Apply(BYTEARRAY, (encoded,)), ascii_)
    yield from copied(
        count, "numpy-buffers-of-encoded-bytes", 400, buffer(encoded, byte, (400,), "C"), numbers, "numpy-values"
    )


def copied(
    count: Counted, name: str, size: int, call: Apply, held: object, *features: str, times: int = 3
) -> Iterator[Vector]:
    """Yield both sides for calls with the same arguments and changes."""
    tree = [Apply(call.func, call.args, *call.changes) for _ in range(times)]
    excess = times * size - len(dumps(tree))
    assert excess > 1, (name, excess)
    return count.needs(f"copied-{name}", excess, tree, {"list": [held] * times}, *features, storages={})


def copied_keys() -> Iterator[Vector]:
    count = Counted(
        "expanded_items", "for each key or member, and each item of one, that is encoded by _codecs.encode:"
    )
    encoded = Apply(ENCODE, (TEXT, "latin1"))
    bytes_ = expected.raw_bytes(RAW)
    for name, tree, held in (
        ("keys", Pairs((encoded, 1)), {"dict": [[bytes_, 1]]}),
        ("keys-in-tuples", Pairs(((encoded, 0), 1)), {"dict": [[{"tuple": [bytes_, 0]}, 1]]}),
        ("members", Apply(SET, ((encoded,),)), {"set": [bytes_]}),
    ):
        trees = [Pairs(*tree.pairs) if isinstance(tree, Pairs) else Apply(tree.func, tree.args) for _ in range(4)]
        extra = 8 * 4 if name == "members" else 0
        excess = 1600 + extra - len(dumps(trees))
        yield from count.needs(f"copied-{name}", excess, trees, {"list": [held] * 4}, storages={})
