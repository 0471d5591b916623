"""Details of tensors and of the legacy stream that no other family shows: found with mutants of a decoder (FORMAT.md 6, 7)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from conformance.generators import expected
from conformance.generators.build_pth import SYSTEM, UNTYPED, Persist, storage, tensor
from conformance.generators.build_torch_zips import EIGHT, pth, zipped
from conformance.generators.legacy import RUN, legacy, one, stream, viewed
from conformance.generators.storages import geometry
from conformance.generators.vectors import Rule, Vector

if TYPE_CHECKING:
    from collections.abc import Iterator


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from strides()
    yield from bits()
    yield from tars()
    yield from legacy_streams()


def strides() -> Iterator[Vector]:
    rule = Rule("6.4", "overlapping and zero strides are valid;")
    sixteen = struct.pack("<16f", *range(16))
    for name, shape, steps in (
        ("transposed", (2, 2, 2, 2), (1, 2, 4, 8)),
        ("permuted", (2, 2, 2), (2, 4, 1)),
        ("of-one-item", (2, 1, 3), (8, 99, 2)),
    ):
        items = [0]
        for size, step in zip(shape, steps):
            items = [at + index * step for at in items for index in range(size)]
        made = geometry(shape, steps, data=sixteen)
        yield rule.accepts(f"geometry-strides-{name}", made, expected.lone(expected.floats(*items, shape=shape)))
    empty = geometry((2, 0), (1, 1), 3)
    yield rule.accepts("geometry-empty-within-a-storage", empty, expected.lone(expected.floats(shape=(2, 0))))


def bits() -> Iterator[Vector]:
    rule = Rule(
        "6.4", "`conj` and `neg` (6.5) mean that the values are the conjugates and the negatives of the stored items."
    )
    numbers = (0, 1, -1, 256, -32768)
    raw, negative = struct.pack("<5h", *numbers), struct.pack("<5h", 0, -1, 1, -256, -32768)
    made = pth(bit(storage(5, "0", "ShortStorage"), 5, neg=True), {"0": raw})
    yield rule.accepts("tensor-neg-int16", made, expected.lone(expected.tensor("int16", (5,), negative)))
    raw, negative = struct.pack("<3q", 1 << 32, 1, 0), struct.pack("<3q", -1 << 32, -1, 0)
    made = pth(bit(storage(3, "0", "LongStorage"), 3, neg=True), {"0": raw})
    yield rule.accepts("tensor-neg-int64", made, expected.lone(expected.tensor("int64", (3,), negative)))
    made = pth([bit(storage(8), 8, neg=True), tensor(storage(8), (8,))], {"0": EIGHT})
    held = {"list": [expected.floats(*[-float(at) for at in range(8)]), expected.floats(*range(8))]}
    yield rule.accepts("tensor-neg-beside-its-storage", made, expected.lone(held))
    store = storage(4, "0", "ComplexFloatStorage")
    made = pth([bit(store, 4, conj=True), tensor(store, (4,))], {"0": EIGHT})
    conjugates = struct.pack("<8f", 0.0, -1.0, 2.0, -3.0, 4.0, -5.0, 6.0, -7.0)
    held = {"list": [expected.tensor("complex64", (4,), raw) for raw in (conjugates, EIGHT)]}
    yield rule.accepts("tensor-conj-beside-its-storage", made, expected.lone(held))


def bit(store: Persist, items: int, **named: bool) -> Any:
    """A vector over a storage, with bits."""
    return tensor(store, (items,), None, 0, False, named)


def tars() -> Iterator[Vector]:
    rule = Rule("1.3", "A tar is identified by the bytes `ustar` at offset 257.")
    for place, outcome in ((257, "unsupported"), (256, "tensor failure"), (258, "tensor failure")):
        made = zipped([("policy.pth", b"x" * place + b"ustar\0" + bytes(249))])
        yield rule.refuses(f"state-dict-tar-at-{place}", made, outcome)


def legacy_streams() -> Iterator[Vector]:
    rule = legacy("a pickle of a dict with exactly the text keys `protocol_version`, `little_endian` and `type_sizes`.")
    system = {key: value for key, value in SYSTEM.items() if key != "type_sizes"}
    yield rule.refuses("legacy-system-key-of-another-name", stream(system={**system, "sizes": {}}), "tensor failure")
    rule = legacy("or (view key: text, offset, size), both integers, with offset + size <= numel")
    yield rule.refuses("legacy-view-four-items", one(("v", 0, 8, 1), (8,)), "tensor failure")
    rule = legacy("The storage is then those items of the original storage (torch < 0.4)")
    reference = Persist(("storage", UNTYPED, "0", "cpu", 32, ("v", 5, 7)))
    made = stream(tree=reference, runs=[RUN._replace(numel=32)])
    yield rule.accepts("legacy-view-untyped", made, expected.lone(expected.storage(None, EIGHT[5:12])))
    rule = legacy("One view key identifies one view")
    sizes = [tensor(viewed(("v", 0, size)), (1,)) for size in (2, 3)]
    yield rule.refuses("legacy-view-key-of-another-size", stream(tree=sizes), "tensor failure")
