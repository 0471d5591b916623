"""The report of ``inspect`` on one file, as JSON has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import sbformat
from sbformat import pkl
from sbformat.cli._statistics import render_statistics
from sbformat.data import Serialized
from sbformat.errors import MissingEntryError, SbformatError, escape
from sbformat.limits import Budget
from sbformat.values.render import render_json

if TYPE_CHECKING:
    import argparse

    from sbformat.archive.archive import Archive
    from sbformat.tools.inspect import InspectReport, StateDictReport

_JSON_BITS: Final = 64
_JSON_TEXT: Final = 200


def describe_report(report: InspectReport) -> dict[str, Any]:
    """Return the contents of a file."""
    return {
        "format": report.format,
        "stable_baselines3_version": report.stable_baselines3_version,
        "algorithm": report.algorithm._asdict() if report.algorithm is not None else None,
        "policy_class": report.policy_class,
        "system_info": report.system_info,
        "data": None if report.hyperparameters is None else _render_data(report),
        "entries": [
            {
                "name": entry.name,
                "size": entry.size,
                "compressed_size": entry.compressed_size,
                "method": "deflated" if entry.method else "stored",
                "crc32": f"{entry.crc:08x}",
            }
            for entry in report.entries
        ],
        "state_dicts": [_render_state_dict(state_dict) for state_dict in report.state_dicts],
        "extra": list(report.extra),
        "notes": list(report.notes),
        "network": _render_network(report),
        "statistics": render_statistics(report.statistics),
        "broken": [row._asdict() for row in report.broken],
        "not_checked": [row._asdict() for row in report.not_checked],
    }


def _render_network(report: InspectReport) -> dict[str, Any] | None:
    """Return the network of a policy, or why it is not known; None for a file without a policy."""
    network = report.network
    if network is None:
        return None if report.network_error is None else {"reason": report.network_error}
    parts = ("inputs", "preprocessing", "layers", "heads", "postprocessing", "states")
    rows = {name: [row._asdict() for row in getattr(network, name)] for name in parts}
    sampling = {**network.sampling._asdict(), "parameters": dict(network.sampling.parameters)}
    return {**network._asdict(), **rows, "sampling": sampling}


def _render_state_dict(report: StateDictReport) -> dict[str, Any]:
    return {
        "name": report.name,
        "numel": report.numel,
        "nbytes": report.nbytes,
        "tensors": [row._asdict() for row in report.tensors],
        "values": {path: _render_leaf(value) for path, value in report.values.items()},
    }


def _render_data(report: InspectReport) -> dict[str, Any]:
    """Return the values of ``data``; a blob as its type, size and decoded value, never its bytes."""
    made: dict[str, Any] = {}
    for key, value in (report.data or {}).items():
        made[key] = value
        if isinstance(value, Serialized) and report.hyperparameters is not None:
            decoded, how, why = report.hyperparameters[key]
            shown = None if decoded is value else render_json(decoded, key)
            blob = {"type": value.type, "bytes": len(value.pickle), "how": how, "value": shown, "why": why}
            made[key] = {"serialized": blob}
    return made


def describe_requested(archive: Archive, args: argparse.Namespace) -> dict[str, Any]:
    """Return the parts of a report that options request: the comparison of systems, and the contents of blobs."""
    parts: dict[str, Any] = {}
    if args.system:
        parts["system"] = [row._asdict() for row in sbformat.compare_system(archive)]
    if args.blobs:
        parts["blobs"] = [_describe_blob(archive, key, with_opcodes=args.opcodes) for key in args.blobs]
    return parts


def _describe_blob(archive: Archive, key: str, *, with_opcodes: bool) -> dict[str, Any]:
    """Return the inert tree of a blob, or its opcodes up to the first that cannot be read."""
    from sbformat.pkl.disassembly import opcodes, tree

    value = archive.data.get(key)
    if not isinstance(value, Serialized):
        blobs = [name for name, item in archive.data.items() if isinstance(item, Serialized)]
        raise MissingEntryError(key, present=blobs, what="pickle in data")
    rows: list[Any] = []
    broken = None
    try:
        if with_opcodes:
            rows.extend(row._asdict() for row in opcodes(value.pickle))
        else:
            rows.extend(tree(pkl.decode_pickle(value.pickle, Budget(archive.limits))))
    except SbformatError as error:
        broken = f"{error.outcome}: {error.message}"
    return {"key": key, "opcodes" if with_opcodes else "lines": rows, "broken": broken}


def _render_leaf(value: object) -> object:
    """Return a value of a state dict that is not a tensor."""
    if value is None or type(value) in (bool, float):
        return value
    if type(value) is int and value.bit_length() <= _JSON_BITS:
        return value
    if type(value) is str and len(value) <= _JSON_TEXT:
        return value
    if value in ({}, [], ()):
        return value
    return {"type": type(value).__name__, "text": _describe_value(value)}


def _describe_value(value: object) -> str:
    if isinstance(value, (bytes, bytearray)):
        return f"{len(value)} bytes"
    if isinstance(value, (set, frozenset)):
        return f"{len(value)} items"
    if isinstance(value, int):
        return f"an integer of {value.bit_length()} bits"
    return escape(value if isinstance(value, str) else repr(value))
