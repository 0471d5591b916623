"""An encoder for the conformance protocol that uses ``sbformat``: reads tagged JSON, writes an archive."""

from __future__ import annotations

import json
import sys
from typing import Any

from untagged import content, json_value, state_dict

import sbformat
from sbformat.archive.archive import Archive
from sbformat.archive.entries import ReadOptions
from sbformat.archive.folder import FileEntries
from sbformat.constants import DATA_ENTRY, PTH_SUFFIX, SYSTEM_INFO_ENTRY, VERSION_ENTRY
from sbformat.container.names import is_state_dict
from sbformat.limits import Budget


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


def main() -> int:
    """Encode standard input; return 0 if the archive was written, 1 if the input was refused."""
    try:
        made = encode(json.loads(sys.stdin.buffer.read()))
    except sbformat.SbformatError as error:
        sys.stdout.write(json.dumps({"outcome": error.outcome, "message": str(error)}))
        return 1
    sys.stdout.buffer.write(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
