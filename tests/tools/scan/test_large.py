"""A pickle larger than memory, a replay buffer, is judged in place (SCANNING.md 14.2, REPLAY-BUFFERS.md 18.1)."""

from __future__ import annotations

import hashlib
import random
from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

import sbformat
from conformance.generators.build_pth import torch_zip
from sbformat import pkl
from sbformat.io.opening import LARGE_FILE_BYTES
from sbformat.io.source import BytesSource, FileSource
from sbformat.pkl import attempt
from sbformat.pkl.tree import Unread
from sbformat.tools.scan.files import FileScanner
from tests.helpers.attacks import PAYLOAD
from tests.helpers.build_replay_buffers import buffer
from tests.helpers.bundled import PPO
from tests.helpers.sampling import with_exhaustive

if TYPE_CHECKING:
    from pathlib import Path

LARGE: Final = 2 << 20
"""A file of more bytes is judged in place here; the package's constant is 16 times as much, and so are its pieces."""
ROWS: Final = LARGE // 64
TIGHT: Final = sbformat.Limits(pickle_bytes=1 << 17, member_bytes=1 << 22, total_bytes=1 << 17)
"""A file of some 2 MiB is to these what one of 5 GiB is to the default."""


@pytest.fixture(autouse=True)
def _large(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("sbformat.io.opening", "sbformat.tools.scan", "sbformat.tools.scan.folders"):
        monkeypatch.setattr(f"{module}.LARGE_FILE_BYTES", LARGE)
    for module in ("sbformat.tools.scan", "sbformat.tools.scan"):
        monkeypatch.setattr(f"{module}.PIECE_BYTES", LARGE // 4)


def large(start: bytes = b"", **options: object) -> bytes:
    """A buffer whose observations begin with other bytes than numbers."""
    items = start + bytes(ROWS * 64 - len(start))
    observations = np.frombuffer(items, np.uint8).reshape(ROWS, 1, 64)
    small = {"next_observations": None, "optimize_memory_usage": True}
    return buffer(rows=ROWS, envs=1, shape=(1,), observations=observations, **{**small, **options})


def report(path: Path, data: bytes, limits: sbformat.Limits = TIGHT) -> sbformat.ScanReport:
    path.write_bytes(data)
    return sbformat.scan(path, limits=limits)


def test_progress_counts_a_file_twice(tmp_path: Path) -> None:
    path = tmp_path / "b.pkl"
    path.write_bytes(large())
    for source in (path, PPO):
        counts: list[int] = []
        limits = TIGHT if source is path else sbformat.DEFAULT_LIMITS
        found = sbformat.scan(source, limits=limits, progress=counts.append)
        assert sum(counts) == 2 * found.size == 2 * source.stat().st_size
        assert found.sha256 == hashlib.sha256(source.read_bytes()).hexdigest()


def test_a_file_above_the_constant_of_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    data = buffer(rows=LARGE_FILE_BYTES // 64, envs=1, shape=(64,), next_observations=None, optimize_memory_usage=True)
    assert len(data) > LARGE_FILE_BYTES
    assert report(tmp_path / "b.pkl", data).verdict == "clean"


def test_it_is_judged_whatever_its_size(tmp_path: Path) -> None:
    data = large()
    found = report(tmp_path / "b.pkl", data)
    assert (found.verdict, found.format, found.pickles) == ("clean", "pickle", 1)
    assert (found.size, found.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert found.imports == sbformat.scan(data).imports


def test_it_is_held_to_nothing_less_than_a_small_one(tmp_path: Path) -> None:
    data = large(mine=FileSource)  # a class by reference
    found = report(tmp_path / "b.pkl", data)
    assert (found.verdict, found.findings[0].rule) == ("dangerous", "called-name")
    assert found.imports == sbformat.scan(data).imports


@pytest.mark.parametrize(
    ("start", "rule"),
    [
        (PAYLOAD, "dangerous-name"),
        (b"\x80\x02N." + PAYLOAD, "dangerous-name"),
        (b"\x80\x02X\x00\x00\x01\x00" + bytes(1 << 16) + b"." + PAYLOAD, "dangerous-name"),
        (torch_zip(PAYLOAD), "dangerous-name"),
    ],
    ids=["pickle", "second pickle", "behind 64 KiB", "torch zip"],
)
def test_what_lies_in_its_arrays_is_looked_into(tmp_path: Path, start: bytes, rule: str) -> None:
    found = report(tmp_path / "b.pkl", large(start))
    assert rule in {finding.rule for finding in found.findings}
    assert "os.system" in found.imports or "posix.system" in found.imports


def test_a_file_in_an_array_that_is_too_large_to_hold_is_said(tmp_path: Path) -> None:
    limits = TIGHT._replace(member_bytes=LARGE - 1)
    found = report(tmp_path / "b.pkl", large(b"PK\x03\x04"), limits)
    assert found.verdict == "broken"
    assert "member_bytes" in found.findings[0].message


@pytest.mark.parametrize("end", [b"\0", b"PK\x05\x06" + bytes(18)])
def test_what_ends_as_something_else_is_held_as_ever(tmp_path: Path, end: bytes) -> None:
    found = report(tmp_path / "b.pkl", large() + end)
    assert found.verdict == "broken"
    assert "total_bytes" in found.findings[0].message
    held = report(tmp_path / "c.pkl", large() + end, sbformat.DEFAULT_LIMITS)
    assert held.verdict == ("unknown" if end == b"\0" else "broken")
    assert all("total_bytes" not in finding.message for finding in held.findings)


def change_behind(monkeypatch: pytest.MonkeyPatch, path: Path, place: int) -> None:
    """Write a byte to the file whenever it was judged, before its digest is taken."""
    judge = FileScanner.scan_large_file

    def slow(scanner: FileScanner, *args: object) -> bool:
        found = judge(scanner, *args)
        with path.open("r+b") as file:
            file.seek(place)
            file.write(b"\x01")
        return found

    monkeypatch.setattr(FileScanner, "scan_large_file", slow)


def test_a_file_that_changes_meanwhile_is_not_called_clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change_behind(monkeypatch, tmp_path / "b.pkl", 1000)
    found = report(tmp_path / "b.pkl", large())
    assert (found.verdict, found.sha256) == ("broken", None)
    assert "changed" in found.findings[0].message


def test_what_changes_unseen_is_not_called_clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores to memory that maps a file need not change its times; the digest is that of what was judged."""
    monkeypatch.setattr("sbformat.io.source._identify", lambda _: ())
    path, data = tmp_path / "b.pkl", large()
    with monkeypatch.context() as patch:
        change_behind(patch, path, data.index(b"rewards"))
        found = report(path, data)
    assert (found.verdict, found.sha256) == ("broken", None)
    assert "changed while it was scanned" in found.findings[0].message
    change_behind(monkeypatch, path, len(data) // 2)  # in an array of which only the beginning was looked at
    found = report(path, data)
    assert found.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert path.read_bytes() != data


def test_what_is_read_at_once_is_no_member(tmp_path: Path) -> None:
    found = report(tmp_path / "b.pkl", large(), TIGHT._replace(member_bytes=100))
    assert found.verdict == "clean"


@pytest.mark.parametrize("flag", [1, 2])
def test_bools_are_looked_at(tmp_path: Path, flag: int) -> None:
    dones = np.zeros((ROWS, 1), bool)
    dones.view(np.uint8)[-1] = flag
    found = report(tmp_path / "b.pkl", large(dones=dones))
    assert found.verdict == sbformat.scan(large(dones=dones)).verdict == ("clean" if flag == 1 else "unknown")


def test_in_a_folder_it_is_judged_where_it_lies(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    assert report(tmp_path / "run" / "b.pkl", large(PAYLOAD)).verdict == "dangerous"
    found = sbformat.scan(tmp_path, limits=TIGHT)
    assert (found.verdict, found.findings[0].entry) == ("dangerous", "run/b.pkl")
    (tmp_path / "run" / "b.pkl").write_bytes(large())
    assert sbformat.scan(tmp_path, limits=TIGHT).verdict == "clean"


LIMITED: Final = {
    "marks": b"(" * 1001,
    "opcodes": b"N0" * 10_001,
    "memo index": b"Nr\xff\xff\xff\xff0",
}


@pytest.mark.parametrize("name", LIMITED)
def test_a_pickle_within_one_that_asks_for_too_much_is_broken(name: str) -> None:
    inner = b"\x80\x04" + LIMITED[name] + PAYLOAD
    found = sbformat.scan(pkl.dumps([inner]), limits=sbformat.Limits(pickle_opcodes=20_000))
    assert found.verdict in ("broken", "dangerous")


def test_numbers_within_a_pickle_may_begin_as_one() -> None:
    for start in (b"\x80\x04", b"\x80\x02((((", b"\x80\x04\x95", b"\x80\x03X\xff\xff\xff\x7f", b"\x80\x05K\x01"):
        assert sbformat.scan(pkl.dumps([start + bytes(range(128, 256)) * 4])).verdict == "clean"


# -- most bytes are told by their first few -----------------------------------------------------------

BODIES: Final = [
    b"", b".", b"N.", b"\x00", b"\xff\xff", b"I1\n", b"I1", b"cos\nsystem\n(S'true'\ntR.", b"(" * 1001,
    b"X\xff\xff\xff\xff",
    b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00N.", b"\x80\x04\x95\x00\x00\x02\x00\x00\x00\x00\x00N.",
    b"\x80\x04\x95\x02\x00\x00\x00\x00\x00\x00\x00NN.", b"\x95\xff\xff\xff\xff\xff\xff\xff\x7fcos\nsystem\n.",
    b"\x80\x02X\x00\x00\x02\x00", b"\x8e\x00\x00\x03\x00\x00\x00\x00\x00", b"V" + b"a" * 70_000 + b"\n.", b"N" * 70_000,
    b"N0" * 40_000 + b"\xff", b"]q\x00" * 30_000, pkl.dumps([1, "a" * 70_000]), pkl.dumps([b"b"] * 9),
]  # fmt: skip


@pytest.mark.parametrize("count", with_exhaustive([8], [200]))
@pytest.mark.parametrize("tail", [b"", b"\0" * 100_000, b"." * 100_000, b"\n" * 100_000])
def test_a_short_look_tells_what_a_long_one_does(tail: bytes, count: int) -> None:
    scanner = FileScanner(sbformat.DEFAULT_LIMITS, frozenset())
    rng = random.Random(7)  # noqa: S311 -- a test
    opcodes = b"N(.]})0e2\x85\x86\x87\x88\x94\x95I\nK\x01\x80"
    bodies = BODIES + [bytes(rng.choices(opcodes, k=rng.choice((3, 20, 65_530, 65_540)))) for _ in range(count)]
    for body in bodies:
        data = body + tail
        raw, found = scanner._attempt(Unread(BytesSource(data), 0, len(data)))
        expected = attempt(data, scanner.budget, encoding="utf-8")
        assert data.startswith(raw)
        assert told(found) == told(expected), body[:40]


def told(found: pkl.Attempt) -> tuple[object, ...]:
    pickle, error = found.pickle, found.error
    read = (pickle.size, repr(pickle.value)[:200], pickle.flags) if pickle else None
    return read, str(error), getattr(error, "offset", None), len(found.log), found.reached
