"""Large archives are extracted and converted in pieces; most tests use small ones, with lower thresholds.

The output is the same as from memory. Damage, and a file that changes meanwhile, is an error before the output exists.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import sbformat
from conformance.generators import build_pth, build_zips
from sbformat.arrayfiles.reader import read_arrays
from sbformat.container.reader import Container
from sbformat.formats.array_files import ArrayFile
from sbformat.io.source import BytesSource, FileSource, SourceSlice
from sbformat.limits import Budget, Limits
from sbformat.reader import read_in_place
from sbformat.tools.convert import convert
from sbformat.tools.extract import extract
from tests.children.read_hostile_pth import peak
from tests.helpers import thresholds
from tests.helpers.bundled import ARCHIVES
from tests.helpers.forks import run_fork
from tests.helpers.sampling import with_exhaustive

if TYPE_CHECKING:
    from collections.abc import Callable

BASE: Final = np.arange(600, dtype="f4")
WEIGHTS: Final = OrderedDict(
    {
        "a": BASE.reshape(20, 30),
        "flags": BASE.reshape(20, 30) > 99,
        "turned": np.arange(60, dtype="f8").reshape(12, 5).T,
        "row": BASE[30:60],  # in the storage of "a"
        "every other": BASE[::2],
        "number": np.array(7, "i8"),
        "none": np.zeros((0, 3), "f4"),
        "b": np.arange(5000, dtype="i2"),
    }
)
RECORD: Final = "policy.pth/archive/data/"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let whatever is said of large files hold for all."""
    for name in ("io.opening", "archive.entries"):
        monkeypatch.setattr(f"sbformat.{name}.LARGE_FILE_BYTES", 0)
    monkeypatch.setattr("sbformat.container.checksums.COMBINE_BYTES", 64)
    for name in ("writer", "arrayfiles.writer"):
        monkeypatch.setattr(f"sbformat.{name}.READ_AHEAD_BYTES", 64)
    for name in ("io.source", "container.checksums"):
        monkeypatch.setattr(f"sbformat.{name}.CHUNK_BYTES", 96)


@pytest.fixture(scope="module")
def whole() -> bytes:
    """An archive with tensors of many kinds."""
    return sbformat.writes(sbformat.reads(build_zips.sb3_archive()).replace(parameters={"policy": WEIGHTS}))


def policy(whole: bytes) -> bytes:
    return bytes(Container(whole).read("policy.pth"))


def zipped(policy: bytes, **forged: int) -> bytes:
    """An archive around a ``policy.pth``, and fields of that entry's headers."""
    return build_zips.build_zip(
        build_zips.Member(b"data", b"{}"), build_zips.Member(b"policy.pth", policy, local=forged, central=forged)
    )


def place_of(whole: bytes, record: str) -> int:
    """Where a record's bytes begin in ``policy.pth``."""
    return Container(policy(whole), names="record").entry(f"archive/{record}").data_offset


# -- the same comes out -------------------------------------------------------------------------------


@pytest.mark.each_value
@pytest.mark.parametrize("name", ["x.safetensors", "x.npz", "x"])
@pytest.mark.parametrize("entry", ["policy", "all"])
@pytest.mark.parametrize("archive", ["ppo-cartpole.zip", "sac-pendulum.zip", "made"])
def test_extracted_is_what_is_extracted_of_one_that_is_held(
    tmp_path: Path, whole: bytes, name: str, entry: str, archive: str
) -> None:
    path = ARCHIVES / archive
    if archive == "made":
        path = tmp_path / "made.zip"
        path.write_bytes(whole)
    outputs = [tmp_path / folder / name for folder in ("held", "in place")]
    for output, read in zip(outputs, (sbformat.read, read_in_place)):
        output.parent.mkdir()
        extract(read(path), output, entry=entry)
    files = [sorted(item for item in folder.parent.rglob("*") if item.is_file()) for folder in outputs]
    assert [item.relative_to(tmp_path / "held") for item in files[0]] == [
        item.relative_to(tmp_path / "in place") for item in files[1]
    ]
    assert all(held.read_bytes() == other.read_bytes() for held, other in zip(*files))
    assert files[0]


