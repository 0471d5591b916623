"""Sources are opened where they are: paths, ``file://`` URLs, and URLs of remote file systems."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

import sbformat
from sbformat import LimitError, Limits, UnsupportedError
from sbformat.io import opening
from sbformat.io.opening import (
    base_name,
    has_file,
    is_folder,
    is_remote,
    join_path,
    list_names,
    open_large,
    open_source,
    open_url,
    read_start,
    to_path,
)
from sbformat.io.urls import Url
from sbformat.limits import Budget
from tests.helpers.bundled import PPO
from tests.helpers.remote_errors import catch

DATA = PPO.read_bytes()
NUMBERS = itertools.count()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.zip", "a #1%20.zip"):
        (tmp_path / name).write_bytes(DATA)
    (tmp_path / "runs").mkdir()
    return tmp_path


@pytest.fixture
def bucket() -> Iterator[str]:
    """A folder of fsspec's file system in memory."""
    fsspec = pytest.importorskip("fsspec")
    files = fsspec.filesystem("memory")
    top = f"/opening{next(NUMBERS)}"
    files.pipe({f"{top}/b.zip": DATA, f"{top}/a#1%20.zip": DATA, f"{top}/runs/c.zip": DATA})
    yield f"memory:/{top}"
    files.rm(top, recursive=True)


# -- paths --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["file://{}", "file://localhost{}", "FILE://{}", "local://{}"])
def test_a_file_url_is_read_as_a_path(folder: Path, form: str) -> None:
    url = form.format(folder / "b.zip")
    assert not is_remote(url)
    assert bytes(open_source(url).view(0, 10)) == DATA[:10]
    assert open_source(url.removesuffix(".zip")).size == len(DATA)
    assert sbformat.read(url).format == "sb3"
    assert sbformat.inspect(url) == sbformat.inspect(folder / "b.zip")
    assert sbformat.scan(url) == sbformat.scan(folder / "b.zip")
    assert read_start(url, 4) == b"PK\x03\x04"
    assert base_name(url) == "b.zip"


def test_escapes_in_file_urls_are_decoded(folder: Path) -> None:
    assert sbformat.read(f"file://{folder}/a%20%231%2520.zip").format == "sb3"


def test_a_file_url_of_a_folder_is_a_folder(folder: Path) -> None:
    url = f"file://{folder}"
    assert is_folder(url)
    assert not is_folder(f"{url}/b.zip")
    assert not is_folder(f"{url}/missing")
    assert list_names(url) == ("a #1%20.zip", "b.zip")
    assert (has_file(url, "b.zip"), has_file(url, "runs")) == (True, False)
    assert to_path(url) == str(folder)


def test_a_path_that_looks_like_a_url_after_its_start_is_a_path(tmp_path: Path) -> None:
    (tmp_path / "s3:").mkdir()
    (tmp_path / "s3:" / "b.zip").write_bytes(DATA)
    assert sbformat.read(f"{tmp_path}/s3://b.zip").format == "sb3"


def test_paths_are_joined_by_the_system_and_urls_by_slashes(folder: Path) -> None:
    assert join_path(str(folder), "runs/c.zip") == str(folder / "runs" / "c.zip")
    assert join_path("s3://bucket/a/", "runs/c.zip") == "s3://bucket/a/runs/c.zip"


# -- URLs ---------------------------------------------------------------------------------------------


def test_a_remote_file_is_read_whole_from_its_url(bucket: str) -> None:
    counts: list[int] = []
    assert bytes(open_source(f"{bucket}/b.zip", progress=counts.append).view(0, len(DATA))) == DATA
    assert sum(counts) == len(DATA)
    assert sbformat.read(f"{bucket}/b").format == "sb3"
    assert sbformat.read(Url(f"{bucket}/a#1%20.zip")).format == "sb3"
    assert read_start(f"{bucket}/b.zip", 4) == b"PK\x03\x04"
    assert read_start(f"{bucket}/b.zip", 1 << 30) == DATA


def test_a_missing_file_is_reported_by_the_name_that_was_given(bucket: str) -> None:
    for name in ("missing", "missing.zip"):
        error = catch(lambda name=name: open_url(f"{bucket}/{name}"))  # type: ignore[misc]
        assert isinstance(error, FileNotFoundError)
        assert error.filename == f"{bucket}/{name}"


def test_limits_hold_for_urls(bucket: str) -> None:
    with pytest.raises(LimitError, match="total_bytes"):
        open_source(f"{bucket}/b.zip", budget=Budget(Limits(total_bytes=100)))


def test_a_folder_of_a_remote_file_system(bucket: str) -> None:
    assert is_remote(bucket)
    assert is_folder(bucket)
    assert is_folder(f"{bucket}/runs")
    assert not is_folder(f"{bucket}/b.zip")
    assert list_names(bucket) == ("a#1%20.zip", "b.zip")
    assert (has_file(bucket, "b.zip"), has_file(bucket, "c.zip")) == (True, False)


def test_a_folder_is_not_a_file(bucket: str) -> None:
    error = catch(lambda: open_url(f"{bucket}/runs"))
    assert isinstance(error, IsADirectoryError)
    assert isinstance(catch(lambda: sbformat.read_vecnormalize(bucket)), (OSError, sbformat.SbformatError))


def test_remote_files_are_never_opened_as_files_on_the_disk(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "LARGE_FILE_BYTES", 10)
    assert open_large(f"{bucket}/b.zip") is None


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("nothing://host/a.zip", "'nothing'"),
        ("simplecache::memory://a.zip", "chain"),
        ("memory://a::zip://b", "chain"),
        ("zip://a.zip::https://user:S3CRET@host/a.zip", "chain"),
    ],
)
def test_unknown_schemes_and_chains_are_refused(url: str, word: str) -> None:
    pytest.importorskip("fsspec")
    error = catch(lambda: sbformat.read(url), "S3CRET")
    assert isinstance(error, UnsupportedError)
    assert word in str(error)
