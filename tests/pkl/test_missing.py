"""What the machine reports when bytes are missing, and when a value or a mark is missing on the stack."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any, Final

import pytest

from sbformat.errors import PickleError
from sbformat.limits import DEFAULT_LIMITS
from sbformat.pkl import machine, state
from sbformat.pkl.opcodes import OPCODES, Opcode
from tests.helpers.many_cases import check_each

ROOM: Final = 1 << 20
UNUSED: Final = 0x7C
"""Not an opcode."""
VALUES: Final = b"N" * 3
"""Enough values for every opcode."""
TAKING: Final = [row for row in OPCODES if not row.argument and row.effect.split("--")[0].strip()]
READING: Final = [row for row in OPCODES if row.argument]


def refuse(data: bytes) -> PickleError:
    with pytest.raises(PickleError) as caught:
        machine.Machine(data, DEFAULT_LIMITS, "ascii", ROOM).run()
    return caught.value


@check_each("row", READING)
def test_a_missing_argument_is_a_pickle_that_is_cut_short(row: Opcode) -> None:
    sizes = {"u1": 1, "u2": 2, "u4": 4, "i4": 4, "u8": 8, "f8": 8}
    for size in range(sizes.get(row.argument, 1)):
        for start in (b"", VALUES + b"("):
            error = refuse(start + bytes([row.code]) + bytes(size))
            assert error.is_cut_short, (size, start)


@check_each("row", TAKING)
def test_a_missing_value_is_not_a_pickle_that_is_cut_short(row: Opcode) -> None:
    assert not refuse(bytes([row.code]) + b"N.").is_cut_short


def test_the_wording_of_an_exception_is_not_significant(monkeypatch: pytest.MonkeyPatch) -> None:
    def take(*_: Any) -> int:
        raise IndexError

    monkeypatch.setitem(machine.HANDLERS, UNUSED, take)
    error = refuse(b"N" + bytes([UNUSED]) + b".")
    assert "takes a value from an empty stack" in str(error)
    assert not error.is_cut_short


def test_bytes_are_never_indexed() -> None:
    """An IndexError means that the stack is empty, so that bytes are sliced, unpacked or iterated."""
    for module in (machine, machine, state):
        for node in ast.walk(ast.parse(Path(module.__file__).read_text("utf-8"))):
            if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Slice):
                name = getattr(node.value, "attr", getattr(node.value, "id", ""))
                assert name not in ("data", "whole"), ast.unparse(node)
