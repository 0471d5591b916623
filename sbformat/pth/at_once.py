"""State dicts of modules and optimizers as torch has written them since 1.6, read at once (FORMAT.md 6.6).

Nearly every ``policy.pth`` is one dict of plain tensors and its ``_metadata``, nearly every ``*.optimizer.pth`` a dict
of dicts of a few, and the pickle of each tensor is the same run of opcodes. Patterns read these runs, and what they
capture is checked in columns. With the machine, the tree and the walk left out, a policy of 13 tensors takes 0.1 ms
instead of 0.2, and its archive 0.27 instead of 0.4.

What is read here means what it means one opcode after the other: each pattern takes whole opcodes from where an opcode
begins, texts are as long as they say, and the memo is filled in order and read where it was filled. Whatever differs in
the least, and whatever is wrong, gives None: then :mod:`sbformat.pkl.decode` and ``build`` read it, and they alone say
what a file may hold.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import SbformatError
from sbformat.globals.torch import STORAGES
from sbformat.limits import Budget
from sbformat.pkl.decode import decode_part
from sbformat.pth.build import build_values
from sbformat.pth.constructors import PLAIN, extent_of, fitted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sbformat.limits import Limits
    from sbformat.pth.context import Scope
    from sbformat.pth.values import TensorInfo

# -- the patterns: opcodes by their letters, what they take in groups ---------------------------------

_PUT: Final = rb"(q.|r...\0)"
"""BINPUT, and LONG_BINPUT of an index that a text is no part of."""
_GET: Final = rb"(h.|j....)"
"""BINGET, LONG_BINGET."""
_NUMBER: Final = rb"(K.|M..|J...[\0-\x7f])"
"""BININT1, BININT2, and BININT of what is not negative."""
_NUMBERS: Final = rb"(?:(\(?(?:K.|M..|J...[\0-\x7f]){1,8}[t\x85-\x87])" + _PUT + rb"|\))"
"""Numbers and TUPLE1 to 3, or MARK, numbers and TUPLE, memoized; or EMPTY_TUPLE, which is not."""
_NAME: Final = rb"X(.)\0\0\0([ -~]*)"
"""BINUNICODE of printable ASCII; its end is where the rest matches, and must be where its length says."""
_STORAGE: Final = (
    rb"(?:" + _GET + rb"|ctorch\n(\w+)\n" + _PUT + rb")"  # its class
    rb"(?:" + _GET + rb"|X(.)\0\0\0([0-9]+)" + _PUT + rb")"  # its key
    rb"(?:" + _GET + rb"|X(.)\0\0\0([a-z0-9:]+)" + _PUT + rb")"  # its location
    + _NUMBER + rb"t" + _PUT + rb"Q"  # its size; the tuple, and BINPERSID of it
)  # fmt: skip
_VIEW: Final = _NUMBER + _NUMBERS + _NUMBERS + rb"([\x88\x89])"
"""Offset, shape, strides, requires_grad."""
_CALLED: Final = rb"\)R" + _PUT + rb"t" + _PUT + rb"R" + _PUT
"""The call of OrderedDict for no hooks, the tuple of all arguments, and the call."""

_MODULE: Final = b"\x80\x02ccollections\nOrderedDict\nq\0)Rq\1("
_ENTRY: Final = re.compile(
    rb"(" + _NAME + _PUT + rb"(?:h\x03|ctorch\._utils\n_rebuild_tensor_v2\n(q\x03))\(\("
    rb"(?:h\x04|X\x07\0\0\0storage(q\x04))" + _STORAGE + _VIEW + rb"h\0" + _CALLED + rb")",
    re.DOTALL,
)  # fmt: skip
"""A tensor of a module; the first spells what the others refer to."""
_METADATA: Final = re.compile(rb"u}" + _PUT + rb"X\x09\0\0\0_metadata" + _PUT + rb"h\0\)R" + _PUT + rb"\(", re.DOTALL)
_VERSION: Final = re.compile(
    rb"(" + _NAME + _PUT + rb"}" + _PUT + rb"(?:X\x07\0\0\0version" + _PUT + rb"|" + _GET + rb")K(.)s)", re.DOTALL
)
"""A line of ``_metadata``: a module's path and its version."""
_MODULE_STOP: Final = b"usb."

