"""What a file is: a closed set of kinds, told from its first bytes and, for zips, its names."""

from __future__ import annotations

import io
import pickle
import zipfile
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.generators.build_zips import POLICY, is_terminal_safe, sb3_archive, state_dict_zip
from sbformat.archive.kinds import Kind, detect_kind, detect_zip_kind, refuse_kind
from sbformat.container.reader import Container
from sbformat.errors import ContainerError, SbformatError, UnsupportedError
from sbformat.io.source import BytesSource
from tests.helpers.sampling import more_examples

LEGACY_HEAD = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03."

HEADS: list[tuple[bytes, Kind]] = [
    (b"", "empty"),
    (sb3_archive(), "zip"),
    (state_dict_zip(POLICY), "zip"),
    (b"PK\x03\x04", "zip"),
    (LEGACY_HEAD, "torch-legacy"),
    (b"\x80\x04\x95\0\0\0\0\0\0\0\0" + LEGACY_HEAD[2:], "torch-legacy"),
    (b"\x80\x02" + b"N0" * 9 + LEGACY_HEAD[2:], "pickle"),
    *[(pickle.dumps({"a": 1}, protocol), "pickle") for protocol in range(2, 6)],
    (b"\x80", "pickle"),
    (b"\x80\x05", "pickle"),
    (b'{"policy_class": 1}', "data-json"),
    (b' \r\n\t{"policy_class": 1}', "data-json"),
    (b'\xef\xbb\xbf{"policy_class": 1}', "data-json"),
    (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", "lfs-pointer"),
    (b"<!DOCTYPE html><html>", "html"),
    (b"<!doctype HTML>", "html"),
    (b"\n <html lang='en'>", "html"),
    (b"<HTML>", "html"),
    (b"Entry not found", "text"),
    (b"[1, 2]", "text"),
    (b"version 1", "text"),
    (b"<htm", "text"),
    ("gr\u00fc\u00dfe".encode(), "text"),
    (pickle.dumps({"a": 1}, 0), "text"),
    (b"PK\x05\x06" + bytes(18), "empty-zip"),
    (b"PK\x01\x02" + bytes(18), "unknown"),
    (b"\x80\x06", "unknown"),
    (b"\x89PNG\r\n\x1a\n", "unknown"),
    (b"\x1f\x8b\x08\x00", "unknown"),
    (b"\x7fELF\x02\x01\x01\x00", "unknown"),
    (b"\0" * 100, "unknown"),
    (b" " * 511 + b"{", "data-json"),
    (b" " * 512 + b"{", "text"),
]  # fmt: skip


@pytest.mark.parametrize(("head", "kind"), HEADS, ids=lambda value: repr(value)[:40])
def test_a_file_is_told_by_its_first_bytes(head: bytes, kind: Kind) -> None:
    assert detect_kind(BytesSource(head)) == kind


@more_examples(100)
@given(st.binary(max_size=40))
def test_any_bytes_have_a_kind_of_the_closed_set(head: bytes) -> None:
    assert detect_kind(BytesSource(head)) in get_args(Kind)


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (["data", "policy.pth"], "sb3"),
        (["data"], "sb3"),
        (["policy.pth"], "sb3"),
        (["_stable_baselines3_version"], "sb3"),
        (["x.txt", "actor.optimizer.pth"], "sb3"),
        (["data", "parameters", "parameter_list"], "sb2-zip"),
        (["parameter_list", "parameters"], "sb2-zip"),
        (["parameters", "data"], "sb3"),
        (["archive/data.pkl", "archive/version"], "torch-zip"),
        (["archive/version"], "torch-zip"),
        (["archive/x", "archive/data.pkl"], "torch-zip"),
        (["archive/DATA.PKL"], "torch-zip"),
        (["archive/x", "archive/Version"], "torch-zip"),
        (["archive/CONSTANTS.pkl"], "torch-zip"),
        (["archive/.DATA/Version"], "torch-zip"),
        (["archive/DATA.PKL", "DATA"], "torch-zip"),
        (["archive/DATA.PKL", "data"], "sb3"),
        (["archive/inner/data.pkl"], "zip"),
        (["other/x", "archive/data.pkl"], "zip"),
        (["model/pi_fc0/w:0.npy", "b.npy"], "npz"),
        (["a.npy", "b.txt"], "zip"),
        (["agent/data", "agent/policy.pth"], "zip"),
        (["__MACOSX/._policy.pth"], "zip"),
        (["a"], "zip"),
    ],
)
def test_a_zip_is_told_by_the_names_of_its_members(names: list[str], kind: Kind) -> None:
    assert detect_zip_kind(names) == kind
    assert detect_zip_kind(dict.fromkeys(names)) == kind


def test_what_numpy_and_zipfile_write_is_told_by_its_names() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as opened:
        opened.writestr("arr_0.npy", b"")
    assert detect_zip_kind(Container(file.getvalue()).entries) == "npz"
    assert detect_zip_kind(Container(sb3_archive()).entries) == "sb3"
    assert detect_zip_kind(Container(state_dict_zip(POLICY)).entries) == "torch-zip"


# -- refusals -----------------------------------------------------------------------------------------


def refusal(kind: Kind, head: bytes = b"", names: tuple[str, ...] = ()) -> SbformatError:
    with pytest.raises(SbformatError) as caught:
        refuse_kind(kind, BytesSource(head), names)
    assert is_terminal_safe(str(caught.value))
    return caught.value


@pytest.mark.parametrize(
    ("kind", "word"), [("empty", "empty"), ("text", "text"), ("html", "download"), ("unknown", "starts with 'PK'")]
)
def test_what_is_no_archive_at_all_is_a_container_error(kind: Kind, word: str) -> None:
    error = refusal(kind, b"some bytes")
    assert type(error) is ContainerError
    assert word in str(error)


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        ("lfs-pointer", "git lfs pull"),
        ("sb2-zip", "Stable Baselines 2"),
        ("npz", "npz"),
        ("zip", "with 'data' or a '.pth'"),
    ],
)
def test_what_is_something_else_is_unsupported(kind: Kind, word: str) -> None:
    error = refusal(kind, b"some bytes", ("a", "b"))
    assert type(error) is UnsupportedError
    assert word in str(error)


def test_an_archive_in_a_folder_of_a_zip_is_told_how_to_be_read() -> None:
    assert "in the folder 'agent'" in str(refusal("zip", names=("README.md", "agent/data", "agent/policy.pth")))


def test_of_several_archives_in_folders_the_first_is_named() -> None:
    names = tuple(f"agent{index}/data" for index in range(20))
    assert "'agent0'" in str(refusal("zip", names=names))


@pytest.mark.parametrize(
    "head", [b"\x1b[31mred", b"\xff" * 40, "\u202e".encode(), b"\n\n\n", b"<html>\x1b]0;title\x07"]
)
@pytest.mark.parametrize("kind", ["text", "html", "unknown"])
def test_the_first_bytes_are_shown_escaped(kind: Kind, head: bytes) -> None:
    refusal(kind, head)


@pytest.mark.parametrize("name", ["\x1b[31m", "\u202e", "x" * 1000])
def test_names_are_shown_escaped_and_cut(name: str) -> None:
    refusal("zip", names=(name,) * 5)
    refusal("zip", names=(f"{name}/data",))


@more_examples(100)
@given(st.binary(max_size=60), st.sampled_from([kind for kind in get_args(Kind) if kind not in ("sb3", "folder")]))
def test_every_kind_is_refused_with_a_message_fit_for_a_terminal(head: bytes, kind: Kind) -> None:
    refusal(kind, head, ("a/b",))
