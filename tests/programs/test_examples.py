"""The vectors and the page of examples are what their programs write; its bytes are those of the vector."""

from __future__ import annotations

import re
import subprocess
import sys

from conformance import generate
from conformance.runner.vectors import decode_file, read_vector
from tests.helpers.bundled import ROOT

PAGE = (ROOT / "schema" / "EXAMPLES.md").read_text("utf-8")
ARCHIVE = decode_file(read_vector("example-archive"))


def test_the_page_is_up_to_date() -> None:
    program = ROOT / "schema" / "generate_examples.py"
    assert subprocess.run([sys.executable, str(program), "--check"], check=False, cwd=ROOT).returncode == 0


def test_the_bytes_are_those_of_the_vector() -> None:
    block = re.findall(r"^```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[0]
    rows = re.findall(r"^([0-9a-f]{4})  ((?:[0-9a-f]{2} )*[0-9a-f]{2})", block, re.MULTILINE)
    assert len(rows) > 80
    for offset, shown in rows:
        raw = bytes.fromhex(shown)
        assert ARCHIVE[int(offset, 16) :].startswith(raw), offset
    assert "PK" in block
    assert rows[0][0] == "0000"
    assert int(rows[-1][0], 16) + len(bytes.fromhex(rows[-1][1])) == len(ARCHIVE)


def test_the_generators_write_exactly_these_vectors() -> None:
    assert list(generate.list_differences(generate.existing_lines(), generate.generate_lines())) == []


def test_differences_are_listed_by_name() -> None:
    existing = {"1": {"same": b"1", "changed": b"2", "gone": b"3"}, "2": {"a": b"4", "b": b"5"}}
    wanted = {"1": {"same": b"1", "changed": b"6", "added": b"7"}, "2": {"b": b"5", "a": b"4"}}
    assert list(generate.list_differences(existing, wanted)) == [
        "new: added", "differs: changed", "removed: gone", "another order: section 2",
    ]  # fmt: skip
