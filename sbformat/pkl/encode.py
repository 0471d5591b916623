"""Encode an inert tree as a pickle, the mirror of ``decode`` (WRITER.md 12.3).

Theory of operation: in goes a tree, out come the bytes of one pickle. The tree is walked twice, with a stack of
iterators instead of recursion. The first pass counts how often each value occurs, the second writes. Equal trees give
equal bytes: text and names get a memo entry when they occur a second time, tuples when the tree contains the same one
twice, other values always, as picklers do.

For example, ``{"a": ["a"]}`` is written with protocol 4 as::

    EMPTY_DICT MEMOIZE(0)                      a dict may contain itself: first the empty dict, then its items
    SHORT_BINUNICODE "a" MEMOIZE(1)            "a" occurs twice, so it gets a memo entry
    EMPTY_LIST MEMOIZE(2) BINGET 1 APPEND
    SETITEM STOP

Protocol 2 is for ``.pth`` files: as far as the tree allows, only opcodes that torch's ``weights_only`` unpickler knows.
Protocol 4 is for blobs, 5 for blobs with bytearrays.
"""

from __future__ import annotations

import re
from _compat_pickle import REVERSE_IMPORT_MAPPING, REVERSE_NAME_MAPPING
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from sbformat.constants import SURROGATE_PAIR
from sbformat.errors import quote
from sbformat.pkl.opcodes import OPCODES
from sbformat.pkl.state import FIX_IMPORTS_BELOW, refuse, rename
from sbformat.pkl.tree import Call, Dict, Extension, FrozenSet, Global, Persistent, Set

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sbformat.pkl.tree import Node


_CODE: Final = {row.name: bytes([row.code]) for row in OPCODES}
_NUMBERS: Final = {
    row.name: (bytes([row.code]), int(row.argument[1]), 1 << (8 * int(row.argument[1]) - (row.argument[0] == "i")))
    for row in OPCODES
    if row.argument[1:2].isdecimal()
}
"""Opcodes with a number or length by name: the byte, the size of the number, and the first one that has no room."""
_INT4: Final = range(-(2**31), 2**31)
_FLOAT8: Final = Struct(">d").pack
_LEAVES: Final = frozenset({type(None), bool, int, float})
_VALUES: Final = _LEAVES | {str, bytes, bytearray, tuple, list, Dict, Set, FrozenSet}
"""Types that cannot be called, nor be arguments, except tuple."""


def _called(name: str, *args: object) -> Call:
    return Call("REDUCE", Global("builtins", name), args)


def _bytes_as_text(value: bytes) -> Call:
    if not value:
        return _called("bytes")
    return Call("REDUCE", Global("_codecs", "encode"), (value.decode("latin-1"), "latin1"))


WITHOUT_OPCODE: Final[dict[type, Callable[[Any], Call]]] = {
    bytes: _bytes_as_text,
    bytearray: lambda value: (
        _called("bytearray", value.decode("latin-1"), "latin-1") if value else _called("bytearray")
    ),
    Set: lambda value: _called("set", list(value)),
    FrozenSet: lambda value: _called("frozenset", list(value)),
}
"""The calls that encode values where the protocol has no opcode for them."""


def _with_number(number: int, *names: str) -> bytes:
    """Return the first of some opcodes whose argument has room for a number that is not negative, and the number."""
    for name in names:
        code, size, stop = _NUMBERS[name]
        if number < stop:
            return code + number.to_bytes(size, "little")
    raise OverflowError(number)


def _leaf(value: Any) -> bytes:
    """Return the opcode of a value that has no parts."""
    if value is None:
        return _CODE["NONE"]
    if type(value) is tuple:
        return _CODE["EMPTY_TUPLE"]
    if value is True or value is False:
        return _CODE["NEWTRUE" if value else "NEWFALSE"]
    if type(value) is float:
        return _CODE["BINFLOAT"] + _FLOAT8(value)
    if value in _INT4 and value >= 0:
        return _with_number(value, "BININT1", "BININT2", "BININT")
    raw: bytes = value.to_bytes(4 if value in _INT4 else (value.bit_length() >> 3) + 1, "little", signed=True)
    if value in _INT4:
        return _CODE["BININT"] + raw
    if value < 0 and raw[-1] == 0xFF and raw[-2] & 0x80:
        raw = raw[:-1]  # as CPython's encode_long: -(2**39) takes five bytes
    return _with_number(len(raw), "LONG1", "LONG4") + raw


