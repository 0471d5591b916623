"""What a URL is, its name in messages, and its options."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbformat.io.urls import Url, as_url, find_scheme, hide_secrets, is_url, join_url, last_name, local_path
from tests.helpers.sampling import more_examples


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("https://host/a.zip", True), ("HTTP://host", True), ("s3://bucket/key", True), ("hf://user/name", True),
        ("memory://a", True), ("git+ssh://host/a", True), ("file:///a.zip", True),
        ("a.zip", False), ("/runs/a.zip", False), ("C:\\a.zip", False), ("C://a.zip", False), ("C:/a.zip", False),
        ("https:/host", False), ("://host", False), ("runs/https://host", False), ("1a://x", False), ("", False),
        (b"https://host", False), (Path("https://host"), False), (None, False), (5, False),
    ],
)  # fmt: skip
def test_a_url_begins_with_a_scheme(source: Any, expected: bool) -> None:  # noqa: FBT001
    assert is_url(source) is expected


def test_schemes_are_in_lower_case() -> None:
    assert [find_scheme(url) for url in ("HTTPS://h", "s3://b", "a.zip")] == ["https", "s3", ""]


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("file:///a/b%20c.zip", "/a/b c.zip"), ("file://localhost/a.zip", "/a.zip"), ("FILE:///a", "/a"),
        ("local:///a", "/a"), ("file://localhosts/a", "localhosts/a"), ("https://h/a", None), ("s3://file://a", None),
    ],
)  # fmt: skip
def test_a_file_url_is_a_path(url: str, path: str | None) -> None:
    assert local_path(url) == path


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://h/runs/a%20b.zip?x=/c.pkl#/d.pth", "a b.zip"), ("https://h/runs/", "runs"), ("https://h", ""),
        ("s3://bucket/runs/a#1?.zip", "a#1?.zip"), ("s3://bucket", "bucket"), ("hf://user/name", "name"),
    ],
)  # fmt: skip
def test_the_last_name(url: str, name: str) -> None:
    assert last_name(url) == name


# -- secrets ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://host/a.zip", "https://host/a.zip"),
        ("https://user:pw@host:8080/a.zip", "https://host:8080/a.zip"),
        ("https://token@host/a", "https://host/a"),
        ("https://a@b@host/a", "https://host/a"),
        ("https://user:p/w@host/a", "https://host/a"),
        ("https://user:p?w@host/a", "https://host/a"),
        ("https://user:p#w@host/a", "https://host/a"),
        ("https://host/@scope/a@1.zip", "https://host/@scope/a@1.zip"),
        ("https://host:8080/@scope/a.zip", "https://host:8080/@scope/a.zip"),
        ("http://[::1]:80/a@b", "http://[::1]:80/a@b"),
        ("https://host/a#token", "https://host/a"),
        ("https://host/a?sig=abc#token", "https://host/a?sig=#ba7816bf"),
        ("https://host/a?abc", "https://host/a?#ba7816bf"),
        ("https://host/a?abc=", "https://host/a?abc="),
        ("https://host/a?x=abc&y=abc", "https://host/a?x=#ba7816bf&y=#ba7816bf"),
        ("https://host/a?", "https://host/a?"),
        ("https://host?sig=abc", "https://host?sig=#ba7816bf"),
        ("s3://key:secret@bucket/a.zip", "s3://bucket/a.zip"),
        ("s3://bucket/a#1.zip", "s3://bucket/a#1.zip"),
        ("s3://bucket/a.zip?versionId=abc", "s3://bucket/a.zip?versionId=#ba7816bf"),
        ("hf://user/name@main/a.zip", "hf://user/name@main/a.zip"),
        ("hf://?author=sb3&tag=x", "hf://?author=sb3&tag=x"),
        ("hf://?author=sb3&token=abc", "hf://?author=sb3&token=#ba7816bf"),
        ("hf://user/name?token=abc", "hf://user/name?token=#ba7816bf"),
        ("runs/a.zip", "runs/a.zip"),
    ],
)
def test_names_have_no_secrets(url: str, shown: str) -> None:
    assert hide_secrets(url) == shown
    assert hide_secrets(shown).count("abc") <= 1


def test_different_queries_have_different_names() -> None:
    names = {hide_secrets(f"https://h/a?sig={number}") for number in range(100)}
    assert len(names) == 100


@more_examples(100)
@given(st.text("ab/?#@:%&=", max_size=12), st.sampled_from(["https", "s3", "hf", "ftp"]))
def test_a_password_is_never_shown(before: str, scheme: str) -> None:
    """Wherever the user forgot to quote something."""
    assert "S3CRET" not in hide_secrets(f"{scheme}://u:S3CRET{before}@host/a.zip")
    assert "S3CRET" not in hide_secrets(f"{scheme}://host/a.zip?token=S3CRET{before.replace('#', '')}")


@more_examples(100)
@given(st.text(max_size=60))
def test_every_text_has_a_name(text: str) -> None:
    shown = hide_secrets(f"https://{text}")
    assert isinstance(shown, str)
    assert last_name(f"https://{text}") is not None


# -- options ------------------------------------------------------------------------------------------


def test_options_go_with_a_url_and_are_not_shown() -> None:
    url = Url("s3://bucket/runs?x=secret", key="k", secret="s3cr3t", private_redirects=True, timeout=5)  # noqa: S106
    assert url == "s3://bucket/runs?x=secret"
    options = {"key": "k", "secret": "s3cr3t"}
    assert (url.options, url.private_redirects, as_url(url).timeout) == (options, True, 5)
    assert "s3cr3t" not in repr(url)
    assert "x=secret" not in repr(url)
    again = pickle.loads(pickle.dumps(url))
    assert (type(again), again, again.keywords()) == (Url, url, {**options, "private_redirects": True, "timeout": 5})
    assert as_url("s3://bucket/runs").timeout == 30
    for wrong in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="expected a timeout above 0"):
            Url("s3://bucket/runs", timeout=wrong)


def test_a_file_in_a_folder_has_the_options_of_the_folder() -> None:
    folder = Url("s3://bucket/runs/", anon=True, private_redirects=True, timeout=5)
    file = join_url(folder, "a/b.zip")
    assert isinstance(file, Url)
    assert (file, file.keywords()) == ("s3://bucket/runs/a/b.zip", folder.keywords())
    assert (file.options, file.private_redirects, file.timeout) == ({"anon": True}, True, 5)
    assert type(join_url("s3://bucket", "a")) is str


@pytest.mark.parametrize("text", ["a.zip", "", "C:\\a", "user:S3CRET@host/a"])
def test_what_is_not_a_url_has_no_options(text: str) -> None:
    with pytest.raises(ValueError, match="expected a URL such as"):
        Url(text)
