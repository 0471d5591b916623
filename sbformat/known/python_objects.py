"""Node decoders for objects of Python that functions and classes pickled by value refer to (VALUES.md 13.5).

Types, properties, type variables and annotations; the getters of named tuples. Sources: cloudpickle ``cloudpickle.py``
of 0.8 to 3.1 (``_builtin_type``, ``_class_reduce``), ``collections`` and ``typing`` of CPython 3.6 to 3.13.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.known import load_hooks
from sbformat.known.carried import BUILTIN_TYPES
from sbformat.known.rows import describe_node, find, reject
from sbformat.known.types import CarriedClass, CarriedObject, Cycle, Described, Function, Instance, Reference
from sbformat.pkl.tree import Global, Node

if TYPE_CHECKING:
    from sbformat.known.context import Context
    from sbformat.pkl.tree import Call


def decode_builtin_type(context: Context, node: Call) -> Reference:
    """Decode ``_builtin_type(name)``: a class in ``types``, or ``type`` by its name in Python 2."""
    args: Any = node.args
    name = args[0] if len(args) == 1 and not node.updates else None
    if type(name) is not str or (name not in BUILTIN_TYPES and name != "ClassType"):
        reject("expected the name of a type as the argument of _builtin_type")
    context.accept(node)
    return Reference("builtins", "type") if name == "ClassType" else Reference("types", name)


def decode_plain_call(context: Context, node: Call) -> Described:
    """Decode a call that only stores its arguments: texts, numbers, and for a ``WeakSet`` a list of classes."""
    parts = tuple(context.value(arg) for arg in node.args)  # type: ignore[attr-defined]
    flat = [item for part in parts for item in (part if type(part) is list else [part])]
    if node.updates or any(not isinstance(part, (str, int, Reference, CarriedClass, Cycle)) for part in flat):
        reject("expected texts and numbers as its arguments")
    context.accept_if_by_value(node)
    return Described(describe_node(node), parts)


def decode_record(context: Context, node: Call) -> Described:
    """Decode a call of a class of jax or ``inspect`` that only stores its arguments, and a state beside them."""
    if type(node.args) is not tuple or any(update.how != "BUILD" for update in node.updates or ()):
        reject("expected the arguments of a record, and at most a state")
    parts = tuple(context.value(arg) for arg in node.args)
    context.accept(node)
    return Described(describe_node(node), parts)


def decode_stored_object(context: Context, node: Call) -> Instance:
    """Decode an object of jax, flax or SBX, with the state that it stores: attributes, or a tuple."""
    updates = node.updates or []
    if node.args != () or len(updates) > 1 or any(update.how != "BUILD" for update in updates):
        reject("expected an object without arguments, with at most one state")
    state = context.value(updates[0].value) if updates else {}
    if type(state) is dict and any(type(key) is not str for key in state):
        reject("expected texts as the names of attributes")
    context.accept(node)
    return Instance(Reference(*node.func.pair), state if type(state) is dict else {"state": state})  # type: ignore[attr-defined]


def decode_forward_reference(context: Context, node: Call) -> Described:
    """Decode ``typing.ForwardRef``: its code runs when the annotation is evaluated, as that of a function."""
    state = context.read_state(node)
    slots = state[1] if type(state) is tuple and len(state) == 2 and state[0] is None else None
    if node.args != () or type(slots) is not dict or type(slots.get("__forward_arg__")) is not str:
        reject("expected the slots of a forward reference as its state")
    context.accept(node)
    context.add_issue(node, "function", "a forward reference has code in the file, which runs when it is evaluated")
    return Described("typing.ForwardRef", (slots["__forward_arg__"],))


def decode_descriptor(context: Context, node: Call) -> Described:
    """Decode ``property``, ``staticmethod`` and ``classmethod`` in a class that is pickled by value."""
    if node.updates or type(node.args) is not tuple:
        reject("a property or method has computed arguments")
    parts = tuple(context.value(arg) for arg in node.args)
    kinds = (Function, Reference, Described, CarriedObject, Cycle, str, type(None))
    if any(not isinstance(part, kinds) for part in parts):
        reject("expected functions as the arguments of a property or method")
    context.accept(node)
    return Described(describe_node(node), parts)


def decode_type_variable(context: Context, node: Call) -> Described:
    """Decode ``_make_typevar(name, bound, constraints, covariant, contravariant, id)``."""
    parts = tuple(context.value(arg) for arg in node.args)  # type: ignore[attr-defined]
    if node.updates or not parts or any(isinstance(part, Node) for part in parts):
        reject("a TypeVar has unknown arguments")
    context.accept(node)
    return Described("typing.TypeVar", parts)


def decode_generic_alias(context: Context, node: Call) -> Described:
    """Decode ``operator.getitem(typing.Union, (...))``, as annotations are pickled."""
    args: Any = node.args
    origin = args[0] if len(args) == 2 else None
    skeleton = load_hooks.find_skeleton(origin)
    if skeleton is not None and not node.updates:
        cls, parts = context.value(origin), context.value(args[1])
        context.accept(node)
        load_hooks.describe_item(context, node, skeleton)
        return Described("typing alias", (cls, parts))
    if not isinstance(origin, Global) or origin.updates or "generic" not in find(origin.pair).uses or node.updates:
        reject("expected a generic type as the argument of getitem")
    parts = context.value(args[1])
    context.accept(node, origin)
    return Described(str(origin), parts if type(parts) is tuple else (parts,))


def decode_union(context: Context, node: Call) -> Described:
    """Decode ``functools.reduce(operator.or_, types)``, as ``X | Y`` is pickled, for types alone."""
    args: Any = node.args
    operation = args[0] if len(args) == 2 and not node.updates else None
    parts = context.value(args[1]) if isinstance(operation, Global) and operation.pair in _OR else None
    kinds = (Reference, Described, CarriedClass, Cycle, type(None))
    if type(parts) is not tuple or any(not isinstance(part, kinds) for part in parts):
        reject("expected operator.or_ and types as the arguments of reduce")
    context.accept(node, operation)
    return Described("types.UnionType", parts)


_OR: Final = (("_operator", "or_"), ("operator", "or_"))
_PLAIN_TYPES: Final[dict[type, str]] = {
    type(None): "NoneType", type(...): "ellipsis", type(NotImplemented): "NotImplementedType",
}  # fmt: skip


def decode_type_of(context: Context, node: Call) -> Reference:
    """Decode ``type(None)``, as the types of Python's singletons are pickled."""
    args: Any = node.args
    made = find_singleton_type(context.value(args[0])) if len(args) == 1 and not node.updates else None
    if made is None:
        reject("expected None, Ellipsis or NotImplemented as the argument of type")
    context.accept(node)
    return made


def find_singleton_type(value: object) -> Reference | None:
    """Return the type of one of Python's singletons, or None for any other value."""
    name = _PLAIN_TYPES.get(type(value))
    return Reference("types", name) if name is not None else None


def decode_ellipsis(context: Context, node: Call) -> object:
    """Decode ``_gen_ellipsis()``."""
    if node.args != () or node.updates:
        reject("_gen_ellipsis has arguments")
    context.accept(node)
    return ...
