"""Generate EXAMPLES.md: a small archive byte by byte, and a pickle with its tree.

The archive is the vector ``example-archive`` of ``conformance/``. The bytes, offsets and numbers are read from it, so
that the page cannot differ from what the decoders return::

    python schema/generate_examples.py          writes schema/EXAMPLES.md
    python schema/generate_examples.py --check  compares it
"""

from __future__ import annotations

import argparse
import base64
import json
import pickletools
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

from conformance.runner.vectors import decode_file, read_vector  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE: Final = ROOT / "schema" / "EXAMPLES.md"
WIDTH: Final = 8
"""Bytes in a line."""
SHOWN: Final = 16
"""Bytes of a longer field that are shown at its beginning."""

Layout = tuple[tuple[str, str], ...]
Row = tuple[int, bytes, str]
"""Offset, bytes, meaning."""

LOCAL: Final[Layout] = (
    ("4s", "local header: signature (2.4)"), ("H", "version needed: {}"), ("H", "flags: {:#06x}"), ("H", "method: {}"),
    ("2H", "time and date"), ("I", "CRC: {:08x}"), ("I", "compressed size: {}"), ("I", "size: {}"),
    ("H", "length of the name: {}"), ("H", "length of the extra fields: {}"),
)  # fmt: skip
CENTRAL: Final[Layout] = (
    ("4s", "record of the directory: signature (2.3)"), ("H", "made by: {:#06x}"), ("H", "version needed: {}"),
    ("H", "flags: {:#06x}"), ("H", "method: {}"), ("2H", "time and date"), ("I", "CRC: {:08x}"),
    ("I", "compressed size: {}"), ("I", "size: {}"), ("H", "length of the name: {}"),
    ("H", "length of the extra fields: {}"), ("H", "length of the comment: {}"), ("H", "disk: {}"),
    ("H", "internal attributes: {}"), ("I", "external attributes: {:#010x}"), ("I", "offset of the local header: {}"),
)  # fmt: skip
ZIP64_END: Final[Layout] = (
    ("4s", "zip64 end record: signature (2.2)"), ("Q", "size of the rest: {}"), ("H", "made by: {:#06x}"),
    ("H", "version needed: {}"), ("I", "disk: {}"), ("I", "disk of the directory: {}"), ("Q", "entries here: {}"),
    ("Q", "entries: {}"), ("Q", "length of the directory: {}"), ("Q", "offset of the directory: {}"),
)  # fmt: skip
LOCATOR: Final[Layout] = (
    ("4s", "locator: signature (2.2)"), ("I", "disk: {}"), ("Q", "offset of the zip64 end record: {}"),
    ("I", "disks: {}"),
)  # fmt: skip
END: Final[Layout] = (
    ("4s", "end record: signature (2.1)"), ("H", "disk: {}"), ("H", "disk of the directory: {}"),
    ("H", "entries here: {}"), ("H", "entries: {}"), ("I", "length of the directory: {}"),
    ("I", "offset of the directory: {}"), ("H", "length of the comment: {}"),
)  # fmt: skip
DESCRIPTOR: Final[Layout] = (
    ("4s", "data descriptor: signature (2.4)"), ("I", "CRC: {:08x}"), ("I", "compressed size: {}"), ("I", "size: {}"),
)  # fmt: skip

CONTENT: Final = {
    "data": "JSON (3)",
    "policy.pth": "a torch zip (6), see below",
    "_stable_baselines3_version": "the version (4.1)",
    "archive/data.pkl": "the pickle of the state dict, see below",
    "archive/byteorder": "the byte order (6.2)",
    "archive/data/0": "storage 0: float32 1.0 and -2.5 (6.3)",
    "archive/version": "the version of the torch zip (6.2)",
}


