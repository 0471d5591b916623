"""A mapping whose values are decoded at their lookup."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from sbformat.errors import MissingEntryError

T = TypeVar("T")


class Lazy(Mapping[str, T]):
    """A read-only mapping that calls ``decode`` at every lookup.

    :param names: the keys, each with the argument for ``decode``
    :param decode: returns a value
    :param what: the noun for a value in error messages, ``state dict``
    """

    __slots__ = ("_decode", "_names", "_what")

    def __init__(self, names: dict[str, str], decode: Callable[[str], T], what: str) -> None:
        self._names = names
        self._decode = decode
        self._what = what

    def __getitem__(self, key: str) -> T:
        try:
            name = self._names[key]
        except KeyError:
            raise MissingEntryError(key, present=self._names, what=self._what) from None
        return self._decode(name)

    def __contains__(self, key: object) -> bool:
        return key in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<{len(self)} of {', '.join(self)}>"
