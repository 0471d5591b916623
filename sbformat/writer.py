"""``write``, ``writes`` and ``new``: archives to files, bytes and other archives (WRITER.md 12).

An archive is written as SB3 writes it: the same order, stored, with fixed dates, so that the same entries give the same
bytes. Entries that were not edited are copied byte for byte. What was written is read again by the strict reader.

All functions that write a file write it whole or not at all, and have one rule for existing files: they are replaced
with ``overwrite=True`` only, otherwise a ``FileExistsError`` is raised.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from io import BytesIO
from typing import IO, TYPE_CHECKING, Any, Final

from sbformat.archive.archive import Archive
from sbformat.archive.kinds import detect_zip_kind, refuse_kind
from sbformat.constants import (
    DATA_ENTRY,
    OPTIMIZER_WORD,
    PLAIN_ENTRIES,
    POLICY_ENTRY,
    PTH_SUFFIX,
    PYTORCH_VARIABLES_ENTRY,
    SYSTEM_INFO_ENTRY,
    TENSORS_ENTRY,
    VERSION_ENTRY,
)
from sbformat.container.layout import is_state_dict
from sbformat.container.reader import Container
from sbformat.container.writer import ContainerWriter, write_all
from sbformat.errors import ContainerError, SbformatError, require_names, require_type
from sbformat.io.atomic import new_file, open_new
from sbformat.io.source import READ_AHEAD_BYTES, BytesSource, FileSource, read_ahead
from sbformat.limits import Budget
from sbformat.pth import StateDict, clear_optimizer, decode_zip, encode_pth
from sbformat.pth.compare import Mismatch, fit_all, misfit
from sbformat.pth.decode import open_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sbformat.container.layout import Chunks
    from sbformat.io.source import Source
    from sbformat.pth.values import OnUnknown

_FIRST: Final = (DATA_ENTRY, PYTORCH_VARIABLES_ENTRY, TENSORS_ENTRY, POLICY_ENTRY)
_LAST: Final = (VERSION_ENTRY, SYSTEM_INFO_ENTRY)
_POLICY: Final = POLICY_ENTRY.removesuffix(PTH_SUFFIX)


def write(
    archive: Archive,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    reencode: bool = False,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Write an archive to a file, whole or not at all.

    It is written to a temporary file beside the target, synced, read again by the strict reader, and renamed; on any
    failure an existing file is unchanged. Its mode is kept; if it is a symbolic link, the file that the link points to
    is replaced. The archive may be the one in the target. Tensors are streamed, not copied. :func:`sbformat.validate`
    checks whether SB3 can load the archive; this function does not.

    >>> archive = sbformat.read("ppo.zip")
    >>> sbformat.write(archive.replace(data={**archive.data, "gamma": 0.98}), "edited.zip")

    :param archive: the archive
    :param path: the target; no ``.zip`` is added
    :param overwrite: replace an existing file
    :param reencode: encode every ``.pth`` and ``data`` again from its values, instead of copying its bytes
    :param progress: called with the number of bytes each time some were written
    :raises FileExistsError: if the target exists and ``overwrite`` is False
    :raises OSError: if it cannot be written, or is not a regular file
    :raises SbformatError: if an entry cannot be encoded, or :func:`sbformat.read` would refuse the result
    """
    _require_archive(archive)
    with new_file(path, overwrite=overwrite) as temporary:
        with open_new(temporary) as file:
            encoded = _write_entries(archive, file, reencode=reencode, progress=progress)
            os.fsync(file.fileno())
        _verify_output(FileSource(temporary), archive, encoded, check_crcs=True)
        archive.check()


