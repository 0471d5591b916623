"""Which recogniser reads what: the table from roles to functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.globals.recognized import OBJECTS, PLAIN_OBJECTS
from sbformat.globals.stdlib import SLOT_OBJECTS
from sbformat.pkl.tree import Call, Global
from sbformat.pth.constructors import CONSTRUCTORS
from sbformat.values import arrays, objects, schedules, spaces, tensors
from sbformat.values.context import role_of

if TYPE_CHECKING:
    from sbformat.values.context import Recogniser

_CALLED: Final[dict[str, Recogniser]] = {
    **dict.fromkeys(CONSTRUCTORS, tensors.constructed),
    "ordered_dict": objects.ordered_dict,
    "set": objects.a_set,
    "frozenset": objects.a_set,
    "numpy_scalar": arrays.array,
    "numpy_array": arrays.array,
    "numpy_dtype": arrays.dtype,
    "random_state": arrays.random_state,
    "generator": arrays.generator,
    "bit_generator": arrays.bit_generator,
    "seed_sequence": arrays.seed_sequence,
    "deque": objects.a_deque,
    "default_dict": objects.default_dict,
    "datetime": objects.date,
    "date": objects.date,
    "time": objects.date,
    "timedelta": objects.timedelta,
    "timezone": objects.timezone,
    "posix_path": objects.path,
    "windows_path": objects.path,
    "range": objects.a_range,
    "slice": objects.a_range,
    "partial": objects.partial,
    "reconstructor": objects.reconstructor,
    "attribute": objects.attribute,
    "load_from_bytes": tensors.load_from_bytes,
    "unread_tensor": tensors.unread,
    "constant_function": schedules.constant_function,
    "linear_function": schedules.linear_function,
    "enum": objects.enum,
}
"""By the role of what REDUCE calls. Those without a recogniser are parts that only what they belong to accepts."""

_CARRIED: Final = {
    "type_of": "python_types.type_of",
    "builtin_type": "python_types.builtin_type",
    "generic_alias": "python_types.generic_alias",
    "type_variable": "python_types.type_variable",
    "union": "python_types.union",
    "descriptor": "python_types.descriptor",
    "tuple_getter": "python_types.plain_call",
    "field_kind": "python_types.plain_call",
    "weak_set": "python_types.plain_call",
    "ellipsis": "python_types.ellipsis",
    "function": "functions.function",
    "skeleton_function": "functions.skeleton_function",
    "filled_function": "functions.filled_function",
    "cell": "functions.cell",
    "empty_cell": "functions.cell",
    "module": "functions.module",
    "carried_class": "classes.carried_class",
    "carried_enum": "classes.carried_enum",
    "filled_class": "classes.filled_class",
}
"""The same, for what is carried by value: modules and names in them, which SB3 >= 2.7 hardly ever needs."""

_CLASSES: Final = frozenset({"carried_class", "carried_enum", "filled_class"})
_FUNCTIONS: Final = frozenset({"function", "skeleton_function", "filled_function"})

_MADE: Final[dict[str, Recogniser]] = {
    "box": spaces.box,
    "discrete": spaces.discrete,
    "multi_discrete": spaces.multi_discrete,
    "multi_binary": spaces.multi_binary,
    "dict_space": spaces.dict_space,
    "tuple_space": spaces.tuple_space,
    "one_of": spaces.one_of,
    "text": spaces.text,
    "sequence": spaces.sequence,
    "graph": spaces.graph,
    "constant_schedule": schedules.constant_schedule,
    "linear_schedule": schedules.linear_schedule,
    "float_schedule": schedules.float_schedule,
    "simple_linear_schedule": schedules.simple_linear_schedule,
    "train_freq": objects.train_freq,
    "rnn_states": objects.rnn_states,
    "portable_array": arrays.portable_array,
}
"""By the role of what NEWOBJ makes."""


def find(node: Call) -> Recogniser | None:
    """Return the recogniser of a call, or None when it is of nothing that is known."""
    func = node.func
    if isinstance(func, Call) and role_of(func) in _CLASSES:
        return _of_carried("classes.carried_object") if node.how in ("REDUCE", "NEWOBJ", "NEWOBJ_EX") else None
    if node.how == "REDUCE":
        if isinstance(func, Call):
            return _of_computed(func)
        role = role_of(node) or ""
        if role == "reconstructor" and node.args and isinstance(node.args[0], Call):  # type: ignore[index]
            return _of_carried("classes.reconstructed_object")
        return _CALLED.get(role) or _of_carried(_CARRIED.get(role))
    if node.how != "NEWOBJ" or type(func) is not Global or func.updates or type(node.args) is not tuple:
        return None
    if func.pair in SLOT_OBJECTS:
        return _of_carried("classes.slot_object")
    made = OBJECTS.get(func.pair)
    if made is not None:
        return _MADE[made]
    return objects.plain_object if func.pair in PLAIN_OBJECTS else None


def _of_computed(func: Call) -> Recogniser | None:
    """Return the recogniser of a call of what a call gives."""
    role = role_of(func)
    if role == "attribute":
        return arrays.gym_generator
    if role == "builtin_type":
        return _of_carried("functions.builtin_type_call")
    if role in _FUNCTIONS or (isinstance(func.func, Call) and role_of(func.func) == "builtin_type"):
        return _of_carried("classes.called_function")
    return None


def _of_carried(path: str | None) -> Recogniser | None:
    if path is None:
        return None
    from sbformat.values import classes, functions
    from sbformat.values import python_objects as python_types

    module, _, name = path.partition(".")
    recogniser: Recogniser = getattr({"classes": classes, "functions": functions}.get(module, python_types), name)
    return recogniser
