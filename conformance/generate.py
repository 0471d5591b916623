"""Generate the vectors and their manifest; with ``--check``, compare them with the existing files instead.

A family of vectors is a module of ``generators``; its ``vectors()`` yields each vector with its rule.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

HERE: Final = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.generators.vectors import Vector

FAMILIES: Final = (
    "examples",
    "forms",
    "ends",
    "members",
    "names",
    "json_texts",
    "serialized",
    "texts",
    "algorithms",
    "opcodes",
    "opcode_rules",
    "pickles",
    "surrogates",
    "pickle_names",
    "pickle_limits",
    "records",
    "storages",
    "persistent_ids",
    "constructors",
    "attribute_values",
    "other_tensors",
    "small_values",
    "value_keys",
    "numpy_values",
    "unknown_calls",
    "value_limits",
    "path_details",
    "value_details",
    "legacy",
    "limits",
    "releases",
    "encoding",
    "scanning",
    "carried",
    "schedules",
    "sb2_zips",
    "lone_pickles",
    "sb2_algorithms",
    "normalisation",
    "normalisation_details",
    "bundles",
    "space_json",
    "replay_buffers",
    "policies",
    "policy_details",
    "form_details",
    "container_details",
    "data_details",
    "pickle_details",
    "tensor_details",
    "constructor_details",
    "numpy_details",
    "statistics_details",
    "statistics_spaces",
)
"""In the order of FORMAT.md."""
TOLERANCE: Final = 1e-5
"""Of the floats that a policy predicts: relative to the larger of 1 and the value (POLICIES.md 19.1)."""


def generate_files() -> dict[str, bytes]:
    """Generate all files, by their paths below this folder."""
    made: dict[str, bytes] = {}
    rows = []
    for vector in all_vectors():
        row = manifest_row(vector)
        expectation = {row["expect"]: encode_json(vector.expect)} if "expect" in row else {}
        if "input" in row:
            expectation[row["input"]] = encode_json(vector.question)
        for file, data in {vector.file: vector.data, **expectation}.items():
            if file in made:
                message = f"two vectors have the name {vector.name}"
                raise ValueError(message)
            made[file] = data
        rows.append(row)
    made["manifest.json"] = encode_json({"version": 1, "vectors": rows}, is_short=False)
    return made


def all_vectors() -> Iterator[Vector]:
    """Yield the vectors of all families."""
    for family in FAMILIES:
        yield from importlib.import_module(f"conformance.generators.{family}").vectors()


def manifest_row(vector: Vector) -> dict[str, Any]:
    """Return a vector's row of the manifest."""
    kept = {"arguments": list(vector.arguments), "features": list(vector.features)}
    if not vector.is_valid:
        expect = {"outcome": vector.expect}
    elif vector.kind != "encode":
        expect = {"expect": f"vectors/valid/{vector.name}.expect.json"}
    else:
        expect = {} if vector.expect is None else {"written": hashlib.sha256(vector.expect).hexdigest()}
    return {
        "name": vector.name,
        "kind": vector.kind,
        "file": vector.file,
        "sha256": hashlib.sha256(vector.data).hexdigest(),
        "section": vector.section,
        "sentence": vector.sentence,
        **expect,
        **({"input": f"{vector.file.rpartition('.')[0]}.input.json"} if vector.kind == "policy" else {}),
        **({"tolerance": TOLERANCE} if vector.kind == "policy" and vector.is_valid else {}),
        **{key: value for key, value in kept.items() if value},
    }


def encode_json(value: Any, *, is_short: bool = True) -> bytes:
    """Encode a JSON file."""
    return (json.dumps(value, indent=None if is_short else 1) + "\n").encode("ascii")


def existing_files() -> set[str]:
    """Return the existing files."""
    found = {"manifest.json"} if (HERE / "manifest.json").exists() else set()
    folders = [HERE / "vectors" / kind for kind in ("valid", "invalid", "encode")]
    return found | {
        path.relative_to(HERE).as_posix() for folder in folders for path in folder.rglob("*") if path.is_file()
    }


def main() -> int:
    """Write new and changed files and remove others; with ``--check``, only list them and return 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file differs")
    is_check = parser.parse_args().check
    wanted = generate_files()
    changed = [file for file, data in wanted.items() if not (path := HERE / file).exists() or path.read_bytes() != data]
    stray = sorted(existing_files() - wanted.keys())
    for file in changed:
        print(f"{'differs' if is_check else 'written'}: {file}")
        if not is_check:
            (HERE / file).parent.mkdir(parents=True, exist_ok=True)
            (HERE / file).write_bytes(wanted[file])
    for file in stray:
        print(f"{'stray' if is_check else 'removed'}: {file}")
        if not is_check:
            (HERE / file).unlink()
    return int(is_check and bool(changed or stray))


if __name__ == "__main__":
    sys.exit(main())
