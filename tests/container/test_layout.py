"""Which names a member may have, and which are fit to be paths on any file system."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.generators.build_zips import BIDI, is_terminal_safe
from sbformat.container.layout import NAME_BYTES, check_name, check_path, check_paths
from sbformat.errors import ContainerError
from tests.helpers.sampling import more_examples

# -- any name -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "data", "policy.pth", "_stable_baselines3_version", "archive/data/0", "model/pi_fc0/w:0.npy", "a\\b", "..",
        "/", "a b",
        "gr\u00fc\u00dfe", "\u4f60\u597d", "\U0001f600", "e\u0301", "a/", "x" * NAME_BYTES,
        "\u00e9" * (NAME_BYTES // 2), " ", ".",
    ],
)  # fmt: skip
def test_a_name_may_be_any_printable_utf8(name: str) -> None:
    assert check_name(name.encode()) == name


@pytest.mark.parametrize("size", [0, NAME_BYTES + 1, 65_535])
def test_a_name_has_1_to_1024_bytes(size: int) -> None:
    with pytest.raises(ContainerError, match=f"expected a name of 1 to 1024 bytes, got {size}") as caught:
        check_name(b"x" * size, 12)
    assert caught.value.offset == 12


def test_the_length_is_counted_in_bytes_not_characters() -> None:
    with pytest.raises(ContainerError, match="got 1026"):
        check_name("\u00e9".encode() * 513)


@pytest.mark.parametrize("raw", [b"\xff", b"caf\xe9", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"a\xe2\x82"])
def test_a_name_is_strict_utf8(raw: bytes) -> None:
    with pytest.raises(ContainerError, match="not UTF-8") as caught:
        check_name(raw)
    assert is_terminal_safe(str(caught.value))


@pytest.mark.parametrize("code", [*range(0x20), 0x7F, *range(0x80, 0xA0), 0x2028, 0x2029, *map(ord, BIDI)])
def test_control_and_bidi_characters_are_refused_and_shown_escaped(code: int) -> None:
    with pytest.raises(ContainerError, match="control or bidi") as caught:
        check_name(f"a{chr(code)}b".encode(), 3)
    assert is_terminal_safe(str(caught.value))
    assert caught.value.offset == 3


@more_examples(100)
@given(st.binary(max_size=NAME_BYTES + 2))
def test_any_bytes_are_a_name_or_refused(raw: bytes) -> None:
    try:
        name = check_name(raw)
    except ContainerError as error:
        assert is_terminal_safe(str(error))  # noqa: PT017
    else:
        assert name.encode() == raw


# -- paths --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "data", "policy.pth", "a/b/c", "folder/", ".hidden", "a..b", "...a", "con_", "console", "aconb", "xcon",
        "com", "com10",
        "lpt", "nulx", "auxiliary", "prn2", "a b", "gr\u00fc\u00dfe", "\u4f60\u597d", "~", "-rf", "a'b",
    ],
)  # fmt: skip
def test_plain_relative_names_are_fit_to_be_paths(name: str) -> None:
    check_path(name)


@pytest.mark.parametrize(
    "name",
    [
        "/", "/etc/passwd", "//host/share", "a\\b", "\\", "..\\up", "C:", "C:/x", "a:b", "data:stream",
    ],
)  # fmt: skip
def test_absolute_names_backslashes_and_colons_are_refused(name: str) -> None:
    with pytest.raises(ContainerError, match="outside its folder"):
        check_path(name)


@pytest.mark.parametrize(
    "name",
    ["..", ".", "../up", "a/../b", "a/..", "./a", "a/./b", "a//b", "a//", "a.", "a ", "a./b", "a /b", "...", "a/ /b"],
)
def test_parts_that_are_empty_or_end_with_a_dot_or_space_are_refused(name: str) -> None:
    with pytest.raises(ContainerError, match="empty, a dot or ends"):
        check_path(name)


@pytest.mark.parametrize(
    "name",
    [
        "con", "CON", "Con.txt", "nul", "NUL.tar.gz", "aux", "prn.x", "com0", "com1", "COM9.log", "lpt1", "lpt\u00b9",
        "com\u00b2",
        "a/nul", "nul/a", "conin$", "CONOUT$", "con .txt", "aux\t.x",
    ],
)  # fmt: skip
def test_windows_devices_are_refused_in_any_case_and_with_any_extension(name: str) -> None:
    with pytest.raises(ContainerError, match="device on Windows"):
        check_path(name)


@pytest.mark.parametrize(
    "name",
    [
        "\uff0e\uff0e/up",  # fullwidth full stops
        "\u2025/up",  # two dot leader
        "\u2024\u2024/up",  # one dot leaders
        "\uff0fetc",  # fullwidth solidus
        "a\uff3cb",  # fullwidth backslash
        "C\uff1ax",  # fullwidth colon
        "\uff43\uff4f\uff4e",  # fullwidth con
        "nu\uff2c",
        "a\u2026",  # horizontal ellipsis
        "a\u00a0",  # no-break space
        "a\u3000/b",  # ideographic space
    ],
)
def test_names_are_checked_as_they_stand_after_normalisation_too(name: str) -> None:
    check_name(name.encode())
    with pytest.raises(ContainerError) as caught:
        check_path(name, 9)
    assert caught.value.offset == 9
    assert is_terminal_safe(str(caught.value))


# -- names together -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "names",
    [
        ["data", "policy.pth"],
        ["a/b", "a/c"],
        ["a/", "a/b"],
        ["a/b", "a/"],
        ["a", "b/a"],
        ["a.pth", "a"],
        ["ab", "a/b"],
        [],
    ],
)
def test_names_that_meet_nowhere_are_accepted(names: list[str]) -> None:
    check_paths(names)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("data", "DATA"),
        ("a/b", "A/B"),
        ("a", "a/"),
        ("\u00e9", "e\u0301"),
        ("\u00df", "ss"),
        ("\u00df", "SS"),
        ("\u212a", "k"),
        ("\ufb01", "fi"),
        ("\u03c3", "\u03c2"),
        ("\uff44ata", "data"),
        ("\u00c9", "e\u0301"),
        ("\u0130", "i\u0307"),
    ],
)
def test_names_that_meet_when_case_is_folded_or_normalised_are_refused_in_any_order(first: str, second: str) -> None:
    for names in ([first, second], [second, first]):
        with pytest.raises(ContainerError, match="are equal when case is folded") as caught:
            check_paths(names)
        assert is_terminal_safe(str(caught.value))


@pytest.mark.parametrize(
    "names", [["a", "a/b"], ["a/b", "a"], ["a/b/c/d", "a/b"], ["A", "a/b"], ["\u00e9", "e\u0301/b"]]
)
def test_a_file_under_a_file_is_refused(names: list[str]) -> None:
    with pytest.raises(ContainerError, match="is inside the file"):
        check_paths(names)


def test_the_same_name_twice_is_refused() -> None:
    with pytest.raises(ContainerError):
        check_paths(["data", str(b"data", "ascii")])


@more_examples(100)
@given(st.lists(st.text(st.sampled_from("aA\u00e9\u00c9/.\u00df s"), min_size=1, max_size=4), max_size=5))
def test_any_names_are_accepted_or_refused(names: list[str]) -> None:
    try:
        for name in names:
            check_path(name)
        check_paths(names)
    except ContainerError as error:
        assert is_terminal_safe(str(error))  # noqa: PT017
