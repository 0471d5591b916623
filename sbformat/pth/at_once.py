"""The state dict of a module as torch has written it since 1.6, read at once (FORMAT.md 6.6).

Nearly every ``policy.pth`` is one dict of plain tensors and its ``_metadata``, and the pickle of such a dict is the
same run of opcodes for every tensor. Patterns read these runs, and what they capture is checked in columns. With the
machine, the tree and the walk through it left out, a policy of 13 tensors takes 0.1 ms instead of 0.2, and its archive
0.28 instead of 0.4.

What is read here means what it means one opcode after the other: each pattern takes whole opcodes from where an opcode
begins, texts are as long as they say, and the memo is filled in order and read where it was filled. Whatever differs in
the least, and whatever is wrong, gives None: then :mod:`sbformat.pkl.decode` and ``build`` read it, and they alone say
what a file may hold.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from sbformat.errors import SbformatError
from sbformat.names.pth import STORAGES
from sbformat.pth.constructors import PLAIN, extent_of, fitted

if TYPE_CHECKING:
    from sbformat.limits import Limits
    from sbformat.pth.scope import Scope
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
_KEY: Final = rb"X(.)\0\0\0([0-9]+)" + _PUT
_GEOMETRY: Final = _NUMBER + rb"t" + _PUT + rb"Q" + _NUMBER + _NUMBERS + _NUMBERS + rb"([\x88\x89])"
"""How many items the storage has, the end of the persistent id; offset, shape, strides, requires_grad."""
_CALLED: Final = rb"h\0\)R" + _PUT + rb"t" + _PUT + rb"R" + _PUT
"""``OrderedDict()`` for the hooks, the tuple of all arguments, and the call."""

_BEGIN: Final = re.compile(
    rb"\x80\x02ccollections\nOrderedDict\nq\0\)Rq\x01\("
    + _NAME + rb"(q\x02)ctorch\._utils\n_rebuild_tensor_v2\n(q\x03)\(\(X\x07\0\0\0storage(q\x04)"
    rb"ctorch\n(\w+)\n(q\x05)" + _KEY + rb"X(.)\0\0\0([a-z0-9:]+)(q\x07)" + _GEOMETRY + _CALLED,
    re.DOTALL,
)  # fmt: skip
"""The first tensor, where all names stand in full."""
_NEXT: Final = re.compile(
    rb"(" + _NAME + _PUT + rb"h\x03\(\(h\x04(?:" + _GET + rb"|ctorch\n(\w+)\n" + _PUT + rb")(?:" + _GET + rb"|" + _KEY
    + rb")(?:" + _GET + rb"|X(.)\0\0\0([a-z0-9:]+)" + _PUT + rb")" + _GEOMETRY + _CALLED + rb")",
    re.DOTALL,
)  # fmt: skip
"""Each other one, which refers back to the first."""
_END: Final = re.compile(rb"u}" + _PUT + rb"X\x09\0\0\0_metadata" + _PUT + rb"h\0\)R" + _PUT + rb"\(", re.DOTALL)
_MODULE: Final = re.compile(
    rb"(" + _NAME + _PUT + rb"}" + _PUT + rb"(?:X\x07\0\0\0version" + _PUT + rb"|" + _GET + rb")K(.)s)", re.DOTALL
)
"""A line of ``_metadata``: a module's path and its version."""
_STOP: Final = b"usb."
# Columns of a row of _NEXT and, with what it lacks filled in, of _BEGIN.
_ROW_PUTS: Final = itemgetter(3, 6, 10, 14, 16, 19, 21, 23, 24, 25)
_ROW_VALUES: Final = itemgetter(4, 5, 6, 7, 9, 10, 11, 13, 14, 15, 17, 18, 20, 22)
_ROW_TEXTS: Final = (1, 2), (8, 9), (12, 13)
"""Sizes of texts, and the texts."""
_MODULE_PUTS: Final = itemgetter(3, 4, 5)
_DTYPES: Final = {
    name.encode("ascii"): dtype for (module, name), dtype in STORAGES.items() if module == "torch" and dtype in PLAIN
}
_BEFORE: Final = 2
"""Entries of the memo before the first row: OrderedDict, and the dict."""
_SHORT: Final = b"".join(b"q%c" % index for index in range(_BEFORE, 256))
_NUMBER_BYTES: Final = {0x4B: 2, 0x4D: 3, 0x4A: 5}
_MARK: Final = 0x28
_TUPLE: Final = 0x74
_TUPLE0: Final = 0x84
_TRUE: Final = b"\x88"
_DEPTH: Final = 4
"""Marks on the stack at once, and levels of the value, at most; so many at least must be allowed."""
_RANK: Final = 8
_NAME_BYTES: Final = 255


