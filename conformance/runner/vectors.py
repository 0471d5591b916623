"""The vectors: JSON Lines, one file for each section of the specification (vector.schema.json). Standard library only."""

from __future__ import annotations

import base64
import json
import os
import tempfile
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CONFORMANCE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDER: Final = os.path.join(CONFORMANCE, "vectors")
LAYERS: Final = {
    "container failure": "container",
    "data failure": "data",
    "pickle failure": "pickle",
    "tensor failure": "tensor",
    "limit exceeded": "limits",
    "unsupported": "unsupported",
    "missing": "missing",
    "invalid": "network",
}
"""By outcome (FORMAT.md 10), the folder of a file that must be refused."""

Vector = dict[str, Any]
"""One line."""


class Feature(NamedTuple):
    """A row of ``features.json``."""

    section: str
    description: str
    level: int | None
    """The lowest level of conformance that has it; None if it is independent of the levels."""
    implementations: list[str]
    """The folders of ``harness`` whose decoder, or encoder, has it."""


@cache
def read_features() -> dict[str, Feature]:
    """Read the features by name."""
    with open(os.path.join(CONFORMANCE, "features.json"), "rb") as file:
        return {name: Feature(*row) for name, row in json.load(file).items()}


def list_lacking(implementation: str) -> list[str]:
    """Return the features that a decoder of ``harness`` does not have."""
    return [name for name, row in read_features().items() if implementation not in row.implementations]


def list_features(vector: Vector) -> list[str]:
    """Return the features that a vector needs; ``core`` if it needs none."""
    return vector.get("features") or ["core"]


def list_implementations(vector: Vector) -> list[str]:
    """Return the folders of ``harness`` that have all features of a vector, and an encoder if it is for one."""
    features = read_features()
    needed = [*list_features(vector), *(["canonical"] if vector["kind"] == "encode" else [])]  # encoders have it
    return [
        name
        for name in features["core"].implementations
        if all(name in features[feature].implementations for feature in needed)
    ]


def list_sections(folder: str = FOLDER) -> list[str]:
    """List the sections that have vectors, in the order of their numbers."""
    names = [name.removesuffix(".jsonl") for name in os.listdir(folder) if name.endswith(".jsonl")]
    return sorted(names, key=lambda section: [int(part) for part in section.split(".")])


def read_lines(section: str, folder: str = FOLDER) -> list[bytes]:
    """Read the lines of a section, each with its line feed."""
    with open(os.path.join(folder, f"{section}.jsonl"), "rb") as file:
        return file.readlines()


@cache
def read_section(section: str) -> tuple[Vector, ...]:
    """Read the vectors of a section."""
    return tuple(map(json.loads, read_lines(section)))


def read_vectors(sections: Sequence[str] = (), prefix: str = "") -> Iterator[Vector]:
    """Yield vectors, in the order of their sections and lines.

    :param sections: numbers of sections, of which 6 includes 6.5; without them, all
    :param prefix: how the name of a vector begins
    """
    start = f'{{"name": "{prefix}'.encode()
    for section in list_sections():
        if sections and not any(f"{section}.".startswith(f"{one}.") for one in sections):
            continue
        if prefix:
            yield from (json.loads(line) for line in read_lines(section) if line.startswith(start))
        else:
            yield from read_section(section)


def read_vector(name: str) -> Vector:
    """Read the vector with this name."""
    try:
        return next(read_vectors(prefix=f'{name}"'))
    except StopIteration:
        raise KeyError(name) from None


def decode_file(vector: Vector) -> bytes:
    """Return the bytes that the command reads from standard input."""
    return base64.b64decode(vector["base64"])


def encode_json(value: Any) -> bytes:
    """Encode a JSON text in ASCII, with a line feed at the end."""
    return (json.dumps(value, allow_nan=False) + "\n").encode("ascii")


@contextmanager
def list_arguments(vector: Vector) -> Iterator[list[str]]:
    """List the arguments of the command; the file that --predict or --equal names is removed at the end of the block."""
    arguments = list(vector.get("arguments", ()))
    beside = read_second_file(vector)
    if beside is None:
        yield arguments
        return
    option, content = beside
    handle, path = tempfile.mkstemp()
    try:
        with open(handle, "wb") as file:
            file.write(content)
        yield [option, path, *arguments]
    finally:
        os.unlink(path)


def read_second_file(vector: Vector) -> tuple[str, bytes] | None:
    """Return the argument that names a second file, and the content of this file; None if the vector has none."""
    if "input" in vector:
        return "--predict", encode_json(vector["input"])
    return ("--equal", base64.b64decode(vector["other"])) if "other" in vector else None


# -- vectors as files ---------------------------------------------------------------------------------


def find_suffix(data: bytes) -> str:
    """Return the usual suffix of a file."""
    if data.lstrip()[:1] == b"{":
        return ".json"
    if data[:2] == b"PK" and not (b"/data.pkl" in data[:300] and b"_stable_baselines3" not in data):
        return ".zip"
    return ".pth" if data[:1] == b"\x80" or data[:2] == b"PK" else ".bin"


def name_file(vector: Vector) -> str:
    """Return the path of the file of a vector: ``valid/NAME.zip``, ``invalid/LAYER/NAME.bin`` or ``encode/NAME.json``."""
    if vector["kind"] == "encode":
        return f"encode/{vector['name']}.json"
    folder = f"invalid/{LAYERS[vector['outcome']]}" if "outcome" in vector else "valid"
    return f"{folder}/{vector['name']}{find_suffix(decode_file(vector))}"


def list_files(vector: Vector) -> dict[str, bytes]:
    """List the files of a vector by their paths: what the command reads, ``NAME.expect.json``, and the second file."""
    path = name_file(vector)
    stem = path.rpartition("/")[0] + f"/{vector['name']}"
    parts = {f"{stem}.{key}.json": encode_json(vector[key]) for key in ("input", "expect") if key in vector}
    if "other" in vector:
        other = base64.b64decode(vector["other"])
        parts[f"{stem}.other{find_suffix(other)}"] = other
    return {path: decode_file(vector), **parts}


def write_files(vector: Vector, folder: str | os.PathLike[str]) -> str:
    """Write the files of a vector; return the path of the first.

    :raises FileExistsError: one of them exists
    """
    paths = {os.path.join(folder, *path.split("/")): data for path, data in list_files(vector).items()}
    for path, data in paths.items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "xb") as file:
            file.write(data)
    return next(iter(paths))
