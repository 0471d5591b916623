"""write_arrays, extract and atomic: files that are whole or not there."""

from __future__ import annotations

import io
import os
import stat
import zipfile
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save

import sbformat
from sbformat.arrayfiles.writer import detect_format, write_arrays
from sbformat.errors import UnsupportedError
from sbformat.io.atomic import new_file, new_folder
from sbformat.pth import StateDict, TensorInfo
from sbformat.pth.values import Storage
from sbformat.tools.extract import extract
from tests.helpers.bundled import PPO, SAC
from tests.helpers.pth_checks import hide_extension_dtype

if TYPE_CHECKING:
    from pathlib import Path

EXPECTED = sbformat.read(PPO).parameters["policy"].to_numpy()


def load(path: Path) -> dict[str, np.ndarray]:
    """What a file or folder of arrays holds, by the libraries that users have."""
    if path.suffix == ".safetensors":
        return load_file(path)
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as file:
            return dict(file)
    return {item.relative_to(path).as_posix().removesuffix(".npy"): np.load(item) for item in path.rglob("*.npy")}


@pytest.mark.parametrize("name", ["out.safetensors", "out.npz", "out"])
def test_extract_writes_what_the_libraries_read(tmp_path: Path, name: str) -> None:
    report = extract(sbformat.read(PPO), tmp_path / name)
    found = load(tmp_path / name)
    assert set(found) == set(EXPECTED) == set(report.tensors)
    assert all(np.array_equal(found[key], EXPECTED[key]) for key in EXPECTED)
    assert report.nbytes == sum(array.nbytes for array in EXPECTED.values())
    assert report.left_behind == 0
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("name", ["out.safetensors", "out.npz", "out"])
def test_extract_all_names_the_entry(tmp_path: Path, name: str) -> None:
    archive = sbformat.read(SAC)
    report = extract(archive, tmp_path / name, entry="all")
    separator = "/" if name == "out" else ":"
    assert f"pytorch_variables{separator}log_ent_coef" in report.tensors
    assert f"actor.optimizer{separator}state/[0]/exp_avg" in report.tensors
    assert report.left_behind > 0
    found = load(tmp_path / name)
    assert set(found) == set(report.tensors)
    key = f"critic.optimizer{separator}state/[0]/exp_avg"
    assert np.array_equal(found[key], archive.parameters["critic.optimizer"]["state"][0]["exp_avg"])


@pytest.mark.parametrize("name", ["out.safetensors", "out.npz"])
def test_the_same_tensors_give_the_same_bytes(tmp_path: Path, name: str) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        extract(sbformat.read(PPO), tmp_path / folder / name)
    assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_glob_selects(tmp_path: Path) -> None:
    report = extract(sbformat.read(PPO), tmp_path / "o.npz", tensors="*.bias")
    assert len(report.tensors) == 6
    with pytest.raises(sbformat.MissingEntryError, match="matches"):
        extract(sbformat.read(PPO), tmp_path / "p.npz", tensors="nothing*")
    with pytest.raises(sbformat.MissingEntryError, match="'policy'"):
        extract(sbformat.read(PPO), tmp_path / "p.npz", entry="polcy")
    assert os.listdir(tmp_path) == ["o.npz"]


@pytest.mark.parametrize("name", ["out.safetensors", "out.npz", "out"])
def test_nothing_is_overwritten_unasked(tmp_path: Path, name: str) -> None:
    extract(sbformat.read(PPO), tmp_path / name)
    before = load(tmp_path / name)
    with pytest.raises(FileExistsError):
        extract(sbformat.read(SAC), tmp_path / name)
    assert set(load(tmp_path / name)) == set(before)
    extract(sbformat.read(SAC), tmp_path / name, overwrite=True)
    assert set(load(tmp_path / name)) != set(before)
    assert os.listdir(tmp_path) == [name]


def test_a_folder_with_anything_else_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    with pytest.raises(FileExistsError, match=r"other than \.npy"):
        extract(sbformat.read(PPO), tmp_path / "mine", overwrite=True)
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "years of work"
    assert os.listdir(tmp_path) == ["mine"]


def test_the_suffix_tells_the_format(tmp_path: Path) -> None:
    assert [detect_format(name) for name in ("a.safetensors", "a.npz", "a", "a.b/")] == [
        "safetensors", "npz", "npy-folder", "npy-folder",
    ]  # fmt: skip
    with pytest.raises(sbformat.UnsupportedError, match="suffix"):
        extract(sbformat.read(PPO), tmp_path / "out.h5")


