"""Values that cannot be changed: the dicts and lists that ``Archive.data`` is made of, and records.

The dicts and lists are subclasses of ``dict`` and ``list``, so that ``json.dumps``, comparison, ``isinstance`` and
pickling work as with those. ``copy.deepcopy`` and :func:`thaw` give plain, mutable ones.

:class:`Record` is ``typing.NamedTuple``, for readers, for mypy and in use. It is not the same class because
``NamedTuple`` compiles source for each class that it makes, which takes as long as reading a small archive.
"""

from __future__ import annotations

from itertools import islice
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    from typing import NamedTuple as Record
else:
    from collections import _tuplegetter as field_of_tuple  # the C descriptor of namedtuple

    # By number of fields, the function that makes a record of its arguments. NamedTuple compiles one for each class;
    # here all classes with as many fields share its code, in which only the names are replaced.
    make = tuple.__new__
    # fmt: off
    _CONSTRUCTORS = (
        lambda cls, a: make(cls, (a,)),
        lambda cls, a, b: make(cls, (a, b)),
        lambda cls, a, b, c: make(cls, (a, b, c)),
        lambda cls, a, b, c, d: make(cls, (a, b, c, d)),
        lambda cls, a, b, c, d, e: make(cls, (a, b, c, d, e)),
        lambda cls, a, b, c, d, e, f: make(cls, (a, b, c, d, e, f)),
        lambda cls, a, b, c, d, e, f, g: make(cls, (a, b, c, d, e, f, g)),
        lambda cls, a, b, c, d, e, f, g, h: make(cls, (a, b, c, d, e, f, g, h)),
        lambda cls, a, b, c, d, e, f, g, h, i: make(cls, (a, b, c, d, e, f, g, h, i)),
        lambda cls, a, b, c, d, e, f, g, h, i, j: make(cls, (a, b, c, d, e, f, g, h, i, j)),
        lambda cls, a, b, c, d, e, f, g, h, i, j, k: make(cls, (a, b, c, d, e, f, g, h, i, j, k)),
        lambda cls, a, b, c, d, e, f, g, h, i, j, k, m: make(cls, (a, b, c, d, e, f, g, h, i, j, k, m)),
        lambda cls, a, b, c, d, e, f, g, h, i, j, k, m, n: make(cls, (a, b, c, d, e, f, g, h, i, j, k, m, n)),
        lambda cls, a, b, c, d, e, f, g, h, i, j, k, m, n, o: make(cls, (a, b, c, d, e, f, g, h, i, j, k, m, n, o)),
        lambda cls, a, b, c, d, e, f, g, h, i, j, k, m, n, o, p: make(
            cls, (a, b, c, d, e, f, g, h, i, j, k, m, n, o, p)
        ),
        lambda cls, a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q: make(
            cls, (a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q)
        ),
        lambda cls, a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q, r: make(
            cls, (a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q, r)
        ),
    )
    # fmt: on

    class _RecordType(type):
        """Makes fields of the annotations of a class; values in the class are the defaults of its last fields."""

        def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
            namespace.setdefault("__slots__", ())
            made = super().__new__(cls, name, bases, namespace)
            fields = tuple(made.__annotations__)
            if fields:
                made._fields = made.__match_args__ = fields
                made._field_defaults = {field: namespace[field] for field in fields if field in namespace}
                made.__new__ = _make_constructor(fields, made._field_defaults)
                for position, field in enumerate(fields):
                    setattr(made, field, field_of_tuple(position, f"Field {position}."))
            return made

    def _make_constructor(fields: tuple[str, ...], defaults: dict[str, Any]) -> FunctionType:
        """Return ``lambda cls, a, b: tuple.__new__(cls, (a, b))``, with the names of the fields."""
        if len(fields) > len(_CONSTRUCTORS):
            return _make_long_constructor(fields, defaults)
        code = _CONSTRUCTORS[len(fields) - 1].__code__
        code = code.replace(co_varnames=("cls", *fields))
        made = FunctionType(code, {"make": make}, "__new__", tuple(defaults.values()))
        made.__qualname__ = "__new__"  # what Python's message for a wrong argument begins with
        return made

    def _make_long_constructor(fields: tuple[str, ...], defaults: dict[str, Any]) -> FunctionType:
        """Return the same for more fields, slower."""

        def __new__(cls, *given: Any, **named: Any) -> Any:  # noqa: ANN001, N807
            values = {**defaults, **dict(zip(fields, given)), **named}
            if len(values) != len(fields) or values.keys() - fields or len(given) > len(fields):
                raise TypeError(f"{cls.__name__}() has the fields {', '.join(fields)}")
            return make(cls, [values[name] for name in fields])

        return __new__

    class Record(tuple, metaclass=_RecordType):
        """A tuple whose items have names."""

        __slots__ = ()

        _fields = ()

        @classmethod
        def _make(cls, values: Any) -> Any:
            return cls(*values)

        def _replace(self, **changes: Any) -> Any:
            made = self._make([changes.pop(name, value) for name, value in zip(self._fields, self, strict=True)])
            if changes:
                raise ValueError(f"{type(self).__name__} has no {' and no '.join(changes)}")
            return made

        def _asdict(self) -> dict[str, Any]:
            return dict(zip(self._fields, self, strict=True))

        def __getnewargs__(self) -> tuple[Any, ...]:
            return tuple(self)

        def __repr__(self) -> str:
            """Return one line, however large the fields are."""
            parts = (f"{name}={shorten(item)}" for name, item in self._asdict().items())
            return f"{type(self).__name__}({', '.join(parts)})"

        def _repr_html_(self) -> str:
            """Return the fields for notebooks; a class whose values need more has a method of its own."""
            from sbformat.notebook import render_record

            return render_record(self)