_OPTIMIZER: Final = b"\x80\x02}q\0(X\x05\0\0\0stateq\1}q\2("
_MOMENT: Final = re.compile(
    rb"((u?)(?:" + _NUMBER + rb"}" + _PUT + rb"\()?(?:" + _GET + rb"|" + _NAME + _PUT + rb")"  # a parameter; a name
    rb"(?:" + _NUMBER + rb"|(?:" + _GET + rb"|ctorch\._utils\n_rebuild_tensor_v2\n" + _PUT + rb")\(\("
    rb"(?:" + _GET + rb"|X\x07\0\0\0storage" + _PUT + rb")" + _STORAGE + _VIEW
    + rb"(?:" + _GET + rb"|ccollections\nOrderedDict\n" + _PUT + rb")" + _CALLED + rb"))",
    re.DOTALL,
)  # fmt: skip
"""A number or tensor of an optimizer's state, with the parameter that it is the first of."""
_GROUPS: Final = b"uuX\x0c\0\0\0param_groups"
"""The end of the last parameter and of ``state``; the value that follows is left to the machine."""
_PLACE: Final = re.compile(_PUT, re.DOTALL)
_STOP: Final = b"u."

# -- columns: what the groups of a pattern are --------------------------------------------------------


def _tensor_columns(first: int) -> tuple[int, ...]:
    """Return where storage class, key, location, size, offset, shape, strides and flag stand, when they begin there."""
    return tuple(first + at for at in (0, 1, 2, 3, 5, 6, 7, 9, 10, 11, 13, 14, 16, 18))


_ENTRY_PUTS: Final = itemgetter(3, 4, 5, 8, 12, 16, 18, 21, 23, 25, 26, 27)
_ENTRY_TEXTS: Final = (1, 2), (10, 11), (14, 15)
"""Sizes of texts, and the texts."""
_ENTRY_TENSOR: Final = itemgetter(*_tensor_columns(6))
_VERSION_PUTS: Final = itemgetter(3, 4, 5)
_MOMENT_PUTS: Final = itemgetter(3, 7, 10, 12, 15, 19, 23, 25, 28, 30, 33, 34, 35, 36)
_MOMENT_TEXTS: Final = (5, 6), (17, 18), (21, 22)
_MOMENT_TENSOR: Final = itemgetter(*_tensor_columns(13))
_MOMENT_NAMES: Final = ((9, 10), (11, 12), (32, 33))
"""What refers to the constructor, the word and the class that the first tensor spells; and the memo's place for it."""

_DTYPES: Final = {
    name.encode("ascii"): dtype for (module, name), dtype in STORAGES.items() if module == "torch" and dtype in PLAIN
}
_MANY: Final = 1024
"""Entries of a memo whose opcodes are kept; for more they are made anew."""
_SHORT: Final = b"".join(b"q%c" % index for index in range(256))
_NUMBER_BYTES: Final = {0x4B: 2, 0x4D: 3, 0x4A: 5}
_MARK: Final = 0x28
_TUPLE: Final = 0x74
_TUPLE0: Final = 0x84
_TRUE: Final = b"\x88"
_DEPTH: Final = 6
"""Marks on the stack at once, and levels of the value, at most; so many at least must be allowed."""
_PASSING: Final = 32
"""Values that a tensor has on the stack at once, at most, before it is made."""
_RANK: Final = 8
_NAME_BYTES: Final = 255


def read_at_once(data: bytes, scope: Scope) -> Any:
    """Read the pickle of a module's or optimizer's state dict at once.

    :param data: the pickle
    :param scope: finds its storages; a new one, and of no use after None
    :return: what ``build_values`` makes of it; None when it is any other pickle, or there is something wrong with it
    """
    read = _module if data.startswith(_MODULE) else _optimizer if data.startswith(_OPTIMIZER) else None
    if read is None or not _has_room(scope.limits, len(data)):
        return None
    try:
        return read(data, scope)
    except (SbformatError, KeyError):
        return None


def _has_room(limits: Limits, size: int) -> bool:
    """Say whether no limit of a pickle can be met.

    An opcode has a byte at least and adds one to each count at most; what leaves a value on the stack here has two.
    """
    counts = limits.pickle_bytes, limits.pickle_opcodes, limits.pickle_nodes, limits.pickle_memo
    depths = limits.pickle_marks, limits.value_depth
    return (
        size <= min(counts)
        and size // 2 + _PASSING <= limits.pickle_stack
        and min(depths) >= _DEPTH
        and limits.tensor_rank >= _RANK
        and limits.tensor_name_bytes >= _NAME_BYTES
    )


# -- modules ------------------------------------------------------------------------------------------


