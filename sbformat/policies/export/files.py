"""``write_files``: the files of an export, all of them or none; and the report of what was written."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, NamedTuple

from sbformat.io.atomic import new_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.policies.export.interface import Port


class ExportedFile(NamedTuple):
    """A file that was written."""

    path: str
    size: int
    """In bytes."""


class ExportReport(NamedTuple):
    """What was exported."""

    format: str
    """``onnx``, ``c`` or ``json``."""
    files: tuple[ExportedFile, ...]
    """The file that was requested, then those beside it."""
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    nodes: int
    """The number of operations."""
    constants: int
    """The number of items of all constants."""
    metadata: Mapping[str, str]
    """What the file records about the agent (FORMAT.md 20.1)."""


def write_files(contents: Mapping[str, bytes], *, overwrite: bool) -> tuple[ExportedFile, ...]:
    """Write files; when one cannot be written, none is.

    :param contents: bytes by path
    :param overwrite: replace files that exist
    :raises FileExistsError: when one exists and ``overwrite`` is False
    :raises OSError: when one cannot be written
    """
    with contextlib.ExitStack() as stack:
        for path, content in contents.items():
            temporary = stack.enter_context(new_file(path, overwrite=overwrite))
            temporary.write_bytes(content)
    return tuple(ExportedFile(os.fspath(path), len(content)) for path, content in contents.items())
