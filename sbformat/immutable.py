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

    Frozen parts of plain dicts, lists and tuples are thawed, too: ``{**archive.data["policy_kwargs"]}`` has some.
    """
    if type(value) in (FrozenDict, dict):
        return {key: thaw(item) for key, item in value.items()}
    if type(value) in (FrozenList, list):
        return [thaw(item) for item in value]
    return tuple(map(thaw, value)) if type(value) is tuple else value