def lay_out(tmp_path: Path, form: str, whole: bytes) -> Path:
    """An archive in one of the forms that it can have, all of them read in place."""
    path = tmp_path / f"in.{form}"
    if form == "zip":
        path.write_bytes(whole)
    elif form == "pth":
        path.write_bytes(policy(whole))
    elif form == "safetensors":
        convert(sbformat.reads(whole), path)
    else:
        path.mkdir()
        for name in Container(whole):
            (path / name).write_bytes(Container(whole).read(name))
    return path


@pytest.mark.parametrize("to", [".zip", ".pth", ".safetensors"])
@pytest.mark.parametrize("form", ["zip", "pth", "safetensors", "folder"])
def test_every_way_to_convert_gives_an_equal_archive(tmp_path: Path, whole: bytes, form: str, to: str) -> None:
    source = read_in_place(lay_out(tmp_path, form, whole))
    output = tmp_path / f"out{to}"
    convert(source, output)
    found = sbformat.read(output)
    assert not isinstance(found, ArrayFile)
    expected = sbformat.reads(whole)
    if to == ".pth" or form == "pth":
        assert next(iter(found.parameters.values())) == expected.parameters["policy"]
    else:
        assert found == expected


def test_plain_safetensors_are_taken_from_their_file(tmp_path: Path, whole: bytes) -> None:
    extract(sbformat.reads(whole), tmp_path / "x.safetensors")
    for name in ("y.pth", "y.safetensors"):
        convert(read_in_place(tmp_path / "x.safetensors"), tmp_path / name)
    found = sbformat.read(tmp_path / "y.pth").parameters["y"].to_numpy()
    expected = read_arrays(tmp_path / "x.safetensors")
    assert (tmp_path / "y.safetensors").exists()
    for arrays in (found, read_arrays(tmp_path / "y.safetensors")):
        assert arrays.keys() == expected.keys() == WEIGHTS.keys()
        for key, array in WEIGHTS.items():
            assert arrays[key].dtype == array.dtype
            assert np.array_equal(arrays[key], array)


def test_bools_of_a_safetensors_file_are_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    sbformat.arrayfiles.writer.write_arrays({"flags": np.ones(100, bool)}, path)  # type: ignore[attr-defined]
    path.write_bytes(path.read_bytes()[:-1] + b"\2")
    with pytest.raises(sbformat.TensorError, match="0 and 1"):
        convert(read_in_place(path), tmp_path / "y.pth")
    assert not (tmp_path / "y.pth").exists()


def test_a_machine_of_another_byte_order_gives_the_same(tmp_path: Path, whole: bytes) -> None:
    values = np.arange(300, dtype=">f4")
    records = {"data.pkl": build_zips.state_dict_pickle({"w": range(200)}), "byteorder": b"big"}
    records |= {"data/0": values[:200].tobytes(), "version": b"3\n"}
    path = tmp_path / "x.zip"
    path.write_bytes(zipped(build_zips.torch_zip(records)))
    for name in ("y.safetensors", "y.npz"):
        extract(read_in_place(path), tmp_path / name)
        assert np.array_equal(read_arrays(tmp_path / name)["w"], values[:200])
    convert(read_in_place(path), tmp_path / "y.pth")
    assert np.array_equal(sbformat.read(tmp_path / "y.pth").parameters["y"]["w"], values[:200])


def test_legacy_ones_are_held(tmp_path: Path) -> None:
    storage = build_pth.storage(2, "7", "FloatStorage", "cpu", None)
    tree = build_pth.ordered({"w": build_pth.tensor(storage, (2,))})
    legacy = build_pth.legacy_stream(tree, [build_pth.Run("7", 2, np.array([1, 2], "<f4").tobytes())])
    path = tmp_path / "x.zip"
    path.write_bytes(zipped(legacy))
    extract(read_in_place(path), tmp_path / "y.safetensors")
    assert read_arrays(tmp_path / "y.safetensors")["w"].tolist() == [1.0, 2.0]
    with pytest.raises(sbformat.LimitError, match="total_bytes"):
        extract(read_in_place(path, limits=Limits(total_bytes=100)), tmp_path / "z.safetensors")
    path.write_bytes(zipped(legacy, crc=1))
    with pytest.raises(sbformat.ContainerError, match="CRC-32"):
        extract(read_in_place(path), tmp_path / "z.safetensors")


