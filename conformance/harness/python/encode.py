"""An encoder for the conformance protocol that uses ``sbformat``: reads tagged JSON, writes an archive."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from protocol import WrongArgumentsError
from protocol import main as run_harness
from untagged import content, json_value, state_dict

import sbformat
from sbformat.archive.archive import Archive
from sbformat.archive.entries import FileEntries, ReadOptions
from sbformat.constants import DATA_ENTRY, PTH_SUFFIX, SYSTEM_INFO_ENTRY, VERSION_ENTRY
from sbformat.container.layout import is_state_dict
from sbformat.limits import Budget

if TYPE_CHECKING:
    from collections.abc import Sequence


def encode(document: dict[str, Any]) -> bytes:
    """Write the archive that a document describes."""
    budget = Budget()
    archive = Archive(FileEntries({}, budget), "sb3", budget, ReadOptions())
    for name, value in document["entries"]:
        archive = with_entry(archive, name, value)
    return sbformat.writes(archive)


def with_entry(archive: Archive, name: str, value: Any) -> Archive:
    """Add one entry to an archive."""
    if name == DATA_ENTRY:
        return archive.replace(data=json_value(value))
    if name == VERSION_ENTRY:
        return archive.replace(stable_baselines3_version=value["version"])
    if name == SYSTEM_INFO_ENTRY:
        lines = "".join(f"- {key}: {text}\n" for key, text in value["system_info"])
        return archive.replace(system_info=lines)
    if is_state_dict(name):
        return archive.replace(parameters={name.removesuffix(PTH_SUFFIX): state_dict(value)})
    return archive.replace(extra={name: content(value["content"])})


def encode_text(source: bytes, arguments: Sequence[str] = ()) -> bytes:
    """Write the archive that a JSON text describes."""
    if arguments:
        message = f"unknown argument {arguments[0]!r}"
        raise WrongArgumentsError(message)
    return encode(json.loads(source))


def main() -> int:
    """Encode standard input, or the files of a batch; return the exit code."""
    return run_harness(encode_text)


if __name__ == "__main__":
    sys.exit(main())
