"""``read_arrays``: files of arrays by other tools, read strictly; nothing is unpickled or evaluated."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save, save_file

import sbformat
from conformance.generators.build_zips import is_terminal_safe
from sbformat import ContainerError, LimitError, Limits, SbformatError, TensorError, UnsupportedError
from sbformat.arrayfiles.reader import read_arrays, read_safetensors
from tests.helpers.pth_checks import hide_extension_dtype
from tests.helpers.sampling import more_examples

if TYPE_CHECKING:
    from pathlib import Path

PLAIN: dict[str, np.ndarray] = {
    "matrix": np.arange(6, dtype="f4").reshape(2, 3),
    "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "zero-dim": np.array(2.5),
    "empty": np.zeros((0, 5), "i8"),
    "big-endian": np.arange(3, dtype=">i4"),
    "bool": np.array([True, False]),
    "half": np.arange(3, dtype="f2"),
    "complex": np.array([1 + 2j], "c8"),
    "wide": np.array([2**64 - 1], "u8"),
    "signs/\u00e9": np.array([-0.0, np.nan, np.inf]),
}


def assert_same(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes()
        assert not found[name].flags.writeable


@pytest.mark.parametrize("save_npz", [np.savez, np.savez_compressed])
def test_npz_of_numpy_is_read(tmp_path: Path, save_npz: Any) -> None:
    save_npz(tmp_path / "a.npz", **PLAIN)
    found = read_arrays(tmp_path / "a.npz")
    assert_same(found, PLAIN)
    assert list(found) == list(PLAIN)
    assert found["fortran"].flags.f_contiguous


def npz(tmp_path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> Path:
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", method) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


def npy(header: str, data: bytes = b"", version: int = 1) -> bytes:
    raw = header.encode("latin-1")
    length = struct.pack("<H" if version == 1 else "<I", len(raw))
    return b"\x93NUMPY" + bytes([version, 0]) + length + raw + data


def header(descr: str = "'<f4'", order: str = "False", shape: str = "(2,)") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n"


@pytest.mark.parametrize(
    "text",
    [
        header(),
        header(shape="(2L,)"),
        header(shape="(1, 2)"),
        header(descr="'f4'"),
        "{'shape':(2,),'fortran_order':True,'descr':'<f4'}",
        header() + " " * 60_000,
    ],
)
@pytest.mark.parametrize("version", [1, 2, 3])
def test_npy_headers_in_every_spelling_are_read(tmp_path: Path, text: str, version: int) -> None:
    if "L" in text and version == 3:  # numpy >= 1.17, which Python 2 never had
        with pytest.raises(UnsupportedError):
            read_arrays(npz(tmp_path, {"a.npy": npy(text, bytes(8), version)}))
        return
    found = read_arrays(npz(tmp_path, {"a.npy": npy(text, bytes(8), version)}))
    assert (found["a"].dtype, found["a"].size) == (np.dtype("f4"), 2)


@pytest.mark.parametrize(
    ("content", "kind", "words"),
    [
        (npy(header("'|O'"), b"\x80\x04N."), UnsupportedError, "need a pickle"),
        (npy(header("'<U3'"), bytes(24)), UnsupportedError, "plain numbers"),
        (npy(header("'|V2'"), bytes(4)), UnsupportedError, "plain numbers"),
        (npy(header("'<M8[s]'"), bytes(16)), UnsupportedError, "plain numbers"),
        (npy(header("[('a', '<f4')]"), bytes(8)), UnsupportedError, "header"),
        (npy(header("'<f3'"), bytes(6)), UnsupportedError, "unknown numpy dtype"),
        (npy(header("__import__('os').system('true')"), bytes(8)), UnsupportedError, "header"),
        (npy(header(shape="(2,) if 1 else ()"), bytes(8)), UnsupportedError, "header"),
        (npy(header(shape="(-2,)"), bytes(8)), UnsupportedError, "header"),
        (npy(header(shape="(9223372036854775807, 9223372036854775807)"), bytes(8)), TensorError, "for its shape"),
        (npy(header(shape=f"({'9999999999999999999, ' * 30})"), bytes(8)), TensorError, "expected 2\\^"),
        (npy(header(shape=f"({'9' * 30},)"), bytes(8)), UnsupportedError, "plain numbers"),
        (npy(header(shape=f"({'0, ' * 33})")), LimitError, "tensor_rank"),
        (npy(header(shape="(0, 9223372036854775808, 9223372036854775807)")), UnsupportedError, "cannot represent"),
        (npy(header(), bytes(7)), TensorError, "expected 8 bytes for its shape, got 7"),
        (npy(header(), bytes(9)), TensorError, "expected 8 bytes for its shape, got 9"),
        (npy(header("'|b1'"), b"\x02\x00"), TensorError, "0 and 1"),
        (npy(header("'|b1'", shape="()"), b"\x02"), TensorError, "0 and 1"),
        (npy("{'descr': '<f4', 'descr': '<f4', 'descr': '<f4'}", bytes(8)), UnsupportedError, "each once"),
        (npy("{'descr': '<f4', 'fortran_order': False, 'descr': '<f4'}", bytes(4)), UnsupportedError, "each once"),
        (npy("{'descr': '<f4' 'fortran_order': False 'shape': (2,)}", bytes(8)), UnsupportedError, "header"),
        (npy(header(shape="(2)"), bytes(8)), UnsupportedError, "header"),
        (npy(header(shape="(02,)"), bytes(8)), UnsupportedError, "header"),
        (npy(header() + "\x0c", bytes(8)), UnsupportedError, "header"),
        (npy("{'descr': '<f4'" + " " * 60_000 + "x"), UnsupportedError, "header"),
        (npy("(" * 60_000), UnsupportedError, "header"),
        (npy(header(), version=4), TensorError, "version 1 to 3"),
        (b"\x93NUMPY", TensorError, "version 1 to 3"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + bytes(20), TensorError, "is longer than"),
        (b"\x93NUMPY\x01\x00\xff\x00" + bytes(20), TensorError, "is longer than"),
        (b"\x80\x04N.", TensorError, "version 1 to 3"),
        (b"", TensorError, "version 1 to 3"),
    ],
)
def test_hostile_npy_is_refused(tmp_path: Path, content: bytes, kind: type[SbformatError], words: str) -> None:
    with pytest.raises(kind, match=words) as caught:
        read_arrays(npz(tmp_path, {"a.npy": content}))
    assert caught.value.entry == "a.npy"
    assert is_terminal_safe(str(caught.value))


def test_object_arrays_are_refused_with_their_pickle_unread(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", a=np.array([{"a": 1}], dtype=object))
    with pytest.raises(UnsupportedError, match="need a pickle"):
        read_arrays(tmp_path / "a.npz")


def test_a_zip_of_anything_else_is_no_npz(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="named ..npy"):
        read_arrays(npz(tmp_path, {"data": b"{}"}))


def test_a_bomb_is_refused_before_it_is_inflated(tmp_path: Path) -> None:
    content = npy(header(shape="(8388608,)"), bytes(1 << 25))
    path = npz(tmp_path, {"a.npy": content}, zipfile.ZIP_DEFLATED)
    with pytest.raises(LimitError, match="memory_bytes|ratio"):
        read_arrays(path)
    with pytest.raises(LimitError, match="ratio"):
        read_arrays(path, limits=Limits(memory_bytes=1 << 30))
    assert read_arrays(path, limits=Limits(ratio=2000, memory_bytes=1 << 30))["a"].shape == (1 << 23,)


def test_damaged_npz_is_refused(tmp_path: Path) -> None:
    path = npz(tmp_path, {"a.npy": npy(header(), b"\xab\xcd" * 4)})
    raw = path.read_bytes()
    path.write_bytes(raw.replace(b"\xab\xcd", b"\xab\xce", 1))
    with pytest.raises(ContainerError, match="CRC"):
        read_arrays(path)
    path.write_bytes(raw[:-4])
    with pytest.raises(ContainerError):
        read_arrays(path)


def test_numpy_loads_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "a.npz", **PLAIN)
    for name in ("load", "fromfile"):
        monkeypatch.setattr(np, name, pytest.fail)
    for name in ("read_array", "read_array_header_1_0", "read_array_header_2_0"):
        monkeypatch.setattr(np.lib.format, name, pytest.fail)
    assert_same(read_arrays(tmp_path / "a.npz"), PLAIN)


# -- safetensors --------------------------------------------------------------------------------------


def test_safetensors_of_the_library_is_read(tmp_path: Path) -> None:
    arrays = {name: array.astype(array.dtype.newbyteorder("="), order="C") for name, array in PLAIN.items()}
    del arrays["complex"]  # not every release of the library has it
    arrays |= {
        "bfloat16": np.arange(4).astype(ml_dtypes.bfloat16),
        "e4m3": np.arange(4).astype(ml_dtypes.float8_e4m3fn),
        "e5m2": np.arange(4).astype(ml_dtypes.float8_e5m2).reshape(2, 2),
    }
    save_file(arrays, tmp_path / "a.safetensors", {"made": "by hand"})
    found, metadata = read_safetensors(tmp_path / "a.safetensors")
    assert_same(found, arrays)
    assert metadata == {"made": "by hand"}
    assert read_arrays(tmp_path / "a.safetensors").keys() == arrays.keys()


def row(dtype: object = "F32", shape: object = (2,), span: object = (0, 8), **more: object) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": span, **more}


def forged(tmp_path: Path, head: object, data: bytes = bytes(8), *, length: int | None = None) -> Path:
    raw = head if isinstance(head, bytes) else json.dumps(head).encode()
    path = tmp_path / "a.safetensors"
    path.write_bytes(struct.pack("<Q", len(raw) if length is None else length) + raw + data)
    return path


@pytest.mark.parametrize(
    ("dtype", "wanted", "size"),
    [
        ("C64", "complex64", 8),
        ("F8_E4M3FNUZ", "float8_e4m3fnuz", 1),
        ("F8_E8M0", "float8_e8m0fnu", 1),
        ("U16", "u2", 2),
    ],
)
def test_dtypes_that_not_every_library_has_are_read(tmp_path: Path, dtype: str, wanted: str, size: int) -> None:
    found = read_arrays(forged(tmp_path, {"a": row(dtype, [2], [0, 2 * size])}, bytes(2 * size)))
    assert found["a"].dtype == np.dtype(getattr(ml_dtypes, wanted, wanted))


def test_padding_and_unknown_facts_are_read_over(tmp_path: Path) -> None:
    text = json.dumps({"a": row(note="mine", **{":serialized:": "AAAA"}), "__metadata__": {}}).encode() + b"    "
    assert read_safetensors(forged(tmp_path, text))[0]["a"].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("head", "data", "kind", "words"),
    [
        ({"a": row()}, bytes(7), ContainerError, "overlap, or leave a gap"),
        ({"a": row()}, bytes(9), ContainerError, "overlap, or leave a gap"),
        ({}, bytes(1), ContainerError, "overlap, or leave a gap"),
        ({"a": row(), "b": row(span=[4, 12])}, bytes(12), ContainerError, "overlap, or leave a gap"),
        ({"a": row(), "b": row(span=[12, 20])}, bytes(20), ContainerError, "overlap, or leave a gap"),
        ({"a": row(), "b": row()}, bytes(8), ContainerError, "overlap, or leave a gap"),
        ({"a": row(span=[8, 0])}, bytes(8), ContainerError, "end before"),
        ({"a": row(span=[0, 8, 8])}, bytes(8), ContainerError, "offsets"),
        ({"a": row(span=[False, 8])}, bytes(8), ContainerError, "offsets"),
        ({"a": row(shape=[-2])}, bytes(8), ContainerError, "offsets"),
        ({"a": row(shape=[2.0])}, bytes(8), ContainerError, "offsets"),
        ({"a": row(shape="2")}, bytes(8), ContainerError, "offsets"),
        ({"a": row(dtype=None)}, bytes(8), ContainerError, "offsets"),
        ({"a": {}}, b"", ContainerError, "offsets"),
        ({"a": 1}, b"", ContainerError, "expected an object that"),
        ({"a": row(shape=[3])}, bytes(8), TensorError, "expected 12 bytes"),
        ({"a": row(shape=[2**62] * 20)}, bytes(8), TensorError, r"expected 2\^"),
        ({"a": row(shape=[1] * 33)}, bytes(8), LimitError, "tensor_rank"),
        ({"a": row(shape=[0, 2**63, 2**63], span=[0, 0])}, b"", UnsupportedError, "cannot represent"),
        ({"a": row("BOOL", [2], [0, 2])}, b"\x01\x02", TensorError, "0 and 1"),
        ({"a": row("F4", [4], [0, 2])}, bytes(2), UnsupportedError, "F4"),
        ({"a": row("\x1b[2J" * 99)}, bytes(8), UnsupportedError, "numpy"),
        ({"__metadata__": {"a": 1}}, b"", ContainerError, "metadata"),
        ({"__metadata__": []}, b"", ContainerError, "metadata"),
        ([], b"", ContainerError, "JSON"),
        (b"{" * 100_000, b"", LimitError, "json_depth"),
        (b'{"a":1,"a":1}', b"", ContainerError, "twice"),
        (b"{'a': 1}", b"", ContainerError, "JSON"),
        (b"\xff\xfe", b"", ContainerError, "UTF-8"),
        (b'{"' + b"\x1b[31m" * 90 + b'": 1}', b"", ContainerError, "JSON"),
        (b'{"\\u001b[31m\\ud800": 1}', b"", ContainerError, "expected an object that"),
    ],
)
def test_hostile_safetensors_is_refused(
    tmp_path: Path, head: object, data: bytes, kind: type[SbformatError], words: str
) -> None:
    with pytest.raises(kind, match=words) as caught:
        read_arrays(forged(tmp_path, head, data))
    assert is_terminal_safe(str(caught.value))


def test_a_header_that_is_too_long_is_refused(tmp_path: Path) -> None:
    for length in (2**64 - 1, 2**40, 100):
        with pytest.raises(ContainerError, match="header"):
            read_arrays(forged(tmp_path, {}, length=length))
    (tmp_path / "a.safetensors").write_bytes(b"\x08\0\0")
    with pytest.raises(ContainerError, match="3 bytes"):
        read_arrays(tmp_path / "a.safetensors")
    with pytest.raises(LimitError, match="json_bytes"):
        read_arrays(forged(tmp_path, b"{" + b" " * 5000 + b"}"), limits=Limits(json_bytes=5000))


@more_examples(200)
@given(st.data())
def test_damaged_files_give_arrays_or_one_of_our_errors(tmp_path_factory: Any, data: st.DataObject) -> None:
    """A file of arrays with any bytes changed is read, or refused: nothing else happens."""
    buffer = io.BytesIO()
    arrays = {"a": np.arange(3, dtype="f4"), "b": np.array([True])}
    np.savez(buffer, **arrays)
    suffix, raw = data.draw(st.sampled_from([(".npz", buffer.getvalue()), (".safetensors", save(arrays))]))
    damaged = bytearray(raw)
    for at, value in data.draw(st.lists(st.tuples(st.integers(0, len(raw) - 1), st.integers(0, 255)), max_size=4)):
        damaged[at] = value
    path = tmp_path_factory.getbasetemp() / f"damaged{suffix}"
    path.write_bytes(damaged[: data.draw(st.sampled_from([len(raw), len(raw) - 1, len(raw) // 2]))])
    try:
        read_arrays(path)
        told = ""
    except SbformatError as error:
        told = str(error)
    assert is_terminal_safe(told)


# -- both ---------------------------------------------------------------------------------------------


def test_other_suffixes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="npz"):
        read_arrays(tmp_path / "a.npy")


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_the_system_says_what_it_refuses(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(FileNotFoundError):
        read_arrays(tmp_path / f"nothing{suffix}")
    (tmp_path / f"folder{suffix}").mkdir()
    with pytest.raises((OSError, sbformat.UnsupportedError)):
        read_arrays(tmp_path / f"folder{suffix}")


def test_dtypes_of_the_extra_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hide_extension_dtype(monkeypatch, "bfloat16")
    with pytest.raises(UnsupportedError, match="sbformat.dtypes") as caught:
        read_arrays(forged(tmp_path, {"b": row("BF16", [2], [0, 4])}, bytes(4)))
    assert caught.value.entry == "b"
