"""Whole archives: all that is asked of one, in each form that people have it in."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final, NamedTuple

from conformance.generators import build_zips
from sbformat import (
    SbformatError,
    compare_system,
    iter_problems,
    read_replay_buffer,
    read_vecnormalize,
    reads,
    rebuild,
    scan,
    writes,
)
from sbformat.constants import ARRAYS_ENTRY, SETTINGS_ENTRY
from sbformat.errors import MESSAGE_BYTES
from sbformat.formats.vecnormalize import writes_vecnormalize
from sbformat.known.dangerous import explain_danger
from sbformat.known.table import find
from sbformat.tools.diff import diff
from sbformat.tools.inspect import inspect
from sbformat.tools.scan import VERDICTS
from sbformat.values.render import render_line
from tests.fuzz import oracle
from tests.fuzz.law import ask
from tests.fuzz.targets import pth as pth_target

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbformat import Archive


_OTHER: Final = reads(build_zips.sb3_archive())
_OF_DATA: Final = ("data", "algorithm")


def _normalized(data: bytes) -> None:
    """Statistics are written as what is read as the same."""
    value = read_vecnormalize(data)
    raw = ask(writes_vecnormalize, value)
    if isinstance(raw, bytes):
        again = read_vecnormalize(raw)
        assert (again.clip_obs, again.epsilon, again.norm_obs) == (value.clip_obs, value.epsilon, value.norm_obs)


def _replayed(data: bytes) -> None:
    """The episodes of a buffer lie within it."""
    buffer = read_replay_buffer(data)
    for episode in buffer.episodes():
        assert episode.start >= 0
        assert episode.length > 0


_VALUES: Final = {"vecnormalize": _normalized, "running-mean-std": _normalized, "replay-buffer": _replayed}
"""What is asked of files that hold one object."""
_BUNDLED: Final = (SETTINGS_ENTRY, ARRAYS_ENTRY)
"""Statistics, which are whole or not by themselves."""


def one_input(data: bytes) -> None:
    """Every question is answered or refused; ``validate`` and ``scan`` are never refused and agree with what was
    answered; what is whole is written, and read again as the same; nothing that imports danger is clean."""
    _check_scan(data)
    archive = ask(reads, data)
    if isinstance(archive, SbformatError):
        return
    is_whole = _answers_all(archive, data)
    problems = list(iter_problems(archive))
    for problem in problems:
        assert problem.message.isprintable()
        assert len(problem.message) <= MESSAGE_BYTES
    if archive.format == "sb3":
        unreadable = {row.entry for row in problems if row.kind == "unreadable"}
        assert unreadable <= set(_BUNDLED) if is_whole else unreadable, problems
    if archive.format in _VALUES:
        ask(_VALUES[archive.format], data)
    asked = _Asked(archive, data, is_whole and archive.format == "sb3")
    _TOOLS[zlib.crc32(data) % len(_TOOLS)](asked)


def _check_scan(data: bytes) -> None:
    report = scan(data)
    assert report.verdict in VERDICTS
    for finding in report.findings:
        assert finding.message.isprintable()
        assert len(finding.message) <= MESSAGE_BYTES
    if report.verdict in ("clean", "unknown", "code"):
        named = [pair for pickle in oracle.pickles(data) for pair in oracle.imports(pickle)]
        harmful = [pair for pair in named if explain_danger(pair) and not find(pair).is_known]
        assert not harmful, f"{report.verdict}: {harmful}"


def _answers_all(archive: Archive, data: bytes) -> bool:
    """Ask for every entry; say whether all were had, to the last byte."""
    assert repr(archive).isprintable()
    texts = ("stable_baselines3_version", "system_info", "pytorch_variables")
    answers = [
        ask(getattr, archive, name) for name in (*_OF_DATA, *texts) if name in texts or "data" in archive.contents
    ]
    answers += [ask(_weights, archive, name) for name in archive.parameters]
    answers += [ask(lambda name=name: b"".join(map(bytes, archive.stream(name)))) for name in archive.entries]
    _decode_blobs(archive)
    return not any(isinstance(answer, SbformatError) for answer in answers)


def _weights(archive: Archive, name: str) -> None:
    """A state dict, its CRCs, and its arrays, which may need an extra that is no fault of the file."""
    state_dict = archive.parameters[name]
    state_dict.check()
    ask(state_dict.to_numpy)


def _decode_blobs(archive: Archive) -> None:
    values = ask(archive.hyperparameters)
    if isinstance(values, SbformatError):
        return
    for value in values.values():
        assert render_line(value.value).isprintable()


class _Asked(NamedTuple):
    """An archive that was read, and asked for all that is in it."""

    archive: Archive
    data: bytes
    is_whole: bool
    """Every entry was had, to the last byte, and it is a zip: it can be written."""


def _copied(asked: _Asked) -> None:
    """What is whole can be written; what is written is read as the same, and judged and written as it was."""
    raw = ask(writes, asked.archive)
    if isinstance(raw, SbformatError):
        assert not asked.is_whole, raw
        return
    again = reads(raw)
    assert again == asked.archive
    assert writes(again) == raw
    if asked.archive.format == "sb3":
        assert scan(raw).verdict == scan(asked.data).verdict


def _encoded(asked: _Asked) -> None:
    """What is whole can be encoded anew, and is read as the same."""
    raw = ask(writes, asked.archive, reencode=True)
    if isinstance(raw, SbformatError):
        assert not asked.is_whole or _may_be_refused(asked.archive, raw), raw
    elif asked.is_whole:  # what cannot be decoded equals its own bytes alone
        assert reads(raw) == asked.archive


def _may_be_refused(archive: Archive, error: SbformatError) -> bool:
    return any(pth_target.may_be_refused(state_dict, error) for state_dict in archive.parameters.values())


def _inspected(asked: _Asked) -> None:
    ask(lambda: repr(inspect(asked.archive)))
    ask(compare_system, asked.archive)


def _compared(asked: _Asked) -> None:
    """A file equals itself; nothing differs exactly where archives are equal."""
    again = reads(asked.data)
    assert again == asked.archive
    for other in (again, _OTHER):
        report = ask(diff, other, asked.archive)
        assert isinstance(report, SbformatError) or (report.changes == ()) == (asked.archive == other)


def _rebuilt(asked: _Asked) -> None:
    """What is rebuilt holds no pickle of the original: it is clean, but for a class that it says it keeps, and read
    again as the same."""
    found = ask(rebuild, asked.archive)
    if isinstance(found, SbformatError) or asked.archive.format in _VALUES:
        return
    raw = ask(writes, found[0])
    if isinstance(raw, SbformatError):
        assert not asked.is_whole, raw
        return
    assert reads(raw) == found[0]
    keeps = any("a class outside SB3" in row.message for row in found[1].rows)
    assert scan(raw).verdict == "clean" or (keeps and scan(raw).verdict == "unknown"), scan(raw).findings


_TOOLS: Final[tuple[Callable[[_Asked], None], ...]] = (_copied, _encoded, _inspected, _compared, _rebuilt)
"""One of them an input, by its digest: each is dear, and a replay has to ask the same one."""
