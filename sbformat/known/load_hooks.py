"""Which code of a file runs while a class or an object pickled by value is loaded (VALUES.md 13.5).

Input: nodes of the inert tree that create classes (``_make_skeleton_class``, ``_make_skeleton_enum``) and objects of
them. Output: an issue for each, whose message names the methods that loading runs, and other messages for the issues of
those methods. CPython and cloudpickle run a method because of its name: creating a class runs its metaclass and
``__init_subclass__`` of its bases, creating an object runs ``__new__``, BUILD runs ``__setstate__``.

Example, for ``class A: def __init_subclass__(cls): ...`` and an object of ``class B(A): def __del__(self): ...``:

    the class 'B' is pickled by value: loading creates it from code in the file, and runs A.__init_subclass__
    an object of the class 'B', which is pickled by value, is created: loading may run B.__del__

A class is described when its attributes are known. An object of the class may be among them, and waits until then.
Sources: CPython ``Modules/_pickle.c`` (``load_build``, ``do_append``), ``Objects/typeobject.c`` (``type_new``),
``Lib/enum.py``, ``Lib/types.py`` (``new_class``); cloudpickle ``cloudpickle.py`` (``_class_setstate``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import escape
from sbformat.known.context import Hook, Lineage
from sbformat.known.rows import find_role
from sbformat.pkl.tree import Call, Dict, Global

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sbformat.known.context import Context

_META_RUNS: Final = ("__prepare__", "__new__", "__init__", "mro", "__setattr__", "__hash__")
_META_MAY_RUN: Final = (
    "__getattribute__", "__getattr__", "__eq__", "__subclasscheck__", "__instancecheck__", "register", "__del__",
)  # fmt: skip
_ENUM_RUNS: Final = ("__new__", "__init__", "_generate_next_value_")
_ANY_OBJECT_MAY_RUN: Final = ("__hash__", "__eq__", "__del__")
_BUILD_MAY_RUN: Final = ("__getattribute__", "__getattr__")
_UPDATE_RUNS: Final = {"APPENDS": "extend", "SETITEMS": "__setitem__", "ADDITEMS": "add"}
_WATCHED: Final = frozenset(
    {
        *_META_RUNS, *_META_MAY_RUN, *_ENUM_RUNS, *_ANY_OBJECT_MAY_RUN, *_BUILD_MAY_RUN, *_UPDATE_RUNS.values(),
        "__init_subclass__", "__set_name__", "__subclasshook__", "__class_getitem__", "__setstate__", "__dict__",
        "__set__", "__call__", "__getitem__", "_missing_", "append",
    }
)  # fmt: skip
_CLASSES: Final = ("carried_class", "carried_enum")
_MOST_NAMES: Final = 8
_MOST_HOOKS: Final = 32
_MOST_BASES: Final = 8
"""Bases of a class that are examined: a file may contain many classes that inherit from the same many."""
_SHOWN: Final = 100

RUNS_WHEN_CALLED: Final = "its code is in the file and runs when it is called"
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

    def mark(self, context: Context) -> None:
        """Change the issues of the functions themselves: loading runs them."""
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


def find_skeleton(node: object) -> Call | None:
    """Return the call that creates a class pickled by value, given it or the call that fills it; None for others."""
    if isinstance(node, Call) and find_role(node) == "filled_class":
        args: Any = node.args
        node = args[0] if args else None
    return node if isinstance(node, Call) and find_role(node) in _CLASSES else None


def name_of(skeleton: Call) -> str:
    """Return the name of a class pickled by value, quoted, escaped and bounded."""
    args: Any = skeleton.args
    name = args[1] if len(args) > 1 else None
    return f"'{escape(name, _SHOWN)}'" if isinstance(name, str) else "without a name"


def _namespace(skeleton: Call) -> Dict:
    """Return the attributes that a class is created with, as pairs of the tree; an enumeration has none."""
    args: Any = skeleton.args
    found = args[3] if find_role(skeleton) == "carried_class" and len(args) > 3 else None
    return found if isinstance(found, Dict) else Dict()


def _attributes(context: Context, skeleton: Call) -> Iterator[tuple[object, object]]:
    """Yield the attributes that a class is created with, then those that are set later."""
    yield from _namespace(skeleton)
    for setter in context.state_setters(skeleton):
        args: Any = setter.args
        state = args[1] if len(args) > 1 else None
        state = state[0] if type(state) is tuple and state else state
        yield from state if isinstance(state, Dict) else ()


# -- classes ------------------------------------------------------------------------------------------


def describe_class(context: Context, skeleton: Call) -> None:
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
    if any(key == "_abc_impl" and value not in ((), []) for key, value in _attributes(context, skeleton)):
        ran.add(lineage.hooks, ("__subclasshook__",))
    text = ran.describe()
    kind = "enumeration" if lineage.is_enum else "class"
    message = f"the {kind} {name_of(skeleton)} is pickled by value: loading creates it from code in the file"
    ran.mark(context)
    context.add_issue(skeleton, "class", f"{message}, and {text}" if text else message)
    for waiting in context.waiting.pop(id(skeleton), []):
        _describe_object(context, waiting, lineage)


def _lineage(context: Context, skeleton: Call) -> Lineage:
    name = name_of(skeleton)[1:-1]
    hooks: dict[str, Hook] = {}
    for key, value in _attributes(context, skeleton):
        if key in _WATCHED or (_is_descriptor(value) and isinstance(key, str) and len(hooks) < _MOST_HOOKS):
            hooks[key] = Hook(name, value if _may_run_code(value) else None)
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


def _bases(context: Context, skeleton: Call) -> Iterator[Lineage]:
    args: Any = skeleton.args
    bases = args[0 if find_role(skeleton) == "carried_enum" else 2]
    for base in bases[:_MOST_BASES] if type(bases) is tuple else ():
        found = _known_lineage(context, base)
        if found is not None:
            yield found


def _known_lineage(context: Context, node: object) -> Lineage | None:
    skeleton = find_skeleton(node)
    return context.lineages.get(id(skeleton)) if skeleton is not None else None


def _lineage_of_object(context: Context, node: object) -> Lineage | None:
    return _known_lineage(context, node.func) if isinstance(node, Call) else None


def _may_run_code(value: object) -> bool:
    """Return whether an attribute may run code of the file: not a plain value, a name, or a method of a library."""
    return isinstance(value, Call) and find_role(value) != "attribute"


def _is_descriptor(value: object) -> bool:
    """Return whether an attribute of a class may run code when an attribute of an object is set."""
    return isinstance(value, Call) and (find_role(value) == "descriptor" or find_skeleton(value.func) is not None)


def _functions(context: Context, node: object) -> Iterator[object]:
    """Yield the calls that create the functions of a method or property."""
    args: Any = node.args if isinstance(node, Call) and find_role(node) == "descriptor" else (node,)
    for part in args[:3]:
        yield part
        yield from context.fillers.get(id(part), ())[:1]


# -- objects ------------------------------------------------------------------------------------------


def describe_object(context: Context, node: Call, skeleton: Call) -> None:
    """Add an issue for an object of a class pickled by value, now or when its class is complete."""
    lineage = context.lineages.get(id(skeleton))
    if lineage is None:
        context.waiting.setdefault(id(skeleton), []).append(node)
    else:
        _describe_object(context, node, lineage)


def describe_item(context: Context, node: Call, skeleton: Call) -> None:
    """Add an issue for a parametrized class pickled by value: ``operator.getitem(Class, parameters)``."""
    lineage = context.lineages.get(id(skeleton))
    ran = _Ran()
    if lineage is not None:
        ran.add(lineage.hooks, ("__class_getitem__",))
        ran.add(lineage.meta, (), ("__getitem__",))
        ran.mark(context)
    text = ran.describe()
    message = f"parameters are given to the class {name_of(skeleton)}, which is pickled by value"
    context.add_issue(node, "class", f"{message}: loading {text}" if text else message)


def _describe_object(context: Context, node: Call, lineage: Lineage) -> None:
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
    ran.mark(context)
    text = ran.describe()
    message = f"an object of the class '{lineage.name}', which is pickled by value, is created: "
    context.add_issue(
        node, "class", f"{message}loading {text}" if text else f"{message}its methods run when it is used"
    )


def _add_build(context: Context, ran: _Ran, lineage: Lineage, state: object) -> None:
    """Add what BUILD runs: ``__setstate__``, or what setting attributes runs.

    Of a state ``(attributes, slots)`` the slots are set by ``setattr``, the attributes put into ``__dict__``.
    """
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
