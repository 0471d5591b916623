"""Line tables of code objects: CPython's own are valid, and what describes anything but the bytecode is not."""

from __future__ import annotations

import sys
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

import pytest

import sbformat
from sbformat.known.code import Code, has_valid_line_table, make_code
from tests.helpers.build_blobs import code_parts
from tests.helpers.many_cases import check_each
from tests.helpers.sampling import with_exhaustive

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZE = 8
"""Bytes of bytecode in the cases below."""


def code_with(table: bytes, *, is_new: bool, line: int = 1, constants: tuple[object, ...] = ()) -> Code:
    old = (0, 0, 0, 0, 0, 0, bytes(SIZE), constants, (), (), "f.py", "f")
    parts = (*old, "f", line, table, b"", (), ()) if is_new else (*old, line, table, (), ())
    made = make_code(parts)
    assert made is not None
    return made


def compiled(code: CodeType) -> Code:
    parts: list[Any] = list(code_parts(code))
    parts = [
        tuple(compiled(item) if isinstance(item, CodeType) else item for item in part) if type(part) is tuple else part
        for part in parts
    ]
    made = make_code(tuple(parts))
    assert made is not None
    return made


def functions(code: CodeType) -> Iterator[CodeType]:
    for item in code.co_consts:
        if isinstance(item, CodeType):
            yield item
            yield from functions(item)


@pytest.mark.parametrize("step", with_exhaustive([6], [1]))
def test_tables_of_this_interpreter_are_valid(step: int) -> None:
    """A module begins at line 0 on CPython >= 3.11; functions, which are what is pickled, do not."""
    count = 0
    for path in sorted(Path(sbformat.__file__).parent.rglob("*.py"))[::step]:
        for code in functions(compile(path.read_bytes(), str(path), "exec", dont_inherit=True)):
            assert has_valid_line_table(compiled(code)), (path, code.co_name)
            count += 1
    assert count > 1000 // step


@check_each(
    ("table", "is_valid"),
    [
        (b"", True),
        (b"\x08\x01", True),
        (b"\x09\x01", False),
        (b"\x04\x01\x05\x01", False),
        (b"\x04\x01\x04\x01", True),
        (b"\x04", False),
        (b"\x00\xff", False),  # line 0
        (b"\x00\x05\x00\xfb", True),
        (b"\x00\x80", True),  # no line, on CPython 3.10
        (b"\x00\x80\x00\xff", False),
    ],
)
def test_pairs(table: bytes, is_valid: bool) -> None:  # noqa: FBT001 -- a column of the table
    assert has_valid_line_table(code_with(table, is_new=False)) is is_valid


def test_lines_stay_within_an_int() -> None:
    most = (1 << 31) - 1
    assert has_valid_line_table(code_with(b"\x00\x01", is_new=False, line=most - 1))
    assert not has_valid_line_table(code_with(b"\x00\x01", is_new=False, line=most))
    assert not has_valid_line_table(code_with(b"", is_new=False, line=0))
    assert not has_valid_line_table(code_with(b"\xeb\x02", is_new=True, line=most))


def entry(kind: int, units: int, data: bytes = b"") -> bytes:
    return bytes([0x80 | kind << 3 | units - 1]) + data


@check_each(
    ("table", "is_valid"),
    [
        (entry(15, 4), True),
        (entry(15, 3), False),
        (entry(15, 5), False),
        (b"", False),
        (entry(15, 4, b"\x00"), False),
        (entry(0, 4, b"\x12"), True),
        (entry(9, 4, b"\x12"), True),
        (entry(0, 4), False),
        (entry(10, 4, b"\x12\x13"), True),
        (entry(12, 4, b"\x12"), False),
        (entry(13, 4, b"\x02"), True),
        (entry(13, 4, b"\x03"), False),  # line 0
        (entry(13, 4, b"\x04") + entry(13, 1, b"\x00"), False),
        (entry(13, 2, b"\x04") + entry(13, 2, b"\x03"), True),
        (entry(13, 4, b"\x42"), False),  # a number that is cut short
        (entry(13, 4, b"\x7e" * 5 + b"\x02"), False),  # more than 2**31 lines
        (entry(13, 4, b"\x7e" * 100_000 + b"\x01"), False),
        (entry(14, 4, b"\x02\x00\x01\x05"), True),
        (entry(14, 4, b"\x02\x00\x01"), False),
        (entry(14, 4, b"\x02\x00\x01\x05\x06"), False),
        (entry(14, 4, b"\x02\x00\x7f\x7f\x7f\x7f\x7f\x02\x05"), False),  # a column of 2**31
        (b"\x00" + entry(15, 4), False),
    ],
)
def test_entries(table: bytes, is_valid: bool) -> None:  # noqa: FBT001 -- a column of the table
    assert has_valid_line_table(code_with(table, is_new=True)) is is_valid


def test_nested_code_is_checked() -> None:
    good, bad = entry(15, 4), entry(15, 8)
    for inner, is_valid in ((good, True), (bad, False)):
        nested = code_with(inner, is_new=True)
        outer = code_with(good, is_new=True, constants=(None, nested, nested))
        assert has_valid_line_table(outer) is is_valid


def test_code_that_is_shared_is_checked_once() -> None:
    code = code_with(entry(15, 4), is_new=True)
    for _ in range(50):
        code = code_with(entry(15, 4), is_new=True, constants=(code, code))
    assert has_valid_line_table(code)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="entries came with CPython 3.11")
def test_one_changed_byte_never_covers_more_than_the_bytecode() -> None:
    def example(first: int) -> int:
        return (
            first
            + sum(range(first))
        )  # fmt: skip

    parts = list(code_parts(example.__code__))
    position = parts.index(example.__code__.co_linetable)
    table = parts[position]
    for at in range(len(table)):
        for flip in (1, 0x40, 0x80, 0xFF):
            parts[position] = table[:at] + bytes([table[at] ^ flip]) + table[at + 1 :]
            code = make_code(tuple(parts))
            assert code is not None
            if has_valid_line_table(code):
                changed = example.__code__.replace(co_linetable=parts[position])
                assert len(list(changed.co_positions())) * 2 == len(changed.co_code)
                assert all(line is None or line > 0 for _, _, line in changed.co_lines())
