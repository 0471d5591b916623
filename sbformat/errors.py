"""Every error that sbformat raises about a file: one class for each layer, one outcome word for each class.

Errors are values: the facts are keyword fields, and ``__str__`` makes the text. A low layer raises with an offset; a
caller that knows the entry's name adds it with :meth:`SbformatError.within`. The text is bounded and printable,
whatever the file contains. This module imports nothing of the package.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

MESSAGE_BYTES: Final = 2048
"""Longer messages are truncated: no file decides how long an error is."""

_SHOWN_CHARACTERS: Final = 200
_SHOWN_BITS: Final = 200
_COMPARED: Final = 60  # number of characters of a name that are compared with others: the time grows with its square
_ALIKE: Final = 3  # names that are suggested
_BIDI: Final = frozenset("\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def escape(text: str, limit: int = _SHOWN_CHARACTERS) -> str:
    """Escape text from a file for a terminal.

    :param text: any text, also with lone surrogates
    :param limit: number of characters after which it is truncated
    :return: printable text, with backslash escapes for other characters
    """
    cut = text[:limit]
    if not (cut.isascii() and cut.isprintable()):
        cut = "".join(
            c if c.isprintable() and c not in _BIDI else c.encode("unicode_escape").decode("ascii") for c in cut
        )
    return cut if len(text) <= limit else f"{cut}\u2026"


def quote(name: object, limit: int = _SHOWN_CHARACTERS) -> str:
    """Escape a name from a file and put it in single quotes, for use inside a sentence.

    Containers are named by their type, because they may be deep or contain themselves; so are long numbers, which
    Python refuses to convert to text.
    """
    if isinstance(name, (list, tuple, dict, set, frozenset, bytearray, bytes)):
        return f"a {type(name).__name__.lower()}"
    if isinstance(name, int) and name.bit_length() > _SHOWN_BITS:
        return f"a number of {name.bit_length()} bits"
    return f"'{escape(str(name), limit)}'"


def require_type(value: object, expected: type | tuple[type, ...], what: str) -> None:
    """Refuse an argument of a wrong type.

    >>> require_type(None, Archive, "an Archive")
    TypeError: expected an Archive, got None
    """
    if not isinstance(value, expected):
        raise TypeError(f"expected {what}, got {'None' if value is None else type(value).__name__}")


def require_names(names: Iterable[str], argument: str) -> tuple[str, ...]:
    """Return a collection of names as a tuple; a str would be a collection of characters."""
    if isinstance(names, str):
        message = f"{argument}: expected a collection of names, got the str {quote(names)}; pass [{quote(names)}]"
        raise TypeError(message)
    require_type(names, Iterable, f"{argument} to be a collection of names")
    found = tuple(names)
    for name in found:
        require_type(name, str, f"names in {argument}")
    return found


def _bounded(text: str) -> str:
    if len(text) * 4 <= MESSAGE_BYTES:
        return text
    encoded = text.encode("utf-8", "backslashreplace")
    if len(encoded) <= MESSAGE_BYTES:
        return text
    return encoded[: MESSAGE_BYTES - 3].decode("utf-8", "ignore") + "\u2026"


class SbformatError(Exception):
    """Base class of all errors about a file. ``outcome`` is the word for it in reports and test vectors.

    ::

        try:
            sbformat.read("agent.zip").parameters["policy"]
        except sbformat.SbformatError as error:
            print(error.outcome, error.entry, error.offset, error.message)
    """

    outcome: ClassVar[str] = "failure"

    entry: str | None
    """Name of the archive's entry, if known; a slash separates it from a record of an inner zip."""

    offset: int | None
    """Position in bytes from the start of that entry, or of the file, if known."""

    message: str

    hint: str = ""
    """What to do next, a part of the message; empty if it does not say."""

    def __init__(self, message: str, *, entry: str | None = None, offset: int | None = None, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.entry = entry
        self.offset = offset
        self.add_hint(hint)

    def add_hint(self, hint: str) -> None:
        """Say what to do next: at the end of the message, unless it contains that already."""
        separator = " " if self.hint.endswith("?") else "; "
        if hint and hint not in self.message:
            self.message = f"{self.message}{separator}{hint}"
        self.hint = f"{self.hint}{separator}{hint}" if self.hint else hint

    def within(self, entry: str) -> SbformatError:
        """Add the name of the entry in front of the one that is known; return the same error.

        :param entry: the name to add
        """
        self.entry = entry if self.entry is None else f"{entry}/{self.entry}"
        return self

    def again(self) -> SbformatError:
        """Return an equal error to raise or keep; it has no traceback, which would keep the failed values in memory."""
        return _rebuild(type(self), dict(self.__dict__))

    def __str__(self) -> str:
        place = [escape(self.entry)] if self.entry is not None else []
        if self.offset is not None:
            place.append(f"at byte {self.offset}")
        return _bounded(": ".join([" ".join(place), self.message] if place else [self.message]))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), dict(self.__dict__))


