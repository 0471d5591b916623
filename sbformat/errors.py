"""Every error that sbformat raises about a file: one class a layer, one outcome word a class.

Errors are values: the facts are keyword fields, the text is made in ``__str__``. A low layer raises
with an offset; whoever knows the entry's name adds it on the way up with :meth:`FormatError.within`.
The text is bounded and everything in it is printable, whatever the file holds. This module imports
nothing of the package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MESSAGE_BYTES: Final = 2048
"""A message is cut to this many bytes: no file decides how long an error is."""

_SHOWN_CHARACTERS: Final = 200
_SHOWN_BITS: Final = 200
_COMPARED: Final = 60
"""Characters of a name that are compared with others: the time grows with their square."""
_BIDI: Final = frozenset("\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def escape(text: str, limit: int = _SHOWN_CHARACTERS) -> str:
    """Make text that came from a file fit for a terminal.

    :param text: any text; lone surrogates are fine
    :param limit: the most characters of it to show
    :return: printable text; what is not printable stands as a backslash escape
    """
    cut = text[:limit]
    if not (cut.isascii() and cut.isprintable()):
        cut = "".join(
            c if c.isprintable() and c not in _BIDI else c.encode("unicode_escape").decode("ascii") for c in cut
        )
    return cut if len(text) <= limit else f"{cut}\u2026"


def quote(name: object, limit: int = _SHOWN_CHARACTERS) -> str:
    """Like :func:`escape`, within single quotes: for names inside a sentence.

    What is no text is named by its type unless it is short by nature: containers may be deep or hold
    themselves, and Python refuses to spell long numbers.
    """
    if isinstance(name, (list, tuple, dict, set, frozenset, bytearray, bytes)):
        return f"a {type(name).__name__.lower()}"
    if isinstance(name, int) and name.bit_length() > _SHOWN_BITS:
        return f"a number of {name.bit_length()} bits"
    return f"'{escape(str(name), limit)}'"


def _bounded(text: str) -> str:
    if len(text) * 4 <= MESSAGE_BYTES:
        return text
    encoded = text.encode("utf-8", "backslashreplace")
    if len(encoded) <= MESSAGE_BYTES:
        return text
    return encoded[: MESSAGE_BYTES - 3].decode("utf-8", "ignore") + "\u2026"


class SbformatError(Exception):
    """Whatever is wrong with a file. ``outcome`` is the word for it in reports and test vectors."""

    outcome: ClassVar[str] = "failure"

    entry: str | None
    """The entry of the archive it happened in, once known; a slash leads into an inner zip."""

    offset: int | None
    """Where, in bytes from the start of that entry (or of the file), when known."""

    message: str

    def __init__(self, message: str, *, entry: str | None = None, offset: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.entry = entry
        self.offset = offset

    def within(self, entry: str) -> SbformatError:
        """Put the entry's name in front of what is known already; return the same error.

        :param entry: the name to add
        """
        self.entry = entry if self.entry is None else f"{entry}/{self.entry}"
        return self

    def again(self) -> SbformatError:
        """Return an equal error to raise or keep: without a traceback, which would hold what failed."""
        return _rebuild(type(self), dict(self.__dict__))

    def __str__(self) -> str:
        place = [escape(self.entry)] if self.entry is not None else []
        if self.offset is not None:
            place.append(f"at byte {self.offset}")
        return _bounded(": ".join([" ".join(place), self.message] if place else [self.message]))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), dict(self.__dict__))


def _rebuild(cls: type[SbformatError], fields: dict[str, Any]) -> SbformatError:
    """Make an error again in another process (copies and process pools need it)."""
    error = cls.__new__(cls, fields["message"])
    error.__dict__.update(fields)
    return error


class FormatError(SbformatError, ValueError):
    """The bytes break the format. The subclass says which layer refused them."""


class ContainerError(FormatError):
    """The zip layer, outer or inner (FORMAT.md 2)."""

    outcome = "container failure"


class DataError(FormatError):
    """The JSON entry ``data``, the version or the system info (FORMAT.md 3, 4)."""

    outcome = "data failure"


class PickleError(FormatError):
    """A pickle stream: opcodes, lengths, stack (FORMAT.md 5)."""

    outcome = "pickle failure"

    is_cut_short: bool = False
    """Could more bytes mend it? Whoever read only a part of a file tries again with more."""


class TensorError(FormatError):
    """A ``.pth`` entry: records, storages, geometry (FORMAT.md 6, 7)."""

    outcome = "tensor failure"


class LimitError(SbformatError):
    """A limit of :class:`sbformat.Limits` would be passed.

    :param limit: the field of ``Limits``
    :param allowed: its value
    :param actual: what the file asks for, as far as it was counted
    """

    outcome = "limit exceeded"

    limit: str
    allowed: int
    actual: int

    def __init__(
        self, limit: str, *, allowed: int, actual: int, entry: str | None = None, offset: int | None = None
    ) -> None:
        message = (
            f"needs {limit} = {actual:,} or more, allowed are {allowed:,}; if you trust the size, "
            f"pass limits=Limits({limit}=...) or --limit {limit}=..."
        )
        super().__init__(message, entry=entry, offset=offset)
        self.limit = limit
        self.allowed = allowed
        self.actual = actual


class UnsupportedError(SbformatError):
    """Well formed, as far as was looked, but outside what sbformat decodes."""

    outcome = "unsupported"


class ValidationError(SbformatError, ValueError):
    """``validate`` found errors; ``problems`` holds all of them.

    :param problems: every problem, errors and information alike
    """

    outcome = "invalid"

    problems: tuple[Any, ...]

    def __init__(self, message: str, *, problems: Sequence[Any] = (), entry: str | None = None) -> None:
        super().__init__(message, entry=entry)
        self.problems = tuple(problems)


class MissingEntryError(SbformatError, KeyError):
    """A name that is not there; the message suggests the nearest one that is.

    :param name: what was asked for
    :param present: the names there are
    """

    outcome = "missing"

    name: str

    def __init__(self, name: str, *, present: Iterable[str] = (), what: str = "entry") -> None:
        import difflib

        known = [p[:_COMPARED] for p, _ in zip(present, range(1000))]
        message = f"there is no {what} {quote(name)}"
        close = difflib.get_close_matches(name[:_COMPARED], known, n=1, cutoff=0.5)
        if close:
            message += f"; did you mean {quote(close[0])}?"
        elif known:
            listed = ", ".join(quote(k, 60) for k in known[:8])
            message += f"; there is {listed}" + (", \u2026" if len(known) > 8 else "")
        super().__init__(message)
        self.name = name

    __str__ = SbformatError.__str__