__all__ = ["FrozenDict", "FrozenList", "Record", "Rows", "freeze", "shorten", "thaw"]

MUTABLE: Final = frozenset({dict, list})
"""The types of JSON values that can be changed."""


def _refuse_change(self: object, *_: object, **__: object) -> NoReturn:
    raise TypeError(
        f"{type(self).__name__} cannot be changed: an archive is a value; make another one with "
        "archive.replace(data={**archive.data, 'gamma': 0.98})"
    )


class FrozenDict(dict[str, Any]):
    """A dict that cannot be changed."""

    __slots__ = ()

    __setitem__ = __delitem__ = __ior__ = _refuse_change
    clear = pop = popitem = setdefault = update = _refuse_change

    def __new__(cls, items: Any = ()) -> FrozenDict:  # noqa: PYI034 -- Self is not in Python 3.10
        """Fill it here: a second call of ``__init__`` changes nothing."""
        made = dict.__new__(cls)
        dict.update(made, items)
        return made

    def __init__(self, *_: object) -> None:
        pass

    def _repr_html_(self) -> str:
        """Return the items for notebooks."""
        from sbformat.notebook import render_items, render_output

        return render_output("", [render_items(self)])

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenDict, (dict(self),)

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return thaw(self)  # type: ignore[no-any-return]


class FrozenList(list[Any]):
    """A list that cannot be changed."""

    __slots__ = ()

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse_change
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse_change

    def __new__(cls, items: Any = ()) -> FrozenList:  # noqa: PYI034 -- Self is not in Python 3.10
        """Fill it here: a second call of ``__init__`` changes nothing."""
        made = list.__new__(cls)
        list.extend(made, items)
        return made

    def __init__(self, *_: object) -> None:
        pass

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenList, (list(self),)

    def __deepcopy__(self, memo: dict[int, Any]) -> list[Any]:
        return thaw(self)  # type: ignore[no-any-return]


_CONTAINERS: Final = (dict, list, FrozenDict, FrozenList)


def freeze(value: Any) -> Any:
    """Return a JSON value with its dicts and lists frozen, down to the innermost.

    >>> freeze({"net_arch": [64, 64]})["net_arch"].append(64)
    Traceback (most recent call last):
    TypeError: FrozenList cannot be changed: ...
    """
    if type(value) is dict:
        if not MUTABLE.isdisjoint(map(type, value.values())):
            value = {key: freeze(item) if type(item) in MUTABLE else item for key, item in value.items()}
        return FrozenDict(value)
    if type(value) is list:
        return FrozenList([freeze(item) if type(item) in MUTABLE else item for item in value])
    return value


def thaw(value: Any) -> Any:
    """Return a value with its frozen dicts and lists as plain copies, which can be changed: the inverse of freeze.

    Frozen parts of plain dicts and lists are thawed, too: ``{**archive.data["policy_kwargs"]}`` has some. Parts that
    are shared stay shared; a value may contain itself, and be nested to any depth.
    """
    if type(value) not in _CONTAINERS:
        return value
    made: dict[int, Any] = {}
    todo: list[tuple[Any, Any]] = []

    def copy(part: Any) -> Any:
        if type(part) not in _CONTAINERS:
            return part
        if id(part) not in made:
            made[id(part)] = dict(part) if isinstance(part, dict) else list(part)
            todo.append((part, made[id(part)]))
        return made[id(part)]

    root = copy(value)
    while todo:
        old, new = todo.pop()
        for key, part in old.items() if isinstance(old, dict) else enumerate(old):
            new[key] = copy(part)
    return root


class Rows(tuple[Any, ...]):
    """A tuple of records of one class, which a notebook displays as a table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """Return the table for notebooks."""
        from sbformat.notebook import render_output, render_records

        return render_output("", [render_records("", self)])


# -- the repr of fields -------------------------------------------------------------------------------

_LONGEST: Final = 300  # characters of a field
_ITEMS: Final = 8  # of a list or dict that are shown
_LEVELS: Final = 3
_BITS: Final = 256
_BYTES: Final = 16
_BRACKETS: Final[dict[type, str]] = {list: "[]", tuple: "()", set: "{}", frozenset: "{}", FrozenList: "[]"}


def shorten(value: Any, levels: int = _LEVELS) -> str:
    """Return the ``repr`` of a value in at most 300 characters, without making that of all that is in it.

    >>> shorten([1, [2, [3, [4]]], *range(100)])
    '[1, [2, [3, ...]], 0, 1, 2, 3, 4, 5, ... 102 in all]'
    """
    kind = type(value)
    if isinstance(value, str):
        text = repr(value[:_LONGEST])
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 40]}... {len(value):,} in all"
    if isinstance(value, (bytes, bytearray)):
        return repr(value) if len(value) <= _BYTES else f"{value[:_BYTES]!r}... {len(value):,} in all"
    if kind is int and value.bit_length() > _BITS:  # Python does not write integers of many digits
        return f"<an integer of {value.bit_length():,} bits>"
    if kind in _BRACKETS:
        opening, closing = tuple(_BRACKETS[kind])
        parts = [shorten(item, levels - 1) for item in islice(value, _ITEMS if levels else 0)]
    elif isinstance(value, dict):
        opening, closing = "{", "}"
        shown = islice(value.items(), _ITEMS if levels else 0)
        parts = [f"{shorten(key, 0)}: {shorten(item, levels - 1)}" for key, item in shown]
    else:
        text = repr(value)
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
    if len(parts) < len(value):
        parts.append(f"... {len(value):,} in all" if levels else "...")
    text = ", ".join(parts)
    text = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
    return f"{opening}{text}{',' * (kind is tuple and len(value) == 1)}{closing}"
