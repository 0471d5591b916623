"""The base class of decoded values: a frozen record of the fields that a subclass annotates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: bool) -> Callable[[type], type]:
        """Return a decorator that changes nothing: only type checkers use the real one."""
        return lambda cls: cls


@dataclass_transform(frozen_default=True)
class Value:
    """A frozen record of the fields that its class annotates; iterates over them, equal when type and fields are.

    Not a NamedTuple: creating three dozen such classes takes as long as reading an archive.
    """

    _fields: tuple[str, ...] = ()

    def __init_subclass__(cls) -> None:
        cls._fields = tuple(cls.__annotations__)

    def __init__(self, *values: object, **named: object) -> None:
        kind = type(self)
        given = {**dict(zip(self._fields, values)), **named}
        own = {name: given[name] if name in given else vars(kind).get(name, _ABSENT) for name in self._fields}
        if (
            len(values) + len(named) != len(given)
            or len(given.keys() - own.keys())
            or any(value is _ABSENT for value in own.values())
        ):
            message = f"expected the fields {', '.join(self._fields)} of {kind.__name__}, got {', '.join(given)}"
            raise TypeError(message)
        self.__dict__.update(own)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        message = f"{type(self).__name__} is frozen"
        raise AttributeError(message)

    def __delattr__(self, name: str) -> NoReturn:
        self.__setattr__(name, None)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.__dict__.values())

    def shown_fields(self) -> Iterable[tuple[str, Any]]:
        """Return the fields that a report shows, with their names."""
        return zip(self._fields, self)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and _equal(self, other)

    def __hash__(self) -> int:
        plain = (value for value in self if value is None or isinstance(value, (bool, int, float, str)))
        return hash((type(self), *plain))

    def __repr__(self) -> str:
        return _render(self, 0)


def _equal(one: object, other: object) -> bool:
    """Return whether two values are equal; each pair of shared parts is compared once."""
    todo = [(one, other)]
    compared: set[tuple[int, int]] = set()
    while todo:
        left, right = todo.pop()
        if left is right or (id(left), id(right)) in compared:
            continue
        if type(left) is not type(right):
            return False
        compared.add((id(left), id(right)))
        if isinstance(left, Value):
            todo.extend(zip(left, right))  # type: ignore[call-overload]
        elif isinstance(left, dict):
            if list(left) != list(right):  # type: ignore[call-overload]
                return False
            todo.extend(zip(left.values(), right.values()))  # type: ignore[attr-defined]
        elif isinstance(left, (list, tuple)):
            if len(left) != len(right):  # type: ignore[arg-type]
                return False
            todo.extend(zip(left, right))  # type: ignore[call-overload]
        elif left != right:
            return False
    return True


_ABSENT: Final = object()
_MOST_LEVELS: Final = 3
_MOST_ITEMS: Final = 100


def _render(value: object, depth: int) -> str:
    """Return a value for a repr: a few levels of it, whatever a file contains."""
    if isinstance(value, Value):
        if depth > _MOST_LEVELS:
            return f"{type(value).__name__}(...)"
        parts = [f"{name}={_render(part, depth + 1)}" for name, part in vars(value).items()]
        return f"{type(value).__name__}({', '.join(parts)})"
    if (
        value is None
        or isinstance(value, (bool, float))
        or (isinstance(value, int) and value.bit_length() <= _MOST_ITEMS)
    ):
        return repr(value)
    if isinstance(value, str):
        return repr(value[:_MOST_ITEMS])
    if isinstance(value, tuple) and len(value) <= _MOST_ITEMS and all(type(part) is int for part in value):
        return f"({', '.join(_render(part, depth) for part in value)}{',' if len(value) == 1 else ''})"
    return f"<{type(value).__name__}>"


class Reference(Value):
    """A known class, function or dtype by its name; it is never imported."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"

    @property
    def pair(self) -> tuple[str, str]:
        """Module and name, as in the tables of :mod:`sbformat.known`."""
        return self.module, self.name


class Contradiction(Value):
    """A variable to which two functions of a file give different values, though they share it."""


class Cycle(Value):
    """The place where a value contains itself."""
