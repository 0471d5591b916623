"""A decoder for the conformance protocol that uses ``sbformat``: reads an archive, prints tagged JSON."""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from protocol import ArgumentParser, WrongArgumentsError
from protocol import main as run_harness
from tagged import Nodes, StateDicts, digest, json_value

import sbformat
from sbformat.archive.archive import ReadOnlyArchive
from sbformat.archive.entries import FileEntries
from sbformat.archive.kinds import detect_kind
from sbformat.constants import DATA_ENTRY, SYSTEM_INFO_ENTRY, VERSION_ENTRY
from sbformat.container.layout import is_state_dict
from sbformat.data import is_large
from sbformat.errors import MissingEntryError, UnsupportedError
from sbformat.io.source import BytesSource
from sbformat.known.types import ConstantSchedule, InterpolatedSchedule, LinearSchedule
from sbformat.limits import Budget
from sbformat.pkl import decode_pickle
from sbformat.values.computed import understand

if TYPE_CHECKING:
    from collections.abc import Sequence

FORMS: Final = {"sb3": "zip", "sbx": "zip", "torch-zip": "pth", "torch-legacy": "pth", "data-json": "data"}
LIMIT: Final = re.compile(r"([a-z_]+)=([0-9]{1,4000})")
FLAGS: Final = {"values are": "values", "marks are": "marks", "a value is changed": "changed", "a frame": "frame"}
"""The start of each sentence of ``Pickle.flags``, and the protocol's word for it."""


def decode(source: bytes, arguments: Sequence[str] = ()) -> dict[str, Any]:
    """Decode a file completely, or the part that the arguments select."""
    asked = _make_parser().parse_args(arguments)
    limits = sbformat.Limits(**dict(map(_limit, asked.limit)))
    if asked.scan:
        report = sbformat.scan(source, limits=limits)
        rules = sorted({finding.rule for finding in report.findings})
        return {"verdict": report.verdict, "reason": report.reason, "rules": rules}
    if asked.predict is not None:
        import policies  # needs numpy, too

        return policies.predict(source, asked.predict, limits)
    if asked.statistics or asked.replay_buffer:
        import companions  # other archives do not need numpy

        return (companions.statistics if asked.statistics else companions.replay_buffer)(source, limits)
    archive = _open(source, asked, limits)
    if asked.equal is not None:
        return {"equal": archive == _open(Path(asked.equal).read_bytes(), asked, limits)}
    if asked.algorithm:
        return _algorithm(archive, knows_sbx=asked.other_formats)
    if isinstance(archive, ReadOnlyArchive):
        return _other_format(archive)
    if asked.blob is not None:
        return _blob(archive, asked.blob)
    if asked.schedule is not None:
        return {"schedule": _schedule(archive.decode(asked.schedule))}
    if asked.entry is not None and asked.entry not in archive.entries:
        raise MissingEntryError(asked.entry, present=archive.entries)
    is_sbx = archive.format == "sbx" and asked.other_formats
    names = list(archive.contents if is_sbx else archive.entries) if asked.entry is None else [asked.entry]
    return {
        "form": "sbx" if is_sbx else FORMS[archive.format],
        "entries": [[name, _entry(archive, name)] for name in names],
    }


def _open(source: bytes, asked: Any, limits: sbformat.Limits) -> sbformat.Archive:
    """Open a file of the kinds that the arguments allow."""
    kind = detect_kind(BytesSource(source))
    if kind == "pickle" and not asked.other_formats:
        message = "a bare pickle"
        raise UnsupportedError(message)
    if kind == "data-json":  # the entry alone, whatever its keys
        budget = Budget(limits)
        budget.grant(len(source))
        return sbformat.Archive(FileEntries({DATA_ENTRY: BytesSource(source)}, budget), "data-json", budget)
    archive = sbformat.reads(source, limits=limits, unchecked_crc=asked.unchecked_crc)
    if isinstance(archive, ReadOnlyArchive) and not asked.other_formats:
        message = f"a file of the kind {archive.format}"
        raise UnsupportedError(message)
    return archive


