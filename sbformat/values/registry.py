"""The table of node decoders: from the role of a constructor to the function that decodes its calls.

The role of a name is in :mod:`sbformat.globals.constructors`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.globals.constructors import OBJECTS, PLAIN_OBJECTS
from sbformat.globals.jax import FORWARD_REFERENCE, RECORDS
from sbformat.globals.jax import OBJECTS as JAX_OBJECTS
from sbformat.globals.stdlib import SLOT_OBJECTS
from sbformat.pkl.tree import Call, Global
from sbformat.pth.constructors import CONSTRUCTORS
from sbformat.values import arrays, objects, schedules, spaces, tensors
from sbformat.values.context import find_role

if TYPE_CHECKING:
    from sbformat.globals.torch import Pair
    from sbformat.values.context import NodeDecoder

_CALL_DECODERS: Final[dict[str, NodeDecoder]] = {
    **dict.fromkeys(CONSTRUCTORS, tensors.decode_tensor),
    "ordered_dict": objects.decode_ordered_dict,
    "set": objects.decode_set,
    "frozenset": objects.decode_set,
    "numpy_scalar": arrays.decode_array,
    "numpy_array": arrays.decode_array,
    "numpy_dtype": arrays.decode_dtype,
    "random_state": arrays.decode_random_state,
    "generator": arrays.decode_generator,
    "bit_generator": arrays.decode_bit_generator,
    "seed_sequence": arrays.decode_seed_sequence,
    "deque": objects.decode_deque,
    "default_dict": objects.decode_default_dict,
    "datetime": objects.decode_date,
    "date": objects.decode_date,
    "time": objects.decode_date,
    "timedelta": objects.decode_timedelta,
    "timezone": objects.decode_timezone,
    "posix_path": objects.decode_path,
    "windows_path": objects.decode_path,
    "range": objects.decode_range,
    "slice": objects.decode_range,
    "partial": objects.decode_partial,
    "reconstructor": objects.decode_reconstructed,
    "attribute": objects.decode_getattr,
    "dill_attribute": objects.reject_dill_attribute,
    "load_from_bytes": tensors.decode_storage,
    "unread_tensor": tensors.reject_tensor,
    "constant_function": schedules.decode_constant_function,
    "linear_function": schedules.decode_linear_function,
    "enum": objects.decode_enum,
    "read_only": objects.decode_read_only,
    "jax_array": arrays.decode_jax_array,
}
"""Decoders of REDUCE, by the role of what it calls. A role without one is accepted as a part of another node."""

_BY_VALUE_DECODERS: Final = {
    "type_of": "python_types.decode_type_of",
    "builtin_type": "python_types.decode_builtin_type",
    "generic_alias": "python_types.decode_generic_alias",
    "type_variable": "python_types.decode_type_variable",
    "union": "python_types.decode_union",
    "descriptor": "python_types.decode_descriptor",
    "tuple_getter": "python_types.decode_plain_call",
    "field_kind": "python_types.decode_plain_call",
    "weak_set": "python_types.decode_plain_call",
    "record": "python_types.decode_record",
    "ellipsis": "python_types.decode_ellipsis",
    "function": "functions.decode_function",
    "skeleton_function": "functions.decode_skeleton_function",
    "filled_function": "functions.decode_filled_function",
    "cell": "functions.decode_cell",
    "empty_cell": "functions.decode_cell",
    "module": "functions.decode_module",
    "carried_class": "classes.decode_class",
    "carried_enum": "classes.decode_enum_class",
    "filled_class": "classes.decode_filled_class",
}
"""The same for functions and classes pickled by value, imported when needed: SB3 >= 2.7 hardly ever writes them."""

_CLASSES: Final = frozenset({"carried_class", "carried_enum", "filled_class"})
_FUNCTIONS: Final = frozenset({"function", "skeleton_function", "filled_function"})

_OBJECT_DECODERS: Final[dict[str, NodeDecoder]] = {
    "Box": spaces.decode_box,
    "Discrete": spaces.decode_discrete,
    "MultiDiscrete": spaces.decode_multi_discrete,
    "MultiBinary": spaces.decode_multi_binary,
    "Dict": spaces.decode_dict,
    "Tuple": spaces.decode_tuple,
    "OneOf": spaces.decode_one_of,
    "Text": spaces.decode_text,
    "Sequence": spaces.decode_sequence,
    "Graph": spaces.decode_graph,
    "constant_schedule": schedules.decode_constant_schedule,
    "linear_schedule": schedules.decode_linear_schedule,
    "float_schedule": schedules.decode_float_schedule,
    "simple_linear_schedule": schedules.decode_simple_linear_schedule,
    "train_freq": objects.decode_train_freq,
    "rnn_states": objects.decode_rnn_states,
    "portable_array": arrays.decode_portable_array,
    "environment_spec": objects.decode_plain_object,
    "named_tuple": objects.decode_named_tuple,
}
"""Decoders of NEWOBJ, by the role of the class."""


def find_node_decoder(node: Call) -> NodeDecoder | None:
    """Return the node decoder of a call, or None when its constructor is not known."""
    func = node.func
    if type(func) is Call:
        if find_role(func) in _CLASSES:
            return _load_by_value("classes.decode_object") if node.how in ("REDUCE", "NEWOBJ", "NEWOBJ_EX") else None
        if node.how == "REDUCE":
            return _find_for_computed(func)
    if node.how == "REDUCE":
        role = find_role(node)
        if role is None:
            return None
        if role == "reconstructor" and node.args and isinstance(node.args[0], Call):  # type: ignore[index]
            return _load_by_value("classes.decode_reconstructed_object")
        return _CALL_DECODERS.get(role) or _load_by_value(_BY_VALUE_DECODERS.get(role))
    if node.how != "NEWOBJ" or type(func) is not Global or func.updates or type(node.args) is not tuple:
        return None
    path = _find_by_value(func.pair)
    if path is not None:
        return _load_by_value(path)
    made = OBJECTS.get(func.pair)
    if made is not None:
        return _OBJECT_DECODERS[made]
    return objects.decode_plain_object if func.pair in PLAIN_OBJECTS else None


def _find_by_value(pair: Pair) -> str | None:
    """Return the decoder of NEWOBJ of a class that only objects around functions by value have."""
    if pair in SLOT_OBJECTS:
        return "classes.decode_slot_object"
    if pair in RECORDS:
        return "python_types.decode_record"
    if pair == FORWARD_REFERENCE:
        return "python_types.decode_forward_reference"
    return "python_types.decode_stored_object" if pair in JAX_OBJECTS else None


def _find_for_computed(func: Call) -> NodeDecoder | None:
    """Return the decoder of a call whose function is the result of another call."""
    role = find_role(func)
    if role == "attribute":
        return arrays.decode_gym_generator
    if role == "builtin_type":
        return _load_by_value("functions.decode_builtin_type_call")
    if role in _FUNCTIONS or (isinstance(func.func, Call) and find_role(func.func) == "builtin_type"):
        return _load_by_value("classes.reject_called_function")
    return None


def _load_by_value(path: str | None) -> NodeDecoder | None:
    if path is None:
        return None
    from sbformat.values import classes, functions
    from sbformat.values import python_objects as python_types

    module, _, name = path.partition(".")
    decoder: NodeDecoder = getattr({"classes": classes, "functions": functions}.get(module, python_types), name)
    return decoder
