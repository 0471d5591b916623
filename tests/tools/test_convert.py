"""``convert``: archives to safetensors and back without loss, arrays to ``.pth`` (WRITER.md 12.6)."""

from __future__ import annotations

import glob
import json
import os
import struct
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save_file

import sbformat
from conformance.generators.build_pth import (
    Apply,
    Name,
    Run,
    floats,
    legacy_stream,
    ordered,
    storage,
    tensor,
    torch_zip,
)
from conformance.generators.build_zips import is_terminal_safe
from sbformat import (
    Archive,
    ContainerError,
    DataError,
    LimitError,
    Limits,
    MissingEntryError,
    SbformatError,
    StateDict,
    UnsupportedError,
    pth,
)
from sbformat.formats.array_files import ArrayFile
from sbformat.tools import convert as module
from sbformat.tools.convert import ConvertReport, convert
from sbformat.tools.diff import diff
from tests.helpers.bundled import PPO, SAC, changed, entries, zipped
from tests.helpers.many_cases import check_each
from tests.helpers.shared_files import SHARED, summarize_counts

if TYPE_CHECKING:
    from pathlib import Path

BASE: Final = sbformat.read(PPO)
CONVERTED: Final[Counter[str]] = Counter()

_summary = summarize_counts(CONVERTED, "test_convert.py converted")


def read(path: Path) -> Archive:
    found = sbformat.read(path)
    assert not isinstance(found, ArrayFile)
    return found


def there_and_back(archive: Archive, folder: Path, *, is_zipped: bool = True) -> ConvertReport:
    """To safetensors and back, and into a zip: equal, and ``data`` and what has no tree byte for byte."""
    middle, end = folder / "m.safetensors", folder / "e.zip"
    report = convert(archive, middle, overwrite=True)
    found = [read(middle)]
    if is_zipped:
        convert(found[0], end, overwrite=True)
        found.append(sbformat.read(end))
    for back in found:
        assert not diff(archive, back).changes
        assert set(back.entries) == set(archive.entries)
        for name in {"data", *report.as_bytes} & set(archive.entries):
            assert back.raw(name) == archive.raw(name)
    return report


@pytest.mark.parametrize("path", [PPO, SAC])
def test_the_way_back_gives_an_equal_archive(tmp_path: Path, path: Path) -> None:
    archive = sbformat.read(path)
    report = there_and_back(archive, tmp_path)
    assert report.format == "safetensors"
    assert report.as_bytes == ()
    assert report.entries == tuple(archive.entries)
    assert report.nbytes == os.path.getsize(report.output)
    with safe_open(report.output, "np") as file:
        assert len(list(file.keys())) == report.tensors
        assert list(file.metadata()) == ["sbformat"]
        for name in ("policy", "pytorch_variables"):
            for tensor_name, array in archive.state_dict(f"{name}.pth").to_numpy().items():
                assert np.array_equal(file.get_tensor(f"{name}:{tensor_name}"), array)
    first = (tmp_path / "m.safetensors").read_bytes()
    convert(read(tmp_path / "m.safetensors"), tmp_path / "again.safetensors")
    convert(sbformat.read(tmp_path / "e.zip"), tmp_path / "third.safetensors")
    assert (tmp_path / "third.safetensors").read_bytes() == first


def test_every_archive_of_others_comes_back(tmp_path: Path) -> None:
    """``read(convert(a)) == a``, with ``data`` byte for byte, for every archive that lies beside the project."""
    paths = glob.glob(str(SHARED / "corpus" / "sb3" / "*"))
    generated = glob.glob(str(SHARED / "generated" / "**" / "*.zip"), recursive=True)
    paths += [path for path in generated if os.path.basename(os.path.dirname(path)) != "sb2"]
    if not paths:
        pytest.skip("there is no ../shared beside the project")
    for number, path in enumerate(sorted(paths)):
        try:
            archive = sbformat.read(path)
            for name in archive.entries:
                for _ in archive.stream(name):  # a wrong CRC is refused, not copied
                    pass
        except SbformatError:
            CONVERTED["refused when read"] += 1
            continue
        report = there_and_back(archive, tmp_path, is_zipped=number % 4 == 0)
        CONVERTED["archives to safetensors and back"] += 1
        CONVERTED["tensors"] += report.tensors
        CONVERTED["entries as bytes"] += len(report.as_bytes)
        assert report.nbytes < 2 * os.path.getsize(path) + 50_000


