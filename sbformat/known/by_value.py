"""Node decoders for functions, classes and objects that cloudpickle pickled by value (VALUES.md 13.5).

They are described, never created. Input: nodes of the inert tree. Output: values (:class:`Function`,
:class:`CarriedClass`, :class:`CarriedObject`, ...), and an issue for each function, class and object, whose message
names the code of the file that loading runs. A published function, unchanged, has no issue.

*Functions* have two forms: ``_fill_function(_make_skel_func(code, ...), state)``, and a call of the function type or
``_make_function(code, globals, ...)`` that ``_function_setstate(function, state)`` follows, whose result is discarded.
*Classes* are created empty by ``_make_skeleton_class`` or ``_make_skeleton_enum``, and given their attributes by
``_class_setstate``, whose result is discarded, or by ``_rehydrate_skeleton_class`` (before 1.6), whose result is the
class; objects refer to either. An *object* is made by NEWOBJ or NEWOBJ_EX, by a call of its class, or by
``copyreg._reconstructor`` (protocols 0 and 1). A class is described when its attributes are known: an object of the
class may be among them, and waits until then.

*Hooks*: CPython and cloudpickle run a method because of its name. Creating a class runs its metaclass and
``__init_subclass__`` of its bases, creating an object runs ``__new__``, BUILD runs ``__setstate__``::

    the class 'B' is pickled by value: loading creates it from code in the file, and runs A.__init_subclass__
    an object of the class 'B', which is pickled by value, is created: loading may run B.__del__

Sources: cloudpickle ``cloudpickle.py`` and ``cloudpickle_fast.py`` of 0.8 to 3.1; CPython ``Modules/_pickle.c``
(``load_build``, ``do_append``), ``Objects/typeobject.c`` (``type_new``), ``Lib/enum.py``, ``Lib/types.py``
(``new_class``), ``collections`` and ``typing`` of 3.6 to 3.13.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import escape
from sbformat.immutable import Record
from sbformat.known import types
from sbformat.known.code import Code, FunctionParts, make_code
from sbformat.known.context import RUNS_WHEN_CALLED, Hook, Issue, Lineage, find_base_globals, find_globals, find_maker
from sbformat.known.dangerous import explain_danger
from sbformat.known.python import BUILTIN_TYPES
from sbformat.known.rows import Unaccepted, describe_node, find, find_called, find_role, reject
from sbformat.known.schedules import find_schedule
from sbformat.known.types import CarriedClass, CarriedObject, Cycle, Described, Function, Reference
from sbformat.pkl.tree import LEAVES, Call, Dict, Global, Node, children, walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sbformat.known.context import NodeContext


_META_RUNS: Final = ("__prepare__", "__new__", "__init__", "mro", "__setattr__", "__hash__")
_META_MAY_RUN: Final = (
    "__getattribute__", "__getattr__", "__eq__", "__subclasscheck__", "__instancecheck__", "register", "__del__",
)  # fmt: skip
_ENUM_RUNS: Final = ("__new__", "__init__", "_generate_next_value_")
_ANY_OBJECT_MAY_RUN: Final = ("__hash__", "__eq__", "__del__")
_BUILD_MAY_RUN: Final = ("__getattribute__", "__getattr__")
_UPDATE_RUNS: Final = {"APPENDS": "extend", "SETITEMS": "__setitem__", "ADDITEMS": "add"}
_WATCHED: Final = frozenset({
    *_META_RUNS, *_META_MAY_RUN, *_ENUM_RUNS, *_ANY_OBJECT_MAY_RUN, *_BUILD_MAY_RUN, *_UPDATE_RUNS.values(),
    "__init_subclass__", "__set_name__", "__subclasshook__", "__class_getitem__", "__setstate__", "__dict__",
    "__set__", "__call__", "__getitem__", "_missing_", "append",
})  # fmt: skip
_CLASS_ROLES: Final = ("carried_class", "carried_enum")
_MOST_NAMES: Final = 8
_MOST_HOOKS: Final = 32
_MOST_BASES: Final = 8
"""Bases of a class that are examined: a file may contain many classes that inherit from the same many."""
_SHOWN: Final = 100

_RUNS: Final = "its code is in the file, and loading the file runs it"
_MAY_RUN: Final = "its code is in the file, and loading the file may run it"


class _Ran:
    """The hooks that one event runs, and those that it may run."""

    def __init__(self) -> None:
        self.runs: dict[str, Hook] = {}
        self.may_run: dict[str, Hook] = {}

    def add(self, hooks: dict[str, Hook], runs: Iterable[str], may_run: Iterable[str] = ()) -> None:
        for names, found in ((runs, self.runs), (may_run, self.may_run)):
            for name in names:
                if name in hooks and hooks[name].node is not None:
                    found.setdefault(f"{hooks[name].owner}.{escape(name, _SHOWN)}", hooks[name])

    def describe(self) -> str:
        """Return a clause such as ``runs A.__new__, and may run A.__del__``, or nothing."""
        runs, may_run = _list(self.runs), _list(self.may_run.keys() - self.runs.keys())
        return " and ".join([*([f"runs {runs}"] if runs else []), *([f"may run {may_run}"] if may_run else [])])

    def report(
        self, context: NodeContext, subject: Node, message: str, joint: str = ": loading ", rest: str = ""
    ) -> None:
        """Add an issue with the hooks, or with ``rest`` without any, and change those of the functions: they run."""
        text = self.describe()
        context.add_issue(subject, "class", message + (joint + text if text else rest))
        for found, text in ((self.runs, _RUNS), (self.may_run, _MAY_RUN)):
            for hook in found.values():
                for node in _functions(context, hook.node):
                    doubt = context.issues.get(id(node))
                    if doubt is not None and doubt.message.endswith(RUNS_WHEN_CALLED):
                        message = doubt.message.removesuffix(RUNS_WHEN_CALLED) + text
                        context.issues[id(node)] = doubt._replace(message=message)


def _list(names: Iterable[str]) -> str:
    found = sorted(names)
    more = f" and {len(found) - _MOST_NAMES} more" if len(found) > _MOST_NAMES else ""
    return ", ".join(found[:_MOST_NAMES]) + more


def _find_skeleton(node: object) -> Call | None:
    """Return the call that creates a class pickled by value, given it or the call that fills it; None for others."""
    if isinstance(node, Call) and find_role(node) == "filled_class":
        args: Any = node.args
        node = args[0] if args else None
    return node if isinstance(node, Call) and find_role(node) in _CLASS_ROLES else None


def _name_of(skeleton: Call) -> str:
    """Return the name of a class pickled by value, quoted, escaped and bounded."""
    args: Any = skeleton.args
    name = args[1] if len(args) > 1 else None
    return f"'{escape(name, _SHOWN)}'" if isinstance(name, str) else "without a name"


def _namespace(skeleton: Call) -> Dict:
    """Return the attributes that a class is created with, as pairs of the tree; an enumeration has none."""
    args: Any = skeleton.args
    found = args[3] if find_role(skeleton) == "carried_class" and len(args) > 3 else None
    return found if isinstance(found, Dict) else Dict()


def _iter_attributes(context: NodeContext, skeleton: Call) -> Iterator[tuple[object, object]]:
    """Yield the attributes that a class is created with, then those that are set later."""
    yield from _namespace(skeleton)
    for setter in context.state_setters(skeleton):
        args: Any = setter.args
        state = args[1] if len(args) > 1 else None
        state = state[0] if type(state) is tuple and state else state
        yield from state if isinstance(state, Dict) else ()


# -- hooks of classes ---------------------------------------------------------------------------------


def _describe_class(context: NodeContext, skeleton: Call) -> None:
    """Add an issue for a class pickled by value, and for its objects that were decoded before it was complete."""
    lineage = _lineage(context, skeleton)
    context.lineages[id(skeleton)] = lineage
    ran = _Ran()
    ran.add(lineage.meta, _META_RUNS, _META_MAY_RUN)
    for base in _bases(context, skeleton):
        ran.add(base.hooks, ("__init_subclass__", *(_ENUM_RUNS if lineage.is_enum else ())))
    for _, value in _namespace(skeleton):
        made = _lineage_of_object(context, value)
        if made is not None:
            ran.add(made.hooks, ("__set_name__",), (*_BUILD_MAY_RUN, *_ANY_OBJECT_MAY_RUN))
    if any(key == "_abc_impl" and value not in ((), []) for key, value in _iter_attributes(context, skeleton)):
        ran.add(lineage.hooks, ("__subclasshook__",))
    kind = "enumeration" if lineage.is_enum else "class"
    message = f"the {kind} {_name_of(skeleton)} is pickled by value: loading creates it from code in the file"
    ran.report(context, skeleton, message, ", and ")
    for waiting in context.waiting.pop(id(skeleton), []):
        _describe_object(context, waiting, lineage)


def _lineage(context: NodeContext, skeleton: Call) -> Lineage:
    name = _name_of(skeleton)[1:-1]
    hooks: dict[str, Hook] = {}
    for key, value in _iter_attributes(context, skeleton):
        role = find_role(value) if isinstance(value, Call) else None
        # setting an attribute of an object runs a descriptor of that name
        is_descriptor = isinstance(value, Call) and (role == "descriptor" or _find_skeleton(value.func) is not None)
        if key in _WATCHED or (is_descriptor and isinstance(key, str) and len(hooks) < _MOST_HOOKS):
            # a plain value, a name or a method of a library runs no code of the file
            hooks[key] = Hook(name, value if isinstance(value, Call) and role != "attribute" else None)
    bases = list(_bases(context, skeleton))
    for base in bases:
        for key, hook in base.hooks.items():
            if key in _WATCHED or len(hooks) < _MOST_HOOKS:
                hooks.setdefault(key, hook)
    args: Any = skeleton.args
    is_enum = find_role(skeleton) == "carried_enum"
    metaclass = None if is_enum else _known_lineage(context, args[0])
    inherited = next((base.meta for base in bases if base.meta), {})
    return Lineage(name, hooks, metaclass.hooks if metaclass is not None else inherited, is_enum)


def _bases(context: NodeContext, skeleton: Call) -> Iterator[Lineage]:
    args: Any = skeleton.args
    bases = args[0 if find_role(skeleton) == "carried_enum" else 2]
    for base in bases[:_MOST_BASES] if type(bases) is tuple else ():
        found = _known_lineage(context, base)
        if found is not None:
            yield found


def _known_lineage(context: NodeContext, node: object) -> Lineage | None:
    skeleton = _find_skeleton(node)
    return context.lineages.get(id(skeleton)) if skeleton is not None else None


def _lineage_of_object(context: NodeContext, node: object) -> Lineage | None:
    return _known_lineage(context, node.func) if isinstance(node, Call) else None


def _functions(context: NodeContext, node: object) -> Iterator[object]:
    """Yield the calls that create the functions of a method or property."""
    args: Any = node.args if isinstance(node, Call) and find_role(node) == "descriptor" else (node,)
    for part in args[:3]:
        yield part
        yield from context.fillers.get(id(part), ())[:1]


# -- hooks of objects ---------------------------------------------------------------------------------


def _describe_object(context: NodeContext, node: Call, lineage: Lineage) -> None:
    ran = _Ran()
    ran.add(lineage.hooks, (), _ANY_OBJECT_MAY_RUN)
    if node.how != "REDUCE":
        ran.add(lineage.hooks, ("__new__",))
    elif lineage.is_enum:
        ran.add(lineage.hooks, ("__new__",), ("_missing_",))
    elif find_role(node) is None:  # not copyreg's, which calls neither
        ran.add(lineage.hooks, ("__new__", "__init__"))
    if find_role(node) is None and node.how == "REDUCE":
        ran.add(lineage.meta, ("__call__",))
    for update in node.updates or ():
        if update.how == "BUILD":
            _add_build(context, ran, lineage, update.value)
        else:
            ran.add(lineage.hooks, (_UPDATE_RUNS[update.how],), ("append",) if update.how == "APPENDS" else ())
    message = f"an object of the class '{lineage.name}', which is pickled by value, is created"
    ran.report(context, node, message, rest=": its methods run when it is used")


def _add_build(context: NodeContext, ran: _Ran, lineage: Lineage, state: object) -> None:
    """Add what BUILD runs: ``__setstate__``, or what setting attributes runs; slots are set by ``setattr``."""
    hooks = lineage.hooks
    ran.add(hooks, (), ("__getattribute__",))
    if "__setstate__" in hooks:
        ran.add(hooks, ("__setstate__",))
        return
    ran.add(hooks, (), ("__getattr__",))
    slots = state[1] if type(state) is tuple and len(state) == 2 else None
    if state is not None and not (type(state) is tuple and len(state) == 2 and state[0] is None):
        ran.add(hooks, ("__dict__",))
    for key, _ in slots if isinstance(slots, Dict) else ():
        ran.add(hooks, ("__setattr__",))
        hook = hooks.get(key) if isinstance(key, str) else None
        if hook is None or "__setattr__" in hooks:
            continue
        described = _lineage_of_object(context, hook.node)
        if described is not None:
            ran.add(described.hooks, ("__set__",))
        elif isinstance(hook.node, Call) and isinstance(hook.node.func, Global) and hook.node.func.name == "property":
            ran.add(hooks, (str(key),))


_TEXT: Final = {str}
_UNION: Final = (("_operator", "or_"), ("operator", "or_"))
_REFUSED_ATTRIBUTES: Final = ("__bases__", "__class__", "__mro__")
"""Attributes that would change what the class inherits, after it was created."""


def read_setter_state(context: NodeContext, setter: Call) -> tuple[Any, dict[str, Any]]:
    """Return the attributes and the slots that a state setter of cloudpickle gives a function or class."""
    args: Any = setter.args
    state = context.value(args[1]) if len(args) == 2 and not setter.updates else None
    if find_role(setter) == "filled_class":
        state = (state, {})
    if type(state) is not tuple or len(state) != 2 or type(state[1]) is not dict:
        reject("a function or class has an unknown state")
    return state


# -- classes ------------------------------------------------------------------------------------------


def decode_class(context: NodeContext, node: Call) -> CarriedClass:
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
    _describe_class(context, node)
    return CarriedClass(module if type(module) is str else None, name, bases, attributes, metaclass)


def decode_enum_class(context: NodeContext, node: Call) -> CarriedClass:
    """Decode ``_make_skeleton_enum(bases, name, qualname, members, module, id, extra)`` and its attributes."""
    args: Any = node.args
    if node.updates or not 5 <= len(args) <= 7:
        reject("an enumeration has unknown arguments")
    name, _, members, module = (context.value(arg) for arg in args[1:5])
    if type(name) is not str or type(module) is not str or type(members) is not dict or set(map(type, members)) - _TEXT:
        reject("an enumeration has unknown arguments")
    bases = _check_bases(context, args[0])
    _attributes(context, node)
    _describe_class(context, node)
    reference = Reference(module, name)
    values: dict[str, object] = {key: types.EnumMember(reference, value) for key, value in members.items()}
    return CarriedClass(module, name, bases, values, Reference("enum", "EnumMeta"))


def decode_filled_class(context: NodeContext, node: Call) -> object:
    """Decode ``_rehydrate_skeleton_class(class, attributes)``, which returns the class that it is given."""
    skeleton = _find_skeleton(node)
    made = context.value(skeleton) if skeleton is not None else None
    if not isinstance(made, (CarriedClass, Cycle)) or node.updates:
        reject("expected a skeleton class as the argument of _rehydrate_skeleton_class")
    return Unaccepted(made)


def _attributes(context: NodeContext, node: Call) -> dict[str, Any]:
    """Return the attributes of a class, and accept it with what sets them."""
    setters = context.state_setters(node)
    attributes = read_setter_state(context, setters[0])[0] if setters else {}
    if len(setters) > 1 or type(attributes) is not dict or (setters and find_role(setters[0]) == "function_state"):
        reject("a class has unknown attributes, or is changed twice")
    is_computed = isinstance(attributes.get("__abstractmethods__"), (CarriedObject, Node))
    if is_computed or any(name in attributes for name in _REFUSED_ATTRIBUTES):
        reject("the attributes of a class change its bases")
    context.accept(*setters)
    return {key: value for key, value in attributes.items() if type(key) is str}


def _check_metaclass(context: NodeContext, part: object) -> object:
    """Return the metaclass, which is a class: anything in its place is called."""
    value = context.value(part)
    if isinstance(value, CarriedClass) or (isinstance(value, Reference) and "metaclass" in find(value.pair).uses):
        return value
    message = "constructs a class that is pickled by value, by code of its own"
    _record_unknown(context, part, message, "expected a class as the metaclass of a class")
    return value


def _check_bases(context: NodeContext, part: object) -> tuple[object, ...]:
    """Return the bases of a class: loading runs ``__init_subclass__`` of each."""
    bases = context.value(part)
    if type(bases) is not tuple:
        reject("a class has unknown arguments")
    for base, value in zip(part, bases):  # type: ignore[call-overload]
        if not isinstance(value, (CarriedClass, Reference, Described)):
            message = "is a base of a class pickled by value: its code runs when that is created"
            _record_unknown(context, base, message, "expected classes as the bases of a class")
    return bases


def _record_unknown(context: NodeContext, part: object, message: str, problem: str) -> None:
    """Record that creating a class runs the code of an unknown base or metaclass, which is a plain name."""
    if not isinstance(part, Global) or part.updates:
        reject(problem)
    context.issues[id(part)] = Issue(part, "base", message)


# -- objects ------------------------------------------------------------------------------------------


def decode_reconstructed_object(context: NodeContext, node: Call) -> object:
    """Decode ``copyreg._reconstructor(class, base, value)`` and a state, of a class pickled by value."""
    args: Any = node.args
    base: Any = args[1] if len(args) == 3 else None
    is_plain = isinstance(base, Global) and not base.updates and "plain base" in find(base.pair).uses
    if not is_plain or base.name == "bytearray":  # which pickles itself in another way
        reject("expected a built-in type as the base of an object that copyreg constructs")
    context.accept(base)
    return _object(context, node, args[0], () if args[2] is None else (args[2],))


def decode_object(context: NodeContext, node: Call) -> object:
    """Decode an object of a class pickled by value, with its arguments, state and items."""
    return _object(context, node, node.func, node.args)


def _object(context: NodeContext, node: Call, cls: object, args: object) -> object:
    skeleton, carried = _find_skeleton(cls), context.value(cls)
    if skeleton is None or not isinstance(carried, (CarriedClass, Cycle)):
        reject("the class of an object is not understood")
    if type(args) is not tuple or sum(update.how == "BUILD" for update in node.updates or ()) > 1:
        reject("an object of a class pickled by value has computed arguments, or two states")
    given = tuple(map(context.value, args))
    keywords = context.value(node.kwargs) if node.kwargs is not None else {}
    if type(keywords) is not dict:
        reject("an object of a class pickled by value has computed arguments")
    if isinstance(carried, CarriedClass):
        reference = Reference(carried.module or "__main__", carried.name)
    else:  # its class is not complete
        name: Any = skeleton.args[1]  # type: ignore[index]
        reference = Reference("__main__", name if isinstance(name, str) else "?")
    attributes, state, items = _read_contents(context, node)
    lineage = context.lineages.get(id(skeleton))
    if lineage is None:
        context.waiting.setdefault(id(skeleton), []).append(node)
    else:
        _describe_object(context, node, lineage)
    if find_role(skeleton) == "carried_enum" and len(given) == 1:
        return types.EnumMember(reference, given[0])
    is_called = node.how == "REDUCE" and node.func is cls
    return CarriedObject(reference, (*given, *keywords.values()), attributes, state, items, carried, is_called)


def _read_contents(context: NodeContext, node: Call) -> tuple[dict[str, Any], object, tuple[object, ...]]:
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


def decode_slot_object(context: NodeContext, node: Call) -> Described:
    """Decode an object of ``dataclasses`` that consists of its slots alone."""
    pair = node.func.pair  # type: ignore[attr-defined]
    attributes, state, items = _read_contents(context, node)
    if node.args != () or node.kwargs is not None or state is not None or items or len(node.updates or ()) > 1:
        reject("a part of a dataclass has unknown arguments")
    if not set(attributes) <= set(find(pair).attributes or ()):
        reject("a part of a dataclass has unknown attributes")
    context.accept_if_by_value(node)
    return Described(".".join(pair), tuple(attributes.items()))


def reject_called_function(context: NodeContext, node: Call) -> object:
    """Report a call of a function that is pickled by value, whose code runs when the file is loaded."""
    context.value(node.func)
    context.add_issue(node, "called", "a function that is pickled by value is called: loading the file runs its code")
    return Unaccepted(node)


# -- objects of Python that they refer to -------------------------------------------------------------


def decode_builtin_type(_: NodeContext, node: Call) -> Reference:
    """Decode ``_builtin_type(name)``: a class in ``types``, or ``type`` by its name in Python 2."""
    args: Any = node.args
    name = args[0] if len(args) == 1 and not node.updates else None
    if type(name) is not str or (name not in BUILTIN_TYPES and name != "ClassType"):
        reject("expected the name of a type as the argument of _builtin_type")
    return Reference("builtins", "type") if name == "ClassType" else Reference("types", name)


def decode_plain_call(context: NodeContext, node: Call) -> Described:
    """Decode a call that only stores its arguments: texts, numbers, and for a ``WeakSet`` a list of classes."""
    parts = context.arguments(node)
    flat = [item for part in parts for item in (part if type(part) is list else [part])]
    if node.updates or any(not isinstance(part, (str, int, Reference, CarriedClass, Cycle)) for part in flat):
        reject("expected texts and numbers as its arguments")
    context.accept_if_by_value(node)
    return Described(describe_node(node), parts)


def decode_forward_reference(context: NodeContext, node: Call) -> Described:
    """Decode ``typing.ForwardRef``: its code runs when the annotation is evaluated, as that of a function."""
    state = context.read_state(node)
    slots = state[1] if type(state) is tuple and len(state) == 2 and state[0] is None else None
    if node.args != () or type(slots) is not dict or type(slots.get("__forward_arg__")) is not str:
        reject("expected the slots of a forward reference as its state")
    context.add_issue(node, "function", "a forward reference has code in the file, which runs when it is evaluated")
    return Described("typing.ForwardRef", (slots["__forward_arg__"],))


def decode_descriptor(context: NodeContext, node: Call) -> Described:
    """Decode ``property``, ``staticmethod`` and ``classmethod`` in a class that is pickled by value."""
    if node.updates:
        reject("a property or method has computed arguments")
    parts = context.arguments(node)
    kinds = (Function, Reference, Described, CarriedObject, Cycle, str, type(None))
    if any(not isinstance(part, kinds) for part in parts):
        reject("expected functions as the arguments of a property or method")
    return Described(describe_node(node), parts)


def decode_type_variable(context: NodeContext, node: Call) -> Described:
    """Decode ``_make_typevar(name, bound, constraints, covariant, contravariant, id)``."""
    parts = context.arguments(node)
    if node.updates or not parts or any(isinstance(part, Node) for part in parts):
        reject("a TypeVar has unknown arguments")
    return Described("typing.TypeVar", parts)


def decode_generic_alias(context: NodeContext, node: Call) -> Described:
    """Decode ``operator.getitem(typing.Union, (...))``, as annotations are pickled.

    cloudpickle names the class of ``X | Y``, which CPython 3.14 pickles so, as a type in ``types``.
    """
    args: Any = node.args
    origin = args[0] if len(args) == 2 else None
    if isinstance(origin, Call) and find_role(origin) == "builtin_type" and not node.updates:
        if context.value(origin) != Reference("types", "UnionType"):
            reject("expected UnionType as the type in types that getitem gives parameters")
        return _make_union(context.value(args[1]))
    skeleton = _find_skeleton(origin)
    if skeleton is not None and not node.updates:
        cls, parts = context.value(origin), context.value(args[1])
        ran, lineage = _Ran(), context.lineages.get(id(skeleton))
        if lineage is not None:
            ran.add(lineage.hooks, ("__class_getitem__",))
            ran.add(lineage.meta, (), ("__getitem__",))
        ran.report(context, node, f"parameters are given to the class {_name_of(skeleton)}, which is pickled by value")
        return Described("typing alias", (cls, parts))
    if not isinstance(origin, Global) or origin.updates or "generic" not in find(origin.pair).uses or node.updates:
        reject("expected a generic type as the argument of getitem")
    parts = context.value(args[1])
    context.accept(origin)
    return Described(str(origin), parts if type(parts) is tuple else (parts,))


def decode_union(context: NodeContext, node: Call) -> Described:
    """Decode ``functools.reduce(operator.or_, types)``, as ``X | Y`` is pickled before CPython 3.14."""
    args: Any = node.args
    if len(args) != 2 or node.updates or not isinstance(args[0], Global) or args[0].pair not in _UNION:
        reject("expected operator.or_ and types as the arguments of reduce")
    made = _make_union(context.value(args[1]))
    context.accept(args[0])
    return made


def _make_union(parts: object) -> Described:
    """Return ``X | Y`` of its parts: types alone, so that no method of a value runs."""
    kinds = (Reference, Described, CarriedClass, Cycle, type(None))
    if type(parts) is not tuple or any(not isinstance(part, kinds) for part in parts):
        reject("expected types as the parts of a union")
    return Described("types.UnionType", parts)


_SINGLETONS: Final = ((None, "NoneType"), (..., "ellipsis"), (NotImplemented, "NotImplementedType"))
_SINGLETON_TYPES: Final = {type(value): Reference("types", name) for value, name in _SINGLETONS}


def decode_type_of(context: NodeContext, node: Call) -> Reference:
    """Decode ``type(None)``, as the types of Python's singletons are pickled."""
    args: Any = node.args
    made = _SINGLETON_TYPES.get(type(context.value(args[0]))) if len(args) == 1 and not node.updates else None
    if made is None:
        reject("expected None, Ellipsis or NotImplemented as the argument of type")
    return made


