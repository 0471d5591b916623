"""Hostile files of up to 2 MB under ``scan``: a verdict within what a hostile file may cost, and never an error.

Each is scanned in a process of its own (RULES.md, "Budget for hostile input"). Twice the budget is asserted; a smaller
file has its share of the time.
"""

from __future__ import annotations

import base64
import json
import os
import struct
import subprocess
import sys
import tarfile
from typing import TYPE_CHECKING, Any, Final

import pytest

from conformance.generators import build_zips
from conformance.generators.build_pth import text, whole
from tests.helpers.attacks import (
    LINEAR,
    NONE,
    PAYLOAD,
    call,
    code,
    function,
    get,
    in_blob,
    items,
    listed,
    name,
    new,
    number,
    octets,
    pickle,
    put,
    value,
)  # fmt: skip
from tests.helpers.build_blobs import CLOUD, CONSTANT, FAST
from tests.helpers.count_work import PATIENCE, stay_within
from tests.helpers.pth_checks import BASE_BYTES, ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

pytestmark = pytest.mark.exhaustive

MOST_BYTES: Final = 2_000_000
SECONDS: Final = 4.0
"""Twice what 2 MB may take of one processor."""
LEAST_SECONDS: Final = 2.0
"""What any file may take, however small."""
CHILD: Final = """
import json, sys
import sbformat
from tests.children.read_hostile_pth import ask, files
rows = []
for data in files():
    found = []
    row = ask("scan", lambda: found.append(sbformat.scan(data)))
    report = found[0]
    rows.append({"seconds": row[3], "grown": row[4], "verdict": report.verdict, "findings": len(report.findings)})
sys.stdout.write(json.dumps(rows))
"""


def weigh(*files: bytes, environment: dict[str, str] | None = None) -> list[dict[str, Any]]:
    """What scanning files, in a process of their own, gave and cost."""
    environment = {**(os.environ if environment is None else environment), "PYTHONPATH": ROOT}
    sent = b"".join(struct.pack("<Q", len(data)) + data for data in files)
    command = [sys.executable, "-c", CHILD]
    try:
        done = subprocess.run(command, input=sent, capture_output=True, timeout=PATIENCE, check=False, env=environment)
    except subprocess.TimeoutExpired:
        pytest.fail(f"no answer within {PATIENCE} s")
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    assert len(rows) == len(files)
    return rows


# -- what hostile files are made of -------------------------------------------------------------------

SLOW: Final = pickle(b"N0" * 490_000 + NONE)
"""A million opcodes, which deflate to a thousandth."""


def archive(data: str, *more: build_zips.Member) -> bytes:
    """An archive of ``data`` and other entries."""
    return build_zips.build_zip(build_zips.Member(b"data", data.encode()), *more)


def blob(content: bytes | str) -> bytes:
    """An archive with one blob: a pickle, or base64 text."""
    encoded = content if isinstance(content, str) else base64.b64encode(content).decode("ascii")
    return archive(json.dumps({"x": {":type:": "x", ":serialized:": encoded}}))


def blobs(content: bytes, count: int) -> bytes:
    """An archive with many small blobs."""
    encoded = base64.b64encode(content).decode("ascii")
    return archive("{" + ",".join(f'"{key:x}":{{":serialized:":"{encoded}"}}' for key in range(count)) + "}")


def many(parts: Iterable[bytes], head: bytes = b"") -> bytes:
    """A pickle of a list of values, which never lie on the stack all at once."""
    rows = list(parts)
    runs = [b"(" + b"".join(rows[at : at + 30_000]) + b"e" for at in range(0, len(rows), 30_000)]
    return pickle(head + b"]" + b"".join(runs))


def popped(parts: Iterable[bytes], head: bytes = b"") -> bytes:
    """A pickle of None: every other value is dropped."""
    return pickle(head + b"".join(part + b"0" for part in parts) + NONE)


def nested(content: bytes, depth: int) -> bytes:
    """A pickle of the bytes of a pickle of the bytes of ..."""
    for _ in range(depth):
        content = pickle(octets(content))
    return content


def deflated(content: bytes) -> bytes:
    """A member that no directory lists."""
    return build_zips.Member(b"a", content, build_zips.DEFLATED).local_header() + build_zips.deflate(content)


def tar(content: bytes, count: int) -> bytes:
    """A tar of one small file many times."""
    info = tarfile.TarInfo("a")
    info.size = len(content)
    return (info.tobuf() + content + bytes(-len(content) % tarfile.BLOCKSIZE)) * count


CODE_TYPE: Final = call(name(CLOUD, "_builtin_type"), text("CodeType"))
ORDERED: Final = name("collections", "OrderedDict")
CALLS: Final = name("a", "b") + put(0) + b"0"
A_CALL: Final = get(0) + b")R"
OTHER_ALPHABET: Final = "-_=AAAA=AA"
"""Behind base64: three kinds of decoders make three things of it."""

