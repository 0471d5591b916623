"""``write_files``: the files of an export, all of them or none; and the report of what was written."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sbformat.io.atomic import new_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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
    """What the file records about the agent (POLICIES.md 20.1)."""


def write_files(contents: Mapping[str, bytes], *, overwrite: bool) -> tuple[ExportedFile, ...]:
    """Write files; when one cannot be written, all are as they were.

    :param contents: bytes by path
    :param overwrite: replace files that exist
    :raises FileExistsError: when one exists and ``overwrite`` is False
    :raises OSError: when one cannot be written, with its path, or when two paths are of one file
    """
    if len({os.path.realpath(path) for path in contents}) < len(contents):
        raise OSError(errno.EINVAL, "two outputs are one file", next(iter(contents)))
    written: list[_Written] = []
    try:
        with contextlib.ExitStack() as stack:
            for path, content in contents.items():
                stack.enter_context(_write_file(path, content, written, overwrite=overwrite))
    except BaseException:
        for file in written:
            with contextlib.suppress(OSError):  # the first error is the one to report
                _restore(file)
        raise
    return tuple(ExportedFile(os.fspath(path), len(content)) for path, content in contents.items())


class _Written(NamedTuple):
    """A file that is in its place."""

    path: str
    before: bytes | None
    """What it was; None for a file that did not exist."""


@contextlib.contextmanager
def _write_file(path: str, content: bytes, written: list[_Written], *, overwrite: bool) -> Iterator[None]:
    """Write a temporary file, and move it to its place at the end."""
    before = Path(path).read_bytes() if overwrite and os.path.isfile(path) else None
    with new_file(path, overwrite=overwrite) as temporary:
        try:
            temporary.write_bytes(content)
        except OSError as error:
            error.filename = path  # the name that the caller passed
            raise
        yield
    written.append(_Written(path, before))


def _restore(file: _Written) -> None:
    if file.before is None:
        os.unlink(file.path)
        return
    with new_file(file.path, overwrite=True) as temporary:
        temporary.write_bytes(file.before)
