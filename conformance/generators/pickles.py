"""Trees and logs of pickles (FORMAT.md 5.2, 5.3)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from conformance.generators.trees import (
    GLOBAL,
    KEY,
    PickleRule,
    call,
    change,
    computed,
    counted,
    data,
    dict_,
    extension,
    frame,
    frozenset_,
    list_,
    name,
    persistent,
    set_,
    tree,
    tuple_,
)
from conformance.generators.vectors import Rule, Vector

if TYPE_CHECKING:
    from collections.abc import Iterator


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    for family in (answers, nodes, shared, buffers, deep, sharing, cycles, keys, logs, hidden, flagged, not_flagged):
        yield from family()


# -- 5.2, the tree ------------------------------------------------------------------------------------


def answers() -> Iterator[Vector]:
    rule = PickleRule("5", "The same rules decode both into a tree of inert values.")
    framed = b"\x80\x04" + frame(b"}\x94\x8c\x01a\x94K\x01s.")
    yield rule.gives("pickle-protocol-4", framed, tree(dict_(("a", 1)), protocol=4))
    protocol_2 = b"\x80\x02}q\x00U\x01aq\x01](K\x01G?\xe0\0\0\0\0\0\0es."
    yield rule.gives("pickle-protocol-2", protocol_2, tree(dict_(("a", list_(1, 0.5))), protocol=2))
    yield rule.gives("pickle-protocol-0", b"(lp0\nI1\naS'a'\np1\na.", tree(list_(1, "a")))
    missing = Rule("10", "an entry, key or tensor that was requested does not exist")
    yield missing.refuses("pickle-key-missing", data(b"N."), "missing", "--blob", f"{KEY}{KEY}")


def nodes() -> Iterator[Vector]:
    rule = PickleRule("5.2", "pairs or items in the order in which they were set, including repeated ones")
    body = b"}(K\x02NK\x01NK\x02Nu"
    yield rule.gives("pickle-pairs-in-order", body + b".", tree(dict_((2, None), (1, None), (2, None))))
    body = b"(\x8f(K\x02K\x01K\x02\x90(K\x02K\x01K\x02\x91t."
    yield rule.gives("pickle-items-in-order", body, tree(tuple_(set_(2, 1, 2), frozenset_(2, 1, 2))))
    mixed = b"}(K\x01NI01\nNF1\nN]N}Nu."
    pairs = [[key, None] for key in (1, True, 1.0, list_(), dict_())]
    yield rule.gives("pickle-keys-that-python-merges-or-refuses", mixed, tree(dict_(*pairs)))
    rule = PickleRule("5.2", "the code; the registry is never consulted")
    code = extension(7)
    made = call("REDUCE", code)
    yield rule.gives("pickle-extension-called", b"\x82\x07)R.", tree(made, code, made))
    rule = PickleRule("5.2", "APPEND and SETITEM are recorded as APPENDS and SETITEMS")
    node = name().changed("APPENDS", [1]).changed("SETITEMS", [[1, 2]])
    yield rule.gives(
        "pickle-single-forms", GLOBAL + b"K\x01aK\x01K\x02s.", tree(node, node, change(node), change(node))
    )
    rule = PickleRule("5.2", "in order.")
    node, held = name(), name("p", "q")
    made = call("REDUCE", node, tuple_(held)).changed("BUILD", dict_(("a", held))).changed("APPENDS", [held, 1])
    body = GLOBAL + b"cp\nq\nq\x00\x85R}\x8c\x01ah\x00sb(h\x00K\x01e."
    yield rule.gives("pickle-changes-in-order", body, tree(made, node, held, made, change(made), change(made)))


def shared() -> Iterator[Vector]:
    rule = PickleRule("5.2", "Memo references make the tree a graph")
    node = name()
    yield rule.gives("pickle-one-node-twice", GLOBAL + b"q\x00h\x00\x86.", tree(tuple_(node, node), node))
    one, other = name(), name()
    yield rule.gives("pickle-two-nodes-alike", GLOBAL * 2 + b"\x86.", tree(tuple_(one, other), one, other))
    held = tuple_(1)
    yield rule.gives("pickle-one-tuple-twice", b"K\x01\x852\x86.", tree(tuple_(held, held)))
    yield rule.gives("pickle-two-tuples-alike", b"K\x01\x85K\x01\x85\x86.", tree(tuple_(tuple_(1), tuple_(1))))


def buffers() -> Iterator[Vector]:
    rule = PickleRule("5.2", "READONLY_BUFFER changes what is on the stack, not what is in the memo.")
    body = b"\x96" + counted(8, b"ab") + b"\x94\x98h\x00\x86."
    yield rule.gives("pickle-buffer-in-the-memo", body, tree(tuple_(b"ab", bytearray(b"ab"))))


WALK: Final = "A reader MUST traverse it without recursion and with a visited set: 30 nested pairs can have 2^30 paths."


def deep() -> Iterator[Vector]:
    rule = PickleRule("5.2", WALK)
    value: object = None
    for _ in range(150):
        value = tuple_(value)
    yield rule.gives("pickle-tuples-150-deep", b"N" + b"\x85" * 150 + b".", tree(value))
    value = list_()
    for _ in range(4999):
        value = list_(value)
    yield rule.gives("pickle-lists-5000-deep", b"]" * 5000 + b"a" * 4999 + b".", tree(value))
    value = dict_()
    for _ in range(999):
        value = dict_((None, value))
    yield rule.gives("pickle-dicts-1000-deep", b"}N" * 999 + b"}" + b"s" * 999 + b".", tree(value))
    value = dict_()
    for _ in range(999):
        value = dict_((value, None))
    yield rule.gives("pickle-dicts-in-keys-1000-deep", b"}" * 1000 + b"Ns" * 999 + b".", tree(value))
    value = None
    for _ in range(1000):
        value = persistent(value)
    yield rule.gives("pickle-persistent-1000-deep", b"N" + b"Q" * 1000 + b".", tree(value))
    node = name()
    rows = [node]
    for _ in range(1000):
        rows.append(call("REDUCE", rows[-1]))
    yield rule.gives("pickle-calls-1000-deep", GLOBAL + b")R" * 1000 + b".", tree(rows[-1], *rows))
    for word, body in {"tuples": b"N" + b"\x85" * 40_000, "lists": b"]" * 20_000 + b"a" * 19_999}.items():
        yield rule.gives(f"pickle-deep-{word}-that-are-dropped", body + b"0N.", tree(None))


def sharing() -> Iterator[Vector]:
    rule = PickleRule("5.2", WALK)
    value = tuple_(None)
    for _ in range(30):
        value = tuple_(value, value)
    yield rule.gives("pickle-30-pairs-by-dup", b"N\x85" + b"2\x86" * 30 + b".", tree(value))
    value = list_()
    for _ in range(30):
        value = list_(value, value)
    body = b"(" * 30 + b"]" + b"".join([b"q%ch%cl" % (at, at) for at in range(30)])
    yield rule.gives("pickle-30-lists-by-memo", body + b".", tree(value))
    function = name()
    rows = [call("REDUCE", function)]
    for _ in range(30):
        rows.append(call("REDUCE", rows[-1], tuple_(rows[-1])))
    body = GLOBAL + b")R" + b"2\x85R" * 30
    yield rule.gives("pickle-30-calls-with-themselves", body + b".", tree(rows[-1], function, *rows))


def cycles() -> Iterator[Vector]:
    """A value that contains itself is read from the memo and changed after that: it is flagged."""
    rule = PickleRule(
        "5.2", "Memo references make the tree a graph, and it may contain itself (a class pickled by value does)."
    )
    value = list_()
    value.holds(value)
    yield rule.gives("pickle-list-holds-itself", b"]q\x00h\x00a.", tree(value, flags=["changed"]))
    value = dict_()
    value.holds(["self", value], [None, 1])
    yield rule.gives("pickle-dict-holds-itself", b"}q\x00(\x8c\x04selfh\x00NK\x01u.", tree(value, flags=["changed"]))
    value = set_()
    value.holds(value)
    yield rule.gives("pickle-set-holds-itself", b"\x8fq\x00(h\x00\x90.", tree(value, flags=["changed"]))
    inner = list_()
    value = tuple_(inner)
    inner.holds(value)
    yield rule.gives("pickle-tuple-holds-itself", b"]q\x00h\x00\x85q\x01a0h\x01.", tree(value, flags=["changed"]))
    node = name()
    node.changed("BUILD", dict_(("cls", node)))
    printed = tree(node, node, change(node))
    yield rule.gives("pickle-class-holds-itself", GLOBAL + b"q\x00}\x8c\x03clsh\x00sb.", printed)
    key = persistent(1)
    key.changed("APPENDS", [persistent(tuple_(key))])
    printed = tree(key, change(key), flags=["changed"])
    yield rule.gives("pickle-persistent-holds-itself", b"K\x01Qq\x00h\x00\x85Qa.", printed)


def keys() -> Iterator[Vector]:
    """Keys that would stall a reader that hashes them; their container is popped, but has to be decoded."""
    rule = PickleRule(
        "5.2", "A reader MUST NOT hash anything that a file built, except text under a salted hash and the keys of 6.6"
    )
    paths = b"N\x85" + b"2\x86" * 40
    yield rule.gives("pickle-key-of-2-to-the-40-paths", b"}" + paths + b"Ns0N.", tree(None))
    yield rule.gives("pickle-member-of-2-to-the-40-paths", b"\x8f(" + paths + b"\x900N.", tree(None))
    yield rule.gives("pickle-frozenset-of-2-to-the-40-paths", b"(" + paths + b"\x910N.", tree(None))
    yield rule.gives("pickle-key-40000-deep", b"}N" + b"\x85" * 40_000 + b"Ns0N.", tree(None))
    prime = (1 << 61) - 1
    many = [b"\x8a\x0a" + (number * prime).to_bytes(10, "little") + b"N" for number in range(1, 3500)]
    yield rule.gives("pickle-keys-of-one-hash", b"}(" + b"".join(many) + b"u0N.", tree(None))
    pairs = [[number * prime, None] for number in range(1, 200)]
    yield rule.gives("pickle-keys-of-one-hash-kept", b"}(" + b"".join(many[:199]) + b"u.", tree(dict_(*pairs)))
    rule = PickleRule(
        "5.2", "The container for memo entries whose indexes are not consecutive has to take this into account."
    )
    indexes = [number * 0x10000 % 0x7FFFFFFF for number in range(5000, 0, -1)]
    puts = b"".join([b"r" + struct.pack("<I", index) for index in indexes])
    last = b"j" + struct.pack("<I", indexes[0])
    yield rule.gives(
        "pickle-memo-indexes-that-collide",
        b"K\x07" + puts + b"N" + last + b"\x86\x86.",
        tree(tuple_(7, tuple_(None, 7))),
    )


# -- 5.3, the log -------------------------------------------------------------------------------------


def logs() -> Iterator[Vector]:
    rule = PickleRule(
        "5.3", "MUST record, in order, every import (Global), Extension, Call and change to a node when it happens"
    )
    outer, inner = name("a", "b"), name("c", "d")
    argument = call("NEWOBJ", inner)
    made = call("REDUCE", outer, tuple_(argument)).changed("BUILD", 1)
    yield rule.gives(
        "pickle-log-in-order",
        b"ca\nb\ncc\nd\n)\x81\x85RK\x01b.",
        tree(made, outer, inner, argument, made, change(made)),
    )
    code, function = extension(1), name()
    made = computed(function, "n")
    log = [code, function, made]
    yield rule.gives(
        "pickle-log-of-extensions-and-names",
        b"\x82\x01" + GLOBAL + b"\x8c\x01n\x93\x86.",
        tree(tuple_(code, made), *log),
    )
    rule = PickleRule(
        "5.3",
        "INST records an import and a call. A Persistent is not recorded, nor is a change to a plain list, dict or set.",
    )
    plain = b"]NaK\x01Q}NNs\x8f(N\x90(t"
    value = [list_(None), persistent(1), dict_((None, None)), set_(None)]
    yield rule.gives("pickle-log-of-plain-values", b"(" + plain + b"t.", tree(tuple_(*value, ())))
    node = persistent(1).changed("BUILD", None)
    yield rule.gives("pickle-log-of-a-changed-persistent", b"K\x01QNb.", tree(node, change(node)))


def hidden() -> Iterator[Vector]:
    """Calls and changes whose result is popped."""
    rule = PickleRule("5.3", "popping the result does not remove the record")
    function = name("os", "system")
    made = call("REDUCE", function, tuple_("ls"))
    body = b"cos\nsystem\n\x8c\x02ls\x85R"
    yield rule.gives("pickle-log-of-what-was-popped", body + b"0N.", tree(None, function, made))
    function = name("os", "system")
    made = call("REDUCE", function, tuple_("ls"))
    yield rule.gives("pickle-log-of-what-was-popped-to-the-mark", b"(" + body + b"1N.", tree(None, function, made))
    node = name()
    yield rule.gives("pickle-log-of-a-name-that-was-popped", GLOBAL + b"0N.", tree(None, node))
    node = name()
    body = GLOBAL + b"q\x000Nq\x00."
    yield rule.gives("pickle-log-of-what-the-memo-forgot", body, tree(None, node))
    node = name().changed("BUILD", dict_(("a", 1)))
    yield rule.gives(
        "pickle-log-of-a-change-that-was-popped", GLOBAL + b"}\x8c\x01aK\x01sb0N.", tree(None, node, change(node))
    )
    node = name()
    made = call("INST", node)
    yield rule.gives("pickle-log-of-inst-that-was-popped", b"(im\nn\n0N.", tree(None, node, made))
    code = extension(9)
    yield rule.gives("pickle-log-of-an-extension-that-was-popped", b"\x82\x090N.", tree(None, code))
    node = name()
    yield rule.gives("pickle-log-of-what-was-left-on-the-stack", GLOBAL + b"N.", tree(None, node, flags=["values"]))
    setter, made_of = name("cloudpickle", "setstate"), name("a", "B")
    value = call("NEWOBJ", made_of)
    done = call("REDUCE", setter, tuple_(value, dict_()))
    body = b"ca\nB\n)\x81q\x00ccloudpickle\nsetstate\nh\x00}\x86R0."
    yield rule.gives("pickle-log-of-a-state-setter", body, tree(value, made_of, value, setter, done))


FLAGGED: Final = "taken from the memo, or duplicated by DUP, and is changed after that, MUST be flagged"


def flagged() -> Iterator[Vector]:
    rule = PickleRule("5.3", FLAGGED)
    for word, body, value in (
        ("list-got", b"]q\x00h\x00Na0.", list_(None)),
        ("list-doubled", b"]2Na0.", list_(None)),
        ("list-got-and-popped", b"]q\x00h\x000Na.", list_(None)),
        ("dict-got", b"}q\x00h\x000NNs.", dict_((None, None))),
        ("dict-doubled", b"}2(NNu0.", dict_((None, None))),
        ("set-doubled", b"\x8f2(N\x900.", set_(None)),
        ("list-changed-through-the-memo", b"]q\x000h\x00(Ne.", list_(None)),
    ):
        yield rule.gives(f"pickle-changed-{word}", body, tree(value, flags=["changed"]))
    yield from changed_by_nothing()
    node = name().changed("BUILD", None)
    printed = tree(node, node, change(node))  # a Global is what it names, wherever it stands
    yield rule.gives("pickle-changed-name-got", GLOBAL + b"q\x000h\x00Nb.", printed)
    function = name()
    made = call("REDUCE", function).changed("SETITEMS", [[None, 1]])
    printed = tree(made, function, made, change(made), flags=["changed"])
    yield rule.gives("pickle-changed-call-doubled", GLOBAL + b")R2NK\x01s0.", printed)
    node = persistent(1).changed("APPENDS", [None])
    printed = tree(node, change(node), flags=["changed"])
    yield rule.gives("pickle-changed-persistent-doubled", b"K\x01Q2Na0.", printed)
    held, function = list_(None), name()
    made = call("REDUCE", function, tuple_(held))
    body = b"]q\x00" + GLOBAL + b"h\x00\x85Rh\x00Na\x87."
    printed = tree(tuple_(held, made, held), function, made, flags=["changed"])
    yield rule.gives("pickle-changed-after-a-call-saw-it", body, printed)


def changed_by_nothing() -> Iterator[Vector]:
    """An opcode without values, after a second reference."""
    rule = PickleRule("5.3", "An opcode without values (an empty APPENDS) is a change too.")
    for word, body, value in (
        ("list", b"]q\x000h\x00(e.", list_()),
        ("dict", b"}q\x000h\x00(u.", dict_()),
        ("set", b"\x8fq\x000h\x00(\x90.", set_()),
    ):
        yield rule.gives(f"pickle-changed-by-nothing-{word}", body, tree(value, flags=["changed"]))
    for word, how, code in (
        ("appends", "APPENDS", b"e"),
        ("setitems", "SETITEMS", b"u"),
        ("additems", "ADDITEMS", b"\x90"),
    ):
        function = name()
        made = call("REDUCE", function).changed(how, [])
        printed = tree(made, function, made, change(made), flags=["changed"])
        yield rule.gives(f"pickle-changed-by-nothing-{word}", GLOBAL + b")R2(" + code + b"0.", printed)
    held = list_()
    yield rule.gives("pickle-changed-by-nothing-before", b"](eq\x00h\x00\x86.", tree(tuple_(held, held)))


def not_flagged() -> Iterator[Vector]:
    rule = PickleRule("5.3", FLAGGED)
    held = list_(None)
    yield rule.gives("pickle-changed-before-it-was-got", b"]q\x00Nah\x00\x86.", tree(tuple_(held, held)))
    yield rule.gives("pickle-changed-without-being-got", b"]q\x00Na.", tree(list_(None)))
    yield rule.gives("pickle-changed-another-alike", b"]q\x00h\x00]Na\x87.", not_the_same())
    value = tuple_(list_(1), held := list_(), held)
    yield rule.gives("pickle-changed-the-one-in-its-place", b"(]200]K\x01a]q\x00h\x00t.", tree(value))


def not_the_same() -> dict[str, object]:
    """Two references to one list, and another list that was changed."""
    held = list_()
    return tree(tuple_(held, held, list_(None)))