def decode_ellipsis(_: NodeContext, node: Call) -> object:
    """Decode ``_gen_ellipsis()``."""
    if node.args != () or node.updates:
        reject("_gen_ellipsis has arguments")
    return ...


_FUNCTION_TYPES: Final = ("LambdaType", "FunctionType")
_CODE_TYPE: Final = "CodeType"
_NAMESPACE: Final = Reference("types", "SimpleNamespace")


class Cell(Record):
    """A cell of a closure."""

    content: object


class _Empty(Record):
    """The content of an empty cell."""


# -- code objects and cells: accepted only together with the function that they belong to ---------------


def decode_builtin_type_call(context: NodeContext, node: Call) -> object:
    """Decode a call of a type that ``_builtin_type`` names: ``CodeType``, ``LambdaType``, ``MethodType`` and others."""
    named = context.value(node.func)
    if node.updates and named != _NAMESPACE:
        reject("a code object or function is changed after it was created")
    if type(node.args) is not tuple:
        reject("a code object or function has computed arguments")
    name = named.name if isinstance(named, Reference) else None
    if name in _FUNCTION_TYPES:
        return decode_function(context, node)
    args = context.arguments(node)
    made: object = None
    if name == _CODE_TYPE:
        made = make_code(args)
    elif named == _NAMESPACE and not args:
        made = Described("types.SimpleNamespace", tuple(context.read_attributes(node).items()) if node.updates else ())
    elif named == Reference("builtins", "type") and len(args) == 1:
        made = _SINGLETON_TYPES.get(type(args[0]))
    elif name == "MethodType" and len(args) == 2 and _is_method(args[0]):
        made = Described("method", args)
    elif (name == "MappingProxyType" and len(args) == 1 and type(args[0]) is dict) or (
        name == "GenericAlias" and len(args) == 2 and isinstance(args[0], (Reference, CarriedClass, Cycle))
    ):
        made = Described(f"types.{name}", args)
    if made is None:
        reject("a built-in type has arguments that no pickler writes")
    if name == _CODE_TYPE and not context.sharing:  # SB3 may pass it to FunctionType under another key
        context.add_issue(node, "function", "a code object is stored without a function: its code is in the file")
    return made


