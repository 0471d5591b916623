"""Decode a ``.pth`` entry to its state dict: torch zips here, legacy streams in ``legacy`` (FORMAT.md 6, 7).

The values are built from the pickle in ``build``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn

from sbformat.constants import (
    BYTE_ORDER_RECORD,
    IGNORED_RECORDS,
    LOCAL_SIGNATURE,
    PICKLE_RECORD,
    STORAGE_FOLDER,
    TORCH_VERSION_RECORD,
    TORCH_VERSION_RECORD_OLD,
    TORCH_VERSIONS,
    TORCHSCRIPT_RECORD,
)
from sbformat.container.layout import STORED, check_records
from sbformat.container.reader import Container
from sbformat.errors import SbformatError, TensorError, UnsupportedError, quote
from sbformat.io.source import BytesSource
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits
from sbformat.pkl.decode import decode_pickle
from sbformat.pth.build import build_values
from sbformat.pth.context import DecodeContext
from sbformat.pth.dtypes import storage_itemsize
from sbformat.pth.file_storage import InflatedStorage, RecordStorage
from sbformat.pth.state_dict import StateDict
from sbformat.pth.values import OnUnknown, Storage

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbformat.io.source import Source
    from sbformat.pkl.decode import Pickle

_SPECIAL_RECORDS: Final = (
    PICKLE_RECORD, BYTE_ORDER_RECORD, TORCH_VERSION_RECORD, TORCH_VERSION_RECORD_OLD, TORCHSCRIPT_RECORD,
    *IGNORED_RECORDS,
)  # fmt: skip
_ID_ITEMS: Final = 5
_PROTO_BYTE: Final = b"\x80"
_TAR_MAGIC_AT: Final = 257
_TAR_MAGIC: Final = b"ustar"


def loads(
    data: bytes | bytearray | memoryview,
    *,
    limits: Limits = DEFAULT_LIMITS,
    on_unknown: OnUnknown = "error",
    unchecked_crc: bool = False,
    copy: bool = False,
) -> StateDict:
    """Decode a ``.pth`` file of any torch release since 0.1.10.

    :param data: the file's bytes: a torch zip (torch >= 1.6) or a legacy stream
    :param limits: the limits that the file must keep
    :param on_unknown: ``error`` refuses a constructor that is unknown, ``inert`` keeps its node of
        :mod:`sbformat.pkl.tree` in its place
    :param unchecked_crc: read files that torch wrote without CRCs
    :param copy: return aligned, writable copies of arrays instead of read-only views of ``data``
    :return: the state dict; arrays are created on access
    :raises ContainerError: for a damaged zip
    :raises PickleError: for a damaged pickle
    :raises TensorError: for tensors that do not fit their storages, and files that are not a ``.pth``
    :raises UnsupportedError: for TorchScript, the tar of torch < 0.1.10, unknown constructors
    :raises LimitError: when a limit is exceeded
    """
    source = BytesSource(data)
    return decode_pth(
        source.view(0, source.size), Budget(limits), on_unknown=on_unknown, unchecked_crc=unchecked_crc, copy=copy
    )


def decode_pth(
    data: memoryview,
    budget: Budget,
    *,
    on_unknown: OnUnknown = "error",
    unchecked_crc: bool = False,
    copy: bool = False,
) -> StateDict:
    """Like :func:`loads`, within an operation's budget."""
    head = bytes(data[:4])
    if head == LOCAL_SIGNATURE:
        container = open_records(BytesSource(data), budget, unchecked_crc=unchecked_crc)
        return decode_zip(container, budget, on_unknown=on_unknown, copy=copy)
    if head[:1] == _PROTO_BYTE:
        pickle, context = open_legacy(data, budget)
        return StateDict(build_values(pickle, context, on_unknown), budget, copy=copy)
    if bytes(data[_TAR_MAGIC_AT : _TAR_MAGIC_AT + len(_TAR_MAGIC)]) == _TAR_MAGIC:
        message = "this is the tar that torch wrote before 0.1.10; torch.load reads it"
        raise UnsupportedError(message)
    message = (
        f"expected a torch zip or a legacy torch file, got a file that starts with {quote(head.decode('latin-1'))}"
    )
    raise TensorError(message, offset=0)


# -- the torch zip (FORMAT.md 6.1, 6.2) ---------------------------------------------------------------


def decode_zip(
    container: Container, budget: Budget, *, on_unknown: OnUnknown = "error", copy: bool = False
) -> StateDict:
    """Decode an opened torch zip."""
    data, new_context, name = _opened(container, budget)
    try:
        pickle = decode_pickle(data, budget, encoding="utf-8")
        if pickle.flags:
            _refuse("; ".join(pickle.flags))
        context = new_context()
        context.check_popped(pickle)
        made = StateDict(build_values(pickle, context, on_unknown), budget, copy=copy)
    except SbformatError as error:
        _name_record(error, name)
        raise
    made.records = container
    return made


def open_pth(data: memoryview, budget: Budget, *, unchecked_crc: bool = False) -> tuple[Pickle, DecodeContext]:
    """Return the pickle of a ``.pth``, before values are built, and the context that opens its storages.

    :raises SbformatError: as :func:`decode_pth`
    """
    if bytes(data[:4]) == LOCAL_SIGNATURE:
        return open_zip(open_records(BytesSource(data), budget, unchecked_crc=unchecked_crc), budget)[:2]
    return open_legacy(data, budget)


