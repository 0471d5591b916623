"""Python's own values (VALUES.md 13.6), and names in pickles with a function or class pickled by value (13.5).

Containers, dates, paths, partials, and what copyreg and ``getattr`` make. cloudpickle stores a class of ``__main__`` by
its parts, and those of a dataclass, an enumeration or a named tuple come from the standard library; their decoders are
in ``by_value``. Sources: ``collections``, ``dataclasses``, ``enum``, ``typing`` and ``types`` of CPython 3.6 to 3.14,
cloudpickle ``cloudpickle.py`` and ``cloudpickle_fast.py`` of 0.8 to 3.1.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any, Final

from sbformat.known import rows, types
from sbformat.known.rows import describe_node, find, known, known_in_pth, later, plain_arguments, reject
from sbformat.known.schedules import decode_interpolation
from sbformat.known.torch import decode_tensor
from sbformat.known.types import DefaultDict, Described, InterpolatedSchedule, Partial, Reference
from sbformat.pkl.numpy import latin1_bytes
from sbformat.pkl.tree import Call, Dict, Global

if TYPE_CHECKING:
    import datetime as dt
    import pathlib

    from sbformat.known.context import NodeContext


BUILTIN_TYPES: Final = frozenset({
    "AsyncGeneratorType", "BuiltinFunctionType", "BuiltinMethodType", "CapsuleType", "CellType",
    "ClassMethodDescriptorType", "CodeType", "CoroutineType", "DynamicClassAttribute", "EllipsisType", "FrameType",
    "FunctionType", "GeneratorType", "GenericAlias", "GetSetDescriptorType", "LambdaType", "MappingProxyType",
    "MemberDescriptorType", "MethodDescriptorType", "MethodType", "MethodWrapperType", "ModuleType", "NoneType",
    "NotImplementedType", "SimpleNamespace", "TracebackType", "UnionType", "WrapperDescriptorType",
})  # fmt: skip
"""The classes in ``types``, without its functions. ``_builtin_type`` looks a name up there."""

_CLOUDPICKLE: Final = ("cloudpickle.cloudpickle", "cloudpickle.cloudpickle_fast", "cloudpickle")
_ENUMS: Final = "Enum IntEnum", "Flag IntFlag ReprEnum StrEnum"
_ENUM_METHODS: Final = ("__new__", "__repr__", "__str__", "__format__", "__reduce_ex__")
METHODS: Final = (*_ENUM_METHODS, "__eq__", "__hash__", "__init__", "__reduce__")
"""Methods that ``getattr`` may look up in a class of Python, below protocol 4: a class pickled by value has them
unchanged."""
_FIELD: Final = (
    "name", "type", "default", "default_factory", "repr", "hash", "init", "compare", "metadata", "kw_only", "doc",
    "_field_type",
)  # fmt: skip
_PARAMETERS: Final = (
    "init", "repr", "eq", "order", "unsafe_hash", "frozen", "match_args", "kw_only", "slots", "weakref_slot",
)  # fmt: skip
_PLAIN_CALL: Final = later("decode_plain_call")
_SLOTS: Final = later("decode_slot_object")

_CARRIES: Final = "reaches, carries"


def _of_cloudpickle(name: str, uses: str, role: str, decoder: str = "") -> list[rows.Known]:
    return known(_CLOUDPICKLE, name, uses, role=role, call=later(decoder) if decoder else None)


BY_VALUE_ROWS: Final = [
    # cloudpickle
    *_of_cloudpickle("_builtin_type", "reaches, by value", "builtin_type", "decode_builtin_type"),
    *_of_cloudpickle("_make_function", f"{_CARRIES}, by value", "function", "decode_function"),
    *_of_cloudpickle("_make_skel_func", f"{_CARRIES}, by value", "skeleton_function", "decode_skeleton_function"),
    *_of_cloudpickle("_fill_function", _CARRIES, "filled_function", "decode_filled_function"),
    *_of_cloudpickle("_function_setstate", _CARRIES, "function_state"),
    *_of_cloudpickle("_make_cell", "carries", "cell", "decode_cell"),
    *_of_cloudpickle("_make_empty_cell", "carries", "empty_cell", "decode_cell"),
    *known((_CLOUDPICKLE[0], "cloudpickle"), "_empty_cell_value", role="empty_cell_value"),
    *_of_cloudpickle("_make_skeleton_class", f"{_CARRIES}, by value", "carried_class", "decode_class"),
    *_of_cloudpickle("_make_skeleton_enum", f"{_CARRIES}, by value", "carried_enum", "decode_enum_class"),
    *_of_cloudpickle("_rehydrate_skeleton_class", _CARRIES, "filled_class", "decode_filled_class"),
    *_of_cloudpickle("_class_setstate", _CARRIES, "class_state"),
    *_of_cloudpickle("_make_typevar", "carries", "type_variable", "decode_type_variable"),
    *_of_cloudpickle("_gen_ellipsis", "", "ellipsis", "decode_ellipsis"),
    *_of_cloudpickle("_get_dataclass_field_type_sentinel", "", "field_kind", "decode_plain_call"),
    *_of_cloudpickle("subimport", "reaches", "module", "decode_module"),
    # calls of Python's library
    *known("builtins", "classmethod property staticmethod", "carries", role="descriptor",
           call=later("decode_descriptor")),
    *known("builtins", "type", "value, generic, metaclass, beside code, reaches", role="type_of",
           call=later("decode_type_of")),
    *known("_operator", "getitem", "reaches, carries", role="generic_alias", call=later("decode_generic_alias")),
    *known(("_functools", "functools"), "reduce", "reaches", role="union",  # X | Y, CPython 3.10 to 3.13
           call=later("decode_union")),
    *known(("_collections", "collections"), "_tuplegetter", "reaches", role="tuple_getter", call=_PLAIN_CALL),
    *known(("operator", "_operator"), "itemgetter", "reaches", role="tuple_getter", call=_PLAIN_CALL),  # before 3.8
    *known(("operator", "_operator"), "attrgetter methodcaller", "getter"),
    *known(("_weakrefset", "weakref"), "WeakSet", "reaches", role="weak_set",  # of an abstract class, before 3.7
           call=_PLAIN_CALL),
    # parts of a dataclass, which consist of their slots alone
    *known("dataclasses", "Field", "slots", new=_SLOTS, attributes=_FIELD),
    *known("dataclasses", "_DataclassParams", "slots", new=_SLOTS, attributes=_PARAMETERS),
    *known("dataclasses", "_FIELD_BASE", "slots", new=_SLOTS, attributes=("name",)),
    *known("dataclasses", "_HAS_DEFAULT_FACTORY_CLASS _MISSING_TYPE", "slots", new=_SLOTS, attributes=()),
    # names that nothing in such a pickle calls
    *known("abc", "ABC", "beside code"),
    *known("abc", "ABCMeta", "beside code, metaclass"),
    *known("enum", "EnumMeta EnumType", "beside code, metaclass"),
    *known("enum", _ENUMS[0], "value, beside code", looked_up=METHODS),
    *known("enum", _ENUMS[1], "beside code", looked_up=METHODS),
    *known("enum", " ".join(f"{enum}.{method}" for enum in " ".join(_ENUMS).split() for method in _ENUM_METHODS),
           "beside code"),
    *known("builtins", "Exception", "beside code", looked_up=METHODS),
    *known("builtins", "ArithmeticError AssertionError AttributeError BaseException IndexError KeyError LookupError "
           "NotImplementedError OSError OverflowError RuntimeError StopIteration TypeError ValueError Warning "
           "UserWarning ZeroDivisionError len map zip", "beside code"),
    *known("collections", "ChainMap UserDict UserList UserString", "beside code"),
    *known("dataclasses", "FrozenInstanceError InitVar _dataclass_getstate _dataclass_setstate _replace",
           "beside code"),
    *known("_thread", "get_ident", "beside code"),
    *known("typing", "GenericMeta NamedTupleMeta _ProtocolMeta", "beside code, metaclass"),
    *known("typing", "Any Callable ClassVar Collection Dict Generic List Mapping NamedTuple Optional Protocol Sequence "
           "Tuple Type Union", "beside code, generic"),
    *known("typing", "SupportsFloat TypedDict", "beside code"),
    *known("typing", "DefaultDict Deque FrozenSet Generator Iterable Iterator Literal OrderedDict Set TypeVar",
           "generic"),
    *known("typing", "ForwardRef", "beside code", new=later("decode_forward_reference")),
    *known("collections.abc", "Callable Iterable Iterator Mapping MutableMapping Sequence Set", "beside code, generic"),
    *known("collections.abc", "Collection Hashable MutableSequence Sized", "beside code"),
    *known("collections.abc", "Generator", "generic"),
]  # fmt: skip


_METADATA: Final = "_metadata"
_LONGEST_PATH: Final = 32_767


# -- containers ---------------------------------------------------------------------------------------


def decode_ordered_dict(context: NodeContext, node: Call) -> object:
    """Decode an OrderedDict, with the ``_metadata`` of torch's state dicts."""
    args: Any = node.args
    pairs: list[tuple[object, object]] = []
    if args:
        items = args[0] if len(args) == 1 else None
        if type(items) is not list or any(type(item) not in (list, tuple) or len(item) != 2 for item in items):
            reject("expected pairs in an OrderedDict")
        pairs = [(item[0], item[1]) for item in items]
    for update in node.updates or ():
        state: Any = update.value
        if update.how == "SETITEMS":
            pairs.extend(state)
        elif update.how != "BUILD" or type(state) is not Dict or [key for key, _ in state] != [_METADATA]:
            reject("an OrderedDict has attributes")
    made = context.make_dict(pairs)
    return made if isinstance(made, Dict) else OrderedDict(made)


