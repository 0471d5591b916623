"""write and writes: what is read comes back, byte for byte where nothing was edited; what is refused leaves no file."""

from __future__ import annotations

import copy
import glob
import json
import os
import stat
import zipfile
from collections import Counter
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import sbformat
from conformance.generators import build_pth, build_zips
from sbformat import Archive, Limits, StateDict, ValidationError, pth
from tests.helpers.bundled import PPO, SAC, changed, entries, with_data, zipped
from tests.helpers.shared_files import DAMAGED, SHARED, summarize_counts

COUNTS: Final[Counter[str]] = Counter()

_summary = summarize_counts(COUNTS, "test_writer.py wrote")


def members(data: bytes) -> dict[str, bytes]:
    """The entries of a zip, in order, by the standard library, which checks every CRC."""
    with zipfile.ZipFile(BytesIO(data)) as file:
        return {info.filename: file.read(info) for info in file.infolist()}


def check_round_trip(archive: Archive) -> bytes:
    """Promises (a), (b) and (c), and what a reencoded archive is."""
    data = sbformat.writes(archive)
    again = sbformat.reads(data)
    assert again == archive
    assert sbformat.writes(archive) == data == sbformat.writes(again)
    assert members(data) == {name: b"".join(archive.stream(name)) for name in archive.entries}
    return data


def check_reencoded(archive: Archive) -> bytes:
    data = sbformat.writes(archive, reencode=True)
    again = sbformat.reads(data)
    assert again == archive
    assert sbformat.writes(archive, reencode=True) == data == sbformat.writes(again, reencode=True)
    assert sbformat.writes(again) == data
    return data


# -- whole archives -----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [PPO, SAC], ids=["ppo", "sac"])
def test_the_bundled_come_back(path: Path) -> None:
    archive = sbformat.read(path)
    data = check_round_trip(archive)
    assert members(data) == entries(path)
    assert list(members(data)) == list(entries(path))
    check_reencoded(archive)


@pytest.mark.parametrize(
    "data",
    [
        build_zips.sb3_archive(),
        build_zips.sb3_archive(align=1),
        build_zips.sb3_archive(entries={"notes.txt": b"mine", "deep/policy.pth": b"not loaded", "empty": b""}),
        build_zips.sb3_archive(
            entries={"tensors.pth": build_zips.state_dict_zip({}), "b.optimizer.pth": b"", "a.pth": b"x"}
        ),
        build_zips.sb3_archive(entries={"policy.pth": b"broken", "data": b"{", "system_info.txt": b"\xff"}),
        build_zips.sb3_archive(entries={"Grüße.txt": b"1", "重み/モデル.bin": b"2", "🤖": b"3"}),
        build_zips.sb3_archive(entries={"__MACOSX/._policy.pth": b"\0\5\x16\7", "__MACOSX/._data": b"\0\5\x16\7"}),
    ],
)
def test_made_archives_come_back(data: bytes) -> None:
    check_round_trip(sbformat.reads(data))


def test_folders_in_the_zip_are_kept() -> None:
    made = build_zips.build_zip(
        build_zips.Member(b"data", json.dumps(build_zips.DATA).encode()),
        build_zips.Member(b"notes/", central={"attributes": 0o40755 << 16 | 0x10}),
        build_zips.Member(b"notes/a.txt", b"mine"),
    )
    data = check_round_trip(sbformat.reads(made))
    with zipfile.ZipFile(BytesIO(data)) as file:
        assert [(info.filename, info.is_dir()) for info in file.infolist()] == [
            ("data", False), ("notes/", True), ("notes/a.txt", False),
        ]  # fmt: skip
        assert file.getinfo("notes/").external_attr == 0o40755 << 16 | 0x10


def test_descriptors_comments_and_zip64_become_the_plain_form() -> None:
    content = {"data": b"{}", "policy.pth": build_zips.state_dict_zip(build_zips.POLICY)}
    fancy = build_zips.build_zip(
        *[build_zips.Member(name.encode(), data, descriptor="64", comment=b"!") for name, data in content.items()],
        zip64=True,
        comment=b"made by hand",
    )
    plain = build_zips.build_zip(*[build_zips.Member(name.encode(), data) for name, data in content.items()])
    assert sbformat.writes(sbformat.reads(fancy)) == plain


def test_deflated_becomes_stored() -> None:
    data = check_round_trip(sbformat.reads(zipped(entries(), zipfile.ZIP_DEFLATED)))
    with zipfile.ZipFile(BytesIO(data)) as file:
        assert {info.compress_type for info in file.infolist()} == {zipfile.ZIP_STORED}
    assert data == sbformat.writes(sbformat.read(PPO))