def test_deflated_ones_are_held(tmp_path: Path, whole: bytes) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(build_zips.build_zip(build_zips.Member(b"policy.pth", policy(whole), method=8)))
    extract(read_in_place(path), tmp_path / "y.safetensors")
    assert np.array_equal(read_arrays(tmp_path / "y.safetensors")["a"], WEIGHTS["a"])
    with pytest.raises(sbformat.LimitError, match="member_bytes"):
        extract(read_in_place(path, limits=Limits(member_bytes=10_000)), tmp_path / "z.safetensors")


def test_a_stored_one_may_be_larger_than_what_may_be_held(tmp_path: Path, whole: bytes) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(whole)
    extract(read_in_place(path, limits=Limits(total_bytes=4000)), tmp_path / "y.npz", tensors="[abr]*")
    with pytest.raises(sbformat.LimitError, match="total_bytes"):
        sbformat.read(path, limits=Limits(total_bytes=4000))


# -- damage -------------------------------------------------------------------------------------------


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def damaged(whole: bytes, what: str) -> bytes:
    """An archive with one thing wrong."""
    inner = policy(whole)
    if what == "outer CRC":
        return zipped(inner, crc=zlib.crc32(inner) ^ 1)
    if what == "record":  # the outer zip was made anew around it
        return zipped(flipped(inner, place_of(whole, "data/0") + 700))
    good = zlib.crc32(inner)
    if what == "record and outer CRC":
        return zipped(flipped(inner, place_of(whole, "data/0") + 700), crc=good)
    if what == "pickle and outer CRC":
        return zipped(flipped(inner, place_of(whole, "data.pkl") + 70), crc=good)
    if what == "structure and outer CRC":
        return zipped(flipped(inner, len(inner) - 20), crc=good)
    at = inner.index(b"ZZZZ")  # the padding between two records
    return zipped(flipped(inner, at), crc=good)


OUTER: Final = ("outer CRC", "record and outer CRC", "pickle and outer CRC", "structure and outer CRC", "gap")


@pytest.mark.parametrize("what", [*OUTER, "record"])
@pytest.mark.parametrize("read", [sbformat.read, read_in_place])
@pytest.mark.parametrize("name", ["y.safetensors", "y.npz", "y"])
def test_damage_is_told_before_anything_is_there(
    tmp_path: Path, whole: bytes, what: str, read: Callable[[Path], sbformat.Archive], name: str
) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(damaged(whole, what))
    with pytest.raises(sbformat.ContainerError, match="CRC-32") as caught:
        extract(read(path), tmp_path / name)
    in_place = read is read_in_place and what == "record and outer CRC"  # the record is read first there
    assert caught.value.entry == (f"{RECORD}0" if what == "record" or in_place else "policy.pth")
    assert os.listdir(tmp_path) == ["x.zip"]


@pytest.mark.parametrize("what", OUTER)
@pytest.mark.parametrize("name", ["y.zip", "y.pth", "y.safetensors"])
def test_damage_is_not_converted(tmp_path: Path, whole: bytes, what: str, name: str) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(damaged(whole, what))
    with pytest.raises(sbformat.ContainerError, match="CRC-32"):
        convert(read_in_place(path), tmp_path / name)
    assert os.listdir(tmp_path) == ["x.zip"]


