"""``open_archive``: detects the kind of a source, and opens it with the class for that kind.

=========================  =========================================  ==============================================
kind                       what the file is                           the class that reads it
=========================  =========================================  ==============================================
sb3, folder                a zip with ``data`` or a ``.pth``, or the  :class:`~sbformat.archive.archive.Archive`
                           folder that it was unzipped into
torch-zip, torch-legacy    a single ``.pth``                          ``Archive``, or ``PolicyFile`` if
                                                                      ``policy.save()`` wrote it
data-json                  a single ``data``                          ``Archive``
sbx                        an archive of SBX, or its folder           ``SbxArchive``
sb2-zip, sb2-pickle        Stable Baselines 2                         ``Sb2Zip``, ``Sb2Pickle``
vecnormalize,              a single pickle                            ``PickledArchive``
running-mean-std,
replay-buffer
safetensors, npz           arrays                                     ``ArrayFile``, or ``Archive`` if
                                                                      ``convert`` made it of one
=========================  =========================================  ==============================================

Other kinds are refused with the reason. ``read``, ``safe_open``, the tools and the commands open files with this
function only. ``scan`` looks into files that no reader accepts, and has its own walk in ``tools/scan``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from sbformat.archive.archive import Archive
from sbformat.archive.entries import FileEntries, ReadOptions, is_entry_name
from sbformat.archive.kinds import detect_kind, detect_zip_kind, refuse_kind
from sbformat.constants import DATA_ENTRY, POLICY_ENTRY, PTH_SUFFIX
from sbformat.container.layout import is_state_dict
from sbformat.container.reader import Container
from sbformat.errors import MissingEntryError, SbformatError
from sbformat.io.opening import LARGE_FILE_BYTES, base_name, is_folder, is_remote, open_large, open_source, open_url
from sbformat.io.source import is_in_memory
from sbformat.pkl.decode import decode_pickle
from sbformat.pth.values import refuse_unsupported

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbformat.archive.entries import Entries
    from sbformat.archive.kinds import Kind
    from sbformat.io.opening import SourceLike
    from sbformat.io.remote import RemoteSource
    from sbformat.io.source import FileSource, Source
    from sbformat.limits import Budget

_DATA_KEYS: Final = ("policy_class", "observation_space", "action_space")
_LARGE: Final[frozenset[Kind]] = frozenset({"pickle"})  # kinds of which a large file is always left on the disk
_LARGE_IN_PLACE: Final[frozenset[Kind]] = frozenset({"pickle", "zip", "safetensors"})
_BY_RANGE: Final[frozenset[Kind]] = frozenset({"zip", "safetensors"})
"""Kinds of which parts can be used, so that remote files of any size need not be fetched whole."""
_DEFAULT_OPTIONS: Final = ReadOptions()


def open_archive(
    source: Archive | SourceLike,
    budget: Budget,
    options: ReadOptions = _DEFAULT_OPTIONS,
    *,
    mapped: bool = False,
    in_memory: bool = True,
    progress: Callable[[int], None] | None = None,
    opened: Source | None = None,
) -> Archive:
    """Open a source with the class for its kind; return an archive unchanged.

    :param source: an archive, a path (``name`` falls back to ``name.zip``, as in SB3), a folder, a URL, bytes, or a
        binary file object
    :param budget: memory for the size of the file is granted to it
    :param mapped: map a file instead of reading it; fetch a remote one by ranges
    :param in_memory: read large zips into memory, too; otherwise they stay in the file, and remote files where they are
    :param progress: called with a number of bytes whenever that many of the file were read into memory
    :param opened: the contents, from :func:`open_once`; ``source`` then only gives the name, and is not opened
    """
    if isinstance(source, Archive):
        return source
    if opened is None and is_folder(source):
        from sbformat.archive.entries import open_folder

        folder = open_folder(source, budget, mapped=mapped, in_memory=in_memory, progress=progress)
        if not any(name == DATA_ENTRY or is_state_dict(name) for name in folder):
            raise MissingEntryError(DATA_ENTRY, present=folder)
        if detect_zip_kind(folder.entries) == "sb2-zip":
            return _open_sb2_zip(folder, budget, options)
        return _open_sb3(folder, "folder", budget, options)
    if opened is None and is_remote(source):
        is_whole = in_memory and not mapped
        remote = open_url(source, budget.limits, is_whole=is_whole)
        opened = _keep_or_load(remote, in_memory=is_whole, progress=progress)
    elif opened is None:
        large = _large(source, budget, _LARGE if in_memory else _LARGE_IN_PLACE)
        if large is not None:
            large.progress = progress
        opened = large or open_source(source, mapped=mapped, budget=budget, progress=progress)
    budget.grant(opened.size)
    kind = detect_kind(opened)
    if kind == "zip":
        return _open_zip(opened, source, budget, options)
    if kind == "torch-legacy":
        return _open_pth(opened, kind, source, budget, options)
    if kind == "data-json":
        return _require_keys(Archive(FileEntries({DATA_ENTRY: opened}, budget), kind, budget, options))
    if kind == "safetensors":
        from sbformat.formats.array_files import open_safetensors

        return open_safetensors(opened, FileEntries({_entry_name(source, kind): opened}, budget), budget, options)
    return _open_pickle(opened, source, budget, options) if kind == "pickle" else refuse_kind(kind, opened)


def open_once(source: SourceLike, budget: Budget, *, remote: RemoteSource | None = None) -> Source:
    """Open a file for several readers, so that all of them read the same bytes, also of a pipe or a replaced file.

    A large file that :func:`open_archive` leaves on the disk is a :class:`~sbformat.io.source.FileSource`, which
    refuses a file that has changed; others are in memory. Of a remote file, a large pickle is left where it is.

    :param budget: charged for the bytes of a pipe
    :param remote: the file of a URL, if it was opened
    """
    if is_remote(source):
        return _keep_or_load(remote or open_url(source, budget.limits, is_whole=True), in_memory=True)
    return _large(source, budget, _LARGE_IN_PLACE) or open_source(source, budget=budget)


def _keep_or_load(remote: RemoteSource, *, in_memory: bool, progress: Callable[[int], None] | None = None) -> Source:
    """Return a remote file that is read by ranges, or all of its bytes.

    :param in_memory: fetch zips and arrays whole, and so all that is not a large pickle
    """
    kind = detect_kind(remote)
    stays = (kind in _LARGE and remote.size > LARGE_FILE_BYTES) or (not in_memory and kind in _BY_RANGE)
    return remote if stays and remote.is_by_range() else remote.load(progress)


def _require_keys(archive: Archive) -> Archive:
    """Refuse JSON that is not ``data``; invalid JSON is reported when it is used.

    The archive keeps what is decoded here, so that no text is parsed twice.
    """
    try:
        data = archive.data
    except SbformatError:
        return archive
    if not any(key in data for key in _DATA_KEYS):
        refuse_unsupported(f"expected data of an archive, got JSON without any of the keys {', '.join(_DATA_KEYS)}")
    return archive


def _open_zip(opened: Source, source: SourceLike, budget: Budget, options: ReadOptions) -> Archive:
    container = Container(opened, budget=budget, names="record")
    kind = detect_zip_kind(container.entries)
    if kind == "torch-zip":
        return _open_pth(opened, kind, source, budget, options)
    if kind == "npz":
        from sbformat.formats.array_files import open_npz

        return open_npz(container, FileEntries({_entry_name(source, kind): opened}, budget), budget, options)
    if kind not in ("sb3", "sb2-zip"):
        refuse_kind(kind, opened, container.entries)
    budget.spend("outer_entries", len(container))
    container.require_paths()
    if kind == "sb2-zip":
        return _open_sb2_zip(container, budget, options)
    return _open_sb3(container, kind, budget, options)


def _open_sb3(entries: Entries, kind: Kind, budget: Budget, options: ReadOptions) -> Archive:
    """Open an archive of SB3; one without ``policy.pth`` may be of SBX, which its ``data`` shows."""
    archive = Archive(entries, kind, budget, options)
    if DATA_ENTRY not in entries.entries or POLICY_ENTRY in entries.entries:
        return archive
    from sbformat.formats.sbx import open_sbx

    return open_sbx(archive, budget, options) or archive


def _open_pth(opened: Source, kind: Kind, source: SourceLike, budget: Budget, options: ReadOptions) -> Archive:
    from sbformat.formats.pickled import open_policy_file

    name = POLICY_ENTRY
    if isinstance(source, (str, os.PathLike)):
        base = base_name(source)
        base += "" if base.endswith(PTH_SUFFIX) else PTH_SUFFIX
        name = base if is_state_dict(base) and is_entry_name(base) else POLICY_ENTRY
    entries = FileEntries({name: opened}, budget)
    return open_policy_file(opened, entries, budget, options) or Archive(entries, kind, budget, options)


def _open_sb2_zip(entries: Entries, budget: Budget, options: ReadOptions) -> Archive:
    from sbformat.formats.sb2 import Sb2Zip

    return Sb2Zip(entries, budget, options)


def _open_pickle(opened: Source, source: SourceLike, budget: Budget, options: ReadOptions) -> Archive:
    from sbformat.formats.pickled import PickledArchive, classify_pickle, require_plain_pickle
    from sbformat.formats.sb2 import Sb2Pickle

    if is_in_memory(opened):
        pickle = decode_pickle(opened.view(0, opened.size), budget)
    else:
        from sbformat.pkl.out_of_core import decode_large

        pickle = decode_large(opened, budget)
    kind = classify_pickle(require_plain_pickle(pickle))
    entries = FileEntries({_entry_name(source, "pickle"): opened}, budget)
    opened_as = Sb2Pickle if kind == "sb2-pickle" else PickledArchive
    return opened_as(entries, kind, pickle, budget, options)


def _large(source: SourceLike, budget: Budget, kinds: frozenset[Kind]) -> FileSource | None:
    """Open a file of one of these kinds that may be larger than memory, without reading it; None for others."""
    opened = open_large(source, limits=budget.limits)
    return opened if opened is not None and detect_kind(opened) in kinds else None


def _entry_name(source: SourceLike, otherwise: str) -> str:
    """Return the name of the file if it is valid as an entry name."""
    name = base_name(source)
    return name if is_entry_name(name) else otherwise