def test_headers_say_nothing_of_clock_or_machine() -> None:
    with zipfile.ZipFile(BytesIO(sbformat.writes(sbformat.read(PPO)))) as file:
        for info in file.infolist():
            assert (info.date_time, info.flag_bits, info.create_system) == ((1980, 1, 1, 0, 0, 0), 0, 3)
            assert (info.external_attr, info.extra, info.comment) == (0o600 << 16, b"", b"")
            assert (info.create_version, info.extract_version) == (20, 20)


ORDER: Final = (
    "data", "pytorch_variables.pth", "tensors.pth", "policy.pth", "z.optimizer.pth", "a.optimizer.pth",
    "_stable_baselines3_version", "system_info.txt", "zz", "aa/b.pth",
)  # fmt: skip


@pytest.mark.parametrize("turn", range(len(ORDER)))
def test_entries_stand_in_the_order_of_sb3_and_others_as_they_stood(turn: int) -> None:
    pth_bytes = build_zips.state_dict_zip({})
    content = {name: pth_bytes if name.endswith(".pth") else b"{}" for name in ORDER}
    fixed = [name for name in ORDER if name not in ("z.optimizer.pth", "a.optimizer.pth", "zz", "aa/b.pth")]
    turned = fixed[turn % len(fixed) :] + fixed[: turn % len(fixed)]
    stood = ["z.optimizer.pth", "zz", *turned, "a.optimizer.pth", "aa/b.pth"]
    data = sbformat.writes(sbformat.reads(zipped({name: content[name] for name in stood})))
    assert list(members(data)) == list(ORDER)


def test_data_is_written_as_sb3_writes_it() -> None:
    for path in (PPO, SAC):
        archive = sbformat.read(path)
        assert members(sbformat.writes(archive.replace(data=archive.data)))["data"] == entries(path)["data"]


def archives(*pattern: str) -> list[Any]:
    root = SHARED.joinpath(*pattern[:-1])
    return [pytest.param(path, id=os.path.relpath(path, SHARED)) for path in sorted(glob.glob(str(root / pattern[-1])))]


@pytest.mark.parametrize(
    "path",
    [
        *archives("corpus", "sb3", "*.zip"),
        *archives("generated", "[0-9]*", "*.zip"),
        *archives("generated", "extra", "*.zip"),
    ],
)
def test_archives_beside_the_project_come_back(path: str) -> None:
    archive = sbformat.read(path)
    if os.path.basename(path) == DAMAGED:
        with pytest.raises(sbformat.ContainerError, match="CRC-32") as caught:
            sbformat.writes(archive)
        assert caught.value.entry == "policy.pth"
        COUNTS["archive refused, as is due"] += 1
        return
    data = check_round_trip(archive)
    assert list(sbformat.reads(data).entries) == list(archive.entries)
    check_reencoded(archive)
    COUNTS["archives"] += 1
    COUNTS["entries"] += len(archive.entries)


# -- other forms --------------------------------------------------------------------------------------


def test_a_folder_becomes_an_archive(tmp_path: Path) -> None:
    folder = tmp_path / "agent"
    with zipfile.ZipFile(PPO) as file:
        file.extractall(folder)
    (folder / "replay.bin").write_bytes(b"beside")
    data = check_round_trip(sbformat.read(folder))
    assert members(data) == {**entries(), "replay.bin": b"beside"}
    assert list(members(data)) == [*entries(), "replay.bin"]
    (folder / "replay.bin").unlink()
    assert check_round_trip(sbformat.read(folder)) == sbformat.writes(sbformat.read(PPO))


def test_a_lone_pth_becomes_an_archive_of_one_entry(tmp_path: Path) -> None:
    (tmp_path / "critic.pth").write_bytes(entries()["policy.pth"])
    data = check_round_trip(sbformat.read(tmp_path / "critic.pth"))
    assert members(data) == {"critic.pth": entries()["policy.pth"]}
    assert list(sbformat.reads(data).parameters) == ["critic"]
    assert list(members(check_round_trip(sbformat.reads(entries()["policy.pth"])))) == ["policy.pth"]


def test_a_legacy_pth_is_copied_and_reencoded_as_a_zip() -> None:
    values = np.array(build_zips.POLICY["w"], "<f4")
    tree = build_pth.ordered({"w": build_pth.tensor(build_pth.storage(2, "7", "FloatStorage", "cpu", None), (2,))})
    legacy = build_pth.legacy_stream(tree, [build_pth.Run("7", 2, values.tobytes())])
    archive = sbformat.reads(legacy)
    assert archive.format == "torch-legacy"
    assert members(check_round_trip(archive)) == {"policy.pth": legacy}
    reencoded = members(check_reencoded(archive))["policy.pth"]
    assert reencoded.startswith(b"PK\x03\x04")
    assert pth.loads(reencoded)["w"].tolist() == [1.0, -2.5]


