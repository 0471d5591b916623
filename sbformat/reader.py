"""``read``, ``reads``, ``safe_open`` and ``read_parameters``: the ways in.

All take a path, bytes or a binary file object, and every form that people have an archive in: the zip, the folder it
was unzipped into, a lone ``.pth``, a bare ``data``; and the formats around it: those of Stable Baselines 2, statistics
of VecNormalize, replay buffers.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from sbformat.archive import Archive, Options
from sbformat.container import Container
from sbformat.entry_names import is_state_dict
from sbformat.errors import MissingEntryError, SbformatError, UnsupportedError, quote
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits
from sbformat.pkl.decode import decode_pickle
from sbformat.pth.values import TensorInfo
from sbformat.sniff import refuse, sniff, sniff_zip
from sbformat.source import PathSource, open_large, open_source
from sbformat.spec import DATA_ENTRY, POLICY_ENTRY, PTH_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    import numpy as np

    from sbformat.entries import Entries
    from sbformat.pkl.decode import Pickle
    from sbformat.pth import StateDict
    from sbformat.pth.values import OnUnknown
    from sbformat.sniff import Kind
    from sbformat.source import Source, SourceLike

_FRAMEWORKS: Final = ("np", "numpy")
_ON_UNKNOWN: Final = ("error", "inert")
_PICKLE_NAME: Final = "pickle"
_DATA_KEYS: Final = ("policy_class", "observation_space", "action_space")
_LARGE: Final[frozenset[Kind]] = frozenset({"pickle"})
"""What is always left in the file when it is large; others are held."""
_LARGE_IN_PLACE: Final[frozenset[Kind]] = frozenset({"pickle", "zip", "safetensors"})


def read(
    source: SourceLike,
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
        file object; of an archive of SB3 or Stable Baselines 2, statistics, or a replay buffer
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
    return _open(source, budget, options, mapped=False)


def read_in_place(
    source: SourceLike,
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
    return _open(source, Budget(limits), options, mapped=False, is_held=False)


def _options(on_unknown: OnUnknown, **others: bool) -> Options:
    if on_unknown not in _ON_UNKNOWN:
        message = f"on_unknown must be one of {', '.join(_ON_UNKNOWN)}, not {on_unknown!r}"
        raise ValueError(message)
    return Options(on_unknown, **others)


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
    source: SourceLike,
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
    archive.require_torch()
    parameters = archive.parameters
    if isinstance(entries, str):
        entries = [entries]
    names = list(parameters) if entries is None else list(entries)
    return {name: parameters[name].to_numpy() for name in names}


def _open(source: SourceLike, budget: Budget, options: Options, *, mapped: bool, is_held: bool = True) -> Archive:
    """Open whatever was given, and tell its kind.

    :param is_held: hold large zips, too
    """
    in_place = _LARGE if is_held else _LARGE_IN_PLACE
    if isinstance(source, (str, os.PathLike)) and os.path.isdir(source):
        from sbformat.loose import open_folder

        folder = open_folder(source, budget, mapped=mapped, is_held=is_held)
        if not any(name == DATA_ENTRY or is_state_dict(name) for name in folder):
            raise MissingEntryError(DATA_ENTRY, present=folder)
        if sniff_zip(folder.entries) == "sb2-zip":
            return _sb2_zip(folder, budget, options)
        return Archive(folder, "folder", budget, options)
    opened = _large(source, budget, in_place) or open_source(source, mapped=mapped, budget=budget)
    budget.grant(opened.size)
    kind = sniff(opened)
    if kind == "zip":
        return _open_zip(opened, source, budget, options)
    if kind == "torch-legacy":
        return _open_pth(opened, kind, source, budget, options)
    if kind == "data-json":
        _require_keys(opened, budget)
        return Archive(_alone(DATA_ENTRY, opened, budget), kind, budget, options)
    if kind == "safetensors":
        from sbformat.array_files import open_safetensors

        return open_safetensors(opened, _alone(_pickle_name(source, kind), opened, budget), budget, options)
    if kind == "pickle":
        return _open_pickle(opened, source, budget, options)
    return refuse(kind, opened)


def _require_keys(opened: Source, budget: Budget) -> None:
    """Refuse JSON that is not ``data``; what is no JSON is told when it is decoded.

    :raises UnsupportedError: when it has none of the keys that every release writes
    """
    from sbformat.data import decode

    content = opened.view(0, opened.size)
    if b'"policy_class"' in bytes(content):
        return
    try:
        data = decode(content, Budget(budget.limits))
    except SbformatError:
        return
    if not any(key in data for key in _DATA_KEYS):
        message = f"a JSON file, but not data of an archive: it has none of the keys {', '.join(_DATA_KEYS)}"
        raise UnsupportedError(message)


def _alone(name: str, opened: Source, budget: Budget) -> Entries:
    """A file that is one entry."""
    from sbformat.loose import LooseEntries

    return LooseEntries({name: opened}, budget)


def _open_zip(opened: Source, source: SourceLike, budget: Budget, options: Options) -> Archive:
    container = Container(opened, budget=budget, names="record", entry_limit="inner_entries")
    kind = sniff_zip(container.entries)
    if kind == "torch-zip":
        return _open_pth(opened, kind, source, budget, options)
    if kind == "npz":
        from sbformat.array_files import open_npz

        return open_npz(container, _alone(_pickle_name(source, kind), opened, budget), budget, options)
    if kind not in ("sb3", "sb2-zip"):
        refuse(kind, opened, container.entries)
    budget.spend("outer_entries", len(container))
    container.require_paths()
    return Archive(container, kind, budget, options) if kind == "sb3" else _sb2_zip(container, budget, options)


def _open_pth(opened: Source, kind: Kind, source: SourceLike, budget: Budget, options: Options) -> Archive:
    from sbformat.pickled.policy import open_policy_file

    entries = _alone(_pth_name(source), opened, budget)
    return open_policy_file(opened, entries, budget, options) or Archive(entries, kind, budget, options)


def _sb2_zip(entries: Entries, budget: Budget, options: Options) -> Archive:
    from sbformat.sb2.zips import Sb2Zip

    return Sb2Zip(entries, budget, options)


def _open_pickle(opened: Source, source: SourceLike, budget: Budget, options: Options) -> Archive:
    from sbformat.pickled import PickledArchive, kind_of
    from sbformat.sb2.pickles import Sb2Pickle

    pickle = _decoded(opened, budget)
    kind = kind_of(pickle)
    entries = _alone(_pickle_name(source), opened, budget)
    if kind == "sb2-pickle":
        return Sb2Pickle(entries, pickle, budget, options)
    return PickledArchive(entries, kind, pickle, budget, options)


def _decoded(opened: Source, budget: Budget) -> Pickle:
    from sbformat.pickled import refuse_odd

    if not isinstance(opened, PathSource):
        return refuse_odd(decode_pickle(opened.view(0, opened.size), budget))
    from sbformat.pkl.large import decode_large

    return refuse_odd(decode_large(opened, budget))


def _large(source: SourceLike, budget: Budget, kinds: frozenset[Kind]) -> PathSource | None:
    """A replay buffer may be larger than memory: its arrays stay in the file until they are asked for.

    :param kinds: what is left in the file; what is not, is None
    """
    opened = open_large(source, limits=budget.limits)
    return opened if opened is not None and sniff(opened) in kinds else None


def _pickle_name(source: SourceLike, otherwise: str = _PICKLE_NAME) -> str:
    """A file that is one object keeps its name, where an entry can have it."""
    from sbformat.loose import is_entry_name

    name = os.path.basename(os.fsdecode(source)) if isinstance(source, (str, os.PathLike)) else ""
    return name if is_entry_name(name) else otherwise


def _pth_name(source: SourceLike) -> str:
    """A lone ``.pth`` keeps its name, as the entry it was; without one it is the policy."""
    if isinstance(source, (str, os.PathLike)):
        from sbformat.loose import is_entry_name

        name = os.path.basename(os.fsdecode(source))
        if not name.endswith(PTH_SUFFIX):
            name += PTH_SUFFIX
        return name if is_state_dict(name) and is_entry_name(name) else POLICY_ENTRY
    return POLICY_ENTRY


def safe_open(
    source: SourceLike,
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
    record's own CRC when one of its tensors is handed out; the entry as a whole is never swept.

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
    options = _options(on_unknown, unchecked_crc=unchecked_crc, is_swept=False)
    budget = Budget(limits)
    archive = _open(source, budget, options, mapped=mmap)
    return TensorFile(archive, archive.state_dict_entry(entry))


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

    def __getitem__(self, index: Any) -> np.ndarray:  # noqa: ANN401 -- numpy's own
        part: np.ndarray = self._state_dict.array(self._name)[index]
        return part