# -- what has no portable form ------------------------------------------------------------------------

COMPLEX: Final = tensor(storage(1, "0", "ComplexDoubleStorage"), (1,))
BAD: Final = torch_zip(ordered({"a": floats((2,))}), {"0": b"goodgood"}).replace(b"goodgood", b"goodbad!")
AS_BYTES: Final = {
    "junk": b"junk",
    "empty": b"",
    "complex128": torch_zip(ordered({"a": COMPLEX}), {"0": bytes(16)}),
    "unknown constructor": torch_zip({"a": Apply(Name("os", "system"), ("true",))}),
    "wrong CRC within": BAD,
    "bool of 2": torch_zip({"a": tensor(storage(1, "0", "BoolStorage"), (1,))}, {"0": b"\x02"}),
    "a tensor with NUL in its name": torch_zip({"a\0": floats((2,))}, {"0": bytes(8)}),
    "a tensor with a surrogate in its name": torch_zip({"a\ud800": floats((2,))}, {"0": bytes(8)}),
    "deep": torch_zip([[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]),
    "bare storage": torch_zip({"a": storage(2)}, {"0": bytes(8)}),
}


@pytest.mark.parametrize("content", AS_BYTES.values(), ids=AS_BYTES)
def test_what_has_no_tree_travels_as_its_bytes(tmp_path: Path, content: bytes) -> None:
    archive = sbformat.reads(zipped({**entries(), "policy.pth": content}))
    report = there_and_back(archive, tmp_path)
    assert report.as_bytes == ("policy.pth",)
    assert bytes(sbformat.read(tmp_path / "e.zip").raw("policy.pth")) == content


AS_TREES: Final = {
    "legacy": legacy_stream(
        ordered({"w": tensor(storage(2, "0", "FloatStorage", "cpu", None), (2,))}), [Run("0", 2, b"12345678")]
    ),
    "big-endian": torch_zip(ordered({"w": floats((2,))}), {"0": b"12345678"}, byte_order=b"big"),
    "empty": torch_zip(ordered()),
    "lone tensor": torch_zip(floats((2,)), {"0": bytes(8)}),
    "a number": torch_zip(3),
    "surrogates": torch_zip({"a": "\ud800", "\udfff": 1}),
    "expanded": torch_zip({"a": tensor(storage(1), (3, 2), (0, 0))}, {"0": b"abcd"}),
    "strange keys": torch_zip({(1, "a"): 1, None: 2, 2.5: 3, b"k": 4, True: 5, 7: floats((2,))}, {"0": bytes(8)}),
}


@pytest.mark.parametrize("content", AS_TREES.values(), ids=AS_TREES)
def test_every_kind_of_state_dict_comes_back_equal(tmp_path: Path, content: bytes) -> None:
    archive = sbformat.reads(zipped({**entries(), "policy.pth": content}))
    assert there_and_back(archive, tmp_path).as_bytes == ()


def test_extra_entries_of_any_name_and_content(tmp_path: Path) -> None:
    extra = {
        "policy": bytes(range(256)),
        "policy.optimizer": b"\xff",
        "notes.txt": "caf\u00e9 \0 \x1b[2J \ufeff".encode(),
        "empty": b"",
        "folder/": b"",
        "folder/policy.pth": b"\xfe",
        "text.pth.bak": b"plain",
        "\u00e9.bin": b"\x80",
        "sbformat": b"\x80",
    }
    archive = sbformat.reads(zipped({**entries(), **extra}))
    report = there_and_back(archive, tmp_path)
    assert set(report.as_bytes) == {name for name, content in extra.items() if max(content, default=0) > 0x7F} - {
        "notes.txt"
    }
    assert {name: bytes(content) for name, content in sbformat.read(tmp_path / "e.zip").extra.items()} == extra


@pytest.mark.parametrize(
    "data",
    [
        b"[]",
        b"\xff\xfe",
        b"",
        b'{"a": "\\ud800", "b": NaN, "c": 1e999, "d": 123456789012345678901234567890}',
        json.dumps({"mine": "x" * (1 << 20)}).encode(),
        json.dumps({"mine": ["\u20ac" * 200_000]}, ensure_ascii=False).encode(),
        b" " * 100 + b'{"b":1,\n"a":2}\n',
    ],
    ids=["no object", "no UTF-8", "empty", "numbers", "large", "large UTF-8", "spaces"],
)
def test_data_comes_back_byte_for_byte(tmp_path: Path, data: bytes) -> None:
    report = there_and_back(sbformat.reads(changed(data=data)), tmp_path)
    assert ("data" in report.as_bytes) == (len(data) > 1 << 20 or data.startswith(b"\xff"))


@pytest.mark.parametrize("without", ["data", "policy.pth", "_stable_baselines3_version", "system_info.txt"])
def test_archives_that_lack_entries_come_back(tmp_path: Path, without: str) -> None:
    there_and_back(BASE.without(without), tmp_path)


def test_tensors_that_are_one_are_written_once_and_are_one_again(tmp_path: Path) -> None:
    shared = np.arange(5000, dtype="f4")
    names = ["features_extractor.w", "pi_features_extractor.w", "vf_features_extractor.w"]
    archive = BASE.replace(parameters={"policy": dict.fromkeys(names, shared)})
    report = there_and_back(archive, tmp_path)
    assert report.nbytes < 2 * shared.nbytes + 15_000
    tree: Any = sbformat.read(tmp_path / "e.zip").parameters["policy"].tree
    assert tree[names[0]].storage is tree[names[2]].storage
    assert os.path.getsize(tmp_path / "e.zip") < 2 * shared.nbytes + 15_000


def test_a_description_that_readers_would_refuse_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there_and_back(BASE, tmp_path)
    for name, value in (("_HEADER_BYTES", 25_000), ("_HEADER_NODES", 900)):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, value)
            report = there_and_back(BASE, tmp_path)
            assert "policy.optimizer.pth" in report.as_bytes
            assert "data" not in report.as_bytes


