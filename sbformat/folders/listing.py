"""The files of a folder and of those below it, with the kind of each that may be an archive, and zips of others."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Any, Final

from sbformat.constants import (
    DATA_ENTRY,
    LOCAL_SIGNATURE,
    PICKLE_RECORD,
    SB2_PARAMETER_LIST_ENTRY,
    SB2_PARAMETERS_ENTRY,
    VERSION_ENTRY,
)
from sbformat.container.reader import list_by_zipfile
from sbformat.errors import COULD_NOT_OPEN, SbformatError, UnsupportedError
from sbformat.folders.names import has_usual_suffix, order_key
from sbformat.formats.opener import open_archive
from sbformat.immutable import Record
from sbformat.io.opening import find_roots, is_link, is_remote, is_within, join_path, open_source, read_start, to_path
from sbformat.io.patterns import NOTHING, Exclusion
from sbformat.limits import Budget

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from sbformat.archive.kinds import Kind
    from sbformat.limits import Limits


_ENTRIES: Final = frozenset({
    DATA_ENTRY, VERSION_ENTRY, PICKLE_RECORD, SB2_PARAMETERS_ENTRY, SB2_PARAMETER_LIST_ENTRY,
})  # fmt: skip
_TORCH_SUFFIXES: Final = (".pth", ".pt")
_HEADER_BYTES: Final = 30
_NAME_LENGTH: Final = 26  # where the length of the name is in the header of an entry


def is_other_zip(path: str) -> bool:
    """Return whether a file is a zip in which no folder has an entry of an agent or of a torch file.

    The names are those that ``zipfile`` finds, which SB3 and torch's users read zips with: a damaged archive, and one
    in a folder of its zip, are not other zips.
    """
    opened: Any = to_path(path) if not is_remote(path) else None
    try:
        if opened is None:
            source = open_source(path)
            opened = io.BytesIO(source.view(0, source.size))
    except (OSError, ValueError, LookupError, SbformatError):
        return False
    found = list_by_zipfile(opened)
    names = (info.filename.rpartition("/")[2].casefold() for info in found or ())
    return found is not None and not any(map(_is_of_agent, names))


def _is_zip_of_agent(head: bytes) -> bool:
    """Return whether the first entry of a zip, which may be damaged, is one of an agent."""
    if not head.startswith(LOCAL_SIGNATURE) or len(head) < _HEADER_BYTES:
        return False
    length = int.from_bytes(head[_NAME_LENGTH : _NAME_LENGTH + 2], "little")
    return _is_of_agent(head[_HEADER_BYTES : _HEADER_BYTES + length].decode("utf-8", "replace").casefold())


def _is_of_agent(name: str) -> bool:
    return name in _ENTRIES or name.endswith(_TORCH_SUFFIXES)


_WANTED: Final[frozenset[str]] = frozenset({
    "sb3", "sbx", "sb2-zip", "sb2-pickle", "policy-file", "vecnormalize", "running-mean-std", "replay-buffer",
})  # fmt: skip
"""Kinds of files that people keep together, whatever they are called."""
PICKLE: Final = b"\x80"
"""The first byte of a pickle."""
_HEAD_BYTES: Final = 512


class ListedFile(Record):
    """A file, or a folder that is an unzipped archive."""

    name: str
    """The path from the top of the folder, with slashes."""
    kind: Kind | None = None
    """None for a file that is not one of those that sbformat reads."""
    outcome: str = ""
    """The kind of error of a file that may be an archive and could not be read; otherwise empty."""
    message: str = ""
    """Why it could not be read."""


def list_files(
    top: str, limits: Limits, leave_out: Collection[str] = (), exclude: Exclusion = NOTHING
) -> list[ListedFile]:
    """Return the files of a folder in the order of their names; folders that cannot be opened are listed as files.

    Hidden files and folders are left out, and links that lead out of the folder or to folders.

    :param top: the folder, which may be remote; then files with other suffixes than those of archives are not opened
    :param leave_out: real paths of folders that are not listed
    :param exclude: what is left out besides
    """
    names = sorted(walk_files(top, leave_out, exclude=exclude), key=order_key)
    if is_remote(top):
        # opening a file costs a request: only by the name of an archive, or without a suffix, as unzipped archives are
        return [
            classify_file(join_path(top, name), limits, name)
            if has_usual_suffix(name) or "." not in name.rpartition("/")[2]
            else ListedFile(name)
            for name in names
        ]
    paths = {name: join_path(top, name) for name in names}
    # what a link in the folder leads to, such as the blobs of the Hugging Face cache, is opened by the link's name only
    linked = {os.path.realpath(path) for path in paths.values() if os.path.islink(path)}
    files = []
    for name, path in paths.items():
        if has_usual_suffix(name) or os.path.isdir(path):
            files.append(classify_file(path, limits, name))
        elif not os.path.islink(path) and os.path.realpath(path) in linked:
            files.append(ListedFile(name))
        else:
            files.append(classify_unusual(path, limits, name))
    return files


def walk_files(
    top: str, leave_out: Collection[str] = (), near: str | None = None, exclude: Exclusion = NOTHING
) -> Iterator[str]:
    """Yield the names of files and unzipped archives of a folder and those below it; hidden ones are left out.

    :param leave_out: real paths of folders that are not listed
    :param near: the name of a folder directly in the top, or an empty text for the top: list only folders in which the
        files of its agents can be, directly in the top or in it; then links may lead out of the folder
    :param exclude: what is left out besides
    """
    return (_walk_remote if is_remote(top) else _walk_local)(top, leave_out, near, exclude)


def _walk_local(top: str, leave_out: Collection[str], near: str | None, exclude: Exclusion) -> Iterator[str]:
    roots = find_roots(top)

    def is_file(item: os.DirEntry[str]) -> bool:
        if near is not None or not item.is_symlink():
            return item.is_file()
        return os.path.isfile(item.path) and is_within(item.path, roots)

    folders = [""]
    while folders:
        here = folders.pop()
        try:
            with os.scandir(join_path(top, here) if here else top) as found:
                items = [item for item in found if not item.name.startswith(".")]
        except OSError:
            if not here:
                raise
            if near is None:
                yield here
            continue
        if here and any(item.name == DATA_ENTRY and is_file(item) for item in items):
            yield here  # an unzipped archive
            continue
        for item in items:
            name = f"{here}/{item.name}" if here else item.name
            is_folder = item.is_dir(follow_symlinks=False) and not is_link(item)
            if exclude.covers(f"{name}/" if is_folder else name):
                continue
            if is_folder:
                is_place = near is None or here in ("", near)
                if is_place and os.path.realpath(item.path) not in leave_out:
                    folders.append(name)
            elif is_file(item):
                yield name


def _walk_remote(top: str, _: Collection[str], near: str | None, exclude: Exclusion) -> Iterator[str]:
    from sbformat.io.remote.listing import walk_folder

    archive = None
    for folder in walk_folder(top, depth=None if near is None else 2 if near else 1):
        if any(part.startswith(".") for part in folder.name.split("/")) or exclude.covers(f"{folder.name}/"):
            continue
        if archive is not None and folder.name.startswith(f"{archive}/"):
            continue
        if near is not None and "/" in folder.name and not folder.name.startswith(f"{near}/"):
            continue
        names = [row.name for row in folder.files]
        if folder.name not in ("", near) and f"{folder.name}/{DATA_ENTRY}" in names:
            archive = folder.name
            yield folder.name
            continue
        yield from (name for name in names if not (name.rpartition("/")[2].startswith(".") or exclude.covers(name)))


def classify_unusual(path: str, limits: Limits, name: str) -> ListedFile:
    """Return a file that is called otherwise than an archive, opened if it starts like one.

    It has a kind if it is an agent, statistics or a replay buffer, and is damaged if the first entry of a zip is one of
    an agent. Otherwise it is a file of another program, such as a document.
    """
    head = read_head(path)
    if head.startswith((LOCAL_SIGNATURE, PICKLE)):
        file = classify_file(path, limits, name)
        if file.kind in _WANTED or (file.outcome and _is_zip_of_agent(head)):
            return file
    return ListedFile(name)


def read_head(path: str) -> bytes:
    """Return the first bytes of a file; none of one that cannot be opened."""
    try:
        return read_start(path, _HEAD_BYTES)
    except OSError:
        return b""


def classify_file(path: str, limits: Limits, name: str | None = None) -> ListedFile:
    """Return a file or unzipped archive with its kind, for which it is opened; its arrays are not read.

    :param name: its name in the result; by default the path
    """
    name = path if name is None else name
    try:
        return ListedFile(name, open_archive(path, Budget(limits), in_memory=False).format)
    except UnsupportedError as error:  # another format
        return ListedFile(name, None, "", error.message)
    except SbformatError as error:
        if name.lower().endswith(".zip") and is_other_zip(path):
            return ListedFile(name, None, "", "a zip of other files")
        return ListedFile(name, None, error.outcome, str(error))
    except OSError as error:
        return ListedFile(name, None, COULD_NOT_OPEN, error.strerror or type(error).__name__)