def test_a_bare_data_becomes_an_archive_of_one_entry() -> None:
    bare = entries()["data"]
    archive = sbformat.reads(bare)
    assert members(check_round_trip(archive)) == {"data": bare}
    assert members(check_reencoded(archive)) == {"data": bare}


def test_a_pth_without_crcs_gets_them_when_it_is_made_anew() -> None:
    pickle = build_zips.state_dict_pickle({"w": (1.0,)})
    blank = build_pth.without_crcs(build_pth.torch_zip(pickle, {"0": np.float32(1).tobytes()}))
    archive = sbformat.reads(zipped({"policy.pth": blank}), unchecked_crc=True)
    assert members(sbformat.writes(archive))["policy.pth"] == blank
    with pytest.raises(sbformat.ContainerError, match="unchecked_crc"):
        sbformat.read_parameters(sbformat.writes(archive))
    assert sbformat.read_parameters(sbformat.writes(archive, reencode=True))["policy"]["w"].tolist() == [1.0]


# -- damage -------------------------------------------------------------------------------------------


def damaged(name: str) -> bytes:
    """The bundled archive with one bit of an entry's last byte flipped."""
    data = bytearray(PPO.read_bytes())
    with zipfile.ZipFile(PPO) as file:
        info = file.getinfo(name)
    at = info.header_offset + 30 + len(name) + len(info.extra) + info.file_size - 1
    data[at] ^= 1
    return bytes(data)


@pytest.mark.parametrize("name", list(entries()))
def test_a_damaged_entry_is_not_written_and_is_named(tmp_path: Path, name: str) -> None:
    archive = sbformat.reads(damaged(name))
    for attempt in (lambda: sbformat.write(archive, tmp_path / "o.zip"), lambda: sbformat.writes(archive)):
        with pytest.raises(sbformat.ContainerError, match="CRC-32") as caught:
            attempt()
        assert caught.value.entry == name
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", list(entries()))
def test_a_damaged_entry_can_be_left_out_or_replaced(name: str) -> None:
    archive = sbformat.reads(damaged(name))
    without = members(sbformat.writes(archive.without(name)))
    assert without == {other: content for other, content in entries().items() if other != name}
    if name.endswith(".pth"):
        good = sbformat.read(PPO).state_dict(name)
        field: Any = (
            {"pytorch_variables": good}
            if name == "pytorch_variables.pth"
            else {"parameters": {name.removesuffix(".pth"): good}}
        )
        assert sbformat.reads(sbformat.writes(archive.replace(**field))) == sbformat.read(PPO)


def test_variables_that_are_not_there_may_be_removed_and_parameters_may_not() -> None:
    archive = sbformat.read(PPO)
    variables = archive.pytorch_variables
    bare = archive.replace(pytorch_variables=None)
    assert bare.pytorch_variables is None
    assert bare.replace(pytorch_variables=None) == bare
    assert bare.replace(parameters={"pytorch_variables": variables}, pytorch_variables=None) == bare
    assert bare.replace(parameters={"pytorch_variables": variables}) == archive
    for name in ("pytorch_variables", "critic", "a/b", ""):
        with pytest.raises(sbformat.MissingEntryError):
            bare.replace(parameters={name: None}, pytorch_variables=None)


def test_an_error_within_a_state_dict_names_the_entry_and_the_record() -> None:
    good = build_zips.state_dict_zip(build_zips.POLICY)
    at = good.index(np.array([1.0, -2.5], "<f4").tobytes())
    bad = good[:at] + b"\1" + good[at + 1 :]
    archive = sbformat.reads(zipped({"policy.pth": bad}))
    assert members(sbformat.writes(archive))["policy.pth"] == bad
    other = sbformat.reads(build_zips.sb3_archive()).replace(parameters={"critic": archive.parameters["policy"]})
    for name, broken, reencode in (("policy", archive, True), ("critic", other, False)):
        with pytest.raises(sbformat.ContainerError, match="CRC-32") as caught:
            sbformat.writes(broken, reencode=reencode)
        assert caught.value.entry == f"{name}.pth/archive/data/0"


# -- limits -------------------------------------------------------------------------------------------


def test_what_was_read_with_larger_limits_can_be_written() -> None:
    version = b"2.0.0" + b" " * 5000
    made = build_zips.sb3_archive(entries={"_stable_baselines3_version": version})
    limits = Limits(version_bytes=6000)
    archive = sbformat.reads(made, limits=limits).replace(stable_baselines3_version=version.decode())
    assert members(sbformat.writes(archive))["_stable_baselines3_version"] == version
    deep: Any = []
    for _ in range(80):
        deep = [deep]
    archive = sbformat.reads(build_zips.sb3_archive(), limits=Limits(json_depth=100)).replace(data={"deep": deep})
    assert sbformat.reads(sbformat.writes(archive), limits=Limits(json_depth=100)).data == {"deep": deep}


NESTED: Final = json.loads("[" * 70 + "]" * 70)