def _module(data: bytes, scope: Scope) -> OrderedDict[str, TensorInfo] | None:
    begin = len(_MODULE)
    rows = _ENTRY.findall(data, begin)
    if not rows or not rows[0][4] or not rows[0][5]:
        return None
    columns = tuple(zip(*rows))
    end = _METADATA.match(data, begin + sum(map(len, columns[0])))
    if end is None:
        return None
    versions = _VERSION.findall(data, end.end())
    if data[begin:] != b"".join((*columns[0], end[0], *(row[0] for row in versions), _MODULE_STOP)):
        return None
    puts = chain(map(_ENTRY_PUTS, rows), (end.groups(),), map(_VERSION_PUTS, versions))
    if not _are_in_order(2, puts) or not _are_as_long(columns, _ENTRY_TEXTS):
        return None
    names, metadata = _names(columns[2]), _metadata(versions)
    if names is None or metadata is None:
        return None
    tensors = _tensors(zip(*_ENTRY_TENSOR(columns)), scope)
    scope.check_totals()
    made = OrderedDict(zip(names, tensors))
    made._metadata = metadata  # type: ignore[attr-defined]  # noqa: SLF001 -- torch's own name
    return made


def _metadata(rows: list[tuple[bytes, ...]]) -> OrderedDict[str, dict[str, int]] | None:
    """Return ``{path: {"version": n}}``; the first line spells the word, the others refer to it."""
    if len(rows) < 2:  # one line has no mark
        return None
    columns = tuple(zip(*rows))
    _, _, paths, _, _, words, references, versions = columns
    names = _names(paths) if _are_as_long(columns, ((1, 2),)) else None
    if names is None or not words[0] or any(words[1:]) or set(references[1:]) != {_getting(words[0])}:
        return None
    return OrderedDict(zip(names, [{"version": version[0]} for version in versions]))


# -- optimizers ---------------------------------------------------------------------------------------


def _optimizer(data: bytes, scope: Scope) -> dict[str, Any] | None:
    begin, stop = len(_OPTIMIZER), data.find(_GROUPS)
    rows = _MOMENT.findall(data, begin, stop) if stop > begin else []
    if not rows:
        return None
    columns = tuple(zip(*rows))
    ends = tuple(b"u" * bool(index) for index in columns[2][1:])  # of the parameter before
    if data[begin:stop] != b"".join(columns[0]) or columns[1] != (b"", *ends):
        return None
    parameters = [_number(index) for index in columns[2] if index]
    if not columns[2][0] or parameters != list(range(len(parameters))):
        return None
    if not _are_in_order(3, map(_MOMENT_PUTS, rows)) or not _are_as_long(columns, _MOMENT_TEXTS):
        return None
    tensors = [row for row in rows if not row[8]]
    if not all(_is_spelled_once([(row[get], row[put]) for row in tensors]) for get, put in _MOMENT_NAMES):
        return None
    state = _state(rows, _tensors(map(_MOMENT_TENSOR, tensors), scope))
    if state is None:
        return None
    entries = 3 + sum(map(bool, chain.from_iterable(map(_MOMENT_PUTS, rows))))
    groups = _param_groups(data[stop + len(_GROUPS) :], entries, scope)
    return None if groups is None else {"state": state, "param_groups": groups}


def _is_spelled_once(uses: list[tuple[bytes, bytes]]) -> bool:
    """Say whether the first use of a name spells it, and all others refer to that."""
    (_, place), *others = uses or [(b"", b"")]
    return bool(place) and set(others) <= {(_getting(place), b"")}


def _state(rows: list[tuple[bytes, ...]], tensors: list[TensorInfo]) -> dict[int, dict[str, Any]] | None:
    """Return ``{parameter: {name: number or tensor}}``.

    :raises KeyError: for a name by reference to something else
    """
    names: dict[bytes, str] = {}
    state: dict[int, dict[str, Any]] = {}
    moments: dict[str, Any] = {}
    made = iter(tensors)
    for row in rows:
        _, _, index, _, get_name, _, name, put_name, number, *_ = row
        if index:
            moments = state[len(state)] = {}
        if put_name:
            get_name = _getting(put_name)
            names[get_name] = name.decode("ascii")
        moments[names[get_name]] = _number(number) if number else next(made)
    return state if sum(map(len, state.values())) == len(rows) else None


def _param_groups(rest: bytes, entries: int, scope: Scope) -> list[Any] | None:
    """Return the value behind the text ``param_groups``: a list of plain values.

    The machine reads it as what it is, a value that takes nothing from the stack and nothing from the memo that is not
    its own, with the end of the outer dict behind it.

    :param rest: of the pickle, behind that text
    :param entries: of the memo, without that of the text
    :raises SbformatError: for what is no such value
    """
    put = _PLACE.match(rest)
    if put is None or put[0] != _place(entries) or not rest.endswith(_STOP):
        return None
    found = decode_part(rest[put.end() : -len(_STOP)], Budget(scope.limits), entries=entries + 1)
    if found.log or found.flags or type(found.value) is not list:
        return None
    groups: list[Any] = build_values(found, scope, "error")  # type: ignore[assignment]
    return groups


