"""Limits of the zip layer and of whole entries, on both sides (FORMAT.md 8).

Vectors for the limits of JSON, pickles and tensors are in the modules of their rules.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from conformance.generators import expected
from conformance.generators.build_torch_zips import pth
from conformance.generators.build_zips import DEFLATED, POLICY, Member, build_zip, state_dict_zip
from conformance.generators.ends import BOTH, ONE, TWO
from conformance.generators.forms import members, zipped
from conformance.generators.scanning import document, pickled
from conformance.generators.vectors import Rule, Vector

if TYPE_CHECKING:
    from collections.abc import Iterator

PASSED = "limit exceeded"


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from counts()
    yield from sizes()
    yield from inflation()
    yield from decoded_values()


def counts() -> Iterator[Vector]:
    rule = Rule("8", "A reader SHOULD have these limits, and MUST let its user change them")
    deep: list[Any] = []
    for _ in range(63):
        deep = [deep]
    data = json.dumps({"a": deep}).encode()
    found = expected.bare(expected.plain({"a": deep}))
    yield rule.refuses("limit-as-it-is", data, PASSED)
    yield rule.accepts("limit-raised", data, found, "--limit", "json_depth=65")
    yield rule.refuses("limit-lowered", b'{"a": []}', PASSED, "--limit", "json_depth=1")
    rule = Rule("8", "| `outer_entries` | 1,024 | 8 | entries of an archive |")
    good = build_zip(ONE, TWO)
    yield rule.accepts("limit-outer-entries-at", good, BOTH, "--limit", "outer_entries=2")
    yield rule.refuses("limit-outer-entries-above", good, PASSED, "--limit", "outer_entries=1")
    rule = Rule("8", "records of a torch zip; storages of a legacy stream; members of any zip before its kind is known")
    lone = state_dict_zip(POLICY)
    yield rule.accepts("limit-inner-entries-at", lone, expected.lone(expected.POLICY), "--limit", "inner_entries=5")
    yield rule.refuses("limit-inner-entries-above", lone, PASSED, "--limit", "inner_entries=4")
    rule = Rule("8", "the central directory of one zip")
    size = len(ONE.central_record(0)) + len(TWO.central_record(0))
    yield rule.accepts("limit-directory-bytes-at", good, BOTH, "--limit", f"directory_bytes={size}")
    yield rule.refuses("limit-directory-bytes-above", good, PASSED, "--limit", f"directory_bytes={size - 1}")


def sizes() -> Iterator[Vector]:
    made = zipped(members())
    for limit, entry in (("version_bytes", "_stable_baselines3_version"), ("system_info_bytes", "system_info.txt"),
                         ("json_bytes", "data")):  # fmt: skip
        rule = Rule("8", f"`{limit}`")
        size = len(members()[entry])
        found = expected.archive({entry: expected.ENTRIES[entry]})
        name = limit.replace("_", "-")
        yield rule.accepts(f"limit-{name}-at", made, found, "--entry", entry, "--limit", f"{limit}={size}")
        yield rule.refuses(f"limit-{name}-above", made, PASSED, "--entry", entry, "--limit", f"{limit}={size - 1}")


def inflation() -> Iterator[Vector]:
    zeros = bytes((1 << 20) + 1)
    half = bytes(1 << 20)
    bomb = build_zip(ONE, Member(b"note.txt", zeros, DEFLATED))
    found = expected.archive({"data": expected.plain({}), "note.txt": expected.other(zeros)})
    rule = Rule(
        "8",
        "uncompressed size / compressed size, rounded up, if the uncompressed size is above 1 MiB: of one deflated member",
    )
    yield rule.refuses("limit-ratio-bomb", bomb, PASSED)
    yield rule.accepts("limit-ratio-raised", bomb, found, "--limit", "ratio=2000")
    small = build_zip(ONE, Member(b"note.txt", half, DEFLATED))
    inflated = expected.archive({"data": expected.plain({}), "note.txt": expected.other(half)})
    yield rule.accepts("limit-ratio-of-one-mib", small, inflated)
    yield from rounded_ratio()
    rule = Rule("8", "and of all members inflated so far together")
    several = build_zip(ONE, Member(b"a", half, DEFLATED), Member(b"b", half, DEFLATED))
    yield rule.refuses("limit-ratio-together", several, PASSED)

    yield from ratio_of_two(half)

    rule = Rule("8", "one inflation or copy; a stored member that is only viewed is not charged")
    text = bytes(range(256)) * 4
    packed = build_zip(ONE, Member(b"note.txt", text, DEFLATED))
    found = expected.archive({"data": expected.plain({}), "note.txt": expected.other(text)})
    yield rule.accepts("limit-member-bytes-at", packed, found, "--limit", "member_bytes=1024")
    yield rule.refuses("limit-member-bytes-above", packed, PASSED, "--limit", "member_bytes=1023")
    rule = Rule("8", "all inflations and copies of one operation")
    pair = build_zip(ONE, Member(b"a", text, DEFLATED), Member(b"b", text, DEFLATED))
    both = {"data": expected.plain({}), "a": expected.other(text), "b": expected.other(text)}
    yield rule.accepts("limit-total-bytes-at", pair, expected.archive(both), "--limit", "total_bytes=2048")
    yield rule.refuses("limit-total-bytes-above", pair, PASSED, "--limit", "total_bytes=2047")
    rule = Rule(
        "8", "what is inflated and kept, and the memory that JSON and pickles need, beyond twice the file's size"
    )
    yield from memory_of_json(rule)
    yield from memory_of_pickles(rule)
    zeros = bytes(200_000)
    sparse = build_zip(ONE, Member(b"note.txt", zeros, DEFLATED))
    found = expected.archive({"data": expected.plain({}), "note.txt": expected.other(zeros)})
    yield rule.accepts("limit-memory-bytes-enough", sparse, found, "--limit", "memory_bytes=450000")
    yield rule.refuses("limit-memory-bytes-too-few", sparse, PASSED, "--limit", "memory_bytes=150000")
    several = build_zip(ONE, Member(b"a", zeros, DEFLATED), Member(b"b", zeros, DEFLATED))
    yield rule.refuses("limit-memory-bytes-together", several, PASSED, "--limit", "memory_bytes=250000")
    least = len(zeros) - 2 * len(sparse) - 1
    yield rule.refuses("limit-memory-bytes-above", sparse, PASSED, "--limit", f"memory_bytes={least}")
    dense = build_zip(ONE, Member(b"note.txt", bytes(range(256)) * 4, DEFLATED), Member(b"b", text * 300))
    found = expected.archive(
        {"data": expected.plain({}), "note.txt": expected.other(text), "b": expected.other(text * 300)}
    )
    yield rule.accepts("limit-memory-bytes-of-a-large-file", dense, found, "--limit", "memory_bytes=1")
    lying = {"size": 3 << 30}
    member = Member(b"note.txt", b"", DEFLATED, stored=b"\x03\x00", local=lying, central=lying)
    rule = Rule("8", "| `member_bytes` | 2 GiB | 4.2 MB |")
    yield rule.refuses("limit-member-bytes-lie", build_zip(ONE, member), PASSED)


def rounded_ratio() -> Iterator[Vector]:
    """A ratio just above a whole number."""
    rule = Rule("8", "uncompressed size / compressed size, rounded up, if the uncompressed size is above 1 MiB")
    zeros = bytes((1 << 20) + 1)
    member = Member(b"note.txt", zeros, DEFLATED)
    whole, rest = divmod(len(zeros), len(member.content()))
    assert 0 < rest < len(member.content()) // 2
    made = build_zip(ONE, member)
    found = expected.archive({"data": expected.plain({}), "note.txt": expected.other(zeros)})
    yield rule.accepts("limit-ratio-rounded-up-at", made, found, "--limit", f"ratio={whole + 1}")
    yield rule.refuses("limit-ratio-rounded-up-above", made, PASSED, "--limit", f"ratio={whole}")


def at_and_above(rule: Rule, name: str, data: bytes, found: Any, needed: int) -> Iterator[Vector]:
    """A file that needs this much memory beyond twice its size: with exactly that limit, and with one byte less."""
    yield rule.accepts(f"limit-memory-bytes-{name}-at", data, found, "--limit", f"memory_bytes={needed}")
    yield rule.refuses(f"limit-memory-bytes-{name}-above", data, PASSED, "--limit", f"memory_bytes={needed - 1}")


def decoded_values() -> Iterator[Vector]:
    """Ten calls of a known name that is in the memo: 13 nodes of the pickle."""
    rule = Rule("8.1", "pickle_nodes: the larger of 5 x calls and items - bytes of the pickle")
    data = document(pickled(b"](ccollections\nOrderedDict\nq\x00)R" + b"h\x00)R" * 9 + b"e"))
    asked = ("--schedule", "x", "--limit")
    yield rule.accepts("limit-decoded-calls-at", data, {"schedule": None}, *asked, "pickle_nodes=50")
    yield rule.refuses("limit-decoded-calls-above", data, PASSED, *asked, "pickle_nodes=49")


def memory_of_json(rule: Rule) -> Iterator[Vector]:
    for name, value, text, width in (
        ("values", [1, 2, 3], "[1,2,3]", 1),
        ("escapes", "\n\\", '"\\n\\\\"', 1),
        ("wide", "\u0100", '"\u0100"', 2),
        ("not-wide", "\u00ff", '"\u00ff"', 1),
        ("astral", "\U0001f600", '"\U0001f600"', 4),
    ):
        data = f'{{"a":{text},"b":0}}'.encode()
        commas, containers = (3, 2) if name == "values" else (1, 1)
        needed = 2 * (width - 1) * len(data) + 96 * commas + 200 * 2 + 300 * containers + 72 * data.count(b"\\")
        found = expected.bare(expected.plain({"a": value, "b": 0}))
        yield from at_and_above(rule, f"of-json-{name}", data, found, needed)
    blob = b"N" * 300
    text = base64.b64encode(blob).decode()
    data = f'{{"a":{{":serialized:":"{text}"}}}}'.encode()
    found = expected.bare({"dict": [["a", expected.serialized(blob)]]})
    needed = 200 * 2 + 300 * 2 - len(data) + 300 + len(text)
    yield from at_and_above(rule, "of-base64", data, found, needed)


def memory_of_pickles(rule: Rule) -> Iterator[Vector]:
    nones, held = b"N" * 1000, [None] * 1000
    wide = "\u0100" * 128  # 256 bytes
    for name, part, value, long, more in (
        ("values", b"", [], 0, 0),
        ("tuple", b"N\x85", [(None,)], 0, 320),
        ("memo", b"Nq\x07", [None], 0, 160),
        ("short-bytes", b"B\xff\x00\x00\x00" + b"x" * 255, [b"x" * 255], 0, 0),
        ("long-bytes", b"B\x00\x01\x00\x00" + b"x" * 256, [b"x" * 256], 256, 256),
        ("long-text", b"X\x00\x01\x00\x00" + b"x" * 256, ["x" * 256], 256, 256),
        ("wide-text", b"X\x00\x01\x00\x00" + wide.encode(), [wide], 256, 512),
    ):
        pickle = b"\x80\x03](" + nones + part + b"e."
        data = pth(pickle)
        needed = 24 * (len(pickle) - long) + 320 + more - 2 * len(data)
        yield from at_and_above(rule, f"of-a-pickle-{name}", data, expected.lone(expected.plain(held + value)), needed)


def ratio_of_two(zeros: bytes) -> Iterator[Vector]:
    """A ratio just above a whole number, of two members together."""
    rule = Rule("8", "and of all members inflated so far together")
    pair = [Member(name, zeros, DEFLATED) for name in (b"a", b"b")]
    packed = sum(len(member.content()) for member in pair)
    whole = 2 * len(zeros) // packed
    assert whole * packed < 2 * len(zeros) <= whole * (packed + 1)
    found = expected.archive({"data": expected.plain({}), "a": expected.other(zeros), "b": expected.other(zeros)})
    made = build_zip(ONE, *pair)
    yield rule.accepts("limit-ratio-together-at", made, found, "--limit", f"ratio={whole + 1}")
    yield rule.refuses("limit-ratio-together-above", made, PASSED, "--limit", f"ratio={whole}")
