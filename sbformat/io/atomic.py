"""Write a file or folder completely or not at all: to a temporary name in the same folder, synced, then renamed.

After any failure the target is unchanged, and the temporary file is removed. A process that is killed leaves it; the
next one that writes a file into the folder removes it when it is a day old. An OSError in writing names the target: no
caller knows the temporary name.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from functools import lru_cache
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sbformat.errors import ALREADY_EXISTS, require_type
from sbformat.io.urls import is_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _typeshed import ReadableBuffer


_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)
_BINARY: Final = getattr(os, "O_BINARY", 0)
_TEMPORARY: Final = re.compile(r"\.[0-9a-f]{16}\.tmp")
_OLD_SECONDS: Final = 24 * 60 * 60
"""Seconds since its last change after which no running process writes a temporary file."""


_WRITE_BACK_BYTES: Final = 1 << 24


class NewFile(FileIO):
    """A file that the system writes to the disk meanwhile, so that the sync at the end does not wait for all of it.

    On Linux, ``POSIX_FADV_DONTNEED`` begins to write the changed pages of a range, without waiting, and drops those of
    it that are written already: each range is named once. It is advice, which may be refused, or do nothing.
    """

    _begun = 0

    def write(self, data: ReadableBuffer, /) -> int:
        written = super().write(data)
        if hasattr(os, "posix_fadvise") and (size := self.tell() - self._begun) >= _WRITE_BACK_BYTES:
            with contextlib.suppress(OSError):
                os.posix_fadvise(self.fileno(), self._begun, size, os.POSIX_FADV_DONTNEED)
            self._begun += size
        return written


def open_new(temporary: Path) -> FileIO:
    """Open the temporary path of :func:`new_file` for writing, unbuffered; a link in its place is not followed."""
    return NewFile(os.open(temporary, os.O_WRONLY | os.O_TRUNC | _NO_LINK | _BINARY), "w")


def _temporary_name(target: Path) -> Path:
    return target.with_name(f".{os.urandom(8).hex()}.tmp")


def is_temporary(path: str) -> bool:
    """Return whether a file has the name of a temporary one, which a process that was killed left."""
    return _TEMPORARY.fullmatch(os.path.basename(path)) is not None


@lru_cache(maxsize=1024)  # a folder that many files are written to is looked at once
def _remove_old(folder: Path) -> None:
    """Remove the temporary files that killed processes left in a folder."""
    with contextlib.suppress(OSError), os.scandir(folder) as found:
        for item in found:
            if is_temporary(item.name) and item.is_file(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    if time.time() - item.stat(follow_symlinks=False).st_mtime > _OLD_SECONDS:
                        os.unlink(item.path)


def _sync(path: Path, flags: int, mode: int | None = None) -> None:
    """Set the mode of a file, and write it, or a folder, to the disk."""
    handle = os.open(path, flags)
    try:
        if mode is not None and mode != stat.S_IMODE(os.fstat(handle).st_mode):  # not every file system has modes
            os.chmod(handle if os.chmod in os.supports_fd else path, mode)
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_file(path: Path, mode: int | None = None) -> None:
    _sync(path, os.O_RDWR | _NO_LINK, mode)  # Windows syncs only files that are open for writing


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # not every system lets a folder be opened
        _sync(folder, os.O_RDONLY)


def _error_exists(target: Path, message: str = ALREADY_EXISTS) -> FileExistsError:
    return FileExistsError(17, message, str(target))


def check_new_file(path: str | os.PathLike[str], *, overwrite: bool) -> tuple[Path, int | None]:
    """Return the target of :func:`new_file`, and the mode of the file there, before long work is done."""
    require_type(path, (str, os.PathLike), "a path")
    if is_url(path):
        raise OSError(30, "URLs can be read, not written: name a file", path)
    target = Path(os.path.realpath(path))
    if not os.path.lexists(target):
        return target, None
    status = os.stat(target)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(22, "not a regular file", str(target))
    if not overwrite:
        raise _error_exists(target)
    return target, stat.S_IMODE(status.st_mode)


@contextlib.contextmanager
def new_file(path: str | os.PathLike[str], *, overwrite: bool) -> Iterator[Path]:
    """Yield a temporary path to write to; it is renamed to the target when the block ends without an error."""
    target, mode = check_new_file(path, overwrite=overwrite)
    _remove_old(target.parent)
    temporary = _temporary_name(target)
    try:
        # readable for nobody who cannot read the target
        allowed = 0o666 if mode is None else mode & 0o666 | 0o600
        handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, allowed)
    except OSError as error:
        error.filename = str(target)  # the name that the caller passed
        raise
    try:
        if mode is None:
            mode = stat.S_IMODE(os.fstat(handle).st_mode)
        os.close(handle)
        yield temporary
        _sync_file(temporary, mode)  # the block may have replaced the file by one of its own
        if overwrite:
            os.replace(temporary, target)
        else:
            _move_unless_there(temporary, target)
    except BaseException as error:
        _name_target(error, temporary, target)
        with contextlib.suppress(OSError):  # the first error is the one to report
            os.unlink(temporary)
        raise
    _sync_folder(target.parent)


def _name_target(error: BaseException, temporary: Path, target: Path) -> None:
    """Name the target in an error that names the temporary file, or, as errors in writing to one do, no file."""
    if not isinstance(error, OSError):
        return
    name = error.filename
    if name is None or str(name) == str(temporary) or str(name).startswith(f"{temporary}{os.sep}"):
        error.filename, error.filename2 = str(target), None


def _move_unless_there(temporary: Path, target: Path) -> None:
    """Rename without replacing a file that another process made in the meantime."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise _error_exists(target) from None
    except OSError:  # a file system without hard links
        if os.path.lexists(target):
            raise _error_exists(target) from None
        os.rename(temporary, target)
    else:
        os.unlink(temporary)


def _check_replaceable(target: Path, suffix: str | None) -> None:
    """Refuse a target that contains anything but real folders and files of ``suffix``; with None, anything at all."""
    if target.is_symlink() or not target.is_dir() or target == Path.cwd() or os.path.ismount(target):
        if suffix is None:
            raise _error_exists(target)
        raise _error_exists(target, f"is not a folder of {suffix} files; it is not replaced")
    with os.scandir(target) as found:
        for item in found:
            if suffix is None:
                raise _error_exists(target)
            if item.is_dir(follow_symlinks=False):
                _check_replaceable(Path(item.path), suffix)
            elif not item.is_file(follow_symlinks=False) or not item.name.endswith(suffix):
                raise _error_exists(target, f"contains files other than {suffix}; it is not replaced")


@contextlib.contextmanager
def new_folder(path: str | os.PathLike[str], *, overwrite: bool, replaceable_suffix: str) -> Iterator[Path]:
    """Yield a temporary folder to fill; it is renamed to the target when the block ends without an error.

    :param overwrite: replace a folder that contains only files of ``replaceable_suffix``
    """
    import shutil  # imported late: it imports every compression module

    target = Path(os.path.realpath(path))
    if os.path.lexists(target):
        _check_replaceable(target, replaceable_suffix if overwrite else None)
    temporary, old = _temporary_name(target), _temporary_name(target)
    try:
        temporary.mkdir()
        yield temporary
        for item in temporary.rglob("*"):
            (_sync_folder if item.is_dir() else _sync_file)(item)
        if target.is_dir():
            target.rename(old)
        temporary.rename(target)
    except BaseException as error:
        _name_target(error, temporary, target)
        shutil.rmtree(temporary, ignore_errors=True)
        if old.exists() and not os.path.lexists(target):
            old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)
    _sync_folder(target.parent)
