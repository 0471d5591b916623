"""Names within a model: unique, and printable text, whatever a file of the agent contains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.errors import UnsupportedError, escape, quote

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_CHARACTERS: Final = 120


class Names:
    """The names that a model has so far.

    :param taken: names that nothing else may have
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._numbers: dict[str, int] = {}
        """The last number that was appended to a name."""

    def choose(self, wanted: str) -> str:
        """Return a name that is not taken, and take it. An empty name means "none" in ONNX, and is never chosen."""
        base = made = escape(wanted, _MOST_CHARACTERS) or "unnamed"
        while made in self._taken:
            self._numbers[base] = self._numbers.get(base, 1) + 1
            made = f"{base}_{self._numbers[base]}"
        self._taken.add(made)
        return made


def require_text(name: str) -> None:
    """Refuse the name of an input or output that runtimes cannot have.

    :raises UnsupportedError: when it cannot be encoded as UTF-8, or ends early in C
    """
    if "\0" in name or any("\ud800" <= character <= "\udfff" for character in name):
        message = f"expected the name of an input without surrogates and NUL, got {quote(name, 80)}: ONNX has UTF-8"
        raise UnsupportedError(message)