def _name_lines(name: Global, protocol: int) -> bytes:
    """Return module and name as two lines, below protocol 3 with their names in Python 2 (FORMAT.md 5.4)."""
    module, attribute = pair = name.pair
    if protocol < FIX_IMPORTS_BELOW:
        old = REVERSE_NAME_MAPPING.get(pair) or (REVERSE_IMPORT_MAPPING.get(module, module), attribute)
        renamed = next((known for known in (old, pair) if rename(*known) == pair), None)
        if renamed is None:
            refuse(f"protocol {protocol} cannot encode the name {quote(name)}: it would be read as a name of Python 2")
        module, attribute = renamed
    text = f"{module}\n{attribute}\n"
    if text.count("\n") != 2:
        refuse(f"protocol {protocol} has no opcode for a name that contains a newline: {quote(name)}")
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        refuse(f"protocol {protocol} has no opcode for a name that contains a lone surrogate: {quote(name)}")


def _check_call(call: Call) -> None:
    """Refuse a call that no unpickler accepts (FORMAT.md 5.1), or that it reads as something else."""
    how, func, args = call.how, call.func, call.args
    if how == "STACK_GLOBAL":
        parts = args if type(args) is tuple and len(args) == 2 else (None,)
        if any(type(part) in _VALUES - {str} for part in parts) or set(map(type, parts)) == {str}:
            refuse("expected two texts or nodes for a computed name, at least one of them a node")
        return
    if type(func) in _VALUES or (type(args) in _VALUES and type(args) is not tuple):
        refuse(f"expected a node for {how} to call, and a tuple or node of arguments")
    if how == "NEWOBJ_EX" and type(call.kwargs) in _VALUES and type(call.kwargs) is not Dict:
        refuse("expected a dict or node of keywords for NEWOBJ_EX")
    if how in ("INST", "OBJ") and type(args) is not tuple:
        refuse(f"expected a tuple of arguments for {how}")
    if how == "INST" and (type(func) is not Global or func.updates):
        refuse("expected a name without changes for INST to call")


Protocol: TypeAlias = Literal[2, 4, 5]
Steps: TypeAlias = "Iterator[object]"
"""A generator that writes the opcodes of a value, and yields each part where it has to be written."""

_BATCH: Final = 1000  # items after one mark, as in CPython's pickler: the stack stays small
_TUPLES: Final = ("EMPTY_TUPLE", "TUPLE1", "TUPLE2", "TUPLE3")
_TWICE: Final = 2
_ON_DEMAND: Final = frozenset({str, tuple, Global, FrozenSet})


def encode_pickle(
    tree: object,
    *,
    protocol: Protocol = 4,
    reduce: Callable[[object], object] | None = None,
    setters: Mapping[int, Sequence[Call]] | None = None,
    replaced: Mapping[int, object] | None = None,
) -> bytes:
    """Encode an inert tree.

    :param tree: plain values and nodes of :mod:`sbformat.pkl.tree`; parts that are shared stay shared
    :param reduce: called once with each value of another type; returns a tree to write instead, which may contain such
        values again, like a pickler's ``reducer_override``
    :param setters: calls that follow a node and whose result is dropped, by the ``id()`` of the node; cloudpickle sets
        the state of functions and classes in this way
    :param replaced: trees to write instead of nodes, by the ``id()`` of the node; their setters are left out
    :return: one pickle. Decoding it gives an equal tree, except for types that the protocol encodes as calls:
        bytearrays below 5, bytes and sets in 2
    """
    if protocol not in _PROTOCOLS:
        raise ValueError(f"expected one of the protocols {', '.join(map(str, _PROTOCOLS))}, got {protocol!r}")
    counter = _Pass(protocol, reduce, None, setters or {}, replaced or {})
    counter.run(tree)
    return _Pass(protocol, reduce, counter, setters or {}, replaced or {}).run(tree)


def _key(value: object) -> object:
    """Return the key of a value in the memo: text, bytes and names are equal by value, others by identity."""
    kind = type(value)
    if kind is str or kind is bytes:
        return value
    if kind is Global and not value.updates:  # type: ignore[attr-defined]
        return value
    return id(value)