@pytest.mark.parametrize(
    ("arrays", "name", "words"),
    [
        ({"__metadata__": np.zeros(1)}, "o.safetensors", "__metadata__"),
        ({"a": np.zeros(1, "c16")}, "o.safetensors", "safetensors has no dtype"),
        ({"a": np.zeros(1), "a.npy": np.zeros(1)}, "o.npz", "cannot contain both"),
        ({"a": np.zeros(1, ml_dtypes.bfloat16)}, "o.npz", "bfloat16"),
        ({"a": np.zeros(1, ml_dtypes.bfloat16)}, "o", "bfloat16"),
        ({"A": np.zeros(1), "a": np.zeros(1)}, "o", "are equal when case is folded"),
        ({"../a": np.zeros(1)}, "o", "file names"),
        ({"a:b": np.zeros(1)}, "o", "file names"),
        ({"nul": np.zeros(1)}, "o", "file names"),
        ({"a": "no array"}, "o.npz", "not an array"),
    ],
)
def test_what_a_format_cannot_hold_is_refused_before_anything_is_written(
    tmp_path: Path, arrays: dict[str, np.ndarray], name: str, words: str
) -> None:
    with pytest.raises(sbformat.UnsupportedError, match=words):
        write_arrays(arrays, tmp_path / name)
    assert os.listdir(tmp_path) == []


def test_npz_holds_the_names_that_savez_cannot(tmp_path: Path) -> None:
    arrays = {"file": np.arange(2), "allow_pickle": np.arange(3), "a/b:c": np.array(1, "f4")}
    write_arrays(arrays, tmp_path / "o.npz")
    assert {key: value.tolist() for key, value in load(tmp_path / "o.npz").items()} == {
        key: value.tolist() for key, value in arrays.items()
    }


def test_safetensors_holds_bfloat16_strided_and_zero_dim(tmp_path: Path) -> None:
    arrays = {
        "b": np.arange(4).astype(ml_dtypes.bfloat16),
        "t": np.arange(6, dtype="f4").reshape(2, 3).T,
        "z": np.array(2.5, "f4"),
    }
    write_arrays(arrays, tmp_path / "o.safetensors", metadata={"entry": "policy"})
    from safetensors import safe_open

    with safe_open(tmp_path / "o.safetensors", "np") as file:
        assert file.metadata() == {"entry": "policy"}
        assert file.get_tensor("t").tolist() == [[0, 3], [1, 4], [2, 5]]
        assert file.get_tensor("z").shape == ()
        assert file.get_slice("b").get_dtype() == "BF16"


