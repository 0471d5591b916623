"""Zips built field by field, so that each field can be forged; a torch zip and an SB3 archive built from them.

A malformed input is made from a good one by one named change: ``Member(b"data", central={"crc": 0})`` is a
member whose directory record has a wrong CRC and no other fault. Nothing here needs torch, and
nothing here uses the code under test.
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

STORED: Final = 0
DEFLATED: Final = 8
DESCRIPTOR_FLAG: Final = 0x8
UTF8_FLAG: Final = 0x800
UNIX: Final = 3 << 8
MAX16: Final = 0xFFFF
MAX32: Final = 0xFFFFFFFF

Forged = dict[str, Any]
Layout = tuple[tuple[str, str], ...]

_LOCAL: Final[Layout] = (
    ("signature", "4s"), ("version", "H"), ("flags", "H"), ("method", "H"), ("time", "H"), ("date", "H"), ("crc", "I"),
    ("compressed", "I"), ("size", "I"), ("name_size", "H"), ("extra_size", "H"),
)  # fmt: skip
_CENTRAL: Final[Layout] = (
    ("signature", "4s"), ("made_by", "H"), ("version", "H"), ("flags", "H"), ("method", "H"), ("time", "H"),
    ("date", "H"), ("crc", "I"), ("compressed", "I"), ("size", "I"), ("name_size", "H"), ("extra_size", "H"),
    ("comment_size", "H"), ("disk", "H"), ("internal", "H"), ("attributes", "I"), ("offset", "I"),
)  # fmt: skip
_END: Final[Layout] = (
    ("signature", "4s"), ("disk", "H"), ("start_disk", "H"), ("count_here", "H"), ("count", "H"), ("length", "I"),
    ("start", "I"), ("comment_size", "H"),
)  # fmt: skip
_ZIP64_END: Final[Layout] = (
    ("signature", "4s"), ("record_size", "Q"), ("made_by", "H"), ("version", "H"), ("disk", "I"), ("start_disk", "I"),
    ("count_here", "Q"), ("count", "Q"), ("length", "Q"), ("start", "Q"),
)  # fmt: skip
_LOCATOR: Final[Layout] = (("signature", "4s"), ("disk", "I"), ("record_at", "Q"), ("disks", "I"))


def _pack(layout: Layout, values: Mapping[str, Any], forged: Mapping[str, Any]) -> bytes:
    unknown = set(forged) - {name for name, _ in layout}
    assert not unknown, f"no such field: {unknown}"
    merged = {**values, **forged}
    return b"".join(struct.pack("<" + code, merged[name]) for name, code in layout)


def deflate(data: bytes) -> bytes:
    """A raw deflate stream."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def extra_field(kind: int, value: bytes) -> bytes:
    """One extra field."""
    return struct.pack("<2H", kind, len(value)) + value


def zip64_field(*values: int) -> bytes:
    """The zip64 extra field; in a local header: size, then compressed size."""
    return extra_field(1, struct.pack(f"<{len(values)}Q", *values))


@dataclass
class Member:
    """A member of a zip. ``local`` and ``central`` forge fields of its two headers by name."""

    name: bytes
    data: bytes = b""
    method: int = STORED
    flags: int = 0
    stored: bytes | None = None
    """Its bytes in the zip; computed from ``data`` if None."""
    local_name: bytes | None = None
    extra: bytes = b""
    central_extra: bytes = b""
    comment: bytes = b""
    descriptor: str | bytes = ""
    """``32`` or ``64``: bit 3, zeros in the local header, and a descriptor of that kind; or the descriptor's bytes."""
    behind: bytes = b""
    """Bytes between the member and what follows it."""
    local: Forged = field(default_factory=dict)
    central: Forged = field(default_factory=dict)

    def content(self) -> bytes:
        """Its bytes in the zip."""
        if self.stored is not None:
            return self.stored
        return deflate(self.data) if self.method == DEFLATED else self.data

    def _facts(self) -> Forged:
        return {
            "version": 20,
            "flags": self.flags | (DESCRIPTOR_FLAG if self.descriptor else 0),
            "method": self.method,
            "time": 0,
            "date": 0x21,
            "crc": zlib.crc32(self.data),
            "compressed": len(self.content()),
            "size": len(self.data),
            "name_size": len(self.name),
        }

    def local_header(self) -> bytes:
        """The local header with name and extra fields."""
        name = self.name if self.local_name is None else self.local_name
        facts = {"signature": b"PK\x03\x04", **self._facts(), "name_size": len(name), "extra_size": len(self.extra)}
        if self.descriptor:
            facts.update(crc=0, compressed=0, size=0)
        return _pack(_LOCAL, facts, self.local) + name + self.extra

    def trailer(self) -> bytes:
        """The data descriptor and the bytes after it."""
        if isinstance(self.descriptor, bytes):
            return self.descriptor + self.behind
        layout = {"": "", "32": "<4s3I", "64": "<4sI2Q"}[self.descriptor]
        facts = self._facts()
        values = (b"PK\x07\x08", facts["crc"], facts["compressed"], facts["size"])
        return (struct.pack(layout, *values) if layout else b"") + self.behind

    def central_record(self, offset: int) -> bytes:
        """The record of the central directory."""
        facts = {
            "signature": b"PK\x01\x02",
            "made_by": UNIX | 20,
            **self._facts(),
            "extra_size": len(self.central_extra),
            "comment_size": len(self.comment),
            "disk": 0,
            "internal": 0,
            "attributes": 0o600 << 16,
            "offset": offset,
        }
        return _pack(_CENTRAL, facts, self.central) + self.name + self.central_extra + self.comment


