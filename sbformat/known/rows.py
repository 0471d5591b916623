"""What a row of the table says about a class or function, and how to find the row of a name (FORMAT.md 5.4).

Names are exact pairs of module and name, without prefixes. A name without a row is unknown: it stays an inert node, and
``scan`` reports it. A row is one call of :func:`known`, for one class or for several that are alike::

    *known("collections", "deque", "value", role="deque", call=decode_deque)
    *known("stable_baselines3.her.her", "HER", "algorithm")

Every module of this package that describes a family of names has such rows, and :mod:`sbformat.known.table` has all of
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeAlias, TypeGuard

from sbformat.errors import escape
from sbformat.immutable import Record
from sbformat.pkl.tree import CALLS as PTH_CALLS
from sbformat.pkl.tree import Call, Global

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sbformat.known.changes import Release
    from sbformat.known.context import NodeContext
    from sbformat.pkl.tree import Pair

    NodeDecoder: TypeAlias = "Callable[[NodeContext, Call], object]"

Use: TypeAlias = Literal[
    "value", "algorithm", "only described", "beside code", "generic", "metaclass", "method", "stores", "slots",
    "imported", "dtype", "number", "plain type", "plain base", "holds", "unhashable", "by value", "carries", "layer",
    "interpolates", "getter", "program", "reaches", "built",
]  # fmt: skip
"""What may become of a name:

value           it may be a value. It is the module and name that a pickler writes for the class itself, importing the
                module has no effect beyond importing that library, and calling it for its purpose starts no process,
                opens nothing, unpickles nothing and imports nothing by name: its constructor was read
