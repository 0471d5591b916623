"""The inert tree to a pickle: the mirror of ``decode`` (FORMAT.md 12.3).

Protocol 2 is what a ``.pth`` holds, and only opcodes are written that torch's ``weights_only`` unpickler knows, as far
as the tree allows; protocol 4 is for blobs, 5 for those with bytearrays that are to stay plain. Equal trees give equal
bytes: text and names are put into the memo when they are needed a second time, whoever holds them; other values when
the tree holds the same one twice.
"""

from __future__ import annotations

from _compat_pickle import REVERSE_IMPORT_MAPPING, REVERSE_NAME_MAPPING
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeAlias

from sbformat.errors import PickleError, quote
from sbformat.pkl.opcodes import OPCODES
from sbformat.pkl.state import FIX_IMPORTS_BELOW, rename
from sbformat.pkl.tree import Call, Dict, Extension, FrozenSet, Global, Node, Persistent, Set

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sbformat.pkl.tree import Update

Protocol: TypeAlias = Literal[2, 4, 5]
Steps: TypeAlias = "Iterator[object]"
"""Writes a value's opcodes, and yields each part where it has to be written."""

_CODE: Final = {row.name: bytes([row.code]) for row in OPCODES}
_BATCH: Final = 1000
"""Items between two marks, as CPython's pickler has it: the stack stays small."""
_MAX8: Final = 0xFF
_MAX16: Final = 0xFFFF
_MAX32: Final = 0xFFFFFFFF
_INT4: Final = range(-(2**31), 2**31)
_UINT2: Final = Struct("<H").pack
_UINT4: Final = Struct("<I").pack
_UINT8: Final = Struct("<Q").pack
_INT4_PACK: Final = Struct("<i").pack
_FLOAT8: Final = Struct(">d").pack
_LEAVES: Final = frozenset({type(None), bool, int, float})
_VALUES: Final = _LEAVES | {str, bytes, bytearray, tuple, list, Dict, Set, FrozenSet}
"""What nothing can call, and what is no arguments but for a tuple."""
_TUPLES: Final = ("EMPTY_TUPLE", "TUPLE1", "TUPLE2", "TUPLE3")
_TWICE: Final = 2


def encode(tree: object, *, protocol: Protocol = 4, reduce: Callable[[object], object] | None = None) -> bytes:
    """Encode an inert tree.

    :param tree: plain values and nodes of :mod:`sbformat.pkl.tree`; parts that are shared stay shared
    :param protocol: 2, 4 or 5
    :param reduce: called once with each value of another type; returns what stands for it, which may hold such values
        again, as a pickler's ``reducer_override`` does
    :return: one pickle; decoding it gives an equal tree, but for what the protocol spells as a call: bytearrays below
        5, bytes and sets in 2
    :raises PickleError: for names, calls and numbers that the protocol cannot say or a reader would refuse
    :raises TypeError: for a value that is no part of a tree, without ``reduce``
    """
    if protocol not in _PROTOCOLS:
        message = f"protocol must be one of {', '.join(map(str, _PROTOCOLS))}, not {protocol!r}"
        raise ValueError(message)
    counter = _Pass(protocol, reduce, None)
    counter.run(tree)
    return _Pass(protocol, reduce, counter).run(tree)


def _refuse(message: str) -> NoReturn:
    raise PickleError(message)


def _key(value: object) -> object:
    """What makes two values one in the memo: text, bytes and names by what they say, others by identity."""
    kind = type(value)
    if kind is str or kind is bytes:
        return value
    if kind is Global and not value.updates:  # type: ignore[attr-defined]
        return value
    return id(value)


