"""read, reads, read_parameters, safe_open: every form an archive comes in."""

from __future__ import annotations

import gc
import io
import os
import threading
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import sbformat
from conformance.generators.build_pth import torch_zip, without_crcs
from conformance.generators.build_zips import state_dict_pickle
from sbformat.arrayfiles.reader import read_safetensors
from sbformat.io.source import BytesSource
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pkl.tree import Unread
from tests.helpers import thresholds
from tests.helpers.bundled import ARCHIVES, PPO, SAC, changed, entries, zipped

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_every_kind_of_source_gives_the_same() -> None:
    data = PPO.read_bytes()
    with PPO.open("rb") as file, PPO.open("rb", buffering=0) as raw:
        sources = [str(PPO), PPO, data, bytearray(data), memoryview(data), io.BytesIO(data), file, raw]
        archives = [sbformat.read(source) for source in sources]
    assert all(archive == archives[0] for archive in archives)
    assert sbformat.reads(data) == archives[0]


def test_a_buffer_is_read_from_its_start_as_sb3_does() -> None:
    buffer = io.BytesIO()
    buffer.write(PPO.read_bytes())
    assert sbformat.read(buffer) == sbformat.read(PPO)


def test_a_bare_name_falls_back_to_zip(tmp_path: Path) -> None:
    (tmp_path / "model.zip").write_bytes(PPO.read_bytes())
    assert sbformat.read(tmp_path / "model") == sbformat.read(PPO)


def test_a_path_that_is_not_there_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        sbformat.read(tmp_path / "model")
    assert caught.value.filename == str(tmp_path / "model") or caught.value.filename == tmp_path / "model"


def test_a_pipe_is_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(PPO.read_bytes()))
    writer.start()
    assert sbformat.read(pipe) == sbformat.read(PPO)
    writer.join()