def test_many_control_characters_do_not_swell_the_header(tmp_path: Path) -> None:
    extra = {f"n{n}": b"\x01" * (1 << 20) for n in range(12)}
    report = there_and_back(BASE.replace(extra=extra), tmp_path)
    assert len(report.as_bytes) == 12
    with safe_open(report.output, "np") as file:  # its own cap is 100 MB
        assert file.metadata()


# -- hostile descriptions -----------------------------------------------------------------------------


def forged(path: Path, document: object, arrays: dict[str, np.ndarray] | None = None) -> Path:
    text = document if isinstance(document, str) else json.dumps(document)
    save_file(arrays or {}, path / "f.safetensors", {"sbformat": text})
    return path / "f.safetensors"


def row(name: object = "policy.pth", **more: object) -> dict[str, object]:
    return {"name": name, **more}


F4: Final = {"policy:w": np.zeros(2, "f4")}
U1: Final = {"x": np.zeros(2, "u1")}
TREE: Final = {"dict": [["w", {"tensor": "policy:w"}]]}


@check_each(
    ("rows", "arrays", "kind"),
    [
        ({}, {}, DataError),
        ([1], {}, DataError),
        ([{}], {}, DataError),
        ([row(3)], {}, DataError),
        ([row(text="a"), row(text="a")], {}, DataError),
        ([row()], {}, DataError),
        ([row(text="a", tree=None)], {}, DataError),
        ([row(text=3)], {}, DataError),
        ([row("x", text="\ud800")], {}, DataError),
        ([row("data", tree={"dict": []})], {}, DataError),
        ([row("a/policy.pth", tree={"dict": []})], {}, DataError),
        ([row("x", mode="0777")], U1, DataError),
        ([row("x", text="a")], U1, DataError),
        ([row("x")], {"x": np.zeros(2, "i1")}, DataError),
        ([row("x")], {"x": np.zeros((1, 2), "u1")}, DataError),
        ([row("x")], {"x": np.array(200, "u1")}, DataError),
        ([row(tree={"dict": []})], F4, DataError),
        ([row(tree={"dict": [["w", {"tensor": "policy:v"}]]})], F4, DataError),
        ([row(tree={"eval": "1"})], {}, DataError),
        ([row(tree=[])], {}, DataError),
        ([row("../x")], {"../x": np.zeros(2, "u1")}, ContainerError),
        ([row("/x", text="")], {}, ContainerError),
        ([row("a\\x", text="")], {}, ContainerError),
        ([row("a:x", text="")], {}, ContainerError),
        ([row("\x1b[2J", text="")], {}, ContainerError),
        ([row("a\ud800", text="")], {}, ContainerError),
        ([row("", text="")], {}, ContainerError),
        ([row("nul", text="")], {}, ContainerError),
        ([row("x" * 2000, text="")], {}, ContainerError),
        ([row(str(n), text="") for n in range(1025)], {}, LimitError),
    ],
)
def test_forged_descriptions_are_refused(
    tmp_path: Path, rows: object, arrays: dict[str, np.ndarray], kind: type[SbformatError]
) -> None:
    path = forged(tmp_path, {"version": 1, "entries": rows}, arrays)
    with pytest.raises(kind) as caught:
        convert(read(path), tmp_path / "o.zip")
    assert is_terminal_safe(str(caught.value))
    assert not (tmp_path / "o.zip").exists()


