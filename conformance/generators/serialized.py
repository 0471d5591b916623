"""The serialized values of ``data``, and base64 (FORMAT.md 3.2, 3.3, 8)."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

from conformance.generators import expected
from conformance.generators.json_texts import FAILURE, read
from conformance.generators.vectors import Rule, Vector

if TYPE_CHECKING:
    from collections.abc import Iterator


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    for family in (markers, no_markers, hints, opaque, spellings, padding, no_base64, blobs):
        yield from family()


# -- 3.2, serialized values ---------------------------------------------------------------------------

SEVEN = b"\x80\x04K\x07."
TEXT = base64.b64encode(SEVEN).decode("ascii")


def with_serialized(rule: Rule, name: str, value: object, found: object) -> Vector:
    """A ``data`` whose ``x`` is a serialized value."""
    text = json.dumps({"x": value}).encode("ascii")
    return rule.accepts(f"serialized-{name}", text, expected.bare({"dict": [["x", found]]}))


def markers() -> Iterator[Vector]:
    rule = Rule(
        "3.2",
        "An object is a serialized value if it is the value of a *top-level* key and has the key `:serialized:`.",
    )
    value = {":type:": "<class 'int'>", ":serialized:": TEXT}
    yield with_serialized(rule, "value", value, expected.serialized(SEVEN, "<class 'int'>"))
    yield read(rule, "serialized-root", json.dumps(value).encode(), value)
    yield read(
        rule,
        "serialized-key-of-a-text",
        b'{":serialized:":1,"x":":serialized:"}',
        {":serialized:": 1, "x": ":serialized:"},
    )
    yield read(rule, "type-alone", b'{"x":{":type:":5}}', {"x": {":type:": 5}})
    yield read(rule, "serialized-spelled-otherwise", b'{"x":{":Serialized:":1}}', {"x": {":Serialized:": 1}})
    escaped = json.dumps({"x": value}).replace("serialized", "\\u0073erialized").encode()
    yield rule.accepts(
        "serialized-escaped", escaped, expected.bare({"dict": [["x", expected.serialized(SEVEN, "<class 'int'>")]]})
    )
    rule = Rule("3.2", "Deeper objects are plain objects: SB3 does not examine them.")
    for name, plain in {
        "in-object": {"y": value},
        "in-array": [value],
        "with-number": {"y": {":serialized:": 1}},
    }.items():
        yield read(rule, f"serialized-{name}", json.dumps({"x": plain}).encode(), {"x": plain})
    rule = Rule("3.2", "`:type:` MUST be text, null or absent.")
    yield with_serialized(rule, "type-null", {":type:": None, ":serialized:": TEXT}, expected.serialized(SEVEN))
    yield with_serialized(rule, "type-absent", {":serialized:": TEXT}, expected.serialized(SEVEN))
    odd = "\x1b[31m\ud800\u202e"
    yield with_serialized(rule, "type-odd-text", {":type:": odd, ":serialized:": TEXT}, expected.serialized(SEVEN, odd))


def no_markers() -> Iterator[Vector]:
    others = {"number": 1, "null": None, "array": [TEXT], "object": {}}
    rule = Rule("3.2", "`:serialized:` MUST be text without lone surrogates")
    yield with_serialized(
        rule, "text", {":serialized:": TEXT, "hint": 1}, expected.serialized(SEVEN, hints={"hint": 1})
    )
    yield rule.refuses("serialized-lone-surrogate", b'{"x": {":serialized:": "QUJD\\ud800"}}', FAILURE)
    for name, value in others.items():
        yield rule.refuses(f"serialized-is-{name}", json.dumps({"x": {":serialized:": value}}).encode(), FAILURE)
    rule = Rule("3.2", "`:type:` MUST be text, null or absent.")
    for name, value in others.items():
        if value is None:
            continue
        text = json.dumps({"x": {":type:": value, ":serialized:": TEXT}}).encode()
        yield rule.refuses(f"serialized-type-is-{name}", text, FAILURE)


def hints() -> Iterator[Vector]:
    rule = Rule("3.3", "A reader MUST NOT use a hint as the value, and preserves hints unchanged.")
    found = {"low": "[-1. ... -1.]", "n": [1, None, {"deep": 0.5}], "": {}, "f": "<function f at 0x7f0000000000>"}
    value = {"low": found["low"], ":type:": "t", "n": found["n"], ":serialized:": TEXT, "": {}, "f": found["f"]}
    yield with_serialized(rule, "hints", value, expected.serialized(SEVEN, "t", found))
    marked = {"y": {":serialized:": "!", ":type:": 1}, "type": "u", "hints": 2}
    yield with_serialized(
        rule, "hints-like-markers", {":serialized:": TEXT, **marked}, expected.serialized(SEVEN, None, marked)
    )
    rule = Rule("3.3", "A reader does not refuse unknown keys and does not assume their size.")
    unknown = {"my_key": [1], "policy_class": 5, "observation_space": None, ":odd key:": {"n_steps": "x" * 3000}}
    yield read(rule, "unknown-keys", json.dumps(unknown).encode(), unknown)


def opaque() -> Iterator[Vector]:
    rule = Rule("3.2", "A reader MUST NOT unpickle it")
    for name, pickle in {
        "empty": b"",
        "no-pickle": b"\xff\xfenot a pickle",
        "pickle-that-exits": b"cposix\n_exit\n(I1\ntR.",
        "pickle-that-is-cut": b"\x80\x04\x95",
    }.items():
        text = base64.b64encode(pickle).decode("ascii")
        yield with_serialized(rule, name, {":serialized:": text}, expected.serialized(pickle))


# -- 3.2, base64 --------------------------------------------------------------------------------------


def base64_of(rule: Rule, name: str, text: str, decoded: bytes, *, canonical: bool = False) -> Vector:
    """A serialized value with this text."""
    value = json.dumps({"x": {":serialized:": text}}).encode("ascii")
    found = expected.serialized(decoded, canonical=canonical)
    return rule.accepts(f"base64-{name}", value, expected.bare({"dict": [["x", found]]}))


def spellings() -> Iterator[Vector]:
    rule = Rule(
        "3.2",
        "canonical if encoding the decoded bytes (standard alphabet, padded, one line) gives the same text",
    )
    for name, text, decoded in (
        ("alphabet", "+/+/", b"\xfb\xff\xbf"),
        ("two-of-padding", "QQ==", b"A"),
        ("one-of-padding", "QUI=", b"AB"),
    ):
        yield base64_of(rule, name, text, decoded, canonical=True)
    rule = Rule("3.2", "A reader MUST report that the text was not canonical.")
    yield base64_of(rule, "bits-left-over", "QR==", b"A")
    yield base64_of(rule, "bits-left-over-of-three", "QUJ=", b"AB")

    rule = Rule("3.2", "Text that is not canonical MUST be decoded as leniently as the decoder that SB3 calls")
    yield base64_of(rule, "nothing-of-the-alphabet", "!\n ", b"")
    yield base64_of(rule, "padding-apart", "QQ=\n=", b"A")

    rule = Rule("3.2", "Characters outside the alphabet are skipped")
    for name, text in {
        "newlines": "QUJD\nREVG\n",
        "newline-behind-padding": "QUJDREU=\n",
        "ascii-characters": " QU\tJD!#$%.-_REVG\x00\x7f\r\n",
        "url-safe-alphabet": "Q-U_JDREVG",
        "beyond-ascii": "QUJD\u00e9\uff21\U0001f600REVG",
    }.items():
        yield base64_of(rule, name, text, b"ABCDE" if "=" in text else b"ABCDEF")


def padding() -> Iterator[Vector]:
    rule = Rule("3.2", "A `=` that does not complete a quad is skipped too.")
    for name, text, decoded in (
        ("padding-first", "=QUJD", b"ABC"),
        ("padding-behind-one", "Q=UJD", b"ABC"),
        ("padding-behind-two", "QU=JD", b"ABC"),
        ("padding-behind-a-quad", "QUJD=", b"ABC"),
        ("padding-too-much", "QUI==", b"AB"),
        ("padding-before-the-third", "QQ=A=", b"A\x00"),
        ("padding-counted-again", "QU=JDQU=JD", b"ABCABC"),
        ("padding-behind-two-quads", "QUJDQ=UI=", b"ABCAB"),
        ("padding-around-skipped", "QQ=\u00e9!\n=", b"A"),
    ):
        yield base64_of(rule, name, text, decoded)


def no_base64() -> Iterator[Vector]:
    rule = Rule(
        "3.2", "4n + 1 characters of the alphabet, or a last quad without its padding, are an error (data failure)."
    )
    for name, text in {
        "one-character": "Q",
        "five-characters": "QUJDQ",
        "one-character-padded": "Q===",
        "two-characters": "QQ",
        "two-characters-half-padded": "QQ=",
        "three-characters": "QUJDQUI",
        "padding-of-an-earlier-quad": "QU=JDQU=",
    }.items():
        yield rule.refuses(f"base64-{name}", json.dumps({"x": {":serialized:": text}}).encode(), FAILURE)


# -- 8, the limits of blobs ---------------------------------------------------------------------------


def blobs() -> Iterator[Vector]:
    rule = Rule(
        "8",
        "| `blob_bytes` | 32 MiB | 1.3 MB | one pickle of `data`: 3/4 of the characters of its base64, rounded down |",
    )
    one = json.dumps({"x": {":serialized:": TEXT}}).encode()  # 8 characters for 5 bytes, which count as 6
    found = expected.bare({"dict": [["x", expected.serialized(SEVEN)]]})
    yield rule.accepts("blob-bytes-at-limit", one, found, "--limit", "blob_bytes=6")
    yield rule.refuses("blob-bytes-above-limit", one, "limit exceeded", "--limit", "blob_bytes=5")
    deep = {"x": {"y": {":serialized:": TEXT}}}
    found = expected.bare(expected.plain(deep))
    yield rule.accepts("blob-bytes-of-a-plain-object", json.dumps(deep).encode(), found, "--limit", "blob_bytes=1")
    rule = Rule("8", "| `blobs_bytes` | 64 MiB | | all pickles of `data` |")
    two = json.dumps({"x": {":serialized:": TEXT}, "y": {":serialized:": TEXT}}).encode()
    found = expected.bare({"dict": [[key, expected.serialized(SEVEN)] for key in ("x", "y")]})
    yield rule.accepts("blobs-bytes-at-limit", two, found, "--limit", "blobs_bytes=12", "--limit", "blob_bytes=6")
    yield rule.refuses("blobs-bytes-above-limit", two, "limit exceeded", "--limit", "blobs_bytes=11")
