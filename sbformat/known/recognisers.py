"""Which recogniser reads what: the table from roles to functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.known import arrays, functions, objects, schedules, spaces, tensors
from sbformat.known.recognition import role_of
from sbformat.names.known import OBJECTS, PLAIN_OBJECTS
from sbformat.pkl.tree import Call, Global
from sbformat.pth.constructors import CONSTRUCTORS

if TYPE_CHECKING:
    from sbformat.known.recognition import Recogniser

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
    "type_of": functions.type_of,
    "descriptor": functions.descriptor,
    "generic_alias": functions.generic_alias,
    "partial": objects.partial,
    "reconstructor": objects.reconstructor,
    "attribute": objects.attribute,
    "load_from_bytes": tensors.load_from_bytes,
    "unread_tensor": tensors.unread,
    "enum": objects.enum,
    "function": functions.function,
    "filled_function": functions.filled_function,
    "cell": functions.cell,
    "empty_cell": functions.cell,
    "carried_class": functions.carried_class,
    "carried_enum": functions.carried_enum,
    "filled_class": functions.filled_class,
    "type_variable": functions.type_variable,
    "ellipsis": functions.ellipsis,
    "module": functions.module,
}
"""By the role of what REDUCE calls. Those without a recogniser are parts that only what they belong to accepts."""

_COMPUTED: Final[dict[str, Recogniser]] = {"builtin_type": functions.code_call, "attribute": arrays.gym_generator}
"""By the role of the call whose result REDUCE calls."""

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
    if node.how == "REDUCE":
        if isinstance(func, Call):
            return _COMPUTED.get(role_of(func) or "")
        return _CALLED.get(role_of(node) or "")
    if node.how != "NEWOBJ" or type(func) is not Global or func.updates or type(node.args) is not tuple:
        return None
    role = OBJECTS.get(func.pair)
    if role is not None:
        return _MADE[role]
    return objects.plain_object if func.pair in PLAIN_OBJECTS else None
