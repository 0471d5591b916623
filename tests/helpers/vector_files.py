"""Conformance vectors as files, for functions that take a path. They are removed when the process ends."""

from __future__ import annotations

import atexit
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.runner.vectors import read_vectors, write_files

if TYPE_CHECKING:
    from conformance.runner.vectors import Vector


@cache
def _make_folder() -> str:
    folder = tempfile.TemporaryDirectory(prefix="vectors-")
    atexit.register(folder.cleanup)
    return folder.name


@cache
def _read_all() -> dict[str, Vector]:
    return {vector["name"]: vector for vector in read_vectors()}


@cache
def write_vector(name: str) -> Path:
    """Write the files of a vector; return the path of the one that a decoder reads."""
    return Path(write_files(_read_all()[name], _make_folder()))


def write_vectors(vectors: list[Vector], folder: Path) -> list[Path]:
    """Write the files of vectors to a folder; return the paths of those that a decoder reads."""
    return [Path(write_files(vector, folder)) for vector in vectors]