# -- columns, checked ---------------------------------------------------------------------------------


def _are_in_order(first: int, puts: Iterable[tuple[bytes, ...]]) -> bool:
    """Say whether every value that is memoized takes the memo's next place, from the first."""
    text = b"".join(map(b"".join, puts))
    stop = 2 * first + len(text)
    places = _SHORT if stop <= len(_SHORT) else _places(_MANY)
    return text == (places if stop <= len(places) else _places(_entries(stop)))[2 * first : stop]


def _entries(size: int) -> int:
    """Return how many entries of the memo so many bytes put there, from the first."""
    return size // 2 if size <= len(_SHORT) else 256 + (size - len(_SHORT)) // 5


@lru_cache(maxsize=1)
def _places(count: int) -> bytes:
    """Return the opcodes that put so many entries in order, when there are more than have a short form."""
    return _SHORT + b"".join(map(_place, range(256, count)))


def _are_as_long(columns: tuple[tuple[bytes, ...], ...], pairs: Iterable[tuple[int, int]]) -> bool:
    """Say whether texts have the sizes that stand before them, where there is a text."""
    return all(
        [len(text) for text, size in zip(columns[texts], columns[sizes]) if size] == list(b"".join(columns[sizes]))
        for sizes, texts in pairs
    )


def _names(texts: tuple[bytes, ...]) -> list[str] | None:
    """Return texts as keys when none stands twice."""
    return b"\n".join(texts).decode("ascii").split("\n") if len(set(texts)) == len(texts) else None


def _place(entry: int) -> bytes:
    """Return the opcode that puts an entry of the memo."""
    return b"q%c" % entry if entry < 256 else b"r" + entry.to_bytes(4, "little")


def _getting(put: bytes) -> bytes:
    """Return the opcode that gets what another one puts into the memo."""
    return (b"h" if len(put) == 2 else b"j") + put[1:]


# -- tensors ------------------------------------------------------------------------------------------


def _tensors(rows: Iterable[tuple[bytes, ...]], scope: Scope) -> list[TensorInfo]:
    """Return the tensors of all rows.

    :raises KeyError: for a name in full that is not known, and for a reference to something else than it should be
    :raises SbformatError: for what is wrong with a tensor
    """
    dtypes: dict[bytes, str] = {}
    keys: dict[bytes, str] = {}
    places: dict[bytes, str] = {}
    tensors = []
    for (
        get_class, cls, put_class, get_key, digits, put_key, get_place, place, put_place,
        numel, offset, sizes, steps, flag,
    ) in rows:  # fmt: skip
        if cls:
            dtypes[_getting(put_class)] = dtype = _DTYPES[cls]
        else:
            dtype = dtypes[get_class]
        if digits:
            keys[_getting(put_key)] = key = digits.decode("ascii")
        else:
            key = keys[get_key]
        if place:
            places[_getting(put_place)] = location = place.decode("ascii")
        else:
            location = places[get_place]
        storage = scope.named_storage(key, dtype, _number(numel), location)
        shape, strides, extent = _geometry(sizes, steps)
        own = (*shape,), (*strides,)  # whoever writes them again tells what is shared by its identity
        tensors.append(fitted(scope, storage, dtype, _number(offset), *own, extent, flag == _TRUE))
    return tensors


@lru_cache(maxsize=1024)
def _number(raw: bytes) -> int:
    return int.from_bytes(raw[1:], "little")


@lru_cache(maxsize=1024)
def _geometry(sizes: bytes, steps: bytes) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, int]]:
    """Return shape, strides and their extent: the same few stand in every policy."""
    shape, strides = _numbers(sizes), _numbers(steps)
    if len(shape) != len(strides):
        raise KeyError
    return shape, strides, extent_of(shape, strides)


def _numbers(raw: bytes) -> tuple[int, ...]:
    """Return the tuple that numbers become.

    :param raw: with the opcodes around them; nothing for EMPTY_TUPLE
    :raises KeyError: when it takes other values too, or leaves some
    """
    if not raw:
        return ()
    numbers = []
    at = int(raw[0] == _MARK)
    while at < len(raw) - 1:
        stop = at + _NUMBER_BYTES[raw[at]]
        numbers.append(_number(raw[at:stop]))
        at = stop
    if raw[-1] != (_TUPLE if raw[0] == _MARK else _TUPLE0 + len(numbers)):
        raise KeyError
    return tuple(numbers)
