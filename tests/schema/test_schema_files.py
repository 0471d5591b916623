"""The JSON Schemas as files for editors: addresses, examples, defaults, and ajv's strict mode."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest
from jsonschema import Draft202012Validator

from sbformat.known.algorithms import ALGORITHMS
from tests.helpers.bundled import ROOT
from tests.helpers.programs import import_from
from tests.helpers.site_hooks import load_hook

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCHEMAS: Final = {path: json.loads((ROOT / path).read_bytes()) for path in load_hook("site_pages").SCHEMAS}
MODULES: Final = os.environ.get("SBFORMAT_NODE_MODULES")

SAME_VALUE: Final = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else")
"""Keywords whose schemas are about the same value."""
NEEDS: Final = {
    "object": ("properties", "required", "additionalProperties", "propertyNames", "minProperties", "dependentRequired"),
    "array": ("items", "prefixItems", "minItems", "maxItems", "uniqueItems"),
    "string": ("pattern", "minLength", "maxLength", "format", "contentEncoding"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
"""Keywords by the type that they are about."""
KNOWN: Final = {
    *SAME_VALUE, *(word for words in NEEDS.values() for word in words), "$schema", "$id", "$ref", "$defs", "title",
    "description", "type", "enum", "const", "default", "examples",
}  # fmt: skip


def list_parts(schema: Any, path: str = "#", types: tuple[str, ...] = ()) -> Iterator[tuple[str, Any, tuple[str, ...]]]:
    """Yield the schemas in a schema, with their paths and the types of the values that they are about."""
    if not isinstance(schema, dict):
        return
    given = schema.get("type", types)
    types = (given,) if isinstance(given, str) else tuple(given)
    yield path, schema, types
    for word, found in schema.items():
        if word in ("properties", "$defs"):
            for key, part in found.items():
                yield from list_parts(part, f"{path}/{word}/{key}")
        elif word in ("allOf", "anyOf", "oneOf", "prefixItems"):
            for index, part in enumerate(found):
                yield from list_parts(part, f"{path}/{word}/{index}", types if word in SAME_VALUE else ())
        elif word in ("items", "additionalProperties", "propertyNames", "not", "if", "then", "else"):
            yield from list_parts(found, f"{path}/{word}", types if word in SAME_VALUE else ())


def find_complaints(schema: dict[str, Any]) -> Iterator[str]:
    """Yield what ajv's strict mode refuses: unknown keywords, missing types, unions, undescribed required keys."""
    for path, part, types in list_parts(schema):
        yield from (f"{path}: unknown keyword {word}" for word in part.keys() - KNOWN)
        if len([name for name in types if name != "null"]) > 1 and "type" in part:
            yield f"{path}: a union of types"
        for name, words in NEEDS.items():
            wanted = {name, "integer"} if name == "number" else {name}
            if part.keys() & set(words) and not wanted & set(types):
                yield f"{path}: no type {name}"
        for key in part.get("required", ()):
            if key not in part.get("properties", {}):
                yield f"{path}: the required key {key} is not in properties"
        if "prefixItems" in part and (part.get("items") is not False or "minItems" not in part):
            yield f"{path}: a tuple of any length"


@pytest.mark.parametrize("path", SCHEMAS)
def test_strict_validators_have_nothing_to_complain_about(path: str) -> None:
    Draft202012Validator.check_schema(SCHEMAS[path])
    assert list(find_complaints(SCHEMAS[path])) == []


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        ({"properties": {}}, "#: no type object"),
        ({"type": ["integer", "string"]}, "#: a union of types"),
        ({"type": "object", "required": ["x"]}, "#: the required key x is not in properties"),
        ({"type": "array", "prefixItems": [{}]}, "#: a tuple of any length"),
        ({"type": "string", "pattern": "x", "exampels": []}, "#: unknown keyword exampels"),
        ({"type": "object", "anyOf": [{"not": {"required": ["x"]}}]}, "#/anyOf/0/not: the required key x is not"),
    ],
)
def test_complaints_are_found(schema: dict[str, Any], complaint: str) -> None:
    (found,) = find_complaints(schema)
    assert found.startswith(complaint)


@pytest.mark.parametrize("path", SCHEMAS)
def test_a_schema_has_an_address_and_a_title(path: str) -> None:
    schema = SCHEMAS[path]
    assert schema["$id"].endswith(f"/{path}")
    assert len(schema["title"]) > 10
    assert not schema["title"].endswith((".", ":"))


@pytest.mark.parametrize("path", SCHEMAS)
def test_examples_and_defaults_are_valid(path: str) -> None:
    definitions = SCHEMAS[path].get("$defs", {})
    for where, part, _ in list_parts(SCHEMAS[path]):
        values = [*part.get("examples", ()), *([part["default"]] if "default" in part else ())]
        validator = Draft202012Validator({**part, "$id": "urn:part", "$defs": definitions})
        assert [value for value in values if not validator.is_valid(value)] == [], where


def test_defaults_are_those_of_the_constructors() -> None:
    program = import_from(ROOT / "schema", "generate_annotations")
    definitions = SCHEMAS["schema/data.schema.json"]["$defs"]
    count = 0
    for name, row in ALGORITHMS.items():
        for key, value in row.hyperparameters.items():
            places = [definitions[parent].get("properties", {}) for parent in program.list_parents(definitions, name)]
            found = [place[key]["default"] for place in places if "default" in place.get(key, ())]
            if found:
                count += 1
                assert found[0] == value, (name, key)
    assert count > 150


def test_the_annotations_are_those_of_the_program() -> None:
    program = import_from(ROOT / "schema", "generate_annotations")
    assert program.main(["--check"]) == 0


@pytest.mark.parametrize("kind", ["accepted", "refused"])
def test_the_files_for_schemastore_are_accepted_and_refused(kind: str) -> None:
    program = import_from(ROOT / "schema", "schemastore")
    documents = program.make_accepted() if kind == "accepted" else program.make_refused()
    for name, files in documents.items():
        validator = Draft202012Validator(program.read_schema(name))
        assert len(files) > 0
        assert {validator.is_valid(document) for document in files.values()} == {kind == "accepted"}


def test_the_catalog_has_no_general_pattern(tmp_path: Path) -> None:
    program = import_from(ROOT / "schema", "schemastore")
    program.write_files(tmp_path)
    entries = json.loads((tmp_path / "catalog.json").read_bytes())
    assert {entry["url"] for entry in entries} <= {schema["$id"] for schema in SCHEMAS.values()}
    assert all("sb" in pattern and pattern.endswith(".json") for entry in entries for pattern in entry["fileMatch"])


@pytest.mark.skipif(
    not MODULES or not os.path.isdir(os.path.join(MODULES, "ajv")) or shutil.which("node") is None,
    reason="SBFORMAT_NODE_MODULES has no ajv",
)
def test_ajv_compiles_them_in_strict_mode(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(ROOT / "schema" / "schemastore.py"), str(tmp_path)], check=True)
    program = ROOT / "tests" / "schema" / "ajv_strict.mjs"
    command = ["node", str(program), str(MODULES), str(ROOT), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"{len(SCHEMAS)} schemas, 0 complaints\n")
