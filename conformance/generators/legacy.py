"""The legacy stream: five pickles, then the storages (FORMAT.md 7)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from conformance.generators import expected
from conformance.generators.build_pth import (
    EXIT,
    LEGACY_PROTOCOL,
    MAGIC,
    REBUILD_PARAMETER,
    REBUILD_V3,
    SYSTEM,
    UNTYPED,
    Apply,
    Name,
    Persist,
    Raw,
    Run,
    dumps,
    floats,
    legacy_stream,
    ordered,
    storage,
    tensor,
)
from conformance.generators.build_torch_zips import EIGHT, zipped
from conformance.generators.vectors import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.generators.vectors import Vector

FLOAT: Final = Name("torch", "FloatStorage")
OTHER: Final = struct.pack("<8f", *range(10, 18))
RUN: Final = Run("0", 8, EIGHT)
POPPED: Final = b"cos\nwait\n)R0"
"""A call whose result is popped."""


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from streams()
    yield from magic()
    yield from first_pickles()
    yield from protocol_numbers()
    yield from systems()
    yield from objects()
    yield from key_lists()
    yield from runs()
    yield from first_bytes()
    yield from flags()
    yield from imports()
    yield from persistent_ids()
    yield from views()
    yield from view_keys()
    yield from used_keys()
    yield from as_in_the_zip()


def whole(numel: object = 8, key: object = "0", cls: str | Name = "FloatStorage", location: object = "cpu") -> Persist:
    """A storage without a view."""
    return storage(numel, key, cls, location, None)


def viewed(view: object, numel: int = 8, key: str = "0") -> Persist:
    """A view of a storage."""
    return storage(numel, key, "FloatStorage", "cpu", view)


TREE: Final = {"w": tensor(whole(), (8,))}
WHOLE: Final = expected.floats(*range(8))
HELD: Final = expected.lone({"dict": [["w", WHOLE]]})
EMPTY: Final = expected.lone({"dict": []})


def first_pickles() -> Iterator[Vector]:
    """Values that are popped before the magic number."""
    rule = Rule("1.1", "are entirely within the first 32 bytes", "legacy")
    number = dumps(MAGIC)
    for popped in (b"N0" * 8, b"N0" * 7 + b"K\x010"):
        made = legacy_stream({}, magic=number[:2] + popped + number[2:])
        yield rule.accepts(f"legacy-first-{len(popped) + 15}-bytes", made, EMPTY)
    made = legacy_stream({}, magic=number[:2] + b"N0" * 9 + number[2:])
    yield rule.refuses("legacy-first-33-bytes", made, "unsupported")


def legacy(sentence: str) -> Rule:
    """A rule of section 7."""
    return Rule("7", sentence, "legacy")


def stream(**parts: Any) -> bytes:
    """A stream of one tensor, some part of it replaced."""
    return legacy_stream(parts.pop("tree", TREE), parts.pop("runs", [RUN]), **parts)


def bare(**parts: Any) -> bytes:
    """A stream without storages, some part of it replaced."""
    return legacy_stream(parts.pop("tree", {}), **parts)


# -- the pickles --------------------------------------------------------------------------------------


def streams() -> Iterator[Vector]:
    rule = legacy("torch < 1.6 saves this format")
    yield rule.accepts("legacy-stream", stream(), HELD)
    in_archive = zipped([("policy.pth", stream())])
    held = expected.archive({"policy.pth": {"dict": [["w", WHOLE]]}})
    yield rule.accepts("legacy-in-an-archive", in_archive, held)
    state = ordered({"w": tensor(whole(), (2, 4))}, ordered())
    held = expected.ordered_dict({"w": expected.floats(*range(8), shape=(2, 4))}, expected.ordered_dict({}))
    yield rule.accepts("legacy-state-dict", stream(tree=state), expected.lone(held))
    for protocol in (3, 4, 5):
        yield rule.accepts(f"legacy-protocol-{protocol}", stream(protocol=protocol), HELD)
    rule = legacy("in that case with a bare persistent id as its object")
    alone = stream(tree=whole())
    yield rule.accepts("legacy-storage-alone", alone, expected.lone(expected.storage("float32", EIGHT)))


def magic() -> Iterator[Vector]:
    rule = legacy("a pickle of 0x1950a86a20f9469cfc6c (another value: a pickle, but not a torch file; unsupported)")
    for name, value in {"one-more": MAGIC + 1, "float": float(MAGIC)}.items():
        yield rule.refuses(f"legacy-magic-{name}", stream(magic=value), "unsupported")


def protocol_numbers() -> Iterator[Vector]:
    rule = legacy("a pickle of the integer 1001 (not the float 1001.0);")
    for name, value in {"1002": 1002, "text": "1001", "float": 1001.0, "bool": True}.items():
        yield rule.refuses(f"legacy-protocol-number-{name}", stream(version=value), "tensor failure")


def systems() -> Iterator[Vector]:
    rule = legacy("a pickle of a dict with exactly the text keys `protocol_version`, `little_endian` and `type_sizes`.")
    for name, value in {
        "list": [],
        "empty": {},
        "key-missing": {"protocol_version": 1001, "little_endian": True},
        "key-more": {**SYSTEM, "more": 1},
    }.items():
        yield rule.refuses(f"legacy-system-{name}", stream(system=value), "tensor failure")
    rule = legacy("Neither torch nor a reader uses their values.")
    for name, changed in {
        "big-endian": {"little_endian": False},
        "no-sizes": {"type_sizes": {}},
        "text-of-64": {"little_endian": "x" * 64},
    }.items():
        yield rule.accepts(f"legacy-system-{name}", stream(system={**SYSTEM, **changed}), HELD)
    rule = legacy("They are integers, bools, texts of at most 64 characters, or dicts of such values")
    for name, value in {
        "text-of-65": "x" * 65,
        "value-none": None,
        "value-list": [1],
        "dict-of-lists": {"short": [2]},
    }.items():
        yield rule.refuses(f"legacy-system-{name}", stream(system={**SYSTEM, "type_sizes": value}), "tensor failure")


def objects() -> Iterator[Vector]:
    rule = legacy("the pickle of the object;")
    for name, value in {"dict": {"a": [1, None]}, "number": 7}.items():
        yield rule.accepts(f"legacy-object-{name}", bare(tree=value), expected.lone(expected.plain(value)))
    yield rule.refuses("legacy-object-broken", bare(tree=b"\x80\x02\xff."), "pickle failure")


def key_lists() -> Iterator[Vector]:
    rule = legacy("a pickle of the list of storage keys: text, no key twice;")
    for name, keys in {
        "tuple": ("0",),
        "bytes": [b"0"],
        "twice": ["0", "0"],
    }.items():
        yield rule.refuses(f"legacy-keys-{name}", stream(keys=dumps(keys)), "tensor failure")


def runs() -> Iterator[Vector]:
    rule = legacy("for each key, in that order: u8 numel, then the items")
    tree = {
        "a": tensor(whole(8, "a"), (8,)),
        "b": tensor(whole(3, "b", "ShortStorage"), (3,)),
        "e": tensor(whole(0, "e"), (0,)),
    }
    short = struct.pack("<3h", 1, -2, 3)
    pairs = {"a": expected.floats(*range(10, 18)), "b": expected.tensor("int16", (3,), short), "e": expected.floats()}
    held = expected.lone({"dict": [[key, value] for key, value in pairs.items()]})
    listed = [Run("b", 3, short), Run("e", 0, b""), Run("a", 8, OTHER)]
    yield rule.accepts("legacy-runs-in-their-order", stream(tree=tree, runs=listed), held)
    wrong = stream(tree=tree, runs=listed, keys=["a", "b", "e"])
    yield rule.refuses("legacy-runs-in-another-order", wrong, "tensor failure")
    for name, numel, data in (
        ("cut", 8, EIGHT[:-1]),
        ("missing", 8, b""),
    ):
        yield rule.refuses(f"legacy-run-{name}", stream(runs=[Run("0", numel, data)]), "tensor failure")
    without = legacy_stream(TREE, [], keys=["0"])
    yield rule.refuses("legacy-run-without-its-count", without, "tensor failure")
    huge = stream(tree={"w": tensor(whole(2**62), (8,))}, runs=[Run("0", 2**62, EIGHT)])
    yield rule.refuses("legacy-run-larger-than-the-file", huge, "tensor failure")

    rule = legacy("Nothing follows the last storage.")
    yield rule.refuses("legacy-bytes-behind", stream(tail=b"\0"), "tensor failure")
    yield rule.refuses("legacy-bytes-behind-the-keys", bare(tail=b"\n"), "tensor failure")
    yield rule.refuses("legacy-run-behind", stream(tail=struct.pack("<q", 8) + OTHER), "tensor failure")


# -- each pickle --------------------------------------------------------------------------------------


def first_bytes() -> Iterator[Vector]:
    rule = legacy("The first byte is `\\x80`: a stream of protocol 0 or 1 is refused")
    old = stream(magic=b"L119547037146038801333356L\n.")
    yield rule.refuses("legacy-of-protocol-0", zipped([("policy.pth", old)]), "tensor failure")


def parts(at: str, pickle: bytes) -> bytes:
    """A stream without storages, with these bytes for one of its pickles."""
    return bare(**{at: pickle})


PLAIN: Final = {"magic": dumps(MAGIC), "version": dumps(LEGACY_PROTOCOL), "system": dumps(SYSTEM), "keys": dumps([])}
"""The pickles of plain data."""


def flags() -> Iterator[Vector]:
    rule = legacy("Each pickle ends at its STOP. The flags of 5.1 and 5.3 are an error in each pickle.")
    for name, pickle in {**PLAIN, "tree": dumps({})}.items():
        if name == "magic":
            continue
        left = pickle[:2] + b"N" + pickle[2:]
        yield rule.refuses(f"legacy-flags-value-left-{name}", parts(name, left), "tensor failure")
    marked = PLAIN["version"][:2] + b"(" + PLAIN["version"][2:]
    yield rule.refuses("legacy-flags-mark-left", parts("version", marked), "tensor failure")
    framed = b"\x80\x04\x95" + struct.pack("<Q", 8) + b"}."
    yield rule.refuses("legacy-flags-frame-past-stop", parts("tree", framed), "tensor failure")
    framed = b"\x80\x04\x95" + struct.pack("<Q", 2) + b"}."
    yield rule.accepts("legacy-flags-frame-to-stop", parts("tree", framed), EMPTY)


def imports() -> Iterator[Vector]:
    rule = legacy("An import or call (5.3) is an error in every pickle except the fourth")
    for name, pickle in PLAIN.items():
        called = pickle[:2] + POPPED + pickle[2:]
        yield rule.refuses(f"legacy-popped-call-{name}", parts(name, called), "tensor failure")
    mentioned = PLAIN["version"][:2] + b"cos\nsystem\n0" + PLAIN["version"][2:]
    yield rule.refuses("legacy-popped-import", parts("version", mentioned), "tensor failure")
    coded = PLAIN["keys"][:2] + b"\x82\x010" + PLAIN["keys"][2:]
    yield rule.refuses("legacy-popped-extension", parts("keys", coded), "tensor failure")


# -- persistent ids -----------------------------------------------------------------------------------


def persistent_ids() -> Iterator[Vector]:
    rule = legacy('A persistent id is `("storage", class, key, location, numel, view)`.')
    for name, reference in {
        "five-items": storage(8),
        "seven-items": storage(8, "0", "FloatStorage", "cpu", None, None),
        "class-unknown": whole(8, "0", "QuantumStorage"),
        "numel-bool": whole(True),
    }.items():
        yield rule.refuses(f"legacy-id-{name}", stream(tree=[tensor(reference, (1,))]), "tensor failure")
    module = bare(tree=Persist(("module", Name("models", "Net"), "models.py", "class Net: ...")))
    rule = legacy("Everything else is as in 6.3 to 6.7.")
    yield rule.refuses("legacy-id-of-a-module", module, "unsupported")


def one(view: object, shape: tuple[int, ...], offset: int = 0) -> bytes:
    """A stream of one tensor over a part of a storage."""
    return stream(tree=tensor(viewed(view), shape, None, offset))


def views() -> Iterator[Vector]:
    rule = legacy("The storage is then those items of the original storage (torch < 0.4)")
    middle = expected.lone(expected.floats(2, 3, 4, 5, shape=(2, 2)))
    yield rule.accepts("legacy-view", one(("v", 2, 4), (2, 2)), middle)
    yield rule.accepts("legacy-view-of-all", one(("v", 0, 8), (8,)), expected.lone(WHOLE))
    yield rule.accepts("legacy-view-empty", one(("v", 8, 0), (0,)), expected.lone(expected.floats()))
    yield rule.accepts("legacy-view-offset-within", one(("v", 2, 4), (2,), 2), expected.lone(expected.floats(4, 5)))
    alone = expected.lone(expected.storage("float32", EIGHT[8:24]))
    yield rule.accepts("legacy-view-alone", stream(tree=viewed(("v", 2, 4))), alone)
    yield rule.refuses("legacy-view-passed", one(("v", 2, 4), (5,)), "tensor failure")
    yield rule.refuses("legacy-view-passed-by-offset", one(("v", 2, 4), (1,), 4), "tensor failure")

    rule = legacy("or (view key: text, offset, size), both integers, with offset + size <= numel")
    for name, view in {
        "two-items": ("v", 0),
        "list": ["v", 0, 8],
        "key-number": (0, 0, 8),
        "size-negative": ("v", 0, -1),
        "offset-bool": ("v", True, 1),
        "size-float": ("v", 0, 1.0),
        "offset-1-size-8": ("v", 1, 8),
        "offset-9": ("v", 9, 0),
        "size-2-to-63": ("v", 0, 2**63),
        "0": 0,
    }.items():
        yield rule.refuses(f"legacy-view-{name}", one(view, (0,)), "tensor failure")


def view_keys() -> Iterator[Vector]:
    rule = legacy(
        "One view key identifies one view, and no view key is the key of a storage: torch stores both in one table."
    )
    two = [RUN, Run("1", 8, OTHER)]
    again = [tensor(viewed(("v", 2, 2)), (2,)), tensor(viewed(("v", 2, 2)), (1,)), tensor(viewed(("x", 3, 2)), (2,))]
    held = {"list": [expected.floats(2, 3), expected.floats(2), expected.floats(3, 4)]}
    yield rule.accepts("legacy-views-of-one-storage", stream(tree=again), expected.lone(held))
    beside = [tensor(whole(), (8,)), tensor(viewed(("v", 6, 2)), (2,))]
    held = {"list": [WHOLE, expected.floats(6, 7)]}
    yield rule.accepts("legacy-view-beside-its-storage", stream(tree=beside), expected.lone(held))
    for name, references, listed in (
        ("another-part", [viewed(("v", 0, 2)), viewed(("v", 4, 2))], [RUN]),
        ("another-storage", [viewed(("v", 0, 2)), viewed(("v", 0, 2), 8, "1")], two),
        ("its-storage", [whole(), viewed(("0", 4, 2))], [RUN]),
        ("its-storage-alone", [viewed(("0", 4, 2))], [RUN]),
        ("a-storage", [whole(8, "1"), viewed(("1", 4, 2))], two),
    ):
        tree = [tensor(reference, (2,)) for reference in references]
        yield rule.refuses(f"legacy-view-key-of-{name}", stream(tree=tree, runs=listed), "tensor failure")
    rule = Rule("6.3", "One key has one class (that is, dtype), location and numel throughout the file.", "legacy")
    for name, location in {"one-location": "cpu", "two-locations": "cuda:0"}.items():
        parts = [storage(8, "0", "FloatStorage", place, ("v", 2, 2)) for place in ("cpu", location)]
        made = stream(tree=[tensor(part, (2,)) for part in parts])
        found = expected.lone({"list": [expected.floats(2, 3)] * 2})
        accepted = location == "cpu"
        vector = f"legacy-views-of-{name}"
        yield rule.accepts(vector, made, found) if accepted else rule.refuses(vector, made, "tensor failure")
    parts = [tensor(viewed(("v", 2, 2), numel), (2,)) for numel in (8, 4)]
    yield rule.refuses("legacy-views-of-two-sizes", stream(tree=parts), "tensor failure")


def used_keys() -> Iterator[Vector]:
    rule = legacy("Every key in the list MUST be used. Every key that is used MUST be in the list")
    yield rule.refuses("legacy-key-unused", stream(runs=[RUN, Run("1", 8, OTHER)]), "tensor failure")
    yield rule.refuses("legacy-key-unlisted", stream(runs=[Run("1", 8, EIGHT)]), "tensor failure")
    yield rule.refuses("legacy-keys-none-listed", stream(runs=[]), "tensor failure")
    both = {"a": tensor(whole(), (8,)), "b": tensor(whole(8, "1"), (8,))}
    yield rule.refuses("legacy-second-key-unlisted", stream(tree=both), "tensor failure")
    for name, key in {"of-another-case": "A", "of-any-text": "a/../é"}.items():
        tree = {"w": tensor(whole(8, key), (8,)), "v": tensor(whole(8, "a"), (8,))}
        pairs = [["w", WHOLE], ["v", expected.floats(*range(10, 18))]]
        made = stream(tree=tree, runs=[Run(key, 8, EIGHT), Run("a", 8, OTHER)])
        yield rule.accepts(f"legacy-key-{name}", made, expected.lone({"dict": pairs}))

    rule = legacy("and the count before its items MUST equal its numel")
    for name, numel in {"0": 0, "7": 7, "9": 9, "minus-1": -1, "2-to-62": 2**62 + 8}.items():
        yield rule.refuses(f"legacy-run-count-{name}", stream(runs=[Run("0", numel, EIGHT)]), "tensor failure")


def as_in_the_zip() -> Iterator[Vector]:
    rule = legacy("Everything else is as in 6.3 to 6.7.")
    for name, second in {
        "dtypes": whole(8, "0", "IntStorage"),
        "locations": whole(8, "0", FLOAT, "cuda:0"),
        "numels-by-a-view": viewed(("v", 0, 7), 7),
    }.items():
        yield rule.refuses(f"legacy-key-of-two-{name}", stream(tree=[tensor(whole(), (8,)), second]), "tensor failure")
    located = stream(tree={"w": tensor(whole(8, "0", FLOAT, "cuda:0"), (8,))})
    yield rule.accepts("legacy-location", located, HELD)
    held = expected.lone({**WHOLE, "is_parameter": True, "requires_grad": True})
    made = stream(tree=Apply(REBUILD_PARAMETER, (tensor(whole(), (8,)), True, ordered())))
    yield rule.accepts("legacy-parameter", made, held)
    arguments = (whole(4, "0", UNTYPED), 0, (2,), (1,), False, ordered(), Name("torch", "uint16"))
    raw = struct.pack("<2H", 1, 2)
    made = stream(tree=Apply(REBUILD_V3, arguments), runs=[Run("0", 4, raw)])
    yield rule.accepts("legacy-untyped", made, expected.lone(expected.tensor("uint16", (2,), raw)))
    shared = stream(tree=[tensor(whole(), (4,)), tensor(whole(), (4,), None, 4)])
    held = expected.lone({"list": [expected.floats(0, 1, 2, 3), expected.floats(4, 5, 6, 7)]})
    yield rule.accepts("legacy-shared", shared, held)
    yield rule.refuses("legacy-geometry-beyond", stream(tree=tensor(whole(), (9,))), "tensor failure")
    yield rule.refuses("legacy-unknown-call", bare(tree=Apply(EXIT, (0,))), "unsupported")
    yield rule.refuses("legacy-unknown-name", bare(tree=EXIT), "unsupported")
    yield rule.refuses("legacy-five-item-tensor", stream(tree=floats((8,))), "tensor failure")
    yield rule.refuses("legacy-within-itself", bare(tree=[Raw(b"]q\xf0h\xf0a")]), "tensor failure")
    three = [tensor(whole(0, str(key)), (0,)) for key in range(3)]
    made = stream(tree=three, runs=[Run(str(key), 0, b"") for key in range(3)])
    rule = Rule("8", "records of a torch zip; storages of a legacy stream", "legacy")
    held = expected.lone({"list": [expected.floats()] * 3})
    yield rule.accepts("legacy-storages-limit-kept", made, held, "--limit", "inner_entries=3")
    yield rule.refuses("legacy-storages-limit-passed", made, "limit exceeded", "--limit", "inner_entries=2")