def decode_deque(context: NodeContext, node: Call) -> deque[object]:
    """Decode ``deque((), maxlen)`` and its items."""
    args = context.arguments(node)
    if len(args) > 2 or any(update.how != "APPENDS" for update in node.updates or ()):
        reject("a deque has unknown arguments or a state")
    items = args[0] if args else ()
    maxlen = args[1] if len(args) == 2 else None
    is_length = maxlen is None or (type(maxlen) is int and 0 <= maxlen < 2**31)
    if type(items) not in (tuple, list) or not is_length:
        reject("expected a list and a maximum length as the arguments of a deque")
    made = deque(items, maxlen)
    for update in node.updates or ():
        made.extend(context.value(item) for item in update.value)  # type: ignore[attr-defined]
    return made


def decode_default_dict(context: NodeContext, node: Call) -> DefaultDict:
    """Decode a defaultdict whose factory is a built-in type or None."""
    args: Any = node.args
    factory = context.value(args[0]) if len(args) == 1 else None
    if len(args) > 1 or any(update.how != "SETITEMS" for update in node.updates or ()):
        reject("a defaultdict has unknown arguments or a state")
    if factory is not None and not (isinstance(factory, Reference) and factory.module == "builtins"):
        reject("expected a built-in type as the factory of a defaultdict")
    pairs: list[Any] = [pair for update in node.updates or () for pair in update.value]  # type: ignore[attr-defined]
    return DefaultDict(factory, context.make_dict(pairs))  # type: ignore[arg-type]


