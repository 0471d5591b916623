"""Where every choice of a mutation comes from: one seed, the numbers, texts and bytes that break readers."""

from __future__ import annotations

import struct
from random import Random
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import Self

T = TypeVar("T")

NUMBERS: Final = (
    0, 1, 2, 3, 4, 7, 8, 9, 16, 31, 32, 33, 63, 64, 100, 127, 128, 200, 201, 255, 256, 257, 1000, 1024, 4096, 65535,
    65536, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**25,
)  # fmt: skip
_SMALL: Final = (0, 1, 2, -1)
FLOATS: Final = (0.0, -0.0, 0.5, 1.0, -1.0, 3e-4, 1e308, 5e-324, float("inf"), float("-inf"), float("nan"))
ODD_TEXTS: Final = ("", "\0", "\n", "\x1b[31m", "\u202e", "\ud800", "\U0001f600", "\\", "'", "a" * 300, "é", "/")
_MOST_REPEATS: Final = 64


class Chance(Random):
    """A source of changes.

    :param seed: the same seed gives the same changes
    :param change_bytes: changes bytes to at most so many, as ``atheris.Mutate``; a plain one of its own when None
    """

    def __new__(cls, seed: int, change_bytes: Callable[[bytes, int], bytes] | None = None) -> Self:  # noqa: ARG004
        return super().__new__(cls, seed)  # CPython 3.10 takes one argument there

    def __init__(self, seed: int, change_bytes: Callable[[bytes, int], bytes] | None = None) -> None:
        super().__init__(seed)
        self._change_bytes = change_bytes

    def one_in(self, cases: int) -> bool:
        """Say yes in one of so many cases."""
        return self.randrange(cases) == 0

    def place(self, size: int) -> int:
        """A position from 0 up to ``size``, both included."""
        return self.randrange(size + 1)

    def part(self, items: Sequence[T]) -> tuple[int, int]:
        """A run of a sequence, mostly short, as its bounds."""
        start = self.place(len(items))
        return start, min(len(items), start + self.randrange(1, 1 << self.randrange(1, 6)))

    def number(self, near: int = 0) -> int:
        """A number: near the old one, or one that breaks readers."""
        kind = self.randrange(5)
        if kind == 4:
            return self.choice(_SMALL)
        if kind == 0:
            return near + self.choice((-1, 1, -near, near, 8))
        return self.choice(NUMBERS) * (-1 if kind == 1 and self.one_in(2) else 1)

    def real(self) -> float:
        """A float."""
        return self.choice(FLOATS) if self.one_in(2) else float(struct.unpack(">d", self.randbytes(8))[0])

    def bytes_of(self, data: bytes, most: int | None = None) -> bytes:
        """Bytes, changed without regard to what they mean."""
        allowed = most or len(data) + 64
        if self._change_bytes is not None and not self.one_in(3):
            return bytes(self._change_bytes(data, allowed))
        return self._plainly_changed(bytearray(data))[:allowed]

    def _plainly_changed(self, data: bytearray) -> bytes:
        kind = self.randrange(5)
        start, stop = self.part(data)
        if kind == 0 and data:
            data[start % len(data)] ^= 1 << self.randrange(8)
        elif kind == 1:
            del data[start:stop]
        elif kind == 2:
            data[start:start] = self.randbytes(self.randrange(1, 9))
        elif kind == 3:
            data[start:stop] = data[start:stop] * self.randrange(2, _MOST_REPEATS)
        else:
            size = self.choice((1, 2, 4, 8))
            data[start : start + size] = (self.choice(NUMBERS) % 256**size).to_bytes(size, "little")
        return bytes(data)
