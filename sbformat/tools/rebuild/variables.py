"""``pytorch_variables.pth``: the entropy coefficient of SAC, TQC and CrossQ, made to agree with ``ent_coef``.

In: ``ent_coef`` of the new ``data`` and the old variables. Out: one tensor, or none for other algorithms, which SB3's
``load`` puts in the place of the one that it makes (REBUILDING.md 15.6).
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any

from sbformat.constants import PYTORCH_VARIABLES_ENTRY, TORCH_VARIABLES
from sbformat.errors import UnsupportedError, escape
from sbformat.known.algorithms import ENTROPY_LEARNERS
from sbformat.nets.entropy import FIXED, KEY, LEARNED, check_variable, fixed_coefficient, initial_coefficient
from sbformat.pth.values import TensorInfo
from sbformat.tools.rebuild.report import Row
from sbformat.tools.rebuild.tensors import make_scalar, make_storage

if TYPE_CHECKING:
    from sbformat.tools.rebuild.context import RebuildContext


def rebuild_variables(context: RebuildContext, data: dict[str, Any]) -> dict[str, TensorInfo]:
    """Return the variables that SB3 has for the algorithm; others would become attributes of the agent.

    :param data: of the result
    :raises UnsupportedError: when the caller assigned a coefficient that SB3 cannot make a tensor from
    """
    found = context.archive.pytorch_variables
    tree: Any = found.tree if found is not None and isinstance(found.tree, dict) else {}
    wanted = "" if context.algorithm not in ENTROPY_LEARNERS else LEARNED if context.learns_entropy else FIXED
    for name, value in tree.items():
        if name != wanted and not (name in TORCH_VARIABLES and value is None):
            message = f"not a variable of {context.algorithm}{wanted and f', which has only {wanted}'}"
            context.report("dropped", message, key=str(name), entry=PYTORCH_VARIABLES_ENTRY)
    return {wanted: _rebuild_coefficient(context, wanted, tree.get(wanted), data)} if wanted else {}


def _rebuild_coefficient(context: RebuildContext, name: str, found: object, data: dict[str, Any]) -> TensorInfo:
    """Return the tensor of the coefficient, with a row when it is not the archive's.

    :param name: of the variable
    :param found: the archive's variable of that name; None when it is missing
    """
    is_supplied = KEY in context.options.supplied_at_load
    value = context.decode_or_none(KEY) if is_supplied else data.get(KEY)
    is_assigned = KEY in context.assigned
    if is_assigned and fixed_coefficient(value) is None and initial_coefficient(value) is None:
        shown = escape(str(value), 80)
        message = f"{KEY}: expected a number of at least 0, auto or auto_ with a number above 0, got {shown}"
        raise UnsupportedError(message)
    why = "it was missing" if found is None else check_variable(name, found)
    if name == LEARNED:
        sets_start = is_assigned and value not in ("auto", context.decode_or_none(KEY))
        if isinstance(found, TensorInfo) and not why and not sets_start:
            return found
        initial = initial_coefficient(value) or 1.0
        row = Row(PYTORCH_VARIABLES_ENTRY, name, "dropped", why or f"as {KEY} was assigned", f"log({initial})")
        _report_coefficient(context, row._replace(new=math.log(initial)), found, is_assigned=is_assigned)
        return _make_learned(math.log(initial))
    made = make_scalar(fixed_coefficient(value) or 0.0)
    if isinstance(found, TensorInfo) and not why:
        if _read_item(found) == _read_item(made):
            return found
        why = f"the archive's tensor is {_read_item(found)}, which contradicts {KEY}"
    why = "as it was assigned" if is_assigned else why
    row = Row(PYTORCH_VARIABLES_ENTRY, name, "dropped", why, f"{value}, from {KEY}", new=_read_item(made))
    _report_coefficient(context, row, found, is_assigned=is_assigned)
    return made


def _report_coefficient(context: RebuildContext, row: Row, found: object, *, is_assigned: bool) -> None:
    """Add the row of a tensor that takes the place of the archive's.

    :param row: as if nobody had assigned it
    :param found: the archive's tensor
    """
    if is_assigned:
        row = row._replace(action="translated", message=f"{row.instead}: {row.message}", instead=None)
    old = None
    if isinstance(found, TensorInfo) and found.dtype == "float32" and found.numel == 1:
        old = _read_item(found)
    context.rows.append(row._replace(old=old, is_finding=not is_assigned, is_hyperparameter=True))


def _read_item(info: TensorInfo) -> float:
    """Return the only element of a float32 tensor."""
    data = bytes(info.storage.bytes()[info.offset * 4 : info.offset * 4 + 4])
    number: float = struct.unpack(">f" if info.storage.byte_order == "big" else "<f", data)[0]
    return -number if info.neg else number


def _make_learned(value: float) -> TensorInfo:
    """Return a float32 tensor of one element that an optimizer changes."""
    return TensorInfo("float32", (1,), (1,), 0, make_storage(struct.pack("<f", value), "float32"), requires_grad=True)
