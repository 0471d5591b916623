"""``write_files``: all files of an export, or none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sbformat.policies.export.files import write_files


def names(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("before", [{}, {"p.c": b"1", "p.h": b"2"}, {"p.c": b"1"}, {"p.h": b"2"}])
@pytest.mark.parametrize("fails_at", ["p.c", "p.h"])
def test_a_file_that_cannot_be_replaced_changes_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: dict[str, bytes], fails_at: str
) -> None:
    """As in a folder with the sticky bit where one of the files is of another user."""
    for name, content in before.items():
        (tmp_path / name).write_bytes(content)
    replace = os.replace

    def refuse(source: Any, target: Any) -> None:
        if os.path.basename(target) == fails_at:
            raise PermissionError(1, "Operation not permitted", str(source), None, str(target))
        replace(source, target)

    monkeypatch.setattr(os, "replace", refuse)
    contents = {str(tmp_path / "p.c"): b"new c", str(tmp_path / "p.h"): b"new h"}
    with pytest.raises(PermissionError) as caught:
        write_files(contents, overwrite=True)
    assert (caught.value.filename, caught.value.filename2) == (str(tmp_path / fails_at), None)
    if fails_at not in before:
        monkeypatch.undo()
    assert names(tmp_path) == before


def test_one_file_by_two_names_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p.c").write_bytes(b"old")
    (tmp_path / "p.h").symlink_to(tmp_path / "p.c")
    contents = {str(tmp_path / "p.c"): b"new c", str(tmp_path / "p.h"): b"new h"}
    with pytest.raises(OSError, match="two outputs are one file"):
        write_files(contents, overwrite=True)
    assert (tmp_path / "p.c").read_bytes() == b"old"


def test_a_full_disk_is_reported_with_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(OSError, match="No space left") as caught:
        write_files({str(tmp_path / "p.onnx"): b"new"}, overwrite=False)
    assert caught.value.filename == str(tmp_path / "p.onnx")
    assert not list(tmp_path.iterdir())


def test_existing_files_are_replaced_when_asked(tmp_path: Path) -> None:
    contents = {str(tmp_path / "p.json"): b"1", str(tmp_path / "p.safetensors"): b"22"}
    write_files(contents, overwrite=False)
    with pytest.raises(FileExistsError):
        write_files(contents, overwrite=False)
    assert [file.size for file in write_files(contents, overwrite=True)] == [1, 2]
