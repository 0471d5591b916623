"""Write defaults and examples into the JSON Schemas of ``data`` and of pickled objects, for editors.

    python schema/generate_annotations.py [--check]

A ``default`` is that of the algorithm's constructor, from the table of ``sbformat/known/algorithms.py``. It is at the
property if all algorithms that have the property agree, else at a property of the same name of each algorithm. A value
that ``data`` cannot have (a null that the constructor replaces) is not written. The ``examples`` are short values of
the archives in ``tests/archives`` and of those that releases wrote, in the vectors. With ``--check`` nothing is
written, and the exit status is 1 if a file differs from what would be written.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from jsonschema import Draft202012Validator  # noqa: E402 -- sbformat is beside this folder

import sbformat  # noqa: E402
from conformance.runner.vectors import read_vectors  # noqa: E402
from sbformat.data import Serialized  # noqa: E402
from sbformat.errors import SbformatError  # noqa: E402
from sbformat.known.algorithms import ALGORITHMS  # noqa: E402
from sbformat.schema.schemas import choose_schema  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Schema = dict[str, Any]

NAMES: Final = ("data", "sb2-data", "pickled")
ARCHIVES: Final = ("ppo-cartpole.zip", "sac-pendulum.zip", "vecnormalize-pendulum.pkl", "replay-buffer-cartpole.pkl")
RECORDED: Final = ("11", "19.9")
"""The sections whose vectors are archives that releases of SB3 and SB2 wrote."""
MOST: Final = 3
"""Examples of one property."""
LONGEST: Final = 60
"""Characters of an example, as JSON."""
_PREFIX: Final = "#/$defs/"


def list_parents(definitions: Schema, name: str) -> Iterator[str]:
    """Yield a definition and those whose properties it shares."""
    yield name
    for parent in definitions[name].get("allOf", ()):
        yield from list_parents(definitions, parent["$ref"].removeprefix(_PREFIX))


def find_owner(definitions: Schema, name: str, key: str) -> Schema | None:
    """Return the property of a definition, or of the nearest one that it shares, that describes a key."""
    for parent in list_parents(definitions, name):
        found = definitions[parent].get("properties", {}).get(key)
        if found is not None and found.keys() - {"default"}:
            return found  # type: ignore[no-any-return]
    return None


def remove_annotations(schema: Schema) -> None:
    """Remove what this program writes."""
    for definition in schema["$defs"].values():
        for key, found in list(definition.get("properties", {}).items()):
            found.pop("examples", None)
            found.pop("default", None)
            if not found:
                del definition["properties"][key]


def add_defaults(definitions: Schema) -> None:
    """Write the defaults of the constructors."""
    owners: dict[int, tuple[Schema, str]] = {}
    values: dict[int, dict[str, Any]] = {}
    for name, row in ALGORITHMS.items():
        for key, value in row.hyperparameters.items():
            owner = find_owner(definitions, name, key)
            if owner is not None and Draft202012Validator({**owner, "$defs": definitions}).is_valid(value):
                owners[id(owner)] = owner, key
                values.setdefault(id(owner), {})[name] = value
    for number, (owner, key) in owners.items():
        found = values[number]
        if len({json.dumps(value) for value in found.values()}) == 1:
            owner["default"] = next(iter(found.values()))
            continue
        for name, value in found.items():
            definitions[name]["properties"].setdefault(key, {})["default"] = value


def add_examples(schemas: dict[str, Schema], sources: Iterable[bytes]) -> None:
    """Write short values of archives as examples."""
    for source in sources:
        try:
            archive = sbformat.reads(source)
            data = archive.data
        except SbformatError:
            continue
        schema, name = choose_schema(archive)
        definitions = schemas[schema.name]["$defs"]
        for key, value in data.items():
            owner = find_owner(definitions, name if name in definitions else schema.root, key)
            text = describe_example(value)
            if owner is None or text is None:
                continue
            examples = owner.setdefault("examples", [])
            if len(examples) < MOST and text not in map(json.dumps, examples):
                examples.append(json.loads(text))


def describe_example(value: Any) -> str | None:
    """Return a value as JSON, or None if it is serialized, is not JSON, or is long."""
    if isinstance(value, Serialized):
        return None
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return None
    return text if len(text) <= LONGEST else None


def list_sources() -> Iterator[bytes]:
    """Yield the archives that examples are taken from."""
    for name in ARCHIVES:
        yield (ROOT / "tests" / "archives" / name).read_bytes()
    for vector in read_vectors(()):
        if vector["section"] in RECORDED:
            yield base64.b64decode(vector["base64"])


def make_texts() -> dict[Path, str]:
    """Return the texts of the schemas by their paths."""
    paths = {name: ROOT / "schema" / f"{name}.schema.json" for name in NAMES}
    schemas = {name: json.loads(path.read_text("utf-8")) for name, path in paths.items()}
    for schema in schemas.values():
        remove_annotations(schema)
    add_defaults(schemas["data"]["$defs"])
    add_examples(schemas, list_sources())
    return {path: json.dumps(schemas[name], indent=2, ensure_ascii=False) + "\n" for name, path in paths.items()}


def main(arguments: list[str] | None = None) -> int:
    """Write the files, or compare them; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file would change")
    options = parser.parse_args(arguments)
    changed = {path: text for path, text in make_texts().items() if path.read_text("utf-8") != text}
    for path, text in changed.items():
        if options.check:
            print(f"{path.name} is not what {os.path.basename(__file__)} makes of it", file=sys.stderr)  # noqa: T201
        else:
            path.write_text(text, "utf-8", newline="\n")
    return int(options.check and bool(changed))


if __name__ == "__main__":
    sys.exit(main())
