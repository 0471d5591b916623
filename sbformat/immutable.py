"""Dicts and lists that cannot be changed: what ``Archive.data`` is made of.

They are subclasses of ``dict`` and ``list``, so that ``json.dumps``, comparison, ``isinstance`` and pickling work as
with those. ``copy.deepcopy`` and :func:`thaw` give plain, mutable ones.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

_MUTABLE: Final = (dict, list)


def _refuse_change(self: object, *_: object, **__: object) -> NoReturn:
    message = (
        f"{type(self).__name__} cannot be changed: an archive is a value; make another one with "
        "archive.replace(data={**archive.data, 'gamma': 0.98})"
    )
    raise TypeError(message)


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
        return FrozenDict({key: freeze(item) if type(item) in _MUTABLE else item for key, item in value.items()})
    if type(value) is list:
        return FrozenList([freeze(item) if type(item) in _MUTABLE else item for item in value])
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