@pytest.mark.parametrize("names", [["A", "a"], ["a", "a/b"]])
def test_names_that_meet_are_refused(tmp_path: Path, names: list[str]) -> None:
    path = forged(tmp_path, {"version": 1, "entries": [row(name, text="") for name in [*names, "data"]]})
    with pytest.raises(ContainerError):
        convert(read(path), tmp_path / "o.zip")


@pytest.mark.parametrize("version", [None, 2, "1", True, 1.0, [], "\x1b[2J" * 99, 10**3000])
def test_other_versions_are_refused(tmp_path: Path, version: object) -> None:
    with pytest.raises(UnsupportedError, match="version") as caught:
        read(forged(tmp_path, {"version": version, "entries": []}))
    assert is_terminal_safe(str(caught.value))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"version": 1, "version": 1, "entries": []}',
        "[" * 5000,
        '{"entries":' + "[" * 63 + "]" * 63 + "}",
    ],
)
def test_a_description_that_is_no_strict_json_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(SbformatError):
        read(forged(tmp_path, text))


def test_what_extract_writes_is_plain_arrays(tmp_path: Path) -> None:
    from sbformat.tools.extract import extract

    extract(BASE, tmp_path / "a.safetensors")
    assert isinstance(sbformat.read(tmp_path / "a.safetensors"), ArrayFile)


words = st.sampled_from(
    ["dict", "list", "tensor", "int", "float", "ordered_dict", "_metadata", "dtype", "set", "bytes"]
)
parts = st.one_of(st.none(), st.integers(-3, 3), st.sampled_from(["policy:w", "x", "a", "0x1", "float32", ""]))
json_values = st.recursive(
    parts, lambda p: st.one_of(st.lists(p, max_size=3), st.dictionaries(words, p, max_size=2)), max_leaves=9
)


sound = st.sampled_from([
    ([], {}), ([row("data", text="{}")], {}), ([row("data", text="{}"), row(tree=TREE)], F4),
    ([row("x"), row("data", text="{}"), row(tree=TREE)], {**F4, **U1}),
])  # fmt: skip
described = st.builds(
    lambda name, key, value: {"name": name, key: value},
    st.sampled_from(["y.pth", "z", "w.pth", "data", None, 3]), st.sampled_from(["text", "tree", "name"]),
    st.just("") | json_values,
)  # fmt: skip


