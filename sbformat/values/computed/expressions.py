"""Expressions in the remaining progress: the value of a schedule before training says what the progress is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sbformat.values.computed import operations, piecewise
from sbformat.values.computed.errors import NotUnderstoodError, refuse
from sbformat.values.computed.operations import Operation, apply_operation

if TYPE_CHECKING:
    from sbformat.values.computed.piecewise import Piecewise

_MOST_LEVELS: Final = 150
_MOST_PARTS: Final = 120
"""Numbers and operations of a formula that is rendered."""
_NAME: Final = "p"


class Expression:
    """An operation on numbers and other expressions, at least one of which depends on the remaining progress.

    Expressions share parts, so that their number is bounded by the steps of the machine, whatever the formula's length.
    """

    __slots__ = ("affine", "depth", "kind", "operands", "operation")

    def __init__(self, operation: Operation | None, operands: tuple[Operand, ...], kind: str) -> None:
        self.operation = operation
        self.operands = operands
        self.kind = kind
        """``float``, ``bool``, ``int``, or ``number`` when it is not known."""
        self.depth: int = 1 + max((part.depth for part in operands if isinstance(part, Expression)), default=0)
        if self.depth > _MOST_LEVELS:
            refuse("its formula is too deep")
        self.affine: Piecewise | None = _find_affine(self)

    def evaluate(self, progress: float) -> float:
        """Return its value as Python computes it, NaN where that raises an error."""
        try:
            return float(_evaluate(self, progress, {}))
        except (NotUnderstoodError, OverflowError):
            return math.nan

    def __eq__(self, other: object) -> bool:
        """Return whether formulas are the same, as far as their text and a few values show."""
        return isinstance(other, Expression) and (
            self is other
            or (render_formula(self) == render_formula(other) and all(map(_same, _values(self), _values(other))))
        )

    def __hash__(self) -> int:
        return hash((self.kind, self.depth))

    def __repr__(self) -> str:
        return f"Expression({render_formula(self)})"


Operand: TypeAlias = "int | float | Expression"


def _values(expression: Expression) -> list[float]:
    return [expression.evaluate(step / 16) for step in range(17)]


def _same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


def apply(operation: Operation, *operands: Operand) -> Operand:
    """Return the result for numbers, and an expression otherwise.

    :raises NotUnderstoodError: when Python raises an error for these numbers
    """
    numbers = tuple(part for part in operands if not isinstance(part, Expression))
    if len(numbers) == len(operands):
        return apply_operation(operation, numbers)
    if operation is operations.FLOAT and find_kind(operands[0]) == "float":
        return operands[0]
    return Expression(operation, operands, _find_result_kind(operation, operands))


def find_kind(operand: Operand) -> str:
    """Return the type of a number: ``float``, ``bool``, ``int``, or ``number`` when it is not known."""
    return operand.kind if isinstance(operand, Expression) else type(operand).__name__


def _find_result_kind(operation: Operation, operands: tuple[Operand, ...]) -> str:
    if operation.returns != "like":
        return operation.returns
    if operation is operations.ROUND and len(operands) == 1:
        return "int"
    chosen = operands[1:] if operation is operations.IF else operands
    kinds = {find_kind(part) for part in chosen}
    mixed = operation.precedence == 0 or operation is operations.IF  # min(1, p) is an int where p is 1.0
    if kinds == {"float"} or ("float" in kinds and not mixed):
        return "float"
    return "number"


def _find_affine(expression: Expression) -> Piecewise | None:
    """Return the exact function, where it is affine by pieces."""
    operation = expression.operation
    if operation is None:
        return piecewise.PROGRESS
    parts = []
    for operand in expression.operands:
        if isinstance(operand, Expression):
            part = operand.affine
        else:
            part = piecewise.make_constant(operand) if math.isfinite(operand) else None
        if part is None:
            return None
        parts.append(part)
    found = operation.affine(*parts) if operation.affine is not None else None
    if found is None and all(part.is_constant_by_cell for part in parts):
        return _apply_by_cell(operation, parts)
    return found


def _apply_by_cell(operation: Operation, parts: list[Piecewise]) -> Piecewise | None:
    """Return the result of an operation on functions that are constant in each cell."""

    def make(*lines: piecewise.Line) -> piecewise.Line | None:
        try:
            value = apply_operation(operation, tuple(float(line.offset) for line in lines))
        except (NotUnderstoodError, OverflowError):
            return None
        return piecewise.make_constant(value).cells[0] if math.isfinite(value) else None

    return piecewise.combine(make, *parts)


def _evaluate(operand: Operand, progress: float, done: dict[int, int | float]) -> int | float:
    """Return the value of an operand; parts that are shared are computed once."""
    if not isinstance(operand, Expression):
        return operand
    if operand.operation is None:
        return progress
    if id(operand) not in done:
        if operand.operation is operations.IF:
            test, one, other = operand.operands
            done[id(operand)] = _evaluate(one if _evaluate(test, progress, done) else other, progress, done)
        else:
            values = tuple(_evaluate(part, progress, done) for part in operand.operands)
            done[id(operand)] = apply_operation(operand.operation, values)
    return done[id(operand)]


PROGRESS: Final = Expression(None, (), "float")
"""The remaining progress."""


# -- text ---------------------------------------------------------------------------------------------


def render_formula(expression: Operand) -> str:
    """Return a formula in Python's notation, with ``p`` for the remaining progress; words for a long one."""
    parts: list[str] = []
    try:
        text = _render(expression, 0, parts)
    except NotUnderstoodError:
        return f"a formula in {_NAME} of more than {_MOST_PARTS} parts"
    return text


def _render(operand: Operand, outer: int, parts: list[str]) -> str:
    """Return the text of an operand, in parentheses if what is around it binds more strongly."""
    parts.append("")
    if len(parts) > _MOST_PARTS:
        refuse("its formula is too long")
    if not isinstance(operand, Expression):
        text, own = repr(operand), 11 if operand < 0 else 20
    elif operand.operation is None:
        text, own = _NAME, 20
    else:
        text, own = _render_operation(operand.operation, operand.operands, parts), operand.operation.precedence or 20
    return f"({text})" if own < outer else text


def _render_operation(operation: Operation, operands: tuple[Any, ...], parts: list[str]) -> str:
    own = operation.precedence
    if not own:
        return f"{operation.name}({', '.join(_render(part, 0, parts) for part in operands)})"
    if operation is operations.IF:
        test, one, other = operands
        shown = (_render(one, own + 1, parts), _render(test, own + 1, parts), _render(other, own, parts))
        return "{} if {} else {}".format(*shown)
    if len(operands) == 1:
        space = " " if operation.name == "not" else ""
        return f"{operation.name.removesuffix('x')}{space}{_render(operands[0], own, parts)}"
    is_power = operation is operations.POW
    left, right = (own + 1, own - 1) if is_power else (own + (own == 4), own + 1)
    return f"{_render(operands[0], left, parts)} {operation.name} {_render(operands[1], right, parts)}"
