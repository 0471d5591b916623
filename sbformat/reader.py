"""``read``, ``reads``, ``safe_open`` and ``read_parameters``.

All of them take a path, bytes or a binary file object, and read every form of an archive: the zip, the folder that it
was unzipped into, a single ``.pth`` and a single ``data``; and files of Stable Baselines 2, statistics of VecNormalize,
replay buffers, ``.safetensors`` and ``.npz``. ``formats/opener.py`` decides which format reads a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sbformat.archive.archive import Archive
from sbformat.archive.entries import ReadOptions
from sbformat.errors import SbformatError, UnsupportedError, escape, quote, require_names
from sbformat.formats.opener import open_archive
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits
from sbformat.pth.values import TensorInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    import numpy as np

    from sbformat.archive.archive import NotChecked
    from sbformat.io.opening import SourceLike
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
    progress: Callable[[int], None] | None = None,
) -> Archive:
    """Read an archive into memory; the file may change afterwards.

    The structure of the zip is checked immediately, each entry and its CRC at its first access. An exception are the
    arrays of a pickle of more than 32 MiB (a replay buffer), which are read from the file when they are used: it must
    not change before.

    >>> archive = sbformat.read("ppo_cartpole.zip")
    >>> archive.algorithm.name, archive.data["gamma"], list(archive.parameters)
    ('PPO', 0.99, ['policy', 'policy.optimizer'])

    :param source: a path (``name`` falls back to ``name.zip``, as in SB3), a folder, bytes, or a binary file object;
        an Archive is returned unchanged, with its own limits and ``on_unknown``
    :param limits: the largest sizes and counts to accept (FORMAT.md 8)
    :param on_unknown: ``error`` refuses a ``.pth`` with an unknown constructor, ``inert`` returns an inert node for it
        (files of ``policy.save`` need that)
    :param unchecked_crc: read a ``.pth`` that torch wrote without CRCs
    :param copy: return aligned, writable arrays instead of read-only views of the file's bytes. Arrays that share
        memory in the file still share it. Changing them does not change the archive; use :meth:`Archive.replace`
    :param progress: called with a number of bytes whenever that many of a file were read into memory
    :raises OSError: if the path cannot be read
    :raises ContainerError: if the zip breaks a rule of FORMAT.md 2, or the file is not an archive
    :raises UnsupportedError: for another format, which the message names
    :raises LimitError: if it needs more than ``limits`` allow
    :raises TypeError: for an Archive with ``copy`` or ``unchecked_crc``, or something else than a source
    """
    options = _options(on_unknown, unchecked_crc=unchecked_crc, copy=copy)
    _require_unread(source, copy=copy, unchecked_crc=unchecked_crc)
    return open_archive(source, Budget(limits), options, progress=progress)


def read_in_place(
    source: ArchiveLike,
    *,
    limits: Limits = DEFAULT_LIMITS,
    on_unknown: OnUnknown = "error",
    unchecked_crc: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Archive:
    """Read an archive without loading large files into memory, to write its entries and tensors elsewhere.

    A zip of more than 32 MiB is read in pieces, so that the memory in use does not grow with it; deflated entries and
    legacy torch files are still loaded. The file must not change before everything is written, otherwise a
    ``ContainerError`` is raised. The CRC of a record is checked when it is read, that of an entry by
    :meth:`Archive.check`, which all writers call. Pieces are not charged to the budget; a whole tensor is charged at
    each access, because it is read again.

    :param source: see :func:`read`, as for the other parameters; only paths are read in pieces
    :param progress: called with a number of bytes whenever that many were read
    """
    options = _options(on_unknown, unchecked_crc=unchecked_crc)
    return open_archive(source, Budget(limits), options, in_memory=False, progress=progress)


def _require_unread(source: ArchiveLike, **options: bool) -> None:
    """Refuse an Archive with options that only reading a file can apply."""
    if isinstance(source, Archive) and any(options.values()):
        name = next(name for name, value in options.items() if value)
        message = f"{name}=True needs a path, bytes or a binary file, got an Archive, which has been read already"
        raise TypeError(message)


def _options(on_unknown: OnUnknown, **others: bool) -> ReadOptions:
    if on_unknown not in _ON_UNKNOWN:
        raise ValueError(f"expected on_unknown to be one of {', '.join(_ON_UNKNOWN)}, got {on_unknown!r}")
    return ReadOptions(on_unknown, **others)


def reads(
    data: bytes | bytearray | memoryview,
    *,
    limits: Limits = DEFAULT_LIMITS,
    on_unknown: OnUnknown = "error",
    unchecked_crc: bool = False,
    copy: bool = False,
) -> Archive:
    """Read an archive from bytes, like :func:`read`.

    >>> sbformat.reads(Path("ppo_cartpole.zip").read_bytes())

    :param data: the bytes of the file; a bytearray is copied, bytes are not
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
    """Read the weights, in the form of SB3's ``get_parameters``.

    >>> sbformat.read_parameters("ppo_cartpole.zip", entries=["policy"])["policy"]["action_net.bias"].shape
    (2,)

    :param source: see :func:`read`
    :param entries: the names of state dicts, such as ``policy``; None reads all
    :param limits: see :func:`read`
    :param unchecked_crc: see :func:`read`
    :param copy: see :func:`read`
    :return: ``{"policy": {name: array}, "policy.optimizer": {"state": ..., "param_groups": ...}, ...}``
    :raises MissingEntryError: if one of ``entries`` does not exist
    :raises SbformatError: if one of them cannot be decoded; the others can be read by name
    """
    archive = read(source, limits=limits, unchecked_crc=unchecked_crc, copy=copy)
    parameters = archive.parameters
    if isinstance(entries, str):
        entries = [entries]
    names = list(parameters) if entries is None else require_names(entries, "entries")
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
    """Open a state dict lazily, with the interface of safetensors' ``safe_open``.

    The file is memory-mapped; only the pages of the requested tensors are read. The structure is checked immediately,
    the CRC of a record when one of its tensors is read; the CRC of the entry as a whole is not checked.

    >>> with sbformat.safe_open("ppo_cartpole.zip") as file:
    ...     file.get_tensor("action_net.bias").shape, file.get_slice("value_net.weight")[:, :8].shape
    ((2,), (1, 8))

    :param source: see :func:`read`
    :param framework: ``np`` or ``numpy``
    :param entry: the name of the state dict, a key of ``Archive.parameters``
    :param mmap: False reads the file into memory; a mapped file must not shrink while it is in use
    :param limits: see :func:`read`
    :param on_unknown: see :func:`read`
    :param unchecked_crc: see :func:`read`
    :raises MissingEntryError: if there is no such state dict
    :raises ValueError: for another framework
    """
    if framework not in _FRAMEWORKS:
        raise ValueError(f"expected framework to be one of {', '.join(_FRAMEWORKS)}, got {framework!r}")
    options = _options(on_unknown, unchecked_crc=unchecked_crc, check_crc=False)
    _require_unread(source, unchecked_crc=unchecked_crc)
    budget = Budget(limits)
    archive = open_archive(source, budget, options, mapped=mmap)
    return TensorFile(archive, archive.find_state_dict(entry))