def test_any_description_gives_an_archive_or_an_error_of_ours(tmp_path: Path) -> None:
    """A forged description converts to an archive that reads, or is refused: nothing else happens."""
    outcomes: Counter[bool] = Counter()

    @settings(max_examples=100, deadline=None)
    @given(sound, st.lists(described, max_size=1))
    def check(start: tuple[list[Any], dict[str, np.ndarray]], rows: list[Any]) -> None:
        outcomes[is_converted(tmp_path, [*start[0], *rows], start[1])] += 1

    check()
    assert min(outcomes[True], outcomes[False]) >= 10, outcomes


def is_converted(folder: Path, rows: list[Any], arrays: dict[str, np.ndarray]) -> bool:
    path = forged(folder, {"version": 1, "entries": rows}, arrays)
    out = folder / "forged.zip"
    try:
        convert(read(path), out, overwrite=True)
    except SbformatError:
        return False
    sbformat.read(out)
    return True


# -- other formats ------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_arrays_become_a_pth(tmp_path: Path, suffix: str) -> None:
    arrays = {"a.weight": np.arange(6, dtype="f4").reshape(2, 3), "b": np.array(3), "c": np.array([True])}
    path = tmp_path / f"a{suffix}"
    np.savez(path, **arrays) if suffix == ".npz" else save_file(arrays, path)
    source = sbformat.read(path)
    report = convert(source, tmp_path / "o.pth")
    assert (report.format, report.entries, report.tensors) == ("pth", (), 3)
    found = pth.loads((tmp_path / "o.pth").read_bytes()).to_numpy()
    assert list(found) == list(source.state_dict("arrays"))
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        assert np.array_equal(found[name], array)
    with pytest.raises(UnsupportedError, match="--weights"):
        convert(source, tmp_path / "o.zip")
    convert(source, tmp_path / "o.safetensors")
    assert sorted(os.listdir(tmp_path)) == sorted([path.name, "o.pth", "o.safetensors"])


@pytest.mark.parametrize(("suffix", "factor"), [(".zip", 1), (".pth", 1), (".safetensors", 2)])
def test_progress_counts_the_bytes_of_every_output(tmp_path: Path, suffix: str, factor: int) -> None:
    large = np.arange(1 << 20, dtype=np.float32)
    archive = BASE.replace(parameters={"policy": {"large": large}})
    counts: list[int] = []
    convert(archive, tmp_path / f"o{suffix}", progress=counts.append)
    assert sum(counts) == pytest.approx(factor * large.nbytes, rel=0.02)
    assert len(counts) > 2


def test_progress_counts_the_bytes_of_arrays(tmp_path: Path) -> None:
    counts: list[int] = []
    convert({"x": np.arange(1 << 20, dtype=np.float32)}, tmp_path / "o.safetensors", progress=counts.append)
    assert sum(counts) == 4 << 20


def test_one_state_dict_becomes_a_pth(tmp_path: Path) -> None:
    report = convert(BASE, tmp_path / "o.pth")
    assert (report.entries, report.tensors) == (("policy.pth",), 12)
    assert pth.loads((tmp_path / "o.pth").read_bytes()) == BASE.parameters["policy"]
    for entry in ("policy.optimizer", "policy.optimizer.pth", "pytorch_variables"):
        convert(BASE, tmp_path / "o.pth", entry=entry, overwrite=True)
        assert pth.loads((tmp_path / "o.pth").read_bytes()) == BASE.state_dict(f"{entry.removesuffix('.pth')}.pth")
    with pytest.raises(MissingEntryError, match="did you mean 'policy'"):
        convert(BASE, tmp_path / "p.pth", entry="polcy")


def test_legacy_streams_become_zips(tmp_path: Path) -> None:
    archive = sbformat.reads(AS_TREES["legacy"])
    assert archive.format == "torch-legacy"
    convert(archive, tmp_path / "o.pth")
    again = sbformat.read(tmp_path / "o.pth")
    assert again.format == "torch-zip"
    assert again.state_dict("o.pth") == archive.state_dict("policy.pth")


