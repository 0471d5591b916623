"""The JSON of ``data`` (FORMAT.md 3.1)."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from conformance.generators import expected
from conformance.generators.build_zips import Member, build_zip
from conformance.generators.vectors import Rule, Vector

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FAILURE = "data failure"


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    for family in (
        objects, no_objects, broken_structure, broken_words, strings, broken_strings, encodings, keys, constants,
        integers, floats, depths, values, digits, sizes,
    ):  # fmt: skip
        yield from family()


def read(rule: Rule, name: str, text: bytes, value: object, *arguments: str) -> Vector:
    """A bare ``data`` of plain values."""
    return rule.accepts(f"json-{name}", text, expected.bare(expected.plain(value)), *arguments)


def all_refused(rule: Rule, texts: Mapping[str, bytes]) -> Iterator[Vector]:
    """A vector for each of these texts."""
    for name, text in texts.items():
        yield rule.refuses(f"json-{name}", text, FAILURE)


def zipped(text: bytes) -> bytes:
    """An archive with this ``data``, for texts that are not identified as a bare ``data``."""
    return build_zip(Member(b"data", text))


# -- 3.1, JSON ----------------------------------------------------------------------------------------

OBJECT = "One JSON object (RFC 8259) in strict UTF-8 without a byte order mark."


def objects() -> Iterator[Vector]:
    rule = Rule("3.1", OBJECT)
    yield read(rule, "empty-object", b"{}", {})
    every = {
        "null": None,
        "true": True,
        "false": False,
        "text": "x",
        "whole": 1,
        "float": 0.5,
        "array": [],
        "object": {},
    }
    yield read(rule, "every-kind", json.dumps({**every, "deep": [[every]]}).encode(), {**every, "deep": [[every]]})
    yield read(rule, "white-space", b'\t{ "a"\r:\n[ 1 ,\t2 ] ,"b" : { } }\r\n', {"a": [1, 2], "b": {}})
    yield read(rule, "order-of-keys", b'{"b":0,"10":0,"a":0,"2":0}', {"b": 0, "10": 0, "a": 0, "2": 0})
    hostile = {"__proto__": {"a": 1}, "constructor": None, "toString": 0, "hasOwnProperty": 1, "length": 2}
    yield read(rule, "keys-of-objects", json.dumps({**hostile, "deep": hostile}).encode(), {**hostile, "deep": hostile})


def no_objects() -> Iterator[Vector]:
    rule = Rule("3.1", OBJECT)
    for name, text in {
        "array": b"[{}]",
        "text": b'"{}"',
        "number": b"1",
        "null": b"null",
        "no-bytes": b"",
        "white-space-alone": b" \n",
        "byte-order-mark": b'\xef\xbb\xbf{"a": 1}',
    }.items():
        yield rule.refuses(f"json-{name}", zipped(text), FAILURE)


def broken_structure() -> Iterator[Vector]:
    yield from all_refused(
        Rule("3.1", OBJECT),
        {
            "comma-behind-last-pair": b'{"a":1,}',
            "comma-behind-last-item": b'{"a":[1,]}',
            "comma-missing": b'{"a":[1 2]}',
            "colon-missing": b'{"a" 1}',
            "key-unquoted": b"{a:1}",
            "single-quotes": b"{'a':1}",
            "comment": b'{"a":/**/1}',
            "behind-the-object": b'{"a":1}x',
            "two-objects": b'{"a":1}\n{"a":1}',
            "mark-behind": b'{"a":1}\xef\xbb\xbf',
            "unclosed-object": b'{"a":1',
            "bracket-too-many": b'{"a":1}}',
            "form-feed": b'{\x0c"a":1}',
            "no-break-space": b'{\xc2\xa0"a":1}',
        },
    )


def broken_words() -> Iterator[Vector]:
    texts = {
        "number-leading-zero": "01",
        "number-plus": "+1",
        "number-dot-first": ".5",
        "number-dot-last": "1.",
        "number-hexadecimal": "0x10",
        "number-underscore": "1_0",
        "number-other-digits": "\u0661",
        "word-of-python": "True",
        "word-cut": "nul",
        "word-nan-lower-case": "nan",
        "word-minus-nan": "-NaN",
    }
    yield from all_refused(Rule("3.1", OBJECT), {name: f'{{"a":{text}}}'.encode() for name, text in texts.items()})


def strings() -> Iterator[Vector]:
    rule = Rule("3.1", OBJECT)
    yield read(
        rule, "escapes", rb'{"\u0061":"\"\\\/\b\f\n\r\t\u00e9\uD83D\uDE00"}', {"a": '"\\/\b\f\n\r\t\u00e9\U0001f600'}
    )
    text = "\u00e9\u20ac\U0001f600\ufeff\ufffe"
    yield read(rule, "beyond-ascii", f'{{"{text}":"{text}"}}'.encode(), {text: text})
    rule = Rule("3.1", "Lone surrogates in `\\u` escapes are preserved, and written back unchanged.")
    yield read(rule, "surrogate-high", rb'{"a":"\ud800"}', {"a": "\ud800"})
    yield read(rule, "surrogate-low-in-key", rb'{"x\udfffy":1}', {"x\udfffy": 1})
    yield read(rule, "surrogates-swapped", rb'{"a":"\ude00\ud83d"}', {"a": "\ude00\ud83d"})
    yield read(rule, "surrogates-two-high", rb'{"a":"\ud83d\ud83d\ude00"}', {"a": "\ud83d\U0001f600"})
    yield read(rule, "surrogates-two-low", rb'{"a":"\ud83d\ude00\ude00"}', {"a": "\U0001f600\ude00"})
    yield read(rule, "surrogate-before-text", rb'{"a":"\ud83dx\ude00"}', {"a": "\ud83dx\ude00"})
    rule = Rule("3.1", "Unescaped control characters in strings are an error, as in the RFC.")
    yield read(rule, "no-control-characters", '{"a":"\x7f\x85\u2028"}'.encode(), {"a": "\x7f\x85\u2028"})
    controls = {"zero": b"\0", "tab": b"\t", "newline": b"\n"}
    yield from all_refused(rule, {f"control-{name}": b'{"a":"' + raw + b'"}' for name, raw in controls.items()})
    yield from all_refused(rule, {"control-in-key": b'{"a\r":1}'})


def broken_strings() -> Iterator[Vector]:
    texts = {
        "hexadecimal": rb"\x41",
        "unknown": rb"\a",
        "three-digits": rb"\u041",
        "signed-digits": rb"\u+041",
    }
    yield from all_refused(
        Rule("3.1", OBJECT), {f"escape-{name}": b'{"a":"' + raw + b'"}' for name, raw in texts.items()}
    )


def encodings() -> Iterator[Vector]:
    texts = {
        "latin-1": b"\xe9",
        "continuation": b"\x80",
        "overlong": b"\xc0\x80",
        "surrogate": b"\xed\xa0\x80",
        "above-10ffff": b"\xf4\x90\x80\x80",
    }
    rule = Rule("3.1", "in strict UTF-8 without a byte order mark")
    yield from all_refused(rule, {f"utf-8-{name}": b'{"a":"' + raw + b'"}' for name, raw in texts.items()})
    yield from all_refused(rule, {"utf-16": '{"a":1}'.encode("utf-16-le")})


def keys() -> Iterator[Vector]:
    rule = Rule("3.1", "No key may occur twice in one object, at any depth.")
    yield from all_refused(
        rule,
        {
            "key-twice": b'{"a":1,"b":2,"a":1}',
            "key-twice-escaped": rb'{"a":1,"\u0061":2}',
            "key-twice-beyond-ascii": '{"\U0001f600":1,"\\ud83d\\ude00":2}'.encode(),
            "key-twice-deep": b'{"x":{"k":[0,{"b":1,"b":2}]}}',
            "key-twice-proto": b'{"a":{"__proto__":1,"__proto__":2}}',
            "key-twice-in-hints": b'{"x":{":serialized:":"","k":0,"k":0}}',
        },
    )
    yield read(rule, "key-in-several-objects", b'{"a":{"a":[{"a":1},{"a":2}]}}', {"a": {"a": [{"a": 1}, {"a": 2}]}})
    alike = {"a": 1, "A": 2, "a ": 3, "a\x00": 4, "\u00e9": 5, "e\u0301": 6}
    yield read(rule, "keys-alike", json.dumps(alike).encode(), alike)


def constants() -> Iterator[Vector]:
    rule = Rule("3.1", "A reader MUST accept and preserve them.")
    yield read(rule, "nan", b'{"a":NaN}', {"a": math.nan})
    yield read(rule, "infinities", b'{"a":[Infinity,-Infinity]}', {"a": [math.inf, -math.inf]})


def integers() -> Iterator[Vector]:
    rule = Rule("3.1", "A number without fraction and exponent is an integer of any size up to the digit limit")
    yield read(rule, "integer-negative-zero", b'{"a":-0}', {"a": 0})
    yield read(
        rule, "integers-of-53-bits", b'{"a":[9007199254740991,-9007199254740991]}', {"a": [2**53 - 1, 1 - 2**53]}
    )
    found = {"start_time": 1690000000000000001}
    yield read(rule, "integer-of-nanoseconds", b'{"start_time":1690000000000000001}', found)
    yield read(rule, "integers-of-54-bits", b'{"a":[9007199254740993,-9007199254740992]}', {"a": [2**53 + 1, -(2**53)]})
    yield read(rule, "integer-of-65-bits", b'{"a":-18446744073709551616}', {"a": -(2**64)})
    yield read(rule, "integer-of-4300-digits", b'{"a":1' + b"0" * 4299 + b"}", {"a": 10**4299})


def floats() -> Iterator[Vector]:
    rule = Rule("3.1", "All other numbers are the nearest binary64, and overflow gives an infinity.")
    yield read(rule, "float-whole", b'{"a":[1.0,1e0,1E+2,100e-2]}', {"a": [1.0, 1.0, 100.0, 1.0]})
    yield read(rule, "float-negative-zero", b'{"a":[-0.0,-0e0]}', {"a": [-0.0, -0.0]})
    yield read(
        rule, "float-tie-to-even", b'{"a":[9007199254740993.0,9007199254740995.0]}', {"a": [2.0**53, 2.0**53 + 4]}
    )
    above = b"9007199254740993." + b"0" * 800 + b"1"
    yield read(rule, "float-above-tie-by-digit-818", b'{"a":' + above + b"}", {"a": 2.0**53 + 2})
    yield read(rule, "float-largest", b'{"a":1.7976931348623158e308}', {"a": math.ldexp(2.0**53 - 1, 971)})
    yield read(
        rule, "float-overflow", b'{"a":[1.7976931348623159e308,1e309,-1e400]}', {"a": [math.inf, math.inf, -math.inf]}
    )
    smallest = math.ldexp(1.0, -1074)
    yield read(
        rule, "float-smallest", b'{"a":[4.9e-324,2.5e-324,2.4e-324,-1e-400]}', {"a": [smallest, smallest, 0.0, -0.0]}
    )
    huge = b"9" * 30
    text = b'{"a":[1e%s,1e-%s,0e%s]}' % (huge, huge, huge)
    yield read(rule, "float-huge-exponents", text, {"a": [math.inf, 0.0, 0.0]})


# -- 3.1, counted before anything is parsed -----------------------------------------------------------


def nested(depth: int) -> bytes:
    """An object of this depth, of alternating arrays and objects."""
    unit, rest = divmod(depth - 1, 2)
    return b'{"a":' + b'[{"a":' * unit + b"[" * rest + b"0" + b"]" * rest + b"}]" * unit + b"}"


def nested_value(depth: int) -> object:
    """The value of :func:`nested`."""
    unit, rest = divmod(depth - 1, 2)
    made: object = [0] if rest else 0
    for _ in range(unit):
        made = [{"a": made}]
    return {"a": made}


def depths() -> Iterator[Vector]:
    rule = Rule("3.1", "Depth: the number of brackets and braces open at the same time.")
    yield read(rule, "depth-64", nested(64), nested_value(64))
    yield rule.refuses("json-depth-65", nested(65), "limit exceeded")
    yield rule.refuses("json-depth-5000", nested(5000), "limit exceeded")
    yield read(rule, "depth-at-limit", nested(3), nested_value(3), "--limit", "json_depth=3")
    yield rule.refuses("json-depth-above-limit", nested(4), "limit exceeded", "--limit", "json_depth=3")
    yield read(rule, "depth-limit-raised", nested(100), nested_value(100), "--limit", "json_depth=100")
    beside = b'{"a":[[],[],{},{}],"b":[[]]}'
    yield read(rule, "depth-of-many", beside, {"a": [[], [], {}, {}], "b": [[]]}, "--limit", "json_depth=3")
    rule = Rule("3.1", "Only characters outside strings are counted.")
    hidden = {"a": "[" * 99 + '"' + "{" * 99 + "\\", "[[[[": '\\"[{'}
    yield read(rule, "brackets-in-strings", json.dumps(hidden).encode(), hidden)
    behind = b'{"a\\\\":' + b"[" * 64 + b"]" * 64 + b"}"
    yield rule.refuses("json-brackets-behind-backslashes", behind, "limit exceeded")


def values() -> Iterator[Vector]:
    rule = Rule(
        "3.1",
        "Values: 1 + the number of commas + seven for each opening bracket or brace, because a container costs that much memory.",
    )
    text, value = b'{"a":[1,2,3],"b":{}}', {"a": [1, 2, 3], "b": {}}
    yield read(rule, "values-at-limit", text, value, "--limit", "json_nodes=25")
    yield rule.refuses("json-values-above-limit", text, "limit exceeded", "--limit", "json_nodes=24")
    yield read(rule, "values-of-nothing", b"{}", {}, "--limit", "json_nodes=8")
    yield rule.refuses("json-values-of-nothing-above-limit", b"{}", "limit exceeded", "--limit", "json_nodes=7")
    rule = Rule("3.1", "Only characters outside strings are counted.")
    yield read(rule, "commas-in-strings", b'{"a,,":"\\",,[{"}', {"a,,": '",,[{'}, "--limit", "json_nodes=8")


def digits() -> Iterator[Vector]:
    rule = Rule("3.1", "Digits: the longest sequence of digits.")
    yield rule.refuses("json-digits-4301", b'{"a":' + b"1" * 4301 + b"}", "limit exceeded")
    yield read(rule, "digits-4300", b'{"a":' + b"1" * 4300 + b"}", {"a": (10**4300 - 1) // 9})
    yield read(rule, "digits-at-limit", b'{"a":[-123,123.456e123,1,2]}', {"a": [-123, 123.456e123, 1, 2]}, *three())
    for name, text in {"integer": b"-1234", "fraction": b"1.2345", "exponent": b"1e-1234"}.items():
        yield rule.refuses(f"json-digits-of-{name}", b'{"a":' + text + b"}", "limit exceeded", *three())
    data, digits = b'{"a":-1234}', ("--limit", "json_digits=4")
    yield read(rule, "digits-of-integer-at-limit", data, {"a": -1234}, *digits)
    rule = Rule("3.1", "Only characters outside strings are counted.")
    yield read(rule, "digits-in-strings", b'{"1234":"1234 \\u12345"}', {"1234": "1234 \u12345"}, *three())


def three() -> tuple[str, str]:
    """At most three digits."""
    return "--limit", "json_digits=3"


def sizes() -> Iterator[Vector]:
    rule = Rule("3.1", "Bytes, depth, values and digits are counted before anything is parsed.")
    text, value = '{"a":"\u20ac"}\n'.encode(), {"a": "\u20ac"}
    yield read(rule, "bytes-at-limit", text, value, "--limit", "json_bytes=12")
    yield rule.refuses("json-bytes-above-limit", text, "limit exceeded", "--limit", "json_bytes=11")