def writes(archive: Archive, *, reencode: bool = False) -> bytes:
    """Return the bytes that :func:`write` writes; equal entries give equal bytes.

    >>> sbformat.reads(sbformat.writes(archive)) == archive
    True

    :param archive: the archive
    :param reencode: see :func:`write`
    :raises SbformatError: see :func:`write`
    """
    _require_archive(archive)
    file = BytesIO()
    encoded = _write_entries(archive, file, reencode=reencode)
    data = file.getvalue()
    _verify_output(BytesSource(data), archive, encoded, check_crcs=False)
    return data


def write_pth(
    state_dict: StateDict,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
    check: Callable[[], None] | None = None,
) -> None:
    """Write a state dict to a ``.pth`` file, in the same way as :func:`write`.

    :param state_dict: from an archive, or from :meth:`StateDict.from_arrays`
    :param path: the target
    :param overwrite: replace an existing file
    :param progress: see :func:`write`
    :param check: called after the last byte, before the target is replaced; its errors are raised
    """
    made = encode_pth(state_dict)
    with new_file(path, overwrite=overwrite) as temporary:
        with open_new(temporary) as file:
            for chunk in _iter_chunks(made.chunks, made.size, progress):
                write_all(file, chunk)
            os.fsync(file.fileno())
        source, budget = FileSource(temporary), state_dict.new_budget()
        budget.grant(source.size)
        _check_pth(source, budget, "inert").verify_all()
        if check:
            check()


def _sort_entries(names: Iterable[str]) -> list[str]:
    """Return the names in SB3's order (FORMAT.md 1.2); optimizers and extra entries keep theirs."""
    return sorted(names, key=_rank)


def _rank(name: str) -> int:
    if name in _FIRST:
        return _FIRST.index(name)
    if is_state_dict(name):
        return len(_FIRST)
    return len(_FIRST) + 1 + (_LAST.index(name) if name in _LAST else len(_LAST))


def _require_archive(value: Archive) -> None:
    """Refuse another type; of the results of ``rebuild``, ``edit`` and ``unbundle`` the field ``archive`` is one."""
    require_type(value, Archive, "an Archive (its field archive)" if hasattr(value, "archive") else "an Archive")


def _write_entries(
    archive: Archive, file: IO[bytes], *, reencode: bool, progress: Callable[[int], None] | None = None
) -> frozenset[str]:
    """Write the zip; return the names of the entries that were encoded, not copied."""
    writer = ContainerWriter(file)
    encoded = set()
    for name in _sort_entries(archive.entries):
        try:
            member, is_new = archive.encode_entry(name, reencode=reencode)
            if is_new:
                encoded.add(name)
            writer.add(member._replace(chunks=partial(_iter_chunks, member.chunks, member.size, progress)))
        except SbformatError as error:
            if error.entry is None or not f"{error.entry}/".startswith(f"{name}/"):
                error.within(name)  # a record of a .pth knows its own name only
            raise
    writer.finish()
    return frozenset(encoded)


def _iter_chunks(
    chunks: Callable[[], Chunks], size: int, progress: Callable[[int], None] | None
) -> Iterator[bytes | memoryview]:
    """Yield chunks and report them; large ones are encoded in a thread while others are written."""
    for chunk in read_ahead(chunks()) if size >= READ_AHEAD_BYTES else chunks():
        yield chunk
        if progress:
            progress(len(chunk))


def _verify_output(source: Source, archive: Archive, encoded: frozenset[str], *, check_crcs: bool) -> None:
    """Read the result with the strict reader, and raise its errors.

    :param encoded: the names of entries that were encoded; the others are copies
    :param check_crcs: read everything again and check every CRC, to detect what the disk returns differently
    """
    budget = Budget(archive.limits)
    budget.grant(source.size)
    container = Container(source, budget=budget)
    if list(container) != _sort_entries(archive.entries):
        raise ContainerError("the file that was written does not contain the expected entries")
    kind = detect_zip_kind(container.entries)
    if kind != "sb3":
        refuse_kind(kind, source, container.entries)
    again = Archive(container, kind, budget)
    for name in container:
        if name in encoded and name in PLAIN_ENTRIES:
            again.decode_plain(name)
        elif name in encoded and is_state_dict(name):
            try:
                records = _check_pth(container.source(name), budget, archive.on_unknown)
                if check_crcs:
                    container.check_zip(name, records)
                    records.verify_all()
            except SbformatError as error:
                raise error.within(name) from None
    if check_crcs:
        container.verify_all()