def test_folders_and_bare_data_become_zips(tmp_path: Path) -> None:
    folder = tmp_path / "unzipped"
    folder.mkdir()
    for name, content in entries().items():
        (folder / name).write_bytes(content)
    convert(sbformat.read(folder), tmp_path / "o.zip")
    assert sbformat.read(tmp_path / "o.zip") == BASE
    there_and_back(sbformat.read(folder / "data"), tmp_path)
    there_and_back(sbformat.read(folder / "policy.pth"), tmp_path)


@pytest.mark.parametrize("name", ["o", "o.npz", "o.ZIPX", "o.zip.bak", "o.h5", ".safetensors"])
def test_the_suffix_tells_the_format(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnsupportedError, match="suffix"):
        convert(BASE, tmp_path / name)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["o.zip", "o.pth", "o.safetensors"])
def test_what_is_there_stays_unless_asked(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(FileExistsError):
        convert(BASE, tmp_path / name)
    assert (tmp_path / name).read_text() == "mine"
    convert(BASE, tmp_path / name, overwrite=True)
    assert os.listdir(tmp_path) == [name]


def test_a_wrong_crc_is_not_washed_away(tmp_path: Path) -> None:
    raw = zipped({**entries(), "notes": b"a note"}).replace(b"a note", b"a n0te", 1)
    with pytest.raises(ContainerError, match="CRC"):
        convert(sbformat.reads(raw), tmp_path / "o.safetensors")
    assert os.listdir(tmp_path) == []


def test_limits_hold_for_files_of_arrays(tmp_path: Path) -> None:
    convert(BASE, tmp_path / "o.safetensors")
    for limits in (Limits(json_bytes=5000), Limits(total_bytes=5000), Limits(outer_entries=2), Limits(json_depth=4)):
        with pytest.raises(LimitError):
            sbformat.read(tmp_path / "o.safetensors", limits=limits)


def test_overlapping_views_keep_their_values(tmp_path: Path) -> None:
    flat = np.arange(10, dtype="f4")
    archive = BASE.replace(
        parameters={"policy": StateDict.from_arrays({"a": flat[:6], "b": flat[4:], "t": flat[:6].reshape(2, 3).T})}
    )
    there_and_back(archive, tmp_path)


def test_the_length_of_the_header_is_as_the_format_has_it(tmp_path: Path) -> None:
    convert(BASE, tmp_path / "o.safetensors")
    raw = (tmp_path / "o.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    document = json.loads(json.loads(raw[8 : 8 + length])["__metadata__"]["sbformat"])
    assert document["version"] == 1
    assert [item["name"] for item in document["entries"]] == list(BASE.entries)


def test_changed_data_is_converted(tmp_path: Path) -> None:
    archive = sbformat.read(PPO)
    convert(archive.replace(data={**archive.data, "gamma": 0.5}), tmp_path / "o.safetensors")
    assert read(tmp_path / "o.safetensors").data["gamma"] == 0.5


@pytest.mark.parametrize("value", [{1 << 20000, 1}, {(1 << 20000, 1): 2}], ids=["set", "key"])
def test_long_numbers_are_converted(tmp_path: Path, value: Any) -> None:
    archive = BASE.replace(parameters={"q": {"x": value, "w": np.ones(1)}})
    convert(archive, tmp_path / "o.safetensors")
    assert read(tmp_path / "o.safetensors") == archive


def test_what_cannot_be_read_again_does_not_become_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> tuple[list[str], bytes]:
        """What safetensors 0.4.3 writes of metadata alone."""
        header = b'{},"__metadata__":{}}'
        return [], len(header).to_bytes(8, "little") + header

    monkeypatch.setattr("sbformat.arrayfiles.writer._lay_out", broken)
    with pytest.raises(ContainerError, match="header"):
        convert(BASE, tmp_path / "o.safetensors")
    assert not list(tmp_path.iterdir())
