"""Names in pickles with a function or class pickled by value: cloudpickle's own, and Python's (VALUES.md 13.5).

cloudpickle stores a class of ``__main__`` by its parts, and those of a dataclass, an enumeration or a named tuple come
from the standard library. Sources: ``collections``, ``dataclasses``, ``enum``, ``typing`` and ``types`` of CPython 3.6
to 3.13, cloudpickle ``cloudpickle.py`` and ``cloudpickle_fast.py`` of 0.8 to 3.1. The decoders are in ``functions``,
``classes`` and ``python_objects``.
"""

from __future__ import annotations

from typing import Final

from sbformat.known.rows import known, later

BUILTIN_TYPES: Final = frozenset(
    {
        "AsyncGeneratorType", "BuiltinFunctionType", "BuiltinMethodType", "CapsuleType", "CellType",
        "ClassMethodDescriptorType", "CodeType", "CoroutineType", "DynamicClassAttribute", "EllipsisType", "FrameType",
        "FunctionType", "GeneratorType", "GenericAlias", "GetSetDescriptorType", "LambdaType", "MappingProxyType",
        "MemberDescriptorType", "MethodDescriptorType", "MethodType", "MethodWrapperType", "ModuleType", "NoneType",
        "NotImplementedType", "SimpleNamespace", "TracebackType", "UnionType", "WrapperDescriptorType",
    }
)  # fmt: skip
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
_PLAIN_CALL: Final = later("python_objects", "decode_plain_call")
_SLOTS: Final = later("classes", "decode_slot_object")

ROWS: Final = [
    # cloudpickle
    *known(_CLOUDPICKLE, "_builtin_type", "reaches, by value", role="builtin_type",
           call=later("python_objects", "decode_builtin_type")),
    *known(_CLOUDPICKLE, "_make_function", "reaches, by value, carries",
           role="function", call=later("functions", "decode_function")),
    *known(_CLOUDPICKLE, "_make_skel_func", "reaches, by value, carries", role="skeleton_function",
           call=later("functions", "decode_skeleton_function")),
    *known(_CLOUDPICKLE, "_fill_function", "reaches, carries", role="filled_function",
           call=later("functions", "decode_filled_function")),
    *known(_CLOUDPICKLE, "_function_setstate", "reaches, carries", role="function_state"),
    *known(_CLOUDPICKLE, "_make_cell", "carries", role="cell", call=later("functions", "decode_cell")),
    *known(_CLOUDPICKLE, "_make_empty_cell", "carries", role="empty_cell", call=later("functions", "decode_cell")),
    *known((_CLOUDPICKLE[0], "cloudpickle"), "_empty_cell_value", role="empty_cell_value"),
    *known(_CLOUDPICKLE, "_make_skeleton_class", "reaches, by value, carries", role="carried_class",
           call=later("classes", "decode_class")),
    *known(_CLOUDPICKLE, "_make_skeleton_enum", "reaches, by value, carries", role="carried_enum",
           call=later("classes", "decode_enum_class")),
    *known(_CLOUDPICKLE, "_rehydrate_skeleton_class", "reaches, carries", role="filled_class",
           call=later("classes", "decode_filled_class")),
    *known(_CLOUDPICKLE, "_class_setstate", "reaches, carries", role="class_state"),
    *known(_CLOUDPICKLE, "_make_typevar", "carries",
           role="type_variable", call=later("python_objects", "decode_type_variable")),
    *known(_CLOUDPICKLE, "_gen_ellipsis", role="ellipsis", call=later("python_objects", "decode_ellipsis")),
    *known(_CLOUDPICKLE, "_get_dataclass_field_type_sentinel", role="field_kind", call=_PLAIN_CALL),
    *known(_CLOUDPICKLE, "subimport", "reaches", role="module", call=later("functions", "decode_module")),
    # calls of Python's library
    *known("builtins", "classmethod property staticmethod", "carries", role="descriptor",
           call=later("python_objects", "decode_descriptor")),
    *known("builtins", "type", "value, generic, metaclass, beside code, reaches", role="type_of",
           call=later("python_objects", "decode_type_of")),
    *known("_operator", "getitem", "reaches, carries", role="generic_alias",
           call=later("python_objects", "decode_generic_alias")),
    *known(("_functools", "functools"), "reduce", "reaches", role="union",  # X | Y, since CPython 3.10
           call=later("python_objects", "decode_union")),
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
    *known(
        "builtins",
        "ArithmeticError AssertionError AttributeError BaseException IndexError KeyError LookupError "
        "NotImplementedError OSError OverflowError RuntimeError StopIteration TypeError ValueError Warning UserWarning "
        "ZeroDivisionError len map zip",
        "beside code",
    ),
    *known("collections", "ChainMap UserDict UserList UserString", "beside code"),
    *known("dataclasses", "FrozenInstanceError InitVar _dataclass_getstate _dataclass_setstate _replace",
           "beside code"),
    *known("_thread", "get_ident", "beside code"),
    *known("typing", "GenericMeta NamedTupleMeta _ProtocolMeta", "beside code, metaclass"),
    *known(
        "typing",
        "Any Callable ClassVar Collection Dict Generic List Mapping NamedTuple Optional Protocol Sequence Tuple Type "
        "Union",
        "beside code, generic",
    ),
    *known("typing", "SupportsFloat TypedDict", "beside code"),
    *known("typing", "DefaultDict Deque FrozenSet Generator Iterable Iterator Literal OrderedDict Set TypeVar",
           "generic"),
    *known("typing", "ForwardRef", "beside code", new=later("python_objects", "decode_forward_reference")),
    *known("collections.abc", "Callable Iterable Iterator Mapping MutableMapping Sequence Set",
           "beside code, generic"),
    *known("collections.abc", "Collection Hashable MutableSequence Sized", "beside code"),
    *known("collections.abc", "Generator", "generic"),
]  # fmt: skip
