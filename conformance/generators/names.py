"""Names of members, and the path rules (FORMAT.md 2.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from conformance.generators import expected
from conformance.generators.build_zips import (
    DEFLATED,
    POLICY,
    UTF8_FLAG,
    Member,
    build_zip,
    state_dict_pickle,
    torch_zip,
)
from conformance.generators.ends import ONE, REFUSED
from conformance.generators.vectors import Rule, Vector

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE: Final = 0o100644 << 16
FOLDER: Final = 0o040755 << 16


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from spelling()
    yield from kinds()
    yield from paths()
    yield from collisions()
    yield from records()


def named(*names: bytes, **fields: Any) -> bytes:
    """An archive with members of these names."""
    return build_zip(ONE, *[Member(name, b"" if name.endswith(b"/") else b"x", **fields) for name in names])


def expected_names(*names: str) -> dict[str, Any]:
    """The expected output for ``named``."""
    rest = {name: expected.other(b"" if name.endswith("/") else b"x") for name in names}
    return expected.archive({"data": expected.plain({}), **rest})


def spelling() -> Iterator[Vector]:
    rule = Rule("2.6", "1 to 1,024 bytes of UTF-8, whatever flag 0x800 is; unique, compared byte for byte;")
    for name, spelled in {"one-byte": "x", "longest": "x" * 1024, "beyond-ascii": "gr\u00f6\u00dfe.txt"}.items():
        yield rule.accepts(f"name-{name}", named(spelled.encode()), expected_names(spelled))
    yield rule.accepts("name-utf8-flag", named("\u00e9".encode(), flags=UTF8_FLAG), expected_names("\u00e9"))
    for name, spelled in {
        "empty": b"", "too-long": b"x" * 1025, "latin-1": b"caf\xe9", "cut-utf8": b"a\xc3", "overlong": b"\xc0\xaf",
        "surrogate": b"\xed\xa0\x80",
    }.items():  # fmt: skip
        yield rule.refuses(f"name-{name}", named(spelled), REFUSED)
    yield rule.refuses("name-twice", named(b"a", b"a"), REFUSED)
    yield rule.refuses("name-data-twice", build_zip(ONE, Member(b"data", b"[]")), REFUSED)

    rule = Rule(
        "2.6",
        "free of control characters (category Cc: C0, DEL, C1), of the line separators U+2028 and U+2029 and of bidirectional controls",
    )
    for spelled in ("\u200b", "\u00ad", "\ufeff", "\U0001f600"):
        yield rule.accepts(
            f"name-with-{ord(spelled):04x}", named(f"a{spelled}b".encode()), expected_names(f"a{spelled}b")
        )
    for spelled in "\0\n\r\x1b\x7f\x80\x9b\u2028\u2029\u061c\u200e\u200f\u202a\u202e\u2066\u2069":
        yield rule.refuses(f"name-with-{ord(spelled):04x}", named(f"a{spelled}b".encode()), REFUSED)
    terminal = b"\x1b]0;title\x07"
    yield rule.refuses("name-terminal-command", named(terminal), REFUSED)


def kinds() -> Iterator[Vector]:
    rule = Rule(
        "2.6",
        "MUST be 0 (Python writes 0o600 without a type), or 8 for a file, 4 for a folder: links and devices are refused.",
    )
    for name, attributes in {"none": 0, "file": FILE, "setuid": 0o104755 << 16}.items():
        yield rule.accepts(f"kind-{name}", named(b"x", central={"attributes": attributes}), expected_names("x"))
    yield rule.accepts("kind-folder", named(b"x/", central={"attributes": FOLDER | 0x10}), expected_names("x/"))
    for name, kind in {"link": 0o12, "character-device": 0o02, "block-device": 0o06, "pipe": 0o01, "socket": 0o14,
                       "unknown": 0o17}.items():  # fmt: skip
        yield rule.refuses(f"kind-{name}", named(b"x", central={"attributes": kind << 28}), REFUSED)
    yield rule.refuses("kind-folder-without-slash", named(b"x", central={"attributes": FOLDER}), REFUSED)
    yield rule.refuses("kind-file-with-slash", named(b"x/", central={"attributes": FILE}), REFUSED)

    rule = Rule("2.6", "Bit 4 (folder in DOS) MUST NOT be set for a file.")
    yield rule.accepts("kind-dos-archive-bit", named(b"x", central={"attributes": 0x20}), expected_names("x"))
    for system in (0, 3):
        fields = {"made_by": system << 8, "attributes": 0x10}
        yield rule.refuses(f"kind-dos-folder-system-{system}", named(b"x", central=fields), REFUSED)
    rule = Rule("2.6", "a folder has compressed and uncompressed size 0")
    yield rule.accepts("folder-empty", named(b"x/"), expected_names("x/"))
    yield rule.refuses("folder-with-content", build_zip(ONE, Member(b"x/", b"x")), REFUSED)
    yield rule.refuses("folder-deflated", build_zip(ONE, Member(b"x/", b"", DEFLATED)), REFUSED)


def paths() -> Iterator[Vector]:
    rule = Rule("2.6", "no backslash, no colon, no leading slash;")
    for name, spelled in {"nested": "a/b/c", "hidden": ".cache/x", "spaces": "a b/ c"}.items():
        yield rule.accepts(f"path-{name}", named(spelled.encode()), expected_names(spelled))
    for name, spelled in {"backslash": "a\\b", "drive": "C:x", "stream": "a:b", "absolute": "/etc/passwd"}.items():
        yield rule.refuses(f"path-{name}", named(spelled.encode()), REFUSED)
    rule = Rule(
        "2.6",
        "no part, between slashes, that is empty, `.` or `..`, or that ends with a dot or a space (ignoring one trailing slash);",
    )
    yield rule.accepts("path-dots-within", named(b"a..b/..c/.d"), expected_names("a..b/..c/.d"))
    for name, spelled in {
        "empty-part": "a//b", "two-slashes-behind": "a//", "dot": "a/./b", "dots": "../up", "dots-part": "a/../b",
        "dots-behind": "a/..", "dot-behind": "a.", "dot-behind-folder": "a./b", "space-behind": "a ", "slash": "/",
    }.items():  # fmt: skip
        yield rule.refuses(f"path-{name}", named(spelled.encode()), REFUSED)
    rule = Rule(
        "2.6",
        "no part that is a Windows device name in any case, optionally followed by white space and by an extension",
    )
    for spelled in ("console", "com", "com10", "lpt", "nul1", "aconin$"):
        yield rule.accepts(
            f"path-no-device-{spelled.replace('$', '-dollar')}", named(spelled.encode()), expected_names(spelled)
        )
    for name, spelled in {
        "con": "con", "nul-in-capitals": "NUL", "with-extension": "aux.txt", "with-space": "prn .txt", "com1": "com1",
        "lpt0": "lpt0", "superscript": "com\u00b9", "conin": "CONIN$", "in-a-folder": "a/nul/b", "two-extensions": "con.a.b",
    }.items():  # fmt: skip
        yield rule.refuses(f"path-device-{name}", named(spelled.encode()), REFUSED)
    rule = Rule("2.6", "A name satisfies them both unchanged and after NFKC:")
    yield rule.accepts("path-compatibility-letter", named("\ufb01le".encode()), expected_names("\ufb01le"))
    for name, spelled in {
        "two-dot-leader": "a/\u2025/b", "full-width-slash": "a\uff0f\uff0fb", "full-width-colon": "C\uff1ax",
        "full-width-backslash": "a\uff3cb", "ideographic-space": "a\u3000", "full-width-device": "\uff4e\uff55\uff4c",
    }.items():  # fmt: skip
        yield rule.refuses(f"path-{name}", named(spelled.encode()), REFUSED)
    rule = Rule("1.1", "Its names MUST then also satisfy the path rules of 2.6.")
    made = build_zip(Member(b"model/pi_fc0/w:0.npy", b"x"), Member(b"data", b"{}"))
    yield rule.accepts("path-sb3-archive", named(b"runs/log.txt"), expected_names("runs/log.txt"))
    yield rule.refuses("path-colon-of-sb2-in-sb3", made, REFUSED)


def collisions() -> Iterator[Vector]:
    rule = Rule(
        "2.6", "unique after NFKC, case folding and NFKC again; no file whose folded name is a folder of another name."
    )
    yield rule.accepts("names-apart", named(b"a", b"b/a", b"b/c"), expected_names("a", "b/a", "b/c"))
    yield rule.accepts("names-folder-and-its-file", named(b"a/", b"a/b"), expected_names("a/", "a/b"))
    for name, pair in {
        "case": ("Policy", "policy"), "of-data": ("DATA",), "composed": ("\u00e9", "e\u0301"), "sharp-s": ("\u00df", "ss"),
        "ligature": ("\ufb01", "fi"), "full-width": ("\uff41", "a"), "file-and-folder": ("a", "a/b"),
        "folder-and-file": ("A/b", "a"), "compatible-capital": ("\u2102", "c"), "folded-apart": ("\u0390", "\u03aa\u0301"), "file-and-folder-entry": ("a", "A/"), "kelvin": ("\u212a", "k"),
    }.items():  # fmt: skip
        yield rule.refuses(f"names-collide-{name}", named(*[one.encode() for one in pair]), REFUSED)


def records() -> Iterator[Vector]:
    rule = Rule(
        "2.6",
        "The records of a torch zip are only looked up by name, and their folder has the name of the file that was saved",
    )
    contents = {"data.pkl": state_dict_pickle({}), "version": b"3\n"}
    nothing = expected.lone(expected.state_dict({}))
    for name, record in {"colon": "a:b", "device": "nul", "trailing-dot": "x.", "hidden": ".x", "folder": "x/"}.items():
        data = b"" if record.endswith("/") else b"x"
        yield rule.accepts(f"record-name-{name}", torch_zip({**contents, record: data}), nothing)
    yield rule.accepts("record-name-of-a-time", _in_folder("run 12:30.", contents), nothing)
    rule = Rule(
        "2.6", "As paths they MUST stay in their folder. Both unchanged and after NFKC, a name does not start with"
    )
    yield rule.accepts("record-name-three-dots", torch_zip({**contents, ".../x...": b"x"}), nothing)
    for name, record in {
        "dots": "../x", "dots-within": "data/../../x", "dots-last": "data/..", "dot": "./x", "empty-part": "data//x",
        "backslash": "data\\0", "dots-by-nfkc": "\u2025/x", "slash-by-nfkc": "data/..\uff0fx",
    }.items():  # fmt: skip
        yield rule.refuses(f"record-name-{name}", torch_zip({**contents, record: b"x"}), REFUSED)
    for name, folder in {"dots": "..", "dot": ".", "empty": "", "drive": "C:", "backslash": "a\\b"}.items():
        yield rule.refuses(f"record-folder-name-{name}", _in_folder(folder, contents), REFUSED)
    within = build_zip(Member(b"policy.pth", torch_zip({**contents, "../x": b"x"})))
    yield rule.refuses("record-name-dots-in-an-archive", within, REFUSED)
    rule = Rule("2.6", "Every name, in both layers, MUST be:")
    yield rule.accepts("record-name-beyond-ascii", torch_zip({**contents, "\u00e9": b"x"}), nothing)
    for name, record in {"control": "a\x1bb", "bidi": "a\u202eb", "too-long": "x" * 1020}.items():
        yield rule.refuses(f"record-name-{name}", torch_zip({**contents, record: b"x"}), REFUSED)
    twice = build_zip(*[Member(b"archive/" + name.encode(), data) for name, data in contents.items()],
                      Member(b"archive/data.pkl", state_dict_pickle(POLICY)))  # fmt: skip
    yield rule.refuses("record-name-twice", twice, REFUSED)


def _in_folder(folder: str, records: dict[str, bytes]) -> bytes:
    return build_zip(*[Member(f"{folder}/{name}".encode(), data) for name, data in records.items()])