FILES: Final[dict[str, Callable[[], bytes]]] = {
    "keys with a blob each": lambda: blobs(pickle(name("a", "b") + b")R", 2), 15_000),
    "blobs that lie deeper": lambda: archive('{"a":[' + ",".join(['{":serialized:":"Ti4="}'] * 25_000) + "]}"),
    "bytes that nearly parse": lambda: blob(many([octets(pickle(name("a", "b") + b")R")[:-1])] * 40_000)),
    "pickles in pickles": lambda: blob(nested(pickle(b"N0" * 700_000 + b"\xff"), 7)),
    "base64 of another alphabet": lambda: blob(
        base64.b64encode(popped([A_CALL] * 100_000, CALLS)).decode("ascii").rstrip("=") + OTHER_ALPHABET
    ),
    "base64 of padding": lambda: blob("=" * 1_990_000),
    "names that are called": lambda: blob(many([name("a", f"{n:x}") + b")R" for n in range(100_000)])),
    "names that are called and dropped": lambda: blob(popped([name("a", f"{n:x}") + b")R" for n in range(20_000)])),
    "known calls that are dropped": lambda: blob(popped([A_CALL] * 80_000, ORDERED + put(0) + b"0")),
    "setters of one function": lambda: blob(
        popped([get(9) + get(1000) + b"}}\x86\x86R"] * 20_000, function() + b"0" + name(FAST, "_function_setstate")
               + put(9) + b"0")
    ),
    "digests of one code object": lambda: blob(
        many([get(0) + get(1) + b"R"] * 15_000, CODE_TYPE + put(0) + b"0" + value(LINEAR) + put(1) + b"0")
    ),
    "constants that double": lambda: blob(
        pickle(call(CODE_TYPE, *map(value, CONSTANT[:7]), b"N\x85" + b"2\x86" * 30, *map(value, CONSTANT[8:])))
    ),
    "entries that inflate": lambda: archive(
        "{}", *[build_zips.Member(b"%d" % n, SLOW, build_zips.DEFLATED) for n in range(25)]
    ),
    "entries that inflate within the ratio": lambda: archive(
        "{}", *[build_zips.Member(b"%d" % n, SLOW + os.urandom(6_000), build_zips.DEFLATED) for n in range(20)]
    ),
    "lone members that inflate": lambda: deflated(SLOW) * 40,
    "broken zips in a zip": lambda: deflated(deflated(SLOW) * 20) * 2,
    "broken zips in a pickle": lambda: pickle(listed(*[octets(deflated(SLOW) * 10)] * 2)),
    "a tar of pickles": lambda: tar(pickle(b"N0" * 250 + NONE), 900),
    "braces": lambda: b'{"a":' * 330_000,
    "text that has no end": lambda: b'{"a": serialized:":"' + b"a" * 1_900_000,
    "headers": lambda: b"PK\x03\x04" * 450_000,
}  # fmt: skip


@pytest.mark.parametrize("what", FILES)
def test_a_verdict_within_the_budget(what: str) -> None:
    data = FILES[what]()
    assert len(data) <= MOST_BYTES
    allowed = max(LEAST_SECONDS, SECONDS * len(data) / MOST_BYTES)
    (row,) = stay_within(
        lambda environment: weigh(data, environment=environment), lambda rows: rows[0]["seconds"], allowed
    )
    assert row["grown"] <= 2 * (3 * len(data) + BASE_BYTES), row


# -- values that break what is careless ---------------------------------------------------------------

LONG: Final = 10**5000
"""More digits than Python spells."""
DISCRETE: Final = name("gymnasium.spaces.discrete", "Discrete")
SKELETON: Final = name(CLOUD, "_make_skeleton_class")
ODD: Final[dict[str, bytes]] = {
    "a line number": function((*CONSTANT[:12], LONG, *CONSTANT[13:])),
    "a constant": function((*CONSTANT[:7], (LONG,), *CONSTANT[8:])),
    "a cell": function(cells=(call(name(CLOUD, "_make_cell"), whole(LONG)),)),
    "a class without a skeleton": call(name(CLOUD, "_rehydrate_skeleton_class"), call(SKELETON), b"}"),
    "a length": call(name("collections", "deque"), b")", whole(LONG)),
    "a number of values": new(DISCRETE) + items(whole(LONG)) + b"b",
    "a code object alone": code(CONSTANT),
    "what holds itself": b"]q\xf0h\xf0a",
    "what is no number": listed(number(float("nan")), whole(-LONG)),
    "half a character": text("\ud800\u202e\x1b"),
}


def test_no_value_is_too_odd_for_a_verdict() -> None:
    odd = [blob(pickle(content)) for content in ODD.values()]
    rows = stay_within(
        lambda environment: weigh(*odd, environment=environment),
        lambda rows: max(row["seconds"] for row in rows),
        LEAST_SECONDS,
    )
    assert len(rows) == len(ODD)


def test_the_scales_are_not_blind() -> None:
    harmless, harmful = weigh(in_blob(pickle(NONE)), in_blob(PAYLOAD))
    assert (harmless["verdict"], harmful["verdict"]) == ("clean", "dangerous")
    assert harmful["seconds"] > 0
    (heavy,) = weigh(blob(many([b"}"] * 50_000)))
    assert heavy["grown"] > harmful["grown"] or not os.path.exists("/proc/self/clear_refs")