def _is_method(value: object) -> bool:
    """Return whether a value may be bound to an object: a function by value, or a method of flax or SBX."""
    return isinstance(value, (Function, Cycle)) or (isinstance(value, Reference) and "method" in find(value.pair).uses)


def decode_cell(context: NodeContext, node: Call) -> Cell:
    """Decode ``_make_cell(value)``, or ``_make_empty_cell()``."""
    args: Any = node.args
    if len(args) > 1 or node.updates:
        reject("expected one value in a cell")
    value = args[0] if args else None
    if isinstance(value, Global) and find(value.pair).role == "empty_cell_value":
        context.accept(value)
        return Cell(_Empty())
    return Cell(context.value(value) if args else _Empty())


# -- functions ----------------------------------------------------------------------------------------


def decode_function(context: NodeContext, node: Call) -> Function:
    """Decode ``_make_function(code, globals, name, defaults, closure)``, or the function type, and its state."""
    args: Any = node.args
    setters = context.state_setters(node)
    if node.updates or not 2 <= len(args) <= 5 or any(find_role(setter) != "function_state" for setter in setters[:1]):
        reject("a function has unknown arguments")
    if len(setters) > 1:
        reject("a function is changed twice")
    code, base, name, defaults, cells = (*map(context.value, args), None, None, None)[:5]
    attributes, state = read_setter_state(context, setters[0]) if setters else ({}, {})
    if set(state) - _FUNCTION_STATE or type(name) not in (str, type(None)) or defaults not in (None, ()):
        reject("a function has a state that cloudpickle never writes")
    closure = state.get("__closure__", cells)
    _claim_cells(context, args[4] if len(args) == 5 else None, closure)
    if type(closure) not in (tuple, type(None)) or any(not isinstance(item, (Cell, Cycle)) for item in closure or ()):
        reject("expected cells in the closure of a function")
    contents = [item.content if isinstance(item, Cell) else item for item in closure or ()]  # a cycle refers to itself
    state = {"__name__": name, "__qualname__": name, "__defaults__": defaults, **state, "__dict__": attributes}
    made = _describe_function(context, node, FunctionParts(_as_code(code), base, tuple(contents), state), node)
    context.accept(*setters)
    return made


