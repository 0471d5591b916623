"""What is in an archive, as a report: no numpy, no schema, no tensor's bytes touched."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sbformat.archive.algorithm import class_reference, refuse_sbx
from sbformat.archive.kinds import OBJECTS
from sbformat.constants import ARRAYS_ENTRY, DATA_ENTRY, SETTINGS_ENTRY
from sbformat.errors import SbformatError, UnsupportedError
from sbformat.limits import Budget
from sbformat.pth.dtypes import DTYPES
from sbformat.pth.values import MetaTensor, QuantizedTensor, SparseTensor, TensorInfo

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbformat.archive.algorithm import Algorithm
    from sbformat.archive.archive import Archive
    from sbformat.archive.hyperparameters import Hyperparameter
    from sbformat.archive.kinds import Kind
    from sbformat.container.records import Entry
_BUNDLE: Final = "a bundle: it holds normalisation statistics, which sbformat unbundle takes out"


class TensorRow(NamedTuple):
    """A tensor of a state dict."""

    name: str
    """Its path, as in ``StateDict.tensors()``."""
    kind: str
    """``tensor``, ``parameter``, ``sparse``, ``quantized`` or ``meta``."""
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    """Of its items."""
    requires_grad: bool
    location: str | None
    shares_storage_with: str | None
    """The first tensor of the same storage, when there is one before."""


class StateDictReport(NamedTuple):
    """A ``.pth`` entry."""

    name: str
    tensors: tuple[TensorRow, ...]
    values: dict[str, Any]
    """What is no tensor: learning rates, step counts, by path."""
    numel: int
    """Items of all tensors."""
    nbytes: int
    """Bytes of all storages, each once."""


class BrokenEntry(NamedTuple):
    """An entry that could not be decoded."""

    entry: str
    outcome: str
    message: str


class InspectReport(NamedTuple):
    """All that ``inspect`` tells of one file."""

    format: Kind
    stable_baselines3_version: str | None
    algorithm: Algorithm | None
    policy_class: str | None
    system_info: dict[str, str] | None
    data: dict[str, Any] | None
    """JSON values, and :class:`~sbformat.Serialized`."""
    hyperparameters: dict[str, Hyperparameter] | None
    """The same, decoded."""
    entries: tuple[Entry, ...]
    state_dicts: tuple[StateDictReport, ...]
    extra: tuple[str, ...]
    broken: tuple[BrokenEntry, ...]
    """Entries that could not be decoded."""
    notes: tuple[str, ...]
    """What a person should know of how it was read."""


def inspect(archive: Archive) -> InspectReport:
    """Describe an archive; an entry that cannot be decoded becomes a row of ``broken``.

    :param archive: the archive, read
    """
    broken: list[BrokenEntry] = []
    budget = Budget(archive.limits)

    def ask(entry: str, get: Callable[[], Any]) -> Any:
        try:
            return get()
        except SbformatError as error:
            row = BrokenEntry(error.entry or entry, error.outcome, error.message)
            if row not in broken:
                broken.append(row)
            return None

    data = ask(DATA_ENTRY, lambda: archive.data) if DATA_ENTRY in archive.contents else None
    system_info = ask("system_info.txt", lambda: archive.system_info)
    state_dicts = [ask(name, partial(_state_dict_report, name, archive, budget)) for name in archive.state_dicts]
    return InspectReport(
        format=archive.format,
        stable_baselines3_version=ask("_stable_baselines3_version", lambda: archive.stable_baselines3_version),
        algorithm=archive.algorithm if data is not None and archive.format not in (*OBJECTS, "policy-file") else None,
        policy_class=_policy_class(data) if data is not None else None,
        system_info=system_info.fields if system_info is not None else None,
        data=data,
        hyperparameters=archive.hyperparameters() if data is not None else None,
        entries=tuple(archive.entries.values()),
        state_dicts=tuple(report for report in state_dicts if report is not None),
        extra=tuple(archive.extra),
        broken=tuple(broken),
        notes=(
            *archive.notes,
            *_sbx_note(data),
            *([_BUNDLE] if {SETTINGS_ENTRY, ARRAYS_ENTRY} <= set(archive.extra) else []),
        ),
    )


def _sbx_note(data: dict[str, Any] | None) -> tuple[str, ...]:
    try:
        refuse_sbx(data or {})
    except UnsupportedError as error:
        return (error.message,)
    return ()


def _policy_class(data: dict[str, Any]) -> str | None:
    """The policy's class: under ``policy`` in what Stable Baselines 2 wrote."""
    return class_reference(data.get("policy_class", data.get("policy")))


def _state_dict_report(name: str, archive: Archive, budget: Budget) -> StateDictReport:
    state_dict = archive.state_dict(name)
    rows = []
    values: dict[str, Any] = {}
    owners: dict[int, str] = {}
    for path, value in state_dict.leaves():
        row = _tensor_row(path, value, owners)
        if row is None:
            values[path] = value
        else:
            rows.append(row)
    budget.spend("reported_values", len(rows) + len(values))
    if values == {"": {}}:
        values = {}
    storages = sum(storage.nbytes for storage in state_dict.storages())
    return StateDictReport(name, tuple(rows), values, sum(_numel(row.shape) for row in rows), storages)


def _tensor_row(path: str, value: Any, owners: dict[int, str]) -> TensorRow | None:
    if type(value) is TensorInfo:
        owner = owners.setdefault(id(value.storage), path)
        return TensorRow(
            path,
            "parameter" if value.is_parameter else "tensor",
            value.dtype,
            value.shape,
            value.nbytes,
            value.requires_grad,
            value.location,
            owner if owner != path else None,
        )
    if type(value) is SparseTensor:
        info = value.values
        nbytes = sum(part.nbytes for part in (*value.indices, info))
        return TensorRow(path, "sparse", info.dtype, value.shape, nbytes, info.requires_grad, info.location, None)
    if type(value) is QuantizedTensor:
        info = value.int_repr
        return TensorRow(
            path, "quantized", info.dtype, info.shape, info.nbytes, info.requires_grad, info.location, None
        )
    if type(value) is MetaTensor:
        nbytes = _numel(value.shape) * DTYPES[value.dtype].itemsize
        return TensorRow(path, "meta", value.dtype, value.shape, nbytes, value.requires_grad, "meta", None)
    return None


def _numel(shape: tuple[int, ...]) -> int:
    product = 1
    for size in shape:
        product *= size
    return product
