"""Write what a submission to SchemaStore needs, so that editors find the schemas by the names of files.

    python schema/schemastore.py FOLDER

SchemaStore lists schemas that are hosted elsewhere, in any draft, by their addresses: ``catalog.json`` in FOLDER has
the entries for its ``src/api/json/catalog.json``. ``test`` and ``negative_test`` have files that each schema accepts
and refuses, in the folders that SchemaStore has for schemas of its own.
"""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import sbformat  # noqa: E402 -- it is beside this folder
from sbformat.data import to_json  # noqa: E402

PATTERNS: Final = {
    "data": ["*.sb3-data.json"],
    "baseline": ["*.sbformat-baseline.json", ".sbformat-baseline.json"],
}
"""Names of files by schema. ``data`` alone, the name in an archive, has no ending and is too general."""
NAMES: Final = {"data": "Stable-Baselines3 data", "baseline": "sbformat baseline"}
ARCHIVES: Final = ("ppo-cartpole", "sac-pendulum")

_WRONG: Final[dict[str, dict[str, Any]]] = {
    "data": {"seed": -1, "policy_class": "MlpPolicy", "num_timesteps": "10", "use_sde": 0.5},
    "baseline": {"baseline_version": 2, "accepted": [{"sha256": "0"}], "unknown": True},
}
"""Keys with values that a schema refuses."""


def read_schema(name: str) -> dict[str, Any]:
    """Return a schema."""
    return json.loads((ROOT / "schema" / f"{name}.schema.json").read_bytes())  # type: ignore[no-any-return]


def make_entries() -> list[dict[str, Any]]:
    """Return the entries of the catalog."""
    entries = []
    for name, patterns in PATTERNS.items():
        schema = read_schema(name)
        description = schema["title"]
        entries.append({"name": NAMES[name], "description": description, "fileMatch": patterns, "url": schema["$id"]})
    return entries


def make_accepted() -> dict[str, dict[str, Any]]:
    """Return documents that each schema accepts, by the schema and their names."""
    archives = {name: sbformat.read(ROOT / "tests" / "archives" / f"{name}.zip") for name in ARCHIVES}
    data = {name: json.loads(json.dumps(to_json(archive.data))) for name, archive in archives.items()}
    accepted = read_schema("baseline")["$defs"]["Accepted"]["properties"]
    item = {key: found["examples"][0] for key, found in accepted.items()}
    return {"data": data, "baseline": {"one": {"baseline_version": 1, "accepted": [item]}}}


def make_refused() -> dict[str, dict[str, Any]]:
    """Return documents that each schema refuses: each has one key that is wrong."""
    refused: dict[str, dict[str, Any]] = {}
    for name, documents in make_accepted().items():
        first = next(iter(documents.values()))
        refused[name] = {}
        for key, value in _WRONG[name].items():
            refused[name][key.replace("_", "-")] = copy.deepcopy(first) | {key: value}
    return refused


def write_files(folder: Path) -> None:
    """Write the entries and the test files."""
    texts = {"catalog.json": make_entries()}
    for kind, documents in (("test", make_accepted()), ("negative_test", make_refused())):
        for name, files in documents.items():
            texts |= {f"{kind}/{name}/{file}.json": document for file, document in files.items()}
    for path, document in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(json.dumps(document, indent=2) + "\n", "utf-8", newline="\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    write_files(Path(sys.argv[1]))