class _Pass:
    """One walk over the tree. The first counts how often each value is met, the second writes.

    :param counted: the first pass; None for that itself
    """

    def __init__(self, protocol: int, reduce: Callable[[object], object] | None, counted: _Pass | None) -> None:
        self.protocol = protocol
        self.counted = counted
        self.met: dict[object, int] = {}
        """How often a value was met, by its key."""
        self.memo: dict[object, int | None] = {}
        """The memo's index of a value; None for one that is needed once."""
        self.indexes = 0
        self.open: dict[object, int] = {}
        self.reduce = reduce
        self.writers = _PROTOCOLS[protocol]
        self.reduced: dict[object, tuple[object, object]] = counted.reduced if counted else {}
        """What stands for a value of another type, and that value itself, so that no other gets its ``id()``."""
        self.out = bytearray()

    def run(self, tree: object) -> bytes:
        """Walk the tree with a stack of its own, and return the pickle."""
        self.out += _CODE["PROTO"] + bytes([self.protocol])
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
        """Write a leaf, or what the memo holds, at once; return the steps of anything else."""
        kind = type(value)
        if kind in _LEAVES or (kind is tuple and not value):
            self.out += _leaf(value)
            return None
        write = self.writers.get(kind)
        if write is None:
            return self.save(self._stand_in(value))
        key = _key(value)
        if self.counted is None:
            self.met[key] = self.met.get(key, 0) + 1
        index = self.memo.get(key)
        if index is not None:
            self._get(index)
            return None
        self.open[key] = self.open.get(key, 0) + 1
        if self.open[key] > _TWICE:
            _refuse("a value holds itself in a way that no pickle can say")
        return write(self, value)

    def _stand_in(self, value: object) -> object:
        """Return what stands for a value that has no opcode, the same in both passes."""
        key = _key(value)
        known = self.reduced.get(key)
        if known is None:
            spell = _SPELLED.get(type(value)) or self.reduce
            if spell is None:
                message = f"an inert tree holds no {type(value).__name__}"
                raise TypeError(message)
            known = self.reduced[key] = spell(value), value
        return known[0]

    # -- memo -----------------------------------------------------------------------------------------

    def put(self, value: object) -> None:
        """Put what was just written into the memo, if it is needed again."""
        key = _key(value)
        if self.counted is not None and self.counted.met.get(key, 0) < _TWICE:
            self.memo[key] = None
            return
        index = self.memo[key] = self.indexes
        self.indexes += 1
        if self.protocol >= 4:
            self.out += _CODE["MEMOIZE"]
        elif index <= _MAX8:
            self.out += _CODE["BINPUT"] + bytes([index])
        else:
            self.out += _CODE["LONG_BINPUT"] + _UINT4(index)

    def _get(self, index: int) -> None:
        if index <= _MAX8:
            self.out += _CODE["BINGET"] + bytes([index])
        else:
            self.out += _CODE["LONG_BINGET"] + _UINT4(index)

    def taken(self, value: object, parts: int) -> bool:
        """Say whether a part that holds this value wrote it already; then drop the parts and take that one."""
        index = self.memo.get(_key(value))
        if index is None:
            return False
        self.out += _CODE["POP"] * parts
        self._get(index)
        return True

    # -- text and bytes -------------------------------------------------------------------------------

    def save_text(self, value: str) -> Steps:
        """Unicode text; surrogates pass."""
        raw = value.encode("utf-8", "surrogatepass")
        if self.protocol >= 4 and len(raw) <= _MAX8:
            self.out += _CODE["SHORT_BINUNICODE"] + bytes([len(raw)])
        elif len(raw) <= _MAX32:
            self.out += _CODE["BINUNICODE"] + _UINT4(len(raw))
        elif self.protocol >= 4:
            self.out += _CODE["BINUNICODE8"] + _UINT8(len(raw))
        else:
            _refuse("protocol 2 holds no text of 4 GiB")
        self.out += raw
        self.put(value)
        yield from ()

    def save_bytes(self, value: bytes) -> Steps:
        """Bytes, since protocol 4."""
        if len(value) <= _MAX8:
            self.out += _CODE["SHORT_BINBYTES"] + bytes([len(value)])
        elif len(value) <= _MAX32:
            self.out += _CODE["BINBYTES"] + _UINT4(len(value))
        else:
            self.out += _CODE["BINBYTES8"] + _UINT8(len(value))
        self.out += value
        self.put(value)
        yield from ()

    def save_bytearray(self, value: bytearray) -> Steps:
        """A bytearray, since protocol 5."""
        self.out += _CODE["BYTEARRAY8"] + _UINT8(len(value)) + value
        self.put(value)
        yield from ()

    # -- containers -----------------------------------------------------------------------------------

    def save_tuple(self, value: tuple[object, ...]) -> Steps:
        """Up to three items have opcodes of their own."""
        if len(value) >= len(_TUPLES):
            return self.save_marked(value, "TUPLE")
        return self.save_short_tuple(value)

    def save_short_tuple(self, value: tuple[object, ...]) -> Steps:
        """No mark."""
        yield from value
        if not self.taken(value, len(value)):
            self.out += _CODE[_TUPLES[len(value)]]
            self.put(value)

    def save_marked(self, value: tuple[object, ...], opcode: str) -> Steps:
        """Items behind a mark, made into one value when they are all there."""
        self.out += _CODE["MARK"]
        yield from value
        if self.memo.get(_key(value)) is None:
            self.out += _CODE[opcode]
            self.put(value)
        else:  # a part of it held it, and wrote it
            self.out += _CODE["POP_MARK"]
            self.taken(value, 0)

    def save_list(self, value: list[object]) -> Steps:
        """Empty first, then filled: it may hold itself."""
        self.out += _CODE["EMPTY_LIST"]
        self.put(value)
        yield from self.batches(value, "APPENDS", "APPEND")

    def save_dict(self, value: Dict) -> Steps:
        """As a list."""
        self.out += _CODE["EMPTY_DICT"]
        self.put(value)
        yield from self.batches(value, "SETITEMS", "SETITEM")

    def save_set(self, value: Set) -> Steps:
        """As a list."""
        self.out += _CODE["EMPTY_SET"]
        self.put(value)
        yield from self.batches(value, "ADDITEMS", None)

    def save_frozenset(self, value: FrozenSet) -> Steps:
        """As a tuple."""
        return self.save_marked(value, "FROZENSET")

    def batches(self, items: Any, many: str, one: str | None, batch: int = _BATCH) -> Steps:  # noqa: ANN401
        """Write items, or pairs, between marks."""
        for start in range(0, len(items), batch):
            part = items[start : start + batch]
            is_alone = len(part) == 1 and one is not None
            if not is_alone:
                self.out += _CODE["MARK"]
            for item in part:
                if many == "SETITEMS":
                    yield item[0]
                    yield item[1]
                else:
                    yield item
            self.out += _CODE[one if is_alone and one else many]

    # -- nodes ----------------------------------------------------------------------------------------

    def save_global(self, value: Global) -> Steps:
        """A name; below protocol 3 as Python 2 knew it."""
        if self.protocol >= 4:
            yield value.module
            yield value.name
            self.out += _CODE["STACK_GLOBAL"]
        else:
            self.out += _CODE["GLOBAL"] + _lines(value, self.protocol)
        self.put(value)
        yield from self.updates(value)

    def save_call(self, value: Call) -> Steps:
        """The opcode that decoding found, on its parts; then the changes."""
        how = value.how
        _check_call(value)
        if how in ("INST", "OBJ"):
            self.out += _CODE["MARK"]
            if how == "OBJ":
                yield value.func
            yield from value.args  # type: ignore[misc]
            if self.memo.get(_key(value)) is not None:  # an argument of it held it, and wrote it
                self.out += _CODE["POP_MARK"]
                self.taken(value, 0)
                return
            self.out += _CODE[how] + (_lines(value.func, self.protocol) if how == "INST" else b"")  # type: ignore[arg-type]
        else:
            parts = [value.func, value.args]
            if how == "STACK_GLOBAL":
                parts = list(value.args)  # type: ignore[call-overload]
            elif how == "NEWOBJ_EX":
                parts.append(value.kwargs)
            if self.protocol < 4 and how in ("NEWOBJ_EX", "STACK_GLOBAL"):
                _refuse(f"protocol {self.protocol} has no {how}")
            yield from parts
            if self.taken(value, len(parts)):
                return
            self.out += _CODE[how]
        self.put(value)
        yield from self.updates(value)

    def save_persistent(self, value: Persistent) -> Steps:
        """A reference; its id is a value like any other."""
        yield value.id
        if self.taken(value, 1):
            return
        self.out += _CODE["BINPERSID"]
        self.put(value)
        yield from self.updates(value)

    def save_extension(self, value: Extension) -> Steps:
        """A number of the extension registry."""
        code = value.code
        if 0 < code <= _MAX8:
            self.out += _CODE["EXT1"] + bytes([code])
        elif _MAX8 < code <= _MAX16:
            self.out += _CODE["EXT2"] + _UINT2(code)
        elif _MAX16 < code < _INT4.stop:
            self.out += _CODE["EXT4"] + _INT4_PACK(code)
        else:
            _refuse(f"{code} is no extension code")
        self.put(value)
        yield from self.updates(value)

    def updates(self, value: Node) -> Steps:
        """What was done to a node, each change by one opcode: a method is called as often as it was."""
        for update in value.updates or ():
            yield from self._update(update)

    def _update(self, update: Update) -> Steps:
        if update.how == "BUILD":
            yield update.value
            self.out += _CODE["BUILD"]
            return
        items: Any = update.value
        if update.how == "ADDITEMS" and self.protocol < 4:
            _refuse(f"protocol {self.protocol} has no ADDITEMS")
        if not items:
            self.out += _CODE["MARK"] + _CODE[update.how]
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
    bytes: _Pass.save_bytes,
    Set: _Pass.save_set,
    FrozenSet: _Pass.save_frozenset,
}
_PROTOCOLS: Final = {2: _OLD_WRITERS, 4: _WRITERS, 5: {**_WRITERS, bytearray: _Pass.save_bytearray}}
"""What has opcodes of its own, by protocol."""


