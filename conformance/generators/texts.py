"""The two text entries (FORMAT.md 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.generators import expected
from conformance.generators.build_zips import Member, build_zip
from conformance.generators.vectors import Rule, Vector

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION = "_stable_baselines3_version"
SYSTEM = "system_info.txt"
SPACES = "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
"""The white space of section 4."""


def archive(entry: str, text: bytes) -> bytes:
    """An archive that has this entry and an empty ``data``."""
    return build_zip(Member(b"data", b"{}"), Member(entry.encode("ascii"), text))


def expected_output(entry: str, value: object) -> dict[str, object]:
    """The expected output for it."""
    return expected.archive({"data": expected.plain({}), entry: value})


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from versions()
    yield from no_versions()
    yield from fields()
    yield from bullets()
    yield from other_lines()
    yield from line_ends()
    yield from no_text()
    yield from limits()


def versions() -> Iterator[Vector]:
    rule = Rule("4.1", "Pre-releases are common (`2.4.0a11`)")
    yield rule.accepts(
        "version-pre-release", archive(VERSION, b"2.4.0a11"), expected_output(VERSION, {"version": "2.4.0a11"})
    )

    rule = Rule("4.1", "it MUST be printable ASCII, and MAY be empty")
    for name, text, version in (
        ("newline", b"2.3.2\n", "2.3.2"),
        ("white-space", b" \t\r\n2.3.2 \t\r\n", "2.3.2"),
        ("separators", b"\x1c\x1d2.3.2\x1e\x1f", "2.3.2"),
        ("each-space", SPACES.encode() + b"2.3.2" + SPACES.encode(), "2.3.2"),
        ("empty", b"", ""),
        ("white-space-only", b" \n", ""),
        ("any-printable", b"~ my fork, 2nd try! ~", "~ my fork, 2nd try! ~"),
    ):
        yield rule.accepts(f"version-{name}", archive(VERSION, text), expected_output(VERSION, {"version": version}))


def no_versions() -> Iterator[Vector]:
    rule = Rule("4.1", "it MUST be printable ASCII")
    for name, text in {
        "two-lines": b"2.3\n2.4",
        "tab-within": b"2\t3",
        "zero-byte": b"2.3.2\0",
        "escape": b"\x1b[31m2.3",
        "del": b"2.3\x7f",
        "superscript": "2.3.\u00b2".encode(),
        "bidi": "2.3\u202e".encode(),
        "byte-order-mark": "\ufeff2.3".encode(),
        "mongolian-vowel-separator": "\u180e2.3".encode(),
        "zero-width-space": "2.3\u200b".encode(),
    }.items():
        yield rule.refuses(f"version-{name}", archive(VERSION, text), "data failure")
    rule = Rule("4.1", "`_stable_baselines3_version` is UTF-8")
    for name, text in {"latin-1": b"2.3\xe9"}.items():
        yield rule.refuses(f"version-{name}", archive(VERSION, text), "data failure")


def accepts_fields(rule: Rule, name: str, text: bytes, *pairs: tuple[str, str]) -> Vector:
    """System info and its expected fields."""
    value = {"system_info": [list(pair) for pair in pairs]}
    return rule.accepts(f"system_info-{name}", archive(SYSTEM, text), expected_output(SYSTEM, value))


def fields() -> Iterator[Vector]:
    rule = Rule("4.2", "splits the line at the first `: ` (values may contain another)")
    yield accepts_fields(
        rule, "colons-in-value", b"OS: #1: 2024: x\nTime: 12:30\n", ("OS", "#1: 2024: x"), ("Time", "12:30")
    )
    yield accepts_fields(rule, "colon-in-key", b"a:b: c\n", ("a:b", "c"))
    rule = Rule("4.2", "strips both sides")
    yield accepts_fields(rule, "white-space", b"\tOS  :  Linux \t\n", ("OS", "Linux"))
    yield accepts_fields(rule, "unit-separators", b"\x1fOS\x1f: \x1fLinux\x1f\n", ("OS", "Linux"))
    yield accepts_fields(rule, "empty-value", b"GPU: \nOS: x\n", ("GPU", ""), ("OS", "x"))
    rule = Rule("4.2", "Of two equal keys, the first is used.")
    yield accepts_fields(rule, "key-twice", b"OS: a\nGPU: b\n- OS: c\n", ("OS", "a"), ("GPU", "b"))
    yield accepts_fields(rule, "key-twice-once-stripped", b"OS : a\nOS: b\n", ("OS", "a"))
    rule = Rule("4.2", "`system_info.txt` is UTF-8, with one `Key: value` per line.")
    yield accepts_fields(
        rule, "beyond-ascii", "Gr\u00f6\u00dfe: \u221e \U0001f600\n".encode(), ("Gr\u00f6\u00dfe", "\u221e \U0001f600")
    )
    yield accepts_fields(
        rule, "order-of-keys", b"b: 1\n1: 2\na: 3\n0: 4\n", ("b", "1"), ("1", "2"), ("a", "3"), ("0", "4")
    )
    yield accepts_fields(rule, "proto-key", b"__proto__: 1\nconstructor: 2\n", ("__proto__", "1"), ("constructor", "2"))


def bullets() -> Iterator[Vector]:
    rule = Rule("4.2", "A reader removes a `- ` at the start of the line (SB3 >= 1.7 writes one)")
    yield accepts_fields(rule, "bullets", b"- OS: Linux\n- Python: 3.11.2\n", ("OS", "Linux"), ("Python", "3.11.2"))
    yield accepts_fields(rule, "no-bullets", b"OS: Linux\nPython: 3.7\n", ("OS", "Linux"), ("Python", "3.7"))
    yield accepts_fields(rule, "two-bullets", b"- - OS: Linux\n", ("- OS", "Linux"))
    yield accepts_fields(rule, "bullet-without-space", b"-OS: Linux\n", ("-OS", "Linux"))


def other_lines() -> Iterator[Vector]:
    rule = Rule("4.2", "Lines of another form are not an error")
    text = b"some text\n\nkey:value\nkey:\n- \n-\nOS: Linux\n\x00\x1b[31m\n  \n"
    yield accepts_fields(rule, "other-lines", text, ("OS", "Linux"))
    yield accepts_fields(rule, "empty", b"")
    yield accepts_fields(rule, "control-characters", b"OS: a\x00\x1bb\x08c\n", ("OS", "a\x00\x1bb\x08c"))


def line_ends() -> Iterator[Vector]:
    rule = Rule("4.2", "Lines end at LF, CR, CR LF, and at the other line ends of Python's `str.splitlines`")
    for name, end in {
        "lf": "\n",
        "cr": "\r",
        "cr-lf": "\r\n",
    }.items():
        yield accepts_fields(
            rule, f"line-ends-at-{name}", f"OS: a{end}Python: b{end}".encode(), ("OS", "a"), ("Python", "b")
        )
    rule = Rule("4.2", "(VT, FF, U+001C to U+001E, U+0085, U+2028, U+2029)")
    ends = "\v\f\x1c\x1d\x1e\x85\u2028\u2029"
    text = "".join([f"{number}: a{end}" for number, end in enumerate(ends)])
    yield accepts_fields(
        rule, "line-ends-of-python", text.encode(), *[(str(number), "a") for number in range(len(ends))]
    )
    within = "a\x1fb\tc\x08d\u00a0e"
    yield accepts_fields(
        rule, "line-does-not-end", f"OS: {within}\nPython: b".encode(), ("OS", within), ("Python", "b")
    )


def no_text() -> Iterator[Vector]:
    rule = Rule("4.2", "`system_info.txt` is UTF-8")
    for name, text in {"latin-1": b"OS: caf\xe9\n", "surrogate": b"OS: \xed\xa0\x80\n"}.items():
        yield rule.refuses(f"system_info-{name}", archive(SYSTEM, text), "data failure")


def limits() -> Iterator[Vector]:
    rule = Rule("8", "| `version_bytes` | 4 KiB | 6 | `_stable_baselines3_version`;")
    long = b"2" * 4096
    yield rule.accepts(
        "version-bytes-4096", archive(VERSION, long), expected_output(VERSION, {"version": long.decode()})
    )
    yield rule.refuses("version-bytes-4097", archive(VERSION, long + b"2"), "limit exceeded")
    rule = Rule("8", "| `system_info_bytes` | 1 MiB | 300 | `system_info.txt` |")
    made, value = archive(SYSTEM, b"OS: Linux\n"), {"system_info": [["OS", "Linux"]]}
    yield rule.accepts(
        "system_info-bytes-at-limit", made, expected_output(SYSTEM, value), "--limit", "system_info_bytes=10"
    )
    yield rule.refuses("system_info-bytes-above-limit", made, "limit exceeded", "--limit", "system_info_bytes=9")