def test_a_broken_record_in_a_sound_entry_travels_as_bytes(tmp_path: Path, whole: bytes) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(damaged(whole, "record"))
    reports = [
        convert(read(path), tmp_path / f"{read.__name__}.safetensors") for read in (sbformat.read, read_in_place)
    ]
    assert [report.as_bytes for report in reports] == [("policy.pth",)] * 2
    held, other = ((tmp_path / f"{name}.safetensors").read_bytes() for name in ("read", "read_in_place"))
    assert held == other
    back = read_in_place(tmp_path / "read.safetensors")
    convert(back, tmp_path / "y.zip")
    assert Container((tmp_path / "y.zip").read_bytes()).read("policy.pth") == policy(damaged(whole, "record"))


@pytest.mark.parametrize("read", [sbformat.read, read_in_place])
def test_damage_of_what_is_not_extracted_counts_all_the_same(
    tmp_path: Path, whole: bytes, read: Callable[[Path], sbformat.Archive]
) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(damaged(whole, "record and outer CRC"))
    with pytest.raises(sbformat.ContainerError, match="CRC-32") as caught:
        extract(read(path), tmp_path / "y.npz", tensors="b")
    assert caught.value.entry == "policy.pth"
    path.write_bytes(damaged(whole, "record"))  # the entry as a whole is right
    extract(read(path), tmp_path / "y.npz", tensors="b")
    assert np.array_equal(read_arrays(tmp_path / "y.npz")["b"], WEIGHTS["b"])


def test_a_part_of_a_record_is_extracted_only_when_all_of_that_is_right(tmp_path: Path, whole: bytes) -> None:
    """Of the storage that "row" shares with "a", what is damaged belongs to "a" alone."""
    path = tmp_path / "x.zip"
    path.write_bytes(damaged(whole, "record"))
    with pytest.raises(sbformat.ContainerError, match="CRC-32"):
        extract(read_in_place(path), tmp_path / "y.npz", tensors="row")
    assert os.listdir(tmp_path) == ["x.zip"]


