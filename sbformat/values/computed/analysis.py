"""Analysis of one function: under each release that may have compiled it, until one result is certain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sbformat.values.computed.classify import classify
from sbformat.values.computed.errors import NotUnderstoodError, refuse
from sbformat.values.computed.machine import Machine
from sbformat.values.computed.objects import Closure, Known, Method, Object, Unusable, convert
from sbformat.values.computed.opcodes import PYTHON_3_14, list_releases
from sbformat.values.types import FloatSchedule

if TYPE_CHECKING:
    from sbformat.values.code import Code
    from sbformat.values.computed.schedule import ComputedSchedule
    from sbformat.values.types import ConstantSchedule, LinearSchedule


def analyze(function: object) -> tuple[ConstantSchedule | LinearSchedule | ComputedSchedule | None, str]:
    """Return the schedule of a function, or None and a reason."""
    while isinstance(function, FloatSchedule):
        function = function.schedule
    try:
        return _analyze(convert(function)), ""
    except NotUnderstoodError as error:
        return None, str(error)


def _analyze(callee: Any) -> ConstantSchedule | LinearSchedule | ComputedSchedule:
    """Return the schedule that every release which can have compiled a function agrees on.

    :raises NotUnderstoodError: when there is none
    """
    if isinstance(callee, Unusable):
        refuse(callee.reason)
    code = _find_code(callee)
    found = []
    reasons = []
    for release in (PYTHON_3_14,) if code is None else list_releases(code):
        try:
            machine = Machine(release)
            found.append(classify(machine.run(callee), machine.traces))
        except NotUnderstoodError as error:
            reasons.append(str(error))
    if not found:
        refuse(min(reasons, key=_vagueness))
    if any(other != found[0] for other in found[1:]):
        refuse("it means something else in another release of CPython")
    return found[0]


def _vagueness(reason: str) -> int:
    """Return how little a reason says: what another release would make of the bytecode says least."""
    return 2 if "known release" in reason else "uses opcode" in reason


def _find_code(callee: Any) -> Code | None:
    """Return the code object that a call executes first; None for a schedule of SB3, which has none."""
    while isinstance(callee, Method):
        callee = callee.function
    if isinstance(callee, Object):
        callee = convert(callee.methods.get("__call__"))
    if isinstance(callee, Closure):
        return callee.code
    if not isinstance(callee, Known):
        refuse("it is not a function whose bytecode is in the file")
    return None