@pytest.mark.parametrize(
    ("change", "limit", "entry"),
    [
        ({"data": {"deep": NESTED}}, "json_depth", "data"),
        ({"stable_baselines3_version": "2" * 5000}, "version_bytes", "_stable_baselines3_version"),
        ({"system_info": "x" * (1 << 20 | 1)}, "system_info_bytes", "system_info.txt"),
        ({"parameters": {"policy": {"w" * 1100: np.zeros(1)}}}, "tensor_name_bytes", "policy.pth"),
        ({"parameters": {"policy": {f"w{i}": np.zeros(()) for i in range(40)}}}, "tensors", "policy.pth"),
        ({"extra": {f"{i}.txt": b"" for i in range(50)}}, "outer_entries", None),
    ],
)
def test_what_breaks_a_limit_is_refused(tmp_path: Path, change: dict[str, Any], limit: str, entry: str | None) -> None:
    archive = sbformat.reads(build_zips.sb3_archive(), limits=Limits(tensors=39, outer_entries=50))
    for attempt in (
        lambda: sbformat.write(archive.replace(**change), tmp_path / "o.zip"),
        lambda: sbformat.writes(archive.replace(**change)),
    ):
        with pytest.raises(sbformat.LimitError) as caught:
            attempt()
        assert caught.value.limit == limit
        assert entry is None or (caught.value.entry or "").split("/")[0] == entry
    assert os.listdir(tmp_path) == []


# -- what no reader would take ------------------------------------------------------------------------


MADE: Final = sbformat.reads(build_zips.sb3_archive())


@pytest.mark.parametrize(
    ("made", "error", "words"),
    [
        (MADE.without(*MADE.entries), sbformat.ContainerError, "at least one entry"),
        (MADE.without("data", "policy.pth", "_stable_baselines3_version"), sbformat.UnsupportedError, "got a zip"),
        (
            MADE.replace(extra={"parameters": b"", "parameter_list": b""}),
            sbformat.UnsupportedError,
            "Stable Baselines 2",
        ),
        (MADE.replace(extra={"folder/": b"bytes"}), sbformat.ContainerError, "folder"),
    ],
    ids=["nothing", "extras-only", "sb2", "folder-with-bytes"],
)
def test_what_the_reader_refuses_does_not_become_a_file(tmp_path: Path, made: Archive, error: Any, words: str) -> None:
    (tmp_path / "old.zip").write_bytes(b"old")
    for target in ("new.zip", "old.zip"):
        with pytest.raises(error, match=words):
            sbformat.write(made, tmp_path / target, overwrite=True)
    with pytest.raises(error, match=words):
        sbformat.writes(made)
    assert os.listdir(tmp_path) == ["old.zip"]
    assert (tmp_path / "old.zip").read_bytes() == b"old"


def test_reencode_refuses_what_it_cannot_decode_and_names_it(tmp_path: Path) -> None:
    for name, error in (("data", sbformat.DataError), ("policy.pth", sbformat.TensorError)):
        archive = sbformat.reads(build_zips.sb3_archive(entries={name: b"[]"}))
        assert members(sbformat.writes(archive))[name] == b"[]"
        with pytest.raises(error) as caught:
            sbformat.write(archive, tmp_path / "o.zip", reencode=True, overwrite=True)
        assert caught.value.entry == name
    assert os.listdir(tmp_path) == []


# -- files --------------------------------------------------------------------------------------------

BYTES: Final = sbformat.writes(sbformat.read(PPO))