@pytest.mark.parametrize("at", range(0, 100, 7))
def test_every_byte_of_a_file_counts(tmp_path: Path, whole: bytes, at: int) -> None:
    path = tmp_path / "x.zip"
    entry = Container(whole).entry("policy.pth")
    path.write_bytes(flipped(whole, entry.data_offset + at * entry.size // 100))
    with pytest.raises(sbformat.SbformatError):
        extract(read_in_place(path), tmp_path / "y.safetensors")
    assert os.listdir(tmp_path) == ["x.zip"]


# -- a file that changes ------------------------------------------------------------------------------


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def touch(path: Path) -> None:
    os.utime(path, ns=(1, 1))


def replace(path: Path) -> None:
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data)
    os.utime(path, ns=(1, 1))


def become_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def rewrite(path: Path) -> None:
    """Other bytes, with the time of the old ones."""
    status = path.stat()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    with path.open("r+b") as file:
        file.write(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("change", [cut, touch, replace, rewrite, become_a_folder, Path.unlink])
@pytest.mark.parametrize("name", ["y.safetensors", "y.npz", "y"])
def test_a_file_that_changes_while_it_is_extracted(
    tmp_path: Path, whole: bytes, change: Callable[[Path], None], name: str
) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(whole)
    archive = read_in_place(path)
    done: list[int] = []

    def progress(_: int) -> None:
        if not done:
            change(path)
        done.append(1)

    with pytest.raises(sbformat.ContainerError, match="has changed since"):
        extract(archive, tmp_path / name, progress=progress)
    assert set(os.listdir(tmp_path)) <= {"x.zip"}


@pytest.mark.parametrize("form", ["zip", "pth", "safetensors"])
@pytest.mark.parametrize("to", [".zip", ".pth"])
def test_a_file_that_shrinks_while_it_is_converted(tmp_path: Path, whole: bytes, form: str, to: str) -> None:
    path = lay_out(tmp_path, form, whole)
    source = read_in_place(path)
    with pytest.raises(sbformat.ContainerError, match="has changed since"):
        convert(source, tmp_path / f"y{to}", progress=lambda _: cut(path))
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("change", [rewrite, become_a_folder])
def test_a_file_that_changes_before_it_is_read_again(
    tmp_path: Path, whole: bytes, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None]
) -> None:
    """What is described first is read again when it is written."""
    path = tmp_path / "x.zip"
    path.write_bytes(whole)
    write_arrays = sbformat.arrayfiles.writer.write_arrays

    def changed(*args: Any, **options: Any) -> None:
        change(path)
        write_arrays(*args, **options)

    monkeypatch.setattr(sbformat.arrayfiles.writer, "write_arrays", changed)
    with pytest.raises(sbformat.ContainerError, match="has changed since"):
        convert(read_in_place(path), tmp_path / "y.safetensors")
    assert os.listdir(tmp_path) == ["x.zip"]


def test_a_bad_record_is_told_with_its_entry_in_every_form(tmp_path: Path, whole: bytes) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(damaged(whole, "record"))
    for name in ("y.pth", "y.npz"):
        with pytest.raises(sbformat.ContainerError) as caught:
            (convert if name == "y.pth" else extract)(read_in_place(path), tmp_path / name)
        assert str(caught.value.entry).startswith("policy.pth/")


@pytest.mark.parametrize("size", [960, 961])  # ten pieces of 96 bytes, and a byte more
@pytest.mark.parametrize("fault", ["CRC", "last byte"])
def test_comparing_checks_all_of_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, fault: str) -> None:
    """Whichever side is damaged, and though both differ before that."""
    monkeypatch.setattr(thresholds.COMPARED_IN_PIECES, 0)
    monkeypatch.setattr(thresholds.TENSOR_PIECE, 96)
    items = np.arange(size).astype("u1")
    archive = sbformat.reads(build_zips.sb3_archive())
    states = {}
    for name, first in (("good", 0), ("other", 1), ("bad", 0)):
        items[0] = first
        raw = sbformat.writes(archive.replace(parameters={"policy": {"a": items}}))
        if name == "bad":
            inner = policy(raw)
            at = place_of(raw, "data/0")
            place = at + size - 1 if fault == "last byte" else inner.rindex(zlib.crc32(items).to_bytes(4, "little"))
            raw = zipped(flipped(inner, place))
            if fault == "CRC":  # in the descriptor as well, which stands before
                again = policy(raw).index(zlib.crc32(items).to_bytes(4, "little"))
                raw = zipped(flipped(policy(raw), again))
        path = tmp_path / name
        path.write_bytes(raw)
        states[name] = read_in_place(path).parameters["policy"]
    for one, two in (("good", "bad"), ("bad", "good"), ("other", "bad"), ("bad", "other")):
        with pytest.raises(sbformat.ContainerError, match="CRC"):
            assert states[one] == states[two]


# -- what it costs ------------------------------------------------------------------------------------


class ChecksummedBytes:
    """Counts the bytes that CRCs are computed of."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.nbytes = 0
        self._crc32 = zlib.crc32
        monkeypatch.setattr(zlib, "crc32", self)
        for name in ("io.source", "container.checksums"):
            monkeypatch.setattr(f"sbformat.{name}.CHUNK_BYTES", 8192)

    def __call__(self, data: Any, value: int = 0) -> int:
        self.nbytes += len(data)
        return self._crc32(data, value)


LARGE: Final = {"a": np.arange(50_000, dtype="f4"), "b": np.arange(25_000, dtype="f8")}


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of 400 KB, of which next to nothing is not in tensors."""
    path = tmp_path_factory.mktemp("large") / "large.zip"
    sbformat.write(sbformat.reads(build_zips.sb3_archive()).replace(parameters={"policy": LARGE}), path)
    return path


