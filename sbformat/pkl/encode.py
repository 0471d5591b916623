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
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeAlias

from sbformat.constants import SURROGATE_PAIR
from sbformat.errors import PickleError, escape, quote
from sbformat.pkl.opcodes import OPCODES
from sbformat.pkl.state import FIX_IMPORTS_BELOW, rename
from sbformat.pkl.tree import Call, Dict, Extension, FrozenSet, Global, Node, Persistent, Set, Unread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sbformat.pkl.tree import Update


ARGUMENTS: Final = 160
"""Characters of the arguments of a call that a message contains."""
_NAME: Final = 200
_DEEPEST: Final = 4
_PARTS: Final = 60
"""Values of one call that are rendered: an argument may be shared a million times."""
_BITS: Final = 64
_OMITTED: Final = "\u2026"


def render_call(call: Call, limit: int = ARGUMENTS) -> str:
    """Return a call as Python writes it, escaped, on one line and bounded.

    >>> render_call(Call("REDUCE", Global("os", "system"), ("id",)))
    "os.system('id')"

    :param limit: characters of the arguments
    """
    return f"{_render_callee(call.func)}{render_arguments(call, limit)}"


def render_arguments(call: Call, limit: int = ARGUMENTS) -> str:
    """Return the arguments of a call with their parentheses, escaped, on one line and bounded.

    :param limit: characters of the arguments
    """
    left = _Quota(limit)
    parts = _render_items(call.args, left, 0) if isinstance(call.args, tuple) else f"*{_render(call.args, left, 0)}"
    if call.kwargs is not None:
        pairs = _render(call.kwargs, left, 0)
        parts += f"{', ' if parts else ''}**{pairs}"
    return f"({escape(parts, limit)})"


class _Quota:
    """How much may still be rendered of one call."""

    def __init__(self, characters: int) -> None:
        self.characters = characters
        self.parts = _PARTS


def _render_callee(func: object) -> str:
    if isinstance(func, Global):
        return escape(str(func), _NAME)
    return "a computed function"


def _render(value: object, left: _Quota, depth: int) -> str:
    left.parts -= 1
    if left.parts < 0 or depth > _DEEPEST:
        return _OMITTED
    if isinstance(value, (str, bytes, bytearray)):
        cut = value[: left.characters]
        text = repr(bytes(cut) if isinstance(cut, bytearray) else cut)
        return text if len(cut) == len(value) else f"{text[:-1]}{_OMITTED}{text[-1]}"
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if value.bit_length() <= _BITS else f"an integer of {value.bit_length():,} bits"
    if isinstance(value, Node):
        return _render_node(value, left, depth)
    if isinstance(value, Unread):
        return f"{len(value):,} bytes"
    if isinstance(value, (list, tuple)):
        return _render_container(value, left, depth)
    return str(value)  # None, True, False, a float


def _render_container(value: Sequence[object], left: _Quota, depth: int) -> str:
    if isinstance(value, Dict):
        return f"{{{_render_pairs(value, left, depth + 1)}}}"
    items = _render_items(value, left, depth)
    if isinstance(value, (Set, FrozenSet)):
        return f"{{{items}}}"
    return f"[{items}]" if isinstance(value, list) else f"({items}{',' if len(value) == 1 else ''})"


def _render_node(node: Node, left: _Quota, depth: int) -> str:
    if isinstance(node, Global):
        return escape(str(node), _NAME)
    if isinstance(node, Call):
        args = node.args if isinstance(node.args, tuple) else (node.args,)
        return f"{_render_callee(node.func)}({_render_items(args, left, depth)})"
    if isinstance(node, Persistent):
        return "a persistent value"
    return f"the copyreg extension {node.code}" if isinstance(node, Extension) else _OMITTED


def _render_items(items: Sequence[object], left: _Quota, depth: int) -> str:
    parts = [_render(item, left, depth + 1) for item in items[: max(left.parts, 0)]]
    return ", ".join(parts) + _mark_omitted(parts, items)