class Zip:
    """A zip without compression, as rows of its fields."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.rows: list[Row] = []
        self.members: dict[str, bytes] = {}

    def read_fields(self, layout: Layout) -> list[int]:
        """Add a row for each field; return the numbers."""
        found = []
        for code, meaning in layout:
            size = struct.calcsize("<" + code)
            values = struct.unpack_from("<" + code, self.data, self.at)
            self.add(size, meaning.format(values[0]))
            found.append(values[0])
        return found

    def add(self, size: int, meaning: str) -> bytes:
        """Add a row for the next bytes; return them."""
        raw = self.data[self.at : self.at + size]
        self.rows.append((self.at, raw, meaning))
        self.at += size
        return raw

    def read(self) -> Zip:
        """Read all of it."""
        sizes = self.list_sizes()
        while self.data[self.at : self.at + 4] == b"PK\x03\x04":
            fields = self.read_fields(LOCAL)
            name = self.add(fields[-2], "name").decode()
            if fields[-1]:
                self.add(fields[-1], "extra field 0x4246: padding, so that the record starts at a multiple of 64")
            self.members[name] = self.add(sizes[name], CONTENT[name])
            if fields[2] & 8:
                self.read_fields(DESCRIPTOR)
        while (signature := self.data[self.at : self.at + 4]) in (b"PK\x01\x02", b"PK\x06\x06", b"PK\x06\x07"):
            layout = {b"PK\x01\x02": CENTRAL, b"PK\x06\x06": ZIP64_END, b"PK\x06\x07": LOCATOR}[signature]
            fields = self.read_fields(layout)
            if layout is CENTRAL:
                self.add(fields[9], "name")
        self.read_fields(END)
        return self

    def list_sizes(self) -> dict[str, int]:
        """Return the sizes of the members, from the directory."""
        start = struct.unpack_from("<I", self.data, len(self.data) - 6)[0]
        found = {}
        while self.data[start : start + 4] == b"PK\x01\x02":
            size, name_size = struct.unpack_from("<I", self.data, start + 24)[0], self.data[start + 28]
            found[self.data[start + 46 : start + 46 + name_size].decode()] = size
            start += 46 + name_size
        return found


def format_rows(rows: list[Row]) -> Iterator[str]:
    """Yield a line for each row, several for long fields."""
    for offset, raw, meaning in rows:
        shown = raw if len(raw) <= SHOWN + WIDTH else raw[:SHOWN]
        for at in range(0, len(shown), WIDTH):
            part = shown[at : at + WIDTH]
            text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
            yield f"{offset + at:04x}  {part.hex(' '):23}  {text:8}  {'' if at else meaning}".rstrip()
        if len(shown) < len(raw):
            yield f"      ... {len(raw) - len(shown)} more bytes"


def format_pickle(pickle: bytes) -> Iterator[str]:
    """Yield a line for each opcode: offset, bytes, name, argument; nothing is executed."""
    found = [*pickletools.genops(pickle)]
    ends = [position for _, _, position in found[1:]] + [len(pickle)]
    for (opcode, argument, position), end in zip(found, ends, strict=True):
        raw = pickle[position or 0 : end]
        shown = raw.hex(" ") if len(raw) <= WIDTH else f"{raw[: WIDTH - 1].hex(' ')} .."
        value = "" if argument is None else json.dumps(argument) if isinstance(argument, str) else str(argument)
        yield f"{position:04x}  {shown:23}  {opcode.name:16}  {value}".rstrip()


def format_tree(printed: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a tree that a decoder printed with ``--blob``."""
    yield f"protocol {printed['protocol']}"
    yield f"value    {json.dumps(printed['value'])}"
    yield f"log      {json.dumps(printed['log'])}"
    for number, node in enumerate(printed["nodes"]):
        yield f"node {number}   {json.dumps(node)}"


def fence(lines: Iterator[str]) -> str:
    """Return lines as a block of text."""
    return "```text\n" + "\n".join(lines) + "\n```\n"


def wrap_json(text: str) -> Iterator[str]:
    """Yield a JSON text in short lines, one for each 100 characters."""
    for at in range(0, len(text), 100):
        yield text[at : at + 100]


def make_page() -> str:
    """Return the text of the page."""
    outer = Zip(decode_file(read_vector("example-archive"))).read()
    inner = Zip(outer.members["policy.pth"]).read()
    blob = base64.b64decode(json.loads(outer.members["data"])["train_freq"][":serialized:"])
    tree = read_vector("example-train-freq")["expect"]
    start = next(offset for offset, _, meaning in outer.rows if meaning == CONTENT["policy.pth"])
    return f"""# Examples

Not normative. The archive is the vector [`example-archive`](../conformance/vectors/1.jsonl), with two keys of `data`
and one tensor; `expect` of the vector is what a decoder prints for it. Numbers in parentheses are sections of the
[specification](FORMAT.md). This page is written by `schema/generate_examples.py`.

## An archive, byte by byte

Offset, bytes, the same as ASCII, meaning. Of long fields, only the beginning is shown.

{fence(format_rows(outer.rows))}
`data` is this JSON text, broken into lines here:

{fence(wrap_json(outer.members["data"].decode()))}
## The torch zip in it

`policy.pth` starts at offset {start:#06x} of the archive. The offsets here count from there, as those in the file do.
Sizes and CRC of a record are zero in its local header and follow in a data descriptor, because torch writes the header
first.

{fence(format_rows(inner.rows))}
## The pickle of the state dict

`archive/data.pkl`. A decoder executes these opcodes on a stack of inert values (5.1): `GLOBAL` and `REDUCE` push nodes,
and nothing is imported or called. BINPERSID makes the tuple below it a reference to storage 0 (6.3);
`torch._utils._rebuild_tensor_v2` is a tensor with storage, offset 0, shape (2,), strides (1,) (6.4, 6.5).

{fence(format_pickle(inner.members["archive/data.pkl"]))}
## A pickle with its tree

The value of `train_freq` in `data`: `TrainFreq(1, TrainFrequencyUnit("step"))`, in {len(blob)} bytes.

{fence(format_pickle(blob))}
Its tree (5.2), as `--blob train_freq` of a decoder prints it. Node 0 is the value: a call of node 1, a name, with the
arguments in node 4. The log (5.3) lists names and calls in the order in which a pickle loader would import and call
them.

{fence(format_tree(tree))}"""


def main() -> int:
    """Write the page; with ``--check``, return 1 if it differs."""
    parser = argparse.ArgumentParser(description="Generate schema/EXAMPLES.md from the vector example-archive.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the page differs")
    page = make_page()
    if parser.parse_args().check:
        return int(PAGE.read_text("utf-8") != page)
    PAGE.write_text(page, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