def test_read_holds_the_bytes(tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    path.write_bytes(PPO.read_bytes())
    archive = sbformat.read(path)
    path.write_bytes(b"overwritten")
    assert archive == sbformat.read(PPO)
    data = bytearray(PPO.read_bytes())
    archive = sbformat.reads(data)
    data[:] = bytes(len(data))
    assert archive == sbformat.read(PPO)


def test_a_folder_that_was_unzipped(tmp_path: Path) -> None:
    with zipfile.ZipFile(PPO) as file:
        file.extractall(tmp_path)
    archive = sbformat.read(tmp_path)
    assert archive.format == "folder"
    assert archive == sbformat.read(PPO)
    with sbformat.safe_open(tmp_path) as opened:
        assert len(opened.keys()) == 12


def test_a_folder_without_an_archive(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(sbformat.MissingEntryError, match="data"):
        sbformat.read(tmp_path)


def test_a_lone_pth(tmp_path: Path) -> None:
    path = tmp_path / "actor.optimizer.pth"
    path.write_bytes(entries(SAC)["actor.optimizer.pth"])
    archive = sbformat.read(path)
    assert archive.format == "torch-zip"
    assert list(archive.parameters) == ["actor.optimizer"]
    assert archive.algorithm.name is None
    with pytest.raises(sbformat.MissingEntryError):
        archive.data  # noqa: B018
    assert list(sbformat.reads(path.read_bytes()).parameters) == ["policy"]
    with sbformat.safe_open(path) as opened:
        assert "state/[0]/exp_avg" in opened.keys()  # noqa: SIM118 -- its own method


def test_a_bare_data() -> None:
    archive = sbformat.reads(entries()["data"])
    assert archive.format == "data-json"
    assert archive.data == sbformat.read(PPO).data
    assert archive.algorithm.name == "PPO"
    assert not archive.parameters


REFUSED: dict[str, tuple[bytes, type[sbformat.SbformatError], str]] = {
    "empty": (b"", sbformat.ContainerError, "empty"),
    "text": (b"hello, this is a text file\n", sbformat.ContainerError, "text file"),
    "html": (b"<!DOCTYPE html><html></html>", sbformat.ContainerError, "HTML page"),
    "lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", sbformat.UnsupportedError, "LFS"),
    "binary": (b"\x00\x01\x02\x03" * 20, sbformat.ContainerError, "expected an archive"),
    "other zip": (zipped({"a.txt": b"x"}), sbformat.UnsupportedError, "with 'data' or a '.pth'"),
    "empty zip": (zipped({}), sbformat.ContainerError, "an empty zip"),
    "zipped folder": (
        zipped({f"ppo/{name}": content for name, content in entries().items()}),
        sbformat.UnsupportedError,
        "in the folder",
    ),
    "pickle of nothing": (b"\x80\x04N.", sbformat.UnsupportedError, "a pickle of a nonetype: neither statistics"),
    "pickle of a class": (b"\x80\x04cos\nsystem\n.", sbformat.UnsupportedError, "a pickle of os.system: neither"),
    "pickle cut short": (b"\x80\x04]", sbformat.PickleError, "cut short|truncated|no STOP"),
    "truncated": (PPO.read_bytes()[:-30], sbformat.ContainerError, "cut off"),
    "truncated at a member": (PPO.read_bytes()[:20_000], sbformat.ContainerError, "cut off"),
    "leading bytes": (b"x" + PPO.read_bytes(), sbformat.ContainerError, "expected an archive"),
    "trailing bytes": (PPO.read_bytes() + b"x", sbformat.ContainerError, "bytes were appended"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_archive_gets_one_sentence(name: str) -> None:
    data, error, words = REFUSED[name]
    with pytest.raises(error, match=words) as caught:
        sbformat.reads(data)
    assert "\n" not in str(caught.value)


def test_limits_reach_the_outer_zip() -> None:
    with pytest.raises(sbformat.LimitError, match=r"pass limits=Limits\(outer_entries=\.\.\.\)") as caught:
        sbformat.read(PPO, limits=sbformat.Limits(outer_entries=5))
    assert (caught.value.limit, caught.value.allowed, caught.value.actual) == ("outer_entries", 5, 6)
    assert sbformat.read(PPO, limits=sbformat.Limits(outer_entries=6))


def _read_pickles(archive: sbformat.Archive) -> list[bytes]:
    return [value.pickle for value in archive.data.values() if isinstance(value, sbformat.Serialized)]


@pytest.mark.parametrize(
    ("limit", "get"),
    [
        ("json_bytes", lambda archive: archive.data),
        ("json_depth", lambda archive: archive.data),
        ("json_nodes", lambda archive: archive.data),
        ("blob_bytes", _read_pickles),
        ("blobs_bytes", _read_pickles),
        ("version_bytes", lambda archive: archive.stable_baselines3_version),
        ("system_info_bytes", lambda archive: archive.system_info),
        ("inner_entries", lambda archive: archive.parameters["policy"]),
        ("pickle_bytes", lambda archive: archive.parameters["policy"]),
        ("pickle_opcodes", lambda archive: archive.parameters["policy"]),
        ("pickle_memo", lambda archive: archive.parameters["policy"]),
        ("pickle_stack", lambda archive: archive.parameters["policy"]),
        ("pickle_nodes", lambda archive: archive.parameters["policy"]),
        ("value_depth", lambda archive: archive.parameters["policy.optimizer"]),
        ("tensors", lambda archive: archive.parameters["policy"]),
        ("tensor_rank", lambda archive: archive.parameters["policy"]),
        ("tensor_name_bytes", lambda archive: archive.parameters["policy"]),
    ],
)
def test_every_limit_has_two_sides(limit: str, get: Any) -> None:
    low, high = 0, 10**6
    while high - low > 1:
        middle = (low + high) // 2
        try:
            get(sbformat.read(PPO, limits=sbformat.Limits()._replace(**{limit: middle})))
            high = middle
        except sbformat.LimitError:
            low = middle
    assert 0 < high < 10**6
    with pytest.raises(sbformat.LimitError) as caught:
        get(sbformat.read(PPO, limits=sbformat.Limits()._replace(**{limit: high - 1})))
    assert caught.value.limit == limit


@pytest.mark.parametrize("path", [PPO, SAC])
def test_read_reports_its_progress(tmp_path: Path, path: Path) -> None:
    counts: list[int] = []
    archive = sbformat.read(path, progress=counts.append)
    assert sum(counts) == path.stat().st_size
    assert archive == sbformat.read(path)
    assert sbformat.writes(archive) == sbformat.writes(sbformat.read(path))
    folder = tmp_path / "folder"
    with zipfile.ZipFile(path) as file:
        file.extractall(folder)
    counts.clear()
    assert sbformat.read(folder, progress=counts.append) == archive
    assert sum(counts) == sum(item.stat().st_size for item in folder.iterdir())


def test_read_parameters_has_the_shape_of_get_parameters() -> None:
    parameters = sbformat.read_parameters(SAC)
    assert list(parameters) == ["policy", "actor.optimizer", "critic.optimizer", "ent_coef_optimizer"]
    assert isinstance(parameters["policy"], dict)
    assert isinstance(parameters["policy"]["actor.mu.weight"], np.ndarray)
    assert set(parameters["actor.optimizer"]) == {"state", "param_groups"}
    assert parameters["actor.optimizer"]["param_groups"][0]["lr"] == pytest.approx(3e-4)


def test_arrays_are_read_only_views_and_copies_on_request() -> None:
    archive = sbformat.read(PPO)
    weight = archive.parameters["policy"]["action_net.weight"]
    assert not weight.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        weight[0] = 0
    with pytest.raises(ValueError, match=r"cannot set|WRITEABLE"):
        weight.flags.writeable = True
    copied = sbformat.read(PPO, copy=True).parameters["policy"]["action_net.weight"]
    assert copied.flags.writeable
    assert copied.flags.aligned
    assert np.array_equal(copied, weight)


# -- safe_open ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mmap", [True, False])
def test_safe_open_has_the_interface_of_safetensors(mmap: bool) -> None:  # noqa: FBT001
    expected = sbformat.read(PPO).parameters["policy"].to_numpy()
    with sbformat.safe_open(PPO, mmap=mmap) as opened:
        assert opened.keys() == list(expected)
        for name in opened.keys():  # noqa: SIM118
            assert np.array_equal(opened.get_tensor(name), expected[name])
        part = opened.get_slice("action_net.weight")
        assert part.get_shape() == [2, 8]
        assert part.get_dtype() == "float32"
        assert np.array_equal(part[1:, ::2], expected["action_net.weight"][1:, ::2])
        assert opened.metadata()["stable_baselines3_version"] == "2.9.2"
        with pytest.raises(sbformat.MissingEntryError, match="action_net"):
            opened.get_tensor("action_net.weigth")


def test_arrays_outlive_safe_open() -> None:
    with sbformat.safe_open(PPO, entry="policy.optimizer") as opened:
        array = opened.get_tensor("state/[0]/exp_avg")
    assert array.sum() == array.copy().sum()
    with pytest.raises(ValueError, match="closed"):
        opened.keys()


def test_safe_open_names_what_there_is() -> None:
    with pytest.raises(sbformat.MissingEntryError, match="'actor.optimizer'"):
        sbformat.safe_open(SAC, entry="actor.optimiser")
    with pytest.raises(ValueError, match="framework"):
        sbformat.safe_open(PPO, framework="pt")
    with sbformat.safe_open(SAC, entry="pytorch_variables") as opened:
        assert opened.keys() == ["log_ent_coef"]


def test_safe_open_checks_the_record_it_hands_out_and_no_other() -> None:
    policy = bytearray(entries()["policy.pth"])
    with sbformat.safe_open(bytes(policy)) as opened:
        weight = opened.get_tensor("action_net.weight").tobytes()
    at = bytes(policy).index(weight)
    policy[at] ^= 1
    archive = changed(policy_pth=bytes(policy))
    with sbformat.safe_open(archive) as opened:
        assert opened.get_tensor("action_net.bias").shape == (2,)
        with pytest.raises(sbformat.ContainerError, match="CRC-32") as caught:
            opened.get_tensor("action_net.weight")
    assert caught.value.entry is not None
    assert caught.value.entry.startswith("policy.pth/archive/data/")


def test_read_checks_the_crc_of_the_entry() -> None:
    data = bytearray(PPO.read_bytes())
    with zipfile.ZipFile(PPO) as file:
        at = file.getinfo("policy.pth").header_offset + 5000
    data[at] ^= 1
    archive = sbformat.reads(bytes(data))
    assert archive.data["gamma"] == 0.99
    with pytest.raises(sbformat.ContainerError, match="CRC-32") as caught:
        archive.parameters["policy"]
    assert caught.value.entry == "policy.pth"


@pytest.mark.parametrize("read", [sbformat.read, sbformat.reads, sbformat.read_parameters, sbformat.safe_open])
def test_a_pth_without_crcs_is_refused_unless_requested(read: Callable[..., Any]) -> None:
    pickle = state_dict_pickle({"w": (1.0,)})
    archive = changed(policy_pth=without_crcs(torch_zip(pickle, {"0": np.float32(1).tobytes()})))

    def read_weight(**options: Any) -> Any:
        found = read(archive, **options)
        if isinstance(found, sbformat.Archive):
            found = found.parameters
        return found.get_tensor("w") if read is sbformat.safe_open else found["policy"]["w"]

    with pytest.raises(sbformat.ContainerError, match="unchecked_crc=True"):
        read_weight()
    assert read_weight(unchecked_crc=True).tolist() == [1.0]


def test_asking_twice_costs_nothing_twice() -> None:
    data = zipped(entries(), zipfile.ZIP_DEFLATED)
    total = sum(map(len, entries().values()))
    archive = sbformat.reads(data, limits=sbformat.Limits(total_bytes=total))
    for _ in range(3):
        for name in archive.entries:
            assert b"".join(archive.stream(name)) == entries()[name]
        assert archive.parameters["policy"].to_numpy()


def test_a_closed_file_says_so() -> None:
    opened = sbformat.safe_open(PPO)
    with opened:
        pass
    with opened:
        pass
    with pytest.raises(ValueError, match="closed"):
        opened.metadata()


def test_what_has_no_slices_says_so() -> None:
    from conformance.generators.build_pth import torch_zip
    from tests.pth.test_decode import REBUILD_META, Apply, Name

    meta = Apply(REBUILD_META, (Name("torch", "float32"), (2,), (1,), False))
    with sbformat.safe_open(torch_zip({"m": meta}, {})) as opened, pytest.raises(sbformat.UnsupportedError):
        opened.get_slice("m")


def test_options_are_checked() -> None:
    with pytest.raises(ValueError, match="on_unknown"):
        sbformat.read(PPO, on_unknown="skip")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Limits"):
        sbformat.read(PPO, limits={})  # type: ignore[arg-type]
    assert list(sbformat.read_parameters(PPO, entries="policy")) == ["policy"]


def test_other_buffers_are_bytes_too(tmp_path: Path) -> None:
    import array
    import mmap

    data = PPO.read_bytes()
    assert sbformat.read(np.frombuffer(data, np.uint8)) == sbformat.read(PPO)  # type: ignore[arg-type]
    assert sbformat.read(array.array("B", data)) == sbformat.read(PPO)  # type: ignore[arg-type]
    with PPO.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        mapped.seek(0, 2)
        assert sbformat.read(mapped) == sbformat.read(PPO)  # type: ignore[arg-type]


def test_a_file_called_pth_is_the_policy(tmp_path: Path) -> None:
    (tmp_path / ".pth").write_bytes(entries()["policy.pth"])
    assert list(sbformat.read(tmp_path / ".pth").parameters) == ["policy"]


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="the system does not list open files")
def test_a_file_is_closed_without_the_garbage_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        before = os.listdir("/proc/self/fd")
        for path in (PPO, PPO):
            with sbformat.safe_open(path) as opened:
                assert len(list(opened.keys())) > 5
            del opened
        assert os.listdir("/proc/self/fd") == before
    finally:
        gc.enable()


@pytest.mark.parametrize("parallel_bytes", [100, 1 << 30], ids=["large", "small"])
def test_no_array_of_a_file_can_be_made_writable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parallel_bytes: int
) -> None:
    monkeypatch.setattr(thresholds.PARALLEL_BYTES, parallel_bytes)
    weights = sbformat.read(PPO).parameters["policy"].to_numpy()
    arrays = {name: weights[name] for name in ("action_net.weight", "action_net.bias")}
    arrays["transposed"] = weights["action_net.weight"].T
    sbformat.write(sbformat.read(PPO).replace(parameters={"policy": arrays}), tmp_path / "agent.zip")
    sbformat.convert(tmp_path / "agent.zip", tmp_path / "agent.safetensors")
    found: list[np.ndarray] = []
    for name in ("agent.zip", "agent.safetensors"):
        found += sbformat.read(tmp_path / name).parameters["policy"].to_numpy().values()
    found += read_safetensors(str(tmp_path / "agent.safetensors"))[0].values()
    found.append(read_npz(tmp_path / "agent.npz", arrays))
    unread = Unread(BytesSource(bytearray(8)), 0, 8)
    found.append(ArrayInfo("<f4", (2,), "C", unread, is_scalar=False).to_numpy())
    buffer = sbformat.read_replay_buffer(ARCHIVES / "replay-buffer-cartpole.pkl")
    found += [part for part in buffer.arrays.values() if isinstance(part, np.ndarray)]
    statistics = sbformat.read_vecnormalize(ARCHIVES / "vecnormalize-pendulum.pkl")
    found.append(statistics.obs_rms.mean)  # type: ignore[union-attr]
    assert len(found) > 8
    for array in found:
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True


def read_npz(path: Path, arrays: dict[str, np.ndarray]) -> np.ndarray:
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return sbformat.read(path).parameters["arrays"].to_numpy()["action_net.bias"]  # type: ignore[no-any-return]
