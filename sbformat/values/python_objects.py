"""Small parts of Python's own that functions and classes carried by value refer to (FORMAT.md 13.5).

Types, properties, type variables and annotations; the getters of named tuples. Sources: cloudpickle ``cloudpickle.py``
of 0.8 to 3.1 (``_builtin_type``, ``_class_reduce``), ``collections`` and ``typing`` of CPython 3.6 to 3.13.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.globals.recognized import GENERICS
from sbformat.globals.stdlib import BUILTIN_TYPES
from sbformat.pkl.tree import Global, Node
from sbformat.values import load_hooks as hooks
from sbformat.values.context import Unrecognised, described
from sbformat.values.types import CarriedClass, CarriedObject, Cycle, Described, Function, Reference

if TYPE_CHECKING:
    from sbformat.pkl.tree import Call
    from sbformat.values.context import Recognition


def builtin_type(scope: Recognition, node: Call) -> Reference:
    """``_builtin_type(name)``: a class in ``types``, or ``type`` by its name of Python 2."""
    args: Any = node.args
    name = args[0] if len(args) == 1 and not node.updates else None
    if type(name) is not str or (name not in BUILTIN_TYPES and name != "ClassType"):
        message = "_builtin_type is not given the name of a type"
        raise Unrecognised(message)
    scope.accept(node)
    return Reference("builtins", "type") if name == "ClassType" else Reference("types", name)


def plain_call(scope: Recognition, node: Call) -> Described:
    """A call that only keeps its arguments: texts, numbers, and of a ``WeakSet`` a list of classes."""
    parts = tuple(scope.value(arg) for arg in node.args)  # type: ignore[attr-defined]
    flat = [item for part in parts for item in (part if type(part) is list else [part])]
    if node.updates or any(not isinstance(part, (str, int, Reference, CarriedClass, Cycle)) for part in flat):
        message = "it is not made of texts and numbers"
        raise Unrecognised(message)
    scope.accept_where_carried(node)
    return Described(described(node), parts)


def descriptor(scope: Recognition, node: Call) -> Described:
    """``property``, ``staticmethod`` and ``classmethod`` of a class that is carried by value."""
    if node.updates or type(node.args) is not tuple:
        message = "a property or method has computed arguments"
        raise Unrecognised(message)
    parts = tuple(scope.value(arg) for arg in node.args)
    kinds = (Function, Reference, Described, CarriedObject, Cycle, str, type(None))
    if any(not isinstance(part, kinds) for part in parts):
        message = "a property or method is not made of functions"
        raise Unrecognised(message)
    scope.accept(node)
    return Described(described(node), parts)


def type_variable(scope: Recognition, node: Call) -> Described:
    """``_make_typevar(name, bound, constraints, covariant, contravariant, id)``."""
    parts = tuple(scope.value(arg) for arg in node.args)  # type: ignore[attr-defined]
    if node.updates or not parts or any(isinstance(part, Node) for part in parts):
        message = "a TypeVar is made from unknown arguments"
        raise Unrecognised(message)
    scope.accept(node)
    return Described("typing.TypeVar", parts)


def generic_alias(scope: Recognition, node: Call) -> Described:
    """``operator.getitem(typing.Union, (...))``: how annotations are pickled."""
    args: Any = node.args
    origin = args[0] if len(args) == 2 else None
    skeleton = hooks.skeleton_of(origin)
    if skeleton is not None and not node.updates:
        cls, parts = scope.value(origin), scope.value(args[1])
        scope.accept(node)
        hooks.describe_item(scope, node, skeleton)
        return Described("typing alias", (cls, parts))
    if not isinstance(origin, Global) or origin.updates or origin.pair not in GENERICS or node.updates:
        message = "getitem is called for something other than a type's parameters"
        raise Unrecognised(message)
    parts = scope.value(args[1])
    scope.accept(node, origin)
    return Described(str(origin), parts if type(parts) is tuple else (parts,))


def union(scope: Recognition, node: Call) -> Described:
    """``functools.reduce(operator.or_, types)``: how ``X | Y`` is pickled, of types alone."""
    args: Any = node.args
    operation = args[0] if len(args) == 2 and not node.updates else None
    parts = scope.value(args[1]) if isinstance(operation, Global) and operation.pair in _OR else None
    kinds = (Reference, Described, CarriedClass, Cycle, type(None))
    if type(parts) is not tuple or any(not isinstance(part, kinds) for part in parts):
        message = "reduce is called for something other than a union of types"
        raise Unrecognised(message)
    scope.accept(node, operation)
    return Described("types.UnionType", parts)


_OR: Final = (("_operator", "or_"), ("operator", "or_"))
_PLAIN_TYPES: Final[dict[type, str]] = {
    type(None): "NoneType", type(...): "ellipsis", type(NotImplemented): "NotImplementedType",
}  # fmt: skip


def type_of(scope: Recognition, node: Call) -> Reference:
    """``type(None)``: how the types of Python's singletons are pickled."""
    args: Any = node.args
    made = plain_type(scope.value(args[0])) if len(args) == 1 and not node.updates else None
    if made is None:
        message = "type is called for something other than None, Ellipsis or NotImplemented"
        raise Unrecognised(message)
    scope.accept(node)
    return made


def plain_type(value: object) -> Reference | None:
    """Return the type of one of Python's singletons, or None for any other value."""
    name = _PLAIN_TYPES.get(type(value))
    return Reference("types", name) if name is not None else None


def ellipsis(scope: Recognition, node: Call) -> object:
    """``_gen_ellipsis()``."""
    if node.args != () or node.updates:
        message = "the ellipsis is given arguments"
        raise Unrecognised(message)
    scope.accept(node)
    return ...
