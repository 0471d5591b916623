"""The entropy coefficient of SAC, TQC and CrossQ: its value in ``data`` and its tensor agree (FORMAT.md 15.6).

In: ``ent_coef``, a number where it is fixed or ``auto``, ``auto_0.1`` where it is learned, and the variables of
``pytorch_variables.pth``. Out: one tensor, which SB3's ``load`` puts in the place of the one that it makes:
``ent_coef_tensor``, without dimensions, or ``log_ent_coef``, of one element; float32 both.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any

from sbformat.errors import UnsupportedError, escape
from sbformat.policies.entropy import FIXED, LEARNED, check_variable, fixed_coefficient, initial_coefficient
from sbformat.pth.values import TensorInfo
from sbformat.tools.rebuild.tensors import scalar, storage_of

if TYPE_CHECKING:
    from sbformat.tools.rebuild.context import Job


def rebuilt_entropy(job: Job, found: object, data: dict[str, Any]) -> tuple[TensorInfo, str, bool]:
    """Return the tensor of the coefficient, why it is another than the archive's, and whether that is a finding.

    :param found: the archive's variable of that name; None when there is none
    :param data: of the result
    :raises UnsupportedError: when the caller assigned a coefficient that SB3 cannot make a tensor of
    """
    value = job.readable("ent_coef") if "ent_coef" in job.options.given else data.get("ent_coef")
    was_given = "ent_coef" in job.replaced
    if was_given and fixed_coefficient(value) is None and initial_coefficient(value) is None:
        shown = escape(str(value), 80)
        message = f"ent_coef: expected a number of at least 0, auto or auto_ with a number above 0, got {shown}"
        raise UnsupportedError(message)
    why = "there was none" if found is None else check_variable(LEARNED if job.learns_entropy else FIXED, found)
    if job.learns_entropy:
        if isinstance(found, TensorInfo) and not why and not (was_given and _sets_start(job, value)):
            return found, "", False
        initial = initial_coefficient(value) or 1.0
        return _vector(math.log(initial)), f"log({initial}): {why or 'as ent_coef was given'}", not was_given
    made = scalar(fixed_coefficient(value) or 0.0)
    if isinstance(found, TensorInfo) and not why:
        if _item(found) == _item(made):
            return found, "", False
        why = f"the archive's is {_item(found)}, and ent_coef is another"
    return made, f"{value}, from ent_coef: {'as it was given' if was_given else why}", not was_given


def _sets_start(job: Job, value: object) -> bool:
    """Whether the caller asks for another beginning than the archive's."""
    return value != "auto" and value != job.readable("ent_coef")


def _item(info: TensorInfo) -> float:
    """Return the one element of a float32 tensor."""
    data = bytes(info.storage.bytes()[info.offset * 4 : info.offset * 4 + 4])
    number: float = struct.unpack(">f" if info.storage.byte_order == "big" else "<f", data)[0]
    return -number if info.neg else number


def _vector(value: float) -> TensorInfo:
    """Return a float32 tensor of one element, which SB3 learns."""
    return TensorInfo("float32", (1,), (1,), 0, storage_of(struct.pack("<f", value), "float32"), requires_grad=True)
