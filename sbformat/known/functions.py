"""Functions and classes that cloudpickle carried by value: described, never made (FORMAT.md 13.5).

Sources: cloudpickle ``cloudpickle.py`` and ``cloudpickle_fast.py`` of 0.8 to 3.1. Three ways to spell a function have
been in use: ``_fill_function(_make_skel_func(code, ...), state)``; ``FunctionType(code, globals, ...)`` and
``_make_function(code, globals, ...)``, both followed by ``_function_setstate(function, state)``, whose result is
dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sbformat.known.code import Code, Parts, code_from
from sbformat.known.recognition import Unrecognised, described, role_of
from sbformat.known.schedules import schedule_of
from sbformat.known.values import CarriedClass, Cycle, Described, EnumMember, Function, Module, Reference
from sbformat.names.dangerous import reason
from sbformat.names.known import GENERICS
from sbformat.pkl.tree import Call, Global, Node

if TYPE_CHECKING:
    from sbformat.known.recognition import Recognition

_FUNCTION_TYPES: Final = ("LambdaType", "FunctionType")
_CODE_TYPE: Final = "CodeType"
_EMPTY_CELLS: Final = frozenset(
    {("cloudpickle.cloudpickle", "_empty_cell_value"), ("cloudpickle", "_empty_cell_value")}
)


class Cell(NamedTuple):
    """A closure's cell."""

    content: object


class _Empty(NamedTuple):
    """What an empty cell holds."""


# -- code objects, cells and types: parts that only what they belong to accepts -------------------------


def code_call(scope: Recognition, node: Call) -> object:
    """``_builtin_type("CodeType")(...)`` or ``_builtin_type("LambdaType")(...)``."""
    func = node.func
    name = scope.value(func.args[0]) if isinstance(func, Call) and len(func.args) == 1 else None  # type: ignore[arg-type,index]
    if node.updates or type(node.args) is not tuple:
        message = "a code object or function has computed arguments"
        raise Unrecognised(message)
    if name == _CODE_TYPE:
        code = code_from(tuple(scope.value(arg) for arg in node.args))
        if code is None:
            message = "the parts of a code object are not those of any CPython"
            raise Unrecognised(message)
        scope.accept(node, func)
        return code
    if name in _FUNCTION_TYPES:
        made = function(scope, node)
        scope.accept(func)
        return made
    message = "a type of Python's is called that makes neither code nor functions"
    raise Unrecognised(message)


def cell(scope: Recognition, node: Call) -> Cell:
    """``_make_cell(value)``, or empty."""
    args = node.args
    if type(args) is not tuple or len(args) > 1 or node.updates:
        message = "a cell does not hold one value"
        raise Unrecognised(message)
    scope.accept(node)
    return Cell(_content(scope, args[0]) if args else _Empty())


def _content(scope: Recognition, value: object) -> object:
    if isinstance(value, Global) and value.pair in _EMPTY_CELLS:
        scope.accept(value)
        return _Empty()
    return scope.value(value)


# -- functions ----------------------------------------------------------------------------------------


def function(scope: Recognition, node: Call) -> Function:
    """``_make_function(code, globals, name, defaults, closure)``, as the function type takes them, and its state."""
    args: Any = node.args
    setters = scope.setters.get(id(node), [])
    if node.updates or not 2 <= len(args) <= 5 or len(setters) > 1:
        message = "a function is made from unknown arguments, or changed twice"
        raise Unrecognised(message)
    code, base, name, defaults, cells = (*(scope.value(arg) for arg in args), None, None, None)[:5]
    state: dict[str, Any] = {}
    attributes: Any = {}
    if setters:
        attributes, state = _setter_state(scope, setters[0])
    if set(state) - _FUNCTION_STATE or type(name) not in (str, type(None)) or defaults not in (None, ()):
        message = "a function is given a state that cloudpickle never writes"
        raise Unrecognised(message)
    _claim_cells(scope, args[4] if len(args) == 5 else None)
    closure = state.get("__closure__", cells)
    parts = Parts(
        code if isinstance(code, Code) else None,
        base,
        state.get("__name__", name),
        state.get("__qualname__", name),
        state.get("__module__"),
        _contents(() if closure is None else closure),
        state.get("__defaults__", defaults),
        state.get("__kwdefaults__"),
        state.get("__globals__", {}),
        attributes,
        state.get("__annotations__"),
        state.get("__doc__"),
        state.get("_cloudpickle_submodules"),
    )
    made = _described(scope, node, parts)
    scope.accept(node, *setters)
    return made


def _claim_cells(scope: Recognition, cells: object) -> None:
    """Check that no two functions share the cells that their states are put into: the last one would win."""
    for cell_of in cells if type(cells) is tuple else ():
        if id(cell_of) in scope.claimed:
            message = "two functions share a cell"
            raise Unrecognised(message)
        scope.claimed.add(id(cell_of))


