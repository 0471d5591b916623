"""The zip of Stable Baselines 2: ``data``, ``parameter_list`` and ``parameters``, an npz (SB2.md 16.1, 16.2).

Source: stable-baselines 2.8 to 2.10, ``common/save_util.py``.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from sbformat import data as data_entry
from sbformat.archive.read_only import ReadOnlyArchive
from sbformat.arrayfiles.headers import HEAD_BYTES, read_header
from sbformat.constants import DATA_ENTRY, SB2_PARAMETER_LIST_ENTRY, SB2_PARAMETERS_ENTRY
from sbformat.container.reader import Container
from sbformat.container.records import STORED
from sbformat.errors import ContainerError, DataError, SbformatError, TensorError, UnsupportedError, quote
from sbformat.formats.sb2.algorithms import infer_algorithm
from sbformat.io.source import BytesSource
from sbformat.pkl.numpy import ITEM_SIZES, checked_numel
from sbformat.pth import StateDict
from sbformat.pth.numpy_tensors import tensor_info

if TYPE_CHECKING:
    from sbformat.archive.algorithm import Algorithm
    from sbformat.archive.entries import Entries, ReadOptions
    from sbformat.limits import Budget
    from sbformat.pth import TensorInfo

_NPY_SUFFIX: Final = ".npy"


class Sb2Zip(ReadOnlyArchive):
    """A zip of Stable Baselines 2, whose one state dict is ``parameters``.

    :param entries: of the zip
    :param budget: the operation's
    :param options: how entries are decoded
    """

    __slots__ = ()

    plain_entries: ClassVar[frozenset[str]] = frozenset({DATA_ENTRY, SB2_PARAMETER_LIST_ENTRY})

    def __init__(self, entries: Entries, budget: Budget, options: ReadOptions) -> None:
        super().__init__(entries, "sb2-zip", budget, options)
        self._contents = tuple(name for name in self.contents if name != SB2_PARAMETER_LIST_ENTRY)
        self._state_dicts = (SB2_PARAMETERS_ENTRY,)

    @property
    def parameter_list(self) -> list[str]:
        """The names of the parameters, in the order of the TensorFlow graph.

        :raises DataError: when it is not a list of names
        """
        return self._decode_once(SB2_PARAMETER_LIST_ENTRY, self._names)

    @property
    def algorithm(self) -> Algorithm:
        """Which algorithm wrote it (SB2.md 16.5)."""
        return infer_algorithm(self.data if DATA_ENTRY in self.entries else {})

    def decode_plain(self, name: str) -> object:
        """Decode ``data`` or ``parameter_list``."""
        return self.data if name == DATA_ENTRY else self.parameter_list

    def _names(self, name: str) -> list[str]:
        names = data_entry.parse(self._entries.read(name), self._budget)
        if type(names) is not list or any(type(item) is not str for item in names):
            message = "expected a list of names"
            raise DataError(message)
        twice = len(names) - len(set(names))
        if twice:
            message = f"expected unique names, got {twice} twice"
            raise DataError(message)
        return names

    def _decode_state_dict(self, name: str) -> StateDict:
        names = self.parameter_list
        if self._entries.entry(name).method != STORED:
            source = self._entries.source(name)
        else:
            source = BytesSource(self._entries.read(name) if self._options.check_crc else self._entries.view(name))
        if not source.size:
            message = "expected an npz with a member for each parameter, got an empty entry"
            raise ContainerError(message)
        container = Container(source, budget=self._budget, names="record", entry_limit="inner_entries")
        _check_members(names, container)
        self._budget.spend("tensors", len(names))
        tree = OrderedDict((key, npy_tensor(container, key, self._budget)) for key in names)
        state_dict = StateDict(tree, self._budget, copy=self._options.copy)
        state_dict.entry = name
        return state_dict


def _check_members(names: list[str], container: Container) -> None:
    """Check that every parameter that is listed has one member, and every member is listed."""
    members = {member.removesuffix(_NPY_SUFFIX) for member in container if member.endswith(_NPY_SUFFIX)}
    if len(members) != len(container):
        odd = next(member for member in container if not member.endswith(_NPY_SUFFIX))
        message = f"expected members with the suffix .npy, got {quote(odd)}"
        raise UnsupportedError(message)
    listed = set(names)
    missing = next((name for name in names if name not in members), None)
    if missing is not None:
        message = f"the member {quote(missing)} is missing, which {SB2_PARAMETER_LIST_ENTRY} names"
        raise TensorError(message)
    extra = next((name for name in container if name.removesuffix(_NPY_SUFFIX) not in listed), None)
    if extra is not None:
        message = f"{SB2_PARAMETER_LIST_ENTRY} does not name its member {quote(extra)}"
        raise TensorError(message)


def npy_tensor(container: Container, name: str, budget: Budget) -> TensorInfo:
    """Describe a parameter; its bytes are read, and their CRC is checked, when they are requested."""
    member = name + _NPY_SUFFIX
    try:
        budget.spend("tensor_name_bytes", len(name.encode("utf-8")))
        source = container.source(member)
        code, shape, is_fortran, start = read_header(source.view(0, min(source.size, HEAD_BYTES)))
        budget.spend("tensor_rank", len(shape))
        itemsize = ITEM_SIZES.get(code.lstrip("<>|="), 0)
        size = checked_numel(shape, itemsize) * itemsize
        if itemsize and size != source.size - start:
            message = f"expected {size} bytes for its shape, got {source.size - start}"
            raise TensorError(message)
        load = partial(_loaded, container, start)
        return tensor_info(code, shape, "F" if is_fortran else "C", load, key=member)
    except SbformatError as error:
        raise error if error.entry == member else error.within(member) from None


def _loaded(container: Container, start: int, member: str) -> memoryview:
    return container.read(member)[start:]