def _as_code(value: object) -> Code | None:
    return value if isinstance(value, Code) else None


def _claim_cells(context: NodeContext, cells: object, closure: object) -> None:
    """Check that no other function has the cells of a function, or those that its state copies into them."""
    own = cells if type(cells) is tuple else ()
    copied = closure if closure is not cells and type(closure) is tuple else ()
    if not context.claimed.isdisjoint([mark for cell_of in own for mark in (id(cell_of), ~id(cell_of))]):
        reject("two functions share a cell")
    for cell_of in copied:
        if id(cell_of) in context.claimed:
            reject("two functions share a cell")
        context.claimed.add(~id(cell_of))
    context.claimed.update(map(id, own))


_OLD_NAMES: Final = {
    "closure_values": "__closure__", "_cloudpickle_submodules": "_cloudpickle_submodules",
    **{
        name: f"__{name}__"
        for name in (
            "globals", "defaults", "dict", "module", "name", "doc", "annotations", "qualname", "kwdefaults",
            "type_params",
        )
    },
}  # fmt: skip
"""The parts of a state of cloudpickle < 1.6, with the attributes of a function that they become."""
_OLDEST_STATE: Final = ("globals", "defaults", "dict", "module", "closure_values")
"""The arguments that were the state before 0.5.3."""
_FUNCTION_STATE: Final = frozenset(_OLD_NAMES.values()) - {"__dict__"}


