"""The records of a torch zip, its version and its byte order (FORMAT.md 6.1, 6.2)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from conformance.generators import build_zips, expected
from conformance.generators.build_pth import dumps, floats, storage, tensor
from conformance.generators.build_torch_zips import DATA, EIGHT, in_folder, pth, records, zipped
from conformance.generators.vectors import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.generators.vectors import Vector

TREE: Final = {"w": floats((8,))}
HELD: Final = expected.lone({"dict": [["w", expected.floats(*range(8))]]})
"""The expected output for ``TREE``."""
EMPTY: Final = expected.lone({"dict": []})


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from folders()
    yield from pickle_record()
    yield from flags()
    yield from version_records()
    yield from other_records()
    yield from eras()
    yield from folded_names()
    yield from versions()
    yield from byte_orders()


def folders() -> Iterator[Vector]:
    rule = Rule(
        "6.1",
        "All members are in one folder: the folder of the first member of the directory, up to and including its first slash.",
    )
    for name, root in {
        "stem": "ppo_policy",
        "beyond-ascii": "modèle",
        "data-pkl": "data.pkl",
    }.items():
        yield rule.accepts(f"record-folder-{name}", in_folder(records(TREE, DATA), root), HELD)
    nested = zipped([("policy.pth", in_folder(records(TREE, DATA), "runs/archive"))])
    yield rule.refuses("record-folder-in-a-folder", nested, "tensor failure")

    rule = Rule("6.1", "A member in another folder, or outside any folder, is an error.")
    inside = [(f"archive/{name}", data) for name, data in records(TREE, DATA).items()]
    yield rule.refuses("record-in-another-folder", zipped([*inside, ("other/data/1", EIGHT)]), "tensor failure")
    yield rule.refuses(
        "record-in-a-folder-of-another-case", zipped([*inside, ("Archive/data/1", b"")]), "tensor failure"
    )
    yield rule.refuses("record-outside-the-folder", zipped([*inside, ("notes.txt", b"")]), "tensor failure")
    outside = zipped([("policy.pth", zipped([("data.pkl", dumps({})), ("version", b"3\n")]))])
    yield rule.refuses("record-without-a-folder", outside, "tensor failure")
    first = zipped([("policy.pth", zipped([("notes.txt", b""), *inside]))])
    yield rule.refuses("record-first-outside-the-folder", first, "tensor failure")


def pickle_record() -> Iterator[Vector]:
    rule = Rule("6.1", "required, exactly one; one pickle that fills the record; the flags of 5.1 and 5.3 are an error")
    unfinished = in_folder({"version": b"3\n", ".data/serialization_id": b"0" * 40})
    yield rule.refuses("record-data-pkl-missing", unfinished, "tensor failure")
    two = in_folder({**records(TREE, DATA), "Data.pkl": dumps({})})
    yield rule.refuses("record-data-pkl-twice-but-for-case", two, "tensor failure")
    last = {name: data for name, data in records(TREE, DATA).items() if name != "data.pkl"}
    yield rule.accepts("record-data-pkl-last", in_folder({**last, "data.pkl": dumps(TREE)}), HELD)
    for name, pickle in {
        "empty": b"",
        "cut": dumps({})[:-1],
        "with-bytes-behind": dumps({}) + b"\n",
        "with-a-pickle-behind": dumps({}) + dumps({}),
        "broken": b"\x80\x02\xff.",
    }.items():
        yield rule.refuses(f"record-data-pkl-{name}", pth(pickle), "pickle failure")
    for protocol in (3, 4, 5):
        made = pth({"a": 1}, protocol=protocol)
        yield rule.accepts(f"record-data-pkl-protocol-{protocol}", made, expected.lone(expected.plain({"a": 1})))


def flags() -> Iterator[Vector]:
    rule = Rule("6.1", "the flags of 5.1 and 5.3 are an error")
    framed = b"\x80\x04\x95" + struct.pack("<Q", 2) + b"}."
    yield rule.accepts("record-flags-none-in-a-frame", pth(framed), EMPTY)
    yield rule.refuses("record-flags-value-left", pth(b"\x80\x02K\x01}."), "tensor failure")
    yield rule.refuses("record-flags-mark-left", pth(b"\x80\x02(}."), "tensor failure")
    # a set that was made of a list, and the list longer after that: two readers could read two values
    late = b"\x80\x02c__builtin__\nset\n]q\x00K\x01a\x85Rh\x00K\x02a\x86."
    yield rule.refuses("record-flags-changed", pth(late), "tensor failure")


def version_records() -> Iterator[Vector]:
    rule = Rule("6.1", "required; or `.data/version` instead")
    bare = records({}, version=None)
    yield rule.accepts("record-version", in_folder({**bare, "version": b"3\n"}), EMPTY)
    yield rule.accepts("record-version-hidden", in_folder({**bare, ".data/version": b"3\n"}), EMPTY)
    yield rule.refuses("record-version-missing", in_folder(bare), "tensor failure")
    yield rule.refuses("record-version-of-data-only", in_folder({**bare, "data/version": b"3\n"}), "tensor failure")
    yield rule.refuses("record-version-hidden-11", in_folder({**bare, ".data/version": b"11\n"}), "tensor failure")


def other_records() -> Iterator[Vector]:
    rule = Rule("6.1", "means that it is TorchScript: unsupported")
    script = {**records({}), "constants.pkl": dumps(()), "code/__torch__.py": b""}
    yield rule.refuses("record-torchscript", in_folder(script), "unsupported")
    yield rule.accepts("record-constants-of-data", in_folder({**records({}), "data/constants.pkl": b""}), EMPTY)

    rule = Rule("6.1", "`.format_version`, `.storage_alignment`, `.data/serialization_id`, any other")
    inner = in_folder(records({"other": 1}))
    for name, more in {
        "known": {".format_version": b"1", ".storage_alignment": b"64", ".data/serialization_id": b"0" * 40},
        "known-with-other-contents": {
            ".format_version": b"two",
            ".storage_alignment": b"7",
            ".data/serialization_id": b"x",
        },
        "pickle": {"extra/hook.pkl": b"\x80\x02cposix\n_exit\nK\x01\x85R."},
        "zip": {"extra/model.pth": inner},
        "data-pkl-below": {"extra/data.pkl": b"no pickle"},
        "folders": {"": b"", "data/": b"", "data.pkl/": b"", ".data/": b""},
    }.items():
        yield rule.accepts(f"record-other-{name}", in_folder({**records(TREE, DATA), **more}), HELD)

    rule = Rule("6.1", "Storage records that no tensor refers to are ignored.")
    yield rule.accepts("record-storage-unused", pth(TREE, {**DATA, "9": b"unused", "x/y": b""}), HELD)
    nested = pth(TREE, {**DATA, "1": inner})
    yield rule.accepts("record-storage-unused-zip", nested, HELD)


def eras() -> Iterator[Vector]:
    """Each as torch writes it: descriptors, padding to 64 bytes, both zip64 end records."""
    rule = Rule("6.1", "1.6 to 1.8: `data.pkl`, `data/<address>`..., `version`; keys are memory addresses")
    data = {"data/94593051500896": EIGHT}
    tree = {"w": floats((8,), "94593051500896")}
    made = build_zips.torch_zip({"data.pkl": dumps(tree), **data, "version": b"3\n"})
    yield rule.accepts("record-layout-torch-1-6", made, HELD)

    count = 11
    tree = {f"w{key}": tensor(storage(1, str(key)), (1,)) for key in range(count)}
    held = expected.lone({"dict": [[f"w{key}", expected.floats(key)] for key in range(count)]})
    data = {f"data/{key}": struct.pack("<f", int(key)) for key in sorted(map(str, range(count)))}
    rule = Rule("6.1", "keys `0`, `1`, ... by first use; records sorted as text (`0`, `1`, `10`, `2`)")
    made = build_zips.torch_zip({"data.pkl": dumps(tree), **data, "version": b"3\n"}, align=1)
    yield rule.accepts("record-layout-torch-1-9", made, held)

    names = {"data.pkl": dumps(TREE), "byteorder": b"little", "data/0": EIGHT, "version": b"3\n"}
    identity = {".data/serialization_id": b"1234567890" * 4}
    rule = Rule("6.1", "`data.pkl`, `byteorder`, `data/*`, `version`, `.data/serialization_id`")
    yield rule.accepts("record-layout-torch-2-1", build_zips.torch_zip({**names, **identity}), HELD)

    rule = Rule(
        "6.1", "`data.pkl`, `.format_version`, `.storage_alignment`, `byteorder`, `data/*` (by number), `version`,"
    )
    hidden = {"data.pkl": dumps(TREE), ".format_version": b"1", ".storage_alignment": b"64"}
    yield rule.accepts("record-layout-torch-2-7", build_zips.torch_zip({**hidden, **names, **identity}), HELD)


def folded_names() -> Iterator[Vector]:
    rule = Rule("6.1", "Therefore no two records may be equal after case folding")
    for name, keys in {
        "storages": ("a", "A"),
        "storages-beyond-ascii": ("é", "É"),
        "storages-that-grow": ("straße", "STRASSE"),
        "storages-beyond-the-bmp": ("\U00010428", "\U00010400"),
    }.items():
        made = pth({"w": floats((8,), keys[0])}, {keys[0]: EIGHT, keys[1]: EIGHT})
        yield rule.refuses(f"record-folded-{name}", made, "tensor failure")
    unused = in_folder({**records(TREE, DATA), "extra/Notes": b"", "extra/notes": b""})
    yield rule.refuses("record-folded-others", unused, "tensor failure")
    yield rule.accepts("record-folded-accents-differ", pth(TREE, {**DATA, "e": b"", "é": b"", "e\u0301": b""}), HELD)
    upper = {**records({"w": floats((8,), "KEY")}, {"KEY": EIGHT}), "Notes": b""}
    yield rule.accepts("record-folded-alone", in_folder(upper), HELD)

    rule = Rule("6.1", "(`data/<key>` is not such a name)")
    yield rule.accepts("record-folded-data", in_folder({**records(TREE, DATA), "DATA/1": b""}), HELD)
    yield rule.refuses(
        "record-folded-data-of-a-tensor", in_folder({**records(TREE), "DATA/0": EIGHT}), "tensor failure"
    )
    rule = Rule("6.1", "no record may differ from one of the names above only in case")
    shouted = {**records({}, version=None), "VERSION": b"3\n"}
    yield rule.refuses("record-folded-version", in_folder(shouted), "tensor failure")
    for name, made in {
        "data-pkl": {"version": b"3\n", "DATA.PKL": dumps({})},
        "byteorder": {**records({}, byte_order=None), "ByteOrder": b"little"},
        "constants-pkl": {**records({}), "Constants.pkl": dumps(())},
        "version-beside-another": {**records({}, version=None), ".data/version": b"3\n", "VERSION": b"3\n"},
        "data-version": {**records({}), ".DATA/version": b"3\n"},
        "storage-alignment": {**records({}), ".Storage_alignment": b"64"},
        "serialization-id": {**records({}), ".data/Serialization_id": b"0" * 40},
        "format-version": {**records({}), ".Format_version": b"1"},
    }.items():
        yield rule.refuses(f"record-folded-{name}", in_folder(made), "tensor failure")


def versions() -> Iterator[Vector]:
    rule = Rule("6.2", "`version` is one or two ASCII digits with a value of 1 to 10")
    accepted = {"1": b"1", "3": b"3", "10": b"10\n", "03": b"03\n"}
    for name, version in accepted.items():
        yield rule.accepts(f"record-version-{name}", pth({}, version=version), EMPTY)
    for name, version in {
        "empty": b"",
        "lf": b"\n",
        "0": b"0\n",
        "11": b"11\n",
        "003": b"003",
        "not-utf-8": b"3\xff",
        "superscript": "³".encode(),
        "arabic-digit": "٣".encode(),
    }.items():
        yield rule.refuses(f"record-version-{name}", pth({}, version=version), "tensor failure")
    rule = Rule("6.2", "with or without one final LF")
    for name, version in {"two-lf": b"3\n\n", "cr-lf": b"3\r\n", "space": b"3 ", "lf-before": b"\n3"}.items():
        yield rule.refuses(f"record-version-{name}", pth({}, version=version), "tensor failure")


def byte_orders() -> Iterator[Vector]:
    rule = Rule("6.2", "`byteorder` is exactly `little` or `big`")
    yield rule.accepts("record-byteorder-little", pth(TREE, DATA), HELD)
    big = struct.pack(">8f", *range(8))
    yield rule.accepts("record-byteorder-big-without-storages", pth({}, byte_order=b"big"), EMPTY)
    yield rule.accepts("record-byteorder-big-unused", pth({}, {"0": big}, byte_order=b"big"), EMPTY)
    yield rule.accepts("record-byteorder-big", pth(TREE, {"0": big}, byte_order=b"big"), HELD, features=("big-endian",))
    for name, order in {
        "empty": b"",
        "capital": b"Little",
        "lf": b"little\n",
        "middle": b"middle",
    }.items():
        yield rule.refuses(f"record-byteorder-{name}", pth({}, byte_order=order), "tensor failure")
    rule = Rule("6.2", "Without it (torch < 2.1) the bytes are little-endian")
    yield rule.accepts("record-byteorder-missing", pth(TREE, DATA, byte_order=None), HELD)
