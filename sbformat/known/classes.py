"""Node decoders for classes and enumerations that cloudpickle pickled by value, and objects of them (VALUES.md 13.5).

They are described, never created. cloudpickle creates an empty class by ``_make_skeleton_class`` or
``_make_skeleton_enum``, and gives it its attributes by ``_class_setstate``, whose result is discarded, or by
``_rehydrate_skeleton_class`` (before 1.6), whose result is the class; objects refer to either. An object is made by
NEWOBJ or NEWOBJ_EX, by a call of its class, or by ``copyreg._reconstructor`` (protocols 0 and 1).
Sources: cloudpickle ``cloudpickle.py`` and ``cloudpickle_fast.py`` of 0.8 to 3.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.known import load_hooks
from sbformat.known.context import Issue
from sbformat.known.rows import find, find_role, reject
from sbformat.known.types import CarriedClass, CarriedObject, Cycle, Described, EnumMember, Reference
from sbformat.pkl.tree import Call, Global, Node

if TYPE_CHECKING:
    from sbformat.known.context import Context

_TEXT: Final = {str}
_REFUSED_ATTRIBUTES: Final = ("__bases__", "__class__", "__mro__")
"""Attributes that would change what the class inherits, after it was created."""


def read_setter_state(context: Context, setter: Call) -> tuple[Any, dict[str, Any]]:
    """Return the attributes and the slots that a state setter of cloudpickle gives a function or class."""
    args: Any = setter.args
    state = context.value(args[1]) if len(args) == 2 and not setter.updates else None
    if find_role(setter) == "filled_class":
        state = (state, {})
    if type(state) is not tuple or len(state) != 2 or type(state[1]) is not dict:
        reject("a function or class has an unknown state")
    return state


# -- classes ------------------------------------------------------------------------------------------


def decode_class(context: Context, node: Call) -> CarriedClass:
    """Decode ``_make_skeleton_class(type, name, bases, keywords, id, extra)`` and its attributes."""
    args: Any = node.args
    if node.updates or not 3 <= len(args) <= 6:
        reject("a class has unknown arguments")
    name, keywords = context.value(args[1]), context.value(args[3]) if len(args) > 3 else {}
    if type(name) is not str or type(keywords) is not dict:
        reject("a class has unknown arguments")
    metaclass = _check_metaclass(context, args[0])
    bases = _check_bases(context, args[2])
    attributes = {**{key: value for key, value in keywords.items() if type(key) is str}, **_attributes(context, node)}
    module = attributes.get("__module__")
    load_hooks.describe_class(context, node)
    return CarriedClass(module if type(module) is str else None, name, bases, attributes, metaclass)


def decode_enum_class(context: Context, node: Call) -> CarriedClass:
    """Decode ``_make_skeleton_enum(bases, name, qualname, members, module, id, extra)`` and its attributes."""
    args: Any = node.args
    if node.updates or not 5 <= len(args) <= 7:
        reject("an enumeration has unknown arguments")
    name, _, members, module = (context.value(arg) for arg in args[1:5])
    if type(name) is not str or type(module) is not str or type(members) is not dict or set(map(type, members)) - _TEXT:
        reject("an enumeration has unknown arguments")
    bases = _check_bases(context, args[0])
    _attributes(context, node)
    load_hooks.describe_class(context, node)
    reference = Reference(module, name)
    values: dict[str, object] = {key: EnumMember(reference, value) for key, value in members.items()}
    return CarriedClass(module, name, bases, values, Reference("enum", "EnumMeta"))


def decode_filled_class(context: Context, node: Call) -> object:
    """Decode ``_rehydrate_skeleton_class(class, attributes)``, which returns the class that it is given."""
    skeleton = load_hooks.find_skeleton(node)
    made = context.value(skeleton) if skeleton is not None else None
    if not isinstance(made, (CarriedClass, Cycle)) or node.updates:
        reject("expected a skeleton class as the argument of _rehydrate_skeleton_class")
    return made


def _attributes(context: Context, node: Call) -> dict[str, Any]:
    """Return the attributes of a class, and accept it with what sets them."""
    setters = context.state_setters(node)
    attributes = read_setter_state(context, setters[0])[0] if setters else {}
    if len(setters) > 1 or type(attributes) is not dict or (setters and find_role(setters[0]) == "function_state"):
        reject("a class has unknown attributes, or is changed twice")
    if any(name in attributes for name in _REFUSED_ATTRIBUTES) or isinstance(
        attributes.get("__abstractmethods__"), (CarriedObject, Node)
    ):
        reject("the attributes of a class change its bases")
    context.accept(node, *setters)
    return {key: value for key, value in attributes.items() if type(key) is str}


def _check_metaclass(context: Context, part: object) -> object:
    """Return the metaclass, which is a class: anything in its place is called."""
    value = context.value(part)
    if isinstance(value, CarriedClass) or (isinstance(value, Reference) and "metaclass" in find(value.pair).uses):
        return value
    if not _is_unknown_name(context, part, "constructs a class that is pickled by value, by code of its own"):
        reject("expected a class as the metaclass of a class")
    return value


def _check_bases(context: Context, part: object) -> tuple[object, ...]:
    """Return the bases of a class: loading runs ``__init_subclass__`` of each."""
    bases = context.value(part)
    if type(bases) is not tuple:
        reject("a class has unknown arguments")
    for base, value in zip(part, bases):  # type: ignore[call-overload]
        if isinstance(value, (CarriedClass, Reference, Described)):
            continue
        if not _is_unknown_name(
            context, base, "is a base of a class pickled by value: its code runs when that is created"
        ):
            reject("expected classes as the bases of a class")
    return bases


def _is_unknown_name(context: Context, part: object, message: str) -> bool:
    """Return whether a base or metaclass is a plain name; record that creating the class runs its code."""
    if not isinstance(part, Global) or part.updates:
        return False
    context.issues[id(part)] = Issue(part, "base", message)
    return True


# -- objects ------------------------------------------------------------------------------------------


def decode_object(context: Context, node: Call) -> object:
    """Decode an object of a class pickled by value, with its arguments, state and items."""
    return _object(context, node, node.func, node.args)


def decode_reconstructed_object(context: Context, node: Call) -> object:
    """Decode ``copyreg._reconstructor(class, base, value)`` and a state, of a class pickled by value."""
    args: Any = node.args
    base: Any = args[1] if len(args) == 3 else None
    is_plain = isinstance(base, Global) and not base.updates and "plain base" in find(base.pair).uses
    if not is_plain or base.name == "bytearray":  # which pickles itself in another way
        reject("expected a built-in type as the base of an object that copyreg constructs")
    context.accept(base)
    return _object(context, node, args[0], () if args[2] is None else (args[2],))


def _object(context: Context, node: Call, cls: object, args: object) -> object:
    skeleton = load_hooks.find_skeleton(cls)
    if skeleton is None or not isinstance(context.value(cls), (CarriedClass, Cycle)):
        reject("the class of an object is not understood")
    updates = node.updates or ()
    if type(args) is not tuple or sum(update.how == "BUILD" for update in updates) > 1:
        reject("an object of a class pickled by value has computed arguments, or two states")
    given = tuple(context.value(arg) for arg in args)
    keywords = context.value(node.kwargs) if node.kwargs is not None else {}
    if type(keywords) is not dict:
        reject("an object of a class pickled by value has computed arguments")
    made = _class_name(context, cls, skeleton)
    attributes, state, items = _contents(context, node)
    context.accept(node)
    load_hooks.describe_object(context, node, skeleton)
    if find_role(skeleton) == "carried_enum" and len(given) == 1:
        return EnumMember(made, given[0])
    carried: Any = context.value(cls)
    values = (*given, *keywords.values())
    return CarriedObject(made, values, attributes, state, items, carried, node.how == "REDUCE" and node.func is cls)


def _class_name(context: Context, cls: object, skeleton: Call) -> Reference:
    """Return the name of a class pickled by value, complete or not."""
    value = context.value(cls)
    if isinstance(value, CarriedClass):
        return Reference(value.module or "__main__", value.name)
    name: Any = skeleton.args[1]  # type: ignore[index]
    return Reference("__main__", name if isinstance(name, str) else "?")


def _contents(context: Context, node: Call) -> tuple[dict[str, Any], object, tuple[object, ...]]:
    """Return attributes with slots, any other state, and the items of an object that is a container."""
    attributes: dict[str, Any] = {}
    other: object = None
    items: list[object] = []
    for update in node.updates or ():
        value: Any = update.value
        if update.how == "SETITEMS":
            items.extend((context.value(key), context.value(part)) for key, part in value)
        elif update.how != "BUILD":
            items.extend(context.value(part) for part in value)
        else:
            state = context.value(value)
            parts = state if type(state) is tuple and len(state) == 2 else (state, None)
            if all(part is None or (type(part) is dict and not set(map(type, part)) - _TEXT) for part in parts):
                attributes = {**(parts[0] or {}), **(parts[1] or {})}
            else:
                other = state
    return attributes, other, tuple(items)


def decode_slot_object(context: Context, node: Call) -> Described:
    """Decode an object of ``dataclasses`` that consists of its slots alone."""
    pair = node.func.pair  # type: ignore[attr-defined]
    attributes, state, items = _contents(context, node)
    if node.args != () or node.kwargs is not None or state is not None or items or len(node.updates or ()) > 1:
        reject("a part of a dataclass has unknown arguments")
    if not set(attributes) <= set(find(pair).attributes or ()):
        reject("a part of a dataclass has unknown attributes")
    context.accept_if_by_value(node)
    return Described(".".join(pair), tuple(attributes.items()))


def reject_called_function(context: Context, node: Call) -> object:
    """Report a call of a function that is pickled by value, whose code runs when the file is loaded."""
    context.value(node.func)
    context.add_issue(node, "called", "a function that is pickled by value is called: loading the file runs its code")
    return node
