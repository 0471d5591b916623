"""Generate the vectors; with ``--check``, only compare them with the existing ones.

A family of vectors is a module of ``generators``; its ``vectors()`` yields each vector with its rule.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import importlib
import json
import re
import sys
import textwrap
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

HERE: Final = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

from conformance.generators import recorded  # noqa: E402
from conformance.runner.vectors import (  # noqa: E402
    FOLDER,
    encode_json,
    list_features,
    list_implementations,
    list_sections,
    read_features,
    read_lines,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.generators.vectors import Vector

Lines = dict[str, dict[str, bytes]]
"""The lines of vectors by section and name, in order."""

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
    "equality",
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
    "policy_defaults",
    "policy_details",
    "policy_arguments",
    "policy_wrappers",
    "sbx",
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
REPEATED: Final = frozenset({
    "zip-whole", "directory-two", "directory-of-two-records", "opcode-none", "norm-means-with-a-fourth-alone",
    "bundle-version", "bundle-arrays",
})  # fmt: skip
"""Vectors with the input and arguments of an earlier one: each is the only one of its rule on its side."""
TOLERANCE: Final = 1e-5
"""Of the floats that a policy predicts: relative to the larger of 1 and the value (POLICIES.md 19.1)."""


def generate_lines() -> Lines:
    """Generate the vectors of all families; within a section they are in the order of the families."""
    made: Lines = {}
    names: set[str] = set()
    inputs: dict[Any, str] = {}
    for vector in all_vectors():
        if vector.name in names:
            message = f"two vectors have the name {vector.name}"
            raise ValueError(message)
        names.add(vector.name)
        key = vector.kind, vector.data, vector.arguments, repr(vector.question), vector.other
        first = inputs.setdefault(key, vector.name)
        if (first != vector.name) != (vector.name in REPEATED):
            message = (
                f"expected REPEATED to list the vectors with the input of another; {vector.name} has that of {first}"
            )
            raise ValueError(message)
        made.setdefault(vector.section, {})[vector.name] = encode_json(describe_vector(vector))
    return made


def all_vectors() -> Iterator[Vector]:
    """Yield the vectors of all families."""
    for family in FAMILIES:
        yield from importlib.import_module(f"conformance.generators.{family}").vectors()


def describe_vector(vector: Vector) -> dict[str, Any]:
    """Return the line of a vector (vector.schema.json)."""
    described: dict[str, Any] = {
        "name": vector.name,
        "kind": vector.kind,
        "section": vector.section,
        "sentence": vector.sentence,
        "level": find_level(vector),
        "features": vector.features,
        "arguments": vector.arguments,
    }
    if not vector.is_valid:
        described["outcome"] = vector.expect
    elif vector.kind == "policy":
        described["tolerance"] = TOLERANCE
    elif vector.kind == "encode" and vector.expect is not None:
        described["written"] = hashlib.sha256(vector.expect).hexdigest()
    described["input"] = vector.question
    described["other"] = None if vector.other is None else base64.b64encode(vector.other).decode("ascii")
    described["expect"] = vector.expect if vector.is_valid and vector.kind != "encode" else None
    described["base64"] = base64.b64encode(vector.data).decode("ascii")
    return {key: value for key, value in described.items() if value not in (None, ())}


def find_level(vector: Vector) -> int | None:
    """Return the lowest level of conformance with all features of a vector, or None if one has no level."""
    levels = [read_levels()[feature] for feature in ("core", *vector.features)]
    return None if None in levels else max(levels)


@cache
def read_levels() -> dict[str, Any]:
    """Read the level of each feature; None if it is independent of the levels."""
    return {name: feature.level for name, feature in read_features().items()}


def existing_lines() -> Lines:
    """Read the existing vectors."""
    return {section: {json.loads(line)["name"]: line for line in read_lines(section)} for section in list_sections()}


def list_differences(existing: Lines, wanted: Lines) -> Iterator[str]:
    """Describe what differs: vectors by their names, and sections whose order differs."""
    before, after = (
        {name: line for lines in both.values() for name, line in lines.items()} for both in (existing, wanted)
    )
    yield from (f"new: {name}" for name in after if name not in before)
    yield from (f"differs: {name}" for name in after if name in before and before[name] != after[name])
    yield from (f"removed: {name}" for name in before if name not in after)
    for section, lines in wanted.items():
        if existing.get(section, {}).keys() == lines.keys() and list(existing[section]) != list(lines):
            yield f"another order: section {section}"


BEGIN: Final = "<!-- begin implementations: generated by generate.py -->\n"
END: Final = "<!-- end implementations -->\n"


def fill_readme(text: str, wanted: Lines) -> str:
    """Return README.md with the table of the implementations of each feature."""
    before, _, rest = text.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        message = f"expected README.md to have the lines {BEGIN!r} and {END!r}"
        raise ValueError(message)
    return f"{before}{BEGIN}\n{render_implementations(wanted)}\n{END}{after}"


def render_implementations(wanted: Lines) -> str:
    """Render, for each feature, the number of its vectors and who implements it, and the totals."""
    vectors = [json.loads(line) for lines in wanted.values() for line in lines.values()]
    counts = Counter(feature for vector in vectors for feature in list_features(vector))
    encoders = sum(vector["kind"] == "encode" for vector in vectors)
    alone = sum(len(list_implementations(vector)) < 2 for vector in vectors)
    known = read_features()["core"].implementations
    rows = [
        (name, counts[name], *(one in feature.implementations for one in known))
        for name, feature in read_features().items()
    ]
    marks = [(f"`{name}`", f"{count:,}", *("yes" if has else "" for has in found)) for name, count, *found in rows]
    head = ("feature", "vectors", *known)
    table = [head, ("---",) * len(head), *marks]
    text = (
        f"Of {len(vectors):,} vectors, {alone:,} are within what one implementation has: {encoders} of an encoder, and "
        f"those with a feature that one alone has. Their results were checked by that implementation and by hand alone. "
        f"For all others, two implementations agree that were written independently of each other."
    )
    return (
        "\n".join((textwrap.fill(text, 120), "", *(re.sub(" +", " ", f"| {' | '.join(row)} |") for row in table)))
        + "\n"
    )


def write_lines(wanted: Lines) -> None:
    """Write a file for each section, and remove other files."""
    folder = Path(FOLDER)
    for section in {*list_sections()} - wanted.keys():
        (folder / f"{section}.jsonl").unlink()
    for section, lines in wanted.items():
        (folder / f"{section}.jsonl").write_bytes(b"".join(lines.values()))


def main() -> int:
    """Write the vectors; with ``--check``, only list what differs, and return 1 if something does."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a vector differs")
    parser.add_argument(
        "--recorded", type=Path, metavar="FOLDER", help="files that a program of generators/released wrote"
    )
    options = parser.parse_args()
    if options.recorded:
        recorded.add_folder(options.recorded)
    wanted = generate_lines()
    differences = list(list_differences(existing_lines(), wanted))
    readme = HERE / "README.md"
    before = readme.read_text(encoding="utf-8")
    after = fill_readme(before, wanted)
    if before != after:
        differences.append("differs: README.md")
    for difference in differences:
        print(difference)
    if not options.check:
        write_lines(wanted)
        readme.write_text(after, encoding="utf-8", newline="\n")
    return int(options.check and bool(differences))


if __name__ == "__main__":
    sys.exit(main())