def read_state_dict(data: bytes, scope: Scope) -> OrderedDict[str, TensorInfo] | None:
    """Read the pickle of a state dict at once.

    :param data: the pickle
    :param scope: finds its storages; a new one, and of no use after None
    :return: what ``build_values`` makes of it; None when it is any other pickle, or there is something wrong with it
    """
    begin = _BEGIN.match(data)
    if begin is None or not _has_room(scope.limits, len(data)):
        return None
    at = begin.end()
    rows = [_first_row(begin), *_NEXT.findall(data, at)]
    columns = tuple(zip(*rows))
    at += sum(map(len, columns[0]))
    end = _END.match(data, at)
    if end is None:
        return None
    modules = _MODULE.findall(data, end.end())
    read = b"".join((*columns[0], end[0], *(row[0] for row in modules), _STOP))
    if data[begin.end() :] != read or not _are_in_order(rows, end, modules):
        return None
    if not all(_are_as_long(columns[sizes], columns[texts]) for sizes, texts in _ROW_TEXTS):
        return None
    names, metadata = _names(columns[2]), _metadata(modules)
    if names is None or metadata is None:
        return None
    try:
        tensors = _tensors(columns, scope)
        scope.check_totals()
    except (SbformatError, KeyError):
        return None
    made: OrderedDict[str, TensorInfo] = OrderedDict(zip(names, tensors))
    made._metadata = metadata  # type: ignore[attr-defined]  # noqa: SLF001 -- torch's own name
    return made


def _has_room(limits: Limits, size: int) -> bool:
    """Say whether no limit of a pickle can be met: an opcode has a byte at least and adds one to each count at most."""
    counts = limits.pickle_bytes, limits.pickle_opcodes, limits.pickle_nodes, limits.pickle_memo, limits.pickle_stack
    depths = limits.pickle_marks, limits.value_depth
    return (
        size <= min(counts)
        and min(depths) >= _DEPTH
        and limits.tensor_rank >= _RANK
        and limits.tensor_name_bytes >= _NAME_BYTES
    )


def _first_row(begin: re.Match[bytes]) -> tuple[bytes, ...]:
    """Return the first tensor in the columns of the others."""
    size, name, put, put_function, put_kind, cls, put_class, key_size, key, put_key, place_size, place, *rest = (
        begin.groups(b"")
    )
    text = b"", size, name, put + put_function + put_kind
    return (*text, b"", cls, put_class, b"", key_size, key, put_key, b"", place_size, place, *rest)


def _are_in_order(rows: list[tuple[bytes, ...]], end: re.Match[bytes], modules: list[tuple[bytes, ...]]) -> bool:
    """Say whether every value that is memoized takes the memo's next place."""
    puts = b"".join((*map(b"".join, map(_ROW_PUTS, rows)), *end.groups(), *map(b"".join, map(_MODULE_PUTS, modules))))
    return puts == _SHORT[: len(puts)] or puts == _long(len(puts))


@lru_cache(maxsize=16)
def _long(size: int) -> bytes:
    """Return the opcodes of entries in order, where there are more than have a short form."""
    last = 256 + (size - len(_SHORT)) // 5
    return _SHORT + b"".join(b"r" + index.to_bytes(4, "little") for index in range(256, last))


def _are_as_long(sizes: tuple[bytes, ...], texts: tuple[bytes, ...]) -> bool:
    """Say whether texts have the sizes that stand before them, where there is a text."""
    return [len(text) for text, size in zip(texts, sizes) if size] == list(b"".join(sizes))


def _names(texts: tuple[bytes, ...]) -> list[str] | None:
    """Return texts as keys when none stands twice."""
    return b"\n".join(texts).decode("ascii").split("\n") if len(set(texts)) == len(texts) else None


def _metadata(modules: list[tuple[bytes, ...]]) -> OrderedDict[str, dict[str, int]] | None:
    """Return ``{path: {"version": n}}``; the first line spells the word, the others refer to it."""
    if len(modules) < 2:  # one line has no mark
        return None
    _, sizes, paths, _, _, words, references, versions = zip(*modules)
    place = _getting(words[0])
    names = _names(paths) if _are_as_long(sizes, paths) else None
    if names is None or any(words[1:]) or set(references[1:]) != {place}:
        return None
    return OrderedDict(zip(names, [{"version": version[0]} for version in versions]))


def _tensors(columns: tuple[tuple[bytes, ...], ...], scope: Scope) -> list[TensorInfo]:
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
    ) in zip(*_ROW_VALUES(columns)):  # fmt: skip
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
        tensors.append(fitted(scope, storage, dtype, _number(offset), shape, strides, extent, flag == _TRUE))
    return tensors


def _getting(put: bytes) -> bytes:
    """Return the opcode that gets what another one puts into the memo."""
    return (b"h" if len(put) == 2 else b"j") + put[1:]


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