class Location:
    """A path-like that is no pathlib path."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __fspath__(self) -> str:
        return str(self.path)


@pytest.mark.parametrize("form", [str, Path, Location])
def test_a_path_may_be_text_or_path_like(tmp_path: Path, form: Any) -> None:
    sbformat.write(sbformat.read(PPO), form(tmp_path / "agent"), overwrite=True)
    assert (tmp_path / "agent").read_bytes() == BYTES
    assert os.listdir(tmp_path) == ["agent"]


def test_a_relative_path_lies_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sbformat.write(sbformat.read(PPO), "agent.zip", overwrite=True)
    assert (tmp_path / "agent.zip").read_bytes() == BYTES


@pytest.mark.parametrize("target", [b"agent.zip", 3, None])
def test_other_targets_are_refused_by_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: Any) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TypeError):
        sbformat.write(sbformat.read(PPO), target, overwrite=True)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("options", [{}, {"overwrite": False}], ids=["default", "False"])
def test_an_existing_file_is_not_overwritten_without_being_asked(tmp_path: Path, options: dict[str, bool]) -> None:
    target = tmp_path / "o.zip"
    sbformat.write(sbformat.read(PPO), target, **options)
    assert target.read_bytes() == BYTES
    with pytest.raises(FileExistsError) as caught:
        sbformat.write(sbformat.read(SAC), target, **options)
    assert caught.value.filename == str(target)
    assert target.read_bytes() == BYTES
    assert os.listdir(tmp_path) == ["o.zip"]


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
@pytest.mark.parametrize("mode", [0o640, 0o600, 0o444, 0o200, 0o755])
def test_the_mode_of_the_target_is_kept(tmp_path: Path, mode: int) -> None:
    target = tmp_path / "o.zip"
    target.write_bytes(b"old")
    target.chmod(mode)
    seen = []

    def look(_: int) -> None:
        seen.extend(stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob(".*.tmp"))

    sbformat.write(sbformat.read(PPO), target, progress=look, overwrite=True)
    assert stat.S_IMODE(target.stat().st_mode) == mode
    target.chmod(0o600)
    assert target.read_bytes() == BYTES
    assert seen
    assert all(found & ~(mode | 0o600) == 0 for found in seen)  # no more eyes while it is written


def test_a_new_file_has_the_mode_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    sbformat.write(sbformat.read(PPO), tmp_path / "o.zip", overwrite=True)
    assert (tmp_path / "o.zip").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("is_there", [True, False], ids=["whole", "dangling"])
def test_a_link_stays_and_what_it_points_to_is_replaced(tmp_path: Path, is_there: bool) -> None:  # noqa: FBT001
    (tmp_path / "models").mkdir()
    target, link, second = tmp_path / "models" / "v1.zip", tmp_path / "latest.zip", tmp_path / "again.zip"
    if is_there:
        target.write_bytes(b"old")
    link.symlink_to(Path("models") / "v1.zip")
    second.symlink_to(link)
    sbformat.write(sbformat.read(PPO), second, overwrite=True)
    assert link.is_symlink()
    assert second.is_symlink()
    assert target.read_bytes() == BYTES
    assert os.listdir(tmp_path / "models") == ["v1.zip"]
    assert sorted(os.listdir(tmp_path)) == ["again.zip", "latest.zip", "models"]


def test_a_link_to_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="loop"):
        sbformat.write(sbformat.read(PPO), tmp_path / "loop", overwrite=True)
    assert os.listdir(tmp_path) == ["loop"]


def test_a_folder_is_no_target(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for target in (tmp_path / "folder", f"{tmp_path}/folder/"):
        with pytest.raises(OSError, match="regular"):
            sbformat.write(sbformat.read(PPO), target, overwrite=True)
    assert os.listdir(tmp_path) == ["folder"]
    assert os.listdir(tmp_path / "folder") == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes and devices of POSIX")
def test_pipes_and_devices_are_no_targets(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "null").symlink_to(os.devnull)
    for target in (tmp_path / "pipe", tmp_path / "null", os.devnull):
        with pytest.raises(OSError, match="regular"):
            sbformat.write(sbformat.read(PPO), target, overwrite=True)
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    assert sorted(os.listdir(tmp_path)) == ["null", "pipe"]


@pytest.mark.parametrize("target", ["nowhere/o.zip", "file/o.zip"])
def test_an_error_of_the_folder_names_the_target(tmp_path: Path, target: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError, match="o.zip") as caught:
        sbformat.write(sbformat.read(PPO), tmp_path / target, overwrite=True)
    assert type(caught.value) in (FileNotFoundError, NotADirectoryError)
    assert ".tmp" not in str(caught.value)


def test_writing_over_the_archive_that_was_read(tmp_path: Path) -> None:
    target = tmp_path / "o.zip"
    target.write_bytes(PPO.read_bytes())
    archive = sbformat.read(target)
    edited = archive.replace(data={**archive.data, "gamma": 0.5})
    sbformat.write(edited, target, overwrite=True)
    sbformat.write(edited.replace(extra={"notes.txt": b"mine"}), target, overwrite=True)
    assert sbformat.read(target).data["gamma"] == 0.5
    assert sbformat.read(target).parameters["policy"] == archive.parameters["policy"]
    assert archive.data["gamma"] == 0.99


def test_writing_over_an_archive_whose_tensors_are_mapped(tmp_path: Path) -> None:
    target = tmp_path / "o.zip"
    target.write_bytes(PPO.read_bytes())
    with sbformat.safe_open(target) as file:
        weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 -- safetensors' interface
        archive = sbformat.read(target).replace(parameters={"policy": weights, "policy.optimizer": None})
        sbformat.write(archive, target, overwrite=True)
        sbformat.write(archive, target, reencode=True, overwrite=True)
        assert all(np.array_equal(file.get_tensor(name), weights[name]) for name in weights)
    expected = sbformat.read(PPO).parameters["policy"].to_numpy()
    found = sbformat.read_parameters(target)
    assert list(found) == ["policy"]
    assert all(np.array_equal(found["policy"][name], expected[name]) for name in expected)


def test_a_folder_that_was_read_may_hold_the_target(tmp_path: Path) -> None:
    with zipfile.ZipFile(PPO) as file:
        file.extractall(tmp_path)
    (tmp_path / "beside.zip").write_bytes(b"old")
    archive = sbformat.read(tmp_path)
    sbformat.write(archive, tmp_path / "beside.zip", overwrite=True)
    assert sbformat.read(tmp_path / "beside.zip").extra["beside.zip"] == b"old"


@pytest.mark.parametrize("reencode", [False, True])
def test_progress_adds_up_to_the_size_of_the_entries(tmp_path: Path, reencode: bool) -> None:  # noqa: FBT001
    told: list[int] = []
    big = {"big": {"w": np.ones(1 << 19)}}
    archive = sbformat.read(PPO).replace(extra={"large.bin": bytes(3 << 20)}, parameters=big)
    sbformat.write(archive, tmp_path / "o.zip", progress=told.append, reencode=reencode, overwrite=True)
    assert sum(told) == sum(entry.size for entry in sbformat.read(tmp_path / "o.zip").entries.values())
    assert len(told) > len(archive.entries)
    assert max(told) <= 1 << 22


def test_write_and_writes_agree(tmp_path: Path) -> None:
    for number, archive in enumerate((sbformat.read(SAC), sbformat.read(SAC).replace(extra={"a": b"b"}))):
        for reencode in (False, True):
            target = tmp_path / f"{number}{reencode}"
            sbformat.write(archive, target, reencode=reencode, overwrite=True)
            assert target.read_bytes() == sbformat.writes(archive, reencode=reencode)


def test_an_archive_may_be_written_many_times() -> None:
    archive = sbformat.reads(zipped(entries(), zipfile.ZIP_DEFLATED), limits=Limits(total_bytes=3 * len(BYTES)))
    assert len({sbformat.writes(archive) for _ in range(20)}) == 1


# -- new ----------------------------------------------------------------------------------------------


def weights_of(path: Path = PPO) -> dict[str, Any]:
    """Parameters that can be changed."""
    return sbformat.read_parameters(path, copy=True)


def test_new_takes_weights_and_empties_the_optimizers() -> None:
    template = sbformat.read(SAC)
    given = {name: array + 1 for name, array in weights_of(SAC)["policy"].items()}
    made = sbformat.reads(sbformat.writes(sbformat.new(template, {"policy": given})))
    assert all(np.array_equal(made.parameters["policy"][name], given[name]) for name in given)
    assert list(made.parameters["policy"]) == list(template.parameters["policy"])
    assert made.parameters["policy"].metadata == template.parameters["policy"].metadata
    for name in ("actor.optimizer", "critic.optimizer", "ent_coef_optimizer"):
        assert made.parameters[name]["state"] == {}
        assert made.parameters[name]["param_groups"] == template.parameters[name]["param_groups"]
    assert made.pytorch_variables == template.pytorch_variables
    assert made.data == template.data
    assert list(made.entries) == list(template.entries)
    assert template.parameters["actor.optimizer"]["state"] != {}


def test_new_keeps_given_optimizers() -> None:
    template = sbformat.read(PPO)
    given = weights_of()
    given["policy.optimizer"]["state"][0]["exp_avg"][...] = 7
    made = sbformat.reads(sbformat.writes(sbformat.new(template, given)))
    assert made.parameters["policy"] == template.parameters["policy"]
    assert (made.parameters["policy.optimizer"]["state"][0]["exp_avg"] == 7).all()
    from_archive = sbformat.new(template, {"policy.optimizer": template.parameters["policy.optimizer"]})
    assert sbformat.reads(sbformat.writes(from_archive)) == template


def test_new_lists_every_mismatch_of_every_entry() -> None:
    given = weights_of(SAC)
    first, second, third = list(given["policy"])[:3]
    del given["policy"][first]
    given["policy"][second] = np.zeros((1, 1, 1), "f4")
    given["policy"][third] = given["policy"][third] * 1j
    given["policy"]["stray"] = np.zeros(1)
    given["actor.optimizer"]["param_groups"][0]["params"].append(99)
    with pytest.raises(sbformat.ValidationError) as caught:
        sbformat.new(sbformat.read(SAC), given)
    found = {(row.loc, row.kind) for row in caught.value.problems}
    assert found == {
        (f"policy:{first}", "missing"), (f"policy:{second}", "shape"), (f"policy:{third}", "dtype"),
        ("policy:stray", "unexpected"), ("actor.optimizer:param_groups/[0]/params", "shape"),
    }  # fmt: skip


@pytest.mark.parametrize(
    "value", [1, "x", [1, 2], np.float32(3), None, {}, [], (), np.zeros(2), {"a": 1}, {"a": np.zeros(1)}, b"x", True]
)
def test_new_refuses_every_value_that_the_template_lacks(value: Any) -> None:
    template = sbformat.read(PPO)
    weights = template.parameters["policy"].to_numpy()
    with pytest.raises(ValidationError, match="did you mean 'value_net.weight'") as caught:
        sbformat.new(template, {"policy": {**weights, "value_net.wieght": value}})
    assert {row.kind for row in caught.value.problems} == {"unexpected"}
    assert all(row.loc.startswith("policy:value_net.wieght") for row in caught.value.problems)


@pytest.mark.parametrize("place", ["typo", "state/typo", "state/[0]/typo", "param_groups/[0]/weight_deacy"])
def test_new_refuses_what_the_template_of_an_optimizer_lacks(place: str) -> None:
    template = sbformat.read(PPO)
    given = template.parameters["policy.optimizer"].to_numpy()
    *parts, last = place.split("/")
    holder = given
    for part in parts:
        holder = holder[0 if part == "[0]" else part]
    holder[last] = 1
    with pytest.raises(ValidationError) as caught:
        sbformat.new(template, {"policy.optimizer": given})
    assert [(row.loc, row.kind) for row in caught.value.problems] == [(f"policy.optimizer:{place}", "unexpected")]


def test_new_refuses_other_values_beside_the_tensors() -> None:
    template = sbformat.read(PPO).replace(parameters={"policy": {"w": np.zeros(2), "n": 3, "x": float("nan")}})
    again = sbformat.new(template, {"policy": {"w": np.ones(2), "n": np.int64(3), "x": float("nan")}})
    assert again.parameters["policy"]["w"].tolist() == [1, 1]
    with pytest.raises(ValidationError) as caught:
        sbformat.new(template, {"policy": {"w": 5, "n": 4, "x": float("nan")}})
    assert [(row.loc, row.kind) for row in caught.value.problems if row.kind != "missing"] == [
        ("policy:w", "dtype"), ("policy:n", "value"),
    ]  # fmt: skip


def test_new_names_what_it_cannot_take() -> None:
    template = sbformat.read(PPO)
    with pytest.raises(sbformat.MissingEntryError, match="policy"):
        sbformat.new(template, {"polcy": {}})
    with pytest.raises(sbformat.UnsupportedError, match="no dtype") as caught:
        sbformat.new(template, {"policy": {"w": np.array(["text"])}})
    assert caught.value.entry == "policy.pth"


def test_new_casts_to_the_dtypes_of_the_template() -> None:
    template = sbformat.read(PPO)
    given = {name: array.astype("f8") for name, array in weights_of()["policy"].items()}
    made = sbformat.new(template, {"policy": given})
    assert made.parameters["policy"] == template.parameters["policy"]
    assert {info.dtype for info in made.parameters["policy"].tensors().values()} == {"float32"}


def test_new_changes_keys_of_data() -> None:
    template = sbformat.read(PPO)
    made = sbformat.reads(sbformat.writes(sbformat.new(template, {}, data={"gamma": 0.5, "seed": 3})))
    assert made.data == {**template.data, "gamma": 0.5, "seed": 3}
    assert list(made.data) == list(template.data)


def test_new_refuses_data_that_asks_for_another_network() -> None:
    template = sbformat.read(PPO)
    with pytest.raises(ValidationError, match="expected the shape") as caught:
        sbformat.new(template, {}, data={"policy_kwargs": {"net_arch": [32]}})
    assert "policy:action_net.weight" in {row.loc for row in caught.value.problems}
    with pytest.raises(ValidationError, match="has no argument"):
        sbformat.new(template, {}, data={"policy_kwargs": {"wat": 1}})
    broken = template.replace(data={**template.data, "policy_kwargs": {"net_arch": [32]}})
    assert sbformat.new(broken, {}, data={"gamma": 0.5}).data["gamma"] == 0.5


def test_new_does_not_look_at_what_it_does_not_replace() -> None:
    template = sbformat.reads(changed(policy_pth=b"broken", data=b"broken"))
    made = sbformat.new(template, {"policy.optimizer": template.parameters["policy.optimizer"]})
    assert members(sbformat.writes(made))["policy.pth"] == b"broken"


def test_new_takes_what_another_archive_holds() -> None:
    template, other = sbformat.read(PPO), sbformat.reads(with_data(lambda data: data.update(gamma=0.5)))
    made = sbformat.new(template, dict(other.parameters))
    assert made == template


def test_state_dicts_of_arrays_are_referred_to_until_they_are_written() -> None:
    weights = np.zeros(3, "f4")
    archive = sbformat.reads(build_zips.sb3_archive()).replace(parameters={"policy": {"w": weights}})
    weights[:] = 5
    assert sbformat.reads(sbformat.writes(archive)).parameters["policy"]["w"].tolist() == [5, 5, 5]


def test_a_state_dict_may_stand_under_two_names() -> None:
    shared = StateDict.from_arrays({"w": np.arange(4)})
    archive = sbformat.reads(build_zips.sb3_archive()).replace(parameters={"one": shared, "two": shared})
    again = sbformat.reads(sbformat.writes(archive))
    assert again.parameters["one"] == again.parameters["two"] == shared
    assert again == archive


# -- what changes meanwhile ---------------------------------------------------------------------------


@pytest.mark.parametrize("value", [(64, 64), [(1, 2)], np.float64(0.3), {"a": (1,)}], ids=str)
def test_data_that_json_gives_back_as_another_type_is_still_equal(value: Any) -> None:
    archive = sbformat.read(PPO)
    archive = archive.replace(data={**archive.data, "net": value})
    assert sbformat.reads(sbformat.writes(archive)) == archive
    assert sbformat.read(PPO) != archive


def test_metadata_that_is_handed_out_is_a_copy() -> None:
    state_dict = sbformat.read(PPO).parameters["policy"]
    state_dict.to_numpy()._metadata[""]["version"] = 99
    assert state_dict.metadata[""]["version"] != 99


def test_a_copy_is_the_same_value() -> None:
    archive = sbformat.read(PPO)
    for again in (copy.copy(archive), copy.deepcopy(archive)):
        assert again == archive
        edited = again.replace(data={**again.data, "gamma": 0.5})
        assert archive.data["gamma"] == again.data["gamma"] == 0.99
        assert edited != archive


def test_bools_of_other_bytes_are_not_written() -> None:
    bools = np.zeros(8, bool)
    for array in (bools, bools[::2]):
        archive = sbformat.read(PPO).replace(parameters={"q": {"x": array}})
        sbformat.writes(archive)
        bools.view(np.uint8)[:] = 7
        with pytest.raises(sbformat.TensorError, match="bool"):
            sbformat.writes(archive)
        bools[:] = False


def test_an_array_that_changes_while_it_is_written_gives_a_whole_file() -> None:
    """CRC and bytes are of one moment, whichever."""
    array = np.zeros(1 << 20, np.uint8)
    made = pth.encode_pth(StateDict.from_arrays({"x": array}))
    chunks = []
    for chunk in made.chunks():
        array += 1  # after the CRC was taken, before the bytes are
        chunks.append(bytes(chunk))
    pth.loads(b"".join(chunks)).to_numpy()


@pytest.mark.parametrize("name", ["policy.pth", "a.pth"])
def test_a_state_dict_is_named_without_its_suffix(name: str) -> None:
    with pytest.raises(sbformat.ContainerError, match="expected the name of a state dict"):
        sbformat.read(PPO).replace(parameters={name: {"x": np.ones(1)}})


def test_base64_that_is_not_of_its_pickle_is_refused() -> None:
    archive = sbformat.read(PPO)
    with pytest.raises(sbformat.DataError, match="expected the base64"):
        archive.replace(data={"k": sbformat.Serialized("t", b"x", text="AAAA")})


def test_links_in_a_folder_do_not_get_into_an_archive(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    folder = tmp_path / "unzipped"
    folder.mkdir()
    for name, content in entries().items():
        (tmp_path / name).write_bytes(content)
        (folder / name).symlink_to(tmp_path / name)  # as a download cache has them
    (folder / "notes.txt").symlink_to(tmp_path / "secret")
    archive = sbformat.read(folder)
    assert "notes.txt" not in archive.entries
    assert sbformat.reads(sbformat.writes(archive)) == sbformat.read(PPO)


@pytest.mark.parametrize(
    "value",
    [{1 << 20000, 1}, frozenset({1 << 20000}), {(1 << 20000, 1): 2}, {(1 << 20000,): [{(1, 1 << 20000)}]}],
    ids=["set", "frozenset", "key", "nested"],
)
def test_numbers_of_any_length_are_written_and_named(value: Any, tmp_path: Path) -> None:
    archive = sbformat.read(PPO).replace(parameters={"q": {"x": value, "w": np.ones(1)}})
    again = sbformat.reads(sbformat.writes(archive))
    assert again == archive
    assert len(list(again.parameters["q"].leaves())) == 2
    sbformat.write(again, tmp_path / "o.zip", reencode=True)
    assert sbformat.read(tmp_path / "o.zip") == archive


def test_a_policy_of_many_small_tensors_can_be_written(tmp_path: Path) -> None:
    """What is written may be read again with what a reader is granted for its size."""
    weights = sbformat.StateDict.from_arrays({f"w{number}": np.full(16, number, "f4") for number in range(3_000)})
    limits = sbformat.Limits(memory_bytes=12_000_000)
    archive = sbformat.read(PPO, limits=limits).replace(parameters={"policy": weights})
    sbformat.write(archive, tmp_path / "many.zip")
    assert len(sbformat.read(tmp_path / "many.zip", limits=limits).parameters["policy"].tree) == 3_000