def decode_set(context: NodeContext, node: Call) -> object:
    """Decode ``set([...])`` and ``frozenset([...])``, which protocols below 4 write."""
    args = plain_arguments(context, node, "a set")
    if len(args) > 1 or (args and type(args[0]) not in (list, tuple)):
        reject("expected a list as the argument of a set")
    return context.make_set(list(args[0]) if args else [], is_frozen=describe_node(node).endswith("frozenset"))


def decode_range(context: NodeContext, node: Call) -> Described:
    """Decode ``range`` and ``slice``."""
    args = plain_arguments(context, node, "a range")
    name = describe_node(node)
    allowed = (int, type(None)) if name.endswith("slice") else (int,)
    if not 1 <= len(args) <= 3 or any(type(arg) not in allowed for arg in args) or args[2:] == (0,):
        reject("expected integers in a range, and a step other than 0")
    return Described(name, args)


def decode_read_only(context: NodeContext, node: Call) -> object:
    """Decode ``FrozenDict`` of flax, and ``ReadOnlyDict`` and ``ReadOnlyList`` of sacred: a plain dict or list."""
    args = plain_arguments(context, node, "a read-only container")
    expected = list if describe_node(node).endswith("List") else dict
    if len(args) != 1 or type(args[0]) is not expected:
        reject(f"expected a {expected.__name__} as the argument of a read-only container")
    return args[0]


def decode_reconstructed(context: NodeContext, node: Call) -> object:
    """Decode ``copyreg._reconstructor(class, object, None)``, which protocols 0 and 1 write instead of NEWOBJ."""
    args: Any = node.args
    cls = args[0] if len(args) == 3 else None
    stand_in = Call("NEWOBJ", cls, ())
    stand_in.updates = node.updates
    row = find(cls.pair if isinstance(cls, Global) and not cls.updates else ("", ""))
    if row.new is None or not row.extends_object or args[2] is not None:
        reject("copyreg constructs an object of an unknown class")
    if not isinstance(args[1], Global) or args[1].pair != ("builtins", "object"):
        reject("copyreg constructs an object from another base than object")
    made = row.new(context, stand_in)
    context.accept(cls, args[1])
    return made


