"""``read``, ``reads``, ``safe_open`` and ``read_parameters``: the ways in.

All take a path, bytes or a binary file object, and every form that people have an archive in: the zip, the folder it
was unzipped into, a lone ``.pth``, a bare ``data``; and the formats around it: those of Stable Baselines 2, statistics
of VecNormalize, replay buffers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sbformat.archive.entries import ReadOptions
from sbformat.errors import SbformatError, UnsupportedError, quote
from sbformat.formats.opener import open_archive
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits
from sbformat.pth.values import TensorInfo

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    import numpy as np

    from sbformat.archive.archive import Archive
    from sbformat.io.source import SourceLike
    from sbformat.pth import StateDict
    from sbformat.pth.values import OnUnknown

ArchiveLike: TypeAlias = "Archive | SourceLike"
"""What the tools take: an :class:`Archive`, or whatever :func:`read` takes."""
_FRAMEWORKS: Final = ("np", "numpy")
_ON_UNKNOWN: Final = ("error", "inert")


def read(
    source: ArchiveLike,
    *,
    limits: Limits = DEFAULT_LIMITS,
    on_unknown: OnUnknown = "error",
    unchecked_crc: bool = False,
    copy: bool = False,
) -> Archive:
    """Read an archive; its bytes are held, so the file may change afterwards.

    The structure of the zip is checked now; each entry, with its CRC, at its first access. The arrays of a pickle of
    more than 32 MiB, a replay buffer, stay in the file until they are asked for: it must not change before.

    :param source: a path (``name`` falls back to ``name.zip``, as in SB3), a folder, bytes, or a binary
        file object; of an archive of SB3 or Stable Baselines 2, statistics, or a replay buffer. An Archive is
        returned unchanged, as it was read
    :param limits: what the file may ask for
    :param on_unknown: ``error`` refuses a ``.pth`` that names a constructor that is not known, ``inert``
        keeps an inert node in its place (files of ``policy.save`` need it)
    :param unchecked_crc: read a ``.pth`` that torch wrote without CRCs
    :param copy: give aligned, writable arrays instead of read-only views of the bytes; those that share
        memory in the file share it still. They are the caller's: the archive does not change with them,
        :meth:`Archive.replace` puts them into another one
    :raises OSError: from the path, unchanged
    :raises ContainerError: when the zip breaks a rule of FORMAT.md 2, or it is no archive
    :raises UnsupportedError: for another format, which the message names
    :raises LimitError: when it asks for more than allowed
    """
    options = _options(on_unknown, unchecked_crc=unchecked_crc, copy=copy)
    budget = Budget(limits)
    return open_archive(source, budget, options)


def as_archive(
    source: ArchiveLike,
    *,
    limits: Limits = DEFAULT_LIMITS,
    on_unknown: OnUnknown = "error",
    in_place: bool = False,
) -> Archive:
    """Return an archive unchanged, and read everything else.

    :param source: an archive, or what :func:`read` takes
    :param limits: for reading, as in :func:`read`
    :param on_unknown: for reading, as in :func:`read`
    :param in_place: read as :func:`read_in_place` does
    :raises TypeError: when it is neither an archive nor a source
    """
    return (read_in_place if in_place else read)(source, limits=limits, on_unknown=on_unknown)


def read_in_place(
    source: ArchiveLike,
    *,
    limits: Limits = DEFAULT_LIMITS,
    on_unknown: OnUnknown = "error",
    unchecked_crc: bool = False,
) -> Archive:
    """Read an archive whose large files stay on the disk, to have its entries and tensors written elsewhere.

    A zip of more than 32 MiB is read in pieces, as they are asked for: the memory it takes does not grow with it. What
    is deflated, and legacy torch files, are still held. Until all is written the file must not change: that it did is
    told as a ``ContainerError``. Records are checked as they are read, an entry as a whole when :meth:`Archive.check`
    is called, as all do that write. What is read in pieces is not charged; a tensor that is asked for whole is charged
    each time, for it is read anew.

    :param source: as in :func:`read`, and so the others; what is no path is held
    """
    options = _options(on_unknown, unchecked_crc=unchecked_crc)
    return open_archive(source, Budget(limits), options, in_memory=False)


def _options(on_unknown: OnUnknown, **others: bool) -> ReadOptions:
    if on_unknown not in _ON_UNKNOWN:
        message = f"on_unknown must be one of {', '.join(_ON_UNKNOWN)}, not {on_unknown!r}"
        raise ValueError(message)
    return ReadOptions(on_unknown, **others)


def reads(
    data: bytes | bytearray | memoryview,
    *,
    limits: Limits = DEFAULT_LIMITS,
    on_unknown: OnUnknown = "error",
    unchecked_crc: bool = False,
    copy: bool = False,
) -> Archive:
    """Read an archive from bytes; otherwise like :func:`read`.

    :param data: the file's bytes; a bytearray is copied, bytes are viewed
    """
    return read(data, limits=limits, on_unknown=on_unknown, unchecked_crc=unchecked_crc, copy=copy)


def read_parameters(
    source: ArchiveLike,
    *,
    entries: Iterable[str] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    unchecked_crc: bool = False,
    copy: bool = False,
) -> dict[str, Any]:
    """Read just the weights, in the shape of SB3's ``get_parameters``.

    :param source: as in :func:`read`
    :param entries: names of state dicts, ``policy`` for one; all of them when None
    :param limits: as in :func:`read`
    :param unchecked_crc: as in :func:`read`
    :param copy: as in :func:`read`
    :return: ``{"policy": {name: array}, "policy.optimizer": {"state": ..., "param_groups": ...}, ...}``
    :raises MissingEntryError: when one of ``entries`` is not there
    :raises SbformatError: when one of them is broken; ask for the others by name then
    """
    archive = read(source, limits=limits, unchecked_crc=unchecked_crc, copy=copy)
    archive.refuse_sbx()
    parameters = archive.parameters
    if isinstance(entries, str):
        entries = [entries]
    names = list(parameters) if entries is None else list(entries)
    return {name: parameters[name].to_numpy() for name in names}


def safe_open(
    source: ArchiveLike,
    framework: str = "np",
    entry: str = "policy",
    *,
    mmap: bool = True,
    limits: Limits = DEFAULT_LIMITS,
    on_unknown: OnUnknown = "error",
    unchecked_crc: bool = False,
) -> TensorFile:
    """Open one state dict lazily, with the interface of safetensors' ``safe_open``.

    The file is mapped and only the pages of what is asked for are touched. Structure is checked now, a
    record's own CRC when one of its tensors is handed out; the CRC of the entry as a whole is not.

    :param source: as in :func:`read`
    :param framework: ``np`` or ``numpy``
    :param entry: the state dict's name, as in ``Archive.parameters``
    :param mmap: False reads the file instead: mapped, it must not shrink while it is in use
    :param limits: as in :func:`read`
    :param on_unknown: as in :func:`read`
    :param unchecked_crc: as in :func:`read`
    :raises MissingEntryError: when there is no such state dict
    :raises ValueError: for another framework
    """
    if framework not in _FRAMEWORKS:
        message = f"framework must be one of {', '.join(_FRAMEWORKS)}: arrays of numpy, not {framework!r}"
        raise ValueError(message)
    options = _options(on_unknown, unchecked_crc=unchecked_crc, check_crc=False)
    budget = Budget(limits)
    archive = open_archive(source, budget, options, mapped=mmap)
    return TensorFile(archive, archive.find_state_dict(entry))


class TensorFile:
    """What :func:`safe_open` returns: a context manager over the tensors of one state dict."""

    __slots__ = ("_opened",)

    def __init__(self, archive: Archive, name: str) -> None:
        self._opened: tuple[Archive, StateDict] | None = archive, archive.state_dict(name)

    def __enter__(self) -> TensorFile:  # noqa: PYI034 -- Self is not in Python 3.10
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Let the file go; arrays that were handed out keep it mapped as long as they live."""
        self._opened = None

    def _parts(self) -> tuple[Archive, StateDict]:
        if self._opened is None:
            message = "this file was closed"
            raise ValueError(message)
        return self._opened

    def keys(self) -> list[str]:
        """The tensors' names, in the order of the file: ``mlp_extractor.policy_net.0.weight``."""
        return list(self._parts()[1].tensors())

    def get_tensor(self, name: str) -> np.ndarray:
        """Return a tensor as a read-only array, or as a value type where numpy has none.

        :raises MissingEntryError: when there is none of that name
        :raises ContainerError: when its record's CRC is wrong
        """
        return self._parts()[1].array(name)

    def get_slice(self, name: str) -> TensorSlice:
        """Return a tensor that can be indexed; nothing is read before that."""
        return TensorSlice(self._parts()[1], name)

    def metadata(self) -> dict[str, str]:
        """Return what the archive says of itself: version and system info, as text."""
        archive, _ = self._parts()
        found: dict[str, str] = {}
        try:
            if archive.stable_baselines3_version is not None:
                found["stable_baselines3_version"] = archive.stable_baselines3_version
            if archive.system_info is not None:
                found.update(archive.system_info.fields)
        except SbformatError:
            return found
        return found


class TensorSlice:
    """A tensor of a :class:`TensorFile`, not yet read."""

    __slots__ = ("_info", "_name", "_state_dict")

    def __init__(self, state_dict: StateDict, name: str) -> None:
        self._state_dict = state_dict
        self._name = name
        self._info = state_dict.info(name)
        if not isinstance(self._info, TensorInfo):
            message = f"{quote(name)} is a {type(self._info).__name__}, which has no slices; get_tensor gives it whole"
            raise UnsupportedError(message)

    def get_shape(self) -> list[int]:
        """Its shape."""
        return list(self._info.shape)

    def get_dtype(self) -> str:
        """Its dtype as torch names it, ``float32``."""
        return str(self._info.dtype)

    def __getitem__(self, index: Any) -> np.ndarray:
        part: np.ndarray = self._state_dict.array(self._name)[index]
        return part
