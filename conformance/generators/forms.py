"""Files that are archives, files that are not, and their entries (FORMAT.md 1)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from conformance.generators import build_zips, expected
from conformance.generators.build_zips import Member, build_zip, sb3_archive, state_dict_zip
from conformance.generators.vectors import Rule, Vector

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SB3 = [(name.encode(), data) for name, data in (("data", b'{"a": 1}'), ("note", b"hi"))]
SMALL = expected.archive({"data": expected.plain({"a": 1}), "note": expected.other(b"hi")})
"""The expected output for ``small()``."""


def small(*more: tuple[bytes, bytes]) -> bytes:
    """An archive of two entries and additional ones."""
    return build_zip(*[Member(name, data) for name, data in (*SB3, *more)])


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from forms()
    yield from other_files()
    yield from other_zips()
    yield from entries()


def forms() -> Iterator[Vector]:
    rule = Rule("1.1", "A reader SHOULD read the forms in which archives are found:")
    yield rule.accepts("form-zip", sb3_archive(), expected.ARCHIVE)
    yield rule.accepts("form-lone-pth", state_dict_zip(build_zips.POLICY), expected.lone(expected.POLICY))
    yield rule.accepts("form-bare-data", b'{"a": 1}', expected.bare(expected.plain({"a": 1})))
    yield rule.accepts("form-bare-data-behind-white-space", b' \t\r\n{"a": 1}', expected.bare(expected.plain({"a": 1})))
    yield rule.refuses("form-bare-data-byte-order-mark", b'\xef\xbb\xbf{"a": 1}', "data failure")


def other_files() -> Iterator[Vector]:
    rule = Rule("1.3", "an empty file, HTML, other text, unknown bytes")
    for name, data in {
        "empty": b"",
        "html": b"<!DOCTYPE html><html></html>",
        "html-behind-spaces": b"  \n<HTML lang='en'>",
        "text": b"Not found\n",
        "unknown-bytes": bytes(range(1, 64)),
        "empty-zip": build_zips.build_zip(),
    }.items():
        yield rule.refuses(f"file-{name}", data, "container failure")
    lfs = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 1\n"
    yield Rule("1.3", "Git LFS pointer").refuses("file-git-lfs", lfs, "unsupported")
    yield from tars()
    header = b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    arrays = len(header).to_bytes(8, "little") + header + bytes(4)
    yield Rule("1.3", "`.safetensors`: unsupported").refuses("file-safetensors", arrays, "unsupported")
    rule = Rule("1.3", "`.npz`, bare pickle")
    for name, data in {"protocol-4": b"\x80\x04K\x01.", "protocol-0": b"\x80\x00I1\n.", "one-byte": b"\x80"}.items():
        yield rule.refuses(f"file-pickle-{name}", data, "unsupported")


def tars() -> Iterator[Vector]:
    """The first block of a tar, as torch < 0.1.10 wrote state dicts."""
    block = b"sys".ljust(257, b"\0") + b"ustar\x0000".ljust(255, b"\0")
    rule = Rule("1.3", "A tar is identified by the bytes `ustar` at offset 257 of an entry")
    yield rule.refuses("entry-tar", build_zip(Member(b"policy.pth", block)), "unsupported")
    other = block.replace(b"ustar", b"ustas")
    rule = Rule("1.3", 'Any other entry that begins with neither is a "tensor failure".')
    yield rule.refuses("entry-no-tar", build_zip(Member(b"policy.pth", other)), "tensor failure")
    yield Rule("1.3", "A tar that is not in an archive is unknown bytes.").refuses(
        "file-tar", block, "container failure"
    )


def other_zips() -> Iterator[Vector]:
    for name, sentence, members in (
        ("sb2", "Stable Baselines 2 zip", (b"data", b"parameter_list", b"parameters")),
        ("npz", "`.npz`, bare pickle", (b"a.npy", b"b.npy")),
        ("data-in-a-folder", "a zip with `folder/data` in it", (b"agent/", b"agent/data", b"agent/policy.pth")),
        ("nothing-known", "any other zip", (b"README.md", b"model.safetensors")),
        ("pth-in-a-folder-only", "any other zip", (b"checkpoints/policy.pth",)),
    ):
        made = build_zip(*[Member(member, b"" if member.endswith(b"/") else b"{}") for member in members])
        yield Rule("1.3", sentence).refuses(f"zip-{name}", made, "unsupported")


def members(**replaced: bytes) -> dict[str, bytes]:
    """The entries of an archive as SB3 writes it, some of them replaced; ``policy_pth`` means ``policy.pth``."""
    made = {
        "data": json.dumps(build_zips.DATA).encode(),
        "policy.pth": state_dict_zip(build_zips.POLICY),
        "_stable_baselines3_version": b"2.3.2",
        "system_info.txt": build_zips.SYSTEM_INFO,
    }
    return made | {name: replaced[key] for name in made if (key := name.replace(".", "_")) in replaced}


def zipped(contents: Mapping[str, bytes]) -> bytes:
    """A zip of these entries."""
    return build_zip(*[Member(name.encode(), data) for name, data in contents.items()])


def short(name: str) -> str:
    """An entry's name in the form that it has in a vector's name."""
    return name.strip("_").replace(".", "-").replace("_", "-")


def entries() -> Iterator[Vector]:
    rule = Rule("1.2", "The order of entries has no meaning: a reader MUST accept any order.")
    names = ["system_info.txt", "policy.pth", "_stable_baselines3_version", "data"]
    made = zipped({name: members()[name] for name in names})
    yield rule.accepts("entries-in-any-order", made, expected.archive({name: expected.ENTRIES[name] for name in names}))

    rule = Rule("1.2", 'No entry is required in order to read the others. A request for an absent entry is "missing".')
    for name in names:
        rest = [other for other in expected.ENTRIES if other != name]
        made = zipped({other: members()[other] for other in rest})
        if name != "data":
            found = expected.archive({other: expected.ENTRIES[other] for other in rest})
            yield rule.accepts(f"entries-without-{short(name)}", made, found)
        yield rule.refuses(f"entry-{short(name)}-missing", made, "missing", "--entry", name)
    lone = zipped({"data": b"{}"})
    yield rule.accepts("entries-data-alone", lone, expected.archive({"data": expected.plain({})}))

    rule = Rule("1.2", "If both variables entries are present, `pytorch_variables.pth` is used.")
    both = {"pytorch_variables.pth": state_dict_zip({"a": (1.0,)}), "tensors.pth": state_dict_zip({"b": (2.0,)})}
    found = {
        "pytorch_variables.pth": expected.state_dict({"a": (1.0,)}),
        "tensors.pth": expected.state_dict({"b": (2.0,)}),
    }
    yield rule.accepts("entries-both-variables", zipped(both), expected.archive(found))

    rule = Rule("1.2", "ends with `.pth` and has at least one character before it")
    for name, raw in {"broken": b"no torch file", "of-torch": state_dict_zip({"a": (1.0,)})}.items():
        found = expected.archive({"data": expected.plain({}), ".pth": expected.other(raw)})
        yield rule.accepts(f"entry-pth-without-a-name-{name}", zipped({"data": b"{}", ".pth": raw}), found)
    found = expected.archive({"data": expected.plain({}), "x.pth": expected.state_dict({"a": (1.0,)})})
    yield rule.accepts("entry-pth-of-one-character", zipped({"data": b"{}", "x.pth": raw}), found)

    rule = Rule("1.2", "Every other entry MUST be preserved unchanged and otherwise ignored, as SB3 does.")
    for name, data in {
        "text": ("notes.txt", b"hello"),
        "pth-in-a-folder": ("__MACOSX/._policy.pth", b"\x00\x05\x16\x07 no torch file"),
        "zip": ("other.zip", small()),
        "pickle": ("stats.pkl", b"\x80\x04K\x01."),
        "beyond-ascii": ("gr\u00fc\u00dfe.txt", b""),
    }.items():
        made = zipped({**members(), data[0]: data[1]})
        found = expected.archive({**expected.ENTRIES, data[0]: expected.other(data[1])})
        yield rule.accepts(f"entry-other-{name}", made, found)
    folder = build_zip(Member(b"data", b"{}"), Member(b"runs/"), Member(b"runs/1/log.txt", b"x"))
    found = expected.archive(
        {"data": expected.plain({}), "runs/": expected.other(b""), "runs/1/log.txt": expected.other(b"x")}
    )
    yield rule.accepts("entry-other-folder", folder, found)

    rule = Rule("1.2", "A bad entry affects only itself: a reader MUST still return the others.")
    for broken, bad in {"data": b"{", "policy.pth": b"no torch file", "_stable_baselines3_version": b"\xff"}.items():
        made = zipped(members(**{broken.replace(".", "_"): bad}))
        outcome = "tensor failure" if broken == "policy.pth" else "data failure"
        yield rule.refuses(f"entry-{short(broken)}-broken", made, outcome)
        kept = "system_info.txt" if broken == "data" else "data"
        found = expected.archive({kept: expected.ENTRIES[kept]})
        yield rule.accepts(f"entry-beside-broken-{short(broken)}", made, found, "--entry", kept)