def decode_filled_function(context: NodeContext, node: Call) -> object:
    """Decode ``_fill_function(skeleton, state)`` of cloudpickle < 1.6, which returns the function that it is given."""
    skeleton = node.args[0] if node.args else None  # type: ignore[index]
    is_skeleton = isinstance(skeleton, Call) and find_role(skeleton) == "skeleton_function"
    made = context.value(skeleton) if is_skeleton else None
    if not isinstance(made, (Function, Cycle)) or node.updates:
        reject("expected a skeleton function as the argument of _fill_function")
    return Unaccepted(made)


def decode_skeleton_function(context: NodeContext, node: Call) -> Function:
    """Decode ``_make_skel_func(code, cells, base globals)`` and the call that fills it; others refer to either."""
    fillers = context.state_setters(node)
    made_of = context.arguments(node)
    if node.updates or len(fillers) != 1 or find_role(fillers[0]) != "filled_function" or not 2 <= len(made_of) <= 3:
        reject("a skeleton function has unknown arguments, or is not filled exactly once")
    filler = fillers[0]
    if filler.updates:
        reject("a function is changed after it was created")
    given: Any = tuple(map(context.value, filler.args[1:]))  # type: ignore[index]
    state = given[0] if len(given) == 1 else dict(zip(_OLDEST_STATE, given)) if len(given) == 5 else None
    if type(state) is not dict or set(state) - _OLD_NAMES.keys():
        reject("a function has an unknown state")
    state = {_OLD_NAMES[name]: part for name, part in state.items()}
    closure = state.get("__closure__")
    if type(closure) not in (list, tuple, type(None)):
        reject("expected a list of values as the closure of a function")
    base = made_of[2] if len(made_of) == 3 else None
    parts = FunctionParts(_as_code(made_of[0]), base, tuple(closure or ()), state)
    made = _describe_function(context, filler, parts, node)
    context.accept(*fillers)
    return made