def test_each_byte_is_checksummed_once_to_read_it(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checksummed = ChecksummedBytes(monkeypatch)
    found = sbformat.read(large).parameters["policy"].to_numpy()
    assert np.array_equal(found["b"], LARGE["b"])
    assert 400_000 < checksummed.nbytes < 405_000


@pytest.mark.parametrize("tensors", ["*", "a", "[!ab]"])
def test_each_byte_is_checksummed_once_to_extract_any_of_it(
    large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tensors: str
) -> None:
    checksummed = ChecksummedBytes(monkeypatch)
    if tensors == "[!ab]":
        with pytest.raises(sbformat.MissingEntryError):
            extract(read_in_place(large), tmp_path / "y.safetensors", tensors=tensors)
        assert checksummed.nbytes < 5_000
        return
    extract(read_in_place(large), tmp_path / "y.safetensors", tensors=tensors)
    assert 400_000 < checksummed.nbytes < 405_000


def test_each_byte_is_checksummed_twice_to_write_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for its CRCs, and once when it is read again."""
    archive = sbformat.reads(build_zips.sb3_archive()).replace(parameters={"policy": LARGE})
    checksummed = ChecksummedBytes(monkeypatch)
    sbformat.write(archive, tmp_path / "y.zip")
    assert 800_000 < checksummed.nbytes < 810_000


def test_the_crc_of_a_zip_follows_from_those_of_its_members(whole: bytes) -> None:
    inner = policy(whole)
    for data in (
        inner,
        whole,
        build_zips.build_zip(build_zips.Member(b"a", bytes(9999), method=8), build_zips.Member(b"b")),
    ):
        container = Container(data, names="record")
        checksums = container._checksums
        assert checksums.crc_of_zip() == checksums.crc_of_zip() == zlib.crc32(data)
        assert all(len(container.read(name)) == entry.size for name, entry in container.entries.items())


def test_what_is_read_whole_is_charged_each_time(tmp_path: Path) -> None:
    """No file makes us read it over and over: views of one storage could be many."""
    path = tmp_path / "x.zip"
    path.write_bytes(build_zips.build_zip(build_zips.Member(b"a", bytes(100))))
    container = Container(FileSource(path), budget=Budget(Limits(total_bytes=250)))
    for _ in range(2):
        assert container.read("a") == bytes(100)
    with pytest.raises(sbformat.LimitError, match="total_bytes"):
        container.read("a")


def test_a_run_of_a_member_is_given_once_all_of_it_is_right() -> None:
    source = BytesSource(build_zips.build_zip(build_zips.Member(b"a", bytes(range(250)))))
    container = Container(SourceSlice(source, 0, source.size))
    assert not container.is_in_memory
    for _ in range(2):
        for start, stop in ((0, 250), (5, 6), (90, 200), (96, 192), (250, 250)):
            assert b"".join(container.span("a", start, stop)) == bytes(range(start, stop))


@pytest.mark.skipif(not peak(), reason="the system tells no peak")
@pytest.mark.parametrize(
    "cases",
    with_exhaustive(
        ["extract zip y.safetensors, extract zip y, convert zip y.pth, convert safetensors y.zip"],
        ["extract zip y.npz, convert zip y.safetensors, convert zip y.zip"],
    ),
)
def test_a_large_archive_takes_little_memory(large_files: dict[str, Path], tmp_path: Path, cases: str) -> None:
    for number, case in enumerate(cases.split(", ")):
        verb, form, name = case.split()
        (tmp_path / str(number)).mkdir()
        done = run_fork("measure_in_place", verb, large_files[form], tmp_path / str(number) / name)
        assert done.returncode == 0, (case, done.stderr)
        assert 0 < int(done.stdout) < 24 << 20, case


@pytest.fixture(scope="module")
def large_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two forms of an archive of 64 MiB."""
    folder = tmp_path_factory.mktemp("large")
    weights = {f"{key}": np.full(1 << 22, key, "f4") for key in range(4)}
    archive = sbformat.reads(build_zips.sb3_archive()).replace(parameters={"policy": weights})
    sbformat.write(archive, folder / "x.zip")
    convert(archive, folder / "x.safetensors")
    return {"zip": folder / "x.zip", "safetensors": folder / "x.safetensors"}


def test_the_digest_of_a_file_in_place(tmp_path: Path, whole: bytes) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(whole)
    archive = read_in_place(path)
    assert archive.sha256() == hashlib.sha256(whole).hexdigest()
    path.write_bytes(whole + b"more")
    with pytest.raises(sbformat.ContainerError, match="has changed since it was opened"):
        archive.sha256()
