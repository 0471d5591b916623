"""Trials: what each run of the machine computed, repeated with numbers as Python computes (VALUES.md 13.5).

The machine decides with exact numbers what Python decides with rounded ones, and an operation whose result is not used
may fail, too. So everything that a run computed is computed again for many values of the remaining progress: where an
operation fails, or a decision differs, the function is not understood.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from sbformat.values.computed.errors import NotUnderstoodError, refuse
from sbformat.values.computed.expressions import PROGRESS, Expression
from sbformat.values.computed.operations import apply_operation
from sbformat.values.computed.piecewise import find_roots

if TYPE_CHECKING:
    from fractions import Fraction

    from sbformat.values.computed.expressions import Operand
    from sbformat.values.computed.machine import Trace

_MOST_OPERATIONS: Final = 250_000
"""Of all trials. Four pieces, computed in a loop, take 20000."""
_MOST_SPECIAL: Final = 400
_GOLDEN: Final = (math.sqrt(5) - 1) / 2
_LEAST: Final = 1e-15
"""Of the points that are tried beside 0: one step of a training is more."""
POINTS: Final = frozenset(
    {step / 128 for step in range(129)}
    | {1 - step / 1000 for step in range(0, 1000, 8)}
    | {step * _GOLDEN % 1 for step in range(1, 64)}
    | {2.0**-step for step in range(8, 50, 3)}
    | {1 - 2.0**-step for step in range(8, 54, 3)}
)
"""Progress that is tried for every function."""


def run_trials(traces: list[Trace], cuts: tuple[Fraction, ...] = ()) -> dict[float, float]:
    """Return what a function returns for many values of the remaining progress, ascending.

    :param traces: its runs, with all that they computed
    :param cuts: further points that are tried, with what is next to them
    :raises NotUnderstoodError: where Python raises an error, or decides otherwise than these runs
    """
    work = _Work()
    points = sorted(POINTS | _find_special_points(traces, cuts))
    return {point: _try(traces, point, work) for point in points}


class _Work:
    def __init__(self) -> None:
        self.left = _MOST_OPERATIONS


def _find_special_points(traces: list[Trace], cuts: tuple[Fraction, ...]) -> set[float]:
    """Return the points at which conditions change or operations may fail, and their neighbours."""
    found: set[Fraction] = set(cuts)
    done: set[int] = set()
    for trace in traces:
        for step in trace.steps:
            expression = step.expression
            if id(expression) in done:
                continue
            done.add(id(expression))
            if expression.affine is not None:
                found.update(expression.affine.cuts)
            if expression.operation is not None and expression.operation.can_fail:
                for operand in expression.operands:
                    if isinstance(operand, Expression) and operand.affine is not None:
                        found.update(find_roots(operand.affine, (-1, 0, 1)))
            if len(found) > _MOST_SPECIAL:
                refuse("it has too many pieces")
    near = [float(point) for point in found]
    near += [(left + right) / 2 for left, right in zip(sorted(near), sorted(near)[1:])]
    near += [math.nextafter(point, side) for point in near for side in (0.0, 1.0)]
    near += [point + side * 1e-9 for point in near for side in (-1, 1)]
    return {point for point in near if point == 0 or _LEAST <= point <= 1}


def _try(traces: list[Trace], point: float, work: _Work) -> float:
    """Return the result of the run that a progress leads to."""
    for trace in traces:
        done: dict[int, int | float] = {id(PROGRESS): point}
        if _follow(trace, point, done, work):
            value = float(_value(trace.result, done))
            return value if math.isfinite(value) else _fail(point)
    return refuse("it depends on how numbers are rounded")


def _follow(trace: Trace, point: float, done: dict[int, int | float], work: _Work) -> bool:
    """Compute the steps of a run; return whether all of its conditions hold."""
    for expression, expected, is_choice in trace.steps:
        value = done.get(id(expression))
        if value is None:
            work.left -= 1
            if work.left < 0 or expression.operation is None:
                refuse(f"it needs more than {_MOST_OPERATIONS} operations")
            operands = tuple(_value(part, done) for part in expression.operands)
            try:
                value = done[id(expression)] = apply_operation(expression.operation, operands)
            except (NotUnderstoodError, OverflowError):
                _fail(point)
        if expected is not None and bool(value) is not expected:
            return is_choice is False and refuse("it depends on how numbers are rounded")
    return True


def _value(operand: Operand, done: dict[int, int | float]) -> int | float:
    return done[id(operand)] if isinstance(operand, Expression) else operand


def _fail(point: float) -> float:
    return refuse(f"it has no finite value at progress {point:.6g}")