def _describe_function(context: NodeContext, node: Call, parts: FunctionParts, skeleton: Call) -> Function:
    """Describe a function that a call creates (``skeleton``); a published one, unchanged, has no issue."""
    code, state = parts.code, parts.state
    module, qualname = state.get("__module__"), state.get("__qualname__")
    defaults, keyword_defaults = state.get("__defaults__"), state.get("__kwdefaults__")
    schedule, why = find_schedule(parts)
    if why:
        context.add_issue(node, "function", why)
    both = (parts.base_globals, state.get("__globals__"))
    own = {**_own_globals(both[0]), **_own_globals(both[1])}
    unclear = _list_unclear_names(context, skeleton, code, own)
    if schedule is not None and unclear:
        schedule = None
        context.add_issue(node, "function", "another function of the file gives its global names a meaning")
    # its names are those that it uses only in plain dicts; cloudpickle < 1.2 stored the name of a module instead
    is_plain = all(
        values is None or (type(values) is dict and all(type(key) is str for key in values))
        for values in (None if type(both[0]) is str else both[0], both[1])
    )
    return Function(
        qualname=qualname if type(qualname) is str else code.name if code is not None else "?",
        module=module if type(module) is str else None,
        code=code,
        closure=dict(zip(code.freevars if code is not None else (), parts.closure)),
        defaults=defaults if type(defaults) is tuple else (),
        globals={**own, **dict.fromkeys(unclear, types.Contradiction())},
        schedule=schedule,
        keyword_defaults=keyword_defaults if type(keyword_defaults) is dict else {},
        is_changed=not is_plain or _may_be_changed(context),
    )


