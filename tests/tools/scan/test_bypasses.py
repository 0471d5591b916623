"""Ways past ``scan`` that a hostile reviewer found, each with a loader that ran it; none may come back."""

from __future__ import annotations

import io
import json
import os
import struct
import tarfile
from typing import TYPE_CHECKING, Any, Final

import pytest

import sbformat
from conformance.generators.build_pth import MAGIC, SYSTEM, dumps, make_zip, text, whole
from sbformat import pth
from sbformat.cli.scan import find_files
from sbformat.errors import TensorError
from sbformat.limits import Limits
from tests.helpers import bundled
from tests.helpers.attacks import (
    PAYLOAD,
    STREAM,
    TEXT_PAYLOAD,
    attributes,
    call,
    function,
    get,
    hostile_data,
    in_blob,
    items,
    name,
    new,
    pairs,
    pickle,
    put,
    serialized,
)  # fmt: skip
from tests.helpers.build_blobs import CLOUD
from tests.helpers.many_cases import check_each

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sbformat.tools.scan.findings import ScanReport

OS: Final = "os.system"


def dangerous(source: bytes | str | os.PathLike[str]) -> ScanReport:
    """Scan what has the payload in it, and be told so."""
    report = sbformat.scan(source)
    assert report.verdict == "dangerous", report.findings
    assert OS in report.imports
    return report


def files_of(folder: Path) -> list[str]:
    """What ``scan`` of a tree looks into, from there."""
    return sorted(os.path.relpath(path, folder) for path in find_files([os.fspath(folder)]).paths)


# -- names of another system's entries, and the key of a blob as JSON can spell it ---------------------


def escaped_data(spelled: str = "\\u003aserialized:") -> bytes:
    made = hostile_data().replace(b'":serialized:"', f'"{spelled}"'.encode())
    assert json.loads(made) == json.loads(hostile_data())
    return made


SPELLINGS: Final = (":serialized:", "\\u003aserialized:", ":\\u0073erialized\\u003A", ":seria\\u006Cized:")
SB2: Final = {"parameters": b"x", "parameter_list": b"[]"}


@check_each("spelled", SPELLINGS)
@check_each("more", [{}, {"parameters": b"x"}, SB2])
def test_the_entries_of_sb2_beside_data(spelled: str, more: dict[str, bytes]) -> None:
    for contents in ({**bundled.entries(), **more}, {**more, **bundled.entries()}):
        report = dangerous(bundled.zipped({**contents, "data": escaped_data(spelled)}))
        assert {(finding.entry, finding.key) for finding in report.findings} == {("data", "lr_schedule")}


@pytest.mark.each_value
@pytest.mark.parametrize("spelled", SPELLINGS)
@pytest.mark.parametrize("entry", ["notes", "extra/data.json", "parameters", "a/b/data"])
def test_json_with_blobs_in_another_entry(spelled: str, entry: str) -> None:
    dangerous(bundled.zipped({**bundled.entries(), entry: escaped_data(spelled)}))
    dangerous(make_zip([("inner/readme", b"hello"), (entry, escaped_data(spelled))]))
    dangerous(make_zip([("a.zip", make_zip([("data", escaped_data(spelled))]))]))