def _rebuild(cls: type[SbformatError], fields: dict[str, Any]) -> SbformatError:
    """Construct an error from its fields, as copies and process pools need it."""
    error = cls.__new__(cls, fields["message"])
    error.__dict__.update(fields)
    return error


COULD_NOT_OPEN: Final = "cannot open"
"""The outcome of a path that the operating system cannot open, which is an OSError and not an error of ours."""


ALREADY_EXISTS: Final = "already exists; pass overwrite=True to replace it"
"""The text of the FileExistsError for an output that can be replaced."""


class FormatError(SbformatError, ValueError):
    """The bytes break the format; the subclass says which layer rejected them."""


class ContainerError(FormatError):
    """An error in a zip, outer or inner (FORMAT.md 2)."""

    outcome = "container failure"


class DataError(FormatError):
    """An error in the JSON entry ``data``, the version or the system info (FORMAT.md 3, 4)."""

    outcome = "data failure"


class PickleError(FormatError):
    """An error in a pickle stream: opcodes, lengths, stack (FORMAT.md 5)."""

    outcome = "pickle failure"

    is_cut_short: bool = False
    """More bytes might correct it; a caller that read only a part of a file tries again with more."""


class TensorError(FormatError):
    """An error in a ``.pth`` entry: records, storages, shapes and strides (FORMAT.md 6, 7)."""

    outcome = "tensor failure"


class LimitError(SbformatError):
    """A file needs more than a limit of :class:`sbformat.Limits` allows.

    :param limit: the field of ``Limits``
    :param allowed: its value
    :param actual: what the file needs, as far as it was counted
    """

    outcome = "limit exceeded"

    limit: str
    allowed: int
    actual: int

    def __init__(
        self, limit: str, *, allowed: int, actual: int, entry: str | None = None, offset: int | None = None
    ) -> None:
        message = f"expected {limit} <= {allowed:,}, got {actual:,} or more"
        hint = f"if you trust the size, pass limits=Limits({limit}=...)"
        super().__init__(message, entry=entry, offset=offset, hint=hint)
        self.limit = limit
        self.allowed = allowed
        self.actual = actual


class UnsupportedError(SbformatError):
    """A file that may be well formed, but that sbformat does not decode."""

    outcome = "unsupported"


def need_extra(text: str, extra: str) -> UnsupportedError:
    """Return the error for packages that are not installed.

    :param text: which packages are needed, and for what
    :param extra: the extra of sbformat that has them
    """
    hint = f'pip install "sbformat[{extra}]"'
    return UnsupportedError(f"{text}: {hint}", hint=hint)


class ValidationError(SbformatError, ValueError):
    """``validate`` found errors.

    :param problems: all problems, errors and information alike
    """

    outcome = "invalid"

    problems: tuple[Any, ...]

    def __init__(self, message: str, *, problems: Sequence[Any] = (), entry: str | None = None, hint: str = "") -> None:
        super().__init__(message, entry=entry, hint=hint)
        self.problems = tuple(problems)


def find_alike(name: str, known: Sequence[str]) -> list[str]:
    """Return the name that is spelled almost the same; or those with the same words and others; or one that is near.

    >>> find_alike("reward", ["gamma", "mean_reward", "norm_reward"])
    ['mean_reward', 'norm_reward']
    """
    import difflib

    words = _split_words(name)
    return (
        difflib.get_close_matches(name, known, n=1, cutoff=0.75)
        or [one for one in known if words and words <= _split_words(one)][:_ALIKE]
        or difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    )


def _split_words(name: str) -> frozenset[str]:
    return frozenset("".join(c if c.isalnum() else " " for c in name.lower()).split())


class MissingEntryError(SbformatError, KeyError):
    """A name that does not exist; the message suggests the closest one that does.

    :param name: the requested name
    :param present: the available names
    :param what: the kind of thing that has the name
    :param hint: where it is instead, in place of a suggestion
    """

    outcome = "missing"

    name: str

    def __init__(self, name: str, *, present: Iterable[str] = (), what: str = "entry", hint: str = "") -> None:
        if not isinstance(name, str):
            name = repr(name)  # a caller's slip, which gets the same answer
        known = [p[:_COMPARED] for p, _ in zip(present, range(1000))]
        close = [quote(found) for found in find_alike(name[:_COMPARED], known)]
        if close and not hint:
            hint = f"did you mean {' or '.join([', '.join(close[:-1]), close[-1]]) if close[1:] else close[0]}?"
        elif known and not hint:
            listed = ", ".join(quote(k, 60) for k in known[:8])
            hint = f"available: {listed}" + (", \u2026" if len(known) > 8 else "")
        super().__init__(f"there is no {what} {quote(name)}", hint=hint)
        self.name = name

    __str__ = SbformatError.__str__