def _check_call(call: Call) -> None:
    """Refuse a call that no reader takes (FORMAT.md 5.1), or reads as something else."""
    how, func, args = call.how, call.func, call.args
    if how == "STACK_GLOBAL":
        parts = args if type(args) is tuple and len(args) == 2 else (None,)
        if any(type(part) in _VALUES - {str} for part in parts) or set(map(type, parts)) == {str}:
            _refuse("a computed name is made of two texts or nodes, at least one of them a node")
        return
    if type(func) in _VALUES or (type(args) in _VALUES and type(args) is not tuple):
        _refuse(f"{how} calls a node, with a tuple or a node")
    if how == "NEWOBJ_EX" and type(call.kwargs) in _VALUES and type(call.kwargs) is not Dict:
        _refuse("NEWOBJ_EX takes a dict or a node as keywords")
    if how in ("INST", "OBJ") and type(args) is not tuple:
        _refuse(f"{how} calls with arguments that stand on the stack")
    if how == "INST" and (type(func) is not Global or func.updates):
        _refuse("INST calls a name that was not changed")


# -- values that a protocol has no opcode for, as CPython spells them ---------------------------------


def _called(name: str, *args: object) -> Call:
    return Call("REDUCE", Global("builtins", name), args)


def _bytes_as_text(value: bytes) -> Call:
    if not value:
        return _called("bytes")
    return Call("REDUCE", Global("_codecs", "encode"), (value.decode("latin-1"), "latin1"))