def build_zip(
    *members: Member,
    prefix: bytes = b"",
    order: Sequence[int] | None = None,
    behind_directory: bytes = b"",
    zip64: bool = False,
    comment: bytes = b"",
    tail: bytes = b"",
    directory: bytes | None = None,
    end: Forged | None = None,
    zip64_end: Forged | None = None,
    locator: Forged | None = None,
) -> bytes:
    """A zip of members.

    :param prefix: bytes before the first local header; offsets count them
    :param order: of the directory's records; that of the members if None
    :param behind_directory: bytes between the directory and the end records
    :param zip64: write the zip64 end records, with equal values in the plain one, as torch does
    :param comment: of the zip
    :param tail: bytes after the end of the zip
    :param directory: replaces the directory built from the members
    :param end: fields of the end record to forge; zip64_end, locator: of the others
    """
    body = bytearray(prefix)
    offsets = []
    for member in members:
        offsets.append(len(body))
        body += member.local_header() + member.content() + member.trailer()
    start = len(body)
    if directory is None:
        wanted = range(len(members)) if order is None else order
        directory = b"".join(members[index].central_record(offsets[index]) for index in wanted)
    body += directory + behind_directory
    count = len(members) if order is None else len(order)
    counts = {"disk": 0, "start_disk": 0, "count_here": count, "count": count, "length": len(directory), "start": start}
    if zip64:
        at = len(body)
        record = {"signature": b"PK\x06\x06", "record_size": 44, "made_by": UNIX | 45, "version": 45, **counts}
        body += _pack(_ZIP64_END, record, zip64_end or {})
        place = {"signature": b"PK\x06\x07", "disk": 0, "record_at": at, "disks": 1}
        body += _pack(_LOCATOR, place, locator or {})
    facts = {"signature": b"PK\x05\x06", **counts, "comment_size": len(comment)}
    return bytes(body) + _pack(_END, facts, end or {}) + comment + tail


def changed(data: bytes, old: bytes, new: bytes) -> bytes:
    """Replace the only occurrence of ``old``."""
    assert data.count(old) == 1, f"{old!r} stands {data.count(old)} times"
    return data.replace(old, new)


# -- the torch zip ------------------------------------------------------------------------------------


def text(value: str) -> bytes:
    """BINUNICODE."""
    raw = value.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(raw)) + raw


def state_dict_pickle(tensors: Mapping[str, Sequence[float]]) -> bytes:
    """The ``data.pkl`` of an OrderedDict of float32 vectors; storages are numbered in order."""
    ordered_dict = b"ccollections\nOrderedDict\n)R"
    items = b""
    for key, (name, values) in enumerate(tensors.items()):
        size = b"K" + bytes([len(values)])
        storage = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text(str(key)) + text("cpu") + size + b"tQ"
        geometry = b"K\x00" + size + b"\x85" + b"K\x01\x85" + b"\x89"
        items += text(name) + b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + geometry + ordered_dict + b"tR"
    metadata = b"}" + text("_metadata") + ordered_dict + b"sb"
    return b"\x80\x02" + ordered_dict + b"(" + items + b"u" + metadata + b"."


def torch_zip(records: Mapping[str, bytes], *, root: str = "archive", align: int = 64) -> bytes:
    """A zip as torch writes it: descriptors, zeros in local headers, padding, both zip64 end records."""
    members = []
    at = 0
    for record, data in records.items():
        name = f"{root}/{record}".encode()
        room = at + 30 + len(name) + 4
        padding = extra_field(0x4246, b"Z" * (-room % align))
        member = Member(
            name, data, flags=UTF8_FLAG, extra=padding, descriptor="32" if data else "",
            local={"version": 0, "date": 0},
            central={"made_by": 0, "version": 0, "date": 0, "attributes": 0},
        )  # fmt: skip
        members.append(member)
        at += len(member.local_header()) + len(data) + len(member.trailer())
    return build_zip(*members, zip64=True)


def state_dict_zip(tensors: Mapping[str, Sequence[float]], *, align: int = 64) -> bytes:
    """A ``.pth`` of float32 vectors."""
    records = {"data.pkl": state_dict_pickle(tensors), "byteorder": b"little"}
    records |= {f"data/{key}": struct.pack(f"<{len(v)}f", *v) for key, v in enumerate(tensors.values())}
    return torch_zip({**records, "version": b"3\n"}, align=align)


# -- the archive --------------------------------------------------------------------------------------

SEVEN: Final = base64.b64encode(b"\x80\x04K\x07.").decode("ascii")
DATA: Final = {
    "policy_class": {":type:": "<class 'abc.ABCMeta'>", ":serialized:": SEVEN},
    "verbose": 1,
    "gamma": 0.5,
    "seed": None,
}  # fmt: skip
SYSTEM_INFO: Final = b"- OS: Linux\n- Python: 3.11.2\n"
POLICY: Final = {"w": (1.0, -2.5), "b": (0.5,)}


def sb3_archive(*, align: int = 64, entries: Mapping[str, bytes] | None = None) -> bytes:
    """A small archive as SB3 writes it; ``entries`` replaces or adds some."""
    made = {
        "data": json.dumps(DATA).encode(),
        "policy.pth": state_dict_zip(POLICY, align=align),
        "_stable_baselines3_version": b"2.3.2",
        "system_info.txt": SYSTEM_INFO,
        **(entries or {}),
    }
    return build_zip(*[Member(name.encode(), data) for name, data in made.items()])


# -- what people see ----------------------------------------------------------------------------------

BIDI: Final = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def is_terminal_safe(shown: str) -> bool:
    """Say whether a message is short, on one line, and without escape sequences and bidirectional controls."""
    return len(shown.encode("utf-8")) <= 2048 and shown.isprintable() and not set(shown) & set(BIDI)
