"""``inspect``: describe an archive without importing numpy or jsonschema, and without reading the bytes of a tensor.

Statistics of VecNormalize are the exception: their arrays are small, and their numbers are what people look for.
"""

from __future__ import annotations

import contextlib
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, Final

from sbformat.archive.hyperparameters import Hyperparameters, class_reference, describe_hyperparameter
from sbformat.archive.kinds import KIND_TITLES, OBJECTS, STATISTICS
from sbformat.constants import ARRAYS_ENTRY, DATA_ENTRY, SETTINGS_ENTRY, SYSTEM_INFO_ENTRY, VERSION_ENTRY
from sbformat.container.reader import Container
from sbformat.errors import SbformatError, escape, quote
from sbformat.immutable import Record
from sbformat.io.source import FileSource
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits
from sbformat.pth.values import DTYPES, MetaTensor, QuantizedTensor, SparseTensor, TensorInfo
from sbformat.reader import read_in_place
from sbformat.rendering import count_noun, format_size

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbformat.archive.archive import Archive, NotChecked
    from sbformat.archive.hyperparameters import Algorithm, Hyperparameter
    from sbformat.archive.kinds import Kind
    from sbformat.container.layout import Entry
    from sbformat.formats.vecnormalize import VecNormalize
    from sbformat.policies.describe import Summary
    from sbformat.reader import ArchiveLike

_LONE: Final = ("torch-zip", "torch-legacy", "policy-file")
_POLICIES: Final = ("sb3", "folder", "sb2-zip", "sb2-pickle", "policy-file", "torch-zip", "torch-legacy", "sbx")
_KINDS: Final[dict[type, str]] = {
    TensorInfo: "tensor", SparseTensor: "sparse", QuantizedTensor: "quantized", MetaTensor: "meta",
}  # fmt: skip
_NORMALIZED_NOTE: Final = (
    "trained behind VecNormalize: predict, evaluate and export need its statistics, usually vecnormalize.pkl beside "
    "the archive (--vecnormalize FILE), or put into it by sbformat bundle"
)
_SPACES: Final = ("observation_space", "action_space")
_ENTRIES: Final = 8  # that are named in a notebook
_BUNDLE_NOTE: Final = "a bundle: it contains normalization statistics, which sbformat unbundle extracts"


class TensorRow(Record):
    """A tensor of a state dict."""

    name: str
    """The path of the tensor, as in ``StateDict.tensors()``."""
    kind: str
    """``tensor``, ``parameter``, ``sparse``, ``quantized`` or ``meta``."""
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    """Bytes of the elements."""
    requires_grad: bool
    location: str | None
    shares_storage_with: str | None
    """The path of the first tensor that uses the same storage, when that is another tensor."""


class StateDictReport(Record):
    """A ``.pth`` entry."""

    name: str
    tensors: tuple[TensorRow, ...]
    values: dict[str, Any]
    """The values that are not tensors (learning rates, step counts), by path."""
    numel: int
    """Number of elements of all tensors."""
    nbytes: int
    """Bytes of all storages, each counted once."""


class BrokenEntry(Record):
    """An entry that could not be decoded."""

    entry: str
    outcome: str
    message: str


