"""The counts of pickles that have limits (FORMAT.md 5.3, 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.generators.trees import GLOBAL, PickleRule, call, change, dict_, list_, name, tree, tuple_

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.generators.vectors import Vector


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    for family in (counts, late, indexes, sizes):
        yield from family()


def counts() -> Iterator[Vector]:
    """Exactly as many as the limit allows."""
    rule = PickleRule(
        "5.3",
        "Counts for section 8: opcodes executed; values on the stack, without marks; marks; memo entries; composites.",
    )
    yield rule.gives(
        "limit-pickle_opcodes", b"\x80\x04" + b"N0" * 48 + b"N.", tree(None, protocol=4), "pickle_opcodes=99"
    )
    value = tuple_(*[None] * 50)
    yield rule.gives("limit-pickle_stack", b"(" + b"N" * 50 + b"t.", tree(value), "pickle_stack=50")
    yield rule.gives(
        "limit-pickle_stack-without-marks", b"(" * 20 + b"N" * 50 + b"1" * 20 + b"N.", tree(None), "pickle_stack=50"
    )
    value = ()
    for _ in range(19):
        value = tuple_(value)
    yield rule.gives("limit-pickle_marks", b"(" * 20 + b"t" * 20 + b".", tree(value), "pickle_marks=20")
    yield rule.gives("limit-pickle_memo", b"N" + b"\x94" * 20 + b".", tree(None), "pickle_memo=20")
    again = b"N" + b"q\x00q\x01" * 100 + b"."
    yield rule.gives("limit-pickle_memo-set-again", again, tree(None), "pickle_memo=2")
    rule = PickleRule(
        "5.3",
        "Composites are tuples (except those of EMPTY_TUPLE), lists, sets, bytearrays, dicts and their pairs, nodes, changes to nodes, and the pairs of SETITEM and SETITEMS on a node.",
    )
    value = tuple_(*[list_() for _ in range(19)])
    yield rule.gives("limit-pickle_nodes-lists", b"(" + b"]" * 19 + b"t.", tree(value), "pickle_nodes=20")
    value = dict_(*[(None, None)] * 19)
    yield rule.gives("limit-pickle_nodes-pairs", b"}(" + b"NN" * 19 + b"u.", tree(value), "pickle_nodes=20")
    yield rule.gives("limit-pickle_nodes-pairs-of-dict", b"(" + b"NN" * 19 + b"d.", tree(value), "pickle_nodes=20")
    node = name()
    for _ in range(19):
        node.changed("BUILD", None)
    yield rule.gives(
        "limit-pickle_nodes-changes",
        GLOBAL + b"Nb" * 19 + b".",
        tree(node, node, *[change(node)] * 19),
        "pickle_nodes=20",
    )
    made = name().changed("SETITEMS", [[None, None]] * 18)
    pairs = GLOBAL + b"(" + b"NN" * 18 + b"u."
    yield rule.gives("limit-pickle_nodes-pairs-of-a-node", pairs, tree(made, made, change(made)), "pickle_nodes=20")
    rule = PickleRule("5.3", "INST and OBJ create a tuple as well if they have arguments.")
    for word, body, limit in (
        ("inst", b"(im\nn\n.", 2),
        ("inst-of-arguments", b"(Nim\nn\n.", 3),
        ("obj", b"(" + GLOBAL + b"o.", 2),
        ("obj-of-arguments", b"(" + GLOBAL + b"No.", 3),
    ):
        node = name()
        made = call(word[:4].rstrip("-").upper(), node, tuple_(None) if "arguments" in word else ())
        yield rule.gives(f"limit-pickle_nodes-{word}", body, tree(made, node, made), f"pickle_nodes={limit}")
    body = b"(" + b")" * 100 + b"t."
    yield rule.gives("limit-pickle_nodes-empty-tuples", body, tree(tuple_(*[()] * 100)), "pickle_nodes=1")


def late() -> Iterator[Vector]:
    """More than twice as many as the limit allows: a reader may count in batches."""
    rule = PickleRule("5.3", "A reader MAY compare these counts in batches, and so refuse late")
    for word, body, limit in (
        ("pickle_opcodes", b"N0" * 150, "pickle_opcodes=99"),
        ("pickle_stack", b"(" + b"N" * 150 + b"t0", "pickle_stack=50"),
        ("pickle_stack-below-marks", b"(N" * 150 + b"1" * 150, "pickle_stack=50"),
        ("pickle_stack-by-dup", b"N" + b"2" * 150 + b"0" * 151, "pickle_stack=50"),
        ("pickle_marks", b"(" * 60 + b"1" * 60, "pickle_marks=20"),
        ("pickle_memo", b"N" + b"\x94" * 60 + b"0", "pickle_memo=20"),
        (
            "pickle_memo-out-of-order",
            b"N" + b"".join([b"q%c" % at for at in range(200, 140, -1)]) + b"0",
            "pickle_memo=20",
        ),
        ("pickle_nodes-lists", b"]0" * 60, "pickle_nodes=20"),
        ("pickle_nodes-tuples", b"N\x850" * 60, "pickle_nodes=20"),
        ("pickle_nodes-dicts", b"}0" * 60, "pickle_nodes=20"),
        ("pickle_nodes-pairs", b"}(" + b"NN" * 60 + b"u0", "pickle_nodes=20"),
        ("pickle_nodes-pairs-of-dict", b"(" + b"NN" * 60 + b"d0", "pickle_nodes=20"),
        ("pickle_nodes-single-pairs", b"}" + b"NNs" * 60 + b"0", "pickle_nodes=20"),
        ("pickle_nodes-sets", b"\x8f0(\x910" * 30, "pickle_nodes=20"),
        ("pickle_nodes-bytearrays", (b"\x96" + bytes(8) + b"0") * 60, "pickle_nodes=20"),
        ("pickle_nodes-names", (GLOBAL + b"0") * 60, "pickle_nodes=20"),
        ("pickle_nodes-calls", GLOBAL + b")R" * 60 + b"0", "pickle_nodes=20"),
        ("pickle_nodes-pairs-of-a-node", GLOBAL + b"(" + b"NN" * 60 + b"u0", "pickle_nodes=20"),
        ("pickle_nodes-arguments-of-obj", (b"(" + GLOBAL + b"No0") * 30, "pickle_nodes=20"),
        ("pickle_nodes-persistent", b"NQ0" * 60, "pickle_nodes=20"),
        ("pickle_nodes-extensions", b"\x82\x010" * 60, "pickle_nodes=20"),
        ("pickle_nodes-changes", GLOBAL + b"Nb" * 60 + b"0", "pickle_nodes=20"),
    ):
        yield rule.exceeds(f"limit-{word}-exceeded", body + b"N.", limit)


def indexes() -> Iterator[Vector]:
    rule = PickleRule("8", "| `pickle_memo_index` | 2^31 - 1 | 64,688 | the highest memo index |")
    for word, put in {"binput": b"q\x0b", "long-binput": b"r\x0b\0\0\0", "put": b"p11\n"}.items():
        yield rule.gives(f"limit-pickle_memo_index-{word}", b"N" + put + b".", tree(None), "pickle_memo_index=11")
        yield rule.exceeds(f"limit-pickle_memo_index-{word}-exceeded", b"N" + put + b".", "pickle_memo_index=10")
    highest = b"N%s\xff\xff\xff\x7f%s\xff\xff\xff\x7f\x86." % (b"r", b"j")
    yield rule.gives("limit-pickle_memo_index-31-bits", highest, tree(tuple_(None, None)))
    yield rule.exceeds("limit-pickle_memo_index-32-bits", b"Nr\x00\x00\x00\x80.")
    yield rule.exceeds("limit-pickle_memo_index-19-digits", b"Np" + b"9" * 19 + b"\n.")
    raised = b"Np4294967296\ng4294967296\n\x86."
    yield rule.gives("limit-pickle_memo_index-raised", raised, tree(tuple_(None, None)), "pickle_memo_index=4294967296")


def sizes() -> Iterator[Vector]:
    rule = PickleRule("8", "| `pickle_bytes` | 64 MiB | 11 KB in a `.pth` | one pickle |")
    yield rule.gives("limit-pickle_bytes", b"K\x07.", tree(7), "pickle_bytes=3")
    yield rule.exceeds("limit-pickle_bytes-exceeded", b"K\x07.", "pickle_bytes=2")