algorithm       a value that makes the environment that it is given by name, which may import a module
only described  an object of it may be decoded, but the class is no value: calling it, or a method, imports or opens
beside code     a value in a pickle with a function or class pickled by value; importing it only defines it
generic         annotations parametrize it
metaclass       a class pickled by value may have it: it is known to run only code of the class itself
method          a method that may be bound to an object
stores          its objects only store what they are given, whatever it is
slots           its objects are parts of a dataclass and consist of their slots
imported        importing it only defines it
dtype           a dtype of torch
number          a scalar type of numpy: calling it makes a number
plain type      calling it only stores what it is given
plain base      as the base of another class it only stores what it is given
holds           a call of it makes a container, which only stores its items
unhashable      what a call of it makes has no hash
by value        it makes a function or class that is pickled by value
carries         it makes such a function or class, or a part of one: their code has findings of its own
layer           a partial may call it: it makes a layer or an optimizer
interpolates    ``numpy.interp``, of which a partial with plain numbers is a schedule
getter          a call of it makes a function that looks up the attribute that it was given
program         the records of a TorchScript archive store lists with it, and the loader of torch replaces it
reaches         it runs code when it is called with other arguments than those that its decoder accepts
built           ``unsafe`` may call it, with the arguments that its decoder accepts
"""


class Known(Record):
    """The row of one class or function, by one of its names."""

    module: str
    name: str
    uses: frozenset[str]
    """Words of :data:`Use`."""
    role: str = ""
    """What a call of it makes: one word for all that are called alike. Empty when a pickle may not call it."""
    call: NodeDecoder | None = None
    """Decodes such a call; None when a call is accepted as a part of another node only."""
    kind: str = ""
    """What NEWOBJ makes of the class: ``plain`` and ``noise`` consist of their attributes; empty when it makes nothing
    that is known."""
    new: NodeDecoder | None = None
    """Decodes an object that NEWOBJ makes."""
    attributes: tuple[str, ...] | None = None
    """The attributes, fields or slots that its objects may have."""
    looked_up: tuple[str, ...] = ()
    """Methods and slots that ``getattr`` may look up in it, where a class is pickled by value."""
    members: tuple[object, ...] = ()
    """The values of the members of an enumeration."""
    current: Pair | None = None
    """Its newest name in SB3, gymnasium or numpy, when it was renamed."""
    until: Release | None = None
    """The first release of SB3 with that name; None when all targets have it that have the class."""
    since: Release | None = None
    """The release of SB3 that added it or this name; earlier targets lack it."""
    is_gone: bool = False
    """Whether no target has it, or not with every gymnasium that the release takes."""
    place: str = ""
    """The argument of a policy or algorithm for which SB3 may call it: ``activation_fn``, ``replay_buffer_class``."""
    arguments: Mapping[str, object] = {}
    """In that place, its arguments other than those that SB3 passes, with the defaults; None for a flag."""
    stores: Mapping[str, str] = {}
    """What an optimizer has for a parameter after its first step: a ``scalar``, or a tensor of the shape of the
    ``parameter``, maybe only with an option, which is in the place of that word. It creates what is missing here."""

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"

    @property
    def pair(self) -> Pair:
        """Module and name."""
        return self.module, self.name

    def for_target(self, target: Release) -> Known:
        """Return the row of its name in a target."""
        if self.current is not None and (self.until is None or target >= self.until):
            return find(self.current).for_target(target)
        if self.since is not None and target < self.since:
            return next((row for row in TABLE.values() if (row.current, row.until) == (self.pair, self.since)), self)
        return self

    def explain_missing(self, target: Release) -> str | None:
        """Return why a target does not have it, or None if it has it."""
        is_other = self.until is None and self.module.partition(".")[0] in _OTHER_LIBRARIES
        if self.is_gone or is_other:
            return "is in no release of SB3 2"
        is_missing = self.since is not None and target < self.since
        return f"exists since SB3 {self.since}, not in {target}" if is_missing else None

    @property
    def is_plain(self) -> bool:
        """Whether its objects consist of their attributes alone."""
        return self.kind in ("plain", "noise")

    @property
    def extends_object(self) -> bool:
        """Whether it has a decoder of its objects, and they extend object alone."""
        return bool(self.kind) and self.kind not in _OTHER_BASES

    @property
    def is_reference(self) -> bool:
        """Whether it may be a value, and be written as one."""
        return not self.uses.isdisjoint(_REFERENCES)

    @property
    def is_value(self) -> bool:
        """Whether it may be a value in a pickle."""
        return (bool(self.kind) or self.is_reference) and "only described" not in self.uses

    @property
    def is_known(self) -> bool:
        """Whether importing it is known to only define it."""
        return self.is_value or bool(self.role) or not self.uses.isdisjoint(_DEFINED)


_OTHER_BASES: Final = frozenset({"named_tuple", "portable_array", "quantization scheme", "rnn_states", "train_freq"})
_OTHER_LIBRARIES: Final = frozenset({"gym", "stable_baselines", "tensorflow"})
_REFERENCES: Final = frozenset({"value", "algorithm"})
_DEFINED: Final = frozenset({"slots", "imported"})
TABLE: Final[dict[Pair, Known]] = {}
"""Every row by its name; :mod:`sbformat.known.table` fills it when it is imported, at the latest by :func:`find`."""


def known(modules: str | Iterable[str], names: str, uses: str = "", **fields: Any) -> list[Known]:
    """Return rows for what is alike: names separated by spaces, in each of the modules, uses separated by commas."""
    words = frozenset(uses.split(", ") if uses else ())
    listed = (modules,) if isinstance(modules, str) else modules
    return [Known(module, name, words, **fields) for module in listed for name in names.split()]


def known_in_pth(role: str, uses: str = "", **fields: Any) -> list[Known]:
    """Return rows for the functions that a ``.pth`` may call in a role (:data:`sbformat.pkl.tree.CALLS`)."""
    pairs = [pair for pair, found in PTH_CALLS.items() if found == role]
    return [row for module, name in pairs for row in known(module, name, uses, role=role, **fields)]


def later(name: str) -> NodeDecoder:
    """Return a decoder of :mod:`sbformat.known.by_value`, imported when first used: hardly any file needs it."""

    def decode(context: NodeContext, node: Call) -> object:
        from sbformat.known import by_value

        found: NodeDecoder = getattr(by_value, name)
        return found(context, node)

    return decode


NOTHING: Final = Known("", "", frozenset())


def find(pair: Pair) -> Known:
    """Return the row of a name; one without any use if it is not known."""
    row = TABLE.get(pair)
    if row is None and not TABLE:
        import sbformat.known.table  # noqa: F401 -- fills it

        row = TABLE.get(pair)
    return row or NOTHING


def current_name(pair: Pair) -> Pair:
    """Return the current name of a class that was renamed, or the name itself."""
    return find(pair).current or pair


def find_called(node: Call) -> Known:
    """Return the row of what a REDUCE calls by a plain name; one without any use if it is not known, or not plain."""
    func = node.func
    if node.how != "REDUCE" or type(func) is not Global or func.updates or type(node.args) is not tuple:
        return NOTHING
    return find(func.pair)


def find_role(node: Call) -> str | None:
    """Return the role of what a REDUCE calls by a plain name, or None."""
    return find_called(node).role or None


# -- for the decoders ----------------------------------------------------------------------------------


class UnrecognizedError(Exception):
    """A node does not have the shape that its library writes; internal, never raised to a caller of sbformat."""


class Unaccepted(Record):
    """The value of a node that its decoder does not accept: that of another node does, or none."""

    value: object


def reject(message: str) -> NoReturn:
    """Raise :class:`UnrecognizedError`."""
    raise UnrecognizedError(message)


def reject_with(message: str) -> NodeDecoder:
    """Return a decoder of what is known, and has no value."""
    return lambda _context, _node: reject(message)


def is_name(part: object, *pairs: Pair) -> TypeGuard[Global]:
    """Return whether a part of the tree is one of these names, unchanged."""
    return isinstance(part, Global) and not part.updates and part.pair in pairs


def plain_arguments(context: NodeContext, node: Call, what: str) -> tuple[Any, ...]:
    """Return the arguments of a call that nothing changes afterwards."""
    if node.updates or type(node.args) is not tuple:
        reject(f"{what} is changed after it was constructed, or has computed arguments")
    return context.arguments(node)


def describe_node(node: object) -> str:
    """Return what a node calls or names, escaped."""
    if isinstance(node, Call):
        node = node.func
    return escape(str(node), 200) if isinstance(node, Global) else "something that is computed"