_SPELLED: Final[dict[type, Callable[[Any], Call]]] = {
    bytes: _bytes_as_text,
    bytearray: lambda value: (
        _called("bytearray", value.decode("latin-1"), "latin-1") if value else _called("bytearray")
    ),
    Set: lambda value: _called("set", list(value)),
    FrozenSet: lambda value: _called("frozenset", list(value)),
}


def _leaf(value: Any) -> bytes:  # noqa: ANN401 -- None, bool, int, float or ()
    if value is None:
        return _CODE["NONE"]
    if type(value) is tuple:
        return _CODE["EMPTY_TUPLE"]
    if value is True or value is False:
        return _CODE["NEWTRUE" if value else "NEWFALSE"]
    if type(value) is float:
        return _CODE["BINFLOAT"] + _FLOAT8(value)
    if 0 <= value <= _MAX8:
        return _CODE["BININT1"] + bytes([value])
    if 0 <= value <= _MAX16:
        return _CODE["BININT2"] + _UINT2(value)
    if value in _INT4:
        return _CODE["BININT"] + _INT4_PACK(value)
    raw: bytes = value.to_bytes((value.bit_length() >> 3) + 1, "little", signed=True)
    if value < 0 and len(raw) > 1 and raw[-1] == _MAX8 and raw[-2] & 0x80:
        raw = raw[:-1]  # as CPython's encode_long: -128 takes one byte
    if len(raw) <= _MAX8:
        return _CODE["LONG1"] + bytes([len(raw)]) + raw
    return _CODE["LONG4"] + _INT4_PACK(len(raw)) + raw


def _lines(name: Global, protocol: int) -> bytes:
    """Module and name as two lines, in Python 2's spelling below protocol 3 (FORMAT.md 5.4)."""
    module, attribute = pair = name.pair
    if protocol < FIX_IMPORTS_BELOW:
        old = REVERSE_NAME_MAPPING.get(pair) or (REVERSE_IMPORT_MAPPING.get(module, module), attribute)
        spelling = next((known for known in (old, pair) if rename(*known) == pair), None)
        if spelling is None:
            _refuse(f"protocol {protocol} cannot say the name {quote(name)}: it is read as Python 2's")
        module, attribute = spelling
    text = f"{module}\n{attribute}\n"
    if text.count("\n") != 2:
        _refuse(f"a name holds a newline: {quote(name)}")
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        _refuse(f"a name holds a lone surrogate: {quote(name)}")