class InspectReport(Record):
    """The result of :func:`inspect` for one file."""

    format: Kind
    stable_baselines3_version: str | None
    algorithm: Algorithm | None
    policy_class: str | None
    system_info: dict[str, str] | None
    data: dict[str, Any] | None
    """``data`` as stored: JSON values and :class:`~sbformat.Serialized`."""
    hyperparameters: dict[str, Hyperparameter] | None
    """``data`` with its serialized values decoded."""
    entries: tuple[Entry, ...]
    state_dicts: tuple[StateDictReport, ...]
    extra: tuple[str, ...]
    broken: tuple[BrokenEntry, ...]
    """Entries that could not be decoded."""
    notes: tuple[str, ...]
    """Remarks on how the file was read, as sentences."""
    network: Summary | None
    """What the policy computes, without normalization statistics; None for a network that is not known."""
    network_error: str | None
    """Why the network of a policy is not known; None if it is, and for a file without a policy."""
    statistics: VecNormalize | None = None
    """The statistics of VecNormalize: those of a file of statistics, or of a bundle."""
    not_checked: tuple[NotChecked, ...] = ()
    """What was not checked, because only parts of a remote file were fetched."""

    def __repr__(self) -> str:
        algorithm = f", {self.algorithm.name}" if self.algorithm is not None and self.algorithm.name else ""
        release = f" of SB3 {self.stable_baselines3_version}" if self.stable_baselines3_version else ""
        tensors = count_noun(sum(len(row.tensors) for row in self.state_dicts), "tensor")
        counts = f"{count_noun(len(self.entries), 'entry', 'entries')}, {tensors}, {len(self.broken)} broken"
        return f"<InspectReport {self.format}{escape(f'{algorithm}{release}')}: {counts}>"

    def _repr_html_(self) -> str:
        """Return the HTML for notebooks: what it is, what is broken, its network, and folded all else."""
        from sbformat.notebook import MAX_ROWS, Markup, fold, render_items, render_output, render_records, render_table
        from sbformat.policies.show_policy import render_network

        tensors = [
            (table.name, row.name, row.dtype, " x ".join(map(str, row.shape)) or "scalar", format_size(row.nbytes))
            for table in self.state_dicts
            for row in table.tensors[:MAX_ROWS]
        ]
        count = sum(len(table.tensors) for table in self.state_dicts)
        size = format_size(sum(table.nbytes for table in self.state_dicts))
        header = ("entry", "tensor", "dtype", "shape", "size")
        hyperparameters = Hyperparameters(self.hyperparameters or {})
        return render_output(
            f"InspectReport: {KIND_TITLES.get(self.format, self.format)}",
            [
                render_table("", (), self._list_facts()),
                render_records("broken entries", self.broken),
                render_records("not checked", self.not_checked),
                *([] if self.network is None else render_network(self.network)),
                fold(f"{count_noun(count, 'tensor')}, {size}", [render_table("", header, tensors, count=count)]),
                fold(count_noun(len(hyperparameters), "hyper-parameter"), [hyperparameters.render()]),
                fold("system info", [render_items(self.system_info or {})]),
                *([] if self.statistics is None else [Markup(self.statistics._repr_html_())]),
            ],
        )

    def _list_facts(self) -> list[tuple[str, str]]:
        algorithm, values = self.algorithm, self.hyperparameters or {}
        certainty = "" if algorithm is None or algorithm.certain else " (not certain)"
        entries = [f"{entry.name} {format_size(entry.size)}" for entry in self.entries[:_ENTRIES]]
        entries += ["\u2026"] if len(self.entries) > _ENTRIES else []
        facts = {
            "algorithm": algorithm
            and algorithm.name
            and f"{algorithm.name}{certainty}: {'; '.join(algorithm.evidence)}",
            "SB3 version": self.stable_baselines3_version,
            "policy class": self.policy_class,
            **{key.replace("_", " "): describe_hyperparameter(values[key]) for key in _SPACES if key in values},
            "entries": ", ".join(entries),
            "network": self.network_error,
        }
        return [(name, text) for name, text in facts.items() if text] + [("note", note) for note in self.notes]


def inspect(source: ArchiveLike, *, limits: Limits = DEFAULT_LIMITS) -> InspectReport:
    """Describe an archive: its algorithm, hyperparameters, tensors and entries. Nothing in it is executed.

    An entry that cannot be decoded is listed in ``broken``; the others are described all the same. ::

        report = sbformat.inspect("ppo-cartpole.zip")
        report.algorithm.name, [row.name for row in report.state_dicts[0].tensors]

    Of a remote archive only the parts that are described are fetched. What could not be checked without the rest is
    listed in ``not_checked``.

    :param source: an archive, or what :func:`sbformat.read` takes. A constructor that sbformat does not know, in a
        ``.pth``, is reported as a value, as with ``read(..., on_unknown="inert")``
    :param limits: for reading
    :raises OSError: when the path cannot be opened
    :raises SbformatError: when the file is not an archive, or its container is damaged
    """
    archive = read_in_place(source, limits=limits, on_unknown="inert")
    if isinstance(archive.stored_entries, Container):
        archive.stored_entries.prefetch()
    broken: list[BrokenEntry] = []
    budget = Budget(archive.limits)

    def try_to(get: Callable[[], Any], entry: str) -> Any:
        try:
            return get()
        except SbformatError as error:
            row = BrokenEntry(error.entry or entry, error.outcome, error.message)
            if row not in broken:
                broken.append(row)
            return None

    data = try_to(lambda: archive.data, DATA_ENTRY) if DATA_ENTRY in archive.contents else None
    is_bundle = {SETTINGS_ENTRY, ARRAYS_ENTRY} <= set(archive.extra)
    system_info = try_to(lambda: archive.system_info, SYSTEM_INFO_ENTRY)
    statistics = None
    if is_bundle or archive.format in STATISTICS:
        from sbformat.formats.vecnormalize import read_vecnormalize

        statistics = try_to(lambda: read_vecnormalize(archive, limits=limits), SETTINGS_ENTRY if is_bundle else "")
    network, network_error = _describe_network(archive, limits)
    state_dicts = [try_to(partial(_describe_state_dict, name, archive, budget), name) for name in archive.state_dicts]
    if isinstance(archive.stored_entries.file, FileSource):  # too large to be in memory
        try_to(archive.check, "")
    return InspectReport(
        format=archive.format,
        stable_baselines3_version=try_to(lambda: archive.stable_baselines3_version, VERSION_ENTRY),
        algorithm=archive.algorithm if data is not None and archive.format not in (*OBJECTS, "policy-file") else None,
        policy_class=None if data is None else class_reference(data.get("policy_class", data.get("policy"))),  # of SB2
        system_info=system_info.fields if system_info is not None else None,
        data=data,
        hyperparameters=archive.hyperparameters() if data is not None else None,
        entries=tuple(archive.entries.values()),
        state_dicts=tuple(report for report in state_dicts if report is not None),
        extra=tuple(archive.extra),
        broken=tuple(broken),
        notes=(
            *archive.notes,
            *_describe_modules(archive),
            *([_BUNDLE_NOTE] if is_bundle else []),
            *([_NORMALIZED_NOTE] if data is not None and not is_bundle and _is_normalized(archive) else []),
        ),
        network=network,
        network_error=network_error,
        statistics=statistics,
        not_checked=archive.not_checked(),
    )