@pytest.mark.parametrize("spelled", SPELLINGS)
def test_json_with_blobs_beside_an_archive(spelled: str, tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(bundled.entries()["data"])
    for where in ("notes.json", "sub/data", ".hidden/x"):
        file = tmp_path / where
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(escaped_data(spelled))
        dangerous(tmp_path)
        dangerous(file)
        file.unlink()


def test_deeper_keys_are_spelled_out_too() -> None:
    made = json.dumps({"a": [{"b": serialized(PAYLOAD)}]}).replace(":serialized:", "\\u003aserialized:")
    dangerous(bundled.changed(data=made.encode()))


# -- a file of two formats: torch's stream, which is a tar as well -------------------------------------

SUMS: Final[dict[str, Callable[[int, int], bytes]]] = {
    "as written": lambda sum_of, _: b"%06o\0 " % sum_of,
    "of signed bytes": lambda _, signed: b"%06o\0 " % signed,
    "eight digits": lambda sum_of, _: b"%08o" % sum_of,
    "something behind its end": lambda sum_of, _: b"%05o\0zz" % sum_of,
    "a sign": lambda sum_of, _: b" +%05o\0" % sum_of,
    "a base": lambda sum_of, _: b"0o%05o\0" % sum_of,
    "a tab": lambda sum_of, _: b"\t%06o\0" % sum_of,
}
"""The checksum of a tar's header, in every way that Python's tarfile takes it."""


def short(value: str) -> bytes:
    return b"\x8c" + bytes([len(value)]) + value.encode()


def stream_and_tar(sum_of: str, *, is_fourth: bool) -> bytes:
    """A stream whose third or fourth pickle is one long text: the rest of a tar's first header, and its members."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as opened:
        member = tarfile.TarInfo("storages")
        member.size = len(TEXT_PAYLOAD)
        opened.addfile(member, io.BytesIO(TEXT_PAYLOAD))
    rest = file.getvalue()
    head = dumps(MAGIC) + dumps(1001) + b"\x80\x04}(" + short("protocol_version") + whole(1001)
    head += short("little_endian") + b"\x88" + short("type_sizes") + (b"}u.\x80\x02X" if is_fourth else b"X")
    start = len(head) + 4
    first = bytearray(512)
    first[:start] = head + struct.pack("<I", 512 - start + len(rest))
    first[100:156] = b"0000644\0" + b"0000000\0" * 2 + b"00000000000\0" * 2 + b" " * 8
    first[156:157] = b"0"
    first[148:156] = SUMS[sum_of](sum(first), sum(first) - 256 * sum(byte > 0x7F for byte in first))
    tail = b"." if is_fourth else b"u." + dumps({})
    made = bytes(first) + rest + tail + dumps([])
    with tarfile.open(fileobj=io.BytesIO(made), mode="r:") as opened:
        assert opened.getnames()[1:] == ["storages"]
    return made


@check_each("is_fourth", [False, True])
@check_each("sum_of", SUMS)
def test_a_stream_of_torch_that_is_a_tar(sum_of: str, is_fourth: bool) -> None:  # noqa: FBT001 -- a parameter of pytest
    """``torch.load`` asks whether a file is a tar before anything else."""
    made = stream_and_tar(sum_of, is_fourth=is_fourth)
    dangerous(made)
    dangerous(bundled.changed(policy_pth=made))
    if not is_fourth:
        with pytest.raises(TensorError, match="third pickle contains more"):
            pth.loads(made)


@check_each(
    "system",
    [
        {**SYSTEM, "type_sizes": "x" * 65},
        {**SYSTEM, "type_sizes": {"x" * 65: 1}},
        {**SYSTEM, "type_sizes": {"short": "x" * 65}},
        {**SYSTEM, "type_sizes": {"short": [1]}},
        {**SYSTEM, "little_endian": b"x" * 300},
        {**SYSTEM, 5: "x" * 300},
        {**SYSTEM, 5: 6},
    ],
)
def test_the_writers_system_is_numbers(system: dict[Any, Any]) -> None:
    parts = [dumps(part) for part in STREAM]
    with pytest.raises(TensorError, match="third pickle"):
        pth.loads(b"".join([*parts[:2], dumps(system), *parts[3:]]))


# -- torch zips in other letters ----------------------------------------------------------------------

ODD: Final = b"I0x10\n0" + TEXT_PAYLOAD
"""A number as no pickler spells it, and no PROTO: not taken for a pickle unless something says it is one."""


@pytest.mark.each_value
@pytest.mark.parametrize("content", [PAYLOAD, TEXT_PAYLOAD, ODD], ids=["protocol 4", "protocol 0", "odd"])
@pytest.mark.parametrize(
    "records",
    [
        ("DATA.PKL", "VERSION"), ("Data.pkl", "version"), ("DATA.PKL",), ("data.pkl", "VERSION"),
        ("CONSTANTS.PKL", "VERSION"), ("Constants.pkl", "version"), ("constants.pkl",), ("DATA.PKL", ".DATA/VERSION"),
        ("data.pkl", "DATA.PKL"),
    ],
)  # fmt: skip
def test_torch_looks_records_up_in_any_case(records: tuple[str, ...], content: bytes) -> None:
    made = make_zip([(f"archive/{record}", content if "pkl" in record.lower() else b"3\n") for record in records])
    dangerous(made)
    dangerous(bundled.changed(policy_pth=made))


@pytest.mark.parametrize("record", ["DATA.PKL", "Data.pkl", "VERSION", "CONSTANTS.PKL"])
def test_a_torch_zip_in_other_letters_is_never_clean(record: str) -> None:
    records = {"data.pkl": pickle(b"}", 2), "version": b"3\n"}
    records.pop(record.lower(), None)
    made = make_zip([("archive/" + key, content) for key, content in {record: pickle(b"}", 2), **records}.items()])
    assert sbformat.scan(made).verdict not in {"clean", "unknown"}


# -- numpy's files ------------------------------------------------------------------------------------


def npy(descr: str, content: bytes, version: int = 1) -> bytes:
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': (1,), }}".encode().ljust(117) + b"\n"
    size = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + size + header + content


OBJECTS: Final = ("'|O'", "'O'", "'object'", "'|\\x4f'", "'\\117'", "'|' 'O'", "[('a', 'O')]", "'O8'", "('O', (1,))")
PLAIN: Final = ("'<f8'", "'>i4'", "'|b1'", "'<c16'", "'|S5'", "'<U12'", "'|u1'")


@pytest.mark.each_value
@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("descr", OBJECTS)
def test_an_array_of_objects_is_a_pickle(descr: str, version: int, tmp_path: Path) -> None:
    made = npy(descr, PAYLOAD, version)
    dangerous(made)
    dangerous(npy(descr, TEXT_PAYLOAD, version))
    dangerous(make_zip([("a.npy", npy("'<f8'", bytes(8))), ("b.npy", made)]))
    dangerous(bundled.zipped({**bundled.entries(), "a.npy": made}))
    (tmp_path / "a.npy").write_bytes(made)
    assert files_of(tmp_path) == ["a.npy"]
    dangerous(tmp_path)


@check_each("version", [1, 2, 3])
@check_each("descr", PLAIN)
def test_an_array_of_numbers_is_none(descr: str, version: int) -> None:
    for made in (npy(descr, bytes(64), version), npy(descr, PAYLOAD, version)):
        assert sbformat.scan(made).verdict == "clean"
        assert sbformat.scan(make_zip([("a.npy", made)])).verdict == "clean"


# -- folders ------------------------------------------------------------------------------------------


def with_payload() -> bytes:
    return in_blob(PAYLOAD)


def test_links_within_a_download_cache_are_followed(tmp_path: Path) -> None:
    """The cache of the Hugging Face Hub is made of them."""
    cache = tmp_path / "models--sb3--ppo"
    blobs, snapshot = cache / "blobs", cache / "snapshots" / "abc"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    (blobs / "1").write_bytes(with_payload())
    (blobs / "2").write_bytes(b'{"policy_class": 1}')
    (snapshot / "ppo-CartPole-v1.zip").symlink_to("../../blobs/1")
    (snapshot / "data").symlink_to("../../blobs/2")
    report = dangerous(snapshot)
    assert {finding.entry for finding in report.findings} == {"ppo-CartPole-v1.zip!data"}


@pytest.mark.parametrize("where", [".cache/x/model.zip", "a/.b/c/model.zip", ".model", ".zip"])
def test_what_is_hidden_beside_an_archive(where: str, tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(bundled.entries()["data"])
    (tmp_path / where).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / where).write_bytes(with_payload())
    assert {finding.entry for finding in dangerous(tmp_path).findings} == {f"{where}!data"}


def test_what_git_keeps_is_looked_into(tmp_path: Path) -> None:
    for folder in (".git", "a/.git"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "model.zip").write_bytes(with_payload())
    found = {finding.entry for finding in dangerous(tmp_path).findings}
    assert found == {".git/model.zip!data", "a/.git/model.zip!data"}


def test_links_to_folders_are_not_followed(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    (outside / "model.zip").write_bytes(with_payload())
    (inside / "link").symlink_to(outside, target_is_directory=True)
    (inside / "loop").symlink_to(inside, target_is_directory=True)
    (inside / "gone").symlink_to("nowhere")
    (inside / "itself").symlink_to("itself")
    os.mkfifo(inside / "pipe")
    report = sbformat.scan(inside)
    assert [finding.message for finding in report.findings] == ["no file in this folder was examined"]
    assert {row.reason for row in report.skipped} == {"link", "link-out", "broken-link", "special"}


# -- what has no mark of a pickle ---------------------------------------------------------------------

SMALL: Final = Limits(pickle_opcodes=100, pickle_memo_index=1000)
BEYOND: Final[dict[str, bytes]] = {
    "opcodes": b"N0" * 60 + TEXT_PAYLOAD,
    "a memo index": b"Np1001\n0" + TEXT_PAYLOAD,
    "bytes": b"(" + b"N" * 60 + b"l0" + b"N0" * 60 + TEXT_PAYLOAD,
}


@pytest.mark.parametrize("what", BEYOND)
def test_a_limit_ends_the_look_before_any_call(what: str, tmp_path: Path) -> None:
    def verdict(source: Any) -> str:
        return sbformat.scan(source, limits=SMALL).verdict

    (tmp_path / "data").write_bytes(b"{}")
    (tmp_path / "buffer").write_bytes(BEYOND[what])
    assert verdict(tmp_path) == verdict(tmp_path / "buffer") == verdict(BEYOND[what]) == "broken"
    assert verdict(make_zip([("archive/x", BEYOND[what])])) == "broken"


def test_a_long_argument_reaches_past_what_is_looked_at() -> None:
    limits = Limits(pickle_bytes=1000)
    for head in (b"X", b"B", b"T"):
        made = head + struct.pack("<I", 2000) + b"a" * 2000 + b"0" + TEXT_PAYLOAD
        assert sbformat.scan(made, limits=limits).verdict == "broken"
        dangerous(made)
        inside = sbformat.scan(make_zip([("archive/x", made)]), limits=limits)
        assert inside.verdict == "broken"


TEXTS: Final = {
    b"cos\nsystem\n": ("dangerous", "os.system"),
    b"I0x10\n0cos\nsystem\n\xff": ("dangerous", "os.system"),
    b"cnowhere\nx\n(tR": ("dangerous", "nowhere.x"),
    b"cloudpickle\ngymnasium\ntorch\n": ("unknown", ""),  # the names of packages, one a line
    b"garbage": ("unknown", ""),
    b"(lp0\nI1\na.": ("clean", ""),
    b"I1\n.": ("clean", ""),
}
"""What protocol 0 reads as far as it goes, the verdict, and what is imported."""


@check_each("name", ["a.pkl", "a.pickle", "a.PKL", "a.p", "a.joblib", "a.zip", "a.txt", "a"])
@check_each("content", TEXTS)
def test_a_verdict_does_not_depend_on_a_name(name: str, content: bytes, tmp_path: Path) -> None:
    """An import before a fault happens all the same."""
    verdict, imported = TEXTS[content]
    file = tmp_path / name
    file.write_bytes(content)
    for source in (file, content, io.BytesIO(content)):
        report = sbformat.scan(source)
        assert (report.verdict, "".join(report.imports)) == (verdict, imported), source


# -- what is understood, and is not to be ---------------------------------------------------------------

MODULE: Final = call(name(CLOUD, "subimport"), text("numpy.linalg"))
PARTIAL: Final = name("functools", "partial")


def partial(function_of: bytes) -> bytes:
    state = items(function_of, b")", b"}", b"N")
    return call(PARTIAL, function_of) + state + b"b"


DTYPE: Final = name("numpy", "dtype")
DTYPE_STATE: Final = items(whole(3), text("<"), b"N", b"N", b"N", b"J\xff\xff\xff\xff", b"J\xff\xff\xff\xff", whole(0))
NOT_CLEAN: Final[dict[str, bytes]] = {
    "a lone module": MODULE,
    "a module in a list": b"](" + MODULE + b"e",
    "a module, dropped": MODULE + b"0N",
    "a dtype given a name": call(DTYPE, text("f8"), name("builtins", "getattr"), b"\x89"),
    "a dtype given a known name": call(DTYPE, text("f8"), name("numpy", "float64"), b"\x89"),
    "a dtype itself is named": call(DTYPE, name("numpy", "float64"), b"\x89", b"\x88"),
    "a partial of int": partial(name("builtins", "int")),
    "a partial of dict": partial(name("builtins", "dict")),
    "metadata that is a name": new(name("collections", "OrderedDict")) + attributes(_metadata=PARTIAL) + b"b",
    "metadata that reaches code": call(name("collections", "OrderedDict"))
    + attributes(_metadata=name("builtins", "getattr"))
    + b"b",
}


@check_each("what", NOT_CLEAN)
def test_what_no_library_writes_is_not_understood(what: str) -> None:
    assert sbformat.scan(in_blob(pickle(NOT_CLEAN[what]), "my_key")).verdict not in {"clean", "code"}


def test_a_module_alone_is_dangerous_and_not_within_a_function() -> None:
    assert sbformat.scan(in_blob(pickle(MODULE))).verdict == "dangerous"
    carried = function(__globals__=pairs(text("np"), MODULE))
    assert sbformat.scan(in_blob(pickle(carried))).verdict == "code"


def test_what_an_empty_cell_holds_is_cloudpickles() -> None:
    for module, names in ((CLOUD, set()), ("my.module", {"my.module._empty_cell_value"})):
        cell = call(name(CLOUD, "_make_cell"), name(module, "_empty_cell_value"))
        found = sbformat.scan(in_blob(pickle(function(cells=(cell,))))).findings
        assert {shown for finding in found if finding.rule == "unknown-name" for shown in finding.names} == names


def test_a_dtype_is_as_numpy_writes_it() -> None:
    good = call(DTYPE, text("f8"), b"\x89", b"\x88") + DTYPE_STATE + b"b"
    assert sbformat.scan(in_blob(pickle(good), "my_key")).verdict == "clean"


def test_two_functions_with_one_cell() -> None:
    """The state that is set last is what both have."""
    cell = call(name(CLOUD, "_make_empty_cell")) + put(2000)
    made = function()
    empty = call(name(CLOUD, "_make_empty_cell"))
    assert made.count(empty) == 1
    first, second = made.replace(empty, cell), function(slot=1001).replace(empty, get(2000))
    whole_of = pickle(b"](" + first + second + b"e")
    assert sbformat.scan(in_blob(whole_of, "my_key")).verdict != "clean"
    apart = pickle(b"](" + function() + function(slot=1001) + b"e")
    assert sbformat.scan(in_blob(apart, "lr_schedule")).verdict == "clean"