def _render_pairs(pairs: Dict, left: _Quota, depth: int) -> str:
    parts = [
        f"{_render(key, left, depth)}: {_render(value, left, depth)}" for key, value in pairs[: max(left.parts, 0)]
    ]
    return ", ".join(parts) + _mark_omitted(parts, pairs)


def _mark_omitted(parts: list[str], items: Sequence[object]) -> str:
    return "" if len(parts) == len(items) else f", {_OMITTED}" if parts else _OMITTED


CODE: Final = {row.name: bytes([row.code]) for row in OPCODES}
"""Each opcode's byte by its name."""
MAX8: Final = 0xFF
MAX16: Final = 0xFFFF
INT4: Final = range(-(2**31), 2**31)
UINT2: Final = Struct("<H").pack
INT4_PACK: Final = Struct("<i").pack
_FLOAT8: Final = Struct(">d").pack
LEAVES: Final = frozenset({type(None), bool, int, float})
_VALUES: Final = LEAVES | {str, bytes, bytearray, tuple, list, Dict, Set, FrozenSet}
"""Types that cannot be called, nor be arguments, except tuple."""


def refuse(message: str) -> NoReturn:
    """Raise the error for a value that a pickle cannot encode."""
    raise PickleError(message)


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


def leaf(value: Any) -> bytes:
    """Return the opcode of a value that has no parts."""
    if value is None:
        return CODE["NONE"]
    if type(value) is tuple:
        return CODE["EMPTY_TUPLE"]
    if value is True or value is False:
        return CODE["NEWTRUE" if value else "NEWFALSE"]
    if type(value) is float:
        return CODE["BINFLOAT"] + _FLOAT8(value)
    if 0 <= value <= MAX8:
        return CODE["BININT1"] + bytes([value])
    if 0 <= value <= MAX16:
        return CODE["BININT2"] + UINT2(value)
    if value in INT4:
        return CODE["BININT"] + INT4_PACK(value)
    raw: bytes = value.to_bytes((value.bit_length() >> 3) + 1, "little", signed=True)
    if value < 0 and len(raw) > 1 and raw[-1] == MAX8 and raw[-2] & 0x80:
        raw = raw[:-1]  # as CPython's encode_long: -128 takes one byte
    if len(raw) <= MAX8:
        return CODE["LONG1"] + bytes([len(raw)]) + raw
    return CODE["LONG4"] + INT4_PACK(len(raw)) + raw


def name_lines(name: Global, protocol: int) -> bytes:
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


def check_call(call: Call) -> None:
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

_BATCH: Final = 1000
"""Items after one mark, as in CPython's pickler: the stack stays small."""
_MAX32: Final = 0xFFFFFFFF
_UINT4: Final = Struct("<I").pack
_UINT8: Final = Struct("<Q").pack
_TUPLES: Final = ("EMPTY_TUPLE", "TUPLE1", "TUPLE2", "TUPLE3")
_TWICE: Final = 2
_ON_DEMAND: Final = frozenset({str, tuple, Global, FrozenSet})


def dumps(tree: object, *, protocol: Protocol = 4) -> bytes:
    r"""Encode an inert tree, the mirror of :func:`sbformat.pkl.loads`.

    >>> dumps([1, None])
    b'\x80\x04]\x94(K\x01Ne.'

    :param tree: plain values and nodes of :mod:`sbformat.pkl.tree`
    :param protocol: 2, 4 or 5
    """
    return encode_pickle(tree, protocol=protocol)


