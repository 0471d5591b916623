"""Persistent ids whose values are popped or changed (FORMAT.md 6.3, 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from conformance.generators import expected
from conformance.generators.build_pth import (
    ORDERED_DICT,
    Apply,
    Name,
    Persist,
    Raw,
    Run,
    dumps,
    legacy_stream,
    storage,
    tensor,
)
from conformance.generators.build_torch_zips import DATA, EIGHT, pth
from conformance.generators.vectors import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.generators.vectors import Vector

WHOLE: Final = expected.floats(*range(8))


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from popped()
    yield from in_attributes()
    yield from popped_in_a_stream()
    yield from changed()


def after(discarded: object, tree: object, pop: bytes = b"0", *, mark: bytes = b"") -> bytes:
    """A pickle that creates a value, pops it, and then creates another."""
    return b"\x80\x02" + mark + dumps(discarded)[2:-1] + pop + dumps(tree)[2:-1] + b"."


def popped() -> Iterator[Vector]:
    rule = Rule("6.3", "Every persistent id of the pickle is checked, also if its value is popped")
    whole = tensor(storage(8), (8,))
    two = {**DATA, "1": EIGHT}
    for name, other in {
        "alone": storage(8, "1"),
        "in-a-tensor": tensor(storage(8, "1"), (8,)),
        "of-the-same-storage": storage(8),
    }.items():
        yield rule.accepts(f"storage-popped-{name}", pth(after(other, whole), two), expected.lone(WHOLE))
    for name, other in {
        "without-a-record": storage(8, "2"),
        "in-a-list-without-a-record": [[storage(8, "2")]],
        "of-another-count": storage(7, "1"),
        "of-two-dtypes": storage(8, "0", "IntStorage"),
        "of-an-unknown-class": storage(8, "1", "QuantumStorage"),
        "of-text": Persist("0"),
    }.items():
        yield rule.refuses(f"storage-popped-{name}", pth(after(other, whole), two), "tensor failure")
    marked = after(storage(8, "2"), whole, b"1", mark=b"(")
    yield rule.refuses("storage-popped-to-a-mark", pth(marked, two), "tensor failure")
    module = Persist(("module", Name("models", "Net"), "models.py", "class Net: ..."))
    yield rule.refuses("storage-popped-module", pth(after(module, whole), two), "unsupported")


def in_attributes() -> Iterator[Vector]:
    rule = Rule(
        "6.3",
        "or is part of an attribute (6.5): torch opens the storage when PERSID or BINPERSID is executed.",
        "attributes",
    )
    two = {**DATA, "1": EIGHT}

    def held(value: object) -> bytes:
        args = (tensor(storage(8), (8,)), False, Apply(ORDERED_DICT, ()), {"note": [value]})
        return pth(Apply(Name("torch._utils", "_rebuild_parameter_with_state"), args), two)

    state = {"dict": [["note", {"list": [{"inert": True}]}]]}
    found = expected.lone({**WHOLE, "is_parameter": True, "state": state})
    yield rule.accepts("storage-in-an-attribute", held(storage(8, "1")), found)
    for name, other in {
        "without-a-record": storage(8, "2"),
        "of-another-count": storage(7, "1"),
        "of-text": Persist("0"),
        "in-a-tensor": tensor(storage(8, "2"), (8,)),
    }.items():
        yield rule.refuses(f"storage-in-an-attribute-{name}", held(other), "tensor failure")
    module = Persist(("module", Name("models", "Net"), "models.py", "class Net: ..."))
    yield rule.refuses("storage-in-an-attribute-module", held(module), "unsupported")


def popped_in_a_stream() -> Iterator[Vector]:
    rule = Rule("7", "As in 6.3, an id is used when its opcode is executed, even if it is popped.", "legacy")
    whole = tensor(storage(8, "0", "FloatStorage", "cpu", None), (8,))
    made = after(storage(8, "1", "FloatStorage", "cpu", None), whole)
    runs = [Run("0", 8, EIGHT), Run("1", 8, EIGHT)]
    yield rule.accepts("legacy-popped-key", legacy_stream(made, runs), expected.lone(WHOLE))
    yield rule.refuses("legacy-popped-key-unlisted", legacy_stream(made, runs[:1]), "tensor failure")


def changed() -> Iterator[Vector]:
    rule = Rule("6.3", "A persistent id that is changed afterwards is an error.")
    encoded = dumps(storage(8))[2:-1]
    for name, change in {"built": b"}b", "appended": b"Na", "set": b"NNs"}.items():
        alone = Raw(encoded + change)
        yield rule.refuses(f"storage-changed-{name}", pth(alone, DATA), "tensor failure")
        yield rule.refuses(f"storage-changed-{name}-in-a-tensor", pth(tensor(alone, (8,)), DATA), "tensor failure")
    yield rule.refuses("storage-changed-and-popped", pth(after(Raw(encoded + b"}b"), None), DATA), "tensor failure")

    rule = Rule("6.3", "Any other class is an error.")
    for name, cls in {
        "changed": Raw(b"ctorch\nFloatStorage\n}b"),
        "packed-of-cuda": Name("torch.cuda", "QUInt4x2Storage"),
        "called-with-text": Apply(Name("torch", "FloatStorage"), ("x",)),
    }.items():
        made = pth(Persist(("storage", cls, "0", "cpu", 8)), DATA)
        yield rule.refuses(f"storage-class-{name}", made, "tensor failure")
