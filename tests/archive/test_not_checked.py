"""What was not checked of an archive that is fetched by ranges is listed, and nothing is passed over."""

from __future__ import annotations

import contextlib
import functools
import io
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import sbformat
from sbformat import ContainerError, SbformatError
from sbformat.archive.entries import ReadOptions
from sbformat.container.reader import Container
from sbformat.formats.opener import open_archive
from sbformat.io.remote.source import RemoteSource
from sbformat.limits import Budget
from tests.helpers.bundled import PPO
from tests.helpers.large_agents import make_deflated_data, make_wide_sac
from tests.helpers.recorded_file import RecordedFile
from tests.helpers.sampling import with_exhaustive

if TYPE_CHECKING:
    from sbformat.archive.archive import Archive

DATA = make_wide_sac(150)
"""An agent of a megabyte with five ``.pth``, so that most of their bytes are not fetched to describe it."""
LOCAL = Container(DATA)
FEW = 30
"""Of each kind of region of the file, so many bytes are changed, each in a test of its own."""


def open_ranged(data: bytes) -> Archive:
    source = RemoteSource(RecordedFile(data))
    return open_archive("agent.zip", Budget(), ReadOptions("inert"), in_memory=False, opened=source)


def read_everything(archive: Archive) -> None:
    """Read each byte of an archive, with every check that there is."""
    _ = archive.data, archive.system_info, archive.stable_baselines3_version
    for name in archive.state_dicts:
        archive.state_dict(name).to_numpy()
    for name in archive.extra:
        _ = archive.extra[name]
    archive.check()


def judge(data: bytes) -> str | None:
    """Return the outcome of the file as a local one; None if every check passes."""
    try:
        read_everything(sbformat.reads(data, on_unknown="inert"))
    except SbformatError as error:
        return error.outcome
    return None


def find_entry(at: int) -> str | None:
    """Return the entry whose header, bytes or descriptor a byte is part of; None for the directory."""
    starts = sorted((entry.offset, name) for name, entry in LOCAL.entries.items())
    if at >= directory_start():
        return None
    return [name for start, name in starts if start <= at][-1]


@functools.cache
def directory_start() -> int:
    last = max(LOCAL.entries.values(), key=lambda entry: entry.offset)
    return last.data_offset + last.compressed_size


def list_places() -> list[tuple[str, int]]:
    """Bytes of each region of the file: headers, directories, pickles, tensors and padding, of both zips."""
    regions: dict[str, list[int]] = {"directory": list(range(directory_start(), len(DATA)))}
    for name, entry in LOCAL.entries.items():
        regions[f"header of {name}"] = list(range(entry.offset, entry.data_offset))
        start, stop = entry.data_offset, entry.data_offset + entry.size
        if not name.endswith(".pth"):
            regions[f"bytes of {name}"] = list(range(start, stop))
            continue
        inner = Container(bytes(LOCAL.read(name)), names="record")
        records = list(inner.entries.values())
        regions[f"record headers of {name}"] = [
            start + at for row in records for at in range(row.offset, row.data_offset)
        ]
        regions[f"record bytes of {name}"] = [
            start + at for row in records for at in range(row.data_offset, row.data_offset + row.size)
        ]
        ends = max(row.data_offset + row.size for row in records)
        regions[f"record directory of {name}"] = list(range(start + ends, stop))
    chosen = random.Random(5)  # noqa: S311 -- the same each time
    return [(region, at) for region, places in regions.items() for at in chosen.sample(places, min(FEW, len(places)))]


PLACES = list_places()


@pytest.mark.parametrize("few", with_exhaustive([2], [FEW]))
@pytest.mark.parametrize("region", dict.fromkeys(region for region, _ in PLACES))
def test_damage_is_refused_or_its_entry_is_listed(region: str, few: int) -> None:
    """The law of this module: what a local file would be refused for is seen, or its entry is listed as not checked."""
    seen = listed = 0
    for at in [at for name, at in PLACES if name == region][:few]:
        damaged = DATA[:at] + bytes([DATA[at] ^ 0x41]) + DATA[at + 1 :]
        expected = judge(damaged)
        if expected is None:  # a time, or another field that no reader compares
            continue
        outcome, broken, not_checked = describe(damaged)
        entry = find_entry(at)
        if outcome is not None or broken:
            seen += 1
            assert outcome in {expected, None}, at
            assert not broken or entry is None or broken == {entry}, at
        else:
            listed += 1
            assert not_checked if entry is None else entry in not_checked, at
    assert seen + listed
    if "pth" not in region and region != "directory":
        assert not listed


def describe(data: bytes) -> tuple[str | None, set[str], set[str]]:
    """Return the error of inspecting a damaged archive by ranges, the broken entries, and those not checked.

    Reading it by ranges, with every check that there is, fails.
    """
    try:
        archive = open_ranged(data)
        report = sbformat.inspect(archive)
    except SbformatError as error:
        return error.outcome, set(), set()
    with pytest.raises(SbformatError):
        read_everything(archive)
    broken = {row.entry.partition("/")[0] for row in report.broken}
    return None, broken, {row.entry for row in report.not_checked}