def encode_pickle(
    tree: object,
    *,
    protocol: Protocol = 4,
    reduce: Callable[[object], object] | None = None,
    setters: Mapping[int, Sequence[Call]] | None = None,
) -> bytes:
    """Encode an inert tree.

    :param tree: plain values and nodes of :mod:`sbformat.pkl.tree`; parts that are shared stay shared
    :param protocol: 2, 4 or 5
    :param reduce: called once with each value of another type; returns a tree to write instead, which may contain such
        values again, like a pickler's ``reducer_override``
    :param setters: calls that follow a node and whose result is dropped, by the ``id()`` of the node; cloudpickle sets
        the state of functions and classes in this way
    :return: one pickle. Decoding it gives an equal tree, except for types that the protocol encodes as calls:
        bytearrays below 5, bytes and sets in 2
    """
    if protocol not in _PROTOCOLS:
        message = f"expected one of the protocols {', '.join(map(str, _PROTOCOLS))}, got {protocol!r}"
        raise ValueError(message)
    counter = _Pass(protocol, reduce, None, setters or {})
    counter.run(tree)
    return _Pass(protocol, reduce, counter, setters or {}).run(tree)


def _key(value: object) -> object:
    """Return the key of a value in the memo: text, bytes and names are equal by value, others by identity."""
    kind = type(value)
    if kind is str or kind is bytes:
        return value
    if kind is Global and not value.updates:  # type: ignore[attr-defined]
        return value
    return id(value)


def _bytes(value: bytes) -> bytes:
    """Encode bytes, without a memo entry: numpy lets two arrays of the same bytes object share their memory."""
    if len(value) <= MAX8:
        return CODE["SHORT_BINBYTES"] + bytes([len(value)]) + value
    if len(value) <= _MAX32:
        return CODE["BINBYTES"] + _UINT4(len(value)) + value
    return CODE["BINBYTES8"] + _UINT8(len(value)) + value