@cache
def _make_parser() -> ArgumentParser:
    parser = ArgumentParser()
    parser.add_argument("--entry")
    parser.add_argument("--blob")
    parser.add_argument("--equal", metavar="FILE")
    parser.add_argument("--limit", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--algorithm", action="store_true")
    parser.add_argument("--scan", action="store_true")
    parser.add_argument("--schedule", metavar="KEY")
    parser.add_argument("--unchecked-crc", action="store_true")
    parser.add_argument("--other-formats", action="store_true")
    parser.add_argument("--statistics", action="store_true")
    parser.add_argument("--replay-buffer", action="store_true")
    parser.add_argument("--predict", metavar="FILE")
    return parser


def _limit(text: str) -> tuple[str, int]:
    """The name and the value of ``--limit``."""
    found = LIMIT.fullmatch(text)
    if found is None:
        message = f"expected --limit NAME=VALUE with a whole number, got {text!r}"
        raise WrongArgumentsError(message)
    name, value = found.groups()
    if name not in sbformat.Limits._fields:
        message = f"unknown limit {name!r}; available: {', '.join(sbformat.Limits._fields)}"
        raise WrongArgumentsError(message)
    return name, int(value)


def _algorithm(archive: sbformat.Archive, *, knows_sbx: bool) -> dict[str, Any]:
    """The algorithm; that of an archive of SBX is null by section 4.3, and known by 22."""
    if archive.format == "sbx" and not knows_sbx:
        return {"algorithm": None, "certain": False}
    return {"algorithm": archive.algorithm.name, "certain": archive.algorithm.certain}


def _schedule(function: object) -> Any:
    """What a function that was pickled by value computes, or a table of values; or None."""
    schedule = function if isinstance(function, InterpolatedSchedule) else understand(function)
    if isinstance(schedule, ConstantSchedule):
        return {"constant": schedule.value}
    if isinstance(schedule, LinearSchedule):
        return {"linear": list(schedule)}
    return schedule and {"computed": [schedule.sample(step / 4) for step in (4, 3, 2, 1, 0)]}


def _data(archive: sbformat.Archive) -> Any:
    """The entry ``data``, of which a decoder leaves nothing out (FORMAT.md 3.4)."""
    if is_large(archive.entries[DATA_ENTRY].size, archive.limits):
        raw = archive.raw(DATA_ENTRY)
        budget = Budget(archive.limits)
        budget.grant(len(raw))
        sbformat.data.decode(raw, budget)
    return archive.data


def _entry(archive: sbformat.Archive, name: str) -> Any:
    if name == DATA_ENTRY:
        return json_value(_data(archive))
    if name == VERSION_ENTRY:
        return {"version": archive.stable_baselines3_version}
    if name == SYSTEM_INFO_ENTRY:
        info = archive.system_info
        return {"system_info": [list(pair) for pair in info.fields.items()]}
    if is_state_dict(name) or name in archive.state_dicts:
        return _state_dict(archive, name)
    raw = archive.extra[name]
    return {"size": len(raw), "sha256": digest(raw)}


def _state_dict(archive: sbformat.Archive, name: str) -> Any:
    state_dict = archive.state_dict(name)
    state_dict.tensors()  # checks the number of values by path, which shared containers can make arbitrarily large
    return StateDicts(archive.limits).value(state_dict.tree)


def _other_format(archive: ReadOnlyArchive) -> dict[str, Any]:
    """A file by sections 16 to 18: the plain values of its ``data``, and its state dict."""
    entries: list[list[Any]] = []
    for name in archive.contents:
        if name in archive.state_dicts:
            entries.append([name, _state_dict(archive, name)])
        elif name != DATA_ENTRY:
            entries.append([name, {"size": len(archive.extra[name]), "sha256": digest(archive.extra[name])}])
        elif archive.format == "sb2-zip":
            entries.append([name, json_value(archive.data)])
        else:
            rows = [[key, _plain(value)] for key, value in archive.data.items()]
            entries.append([name, {"dict": rows}])
    return {"form": archive.format, "entries": entries}


def _plain(value: Any) -> Any:
    return {"inert": True} if isinstance(value, sbformat.Serialized) else json_value(value)


def _blob(archive: sbformat.Archive, key: str) -> dict[str, Any]:
    data = _data(archive)
    if key not in data:
        raise MissingEntryError(key, present=data, what="key of data")
    value = data[key]
    if not isinstance(value, sbformat.Serialized):
        raise MissingEntryError(key, what="pickle")
    made = decode_pickle(value.pickle, Budget(archive.limits))
    nodes = Nodes()
    found = {"protocol": made.protocol, "value": nodes.reference(made.value), "log": [*map(nodes.row, made.log)]}
    flags = sorted(word for flag in made.flags for start, word in FLAGS.items() if flag.startswith(start))
    return {**found, "flags": flags, "nodes": nodes.all()}


def main() -> int:
    """Decode standard input, or the files of a batch; return the exit code."""
    return run_harness(decode)


if __name__ == "__main__":
    sys.exit(main())
