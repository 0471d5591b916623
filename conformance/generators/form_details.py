"""Details of how files are identified that no other family shows: found with mutants of a decoder (FORMAT.md 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from conformance.generators import expected
from conformance.generators.build_torch_zips import pth
from conformance.generators.build_zips import POLICY, Member, build_zip, state_dict_pickle, state_dict_zip
from conformance.generators.forms import zipped
from conformance.generators.vectors import Rule, Vector

if TYPE_CHECKING:
    from collections.abc import Iterator

REFUSED: Final = "container failure"
MAGIC: Final = bytes.fromhex("8a0a6cfc9c46f9206aa850192e")
EMPTY: Final = expected.plain({})


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from files()
    yield from zips()


def files() -> Iterator[Vector]:
    rule = Rule("1.1", "A reader identifies a file by its first 512 bytes.")
    yield rule.accepts("form-bare-data-at-byte-511", b" " * 511 + b"{}", expected.bare(EMPTY))
    yield rule.refuses("form-bare-data-at-byte-512", b" " * 512 + b"{}", REFUSED)
    yield from arrays()
    rule = Rule("1.1", "`\\x80` and a byte of at most 5 (or the end of the file)")
    yield rule.refuses("file-pickle-protocol-5", b"\x80\x05K\x01.", "unsupported")
    yield rule.refuses("file-pickle-protocol-6", b"\x80\x06K\x01.", REFUSED)
    rule = Rule("1.1", "are entirely within the first 32 bytes.")
    yield rule.refuses("file-legacy-magic-at-byte-20", b"\x80\x02" + b"N0" * 9 + MAGIC, "unsupported")
    rule = Rule("1.1", "`{`, or a UTF-8 byte order mark and `{`: a bare `data`.")
    yield rule.refuses("form-byte-order-mark-and-a-space", b"\xef\xbb\xbf {}", REFUSED)


def arrays() -> Iterator[Vector]:
    """What distinguishes a ``.safetensors`` file from one of unknown bytes."""
    rule = Rule("1.1", "A `.safetensors` file: eight bytes that are the length of a header (2 or more, little-endian)")
    for name, size, start, outcome in (
        ("length-1", 1, b'{"', REFUSED),
        ("of-9-bytes", 2, b"{", REFUSED),
        ("length-beyond-the-file", 3, b'{"', REFUSED),
        ("space-before-the-brace", 8, b' {"a": 1', REFUSED),
    ):
        yield rule.refuses(f"file-safetensors-{name}", size.to_bytes(8, "little") + start, outcome)
    rule = Rule("1.1", 'then `{`, then a `"` within the next 7 bytes.')
    for name, space, outcome in (
        ("at-once", b"", "unsupported"),
        ("after-lf", b"\n", "unsupported"),
        ("after-6-spaces", b" " * 6, "unsupported"),
        ("after-7-spaces", b" " * 7, REFUSED),
    ):
        header = b"{" + space + b'"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}'
        made = len(header).to_bytes(8, "little") + header
        yield rule.refuses(f"file-safetensors-quote-{name}", made, outcome)


def zips() -> Iterator[Vector]:
    rule = Rule("1.1", "`parameters` and `parameter_list`: Stable Baselines 2.")
    for name in ("parameters", "parameter_list"):
        found = expected.archive({"data": EMPTY, name: expected.other(b"x")})
        yield rule.accepts(f"form-zip-with-{name.replace('_', '-')}-alone", zipped({"data": b"{}", name: b"x"}), found)
    rule = Rule("1.1", "or the name of a state dict (1.2): an SB3 archive.")
    made = zipped({"policy.pth": state_dict_zip(POLICY), "note": b"x"})
    found = expected.archive({"policy.pth": expected.POLICY, "note": expected.other(b"x")})
    yield rule.accepts("form-zip-of-a-pth-and-a-note", made, found)
    yield rule.refuses("form-zip-of-a-pth-without-a-name", zipped({".pth": state_dict_zip(POLICY)}), "unsupported")
    rule = Rule("1.1", "in the folder of the first member, in any case: a torch zip")
    for name in ("data.pkl", "version", "Data.pkl", "VERSION", ".data/version", ".Data/version"):
        word = name.replace(".", "").replace("/", "-")
        label = word if word.islower() else f"{word.lower()}-of-another-case"
        made = build_zip(Member(b"archive/notes", b"x"), Member(f"archive/{name}".encode(), b"3\n"))
        yield rule.refuses(f"form-torch-zip-of-{label}", made, "tensor failure", features=("torch-zip",))
    made = build_zip(Member(b"archive/notes", b"x"), Member(b"other/version", b"3\n"))
    yield rule.refuses("form-zip-of-a-version-in-another-folder", made, "unsupported")
    made = build_zip(Member(b"data.pkl", state_dict_pickle({})), Member(b"version", b"3\n"))
    yield rule.refuses("form-torch-zip-without-a-folder", made, "unsupported")
    rule = Rule("8", "members of any zip before its kind is known")
    made = zipped({"data": b"{}", "note": b"x"})
    yield rule.refuses("limit-inner-entries-of-an-archive", made, "limit exceeded", "--limit", "inner_entries=1")
    rule = Rule("8", "`inner_entries`: records of a torch zip;")
    made = zipped({"policy.pth": state_dict_zip(POLICY)})
    held = expected.archive({"policy.pth": expected.POLICY})
    yield rule.accepts("limit-inner-entries-within-at", made, held, "--limit", "inner_entries=5")
    yield rule.refuses("limit-inner-entries-within-above", made, "limit exceeded", "--limit", "inner_entries=4")
    rule = Rule("8", "| `version_bytes` |")
    made = state_dict_zip(POLICY)
    held = expected.lone(expected.POLICY)
    yield rule.accepts("limit-version-bytes-byteorder-at", made, held, "--limit", "version_bytes=6")
    yield rule.refuses("limit-version-bytes-byteorder-above", made, "limit exceeded", "--limit", "version_bytes=5")
    made = pth({}, byte_order=None)
    yield rule.accepts("limit-version-bytes-version-at", made, expected.lone(EMPTY), "--limit", "version_bytes=2")
    yield rule.refuses("limit-version-bytes-version-above", made, "limit exceeded", "--limit", "version_bytes=1")