_FUNCTION_STATE: Final = frozenset(
    {
        "__name__", "__qualname__", "__annotations__", "__kwdefaults__", "__defaults__", "__module__", "__doc__",
        "__closure__", "_cloudpickle_submodules", "__globals__", "__type_params__",
    }
)  # fmt: skip
_FILLED_STATE: Final = frozenset(
    {
        "globals", "defaults", "dict", "closure_values", "module", "name", "doc", "_cloudpickle_submodules",
        "annotations", "qualname", "kwdefaults", "type_params",
    }
)  # fmt: skip


def _setter_state(scope: Recognition, setter: Call) -> tuple[Any, dict[str, Any]]:
    args: Any = setter.args
    state = scope.value(args[1]) if len(args) == 2 and not setter.updates else None
    if type(state) is not tuple or len(state) != 2 or type(state[1]) is not dict:
        message = "a function or class has an unknown state"
        raise Unrecognised(message)
    return state


def _contents(closure: object) -> tuple[object, ...]:
    if type(closure) is not tuple or any(not isinstance(item, Cell) for item in closure):
        message = "the closure of a function is not made of cells"
        raise Unrecognised(message)
    return tuple(item.content for item in closure)


def filled_function(scope: Recognition, node: Call) -> Function:
    """``_fill_function(_make_skel_func(code, cells, base globals), state)`` of cloudpickle < 1.6."""
    args: Any = node.args
    skeleton = args[0] if args else None
    if not isinstance(skeleton, Call) or role_of(skeleton) != "skeleton_function" or skeleton.updates or node.updates:
        message = "_fill_function is not given a function's skeleton"
        raise Unrecognised(message)
    made_of: Any = tuple(scope.value(arg) for arg in skeleton.args)  # type: ignore[attr-defined]
    if not 2 <= len(made_of) <= 3:
        message = "a function's skeleton has unknown arguments"
        raise Unrecognised(message)
    base = made_of[2] if len(made_of) == 3 else None
    if len(args) == 2:
        state = scope.value(args[1])
    else:  # cloudpickle < 0.5.3
        names = ("globals", "defaults", "dict", "module", "closure_values")
        state = dict(zip(names, (scope.value(arg) for arg in args[1:]))) if len(args) == 6 else None
    if type(state) is not dict or set(state) - _FILLED_STATE:
        message = "a function has an unknown state"
        raise Unrecognised(message)
    closure = state.get("closure_values")
    if type(closure) not in (list, tuple, type(None)):
        message = "the closure of a function is not made of values"
        raise Unrecognised(message)
    parts = Parts(
        made_of[0] if isinstance(made_of[0], Code) else None,
        base,
        state.get("name"),
        state.get("qualname"),
        state.get("module"),
        () if closure is None else tuple(closure),
        state.get("defaults"),
        state.get("kwdefaults"),
        state.get("globals"),
        state.get("dict"),
        state.get("annotations"),
        state.get("doc"),
        state.get("_cloudpickle_submodules"),
    )
    made = _described(scope, node, parts)
    scope.accept(node, skeleton)
    return made


def _described(scope: Recognition, node: Call, parts: Parts) -> Function:
    """Describe a function, and doubt it unless it is published code in the surroundings that its library leaves."""
    code = parts.code
    names = code.freevars if code is not None else ()
    closure = dict(zip(names, parts.closure))
    schedule, why = schedule_of(parts)
    qualname = parts.qualname if type(parts.qualname) is str else code.name if code is not None else "?"
    if why:
        scope.doubt(node, "function", why)
    return Function(
        qualname=qualname,
        module=parts.module if type(parts.module) is str else None,
        code=code,
        closure=closure,
        defaults=parts.defaults if type(parts.defaults) is tuple else (),
        globals=parts.globals if type(parts.globals) is dict else {},
        schedule=schedule,
    )


# -- classes ------------------------------------------------------------------------------------------


def carried_class(scope: Recognition, node: Call) -> CarriedClass:
    """``_make_skeleton_class(type, name, bases, keywords, id, extra)`` and ``_class_setstate``."""
    setters = scope.setters.get(id(node), [])
    args: Any = node.args
    if node.updates or not 3 <= len(args) <= 6 or len(setters) > 1:
        message = "a class is made from unknown arguments, or changed twice"
        raise Unrecognised(message)
    attributes: dict[str, Any] = {}
    if setters:
        attributes, _ = _setter_state(scope, setters[0])
    return _class(scope, node, args, attributes, setters)


def filled_class(scope: Recognition, node: Call) -> CarriedClass:
    """``_rehydrate_skeleton_class(_make_skeleton_class(...), attributes)`` of cloudpickle < 1.6."""
    args: Any = node.args
    skeleton = args[0] if len(args) == 2 else None
    if not isinstance(skeleton, Call) or role_of(skeleton) != "carried_class" or node.updates or skeleton.updates:
        message = "a class is filled that is no skeleton"
        raise Unrecognised(message)
    return _class(scope, node, skeleton.args, scope.value(args[1]), [])


