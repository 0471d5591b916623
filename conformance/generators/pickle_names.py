"""Names in pickles, before and after Python 3 (FORMAT.md 5.4)."""

from __future__ import annotations

import _compat_pickle
from typing import TYPE_CHECKING

from conformance.generators.trees import GLOBAL, Node, PickleRule, call, computed, counted, name, tree, tuple_

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.generators.vectors import Vector


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    for family in (mappings, renamed, protocols, exact):
        yield from family()


def global_opcode(pair: tuple[str, str]) -> bytes:
    """GLOBAL of a pair."""
    return b"c" + "\n".join([*pair, ""]).encode()


def import_all(pickle: bytes, pairs: list[tuple[str, str]], protocol: int) -> tuple[bytes, dict[str, object]]:
    """A pickle of a tuple of names, and its tree."""
    made: list[Node] = [name(*pair) for pair in pairs]
    return pickle, tree(tuple_(*made), *made, protocol=protocol)


def mappings() -> Iterator[Vector]:
    rule = PickleRule("5.4", "of CPython's `Lib/_compat_pickle.py` (88 pairs and 55 modules)")
    pairs = sorted(_compat_pickle.NAME_MAPPING.items())
    body = b"\x80\x02(" + b"".join([global_opcode(old) for old, _ in pairs]) + b"t."
    yield rule.gives("names-88-pairs", *import_all(body, [new for _, new in pairs], 2))
    modules = sorted({**_compat_pickle.IMPORT_MAPPING, "Tix": "tkinter.tix"}.items())  # CPython 3.13 dropped the last
    body = b"\x80\x02(" + b"".join([global_opcode((old, "some_name")) for old, _ in modules]) + b"t."
    yield rule.gives("names-55-modules", *import_all(body, [(new, "some_name") for _, new in modules], 2))


def renamed() -> Iterator[Vector]:
    rule = PickleRule(
        "5.4",
        "for GLOBAL, INST and STACK_GLOBAL. It looks up the pair in `NAME_MAPPING` first, then the module in `IMPORT_MAPPING`",
    )
    new = [("builtins", "range"), ("builtins", "set"), ("subprocess", "getoutput"), ("subprocess", "__call__")]
    old = [("__builtin__", "xrange"), ("__builtin__", "set"), ("commands", "getoutput"), ("commands", "__call__")]
    body = b"(" + b"".join(map(global_opcode, old)) + b"t."
    yield rule.gives("names-of-global", *import_all(body, new, 0))
    texts = [[b"\x8c" + counted(1, part.encode()) for part in pair] for pair in old]
    body = b"\x80\x02(" + b"".join([b"".join(pair) + b"\x93" for pair in texts]) + b"t."
    yield rule.gives("names-of-stack-global", *import_all(body, new, 2))
    made, log = [], []
    for pair in new:
        function = name(*pair)
        made.append(call("INST", function))
        log += [function, made[-1]]
    body = b"(" + b"".join([b"(i" + global_opcode(pair)[1:] for pair in old]) + b"t."
    yield rule.gives("names-of-inst", body, tree(tuple_(*made), *log))
    function = name()
    value = computed("__builtin__", function)
    yield rule.gives("names-computed", b"\x8c\x0b__builtin__" + GLOBAL + b"\x93.", tree(value, function, value))


def protocols() -> Iterator[Vector]:
    rule = PickleRule("5.4", "Below protocol 3, CPython renames Python 2's modules before it imports (`fix_imports`).")
    old, new = ("commands", "getoutput"), ("subprocess", "getoutput")
    for protocol in range(6):
        body = b"\x80" + bytes([protocol]) + global_opcode(old) + b"\x85."
        yield rule.gives(f"names-protocol-{protocol}", *import_all(body, [new if protocol < 3 else old], protocol))
    stacked = b"\x80\x04\x8c\x08commands\x8c\x09getoutput\x93\x85."
    yield rule.gives("names-stack-global-protocol-4", *import_all(stacked, [old], 4))
    node = name(*old)
    made = call("INST", node)
    yield rule.gives(
        "names-inst-protocol-3", b"\x80\x03(i" + global_opcode(old)[1:] + b".", tree(made, node, made, protocol=3)
    )
    rule = PickleRule("5.4", "A reader MUST do the same, according to the last PROTO executed")
    body = (
        b"("
        + global_opcode(old)
        + b"\x80\x04"
        + global_opcode(old)
        + b"\x80\x02"
        + global_opcode(old)
        + b"\x80\x03"
        + global_opcode(old)
        + b"t."
    )
    yield rule.gives("names-last-protocol-counts", *import_all(body, [new, old, new, old], 3))


def exact() -> Iterator[Vector]:
    rule = PickleRule(
        "5.4",
        "Names are identified by the exact pair of module and name. There are no prefixes, and dotted names are not resolved part by part",
    )
    old = [("commands.sub", "x"), ("Commands", "x"), ("commands ", "x"), ("my.commands", "x"), ("exceptions", "x")]
    yield rule.gives("names-alike", *import_all(b"(" + b"".join(map(global_opcode, old)) + b"t.", old, 0))
    rule = PickleRule("5.4", "A dotted name of protocol 4 is one name.")
    pairs = [("os", "path.join"), ("__builtin__", "xrange.x")]
    yield rule.gives("names-dotted", *import_all(b"\x80\x04(" + b"".join(map(global_opcode, pairs)) + b"t.", pairs, 4))
    rule = PickleRule("5.4", "It looks up the pair in `NAME_MAPPING` first, then the module in `IMPORT_MAPPING`")
    body = (
        b"\x80\x02("
        + global_opcode(pairs[1])
        + global_opcode(("itertools", "izip"))
        + global_opcode(("itertools", "chain"))
        + b"t."
    )
    yield rule.gives(
        "names-pair-or-module",
        *import_all(body, [("builtins", "xrange.x"), ("builtins", "zip"), ("itertools", "chain")], 2),
    )
