"""Files, observations and predictions that no generator builds: the programs of ``released`` wrote them.

They are kept in the vectors themselves. ``generate.py --recorded FOLDER`` adds or replaces some: it reads the files that
one of those programs wrote.
"""

from __future__ import annotations

import base64
import json
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from conformance.runner.vectors import Vector, decode_file, read_vectors

if TYPE_CHECKING:
    from pathlib import Path

PREFIXES: Final = ("policy-", "released-", "scan-carried-cloudpickle-")
"""How the names of these vectors begin."""


@cache
def recorded_vectors() -> dict[str, Vector]:
    """Read the vectors by their names."""
    return {vector["name"]: vector for prefix in PREFIXES for vector in read_vectors(prefix=prefix)}


def read_file(name: str) -> bytes:
    """Return the file of a vector."""
    return decode_file(recorded_vectors()[name])


def read_json(name: str, part: str) -> Any:
    """Return a copy of ``input``, the observations of a policy, or of ``expect``, the result."""
    return json.loads(json.dumps(recorded_vectors()[name][part]))


def add_folder(folder: Path) -> None:
    """Read the files that a program wrote: ``NAME.zip`` or ``NAME.pth``, ``NAME.input.json``, ``NAME.expect.json``."""
    for path in sorted(folder.iterdir()):
        name, _, part = path.stem.rpartition(".") if path.suffix == ".json" else (path.stem, "", "base64")
        value = base64.b64encode(path.read_bytes()).decode() if part == "base64" else json.loads(path.read_bytes())
        recorded_vectors().setdefault(name, {})[part] = value