def decode_partial(context: NodeContext, node: Call) -> Partial | InterpolatedSchedule:
    """Decode ``functools.partial`` of a layer, an optimizer, a function pickled by value, or ``numpy.interp``."""
    args: Any = node.args
    state = context.read_state(node)
    if len(args) != 1 or type(state) is not tuple or len(state) != 4:
        reject("a partial has unknown arguments or an unknown state")
    function, given, keywords, attributes = state
    if isinstance(function, Global) and "interpolates" in find(function.pair).uses:
        return decode_interpolation(context, node, state)
    kinds = (Reference, types.Function, types.CarriedClass, types.CarriedObject)  # a Reference is checked below
    is_callable = isinstance(function, kinds) or (isinstance(function, Described) and function.kind == "method")
    if not is_callable or type(given) is not tuple or type(keywords) not in (dict, type(None)):
        reject("a partial calls something unknown")
    if any(type(key) is not str for key in keywords or ()):
        reject("a partial calls something unknown")
    if isinstance(function, Reference) and "layer" not in find(function.pair).uses:
        reject("expected a layer or optimizer in a partial")
    first = context.value(args[0])
    is_same = first == function if isinstance(function, Reference) else first is function
    if attributes not in (None, {}) or not is_same:
        reject("a partial has attributes, or two functions")
    return Partial(function, given, keywords or {})


def decode_getattr(context: NodeContext, node: Call) -> object:
    """Decode ``getattr(class, name)``, which protocol 2 writes for a name in a class.

    ``policy.save`` writes a policy's ``_dummy_schedule`` so. For the constructor of gym's random generators, which is
    written so too, the decoder of the call of that constructor accepts the node.
    """
    args: Any = node.args
    cls = args[0] if len(args) == 2 else None
    if node.updates or not isinstance(cls, Global) or cls.updates or type(args[1]) is not str:
        reject("expected a class and a name as the arguments of getattr")
    row, made = find(cls.pair), Described("getattr", (Reference(*cls.pair), args[1]))
    if row.is_reference and args[1] == "_dummy_schedule":
        context.accept(cls)
    elif args[1] in row.looked_up:
        context.accept_if_by_value(node)
        context.accept(cls)
    elif find((cls.module, f"{cls.name}.{args[1]}")).role:
        return rows.Unaccepted(made)
    else:
        reject("getattr is called for something other than a policy's _dummy_schedule or a method of a type")
    return made


# -- dates and paths ----------------------------------------------------------------------------------


def decode_date(context: NodeContext, node: Call) -> dt.date | dt.datetime | dt.time:
    """Decode a date, a time or both from their bytes, with a time zone or without."""
    import datetime as dt

    name = describe_node(node).rpartition(".")[2]
    args = plain_arguments(context, node, "a date")
    raw = args[0] if args else None
    kind, size = {"datetime": (dt.datetime, 10), "date": (dt.date, 4), "time": (dt.time, 6)}[name]
    if type(raw) is str:  # bytes of Python 2
        raw = latin1_bytes(raw, "latin1")
    if type(raw) is not bytes or len(raw) != size or len(args) > 1 + (name != "date"):
        reject(f"expected {size} bytes as the argument of a {name}")
    zone = args[1] if len(args) == 2 else None
    if zone is not None and not isinstance(zone, dt.timezone):
        reject("expected datetime.timezone as the time zone of a date")
    try:
        return _from_bytes(kind, name, raw, zone)  # type: ignore[no-any-return]
    except ValueError:
        reject(f"the bytes of a {name} are out of range")


def _from_bytes(kind: Any, name: str, raw: bytes, zone: object) -> Any:
    """Unpack bytes as CPython's ``datetime.__setstate__``; the high bit of month or hour is the fold."""
    parts: list[int] = []
    if name != "time":
        parts += [raw[0] << 8 | raw[1], raw[2] & (0x7F if name == "datetime" else 0xFF), raw[3]]
    if name == "date":
        return kind(*parts)
    clock = raw[-6:]
    fold = (raw[2] if name == "datetime" else clock[0]) >> 7
    parts += [clock[0] & 0x7F if name == "time" else clock[0], clock[1], clock[2], int.from_bytes(clock[3:], "big")]
    return kind(*parts, tzinfo=zone, fold=fold)