def _check_pth(source: Source, budget: Budget, on_unknown: OnUnknown) -> Container:
    """Read a torch zip that was written, without holding its tensors' bytes; return its records."""
    records = open_records(source, budget)
    decode_zip(records, budget, on_unknown=on_unknown)
    return records


# -- a new archive ------------------------------------------------------------------------------------


def new(template: Archive, parameters: Mapping[str, Any], *, data: Mapping[str, Any] | None = None) -> Archive:
    """Return an archive with the hyper-parameters and spaces of a template, and other weights.

    >>> weights = sbformat.read_parameters("trained.zip", entries=["policy"])
    >>> archive = sbformat.new(sbformat.read("template.zip"), weights, data={"num_timesteps": 1_000_000})

    :param template: an archive of the same algorithm, spaces and architecture
    :param parameters: arrays in the form of :func:`sbformat.read_parameters` and SB3's ``get_parameters``:
        ``{"policy": {name: array}}``, and optimizers if available. Names and shapes must be the template's; dtypes are
        converted to its dtypes. The state of other optimizers is emptied, because it belongs to other weights. Of an
        optimizer whose state is empty in the template only the number of parameters and the options are checked.
    :param data: new values for keys of ``data``
    :raises ValidationError: if names, shapes or values do not fit, or ``data`` describes another network than the
        template's; ``problems`` are all of them
    :raises MissingEntryError: for a state dict that the template does not have
    """
    _require_archive(template)
    require_type(parameters, Mapping, "state dicts by name")
    require_names(parameters.keys(), "parameters")
    made = fit_all(parameters, lambda name, value: _fit_state_dict(template.state_dict(name + PTH_SUFFIX), value))
    for name in template.parameters:
        if OPTIMIZER_WORD in name and name not in made:
            made[name] = clear_optimizer(template.parameters[name])
    result = template.replace(data={**template.data, **data} if data else ..., parameters=made)
    if (data or _POLICY in made) and POLICY_ENTRY in result.state_dicts:
        _check_network(template, result)
    return result


def _check_network(template: Archive, made: Archive) -> None:
    """Refuse ``data`` that describes another network than the template's, and contradictory names of one tensor."""
    found = _network_misfits(made)
    before = _network_misfits(template) if found else []
    if new_ones := [row for row in found if row not in before]:
        raise misfit(new_ones)


def _network_misfits(archive: Archive) -> list[Mismatch]:
    """List the differences between the policy and the network of ``data``; none if the network is not known."""
    from sbformat.nets.arguments import NetworkError
    from sbformat.nets.reading import find_contradictions, match_network
    from sbformat.nets.wrappers import unwrap_policy

    try:
        match = match_network(archive)
        if match.mismatches:
            return [Mismatch(f"{_POLICY}:{row.name}", "shape", row.message) for row in match.mismatches]
        found = find_contradictions(unwrap_policy(archive).state_dict, match.parameters)
        return [Mismatch(f"{_POLICY}:{row.name}", "contradiction", row.message) for row in found]
    except NetworkError as error:
        return [Mismatch(error.key, "value", f"SB3 cannot make the network: {error.message}")]
    except SbformatError:
        return []


def _fit_state_dict(template: StateDict, value: Any) -> StateDict:
    """Return an optimizer's state dict as given, if it fits; for others, the template's with the given arrays."""
    given = value if isinstance(value, StateDict) else StateDict.from_arrays(value, like=template)
    if "param_groups" in given:
        return template.like_optimizer(given)
    return template.with_values_of(given)
