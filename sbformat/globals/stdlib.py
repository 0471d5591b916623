"""Names of Python's own library that functions, classes and objects pickled by value refer to (VALUES.md 13.5).

cloudpickle stores a class of ``__main__`` by its parts, and those of a dataclass, an enumeration or a named tuple come
from the standard library. Sources: ``collections``, ``dataclasses``, ``enum``, ``typing`` and ``types`` of CPython 3.6
to 3.13, cloudpickle ``cloudpickle.py`` of 0.8 to 3.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.globals.jax import METACLASSES as JAX_METACLASSES
from sbformat.globals.jax import NAMES as JAX_NAMES
from sbformat.globals.jax import RECORDS
from sbformat.globals.jax import SLOTS as JAX_SLOTS

if TYPE_CHECKING:
    from sbformat.globals.torch import Pair

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

_ENUMS: Final = ("Enum", "Flag", "IntEnum", "IntFlag", "ReprEnum", "StrEnum")
_ENUM_METHODS: Final = ("__new__", "__repr__", "__str__", "__format__", "__reduce_ex__")
_EXCEPTIONS: Final = (
    "ArithmeticError", "AssertionError", "AttributeError", "BaseException", "Exception", "IndexError", "KeyError",
    "LookupError", "NotImplementedError", "OSError", "OverflowError", "RuntimeError", "StopIteration", "TypeError",
    "ValueError", "Warning", "UserWarning", "ZeroDivisionError",
)  # fmt: skip

METACLASSES: Final[frozenset[Pair]] = frozenset(
    {
        ("builtins", "type"), ("abc", "ABCMeta"), ("enum", "EnumMeta"), ("enum", "EnumType"), ("typing", "GenericMeta"),
        ("typing", "NamedTupleMeta"), ("typing", "_ProtocolMeta"), *JAX_METACLASSES,
    }
)  # fmt: skip
"""Metaclasses that are known to run only code of the class itself."""

NAMES: Final[frozenset[Pair]] = METACLASSES | JAX_NAMES | frozenset(
    {
        ("abc", "ABC"),
        *(("enum", name) for name in _ENUMS),
        *(("enum", f"{enum}.{method}") for enum in _ENUMS for method in _ENUM_METHODS),
        *(("builtins", name) for name in (*_EXCEPTIONS, "len", "map", "zip")),
        *(("collections", name) for name in ("ChainMap", "UserDict", "UserList", "UserString")),
        *(("dataclasses", name) for name in (
            "FrozenInstanceError", "InitVar", "_dataclass_getstate", "_dataclass_setstate", "_replace",
        )),
        ("_thread", "get_ident"),
        *(("typing", name) for name in (
            "Any", "Callable", "ClassVar", "Dict", "Generic", "List", "Mapping", "NamedTuple", "Optional", "Protocol",
            "Sequence", "SupportsFloat", "Tuple", "Type", "TypedDict", "Union",
        )),
        *(("collections.abc", name) for name in (
            "Callable", "Collection", "Hashable", "Iterable", "Iterator", "Mapping", "MutableMapping",
            "MutableSequence", "Sequence", "Set", "Sized",
        )),
    }
)  # fmt: skip
"""Names that may be values in a pickle that contains a function or class by value: importing them only defines them,
and nothing in that pickle calls them."""

CALLS: Final[dict[Pair, str]] = {
    **dict.fromkeys(RECORDS, "record"),
    ("_collections", "_tuplegetter"): "tuple_getter",
    ("collections", "_tuplegetter"): "tuple_getter",
    ("operator", "itemgetter"): "tuple_getter",  # before CPython 3.8
    ("_operator", "itemgetter"): "tuple_getter",
    ("_weakrefset", "WeakSet"): "weak_set",  # of an abstract class, before CPython 3.7
    ("weakref", "WeakSet"): "weak_set",
    ("_functools", "reduce"): "union",  # X | Y, since CPython 3.10
    ("functools", "reduce"): "union",
    **{
        (module, "_get_dataclass_field_type_sentinel"): "field_kind"
        for module in ("cloudpickle.cloudpickle", "cloudpickle.cloudpickle_fast", "cloudpickle")
    },
}
"""Functions that REDUCE may call there, with their roles."""

_FIELD: Final = (
    "name", "type", "default", "default_factory", "repr", "hash", "init", "compare", "metadata", "kw_only", "doc",
    "_field_type",
)  # fmt: skip

SLOT_OBJECTS: Final[dict[Pair, tuple[str, ...]]] = {
    ("dataclasses", "Field"): _FIELD,
    ("dataclasses", "_DataclassParams"): (
        "init", "repr", "eq", "order", "unsafe_hash", "frozen", "match_args", "kw_only", "slots", "weakref_slot",
    ),
    ("dataclasses", "_FIELD_BASE"): ("name",),
    ("dataclasses", "_HAS_DEFAULT_FACTORY_CLASS"): (),
    ("dataclasses", "_MISSING_TYPE"): (),
}  # fmt: skip
"""Parts of a dataclass that NEWOBJ creates, which consist of their slots alone, with the names of the slots."""

_DATA_TYPES: Final = ("object", "bool", "bytes", "complex", "dict", "float", "frozenset", "int", "list", "set", "str",
                      "tuple", "Exception")  # fmt: skip
_METHODS: Final = (*_ENUM_METHODS, "__eq__", "__hash__", "__init__", "__reduce__")

ATTRIBUTES: Final[frozenset[tuple[Pair, str]]] = JAX_SLOTS | frozenset(
    ((module, name), method)
    for module, names in (("builtins", _DATA_TYPES), ("enum", _ENUMS))
    for name in names
    for method in _METHODS
)
"""Methods that ``getattr`` may look up in a class, below protocol 4: a class pickled by value has them unchanged."""
