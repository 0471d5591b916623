"""Rules that CPython does not enforce: both sides of each row of the table, and the memo (FORMAT.md 5.1)."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Final

from conformance.generators import build_pth, expected
from conformance.generators.build_pth import Raw
from conformance.generators.trees import (
    GLOBAL,
    PickleRule,
    call,
    change,
    computed,
    counted,
    dict_,
    extension,
    frame,
    list_,
    name,
    persistent,
    tree,
    tuple_,
)
from conformance.generators.vectors import Rule, Vector

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    for family in (
        unknown, frames_of_the_stack, the_memo, integers, floats, memo_indexes, strings, eight_bit_text, state_dicts,
        numbers, callables, arguments, changes, odd_counts, computed_names, frames, broken_frames, the_end, flags,
    ):  # fmt: skip
        yield from family()


def all_fail(rule: PickleRule, pickles: Mapping[str, bytes]) -> Iterator[Vector]:
    """A vector for each of these opcode sequences, followed by STOP."""
    for vector, body in pickles.items():
        yield rule.fails(f"pickle-{vector}", body + b".")


def unknown() -> Iterator[Vector]:
    rule = PickleRule("5.1", "A byte that is not in the table is an error.")
    for code in (0x00, 0x7F, 0x99, 0xFF):
        yield rule.fails(f"opcode-unknown-{code:02x}", b"N" + bytes([code]) + b".")


def frames_of_the_stack() -> Iterator[Vector]:
    rule = PickleRule("5.1", "As an exception, POP directly above a mark removes the mark, as in CPython.")
    yield rule.gives("pickle-pop-removes-a-mark", b"K\x01((00.", tree(1))
    yield rule.gives("pickle-pop-removes-value-then-mark", b"(K\x01(K\x0200t.", tree(tuple_(1)))
    yield rule.fails("pickle-pop-removes-no-third", b"(00N.")
    rule = PickleRule("5.1", "No opcode accesses the stack below the last mark")
    yield rule.gives("pickle-marks-nest", b"(K\x01((tK\x02tK\x03t.", tree(tuple_(1, tuple_((), 2), 3)))


def the_memo() -> Iterator[Vector]:
    rule = PickleRule("5.1", "A memo entry MAY be set again")
    yield rule.gives("pickle-memo-set-again", b"K\x01q\x00K\x02q\x00h\x00\x87.", tree(tuple_(1, 2, 2)))
    puts = b"K\x01q\xffK\x02r\x00\x00\x10\x00K\x03p0\nh\xffj\x00\x00\x10\x00g0\n"
    yield rule.gives("pickle-memo-out-of-order", b"(" + puts + b"t.", tree(tuple_(1, 2, 3, 1, 2, 3)))
    rule = PickleRule("5.1", "Getting an entry that was not set is an error.")
    yield from all_fail(
        rule,
        {
            "memo-get-of-nothing": b"h\x00",
            "memo-get-beside": b"Nq\x05h\x04",
            "memo-get-all-bits": b"Nq\x00j\xff\xff\xff\xff",
            "memo-get-after-memoize": b"Nq\x05\x94h\x02",
        },
    )


# -- numbers and texts --------------------------------------------------------------------------------


def integers() -> Iterator[Vector]:
    rule = PickleRule("5.1", r"`0|-?[1-9][0-9]*`")
    nines = 10**599 - 1
    yield rule.gives("pickle-int-600-digits", b"I9" + b"0" * 599 + b"\n.", tree(9 * 10**599))
    yield rule.gives("pickle-int-600-characters", b"I-" + b"9" * 599 + b"\n.", tree(-nines))
    yield rule.gives("pickle-long-599-digits", b"L" + b"9" * 599 + b"L\n.", tree(nines))
    yield rule.gives("pickle-int-zeros", b"(I0\nL0L\nL0\nt.", tree(tuple_(0, 0, 0)))
    texts = {
        "601-digits": b"1" + b"0" * 600,
        "empty": b"",
        "minus": b"-",
        "minus-zero": b"-0",
        "plus": b"+7",
        "space-behind": b"7 ",
        "carriage-return": b"7\r",
        "leading-zero": b"07",
        "hexadecimal": b"0x10",
        "underscore": b"1_0",
        "with-l": b"7L",
        "other-digits": "\u0667".encode(),
    }
    yield from all_fail(rule, {f"int-{word}": b"I" + text + b"\n" for word, text in texts.items()})
    texts = {
        "601-digits": b"1" + b"0" * 600 + b"L",
        "l-alone": b"L",
        "small-l": b"7l",
        "bool": b"01",
        "minus-zero": b"-0L",
    }
    yield from all_fail(rule, {f"long-{word}": b"L" + text + b"\n" for word, text in texts.items()})


def floats() -> Iterator[Vector]:
    rule = PickleRule(
        "5.1", r"`-?(inf|nan|digits[.[digits]][e[sign]digits])` in any case, at most 4 digits of exponent"
    )
    for word, texts, values in (
        ("spellings", (b"2", b"2.", b"-007.50", b"1E+2", b"5e-0003", b"-0"), (2.0, 2.0, -7.5, 100.0, 0.005, -0.0)),
        ("infinities", (b"inf", b"-INF", b"Inf"), (math.inf, -math.inf, math.inf)),
        ("nan", (b"nan", b"NaN"), (math.nan, math.nan)),
        ("nan-negative", (b"-nan", b"-NAN"), (-math.nan, -math.nan)),
        ("exponents", (b"1e308", b"-1e308", b"1e-9999"), (1e308, -1e308, 0.0)),
        ("nearest", (b"9007199254740993", b"0.1", b"5e-324"), (2.0**53, 0.1, 5e-324)),
    ):
        body = b"".join([b"F" + text + b"\n" for text in texts])
        yield rule.gives(f"pickle-float-{word}", b"(" + body + b"t.", tree(tuple_(*values)))
    texts = {
        "empty": b"",
        "dot-first": b".5",
        "overflow": b"1e9999",
        "overflow-with-dot": b"-9.e999",
        "overflow-of-digits": b"9" * 400,
        "plus": b"+1.5",
        "infinity": b"infinity",
        "exponent-of-5-digits": b"1e00001",
        "hexadecimal": b"0x1p3",
        "space-behind": b"1.5 ",
    }
    yield from all_fail(rule, {f"float-{word}": b"F" + text + b"\n" for word, text in texts.items()})


def memo_indexes() -> Iterator[Vector]:
    rule = PickleRule("5.1", r"**PUT, GET**: `0|[1-9][0-9]*`, at most 19 digits")
    texts = {"leading-zero": b"01", "plus": b"+1", "space": b" 1"}
    put = b"Nq\x01q\x0b"
    yield from all_fail(rule, {f"get-{word}": put + b"g" + text + b"\n" for word, text in texts.items()})
    texts = {**texts, "minus": b"-1", "empty": b"", "20-digits": b"1" * 20}
    yield from all_fail(rule, {f"put-{word}": b"Np" + text + b"\n" for word, text in texts.items()})
    yield rule.gives("pickle-put-zero", b"Np0\ng0\n\x86.", tree(tuple_(None, None)))


def strings() -> Iterator[Vector]:
    rule = PickleRule(
        "5.1",
        "the first and the last byte are the same quote and not part of the text; another quote within represents itself; escapes `\\\\ \\' \\\" \\n \\r \\t \\xHH` only",
    )
    text = b"S'\\\\\\'\\\"\\n\\r\\t\\x00\\x7f\"'\n."
    yield rule.gives("pickle-string-escapes", text, tree('\\\'"\n\r\t\x00\x7f"'))
    yield rule.gives("pickle-string-double-quotes", b'S"it\'s"\n.', tree("it's"))
    yield rule.gives("pickle-string-empty", b"S''\n.", tree(""))
    yield rule.gives("pickle-string-quote-within", b"S'a'b'\n.", tree("a'b"))
    texts = {
        "unquoted": b"a",
        "nothing": b"",
        "one-quote": b"'",
        "unequal-quotes": b"'a\"",
        "quote-last": b"a'",
        "space-behind": b"'a' ",
        "carriage-return": b"'a'\r",
        "quote-escaped": b"'a\\'",
        "escape-bell": b"'\\a'",
        "escape-octal": b"'\\101'",
        "escape-unicode": b"'\\u0041'",
        "escape-one-digit": b"'\\x4'",
    }
    yield from all_fail(rule, {f"string-{word}": b"S" + text + b"\n" for word, text in texts.items()})


EIGHT_BIT: Final = "ASCII, as in `pickle.loads`; UTF-8 in a `.pth`, as `torch.load` requests"


def eight_bit_text() -> Iterator[Vector]:
    utf_8 = "\u00e9".encode()
    yield from all_fail(
        PickleRule("5.1", EIGHT_BIT),
        {
            "string-beyond-ascii": b"S'" + utf_8 + b"'\n",
            "string-escaped-beyond-ascii": b"S'\\xc3\\xa9'\n",
            "binstring-beyond-ascii": b"T" + counted(4, utf_8),
            "short-binstring-beyond-ascii": b"U" + counted(1, utf_8),
        },
    )


def state_dicts() -> Iterator[Vector]:
    """Texts and remaining values in a ``.pth``, where other rules apply."""
    rule = Rule("5.1", EIGHT_BIT)
    for word, text in {
        "string": b"S'\xc3\xa9'\n",
        "binstring": b"T\2\0\0\0\xc3\xa9",
        "short-binstring": b"U\2\xc3\xa9",
    }.items():
        printed = expected.lone(expected.ordered_dict({"\u00e9": expected.floats(1.0)}))
        yield rule.accepts(f"pth-{word}-utf-8", lone(build_pth.ordered({Raw(text): build_pth.floats((1,))})), printed)
    tree_ = build_pth.ordered({Raw(b"U\1\xe9"): build_pth.floats((1,))})
    yield rule.refuses("pth-short-binstring-latin-1", lone(tree_), "pickle failure")

    rule = Rule("5.1", "values, marks or a frame that remain are *flagged*; in a `.pth` that is an error")
    good = build_pth.dumps(build_pth.ordered())
    printed = expected.lone(expected.ordered_dict({}))
    yield rule.accepts("pth-nothing-left", lone(good), printed)
    for word, left in {"value": b"N", "mark": b"("}.items():
        yield rule.refuses(f"pth-{word}-left", lone(good[:2] + left + good[2:]), "tensor failure")
    framed = good[:2] + frame(good[2:] + b"\x80")
    streams = {"frame-closed": good[:2] + frame(good[2:]), "frame-left": framed[:-1]}
    closed = build_pth.legacy_stream(streams["frame-closed"])
    yield rule.accepts("legacy-frame-closed", closed, printed, features=("legacy",))
    left_ = build_pth.legacy_stream(streams["frame-left"])
    yield rule.refuses("legacy-frame-left", left_, "tensor failure", features=("legacy",))


def lone(content: object) -> bytes:
    """A ``.pth`` of one storage that contains 1.0."""
    return build_pth.torch_zip(content, {"0": struct.pack("<f", 1.0)})


def numbers() -> Iterator[Vector]:
    rule = PickleRule("5.1", "a negative LONG4 or BINSTRING length is an error, and so is an extension code <= 0")
    yield from all_fail(
        rule,
        {
            "long4-negative-length": b"\x8b\xff\xff\xff\xff" + b"abc",
            "binstring-negative-length": b"T\xff\xff\xff\xff" + b"abc",
            "ext1-zero": b"\x82\x00",
            "ext4-zero": b"\x84\x00\x00\x00\x00",
            "ext4-negative": b"\x84\xff\xff\xff\xff",
        },
    )
    code = extension(1)
    yield rule.gives("pickle-ext4-one", b"\x84\x01\x00\x00\x00.", tree(code, code))


# -- what is called, and what is changed --------------------------------------------------------------


def callables() -> Iterator[Vector]:
    rule = PickleRule("5.1", "REDUCE, INST, OBJ, NEWOBJ and NEWOBJ_EX call a *node* (5.2)")
    node = name()
    first = call("REDUCE", node)
    made = call("REDUCE", first)
    yield rule.gives("pickle-call-of-a-call", GLOBAL + b")R)R.", tree(made, node, first, made))
    made = call("NEWOBJ", persistent(1))
    yield rule.gives("pickle-call-of-a-persistent", b"K\x01Q)\x81.", tree(made, made))
    code = extension(1)
    made = call("OBJ", code, tuple_(None))
    yield rule.gives("pickle-call-of-an-extension", b"(\x82\x01No.", tree(made, code, made))
    yield from all_fail(
        rule,
        {
            "reduce-of-text": b"\x8c\x01a)R",
            "reduce-of-a-list": b"])R",
            "obj-of-a-number": b"(K\x01o",
            "newobj-of-text": b"\x8c\x01a)\x81",
            "newobj-ex-of-text": b"\x8c\x01a)}\x92",
        },
    )


def arguments() -> Iterator[Vector]:
    rule = PickleRule("5.1", "their arguments are a tuple or a node, keywords a dict or a node")
    for how, behind, keywords in (("REDUCE", b"R", False), ("NEWOBJ", b"\x81", False), ("NEWOBJ_EX", b"}\x92", True)):
        node, held = name(), persistent(1)
        made = call(how, node, held, **({"keywords": dict_()} if keywords else {}))
        word = how.lower().replace("_", "-")
        yield rule.gives(f"pickle-{word}-with-a-node", GLOBAL + b"K\x01Q" + behind + b".", tree(made, node, made))
        texts = {"a-list": b"]", "none": b"N"}
        yield from all_fail(rule, {f"{word}-with-{kind}": GLOBAL + text + behind for kind, text in texts.items()})
    node, held = name(), persistent(1)
    made = call("NEWOBJ_EX", node, (), keywords=held)
    yield rule.gives("pickle-newobj-ex-keywords-of-a-node", GLOBAL + b")K\x01Q\x92.", tree(made, node, made))
    texts = {"none": b"N", "a-tuple": b")"}
    yield from all_fail(
        rule, {f"newobj-ex-keywords-{word}": GLOBAL + b")" + text + b"\x92" for word, text in texts.items()}
    )


def changes() -> Iterator[Vector]:
    rule = PickleRule(
        "5.1",
        "APPEND(S) to a list, SETITEM(S) to a dict, ADDITEMS to a set; any of these, and BUILD, to a node",
    )
    steps = b"(K\x01eK\x02a(K\x03K\x04uK\x05K\x06s(K\x07\x90Nb"
    for word, body in {"persistent": b"K\x01Q", "extension": b"\x82\x01", "call": GLOBAL + b")R"}.items():
        function = name()
        node = {"persistent": persistent(1), "extension": extension(1), "call": call("REDUCE", function)}[word]
        log = {"persistent": [], "extension": [node], "call": [function, node]}[word]
        node.changed("APPENDS", [1]).changed("APPENDS", [2]).changed("SETITEMS", [[3, 4]])
        node.changed("SETITEMS", [[5, 6]]).changed("ADDITEMS", [7]).changed("BUILD", None)
        printed = tree(node, *log, *[change(node)] * 6)
        yield rule.gives(f"pickle-every-change-to-a-{word}", body + steps + b".", printed)
    array = b"\x96" + counted(8, b"ab")
    yield from all_fail(
        rule,
        {
            "setitem-of-a-list": b"]NaK\x00Ns",
            "setitems-of-a-list": b"]Na(K\x00Nu",
            "append-to-a-bytearray": array + b"K\x01a",
            "appends-to-a-tuple": b")(Ne",
            "additems-to-a-list": b"](N\x90",
            "build-of-a-list": b"]Nb",
            "build-of-none": b"NNb",
        },
    )


def odd_counts() -> Iterator[Vector]:
    rule = PickleRule("5.1", "**DICT, SETITEMS**: an even number of values")
    yield rule.gives("pickle-dict-of-nothing", b"(d.", tree(dict_()))
    yield rule.gives("pickle-setitems-of-nothing", b"}(u.", tree(dict_()))
    odd = {"dict-of-three": b"(NNNd", "setitems-of-one": b"}(Nu", "setitems-of-three-to-a-node": GLOBAL + b"(NNNu"}
    yield from all_fail(rule, odd)


def computed_names() -> Iterator[Vector]:
    rule = PickleRule(
        "5.1",
        "two texts; a text and a node, or two nodes, make a call with a computed name (5.2); anything else is an error",
    )
    node = name()
    made = computed("m", node)
    yield rule.gives("pickle-name-computed", b"\x8c\x01m" + GLOBAL + b"\x93.", tree(made, node, made))
    node = name()
    module = call("REDUCE", node)
    made = computed(module, "n")
    yield rule.gives("pickle-module-computed", GLOBAL + b")R\x8c\x01n\x93.", tree(made, node, module, made))
    made = computed(persistent(1), persistent(2))
    yield rule.gives("pickle-module-and-name-computed", b"K\x01QK\x02Q\x93.", tree(made, made))
    second = call("REDUCE", made := computed(persistent(1), "n"))
    yield rule.gives("pickle-computed-name-called", b"K\x01Q\x8c\x01n\x93)R.", tree(second, made, second))
    yield from all_fail(
        rule,
        {
            "stack-global-of-a-number": b"\x8c\x01mK\x01\x93",
            "stack-global-of-a-list": b"]\x8c\x01n\x93",
            "stack-global-of-a-tuple": b"\x8c\x01m)\x93",
        },
    )


# -- frames and ends ----------------------------------------------------------------------------------

FRAMES: Final = "the frame is within the data, contains whole opcodes, and no frame opens before it ends"


def frames() -> Iterator[Vector]:
    rule = PickleRule("5.1", FRAMES)
    four = b"\x80\x04"
    for word, pickle, value in (
        ("with-stop", four + frame(b"]K\x01a."), list_(1)),
        ("before-stop", four + frame(b"K\x01") + b".", 1),
        ("two", frame(b"]") + frame(b"K\x01a") + b".", list_(1)),
        ("then-none", frame(b"K\x01") + b"C\x01a\x86.", tuple_(1, b"a")),
        ("empty", frame(b"") + frame(b"") + b"N.", None),
    ):
        yield rule.gives(f"pickle-frame-{word}", pickle, tree(value, protocol=4 if pickle.startswith(four) else 0))


def broken_frames() -> Iterator[Vector]:
    rule = PickleRule("5.1", FRAMES)
    for word, pickle in {
        "ends-in-an-argument": frame(b"M\x01\x02", 2) + b".",
        "ends-behind-a-code": frame(b"K\x01", 1) + b".",
        "ends-in-a-text": frame(b"X\x02\0\0\0ab", 6) + b".",
        "ends-in-a-line": frame(b"I12\n", 3) + b".",
        "straddles": frame(frame(b"N"), 5) + b".",
        "within-a-frame": frame(b"N0" + frame(b"N.")),
        "within-a-frame-and-closed": frame(frame(b"N") + b"."),
        "empty-within-a-frame": frame(frame(b"") + b"N."),
        "one-byte-too-long": frame(b"N.", 3),
        "highest-bit": frame(b"N.", 1 << 63),
        "all-bits": frame(b"N.", (1 << 64) - 1),
    }.items():
        yield rule.fails(f"pickle-frame-{word}", pickle)


def the_end() -> Iterator[Vector]:
    rule = PickleRule("5.1", "a pickle that fills its space ends with STOP")
    for word, pickle in {
        "a-byte": b"N.\0",
        "newline": b"N.\n",
        "another-pickle": b"N.N.",
        "a-framed-byte": frame(b"N.N"),
    }.items():
        yield rule.fails(f"pickle-stop-then-{word}", pickle)


def flags() -> Iterator[Vector]:
    rule = PickleRule("5.1", "values, marks or a frame that remain are *flagged*")
    for word, pickle, left in (
        ("values", b"K\x01K\x02.", ["values"]),
        ("marks", b"((K\x02.", ["marks"]),
        ("values-and-marks", b"K\x01(K\x02.", ["marks", "values"]),
        ("value-between-marks", b"(K\x01(K\x02.", ["marks", "values"]),
    ):
        yield rule.gives(f"pickle-{word}-left", pickle, tree(2, flags=left))