class _Pass:
    """One walk over the tree. The first counts how often each value occurs, the second writes."""

    def __init__(
        self,
        protocol: int,
        reduce: Callable[[object], object] | None,
        counted: _Pass | None,
        setters: Mapping[int, Sequence[Call]],
        replaced: Mapping[int, object],
    ) -> None:
        self.protocol = protocol
        self.setters = setters
        self.replaced = replaced
        self.counted = counted
        self.met: dict[object, int] = {}  # the number of occurrences of a value, by its key
        self.memo: dict[object, int | None] = {}  # the memo index of a value; None for a value that occurs once
        self.indexes = 0
        self.open: dict[object, int] = {}
        self.reduce = reduce
        self.writers = _PROTOCOLS[protocol]
        self.reduced: dict[object, tuple[object, object]] = counted.reduced if counted else {}
        """The tree that replaces a value of another type, and the value, to keep it and its ``id()`` alive."""
        self.out = bytearray()

    def run(self, tree: object) -> bytes:
        """Walk the tree without recursion, and return the pickle."""
        self.out += _with_number(self.protocol, "PROTO")
        todo: list[Steps] = [iter((tree,))]
        while todo:
            for value in todo[-1]:
                steps = self.save(value)
                if steps is not None:
                    todo.append(steps)
                    break
            else:
                todo.pop()
        self.out += _CODE["STOP"]
        return bytes(self.out)

    def save(self, value: object) -> Steps | None:
        """Write a leaf or a reference to the memo; return the steps that write any other value."""
        kind = type(value)
        if kind in _LEAVES or (kind is tuple and not value):
            self.out += _leaf(value)
            return None
        if (
            kind is bytes and self.protocol >= 4
        ):  # without a memo entry: numpy lets two arrays of one object share memory
            self.out += _with_number(len(value), "SHORT_BINBYTES", "BINBYTES", "BINBYTES8")  # type: ignore[arg-type]
            self.out += value  # type: ignore[arg-type]
            return None
        write = self.writers.get(kind)
        if id(value) in self.replaced:
            return self.save(self.replaced[id(value)])
        if write is None:
            return self.save(self._replace(value))
        key = _key(value)
        if self.counted is None:
            self.met[key] = self.met.get(key, 0) + 1
        index = self.memo.get(key)
        if index is not None:
            self._get(index)
            return None
        # a tuple or call that contains itself is begun twice: the inner one is written, the outer one refers to it
        self.open[key] = self.open.get(key, 0) + 1
        if self.open[key] > _TWICE:
            refuse("a value contains itself in a way that a pickle cannot encode")
        return write(self, value)

    def _replace(self, value: object) -> object:
        """Return the tree that replaces a value without an opcode, the same in both passes."""
        key = _key(value)
        known = self.reduced.get(key)
        if known is None:
            spell = WITHOUT_OPCODE.get(type(value)) or self.reduce
            if spell is None:
                raise TypeError(f"an inert tree cannot contain a {type(value).__name__}")
            known = self.reduced[key] = spell(value), value
        return known[0]

    # -- memo -----------------------------------------------------------------------------------------

    def put(self, value: object) -> None:
        """Store the value that was just written in the memo: text, tuples and names only if they occur again.

        Other values are always stored, as by picklers, even if nothing refers to them: scanners consider a pickle with
        many references and few memo entries a bomb.
        """
        key = _key(value)
        if self.counted is not None and type(value) in _ON_DEMAND and self.counted.met.get(key, 0) < _TWICE:
            self.memo[key] = None
            return
        index = self.memo[key] = self.indexes
        self.indexes += 1
        self.out += _CODE["MEMOIZE"] if self.protocol >= 4 else _with_number(index, "BINPUT", "LONG_BINPUT")

    def _get(self, index: int) -> None:
        self.out += _with_number(index, "BINGET", "LONG_BINGET")

    def is_written(self, value: object, drop: bytes) -> bool:
        """Return whether one of its parts contains this value and wrote it; then drop the parts and refer to it."""
        index = self.memo.get(_key(value))
        if index is None:
            return False
        self.out += drop
        self._get(index)
        return True

    # -- values ---------------------------------------------------------------------------------------

    def save_text(self, value: str) -> Steps:
        """Write text; lone surrogates are allowed."""
        try:
            raw = value.encode()
        except UnicodeEncodeError:
            raw = value.encode("utf-8", "surrogatepass")
            if re.search(SURROGATE_PAIR, value):
                refuse("a pickle cannot contain a text with a pair of surrogates, which is one character in UTF-16")
        if self.protocol < 4 and len(raw) >= 1 << 32:
            refuse("protocol 2 cannot encode a text of 4 GiB")
        names = ("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8") if self.protocol >= 4 else ("BINUNICODE",)
        self.out += _with_number(len(raw), *names)
        self.out += raw
        self.put(value)
        yield from ()

    def save_bytearray(self, value: bytearray) -> Steps:
        self.out += _with_number(len(value), "BYTEARRAY8")
        self.out += value
        self.put(value)
        yield from ()

    def save_tuple(self, value: tuple[object, ...]) -> Steps:
        """Write a tuple, or a frozenset; there are opcodes for tuples of up to three items, without a mark."""
        is_short = type(value) is tuple and len(value) < len(_TUPLES)
        self.out += b"" if is_short else _CODE["MARK"]
        yield from value
        if not self.is_written(value, _CODE["POP"] * len(value) if is_short else _CODE["POP_MARK"]):
            self.out += _CODE[_TUPLES[len(value)] if is_short else "TUPLE" if type(value) is tuple else "FROZENSET"]
            self.put(value)

    def save_list(self, value: list[object]) -> Steps:
        """Write a list, dict or set, first empty, then its items: it may contain itself."""
        empty, many, one = _MUTABLE[type(value)]
        self.out += _CODE[empty]
        self.put(value)
        for start in range(0, len(value), _BATCH):
            yield from self.batch(value[start : start + _BATCH], many, one)

    def batch(self, items: Any, many: str, one: str | None) -> Steps:
        """Write items or pairs after a mark, or one of them without."""
        is_alone = len(items) == 1 and one is not None
        if not is_alone:
            self.out += _CODE["MARK"]
        for item in items:
            if many == "SETITEMS":
                yield item[0]
                yield item[1]
            else:
                yield item
        self.out += _CODE[one if is_alone and one else many]

    # -- nodes ----------------------------------------------------------------------------------------

    def save_global(self, value: Global) -> Steps:
        if self.protocol >= 4:
            yield value.module
            yield value.name
            self.out += _CODE["STACK_GLOBAL"]
        else:
            self.out += _CODE["GLOBAL"] + _name_lines(value, self.protocol)
        yield from self.finish(value)

    def save_call(self, value: Call) -> Steps:
        """Write the parts of a call, its opcode, and then its changes."""
        how = value.how
        _check_call(value)
        if self.protocol < 4 and how in ("NEWOBJ_EX", "STACK_GLOBAL"):
            refuse(f"protocol {self.protocol} has no {how}")
        parts: list[object] = [value.func, value.args]
        if how in ("INST", "OBJ", "STACK_GLOBAL"):
            parts = [value.func] * (how == "OBJ") + list(value.args)  # type: ignore[call-overload]
        elif how == "NEWOBJ_EX":
            parts.append(value.kwargs)
        is_marked = how in ("INST", "OBJ")
        self.out += _CODE["MARK"] if is_marked else b""
        yield from parts
        if not self.is_written(value, _CODE["POP_MARK"] if is_marked else _CODE["POP"] * len(parts)):
            self.out += _CODE[how] + (_name_lines(value.func, self.protocol) if how == "INST" else b"")  # type: ignore[arg-type]
            yield from self.finish(value)

    def save_persistent(self, value: Persistent) -> Steps:
        yield value.id
        if not self.is_written(value, _CODE["POP"]):
            self.out += _CODE["BINPERSID"]
            yield from self.finish(value)

    def save_extension(self, value: Extension) -> Steps:
        if not 0 < value.code < _INT4.stop:
            refuse(f"expected an extension code above 0 and below 2**31, got {value.code}")
        self.out += _with_number(value.code, "EXT1", "EXT2", "EXT4")
        yield from self.finish(value)

    def finish(self, value: Node) -> Steps:
        """Store a node in the memo and write its changes, one opcode for each: the same number of method calls."""
        self.put(value)
        for update in value.updates or ():
            if update.how == "BUILD":
                yield update.value
                self.out += _CODE["BUILD"]
                continue
            if update.how == "ADDITEMS" and self.protocol < 4:
                refuse(f"protocol {self.protocol} has no ADDITEMS")
            one = {"APPENDS": "APPEND", "SETITEMS": "SETITEM"}.get(update.how)
            yield from self.batch(update.value, update.how, one)
        for setter in self.setters.get(id(value), ()):
            yield setter
            self.out += _CODE["POP"]


_MUTABLE: Final = {
    list: ("EMPTY_LIST", "APPENDS", "APPEND"),
    Dict: ("EMPTY_DICT", "SETITEMS", "SETITEM"),
    Set: ("EMPTY_SET", "ADDITEMS", None),
}
"""The opcodes that make an empty value, and that add many items to it, or one."""
_Writers: TypeAlias = "dict[type, Callable[[_Pass, Any], Steps]]"
_OLD_WRITERS: Final[_Writers] = {
    str: _Pass.save_text,
    tuple: _Pass.save_tuple,
    list: _Pass.save_list,
    Dict: _Pass.save_list,
    Global: _Pass.save_global,
    Call: _Pass.save_call,
    Persistent: _Pass.save_persistent,
    Extension: _Pass.save_extension,
}
_WRITERS: Final[_Writers] = {**_OLD_WRITERS, Set: _Pass.save_list, FrozenSet: _Pass.save_tuple}
_PROTOCOLS: Final[dict[int, _Writers]] = {
    2: _OLD_WRITERS,
    4: _WRITERS,
    5: {**_WRITERS, bytearray: _Pass.save_bytearray},
}
"""The types that have opcodes, with their writers, by protocol."""