def open_legacy(data: memoryview, budget: Budget) -> tuple[Pickle, DecodeContext]:
    """Return pickle and context of a legacy stream."""
    from sbformat.pth import legacy

    return legacy.decode(data, budget)


def open_zip(container: Container, budget: Budget) -> tuple[Pickle, DecodeContext, str]:
    """Return the pickle of an opened torch zip, the context that opens its storages, and the name of its record."""
    data, new_context, name = _opened(container, budget)
    try:
        return decode_pickle(data, budget, encoding="utf-8"), new_context(), name
    except SbformatError as error:
        _name_record(error, name)
        raise


def _opened(container: Container, budget: Budget) -> tuple[memoryview, Callable[[], DecodeContext], str]:
    """Return the bytes of the pickle, a function that creates a context, and the name of the pickle's record."""
    root = _root(container)
    _check_version(container, root)
    byte_order = _byte_order(container, root)
    folder = root + STORAGE_FOLDER
    pickle_name = root + PICKLE_RECORD
    records = container.entries
    load = container.read
    is_stored = records[pickle_name].method == STORED and not container.is_inflated(pickle_name)
    is_plain = container.is_in_memory and is_stored

    def open_storage(key: str, dtype: str, numel: int, location: str, _view: object) -> Storage:
        name = folder + key
        record = records.get(name)
        if record is None:
            _refuse(f"the storage {quote(key)} has no record")
        if is_plain and record.method == STORED:  # nearly always
            storage: Storage = Storage(key, dtype, numel, location, byte_order, load, name)
        elif container.is_inflated(name):
            storage = InflatedStorage(key, dtype, numel, location, byte_order, container, name)
        elif container.is_in_memory:
            storage = Storage(key, dtype, numel, location, byte_order, load, name)
        else:
            storage = RecordStorage(key, dtype, numel, location, byte_order, container, name)
        if storage.nbytes != record.size:
            itemsize = storage_itemsize(dtype)
            _refuse(f"expected {numel} x {itemsize} bytes for the storage {quote(key)}, got a record of {record.size}")
        return storage

    try:
        data = load(pickle_name, limit="pickle_bytes")
    except SbformatError as error:
        _name_record(error, pickle_name)
        raise
    return data, partial(DecodeContext, budget, open_storage, _ID_ITEMS), pickle_name


def _name_record(error: SbformatError, name: str) -> None:
    """Add the name of the record to an error without one."""
    if error.entry is None:
        error.within(name)


def is_torch_zip(source: Source) -> bool:
    """Return whether a ``.pth`` is a zip, as torch saves it since 1.6."""
    return bytes(source.view(0, min(source.size, len(LOCAL_SIGNATURE)))) == LOCAL_SIGNATURE


def open_records(source: Source, budget: Budget, *, unchecked_crc: bool = False) -> Container:
    """Open a torch zip and check its structure; no record is read.

    :raises ContainerError: when it breaks a rule
    """
    container = Container(
        source, budget=budget, names="record", entry_limit="inner_entries", unchecked_crc=unchecked_crc
    )
    check_records(container)
    return container


def _root(container: Container) -> str:
    """Return the folder that contains all records, with its slash."""
    first = next(iter(container))
    root = first.partition("/")[0] + "/"
    for name in container:
        if not name.startswith(root):
            _refuse(f"expected all records in one folder, got {quote(root)} and {quote(name)}: not a torch zip")
    joined = "\n".join(container)
    if joined != joined.casefold():
        _check_case(container, root)
    if root + TORCHSCRIPT_RECORD in container:
        message = "this is a TorchScript archive: a program, not a state dict; torch.jit.load reads it"
        raise UnsupportedError(message)
    if root + PICKLE_RECORD not in container:
        _refuse(f"expected a record {quote(root + PICKLE_RECORD)}: saving was interrupted, or this is not a torch zip")
    return root


def _check_case(container: Container, root: str) -> None:
    """Refuse names that torch confuses, as it ignores case when it looks up records."""
    folded = {name.casefold(): name for name in container}
    if len(folded) != len(container):
        _refuse("two of its records differ only in case, which torch ignores")
    for name in _SPECIAL_RECORDS:
        if folded.get((root + name).casefold(), root + name) != root + name:
            _refuse(f"a record differs from {quote(name)} only in case, which torch ignores")


def _check_version(container: Container, root: str) -> None:
    name = root + TORCH_VERSION_RECORD
    if name not in container:
        name = root + TORCH_VERSION_RECORD_OLD
        if name not in container:
            _refuse(f"expected a record {quote(root + TORCH_VERSION_RECORD)}")
    text = bytes(container.read(name, limit="version_bytes")).removesuffix(b"\n")
    if not (text.isdigit() and len(text) <= 2 and int(text) in TORCH_VERSIONS):
        _refuse(f"expected a format version from {TORCH_VERSIONS[0]} to 10, got {quote(text.decode('latin-1'))}")


def _byte_order(container: Container, root: str) -> str:
    """Return the byte order; ``little`` if there is no record, as before torch 2.1."""
    name = root + BYTE_ORDER_RECORD
    if name not in container:
        return "little"
    text = bytes(container.read(name, limit="version_bytes"))
    if text not in (b"little", b"big"):
        _refuse(f"expected the byte order little or big, got {quote(text.decode('latin-1'))}")
    return text.decode("ascii")


def _refuse(message: str) -> NoReturn:
    raise TensorError(message)