def decode_timedelta(context: NodeContext, node: Call) -> dt.timedelta:
    """Decode ``timedelta(days, seconds, microseconds)``."""
    import datetime as dt

    args = plain_arguments(context, node, "a timedelta")
    if not 1 <= len(args) <= 3 or any(type(arg) is not int for arg in args):
        reject("expected integers in a timedelta")
    try:
        return dt.timedelta(*args)
    except (OverflowError, ValueError):
        reject("a timedelta is out of range")


def decode_timezone(context: NodeContext, node: Call) -> dt.timezone:
    """Decode ``timezone(timedelta)``, with a name or without."""
    import datetime as dt

    args = plain_arguments(context, node, "a time zone")
    if not 1 <= len(args) <= 2 or type(args[0]) is not dt.timedelta or any(type(arg) is not str for arg in args[1:]):
        reject("expected a timedelta and a name as the arguments of a time zone")
    try:
        return dt.timezone(*args)
    except ValueError:
        reject("a time zone is out of range")


def decode_path(context: NodeContext, node: Call) -> pathlib.PurePath:
    """Decode a path; it stays text and is not looked up."""
    import pathlib

    args = plain_arguments(context, node, "a path")
    if any(type(arg) is not str for arg in args) or sum(map(len, args)) > _LONGEST_PATH:
        reject("expected text as the arguments of a path, of at most 32,767 characters")
    kind = pathlib.PureWindowsPath if "Windows" in describe_node(node) else pathlib.PurePosixPath
    return kind(*args)


# -- rows ----------------------------------------------------------------------------------------------

_PATHLIB: Final = ("pathlib", "pathlib._local")

ROWS: Final = [
    *known("builtins", "Ellipsis NotImplemented", "value"),
    *known("builtins", "object", "value, plain base", looked_up=METHODS),
    *known("builtins", "bool float int str", "value, plain type, plain base", looked_up=METHODS),
    *known("builtins", "dict list tuple", "value, plain type, plain base, generic", looked_up=METHODS),
    *known_in_pth(
        "set", "value, plain type, plain base, holds, unhashable, generic, built", call=decode_set, looked_up=METHODS
    ),
    *known_in_pth(
        "frozenset", "value, plain type, plain base, holds, generic, built", call=decode_set, looked_up=METHODS
    ),
    *known_in_pth("complex", "value, plain type, plain base, built", call=decode_tensor, looked_up=METHODS),
    *known_in_pth("bytes", "value, plain type, plain base", call=decode_tensor, looked_up=METHODS),
    *known_in_pth("bytearray", "value, plain base, built", call=decode_tensor),
    *known_in_pth("encode", call=decode_tensor),
    *known_in_pth("ordered_dict", "value, holds, unhashable, built", call=decode_ordered_dict),
    *known("builtins", "range", "value", role="range", call=decode_range),
    *known("builtins", "slice", "value, unhashable", role="slice", call=decode_range),
    *known("collections", "Counter", "value"),
    *known("collections", "deque", "value, holds, unhashable, built", role="deque", call=decode_deque),
    *known("collections", "defaultdict", "value, unhashable, built", role="default_dict", call=decode_default_dict),
    *known("sacred.config.custom_containers", "ReadOnlyDict ReadOnlyList", role="read_only", call=decode_read_only),
    *known("datetime", "datetime", "value", role="datetime", call=decode_date),
    *known("datetime", "date", "value", role="date", call=decode_date),
    *known("datetime", "time", "value", role="time", call=decode_date),
    *known("datetime", "timedelta", "value", role="timedelta", call=decode_timedelta),
    *known("datetime", "timezone", "value", role="timezone", call=decode_timezone),
    *known(_PATHLIB, "PosixPath PurePosixPath", role="posix_path", call=decode_path),
    *known(_PATHLIB, "PureWindowsPath WindowsPath", role="windows_path", call=decode_path),
    *known("functools", "partial", "reaches", role="partial", call=decode_partial),
    *known("copyreg", "_reconstructor", "reaches", role="reconstructor", call=decode_reconstructed),
    *known("builtins", "getattr", "reaches", role="attribute", call=decode_getattr),
    # cloudpickle writes numpy's functions so while dill is imported: NodeContext replaces those calls
    *known("dill._dill", "_get_attr", "reaches", role="dill_attribute",
           call=rows.reject_with("dill looks up a name that is not one of numpy, or that is not called")),
]  # fmt: skip