@pytest.mark.parametrize("data", [DATA, make_deflated_data(150)], ids=["stored", "deflated"])
def test_a_good_archive_is_described_as_a_local_one(data: bytes) -> None:
    archive = open_ranged(data)
    report = sbformat.inspect(archive)
    assert report._replace(not_checked=()) == sbformat.inspect(data)
    assert [row.entry for row in report.not_checked] == [
        name for name in ("policy.pth", "actor.optimizer.pth", "critic.optimizer.pth") for _ in range(2)
    ]


def test_nothing_is_left_to_check_once_all_was_checked() -> None:
    file = RecordedFile(DATA)
    archive = open_archive("a.zip", Budget(), ReadOptions("inert"), in_memory=False, opened=RemoteSource(file))
    assert len(archive.not_checked()) == len(LOCAL)
    sbformat.inspect(archive)
    archive.check()
    assert archive.not_checked() == ()
    assert file.fetched < 1.4 * len(DATA)


def test_reading_the_tensors_checks_their_records() -> None:
    archive = open_ranged(DATA)
    archive.parameters["policy"].to_numpy()
    rows = [row.message for row in archive.not_checked() if row.entry == "policy.pth"]
    assert len(rows) == 1
    assert rows[0].startswith("the CRC-32 of its ")
    archive.check()
    assert [row.entry for row in archive.not_checked()] == [name for name in LOCAL if name != "policy.pth"]


def test_what_was_not_fetched_is_said_so() -> None:
    archive = open_ranged(DATA)
    rows = {row.entry: row.message for row in archive.not_checked()}
    assert list(rows) == list(LOCAL)
    assert set(rows.values()) == {"nothing of it was fetched: neither its local header nor its CRC-32 was checked"}


def test_nothing_is_listed_of_local_files(tmp_path: Any) -> None:
    (tmp_path / "a.zip").write_bytes(DATA)
    assert sbformat.read(tmp_path / "a.zip").not_checked() == ()
    assert sbformat.inspect(PPO).not_checked == ()
    assert sbformat.reads(DATA).not_checked() == ()


def test_a_crc_that_both_zips_do_not_agree_on() -> None:
    """The bytes are as the outer zip has them, and not as the inner one has: a forgery, which reading refuses."""
    damaged = forge_record()
    assert judge(damaged) == ContainerError.outcome
    archive = open_ranged(damaged)
    report = sbformat.inspect(archive)
    assert not report.broken
    assert "policy.pth" in {row.entry for row in report.not_checked}
    with pytest.raises(ContainerError, match="expected CRC-32"):
        archive.check()
    assert "policy.pth" in {row.entry for row in archive.not_checked()}


def forge_record() -> bytes:
    """The agent with one byte of a tensor changed, and the CRC of the entry made anew."""
    import zipfile

    contents = {name: bytes(LOCAL.read(name)) for name in LOCAL}
    inner = Container(contents["policy.pth"], names="record")
    largest = max(inner.entries.values(), key=lambda row: row.size)
    changed = bytearray(contents["policy.pth"])
    changed[largest.data_offset + largest.size // 2] ^= 1
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        for name, content in contents.items():
            file.writestr(name, bytes(changed) if name == "policy.pth" else content)
    return made.getvalue()


# -- other formats ------------------------------------------------------------------------------------


def make_npz(*, compressed: bool = False) -> bytes:
    made = io.BytesIO()
    arrays = {f"w{number}": np.random.default_rng(number).standard_normal(20_000) for number in range(4)}
    (np.savez_compressed if compressed else np.savez)(made, **arrays)
    return made.getvalue()


@pytest.mark.parametrize("compressed", [False, True])
def test_arrays_of_a_npz_are_listed(compressed: bool) -> None:  # noqa: FBT001
    data = make_npz(compressed=compressed)
    archive = open_archive("a.npz", Budget(), in_memory=False, opened=RemoteSource(RecordedFile(data)))
    report = sbformat.inspect(archive)
    assert report.state_dicts[0].tensors
    assert [row.message for row in report.not_checked] == (
        [] if compressed else ["the CRC-32 of 4 of its 4 records was not checked"]
    )
    archive.check()
    assert archive.not_checked() == ()


def test_a_single_pth_is_listed_by_its_records() -> None:
    data = bytes(LOCAL.read("policy.pth"))
    archive = open_archive("policy.pth", Budget(), in_memory=False, opened=RemoteSource(RecordedFile(data)))
    report = sbformat.inspect(archive)
    ((entry, message),) = report.not_checked
    assert entry == "policy.pth"
    assert "records was not checked" in message
    archive.check()
    assert archive.not_checked() == ()


def test_a_large_entry_that_cannot_be_decoded_is_not_fetched_whole() -> None:
    pickle_at = DATA.find(b"collections\nOrderedDict", LOCAL.entries["policy.pth"].offset)
    damaged = DATA[:pickle_at] + b"\xff" + DATA[pickle_at + 1 :]
    file = RecordedFile(damaged)
    archive = open_archive("a.zip", Budget(), ReadOptions("inert"), in_memory=False, opened=RemoteSource(file))
    with contextlib.suppress(SbformatError):
        archive.state_dict("policy.pth")
    assert archive.is_decoded("policy.pth")
    assert file.fetched < 200_000
    assert "policy.pth" in {row.entry for row in archive.not_checked()}
