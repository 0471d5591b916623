"""The version and ``system_info.txt``: text, told apart into fields as far as its lines have their form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.generators.build_zips import is_terminal_safe
from sbformat.archive.entries import SystemInfo, parse_system_info, parse_version
from sbformat.errors import DataError
from tests.helpers.sampling import more_examples

SINCE_1_7 = """\
- OS: Linux-6.1.0-x86_64-with-glibc2.36 # 1 SMP: PREEMPT_DYNAMIC
- Python: 3.11.2
- Stable-Baselines3: 2.3.2
- PyTorch: 2.3.0+cpu
- GPU Enabled: False
- Numpy: 1.26.4
- Cloudpickle: 3.0.0
- Gymnasium: 0.29.1
"""
BEFORE_1_7 = SINCE_1_7.replace("- ", "")


@pytest.mark.parametrize("text", [SINCE_1_7, BEFORE_1_7, SINCE_1_7.replace("\n", "\r\n")])
def test_lines_of_key_and_value_are_fields_with_or_without_a_bullet(text: str) -> None:
    found = parse_system_info(text.encode())
    assert found.fields == {
        "OS": "Linux-6.1.0-x86_64-with-glibc2.36 # 1 SMP: PREEMPT_DYNAMIC",
        "Python": "3.11.2",
        "Stable-Baselines3": "2.3.2",
        "PyTorch": "2.3.0+cpu",
        "GPU Enabled": "False",
        "Numpy": "1.26.4",
        "Cloudpickle": "3.0.0",
        "Gymnasium": "0.29.1",
    }
    assert found.text == text


@pytest.mark.parametrize(
    "text", ["", "\n\n", "no colon", "colon:without space", "- bullet", ":", "\x00\x01", "a : "[:2]]
)
def test_lines_of_any_other_form_stay_in_the_text_only(text: str) -> None:
    assert parse_system_info(text.encode()) == SystemInfo({}, text)


def test_the_first_of_two_equal_keys_counts() -> None:
    assert parse_system_info(b"- OS: a\n- OS: b\n").fields == {"OS": "a"}


def test_keys_and_values_are_stripped_and_values_may_be_empty_or_hold_colons() -> None:
    assert parse_system_info(b"-  OS :  a: b  \nPython: \n").fields == {"OS": "a: b", "Python": ""}


@pytest.mark.parametrize(("raw", "offset"), [(b"\xff", 0), (b"OS: caf\xe9\n", 7), (b"OS: \xed\xa0\x80", 4)])
def test_system_info_that_is_not_utf8_is_refused_at_its_byte(raw: bytes, offset: int) -> None:
    with pytest.raises(DataError, match="expected UTF-8") as caught:
        parse_system_info(raw)
    assert caught.value.offset == offset


@pytest.mark.parametrize("version", ["2.3.2", "1.0rc0", "1.3.1a9", "2.4.0a11", "0.9.0", "anything printable", ""])
def test_a_version_is_printable_ascii(version: str) -> None:
    assert parse_version(version.encode()) == version
    assert parse_version(f" {version}\r\n".encode()) == version


@pytest.mark.parametrize("raw", ["2.3.\u00b2", "2.3\n2.4", "2.3\x00", "\x1b[31m2.3", "2.3\u202e", "\u0662.3", "2\t3"])
def test_a_version_that_is_not_is_refused(raw: str) -> None:
    with pytest.raises(DataError, match="printable ASCII") as caught:
        parse_version(raw.encode())
    assert is_terminal_safe(str(caught.value))


@pytest.mark.parametrize("raw", [b"\xff", b"2.3\xa0", b"\xfe\xff\x002"])
def test_a_version_that_is_not_utf8_is_refused(raw: bytes) -> None:
    with pytest.raises(DataError, match="expected UTF-8"):
        parse_version(raw)


@more_examples(100)
@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_bytes_are_read_or_a_data_error(raw: bytes) -> None:
    for parse in (parse_system_info, parse_version):
        try:
            parse(raw)
        except DataError as error:
            assert is_terminal_safe(str(error))  # noqa: PT017