def _may_be_changed(context: NodeContext) -> bool:
    """Return whether other parts of the pickle may change its functions: then none of them is understood.

    These are calls whose result nothing uses, other than those that complete a function; changes of what was given to
    a call before; and globals and cells of a function that are used elsewhere, too.
    """
    if context.may_be_changed is None:
        calls = [node for node in context.pickle.log if type(node) is Call]
        reached: set[int] = set()
        own = {id(part): 0 for node in calls for part in _list_own_parts(node)}
        for root in (context.pickle.value, *filter(_only_completes, calls)):
            for value in walk(root, reached):
                for part in children(value):
                    if id(part) in own:
                        own[id(part)] += 1
        for nodes in context.sharing.values():  # they share their globals
            base = find_base_globals(nodes[0])
            own[id(base)] = own.get(id(base), 0) - len({id(node.args) for node in nodes if id(node) in reached}) + 1
        states = {id(update.value) for node in calls for update in node.updates or ()}
        states |= {id(part) for node in calls if _only_completes(node) for part in _list_state(node)}
        context.may_be_changed = (
            any(id(node) not in reached for node in calls)
            or any(count > 1 for count in own.values())
            or not states.isdisjoint(context.pickle.changed)
        )
    return context.may_be_changed


def _list_own_parts(node: Call) -> list[object]:
    """Return what belongs to a function alone: its globals, which functions of one module share, and its cells."""
    if find_maker(node) not in ("function", "skeleton_function"):
        return []
    cells = node.args[4] if type(node.args) is tuple and len(node.args) > 4 else ()
    base = find_base_globals(node)
    return [*([base] if isinstance(base, Dict) else []), *(cells if type(cells) is tuple else ())]