def test_what_numpy_lacks_is_written_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its bytes lie in the archive as they have to; only an array in another order would have to be made."""
    hide_extension_dtype(monkeypatch, "bfloat16")
    storage = Storage("0", "bfloat16", 6, "cpu", "little", lambda _: memoryview(bytes(range(12))), "0")
    state = tensors().with_tree({"a": TensorInfo("bfloat16", (2, 3), (3, 1), 0, storage)})
    write_arrays({"a": state.stream("a")}, tmp_path / "o.safetensors")
    assert (tmp_path / "o.safetensors").read_bytes().endswith(bytes(range(12)))
    with pytest.raises(UnsupportedError, match="bfloat16, which .npy does not support"):
        write_arrays({"a": state.stream("a")}, tmp_path / "o.npz")
    turned = state.with_tree({"a": TensorInfo("bfloat16", (2, 3), (1, 2), 0, storage)})
    with pytest.raises(UnsupportedError, match=r"sbformat\[dtypes\]"):
        turned.stream("a")


# -- atomic -------------------------------------------------------------------------------------------


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "o"
    target.write_text("old")
    with pytest.raises(KeyError), new_file(target, overwrite=True) as temporary:
        temporary.write_text("half")
        raise KeyError
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["o"]


def test_the_mode_is_kept_and_links_are_followed(tmp_path: Path) -> None:
    target, link = tmp_path / "o", tmp_path / "link"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    with new_file(link, overwrite=True) as temporary:
        temporary.write_text("new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


@pytest.mark.parametrize("name", ["o.safetensors", "o.npz"])
def test_a_new_file_has_the_mode_that_any_new_file_has(tmp_path: Path, name: str) -> None:
    (tmp_path / "plain").write_text("")
    write_arrays({"a": np.zeros(1)}, tmp_path / name)
    assert stat.S_IMODE((tmp_path / name).stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


def test_a_file_that_another_process_made_meanwhile_is_kept(tmp_path: Path) -> None:
    target = tmp_path / "o"
    with pytest.raises(FileExistsError), new_file(target, overwrite=False) as temporary:
        temporary.write_text("mine")
        target.write_text("theirs")
    assert target.read_text() == "theirs"
    assert os.listdir(tmp_path) == ["o"]


def test_a_target_that_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="regular"), new_file(tmp_path / "pipe", overwrite=True):
        pass


def test_a_folder_is_whole_or_not_there(tmp_path: Path) -> None:
    with pytest.raises(KeyError), new_folder(tmp_path / "o", overwrite=False, replaceable_suffix=".npy") as temporary:
        (temporary / "a.npy").write_text("half")
        raise KeyError
    assert os.listdir(tmp_path) == []


def test_a_folder_is_replaced_only_when_it_is_one_of_arrays(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a.npy").write_text("mine")
    target = tmp_path / "target"
    target.mkdir()
    (target / "link").symlink_to(elsewhere)
    for overwrite in (False, True):
        with pytest.raises(FileExistsError):
            write_arrays({"a": np.zeros(1)}, target, overwrite=overwrite)
    assert (target / "link").is_symlink()
    assert (elsewhere / "a.npy").read_text() == "mine"
    (target / "link").unlink()
    write_arrays({"a": np.zeros(1)}, target)
    assert os.listdir(target) == ["a.npy"]


@pytest.mark.parametrize("name", ["a\0b", "a\ud800", "", "x" * 70_000])
@pytest.mark.parametrize("output", ["o.safetensors", "o.npz", "o"])
def test_names_that_no_file_can_hold_are_refused(tmp_path: Path, name: str, output: str) -> None:
    with pytest.raises(sbformat.UnsupportedError):
        write_arrays({name: np.zeros(1)}, tmp_path / output)
    assert os.listdir(tmp_path) == []


def test_a_folder_gets_no_terminal_commands_as_names(tmp_path: Path) -> None:
    with pytest.raises(sbformat.UnsupportedError):
        write_arrays({"a\x1b[31m": np.zeros(1)}, tmp_path / "o")


def test_a_long_name_leaves_room_for_a_temporary(tmp_path: Path) -> None:
    write_arrays({"a": np.zeros(1)}, tmp_path / ("\U0001f916" * 62 + ".npz"))
    assert len(os.listdir(tmp_path)) == 1


# -- in pieces ----------------------------------------------------------------------------------------


def many() -> dict[str, np.ndarray]:
    """Arrays of every dtype, in every order in memory."""
    random = np.random.default_rng(0)
    arrays: dict[str, np.ndarray] = {}
    for code in ("b1", "u1", "i1", "u2", "i2", "f2", "u4", "i4", "f4", "u8", "i8", "f8", "c8"):
        array = (random.random((5, 7, 3)) * 2).astype(code)
        arrays |= {
            code: array, f"T{code}": array.T, f"s{code}": array[::2, ::-1], f"k{code}": array.transpose(1, 0, 2),
            f"z{code}": array[:0], f"0{code}": array[0, 0, :1].reshape(()), f"1{code}": array[:, :1].T,
            f"e{code}": np.broadcast_to(array[:1], (4, 7, 3)),
        }  # fmt: skip
    large = np.arange(3_000_000, dtype="f4").reshape(1000, 3000)
    return {**arrays, "large": large, "largeT": large.T, "\u00e9": np.zeros(3)}


def test_safetensors_are_those_of_the_library_byte_for_byte(tmp_path: Path) -> None:
    arrays = many()
    arrays |= {name: np.arange(8).astype(name).reshape(2, 4) for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2")}
    arrays['"\\\n\x01\x7f\u2028/'] = np.zeros(2)
    metadata = {"k": 'a "\u00e9" \n'}
    write_arrays(arrays, tmp_path / "o.safetensors", metadata=metadata)
    expected = save({name: np.asarray(array, order="C") for name, array in arrays.items()}, metadata)
    assert (tmp_path / "o.safetensors").read_bytes() == expected
    write_arrays({}, tmp_path / "none.safetensors", metadata=metadata)
    assert (tmp_path / "none.safetensors").read_bytes() == save({}, metadata)


def test_npy_are_those_of_numpy_byte_for_byte(tmp_path: Path) -> None:
    arrays = {**many(), "text": np.array(["ab", "c"]), "date": np.array(["2020-01-01"], "M8[D]")}
    write_arrays(arrays, tmp_path / "o.npz")
    with zipfile.ZipFile(tmp_path / "o.npz") as file:
        for name, array in arrays.items():
            expected = io.BytesIO()
            np.lib.format.write_array(expected, array)
            assert file.read(f"{name}.npy") == expected.getvalue(), name


def test_other_byte_orders_become_little_endian(tmp_path: Path) -> None:
    array = np.arange(6, dtype=">i4").reshape(2, 3)
    for name in ("o.safetensors", "o.npz"):
        write_arrays({"a": array, "t": array.T}, tmp_path / name)
        found = load(tmp_path / name)
        assert found["a"].tolist() == array.tolist()
        assert found["t"].tolist() == array.T.tolist()


@pytest.mark.parametrize("name", ["o.safetensors", "o.npz", "o"])
def test_objects_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(sbformat.UnsupportedError):
        write_arrays({"a": np.array([{}])}, tmp_path / name)
    assert os.listdir(tmp_path) == []


def tensors() -> StateDict:
    """Tensors of one storage, in every order, and what has to be computed."""
    base = np.arange(24, dtype="f4").reshape(2, 3, 4)
    views = {"c": base, "f": base.transpose(2, 1, 0), "k": base.transpose(1, 0, 2), "part": base[1], "row": base[:, 1]}
    state = StateDict.from_arrays(
        {**views, "flag": np.array([True, False]), "none": np.zeros((0, 3)), "one": base[0, 0, 0]}
    )
    expanded = state.info("part")._replace(shape=(5, 4), strides=(0, 1))
    negative = state.info("part")._replace(neg=True)
    return state.with_tree({**state.tree, "expanded": expanded, "negative": negative})


@pytest.mark.parametrize("name", ["o.safetensors", "o.npz", "o"])
def test_a_stream_writes_what_its_array_does(tmp_path: Path, name: str) -> None:
    state = tensors()
    paths = list(state.tensors())
    write_arrays({path: state.stream(path) for path in paths}, tmp_path / name)
    (tmp_path / "whole").mkdir()
    write_arrays({path: np.asarray(state.array(path)) for path in paths}, tmp_path / "whole" / name)
    if name == "o":
        for path in paths:
            assert (tmp_path / name / f"{path}.npy").read_bytes() == (
                tmp_path / "whole" / name / f"{path}.npy"
            ).read_bytes()
    else:
        assert (tmp_path / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_stream_says_what_its_array_is() -> None:
    state = tensors()
    for path in state.tensors():
        stream, array = state.stream(path), state.array(path)
        assert (stream.dtype, stream.itemsize, stream.shape) == (array.dtype.name, array.itemsize, array.shape)
        assert stream.nbytes == array.nbytes
        assert b"".join(map(bytes, stream.in_c_order())) == array.tobytes()


def test_big_endian_storages_are_swapped_in_pieces(tmp_path: Path) -> None:
    raw = np.arange(600_000, dtype=">f4")
    storage = Storage("0", "float32", raw.size, "cpu", "big", lambda _: memoryview(raw.tobytes()), "0")
    state = tensors().with_tree({"a": TensorInfo("float32", (300_000, 2), (2, 1), 0, storage)})
    write_arrays({"a": state.stream("a")}, tmp_path / "o.npz")
    assert np.array_equal(load(tmp_path / "o.npz")["a"], raw.reshape(-1, 2))


def test_bytes_that_are_wrong_leave_no_file_behind(tmp_path: Path) -> None:
    storage = Storage("0", "bool", 3, "cpu", "little", lambda _: memoryview(b"\0\1\2"), "0")
    state = tensors().with_tree({"a": TensorInfo("bool", (3,), (1,), 0, storage)}).named("policy.pth")
    for name in ("o.safetensors", "o.npz", "o"):
        with pytest.raises(sbformat.TensorError, match=r"policy\.pth: expected only bytes 0 and 1 in the bool storage"):
            write_arrays({"a": state.stream("a")}, tmp_path / name)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["o.safetensors", "o.npz", "o"])
def test_progress_is_told_in_bytes(tmp_path: Path, name: str) -> None:
    told: list[int] = []
    report = extract(sbformat.read(PPO), tmp_path / name, progress=told.append)
    assert sum(told) == report.nbytes
