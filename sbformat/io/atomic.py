"""Make a file or folder whole or not at all: written beside the target, synced, then renamed.

On any failure the target is as it was and nothing is left behind.
"""

from __future__ import annotations

import contextlib
import os
import stat
from io import FileIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator


_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)
_BINARY: Final = getattr(os, "O_BINARY", 0)
_WRITE_BACK_BYTES: Final = 1 << 23


def open_new(temporary: Path) -> FileIO:
    """Open what :func:`new_file` gave for writing, unbuffered; never what a link put in its place leads to."""
    return FileIO(os.open(temporary, os.O_WRONLY | os.O_TRUNC | _NO_LINK | _BINARY), "w")


class WriteBack:
    """Has the system write a new file to the disk while more of it is made, so that the sync behind it waits for less.

    :param file: which is written from its start, at most with some headers in between
    """

    __slots__ = ("_at", "_file", "_waiting")

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._at = 0
        self._waiting = 0

    def add(self, size: int) -> None:
        """Take note that so many bytes were written."""
        self._waiting += size
        if self._waiting >= _WRITE_BACK_BYTES and hasattr(os, "posix_fadvise"):
            with contextlib.suppress(OSError):  # a hint: Linux begins to write what is dirty, and drops none of it
                os.posix_fadvise(self._file.fileno(), self._at, self._waiting, os.POSIX_FADV_DONTNEED)
            self._at += self._waiting
            self._waiting = 0


def _beside(target: Path) -> Path:
    return target.with_name(f".{os.urandom(8).hex()}.tmp")


def _settle(path: Path, mode: int | None = None) -> None:
    """Give a file its mode, and see that it is on the disk."""
    handle = os.open(path, os.O_RDWR | _NO_LINK)  # Windows syncs only what it may write
    try:
        if mode is not None and mode != stat.S_IMODE(os.fstat(handle).st_mode):  # not every file system has modes
            os.chmod(handle if os.chmod in os.supports_fd else path, mode)
        os.fsync(handle)
    finally:
        os.close(handle)


def _settle_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # not every system lets a folder be opened
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _exists(target: Path) -> FileExistsError:
    return FileExistsError(17, "exists already", str(target))


@contextlib.contextmanager
def new_file(path: str | os.PathLike[str], *, overwrite: bool) -> Iterator[Path]:
    """Give a temporary path to write; when the block ends well it becomes the file.

    :param path: the target; a symbolic link is followed
    :param overwrite: replace a file that exists, keeping its mode
    :raises FileExistsError: when it exists and ``overwrite`` is False
    :raises OSError: when the target is no regular file, or writing fails
    """
    target = Path(os.path.realpath(path))
    mode = None
    if os.path.lexists(target):
        if not overwrite:
            raise _exists(target)
        status = os.stat(target)
        if not stat.S_ISREG(status.st_mode):
            message = "is no regular file"
            raise OSError(22, message, str(target))
        mode = stat.S_IMODE(status.st_mode)
    temporary = _beside(target)
    handle = _create(temporary, target, mode)
    try:
        if mode is None:
            mode = stat.S_IMODE(os.fstat(handle).st_mode)
        os.close(handle)
        yield temporary
        _settle(temporary, mode)  # whoever wrote it may have put a file of their own in its place
        if overwrite:
            os.replace(temporary, target)
        else:
            _move_unless_there(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):  # what went wrong before matters more
            os.unlink(temporary)
        raise
    _settle_folder(target.parent)


def _create(temporary: Path, target: Path, mode: int | None) -> int:
    """Make the file, for no more eyes than those that the target is for."""
    allowed = 0o666 if mode is None else mode & 0o666 | 0o600
    try:
        return os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, allowed)
    except OSError as error:
        error.filename = str(target)  # the name that whoever asked for it knows
        raise


def _move_unless_there(temporary: Path, target: Path) -> None:
    """Rename without replacing what another process made meanwhile."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise _exists(target) from None
    except OSError:  # a file system without hard links
        if os.path.lexists(target):
            raise _exists(target) from None
        os.rename(temporary, target)
    else:
        os.unlink(temporary)


def _check_replaceable(target: Path, suffix: str | None) -> None:
    """Refuse a target that holds anything but real folders and files of ``suffix``; None: anything at all."""
    if target.is_symlink() or not target.is_dir() or target == Path.cwd() or target.is_mount():
        raise _exists(target)
    with os.scandir(target) as found:
        for item in found:
            if suffix is None:
                raise _exists(target)
            if item.is_dir(follow_symlinks=False):
                _check_replaceable(Path(item.path), suffix)
            elif not item.is_file(follow_symlinks=False) or not item.name.endswith(suffix):
                message = f"holds what is no {suffix}; it is not replaced"
                raise FileExistsError(17, message, str(target))


@contextlib.contextmanager
def new_folder(path: str | os.PathLike[str], *, overwrite: bool, replaceable_suffix: str) -> Iterator[Path]:
    """Give a temporary folder to fill; when the block ends well it becomes the folder.

    :param path: the target
    :param overwrite: replace a folder that holds nothing but files of ``replaceable_suffix``
    :param replaceable_suffix: such as ``.npy``
    :raises FileExistsError: when it exists and is not empty, or holds anything else
    """
    import shutil  # which loads all that it can unpack

    target = Path(os.path.realpath(path))
    if os.path.lexists(target):
        _check_replaceable(target, replaceable_suffix if overwrite else None)
    temporary = _beside(target)
    temporary.mkdir()
    old = _beside(target)
    try:
        yield temporary
        for item in temporary.rglob("*"):
            (_settle_folder if item.is_dir() else _settle)(item)
        if target.is_dir():
            target.rename(old)
        temporary.rename(target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        if old.exists() and not os.path.lexists(target):
            old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)
    _settle_folder(target.parent)
