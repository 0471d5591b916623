"""Every row, and how a call in a pickle finds its decoder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.known import numpy, python, sb3, schedules, spaces, torch
from sbformat.known.numpy import decode_gym_generator
from sbformat.known.rows import TABLE, current_name, find, find_called, find_role, later
from sbformat.pkl.tree import Call, Global

if TYPE_CHECKING:
    from sbformat.known.rows import Known, NodeDecoder
    from sbformat.pkl.tree import Pair

__all__ = ["FAMILIES", "TABLE", "current_name", "find", "find_called", "find_node_decoder", "find_role", "list_place"]

FAMILIES: Final[tuple[list[Known], ...]] = (
    spaces.ROWS, schedules.ROWS, numpy.ROWS, torch.ROWS, sb3.ROWS, sb3.SB2_ROWS, sb3.SBX_ROWS, python.ROWS,
    python.BY_VALUE_ROWS,
)  # fmt: skip
"""The rows of each family. A name has one row."""

TABLE.update({row[:2]: row for rows in FAMILIES for row in rows})

_CLASSES: Final = frozenset({"carried_class", "carried_enum", "filled_class"})
_FUNCTIONS: Final = frozenset({"function", "skeleton_function", "filled_function"})
_OBJECT_OF_CLASS: Final = later("decode_object")
_RECONSTRUCTED: Final = later("decode_reconstructed_object")
_COMPUTED: Final = {"attribute": decode_gym_generator, "builtin_type": later("decode_builtin_type_call")}
_CALLED_FUNCTION: Final = later("reject_called_function")


def list_place(place: str) -> dict[Pair, Known]:
    """Return the classes that an argument such as ``activation_fn`` may have, in the order of the rows."""
    return {pair: row for pair, row in TABLE.items() if row.place == place}


def find_node_decoder(node: Call) -> NodeDecoder | None:
    """Return the node decoder of a call, or None when its constructor is not known."""
    func = node.func
    if type(func) is Call:  # the result of another call
        role = find_role(func)
        if role in _CLASSES:
            return _OBJECT_OF_CLASS if node.how in ("REDUCE", "NEWOBJ", "NEWOBJ_EX") else None
        if node.how != "REDUCE":
            return None
        is_function = role in _FUNCTIONS or (isinstance(func.func, Call) and find_role(func.func) == "builtin_type")
        return _COMPUTED.get(role or "", _CALLED_FUNCTION if is_function else None)
    if type(func) is not Global or func.updates or type(node.args) is not tuple:
        return None
    row = find(func.pair)
    if node.how == "REDUCE":
        is_object = row.role == "reconstructor" and node.args and isinstance(node.args[0], Call)
        return _RECONSTRUCTED if is_object else row.call
    return row.new if node.how == "NEWOBJ" else None