def _class(scope: Recognition, node: Call, args: Any, attributes: Any, setters: list[Call]) -> CarriedClass:  # noqa: ANN401
    name, bases, keywords = scope.value(args[1]), scope.value(args[2]), scope.value(args[3]) if len(args) > 3 else {}
    if type(name) is not str or type(bases) is not tuple or type(attributes) is not dict:
        message = "a class is made from unknown arguments"
        raise Unrecognised(message)
    scope.value(args[0])
    module = attributes.get("__module__", keywords.get("__module__") if type(keywords) is dict else None)
    shown = {key: value for key, value in attributes.items() if type(key) is str}
    scope.accept(node, *setters)
    scope.doubt(
        node, "class", f"the class {name!r:.100} is carried by value: loading it makes it from code in the file"
    )
    return CarriedClass(module if type(module) is str else None, name, bases, shown)


def carried_enum(scope: Recognition, node: Call) -> CarriedClass:
    """``_make_skeleton_enum(bases, name, qualname, members, module, id, extra)``."""
    args: Any = node.args
    if node.updates or not 5 <= len(args) <= 7:
        message = "an enumeration is made from unknown arguments"
        raise Unrecognised(message)
    bases, name, _, members, module = (scope.value(arg) for arg in args[:5])
    setters = scope.setters.get(id(node), [])
    if type(name) is not str or type(module) is not str or type(members) is not dict or type(bases) is not tuple:
        message = "an enumeration is made from unknown arguments"
        raise Unrecognised(message)
    if any(type(key) is not str for key in members) or len(setters) > 1:
        message = "an enumeration is made from unknown arguments, or changed twice"
        raise Unrecognised(message)
    if setters:
        _setter_state(scope, setters[0])
    reference = Reference(module, name)
    scope.accept(node, *setters)
    scope.doubt(node, "class", f"the enumeration {name!r:.100} is carried by value")
    return CarriedClass(module, name, bases, {key: EnumMember(reference, value) for key, value in members.items()})


# -- what functions and classes refer to --------------------------------------------------------------


def module(scope: Recognition, node: Call) -> Module:
    """``subimport(name)``: imports a module by its name."""
    (name,) = node.args if type(node.args) is tuple and len(node.args) == 1 else (None,)
    if type(name) is not str or node.updates:
        message = "subimport is not given the name of a module"
        raise Unrecognised(message)
    scope.accept(node)
    if name.partition(".")[0] not in HARMLESS_MODULES or "__" in name or reason((name, "")):
        scope.doubt(node, "module", name)
    return Module(name)


HARMLESS_MODULES: Final = frozenset(
    {
        "numpy", "torch", "gym", "gymnasium", "stable_baselines3", "sb3_contrib", "rl_zoo3", "math", "cmath", "random",
        "collections", "typing", "enum", "functools", "itertools", "copy", "warnings", "time", "datetime", "abc",
        "dataclasses", "numbers", "string", "statistics", "decimal", "fractions", "bisect", "heapq", "scipy",
        "matplotlib", "optuna", "pandas", "tensorflow", "jax",
    }
)  # fmt: skip
"""Packages whose import does nothing but define: a function in a file may use what they hold, and is judged itself."""


def descriptor(scope: Recognition, node: Call) -> Described:
    """``property``, ``staticmethod`` and ``classmethod`` of a class that is carried by value."""
    if node.updates or type(node.args) is not tuple:
        message = "a property or method has computed arguments"
        raise Unrecognised(message)
    parts = tuple(scope.value(arg) for arg in node.args)
    if any(not isinstance(part, (Function, Reference, Cycle, str, type(None))) for part in parts):
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
    if not isinstance(origin, Global) or origin.updates or origin.pair not in GENERICS or node.updates:
        message = "getitem is called for something other than a type's parameters"
        raise Unrecognised(message)
    parts = scope.value(args[1])
    scope.accept(node, origin)
    return Described(str(origin), parts if type(parts) is tuple else (parts,))


_PLAIN_TYPES: Final = {type(None): "NoneType", type(...): "ellipsis", type(NotImplemented): "NotImplementedType"}


def type_of(scope: Recognition, node: Call) -> Reference:
    """``type(None)``: how the types of Python's singletons are pickled."""
    args: Any = node.args
    name = _PLAIN_TYPES.get(type(scope.value(args[0]))) if len(args) == 1 and not node.updates else None
    if name is None:
        message = "type is called for something other than None, Ellipsis or NotImplemented"
        raise Unrecognised(message)
    scope.accept(node)
    return Reference("types", name)


def ellipsis(scope: Recognition, node: Call) -> object:
    """``_gen_ellipsis()``."""
    if node.args != () or node.updates:
        message = "the ellipsis is given arguments"
        raise Unrecognised(message)
    scope.accept(node)
    return ...