class TensorFile:
    """The tensors of one state dict, as a context manager; :func:`safe_open` returns one."""

    __slots__ = ("_opened",)

    def __init__(self, archive: Archive, name: str) -> None:
        self._opened: tuple[Archive, StateDict] | None = archive, archive.state_dict(name)

    def __enter__(self) -> TensorFile:  # noqa: PYI034 -- Self is not in Python 3.10
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the file; arrays that were returned keep it mapped as long as they exist."""
        self._opened = None

    def _parts(self) -> tuple[Archive, StateDict]:
        if self._opened is None:
            raise ValueError("the file is closed")
        return self._opened

    def __repr__(self) -> str:
        return "<TensorFile, closed>" if self._opened is None else f"<TensorFile of {self._opened[1]!r}>"

    def _repr_html_(self) -> str:
        """Return a table of its tensors for notebooks."""
        return self._parts()[1]._repr_html_()

    def keys(self) -> list[str]:
        """Return the names of the tensors, in the order of the file: ``mlp_extractor.policy_net.0.weight``."""
        return list(self._parts()[1].tensors())

    def get_tensor(self, name: str) -> np.ndarray:
        """Return a tensor as a read-only array, or as a value type if numpy has no such dtype.

        :raises MissingEntryError: if there is no tensor of this name
        :raises ContainerError: if the CRC of its record is wrong
        """
        return self._parts()[1].array(name)

    def get_slice(self, name: str) -> TensorSlice:
        """Return a tensor that is read when it is indexed."""
        return TensorSlice(self._parts()[1], name)

    def not_checked(self) -> tuple[NotChecked, ...]:
        """Return what was not fetched of a remote file, and so not checked (FORMAT.md 2.7)."""
        return self._parts()[0].not_checked()

    def metadata(self) -> dict[str, str]:
        """Return the version and the system info of the archive, as text."""
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
    """A tensor of a :class:`TensorFile` that is read when it is indexed."""

    __slots__ = ("_info", "_name", "_state_dict")

    def __init__(self, state_dict: StateDict, name: str) -> None:
        self._state_dict = state_dict
        self._name = name
        self._info = state_dict.info(name)
        if not isinstance(self._info, TensorInfo):
            message = f"{quote(name)} is a {type(self._info).__name__}, which has no slices; use get_tensor"
            raise UnsupportedError(message)

    def __repr__(self) -> str:
        return f"<TensorSlice {escape(self._name, 80)}: {self.get_dtype()} {tuple(self.get_shape())}>"

    def get_shape(self) -> list[int]:
        """Return the shape."""
        return list(self._info.shape)

    def get_dtype(self) -> str:
        """Return torch's name of the dtype, ``float32``."""
        return str(self._info.dtype)

    def __getitem__(self, index: Any) -> np.ndarray:
        part: np.ndarray = self._state_dict.array(self._name)[index]
        return part