class _Pass:
    """One walk over the tree. The first counts how often each value occurs, the second writes.

    :param counted: the first pass; None in the first pass
    """

    def __init__(
        self,
        protocol: int,
        reduce: Callable[[object], object] | None,
        counted: _Pass | None,
        setters: Mapping[int, Sequence[Call]],
    ) -> None:
        self.protocol = protocol
        self.setters = setters
        self.counted = counted
        self.met: dict[object, int] = {}
        """The number of occurrences of a value, by its key."""
        self.memo: dict[object, int | None] = {}
        """The memo index of a value; None for a value that occurs once."""
        self.indexes = 0
        self.open: dict[object, int] = {}
        self.reduce = reduce
        self.writers = _PROTOCOLS[protocol]
        self.reduced: dict[object, tuple[object, object]] = counted.reduced if counted else {}
        """The tree that replaces a value of another type, and the value, to keep it and its ``id()`` alive."""
        self.out = bytearray()

    def run(self, tree: object) -> bytes:
        """Walk the tree without recursion, and return the pickle."""
        self.out += CODE["PROTO"] + bytes([self.protocol])
        todo: list[Steps] = [iter((tree,))]
        while todo:
            for value in todo[-1]:
                steps = self.save(value)
                if steps is not None:
                    todo.append(steps)
                    break
            else:
                todo.pop()
        self.out += CODE["STOP"]
        return bytes(self.out)

    def save(self, value: object) -> Steps | None:
        """Write a leaf or a reference to the memo; return the steps that write any other value."""
        kind = type(value)
        if kind in LEAVES or (kind is tuple and not value):
            self.out += leaf(value)
            return None
        if kind is bytes and self.protocol >= 4:
            self.out += _bytes(value)  # type: ignore[arg-type]
            return None
        write = self.writers.get(kind)
        if write is None:
            return self.save(self._replace(value))
        key = _key(value)
        if self.counted is None:
            self.met[key] = self.met.get(key, 0) + 1
        index = self.memo.get(key)
        if index is not None:
            self._get(index)
            return None
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
                message = f"an inert tree cannot contain a {type(value).__name__}"
                raise TypeError(message)
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
        if self.protocol >= 4:
            self.out += CODE["MEMOIZE"]
        elif index <= MAX8:
            self.out += CODE["BINPUT"] + bytes([index])
        else:
            self.out += CODE["LONG_BINPUT"] + _UINT4(index)

    def _get(self, index: int) -> None:
        if index <= MAX8:
            self.out += CODE["BINGET"] + bytes([index])
        else:
            self.out += CODE["LONG_BINGET"] + _UINT4(index)

    def is_written(self, value: object, parts: int) -> bool:
        """Return whether one of its parts contains this value and wrote it; then drop the parts and refer to it."""
        index = self.memo.get(_key(value))
        if index is None:
            return False
        self.out += CODE["POP"] * parts
        self._get(index)
        return True

    # -- text and bytes -------------------------------------------------------------------------------

    def save_text(self, value: str) -> Steps:
        """Write text; lone surrogates are allowed."""
        try:
            raw = value.encode()
        except UnicodeEncodeError:
            raw = value.encode("utf-8", "surrogatepass")
            if re.search(SURROGATE_PAIR, value):
                refuse("a pickle cannot contain a text with a pair of surrogates, which is one character in UTF-16")
        if self.protocol >= 4 and len(raw) <= MAX8:
            self.out += CODE["SHORT_BINUNICODE"] + bytes([len(raw)])
        elif len(raw) <= _MAX32:
            self.out += CODE["BINUNICODE"] + _UINT4(len(raw))
        elif self.protocol >= 4:
            self.out += CODE["BINUNICODE8"] + _UINT8(len(raw))
        else:
            refuse("protocol 2 cannot encode a text of 4 GiB")
        self.out += raw
        self.put(value)
        yield from ()

    def save_bytearray(self, value: bytearray) -> Steps:
        """Write a bytearray (protocol 5)."""
        self.out += CODE["BYTEARRAY8"] + _UINT8(len(value)) + value
        self.put(value)
        yield from ()

    # -- containers -----------------------------------------------------------------------------------

    def save_tuple(self, value: tuple[object, ...]) -> Steps:
        """Write a tuple; there are opcodes for up to three items."""
        if len(value) >= len(_TUPLES):
            return self.save_marked(value, "TUPLE")
        return self.save_short_tuple(value)

    def save_short_tuple(self, value: tuple[object, ...]) -> Steps:
        """Write a tuple without a mark."""
        yield from value
        if not self.is_written(value, len(value)):
            self.out += CODE[_TUPLES[len(value)]]
            self.put(value)

    def save_marked(self, value: tuple[object, ...], opcode: str) -> Steps:
        """Write items after a mark, and the opcode that makes one value of them."""
        self.out += CODE["MARK"]
        yield from value
        if self.memo.get(_key(value)) is None:
            self.out += CODE[opcode]
            self.put(value)
        else:  # one of its parts contained it, and wrote it
            self.out += CODE["POP_MARK"]
            self.is_written(value, 0)

    def save_list(self, value: list[object]) -> Steps:
        """Write a list, first empty, then its items: it may contain itself."""
        self.out += CODE["EMPTY_LIST"]
        self.put(value)
        yield from self.batches(value, "APPENDS", "APPEND")

    def save_dict(self, value: Dict) -> Steps:
        """Write a dict in the same way."""
        self.out += CODE["EMPTY_DICT"]
        self.put(value)
        yield from self.batches(value, "SETITEMS", "SETITEM")

    def save_set(self, value: Set) -> Steps:
        """Write a set in the same way."""
        self.out += CODE["EMPTY_SET"]
        self.put(value)
        yield from self.batches(value, "ADDITEMS", None)

    def save_frozenset(self, value: FrozenSet) -> Steps:
        """Write a frozenset in the same way as a tuple."""
        return self.save_marked(value, "FROZENSET")

    def batches(self, items: Any, many: str, one: str | None, batch: int = _BATCH) -> Steps:
        """Write items or pairs in batches, each after a mark."""
        for start in range(0, len(items), batch):
            part = items[start : start + batch]
            is_alone = len(part) == 1 and one is not None
            if not is_alone:
                self.out += CODE["MARK"]
            for item in part:
                if many == "SETITEMS":
                    yield item[0]
                    yield item[1]
                else:
                    yield item
            self.out += CODE[one if is_alone and one else many]

    # -- nodes ----------------------------------------------------------------------------------------

    def save_global(self, value: Global) -> Steps:
        """Write a name; below protocol 3 with its name in Python 2."""
        if self.protocol >= 4:
            yield value.module
            yield value.name
            self.out += CODE["STACK_GLOBAL"]
        else:
            self.out += CODE["GLOBAL"] + name_lines(value, self.protocol)
        self.put(value)
        yield from self.updates(value)

    def save_call(self, value: Call) -> Steps:
        """Write the parts of a call, its opcode, and then its changes."""
        how = value.how
        check_call(value)
        if how in ("INST", "OBJ"):
            self.out += CODE["MARK"]
            if how == "OBJ":
                yield value.func
            yield from value.args  # type: ignore[misc]
            if self.memo.get(_key(value)) is not None:  # one of its arguments contained it, and wrote it
                self.out += CODE["POP_MARK"]
                self.is_written(value, 0)
                return
            self.out += CODE[how] + (name_lines(value.func, self.protocol) if how == "INST" else b"")  # type: ignore[arg-type]
        else:
            parts = [value.func, value.args]
            if how == "STACK_GLOBAL":
                parts = list(value.args)  # type: ignore[call-overload]
            elif how == "NEWOBJ_EX":
                parts.append(value.kwargs)
            if self.protocol < 4 and how in ("NEWOBJ_EX", "STACK_GLOBAL"):
                refuse(f"protocol {self.protocol} has no {how}")
            yield from parts
            if self.is_written(value, len(parts)):
                return
            self.out += CODE[how]
        self.put(value)
        yield from self.updates(value)

    def save_persistent(self, value: Persistent) -> Steps:
        """Write a persistent reference; its id is a value like any other."""
        yield value.id
        if self.is_written(value, 1):
            return
        self.out += CODE["BINPERSID"]
        self.put(value)
        yield from self.updates(value)

    def save_extension(self, value: Extension) -> Steps:
        """Write a number of the extension registry."""
        code = value.code
        if 0 < code <= MAX8:
            self.out += CODE["EXT1"] + bytes([code])
        elif MAX8 < code <= MAX16:
            self.out += CODE["EXT2"] + UINT2(code)
        elif MAX16 < code < INT4.stop:
            self.out += CODE["EXT4"] + INT4_PACK(code)
        else:
            refuse(f"expected an extension code above 0 and below 2**31, got {code}")
        self.put(value)
        yield from self.updates(value)

    def updates(self, value: Node) -> Steps:
        """Write the changes of a node, one opcode for each: the same number of method calls."""
        for update in value.updates or ():
            yield from self._update(update)
        for setter in self.setters.get(id(value), ()):
            yield setter
            self.out += CODE["POP"]

    def _update(self, update: Update) -> Steps:
        if update.how == "BUILD":
            yield update.value
            self.out += CODE["BUILD"]
            return
        items: Any = update.value
        if update.how == "ADDITEMS" and self.protocol < 4:
            refuse(f"protocol {self.protocol} has no ADDITEMS")
        if not items:
            self.out += CODE["MARK"] + CODE[update.how]
            return
        one = {"APPENDS": "APPEND", "SETITEMS": "SETITEM"}.get(update.how)
        yield from self.batches(items, update.how, one, batch=len(items))


_OLD_WRITERS: Final[dict[type, Callable[[_Pass, Any], Steps]]] = {
    str: _Pass.save_text,
    tuple: _Pass.save_tuple,
    list: _Pass.save_list,
    Dict: _Pass.save_dict,
    Global: _Pass.save_global,
    Call: _Pass.save_call,
    Persistent: _Pass.save_persistent,
    Extension: _Pass.save_extension,
}
_WRITERS: Final[dict[type, Callable[[_Pass, Any], Steps]]] = {
    **_OLD_WRITERS,
    Set: _Pass.save_set,
    FrozenSet: _Pass.save_frozenset,
}
_PROTOCOLS: Final = {2: _OLD_WRITERS, 4: _WRITERS, 5: {**_WRITERS, bytearray: _Pass.save_bytearray}}
"""The types that have opcodes, with their writers, by protocol."""