def _describe_modules(archive: Archive) -> list[str]:
    """Return which whole modules a torch file contains, as sentences."""
    notes = []
    for name in archive.state_dicts if archive.format in _LONE else ():
        with contextlib.suppress(SbformatError):
            classes = archive.state_dict(name).classes
            for path, made in classes.items():
                if not path or ("" not in classes and path.rpartition(".")[0] not in classes):
                    where = f"{quote(path)}: " if path else ""
                    notes.append(f"{where}a whole module was pickled, of the class {made}; this is its state dict")
    return notes


def _describe_network(archive: Archive, limits: Limits) -> tuple[Summary | None, str | None]:
    """Return the network of an archive's policy, or why it is not known."""
    if archive.format not in _POLICIES:
        return None, None
    from sbformat.policies.describe import summarize
    from sbformat.policies.loading import policy_graph

    try:
        return summarize(policy_graph(archive, vecnormalize=False, limits=limits)), None
    except SbformatError as error:
        return None, str(error).partition("\n")[0]


def _is_normalized(archive: Archive) -> bool:
    """Return whether it is certain that the agent was trained behind VecNormalize."""
    if archive.data.get("_last_original_obs") is None:  # most of them, without an import
        return False
    from sbformat.formats.normalized import is_surely_normalized

    return is_surely_normalized(archive)


def _describe_state_dict(name: str, archive: Archive, budget: Budget) -> StateDictReport:
    state_dict = archive.state_dict(name)
    rows = []
    values: dict[str, Any] = {}
    owners: dict[int, str] = {}
    for path, value in state_dict.leaves():
        row = _describe_tensor(path, value, owners)
        if row is None:
            values[path] = value
        else:
            rows.append(row)
    budget.spend("reported_values", len(rows) + len(values))
    if values == {"": {}}:
        values = {}
    storages = sum(storage.nbytes for storage in state_dict.storages())
    return StateDictReport(name, tuple(rows), values, sum(prod(row.shape) for row in rows), storages)


def _describe_tensor(path: str, value: Any, owners: dict[int, str]) -> TensorRow | None:
    """Return the row of a tensor; None for another value.

    :param owners: the first tensor of each storage, by its ``id()``; updated
    """
    kind = _KINDS.get(type(value))
    if kind is None:
        return None
    info, nbytes, shares = value, 0, None
    if kind == "tensor":
        kind, nbytes = "parameter" if value.is_parameter else kind, value.nbytes
        owner = owners.setdefault(id(value.storage), path)
        shares = owner if owner != path else None
    elif kind == "sparse":
        info, nbytes = value.values, sum(part.nbytes for part in (*value.indices, value.values))
    elif kind == "quantized":
        info = value = value.int_repr
        nbytes = info.nbytes
    else:
        nbytes = prod(value.shape) * DTYPES[value.dtype].itemsize
    location = "meta" if kind == "meta" else info.location
    return TensorRow(path, kind, info.dtype, value.shape, nbytes, info.requires_grad, location, shares)
