"""Pickles, and what they mean."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sbformat import LimitError, PickleError, SbformatError, scan
from sbformat.errors import escape
from sbformat.io.source import BytesSource
from sbformat.limits import Budget
from sbformat.pkl import Call, Extension, Global, Node, Pickle, Update, attempt, decode_pickle, trace
from sbformat.pkl.disassembly import opcodes, tree
from sbformat.pkl.encode import encode_pickle
from sbformat.pkl.out_of_core import decode_large
from sbformat.values import decode_blob, encode
from sbformat.values.render import render_json, render_line
from tests.fuzz.law import ask
from tests.fuzz.oracle import genops
from tests.fuzz.trees import assert_same_tree

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbformat.tools.scan import ScanReport

_NAMES: Final = ("GLOBAL", "INST", "STACK_GLOBAL")
_CALLS: Final = ("REDUCE", "NEWOBJ", "NEWOBJ_EX", "INST", "OBJ")
_RENAMED_BELOW: Final = 3
_SHOWN_LINES: Final = 200
_UNREAD: Final = 24
_NAME: Final = 1000
"""Characters of a name in a report."""


def one_input(data: bytes) -> None:
    """``pickletools`` sees the same opcodes, names and calls; what was decoded is encoded and decoded as the same; its
    meaning can be shown and is a fixed point of writing; ``scan`` names every import, and is never refused."""
    report = scan(data)
    found = ask(decode_pickle, data, Budget())
    _check_unread(data, found)
    if isinstance(found, SbformatError):
        assert type(found) in (PickleError, LimitError), found
        found = attempt(data, Budget())
        for reading in (found, *found.others):
            assert len(trace(data, reading, Budget())) == len(reading.log)
        return
    if report.format == "pickle":
        missing = {escape(str(row), _NAME) for row in found.log if isinstance(row, Global)} - set(report.imports)
        assert not missing or report.omitted, missing
    value = ask(decode_blob, data, Budget())
    if not isinstance(value, SbformatError):
        json.dumps(render_json(value))
        assert render_line(value).isprintable()
    _CHECKS[zlib.crc32(data) % len(_CHECKS)](_Read(data, found, value, report))


def _check_unread(data: bytes, found: Pickle | SbformatError) -> None:
    """A pickle whose longer bytes stay where they are is read alike, or refused alike; nothing else is left out."""
    unread = ask(decode_large, BytesSource(data), Budget(), threshold=_UNREAD, least_empties=None)
    if isinstance(found, SbformatError) or isinstance(unread, SbformatError):
        assert type(unread) is type(found), (unread, found)
        return
    assert (unread.protocol, unread.flags, len(unread.shared)) == (found.protocol, found.flags, len(found.shared))
    assert list(map(type, unread.log)) == list(map(type, found.log))


class _Read(NamedTuple):
    """A pickle that was read."""

    data: bytes
    pickle: Pickle
    value: object
    """What it means, or the error that says why that is not known."""
    report: ScanReport


def _check_attempt(read: _Read) -> None:
    """The lenient look at a pickle tells no less, and traces every row of the log; its tree can be shown."""
    lenient = attempt(read.data, Budget())
    traced = trace(read.data, lenient, Budget())
    assert len(traced) == len(lenient.log)
    assert traced == sorted(traced)
    assert all(0 <= at < len(read.data) for at in traced)
    assert lenient.error is None
    assert lenient.pickle is not None
    assert (lenient.pickle.size, lenient.pickle.flags) == (read.pickle.size, read.pickle.flags)
    assert [type(row) for row in lenient.log] == [type(row) for row in read.pickle.log]
    for line in tree(read.pickle, _SHOWN_LINES):
        assert line.isprintable()


def _check_opcodes(read: _Read) -> None:
    """``pickletools`` sees the same opcodes, names and calls."""
    found = read.pickle
    ours = [(line.name, line.offset) for line in opcodes(read.data)]
    theirs = genops(read.data)
    if theirs is None:
        return
    assert ours == [(name, at) for name, _, at in theirs]
    seen = Counter(name for name, _, _ in theirs)
    rows = Counter(row.how for row in found.log if isinstance(row, (Call, Update)))
    names = [row for row in found.log if isinstance(row, Global)]
    assert len(names) + rows["STACK_GLOBAL"] == sum(seen[name] for name in _NAMES)
    assert {how: rows[how] for how in _CALLS} == {how: seen[how] for how in _CALLS}
    assert sum(isinstance(row, Extension) for row in found.log) == seen["EXT1"] + seen["EXT2"] + seen["EXT4"]
    assert rows["BUILD"] == seen["BUILD"]
    _check_names(theirs, names)


def _check_names(theirs: list[tuple[str, Any, int]], names: list[Global]) -> None:
    """Names that stand as lines are those of the log, in order, unless Python 2's are renamed."""
    if any(name == "STACK_GLOBAL" for name, _, _ in theirs):
        return
    said = [argument for name, argument, _ in theirs if name in _NAMES]
    protocols = [argument for name, argument, _ in theirs if name == "PROTO"]
    if protocols and min(protocols) >= _RENAMED_BELOW and theirs[0][0] == "PROTO":
        assert [f"{row.module} {row.name}" for row in names if "\\" not in str(row)] == [
            text for text in said if "\\" not in text
        ]


def _check_written(read: _Read) -> None:
    """What was decoded is encoded, and decoded as the same, with what it shares."""
    value = read.pickle.value
    raw = encode_pickle(value, protocol=5)
    again = ask(decode_pickle, raw, Budget())
    if isinstance(again, LimitError):
        return
    assert not isinstance(again, SbformatError), again
    assert_same_tree(value, again.value)
    assert encode_pickle(again.value, protocol=5) == raw
    for protocol in (2, 4):
        other = ask(encode_pickle, value, protocol=protocol)
        if not isinstance(other, SbformatError):
            assert not isinstance(ask(decode_pickle, other, Budget()), PickleError)


def _check_meaning(read: _Read) -> None:
    """A value that can be written anew is a fixed point of that, and as clean as it was."""
    if isinstance(read.value, (SbformatError, Node)):
        return
    raw = ask(encode, read.value)
    if isinstance(raw, SbformatError):
        return
    assert encode(decode_blob(raw, Budget())) == raw
    if read.report.verdict == "clean":
        assert scan(raw).verdict == "clean", scan(raw).findings


_CHECKS: Final[tuple[Callable[[_Read], None], ...]] = (_check_attempt, _check_opcodes, _check_written, _check_meaning)
"""One of them an input, by its digest: each is dear, and a replay has to make the same one."""
