"""Details of ``data`` and of the text entries that no other family shows: found with mutants of a decoder (FORMAT.md 3, 4)."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from conformance.generators.json_texts import FAILURE, read, three, zipped
from conformance.generators.serialized import base64_of
from conformance.generators.texts import accepts_fields
from conformance.generators.vectors import Rule, Vector

if TYPE_CHECKING:
    from collections.abc import Iterator


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from depths()
    yield from digits()
    yield from lenient_base64()
    yield from fields()


def depths() -> Iterator[Vector]:
    rule = Rule("3.1", "Depth: the number of brackets and braces open at the same time.")
    limit = ("--limit", "json_depth=3")
    for name, text in {"deep-first": b'{"a":[[[]]],"b":[]}', "deep-last": b'{"a":[[]],"b":[[[]]]}'}.items():
        yield rule.refuses(f"json-depth-{name}", text, "limit exceeded", *limit)
    yield rule.refuses("json-depth-of-a-number", zipped(b"1"), FAILURE, "--limit", "json_depth=0")


def digits() -> Iterator[Vector]:
    rule = Rule("3.1", "Digits: the longest sequence of digits.")
    for number in (1000, 9999):
        yield rule.refuses(f"json-digits-of-{number}", b'{"a":%d}' % number, "limit exceeded", *three())
    yield read(rule, "digits-of-no-number", b'{"a":null}', {"a": None}, "--limit", "json_digits=0")


def lenient_base64() -> Iterator[Vector]:
    rule = Rule("3.2", "Characters outside the alphabet are skipped, non-ASCII characters included")
    decoded = b"\x80\x04\x8c\x50" + bytes(range(80)) + b"."
    text = base64.b64encode(decoded).decode("ascii")
    yield base64_of(rule, "one-line-end", text[:40] + "\n" + text[40:], decoded)


def fields() -> Iterator[Vector]:
    rule = Rule("4.2", "splits the line at the first `: ` (values may contain another), and strips both sides.")
    yield accepts_fields(rule, "key-of-no-characters", b": x\nOS: Linux\n", ("", "x"), ("OS", "Linux"))