def _list_state(node: Call) -> list[object]:
    """Return the dicts and tuples that a call gives a function or class as its state."""
    found: list[object] = []
    todo: list[object] = list(node.args[1:]) if type(node.args) is tuple else []
    for _ in range(3):
        found += todo
        todo = [part for value in todo for part in children(value) if type(part) in (Dict, tuple, list)]
    return found


def _only_completes(node: Call) -> bool:
    """Return whether a call creates or completes a function or class, or a part of one."""
    role = find_role(node)
    if role in ("function_state", "class_state", "filled_function", "filled_class"):
        target = node.args[0] if type(node.args) is tuple and node.args else None
        return isinstance(target, Call) and _makes_by_value(target)
    return _makes_by_value(node) or role == "cell"


def _makes_by_value(node: Call) -> bool:
    return "by value" in find_called(node).uses or find_maker(node) == "function"


def _list_unclear_names(context: NodeContext, node: Call, code: Code | None, own: dict[str, object]) -> list[str]:
    """Return the global names of a function that others define in the same dict, unless as the same value."""
    key = find_globals(node)
    sharing = context.sharing.get(key, ())
    if key is None or len(sharing) < 2 or code is None:
        return []
    shared = context.shared_globals.get(id(sharing))
    if shared is None:
        shared = context.shared_globals[id(sharing)] = {}
        base = find_base_globals(node)
        for name, part in base if isinstance(base, Dict) else ():
            if name not in _MODULE_GLOBALS:
                shared[name] = part  # type: ignore[index]
        for other in sharing:
            for name, part in _find_given_globals(context, other).items():
                first = shared.setdefault(name, part)
                if first is not part and (type(part) not in LEAVES or repr(first) != repr(part)):
                    shared[name] = types.Contradiction()
    names: list[str] = []
    todo: list[object] = [code]
    while todo:
        part = todo.pop()
        if isinstance(part, Code):
            names += part.names
            todo += part.constants
    context.charge_items(len(names))
    return [
        name for name in names if name in shared and (name not in own or isinstance(shared[name], types.Contradiction))
    ]


def _find_given_globals(context: NodeContext, node: Call) -> dict[str, object]:
    """Return the parts of the tree that the state of a function gives its globals, without those of its module."""
    found: dict[str, object] = {}
    for setter in context.state_setters(node):
        states = setter.args[1:2] if type(setter.args) is tuple else ()
        for state in states[0] if states and type(states[0]) is tuple else states:
            pairs = state if isinstance(state, Dict) else ()
            names = [part for key, part in pairs if key in ("__globals__", "globals")]
            found.update(
                (key, part)
                for own in (*names, *([state] if len(setter.args) > 2 else []))  # type: ignore[arg-type]
                if isinstance(own, Dict)
                for key, part in own
                if type(key) is str and key not in _MODULE_GLOBALS
            )
    return found


def _own_globals(values: object) -> dict[str, object]:
    """Return the globals that are pickled with a function, without what describes its module."""
    named = values.items() if type(values) is dict else ()
    return {key: value for key, value in named if type(key) is str and key not in _MODULE_GLOBALS}


_MODULE_GLOBALS: Final = frozenset({"__package__", "__name__", "__file__", "__path__"})


# -- modules ------------------------------------------------------------------------------------------


def decode_module(context: NodeContext, node: Call) -> types.Module:
    """Decode ``subimport(name)``, which imports a module by its name."""
    args: Any = node.args
    name = args[0] if len(args) == 1 else None
    if type(name) is not str or node.updates:
        reject("expected the name of a module as the argument of subimport")
    is_harmless = name.partition(".")[0] in HARMLESS_MODULES and "__" not in name and not explain_danger((name, ""))
    if not is_harmless and name not in _PYTHON_MODULES:
        context.add_issue(node, "module", name)
    return types.Module(name)


HARMLESS_MODULES: Final = frozenset({
    "numpy", "torch", "gym", "gymnasium", "stable_baselines3", "sb3_contrib", "rl_zoo3", "math", "cmath", "random",
    "collections", "typing", "enum", "functools", "itertools", "copy", "warnings", "time", "datetime", "abc",
    "dataclasses", "numbers", "string", "statistics", "decimal", "fractions", "bisect", "heapq", "scipy",
    "matplotlib", "optuna", "pandas", "tensorflow", "jax", "optax",
})  # fmt: skip
"""Packages whose import only defines names: a function in a file may use them, and has an issue of its own."""

_PYTHON_MODULES: Final = frozenset({"_thread", "builtins", "types"})
"""Modules that every process has imported: the methods of a dataclass refer to them."""
