"""Node decoders for functions that cloudpickle pickled by value: described, never created (VALUES.md 13.5).

Sources: cloudpickle ``cloudpickle.py`` and ``cloudpickle_fast.py`` of 0.8 to 3.1. It has written a function in three
forms: ``_fill_function(_make_skel_func(code, ...), state)``; ``FunctionType(code, globals, ...)`` and
``_make_function(code, globals, ...)``, both followed by ``_function_setstate(function, state)``, whose result is
discarded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.immutable import Record
from sbformat.known.classes import read_setter_state
from sbformat.known.code import Code, FunctionParts, make_code
from sbformat.known.context import find_globals, find_maker
from sbformat.known.dangerous import explain_danger
from sbformat.known.python_objects import find_singleton_type
from sbformat.known.rows import find, find_called, find_role, reject
from sbformat.known.schedules import find_schedule
from sbformat.known.types import CarriedClass, Contradiction, Cycle, Described, Function, Module, Reference
from sbformat.pkl.tree import LEAVES, Call, Dict, Global, children, walk

if TYPE_CHECKING:
    from sbformat.known.context import Context

_FUNCTION_TYPES: Final = ("LambdaType", "FunctionType")
_CODE_TYPE: Final = "CodeType"
_NAMESPACE: Final = Reference("types", "SimpleNamespace")


class Cell(Record):
    """A cell of a closure."""

    content: object


class _Empty(Record):
    """The content of an empty cell."""


# -- code objects and cells: accepted only together with the function that they belong to ---------------


def decode_builtin_type_call(context: Context, node: Call) -> object:
    """Decode a call of a type that ``_builtin_type`` names: ``CodeType``, ``LambdaType``, ``MethodType`` and others."""
    named = context.value(node.func)
    if node.updates and named != _NAMESPACE:
        reject("a code object or function is changed after it was created")
    if type(node.args) is not tuple:
        reject("a code object or function has computed arguments")
    name = named.name if isinstance(named, Reference) else None
    if name in _FUNCTION_TYPES:
        return decode_function(context, node)
    args = tuple(context.value(arg) for arg in node.args)
    made: object = None
    if name == _CODE_TYPE:
        made = make_code(args)
    elif named == _NAMESPACE and not args:
        made = Described("types.SimpleNamespace", tuple(context.read_attributes(node).items()) if node.updates else ())
    elif named == Reference("builtins", "type") and len(args) == 1:
        made = find_singleton_type(args[0])
    elif name == "MethodType" and len(args) == 2 and _is_method(args[0]):
        made = Described("method", args)
    elif (name == "MappingProxyType" and len(args) == 1 and type(args[0]) is dict) or (
        name == "GenericAlias" and len(args) == 2 and isinstance(args[0], (Reference, CarriedClass, Cycle))
    ):
        made = Described(f"types.{name}", args)
    if made is None:
        reject("a built-in type has arguments that no pickler writes")
    context.accept(node)
    if name == _CODE_TYPE and not context.sharing:  # SB3 may pass it to FunctionType under another key
        context.add_issue(node, "function", "a code object is stored without a function: its code is in the file")
    return made


def _is_method(value: object) -> bool:
    """Return whether a value may be bound to an object: a function by value, or a method of flax or SBX."""
    return isinstance(value, (Function, Cycle)) or (isinstance(value, Reference) and "method" in find(value.pair).uses)


def decode_cell(context: Context, node: Call) -> Cell:
    """Decode ``_make_cell(value)``, or ``_make_empty_cell()``."""
    args = node.args
    if type(args) is not tuple or len(args) > 1 or node.updates:
        reject("expected one value in a cell")
    context.accept(node)
    return Cell(_content(context, args[0]) if args else _Empty())


def _content(context: Context, value: object) -> object:
    if isinstance(value, Global) and find(value.pair).role == "empty_cell_value":
        context.accept(value)
        return _Empty()
    return context.value(value)


# -- functions ----------------------------------------------------------------------------------------


def decode_function(context: Context, node: Call) -> Function:
    """Decode ``_make_function(code, globals, name, defaults, closure)``, or the function type, and its state."""
    args: Any = node.args
    setters = context.state_setters(node)
    if node.updates or not 2 <= len(args) <= 5 or any(find_role(setter) != "function_state" for setter in setters[:1]):
        reject("a function has unknown arguments")
    if len(setters) > 1:
        reject("a function is changed twice")
    code, base, name, defaults, cells = (*(context.value(arg) for arg in args), None, None, None)[:5]
    state: dict[str, Any] = {}
    attributes: Any = {}
    if setters:
        attributes, state = read_setter_state(context, setters[0])
    if set(state) - _FUNCTION_STATE or type(name) not in (str, type(None)) or defaults not in (None, ()):
        reject("a function has a state that cloudpickle never writes")
    closure = state.get("__closure__", cells)
    _claim_cells(context, args[4] if len(args) == 5 else None, closure)
    parts = FunctionParts(
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
    made = _describe_function(context, node, parts, node)
    context.accept(node, *setters)
    return made


def _claim_cells(context: Context, cells: object, closure: object) -> None:
    """Check that no two functions share a cell, which the state of the last one would overwrite.

    :param cells: of the function
    :param closure: the cells that its state copies into them; others may copy the same, unless they are of a function
    """
    own = cells if type(cells) is tuple else ()
    for cell_of in own:
        if id(cell_of) in context.claimed or ~id(cell_of) in context.claimed:
            reject("two functions share a cell")
    for cell_of in closure if closure is not cells and type(closure) is tuple else ():
        if id(cell_of) in context.claimed:
            reject("two functions share a cell")
        context.claimed.add(~id(cell_of))
    context.claimed.update(map(id, own))


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


def _contents(closure: object) -> tuple[object, ...]:
    """Return the contents of cells; a cycle for a cell whose content refers to itself."""
    if type(closure) is not tuple or any(not isinstance(item, (Cell, Cycle)) for item in closure):
        reject("expected cells in the closure of a function")
    return tuple(item.content if isinstance(item, Cell) else item for item in closure)


def decode_filled_function(context: Context, node: Call) -> object:
    """Decode ``_fill_function(skeleton, state)`` of cloudpickle < 1.6, which returns the function that it is given."""
    args: Any = node.args
    skeleton = args[0] if args else None
    is_skeleton = isinstance(skeleton, Call) and find_role(skeleton) == "skeleton_function"
    made = context.value(skeleton) if is_skeleton else None
    if not isinstance(made, (Function, Cycle)) or node.updates:
        reject("expected a skeleton function as the argument of _fill_function")
    return made


def decode_skeleton_function(context: Context, node: Call) -> Function:
    """Decode ``_make_skel_func(code, cells, base globals)`` and the call that fills it; others refer to either."""
    fillers = context.state_setters(node)
    made_of: Any = tuple(context.value(arg) for arg in node.args)  # type: ignore[attr-defined]
    if node.updates or len(fillers) != 1 or find_role(fillers[0]) != "filled_function" or not 2 <= len(made_of) <= 3:
        reject("a skeleton function has unknown arguments, or is not filled exactly once")
    base = made_of[2] if len(made_of) == 3 else None
    state = _filled_state(context, fillers[0])
    closure = state.get("closure_values")
    if type(closure) not in (list, tuple, type(None)):
        reject("expected a list of values as the closure of a function")
    parts = FunctionParts(
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
    made = _describe_function(context, fillers[0], parts, node)
    context.accept(node, *fillers)
    return made


def _filled_state(context: Context, filler: Call) -> dict[str, Any]:
    args: Any = filler.args
    if filler.updates:
        reject("a function is changed after it was created")
    if len(args) == 2:
        state = context.value(args[1])
    else:  # cloudpickle < 0.5.3
        names = ("globals", "defaults", "dict", "module", "closure_values")
        state = dict(zip(names, (context.value(arg) for arg in args[1:]))) if len(args) == 6 else None
    if type(state) is not dict or set(state) - _FILLED_STATE:
        reject("a function has an unknown state")
    return state


def _describe_function(context: Context, node: Call, parts: FunctionParts, skeleton: Call) -> Function:
    """Describe a function, and add an issue unless it is a published function, unchanged.

    :param skeleton: the call that creates it
    """
    code = parts.code
    names = code.freevars if code is not None else ()
    closure = dict(zip(names, parts.closure))
    schedule, why = find_schedule(parts)
    qualname = parts.qualname if type(parts.qualname) is str else code.name if code is not None else "?"
    if why:
        context.add_issue(node, "function", why)
    own = {**_own_globals(parts.base_globals), **_own_globals(parts.globals)}
    unclear = _list_unclear_names(context, skeleton, code, own)
    if schedule is not None and unclear:
        schedule = None
        context.add_issue(node, "function", "another function of the file gives its global names a meaning")
    return Function(
        qualname=qualname,
        module=parts.module if type(parts.module) is str else None,
        code=code,
        closure=closure,
        defaults=parts.defaults if type(parts.defaults) is tuple else (),
        globals={**own, **dict.fromkeys(unclear, Contradiction())},
        schedule=schedule,
        keyword_defaults=parts.keyword_defaults if type(parts.keyword_defaults) is dict else {},
        is_changed=not _has_plain_globals(parts) or _may_be_changed(context),
    )


def _has_plain_globals(parts: FunctionParts) -> bool:
    """Return whether the globals of a function are plain dicts, whose names are those that it uses."""
    return all(
        own is None
        or (own is parts.base_globals and type(own) is str)
        or (type(own) is dict and all(type(key) is str for key in own))
        for own in (parts.base_globals, parts.globals)
    )


def _may_be_changed(context: Context) -> bool:
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
            base = _get_base(nodes[0])
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
    base = _get_base(node)
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


def _list_unclear_names(context: Context, node: Call, code: Code | None, own: dict[str, object]) -> list[str]:
    """Return the global names of a function that others define in the same globals, unless as the same value.

    cloudpickle gives all functions of a module one dict, which the state of each function updates.
    """
    key = find_globals(node)
    sharing = context.sharing.get(key, ())
    if key is None or len(sharing) < 2 or code is None:
        return []
    shared = context.shared_globals.get(id(sharing))
    if shared is None:
        shared = context.shared_globals[id(sharing)] = {}
        base = _get_base(node)
        for name, part in base if isinstance(base, Dict) else ():
            if name not in _MODULE_GLOBALS:
                shared[name] = part  # type: ignore[index]
        for other in sharing:
            for name, part in _find_given_globals(context, other).items():
                first = shared.setdefault(name, part)
                if first is not part and (type(part) not in LEAVES or repr(first) != repr(part)):
                    shared[name] = Contradiction()
    names: list[str] = []
    todo: list[object] = [code]
    while todo:
        part = todo.pop()
        if isinstance(part, Code):
            names += part.names
            todo += part.constants
    context.charge_items(len(names))
    return [name for name in names if name in shared and (name not in own or isinstance(shared[name], Contradiction))]


def _get_base(node: Call) -> object:
    """Return the part of the tree that becomes the globals of a function, before its state is set."""
    index = 2 if find_maker(node) == "skeleton_function" else 1
    return node.args[index] if type(node.args) is tuple and len(node.args) > index else None


def _find_given_globals(context: Context, node: Call) -> dict[str, object]:
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


def decode_module(context: Context, node: Call) -> Module:
    """Decode ``subimport(name)``, which imports a module by its name."""
    (name,) = node.args if type(node.args) is tuple and len(node.args) == 1 else (None,)
    if type(name) is not str or node.updates:
        reject("expected the name of a module as the argument of subimport")
    context.accept(node)
    is_harmless = name.partition(".")[0] in HARMLESS_MODULES and "__" not in name and not explain_danger((name, ""))
    if not is_harmless and name not in _PYTHON_MODULES:
        context.add_issue(node, "module", name)
    return Module(name)


HARMLESS_MODULES: Final = frozenset(
    {
        "numpy", "torch", "gym", "gymnasium", "stable_baselines3", "sb3_contrib", "rl_zoo3", "math", "cmath", "random",
        "collections", "typing", "enum", "functools", "itertools", "copy", "warnings", "time", "datetime", "abc",
        "dataclasses", "numbers", "string", "statistics", "decimal", "fractions", "bisect", "heapq", "scipy",
        "matplotlib", "optuna", "pandas", "tensorflow", "jax",
    }
)  # fmt: skip
"""Packages whose import only defines names: a function in a file may use them, and has an issue of its own."""

_PYTHON_MODULES: Final = frozenset({"_thread", "builtins", "types"})
"""Modules that every process has imported: the methods of a dataclass refer to them."""
